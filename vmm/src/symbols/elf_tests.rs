//! ELF files: built by hand, the test's own, and damaged ones.

use super::elf::ElfFile;
use super::sample::{
    ABSOLUTE, DATA, DYN, EXEC, FUNCTION, LABEL, LOCAL_FUNCTION, OBJECT, PLT, Sample, TEXT,
    UNDEFINED, WEAK_FUNCTION,
};
use super::tests::Mapping;

/// 80h bytes of `.text` at 401000h and 20h of `.plt`.
fn sample() -> Sample {
    Sample {
        plt: vec![0xCC; 0x20],
        build_id: vec![0x12, 0xAB, 0x00],
        symbols: vec![
            ("__alias", 0x401000, 0x10, FUNCTION, TEXT),
            ("local", 0x401000, 0x10, LOCAL_FUNCTION, TEXT),
            ("weak", 0x401000, 0x10, WEAK_FUNCTION, TEXT),
            ("function", 0x401000, 0x10, FUNCTION, TEXT),
            ("label", 0x401010, 0, LABEL, TEXT),
            (".Lhidden", 0x401018, 0, LABEL, TEXT),
            ("inner", 0x401020, 0, LABEL, TEXT),
            ("too_long", 0x401030, u64::MAX, FUNCTION, TEXT),
            ("last", 0x401070, 0, LABEL, TEXT),
            ("etext", 0x401080, 0, LABEL, TEXT),
            ("stub", 0x401088, 8, FUNCTION, PLT),
            ("data", 0x4010A0, 8, OBJECT, DATA),
            ("code_in_data", 0x4010A0, 8, FUNCTION, DATA),
            ("constant", 0x401000, 0, LABEL, ABSOLUTE),
            ("imported", 0, 0, FUNCTION, UNDEFINED),
        ],
        ..Sample::new(EXEC, 0x40_1000, vec![0x90; 0x80])
    }
}

/// Functions and labels of code; of names for the same, global ones first, then those with fewer
/// underscores. A label reaches to the next name or to the end of its section, at which one has none.
/// What is left of `.plt` has its name.
#[test]
fn symbols_are_those_of_code() {
    for wide in [false, true] {
        for dynamic in [false, true] {
            let bytes = Sample { wide, dynamic, ..sample() }.file();
            let file = ElfFile::parse("/usr/bin/sample", &bytes).unwrap();
            let symbols: Vec<_> =
                file.symbols.iter().map(|s| (s.address, s.size, s.name.as_str())).collect();
            let expected = [
                (0x401000, 0x10, "function"),
                (0x401000, 0x10, "__alias"),
                (0x401000, 0x10, "weak"),
                (0x401000, 0x10, "local"),
                (0x401010, 0x10, "label"),
                (0x401020, 0x10, "inner"),
                (0x401030, 0x50, "too_long"),
                (0x401070, 0x10, "last"),
                (0x401080, 8, ".plt"),
                (0x401088, 8, "stub"),
                (0x401090, 0x10, ".plt"),
            ];
            assert_eq!(symbols, expected, "wide: {wide}, dynamic: {dynamic}");
        }
    }
}

#[test]
fn what_a_file_is_is_told() {
    for wide in [false, true] {
        let bytes = Sample { wide, ..sample() }.file();
        let file = ElfFile::parse("/usr/bin/sample", &bytes).unwrap();
        assert_eq!((file.name.as_str(), file.build_id.as_deref()), ("sample", Some("12ab00")));
        assert!(file.fixed && file.program);
        assert_eq!(
            (file.entry, file.start, file.extent()),
            (0x401000, 0x401000, 0x401000..0x4010A0)
        );
        assert_eq!(file.bytes_at(0x40107F, 2), Some(&[0x90, 0xCC][..]));
        assert_eq!(file.bytes_at(0x40109F, 2), None);
        assert_eq!(file.bytes_at(0x400FFF, 1), None);
        let bytes = Sample { wide, kind: DYN, build_id: vec![], ..sample() }.file();
        let file = ElfFile::parse("sample", &bytes).unwrap();
        assert_eq!((file.build_id.as_deref(), file.fixed, file.program), (None, false, false));
    }
}

/// The test itself is a program; its C library, which has an interpreter too, is none, and neither is
/// the dynamic loader. A function of each is where the process has it.
#[test]
fn real_files_have_the_functions_that_the_process_has() {
    let mappings = Mapping::of_this_process();
    let file = |end: &str| mappings.iter().find(|mapping| mapping.path.ends_with(end)).unwrap();
    let mapping = file("/libc.so.6");
    let bytes = std::fs::read(&mapping.path).unwrap();
    let elf = ElfFile::parse(&mapping.path, &bytes).unwrap();
    let symbol = elf.symbols.iter().find(|symbol| symbol.name == "getpid").unwrap();
    let address = libc::getpid as *const () as u64;
    assert_eq!(symbol.address.wrapping_add(mapping.load - elf.start), address);
    assert!(!elf.program && !elf.fixed && elf.build_id.is_some());
    let own = std::fs::read("/proc/self/exe").unwrap();
    let elf = ElfFile::parse("/proc/self/exe", &own).unwrap();
    assert!(elf.program);
    let this = std::fs::canonicalize("/proc/self/exe").unwrap().display().to_string();
    let bias = file(&this).load - elf.start;
    let address = (known_function as *const () as u64).wrapping_sub(bias);
    let symbol = elf.symbols.iter().find(|symbol| symbol.address == address).unwrap();
    assert!(symbol.name.contains("known_function") && symbol.size > 0, "{symbol:?}");
    let loader = std::fs::read(&file("/ld-linux-x86-64.so.2").path).unwrap();
    assert!(!ElfFile::parse("ld", &loader).unwrap().program);
}

#[inline(never)]
fn known_function() -> u32 {
    std::hint::black_box(7)
}

/// Every part of a file cut off, and every byte of it changed: an error, or other symbols.
#[test]
fn damaged_files_are_refused() {
    assert_eq!(known_function(), 7);
    for wide in [false, true] {
        let bytes = Sample { wide, ..sample() }.file();
        for end in 0..bytes.len() {
            let error = ElfFile::parse("cut", &bytes[..end]).unwrap_err().to_string();
            assert!(error.starts_with("cut: ") && !error.contains('\n'), "{error}");
        }
        let mut refused = 0;
        let (headers, tables) = (0..0x200, 0x1000..bytes.len());
        for at in headers.chain(tables) {
            for value in [0, 0x7F, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                match ElfFile::parse("damaged", &damaged) {
                    Ok(file) => _ = file.module("m", u64::MAX, None),
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(refused > 100, "{refused}");
    }
    let error = ElfFile::parse("text", b"#!/bin/sh\n").unwrap_err().to_string();
    assert_eq!(error, "text: not an ELF file");
}
