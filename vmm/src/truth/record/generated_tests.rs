//! Random programs, recorded in whole blocks and instruction by instruction.
//!
//! Without the cache of translated code each instruction is a block of its own, and the recorder is told
//! of each. What it records of a block at once has to be the same, to the byte of the file.

use std::io;

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::Recorder;
use crate::boot::memory::RamLayout;
use crate::boot::{self, Payload};
use crate::config::{Config, Limits};
use crate::console::Console;
use crate::machine::{End, Machine};
use crate::program::{DATA, Image, Program};
use crate::truth::Truth;

/// Where programs load and store, with room behind for what is misaligned.
const ARRAY: u32 = 0x20_0000;
const ARRAY_BYTES: u32 = 0x1000;
/// Writing to this port ends the machine.
const DEBUG_EXIT: u32 = 0xF4;
const FUNCTIONS: usize = 6;

const DIVIDE_ERROR: u8 = 0;
const TIMER: u8 = 0x50;
/// Registers of the local APIC: end of interrupt, timer's LVT, divide configuration, initial count.
const EOI: i32 = 0xB0;
const LVT_TIMER: i32 = 0x320;
const DIVIDE: i32 = 0x3E0;
const INITIAL_COUNT: i32 = 0x380;
const PERIODIC: u32 = 1 << 17;

const EVENTS: &str = "instructions,cycles,branches,taken-branches,loads,stores,MISALIGNED_ACCESSES,\
    INTERRUPTS_TAKEN,RETIRED_NEAR_RETURNS,RETIRED_FAR_CONTROL_TRANSFERS,SEGMENT_REGISTER_LOADS,\
    RETIRED_MMX_FP_INSTRUCTIONS";

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }

    fn register(&mut self) -> AsmRegister32 {
        [eax, ecx, edx, esi][self.below(4) as usize]
    }

    /// Somewhere in the array, seldom aligned and sometimes across the boundary of a page; or elsewhere in
    /// each round (EDI), so that it is aligned in some.
    fn place(&mut self) -> AsmMemoryOperand {
        let offset = match self.below(4) {
            0 => ARRAY_BYTES - 3,
            1 => self.below(ARRAY_BYTES),
            _ => self.below(ARRAY_BYTES / 4) * 4,
        };
        if self.below(3) == 0 { dword_ptr(ebx + edi + offset) } else { dword_ptr(ebx + offset) }
    }
}

/// What a program is made of beside its instructions.
struct Labels {
    functions: Vec<CodeLabel>,
}

/// One or a few random instructions of a function, which may call those behind it. EBX is the array, EDI
/// the caller's.
fn step(p: &mut Program, random: &mut Random, labels: &Labels, n: usize) -> Result<(), IcedError> {
    let register = random.register();
    let place = random.place();
    match random.below(30) {
        0..=3 => p.add(register, random.below(1 << 20))?,
        4 => p.lea(register, dword_ptr(register + register * 4 + 3))?,
        5 => p.imul_2(register, edi)?,
        6 => p.shl(register, 3)?,
        7..=9 => p.mov(register, place)?,
        10..=11 => p.mov(place, register)?,
        12 => p.add(place, register)?,
        13 => p.xor(register, place)?,
        14 => p.xchg(place, register)?,
        15 => p.lock().xadd(place, register)?,
        16 => {
            p.push(place)?;
            p.pop(place)?;
        }
        17 => {
            p.push(register)?;
            p.mov(register, place)?;
            p.pop(register)?;
        }
        // A branch over one instruction that loads.
        18..=19 => {
            let mut over = p.create_label();
            p.test(register, 1 << random.below(5))?;
            p.jnz(over)?;
            p.adc(register, place)?;
            p.place(&mut over)?;
        }
        20 => {
            p.mov(ecx, 1 + random.below(4))?;
            let again = p.here()?;
            p.sub(place, ecx)?;
            p.loop_(again)?;
        }
        // Divides by zero at times, behind a store in the same block.
        21 => {
            p.mov(place, register)?;
            p.xor(edx, edx)?;
            p.and(ecx, 1)?;
            p.div(ecx)?;
        }
        22 => {
            p.push(ds)?;
            p.pop(es)?;
        }
        23 => {
            p.fld(place)?;
            p.fstp(place)?;
        }
        24 => {
            p.movd(mm1, place)?;
            p.paddusb(mm1, mm1)?;
            p.emms()?;
        }
        25 => {
            p.push(edi)?;
            p.mov(edi, ARRAY + ARRAY_BYTES)?;
            p.mov(ecx, random.below(40))?;
            p.rep().stosd()?;
            p.pop(edi)?;
        }
        26 => p.int3()?,
        27 => p.in_(al, 0x80)?,
        _ => {
            if let Some(&callee) = labels.functions.get(n + 1 + random.below(3) as usize) {
                p.call(callee)?;
            }
        }
    }
    Ok(())
}

fn function(
    p: &mut Program,
    random: &mut Random,
    labels: &Labels,
    n: usize,
) -> Result<(), IcedError> {
    for _ in 0..2 + random.below(12) {
        step(p, random, labels, n)?;
    }
    match (random.below(4), labels.functions.get(n + 1)) {
        // Another function in place of this one.
        (0, Some(&next)) => p.jmp(next),
        (1, _) => {
            // A return that pops what was pushed for it.
            p.pop(eax)?;
            p.push(esi)?;
            p.push(eax)?;
            p.ret_1(4)
        }
        _ => p.ret(),
    }
}

fn program(seed: u64, rounds: u32) -> Result<Image, IcedError> {
    let mut random = Random(seed);
    let mut p = Program::new()?;
    let mut main = p.create_label();
    p.jmp(main)?;
    // DIV ECX has two bytes.
    let divide_error = p.here()?;
    p.add(dword_ptr(esp), 2)?;
    p.iretd()?;
    p.gate(DIVIDE_ERROR, divide_error, 0);
    let breakpoint = p.here()?;
    p.inc(dword_ptr(DATA))?;
    p.iretd()?;
    p.gate(3, breakpoint, 0);
    let timer = p.here()?;
    p.push(edi)?;
    p.inc(dword_ptr(DATA + 4))?;
    p.write_lapic(EOI, 0)?;
    p.pop(edi)?;
    p.iretd()?;
    p.gate(TIMER, timer, 0);

    let mut labels = Labels { functions: (0..FUNCTIONS).map(|_| p.create_label()).collect() };
    for n in 0..FUNCTIONS {
        let mut label = labels.functions[n];
        p.place(&mut label)?;
        labels.functions[n] = label;
        function(&mut p, &mut random, &labels, n)?;
    }

    p.place(&mut main)?;
    p.mov(ebx, ARRAY)?;
    p.fninit()?;
    p.write_lapic(DIVIDE, 0)?;
    p.write_lapic(LVT_TIMER, u32::from(TIMER) | PERIODIC)?;
    p.write_lapic(INITIAL_COUNT, 4 + random.below(20))?;
    p.sti()?;
    p.mov(edi, rounds)?;
    let again = p.here()?;
    for _ in 0..3 {
        p.call(labels.functions[random.below(3) as usize])?;
    }
    p.dec(edi)?;
    p.jnz(again)?;
    p.mov(edx, DEBUG_EXIT)?;
    p.xor(eax, eax)?;
    p.out(dx, al)?;
    p.finish()
}

fn record(image: &Image, no_cache: bool) -> Truth {
    let payload = Payload::Flat {
        image: boot::Image { name: "generated".into(), bytes: image.bytes.clone() },
        address: image.load_address,
    };
    let ram = RamLayout::new(4 << 20, None).unwrap();
    let config = Config { no_cache, ..Config::new("k8", ram, payload).unwrap() };
    let mut machine = Machine::new(&config).unwrap();
    machine.record(Recorder::new(config.personality, EVENTS).unwrap()).unwrap();
    let mut console = Console::to("nowhere".into(), Box::new(io::sink()));
    let limits = Limits { instructions: Some(1_000_000_000), ..Limits::default() };
    let end = machine.run(limits, &mut console).unwrap();
    assert!(matches!(end, End::Exit(_)), "{end:?}");
    machine.recorded().unwrap().unwrap()
}

/// A function that is called so often, and whose accesses are misaligned at times.
fn calls(times: u32) -> Result<Image, IcedError> {
    let mut p = Program::new()?;
    let mut function = p.create_label();
    p.mov(ebx, ARRAY)?;
    p.mov(ecx, times)?;
    let again = p.here()?;
    p.push(eax)?;
    p.call(function)?;
    p.pop(eax)?;
    p.dec(ecx)?;
    p.jnz(again)?;
    p.mov(edx, DEBUG_EXIT)?;
    p.xor(eax, eax)?;
    p.out(dx, al)?;
    p.place(&mut function)?;
    p.mov(eax, dword_ptr(ebx + ecx))?;
    p.mov(dword_ptr(ebx + ecx), eax)?;
    p.ret()?;
    p.finish()
}

/// More accesses and transfers than packed sums have room for: 2^20 and more of each kind.
#[test]
fn sums_that_do_not_fit_where_they_are_packed_are_the_same() {
    const CALLS: u32 = 400_000;
    let [few, many] = [1, 1 + CALLS].map(|times| {
        let image = calls(times).unwrap();
        let truth = record(&image, false);
        assert_eq!(truth, record(&image, true), "{times} calls");
        truth.totals()
    });
    let counted: Vec<_> = many.iter().zip(few).map(|(many, few)| many - few).collect();
    let [instructions, _, branches, taken, loads, stores, ..] = counted[..] else {
        unreachable!("12 events")
    };
    let calls = u64::from(CALLS);
    assert_eq!(instructions, 8 * calls);
    // CALL, RET and JNZ.
    assert_eq!((branches, taken), (3 * calls, 3 * calls));
    // POP, RET and MOV load; PUSH, CALL and MOV store.
    assert_eq!((loads, stores), (3 * calls, 3 * calls));
}

#[test]
fn a_block_at_once_is_recorded_as_one_instruction_after_the_other() {
    let mut sums = vec![0; EVENTS.split(',').count()];
    for seed in 0..1000 {
        let image = program(seed, 8).unwrap();
        let truth = record(&image, false);
        assert_eq!(truth, record(&image, true), "seed {seed}");
        crate::truth::add(&mut sums, &truth.totals());
    }
    // Everything that the programs are made of did happen.
    assert!(sums.iter().all(|&sum| sum > 1000), "{sums:?}");
}
