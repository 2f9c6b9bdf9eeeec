//! Files of the host, read as far as there is room for them: some have no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::error::{BootError, Result};
use super::memory::RamLayout;

/// What a file is read for, and how much of it there is room for.
#[derive(Clone, Debug)]
pub struct Room {
    /// The option that names the file.
    pub option: &'static str,
    /// Bytes that there is room for.
    pub most: u64,
    /// What has so many, in words.
    pub place: &'static str,
}

impl Room {
    /// A file for guest memory.
    #[must_use]
    pub fn memory(option: &'static str, ram: &RamLayout) -> Self {
        Self { option, most: ram.size(), place: "the guest's memory; see --mem" }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the host cannot read it, or there is no room for it.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let whole = File::open(path).and_then(|file| self.read_on(file, &mut bytes));
        match whole.map_err(|error| self.unreadable(path, &error))? {
            true => Ok(bytes),
            false => Err(self.too_long(path)),
        }
    }

    /// Reads on as far as there is room, behind what `bytes` has; whether that is all.
    pub(super) fn read_on(&self, file: impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
        let most = self.most.saturating_sub(bytes.len() as u64);
        file.take(most.saturating_add(1)).read_to_end(bytes)?;
        let whole = bytes.len() as u64 <= self.most;
        if !whole {
            bytes.pop();
        }
        Ok(whole)
    }

    pub(super) fn unreadable(&self, path: &Path, error: &io::Error) -> BootError {
        self.error(path, format!("cannot be read: {error}"))
    }

    pub(super) fn too_long(&self, path: &Path) -> BootError {
        self.error(path, format!("has more than the {} bytes of {}", self.most, self.place))
    }

    fn error(&self, path: &Path, problem: String) -> BootError {
        BootError::Argument { option: self.option, name: path.display().to_string(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { option: "--it", most: 1000, place: "a test" };

    #[test]
    fn a_file_without_an_end_is_refused() {
        let text = ROOM.read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(text, "--it /dev/zero: has more than the 1000 bytes of a test");
    }

    #[test]
    fn what_fits_to_the_byte_is_read() {
        let path = std::env::temp_dir().join(format!("vpmu-room-{}", std::process::id()));
        for (size, fits) in [(0, true), (1000, true), (1001, false)] {
            std::fs::write(&path, vec![7; size]).unwrap();
            let read = ROOM.read(&path);
            assert_eq!(read.as_ref().is_ok_and(|bytes| *bytes == vec![7; size]), fits, "{size}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_no_file_is_named() {
        for (path, why) in [("/nonexistent/vmlinuz", "No such file"), ("/", "Is a directory")] {
            let text = ROOM.read(Path::new(path)).unwrap_err().to_string();
            assert!(text.starts_with(&format!("--it {path}: cannot be read: {why}")), "{text}");
        }
    }
}
