//! The caches once more, slow and from the definition: each set a list of ways with the time of their last
//! use, each line looked up each time, signals found by their names.

mod array;
mod code;
mod coherence;
mod coming;
mod data;
mod past;
mod second_level;

pub(in crate::cache::tests) use self::array::Array;
use self::array::Gone;
use self::coming::Coming;
use super::super::array::Line;
use super::super::*;
use crate::bus::{Bus, Request, Snoop, Transaction};
use crate::processors::PerProcessor;
use crate::system::{Processor, Processors};
use pmu_model::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

/// A transaction: processor, request, address, bytes, locked, snoop, on the board.
pub(in crate::cache::tests) type Sent = (Option<usize>, Request, u64, u32, bool, Snoop, bool);

#[derive(Clone, Copy, PartialEq)]
enum Ask {
    Share,
    Take,
    Upgrade,
    Part,
    All,
    Device,
    Flush,
}

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Code,
    Load,
    Store,
    /// A store of a whole line, in order or not.
    Whole(bool),
    Locked,
    Walk,
    /// A prefetch instruction that is no access, to read or to write.
    Asks,
    AsksToWrite,
}

pub(in crate::cache::tests) struct Core {
    pub(in crate::cache::tests) code: Array,
    pub(in crate::cache::tests) data: Array,
    pub(in crate::cache::tests) second: Option<Array>,
    /// What is on its way into `data` and `second`.
    data_coming: Coming,
    second_coming: Coming,
    /// Line, bytes written, streaming; the oldest first.
    pub(in crate::cache::tests) combining: Vec<(u64, BTreeSet<u64>, bool)>,
    /// Last line, direction; the latest last.
    streams: Vec<(i64, i64)>,
    loaded: Option<u64>,
    fetched: Option<u64>,
    window: Option<u64>,
}

/// The cores, by the number of any of their threads.
pub(in crate::cache::tests) struct Cores {
    threads: usize,
    all: Vec<Core>,
    /// By core: its thread that acted last.
    last: Vec<usize>,
}

impl Cores {
    /// One processor of each core.
    pub(in crate::cache::tests) fn first_threads(&self) -> Vec<usize> {
        (0..self.all.len()).map(|core| core * self.threads).collect()
    }
}

impl Index<usize> for Cores {
    type Output = Core;

    fn index(&self, p: usize) -> &Core {
        &self.all[p / self.threads]
    }
}

impl IndexMut<usize> for Cores {
    fn index_mut(&mut self, p: usize) -> &mut Core {
        &mut self.all[p / self.threads]
    }
}

pub(in crate::cache::tests) struct Oracle {
    pub(in crate::cache::tests) g: CacheGeometry,
    pub(in crate::cache::tests) cores: Cores,
    pub(in crate::cache::tests) counts: Vec<[u64; Signal::COUNT]>,
    pub(in crate::cache::tests) sent: Vec<Sent>,
    /// The line in each set of the cache on the board, which has one way.
    board: BTreeMap<u64, u64>,
    /// When operations begin, and what answers them.
    pub(in crate::cache::tests) time: u64,
    pub(in crate::cache::tests) bus: Bus,
    on_bus: Processors,
    /// Cycles of the running operation: right for loads and stores to memory of type WB.
    pub(in crate::cache::tests) cycles: u64,
}

const M: LineState = LineState::Modified;
const O: LineState = LineState::Owned;
const E: LineState = LineState::Exclusive;
const S: LineState = LineState::Shared;
const I: LineState = LineState::Invalid;

fn dirty(state: LineState) -> bool {
    state == M || state == O
}

fn sole(state: LineState) -> bool {
    state == M || state == E
}

impl Oracle {
    pub(in crate::cache::tests) fn new(
        g: &CacheGeometry,
        processors: usize,
        threads: usize,
    ) -> Self {
        let core = || Core {
            code: Array::new(&g.code),
            data: Array::new(&g.data),
            second: g.second_level.map(|second| Array::new(&second.array)),
            data_coming: Coming::new(g.prefetch_fills.data),
            second_coming: Coming::new(g.prefetch_fills.second_level),
            combining: Vec::new(),
            streams: Vec::new(),
            loaded: None,
            fetched: None,
            window: None,
        };
        let all: Vec<Core> = (0..processors).step_by(threads).map(|_| core()).collect();
        let last = (0..all.len()).map(|core| core * threads).collect();
        Self {
            g: *g,
            cores: Cores { threads, all, last },
            counts: vec![[0; Signal::COUNT]; processors],
            sent: Vec::new(),
            board: BTreeMap::new(),
            time: 0,
            bus: Bus::default(),
            on_bus: PerProcessor::new(processors, |_| Processor::default()),
            cycles: 0,
        }
    }

    /// A processor acts, at a time.
    pub(in crate::cache::tests) fn acts(&mut self, p: usize, time: u64) {
        self.cores.last[p / self.cores.threads] = p;
        (self.time, self.cycles) = (time, 0);
    }

    pub(in crate::cache::tests) fn n(&mut self, p: usize, name: &str, times: u64) {
        let signal = Signal::by_name(name).unwrap_or_else(|| panic!("no signal {name}"));
        self.counts[p][signal.index()] += times;
    }

    pub(in crate::cache::tests) fn one(&mut self, p: usize, name: &str) {
        self.n(p, name, 1);
    }

    /// The signal of a state, if there is one.
    pub(in crate::cache::tests) fn state(&mut self, p: usize, prefix: &str, state: LineState) {
        let name = format!("{prefix}_{}", format!("{state:?}").to_lowercase());
        if Signal::by_name(&name).is_some() {
            self.one(p, &name);
        } else {
            assert!(matches!(state, O | I), "no signal {name}");
        }
    }

    pub(in crate::cache::tests) fn exclusive(&self) -> bool {
        self.g.second_level.is_some_and(|second| second.inclusion == Inclusion::Exclusive)
    }

    pub(in crate::cache::tests) fn inclusive(&self) -> bool {
        self.g.second_level.is_some_and(|second| second.inclusion == Inclusion::Inclusive)
    }

    pub(in crate::cache::tests) fn bytes(&self) -> u64 {
        u64::from(self.g.line)
    }

    pub(in crate::cache::tests) fn send(
        &mut self,
        p: Option<usize>,
        request: Request,
        at: u64,
        bytes: u64,
        locked: bool,
        snoop: Snoop,
    ) -> u64 {
        let reads_line =
            matches!(request, Request::ReadCode | Request::ReadData | Request::ReadForOwnership);
        let on_board = match self.g.board {
            Some(board) if reads_line => {
                let line = at / self.bytes();
                self.board.insert(line % u64::from(board.sets), line) == Some(line)
            }
            _ => false,
        };
        self.sent.push((p, request, at, bytes as u32, locked, snoop, on_board));
        let transaction = Transaction {
            processor: p,
            time: self.time,
            request,
            physical: at,
            bytes: bytes as u32,
            locked,
            snoop,
            holders: 0,
            on_board,
        };
        self.bus.transact(&mut self.on_bus, &transaction)
    }

    pub(in crate::cache::tests) fn send_line_back(&mut self, p: usize, line: u64) {
        self.n(p, "system_write_qword", self.bytes() / 8);
        self.one(p, "system_request_wb");
        self.send(
            Some(p),
            Request::WriteBack,
            line * self.bytes(),
            self.bytes(),
            false,
            Snoop::Miss,
        );
    }

    pub(in crate::cache::tests) fn request_type(&mut self, p: usize, memory: MemoryType) {
        match memory {
            MemoryType::WriteBack => self.one(p, "system_request_wb"),
            MemoryType::WriteThrough => self.one(p, "system_request_wt"),
            MemoryType::WriteProtected => self.one(p, "system_request_wp"),
            _ => {}
        }
    }
}
