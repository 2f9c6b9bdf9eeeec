//! What is expected of Knights Corner: caches of 32 KiB, 8 ways and lines of 64 bytes, an L2 of 512 KiB, a
//! prefetcher that has each line fetched whose two predecessors have missed the L1, TLBs of 64 entries.

use super::{
    CHAIN, Expectation, KNC, LOOP, ONE_EACH, OTHERS, PAGES, UNCACHED, WALKS, between, exactly,
};

const KINDS: &str = "8 each of 0, NTA, E0 and ENTA, or of 1, 2, E1 and E2";
const GATHERS: &str =
    "10 each of VGATHERPF0DPS and VSCATTERPF0DPS, or of those for the second level";
const SEQUENCE: &str = "64 lines of a page: all but the first two were asked for before";
const FIRST_TWO: &str =
    "16 lines in a row, as above, and those by which the processors tell each other";
const AHEAD: &str =
    "each of 2,048 lines but the first has the next fetched, where that is in its page";

pub(super) const EXPECTATIONS: &[Expectation] = &[
    exactly(KNC, "INSTRUCTIONS_EXECUTED", "loads", 262, LOOP),
    exactly(KNC, "CPU_CLK_UNHALTED", "loads", 262, "a clock each"),
    exactly(KNC, "BRANCHES", "loads", 64, "64 JNZ"),
    exactly(KNC, "DATA_READ", "loads", 64, ONE_EACH),
    exactly(KNC, "DATA_WRITE", "stores", 64, ONE_EACH),
    exactly(KNC, "DATA_READ_OR_WRITE", "uncached", 32, UNCACHED),
    exactly(KNC, "DATA_READ_MISS", "loads", 64, ONE_EACH),
    exactly(KNC, "DATA_WRITE_MISS", "stores", 64, ONE_EACH),
    exactly(KNC, "DATA_READ_MISS_OR_WRITE_MISS", "uncached", 32, UNCACHED),
    exactly(KNC, "DATA_CACHE_LINES_WRITTEN_BACK", "one set", 96 - 8, "one a line; 8 stay"),
    exactly(KNC, "DATA_PAGE_WALK", "pages", 1024, WALKS),
    exactly(
        KNC,
        "LONG_DATA_PAGE_WALK",
        "large pages",
        128,
        "128 are more than the second level has",
    ),
    between(KNC, "CODE_PAGE_WALK", "code pages", (641, 643), PAGES),
    between(
        KNC,
        "LONG_CODE_PAGE_WALK",
        "page tables",
        (4, 8),
        "4 loads of CR3, on one page or two",
    ),
    between(KNC, "CODE_CACHE_MISS", "code", (65, 70), CHAIN),
    exactly(KNC, "L1_DATA_PF1", "vector prefetches", 32, KINDS),
    exactly(KNC, "L1_DATA_PF1_MISS", "vector prefetches", 32, KINDS),
    exactly(KNC, "L2_DATA_PF1_MISS", "vector prefetches", 32, KINDS),
    exactly(KNC, "L1_DATA_PF2", "vector prefetches", 32, KINDS),
    exactly(KNC, "L2_DATA_PF2", "vector prefetches", 32, KINDS),
    exactly(KNC, "L2_DATA_PF2_MISS", "vector prefetches", 32, KINDS),
    exactly(KNC, "L1_DATA_PF1", "prefetches of gathers", 20, GATHERS),
    exactly(KNC, "L1_DATA_PF1_MISS", "prefetches of gathers", 20, GATHERS),
    exactly(KNC, "L1_DATA_PF2", "prefetches of gathers", 20, GATHERS),
    exactly(KNC, "L2_DATA_PF2_MISS", "prefetches of gathers", 20, GATHERS),
    exactly(KNC, "L1_DATA_PF1_DROP", "vector prefetches of uncacheable memory", 8, "8 VPREFETCH0"),
    exactly(KNC, "L1_DATA_PF1_DROP", "too late to prefetch", 8, "the second of each line"),
    exactly(KNC, "L1_DATA_HIT_INFLIGHT_PF1", "too late to prefetch", 8, ONE_EACH),
    exactly(
        KNC,
        "L2_DATA_HIT_INFLIGHT_PF2",
        "too late to prefetch into the second level",
        8,
        ONE_EACH,
    ),
    exactly(KNC, "L2_DATA_PF2", "more prefetches than places", 48, ONE_EACH),
    exactly(
        KNC,
        "L2_DATA_PF2_DROP",
        "more prefetches than places",
        48 - 38,
        "38 on their way at once; memory takes 274 clocks, 12 rounds of 7 instructions less",
    ),
    exactly(KNC, "L2_READ_HIT_E", "second level", 2048, "128 KiB, read before"),
    exactly(KNC, "L2_READ_HIT_M", "read behind writes", 16, ONE_EACH),
    between(KNC, "L2_READ_HIT_S", "shared", (16, 40), OTHERS),
    exactly(KNC, "L2_WRITE_HIT", "second level, dirty", 2048, "128 KiB, written before"),
    exactly(KNC, "L2_VICTIM_REQ_WITH_DATA", "evictions", 16, ONE_EACH),
    between(KNC, "SNP_HIT_L2", "read by another", (16, 40), OTHERS),
    between(KNC, "SNP_HITM_L2", "read by another", (16, 40), OTHERS),
    between(KNC, "L2_CODE_READ_MISS_CACHE_FILL", "code written by another", (16, 20), OTHERS),
    between(KNC, "L2_DATA_READ_MISS_CACHE_FILL", "written by another", (2, 8), FIRST_TWO),
    between(KNC, "L2_DATA_WRITE_MISS_CACHE_FILL", "written by both", (16, 40), OTHERS),
    between(KNC, "L2_CODE_READ_MISS_MEM_FILL", "code", (65, 70), CHAIN),
    exactly(KNC, "L2_DATA_READ_MISS_MEM_FILL", "loads", 2, SEQUENCE),
    exactly(KNC, "L2_DATA_WRITE_MISS_MEM_FILL", "one set", 96, ONE_EACH),
    between(
        KNC,
        "L2_READ_MISS",
        "loads",
        (2, 64 + 6),
        "64 lines of a page: the first two, of the others those on their way; and own code",
    ),
    exactly(KNC, "HWP_L2MISS", "loads", 62, "lines 2 to 63"),
    exactly(KNC, "HWP_L2HIT", "second level", 2047 - 32, AHEAD),
    exactly(
        KNC,
        "L2_STRONGLY_ORDERED_STREAMING_VSTORES_MISS",
        "streaming vector stores",
        24,
        "24 VMOVNRAPS",
    ),
    exactly(
        KNC,
        "L2_WEAKLY_ORDERED_STREAMING_VSTORE_MISS",
        "streaming vector stores",
        40,
        "40 VMOVNRNGOAPS",
    ),
    exactly(
        KNC,
        "L2_DATA_WRITE_MISS_MEM_FILL",
        "streaming vector stores",
        7,
        "three tables of pages, three lines of descriptors and the stack of the way to 64-bit mode",
    ),
    exactly(KNC, "HWP_L2MISS", "streaming vector stores", 0, "nothing is read ahead"),
    exactly(KNC, "VPU_DATA_READ", "vectors", 16, ONE_EACH),
    exactly(KNC, "VPU_DATA_WRITE", "vectors", 16, ONE_EACH),
    exactly(KNC, "VPU_DATA_READ_MISS", "vectors", 16, ONE_EACH),
    exactly(KNC, "VPU_DATA_WRITE_MISS", "vectors", 16, ONE_EACH),
    exactly(KNC, "VPU_DATA_WRITE_MISS", "streaming vector stores", 64, ONE_EACH),
    exactly(KNC, "VPU_INSTRUCTIONS_EXECUTED", "vectors", 32, "16 loads, 16 stores"),
    exactly(KNC, "VPU_ELEMENTS_ACTIVE", "vectors", 512, "16 each"),
];
