//! Pipelines: how many cycles instructions take together, and what they wait for.

pub mod in_order;
mod instruction;
pub mod out_of_order;
mod registers;

pub use self::{
    instruction::{Branch, Instruction, MemoryUse, Prefixes},
    registers::Registers,
};
