//! Flat binaries: bytes at an address, run from the first.
//!
//! Below 1 MiB the first byte runs in real mode, with CS = address / 16 and IP = address modulo 16.
//! From 1 MiB on it runs in 32-bit protected mode with flat segments.

use super::elf::Elf;
use super::entry::{self, Entry, Selectors};
use super::error::{BootError, Result, between};
use super::image::{Format, Image};
use super::memory::{GuestRam, RamLayout};
use super::{Kernel, layout};

/// Copies the image to `address` and gives the state in which it starts.
pub(super) fn load(
    memory: &GuestRam,
    ram: &RamLayout,
    image: &Image,
    address: u64,
) -> Result<Entry> {
    if image.bytes.is_empty() {
        return Err(BootError::Damaged { name: image.name.clone(), problem: "is empty".into() });
    }
    let real = address < layout::HIGH_RAM;
    let end = if real { layout::LOW_RAM_END } else { ram.low_end() };
    let size = image.bytes.len() as u64;
    if address.checked_add(size).is_none_or(|last| last > end) {
        return Err(BootError::DoesNotFit {
            what: format!("flat image {}", image.name),
            size,
            place: between(address, end),
        });
    }
    entry::write(memory, address, &image.bytes, &image.name)?;
    // Both are below 4 GiB: the hole begins at 3 GiB.
    if real {
        Ok(Entry::real(address as u32))
    } else {
        Entry::protected32(memory, address as u32, Selectors::Linux)
    }
}

/// Loads a 32-bit ELF that follows no boot protocol and gives the state at its entry point.
pub(super) fn load_elf(memory: &GuestRam, ram: &RamLayout, kernel: &Kernel) -> Result<Entry> {
    let name = &kernel.image.name;
    if !kernel.modules.is_empty() || !kernel.command_line.is_empty() {
        return Err(BootError::Unsupported(format!(
            "{name}: a 32-bit ELF without a multiboot header takes no command line and no modules"
        )));
    }
    let elf = Elf::parse(name, &kernel.image.bytes)?;
    elf.load(memory, ram, &layout::TAKEN)?;
    // An ELF of this class has no address beyond 4 GiB.
    Entry::protected32(memory, elf.physical_entry() as u32, Selectors::Linux)
}

/// How such an ELF starts, in one line; `None` of other kernels.
pub(super) fn announcement(kernel: &Kernel) -> Option<String> {
    let image = &kernel.image;
    let Ok(Format::Elf32) = image.format() else { return None };
    let entry = Elf::parse(&image.name, &image.bytes).ok()?.physical_entry();
    Some(format!(
        "{}: a 32-bit ELF without a multiboot header: starts at its entry, {entry:#x}, in protected mode \
         with flat segments, without paging",
        image.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::LinuxEntry;
    use crate::boot::elf::{Class, sample};
    use crate::boot::entry::Mode;
    use vm_memory::{Bytes, GuestAddress};

    fn machine() -> (GuestRam, RamLayout) {
        let ram = RamLayout::new(4 << 20, None).unwrap();
        (ram.allocate().unwrap(), ram)
    }

    fn image(size: usize) -> Image {
        Image { name: "f".into(), bytes: vec![0xF4; size] }
    }

    #[test]
    fn the_first_byte_runs() {
        let (memory, ram) = machine();
        let entry = load(&memory, &ram, &image(3), 0x7C00).unwrap();
        assert_eq!((entry.mode, entry.cs.base + entry.rip), (Mode::Real, 0x7C00));
        assert_eq!(memory.read_obj::<u8>(GuestAddress(0x7C02)).unwrap(), 0xF4);
        let entry = load(&memory, &ram, &image(3), 0x10_0001).unwrap();
        assert_eq!((entry.mode, entry.rip), (Mode::Protected32, 0x10_0001));
        assert_eq!(memory.read_obj::<u8>(GuestAddress(0x10_0001)).unwrap(), 0xF4);
    }

    #[test]
    fn an_image_ends_inside_memory() {
        let (memory, ram) = machine();
        let low_room = 0x9_FC00 - 0x7C00;
        assert!(load(&memory, &ram, &image(low_room), 0x7C00).is_ok());
        assert!(load(&memory, &ram, &image(low_room + 1), 0x7C00).is_err());
        assert!(load(&memory, &ram, &image(3 << 20), 0x10_0000).is_ok());
        assert!(load(&memory, &ram, &image((3 << 20) + 1), 0x10_0000).is_err());
        assert!(load(&memory, &ram, &image(1), u64::MAX).is_err());
        assert!(load(&memory, &ram, &image(0), 0x7C00).is_err());
    }

    /// Linked for C010_0000h, loaded at 10_0000h.
    #[test]
    fn an_elf_of_32_bits_starts_at_its_entry() {
        let (memory, ram) = machine();
        let bytes = sample::elf(Class::Elf32, 0xC010_0000, 0x10_0000, b"code", b"");
        let mut kernel = Kernel {
            image: Image { name: "k".into(), bytes },
            modules: vec![],
            command_line: String::new(),
            entry: LinuxEntry::Auto,
        };
        let entry = load_elf(&memory, &ram, &kernel).unwrap();
        assert_eq!((entry.mode, entry.rip), (Mode::Protected32, 0x10_0000));
        assert_eq!(memory.read_obj::<[u8; 4]>(GuestAddress(0x10_0000)).unwrap(), *b"code");
        let text = announcement(&kernel).unwrap();
        assert!(text.starts_with("k: a 32-bit ELF") && text.contains(" 0x100000, "), "{text}");
        kernel.command_line = "quiet".into();
        assert!(
            load_elf(&memory, &ram, &kernel).unwrap_err().to_string().contains("no command line")
        );
        kernel.image.bytes = sample::elf(Class::Elf64, 0, 0x10_0000, b"code", b"");
        assert_eq!(announcement(&kernel), None);
    }

    /// Conventional memory ends at 639 KiB, and this machine's RAM at 4 MiB.
    #[test]
    fn the_message_never_names_an_end_before_its_start() {
        let (memory, ram) = machine();
        let refusal =
            |size, address| load(&memory, &ram, &image(size), address).unwrap_err().to_string();
        for (size, address, expected) in [
            (1, 0xF_1000, "memory at 0xf1000: what is free there ends at 0x9fc00"),
            (1, 0x9_FC00, "memory at 0x9fc00: what is free there ends at 0x9fc00"),
            (1, 0x9000_0000, "memory at 0x90000000: what is free there ends at 0x400000"),
            (2, 0x9_FBFF, "the memory between 0x9fbff and 0x9fc00"),
        ] {
            let expected = format!("flat image f ({size} bytes) does not fit into {expected}");
            assert_eq!(refusal(size, address), expected);
        }
    }
}
