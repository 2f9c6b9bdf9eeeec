//! Transfers of control.

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::{Guest, Result};
use iced_x86::code_asm::{dword_ptr, eax, ecx, edx, esi, esp};

use super::Program;

pub(super) const PROGRAMS: &[Program] = &[
    Program::new("random branches", "256 conditional branches that no history foretells", random),
    Program::new(
        "indirect branches",
        "256 jumps and 256 calls to one of four places at random",
        indirect,
    ),
    Program::new("deep calls", "64 calls, one within the other", deep),
    Program::new("strange returns", "16 returns to where no call was", strange_returns),
    Program::new("far transfers", "8 far returns, 8 software interrupts, 8 exceptions", far),
];

/// Selector of code at CPL 0.
const KERNEL_CS: i32 = 0x08;
/// The next number of a generator (xorshift, G. Marsaglia) is in EAX. Changes EDX.
fn random_number(g: &mut Guest) -> Result {
    for (left, bits) in [(true, 13), (false, 17), (true, 5)] {
        g.mov(edx, eax)?;
        if left {
            g.shl(edx, bits)?;
        } else {
            g.shr(edx, bits)?;
        }
        g.xor(eax, edx)?;
    }
    Ok(())
}

fn random(g: &mut Guest) -> Result {
    let mut over = g.create_label();
    g.mov(eax, 0x1234_5678)?;
    g.mov(ecx, 256)?;
    let next = g.here()?;
    random_number(g)?;
    g.test(eax, 0x10)?;
    g.jz(over)?;
    g.nop()?;
    g.place(&mut over)?;
    g.dec(ecx)?;
    g.jnz(next)
}

/// The four addresses that are jumped to, and the four that are called, are on the stack.
fn indirect(g: &mut Guest) -> Result {
    let mut labels: Vec<_> = (0..8).map(|_| g.create_label()).collect();
    let (mut begin, mut calls) = (g.create_label(), g.create_label());
    g.sub(esp, 32)?;
    for (n, &label) in labels.iter().enumerate() {
        g.store_address(dword_ptr(esp + 4 * n), label)?;
    }
    g.mov(eax, 0x1234_5678)?;
    g.mov(ecx, 256)?;
    g.jmp(begin)?;
    for label in &mut labels[..4] {
        g.place(label)?;
        g.jmp(calls)?;
    }
    for label in &mut labels[4..] {
        g.place(label)?;
        g.ret()?;
    }
    g.place(&mut begin)?;
    random_number(g)?;
    g.mov(esi, eax)?;
    g.shr(esi, 8)?;
    g.and(esi, 3)?;
    g.jmp(dword_ptr(esp + esi * 4))?;
    g.place(&mut calls)?;
    g.call(dword_ptr(esp + esi * 4 + 16))?;
    g.dec(ecx)?;
    g.jnz(begin)?;
    g.add(esp, 32)
}

/// MOV, CALL, JMP; each of 64 calls DEC, JZ, CALL, RET, but the last, which does not call.
fn deep(g: &mut Guest) -> Result {
    let (mut function, mut last, mut over) = (g.create_label(), g.create_label(), g.create_label());
    g.mov(ecx, 64)?;
    g.call(function)?;
    g.jmp(over)?;
    g.place(&mut function)?;
    g.dec(ecx)?;
    g.jz(last)?;
    g.call(function)?;
    g.place(&mut last)?;
    g.ret()?;
    g.place(&mut over)
}

fn strange_returns(g: &mut Guest) -> Result {
    for _ in 0..16 {
        let mut there = g.create_label();
        g.push_address(there)?;
        g.ret()?;
        g.place(&mut there)?;
    }
    Ok(())
}

fn far(g: &mut Guest) -> Result {
    for _ in 0..8 {
        let mut there = g.create_label();
        g.push(KERNEL_CS)?;
        g.push_address(there)?;
        g.retf()?;
        g.place(&mut there)?;
        g.at_cpl3(EFLAGS_CLEAR, |_| Ok(()))?;
        g.attempt(|g| g.ud2())?;
    }
    Ok(())
}
