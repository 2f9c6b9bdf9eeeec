//! What occurs in each cycle, for counters that compare it, where a pipeline keeps the time: several
//! instructions may retire in one cycle, and one may take many.

use serde::{Deserialize, Serialize};

use pmu_model::{Pmis, Pmu, SignalCounts};
use x86_cpu::observe::LastStep;

/// The counters that compare.
pub(super) trait Compare {
    /// A cycle at a privilege level is over, in which this occurred.
    fn compare(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis;

    /// How much occurs in a cycle at most.
    fn most_per_cycle(&self) -> u64;
}

impl Compare for Pmu {
    fn compare(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        Pmu::compare(self, counts, cpl)
    }

    fn most_per_cycle(&self) -> u64 {
        self.personality().max_events_per_cycle.into()
    }
}

/// The occurrences of the running cycle, and of those before it that have no cycle yet.
///
/// A level, a state that lasts for cycles, is there once in each, from the first cycle that an instruction
/// takes; what happens at an instant does so in the last ones, no more at once than the processor can
/// report. What does not fit into the cycles of its own instruction is of the next ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Cycles {
    running: SignalCounts,
    /// There is a running cycle.
    begun: bool,
    left: SignalCounts,
    /// Cycles that have passed before it is known which of them the last instruction was over in.
    waited: u64,
    /// The privilege level of them.
    cpl: u8,
}

impl Cycles {
    /// The privilege level of the cycles that have passed before it is known what of.
    pub(super) fn cpl(&self) -> u8 {
        self.cpl
    }

    /// Whether anything waits for it to be known in which cycle the last instruction was over.
    pub(super) fn wait_for_issue(&self) -> bool {
        self.waited != 0 || !self.left.is_empty()
    }

    /// So many cycles pass, in which this occurred; the instruction that did it is over when `last_step` says.
    pub(super) fn pass(
        &mut self,
        pmus: &mut impl Compare,
        cpl: u8,
        cycles: u64,
        last_step: LastStep,
        counts: &SignalCounts,
    ) -> Pmis {
        let mut pmis = Pmis::NONE;
        if cpl != self.cpl {
            pmis = self.end(pmus);
            self.cpl = cpl;
        }
        self.left.add_all(counts);
        match last_step {
            LastStep::EndsTheCycles => pmis.with(self.pass_up_to_retirement(pmus, cycles)),
            LastStep::EndsAfter(before) => {
                let before = before.min(cycles);
                let waited = std::mem::take(&mut self.waited);
                let retired = self.pass_up_to_retirement(pmus, waited + before);
                pmis.with(retired).with(self.idle(pmus, cycles - before))
            }
            LastStep::IsNotOver => {
                self.waited += cycles;
                pmis
            }
        }
    }

    /// Cycles pass in which nothing retires: what lasts does so in them, and what did not fit before comes there.
    fn idle(&mut self, pmus: &mut impl Compare, cycles: u64) -> Pmis {
        let mut pmis = Pmis::NONE;
        for _ in 0..cycles {
            if self.begun {
                pmis = pmis.with(self.compare(pmus));
            }
            self.begun = true;
            self.fill(pmus.most_per_cycle(), 0);
        }
        pmis
    }

    /// So many cycles pass, at the last of which an instruction retires that did what is left.
    fn pass_up_to_retirement(&mut self, pmus: &mut impl Compare, cycles: u64) -> Pmis {
        let mut pmis = Pmis::NONE;
        for to_come in (0..cycles).rev() {
            if self.begun {
                pmis = pmis.with(self.compare(pmus));
            }
            self.begun = true;
            self.fill(pmus.most_per_cycle(), to_come);
        }
        if cycles == 0 {
            self.begun = true;
            self.fill(pmus.most_per_cycle(), 0);
        }
        pmis
    }

    /// What follows is counted otherwise: the running cycle is over, and what is left has cycles of its own.
    pub(super) fn end(&mut self, pmus: &mut impl Compare) -> Pmis {
        let waited = std::mem::take(&mut self.waited);
        let mut pmis = self.idle(pmus, waited);
        while self.begun {
            pmis = pmis.with(self.compare(pmus));
            self.begun = !self.left.is_empty();
            self.fill(pmus.most_per_cycle(), 0);
        }
        pmis
    }

    /// The running cycle is over.
    fn compare(&mut self, pmus: &mut impl Compare) -> Pmis {
        let pmis = pmus.compare(&self.running, self.cpl);
        self.running.clear();
        pmis
    }

    /// Puts into the running cycle what belongs there, no more than `most` of each, before so many cycles to come.
    fn fill(&mut self, most: u64, to_come: u64) {
        let waiting = *self.left.present();
        for signal in &waiting {
            let room = if signal.is_level() { 1 } else { most };
            let room = room.saturating_sub(self.running.get(signal));
            let waits = if signal.is_level() { 0 } else { most.saturating_mul(to_come) };
            let due = self.left.get(signal).saturating_sub(waits);
            self.running.add(signal, self.left.take(signal, due.min(room)));
        }
    }
}

#[cfg(test)]
mod tests {
    use pmu_model::{MsrAccess, Personality, Signal, Tier};

    use super::*;

    /// K8: K8 BKDG "Performance Event-Select Registers": EN (22), USR and OS (16, 17), INV (23), EDGE (18),
    /// CNT_MASK (31:24).
    const ON: u64 = 1 << 22 | 3 << 16;
    const EVNTSEL0: u32 = 0xC001_0000;
    const PERFCTR0: u32 = 0xC001_0004;

    fn counted(select: u64, instructions: &[(u64, Signal, u64)]) -> u64 {
        let k8 = Personality::by_name("k8").unwrap();
        let mut pmu = Pmu::new(k8, k8.live.of(Tier::Microarchitecture));
        assert_eq!(pmu.write_msr(EVNTSEL0, select | ON), MsrAccess::Done(()));
        let mut cycles = Cycles::default();
        for &(takes, signal, n) in instructions {
            let counts = [(signal, n)].into_iter().collect();
            let last_step = LastStep::EndsTheCycles;
            assert!(cycles.pass(&mut pmu, 0, takes, last_step, &counts).is_empty());
        }
        assert!(cycles.end(&mut pmu).is_empty());
        let MsrAccess::Done(count) = pmu.read_msr(PERFCTR0) else { panic!("a counter of K8") };
        count
    }

    /// C0h, RETIRED_INSTRUCTIONS. In cycles: two retire, one, none, none, one.
    #[test]
    fn instructions_that_retire_in_one_cycle_are_compared_together() {
        let one = |takes| (takes, Signal::InsnRetired, 1);
        let program = [one(1), one(0), one(1), one(3)];
        assert_eq!(counted(0xC0 | 1 << 24, &program), 3);
        assert_eq!(counted(0xC0 | 2 << 24, &program), 1);
        assert_eq!(counted(0xC0 | 3 << 24, &program), 0);
        // INV: fewer than one. EDGE: they begin twice.
        assert_eq!(counted(0xC0 | 1 << 24 | 1 << 23, &program), 2);
        assert_eq!(counted(0xC0 | 1 << 24 | 1 << 18, &program), 2);
    }

    /// C1h, RETIRED_UOPS: eight of one instruction retire in its last three cycles, 2, 3 and 3 (OG8 A.8:
    /// three a cycle).
    #[test]
    fn no_more_retire_than_the_processor_can() {
        let program = [(6, Signal::UopRetired, 8)];
        assert_eq!(counted(0xC1 | 1 << 24, &program), 3);
        assert_eq!(counted(0xC1 | 3 << 24, &program), 2);
        // In one cycle there is room for three: the others are of cycles to come.
        let program = [(1, Signal::UopRetired, 8), (5, Signal::UopRetired, 0)];
        assert_eq!(counted(0xC1 | 3 << 24, &program), 2);
        assert_eq!(counted(0xC1 | 1 << 24, &program), 3);
    }

    /// D1h, DISPATCH_STALLS: four cycles of ten, then two of one, of which one is of the next instruction.
    #[test]
    fn a_level_is_there_once_in_each_of_its_cycles() {
        let stall = |takes, n| (takes, Signal::StallDispatchAny, n);
        let program = [stall(10, 4), stall(1, 2), stall(3, 0)];
        assert_eq!(counted(0xD1 | 1 << 24, &program), 6);
        assert_eq!(counted(0xD1 | 2 << 24, &program), 0);
        assert_eq!(counted(0xD1 | 1 << 24 | 1 << 18, &program), 2);
    }
}
