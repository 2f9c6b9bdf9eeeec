//! A payload file and what kind of file it is.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::elf::{self, Elf};
use super::error::{BootError, Result};
use super::file::Room;
use super::memory::RamLayout;
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
    /// 64-bit ELF executable for x86-64 without a multiboot header.
    Elf64,
    /// 32-bit ELF executable for the 80386 without a multiboot header.
    Elf32,
    /// Multiboot 1: an ELF of either class, or any file if its header gives load addresses.
    Multiboot,
}

/// Bytes that tell the format: a multiboot header ends in the first 8 KiB, its addresses 20 bytes
/// later.
const BEGINNING: u64 = 8192 + 20;

const EXPECTED: &str = "a bzImage, an ELF for x86 or a multiboot kernel";

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    /// If the host cannot read it, or there is no room for it.
    pub fn read(path: &Path, room: &Room) -> Result<Self> {
        Ok(Self { name: path.display().to_string(), bytes: room.read(path)? })
    }

    /// Reads a kernel: no more of it than its first bytes if they are those of none. What an ELF has
    /// behind its segments, as the tables of a debugger, is not needed.
    ///
    /// # Errors
    /// If the host cannot read it, it is in no known format, or there is no room for it.
    pub fn read_kernel(path: &Path, ram: &RamLayout) -> Result<Self> {
        let room = Room::memory("--kernel", ram);
        let unreadable = |error| room.unreadable(path, &error);
        let name = path.display().to_string();
        let mut file = File::open(path).map_err(unreadable)?;
        let mut image = Self { name, bytes: Vec::new() };
        file.by_ref().take(BEGINNING).read_to_end(&mut image.bytes).map_err(unreadable)?;
        image.format()?;
        let whole = room.read_on(file, &mut image.bytes).map_err(unreadable)?;
        if whole || Elf::parse(&image.name, &image.bytes).is_ok() {
            Ok(image)
        } else {
            Err(room.too_long(path))
        }
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
        match (elf::identify(&self.bytes), multiboot::find_header(&self.bytes)) {
            (Some((_, elf::MACHINE_386 | elf::MACHINE_X86_64)), Some(_)) => Ok(Format::Multiboot),
            (Some((elf::Class::Elf64, elf::MACHINE_X86_64)), None) => Ok(Format::Elf64),
            (Some((elf::Class::Elf32, elf::MACHINE_386)), None) => Ok(Format::Elf32),
            (Some((_, machine)), _) => Err(wrong(format!("an ELF for machine {machine}"))),
            (None, Some(header)) if header.has_addresses() => Ok(Format::Multiboot),
            (None, _) => Err(wrong(describe(&self.bytes))),
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
            let size = match bytes.len() as u64 {
                // There may be more.
                BEGINNING.. => String::new(),
                size => format!("{size} bytes of "),
            };
            format!("{size}unknown data beginning {}", hex.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::elf::{Class, sample};
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

    fn ram() -> RamLayout {
        RamLayout::new(2 << 20, None).unwrap()
    }

    fn read_kernel(path: &str) -> String {
        Image::read_kernel(Path::new(path), &ram()).unwrap_err().to_string()
    }

    /// Multiboot Specification 0.6.96, section 3.1.1: a header without addresses leaves them to the
    /// ELF file's own headers; it asks for no class. Kernels that begin in 32-bit protected mode and
    /// go on to long mode, such as GNU Mach, are 64-bit files.
    #[test]
    fn the_multiboot_header_decides_and_not_the_elf_class() {
        let format = |class, code: &[u8]| {
            let bytes = sample::elf(class, 0x10_0000, 0x10_0000, code, b"");
            Image { name: "k".into(), bytes }.format()
        };
        let header: Vec<u8> =
            [0x1BAD_B002u32, 0, 0xE452_4FFE].iter().flat_map(|word| word.to_le_bytes()).collect();
        for class in [Class::Elf32, Class::Elf64] {
            assert_eq!(format(class, &header).unwrap(), Format::Multiboot, "{class:?}");
        }
        assert_eq!(format(Class::Elf64, b"code").unwrap(), Format::Elf64);
        assert_eq!(format(Class::Elf32, b"code").unwrap(), Format::Elf32);
    }

    #[test]
    fn a_missing_file_is_named() {
        let text = read_kernel("/nonexistent/vmlinuz");
        assert!(text.starts_with("--kernel /nonexistent/vmlinuz: cannot be read: "), "{text}");
    }

    #[test]
    fn of_a_file_without_an_end_the_beginning_is_enough() {
        let text = read_kernel("/dev/zero");
        let found = "/dev/zero: found unknown data beginning 00 00 00 00 00 00 00 00, expected ";
        assert!(text.starts_with(found), "{text}");
    }

    /// An ELF whose segment is at its beginning may have any length; another format may not.
    #[test]
    fn what_a_debugger_wants_is_not_read() {
        let path = std::env::temp_dir().join(format!("vpmu-kernel-{}", std::process::id()));
        let elf = elf::sample::elf(elf::Class::Elf64, 0x20_0000, 0x20_0000, b"code", b"");
        let mut long = elf.clone();
        long.resize(5 << 20, 0xDB);
        std::fs::write(&path, &long).unwrap();
        let image = Image::read_kernel(&path, &ram()).unwrap();
        assert_eq!((image.bytes.len(), &image.bytes[..elf.len()]), (2 << 20, &elf[..]));
        // The same as a multiboot image with addresses: magic, flags 10000h, checksum.
        long[..12].copy_from_slice(&[0x02, 0xB0, 0xAD, 0x1B, 0, 0, 1, 0, 0xFE, 0x4F, 0x51, 0xE4]);
        std::fs::write(&path, &long).unwrap();
        let text = Image::read_kernel(&path, &ram()).unwrap_err().to_string();
        assert!(text.contains("has more than the 2097152 bytes of the guest's memory"), "{text}");
        std::fs::remove_file(&path).unwrap();
    }
}
