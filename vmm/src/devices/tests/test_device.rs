//! `pc-testdev`. Lines are wired to those of the board's own devices.

use super::*;

fn with_device() -> Chipset {
    let config = ChipsetConfig { test_device: true, ..config(CLOCK_HZ, START) };
    let mut chipset = Chipset::new(config);
    open_pics(&mut chipset);
    chipset
}

/// What a device does to its line does not lower it, and the device has it again afterwards.
#[test]
fn a_line_is_held_high() {
    const RTC: u16 = 0x2008;
    let mut chipset = with_device();
    chipset.io_write(RTC, 1, 1, 0);
    chipset.advance(1000);
    assert_eq!(chipset.irq.lines() >> 8 & 1, 1);
    assert_eq!(chipset.irq.acknowledge(0), 0x38);
    chipset.io_write(RTC, 1, 0, 2000);
    assert_eq!(chipset.irq.lines() >> 8 & 1, 0);
}

/// Line 0 is the timer's, whose pin at the I/O APIC is 2; there are 24, and they are a byte wide.
#[test]
fn which_lines_there_are() {
    let mut chipset = with_device();
    chipset.io_write(0x2000, 1, 1, 0);
    assert_eq!(chipset.irq.lines(), 1 << 2);
    chipset.io_write(0x2017, 1, 1, 0);
    chipset.io_write(0x2018, 1, 1, 0);
    chipset.io_write(0x2014, 2, 1, 0);
    assert_eq!(chipset.irq.lines(), 1 << 2 | 1 << 23);
}

/// An access across the end of the memory gets what there is.
#[test]
fn the_end_of_the_memory() {
    let mut chipset = with_device();
    chipset.mmio_write(0, 0xFF00_FFFE, 4, 0x4433_2211, 0);
    assert_eq!(chipset.mmio_read(0, 0xFF00_FFFC, 8, 0), 0x2211_0000);
    assert_eq!(chipset.mmio_read(0, 0xFF01_0000, 2, 0), 0xFFFF);
}
