//! PCI configuration mechanism 1 (PCI Local Bus Specification 2.3, section 3.2.2.3.2) in front of a
//! bus with nothing on it.

use serde::{Deserialize, Serialize};

/// Configuration address register; a 32-bit access only, narrower ones pass it by.
pub const ADDRESS: u16 = 0xCF8;

/// The configuration address register. Data reads end in a master abort, which reads as all ones,
/// as do all ports of no device; so the data port needs nothing here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciConfig {
    address: u32,
}

impl PciConfig {
    /// Reads the address register.
    pub fn address(&self) -> u32 {
        self.address
    }

    /// Writes it: enable in bit 31, bus, device, function, register. Bits 30:24 and 1:0 are reserved.
    pub fn set_address(&mut self, value: u32) {
        self.address = value & 0x80FF_FFFC;
    }
}
