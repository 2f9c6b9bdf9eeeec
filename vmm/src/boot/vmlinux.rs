//! 64-bit ELF kernels: by the PVH entry if the file has one, else in long mode as Linux's
//! 64-bit entry expects it.
//!
//! Source: Xen's public/arch-x86/hvm/start_info.h and docs/misc/pvh.

use super::elf::Elf;
use super::entry::{self, Entry, RBX, RSI, Selectors};
use super::error::{BootError, Result};
use super::layout::Taken;
use super::memory::{GuestRam, RamLayout};
use super::{Kernel, layout, linux, place_initrd, write_command_line};

/// `XEN_ELFNOTE_PHYS32_ENTRY`.
const PHYS32_ENTRY: u32 = 18;
/// `XEN_HVM_START_MAGIC_VALUE`.
const START_MAGIC: u32 = 0x336E_C578;
const MODULES: u64 = layout::PVH_START_INFO + 0x40;
const MEMORY_MAP: u64 = layout::PVH_START_INFO + 0x800;
const MODULE_SIZE: usize = 32;

const COMMAND_LINE: Taken =
    Taken { what: "command line", start: layout::COMMAND_LINE, size: layout::COMMAND_LINE_SIZE };
/// What a PVH kernel finds in low memory.
const START_INFO: [Taken; 2] = [
    Taken { what: "PVH start information", start: layout::PVH_START_INFO, size: 0x1000 },
    COMMAND_LINE,
];
/// What a kernel without a PVH entry finds there.
const ZERO_PAGE: [Taken; 3] = [
    Taken { what: "zero page", start: layout::ZERO_PAGE, size: 0x1000 },
    Taken { what: "page table", start: layout::PAGE_TABLES, size: layout::PAGE_TABLES_SIZE },
    COMMAND_LINE,
];

/// Loads the kernel, its modules, command line and start information.
pub(super) fn load(memory: &GuestRam, ram: &RamLayout, kernel: &Kernel) -> Result<Entry> {
    let elf = Elf::parse(&kernel.image.name, &kernel.image.bytes)?;
    let note = elf.note(b"Xen\0", PHYS32_ENTRY);
    let information: &[Taken] = if note.is_some() { &START_INFO } else { &ZERO_PAGE };
    let loaded = elf.load(memory, ram, &[&layout::TAKEN, information].concat())?;
    let end = loaded.iter().map(|range| range.end).fold(layout::HIGH_RAM, u64::max);
    write_command_line(memory, &kernel.command_line, layout::COMMAND_LINE_SIZE)?;
    let mut top = ram.low_end();
    let mut modules = Vec::new();
    for module in &kernel.modules {
        top = place_initrd(memory, module, end, top)?;
        modules.push((top, module.image.bytes.len() as u64));
    }
    match note {
        Some(descriptor) => {
            let eip = descriptor.first_chunk::<4>().ok_or_else(|| BootError::Damaged {
                name: kernel.image.name.clone(),
                problem: "PVH note without an address".into(),
            })?;
            write_start_info(memory, ram, &modules)?;
            let mut state = Entry::protected32(memory, u32::from_le_bytes(*eip), Selectors::Linux)?;
            state.gpr[RBX] = layout::PVH_START_INFO;
            Ok(state)
        }
        None => {
            if modules.len() > 1 {
                return Err(BootError::Unsupported("an ELF64 kernel takes one initrd".into()));
            }
            linux::write_bare_zero_page(memory, ram, modules.first().copied())?;
            let mut state = Entry::long(memory, elf.physical_entry())?;
            state.gpr[RSI] = layout::ZERO_PAGE;
            Ok(state)
        }
    }
}

/// `hvm_start_info` version 1, its module list and its memory map.
fn write_start_info(memory: &GuestRam, ram: &RamLayout, modules: &[(u64, u64)]) -> Result<()> {
    let mut list = Vec::new();
    for (start, size) in modules {
        for field in [*start, *size, 0, 0] {
            list.extend(field.to_le_bytes());
        }
    }
    if list.len() as u64 > MEMORY_MAP - MODULES {
        let most = (MEMORY_MAP - MODULES) as usize / MODULE_SIZE;
        return Err(BootError::Unsupported(format!("a PVH kernel takes {most} modules at most")));
    }
    let mut map = Vec::new();
    for range in ram.map() {
        map.extend(range.e820());
        map.extend([0; 4]);
    }
    let mut info = Vec::new();
    for field in [START_MAGIC, 1, 0, modules.len() as u32] {
        info.extend(field.to_le_bytes());
    }
    let list_address = if modules.is_empty() { 0 } else { MODULES };
    for field in [list_address, layout::COMMAND_LINE, layout::RSDP, MEMORY_MAP] {
        info.extend(field.to_le_bytes());
    }
    info.extend((ram.map().len() as u32).to_le_bytes());
    info.extend([0; 4]);
    entry::write(memory, layout::PVH_START_INFO, &info, "PVH start information")?;
    entry::write(memory, MODULES, &list, "PVH module list")?;
    entry::write(memory, MEMORY_MAP, &map, "PVH memory map")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::elf::{Class, sample};
    use crate::boot::entry::Mode;
    use crate::boot::{Image, LinuxEntry};
    use vm_memory::{Bytes, GuestAddress};

    fn kernel(note: &[u8]) -> Kernel {
        Kernel {
            image: Image {
                name: "v".into(),
                bytes: sample::elf(Class::Elf64, 0x20_0000, 0x20_0000, b"code", note),
            },
            modules: vec![Image { name: "i".into(), bytes: vec![7; 100] }.into()],
            command_line: "quiet".into(),
            entry: LinuxEntry::Auto,
        }
    }

    /// Offsets of start_info.h.
    #[test]
    fn a_pvh_note_starts_in_protected_mode() {
        let ram = RamLayout::new(8 << 20, None).unwrap();
        let memory = ram.allocate().unwrap();
        let note = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\x04\x00\x20\x00";
        let entry = load(&memory, &ram, &kernel(note)).unwrap();
        assert_eq!((entry.mode, entry.rip, entry.gpr[3]), (Mode::Protected32, 0x20_0004, 0x6000));
        let quad = |at: u64| memory.read_obj::<u64>(GuestAddress(at)).unwrap();
        assert_eq!(quad(0x6000), 0x1_336E_C578);
        assert_eq!(quad(0x6008), 1 << 32); // one module
        assert_eq!(quad(quad(0x6010)), 0x7F_F000); // 8 MiB - 100 bytes, page aligned
        assert_eq!(quad(quad(0x6010) + 8), 100);
        let mut text = [0; 6];
        memory.read_slice(&mut text, GuestAddress(quad(0x6018))).unwrap();
        assert_eq!(&text, b"quiet\0");
        assert_eq!(quad(0x6020), 0xF_0000);
        assert_eq!(quad(0x6030), 4); // memory map entries
        // Fourth entry of 24 bytes: 1 MiB to 8 MiB, usable.
        let map = quad(0x6028) + 3 * 24;
        assert_eq!((quad(map), quad(map + 8), quad(map + 16)), (0x10_0000, 0x70_0000, 1));
    }

    /// Either way it may lie below 1 MiB, but not over what it is to find there.
    #[test]
    fn what_the_kernel_is_to_find_stays() {
        let ram = RamLayout::new(8 << 20, None).unwrap();
        let memory = ram.allocate().unwrap();
        let note = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\x04\x00\x20\x00";
        let refusal = |note: &[u8], phys| {
            let mut kernel = kernel(note);
            kernel.image.bytes = sample::elf(Class::Elf64, phys, phys, b"code", note);
            load(&memory, &ram, &kernel).err().map(|error| error.to_string())
        };
        let clash = |phys: u64, what: &str| {
            let segment = format!("v: segment at {phys:#x} (4096 bytes)");
            Some(format!("{segment} does not fit into memory: the {what}"))
        };
        for (phys, with_note, without) in [
            (0x6000, clash(0x6000, "PVH start information is at 0x6000-0x6fff"), None),
            (0x7000, None, clash(0x7000, "zero page is at 0x7000-0x7fff")),
            (0x8001, None, clash(0x8001, "page table is at 0x9000-0xefff")),
            (0x1_0000, None, None),
            (
                0x2_F000,
                clash(0x2_F000, "command line is at 0x20000-0x2ffff"),
                clash(0x2_F000, "command line is at 0x20000-0x2ffff"),
            ),
        ] {
            assert_eq!(refusal(note, phys), with_note, "{phys:#x}");
            assert_eq!(refusal(b"", phys), without, "{phys:#x}");
        }
    }

    #[test]
    fn without_a_note_it_starts_in_long_mode() {
        let ram = RamLayout::new(8 << 20, None).unwrap();
        let memory = ram.allocate().unwrap();
        let entry = load(&memory, &ram, &kernel(b"")).unwrap();
        assert_eq!((entry.mode, entry.rip, entry.gpr[6]), (Mode::Long, 0x20_0000, 0x7000));
        assert_eq!(memory.read_obj::<u32>(GuestAddress(0x7218)).unwrap(), 0x7F_F000);
    }
}
