//! Timings of what the part has beyond the general-purpose instructions of its family, and of those that it
//! executes otherwise.

use super::super::in_order_table::Row;
use crate::pipeline::in_order::{Pairing::Never, Timing};

pub(super) static ROWS: &[Row] = &[
    // Intel 327357-001, section 1.4.2: four to five clocks.
    Row::all(&["Rdtsc"], Timing::microcode(5)),
    // Not sourced: how long a thread holds the core up that leaves it.
    Row::all(&["Delay"], Timing::integer(1, Never)),
    // Not sourced.
    Row::all(&["Spflt"], Timing::integer(1, Never)),
    // Not sourced: as the forms of the family for smaller operands.
    Row::all(&["Cdqe"], Timing::microcode(3)),
    Row::all(&["Cqo"], Timing::microcode(2)),
    Row::all(&["Movsxd"], Timing::microcode(3)),
    // Not sourced.
    Row::all(&["Swapgs"], Timing::microcode(4)),
    Row::all(&["Syscall", "Sysret"], Timing::microcode(20)),
    // Not sourced: as FNSAVE and FRSTOR of the family, and its other loads and stores of control words.
    Row::all(&["Fxsave"], Timing::microcode(124)),
    Row::all(&["Fxrstor"], Timing::microcode(70)),
    Row::all(&["Ldmxcsr"], Timing::microcode(8)),
    Row::all(&["Stmxcsr"], Timing::microcode(2)),
];
