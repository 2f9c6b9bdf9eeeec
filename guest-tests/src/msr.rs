//! Fields of an event select, as the tests know them, apart from the model's own: where PerfEvtSel
//! of P6, K7, K8 and Knights Corner has them. For P55C they are translated.

/// Count at CPL above 0; on P55C at CPL 3.
pub const USR: u64 = 1 << 16;
/// Count at CPL 0; on P55C at CPL 0 to 2.
pub const OS: u64 = 1 << 17;
/// Count transitions.
pub const EDGE: u64 = 1 << 18;
/// Pin control.
pub const PC: u64 = 1 << 19;
/// Interrupt on overflow.
pub const INT: u64 = 1 << 20;
/// Knights Corner: count for all threads of the core.
pub const ALL_THREADS: u64 = 1 << 21;
/// Enable the counter.
pub const EN: u64 = 1 << 22;
/// Invert the comparison with the counter mask.
pub const INV: u64 = 1 << 23;
/// Counter mask of one.
pub const CMASK_1: u64 = 1 << 24;
/// Counter mask of two.
pub const CMASK_2: u64 = 2 << 24;
/// Counter mask 3.
pub const CMASK_3: u64 = 3 << 24;
/// P55C: count clocks and not occurrences. In no register: this is the tests' own place for it.
pub const CLOCKS: u64 = 1 << 32;

/// Control and event select register of P55C.
pub const CESR: u32 = 0x11;
/// PerfEvtSel0 of P6, whose EN enables both counters.
pub const P6_EVT_SEL0: u32 = 0x186;
/// PerfEvtSel1 of P6.
pub const P6_EVT_SEL1: u32 = 0x187;
/// PERF_SPFLT_CONTROL of Knights Corner.
pub const SPFLT_CONTROL: u32 = 0x2C;
/// IA32_PERF_GLOBAL_STATUS of Knights Corner.
pub const GLOBAL_STATUS: u32 = 0x2D;
/// IA32_PERF_GLOBAL_OVF_CTRL of Knights Corner.
pub const GLOBAL_OVF_CTRL: u32 = 0x2E;
/// IA32_PERF_GLOBAL_CTRL of Knights Corner.
pub const GLOBAL_CTRL: u32 = 0x2F;
