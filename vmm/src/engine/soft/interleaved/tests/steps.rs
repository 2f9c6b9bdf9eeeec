//! Turns of a step, in guests made to go wrong with a place in a block that is kept from one turn to the next: threads
//! write over the code that others are in the middle of, and over their own; instructions fault, or are to be executed
//! otherwise, in the middle of a block, at times as the page is not there that they access; x87 exceptions are asserted as
//! FERR#; calls, returns and jumps of all kinds.

use iced_x86::code_asm::{
    al, byte_ptr, cr0, cr2, cr3, cr4, dword_ptr, eax, ebp, ebx, ecx, edi, edx, esi, esp, st0, st1,
    word_ptr,
};

use super::{ENDS, IPI_VECTOR, Made, Program, Random, compare_guest, each_by_itself, seeds, spin};
use crate::program::DATA;

/// In CR0: x87 exceptions are reported by #MF, and not by FERR#.
const NUMERIC_ERROR: i32 = 1 << 5;
/// Vectors of #DE, #PF and #MF.
const DIVIDE_ERROR: u8 = 0;
const PAGE_FAULT: u8 = 14;
const X87_ERROR: u8 = 16;

const IO_APIC: u32 = 0xFEC0_0000;

/// The page directory, and the table of the first 4 MiB. Present and writable; of 4 MiB and not cached.
const DIRECTORY: u32 = 0x38_0000;
const TABLE: u32 = 0x38_1000;
const PRESENT: u32 = 3;
const LARGE_UNCACHED: u32 = 0x90;

/// Words of all threads, and where each thread has some of its own; the last ones reach into the next page.
const SHARED: u32 = DATA + 0x300;
const OWN: u32 = 0x30_0FF0;

/// A routine of six instructions, of which bytes are written over while threads execute it; in a page of its own, since
/// all that was translated of a page is gone with that.
const ROUTINE: u32 = 0x32_0000;
/// Offsets of its immediate operands, any value of which will do, and of an instruction of one byte.
const IMMEDIATES: [u32; 3] = [1, 7, 21];
const INSTRUCTION: u32 = 14;

/// Writes the routine to where it is.
fn place_routine(p: &mut Program) -> Made {
    // ADD EAX, imm32; LEA EBX, [EBX+imm8]; MOV [SHARED], EAX; NOP; ADD DWORD [SHARED+4], imm8; RET.
    let mut bytes = vec![0x05, 1, 0, 0, 0, 0x8D, 0x5B, 3, 0x89, 0x05];
    bytes.extend(SHARED.to_le_bytes());
    bytes.extend([0x90, 0x83, 0x05]);
    bytes.extend((SHARED + 4).to_le_bytes());
    bytes.extend([5, 0xC3, 0x90]);
    for (at, word) in (ROUTINE..).step_by(4).zip(bytes.as_chunks::<4>().0) {
        p.mov(dword_ptr(at), u32::from_le_bytes(*word))?;
    }
    Ok(())
}

/// Instructions one behind the other that compute and access memory.
fn straight_line(p: &mut Program, random: &mut Random) -> Made {
    for _ in 0..1 + random.below(25) {
        let own = OWN + random.below(32);
        match random.below(13) {
            0 => p.add(eax, random.below(1 << 30) as i32)?,
            1 => p.lea(ebx, dword_ptr(ebx + eax * 4 + 7))?,
            2 => p.mov(eax, dword_ptr(own))?,
            3 => p.mov(dword_ptr(own), ebx)?,
            4 => p.add(dword_ptr(SHARED + 4 * random.below(8)), eax)?,
            5 => p.xor(ebx, dword_ptr(SHARED + 4 * random.below(8)))?,
            6 => {
                p.push(eax)?;
                p.pop(edx)?;
            }
            7 => p.imul_3(edx, ebx, 5)?,
            8 => p.sete(al)?,
            9 => p.rol(ebx, 3)?,
            10 => p.movzx(edx, word_ptr(own))?,
            11 => p.adc(edx, ebx)?,
            _ => p.inc(byte_ptr(own))?,
        }
    }
    Ok(())
}

/// Goes through page tables from here on, which map what there is to itself: the memory, and 4 MiB with the APICs.
fn page(p: &mut Program) -> Made {
    p.mov(eax, TABLE | PRESENT)?;
    p.mov(dword_ptr(DIRECTORY), eax)?;
    p.mov(eax, 0xFEC0_0000 | LARGE_UNCACHED | PRESENT)?;
    p.mov(dword_ptr(DIRECTORY + 4 * 0x3FB), eax)?;
    p.mov(eax, PRESENT)?;
    p.mov(edi, TABLE)?;
    let next = p.here()?;
    p.mov(dword_ptr(edi), eax)?;
    p.add(eax, 0x1000)?;
    p.add(edi, 4)?;
    p.cmp(edi, (TABLE + 0x1000) as i32)?;
    p.jne(next)?;
    p.mov(eax, DIRECTORY)?;
    p.mov(cr3, eax)?;
    // CR4.PSE and CR0.PG.
    p.mov(eax, cr4)?;
    p.or(eax, 1 << 4)?;
    p.mov(cr4, eax)?;
    p.mov(eax, cr0)?;
    p.or(eax, i32::MIN)?;
    p.mov(cr0, eax)
}

/// Where #PF arrives: the page is there again.
fn page_fault(p: &mut Program) -> Made {
    let handler = p.here()?;
    p.push(eax)?;
    p.mov(eax, cr2)?;
    p.shr(eax, 12)?;
    p.and(eax, 0x3FF)?;
    p.or(dword_ptr(eax * 4 + TABLE), 1)?;
    p.mov(eax, cr2)?;
    p.invlpg(byte_ptr(eax))?;
    p.pop(eax)?;
    p.add(esp, 4)?;
    p.iretd()?;
    p.gate(PAGE_FAULT, handler, 0);
    Ok(())
}

/// Pages that are accessed are not there, and nobody has accessed them, if there are page tables; for other threads, not
/// until they walk them.
fn take_pages_away(p: &mut Program, random: &mut Random) -> Made {
    let first = OWN / 0x1000;
    for page in [&[first][..], &[first + 1], &[first, first + 1]][random.below(3) as usize] {
        p.mov(dword_ptr(TABLE + 4 * page), (page << 12) | (PRESENT - 1))?;
        p.invlpg(byte_ptr(page << 12))?;
    }
    match random.below(2) {
        // In both.
        0 => p.add(dword_ptr((first + 1) * 0x1000 - 2), ebx),
        // What it has read is not counted where it does not write that.
        _ => {
            p.push(ebx)?;
            p.pop(dword_ptr(first * 0x1000 + 0xFF8))
        }
    }
}

/// What cannot be executed in a step, between instructions that can.
fn otherwise(p: &mut Program, random: &mut Random) -> Made {
    p.inc(ebx)?;
    match random.below(8) {
        7 => take_pages_away(p, random)?,
        // Divides by 0 or 3; behind #DE, by 7.
        0 => {
            p.mov(eax, 1000 + random.below(100))?;
            p.xor(edx, edx)?;
            p.mov(ecx, 3 * random.below(2))?;
            p.div(ecx)?;
        }
        1 => p.rdtsc()?,
        2 => p.lock().add(dword_ptr(SHARED), ebx)?,
        3 => p.xchg(dword_ptr(SHARED + 8), ebx)?,
        4 => {
            p.mov(edi, 0x30_2000 + 4 * random.below(900))?;
            p.mov(ecx, random.below(20))?;
            p.rep().stosd()?;
        }
        // A register of the local APIC, in the middle of a block.
        5 => p.mov(edx, dword_ptr(crate::program::LAPIC + 0x20))?,
        _ => p.cld()?,
    }
    p.dec(ebx)
}

/// Divides by zero with the x87 unit, at times where that is not masked: the next instruction that waits reports it, by
/// FERR# or #MF.
fn divide_x87(p: &mut Program, random: &mut Random) -> Made {
    p.fninit()?;
    p.mov(word_ptr(OWN + 64), [0x37F, 0x37B, 0x37B][random.below(3) as usize])?;
    p.fldcw(word_ptr(OWN + 64))?;
    p.fld1()?;
    p.fldz()?;
    p.inc(ebx)?;
    p.fdivp(st1, st0)?;
    p.inc(ebx)?;
    p.fld1()?;
    p.inc(ebx)?;
    p.fnclex()?;
    p.fninit()?;
    // FERR# may be asserted anew.
    p.out(0xF0, al)
}

/// Calls and jumps, some of which are taken at times.
fn transfers(p: &mut Program, random: &mut Random) -> Made {
    let (mut over, mut end, mut called) = (p.create_label(), p.create_label(), p.create_label());
    match random.below(4) {
        0 => {
            p.address(esi, end)?;
            p.inc(ebx)?;
            p.jmp(esi)?;
        }
        1 => {
            p.mov(ecx, 1 + random.below(6))?;
            let again = p.here()?;
            p.add(dword_ptr(SHARED + 12), ecx)?;
            p.loop_(again)?;
            p.jmp(end)?;
        }
        2 => {
            p.test(dword_ptr(SHARED), 1 << random.below(8))?;
            p.jnz(over)?;
            p.add(dword_ptr(SHARED + 16), 1)?;
            p.jmp(end)?;
        }
        _ => {
            p.call(called)?;
            p.jmp(end)?;
        }
    }
    p.place(&mut called)?;
    p.add(ebx, 3)?;
    p.mov(eax, dword_ptr(esp))?;
    p.test(eax, 1)?;
    p.jz(over)?;
    p.inc(ebx)?;
    p.place(&mut over)?;
    p.dec(ebx)?;
    p.cmp(esp, ebp)?;
    // Only what was called has something to return to: the others have come here by a jump.
    let mut returns = p.create_label();
    p.jb(returns)?;
    p.jmp(end)?;
    p.place(&mut returns)?;
    p.ret()?;
    p.place(&mut end)?;
    p.nop()
}

/// Writes over the routine, as others may be in the middle of it.
fn write_over(p: &mut Program, random: &mut Random) -> Made {
    p.mov(esi, ROUTINE)?;
    for _ in 0..1 + random.below(3) {
        match random.below(3) {
            // NOP, INC EBX or DEC EBX.
            0 => {
                let instruction = [0x90, 0x43, 0x4B][random.below(3) as usize];
                p.mov(byte_ptr(esi + INSTRUCTION), instruction)?;
            }
            _ => {
                let at = IMMEDIATES[random.below(3) as usize];
                p.mov(byte_ptr(esi + at), random.below(128) as i32)?;
            }
        }
        p.inc(ebx)?;
    }
    Ok(())
}

/// Writes over an instruction that comes soon, in the same block.
fn write_ahead(p: &mut Program, random: &mut Random) -> Made {
    let mut ahead = p.create_label();
    p.address(esi, ahead)?;
    p.mov(byte_ptr(esi), [0x43, 0x4B][random.below(2) as usize])?;
    for _ in 0..random.below(4) {
        p.inc(eax)?;
    }
    p.place(&mut ahead)?;
    p.db(&[0x43])?;
    p.inc(eax)
}

/// Has FERR#, which is IRQ13, interrupt the first thread.
fn route_ferr(p: &mut Program) -> Made {
    let words = [(0x10 + 2 * 13 + 1, 0), (0x10 + 2 * 13, u32::from(IPI_VECTOR))];
    for (index, word) in words {
        p.mov(dword_ptr(IO_APIC), index)?;
        p.mov(dword_ptr(IO_APIC + 0x10), word)?;
    }
    Ok(())
}

/// A guest whose threads do all of this, and count one event or another of theirs far from an overflow.
fn guest(random: &mut Random, cpus: u32) -> Vec<u8> {
    const EVENTS: [u32; 11] = [0x03, 0x15, 0x17, 0x1F, 0x2D, 0x2E, 0x2A, 0x16, 0x00, 0x00, 0x01];
    let (numeric_error, pages) = (random.below(2) == 0, random.below(2) == 0);
    // All that was translated of its page is gone with that, and few turns are steps.
    let writes_ahead = random.below(4) == 0;
    let prepare = |p: &mut Program| {
        let mut over = p.create_label();
        p.jmp(over)?;
        let divide_error = p.here()?;
        p.mov(ecx, 7)?;
        p.iretd()?;
        p.gate(DIVIDE_ERROR, divide_error, 0);
        let x87_error = p.here()?;
        p.fnclex()?;
        p.iretd()?;
        p.gate(X87_ERROR, x87_error, 0);
        page_fault(p)?;
        p.place(&mut over)?;
        place_routine(p)?;
        p.mov(eax, cr0)?;
        match numeric_error {
            true => p.or(eax, NUMERIC_ERROR)?,
            false => p.and(eax, !NUMERIC_ERROR)?,
        }
        p.mov(cr0, eax)?;
        if pages {
            page(p)?;
        }
        route_ferr(p)?;
        p.write_msr(0x2F, 3)?;
        p.write_msr(0x20, 1 << 39)?;
        p.write_msr(0x21, 1 << 39)?;
        p.write_msr(0x29, 0x2E | 3 << 16 | 1 << 22)
    };
    each_by_itself(cpus, true, prepare, |p| {
        let event = EVENTS[random.below(11) as usize];
        p.write_msr(0x28, u64::from(event | 3 << 16 | 1 << 22))?;
        (0..8).try_for_each(|_| match random.below(11) {
            10 => take_pages_away(p, random),
            9 => divide_x87(p, random),
            0 | 1 => straight_line(p, random),
            // Interrupts are taken from here on, or are not.
            8 => match random.below(2) {
                0 => p.sti(),
                _ => p.cli(),
            },
            2 => otherwise(p, random),
            3 => {
                // Nothing is above the stack pointer that was not pushed by a call.
                p.push(ebp)?;
                p.mov(ebp, esp)?;
                transfers(p, random)?;
                p.pop(ebp)
            }
            4 => write_over(p, random),
            5 if writes_ahead => write_ahead(p, random),
            5 => otherwise(p, random),
            6 => spin(p, 1 + random.below(10)),
            _ => {
                p.mov(ecx, 1 + random.below(8))?;
                p.mov(edi, ROUTINE)?;
                let again = p.here()?;
                p.call(edi)?;
                p.dec(ecx)?;
                p.jnz(again)
            }
        })
    })
    .unwrap()
}

#[test]
fn a_place_in_a_block_is_where_its_thread_goes_on() {
    for cpus in [1, 2, 3, 4, 6] {
        for seed in seeds(0, 24) {
            let random = &mut Random(10_000 * u64::from(cpus) + seed);
            let bytes = guest(random, cpus);
            compare_guest(cpus, seed, &bytes, random);
        }
    }
    let ends = ENDS.get();
    assert!(ends.steps > 100_000 && ends.acted > 100, "{ends:?}");
    assert!(ends.not_steps > 1000 && ends.left > 100 && ends.stopped > 100, "{ends:?}");
}
