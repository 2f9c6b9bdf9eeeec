//! A payload file and what kind of file it is.

use std::path::Path;

use super::elf;
use super::error::{BootError, Result};
use super::{linux, multiboot};

/// Bytes with the name that messages use for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// File name, or a description of bytes that come from no file.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// The kernel formats that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Linux x86 boot protocol 2.00 or later.
    BzImage,
    /// 64-bit ELF executable for x86-64.
    Elf64,
    /// Multiboot 1: a 32-bit ELF, or any file whose header gives load addresses.
    Multiboot,
}

const EXPECTED: &str = "a bzImage, an x86-64 ELF or a multiboot kernel";

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    /// If the host cannot read it.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)
            .map_err(|source| BootError::Read { path: path.to_path_buf(), source })?;
        Ok(Self { name: path.display().to_string(), bytes })
    }

    /// Tells the kernel format from the content.
    ///
    /// # Errors
    /// If it is none of them: says what the content looks like.
    pub fn format(&self) -> Result<Format> {
        let wrong = |found: String| BootError::Format {
            name: self.name.clone(),
            found,
            expected: EXPECTED,
        };
        if linux::is_bzimage(&self.bytes) {
            return Ok(Format::BzImage);
        }
        let header = multiboot::find_header(&self.bytes);
        match elf::identify(&self.bytes) {
            Some((elf::Class::Elf64, elf::MACHINE_X86_64)) => return Ok(Format::Elf64),
            Some((elf::Class::Elf32, elf::MACHINE_386)) => {
                return match header {
                    Some(_) => Ok(Format::Multiboot),
                    None => Err(wrong("a 32-bit ELF without multiboot header".into())),
                };
            }
            Some((_, machine)) => {
                return Err(wrong(format!("an ELF for machine {machine}")));
            }
            None => {}
        }
        match header {
            Some(header) if header.has_addresses() => Ok(Format::Multiboot),
            _ => Err(wrong(describe(&self.bytes))),
        }
    }
}

/// Says in a few words what the bytes look like.
fn describe(bytes: &[u8]) -> String {
    const KNOWN: &[(&[u8], &str)] = &[
        (b"\x7FELF", "a damaged ELF"),
        (b"MZ", "a PE or DOS executable"),
        (b"\x1F\x8B", "gzip data"),
        (b"\xFD7zXZ\0", "xz data"),
        (b"\x28\xB5\x2F\xFD", "zstd data"),
        (b"BZh", "bzip2 data"),
        (b"070701", "a cpio archive"),
        (b"#!", "a script"),
        (b"!<arch>\n", "an ar archive"),
    ];
    if bytes.is_empty() {
        return "an empty file".into();
    }
    match KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, text)) => (*text).into(),
        None => {
            let hex: Vec<_> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
            format!("{} bytes of unknown data beginning {}", bytes.len(), hex.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        let image = Image { name: "k".into(), bytes: bytes.to_vec() };
        image.format().unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_format_is_named() {
        for (bytes, found) in [
            (&b""[..], "an empty file"),
            (b"\x1F\x8B\x08", "gzip data"),
            (b"070701000", "a cpio archive"),
            (b"#!/bin/sh\n", "a script"),
            (b"\x7FELF", "a damaged ELF"),
            (b"\x01\x02", "2 bytes of unknown data beginning 01 02"),
        ] {
            let text = refusal(bytes);
            assert!(text.starts_with(&format!("k: found {found}, expected ")), "{text}");
            assert!(!text.contains('\n'));
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let text = Image::read(Path::new("/nonexistent/vmlinuz")).unwrap_err().to_string();
        assert!(text.starts_with("cannot read /nonexistent/vmlinuz: "), "{text}");
    }
}
