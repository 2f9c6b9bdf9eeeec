//! The recorder together with the models of micro-architecture.

use x86_cpu::block::Code;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::observe::{
    Access, Branch, Counting, Delivery, Facts, FloatCases, FloatUnit, LastStep, Mark, Observed,
    Observer, Walk,
};
use x86_cpu::ram::Ram;

use super::model::ModelObserver;
use crate::truth::record::Recorder;

/// Records execution, and has the models see it: what they fire is recorded with the instruction or the
/// delivery that did it.
pub(super) struct Recorded {
    pub(super) recorder: Box<Recorder>,
    pub(super) models: ModelObserver,
}

impl Observer for Recorded {
    const COUNTS: bool = true;
    const FOLLOWS: bool = true;
    const SEES_ADDRESSES: bool = true;
    const MODELS: bool = true;

    #[inline(always)]
    fn counting(&mut self) -> Option<&mut Counting> {
        self.recorder.counting()
    }

    fn facts(&mut self) -> Option<&mut Facts> {
        self.recorder.facts()
    }

    fn observed(&mut self) -> Option<Observed<'_>> {
        let modelled = self.models.observed()?.modelled;
        Some(Observed { facts: self.recorder.facts()?, modelled })
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.models.is_spent()
    }

    #[inline(always)]
    fn elements_at_once(&self, read: Option<(u64, u64)>, written: Option<(u64, u64)>) -> u64 {
        self.models.elements_at_once(read, written)
    }

    fn last_step(&self) -> LastStep {
        self.models.last_step()
    }

    fn keeps_time(&self) -> bool {
        self.models.keeps_time()
    }

    #[inline(always)]
    fn take_cycles(&mut self) -> u64 {
        std::mem::take(&mut self.recorder.told)
    }

    fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        self.models.entered(cpu, ram, block);
        self.recorder.entered(cpu, ram, block);
    }

    #[inline(always)]
    fn begins(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn) {
        self.models.begins(cpu, ram, insn);
    }

    #[inline(always)]
    fn retired(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        self.models.retired(cpu, ram, block, insn);
        self.recorder.told += self.models.take_cycles();
        for (signal, n) in self.models.watch.log() {
            self.recorder.fired(insn, signal, n);
        }
        self.recorder.instruction_retired(cpu.time + self.recorder.told, insn);
    }

    fn interrupted(&mut self, cpu: &Cpu, insn: &Insn) {
        for (signal, n) in self.models.watch.log() {
            self.recorder.fired(insn, signal, n);
        }
        self.models.interrupted(cpu, insn);
        self.recorder.interrupted(cpu, insn);
    }

    #[inline(always)]
    fn finished(&mut self, cpu: &Cpu, block: &impl Code, count: usize) {
        self.models.finished(cpu, block, count);
        self.recorder.finished(cpu, block, count);
    }

    fn float_cases(&mut self, unit: FloatUnit, cases: FloatCases) {
        self.models.float_cases(unit, cases);
        self.recorder.float_cases(unit, cases);
    }

    fn delivering(&mut self, cpu: &Cpu) {
        self.models.delivering(cpu);
        self.recorder.delivering(cpu);
    }

    fn delivered(&mut self, cpu: &Cpu, ram: &Ram, delivery: Delivery) {
        self.models.delivered(cpu, ram, delivery);
        self.recorder.told += self.models.take_cycles();
        for (signal, n) in self.models.watch.log() {
            self.recorder.fired_by_delivery(signal, n);
        }
        self.recorder.delivered(cpu, ram, delivery);
    }

    #[inline(always)]
    fn accessed(&mut self, access: Access) {
        self.models.accessed(access);
    }

    fn walked(&mut self, walk: &Walk) {
        self.models.walked(walk);
    }

    /// The models are told whether a transfer was taken.
    #[inline(always)]
    fn branch(&mut self, kind: Branch, taken: bool) {
        self.models.branch(kind, taken);
        self.recorder.branch(kind, taken);
    }

    fn commit(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn) {
        self.models.commit(cpu, ram, insn);
        self.recorder.told += self.models.take_cycles();
        self.recorder.commit(cpu, ram, insn);
    }

    fn roll_back(&mut self, mark: Mark) {
        self.models.roll_back(Mark::default());
        self.recorder.roll_back(mark);
    }

    fn inner_stores(&mut self, stores: u64, misaligned: u64) {
        self.recorder.inner_stores(stores, misaligned);
    }

    #[inline(always)]
    fn block_finished(&mut self) {
        self.recorder.block_finished();
    }
}
