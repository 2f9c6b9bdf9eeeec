//! What interrupt controllers say to each other on the APIC bus.

use serde::{Deserialize, Serialize};

/// The delivery mode field, bits 10:8 of an LVT entry, of the ICR and of a redirection entry
/// (SDM Vol. 3A, "Local Vector Table").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryMode {
    /// 000b: the vector, to every destination.
    Fixed,
    /// 001b: the vector, to the destination with the lowest arbitration priority. Reserved in an
    /// LVT entry.
    LowestPriority,
    /// 010b: a system-management interrupt. This machine has no SMM; it is dropped.
    Smi,
    /// 011b: reserved.
    Reserved,
    /// 100b: a non-maskable interrupt; the vector is ignored.
    Nmi,
    /// 101b: INIT.
    Init,
    /// 110b: start-up IPI, ICR only.
    StartUp,
    /// 111b: the 8259A supplies the vector.
    ExtInt,
}

impl DeliveryMode {
    /// Takes bits 10:8 of `register`.
    pub fn from_register(register: u32) -> Self {
        match register >> 8 & 7 {
            0 => Self::Fixed,
            1 => Self::LowestPriority,
            2 => Self::Smi,
            3 => Self::Reserved,
            4 => Self::Nmi,
            5 => Self::Init,
            6 => Self::StartUp,
            _ => Self::ExtInt,
        }
    }
}

/// The trigger mode, bit 15 of the same registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// 0: edge.
    Edge,
    /// 1: level; the end of interrupt goes back to the I/O APIC.
    Level,
}

impl Trigger {
    /// Takes bit 15 of `register`.
    pub fn from_register(register: u32) -> Self {
        if register & 1 << 15 == 0 { Self::Edge } else { Self::Level }
    }
}

/// Whom a message addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destination {
    /// Destination mode 0: the local APIC with this ID; FFh is every one.
    Physical(u8),
    /// Destination mode 1: a message destination address, compared as LDR and DFR say.
    Logical(u8),
    /// Shorthand 01b: the sender.
    Itself,
    /// Shorthand 10b: all, the sender included.
    All,
    /// Shorthand 11b: all but the sender.
    AllButSender,
}

impl Destination {
    /// `mda` with the destination mode, bit 11 of `register`.
    pub fn from_register(register: u32, mda: u8) -> Self {
        if register & 1 << 11 == 0 { Self::Physical(mda) } else { Self::Logical(mda) }
    }
}

/// An interrupt message: from an ICR (an IPI) or from a pin of the I/O APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// How it is delivered.
    pub mode: DeliveryMode,
    /// The vector; the start page for a start-up IPI.
    pub vector: u8,
    /// Edge or level.
    pub trigger: Trigger,
    /// Whom it addresses.
    pub destination: Destination,
}
