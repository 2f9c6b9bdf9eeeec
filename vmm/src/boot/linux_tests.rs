use super::*;
use crate::boot::entry::Mode;
use crate::boot::memory::parse_size;
use crate::boot::{Image, Module};
use vm_memory::Bytes;

/// A bzImage of 1 + 1 setup sectors and 4 KiB of "kernel", protocol 2.15; offsets from
/// boot.rst's table of the real-mode header.
fn bzimage() -> Vec<u8> {
    let mut file = vec![0u8; 1024 + 4096];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1F1, &[1]); // setup_sects
    put(0x1F4, &256u32.to_le_bytes()); // syssize, in 16-byte units
    put(0x1FE, &[0x55, 0xAA]);
    put(0x202, b"HdrS");
    put(0x206, &0x020Fu16.to_le_bytes());
    put(0x211, &[1]); // loadflags: LOADED_HIGH
    put(0x214, &0x10_0000u32.to_le_bytes()); // code32_start
    put(0x22C, &0x7FFF_FFFFu32.to_le_bytes()); // initrd_addr_max
    put(0x234, &[1]); // relocatable_kernel
    put(0x236, &1u16.to_le_bytes()); // xloadflags: XLF_KERNEL_64
    put(0x238, &2047u32.to_le_bytes()); // cmdline_size
    put(0x258, &0x100_0000u64.to_le_bytes()); // pref_address, 16 MiB
    put(0x260, &0x20_0000u32.to_le_bytes()); // init_size, 2 MiB
    put(1024, b"KERNEL");
    file
}

fn kernel(bytes: Vec<u8>) -> Kernel {
    Kernel {
        image: Image { name: "bz".into(), bytes },
        modules: vec![],
        command_line: "console=ttyS0".into(),
        entry: LinuxEntry::Auto,
    }
}

fn machine(size: &str) -> (GuestRam, RamLayout) {
    let ram = RamLayout::new(parse_size(size).unwrap(), None).unwrap();
    (ram.allocate().unwrap(), ram)
}

fn bytes(memory: &GuestRam, at: u64, size: usize) -> Vec<u8> {
    let mut out = vec![0; size];
    memory.read_slice(&mut out, GuestAddress(at)).unwrap();
    out
}

fn word(memory: &GuestRam, at: u64) -> u32 {
    memory.read_obj(GuestAddress(at)).unwrap()
}

#[test]
fn the_64_bit_entry_gets_its_zero_page() {
    let (memory, ram) = machine("64M");
    let mut kernel = kernel(bzimage());
    kernel.modules.push(Image { name: "i".into(), bytes: vec![0xA5; 5000] }.into());
    let entry = load(&memory, &ram, &kernel).unwrap();
    assert_eq!((entry.mode, entry.rip, entry.gpr[6]), (Mode::Long, 0x100_0200, 0x7000));
    assert_eq!(bytes(&memory, 0x100_0000, 6), b"KERNEL");

    assert_eq!(memory.read_obj::<u64>(GuestAddress(0x7070)).unwrap(), 0xF_0000); // RSDP
    assert_eq!(bytes(&memory, 0x7202, 4), b"HdrS");
    assert_eq!(bytes(&memory, 0x7210, 1), [0xFF]); // type_of_loader
    assert_eq!(word(&memory, 0x7228), 0x2_0000); // cmd_line_ptr
    assert_eq!(bytes(&memory, 0x2_0000, 14), b"console=ttyS0\0");
    // 64 MiB - 5000 bytes, rounded down to a page: 4000000h - 2000h.
    assert_eq!((word(&memory, 0x7218), word(&memory, 0x721C)), (0x3FF_E000, 5000));
    assert_eq!(bytes(&memory, 0x3FF_E000 + 4999, 1), [0xA5]);
    // e820: 20-byte rows; the fourth is RAM from 1 MiB to 64 MiB.
    assert_eq!(bytes(&memory, 0x71E8, 1), [4]);
    let row = 0x7000 + 0x2D0 + 3 * 20;
    assert_eq!((word(&memory, row), word(&memory, row + 8)), (0x10_0000, 0x3F0_0000));
    assert_eq!(word(&memory, row + 16), 1);
}

#[test]
fn the_32_bit_entry_is_the_start_of_the_kernel() {
    let (memory, ram) = machine("64M");
    let mut kernel = kernel(bzimage());
    kernel.entry = LinuxEntry::Bits32;
    let entry = load(&memory, &ram, &kernel).unwrap();
    assert_eq!((entry.mode, entry.rip, entry.gpr[6]), (Mode::Protected32, 0x100_0000, 0x7000));
    assert_eq!((entry.cs.selector, entry.data.selector), (0x10, 0x18));
}

#[test]
fn a_32_bit_kernel_has_no_64_bit_entry() {
    let (memory, ram) = machine("64M");
    let mut file = bzimage();
    file[0x236] = 0;
    let mut kernel = kernel(file);
    assert_eq!(load(&memory, &ram, &kernel).unwrap().mode, Mode::Protected32);
    kernel.entry = LinuxEntry::Bits64;
    assert!(load(&memory, &ram, &kernel).is_err());
}

#[test]
fn initrd_respects_its_maximum_address() {
    let (memory, ram) = machine("64M");
    let mut file = bzimage();
    file[0x22C..0x230].copy_from_slice(&0x1FF_FFFFu32.to_le_bytes());
    let mut kernel = kernel(file);
    kernel.modules.push(Image { name: "i".into(), bytes: vec![1; 0x1000] }.into());
    load(&memory, &ram, &kernel).unwrap();
    assert_eq!(word(&memory, 0x7218), 0x1FF_F000);
}

#[test]
fn what_does_not_fit_is_refused_in_one_line() {
    let (memory, ram) = machine("64M");
    let refusal = |kernel: &Kernel, ram: &RamLayout| {
        let text = load(&memory, ram, kernel).unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    let mut big = kernel(bzimage());
    big.modules.push(Image { name: "big".into(), bytes: vec![0; 64 << 20] }.into());
    assert!(refusal(&big, &ram).starts_with("initrd big (67108864 bytes) does not fit"));
    let small = RamLayout::new(17 << 20, None).unwrap();
    assert!(refusal(&kernel(bzimage()), &small).starts_with("kernel bz"));
    let mut long = kernel(bzimage());
    long.command_line = "x".repeat(2048);
    assert!(refusal(&long, &ram).starts_with("command line (2048 bytes)"));
    long.command_line.pop();
    assert!(load(&memory, &ram, &long).is_ok());
    // Truncations of all kinds, once past the part that makes it a bzImage, up to a whole paragraph.
    let paragraph_less = bzimage().len() - 16;
    for size in (0x206..paragraph_less).step_by(37).chain([paragraph_less]) {
        let mut file = bzimage();
        file.truncate(size);
        assert!(refusal(&kernel(file), &ram).contains("truncated"));
    }
}

/// boot.rst: `syssize` is "the size of the protected-mode code in 16-byte paragraphs", so that the
/// last one need not be full. Debian's memtest86+ 6.10 ends 8 bytes before it.
#[test]
fn the_last_paragraph_need_not_be_full() {
    for less in 1..16 {
        let (memory, ram) = machine("64M");
        let mut file = bzimage();
        file.truncate(file.len() - less);
        *file.last_mut().unwrap() = 0xA5;
        let entry = load(&memory, &ram, &kernel(file)).unwrap();
        assert_eq!(entry.rip, 0x100_0200);
        // 4096 bytes of kernel at 16 MiB, but for the missing ones.
        let last = 0x100_0FFF - less as u64;
        assert_eq!(bytes(&memory, last, 2), [0xA5, 0], "{less}");
    }
}

/// A kernel that takes its initrd below 8 MiB only and itself needs the memory from 16 to 18 MiB.
#[test]
fn an_initrd_without_room_is_told_where_memory_ends() {
    let (memory, ram) = machine("64M");
    let mut file = bzimage();
    file[0x22C..0x230].copy_from_slice(&0x7F_FFFFu32.to_le_bytes());
    let mut kernel = kernel(file);
    kernel.modules.push(Image { name: "i".into(), bytes: vec![1; 0x1000] }.into());
    assert_eq!(
        load(&memory, &ram, &kernel).unwrap_err().to_string(),
        "initrd i (4096 bytes) does not fit into memory at 0x1200000: what is free there ends at \
         0x800000; see --mem"
    );
}

#[test]
fn an_initrd_has_no_command_line() {
    let (memory, ram) = machine("64M");
    let mut kernel = kernel(bzimage());
    let image = Image { name: "i".into(), bytes: vec![1] };
    kernel.modules.push(Module { image, command_line: "quiet".into() });
    assert_eq!(
        load(&memory, &ram, &kernel).unwrap_err().to_string(),
        "i: only a multiboot kernel takes a module with a command line"
    );
}

/// E820 counts for sizes on both sides of the hole at 3 GiB; no such memory is touched.
#[test]
fn the_memory_map_above_4_gib() {
    let (memory, _) = machine("4M");
    for (size, rows) in [("3G", 4), ("4G", 5)] {
        let ram = RamLayout::new(parse_size(size).unwrap(), None).unwrap();
        write_bare_zero_page(&memory, &ram, None).unwrap();
        assert_eq!(bytes(&memory, 0x71E8, 1), [rows]);
    }
    // 4 GiB: the fifth row is 1 GiB at 1_0000_0000h.
    let row = 0x7000 + 0x2D0 + 4 * 20;
    assert_eq!((word(&memory, row), word(&memory, row + 4)), (0, 1));
    assert_eq!((word(&memory, row + 8), word(&memory, row + 12)), (0x4000_0000, 0));
}

/// The word of `kernel_version`, which counts from 200h; zero is no version, and a path is none.
#[test]
fn the_release_is_the_first_word() {
    let mut bytes = bzimage();
    let at = 0x300;
    bytes.resize(bytes.len().max(at + 64), 0);
    let text = b"6.1.0-56-cloud-amd64 (someone) #1 SMP\0";
    bytes[at..at + text.len()].copy_from_slice(text);
    assert_eq!(release(&bytes), None);
    bytes[0x20E..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    assert_eq!(release(&bytes).as_deref(), Some("6.1.0-56-cloud-amd64"));
    bytes[at] = b'/';
    assert_eq!(release(&bytes), None);
    bytes[0x20E..0x210].copy_from_slice(&0xFFFF_u16.to_le_bytes());
    assert_eq!(release(&bytes), None);
    assert_eq!(release(b"\x7FELF"), None);
}
