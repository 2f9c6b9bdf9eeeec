//! How much room is left in schedulers and buffers, as dispatch goes on from cycle to cycle.

use crate::state::{Cycles, State, Visitor, list};

/// Room in up to eight structures: a byte each, of at most 127 places.
pub(super) type Places = u64;

/// The bit of each byte that is free in every number of places.
const GUARD: u64 = 0x8080_8080_8080_8080;

/// Cycles ahead for which releases are noted where they belong.
const AHEAD: u64 = 1024;

/// Places that can be released later than that: more than are held at once.
const LATER: usize = 512;

/// Places that are taken in program order, and released in any.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// The cycle that `free` is for.
    now: u64,
    /// What is free in it.
    free: Places,
    /// What becomes free in each of the next cycles.
    releases: Box<[Places; AHEAD as usize]>,
    /// What becomes free after them, and when.
    later: Vec<(u64, Places)>,
    /// When the first of those comes near enough for `releases`, or earlier.
    look_again: u64,
    /// Nothing becomes free behind this cycle.
    last: u64,
}

impl Room {
    pub(super) fn new(capacity: Places) -> Self {
        Self {
            now: 0,
            free: capacity,
            releases: Box::new([0; AHEAD as usize]),
            later: Vec::new(),
            look_again: u64::MAX,
            last: 0,
        }
    }

    /// The cycle that it has come to.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Goes on to the next cycle.
    #[inline(always)]
    pub(super) fn step(&mut self) {
        self.now += 1;
        let slot = &mut self.releases[(self.now % AHEAD) as usize];
        self.free += *slot;
        *slot = 0;
        if self.now >= self.look_again {
            self.sort_in();
        }
    }

    /// Goes on to a cycle, unless it is there or later already.
    #[inline(always)]
    pub(super) fn advance(&mut self, cycle: u64) {
        let until = cycle.min(self.last);
        while self.now < until {
            self.step();
        }
        self.now = self.now.max(cycle);
    }

    /// Which structures lack the places: a set bit 7 in the byte of each; 0 if none does.
    #[inline(always)]
    pub(super) fn lacks(&self, places: Places) -> u64 {
        !((self.free | GUARD) - places) & GUARD
    }

    /// Takes places, which are free.
    #[inline(always)]
    pub(super) fn take(&mut self, places: Places) {
        self.free -= places;
    }

    /// Notes that places are free from a cycle on.
    #[inline(always)]
    pub(super) fn release(&mut self, cycle: u64, places: Places) {
        if cycle <= self.now {
            self.free += places;
        } else {
            self.release_ahead(cycle, places);
        }
    }

    /// The same for a cycle behind the one that it has come to.
    #[inline(always)]
    pub(super) fn release_ahead(&mut self, cycle: u64, places: Places) {
        self.last = self.last.max(cycle);
        if cycle - self.now < AHEAD {
            self.releases[(cycle % AHEAD) as usize] += places;
        } else {
            self.release_later(cycle, places);
        }
    }

    #[cold]
    fn release_later(&mut self, cycle: u64, places: Places) {
        if self.later.len() == LATER {
            // Cannot be: the structures together have fewer places. If so, they come back too early.
            self.releases[((self.now + AHEAD - 1) % AHEAD) as usize] += places;
            return;
        }
        self.later.push((cycle, places));
        self.look_again = self.look_again.min(cycle - (AHEAD - 1));
    }

    #[cold]
    fn sort_in(&mut self) {
        self.look_again = u64::MAX;
        let mut n = 0;
        while let Some(&(cycle, places)) = self.later.get(n) {
            if cycle - self.now < AHEAD {
                self.releases[(cycle % AHEAD) as usize] += places;
                self.later.swap_remove(n);
            } else {
                self.look_again = self.look_again.min(cycle - (AHEAD - 1));
                n += 1;
            }
        }
    }
}

impl Room {
    /// Saves what is taken and when it is free again, or loads it, as [`State::visit`] does. What is free is
    /// the rest of the capacity: so nothing is ever waited for that does not come.
    pub(super) fn visit<V: Visitor>(&mut self, visitor: &mut V, capacity: Places) {
        visitor.name("Room");
        let Self { now, free, releases, later, look_again, last } = self;
        visitor.cycles(now.cycles());
        releases.visit(visitor);
        list(visitor, later, LATER, Default::default);
        let is_far =
            |&(cycle, _): &(u64, Places)| cycle >= *now + AHEAD && cycle <= *visitor.latest();
        let all_are_far = later.iter().all(is_far);
        visitor.check(all_are_far);

        let held = releases.iter().copied().chain(later.iter().map(|&(_, places)| places));
        let rest = held.into_iter().try_fold(capacity, less);
        visitor.check(rest.is_some_and(|rest| V::LOADS || rest == *free));
        if V::LOADS {
            *free = rest.unwrap_or(0);
            let near = later.iter().map(|&(cycle, _)| cycle.saturating_sub(AHEAD - 1));
            *look_again = near.min().unwrap_or(u64::MAX);
            *last = later.iter().map(|&(cycle, _)| cycle).max().unwrap_or(0).max(*now + AHEAD);
        }
    }
}

/// So many places less, if there are so many of each structure.
fn less(places: Places, taken: Places) -> Option<Places> {
    let is_less = taken & GUARD == 0 && ((places | GUARD) - taken) & GUARD == GUARD;
    is_less.then(|| places - taken)
}
