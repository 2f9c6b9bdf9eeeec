//! The performance-monitoring unit of one logical x86 processor, as pure data and logic.
//!
//! An engine fires [`Signal`]s (facts: an instruction retired, a line was refilled). A
//! [`Personality`] says which processor's PMU this is: its registers, and a table of events that
//! map a guest's selects to signals. [`Pmu`] owns the registers of one hardware thread. A write to
//! them decodes to a [`Select`] a counter and tells the engine its [`Demand`]; what the engine
//! reports is counted, and overflows are returned as [`Pmis`]. Where threads share a core, an engine
//! reports to [`Pmu::sibling`] what the others do. Any VMM can put this behind its own MSR exits and
//! its own local APIC.
//!
//! No I/O, no time, no randomness, no `unsafe`; the same calls give the same answers. `alloc` is
//! used only for words ([`explain`], [`nearest`]).
//!
//! Not modelled: skid (an engine may add one). What `PC` makes of the PM pins follows from the
//! statistics ([`Tally::pin_toggles`]).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cesr;
mod counts;
mod event;
pub mod evtsel;
pub mod explain;
mod metric;
mod nearest;
mod personality;
mod pmi;
mod pmu;
mod register;
mod select;
mod signal;
mod state;
mod stats;
mod subscription;

pub use counts::{SignalCounts, SignalIter, SignalSet};
pub use event::{
    Aliases, Availability, EventDef, Fidelity, Route, Scope, Speculation, UmaskRule, Unit, UnitMask,
};
pub use evtsel::Evtsel;
pub use metric::{Metric, Per, Term};
pub use nearest::nearest;
pub use personality::{
    CYCLE_DEPENDENT, EnableRule, InitRule, LiveSignals, MAX_COUNTERS, Northbridge, PerfName,
    Personality, PmiRule, Programming, Tier,
};
pub use pmi::Pmis;
pub use pmu::{GpFault, MsrAccess, Pmu, RdpmcCaller, Reset, SIBLINGS};
pub use register::{Access, Field, PerfctrWrite, Register, RegisterKind, Registers};
pub use select::Select;
pub use signal::Signal;
pub use state::{PmuStateV1, StateError};
pub use stats::{
    CounterStats, MAX_SELECTIONS, Missing, Selected, Selection, Tally, UncountedSet, Unenabled,
};
pub use subscription::Demand;
