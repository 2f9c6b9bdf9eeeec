//! A workload on the software engine, in this process.

use std::io;
use std::time::Duration;

use vpmu::boot::memory::RamLayout;
use vpmu::boot::{self, Payload};
use vpmu::config::{self, Boot, Config, Limits};
use vpmu::console::Console;
use vpmu::devices::rtc;
use vpmu::engine::{Count, EngineKind};
use vpmu::input::Script;
use vpmu::machine::{End, Machine};
use vpmu::platform::Isa;

use crate::Result;
use crate::clock;
use crate::guest::{self, Workload};

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) time: Duration,
    pub(crate) instructions: u64,
}

/// Runs `payload` to its end on one K8 processor with `ram` bytes.
pub(crate) fn time(payload: Payload, ram: u64) -> Result<(Run, End)> {
    let (personality, platform) = config::personality("k8")?;
    let config = Config {
        personality,
        platform,
        isa: Isa::Strict,
        lvtpc_auto_mask: personality.lvtpc_auto_mask,
        cpus: 1,
        ram: RamLayout::new(ram, None)?,
        payload,
        boot: Boot::Direct,
        clock_hz: platform.clock_hz,
        start_time: rtc::DEFAULT_START,
        skid: 0,
        script: Script::default(),
        engine: EngineKind::Soft,
        count: Count::Exact,
        hypervisor_bit: false,
        limits: Limits { timeout: None, instructions: None },
    };
    let mut console = Console::to("nowhere".into(), Box::new(io::sink()));
    let started = clock::own()?;
    let mut machine = Machine::new(&config)?;
    let end = machine.run(config.limits, &mut console)?;
    Ok((Run { time: clock::own()?.saturating_sub(started), instructions: machine.retired() }, end))
}

/// Runs a workload.
pub(crate) fn run(workload: Workload, iterations: u64) -> Result<Run> {
    let image = guest::assemble(workload, iterations)?;
    let payload = Payload::Flat {
        image: boot::Image { name: "guest".into(), bytes: image.bytes },
        address: image.load_address,
    };
    match time(payload, 16 << 20)? {
        (run, End::Exit(_)) => Ok(run),
        (_, end) => Err(format!("the guest ended with {end:?}").into()),
    }
}

/// Instructions of `n` further iterations.
pub(crate) fn instructions(workload: Workload, n: u64) -> Result<u64> {
    Ok(run(workload, n + 1)?.instructions - run(workload, 1)?.instructions)
}
