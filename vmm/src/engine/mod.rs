//! Engines: what executes the guest's instructions.
//!
//! The software engine runs one processor for a slice of virtual time, until one of the reasons in
//! [`Outcome`]. The machine decides which processor runs when, and owns devices and memory. The KVM
//! engine runs each processor on a thread of its own, with the machine behind a lock; while a counter
//! is enabled it has the software engine run the processors.

mod count;
pub mod kvm;
pub mod soft;

pub use self::count::Count;
use crate::devices::Chipset;
use crate::irq::lapic::PmiOutcome;
use crate::platform::Platform;
use crate::trace::{Act, At, Tracer};

/// The engine that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The software engine.
    #[default]
    Soft,
    /// The host's KVM.
    Kvm,
    /// KVM if there is one and the guest can use it, else the software engine.
    Auto,
}

/// Where the interrupt controllers are while KVM runs the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IrqchipKind {
    /// In this process.
    #[default]
    User,
    /// In the host's kernel.
    Kernel,
}

/// The engine that runs a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub engine: &'static str,
    /// Why that one, in a few words.
    pub reason: String,
    /// What may go wrong with it, in one line.
    pub warning: Option<String>,
}

/// The reason of a [`Choice`] that was the user's.
pub const ASKED_FOR: &str = "asked for";

/// Why a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The time is up.
    Complete,
    /// The interrupt controllers have INIT or start-up signals to distribute.
    Signals,
    /// The chipset has an event for the machine's owner.
    Event,
    /// As many instructions as were allowed have retired.
    InstructionLimit,
    /// No counter is enabled any more and no PMI is on its way, which [`Limit::counted`] asked for.
    Uncounted,
    /// The processor has sent an interrupt to another one or executed PAUSE, which [`Limit::at_send`]
    /// or [`Limit::at_pause`] asked for.
    Yielded,
    /// The next instruction of its core is another hardware thread's.
    HandsOver,
    /// The threads of a core take turns instruction by instruction from now on.
    Interleaves,
    /// A debugger stops the processor here.
    Debugger,
    /// The processor shut down: triple fault.
    Shutdown,
    /// The run is to end.
    Stopped,
}

/// How far a slice may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Virtual time at which it ends, in cycles.
    pub time: u64,
    /// Instructions that may retire.
    pub instructions: u64,
    /// It also ends as soon as no counter counts what the processor does and no PMI is on its way.
    pub counted: bool,
    /// It also ends when the processor has sent an interrupt to another one.
    pub at_send: bool,
    /// It also ends when the processor executes PAUSE.
    pub at_pause: bool,
}

/// What the processors share besides memory.
pub struct Board {
    /// All devices and interrupt controllers.
    pub chipset: Chipset,
    /// The processors' identity.
    pub platform: Platform,
    /// Instructions between an overflow and its PMI.
    pub skid: u64,
    /// Who is told of what matters to the PMUs, if the run is traced.
    pub(crate) tracer: Option<Box<Tracer>>,
    /// The latest time that a device has seen. Processors run the same interval one after the other,
    /// so that their times go back; to devices time stands still meanwhile.
    device_time: u64,
}

impl Board {
    /// A board at virtual time zero.
    #[must_use]
    pub fn new(chipset: Chipset, platform: Platform, skid: u64) -> Self {
        Self { chipset, platform, skid, tracer: None, device_time: 0 }
    }

    /// Tells the tracer, if there is one, of an act of a processor.
    pub(crate) fn trace(&mut self, vcpu: usize, at: impl Into<At>, act: Act) {
        if let Some(tracer) = &mut self.tracer {
            tracer.report(vcpu, at, act);
        }
    }

    /// The same of what came of the interrupt of a counter.
    pub(crate) fn trace_pmi(&mut self, vcpu: usize, at: impl Into<At>, outcome: PmiOutcome) {
        if let Some(tracer) = &mut self.tracer {
            tracer.pmi(vcpu, at, outcome, &self.chipset.irq);
        }
    }

    /// Whether a debugger stops the machine at an act that has just been told of.
    pub(crate) fn stops_at_act(&self) -> bool {
        self.tracer.as_ref().is_some_and(|tracer| tracer.stops.is_hit())
    }

    /// The time for a device access of a processor that is at `time`.
    #[inline]
    pub fn device_time(&mut self, time: u64) -> u64 {
        self.device_time = self.device_time.max(time);
        self.device_time
    }

    /// The latest time that a device has seen.
    pub(crate) fn latest_device_time(&self) -> u64 {
        self.device_time
    }

    /// Puts back the devices, and the latest time that one has seen.
    pub(crate) fn restore(&mut self, chipset: Chipset, device_time: u64) {
        self.chipset = chipset;
        self.device_time = device_time;
    }

    /// Whether a device event is due before `until`, or has been since a device was last accessed.
    pub(crate) fn is_due(&self, until: u64) -> bool {
        let deadline = self.chipset.next_deadline();
        deadline.is_some_and(|deadline| deadline < until || deadline <= self.device_time)
    }

    /// Delivers the device events that are due at `time`; says when the next one is. Where none is due, this may be
    /// asked any number of times, and no device sees the time.
    pub fn catch_up(&mut self, time: u64) -> u64 {
        let due = |chipset: &Chipset| chipset.next_deadline().unwrap_or(u64::MAX);
        let now = self.device_time.max(time);
        if due(&self.chipset) <= now {
            self.device_time = now;
            self.chipset.advance(now);
        }
        due(&self.chipset)
    }
}
