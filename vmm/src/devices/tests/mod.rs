//! The devices, driven through the ports of a whole chipset.

mod chipset;
mod map;
mod pipes;
mod pit;
mod rtc;
mod serial;
mod test_device;

use super::acpi_pm::TimerWidth;
use super::{Chipset, ChipsetConfig};
use crate::irq::lapic::LapicConfig;

pub(super) const CLOCK_HZ: u64 = 2_000_000_000;
/// 2005-04-21 00:00:00 UTC.
const START: i64 = 1_114_041_600;

/// One processor at 2 GHz with 512 MiB, the 8259A pair open at 30h and 38h as Linux leaves it.
pub(super) fn chipset() -> Chipset {
    chipset_at(CLOCK_HZ, START)
}

pub(super) fn chipset_at(clock_hz: u64, start_time: i64) -> Chipset {
    let mut chipset = Chipset::new(config(clock_hz, start_time));
    open_pics(&mut chipset);
    chipset
}

fn config(clock_hz: u64, start_time: i64) -> ChipsetConfig {
    let bsp = LapicConfig {
        id: 0,
        bsp: true,
        version: 0x10,
        max_lvt: 5,
        base_msr: true,
        physical_bits: 40,
        lvtpc_auto_mask: false,
        clock_hz,
        timer_hz: 200_000_000,
    };
    ChipsetConfig {
        clock_hz,
        lapics: vec![bsp],
        ram_size: 512 << 20,
        start_time,
        pm_timer_width: TimerWidth::Bits32,
        test_device: false,
        pipes: false,
    }
}

fn open_pics(chipset: &mut Chipset) {
    chipset.irq.set_virtual_wire();
    for (port, values) in [(0x20, [0x11, 0x30, 0x04, 0x01, 0]), (0xA0, [0x11, 0x38, 0x02, 0x01, 0])]
    {
        chipset.io_write(port, 1, values[0], 0);
        for value in &values[1..] {
            chipset.io_write(port + 1, 1, *value, 0);
        }
    }
}

/// A chipset with a clock of its own, so that a test reads as a driver does.
pub(super) struct Bench {
    pub(super) chipset: Chipset,
    pub(super) now: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { chipset: chipset(), now: 0 }
    }

    pub(super) fn inb(&mut self, port: u16) -> u8 {
        self.chipset.io_read(port, 1, self.now) as u8
    }

    pub(super) fn outb(&mut self, port: u16, value: u8) {
        self.chipset.io_write(port, 1, value.into(), self.now);
    }

    /// Goes to the next deadline and takes the interrupt: the vector and the time.
    pub(super) fn next_interrupt(&mut self) -> (u8, u64) {
        self.now = self.chipset.next_deadline().unwrap();
        self.chipset.advance(self.now);
        assert!(self.chipset.irq.pending(0).interrupt);
        let vector = self.chipset.irq.acknowledge(0);
        if vector >= 0x38 {
            self.outb(0xA0, 0x20);
        }
        self.outb(0x20, 0x20);
        (vector, self.now)
    }
}
