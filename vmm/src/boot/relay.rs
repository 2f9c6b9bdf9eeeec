//! The guest programs that carry standard input, output, error and files between a command and the pipes of
//! the machine ([`crate::devices::pipes`]).
//!
//! As [`super::exit_port`] they ask for the ports with `ioperm`, so that they need no driver. The buffer is
//! on the stack, which the kernel lets grow to 8 MiB.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, al, dx, eax, ebx, ecx, edi, edx, esi, ptr, qword_ptr, rax, rbx, rdi,
    rsi, rsp,
};

use super::error::{BootError, Result};
use super::static_program::static_program;
use crate::devices::pipes::{self, CONTROL, ERROR, FILE, FILE_END, INPUT, OUTPUT, UNANSWERED};

/// System calls of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
const READ: u32 = 0;
const WRITE: u32 = 1;
const NANOSLEEP: u32 = 35;
const EXIT: u32 = 60;
const IOPERM: u32 = 173;

/// Bytes that are carried at once.
const BUFFER: i32 = pipes::LONGEST as i32;
/// Bytes of a `struct timespec`, which lies below the buffer.
const TIMESPEC: i32 = 16;
/// Nanoseconds of the first sleep while there is no answer. Each is twice as long as the one before, up to
/// the last: who computes for long without reading is not disturbed often, and who reads soon has it soon.
const FIRST_SLEEP: u32 = 50_000;
/// As good as 13 ms.
const LAST_SLEEP: u32 = FIRST_SLEEP << 8;

/// The program that asks the machine for input and writes it to its own standard output.
pub(super) fn input() -> Result<Vec<u8>> {
    program(|a, end| {
        let [mut again, mut look, mut answered, mut write] = [(); 4].map(|()| a.create_label());
        a.sub(rsp, BUFFER + TIMESPEC)?;
        // Memory that is there: a page fault amidst INS could lose what it has read from the port.
        a.mov(rdi, rsp)?;
        a.xor(eax, eax)?;
        a.mov(ecx, BUFFER + TIMESPEC)?;
        a.rep().stosb()?;
        a.set_label(&mut again)?;
        a.mov(edx, u32::from(CONTROL))?;
        a.out(dx, eax)?;
        a.mov(ebx, FIRST_SLEEP)?;
        a.set_label(&mut look)?;
        a.mov(edx, u32::from(CONTROL))?;
        a.in_(eax, dx)?;
        a.cmp(eax, UNANSWERED as i32)?;
        a.jne(answered)?;
        a.mov(qword_ptr(rsp), 0)?;
        a.mov(qword_ptr(rsp + 8), rbx)?;
        a.mov(rdi, rsp)?;
        a.xor(esi, esi)?;
        a.mov(eax, NANOSLEEP)?;
        a.syscall()?;
        a.cmp(ebx, LAST_SLEEP as i32)?;
        a.jae(look)?;
        a.add(ebx, ebx)?;
        a.jmp(look)?;
        a.set_label(&mut answered)?;
        a.test(eax, eax)?;
        a.jz(end)?;
        a.mov(ebx, eax)?;
        a.mov(edx, u32::from(INPUT))?;
        a.lea(rdi, ptr(rsp + TIMESPEC))?;
        a.mov(ecx, ebx)?;
        a.shr(ecx, 2)?;
        a.rep().insd()?;
        a.mov(ecx, ebx)?;
        a.and(ecx, 3)?;
        a.rep().insb()?;
        a.lea(rsi, ptr(rsp + TIMESPEC))?;
        a.set_label(&mut write)?;
        a.mov(edi, 1)?;
        a.mov(edx, ebx)?;
        a.mov(eax, WRITE)?;
        a.syscall()?;
        a.test(rax, rax)?;
        a.jle(end)?;
        a.add(rsi, rax)?;
        a.sub(ebx, eax)?;
        a.jnz(write)?;
        a.jmp(again)
    })
}

/// The program that reads its standard input to the end and gives it to the machine as standard output.
pub(super) fn output() -> Result<Vec<u8>> {
    to_port(OUTPUT, None)
}

/// The same as standard error.
pub(super) fn error() -> Result<Vec<u8>> {
    to_port(ERROR, None)
}

/// The program that gives its standard input to the machine as a file.
pub(super) fn file() -> Result<Vec<u8>> {
    to_port(FILE, Some(FILE_END))
}

/// Copies standard input to `port`; tells `end_port`, if there is one, whether it could be read to its end.
fn to_port(port: u16, end_port: Option<u16>) -> Result<Vec<u8>> {
    program(|a, end| {
        let [mut again, mut done] = [(); 2].map(|()| a.create_label());
        a.sub(rsp, BUFFER)?;
        a.set_label(&mut again)?;
        a.xor(edi, edi)?;
        a.mov(rsi, rsp)?;
        a.mov(edx, BUFFER)?;
        a.mov(eax, READ)?;
        a.syscall()?;
        a.test(eax, eax)?;
        a.jle(done)?;
        a.mov(ebx, eax)?;
        a.mov(edx, u32::from(port))?;
        a.mov(rsi, rsp)?;
        a.mov(ecx, ebx)?;
        a.shr(ecx, 2)?;
        a.rep().outsd()?;
        a.mov(ecx, ebx)?;
        a.and(ecx, 3)?;
        a.rep().outsb()?;
        a.jmp(again)?;
        a.set_label(&mut done)?;
        if let Some(end_port) = end_port {
            // READ gives zero at the end, and less if it fails.
            a.mov(ebx, eax)?;
            a.xor(eax, eax)?;
            a.test(ebx, ebx)?;
            a.setz(al)?;
            a.mov(edx, u32::from(end_port))?;
            a.out(dx, eax)?;
        }
        a.jmp(end)
    })
}

/// A program that has the ports, does what `body` assembles, and exits at its end or where `body` jumps to
/// the label.
fn program(
    body: impl FnOnce(&mut CodeAssembler, CodeLabel) -> std::result::Result<(), IcedError>,
) -> Result<Vec<u8>> {
    let assemble = || -> std::result::Result<Vec<u8>, IcedError> {
        let mut a = CodeAssembler::new(64)?;
        let mut end = a.create_label();
        a.mov(edi, u32::from(pipes::FIRST))?;
        a.mov(esi, u32::from(pipes::PORTS))?;
        a.mov(edx, 1)?;
        a.mov(eax, IOPERM)?;
        a.syscall()?;
        a.test(eax, eax)?;
        a.jnz(end)?;
        body(&mut a, end)?;
        a.set_label(&mut end)?;
        a.mov(eax, EXIT)?;
        a.xor(edi, edi)?;
        a.syscall()?;
        a.assemble(0)
    };
    let code = assemble().map_err(|e| BootError::Unsupported(e.to_string()))?;
    Ok(static_program(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::elf::Elf;

    #[test]
    fn they_are_static_executables() {
        for file in [input(), output(), error(), file()] {
            let file = file.unwrap();
            assert_eq!(Elf::parse("relay", &file).unwrap().interpreter(), None);
            // MOV EDI, 2100h; MOV ESI, 18h.
            assert_eq!(file[0x78..0x7D], [0xBF, 0x00, 0x21, 0x00, 0x00]);
            assert_eq!(file[0x7D..0x82], [0xBE, 0x18, 0x00, 0x00, 0x00]);
        }
    }
}
