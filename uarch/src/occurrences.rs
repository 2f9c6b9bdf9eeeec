//! What the models fire: occurrences of signals, and how many more may come before the run has to end.

mod bundles;

pub(crate) use self::bundles::Bundle;
use self::bundles::Bundles;
use crate::state::{LATEST, State, Visitor};
use pmu_model::Signal;

/// Most counters that can count occurrences.
const COUNTERS: usize = 7;
/// A budget of so many is nearly used up: more than the hits of a block can use. It has 48 instructions at
/// most, of which FNSAVE accesses most, in 14 pieces; a piece of eight bytes fires three occurrences when it
/// is misaligned and written, which makes 48 * 14 * 3 = 2016; its fetch and its branch are fewer than a hundred.
const NEAR: u64 = 4096;
/// In [`BySignal::counted_by`]: the signal is logged.
const LOGGED: u8 = 1 << COUNTERS;
/// Signals of a group: numbers that are cleared together, a line of the host's caches.
const GROUP: usize = 8;

const _: () = assert!(Signal::COUNT.div_ceil(GROUP) <= u64::BITS as usize);

/// Occurrences of each signal on one processor since they were last taken.
///
/// A counter that overflows at an occurrence which nothing could foresee (a cache miss) has to end the
/// run on its own instruction. So counters may have budgets: firing a signal that they count takes from
/// them, and when one is used up, [`Occurrences::is_spent`] says so.
///
/// All but what is asked at every block is apart, since those of the running processor are moved where it is another
/// thread at every instruction.
#[derive(Clone, Debug, Default)]
pub struct Occurrences {
    apart: Box<Fired>,
    /// A budget is used up.
    spent: bool,
    /// A budget is used up, or nearly.
    near: bool,
}

/// What there is of them.
#[derive(Clone, Debug)]
struct Fired {
    by_signal: BySignal,
    /// The groups of signals of which some may be counted by counters with a budget, one bit each.
    counted: u64,
    /// The counters that have a budget, one bit each.
    budgeted: u8,
    /// Occurrences of logged signals since the log was last taken, by signal.
    log: Vec<(Signal, u64)>,
    /// Those that have been fired together.
    bundles: Bundles,
}

/// What there is of each signal, by [`Signal::index`], and of each counter.
#[derive(Clone, Debug)]
struct BySignal {
    /// Occurrences since they were last taken.
    fired: [u64; Signal::COUNT],
    /// The counters whose budgets it takes from, one bit each.
    counted_by: [u8; Signal::COUNT],
    /// The groups of signals of which something may have been fired since it was last cleared.
    touched: Groups,
    /// By counter: occurrences that are left.
    left: [u64; COUNTERS],
}

impl Default for Fired {
    fn default() -> Self {
        let by_signal = BySignal {
            fired: [0; Signal::COUNT],
            counted_by: [0; Signal::COUNT],
            touched: Groups::default(),
            left: [0; COUNTERS],
        };
        Self { by_signal, counted: 0, budgeted: 0, log: Vec::new(), bundles: Bundles::default() }
    }
}

impl Occurrences {
    /// `n` occurrences of a signal.
    #[inline(always)]
    pub fn fire(&mut self, signal: Signal, n: u64) {
        let index = signal.index();
        self.apart.by_signal.touched.add(signal);
        self.apart.by_signal.fired[index] += n;
        if self.apart.by_signal.counted_by[index] != 0 {
            self.note(signal, n);
        }
    }

    /// Occurrences of several signals.
    #[inline(always)]
    pub fn fire_all<const N: usize>(&mut self, signals: [(Signal, u64); N]) {
        let BySignal { fired, counted_by, touched, .. } = &mut self.apart.by_signal;
        let mut counters = 0;
        for (signal, n) in signals {
            let index = signal.index();
            touched.add(signal);
            fired[index] += n;
            counters |= counted_by[index];
        }
        if counters != 0 {
            for (signal, n) in signals {
                if self.apart.by_signal.counted_by[signal.index()] != 0 {
                    self.note(signal, n);
                }
            }
        }
    }

    /// `n` occurrences of a signal that were fired last did not happen. None of them has used up a budget, or been
    /// logged.
    pub fn take_back(&mut self, signal: Signal, n: u64) {
        let index = signal.index();
        self.apart.by_signal.fired[index] -= n;
        let counters = self.apart.by_signal.counted_by[index];
        for (counter, left) in self.apart.by_signal.left.iter_mut().enumerate() {
            if counters >> counter & 1 != 0 {
                *left += n;
            }
        }
    }

    /// Whether a log is kept of a signal.
    pub(crate) fn logs(&self, signal: Signal) -> bool {
        self.apart.by_signal.counted_by[signal.index()] & LOGGED != 0
    }

    /// The same as [`Self::fire`], if that changes nothing but how many there are: whether it is.
    #[inline(always)]
    pub fn fires_uncounted(&mut self, signals: &[(Signal, u64)]) -> bool {
        if signals.iter().any(|&(signal, _)| self.apart.by_signal.counted_by[signal.index()] != 0) {
            return false;
        }
        for &(signal, n) in signals {
            self.apart.by_signal.touched.add(signal);
            self.apart.by_signal.fired[signal.index()] += n;
        }
        true
    }

    #[inline(never)]
    fn note(&mut self, signal: Signal, n: u64) {
        let counted_by = self.apart.by_signal.counted_by[signal.index()];
        self.count_down(counted_by, n);
        if counted_by & LOGGED != 0 && n != 0 {
            self.note_in_log(signal, n);
        }
    }

    #[inline(never)]
    fn note_in_log(&mut self, signal: Signal, n: u64) {
        match self.apart.log.iter_mut().find(|(known, _)| *known == signal) {
            Some((_, count)) => *count += n,
            None => self.apart.log.push((signal, n)),
        }
    }

    #[inline(always)]
    fn count_down(&mut self, counters: u8, n: u64) {
        let mut counters = counters & !LOGGED;
        let Self { apart, near, spent } = self;
        let by_signal = &mut apart.by_signal;
        while counters != 0 {
            let left = &mut by_signal.left[counters.trailing_zeros() as usize];
            spend(left, n, near, spent);
            counters &= counters - 1;
        }
    }

    /// How many there are of each signal, by [`Signal::index`]. The owner may take from them, and adds nothing.
    #[inline(always)]
    pub fn fired(&mut self) -> &mut [u64; Signal::COUNT] {
        self.spread_bundles();
        &mut self.apart.by_signal.fired
    }

    /// Forgets how many there are of each signal. What is logged stays.
    #[inline]
    pub fn clear(&mut self) {
        self.apart.bundles.clear();
        let BySignal { fired, touched, .. } = &mut self.apart.by_signal;
        clear_groups(fired, std::mem::take(touched).bits(), |fired| *fired = 0);
    }

    /// Takes out how many there are of each signal, and forgets what was logged.
    pub(crate) fn take(&mut self) -> [u64; Signal::COUNT] {
        self.apart.log.clear();
        self.spread_bundles();
        let fired = self.apart.by_signal.fired;
        self.clear();
        fired
    }

    /// Forgets what was logged.
    pub(crate) fn forget_log(&mut self) {
        self.apart.log.clear();
    }

    /// Whether there are none of any signal, as far as that is known without a look at each.
    pub(crate) fn is_clear(&self) -> bool {
        self.apart.by_signal.touched.bits() == 0 && self.apart.bundles.is_clear()
    }

    /// Gives a counter a budget of so many occurrences of all signals that it is given together: those
    /// that there are already, and all that come. Of several that it is given, the least is left.
    pub fn add_to_budget(&mut self, counter: usize, occurrences: u64, signal: Signal) {
        self.spread_bundles();
        self.apart.bundles.recount();
        if self.apart.budgeted >> counter & 1 == 0 {
            self.apart.budgeted |= 1 << counter;
            self.apart.by_signal.left[counter] = u64::MAX;
        }
        let left = &mut self.apart.by_signal.left[counter];
        *left = (*left).min(occurrences);
        let index = signal.index();
        self.apart.counted |= group_of(signal);
        self.apart.by_signal.counted_by[index] |= 1 << counter;
        self.count_down(1 << counter, self.apart.by_signal.fired[index]);
    }

    /// Keeps a log of a signal from now on.
    pub fn log(&mut self, signal: Signal) {
        self.apart.bundles.recount();
        self.apart.by_signal.counted_by[signal.index()] |= LOGGED;
    }

    /// What was logged since this was last asked for, by signal.
    #[inline(always)]
    pub fn take_log(&mut self) -> impl Iterator<Item = (Signal, u64)> {
        self.apart.log.drain(..)
    }

    /// Takes all budgets away.
    pub fn clear_budgets(&mut self) {
        self.apart.bundles.recount();
        let counted = std::mem::take(&mut self.apart.counted);
        clear_groups(&mut self.apart.by_signal.counted_by, counted, |counters| *counters &= LOGGED);
        self.apart.budgeted = 0;
        self.spent = false;
        self.near = false;
    }

    /// Whether a budget is used up.
    #[inline(always)]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Whether one is used up, or so nearly that the hits of a block could use it up.
    #[inline(always)]
    #[must_use]
    pub fn is_nearly_spent(&self) -> bool {
        self.near
    }
}

/// Takes so many from a budget.
#[inline(always)]
fn spend(left: &mut u64, n: u64, near: &mut bool, spent: &mut bool) {
    let rest = left.saturating_sub(n);
    *left = rest;
    // Mostly it is far from used up, and then the budget is all that is read and written.
    if rest <= NEAR {
        *near = true;
        *spent |= rest == 0;
    }
}

/// Groups of signals.
///
/// A byte each, which is written and not read: bits of one number wait for each other, and the compiler has some of
/// them written in a byte, behind which the number can be read only when that is in the cache.
#[derive(Clone, Copy, Debug)]
struct Groups([u8; u64::BITS as usize]);

impl Default for Groups {
    fn default() -> Self {
        Self([0; u64::BITS as usize])
    }
}

impl Groups {
    #[inline(always)]
    fn add(&mut self, signal: Signal) {
        self.0[signal.index() / GROUP] = 1;
    }

    /// All that there are.
    fn add_all(&mut self) {
        self.0[..Signal::COUNT.div_ceil(GROUP)].fill(1);
    }

    /// A bit each.
    #[inline(always)]
    fn bits(&self) -> u64 {
        let (eights, _) = self.0.as_chunks::<8>();
        eights.iter().rev().fold(0, |bits, &eight| {
            // Bit 0 of byte n comes to be bit 56 + n.
            bits << 8 | u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56
        })
    }
}

/// The bit of a signal's group.
#[inline(always)]
const fn group_of(signal: Signal) -> u64 {
    1 << (signal.index() / GROUP)
}

/// Clears what there is of the signals of some groups, of which each has a bit.
#[inline(always)]
fn clear_groups<T>(of: &mut [T; Signal::COUNT], mut groups: u64, clear: impl Fn(&mut T)) {
    while groups != 0 {
        let first = groups.trailing_zeros() as usize * GROUP;
        groups &= groups - 1;
        match of.get_mut(first..first + GROUP) {
            Some(group) => group.iter_mut().for_each(&clear),
            // The last may be smaller.
            None => of[first..].iter_mut().for_each(&clear),
        }
    }
}

/// What has been fired. Budgets are taken away by a load: their owner gives them for each run. Which signals
/// are logged is its choice as well, and stays.
impl State for Occurrences {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        self.spread_bundles();
        let Fired { by_signal, counted: _, budgeted: _, log, bundles: _ } = &mut *self.apart;
        let BySignal { fired, counted_by: _, touched, left: _ } = by_signal;
        visitor.name("Occurrences.fired");
        fired.visit(visitor);
        visitor.check(fired.iter().all(|&fired| fired <= LATEST));
        if V::LOADS {
            touched.add_all();
            log.clear();
            self.clear_budgets();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one signal has fired is found and cleared, whichever group it is of, and nothing else is touched.
    #[test]
    fn each_signal_is_cleared() {
        let mut occurrences = Occurrences::default();
        for (n, &signal) in Signal::ALL.iter().enumerate() {
            assert!(occurrences.is_clear());
            occurrences.fire(signal, 3);
            assert_eq!(occurrences.apart.by_signal.touched.bits(), 1 << (n / 8));
            occurrences.clear();
            assert!(occurrences.fired().iter().all(|&fired| fired == 0), "{signal:?}");
        }
        occurrences.apart.by_signal.touched.add_all();
        assert_eq!(
            occurrences.apart.by_signal.touched.bits().count_ones() as usize,
            Signal::COUNT.div_ceil(8)
        );
    }

    /// A counter of L1 misses, and one that adds up two kinds of TLB miss.
    #[test]
    fn a_log_has_what_came_since_it_was_taken() {
        let mut occurrences = Occurrences::default();
        occurrences.fire(Signal::L1dMiss, 1);
        occurrences.log(Signal::L1dMiss);
        occurrences.add_to_budget(0, 9, Signal::L1dAccess);
        for n in 1..4 {
            occurrences.fire(Signal::L1dMiss, n);
            occurrences.fire(Signal::L1dAccess, 1);
        }
        assert_eq!(occurrences.take_log().collect::<Vec<_>>(), [(Signal::L1dMiss, 6)]);
        occurrences.clear_budgets();
        occurrences.fire(Signal::L1dMiss, 7);
        assert_eq!(occurrences.take_log().collect::<Vec<_>>(), [(Signal::L1dMiss, 7)]);
        assert_eq!(occurrences.take_log().count(), 0);
    }

    #[test]
    fn the_occurrence_that_uses_up_a_budget_spends_it() {
        let mut occurrences = Occurrences::default();
        occurrences.fire(Signal::ItlbMissLast, 4);
        occurrences.add_to_budget(0, 3, Signal::L1dMiss);
        occurrences.add_to_budget(1, 9, Signal::DtlbMissLast);
        occurrences.add_to_budget(1, 9, Signal::ItlbMissLast);
        occurrences.fire(Signal::L1dMiss, 2);
        occurrences.fire(Signal::DtlbMissLast, 3);
        occurrences.fire(Signal::L1dAccess, 1000);
        assert!(!occurrences.is_spent());
        let mut other = occurrences.clone();
        occurrences.fire(Signal::L1dMiss, 1);
        assert!(occurrences.is_spent());
        // 4 + 3 + 1 + 1 of 9.
        other.fire(Signal::ItlbMissLast, 1);
        assert!(!other.is_spent());
        other.fire(Signal::DtlbMissLast, 1);
        assert!(other.is_spent());
        assert_eq!(occurrences.fired()[Signal::L1dMiss.index()], 3);
        occurrences.clear_budgets();
        occurrences.fire(Signal::L1dMiss, 1000);
        assert!(!occurrences.is_spent());
    }

    /// Whatever was fired, and however it came there, nothing is left; and no budget is left of counters that had one.
    /// One signal after the other, so that each is alone in its group once.
    #[test]
    fn clearing_leaves_nothing() {
        let mut occurrences = Occurrences::default();
        for (nth, &signal) in Signal::ALL.iter().enumerate() {
            let other = Signal::ALL[(nth * 7 + 3) % Signal::COUNT];
            match nth % 3 {
                0 => occurrences.fire(signal, 1 + nth as u64),
                1 => assert!(occurrences.fires_uncounted(&[(signal, 2), (other, 3)])),
                _ => {
                    let mut bytes = Vec::new();
                    occurrences.fire(signal, 5);
                    occurrences.visit(&mut crate::state::Saver::new(&mut bytes));
                    occurrences = Occurrences::default();
                    let mut loader = crate::state::Loader::new(&bytes);
                    occurrences.visit(&mut loader);
                    loader.finish().unwrap();
                }
            }
            assert_ne!(occurrences.fired()[signal.index()], 0);
            match nth % 2 {
                0 => occurrences.clear(),
                _ => assert_ne!(occurrences.take()[signal.index()], 0),
            }
            assert!(occurrences.fired().iter().all(|&fired| fired == 0), "{signal:?}");
            occurrences.add_to_budget(nth % COUNTERS, 1, signal);
            occurrences.add_to_budget((nth + 1) % COUNTERS, 1, other);
            occurrences.clear_budgets();
            occurrences.fire(signal, 9);
            occurrences.fire(other, 9);
            assert!(!occurrences.is_spent(), "{signal:?} {other:?}");
            occurrences.clear();
        }
    }
}
