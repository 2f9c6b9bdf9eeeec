//! What decoders make of instructions: operations of each kind, and where they are executed.

use guest_tests::{Guest, Part, Result, SCRATCH};
use iced_x86::code_asm::{cl, cx, dword_ptr, eax, ecx, edi, edx, esi, esp, st0, st1};

use super::Program;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("memory operands", "8 times ADD from and to memory, MOV, PUSH, POP", operands),
    Program::new("stack pointer", "8 times PUSH, MOV of ESP, POP", stack_pointer),
    Program::new("pops", "24 POP, behind 15 NOP", pops),
    Program::new("copied string", "REP MOVSD of 32 doublewords", copied),
    Program::new("divisions", "4 times DIV of 8, 16 and 32 bits, and MUL", divisions),
    Program {
        runs_on: out_of_order,
        prepare: |g| g.fninit(),
        ..Program::new(
            "x87 operands",
            "8 FADD and 8 FMUL of registers, as many of memory, 2 FLD1, 2 FLD, 4 FDIV",
            x87_operands,
        )
    },
    Program {
        runs_on: out_of_order,
        set_up: |g| g.mov(dword_ptr(SCRATCH), 1),
        prepare: |g| g.fninit(),
        ..Program::new("denormal operands", "4 FADD of a denormal single in memory", |g| {
            g.fld1()?;
            (0..4).try_for_each(|_| g.fadd(dword_ptr(SCRATCH)))
        })
    },
];

/// Its decoders make operations, or count what these programs move.
pub(super) fn out_of_order(part: &Part) -> bool {
    part.name != "p55c"
}

fn operands(g: &mut Guest) -> Result {
    for _ in 0..8 {
        g.add(eax, dword_ptr(SCRATCH))?;
        g.mov(dword_ptr(SCRATCH), eax)?;
        g.add(dword_ptr(SCRATCH), eax)?;
        g.push(eax)?;
        g.pop(eax)?;
    }
    Ok(())
}

fn stack_pointer(g: &mut Guest) -> Result {
    for _ in 0..8 {
        g.push(eax)?;
        g.mov(ecx, esp)?;
        g.pop(eax)?;
    }
    Ok(())
}

/// The NOPs let fetch get ahead of the decoders, so that none of them has to wait for a POP.
fn pops(g: &mut Guest) -> Result {
    g.sub(esp, 24 * 4)?;
    for _ in 0..15 {
        g.nop()?;
    }
    (0..24).try_for_each(|_| g.pop(eax))
}

fn copied(g: &mut Guest) -> Result {
    g.mov(esi, SCRATCH)?;
    g.mov(edi, SCRATCH + 0x1800)?;
    g.mov(ecx, 32)?;
    g.rep().movsd()
}

fn divisions(g: &mut Guest) -> Result {
    g.xor(eax, eax)?;
    g.xor(edx, edx)?;
    g.mov(ecx, 1)?;
    for _ in 0..4 {
        g.div(cl)?;
        g.div(cx)?;
        g.div(ecx)?;
        g.mul(ecx)?;
    }
    Ok(())
}

fn x87_operands(g: &mut Guest) -> Result {
    for _ in 0..2 {
        g.fld1()?;
        g.fld(dword_ptr(SCRATCH))?;
    }
    for _ in 0..8 {
        g.fadd_2(st0, st1)?;
        g.fmul_2(st0, st1)?;
        g.fadd(dword_ptr(SCRATCH))?;
        g.fmul(dword_ptr(SCRATCH))?;
    }
    (0..4).try_for_each(|_| g.fdiv_2(st0, st1))
}
