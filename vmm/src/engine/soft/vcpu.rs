//! One logical processor of the software engine, and the other hardware threads of its core.

use std::collections::VecDeque;

use pmu_model::{CounterSet, Demand, Pmu, SignalCounts, Tier};
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::Accesses;
use x86_cpu::timing::Budget;

use super::cycles::Cycles;
use super::stretch::{CountingContext, MATCH, Most, most_per_step};
use crate::engine::Board;
use crate::irq::lapic::PmiOutcome;
use crate::irq::{Interrupts, Pending};
use crate::msr::MsrSpace;
use crate::platform::MsrBank;

/// One processor with what belongs to it alone.
pub struct Vcpu {
    /// Number of the processor, and of its local APIC.
    pub(super) id: usize,
    /// Architectural state.
    pub cpu: Cpu,
    /// Performance counters.
    pub pmu: Pmu,
    /// The model-specific registers that are not the CPU's, the PMU's or the local APIC's own.
    pub bank: MsrBank,
    /// By how many cycles the time-stamp counter is ahead of virtual time.
    pub(crate) tsc_offset: u64,
    /// Waits for a start-up IPI.
    pub waits_for_startup: bool,
    /// Cycles spent halted or waiting for a start-up IPI.
    pub halted_cycles: u64,
    /// Cycles that passed while KVM executed it.
    pub native_cycles: u64,
    /// PMIs on their way to the local APIC: the counts of retired instructions at which they arrive.
    pub(super) late: VecDeque<u64>,
    /// What the last transfer to a more privileged level pushed onto that level's stack. It counts
    /// with the first instruction there.
    pub(super) inner: Accesses,
    /// A buffer that is reused from one stretch to the next, once one needed it; empty between uses.
    pub(super) counts: Option<Box<SignalCounts>>,
    /// What the last run was counted under; and, while cycles are counted that what it executed last has to wait,
    /// the same.
    pub(super) counted_under: Option<CountingContext>,
    pub(super) waits_under: Option<CountingContext>,
    /// Its last instruction has programmed the PMU, and models have yet to tell of it: the counters that it has begun
    /// anew.
    pub(super) programs_still: Option<CounterSet>,
    /// The running cycle, since a counter compared the occurrences of each and a pipeline kept the time.
    pub(super) cycles: Option<Box<Cycles>>,
    /// Of what the other threads of its core do, its counters that count the whole core take what begins at this time or
    /// later.
    pub(super) counts_others_from: u64,
}

impl Vcpu {
    /// Processor `id`, which waits for a start-up IPI unless it is the bootstrap processor 0.
    #[must_use]
    pub fn new(id: usize, cpu: Cpu, pmu: Pmu, bank: MsrBank) -> Self {
        Self {
            id,
            cpu,
            pmu,
            bank,
            tsc_offset: 0,
            waits_for_startup: id != 0,
            halted_cycles: 0,
            native_cycles: 0,
            late: VecDeque::new(),
            inner: Accesses::default(),
            counts: None,
            counted_under: None,
            waits_under: None,
            programs_still: None,
            cycles: None,
            counts_others_from: 0,
        }
    }

    /// The processor's model-specific registers.
    pub(crate) fn msrs<'a>(&'a mut self, board: &'a mut Board) -> MsrSpace<'a> {
        MsrSpace {
            lapic: board.chipset.irq.lapic_mut(self.id),
            pmu: &mut self.pmu,
            bank: &mut self.bank,
            tsc_offset: &mut self.tsc_offset,
        }
    }

    /// Whether the processor executes nothing until an interrupt or a start-up IPI arrives.
    #[must_use]
    pub fn asleep(&self, board: &Board) -> bool {
        if self.waits_for_startup {
            return true;
        }
        let pending = board.chipset.irq.pending(self.id);
        self.cpu.halted
            && self.late.is_empty()
            && !self.takes_nmi(pending)
            && !(pending.interrupt && self.cpu.interrupts_enabled())
    }

    /// The time at which the processor next does something, if no device does until then: now if it executes or takes
    /// an interrupt, later if DELAY holds it up or one is on its way; `None` if it sleeps.
    pub(super) fn next_turn(&self, board: &Board) -> Option<u64> {
        if self.waits_for_startup {
            return None;
        }
        let now = self.cpu.time;
        let pending = board.chipset.irq.pending(self.id);
        let is_interrupted =
            self.takes_nmi(pending) || pending.interrupt && self.cpu.interrupts_enabled();
        if is_interrupted || self.cpu.halted && !self.late.is_empty() {
            return Some(now);
        }
        let arrival = board.chipset.irq.next_arrival(self.id);
        match self.cpu.delayed_until() {
            _ if self.cpu.halted => arrival,
            until if until > now => Some(arrival.map_or(until, |arrival| arrival.min(until))),
            _ => Some(now),
        }
    }

    /// Whether a counter, its own or a sibling's, counts what the processor does, or a PMI is on its
    /// way.
    pub(super) fn is_counted(&self, siblings: &Siblings<'_>) -> bool {
        self.has_counters_enabled() || siblings.iter().any(Vcpu::counts_the_core)
    }

    /// Whether one of the processor's own counters is enabled, or a PMI is on its way.
    #[must_use]
    pub fn has_counters_enabled(&self) -> bool {
        self.pmu.demand().counting || self.pmu.sibling_demand().counting || !self.late.is_empty()
    }

    /// Whether one of its own counters counts what all threads of the core do.
    pub(super) fn counts_the_core(&self) -> bool {
        self.pmu.sibling_demand().counting
    }

    /// Whether they count what another thread does that begins at this time.
    pub(super) fn counts_others_at(&self, time: u64) -> bool {
        self.counts_the_core() && time >= self.counts_others_from
    }

    pub(super) fn takes_nmi(&self, pending: Pending) -> bool {
        pending.nmi && !self.cpu.nmi_blocked()
    }

    /// Whether it takes an NMI or an interrupt ahead of the next instruction, unless that is in an interrupt shadow.
    pub(super) fn takes(&self, pending: Pending) -> bool {
        self.takes_nmi(pending) || pending.interrupt && self.cpu.interrupts_enabled()
    }

    /// Lets time pass until `time` without an instruction. It may be there already.
    pub(crate) fn sleep_until(&mut self, time: u64) {
        let cycles = time.saturating_sub(self.cpu.time);
        self.cpu.pass(cycles);
        self.halted_cycles += cycles;
    }

    /// Lets time pass until `time`, in which KVM has executed the processor.
    pub(crate) fn was_native_until(&mut self, time: u64) {
        let cycles = time.saturating_sub(self.cpu.time);
        self.cpu.pass(cycles);
        self.native_cycles += cycles;
    }

    pub(super) fn counting_context(&self, pending: Pending) -> CountingContext {
        CountingContext {
            cpl: self.cpu.cpl(),
            masked: !self.cpu.interrupts_enabled(),
            pending: pending.interrupt,
        }
    }

    /// Tells the CPU what it has to observe for `demand`.
    pub(super) fn observe(&mut self, demand: &Demand) {
        self.cpu.observe_privilege = demand.counting;
        let matches = MATCH.iter().any(|&signal| demand.signals.contains(signal));
        self.cpu.watch_disabled_breakpoints(matches);
    }

    /// Takes what has come from the other processors by `time`. A PMI that another thread of the core has caused comes
    /// the configured skid later, unless the processor retires nothing that it could wait for.
    pub(crate) fn receive(&mut self, board: &mut Board, time: u64) {
        let irq = &mut board.chipset.irq;
        if irq.next_arrival(self.id).is_none_or(|first| first > time) {
            return;
        }
        if board.skid == 0 || self.cpu.halted || self.waits_for_startup {
            for outcome in irq.arrive(self.id, time) {
                board.trace_pmi(self.id, self.cpu.place(), outcome);
            }
            return;
        }
        let pmis = irq.arrive_but_pmis(self.id, time);
        let at = self.cpu.retired().saturating_add(board.skid);
        (0..pmis).for_each(|_| put_off(&mut self.late, at));
    }

    /// Sends so many PMIs that are asserted at once: the local APIC latches one, so that each further one is sent an
    /// instruction later, when the one before it is in service. What came of the first.
    pub(crate) fn send_apart(&mut self, pmis: u32, irq: &mut Interrupts) -> Option<PmiOutcome> {
        let retired = self.cpu.retired();
        (1..pmis).for_each(|nth| put_off(&mut self.late, retired.saturating_add(nth.into())));
        (pmis != 0).then(|| irq.pmi(self.id))
    }

    /// Delivers the late PMIs that are due. A halted processor retires nothing more, so that all are
    /// due once it has halted, but for those behind one that wakes it.
    pub(super) fn deliver_late(&mut self, board: &mut Board) {
        while let Some(&at) = self.late.front() {
            let pending = board.chipset.irq.pending(self.id);
            if at > self.cpu.retired() && (self.takes(pending) || !self.cpu.halted) {
                break;
            }
            self.late.pop_front();
            board.assert_pmi(self.id, self.cpu.place());
        }
    }
}

/// Has a PMI arrive when so many instructions have retired, behind those that arrive then or earlier.
pub(super) fn put_off(late: &mut VecDeque<u64>, retired: u64) {
    late.insert(late.partition_point(|&other| other <= retired), retired);
}

/// When more of these count what another thread of their core does, later than at this time.
pub(super) fn begin_to_count<'a>(vcpus: impl Iterator<Item = &'a Vcpu>, time: u64) -> u64 {
    let begin = vcpus.filter(|vcpu| vcpu.counts_the_core()).map(|vcpu| vcpu.counts_others_from);
    begin.filter(|&from| from > time).min().unwrap_or(u64::MAX)
}

/// One step from `time` on, in one cycle.
pub(super) const fn one_step(time: u64) -> Budget {
    Budget { steps: 1, ..Budget::until(time.saturating_add(1)) }
}

/// How far execution may go from `time` on so that no counter of `pmu` overflows before the last step.
/// Where a counter compares the occurrences of each cycle, it is one step, in one cycle.
pub(super) fn headroom(pmu: &Pmu, demand: &Demand, time: u64) -> Budget {
    if demand.per_cycle {
        return one_step(time);
    }
    let mut budget = Budget::until(u64::MAX);
    let foreseeable = pmu.personality().live.of(Tier::InstructionSet);
    for (signal, headroom) in pmu.headrooms() {
        // What models tell takes from a budget of theirs.
        if !foreseeable.contains(signal) {
            continue;
        }
        match most_per_step(signal) {
            Most::AsManyAsCycles => {
                budget.until = budget.until.min(time.saturating_add(headroom.max(1)));
            }
            Most::Times(n) => budget.steps = budget.steps.min((headroom / n).max(1)),
        }
    }
    budget
}

/// The other hardware threads of a processor's core.
#[derive(Default)]
pub(super) struct Siblings<'a> {
    before: &'a mut [Vcpu],
    after: &'a mut [Vcpu],
}

impl<'a> Siblings<'a> {
    /// Processor `id` and its siblings, on cores with `threads_per_core` threads.
    pub(super) fn split(
        vcpus: &'a mut [Vcpu],
        id: usize,
        threads_per_core: usize,
    ) -> Option<(&'a mut Vcpu, Self)> {
        let thread = id % threads_per_core;
        let core = vcpus.get_mut(id - thread..)?;
        let threads = threads_per_core.min(core.len());
        let (before, rest) = core.get_mut(..threads)?.split_at_mut_checked(thread)?;
        let (vcpu, after) = rest.split_first_mut()?;
        Some((vcpu, Self { before, after }))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Vcpu> {
        self.before.iter().chain(&*self.after)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Vcpu> {
        self.before.iter_mut().chain(&mut *self.after)
    }

    /// The siblings, and which of their own siblings the processor is to each.
    pub(super) fn iter_with_nth(&mut self) -> impl Iterator<Item = (&mut Vcpu, usize)> {
        let nth = self.before.len();
        let before = self.before.iter_mut().map(move |sibling| (sibling, nth - 1));
        before.chain(self.after.iter_mut().map(move |sibling| (sibling, nth)))
    }

    /// Whether counters of siblings take anything from what another thread of the core does that begins at this time.
    pub(super) fn count_the_core(&self, time: u64) -> bool {
        self.iter().any(|sibling| sibling.counts_others_at(time))
    }

    /// [`begin_to_count`] of them.
    pub(super) fn begin_to_count(&self, time: u64) -> u64 {
        begin_to_count(self.iter(), time)
    }

    /// [`headroom`] of their counters of the core, which overflow behind the very instruction as well.
    pub(super) fn headroom(&self, demand: &Demand, time: u64) -> Budget {
        let mut budget = Budget::until(u64::MAX);
        for sibling in self.iter().filter(|sibling| sibling.counts_others_at(time)) {
            budget = budget.min(headroom(&sibling.pmu, demand, time));
        }
        budget
    }

    /// What the siblings' counters take from what another thread of the core does that begins at this time.
    pub(super) fn demand(&self, time: u64) -> Demand {
        let mut sum = Demand::default();
        for sibling in self.iter().filter(|sibling| sibling.counts_others_at(time)) {
            sum = sum.with(sibling.pmu.sibling_demand());
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use pmu_model::Personality;
    use x86_cpu::features::Features;

    use super::*;
    use crate::platform::K8;

    /// Threads 0 to 3 are core 0, 4 to 7 core 1; the last core may be incomplete.
    #[test]
    fn siblings_are_the_others_of_the_core() {
        let personality = Personality::by_name("k8").unwrap();
        let pmu = Pmu::without_demand(personality);
        let vcpu = |id| Vcpu::new(id, Cpu::new(Features::K8), pmu.clone(), MsrBank::new(&K8));
        let mut vcpus: Vec<_> = (0..6).map(vcpu).collect();
        let mut of = |id, threads| {
            let (vcpu, siblings) = Siblings::split(&mut vcpus, id, threads).unwrap();
            assert_eq!(vcpu.id, id);
            siblings.iter().map(|sibling| sibling.id).collect::<Vec<_>>()
        };
        assert!(of(2, 1).is_empty());
        assert_eq!(of(0, 4), [1, 2, 3]);
        assert_eq!(of(2, 4), [0, 1, 3]);
        assert_eq!(of(5, 4), [4]);
        assert!(Siblings::split(&mut vcpus, 6, 4).is_none());
        // Of the siblings of 3, which are 0, 1 and 2, 2 is the third; to 1 it is the second, behind 0.
        let (_, mut siblings) = Siblings::split(&mut vcpus, 2, 4).unwrap();
        let nth: Vec<_> =
            siblings.iter_with_nth().map(|(sibling, nth)| (sibling.id, nth)).collect();
        assert_eq!(nth, [(0, 1), (1, 1), (3, 2)]);
    }
}
