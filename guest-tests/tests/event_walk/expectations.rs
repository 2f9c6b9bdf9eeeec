//! By how much programs move events, worked out by hand.
//!
//! "Own code" in a reason is that of the program and of the four instructions behind it, which disable the
//! counter: some lines that may not be in the instruction cache.

mod knc;
mod pipelines;

/// By how much a program moves an event.
pub(crate) struct Expectation {
    /// On which parts.
    pub(crate) parts: &'static [&'static str],
    /// The event, as [`crate::selects::Select`] has it.
    pub(crate) event: &'static str,
    /// The program's name.
    pub(crate) program: &'static str,
    /// By this much, or more,
    pub(crate) at_least: u64,
    /// up to this much.
    pub(crate) at_most: u64,
    /// How it is worked out.
    pub(crate) why: &'static str,
}

/// What the control program moves, and nothing else.
pub(crate) fn of_control() -> impl Iterator<Item = &'static Expectation> {
    CONTROL.iter().chain(pipelines::CONTROL)
}

/// What other programs move.
pub(crate) fn all() -> impl Iterator<Item = &'static Expectation> {
    EXPECTATIONS.iter().chain(pipelines::EXPECTATIONS).chain(knc::EXPECTATIONS)
}

type Parts = &'static [&'static str];

const fn between(
    parts: Parts,
    event: &'static str,
    program: &'static str,
    bounds: (u64, u64),
    why: &'static str,
) -> Expectation {
    Expectation { parts, event, program, at_least: bounds.0, at_most: bounds.1, why }
}

const fn exactly(
    parts: Parts,
    event: &'static str,
    program: &'static str,
    count: u64,
    why: &'static str,
) -> Expectation {
    between(parts, event, program, (count, count), why)
}

const P55C: Parts = &["p55c"];
const PM: Parts = &["pm"];
const P6: Parts = &["ppro", "pii", "p6", "pm"];
/// Those with lines of 32 bytes and no hardware prefetcher.
const P6_32: Parts = &["ppro", "pii", "p6"];
const P6_MMX: Parts = &["pii", "p6", "pm"];
const P6_SSE: Parts = &["p6", "pm"];
const K7: Parts = &["k7"];
const K8: Parts = &["k8"];
const AMD: Parts = &["k7", "k8"];
const KNC: Parts = &["knc"];

const SCALE: &str = "32 additions, MOV, XOR, XOR, WRMSR";
const FETCHED: &str = "75 bytes in windows of 16: 5, or 6 if the first is not aligned";
const MASKED: &str = "interrupts are disabled throughout";

const PAIRS: &str = "16 pairs of additions, MOV with XOR";
const STARTS: &str =
    "fetch begins anew behind the WRMSR that enables the counter: at most each window";

/// What the control program moves, apart from pipelines.
const CONTROL: &[Expectation] = &[
    exactly(P55C, "INSTRUCTIONS_EXECUTED", "control", 36, SCALE),
    exactly(P55C, "NUMBER_OF_CYCLES_NOT_IN_HLT_STATE", "control", 36, SCALE),
    between(P55C, "CODE_READ", "control", (5, 6), FETCHED),
    // Intel 241428 (Pentium Processor Family Developer's Manual), "Pairing": two simple instructions, of which
    // the second neither reads nor writes what the first writes. WRMSR is not simple.
    exactly(P55C, "INSTRUCTIONS_EXECUTED_IN_THE_V_PIPE_PARALLELISM_PAIRING", "control", 17, PAIRS),
    between(P55C, "D1_STARVATION_AND_FIFO_IS_EMPTY", "control", (0, 6), STARTS),
    exactly(KNC, "INSTRUCTIONS_EXECUTED_V_PIPE", "control", 17, PAIRS),
    exactly(
        KNC,
        "EXEC_STAGE_CYCLES",
        "control",
        36 - 17 - 1,
        "a clock each, alone or in pairs, but WRMSR",
    ),
    between(KNC, "FE_STALLED", "control", (0, 6), STARTS),
    exactly(P6, "INST_RETIRED", "control", 36, SCALE),
    exactly(P6, "CPU_CLK_UNHALTED", "control", 36, SCALE),
    exactly(P6, "CYCLES_INT_MASKED", "control", 36, MASKED),
    between(P6, "IFU_IFETCH", "control", (5, 6), FETCHED),
    exactly(AMD, "RETIRED_INSTRUCTIONS", "control", 36, SCALE),
    exactly(K7, "CPU_CLK_UNHALTED", "control", 36, SCALE),
    exactly(K8, "CPU_CLOCKS_NOT_HALTED", "control", 36, SCALE),
    exactly(AMD, "INTERRUPTS_MASKED_CYCLES", "control", 36, MASKED),
    between(AMD, "INSTRUCTION_CACHE_FETCHES", "control", (5, 6), FETCHED),
    exactly(KNC, "INSTRUCTIONS_EXECUTED", "control", 36, SCALE),
    exactly(KNC, "CPU_CLK_UNHALTED", "control", 36, SCALE),
    between(KNC, "CODE_READ", "control", (3, 4), "75 bytes in windows of 32"),
];

const LOOP: &str = "MOV, MOV, 64 times MOV, ADD, DEC, JNZ, then four";
const ONE_EACH: &str = "one a line";
const L2_READ: &str = "2,048 lines of the L2; own code";
const OWN: &str = "one a line, and own code";
const CHAIN: &str = "64 jumps and a return, each in its line, and own code";
const STAYS: &str = "48 lines of one set come twice; what its ways hold at the end has not left";
const PAGES: &str = "640 jumps and a return, each in its page; own code comes again";
const RANDOM: &str =
    "256 at random: half are wrong, four standard deviations to each side; and the loop's end";
const INDIRECT: &str =
    "512 to one of four places; where one goes tells where the next goes, to who keeps paths";
const DEEP: &str = "64 returns, but those that the return stack holds";
const LEFT: &str = "the jump was taken three times, then it is not there";
const ACROSS: &str = "4 loads and 4 stores of bytes 6 to 9";
const SEGMENTS: &str = "4 rounds";
const INTERRUPTS: &str = "8 interrupts";
const PENDING: &str = "8 times four NOP and STI";
const MATCHES: &str = "4 stores of the four bytes";
const PORTS: &str = "8 OUT, 8 IN";
const UNCACHED: &str = "16 loads, 16 stores, each on its own";
const NEXT_STORE: &str = "16 stores, each to the next instruction, which has been fetched";
const FAR: &str = "8 times RETF, IRETD to CPL 3, INT, an exception, and IRETD from it";
const OTHERS: &str =
    "16 lines that another has too, and those by which the processors tell each other";
const WALKS: &str = "one a page: 1,024 are more than any TLB has";

/// What other programs move, apart from pipelines.
const EXPECTATIONS: &[Expectation] = &[
    // Intel SDM volume 3, "Performance-Monitoring Events", P6 family: 45h to 47h, 80h, 81h, 85h.
    exactly(P6, "INST_RETIRED", "loads", 262, LOOP),
    exactly(P6, "CPU_CLK_UNHALTED", "loads", 262, "a clock each"),
    exactly(P6, "CYCLES_INT_MASKED", "loads", 262, MASKED),
    exactly(P6, "DATA_MEM_REFS", "loads", 64, ONE_EACH),
    exactly(P6, "BR_INST_RETIRED", "loads", 64, "64 JNZ"),
    exactly(P6, "BR_TAKEN_RETIRED", "loads", 63, "the last one is not"),
    exactly(P6, "DCU_LINES_IN", "loads", 64, ONE_EACH),
    exactly(P6, "DCU_M_LINES_IN", "one set", 96, ONE_EACH),
    exactly(&["ppro"], "DCU_M_LINES_OUT", "one set", 96 - 2, STAYS),
    exactly(&["pii", "p6"], "DCU_M_LINES_OUT", "one set", 96 - 4, STAYS),
    exactly(PM, "DCU_M_LINES_OUT", "one set", 96 - 8, STAYS),
    between(P6, "IFU_IFETCH_MISS", "code", (65, 70), CHAIN),
    between(P6, "ITLB_MISS", "code pages", (641, 643), PAGES),
    // L2: 21h to 2Eh.
    exactly(P6_32, "L2_LD.E", "second level", 2048, "128 KiB, read before"),
    exactly(P6, "FP_ASSIST", "x87 numbers", 8, "4 loads, 4 stores"),
    exactly(P6_SSE, "FP_ASSIST", "SSE numbers", 8, "4 additions, 4 multiplications"),
    exactly(P6_32, "L2_LD.I", "loads", 64, ONE_EACH),
    exactly(&["ppro", "p6"], "DCU_MISS_OUTSTANDING", "second level", 2048 * 5, "5 cycles a line"),
    exactly(&["pii"], "DCU_MISS_OUTSTANDING", "second level", 2048 * 15, "15 cycles a line"),
    exactly(PM, "DCU_MISS_OUTSTANDING", "second level", 2048 * 7, "7 cycles a line"),
    between(&["ppro"], "L2_DBUS_BUSY", "loads", (64 * 4, 70 * 4), "32 bytes, 8 a clock; own code"),
    between(&["pii"], "L2_DBUS_BUSY", "loads", (64 * 8, 70 * 8), "8 each second clock; own code"),
    between(&["p6"], "L2_DBUS_BUSY", "loads", (64, 70), "32 bytes a clock; own code"),
    between(&["ppro"], "L2_DBUS_BUSY_RD", "second level", (2048 * 4, 2054 * 4), L2_READ),
    between(&["pii"], "L2_DBUS_BUSY_RD", "second level", (2048 * 8, 2054 * 8), L2_READ),
    between(&["p6"], "L2_DBUS_BUSY_RD", "second level", (2048, 2054), L2_READ),
    between(PM, "L2_DBUS_BUSY_RD", "second level", (2048 * 2, 2051 * 2), L2_READ),
    exactly(P6, "L2_LD.M", "read behind writes", 16, ONE_EACH),
    exactly(P6, "L2_ST.E", "written behind reads", 16, ONE_EACH),
    exactly(P6, "L2_ST.M", "second level, dirty", 2048, "128 KiB, written before"),
    exactly(P6, "L2_ST.I", "one set", 96, ONE_EACH),
    between(P6, "L2_ST.S", "read by another", (16, 20), OTHERS),
    between(P6_32, "L2_LINES_IN", "loads", (64, 70), OWN),
    exactly(&["ppro", "pii"], "L2_LINES_OUT", "one set", 96 - 4, STAYS),
    exactly(&["p6"], "L2_LINES_OUT", "one set", 96 - 8, STAYS),
    exactly(P6, "L2_M_LINES_INM", "one set", 96, ONE_EACH),
    exactly(&["ppro", "pii"], "L2_M_LINES_OUTM", "one set", 96 - 4, STAYS),
    exactly(&["p6"], "L2_M_LINES_OUTM", "one set", 96 - 8, STAYS),
    exactly(P6, "L2_RQSTS.M", "read behind writes", 16, ONE_EACH),
    exactly(P6, "L2_RQSTS.E", "written behind reads", 16, ONE_EACH),
    between(P6, "L2_RQSTS.I", "one set", (96, 102), OWN),
    between(P6, "L2_IFETCH.I", "code", (65, 70), CHAIN),
    between(P6, "L2_IFETCH.E", "much code", (2048, 2052), "2,048 jumps, a return, own code"),
    exactly(P6_32, "L2_IFETCH.M", "written code", 64, "64 lines, written before"),
    // 48 lines, 128 KiB apart, are in two sets of the 2 MiB.
    exactly(PM, "L2_LINES_OUT.M+NON_HW_PREFETCH", "one set", 96 - 16, STAYS),
    exactly(PM, "L2_LD.E+NON_HW_PREFETCH", "second level", 2048, "whoever brought them"),
    // Bus: 60h to 70h.
    between(P6_32, "BUS_TRAN_BRD.SELF", "loads", (64, 70), OWN),
    between(P6_32, "BUS_TRAN_BRD.ANY", "loads", (64, 70), OWN),
    exactly(P6, "BUS_TRAN_RFO.SELF", "one set", 96, ONE_EACH),
    exactly(P6, "BUS_TRAN_RFO.ANY", "one set", 96, ONE_EACH),
    between(P6, "BUS_TRAN_IFETCH.SELF", "code", (65, 70), CHAIN),
    between(P6, "BUS_TRAN_IFETCH.ANY", "code", (65, 70), CHAIN),
    between(P6, "BUS_TRAN_INVAL.SELF", "read by another", (16, 20), OTHERS),
    exactly(P6, "BUS_TRAN_PWR.SELF", "uncached", 16, "16 stores"),
    exactly(P6, "BUS_TRAN_PWR.ANY", "uncached", 16, "16 stores"),
    exactly(P6, "BUS_TRANS_P.SELF", "uncached", 32, UNCACHED),
    exactly(P6, "BUS_TRANS_P.ANY", "uncached", 32, UNCACHED),
    exactly(P6, "BUS_TRANS_IO.SELF", "ports", 16, PORTS),
    exactly(P6, "BUS_TRANS_IO.ANY", "ports", 16, PORTS),
    between(P6, "BUS_TRAN_ANY.SELF", "ports", (16, 18), PORTS),
    exactly(&["ppro", "pii"], "BUS_TRANS_WB.SELF", "one set", 96 - 4, STAYS),
    exactly(&["p6"], "BUS_TRANS_WB.SELF", "one set", 96 - 8, STAYS),
    exactly(PM, "BUS_TRANS_WB.SELF", "one set", 96 - 16, STAYS),
    // A line of 32 bytes takes 4 clocks of a bus of 8 bytes; one of 64, 2 of a bus with 4 transfers each.
    between(P6_32, "BUS_DATA_RCV.SELF", "loads", (64 * 4, 70 * 4), "4 clocks a line, and own code"),
    exactly(P6_32, "BUS_DRDY_CLOCKS.SELF", "write-back", 64 * 4, "4 clocks a line"),
    exactly(PM, "BUS_DRDY_CLOCKS.SELF", "write-back", 64 * 2, "2 clocks a line"),
    // Branches.
    between(P6, "BR_MISS_PRED_RETIRED", "random branches", (96, 161), RANDOM),
    between(P6, "BR_MISS_PRED_TAKEN_RET", "deep calls", (64 - 16, 64 - 16 + 1), DEEP),
    exactly(P6, "BR_BOGUS", "vanished branches", 16, LEFT),
    between(
        P6_32,
        "BTB_MISSES",
        "much code",
        (2048, 2052),
        "2,048 jumps are more than the BTB has",
    ),
    between(P6_32, "BACLEARS", "much code", (2048, 2052), "2,048 jumps are more than the BTB has"),
    exactly(PM, "BR_RET_MISSP_EXEC", "deep calls", 64 - 16, DEEP),
    exactly(PM, "BR_RET_EXEC", "deep calls", 64, "64 RET"),
    exactly(PM, "BR_CALL_EXEC", "deep calls", 64, "64 CALL"),
    exactly(PM, "BR_CND_EXEC", "random branches", 512, "256 JZ, 256 JNZ"),
    exactly(PM, "BR_INST_EXEC", "random branches", 512, "256 JZ, 256 JNZ"),
    exactly(PM, "BR_IND_CALL_EXEC", "indirect branches", 256, "256 CALL"),
    exactly(PM, "BR_IND_EXEC", "indirect branches", 512, "256 JMP, 256 CALL"),
    between(PM, "BR_IND_MISSP_EXEC", "indirect branches", (150, 430), INDIRECT),
    // The rest of the P6 family.
    exactly(P6, "MISALIGN_MEM_REF", "misaligned", 8, ACROSS),
    exactly(P6, "HW_INT_RX", "interrupts", 8, INTERRUPTS),
    exactly(P6, "CYCLES_INT_PENDING_AND_MASKED", "interrupts", 40, PENDING),
    exactly(P6, "SEGMENT_REG_LOADS", "segments", 24, "4 times ES, SS, DS, FS, GS, CS"),
    exactly(P6_MMX, "RET_SEG_RENAMES", "segments", 16, "4 times ES, DS, FS, GS"),
    exactly(P6_MMX, "SEG_REG_RENAMES.ES", "segments", 4, SEGMENTS),
    exactly(P6_MMX, "SEG_REG_RENAMES.DS", "segments", 4, SEGMENTS),
    exactly(P6_MMX, "SEG_REG_RENAMES.FS", "segments", 4, SEGMENTS),
    exactly(P6_MMX, "SEG_REG_RENAMES.GS", "segments", 4, SEGMENTS),
    exactly(P6, "FLOPS", "x87", 4, "4 FADD"),
    exactly(P6_MMX, "MMX_SAT_INSTR_EXEC", "MMX", 2, "PADDUSB, PACKSSWB"),
    exactly(P6_MMX, "MMX_INSTR_TYPE_EXEC.MUL", "MMX", 1, "PMULLW"),
    exactly(P6_MMX, "MMX_INSTR_TYPE_EXEC.SHIFT", "MMX", 1, "PSLLW"),
    exactly(P6_MMX, "MMX_INSTR_TYPE_EXEC.PACK", "MMX", 1, "PACKSSWB"),
    exactly(P6_MMX, "MMX_INSTR_TYPE_EXEC.UNPACK", "MMX", 1, "PUNPCKLBW"),
    exactly(P6_MMX, "MMX_INSTR_TYPE_EXEC.LOGICAL", "MMX", 1, "PAND"),
    exactly(P6_MMX, "MMX_INSTR_TYPE_EXEC.ARITH", "MMX", 2, "PADDUSB, PADDB"),
    exactly(P6_MMX, "FP_MMX_TRANS.TO_FP", "MMX", 1, "FLD1 behind EMMS"),
    exactly(P6_MMX, "FP_MMX_TRANS.TO_MMX", "MMX", 1, "MOVQ behind FSTP"),
    exactly(P6_MMX, "MMX_ASSIST", "MMX", 1, "EMMS"),
    exactly(P6_SSE, "EMON_KNI_PREF_DISPATCHED.NTA", "prefetches", 8, "8 PREFETCHNTA"),
    exactly(P6_SSE, "EMON_KNI_PREF_DISPATCHED.T1", "prefetches", 8, "8 PREFETCHT1"),
    exactly(P6_SSE, "EMON_KNI_PREF_DISPATCHED.T2", "prefetches", 8, "8 PREFETCHT2"),
    exactly(P6_SSE, "EMON_KNI_PREF_DISPATCHED.WEAK", "streaming stores", 64, "64 MOVNTQ"),
    exactly(P6_SSE, "EMON_KNI_PREF_MISS.NTA", "prefetches", 8, ONE_EACH),
    exactly(P6_SSE, "EMON_KNI_PREF_MISS.T1", "prefetches", 8, ONE_EACH),
    exactly(P6_SSE, "EMON_KNI_PREF_MISS.T2", "prefetches", 8, ONE_EACH),
    exactly(&["p6"], "EMON_KNI_INST_RETIRED.SCALAR", "SSE", 5, "4 ADDSS, COMISS"),
    exactly(&["p6"], "EMON_KNI_INST_RETIRED.PACKED_SCALAR", "SSE", 10, "XORPS, 4 ADDPS, and those"),
    exactly(PM, "EMON_SSE_SSE2_INST_RETIRED.SSE_SCALAR_SINGLE", "SSE", 5, "4 ADDSS, COMISS"),
    exactly(
        PM,
        "EMON_SSE_SSE2_INST_RETIRED.SSE_PACKED_SCALAR_SINGLE",
        "SSE",
        10,
        "XORPS, 4 ADDPS, and those",
    ),
    exactly(PM, "EMON_SSE_SSE2_INST_RETIRED.SSE2_PACKED_DOUBLE", "SSE2", 4, "4 ADDPD"),
    exactly(PM, "EMON_SSE_SSE2_INST_RETIRED.SSE2_SCALAR_DOUBLE", "SSE2", 5, "4 ADDSD, COMISD"),
    exactly(PM, "EMON_SSE_SSE2_COMP_INST_RETIRED.SSE_SCALAR_SINGLE", "SSE", 4, "4 ADDSS"),
    exactly(
        PM,
        "EMON_SSE_SSE2_COMP_INST_RETIRED.SSE_PACKED_SCALAR_SINGLE",
        "SSE",
        8,
        "4 ADDPS, 4 ADDSS",
    ),
    exactly(PM, "EMON_SSE_SSE2_COMP_INST_RETIRED.SSE2_PACKED_DOUBLE", "SSE2", 4, "4 ADDPD"),
    exactly(PM, "EMON_SSE_SSE2_COMP_INST_RETIRED.SSE2_SCALAR_DOUBLE", "SSE2", 4, "4 ADDSD"),
    // Intel SDM volume 3, Pentium; Intel MMX Technology manual, table 6-1.
    exactly(P55C, "INSTRUCTIONS_EXECUTED", "loads", 262, LOOP),
    exactly(P55C, "DATA_READ", "loads", 64, ONE_EACH),
    exactly(P55C, "DATA_WRITE", "stores", 64, ONE_EACH),
    exactly(P55C, "DATA_READ_OR_DATA_WRITE", "loads", 64, ONE_EACH),
    exactly(P55C, "DATA_READ_MISS", "loads", 64, ONE_EACH),
    exactly(P55C, "DATA_WRITE_MISS", "stores", 64, ONE_EACH),
    exactly(P55C, "DATA_READ_MISS_OR_DATA_WRITE_MISS", "uncached", 32, "not cached is missed"),
    exactly(P55C, "DATA_TLB_MISS", "pages", 1024, WALKS),
    exactly(
        P55C,
        "WRITE_HIT_TO_M_OR_E_STATE_LINES",
        "written code",
        64,
        "64 lines, read just before",
    ),
    exactly(P55C, "DATA_CACHE_LINES_WRITTEN_BACK", "written code", 64, "64 lines, then fetched"),
    between(P55C, "CODE_CACHE_MISS", "code", (65, 70), CHAIN),
    between(P55C, "CODE_TLB_MISS", "code pages", (641, 643), PAGES),
    exactly(P55C, "MISALIGNED_DATA_MEMORY_OR_IO_REFERENCES", "misaligned", 8, ACROSS),
    exactly(P55C, "ANY_SEGMENT_REGISTER_LOADED", "segments", 24, "4 times ES, SS, DS, FS, GS, CS"),
    exactly(P55C, "BRANCHES", "loads", 64, "64 JNZ"),
    exactly(P55C, "TAKEN_BRANCHES", "loads", 63, "the last one is not"),
    exactly(P55C, "BTB_PREDICTIONS", "loads", 64, "the JNZ is known"),
    exactly(P55C, "BTB_FALSE_ENTRIES", "vanished branches", 16, LEFT),
    exactly(P55C, "RSB_OVERFLOWS", "deep calls", 64 - 4, DEEP),
    exactly(P55C, "RETURNS", "deep calls", 64, "64 RET"),
    between(
        P55C,
        "PIPELINE_FLUSHES_DUE_TO_WRONG_BRANCH_PREDICTION",
        "random branches",
        (96, 161),
        RANDOM,
    ),
    exactly(P55C, "IO_READ_OR_WRITE_CYCLE", "ports", 16, PORTS),
    exactly(P55C, "NON_CACHEABLE_MEMORY_READS", "uncached", 16, "16 loads"),
    exactly(P55C, "WRITES_TO_NON_CACHEABLE_MEMORY", "uncached", 16, "16 stores"),
    exactly(P55C, "LOCKED_BUS_CYCLE", "locks", 20, "20 LOCK INC"),
    exactly(P55C, "HARDWARE_INTERRUPTS", "interrupts", 8, INTERRUPTS),
    exactly(P55C, "FLOPS", "x87", 4, "4 FADD"),
    exactly(P55C, "BREAKPOINT_MATCH_ON_DR0_REGISTER", "breakpoints", 4, MATCHES),
    exactly(P55C, "BREAKPOINT_MATCH_ON_DR1_REGISTER", "breakpoints", 4, MATCHES),
    exactly(P55C, "BREAKPOINT_MATCH_ON_DR2_REGISTER", "breakpoints", 4, MATCHES),
    exactly(P55C, "BREAKPOINT_MATCH_ON_DR3_REGISTER", "breakpoints", 4, MATCHES),
    exactly(P55C, "NUMBER_OF_CYCLES_NOT_IN_HLT_STATE", "loads", 262, "a clock each"),
    between(
        P55C,
        "INSTRUCTIONS_EXECUTED_IN_THE_V_PIPE_PARALLELISM_PAIRING",
        "loads",
        (128, 130),
        "64 times MOV with ADD and DEC with JNZ; MOV with MOV; at the end MOV with XOR",
    ),
    exactly(P55C, "EMMS_INSTRUCTIONS_EXECUTED", "MMX", 1, "EMMS"),
    exactly(
        P55C,
        "TRANSITION_BETWEEN_MMX_INSTRUCTIONS_AND_FP_INSTRUCTIONS",
        "MMX",
        2,
        "there and back",
    ),
    exactly(P55C, "SATURATING_MMX_INSTRUCTIONS_EXECUTED", "MMX", 2, "PADDUSB, PACKSSWB"),
    exactly(P55C, "SATURATIONS_PERFORMED", "MMX", 1, "PADDUSB of 255 and 255"),
    between(
        P55C,
        "MOVD_MOVQ_STORE_STALL_DUE_TO_PREVIOUS_OPERATION",
        "MMX sums stored",
        (16 - 6, 16),
        "16 MOVQ, each right behind its sum: a clock, unless one of 6 lines of code comes then",
    ),
    exactly(P55C, "MMX_INSTRUCTION_DATA_READS", "MMX", 3, "2 MOVQ, one of them misaligned"),
    exactly(P55C, "MMX_INSTRUCTION_DATA_WRITES", "MMX", 1, "MOVQ"),
    between(
        P55C,
        "MMX_INSTRUCTION_DATA_READ_MISSES",
        "MMX",
        (2, 3),
        "2 MOVQ, one of them across two lines",
    ),
    exactly(P55C, "MMX_INSTRUCTION_DATA_WRITE_MISSES", "MMX stores missed", 32, ONE_EACH),
    exactly(
        P55C,
        "MISALIGNED_DATA_MEMORY_REFERENCE_ON_MMX_INSTRUCTION",
        "MMX",
        1,
        "bytes 60 to 67",
    ),
    // AMD 26094 (BKDG), section 10.2; AMD 22007, appendix D.
    exactly(AMD, "RETIRED_INSTRUCTIONS", "loads", 262, LOOP),
    exactly(AMD, "RETIRED_BRANCH_INSTRUCTIONS", "loads", 64, "64 JNZ"),
    exactly(AMD, "RETIRED_TAKEN_BRANCH_INSTRUCTIONS", "loads", 63, "the last one is not"),
    exactly(AMD, "RETIRED_FAR_CONTROL_TRANSFERS", "far transfers", 40, FAR),
    exactly(AMD, "RETIRED_NEAR_RETURNS", "deep calls", 64, "64 RET"),
    exactly(AMD, "RETIRED_NEAR_RETURNS_MISPREDICTED", "deep calls", 64 - 12, DEEP),
    exactly(AMD, "RETURN_STACK_HITS", "deep calls", 12, "what the return stack holds"),
    exactly(K8, "RETURN_STACK_OVERFLOWS", "deep calls", 64 - 12, DEEP),
    exactly(K7, "RETURN_STACK_OVERFLOW", "deep calls", 64 - 12, DEEP),
    between(AMD, "RETIRED_MISPREDICTED_BRANCH_INSTRUCTIONS", "random branches", (96, 161), RANDOM),
    between(
        K8,
        "RETIRED_INDIRECT_BRANCHES_MISPREDICTED",
        "indirect branches",
        (330, 430),
        INDIRECT,
    ),
    between(
        K7,
        "RETIRED_INDIRECT_BRANCHES_WITH_TARGET_MISPREDICTED",
        "indirect branches",
        (330, 430),
        INDIRECT,
    ),
    exactly(AMD, "DATA_CACHE_ACCESSES", "loads", 64, ONE_EACH),
    exactly(AMD, "DATA_CACHE_MISSES", "loads", 64, ONE_EACH),
    exactly(
        K8,
        "DATA_CACHE_REFILLS_FROM_L2_OR_SYSTEM.EXCLUSIVE_STATE_LINE_FROM_L2",
        "written behind reads",
        16,
        ONE_EACH,
    ),
    exactly(
        K8,
        "DATA_CACHE_REFILLS_FROM_L2_OR_SYSTEM.MODIFIED_STATE_LINE_FROM_L2",
        "read behind writes",
        16,
        ONE_EACH,
    ),
    exactly(K8, "DATA_CACHE_REFILLS_FROM_L2_OR_SYSTEM.REFILL_FROM_SYSTEM", "one set", 96, ONE_EACH),
    exactly(K7, "DATA_CACHE_REFILLS.E", "written behind reads", 16, ONE_EACH),
    exactly(K7, "DATA_CACHE_REFILLS.M", "read behind writes", 16, ONE_EACH),
    exactly(K8, "DATA_CACHE_REFILLS_FROM_SYSTEM.EXCLUSIVE", "chip selects", 20, ONE_EACH),
    exactly(K8, "DATA_CACHE_REFILLS_FROM_SYSTEM.MODIFIED", "one set", 96, ONE_EACH),
    exactly(K7, "DATA_CACHE_REFILLS_FROM_SYSTEM.E", "chip selects", 20, ONE_EACH),
    exactly(K7, "DATA_CACHE_REFILLS_FROM_SYSTEM.M", "one set", 96, ONE_EACH),
    exactly(K8, "DATA_CACHE_LINES_EVICTED.EXCLUSIVE", "second level", 2048, "128 KiB in 64 KiB"),
    exactly(K8, "DATA_CACHE_LINES_EVICTED.MODIFIED", "one set", 96 - 2, STAYS),
    exactly(K7, "DATA_CACHE_LINES_EVICTED.E", "second level", 2048, "128 KiB in 64 KiB"),
    // A line takes 8 clocks up and its victim 8 down, and the next load is 4 clocks later.
    between(
        K7,
        "CYCLES_THAT_AT_LEAST_ONE_FILL_REQUEST_WAITED_TO_USE_THE_L2",
        "second level",
        (2047 * 16 - 4, 2051 * 16 - 4),
        "from the second load to the last transfer before the last load's; own code",
    ),
    exactly(K7, "DATA_CACHE_LINES_EVICTED.M", "one set", 96 - 2, STAYS),
    exactly(K8, "L1_DTLB_MISS_AND_L2_DTLB_HIT", "pages again", 128, "64 pages twice: more than 32"),
    exactly(K7, "L1_DTLB_MISS_AND_L2_DTLB_HIT", "pages again", 128, "64 pages twice: more than 24"),
    exactly(AMD, "L1_DTLB_AND_L2_DTLB_MISS", "pages", 1024, WALKS),
    between(
        K8,
        "L1_ITLB_MISS_L2_ITLB_HIT",
        "code pages again",
        (122, 124),
        "61 pages twice: more than 32",
    ),
    between(
        K7,
        "L1_ITLB_MISS_AND_L2_ITLB_HIT",
        "code pages again",
        (122, 124),
        "61 pages twice: more than 16",
    ),
    between(K7, "L1_ITLB_MISS_AND_L2_ITLB_MISS", "code pages", (641, 643), PAGES),
    exactly(AMD, "MISALIGNED_ACCESSES", "misaligned", 8, ACROSS),
    between(K8, "INSTRUCTION_CACHE_MISSES", "code", (65, 70), CHAIN),
    between(K7, "INSTRUCTION_CACHE_MISSES", "code", (33, 36), "each miss brings the next line too"),
    between(AMD, "INSTRUCTION_CACHE_REFILLS_FROM_SYSTEM", "code", (65, 70), CHAIN),
    between(
        AMD,
        "INSTRUCTION_CACHE_REFILLS_FROM_L2",
        "much code",
        (2048, 2056),
        "128 KiB in 64 KiB",
    ),
    exactly(K8, "PIPELINE_RESTART_DUE_TO_SELF_MODIFYING_CODE", "changed code", 16, NEXT_STORE),
    exactly(K7, "STORES_TO_ACTIVE_INSTRUCTION_STREAM", "changed code", 16, NEXT_STORE),
    exactly(K7, "BREAKPOINT_MATCHES_FOR_DR0", "breakpoints", 4, MATCHES),
    exactly(K7, "BREAKPOINT_MATCHES_FOR_DR1", "breakpoints", 4, MATCHES),
    exactly(K7, "BREAKPOINT_MATCHES_FOR_DR2", "breakpoints", 4, MATCHES),
    exactly(K7, "BREAKPOINT_MATCHES_FOR_DR3", "breakpoints", 4, MATCHES),
    exactly(K8, "DR0_BREAKPOINT_MATCHES", "breakpoints", 4, MATCHES),
    exactly(K8, "DR1_BREAKPOINT_MATCHES", "breakpoints", 4, MATCHES),
    exactly(K8, "DR2_BREAKPOINT_MATCHES", "breakpoints", 4, MATCHES),
    exactly(K8, "DR3_BREAKPOINT_MATCHES", "breakpoints", 4, MATCHES),
    exactly(K7, "CPU_CLK_UNHALTED", "loads", 262, "a clock each"),
    exactly(K8, "CPU_CLOCKS_NOT_HALTED", "loads", 262, "a clock each"),
    exactly(AMD, "INTERRUPTS_MASKED_CYCLES", "loads", 262, MASKED),
    exactly(AMD, "INTERRUPTS_TAKEN", "interrupts", 8, INTERRUPTS),
    exactly(AMD, "INTERRUPTS_MASKED_CYCLES_WITH_INTERRUPT_PENDING", "interrupts", 40, PENDING),
    exactly(AMD, "SEGMENT_REGISTER_LOADS.ES", "segments", 4, SEGMENTS),
    exactly(AMD, "SEGMENT_REGISTER_LOADS.CS", "segments", 4, SEGMENTS),
    exactly(AMD, "SEGMENT_REGISTER_LOADS.SS", "segments", 4, SEGMENTS),
    exactly(AMD, "SEGMENT_REGISTER_LOADS.DS", "segments", 4, SEGMENTS),
    exactly(AMD, "SEGMENT_REGISTER_LOADS.FS", "segments", 4, SEGMENTS),
    exactly(AMD, "SEGMENT_REGISTER_LOADS.GS", "segments", 4, SEGMENTS),
    exactly(K8, "LOCKED_OPERATIONS.INSTRUCTIONS", "locks", 20, "20 LOCK INC"),
    exactly(K8, "RETIRED_CLFLUSH_INSTRUCTIONS", "flushes", 16, "16 CLFLUSH"),
    exactly(K8, "RETIRED_CPUID_INSTRUCTIONS", "CPUID", 4, "4 CPUID"),
    exactly(K8, "PREFETCH_INSTRUCTIONS_DISPATCHED.LOAD", "prefetches", 24, "8 of T0, T1, T2"),
    exactly(K8, "PREFETCH_INSTRUCTIONS_DISPATCHED.STORE", "prefetches", 8, "8 PREFETCHW"),
    exactly(K8, "PREFETCH_INSTRUCTIONS_DISPATCHED.NTA", "prefetches", 8, "8 PREFETCHNTA"),
    exactly(K8, "DISPATCHED_FAST_FLAG_FPU_OPERATIONS", "SSE", 1, "COMISS"),
    exactly(K8, "RETIRED_MMX_FP_INSTRUCTIONS.X87_INSTRUCTIONS", "x87", 8, "2 FLD1, 4 FADD, 2 FSTP"),
    exactly(
        K8,
        "RETIRED_MMX_FP_INSTRUCTIONS.MMX_AND_3DNOW_INSTRUCTIONS",
        "MMX",
        12,
        "3 MOVQ, PCMPEQD, PADDUSB, PMULLW, PSLLW, PACKSSWB, PUNPCKLBW, PAND, PADDB, EMMS",
    ),
    exactly(
        K8,
        "RETIRED_MMX_FP_INSTRUCTIONS.PACKED_SSE_AND_SSE2_INSTRUCTIONS",
        "SSE2",
        4,
        "4 ADDPD",
    ),
    exactly(
        K8,
        "RETIRED_MMX_FP_INSTRUCTIONS.SCALAR_SSE_AND_SSE2_INSTRUCTIONS",
        "SSE2",
        5,
        "4 ADDSD, COMISD",
    ),
    exactly(
        K8,
        "MEMORY_REQUESTS_BY_TYPE.REQUESTS_TO_NON_CACHEABLE_MEMORY",
        "uncached",
        32,
        UNCACHED,
    ),
    exactly(
        K8,
        "MEMORY_REQUESTS_BY_TYPE.STREAMING_STORE_REQUESTS",
        "streaming stores",
        8,
        ONE_EACH,
    ),
    exactly(K7, "SYSTEM_REQUESTS_WITH_THE_SELECTED_TYPE.UC", "uncached", 32, UNCACHED),
    exactly(K7, "SYSTEM_REQUESTS_WITH_THE_SELECTED_TYPE.WC", "write-combining", 24, ONE_EACH),
    exactly(K8, "SYSTEM_READ_RESPONSES_BY_COHERENCY_STATE.MODIFIED", "stores", 64, ONE_EACH),
    between(K8, "SYSTEM_READ_RESPONSES_BY_COHERENCY_STATE.EXCLUSIVE", "loads", (64, 68), OWN),
    exactly(
        K8,
        "QUADWORDS_WRITTEN_TO_SYSTEM.QUADWORD_WRITE_TRANSFER",
        "one set",
        8 * (96 - 18),
        "8 a line",
    ),
    exactly(K8, "REQUESTS_TO_L2_CACHE.DC_FILL", "loads", 64, ONE_EACH),
    exactly(K8, "FPU_EXCEPTIONS.X87_RECLASS_MICROFAULTS", "x87 numbers", 4, "4 loads"),
    exactly(K8, "FPU_EXCEPTIONS.SSE_RECLASS_MICROFAULTS", "SSE numbers", 4, "4 additions"),
    exactly(K8, "FPU_EXCEPTIONS.SSE_AND_X87_MICROTRAPS", "x87 numbers", 4, "4 stores"),
    exactly(K8, "FPU_EXCEPTIONS.SSE_AND_X87_MICROTRAPS", "SSE numbers", 4, "4 multiplications"),
    between(K8, "REQUESTS_TO_L2_CACHE.IC_FILL", "code", (65, 70), CHAIN),
    exactly(K8, "REQUESTS_TO_L2_CACHE.TLB_FILL", "pages", 1024, WALKS),
    exactly(K8, "L2_CACHE_MISSES.DC_FILL", "one set", 96, ONE_EACH),
    between(
        K8,
        "L2_CACHE_MISSES.TLB_PAGE_TABLE_WALK",
        "cold pages",
        (4, 6),
        "64 entries of 4 bytes are in 4 lines",
    ),
    exactly(K8, "L2_FILL_WRITEBACK.L2_WRITEBACKS", "one set", 96 - 18, STAYS),
    exactly(K7, "L2_REQUESTS.DATA_BLOCK_WRITE_FROM_L2", "one set", 96 - 18, STAYS),
    // Northbridge: E0h to ECh.
    exactly(K8, "CACHE_BLOCK_COMMANDS.VICTIM_BLOCK", "one set", 96 - 18, STAYS),
    exactly(K8, "CACHE_BLOCK_COMMANDS.READ_BLOCK", "loads", 64, ONE_EACH),
    between(K8, "CACHE_BLOCK_COMMANDS.READ_BLOCK_SHARED", "code", (65, 70), CHAIN),
    exactly(K8, "CACHE_BLOCK_COMMANDS.READ_BLOCK_MODIFIED", "stores", 64, ONE_EACH),
    between(K8, "CACHE_BLOCK_COMMANDS.CHANGE_TO_DIRTY", "read by another", (16, 40), OTHERS),
    exactly(K8, "SIZED_BLOCKS.32_BYTE_SIZED_WRITES", "write-combining", 8, "8 halves of lines"),
    exactly(K8, "SIZED_BLOCKS.64_BYTE_SIZED_WRITES", "write-combining", 8, "8 whole lines"),
    exactly(K8, "SIZED_COMMANDS.POSTED_SZWR_BYTE", "write-combining", 8, "8 bytes"),
    exactly(K8, "SIZED_COMMANDS.POSTED_SZWR_DWORD", "write-combining", 16, "8 lines, 8 halves"),
    exactly(K8, "SIZED_COMMANDS.NONPOSTED_SZWR_BYTE", "uncached", 16, "16 stores of a byte"),
    exactly(K8, "SIZED_COMMANDS.SZRD_BYTE", "uncached", 16, "16 loads of a byte"),
    exactly(
        K8,
        "CPU_IO_REQUESTS_TO_MEMORY_IO.CPU_TO_IO+TO_LOCAL_NODE+FROM_LOCAL_NODE",
        "ports",
        16,
        PORTS,
    ),
    between(
        K8,
        "CPU_IO_REQUESTS_TO_MEMORY_IO.CPU_TO_MEM+TO_LOCAL_NODE+FROM_LOCAL_NODE",
        "loads",
        (64, 68),
        OWN,
    ),
    between(
        K8,
        "PROBE_RESPONSES_AND_UPSTREAM_REQUESTS.PROBE_MISS",
        "loads beside another",
        (16, 20),
        OWN,
    ),
];
