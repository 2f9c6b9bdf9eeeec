//! An in-order core with two pipes that executes several threads: that of Knights Corner, a Pentium with a
//! vector unit.
//!
//! Each thread has a front end of its own. In every cycle one thread issues, an instruction or a pair, by
//! turns among those that can; none issues in two successive cycles, as decoding takes two, so that one
//! thread alone has at best every other cycle (Intel 328207, section 2.1.2, as restated). The execution stage
//! is one: an instruction of more than a clock there, and microcode, keeps all threads out. What a thread
//! waits for by itself holds up no other: operands, a miss, fetch, a wrong prediction, DELAY.
//!
//! ```text
//! thread 0: fetch, decode ─┐
//! thread 1: fetch, decode ─┼─> picker ──> U, V: execute ──> integer, x87 unit, vector unit
//!       ...               ─┘   core.rs    join.rs           operands.rs
//!           thread.rs
//! ```
//!
//! # Whose turn it is
//!
//! Which thread issues in a cycle depends on when the others could, so none can be executed by itself. Nor
//! does anyone know what a thread will execute next before it has executed what comes before. So the owner
//! asks, and executes nothing but what it is asked for:
//!
//! * [`Core::next`] says [`Turn::Bring`] if the next instruction of a thread has to be known: it might issue
//!   before that of any other thread. The owner executes one instruction of this thread and brings it with
//!   all that became of it ([`Core::bring`]).
//! * Or it says [`Turn::Issue`]: whatever is not known yet could not issue before an instruction that was
//!   brought. [`Core::issue`] says in which cycle it does.
//!
//! An instruction that was brought is held until then. When it issues is so decided with all known that
//! could come before it, which depends on what the threads execute and on nothing else: not on how long the
//! owner runs a thread, nor on when it stops and goes on. A thread that is brought an instruction before it
//! is asked for issues it in the same cycle. Threads that are not there or halted are not waited for: they
//! take no time.
//!
//! Of two instructions that pair, the first issues as if it were alone. The second joins it when it is
//! brought, if all that it needs was there in that cycle; if not, it issues by itself. So a cycle that has
//! been told is never another one later. That the second holds up the first no further is a simplification:
//! a Pentium holds up both. Not sourced of Knights Corner.
//!
//! What accesses wait for comes with them: caches, TLBs and bus decide it.

mod core;
mod execution;
mod instruction;
mod join;
mod operands;
mod parameters;
#[cfg(test)]
mod tests;
mod thread;

pub use self::{
    core::{AT_ISSUE, Core, THREADS, Turn},
    execution::{Access, Execution},
    instruction::{Instruction, VectorRegisters},
    parameters::Parameters,
};
