//! Which processors execute something, without asking all of them.
//!
//! A processor sleeps while it is halted or waits for a start-up IPI. It does not change then, so that it
//! needs no look before something stirs it: its local APIC ([`crate::irq::Interrupts::stirred`]), or an
//! INIT or start-up signal. Time passes for it when it wakes, all at once.

use serde::{Deserialize, Serialize};

use crate::ahead::Activity;
use crate::machine::Machine;
use crate::processor_set::ProcessorSet;

/// Who is awake, as of the last look.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Roster {
    /// Those that execute something.
    awake: ProcessorSet,
    /// Of the others, those that take maskable interrupts.
    open: ProcessorSet,
    /// Those to be looked at again, beside those whose local APICs say so.
    stirred: ProcessorSet,
}

impl Roster {
    /// Whether it is of these processors.
    pub(crate) fn is_of(&self, all: ProcessorSet) -> bool {
        let Self { awake, open, stirred } = *self;
        awake.union(open).union(stirred).is_within(all)
    }

    /// Has a processor looked at again.
    pub(crate) fn stir(&mut self, id: usize) {
        self.stirred.insert(id);
    }

    /// Forgets who has been stirred.
    pub(crate) fn forget_stirred(&mut self) {
        self.stirred = ProcessorSet::default();
    }
}

impl Machine {
    /// Looks at every processor: anything may have changed.
    pub(crate) fn look_at_all(&mut self) {
        self.roster.stirred = ProcessorSet::first(self.vcpus.len());
        self.vcpus.iter().for_each(|vcpu| self.soft.look_at(vcpu));
    }

    /// The processors that execute something, or whose HLT is yet to issue. Those that did not until now have slept
    /// until now.
    pub(crate) fn rouse(&mut self) -> ProcessorSet {
        let stirred = std::mem::take(&mut self.roster.stirred);
        let stirred = stirred.union(self.board.chipset.irq.take_stirred());
        for id in self.roster.awake.union(stirred).iter() {
            let vcpu = &mut self.vcpus[id];
            let asleep = vcpu.asleep(&self.board);
            if !asleep && !self.roster.awake.contains(id) {
                vcpu.sleep_until(self.now);
            }
            let is_open = asleep && !vcpu.waits_for_startup && vcpu.cpu.interrupts_enabled();
            self.roster.awake.assign(id, !asleep);
            self.roster.open.assign(id, is_open);
        }
        self.roster.awake.union(self.soft.halting())
    }

    /// Whether no processor executes anything until an interrupt or a start-up IPI arrives.
    pub(crate) fn is_asleep(&mut self) -> bool {
        self.rouse().is_empty()
    }

    /// What the processors of the software engine are about.
    pub(crate) fn activity(&mut self) -> Activity {
        let asleep = self.is_asleep();
        let masked = self.roster.awake.is_empty() && self.roster.open.is_empty();
        Activity { asleep, masked: asleep && masked }
    }

    /// The first processor from number `from` on, of those that slept when the running turn began, that
    /// may do anything before `until`. If something waits for whoever comes next, that is the next one.
    pub(crate) fn next_stirred(
        &self,
        awake: ProcessorSet,
        from: usize,
        until: u64,
        counted: bool,
    ) -> Option<usize> {
        let irq = &self.board.chipset.irq;
        let for_anyone = self.board.is_due(until)
            || irq.has_signals()
            || self.board.chipset.has_events()
            || counted && !self.soft.is_counting();
        let candidates = match for_anyone {
            true => ProcessorSet::first(self.vcpus.len()),
            false => {
                let arrivals = irq.receivers(until.saturating_sub(1));
                self.roster.stirred.union(irq.stirred()).union(arrivals)
            }
        };
        candidates.without(awake).next(from)
    }

    /// The processors below number `below` that slept when the running turn began have slept until
    /// `until`.
    pub(crate) fn have_slept(&mut self, awake: ProcessorSet, below: usize, until: u64) {
        for id in (0..below).filter(|&id| !awake.contains(id)) {
            self.vcpus[id].sleep_until(until);
        }
    }

    /// All processors that are asleep have slept until now.
    pub(crate) fn settle(&mut self) {
        self.have_slept(self.roster.awake, self.vcpus.len(), self.now);
    }
}
