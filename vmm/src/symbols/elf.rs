//! ELF files as sources of names: their function symbols, their code and their build-id.
//!
//! Source: System V ABI, generic part, chapters 4 and 5.

use std::collections::BTreeMap;
use std::ops::Range;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, ElfFile as Headers, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, Object, ObjectSection, ObjectSymbol};
use object::{SectionFlags, SymbolKind};

use crate::error::{Error, Result};
use crate::truth::{Module, Symbol};

/// Granularity of mappings.
const PAGE: u64 = 4096;

/// What an ELF file says of the addresses that it is loaded at. All addresses are as linked.
#[derive(Debug)]
pub struct ElfFile<'a> {
    /// File name, without folders.
    pub name: String,
    /// GNU build-id in hexadecimal, if it has one.
    pub build_id: Option<String>,
    /// Whether it runs only at the addresses that it is linked to (`ET_EXEC`).
    pub fixed: bool,
    /// Whether it is a program, and not a library or the dynamic loader.
    pub program: bool,
    /// Address of the first instruction of a program.
    pub entry: u64,
    /// The page of the lowest loadable byte: what a load address is the address of.
    pub start: u64,
    /// Executable segments, as far as they are in the file.
    pub code: Vec<Code<'a>>,
    /// Function symbols by address, none without a size. Where several have one address, the best name
    /// comes first. What has none has the name of its section, such as `.plt`, outside of `.text`.
    pub symbols: Vec<Symbol>,
}

/// Bytes of an executable segment.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// Address of the first one.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Code<'_> {
    /// The addresses of the bytes. They do not wrap: [`ElfFile::parse`] drops those that would.
    fn range(&self) -> Range<u64> {
        self.address..self.address + self.bytes.len() as u64
    }
}

impl<'a> ElfFile<'a> {
    /// Reads an ELF file for x86, 32 or 64 bits wide. `path` names it in messages.
    ///
    /// # Errors
    /// If it is none, or damaged.
    pub fn parse(path: &str, bytes: &'a [u8]) -> Result<Self> {
        let parsed = match FileKind::parse(bytes) {
            Ok(FileKind::Elf32) => Self::read::<FileHeader32<Endianness>>(path, bytes),
            Ok(FileKind::Elf64) => Self::read::<FileHeader64<Endianness>>(path, bytes),
            _ => return Err(Error::Input(format!("{path}: not an ELF file"))),
        };
        parsed.map_err(|error| Error::Input(format!("{path}: damaged ELF file: {error}")))
    }

    fn read<Elf: FileHeader<Endian = Endianness>>(
        path: &str,
        bytes: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let file = Headers::<Elf>::parse(bytes)?;
        let endian = file.endian();
        let header = file.elf_header();
        let mut code = Vec::new();
        let mut start = u64::MAX;
        let mut has_interpreter = false;
        for segment in file.elf_program_headers() {
            has_interpreter |= segment.p_type(endian) == elf::PT_INTERP;
            if segment.p_type(endian) != elf::PT_LOAD {
                continue;
            }
            let address: u64 = segment.p_vaddr(endian).into();
            start = start.min(address & !(PAGE - 1));
            if segment.p_flags(endian).0 & elf::PF_X.0 != 0 {
                let bytes =
                    segment.data(endian, bytes).map_err(|()| "a segment ends beyond the file")?;
                if !bytes.is_empty() && address.checked_add(bytes.len() as u64).is_some() {
                    code.push(Code { address, bytes });
                }
            }
        }
        let fixed = header.e_type(endian) == elf::ET_EXEC;
        let (is_library, is_pie) = dynamic_flags(&file)?;
        let build_id = file.build_id()?.map(hexadecimal);
        Ok(Self {
            name: path.rsplit('/').next().unwrap_or(path).into(),
            build_id,
            fixed,
            program: fixed || is_pie || has_interpreter && !is_library,
            entry: header.e_entry(endian).into(),
            start: if start == u64::MAX { 0 } else { start },
            code,
            symbols: symbols(&file)?,
        })
    }

    /// The addresses from the first to the last byte of code; empty if there is none.
    #[must_use]
    pub fn extent(&self) -> Range<u64> {
        let start = self.code.iter().map(|code| code.address).min().unwrap_or(0);
        let end = self.code.iter().map(|code| code.range().end).max().unwrap_or(0);
        start..end
    }

    /// The file's bytes at an address as linked, if all are code.
    #[must_use]
    pub fn bytes_at(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        self.code.iter().find_map(|code| {
            let from = usize::try_from(address.checked_sub(code.address)?).ok()?;
            code.bytes.get(from..from.checked_add(len)?)
        })
    }

    /// Its code and its symbols at what is to be added to the addresses as linked.
    #[must_use]
    pub fn module(&self, name: &str, bias: u64, space: Option<u32>) -> Module {
        let moved = |symbol: &Symbol| Symbol {
            address: symbol.address.wrapping_add(bias),
            ..symbol.clone()
        };
        Module {
            name: name.into(),
            build_id: self.build_id.clone(),
            space,
            code: self
                .code
                .iter()
                .map(|code| (code.address.wrapping_add(bias), code.bytes.len() as u64))
                .collect(),
            symbols: self.symbols.iter().map(moved).collect(),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the file has a `DT_SONAME`, and whether its `DT_FLAGS_1` says that it is a
/// position-independent executable. (The C library has an interpreter, too.)
fn dynamic_flags<Elf: FileHeader<Endian = Endianness>>(
    file: &Headers<'_, Elf>,
) -> object::Result<(bool, bool)> {
    let endian = file.endian();
    let (mut is_library, mut is_pie) = (false, false);
    for header in file.elf_program_headers() {
        for row in header.dynamic(endian, file.data())?.unwrap_or_default() {
            is_library |= row.tag(endian) == elf::DT_SONAME;
            is_pie |= row.tag(endian) == elf::DT_FLAGS_1 && row.val(endian) & elf::DF_1_PIE.0 != 0;
        }
    }
    Ok((is_library, is_pie))
}

/// An executable section.
struct Section {
    name: String,
    addresses: Range<u64>,
}

/// A symbol, and what its name is worth among others of its address: less is better.
struct Ranked {
    symbol: Symbol,
    /// Where its section ends.
    end: u64,
    rank: (bool, u8, usize),
}

/// Function symbols and labels of code in `.symtab`, else in `.dynsym`. What they leave of a section
/// other than `.text` has the section's name.
fn symbols<'a, Elf: FileHeader<Endian = Endianness>>(
    file: &Headers<'a, Elf>,
) -> object::Result<Vec<Symbol>> {
    let mut sections = BTreeMap::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        if sh_flags.0 & elf::SHF_EXECINSTR.0 == 0 {
            continue;
        }
        let name = String::from_utf8_lossy(section.name_bytes()?).into_owned();
        let start = section.address();
        let addresses = start..start.saturating_add(section.size());
        sections.insert(section.index().0, Section { name, addresses });
    }
    let mut ranked = named(file.symbols(), &sections);
    if ranked.is_empty() {
        ranked = named(file.dynamic_symbols(), &sections);
    }
    ranked.sort_by(|a, b| {
        (a.symbol.address, a.rank, &a.symbol).cmp(&(b.symbol.address, b.rank, &b.symbol))
    });
    // A label has no size; it reaches up to what comes behind it in its section.
    let (mut next, mut current) = (u64::MAX, u64::MAX);
    for row in ranked.iter_mut().rev() {
        if row.symbol.address != current {
            (next, current) = (current, row.symbol.address);
        }
        if row.symbol.size == 0 {
            row.symbol.size = next.min(row.end) - row.symbol.address;
        }
    }
    let mut symbols: Vec<_> = ranked.into_iter().map(|row| row.symbol).collect();
    symbols.dedup();
    // One name for all that is in .text would be worse than none.
    let named = sections.values().filter(|section| section.name != ".text");
    let gaps: Vec<_> = named.flat_map(|section| gaps(section, &symbols)).collect();
    symbols.extend(gaps);
    // A stable sort: the order of those with the same address stays.
    symbols.sort_by_key(|symbol| symbol.address);
    Ok(symbols)
}

/// The parts of a section that are in no symbol.
fn gaps(section: &Section, symbols: &[Symbol]) -> Vec<Symbol> {
    let Range { start, end } = section.addresses;
    let mut gaps = Vec::new();
    let mut at = start;
    let mut gap = |from: u64, to: u64| {
        if from < to {
            gaps.push(Symbol { address: from, size: to - from, name: section.name.clone() });
        }
    };
    let first = symbols.partition_point(|symbol| symbol.address < start);
    for symbol in symbols[first..].iter().take_while(|symbol| symbol.address < end) {
        gap(at, symbol.address);
        at = at.max(symbol.address + symbol.size);
    }
    gap(at, end);
    gaps
}

/// The symbols that name something in one of the sections. A size ends with the section.
fn named<'a>(
    symbols: impl Iterator<Item = impl ObjectSymbol<'a>>,
    sections: &BTreeMap<usize, Section>,
) -> Vec<Ranked> {
    symbols
        .filter_map(|symbol| {
            let kind = symbol.kind();
            if !matches!(kind, SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label) {
                return None;
            }
            let section = &sections.get(&symbol.section_index()?.0)?.addresses;
            let address = symbol.address();
            if !section.contains(&address) {
                return None;
            }
            let name = String::from_utf8_lossy(symbol.name_bytes().ok()?).into_owned();
            // Assembler-local labels, and marks of what kind of code begins.
            if name.is_empty() || name.starts_with(".L") || name.starts_with('$') {
                return None;
            }
            let binding = match (symbol.is_local(), symbol.is_weak()) {
                (true, _) => 2,
                (_, true) => 1,
                _ => 0,
            };
            let underscores = name.len() - name.trim_start_matches('_').len();
            let size = symbol.size().min(section.end - address);
            Some(Ranked {
                rank: (size == 0, binding, underscores),
                end: section.end,
                symbol: Symbol { address, size, name },
            })
        })
        .collect()
}
