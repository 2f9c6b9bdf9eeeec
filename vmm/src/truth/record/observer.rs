//! What the recorder does when execution tells it something.

use x86_cpu::block::Block;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{Accesses, Counting, Delivery, Facts, Observer};
use x86_cpu::ram::Ram;

use super::{Here, Recorder, Running};
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
        self.counting.block_finished();
        self.running.mark = self.counting.recent().packed();
    }

    fn inner_stores(&mut self, stores: u64, misaligned: u64) {
        self.counting.inner_stores(stores, misaligned);
        let inner = &mut self.inner[self.here.place.vcpu as usize];
        inner.stores += stores;
        inner.misaligned += misaligned;
    }

    #[inline]
    fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &Block<Self>) {
        self.pass(cpu.time);
        self.update_here(cpu);
        let linear = cpu.linear_rip();
        self.context(linear);
        let Here { place, number, .. } = self.here;
        let record = self.records.find(cpu, ram, block, number, place);
        let (first, irregular) = self.records.begin(record);
        let running = &mut self.running;
        running.record = record;
        running.first = first;
        // Any access and any fetch may match a watched address.
        running.irregular = if cpu.watches_addresses() { u64::MAX } else { irregular };
        running.linear = linear;
        running.cpl = place.cpl;
        running.sp = cpu.stack_linear();
        let inner = &mut self.inner[place.vcpu as usize];
        if *inner != Accesses::default() {
            let inner = std::mem::take(inner);
            let cell = &mut self.records.cells[first];
            cell.stores += inner.stores;
            cell.misaligned += inner.misaligned;
            self.entered_with.stores += inner.stores;
            self.entered_with.misaligned += inner.misaligned;
        }
    }

    #[inline(always)]
    fn retired(&mut self, cpu: &Cpu, _: &Ram, _: &Block<Self>, insn: &Insn) {
        let cell = self.running.first + usize::from(insn.index);
        self.count(cpu, cell);
        if self.running.irregular >> insn.index & 1 != 0 {
            self.count_irregular(cell);
        }
    }

    fn interrupted(&mut self, cpu: &Cpu, insn: &Insn) {
        let cell = self.running.first + usize::from(insn.index);
        self.count(cpu, cell);
        self.count_irregular(cell);
    }

    #[inline]
    fn finished(&mut self, cpu: &Cpu, block: &Block<Self>, count: usize) {
        self.instructions += count as u64;
        self.running.time = cpu.time;
        let Running { first, record, .. } = self.running;
        self.running.last_cell = Some(first + count - 1);
        if count == block.len() {
            self.records.records[record as usize].runs += 1;
        } else {
            self.records.cells[first..first + count].iter_mut().for_each(|c| c.executions += 1);
        }
        let facts = self.counting.committed();
        if facts.branches != self.running.branches {
            let cell = &mut self.records.cells[first + count - 1];
            cell.branches += facts.branches - self.running.branches;
            cell.taken += facts.taken - self.running.taken;
            self.running.branches = facts.branches;
            self.running.taken = facts.taken;
            if let Some(insn) = block.instruction(count - 1) {
                self.follow(cpu, insn);
            }
        }
    }

    fn delivering(&mut self, cpu: &Cpu) {
        self.pass(cpu.time);
        self.commit_recent();
        self.running.committed = None;
        self.update_here(cpu);
        self.running.linear = cpu.linear_rip();
        self.running.cpl = cpu.cpl();
        self.running.bits = cpu.code_size().bits();
        // A fetch that matched a breakpoint and did not get to an instruction.
        let now = *self.counting.complete();
        let facts = irregular_part(now.since(&self.running.facts));
        self.running.facts = now;
        if facts != Facts::default() {
            let at = (self.here.place, self.running.linear, self.running.bits);
            self.deliveries.entry(at).or_default().facts.add(&facts);
        }
    }

    fn delivered(&mut self, cpu: &Cpu, _: &Ram, delivery: Delivery) {
        self.commit_recent();
        self.running.committed = None;
        let now = *self.counting.complete();
        let mut facts = now.since(&self.running.facts);
        self.running.facts = now;
        facts.inner = Accesses::default();
        let cycles = cpu.time - self.running.time;
        self.running.time = cpu.time;
        let Running { linear: site, bits, cpl, .. } = self.running;
        let delivered = self.deliveries.entry((self.here.place, site, bits)).or_default();
        delivered.facts.add(&facts);
        delivered.cycles += cycles;
        let Delivery { vector, interrupt, code_bytes } = delivery;
        let entered =
            if interrupt { Entered::Interrupt(vector) } else { Entered::Exception(vector) };
        let from_user = cpl == 3 && cpu.cpl() != 3;
        let at = cpu.stack_linear().wrapping_add(u64::from(code_bytes));
        let slot = Some(self.slot(cpu.cpl(), at));
        self.call(cpu, entered, site, slot, None, from_user);
    }
}

impl Recorder {
    /// What the instruction in `cell` has done, since the one before it.
    #[inline(always)]
    fn count(&mut self, cpu: &Cpu, cell: usize) {
        let recent = self.counting.recent().packed();
        if recent != self.running.mark {
            self.records.cells[cell].add(recent.wrapping_sub(self.running.mark));
            self.running.mark = recent;
        }
        if cpu.time != self.running.time {
            self.records.cells[cell].cycles += cpu.time - self.running.time;
            self.running.time = cpu.time;
        }
        if let Some(committed) = self.running.committed.take() {
            let counted = &mut self.records.cells[cell];
            counted.loads += committed.loads;
            counted.stores += committed.stores;
            counted.misaligned += committed.misaligned;
        }
    }

    /// What of it is in no cell.
    #[cold]
    fn count_irregular(&mut self, cell: usize) {
        let now = *self.counting.committed();
        let facts = irregular_part(now.since(&self.running.facts));
        self.running.facts = now;
        if facts != Facts::default() {
            self.records.other(cell).add(&facts);
        }
    }
}

/// Whether `facts` has anything that cells do not have.
fn irregular_part(mut facts: Facts) -> Facts {
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
