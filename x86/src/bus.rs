//! What surrounds the processor: everything that is not its own registers or RAM.

use crate::observe::Facts;

/// #GP(0): the access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// EAX, EBX, ECX, EDX of a CPUID leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by the registers")]
pub struct CpuidResult {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// The outside of one processor.
///
/// `time` is the processor's virtual time in cycles: for ports, MSRs and the TSC at the start of the
/// instruction, for MMIO at the start of its block, so it may lie up to a block's length behind that
/// of an earlier call. After a call that may have changed what interrupts the processor sees (all writes), the processor returns
/// from its run at the next instruction boundary, so the owner can look.
pub trait Bus {
    /// Reads `size` bytes (1, 2, 4 or 8) at a guest-physical address that is not RAM.
    fn mmio_read(&mut self, time: u64, gpa: u64, size: usize) -> u64;
    /// Writes `size` bytes at a guest-physical address that is not RAM.
    fn mmio_write(&mut self, time: u64, gpa: u64, size: usize, value: u64);
    /// Reads 1, 2 or 4 bytes from port space.
    fn io_read(&mut self, time: u64, port: u16, size: usize) -> u32;
    /// Writes 1, 2 or 4 bytes to port space.
    fn io_write(&mut self, time: u64, port: u16, size: usize, value: u32);
    /// A model-specific register that is not the processor core's own.
    fn rdmsr(&mut self, time: u64, index: u32) -> Result<u64, Refused>;
    /// Writes a model-specific register that is not the processor core's own.
    fn wrmsr(&mut self, time: u64, index: u32, value: u64) -> Result<(), Refused>;
    /// RDPMC with `index` from ECX. `pce` is CR4.PCE; `real` that CR0.PE is clear.
    fn rdpmc(&mut self, index: u32, cpl: u8, pce: bool, real: bool) -> Result<u64, Refused>;
    /// Takes the counts so far, before an instruction that may read or program a counter: `facts`
    /// up to `time`, when `retired` instructions had retired since power-on. Called only under an
    /// observer that counts; a bus without counters has nothing to do.
    fn settle(&mut self, _facts: &Facts, _time: u64, _retired: u64) {}
    /// CPUID as the personality has it.
    fn cpuid(&mut self, leaf: u32, subleaf: u32) -> CpuidResult;
    /// The time-stamp counter at `time`.
    fn tsc(&mut self, time: u64) -> u64;
    /// The task-priority class in the local APIC (CR8).
    fn cr8(&mut self) -> u8;
    /// Sets the task-priority class.
    fn set_cr8(&mut self, time: u64, value: u8);
    /// IGNNE#/FERR#: an unmasked x87 exception with CR0.NE clear (external reporting by IRQ13).
    fn ferr(&mut self);
}
