//! The target `instructions`: bytes as code, in every mode of every processor. Whatever they are, they do the same one
//! after the other as in translated blocks, with and without the caches of code and translations, while counters count
//! and while models are told; and the processor stays what the architecture knows.
//!
//! The first byte of an input is the processor, the second the mode, and the rest is code. Interrupts are disabled. An
//! exception ends the run: its stub pushes the vector and writes to the debug exit.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use iced_x86::code_asm::{
    cr0, cr3, cr4, dword_ptr, eax, ebp, ebx, ecx, edi, edx, esi, esp, fword_ptr,
};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use pmu_model::Personality;
use vpmu::config::Config;
use vpmu::devices::debug_exit::{DEBUG_EXIT, MARKER, POST_CODE};
use vpmu::engine::Count;
use vpmu::engine::soft::{Timing, Warm};
use vpmu::machine::{End, Machine};
use vpmu::program::{Image, Program};
use vpmu::snapshot::Snapshot;
use x86_cpu::state::{CpuState, HeldTranslation};

use crate::door::Door;
use crate::random::Random;

/// Longest code of an input, in bytes.
const LONGEST: usize = 256;
/// Instructions and cycles that it may execute: an instruction that is repeated is one.
const INSTRUCTIONS: u64 = 300;
const CYCLES: u64 = 10_000;

/// Where code is in 32-bit and 64-bit mode, and what registers point to.
const CODE: u32 = 0x20_0000;
const SCRATCH: u32 = 0x21_0000;
/// The same in real mode.
const REAL_CODE: u32 = 0x9000;
const REAL_SCRATCH: u32 = 0x7000;
/// Descriptor tables, stubs of exceptions and page tables.
const GDT: u32 = 0x22_0000;
const IDT: u32 = 0x22_1000;
const POINTERS: u32 = 0x22_3000;
const STUBS: u32 = 0x22_4000;
const REAL_STUBS: u32 = 0xA000;
const TABLES: u32 = 0x23_0000;
/// Bytes of the stub of one vector.
const STUB: u32 = 8;

/// Selectors of the table at [`GDT`]: 32-bit code (data follows), 64-bit code, 16-bit code and data.
const CODE32: u16 = 0x08;
const CODE64: u16 = 0x18;
const CODE16: u16 = 0x20;
const DATA16: u16 = 0x28;
const DESCRIPTORS: [u64; 6] = [
    0,
    0x00CF_9B00_0000_FFFF,
    0x00CF_9300_0000_FFFF,
    0x00AF_9B00_0000_FFFF,
    0x0000_9B00_0000_FFFF,
    0x0000_9300_0000_FFFF,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Real,
    Protected,
    Long,
}

/// How an input is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// In blocks.
    Blocks,
    /// Without the cache of code and the software TLB.
    Uncached,
    /// In blocks, while counters count; otherwise they hold what was written (`--count off`).
    Counted,
    /// In blocks that models are told of.
    Modelled,
}

impl Way {
    const ALL: [Self; 4] = [Self::Blocks, Self::Uncached, Self::Counted, Self::Modelled];
}

/// Processor, mode and code of an input.
fn parts(bytes: &[u8]) -> (&'static Personality, Mode, &[u8]) {
    let byte = |n: usize| bytes.get(n).copied().unwrap_or(0);
    let part = Personality::ALL[usize::from(byte(0)) % Personality::ALL.len()];
    let mode = match byte(1) % 3 {
        0 => Mode::Real,
        1 => Mode::Protected,
        _ if matches!(part.name, "k8" | "knc") => Mode::Long,
        _ => Mode::Protected,
    };
    let code = bytes.get(2..).unwrap_or_default();
    (part, mode, &code[..code.len().min(LONGEST)])
}

thread_local! {
    /// The machines that have been needed.
    static DOORS: RefCell<Doors> = RefCell::default();
}

/// Machines, by processor, mode and way.
#[derive(Default)]
struct Doors(BTreeMap<(&'static str, Mode, Way), Door>);

impl Doors {
    /// That of a processor, a mode and a way, which is made when it is first needed.
    fn find(
        &mut self,
        part: &'static Personality,
        mode: Mode,
        way: Way,
    ) -> Result<&mut Door, String> {
        Ok(match self.0.entry((part.name, mode, way)) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(door(part.name, mode, way)?),
        })
    }
}

/// Whether what an input does is held against the way without caches: it is not where the processor holds a translation
/// in the end that the page tables give no longer.
///
/// # Errors
/// As [`play`].
pub fn compares_uncached(bytes: &[u8]) -> Result<bool, String> {
    let (part, mode, code) = parts(bytes);
    let mut doors = DOORS.take();
    let outcome = doors
        .find(part, mode, Way::Blocks)
        .and_then(|door| execute(door, mode, code, false))
        .map(|outcome| !outcome.is_stale);
    DOORS.set(doors);
    outcome
}

/// Plays an input: how many instructions it executed.
///
/// # Errors
/// What differs, or is not of the architecture.
pub fn play(bytes: &[u8]) -> Result<usize, String> {
    let (part, mode, code) = parts(bytes);
    // A machine that panics is not used again: they are put back behind that.
    let mut doors = DOORS.take();
    let played = play_in_all_ways(&mut doors, part, mode, code);
    DOORS.set(doors);
    played
}

fn play_in_all_ways(
    doors: &mut Doors,
    part: &'static Personality,
    mode: Mode,
    code: &[u8],
) -> Result<usize, String> {
    let mut first: Option<Outcome> = None;
    for way in Way::ALL {
        let door = doors.find(part, mode, way)?;
        let steps: &[bool] = if way == Way::Blocks { &[false, true] } else { &[false] };
        for &stepped in steps {
            let outcome = execute(door, mode, code, stepped)?;
            let Some(first) = &first else {
                first = Some(outcome);
                continue;
            };
            // Who walks the page tables at each access sees what they say now.
            if way == Way::Uncached && first.is_stale {
                continue;
            }
            if let Some(difference) = first.difference(&outcome) {
                let name = if stepped { "stepped".into() } else { format!("{way:?}") };
                return Err(format!("in blocks and {name}: {difference}"));
            }
        }
    }
    Ok(first.map_or(0, |first| first.instructions as usize))
}

/// How an input ended.
struct Outcome {
    end: End,
    cpu: Box<CpuState>,
    memory: Snapshot,
    instructions: u64,
    /// The processor holds a translation that the page tables give no longer, for they have been written to: it is held
    /// until it is flushed (AMD64 APM volume 2, section 5.5.2).
    is_stale: bool,
}

impl Outcome {
    fn difference(&self, other: &Self) -> Option<String> {
        if self.end != other.end {
            let [one, two] =
                [self, other].map(|outcome| (outcome.end, outcome.instructions, outcome.cpu.rip));
            return Some(format!("{one:x?} and {two:x?}"));
        }
        if self.cpu != other.cpu {
            let [one, two] = [self, other].map(|outcome| format!("{:x?}", outcome.cpu));
            let differing = one.split(", ").zip(two.split(", ")).filter(|(one, two)| one != two);
            let words: Vec<_> =
                differing.take(8).map(|(one, two)| format!("{one} and {two}")).collect();
            return Some(words.join("; "));
        }
        let address = self.memory.ram_difference(&other.memory)?;
        Some(format!("memory at {address:#x}"))
    }
}

/// Executes code.
fn execute(door: &mut Door, mode: Mode, code: &[u8], stepped: bool) -> Result<Outcome, String> {
    let at = if mode == Mode::Real { REAL_CODE } else { CODE };
    door.begin(at.into(), code)?;
    let end = if stepped {
        loop {
            let next = door.retired() + 1;
            let end = door.run(next)?;
            // An instruction that raises an exception does not retire, and delivering it is none.
            if end != End::Instructions || next >= INSTRUCTIONS {
                break end;
            }
        }
    } else {
        door.run(INSTRUCTIONS)?
    };
    let mut cpu = Box::new(door.machine().vcpus()[0].cpu.state());
    check(&cpu)?;
    let is_stale = holds_stale(door.machine());
    // Not while the cache of code is off.
    cpu.translations.clear();
    let memory = door.machine().snapshot();
    Ok(Outcome { end, cpu, memory, instructions: door.retired(), is_stale })
}

/// Whether the processor holds a translation that the page tables do not give any longer, or not with the same rights.
fn holds_stale(machine: &Machine) -> bool {
    const WRITABLE: u64 = 1 << 1;
    const USER: u64 = 1 << 2;
    const NO_EXECUTE: u64 = 1 << 63;
    let cpu = &machine.vcpus()[0].cpu;
    let is_given = |held: &HeldTranslation| {
        cpu.look_up(machine.ram(), held.linear).is_some_and(|walk| {
            let levels = &walk.entries[..usize::from(walk.levels)];
            let every = |bit: u64| levels.iter().all(|entry| entry.value & bit != 0);
            let executes = levels.iter().all(|entry| entry.value & NO_EXECUTE == 0);
            walk.physical & !0xFFF == held.physical
                && (!held.writable || every(WRITABLE))
                && (!held.user || every(USER))
                && (!held.code || executes)
        })
    };
    !cpu.state().translations.iter().all(is_given)
}

/// That a processor is in a state that the architecture knows (AMD64 APM volume 2, sections 3.1 and 14.1).
fn check(cpu: &CpuState) -> Result<(), String> {
    const PE: u64 = 1;
    const NW: u64 = 1 << 29;
    const CD: u64 = 1 << 30;
    const PG: u64 = 1 << 31;
    const LME: u64 = 1 << 8;
    const LMA: u64 = 1 << 10;
    let long = cpu.efer & LMA != 0;
    let rules = [
        (
            "RFLAGS has bit 1 and none that are reserved",
            cpu.rflags & !0x3F_7FD7 == 0 && cpu.rflags & 2 != 0,
        ),
        ("paging is of protected mode", cpu.cr0 & PG == 0 || cpu.cr0 & PE != 0),
        ("NW without CD is refused", cpu.cr0 & NW == 0 || cpu.cr0 & CD != 0),
        ("LMA is LME with paging", long == (cpu.efer & LME != 0 && cpu.cr0 & PG != 0)),
        ("CPL is a level", cpu.cpl <= 3),
        ("RIP has 32 bits outside of long mode", long || cpu.rip >> 32 == 0),
        ("RIP is canonical", (cpu.rip as i64) << 16 >> 16 == cpu.rip as i64),
    ];
    match rules.iter().find(|(_, holds)| !holds) {
        Some((rule, _)) => Err(format!("not so: {rule}: {cpu:x?}")),
        None => Ok(()),
    }
}

/// An input in words: processor, mode and instructions.
pub fn words(bytes: &[u8]) -> String {
    let (part, mode, code) = parts(bytes);
    let (bits, at) = match mode {
        Mode::Real => (16, REAL_CODE),
        Mode::Protected => (32, CODE),
        Mode::Long => (64, CODE),
    };
    let mut words = format!("{}, {bits} bits\n", part.name);
    let mut formatter = IntelFormatter::new();
    for instruction in Decoder::with_ip(bits, code, at.into(), DecoderOptions::NONE) {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        // A string takes everything.
        let _ = writeln!(words, "{:8X}  {text}", instruction.ip());
    }
    words
}

/// A machine at the door of a mode.
fn door(cpu: &'static str, mode: Mode, way: Way) -> Result<Door, String> {
    let program = program(cpu, mode).map_err(|e| e.to_string())?;
    let adapt = |config: Config| Config {
        no_cache: way == Way::Uncached,
        warm: if way == Way::Modelled { Warm::Always } else { Warm::Counting },
        timing: Timing::Flat,
        count: if way == Way::Counted { Count::Exact } else { Count::Off },
        ..config
    };
    let mut door = Door::new(cpu, &program, adapt, &tables(mode), CYCLES)?;
    // A way that nothing is counted in would find nothing.
    if door.machine().vcpus()[0].has_counters_enabled() != (way == Way::Counted) {
        return Err(format!("{cpu}, {way:?}: what is to be counted is not, or the reverse"));
    }
    Ok(door)
}

/// What brings the processor to its mode, and from the door to the code.
fn program(cpu: &str, mode: Mode) -> Result<Image, iced_x86::IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    let scratch = if mode == Mode::Real { REAL_SCRATCH } else { SCRATCH };
    for (n, descriptor) in (0..).zip(DESCRIPTORS) {
        p.mov(dword_ptr(GDT + 8 * n), descriptor as u32)?;
        p.mov(dword_ptr(GDT + 8 * n + 4), (descriptor >> 32) as u32)?;
    }
    let limit = 8 * DESCRIPTORS.len() as u32 - 1;
    p.mov(dword_ptr(POINTERS), GDT << 16 | limit)?;
    p.mov(dword_ptr(POINTERS + 4), GDT >> 16)?;
    let (base, limit) = match mode {
        Mode::Real => (0, 0x3FF),
        Mode::Protected => (IDT, 0x7FF),
        Mode::Long => (IDT, 0xFFF),
    };
    p.mov(dword_ptr(POINTERS + 8), base << 16 | limit)?;
    p.mov(dword_ptr(POINTERS + 12), base >> 16)?;
    p.mov(dword_ptr(POINTERS + 16), 0)?;
    p.lgdt(fword_ptr(POINTERS))?;
    if mode != Mode::Long {
        p.lidt(fword_ptr(POINTERS + 8))?;
    }
    for &(register, value) in retired_by_users(cpu) {
        p.write_msr(register, value)?;
    }
    if mode == Mode::Long {
        let (pml4, pdpt, directory) = (TABLES, TABLES + 0x1000, TABLES + 0x2000);
        p.mov(dword_ptr(pml4), pdpt | 7)?;
        p.mov(dword_ptr(pdpt), directory | 7)?;
        p.mov(dword_ptr(directory), 0x87)?;
        p.mov(dword_ptr(directory + 8), 0x87 | 2 << 20)?;
        p.mov(eax, cr4)?;
        p.or(eax, 1 << 5)?;
        p.mov(cr4, eax)?;
        p.mov(eax, pml4)?;
        p.mov(cr3, eax)?;
        p.mov(ecx, 0xC000_0080_u32)?;
        p.rdmsr()?;
        p.or(eax, 1 << 8)?;
        p.wrmsr()?;
        p.mov(eax, cr0)?;
        p.or(eax, i32::MIN)?;
        p.mov(cr0, eax)?;
    }
    p.mov(esp, if mode == Mode::Real { 0x6000 } else { SCRATCH })?;
    p.mov(ebx, scratch)?;
    p.mov(esi, scratch + 0x100)?;
    p.mov(edi, scratch + 0x200)?;
    p.mov(ebp, scratch + 0x300)?;
    p.mov(ecx, 5)?;
    p.mov(edx, POST_CODE as u32)?;
    p.mov(eax, MARKER)?;
    let (code, selector, ahead) = match mode {
        Mode::Real => (REAL_CODE, CODE16, to_real_mode()),
        // out dx, eax
        Mode::Protected => (CODE, CODE32, vec![0xEF]),
        // lidt [POINTERS + 8]; out dx, eax
        Mode::Long => {
            let lidt = [0x0F, 0x01, 0x1C, 0x25];
            (CODE, CODE64, [&lidt[..], &(POINTERS + 8).to_le_bytes(), &[0xEF]].concat())
        }
    };
    // What comes ahead of the code jumps there: jmp short.
    let mut ahead = ahead;
    let left = AHEAD - ahead.len() as u32 - 2;
    ahead.extend([0xEB, left as u8]);
    for (at, bytes) in (code - AHEAD..).step_by(4).zip(ahead.chunks(4)) {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        p.push(eax)?;
        p.mov(eax, u32::from_le_bytes(word))?;
        p.mov(dword_ptr(at), eax)?;
        p.pop(eax)?;
    }
    p.db(&far_jump(code - AHEAD, selector))?;
    program.finish()
}

/// Bytes ahead of the code, for the last instructions ahead of it.
const AHEAD: u32 = 64;

/// From 16-bit protected mode to real mode with all segments at 0; then the marker.
fn to_real_mode() -> Vec<u8> {
    // mov ds, ax; and so on with ES, SS, FS, GS
    const SEGMENTS: [u8; 10] = [0x8E, 0xD8, 0x8E, 0xC0, 0x8E, 0xD0, 0x8E, 0xE0, 0x8E, 0xE8];
    let mut code = vec![0xB8, DATA16 as u8, 0];
    code.extend(SEGMENTS);
    // mov eax, cr0; and al, 0FEh; mov cr0, eax
    code.extend([0x0F, 0x20, 0xC0, 0x24, 0xFE, 0x0F, 0x22, 0xC0]);
    // jmp 0:next
    let next = REAL_CODE - AHEAD + code.len() as u32 + 5;
    let [low, high, ..] = next.to_le_bytes();
    code.extend([0xEA, low, high, 0, 0]);
    // xor ax, ax
    code.extend([0x31, 0xC0]);
    code.extend(SEGMENTS);
    // mov eax, MARKER; out dx, eax
    code.extend([0x66, 0xB8]);
    code.extend(MARKER.to_le_bytes());
    code.extend([0x66, 0xEF]);
    code
}

/// JMP FAR of 32-bit code.
fn far_jump(to: u32, selector: u16) -> [u8; 7] {
    let [a, b, c, d] = to.to_le_bytes();
    let [e, f] = selector.to_le_bytes();
    [0xEA, a, b, c, d, e, f]
}

/// Has a counter count retired instructions at CPL 3, where the code hardly ever is: a counter that is read says the same
/// whether anything is counted or not. Registers and their values.
fn retired_by_users(cpu: &str) -> &'static [(u32, u64)] {
    match cpu {
        // CESR, CTR0: 16h, INSTRUCTIONS_EXECUTED (SDM volume 3, "Pentium Processor Performance-Monitoring Events").
        "p55c" => &[(0x11, 0x16 | 2 << 6)],
        // PerfEvtSel0 at C001_0000h: C0h, RETIRED_INSTRUCTIONS (AMD 22007, appendix D).
        "k7" | "k8" => &[(0xC001_0000, 0xC0 | 1 << 16 | 1 << 22)],
        // IA32_PERF_GLOBAL_CTRL, 0 at reset, lets both counters count; PerfEvtSel0: 16h, INSTRUCTIONS_EXECUTED.
        "knc" => &[(0x2F, 3), (0x28, 0x16 | 1 << 16 | 1 << 22)],
        // PerfEvtSel0 at 186h: C0h, INST_RETIRED.
        _ => &[(0x186, 0xC0 | 1 << 16 | 1 << 22)],
    }
}

/// What is in memory at the door: gates and stubs of exceptions, and the last instructions before the code.
fn tables(mode: Mode) -> Vec<(u64, Vec<u8>)> {
    let (mut gates, mut stubs) = (Vec::new(), Vec::new());
    for vector in 0..=255_u8 {
        let stub = if mode == Mode::Real { REAL_STUBS } else { STUBS } + STUB * u32::from(vector);
        match mode {
            Mode::Real => gates.extend(stub.to_le_bytes()),
            Mode::Protected | Mode::Long => {
                let selector = if mode == Mode::Long { CODE64 } else { CODE32 };
                gates.extend((stub & 0xFFFF | u32::from(selector) << 16).to_le_bytes());
                gates.extend((stub & 0xFFFF_0000 | 0xEE00).to_le_bytes());
                if mode == Mode::Long {
                    gates.extend([0; 8]);
                }
            }
        }
        // push VECTOR; then to the last of them.
        let left = STUB * (256 - u32::from(vector)) - 2;
        stubs.extend([0x6A, vector]);
        match mode {
            Mode::Real => {
                stubs.push(0xE9);
                stubs.extend((left as u16 - 3).to_le_bytes());
                stubs.extend([0x90; 3]);
            }
            Mode::Protected | Mode::Long => {
                stubs.push(0xE9);
                stubs.extend((left - 5).to_le_bytes());
                stubs.push(0x90);
            }
        }
    }
    // mov eax, 1; out DEBUG_EXIT, eax; jmp $
    let mut end = if mode == Mode::Real { vec![0x66] } else { vec![] };
    end.push(0xB8);
    end.extend(1_u32.to_le_bytes());
    if mode == Mode::Real {
        end.push(0x66);
    }
    end.extend([0xE7, DEBUG_EXIT as u8, 0xEB, 0xFE]);
    stubs.extend(end);
    let (gates_at, stubs_at) = match mode {
        Mode::Real => (0, REAL_STUBS),
        Mode::Protected | Mode::Long => (IDT, STUBS),
    };
    vec![(gates_at.into(), gates), (stubs_at.into(), stubs)]
}

/// A generated input: random bytes, and instructions that jump about, loop, move strings and write to the code.
pub fn input(random: &mut Random) -> Vec<u8> {
    let mut input = random.bytes()[..2].to_vec();
    let (_, mode, _) = parts(&input);
    for _ in 0..4 + random.below(24) {
        let bytes = random.bytes();
        let [a, b, ..] = bytes;
        match random.below(16) {
            // mov byte [code + a], b
            0 | 1 => match mode {
                Mode::Real => {
                    input.extend([0xC6, 0x06]);
                    input.extend((REAL_CODE as u16 + u16::from(a)).to_le_bytes());
                    input.push(b);
                }
                Mode::Protected => {
                    input.extend([0xC6, 0x05]);
                    input.extend((CODE + u32::from(a)).to_le_bytes());
                    input.push(b);
                }
                Mode::Long => {
                    input.extend([0xC6, 0x05, a & 0x3F, 0, 0, 0, b]);
                }
            },
            // jmp, a conditional jump or loop, by little
            2 => input.extend([0xEB, a & 7]),
            3 => input.extend([0x70 | a & 15, (b & 0x1F).wrapping_sub(8)]),
            4 => input.extend([0xE2, (b & 0x1F).wrapping_sub(16)]),
            // With or without REP: movs, cmps, stos, lods, scas
            5 => input
                .extend([[0xF3, 0xF2, 0x66, 0x90][random.below(4)], 0xA4 + random.below(12) as u8]),
            // Arithmetic between registers, and with memory at [ebx + a]
            6 => input.extend([a & 0x3B, 0xC0 | b]),
            7 => input.extend([a & 0x3B, 0x43 | b & 0x38, bytes[2]]),
            // push, pop, inc, dec, xchg
            8 => input.push(0x40 | a & 0x1F),
            9 => input.extend([0x0F, a, b]),
            10 => input.extend([0xD8 | a & 7, b]),
            11 => input.extend([0xF6 | a & 1, 0xC0 | b]),
            12 => input.extend([0xC1, 0xC0 | b, a & 0x1F]),
            13 => input.extend([0x66, 0x0F, a, 0xC0 | b]),
            _ => input.extend(&bytes[..1 + random.below(7)]),
        }
    }
    input
}
