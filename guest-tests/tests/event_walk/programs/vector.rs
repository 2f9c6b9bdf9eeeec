//! What only Knights Corner has: its vector unit, its prefetches and evictions, and page tables of a core.

use guest_tests::{Guest, Part, Result, SCRATCH};
use iced_x86::code_asm::{cr3, dword_ptr, eax, ecx};

use super::Program;
use super::data::{empty_caches, lines};
use super::pages::page_tables;
use crate::runner::ask;

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        runs_on: is_knc,
        prepare: empty_caches,
        ..Program::new(
            "vector prefetches",
            "8 VPREFETCH of each kind, of lines that no cache has",
            |g| {
                let kinds = (0..8).flat_map(|kind| (0..8).map(move |n| (kind, n)));
                in_64_bit_mode(
                    g,
                    kinds.flat_map(|(kind, n)| {
                        prefetch(kind, SCRATCH + 0x1_0000 + 0x1000 * u32::from(kind) + 64 * n)
                    }),
                )
            },
        )
    },
    Program {
        runs_on: is_knc,
        set_up: uncacheable,
        ..Program::new(
            "vector prefetches of uncacheable memory",
            "8 VPREFETCH0 and 8 VPREFETCH1 of memory that may not be cached",
            |g| {
                let all = (0..8).flat_map(|n| {
                    let at = UNCACHEABLE + 64 * n;
                    [prefetch(VPREFETCH0, at), prefetch(VPREFETCH1, at)].concat()
                });
                in_64_bit_mode(g, all)
            },
        )
    },
    Program {
        runs_on: is_knc,
        prepare: evict_lines,
        ..Program::new(
            "too late to prefetch",
            "8 times, a line that no cache has: VPREFETCH0 twice, and it is read",
            |g| read_behind(g, VPREFETCH0, 2),
        )
    },
    Program {
        runs_on: is_knc,
        prepare: evict_lines,
        ..Program::new(
            "too late to prefetch into the second level",
            "8 times, a line that no cache has: VPREFETCH1, and it is read",
            |g| read_behind(g, VPREFETCH1, 1),
        )
    },
    Program {
        runs_on: is_knc,
        prepare: evict_lines,
        ..Program::new(
            "more prefetches than places",
            "VPREFETCH1 of 48 lines of a page that no cache has, 4 in each round of a loop",
            |g| {
                let [a, b, c, d] = (LINES + 128).to_le_bytes();
                // mov ecx, 12; mov eax, LINES + 128; vprefetch1 [rax - 128], [rax - 64], [rax], [rax + 64];
                // add eax, 256; dec ecx; jnz to the first vprefetch1.
                let setup = [0xB9, 12, 0, 0, 0, 0xB8, a, b, c, d];
                let prefetches = [0x80, 0xC0, 0x00, 0x40].map(|at| [0xC5, 0xF8, 0x18, 0x50, at]);
                let rest = [0x05, 0x00, 0x01, 0, 0, 0xFF, 0xC9, 0x75, (-29_i8) as u8];
                let code = setup.into_iter().chain(prefetches.into_iter().flatten()).chain(rest);
                in_64_bit_mode(g, code)
            },
        )
    },
    Program {
        runs_on: is_knc,
        prepare: |g| {
            empty_caches(g)?;
            lines(g, 16, 64, true)
        },
        ..Program::new("evictions", "CLEVICT0, then CLEVICT1, of 16 lines that were written", |g| {
            let all = (0..16).flat_map(|n| {
                let at = SCRATCH + 64 * n;
                [evict(0xFB, at), evict(0xFA, at)].concat()
            });
            in_64_bit_mode(g, all)
        })
    },
    Program {
        runs_on: is_knc,
        prepare: empty_caches,
        ..Program::new("vectors", "16 VMOVAPS from, and 16 to, lines that no cache has", |g| {
            let all = (0..16).flat_map(|n| {
                let at = SCRATCH + 0x1_0000 + 0x1000 * n;
                [vector(0x28, at), vector(0x29, at + 0x1_0000)].concat()
            });
            in_64_bit_mode(g, all)
        })
    },
    Program {
        runs_on: is_knc,
        prepare: empty_caches,
        ..Program::new(
            "streaming vector stores",
            "24 VMOVNRAPS and 40 VMOVNRNGOAPS to lines that no cache has",
            |g| {
                let all = (0..64).flat_map(|n| stream(n < 24, SCRATCH + 0x1_0000 + 64 * n));
                in_64_bit_mode(g, all)
            },
        )
    },
    Program {
        runs_on: is_knc,
        prepare: empty_caches,
        ..Program::new(
            "prefetches of gathers",
            "10 of each prefetch of a gather or scatter, and of each hint, of lines that no cache has",
            |g| {
                let kinds = [0, 1, 2, 4, 5, 6];
                let all = (0..).zip(kinds).flat_map(|(kind, reg)| {
                    (0..5).flat_map(move |n| {
                        gather_prefetch(reg, SCRATCH + 0x1_0000 + 0x1000 * kind + 128 * n)
                    })
                });
                in_64_bit_mode(g, no_indices().into_iter().chain(all))
            },
        )
    },
    Program {
        runs_on: is_knc,
        other: Some(|g| lines(g, 16, 0x1040, true)),
        ..Program::new(
            "written by both",
            "another processor writes 16 lines; they are written, unread",
            |g| {
                ask(g)?;
                lines(g, 16, 0x1040, true)
            },
        )
    },
    Program {
        runs_on: is_knc,
        set_up: page_tables,
        ..Program::new("page tables", "4 times, CR3 is loaded and a byte read", |g| {
            for _ in 0..4 {
                g.mov(eax, cr3)?;
                g.mov(cr3, eax)?;
                g.mov(eax, dword_ptr(SCRATCH))?;
            }
            Ok(())
        })
    },
];

/// Where the tables for 64-bit mode are.
const TABLES: u32 = 0xE2_0000;
const UNCACHEABLE: u32 = 0xC0_0000;
/// A page of lines to prefetch.
const LINES: u32 = SCRATCH + 0x2_0000;
/// The numbers of these in the reg field of the opcode.
const VPREFETCH0: u8 = 1;
const VPREFETCH1: u8 = 2;

fn is_knc(part: &Part) -> bool {
    part.name == "knc"
}

fn in_64_bit_mode(g: &mut Guest, code: impl Iterator<Item = u8>) -> Result {
    g.in_64_bit_mode(TABLES, &code.collect::<Vec<_>>())
}

/// Intel 327364: VEX.L0.0F 18 /0 to /7 are VPREFETCHNTA, 0, 1, 2, ENTA, E0, E1 and E2. The operand is at an
/// absolute address.
fn prefetch(kind: u8, at: u32) -> Vec<u8> {
    let [a, b, c, d] = at.to_le_bytes();
    vec![0xC5, 0xF8, 0x18, 0x04 | kind << 3, 0x25, a, b, c, d]
}

/// VEX.L0.F2.0F AE /7 is CLEVICT0, with F3 CLEVICT1; by the second byte of the prefix.
fn evict(prefix: u8, at: u32) -> Vec<u8> {
    let [a, b, c, d] = at.to_le_bytes();
    vec![0xC5, prefix, 0xAE, 0x3C, 0x25, a, b, c, d]
}

/// No cache has the page of lines any more. Code stays, so that nothing has to wait for it.
fn evict_lines(g: &mut Guest) -> Result {
    in_64_bit_mode(g, (0..64).flat_map(|n| evict(0xFA, LINES + 64 * n)))
}

/// Prefetches 8 lines, of which no two are neighbours, each so many times, and reads each right behind that. No
/// prefetch is paired with the load before it: what is loaded is used first.
fn read_behind(g: &mut Guest, kind: u8, times: usize) -> Result {
    let all = (0..8).flat_map(|n| {
        let at = LINES + 128 * n;
        let [a, b, c, d] = at.to_le_bytes();
        // mov eax, [at]; add eax, eax
        let use_of_line = vec![0x8B, 0x04, 0x25, a, b, c, d, 0x01, 0xC0];
        [prefetch(kind, at).repeat(times), use_of_line].concat()
    });
    in_64_bit_mode(g, all)
}

/// MVEX.512.0F.W0 28 /r and 29 /r are VMOVAPS, of ZMM0 here.
fn vector(opcode: u8, at: u32) -> Vec<u8> {
    let [a, b, c, d] = at.to_le_bytes();
    vec![0x62, 0xF1, 0x78, 0x08, opcode, 0x04, 0x25, a, b, c, d]
}

/// MVEX.512.F2.0F.W0 29 /r is VMOVNRAPS, and with E VMOVNRNGOAPS: of ZMM0 here.
fn stream(ordered: bool, at: u32) -> Vec<u8> {
    let [a, b, c, d] = at.to_le_bytes();
    vec![0x62, 0xF1, 0x7B, if ordered { 0x08 } else { 0x88 }, 0x29, 0x04, 0x25, a, b, c, d]
}

/// VPXORD zmm5, zmm5, zmm5: indices that are all zero.
fn no_indices() -> Vec<u8> {
    vec![0x62, 0xF1, 0x51, 0x08, 0xEF, 0xED]
}

/// MVEX.512.66.0F38.W0 C6, by the reg field: 1 and 5 are VGATHERPF0DPS and VSCATTERPF0DPS, 2 and 6 those for the
/// second level, 0 and 4 the hints. All lanes are in the line at an address, then in the next one.
fn gather_prefetch(reg: u8, at: u32) -> Vec<u8> {
    let of = |at: u32| {
        let [a, b, c, d] = at.to_le_bytes();
        // MOV eax, FFFFh; KMOV k1, eax; the prefetch of [at + zmm5 * 4].
        [
            &[0xB8, 0xFF, 0xFF, 0, 0, 0xC5, 0xF8, 0x92, 0xC8][..],
            &[0x62, 0xF2, 0x79, 0x09, 0xC6, 0x04 | reg << 3, 0xAD, a, b, c, d],
        ]
        .concat()
    };
    [of(at), of(at + 64)].concat()
}

/// Makes 64 KiB uncacheable, in the last of the variable ranges.
fn uncacheable(g: &mut Guest) -> Result {
    const MTRR_PHYS_BASE: u32 = 0x200;
    const MTRR_DEF_TYPE: u32 = 0x2FF;
    g.write_msr(MTRR_PHYS_BASE, u64::from(UNCACHEABLE))?;
    g.write_msr(MTRR_PHYS_BASE + 1, 0xF_FFFF_0000 | 0x800)?;
    // Enabled, fixed ranges as they are, write-back otherwise.
    g.mov(ecx, MTRR_DEF_TYPE)?;
    g.rdmsr()?;
    g.and(eax, 0x400)?;
    g.or(eax, 0x806)?;
    g.wrmsr()
}
