//! The pipelined and the sequential bus against a simulation that goes from clock to clock.
//!
//! It keeps who drives which lines in each clock of the bus, in lists from clock 0 on, and walks each
//! transaction through its phases clock by clock. Signals that last are counted at the end, cycle by
//! cycle of the processor.

use pmu_model::Signal;

use super::dram::Oracle;
use super::{Board, DEVICE, MEMORY, REQUESTS, Random, is_whole};
use crate::bus::dram::{DramGeometry, Page};
use crate::bus::{
    BusGeometry, ClockRatio, Interconnect, PipelinedBus, Request, SequentialBus, Snoop, Transaction,
};

/// Numbers that are all different from each other.
static DRAM: DramGeometry = DramGeometry {
    controllers: 1,
    interleave_bytes: 64,
    page_bytes: 0x1000,
    banks: 4,
    chip_select_bytes: 0x1000_0000,
    chip_selects: 4,
    open_pages: 6,
    idle_limit: 60,
    burst_clocks: 4,
    cas_latency: 3,
    write_latency: 1,
    ras_to_cas: 5,
    precharge: 7,
    chip_select_turnaround: 2,
    read_to_write: 1,
    write_to_read: 2,
};

static PIPELINED: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 15, bus: 2 },
    line_bytes: 32,
    interconnect: Interconnect::Pipelined(PipelinedBus {
        request_interval: 3,
        snoop: 4,
        snoop_stall: 2,
        dirty_snoop_stalls: 1,
        response: 1,
        implicit_write_back: 6,
        memory_command: 5,
        memory_return: 8,
        device: 40,
        port: 70,
        bytes_per_clock: 8,
        data_turnaround: 1,
        in_order_queue: 4,
    }),
    dram: DRAM,
};

static SEQUENTIAL: BusGeometry = BusGeometry {
    clock: ClockRatio { processor: 3, bus: 1 },
    line_bytes: 32,
    interconnect: Interconnect::Sequential(SequentialBus {
        memory: 6,
        board: 4,
        write: 3,
        device: 20,
        port: 40,
        burst_transfers: 4,
    }),
    dram: DRAM,
};

/// Lines of the bus: who has them in each clock.
#[derive(Default)]
struct Lines(Vec<bool>);

impl Lines {
    fn free(&self, clock: usize, clocks: usize) -> bool {
        (clock..clock + clocks).all(|clock| self.0.get(clock).is_none_or(|taken| !taken))
    }

    fn drive(&mut self, clock: usize, clocks: usize) {
        if self.0.len() < clock + clocks {
            self.0.resize(clock + clocks, false);
        }
        self.0[clock..clock + clocks].fill(true);
    }

    /// Waits clock by clock until so many clocks are free.
    fn wait(&self, mut clock: usize, clocks: usize) -> usize {
        while !self.free(clock, clocks) {
            clock += 1;
        }
        clock
    }
}

/// The DRAM: what the record of banks says, put into times.
struct Memory {
    banks: Oracle,
    lines: Lines,
    /// When each bank's page is open.
    ready: Vec<usize>,
    last: Option<(u64, bool)>,
}

impl Memory {
    fn new() -> Self {
        Self { banks: Oracle::new(&DRAM), lines: Lines::default(), ready: vec![0; 16], last: None }
    }

    /// The clock of the first data, before the data lines are waited for.
    fn command(&mut self, mut clock: usize, physical: u64, write: bool) -> usize {
        let hole = 1 << 30;
        let address = if physical >= 4 << 30 { physical - hole } else { physical };
        let (page, overflow) = self.banks.access(&DRAM, clock as u64, address);
        let chip_select = address / 0x1000_0000 % 4;
        let bank = (chip_select * 4 + address / 0x1000 % 4) as usize;
        match page {
            Page::Hit => {
                // Closing and opening take twelve clocks at most; what opens later is another turn's.
                let opens = self.ready[bank];
                if opens > clock && opens <= clock + 12 {
                    clock = opens;
                }
            }
            Page::Miss | Page::Conflict => {
                if overflow || page == Page::Conflict {
                    clock += 7;
                }
                clock += 5;
                self.ready[bank] = clock;
            }
        }
        clock += match self.last {
            Some((_, false)) if write => 1,
            Some((_, true)) if !write => 2,
            Some((other, _)) if other != chip_select => 2,
            _ => 0,
        };
        self.last = Some((chip_select, write));
        clock + if write { 1 } else { 3 }
    }

    fn access(&mut self, clock: usize, physical: u64, write: bool) -> usize {
        let data = self.command(clock, physical, write);
        let data = self.lines.wait(data, 4);
        self.lines.drive(data, 4);
        data
    }
}

/// Whether an address is one of the memory's.
fn is_memory(transaction: &Transaction) -> bool {
    let port = matches!(transaction.request, Request::ReadPort | Request::WritePort);
    !port && MEMORY.iter().any(|range| range.contains(&transaction.physical))
}

/// Blocks of eight bytes, or of four in port space, byte by byte.
fn pieces(transaction: &Transaction) -> usize {
    let port = matches!(transaction.request, Request::ReadPort | Request::WritePort);
    let size = if port { 4 } else { 8 };
    let bytes = transaction.physical..transaction.physical + u64::from(transaction.bytes);
    let blocks: std::collections::BTreeSet<u64> = bytes.map(|byte| byte / size).collect();
    blocks.len()
}

fn is_write(request: Request) -> bool {
    use Request::{WriteBack, WriteCombined, WritePartial, WritePort};
    matches!(request, WriteBack | WriteCombined | WritePartial | WritePort)
}

/// Whether it goes as a whole line.
fn is_line(transaction: &Transaction) -> bool {
    match transaction.request {
        Request::Invalidate | Request::ReadPort | Request::WritePort => false,
        request if is_whole(request) => true,
        _ => transaction.bytes == 32 && transaction.physical.is_multiple_of(32),
    }
}

/// The bus clock of a cycle of the processor, counted in half cycles.
fn first_clock(time: u64, ratio: (u64, u64)) -> usize {
    let mut clock = 0;
    while clock * ratio.0 < time * ratio.1 {
        clock += 1;
    }
    clock as usize
}

/// The cycle in which a clock of the bus begins.
fn begin(clock: usize, ratio: (u64, u64)) -> u64 {
    let mut cycle = clock as u64 * ratio.0 / ratio.1;
    while cycle * ratio.1 < clock as u64 * ratio.0 {
        cycle += 1;
    }
    cycle
}

/// A simulated pipelined bus.
struct Pipelined {
    requests: Lines,
    data: Lines,
    memory: Memory,
    /// When the transactions of each agent ended.
    ends: Vec<Vec<usize>>,
    /// Data ready, the whole bus.
    ready: Vec<std::ops::Range<usize>>,
    stalled: Vec<std::ops::Range<usize>>,
}

impl Pipelined {
    const RATIO: (u64, u64) = (15, 2);

    fn transact(&mut self, transaction: &Transaction) -> u64 {
        let agent = transaction.processor.unwrap_or(self.ends.len() - 1);
        let (line, write) = (is_line(transaction), is_write(transaction.request));
        let invalidate = transaction.request == Request::Invalidate;
        let count = if line || invalidate { 1 } else { pieces(transaction) };
        let mut clock = first_clock(transaction.time, Self::RATIO);
        // Request phase: as soon as less than four are on their way and the lines are free.
        loop {
            let made = self.ends[agent].len();
            let in_queue = made < 4 || self.ends[agent][made - 4] <= clock;
            if in_queue && self.requests.free(clock, 3 * count) {
                break;
            }
            clock += 1;
        }
        let request = clock;
        self.requests.drive(request, 3 * count);
        // Snoop phase.
        clock += 4;
        let dirty = transaction.snoop == Snoop::HitDirty;
        if dirty {
            self.stalled.push(clock..clock + 2);
            clock += 2;
        }
        // Response, after those of the transactions before.
        clock += 1;
        let before = self.ends[agent].last().copied().unwrap_or(0);
        while clock < before {
            clock += 1;
        }
        let end = if invalidate {
            clock + 1
        } else {
            // Data phase.
            let port = matches!(transaction.request, Request::ReadPort | Request::WritePort);
            let ready = if port {
                request + 70
            } else if write {
                clock
            } else if dirty {
                clock + 6
            } else if is_memory(transaction) {
                self.memory.access(request + 5, transaction.physical, false) + 8
            } else {
                request + 40
            };
            while clock < ready {
                clock += 1;
            }
            // A dirty line is always driven as a whole: instead of the memory's data, or after the
            // writer's.
            let supplied = dirty && !port;
            let clocks = if line || supplied && !write { 4 } else { count };
            clock = self.data.wait(clock, clocks + 1);
            self.data.drive(clock, clocks + 1);
            self.ready.push(clock..clock + clocks);
            let mut end = clock + clocks;
            if supplied && write {
                let line = self.data.wait(end + 6, 5);
                self.data.drive(line, 5);
                self.ready.push(line..line + 4);
                end = line + 4;
            }
            if (write || supplied) && is_memory(transaction) {
                self.memory.access(end, transaction.physical, true);
            }
            end
        };
        self.ends[agent].push(end);
        let done = if write { end } else { clock + 1 };
        begin(done, Self::RATIO) - transaction.time
    }
}

/// Clocks of the processor in these clocks of the bus, counted one by one.
fn cycles(clocks: &[std::ops::Range<usize>], ratio: (u64, u64)) -> u64 {
    let mut sum = 0;
    for range in clocks {
        let mut cycle = begin(range.start, ratio);
        while cycle < begin(range.end, ratio) {
            sum += 1;
            cycle += 1;
        }
    }
    sum
}

/// A random transaction; some are in memory beyond the hole, some at devices.
fn random_transaction(random: &mut Random, processors: u64, time: u64) -> Transaction {
    let request = REQUESTS[random.below(10) as usize];
    let whole = is_whole(request);
    let bytes = [1, 2, 4, 8, 16, 32][random.below(6) as usize];
    let place = random.below(6) * 0x1000_0000 + random.below(0x80) * 0x400;
    let place = place + if random.below(4) == 0 { 4 << 30 } else { 0 };
    let offset = if whole || bytes == 32 { 0 } else { random.below(16) };
    let snoop = match random.below(6) {
        0 => Snoop::HitDirty,
        1 => Snoop::HitClean,
        _ => Snoop::Miss,
    };
    Transaction {
        processor: Some(random.below(processors + 1) as usize)
            .filter(|&processor| processor < processors as usize),
        time,
        request,
        physical: if random.below(10) == 0 { DEVICE } else { place } + offset,
        bytes: if whole { 32 } else { bytes },
        locked: false,
        snoop,
        holders: u64::from(snoop != Snoop::Miss),
        on_board: whole && random.below(4) == 0,
    }
}

/// Times that go on, with a turn back now and then.
fn next_time(random: &mut Random, now: &mut u64, step: u64) -> u64 {
    *now += random.below(step);
    *now - random.below(5000).min(*now) * u64::from(random.below(5) == 0)
}

#[test]
fn the_pipelined_bus_is_as_simulated() {
    for processors in [1, 2, 4] {
        for (seed, step) in [(1, 40), (2, 80), (3, 200), (4, 600)] {
            let mut random = Random::new(seed);
            let mut board = Board::new(&PIPELINED, processors as usize);
            let mut simulated = Pipelined {
                requests: Lines::default(),
                data: Lines::default(),
                memory: Memory::new(),
                ends: vec![Vec::new(); processors as usize + 1],
                ready: Vec::new(),
                stalled: Vec::new(),
            };
            let mut now = 0;
            for n in 0..1500 {
                let time = next_time(&mut random, &mut now, step);
                let wanted = random_transaction(&mut random, processors, time);
                let (latency, expected) = (board.transact(wanted), simulated.transact(&wanted));
                assert_eq!(latency, expected, "{n} of seed {seed}: {wanted:?}");
                // Who has to wait asks for nothing meanwhile.
                now = now.max((time + latency).saturating_sub(2000));
            }
            for own in board.processors.iter_mut() {
                let fired = own.occurrences.fired();
                let ready = cycles(&simulated.ready, Pipelined::RATIO);
                assert_eq!(fired[Signal::BusDrdyAny.index()], ready);
                let stalled = cycles(&simulated.stalled, Pipelined::RATIO);
                assert_eq!(fired[Signal::BusSnoopStall.index()], stalled);
            }
        }
    }
}

/// A simulated sequential bus: the latency, and the cycles of the processor's own transfers.
struct Sequential {
    bus: Lines,
    memory: Memory,
}

impl Sequential {
    const RATIO: (u64, u64) = (3, 1);

    fn transact(&mut self, transaction: &Transaction, busy: &mut [u64]) -> u64 {
        let mut clock = first_clock(transaction.time, Self::RATIO);
        let memory = is_memory(transaction);
        clock = self.bus.wait(clock, 1);
        let port = matches!(transaction.request, Request::ReadPort | Request::WritePort);
        let write = is_write(transaction.request) || transaction.request == Request::Invalidate;
        let on_board = memory && !write && transaction.on_board;
        let to_data = if memory && !on_board {
            self.memory.command(clock, transaction.physical, write) - clock
        } else {
            0
        };
        let first = match (port, write, memory) {
            (true, ..) => 40,
            (_, true, _) => 3,
            _ if on_board => 4,
            (_, _, true) => 6 + to_data,
            _ => 20,
        };
        let invalidate = transaction.request == Request::Invalidate;
        let clocks = if is_line(transaction) {
            first + 3
        } else {
            first * if invalidate { 1 } else { pieces(transaction) }
        };
        let start = self.bus.wait(clock, clocks);
        self.bus.drive(start, clocks);
        if let Some(processor) = transaction.processor {
            busy[processor] += 3 * clocks as u64;
        }
        let done = if write { start + clocks } else { start + first };
        begin(done, Self::RATIO) - transaction.time
    }
}

#[test]
fn the_sequential_bus_is_as_simulated() {
    for processors in [1, 2] {
        for (seed, step) in [(1, 60), (2, 120), (3, 300)] {
            let mut random = Random::new(seed);
            let mut board = Board::new(&SEQUENTIAL, processors as usize);
            let mut simulated = Sequential { bus: Lines::default(), memory: Memory::new() };
            let (mut now, mut busy) = (0, vec![0; processors as usize]);
            for n in 0..1500 {
                let time = next_time(&mut random, &mut now, step);
                let wanted = random_transaction(&mut random, processors, time);
                let latency = board.transact(wanted);
                let expected = simulated.transact(&wanted, &mut busy);
                assert_eq!(latency, expected, "{n} of seed {seed}: {wanted:?}");
                now = now.max((time + latency).saturating_sub(2000));
            }
            for (own, busy) in board.processors.iter_mut().zip(busy) {
                assert_eq!(own.occurrences.fired()[Signal::BusBusy.index()], busy);
            }
        }
    }
}
