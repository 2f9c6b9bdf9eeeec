//! Stores that go past the caches, prefetches, and what empties caches.

use guest_tests::part::Registers;
use guest_tests::{Guest, Part, Result, SCRATCH};
use iced_x86::code_asm::{al, byte_ptr, dword_ptr, eax, ecx, edi, edx, esi, mm0, qword_ptr};

use super::Program;
use super::data::{empty_caches, lines};

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        runs_on: has_mtrr,
        set_up: ranges,
        ..Program::new(
            "write-combining",
            "24 lines written: 8 in whole, 8 a byte of each, 8 in half, of write-combining memory",
            combining,
        )
    },
    Program {
        runs_on: has_mtrr,
        set_up: ranges,
        prepare: empty_caches,
        ..Program::new(
            "write-protected",
            "16 loads from, and 16 stores to, write-protected memory",
            |g| access(g, PROTECTED),
        )
    },
    Program {
        runs_on: streams,
        ..Program::new("streaming stores", "8 lines written by MOVNTQ", |g| {
            g.mov(edi, SCRATCH)?;
            for n in 0..64 {
                g.movntq(qword_ptr(edi + 8 * n), mm0)?;
            }
            g.sfence()?;
            g.emms()
        })
    },
    Program {
        runs_on: streams,
        prepare: empty_caches,
        ..Program::new(
            "prefetches",
            "8 prefetches of each kind, of lines that no cache has",
            prefetches,
        )
    },
    Program {
        runs_on: |part| part.sse2,
        prepare: |g| lines(g, 16, 64, true),
        ..Program::new("flushes", "CLFLUSH of 16 lines that were written", |g| {
            for n in 0..16 {
                g.clflush(byte_ptr(SCRATCH + 64 * n))?;
            }
            Ok(())
        })
    },
    Program {
        prepare: |g| lines(g, 64, 64, true),
        ..Program::new("write-back", "WBINVD with 64 lines written", empty_caches)
    },
];

const MTRR_DEF_TYPE: u32 = 0x2FF;
const MTRR_PHYS_BASE: u32 = 0x200;
const COMBINING: u32 = 0xC0_0000;
const PROTECTED: u32 = 0xC1_0000;

fn has_mtrr(part: &Part) -> bool {
    part.registers != Registers::P55c
}

fn streams(part: &Part) -> bool {
    part.sse || part.name == "k7"
}

/// Makes 64 KiB write-combining (type 1), and 64 KiB write-protected (type 5).
fn ranges(g: &mut Guest) -> Result {
    for (n, base, kind) in [(0, COMBINING, 1), (1, PROTECTED, 5)] {
        g.write_msr(MTRR_PHYS_BASE + 2 * n, u64::from(base | kind))?;
        g.write_msr(MTRR_PHYS_BASE + 2 * n + 1, 0xF_FFFF_0000 | 0x800)?;
    }
    // Enabled, fixed ranges as they are, write-back otherwise.
    g.mov(ecx, MTRR_DEF_TYPE)?;
    g.rdmsr()?;
    g.and(eax, 0x400)?;
    g.or(eax, 0x806)?;
    g.wrmsr()
}

fn combining(g: &mut Guest) -> Result {
    g.mov(edi, COMBINING)?;
    for n in 0..8 * 16 {
        g.mov(dword_ptr(edi + 4 * n), eax)?;
    }
    for n in 0..8 {
        g.mov(byte_ptr(edi + 64 * n), al)?;
    }
    for n in 0..8 * 8 {
        g.mov(dword_ptr(edi + 0x1000 + 64 * (n / 8) + 4 * (n % 8)), eax)?;
    }
    g.xor(eax, eax)?;
    g.lock().or(dword_ptr(SCRATCH), eax)
}

fn access(g: &mut Guest, at: u32) -> Result {
    g.mov(esi, at)?;
    for n in 0..16 {
        g.mov(al, byte_ptr(esi + 64 * n))?;
    }
    for n in 0..16 {
        g.mov(byte_ptr(esi + 64 * n), al)?;
    }
    Ok(())
}

fn prefetches(g: &mut Guest) -> Result {
    let amd = g.part.registers == Registers::Amd;
    g.mov(edx, SCRATCH)?;
    for n in 0..8 {
        g.prefetchnta(byte_ptr(edx + 64 * n))?;
        g.prefetcht0(byte_ptr(edx + 0x1000 + 64 * n))?;
        g.prefetcht1(byte_ptr(edx + 0x2000 + 64 * n))?;
        g.prefetcht2(byte_ptr(edx + 0x3000 + 64 * n))?;
        if amd {
            g.prefetchw(byte_ptr(edx + 0x4000 + 64 * n))?;
        }
    }
    Ok(())
}
