//! The truth file.
//!
//! A line `vpmu-truth VERSION LENGTH CRC`, then so many bytes of CBOR (RFC 8949) with that CRC-32.
//! `docs/truth.md` describes it for readers in other languages.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use super::{Truth, VERSION};
use crate::error::{Error, Result};
use crate::file;

/// The first word of every truth file.
const MAGIC: &str = "vpmu-truth";
/// Bytes of the first line that are looked at. With four numbers of 64 bits it has fewer.
const LONGEST_LINE: usize = 100;

/// Why bytes are no truth file. Displays what they are and what was expected.
#[derive(Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The first line is another.
    NotATruthFile,
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
        match self {
            Self::NotATruthFile => {
                write!(f, "no truth file: does not start with \"{MAGIC} {VERSION}\"")
            }
            Self::OtherVersion(version) => {
                write!(f, "a truth file of version {version}; expected version {VERSION}")
            }
            Self::Truncated { bytes, of: Some(of) } => {
                write!(f, "a truncated truth file: {bytes} of {of} bytes behind its first line")
            }
            Self::Truncated { of: None, .. } => {
                f.write_str("a truncated truth file: it ends in its first line")
            }
            Self::Corrupt(what) => write!(f, "a corrupt truth file: {what}"),
        }
    }
}

impl std::error::Error for FormatError {}

impl Truth {
    /// The bytes of a truth file. Equal truths have equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let written = ciborium::into_writer(self, &mut body);
        // A vector takes every byte, and no map of these types has keys that CBOR lacks.
        debug_assert!(written.is_ok(), "{written:?}");
        let crc = crc32fast::hash(&body);
        let mut bytes = format!("{MAGIC} {VERSION} {} {crc:08x}\n", body.len()).into_bytes();
        bytes.append(&mut body);
        bytes
    }

    /// Writes a truth file. A file is there with all of it afterwards or is as before; a pipe or a
    /// device is written to.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes();
        if file::is_replaceable(path) {
            return file::replace(path, bytes);
        }
        File::options()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(&bytes))
            .map_err(|e| Error::Host(format!("cannot write {}: {e}", path.display())))
    }

    /// What [`to_bytes`](Self::to_bytes) made bytes of; [`check`](Self::check) finds nothing wrong
    /// with it.
    ///
    /// # Errors
    /// They are no truth file that this version reads.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, FormatError> {
        let line = bytes.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n');
        let (line, body) = bytes.split_at(line.map_or(bytes.len(), |end| end + 1));
        decode(line, body)
    }

    /// Reads a truth file, as [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    /// The host does not read it, or it is no truth file that this version reads.
    pub fn read(path: &Path) -> Result<Self> {
        let cannot_read = |e| Error::Input(format!("cannot read {}: {e}", path.display()));
        let (line, body) = File::open(path).and_then(read_parts).map_err(cannot_read)?;
        decode(&line, &body).map_err(|e| Error::Input(format!("{} is {e}", path.display())))
    }
}

/// The first line, or the start of what is none, and as much of the body as there is. A length is not
/// trusted with memory before the bytes are there.
fn read_parts(input: impl Read) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut input = BufReader::new(input);
    let (mut line, mut body) = (Vec::new(), Vec::new());
    input.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line)?;
    if let Ok(Header { length, .. }) = Header::parse(&line) {
        // One more tells whether something follows.
        input.take(length.saturating_add(1)).read_to_end(&mut body)?;
    }
    Ok((line, body))
}

fn decode(line: &[u8], body: &[u8]) -> std::result::Result<Truth, FormatError> {
    let corrupt = |what: &str| FormatError::Corrupt(what.into());
    let Header { length, crc } = Header::parse(line)?;
    let bytes = body.len() as u64;
    if bytes < length {
        return Err(FormatError::Truncated { bytes, of: Some(length) });
    }
    if bytes > length {
        return Err(corrupt("something follows its end"));
    }
    if crc32fast::hash(body) != crc {
        return Err(corrupt("its CRC is another"));
    }
    let mut rest = body;
    let truth: Truth = ciborium::from_reader(&mut rest).map_err(|e| corrupt(&in_words(&e)))?;
    if !rest.is_empty() {
        return Err(corrupt("its CBOR ends too early"));
    }
    truth.check().map_err(FormatError::Corrupt)?;
    Ok(truth)
}

fn in_words(error: &ciborium::de::Error<io::Error>) -> String {
    use ciborium::de::Error;
    match error {
        Error::Io(_) => "its CBOR does not end".into(),
        Error::Syntax(offset) => format!("no CBOR at byte {offset}"),
        Error::Semantic(Some(offset), what) => format!("{} at byte {offset}", what.escape_debug()),
        Error::Semantic(None, what) => what.escape_debug().to_string(),
        Error::RecursionLimitExceeded => "its CBOR is nested too deeply".into(),
    }
}

/// What the first line tells of the rest.
struct Header {
    length: u64,
    crc: u32,
}

impl Header {
    fn parse(line: &[u8]) -> std::result::Result<Self, FormatError> {
        let whole = line.strip_suffix(b"\n");
        let words = std::str::from_utf8(whole.unwrap_or(line));
        let words: Vec<_> = words.map_or(vec![], |text| text.split(' ').collect());
        match (whole.is_some(), &words[..]) {
            (true, [MAGIC, version, ..]) if version.parse() != Ok(VERSION) => {
                Err(FormatError::OtherVersion(version.escape_debug().to_string()))
            }
            (true, [MAGIC, _, length, crc]) => {
                match (length.parse(), u32::from_str_radix(crc, 16)) {
                    (Ok(length), Ok(crc)) => Ok(Self { length, crc }),
                    _ => Err(FormatError::Corrupt("its first line has no length and CRC".into())),
                }
            }
            (true, [MAGIC, ..]) => {
                Err(FormatError::Corrupt("its first line has no length and CRC".into()))
            }
            (false, [MAGIC, ..]) if line.len() < LONGEST_LINE => {
                Err(FormatError::Truncated { bytes: 0, of: None })
            }
            _ => Err(FormatError::NotATruthFile),
        }
    }
}
