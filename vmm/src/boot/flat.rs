//! Flat binaries: bytes at an address, run from the first.
//!
//! Below 1 MiB the first byte runs in real mode, with CS = address / 16 and IP = address modulo 16.
//! From 1 MiB on it runs in 32-bit protected mode with flat segments.

use super::entry::{self, Entry, Selectors};
use super::error::{BootError, Result, between};
use super::image::Image;
use super::layout;
use super::memory::{GuestRam, RamLayout};

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

#[cfg(test)]
mod tests {
    use super::*;
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
