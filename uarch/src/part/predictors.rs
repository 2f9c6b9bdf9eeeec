//! Branch prediction.
//!
//! "Fog" is A. Fog, "How to optimize for the Pentium family of microprocessors" (edition of 2000); "AMD
//! 25112" the Software Optimization Guide for AMD64 Processors (revision 3.06); "AMD 22007" the AMD Athlon
//! Processor x86 Code Optimization Guide (revision E); "Intel 248966" the IA-32 Architecture Optimization
//! Reference Manual (revision 013); "Uzelac" V. Uzelac and A. Milenkovic, "Experiment Flows and
//! Microbenchmarks for Reverse Engineering of Branch Predictor Structures" (ISPASS 2009), as Sniper's model
//! `pentium_m` has it.

use crate::branch::{
    Allocation, BranchAddress, DirectionScheme, HybridGeometry, PathTargetGeometry, Penalties,
    PredictorGeometry, Reports, ReturnGeometry, SharedHistoryGeometry, TargetBufferGeometry,
    Unseen,
};

/// Outcomes in a branch's own history, in the Pentium with MMX and the P6 family. Not sourced, as is that
/// there is a two-bit counter for each of their values: it is what is generally said of them.
const LOCAL_HISTORY_BITS: u32 = 4;
/// Return addresses that the Pentium with MMX holds: not sourced.
const P55C_RETURN_DEPTH: usize = 4;
/// Return addresses that a P6 or a Pentium M holds: not sourced.
const P6_RETURN_DEPTH: usize = 16;
/// Bits of an address that are compared in a P6's target buffer. Fog, section 22.2.1, has those from bit
/// 4 on. That the four below tell branches in the same 16 bytes apart is not sourced.
const P6_TAG_BITS: u32 = 32;
/// What a branch costs in a P6 or a Pentium M that the decoder puts right: not sourced.
const P6_DECODE_PENALTY: u32 = 5;
/// What a branch costs in Knights Corner that fetch went wrong at: not sourced. Its pipeline has the same.
const KNC_PENALTY: u32 = 5;
/// What a mispredicted branch costs in a Pentium M: not sourced.
const PM_PENALTY: u32 = 12;
/// Ways of AMD's target buffers: not sourced.
const AMD_TARGET_WAYS: usize = 4;
/// Lowest bit of the address that selects the set of AMD's target buffers: not sourced. It is that of the
/// 16-byte window which is fetched.
const AMD_TARGET_INDEX_LOW_BIT: u32 = 4;
/// Bits of an address that are compared in AMD's target buffers: not sourced.
const AMD_TARGET_TAG_BITS: u32 = 32;
/// Whether the decoders of AMD's processors put right what fetch did at an unconditional branch, whose
/// target they can compute: not sourced.
const AMD_CORRECTS_AT_DECODE: bool = true;
/// What a branch costs in AMD's processors that the decoder puts right: not sourced.
const AMD_DECODE_PENALTY: u32 = 4;
/// What a mispredicted branch costs in a K8: not sourced but for the least, 10 cycles (AMD 25112, section
/// A.6).
const K8_PENALTY: u32 = 11;

/// Pentium with MMX.
pub static P55C: PredictorGeometry = P5_FAMILY;

const P5_FAMILY: PredictorGeometry = PredictorGeometry {
    // Fog, section 22.2.1: an entry is found by the address of the branch's last byte.
    address: BranchAddress::LastByte,
    // Fog, section 22.2.1: 16 sets of 16 ways, bits 5:2 select the set, bits 31:6 are compared.
    targets: TargetBufferGeometry {
        sets: 16,
        ways: 16,
        index_low_bit: 2,
        tag_low_bit: 2,
        tag_bits: 30,
    },
    // Fog, section 22.2.1: a branch gets an entry the first time it is taken, and keeps it.
    allocation: Allocation::Taken,
    direction: DirectionScheme::LocalPatterns { history_bits: LOCAL_HISTORY_BITS },
    // Intel SDM volume 3, event 15H: a taken branch that misses the BTB flushes the pipeline.
    unseen: Unseen::NotTaken,
    returns: ReturnGeometry {
        depth: P55C_RETURN_DEPTH,
        recognised_at_fetch: false,
        falls_back_to_last_target: true,
        holds_far_calls: false,
    },
    indirect: None,
    corrects_at_decode: false,
    finds_false_entries: true,
    // Fog, section 22.2.2: 4 clocks, and one more for a conditional branch in the V pipe.
    penalties: Penalties { taken: 0, decode: 4, execution: 4 },
    reports: Reports {
        target_buffer_hits: true,
        target_buffer_misses: false,
        executed: false,
        flushes: true,
    },
};

/// Knights Corner. That it has a target buffer, that a taken branch without an entry empties the pipeline,
/// and that only one with an entry is mispredicted, is in Intel 327357-001, table 1-6, events 15h and 2Bh.
/// Not sourced: that each thread has its own, and that it is as in the Pentium with MMX, a relative.
pub static KNC: PredictorGeometry = PredictorGeometry {
    penalties: Penalties { taken: 0, decode: KNC_PENALTY, execution: KNC_PENALTY },
    reports: Reports {
        target_buffer_hits: false,
        target_buffer_misses: false,
        executed: false,
        flushes: true,
    },
    ..P5_FAMILY
};

/// Pentium Pro.
pub static PPRO: PredictorGeometry = P6_FAMILY;
/// Pentium II.
pub static PII: PredictorGeometry = P6_FAMILY;
/// Pentium III.
pub static P6: PredictorGeometry = P6_FAMILY;

const P6_FAMILY: PredictorGeometry = PredictorGeometry {
    // Fog, section 22.2.1: an entry is found by the address of the branch's last byte.
    address: BranchAddress::LastByte,
    // Fog, section 22.2.1: 32 sets of 16 ways, bits 8:4 select the set.
    targets: TargetBufferGeometry {
        sets: 32,
        ways: 16,
        index_low_bit: 4,
        tag_low_bit: 0,
        tag_bits: P6_TAG_BITS,
    },
    // Fog, section 22.2.1: any branch gets an entry when it is first executed.
    allocation: Allocation::Executed,
    direction: DirectionScheme::LocalPatterns { history_bits: LOCAL_HISTORY_BITS },
    // Intel 248966, pages 1-16 and 2-19, has it of NetBurst; of the P6 family it is not sourced.
    unseen: Unseen::BackwardTaken,
    returns: ReturnGeometry {
        depth: P6_RETURN_DEPTH,
        recognised_at_fetch: false,
        falls_back_to_last_target: false,
        holds_far_calls: false,
    },
    indirect: None,
    corrects_at_decode: true,
    finds_false_entries: true,
    // Taken: GCC's scheduling description of the Pentium Pro (`ppro.md`), after Intel 245127: fetch loses a
    // cycle; mispredicted: 15 typically. Fog, section 22.2.2: usually 10 to 20.
    penalties: Penalties { taken: 1, decode: P6_DECODE_PENALTY, execution: 15 },
    reports: Reports {
        target_buffer_hits: false,
        target_buffer_misses: true,
        executed: false,
        flushes: false,
    },
};

/// Pentium M.
pub static PM: PredictorGeometry = PredictorGeometry {
    // Sniper's model: all of it is asked by the address of the instruction.
    address: BranchAddress::FirstByte,
    // Uzelac: 512 sets of 4 ways; bits 12:4 select the set, bits 21:13 and 3:0 are compared.
    targets: TargetBufferGeometry {
        sets: 512,
        ways: 4,
        index_low_bit: 4,
        tag_low_bit: 0,
        tag_bits: 22,
    },
    allocation: Allocation::Executed,
    // Uzelac: 4096 bimodal counters; 2048 entries by path, 4 ways, tags of 6 bits; 128 loops, 2 ways, tags
    // and counters of 6 bits.
    direction: DirectionScheme::Hybrid(HybridGeometry {
        bimodal_counters: 4096,
        global_sets: 512,
        global_ways: 4,
        global_tag_bits: 6,
        loop_sets: 64,
        loop_ways: 2,
        loop_tag_bits: 6,
        loop_count_bits: 6,
    }),
    // Intel 248966, page 2-19: all conditional branches are predicted dynamically, even at their first
    // appearance; unconditional ones are predicted taken, and indirect ones not taken.
    unseen: Unseen::Dynamic,
    returns: ReturnGeometry {
        depth: P6_RETURN_DEPTH,
        recognised_at_fetch: false,
        falls_back_to_last_target: false,
        holds_far_calls: false,
    },
    // Uzelac: 256 entries, bits 13:6 of the hash select one, bits 14 and 5:0 are compared.
    indirect: Some(PathTargetGeometry { entries: 256, index_low_bit: 6 }),
    corrects_at_decode: true,
    finds_false_entries: true,
    penalties: Penalties { taken: 1, decode: P6_DECODE_PENALTY, execution: PM_PENALTY },
    reports: Reports {
        target_buffer_hits: false,
        target_buffer_misses: true,
        executed: true,
        flushes: false,
    },
};

/// Athlon.
pub static K7: PredictorGeometry = PredictorGeometry {
    address: BranchAddress::FirstByte,
    // AMD 22007, page 132: 2048 entries.
    targets: TargetBufferGeometry {
        sets: 2048 / AMD_TARGET_WAYS,
        ways: AMD_TARGET_WAYS,
        index_low_bit: AMD_TARGET_INDEX_LOW_BIT,
        tag_low_bit: 0,
        tag_bits: AMD_TARGET_TAG_BITS,
    },
    allocation: Allocation::Taken,
    // 4096 counters: Chips and Cheese, "AMD's Athlon 64: Getting the Basics Right". How they are indexed,
    // and that branches are first predicted without them, is not sourced: both are taken from the K8.
    direction: DirectionScheme::SharedHistory(SharedHistoryGeometry {
        history_bits: 8,
        address_low_bit: 4,
        address_bits: 4,
    }),
    unseen: Unseen::NotTaken,
    // AMD 22007, page 132: 12 entries, for near and far calls.
    returns: ReturnGeometry {
        depth: 12,
        recognised_at_fetch: true,
        falls_back_to_last_target: false,
        holds_far_calls: true,
    },
    indirect: None,
    corrects_at_decode: AMD_CORRECTS_AT_DECODE,
    finds_false_entries: false,
    // AMD 22007, page 132: a taken branch costs one cycle, a mispredicted one ten at least.
    penalties: Penalties { taken: 1, decode: AMD_DECODE_PENALTY, execution: 10 },
    reports: Reports {
        target_buffer_hits: false,
        target_buffer_misses: false,
        executed: false,
        flushes: false,
    },
};

/// Athlon 64 and Opteron.
pub static K8: PredictorGeometry = PredictorGeometry {
    address: BranchAddress::FirstByte,
    // AMD 25112, section A.6: 2048 entries.
    targets: K7.targets,
    // AMD 25112, section A.6: a branch is assumed to be not taken until it is taken once.
    allocation: Allocation::Taken,
    // AMD 25112, section A.6: 16384 counters, indexed by the last eight outcomes and four bits of the
    // address. These are twelve bits of fourteen. The other two are taken for the branch's place in its 16
    // bytes; that, and which the four are, is not sourced.
    direction: DirectionScheme::SharedHistory(SharedHistoryGeometry {
        history_bits: 8,
        address_low_bit: 2,
        address_bits: 6,
    }),
    unseen: Unseen::NotTaken,
    // AMD 25112, section A.6: 12 entries. Section 6.9: far branches are not predicted.
    returns: ReturnGeometry {
        depth: 12,
        recognised_at_fetch: true,
        falls_back_to_last_target: false,
        holds_far_calls: false,
    },
    indirect: None,
    corrects_at_decode: AMD_CORRECTS_AT_DECODE,
    finds_false_entries: false,
    // AMD 25112, section A.6: a taken branch costs one cycle.
    penalties: Penalties { taken: 1, decode: AMD_DECODE_PENALTY, execution: K8_PENALTY },
    reports: Reports {
        target_buffer_hits: false,
        target_buffer_misses: false,
        executed: false,
        flushes: false,
    },
};
