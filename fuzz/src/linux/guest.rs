//! The guest: Linux with one program, its first process, that counts and samples itself for ever.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, dword_ptr, eax, ecx, edi, edx, esi, qword_ptr, r8d, r10, r12, r13, rax, rcx,
    rdi, rdx, rsi,
};
use vpmu::boot::initramfs::Archive;
use vpmu::devices::debug_exit::{MARKER, POST_CODE};

/// Where the program is: headers and code, then attributes of events and what is read.
const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;
const DATA: u64 = 0x1000;
const SIZE: u64 = 0x2000;
const SAMPLING: u64 = BASE + DATA;
const COUNTING: u64 = SAMPLING + 64;
const RESULT: u64 = SAMPLING + 128;

/// Instructions between two samples, and turns of the loop that is counted: several samples a round.
const PERIOD: u64 = 2000;
const LOOP: u32 = 5000;

/// System calls, and requests of `perf_event_open`'s descriptors (Linux include/uapi/linux/perf_event.h).
const READ: u32 = 0;
const IOCTL: u32 = 16;
const EXIT: u32 = 60;
const IOPERM: u32 = 173;
const PERF_EVENT_OPEN: u32 = 298;
const ENABLE: u32 = 0x2400;
const DISABLE: u32 = 0x2401;
const RESET: u32 = 0x2403;

/// The first root file system: the program as /init.
///
/// # Errors
/// The assembler refuses the program, or it does not fit.
pub(super) fn archive() -> Result<Vec<u8>, String> {
    let mut archive = Archive::new();
    archive.directory("/dev");
    archive.character_device("/dev/console", 0o600, 5, 1);
    archive.file("/init", 0o755, executable().map_err(|e| e.to_string())?);
    archive.bytes().map_err(|e| e.to_string())
}

/// `struct perf_event_attr` as its first version has it: type 0, hardware; flags `disabled` and nothing else, so that
/// the kernel is counted as well.
fn attributes(config: u64, period: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(64_u32.to_le_bytes());
    for field in [config, period, u64::from(period != 0), 3, 1, 0, 0] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.resize(64, 0);
    bytes
}

/// A static ELF64 of one segment.
fn executable() -> Result<Vec<u8>, IcedError> {
    const INSTRUCTIONS: u64 = 1;
    const CYCLES: u64 = 0;
    let mut file = b"\x7FELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for quad in [BASE + HEADERS, 64, 0] {
        file.extend(quad.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    for quad in [0, BASE, BASE, SIZE, SIZE, 0x1000] {
        file.extend(quad.to_le_bytes());
    }
    file.extend(code()?);
    file.resize(DATA as usize, 0);
    file.extend(attributes(INSTRUCTIONS, PERIOD));
    file.extend(attributes(CYCLES, 0));
    file.resize(SIZE as usize, 0);
    Ok(file)
}

/// Opens a sampling and a counting event of itself, and has ports 80h to 83h; then resets, enables, works, disables and
/// reads both, with a marker at the end of each round. A kernel that refuses any of it sees its first process exit.
fn code() -> Result<Vec<u8>, IcedError> {
    let mut p = CodeAssembler::new(64)?;
    let mut failed = p.create_label();
    for (attributes, sampling) in [(SAMPLING, true), (COUNTING, false)] {
        p.mov(rdi, attributes)?;
        p.xor(esi, esi)?;
        p.mov(rdx, -1_i64)?;
        p.mov(r10, -1_i64)?;
        p.xor(r8d, r8d)?;
        p.mov(eax, PERF_EVENT_OPEN)?;
        p.syscall()?;
        p.test(rax, rax)?;
        p.js(failed)?;
        p.mov(if sampling { r12 } else { r13 }, rax)?;
    }
    p.mov(edi, u32::from(POST_CODE))?;
    p.mov(esi, 4)?;
    p.mov(edx, 1)?;
    p.mov(eax, IOPERM)?;
    p.syscall()?;
    p.test(eax, eax)?;
    p.jnz(failed)?;

    let round = {
        let mut label = p.create_label();
        p.set_label(&mut label)?;
        label
    };
    p.mov(edx, u32::from(POST_CODE))?;
    p.mov(eax, MARKER)?;
    p.out(iced_x86::code_asm::dx, eax)?;
    for request in [RESET, ENABLE] {
        for descriptor in [r12, r13] {
            p.mov(rdi, descriptor)?;
            p.mov(esi, request)?;
            p.xor(edx, edx)?;
            p.mov(eax, IOCTL)?;
            p.syscall()?;
        }
    }
    p.mov(ecx, LOOP)?;
    let mut again = p.create_label();
    p.set_label(&mut again)?;
    p.add(qword_ptr(RESULT + 0x40), rcx)?;
    p.dec(ecx)?;
    p.jnz(again)?;
    for descriptor in [r12, r13] {
        p.mov(rdi, descriptor)?;
        p.mov(esi, DISABLE)?;
        p.xor(edx, edx)?;
        p.mov(eax, IOCTL)?;
        p.syscall()?;
        p.mov(rdi, descriptor)?;
        p.mov(rsi, RESULT)?;
        p.mov(edx, 24)?;
        p.mov(eax, READ)?;
        p.syscall()?;
    }
    p.inc(dword_ptr(RESULT + 0x48))?;
    p.jmp(round)?;
    p.set_label(&mut failed)?;
    p.mov(edi, 1)?;
    p.mov(eax, EXIT)?;
    p.syscall()?;
    p.assemble(BASE + HEADERS)
}
