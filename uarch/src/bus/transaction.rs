//! What goes over the bus: the requests that leave a processor's caches, and what the other caches said.

#[cfg(doc)]
use pmu_model::Signal;

/// A request of a processor or a device to memory or to a device.
///
/// The bus fires what is seen on it: transactions and their phases, what other processors answered
/// ([`Signal::BusHit`], [`Signal::BusHitm`]), DRAM accesses, and at a northbridge commands, routes and the
/// results of probes ([`Signal::ProbeMiss`] and its like), which so are not for the caches to fire. What
/// only the processor knows that makes the request is not fired here: the memory type
/// ([`Signal::UncachedRead`], [`Signal::WcFlush`], [`Signal::SystemRequestWb`] and their like), the state in
/// which a line arrives ([`Signal::SystemReadExclusive`] and its like), the quadwords that it sends
/// ([`Signal::SystemWriteQword`]), and which of its caches a snoop hit ([`Signal::SnoopHitL1d`] and its
/// like).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The processor that makes it; `None` for a device.
    pub processor: Option<usize>,
    /// When it begins, in cycles of the processor.
    pub time: u64,
    /// What it asks for. A device reads by [`Request::ReadPartial`] and writes by
    /// [`Request::WritePartial`], also if it is a whole line.
    pub request: Request,
    /// Guest-physical address of its first byte; the port.
    pub physical: u64,
    /// Bytes: a line at most.
    pub bytes: u32,
    /// It belongs to a locked read-modify-write that holds the bus. A read begins it, a write ends it.
    pub locked: bool,
    /// What the other processors' caches answered.
    pub snoop: Snoop,
    /// The processors that answered a hit, a bit each: the one that has the line dirty, or all that have
    /// it clean.
    pub holders: u64,
    /// A cache on the board has the line, and answers this read in place of the memory. Only [`super::SequentialBus`] asks: no other board has one.
    pub on_board: bool,
}

impl Transaction {
    /// How many aligned blocks of so many bytes it touches.
    pub(super) fn blocks(&self, size: u64) -> u64 {
        let last = self.physical + u64::from(self.bytes.max(1)) - 1;
        last / size - self.physical / size + 1
    }

    /// Whether the data of a whole line go with it.
    #[inline(always)]
    pub(super) fn has_line(&self, line_bytes: u64) -> bool {
        match self.request {
            Request::ReadCode
            | Request::ReadData
            | Request::ReadForOwnership
            | Request::WriteBack => true,
            Request::Invalidate | Request::ReadPort | Request::WritePort => false,
            Request::ReadPartial | Request::WritePartial | Request::WriteCombined => {
                self.physical.is_multiple_of(line_bytes) && u64::from(self.bytes) == line_bytes
            }
        }
    }

    /// The processors that answered a hit, of so many.
    pub(super) fn holders(&self, processors: usize) -> impl Iterator<Item = usize> + use<> {
        let holders = self.holders;
        (0..processors.min(64)).filter(move |processor| holders >> processor & 1 != 0)
    }
}

/// What a transaction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A line of code.
    ReadCode,
    /// A line of data, to read it.
    ReadData,
    /// A line of data, to write it: read for ownership, read-modified.
    ReadForOwnership,
    /// The right to write a line that is held shared, or all of which is written: invalidate, change-to-dirty.
    Invalidate,
    /// A dirty line goes back to memory.
    WriteBack,
    /// Less than a line, not cacheable: a read.
    ReadPartial,
    /// Less than a line, not cacheable or written through: a write.
    WritePartial,
    /// Bytes of a write-combining buffer; all of a line if it was full.
    WriteCombined,
    /// A port is read.
    ReadPort,
    /// A port is written.
    WritePort,
}

impl Request {
    /// Whether data go from the one who asks.
    pub(super) const fn is_write(self) -> bool {
        matches!(self, Self::WriteBack | Self::WritePartial | Self::WriteCombined | Self::WritePort)
    }

    /// Whether it is for a port, which is no address of memory.
    pub(super) const fn is_port(self) -> bool {
        matches!(self, Self::ReadPort | Self::WritePort)
    }
}

/// What the caches of the other processors answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snoop {
    /// None has the line.
    #[default]
    Miss,
    /// One has it, as memory has it.
    HitClean,
    /// One has it dirty, and supplies it as part of this transaction. On a part whose processors write it
    /// back in a transaction of its own, that one has come before.
    HitDirty,
}
