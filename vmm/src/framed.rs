//! Files of ours: a line `WORD VERSION LENGTH CRC`, then so many bytes with that CRC-32.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// Bytes of the first line that are looked at. With four numbers of 64 bits it has fewer.
const LONGEST_LINE: usize = 100;

/// A kind of such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The first word of every such file.
    pub word: &'static str,
    /// What it is called: "truth file".
    pub name: &'static str,
    /// The version that is written, and the only one that is read.
    pub version: u32,
}

/// Why bytes are no file of a kind. Displays what they are and what was expected.
#[derive(Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The kind that was expected.
    pub kind: Kind,
    /// What is wrong.
    pub problem: Problem,
}

/// What may be wrong with such a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// The first line is another.
    AnotherKind,
    /// Written by another version of the program.
    OtherVersion(String),
    /// The end is missing.
    Truncated {
        /// Bytes that are there behind the first line.
        bytes: u64,
        /// Bytes that the first line tells of; `None` if it is not whole itself.
        of: Option<u64>,
    },
    /// The bytes are not those that were written, or whoever wrote them got them wrong.
    Corrupt(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind: Kind { word, name, version }, problem } = self;
        match problem {
            Problem::AnotherKind => {
                write!(f, "no {name}: does not start with \"{word} {version}\"")
            }
            Problem::OtherVersion(other) => {
                write!(f, "a {name} of version {other}; expected version {version}")
            }
            Problem::Truncated { bytes, of: Some(of) } => {
                write!(f, "a truncated {name}: {bytes} of {of} bytes behind its first line")
            }
            Problem::Truncated { of: None, .. } => {
                write!(f, "a truncated {name}: it ends in its first line")
            }
            Problem::Corrupt(what) => write!(f, "a corrupt {name}: {what}"),
        }
    }
}

impl std::error::Error for FormatError {}

impl Kind {
    /// A file with this body.
    #[must_use]
    pub fn frame(&self, mut body: Vec<u8>) -> Vec<u8> {
        let (length, crc) = (body.len(), crc32fast::hash(&body));
        let mut bytes = format!("{} {} {length} {crc:08x}\n", self.word, self.version).into_bytes();
        bytes.append(&mut body);
        bytes
    }

    /// The body of a file.
    ///
    /// # Errors
    /// It is none of this kind and version, or damaged.
    pub fn body<'a>(&self, bytes: &'a [u8]) -> std::result::Result<&'a [u8], FormatError> {
        let line = bytes.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n');
        let (line, body) = bytes.split_at(line.map_or(bytes.len(), |end| end + 1));
        self.check(line, body)?;
        Ok(body)
    }

    /// Reads a file, and has `decode` make something of its body.
    ///
    /// # Errors
    /// The host does not read it, it is none of this kind and version or damaged, or `decode` finds it so.
    pub fn read<T>(
        &self,
        path: &Path,
        decode: impl FnOnce(Vec<u8>) -> std::result::Result<T, FormatError>,
    ) -> Result<T> {
        let cannot_read =
            |e| Error::Input(format!("cannot read {}: {e}", path.display())).because(e);
        let (line, body) =
            File::open(path).and_then(|file| self.read_parts(file)).map_err(cannot_read)?;
        let decoded = self.check(&line, &body).and_then(|()| decode(body));
        decoded.map_err(|e| Error::Input(format!("{} is {e}", path.display())).because(e))
    }

    /// That the bytes are not those that were written.
    pub fn corrupt(&self, what: impl Into<String>) -> FormatError {
        self.error(Problem::Corrupt(what.into()))
    }

    fn error(&self, problem: Problem) -> FormatError {
        FormatError { kind: *self, problem }
    }

    /// The first line, or the start of what is none, and as much of the body as there is. A length is not
    /// trusted with memory before the bytes are there.
    fn read_parts(&self, input: impl Read) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut input = BufReader::new(input);
        let (mut line, mut body) = (Vec::new(), Vec::new());
        input.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line)?;
        if let Ok((length, _)) = self.header(&line) {
            // One more tells whether something follows.
            input.take(length.saturating_add(1)).read_to_end(&mut body)?;
        }
        Ok((line, body))
    }

    fn check(&self, line: &[u8], body: &[u8]) -> std::result::Result<(), FormatError> {
        let (length, crc) = self.header(line)?;
        let bytes = body.len() as u64;
        if bytes < length {
            return Err(self.error(Problem::Truncated { bytes, of: Some(length) }));
        }
        if bytes > length {
            return Err(self.corrupt("something follows its end"));
        }
        if crc32fast::hash(body) != crc {
            return Err(self.corrupt("its CRC is another"));
        }
        Ok(())
    }

    /// What the first line tells of the rest: its length and its CRC.
    fn header(&self, line: &[u8]) -> std::result::Result<(u64, u32), FormatError> {
        let whole = line.strip_suffix(b"\n");
        let words = std::str::from_utf8(whole.unwrap_or(line));
        let words: Vec<_> = words.map_or(vec![], |text| text.split(' ').collect());
        match (whole.is_some(), &words[..]) {
            (true, [word, version, ..])
                if *word == self.word && version.parse() != Ok(self.version) =>
            {
                Err(self.error(Problem::OtherVersion(version.escape_debug().to_string())))
            }
            (true, [word, rest @ ..]) if *word == self.word => match rest {
                [_, length, crc] => match (length.parse(), u32::from_str_radix(crc, 16)) {
                    (Ok(length), Ok(crc)) => Ok((length, crc)),
                    _ => Err(self.corrupt("its first line has no length and CRC")),
                },
                _ => Err(self.corrupt("its first line has no length and CRC")),
            },
            (false, [word, ..]) if *word == self.word && line.len() < LONGEST_LINE => {
                Err(self.error(Problem::Truncated { bytes: 0, of: None }))
            }
            _ => Err(self.error(Problem::AnotherKind)),
        }
    }
}

/// What CBOR (RFC 8949) holds that is no more than that.
///
/// # Errors
/// What is wrong with it.
pub fn from_cbor<T: serde::de::DeserializeOwned>(
    mut bytes: &[u8],
) -> std::result::Result<T, String> {
    let value = ciborium::from_reader(&mut bytes).map_err(|e| in_words(&e))?;
    if !bytes.is_empty() {
        return Err("its CBOR ends too early".into());
    }
    Ok(value)
}

fn in_words(error: &ciborium::de::Error<io::Error>) -> String {
    use ciborium::de::Error;
    match error {
        Error::Io(_) => "its CBOR does not end".into(),
        Error::Syntax(offset) => format!("no CBOR at byte {offset}"),
        Error::Semantic(Some(offset), what) => format!("{} at byte {offset}", briefly(what)),
        Error::Semantic(None, what) => briefly(what),
        Error::RecursionLimitExceeded => "its CBOR is nested too deeply".into(),
    }
}

/// What serde says, which may repeat the names of fields that are in the file.
fn briefly(what: &str) -> String {
    const MOST: usize = 200;
    // What is escaped is longer.
    let mut escaped = what.chars().flat_map(char::escape_debug);
    let brief: String = escaped.by_ref().take(MOST).collect();
    if escaped.next().is_some() { brief + "..." } else { brief }
}

/// The CBOR of a value.
#[must_use]
pub fn to_cbor(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = ciborium::into_writer(value, &mut bytes);
    // A vector takes every byte, and no map of our types has keys that CBOR lacks.
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}
