//! What the statistics say of a counter that was programmed and could not count, or counted at no CPL that
//! ran. AMD 26094, section 10.2; Intel SDM volume 3, "PerfEvtSel0 and PerfEvtSel1 MSRs" and "Performance
//! Monitoring (Pentium Processors)"; Intel 327357-001, section 1.4.3.

use pmu_model::{Missing, MsrAccess, Personality, Pmu, Signal, SignalSet};

// Bits of an event select.
const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const EN: u64 = 1 << 22;

fn pmu(name: &str, writes: &[(u32, u64)]) -> Pmu {
    let mut pmu = Pmu::new(Personality::by_name(name).unwrap(), &SignalSet::ALL);
    for &(index, value) in writes {
        assert_eq!(pmu.write_msr(index, value), MsrAccess::Done(()), "{name} {index:x}");
    }
    pmu
}

fn missing(name: &str, counter: usize, writes: &[(u32, u64)]) -> Option<(u64, Missing)> {
    let stats = pmu(name, writes).counter_stats(counter).unwrap();
    stats.never_enabled().map(|never| (never.word, never.missing))
}

#[test]
fn what_kept_a_counter_from_counting_is_named() {
    let word = USR | OS | 0xC0;
    // AMD: each its own EN.
    for counter in 0..4 {
        let select = 0xC001_0000 + counter as u32;
        let expected = Some((word, Missing::Enable(counter)));
        assert_eq!(missing("k8", counter, &[(select, word)]), expected);
        // Cleared at the end: that it was programmed remains.
        assert_eq!(missing("k8", counter, &[(select, word), (select, 0)]), expected);
        assert_eq!(missing("k8", counter, &[(select, word), (select, word | EN)]), None);
        assert_eq!(missing("k8", counter, &[(select, word | EN), (select, word)]), None);
        let expected = Some((0xC0, Missing::PrivilegeLevel));
        assert_eq!(missing("k8", counter, &[(select, 0xC0 | EN)]), expected);
        assert_eq!(missing("k8", counter, &[(select, 0)]), None);
    }
    // P6: EN of PerfEvtSel0 for both, and that of PerfEvtSel1 does nothing.
    assert_eq!(missing("p6", 1, &[(0x187, word | EN)]), Some((word, Missing::Enable(0))));
    assert_eq!(missing("p6", 1, &[(0x187, word), (0x186, EN | word)]), None);
    // Knights Corner: EN, then the bit of GLOBAL_CTRL, then the user preference.
    let (select, global, spflt) = (0x29, 0x2F, 0x2C);
    assert_eq!(missing("knc", 1, &[(select, word)]), Some((word, Missing::Enable(1))));
    let written = [(select, word | EN), (global, 1)];
    assert_eq!(missing("knc", 1, &written), Some((word, Missing::GlobalEnable)));
    let written = [(spflt, 2), (global, 2), (select, word | EN)];
    assert_eq!(missing("knc", 1, &written), Some((word, Missing::UserPreference)));
    assert_eq!(missing("knc", 1, &[(global, 2), (select, word | EN)]), None);
    // Pentium: the half of CESR of counter 1 is in bits 25:16; event 16h, CC in bits 8:6 of the half.
    let expected = Some((0x16, Missing::PrivilegeLevel));
    assert_eq!(missing("p55c", 1, &[(0x11, 0x16 << 16)]), expected);
    assert_eq!(missing("p55c", 1, &[(0x11, 0x56 << 16)]), None);
    assert_eq!(missing("p55c", 0, &[(0x11, 0x56 << 16)]), None);
}

/// Counter 0 counts at CPL 3, counter 1 at CPL 0, and 2 from the second programming on. Time without a
/// cycle has not run.
#[test]
fn the_levels_that_ran_are_those_while_it_was_enabled() {
    let mut pmu = pmu("k8", &[(0xC001_0000, USR | EN | 0xC0), (0xC001_0001, OS | EN | 0xC0)]);
    let ran = |pmu: &Pmu| {
        [0, 1, 2].map(|counter| {
            let stats = pmu.counter_stats(counter).unwrap();
            stats.selections().first().map(|selection| selection.ran_at)
        })
    };
    assert_eq!(ran(&pmu), [Some(0), Some(0), None]);
    let _ = pmu.fire(Signal::CyclesUnhalted, 0, 2);
    let _ = pmu.fire(Signal::InsnRetired, 5, 1);
    assert_eq!(ran(&pmu), [Some(0), Some(0), None]);
    let _ = pmu.fire(Signal::CyclesUnhalted, 5, 0);
    assert_eq!(ran(&pmu), [Some(0b0001), Some(0b0001), None]);
    assert_eq!(pmu.write_msr(0xC001_0002, USR | EN | 0xC0), MsrAccess::Done(()));
    let _ = pmu.advance_by(3, |_| 1);
    assert_eq!(ran(&pmu), [Some(0b1001), Some(0b1001), Some(0b1000)]);
    assert_eq!(pmu.write_msr(0xC001_0000, 0), MsrAccess::Done(()));
    let _ = pmu.fire(Signal::CyclesUnhalted, 5, 1);
    assert_eq!(ran(&pmu), [Some(0b1001), Some(0b1011), Some(0b1010)]);
}
