//! Saving and restoring.

use pmu_model::{
    MsrAccess, Personality, Pmu, PmuStateV1, RdpmcCaller, Signal, SignalCounts, SignalSet,
    StateError,
};

fn k8() -> &'static Personality {
    Personality::by_name("k8").unwrap()
}

/// A PMU in the middle of its work: an edge counter whose level is up, a sampling counter close
/// to its overflow, a stopped one.
fn busy() -> Pmu {
    let mut pmu = Pmu::new(k8(), &SignalSet::ALL);
    for (msr, value) in [
        (0xC001_0004, 0xFFFF_FFFF_FF00),
        (0xC001_0000, 0x0053_00C0),
        (0xC001_0001, 0x0047_00CD),
        (0xC001_0002, 0x0003_00C2),
        (0xC001_0003, 0x0043_0041),
    ] {
        assert_eq!(pmu.write_msr(msr, value), MsrAccess::Done(()));
    }
    assert!(pmu.cycle(&one_cycle(), 0).is_empty());
    pmu
}

fn one_cycle() -> SignalCounts {
    [(Signal::InsnRetired, 2), (Signal::CyclesUnhalted, 1), (Signal::CyclesIntMasked, 1)]
        .into_iter()
        .collect()
}

/// A restored PMU is equal, and goes on equally: the level that was up gives no second edge, and
/// the overflow comes with the same instruction.
#[test]
fn a_restored_pmu_goes_on_where_it_was() {
    let mut original = busy();
    let mut restored = Pmu::restore(k8(), &SignalSet::ALL, &original.save()).unwrap();
    assert_eq!(restored, original);
    for n in 0..300 {
        let pmis = original.cycle(&one_cycle(), 0);
        assert_eq!(restored.cycle(&one_cycle(), 0), pmis);
        // 256 instructions to go, 2 in the first cycle, 2 in each of these.
        assert_eq!(pmis.count(), u32::from(n == 126), "cycle {n}");
    }
    assert_eq!(restored, original);
    assert_eq!(restored.rdpmc(1, RdpmcCaller::default()), Ok(1));
}

#[test]
fn impossible_states_are_refused() {
    let good = busy().save();
    let restore = |change: fn(&mut PmuStateV1)| {
        let mut state = good.clone();
        change(&mut state);
        Pmu::restore(k8(), &SignalSet::ALL, &state)
    };
    assert!(restore(|_| {}).is_ok());
    assert_eq!(restore(|s| s.version = 2), Err(StateError::Version(2)));
    assert_eq!(restore(|s| s.personality = *b"k7\0\0\0\0\0\0"), Err(StateError::Personality));
    assert_eq!(restore(|s| s.registers.evtsel[2] |= 1 << 21), Err(StateError::Registers));
    assert_eq!(restore(|s| s.registers.perfctr[3] = 1 << 48), Err(StateError::Registers));
    assert_eq!(restore(|s| s.registers.cesr = 1), Err(StateError::Registers));
    assert_eq!(restore(|s| s.edge_levels[0] = 0x10), Err(StateError::EdgeLevel));
    assert_eq!(good.personality, *b"k8\0\0\0\0\0\0");
}

/// Whatever a PMU was used for before, and however much.
#[test]
fn a_state_takes_the_place_of_what_was_there() {
    let states = [Pmu::new(k8(), &SignalSet::ALL), busy()].map(|pmu| pmu.save());
    for state in states {
        let mut pmu = busy();
        // Three events on each counter, counted at every CPL (AMD 26094, 10.2: EN, OS, USR).
        for (counter, event) in (0..4).flat_map(|counter| [0xC0, 0xC2, 0x76].map(|e| (counter, e)))
        {
            let evtsel = 1 << 22 | 1 << 17 | 1 << 16 | event;
            assert_eq!(pmu.write_msr(0xC001_0000 + counter, evtsel), MsrAccess::Done(()));
            assert!(pmu.fire(Signal::InsnRetired, 5, 0).is_empty());
        }
        assert_ne!(pmu.save(), state);
        assert_eq!(pmu.load(&state), Ok(()));
        assert_eq!(pmu.save(), state);
    }
}
