//! What pipelines count, worked out from their published widths, depths and latencies
//! (`uarch/src/part/pipelines.rs` and the tables beside it have the sources).
//!
//! Cycles are those of the first line or group of the program's own: it is dispatched in 0, issued in 1,
//! complete in 2 at the earliest, and retires in the cycle behind that. Nothing is in the pipeline before it,
//! since WRMSR serialises. Where there are two bounds, they are for the first instruction, whose window of 16
//! bytes may end right behind it.
//!
//! What the WRMSR that disables the counter does in the pipeline is not counted: it writes the register before
//! it retires.

use super::{AMD, Expectation, K7, K8, NEXT_STORE, P6, P6_32, P6_MMX, PM, between, exactly};

const SCALE: &str = "32 additions, MOV, XOR, XOR";
const STARTS: &str = "a cycle until the first line is decoded, or two if a window ends in it";
const CHAIN: &str = "a chain of 16 pairs, behind dispatch and issue; then XOR, XOR";

/// What the control program moves.
pub(crate) const CONTROL: &[Expectation] = &[
    exactly(P6, "UOPS_RETIRED", "control", 35, SCALE),
    exactly(P6, "INST_DECODER", "control", 35, SCALE),
    exactly(AMD, "RETIRED_UOPS", "control", 35, SCALE),
    between(K7, "INSTRUCTION_DECODER_EMPTY", "control", (1, 2), STARTS),
    between(K8, "DECODER_EMPTY", "control", (1, 2), STARTS),
    // WRMSR retires 2 cycles before the first line is dispatched; the last of 16 links is complete in 17 and
    // retires in 18 with MOV, and XOR and XOR in 19.
    between(K8, "CYCLES_WITH_NO_FPU_OPS_RETIRED", "control", (21, 22), CHAIN),
];

const OPERANDS: &str =
    "8 times ADD from memory, MOV to memory, ADD to memory, PUSH, POP; then three";
const COPIED: &str = "MOV, MOV, MOV, REP MOVSD, then three";
const BUSY: &str = "4 times 12, 21 and 37 cycles";
const SLOTS: &str =
    "POP takes two of three decoders: each begins where the last one ended, in turn";
const PREFIXES: &str = "3 cycles each";
const PARTS_READ: &str =
    "MOV to AL is complete in 2 and retires in 3; the read is dispatched in 4, and could be in 0";
const FOUR: &str = "4 loads in a row: 3 come before the last one has retired";
const LOADED: &str =
    "8 cycles from issue, of which 3 are of its own lines: 6 cycles for each but the first";
const DRAINED: &str =
    "8 stores retire a cycle apart, and take 7 cycles each to write; the last has retired in 7";
const QUIET: &str =
    "8 stores retire from 4 on, and take a cycle more each to write; OUT's turn is in 3";
const SERIAL_AMD: &str =
    "4 times 3 cycles for XOR, and 42 until CPUID of 60 operations has retired";
const SERIAL_INTEL: &str =
    "3 cycles for the first XOR, 4 for the others, which come with CPUID; 12 for each CPUID";
const PRODUCTS: &str =
    "64 and what is behind: each is dispatched behind the issue of the one that has its place";
const SUMS: &str = "FLD1, 64 FADD of 4 cycles: the last is dispatched behind the issue of the 28th";
const LOADS: &str = "32 loads of 3 cycles: the last is dispatched behind the probe of the 20th";
const REORDERED: &str =
    "8 times 21: 24 lines later, the first of DIV retires in 44 instead of before 24";
const SECOND: &str =
    "32 stores are probed by 53, two a cycle; the first retire in 62 and are written in 63";
const ABORTED: &str =
    "RET is complete in 24, its target decoded in 32; it retires behind DIV in 62";
const FAR: &str =
    "RETF is complete in 52, behind 24 lines with DIV, its target decoded in 60; it retires in 73";
const CONFLICTS: &str = "each but the first, with the one before";
const UNCOVERED: &str = "8 loads, each wider than the store before it";
const BUBBLES: &str = "a cycle behind CALL, 64 JMP and RET";
const EMPTY: &str = "a cycle behind 64 JMP and RET, and at the start; own code";

/// What programs move.
pub(crate) const EXPECTATIONS: &[Expectation] = &[
    // Intel SDM volume 3, "Performance-Monitoring Events", P6 family: 03h, 04h, 10h, 12h to 14h, 86h, 87h, A2h,
    // B2h, C2h, D0h, D2h, D4h, E0h.
    exactly(P6_32, "UOPS_RETIRED", "memory operands", 8 * (2 + 2 + 4 + 3 + 2) + 3, OPERANDS),
    exactly(PM, "UOPS_RETIRED", "memory operands", 8 * (1 + 1 + 2 + 1 + 1) + 3, OPERANDS),
    exactly(P6, "INST_DECODER", "copied string", 3 + 1 + 3, COPIED),
    exactly(P6, "BR_INST_DECODED", "loads", 64, "64 JNZ"),
    exactly(P6, "MUL", "divisions", 4, "4 MUL"),
    exactly(P6, "DIV", "divisions", 4 * 3, "4 times three"),
    exactly(P6, "CYCLES_DIV_BUSY", "divisions", 4 * (12 + 21 + 37), BUSY),
    exactly(P6, "FP_COMP_OPS_EXE", "x87 operands", 8 * 4 + 4, "16 FADD, 16 FMUL, 4 FDIV"),
    exactly(P6, "ILD_STALL", "length-changing prefixes", 8 * 3, PREFIXES),
    between(P6, "PARTIAL_RAT_STALLS", "parts of registers", (7 * 4 + 3, 8 * 4), PARTS_READ),
    exactly(P6_MMX, "SEG_RENAME_STALLS.ES", "segments again", 3, FOUR),
    exactly(P6_MMX, "SEG_RENAME_STALLS.DS", "segments again", 3, FOUR),
    exactly(P6_MMX, "SEG_RENAME_STALLS.FS", "segments again", 3, FOUR),
    exactly(P6_MMX, "SEG_RENAME_STALLS.GS", "segments again", 3, FOUR),
    between(P6, "SB_DRAINS", "stores drained", (6 * 8 - 1, 6 * 8), DRAINED),
    // The place of the 20th before, of 24 with Pentium M, is there when that is issued: 4 cycles later each.
    // MOV, XOR and XOR behind them wait for 4, 2 and 2.
    between(P6_32, "RESOURCE_STALLS", "chain of products", (174, 175), PRODUCTS),
    between(PM, "RESOURCE_STALLS", "chain of products", (157, 158), PRODUCTS),
    exactly(P6, "RESOURCE_STALLS", "serialised", 3 + 3 * 4 + 4 * 12, SERIAL_INTEL),
    exactly(P6, "LD_BLOCKS", "loads behind stores", 8, UNCOVERED),
    exactly(P6_MMX, "MMX_UOPS_EXEC.ALL", "MMX", 9, "8 computations, and EMMS"),
    exactly(PM, "EMON_SYNCH_UOPS", "locks", 20, "20 LOCK INC"),
    exactly(PM, "EMON_ESP_UOPS", "stack pointer", 8, "8 MOV behind PUSH"),
    exactly(PM, "EMON_FUSED_UOPS_RET.LD_OP", "memory operands", 16, "8 times two ADD"),
    exactly(PM, "EMON_FUSED_UOPS_RET.STD_STA", "memory operands", 24, "8 times MOV, ADD, PUSH"),
    exactly(PM, "EMON_FUSED_UOPS_RET.ALL", "memory operands", 40, "16 and 24"),
    exactly(PM, "EMON_UNFUSION", "denormal operands", 4, "4 FADD, each fused with its load"),
    // AMD 26094 (BKDG), section 10.2; AMD 22007, appendix D: C1h, C7h, CCh, 00h.
    exactly(AMD, "RETIRED_UOPS", "memory operands", 8 * (1 + 1 + 1 + 1 + 2) + 3, OPERANDS),
    exactly(AMD, "RETIRED_BRANCH_RESYNCS", "changed code", 16, NEXT_STORE),
    exactly(
        K8,
        "RETIRED_FASTPATH_DOUBLE_OP_INSTRUCTIONS.WITH_LOW_OP_IN_POSITION_0",
        "pops",
        8,
        SLOTS,
    ),
    exactly(
        K8,
        "RETIRED_FASTPATH_DOUBLE_OP_INSTRUCTIONS.WITH_LOW_OP_IN_POSITION_1",
        "pops",
        8,
        SLOTS,
    ),
    exactly(
        K8,
        "RETIRED_FASTPATH_DOUBLE_OP_INSTRUCTIONS.WITH_LOW_OP_IN_POSITION_2",
        "pops",
        8,
        SLOTS,
    ),
    exactly(K8, "DISPATCHED_FPU_OPERATIONS.ADD_PIPE_OPS", "x87 operands", 8, "8 FADD"),
    exactly(
        K8,
        "DISPATCHED_FPU_OPERATIONS.MULTIPLY_PIPE_OPS",
        "x87 operands",
        12,
        "8 FMUL and 4 FDIV",
    ),
    exactly(K8, "DISPATCHED_FPU_OPERATIONS.STORE_PIPE_OPS", "x87 operands", 2, "2 FLD1"),
    exactly(K8, "DISPATCHED_FPU_OPERATIONS.ADD_PIPE_LOAD_OPS", "x87 operands", 8, "8 FADD"),
    exactly(K8, "DISPATCHED_FPU_OPERATIONS.MULTIPLY_PIPE_LOAD_OPS", "x87 operands", 8, "8 FMUL"),
    exactly(K8, "DISPATCHED_FPU_OPERATIONS.STORE_PIPE_LOAD_OPS", "x87 operands", 2, "2 FLD"),
    // The load/store unit: 23h, 48h, 49h.
    exactly(K8, "LS_BUFFER_2_FULL", "stores behind a division", 64 - 53, SECOND),
    exactly(K8, "MICROARCHITECTURAL_LATE_CANCEL_OF_AN_ACCESS", "loads behind stores", 8, UNCOVERED),
    exactly(K8, "MICROARCHITECTURAL_EARLY_CANCEL_OF_AN_ACCESS", "bank conflicts", 15, CONFLICTS),
    // Fetch and decoding: 87h, D0h.
    exactly(K8, "INSTRUCTION_FETCH_STALL", "jumps", 66, BUBBLES),
    exactly(K7, "INSTRUCTION_FETCH_STALL_CYCLES", "jumps", 66, BUBBLES),
    between(K8, "DECODER_EMPTY", "jumps", (66, 69), EMPTY),
    between(K7, "INSTRUCTION_DECODER_EMPTY", "jumps", (66, 69), EMPTY),
    // Dispatch stalls: D1h to DAh.
    exactly(K8, "DISPATCH_STALLS", "serialised", 4 * (3 + 42), SERIAL_AMD),
    exactly(K7, "DISPATCH_STALLS", "serialised", 4 * (3 + 42), SERIAL_AMD),
    between(
        K8,
        "DISPATCH_STALL_FOR_BRANCH_ABORT_TO_RETIRE",
        "returns behind divisions",
        (8 * 29, 8 * 30),
        ABORTED,
    ),
    between(K7, "BRANCH_ABORT_TO_RETIRE", "returns behind divisions", (8 * 29, 8 * 30), ABORTED),
    exactly(K8, "DISPATCH_STALL_FOR_SERIALIZATION", "serialised", 4 * (3 + 42), SERIAL_AMD),
    exactly(K7, "SERIALIZE", "serialised", 4 * (3 + 42), SERIAL_AMD),
    exactly(K8, "DISPATCH_STALL_FOR_SEGMENT_LOAD", "segments again", 15 * 6, LOADED),
    exactly(K7, "SEGMENT_LOAD_STALL", "segments again", 15 * 6, LOADED),
    exactly(
        K8,
        "DISPATCH_STALL_FOR_REORDER_BUFFER_FULL",
        "NOPs behind divisions",
        8 * 21,
        REORDERED,
    ),
    exactly(K7, "ICU_FULL", "NOPs behind divisions", 8 * 21, REORDERED),
    // One a line, in the first lane, whose scheduler has 8 places, and 6 with K7, where it takes 5 cycles: the
    // last is dispatched in 2 + 3 * 55 and 2 + 5 * 57 instead of 63. Of what is behind them, one comes into the
    // first lane: as much later as the next link, less the cycle of its line.
    exactly(
        K8,
        "DISPATCH_STALL_FOR_RESERVATION_STATION_FULL",
        "chain of products",
        2 + 3 * (63 - 8) - 63 + 2,
        PRODUCTS,
    ),
    exactly(
        K7,
        "RESERVATION_STATIONS_FULL",
        "chain of products",
        2 + 5 * (63 - 6) - 63 + 4,
        PRODUCTS,
    ),
    // FADD are issued from 6 on, and from 8 with K7, 4 cycles apart; 36 wait.
    between(K8, "DISPATCH_STALL_FOR_FPU_FULL", "chain of sums", (93, 94), SUMS),
    between(K7, "FPU_FULL", "chain of sums", (95, 96), SUMS),
    between(K8, "DISPATCH_STALL_FOR_LS_FULL", "chain of loads", (50, 51), LOADS),
    between(K7, "LS_FULL", "chain of loads", (50, 51), LOADS),
    between(K8, "DISPATCH_STALL_WAITING_FOR_ALL_QUIET", "stores before OUT", (9, 10), QUIET),
    between(K7, "ALL_QUIET_STALL", "stores before OUT", (9, 10), QUIET),
    between(
        K8,
        "DISPATCH_STALL_FOR_FAR_TRANSFER_OR_RESYNC_TO_RETIRE",
        "far returns behind divisions",
        (8 * 12, 8 * 13),
        FAR,
    ),
    between(
        K7,
        "FAR_TRANSFER_OR_RESYNC_BRANCH_PENDING",
        "far returns behind divisions",
        (8 * 12, 8 * 13),
        FAR,
    ),
];
