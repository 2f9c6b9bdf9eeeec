//! What no program moves, and why.

/// An event that nothing moves.
pub(crate) struct Exception {
    /// On which part.
    pub(crate) part: &'static str,
    /// The event, as [`crate::selects::Select`] has it.
    pub(crate) event: &'static str,
    /// A sentence.
    pub(crate) why: &'static str,
}

const fn never(part: &'static str, event: &'static str, why: &'static str) -> Exception {
    Exception { part, event, why }
}

const REFILLED_INVALID: &str = "what comes into the cache is valid";
const REFILLED_OWNED: &str =
    "who owns a line keeps it when another reads it, who gets it Shared (AMD 24593, MOESI)";
const SYNONYM: &str = "the modelled caches are indexed by physical address: no line is there twice";
const NO_DMA: &str = "no device of the machine accesses memory, or another device, by itself";

/// All of them.
pub(crate) const EXCEPTIONS: &[Exception] = &[
    never(
        "pm",
        "L2_LINES_IN.M+ONLY_HW_PREFETCH",
        "the prefetcher reads lines, which come Exclusive or Shared, and are written later",
    ),
    never("k7", "DATA_CACHE_REFILLS.I", REFILLED_INVALID),
    never("k7", "DATA_CACHE_REFILLS_FROM_SYSTEM.I", REFILLED_INVALID),
    never("k7", "DATA_CACHE_REFILLS_FROM_SYSTEM.O", REFILLED_OWNED),
    never("k7", "INTERNAL_CACHE_LINE_INVALIDATES.I_INVALIDATES_I", SYNONYM),
    never("k7", "INTERNAL_CACHE_LINE_INVALIDATES.D_INVALIDATES_D", SYNONYM),
    never("k8", "DATA_CACHE_REFILLS_FROM_SYSTEM.INVALID", REFILLED_INVALID),
    never("k8", "DATA_CACHE_REFILLS_FROM_SYSTEM.OWNED", REFILLED_OWNED),
    never(
        "k8",
        "REQUESTS_TO_L2_CACHE.CANCELLED_REQUEST",
        "the modelled L2 has never to cancel a request",
    ),
    never("k8", "SIZED_BLOCKS.32_BYTE_SIZED_READS", NO_DMA),
    never("k8", "SIZED_BLOCKS.64_BYTE_SIZED_READS", NO_DMA),
    never("k8", "CPU_IO_REQUESTS_TO_MEMORY_IO.IO_TO_MEM+TO_LOCAL_NODE+FROM_LOCAL_NODE", NO_DMA),
    never("k8", "CPU_IO_REQUESTS_TO_MEMORY_IO.IO_TO_IO+TO_LOCAL_NODE+FROM_LOCAL_NODE", NO_DMA),
    never("k8", "PROBE_RESPONSES_AND_UPSTREAM_REQUESTS.UPSTREAM_NON_DISPLAY_REFRESH_READS", NO_DMA),
    never("k8", "PROBE_RESPONSES_AND_UPSTREAM_REQUESTS.UPSTREAM_WRITES", NO_DMA),
];
