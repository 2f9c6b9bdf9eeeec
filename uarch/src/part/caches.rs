//! The caches of each part.
//!
//! Sizes are those of CPUID: the descriptors of leaf 2 in Intel's, leaves 8000_0005h and 8000_0006h in AMD's
//! processors.

use crate::cache::{
    ArrayGeometry, CacheGeometry, CodeAndData, Coherence, DeviceRead, Inclusion, LockPolicy,
    PrefetchFills, PrefetchInto, PrefetcherGeometry, Prefetches, Protocol, Replacement,
    SecondLevel, SecondLevelBus, SharedWrite, WalkPath, WriteCombiningGeometry,
};

/// Cycles that a hit in the L2 of the Pentium Pro takes beyond one in the L1. Not sourced.
const PPRO_L2_LATENCY: u64 = 5;
/// The same of the Pentium II, whose L2 has half its clock, less the 3 of the L1. Not sourced at first
/// hand.
const PII_L2_LATENCY: u64 = 15;
/// The same of the Pentium III, whose L2 has the processor's clock. Not sourced.
const P6_L2_LATENCY: u64 = 5;
/// The same of the Pentium M. Not sourced.
const PM_L2_LATENCY: u64 = 7;
/// The same of the Athlon, with the transfer of a victim. Not sourced.
const K7_L2_LATENCY: u64 = 17;
/// The same of the Athlon 64. Not sourced.
const K8_L2_LATENCY: u64 = 9;
/// The bus of the Pentium Pro to the L2 in its package: 64 bits at the processor's clock (Intel 242769,
/// Pentium Pro Processor at 150 MHz to 200 MHz, "Introduction").
const PPRO_L2_BUS: SecondLevelBus = SecondLevelBus { width: 8, period: 1 };
/// That of the Pentium II: 64 bits at half of it (dumps of the part say both).
const PII_L2_BUS: SecondLevelBus = SecondLevelBus { width: 8, period: 2 };
/// That of the Pentium III with the L2 on the die: 256 bits (Intel 245264, "Advanced Transfer Cache").
const P6_L2_BUS: SecondLevelBus = SecondLevelBus { width: 32, period: 1 };
/// That of the Pentium M, taken over from the Pentium III. Not sourced.
const PM_L2_BUS: SecondLevelBus = P6_L2_BUS;
/// That of the Athlon: 64 bits, and ECC (pages of the part, not at first hand).
const K7_L2_BUS: SecondLevelBus = SecondLevelBus { width: 8, period: 1 };
/// That of the Athlon 64: 128 bits (pages of the part, not at first hand).
const K8_L2_BUS: SecondLevelBus = SecondLevelBus { width: 16, period: 1 };
/// Write-combining buffers of the Pentium Pro and the Pentium II. Not sourced.
const PPRO_WRITE_COMBINING_BUFFERS: usize = 1;
/// Those of the Pentium III, which its fill buffers serve as. Not sourced.
const P6_WRITE_COMBINING_BUFFERS: usize = 4;
/// Those of the Pentium M. Not sourced.
const PM_WRITE_COMBINING_BUFFERS: usize = 4;
/// Those of the Athlon. Not sourced.
const K7_WRITE_COMBINING_BUFFERS: usize = 1;
/// Those of the Athlon 64. Not sourced.
const K8_WRITE_COMBINING_BUFFERS: usize = 4;
/// Cycles that a hit in the L2 of Knights Corner takes beyond one in the L1: 23.4 from load to use of a
/// scalar pointer chase were measured (J. McCalpin), and 24 are common. Not sourced at first hand.
const KNC_L2_LATENCY: u64 = 23;
/// The bus of Knights Corner to its L2: 64 bytes every other clock (J. McCalpin, after the core's designers).
const KNC_L2_BUS: SecondLevelBus = SecondLevelBus { width: 64, period: 2 };
/// Ways of Knights Corner's caches. CPUID function 4 of an SE10P; hwloc's dump of it.
const KNC_WAYS: u32 = 8;
/// Write-combining buffers of a core of Knights Corner. Not sourced.
const KNC_WRITE_COMBINING_BUFFERS: usize = 4;
/// Sequences of misses that Knights Corner's prefetcher follows. Not sourced at first hand.
const KNC_STREAMS: usize = 16;
/// Lines that may be on their way into the data cache of Knights Corner because of prefetches. Not sourced.
const KNC_DATA_FILLS: usize = 8;
/// The same of its second level. Not sourced.
const KNC_SECOND_LEVEL_FILLS: usize = 38;
/// Bytes that one read of Knights Corner's instruction cache gives. Not sourced.
const KNC_FETCH_WINDOW: u32 = 32;
/// Bytes of a bank of its data cache. Not sourced.
const KNC_BANK_WIDTH: u32 = 32;
/// Sequences of misses that a hardware prefetcher follows. Not sourced.
const STREAMS: usize = 8;
/// Which line of a full set goes in Intel's caches. Not sourced for these parts.
const INTEL_REPLACEMENT: Replacement = Replacement::TreePseudoLru;
/// The same in the data cache and the L2 of AMD's; the instruction cache is LRU (22007E p.132). Not sourced.
const AMD_REPLACEMENT: Replacement = Replacement::Lru;

const fn intel(sets: u32, ways: u32) -> ArrayGeometry {
    ArrayGeometry { sets, ways, replacement: INTEL_REPLACEMENT }
}

const fn amd(sets: u32, ways: u32) -> ArrayGeometry {
    ArrayGeometry { sets, ways, replacement: AMD_REPLACEMENT }
}

/// Pentium processor with MMX technology: 16 KiB each of code and data.
///
/// Pentium Processor User's Manual, volume 1, "Cache Organization and Operation": data is written back, line
/// by line as WB/WT# says; the first write to a Shared line goes to the bus and makes it Exclusive; a write
/// that misses goes to the bus alone.
pub static P55C: CacheGeometry = CacheGeometry {
    line: 32,
    code: intel(128, 4),
    data: intel(128, 4),
    second_level: None,
    // 512 KiB, direct-mapped: what boards had. Not sourced.
    board: Some(ArrayGeometry { sets: 16384, ways: 1, replacement: Replacement::Lru }),
    protocol: Protocol::Mesi,
    coherence: Coherence::Snooping,
    code_and_data: CodeAndData::BothCaches,
    // Half a line, as the prefetch buffers hold it. Not sourced.
    fetch_window: 16,
    // Intel SDM volume 3, event CODE_READ: "individual eight-byte noncacheable instruction reads".
    uncached_fetch: 8,
    next_line_fetch: false,
    write_allocate: false,
    shared_write: SharedWrite::WriteThrough,
    walks: WalkPath::DataCache,
    // Intel SDM volume 3, "Effects of a LOCK Operation on Internal Processor Caches".
    locks: LockPolicy::Bus,
    // Intel SDM volume 3, events DATA_READ_MISS and DATA_WRITE_MISS: cacheable or not.
    uncached_is_miss: true,
    snooped_write_back: true,
    device_read: DeviceRead::Shares,
    prefetches: Prefetches::Accesses,
    outer_prefetch: PrefetchInto::DataCache,
    prefetch_fills: PrefetchFills::AT_ONCE,
    write_combining: WriteCombiningGeometry { buffers: 0, partial: 8 },
    prefetcher: None,
    // A. Fog, "How to optimize for the Pentium family", chapter 10.2: bits 4 to 2.
    banks: 8,
    bank_width: 4,
};

/// Pentium Pro: 8 KiB each of code and data, 256 KiB L2.
///
/// Intel SDM volume 3, "Memory Cache Control". That the L2 holds all lines of the L1, and what else differs
/// from the Pentium, is in no document at hand: inclusion is not sourced.
pub static PPRO: CacheGeometry = CacheGeometry {
    line: 32,
    code: intel(64, 4),
    data: intel(128, 2),
    second_level: Some(SecondLevel {
        array: intel(2048, 4),
        inclusion: Inclusion::Inclusive,
        latency: PPRO_L2_LATENCY,
        bus: PPRO_L2_BUS,
    }),
    board: None,
    write_allocate: true,
    shared_write: SharedWrite::Invalidate,
    locks: LockPolicy::Cache,
    uncached_is_miss: false,
    snooped_write_back: false,
    // Intel SDM volume 3, "Buffering of Write Combining Memory Locations": a buffer that is not full goes in
    // up to four partial writes of 8 bytes.
    write_combining: WriteCombiningGeometry { buffers: PPRO_WRITE_COMBINING_BUFFERS, partial: 8 },
    ..P55C
};

/// Pentium II: 16 KiB each of code and data, 512 KiB L2.
pub static PII: CacheGeometry = CacheGeometry {
    code: intel(128, 4),
    // Descriptor 0Ch is 2-way in some editions of the manual and 4-way in others; dumps of the part say 4.
    data: intel(128, 4),
    second_level: Some(SecondLevel {
        array: intel(4096, 4),
        inclusion: Inclusion::Inclusive,
        latency: PII_L2_LATENCY,
        bus: PII_L2_BUS,
    }),
    ..PPRO
};

/// Pentium III with the L2 on the die: 16 KiB each of code and data, 256 KiB L2, and prefetch instructions.
pub static P6: CacheGeometry = CacheGeometry {
    second_level: Some(SecondLevel {
        array: intel(1024, 8),
        inclusion: Inclusion::Inclusive,
        latency: P6_L2_LATENCY,
        bus: P6_L2_BUS,
    }),
    // Intel 245127 (Architecture Optimization Reference Manual), "Prefetch and Cacheability Instructions".
    outer_prefetch: PrefetchInto::SecondLevel,
    write_combining: WriteCombiningGeometry { buffers: P6_WRITE_COMBINING_BUFFERS, partial: 8 },
    ..PII
};

/// Pentium M with 2 MiB L2: 32 KiB each of code and data, and a hardware prefetcher into the L2 (Intel 248966,
/// "Data Prefetching").
pub static PM: CacheGeometry = CacheGeometry {
    line: 64,
    code: intel(64, 8),
    data: intel(64, 8),
    second_level: Some(SecondLevel {
        array: intel(4096, 8),
        inclusion: Inclusion::Inclusive,
        latency: PM_L2_LATENCY,
        bus: PM_L2_BUS,
    }),
    write_combining: WriteCombiningGeometry { buffers: PM_WRITE_COMBINING_BUFFERS, partial: 8 },
    prefetcher: Some(PrefetcherGeometry { streams: STREAMS, for_ownership: false }),
    ..P6
};

/// Athlon, model 4: 64 KiB each of code and data, 256 KiB L2, exclusive.
///
/// AMD 22007E, appendix A: sizes, instruction fetch and its next line. "Avoid Placing Code and Data in the
/// Same 64-Byte Cache Line": each first-level cache casts out what the other gets.
pub static K7: CacheGeometry = CacheGeometry {
    line: 64,
    code: ArrayGeometry { sets: 512, ways: 2, replacement: Replacement::Lru },
    data: amd(512, 2),
    second_level: Some(SecondLevel {
        array: amd(256, 16),
        inclusion: Inclusion::Exclusive,
        latency: K7_L2_LATENCY,
        bus: K7_L2_BUS,
    }),
    board: None,
    protocol: Protocol::Moesi,
    coherence: Coherence::Snooping,
    code_and_data: CodeAndData::OneCache,
    fetch_window: 16,
    uncached_fetch: 16,
    next_line_fetch: true,
    write_allocate: true,
    shared_write: SharedWrite::Invalidate,
    // AMD BKDG, events 7Dh to 7Fh: page walks ask the L2, and fill it. Taken over from the K8.
    walks: WalkPath::SecondLevel,
    locks: LockPolicy::Cache,
    uncached_is_miss: false,
    snooped_write_back: false,
    // Not sourced.
    device_read: DeviceRead::Leaves,
    // AMD 22007E, PREFETCHT0 to T2 all bring the line into the data cache.
    prefetches: Prefetches::Accesses,
    outer_prefetch: PrefetchInto::DataCache,
    prefetch_fills: PrefetchFills::AT_ONCE,
    // Parts of 32 bytes: AMD BKDG, event E5h, of the K8.
    write_combining: WriteCombiningGeometry { buffers: K7_WRITE_COMBINING_BUFFERS, partial: 32 },
    // Only from model 6 on, the Athlon XP.
    prefetcher: None,
    // AMD 25112, section 5.9.
    banks: 8,
    bank_width: 8,
};

/// Athlon 64: 64 KiB each of code and data, 1 MiB L2, exclusive (AMD 25112, sections A.6, A.14 and A.16).
pub static K8: CacheGeometry = CacheGeometry {
    second_level: Some(SecondLevel {
        array: amd(1024, 16),
        inclusion: Inclusion::Exclusive,
        latency: K8_L2_LATENCY,
        bus: K8_L2_BUS,
    }),
    // AMD BKDG, event 81h: each miss is one refill.
    next_line_fetch: false,
    write_combining: WriteCombiningGeometry { buffers: K8_WRITE_COMBINING_BUFFERS, partial: 32 },
    // AMD BKDG, event 67h. That it follows reads and writes alike is not sourced.
    prefetcher: Some(PrefetcherGeometry { streams: STREAMS, for_ownership: true }),
    ..K7
};

/// Knights Corner, a core: 32 KiB each of code and data, 512 KiB L2, which all its threads share.
///
/// It comes from the Pentium: what is not said here is as there. That the L2 holds all lines of the L1 is not
/// sourced, nor is what its directories know beyond who has a line: a dirty line that another core reads is
/// written back to memory, as MESI has it.
pub static KNC: CacheGeometry = CacheGeometry {
    line: 64,
    code: intel(64, KNC_WAYS),
    data: intel(64, KNC_WAYS),
    second_level: Some(SecondLevel {
        array: intel(1024, KNC_WAYS),
        inclusion: Inclusion::Inclusive,
        latency: KNC_L2_LATENCY,
        bus: KNC_L2_BUS,
    }),
    board: None,
    // Intel Xeon Phi Coprocessor - the Architecture (2012): "globally distributed tag directories".
    coherence: Coherence::TagDirectories,
    fetch_window: KNC_FETCH_WINDOW,
    write_allocate: true,
    shared_write: SharedWrite::Invalidate,
    locks: LockPolicy::Cache,
    snooped_write_back: false,
    prefetches: Prefetches::Requests,
    outer_prefetch: PrefetchInto::SecondLevel,
    prefetch_fills: PrefetchFills { data: KNC_DATA_FILLS, second_level: KNC_SECOND_LEVEL_FILLS },
    write_combining: WriteCombiningGeometry { buffers: KNC_WRITE_COMBINING_BUFFERS, partial: 8 },
    prefetcher: Some(PrefetcherGeometry { streams: KNC_STREAMS, for_ownership: false }),
    // J. McCalpin, after the core's designers: two logical banks.
    banks: 2,
    bank_width: KNC_BANK_WIDTH,
    ..P55C
};
