//! Controllers whose state the in-kernel irqchip has, and moving it back.

use super::*;
use crate::irq::lapic::PmiOutcome;
use crate::irq::lapic::page::{self, LapicPage};
use crate::irq::pic::Chip;
use crate::irq::{Pending, Wire, gsi};

/// LVT timer, LVTPC; initial and current count (SDM Vol. 3A, "Local APIC Register Address Map").
const LVT_TIMER: u32 = 0x320;
const LVTPC: u32 = 0x340;
const INITIAL_COUNT: u32 = 0x380;
const CURRENT_COUNT: usize = 0x39;
/// IRR of vectors 40h to 5Fh.
const IRR_40: usize = 0x22;

/// While the kernel has them nothing happens here, and what happens on the wires is kept in order.
#[test]
fn what_happens_meanwhile_is_kept() {
    let mut irq = enabled(2);
    irq.lapic_write(0, LVTPC, 0x400, 0);
    irq.lapic_write(0, LVT_TIMER, 0x41, 0);
    irq.lapic_write(0, INITIAL_COUNT, 10, 0);
    irq.set_gsi(gsi::SERIAL, true);
    assert!(irq.next_deadline().is_some());

    irq.move_to_kernel();
    irq.set_gsi(gsi::SERIAL, true); // No change.
    irq.set_gsi(gsi::PIT, true);
    assert_eq!(irq.pmi(1), PmiOutcome::InKernel);
    irq.set_gsi(gsi::PIT, false);
    irq.set_gsi(gsi::SERIAL, false);
    irq.advance(1_000_000);
    assert_eq!((irq.next_deadline(), irq.pending(0)), (None, Pending::default()));
    let line = |gsi, asserted| Wire::Line { gsi, asserted };
    assert_eq!(
        irq.take_wires(),
        [line(gsi::PIT, true), Wire::Pmi(1), line(gsi::PIT, false), line(gsi::SERIAL, false)]
    );
    assert!(irq.take_wires().is_empty() && irq.lines() == 0);
}

/// IRQ4 and IRQ8 are requested (Intel 8259A data sheet, fully nested mode and cascading).
#[test]
fn the_8259a_pair_goes_on() {
    let mut irq = enabled(1);
    irq.set_virtual_wire();
    for (chip, base) in [(Chip::Master, 0x30), (Chip::Slave, 0x38)] {
        irq.pic_write(chip, false, 0x11);
        for word in [base, 4, 1, 0] {
            irq.pic_write(chip, true, word);
        }
    }
    irq.set_gsi(gsi::RTC, true);
    irq.set_gsi(gsi::SERIAL, true);
    let mut other = irq.clone();
    let page = irq.lapic(0).page_registers(0);
    let shared = irq.move_to_kernel();
    other.move_to_kernel();
    other.lapic_mut(0).set_page_registers(&page, 0xFEE0_0900, 0);
    other.move_from_kernel(&shared);
    assert!(other.pending(0).interrupt);
    // The slave's IRQ8 by IR2 of the master goes before IRQ4, which waits for its end.
    assert_eq!(other.acknowledge(0), 0x38);
    assert!(!other.pending(0).interrupt);
    other.pic_write(Chip::Slave, false, 0x20);
    other.pic_write(Chip::Master, false, 0x20);
    assert_eq!(other.acknowledge(0), 0x34);
}

/// A level-triggered entry whose pin is asserted is delivered again after the end of interrupt.
#[test]
fn a_level_is_delivered_again() {
    const PIN: u32 = 9;
    let mut irq = enabled(1);
    irq.ioapic_write(0, 0x10 + 2 * PIN);
    irq.ioapic_write(0x10, 0x8051);
    irq.set_gsi(gsi::SCI, true);
    assert_eq!(irq.acknowledge(0), 0x51);
    let page = irq.lapic(0).page_registers(0);
    let shared = irq.move_to_kernel();
    assert_eq!(shared.ioapic.levels, 1 << PIN);
    irq.lapic_mut(0).set_page_registers(&page, 0xFEE0_0900, 0);
    irq.move_from_kernel(&shared);
    assert!(!irq.pending(0).interrupt);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.acknowledge(0), 0x51);
    irq.set_gsi(gsi::SCI, false);
    irq.lapic_write(0, EOI, 0, 0);
    assert!(!irq.pending(0).interrupt);
}

/// At ten cycles a tick, divided by two: 1000 counts less 300 are left at cycle 6000, and 400 more
/// pass until cycle 14000 on another.
#[test]
fn a_timer_goes_on_from_its_count() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVT_TIMER, 0x2_0041, 0);
    irq.lapic_write(0, INITIAL_COUNT, 1000, 0);
    irq.advance(6000);
    let page = irq.lapic(0).page_registers(6000);
    assert_eq!(page[CURRENT_COUNT], 700);
    let mut other = enabled(1);
    other.lapic_mut(0).set_page_registers(&page, 0xFEE0_0900, 6000);
    assert_eq!(other.lapic_read(0, 0x390, 14_000), 300);
    assert_eq!(other.next_deadline(), Some(20_000));
}

/// Periodic at 0: it is about to begin anew. Stopped by an initial count of 0, it stays so.
#[test]
fn a_periodic_timer_at_zero_begins_anew() {
    let mut irq = enabled(1);
    irq.lapic_write(0, LVT_TIMER, 0x2_0041, 0);
    irq.lapic_write(0, INITIAL_COUNT, 1000, 0);
    let mut page = irq.lapic(0).page_registers(0);
    page[CURRENT_COUNT] = 0;
    irq.lapic_mut(0).set_page_registers(&page, 0xFEE0_0900, 0);
    assert_eq!(irq.lapic_read(0, 0x390, 0), 1000);
    page[0x38] = 0;
    irq.lapic_mut(0).set_page_registers(&page, 0xFEE0_0900, 0);
    assert_eq!((irq.lapic_read(0, 0x390, 0), irq.next_deadline()), (0, None));
}

/// Between two looks a one-shot timer has come to zero, or a periodic one is above where it was: its
/// vector is in IRR, unless it is there or in ISR already, or the entry is masked.
#[test]
fn an_expiry_between_two_looks_is_made_up_for() {
    let look = |count, irr, isr, entry| {
        let mut page: LapicPage = [0; 64];
        (page[0x32], page[CURRENT_COUNT], page[IRR_40], page[0x12]) = (entry, count, irr, isr);
        page
    };
    let (bit, masked, periodic) = (1 << 5, 0x1_0045, 0x2_0045);
    for (before, after, irr, isr, entry, expected) in [
        (7, 0, 0, 0, 0x45, bit),
        (7, 3, 0, 0, 0x45, 0),
        (7, 9, 0, 0, periodic, bit),
        (7, 0, bit, 0, 0x45, bit),
        (7, 0, 0, bit, 0x45, 0),
        (0, 0, 0, 0, 0x45, 0),
        (7, 0, 0, 0, masked, 0),
    ] {
        let mut page = look(after, irr, isr, entry);
        page::complete_timer(&look(before, 0, 0, entry), &mut page);
        assert_eq!(page[IRR_40], expected, "{before} to {after}, {entry:#x}");
    }
}
