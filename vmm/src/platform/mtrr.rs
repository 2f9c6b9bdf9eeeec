//! The memory-type range registers (Intel SDM volume 3, section "Memory Type Range Registers
//! (MTRRs)"; AMD64 volume 2, section 7.7), which all parts from the Pentium Pro on have at the same
//! places.

use super::msr::{Check, MsrRow};
use super::rows::{ALL, strict};

/// Bit 11: a mask is valid.
const VALID: u64 = 1 << 11;
/// Bits 2:0 of each of eight fields: the memory types that there are.
const TYPES: u64 = 0x0707_0707_0707_0707;

const NAMES: [&str; 16] = [
    "MTRRphysBase0",
    "MTRRphysMask0",
    "MTRRphysBase1",
    "MTRRphysMask1",
    "MTRRphysBase2",
    "MTRRphysMask2",
    "MTRRphysBase3",
    "MTRRphysMask3",
    "MTRRphysBase4",
    "MTRRphysMask4",
    "MTRRphysBase5",
    "MTRRphysMask5",
    "MTRRphysBase6",
    "MTRRphysMask6",
    "MTRRphysBase7",
    "MTRRphysMask7",
];

/// The first `N` registers of the variable ranges, two a range, of a processor with so many
/// physical address bits.
pub(super) const fn variable<const N: usize>(address_bits: u8) -> [MsrRow; N] {
    let page = (1 << address_bits) - 0x1000;
    let mut rows = [DEF_TYPE; N];
    let mut n = 0;
    while n < N {
        let index = 0x200 + n as u32;
        rows[n] = if n % 2 == 0 {
            strict(index, NAMES[n], 0, page | 0xFF, Check::MemoryType)
        } else {
            strict(index, NAMES[n], 0, page | VALID, Check::None)
        };
        n += 1;
    }
    rows
}

/// Default type, fixed enable (bit 10), enable (bit 11).
pub(super) const DEF_TYPE: MsrRow = strict(0x2FF, "MTRRdefType", 0, 0xCFF, Check::MemoryType);

/// The fixed ranges, each with eight types.
pub(super) const FIXED: [MsrRow; 11] = fixed(TYPES);

/// The fixed ranges of AMD processors, where a type can have RdMem and WrMem beside it.
pub(super) const DRAM_FIXED: [MsrRow; 11] = fixed(ALL);

const fn fixed(writable: u64) -> [MsrRow; 11] {
    [
        range(0x250, "MTRRfix64K_00000", writable),
        range(0x258, "MTRRfix16K_80000", writable),
        range(0x259, "MTRRfix16K_A0000", writable),
        range(0x268, "MTRRfix4K_C0000", writable),
        range(0x269, "MTRRfix4K_C8000", writable),
        range(0x26A, "MTRRfix4K_D0000", writable),
        range(0x26B, "MTRRfix4K_D8000", writable),
        range(0x26C, "MTRRfix4K_E0000", writable),
        range(0x26D, "MTRRfix4K_E8000", writable),
        range(0x26E, "MTRRfix4K_F0000", writable),
        range(0x26F, "MTRRfix4K_F8000", writable),
    ]
}

const fn range(index: u32, name: &'static str, writable: u64) -> MsrRow {
    strict(index, name, 0, writable, Check::FixedMtrr)
}
