//! Static user programs, in machine code that is the same everywhere.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

/// Where the data of the programs is: pages of 2 MiB if the kernel has any, so that memory follows on
/// itself as addresses do.
const DATA: u64 = 0x40_0000_0000;
/// Bytes of data.
const DATA_BYTES: u32 = 0x20_0000;
/// Where the first program is, and how far the next one is from it.
const BASE: u64 = 0x30_0000_0000;
const DISTANCE: u64 = 0x1_0000_0000;
/// Size of an ELF header and of one program header.
const HEADERS: u64 = 64 + 56;

/// Exit status of a program whose data is in large pages, and of one whose data is not.
pub(super) const IN_LARGE_PAGES: i32 = 0;
/// See [`IN_LARGE_PAGES`].
pub(super) const IN_SMALL_PAGES: i32 = 7;

/// A program.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What it does, in a sentence.
    pub(super) does: &'static str,
    code: fn(&mut CodeAssembler) -> Result<(), IcedError>,
    /// Whether it has code where its data is. Only one can.
    executes_data: bool,
}

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "matrices",
        does: "a product of two matrices of 128 by 128 quadwords, the second one by columns",
        code: matrices,
        executes_data: false,
    },
    Program {
        name: "quicksort",
        does: "262,144 doublewords sorted, by parts",
        code: quicksort,
        executes_data: false,
    },
    Program {
        name: "join",
        does: "16,384 keys into a hash table of 512 KiB, and 262,144 looked up",
        code: join,
        executes_data: false,
    },
    Program {
        name: "code",
        does: "96 KiB of code in a straight line, 200 times",
        code: straight,
        executes_data: true,
    },
];

/// Where a program is.
fn base(n: usize) -> u64 {
    BASE + n as u64 * DISTANCE
}

/// The program whose code is at an address.
pub(super) fn program_at(address: u64) -> Option<usize> {
    let data = DATA..DATA + u64::from(DATA_BYTES);
    (0..PROGRAMS.len()).find(|&n| {
        (base(n)..base(n + 1)).contains(&address)
            || PROGRAMS[n].executes_data && data.contains(&address)
    })
}

impl Program {
    /// Program number `n` as an ELF64 executable with one segment, readable and executable.
    pub(super) fn elf(&self, n: usize) -> Result<Vec<u8>, IcedError> {
        let base = base(n);
        let mut a = CodeAssembler::new(64)?;
        map_data(&mut a)?;
        (self.code)(&mut a)?;
        exit(&mut a)?;
        let code = a.assemble(base + HEADERS)?;
        let size = HEADERS + code.len() as u64;
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        // ET_EXEC, EM_X86_64, the version.
        elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        // The entry, the program headers, no sections.
        [base + HEADERS, 64, 0].iter().for_each(|quad| elf.extend(quad.to_le_bytes()));
        elf.extend([0; 4]);
        // Size of this header, of a program header, their number; no sections.
        [64_u16, 56, 1, 0, 0, 0].iter().for_each(|half| elf.extend(half.to_le_bytes()));
        // PT_LOAD, readable and executable.
        [1_u32, 5].iter().for_each(|word| elf.extend(word.to_le_bytes()));
        [0, base, base, size, size, 0x1000].iter().for_each(|quad| elf.extend(quad.to_le_bytes()));
        elf.extend(code);
        Ok(elf)
    }
}

/// Maps the data, in large pages or, if that is refused, in small ones, and keeps the exit status in R15.
fn map_data(a: &mut CodeAssembler) -> Result<(), IcedError> {
    const MMAP: u32 = 9;
    const READ_WRITE_EXECUTE: u32 = 7;
    const PRIVATE_ANONYMOUS_FIXED: u32 = 0x32;
    const HUGETLB: u32 = 0x4_0000;
    let mut mapped = a.create_label();
    for (flags, status) in [
        (PRIVATE_ANONYMOUS_FIXED | HUGETLB, IN_LARGE_PAGES),
        (PRIVATE_ANONYMOUS_FIXED, IN_SMALL_PAGES),
    ] {
        a.mov(eax, MMAP)?;
        a.mov(rdi, DATA)?;
        a.mov(esi, DATA_BYTES)?;
        a.mov(edx, READ_WRITE_EXECUTE)?;
        a.mov(r10d, flags)?;
        a.mov(r8, -1_i64)?;
        a.xor(r9d, r9d)?;
        a.syscall()?;
        a.mov(r15d, status)?;
        a.test(rax, rax)?;
        a.jns(mapped)?;
    }
    a.set_label(&mut mapped)?;
    a.mov(rbp, DATA)
}

fn exit(a: &mut CodeAssembler) -> Result<(), IcedError> {
    const EXIT: u32 = 60;
    a.mov(eax, EXIT)?;
    a.mov(edi, r15d)?;
    a.syscall()
}

/// The next number of a generator of 64 bits (G. Marsaglia, xorshift) is in RAX. Changes RDX.
fn random_number(a: &mut CodeAssembler) -> Result<(), IcedError> {
    for (left, bits) in [(true, 13), (false, 7), (true, 17)] {
        a.mov(rdx, rax)?;
        if left {
            a.shl(rdx, bits)?;
        } else {
            a.shr(rdx, bits)?;
        }
        a.xor(rax, rdx)?;
    }
    Ok(())
}

/// C = A B: for each row and column a sum of 128 products.
fn matrices(a: &mut CodeAssembler) -> Result<(), IcedError> {
    const N: u32 = 128;
    const ROW: i32 = 8 * N as i32;
    const MATRIX: i32 = ROW * N as i32;
    let (mut fill, mut row, mut column, mut product) =
        (a.create_label(), a.create_label(), a.create_label(), a.create_label());
    a.mov(rdi, rbp)?;
    a.mov(ecx, 2 * N * N)?;
    a.set_label(&mut fill)?;
    a.mov(qword_ptr(rdi), rcx)?;
    a.add(rdi, 8)?;
    a.dec(ecx)?;
    a.jnz(fill)?;
    a.mov(r8, rbp)?;
    a.lea(r11, qword_ptr(rbp + 2 * MATRIX))?;
    a.mov(r9d, N)?;
    a.set_label(&mut row)?;
    a.lea(r10, qword_ptr(rbp + MATRIX))?;
    a.mov(ebx, N)?;
    a.set_label(&mut column)?;
    a.mov(rsi, r8)?;
    a.mov(rdi, r10)?;
    a.xor(eax, eax)?;
    a.mov(ecx, N)?;
    a.set_label(&mut product)?;
    a.mov(rdx, qword_ptr(rsi))?;
    a.imul_2(rdx, qword_ptr(rdi))?;
    a.add(rax, rdx)?;
    a.add(rsi, 8)?;
    a.add(rdi, ROW)?;
    a.dec(ecx)?;
    a.jnz(product)?;
    a.mov(qword_ptr(r11), rax)?;
    a.add(r11, 8)?;
    a.add(r10, 8)?;
    a.dec(ebx)?;
    a.jnz(column)?;
    a.add(r8, ROW)?;
    a.dec(r9d)?;
    a.jnz(row)
}

/// Partition around the last one (N. Lomuto); what is left to sort is on the stack. At the end it is looked
/// at: what is not in order makes the exit status 1.
fn quicksort(a: &mut CodeAssembler) -> Result<(), IcedError> {
    const N: u32 = 262_144;
    let mut labels: Vec<_> = (0..7).map(|_| a.create_label()).collect();
    let [fill, next, scan, stays, sorted, look, good] = &mut labels[..] else {
        unreachable!("seven labels")
    };
    a.mov(rax, 0x1234_5678_9ABC_DEF0_u64)?;
    a.mov(rdi, rbp)?;
    a.mov(ecx, N)?;
    a.set_label(fill)?;
    random_number(a)?;
    a.mov(dword_ptr(rdi), eax)?;
    a.add(rdi, 4)?;
    a.dec(ecx)?;
    a.jnz(*fill)?;
    // What is to be sorted: first and last; zero at the bottom.
    a.push(0)?;
    a.push(0)?;
    a.push(rbp)?;
    a.lea(rax, qword_ptr(rbp + 4 * (N as i32 - 1)))?;
    a.push(rax)?;
    a.set_label(next)?;
    a.pop(r9)?;
    a.pop(r8)?;
    a.test(r8, r8)?;
    a.jz(*sorted)?;
    a.cmp(r8, r9)?;
    a.jae(*next)?;
    a.mov(ebx, dword_ptr(r9))?;
    a.mov(rdi, r8)?;
    a.mov(rsi, r8)?;
    a.set_label(scan)?;
    a.mov(eax, dword_ptr(rsi))?;
    a.cmp(eax, ebx)?;
    a.jae(*stays)?;
    a.mov(edx, dword_ptr(rdi))?;
    a.mov(dword_ptr(rdi), eax)?;
    a.mov(dword_ptr(rsi), edx)?;
    a.add(rdi, 4)?;
    a.set_label(stays)?;
    a.add(rsi, 4)?;
    a.cmp(rsi, r9)?;
    a.jb(*scan)?;
    a.mov(edx, dword_ptr(rdi))?;
    a.mov(dword_ptr(rdi), ebx)?;
    a.mov(dword_ptr(r9), edx)?;
    // The first part, then the second, which is sorted first.
    a.lea(rax, qword_ptr(rdi - 4))?;
    a.push(r8)?;
    a.push(rax)?;
    a.lea(rax, qword_ptr(rdi + 4))?;
    a.push(rax)?;
    a.push(r9)?;
    a.jmp(*next)?;
    a.set_label(sorted)?;
    a.mov(ecx, N - 1)?;
    a.mov(rdi, rbp)?;
    a.set_label(look)?;
    a.mov(eax, dword_ptr(rdi))?;
    a.cmp(eax, dword_ptr(rdi + 4))?;
    a.jbe(*good)?;
    a.mov(r15d, 1)?;
    a.set_label(good)?;
    a.add(rdi, 4)?;
    a.dec(ecx)?;
    a.jnz(*look)
}

/// A table of 32,768 places of 16 bytes; a key that finds its place taken goes to the next one.
fn join(a: &mut CodeAssembler) -> Result<(), IcedError> {
    const KEYS: u32 = 16384;
    const LOOKED_UP: u32 = 262_144;
    const MASK: i32 = 32767;
    const SEED: u64 = 0x1234_5678_9ABC_DEF0;
    let mut labels: Vec<_> = (0..8).map(|_| a.create_label()).collect();
    let [insert, occupied, free, again, probe, further, found, absent] = &mut labels[..] else {
        unreachable!("eight labels")
    };
    // The place of RAX is in RDI.
    let place = |a: &mut CodeAssembler| -> Result<(), IcedError> {
        a.mov(edi, eax)?;
        a.shr(edi, 7)?;
        a.and(edi, MASK)?;
        a.shl(edi, 4)
    };
    a.mov(rax, SEED)?;
    a.mov(ecx, KEYS)?;
    a.set_label(insert)?;
    random_number(a)?;
    place(a)?;
    a.set_label(occupied)?;
    a.mov(rdx, qword_ptr(rbp + rdi))?;
    a.test(rdx, rdx)?;
    a.jz(*free)?;
    a.add(edi, 16)?;
    a.and(edi, (MASK << 4) | 15)?;
    a.jmp(*occupied)?;
    a.set_label(free)?;
    a.mov(qword_ptr(rbp + rdi), rax)?;
    a.mov(qword_ptr(rbp + rdi + 8), rcx)?;
    a.dec(ecx)?;
    a.jnz(*insert)?;
    // The same keys, and as many others, from the beginning again and again.
    a.mov(ecx, LOOKED_UP)?;
    a.xor(ebx, ebx)?;
    a.set_label(again)?;
    a.test(ecx, 2 * KEYS as i32 - 1)?;
    a.jnz(*probe)?;
    a.mov(rax, SEED)?;
    a.set_label(probe)?;
    random_number(a)?;
    place(a)?;
    a.set_label(further)?;
    a.mov(rdx, qword_ptr(rbp + rdi))?;
    a.cmp(rdx, rax)?;
    a.je(*found)?;
    a.test(rdx, rdx)?;
    a.jz(*absent)?;
    a.add(edi, 16)?;
    a.and(edi, (MASK << 4) | 15)?;
    a.jmp(*further)?;
    a.set_label(found)?;
    a.add(rbx, qword_ptr(rbp + rdi + 8))?;
    a.set_label(absent)?;
    a.zero_bytes()?;
    a.dec(ecx)?;
    a.jnz(*again)
}

/// Instructions of 2, 3 and 5 bytes, copied to where the data is, so that they are in large pages.
fn straight(a: &mut CodeAssembler) -> Result<(), IcedError> {
    const BYTES: u32 = 96 << 10;
    const ROUNDS: u32 = 200;
    let mut body = CodeAssembler::new(64)?;
    // 13 bytes, of which no power of two is a multiple: lines begin anywhere in an instruction.
    for n in 0..BYTES / 13 {
        body.add(eax, 0x1000_0000 + n as i32)?;
        body.xor(edx, eax)?;
        body.rol(edx, 5)?;
        body.lea(rbx, qword_ptr(rdx))?;
    }
    body.ret()?;
    let body = body.assemble(DATA)?;
    let mut labels: Vec<_> = (0..4).map(|_| a.create_label()).collect();
    let [code, over, copy, next] = &mut labels[..] else { unreachable!("four labels") };
    a.jmp(*over)?;
    a.set_label(code)?;
    a.db(&body)?;
    a.set_label(over)?;
    a.lea(rsi, qword_ptr(*code))?;
    a.mov(rdi, rbp)?;
    a.mov(ecx, body.len() as u32)?;
    a.set_label(copy)?;
    a.mov(al, byte_ptr(rsi))?;
    a.mov(byte_ptr(rdi), al)?;
    a.inc(rsi)?;
    a.inc(rdi)?;
    a.dec(ecx)?;
    a.jnz(*copy)?;
    a.mov(r12d, ROUNDS)?;
    a.set_label(next)?;
    a.call(rbp)?;
    a.dec(r12d)?;
    a.jnz(*next)
}
