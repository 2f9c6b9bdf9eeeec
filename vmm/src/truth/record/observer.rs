//! What the recorder does when execution tells it something.

use pmu_model::Signal;
use x86_cpu::block::Code;
use x86_cpu::class::ClassCount;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{Accesses, Counting, Delivery, Facts, Observer};
use x86_cpu::ram::Ram;

use super::calls::Ending;
use super::records::Where;
use super::stacks::Slot;
use super::{Here, NO_PLACE, Recorder, Running};
use crate::truth::Entered;

impl Observer for Box<Recorder> {
    const COUNTS: bool = true;
    const FOLLOWS: bool = true;

    #[inline(always)]
    fn counting(&mut self) -> Option<&mut Counting> {
        Some(&mut self.totals.counting)
    }

    /// A copy for whoever takes out what was counted.
    fn facts(&mut self) -> Option<&mut Facts> {
        self.commit_recent();
        let now = *self.totals.counting.complete();
        self.lent.add(&now.since(&self.seen_by_lender));
        self.seen_by_lender = now;
        Some(&mut self.lent)
    }

    fn commit(&mut self, _: &Cpu, _: &Ram, _: &Insn) {
        self.commit_recent();
    }

    /// All of that is in [`Observer::finished`], which always comes next.
    #[inline(always)]
    fn block_finished(&mut self) {}

    #[inline(always)]
    fn retired_classes(&mut self, sums: &[ClassCount]) {
        self.totals.counting.retired_classes(sums);
        self.totals.has_rest = true;
    }

    fn inner_stores(&mut self, stores: u64, misaligned: u64) {
        self.totals.counting.inner_stores(stores, misaligned);
        let inner = &mut self.inner[self.here.place.vcpu as usize];
        inner.stores += stores;
        inner.misaligned += misaligned;
    }

    #[inline(always)]
    fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        let Recorder { here, running, records, .. } = &mut **self;
        if running.time == cpu.time {
            let linear = here.code.linear(cpu.rip);
            if let Some(known) = records.known(block, linear, running.place) {
                running.enter(cpu, known, linear);
                debug_assert!(self.is_here(cpu), "a near transfer to another place");
                return;
            }
        }
        self.arrive(cpu, ram, block);
    }

    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.running.is_quiet
    }

    #[inline(always)]
    fn retired(&mut self, cpu: &Cpu, _: &Ram, _: &impl Code, insn: &Insn) {
        self.instruction_retired(cpu.time, insn);
    }

    fn interrupted(&mut self, cpu: &Cpu, insn: &Insn) {
        if self.running.is_quiet {
            self.quiet_block_ended();
        }
        self.instruction_retired(cpu.time + self.told, insn);
        self.count_rare(self.running.cell(insn));
        self.running.went_far = false;
        if insn.index == 0 {
            self.running.retired_nothing();
        }
    }

    #[inline(always)]
    fn finished(&mut self, cpu: &Cpu, block: &impl Code, count: usize) {
        if count != block.len() {
            return self.finished_part(cpu, count);
        }
        let seen = self.totals.counting.recent().packed().wrapping_add(cpu.time);
        if seen == self.running.seen.wrapping_add(self.running.usual) {
            self.running.seen = seen;
            self.running.time = cpu.time;
        } else {
            self.finished_unusually(cpu, block);
        }
        let Recorder { here, running, records, contexts, totals, .. } = &mut **self;
        let Some(record) = records.records.get_mut(running.found.record as usize) else {
            return;
        };
        record.runs += 1;
        match record.ending {
            Ending::Conditional => {
                record.taken += u64::from(cpu.has_branched());
                self.keep_room();
            }
            Ending::Jump => self.keep_room(),
            Ending::Call { start, end } => {
                if let Some(share) = contexts.share()
                    && totals.give(share, cpu.time, cpu.retired())
                {
                    totals.make_room(share);
                    running.see(totals.counting.recent().packed(), cpu.time);
                }
                let entry = here.code.linear(cpu.rip);
                let returns_to = running.linear.wrapping_add(u64::from(end));
                let slot = Slot { space: here.stack, address: cpu.stack_linear() };
                let callee = &mut record.callee;
                if callee.from == contexts.context() && callee.entry == entry {
                    callee.times += 1;
                    contexts.call_near(callee.context, slot, returns_to);
                } else {
                    self.call_another(entry, start, slot, returns_to);
                }
            }
            Ending::Return { popped } => {
                if let Some(share) = contexts.share()
                    && totals.give(share, cpu.time, cpu.retired())
                {
                    totals.make_room(share);
                    running.see(totals.counting.recent().packed(), cpu.time);
                }
                let to = here.code.linear(cpu.rip);
                let address = cpu.stack_linear().wrapping_sub(popped);
                let slot = Slot { space: here.stack, address };
                if !contexts.ret_near(to, slot) {
                    self.ret(to, slot, false);
                }
            }
            Ending::FarReturn | Ending::Other => {
                self.keep_room();
                self.finished_far(cpu, block);
            }
        }
    }

    fn delivering(&mut self, cpu: &Cpu) {
        self.totals.has_rest = true;
        self.pass(cpu.time);
        self.commit_recent();
        self.forget_committed();
        self.update_here(cpu);
        self.running.linear = cpu.linear_rip();
        self.running.bits = cpu.code_size().bits();
        // A fetch that matched a breakpoint and did not get to an instruction.
        let now = *self.totals.counting.complete();
        let facts = rare_part(now.since(&self.running.facts));
        self.running.facts = now;
        if facts != Facts::default() {
            let at = (self.here.place, self.running.linear, self.running.bits);
            self.deliveries.entry(at).or_default().facts.add(&facts);
        }
    }

    fn delivered(&mut self, cpu: &Cpu, _: &Ram, delivery: Delivery) {
        self.commit_recent();
        self.forget_committed();
        let now = *self.totals.counting.complete();
        let mut facts = now.since(&self.running.facts);
        self.running.facts = now;
        facts.inner = Accesses::default();
        let time = cpu.time + self.told;
        let cycles = self.running.pass(time);
        let Running { linear: site, bits, .. } = self.running;
        let delivered = self.deliveries.entry((self.here.place, site, bits)).or_default();
        delivered.facts.add(&facts);
        delivered.cycles += cycles;
        self.running.delivered = Some((self.here.place, site, bits));
        let Delivery { vector, interrupt, code_bytes } = delivery;
        let entered =
            if interrupt { Entered::Interrupt(vector) } else { Entered::Exception(vector) };
        let from_user = self.here.place.cpl == 3 && cpu.cpl() != 3;
        let at = cpu.stack_linear().wrapping_add(u64::from(code_bytes));
        let slot = self.slot(cpu.cpl(), at);
        self.share_out(time, cpu.retired());
        let Where { cpl, space, .. } = self.here.place;
        self.contexts.current(site, space, cpl);
        self.update_here(cpu);
        self.running.place = NO_PLACE;
        self.call(cpu, entered, site, slot, from_user);
    }
}

impl Recorder {
    /// A model told of the running instruction of a block.
    pub(crate) fn fired(&mut self, insn: &Insn, signal: Signal, n: u64) {
        self.totals.fired(signal, n);
        self.records.modelled.entry(self.running.cell(insn)).or_default().add(signal, n);
    }

    /// A model told of the delivery that is about to be recorded.
    pub(crate) fn fired_by_delivery(&mut self, signal: Signal, n: u64) {
        self.totals.fired(signal, n);
        let Running { linear, bits, .. } = self.running;
        let delivered = self.deliveries.entry((self.here.place, linear, bits)).or_default();
        delivered.modelled.add(signal, n);
    }

    /// An instruction of the running block retired at this time.
    ///
    /// What happens seldom is a call at the end of a way through here, so that nothing has to be kept
    /// for what comes behind it.
    #[inline(always)]
    pub(crate) fn instruction_retired(&mut self, time: u64, insn: &Insn) {
        let seen = self.totals.counting.recent().packed().wrapping_add(time);
        if seen != self.running.seen {
            if time != self.running.time {
                return self.retired_late(time, insn);
            }
            self.count_accesses(self.running.cell(insn), seen);
        }
    }

    /// A quiet block ended before its end: what it accessed, its only instruction with accesses did.
    fn quiet_block_ended(&mut self) {
        let seen = self.totals.counting.recent().packed().wrapping_add(self.running.time);
        if seen != self.running.seen {
            self.count_accesses(self.records.accessing_cell(self.running.found), seen);
        }
    }

    /// The running block has retired, and had other accesses than it [usually](Running::usual) has, or did something
    /// rare.
    #[cold]
    #[inline(never)]
    fn finished_unusually(&mut self, cpu: &Cpu, block: &impl Code) {
        if self.running.is_quiet {
            let seen = self.totals.counting.recent().packed().wrapping_add(self.running.time);
            let accesses = seen.wrapping_sub(self.running.seen);
            if !self.records.is_usual(self.running.found, accesses, block) {
                self.count_accesses(self.records.accessing_cell(self.running.found), seen);
            }
        }
        let recent = self.totals.counting.recent();
        debug_assert_eq!(recent.packed(), recent.without_rare(), "seen with its instruction");
        self.running.see(recent.packed(), cpu.time);
    }

    /// Sees to it that what is counted next has room among the recent accesses and transfers.
    #[inline(always)]
    fn keep_room(&mut self) {
        if self.totals.is_half_full() {
            self.make_room();
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.totals.complete();
        self.running.see(self.totals.counting.recent().packed(), self.running.time);
    }

    /// The accesses since [`Running::seen`], which is `seen` now, are those of a cell.
    #[inline(always)]
    fn count_accesses(&mut self, cell: usize, seen: u64) {
        let accesses = seen.wrapping_sub(self.running.seen);
        self.running.seen = seen;
        if self.records.cells.add(cell, accesses) {
            self.count_more(cell);
        }
    }

    /// It took time beyond what its block tells.
    #[cold]
    #[inline(never)]
    fn retired_late(&mut self, time: u64, insn: &Insn) {
        self.pass_in(self.running.cell(insn), time);
        self.instruction_retired(time, insn);
    }

    /// An instruction had so many accesses that its cell needs room, or did something that is in no cell; or
    /// accesses of it were committed while it was running.
    #[cold]
    #[inline(never)]
    fn count_more(&mut self, cell: usize) {
        if self.records.cells.make_room(cell) {
            // That there is more has been noticed, and is to be noticed again.
            self.running.see(self.totals.counting.recent().without_rare(), self.running.time);
            let committed = std::mem::take(&mut self.running.committed);
            if committed != Accesses::default() {
                let rest = self.records.cells.rest(cell);
                rest.loads += committed.loads;
                rest.stores += committed.stores;
                rest.misaligned += committed.misaligned;
            }
        }
        if self.totals.counting.take_rare() {
            self.count_rare(cell);
        }
    }

    /// What of it is in no cell.
    #[cold]
    fn count_rare(&mut self, cell: usize) {
        self.totals.has_rest = true;
        let now = *self.totals.counting.committed();
        let facts = rare_part(now.since(&self.running.facts));
        self.running.facts = now;
        self.running.went_far = facts.far != 0;
        if facts != Facts::default() {
            self.records.other(cell).add(&facts);
        }
    }

    /// A block is about to begin that may be elsewhere, that time has passed before, or that is not known.
    #[cold]
    #[inline(never)]
    fn arrive(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        self.pass(cpu.time);
        let linear = cpu.linear_rip();
        let is_first = self.running.place == NO_PLACE;
        if is_first {
            self.update_here(cpu);
            let Where { cpl, space, .. } = self.here.place;
            self.contexts.current(linear, space, cpl);
            self.running.place = self.here.number;
            self.running.delivered = None;
        }
        let Here { number, place, .. } = self.here;
        let known = match self.records.known(block, linear, number) {
            Some(known) => *known,
            None => self.records.find(cpu, ram, block, (number, place)),
        };
        self.running.enter(cpu, &known, linear);
        if is_first {
            self.take_inner();
        }
    }

    /// Only the first `count` instructions of the running block have retired.
    #[cold]
    #[inline(never)]
    fn finished_part(&mut self, cpu: &Cpu, count: usize) {
        if self.running.is_quiet {
            self.quiet_block_ended();
        }
        self.running.see(self.totals.counting.recent().packed(), cpu.time);
        self.keep_room();
        self.running.place = NO_PLACE;
        let first = self.running.found.first as usize;
        self.records.retired_only(first, count);
        self.running.retired_up_to(first + count);
    }

    /// The running block has retired, and its last instruction is not a near transfer.
    #[inline(never)]
    fn finished_far(&mut self, cpu: &Cpu, block: &impl Code) {
        self.running.place = NO_PLACE;
        if std::mem::take(&mut self.running.went_far)
            && let Some(insn) = block.instruction(block.len() - 1)
        {
            self.follow_far(cpu, insn);
        }
    }

    /// The block that begins may be the first at its level: what was pushed on the way there is its own.
    #[inline(never)]
    fn take_inner(&mut self) {
        let inner = std::mem::take(&mut self.inner[self.here.place.vcpu as usize]);
        if inner != Accesses::default() {
            let rest = self.records.cells.rest(self.running.found.first as usize);
            rest.stores += inner.stores;
            rest.misaligned += inner.misaligned;
            self.totals.wait(Accesses { loads: 0, ..inner });
        }
    }
}

/// Whether `facts` has anything that cells do not have.
fn rare_part(mut facts: Facts) -> Facts {
    facts.class = [0; _];
    facts.branches = 0;
    facts.taken = 0;
    facts.near_returns = 0;
    facts.loads = 0;
    facts.stores = 0;
    facts.misaligned = 0;
    facts.inner = Accesses::default();
    facts
}
