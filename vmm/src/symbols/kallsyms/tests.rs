//! Tables as `scripts/kallsyms.c` writes them, of the kernels since 2.6.

use super::*;

/// How a kernel's tables look.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Bytes of a word.
    word: usize,
    /// What the addresses are.
    addresses: Addresses,
    /// Bytes of a marker.
    marker: usize,
    /// Whether the addresses stand behind the names (6.4).
    behind: bool,
    /// Whether there is `kallsyms_seqs_of_names` (6.2).
    sequences: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Addresses {
    /// `kallsyms_addresses` (before 4.6).
    Absolute,
    /// `kallsyms_offsets`, from the base upwards.
    Relative,
    /// Those that are not per-processor are below zero.
    AbsolutePercpu,
}
use Addresses::{Absolute, AbsolutePercpu, Relative};

const fn layout(word: usize, addresses: Addresses, marker: usize) -> Layout {
    Layout { word, addresses, marker, behind: false, sequences: false }
}

/// Linux 2.6 to 4.5, 4.6 to 4.19, 4.20 to 6.1, 6.2 and 6.3, from 6.4 on; for x86-64 and for IA-32.
const LAYOUTS: [Layout; 10] = [
    layout(8, Absolute, 8),
    layout(4, Absolute, 4),
    layout(8, AbsolutePercpu, 8),
    layout(8, AbsolutePercpu, 4),
    layout(4, Relative, 4),
    Layout { sequences: true, ..layout(8, AbsolutePercpu, 4) },
    Layout { sequences: true, ..layout(4, Relative, 4) },
    Layout { sequences: true, behind: true, ..layout(8, AbsolutePercpu, 4) },
    Layout { sequences: true, behind: true, ..layout(4, Relative, 4) },
    // A kernel for one processor has no per-processor addresses.
    Layout { sequences: true, behind: true, ..layout(8, Relative, 4) },
];

impl Layout {
    /// Lowest address of the kernel.
    fn base(self) -> u64 {
        if self.word == 8 { 0xFFFF_FFFF_9A20_0000 } else { 0xC100_0000 }
    }

    /// Symbols as a kernel has them, with names of all lengths up to `longest` now and then.
    fn symbols(self, count: usize, longest: usize) -> Vec<Row> {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % below
        };
        const PARTS: [&str; 10] =
            ["irq", "_get", "page", "sched_", "init", "Tcp", "xfrm", "do_", "q", "__x64_sys"];
        // Those of a processor's own memory come first, at their offsets.
        let percpu = if self.addresses == Relative { 0 } else { count / 20 };
        let mut address = 0;
        let row = |index: usize| {
            if index == percpu {
                address = self.base();
            }
            let kind = if index < percpu { b'A' } else { b"tTtTwWdDrB"[random(10) as usize] };
            let mut name = String::new();
            let length = if index % 100 == 99 { longest } else { 8 + random(20) as usize };
            while name.len() < length {
                name += PARTS[random(10) as usize];
            }
            let row = Row { address, kind, name: format!("{name}{index}") };
            // Some share an address.
            address += [0, 16, 16, 48, 4096][random(5) as usize];
            row
        };
        (0..count).map(row).collect()
    }

    /// The tables, behind `ahead` bytes and in front of as many that are none. Returns where the
    /// digits are, too.
    fn write(self, symbols: &[Row], ahead: usize) -> (Vec<u8>, usize) {
        let text = |row: &Row| [&[row.kind], row.name.as_bytes()].concat();
        let texts: Vec<_> = symbols.iter().map(text).collect();
        let tokens = tokens(&texts);
        let mut out = Output { bytes: vec![0xA5; ahead], word: self.word };
        if !self.behind {
            self.write_addresses(&mut out, symbols);
        }
        out.label();
        out.number(symbols.len() as u64, if self.marker == 8 { 8 } else { 4 });
        out.label();
        let (start, mut markers) = (out.bytes.len(), Vec::new());
        for (index, text) in texts.iter().enumerate() {
            if index % 256 == 0 {
                markers.push(out.bytes.len() - start);
            }
            let name = compress(text, &tokens);
            if name.len() < 0x80 {
                out.bytes.push(name.len() as u8);
            } else {
                out.bytes.extend([name.len() as u8 | 0x80, (name.len() >> 7) as u8]);
            }
            out.bytes.extend(name);
        }
        out.label();
        for marker in markers {
            out.number(marker as u64, self.marker);
        }
        if self.sequences && !self.behind {
            self.write_sequences(&mut out, symbols);
        }
        out.label();
        let table = out.bytes.len();
        let mut offsets = Vec::new();
        for token in &tokens {
            offsets.push(out.bytes.len() - table);
            out.bytes.extend(token);
            out.bytes.push(0);
        }
        let digits = table + offsets[usize::from(b'0')];
        out.label();
        for offset in offsets {
            out.number(offset as u64, 2);
        }
        if self.behind {
            self.write_addresses(&mut out, symbols);
            self.write_sequences(&mut out, symbols);
        }
        out.bytes.extend(vec![0xA5; ahead]);
        (out.bytes, digits)
    }

    fn write_addresses(self, out: &mut Output, symbols: &[Row]) {
        out.label();
        for row in symbols {
            let is_percpu = row.kind == b'A';
            match self.addresses {
                Absolute => out.number(row.address, self.word),
                Relative => out.number(row.address - self.base(), 4),
                AbsolutePercpu if is_percpu => out.number(row.address, 4),
                AbsolutePercpu => {
                    let offset = self.base() as i64 - 1 - row.address as i64;
                    out.number(offset as u64, 4);
                }
            }
        }
        if self.addresses != Absolute {
            out.label();
            out.number(self.base(), self.word);
        }
    }

    /// For each symbol, by name, its number in three bytes, the highest first.
    fn write_sequences(self, out: &mut Output, symbols: &[Row]) {
        out.label();
        let mut order: Vec<_> = (0..symbols.len()).collect();
        order.sort_by_key(|index| &symbols[*index].name);
        for index in order {
            out.bytes.extend(&(index as u32).to_be_bytes()[1..]);
        }
    }
}

struct Output {
    bytes: Vec<u8>,
    word: usize,
}

impl Output {
    /// Aligns what follows.
    fn label(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.word), 0);
    }

    fn number(&mut self, value: u64, size: usize) {
        self.bytes.extend(&value.to_le_bytes()[..size]);
    }
}

/// A byte that occurs stands for itself; the others for strings, as long as there are some.
fn tokens(texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut strings = ["irq", "_get", "init", "__x64_", "page", "sched_", "T__", "do"]
        .iter()
        .map(|s| s.as_bytes());
    let token = |byte| {
        let occurs = texts.iter().any(|text| text.contains(&byte));
        if occurs { vec![byte] } else { strings.next().unwrap_or_default().to_vec() }
    };
    (0..=255).map(token).collect()
}

/// The name in tokens, the longest that fits first.
fn compress(text: &[u8], tokens: &[Vec<u8>]) -> Vec<u8> {
    let (mut name, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let fits = |token: &usize| !tokens[*token].is_empty() && rest.starts_with(&tokens[*token]);
        let token = (0..256).filter(fits).max_by_key(|token| tokens[*token].len());
        let token = token.expect("every byte is a token");
        name.push(token as u8);
        rest = &rest[tokens[token].len()..];
    }
    name
}

/// One name or one less than whole blocks of 256, whole blocks, and many.
#[test]
fn the_tables_of_all_kernels_are_read() {
    for layout in LAYOUTS {
        for count in [257, 511, 512, 513, 6000] {
            let symbols = layout.symbols(count, 60);
            let (bytes, digits) = layout.write(&symbols, 4096);
            let rows = read(&bytes, digits);
            assert!(rows.as_deref() == Some(&symbols), "{layout:?}, {count} symbols");
        }
    }
}

/// Since Linux 6.1 a compressed name may have more than 127 bytes: its length has two bytes then.
#[test]
fn long_names_are_read() {
    for layout in LAYOUTS {
        let symbols = layout.symbols(1000, 700);
        let (bytes, digits) = layout.write(&symbols, 64);
        assert!(read(&bytes, digits).as_deref() == Some(&symbols), "{layout:?}");
    }
}

/// A table in memory, and the copy of it in a file there. What only has the digits is none.
#[test]
fn all_tables_in_memory_are_found() {
    let layout = LAYOUTS[3];
    let symbols = layout.symbols(1000, 60);
    let (table, _) = layout.write(&symbols, 4096);
    let ram: Vec<u8> =
        [&DIGITS[..], &[0; 4], table.as_slice(), DIGITS, b"1234", &table, DIGITS].concat();
    let read = |address: u64, out: &mut [u8]| {
        let from = address as usize;
        ram.get(from..from + out.len()).map(|bytes| out.copy_from_slice(bytes)).is_some()
    };
    let range = 0..ram.len() as u64;
    let found = find(&GuestMemory { ranges: std::slice::from_ref(&range), read: &read });
    assert!(found.len() == 2 && found[0] == symbols && found[1] == symbols, "{}", found.len());
}

/// Each byte of a small table in turn is another: that may be a name or an address, and is no panic.
#[test]
fn a_damaged_table_is_another_or_none() {
    for layout in [LAYOUTS[3], LAYOUTS[8]] {
        let symbols = layout.symbols(270, 20);
        let (mut bytes, digits) = layout.write(&symbols, 8);
        let mut lost = 0;
        for at in 0..bytes.len() {
            let was = bytes[at];
            for value in [0, was ^ 0x80, was.wrapping_add(1)] {
                bytes[at] = value;
                match read(&bytes, digits) {
                    Some(rows) => assert_eq!(rows.len(), symbols.len()),
                    None => lost += 1,
                }
            }
            bytes[at] = was;
        }
        assert!(lost > bytes.len() / 2, "{lost} of {}", bytes.len());
        for end in (0..bytes.len()).step_by(61) {
            _ = read(&bytes[..end], digits.min(end));
        }
    }
}

/// nm's letters of code are t, T, w and W. The size of what shares an address is the same.
#[test]
fn code_reaches_to_the_next_symbol() {
    let row = |address, kind, name: &str| Row { address, kind, name: name.into() };
    let rows = [
        row(0x1000, b'T', "_text"),
        row(0x1000, b't', "start"),
        row(0x1040, b'D', "data"),
        row(0x1080, b'W', "weak"),
        row(0x1090, b'V', "object"),
        row(0x1FF0, b'w', "last"),
    ];
    let symbols: Vec<_> = text(&rows).into_iter().map(|s| (s.address, s.size, s.name)).collect();
    let expected = [
        (0x1000, 0x40, "_text"),
        (0x1000, 0x40, "start"),
        (0x1080, 0x10, "weak"),
        (0x1FF0, 0x10, "last"),
    ];
    assert_eq!(symbols, expected.map(|(address, size, name)| (address, size, name.to_owned())));
}
