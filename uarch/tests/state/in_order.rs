//! The in-order pipelines: of one thread and of several.

use uarch::occurrences::Occurrences;
use uarch::part::{in_order_table, knc_pipeline, p55c_pipeline};
use uarch::pipeline::in_order::multithreaded::{self, Core, THREADS, Turn, VectorRegisters};
use uarch::pipeline::in_order::{self, Access, Outcome, Precision, Timing};
use uarch::pipeline::{self, Branch, MemoryUse, Registers};
use uarch::state::{State, Visitor};

use super::{Machine, Random, begin, check, noticed};

/// The timings of some operations, of all forms.
fn timings(rows_of: fn(&str) -> Vec<&'static in_order_table::Row>) -> Vec<Timing> {
    use in_order_table::{Form, Place, Source};
    let names = "Add Mov Push Pop Lea Imul Xchg Shl Jcc Jmp Call Cpuid Movs Fadd Fmul Fdiv Fxch Fld Fst \
                 Fstp Fsqrt Paddb Pmullw Psllw Packsswb Movd Movq Emms Vaddps Vfmadd213ps Vexp223ps Kand \
                 Kmov Vgatherdps Vmovaps Vcmpps";
    let mut all: Vec<Timing> = Vec::new();
    for row in names.split_whitespace().flat_map(rows_of) {
        for place in [Place::Register, Place::Load, Place::Store] {
            for bits in [32, 64, 80] {
                let timing = row.timing(Form { place, source: Source::Plain, bits });
                all.extend(timing.filter(|timing| !all.contains(timing)));
            }
        }
    }
    all
}

/// Chooses the few timings that a program has for a while, so that some of them pair.
fn choose(world: &mut Vec<Timing>, all: &[Timing], random: &mut Random) {
    if world.is_empty() || random.one_in(100) {
        *world = (0..2 + random.below(4)).map(|_| random.of(all)).collect();
    }
    if random.one_in(30) {
        world[0] = random.of(all);
    }
}

/// An instruction that is nothing in particular.
fn instruction(timings: &[Timing], random: &mut Random) -> pipeline::Instruction {
    let register = |random: &mut Random| match random.below(6) {
        0 => Registers::NONE,
        1 => Registers::FLAGS,
        2 => Registers::x87(random.below(8) as u8),
        3 => Registers::mmx(random.below(8) as u8),
        _ => Registers::general(random.below(8) as u8),
    };
    let mut made = pipeline::Instruction::new(random.of(timings));
    made.reads = register(random).union(register(random));
    made.writes = register(random);
    made.address = if random.one_in(2) { register(random) } else { Registers::NONE };
    made.memory =
        random.of(&[MemoryUse::None, MemoryUse::Load, MemoryUse::Store, MemoryUse::Modify]);
    made.predicts_stack_pointer = random.one_in(10);
    made.branch = random.of(&[Branch::None, Branch::None, Branch::None, Branch::Conditional]);
    made.exchanges = match made.timing.pairing {
        in_order::Pairing::Exchange => Some(1 + random.below(7) as u8),
        _ => None,
    };
    made.x87_pops = if made.timing.is_x87() { random.of(&[0, 0, 1, -1]) } else { 0 };
    made.length = 1 + random.below(8) as u8;
    made.prefixes.size = u8::from(random.one_in(10));
    made.prefixes.other = u8::from(random.one_in(10));
    made.displacement_and_immediate = random.one_in(12);
    made.serialises = random.one_in(100);
    made
}

fn precision(random: &mut Random) -> Precision {
    random.of(&[Precision::Single, Precision::Double, Precision::Extended])
}

/// The pipeline of a Pentium.
pub(super) struct InOrder {
    timings: Vec<Timing>,
    pipeline: in_order::Pipeline,
    occurrences: Occurrences,
}

impl InOrder {
    pub(super) fn new() -> Self {
        Self {
            timings: timings(p55c_pipeline::rows_of),
            pipeline: in_order::Pipeline::new(&p55c_pipeline::P55C),
            occurrences: Occurrences::default(),
        }
    }
}

impl State for InOrder {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        self.pipeline.visit(visitor);
        self.occurrences.visit(visitor);
    }
}

impl Machine for InOrder {
    type World = Vec<Timing>;

    fn begin(&mut self, _: &Self::World) {
        begin(&mut self.occurrences, 0);
    }

    fn step(&mut self, world: &mut Vec<Timing>, random: &mut Random) -> Vec<u64> {
        choose(world, &self.timings, random);
        if random.one_in(100) {
            let clocks = match random.one_in(2) {
                true => self.pipeline.deliver(),
                false => {
                    self.pipeline.idle(random.below(90));
                    0
                }
            };
            return vec![clocks];
        }
        let instruction = instruction(world, random);
        let clocks = 1 + random.below(40);
        let outcome = match instruction.memory {
            MemoryUse::Load | MemoryUse::None => {
                random.of(&[Outcome::Hit, Outcome::Hit, Outcome::Miss { clocks }])
            }
            _ => random.of(&[Outcome::Owned, Outcome::Buffered { clocks }]),
        };
        let accesses = [Access {
            address: random.below(128),
            bytes: 1 << random.below(4),
            misaligned: random.one_in(10),
            walk: if random.one_in(10) { 5 } else { 0 },
            outcome,
        }];
        let accesses = if instruction.memory == MemoryUse::None { &[][..] } else { &accesses };
        let execution = in_order::Execution {
            taken: instruction.branch != Branch::None && random.one_in(2),
            mispredicted: instruction.branch != Branch::None && random.one_in(4),
            fetch: if random.one_in(12) { random.below(15) } else { 0 },
            accesses,
            iterations: if random.one_in(10) { random.below(9) } else { 0 },
            precision: precision(random),
            more: if random.one_in(20) { 4 } else { 0 },
        };
        let clocks = self.pipeline.retire(&mut self.occurrences, &instruction, &execution);
        let mut answers = vec![clocks, self.pipeline.clock()];
        answers.extend(noticed(&mut self.occurrences));
        answers
    }

    fn totals(&mut self) -> Vec<u64> {
        self.occurrences.fired().to_vec()
    }
}

/// A core of several threads, of which some execute.
pub(super) struct Multithreaded<const EXECUTE: usize> {
    timings: Vec<Timing>,
    core: Core,
    occurrences: [Occurrences; THREADS],
}

impl<const EXECUTE: usize> Multithreaded<EXECUTE> {
    pub(super) fn new() -> Self {
        Self {
            timings: timings(knc_pipeline::rows_of),
            core: Core::new(&knc_pipeline::KNC),
            occurrences: Default::default(),
        }
    }

    fn bring(&mut self, thread: usize, world: &[Timing], random: &mut Random) -> Option<u64> {
        let occurrences = &mut self.occurrences[thread];
        if random.one_in(60) {
            self.core.deliver(thread, occurrences);
            return None;
        }
        let scalar = instruction(world, random);
        let registers = |random: &mut Random| match random.below(4) {
            0 => VectorRegisters::mask(random.below(4) as u8),
            1 => VectorRegisters::NONE,
            _ => VectorRegisters::zmm(random.below(6) as u8),
        };
        let instruction = match scalar.timing.is_vector() {
            true => {
                let (reads, writes) = (registers(random), registers(random));
                multithreaded::Instruction::new(scalar, reads, writes, registers(random))
            }
            false => multithreaded::Instruction::scalar(scalar),
        };
        let execution = multithreaded::Execution {
            taken: random.one_in(8),
            mispredicted: random.one_in(20),
            fetch: if random.one_in(12) { random.below(15) } else { 0 },
            access: random.one_in(2).then(|| multithreaded::Access {
                address: random.below(256),
                bytes: 8,
                writes: random.one_in(2),
            }),
            misaligned: u64::from(random.one_in(12)),
            waits: if random.one_in(6) { random.below(60) } else { 0 },
            iterations: if random.one_in(10) { random.below(9) } else { 0 },
            precision: precision(random),
            more: if random.one_in(20) { 4 } else { 0 },
            halts: random.one_in(40),
        };
        self.core.bring(thread, occurrences, &instruction, &execution)
    }
}

impl<const EXECUTE: usize> State for Multithreaded<EXECUTE> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        self.core.visit(visitor);
        self.occurrences.visit(visitor);
    }
}

impl<const EXECUTE: usize> Machine for Multithreaded<EXECUTE> {
    type World = Vec<Timing>;

    fn begin(&mut self, _: &Self::World) {
        for (thread, occurrences) in self.occurrences.iter_mut().enumerate() {
            begin(occurrences, thread);
        }
    }

    fn step(&mut self, world: &mut Vec<Timing>, random: &mut Random) -> Vec<u64> {
        choose(world, &self.timings, random);
        let next = self.core.next_at();
        let mut answers = vec![next.map_or(0, |(cycle, _)| cycle)];
        let thread = random.below(EXECUTE as u64) as usize;
        let goes_on = random.one_in(15);
        if !self.core.runs(thread) && (goes_on || next.is_none()) {
            let cycle = self.core.now() + random.below(80);
            match random.one_in(2) {
                true => self.core.start(thread, cycle),
                false => self.core.resume(thread, cycle),
            }
        } else if goes_on && random.one_in(5) && self.core.runs(thread) {
            self.core.stop(thread);
        } else if goes_on && self.core.runs(thread) && !self.core.holds(thread) {
            // Before it is asked for.
            answers.extend(self.bring(thread, world, random));
        } else {
            match next {
                None => {}
                Some((_, Turn::Bring(thread))) => answers.extend(self.bring(thread, world, random)),
                Some((_, Turn::Issue(thread))) => {
                    let mut fired = [0; 3];
                    let occurrences = &mut self.occurrences[thread];
                    let at = self.core.issue(thread, occurrences, &mut fired);
                    answers.push(at);
                    answers.extend(fired);
                }
            }
        }
        for thread in 0..THREADS {
            answers.extend([self.core.clock(thread), self.core.runs(thread).into()]);
            answers.extend(noticed(&mut self.occurrences[thread]));
        }
        answers.push(self.core.now());
        answers
    }

    fn totals(&mut self) -> Vec<u64> {
        self.occurrences.iter_mut().flat_map(|of| *of.fired()).collect()
    }
}

#[test]
fn pipelines_in_order_go_on() {
    for seed in 1..9 {
        check("p55c", InOrder::new, 9_000, 12, seed);
    }
}

#[test]
fn cores_of_several_threads_go_on() {
    for seed in 1..5 {
        check("knc, one thread", Multithreaded::<1>::new, 9_000, 12, seed);
        check("knc, two threads", Multithreaded::<2>::new, 9_000, 12, seed);
        check("knc, three threads", Multithreaded::<3>::new, 9_000, 12, seed);
        check("knc, four threads", Multithreaded::<4>::new, 9_000, 12, seed);
    }
}
