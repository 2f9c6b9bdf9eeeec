//! Ports, locks, segments, interrupts, breakpoints, and what is counted by the kind of instruction.

use guest_tests::guest::EOI;
use guest_tests::{Guest, PMI_VECTOR, Result, SCRATCH};
use iced_x86::code_asm::{
    al, dr0, dr1, dr2, dr3, dr7, ds, dword_ptr, eax, ecx, es, fs, gs, mm0, mm1, qword_ptr, ss, st0,
    st1, xmm0, xmm1,
};

use super::Program;
use super::data::empty_caches;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("ports", "8 writes to, and 8 reads from, a port", ports),
    Program {
        prepare: empty_caches,
        ..Program::new(
            "locks",
            "16 locked additions to lines that no cache has, 4 across two lines",
            locks,
        )
    },
    Program::new("segments", "4 loads of each segment register", segments),
    Program::new("misaligned", "4 loads and 4 stores across 8 bytes", misaligned),
    Program {
        set_up: handler,
        ..Program::new(
            "interrupts",
            "8 interrupts, each pending while four NOP and STI are executed",
            interrupts,
        )
    },
    Program {
        set_up: breakpoints,
        ..Program::new("breakpoints", "4 stores that match DR0 to DR3", |g| {
            (0..4).try_for_each(|_| g.mov(dword_ptr(SCRATCH), eax))
        })
    },
    Program {
        runs_on: |part| part.sse2,
        ..Program::new("CPUID", "4 CPUID", |g| {
            (0..4).try_for_each(|_| {
                g.xor(eax, eax)?;
                g.cpuid()
            })
        })
    },
    Program::new("x87", "4 x87 computations", |g| {
        g.fld1()?;
        g.fld1()?;
        (0..4).try_for_each(|_| g.fadd_2(st0, st1))?;
        g.fstp(st0)?;
        g.fstp(dword_ptr(SCRATCH))
    }),
    Program {
        runs_on: |part| part.mmx,
        prepare: empty_caches,
        ..Program::new("MMX", "MMX instructions of each kind, and x87 before and behind", mmx)
    },
    Program {
        runs_on: |part| part.mmx,
        prepare: |g| {
            empty_caches(g)?;
            g.mov(eax, dword_ptr(SCRATCH))
        },
        ..Program::new("MMX sums stored", "16 times a sum, stored to a line that was read", |g| {
            for _ in 0..16 {
                g.paddb(mm0, mm1)?;
                g.movq(qword_ptr(SCRATCH), mm0)?;
            }
            g.emms()
        })
    },
    Program {
        runs_on: |part| part.mmx,
        prepare: empty_caches,
        ..Program::new("MMX stores missed", "32 MMX stores to lines that no cache has", |g| {
            for n in 0..32 {
                g.movq(qword_ptr(SCRATCH + 64 * n), mm0)?;
            }
            g.emms()
        })
    },
    Program {
        runs_on: |part| part.mmx,
        prepare: |g| {
            empty_caches(g)?;
            g.mov(eax, dword_ptr(SCRATCH))
        },
        ..Program::new(
            "MMX stores",
            "16 times two MMX stores: to a line that no cache has, and to one that was read",
            mmx_stores,
        )
    },
    Program {
        runs_on: |part| part.sse,
        set_up: |g| g.set_cr4(1 << 9),
        ..Program::new("SSE", "4 packed and 4 scalar SSE computations, and a comparison", |g| {
            g.xorps(xmm0, xmm0)?;
            for _ in 0..4 {
                g.addps(xmm1, xmm0)?;
                g.addss(xmm1, xmm0)?;
            }
            g.comiss(xmm0, xmm0)
        })
    },
    Program {
        runs_on: |part| part.sse2,
        set_up: |g| g.set_cr4(1 << 9),
        ..Program::new("SSE2", "4 packed and 4 scalar SSE2 computations, and a comparison", |g| {
            for _ in 0..4 {
                g.addpd(xmm1, xmm0)?;
                g.addsd(xmm1, xmm0)?;
            }
            g.comisd(xmm0, xmm0)
        })
    },
];

fn ports(g: &mut Guest) -> Result {
    // POST codes: nobody minds them.
    for _ in 0..8 {
        g.out(0x80, al)?;
        g.in_(al, 0x80)?;
    }
    Ok(())
}

fn locks(g: &mut Guest) -> Result {
    for n in 0..16 {
        g.lock().inc(dword_ptr(SCRATCH + 128 * n))?;
    }
    for n in 0..4 {
        g.lock().inc(dword_ptr(SCRATCH + 128 * n + 62))?;
    }
    Ok(())
}

fn segments(g: &mut Guest) -> Result {
    for _ in 0..4 {
        let mut there = g.create_label();
        g.mov(eax, 0x10)?;
        g.mov(es, eax)?;
        g.mov(ss, eax)?;
        g.mov(ds, eax)?;
        g.mov(fs, eax)?;
        g.mov(gs, eax)?;
        g.push(8)?;
        g.push_address(there)?;
        g.retf()?;
        g.place(&mut there)?;
    }
    Ok(())
}

fn misaligned(g: &mut Guest) -> Result {
    for n in 0..4 {
        g.mov(ecx, dword_ptr(SCRATCH + 16 * n + 6))?;
        g.mov(dword_ptr(SCRATCH + 16 * n + 6), ecx)?;
    }
    Ok(())
}

/// A handler of [`PMI_VECTOR`] that only ends the interrupt.
fn handler(g: &mut Guest) -> Result {
    let mut over = g.create_label();
    g.jmp(over)?;
    let entry = g.here()?;
    g.gate(PMI_VECTOR, entry, 0);
    g.write_lapic(EOI, 0)?;
    g.iretd()?;
    g.place(&mut over)
}

fn interrupts(g: &mut Guest) -> Result {
    const ICR: i32 = 0x300;
    const SELF: u32 = 1 << 18 | 1 << 14;
    for _ in 0..8 {
        g.write_lapic(ICR, SELF | u32::from(PMI_VECTOR))?;
        (0..4).try_for_each(|_| g.nop())?;
        g.sti()?;
        g.nop()?;
        g.cli()?;
    }
    Ok(())
}

/// Writes of four bytes (LEN 3, R/W 1), not enabled.
fn breakpoints(g: &mut Guest) -> Result {
    g.mov(eax, SCRATCH)?;
    g.mov(dr0, eax)?;
    g.mov(dr1, eax)?;
    g.mov(dr2, eax)?;
    g.mov(dr3, eax)?;
    g.mov(eax, 0xDDDD_0000_u32)?;
    g.mov(dr7, eax)
}

fn mmx(g: &mut Guest) -> Result {
    g.fld1()?;
    g.fstp(st0)?;
    g.movq(mm0, qword_ptr(SCRATCH))?;
    g.movq(mm0, qword_ptr(SCRATCH + 60))?;
    g.movq(qword_ptr(SCRATCH + 4096), mm0)?;
    g.pcmpeqd(mm1, mm1)?;
    g.paddusb(mm1, mm1)?;
    g.pmullw(mm0, mm1)?;
    g.psllw(mm0, mm1)?;
    g.packsswb(mm0, mm1)?;
    g.punpcklbw(mm0, mm1)?;
    g.pand(mm0, mm1)?;
    g.paddb(mm0, mm1)?;
    g.emms()?;
    g.fld1()?;
    g.fstp(st0)
}

fn mmx_stores(g: &mut Guest) -> Result {
    for n in 0..16 {
        g.movq(qword_ptr(SCRATCH + 0x1000 + 64 * n), mm0)?;
        g.movq(qword_ptr(SCRATCH), mm0)?;
    }
    g.emms()
}
