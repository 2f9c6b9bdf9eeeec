//! Multiboot 1 kernels.
//!
//! Source: GNU Multiboot Specification 0.6.96, chapter 3.

use std::ops::Range;

use super::elf::Elf;
use super::entry::{self, Entry, RAX, RBX, Selectors};
use super::error::{BootError, Result, between};
use super::image::Image;
use super::layout::Taken;
use super::memory::{GuestRam, RamLayout};
use super::{Kernel, Module, layout};

const HEADER_MAGIC: u32 = 0x1BAD_B002;
const LOADER_MAGIC: u64 = 0x2BAD_B002;
const SEARCHED: usize = 8192;

// Header flags.
const PAGE_ALIGN: u32 = 1 << 0;
const MEMORY_INFO: u32 = 1 << 1;
const VIDEO_MODE: u32 = 1 << 2;
const ADDRESSES: u32 = 1 << 16;
/// Bits 15:0 are requirements: a loader refuses a kernel that sets one it does not know.
const REQUIREMENTS: u32 = 0xFFFF;

// Information flags.
const INFO_MEMORY: u32 = 1 << 0;
const INFO_COMMAND_LINE: u32 = 1 << 2;
const INFO_MODULES: u32 = 1 << 3;
const INFO_MAP: u32 = 1 << 6;
const INFO_LOADER_NAME: u32 = 1 << 9;
const INFO_SIZE: usize = 120;

/// A multiboot header and where in the file it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    offset: usize,
    flags: u32,
    /// `header_addr`, `load_addr`, `load_end_addr`, `bss_end_addr`, `entry_addr`.
    addresses: [u32; 5],
}

impl Header {
    /// Whether the header itself says where the kernel goes.
    pub(super) fn has_addresses(&self) -> bool {
        self.flags & ADDRESSES != 0
    }
}

/// Finds the header: 32-bit aligned, wholly in the first 8192 bytes, its first three fields
/// adding up to zero.
pub(super) fn find_header(bytes: &[u8]) -> Option<Header> {
    let bytes = &bytes[..bytes.len().min(SEARCHED)];
    let word =
        |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    (0..bytes.len()).step_by(4).find_map(|offset| {
        let (magic, flags, checksum) = (word(offset)?, word(offset + 4)?, word(offset + 8)?);
        let valid = magic == HEADER_MAGIC && magic.wrapping_add(flags).wrapping_add(checksum) == 0;
        if !valid {
            return None;
        }
        let mut addresses = [0; 5];
        if flags & ADDRESSES != 0 {
            for (i, address) in addresses.iter_mut().enumerate() {
                *address = word(offset + 12 + 4 * i)?;
            }
        }
        Some(Header { offset, flags, addresses })
    })
}

/// Loads the kernel, its modules and the information structure.
pub(super) fn load(memory: &GuestRam, ram: &RamLayout, kernel: &Kernel) -> Result<Entry> {
    let image = &kernel.image;
    let header = find_header(&image.bytes).ok_or_else(|| BootError::Damaged {
        name: image.name.clone(),
        problem: "no multiboot header in the first 8 KiB".into(),
    })?;
    let unknown = header.flags & REQUIREMENTS & !(PAGE_ALIGN | MEMORY_INFO | VIDEO_MODE);
    if unknown != 0 {
        return Err(BootError::Unsupported(format!(
            "{}: multiboot header requires unknown features {unknown:#x}",
            image.name
        )));
    }
    if header.flags & VIDEO_MODE != 0 {
        log::warn!("{}: asks for a video mode; this machine has no display", image.name);
    }
    let (eip, loaded) = if header.has_addresses() {
        let (eip, loaded) = load_by_addresses(memory, ram, image, &header)?;
        (eip, vec![loaded])
    } else {
        let elf = Elf::parse(&image.name, &image.bytes)?;
        let eip = u32::try_from(elf.physical_entry()).map_err(|_| BootError::Damaged {
            name: image.name.clone(),
            problem: "the entry point is beyond 4 GiB".into(),
        })?;
        (eip, elf.load(memory, ram, &layout::TAKEN)?)
    };

    let mut end = loaded.iter().map(|range| range.end).fold(layout::HIGH_RAM, u64::max);
    let mut modules = Vec::new();
    for Module { image: module, command_line } in &kernel.modules {
        let start = end.next_multiple_of(0x1000);
        let size = module.bytes.len() as u64;
        end = start.saturating_add(size);
        if end > ram.low_end() {
            return Err(BootError::DoesNotFit {
                what: format!("module {}", module.name),
                size,
                place: between(start, ram.low_end()),
            });
        }
        entry::write(memory, start, &module.bytes, &module.name)?;
        modules.push((start as u32, end as u32, named(&module.name, command_line)));
    }
    let command_line = named(&image.name, &kernel.command_line);
    let information = information_beside(&loaded).ok_or_else(|| {
        BootError::Unsupported(format!(
            "{}: leaves no 64 KiB below 640 KiB for the multiboot information",
            image.name
        ))
    })?;
    write_information(memory, ram, information, &command_line, &modules)?;
    let mut state = Entry::protected32(memory, eip, Selectors::Multiboot)?;
    state.gpr[RAX] = LOADER_MAGIC;
    state.gpr[RBX] = information.into();
    Ok(state)
}

/// Where the information goes: to its usual place, or to the next 64 KiB where nothing is loaded.
fn information_beside(loaded: &[Range<u64>]) -> Option<u32> {
    let end = layout::STACK_END - layout::STACK_SIZE - layout::MULTIBOOT_INFO_SIZE;
    let mut places = (layout::MULTIBOOT_INFO..=end).step_by(layout::MULTIBOOT_INFO_SIZE as usize);
    let free = |start: &u64| {
        let place = Taken { what: "information", start: *start, size: layout::MULTIBOOT_INFO_SIZE };
        !loaded.iter().any(|range| place.overlaps(range))
    };
    places.find(free).map(|start| start as u32)
}

/// A command line behind the name of its file, as other loaders pass it.
fn named(name: &str, command_line: &str) -> String {
    format!("{name} {command_line}").trim_end().into()
}

/// Loads by the header's addresses and returns the entry point and where the kernel is.
fn load_by_addresses(
    memory: &GuestRam,
    ram: &RamLayout,
    image: &Image,
    header: &Header,
) -> Result<(u32, Range<u64>)> {
    let damaged = |problem: &str| BootError::Damaged {
        name: image.name.clone(),
        problem: format!("multiboot header: {problem}"),
    };
    let [header_at, load_at, load_end, bss_end, eip] = header.addresses.map(u64::from);
    let before =
        header_at.checked_sub(load_at).ok_or_else(|| damaged("load address behind the header"))?;
    let from = (header.offset as u64)
        .checked_sub(before)
        .ok_or_else(|| damaged("load address before the file"))?;
    let rest = &image.bytes[from as usize..];
    let bytes = match load_end {
        0 => rest,
        end => end
            .checked_sub(load_at)
            .and_then(|size| rest.get(..size as usize))
            .ok_or_else(|| damaged("the file ends before the load range"))?,
    };
    let end = bss_end.max(load_at + bytes.len() as u64);
    let what = format!("kernel {}", image.name);
    let loaded = ram.free(&what, load_at, end - load_at, &layout::TAKEN)?;
    entry::write(memory, load_at, bytes, &image.name)?;
    Ok((eip as u32, loaded))
}

fn write_information(
    memory: &GuestRam,
    ram: &RamLayout,
    base: u32,
    command_line: &str,
    modules: &[(u32, u32, String)],
) -> Result<()> {
    let mut info = vec![0u8; INFO_SIZE];
    let append = |info: &mut Vec<u8>, bytes: &[u8]| {
        info.resize(info.len().next_multiple_of(4), 0);
        let address = base + info.len() as u32;
        info.extend(bytes);
        address
    };
    let string = |text: &str| [text.as_bytes(), b"\0"].concat();
    let command_line = append(&mut info, &string(command_line));
    let loader = append(&mut info, b"vpmu\0");
    let mut list = Vec::new();
    for (start, end, text) in modules {
        let text = append(&mut info, &string(text));
        for field in [*start, *end, text, 0] {
            list.extend(field.to_le_bytes());
        }
    }
    let module_list = append(&mut info, &list);
    let mut map = Vec::new();
    for range in ram.map() {
        map.extend(20u32.to_le_bytes()); // size of the rest
        map.extend(range.e820());
    }
    let map_address = append(&mut info, &map);
    let flags = INFO_MEMORY | INFO_COMMAND_LINE | INFO_MODULES | INFO_MAP | INFO_LOADER_NAME;
    for (at, field) in [
        (0, flags),
        (4, (layout::LOW_RAM_END >> 10) as u32),
        (8, ((ram.low_end() - layout::HIGH_RAM) >> 10) as u32),
        (16, command_line),
        (20, modules.len() as u32),
        (24, module_list),
        (44, map.len() as u32),
        (48, map_address),
        (64, loader),
    ] {
        info[at..at + 4].copy_from_slice(&field.to_le_bytes());
    }
    if info.len() as u64 > layout::MULTIBOOT_INFO_SIZE {
        return Err(BootError::DoesNotFit {
            what: "multiboot information (command line and module names)".into(),
            size: info.len() as u64,
            place: "its 64 KiB".into(),
        });
    }
    entry::write(memory, base.into(), &info, "multiboot information")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::LinuxEntry;
    use crate::boot::elf::{Class, sample};
    use crate::boot::entry::Mode;
    use vm_memory::{Bytes, GuestAddress};

    fn header(flags: u32, addresses: &[u32]) -> Vec<u8> {
        let checksum = 0u32.wrapping_sub(0x1BAD_B002).wrapping_sub(flags);
        [&[0x1BAD_B002, flags, checksum], addresses]
            .concat()
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect()
    }

    fn kernel(bytes: Vec<u8>) -> Kernel {
        Kernel {
            image: Image { name: "k.flat".into(), bytes },
            modules: vec![],
            command_line: "a b".into(),
            entry: LinuxEntry::Auto,
        }
    }

    fn machine() -> (GuestRam, RamLayout) {
        let ram = RamLayout::new(8 << 20, None).unwrap();
        (ram.allocate().unwrap(), ram)
    }

    /// Specification, 3.3: a module comes with a string, which may well be a command line. As other
    /// loaders pass it, which Xen and GNU Mach rely on, it begins with the file's name.
    #[test]
    fn a_module_has_a_command_line() {
        let (memory, ram) = machine();
        let mut kernel =
            kernel(sample::elf(Class::Elf32, 0x40_0000, 0x40_0000, &header(0, &[]), b""));
        let image = Image { name: "dom0".into(), bytes: vec![1] };
        kernel.modules.push(Module { image, command_line: "quiet nosmp".into() });
        load(&memory, &ram, &kernel).unwrap();
        let word = |at: u32| memory.read_obj::<u32>(GuestAddress(at.into())).unwrap();
        let mut text = [0; 17];
        memory.read_slice(&mut text, GuestAddress(word(word(0x1_0018) + 8).into())).unwrap();
        assert_eq!(&text, b"dom0 quiet nosmp\0");
    }

    /// The fields that kvm-unit-tests read: command line, upper memory, one module, memory map.
    #[test]
    fn an_elf_kernel_gets_its_information() {
        let (memory, ram) = machine();
        let mut kernel =
            kernel(sample::elf(Class::Elf32, 0x40_0000, 0x40_0000, &header(0, &[]), b""));
        kernel.modules.push(Image { name: "env".into(), bytes: b"NR_CPUS=1".to_vec() }.into());
        let entry = load(&memory, &ram, &kernel).unwrap();
        assert_eq!((entry.mode, entry.rip), (Mode::Protected32, 0x40_0000));
        assert_eq!((entry.gpr[0], entry.gpr[3]), (0x2BAD_B002, 0x1_0000));
        let word = |at: u32| memory.read_obj::<u32>(GuestAddress(at.into())).unwrap();
        let text = |at: u32, size: usize| {
            let mut out = vec![0; size];
            memory.read_slice(&mut out, GuestAddress(at.into())).unwrap();
            out
        };
        assert_eq!(word(0x1_0000), 0x24D);
        assert_eq!(word(0x1_0004), 639);
        assert_eq!(word(0x1_0008), 7 * 1024); // 8 MiB - 1 MiB, in KiB
        assert_eq!(text(word(0x1_0010), 11), b"k.flat a b\0");
        assert_eq!(word(0x1_0014), 1);
        let module = word(0x1_0018);
        // Behind the 4 KiB segment at 4 MiB.
        assert_eq!((word(module), word(module + 4)), (0x40_1000, 0x40_1009));
        assert_eq!(text(0x40_1000, 9), b"NR_CPUS=1");
        assert_eq!(text(word(module + 8), 4), b"env\0");
        assert_eq!(word(0x1_002C), 4 * 24);
        let last = word(0x1_0030) + 3 * 24;
        assert_eq!((word(last), word(last + 4), word(last + 12)), (20, 0x10_0000, 0x70_0000));
    }

    /// The kernel fills this machine's 8 MiB to the last page, and nothing is left for a module.
    #[test]
    fn a_module_without_room_is_refused_in_one_line() {
        let (memory, ram) = machine();
        let mut kernel =
            kernel(sample::elf(Class::Elf32, 0x7F_F000, 0x7F_F000, &header(0, &[]), b""));
        kernel.modules.push(Image { name: "env".into(), bytes: vec![0; 3] }.into());
        assert_eq!(
            load(&memory, &ram, &kernel).unwrap_err().to_string(),
            "module env (3 bytes) does not fit into memory at 0x800000: what is free there ends at \
             0x800000"
        );
    }

    /// Specification, 3.2: CS and the data segments are flat, of "undefined" exact value, and ESP is
    /// up to the kernel. GRUB gives 8 and 10h and a stack, and kernels are tried with it: they
    /// have a far jump to 8 before their LGDT, or a PUSH before their own stack.
    #[test]
    fn selectors_and_stack_are_as_other_loaders_give_them() {
        let (memory, ram) = machine();
        let file = sample::elf(Class::Elf32, 0x20_0000, 0x20_0000, &header(0, &[]), b"");
        let entry = load(&memory, &ram, &kernel(file)).unwrap();
        assert_eq!((entry.cs.selector, entry.data.selector, entry.ss.selector), (8, 0x10, 0x10));
        let descriptor =
            |at: u64| memory.read_obj::<u64>(GuestAddress(entry.gdtr.base + at)).unwrap();
        // APM volume 2, 4.7: base 0, limit FFFFFh pages, D or B, present, code or writable data.
        assert_eq!(descriptor(8), 0x00CF_9B00_0000_FFFF);
        assert_eq!(descriptor(0x10), 0x00CF_9300_0000_FFFF);
        let room = entry.gpr[4] - 0x1000..entry.gpr[4];
        assert!(room.end <= 0x9_FC00, "RAM that the memory map says is free: {room:x?}");
        assert!(entry.gpr[3] + 0x1_0000 <= room.start, "and not the information");
    }

    /// A kernel below 1 MiB; the information makes room for it, and modules stay above 1 MiB.
    #[test]
    fn a_kernel_may_lie_below_1_mib() {
        let (memory, ram) = machine();
        let elf = |phys| sample::elf(Class::Elf32, phys, phys, &header(0, &[]), b"");
        for (phys, information) in
            [(0x1000, 0x1_0000), (0xF001, 0x2_0000), (0x1_0000, 0x2_0000), (0x8_0000, 0x1_0000)]
        {
            let mut kernel = kernel(elf(phys));
            kernel.modules.push(Image { name: "m".into(), bytes: vec![1] }.into());
            let entry = load(&memory, &ram, &kernel).unwrap();
            assert_eq!((entry.rip, entry.gpr[3]), (phys, information));
            assert_eq!(memory.read_obj::<u32>(GuestAddress(phys)).unwrap(), 0x1BAD_B002);
            let word = |at: u64| memory.read_obj::<u32>(GuestAddress(at)).unwrap();
            assert_eq!(word(word(information + 0x18).into()), 0x10_0000);
        }
        let refusal = |kernel: &Kernel| load(&memory, &ram, kernel).unwrap_err().to_string();
        assert_eq!(
            refusal(&kernel(elf(0x400))),
            "k.flat: segment at 0x400 (4096 bytes) does not fit into memory: the BIOS data area is at \
             0x400-0x4ff"
        );
        // By addresses: 64 KiB at 1 MiB less 64 KiB are firmware's; 9E000h bytes leave no 64 KiB.
        let by_addresses = |load_at, bss_end| {
            kernel(
                [header(1 << 16, &[load_at, load_at, 0, bss_end, load_at]), vec![0; 32]].concat(),
            )
        };
        assert_eq!(
            refusal(&by_addresses(0xF_0000, 0x10_0000)),
            "kernel k.flat (65536 bytes) does not fit into the RAM, which is at 0x0-0x9fbff and \
             0x100000-0x7fffff"
        );
        assert_eq!(
            refusal(&by_addresses(0x1000, 0x9_E000)),
            "k.flat: leaves no 64 KiB below 640 KiB for the multiboot information"
        );
        assert!(load(&memory, &ram, &by_addresses(0x1000, 0x8_0000)).is_ok());
    }

    /// Flag 16: the file from load_addr on, here 8 bytes before the header.
    #[test]
    fn addresses_in_the_header_place_any_file() {
        let (memory, ram) = machine();
        let addresses = [0x20_0008, 0x20_0000, 0, 0x20_9000, 0x20_0028];
        let file = [&b"8 bytes."[..], &header(1 << 16, &addresses), b"code"].concat();
        let entry = load(&memory, &ram, &kernel(file.clone())).unwrap();
        assert_eq!(entry.rip, 0x20_0028);
        let mut loaded = vec![0; file.len()];
        memory.read_slice(&mut loaded, GuestAddress(0x20_0000)).unwrap();
        assert_eq!(loaded, file);
        for wrong in [
            [0x20_0000, 0x20_0008, 0, 0, 0], // load address behind the header
            [0x20_0010, 0x20_0000, 0, 0, 0], // before the file
            [0x20_0008, 0x20_0000, 0x20_1000, 0, 0], // file too short
            [0x20_0008, 0x20_0000, 0, 0x90_0000, 0], // bss beyond memory
            [0x0F_0008, 0x0F_0000, 0, 0, 0], // over the firmware tables
        ] {
            let file = [&b"8 bytes."[..], &header(1 << 16, &wrong), b"code"].concat();
            assert!(load(&memory, &ram, &kernel(file)).is_err(), "{wrong:x?}");
        }
    }

    /// EIP has 32 bits: an entry point without them, in no segment, is nowhere.
    #[test]
    fn an_entry_point_beyond_4_gib_is_refused() {
        let (memory, ram) = machine();
        let mut file = sample::elf(Class::Elf64, 0x20_0000, 0x20_0000, &header(0, &[]), b"");
        assert_eq!(load(&memory, &ram, &kernel(file.clone())).unwrap().rip, 0x20_0000);
        file[0x1C] = 1; // e_entry, bit 32
        let text = load(&memory, &ram, &kernel(file)).unwrap_err().to_string();
        assert_eq!(text, "k.flat: the entry point is beyond 4 GiB");
    }

    #[test]
    fn the_header_is_aligned_and_in_the_first_8_kib() {
        let at = |offset: usize| [vec![0; offset], header(0, &[])].concat();
        assert!(find_header(&at(0)).is_some());
        assert!(find_header(&at(8192 - 12)).is_some());
        assert!(find_header(&at(8192 - 8)).is_none());
        assert!(find_header(&at(2)).is_none());
        let mut wrong = at(0);
        wrong[8] ^= 1;
        assert!(find_header(&wrong).is_none());
    }

    #[test]
    fn an_unknown_requirement_is_refused() {
        let (memory, ram) = machine();
        let file =
            |flags| sample::elf(Class::Elf32, 0x20_0000, 0x20_0000, &header(flags, &[]), b"");
        assert!(load(&memory, &ram, &kernel(file(1 << 5))).is_err());
        assert!(load(&memory, &ram, &kernel(file(1 << 17))).is_ok());
    }
}
