//! Guest memory, as KVM sees it: one memory slot for each contiguous part, and KVM's log of the pages
//! that the guest has written in it.
//!
//! One of the modules with `unsafe`: it vouches to the kernel for the mapping, and for the bitmaps of
//! the log.

#![allow(unsafe_code)]

use std::ffi::c_void;

use kvm_bindings::{
    KVM_MEM_LOG_DIRTY_PAGES, KVM_MEM_READONLY, kvm_clear_dirty_log,
    kvm_clear_dirty_log__bindgen_ty_1 as ClearBitmap, kvm_dirty_log,
    kvm_dirty_log__bindgen_ty_1 as GetBitmap, kvm_userspace_memory_region,
};
use kvm_ioctls::VmFd;
use vm_memory::{Address, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::{errno, ioctl_iow_nr, ioctl_iowr_nr};

use crate::boot::memory::GuestRam;
use crate::error::{Error, Result};

ioctl_iow_nr!(KVM_GET_DIRTY_LOG, kvm_bindings::KVMIO, 0x42, kvm_dirty_log);
ioctl_iowr_nr!(KVM_CLEAR_DIRTY_LOG, kvm_bindings::KVMIO, 0xc0, kvm_clear_dirty_log);

const PAGE: u64 = 4096;
/// Pages in a word of a bitmap. `KVM_CLEAR_DIRTY_LOG` takes whole words.
const WORD: usize = 64;

/// A part of the guest's RAM.
#[derive(Debug)]
pub(super) struct Slot {
    region: kvm_userspace_memory_region,
}

fn refused(
    gpa: GuestAddress,
    megabytes: u64,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let text = format!("KVM refuses {megabytes} MiB of memory at {:#x}: {cause}", gpa.raw_value());
    Error::Host(text).because(cause)
}

/// Gives a machine its memory; a write to the ROM is an access to a device that is not there. Returns
/// the slots that the guest can write.
///
/// # Errors
/// If the host refuses.
pub(super) fn register(vm: &VmFd, ram: &GuestRam, rom: Option<&GuestRam>) -> Result<Vec<Slot>> {
    let ram = ram.iter().map(|region| (ram, region, 0));
    let rom = rom.into_iter().flat_map(|rom| rom.iter().map(move |r| (rom, r, KVM_MEM_READONLY)));
    let mut slots = Vec::new();
    for (slot, (mapping, region, flags)) in (0..).zip(ram.chain(rom)) {
        let gpa = region.start_addr();
        let megabytes = region.len() >> 20;
        let host = mapping.get_host_address(gpa).map_err(|e| refused(gpa, megabytes, e))?;
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
        unsafe { vm.set_user_memory_region(region) }.map_err(|e| refused(gpa, megabytes, e))?;
        if flags & KVM_MEM_READONLY == 0 {
            slots.push(Slot { region });
        }
    }
    Ok(slots)
}

impl Slot {
    /// The number of the page at guest-physical address `gpa` within the slot, if it is there.
    pub(super) fn page(&self, gpa: u64) -> Option<usize> {
        let offset = gpa.checked_sub(self.region.guest_phys_addr)?;
        (offset < self.region.memory_size).then_some((offset / PAGE) as usize)
    }

    /// The guest-physical address of the page with a number within the slot.
    pub(super) fn address(&self, page: usize) -> u64 {
        self.region.guest_phys_addr + page as u64 * PAGE
    }

    /// Words of a bitmap with a bit a page.
    pub(super) fn words(&self) -> usize {
        self.pages().div_ceil(WORD)
    }

    fn pages(&self) -> usize {
        (self.region.memory_size / PAGE) as usize
    }

    /// Has KVM log from now on which pages the guest writes.
    ///
    /// # Errors
    /// If the host refuses; so for all methods here.
    pub(super) fn start_log(&self, vm: &VmFd) -> errno::Result<()> {
        let region = kvm_userspace_memory_region {
            flags: self.region.flags | KVM_MEM_LOG_DIRTY_PAGES,
            ..self.region
        };
        // SAFETY: as in `register`: it is the same region, but for the flag.
        unsafe { vm.set_user_memory_region(region) }
    }

    /// Fills `bitmap`, of [`Self::words`] words, with a bit a page: whether the guest may have written
    /// it since its bit was cleared last.
    pub(super) fn read_log(&self, vm: &VmFd, bitmap: &mut [u64]) -> errno::Result<()> {
        assert_eq!(bitmap.len(), self.words());
        let argument = kvm_dirty_log {
            slot: self.region.slot,
            padding1: 0,
            __bindgen_anon_1: GetBitmap { dirty_bitmap: bitmap.as_mut_ptr().cast::<c_void>() },
        };
        // SAFETY: the file is a VM, and the kernel writes a bit for each page of the slot, in whole
        // 64-bit words, which is what `bitmap` has room for.
        done(unsafe { ioctl_with_ref(vm, KVM_GET_DIRTY_LOG(), &argument) })
    }

    /// Clears the bits in KVM's log that are set in `bitmap`, the first of which stands for the page of
    /// the slot with the number `64 * first_word`. KVM sets them again when the guest writes.
    pub(super) fn clear_log(
        &self,
        vm: &VmFd,
        first_word: usize,
        bitmap: &mut [u64],
    ) -> errno::Result<()> {
        let first = first_word * WORD;
        assert!(first_word + bitmap.len() <= self.words());
        // A word at the end of the slot may have fewer pages.
        let pages = (bitmap.len() * WORD).min(self.pages() - first);
        let argument = kvm_clear_dirty_log {
            slot: self.region.slot,
            num_pages: pages as u32,
            first_page: first as u64,
            __bindgen_anon_1: ClearBitmap { dirty_bitmap: bitmap.as_mut_ptr().cast::<c_void>() },
        };
        // SAFETY: the file is a VM, and the kernel reads a bit for each of `num_pages` pages, in whole
        // 64-bit words, which `bitmap` has.
        done(unsafe { ioctl_with_ref(vm, KVM_CLEAR_DIRTY_LOG(), &argument) })
    }
}

fn done(result: i32) -> errno::Result<()> {
    if result < 0 { Err(errno::Error::last()) } else { Ok(()) }
}
