use super::super::ChipsetEvent;
use super::super::acpi_pm::{AcpiPm, TimerWidth};
use super::*;

// 3.579545 MHz at 2 GHz: a second is 3579545; 24 bits wrap at 16777216, 4.687 s.
#[test]
fn pm_timer_rate() {
    let mut chipset = chipset();
    assert_eq!(chipset.io_read(0x608, 4, CLOCK_HZ), 3_579_545);
    assert_eq!(chipset.io_read(0x608, 4, 5 * CLOCK_HZ), 17_897_725);
    assert_eq!(chipset.io_read(0x609, 1, CLOCK_HZ), 0x9E); // 3579545 = 369E99h
    let narrow = AcpiPm::new(CLOCK_HZ, TimerWidth::Bits24);
    assert_eq!(narrow.timer(5 * CLOCK_HZ), 17_897_725 - 16_777_216);
}

// ACPI: the timer status is set when bit 31 changes, after 2^31 ticks; the SCI follows TMR_EN in
// ACPI mode, and writing a one to the status ends it.
#[test]
fn timer_sci() {
    let mut bench = Bench::new();
    bench.chipset.io_write(0x602, 2, 0x0001, 0);
    bench.outb(0xB2, 0xF1);
    assert_eq!(bench.chipset.io_read(0x604, 2, 0), 1);
    let (vector, now) = bench.next_interrupt();
    assert_eq!((vector, now), (0x39, ((1_u64 << 31) * 2_000_000_000).div_ceil(3_579_545)));
    assert_eq!(bench.chipset.io_read(0x600, 2, now), 1);
    bench.chipset.io_write(0x600, 2, 1, now);
    assert_eq!(bench.chipset.io_read(0x600, 4, now), 0x0001_0000);
    assert!(!bench.chipset.irq.pending(0).interrupt);
    assert_eq!(
        bench.chipset.next_deadline(),
        Some(((2_u64 << 31) * 2_000_000_000).div_ceil(3_579_545))
    );
}

// ACPI soft off: SLP_TYP 5 with SLP_EN (bit 13). Another type does nothing.
#[test]
fn power_off() {
    let mut chipset = chipset();
    chipset.io_write(0x604, 2, 1 << 10 | 1 << 13, 0);
    assert!(!chipset.has_events());
    chipset.io_write(0x604, 2, 5 << 10 | 1 << 13, 0);
    assert_eq!(chipset.take_events(), [ChipsetEvent::PowerOff]);
    assert_eq!(chipset.io_read(0x604, 2, 0), 5 << 10);
}

// Every way to reset a PC: CF9h 02h then 06h, 64h FEh, output port bit 0, port 92h bit 0.
#[test]
fn resets() {
    let ways: [&[(u16, u32)]; 5] = [
        &[(0xCF9, 0x02), (0xCF9, 0x06)],
        &[(0xCF9, 0x06)],
        &[(0x64, 0xFE)],
        &[(0x64, 0xD1), (0x60, 0xFE)],
        &[(0x92, 0x01)],
    ];
    for way in ways {
        let mut chipset = chipset();
        for &(port, value) in way {
            assert!(!chipset.has_events());
            chipset.io_write(port, 1, value, 0);
        }
        assert_eq!(chipset.take_events(), [ChipsetEvent::Reset]);
    }
}

// CF9h resets on bit 2 going from 0 to 1, not on its being 1.
#[test]
fn reset_control_is_an_edge() {
    let mut chipset = chipset();
    chipset.io_write(0xCF9, 1, 0x06, 0);
    assert_eq!(chipset.take_events().len(), 1);
    chipset.io_write(0xCF9, 1, 0x06, 0);
    assert!(!chipset.has_events());
    assert_eq!(chipset.io_read(0xCF9, 1, 0), 0x06);
}

// isa-debug-exit: status = value * 2 + 1.
#[test]
fn debug_exit() {
    let mut chipset = chipset();
    chipset.io_write(0xF4, 4, 0, 0);
    chipset.io_write(0xF4, 1, 0x10, 0);
    chipset.io_write(0xF4, 4, 0x1234, 0);
    assert_eq!(chipset.take_events(), [1, 33, 0x2469].map(ChipsetEvent::DebugExit));
    chipset.io_write(0x80, 1, 0x5A, 0);
    assert_eq!(chipset.post_code(), 0x5A);
}

// FERR# interrupts as IRQ13 (vector 3Dh here) once, and again only after OUT to F0h has cleared the
// latch: an Intel 387's wiring in the PC/AT.
#[test]
fn ferr_latch() {
    let mut bench = Bench::new();
    let take = |bench: &mut Bench| {
        let vector = bench.chipset.irq.acknowledge(0);
        bench.outb(0xA0, 0x20);
        bench.outb(0x20, 0x20);
        vector
    };
    bench.chipset.assert_ferr();
    assert_eq!(take(&mut bench), 0x3D);
    bench.chipset.assert_ferr();
    assert!(!bench.chipset.irq.pending(0).interrupt, "no edge while the latch is set");
    bench.outb(0xF0, 0);
    assert!(!bench.chipset.irq.pending(0).interrupt);
    bench.chipset.assert_ferr();
    assert!(bench.chipset.irq.pending(0).interrupt);
    assert_eq!(take(&mut bench), 0x3D);
}

// kvm-unit-tests read NB_CPUS (5) and RAM_SIZE (3) as little-endian bytes; unknown keys are zeros.
#[test]
fn fw_cfg_items() {
    let mut chipset = chipset();
    for (key, bytes) in [
        (0, *b"QEMU\0\0\0\0"),
        (3, [0, 0, 0, 0x20, 0, 0, 0, 0]),
        (5, [1, 0, 0, 0, 0, 0, 0, 0]),
        (0xF, [1, 0, 0, 0, 0, 0, 0, 0]),
        (0x7777, [0; 8]),
    ] {
        chipset.io_write(0x510, 2, key, 0);
        assert_eq!([(); 8].map(|()| chipset.io_read(0x511, 1, 0) as u8), bytes);
    }
}

// Linux's pci_check_type1: the address register reads back; nothing answers behind it. CF9h, inside
// it, is a register of its own for byte accesses.
#[test]
fn pci_is_empty() {
    let mut chipset = chipset();
    chipset.io_write(0xCFB, 1, 1, 0);
    chipset.io_write(0xCF8, 4, 0x8000_0000, 0);
    assert_eq!(chipset.io_read(0xCF8, 4, 0), 0x8000_0000);
    assert_eq!(chipset.io_read(0xCFC, 4, 0), 0xFFFF_FFFF);
    assert_eq!(chipset.io_read(0xCFE, 2, 0), 0xFFFF);
    assert_eq!(chipset.io_read(0xCF9, 1, 0), 0);
}

// Linux's i8042 self test and probe: the controller answers, the keyboard times out with FEh, and
// the auxiliary loop answers without the auxiliary flag.
#[test]
fn i8042_probe() {
    let mut bench = Bench::new();
    assert_eq!(bench.inb(0x64) & 1, 0);
    bench.outb(0x64, 0xAA);
    assert_eq!(bench.inb(0x64) & 1, 1);
    assert_eq!(bench.inb(0x60), 0x55);
    bench.outb(0x64, 0x60);
    bench.outb(0x60, 0x65);
    bench.outb(0x64, 0x20);
    assert_eq!(bench.inb(0x60), 0x65);
    bench.outb(0x64, 0xD3);
    bench.outb(0x60, 0x5A);
    assert_eq!(bench.inb(0x64) & 0x21, 0x01);
    assert_eq!(bench.inb(0x60), 0x5A);
    bench.chipset.irq.acknowledge(0);
    bench.outb(0x20, 0x20);
    bench.outb(0x60, 0xF2);
    assert_eq!(bench.inb(0x64) & 0x41, 0x41);
    assert_eq!(bench.chipset.irq.acknowledge(0), 0x31);
    assert_eq!(bench.inb(0x60), 0xFE);
    assert_eq!(bench.inb(0x64) & 0x41, 0);
}

// Unclaimed addresses read as all ones of the access's size; byte ports split.
#[test]
fn unclaimed() {
    let mut chipset = chipset();
    assert_eq!(chipset.io_read(0x2F8, 1, 0), 0xFF);
    assert_eq!(chipset.io_read(0x2F8, 2, 0), 0xFFFF);
    assert_eq!(chipset.io_read(0xFFFF, 4, 0), 0xFFFF_FFFF);
    assert_eq!(chipset.mmio_read(0, 0xC000_0000, 8, 0), u64::MAX);
    assert_eq!(chipset.mmio_read(0, 0xC000_0000, 2, 0), 0xFFFF);
    // 21h and A1h hold what a 16-bit write to 20h leaves only in 21h.
    chipset.io_write(0x20, 2, 0xFB20, 0);
    assert_eq!(chipset.io_read(0x21, 1, 0), 0xFB);
    assert_eq!(chipset.io_read(0x20, 2, 0), 0xFB00);
}

// The local APIC page is where IA32_APIC_BASE says, and nowhere when it is disabled.
#[test]
fn apic_pages() {
    let mut chipset = chipset();
    assert!(chipset.claims_mmio(0, 0xFEE0_0030) && chipset.claims_mmio(0, 0xFEC0_0010));
    assert_eq!(chipset.mmio_read(0, 0xFEE0_0030, 4, 0), 0x0005_0010);
    assert_eq!(chipset.mmio_read(0, 0xFEE0_0032, 1, 0), 0x05);
    chipset.mmio_write(0, 0xFEC0_0000, 4, 1, 0);
    assert_eq!(chipset.mmio_read(0, 0xFEC0_0010, 4, 0), 0x0017_0011);
    chipset.irq.lapic_mut(0).set_base(0xFEE0_0000).unwrap();
    assert!(!chipset.claims_mmio(0, 0xFEE0_0030));
    assert_eq!(chipset.mmio_read(0, 0xFEE0_0030, 4, 0), 0xFFFF_FFFF);
}

// The LAPIC timer of a 2 GHz machine at 200 MHz: 1000 counts divided by 2 are 20000 cycles.
#[test]
fn lapic_timer_is_a_deadline_of_the_chipset() {
    let mut chipset = chipset();
    chipset.mmio_write(0, 0xFEE0_0320, 4, 0xEC, 0);
    chipset.mmio_write(0, 0xFEE0_0380, 4, 1000, 0);
    assert_eq!(chipset.next_deadline(), Some(20_000));
    chipset.advance(20_000);
    assert_eq!(chipset.irq.acknowledge(0), 0xEC);
}

// A reset gives the power-up state, but the time of day goes on.
#[test]
fn reset_keeps_the_clock() {
    let mut chipset = chipset();
    chipset.io_write(0x43, 1, 0x34, 0);
    chipset.io_write(0x40, 1, 0, 0);
    chipset.io_write(0x40, 1, 1, 0);
    chipset.reset(3 * CLOCK_HZ);
    assert_eq!(chipset.next_deadline(), None);
    assert_eq!(chipset.irq.lapic(0).base(), 0xFEE0_0900);
    chipset.io_write(0x70, 1, 0, 3 * CLOCK_HZ);
    assert_eq!(chipset.io_read(0x71, 1, 3 * CLOCK_HZ), 3);
}

// Whatever a guest does to the ports and pages, the devices neither panic nor run out of time, and a
// deadline that has been reached is never left standing. (xorshift64, a fixed seed.)
#[test]
fn arbitrary_accesses_are_harmless() {
    const PORTS: [u16; 16] = [
        0x20, 0x40, 0x42, 0x60, 0x64, 0x70, 0x80, 0x92, 0xA0, 0xB2, 0x3F8, 0x3FC, 0x4D0, 0x510,
        0x600, 0xCF8,
    ];
    let mut chipset = chipset();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut now = 0_u64;
    for round in 0..300_000 {
        let (kind, value) = (random(), random());
        let size = [1, 2, 4][(kind >> 8) as usize % 3];
        let port = PORTS[(kind >> 16) as usize % 16].wrapping_add((kind >> 24 & 3) as u16);
        let gpa =
            if kind & 1 << 32 == 0 { 0xFEE0_0000 } else { 0xFEC0_0000 } + (kind >> 40 & 0xFFF);
        match kind & 7 {
            0 | 1 => chipset.io_write(port, size, value as u32, now),
            2 => {
                chipset.io_read(port, size, now);
            }
            3 => chipset.mmio_write(0, gpa & !0xF, 4, value, now),
            4 => {
                chipset.mmio_read(0, gpa, size, now);
            }
            5 => {
                if chipset.irq.pending(0).interrupt {
                    chipset.irq.acknowledge(0);
                }
                chipset.push_input(&[value as u8]);
            }
            6 => now = now.saturating_add(value >> (16 + (kind >> 48 & 31))),
            // A processor whose turn began earlier.
            _ => chipset.advance(now.saturating_sub(value & 0xFFFF)),
        }
        if let Some(deadline) = chipset.next_deadline()
            && deadline <= now
        {
            chipset.advance(now);
            assert!(chipset.next_deadline().is_none_or(|next| next > now), "round {round}");
        }
        chipset.take_events();
        chipset.irq.take_signals();
        chipset.serial.take_output();
    }
}
