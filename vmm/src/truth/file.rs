//! The truth file: [`crate::framed`], with CBOR behind the first line.
//! `docs/truth.md` describes it for readers in other languages.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::{Truth, VERSION};
use crate::error::{Error, Result};
use crate::file;
use crate::framed::{self, FormatError, Kind};

/// Truth files.
const KIND: Kind = Kind { word: "vpmu-truth", name: "truth file", version: VERSION };

impl Truth {
    /// The bytes of a truth file. Equal truths have equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        KIND.frame(framed::to_cbor(self))
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
            .map_err(|e| Error::cannot_write(path.display(), e))
    }

    /// What [`to_bytes`](Self::to_bytes) made bytes of; [`check`](Self::check) finds nothing wrong
    /// with it.
    ///
    /// # Errors
    /// They are no truth file that this version reads.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, FormatError> {
        KIND.body(bytes).and_then(decode)
    }

    /// Reads a truth file, as [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    /// The host does not read it, or it is no truth file that this version reads.
    pub fn read(path: &Path) -> Result<Self> {
        KIND.read(path, |body| decode(&body))
    }
}

fn decode(body: &[u8]) -> std::result::Result<Truth, FormatError> {
    let truth: Truth = framed::from_cbor(body).map_err(|what| KIND.corrupt(what))?;
    truth.check().map_err(|what| KIND.corrupt(what))?;
    Ok(truth)
}
