//! ELF executables, 32 and 64 bits wide: what a loader and a packer need to know of them.
//!
//! Source: System V ABI, generic part, chapters 4 and 5.

use std::ops::Range;

use super::entry;
use super::error::{BootError, Result};
use super::layout::Taken;
use super::memory::{GuestRam, RamLayout};

/// Width of the file's addresses, `e_ident[EI_CLASS]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ELFCLASS32`.
    Elf32,
    /// `ELFCLASS64`.
    Elf64,
}

/// `e_machine` of the 80386.
pub const MACHINE_386: u16 = 3;
/// `e_machine` of AMD64.
pub const MACHINE_X86_64: u16 = 62;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// A row of the program header table.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    offset: u64,
    virt: u64,
    phys: u64,
    file_size: u64,
    memory_size: u64,
}

/// A parsed executable.
#[derive(Debug)]
pub struct Elf<'a> {
    name: &'a str,
    bytes: &'a [u8],
    class: Class,
    entry: u64,
    segments: Vec<Segment>,
}

/// What a dynamically linked file asks of its loader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// `DT_NEEDED` names, in order.
    pub needed: Vec<String>,
    /// Directories of `DT_RUNPATH`, or of `DT_RPATH` where there is none, in order.
    pub search: Vec<String>,
}

/// Class and machine of a little-endian ELF; `None` if it is not one.
pub fn identify(bytes: &[u8]) -> Option<(Class, u16)> {
    if !bytes.starts_with(b"\x7FELF") || bytes.get(5) != Some(&1) {
        return None;
    }
    let class = match bytes.get(4) {
        Some(1) => Class::Elf32,
        Some(2) => Class::Elf64,
        _ => return None,
    };
    let machine = bytes.get(18..20)?;
    Some((class, u16::from_le_bytes([machine[0], machine[1]])))
}

/// The little-endian number of `size` bytes at `at`.
fn number(bytes: &[u8], at: u64, size: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = bytes.get(at..at.checked_add(size as usize)?)?;
    Some(field.iter().rev().fold(0, |value, b| value << 8 | u64::from(*b)))
}

impl<'a> Elf<'a> {
    /// Reads the file header and the program headers and checks that every segment's bytes are in
    /// the file.
    ///
    /// # Errors
    /// If the file is not an ELF, is truncated, or its headers contradict each other.
    pub fn parse(name: &'a str, bytes: &'a [u8]) -> Result<Self> {
        let damaged =
            |problem: &str| BootError::Damaged { name: name.into(), problem: problem.into() };
        let (class, _) = identify(bytes).ok_or_else(|| damaged("not a little-endian ELF"))?;
        let wide = class == Class::Elf64;
        let word = if wide { 8 } else { 4 };
        let header = |at, size| {
            number(bytes, at, size).ok_or_else(|| damaged("truncated in the ELF header"))
        };
        let entry = header(0x18, word)?;
        let table = header(0x18 + word, word)?;
        let (size_at, row_size) = if wide { (0x36, 56) } else { (0x2A, 32) };
        if header(size_at, 2)? != row_size {
            return Err(damaged("program headers of unknown size"));
        }
        let count = header(size_at + 2, 2)?;
        let mut segments = Vec::new();
        for row in 0..count {
            let at = table.checked_add(row * row_size);
            let field = |narrow: u64, wide_at: u64, size: u64| {
                at.and_then(|at| {
                    number(bytes, at.checked_add(if wide { wide_at } else { narrow })?, size)
                })
                .ok_or_else(|| damaged("truncated in the program headers"))
            };
            let segment = Segment {
                kind: field(0, 0, 4)? as u32,
                offset: field(4, 8, word)?,
                virt: field(8, 16, word)?,
                phys: field(12, 24, word)?,
                file_size: field(16, 32, word)?,
                memory_size: field(20, 40, word)?,
            };
            let end = segment.offset.checked_add(segment.file_size);
            if end.is_none_or(|end| end > bytes.len() as u64) {
                return Err(damaged("truncated: a segment ends beyond the file"));
            }
            if segment.kind == PT_LOAD && segment.file_size > segment.memory_size {
                return Err(damaged("a segment is larger in the file than in memory"));
            }
            segments.push(segment);
        }
        Ok(Self { name, bytes, class, entry, segments })
    }

    fn data(&self, segment: &Segment) -> &'a [u8] {
        // `parse` checked the range.
        &self.bytes[segment.offset as usize..(segment.offset + segment.file_size) as usize]
    }

    fn of_kind(&self, kind: u32) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |s| s.kind == kind)
    }

    /// Copies the loadable segments to their physical addresses and returns where they are. Memory
    /// beyond a segment's file content is left as it is: zero in a new machine.
    ///
    /// # Errors
    /// If there is no such segment, two share a place, or one is not wholly in RAM that is not `taken`.
    pub fn load(
        &self,
        memory: &GuestRam,
        ram: &RamLayout,
        taken: &[Taken],
    ) -> Result<Vec<Range<u64>>> {
        let damaged = |problem: String| BootError::Damaged { name: self.name.into(), problem };
        let segments = || self.of_kind(PT_LOAD).filter(|s| s.memory_size > 0);
        let mut loaded = Vec::new();
        for segment in segments() {
            let what = format!("{}: segment at {:#x}", self.name, segment.phys);
            loaded.push(ram.free(&what, segment.phys, segment.memory_size, taken)?);
        }
        if loaded.is_empty() {
            return Err(damaged("has no loadable segment".into()));
        }
        // Nor is it written a thousand times to the same place.
        let mut ascending: Vec<_> = loaded.iter().collect();
        ascending.sort_by_key(|range| range.start);
        if let Some(pair) = ascending.windows(2).find(|pair| pair[0].end > pair[1].start) {
            let [one, two] = [pair[0].start, pair[1].start];
            return Err(damaged(format!("the segments at {one:#x} and {two:#x} overlap")));
        }
        for segment in segments() {
            entry::write(memory, segment.phys, self.data(segment), self.name)?;
        }
        Ok(loaded)
    }

    /// The entry point as a physical address: translated by the segment whose virtual range holds
    /// it, unchanged if it is in none.
    pub fn physical_entry(&self) -> u64 {
        self.of_kind(PT_LOAD)
            .find(|s| self.entry.wrapping_sub(s.virt) < s.memory_size)
            .map_or(self.entry, |s| self.entry.wrapping_sub(s.virt).wrapping_add(s.phys))
    }

    /// The descriptor of the first note of that owner and type.
    pub fn note(&self, owner: &[u8], kind: u32) -> Option<&'a [u8]> {
        // Segments are parts of the file: of those that say they are all of it, a few are enough.
        let mut left = self.bytes.len();
        for segment in self.of_kind(PT_NOTE) {
            let data = self.data(segment);
            left = left.checked_sub(data.len())?;
            let mut at = 0u64;
            while let (Some(owner_size), Some(size), Some(found)) =
                (number(data, at, 4), number(data, at + 4, 4), number(data, at + 8, 4))
            {
                let name_at = at + 12;
                let value_at = name_at + owner_size.next_multiple_of(4);
                let slice = |from: u64, size: u64| data.get(from as usize..(from + size) as usize);
                if found == u64::from(kind) && slice(name_at, owner_size) == Some(owner) {
                    return slice(value_at, size);
                }
                at = value_at + size.next_multiple_of(4);
            }
        }
        None
    }

    /// Path of the program interpreter, if the file asks for one.
    pub fn interpreter(&self) -> Option<String> {
        let segment = self.of_kind(PT_INTERP).next()?;
        let path = self.data(segment).split(|b| *b == 0).next()?;
        Some(String::from_utf8_lossy(path).into_owned())
    }

    /// What the dynamic section asks for; empty for a static file.
    pub fn dynamic(&self) -> Dynamic {
        let Some(segment) = self.of_kind(PT_DYNAMIC).next() else {
            return Dynamic::default();
        };
        let data = self.data(segment);
        let word = if self.class == Class::Elf64 { 8 } else { 4 };
        let rows: Vec<(u64, u64)> = (0..data.len() as u64 / (2 * word))
            .map_while(|i| {
                let at = i * 2 * word;
                Some((number(data, at, word)?, number(data, at + word, word)?))
            })
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        let Some(strings) =
            rows.iter().find(|r| r.0 == DT_STRTAB).and_then(|r| self.file_offset(r.1))
        else {
            return Dynamic::default();
        };
        let text = |offset: u64| {
            let from = usize::try_from(strings.checked_add(offset)?).ok()?;
            let bytes = self.bytes.get(from..)?.split(|b| *b == 0).next()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        // Names may share bytes, but have fewer in all than the file.
        let texts = |tag| {
            let texts = rows.iter().filter(move |r| r.0 == tag).filter_map(|r| text(r.1));
            texts.scan(self.bytes.len(), |left, text| {
                *left = left.checked_sub(text.len())?;
                Some(text)
            })
        };
        let paths = texts(DT_RUNPATH).next().or_else(|| texts(DT_RPATH).next());
        Dynamic {
            needed: texts(DT_NEEDED).collect(),
            search: paths
                .map(|p| p.split(':').filter(|d| !d.is_empty()).map(Into::into).collect())
                .unwrap_or_default(),
        }
    }

    fn file_offset(&self, virt: u64) -> Option<u64> {
        self.of_kind(PT_LOAD)
            .find(|s| virt.wrapping_sub(s.virt) < s.file_size)
            .map(|s| s.offset + virt.wrapping_sub(s.virt))
    }
}

/// A small executable built by hand for the tests of every module that loads one.
#[cfg(test)]
pub(crate) mod sample {
    use super::{Class, MACHINE_386, MACHINE_X86_64};

    /// An ELF with one segment of `code` at `phys` (virtual address: `virt`), 4 KiB in memory, and
    /// a note segment if `note` is not empty. System V ABI figures 4-3 and 5-1.
    pub(crate) fn elf(class: Class, virt: u64, phys: u64, code: &[u8], note: &[u8]) -> Vec<u8> {
        let wide = class == Class::Elf64;
        let word = |v: u64| {
            if wide { v.to_le_bytes().to_vec() } else { (v as u32).to_le_bytes().to_vec() }
        };
        let (header, row) = if wide { (64u64, 56u64) } else { (52, 32) };
        let rows = if note.is_empty() { 1 } else { 2 };
        let code_at = header + rows * row;
        let note_at = code_at + code.len() as u64;
        let mut file = vec![0x7F, b'E', b'L', b'F', if wide { 2 } else { 1 }, 1, 1];
        file.resize(16, 0);
        file.extend(2u16.to_le_bytes());
        file.extend((if wide { MACHINE_X86_64 } else { MACHINE_386 }).to_le_bytes());
        file.extend(1u32.to_le_bytes());
        file.extend(word(virt));
        file.extend(word(header));
        file.extend(word(0));
        file.extend(0u32.to_le_bytes());
        for half in [header, row, rows, 0, 0, 0] {
            file.extend((half as u16).to_le_bytes());
        }
        let mut push = |kind: u32, at: u64, virt: u64, phys: u64, size: u64, memory: u64| {
            file.extend(kind.to_le_bytes());
            if wide {
                file.extend(5u32.to_le_bytes());
            }
            for v in [at, virt, phys, size, memory] {
                file.extend(word(v));
            }
            if !wide {
                file.extend(5u32.to_le_bytes());
            }
            file.extend(word(4));
        };
        push(1, code_at, virt, phys, code.len() as u64, 0x1000);
        if rows == 2 {
            push(4, note_at, 0, 0, note.len() as u64, 0);
        }
        file.extend(code);
        file.extend(note);
        file
    }
}

#[cfg(test)]
mod tests {
    use super::sample::elf;
    use super::*;
    use vm_memory::{Bytes, GuestAddress};

    #[test]
    fn segments_go_to_their_physical_addresses() {
        let ram = RamLayout::new(4 << 20, None).unwrap();
        for class in [Class::Elf32, Class::Elf64] {
            let memory = ram.allocate().unwrap();
            let file = elf(class, 0xC010_0000, 0x10_0000, b"code", b"");
            let elf = Elf::parse("e", &file).unwrap();
            let loaded = elf.load(&memory, &ram, &[]).unwrap();
            assert_eq!((loaded.len(), &loaded[0]), (1, &(0x10_0000..0x10_1000)));
            assert_eq!(elf.physical_entry(), 0x10_0000);
            let mut loaded = [0; 4];
            memory.read_slice(&mut loaded, GuestAddress(0x10_0000)).unwrap();
            assert_eq!(&loaded, b"code");
        }
    }

    #[test]
    fn a_segment_outside_free_ram_is_refused() {
        let ram = RamLayout::new(4 << 20, None).unwrap();
        let memory = ram.allocate().unwrap();
        let taken = [Taken { what: "zero page", start: 0x7000, size: 0x1000 }];
        let load = |phys: u64| {
            let file = elf(Class::Elf32, phys, phys, b"code", b"");
            let loaded = Elf::parse("e", &file).unwrap().load(&memory, &ram, &taken);
            loaded.map_err(|error| {
                let text = error.to_string();
                let segment = format!("e: segment at {phys:#x} (4096 bytes) does not fit into ");
                text.strip_prefix(&segment).unwrap_or_else(|| panic!("{text}")).to_owned()
            })
        };
        // The EBDA begins at 9FC00h, the machine's 4 MiB of RAM go on at 1 MiB.
        for phys in [0, 0x1000, 0x6000, 0x8000, 0x9_EC00, 0x10_0000, 0x3F_F000] {
            assert_eq!(load(phys).unwrap()[0], phys..phys + 0x1000);
        }
        for phys in [0x6001, 0x7000, 0x7FFF] {
            assert_eq!(load(phys).unwrap_err(), "memory: the zero page is at 0x7000-0x7fff");
        }
        // Over the EBDA, over the firmware tables, across the end of RAM.
        for phys in [0x9_EC01, 0xE_0000, 0xF_F001, 0x3F_F001, 0xFFFF_F000] {
            let ram = "the RAM, which is at 0x0-0x9fbff and 0x100000-0x3fffff";
            assert_eq!(load(phys).unwrap_err(), ram, "{phys:#x}");
        }
    }

    /// The note's row, made one of a segment: a file of 65535 rows would else be copied so often.
    #[test]
    fn segments_do_not_overlap() {
        let ram = RamLayout::new(4 << 20, None).unwrap();
        let memory = ram.allocate().unwrap();
        let mut file = elf(Class::Elf32, 0x10_0000, 0x10_0000, b"code", b"note");
        let mut load = |phys: u32| {
            for (at, value) in [(0, 1), (12, phys), (20, 0x10)] {
                file[52 + 32 + at..][..4].copy_from_slice(&u32::to_le_bytes(value));
            }
            let loaded = Elf::parse("e", &file).unwrap().load(&memory, &ram, &[]);
            loaded.map(|loaded| loaded.len()).map_err(|error| error.to_string())
        };
        for phys in [0xF_FFF0 - 0x8_0000, 0x10_1000] {
            assert_eq!(load(phys), Ok(2), "{phys:#x}");
        }
        let text = "e: the segments at 0x100000 and 0x100fff overlap";
        assert_eq!(load(0x10_0FFF).unwrap_err(), text);
        assert!(load(0x10_0000).is_err());
    }

    /// A hundred rows of DT_NEEDED, each of the whole file from its name on, of which there is no end. The segment of
    /// the names is at the end of all addresses, and what is asked for beyond it, at their beginning.
    #[test]
    fn names_are_fewer_than_the_bytes_of_the_file() {
        let mut rows: Vec<u8> = Vec::new();
        for (tag, value) in (0..100).map(|_| (1_u64, 0_u64)).chain([(5, 0x10)]) {
            rows.extend(tag.to_le_bytes());
            rows.extend(value.to_le_bytes());
        }
        let code = vec![b'x'; 0x1000];
        let mut file = elf(Class::Elf64, 0u64.wrapping_sub(0x100), 0x10_0000, &code, &rows);
        // PT_DYNAMIC, and a file without a zero behind the first names.
        file[64 + 56] = 2;
        let elf = Elf::parse("e", &file).unwrap();
        let names: usize = elf.dynamic().needed.iter().map(String::len).sum();
        assert!(names > 0xE00 && names <= file.len(), "{names}");
    }

    #[test]
    fn every_truncation_is_an_error() {
        for class in [Class::Elf32, Class::Elf64] {
            let file = elf(class, 0x10_0000, 0x10_0000, b"code", b"");
            for size in 0..file.len() {
                assert!(Elf::parse("e", &file[..size]).is_err(), "{size}");
            }
            assert!(Elf::parse("e", &file).is_ok());
        }
    }

    /// Notes: name size, descriptor size, type, name and descriptor padded to 4 bytes.
    #[test]
    fn notes_are_found_behind_others() {
        let note = b"\x04\0\0\0\x01\0\0\0\x07\0\0\0GNU\0Z\0\0\0\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\x10\x20\x30\x40";
        let file = elf(Class::Elf64, 0x10_0000, 0x10_0000, b"code", note);
        let elf = Elf::parse("e", &file).unwrap();
        assert_eq!(elf.note(b"Xen\0", 18), Some(&[0x10, 0x20, 0x30, 0x40][..]));
        assert_eq!(elf.note(b"GNU\0", 7), Some(&b"Z"[..]));
        assert_eq!(elf.note(b"GNU\0", 18), None);
    }

    /// The test binary itself: its C library is in its dynamic section.
    #[test]
    fn a_real_executable_names_its_libraries() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let elf = Elf::parse("self", &bytes).unwrap();
        assert!(elf.dynamic().needed.iter().any(|n| n.starts_with("libc.so")));
        assert!(elf.interpreter().unwrap().contains("ld-linux"));
    }
}
