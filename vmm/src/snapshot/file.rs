//! The snapshot file: [`crate::framed`], its body compressed by zstd (RFC 8878): the length of the CBOR as 64 bits, the
//! CBOR of the machine's identity and state, and its RAM (`ram.rs`). All numbers are little-endian.

use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ram::Pages;
use super::{Identity, Snapshot, State};
use crate::error::{Error, Result};
use crate::file;
use crate::framed::{self, FormatError, Kind};

/// Snapshot files. A change of anything in [`State`] or the models is another version.
const KIND: Kind = Kind { word: "vpmu-snapshot", name: "snapshot", version: 16 };

/// How hard zstd tries: RAM shrinks to a third or less even so, at hundreds of megabytes a second.
const LEVEL: i32 = 1;
/// The longest state beside RAM, in bytes.
const LONGEST_STATE: u64 = 1 << 30;

/// The part that is CBOR.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree<I, S> {
    identity: I,
    state: S,
}

impl Snapshot {
    /// The bytes of a snapshot file. Equal machines have equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let tree = framed::to_cbor(&Tree { identity: &self.identity, state: &*self.state });
        let body = zstd::Encoder::new(Vec::new(), LEVEL).and_then(|mut out| {
            out.write_all(&(tree.len() as u64).to_le_bytes())?;
            out.write_all(&tree)?;
            self.ram.write(&mut out)?;
            out.finish()
        });
        // A vector takes every byte.
        debug_assert!(body.is_ok(), "{body:?}");
        KIND.frame(body.unwrap_or_default())
    }

    /// Writes a snapshot file. Either all of it is there afterwards, or the file is as before.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn write(&self, path: &Path) -> Result<()> {
        if !file::is_replaceable(path) {
            return Err(Error::Host(format!("cannot write {}: not a file", path.display())));
        }
        file::replace(path, self.to_bytes())
    }

    /// What [`Self::to_bytes`] made bytes of.
    ///
    /// # Errors
    /// They are no snapshot that this version reads.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, FormatError> {
        KIND.body(bytes).and_then(decode)
    }

    /// Reads a snapshot file.
    ///
    /// # Errors
    /// The host does not read it, or it is no snapshot that this version reads.
    pub fn read(path: &Path) -> Result<Self> {
        KIND.read(path, |body| decode(&body))
    }
}

fn decode(body: &[u8]) -> std::result::Result<Snapshot, FormatError> {
    let failed = |error: io::Error| KIND.corrupt(error.to_string());
    let mut input = zstd::Decoder::new(body).map_err(failed)?;
    let tree = read_tree(&mut input).map_err(failed)?;
    let Tree::<Identity, Box<State>> { identity, state } =
        framed::from_cbor(&tree).map_err(|what| KIND.corrupt(what))?;
    let ram = read_ram(&mut input, identity.memory).map_err(failed)?;
    Ok(Snapshot { identity, state, ram })
}

fn read_tree(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_STATE {
        return Err(io::Error::other("its state is too long"));
    }
    let mut tree = Vec::new();
    input.take(length).read_to_end(&mut tree)?;
    Ok(tree)
}

/// A few bytes may stand for many: no more than the machine has are made of them.
fn read_ram(input: &mut impl Read, memory: u64) -> io::Result<Pages> {
    let ram = Pages::read(input, memory)?;
    if input.read(&mut [0])? != 0 {
        return Err(io::Error::other("something follows its RAM"));
    }
    Ok(ram)
}
