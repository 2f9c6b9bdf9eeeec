//! `--symbols FILE[@ADDRESS]`: names that the user has.

use std::path::Path;

use crate::boot::Room;
use crate::config::parse_address;
use crate::error::{Error, Result};

/// Bytes that such a file has at most: a kernel with all that a debugger wants has a tenth.
const MOST: u64 = 4 << 30;

/// A file that the user names: an ELF file or a `System.map`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolFile {
    /// The option's value, for messages.
    pub argument: String,
    /// The file's content.
    pub bytes: Vec<u8>,
    /// Of an ELF file, where its first page was loaded. Of a `System.map`, what is to be added to its
    /// addresses.
    pub address: Option<u64>,
}

impl SymbolFile {
    /// Reads the file that the value of `--symbols` names. What is behind the last `@` is the address,
    /// unless there is a file of the whole name.
    ///
    /// # Errors
    /// If there is no such file, or what should be the address is no number.
    pub fn read(argument: &str) -> Result<Self> {
        let (path, address) = match argument.rsplit_once('@') {
            Some((path, address)) if !Path::new(argument).is_file() => (path, Some(address)),
            _ => (argument, None),
        };
        let number = |text: &str| {
            parse_address(text).ok_or_else(|| {
                Error::Usage(format!(
                    "--symbols {argument}: expected FILE or FILE@ADDRESS, as in \
                     program@0x555555554000"
                ))
            })
        };
        let address = address.map(number).transpose()?;
        let room = Room { option: "--symbols", most: MOST, place: "the longest file of symbols" };
        Ok(Self { argument: argument.into(), bytes: room.read(Path::new(path))?, address })
    }

    /// The part of the argument that names the file.
    #[must_use]
    pub fn path(&self) -> &str {
        match (self.address, self.argument.rsplit_once('@')) {
            (Some(_), Some((path, _))) => path,
            _ => &self.argument,
        }
    }

    /// That it cannot be used, and why.
    pub(super) fn refused(&self, why: &str) -> Error {
        Error::Input(format!("--symbols {}: {why}", self.argument))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number behind the last `@` is the address, but a file may be called so.
    #[test]
    fn the_address_is_behind_the_last_at() {
        let folder = std::env::temp_dir().join(format!("vpmu-symbols-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["map", "a@b", "a@7"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let read = |name: &str| {
            let argument = folder.join(name).display().to_string();
            let file = SymbolFile::read(&argument)?;
            let path = folder.join(String::from_utf8(file.bytes.clone()).unwrap());
            assert_eq!(file.path(), path.to_str().unwrap());
            Ok(file.address)
        };
        assert_eq!(read("map").unwrap(), None);
        assert_eq!(read("map@0xffffffff81000000").unwrap(), Some(0xFFFF_FFFF_8100_0000));
        assert_eq!(read("map@4096").unwrap(), Some(4096));
        assert_eq!(read("a@b").unwrap(), None);
        assert_eq!(read("a@7").unwrap(), None);
        assert_eq!(read("a@7@8").unwrap(), Some(8));
        let refusal: Result<_> = read("map@here");
        let text = refusal.unwrap_err();
        assert_eq!(text.status(), 2);
        assert!(text.to_string().contains("map@here: expected FILE or FILE@ADDRESS"), "{text}");
        let text: Error = read("nothing").unwrap_err();
        assert_eq!(text.status(), 4);
        assert!(text.to_string().contains("nothing: cannot be read"), "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
