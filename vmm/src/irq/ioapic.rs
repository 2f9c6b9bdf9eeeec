//! The I/O APIC: Intel 82093AA (datasheet 290566), 24 pins, at FEC0_0000h.

use serde::{Deserialize, Serialize};

use super::message::{DeliveryMode, Destination, Message, Trigger};

/// Number of interrupt input pins.
pub const PINS: usize = 24;

/// Version 11h, 23 as the highest redirection entry.
const VERSION: u32 = 0x0017_0011;

const IOREGSEL: u64 = 0x00;
const IOWIN: u64 = 0x10;

/// The bits of the 82093AA's ID.
const FOUR_BITS: u8 = 0xF;

const REMOTE_IRR: u64 = 1 << 14;
const MASKED: u64 = 1 << 16;
/// Vector, delivery mode, destination mode, polarity, trigger mode, mask, destination. Delivery
/// status (bit 12, always idle here) and remote IRR (bit 14) are read-only.
const WRITABLE: u64 = 0xFF00_0000_0001_AFFF;

/// The 24 redirection entries and the state of their pins.
///
/// A pin's level is given as asserted or not: every device is taken to be wired with the polarity
/// that the guest programs, which is what the firmware tables tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoApic {
    select: u8,
    /// Bits 31:24 of register 0, as far as they can be set.
    id: u8,
    /// The bits of the ID that there are.
    id_bits: u8,
    entries: [u64; PINS],
    asserted: u32,
}

/// An I/O APIC as its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoApicRegisters {
    /// IOREGSEL.
    pub select: u8,
    /// Bits 31:24 of register 0.
    pub id: u8,
    /// The redirection table.
    pub entries: [u64; PINS],
    /// A bit for each pin with a level-triggered entry that is asserted.
    pub levels: u32,
}

impl IoApic {
    /// An I/O APIC as reset leaves it, all entries masked, with the ID that the firmware gave it.
    ///
    /// The 82093AA has bits 27:24 for it. Where these do not reach beyond the processors' IDs, the field
    /// has the width of the local APICs' own, as that of later chips has.
    pub fn new(id: u8) -> Self {
        let id_bits = if id > FOUR_BITS { 0xFF } else { FOUR_BITS };
        Self { select: 0, id, id_bits, entries: [MASKED; PINS], asserted: 0 }
    }

    /// Reset; the pins keep the level that drives them.
    pub fn reset(&mut self) {
        let asserted = self.asserted;
        let id_bits = self.id_bits;
        *self = Self { asserted, id_bits, ..Self::new(self.id) };
    }

    /// The registers, to be moved to another implementation.
    #[must_use]
    pub fn registers(&self) -> IoApicRegisters {
        let is_level = |&pin: &usize| trigger(self.entries[pin]) == Trigger::Level;
        let levels = (0..PINS).filter(is_level).fold(0, |levels, pin| levels | 1 << pin);
        IoApicRegisters {
            select: self.select,
            id: self.id,
            entries: self.entries,
            levels: levels & self.asserted,
        }
    }

    /// Takes over the registers of another. The pins have these levels already: nothing comes of them.
    pub fn set_registers(&mut self, registers: &IoApicRegisters, asserted: u32) {
        self.select = registers.select;
        self.id = registers.id & self.id_bits;
        self.entries = registers.entries.map(|entry| entry & (WRITABLE | REMOTE_IRR));
        self.asserted = asserted;
    }

    /// Reads a 32-bit register of the memory window: IOREGSEL at 0, IOWIN at 10h.
    pub fn read(&self, offset: u64) -> u32 {
        match offset {
            IOREGSEL => self.select.into(),
            IOWIN => match self.select {
                // Identification and arbitration: the arbitration ID starts as the APIC ID.
                0 | 2 => u32::from(self.id) << 24,
                1 => VERSION,
                _ => self.selected_entry().map_or(0, |(pin, high)| {
                    (self.entries[pin] >> if high { 32 } else { 0 }) as u32
                }),
            },
            _ => 0,
        }
    }

    /// Writes a register. `deliver` carries a message to the local APICs and says whether one of
    /// them accepted it.
    pub fn write(&mut self, offset: u64, value: u32, deliver: impl FnMut(Message) -> bool) {
        match offset {
            IOREGSEL => self.select = value as u8,
            IOWIN if self.select == 0 => self.id = (value >> 24) as u8 & self.id_bits,
            IOWIN => {
                if let Some((pin, high)) = self.selected_entry() {
                    self.write_entry(pin, high, value);
                    self.service_level(pin, deliver);
                }
            }
            _ => {}
        }
    }

    /// The pin whose entry IOREGSEL selects, and whether it is the upper half.
    fn selected_entry(&self) -> Option<(usize, bool)> {
        let index = self.select.checked_sub(0x10)?;
        let pin = usize::from(index >> 1);
        (pin < PINS).then_some((pin, index & 1 != 0))
    }

    fn write_entry(&mut self, pin: usize, high: bool, value: u32) {
        let old = self.entries[pin];
        let new = if high {
            old & 0xFFFF_FFFF | u64::from(value) << 32
        } else {
            old & !0xFFFF_FFFF | u64::from(value)
        };
        let mut entry = new & WRITABLE | old & REMOTE_IRR;
        // Software clears a stuck remote IRR by making the entry edge triggered for a moment.
        if trigger(entry) == Trigger::Edge {
            entry &= !REMOTE_IRR;
        }
        self.entries[pin] = entry;
    }

    /// Sets the level of `pin`. A rising edge on a masked edge-triggered entry is lost.
    pub fn set_pin(
        &mut self,
        pin: usize,
        asserted: bool,
        mut deliver: impl FnMut(Message) -> bool,
    ) {
        if pin >= PINS {
            return;
        }
        let rising = asserted && self.asserted & 1 << pin == 0;
        if asserted {
            self.asserted |= 1 << pin;
        } else {
            self.asserted &= !(1 << pin);
        }
        let entry = self.entries[pin];
        match trigger(entry) {
            Trigger::Edge => {
                if rising && entry & MASKED == 0 {
                    deliver(message(entry));
                }
            }
            Trigger::Level => self.service_level(pin, deliver),
        }
    }

    /// The end of a level-triggered vector: clears remote IRR of its entries, and delivers again
    /// what is still asserted.
    pub fn eoi(&mut self, vector: u8, mut deliver: impl FnMut(Message) -> bool) {
        for pin in 0..PINS {
            let entry = self.entries[pin];
            if entry as u8 == vector && entry & REMOTE_IRR != 0 {
                self.entries[pin] = entry & !REMOTE_IRR;
                self.service_level(pin, &mut deliver);
            }
        }
    }

    fn service_level(&mut self, pin: usize, mut deliver: impl FnMut(Message) -> bool) {
        let entry = self.entries[pin];
        let asserted = self.asserted & 1 << pin != 0;
        if trigger(entry) == Trigger::Level
            && asserted
            && entry & (MASKED | REMOTE_IRR) == 0
            && deliver(message(entry))
        {
            self.entries[pin] |= REMOTE_IRR;
        }
    }
}

/// The trigger mode in force: NMI, INIT and ExtINT are edge triggered whatever bit 15 says, since
/// only a vector has an end of interrupt.
fn trigger(entry: u64) -> Trigger {
    match DeliveryMode::from_register(entry as u32) {
        DeliveryMode::Fixed | DeliveryMode::LowestPriority => Trigger::from_register(entry as u32),
        _ => Trigger::Edge,
    }
}

fn message(entry: u64) -> Message {
    let low = entry as u32;
    Message {
        mode: DeliveryMode::from_register(low),
        vector: low as u8,
        trigger: trigger(entry),
        destination: Destination::from_register(low, (entry >> 56) as u8),
    }
}
