//! A disk that a PC's BIOS boots: a sector of code, and what it loads.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, al, ax, bx, cr0, ds, dword_ptr, eax, ebx, ecx, edi, edx, es, esi, fword_ptr, sp,
    ss,
};

use crate::Result;

/// Bytes that go to one place.
pub(crate) struct Part {
    /// Physical address of the first byte.
    pub(crate) address: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A disk to be.
pub(crate) struct Disk {
    pub(crate) parts: Vec<Part>,
    /// Where execution goes on, in 32-bit protected mode with flat segments 10h and 18h.
    pub(crate) entry: u32,
    /// ESI there.
    pub(crate) argument: u32,
}

const SECTOR: usize = 512;
/// Sectors a cylinder, with 16 heads and 63 sectors a track.
const CYLINDER: usize = 16 * 63;
const ORIGIN: u32 = 0x7C00;
/// Below the boot sector: the disk address packet of INT 13h function 42h.
const PACKET: u32 = 0x7000;
/// The disk's number, as the BIOS gave it in DL.
const DRIVE: u32 = 0x7020;
/// Where the BIOS reads to: segment 1000h.
const BUFFER: u32 = 0x1_0000;
const CHUNK_SECTORS: usize = 64;
const CHUNK: usize = CHUNK_SECTORS * SECTOR;
/// In the boot sector.
const GDT: usize = 0x1D0;
const SIGNATURE: usize = 0x1FE;
/// Nothing, nothing, 32-bit code and data from 0 to 4 GiB.
const SEGMENTS: [u64; 4] = [0, 0, 0x00CF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF];
const CODE: u16 = 0x10;
const DATA: u32 = 0x18;

impl Disk {
    /// The disk's bytes and its number of cylinders.
    pub(crate) fn image(&self) -> Result<(Vec<u8>, usize)> {
        let mut image = vec![0; SECTOR];
        let mut loads = Vec::new();
        for part in &self.parts {
            let chunks = part.bytes.len().div_ceil(CHUNK);
            loads.push((u32::try_from(image.len() / SECTOR)?, part.address, chunks as u32));
            image.extend(&part.bytes);
            image.resize(image.len().next_multiple_of(SECTOR), 0);
            let end = loads.last().map_or(0, |load| load.0 as usize) * SECTOR + chunks * CHUNK;
            image.resize(end, 0);
        }
        let code = boot_sector(&loads, self.entry, self.argument)?;
        if code.len() > GDT {
            return Err("the boot sector is too long".into());
        }
        image[..code.len()].copy_from_slice(&code);
        for (n, segment) in SEGMENTS.iter().enumerate() {
            image[GDT + 8 * n..][..8].copy_from_slice(&segment.to_le_bytes());
        }
        // The first entry of a GDT is never read: it holds the operand of LGDT.
        let limit = (SEGMENTS.len() * 8 - 1) as u16;
        image[GDT..GDT + 2].copy_from_slice(&limit.to_le_bytes());
        image[GDT + 2..GDT + 6].copy_from_slice(&(ORIGIN + GDT as u32).to_le_bytes());
        image[SIGNATURE..SECTOR].copy_from_slice(&[0x55, 0xAA]);
        let cylinders = image.len().div_ceil(CYLINDER * SECTOR).max(2);
        image.resize(cylinders * CYLINDER * SECTOR, 0);
        Ok((image, cylinders))
    }
}

/// Code that does the loads (sector, address, chunks) and jumps to `entry` with `argument` in ESI.
fn boot_sector(
    loads: &[(u32, u32, u32)],
    entry: u32,
    argument: u32,
) -> std::result::Result<Vec<u8>, IcedError> {
    let gdt = ORIGIN + GDT as u32;
    let mut a = CodeAssembler::new(16)?;
    let mut load = a.create_label();
    a.cli()?;
    a.xor(ax, ax)?;
    a.mov(ds, ax)?;
    a.mov(ss, ax)?;
    a.mov(sp, PACKET)?;
    a.mov(dword_ptr(DRIVE), edx)?;
    // A20, by system control port A.
    a.in_(al, 0x92)?;
    a.or(al, 2)?;
    a.out(0x92, al)?;
    for &(sector, address, chunks) in loads {
        a.mov(ebx, sector)?;
        a.mov(edi, address)?;
        a.mov(ecx, chunks)?;
        a.call(load)?;
    }
    a.cli()?;
    protect(&mut a, gdt)?;
    a.mov(eax, DATA)?;
    a.mov(ds, ax)?;
    a.mov(es, ax)?;
    a.mov(ss, ax)?;
    a.mov(esi, argument)?;
    // Linux wants these clear (boot protocol, 32-bit entry).
    a.xor(ebx, ebx)?;
    a.xor(edi, edi)?;
    // JMP ptr16:32.
    let mut jump = vec![0x66, 0xEA];
    jump.extend(entry.to_le_bytes());
    jump.extend(CODE.to_le_bytes());
    a.db(&jump)?;

    // EBX: sector, EDI: address, ECX: chunks.
    a.set_label(&mut load)?;
    a.mov(dword_ptr(PACKET), 0x10 | (CHUNK_SECTORS as u32) << 16)?;
    a.mov(dword_ptr(PACKET + 4), BUFFER << 12)?;
    a.mov(dword_ptr(PACKET + 8), ebx)?;
    a.mov(dword_ptr(PACKET + 12), 0)?;
    a.pushad()?;
    a.mov(esi, PACKET)?;
    a.mov(edx, dword_ptr(DRIVE))?;
    a.mov(ax, 0x4200)?;
    a.int(0x13)?;
    a.popad()?;
    // DS flat: "unreal mode", in which a segment register keeps its limit.
    a.cli()?;
    protect(&mut a, gdt)?;
    a.mov(bx, DATA)?;
    a.mov(ds, bx)?;
    a.and(al, 0xFE)?;
    a.mov(cr0, eax)?;
    a.xor(ax, ax)?;
    a.mov(ds, ax)?;
    a.mov(esi, BUFFER)?;
    let mut copy = a.create_label();
    a.set_label(&mut copy)?;
    a.mov(eax, dword_ptr(esi))?;
    a.mov(dword_ptr(edi), eax)?;
    a.add(esi, 4)?;
    a.add(edi, 4)?;
    a.cmp(esi, BUFFER + CHUNK as u32)?;
    a.jb(copy)?;
    a.mov(ebx, dword_ptr(PACKET + 8))?;
    a.add(ebx, CHUNK_SECTORS as u32)?;
    a.dec(ecx)?;
    a.jnz(load)?;
    a.ret()?;
    a.assemble(u64::from(ORIGIN))
}

/// Sets CR0.PE.
fn protect(a: &mut CodeAssembler, gdt: u32) -> std::result::Result<(), IcedError> {
    a.lgdt(fword_ptr(gdt))?;
    a.mov(eax, cr0)?;
    a.or(al, 1)?;
    a.mov(cr0, eax)
}
