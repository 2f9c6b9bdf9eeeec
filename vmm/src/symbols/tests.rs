//! Names for truths: of real files where this process has them, and of files built by hand.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::sample::{DYN, EXEC, FUNCTION, Sample, TEXT};
use super::*;
use crate::boot::initramfs::Archive;
use crate::boot::{Image, Kernel, LinuxEntry};
use crate::truth::{Context, Entered, Event, Instruction, Row, Space};

/// A file as this process has it in memory.
pub(super) struct Mapping {
    pub(super) path: String,
    /// Address of its first page.
    pub(super) load: u64,
    /// Addresses of its code.
    code: Vec<Range<u64>>,
}

impl Mapping {
    /// From /proc/self/maps.
    pub(super) fn of_this_process() -> Vec<Self> {
        let mut mappings: Vec<Self> = Vec::new();
        for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
            let mut words = line.split_whitespace();
            let (range, flags) = (words.next().unwrap(), words.next().unwrap());
            let Some(path) = words.nth(3).filter(|path| path.starts_with('/')) else { continue };
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
            if mappings.last().is_none_or(|last| last.path != path) {
                mappings.push(Self { path: path.into(), load: start, code: vec![] });
            }
            if flags.contains('x') {
                mappings.last_mut().unwrap().code.push(start..end);
            }
        }
        mappings.retain(|mapping| !mapping.code.is_empty());
        mappings
    }

    /// What 3 of 4 pages of its code begin with, as instructions of all lengths, taken from memory. The
    /// last page may be code in part only.
    fn instructions(&self) -> Vec<(u64, Vec<u8>)> {
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        let mut instructions = Vec::new();
        for range in &self.code {
            for page in
                (range.start..range.end - 0x1000).step_by(0x1000).filter(|p| p >> 12 & 3 != 0)
            {
                let mut at = page + 0x40;
                for length in 1..=15 {
                    let mut bytes = vec![0; length];
                    memory.read_exact_at(&mut bytes, at).unwrap();
                    instructions.push((at, bytes));
                    at += length as u64;
                }
            }
        }
        instructions
    }
}

/// A truth of instructions in so many spaces: space, CPL, times, address, bytes.
fn truth(spaces: u32, executed: impl IntoIterator<Item = (u32, u8, u64, u64, Vec<u8>)>) -> Truth {
    let mut truth = Truth {
        vcpus: 1,
        events: ["cycles", "instructions"]
            .map(|name| Event { name: name.into(), signals: vec![] })
            .into(),
        spaces: (0..spaces).map(|i| Space { cr3: Some(u64::from(i) << 12), name: None }).collect(),
        ..Truth::default()
    };
    for (instruction, (space, cpl, times, address, bytes)) in (0..).zip(executed) {
        truth.instructions.push(Instruction { space, address, bits: 64, bytes });
        truth.rows.push(Row { instruction, vcpu: 0, cpl, counts: vec![1, times] });
    }
    truth
}

/// A kernel with an archive of these files.
fn payload(files: &[(&str, Vec<u8>)]) -> Payload {
    let mut archive = Archive::new();
    for (path, bytes) in files {
        archive.file(path, 0o755, bytes.clone());
    }
    let initrd = Image { name: "initramfs".into(), bytes: archive.bytes().unwrap() };
    Payload::Kernel(Kernel {
        image: Image { name: "bzImage".into(), bytes: vec![] },
        modules: vec![initrd.into()],
        command_line: String::new(),
        entry: LinuxEntry::Auto,
    })
}

/// Bytes that no other place has: of a generator with 2^64 states.
fn code(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed;
    let byte = |_| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 56) as u8
    };
    (0..size).map(byte).collect()
}

/// `size` bytes of a sample's code as instructions of 5 bytes, loaded `bias` from where it is linked.
fn executed(sample: &Sample, bias: u64, size: usize) -> Vec<(u64, Vec<u8>)> {
    let chunks = sample.text[..size].chunks_exact(5);
    (0..)
        .zip(chunks)
        .map(|(i, c)| (sample.address.wrapping_add(bias) + 5 * i, c.to_vec()))
        .collect()
}

fn in_space(
    space: u32,
    times: u64,
    instructions: Vec<(u64, Vec<u8>)>,
) -> impl Iterator<Item = (u32, u8, u64, u64, Vec<u8>)> {
    instructions.into_iter().map(move |(address, bytes)| (space, 3, times, address, bytes))
}

fn names(truth: &Truth) -> Vec<(&str, Option<u32>)> {
    truth.modules.iter().map(|module| (module.name.as_str(), module.space)).collect()
}

/// The files of this process, where it has them, and in another space at other pages, twice: the
/// second time behind the first, as of two processes that had the same page table.
#[test]
fn real_files_are_found_where_they_were_executed() {
    let mappings = Mapping::of_this_process();
    let files: Vec<_> = mappings
        .iter()
        .map(|mapping| (mapping.path.as_str(), std::fs::read(&mapping.path).unwrap()))
        .collect();
    let moves = [(0, 0_u64), (1, 0x1_2345_6000), (1, 0x2_0000_7000)];
    let mut instructions = Vec::new();
    for mapping in &mappings {
        let own = mapping.instructions();
        for (space, by) in moves {
            let moved = own.iter().map(|(address, bytes)| (address + by, bytes.clone()));
            instructions.extend(in_space(space, 1, moved.collect()));
        }
    }
    let mut truth = truth(2, instructions);
    let payload = payload(&files);
    attach(&mut truth, &Sources { payload: Some(&payload), ..Sources::default() }).unwrap();
    let this = std::env::current_exe().unwrap();
    let this = this.file_name().unwrap().to_str().unwrap();
    let programs: Vec<_> = truth.spaces.iter().map(|space| space.name.as_deref()).collect();
    assert_eq!(programs, [Some(this), Some(this)]);
    for (space, by) in moves {
        for (mapping, (path, bytes)) in mappings.iter().zip(&files) {
            let elf = ElfFile::parse(path, bytes).unwrap();
            let bias = (mapping.load + by).wrapping_sub(elf.start);
            let mut expected = elf.module(&elf.name, bias, Some(space));
            Asked::of(&truth).retain_named(&mut expected);
            assert!(truth.modules.contains(&expected), "{path} in {space}");
        }
    }
    assert_eq!(truth.modules.len(), moves.len() * mappings.len());
}

/// What a space is called is the program of which most was executed there, and not a library. A module
/// has the symbols that something was executed in.
#[test]
fn a_space_has_the_name_of_its_program() {
    let symbols = vec![
        ("first", 0x1000, 0x100, FUNCTION, TEXT),
        ("second", 0x1100, 0x100, FUNCTION, TEXT),
        ("third", 0x1200, 0x100, FUNCTION, TEXT),
    ];
    let library = Sample { symbols, ..Sample::new(DYN, 0x1000, code(1, 0x2000)) };
    let shell = Sample::new(EXEC, 0x40_0000, code(2, 0x2000));
    let tool = Sample::new(EXEC, 0x80_0000, code(3, 0x1000));
    let at = 0x7F00_0000_0000;
    let truth_of = |times| {
        in_space(0, 1000, executed(&library, at, 0x150))
            .chain(in_space(0, 1, executed(&shell, 0, 0x1000)))
            .chain(in_space(0, times, executed(&tool, 0, 0x40)))
            .collect::<Vec<_>>()
    };
    let payload = payload(&[
        ("/lib/library.so", library.file()),
        ("/bin/shell", shell.file()),
        ("/bin/tool", tool.file()),
        // A second name of the same file.
        ("/bin/zz", tool.file()),
        ("/etc/text", b"no ELF".to_vec()),
        ("/etc/damaged", b"\x7FELF\x02\x01\x01".to_vec()),
    ]);
    // 1000h / 5 instructions of the shell, once; 40h / 5 of the tool.
    for (times, name) in [(1, "shell"), (100, "tool")] {
        let mut truth = truth(1, truth_of(times));
        attach(&mut truth, &Sources { payload: Some(&payload), ..Sources::default() }).unwrap();
        assert_eq!(truth.spaces[0].name.as_deref(), Some(name));
        let some = Some(0);
        assert_eq!(names(&truth), [("shell", some), ("tool", some), ("library.so", some)]);
        let symbols: Vec<_> =
            truth.modules[2].symbols.iter().map(|s| (s.address - at, s.name.as_str())).collect();
        assert_eq!(symbols, [(0x1000, "first"), (0x1100, "second")]);
    }
}

/// A few bytes may be the same by chance, or because two files have them. Of a program that can be at one
/// place only, its first instruction is enough.
#[test]
fn what_is_not_certain_is_not_named() {
    let stub = |seed| {
        let text = [code(7, 0x40), code(seed, 0x1000)].concat();
        Sample::new(DYN, 0x1000, text)
    };
    let (one, two) = (stub(8), stub(9));
    let fixed = Sample::new(EXEC, 0x40_0000, code(10, 0x1000));
    let payload = payload(&[("/one", one.file()), ("/two", two.file()), ("/fixed", fixed.file())]);
    let modules = |instructions: Vec<_>| {
        let mut truth = truth(1, in_space(0, 1, instructions));
        attach(&mut truth, &Sources { payload: Some(&payload), ..Sources::default() }).unwrap();
        truth.modules.iter().map(|module| module.name.clone()).collect::<Vec<_>>()
    };
    let at = 0x5555_0000_0000;
    // What both have, less than 32 bytes, and more than that.
    assert_eq!(modules(executed(&one, at, 0x40)), [""; 0]);
    assert_eq!(modules(executed(&two, at, 0x100).split_off(13)[..6].to_vec()), [""; 0]);
    assert_eq!(modules(executed(&two, at, 0x100)), ["two"]);
    assert_eq!(modules(executed(&fixed, 0, 5)), ["fixed"]);
    assert_eq!(modules(executed(&fixed, 0, 30).split_off(1)), [""; 0]);
    // Most of it is something else.
    let mut other = executed(&fixed, 0, 500);
    other.iter_mut().skip(49).for_each(|(_, bytes)| bytes[0] ^= 1);
    assert_eq!(modules(other.clone()), [""; 0]);
    // Where code was modified, what it was is enough.
    other.extend(executed(&fixed, 0, 500));
    assert_eq!(modules(other), ["fixed"]);
}

fn file(sample: &Sample, argument: &str, address: Option<u64>) -> SymbolFile {
    SymbolFile { argument: argument.into(), bytes: sample.file(), address }
}

/// The user's file with symbols stands in the place of the guest's without, at a given address or not.
#[test]
fn the_users_file_is_found_and_compared() {
    let stripped = Sample { build_id: vec![0xAA], ..Sample::new(DYN, 0x1000, code(1, 0x2000)) };
    let symbols = vec![("main", 0x1000, 0x100, FUNCTION, TEXT)];
    let full = Sample { symbols, ..stripped.clone() };
    let mut other = Sample { build_id: vec![0xBB], ..full.clone() };
    other.text[0x83] ^= 1;
    let base = 0x5555_5555_0000;
    let bias = base - 0x1000;
    let payload = payload(&[("/bin/prog", stripped.file())]);
    let attached = |file: SymbolFile| {
        let mut truth = truth(2, in_space(1, 1, executed(&stripped, bias, 0x400)));
        let files = [file];
        let sources = Sources { payload: Some(&payload), files: &files, ..Sources::default() };
        attach(&mut truth, &sources).map(|()| truth)
    };
    for address in [None, Some(base)] {
        let truth = attached(file(&full, "full", address)).unwrap();
        assert_eq!(names(&truth), [("full", Some(1))]);
        let main = Symbol { address: base, size: 0x100, name: "main".into() };
        assert_eq!(truth.modules[0].symbols, [main]);
    }
    let refused = |sample, argument: &str, address| {
        attached(file(sample, argument, address)).unwrap_err().to_string()
    };
    // The 26th instruction, of 5 bytes each, has byte 83h.
    let differs = "build-id bb: it differs from the code executed at 0x555555550082, of prog, \
                   build-id aa";
    assert_eq!(refused(&other, "other", None), format!("--symbols other: {differs}"));
    assert_eq!(refused(&other, "other@1", Some(base)), format!("--symbols other@1: {differs}"));
    assert_eq!(
        refused(&full, "full@2", Some(0x1000)),
        "--symbols full@2: build-id aa: no code was executed from 0x1000 up to 0x3000"
    );
    let foreign = Sample::new(DYN, 0, code(99, 0x1000));
    assert_eq!(
        refused(&foreign, "foreign", None),
        "--symbols foreign: without build-id: no code that was executed agrees with it"
    );
}

/// Two programs that are linked to the same address, in one space one after the other.
#[test]
fn another_programs_code_is_no_difference() {
    let symbols = vec![("main", 0x40_0000, 0x1000, FUNCTION, TEXT)];
    let first = Sample { symbols, ..Sample::new(EXEC, 0x40_0000, code(1, 0x2000)) };
    let second = Sample::new(EXEC, 0x40_0000, code(2, 0x2000));
    let later = executed(&second, 0, 0x1800).split_off(0x1000 / 5 + 1);
    let both = || in_space(0, 1, executed(&first, 0, 0x1000)).chain(in_space(0, 1, later.clone()));
    let payload = payload(&[("/second", second.file())]);
    let files = [file(&first, "first", None)];
    let mut truth = truth(1, both());
    let sources = Sources { payload: Some(&payload), files: &files, ..Sources::default() };
    // The packed file alone explains less than half.
    let error = attach(&mut truth, &sources).unwrap_err().to_string();
    assert!(
        error.starts_with("--symbols first: without build-id: it differs from the code"),
        "{error}"
    );
    let mut truth = self::truth(1, both().skip(0x900 / 5));
    attach(&mut truth, &sources).unwrap();
    assert_eq!(names(&truth), [("first", Some(0)), ("second", Some(0))]);
    assert_eq!(truth.spaces[0].name.as_deref(), Some("second"));
    // A file that only the user has names the space, too.
    let mut truth = self::truth(1, in_space(0, 1, executed(&first, 0, 0x1000)));
    attach(&mut truth, &Sources { files: &files, ..Sources::default() }).unwrap();
    assert_eq!(truth.spaces[0].name.as_deref(), Some("first"));
}

/// A kernel that modified a tenth of its instructions and moved itself, in two spaces; and what the
/// context of an interrupt names. The code of the kernel's file is what it is linked to.
#[test]
fn a_kernel_is_found_where_it_moved() {
    let address = 0xFFFF_FFFF_8100_0000;
    let symbols = vec![
        ("startup", address, 0x100, FUNCTION, TEXT),
        ("interrupt", address + 0x2F00, 0x100, FUNCTION, TEXT),
        ("unused", address + 0x2800, 0x100, FUNCTION, TEXT),
    ];
    let kernel = Sample { symbols, ..Sample::new(EXEC, address, code(5, 0x3000)) };
    for (moved, given) in
        [(0, None), (0x1920_0000, None), (0x1920_0000, Some(0xFFFF_FFFF_9A20_0000))]
    {
        let instructions = executed(&kernel, moved, 0x2000).into_iter().enumerate();
        let supervisor = instructions.map(|(i, (address, mut bytes))| {
            bytes[1] ^= u8::from(i % 10 == 3);
            (i as u32 % 2, 0, 1, address, bytes)
        });
        let mut truth = truth(2, supervisor);
        truth.contexts.push(Context {
            parent: None,
            entered: Entered::Interrupt(32),
            site: address + moved,
            entry: address + moved + 0x2F00,
            space: 1,
            cpl: 0,
            times: 1,
            own: vec![0, 0],
        });
        let files = [file(&kernel, "vmlinux", given)];
        attach(&mut truth, &Sources { files: &files, ..Sources::default() }).unwrap();
        assert_eq!(names(&truth), [("kernel", None)]);
        let symbols: Vec<_> = truth.modules[0].symbols.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(symbols, ["startup", "interrupt"]);
        assert_eq!(truth.modules[0].symbols[0].address, address + moved);
    }
}

/// A payload that is an ELF file has its own names, unless the user has others.
#[test]
fn a_kernels_file_and_a_system_map_name_the_kernel() {
    let symbols = vec![("begin", 0x10_0000, 0x20, FUNCTION, TEXT)];
    let kernel = Sample { symbols, ..Sample::new(EXEC, 0x10_0000, code(4, 0x1000)) };
    let payload = Payload::Kernel(Kernel {
        image: Image { name: "folder/bare".into(), bytes: kernel.file() },
        modules: vec![],
        command_line: String::new(),
        entry: LinuxEntry::Auto,
    });
    let run = || truth(1, [(0, 0, 1, 0x10_0000, vec![0x90]), (0, 0, 1, 0x10_0044, vec![0x90])]);
    let symbol = |address, size, name: &str| Symbol { address, size, name: name.into() };
    let mut truth = run();
    let sources = Sources { payload: Some(&payload), ..Sources::default() };
    attach(&mut truth, &sources).unwrap();
    assert_eq!(names(&truth), [("kernel", None)]);
    assert_eq!(truth.modules[0].symbols, [symbol(0x10_0000, 0x20, "begin")]);
    // 40h is added to the addresses of the map.
    let map = "00100000 T begin\n00100004 T within\n00100008 D data\n000fffc0 t before\n";
    let files =
        [SymbolFile { argument: "System.map@0x40".into(), bytes: map.into(), address: Some(0x40) }];
    attach(&mut truth, &Sources { files: &files, ..sources }).unwrap();
    assert_eq!(names(&truth), [("kernel", None)]);
    let expected = [symbol(0x10_0000, 0x40, "before"), symbol(0x10_0044, 4, "within")];
    assert_eq!(truth.modules[0].symbols, expected);
    let files = [SymbolFile { argument: "f".into(), bytes: vec![0xFF, 0xFE], address: None }];
    let error = attach(&mut truth, &Sources { files: &files, ..sources }).unwrap_err();
    assert_eq!(error.to_string(), "--symbols f: neither an ELF file nor a System.map");
    assert_eq!(error.status(), 4);
}
