//! Which translations the hardware threads of a core have in common: those of the same page tables.

use super::flush_filter::AddressSpace;
use crate::state::{State, Visitor};

/// The address spaces of the threads of a core. That threads with the same value of CR3 find what another has
/// brought in, and that no others do, is not sourced.
#[derive(Clone, Debug)]
pub(super) struct Threads {
    /// By thread: the place of its page tables in `tables`.
    of: Box<[usize]>,
    /// The value of CR3 of each, as many as there are threads: one may have none.
    tables: Box<[u64]>,
    running: usize,
}

impl Threads {
    /// So many threads, each with CR3 zero.
    pub(super) fn new(threads: usize) -> Self {
        Self { of: vec![0; threads].into(), tables: vec![0; threads].into(), running: 0 }
    }

    /// Whether there is more than one.
    pub(super) fn are_several(&self) -> bool {
        self.of.len() > 1
    }

    /// From now on, this thread runs: its address space.
    #[inline]
    pub(super) fn choose(&mut self, thread: usize) -> AddressSpace {
        self.running = thread;
        self.space()
    }

    /// The address space of the running thread. With one thread, none are told apart.
    pub(super) fn space(&self) -> AddressSpace {
        if self.are_several() { self.of[self.running] as AddressSpace + 1 } else { 0 }
    }

    /// The running thread has loaded CR3. Whether nobody uses the page tables any more that it had before.
    pub(super) fn load(&mut self, cr3: u64) -> bool {
        let (running, before) = (self.running, self.of[self.running]);
        let is_used = |place: usize| {
            self.of.iter().enumerate().any(|(thread, &of)| thread != running && of == place)
        };
        let places = 0..self.tables.len();
        let shared = places.clone().find(|&place| is_used(place) && self.tables[place] == cr3);
        let is_left = shared.is_some() && !is_used(before);
        let own = || Some(before).filter(|&before| !is_used(before));
        // The others have one less than there are places.
        let free = || places.clone().find(|&place| !is_used(place));
        let place = shared.or_else(own).or_else(free).unwrap_or(before);
        self.tables[place] = cr3;
        self.of[running] = place;
        is_left
    }
}

impl State for Threads {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Threads");
        let Self { of, tables, running } = self;
        for place in of.iter_mut() {
            visitor.index(place, tables.len());
        }
        tables.visit(visitor);
        visitor.index(running, of.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four threads load values at random. Two have the same space exactly when what they loaded last is the
    /// same; before they load anything, that is zero.
    #[test]
    fn threads_with_the_same_tables_have_one_space() {
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut threads = Threads::new(4);
        let mut loaded = [0_u64; 4];
        for _ in 0..10_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let thread = (random >> 20 & 3) as usize;
            let cr3 = random >> 30 & 7;
            threads.choose(thread);
            let is_left = threads.load(cr3);
            let before = std::mem::replace(&mut loaded[thread], cr3);
            // Where nobody else has the new tables, they take the place of those that go.
            let others = (0..4).filter(|&other| other != thread).map(|other| loaded[other]);
            let has = |tables: u64| others.clone().any(|of| of == tables);
            assert_eq!(is_left, !has(before) && has(cr3), "{before} {loaded:?}");
            let spaces = [0, 1, 2, 3].map(|thread| threads.choose(thread));
            for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                assert_eq!(spaces[a] == spaces[b], loaded[a] == loaded[b], "{loaded:?} {spaces:?}");
            }
            assert!(spaces.iter().all(|&space| (1..=4).contains(&space)));
        }
    }

    #[test]
    fn one_thread_tells_none_apart() {
        let mut threads = Threads::new(1);
        assert_eq!((threads.choose(0), threads.load(7), threads.space()), (0, false, 0));
    }
}
