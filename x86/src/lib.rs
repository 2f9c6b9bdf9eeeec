//! The software CPU: an interpreter of x86 and AMD64 over basic blocks of lowered instructions.
//!
//! # What its owner supplies
//!
//! | What | How |
//! |---|---|
//! | which processor | [`features::Features`] for [`cpu::Cpu::new`] |
//! | memory | [`ram::Ram`], of mappings that the owner keeps |
//! | devices, model-specific registers, RDPMC, CPUID, the time-stamp counter | [`bus::Bus`] |
//! | how far to go | [`timing::Budget`] for [`cpu::Cpu::run`], which says by [`run::Exit`] why it has ended |
//! | interrupts | between two runs: [`cpu::Cpu::interrupt`], if [`cpu::Cpu::interrupts_enabled`], and [`cpu::Cpu::nmi`] |
//! | who is told of execution | an [`observe::Observer`]: [`observe::Plain`] is told nothing, [`observe::Counting`] counts |
//!
//! README.md has a program of these.
//!
//! # How an instruction becomes execution
//!
//! ```text
//! bytes --iced-x86--> Instruction --lower--> Insn --handler--> Op { handler, Insn } --> Block --> run loop
//! ```
//!
//! * [`insn`]: [`insn::Insn`] is the lowered instruction: plain data, no type of the decoder.
//! * `lower/`: turns decoded instructions into blocks of `Insn`s, the same for all observers.
//! * `handler.rs`: which handler executes an `Insn` under an observer.
//! * `exec/`, `simd/`, `vector/`, `x87/`: how each family is lowered, and its handlers.
//! * [`cpu`]: [`cpu::Cpu`], the architectural state of one logical processor. Its control registers,
//!   modes and segment registers: [`control_registers`], [`mode`], [`descriptor`].
//! * `access.rs`, `tlb.rs`, `paging.rs`: linear memory, from effective address to host memory.
//! * [`block`], `run.rs`: the cache of translated blocks and the loop that runs them.
//! * `segment.rs`, `far.rs`, `gate.rs`, `task.rs`: protection.
//! * [`stops`]: where a debugger outside of the guest stops it.
//! * [`handover`], [`unwind`]: taking over from another engine in the middle of a guest.
//! * [`effects`]: what an instruction does, for readers of lowered code. [`encoding`]: how it is encoded.
//! * [`observe`]: what can be seen, as a generic parameter of all handlers.
//! * [`bus`]: all that is outside.

/// The program in README.md, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access;
pub mod alignment;
pub mod block;
pub mod bus;
pub mod class;
mod code_log;
pub mod control_registers;
pub mod cpu;
mod debug;
pub mod descriptor;
pub mod effects;
pub mod encoding;
mod exec;
mod facts;
mod far;
pub mod features;
pub mod flags;
mod float_cases;
mod gate;
mod handler;
pub mod handover;
pub mod history;
#[cfg(all(test, target_arch = "x86_64"))]
#[path = "../tests/host/mod.rs"]
mod host;
pub mod insn;
mod lower;
pub mod mode;
pub mod msr;
pub mod observe;
pub mod operation;
mod paging;
pub mod ram;
pub mod run;
mod segment;
pub mod simd;
pub mod softfloat;
pub mod state;
pub mod stop;
pub mod stops;
mod task;
pub mod timing;
mod tlb;
pub mod unwind;
pub mod vector;
pub mod watch;
pub mod x87;
