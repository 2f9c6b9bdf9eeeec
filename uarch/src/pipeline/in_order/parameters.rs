//! The figures of in-order pipelines with two pipes: data of a part.

/// The figures of an in-order pipeline with two pipes that executes one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// What it has in common with others.
    pub pipes: Pipes,
    /// Write buffers, eight at most.
    pub write_buffers: usize,
    /// Clocks lost when a wrong prediction is found in the write-back stage: that of a conditional branch
    /// in the V pipe.
    pub mispredicted_late: u64,
    /// Clocks until the result of an MMX multiplication can be used.
    pub mmx_multiply: u64,
    /// Clocks by which an MMX register has to be ready before it is stored: one at most.
    pub mmx_store: u64,
    /// Clocks of the first x87 instruction behind MMX instructions.
    pub mmx_to_x87: u64,
}

/// The figures that in-order pipelines with two pipes have in common, whatever they execute in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipes {
    /// Instructions, four at most, that fit between the stage that finds where they end and the one that
    /// pairs them.
    pub fifo: usize,
    /// Bytes of the longest instruction that enters the FIFO with another, and that the V pipe takes.
    pub longest_paired: u8,
    /// Clocks by which an operand-size or address-size prefix delays an instruction's entry.
    pub size_prefix: u64,
    /// Clocks by which another prefix delays it.
    pub other_prefix: u64,
    /// Two pushes, two pops, or a push and a call pair: the stack pointer behind the first is known before
    /// it executes.
    pub stack_pairs: bool,
    /// Clocks of a pair of simple instructions in the execution stage, by the clocks of its first and
    /// of its second instruction alone, less one.
    pub pair_clocks: [[u16; 3]; 3],
    /// Lowest of the address bits that select a bank of the data cache.
    pub bank_bit: u32,
    /// How many bits select a bank: five at most.
    pub bank_bits: u32,
    /// Clocks more for a misaligned access.
    pub misaligned: u64,
    /// Clocks more for an instruction with the LOCK prefix.
    pub lock: u64,
    /// Clocks lost when a wrong prediction is found in the execution stage.
    pub mispredicted: u64,
    /// Clocks from an empty pipeline until an instruction executes: three at least, fetch, D1 and D2.
    pub refill: u64,
    /// Clocks from a multiplication in the x87 unit's multiplier to the next.
    pub multiplier_repeat: u64,
    /// Clocks of delivering an exception or an interrupt.
    pub delivery: u64,
}
