//! ELF files built by hand, for the tests.
//!
//! Source: System V ABI, generic part, chapters 4 and 5.

/// `ET_EXEC` and `ET_DYN`.
pub(super) const EXEC: u16 = 2;
pub(super) const DYN: u16 = 3;
/// Sections of the file: code in `.text` and in `.plt`, and data.
pub(super) const TEXT: u16 = 1;
pub(super) const PLT: u16 = 2;
pub(super) const DATA: u16 = 3;
/// `SHN_UNDEF` and `SHN_ABS`.
pub(super) const UNDEFINED: u16 = 0;
pub(super) const ABSOLUTE: u16 = 0xFFF1;
/// `st_info`: local label, global function, weak function, global data.
pub(super) const LABEL: u8 = 0x00;
pub(super) const FUNCTION: u8 = 0x12;
pub(super) const LOCAL_FUNCTION: u8 = 0x02;
pub(super) const WEAK_FUNCTION: u8 = 0x22;
pub(super) const OBJECT: u8 = 0x11;
/// `SHT_SYMTAB` and `SHT_DYNSYM`.
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;

/// A symbol: name, value, size, `st_info` and section.
pub(super) type Row = (&'static str, u64, u64, u8, u16);

/// A file to be.
#[derive(Clone)]
pub(super) struct Sample {
    /// 64 bits wide, or 32.
    pub(super) wide: bool,
    /// `e_type`.
    pub(super) kind: u16,
    /// Address of `.text`, a multiple of 4096, and entry point.
    pub(super) address: u64,
    /// Content of `.text`.
    pub(super) text: Vec<u8>,
    /// Content of `.plt`, which follows.
    pub(super) plt: Vec<u8>,
    /// Build-id; none if it is empty.
    pub(super) build_id: Vec<u8>,
    /// Symbols, and whether they are in `.symtab` or in `.dynsym`.
    pub(super) symbols: Vec<Row>,
    pub(super) dynamic: bool,
}

impl Sample {
    /// A 64-bit executable without symbols.
    pub(super) fn new(kind: u16, address: u64, text: Vec<u8>) -> Self {
        let (plt, build_id, symbols) = (vec![], vec![], vec![]);
        Self { wide: true, kind, address, text, plt, build_id, symbols, dynamic: false }
    }

    /// The bytes of the file.
    pub(super) fn file(&self) -> Vec<u8> {
        let word = |value: u64| value.to_le_bytes()[..if self.wide { 8 } else { 4 }].to_vec();
        let half = |value: u16| value.to_le_bytes().to_vec();
        let four = |value: u32| value.to_le_bytes().to_vec();
        // Both are a note and a table of strings: names of sections, then of symbols.
        let mut strings = b"\0.text\0.plt\0.data\0.note\0.symtab\0.strtab\0".to_vec();
        let mut symbols = vec![0; if self.wide { 24 } else { 16 }];
        for &(name, value, size, info, section) in &self.symbols {
            let at = strings.len() as u32;
            strings.extend(name.as_bytes());
            strings.push(0);
            let (value, size, kind) = (word(value), word(size), [info, 0]);
            symbols.extend(four(at));
            if self.wide {
                symbols.extend([&kind[..], &half(section), &value, &size].concat());
            } else {
                symbols.extend([&value[..], &size, &kind, &half(section)].concat());
            }
        }
        let id = &self.build_id;
        let note = if id.is_empty() {
            vec![]
        } else {
            [&four(4)[..], &four(id.len() as u32), &four(3), b"GNU\0", id].concat()
        };
        let (header, program, section) = if self.wide { (64, 56, 64) } else { (52, 32, 40) };
        let code = 0x1000;
        let note_at = code + (self.text.len() + self.plt.len()) as u64;
        let symbols_at = (note_at + note.len() as u64).next_multiple_of(8);
        let strings_at = symbols_at + symbols.len() as u64;
        let sections_at = (strings_at + strings.len() as u64).next_multiple_of(8);

        let mut file = vec![0x7F, b'E', b'L', b'F', if self.wide { 2 } else { 1 }, 1, 1];
        file.resize(16, 0);
        let machine = if self.wide { 62 } else { 3 };
        file.extend([half(self.kind), half(machine), four(1)].concat());
        file.extend([word(self.address), word(header), word(sections_at), four(0)].concat());
        for value in [header as u16, program, 2, section, 7, 6] {
            file.extend(half(value));
        }
        let mut segment = |kind: u32, flags: u32, at: u64, address: u64, size: u64| {
            file.extend(four(kind));
            if self.wide {
                file.extend(four(flags));
            }
            file.extend([at, address, address, size, size].map(word).concat());
            if !self.wide {
                file.extend(four(flags));
            }
            file.extend(word(4));
        };
        segment(1, 5, code, self.address, note_at - code);
        segment(4, 4, note_at, 0, note.len() as u64);
        file.resize(code as usize, 0);
        file.extend([&self.text[..], &self.plt, &note].concat());
        file.resize(symbols_at as usize, 0);
        file.extend([&symbols[..], &strings].concat());
        file.resize(sections_at as usize, 0);
        let plt_at = self.address + self.text.len() as u64;
        let (text, plt) = (self.text.len() as u64, self.plt.len() as u64);
        let table = if self.dynamic { DYNSYM } else { SYMTAB };
        let entry = if self.wide { 24 } else { 16 };
        // Name, type, flags, address, offset, size, link, entry size.
        for (name, kind, flags, address, at, size, link, entry) in [
            (0, 0, 0, 0, 0, 0, 0, 0),
            (1, 1, 6, self.address, code, text, 0, 0),
            (7, 1, 6, plt_at, code + text, plt, 0, 0),
            (12, 1, 3, plt_at + plt, code, 0x100, 0, 0),
            (18, 7, 2, 0, note_at, note.len() as u64, 0, 0),
            (24, table, 0, 0, symbols_at, symbols.len() as u64, 6, entry),
            (32, 3, 0, 0, strings_at, strings.len() as u64, 0, 0),
        ] {
            file.extend([four(name), four(kind), word(flags)].concat());
            file.extend([word(address), word(at), word(size), four(link), four(0)].concat());
            file.extend([word(4), word(entry)].concat());
        }
        file
    }
}
