//! Kernels: bzImage, ELF of both classes, multiboot and PVH, with what they are handed; made here, from the documents of
//! their formats.

use vpmu::boot::elf::Elf;
use vpmu::boot::memory::RamLayout;
use vpmu::boot::{Image, Kernel, LinuxEntry, Module, Payload, linux};
use vpmu::config::{Boot, Config};
use vpmu::machine::Machine;

use super::edits::Sound;
use super::sound::{one_line, refused};
use super::{goes_on, machines};

/// Bytes of memory of the machine: the kernels made here are a few pages.
const MEMORY: u64 = 4 << 20;
/// What text out of a file may have in all, for each byte of the file.
const TEXT: usize = 4;

/// A name, and what makes the kernel that it is of.
pub(super) type Maker = (&'static str, fn() -> Sound);

/// The kernels that are in order.
pub(super) const SOUND: [Maker; 9] = [
    ("a bzImage", bzimage),
    ("an ELF of 32 bits", || elf(Elfs::default())),
    ("an ELF of 64 bits", || elf(Elfs { wide: true, ..Elfs::default() })),
    ("a multiboot ELF", || elf(Elfs { multiboot: true, ..Elfs::default() })),
    ("a multiboot image with addresses", multiboot),
    ("a PVH kernel", || elf(Elfs { wide: true, note: true, ..Elfs::default() })),
    ("a linked ELF of 64 bits", || elf(Elfs { wide: true, dynamic: true, ..Elfs::default() })),
    ("a linked ELF of 32 bits", || elf(Elfs { dynamic: true, ..Elfs::default() })),
    ("an ELF of 64 bits with symbols", || {
        elf(Elfs { wide: true, symbols: true, ..Elfs::default() })
    }),
];

/// MOV AL, 1; OUT F4h, AL; then HLT for good.
const CODE: [u8; 7] = [0xB0, 1, 0xE6, 0xF4, 0xF4, 0xEB, 0xFD];

/// Linux Documentation/arch/x86/boot.rst, the real-mode kernel header: one setup sector, a page behind it.
fn bzimage() -> Sound {
    let mut file = Sound { bytes: vec![0; 1024 + 4096], fields: vec![] };
    file.put("setup_sects", 0x1F1, 1, 1);
    file.put("syssize", 0x1F4, 4, 256);
    file.put("boot_flag", 0x1FE, 2, 0xAA55);
    file.bytes[0x202..0x206].copy_from_slice(b"HdrS");
    file.put("version", 0x206, 2, 0x020F);
    file.put("kernel_version", 0x20E, 2, 0x70);
    file.put("loadflags", 0x211, 1, 1);
    file.put("code32_start", 0x214, 4, 0x10_0000);
    file.put("initrd_addr_max", 0x22C, 4, 0x7FFF_FFFF);
    file.put("kernel_alignment", 0x230, 4, 0x1000);
    file.put("relocatable_kernel", 0x234, 1, 1);
    file.put("xloadflags", 0x236, 2, 0);
    file.put("cmdline_size", 0x238, 4, 2047);
    file.put("pref_address", 0x258, 8, 0x10_0000);
    file.put("init_size", 0x260, 4, 0x1_0000);
    file.bytes[0x270..0x276].copy_from_slice(b"6.1.0 ");
    file.bytes[1024..][..CODE.len()].copy_from_slice(&CODE);
    file.bytes[1024 + 0x200..][..CODE.len()].copy_from_slice(&CODE);
    file
}

/// GNU Multiboot Specification 0.6.96, section 3.1, with the address fields.
fn multiboot() -> Sound {
    const MAGIC: u32 = 0x1BAD_B002;
    const FLAGS: u32 = 0x1_0003;
    let mut file = Sound::default();
    file.field("magic", 4, MAGIC.into());
    file.field("flags", 4, FLAGS.into());
    file.field("checksum", 4, 0_u32.wrapping_sub(MAGIC).wrapping_sub(FLAGS).into());
    file.field("header_addr", 4, 0x10_0000);
    file.field("load_addr", 4, 0x10_0000);
    file.field("load_end_addr", 4, 0x10_0040);
    file.field("bss_end_addr", 4, 0x10_2000);
    file.field("entry_addr", 4, 0x10_0020);
    file.bytes(&CODE);
    file.bytes.resize(0x80, 0x90);
    file
}

/// What an ELF has.
#[derive(Clone, Copy, Default)]
struct Elfs {
    wide: bool,
    multiboot: bool,
    note: bool,
    dynamic: bool,
    symbols: bool,
}

/// System V ABI, chapters 4 and 5: a segment of code, and what `with` says.
fn elf(with: Elfs) -> Sound {
    const BASE: u64 = 0x10_0000;
    let wide = with.wide;
    let word = if wide { 8 } else { 4 };
    let (header, row, section_row) = if wide { (64, 56, 64) } else { (52, 32, 40) };
    let rows = 1 + u64::from(with.note) + 2 * u64::from(with.dynamic);
    let sections = if with.symbols { 5 } else { 0 };

    // What is behind the headers, with the places of its parts.
    let begin = header + rows * row + sections * section_row;
    let mut body = Sound::default();
    let place = |body: &Sound| begin + body.bytes.len() as u64;
    let code_at = place(&body);
    if with.multiboot {
        body.field("magic", 4, 0x1BAD_B002);
        body.field("flags", 4, 0);
        body.field("checksum", 4, 0xE452_4FFE);
    }
    let entry = place(&body);
    body.bytes(&CODE);
    let code_size = place(&body) - code_at;
    body.bytes.resize(body.bytes.len().next_multiple_of(8), 0);
    let note_at = place(&body);
    if with.note {
        body.field("n_namesz", 4, 4);
        body.field("n_descsz", 4, 4);
        body.field("n_type", 4, 18);
        body.bytes(b"Xen\0");
        body.field("PHYS32_ENTRY", 4, BASE + (entry - code_at));
    }
    let strings_at = place(&body);
    if with.dynamic {
        body.bytes(b"\0libc.so.6\0/lib:/usr/lib\0");
    }
    let (dynamic_at, interpreter) = (place(&body), b"/lib64/ld-linux-x86-64.so.2\0");
    if with.dynamic {
        for (tag, value) in [(1, 1), (29, 11), (5, BASE + strings_at - code_at), (0, 0)] {
            body.field("d_tag", word, tag);
            body.field("d_val", word, value);
        }
    }
    let interpreter_at = place(&body);
    if with.dynamic {
        body.bytes(interpreter);
    }
    let names_at = place(&body);
    // The names of sections and of symbols.
    const NAMES: &[u8] = b"\0.text\0.symtab\0.strtab\0main\0_start\0.plt\0";
    if with.symbols {
        body.bytes(NAMES);
    }
    let symbols_at = place(&body);
    if with.symbols {
        for (name, info, section, value, size) in
            [(0, 0, 0, 0, 0), (23, 0x12, 1, BASE, 4), (28, 0x10, 1, BASE + 4, 0)]
        {
            body.field("st_name", 4, name);
            body.field("st_info", 1, info);
            body.field("st_other", 1, 0);
            body.field("st_shndx", 2, section);
            body.field("st_value", 8, value);
            body.field("st_size", 8, size);
        }
    }
    let symbols_size = place(&body) - symbols_at;
    let end = place(&body);

    let mut file = Sound::default();
    file.bytes(&[0x7F, b'E', b'L', b'F']);
    file.field("e_ident class", 1, if wide { 2 } else { 1 });
    file.field("e_ident data", 1, 1);
    file.field("e_ident version", 1, 1);
    file.bytes.resize(16, 0);
    file.field("e_type", 2, 2);
    file.field("e_machine", 2, if wide { 62 } else { 3 });
    file.field("e_version", 4, 1);
    file.field("e_entry", word, BASE + entry - code_at);
    file.field("e_phoff", word, header);
    file.field("e_shoff", word, if with.symbols { header + rows * row } else { 0 });
    file.field("e_flags", 4, 0);
    file.field("e_ehsize", 2, header);
    file.field("e_phentsize", 2, row);
    file.field("e_phnum", 2, rows);
    file.field("e_shentsize", 2, if with.symbols { section_row } else { 0 });
    file.field("e_shnum", 2, sections);
    file.field("e_shstrndx", 2, if with.symbols { 3 } else { 0 });
    let segment = |file: &mut Sound, kind, at, address, size, memory| {
        file.field("p_type", 4, kind);
        if wide {
            file.field("p_flags", 4, 5);
        }
        file.field("p_offset", word, at);
        file.field("p_vaddr", word, address);
        file.field("p_paddr", word, address);
        file.field("p_filesz", word, size);
        file.field("p_memsz", word, memory);
        if !wide {
            file.field("p_flags", 4, 5);
        }
        file.field("p_align", word, 8);
    };
    // Strings and rows of the dynamic section are looked up by their addresses: all is loaded.
    let loaded = if with.dynamic { end - code_at } else { code_size };
    segment(&mut file, 1, code_at, BASE, loaded, 0x1000);
    if with.note {
        segment(&mut file, 4, note_at, 0, strings_at - note_at, 0);
    }
    if with.dynamic {
        let size = interpreter_at - dynamic_at;
        segment(&mut file, 2, dynamic_at, BASE + dynamic_at - code_at, size, size);
        let size = interpreter.len() as u64;
        segment(&mut file, 3, interpreter_at, BASE + interpreter_at - code_at, size, size);
    }
    if with.symbols {
        let names = NAMES.len() as u64;
        for (name, kind, flags, address, at, size, link, row) in [
            (0, 0, 0, 0, 0, 0, 0, 0),
            (1, 1, 6, BASE, code_at, code_size, 0, 0),
            (7, 2, 0, 0, symbols_at, symbols_size, 3, 24),
            (15, 3, 0, 0, names_at, names, 0, 0),
            (35, 1, 6, BASE + 0x800, code_at, 0x10, 0, 0),
        ] {
            file.field("sh_name", 4, name);
            file.field("sh_type", 4, kind);
            file.field("sh_flags", word, flags);
            file.field("sh_addr", word, address);
            file.field("sh_offset", word, at);
            file.field("sh_size", word, size);
            file.field("sh_link", 4, link);
            file.field("sh_info", 4, 0);
            file.field("sh_addralign", word, 1);
            file.field("sh_entsize", word, row);
        }
    }
    let moved = file.bytes.len();
    file.bytes(&body.bytes);
    file.fields.extend(
        body.fields.into_iter().map(|field| super::edits::Field { at: field.at + moved, ..field }),
    );
    file
}

/// Loads a kernel, and starts it where that is accepted: whether it is.
///
/// # Errors
/// What does not hold.
pub(super) fn check(bytes: &[u8], options: u8) -> Result<bool, String> {
    look_into(bytes)?;
    let image = Image { name: "it".into(), bytes: bytes.to_vec() };
    if let Some(release) = linux::release(bytes)
        && (release.is_empty() || release.bytes().any(|byte| !byte.is_ascii_graphic()))
    {
        return Err(format!("a kernel's release is {release:?}"));
    }
    let module = |command_line: &str| Module {
        image: Image { name: "module".into(), bytes: vec![0xA5; 5000] },
        command_line: command_line.into(),
    };
    let modules = match options >> 5 & 3 {
        0 | 1 => vec![],
        2 => vec![module("")],
        _ => vec![module("one two"), module("")],
    };
    let command_line = if options & 16 == 0 { String::new() } else { "console=ttyS0 quiet".into() };
    let entry = [LinuxEntry::Auto, LinuxEntry::Bits32, LinuxEntry::Auto, LinuxEntry::Bits64]
        [usize::from(options >> 2 & 3)];
    let kernel = Kernel { image, modules, command_line, entry };
    let cpu = ["k8", "p6", "k8", "knc"][usize::from(options & 3)];
    let ram = RamLayout::new(MEMORY, None).map_err(|e| e.to_string())?;
    let payload = Payload::Kernel(kernel);
    if let Some(text) = payload.announcement() {
        one_line(&text)?;
    }
    let mut config = Config::new(cpu, ram, payload).map_err(|e| e.to_string())?;
    config.boot = if options & 128 == 0 { Boot::Direct } else { Boot::Firmware };
    match Machine::new(&config) {
        Ok(mut machine) => {
            machines::is_saved(&mut machine)?;
            goes_on(&mut machine)?;
            Ok(true)
        }
        Err(error) => refused(&error),
    }
}

/// What a packer asks of a program: not more than the file has.
fn look_into(bytes: &[u8]) -> Result<(), String> {
    let elf = match Elf::parse("it", bytes) {
        Ok(elf) => elf,
        Err(error) => return refused(&error).map(|_| ()),
    };
    elf.physical_entry();
    let note = elf.note(b"Xen\0", 18).map_or(0, <[u8]>::len);
    let dynamic = elf.dynamic();
    let names = elf.interpreter().into_iter().chain(dynamic.needed).chain(dynamic.search);
    let text: usize = names.map(|name| name.len()).sum();
    // What is no UTF-8 becomes three bytes of it.
    if note > bytes.len() || text > TEXT * bytes.len() {
        return Err(format!("{note} bytes of note and {text} of names out of {}", bytes.len()));
    }
    Ok(())
}
