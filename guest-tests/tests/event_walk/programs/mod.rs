//! The programs that move events, a file a group.

mod branches;
mod code;
mod data;
mod dram;
mod float;
mod operations;
mod pages;
mod processors;
mod registers;
mod stalls;
mod stores;
mod system;
mod vector;

use guest_tests::part::Registers;
use guest_tests::{Guest, Options, Part, Result};

/// A program.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    /// Name in the page.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub does: &'static str,
    /// Whether a part can execute it.
    pub runs_on: fn(&Part) -> bool,
    /// What is done once.
    pub set_up: fn(&mut Guest) -> Result,
    /// What is done each time before the program, and not counted.
    pub prepare: fn(&mut Guest) -> Result,
    /// The program.
    pub body: fn(&mut Guest) -> Result,
    /// Bytes of memory that it needs.
    pub(crate) memory: u64,
    /// What a second processor does when the program asks for it ([`crate::runner::ask`]).
    pub other: Option<fn(&mut Guest) -> Result>,
}

impl Program {
    /// A program for every part that needs nothing before.
    const fn new(name: &'static str, does: &'static str, body: fn(&mut Guest) -> Result) -> Self {
        Self {
            name,
            does,
            runs_on: |_| true,
            set_up: |_| Ok(()),
            prepare: |_| Ok(()),
            body,
            memory: Options::DEFAULT.memory,
            other: None,
        }
    }

    /// The second processor that it needs, if it needs one: on another core.
    pub(crate) fn second(&self, part: &Part) -> Option<u32> {
        self.other.map(|_| if part.registers == Registers::Knc { 4 } else { 1 })
    }

    /// Processors that it needs.
    pub(crate) fn processors(&self, part: &Part) -> u32 {
        self.second(part).unwrap_or(0) + 1
    }
}

/// All programs. The first is the control program, which leaves an event still that is about anything but
/// instructions and time.
pub(crate) fn all() -> Vec<Program> {
    [
        registers::PROGRAMS,
        data::PROGRAMS,
        dram::PROGRAMS,
        code::PROGRAMS,
        branches::PROGRAMS,
        pages::PROGRAMS,
        stores::PROGRAMS,
        float::PROGRAMS,
        system::PROGRAMS,
        operations::PROGRAMS,
        stalls::PROGRAMS,
        processors::PROGRAMS,
        vector::PROGRAMS,
    ]
    .concat()
}

/// Where programs put code that they write.
const CODE: u32 = 0x80_0000;
