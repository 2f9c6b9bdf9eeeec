//! What a processor's branch prediction is made of: data of a part.

use super::transfer::Transfer;

/// The branch prediction of a processor.
#[derive(Debug)]
pub struct PredictorGeometry {
    /// By which of its addresses a branch is known.
    pub address: BranchAddress,
    /// The branch target buffer (BTB).
    pub targets: TargetBufferGeometry,
    /// Which branches get an entry there.
    pub allocation: Allocation,
    /// What tells the direction of a conditional branch.
    pub direction: DirectionScheme,
    /// What is assumed of a conditional branch without an entry.
    pub unseen: Unseen,
    /// The return stack.
    pub returns: ReturnGeometry,
    /// What remembers targets of indirect branches by the path to them, beside the target buffer's last
    /// one.
    pub indirect: Option<PathTargetGeometry>,
    /// Whether the decoder checks what fetch did: it knows what is a branch, its kind and the target it
    /// names, and redirects fetch.
    pub corrects_at_decode: bool,
    /// Whether entries that stand where there is no branch are looked for.
    pub finds_false_entries: bool,
    /// What a transfer costs.
    pub penalties: Penalties,
    /// Signals that are fired for rightly predicted branches too.
    pub reports: Reports,
}

/// By which of its addresses a branch is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchAddress {
    /// That of the first byte.
    FirstByte,
    /// That of the last byte.
    LastByte,
}

impl BranchAddress {
    /// This address of a transfer.
    #[inline(always)]
    #[must_use]
    pub fn of(self, transfer: &Transfer) -> u64 {
        match self {
            Self::FirstByte => transfer.from,
            Self::LastByte => transfer.last,
        }
    }
}

/// A set-associative buffer of branches and their targets. The least recently used way is replaced.
#[derive(Clone, Copy, Debug)]
pub struct TargetBufferGeometry {
    /// Number of sets, a power of two.
    pub sets: usize,
    /// Ways of a set, at most 16.
    pub ways: usize,
    /// Lowest bit of the address that selects the set.
    pub index_low_bit: u32,
    /// Lowest bit of the address that is compared.
    pub tag_low_bit: u32,
    /// How many bits of the address are compared, at most 32; with those that select the set, or
    /// without them, which makes no difference.
    pub tag_bits: u32,
}

/// Which branches get an entry in the target buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// A branch that is taken.
    Taken,
    /// A branch that is executed.
    Executed,
}

/// What tells the direction of a conditional branch.
#[derive(Clone, Copy, Debug)]
pub enum DirectionScheme {
    /// Each entry of the target buffer has the branch's own history, and a two-bit counter for each of
    /// its values.
    LocalPatterns {
        /// Outcomes in the history, at most 4.
        history_bits: u32,
    },
    /// A branch is assumed to be not taken until it is, then taken until it is not. From then on a table
    /// of two-bit counters decides, which all branches share.
    SharedHistory(SharedHistoryGeometry),
    /// A table by path, then a table of loops, then a bimodal table: the first that knows the branch.
    Hybrid(HybridGeometry),
}

/// A table of two-bit counters, indexed by the outcomes of the last conditional branches and bits of the
/// branch's address: AMD's global history bimodal counters (GHBC).
#[derive(Clone, Copy, Debug)]
pub struct SharedHistoryGeometry {
    /// Outcomes in the index.
    pub history_bits: u32,
    /// Lowest bit of the address in the index.
    pub address_low_bit: u32,
    /// Bits of the address in the index.
    pub address_bits: u32,
}

/// The Pentium M's tables.
#[derive(Clone, Copy, Debug)]
pub struct HybridGeometry {
    /// Counters of the bimodal table, a power of two, indexed by the low bits of the address.
    pub bimodal_counters: usize,
    /// Sets of the table by path, a power of two.
    pub global_sets: usize,
    /// Ways of a set.
    pub global_ways: usize,
    /// Bits of a tag of it. With those that select the set, they are the bits of the path register.
    pub global_tag_bits: u32,
    /// Sets of the table of loops, a power of two.
    pub loop_sets: usize,
    /// Ways of a set.
    pub loop_ways: usize,
    /// Bits of a tag.
    pub loop_tag_bits: u32,
    /// Bits of the counter of iterations.
    pub loop_count_bits: u32,
}

/// What is assumed of a conditional branch that has no entry in the target buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// That it is not taken.
    NotTaken,
    /// That it is taken if its target is at a lower address.
    BackwardTaken,
    /// What the direction scheme says, which knows it all the same.
    Dynamic,
}

/// The return stack.
#[derive(Clone, Copy, Debug)]
pub struct ReturnGeometry {
    /// Return addresses that it holds; a further one replaces the oldest.
    pub depth: usize,
    /// A return is recognised when it is fetched, with or without an entry in the target buffer, and has
    /// none there. If not, it needs an entry to be predicted before it is decoded.
    pub recognised_at_fetch: bool,
    /// With nothing on the stack, a return with an entry goes where it went last.
    pub falls_back_to_last_target: bool,
    /// Far calls push their return address, and far returns pop it.
    pub holds_far_calls: bool,
}

/// A direct-mapped table of targets by the hash of the branch's address and the path register.
#[derive(Clone, Copy, Debug)]
pub struct PathTargetGeometry {
    /// Number of entries, a power of two.
    pub entries: usize,
    /// Lowest bit of the hash that selects the entry. All others are compared.
    pub index_low_bit: u32,
}

/// What a transfer costs, in cycles of fetch.
#[derive(Clone, Copy, Debug)]
pub struct Penalties {
    /// Taken, and predicted.
    pub taken: u32,
    /// Redirected by the decoder.
    pub decode: u32,
    /// Mispredicted.
    pub execution: u32,
}

/// Signals that only some processors have an event for, and that rightly predicted branches fire too.
#[derive(Clone, Copy, Debug)]
pub struct Reports {
    /// `BtbHit`, `BtbHitOrTaken`.
    pub target_buffer_hits: bool,
    /// `BtbMiss`.
    pub target_buffer_misses: bool,
    /// `BranchExecuted` and those that specialise it.
    pub executed: bool,
    /// `PipelineFlush` and `FlushMispredict`, as far as predictions decide them.
    pub flushes: bool,
}
