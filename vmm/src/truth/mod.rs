//! What a guest really did: exact counts for each instruction address, and who called whom.
//!
//! [`Truth`] is the content of a truth file: written by a run with `--truth`, read by `vpmu truth`.
//! Everything is in a fixed order, so that two runs of the same guest write the same bytes.

pub mod callgrind;
mod check;
pub mod command;
pub(crate) mod disassembly;
pub mod file;
pub mod folded;
mod format;
pub mod functions;
#[cfg(test)]
mod generated_tests;
pub mod listing;
pub mod record;
pub mod report;
mod table;
mod tree;

use serde::{Deserialize, Serialize};

/// The version of the file that this program writes, and the only one that it reads.
pub const VERSION: u32 = 2;

/// What a guest really did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The personality, by its name on the command line.
    pub personality: String,
    /// Number of processors.
    pub vcpus: u32,
    /// What was counted: the columns of every row of counts.
    pub events: Vec<Event>,
    /// The address spaces that code was executed in.
    pub spaces: Vec<Space>,
    /// The instructions that were executed, by space, address, code size and bytes.
    pub instructions: Vec<Instruction>,
    /// The counts, by instruction, then processor, then CPL.
    pub rows: Vec<Row>,
    /// The calling contexts. A context stands behind its parent.
    pub contexts: Vec<Context>,
    /// Calls that were counted in the context of their caller, because there were too many contexts or
    /// too many below each other.
    pub flattened: u64,
    /// What is known of the names of addresses.
    pub modules: Vec<Module>,
}

impl Truth {
    /// The sum of all rows, for each event.
    #[must_use]
    pub fn totals(&self) -> Vec<u64> {
        let mut totals = vec![0; self.events.len()];
        self.rows.iter().for_each(|row| add(&mut totals, &row.counts));
        totals
    }
}

/// Adds counts to sums, event by event. Sums of a truth that is [checked](Truth::check) fit.
pub(crate) fn add(sums: &mut [u64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// A column of counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The name it was asked for by, such as `instructions`, or that of a signal or of an event of the
    /// personality.
    pub name: String,
    /// The signals whose sum it is.
    pub signals: Vec<String>,
}

/// An address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// CR3 without its flag bits; `None` while paging is off.
    pub cr3: Option<u64>,
    /// The program that was executed there at CPL 3, if it is known.
    pub name: Option<String>,
}

/// An instruction at an address. Where code was modified, an address has several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instruction {
    /// Index of its space.
    pub space: u32,
    /// Linear address.
    pub address: u64,
    /// Code size: 16, 32 or 64.
    pub bits: u8,
    /// Its bytes, 1 to 15; none for what was delivered or raised before the first byte was fetched.
    pub bytes: Vec<u8>,
}

/// The counts of one instruction on one processor at one privilege level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the instruction.
    pub instruction: u32,
    /// The processor.
    pub vcpu: u32,
    /// The privilege level.
    pub cpl: u8,
    /// A count for each event.
    pub counts: Vec<u64>,
}

/// A chain of calls that some instructions were executed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Index of the calling context; `None` for the bottom of a stack.
    pub parent: Option<u32>,
    /// How it was entered.
    pub entered: Entered,
    /// Linear address of the instruction that called, or that was interrupted; that of `entry` at the
    /// bottom of a stack.
    pub site: u64,
    /// Linear address of the first instruction.
    pub entry: u64,
    /// Index of the space it was first entered in.
    pub space: u32,
    /// The privilege level it was first entered at.
    pub cpl: u8,
    /// How often it was entered.
    pub times: u64,
    /// A count for each event: what was executed in it and in no context that it called.
    pub own: Vec<u64>,
}

/// How a context is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entered {
    /// Not from another: reset, or a stack that was made and not called onto.
    Bottom,
    /// By a near or far call.
    Call,
    /// By INT n, INT3, INTO, SYSCALL or SYSENTER.
    SystemCall,
    /// By an exception of this vector.
    Exception(u8),
    /// By an interrupt of this vector; an NMI is vector 2.
    Interrupt(u8),
}

/// Symbols of one program or kernel, where it is in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// File name, or `kernel`.
    pub name: String,
    /// GNU build-id in hexadecimal, if it has one.
    pub build_id: Option<String>,
    /// Index of the only space it is known to be in; `None` for the kernel, which is in all.
    pub space: Option<u32>,
    /// Where its code is, whether symbols name it or not: linear address and bytes of each executable
    /// segment. None if that is not known.
    pub code: Vec<(u64, u64)>,
    /// By address.
    pub symbols: Vec<Symbol>,
}

/// The name of a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Linear address, relocated to where the module was.
    pub address: u64,
    /// Bytes; 0 if it reaches up to the next symbol.
    pub size: u64,
    /// Name.
    pub name: String,
}
