//! What the pipeline is told: of an instruction once, and of each of its executions.

use super::{
    core::{Core, PartialRegisters},
    operation::MacroOp,
    plain::is_plain,
    registers::{ALL_GENERAL, ALL_X87, Registers, STACK_POINTER, set},
    table::{Row, behaviour},
};
use crate::state::{State, Visitor, optional};

/// What an instruction reads and writes, by [`super::registers`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// Registers and flags that are read, those for addresses only apart.
    pub sources: Registers,
    /// Registers that addresses are computed from.
    pub address: Registers,
    /// Registers and flags that are written.
    pub destinations: Registers,
    /// Of the general registers written, those of which bits below bit 32 stay as they were.
    pub partial: Registers,
    /// Of the general registers read, those of which more is read than the low byte or the low half:
    /// more than a partial write before it has written. Address registers need not be listed.
    pub whole: Registers,
    /// How many x87 registers it pushes (positive) or pops (negative).
    pub pushes: i8,
    /// It is an XOR or SUB of a register with itself, which makes it zero whatever it was.
    pub zeroes: bool,
    /// Bytes.
    pub length: u8,
    /// An operand-size or address-size prefix changes the length of what follows it.
    pub length_changes: bool,
}

/// An instruction, prepared once for all its executions.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    pub(super) row: &'static Row,
    pub(super) sources: Registers,
    pub(super) address: Registers,
    pub(super) destinations: Registers,
    /// General registers of which a read waits for a partial write.
    pub(super) whole: Registers,
    pub(super) partial: Registers,
    pub(super) zeroed: Registers,
    pub(super) pushes: i8,
    pub(super) x87: bool,
    pub(super) length: u8,
    pub(super) length_changes: bool,
    /// It reads or writes the stack pointer in a way that the decoder cannot do for it.
    pub(super) needs_stack_pointer: bool,
    /// The decoder changes the stack pointer for it.
    pub(super) folded: bool,
    /// There is nothing special about it.
    pub(super) plain: bool,
    /// Stores, and those of an iteration.
    stores: u8,
    stores_each: u8,
}

impl Instruction {
    /// An instruction of a row.
    #[must_use]
    pub fn new(core: &Core, row: &'static Row, operands: &Operands) -> Self {
        const POINTER: Registers = set(STACK_POINTER);
        let mut operands = *operands;
        let folded = core.folds_stack && row.behaviour & behaviour::STACK != 0;
        let mut whole = (operands.whole & operands.sources | operands.address) & ALL_GENERAL;
        if core.partial == PartialRegisters::Merged {
            operands.sources |= operands.partial;
            operands.partial = 0;
            whole = 0;
        }
        let all = operands.sources | operands.address | operands.destinations;
        let needs_stack_pointer = core.folds_stack && !folded && all & POINTER != 0;
        let stack = row.behaviour & behaviour::STACK != 0;
        if folded {
            operands.address &= !POINTER;
        }
        if stack {
            // The operation that adds to it has it as its operand; it is no result of the others.
            operands.sources &= !POINTER;
            operands.destinations &= !POINTER;
        }
        Self {
            row,
            sources: if operands.zeroes { 0 } else { operands.sources },
            address: operands.address,
            destinations: operands.destinations,
            whole: if operands.zeroes { 0 } else { whole },
            partial: operands.partial & ALL_GENERAL,
            zeroed: if operands.zeroes { operands.destinations & ALL_GENERAL } else { 0 },
            pushes: operands.pushes,
            x87: operands.pushes != 0 || all & ALL_X87 != 0,
            length: operands.length,
            length_changes: operands.length_changes,
            needs_stack_pointer,
            folded,
            plain: is_plain(core, row)
                && operands.pushes == 0
                && all & ALL_X87 == 0
                && !operands.length_changes,
            stores: stores(row.operations),
            stores_each: stores(row.each),
        }
    }
}

/// How many stores operations are.
fn stores(operations: &[MacroOp]) -> u8 {
    operations.iter().map(|operation| operation.stores).sum()
}

impl Instruction {
    /// How many stores an execution of it with so many iterations executes.
    #[inline(always)]
    #[must_use]
    pub fn stores(&self, iterations: u32) -> u64 {
        u64::from(self.stores) + u64::from(self.stores_each) * u64::from(iterations)
    }
}

/// How a load and an older store of the same bytes come together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// The bytes are in the cache.
    #[default]
    None,
    /// They come from the store that was executed so many stores ago: 0 is the last one.
    /// [`super::RecentStores`] finds it.
    From(u8),
    /// They cannot be forwarded: the load waits until that store is in the cache.
    Blocked(u8),
}

impl Forwarding {
    /// Of two loads of an instruction the one whose data is there later: one that waits until a store is
    /// in the cache, or that has its data from a more recent store.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        match (self, other) {
            (Self::Blocked(a), Self::Blocked(b)) => Self::Blocked(a.min(b)),
            (Self::From(a), Self::From(b)) => Self::From(a.min(b)),
            (Self::Blocked(_), _) | (_, Self::None) => self,
            _ => other,
        }
    }
}

/// What was wrong about the prediction of a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Misprediction {
    /// Nothing.
    #[default]
    None,
    /// The decoder found it and went to the right place.
    Decoder,
    /// It was found when the branch was executed.
    Execution,
}

/// What happened in an execution of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// Linear address of its first byte.
    pub address: u64,
    /// Cycles that fetching it took beyond a hit in the instruction cache and its TLB.
    pub fetch_delay: u32,
    /// Linear address of its first load.
    pub load_address: u64,
    /// Cycles that its loads took beyond a hit in the data cache: misses, page walks, misalignment.
    pub load_delay: u32,
    /// Cycles that its stores take beyond hits, all together, once they have retired.
    pub store_delay: u32,
    /// Whether the load was forwarded from a store.
    pub forwarding: Forwarding,
    /// It is a branch that changed the flow.
    pub taken: bool,
    /// Whether it was predicted rightly.
    pub misprediction: Misprediction,
    /// Its load and its store are locked.
    pub locked: bool,
    /// The instructions behind it are started again (a microcode assist, a write to fetched code).
    pub resync: bool,
    /// It raised a floating-point exception that takes fused operations apart.
    pub float_exception: bool,
    /// Iterations of a REP.
    pub iterations: u32,
    /// They are further ones of an instruction that has begun: what it executes once has been executed.
    pub continued: bool,
    /// The segment register that it loads, by the numbers of the encoding.
    pub segment: u8,
}

crate::state! { Misprediction: None, Decoder, Execution }
crate::state! {
    Execution {
        saved: address, fetch_delay, load_address, load_delay, store_delay, forwarding, taken, misprediction,
            locked, resync, float_exception, iterations, continued, segment;
    }
}

/// A number for the case, and how long ago the store was.
impl State for Forwarding {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let (mut number, mut back) = match *self {
            Self::None => (0_u8, 0),
            Self::From(back) => (1, back),
            Self::Blocked(back) => (2, back),
        };
        number.visit(visitor);
        back.visit(visitor);
        *self = match number {
            1 => Self::From(back),
            2 => Self::Blocked(back),
            _ => Self::None,
        };
        visitor.check(number <= 2);
    }
}

impl Instruction {
    /// Saves an instruction of a core or loads it, as [`State::visit`] does. The row is saved by its number
    /// in the core's table; one that is not in there counts as [`Row::NOTHING`].
    pub fn visit<V: Visitor>(&mut self, visitor: &mut V, core: &Core) {
        static NOTHING: Row = Row::NOTHING;
        visitor.name("out_of_order::Instruction");
        let Self {
            row,
            sources,
            address,
            destinations,
            whole,
            partial,
            zeroed,
            pushes,
            x87,
            length,
            length_changes,
            needs_stack_pointer,
            folded,
            plain,
            stores: stores_once,
            stores_each,
        } = self;
        let rows = || core.table.rows.iter().copied().flatten();
        let mut number = rows().position(|one| std::ptr::eq(one, *row));
        optional(visitor, &mut number, || 0);
        *row = match number {
            None => &NOTHING,
            Some(number) => rows().nth(number).unwrap_or_else(|| {
                visitor.refuse();
                &NOTHING
            }),
        };
        for registers in [sources, address, destinations, whole, partial, zeroed] {
            registers.visit(visitor);
        }
        pushes.visit(visitor);
        length.visit(visitor);
        for flag in [x87, length_changes, needs_stack_pointer, folded, &mut *plain] {
            flag.visit(visitor);
        }
        visitor.check(!*plain || is_plain(core, row));
        (*stores_once, *stores_each) = (stores(row.operations), stores(row.each));
    }
}
