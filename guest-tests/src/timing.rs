//! What instructions take in cycles, for expectations that are counted by hand: typed in here, apart
//! from the costs that the engines are given ([`Engine`]). An instruction of none of these kinds takes
//! one cycle on either clock.

use crate::{Engine, engine};

/// Of two figures the one for the clock of this thread's engine: the flat one, where each step is one
/// cycle, or [`Engine::PRICED`]'s.
pub fn by_clock<T>(flat: T, priced: T) -> T {
    if *engine() == Engine::PRICED { priced } else { flat }
}

/// Cycles of an instruction with a memory operand; LEA, which only computes its address, and PUSH and
/// POP, whose operand is on the stack, among them. CALL, RET and IRET are [`taken`].
#[must_use]
pub fn memory() -> u64 {
    by_clock(1, 3)
}

/// Cycles of a branch that is taken, if its target is not in memory: a near one, INT n or IRET.
#[must_use]
pub fn taken() -> u64 {
    by_clock(1, 3)
}

/// Cycles of the delivery of an interrupt or exception.
#[must_use]
pub fn delivery() -> u64 {
    by_clock(1, 6)
}
