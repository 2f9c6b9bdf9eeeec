//! What the recorder does when execution tells it something.

use pmu_model::Signal;
use x86_cpu::block::Code;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{Accesses, Counting, Delivery, Facts, Observer};
use x86_cpu::ram::Ram;

use super::{COMMITTED, Here, Recorder, Running};
use crate::truth::Entered;

impl Observer for Box<Recorder> {
    const COUNTS: bool = true;
    const FOLLOWS: bool = true;

    #[inline(always)]
    fn counting(&mut self) -> Option<&mut Counting> {
        Some(&mut self.counting)
    }

    /// A copy for whoever takes out what was counted.
    fn facts(&mut self) -> Option<&mut Facts> {
        self.commit_recent();
        let now = *self.counting.complete();
        self.lent.add(&now.since(&self.seen_by_lender));
        self.seen_by_lender = now;
        Some(&mut self.lent)
    }

    fn commit(&mut self, _: &Cpu, _: &Ram, _: &Insn) {
        self.commit_recent();
    }

    #[inline(always)]
    fn block_finished(&mut self) {
        if self.counting.recent().is_half_full() {
            self.complete();
        }
        self.running.mark = self.counting.recent().packed();
    }

    fn inner_stores(&mut self, stores: u64, misaligned: u64) {
        self.counting.inner_stores(stores, misaligned);
        let inner = &mut self.inner[self.here.place.vcpu as usize];
        inner.stores += stores;
        inner.misaligned += misaligned;
    }

    #[inline(always)]
    fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        let recorder = &mut **self;
        recorder.pass(cpu.time);
        let linear = cpu.linear_rip();
        let is_first = !recorder.running.is_near;
        if is_first {
            recorder.arrive(cpu, linear);
        }
        debug_assert!(recorder.is_here(cpu), "a near transfer to another place");
        let Here { place, number, .. } = &recorder.here;
        let number = recorder.records.find(cpu, ram, block, linear, (*number, place));
        let record = recorder.records.begin(number);
        let running = &mut recorder.running;
        running.record = number;
        running.first = record.first;
        running.linear = linear;
        if record.is_far_return {
            running.sp = cpu.stack_linear();
        }
        if is_first {
            recorder.take_inner();
        }
    }

    #[inline(always)]
    fn retired(&mut self, cpu: &Cpu, _: &Ram, _: &impl Code, insn: &Insn) {
        self.count(cpu, insn);
        if self.counting.take_rare() {
            self.count_rare(insn);
        }
    }

    fn interrupted(&mut self, cpu: &Cpu, insn: &Insn) {
        self.count(cpu, insn);
        self.count_rare(insn);
    }

    #[inline(always)]
    fn finished(&mut self, cpu: &Cpu, block: &impl Code, count: usize) {
        let recorder = &mut **self;
        recorder.instructions += count as u64;
        if recorder.counting.take_rare() {
            recorder.rare = true;
        }
        let running = &mut recorder.running;
        running.time = cpu.time;
        running.last = running.first + count;
        let record = &mut recorder.records.records[running.record as usize];
        running.is_near = record.is_near;
        if count != block.len() {
            running.is_near = false;
            recorder.records.retired_only(running.record, count);
            return;
        }
        record.runs += 1;
        let facts = recorder.counting.committed();
        if facts.branches != running.branches {
            record.branches += facts.branches - running.branches;
            record.taken += facts.taken - running.taken;
            running.branches = facts.branches;
            running.taken = facts.taken;
            if !record.is_jump
                && let Some(insn) = block.instruction(count - 1)
            {
                recorder.follow(cpu, insn);
            }
        }
    }

    fn delivering(&mut self, cpu: &Cpu) {
        self.rare = true;
        self.pass(cpu.time);
        self.commit_recent();
        self.forget_committed();
        self.update_here(cpu);
        self.running.linear = cpu.linear_rip();
        self.running.bits = cpu.code_size().bits();
        // A fetch that matched a breakpoint and did not get to an instruction.
        let now = *self.counting.complete();
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
        let now = *self.counting.complete();
        let mut facts = now.since(&self.running.facts);
        self.running.facts = now;
        facts.inner = Accesses::default();
        let time = self.time(cpu);
        let cycles = time - self.running.time;
        self.running.time = time;
        let Running { linear: site, bits, .. } = self.running;
        let delivered = self.deliveries.entry((self.here.place, site, bits)).or_default();
        delivered.facts.add(&facts);
        delivered.cycles += cycles;
        let Delivery { vector, interrupt, code_bytes } = delivery;
        let entered =
            if interrupt { Entered::Interrupt(vector) } else { Entered::Exception(vector) };
        let from_user = self.here.place.cpl == 3 && cpu.cpl() != 3;
        let at = cpu.stack_linear().wrapping_add(u64::from(code_bytes));
        let slot = Some(self.slot(cpu.cpl(), at));
        self.share_out(time, 0);
        self.context(site);
        self.update_here(cpu);
        self.running.is_near = false;
        self.call(cpu, entered, site, slot, None, from_user);
    }
}

impl Recorder {
    /// A model told of the running instruction of a block.
    pub(crate) fn fired(&mut self, insn: &Insn, signal: Signal, n: u64) {
        self.rare = true;
        self.modelled.add(signal, n);
        self.records.modelled.entry(self.running.cell(insn)).or_default().add(signal, n);
    }

    /// A model told of the delivery that is about to be recorded.
    pub(crate) fn fired_by_delivery(&mut self, signal: Signal, n: u64) {
        self.rare = true;
        self.modelled.add(signal, n);
        let Running { linear, bits, .. } = self.running;
        let delivered = self.deliveries.entry((self.here.place, linear, bits)).or_default();
        delivered.modelled.add(signal, n);
    }

    /// What an instruction has done, since the one before it.
    #[inline(always)]
    fn count(&mut self, cpu: &Cpu, insn: &Insn) {
        let recent = self.counting.recent().packed();
        if recent != self.running.mark {
            let cell = self.running.cell(insn);
            self.records.cells.add(cell, recent.wrapping_sub(self.running.mark & !COMMITTED));
            if self.running.mark & COMMITTED != 0 {
                self.count_committed(cell);
            }
            self.running.mark = recent;
        }
        let time = self.time(cpu);
        if time != self.running.time {
            self.pass_in(self.running.cell(insn), time);
        }
    }

    /// Accesses that were committed while the instruction in `cell` was running.
    #[cold]
    fn count_committed(&mut self, cell: usize) {
        let committed = std::mem::take(&mut self.running.committed);
        let rest = self.records.cells.rest(cell);
        rest.loads += committed.loads;
        rest.stores += committed.stores;
        rest.misaligned += committed.misaligned;
    }

    /// What of it is in no cell.
    #[cold]
    fn count_rare(&mut self, insn: &Insn) {
        self.rare = true;
        let now = *self.counting.committed();
        let facts = rare_part(now.since(&self.running.facts));
        self.running.facts = now;
        if facts != Facts::default() {
            self.records.other(self.running.cell(insn)).add(&facts);
        }
    }

    /// Looks where the processor is.
    #[inline(never)]
    fn arrive(&mut self, cpu: &Cpu, linear: u64) {
        self.update_here(cpu);
        self.context(linear);
    }

    /// The block that begins may be the first at its level: what was pushed on the way there is its own.
    #[inline(never)]
    fn take_inner(&mut self) {
        let inner = std::mem::take(&mut self.inner[self.here.place.vcpu as usize]);
        if inner != Accesses::default() {
            let rest = self.records.cells.rest(self.running.first);
            rest.stores += inner.stores;
            rest.misaligned += inner.misaligned;
            self.rest.add(Accesses { loads: 0, ..inner });
            self.rare = true;
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
