//! The loops in 32 bits, for the parts without 64-bit mode: with paging, and with a counter that counts
//! what the models of caches tell.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    al, byte_ptr, cr0, cr3, dword_ptr, dx, eax, ebp, ebx, ecx, edi, edx, esi,
};
use vpmu::program::{Image, Program};

use crate::guest::{DEBUG_EXIT, Load, TABLE, TABLE_BYTES};

/// A page directory, and behind it the page table of the first 4 MiB.
const DIRECTORY: u32 = 0x30_0000;
const PAGE_TABLE: u32 = DIRECTORY + 0x1000;
const PAGES: u32 = 1024;
/// In their entries: present, writable.
const OPEN: u32 = 3;
/// CR0.PG.
const PAGING: u32 = 1 << 31;
/// The table as a displacement, and its doublewords.
const AT: i32 = TABLE as i32;
const DOUBLEWORDS: u32 = TABLE_BYTES / 4;

/// Assembles `iterations` of a loop, with these model-specific registers written before.
pub(crate) fn assemble(
    load: Load,
    registers: &[(u32, u64)],
    iterations: u32,
) -> Result<Image, IcedError> {
    let mut p = Program::new()?;
    p.mov(dword_ptr(DIRECTORY), PAGE_TABLE | OPEN)?;
    p.mov(ecx, PAGES)?;
    p.mov(eax, (PAGES - 1) << 12 | OPEN)?;
    let map = p.here()?;
    p.mov(dword_ptr(ecx * 4 + (PAGE_TABLE as i32 - 4)), eax)?;
    p.sub(eax, 0x1000)?;
    p.dec(ecx)?;
    p.jnz(map)?;
    p.mov(eax, DIRECTORY)?;
    p.mov(cr3, eax)?;
    p.mov(eax, cr0)?;
    p.or(eax, PAGING.cast_signed())?;
    p.mov(cr0, eax)?;
    // A fixed start for everything random.
    p.mov(eax, 0x4F6C_DD1D_u32)?;
    p.mov(ecx, DOUBLEWORDS)?;
    let fill = p.here()?;
    xorshift(&mut p)?;
    p.mov(dword_ptr(ecx * 4 + (AT - 4)), eax)?;
    p.dec(ecx)?;
    p.jnz(fill)?;
    p.mov(ebx, eax)?;
    for &(register, value) in registers {
        p.write_msr(register, value)?;
    }
    p.mov(eax, ebx)?;
    p.xor(ebx, ebx)?;
    p.xor(edi, edi)?;
    p.mov(esi, iterations)?;
    body(&mut p, load)?;
    p.xor(eax, eax)?;
    p.mov(edx, DEBUG_EXIT)?;
    p.out(dx, eax)?;
    let stay = p.here()?;
    p.hlt()?;
    p.jmp(stay)?;
    p.finish()
}

/// Marsaglia's 32-bit xorshift of EAX (13, 17, 5). Changes EDX. Nine instructions.
fn xorshift(p: &mut Program) -> Result<(), IcedError> {
    p.mov(edx, eax)?;
    p.shl(edx, 13)?;
    p.xor(eax, edx)?;
    p.mov(edx, eax)?;
    p.shr(edx, 17)?;
    p.xor(eax, edx)?;
    p.mov(edx, eax)?;
    p.shl(edx, 5)?;
    p.xor(eax, edx)
}

/// The loop: ESI counts down, EAX is random.
fn body(p: &mut Program, load: Load) -> Result<(), IcedError> {
    let (mut over, mut f, mut g) = (p.create_label(), p.create_label(), p.create_label());
    if load == Load::CallReturn {
        p.jmp(over)?;
        p.place(&mut f)?;
        p.add(ebx, 1)?;
        p.call(g)?;
        p.ret()?;
        p.place(&mut g)?;
        p.xor(ebx, eax)?;
        p.ret()?;
        p.place(&mut over)?;
    }
    let top = p.here()?;
    match load {
        Load::Mixed => mixed(p)?,
        Load::Memory => {
            p.mov(edx, dword_ptr(edi * 4 + AT))?;
            p.add(ebx, edx)?;
            p.mov(dword_ptr(edi * 4 + AT), ebx)?;
            p.add(edi, 9)?;
            p.and(edi, DOUBLEWORDS.cast_signed() - 1)?;
            p.add(dword_ptr(AT + 64), 1)?;
        }
        Load::RandomBranch => {
            let mut skip = p.create_label();
            xorshift(p)?;
            p.test(al, 16)?;
            p.jz(skip)?;
            p.add(ebx, 3)?;
            p.place(&mut skip)?;
        }
        Load::CallReturn => p.call(f)?,
        _ => {
            p.add(ebx, eax)?;
            p.lea(eax, dword_ptr(eax + ebx * 2 + 1))?;
            p.xor(eax, ebx)?;
            p.shl(ebx, 3)?;
            p.sub(ebx, eax)?;
            p.imul_2(eax, ebx)?;
        }
    }
    p.dec(esi)?;
    p.jnz(top)
}

/// 23 or 24 instructions and, one time in eight, a store; the caller's two come on top.
fn mixed(p: &mut Program) -> Result<(), IcedError> {
    let (mut skip, mut no_store) = (p.create_label(), p.create_label());
    xorshift(p)?;
    p.mov(edx, eax)?;
    p.and(edx, DOUBLEWORDS.cast_signed() - 1)?;
    p.mov(edi, dword_ptr(edx * 4 + AT))?;
    p.add(ebx, edi)?;
    p.test(al, 64)?;
    p.jz(skip)?;
    p.mov(edi, eax)?;
    p.shr(edi, 18)?;
    p.add(ebx, dword_ptr(edi * 4 + AT))?;
    p.place(&mut skip)?;
    p.test(eax, 0x700)?;
    p.jnz(no_store)?;
    p.mov(dword_ptr(edx * 4 + AT), ebx)?;
    p.place(&mut no_store)?;
    p.lea(ebp, dword_ptr(ebx + edx))?;
    p.xor(ecx, ebp)?;
    p.movzx(ebp, byte_ptr(edx + AT))?;
    p.add(ecx, ebp)
}
