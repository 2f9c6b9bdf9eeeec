//! A workload on the software engine.

use std::time::Duration;

use vpmu::boot::Payload;
use vpmu::config::Limits;
use vpmu::machine::End;

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

/// Runs `payload` to its end on one K8 processor with `ram` bytes.
pub(crate) fn time(payload: Payload, ram: u64) -> Result<(Run, End)> {
    let started = clock::own()?;
    let mut machine = Setup::k8(ram).machine(payload)?;
    let end = machine::run(&mut machine, Limits::default())?;
    Ok((Run { time: clock::own()?.saturating_sub(started), instructions: machine.retired() }, end))
}

/// Runs a workload.
pub(crate) fn run(workload: Workload, iterations: u64) -> Result<Run> {
    match time(machine::flat(guest::assemble(workload, iterations)?), 16 << 20)? {
        (run, End::Exit(_)) => Ok(run),
        (_, end) => Err(format!("the guest ended with {end:?}").into()),
    }
}

/// Instructions of `n` further iterations.
pub(crate) fn instructions(workload: Workload, n: u64) -> Result<u64> {
    Ok(run(workload, n + 1)?.instructions - run(workload, 1)?.instructions)
}
