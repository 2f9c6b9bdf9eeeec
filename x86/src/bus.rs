//! What surrounds the processor: everything that is not its own registers or RAM.

use crate::{
    observe::{LastStep, Observed},
    timing::Budget,
};

/// #GP(0): the access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// What a write means for the run of the processor (`Cpu::run`) that it happens in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The run goes on.
    GoOn,
    /// The run goes on, with this budget from the end of the instruction.
    Within(Budget),
    /// The run ends at the next instruction boundary, so that the owner can act on the write.
    Leave,
    /// As [`After::Leave`]; besides, [`Bus::claims`] now answers differently, and the processor drops
    /// all translations from its software TLB.
    DevicesMoved,
}

/// What RDPMC asks for, and who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdpmcRequest {
    /// ECX: which counter.
    pub index: u32,
    /// Current privilege level.
    pub cpl: u8,
    /// CR4.PCE.
    pub pce: bool,
    /// CR0.PE is clear.
    pub real_mode: bool,
    /// The code segment is a 16-bit one.
    pub code_16bit: bool,
}

/// Where a processor is, and when: at the beginning of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Virtual time in cycles.
    pub time: u64,
    /// Instructions retired since power-on.
    pub retired: u64,
    /// Selector in CS.
    pub cs: u16,
    /// RIP.
    pub rip: u64,
    /// Current privilege level.
    pub cpl: u8,
}

/// What a processor is at between two instructions, or two iterations of a repeated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Virtual time in cycles.
    pub time: u64,
    /// Current privilege level.
    pub cpl: u8,
    /// EFLAGS.IF.
    pub interrupts_enabled: bool,
}

/// What was observed since the owner last added it to its counters.
pub struct Uncounted<'a> {
    /// What was observed until `time`.
    pub observed: Observed<'a>,
    /// Virtual time in cycles at the start of the running instruction.
    pub time: u64,
    /// Instructions retired since power-on; the running one is not among them.
    pub retired: u64,
    /// How many steps have passed alike ([`crate::timing::AlikeSteps`]), before anything else that is yet to be counted.
    /// This is told once, whether or not anything is counted now.
    pub alike: u64,
}

/// EAX, EBX, ECX, EDX of a CPUID leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by the registers")]
pub struct CpuidResult {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// What one processor reaches beyond its registers and RAM.
///
/// `time` is the processor's virtual time in cycles at the start of the instruction or of the
/// iteration, and never less than that of an earlier call; `ends` is the time at which the instruction
/// ends. After a call that may have changed what interrupts the processor sees (accesses to
/// memory-mapped registers and ports), the processor returns from its run at the next instruction
/// boundary, so that the owner can deliver them; unless [`Bus::look`] says that there is nothing to do.
pub trait Bus {
    /// Whether a device answers for the page of a guest-physical address, even where there is RAM.
    /// The processor remembers the answer until a write says [`After::DevicesMoved`]. Page tables are
    /// read from RAM all the same.
    fn claims(&self, _gpa: u64) -> bool {
        false
    }
    /// Where the instruction is that is about to call [`Bus::rdmsr`], [`Bus::wrmsr`],
    /// [`Bus::refused_above_cpl0`], [`Bus::rdpmc`], [`Bus::spflt`] or [`Bus::mmio_write`], or the next one before
    /// [`Bus::renew_budget`]. Called with [`crate::cpu::Cpu::tells_place`] set.
    fn at(&mut self, _place: Place) {}
    /// RDMSR, or WRMSR of this value, raises #GP since the privilege level is not 0. Called as [`Bus::at`] is.
    fn refused_above_cpl0(&mut self, _index: u32, _written: Option<u64>) {}
    /// Reads `size` bytes (1, 2, 4 or 8) at a guest-physical address that is not RAM, or claimed.
    fn mmio_read(&mut self, time: u64, gpa: u64, size: usize) -> u64;
    /// Writes `size` bytes at a guest-physical address that is not RAM, or claimed.
    fn mmio_write(&mut self, time: u64, gpa: u64, size: usize, value: u64);
    /// Reads 1, 2 or 4 bytes from port space.
    fn io_read(&mut self, time: u64, port: u16, size: usize) -> u32;
    /// Writes 1, 2 or 4 bytes to port space.
    fn io_write(&mut self, time: u64, port: u16, size: usize, value: u32);
    /// A model-specific register that is not the processor core's own. `edi` is EDI, where some
    /// registers require a passcode; `uncounted` is as for [`Bus::rdpmc`].
    fn rdmsr(
        &mut self,
        time: u64,
        index: u32,
        edi: u32,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<u64, Refused>;
    /// Writes a model-specific register that is not the processor core's own. `uncounted` is as for
    /// [`Bus::rdpmc`], and has to be counted before a counter that is counting changes, or what it
    /// counts.
    fn wrmsr(
        &mut self,
        time: u64,
        ends: u64,
        index: u32,
        value: u64,
        edi: u32,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<After, Refused>;
    /// RDPMC. `uncounted` is what was observed since [`Bus::update_counters`], `None` under an observer
    /// that counts nothing. Occurrences in it that the counter counts belong to the value that is read.
    fn rdpmc(
        &mut self,
        request: RdpmcRequest,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<u64, Refused>;
    /// SPFLT: sets or clears the user preference of this hardware thread (Knights Corner's
    /// `PERF_SPFLT_CONTROL` bit 63). The running SPFLT itself is counted as it began. A bus without
    /// such a thread has nothing to do.
    fn spflt(&mut self, _ends: u64, _enabled: bool) -> After {
        After::GoOn
    }
    /// Adds what has been observed to the counters, before an instruction that may read or program
    /// one. What is counted is taken out of `uncounted` (set to zero); what no counter counts now may
    /// stay there and is not counted later either. Called only under an observer that counts; a bus
    /// without counters has nothing to do.
    fn update_counters(&mut self, _uncounted: Uncounted<'_>) {}
    /// The budget of the run is used up, behind an instruction or an iteration of a repeated one, whose cycles `last_step`
    /// tells about. Where that bounded what a counter may count, and no more: counts it, as
    /// [`Bus::update_counters`] does, and gives the budget with which the run goes on from now. `None`: the run is
    /// over.
    fn renew_budget(&mut self, _uncounted: Uncounted<'_>, _last_step: LastStep) -> Option<Budget> {
        None
    }
    /// A device was accessed, or the privilege level or EFLAGS.IF has changed where that is observed
    /// ([`crate::cpu::Cpu::observe_privilege`]), and nothing else ends the run here: whether it does, or goes on.
    /// `uncounted` is as for [`Bus::rdpmc`]; what is observed from here on is of what the processor is at now. Asked
    /// where nobody follows the instructions ([`crate::observe::Observer::FOLLOWS`]).
    fn look(&mut self, _now: Now, _uncounted: Option<Uncounted<'_>>) -> After {
        After::Leave
    }
    /// CPUID as the personality has it.
    fn cpuid(&mut self, leaf: u32, subleaf: u32) -> CpuidResult;
    /// The time-stamp counter at `time`.
    fn tsc(&mut self, time: u64) -> u64;
    /// The task-priority class in the local APIC (CR8).
    fn cr8(&mut self) -> u8;
    /// Sets the task-priority class.
    fn set_cr8(&mut self, time: u64, value: u8);
    /// FERR# is asserted: an x87 or MMX instruction has met an unmasked x87 exception with CR0.NE
    /// clear. Once for each exception; the instruction executes after the interrupt that this may
    /// lead to, ignoring the exception as under IGNNE# if it is still pending.
    fn ferr(&mut self);
}

#[cfg(test)]
pub(crate) mod unconnected {
    use super::{After, Bus, CpuidResult, RdpmcRequest, Refused, Uncounted};

    /// For tests of instructions that reach nothing outside the processor: an access to memory beyond
    /// RAM or to a port fails the test. FERR# is counted.
    #[derive(Default)]
    pub(crate) struct Unconnected {
        pub(crate) ferr: u32,
    }

    impl Bus for Unconnected {
        fn mmio_read(&mut self, _: u64, gpa: u64, _: usize) -> u64 {
            panic!("a read outside RAM, at {gpa:#x}")
        }
        fn mmio_write(&mut self, _: u64, gpa: u64, _: usize, _: u64) {
            panic!("a write outside RAM, at {gpa:#x}")
        }
        fn io_read(&mut self, _: u64, port: u16, _: usize) -> u32 {
            panic!("a read of port {port:#x}")
        }
        fn io_write(&mut self, _: u64, port: u16, _: usize, _: u32) {
            panic!("a write to port {port:#x}")
        }
        fn rdmsr(
            &mut self,
            _: u64,
            _: u32,
            _: u32,
            _: Option<Uncounted<'_>>,
        ) -> Result<u64, Refused> {
            Err(Refused)
        }
        fn wrmsr(
            &mut self,
            _: u64,
            _: u64,
            _: u32,
            _: u64,
            _: u32,
            _: Option<Uncounted<'_>>,
        ) -> Result<After, Refused> {
            Err(Refused)
        }
        fn rdpmc(&mut self, _: RdpmcRequest, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
            Err(Refused)
        }
        fn cpuid(&mut self, _: u32, _: u32) -> CpuidResult {
            CpuidResult::default()
        }
        fn tsc(&mut self, time: u64) -> u64 {
            time
        }
        fn cr8(&mut self) -> u8 {
            0
        }
        fn set_cr8(&mut self, _: u64, _: u8) {}
        fn ferr(&mut self) {
            self.ferr += 1;
        }
    }
}
