//! Caches, TLBs, predictors and buses of all processors: [`System`].

use uarch::branch::{Transfer, TransferKind};
use uarch::cache::{Hint, Kind, MemoryType};
use uarch::part::{self, Part};
use uarch::state::{State, Visitor};
use uarch::system::{DataAccess, Fetch, Operation, PageTables, System, Walk};
use uarch::tlb::{Page, PageSize};

use super::{Machine, Random, begin, check, noticed};

/// Each modelled part, and how many processors it is driven with.
pub(super) const PARTS: [(&str, &Part, &[usize]); 8] = [
    ("p55c", &part::P55C, &[1, 2, 3, 4]),
    ("ppro", &part::PPRO, &[1, 2, 3, 4]),
    ("pii", &part::PII, &[1, 2, 3, 4]),
    ("p6", &part::P6, &[1, 2, 3, 4]),
    ("pm", &part::PM, &[1, 2, 3, 4]),
    ("k7", &part::K7, &[1, 2, 3, 4]),
    ("k8", &part::K8, &[1, 2, 3, 4]),
    ("knc", &part::KNC, &[1, 2, 3, 4, 8]),
];

/// Where the memory ends, with a hole in it.
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

pub(super) struct Driven {
    system: System,
    processors: usize,
    threads: usize,
}

impl Driven {
    pub(super) fn new(part: &'static Part, processors: usize) -> Self {
        let memory = [0..0xA_0000, 0x10_0000..MEMORY];
        let system = System::new(part, processors, &memory);
        Self { system, processors, threads: part.threads }
    }
}

impl State for Driven {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        self.system.visit(visitor);
    }
}

/// The page tables, which are changed without a word now and then, so that TLBs have what is in none of them,
/// and the time.
#[derive(Default)]
pub(super) struct World {
    time: u64,
    running: usize,
    /// Large pages, and regions of another type than before, a bit each.
    large: u64,
    changed: u64,
    /// Entries of page tables are of four bytes, not of eight.
    is_narrow: bool,
    /// Where the code ends that was fetched last, and what data was accessed last.
    fetched: u64,
    accessed: u64,
    /// How often it is loaded again at once.
    again: u32,
    /// How many transfers of control there were.
    transfers: u64,
}

impl PageTables for World {
    fn walk(&self, linear: u64) -> Option<Walk> {
        let is_small = self.large >> (linear >> 21 & 63) & 1 == 0;
        let large = if self.is_narrow { PageSize::Mib4 } else { PageSize::Mib2 };
        let size = if is_small { PageSize::Kib4 } else { large };
        let region = linear / REGION;
        let other = (self.changed >> (region & 63) & 1) as usize;
        let table = TABLES + (linear >> 21) * 8;
        Some(Walk {
            page: Page { size, global: linear & 0x1000 != 0 },
            memory: TYPES[(region as usize + other) % TYPES.len()],
            entries: [TABLES, table, TABLES + 0x1000 + (linear >> 12) * 8, 0],
            levels: if is_small { 3 } else { 2 },
            entry_bytes: if self.is_narrow { 4 } else { 8 },
            is_small,
        })
    }
}

impl Machine for Driven {
    type World = World;

    fn begin(&mut self, world: &World) {
        for processor in 0..self.processors {
            self.system.set_time(processor, world.time);
            begin(self.system.occurrences(processor), processor);
        }
    }

    fn step(&mut self, world: &mut World, random: &mut Random) -> Vec<u64> {
        let system = &mut self.system;
        if world.time == 0 {
            // From then on they have page tables.
            (0..self.processors).for_each(|processor| system.change_memory(processor, true));
        }
        // What one instruction does is at one time.
        if world.again == 0 && !random.one_in(3) {
            world.time += random.below(60);
        }
        if random.one_in(12) {
            world.running = random.below(self.processors as u64) as usize;
        }
        // Another one is told of as well, where it has TLBs and caches of its own.
        let processor = match random.one_in(30) && self.threads == 1 {
            true => random.below(self.processors as u64) as usize,
            false => world.running,
        };
        system.choose(world.running);
        if !random.one_in(5) {
            system.set_time(processor, world.time);
        }
        let mut answers = step(system, processor, world, random);
        for processor in 0..self.processors {
            if random.one_in(4) {
                answers.push(system.take_restart(processor).into());
            }
            answers.extend(noticed(system.occurrences(processor)));
        }
        answers
    }

    fn totals(&mut self) -> Vec<u64> {
        (0..self.processors).flat_map(|of| *self.system.occurrences(of).fired()).collect()
    }
}

/// One thing that a processor does. In turns it is among few lines and pages, which all processors want, and
/// among more than caches and TLBs hold.
fn step(system: &mut System, processor: usize, world: &mut World, random: &mut Random) -> Vec<u64> {
    let lines = [16, 2000, REGION / 64][(world.time / 20_000 % 3) as usize];
    if world.again != 0 {
        world.again -= 1;
        let kind = Kind::Plain;
        return access(system, processor, world, Operation::Load, kind, world.accessed, 1, 1);
    }
    let region = if random.one_in(5) { random.below(TYPES.len() as u64) } else { 0 };
    let linear = region * REGION + random.below(lines) * 64 + random.below(64);
    match random.below(100) {
        0..45 => {
            if !random.one_in(4) {
                world.accessed = linear;
            }
            data(system, processor, world, random, world.accessed)
        }
        45..50 => {
            // Lines one behind the other, up or down, for what follows them.
            let begin = REGION / 2 + random.below(REGION / 4) / 64 * 64;
            let operation = random.of(&[Operation::Load, Operation::Store]);
            let up = random.one_in(2);
            let lines = (0..6).map(|n| if up { begin + 64 * n } else { begin - 64 * n });
            lines
                .flat_map(|linear| {
                    access(system, processor, world, operation, Kind::Plain, linear, 4, 1)
                })
                .collect()
        }
        50..70 => {
            let bytes = 1 + random.below(60) as u32;
            let elsewhere = linear & if random.one_in(2) { !0xFFF } else { !3 };
            let linear = if random.one_in(2) { world.fetched } else { elsewhere };
            world.fetched = linear + u64::from(bytes);
            let crosses = linear % 4096 + u64::from(bytes) > 4096;
            let second_page = crosses.then_some((linear | 4095) + 1);
            let fetch = Fetch { linear, physical: linear, second_page, bytes };
            if processor == system.running() && system.fetch_at_once(world.time, &fetch) {
                return vec![0];
            }
            vec![system.fetch(processor, world, &fetch)]
        }
        70..90 => {
            transfer(system, world, random);
            vec![]
        }
        90 => {
            let bytes = random.of(&[1, 2, 4]);
            let write = random.one_in(2);
            let port = random.below(0x1_0000) as u16;
            vec![system.access_port(processor, port, bytes, write)]
        }
        91 => {
            system.interrupted(processor, 0x1000 + random.below(0x1000), 0x8000);
            vec![]
        }
        92..94 => {
            // Of tables, or of what is code as well.
            let table = TABLES + 8 * random.below(0x8000);
            let entry = if random.one_in(3) { world.fetched.saturating_sub(1) & !7 } else { table };
            system.update_table(processor, entry, 8);
            vec![]
        }
        94 => {
            system.serialise(processor);
            vec![]
        }
        95..98 => {
            // Without a word.
            match random.below(3) {
                0 => world.changed ^= 1 << random.below(8),
                1 if random.one_in(20) => world.is_narrow ^= true,
                _ => world.large ^= 1 << random.below(20),
            }
            vec![]
        }
        _ => {
            change(system, processor, random, linear);
            vec![]
        }
    }
}

/// Page tables or caches are told of something.
fn change(system: &mut System, processor: usize, random: &mut Random, linear: u64) {
    let tables = TABLES + 0x20_0000 * random.below(5);
    match random.below(24) {
        0 => system.write_back_and_invalidate(processor),
        1 => system.invalidate(processor),
        2 => system.flush_tlbs(processor, tables),
        3..12 => system.load_page_tables(processor, tables),
        12 => system.change_memory(processor, !random.one_in(3)),
        13 => system.enable_flush_filter(processor, !random.one_in(3)),
        14 => system.missed_execution(),
        15 => system.occurrences(processor).fired().fill(0),
        _ => system.invalidate_page(processor, linear),
    }
}

/// An access to data, of any kind.
fn data(
    system: &mut System,
    processor: usize,
    world: &mut World,
    random: &mut Random,
    linear: u64,
) -> Vec<u64> {
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
    let kind = random.of(&[Kind::Plain, Kind::Plain, Kind::Vector, Kind::Mmx]);
    let bytes = random.of(&[1, 4, 8]);
    if random.one_in(16) {
        let kind = Kind::NoRead { ordered: random.one_in(2) };
        return access(system, processor, world, Operation::Store, kind, linear & !63, 64, 1);
    }
    let elements = if random.one_in(20) { 1 + random.below(6) as u32 } else { 1 };
    let (operation, kind) = match random.below(18) {
        // Who asks for a line ahead of time accesses it afterwards, sometimes before it has come.
        14.. => {
            world.again = random.below(5) as u32;
            (Operation::Prefetch(random.of(&hints)), Kind::Plain)
        }
        0..5 => (Operation::Load, kind),
        5..8 => (Operation::Store, kind),
        8 => (Operation::Modify, random.of(&[kind, Kind::Locked])),
        9..11 => (Operation::Prefetch(random.of(&hints)), Kind::Plain),
        11 if random.one_in(2) => (Operation::Flush, Kind::Plain),
        11 => (Operation::Evict { second_level: random.one_in(2) }, Kind::Plain),
        _ => (Operation::Store, Kind::NonTemporal),
    };
    let elements = if linear % 4096 < 2048 { elements } else { 1 };
    access(system, processor, world, operation, kind, linear, bytes, elements)
}

/// As who executes the guest does it: the short ways first. Cycles, which by these are none.
fn access(
    system: &mut System,
    processor: usize,
    world: &World,
    operation: Operation,
    kind: Kind,
    linear: u64,
    bytes: u32,
    elements: u32,
) -> Vec<u64> {
    let crosses = linear % 4096 + u64::from(bytes) > 4096;
    let second_page = crosses.then_some((linear | 4095) + 1);
    let access =
        DataAccess { linear, physical: linear, second_page, bytes, elements, operation, kind };
    let uses = match operation {
        Operation::Load => Some((true, false)),
        Operation::Store => Some((false, true)),
        Operation::Modify => Some((true, true)),
        _ => None,
    };
    if let Some((reads, writes)) = uses
        && processor == system.running()
        && !matches!(kind, Kind::Locked | Kind::NonTemporal)
        && !crosses
        && elements == 1
        && (system.access_hits_again(linear, linear, bytes, reads, writes)
            || system.access_hits(linear, linear, bytes, reads, writes))
    {
        return vec![0, 0, 0];
    }
    let cycles = system.access(processor, world, &access);
    vec![cycles.walk, cycles.read, cycles.write]
}

/// A control transfer, in turns among a few places and among more than a target buffer holds, mostly in a fixed
/// order; returns need not go where a call was.
fn transfer(system: &mut System, world: &mut World, random: &mut Random) {
    let kinds = [
        TransferKind::Conditional,
        TransferKind::IndirectJump,
        TransferKind::Conditional,
        TransferKind::Call,
        TransferKind::Return,
        TransferKind::Conditional,
        TransferKind::IndirectCall,
        TransferKind::Return,
        TransferKind::Jump,
        TransferKind::FarCall,
        TransferKind::FarReturn,
        TransferKind::Far,
    ];
    let places = [8, 64, 4000][(world.time / 15_000 % 3) as usize];
    world.transfers += 1;
    let number = if random.one_in(9) { random.below(places) } else { world.transfers % places };
    let kind = if random.one_in(9) { random.of(&kinds) } else { kinds[number as usize % 12] };
    let from = 0x1000 + 0x1010 * number;
    let next = from + 2;
    let to = 0x1000 + 0x1010 * ((number * 7 + random.below(2) * random.below(2)) % places);
    let taken = kind != TransferKind::Conditional || random.below(8) < number % 9;
    let transfer = Transfer { from, last: next - 1, next, to, kind, taken };
    if !system.transfer_quickly(&transfer) {
        system.transfer(&transfer);
    }
}

#[test]
fn systems_go_on_as_if_nothing_had_happened() {
    for (name, part, all) in PARTS {
        for &processors in all {
            let name = format!("{name} of {processors}");
            for seed in [1, 2] {
                check(&name, || Driven::new(part, processors), 12_000, 300, seed);
            }
        }
    }
}
