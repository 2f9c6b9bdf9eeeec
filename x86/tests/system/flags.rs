//! Flags that nobody reads are not worked out where a whole block is executed. Whoever looks finds them all the same:
//! behind every instruction, in the frames of exceptions, in what programs read of them.
//!
//! The oracle executes one instruction after the other, without a cache of code, so that each is a block of which the
//! flags may be read behind it.

use std::cell::{Cell, RefCell};

use iced_x86::code_asm::{eax, edx};
use x86_cpu::{
    block::Translations,
    observe::{Access, Cx, Observer},
    run::Exit,
    timing::Budget,
};

use crate::machine::*;
use crate::models::{AnyModel, Model, Random};

/// Nothing is mapped here.
const UNMAPPED: u64 = 0x40_0000;
/// Registers that programs change: RAX, RCX, RDX, RBP, RDI. RBX is the address of data, RSI of nothing.
const FREE: [u8; 5] = [0, 1, 2, 5, 7];

/// A program of arithmetic on registers; of each kind of instruction that reads flags, keeps some, may keep all or
/// ends a block, there is one now and then.
struct Generator {
    random: Random,
    long: bool,
}

impl Generator {
    fn register(&mut self) -> u8 {
        FREE[self.random.below(FREE.len() as u64) as usize]
    }

    /// ModRM of two registers, or of one and an extension of the opcode.
    fn registers(&mut self, reg: Option<u8>) -> u8 {
        let reg = reg.unwrap_or_else(|| self.register());
        0xc0 | reg << 3 | self.register()
    }

    /// An operand size of 16, 32 or 64 bits.
    fn prefix(&mut self) -> Vec<u8> {
        match self.random.below(4) {
            0 => vec![0x66],
            1 if self.long => vec![0x48],
            _ => vec![],
        }
    }

    fn byte(&mut self) -> u8 {
        self.random.below(256) as u8
    }

    fn instruction(&mut self) -> Vec<u8> {
        let prefix = self.prefix();
        let operation = self.random.below(8) as u8;
        let rest = match self.random.below(40) {
            // ADD, OR, ADC, SBB, AND, SUB, XOR, CMP on registers.
            0..=9 => vec![operation << 3 | 1, self.registers(None)],
            10 => vec![operation << 3, self.registers(None)],
            // The same with an immediate.
            11..=14 => vec![0x83, self.registers(Some(operation)), self.byte()],
            15 => vec![0x80, self.registers(Some(operation)), self.byte()],
            16 => vec![0x85, self.registers(None)],
            // INC, DEC; NOT, NEG; MUL, IMUL.
            17..=18 => vec![0xff, self.registers(Some(operation & 1))],
            19..=20 => vec![0xf7, self.registers(Some(2 + (operation & 1)))],
            21 => vec![0xf7, self.registers(Some(4 + (operation & 1)))],
            22 => vec![0x0f, 0xaf, self.registers(None)],
            // Rotates and shifts, by no bit as well.
            23..=26 => {
                let count = if self.random.below(4) == 0 { 0 } else { self.byte() };
                vec![0xc1, self.registers(Some(operation)), count]
            }
            27 => vec![0xd3, self.registers(Some(operation))],
            // MOV, MOVZX, BSWAP, CBW and so on, LEA.
            28..=29 => vec![0x89, self.registers(None)],
            30 => vec![0x0f, 0xb6, self.registers(None)],
            31 => vec![0x98 | operation & 1],
            32 => vec![0x8d, 0x44 | self.register() << 3 & 0x38, 0x0b, self.byte()],
            // SETcc, CMOVcc, LAHF, Jcc to the next instruction.
            33 => vec![0x0f, 0x90 | self.byte() & 15, self.registers(Some(0)) & 0xc3],
            34 => vec![0x0f, 0x40 | self.byte() & 15, self.registers(None)],
            35 => match operation {
                0..=1 => vec![0x9f],
                2..=4 => vec![0x70 | self.byte() & 15, 0],
                5 => vec![0xf5],
                _ => vec![0x9c],
            },
            // Operands in memory; of which one is not there.
            36 => vec![operation << 3 | 3, 0x43 | self.register() << 3, 8],
            37 => vec![operation << 3 | 1, 0x43 | self.register() << 3, 8],
            38 if operation == 0 => vec![0x03, 0x06],
            // DIV, most of whose quotients do not fit.
            39 if operation == 0 => vec![0xf7, self.registers(Some(6))],
            // A write into the program.
            38 if operation == 1 => vec![0x88, 0x0c, 0x25, 0xa0, 0x80, 0, 0],
            _ => vec![0x90],
        };
        [prefix, rest].concat()
    }
}

/// What can be seen of a processor between two instructions.
fn seen(m: &Machine) -> (u64, u64, u64, Vec<u64>) {
    let registers = (0..8).map(|n| m.cpu.gpr(n)).collect();
    (m.cpu.time, m.cpu.rip, m.cpu.rflags(), registers)
}

/// As [`Machine::run_until`], also where there is something to be looked at before; whether the program goes on.
fn run_until(m: &mut Machine, until: u64) -> bool {
    while m.cpu.time < until {
        if matches!(m.run_until(until), Exit::Halt | Exit::Shutdown) {
            return false;
        }
    }
    true
}

/// A program of [`Generator`] in a machine, ready to run.
fn machine(seed: u64, code: &[u8]) -> Machine {
    let mut m = if seed.is_multiple_of(2) { Machine::long() } else { Machine::protected() };
    m.write(CODE, code);
    m.write(CODE + code.len() as u64, &[0xf4]);
    m.cpu.rip = CODE;
    for n in 0..8 {
        let any = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * u32::from(n));
        m.cpu.set_gpr(n, any);
    }
    m.cpu.set_gpr(RBX, DATA);
    m.cpu.set_gpr(RSI, UNMAPPED);
    m.cpu.set_gpr(RSP, KERNEL_STACK - 0x100);
    m
}

/// Runs programs in stretches, each to the end that `run` is given or to one before, beside a machine without a cache
/// of code. Both are the same behind each stretch. How many programs end in a handler.
fn compare(run: impl Fn(&mut Machine, &mut Random, u64) -> bool) -> u32 {
    let mut faults = 0;
    for seed in 1..6000 {
        let mut generator = Generator { random: Random(seed), long: seed.is_multiple_of(2) };
        let code: Vec<u8> = (0..60).flat_map(|_| generator.instruction()).collect();
        let random = &mut generator.random;
        let [mut blocks, mut single] = [machine(seed, &code), machine(seed, &code)];
        single.cpu.uncached = true;
        // What a program has made of itself may have no end.
        let mut goes_on = true;
        while goes_on && blocks.cpu.time < 500 {
            let until = blocks.cpu.time + 1 + random.below(24);
            goes_on = run(&mut blocks, random, until);
            let goes_on_singly = run_until(&mut single, blocks.cpu.time);
            assert_eq!(seen(&blocks), seen(&single), "seed {seed}, until {until}");
            assert!(!goes_on || goes_on_singly, "seed {seed}, until {until}");
        }
        faults += u32::from(blocks.cpu.rip >> 12 == HANDLERS >> 12);
        // The stack, where PUSHF and exceptions leave flags.
        for at in (KERNEL_STACK - 0x400..KERNEL_STACK).step_by(8) {
            assert_eq!(blocks.read_u64(at), single.read_u64(at), "seed {seed}, stack at {at:x}");
        }
    }
    faults
}

#[test]
fn flags_are_there_wherever_a_run_ends() {
    let faults = compare(|m, _, until| run_until(m, until));
    // The programs end in both ways.
    assert!((500..5500).contains(&faults), "{faults} faults");
}

/// A model that wants to be told of each instruction in some blocks, finds some accesses, and whose budget ends the run
/// behind any instruction that it is told of.
struct Fickle {
    random: Random,
    /// Accesses that it did not find at once, and some of the instructions that it was told of.
    counted: u64,
    budget: u64,
}

impl Model for Fickle {
    fn is_attentive(&self) -> bool {
        self.counted.is_multiple_of(3)
    }
    fn enters_quietly(&mut self) -> bool {
        self.random.below(4) != 0
    }
    fn finds(&mut self) -> bool {
        self.random.below(2) != 0
    }
    fn accessed(&mut self, _: &Access) {
        self.counted += 1;
    }
    fn retired(&mut self) {
        self.counted += self.random.below(2);
    }
    fn count(&mut self) -> &mut u64 {
        &mut self.counted
    }
    fn is_spent(&self) -> bool {
        self.counted >= self.budget
    }
}

#[test]
fn flags_are_there_wherever_a_model_ends_a_run() {
    let translations = RefCell::new(None);
    let spent = Cell::new(0);
    compare(|m, random, until| {
        let mut kept = translations.borrow_mut();
        // A program begins.
        if m.cpu.time == 0 {
            *kept = None;
        }
        let translations = kept.get_or_insert_with(Translations::new);
        let budget = 1 + random.below(8);
        let model = Fickle { random: Random(1 + random.below(1 << 40)), counted: 0, budget };
        let observer = AnyModel::watching(model);
        let mut cx = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer };
        let exit = m.cpu.run(&mut cx, translations, Budget::until(until));
        spent.set(spent.get() + u32::from(exit == Exit::Leave && cx.observer.is_spent()));
        !matches!(exit, Exit::Halt | Exit::Shutdown)
    });
    assert!(spent.get() > 1000, "{} times", spent.get());
}

const TABLE: u64 = 0x5_0000;
const TARGET: u64 = 0x9000;
/// The first address that machines do not map.
const LINEAR: u64 = 0x20_0000;

/// The walk to a block sets the accessed bit of an entry that has been executed as code: the run ends behind the
/// first instruction of the block, whose flags the second replaces.
fn machine_whose_walk_overwrites_code() -> Machine {
    let mut m = Machine::long();
    m.write_u64(PML4 + 0x2008, TABLE | 3);
    // As code: ADD EDX, [RAX]; ADD [RAX], AL; RET.
    m.write_u64(TABLE, TARGET | 3);
    m.write(TABLE + 8, &[0xc3]);
    // ADD EDX, EDX; XOR ECX, ECX; HLT.
    m.write(TARGET, &[0x01, 0xd2, 0x31, 0xc9, 0xf4]);
    m.load(CODE, 64, |a| {
        a.mov(eax, DATA as u32).unwrap();
        a.mov(edx, 0x8000_0000_u32).unwrap();
        a.call(TABLE).unwrap();
        a.jmp(LINEAR).unwrap();
    });
    m
}

/// Runs until the instruction at [`LINEAR`] is over, whose sum is 80000000h + 80000000h: CF, PF, ZF and OF.
fn add_behind_the_walk(mut m: Machine, mut run: impl FnMut(&mut Machine) -> Exit) {
    let mut ends = Vec::new();
    while m.cpu.rip != LINEAR + 2 {
        assert!(ends.len() < 8, "{ends:x?}");
        assert_eq!(run(&mut m), Exit::Leave, "{ends:x?}");
        ends.push(m.cpu.rip);
    }
    assert_eq!(m.read_u64(TABLE), TARGET | 0x23);
    assert_eq!((m.cpu.gpr(RDX), m.cpu.rflags()), (0, 0x847));
}

#[test]
fn flags_are_there_where_the_walk_to_the_code_overwrites_code() {
    add_behind_the_walk(machine_whose_walk_overwrites_code(), |m| m.run_until(100));
}

/// The same under a model that enters every block quietly.
#[test]
fn flags_are_there_where_a_modelled_walk_overwrites_code() {
    struct Quiet(u64);
    impl Model for Quiet {
        fn is_attentive(&self) -> bool {
            false
        }
        fn enters_quietly(&mut self) -> bool {
            true
        }
        fn count(&mut self) -> &mut u64 {
            &mut self.0
        }
    }
    let mut translations = Translations::new();
    add_behind_the_walk(machine_whose_walk_overwrites_code(), |m| {
        let observer = AnyModel::watching(Quiet(0));
        let mut cx = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer };
        m.cpu.run(&mut cx, &mut translations, Budget::until(100))
    });
}
