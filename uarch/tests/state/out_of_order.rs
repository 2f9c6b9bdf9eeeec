//! The out-of-order pipelines, with the stores that they forward from.

use uarch::occurrences::Occurrences;
use uarch::part::pipelines::{K7, K8, P6, PM};
use uarch::pipeline::out_of_order::{
    Core as Figures, Execution, Instruction, Misprediction, Operands, Pipeline, RecentStores,
    table::Row,
};
use uarch::state::{State, Visitor};

use super::{Machine, Random, begin, check, noticed};

/// An out-of-order pipeline, and the stores that it forwards from.
pub(super) struct OutOfOrder {
    core: &'static Figures,
    rows: Vec<&'static Row>,
    pipeline: Pipeline,
    stores: RecentStores,
    /// The instruction that was executed last: it may have further iterations.
    last: Instruction,
    occurrences: Occurrences,
}

impl OutOfOrder {
    pub(super) fn new(core: &'static Figures) -> Self {
        let rows: Vec<&Row> = core.table.rows.iter().copied().flatten().collect();
        Self {
            core,
            pipeline: Pipeline::new(core),
            stores: RecentStores::new(core.forwarding),
            last: Instruction::new(core, rows[0], &Operands::default()),
            rows,
            occurrences: Occurrences::default(),
        }
    }
}

impl State for OutOfOrder {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { core, rows: _, pipeline, stores, last, occurrences } = self;
        pipeline.visit(visitor);
        stores.visit(visitor);
        last.visit(visitor, core);
        occurrences.visit(visitor);
    }
}

/// Where the program is, and how many cycles of retirement were seen.
#[derive(Default)]
pub(super) struct Course {
    address: u64,
    seen: usize,
    steps: u64,
}

impl Machine for OutOfOrder {
    type World = Course;

    fn begin(&mut self, _: &Self::World) {
        begin(&mut self.occurrences, 0);
    }

    fn step(&mut self, course: &mut Course, random: &mut Random) -> Vec<u64> {
        course.steps += 1;
        if random.one_in(100) {
            self.pipeline.idle_until(self.pipeline.now() + random.below(5_000));
            return vec![self.pipeline.now()];
        }
        // In turns operations of one kind alone, which fill a scheduler or a queue, and with many things that
        // happen.
        let filling = course.steps / 100 % 4;
        let rows: Vec<&Row> = match filling {
            0 => self.rows_of(|row| row.operations.iter().any(|of| of.float && of.loads == 0)),
            1 => self.rows_of(|row| row.operations.iter().any(|of| of.stores == 1)),
            _ => self.rows.clone(),
        };
        const GENERAL: u64 = 0xFFFF;
        const X87: u64 = 0xFF << 16;
        let operands = Operands {
            sources: random.next() & random.next() & (GENERAL | X87),
            address: random.next() & random.next() & GENERAL,
            // As an exchange has two.
            destinations: 3 << random.below(20),
            partial: if random.one_in(4) { 1 << random.below(4) } else { 0 },
            whole: if random.one_in(4) { GENERAL } else { 0 },
            pushes: random.of(&[0, 0, 0, 1, -1]),
            zeroes: random.one_in(10),
            length: 1 + random.below(15) as u8,
            length_changes: random.one_in(20),
        };
        let continued = random.one_in(20);
        if !continued {
            self.last = Instruction::new(self.core, random.of(&rows), &operands);
        }
        let rare = |random: &mut Random| {
            if random.one_in(16) { 1 + random.below(2_500) as u32 } else { 0 }
        };
        let iterations = if random.one_in(10) { random.below(5) as u32 } else { 0 };
        self.stores.begin(self.last.stores(iterations));
        let near = random.below(64) * 4 + random.below(2) * 4096;
        let forwarding = self.stores.load(near, random.of(&[1, 4, 8, 16]));
        for _ in 0..self.last.stores(iterations).min(3) {
            let to = random.below(64) * 4 + random.below(2) * 4096;
            self.stores.store(to, random.of(&[1, 4, 8, 16]), random.one_in(5));
        }
        let execution = Execution {
            address: course.address,
            fetch_delay: rare(random),
            load_address: near,
            load_delay: rare(random),
            store_delay: if filling == 1 { 200 } else { rare(random) },
            forwarding,
            taken: random.one_in(6),
            misprediction: match random.below(40) {
                0 => Misprediction::Decoder,
                1 => Misprediction::Execution,
                _ => Misprediction::None,
            },
            locked: random.one_in(40),
            resync: random.one_in(100),
            float_exception: random.one_in(100),
            iterations,
            continued,
            segment: random.below(6) as u8,
        };
        course.address += u64::from(operands.length);
        let retired = self.pipeline.execute(&self.last, &execution, &mut self.occurrences);
        self.stores.executed();
        let mut answers = vec![retired];
        if random.one_in(8) {
            let (cycles, seen) = self.pipeline.retirement(course.seen);
            answers.extend(cycles.flat_map(|(cycle, n)| [cycle, n.into()]));
            course.seen = seen;
        }
        answers.extend([self.pipeline.now(), self.pipeline.dispatched()]);
        answers.extend(noticed(&mut self.occurrences));
        answers
    }

    fn totals(&mut self) -> Vec<u64> {
        self.occurrences.fired().to_vec()
    }
}

impl OutOfOrder {
    /// The rows that are, or all if none are.
    fn rows_of(&self, is: impl Fn(&Row) -> bool) -> Vec<&'static Row> {
        let some: Vec<_> = self.rows.iter().copied().filter(|row| is(row)).collect();
        if some.is_empty() { self.rows.clone() } else { some }
    }
}

/// Each core out of order.
pub(super) const CORES: [(&str, &Figures); 4] =
    [("p6", &P6), ("pm", &PM), ("k7", &K7), ("k8", &K8)];

#[test]
fn pipelines_out_of_order_go_on() {
    for (name, core) in CORES {
        for seed in 1..6 {
            check(name, || OutOfOrder::new(core), 6_000, 25, seed);
        }
    }
}
