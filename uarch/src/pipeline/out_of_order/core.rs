//! The widths, depths and sizes of a part's pipeline, as data.

use pmu_model::Signal;

use super::{operation::Units, recent_stores::StoreForwarding, table::Table};

/// The pipeline of a part.
#[derive(Clone, Copy, Debug)]
pub struct Core {
    /// What its decoders make of instructions.
    pub table: &'static Table,
    /// How code reaches the decoders.
    pub fetch: Fetch,
    /// How the decoders share the work.
    pub decoders: Decoders,
    /// Macro-operations that are dispatched (renamed) in a cycle, and that retire in one.
    pub width: u8,
    /// Places of the reorder buffer: lines of `width` macro-operations each if the decoders form
    /// lines, else macro-operations.
    pub reorder_buffer: u8,
    /// Where operations wait.
    pub schedulers: Schedulers,
    /// Cycles from dispatch until an integer operation can be issued.
    pub issue_delay: u8,
    /// Cycles from dispatch until a floating-point operation can be issued.
    pub float_delay: u8,
    /// How memory is accessed.
    pub memory: Memory,
    /// Which stores are forwarded to which loads.
    pub forwarding: StoreForwarding,
    /// Cycles after a store has its data until a load that it is forwarded to has it.
    pub forward_delay: u8,
    /// Cycles that a misaligned access takes more.
    pub misaligned: u8,
    /// Cycles from the execution of a mispredicted branch until the first window of the right path is
    /// there.
    pub redirect: u8,
    /// The same from the decoding of a branch whose target the decoder corrects.
    pub decode_redirect: u8,
    /// Cycles that microcode takes for numbers that the floating-point unit leaves to it, beyond the restart
    /// behind the instruction.
    pub assist: u8,
    /// Whether infinities, NaNs and overflows are among them, or only denormal numbers.
    pub assists_special: bool,
    /// What becomes of a register of which only a part is written.
    pub partial: PartialRegisters,
    /// How segment loads follow each other.
    pub segment_loads: SegmentLoads,
    /// Whether the decoder keeps the changes of the stack pointer by PUSH, POP, CALL and RET.
    pub folds_stack: bool,
    /// Whether a load and an operation, and the halves of a store, can be one macro-operation, which
    /// counts as fused.
    pub fuses: bool,
    /// The units that are the add, multiply and store pipe of the floating-point unit; none where they
    /// are not counted.
    pub float_pipes: [Units; 3],
    /// The signals of its stalls.
    pub stalls: Stalls,
}

/// How code reaches the decoders.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// log2 of the bytes of a window, one of which arrives in a cycle.
    pub window_shift: u8,
    /// How many windows the decoders can hold. Another arrives when the oldest is used up.
    pub windows: u8,
    /// Cycles without a window behind a taken branch that is predicted.
    pub bubble: u8,
    /// Whether such a bubble is a stall of the fetcher, as on AMD's processors, or only what memory
    /// and translation delay.
    pub bubble_stalls: bool,
    /// Cycles that a prefix which changes an instruction's length holds up the length decoder.
    pub length_change: u8,
}

/// How the decoders share the work.
#[derive(Clone, Copy, Debug)]
pub enum Decoders {
    /// Three equal decoders, whose positions in a line are lanes of the pipeline; microcode has lines
    /// of its own.
    Lines {
        /// Whether two neighbouring decoders can share an instruction ([`super::table::Decode::Double`]).
        /// If not, microcode has it.
        double: bool,
    },
    /// The first takes instructions of up to `first` micro-operations, the others those of one that are
    /// no longer than `bytes`.
    Template {
        /// How many decoders.
        count: u8,
        /// Micro-operations of an instruction that the first can decode.
        first: u8,
        /// Bytes of an instruction that the others can decode.
        bytes: u8,
        /// Micro-operations between the decoders and the renamer.
        queue: u8,
        /// Micro-operations from microcode in a cycle.
        microcode: u8,
    },
}

/// Where operations wait until they are issued.
#[derive(Clone, Copy, Debug)]
pub enum Schedulers {
    /// One for each lane, and one for floating point.
    Lanes {
        /// Macro-operations in each of the lanes' schedulers.
        integer: u8,
        /// In that of the floating-point unit.
        float: u8,
    },
    /// One reservation station.
    Unified {
        /// Its places.
        entries: u8,
    },
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// AMD's: accesses wait in LS1 and probe the data cache in program order; stores wait in LS2 until
    /// they have retired, loads that missed until their data is there.
    InOrder {
        /// Places of LS1.
        first: u8,
        /// Places of LS2.
        second: u8,
        /// Probes in a cycle.
        ports: u8,
        /// Address bits that number the bank.
        bank: u64,
        /// Address bits that two accesses of one bank in a cycle must have in common.
        index: u64,
    },
    /// Intel's: a load goes ahead once the addresses of all older stores are known.
    Buffers {
        /// Load buffers, held until the load retires.
        loads: u8,
        /// Store buffers, held until the store is in the cache, one a cycle.
        stores: u8,
    },
}

/// What becomes of a register of which only a part is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialRegisters {
    /// The part is merged into the old value, which is an operand.
    Merged,
    /// The part is renamed on its own. A read of more than it waits in the renamer until the write has
    /// retired.
    Renamed,
}

/// How segment loads follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentLoads {
    /// One waits until the last one is complete, whatever the register.
    InTurn,
    /// Each segment register is renamed once: a second load of it waits until the first has retired.
    Renamed,
}

/// Which signals tell of a stall. What a part does not count, it has none for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stalls {
    /// Dispatch had something and was held.
    pub any: Option<Signal>,
    /// The reorder buffer was full.
    pub reorder_buffer: Option<Signal>,
    /// A scheduler of integer operations was.
    pub integer: Option<Signal>,
    /// That of floating-point operations was.
    pub float: Option<Signal>,
    /// The load/store unit was.
    pub memory: Option<Signal>,
    /// A mispredicted branch had not retired.
    pub mispredicted: Option<Signal>,
    /// A serialising instruction waited, or was waited for.
    pub serialising: Option<Signal>,
    /// A far transfer or a resynchronisation had not retired.
    pub far: Option<Signal>,
    /// A segment load waited for another.
    pub segment: Option<Signal>,
    /// The system had not answered all requests.
    pub all_quiet: Option<Signal>,
    /// The decoders had nothing.
    pub decoder_empty: Option<Signal>,
    /// Whether cycles are reported in which the floating-point unit retired nothing.
    pub without_float: bool,
}
