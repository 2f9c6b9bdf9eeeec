//! What belongs to one processor alone.

use super::pages::{KnownPage, MemoryTypes};
use crate::branch::{Predictor, PredictorGeometry};
use crate::occurrences::Occurrences;
use crate::processors::PerProcessor;
use crate::state::{State, Visitor, optional};

/// All processors of a machine.
pub type Processors = PerProcessor<Processor>;

/// What belongs to one processor alone.
///
/// Another thread of a core may run at every instruction, and then two of these change places. So all of it is in one
/// structure, and what is large is apart.
#[derive(Clone, Debug, Default)]
pub struct Processor {
    /// What has been fired on it.
    pub(crate) occurrences: Occurrences,
    /// What it has fetched and accessed last.
    pub(super) locality: Box<Locality>,
    /// There is none until it is first chosen or interrupted, so that those of a machine of many processors of which few
    /// do something take no memory.
    predictor: Option<Box<Predictor>>,
}

/// Of the running processor.
const IS_MADE: &str = "who runs has been chosen";

impl Processor {
    /// Sees to it that there is a predictor.
    #[inline(always)]
    pub(super) fn make_predictor(&mut self, geometry: &'static PredictorGeometry) {
        if self.predictor.is_none() {
            self.predictor = Some(new_predictor(geometry));
        }
    }

    /// The predictor, and where it fires its signals.
    ///
    /// # Panics
    ///
    /// If there is none yet.
    #[inline(always)]
    pub(super) fn predictor(&mut self) -> (&mut Predictor, &mut Occurrences) {
        (self.predictor.as_mut().expect(IS_MADE), &mut self.occurrences)
    }

    /// Saves it or loads it, as [`State::visit`] does.
    pub(super) fn visit<V: Visitor>(
        &mut self,
        visitor: &mut V,
        geometry: &'static PredictorGeometry,
    ) {
        let Self { occurrences, locality, predictor } = self;
        occurrences.visit(visitor);
        locality.visit(visitor);
        optional(visitor, predictor, || new_predictor(geometry));
    }
}

#[cold]
#[inline(never)]
fn new_predictor(geometry: &'static PredictorGeometry) -> Box<Predictor> {
    Box::new(Predictor::new(geometry))
}

/// What a processor has fetched and accessed last, and what is known of the pages of that.
#[derive(Clone, Debug)]
pub(super) struct Locality {
    /// Apart from those of code, so that the order of fetches and accesses does not matter: what is fetched at once
    /// is fetched before what the instructions access.
    pub(super) data_types: MemoryTypes,
    pub(super) code_types: MemoryTypes,
    /// What the last look-up for data found, and the last for code.
    pub(super) data_page: KnownPage,
    pub(super) code_page: KnownPage,
    /// Linear addresses go through page tables.
    pub(super) paging: bool,
    /// Linear addresses between which instructions have been fetched since the last taken transfer, and
    /// whether that was in aligned windows of the instruction cache.
    pub(super) start: u64,
    pub(super) next: u64,
    pub(super) in_windows: bool,
    /// A transfer was taken since.
    pub(super) redirected: bool,
    /// The running instruction has written to code that was fetched: what is behind it starts again.
    pub(super) restarts: bool,
    /// When the running instruction began, in cycles.
    pub(super) time: u64,
}

impl Default for Locality {
    fn default() -> Self {
        Self {
            data_types: MemoryTypes::default(),
            code_types: MemoryTypes::default(),
            data_page: KnownPage::NONE,
            code_page: KnownPage::NONE,
            paging: false,
            start: 0,
            next: 0,
            in_windows: false,
            redirected: true,
            restarts: false,
            time: 0,
        }
    }
}

crate::state! {
    Locality {
        saved: data_types, code_types, paging, start, next, in_windows, redirected, restarts;
        derived: data_page, code_page, time;
        then: restore;
    }
}

impl Locality {
    fn restore<V: Visitor>(&mut self, visitor: &mut V) {
        // Straight-line code is shorter, though it may go round where addresses end.
        visitor.check(self.next.wrapping_sub(self.start) <= u32::MAX.into());
        if V::LOADS {
            self.forget_known_pages();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::System;
    use crate::branch::{Transfer, TransferKind};
    use crate::part::KNC;
    use crate::state::{Loader, Saver, State};

    fn has_predictor(system: &System, processor: usize) -> bool {
        system.processors[processor].predictor.is_some()
    }

    /// The first from the beginning, the others from when they are first chosen or interrupted.
    #[test]
    fn a_processor_that_has_not_run_has_no_predictor() {
        let mut system = System::new(&KNC, 6, &[]);
        let made = |system: &System| -> Vec<_> {
            (0..6).filter(|&processor| has_predictor(system, processor)).collect()
        };
        assert_eq!(made(&system), [0]);
        system.choose(4);
        system.choose_thread(5);
        assert_eq!(made(&system), [0, 4, 5]);
        system.interrupted(2, 0x1000, 0x2000);
        system.choose_thread(4);
        assert_eq!(made(&system), [0, 2, 4, 5]);
    }

    /// Bytes may say that the running one has none.
    #[test]
    fn whoever_runs_behind_a_load_has_a_predictor() {
        let mut system = System::new(&KNC, 2, &[]);
        system.choose_thread(1);
        system.processors.running_mut().predictor = None;
        let mut bytes = Vec::new();
        system.visit(&mut Saver::new(&mut bytes));
        let mut loaded = System::new(&KNC, 2, &[]);
        let mut loader = Loader::new(&bytes);
        loaded.visit(&mut loader);
        loader.finish().unwrap();
        assert!(loaded.running() == 1 && has_predictor(&loaded, 1));
        // A conditional jump of two bytes.
        let (kind, from) = (TransferKind::Conditional, 0x1000);
        let jump = Transfer { from, last: 0x1001, next: 0x1002, to: 0x1010, kind, taken: true };
        let _outcome = loaded.transfer(&jump);
    }
}
