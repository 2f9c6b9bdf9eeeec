//! What occurs in each cycle, for counters that compare it, where a pipeline keeps the time: several
//! instructions may retire in one cycle, and one may take many.

use serde::{Deserialize, Serialize};

use pmu_model::{Pmis, Pmu, Signal, SignalCounts};
use x86_cpu::observe::LastStep;

/// The counters that compare.
pub(super) trait Compare {
    /// So many cycles at a privilege level are over, in each of which this occurred.
    fn compare(&mut self, counts: &SignalCounts, cpl: u8, cycles: u64) -> Pmis;

    /// No cycle is over at it, in which this occurred for all that: counters compare it that count any of it.
    fn compare_beyond(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis;

    /// How much occurs in a cycle at most.
    fn most_per_cycle(&self) -> u64;
}

impl Compare for Pmu {
    fn compare(&mut self, counts: &SignalCounts, cpl: u8, cycles: u64) -> Pmis {
        self.compare_cycles(counts, cpl, cycles)
    }

    fn compare_beyond(&mut self, counts: &SignalCounts, cpl: u8) -> Pmis {
        self.compare_beyond(counts, cpl)
    }

    fn most_per_cycle(&self) -> u64 {
        self.personality().max_events_per_cycle.into()
    }
}

/// The occurrences of the running cycle, and of those before it that have no cycle yet.
///
/// A level, a state that lasts for cycles, is there once in each, from the first cycle that an instruction
/// takes; what happens at an instant does so in the last ones, no more at once than the processor can
/// report. What does not fit into the cycles of its own instruction is of the next ones; if there are none, as what
/// follows is counted otherwise, it has cycles of its own, which only counters see that count any of it.
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
        let mut left = cycles;
        while left != 0 {
            pmis = pmis.with(self.begin(pmus, 0));
            left -= 1;
            let alike = if self.waits_for_retirement() { 0 } else { self.alike(left) };
            pmis = pmis.with(self.pass_alike(pmus, alike));
            left -= alike;
        }
        pmis
    }

    /// So many cycles pass, at the last of which an instruction retires that did what is left.
    fn pass_up_to_retirement(&mut self, pmus: &mut impl Compare, cycles: u64) -> Pmis {
        let mut pmis = Pmis::NONE;
        let mut to_come = cycles;
        while to_come != 0 {
            to_come -= 1;
            pmis = pmis.with(self.begin(pmus, to_come));
            let alike = self.alike(to_come.saturating_sub(self.needs(pmus.most_per_cycle())));
            pmis = pmis.with(self.pass_alike(pmus, alike));
            to_come -= alike;
        }
        if cycles == 0 {
            self.begun = true;
            self.fill(pmus.most_per_cycle(), 0);
        }
        pmis
    }

    /// What follows is counted otherwise: the running cycle is over, and what is left has cycles of its own, which pass
    /// for nothing else.
    pub(super) fn end(&mut self, pmus: &mut impl Compare) -> Pmis {
        let waited = std::mem::take(&mut self.waited);
        let mut pmis = self.idle(pmus, waited);
        if !std::mem::take(&mut self.begun) {
            return pmis;
        }
        pmis = pmis.with(self.compare(pmus));
        while !self.left.is_empty() {
            self.fill(pmus.most_per_cycle(), 0);
            pmis = pmis.with(pmus.compare_beyond(&self.running, self.cpl));
            self.running.clear();
        }
        pmis
    }

    /// The running cycle is over.
    fn compare(&mut self, pmus: &mut impl Compare) -> Pmis {
        let pmis = pmus.compare(&self.running, self.cpl, 1);
        self.running.clear();
        pmis
    }

    /// The next cycle begins, before so many to come.
    fn begin(&mut self, pmus: &mut impl Compare, to_come: u64) -> Pmis {
        let pmis = if self.begun { self.compare(pmus) } else { Pmis::NONE };
        self.begun = true;
        self.fill(pmus.most_per_cycle(), to_come);
        pmis
    }

    /// In how many of the next `most` cycles the same occurs as in the running one: levels that last, and nothing else.
    /// What happens at an instant does not in these, if anything of it is left.
    fn alike(&self, most: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        let left = |signal: Signal| if signal.is_level() { self.left.get(signal) } else { 0 };
        self.running.present().iter().fold(most, |alike, &signal| alike.min(left(signal)))
    }

    /// So many cycles pass that are as the running one.
    fn pass_alike(&mut self, pmus: &mut impl Compare, cycles: u64) -> Pmis {
        if cycles == 0 {
            return Pmis::NONE;
        }
        for &signal in self.running.present() {
            self.left.take(signal, cycles);
        }
        pmus.compare(&self.running, self.cpl, cycles)
    }

    /// What happens at an instant and is left.
    fn instants(&self) -> impl Iterator<Item = u64> {
        self.left.iter().filter(|(signal, _)| !signal.is_level()).map(|(_, n)| n)
    }

    /// Whether any does.
    fn waits_for_retirement(&self) -> bool {
        self.instants().next().is_some()
    }

    /// How many cycles that takes, with no more than `most` of each in a cycle.
    fn needs(&self, most: u64) -> u64 {
        self.instants().map(|n| n.div_ceil(most.max(1))).max().unwrap_or(0)
    }

    /// Puts into the running cycle what belongs there, no more than `most` of each, before so many cycles to come.
    fn fill(&mut self, most: u64, to_come: u64) {
        // From the last one on: what is taken in whole is no longer there.
        for n in (0..self.left.present().len()).rev() {
            let signal = self.left.present()[n];
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

    /// What [`Cycles`] does, cycle by cycle: a list of what is in each, and what is left for those to come.
    #[derive(Default)]
    struct ByHand {
        running: Option<Vec<(Signal, u64)>>,
        left: Vec<(Signal, u64)>,
        waited: u64,
        cpl: u8,
    }

    impl ByHand {
        fn compare(&mut self, pmu: &mut Pmu) {
            if let Some(running) = self.running.take() {
                let _pmis = pmu.compare(&running.into_iter().collect(), self.cpl);
            }
        }

        fn fill(&mut self, most: u64, to_come: u64) {
            let running = self.running.get_or_insert_default();
            for (signal, left) in &mut self.left {
                let there =
                    running.iter().filter(|(s, _)| s == signal).map(|(_, n)| n).sum::<u64>();
                // No more than fit, and of what happens at an instant no more than has no room later.
                let (room, later) = match signal.is_level() {
                    true => (1 - there.min(1), 0),
                    false => (most - there.min(most), most * to_come),
                };
                let due = left.saturating_sub(later).min(room);
                running.push((*signal, due));
                *left -= due;
            }
            self.left.retain(|&(_, n)| n != 0);
        }

        fn one(&mut self, pmu: &mut Pmu, most: u64, to_come: u64) {
            self.compare(pmu);
            self.fill(most, to_come);
        }

        fn end(&mut self, pmu: &mut Pmu, most: u64) {
            for _ in 0..std::mem::take(&mut self.waited) {
                self.one(pmu, most, 0);
            }
            if self.running.is_none() {
                return;
            }
            self.compare(pmu);
            // No cycle is over at what is left, but for those that count it.
            while !self.left.is_empty() {
                self.fill(most, 0);
                let left = self.running.take().unwrap();
                let _pmis = pmu.compare_beyond(&left.into_iter().collect(), self.cpl);
            }
        }

        fn pass(
            &mut self,
            pmu: &mut Pmu,
            cpl: u8,
            cycles: u64,
            last: LastStep,
            counts: &SignalCounts,
        ) {
            let most = pmu.personality().max_events_per_cycle.into();
            if cpl != self.cpl {
                self.end(pmu, most);
                self.cpl = cpl;
            }
            for (signal, n) in counts.iter() {
                match self.left.iter_mut().find(|(s, _)| *s == signal) {
                    Some((_, left)) => *left += n,
                    None => self.left.push((signal, n)),
                }
            }
            let (retires_in, idle) = match last {
                LastStep::EndsTheCycles => (cycles, 0),
                LastStep::EndsAfter(n) => {
                    (std::mem::take(&mut self.waited) + n.min(cycles), cycles - n.min(cycles))
                }
                LastStep::IsNotOver => {
                    self.waited += cycles;
                    return;
                }
            };
            for to_come in (0..retires_in).rev() {
                self.one(pmu, most, to_come);
            }
            if retires_in == 0 {
                self.fill(most, 0);
            }
            for _ in 0..idle {
                self.one(pmu, most, 0);
            }
        }
    }

    /// Random instructions of few and of many cycles, with levels and with what happens at an instant, more or less of
    /// it than fits: counters are behind each as if cycles were compared one by one.
    #[test]
    fn cycles_that_are_alike_are_compared_as_single_ones() {
        let k8 = Personality::by_name("k8").unwrap();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 20) % bound
        };
        // DISPATCH_STALLS, RETIRED_UOPS, RETIRED_INSTRUCTIONS, IC_FETCH_STALL.
        let (events, levels) =
            ([0xD1, 0xC1, 0xC0, 0x87], [Signal::StallDispatchAny, Signal::StallIfetch]);
        for _ in 0..400 {
            let mut pmu = Pmu::new(k8, k8.live.of(Tier::Microarchitecture));
            for counter in 0..4 {
                let flags = below(4) << 24 | below(2) << 23 | below(2) << 18 | below(2) << 20;
                let select = events[below(4) as usize] | flags | ON;
                assert_eq!(pmu.write_msr(EVNTSEL0 + counter, select), MsrAccess::Done(()));
                let preset = 0_u64.wrapping_sub(1 + below(3_000)) & 0xFFFF_FFFF_FFFF;
                assert_eq!(pmu.write_msr(PERFCTR0 + counter, preset), MsrAccess::Done(()));
            }
            let mut other = pmu.clone();
            let (mut cycles, mut by_hand) = (Cycles::default(), ByHand::default());
            let mut cpl = 0;
            for step in 0..60 {
                let takes = [0, 1, below(5), below(300)][below(4) as usize];
                let mut counts = SignalCounts::new();
                for level in levels {
                    counts.add(
                        level,
                        [0, below(takes + 1), takes, takes + below(20)][below(4) as usize],
                    );
                }
                counts.add(Signal::InsnRetired, below(2));
                counts.add(
                    Signal::UopRetired,
                    [1, below(4), below(30), below(1000)][below(4) as usize],
                );
                let last = match below(6) {
                    0 => LastStep::IsNotOver,
                    1 => LastStep::EndsAfter(below(takes + 2)),
                    _ => LastStep::EndsTheCycles,
                };
                cpl = if below(9) == 0 { 3 - cpl } else { cpl };
                let _pmis = cycles.pass(&mut pmu, cpl, takes, last, &counts);
                by_hand.pass(&mut other, cpl, takes, last, &counts);
                assert!(pmu == other, "step {step}: {takes} cycles, {last:?}, {counts:?}");
            }
            let _pmis = cycles.end(&mut pmu);
            by_hand.end(&mut other, 3);
            assert!(pmu == other);
        }
    }
}
