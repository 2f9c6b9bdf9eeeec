//! Generated programs of one to four threads, on the model and cycle by cycle; and with instructions brought
//! ahead of their turns.

use super::{
    Course, Execution, Out, Step, What, instructions::*, oracle::simulate, run, run_ahead,
};
use crate::pipeline::{Branch, in_order::Precision};

/// A sequence of numbers that looks random (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A register, of few.
    fn register(&mut self) -> u8 {
        self.below(4) as u8
    }
}

/// Which instructions a program has.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Integer,
    Vector,
    X87,
    All,
}

fn instruction(random: &mut Random, kind: Kind) -> Step {
    let kind = match (kind, random.below(8)) {
        (Kind::All, 0..3) => Kind::Integer,
        (Kind::All, 3..6) => Kind::Vector,
        (Kind::All, _) => Kind::X87,
        (_, 0) => Kind::Integer,
        (kind, _) => kind,
    };
    let (a, b, c, d) = (random.register(), random.register(), random.register(), random.register());
    match kind {
        Kind::Integer => match random.below(20) {
            0 => nop(),
            1..5 => add(a, b),
            5..8 => load(a, b),
            8..10 => store(a, b),
            10..13 => add_memory(a, b),
            13 => modify(a, b),
            14 => push(a),
            15 => long(1 + random.below(12) as u16),
            16 => microcode(4 + random.below(20) as u16),
            17 => prefetch(a),
            18 => branch(),
            _ => match random.below(3) {
                0 => serialising(),
                1 => Step { what: What::Delivery, ..nop() },
                _ => halt(random),
            },
        },
        Kind::Vector => match random.below(16) {
            0..4 => arithmetic(a, b, c, None),
            4..6 => arithmetic(a, b, c, Some(d)),
            6 => exponential(a, b),
            7 => compare(a, b, c),
            8..10 => vector_load(a, b),
            10..12 => vector_store(a, b),
            12 => from_mask(a, b),
            13 => to_mask(a, b),
            14 => mask_branch(a),
            _ => gather(a, b, c, d),
        },
        Kind::X87 | Kind::All => match random.below(10) {
            0..3 => fadd(1 + a),
            3..5 => fmul(1 + a),
            5 => fdiv(1 + a),
            6..8 => fxch(1 + a),
            8 => fld(a),
            _ => fstp(a),
        },
    }
}

/// HLT or DELAY.
fn halt(random: &mut Random) -> Step {
    let out = Out { clocks: random.below(60), empties: random.one_in(2) };
    Step { out: Some(out), ..long(1).with(Execution { halts: true, ..Execution::default() }) }
}

/// What happens to it.
fn disturb(random: &mut Random, step: &mut Step) {
    let What::Executes(instruction) = &mut step.what else { return };
    let scalar = &mut instruction.scalar;
    let execution = &mut step.execution;
    if scalar.branch != Branch::None {
        execution.mispredicted = random.one_in(4);
        execution.taken = random.one_in(2);
    }
    if random.one_in(12) {
        execution.fetch = 1 + random.below(15);
    }
    if random.one_in(12) {
        scalar.prefixes.size = random.below(2) as u8;
        scalar.prefixes.other = random.below(3) as u8;
        scalar.prefixes.lock = scalar.prefixes.other > 0 && random.one_in(2);
    }
    scalar.displacement_and_immediate = random.one_in(12);
    execution.precision = match random.below(3) {
        0 => Precision::Single,
        1 => Precision::Double,
        _ => Precision::Extended,
    };
    if scalar.timing.clocks > 3 {
        execution.more = random.below(5);
    }
    use crate::pipeline::MemoryUse;
    if scalar.memory != MemoryUse::None {
        let address = 0x1000 + random.below(0x200);
        let of = if scalar.memory == MemoryUse::Store { write } else { read };
        execution.access = of(address, 1 << random.below(4)).access;
        execution.misaligned = u64::from(random.one_in(10));
        if random.one_in(4) {
            execution.waits = 1 + random.below(40);
        }
    }
}

fn programs(random: &mut Random, kind: Kind, disturbed: bool) -> Vec<Vec<Step>> {
    let threads = 1 + random.below(4);
    let mut program = || {
        let steps = random.below(24);
        let mut program: Vec<Step> = (0..steps).map(|_| instruction(random, kind)).collect();
        if disturbed {
            program.iter_mut().for_each(|step| disturb(random, step));
        }
        // That a step halts is said in two places.
        assert!(program.iter().all(|step| step.execution.halts == step.out.is_some()));
        program
    };
    (0..threads).map(|_| program()).collect()
}

/// Compares the two. What differs is made as short as it goes.
fn check(programs: &[Vec<Step>]) {
    let differ = |programs: &[Vec<Step>]| run(programs) != simulate(programs);
    if !differ(programs) {
        return;
    }
    let mut programs = programs.to_vec();
    let (mut thread, mut n) = (0, 0);
    while thread < programs.len() {
        if n == programs[thread].len() {
            (thread, n) = (thread + 1, 0);
            continue;
        }
        let mut shorter = programs.clone();
        shorter[thread].remove(n);
        if differ(&shorter) {
            programs = shorter;
            (thread, n) = (0, 0);
        } else {
            n += 1;
        }
    }
    let (model, expected) = (run(&programs), simulate(&programs));
    for (thread, program) in programs.iter().enumerate() {
        program.iter().for_each(|step| eprintln!("{thread}: {step:?}"));
    }
    assert_eq!(model, expected);
}

fn rounds(seed: u64, kind: Kind, disturbed: bool) {
    let mut random = Random(seed);
    for _ in 0..6000 {
        check(&programs(&mut random, kind, disturbed));
    }
}

#[test]
fn undisturbed() {
    rounds(1, Kind::All, false);
}

#[test]
fn disturbed() {
    rounds(2, Kind::All, true);
}

#[test]
fn integer_only() {
    rounds(3, Kind::Integer, true);
}

#[test]
fn vector_only() {
    rounds(4, Kind::Vector, true);
}

#[test]
fn x87_only() {
    rounds(5, Kind::X87, true);
}

/// When an instruction issues does not depend on when it is brought.
#[test]
fn instructions_may_be_brought_ahead() {
    let mut random = Random(6);
    for _ in 0..4000 {
        let programs = programs(&mut random, Kind::All, true);
        let mut other = Random(random.below(u64::MAX) | 1);
        let ahead = || match other.one_in(2) {
            true => (0..4).filter(|_| other.one_in(2)).collect(),
            false => vec![],
        };
        assert_eq!(run_ahead(&programs, ahead, || false), run(&programs));
    }
}

/// Nothing depends on how often what is told of a thread ends and goes on at once, where no other one executes.
#[test]
fn a_thread_may_leave_and_come_back() {
    let mut random = Random(9);
    for _ in 0..4000 {
        let programs = &programs(&mut random, Kind::All, true)[..1];
        let mut other = Random(random.below(u64::MAX) | 1);
        assert_eq!(run_ahead(programs, Vec::new, || other.one_in(3)), run(programs));
    }
}

/// What the generator is to compare happens: each signal, and turns that one thread takes from another.
#[test]
fn programs_have_all_there_is() {
    let mut random = Random(2);
    let mut fired = std::collections::BTreeMap::new();
    for _ in 0..2000 {
        for Course { fired: of, .. } in run(&programs(&mut random, Kind::All, true)) {
            of.into_iter().for_each(|(signal, n)| *fired.entry(signal).or_insert(0) += n);
        }
    }
    use pmu_model::Signal::*;
    for signal in [
        PairV,
        PairVMem,
        L1dBankConflict,
        StallAgi,
        StallAgiGather,
        StallVpuRegister,
        StallFrontend,
        EStageBusy,
        MicrocodeBusy,
        VpuOpV,
    ] {
        assert!(fired.get(&signal).is_some_and(|&n: &u64| n > 100), "{signal:?} of {fired:?}");
    }
}
