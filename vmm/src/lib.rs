//! The machine and the command line of `vpmu`.

pub mod boot;
pub mod cli;
pub mod config;
pub mod console;
pub mod demo;
pub mod devices;
pub mod engine;
pub mod error;
pub mod events;
pub mod exec;
pub mod explain;
pub mod file;
pub mod input;
pub mod irq;
pub mod machine;
pub mod memory;
pub mod msr;
mod output;
pub mod platform;
pub mod reference;
pub mod stop;
pub mod summary;
pub mod terminal;
pub mod truth;
mod turns;
mod typing;
mod wait;
