//! Registers of the K8, bit by bit, and the sequences that real clients write to them.
//!
//! Source: AMD BKDG 26094, sections 10.1 and 10.2; for what they leave open, the client named in
//! the test.

use pmu_model::{GpFault, MsrAccess, Personality, Pmu, RdpmcCaller, Reset, Signal, SignalSet};

const EVTSEL: [u32; 4] = [0xC001_0000, 0xC001_0001, 0xC001_0002, 0xC001_0003];
const PERFCTR: [u32; 4] = [0xC001_0004, 0xC001_0005, 0xC001_0006, 0xC001_0007];

fn k8() -> Pmu {
    Pmu::new(Personality::by_name("k8").unwrap(), &SignalSet::ALL)
}

fn read(pmu: &Pmu, msr: u32) -> u64 {
    match pmu.read_msr(msr) {
        MsrAccess::Done(value) => value,
        other => panic!("{msr:#x}: {other:?}"),
    }
}

fn write(pmu: &mut Pmu, msr: u32, value: u64) {
    assert_eq!(pmu.write_msr(msr, value), MsrAccess::Done(()), "{msr:#x} := {value:#x}");
}

/// Section 10.2: 31:22 and 20:0 are R/W; 21 "should be zero" and 63:32 "RAZ".
#[test]
fn every_bit_of_the_event_selects() {
    for msr in EVTSEL {
        for bit in 0..64 {
            let mut pmu = k8();
            write(&mut pmu, msr, 1 << bit);
            let writable = bit <= 31 && bit != 21;
            assert_eq!(read(&pmu, msr), if writable { 1 << bit } else { 0 }, "{msr:#x} bit {bit}");
            for other in EVTSEL.iter().chain(&PERFCTR).filter(|&&other| other != msr) {
                assert_eq!(read(&pmu, *other), 0, "{msr:#x} bit {bit} leaks into {other:#x}");
            }
        }
    }
}

/// Section 10.1: 47:0 counter value, 63:48 RAZ.
#[test]
fn every_bit_of_the_counters() {
    for msr in PERFCTR {
        for bit in 0..64 {
            let mut pmu = k8();
            write(&mut pmu, msr, 1 << bit);
            assert_eq!(read(&pmu, msr), if bit < 48 { 1 << bit } else { 0 }, "{msr:#x} bit {bit}");
            for other in EVTSEL.iter().chain(&PERFCTR).filter(|&&other| other != msr) {
                assert_eq!(read(&pmu, *other), 0, "{msr:#x} bit {bit} leaks into {other:#x}");
            }
        }
    }
}

/// A clear bit over a set one is written too.
#[test]
fn ones_are_cleared_by_zeroes() {
    let mut pmu = k8();
    for msr in EVTSEL.into_iter().chain(PERFCTR) {
        write(&mut pmu, msr, u64::MAX);
        write(&mut pmu, msr, 0);
        assert_eq!(read(&pmu, msr), 0);
    }
}

#[test]
fn neighbours_of_the_register_block_are_not_ours() {
    let mut pmu = k8();
    for msr in [0, 0x10, 0x186, 0xC1, 0xC000_FFFF, 0xC001_0008, 0xC001_0010, 0xC001_0200, u32::MAX]
    {
        assert_eq!(pmu.read_msr(msr), MsrAccess::NotOurs, "{msr:#x}");
        assert_eq!(pmu.write_msr(msr, 0), MsrAccess::NotOurs, "{msr:#x}");
    }
}

/// A counter that counts nothing, and nothing else, is written without anything having to be counted before; 47:0 are
/// its bits, and one write is seen in no other register.
#[test]
fn idle_counters_are_written_alone() {
    /// Retired instructions, at all levels, enabled.
    const COUNTS: u64 = 1 << 22 | 3 << 16 | 0xC0;
    let value = 0xFEDC_BA98_7654_3210;
    for enabled in 0..4 {
        for msr in EVTSEL.iter().chain(&PERFCTR).chain(&[0xC000_FFFF, 0xC001_0008, 0xC1, 0x10]) {
            let mut pmu = k8();
            write(&mut pmu, EVTSEL[enabled], COUNTS);
            let is_idle = PERFCTR.contains(msr) && *msr != PERFCTR[enabled];
            let expected = is_idle.then_some(MsrAccess::Done(()));
            assert_eq!(pmu.write_idle_counter(*msr, value), expected, "{msr:#x}, {enabled}");
            for other in PERFCTR {
                let held = if is_idle && other == *msr { 0xBA98_7654_3210 } else { 0 };
                assert_eq!(read(&pmu, other), held, "{msr:#x}, {enabled}: {other:#x}");
            }
            assert_eq!(read(&pmu, EVTSEL[enabled]), COUNTS);
        }
    }
}

/// RDPMC: ECX 0 to 3; above CPL 0 only with CR4.PCE; always in real mode; #GP otherwise. Index 64
/// is what kvm-unit-tests tries; bit 31 selects fast reads on other processors only.
#[test]
fn rdpmc_rules() {
    let mut pmu = k8();
    for (i, msr) in (0..4_u32).zip(PERFCTR) {
        write(&mut pmu, msr, 0xFF01_2345_6700 + u64::from(i));
    }
    for i in 0..4 {
        let value = Ok(0xFF01_2345_6700 + u64::from(i));
        let caller = RdpmcCaller::default();
        assert_eq!(pmu.rdpmc(i, RdpmcCaller::default()), value);
        for cpl in 1..4 {
            assert_eq!(pmu.rdpmc(i, RdpmcCaller { cpl, ..caller }), Err(GpFault));
            assert_eq!(pmu.rdpmc(i, RdpmcCaller { cpl, pce: true, ..caller }), value);
        }
        assert_eq!(pmu.rdpmc(i, RdpmcCaller { real_mode: true, ..caller }), value);
        assert_eq!(
            pmu.rdpmc(i, RdpmcCaller { cpl: 3, real_mode: true, ..caller }),
            value,
            "real mode has no CPL to check"
        );
    }
    for index in [4, 5, 64, 0x8000_0000, 0x8000_0003, 0xC001_0004, u32::MAX] {
        assert_eq!(pmu.rdpmc(index, RdpmcCaller::default()), Err(GpFault), "{index:#x}");
    }
}

/// Registers are zero after power-up and after a warm reset; INIT keeps them.
#[test]
fn resets() {
    let mut pmu = k8();
    let fresh = pmu.clone();
    let program = |pmu: &mut Pmu| {
        for i in 0..4 {
            write(pmu, EVTSEL[i], 0x0053_00C0 + i as u64);
            write(pmu, PERFCTR[i], 0x1000 + i as u64);
        }
    };
    program(&mut pmu);
    pmu.reset(Reset::Init);
    for i in 0..4 {
        assert_eq!(read(&pmu, EVTSEL[i]), 0x0053_00C0 + i as u64);
        assert_eq!(read(&pmu, PERFCTR[i]), 0x1000 + i as u64);
    }
    assert!(pmu.fire(Signal::InsnRetired, 5, 0).is_empty());
    assert_eq!(read(&pmu, PERFCTR[0]), 0x1005, "counting goes on after INIT");
    pmu.reset(Reset::Warm);
    for msr in EVTSEL.into_iter().chain(PERFCTR) {
        assert_eq!(read(&pmu, msr), 0);
    }
    assert!(!pmu.demand().counting);
    assert_eq!(pmu.counter_stats(0).unwrap().total().count, 5, "the run's statistics stay");
    program(&mut pmu);
    pmu.reset(Reset::Cold);
    assert_eq!(pmu, fresh);
}

/// Linux `check_hw_exists`: no EN bit set at boot; the last counter takes `value ^ 0xFFFF` and
/// gives exactly that back.
#[test]
fn linux_check_hw_exists() {
    let mut pmu = k8();
    for msr in EVTSEL {
        assert_eq!(read(&pmu, msr) & 1 << 22, 0);
    }
    let value = read(&pmu, PERFCTR[3]) ^ 0xFFFF;
    write(&mut pmu, PERFCTR[3], value);
    assert_eq!(read(&pmu, PERFCTR[3]), value);
    assert_eq!(pmu.rdpmc(3, RdpmcCaller::default()), Ok(0xFFFF));
}

/// Linux `perf stat -e cycles`: preset `-2^47 + 1`, event select with EN, read by RDPMC, then EN
/// off by a write without it; the counter stands.
#[test]
fn linux_start_read_stop() {
    let mut pmu = k8();
    write(&mut pmu, PERFCTR[0], 0x8000_0000_0001);
    write(&mut pmu, EVTSEL[0], 0x0053_0076);
    assert!(pmu.fire(Signal::CyclesUnhalted, 1000, 3).is_empty());
    assert_eq!(pmu.rdpmc(0, RdpmcCaller::default()), Ok(0x8000_0000_03E9));
    write(&mut pmu, EVTSEL[0], 0x0013_0076);
    assert!(pmu.fire(Signal::CyclesUnhalted, 1000, 3).is_empty());
    assert_eq!(pmu.rdpmc(0, RdpmcCaller::default()), Ok(0x8000_0000_03E9));
    assert_eq!(read(&pmu, EVTSEL[0]), 0x0013_0076, "FreeBSD: reads back as written");
}

/// kvm-unit-tests writes negative presets as 64-bit values, and -1 to a running counter; OProfile
/// writes -1. The upper 16 bits are ignored.
#[test]
fn sign_extended_presets_are_cut_to_48_bits() {
    let mut pmu = k8();
    write(&mut pmu, PERFCTR[1], 0xFFFF_FFFF_FFFF_FFF6);
    assert_eq!(read(&pmu, PERFCTR[1]), 0xFFFF_FFFF_FFF6);
    write(&mut pmu, EVTSEL[1], 0x0053_00C0);
    write(&mut pmu, PERFCTR[1], u64::MAX);
    assert_eq!(read(&pmu, PERFCTR[1]), 0xFFFF_FFFF_FFFF);
    assert_eq!(pmu.fire(Signal::InsnRetired, 1, 0).count(), 1);
    assert_eq!(read(&pmu, PERFCTR[1]), 0);
}

/// LIKWID: setup without EN, counter := 0, EN by read-modify-write; stop by read-modify-write; user
/// mode only.
#[test]
fn likwid_start_stop() {
    let mut pmu = k8();
    write(&mut pmu, EVTSEL[2], 0x0001_00C0);
    write(&mut pmu, PERFCTR[2], 0);
    let select = read(&pmu, EVTSEL[2]);
    write(&mut pmu, EVTSEL[2], select | 1 << 22);
    assert!(pmu.fire(Signal::InsnRetired, 123, 3).is_empty());
    assert!(pmu.fire(Signal::InsnRetired, 77, 0).is_empty());
    let select = read(&pmu, EVTSEL[2]);
    assert_eq!(select, 0x0041_00C0);
    write(&mut pmu, EVTSEL[2], select & !(1 << 22));
    assert!(pmu.fire(Signal::InsnRetired, 5, 3).is_empty());
    assert_eq!(read(&pmu, PERFCTR[2]), 123);
}

/// Linux may write event-select bit 40 (guest only) and OProfile read-modify-writes the reserved
/// bits: ignored, never #GP, and they do not change what is counted.
#[test]
fn reserved_bits_do_not_disturb_counting() {
    let mut pmu = k8();
    write(&mut pmu, EVTSEL[0], 0xFFFF_FFFF_0073_00C0);
    assert_eq!(read(&pmu, EVTSEL[0]), 0x0053_00C0);
    assert!(pmu.fire(Signal::InsnRetired, 7, 0).is_empty());
    assert_eq!(read(&pmu, PERFCTR[0]), 7);
}
