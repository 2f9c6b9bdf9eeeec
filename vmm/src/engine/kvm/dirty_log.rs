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
//!
//! While a snapshot in memory says what RAM was, it matters of all pages whether they are written: then logging
//! begins with the run, all pages are protected that are not known to have been written since, and what the log names
//! becomes known ([`Ram::take_written`]). So a run that follows a reset protects what the run before it has written.

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
    /// It matters of all pages whether they are written, and not only of those with translated code.
    of_all: bool,
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
    /// The log of these `slots`, all that the guest can write; `has` says whether the host has one. It begins now
    /// if it matters `of_all` pages whether they are written.
    pub(super) fn new(vm: &'m VmFd, slots: &'m [Slot], has: bool, of_all: bool, ram: &Ram) -> Self {
        let availability = if has { Availability::Off } else { Availability::Unavailable };
        let mut log = Self { vm, slots, availability, of_all, bitmap: Vec::new() };
        if of_all {
            log.begin(ram);
            if log.availability == Availability::On {
                let protected = log.protect_unwritten(ram);
                log.give_up_on(protected);
            }
        }
        log
    }

    /// Whether [`Ram::take_written`] has named, or will name, all pages that the guest has written, if that was
    /// asked for.
    pub(super) fn is_of_all(&self) -> bool {
        self.of_all && self.availability == Availability::On
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
        let marked = match self.availability {
            Availability::On if self.of_all => self.mark_all_written(ram),
            Availability::On => self.mark_written(ram, &ram.code_pages()),
            Availability::Off | Availability::Unavailable => Ok(()),
        };
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

    /// Clears the bits of all pages that are not known to have been written.
    fn protect_unwritten(&mut self, ram: &Ram) -> errno::Result<()> {
        for slot in self.slots {
            self.bitmap.resize(slot.words(), 0);
            slot.read_log(self.vm, &mut self.bitmap)?;
            for n in bits(&self.bitmap).into_iter().filter(|&n| ram.is_written(slot.address(n))) {
                self.bitmap[n / 64] &= !(1 << (n % 64));
            }
            let first = self.bitmap.iter().position(|&word| word != 0);
            let last = self.bitmap.iter().rposition(|&word| word != 0);
            if let (Some(first), Some(last)) = (first, last) {
                slot.clear_log(self.vm, first, &mut self.bitmap[first..=last])?;
            }
        }
        Ok(())
    }

    /// Notes in `ram` all pages whose bits are set.
    fn mark_all_written(&mut self, ram: &Ram) -> errno::Result<()> {
        for slot in self.slots {
            self.bitmap.resize(slot.words(), 0);
            slot.read_log(self.vm, &mut self.bitmap)?;
            bits(&self.bitmap).into_iter().for_each(|n| _ = ram.note_page_written(slot.address(n)));
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

/// The numbers of the bits that are set.
fn bits(bitmap: &[u64]) -> Vec<usize> {
    let words = bitmap.iter().enumerate().filter(|(_, word)| **word != 0);
    words
        .flat_map(|(at, &word)| {
            (0..64).filter(move |n| word >> n & 1 != 0).map(move |n| 64 * at + n)
        })
        .collect()
}
