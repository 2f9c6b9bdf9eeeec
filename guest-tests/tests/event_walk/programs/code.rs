//! Fetches of instructions.

use guest_tests::{Guest, Result};
use iced_x86::code_asm::{al, byte_ptr, dword_ptr, eax, ecx, edi};

use super::data::empty_caches;
use super::{CODE, Program};

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        set_up: |g| chain(g, 64, 64),
        prepare: empty_caches,
        ..Program::new("code", "64 jumps, each in a line that no cache has", call_code)
    },
    Program {
        set_up: |g| chain(g, 2048, 64),
        ..Program::new("much code", "2,048 jumps, one each 64 bytes, which the L2 has", call_code)
    },
    Program {
        set_up: |g| chain(g, 64, 64),
        prepare: empty_caches,
        ..Program::new("written code", "64 lines written, then jumped through", |g| {
            g.mov(edi, CODE)?;
            g.mov(ecx, 64)?;
            let next = g.here()?;
            g.mov(al, byte_ptr(edi))?;
            g.mov(byte_ptr(edi), al)?;
            g.add(edi, 64)?;
            g.dec(ecx)?;
            g.jnz(next)?;
            call_code(g)
        })
    },
    Program {
        set_up: |g| chain(g, 16, 64),
        ..Program::new("changed code", "16 times, the code that runs writes to itself", changed)
    },
    Program::new(
        "vanished branches",
        "16 times, a jump that was executed is no jump any more",
        vanished,
    ),
];

/// Writes jumps, each to the next, `stride` bytes apart from [`CODE`] on, and a return. Changes EAX, ECX
/// and EDI.
pub(super) fn chain(g: &mut Guest, jumps: u32, stride: i32) -> Result {
    g.mov(edi, CODE)?;
    g.mov(ecx, jumps)?;
    let next = g.here()?;
    g.mov(byte_ptr(edi), 0xE9)?;
    g.mov(dword_ptr(edi + 1), stride - 5)?;
    g.add(edi, stride)?;
    g.dec(ecx)?;
    g.jnz(next)?;
    g.mov(byte_ptr(edi), 0xC3)
}

pub(super) fn call_code(g: &mut Guest) -> Result {
    g.mov(eax, CODE)?;
    g.call(eax)
}

fn changed(g: &mut Guest) -> Result {
    for _ in 0..16 {
        let mut written = g.create_label();
        g.address(edi, written)?;
        g.mov(byte_ptr(edi), 0x90)?;
        g.place(&mut written)?;
        g.nop()?;
    }
    Ok(())
}

/// A place is jumped to with JMP (EBh) to what is behind it, then with NOP, NOP.
fn vanished(g: &mut Guest) -> Result {
    g.mov(ecx, 16)?;
    g.mov(edi, CODE + 0x1_0040)?;
    let next = g.here()?;
    g.mov(dword_ptr(edi), 0x9090_00EB_u32)?;
    g.mov(byte_ptr(edi + 4), 0xC3)?;
    for _ in 0..3 {
        g.call(edi)?;
    }
    g.mov(dword_ptr(edi), 0x9090_9090_u32)?;
    g.call(edi)?;
    g.dec(ecx)?;
    g.jnz(next)
}
