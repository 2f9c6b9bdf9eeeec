//! Which translations of the software CPU the guest has made stale while KVM ran it.
//!
//! The software CPU keeps what it has translated, and drops it when the code is overwritten. Its own
//! writes it sees. Those of the guest on the host's processor are in KVM's dirty log, which is read
//! when all processors have left the guest and before the software CPU goes on.
//!
//! KVM logs writes to a page by protecting it from them, so the first one of each page takes a fault.
//! To spare the guest faults that do not matter, the log is told explicitly which pages to protect
//! (`KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2`): the bits of pages without translated code stay set, which
//! costs nothing and means nothing. Logging begins when the software engine gives the processors back
//! for the first time, since a host maps logged memory in pages of 4 KiB only.

use kvm_bindings::{
    KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2, KVM_DIRTY_LOG_INITIALLY_SET,
    KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE, kvm_enable_cap,
};
use kvm_ioctls::VmFd;
use vmm_sys_util::errno;
use x86_cpu::ram::Ram;

use super::slots::Slot;
use crate::engine::soft::Soft;

/// KVM's log of the pages that the guest has written.
#[derive(Debug)]
pub(super) struct DirtyLog<'m> {
    vm: &'m VmFd,
    slots: &'m [Slot],
    availability: Availability,
    /// Scratch: a bit a page of one slot.
    bitmap: Vec<u64>,
}

/// Whether the log says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Availability {
    /// It has not been begun: all pages may have been written.
    Off,
    /// It has all writes to pages with translated code since [`DirtyLog::begin`].
    On,
    /// The host does not log as is needed here.
    Unavailable,
}

impl<'m> DirtyLog<'m> {
    /// The log of these `slots`, all that the guest can write; `has` says whether the host has one.
    pub(super) fn new(vm: &'m VmFd, slots: &'m [Slot], has: bool) -> Self {
        let availability = if has { Availability::Off } else { Availability::Unavailable };
        Self { vm, slots, availability, bitmap: Vec::new() }
    }

    /// Has KVM log writes to the pages that hold translated code. Called before the first processor
    /// enters the guest after the software CPU had them.
    pub(super) fn begin(&mut self, ram: &Ram) {
        if self.availability == Availability::Off {
            self.availability = Availability::On;
            let started = self.start();
            self.give_up_on(started);
        }
        if self.availability == Availability::On {
            let protected = self.protect(&ram.code_pages());
            self.give_up_on(protected);
        }
    }

    /// Drops the translations of pages that the guest has written since [`Self::begin`]. Called when no
    /// processor is in the guest any more, before the software CPU executes any translation.
    pub(super) fn drop_stale(&mut self, ram: &Ram, soft: &mut Soft) {
        let pages =
            if self.availability == Availability::On { ram.code_pages() } else { Vec::new() };
        let marked = self.mark_written(ram, &pages);
        self.give_up_on(marked);
        if self.availability != Availability::On {
            soft.forget();
        }
    }

    fn start(&self) -> errno::Result<()> {
        let manual_protect = KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET;
        self.vm.enable_cap(&kvm_enable_cap {
            cap: KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2,
            args: [manual_protect.into(), 0, 0, 0],
            ..Default::default()
        })?;
        self.slots.iter().try_for_each(|slot| slot.start_log(self.vm))
    }

    /// Clears the bits of `pages`.
    fn protect(&mut self, pages: &[u64]) -> errno::Result<()> {
        for slot in self.slots {
            self.bitmap.clear();
            self.bitmap.resize(slot.words(), 0);
            let (mut first, mut last) = (usize::MAX, 0);
            for page in pages.iter().filter_map(|&gpa| slot.page(gpa)) {
                self.bitmap[page / 64] |= 1 << (page % 64);
                (first, last) = (first.min(page / 64), last.max(page / 64));
            }
            if first <= last {
                slot.clear_log(self.vm, first, &mut self.bitmap[first..=last])?;
            }
        }
        Ok(())
    }

    /// Notes in `ram` those of `pages` whose bits are set.
    fn mark_written(&mut self, ram: &Ram, pages: &[u64]) -> errno::Result<()> {
        for slot in self.slots {
            let mut pages = pages.iter().filter_map(|&gpa| Some((gpa, slot.page(gpa)?))).peekable();
            if pages.peek().is_none() {
                continue;
            }
            self.bitmap.resize(slot.words(), 0);
            slot.read_log(self.vm, &mut self.bitmap)?;
            for (gpa, _) in pages.filter(|(_, n)| self.bitmap[n / 64] >> (n % 64) & 1 != 0) {
                ram.note_page_written(gpa);
            }
        }
        Ok(())
    }

    /// Goes without the log from now on if the host has refused something.
    fn give_up_on(&mut self, result: errno::Result<()>) {
        if let Err(error) = result {
            log::warn!("KVM does not log writes ({error}): code is translated anew each time");
            self.availability = Availability::Unavailable;
        }
    }
}
