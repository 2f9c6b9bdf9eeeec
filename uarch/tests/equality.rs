//! The model of out-of-order pipelines against one that simulates every cycle, on generated programs.

mod oracle;

use oracle::{Step, run};
use pmu_model::Signal;
use uarch::{
    occurrences::Occurrences,
    part::pipelines::{K7, K8, P6, PM},
    pipeline::out_of_order::{
        Core, Execution, Forwarding, Instruction, Misprediction, Operands, Pipeline, registers,
        table::{Form, Shape, Variant, Width, behaviour},
    },
};

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// Instructions that programs are made of.
const INSTRUCTIONS: &[(&str, Form, Width)] = &[
    ("Add", Form::RegReg, Width::Bits32),
    ("Add", Form::RegMem, Width::Bits32),
    ("Add", Form::MemReg, Width::Bits32),
    ("Mov", Form::RegReg, Width::Bits32),
    ("Mov", Form::RegMem, Width::Bits32),
    ("Mov", Form::RegMem, Width::Bits8),
    ("Mov", Form::MemReg, Width::Bits32),
    ("Lea", Form::RegMem, Width::Bits32),
    ("Imul", Form::RegReg, Width::Bits32),
    ("Imul", Form::RegMem, Width::Bits32),
    ("Idiv", Form::Reg, Width::Bits8),
    ("Bsf", Form::RegReg, Width::Bits32),
    ("Push", Form::Reg, Width::Bits32),
    ("Pop", Form::Reg, Width::Bits32),
    ("Xchg", Form::RegReg, Width::Bits32),
    ("Shld", Form::RegReg, Width::Bits32),
    ("Movs", Form::None, Width::Bits32),
    ("Pusha", Form::None, Width::Bits32),
    ("Nop", Form::None, Width::Bits32),
    ("Fadd", Form::RegReg, Width::Bits80),
    ("Fadd", Form::Mem, Width::Bits64),
    ("Fmul", Form::RegReg, Width::Bits80),
    ("Fdiv", Form::RegReg, Width::Bits80),
    ("Fstp", Form::Mem, Width::Bits64),
    ("Fld", Form::Mem, Width::Bits64),
    ("Paddb", Form::RegReg, Width::Bits64),
    ("Mulps", Form::RegReg, Width::Bits128),
    ("Addps", Form::RegMem, Width::Bits128),
    ("Movaps", Form::MemReg, Width::Bits128),
    ("Mfence", Form::None, Width::Bits32),
];

/// A program: what it is made of, how far apart its dependences are and what goes wrong in it differ.
fn program(core: &Core, random: &mut Random, steps: usize) -> Vec<Step> {
    let kinds: Vec<_> = (0..=random.below(6)).map(|_| *random.of(INSTRUCTIONS)).collect();
    let registers = 1 + random.below(8);
    let trouble = 2 + random.below(30);
    let mut address = random.below(16);
    let mut program = Vec::new();
    for _ in 0..steps {
        let (name, form, width) =
            if random.one_in(4) { *random.of(INSTRUCTIONS) } else { *random.of(&kinds) };
        let branch = random.one_in(9);
        let (name, form) = if branch { ("Jcc", Form::None) } else { (name, form) };
        let repeated = name == "Movs" && random.one_in(2);
        let variant = if repeated { Variant::Repeated } else { Variant::Plain };
        let shape = Shape { form, width, variant };
        let Some(row) = core.table.look_up(name, shape) else { continue };
        let register = |random: &mut Random| match random.below(registers) {
            n if n == u64::from(registers::STACK_POINTER) => 1 << 9,
            n => 1 << n,
        };
        let stack =
            if row.behaviour & behaviour::STACK != 0 { 1 << registers::STACK_POINTER } else { 0 };
        let destinations = if branch || random.one_in(8) { 0 } else { register(random) };
        let longest = if random.one_in(5) { 15 } else { 5 };
        let operands = Operands {
            sources: register(random) | register(random) | stack,
            address: if stack != 0 { stack } else { register(random) },
            destinations: destinations | stack,
            length: 1 + random.below(longest) as u8,
            ..Operands::default()
        };
        let mut execution =
            Execution { address, load_address: random.below(64) * 8, ..Execution::default() };
        if repeated {
            execution.iterations = random.below(20) as u32;
        }
        if random.one_in(trouble) {
            execution.load_delay = *random.of(&[1, 9, 40, 200]);
        }
        if random.one_in(trouble) {
            execution.store_delay = *random.of(&[1, 9, 40, 200]);
        }
        if random.one_in(trouble) {
            let back = random.below(4) as u8;
            execution.forwarding = *random.of(&[Forwarding::From(back), Forwarding::Blocked(back)]);
        }
        if branch {
            execution.taken = random.one_in(2);
            if random.one_in(trouble) {
                execution.misprediction =
                    *random.of(&[Misprediction::Decoder, Misprediction::Execution]);
            }
        }
        program.push(Step { row, operands, execution });
        address += u64::from(operands.length);
        let goes = execution.taken || execution.misprediction != Misprediction::None;
        if goes {
            address = random.below(4096);
        }
    }
    // The instruction that begins a window may wait for it.
    let mut window = None;
    for step in &mut program {
        let first = step.execution.address >> core.fetch.window_shift;
        if window != Some(first) && random.one_in(trouble) {
            step.execution.fetch_delay = *random.of(&[1, 12, 150]);
        }
        let end = step.execution.address + u64::from(step.operands.length) - 1;
        let goes = step.execution.taken || step.execution.misprediction != Misprediction::None;
        window = (!goes).then_some(end >> core.fetch.window_shift);
    }
    program
}

fn compare(core: &'static Core, seed: u64, rounds: usize) {
    let mut random = Random(seed);
    for round in 0..rounds {
        let steps = 1 + random.below(160) as usize;
        let program = program(core, &mut random, steps);
        let expected = run(core, &program);
        let mut pipeline = Pipeline::new(core);
        let mut occurrences = Occurrences::default();
        let mut retired = Vec::new();
        for step in &program {
            let instruction = Instruction::new(core, step.row, &step.operands);
            retired.push(pipeline.execute(&instruction, &step.execution, &mut occurrences));
        }
        if retired != expected.retired {
            let n = retired.iter().zip(&expected.retired).position(|(a, b)| a != b).unwrap();
            for (n, step) in program[..=n].iter().enumerate() {
                println!(
                    "{n}: {:?} {:?}\n   {:?}\n   {} {}",
                    step.row.names, step.operands, step.execution, retired[n], expected.retired[n]
                );
            }
            panic!("round {round}: {n} of {}: {} {}", steps, retired[n], expected.retired[n]);
        }
        let mut fired = |signal: Signal| occurrences.fired()[signal.index()];
        if core.stalls.reorder_buffer.is_some() {
            let lacked = [
                fired(Signal::StallRobFull),
                fired(Signal::StallRsFull),
                fired(Signal::StallFpuFull),
                fired(Signal::StallLsFull),
            ];
            assert_eq!(lacked, expected.lacked, "round {round}");
            assert_eq!(fired(Signal::StallLs2Full), expected.second_full, "round {round}");
        }
    }
}

#[test]
fn k8_equals_the_simulation_of_every_cycle() {
    compare(&K8, 0x9e37_79b9_7f4a_7c15, 150);
}

#[test]
fn p6_equals_the_simulation_of_every_cycle() {
    compare(&P6, 0xd1b5_4a32_d192_ed03, 150);
}

#[test]
fn pm_equals_the_simulation_of_every_cycle() {
    compare(&PM, 0x94d0_49bb_1331_11eb, 150);
}

#[test]
fn k7_equals_the_simulation_of_every_cycle() {
    compare(&K7, 0xbf58_476d_1ce4_e5b9, 150);
}
