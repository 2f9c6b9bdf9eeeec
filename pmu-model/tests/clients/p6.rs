//! Clients of the P6 family.

use pmu_model::{GpFault, RdpmcCaller, Signal};

use crate::guest::Guest;

const EVTSEL0: u32 = 0x186;
const EVTSEL1: u32 = 0x187;
const CTR0: u32 = 0xC1;
const CTR1: u32 = 0xC2;

/// `EN`.
const EN: u64 = 1 << 22;

fn counters(guest: &Guest) -> [u64; 2] {
    [guest.rdpmc(0), guest.rdpmc(1)]
}

/// Linux 6.1 `arch/x86/events/intel/p6.c`: `p6_pmu_enable_event` writes an event select without EN,
/// `p6_pmu_enable_all` and `..._disable_all` read-modify-write EN in 186h, and
/// `p6_pmu_disable_event` writes 0000002Eh, L2 requests in no state. Written to 186h that clears EN
/// too: counter 1 stands until the next `enable_all`.
#[test]
fn linux_enable_disable_and_the_nop_event() {
    let mut guest = Guest::on("p6");
    // disable_all.
    assert_eq!(guest.rdmsr(EVTSEL0), 0);
    guest.wrmsr(EVTSEL0, 0);
    // Instructions on counter 0, cycles on counter 1, longest period.
    guest.wrmsr(CTR0, 0x8000_0001);
    guest.wrmsr(EVTSEL0, 0x0013_00C0);
    guest.wrmsr(CTR1, 0x8000_0001);
    guest.wrmsr(EVTSEL1, 0x0013_0079);
    assert_eq!(guest.fire(Signal::InsnRetired, 50, 0), []);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 60, 0), []);
    assert_eq!(counters(&guest), [0xFF_8000_0001, 0xFF_8000_0001], "EN is still clear");
    // enable_all.
    let evtsel0 = guest.rdmsr(EVTSEL0);
    assert_eq!(evtsel0, 0x0013_00C0);
    guest.wrmsr(EVTSEL0, evtsel0 | EN);
    assert_eq!(guest.rdmsr(EVTSEL0), 0x0053_00C0);
    assert_eq!(guest.rdmsr(EVTSEL1), 0x0013_0079);
    assert_eq!(guest.fire(Signal::InsnRetired, 100, 3), []);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 250, 3), []);
    assert_eq!(counters(&guest), [0xFF_8000_0065, 0xFF_8000_00FB]);

    // disable_event of counter 0, as a sampling handler does without disable_all.
    guest.wrmsr(EVTSEL0, 0x2E);
    assert_eq!(guest.rdmsr(EVTSEL0), 0x2E);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 0), []);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 9, 0), []);
    assert_eq!(counters(&guest), [0xFF_8000_0065, 0xFF_8000_00FB], "both stand");
    assert!(!guest.pmu.demand().counting);

    // enable_all: counter 1 goes on, counter 0 counts nothing.
    let evtsel0 = guest.rdmsr(EVTSEL0);
    guest.wrmsr(EVTSEL0, evtsel0 | EN);
    assert_eq!(guest.rdmsr(EVTSEL0), 0x0040_002E);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 5, 3), []);
    assert_eq!(guest.fire(Signal::L2RequestInvalid, 5, 3), []);
    assert_eq!(guest.fire(Signal::L2RequestModified, 5, 3), []);
    assert_eq!(counters(&guest), [0xFF_8000_0065, 0xFF_8000_0100]);

    // disable_event of counter 1: it alone stops.
    guest.wrmsr(EVTSEL1, 0x2E);
    assert_eq!(guest.rdmsr(EVTSEL1), 0x2E);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 7, 3), []);
    assert_eq!(counters(&guest), [0xFF_8000_0065, 0xFF_8000_0100]);
    // disable_all.
    let evtsel0 = guest.rdmsr(EVTSEL0);
    guest.wrmsr(EVTSEL0, evtsel0 & !EN);
    assert_eq!(guest.rdmsr(EVTSEL0), 0x2E);
    assert!(guest.pmu.uncounted().is_empty(), "nothing was selected that does not count");
}

/// With only counter 1 in use 186h is 00400000h after `enable_all`: EN gates counter 1 on.
#[test]
fn linux_counter_1_alone() {
    let mut guest = Guest::on("p6");
    guest.wrmsr(CTR1, 0xFFFF_FFF0);
    guest.wrmsr(EVTSEL1, 0x0013_00C4);
    guest.wrmsr(EVTSEL0, EN);
    assert_eq!(guest.fire(Signal::BranchRetired, 15, 3), []);
    assert_eq!(counters(&guest), [0, 0xFF_FFFF_FFFF]);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 3), [1]);
    assert_eq!(counters(&guest), [0, 0]);
    assert!(guest.pmu.uncounted().is_empty());
}

/// Linux 6.1 `arch/x86/events/core.c`, `x86_pmu_handle_irq`: both counters sampled every 1000 events
/// overflow together; one NMI reads both by RDPMC, finds bit 31 clear in both, and presets each with
/// what is left of its period.
#[test]
fn linux_handles_both_counters_in_one_nmi() {
    let mut guest = Guest::on("p6");
    for (counter, evtsel) in [(CTR0, EVTSEL0), (CTR1, EVTSEL1)] {
        guest.wrmsr(counter, 0xFFFF_FC18);
        assert_eq!(guest.rdmsr(counter), 0xFF_FFFF_FC18);
        guest.wrmsr(evtsel, 0x0013_00C0);
    }
    guest.wrmsr(EVTSEL0, 0x0053_00C0);
    assert_eq!(guest.fire(Signal::InsnRetired, 999, 3), []);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0, 1], "none is lost");
    // Seven instructions of the handler, counted because perf counts the kernel too.
    assert_eq!(guest.fire(Signal::InsnRetired, 7, 0), []);
    assert_eq!(counters(&guest).map(|value| value & 1 << 31), [0, 0]);
    assert_eq!(counters(&guest), [7, 7]);
    // 1007 counted of 1000: 993 to go.
    guest.wrmsr(CTR0, 0xFFFF_FC1F);
    guest.wrmsr(CTR1, 0xFFFF_FC1F);
    assert_eq!(guest.pmu.headroom(Signal::InsnRetired), Some(993));
    assert_eq!(counters(&guest).map(|value| value & 1 << 31), [1 << 31, 1 << 31]);
}

/// OProfile (Linux 5.11 `arch/x86/oprofile/op_model_ppro.c`): `ppro_setup_ctrs` writes counters with
/// -1 and with -count in 64 bits, `ppro_start` and `ppro_stop` read-modify-write EN in *each* event
/// select, `ppro_check_ctrs` tests bit 31.
#[test]
fn oprofile_sets_en_in_both() {
    let mut guest = Guest::on("ppro");
    for (counter, evtsel) in [(CTR0, EVTSEL0), (CTR1, EVTSEL1)] {
        let kept = guest.rdmsr(evtsel) & 0xFFFF_FFFF_0020_0000;
        assert_eq!(kept, 0);
        guest.wrmsr(evtsel, kept);
        guest.wrmsr(counter, u64::MAX);
        assert_eq!(guest.rdmsr(counter), 0xFF_FFFF_FFFF);
    }
    for (counter, evtsel, control) in [(CTR0, EVTSEL0, 0x0013_00C0), (CTR1, EVTSEL1, 0x0013_0079)] {
        // -6000.
        guest.wrmsr(counter, 0xFFFF_FFFF_FFFF_E890);
        assert_eq!(guest.rdmsr(counter), 0xFF_FFFF_E890);
        let kept = guest.rdmsr(evtsel) & 0xFFFF_FFFF_0020_0000;
        guest.wrmsr(evtsel, kept | control);
    }
    for evtsel in [EVTSEL0, EVTSEL1] {
        let control = guest.rdmsr(evtsel);
        guest.wrmsr(evtsel, control | EN);
    }
    assert_eq!([guest.rdmsr(EVTSEL0), guest.rdmsr(EVTSEL1)], [0x0053_00C0, 0x0053_0079]);
    assert_eq!(guest.fire(Signal::InsnRetired, 5999, 3), []);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 6000, 3), [1]);
    assert_eq!([guest.rdmsr(CTR0), guest.rdmsr(CTR1)], [0xFF_FFFF_FFFF, 0]);
    assert_eq!(guest.rdmsr(CTR1) & 1 << 31, 0, "overflowed");
    guest.wrmsr(CTR1, 0xFFFF_FFFF_FFFF_E890);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);

    // Stopping counter 0 stops both, with EN still set in 187h.
    let control = guest.rdmsr(EVTSEL0);
    guest.wrmsr(EVTSEL0, control & !EN);
    assert_eq!(guest.rdmsr(EVTSEL1), 0x0053_0079);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 100, 0), []);
    assert_eq!(guest.rdmsr(CTR1), 0xFF_FFFF_E890);
}

/// perfctr 2.6 `linux/drivers/perfctr/x86.c`, `p6_init` and its clearing of the registers: event
/// selects first, then counters. Presets have an upper half of ones. It sets CR4.PCE, user code
/// reads the lower halves by RDPMC, and bit 31 tells whether a counter overflowed.
#[test]
fn perfctr_init_and_use() {
    let mut guest = Guest::on("p6");
    for (msr, left_by_others) in
        [(CTR0, 0xFFFF), (CTR1, 0x1234), (EVTSEL1, 0x0053_0079), (EVTSEL0, 0x0053_00C0)]
    {
        guest.wrmsr(msr, left_by_others);
    }
    for msr in [EVTSEL0, EVTSEL1, CTR0, CTR1] {
        guest.wrmsr(msr, 0);
    }
    assert_eq!(guest.fire(Signal::InsnRetired, 10, 0), []);
    assert_eq!(counters(&guest), [0, 0]);

    // Counter 1 counts user instructions with INT; EN has to be in 186h.
    guest.wrmsr(CTR1, 0xFFFF_FFFF_FFFF_FFF0);
    guest.wrmsr(EVTSEL1, 0x0011_00C0);
    guest.wrmsr(EVTSEL0, 0x0041_0079);
    assert_eq!(guest.fire(Signal::InsnRetired, 10, 3), []);
    let user = RdpmcCaller { cpl: 3, pce: true, ..RdpmcCaller::default() };
    assert_eq!(guest.pmu.rdpmc(1, user), Ok(0xFF_FFFF_FFFA));
    assert_eq!(guest.pmu.rdpmc(1, RdpmcCaller { pce: false, ..user }), Err(GpFault));
    assert_eq!(guest.fire(Signal::InsnRetired, 8, 3), [1]);
    assert_eq!(guest.pmu.rdpmc(1, user), Ok(2), "bit 31 of the lower half is clear");
}
