use super::super::pic::Chip::{Master, Slave};
use super::*;

/// Linux's init_8259A: masked, ICW1 11h, bases 30h and 38h, cascade on IR2, 8086 mode; then open.
pub(super) fn initialise(irq: &mut Interrupts) {
    for (chip, base, cascade) in [(Master, 0x30, 4), (Slave, 0x38, 2)] {
        irq.pic_write(chip, true, 0xFF);
        irq.pic_write(chip, false, 0x11);
        irq.pic_write(chip, true, base);
        irq.pic_write(chip, true, cascade);
        irq.pic_write(chip, true, 0x01);
    }
    irq.pic_write(Master, true, 0);
    irq.pic_write(Slave, true, 0);
}

fn wired() -> Interrupts {
    let mut irq = machine(1);
    irq.set_virtual_wire();
    initialise(&mut irq);
    irq
}

fn eoi(irq: &mut Interrupts, chip: super::super::pic::Chip) {
    irq.pic_write(chip, false, 0x20);
}

// Linux probe_8259A: IMR reads back what was written.
#[test]
fn mask_reads_back() {
    let mut irq = wired();
    irq.pic_write(Slave, true, 0xFF);
    irq.pic_write(Master, true, 0xFB);
    assert_eq!(irq.pic_read(Master, true), 0xFB);
    assert_eq!(irq.pic_read(Slave, true), 0xFF);
}

// Fully nested: IR0 highest; the slave's requests rank as IR2. GSI 2 is the timer's IRQ0.
#[test]
fn nested_priorities() {
    let mut irq = wired();
    irq.set_gsi(4, true);
    irq.set_gsi(8, true);
    irq.set_gsi(9, true);
    irq.set_gsi(2, true);
    assert_eq!(irq.acknowledge(0), 0x30);
    assert!(!irq.pending(0).interrupt);
    eoi(&mut irq, Master);
    assert_eq!(irq.acknowledge(0), 0x38);
    // OCW3 0Bh: read ISR.
    irq.pic_write(Slave, false, 0x0B);
    irq.pic_write(Master, false, 0x0B);
    assert_eq!((irq.pic_read(Slave, false), irq.pic_read(Master, false)), (0x01, 0x04));
    eoi(&mut irq, Slave);
    eoi(&mut irq, Master);
    assert_eq!(irq.acknowledge(0), 0x39);
    eoi(&mut irq, Slave);
    eoi(&mut irq, Master);
    assert_eq!(irq.acknowledge(0), 0x34);
    eoi(&mut irq, Master);
    assert!(!irq.pending(0).interrupt);
}

// A request that goes away before the acknowledge: IR7, with nothing in service (datasheet).
#[test]
fn spurious() {
    let mut pic = super::super::pic::PicPair::new();
    for (data, value) in [(false, 0x11), (true, 0x30), (true, 4), (true, 1)] {
        pic.write(Master, data, value);
    }
    pic.set_irq(3, true);
    assert!(pic.intr());
    pic.set_irq(3, false);
    assert!(!pic.intr());
    assert_eq!(pic.acknowledge(), 0x37);
    pic.write(Master, false, 0x0B);
    assert_eq!(pic.read(Master, false), 0);
}

// ICW4 03h: automatic EOI.
#[test]
fn automatic_eoi() {
    let mut irq = wired();
    for (data, value) in [(false, 0x11), (true, 0x30), (true, 4), (true, 3), (true, 0)] {
        irq.pic_write(Master, data, value);
    }
    for _ in 0..2 {
        irq.set_gsi(2, true);
        assert_eq!(irq.acknowledge(0), 0x30);
        assert!(!irq.pending(0).interrupt);
        irq.set_gsi(2, false);
    }
}

// OCW2 A0h rotates: the one just served gets the lowest priority. C0h + n sets it outright.
#[test]
fn rotation() {
    let mut irq = wired();
    irq.set_gsi(3, true);
    assert_eq!(irq.acknowledge(0), 0x33);
    irq.pic_write(Master, false, 0xA0);
    irq.set_gsi(1, true);
    irq.set_gsi(5, true);
    assert_eq!(irq.acknowledge(0), 0x35);
    eoi(&mut irq, Master);
    irq.pic_write(Master, false, 0xC7);
    irq.set_gsi(6, true);
    assert_eq!(irq.acknowledge(0), 0x31);
}

// Special mask mode: a masked input in service does not hold back lower ones. 68h sets it.
#[test]
fn special_mask_mode() {
    let mut irq = wired();
    irq.set_gsi(1, true);
    assert_eq!(irq.acknowledge(0), 0x31);
    irq.set_gsi(5, true);
    irq.pic_write(Master, true, 0x02);
    assert!(!irq.pending(0).interrupt);
    irq.pic_write(Master, false, 0x68);
    assert_eq!(irq.acknowledge(0), 0x35);
    // Specific EOI, 60h + n.
    irq.pic_write(Master, false, 0x61);
    irq.pic_write(Master, false, 0x65);
    irq.pic_write(Master, false, 0x0B);
    assert_eq!(irq.pic_read(Master, false), 0);
}

// OCW3 0Ch: the next read is an acknowledge, bit 7 and the input.
#[test]
fn poll() {
    let mut irq = wired();
    irq.set_gsi(6, true);
    irq.pic_write(Master, false, 0x0C);
    assert_eq!(irq.pic_read(Master, false), 0x86);
    assert!(!irq.pending(0).interrupt);
    irq.pic_write(Master, false, 0x0C);
    assert_eq!(irq.pic_read(Master, false), 0);
}

// ELCR: IRQ9 level stays requested while asserted; 0, 1, 2, 8 and 13 cannot be level.
#[test]
fn level_by_elcr() {
    let mut irq = wired();
    irq.set_elcr(Master, 0xFF);
    irq.set_elcr(Slave, 0xFF);
    assert_eq!((irq.elcr(Master), irq.elcr(Slave)), (0xF8, 0xDE));
    irq.set_gsi(9, true);
    for _ in 0..2 {
        assert_eq!(irq.acknowledge(0), 0x39);
        assert!(!irq.pending(0).interrupt, "held back while it is in service");
        eoi(&mut irq, Slave);
        assert!(!irq.pending(0).interrupt, "the master still serves the slave");
        eoi(&mut irq, Master);
    }
    irq.set_gsi(9, false);
    assert!(!irq.pending(0).interrupt);
}

// LINT0 masked (reset state) keeps the 8259A from the processor; hardware-disabled passes INTR.
#[test]
fn lint0_gates_the_8259() {
    let mut irq = machine(1);
    initialise(&mut irq);
    irq.set_gsi(4, true);
    assert!(!irq.pending(0).interrupt);
    assert_eq!(irq.lapic_mut(0).set_base(0xFEE0_0000), Ok(()));
    assert_eq!(irq.acknowledge(0), 0x34);
}

// LINT0 as a fixed, level-triggered entry (8031h): remote IRR (bit 14) from the delivery to the EOI,
// and again while the 8259A still asks.
#[test]
fn level_triggered_lint0() {
    let mut irq = wired();
    irq.lapic_write(0, 0x350, 0x8031, 0);
    irq.set_gsi(4, true);
    assert_eq!(irq.lapic_read(0, 0x350, 0), 0xC031);
    assert_eq!(irq.acknowledge(0), 0x31);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.acknowledge(0), 0x31);
    irq.set_gsi(4, false);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.lapic_read(0, 0x350, 0), 0x8031);
    assert!(!irq.pending(0).interrupt);
}
