//! Clients of Knights Corner.

use pmu_model::{MsrAccess, Signal};

use crate::guest::Guest;

const CTR0: u32 = 0x20;
const CTR1: u32 = 0x21;
const EVTSEL0: u32 = 0x28;
const EVTSEL1: u32 = 0x29;
const SPFLT_CONTROL: u32 = 0x2C;
const STATUS: u32 = 0x2D;
const OVF_CTRL: u32 = 0x2E;
const CTRL: u32 = 0x2F;

/// What the handler of the Linux driver found.
#[derive(Debug, PartialEq)]
enum Handled {
    /// No status bit: the NMI has another source.
    Nothing,
    /// These counters, in the order in which they were served.
    Counters(Vec<u32>),
}

/// Linux 6.1 `arch/x86/events/intel/knc.c`, `knc_pmu_handle_irq`: GLOBAL_CTRL off, then acknowledge
/// and serve until the status is zero, then GLOBAL_CTRL on. Serving presets the counter with
/// `preset`. LVTPC is not touched, nor is 2Ch.
fn linux_handle_irq(guest: &mut Guest, preset: u64) -> Handled {
    let ctrl = guest.rdmsr(CTRL);
    guest.wrmsr(CTRL, ctrl & !3);
    let mut status = guest.rdmsr(STATUS);
    let mut served = Vec::new();
    while status != 0 {
        assert!(served.len() < 100, "irq loop stuck");
        guest.wrmsr(OVF_CTRL, status);
        for bit in (0..64).filter(|bit| status >> bit & 1 != 0) {
            guest.wrmsr(CTR0 + bit, preset);
            served.push(bit);
        }
        status = guest.rdmsr(STATUS);
    }
    let ctrl = guest.rdmsr(CTRL);
    guest.wrmsr(CTRL, ctrl | 3);
    if served.is_empty() { Handled::Nothing } else { Handled::Counters(served) }
}

/// The driver writes the event select of counter 1 to 2Ah (`hwc->config_base + hwc->idx`, where the
/// base is the counter's own already): no register of the PMU, so 29h stays 0 and counter 1 keeps its
/// preset. The driver's accessor takes a #GP, and its second counter never counts.
#[test]
fn linux_second_counter_never_counts() {
    let mut guest = Guest::on("knc");
    // disable_all.
    assert_eq!(guest.rdmsr(CTRL), 0);
    guest.wrmsr(CTRL, 0);
    guest.wrmsr(CTR0, 0x80_0000_0001);
    guest.wrmsr(EVTSEL0, 0x0053_002A);
    guest.wrmsr(CTR1, 0x80_0000_0001);
    assert_eq!(guest.pmu.write_msr(0x2A, 0x0053_0016), MsrAccess::NotOurs);
    assert_eq!(guest.pmu.read_msr(0x2A), MsrAccess::NotOurs);
    // enable_all.
    let ctrl = guest.rdmsr(CTRL);
    guest.wrmsr(CTRL, ctrl | 3);
    assert_eq!(guest.rdmsr(CTRL), 3);
    assert_eq!(guest.rdmsr(EVTSEL0), 0x0053_002A);
    assert_eq!(guest.rdmsr(EVTSEL1), 0, "2Ah is not 29h");
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 1000, 3), []);
    assert_eq!(guest.fire(Signal::InsnRetired, 900, 3), []);
    assert_eq!([guest.rdpmc(0), guest.rdpmc(1)], [0x80_0000_03E9, 0x80_0000_0001]);
    // disable_event clears EN and leaves the rest.
    guest.wrmsr(EVTSEL0, 0x0013_002A);
    assert_eq!(guest.fire(Signal::CyclesUnhalted, 1000, 3), []);
    assert_eq!(guest.rdpmc(0), 0x80_0000_03E9);
}

/// Sampling instructions every 5000: each overflow is one PMI, the handler's acknowledgement clears
/// the status at once, and the next overflow comes 5000 instructions later. An NMI of another source
/// finds the status zero.
#[test]
fn linux_sampling() {
    let mut guest = Guest::on("knc");
    guest.wrmsr(CTR0, 0xFF_FFFF_EC78);
    guest.wrmsr(EVTSEL0, 0x0053_0016);
    guest.wrmsr(CTRL, 3);
    for _ in 0..3 {
        assert_eq!(guest.fire(Signal::InsnRetired, 4999, 3), []);
        assert_eq!(linux_handle_irq(&mut guest, 0), Handled::Nothing);
        assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
        assert_eq!(guest.rdmsr(STATUS), 1);
        let handled = linux_handle_irq(&mut guest, 0xFF_FFFF_EC78);
        assert_eq!(handled, Handled::Counters(vec![0]));
        assert_eq!([guest.rdmsr(STATUS), guest.rdmsr(CTRL)], [0, 3]);
        assert_eq!(guest.rdpmc(0), 0xFF_FFFF_EC78);
    }
}

/// A driver without the mistake, both counters overflowing together or one just after the other:
/// one PMI, both served.
#[test]
fn linux_handler_serves_both_counters() {
    let mut guest = Guest::on("knc");
    guest.wrmsr(EVTSEL0, 0x0053_0016);
    guest.wrmsr(EVTSEL1, 0x0053_0012);
    guest.wrmsr(CTR0, 0xFF_FFFF_FFFF);
    guest.wrmsr(CTR1, 0xFF_FFFF_FFFF);
    guest.wrmsr(CTRL, 3);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), [0]);
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 0), [], "on the way to the handler");
    let handled = linux_handle_irq(&mut guest, 0xFF_FFFF_FFFF);
    assert_eq!(handled, Handled::Counters(vec![0, 1]));
    assert_eq!(guest.fire(Signal::BranchRetired, 1, 3), [1], "and the next one interrupts");
}

/// Linux never writes 2Ch: with its reset value the counters run on EN and GLOBAL_CTRL alone.
#[test]
fn linux_counts_without_spflt() {
    let mut guest = Guest::on("knc");
    assert_eq!(guest.rdmsr(SPFLT_CONTROL), 0);
    guest.wrmsr(EVTSEL0, 0x0053_0016);
    guest.wrmsr(CTRL, 3);
    assert_eq!(guest.fire(Signal::InsnRetired, 3, 3), []);
    guest.pmu.set_user_preference(true);
    assert_eq!(guest.fire(Signal::InsnRetired, 3, 3), []);
    guest.pmu.set_user_preference(false);
    assert_eq!(guest.fire(Signal::InsnRetired, 3, 3), []);
    assert_eq!(guest.rdpmc(0), 9, "SPFLT has no say");
}

/// LIKWID `src/includes/perfmon_phi.h`: set up event selects with EN; start: 2Fh off, counters 0, 2Fh
/// on, 2Ch with bit 63, 2Eh; read: 2Fh and 2Ch off, read, 2Ch and 2Fh on; stop: 2Ch and 2Fh off, read;
/// finalise. Writing 2Ch to 0 does not stop anything: a counter without its SPFLT bit ignores the
/// user preference. Writing 2Fh does.
#[test]
fn likwid_start_read_stop() {
    let mut guest = Guest::on("knc");
    let values = |guest: &Guest| [guest.rdmsr(CTR0), guest.rdmsr(CTR1)];
    guest.wrmsr(EVTSEL0, 0x0041_0016);
    guest.wrmsr(EVTSEL1, 0x0041_0012);
    // Start.
    guest.wrmsr(CTRL, 0);
    guest.wrmsr(CTR0, 0);
    guest.wrmsr(CTR1, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), []);
    assert_eq!(values(&guest), [0, 0]);
    guest.wrmsr(CTRL, 3);
    guest.wrmsr(SPFLT_CONTROL, 1 << 63 | 3);
    assert_eq!(guest.rdmsr(SPFLT_CONTROL), 0x8000_0000_0000_0003);
    guest.wrmsr(OVF_CTRL, 3);
    assert_eq!(guest.fire(Signal::InsnRetired, 100, 3), []);
    assert_eq!(guest.fire(Signal::BranchRetired, 20, 3), []);
    assert_eq!(guest.fire(Signal::InsnRetired, 5, 0), [], "user mode only");
    // Read.
    let ctrl = guest.rdmsr(CTRL);
    assert_eq!(ctrl, 3);
    guest.wrmsr(CTRL, 0);
    guest.wrmsr(SPFLT_CONTROL, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), []);
    assert_eq!(values(&guest), [100, 20]);
    guest.wrmsr(SPFLT_CONTROL, ctrl | 1 << 63);
    guest.wrmsr(CTRL, ctrl);
    assert_eq!(guest.fire(Signal::InsnRetired, 30, 3), []);
    // Stop.
    guest.wrmsr(SPFLT_CONTROL, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 4, 3), [], "between the two writes it still counts");
    guest.wrmsr(CTRL, 0);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 3), []);
    assert_eq!(values(&guest), [134, 20]);
    // Finalise.
    for msr in [EVTSEL0, EVTSEL1, CTRL, SPFLT_CONTROL] {
        guest.wrmsr(msr, 0);
    }
    guest.wrmsr(OVF_CTRL, 3);
    for msr in [EVTSEL0, EVTSEL1, CTRL, SPFLT_CONTROL, STATUS] {
        assert_eq!(guest.rdmsr(msr), 0, "{msr:#x}");
    }
}

/// The same file: a value lower than the last one makes it look into 2Dh, which has to tell although
/// LIKWID never sets INT, and clear the bit through 2Eh.
#[test]
fn likwid_overflow_without_int() {
    let mut guest = Guest::on("knc");
    guest.wrmsr(EVTSEL1, 0x0041_0016);
    guest.wrmsr(CTR1, 0);
    guest.wrmsr(CTRL, 2);
    guest.wrmsr(SPFLT_CONTROL, 1 << 63 | 2);
    guest.wrmsr(OVF_CTRL, 2);
    assert_eq!(guest.fire(Signal::InsnRetired, 0xFF_0000_0000, 3), []);
    let before = guest.rdmsr(CTR1);
    assert_eq!(guest.fire(Signal::InsnRetired, 0x01_0000_0010, 3), [], "no INT, no interrupt");
    guest.wrmsr(SPFLT_CONTROL, 0);
    guest.wrmsr(CTRL, 0);
    let after = guest.rdmsr(CTR1);
    assert_eq!([before, after], [0xFF_0000_0000, 0x10]);
    assert_eq!(guest.rdmsr(STATUS), 2);
    guest.wrmsr(OVF_CTRL, 2);
    assert_eq!(guest.rdmsr(STATUS), 0);
}
