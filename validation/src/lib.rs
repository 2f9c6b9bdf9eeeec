//! Whether the models are true: programs whose outcome is known by other means than the models, and what
//! the software engine gives for them.
//!
//! A section is a module. It runs its programs, holds what they count against bounds that were worked out by
//! hand from the documents of the parts ([`check::Check`]), and writes its part of `docs/validation.md`.
//! Nothing here asks the tables of the models: geometries are typed in once more, with their sources.

pub mod cachegrind;
pub mod chase;
pub mod check;
pub mod coherence;
pub mod document;
pub mod instructions;
pub mod machine;
pub mod plot;
pub mod predictors;
mod routine;
pub mod threads;
pub mod whole;

use check::Check;
use plot::Plot;

/// An error is one line of text.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Full,
    /// What the tests have time for: some of the same checks, with the same outcome.
    Quick,
}

/// What came of a section.
#[derive(Debug, Default)]
pub struct Report {
    /// Its text in Markdown, from behind its heading on.
    pub text: String,
    /// Its plots.
    pub plots: Vec<Plot>,
    /// What was held against bounds.
    pub checks: Vec<Check>,
}

/// A section of the document.
#[derive(Debug)]
pub struct Section {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Runs it.
    pub run: fn(Extent) -> Result<Report>,
}

/// The sections in the order of the document.
pub const SECTIONS: &[Section] = &[
    Section { name: "threads", title: "Threads of a core", run: threads::run_threads },
    Section { name: "chase", title: "Pointer chases", run: chase::run },
    Section { name: "predictors", title: "Branch prediction", run: predictors::run },
    Section { name: "instructions", title: "Instructions", run: instructions::run_rows },
    Section { name: "whole", title: "Whole programs", run: whole::run_programs },
    Section { name: "cachegrind", title: "Cachegrind", run: cachegrind::run },
    Section { name: "coherence", title: "Coherence", run: coherence::check_lines },
];

/// Does `work` for each of `items`, on as many threads, and returns what came of them in their order.
///
/// # Errors
/// The first one's of those that fail.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}
