//! What inputs do to files that are in order: numbers in their fields, pieces left out or repeated.

use std::fmt;

/// Longest file that an input makes, in bytes.
const LONGEST: usize = 256 << 10;
/// Numbers at which something changes.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0xFFF,
    0x1000,
    0x7FFF,
    0xFFFF,
    0x1_0000,
    0xF_FFFF,
    0x10_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_F000,
    0xFFFF_FFFF,
    0x1_0000_0000,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// The bytes of an input, from the first to the last; then zeroes.
pub(super) struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// One of `0..n`, by as few bytes as can say it.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let number = match n {
            0..=0x100 => self.byte().into(),
            0x101..=0x1_0000 => usize::from(self.byte()) | usize::from(self.byte()) << 8,
            _ => {
                let [a, b, c] = [self.byte(), self.byte(), self.byte()].map(usize::from);
                a | b << 8 | c << 16
            }
        };
        number % n.max(1)
    }

    /// A number at which something changes, or the next bytes.
    pub(super) fn number(&mut self) -> u64 {
        let first = self.byte();
        match EDGES.get(usize::from(first)) {
            Some(&edge) => edge,
            None => (0..=first & 7).fold(0, |number, n| number | u64::from(self.byte()) << (8 * n)),
        }
    }

    /// All that is left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// A number in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) at: usize,
    pub(super) size: usize,
}

/// A file that is in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Sound {
    pub(super) bytes: Vec<u8>,
    pub(super) fields: Vec<Field>,
}

impl Sound {
    /// Adds a number, little-endian, of `size` bytes.
    pub(super) fn field(&mut self, name: &'static str, size: usize, value: u64) {
        self.fields.push(Field { name, at: self.bytes.len(), size });
        self.bytes.extend(&value.to_le_bytes()[..size]);
    }

    /// Adds bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Writes a number over what is there.
    pub(super) fn put(&mut self, name: &'static str, at: usize, size: usize, value: u64) {
        self.fields.push(Field { name, at, size });
        self.bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// A change of a file.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    Set(Field, u64),
    Remove { at: usize, length: usize },
    Repeat { at: usize, length: usize, times: usize },
    Truncate { at: usize },
    Append(u8, usize),
}

impl Edit {
    /// The next change of a file that is `bytes` now.
    pub(super) fn next(source: &mut Source<'_>, bytes: &[u8], fields: &[Field]) -> Self {
        let current = |field: &Field| {
            let bytes = bytes.get(field.at..field.at + field.size).unwrap_or_default();
            bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        match source.byte() % 16 {
            0..=5 if !fields.is_empty() => {
                let field = fields[source.below(fields.len())];
                Self::Set(field, source.number())
            }
            6..=8 if !fields.is_empty() => {
                let field = fields[source.below(fields.len())];
                let change = source.byte() as i8;
                Self::Set(field, current(&field).wrapping_add_signed(change.into()))
            }
            // The length of the file, or a place in it.
            9 if !fields.is_empty() => {
                let field = fields[source.below(fields.len())];
                Self::Set(field, bytes.len() as u64 - source.below(bytes.len() + 1) as u64)
            }
            10 => {
                let (at, length) = (source.below(bytes.len()), usize::from(source.byte()) + 1);
                Self::Remove { at, length }
            }
            11 => {
                let (at, length) = (source.below(bytes.len()), usize::from(source.byte()) + 1);
                Self::Repeat { at, length, times: source.byte().into() }
            }
            12 => Self::Truncate { at: source.below(bytes.len()) },
            13 => Self::Append(source.byte(), usize::from(source.byte()) * 16),
            number => {
                let size = 1 << (number & 3);
                let field = Field { name: "", at: source.below(bytes.len()), size };
                Self::Set(field, source.number())
            }
        }
    }

    /// Makes it.
    pub(super) fn apply(&self, bytes: &mut Vec<u8>) {
        let length_now = bytes.len();
        match *self {
            Self::Set(Field { at, size, .. }, value) => {
                let value = value.to_le_bytes();
                let there = bytes.iter_mut().skip(at).zip(&value[..size]);
                there.for_each(|(byte, value)| *byte = *value);
            }
            Self::Remove { at, length } => {
                bytes.drain(at.min(length_now)..(at + length).min(length_now));
            }
            Self::Repeat { at, length, times } => {
                let end = (at + length).min(length_now);
                let piece = bytes[at.min(end)..end].repeat(times);
                bytes.splice(end..end, piece);
            }
            Self::Truncate { at } => bytes.truncate(at),
            Self::Append(byte, length) => bytes.resize(length_now + length, byte),
        }
        bytes.truncate(LONGEST);
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(Field { name: "", at, size }, value) => {
                write!(f, "{size} bytes at {at:#x} := {value:#x}")
            }
            Self::Set(Field { name, at, .. }, value) => {
                write!(f, "{name}, at {at:#x}, := {value:#x}")
            }
            Self::Remove { at, length } => write!(f, "without {length} bytes at {at:#x}"),
            Self::Repeat { at, length, times } => {
                write!(f, "{length} bytes at {at:#x} {times} times more")
            }
            Self::Truncate { at } => write!(f, "ends at {at:#x}"),
            Self::Append(byte, length) => write!(f, "{length} bytes {byte:#x} at the end"),
        }
    }
}

/// Most changes of an input.
const MOST: usize = 24;

/// All changes of a file that an input makes, in words; the file is `sound` with these.
pub(super) fn edit(source: &mut Source<'_>, sound: &Sound) -> (Vec<u8>, Vec<String>) {
    let (mut bytes, mut words) = (sound.bytes.clone(), Vec::new());
    while !source.is_over() && words.len() < MOST {
        let edit = Edit::next(source, &bytes, &sound.fields);
        words.push(edit.to_string());
        edit.apply(&mut bytes);
    }
    (bytes, words)
}
