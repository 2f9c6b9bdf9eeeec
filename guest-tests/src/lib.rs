//! Bare-metal guests for testing the machine from the inside.
//!
//! A test assembles a [`Guest`] with iced-x86, instruction by instruction, runs it with [`run()`] on
//! a machine in the test's own process, and compares the values that the guest reports with numbers
//! counted by hand. `tests/` has one file a topic; a topic is written once and runs on every
//! [`Part`] that it applies to.
//!
//! # What the expectations rest on
//!
//! * An instruction is counted by the configuration in force when it began: the WRMSR that enables a
//!   counter is not counted by it, the one that disables it is.
//! * RDPMC and RDMSR read a counter as it was before they retire.
//! * On K7 and K8, events C0h, C2h, C4h and C6h count each exception and each interrupt once, beside
//!   the instructions; at the privilege level that was interrupted. So does 12h of P55C.
//! * Every instruction takes one cycle; on [`Engine::PRICED`] what [`timing`] says, and on [`Engine::TIMED`],
//!   while anything is counted, what the part's pipeline takes.

pub mod guest;
mod long_mode;
pub mod machine;
pub mod measure;
pub mod msr;
pub mod part;
pub mod processors;
pub mod random;
pub mod timing;

pub use guest::{Guest, PMI_VECTOR, SCRATCH};
pub use machine::{Engine, Options, Outcome, engine, on_engine, run, run_with};
pub use measure::DISABLING;
pub use part::Part;

/// The assembler's error; a test returns it.
pub type Result<T = ()> = std::result::Result<T, iced_x86::IcedError>;
