use super::*;

const IOREGSEL: u64 = 0x00;
const IOWIN: u64 = 0x10;

fn write(irq: &mut Interrupts, register: u32, value: u32) {
    irq.ioapic_write(IOREGSEL, register);
    irq.ioapic_write(IOWIN, value);
}

fn read(irq: &mut Interrupts, register: u32) -> u32 {
    irq.ioapic_write(IOREGSEL, register);
    irq.ioapic_read(IOWIN)
}

// 82093AA datasheet: version 11h, highest entry 17h; entries reset to masked.
#[test]
fn registers_after_reset() {
    let mut irq = machine(2);
    assert_eq!(read(&mut irq, 0), 0x0200_0000, "the ID after those of the processors");
    assert_eq!(read(&mut irq, 1), 0x0017_0011);
    for register in 0x10..0x40 {
        let value = if register & 1 == 0 { 0x1_0000 } else { 0 };
        assert_eq!(read(&mut irq, register), value);
    }
    // Delivery status and remote IRR are read-only.
    write(&mut irq, 0x10, 0xFFFF_FFFF);
    assert_eq!(read(&mut irq, 0x10), 0x1_AFFF);
}

// A rising edge delivers once; one on a masked entry is ignored (datasheet, "Interrupt Mask").
#[test]
fn edge() {
    let mut irq = enabled(2);
    write(&mut irq, 0x1B, 0x0100_0000); // pin 5 to processor 1
    irq.set_gsi(5, true);
    write(&mut irq, 0x1A, 0x55);
    assert_eq!(interrupted(&irq), 0);
    irq.set_gsi(5, false);
    irq.set_gsi(5, true);
    assert_eq!(interrupted(&irq), 0b10);
    assert_eq!(irq.acknowledge(1), 0x55);
    irq.lapic_write(1, EOI, 0, 0);
    irq.set_gsi(5, true);
    assert_eq!(interrupted(&irq), 0);
}

// Level: remote IRR from the delivery to the EOI; still asserted at the EOI delivers again.
#[test]
fn level_until_eoi() {
    let mut irq = enabled(1);
    write(&mut irq, 0x22, 0x8059); // pin 9, level
    irq.set_gsi(9, true);
    assert_eq!(read(&mut irq, 0x22), 0xC059);
    assert_eq!(irq.acknowledge(0), 0x59);
    // TMR of vectors 40h to 5Fh, bit 19h.
    assert_eq!(irq.lapic_read(0, 0x1A0, 0), 1 << 0x19);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(irq.acknowledge(0), 0x59);
    irq.set_gsi(9, false);
    assert_eq!(read(&mut irq, 0x22), 0xC059);
    irq.lapic_write(0, EOI, 0, 0);
    assert_eq!(read(&mut irq, 0x22), 0x8059);
    assert_eq!(interrupted(&irq), 0);
}

// A level interrupt that no local APIC accepted stays to be delivered.
#[test]
fn level_is_not_lost_on_a_disabled_apic() {
    let mut irq = machine(1);
    write(&mut irq, 0x22, 0x8059);
    irq.set_gsi(9, true);
    assert_eq!(read(&mut irq, 0x22), 0x8059);
    irq.lapic_write(0, SVR, 0x1FF, 0);
    irq.set_gsi(9, true);
    assert_eq!(irq.acknowledge(0), 0x59);
}

#[test]
fn nmi_delivery_mode() {
    let mut irq = enabled(2);
    write(&mut irq, 0x29, 0xFF00_0000);
    write(&mut irq, 0x28, 0x400); // pin 12
    irq.set_gsi(12, true);
    assert_eq!(nmis(&irq), 0b11);
}

// Pin 0 carries the 8259A pair; as ExtINT (vector from the 8259A) it needs no LINT0.
#[test]
fn extint_through_pin_0() {
    let mut irq = enabled(1);
    super::pic::initialise(&mut irq);
    write(&mut irq, 0x10, 0x700);
    irq.set_gsi(4, true);
    assert_eq!(irq.acknowledge(0), 0x34);
    assert_eq!(interrupted(&irq), 0);
}
