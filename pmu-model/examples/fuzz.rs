//! A fuzz target: bytes played as accesses to the PMU of each processor.
//!
//!     cargo run -p pmu-model --example fuzz README.md          # any files, or standard input
//!
//! With cargo-fuzz it is `fuzz_target!(|data: &[u8]| target(data));`, with AFL
//! `afl::fuzz!(|data: &[u8]| target(data));`.

use std::io::Read as _;

use pmu_model::{MsrAccess, Personality, Pmu, Signal, SignalSet};

/// Ten bytes a step: what is done, to which register or signal, and a value.
pub(crate) fn target(data: &[u8]) {
    for personality in Personality::ALL {
        let mut pmu = Pmu::new(personality, &SignalSet::ALL);
        for (step, value) in data.chunks_exact(10).map(|bytes| bytes.split_at(2)) {
            let value = u64::from_le_bytes(value.try_into().expect("eight bytes"));
            let register = personality.registers.get(usize::from(step[1]) % 16);
            // Beyond the registers there are, any number.
            let msr = register.map_or(value as u32, |register| register.msr);
            let before = pmu.clone();
            let asked = pmu.demand().signals.iter().nth(usize::from(step[1]) % 4);
            let signal = asked.unwrap_or(Signal::InsnRetired);
            let cpl = step[0] >> 6;
            match step[0] % 4 {
                0 => {
                    let outcome = pmu.write_msr(msr, value);
                    assert_eq!(outcome, before.judge_write(msr, value));
                    // A refused write changes nothing.
                    assert!(outcome == MsrAccess::Done(()) || pmu == before);
                }
                1 => {
                    let stored = personality.register(msr).map_or(0, |register| register.stored);
                    let read = pmu.read_msr(msr);
                    assert!(!matches!(read, MsrAccess::Done(bits) if bits & !stored != 0));
                }
                2 => {
                    // Fewer occurrences than the PMU says do not overflow a counter, if only by one.
                    let overflow = pmu.headroom(signal).unwrap_or(u64::MAX);
                    let few = overflow.saturating_sub(1 + value % 4);
                    assert!(pmu.fire(signal, few, cpl).is_empty());
                }
                _ => {
                    let cycle = [(Signal::CyclesUnhalted, 1), (signal, value % 4)];
                    assert!(pmu.cycle(&cycle.into_iter().collect(), cpl).count() <= 4);
                }
            }
            assert!(Pmu::restore(personality, &SignalSet::ALL, &pmu.save()) == Ok(pmu.clone()));
        }
    }
}

fn main() -> std::io::Result<()> {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    for file in &files {
        target(&std::fs::read(file)?);
    }
    if files.is_empty() {
        let mut data = Vec::new();
        std::io::stdin().read_to_end(&mut data)?;
        target(&data);
    }
    Ok(())
}
