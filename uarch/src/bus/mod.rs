//! The bus: what leaves a processor's caches, and what memory makes of it.

mod transaction;

pub use self::transaction::{Request, Snoop, Transaction};
use crate::occurrences::Occurrences;

/// The bus of a machine, and the memory behind it.
#[derive(Clone, Debug, Default)]
pub struct Bus {}

impl Bus {
    /// Performs a transaction, and fires its signals on `occurrences`, one of each processor. Cycles of
    /// the processor until the data is there.
    pub fn transact(
        &mut self,
        _occurrences: &mut [Occurrences],
        _transaction: &Transaction,
    ) -> u64 {
        0
    }
}
