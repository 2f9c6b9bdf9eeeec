//! The state of models, saved as bytes and loaded again: all that what is counted later depends on.
//!
//! One walk serves both ways ([`State::visit`]), so that what is loaded is what was saved. It goes *into*
//! models that their ordinary constructors have made for the same part, number of processors and memory. So
//! geometry is never saved, shapes cannot be wrong, and to load is to reset in place. A structure is taken
//! apart without `..` ([`state!`](crate::state!)): a field that nobody has thought of does not compile.
//!
//! ```text
//!   save: model ──visit(Saver)──> bytes         load: bytes ──visit(Loader)──> model of the same shape
//! ```
//!
//! What only saves time, and what follows from the rest, is not saved: after a load it is as if nothing had
//! been noted yet, or is worked out again. The bytes have no names and no version; who keeps them knows what
//! they are of, and that the same program wrote them.
//!
//! Bytes may come from anywhere. What would lead a model out of an array, or into a loop that does not end,
//! is refused, and so is what is too short or too long; what is merely untrue is not found out. After a
//! refusal, the models are to be loaded again or thrown away.

mod error;
mod kinds;
mod macros;
mod visitors;

pub use self::error::{LoadError, Problem};
pub use self::kinds::{Cycles, list, optional, visit_made};
pub use self::visitors::{Area, Loader, Saver};

/// Later than any cycle of a run, in clocks of whatever: so early that what is computed from it has room.
pub const LATEST: u64 = 1 << 56;

/// What has a state that later results depend on.
pub trait State {
    /// Saves the state or loads it: what the visitor does.
    fn visit<V: Visitor>(&mut self, visitor: &mut V);

    /// The same of several, one after the other.
    fn visit_all<V: Visitor>(all: &mut [Self], visitor: &mut V)
    where
        Self: Sized,
    {
        for one in all {
            one.visit(visitor);
        }
    }
}

/// What goes over a state: a [`Saver`] or a [`Loader`].
pub trait Visitor: Sized {
    /// Whether what is visited is overwritten.
    const LOADS: bool;

    /// The place of the next so many bytes.
    fn area(&mut self, bytes: usize) -> Area<'_>;

    /// How many bytes there are at most from here on.
    fn left(&self) -> usize;

    /// What is visited next, for errors: `Type.field`.
    fn name(&mut self, name: &'static str);

    /// No cycle visited from here on is later than this one. [`LATEST`] in the beginning.
    fn latest(&mut self) -> &mut u64;

    /// Whether what is visited has been checked at an earlier time.
    fn is_known(&self) -> bool;

    /// What was visited last cannot be: nothing more is loaded.
    fn refuse(&mut self);

    /// What was visited last can only be if this holds.
    #[inline]
    fn check(&mut self, holds: bool) {
        if !holds {
            self.refuse();
        }
    }

    /// The same of many things: it takes a while to find out, and is not found out again of what is known.
    #[inline]
    fn check_all(&mut self, hold: impl FnOnce() -> bool) {
        if !self.is_known() {
            self.check(hold());
        }
    }

    /// An index, or a number of things: less than `bound`. It is changed only if it is.
    fn index(&mut self, index: &mut usize, bound: usize) {
        let mut visited = *index;
        visited.visit(self);
        if visited < bound {
            *index = visited;
        } else {
            self.refuse();
        }
    }

    /// Cycles, none of which is later than [`Visitor::latest`].
    fn cycles(&mut self, cycles: &mut [u64]) {
        u64::visit_all(cycles, self);
        let latest = *self.latest();
        self.check(cycles.iter().all(|&cycle| cycle <= latest));
    }
}

/// Appends a state to bytes.
pub fn save(state: &mut impl State, bytes: &mut Vec<u8>) {
    state.visit(&mut Saver::new(bytes));
}

/// Loads a state from the bytes that [`save`] has appended for it.
///
/// # Errors
///
/// If the bytes are not of such a state. What was to be loaded is then to be loaded again or thrown away.
pub fn load(state: &mut impl State, bytes: &[u8]) -> Result<(), LoadError> {
    let mut loader = Loader::new(bytes);
    state.visit(&mut loader);
    loader.finish()
}
