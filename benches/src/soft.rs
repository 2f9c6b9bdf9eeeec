//! A workload on the software engine.

use std::time::Duration;

use vpmu::boot::Payload;
use vpmu::config::{self, Limits};
use vpmu::machine::End;
use vpmu::program::Image;
use vpmu::truth::record::{DEFAULT_EVENTS, Recorder};

use crate::Result;
use crate::clock;
use crate::guest::{self, Workload};
use crate::machine::{self, Setup};

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) time: Duration,
    pub(crate) instructions: u64,
}

/// Runs `payload` to its end, and records what is executed if that is wanted.
pub(crate) fn time_of(setup: Setup, payload: Payload, recorded: bool) -> Result<(Run, End)> {
    let started = clock::own()?;
    let mut machine = setup.machine(payload)?;
    if recorded {
        let (personality, _) = config::personality(setup.cpu)?;
        machine.record(Recorder::new(personality, DEFAULT_EVENTS)?)?;
    }
    let end = machine::run(&mut machine, Limits::default())?;
    Ok((Run { time: clock::own()?.saturating_sub(started), instructions: machine.retired() }, end))
}

/// Runs a workload.
pub(crate) fn run(workload: Workload, iterations: u64) -> Result<Run> {
    run_of(workload, iterations, false)
}

/// Runs a workload and records what is executed.
pub(crate) fn run_recorded(workload: Workload, iterations: u64) -> Result<Run> {
    run_of(workload, iterations, true)
}

fn run_of(workload: Workload, iterations: u64, recorded: bool) -> Result<Run> {
    run_image("k8", guest::assemble(workload, iterations)?, recorded)
}

/// Runs an image to where it ends the machine.
pub(crate) fn run_image(cpu: &'static str, image: Image, recorded: bool) -> Result<Run> {
    match time_of(Setup::soft(cpu, 16 << 20), machine::flat(image), recorded)? {
        (run, End::Exit(_)) => Ok(run),
        (_, end) => Err(format!("the guest ended with {end:?}").into()),
    }
}

/// Instructions of `n` further iterations.
pub(crate) fn instructions(workload: Workload, n: u64) -> Result<u64> {
    Ok(run(workload, n + 1)?.instructions - run(workload, 1)?.instructions)
}
