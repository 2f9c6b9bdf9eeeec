//! How fast fuzz targets play scripts: `pmu` with `pmu-model` and the reference beside it, compared after each operation;
//! `machine` in a machine that is reset before each, once in blocks and nothing compared.

use std::time::Duration;

use fuzz::driver::Target;
use fuzz::random::Random;

use crate::{RUNS, Result, clock};

/// Inputs of one measurement: about a second.
const PMU_INPUTS: u64 = 100_000;
const MACHINE_INPUTS: u64 = 5_000;

/// Scripts of 50 operations a second on one core.
pub(crate) fn speed() -> Result<()> {
    let pmu = Target::named("pmu").ok_or("no target pmu")?;
    let machine = Target::named("machine").ok_or("no target machine")?;
    println!("| target | scripts of 50 operations a second |");
    println!("|---|---|");
    println!("| pmu | {:.0} |", rate(pmu, pmu.play, |_| (), PMU_INPUTS)?);
    for (clock, bits) in [("flat", 0), ("auto", 2), ("model", 3)] {
        // The upper bits of the first byte say whose clock the time is on.
        let on_clock = |input: &mut Vec<u8>| input[0] = input[0] & 0x3F | bits << 6;
        let rate = rate(machine, fuzz::machine::play_once, on_clock, MACHINE_INPUTS)?;
        println!("| machine, timing {clock} | {rate:.0} |");
    }
    Ok(())
}

/// The best of several times, in the order in which `vpmu fuzz` plays them.
fn rate(
    target: Target,
    play: fn(&[u8]) -> std::result::Result<usize, String>,
    change: impl Fn(&mut Vec<u8>),
    inputs: u64,
) -> Result<f64> {
    let (mut best, mut operations) = (Duration::MAX, 0);
    for _ in 0..RUNS {
        let (mut random, start) = (Random::new(1), clock::own()?);
        operations = 0;
        for (_, mut input) in target.inputs(&mut random, inputs) {
            change(&mut input);
            operations += play(&input)?;
        }
        best = best.min(clock::own()?.saturating_sub(start));
    }
    Ok(operations as f64 / 50.0 / best.as_secs_f64())
}
