//! Knights Corner's vector unit against a reference of its own.
//!
//! A case is one random instruction with a VEX or MVEX prefix and random operands, of which many are zeros,
//! denormals, infinities, NaNs and limits. The reference computes what it leaves in registers and memory, or
//! how it faults, from the instruction's definition, lane by lane; floating point is computed without error
//! in fixed point and rounded once ([`exact`]). It shares nothing with the processor: neither decoder nor
//! arithmetic. Whether it is right is asked of the host's processor ([`silicon`]) and of what programs use
//! the instructions for ([`idioms`]).
//!
//! `VPMU_VECTOR_CASES` sets the number of cases (two million by default), `VPMU_VECTOR_SEED` the seed, and
//! `VPMU_VECTOR_CASE` runs one of them only.

mod approximation;
mod arithmetic;
mod case;
mod catalogue;
mod compare;
mod encode;
mod exact;
mod exact_tests;
mod float;
mod generate;
mod hostile;
mod idioms;
mod indexed;
mod machine;
mod masks;
#[path = "../system/memory.rs"]
mod memory;
mod place;
mod random;
mod reference;
mod rows;
mod sequences;
mod silicon;
mod state;
mod stream;
mod tables;
mod transfer;

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;

use case::{End, Expected};
use compare::{Compared, difference};
use machine::Machine;
use random::Random;
use state::{ARENA, Arena, UD};

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.replace('_', "").parse().ok())
}

/// An instruction of either kind.
enum Instruction {
    Vector(case::Vector),
    Mask(masks::Case),
}

impl Instruction {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Vector(c) => &c.bytes,
            Self::Mask(c) => &c.bytes,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Vector(c) => &c.row.name,
            Self::Mask(c) => &c.row.name,
        }
    }
}

/// What a case was, and what came of it.
struct Outcome {
    row: usize,
    /// Whether the instruction is expected to retire.
    retired: bool,
    /// The vector of the fault that is expected.
    fault: Option<u8>,
    /// Flags of VXCSR that it is expected to set.
    raised: u32,
    difference: Option<String>,
}

/// Everything that lives as long as the test.
struct Test {
    vectors: Vec<catalogue::Row>,
    masks: Vec<masks::Row>,
    machine: Machine,
    arena: Arena,
}

impl Test {
    fn new() -> Self {
        let test = Self {
            vectors: rows::rows(),
            masks: masks::rows(),
            machine: Machine::new(),
            arena: Arena::new(),
        };
        test.machine.write(ARENA, &test.arena.bytes);
        test
    }

    fn run(&mut self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let mut r = generate::registers(&mut random);
        self.arena.written.clear();
        let n = random.below((self.vectors.len() + self.masks.len()) as u64) as usize;
        let instruction = if let Some(row) = self.vectors.get(n) {
            Instruction::Vector(generate::vector(row, &mut r, &mut self.arena, &mut random))
        } else {
            let row = &self.masks[n - self.vectors.len()];
            let c = masks::Case::random(row, &mut random);
            c.prepare(&mut r, &mut random);
            Instruction::Mask(c)
        };
        for &(at, size) in &self.arena.written {
            let from = (at - ARENA) as usize;
            self.machine.write(at, &self.arena.bytes[from..from + size]);
        }
        self.machine.write(r.rip, instruction.bytes());
        let before = r.clone();
        let next = r.rip + instruction.bytes().len() as u64;
        r.rip = next;
        let mut preference = None;
        let expected = match &instruction {
            Instruction::Vector(c) => reference::execute(c, &mut r, &mut self.arena, next),
            Instruction::Mask(c) if !c.is_valid() => Expected::new(End::Faults(UD)),
            Instruction::Mask(c) => {
                preference = c.execute(&mut r, next);
                Expected::new(End::Retires)
            }
        };
        if expected.end != End::Retires {
            r.rip = before.rip;
        }
        self.machine.load(&before);
        let (actual, fault) = self.machine.execute(random.once_in(2));
        let compared = Compared {
            instruction: &instruction,
            before: &before,
            expected: &expected,
            reference: &r,
            actual: &actual,
            fault,
            preferences: [preference, self.machine.take_preference()],
        };
        let fault = match expected.end {
            End::Faults(fault) => Some(fault.vector),
            End::Retires | End::Open => None,
        };
        Outcome {
            row: n,
            retired: expected.end == End::Retires,
            fault,
            raised: r.vxcsr & !before.vxcsr,
            difference: difference(&compared, &mut self.arena, &self.machine, seed),
        }
    }

    fn name(&self, n: usize) -> &str {
        match self.vectors.get(n) {
            Some(row) => &row.name,
            None => &self.masks[n - self.vectors.len()].name,
        }
    }
}

/// What came of many cases.
struct Tally {
    /// By the names of instructions: how many cases differed, and the shortest account of one.
    differences: BTreeMap<String, (u64, String)>,
    /// How often each instruction retired, each fault came and each flag of VXCSR was set.
    retired: Vec<u64>,
    faults: BTreeMap<u8, u64>,
    raised: [u64; 6],
}

impl Tally {
    fn new(instructions: usize) -> Self {
        Self {
            differences: BTreeMap::new(),
            retired: vec![0; instructions],
            faults: BTreeMap::new(),
            raised: [0; 6],
        }
    }

    /// Runs the cases of these seeds.
    fn of(seeds: Range<u64>) -> Self {
        let mut test = Test::new();
        let mut tally = Self::new(test.vectors.len() + test.masks.len());
        for seed in seeds {
            let outcome = test.run(seed);
            tally.retired[outcome.row] += u64::from(outcome.retired);
            if let Some(vector) = outcome.fault {
                *tally.faults.entry(vector).or_default() += 1;
            }
            for (n, raised) in tally.raised.iter_mut().enumerate() {
                *raised += u64::from(outcome.raised >> n & 1);
            }
            if let Some(difference) = outcome.difference {
                tally.differs(test.name(outcome.row).to_owned(), 1, difference);
            }
        }
        tally
    }

    /// So many more cases of an instruction differed, one of them so.
    fn differs(&mut self, name: String, count: u64, difference: String) {
        let entry = self.differences.entry(name).or_insert_with(|| (0, difference.clone()));
        entry.0 += count;
        if difference.len() < entry.1.len() {
            entry.1 = difference;
        }
    }

    /// The same with what came of others.
    fn with(mut self, other: Self) -> Self {
        for (name, (count, difference)) in other.differences {
            self.differs(name, count, difference);
        }
        self.retired.iter_mut().zip(other.retired).for_each(|(n, more)| *n += more);
        for (vector, times) in other.faults {
            *self.faults.entry(vector).or_default() += times;
        }
        self.raised.iter_mut().zip(other.raised).for_each(|(n, more)| *n += more);
        self
    }
}

/// In two halves at once.
#[test]
fn random_instructions_do_what_their_definitions_say() {
    let cases = setting("VPMU_VECTOR_CASES").unwrap_or(2_000_000);
    let first = setting("VPMU_VECTOR_SEED").unwrap_or(1) << 32;
    let only = setting("VPMU_VECTOR_CASE");
    let seeds = only.map_or(first..first + cases, |case| case..case + 1);
    let half = seeds.start + (seeds.end - seeds.start) / 2;
    let later = thread::spawn(move || Tally::of(half..seeds.end));
    let earlier = Tally::of(seeds.start..half);
    let tally = earlier.with(later.join().expect("the other half"));
    let Tally { differences, retired, faults, raised } = tally;
    for (name, (count, first)) in &differences {
        println!("{name}: {count} differences, one of them:\n{first}");
    }
    let least = retired.iter().min().copied().unwrap_or(0);
    println!("{cases} cases; each of {} instructions retired {least} times or more", retired.len());
    println!("faults by vector: {faults:?}; flags IE, DE, ZE, OE, UE, PE raised {raised:?} times");
    assert!(differences.is_empty(), "{} instructions differ", differences.len());
    if only.is_some() || cases < 20_000 {
        return;
    }
    // The test is worth something only if everything is tried: each instruction has its share of cases, of
    // which a half at least have to retire, and no fault and no flag is rare.
    let enough = cases / retired.len() as u64 / 2;
    let test = Test::new();
    for (n, &times) in retired.iter().enumerate() {
        assert!(times >= enough, "{} retired {times} times, not {enough}", test.name(n));
    }
    for vector in [6, 7, 12, 13, 14] {
        let times = faults.get(&vector).copied().unwrap_or(0);
        assert!(times >= cases / 4000, "vector {vector} was raised {times} times");
    }
    assert!(raised.iter().all(|&times| times >= cases / 1000), "{raised:?}");
}
