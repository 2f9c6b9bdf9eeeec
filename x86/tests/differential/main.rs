//! The software CPU against the host's processor.
//!
//! A case is one random instruction of the set that both have, with random operands. The same stub
//! (load all registers, the instruction, store all registers) runs natively and on the software
//! CPU; memory, general registers, the defined flags, x87 and SSE state must come out equal. No
//! expectation is typed in: the silicon is the oracle. What the manuals leave open is not compared
//! with a host of another vendor than the software CPU's ([`open`]); what AMD's and Intel's
//! processors are known to do there is in [`recorded`].
//!
//! `VPMU_DIFFERENTIAL_CASES` sets the number of cases (one million by default),
//! `VPMU_DIFFERENTIAL_SEED` the seed.

mod generate;
#[path = "../host/mod.rs"]
mod host;
mod native;
mod open;
mod recorded;
mod soft;
mod state;

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::thread;

use generate::Generator;
use host::Vendor;
use open::open;
use state::Case;
use x86_cpu::features::Features;

/// A linear congruential step and an output permutation: small, seeded, the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 33;
        let x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ x >> 29
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Cases that the host's processor may be ahead of the software CPU.
const AHEAD: usize = 256;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.replace('_', "").parse().ok()).unwrap_or(default)
}

#[test]
fn random_instructions_do_what_the_host_does() {
    let cases = setting("VPMU_DIFFERENTIAL_CASES", 1_000_000);
    let seed = setting("VPMU_DIFFERENTIAL_SEED", 1);
    let generator = Generator::new();
    let mut soft = soft::Soft::new(Features::K8);
    let vendor = Vendor::of_host();
    let mut differences = BTreeMap::<String, (u64, String)>::new();
    let mut run = 0;
    let (tell, told) = sync_channel(AHEAD);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Dropped with this thread, which ends the loop of the other.
            let tell = tell;
            let mut random = Random(seed);
            let mut native = native::Native::new();
            let all = std::iter::repeat_with(|| Case::random(&mut random, &generator));
            for case in all.flatten().take(cases as usize) {
                let expected = native.run(&case);
                // It fails if the other thread has ended, which says why.
                if tell.send((case, expected)).is_err() {
                    return;
                }
            }
        });
        for (case, expected) in told {
            let actual = soft.run(&case);
            run += 1;
            if let Some(difference) = case.compare(&expected, &actual, open(&case, vendor)) {
                let entry = differences
                    .entry(format!("{:?}", case.instruction.code()))
                    .or_insert_with(|| (0, difference));
                entry.0 += 1;
            }
        }
    });
    assert_eq!(run, cases);
    for (code, (count, first)) in &differences {
        println!("{code}: {count} differences; the first:\n{first}");
    }
    println!("{run} cases of {} encodings, seed {seed}", generator.len());
    assert!(differences.is_empty(), "{} encodings differ from the host", differences.len());
}
