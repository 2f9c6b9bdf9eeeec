//! What goes over the bus: the requests that leave a processor's caches, and what the other caches said.

/// A request of a processor or a device to memory or to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The processor that makes it; `None` for a device.
    pub processor: Option<usize>,
    /// When it begins, in cycles of the processor.
    pub time: u64,
    /// What it asks for.
    pub request: Request,
    /// Guest-physical address of its first byte; the port.
    pub physical: u64,
    /// Bytes.
    pub bytes: u32,
    /// It belongs to a locked read-modify-write that holds the bus.
    pub locked: bool,
    /// What the other processors' caches answered.
    pub snoop: Snoop,
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
    /// The right to write a line that is held shared: invalidate, change-to-dirty.
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

/// What the caches of the other processors answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snoop {
    /// None has the line.
    #[default]
    Miss,
    /// One has it, as memory has it.
    HitClean,
    /// One has it dirty, and supplies it.
    HitDirty,
}
