//! The programs, each a [`Routine`].

use iced_x86::code_asm::{CodeAssembler, dword_ptr, eax, ecx, edx, esi};

use crate::Result;
use crate::routine::{BASE, Routine};

/// A loop of `period` iterations, round and round: its branch is taken `period - 1` times, then not.
pub(super) fn inner_loop(period: u32) -> Result<Routine> {
    let mut routine = Routine { entry: BASE, ..Routine::default() };
    routine.assemble(BASE, |a| {
        let (mut outer, mut inner) = (a.create_label(), a.create_label());
        a.set_label(&mut outer)?;
        a.mov(ecx, period)?;
        fill(a, 16 - 5)?;
        a.set_label(&mut inner)?;
        a.dec(ecx)?;
        a.jnz(inner)?;
        // So far away that no part takes the two branches for one.
        fill(a, 32 - 3)?;
        a.dec(esi)?;
        a.jnz(outer)?;
        a.ret()
    })?;
    Ok(routine)
}

/// A branch that is taken as the bits of `pattern` say, from the highest on, round and round. Only the
/// loop's own branch comes between, which is always taken.
pub(super) fn pattern(pattern: u32) -> Result<Routine> {
    let mut routine = Routine { entry: BASE, ..Routine::default() };
    routine.assemble(BASE, |a| {
        let (mut next, mut there) = (a.create_label(), a.create_label());
        a.mov(eax, pattern)?;
        // 32 branches a round.
        a.shl(esi, 5)?;
        fill(a, 16 - 8)?;
        a.set_label(&mut next)?;
        a.rol(eax, 1)?;
        a.jc(there)?;
        a.nop()?;
        a.set_label(&mut there)?;
        fill(a, 32 - 5)?;
        a.dec(esi)?;
        a.jnz(next)?;
        a.ret()
    })?;
    Ok(routine)
}

/// Branches in [`random`] that are taken at random.
pub(super) const RANDOM: u32 = 16;

/// [`RANDOM`] branches that are taken at random (G. Marsaglia, xorshift), and that of a loop around them.
pub(super) fn random() -> Result<Routine> {
    let mut routine = Routine { entry: BASE, ..Routine::default() };
    routine.assemble(BASE, |a| {
        let mut next = a.create_label();
        a.mov(eax, 0x1234_5678)?;
        a.set_label(&mut next)?;
        for _ in 0..RANDOM {
            let mut there = a.create_label();
            for (left, bits) in [(true, 13), (false, 17), (true, 5)] {
                a.mov(edx, eax)?;
                if left {
                    a.shl(edx, bits)?;
                } else {
                    a.shr(edx, bits)?;
                }
                a.xor(eax, edx)?;
            }
            a.test(eax, 0x10)?;
            a.jz(there)?;
            a.nop()?;
            a.set_label(&mut there)?;
        }
        a.dec(esi)?;
        a.jnz(next)?;
        a.ret()
    })?;
    Ok(routine)
}

/// So many branches, each taken to the next, `apart` bytes apart; the last one goes back to the first.
///
/// All have six bytes, so that first and last bytes are equally far apart.
pub(super) fn taken(branches: u32, apart: u32) -> Routine {
    let mut routine = Routine { entry: BASE + 63, ..Routine::default() };
    let place = |n: u32| BASE + 64 + n * apart;
    // DEC ESI before the first branch; behind it, when ESI is zero, RET.
    routine.pieces.push((routine.entry, vec![0x4E]));
    for n in 0..branches {
        let next = if n + 1 < branches { place(n + 1) } else { routine.entry };
        let displacement = next.wrapping_sub(place(n) + 6).to_le_bytes();
        routine.pieces.push((place(n), [&[0x0F, 0x85][..], &displacement].concat()));
    }
    routine.pieces.push((place(0) + 6, vec![0xC3]));
    routine
}

/// So many calls, one within the other, each from another place, then as many returns.
pub(super) fn nested_calls(calls: u32) -> Result<Routine> {
    const FUNCTION: u32 = 64;
    let mut routine = Routine { entry: BASE, ..Routine::default() };
    let function = |n: u32| BASE + (n + 1) * FUNCTION;
    routine.assemble(BASE, |a| {
        let mut next = a.create_label();
        a.set_label(&mut next)?;
        a.call(u64::from(function(0)))?;
        a.dec(esi)?;
        a.jnz(next)?;
        a.ret()
    })?;
    for n in 0..calls {
        routine.assemble(function(n), |a| {
            if n + 1 < calls {
                a.call(u64::from(function(n + 1)))?;
            }
            a.ret()
        })?;
    }
    Ok(routine)
}

/// The same by a function that calls itself, from two places in turn. All returns are one instruction, which
/// goes elsewhere each time: the last target tells nothing.
pub(super) fn recursion(calls: u32) -> Result<Routine> {
    let mut routine = Routine { entry: BASE, ..Routine::default() };
    routine.assemble(BASE, |a| {
        let mut labels: Vec<_> = (0..4).map(|_| a.create_label()).collect();
        let [next, function, odd, over] = &mut labels[..] else { unreachable!("four labels") };
        a.set_label(next)?;
        a.mov(ecx, calls)?;
        a.call(*function)?;
        a.dec(esi)?;
        a.jnz(*next)?;
        a.ret()?;
        // No two branches end in the same four bytes, by which the Pentium tells them apart.
        fill(a, 4)?;
        a.set_label(function)?;
        a.dec(ecx)?;
        a.jz(*over)?;
        a.test(ecx, 1)?;
        a.jnz(*odd)?;
        a.call(*function)?;
        fill(a, 4)?;
        a.jmp(*over)?;
        a.set_label(odd)?;
        a.call(*function)?;
        fill(a, 4)?;
        a.set_label(over)?;
        a.ret()
    })?;
    Ok(routine)
}

/// An indirect jump to each of so many places in turn.
pub(super) fn indirect(places: u32) -> Result<Routine> {
    const TABLE: u32 = BASE + 0x1000;
    // Not a multiple of a power of two apart, so that any of their low bits tell them apart.
    let place = |n: u32| BASE + 0x2000 + n * 0x9C;
    let mut routine = Routine { entry: BASE, ..Routine::default() };
    let back = routine.assemble(BASE, |a| {
        a.mov(eax, esi)?;
        a.and(eax, places as i32 - 1)?;
        a.jmp(dword_ptr(eax * 4 + TABLE))
    })?;
    routine.assemble(back, |a| {
        a.dec(esi)?;
        a.jnz(u64::from(BASE))?;
        a.ret()
    })?;
    for n in 0..places {
        routine.pieces.push((TABLE + 4 * n, place(n).to_le_bytes().to_vec()));
        routine.assemble(place(n), |a| a.jmp(u64::from(back)))?;
    }
    Ok(routine)
}

/// So many bytes of NOP.
fn fill(a: &mut CodeAssembler, bytes: u32) -> guest_tests::Result {
    (0..bytes).try_for_each(|_| a.nop())
}
