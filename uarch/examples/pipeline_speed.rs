//! How long the host takes for an instruction of the modelled out-of-order pipelines: nanoseconds of
//! processor time, by part. On Linux. `cargo run --release -p uarch --example pipeline_speed`.
//!
//! Under `valgrind --tool=callgrind` with a part's name as argument, a single pass through its
//! instructions is run.

use std::hint::black_box;

use uarch::occurrences::Occurrences;
use uarch::part::pipelines::{K7, K8, P6, PM};
use uarch::pipeline::out_of_order::{
    Core, Execution, Instruction, Misprediction, Operands, Pipeline, registers,
    table::{Form, Shape, Variant, Width},
};

const ROUNDS: u64 = 100_000;
const REPETITIONS: usize = 5;

const EAX: u64 = 1 << 0;
const ECX: u64 = 1 << 1;
const EDX: u64 = 1 << 2;
const EBX: u64 = 1 << 3;
const ESP: u64 = 1 << 4;
const EBP: u64 = 1 << 5;
const ESI: u64 = 1 << 6;
const EDI: u64 = 1 << 7;
const FLAGS: u64 = 1 << registers::CARRY | 1 << registers::STATUS;

/// An instruction of the loop: name, form, sources, address, destinations, length.
type Row = (&'static str, Form, u64, u64, u64, u8);

/// Integer code as compilers make it: of 20 instructions six load, three store and four branch.
const LOOP: &[Row] = &[
    ("Mov", Form::RegMem, 0, ESI, EAX, 3),
    ("Add", Form::RegImm, EAX, 0, EAX | FLAGS, 3),
    ("Mov", Form::RegMem, 0, EBP, ECX, 3),
    ("Cmp", Form::RegReg, EAX | ECX, 0, FLAGS, 2),
    ("Jcc", Form::None, FLAGS, 0, 0, 2),
    ("Lea", Form::RegMem, 0, EAX | ECX, EDX, 3),
    ("Mov", Form::MemReg, EDX, EDI, 0, 3),
    ("Test", Form::RegReg, EDX, 0, FLAGS, 2),
    ("Jcc", Form::None, FLAGS, 0, 0, 2),
    ("Movzx", Form::RegMem, 0, ESI | EAX, EBX, 4),
    ("And", Form::RegImm, EBX, 0, EBX | FLAGS, 3),
    ("Push", Form::Reg, EBX | ESP, ESP, ESP, 1),
    ("Mov", Form::RegReg, EDX, 0, EAX, 2),
    ("Shl", Form::RegImm, EAX, 0, EAX | FLAGS, 3),
    ("Add", Form::RegMem, EAX, EBP, EAX | FLAGS, 3),
    ("Pop", Form::Reg, ESP, ESP, EBX | ESP, 1),
    ("Xor", Form::RegReg, EBX | EAX, 0, EBX | FLAGS, 2),
    ("Mov", Form::MemReg, EBX, EBP, 0, 3),
    ("Dec", Form::Reg, ECX, 0, ECX | FLAGS, 1),
    ("Jcc", Form::None, FLAGS, 0, 0, 2),
];

fn instruction(core: &Core, row: &Row) -> Instruction {
    let &(name, form, sources, address, destinations, length) = row;
    let shape = Shape { form, width: Width::Bits32, variant: Variant::Plain };
    let row = core.table.look_up(name, shape).expect("the table has the instruction");
    let operands = Operands { sources, address, destinations, length, ..Operands::default() };
    Instruction::new(core, row, &operands)
}

/// Executes the loop so many times; now and then a load misses or the branch back is mispredicted.
fn run(core: &'static Core, rounds: u64) -> u64 {
    let instructions: Vec<_> = LOOP.iter().map(|row| instruction(core, row)).collect();
    let mut pipeline = Pipeline::new(core);
    let mut occurrences = Occurrences::default();
    for round in 0..rounds {
        let mut address = 0x1000;
        for (n, (instruction, row)) in instructions.iter().zip(LOOP).enumerate() {
            let mut execution =
                Execution { address, load_address: round * 8, ..Execution::default() };
            address += u64::from(row.5);
            if n == 0 && round % 16 == 0 {
                execution.load_delay = 10;
            }
            if n + 1 == LOOP.len() {
                execution.taken = true;
                if round % 20 == 0 {
                    execution.misprediction = Misprediction::Execution;
                }
            }
            pipeline.execute(instruction, &execution, &mut occurrences);
        }
    }
    pipeline.now()
}

/// Nanoseconds that this process has been executed.
fn processor_time() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has it");
    statistics.split(' ').next().and_then(|time| time.parse().ok()).expect("a number comes first")
}

fn main() {
    let parts = [("k7", &K7), ("k8", &K8), ("p6", &P6), ("pm", &PM)];
    if let Some(wanted) = std::env::args().nth(1) {
        for (_, core) in parts.iter().filter(|(name, _)| *name == wanted) {
            println!("{} cycles", run(core, 5_000));
        }
        return;
    }
    println!("part  ns/instruction  cycles/instruction");
    for (name, core) in parts {
        let instructions = (ROUNDS * LOOP.len() as u64) as f64;
        let time = || {
            let begin = processor_time();
            let cycles = black_box(run(core, ROUNDS));
            (processor_time() - begin, cycles)
        };
        let runs: Vec<_> = (0..REPETITIONS).map(|_| time()).collect();
        // The best, as other processes slow the rest down.
        let best = runs.iter().map(|&(time, _)| time).fold(f64::INFINITY, f64::min);
        let cycles = runs[0].1 as f64;
        println!("{name:4}  {:14.1}  {:18.2}", best / instructions, cycles / instructions);
    }
}
