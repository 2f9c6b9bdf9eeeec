//! The programs: 32-bit code that every part executes. Each finds the address of its data in ESI and EDI, and
//! may change all registers but ESP.

use guest_tests::{Guest, Result};
use iced_x86::code_asm::{
    al, bl, byte_ptr, cl, dl, dword_ptr, eax, ebp, ebx, ecx, edi, edx, esi, esp, qword_ptr, st0,
    st1,
};

/// A program.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) body: fn(&mut Guest) -> Result,
}

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "matrices",
        about: "product of two matrices of 24 by 24 doubles, x87",
        body: matrices,
    },
    Program { name: "quicksort", about: "quicksort of 1024 random words", body: quicksort },
    Program { name: "join", about: "join of 1024 rows by a hash table with chains", body: join },
    Program {
        name: "compressor",
        about: "compressor of 8 KiB that looks for the last occurrence of four bytes",
        body: compressor,
    },
    Program { name: "records", about: "records, strings and calls, like Dhrystone", body: records },
    Program {
        name: "list and CRC",
        about: "a list, a CRC and a machine of states, like CoreMark",
        body: list_and_crc,
    },
];

/// EAX = EAX * 1103515245 + 12345, of which ANSI C has the constants.
fn random(g: &mut Guest) -> Result {
    g.imul_3(eax, eax, 1_103_515_245)?;
    g.add(eax, 12345)
}

/// A at [ESI], B behind it, and C behind that.
fn matrices(g: &mut Guest) -> Result {
    const N: i32 = 24;
    const BYTES: i32 = N * N * 8;
    g.fninit()?;
    // Both are filled with numbers from 1 on.
    g.mov(ecx, 2 * N * N)?;
    g.mov(edi, esi)?;
    g.fld1()?;
    g.fld1()?;
    let fill = g.here()?;
    g.fst(qword_ptr(edi))?;
    g.fadd_2(st0, st1)?;
    g.add(edi, 8)?;
    g.dec(ecx)?;
    g.jnz(fill)?;
    g.fstp(st0)?;
    g.fstp(st0)?;
    // EDI is C now; EBX the row of A, EBP the column of B.
    g.mov(ebx, esi)?;
    g.mov(eax, N)?;
    let row = g.here()?;
    g.lea(ebp, dword_ptr(esi + BYTES))?;
    g.mov(edx, N)?;
    let column = g.here()?;
    g.fldz()?;
    g.mov(ecx, N)?;
    let product = g.here()?;
    g.fld(qword_ptr(ebx))?;
    g.fmul(qword_ptr(ebp))?;
    g.faddp(st1, st0)?;
    g.add(ebx, 8)?;
    g.add(ebp, N * 8)?;
    g.dec(ecx)?;
    g.jnz(product)?;
    g.fstp(qword_ptr(edi))?;
    g.add(edi, 8)?;
    g.sub(ebx, N * 8)?;
    g.sub(ebp, BYTES - 8)?;
    g.dec(edx)?;
    g.jnz(column)?;
    g.add(ebx, N * 8)?;
    g.dec(eax)?;
    g.jnz(row)
}

/// By Hoare's partition; the limits of what is left are on the stack.
fn quicksort(g: &mut Guest) -> Result {
    const WORDS: i32 = 1024;
    g.mov(ecx, WORDS)?;
    g.mov(eax, 1)?;
    let fill = g.here()?;
    random(g)?;
    g.mov(dword_ptr(edi), eax)?;
    g.add(edi, 4)?;
    g.dec(ecx)?;
    g.jnz(fill)?;
    // From the first to the last, in ESI and EDI.
    g.sub(edi, 4)?;
    let (mut sort, mut small, mut over) = (g.create_label(), g.create_label(), g.create_label());
    g.call(sort)?;
    g.jmp(over)?;
    g.place(&mut sort)?;
    g.cmp(esi, edi)?;
    g.jae(small)?;
    g.mov(eax, dword_ptr(esi))?;
    g.lea(ebx, dword_ptr(esi - 4))?;
    g.lea(edx, dword_ptr(edi + 4))?;
    let (mut done, mut partition) = (g.create_label(), g.create_label());
    g.place(&mut partition)?;
    let up = g.here()?;
    g.add(ebx, 4)?;
    g.cmp(dword_ptr(ebx), eax)?;
    g.jl(up)?;
    let down = g.here()?;
    g.sub(edx, 4)?;
    g.cmp(dword_ptr(edx), eax)?;
    g.jg(down)?;
    g.cmp(ebx, edx)?;
    g.jae(done)?;
    g.mov(ecx, dword_ptr(ebx))?;
    g.mov(ebp, dword_ptr(edx))?;
    g.mov(dword_ptr(ebx), ebp)?;
    g.mov(dword_ptr(edx), ecx)?;
    g.jmp(partition)?;
    g.place(&mut done)?;
    g.push(edi)?;
    g.push(edx)?;
    g.mov(edi, edx)?;
    g.call(sort)?;
    g.pop(esi)?;
    g.pop(edi)?;
    g.add(esi, 4)?;
    g.call(sort)?;
    g.place(&mut small)?;
    g.ret()?;
    g.place(&mut over)?;
    g.nop()
}

/// 256 heads at [ESI], rows of key, value and next behind them. As many keys are looked for as there are.
fn join(g: &mut Guest) -> Result {
    const ROWS: i32 = 1024;
    const HEADS: i32 = 256;
    g.mov(ecx, HEADS)?;
    let clear = g.here()?;
    g.mov(dword_ptr(edi), 0)?;
    g.add(edi, 4)?;
    g.dec(ecx)?;
    g.jnz(clear)?;
    g.mov(eax, 7)?;
    g.mov(ecx, ROWS)?;
    let build = g.here()?;
    random(g)?;
    g.mov(ebx, eax)?;
    g.shr(ebx, 16)?;
    g.mov(dword_ptr(edi), ebx)?;
    g.mov(dword_ptr(edi + 4), ecx)?;
    g.and(ebx, HEADS - 1)?;
    g.mov(edx, dword_ptr(esi + ebx * 4))?;
    g.mov(dword_ptr(edi + 8), edx)?;
    g.mov(dword_ptr(esi + ebx * 4), edi)?;
    g.add(edi, 12)?;
    g.dec(ecx)?;
    g.jnz(build)?;
    g.mov(eax, 7)?;
    g.mov(ecx, ROWS)?;
    g.xor(ebp, ebp)?;
    let probe = g.here()?;
    random(g)?;
    g.mov(ebx, eax)?;
    g.shr(ebx, 16)?;
    g.mov(edx, ebx)?;
    g.and(edx, HEADS - 1)?;
    g.mov(edx, dword_ptr(esi + edx * 4))?;
    let (mut chain, mut found) = (g.create_label(), g.create_label());
    g.place(&mut chain)?;
    g.cmp(dword_ptr(edx), ebx)?;
    g.je(found)?;
    g.mov(edx, dword_ptr(edx + 8))?;
    g.jmp(chain)?;
    g.place(&mut found)?;
    g.add(ebp, dword_ptr(edx + 4))?;
    g.dec(ecx)?;
    g.jnz(probe)
}

/// The text at [ESI] has 8 letters by chance; the last places of 512 hashes are behind it, and the output.
fn compressor(g: &mut Guest) -> Result {
    const TEXT: i32 = 8192;
    const PLACES: i32 = TEXT + 16;
    g.mov(ecx, TEXT + 16)?;
    g.mov(eax, 3)?;
    let fill = g.here()?;
    random(g)?;
    g.mov(ebx, eax)?;
    g.shr(ebx, 27)?;
    g.and(ebx, 7)?;
    g.mov(byte_ptr(edi), bl)?;
    g.inc(edi)?;
    g.dec(ecx)?;
    g.jnz(fill)?;
    g.mov(ecx, 512)?;
    let clear = g.here()?;
    g.mov(dword_ptr(edi), esi)?;
    g.add(edi, 4)?;
    g.dec(ecx)?;
    g.jnz(clear)?;
    g.mov(ebx, esi)?;
    g.lea(ebp, dword_ptr(esi + TEXT))?;
    let (mut literal, mut next) = (g.create_label(), g.create_label());
    // EBX is the place, ESI the text, EDI the output.
    let place = g.here()?;
    g.mov(eax, dword_ptr(ebx))?;
    g.imul_3(edx, eax, 0x9E37_79B1_u32 as i32)?;
    g.shr(edx, 23)?;
    g.mov(ecx, dword_ptr(esi + edx * 4 + PLACES))?;
    g.mov(dword_ptr(esi + edx * 4 + PLACES), ebx)?;
    g.cmp(dword_ptr(ecx), eax)?;
    g.jne(literal)?;
    g.sub(ecx, ebx)?;
    g.mov(dword_ptr(edi), ecx)?;
    g.add(edi, 4)?;
    g.add(ebx, 4)?;
    g.jmp(next)?;
    g.place(&mut literal)?;
    g.mov(byte_ptr(edi), al)?;
    g.inc(edi)?;
    g.inc(ebx)?;
    g.place(&mut next)?;
    g.cmp(ebx, ebp)?;
    g.jb(place)
}

/// Copies a record of 12 words by fields, compares two strings of 30 letters, computes and calls, 400 times.
fn records(g: &mut Guest) -> Result {
    const ROUNDS: i32 = 400;
    let (mut over, mut compare, mut compute) =
        (g.create_label(), g.create_label(), g.create_label());
    g.mov(ecx, 64)?;
    let fill = g.here()?;
    g.mov(dword_ptr(edi), 0x4142_4344)?;
    g.add(edi, 4)?;
    g.dec(ecx)?;
    g.jnz(fill)?;
    g.mov(ebp, ROUNDS)?;
    let round = g.here()?;
    for n in 0..12 {
        g.mov(eax, dword_ptr(esi + 4 * n))?;
        g.mov(dword_ptr(esi + 128 + 4 * n), eax)?;
    }
    g.push(esi)?;
    g.call(compare)?;
    g.pop(esi)?;
    g.push(3)?;
    g.push(ebp)?;
    g.call(compute)?;
    g.add(esp, 8)?;
    g.mov(dword_ptr(esi + 200), eax)?;
    g.dec(ebp)?;
    g.jnz(round)?;
    g.jmp(over)?;
    // 30 letters at ESI and ESI + 128.
    g.place(&mut compare)?;
    g.mov(ecx, 30)?;
    let mut differs = g.create_label();
    let letter = g.here()?;
    g.mov(al, byte_ptr(esi))?;
    g.cmp(al, byte_ptr(esi + 128))?;
    g.jne(differs)?;
    g.inc(esi)?;
    g.dec(ecx)?;
    g.jnz(letter)?;
    g.place(&mut differs)?;
    g.ret()?;
    // Of two arguments.
    g.place(&mut compute)?;
    g.push(ebx)?;
    g.mov(eax, dword_ptr(esp + 8))?;
    g.mov(ebx, dword_ptr(esp + 12))?;
    g.imul_2(eax, ebx)?;
    g.add(eax, 7)?;
    let mut odd = g.create_label();
    g.test(eax, 1)?;
    g.jnz(odd)?;
    g.sub(eax, ebx)?;
    g.place(&mut odd)?;
    g.pop(ebx)?;
    g.ret()?;
    g.place(&mut over)?;
    g.nop()
}

/// A list of 256 elements, a CRC-16 of 512 bytes, and 2048 letters by states.
fn list_and_crc(g: &mut Guest) -> Result {
    // Each element has the next one's address, 7 elements on, and a number.
    g.mov(ecx, 256)?;
    g.xor(ebx, ebx)?;
    let link = g.here()?;
    g.lea(edx, dword_ptr(ebx + 7))?;
    g.and(edx, 255)?;
    g.lea(eax, dword_ptr(esi + edx * 8))?;
    g.mov(dword_ptr(esi + ebx * 8), eax)?;
    g.mov(dword_ptr(esi + ebx * 8 + 4), ecx)?;
    g.mov(ebx, edx)?;
    g.dec(ecx)?;
    g.jnz(link)?;
    g.mov(edx, esi)?;
    g.mov(ecx, 1024)?;
    g.xor(eax, eax)?;
    let follow = g.here()?;
    g.add(eax, dword_ptr(edx + 4))?;
    g.mov(edx, dword_ptr(edx))?;
    g.dec(ecx)?;
    g.jnz(follow)?;
    // The polynomial of CRC-16, a bit at a time.
    g.mov(edi, esi)?;
    g.mov(ebp, 512)?;
    g.xor(eax, eax)?;
    let byte = g.here()?;
    g.xor(al, byte_ptr(edi))?;
    g.mov(ecx, 8)?;
    let bit = g.here()?;
    let mut clear = g.create_label();
    g.shr(eax, 1)?;
    g.jnc(clear)?;
    g.xor(eax, 0xA001)?;
    g.place(&mut clear)?;
    g.dec(ecx)?;
    g.jnz(bit)?;
    g.inc(edi)?;
    g.dec(ebp)?;
    g.jnz(byte)?;
    // Letters, digits and others, of which runs are counted.
    g.mov(edi, esi)?;
    g.mov(ecx, 2048)?;
    g.xor(edx, edx)?;
    g.xor(ebx, ebx)?;
    let (mut other, mut digit, mut counted) =
        (g.create_label(), g.create_label(), g.create_label());
    let letter = g.here()?;
    g.mov(al, byte_ptr(edi))?;
    g.cmp(al, 0x40)?;
    g.ja(other)?;
    g.cmp(al, 0x10)?;
    g.ja(digit)?;
    g.mov(dl, 0)?;
    g.jmp(counted)?;
    g.place(&mut digit)?;
    g.mov(dl, 1)?;
    g.inc(ebx)?;
    g.jmp(counted)?;
    g.place(&mut other)?;
    g.mov(dl, 2)?;
    g.add(ebx, edx)?;
    g.place(&mut counted)?;
    g.inc(edi)?;
    g.dec(ecx)?;
    g.jnz(letter)?;
    g.mov(cl, bl)
}
