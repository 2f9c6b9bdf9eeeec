//! Why bytes are not a state.

use std::fmt;

/// Bytes are not the state of what was to be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// What was being loaded, as `Type.field`.
    pub at: &'static str,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// They end too early.
    Truncated,
    /// A value cannot be.
    OutOfRange,
    /// So many are left over.
    TooLong(usize),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, problem } = self;
        match problem {
            Problem::Truncated => write!(f, "the state ends at {at}"),
            Problem::OutOfRange => write!(f, "the state has a value of {at} that cannot be"),
            Problem::TooLong(bytes) => write!(f, "the state has {bytes} bytes too many"),
        }
    }
}

impl std::error::Error for LoadError {}
