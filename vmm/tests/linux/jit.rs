//! A compiler in small: it writes a function, calls it, writes another over it and calls that.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::guest::{packages, run};
use crate::harness::{Verdict, tests};
use crate::program::{START, elf_of};

tests!(a_compiler_calls_what_it_wrote_last);

/// How often it writes and calls.
const CALLS: u32 = 10_000;

/// Maps a page that can be written and executed, writes `mov eax, n; ret` there and calls it, for `n`
/// from 1 to [`CALLS`]; writes how often that returned `n`, in five digits, to standard output.
fn compiler() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut again, mut wrong, mut digit) = (a.create_label(), a.create_label(), a.create_label());
    // mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    a.mov(eax, 9)?;
    a.xor(edi, edi)?;
    a.mov(esi, 4096)?;
    a.mov(edx, 7)?;
    a.mov(r10d, 0x22)?;
    a.mov(r8, -1i64)?;
    a.xor(r9d, r9d)?;
    a.syscall()?;
    a.mov(rbx, rax)?;
    a.xor(ebp, ebp)?;
    a.mov(r12d, 1)?;
    a.set_label(&mut again)?;
    a.mov(byte_ptr(rbx), 0xb8)?;
    a.mov(dword_ptr(rbx + 1), r12d)?;
    a.mov(byte_ptr(rbx + 5), 0xc3)?;
    a.call(rbx)?;
    a.cmp(eax, r12d)?;
    a.jne(wrong)?;
    a.inc(ebp)?;
    a.set_label(&mut wrong)?;
    a.inc(r12d)?;
    a.cmp(r12d, CALLS as i32)?;
    a.jbe(again)?;
    // Five decimal digits and a newline, from the last one backwards.
    a.mov(byte_ptr(rbx + 5), 10)?;
    a.mov(eax, ebp)?;
    a.mov(ecx, 10)?;
    a.mov(esi, 4)?;
    a.set_label(&mut digit)?;
    a.xor(edx, edx)?;
    a.div(ecx)?;
    a.add(dl, i32::from(b'0'))?;
    a.mov(byte_ptr(rbx + rsi), dl)?;
    a.dec(esi)?;
    a.jns(digit)?;
    // write(1, page, 6); exit(0)
    a.mov(eax, 1)?;
    a.mov(edi, 1)?;
    a.mov(rsi, rbx)?;
    a.mov(edx, 6)?;
    a.syscall()?;
    a.mov(eax, 60)?;
    a.xor(edi, edi)?;
    a.syscall()?;
    a.assemble(START)
}

/// Every call executes what was written last: AMD64 APM volume 1, "Self-Modifying Code": no
/// serialising instruction is needed where the linear address of the write is that of the fetch.
fn a_compiler_calls_what_it_wrote_last() -> Verdict {
    let packages = packages()?;
    let mut root = packages.root("echo jit: $(jit); poweroff -f");
    root.file("/bin/jit", 0o755, elf_of(&compiler().expect("the compiler assembles")));
    let run = run(packages, "jit", 1, &root);
    assert!(run.log.contains("\njit: 10000\n"), "{}", run.log);
    Ok(())
}
