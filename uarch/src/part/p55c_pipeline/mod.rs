//! The pipeline of the Pentium processor with MMX technology.
//!
//! ```text
//! mod.rs       the figures, and where an instruction's timing is found
//! general.rs   timings of general-purpose and system instructions
//! x87.rs       timings of x87 instructions
//! mmx.rs       timings of MMX instructions
//! ```

pub(super) mod general;
mod mmx;
#[cfg(test)]
mod tests;
pub(super) mod x87;

use super::in_order_table::{Form, Row};
use crate::pipeline::in_order::{Parameters, Pipes, Timing};

/// Clocks that a wrong prediction found in the execution stage loses: Agner Fog, "How to optimize for
/// the Pentium family of microprocessors", chapter 22.2.2.
const MISPREDICTED: u64 = 4;

/// The figures of the pipeline.
pub static P55C: Parameters = Parameters {
    pipes: Pipes {
        // Four instructions: not sourced from a document at hand.
        fifo: 4,
        // No pairing of instructions longer than seven bytes: 86Box, `codegen_timing_pentium.c`.
        longest_paired: 7,
        // Operand and address size two clocks each, others one: the same.
        size_prefix: 2,
        other_prefix: 1,
        // Agner Fog, chapter 10.1.
        stack_pairs: true,
        // Agner Fog, chapter 10.2, rule 4: rows and columns are register, read/modify, read/modify/write.
        pair_clocks: [[1, 2, 3], [2, 2, 3], [3, 4, 5]],
        // Agner Fog, chapter 10.2, rule 3: bits 2 to 4 of the address.
        bank_bit: 2,
        bank_bits: 3,
        // Abrash, "Graphics Programming Black Book", chapter 19.
        misaligned: 3,
        // Measured by Abrash, ibidem.
        lock: 5,
        mispredicted: MISPREDICTED,
        // The stages that a wrong prediction has to go through again: not sourced for other restarts.
        refill: MISPREDICTED,
        // Agner Fog, chapter 28.2: FMUL behind FMUL begins a clock later than other instructions could.
        multiplier_repeat: 2,
        // Not sourced: between the 27 clocks of INT at one privilege and the 44 of INT to a more privileged.
        delivery: 30,
    },
    // VTune Performance Analyzer reference, Pentium processor with MMX technology: four, for both pipes.
    write_buffers: 4,
    // Agner Fog, chapter 22.2.2: five for a conditional jump in the V pipe.
    mispredicted_late: 5,
    // Intel MMX Technology Developer's Guide, chapter 3: multiplications have a latency of three clocks.
    mmx_multiply: 3,
    // One clock beyond the result: not sourced; that there is a stall is said by event 38h of counter 1
    // (Intel SDM volume 3, "Performance-Monitoring Events").
    mmx_store: 1,
    // Not sourced; Intel's guide says up to 50.
    mmx_to_x87: 50,
};

/// The rows of an operation, by its mnemonic, capitalised, without a condition or the size of a string's
/// elements; none if the processor does not have it. The first of them that has a form has its timing.
#[must_use]
pub fn rows_of(name: &str) -> Vec<&'static Row> {
    let rows = general::ROWS.iter().chain(mmx::ROWS).chain(x87::ROWS);
    rows.filter(|row| row.names(name)).collect()
}

/// The timing of an operation in one of its forms, by its mnemonic as [`rows_of`] has it; `None` if the
/// processor does not have it.
#[must_use]
pub fn timing(name: &str, form: Form) -> Option<Timing> {
    rows_of(name).into_iter().find_map(|row| row.timing(form))
}
