//! Floating-point numbers that processors leave to microcode.

use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{dword_ptr, qword_ptr, st0, xmm0, xmm1};

use super::Program;

/// Where a denormal single is, 1/2, 1, the smallest normal single, and the double 2^-1000.
const DENORMAL: u32 = SCRATCH;
const HALF: u32 = SCRATCH + 4;
const ONE: u32 = SCRATCH + 8;
const SMALLEST: u32 = SCRATCH + 12;
const SMALL_DOUBLE: u32 = SCRATCH + 16;
/// Where results go.
const RESULT: u32 = SCRATCH + 32;

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        set_up: |g| {
            numbers(g)?;
            g.fninit()
        },
        ..Program::new(
            "x87 numbers",
            "4 loads of a denormal single, 4 stores of what is too small for one",
            |g| {
                for _ in 0..4 {
                    g.fld(dword_ptr(DENORMAL))?;
                    g.fstp(st0)?;
                    g.fld(qword_ptr(SMALL_DOUBLE))?;
                    g.fstp(dword_ptr(RESULT))?;
                }
                Ok(())
            },
        )
    },
    Program {
        runs_on: |part| part.sse,
        set_up: |g| {
            numbers(g)?;
            g.set_cr4(1 << 9)
        },
        ..Program::new(
            "SSE numbers",
            "4 additions of a denormal, 4 multiplications that give one",
            |g| {
                for _ in 0..4 {
                    g.movss(xmm0, dword_ptr(ONE))?;
                    g.addss(xmm0, dword_ptr(DENORMAL))?;
                    g.movss(xmm1, dword_ptr(SMALLEST))?;
                    g.mulss(xmm1, dword_ptr(HALF))?;
                }
                Ok(())
            },
        )
    },
];

fn numbers(g: &mut Guest) -> Result {
    for (at, bits) in [
        (DENORMAL, 1),
        (HALF, 0x3f00_0000),
        (ONE, 0x3f80_0000),
        (SMALLEST, 0x0080_0000),
        (SMALL_DOUBLE, 0),
        (SMALL_DOUBLE + 4, 0x0170_0000),
    ] {
        g.mov(dword_ptr(at), bits)?;
    }
    Ok(())
}
