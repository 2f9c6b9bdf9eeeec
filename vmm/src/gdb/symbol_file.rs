//! An ELF file with nothing but the symbols of the Linux kernel that runs (System V ABI, "Object Files"), as
//! distributions ship kernels without them. They come from the kernel's own table
//! ([`crate::symbols::kallsyms`]).

use std::ops::Range;
use std::path::Path;

use x86_cpu::ram::PAGE;

use crate::file;
use crate::machine::Machine;
use crate::symbols::GuestMemory;
use crate::symbols::kallsyms::{self, Row};

/// `Elf64_Ehdr`, `Elf64_Shdr` and `Elf64_Sym` in bytes.
const HEADER: u64 = 64;
const SECTION: u64 = 64;
const SYMBOL: u64 = 24;

/// Section types.
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const NOBITS: u32 = 8;
/// Section flags.
const ALLOC: u64 = 2;
const EXECINSTR: u64 = 4;
/// The section that code is in, without its bytes: gdb takes what is elsewhere for no code.
const TEXT: u16 = 4;
/// `SHN_ABS`: a symbol of no section.
const ABSOLUTE: u16 = 0xfff1;

/// Writes such a file; how many symbols it has.
pub(super) fn write(machine: &Machine, path: &Path) -> Result<usize, String> {
    let ranges = ranges(machine);
    let read = |address: u64, bytes: &mut [u8]| machine.read_physical(address, bytes);
    let memory = GuestMemory { ranges: &ranges, read: &read };
    let rows = kallsyms::find(&memory).into_iter().max_by_key(Vec::len);
    let rows = rows.ok_or("no kernel with symbols is in memory (yet)")?;
    if !file::is_replaceable(path) {
        return Err("not a file".into());
    }
    file::replace(path, elf(&rows)).map_err(|error| error.to_string())?;
    Ok(rows.len())
}

/// Where RAM is: each contiguous range, by address.
fn ranges(machine: &Machine) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for page in machine.memory.ram_pages() {
        match ranges.last_mut() {
            Some(last) if last.end == page => last.end += PAGE,
            _ => ranges.push(page..page + PAGE),
        }
    }
    ranges
}

/// The file: a header, the symbols, their names, the names of sections, and the table of sections.
fn elf(rows: &[Row]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.symtab\0.strtab\0.shstrtab\0.text\0";
    let is_code = |row: &&Row| row.kind.eq_ignore_ascii_case(&b't');
    let code = || rows.iter().filter(is_code).map(|row| row.address);
    let (first, last) = (code().min().unwrap_or(0), code().max().unwrap_or(0));
    let mut names = vec![0];
    let mut symbols = vec![0; SYMBOL as usize];
    for row in rows {
        let is_code = is_code(&row);
        symbols.extend((names.len() as u32).to_le_bytes());
        // STB_GLOBAL, and STT_FUNC or STT_OBJECT.
        symbols.extend([1 << 4 | if is_code { 2 } else { 1 }, 0]);
        symbols.extend(if is_code { TEXT } else { ABSOLUTE }.to_le_bytes());
        symbols.extend(row.address.to_le_bytes());
        symbols.extend([0; 8]);
        names.extend_from_slice(row.name.as_bytes());
        names.push(0);
    }
    let at_names = HEADER + symbols.len() as u64;
    let at_section_names = at_names + names.len() as u64;
    let at_sections = (at_section_names + NAMES.len() as u64).next_multiple_of(8);
    let is_64_bit = rows.iter().any(|row| row.address >> 32 != 0);
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    // ET_EXEC; EM_X86_64 or EM_386.
    out.extend(2_u16.to_le_bytes());
    out.extend(if is_64_bit { 62_u16 } else { 3 }.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    for value in [0, 0, at_sections] {
        out.extend(value.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    for value in [HEADER as u16, 0, 0, SECTION as u16, 5, 3] {
        out.extend(value.to_le_bytes());
    }
    out.extend_from_slice(&symbols);
    out.extend_from_slice(&names);
    out.extend_from_slice(NAMES);
    out.resize(at_sections as usize, 0);
    let (symtab, strtab) = (symbols.len() as u64, names.len() as u64);
    // Name, type, flags, address, offset, size, link, info, entry size.
    let sections = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, SYMTAB, 0, 0, HEADER, symtab, 2, 1, SYMBOL),
        (9, STRTAB, 0, 0, at_names, strtab, 0, 0, 0),
        (17, STRTAB, 0, 0, at_section_names, NAMES.len() as u64, 0, 0, 0),
        (27, NOBITS, ALLOC | EXECINSTR, first, HEADER, last - first + 1, 0, 0, 0),
    ];
    for (name, kind, flags, address, offset, size, link, info, entry) in sections {
        let words: [u32; 2] = [name, kind];
        out.extend(words.into_iter().flat_map(u32::to_le_bytes));
        let long: [u64; 4] = [flags, address, offset, size];
        out.extend(long.into_iter().flat_map(u64::to_le_bytes));
        let words: [u32; 2] = [link, info];
        out.extend(words.into_iter().flat_map(u32::to_le_bytes));
        out.extend([u64::from(kind != 0), entry].into_iter().flat_map(u64::to_le_bytes));
    }
    out
}
