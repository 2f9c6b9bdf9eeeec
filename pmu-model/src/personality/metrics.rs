//! The metrics that users of each processor compute.

use crate::metric::{Metric, Per, Term};

const fn of(event: &'static str) -> Term {
    Term { factor: 1, event }
}

const fn minus(event: &'static str) -> Term {
    Term { factor: -1, event }
}

/// Bytes of so many lines of 64 bytes.
const fn lines(event: &'static str) -> Term {
    Term { factor: 64, event }
}

const fn ratio(
    name: &'static str,
    numerator: &'static [Term],
    denominator: &'static [Term],
    description: &'static str,
    source: &'static str,
) -> Metric {
    Metric { name, numerator, denominator, per: Per::Thread, description, source }
}

/// Formulas in use among those who tune for Knights Corner, from Intel's articles on it.
const IN_USE: &str = "in use by its programmers";
/// The same, known by name; no document at hand has the formula.
const FROM_MEMORY: &str =
    "in use by its programmers; the formula has not been checked with a document";
const QUOTIENT: &str = "by definition";

pub(super) const KNC: &[Metric] = &[
    ratio(
        "CPI per thread",
        &[of("CPU_CLK_UNHALTED")],
        &[of("INSTRUCTIONS_EXECUTED")],
        "Cycles an instruction of a thread.",
        IN_USE,
    ),
    Metric {
        per: Per::Core,
        ..ratio(
            "CPI per core",
            &[of("CPU_CLK_UNHALTED")],
            &[of("INSTRUCTIONS_EXECUTED")],
            "Cycles an instruction of a core, with the threads that run on it.",
            IN_USE,
        )
    },
    ratio(
        "vectorization intensity",
        &[of("VPU_ELEMENTS_ACTIVE")],
        &[of("VPU_INSTRUCTIONS_EXECUTED")],
        "Elements a vector instruction: 16 at most with four bytes each, 8 with eight.",
        IN_USE,
    ),
    ratio(
        "L1 compute to data access ratio",
        &[of("VPU_ELEMENTS_ACTIVE")],
        &[of("DATA_READ_OR_WRITE")],
        "Elements an access.",
        IN_USE,
    ),
    ratio(
        "L2 compute to data access ratio",
        &[of("VPU_ELEMENTS_ACTIVE")],
        &[of("DATA_READ_MISS_OR_WRITE_MISS")],
        "Elements a miss of the first-level cache.",
        IN_USE,
    ),
    ratio(
        "estimated latency impact",
        &[of("CPU_CLK_UNHALTED"), minus("EXEC_STAGE_CYCLES"), minus("DATA_READ_OR_WRITE")],
        &[of("DATA_READ_MISS_OR_WRITE_MISS")],
        "Cycles a miss of the first-level cache costs, about.",
        FROM_MEMORY,
    ),
    ratio(
        "L1 hit rate",
        &[of("DATA_READ_OR_WRITE"), minus("DATA_READ_MISS_OR_WRITE_MISS")],
        &[of("DATA_READ_OR_WRITE")],
        "Of accesses to data, those that hit the first-level cache.",
        QUOTIENT,
    ),
    ratio(
        "L1 TLB miss ratio",
        &[of("DATA_PAGE_WALK")],
        &[of("DATA_READ_OR_WRITE")],
        "Of accesses to data, those that walk the page tables.",
        QUOTIENT,
    ),
    ratio(
        "L2 TLB miss ratio",
        &[of("LONG_DATA_PAGE_WALK")],
        &[of("DATA_READ_OR_WRITE")],
        "Of accesses to data, those that miss the second-level TLB as well.",
        QUOTIENT,
    ),
    ratio(
        "pairing ratio",
        &[of("INSTRUCTIONS_EXECUTED_V_PIPE")],
        &[of("INSTRUCTIONS_EXECUTED"), minus("INSTRUCTIONS_EXECUTED_V_PIPE")],
        "Of the instructions in the U pipe, those with another in the V pipe.",
        QUOTIENT,
    ),
    ratio(
        "bytes read from memory a cycle",
        &[lines("L2_DATA_READ_MISS_MEM_FILL"), lines("HWP_L2MISS")],
        &[of("CPU_CLK_UNHALTED")],
        "Times the clock rate, the bandwidth of reads from memory.",
        IN_USE,
    ),
];

const MISPREDICTED: &str = "Of retired branches, those that were predicted wrong.";
const CPI: &str = "Cycles an instruction.";
const MISSED: &str = "Of accesses to data, those that missed the first-level cache.";

/// The Pentium Pro, its successors and the Pentium M.
pub(super) const P6: &[Metric] = &[
    ratio("CPI", &[of("CPU_CLK_UNHALTED")], &[of("INST_RETIRED")], CPI, QUOTIENT),
    ratio(
        "micro-ops per instruction",
        &[of("UOPS_RETIRED")],
        &[of("INST_RETIRED")],
        "Micro-ops an instruction is made of.",
        QUOTIENT,
    ),
    ratio(
        "branch misprediction ratio",
        &[of("BR_MISS_PRED_RETIRED")],
        &[of("BR_INST_RETIRED")],
        MISPREDICTED,
        QUOTIENT,
    ),
    ratio("L1 data miss ratio", &[of("DCU_LINES_IN")], &[of("DATA_MEM_REFS")], MISSED, QUOTIENT),
    ratio(
        "L2 misses per instruction",
        &[of("L2_LINES_IN")],
        &[of("INST_RETIRED")],
        "Lines brought into the second-level cache an instruction.",
        QUOTIENT,
    ),
    ratio(
        "stalled cycles",
        &[of("RESOURCE_STALLS")],
        &[of("CPU_CLK_UNHALTED")],
        "Of the cycles, those in which a buffer was full.",
        QUOTIENT,
    ),
];

pub(super) const P55C: &[Metric] = &[
    ratio(
        "CPI",
        &[of("NUMBER_OF_CYCLES_NOT_IN_HLT_STATE")],
        &[of("INSTRUCTIONS_EXECUTED")],
        CPI,
        QUOTIENT,
    ),
    ratio(
        "pairing ratio",
        &[of("INSTRUCTIONS_EXECUTED_IN_THE_V_PIPE_PARALLELISM_PAIRING")],
        &[
            of("INSTRUCTIONS_EXECUTED"),
            minus("INSTRUCTIONS_EXECUTED_IN_THE_V_PIPE_PARALLELISM_PAIRING"),
        ],
        "Of the instructions in the U pipe, those with another in the V pipe.",
        QUOTIENT,
    ),
    ratio(
        "L1 data miss ratio",
        &[of("DATA_READ_MISS_OR_DATA_WRITE_MISS")],
        &[of("DATA_READ_OR_DATA_WRITE")],
        MISSED,
        QUOTIENT,
    ),
    ratio(
        "misprediction ratio",
        &[of("PIPELINE_FLUSHES_DUE_TO_WRONG_BRANCH_PREDICTION")],
        &[of("BRANCHES")],
        "Of branches, those that flushed the pipeline because they were predicted wrong.",
        QUOTIENT,
    ),
];

/// What the Athlon and the Athlon 64 share but for the name of the event that counts clocks.
macro_rules! amd {
    ($clocks:literal $(, $more:expr)* $(,)?) => {
        &[
            ratio("CPI", &[of($clocks)], &[of("RETIRED_INSTRUCTIONS")], CPI, QUOTIENT),
            ratio(
                "macro-ops per instruction",
                &[of("RETIRED_UOPS")],
                &[of("RETIRED_INSTRUCTIONS")],
                "Macro-ops an instruction is made of.",
                QUOTIENT,
            ),
            ratio(
                "branch misprediction ratio",
                &[of("RETIRED_MISPREDICTED_BRANCH_INSTRUCTIONS")],
                &[of("RETIRED_BRANCH_INSTRUCTIONS")],
                MISPREDICTED,
                QUOTIENT,
            ),
            ratio(
                "L1 data miss ratio",
                &[of("DATA_CACHE_MISSES")],
                &[of("DATA_CACHE_ACCESSES")],
                MISSED,
                QUOTIENT,
            ),
            ratio(
                "stalled cycles",
                &[of("DISPATCH_STALLS")],
                &[of($clocks)],
                "Of the cycles, those in which no instruction was dispatched though some were decoded.",
                QUOTIENT,
            ),
            $($more),*
        ]
    };
}

pub(super) const K7: &[Metric] = amd!["CPU_CLK_UNHALTED"];

pub(super) const K8: &[Metric] = amd![
    "CPU_CLOCKS_NOT_HALTED",
    ratio(
        "L2 miss ratio",
        &[of("L2_CACHE_MISSES")],
        &[of("REQUESTS_TO_L2_CACHE")],
        "Of requests to the second-level cache, those that missed it.",
        QUOTIENT,
    )
];
