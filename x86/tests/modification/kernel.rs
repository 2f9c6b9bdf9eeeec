//! What surrounds the programs: handlers that begin anew after a fault, and services that change
//! mappings and code from outside.
//!
//! The kernel itself is never modified, and it flushes what it remaps: so a processor with a TLB and
//! one without see the same.

use iced_x86::code_asm::{CodeAssembler, *};

use crate::gadget::SERVICE_COUNT;
use crate::guest::{FRAMES, FRAMES_LEN, MARKED, Mode, Place, REAL_DATA, private as p, sel};

/// Bytes for one entry point.
pub(crate) const ENTRY: u64 = 0x100;

type Assembled = Result<(), iced_x86::IcedError>;

/// The kernels of all modes and processors.
pub(crate) struct Kernels(Vec<Vec<u8>>);

impl Kernels {
    pub(crate) fn new() -> Self {
        let place = |mode, cpu| Place { mode, cpu, phase: 0 };
        let all = Mode::ALL.iter().flat_map(|&mode| (0..2).map(move |cpu| place(mode, cpu)));
        Self(all.map(|place| assemble(&place)).collect())
    }

    pub(crate) fn of(&self, place: &Place) -> &[u8] {
        &self.0[place.mode as usize * 2 + place.cpu]
    }
}

/// The entry points, faults first, then the services, [`ENTRY`] bytes apart.
fn assemble(place: &Place) -> Vec<u8> {
    let mut code = Vec::new();
    for n in 0..=SERVICE_COUNT {
        let mut a = CodeAssembler::new(place.mode.bits()).unwrap();
        match (place.mode, n) {
            (Mode::Real, 0) => real_fault(&mut a, place),
            (Mode::Real, _) => real_store(&mut a, place),
            (_, 0) => fault(&mut a, place),
            (_, n) => service(&mut a, place, n - 1),
        }
        .unwrap();
        let bytes = a.assemble(place.private(p::KERNEL) + u64::from(n) * ENTRY).unwrap();
        assert!(bytes.len() <= ENTRY as usize);
        code.extend_from_slice(&bytes);
        code.resize((usize::from(n) + 1) * ENTRY as usize, 0xf4);
    }
    code
}

/// Steps the kernel's random number, into EAX.
fn random(a: &mut CodeAssembler, at: AsmMemoryOperand) -> Assembled {
    a.imul_3(eax, at, 1_664_525)?;
    a.add(eax, 1_013_904_223)?;
    a.mov(at, eax)
}

fn real_fault(a: &mut CodeAssembler, place: &Place) -> Assembled {
    a.mov(ax, (place.private(0) >> 4) as u32)?;
    a.mov(ds, ax)?;
    a.mov(ax, (REAL_DATA >> 4) as u32)?;
    a.mov(es, ax)?;
    a.mov(ss, ax)?;
    a.mov(sp, place.stack() as u32)?;
    random(a, dword_ptr(p::DATA))?;
    a.shr(eax, 12)?;
    a.mov(bx, ax)?;
    a.and(bx, 0xf0)?;
    a.push(2u32)?;
    a.push(word_ptr(bx + p::RESTARTS as i32 + 8))?;
    a.push(word_ptr(bx + p::RESTARTS as i32))?;
    a.shr(eax, 4)?;
    a.mov(bx, ax)?;
    a.and(bx, 0x78)?;
    a.mov(di, word_ptr(bx + p::TARGETS as i32))?;
    a.mov(si, word_ptr(bx + p::SOURCES as i32))?;
    a.push(es)?;
    a.pop(ds)?;
    a.iret()
}

/// Writes a word somewhere into the programs.
fn real_store(a: &mut CodeAssembler, place: &Place) -> Assembled {
    a.pusha()?;
    a.push(ds)?;
    a.mov(ax, (place.private(0) >> 4) as u32)?;
    a.mov(ds, ax)?;
    random(a, dword_ptr(p::DATA))?;
    a.mov(bx, ax)?;
    a.and(bx, (FRAMES_LEN - 1) as u32)?;
    a.shr(eax, 15)?;
    a.mov(cx, (FRAMES >> 4) as u32)?;
    a.mov(ds, cx)?;
    a.mov(word_ptr(bx), ax)?;
    a.pop(ds)?;
    a.popa()?;
    a.iret()
}

/// Loads the segments that the programs may have spoilt.
fn segments(a: &mut CodeAssembler, place: &Place) -> Assembled {
    let rpl = if place.mode == Mode::Flat { 0 } else { 3 };
    a.mov(eax, u32::from(sel::DATA | rpl))?;
    a.mov(ds, eax)?;
    a.mov(es, eax)
}

fn fault(a: &mut CodeAssembler, place: &Place) -> Assembled {
    let table = |offset| place.private(offset) as i32;
    segments(a, place)?;
    if place.mode == Mode::Flat {
        a.mov(ss, eax)?;
        a.mov(esp, place.stack() as u32)?;
    } else if place.mode == Mode::Long {
        a.mov(rsp, place.private(p::KERNEL_STACK))?;
        a.push(i32::from(sel::DATA | 3))?;
        a.push(place.stack() as i32)?;
    } else {
        a.mov(esp, place.private(p::KERNEL_STACK) as u32)?;
        a.push(i32::from(sel::DATA | 3))?;
        a.push(place.stack() as i32)?;
    }
    random(a, dword_ptr(place.private(p::DATA)))?;
    a.shr(eax, 12)?;
    a.mov(ebx, eax)?;
    a.and(ebx, 0xf0)?;
    a.push(2)?;
    if place.mode == Mode::Long {
        a.push(qword_ptr(rbx + table(p::RESTARTS) + 8))?;
        a.push(qword_ptr(rbx + table(p::RESTARTS)))?;
    } else {
        a.push(dword_ptr(ebx + table(p::RESTARTS) + 8))?;
        a.push(dword_ptr(ebx + table(p::RESTARTS)))?;
    }
    a.shr(eax, 4)?;
    a.mov(ebx, eax)?;
    a.and(ebx, 0x78)?;
    if place.mode == Mode::Long {
        a.mov(edi, dword_ptr(rbx + table(p::TARGETS)))?;
        a.mov(esi, dword_ptr(rbx + table(p::SOURCES)))?;
        a.iretq()
    } else {
        a.mov(edi, dword_ptr(ebx + table(p::TARGETS)))?;
        a.mov(esi, dword_ptr(ebx + table(p::SOURCES)))?;
        a.iretd()
    }
}

fn service(a: &mut CodeAssembler, place: &Place, n: u8) -> Assembled {
    let long = place.mode == Mode::Long;
    if long {
        for r in [rax, rbx, rcx, rdx] {
            a.push(r)?;
        }
    } else {
        a.pushad()?;
    }
    segments(a, place)?;
    random(a, dword_ptr(place.private(p::DATA)))?;
    a.shr(eax, 8)?;
    match n {
        _ if !place.mode.paged() => store(a)?,
        0 | 1 => remap(a, place, n == 0)?,
        2 => rights(a, place)?,
        3 => store(a)?,
        4 => clear_marks(a, place)?,
        // Code that any privilege level may execute falls into code that only the kernel may.
        _ => a.call(place.private(p::SUPERVISOR) - 2)?,
    }
    if long {
        for r in [rdx, rcx, rbx, rax] {
            a.pop(r)?;
        }
        a.iretq()
    } else {
        a.popad()?;
        a.iretd()
    }
}

/// Writes into the programs past the mappings that they use.
fn store(a: &mut CodeAssembler) -> Assembled {
    a.mov(ebx, eax)?;
    a.and(ebx, (FRAMES_LEN - 1) as u32)?;
    a.shr(eax, 11)?;
    a.mov(byte_ptr(ebx + FRAMES as i32), al)
}

/// EBX: a linear page of the programs, from EAX.
fn choose_page(a: &mut CodeAssembler) -> Assembled {
    a.mov(ebx, eax)?;
    a.and(ebx, 7)?;
    a.add(ebx, 8)?;
    a.mov(ecx, eax)?;
    a.and(ecx, 8)?;
    // Pages 8 to Fh or 48h to 4Fh.
    a.shl(ecx, 3)?;
    a.add(ebx, ecx)?;
    a.shr(eax, 4)
}

/// Flushes linear page EBX, alone or with all others.
fn flush(a: &mut CodeAssembler, place: &Place, invlpg: bool) -> Assembled {
    if !invlpg {
        return if place.mode == Mode::Long {
            a.mov(rax, cr3)?;
            a.mov(cr3, rax)
        } else {
            a.mov(eax, cr3)?;
            a.mov(cr3, eax)
        };
    }
    a.shl(ebx, 12)?;
    if place.mode == Mode::Long { a.invlpg(ptr(rbx)) } else { a.invlpg(ptr(ebx)) }
}

/// The page-table entry of linear page EBX.
fn table_entry(place: &Place) -> AsmMemoryOperand {
    let table = place.private(p::TABLE) as i32;
    match (place.mode, place.mode.entry()) {
        (Mode::Long, _) => dword_ptr(rbx * 8 + table),
        (_, 4) => dword_ptr(ebx * 4 + table),
        _ => dword_ptr(ebx * 8 + table),
    }
}

/// Maps a page of the programs to another frame, or to the device.
fn remap(a: &mut CodeAssembler, place: &Place, invlpg: bool) -> Assembled {
    choose_page(a)?;
    a.mov(edx, eax)?;
    a.and(edx, 7)?;
    a.shl(edx, 12)?;
    a.add(edx, (FRAMES + 7) as i32)?;
    a.shr(eax, 3)?;
    // One in eight is the device's page.
    let mut frame = a.create_label();
    a.test(eax, 7)?;
    a.jne(frame)?;
    a.mov(edx, (crate::guest::DEVICE + 7) as u32)?;
    a.set_label(&mut frame)?;
    a.mov(table_entry(place), edx)?;
    flush(a, place, invlpg)
}

/// Changes present, writable, user.
fn rights(a: &mut CodeAssembler, place: &Place) -> Assembled {
    choose_page(a)?;
    a.and(eax, 7)?;
    // Mostly all three.
    a.or(eax, dword_ptr(place.private(p::DATA)))?;
    a.and(eax, 7)?;
    a.and(table_entry(place), !7)?;
    a.or(table_entry(place), eax)?;
    flush(a, place, true)
}

/// Clears the accessed and dirty bits of the entries that are code.
fn clear_marks(a: &mut CodeAssembler, place: &Place) -> Assembled {
    for n in 0..8 {
        let at = place.private(p::TABLE) + MARKED + n * place.mode.entry();
        a.and(byte_ptr(at), !0x60)?;
    }
    flush(a, place, false)
}
