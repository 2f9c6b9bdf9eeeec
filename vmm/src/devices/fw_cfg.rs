//! The firmware configuration interface of QEMU ("QEMU Firmware Configuration (fw_cfg) Device"), of
//! which bare-metal test kernels ask the memory size and the number of processors.

use serde::{Deserialize, Serialize};

/// Selector, 16 bits, write-only.
pub const SELECTOR: u16 = 0x510;
/// Data, one byte at a time.
pub const DATA: u16 = 0x511;

const SIGNATURE: u16 = 0x00;
const ID: u16 = 0x01;
const RAM_SIZE: u16 = 0x03;
const NB_CPUS: u16 = 0x05;
const MAX_CPUS: u16 = 0x0F;

/// The selected item and the position in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FwCfg {
    ram_size: u64,
    vcpus: u16,
    key: u16,
    offset: usize,
}

impl FwCfg {
    /// Items for a machine with `ram_size` bytes of memory and `vcpus` processors.
    pub fn new(ram_size: u64, vcpus: u16) -> Self {
        Self { ram_size, vcpus, key: SIGNATURE, offset: 0 }
    }

    /// Selects an item and starts at its first byte.
    pub fn select(&mut self, key: u16) {
        self.key = key;
        self.offset = 0;
    }

    /// The next byte of the selected item; zero beyond its end and for an item that is not there.
    pub fn read(&mut self) -> u8 {
        let value = match self.key {
            SIGNATURE => u64::from(u32::from_le_bytes(*b"QEMU")),
            // The traditional interface, without DMA.
            ID => 1,
            RAM_SIZE => self.ram_size,
            NB_CPUS | MAX_CPUS => self.vcpus.into(),
            _ => 0,
        };
        let byte = value.to_le_bytes().get(self.offset).copied().unwrap_or(0);
        self.offset = self.offset.saturating_add(1);
        byte
    }
}
