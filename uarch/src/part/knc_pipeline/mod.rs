//! The pipeline of Knights Corner, the Intel Xeon Phi coprocessor.
//!
//! ```text
//! mod.rs       the figures, and where an instruction's timing is found
//! general.rs   timings of general-purpose and system instructions that are its own
//! vector.rs    timings of the vector unit's instructions
//! ```
//!
//! All other timings are those of the Pentium processor with MMX technology
//! ([`p55c_pipeline`]), a relative: general-purpose, system and x87 instructions. Not
//! sourced: that they are the same on Knights Corner, and those of 64-bit forms, which are as of 32 bits.

mod general;
#[cfg(test)]
mod tests;
mod vector;

use super::{in_order_table::Row, p55c_pipeline};
use crate::pipeline::in_order::{Pipes, multithreaded::Parameters};

/// What its relative has and it has not: F3 90 is no instruction (Intel 327364, appendix B, as restated).
const LACKS: &[&str] = &["Pause"];

/// Stages that a thread's instructions have to go through again behind a wrong prediction. Not sourced: a
/// Pentium with MMX loses four clocks, and here are two more stages before decoding and fewer after it.
const MISPREDICTED: u64 = 5;

/// The figures of the core. "Fog" is A. Fog, "How to optimize for the Pentium family of microprocessors",
/// on the Pentium, from which the core descends (Intel, "Intel Xeon Phi Coprocessor Vector
/// Microarchitecture").
pub static KNC: Parameters = Parameters {
    pipes: Pipes {
        // Not sourced: as the Pentium with MMX.
        fifo: 4,
        // Not sourced: no limit is known. That of the Pentium, seven bytes, would keep most vector stores
        // out of the V pipe.
        longest_paired: 15,
        // Not sourced: as other prefixes.
        size_prefix: 1,
        // Fog, chapter 10.1: a clock each.
        other_prefix: 1,
        // Not sourced: Intel's compiler for it never has two pushes pair.
        stack_pairs: false,
        // Fog, chapter 10.2, rule 4: rows and columns are register, read/modify, read/modify/write.
        pair_clocks: [[1, 2, 3], [2, 2, 3], [3, 4, 5]],
        // Two banks: Intel 328207, as J. McCalpin quotes it in the MIC forum, topic 499156. Not sourced: they
        // are lines in turn.
        bank_bit: 6,
        bank_bits: 1,
        // Abrash, "Graphics Programming Black Book", chapter 19, of the Pentium.
        misaligned: 3,
        // Abrash, ibidem.
        lock: 5,
        mispredicted: MISPREDICTED,
        // Not sourced: as behind a wrong prediction.
        refill: MISPREDICTED,
        // Fog, chapter 28.2.
        multiplier_repeat: 2,
        // Not sourced: as the Pentium with MMX.
        delivery: 30,
    },
    // Intel 328207, section 2.1.2, as restated: a thread issues in no two successive cycles.
    cadence: 2,
    // Not sourced: Intel's compiler for it schedules stores, and moves of masks to general registers, eight
    // clocks behind what they need, other uses four.
    vector_to_outside: 4,
    // Not sourced: as the Pentium with MMX.
    write_buffers: 4,
    // Intel 328207, ibidem: a read and a write in the same cycle.
    reads_beside_writes: true,
};

/// The rows of an operation, by its mnemonic as [`p55c_pipeline::rows_of`] has it; none if the processor
/// does not have it. The first of them that has a form has its timing.
#[must_use]
pub fn rows_of(name: &str) -> Vec<&'static Row> {
    let own = general::ROWS.iter().chain(vector::ROWS);
    let family = p55c_pipeline::general::ROWS.iter().chain(p55c_pipeline::x87::ROWS);
    own.chain(family.filter(|_| !LACKS.contains(&name))).filter(|row| row.names(name)).collect()
}
