//! 64-bit ELF kernels: by the PVH entry if the file has one, else in long mode as Linux's
//! 64-bit entry expects it.
//!
//! Source: Xen's public/arch-x86/hvm/start_info.h and docs/misc/pvh.

use super::elf::Elf;
use super::entry::{self, Entry, RBX, RSI};
use super::error::{BootError, Result};
use super::memory::{GuestRam, RamLayout};
use super::{Kernel, layout, linux, place_initrd, write_command_line};

/// `XEN_ELFNOTE_PHYS32_ENTRY`.
const PHYS32_ENTRY: u32 = 18;
/// `XEN_HVM_START_MAGIC_VALUE`.
const START_MAGIC: u32 = 0x336E_C578;
const MODULES: u64 = layout::PVH_START_INFO + 0x40;
const MEMORY_MAP: u64 = layout::PVH_START_INFO + 0x800;
const MODULE_SIZE: usize = 32;

/// Loads the kernel, its modules, command line and start information.
pub(super) fn load(memory: &GuestRam, ram: &RamLayout, kernel: &Kernel) -> Result<Entry> {
    let elf = Elf::parse(&kernel.image.name, &kernel.image.bytes)?;
    let end = elf.load(memory, ram)?;
    write_command_line(memory, &kernel.command_line, layout::COMMAND_LINE_SIZE)?;
    let mut top = ram.low_end();
    let mut modules = Vec::new();
    for module in &kernel.modules {
        top = place_initrd(memory, module, end, top)?;
        modules.push((top, module.image.bytes.len() as u64));
    }
    match elf.note(b"Xen\0", PHYS32_ENTRY) {
        Some(descriptor) => {
            let eip = descriptor.first_chunk::<4>().ok_or_else(|| BootError::Damaged {
                name: kernel.image.name.clone(),
                problem: "PVH note without an address".into(),
            })?;
            write_start_info(memory, ram, &modules)?;
            let mut state = Entry::protected32(memory, u32::from_le_bytes(*eip))?;
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

    #[test]
    fn without_a_note_it_starts_in_long_mode() {
        let ram = RamLayout::new(8 << 20, None).unwrap();
        let memory = ram.allocate().unwrap();
        let entry = load(&memory, &ram, &kernel(b"")).unwrap();
        assert_eq!((entry.mode, entry.rip, entry.gpr[6]), (Mode::Long, 0x20_0000, 0x7000));
        assert_eq!(memory.read_obj::<u32>(GuestAddress(0x7218)).unwrap(), 0x7F_F000);
    }
}
