//! Linux bzImage by the 64-bit and the 32-bit boot protocol.
//!
//! Source: the Linux kernel's Documentation/arch/x86/boot.rst and zero-page.rst.

use std::io::Cursor;

use linux_loader::loader::bootparam::setup_header;
use linux_loader::loader::{BzImage, KernelLoader};
use vm_memory::{ByteValued, GuestAddress};

use super::entry::{Entry, RSI, Selectors};
use super::error::{BootError, Result};
use super::memory::{GuestRam, RamLayout};
use super::{Kernel, entry, layout, place_initrd, write_command_line};

/// Which entry point of a bzImage starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinuxEntry {
    /// The 64-bit one if the kernel has it.
    #[default]
    Auto,
    /// `startup_32`: 32-bit protected mode, paging off.
    Bits32,
    /// `startup_64`: long mode.
    Bits64,
}

// Offsets in the file and, for 1F1h and up, in the zero page.
const SETUP_SECTS: usize = 0x1F1;
const BOOT_FLAG: usize = 0x1FE;
const HEADER_MAGIC: usize = 0x202;
const KERNEL_VERSION: usize = 0x20E;
const HEADER_END: usize = 0x26C;
/// What offsets in the boot sector begin behind.
const SECTOR: usize = 512;

// Zero page, zero-page.rst.
const ACPI_RSDP: u64 = 0x070;
const E820_ENTRIES: u64 = 0x1E8;
const SETUP_HEADER: u64 = 0x1F1;
const E820_TABLE: u64 = 0x2D0;

/// `type_of_loader` of a loader without an assigned number.
const LOADER_UNDEFINED: u8 = 0xFF;
/// `xloadflags` bit: the kernel has the 64-bit entry point at offset 200h.
const XLF_KERNEL_64: u16 = 1;
const ENTRY_64: u64 = 0x200;
/// `initrd_addr_max` of protocols before 2.03.
const OLD_INITRD_MAX: u64 = 0x37FF_FFFF;
/// `cmdline_size` of protocols before 2.06.
const OLD_COMMAND_LINE: u64 = 255;

/// Whether the boot sector's signature and the setup header's magic are there.
pub(super) fn is_bzimage(bytes: &[u8]) -> bool {
    bytes.get(BOOT_FLAG..BOOT_FLAG + 2) == Some(&[0x55, 0xAA])
        && bytes.get(HEADER_MAGIC..HEADER_MAGIC + 4) == Some(b"HdrS")
}

/// Whether it is a kernel of 64 bits, which has the 64-bit entry point besides the other: by the 32-bit
/// one it begins as well, and stops where it checks the processor.
pub(super) fn is_64bit(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_END && has_64bit_entry(&header_of(bytes))
}

fn has_64bit_entry(header: &setup_header) -> bool {
    header.version >= 0x020C && header.xloadflags & XLF_KERNEL_64 != 0
}

/// What `uname -r` says of it, the first word of what the boot sector points to. Source: Linux
/// Documentation/arch/x86/boot.rst, `kernel_version`.
pub fn release(bytes: &[u8]) -> Option<String> {
    let pointer = bytes.get(KERNEL_VERSION..KERNEL_VERSION + 2).filter(|_| is_bzimage(bytes))?;
    let pointer = u16::from_le_bytes([pointer[0], pointer[1]]);
    let text = bytes.get(usize::from(pointer) + SECTOR..).filter(|_| pointer != 0)?;
    let word = text.split(|byte| *byte == 0 || *byte == b' ').next()?;
    let sound = word.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'/');
    (sound && !word.is_empty()).then(|| String::from_utf8_lossy(word).into_owned())
}

/// Loads the kernel, its initrd, command line and zero page.
pub(super) fn load(memory: &GuestRam, ram: &RamLayout, kernel: &Kernel) -> Result<Entry> {
    let image = &kernel.image;
    let damaged = |problem: String| BootError::Damaged { name: image.name.clone(), problem };
    if image.bytes.len() < HEADER_END {
        return Err(damaged("truncated in the bzImage setup header".into()));
    }
    let setup_sects = match image.bytes[SETUP_SECTS] {
        0 => 4,
        n => usize::from(n),
    };
    let syssize = u32::from_le_bytes([0x1F4, 0x1F5, 0x1F6, 0x1F7].map(|i| image.bytes[i]));
    // Rounded up to paragraphs: at least one byte of the last is there.
    let whole = (setup_sects as u64 + 1) * 512 + (u64::from(syssize) * 16).saturating_sub(15);
    if (image.bytes.len() as u64) < whole {
        let has = image.bytes.len();
        return Err(damaged(format!("truncated bzImage: {has} of at least {whole} bytes")));
    }
    let header = header_of(&image.bytes);
    let version = header.version;
    if version < 0x0200 || header.loadflags & 1 == 0 {
        return Err(damaged("a zImage for low memory, expected a bzImage".into()));
    }

    let (load_at, room_end) = placement(&header);
    if room_end > ram.low_end() {
        return Err(BootError::DoesNotFit {
            what: format!("kernel {}", image.name),
            size: room_end - load_at,
            place: format!("memory: it needs RAM up to {room_end:#x}, see --mem"),
        });
    }
    let loaded =
        BzImage::load(memory, Some(GuestAddress(load_at)), &mut Cursor::new(&image.bytes), None)
            .map_err(|e| damaged(e.to_string()))?;
    let mut header = loaded.setup_header.unwrap_or(header);

    header.type_of_loader = LOADER_UNDEFINED;
    let limit = if version >= 0x0206 { u64::from(header.cmdline_size) } else { OLD_COMMAND_LINE };
    write_command_line(memory, &kernel.command_line, limit)?;
    header.cmd_line_ptr = layout::COMMAND_LINE as u32;

    match kernel.modules.as_slice() {
        [] => {}
        [initrd] => {
            let max =
                if version >= 0x0203 { u64::from(header.initrd_addr_max) } else { OLD_INITRD_MAX };
            let bottom = room_end.max(loaded.kernel_end);
            let start = place_initrd(memory, initrd, bottom, ram.low_end().min(max + 1))?;
            // Below the hole, so both fit into 32 bits.
            header.ramdisk_image = start as u32;
            header.ramdisk_size = initrd.image.bytes.len() as u32;
        }
        _ => return Err(BootError::Unsupported("Linux takes one initrd".into())),
    }
    write_zero_page(memory, ram, &header)?;

    let has_64 = has_64bit_entry(&header);
    let mut state = match kernel.entry {
        LinuxEntry::Bits64 if !has_64 => {
            return Err(BootError::Unsupported(format!("{}: no 64-bit entry", image.name)));
        }
        LinuxEntry::Auto | LinuxEntry::Bits64 if has_64 => Entry::long(memory, load_at + ENTRY_64)?,
        _ => Entry::protected32(memory, load_at as u32, Selectors::Linux)?,
    };
    state.gpr[RSI] = layout::ZERO_PAGE;
    Ok(state)
}

/// A zero page for a kernel that has no setup header of its own (an ELF `vmlinux`).
pub(super) fn write_bare_zero_page(
    memory: &GuestRam,
    ram: &RamLayout,
    initrd: Option<(u64, u64)>,
) -> Result<()> {
    let (ramdisk_image, ramdisk_size) = initrd.unwrap_or((0, 0));
    let header = setup_header {
        boot_flag: 0xAA55,
        header: u32::from_le_bytes(*b"HdrS"),
        version: 0x020F,
        type_of_loader: LOADER_UNDEFINED,
        loadflags: 1,
        cmd_line_ptr: layout::COMMAND_LINE as u32,
        ramdisk_image: ramdisk_image as u32,
        ramdisk_size: ramdisk_size as u32,
        ..setup_header::default()
    };
    write_zero_page(memory, ram, &header)
}

/// Where the protected-mode kernel goes and where the memory it needs before it can look at the
/// memory map ends.
fn placement(header: &setup_header) -> (u64, u64) {
    let (version, init_size) = (header.version, u64::from(header.init_size));
    let preferred = header.pref_address;
    if version >= 0x020A && header.relocatable_kernel != 0 && preferred >= layout::HIGH_RAM {
        (preferred, preferred.saturating_add(init_size))
    } else if version >= 0x020A {
        (layout::HIGH_RAM, preferred.max(layout::HIGH_RAM).saturating_add(init_size))
    } else {
        (layout::HIGH_RAM, layout::HIGH_RAM + u64::from(header.syssize) * 16)
    }
}

fn header_of(bytes: &[u8]) -> setup_header {
    let mut header = setup_header::default();
    let from = &bytes[SETUP_SECTS..HEADER_END];
    header.as_mut_slice().copy_from_slice(from);
    header
}

fn write_zero_page(memory: &GuestRam, ram: &RamLayout, header: &setup_header) -> Result<()> {
    let put =
        |offset, bytes: &[u8]| entry::write(memory, layout::ZERO_PAGE + offset, bytes, "zero page");
    put(0, &[0; 0x1000])?;
    put(ACPI_RSDP, &layout::RSDP.to_le_bytes())?;
    put(SETUP_HEADER, header.as_slice())?;
    let map = ram.map();
    put(E820_ENTRIES, &[map.len() as u8])?;
    for (i, range) in map.iter().enumerate() {
        put(E820_TABLE + 20 * i as u64, &range.e820())?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "linux_tests.rs"]
mod tests;
