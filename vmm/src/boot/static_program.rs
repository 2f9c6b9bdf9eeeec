//! Programs of a few instructions for the guest, without a compiler or a library.

use super::elf::MACHINE_X86_64;

const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// `code`, which runs wherever it is, as a static ELF64: one segment, file and memory alike.
pub(super) fn static_program(code: &[u8]) -> Vec<u8> {
    let size = HEADERS + code.len() as u64;
    let mut file = b"\x7FELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, v: u16| file.extend(v.to_le_bytes());
    let word = |file: &mut Vec<u8>, v: u32| file.extend(v.to_le_bytes());
    let quad = |file: &mut Vec<u8>, v: u64| file.extend(v.to_le_bytes());
    half(&mut file, 2); // ET_EXEC
    half(&mut file, MACHINE_X86_64);
    word(&mut file, 1);
    quad(&mut file, BASE + HEADERS); // e_entry
    quad(&mut file, 64); // e_phoff
    quad(&mut file, 0);
    word(&mut file, 0);
    for v in [64, 56, 1, 0, 0, 0] {
        half(&mut file, v);
    }
    word(&mut file, 1); // PT_LOAD
    word(&mut file, 5); // read, execute
    for v in [0, BASE, BASE, size, size, 0x1000] {
        quad(&mut file, v);
    }
    file.extend(code);
    file
}
