use super::super::VcpuSignal;
use super::super::lapic::{Loss, PmiOutcome};
use super::super::message::Trigger;
use super::*;
use x86_cpu::bus::Refused;

const LVT_TIMER: u32 = 0x320;
const LVT_THERMAL: u32 = 0x330;
const LVTPC: u32 = 0x340;
const LVT_LINT0: u32 = 0x350;
const LVT_LINT1: u32 = 0x360;
const LVT_ERROR: u32 = 0x370;
const INITIAL: u32 = 0x380;
const CURRENT: u32 = 0x390;
const DIVIDE: u32 = 0x3E0;

// SDM "Local APIC Status After Power-Up Reset": LVT 00010000h, SVR FFh, DFR all ones, rest zero.
#[test]
fn power_up_state() {
    let mut irq = machine(2);
    for (offset, value) in [
        (0x20, 0x0100_0000),
        (0x30, 0x0005_0010),
        (TPR, 0),
        (LDR, 0),
        (DFR, 0xFFFF_FFFF),
        (SVR, 0xFF),
        (0x100, 0),
        (0x270, 0),
        (ICR_LOW, 0),
        (LVT_TIMER, 0x1_0000),
        (LVT_THERMAL, 0x1_0000),
        (LVTPC, 0x1_0000),
        (LVT_LINT0, 0x1_0000),
        (LVT_LINT1, 0x1_0000),
        (LVT_ERROR, 0x1_0000),
        (INITIAL, 0),
        (CURRENT, 0),
        (DIVIDE, 0),
    ] {
        assert_eq!(irq.lapic_read(1, offset, 0), value, "{offset:#x}");
    }
    // IA32_APIC_BASE: FEE00900h on the bootstrap processor, FEE00800h on the others.
    assert_eq!(irq.lapic(0).base(), 0xFEE0_0900);
    assert_eq!(irq.lapic(1).base(), 0xFEE0_0800);
}

// The Pentium's local APIC (max LVT 3) has no LVTPC: the access is an illegal register address,
// ESR bit 7, and a PMI has nowhere to go. ESR shows it only after a write.
#[test]
fn without_lvtpc_the_register_is_illegal() {
    let mut irq = machine_with(1, 3, false);
    irq.lapic_write(0, SVR, 0x1FF, 0);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    assert_eq!(irq.lapic_read(0, ESR, 0), 0);
    irq.lapic_write(0, ESR, 0, 0);
    assert_eq!(irq.lapic_read(0, ESR, 0), 0x80);
    irq.lapic_write(0, ESR, 0, 0);
    assert_eq!(irq.lapic_read(0, ESR, 0), 0);
    assert_eq!(irq.pmi(0), PmiOutcome::Lost(Loss::NoEntry));
    assert!(!irq.pending(0).any());
}

// A masked LVTPC loses the PMI: unmasking later delivers nothing.
#[test]
fn masked_lvtpc_loses_the_pmi() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVTPC, 0x1_0400, 0);
    assert_eq!(irq.pmi(0), PmiOutcome::Lost(Loss::Masked));
    irq.lapic_write(0, LVTPC, 0x400, 0);
    assert!(!irq.pending(0).any());
}

// Without its enable bits the local APIC loses it as well: SVR's bit 8 masks every entry, and with bit 11 of
// IA32_APIC_BASE clear there is no local APIC.
#[test]
fn a_disabled_local_apic_loses_the_pmi() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    irq.lapic_write(0, SVR, 0xFF, 0);
    assert_eq!(irq.pmi(0), PmiOutcome::Lost(Loss::SoftwareDisabled));
    irq.lapic_mut(0).set_base(0xFEE0_0000).unwrap();
    assert_eq!(irq.pmi(0), PmiOutcome::Lost(Loss::HardwareDisabled));
    assert!(!irq.pending(0).any());
}

// NMI delivery (what Linux programs, 400h) latches one NMI; a second one before it is taken merges.
#[test]
fn lvtpc_nmi_latches_once() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    assert_eq!(irq.pmi(0), PmiOutcome::Nmi);
    assert_eq!(irq.pmi(0), PmiOutcome::NmiMerged);
    assert!(irq.pending(0).nmi);
    assert!(irq.take_nmi(0));
    assert!(!irq.take_nmi(0));
    assert_eq!(irq.lapic_read(0, LVTPC, 0), 0x400, "no auto-mask");
}

#[test]
fn lvtpc_fixed_goes_to_irr() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVTPC, 0x31, 0);
    assert_eq!(irq.pmi(0), PmiOutcome::Fixed(0x31));
    assert_eq!(irq.pmi(0), PmiOutcome::FixedMerged(0x31));
    // IRR of vectors 20h to 3Fh is at 210h; vector 31h is bit 17.
    assert_eq!(irq.lapic_read(0, 0x210, 0), 1 << 17);
    assert_eq!(irq.acknowledge(0), 0x31);
    assert_eq!(irq.lapic_read(0, 0x210, 0), 0);
    assert_eq!(irq.lapic_read(0, 0x110, 0), 1 << 17);
    // In service it no longer takes the next one in.
    assert_eq!(irq.lapic(0).in_service(), Some(0x31));
    assert_eq!(irq.pmi(0), PmiOutcome::Fixed(0x31));
}

// A fixed entry with a vector below 16: received illegal vector, ESR bit 6; LVT error is raised.
#[test]
fn lvtpc_illegal_vector_is_an_error() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVT_ERROR, 0xFE, 0);
    irq.lapic_write(0, LVTPC, 0x0F, 0);
    assert_eq!(irq.pmi(0), PmiOutcome::Illegal);
    irq.lapic_write(0, ESR, 0, 0);
    assert_eq!(irq.lapic_read(0, ESR, 0), 0x40);
    assert_eq!(irq.acknowledge(0), 0xFE);
}

#[test]
fn auto_mask_comes_after_the_delivery() {
    let mut irq = machine_with(1, 5, true);
    irq.lapic_write(0, SVR, 0x1FF, 0);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    assert_eq!(irq.pmi(0), PmiOutcome::Nmi);
    assert_eq!(irq.lapic_read(0, LVTPC, 0), 0x1_0400);
    assert_eq!(irq.pmi(0), PmiOutcome::Lost(Loss::MaskedByDelivery));
}

// Software disable sets all mask bits and keeps them set (SDM "Local APIC State After It Has Been
// Software Disabled").
#[test]
fn software_disable_masks_the_lvt() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    irq.lapic_write(0, SVR, 0xFF, 0);
    assert_eq!(irq.lapic_read(0, LVTPC, 0), 0x1_0400);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    assert_eq!(irq.lapic_read(0, LVTPC, 0), 0x1_0400);
    irq.lapic_write(0, SVR, 0x1FF, 0);
    assert_eq!(irq.lapic_read(0, LVTPC, 0), 0x1_0400);
}

fn self_ipi(irq: &mut Interrupts, vector: u32) {
    irq.lapic_write(0, ICR_LOW, 0x4_0000 | vector, 0);
}

// SDM "Interrupt, Task, and Processor Priority": bits 7:4 decide; PPR is the higher of TPR and the
// class in service; EOI ends the highest in service.
#[test]
fn priorities_and_eoi_order() {
    let mut irq = enabled(1);
    self_ipi(&mut irq, 0x41);
    self_ipi(&mut irq, 0x35);
    assert_eq!(irq.acknowledge(0), 0x41);
    assert_eq!(irq.lapic_read(0, PPR, 0), 0x40);
    assert!(!irq.pending(0).interrupt, "35h is below class 4");
    self_ipi(&mut irq, 0x4F);
    assert!(!irq.pending(0).interrupt, "4Fh is the same class");
    self_ipi(&mut irq, 0x52);
    assert_eq!(irq.acknowledge(0), 0x52);
    assert_eq!(irq.lapic_read(0, PPR, 0), 0x50);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.lapic_read(0, PPR, 0), 0x40);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.acknowledge(0), 0x4F);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.acknowledge(0), 0x35);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.lapic_read(0, PPR, 0), 0);
    // Nothing left: the spurious vector, and nothing in service.
    assert_eq!(irq.acknowledge(0), 0xFF);
    assert_eq!(irq.lapic_read(0, 0x170, 0), 0);
}

#[test]
fn tpr_and_cr8_hold_back_their_class() {
    let mut irq = enabled(1);
    irq.lapic_write(0, TPR, 0x45, 0);
    self_ipi(&mut irq, 0x4F);
    assert!(!irq.pending(0).interrupt);
    assert_eq!(irq.lapic(0).cr8(), 4);
    assert_eq!(irq.lapic_read(0, PPR, 0), 0x45);
    irq.lapic_mut(0).set_cr8(3);
    assert_eq!(irq.lapic_read(0, TPR, 0), 0x30);
    assert!(irq.pending(0).interrupt);
}

// 200 MHz bus, divide by 2: one count is 20 cycles. 100 counts from cycle 1000 end at cycle 3000.
#[test]
fn one_shot_timer_counts_down_once() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVT_TIMER, 0xEC, 0);
    irq.lapic_write(0, INITIAL, 100, 1000);
    assert_eq!(irq.lapic_read(0, CURRENT, 1019), 100);
    assert_eq!(irq.lapic_read(0, CURRENT, 1020), 99);
    assert_eq!(irq.lapic_read(0, CURRENT, 2980), 1);
    assert_eq!(irq.next_deadline(), Some(3000));
    irq.advance(2999);
    assert!(!irq.pending(0).interrupt);
    irq.advance(3000);
    assert_eq!(irq.acknowledge(0), 0xEC);
    assert_eq!(irq.lapic_read(0, CURRENT, 3000), 0);
    assert_eq!(irq.next_deadline(), None);
}

// Divide code 1011b is by 1: one count is 10 cycles, a period of 50 counts is 500 cycles.
#[test]
fn periodic_timer_reloads() {
    let mut irq = enabled(1);
    irq.lapic_write(0, DIVIDE, 0xB, 0);
    irq.lapic_write(0, LVT_TIMER, 0x2_00EC, 0);
    irq.lapic_write(0, INITIAL, 50, 0);
    for period in 1..=3 {
        assert_eq!(irq.next_deadline(), Some(period * 500));
        irq.advance(period * 500);
        assert_eq!(irq.acknowledge(0), 0xEC);
        irq.lapic_write(0, EOI, 0, period * 500);
    }
    // Late by two and a half periods: one interrupt, and the phase is kept.
    irq.advance(2750);
    assert_eq!(irq.acknowledge(0), 0xEC);
    assert!(!irq.pending(0).interrupt);
    assert_eq!(irq.lapic_read(0, CURRENT, 2750), 25);
    assert_eq!(irq.next_deadline(), Some(3000));
    // A masked timer goes on counting and asks for nothing.
    irq.lapic_write(0, LVT_TIMER, 0x3_00EC, 2750);
    assert_eq!(irq.next_deadline(), None);
    assert_eq!(irq.lapic_read(0, CURRENT, 3010), 49);
}

// SDM "Divide Configuration Register": 000b is by 2 up to 110b by 128, 111b by 1 (bits 3, 1, 0).
#[test]
fn divide_configuration_codes() {
    let cases = [(0x0, 2), (0x1, 4), (0x2, 8), (0x3, 16), (0x8, 32), (0x9, 64), (0xA, 128)];
    for (code, divisor) in cases.into_iter().chain([(0xB, 1)]) {
        let mut irq = enabled(1);
        irq.lapic_write(0, DIVIDE, code, 0);
        irq.lapic_write(0, LVT_TIMER, 0x40, 0);
        irq.lapic_write(0, INITIAL, 7, 0);
        assert_eq!(irq.next_deadline(), Some(7 * divisor * 10), "{code:#x}");
    }
}

// ICR shorthands, bits 19:18: self, all, all but self.
#[test]
fn ipi_shorthands() {
    for (shorthand, targets) in [(1, 0b0010), (2, 0b1111), (3, 0b1101)] {
        let mut irq = enabled(4);
        irq.lapic_write(1, ICR_LOW, shorthand << 18 | 0x60, 0);
        assert_eq!(interrupted(&irq), targets);
        // Delivery status reads idle at once.
        assert_eq!(irq.lapic_read(1, ICR_LOW, 0), shorthand << 18 | 0x60);
    }
}

#[test]
fn physical_destination_and_broadcast() {
    let mut irq = enabled(4);
    irq.lapic_write(0, ICR_HIGH, 0x0200_0000, 0);
    irq.lapic_write(0, ICR_LOW, 0x60, 0);
    assert_eq!(interrupted(&irq), 0b0100);
    irq.lapic_write(0, ICR_HIGH, 0xFF00_0000, 0);
    irq.lapic_write(0, ICR_LOW, 0x400, 0);
    assert_eq!(nmis(&irq), 0b1111);
}

// Flat model: LDR 1, 2, 4, 8; destination 0Ah is processors 1 and 3.
#[test]
fn logical_flat() {
    let mut irq = enabled(4);
    for vcpu in 0..4 {
        irq.lapic_write(vcpu, LDR, 0x0100_0000 << vcpu, 0);
    }
    irq.lapic_write(0, ICR_HIGH, 0x0A00_0000, 0);
    irq.lapic_write(0, ICR_LOW, 0x860, 0);
    assert_eq!(interrupted(&irq), 0b1010);
}

// Cluster model: bits 31:28 are the cluster, 27:24 the member. 11h, 12h | 21h, 22h.
#[test]
fn logical_cluster() {
    for (destination, targets) in
        [(0x12, 0b0010), (0x13, 0b0011), (0x22, 0b1000), (0xF1, 0b0101), (0x31, 0)]
    {
        let mut irq = enabled(4);
        for (vcpu, ldr) in [0x11, 0x12, 0x21, 0x22].into_iter().enumerate() {
            irq.lapic_write(vcpu, DFR, 0x0FFF_FFFF, 0);
            irq.lapic_write(vcpu, LDR, ldr << 24, 0);
        }
        irq.lapic_write(0, ICR_HIGH, destination << 24, 0);
        irq.lapic_write(0, ICR_LOW, 0x860, 0);
        assert_eq!(interrupted(&irq), targets, "{destination:#x}");
    }
}

// Lowest priority goes to the lowest arbitration priority; equals to the lowest number.
#[test]
fn lowest_priority() {
    let mut irq = enabled(3);
    irq.lapic_write(0, TPR, 0x20, 0);
    irq.lapic_write(0, ICR_HIGH, 0xFF00_0000, 0);
    irq.lapic_write(0, ICR_LOW, 0x160, 0);
    assert_eq!(interrupted(&irq), 0b010);
    // Processor 1 now has 60h in IRR, which raises its APR.
    irq.lapic_write(0, ICR_LOW, 0x161, 0);
    assert_eq!(interrupted(&irq), 0b110);
}

// MultiProcessor Specification B.4: INIT assert, INIT de-assert, two start-up IPIs.
#[test]
fn init_and_startup() {
    let mut irq = enabled(2);
    irq.lapic_write(1, TPR, 0x50, 0);
    irq.lapic_write(0, ICR_HIGH, 0x0100_0000, 0);
    irq.lapic_write(0, ICR_LOW, 0xC500, 0);
    assert_eq!(irq.take_signals(), [(1, VcpuSignal::Init)]);
    assert_eq!(irq.lapic_read(1, TPR, 0), 0);
    assert_eq!(irq.lapic_read(1, SVR, 0), 0xFF);
    assert_eq!(irq.lapic_read(1, 0x20, 0), 0x0100_0000);
    irq.lapic_write(0, ICR_LOW, 0x8500, 0);
    assert!(!irq.has_signals(), "de-assert does nothing");
    irq.lapic_write(0, ICR_LOW, 0x0699, 0);
    irq.lapic_write(0, ICR_LOW, 0x0699, 0);
    assert_eq!(irq.take_signals(), [(1, VcpuSignal::Sipi(0x99)), (1, VcpuSignal::Sipi(0x99))]);
}

// Sending a vector below 16: ESR bit 5 of the sender; nothing is sent.
#[test]
fn illegal_ipi_vector() {
    let mut irq = enabled(2);
    irq.lapic_write(0, ICR_LOW, 0xC_000F, 0);
    irq.lapic_write(0, ESR, 0, 0);
    assert_eq!(irq.lapic_read(0, ESR, 0), 0x20);
    assert_eq!(interrupted(&irq), 0);
}

// Clearing IA32_APIC_BASE bit 11 resets the APIC; x2APIC (bit 10) and bits above 40 are reserved.
#[test]
fn apic_base() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    let mut lapic = irq.lapic_mut(0);
    assert_eq!(lapic.set_base(0xFEE0_0C00), Err(Refused));
    assert_eq!(lapic.set_base(1 << 40 | 0xFEE0_0800), Err(Refused));
    assert_eq!(lapic.set_base(0xFEE0_0000), Ok(()));
    assert_eq!(lapic.base(), 0xFEE0_0100, "BSP stays");
    assert_eq!(lapic.page(), None);
    assert_eq!(lapic.set_base(0xFED0_0800), Ok(()));
    assert_eq!(lapic.page(), Some(0xFED0_0000));
    drop(lapic);
    assert_eq!(irq.lapic_read(0, SVR, 0), 0xFF);
    assert_eq!(irq.lapic_read(0, LVTPC, 0), 0x1_0000);
}

// LINT1 as NMI: one per rising edge. Masked: none.
#[test]
fn lint1_nmi() {
    let mut irq = enabled(1);
    irq.set_nmi_line(true);
    assert!(!irq.pending(0).nmi);
    irq.set_nmi_line(false);
    irq.lapic_write(0, LVT_LINT1, 0x400, 0);
    irq.set_nmi_line(true);
    assert!(irq.take_nmi(0));
    irq.set_nmi_line(true);
    assert!(!irq.take_nmi(0));
}

/// What the notes of a run tell apart: lost while masked as after reset, by the guest, behind a delivery that
/// has masked the entry, and by INIT, which keeps what was observed.
#[test]
fn lost_interrupts_of_counters_are_told_apart() {
    let mut irq = machine_with(1, 4, true);
    irq.lapic_write(0, SVR, 0x1FF, 0);
    let expect = |irq: &mut Interrupts, outcome, written, masked, behind_delivery| {
        assert_eq!(irq.pmi(0), outcome);
        let record = irq.lapic(0).pmi_record();
        assert_eq!((record.lvtpc_written, record.lost_masked), (written, masked));
        assert_eq!(record.lost_behind_delivery, behind_delivery);
    };
    expect(&mut irq, PmiOutcome::Lost(Loss::NeverWritten), false, 1, 0);
    irq.lapic_write(0, LVTPC, 0x1_0040, 0);
    expect(&mut irq, PmiOutcome::Lost(Loss::Masked), true, 2, 0);
    irq.lapic_write(0, LVTPC, 0x40, 0);
    expect(&mut irq, PmiOutcome::Fixed(0x40), true, 2, 0);
    expect(&mut irq, PmiOutcome::Lost(Loss::MaskedByDelivery), true, 2, 1);
    irq.lapic_write(0, LVTPC, 0x40, 0);
    expect(&mut irq, PmiOutcome::FixedMerged(0x40), true, 2, 1);
    irq.lapic_mut(0).init();
    irq.lapic_write(0, SVR, 0x1FF, 0);
    expect(&mut irq, PmiOutcome::Lost(Loss::Masked), true, 3, 1);
}

/// What traces and debuggers are told of: an interrupt that a processor takes is a counter's if one of that vector, or an
/// NMI, was sent to it, merged with another or not; only once; and not behind INIT. So is a vector that ends.
#[test]
fn interrupts_of_counters_are_known() {
    let mut irq = enabled(2);
    irq.lapic_write(0, LVTPC, 0x40, 0);
    irq.lapic_mut(0).accept(0x41, Trigger::Edge);
    irq.lapic_mut(1).accept(0x40, Trigger::Edge);
    assert!(!irq.lapic(0).has_untaken_pmi());
    irq.pmi(0);
    assert_eq!([0, 1].map(|id| irq.lapic(id).has_untaken_pmi()), [true, false]);
    // The higher of 41h and 40h goes first; and that the first processor's is a counter's is not known of the second's.
    assert_eq!((irq.acknowledge(0), irq.lapic(0).took_pmi()), (0x41, false));
    assert_eq!((irq.acknowledge(1), irq.lapic(1).took_pmi()), (0x40, false));
    assert_eq!(irq.lapic(0).pmi_in_service(), None);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!((irq.acknowledge(0), irq.lapic(0).took_pmi()), (0x40, true));
    assert!(!irq.lapic(0).has_untaken_pmi());
    assert_eq!(irq.lapic(0).pmi_in_service(), Some(0x40));
    // One of a higher priority comes between.
    irq.lapic_mut(0).accept(0x51, Trigger::Edge);
    assert_eq!((irq.acknowledge(0), irq.lapic(0).took_pmi()), (0x51, false));
    assert_eq!(irq.lapic(0).pmi_in_service(), None);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.lapic(0).pmi_in_service(), Some(0x40));
    irq.lapic_write(0, EOI, 0, 0);
    irq.lapic_mut(0).accept(0x40, Trigger::Edge);
    assert_eq!((irq.acknowledge(0), irq.lapic(0).took_pmi()), (0x40, false));
    assert_eq!(irq.lapic(0).pmi_in_service(), None);
    irq.lapic_write(0, EOI, 0, 0);
    // What something else has requested already is the counter's as well.
    irq.lapic_mut(0).accept(0x40, Trigger::Edge);
    irq.pmi(0);
    assert_eq!((irq.acknowledge(0), irq.lapic(0).took_pmi()), (0x40, true));

    irq.lapic_write(0, LVTPC, 0x400, 0);
    irq.lapic_mut(0).accept_nmi();
    irq.take_nmi(0);
    assert!(!irq.lapic(0).took_pmi());
    irq.pmi(0);
    assert!(irq.lapic(0).has_untaken_pmi());
    irq.take_nmi(0);
    assert!(irq.lapic(0).took_pmi() && !irq.lapic(0).has_untaken_pmi());
    irq.lapic_mut(0).accept_nmi();
    irq.take_nmi(0);
    assert!(!irq.lapic(0).took_pmi());
    // A masked one is lost.
    irq.lapic_write(0, LVTPC, 0x1_0400, 0);
    irq.pmi(0);
    assert!(!irq.lapic(0).has_untaken_pmi());
    irq.lapic_write(0, LVTPC, 0x400, 0);
    irq.pmi(0);
    irq.lapic_mut(0).init();
    assert!(!irq.lapic(0).has_untaken_pmi());
}
