//! The direction of conditional branches by three tables, as in the Pentium M: the table by path if it
//! knows the branch, else the table of loops, else a bimodal table, which knows all.

use super::{
    counter::{self, after, predicts_taken},
    geometry::HybridGeometry,
    global::{Global, GlobalPlace},
    loops::{LoopPlace, Loops},
    path::Path,
};
use crate::state::Visitor;

/// The three tables.
#[derive(Clone, Debug)]
pub(super) struct Hybrid {
    bimodal: Box<[u8]>,
    global: Global,
    loops: Loops,
}

/// What the tables say of a branch, until they are next changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct HybridGuess {
    global: GlobalPlace,
    loops: LoopPlace,
    /// What the table of loops says, if it is asked.
    by_loop: Option<bool>,
    /// Which bimodal counter is the branch's, and what it is.
    bimodal: (usize, u8),
}

impl HybridGuess {
    /// Which way the branch is expected to go.
    #[inline(always)]
    pub(super) fn taken(&self) -> bool {
        self.global.prediction().unwrap_or(self.without_path())
    }

    #[inline(always)]
    fn without_path(&self) -> bool {
        self.by_loop.unwrap_or(predicts_taken(self.bimodal.1))
    }
}

impl Hybrid {
    /// Empty tables. What the bimodal counters are at reset is not sourced.
    pub(super) fn new(geometry: HybridGeometry) -> Self {
        Self {
            bimodal: vec![0; geometry.bimodal_counters].into(),
            global: Global::new(geometry),
            loops: Loops::new(geometry),
        }
    }

    /// What they say of the branch at an address, on this path. The table of loops is asked only if the
    /// target buffer has the branch.
    #[inline(always)]
    pub(super) fn guess(&self, at: u64, path: &Path, has_target: bool) -> HybridGuess {
        let loops = self.loops.find(at);
        let index = at as usize & (self.bimodal.len() - 1);
        HybridGuess {
            global: self.global.find(at, path),
            loops,
            by_loop: if has_target { loops.prediction() } else { None },
            bimodal: (index, self.bimodal[index]),
        }
    }

    /// Learns an outcome of a branch on this path, which goes on from it.
    #[inline(always)]
    pub(super) fn learn_on(&mut self, at: u64, path: &mut Path, guess: &HybridGuess, taken: bool) {
        self.learn(guess, taken);
        if taken {
            path.conditional(at);
        }
    }

    #[inline(always)]
    fn learn(&mut self, guess: &HybridGuess, taken: bool) {
        let by_path = guess.global.prediction();
        if by_path.is_none() && guess.by_loop.is_none() {
            self.learn_bimodal(guess, taken);
        }
        let mispredicted = guess.taken() != taken;
        match by_path {
            // The table by path got wrong what it need not know.
            Some(_) if mispredicted && guess.without_path() == taken => {
                self.global.forget(guess.global);
            }
            Some(_) => self.global.learn(guess.global, taken),
            None if mispredicted => self.global.learn(guess.global, taken),
            None => {}
        }
        self.loops.learn(guess.loops, taken, mispredicted);
    }

    #[inline(always)]
    fn learn_bimodal(&mut self, guess: &HybridGuess, taken: bool) {
        let (index, counter) = guess.bimodal;
        self.bimodal[index] = after(counter, taken);
    }
}

crate::state! { Hybrid { saved: bimodal, global, loops; then: check; } }

impl Hybrid {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        counter::check(visitor, &self.bimodal);
    }
}
