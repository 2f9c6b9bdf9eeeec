//! Clients of K7 and K8.

use pmu_model::{GpFault, RdpmcCaller, Signal, SignalCounts};

use crate::guest::Guest;

const PARTS: [&str; 2] = ["k7", "k8"];

const EVTSEL: [u32; 4] = [0xC001_0000, 0xC001_0001, 0xC001_0002, 0xC001_0003];
const PERFCTR: [u32; 4] = [0xC001_0004, 0xC001_0005, 0xC001_0006, 0xC001_0007];

/// `EN`.
const EN: u64 = 1 << 22;

/// Linux 6.1 `arch/x86/events/core.c` and `amd/core.c`: `x86_pmu_enable_event` writes the event
/// select with EN, `x86_pmu_disable_all` reads each and clears EN where it is set,
/// `x86_pmu_enable_all` sets it again; the counter stands in between.
#[test]
fn linux_stop_and_start() {
    for name in PARTS {
        let mut guest = Guest::on(name);
        guest.wrmsr(PERFCTR[0], 0x8000_0000_0001);
        guest.wrmsr(EVTSEL[0], 0x0053_0076);
        guest.wrmsr(PERFCTR[2], 0x8000_0000_0001);
        guest.wrmsr(EVTSEL[2], 0x0053_00C0);
        assert_eq!(guest.fire(Signal::CyclesUnhalted, 1000, 3), []);
        assert_eq!(guest.fire(Signal::InsnRetired, 800, 3), []);
        for evtsel in [EVTSEL[0], EVTSEL[2]] {
            let value = guest.rdmsr(evtsel);
            assert_ne!(value & EN, 0);
            guest.wrmsr(evtsel, value & !EN);
        }
        assert_eq!(EVTSEL.map(|msr| guest.rdmsr(msr)), [0x0013_0076, 0, 0x0013_00C0, 0]);
        assert_eq!(guest.fire(Signal::CyclesUnhalted, 77, 0), []);
        assert_eq!(guest.fire(Signal::InsnRetired, 77, 0), []);
        assert!(!guest.pmu.demand().counting);
        assert_eq!([guest.rdpmc(0), guest.rdpmc(2)], [0x8000_0000_03E9, 0x8000_0000_0321]);
        for (evtsel, config) in [(EVTSEL[0], 0x0013_0076), (EVTSEL[2], 0x0013_00C0)] {
            guest.wrmsr(evtsel, config | EN);
        }
        assert_eq!(guest.fire(Signal::CyclesUnhalted, 7, 0), []);
        assert_eq!([guest.rdpmc(0), guest.rdpmc(2)], [0x8000_0000_03F0, 0x8000_0000_0321]);
    }
}

/// `x86_pmu_handle_irq`: bit 47 clear means overflowed; a period of 100,003.
#[test]
fn linux_sampling() {
    for name in PARTS {
        let mut guest = Guest::on(name);
        guest.wrmsr(PERFCTR[0], 0xFFFF_FFFE_795D);
        guest.wrmsr(EVTSEL[0], 0x0051_00C0);
        assert_eq!(guest.fire(Signal::InsnRetired, 100_002, 3), []);
        assert_ne!(guest.rdpmc(0) & 1 << 47, 0);
        assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
        assert_eq!(guest.rdpmc(0) & 1 << 47, 0);
        assert_eq!(guest.fire(Signal::InsnRetired, 500, 0), [], "USR only");
        assert_eq!(guest.rdpmc(0), 0);
        guest.wrmsr(PERFCTR[0], 0xFFFF_FFFE_795D);
        assert_eq!(guest.pmu.headroom(Signal::InsnRetired), Some(100_003));
    }
}

/// FreeBSD `sys/dev/hwpmc/hwpmc_amd.c`, `amd_intr`: it serves *one* counter an NMI, because "the
/// AMD64 processor appears to deliver as many NMIs as there are outstanding PMC interrupts". Two
/// counters overflow at once: two assertions, or the second would wait for a third event. The
/// reload value is a 64-bit negative number, and the event select must read back as written but for
/// EN.
#[test]
fn freebsd_serves_one_counter_an_nmi() {
    for name in PARTS {
        let mut guest = Guest::on(name);
        for i in [1, 3] {
            guest.wrmsr(PERFCTR[i], 0xFFFF_FFFF_FFFF_FC18);
            assert_eq!(guest.rdmsr(PERFCTR[i]), 0xFFFF_FFFF_FC18);
            guest.wrmsr(EVTSEL[i], 0x0053_00C0);
        }
        let nmis = guest.fire(Signal::InsnRetired, 1000, 3);
        assert_eq!(nmis, [1, 3], "{name}");
        let mut served = Vec::new();
        for _ in &nmis {
            let overflowed = [1, 3].into_iter().find(|&i| guest.rdpmc(i) & 1 << 47 == 0).unwrap();
            let i = overflowed as usize;
            let config = guest.rdmsr(EVTSEL[i]);
            assert_eq!(config, 0x0053_00C0);
            guest.wrmsr(EVTSEL[i], config & !EN);
            guest.wrmsr(PERFCTR[i], 0xFFFF_FFFF_FFFF_FC18);
            guest.wrmsr(EVTSEL[i], config | EN);
            served.push(overflowed);
        }
        assert_eq!(served, [1, 3], "{name}");
        assert_eq!([guest.rdpmc(1), guest.rdpmc(3)], [0xFFFF_FFFF_FC18; 2]);
        assert_eq!(guest.pmu.headroom(Signal::InsnRetired), Some(1000));
    }
}

/// OProfile (Linux 5.11 `arch/x86/oprofile/op_model_amd.c`): the control is read, masked with the
/// reserved bits 63:36 (less 41:40) and 21, and written with them; counters get -1 and -count.
#[test]
fn oprofile_keeps_reserved_bits() {
    for name in PARTS {
        let mut guest = Guest::on(name);
        let kept = guest.rdmsr(EVTSEL[0]) & 0xFFFF_FCF0_0020_0000;
        assert_eq!(kept, 0);
        guest.wrmsr(EVTSEL[0], kept);
        guest.wrmsr(PERFCTR[0], u64::MAX);
        assert_eq!(guest.rdmsr(PERFCTR[0]), 0xFFFF_FFFF_FFFF);
        guest.wrmsr(PERFCTR[0], (-500_i64).cast_unsigned());
        guest.wrmsr(EVTSEL[0], kept | 0x0013_00C0);
        let control = guest.rdmsr(EVTSEL[0]);
        guest.wrmsr(EVTSEL[0], control | EN);
        assert_eq!(guest.fire(Signal::InsnRetired, 500, 3), [0]);
        assert_eq!(guest.rdmsr(PERFCTR[0]) & 1 << 31, 0);
        let control = guest.rdmsr(EVTSEL[0]);
        assert_eq!(control, 0x0053_00C0);
        guest.wrmsr(EVTSEL[0], control & !EN);
    }
}

/// LIKWID `src/includes/perfmon_k10.h`, which drives K8: event selects without EN, then for each
/// counter 0 and EN by read-modify-write; stopping by read-modify-write before the read. User mode
/// only. A read in the middle stops and starts again and keeps the count.
#[test]
fn likwid_four_counters() {
    let mut guest = Guest::on("k8");
    let events = [0x00C0, 0x0076, 0x00C2, 0x00C4];
    for (evtsel, event) in EVTSEL.into_iter().zip(events) {
        guest.wrmsr(evtsel, 0x0001_0000 | event);
    }
    for (evtsel, perfctr) in EVTSEL.into_iter().zip(PERFCTR) {
        guest.wrmsr(perfctr, 0);
        let flags = guest.rdmsr(evtsel);
        guest.wrmsr(evtsel, flags | EN);
    }
    assert_eq!(
        EVTSEL.map(|msr| guest.rdmsr(msr)),
        [0x0041_00C0, 0x0041_0076, 0x0041_00C2, 0x0041_00C4]
    );
    let region: SignalCounts = [
        (Signal::InsnRetired, 1000),
        (Signal::CyclesUnhalted, 1500),
        (Signal::BranchRetired, 200),
        (Signal::BranchTaken, 120),
    ]
    .into_iter()
    .collect();
    for round in 1..=2 {
        assert!(guest.pmu.advance(&region, 3).is_empty());
        assert!(guest.pmu.advance(&region, 0).is_empty(), "the kernel is not counted");
        for evtsel in EVTSEL {
            let flags = guest.rdmsr(evtsel);
            guest.wrmsr(evtsel, flags & !EN);
        }
        assert!(guest.pmu.advance(&region, 3).is_empty(), "stopped");
        let expected = [1000, 1500, 200, 120].map(|n| n * round);
        assert_eq!(PERFCTR.map(|msr| guest.rdmsr(msr)), expected);
        for evtsel in EVTSEL {
            let flags = guest.rdmsr(evtsel);
            guest.wrmsr(evtsel, flags | EN);
        }
    }
}

/// perfctr 2.6 `linux/drivers/perfctr/x86.c`, K7: four event selects, then four counters, all zero.
#[test]
fn perfctr_init() {
    let mut guest = Guest::on("k7");
    for i in 0..4 {
        guest.wrmsr(PERFCTR[i], 0xFFFF_FFFF_FFFF_FFFE);
        guest.wrmsr(EVTSEL[i], 0x0053_00C0);
    }
    for msr in EVTSEL.into_iter().chain(PERFCTR) {
        guest.wrmsr(msr, 0);
    }
    assert_eq!(guest.fire(Signal::InsnRetired, 10, 0), []);
    for msr in EVTSEL.into_iter().chain(PERFCTR) {
        assert_eq!(guest.rdmsr(msr), 0, "{msr:#x}");
    }
    let user = RdpmcCaller { cpl: 3, pce: true, ..RdpmcCaller::default() };
    assert_eq!(guest.pmu.rdpmc(3, user), Ok(0));
}

/// kvm-unit-tests `lib/x86/pmu.c` and `x86/pmu.c` without `PERFCTR_CORE`: `pmu_init` clears all eight
/// registers; RDPMC 64 must fault, bit 31 of the index may (it does), and a stopped counter gives
/// FF0123456789h back through RDPMC.
#[test]
fn kvm_unit_tests_rdpmc() {
    for name in PARTS {
        let mut guest = Guest::on(name);
        for msr in EVTSEL.into_iter().chain(PERFCTR) {
            guest.wrmsr(msr, 0);
        }
        let caller = RdpmcCaller::default();
        assert_eq!(guest.pmu.rdpmc(64, caller), Err(GpFault));
        for (i, msr) in (0..4).zip(PERFCTR) {
            guest.wrmsr(msr, 0xFF01_2345_6789);
            assert_eq!(guest.rdpmc(i), 0xFF01_2345_6789);
            assert_eq!(guest.pmu.rdpmc(i | 1 << 31, caller), Err(GpFault));
        }
    }
}

/// kvm-unit-tests `x86/pmu.c`, `check_counter_overflow`: a loop measured at 10,000,017 instructions
/// is run again from 1 - 10,000,017, written as 64 bits. It ends at 1, having overflowed; odd
/// counters have INT.
#[test]
fn kvm_unit_tests_overflow() {
    for name in PARTS {
        for i in 0..4 {
            let mut guest = Guest::on(name);
            let int = if i % 2 == 1 { 1 << 20 } else { 0 };
            guest.wrmsr(PERFCTR[i], 0);
            guest.wrmsr(EVTSEL[i], 0x0043_00C0 | int);
            assert_eq!(guest.fire(Signal::InsnRetired, 10_000_017, 0), []);
            guest.wrmsr(EVTSEL[i], 0);
            assert_eq!(guest.rdpmc(i as u32), 10_000_017);

            guest.wrmsr(PERFCTR[i], (1_i64 - 10_000_017).cast_unsigned());
            assert_eq!(guest.rdmsr(PERFCTR[i]), 0xFFFF_FF67_6970);
            guest.wrmsr(EVTSEL[i], 0x0043_00C0 | int);
            let pmis = guest.fire(Signal::InsnRetired, 10_000_017, 0);
            assert_eq!(pmis, vec![i; i % 2], "{name}");
            guest.wrmsr(EVTSEL[i], 0);
            assert_eq!(guest.rdpmc(i as u32), 1);
        }
    }
}

/// kvm-unit-tests `x86/pmu.c`, `check_counter_cmask` and `check_running_counter_wrmsr`: CMASK 2
/// counts clocks with two instructions or more; a running counter takes 0 and -1.
#[test]
fn kvm_unit_tests_cmask_and_running_write() {
    for name in PARTS {
        let mut guest = Guest::on(name);
        guest.wrmsr(PERFCTR[0], 0);
        guest.wrmsr(EVTSEL[0], 0x0243_00C0);
        for n in [1, 2, 0, 3, 1, 1, 2] {
            let clock = [(Signal::InsnRetired, n)].into_iter().collect();
            assert!(guest.pmu.cycle(&clock, 0).is_empty());
        }
        assert_eq!(guest.rdpmc(0), 3, "of ten instructions");

        guest.wrmsr(EVTSEL[0], 0x0043_00C0);
        assert_eq!(guest.fire(Signal::InsnRetired, 1000, 0), []);
        guest.wrmsr(PERFCTR[0], 0);
        assert_eq!(guest.fire(Signal::InsnRetired, 5, 0), []);
        assert_eq!(guest.rdpmc(0), 5);
        guest.wrmsr(PERFCTR[0], u64::MAX);
        assert_eq!(guest.rdpmc(0), 0xFFFF_FFFF_FFFF);
        assert_eq!(guest.fire(Signal::InsnRetired, 2, 0), []);
        assert_eq!(guest.rdpmc(0), 1);
    }
}
