//! Schedules do what the instructions do one by one, from whatever state.

use super::{
    super::{Execution, Schedule},
    Assembled, P55C, Pipeline, assemble, count,
    generated::{Random, program},
};
use crate::{
    occurrences::Occurrences,
    pipeline::{Branch, Instruction, MemoryUse},
};

/// Instructions without LOCK and the like: what a basic block mostly consists of.
const KINDS: &[&str] = &[
    "MOV R, R",
    "MOV R, [P+D]",
    "MOV [P+D], R",
    "ADD R, R",
    "ADD R, [P+D]",
    "ADD [P+D], R",
    "INC R",
    "LEA R, [P+P]",
    "NOP",
    "PUSH R",
    "POP R",
    "SHR R, 4",
    "BSWAP R",
    "O16 MOV R, R",
    "FADD S",
    "FMUL S",
    "FXCH S",
    "FLD [P+D]",
    "FSTP [P+D]",
    "FDIV S",
    "PADDW M, M",
    "PMULLW M, M",
    "MOVQ M, [P+D]",
    "MOVQ [P+D], M",
];

fn instructions(block: &[Assembled]) -> Vec<Instruction> {
    block.iter().map(|step| step.instruction).collect()
}

/// Executes a block with its schedule if that fits, and whether it did.
fn apply(
    schedule: &Schedule,
    pipeline: &mut Pipeline,
    occurrences: &mut Occurrences,
    block: &[Assembled],
) -> Option<u64> {
    schedule.apply(pipeline, occurrences, |n| block[n].accesses[0])
}

fn execute(pipeline: &mut Pipeline, occurrences: &mut Occurrences, block: &[Assembled]) -> u64 {
    let taken = |n: usize| n + 1 == block.len();
    block
        .iter()
        .enumerate()
        .map(|(n, step)| {
            let execution = Execution { taken: taken(n), ..step.execution() };
            pipeline.retire(occurrences, &step.instruction, &execution)
        })
        .sum()
}

#[test]
fn a_loop_is_found_again() {
    let mut block = assemble("ADD EAX, [EBX+4]; INC ECX; DEC EDX; JNZ 5");
    let mut pipeline = Pipeline::new(&P55C);
    let mut occurrences = Occurrences::default();
    let mut schedules: Vec<Schedule> = vec![];
    let mut clocks = vec![];
    for _ in 0..20 {
        block[0].accesses[0].address += 4;
        let found =
            schedules.iter().find_map(|s| apply(s, &mut pipeline, &mut occurrences, &block));
        clocks.push(found.unwrap_or_else(|| {
            schedules.push(Schedule::record(&pipeline, &instructions(&block), true));
            execute(&mut pipeline, &mut occurrences, &block)
        }));
    }
    // Three clocks an iteration, and no further schedule once the FIFO is as full as it gets.
    assert_eq!(clocks[1..], [3; 19]);
    assert!(schedules.len() <= 6, "{}", schedules.len());
    assert_eq!(count(&mut occurrences, pmu_model::Signal::PairV), 40);
}

#[test]
fn a_conflict_of_banks_is_left_to_the_instructions() {
    let block = assemble("MOV EAX, [ESI]; MOV EBX, [ESI+4]");
    let conflict = assemble("MOV EAX, [ESI]; MOV EBX, [ESI+32]");
    let mut pipeline = Pipeline::new(&P55C);
    let mut occurrences = Occurrences::default();
    let schedule = Schedule::record(&pipeline, &instructions(&block), false);
    assert_eq!(apply(&schedule, &mut pipeline.clone(), &mut occurrences, &conflict), None);
    assert_eq!(apply(&schedule, &mut pipeline, &mut occurrences, &block), Some(P55C.refill + 1));
    // Neither does it fit another state.
    assert_eq!(apply(&schedule, &mut pipeline, &mut occurrences, &block), None);
}

/// Blocks of a program executed over and over, with disturbances between, on two pipelines: one executes
/// instructions, the other uses each schedule that fits.
#[test]
fn generated_blocks() {
    let mut random = Random(7);
    let (mut applied, mut recorded) = (0, 0);
    for _ in 0..300 {
        let blocks: Vec<Vec<Assembled>> = (0..4)
            .map(|_| {
                let instructions = 1 + random.below(8);
                let mut block = program(&mut random, instructions, KINDS);
                let last = block.last_mut().unwrap();
                if last.instruction.memory == MemoryUse::None {
                    last.instruction.branch = Branch::Unconditional;
                }
                block
            })
            .collect();
        let mut schedules: Vec<Vec<Schedule>> = vec![vec![]; 4];
        let mut one = Pipeline::new(&P55C);
        let mut two = one.clone();
        let (mut first, mut second) = (Occurrences::default(), Occurrences::default());
        let mut n = 0;
        for _ in 0..100 {
            if random.below(8) == 0 {
                n = random.below(4) as usize;
            }
            let mut block = blocks[n].clone();
            for access in block.iter_mut().flat_map(|step| &mut step.accesses) {
                access.address += 4 * random.below(2);
            }
            let clocks = execute(&mut one, &mut first, &block);
            let found = schedules[n].iter().find_map(|s| apply(s, &mut two, &mut second, &block));
            if let Some(found) = found {
                assert_eq!(found, clocks);
                applied += 1;
            } else {
                let schedule = Schedule::record(&two, &instructions(&block), true);
                schedules[n].push(schedule);
                recorded += 1;
                assert_eq!(execute(&mut two, &mut second, &block), clocks);
            }
            if random.below(20) == 0 {
                disturb(&mut random, &mut one, &mut first, &mut two, &mut second);
            }
        }
        assert_eq!(one.clock(), two.clock());
        assert_eq!(first.fired(), second.fired());
    }
    assert!(applied > recorded, "{applied} applied, {recorded} recorded");
}

/// Buffered writes, long x87 instructions, wrong predictions: the same on both pipelines.
fn disturb(
    random: &mut Random,
    one: &mut Pipeline,
    first: &mut Occurrences,
    two: &mut Pipeline,
    second: &mut Occurrences,
) {
    let mut program = match random.below(4) {
        0 => assemble("MOV [EBX], EAX; MOV [EBX+4], ECX"),
        1 => assemble("FDIV ST1"),
        2 => assemble("JMP 5"),
        _ => assemble("PMULLW MM0, MM1; PMULLW MM2, MM3"),
    };
    for step in &mut program {
        step.happened.mispredicted = step.instruction.branch != Branch::None;
        step.happened.fetch = random.below(4);
        for access in &mut step.accesses {
            access.outcome = super::super::Outcome::Buffered { clocks: 1 + random.below(20) };
        }
        one.retire(first, &step.instruction, &step.execution());
        two.retire(second, &step.instruction, &step.execution());
    }
}
