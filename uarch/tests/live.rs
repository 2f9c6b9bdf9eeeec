//! What the models of a part fire, of what its events select, is what its personality has live beyond the
//! instruction set. A signal that is live and never fired would be an event that counts zero without a
//! word; one that is fired and not live, an event that waits for nothing.
//!
//! Two cores do all that [`System`] can be told of, at random, in few lines of memory of each type; what that
//! has fired is compared. Of a core with several threads, any may be the one that acts.

use pmu_model::{Personality, Signal, SignalSet, Tier, UmaskRule};
use uarch::branch::{Transfer, TransferKind};
use uarch::cache::{Hint, Kind, MemoryType};
use uarch::occurrences::Occurrences;
use uarch::part::{self, Part, Pipeline};
use uarch::pipeline::out_of_order::{
    Core, Execution, Forwarding, Instruction, MacroOp, Misprediction, Operands,
    Pipeline as OutOfOrder, table::Row,
};
use uarch::system::{DataAccess, Fetch, Operation, PageTables, System, Walk};
use uarch::tlb::{Page, PageSize};

/// Each modelled part, by the name of its personality.
const PARTS: [(&str, &Part); 8] = [
    ("p55c", &part::P55C),
    ("ppro", &part::PPRO),
    ("pii", &part::PII),
    ("p6", &part::P6),
    ("pm", &part::PM),
    ("k7", &part::K7),
    ("k8", &part::K8),
    ("knc", &part::KNC),
];

/// Where the memory ends: more than one chip select of each part has.
const MEMORY: u64 = 4 << 30;
/// Where the page tables are.
const TABLES: u64 = 64 << 20;
/// Bytes of linear memory of one type.
const REGION: u64 = 8 << 20;
const TYPES: [MemoryType; 5] = [
    MemoryType::WriteBack,
    MemoryType::WriteThrough,
    MemoryType::WriteProtected,
    MemoryType::Uncacheable,
    MemoryType::WriteCombining,
];
const STEPS: u64 = 300_000;

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

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Small pages, in which linear addresses are guest-physical ones, a region of each type of memory.
struct Tables;

impl PageTables for Tables {
    fn walk(&self, linear: u64) -> Option<Walk> {
        let page = Page { size: PageSize::Kib4, global: linear & 0x1000 != 0 };
        let directory = TABLES + (linear >> 22) * 4;
        let table = TABLES + 0x1000 + (linear >> 12) * 4;
        Some(Walk {
            page,
            memory: TYPES[(linear / REGION) as usize % TYPES.len()],
            entries: [directory, table, 0, 0],
            levels: 2,
            entry_bytes: 4,
            is_small: true,
        })
    }
}

/// What the models of a part fire.
fn fired(part: &'static Part) -> SignalSet {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let processors = 2 * part.threads;
    let mut system = System::new(part, processors, std::slice::from_ref(&(0..MEMORY)));
    let mut fired = SignalSet::EMPTY;
    for processor in 0..processors {
        system.change_memory(processor, true);
    }
    for time in 0..STEPS {
        let processor = random.below(processors as u64) as usize;
        system.choose(processor);
        system.set_time(processor, 100 * time);
        step(&mut system, processor, &mut random, time);
    }
    for processor in 0..processors {
        note(system.occurrences(processor), &mut fired);
    }
    if let Pipeline::OutOfOrder(core) = part.pipeline {
        note(&mut executed(core, &mut random), &mut fired);
    }
    fired
}

fn note(occurrences: &mut Occurrences, fired: &mut SignalSet) {
    let counts = occurrences.fired();
    for &signal in Signal::ALL {
        if counts[signal.index()] != 0 {
            fired.insert(signal);
        }
    }
}

/// What a pipeline fires, given instructions of all rows of its table, and anything happening to them.
fn executed(core: &'static Core, random: &mut Random) -> Occurrences {
    const GENERAL: u64 = 0xffff;
    let rows: Vec<_> = core.table.rows.iter().copied().flatten().collect();
    let single = |is: fn(&MacroOp) -> bool| {
        let row = |row: &&Row| row.operations.len() == 1 && is(&row.operations[0]);
        rows.iter().copied().filter(row).collect::<Vec<_>>()
    };
    let float = single(|operation| operation.float && operation.loads == 0);
    let stores = single(|operation| operation.stores == 1 && operation.loads == 0);
    let (mut pipeline, mut occurrences) = (OutOfOrder::new(core), Occurrences::default());
    let mut address = 0;
    for step in 0..STEPS {
        // In turns nothing but what fills the scheduler of the floating-point unit, or the store queue.
        let filling = match step / 100 % 4 {
            0 => &float,
            1 => &stores,
            _ => &Vec::new(),
        };
        if !filling.is_empty() {
            let operands =
                Operands { sources: 1, destinations: 1, length: 3, ..Operands::default() };
            let instruction = Instruction::new(core, random.of(filling), &operands);
            let execution = Execution { address, store_delay: 50, ..Execution::default() };
            address += 3;
            pipeline.execute(&instruction, &execution, &mut occurrences);
            continue;
        }
        let operands = Operands {
            sources: random.next() & GENERAL,
            address: random.next() & GENERAL,
            destinations: random.next() & GENERAL,
            partial: if random.one_in(4) { 1 } else { 0 },
            whole: GENERAL,
            length: 1 + random.below(15) as u8,
            length_changes: random.one_in(20),
            ..Operands::default()
        };
        let instruction = Instruction::new(core, random.of(&rows), &operands);
        let rare =
            |random: &mut Random| if random.one_in(20) { 1 + random.below(200) as u32 } else { 0 };
        let execution = Execution {
            address,
            fetch_delay: rare(random),
            load_address: random.below(0x8000),
            load_delay: rare(random),
            store_delay: rare(random),
            forwarding: match random.below(4) {
                0 => Forwarding::From(random.below(8) as u8),
                1 => Forwarding::Blocked(random.below(8) as u8),
                _ => Forwarding::None,
            },
            taken: random.one_in(5),
            misprediction: match random.below(20) {
                0 => Misprediction::Decoder,
                1 => Misprediction::Execution,
                _ => Misprediction::None,
            },
            locked: random.one_in(30),
            resync: random.one_in(100),
            float_exception: random.one_in(100),
            segment: random.below(6) as u8,
            ..Execution::default()
        };
        address += u64::from(operands.length);
        pipeline.execute(&instruction, &execution, &mut occurrences);
    }
    occurrences
}

/// One thing that a processor does. In turns it is among few lines, which both processors want, and
/// among more than its caches hold.
fn step(system: &mut System, processor: usize, random: &mut Random, time: u64) {
    let lines = if (time / 10_000).is_multiple_of(2) { 16 } else { REGION / 64 };
    let region = if random.one_in(4) { random.below(TYPES.len() as u64) } else { 0 };
    let linear = region * REGION + random.below(lines) * 64 + random.below(64);
    match random.below(100) {
        0..49 => data(system, processor, random, linear),
        49 => {
            // All over the memory, so fast that pages of the DRAM stay open.
            for _ in 0..40 {
                let linear = random.below(MEMORY / 64) * 64;
                access(system, processor, Operation::Load, Kind::Plain, linear, 4);
            }
        }
        50..54 => {
            // Lines one behind the other, up or down, for what follows them.
            let begin = REGION / 2 + random.below(REGION / 4) / 64 * 64;
            let operation = random.of(&[Operation::Load, Operation::Store]);
            let up = random.one_in(2);
            for n in 0..6 {
                let linear = if up { begin + 64 * n } else { begin - 64 * n };
                access(system, processor, operation, Kind::Plain, linear, 4);
            }
        }
        54..75 => {
            let bytes = 1 + random.below(24) as u32;
            let linear = linear & !0xFF;
            let fetch = Fetch { linear, physical: linear, second_page: None, bytes };
            system.choose(processor);
            if !system.fetch_at_once(100 * time, &fetch) {
                system.fetch(processor, &Tables, &fetch);
            }
        }
        75..95 => transfer(system, processor, random),
        95 => {
            let bytes = random.of(&[1, 2, 4]);
            let write = random.one_in(2);
            system.access_port(processor, random.below(0x1_0000) as u16, bytes, write);
        }
        96 => system.interrupted(processor, 0x1000 + random.below(0x1000), 0x8000),
        97 => system.update_table(processor, TABLES + 4 * random.below(0x4000), 4),
        98 => system.serialise(processor),
        _ => match random.below(20) {
            0 => system.write_back_and_invalidate(processor),
            1 => system.invalidate(processor),
            2 if random.one_in(2) => system.flush_tlbs(processor, TABLES),
            2 => system.load_page_tables(processor, TABLES),
            _ => system.invalidate_page(processor, linear),
        },
    }
}

/// An access to data, of any kind.
fn data(system: &mut System, processor: usize, random: &mut Random, linear: u64) {
    let hints = [
        Hint::T0,
        Hint::T1,
        Hint::T2,
        Hint::NonTemporal,
        Hint::Write,
        Hint::WriteT1,
        Hint::WriteT2,
        Hint::WriteNonTemporal,
    ];
    let kind = random.of(&[Kind::Plain, Kind::Vector, Kind::Mmx, Kind::Locked]);
    let bytes = random.of(&[1, 4, 8]);
    if random.one_in(16) {
        let kind = Kind::NoRead { ordered: random.one_in(2) };
        return access(system, processor, Operation::Store, kind, linear & !63, 64);
    }
    let (operation, kind) = match random.below(12) {
        0..5 => (Operation::Load, if kind == Kind::Locked { Kind::Plain } else { kind }),
        5..8 => (Operation::Store, if kind == Kind::Locked { Kind::Plain } else { kind }),
        8 => (Operation::Modify, kind),
        9 => (Operation::Prefetch(random.of(&hints)), Kind::Plain),
        10 if random.one_in(2) => (Operation::Flush, Kind::Plain),
        10 => (Operation::Evict { second_level: random.one_in(2) }, Kind::Plain),
        _ => {
            // A line, or half of it.
            let half = linear & !31;
            for n in 0..random.of(&[4, 8]) {
                access(system, processor, Operation::Store, Kind::NonTemporal, half + 8 * n, 8);
            }
            return;
        }
    };
    access(system, processor, operation, kind, linear, bytes);
}

fn access(
    system: &mut System,
    processor: usize,
    operation: Operation,
    kind: Kind,
    linear: u64,
    bytes: u32,
) {
    let crosses = linear % 4096 + u64::from(bytes) > 4096;
    let access = DataAccess {
        linear,
        physical: linear,
        second_page: crosses.then_some((linear | 4095) + 1),
        bytes,
        elements: 1,
        operation,
        kind,
    };
    system.access(processor, &Tables, &access);
}

/// A control transfer among a few dozen places, with returns that need not go where a call was.
fn transfer(system: &mut System, processor: usize, random: &mut Random) {
    let kind = random.of(&[
        TransferKind::Conditional,
        TransferKind::Conditional,
        TransferKind::Jump,
        TransferKind::IndirectJump,
        TransferKind::Call,
        TransferKind::IndirectCall,
        TransferKind::Return,
        TransferKind::FarCall,
        TransferKind::FarReturn,
        TransferKind::Far,
    ]);
    let from = 0x1000 + 32 * random.below(64);
    let next = from + 2;
    let to = 0x1000 + 32 * random.below(64);
    let taken = kind != TransferKind::Conditional || random.one_in(2);
    system.choose(processor);
    system.transfer(&Transfer { from, last: next - 1, next, to, kind, taken });
}

/// The signals that the events of a personality select.
fn selected(personality: &'static Personality) -> SignalSet {
    let mut selected = SignalSet::EMPTY;
    for event in personality.events {
        let masks = event.umasks.iter().map(|mask| mask.signals);
        let routes = match event.umask_rule {
            UmaskRule::Routes(routes) => routes,
            _ => &[],
        };
        let routes = routes.iter().map(|route| route.signals);
        for &signal in masks.chain(routes).chain([event.signals]).flatten() {
            selected.insert(signal);
        }
    }
    selected
}

/// What the pipeline of a Pentium fires, which is not run here: the tests of `uarch/src/pipeline/in_order`
/// compare each with an oracle.
const OF_IN_ORDER_PIPELINES: &[&str] = &[
    "mmx_pipe_u",
    "mmx_pipe_v",
    "pair_v",
    "pair_v_mem",
    "flush_mispredict_wb",
    "l1d_bank_conflict",
    "stall_agi",
    "stall_fpu",
    "stall_load_miss",
    "stall_load_miss_mmx",
    "stall_store_buffer_full",
    "stall_store_buffer_full_mmx",
    "stall_store_em_line",
    "stall_store_em_line_mmx",
    "stall_dtlb_miss",
    "stall_d1_fifo_empty",
    "stall_d1_one_in_fifo",
    "stall_mmx_multiply",
    "stall_mmx_store_data",
];

/// The same of a core of several threads: `uarch/src/pipeline/in_order/multithreaded`.
const OF_MULTITHREADED_CORES: &[&str] = &[
    "vpu_op_v",
    "pair_v",
    "pair_v_mem",
    "l1d_bank_conflict",
    "stall_agi",
    "stall_agi_gather",
    "stall_vpu_register",
    "stall_frontend",
    "microcode_busy",
    "e_stage_busy",
];

#[test]
fn what_the_models_fire_is_what_is_live() {
    for (name, part) in PARTS {
        let personality = Personality::by_name(name).unwrap();
        let live = personality.live.of(Tier::Microarchitecture);
        let models = live.without(personality.live.of(Tier::InstructionSet));
        let fired = fired(part).intersection(&selected(personality));
        let names = |set: SignalSet| set.iter().map(Signal::name).collect::<Vec<_>>();
        let unfired: &[&str] = match part.pipeline {
            Pipeline::InOrder { .. } => OF_IN_ORDER_PIPELINES,
            Pipeline::Multithreaded { .. } => OF_MULTITHREADED_CORES,
            Pipeline::OutOfOrder(_) => &[],
        };
        assert_eq!(names(models.without(&fired)), unfired, "{name}: live and not fired");
        assert_eq!(names(fired.without(&models)), [""; 0], "{name}: fired and not live");
    }
}
