//! How fast the fuzz target `pmu` plays scripts: `pmu-model` and the reference beside it, compared after each
//! operation.

use std::time::Duration;

use fuzz::driver::Target;
use fuzz::random::Random;

use crate::{RUNS, Result, clock};

/// Inputs of one measurement: about a second.
const INPUTS: u64 = 100_000;

/// Scripts of 50 operations a second on one core.
pub(crate) fn speed() -> Result<()> {
    let target = Target::named("pmu").ok_or("no target pmu")?;
    let (mut best, mut operations) = (Duration::MAX, 0);
    for _ in 0..RUNS {
        let (mut random, start) = (Random::new(1), clock::own()?);
        operations = 0;
        for _ in 0..INPUTS {
            operations += (target.play)(&(target.input)(&mut random))?;
        }
        best = best.min(clock::own()?.saturating_sub(start));
    }
    println!("| target | scripts of 50 operations a second |");
    println!("|---|---|");
    println!("| pmu | {:.0} |", operations as f64 / 50.0 / best.as_secs_f64());
    Ok(())
}
