//! Counting a program by every select of a part.
//!
//! One guest has the program once and goes through a table of what to write to which register, so that
//! the code that is executed is the same for each select. For each it executes what prepares the
//! program, with the counter enabled, since the models see only what is executed while a counter counts
//! what they tell; then it disables the counter, sets it to zero, and counts the program.

use guest_tests::msr::{CESR, EN, P6_EVT_SEL0, P6_EVT_SEL1};
use guest_tests::part::{Part, Registers};
use guest_tests::{Guest, Options, Result, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebx, ecx, edi, edx};

use crate::programs::Program;
use crate::selects::Select;

/// Variables of the guest, above the memory that programs use.
const NEXT: u32 = 0xE0_0000;
const OUT: u32 = NEXT + 4;
const LAST: u32 = NEXT + 8;
/// What the processors tell each other: how often the second is to act, and how often it has.
const ASKED: u32 = NEXT + 0x40;
const DONE: u32 = NEXT + 0x80;
const OVER: u32 = NEXT + 0xC0;
/// Counts, eight bytes each.
const COUNTS: u32 = 0xE1_0000;
/// Bytes of a row of the table.
const ROW: i32 = 16;

/// Each select is counted twice, and the second count is the result: the first brings code and
/// predictors into the state that they are in whenever the program has been executed before.
const TIMES: usize = 2;

/// Enables the counter: the number of the register and what is written to it with the last WRMSR.
fn enable(part: &Part, select: &Select) -> (u32, u32) {
    let word = select.word(part);
    match (part.registers, select.counter()) {
        (Registers::P55c, n) => (CESR, (guest_tests::measure::cesr_half(word) << (16 * n)) as u32),
        (Registers::P6, 0) => (P6_EVT_SEL0, (word | EN) as u32),
        (Registers::P6, _) => (P6_EVT_SEL0, EN as u32),
        (_, n) => (part.evtsel(n), (word | EN) as u32),
    }
}

/// A row of the table: counter, another register to write and its value, value of the enabling one.
fn row(part: &Part, select: &Select) -> [u32; 4] {
    let counter = part.perfctr(select.counter());
    let (enabling, value) = enable(part, select);
    match (part.registers, select.counter()) {
        (Registers::P6, 1) => [counter, P6_EVT_SEL1, select.word(part) as u32, value],
        // One bit enables both: the other one is to count nothing.
        (Registers::P6, _) => [counter, P6_EVT_SEL1, 0, value],
        _ => [counter, enabling, 0, value],
    }
}

/// The register that enables any counter of the table.
fn enabling(part: &Part) -> u32 {
    match part.registers {
        Registers::P55c => CESR,
        Registers::P6 => P6_EVT_SEL0,
        _ => part.evtsel(0),
    }
}

/// What `program` moves each of `selects` by, the four instructions that disable the counter included.
pub(crate) fn counts(part: &'static Part, program: &Program, selects: &[Select]) -> Vec<u64> {
    let rows = selects.iter().flat_map(|select| {
        assert_eq!(enable(part, select).0, enabling(part), "{}: one register", select.name);
        [row(part, select); TIMES]
    });
    let table: Vec<u8> = rows.flatten().flat_map(u32::to_le_bytes).collect();
    let image = Guest::assemble(part, |g| guest(g, program, &table)).expect("a guest");
    let options = Options {
        cpus: program.processors(part) as u8,
        memory: program.memory,
        ..Options::default()
    };
    let outcome = run_with(part, &image, options);
    let mut bytes = vec![0; 8 * TIMES * selects.len()];
    assert!(outcome.machine.read_physical(COUNTS.into(), &mut bytes), "counts are in memory");
    let counts = bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    counts.skip(TIMES - 1).step_by(TIMES).collect()
}

fn guest(g: &mut Guest, program: &Program, table: &[u8]) -> Result {
    let (Some(other), Some(second)) = (program.other, program.second(g.part)) else {
        return walk(g, program, table);
    };
    g.on_every_processor(program.processors(g.part), |g| {
        g.on_processor(0, |g| {
            walk(g, program, table)?;
            g.mov(dword_ptr(OVER), 1)
        })?;
        g.on_processor(second, |g| act_when_asked(g, other))
    })
}

/// Goes through the table.
fn walk(g: &mut Guest, program: &Program, table: &[u8]) -> Result {
    let label = g.constant(table);
    (program.set_up)(g)?;
    g.address(ebx, label)?;
    g.mov(dword_ptr(NEXT), ebx)?;
    g.add(ebx, table.len() as i32)?;
    g.mov(dword_ptr(LAST), ebx)?;
    g.mov(dword_ptr(OUT), COUNTS)?;
    let next = g.here()?;
    g.mov(ebx, dword_ptr(NEXT))?;
    start(g)?;
    (program.prepare)(g)?;
    stop(g)?;
    g.mov(ebx, dword_ptr(NEXT))?;
    start(g)?;
    (program.body)(g)?;
    stop(g)?;
    g.mov(ebx, dword_ptr(NEXT))?;
    g.mov(ecx, dword_ptr(ebx))?;
    g.rdmsr()?;
    g.mov(edi, dword_ptr(OUT))?;
    g.mov(dword_ptr(edi), eax)?;
    g.mov(dword_ptr(edi + 4), edx)?;
    g.add(edi, 8)?;
    g.mov(dword_ptr(OUT), edi)?;
    g.add(ebx, ROW)?;
    g.mov(dword_ptr(NEXT), ebx)?;
    g.cmp(ebx, dword_ptr(LAST))?;
    g.jb(next)
}

/// Sets the counter of the row at EBX to zero and enables it.
fn start(g: &mut Guest) -> Result {
    let enabling = enabling(g.part);
    g.mov(ecx, dword_ptr(ebx))?;
    g.xor(eax, eax)?;
    g.xor(edx, edx)?;
    g.wrmsr()?;
    g.mov(ecx, dword_ptr(ebx + 4))?;
    g.mov(eax, dword_ptr(ebx + 8))?;
    g.wrmsr()?;
    g.mov(eax, dword_ptr(ebx + 12))?;
    g.mov(ecx, enabling)?;
    g.wrmsr()
}

/// Disables the counter: four instructions, each of which is counted.
fn stop(g: &mut Guest) -> Result {
    let enabling = enabling(g.part);
    g.mov(ecx, enabling)?;
    g.xor(eax, eax)?;
    g.xor(edx, edx)?;
    g.wrmsr()
}

/// Has the second processor act, and waits until it has.
pub(crate) fn ask(g: &mut Guest) -> Result {
    g.inc(dword_ptr(ASKED))?;
    let wait = g.here()?;
    g.mov(eax, dword_ptr(DONE))?;
    g.cmp(eax, dword_ptr(ASKED))?;
    g.jne(wait)
}

/// What the second processor does until the first is through.
fn act_when_asked(g: &mut Guest, act: fn(&mut Guest) -> Result) -> Result {
    let (mut asked, mut end) = (g.create_label(), g.create_label());
    let wait = g.here()?;
    g.cmp(dword_ptr(OVER), 0)?;
    g.jne(end)?;
    g.mov(eax, dword_ptr(DONE))?;
    g.cmp(eax, dword_ptr(ASKED))?;
    g.jne(asked)?;
    g.jmp(wait)?;
    g.place(&mut asked)?;
    act(g)?;
    g.inc(dword_ptr(DONE))?;
    g.jmp(wait)?;
    g.place(&mut end)
}
