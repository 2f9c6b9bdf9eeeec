//! Engines: what executes the guest's instructions.
//!
//! The software engine runs one processor for a slice of virtual time, until one of the reasons in
//! [`Outcome`]. The machine decides which processor runs when, and owns devices and memory. The KVM
//! engine runs each processor on a thread of its own, with the machine behind a lock; while a counter
//! is enabled it has the software engine run the processors.

mod board;
mod count;
pub mod kvm;
pub mod soft;

pub use self::board::Board;
pub use self::count::Count;
use crate::config::Config;
use crate::console::Console;
use crate::error::Result;
use crate::machine::{End, LocalApic, Machine};
use crate::memory::Memory;
use crate::platform::Platform;
use crate::stop::Stop;

/// What executes the processors of a machine.
///
/// Between two runs all of the machine's state is in the [`Machine`], whichever engine ran it last: another one can
/// go on. What a guest reaches beyond memory is the [`Board`]'s with any of them.
pub(crate) trait Engine: Send {
    /// Runs the machine until the guest ends, it is cut off or pauses, or so many instructions have retired since
    /// power-on.
    ///
    /// # Errors
    /// If the console's output cannot be written, or the host cannot go on.
    fn run(
        &mut self,
        machine: &mut Machine,
        stop: &Stop,
        instructions: Option<u64>,
        console: &mut Console,
    ) -> Result<End>;

    /// What the local APICs of a machine are like.
    fn local_apic(&self, platform: &Platform) -> LocalApic;

    /// What of the guest passes through this process.
    fn sees(&self) -> Sees;
}

/// What of a guest passes through this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sees {
    /// Each instruction, so that all can be counted, recorded and, since time is counted in them, taken back.
    pub(crate) instructions: bool,
    /// The local APICs, so that it is known what becomes of each interrupt.
    pub(crate) lapics: bool,
}

/// The engine that `config` asks for, with the processors and the memory of the machine, and why that one.
///
/// # Errors
/// If it cannot be had.
pub(crate) fn choose(
    config: &Config,
    platform: &Platform,
    memory: &mut Memory,
) -> Result<(Box<dyn Engine>, Choice)> {
    let (kvm, choice) = kvm::Kvm::choose(config, platform, memory)?;
    Ok(match kvm {
        Some(kvm) => (Box::new(kvm), choice),
        None => (Box::new(soft::Slices), choice),
    })
}

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
