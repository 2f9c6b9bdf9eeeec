//! What a processor asks of its caches.

use crate::bus::Bus;
use crate::state::{State, Visitor};
use crate::system::Processors;

/// What an operation reaches beside the caches.
#[derive(Debug)]
pub struct Context<'a> {
    /// Where signals are fired.
    pub processors: &'a mut Processors,
    /// The bus behind the caches.
    pub bus: &'a mut Bus,
    /// When the operation begins, in cycles of the processor.
    pub time: u64,
}

/// An access to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Guest-physical address of its first byte.
    pub physical: u64,
    /// How many bytes, at least one. They may cross a line, but are in memory of one type.
    pub bytes: u32,
    /// What kind of instruction makes it.
    pub kind: Kind,
    /// The type of the memory.
    pub memory: MemoryType,
}

/// What kind of instruction makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One that is none of the following.
    Plain,
    /// An MMX instruction.
    Mmx,
    /// An instruction of the vector unit.
    Vector,
    /// A locked one.
    Locked,
    /// A store that is not to disturb the caches: MOVNTQ and the like, a streaming store.
    NonTemporal,
    /// A store of the vector unit that writes all of a line, which so need not be read first: VMOVNRAPS and
    /// the like. If it is not of a line, it is as any store.
    NoRead {
        /// It becomes visible in order with other stores; that of VMOVNRNGOAPS need not.
        ordered: bool,
    },
}

/// How memory is cached (Intel SDM volume 3, "Methods of Caching Available").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryType {
    /// UC: every access goes to the bus, in order.
    Uncacheable,
    /// WC: not cached; writes are collected in buffers.
    WriteCombining,
    /// WT: reads are cached, writes go to the cache and to the bus.
    WriteThrough,
    /// WP: reads are cached, writes go to the bus and drop the line everywhere.
    WriteProtected,
    /// WB: reads and writes are cached.
    WriteBack,
}

impl MemoryType {
    /// Whether a line of it may be in a cache.
    #[inline]
    #[must_use]
    pub const fn is_cacheable(self) -> bool {
        !matches!(self, Self::Uncacheable | Self::WriteCombining)
    }
}

/// A read of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Guest-physical address of its first byte.
    pub physical: u64,
    /// How many bytes, at least one, one after the other: those of all instructions up to the next
    /// transfer of control or the end of the page.
    pub bytes: u32,
    /// It goes on where the last fetch ended, so that a window which that one has read is not read again.
    pub sequential: bool,
    /// The type of the memory.
    pub memory: MemoryType,
}

/// What a prefetch instruction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// PREFETCHT0, and AMD's PREFETCH: into all levels.
    T0,
    /// PREFETCHT1: into the second level.
    T1,
    /// PREFETCHT2: into the second level.
    T2,
    /// PREFETCHNTA: to be used once.
    NonTemporal,
    /// PREFETCHW, VPREFETCHE0: to be written, into all levels.
    Write,
    /// VPREFETCHE1: to be written, into the second level.
    WriteT1,
    /// VPREFETCHE2: the same.
    WriteT2,
    /// VPREFETCHENTA: to be written once.
    WriteNonTemporal,
}

impl Hint {
    /// Whether the line is wanted in the second level only.
    pub(super) const fn is_outer(self) -> bool {
        matches!(self, Self::T1 | Self::T2 | Self::WriteT1 | Self::WriteT2)
    }

    /// Whether it is to be written.
    pub(super) const fn is_to_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteT1 | Self::WriteT2 | Self::WriteNonTemporal)
    }
}

crate::state! {
    MemoryType: Uncacheable, WriteCombining, WriteThrough, WriteProtected, WriteBack
}
crate::state! { Hint: T0, T1, T2, NonTemporal, Write, WriteT1, WriteT2, WriteNonTemporal }

/// A number for the kind; a store without a read has two.
impl State for Kind {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let mut number: u8 = match self {
            Self::Plain => 0,
            Self::Mmx => 1,
            Self::Vector => 2,
            Self::Locked => 3,
            Self::NonTemporal => 4,
            Self::NoRead { ordered: false } => 5,
            Self::NoRead { ordered: true } => 6,
        };
        number.visit(visitor);
        *self = match number {
            1 => Self::Mmx,
            2 => Self::Vector,
            3 => Self::Locked,
            4 => Self::NonTemporal,
            5 => Self::NoRead { ordered: false },
            6 => Self::NoRead { ordered: true },
            _ => Self::Plain,
        };
        visitor.check(number <= 6);
    }
}
