//! What perf's own names for events select: the tables of Linux's drivers for these processors.
//!
//! Sources: Linux 6.1, `amd/core.c`, `intel/p6.c` and `intel/knc.c` in `arch/x86/events`, each its map of
//! hardware events and its table of cache events. Linux has no driver for the Pentium.

use super::PerfName;

/// AMD's processors of that time; a code that one of them lacks selects no event there.
pub(super) const AMD: &[PerfName] = &[
    PerfName { name: "cpu-cycles", umask: 0x00, code: 0x76 },
    PerfName { name: "instructions", umask: 0x00, code: 0xC0 },
    PerfName { name: "cache-references", umask: 0x07, code: 0x7D },
    PerfName { name: "cache-misses", umask: 0x07, code: 0x7E },
    PerfName { name: "branch-instructions", umask: 0x00, code: 0xC2 },
    PerfName { name: "branch-misses", umask: 0x00, code: 0xC3 },
    PerfName { name: "stalled-cycles-frontend", umask: 0x00, code: 0xD0 },
    PerfName { name: "stalled-cycles-backend", umask: 0x00, code: 0xD1 },
    PerfName { name: "L1-dcache-loads", umask: 0x00, code: 0x40 },
    PerfName { name: "L1-dcache-load-misses", umask: 0x01, code: 0x41 },
    PerfName { name: "L1-dcache-prefetches", umask: 0x02, code: 0x67 },
    PerfName { name: "L1-dcache-prefetch-misses", umask: 0x01, code: 0x67 },
    PerfName { name: "L1-icache-loads", umask: 0x00, code: 0x80 },
    PerfName { name: "L1-icache-load-misses", umask: 0x00, code: 0x81 },
    PerfName { name: "L1-icache-prefetches", umask: 0x01, code: 0x4B },
    PerfName { name: "LLC-loads", umask: 0x03, code: 0x7D },
    PerfName { name: "LLC-load-misses", umask: 0x03, code: 0x7E },
    PerfName { name: "LLC-stores", umask: 0x01, code: 0x7F },
    PerfName { name: "dTLB-loads", umask: 0x00, code: 0x40 },
    PerfName { name: "dTLB-load-misses", umask: 0x07, code: 0x46 },
    PerfName { name: "iTLB-loads", umask: 0x00, code: 0x80 },
    PerfName { name: "iTLB-load-misses", umask: 0x03, code: 0x85 },
    PerfName { name: "branch-loads", umask: 0x00, code: 0xC2 },
    PerfName { name: "branch-load-misses", umask: 0x00, code: 0xC3 },
    PerfName { name: "node-loads", umask: 0xB8, code: 0xE9 },
    PerfName { name: "node-load-misses", umask: 0x98, code: 0xE9 },
];

/// The P6 family.
pub(super) const P6: &[PerfName] = &[
    PerfName { name: "cpu-cycles", umask: 0x00, code: 0x79 },
    PerfName { name: "instructions", umask: 0x00, code: 0xC0 },
    PerfName { name: "cache-references", umask: 0x0F, code: 0x2E },
    PerfName { name: "cache-misses", umask: 0x01, code: 0x2E },
    PerfName { name: "branch-instructions", umask: 0x00, code: 0xC4 },
    PerfName { name: "branch-misses", umask: 0x00, code: 0xC5 },
    PerfName { name: "bus-cycles", umask: 0x00, code: 0x62 },
    PerfName { name: "stalled-cycles-frontend", umask: 0x00, code: 0xA2 },
    PerfName { name: "L1-dcache-loads", umask: 0x00, code: 0x43 },
    PerfName { name: "L1-dcache-load-misses", umask: 0x00, code: 0x45 },
    PerfName { name: "L1-dcache-store-misses", umask: 0x0F, code: 0x29 },
    PerfName { name: "L1-icache-loads", umask: 0x00, code: 0x80 },
    PerfName { name: "L1-icache-load-misses", umask: 0x0F, code: 0x28 },
    PerfName { name: "LLC-store-misses", umask: 0x00, code: 0x25 },
    PerfName { name: "dTLB-loads", umask: 0x00, code: 0x43 },
    PerfName { name: "iTLB-loads", umask: 0x00, code: 0x80 },
    PerfName { name: "iTLB-load-misses", umask: 0x00, code: 0x85 },
    PerfName { name: "branch-loads", umask: 0x00, code: 0xC4 },
    PerfName { name: "branch-load-misses", umask: 0x00, code: 0xC5 },
];

/// Knights Corner.
pub(super) const KNC: &[PerfName] = &[
    PerfName { name: "cpu-cycles", umask: 0x00, code: 0x2A },
    PerfName { name: "instructions", umask: 0x00, code: 0x16 },
    PerfName { name: "cache-references", umask: 0x00, code: 0x28 },
    PerfName { name: "cache-misses", umask: 0x00, code: 0x29 },
    PerfName { name: "branch-instructions", umask: 0x00, code: 0x12 },
    PerfName { name: "branch-misses", umask: 0x00, code: 0x2B },
    PerfName { name: "L1-dcache-loads", umask: 0x00, code: 0x00 },
    PerfName { name: "L1-dcache-load-misses", umask: 0x00, code: 0x03 },
    PerfName { name: "L1-dcache-stores", umask: 0x00, code: 0x01 },
    PerfName { name: "L1-dcache-store-misses", umask: 0x00, code: 0x04 },
    PerfName { name: "L1-dcache-prefetches", umask: 0x00, code: 0x11 },
    PerfName { name: "L1-dcache-prefetch-misses", umask: 0x00, code: 0x1C },
    PerfName { name: "L1-icache-loads", umask: 0x00, code: 0x0C },
    PerfName { name: "L1-icache-load-misses", umask: 0x00, code: 0x0E },
    PerfName { name: "LLC-load-misses", umask: 0x10, code: 0xCB },
    PerfName { name: "LLC-stores", umask: 0x10, code: 0xCC },
    PerfName { name: "LLC-prefetches", umask: 0x10, code: 0xFC },
    PerfName { name: "LLC-prefetch-misses", umask: 0x10, code: 0xFE },
    PerfName { name: "dTLB-loads", umask: 0x00, code: 0x00 },
    PerfName { name: "dTLB-load-misses", umask: 0x00, code: 0x02 },
    PerfName { name: "dTLB-stores", umask: 0x00, code: 0x01 },
    PerfName { name: "dTLB-store-misses", umask: 0x00, code: 0x02 },
    PerfName { name: "iTLB-loads", umask: 0x00, code: 0x0C },
    PerfName { name: "iTLB-load-misses", umask: 0x00, code: 0x0D },
    PerfName { name: "branch-loads", umask: 0x00, code: 0x12 },
    PerfName { name: "branch-load-misses", umask: 0x00, code: 0x2B },
];
