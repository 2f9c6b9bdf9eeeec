//! What a predictor is told, and what it answers.

/// One control transfer that retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Linear address of the instruction's first byte.
    pub from: u64,
    /// Linear address of its last byte.
    pub last: u64,
    /// Linear address of the instruction in line behind it.
    pub next: u64,
    /// Linear address of its target: where it goes if it is taken. Of a conditional one, the target that
    /// it names, also if it is not taken.
    pub to: u64,
    /// What it is.
    pub kind: TransferKind,
    /// It changed the flow. Only a conditional one may not.
    pub taken: bool,
}

impl Transfer {
    /// Where execution went on.
    #[inline(always)]
    #[must_use]
    pub fn destination(&self) -> u64 {
        if self.taken { self.to } else { self.next }
    }
}

/// Kinds of control transfer, as far as predictors tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// Jcc, LOOP, JCXZ.
    Conditional,
    /// A near jump to a place that the instruction names.
    Jump,
    /// A near jump to where a register or memory says.
    IndirectJump,
    /// A near call of a place that the instruction names.
    Call,
    /// A near call of where a register or memory says.
    IndirectCall,
    /// A near return.
    Return,
    /// A far call.
    FarCall,
    /// A far return, but not IRET.
    FarReturn,
    /// Any other far transfer: far jump, INT n, IRET, SYSCALL and the like.
    Far,
}

/// What became of a transfer, and what it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where it was found out which way it goes.
    pub resolution: Resolution,
    /// Cycles that fetch lost: to the transfer itself, and to false entries on the way to it. What a
    /// pipeline adds (the V pipe of a Pentium, a branch that waits for its operands) is not in it.
    pub penalty: u32,
}

/// Where it was found out which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Fetch went the right way.
    Predicted,
    /// Fetch went wrong, and the decoder put it right.
    RedirectedAtDecode,
    /// Fetch, or the decoder, went wrong until the transfer was executed.
    Mispredicted,
    /// A far transfer: nothing predicts it, and what it costs is part of its execution.
    NotPredicted,
}

crate::state! { Outcome { saved: resolution, penalty; } }
crate::state! { Resolution: Predicted, RedirectedAtDecode, Mispredicted, NotPredicted }
