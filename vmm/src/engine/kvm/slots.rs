//! Guest memory, as KVM sees it.
//!
//! One of the modules with `unsafe`: it vouches to the kernel for the mapping.

#![allow(unsafe_code)]

use kvm_bindings::{KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::VmFd;
use vm_memory::{Address, GuestMemoryBackend, GuestMemoryRegion};

use crate::boot::memory::GuestRam;
use crate::error::{Error, Result};

/// Gives a machine its memory; a write to the ROM is an access to a device that is not there.
///
/// # Errors
/// If the host refuses.
pub(super) fn register(vm: &VmFd, ram: &GuestRam, rom: Option<&GuestRam>) -> Result<()> {
    let ram = ram.iter().map(|region| (ram, region, 0));
    let rom = rom.into_iter().flat_map(|rom| rom.iter().map(move |r| (rom, r, KVM_MEM_READONLY)));
    for (slot, (mapping, region, flags)) in (0..).zip(ram.chain(rom)) {
        let gpa = region.start_addr();
        let refused = |e: &dyn std::fmt::Display| {
            let megabytes = region.len() >> 20;
            Error::Host(format!(
                "KVM refuses {megabytes} MiB of memory at {:#x}: {e}",
                gpa.raw_value()
            ))
        };
        let host = mapping.get_host_address(gpa).map_err(|e| refused(&e))?;
        let region = kvm_userspace_memory_region {
            slot,
            flags,
            guest_phys_addr: gpa.raw_value(),
            memory_size: region.len(),
            userspace_addr: host as u64,
        };
        // SAFETY: the region is a readable and writable mapping of this size, which `Memory` keeps
        // for as long as the machine lives; the processors run within its `Machine::run` only. No
        // Rust reference to guest memory is held while they do: the software CPU and the boot code
        // go through raw pointers and volatile accessors.
        unsafe { vm.set_user_memory_region(region) }.map_err(|e| refused(&e))?;
    }
    Ok(())
}
