//! Where and why a run stopped: the state of each processor at its end, and what it did last.
//!
//! A [`DebugDump`] is gathered from the machine once it has stopped, and printed as text
//! ([`DebugDump::text`]) or as JSON (`--debug-dump`; `docs/debug-dump.md` has the schema). It holds only
//! what happened. On the software engine equal runs have equal dumps.

mod gather;
mod names;
mod text;

use serde::{Serialize, Serializer};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::machine::{End, Machine};
use crate::msr_owners::MsrOwner;
use crate::notes::Note;
use crate::symbols::SymbolFile;

/// The version of the schema: a field that is added leaves it as it is.
pub const SCHEMA: u32 = 1;

/// The state of a machine that has stopped.
#[derive(Debug, Serialize)]
pub struct DebugDump {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Personality.
    pub cpu: &'static str,
    /// What executed the guest.
    pub engine: &'static str,
    /// How the run ended, in one word.
    pub end: &'static str,
    /// Exit status that stands for it.
    pub status: u8,
    /// Processor clock in Hz.
    pub clock_hz: u64,
    /// Virtual time in cycles.
    pub cycles: u64,
    /// Whether all exceptions were seen. KVM delivers a guest's exceptions without telling: there the list
    /// has those that the software engine raised, and refused accesses to model-specific registers.
    pub all_exceptions_seen: bool,
    /// The processors.
    pub vcpus: Vec<VcpuDump>,
    /// The notes of the run.
    pub notes: Vec<Note>,
}

/// What a processor is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// It executes.
    Executing,
    /// HLT has halted it.
    Halted,
    /// It waits for a start-up IPI.
    WaitingForStartup,
    /// It has shut down: the triple fault.
    ShutDown,
}

/// The state of one processor.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct VcpuDump {
    /// Its number.
    pub id: usize,
    /// What it is at.
    pub activity: Activity,
    /// The next instruction, or the one that raised the last exception of a triple fault.
    pub at: Place,
    /// That instruction; `None` if its bytes are not in RAM.
    pub instruction: Option<Instruction>,
    /// Privilege level.
    pub cpl: u8,
    /// Operating mode, in the manual's words.
    pub mode: &'static str,
    /// RFLAGS.IF: whether maskable interrupts are taken.
    pub interrupts_enabled: bool,
    /// Instructions since power-on; on KVM those that the software engine executed.
    pub instructions: u64,
    /// Where the next push would write.
    pub stack: Stack,
    /// The registers that tell where code, tables and pages are.
    pub registers: Registers,
    /// The last exceptions, the oldest first.
    pub exceptions: Vec<Exception>,
    /// What is missing, if the processor halted right behind CPUID: see [`GaveUp`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<GaveUp>,
}

/// A place in code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Selector in CS.
    #[serde(serialize_with = "hexadecimal")]
    pub cs: u64,
    /// RIP.
    #[serde(serialize_with = "hexadecimal")]
    pub rip: u64,
    /// Symbol and offset, as in `main+0x12`; `None` if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instruction {
    /// Its bytes in hexadecimal.
    pub bytes: String,
    /// Intel's syntax.
    pub text: String,
}

/// Where the next push would write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// Selector in SS.
    #[serde(serialize_with = "hexadecimal")]
    pub ss: u64,
    /// RSP.
    #[serde(serialize_with = "hexadecimal")]
    pub rsp: u64,
    /// Linear address of the push.
    #[serde(serialize_with = "hexadecimal")]
    pub linear: u64,
    /// Its guest-physical address; `None` if no page is mapped there.
    #[serde(serialize_with = "optional_hexadecimal")]
    pub physical: Option<u64>,
    /// Whether there is RAM.
    pub is_ram: bool,
}

/// Registers, of 64 bits each whatever the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names of the manual")]
pub struct Registers {
    #[serde(serialize_with = "all_hexadecimal")]
    pub gpr: [u64; 16],
    #[serde(serialize_with = "hexadecimal")]
    pub rflags: u64,
    #[serde(serialize_with = "hexadecimal")]
    pub cr0: u64,
    #[serde(serialize_with = "hexadecimal")]
    pub cr2: u64,
    #[serde(serialize_with = "hexadecimal")]
    pub cr3: u64,
    #[serde(serialize_with = "hexadecimal")]
    pub cr4: u64,
    #[serde(serialize_with = "hexadecimal")]
    pub efer: u64,
    #[serde(serialize_with = "hexadecimal")]
    pub idtr_base: u64,
    pub idtr_limit: u16,
    #[serde(serialize_with = "hexadecimal")]
    pub gdtr_base: u64,
    pub gdtr_limit: u16,
}

/// An exception, when it was raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exception {
    /// Vector.
    pub vector: u8,
    /// Mnemonic, as #PF.
    pub name: &'static str,
    /// Error code, if there is one.
    #[serde(serialize_with = "optional_hexadecimal")]
    pub error_code: Option<u64>,
    /// CR2, of #PF.
    #[serde(serialize_with = "optional_hexadecimal", skip_serializing_if = "Option::is_none")]
    pub cr2: Option<u64>,
    /// CS:RIP as the handler's frame has it: `None` if KVM raised it.
    pub at: Option<Place>,
    /// Privilege level.
    pub cpl: u8,
    /// What became of it.
    pub delivery: Delivery,
    /// The model-specific register that RDMSR or WRMSR named, of #GP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msr: Option<RefusedMsr>,
    /// The instruction, of #UD, and what it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undefined: Option<Undefined>,
}

/// What became of an exception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Its handler was entered.
    Delivered,
    /// It was not, since this exception was raised on the way.
    Failed {
        /// Vector.
        vector: u8,
        /// Mnemonic.
        name: &'static str,
        /// Error code, if there is one.
        #[serde(serialize_with = "optional_hexadecimal")]
        error_code: Option<u64>,
        /// What was missing, if that is certain.
        why: Option<String>,
    },
    /// KVM delivers it; nothing is known of that.
    Unseen,
}

/// An access to a model-specific register that raised #GP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedMsr {
    /// ECX.
    #[serde(serialize_with = "hexadecimal")]
    pub index: u64,
    /// EDX:EAX of WRMSR; `None` of RDMSR.
    #[serde(serialize_with = "optional_hexadecimal")]
    pub written: Option<u64>,
    /// Which processors have the register, and what it is called there.
    pub owners: Vec<MsrOwner>,
}

/// An instruction that raised #UD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undefined {
    /// It.
    pub instruction: Instruction,
    /// What it needs that the processor lacks, by the names of CPUID's bits; empty if that is not it.
    pub needs: Vec<String>,
    /// Whether `--isa distro` has it.
    pub with_distro: bool,
}

/// A processor that halted with interrupts disabled right behind CPUID, and lacks what the kernels of
/// distributions check for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GaveUp {
    /// EAX of that CPUID.
    #[serde(serialize_with = "hexadecimal")]
    pub cpuid: u64,
    /// Instructions from CPUID to HLT.
    pub instructions_before: u64,
    /// What `--isa distro` adds to the processor.
    pub lacks: Vec<&'static str>,
}

impl DebugDump {
    /// The dump of a machine that has stopped. `files` are the user's for names; `notes` are the run's.
    #[must_use]
    pub fn new(
        machine: &Machine,
        config: &Config,
        end: End,
        files: &[SymbolFile],
        notes: &[Note],
    ) -> Self {
        let names = names::Names::new(machine, config, files);
        let vcpus = machine.vcpus().iter().enumerate();
        let shut_down = match end {
            End::TripleFault(id) => Some(id),
            _ => None,
        };
        let gathering = gather::Gathering { machine, config, names: &names };
        let engine = machine.choice().engine;
        Self {
            schema: SCHEMA,
            cpu: config.personality.name,
            engine,
            end: end.name(),
            status: end.status(),
            clock_hz: machine.clock_hz(),
            cycles: machine.time(),
            all_exceptions_seen: engine == "soft",
            vcpus: vcpus
                .map(|(id, vcpu)| gathering.vcpu(id, vcpu, shut_down == Some(id)))
                .collect(),
            notes: notes.to_vec(),
        }
    }

    /// As JSON.
    ///
    /// # Errors
    /// Never in practice: all keys are strings.
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|e| Error::Host(e.to_string()).because(e))
    }
}

/// Numbers that are bits or addresses: as strings, for JSON has no hexadecimal, and few of its readers
/// 64 bits.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn hexadecimal<S: Serializer>(value: &u64, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&format!("{value:#x}"))
}

#[allow(clippy::ref_option, reason = "serde passes a reference")]
fn optional_hexadecimal<S: Serializer>(
    value: &Option<u64>,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    value.map(|value| format!("{value:#x}")).serialize(to)
}

fn all_hexadecimal<S: Serializer>(
    values: &[u64; 16],
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    values.map(|value| format!("{value:#x}")).serialize(to)
}
