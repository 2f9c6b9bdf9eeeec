//! Guest memory, mapped once and seen in two ways: as the boot code writes it, and as the software
//! CPU runs in it.
//!
//! One of the modules with `unsafe`: it guarantees to the CPU that the mapping lives.

#![allow(unsafe_code)]

use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};
use x86_cpu::ram::{PAGE, Ram, Region};

use crate::boot::memory::{GuestRam, RamLayout};
use crate::error::{Error, Result};

/// The guest's RAM.
pub struct Memory {
    /// As the CPU sees it. Declared first, so that it goes before the mappings do.
    ram: Ram,
    mapping: GuestRam,
    /// Owns the memory of the ROM, if there is one.
    rom: Option<GuestRam>,
}

/// A ROM: its contents, and where the guest sees them.
#[derive(Clone, Copy, Debug)]
pub struct Rom {
    /// Guest-physical address, a multiple of 4096.
    pub address: u64,
    /// The contents, a multiple of 4096 bytes.
    pub image: &'static [u8],
}

impl Memory {
    /// Reserves host memory, zeroed by the host, and fills the ROM.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn new(layout: &RamLayout, rom: Option<Rom>) -> Result<Self> {
        let mapping = layout.allocate()?;
        let rom = rom.map(allocate_rom).transpose()?;
        let mut regions = Vec::new();
        for memory in [Some(&mapping), rom.as_ref()].into_iter().flatten() {
            for region in memory.iter() {
                let gpa = region.start_addr();
                let host = memory.get_host_address(gpa).map_err(|e| refused(gpa, e))?;
                regions.push(Region { gpa: gpa.raw_value(), len: region.len(), host });
            }
        }
        // SAFETY: each region is a readable and writable mapping of `len` bytes at `host`. `mapping`
        // or `rom` owns it, lives in the same structure as the `Ram` and is dropped after it.
        // vm-memory hands out volatile accessors and no references, and they are used only before
        // the first processor runs ([`Memory::mapping`] takes the structure exclusively).
        let mut ram = unsafe { Ram::new(&regions) };
        for region in rom.iter().flat_map(GuestMemoryBackend::iter) {
            ram.protect(region.start_addr().raw_value());
        }
        Ok(Self { ram, mapping, rom })
    }

    /// As the CPU sees it.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// The guest-physical addresses of all pages of RAM, ascending; not those of the ROM.
    pub(crate) fn ram_pages(&self) -> impl Iterator<Item = u64> {
        self.mapping.iter().flat_map(|region| {
            let start = region.start_addr().raw_value();
            (start..start + region.len()).step_by(PAGE as usize)
        })
    }

    /// As the boot code writes it, while nothing runs.
    pub fn mapping(&mut self) -> &GuestRam {
        &self.mapping
    }

    /// RAM, and the ROM if there is one, while nothing runs.
    pub fn mappings(&mut self) -> (&GuestRam, Option<&GuestRam>) {
        (&self.mapping, self.rom.as_ref())
    }
}

/// Memory with the contents of a ROM.
fn allocate_rom(rom: Rom) -> Result<GuestRam> {
    let address = GuestAddress(rom.address);
    let memory =
        GuestRam::from_ranges(&[(address, rom.image.len())]).map_err(|e| refused(address, e))?;
    memory.write_slice(rom.image, address).map_err(|e| refused(address, e))?;
    Ok(memory)
}

fn refused(address: GuestAddress, why: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Host(format!("guest memory at {:#x}: {why}", address.raw_value())).because(why)
}
