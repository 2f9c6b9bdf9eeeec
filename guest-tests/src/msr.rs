//! Registers and bits of the K8's PMU, as the tests know them (BIOS and Kernel Developer's Guide for
//! AMD Athlon 64 and AMD Opteron Processors, sections 10.1 and 10.2), apart from the model's own.

/// PerfEvtSel0; the other three follow.
pub const PERF_EVT_SEL: u32 = 0xC001_0000;
/// PerfCtr0; the other three follow.
pub const PERF_CTR: u32 = 0xC001_0004;

/// Count at CPL above 0.
pub const USR: u64 = 1 << 16;
/// Count at CPL 0.
pub const OS: u64 = 1 << 17;
/// Count transitions.
pub const EDGE: u64 = 1 << 18;
/// Interrupt on overflow.
pub const INT: u64 = 1 << 20;
/// Enable the counter.
pub const EN: u64 = 1 << 22;
/// Invert the comparison with the counter mask.
pub const INV: u64 = 1 << 23;
/// Counter mask of one.
pub const CMASK_1: u64 = 1 << 24;

/// Counters are 48 bits wide.
pub const WIDTH_MASK: u64 = (1 << 48) - 1;
