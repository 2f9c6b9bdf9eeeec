//! A profiler of a few hundred instructions: four functions at CPL 3, sampled by PMI.
//!
//! Counter 0 counts retired instructions at CPL 3 and interrupts through LVTPC each time that a
//! prime number of them has retired. The handler notes the interrupted EIP. When the functions are
//! done, the program sorts the samples by function and prints the table. A part without a
//! performance-monitoring interrupt runs the same functions and says why there is no table.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmRegister32, CodeLabel, al, dword_ptr, eax, ebp, ebx, ecx, edi, edx, esi, esp,
};

use super::console::Console;
use super::part::{PERIOD, Part, Write};
use crate::irq::lapic_registers::offset;
use crate::program::{DATA, Image, Program};

/// How often the functions run.
const ROUNDS: u32 = 600;
/// Words in the array that the functions work on.
const ELEMENTS: u32 = 1000;
/// The Collatz sequences from 1 + this down to 2 are followed in each round.
const SEQUENCES: u32 = 60;

const PMI_VECTOR: u8 = 0x40;
/// INT 80h ends the measured program.
const DONE_VECTOR: u8 = 0x80;
/// EFLAGS.IF and the bit that is always one.
const INTERRUPTS_ENABLED: i32 = 0x202;

/// Samples taken.
const COUNT: u32 = DATA;
/// The totals, eight bytes each.
const TOTALS: u32 = DATA + 8;
/// One entry a function: start, end, name, length of the name, samples.
const TABLE: u32 = DATA + 0x100;
const ENTRY: u32 = 20;
const ENTRY_END: i32 = 4;
const ENTRY_NAME: i32 = 8;
const ENTRY_LENGTH: i32 = 12;
const ENTRY_SAMPLES: i32 = 16;
/// EIPs of the samples, and how many there is room for.
const SAMPLES: u32 = 0x20_0000;
const SAMPLES_MAX: u32 = 0x1_0000;
/// The array.
const ARRAY: u32 = 0x40_0000;

/// Why a part without the interrupt takes no samples.
const NO_INTERRUPT: &str = "\
# No samples: this processor has no performance-monitoring interrupt. An overflow is seen on the pins
# PM0/BP0 and PM1/BP1 alone, for a logic analyser; the statistics of the run count their toggles.
";

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
pub fn sampling(part: &Part) -> Result<Image, IcedError> {
    let samples = !part.again.is_empty();
    let mut p = Program::new()?;
    let console = Console::new(&mut p)?;

    let mut over = p.create_label();
    p.jmp(over)?;
    let (program, functions) = workload(&mut p, part)?;
    if samples {
        let handler = handler(&mut p, part)?;
        p.gate(PMI_VECTOR, handler, 0);
    }
    p.place(&mut over)?;

    if samples {
        write_table(&mut p, &functions)?;
        p.write_lapic(offset::LVTPC as i32, u32::from(PMI_VECTOR))?;
    }
    write_msrs(&mut p, part.start)?;
    p.enter(3, program, INTERRUPTS_ENABLED)?;

    let done = p.here()?;
    p.gate(DONE_VECTOR, done, 3);
    write_msrs(&mut p, part.stop)?;
    if samples {
        resolve(&mut p, functions.len() as u32)?;
        print_table(&mut p, &console, part, functions.len() as u32)?;
    } else {
        console.text(&mut p, NO_INTERRUPT)?;
    }
    print_totals(&mut p, &console, part)?;
    console.power_off(&mut p)?;
    p.finish()
}

fn write_msrs(p: &mut Program, writes: &[Write]) -> Result<(), IcedError> {
    writes.iter().try_for_each(|&(index, value)| p.write_msr(index, value))
}

/// What is measured. The array is filled, sorted a little and summed; in between some Collatz
/// sequences are followed.
fn workload(p: &mut Program, part: &Part) -> Result<(CodeLabel, Vec<Function>), IcedError> {
    let fill = p.here()?;
    p.mov(edi, ARRAY)?;
    p.mov(ecx, ELEMENTS)?;
    let next = p.here()?;
    p.mov(dword_ptr(edi + ecx * 4 - 4), eax)?;
    p.rol(eax, 11)?;
    p.add(eax, ecx)?;
    p.dec(ecx)?;
    p.jnz(next)?;
    p.ret()?;

    let checksum = p.here()?;
    p.mov(esi, ARRAY)?;
    p.mov(ecx, ELEMENTS)?;
    let next = p.here()?;
    p.rol(eax, 7)?;
    p.xor(eax, dword_ptr(esi + ecx * 4 - 4))?;
    p.dec(ecx)?;
    p.jnz(next)?;
    p.ret()?;

    let sort_pass = p.here()?;
    p.mov(esi, ARRAY)?;
    p.mov(ecx, ELEMENTS - 1)?;
    let next = p.here()?;
    p.mov(ebx, dword_ptr(esi))?;
    p.mov(edx, dword_ptr(esi + 4))?;
    p.cmp(ebx, edx)?;
    let mut in_order = p.create_label();
    p.jbe(in_order)?;
    p.mov(dword_ptr(esi), edx)?;
    p.mov(dword_ptr(esi + 4), ebx)?;
    p.place(&mut in_order)?;
    p.add(esi, 4)?;
    p.dec(ecx)?;
    p.jnz(next)?;
    p.ret()?;

    let collatz = p.here()?;
    let next = p.here()?;
    p.test(edi, 1)?;
    let (mut even, mut step) = (p.create_label(), p.create_label());
    p.jz(even)?;
    p.lea(edi, dword_ptr(edi + edi * 2 + 1))?;
    p.jmp(step)?;
    p.place(&mut even)?;
    p.shr(edi, 1)?;
    p.place(&mut step)?;
    p.inc(eax)?;
    p.cmp(edi, 1)?;
    p.jne(next)?;
    p.ret()?;

    let main = p.here()?;
    p.xor(eax, eax)?;
    p.mov(ebp, ROUNDS)?;
    let round = p.here()?;
    p.call(fill)?;
    p.call(sort_pass)?;
    p.call(checksum)?;
    p.mov(ebx, SEQUENCES)?;
    let sequence = p.here()?;
    p.lea(edi, dword_ptr(ebx + 1))?;
    p.call(collatz)?;
    p.dec(ebx)?;
    p.jnz(sequence)?;
    p.dec(ebp)?;
    p.jnz(round)?;
    for (place, &(counter, _, _)) in (TOTALS..).step_by(8).zip(part.totals) {
        p.mov(ecx, counter)?;
        p.rdpmc()?;
        p.mov(dword_ptr(place), eax)?;
        p.mov(dword_ptr(place + 4), edx)?;
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

/// The interrupt handler: arms the counter again and notes the interrupted EIP. It opens LVTPC,
/// which some parts mask when they deliver.
fn handler(p: &mut Program, part: &Part) -> Result<CodeLabel, IcedError> {
    let registers = [eax, ecx, edx, edi];
    let entry = p.here()?;
    for register in registers {
        p.push(register)?;
    }
    write_msrs(p, part.again)?;
    p.mov(eax, dword_ptr(COUNT))?;
    p.cmp(eax, SAMPLES_MAX as i32)?;
    let mut full = p.create_label();
    p.jae(full)?;
    // Behind the four registers: EIP, CS, EFLAGS, ESP, SS.
    p.mov(ecx, dword_ptr(esp + 16))?;
    p.mov(dword_ptr(eax * 4 + SAMPLES), ecx)?;
    p.inc(eax)?;
    p.mov(dword_ptr(COUNT), eax)?;
    p.place(&mut full)?;
    p.write_lapic(offset::LVTPC as i32, u32::from(PMI_VECTOR))?;
    p.write_lapic(offset::EOI as i32, 0)?;
    for register in registers.into_iter().rev() {
        p.pop(register)?;
    }
    p.iretd()?;
    Ok(entry)
}

/// Fills [`TABLE`] but for the samples.
fn write_table(p: &mut Program, functions: &[Function]) -> Result<(), IcedError> {
    for (entry, function) in (TABLE..).step_by(ENTRY as usize).zip(functions) {
        let name = p.constant(function.name.as_bytes());
        p.mov(ebx, entry)?;
        p.store_address(dword_ptr(ebx), function.start)?;
        p.store_address(dword_ptr(ebx + ENTRY_END), function.end)?;
        p.store_address(dword_ptr(ebx + ENTRY_NAME), name)?;
        p.mov(dword_ptr(ebx + ENTRY_LENGTH), function.name.len() as u32)?;
    }
    Ok(())
}

/// Counts the samples of each function.
fn resolve(p: &mut Program, functions: u32) -> Result<(), IcedError> {
    let (mut done, mut found) = (p.create_label(), p.create_label());
    p.xor(esi, esi)?;
    let sample = p.here()?;
    p.cmp(esi, dword_ptr(COUNT))?;
    p.jae(done)?;
    p.mov(eax, dword_ptr(esi * 4 + SAMPLES))?;
    p.inc(esi)?;
    p.mov(ebx, TABLE)?;
    p.mov(ecx, functions)?;
    let entry = p.here()?;
    p.cmp(eax, dword_ptr(ebx))?;
    let mut other = p.create_label();
    p.jb(other)?;
    p.cmp(eax, dword_ptr(ebx + ENTRY_END))?;
    p.jb(found)?;
    p.place(&mut other)?;
    p.add(ebx, ENTRY as i32)?;
    p.dec(ecx)?;
    p.jnz(entry)?;
    p.jmp(sample)?;
    p.place(&mut found)?;
    p.inc(dword_ptr(ebx + ENTRY_SAMPLES))?;
    p.jmp(sample)?;
    p.place(&mut done)
}

/// A register in decimal. Changes EAX and EDX.
fn decimal(
    p: &mut Program,
    console: &Console,
    register: AsmRegister32,
    width: u32,
) -> Result<(), IcedError> {
    p.mov(eax, register)?;
    p.xor(edx, edx)?;
    console.decimal(p, width)
}

/// Prints the table, the function with the most samples first.
fn print_table(
    p: &mut Program,
    console: &Console,
    part: &Part,
    functions: u32,
) -> Result<(), IcedError> {
    console.text(p, "# Samples: ")?;
    p.mov(esi, dword_ptr(COUNT))?;
    decimal(p, console, esi, 0)?;
    let heading = format!(
        " of event '{}:u', one every {PERIOD}\n#\n\
         # Overhead   Samples  Symbol\n# ........  ........  ......\n",
        part.event
    );
    console.text(p, &heading)?;

    let mut done = p.create_label();
    let line = p.here()?;
    // ESI: most samples of the entries not yet printed; EDI: the entry.
    p.xor(esi, esi)?;
    p.mov(ebx, TABLE)?;
    p.mov(ecx, functions)?;
    let entry = p.here()?;
    let mut fewer = p.create_label();
    p.cmp(dword_ptr(ebx + ENTRY_SAMPLES), esi)?;
    p.jbe(fewer)?;
    p.mov(esi, dword_ptr(ebx + ENTRY_SAMPLES))?;
    p.mov(edi, ebx)?;
    p.place(&mut fewer)?;
    p.add(ebx, ENTRY as i32)?;
    p.dec(ecx)?;
    p.jnz(entry)?;
    p.test(esi, esi)?;
    p.jz(done)?;
    p.mov(dword_ptr(edi + ENTRY_SAMPLES), 0)?;

    // Hundredths of a per cent; EBP: the remainders.
    p.mov(eax, 10_000)?;
    p.mul(esi)?;
    p.div(dword_ptr(COUNT))?;
    p.xor(edx, edx)?;
    p.mov(ecx, 100)?;
    p.div(ecx)?;
    p.mov(ebp, edx)?;
    decimal(p, console, eax, 6)?;
    p.mov(al, u32::from(b'.'))?;
    console.character(p)?;
    p.mov(eax, ebp)?;
    p.xor(edx, edx)?;
    p.mov(ecx, 10)?;
    p.div(ecx)?;
    p.mov(ebp, edx)?;
    decimal(p, console, eax, 1)?;
    decimal(p, console, ebp, 1)?;
    console.text(p, "%")?;
    decimal(p, console, esi, 10)?;
    console.text(p, "  ")?;
    p.mov(esi, dword_ptr(edi + ENTRY_NAME))?;
    p.mov(ecx, dword_ptr(edi + ENTRY_LENGTH))?;
    console.bytes(p)?;
    console.text(p, "\n")?;
    p.jmp(line)?;
    p.place(&mut done)?;
    console.text(p, "#\n")
}

/// Prints what the counters say that do not sample.
fn print_totals(p: &mut Program, console: &Console, part: &Part) -> Result<(), IcedError> {
    console.text(p, "# Counted with RDPMC at CPL 3:")?;
    for (index, &(_, preset, what)) in part.totals.iter().enumerate() {
        let place = TOTALS + 8 * index as u32;
        console.text(p, " ")?;
        p.mov(eax, dword_ptr(place))?;
        p.mov(edx, dword_ptr(place + 4))?;
        if preset != 0 {
            // The counter has wrapped: the difference in its 40 bits.
            p.sub(eax, preset as u32 as i32)?;
            p.sbb(edx, (preset >> 32) as i32)?;
            p.and(edx, 0xFF)?;
        }
        console.decimal(p, 0)?;
        let last = index + 1 == part.totals.len();
        console.text(p, &format!(" {what}{}", if last { "\n" } else { "," }))?;
    }
    Ok(())
}
