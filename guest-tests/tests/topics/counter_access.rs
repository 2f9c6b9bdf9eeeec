//! RDPMC, RDMSR and WRMSR of counters in any order while some of them count: each instruction is counted
//! by the programming that it began under, and a read does not include itself (BKDG 10.1 and 10.2; Intel
//! SDM volume 3, "Performance Monitoring"). A write to a counter replaces what there was, itself included.
//!
//! What is expected is worked out instruction by instruction, [`Expected::retire`].

use guest_tests::msr::{CMASK_1, OS};
use guest_tests::part::{Event, Registers, event};
use guest_tests::random::Random;
use guest_tests::{DISABLING, Guest, Part, Result, run};

topics!(instructions, with_a_counter_mask, with_a_model);

/// Programs of each kind, and random steps of each.
const PROGRAMS: u64 = 3;
const STEPS: usize = 60;

/// Every counter counts instructions.
fn instructions(part: &'static Part) -> Result {
    check(part, part.counters, |_| (part.instructions, OS))
}

/// The last counter compares the instructions of each cycle with one: each cycle retires one.
fn with_a_counter_mask(part: &'static Part) -> Result {
    let last = part.counters - 1;
    let flags = move |n| if n == last { OS | CMASK_1 } else { OS };
    check(part, part.counters, |n| (part.instructions, flags(n)))
}

/// The last counter counts what only a model of the caches tells: misses of data reads (K7, K8) or of
/// reads and writes; it is none of those that are checked.
fn with_a_model(part: &'static Part) -> Result {
    let misses = event(match part.registers {
        Registers::Amd => 0x41,
        Registers::P55c | Registers::Knc => 0x03,
        Registers::P6 => 0x45,
    });
    let last = part.counters - 1;
    check(part, last, |n| (if n == last { misses } else { part.instructions }, OS))
}

/// What the counters hold and which of them count.
struct Expected {
    part: &'static Part,
    values: [u64; 4],
    counting: [bool; 4],
    /// The names of what was read, and the values, if they are foreseen.
    read: Vec<(String, Option<u64>)>,
}

impl Expected {
    /// So many instructions retire.
    fn retire(&mut self, instructions: u64) {
        for (value, _) in self.values.iter_mut().zip(self.counting).filter(|(_, counts)| *counts) {
            *value = (*value + instructions) & self.part.width_mask();
        }
    }
}

/// Runs random programs, in which each counter counts what `selects` says, and expects of the first
/// `checked` counters that they count instructions.
fn check(
    part: &'static Part,
    checked: u32,
    selects: impl Fn(u32) -> (Event, u64) + Copy,
) -> Result {
    for seed in 0..PROGRAMS {
        let expected =
            &mut Expected { part, values: [0; 4], counting: [false; 4], read: Vec::new() };
        let image = Guest::assemble(part, |g| {
            // Counter 0 counts until the end: with it the others are started and stopped by the same
            // number of instructions on all parts.
            let (event, flags) = selects(0);
            g.start(0, event, flags, 0)?;
            expected.counting[0] = true;
            let mut random = Random(seed);
            for _ in 0..STEPS {
                step(g, &mut random, expected, checked, selects)?;
            }
            for n in 1..part.counters {
                g.stop(n)?;
            }
            g.stop(0)
        })?;
        let outcome = run(part, &image);
        for (name, value) in &expected.read {
            if let Some(value) = *value {
                outcome.expect(&[(name, value)]);
            }
        }
    }
    Ok(())
}

/// Adds a random step to a program.
fn step(
    g: &mut Guest,
    random: &mut Random,
    expected: &mut Expected,
    checked: u32,
    selects: impl Fn(u32) -> (Event, u64),
) -> Result {
    let part = expected.part;
    let n = random.below(part.counters.into()) as u32;
    let counter = n as usize;
    match random.below(6) {
        0 => {
            let nops = 1 + random.below(40);
            (0..nops).try_for_each(|_| g.nop())?;
            expected.retire(nops);
        }
        // MOV, the read, MOV, MOV.
        way @ (1 | 2) => {
            expected.retire(1);
            match way {
                1 => g.read_pmc(n)?,
                _ => g.read_msr(part.perfctr(n))?,
            }
            let name = format!("{} of {n}", expected.read.len());
            g.report(&name)?;
            let value = (n < checked).then_some(expected.values[counter]);
            expected.read.push((name, value));
            expected.retire(3);
        }
        // MOV, MOV, MOV, WRMSR.
        3 => {
            // Some of them wrap.
            let value = random.below(1 << 20).wrapping_sub(random.below(2) * 25);
            g.write_msr(part.perfctr(n), part.written(value))?;
            expected.retire(4);
            expected.values[counter] = part.written(value);
        }
        _ if n == 0 => {}
        _ if expected.counting[counter] => {
            g.stop(n)?;
            expected.retire(DISABLING);
            expected.counting[counter] = false;
        }
        _ => {
            let (event, flags) = selects(n);
            let preset = random.below(1000);
            g.start(n, event, flags, preset)?;
            expected.retire(part.starting());
            expected.values[counter] = preset;
            expected.counting[counter] = true;
        }
    }
    Ok(())
}
