//! Protection, interrupts, task switches and debug traps, driven by small guest programs in
//! hand-built descriptor tables. Chapters and tables are those of the AMD64 Architecture
//! Programmer's Manual (APM), volume 2, unless said otherwise.

mod alignment;
mod claimed;
mod code;
mod code_limit;
mod control;
mod debug;
mod debug_steps;
mod encodings;
mod facts;
mod features;
mod flags;
mod handover;
mod knc;
mod length;
mod long;
mod machine;
mod memory;
mod models;
mod ports;
mod protected;
mod quiet;
mod random;
mod real;
mod segments;
mod system_calls;
mod tasks;
mod timing;
mod unwind;
mod vector_unit;
mod virtual_interrupts;
mod watch;
