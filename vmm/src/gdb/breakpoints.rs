//! Breakpoints and watchpoints, and what each processor is told of them.
//!
//! A software breakpoint writes nothing to guest memory: as with a hardware one, the engine stops before the
//! instruction (`x86/src/stops.rs`), and there are as many as gdb likes.

use std::collections::BTreeSet;

use x86_cpu::stops::{Stops, Watched};

/// Where gdb stops the processors.
#[derive(Clone, Debug, Default)]
pub(super) struct Breakpoints {
    /// Linear addresses, by gdb's kind: it removes what it has set.
    software: BTreeSet<u64>,
    hardware: BTreeSet<u64>,
    watched: Vec<Watched>,
    /// Those that were removed since the machine last stopped. gdb takes its breakpoints away when it steps a
    /// thread off one, and expects that the other threads stand still. They do not, so that theirs stay where
    /// they are.
    removed: BTreeSet<u64>,
}

/// gdb's kinds of breakpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Software,
    Hardware,
}

impl Breakpoints {
    fn of(&mut self, kind: Kind) -> &mut BTreeSet<u64> {
        match kind {
            Kind::Software => &mut self.software,
            Kind::Hardware => &mut self.hardware,
        }
    }

    pub(super) fn set(&mut self, kind: Kind, address: u64) {
        self.of(kind).insert(address);
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, kind: Kind, address: u64) -> bool {
        self.removed.insert(address);
        self.of(kind).remove(&address)
    }

    pub(super) fn watch(&mut self, watched: Watched) {
        self.watched.push(watched);
    }

    /// Whether it was there.
    pub(super) fn unwatch(&mut self, watched: Watched) -> bool {
        let at = self.watched.iter().position(|&other| other == watched);
        at.map(|at| self.watched.swap_remove(at)).is_some()
    }

    /// Of which kind the breakpoint at a linear address is, if there is one.
    pub(super) fn at(&self, address: u64) -> Option<Kind> {
        let software = (self.software.contains(&address) || self.removed.contains(&address))
            .then_some(Kind::Software);
        self.hardware.contains(&address).then_some(Kind::Hardware).or(software)
    }

    /// Where processors stop while one of them is stepped, or none is.
    pub(super) fn stops(&self, stepping: bool) -> Stops {
        let removed = self.removed.iter().filter(|_| stepping);
        let addresses = self.software.iter().chain(&self.hardware).chain(removed);
        Stops::new(addresses.copied().collect(), self.watched.clone())
    }

    /// The machine has stopped: what was removed before is gone.
    pub(super) fn settle(&mut self) {
        self.removed.clear();
    }
}
