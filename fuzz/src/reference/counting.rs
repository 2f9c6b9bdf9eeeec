//! What counters count: whether they run, at which privilege levels, how much a clock adds, overflow.

use super::registers::{Kind, Part};
use super::{Reference, events};
use crate::fact::Fact;

/// What happened, each fact with how often.
pub type Batch<'a> = &'a [(Fact, u64)];

/// Which counters a report is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// A clock: all.
    All,
    /// Any number of clocks: those that add up what happens.
    Adders,
    /// A clock: those that look at each clock by itself, to compare it with a mask or the clock before.
    Comparers,
}

/// The interrupts that something raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupts {
    /// So many by each counter.
    Each([u64; 4]),
    /// One, by any of the counters that are not zero here. None if all are.
    One([u64; 4]),
}

impl Interrupts {
    /// Whether these are what the product says, by counter.
    pub fn are(self, product: [u64; 4]) -> bool {
        match self {
            Interrupts::Each(counters) => counters == product,
            Interrupts::One(counters) => {
                let any = counters.iter().any(|&overflows| overflows > 0);
                product.iter().sum::<u64>() == u64::from(any)
                    && product.iter().zip(counters).all(|(&pmis, counter)| pmis <= counter)
            }
        }
    }
}

/// How a counter takes a clock.
enum Way {
    /// It adds up what happens.
    Adds,
    /// It adds one if the condition holds; with `edge`, if it holds and did not in the clock before.
    Compares { least: u64, fewer: bool, edge: bool },
}

impl Reference {
    /// Whether a counter runs.
    pub(super) fn runs(&self, counter: usize) -> bool {
        let en = |number| self.register(Kind::Select(number)).bit(22);
        match self.part {
            // Pentium, CC: "000 count nothing, 001 selected event while CPL is 0, 1 or 2, 010 while CPL is 3,
            // 011 regardless of the CPL, 100 count nothing (clocks)".
            Part::P55c => self.cesr(counter, 6) || self.cesr(counter, 7),
            // P6: "this flag is only present in PerfEvtSel0 and controls both counters".
            Part::Ppro | Part::Pii | Part::Piii | Part::Pm => en(0),
            // 22007 and 26094: "EN: enables performance monitor counter".
            Part::K7 | Part::K8 => en(counter),
            // 327357-001, table 1-5: "EN: counting is enabled only if the corresponding bit of
            // IA32_PERF_GLOBAL_CTRL is set as well"; table 1-7: the user preference "affects only the
            // counters whose SPFLT control bit is set".
            Part::Knc => {
                let spflt = self.register(Kind::Spflt);
                let filtered = spflt.bit(counter) && !spflt.bit(63);
                self.register(Kind::Control).bit(counter) && en(counter) && !filtered
            }
        }
    }

    /// A bit of a counter's half of CESR, numbered as in the lower half.
    fn cesr(&self, counter: usize, number: usize) -> bool {
        self.register(Kind::Cesr).bit(16 * counter + number)
    }

    /// Whether a counter counts what happens at a privilege level.
    fn counts_at(&self, counter: usize, cpl: u8) -> bool {
        if self.part == Part::P55c {
            // CC: "x01 while CPL is 0, 1 or 2, x10 while CPL is 3".
            return self.cesr(counter, if cpl == 3 { 7 } else { 6 });
        }
        let select = self.register(Kind::Select(counter));
        // "OS: count events in operating-system mode (at CPL = 0)"; "USR: count events in user mode (at
        // CPL > 0)" (26094, 10.2); "at privilege levels 1, 2 or 3" (22007, P6, 327357-001 table 1-5).
        select.bit(if cpl == 0 { 17 } else { 16 })
    }

    /// The event's code and unit mask.
    fn event(&self, counter: usize) -> (u8, u8) {
        if self.part == Part::P55c {
            let low = 16 * counter;
            return (self.register(Kind::Cesr).field(low + 5, low) as u8, 0);
        }
        let select = self.register(Kind::Select(counter));
        (select.field(7, 0) as u8, select.field(15, 8) as u8)
    }

    /// Whether a counter, as it is programmed, counts a fact at any privilege level, by adding.
    pub(crate) fn adds(&self, counter: usize, fact: Fact) -> bool {
        let (code, mask) = self.event(counter);
        self.runs(counter)
            && (self.counts_at(counter, 0) || self.counts_at(counter, 3))
            && matches!(self.way(counter), Way::Adds)
            && events::counts(self.part, code, mask, counter, fact)
    }

    /// Whether it is enough to know how often these facts happen to know what a counter holds.
    pub fn is_known_from(&self, counter: usize, facts: &[Fact]) -> bool {
        let (code, mask) = self.event(counter);
        let of_others = |fact: &&Fact| {
            !facts.contains(fact) && events::counts(self.part, code, mask, counter, **fact)
        };
        let adds = facts.iter().any(|&fact| self.adds(counter, fact));
        !self.runs(counter) || adds && !Fact::ALL.iter().any(|fact| of_others(&fact))
    }

    fn way(&self, counter: usize) -> Way {
        if self.part == Part::P55c {
            // CC bit 2: "1xx count clocks (duration)", else occurrences. Of an event that lasts, an
            // occurrence is its beginning; of an event that occurs, a clock is one in which it does.
            let clocks = self.cesr(counter, 8);
            let (code, _) = self.event(counter);
            return match (events::is_duration(code, counter), clocks) {
                (false, false) | (true, true) => Way::Adds,
                (false, true) => Way::Compares { least: 1, fewer: false, edge: false },
                (true, false) => Way::Compares { least: 1, fewer: false, edge: true },
            };
        }
        let select = self.register(Kind::Select(counter));
        let (mask, inv, edge) = (select.field(31, 24), select.bit(23), select.bit(18));
        match (mask, edge) {
            // "When CNT_MASK is 0, the counter is incremented by the number of events in a clock cycle"
            // (26094, 10.2, a); table 1-5 and the P6 say the same. INV inverts a comparison that is not made.
            (0, false) => Way::Adds,
            // "E: the negated-to-asserted transitions of any condition": an event that happens at all.
            (0, true) => Way::Compares { least: 1, fewer: false, edge },
            // 26094, 10.2, c: "CNT_MASK values from 4 to 255 are reserved", "maximum number of events in
            // one cycle is 3": no clock reaches them. 22007 names no maximum; it retires three instructions
            // a clock too.
            (4.., _) if matches!(self.part, Part::K7 | Part::K8) => {
                Way::Compares { least: u64::MAX, fewer: inv, edge }
            }
            // "Incremented by 1 if the number of events in a clock cycle is greater than or equal to
            // CNT_MASK", with INV "if less than".
            (least, _) => Way::Compares { least, fewer: inv, edge },
        }
    }

    /// Something happened in this thread, or in another one of the core (`thread` above 0), at a privilege
    /// level. The interrupts that it raises.
    pub fn happen(&mut self, thread: usize, what: For, batch: Batch, cpl: u8) -> Interrupts {
        let mut overflows = [0; 4];
        for (counter, overflows) in overflows.iter_mut().enumerate().take(self.part.counters()) {
            if !self.runs(counter) || !self.counts_at(counter, cpl) || !self.sees(counter, thread) {
                continue;
            }
            let (code, mask) = self.event(counter);
            // What is no event is at no time: 10.2 of 26094 calls it "a static 0".
            let is_event = events::is_legal(self.part, code, mask, counter);
            let is_of = |fact| events::counts(self.part, code, mask, counter, fact);
            // "All events selected by UNIT_MASK are simultaneously monitored" (26094, 10.2): their sum.
            let sum =
                batch.iter().filter(|happened| is_of(happened.0)).map(|happened| happened.1).sum();
            let n = match self.way(counter) {
                Way::Adds if what == For::Comparers => continue,
                Way::Adds => sum,
                Way::Compares { .. } if what == For::Adders => continue,
                Way::Compares { least, fewer, edge } => {
                    let holds = is_event && (sum >= least) != fewer;
                    let held = std::mem::replace(&mut self.held[counter][thread], holds);
                    u64::from(holds && !(edge && held))
                }
            };
            let width = self.part.width();
            *overflows = self.register_mut(Kind::Counter(counter)).count(n, width);
        }
        self.interrupts(overflows)
    }

    /// Whether a counter sees what a thread does. 327357-001, table 1-5, bit 21: "if clear, events of this
    /// thread's context are counted, if set, those of all threads. Events without a thread context are always
    /// counted, whatever the thread count mode". Elsewhere there is no other thread to see.
    fn sees(&self, counter: usize, thread: usize) -> bool {
        let (code, mask) = self.event(counter);
        thread == 0
            || self.part == Part::Knc
                && (self.register(Kind::Select(counter)).bit(21)
                    || events::is_without_thread(self.part, code, mask))
    }

    /// What overflows that come at one instant do.
    fn interrupts(&mut self, overflows: [u64; 4]) -> Interrupts {
        let mut enabled = [0; 4];
        if self.part == Part::P55c {
            // Pentium: an overflow shows on the pins PM0 and PM1 alone; its local APIC has no entry for it.
            return Interrupts::Each(enabled);
        }
        // "INT: enables APIC interrupt when PerfCtr overflows" (26094, 10.2), for each counter; the P6, 22007
        // and 327357-001 say the same.
        for (counter, enabled) in enabled.iter_mut().enumerate().take(self.part.counters()) {
            if self.register(Kind::Select(counter)).bit(20) {
                *enabled = overflows[counter];
            }
        }
        if self.part != Part::Knc {
            // One interrupt an overflow: FreeBSD's driver expects as many.
            return Interrupts::Each(enabled);
        }
        // 1.4.3.9: "the interface of 1 bit to the APIC changes from 0 to 1 when a counter needs service": one
        // interrupt, whichever counter is said to have raised it; "the others are in the overflow status".
        let was_clear = self.register(Kind::Status).word() == 0;
        // 1.4.3.5: "each bit is a sticky bit and is set by a counter overflow", "also if the APIC interrupt is
        // not enabled".
        for (counter, &overflows) in overflows.iter().enumerate().take(2) {
            if overflows > 0 {
                self.register_mut(Kind::Status).set(counter, true);
            }
        }
        Interrupts::One(if was_clear { enabled } else { [0; 4] })
    }

    /// Edge detection of a counter that does not run begins anew when it runs: "disable the counter when
    /// changing the event and then enable the counter" (26094, 10.2) avoids a false edge. The manuals do
    /// not say whether a counter with neither USR nor OS is disabled in this sense; as CC 000 disables the
    /// Pentium's, it is.
    pub(super) fn forget_conditions(&mut self) {
        for counter in 0..self.part.counters() {
            let at_some_cpl = self.counts_at(counter, 0) || self.counts_at(counter, 3);
            if !self.runs(counter) || !at_some_cpl {
                self.held[counter] = [false; 4];
            }
        }
    }

    /// After how many further occurrences of a fact some counter overflows. None if none adds it.
    pub fn headroom(&self, fact: Fact) -> Option<u64> {
        let counters = (0..self.part.counters()).filter(|&counter| self.adds(counter, fact));
        counters.map(|counter| self.headroom_of(counter)).min()
    }

    /// After how much a counter overflows: "a two's-complement negative number" overflows "after counting the
    /// appropriate number of times" (26094, 10.1).
    pub fn headroom_of(&self, counter: usize) -> u64 {
        (1 << self.part.width()) - self.register(Kind::Counter(counter)).word()
    }
}
