//! The out-of-order pipelines of K7, K8, the P6 family and Pentium M: how their decoders crack instructions,
//! and in which cycles the operations are dispatched, issued and retired.
//!
//! ```text
//! operation.rs      MicroOp, MacroOp: what decoders make of instructions
//! table.rs          Row, Table: of which instructions, as data of a part
//! core.rs           Core: widths, depths and sizes, as data of a part
//! registers.rs      numbers of what instructions wait for
//! instruction.rs    what the pipeline is told: Instruction, once, and Execution, each time
//! pipeline.rs       Pipeline: an instruction's way from fetch to retirement
//! plain.rs          the same of instructions that there is nothing special about
//! front_end.rs      windows of code, lines or groups of decoders
//! dispatch.rs       what holds an operation before it is in the schedulers, and the stalls that count it
//! room.rs           room in schedulers and buffers
//! issue.rs          operands, units and memory
//! units.rs          which unit starts what in which cycle
//! memory.rs         LS1 and LS2, load and store buffers, forwarding
//! recent_stores.rs  which store a load's data comes from
//! retirement.rs     retirement in order
//! finish.rs         results, counts, and where the next instruction comes from
//! ```
//!
//! This is interval simulation in that an instruction costs as much time as it has operations, however
//! many cycles pass: each operation's cycles follow from those of older ones. The wrong path of a
//! mispredicted branch is not simulated; what it costs is the time until the right one is there.

mod core;
mod dispatch;
mod finish;
mod front_end;
mod instruction;
mod issue;
mod memory;
mod operation;
mod pipeline;
mod plain;
mod recent_stores;
pub mod registers;
mod retirement;
mod room;
pub mod table;
mod units;

pub use self::{
    core::{Core, Decoders, Fetch, Memory, PartialRegisters, Schedulers, SegmentLoads, Stalls},
    instruction::{Execution, Forwarding, Instruction, Misprediction, Operands},
    operation::{Blocking, MacroOp, MicroOp, Role, Units},
    pipeline::Pipeline,
    recent_stores::{RecentStores, StoreForwarding},
};
