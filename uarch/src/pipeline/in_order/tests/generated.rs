//! Generated programs, on the model and clock by clock.

use pmu_model::Signal;

use super::{
    super::{Access, Outcome, Precision},
    Assembled, P55C, Pipeline, assemble,
    oracle::simulate,
};
use crate::{occurrences::Occurrences, pipeline::Branch};

/// A sequence of numbers that looks random (Marsaglia's xorshift).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Instructions whose operands are filled in: R general, P pointer, M MMX, S x87, D displacement.
const TEMPLATES: &[&str] = &[
    "MOV R, R",
    "MOV R, [P+D]",
    "MOV [P+D], R",
    "MOV [P+D], 7",
    "MOV R, 7",
    "ADD R, R",
    "ADD R, [P+D]",
    "ADD [P+D], R",
    "XOR R, R",
    "CMP R, R",
    "CMP [P+D], R",
    "TEST R, R",
    "TEST EAX, 9",
    "INC R",
    "DEC R",
    "LEA R, [P+P]",
    "NOP",
    "PUSH R",
    "POP R",
    "ADC R, R",
    "SBB R, [P+D]",
    "SHR R, 4",
    "SHR R, CL",
    "ROL R, 1",
    "ROL R, 5",
    "JA 5",
    "JNZ 5",
    "JMP 5",
    "CALL 5",
    "RET",
    "RET 8",
    "BSWAP R",
    "MOVZX R, R",
    "ADD ESP, 8",
    "LOCK ADD [P+D], R",
    "FS MOV R, [P]",
    "O16 MOV R, R",
    "O16 A16 ADD R, [P]",
    "DIV R",
    "CPUID",
    "FADD S",
    "FADD S",
    "FMUL S",
    "FMUL S",
    "FDIV S",
    "FLD [P+D]",
    "FLD S",
    "FSTP [P+D]",
    "FST [P+D]",
    "FXCH S",
    "FXCH S",
    "FXCH S",
    "FILD [P+D]",
    "FISTP [P+D]",
    "FCOM S",
    "PADDW M, M",
    "PADDW M, M",
    "PMULLW M, M",
    "PMULLW M, M",
    "PSLLW M, M",
    "PACKSSWB M, M",
    "MOVQ M, [P+D]",
    "MOVQ [P+D], M",
    "MOVQ [P+D], M",
    "MOVD M, R",
    "PADDW M, [P+D]",
    "EMMS",
];

const REGISTERS: &[&str] = &["EAX", "ECX", "EDX", "EBX", "EBP", "ESI"];
const POINTERS: &[&str] = &["EBX", "ESI", "ESP", "EAX"];

/// A program of so many instructions, of the templates from `first` on, `kinds` of them.
pub(super) fn program(random: &mut Random, instructions: u64, kinds: &[&str]) -> Vec<Assembled> {
    let mut lines = vec![];
    for _ in 0..instructions {
        let template = kinds[random.below(kinds.len() as u64) as usize];
        let mut line = String::new();
        for (n, word) in template.split_inclusive([' ', ',', '+', ']']).enumerate() {
            let (stem, mark) = word.split_at(word.trim_end_matches([' ', ',', '+', ']']).len());
            let (bracket, stem) = if stem.starts_with('[') { stem.split_at(1) } else { ("", stem) };
            let stem = match stem {
                _ if n == 0 => stem.to_string(),
                "R" => REGISTERS[random.below(6) as usize].to_string(),
                "P" => POINTERS[random.below(4) as usize].to_string(),
                "M" => format!("MM{}", random.below(4)),
                "S" => format!("ST{}", 1 + random.below(4)),
                "D" => (1 + random.below(40)).to_string(),
                other => other.to_string(),
            };
            line += &format!("{bracket}{stem}{mark}");
        }
        lines.push(line);
    }
    assemble(&lines.join(";"))
}

/// Lets things happen.
fn disturb(random: &mut Random, program: &mut [Assembled], misses: bool) {
    for step in program {
        if step.instruction.branch != Branch::None {
            step.happened.mispredicted = random.one_in(4);
            step.happened.taken =
                step.instruction.branch == Branch::Unconditional || random.one_in(2);
        }
        if random.one_in(12) {
            step.happened.fetch = 1 + random.below(15);
        }
        if random.one_in(10) {
            step.instruction.length = 7 + random.below(2) as u8;
        }
        step.happened.precision = match random.below(3) {
            0 => Precision::Single,
            1 => Precision::Double,
            _ => Precision::Extended,
        };
        if step.instruction.timing.clocks > 10 {
            step.happened.more = random.below(5);
        }
        for access in &mut step.accesses {
            disturb_access(random, access, misses);
        }
    }
}

fn disturb_access(random: &mut Random, access: &mut Access, misses: bool) {
    access.misaligned = random.one_in(10);
    if !misses {
        return;
    }
    access.walk = if random.one_in(8) { 1 + random.below(10) } else { 0 };
    access.outcome = match access.outcome {
        Outcome::Hit if random.one_in(4) => Outcome::Miss { clocks: 1 + random.below(20) },
        Outcome::Owned if random.one_in(2) => Outcome::Buffered { clocks: 1 + random.below(20) },
        same => same,
    };
}

/// Clocks and signals.
type Outcomes = (u64, Vec<(Signal, u64)>);

/// What the model says, and what comes out clock by clock.
fn outcomes(program: &[Assembled]) -> [Outcomes; 2] {
    let mut pipeline = Pipeline::new(&P55C);
    let mut occurrences = Occurrences::default();
    let mut clocks = 0;
    for step in program {
        clocks += pipeline.retire(&mut occurrences, &step.instruction, &step.execution());
    }
    assert_eq!(clocks, pipeline.clock());
    let fired = Signal::ALL
        .iter()
        .map(|&signal| (signal, occurrences.fired()[signal.index()]))
        .filter(|&(_, n)| n != 0)
        .collect();
    let (expected, expected_fired) = simulate(program);
    [(clocks, fired), (expected, expected_fired.into_iter().collect())]
}

/// Compares the two. What differs is made as short as it goes.
fn compare(program: &[Assembled]) {
    let differ = |program: &[Assembled]| {
        let [model, expected] = outcomes(program);
        model != expected
    };
    if !differ(program) {
        return;
    }
    let mut program = program.to_vec();
    let mut n = 0;
    while n < program.len() {
        let mut shorter = program.clone();
        shorter.remove(n);
        if !shorter.is_empty() && differ(&shorter) {
            program = shorter;
            n = 0;
        } else {
            n += 1;
        }
    }
    for step in &program {
        eprintln!("{}: length {}, {:?}", step.text, step.instruction.length, step.execution());
    }
    let [model, expected] = outcomes(&program);
    assert_eq!(model, expected);
}

fn rounds(seed: u64, instructions: u64, kinds: &[&str], disturbed: bool, misses: bool) {
    let mut random = Random(seed);
    for _ in 0..8000 {
        let instructions = 1 + random.below(instructions);
        let mut program = program(&mut random, instructions, kinds);
        if disturbed {
            disturb(&mut random, &mut program, misses);
        }
        compare(&program);
    }
}

#[test]
fn undisturbed() {
    rounds(1, 24, TEMPLATES, false, false);
}

#[test]
fn disturbed() {
    rounds(2, 24, TEMPLATES, true, false);
}

#[test]
fn with_misses() {
    rounds(3, 24, TEMPLATES, true, true);
}

#[test]
fn integer_only() {
    rounds(4, 40, &TEMPLATES[..34], true, true);
}

#[test]
fn x87_only() {
    rounds(5, 24, &TEMPLATES[40..55], true, true);
}

#[test]
fn mmx_only() {
    rounds(6, 24, &TEMPLATES[55..], true, true);
}

/// The templates are where the tests above cut them.
#[test]
fn templates_are_in_order() {
    assert_eq!(TEMPLATES[33], "ADD ESP, 8");
    assert_eq!(TEMPLATES[40], "FADD S");
    assert_eq!(TEMPLATES[55], "PADDW M, M");
}
