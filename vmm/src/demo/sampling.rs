//! A profiler of a few hundred instructions: four functions at CPL 3, sampled by PMI.
//!
//! PerfEvtSel0 counts RETIRED_INSTRUCTIONS at CPL 3 and interrupts through LVTPC each time that a
//! prime number of them has retired. The handler notes the interrupted RIP. When the functions are
//! done, the program sorts the samples by function and prints the table.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeLabel, al, byte_ptr, dil, dword_ptr, eax, ebx, ecx, edx, esi, qword_ptr, r8, r9, r10, r12,
    r12d, rax, rbx, rcx, rdi, rdx, rsi, rsp,
};

use super::console::Console;
use super::program::{DATA, Image, Program};

/// Instructions from sample to sample. Prime, so that no loop is hit at the same place again and
/// again.
const PERIOD: u64 = 10_007;
/// How often the functions run.
const ROUNDS: u32 = 600;
/// Quadwords in the array that the functions work on.
const ELEMENTS: u32 = 1000;
/// The Collatz sequences from 1 + this down to 2 are followed in each round.
const SEQUENCES: u32 = 60;

const PERF_EVT_SEL0: u32 = 0xC001_0000;
const PERF_CTR0: u32 = 0xC001_0004;
const CPU_CLK_UNHALTED: u64 = 0x76;
const RETIRED_INSTRUCTIONS: u64 = 0xC0;
const RETIRED_BRANCH_INSTRUCTIONS: u64 = 0xC2;
const USR: u64 = 1 << 16;
const INT: u64 = 1 << 20;
const EN: u64 = 1 << 22;

const LVTPC: i32 = 0x340;
const EOI: i32 = 0xB0;
const PMI_VECTOR: u8 = 0x40;
/// INT 80h ends the measured program.
const DONE_VECTOR: u8 = 0x80;
/// RFLAGS.IF and the bit that is always one.
const INTERRUPTS_ENABLED: i32 = 0x202;

/// Samples taken.
const COUNT: u64 = DATA;
/// Cycles, instructions and branches at the end.
const TOTALS: u64 = DATA + 8;
/// One entry a function: start, end, name, length of the name, samples.
const TABLE: u64 = DATA + 0x100;
const ENTRY: i32 = 40;
const ENTRY_END: i32 = 8;
const ENTRY_NAME: i32 = 16;
const ENTRY_LENGTH: i32 = 24;
const ENTRY_SAMPLES: i32 = 32;
/// RIPs of the samples, and how many there is room for.
const SAMPLES: u64 = 0x20_0000;
const SAMPLES_MAX: i32 = 0x1_0000;
/// The array.
const ARRAY: u64 = 0x40_0000;

/// A function of the measured program.
struct Function {
    name: &'static str,
    start: CodeLabel,
    end: CodeLabel,
}

/// The sampling demo.
///
/// # Errors
/// If an instruction cannot be encoded.
pub fn sampling() -> Result<Image, IcedError> {
    let mut p = Program::new()?;
    let console = Console::new(&mut p)?;

    let mut over = p.create_label();
    p.jmp(over)?;
    let (program, functions) = workload(&mut p)?;
    let handler = handler(&mut p)?;
    p.gate(PMI_VECTOR, handler, 0, 0);
    p.place(&mut over)?;

    write_table(&mut p, &functions)?;
    p.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
    for (counter, event, preset) in [
        (0, RETIRED_INSTRUCTIONS | INT, PERIOD.wrapping_neg()),
        (1, CPU_CLK_UNHALTED, 0),
        (2, RETIRED_INSTRUCTIONS, 0),
        (3, RETIRED_BRANCH_INSTRUCTIONS, 0),
    ] {
        p.write_msr(PERF_CTR0 + counter, preset)?;
        p.write_msr(PERF_EVT_SEL0 + counter, event | USR | EN)?;
    }
    p.enter_user(program, INTERRUPTS_ENABLED)?;

    let done = p.here()?;
    p.gate(DONE_VECTOR, done, 0, 3);
    for counter in 0..4 {
        p.write_msr(PERF_EVT_SEL0 + counter, 0)?;
    }
    resolve(&mut p, functions.len() as u32)?;
    print(&mut p, &console, functions.len() as u32)?;
    console.power_off(&mut p)?;
    p.finish()
}

/// What is measured. The array is filled, sorted a little and summed; in between some Collatz
/// sequences are followed.
fn workload(p: &mut Program) -> Result<(CodeLabel, Vec<Function>), IcedError> {
    let fill = p.here()?;
    p.mov(rdi, ARRAY)?;
    p.mov(ecx, ELEMENTS)?;
    let next = p.here()?;
    p.mov(qword_ptr(rdi + rcx * 8 - 8), rax)?;
    p.rol(rax, 11)?;
    p.add(rax, rcx)?;
    p.dec(rcx)?;
    p.jnz(next)?;
    p.ret()?;

    let checksum = p.here()?;
    p.mov(rsi, ARRAY)?;
    p.mov(ecx, ELEMENTS)?;
    let next = p.here()?;
    p.rol(rax, 7)?;
    p.xor(rax, qword_ptr(rsi + rcx * 8 - 8))?;
    p.dec(rcx)?;
    p.jnz(next)?;
    p.ret()?;

    let sort_pass = p.here()?;
    p.mov(rsi, ARRAY)?;
    p.mov(ecx, ELEMENTS - 1)?;
    let next = p.here()?;
    p.mov(rbx, qword_ptr(rsi))?;
    p.mov(rdx, qword_ptr(rsi + 8))?;
    p.cmp(rbx, rdx)?;
    let mut in_order = p.create_label();
    p.jbe(in_order)?;
    p.mov(qword_ptr(rsi), rdx)?;
    p.mov(qword_ptr(rsi + 8), rbx)?;
    p.place(&mut in_order)?;
    p.add(rsi, 8)?;
    p.dec(rcx)?;
    p.jnz(next)?;
    p.ret()?;

    let collatz = p.here()?;
    let next = p.here()?;
    p.test(dil, 1)?;
    let (mut even, mut step) = (p.create_label(), p.create_label());
    p.jz(even)?;
    p.lea(rdi, qword_ptr(rdi + rdi * 2 + 1))?;
    p.jmp(step)?;
    p.place(&mut even)?;
    p.shr(rdi, 1)?;
    p.place(&mut step)?;
    p.inc(rax)?;
    p.cmp(rdi, 1)?;
    p.jne(next)?;
    p.ret()?;

    let main = p.here()?;
    p.xor(eax, eax)?;
    p.mov(r12d, ROUNDS)?;
    let round = p.here()?;
    p.call(fill)?;
    p.call(sort_pass)?;
    p.call(checksum)?;
    p.mov(ebx, SEQUENCES)?;
    let sequence = p.here()?;
    p.lea(rdi, qword_ptr(rbx + 1))?;
    p.call(collatz)?;
    p.dec(rbx)?;
    p.jnz(sequence)?;
    p.dec(r12)?;
    p.jnz(round)?;
    for counter in 1..4_u32 {
        p.mov(ecx, counter)?;
        p.rdpmc()?;
        p.shl(rdx, 32)?;
        p.or(rax, rdx)?;
        p.mov(qword_ptr(TOTALS + 8 * u64::from(counter - 1)), rax)?;
    }
    p.int(i32::from(DONE_VECTOR))?;
    let end = p.here()?;

    let function = |name, start, end| Function { name, start, end };
    let functions = vec![
        function("fill", fill, checksum),
        function("checksum", checksum, sort_pass),
        function("sort_pass", sort_pass, collatz),
        function("collatz", collatz, main),
        function("main", main, end),
    ];
    Ok((main, functions))
}

/// The interrupt handler: arms the counter again and notes the interrupted RIP.
fn handler(p: &mut Program) -> Result<CodeLabel, IcedError> {
    let entry = p.here()?;
    for register in [rax, rcx, rdx, rdi] {
        p.push(register)?;
    }
    p.write_msr(PERF_CTR0, PERIOD.wrapping_neg())?;
    p.mov(rax, qword_ptr(COUNT))?;
    p.cmp(rax, SAMPLES_MAX)?;
    let mut full = p.create_label();
    p.jae(full)?;
    // Behind the four registers: RIP, CS, RFLAGS, RSP, SS.
    p.mov(rcx, qword_ptr(rsp + 32))?;
    p.mov(rdx, SAMPLES)?;
    p.mov(qword_ptr(rdx + rax * 8), rcx)?;
    p.inc(rax)?;
    p.mov(qword_ptr(COUNT), rax)?;
    p.place(&mut full)?;
    p.write_lapic(EOI, 0)?;
    for register in [rdi, rdx, rcx, rax] {
        p.pop(register)?;
    }
    p.iretq()?;
    Ok(entry)
}

/// Fills [`TABLE`] but for the samples.
fn write_table(p: &mut Program, functions: &[Function]) -> Result<(), IcedError> {
    for (index, function) in functions.iter().enumerate() {
        let name = p.constant(function.name.as_bytes());
        p.mov(rbx, TABLE + ENTRY as u64 * index as u64)?;
        p.lea(rax, byte_ptr(function.start))?;
        p.mov(qword_ptr(rbx), rax)?;
        p.lea(rax, byte_ptr(function.end))?;
        p.mov(qword_ptr(rbx + ENTRY_END), rax)?;
        p.lea(rax, byte_ptr(name))?;
        p.mov(qword_ptr(rbx + ENTRY_NAME), rax)?;
        p.mov(dword_ptr(rbx + ENTRY_LENGTH), function.name.len() as u32)?;
    }
    Ok(())
}

/// Counts the samples of each function.
fn resolve(p: &mut Program, functions: u32) -> Result<(), IcedError> {
    let (mut done, mut found) = (p.create_label(), p.create_label());
    p.xor(esi, esi)?;
    let sample = p.here()?;
    p.cmp(rsi, qword_ptr(COUNT))?;
    p.jae(done)?;
    p.mov(rdx, SAMPLES)?;
    p.mov(rax, qword_ptr(rdx + rsi * 8))?;
    p.inc(rsi)?;
    p.mov(rbx, TABLE)?;
    p.mov(ecx, functions)?;
    let entry = p.here()?;
    p.cmp(rax, qword_ptr(rbx))?;
    let mut other = p.create_label();
    p.jb(other)?;
    p.cmp(rax, qword_ptr(rbx + ENTRY_END))?;
    p.jb(found)?;
    p.place(&mut other)?;
    p.add(rbx, ENTRY)?;
    p.dec(ecx)?;
    p.jnz(entry)?;
    p.jmp(sample)?;
    p.place(&mut found)?;
    p.inc(qword_ptr(rbx + ENTRY_SAMPLES))?;
    p.jmp(sample)?;
    p.place(&mut done)
}

/// Prints the table, the function with the most samples first, and the totals.
fn print(p: &mut Program, console: &Console, functions: u32) -> Result<(), IcedError> {
    console.text(p, "# Samples: ")?;
    p.mov(rax, qword_ptr(COUNT))?;
    console.decimal(p, 0)?;
    console.text(p, " of event 'RETIRED_INSTRUCTIONS:u', one every ")?;
    p.mov(eax, PERIOD as u32)?;
    console.decimal(p, 0)?;
    console.text(p, "\n#\n# Overhead   Samples  Symbol\n# ........  ........  ......\n")?;

    let mut totals = p.create_label();
    let line = p.here()?;
    // R8: most samples of the entries not yet printed; R9: the entry.
    p.xor(eax, eax)?;
    p.mov(r8, rax)?;
    p.mov(rbx, TABLE)?;
    p.mov(ecx, functions)?;
    let entry = p.here()?;
    let mut fewer = p.create_label();
    p.cmp(qword_ptr(rbx + ENTRY_SAMPLES), r8)?;
    p.jbe(fewer)?;
    p.mov(r8, qword_ptr(rbx + ENTRY_SAMPLES))?;
    p.mov(r9, rbx)?;
    p.place(&mut fewer)?;
    p.add(rbx, ENTRY)?;
    p.dec(ecx)?;
    p.jnz(entry)?;
    p.test(r8, r8)?;
    p.jz(totals)?;
    p.mov(qword_ptr(r9 + ENTRY_SAMPLES), 0)?;

    // Hundredths of a per cent.
    p.imul_3(rax, r8, 10_000)?;
    p.xor(edx, edx)?;
    p.div(qword_ptr(COUNT))?;
    p.xor(edx, edx)?;
    p.mov(ecx, 100)?;
    p.div(rcx)?;
    p.mov(r10, rdx)?;
    console.decimal(p, 6)?;
    p.mov(al, u32::from(b'.'))?;
    console.character(p)?;
    p.mov(rax, r10)?;
    p.xor(edx, edx)?;
    p.mov(ecx, 10)?;
    p.div(rcx)?;
    p.mov(r10, rdx)?;
    console.decimal(p, 1)?;
    p.mov(rax, r10)?;
    console.decimal(p, 1)?;
    console.text(p, "%")?;
    p.mov(rax, r8)?;
    console.decimal(p, 10)?;
    console.text(p, "  ")?;
    p.mov(rsi, qword_ptr(r9 + ENTRY_NAME))?;
    p.mov(ecx, dword_ptr(r9 + ENTRY_LENGTH))?;
    console.bytes(p)?;
    console.text(p, "\n")?;
    p.jmp(line)?;

    p.place(&mut totals)?;
    console.text(p, "#\n# Counted with RDPMC at CPL 3:")?;
    for (index, what) in [" cycles,", " instructions,", " branches\n"].into_iter().enumerate() {
        console.text(p, " ")?;
        p.mov(rax, qword_ptr(TOTALS + 8 * index as u64))?;
        console.decimal(p, 0)?;
        console.text(p, what)?;
    }
    Ok(())
}
