//! What the Linux PMU core does on every processor that it drives.

use pmu_model::{Reset, Signal};

use crate::guest::Guest;

/// Event select and counter MSRs of a processor, by counter.
struct Driver {
    name: &'static str,
    evtsel: &'static [u32],
    perfctr: &'static [u32],
}

const DRIVERS: [Driver; 6] = [
    Driver { name: "ppro", evtsel: &[0x186, 0x187], perfctr: &[0xC1, 0xC2] },
    Driver { name: "pii", evtsel: &[0x186, 0x187], perfctr: &[0xC1, 0xC2] },
    Driver { name: "p6", evtsel: &[0x186, 0x187], perfctr: &[0xC1, 0xC2] },
    Driver {
        name: "k7",
        evtsel: &[0xC001_0000, 0xC001_0001, 0xC001_0002, 0xC001_0003],
        perfctr: &[0xC001_0004, 0xC001_0005, 0xC001_0006, 0xC001_0007],
    },
    Driver {
        name: "k8",
        evtsel: &[0xC001_0000, 0xC001_0001, 0xC001_0002, 0xC001_0003],
        perfctr: &[0xC001_0004, 0xC001_0005, 0xC001_0006, 0xC001_0007],
    },
    Driver { name: "knc", evtsel: &[0x28, 0x29], perfctr: &[0x20, 0x21] },
];

/// Linux 6.1 `arch/x86/events/core.c`, `check_hw_exists`: no event select may fault or have EN; the
/// last counter takes its value with the lower 16 bits turned round, and gives exactly that back.
/// It stays so.
#[test]
fn check_hw_exists() {
    for driver in DRIVERS {
        let mut guest = Guest::on(driver.name);
        for &evtsel in driver.evtsel {
            assert_eq!(guest.rdmsr(evtsel) & 1 << 22, 0, "{}", driver.name);
        }
        let last = driver.perfctr.len() - 1;
        let counter = driver.perfctr[last];
        let value = guest.rdmsr(counter);
        assert_eq!(value, 0);
        guest.wrmsr(counter, value ^ 0xFFFF);
        assert_eq!(guest.rdmsr(counter), 0xFFFF, "{}", driver.name);
        assert_eq!(guest.rdpmc(last as u32), 0xFFFF, "{}", driver.name);
    }
}

/// The same after a kexec, in which the counter holds what the last kernel left: a preset, read back
/// with its sign and nothing above the width.
#[test]
fn check_hw_exists_on_a_used_counter() {
    for (name, counter, left, read, turned) in [
        ("p6", 0xC2, 0x8000_0001_u64, 0xFF_8000_0001_u64, 0xFF_8000_FFFE_u64),
        ("k7", 0xC001_0007, 0x8000_0000_0001, 0x8000_0000_0001, 0x8000_0000_FFFE),
        ("k8", 0xC001_0007, 0x8000_0000_0001, 0x8000_0000_0001, 0x8000_0000_FFFE),
        ("knc", 0x21, 0x80_0000_0001, 0x80_0000_0001, 0x80_0000_FFFE),
    ] {
        let mut guest = Guest::on(name);
        guest.wrmsr(counter, left);
        guest.pmu.reset(Reset::Init);
        let value = guest.rdmsr(counter);
        assert_eq!(value, read, "{name}");
        guest.wrmsr(counter, value ^ 0xFFFF);
        assert_eq!(guest.rdmsr(counter), turned, "{name}");
    }
}

/// `x86_perf_event_set_period` presets a counter with the negative of what is left, cut to the width
/// that the driver declares; the top bit is set until it overflows. The longest period, and 100,003.
#[test]
fn presets() {
    for (name, counter, longest, read_longest, short, read_short) in [
        ("p6", 0xC1, 0x8000_0001_u64, 0xFF_8000_0001_u64, 0xFFFE_795D_u64, 0xFF_FFFE_795D_u64),
        ("k7", 0xC001_0004, 0x8000_0000_0001, 0x8000_0000_0001, 0xFFFF_FFFE_795D, 0xFFFF_FFFE_795D),
        ("k8", 0xC001_0004, 0x8000_0000_0001, 0x8000_0000_0001, 0xFFFF_FFFE_795D, 0xFFFF_FFFE_795D),
        ("knc", 0x20, 0x80_0000_0001, 0x80_0000_0001, 0xFF_FFFE_795D, 0xFF_FFFE_795D),
    ] {
        let mut guest = Guest::on(name);
        guest.wrmsr(counter, longest);
        assert_eq!(guest.rdpmc(0), read_longest, "{name}");
        guest.wrmsr(counter, short);
        assert_eq!(guest.rdpmc(0), read_short, "{name}");
    }
}

/// `cycles` and `instructions` of the generic map (`p6_perfmon_event_map`, `amd_perfmon_event_map`,
/// `knc_perfmon_event_map`), with INT, OS and USR as perf always sets them, and EN where it belongs.
#[test]
fn generic_cycles_and_instructions() {
    for (name, writes, counters) in [
        (
            "p6",
            &[(0x186, 0x0013_0079), (0x187, 0x0013_00C0), (0x186, 0x0053_0079)][..],
            [0xC1, 0xC2],
        ),
        (
            "k7",
            &[(0xC001_0000, 0x0053_0076), (0xC001_0001, 0x0053_00C0)],
            [0xC001_0004, 0xC001_0005],
        ),
        (
            "k8",
            &[(0xC001_0000, 0x0053_0076), (0xC001_0001, 0x0053_00C0)],
            [0xC001_0004, 0xC001_0005],
        ),
        ("knc", &[(0x28, 0x0053_002A), (0x29, 0x0053_0016), (0x2F, 3)], [0x20, 0x21]),
    ] {
        let mut guest = Guest::on(name);
        for &(msr, value) in writes {
            guest.wrmsr(msr, value);
            assert_eq!(guest.rdmsr(msr), value, "{name} {msr:#x}");
        }
        assert_eq!(guest.fire(Signal::CyclesUnhalted, 2500, 3), []);
        assert_eq!(guest.fire(Signal::CyclesUnhalted, 30, 0), []);
        assert_eq!(guest.fire(Signal::InsnRetired, 1700, 3), []);
        assert_eq!(guest.fire(Signal::InsnRetired, 8, 0), []);
        assert_eq!(counters.map(|msr| guest.rdmsr(msr)), [2530, 1708], "{name}");
    }
}

/// `perf stat -e instructions:u,instructions:k`: USR is CPL 1 to 3 and OS CPL 0 on every processor
/// that Linux drives (Intel SDM volume 3, AMD 22007, BKDG 26094 section 10.2, Intel 327357-001 table
/// 1-5).
#[test]
fn user_and_kernel_modifiers() {
    for (name, common, user, kernel) in [
        ("p6", &[][..], (0x187, 0x0011_00C0, 0xC2), (0x186, 0x0052_00C0, 0xC1)),
        (
            "k7",
            &[],
            (0xC001_0000, 0x0051_00C0, 0xC001_0004),
            (0xC001_0001, 0x0052_00C0, 0xC001_0005),
        ),
        (
            "k8",
            &[],
            (0xC001_0000, 0x0051_00C0, 0xC001_0004),
            (0xC001_0001, 0x0052_00C0, 0xC001_0005),
        ),
        ("knc", &[(0x2F, 3)], (0x28, 0x0051_0016, 0x20), (0x29, 0x0052_0016, 0x21)),
    ] {
        let mut guest = Guest::on(name);
        for &(msr, value) in common {
            guest.wrmsr(msr, value);
        }
        for (evtsel, select, _) in [user, kernel] {
            guest.wrmsr(evtsel, select);
        }
        for (cpl, n) in [(0, 1000), (1, 200), (2, 30), (3, 4)] {
            assert_eq!(guest.fire(Signal::InsnRetired, n, cpl), []);
        }
        assert_eq!([guest.rdmsr(user.2), guest.rdmsr(kernel.2)], [234, 1000], "{name}");
    }
}
