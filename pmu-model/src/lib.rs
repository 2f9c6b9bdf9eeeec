//! The performance-monitoring unit (PMU) of one logical x86 processor, as pure data and logic.
//!
//! A guest programs and reads a PMU by model-specific registers (MSRs): event selects say what each counter
//! counts. A [`Personality`] says which processor's PMU this is: its registers, and a table of its events. A
//! [`Pmu`] owns the registers of one hardware thread. Whoever executes the guest, the *engine*, fires
//! [`Signal`]s: facts such as "an instruction retired". An event is a sum of signals. A write to a register
//! decodes to a [`Select`] a counter, and to the [`Demand`] on the engine. What the engine reports is counted,
//! and each overflow is returned in [`Pmis`]: a performance-monitor interrupt (PMI) for the local APIC.
//!
//! # What a virtual machine monitor supplies
//!
//! | What | When | How |
//! |---|---|---|
//! | MSR accesses | the guest's RDMSR and WRMSR end in the monitor | [`Pmu::read_msr`], [`Pmu::write_msr`]; what is [`NotOurs`](MsrAccess::NotOurs) is not a register of the PMU |
//! | RDPMC | it ends in the monitor, by an intercept of VMX or SVM; KVM itself raises #GP | [`Pmu::rdpmc`], with the [`RdpmcCaller`]: CPL, CR4.PCE, mode |
//! | signals | which of them it can tell at all | [`Pmu::new`]; [`LiveSignals`] has the sets of an instruction-set simulator and of one with models |
//! | | behind each stretch of execution, those in [`Pmu::demand`] | [`Pmu::fire`] one signal, [`Pmu::advance`] many; [`Pmu::headroom`] says how far to go until an overflow |
//! | | each clock cycle, while [`Demand::per_cycle`] | [`Pmu::cycle`] |
//! | cycles | with the other signals: clocks in which the processor is not halted | [`Signal::CyclesUnhalted`] |
//! | privilege level | with each report; a stretch ends where it changes | the argument `cpl`, 0 to 3 |
//! | halt | while the processor is halted | nothing: no cycles, no signals |
//! | local APIC | a report returns [`Pmis`] | each assertion delivers what LVTPC says, a vector or an NMI, unless it is masked; with [`Personality::lvtpc_auto_mask`] the delivery masks it |
//! | resets | power-up, RESET, INIT | [`Pmu::reset`] |
//! | other threads of the core | [`Pmu::sibling_demand`] asks for something | [`Pmu::sibling`], with what they do |
//! | its state | migration, snapshots | [`Pmu::save`], [`Pmu::restore`] |
//!
//! A monitor whose engine cannot count shows the registers by [`Pmu::without_demand`], and adds to single
//! counters what something else has counted, such as the host's PMU, by [`Pmu::count`].
//!
//! The example `embed` does the first, third, fifth and ninth line on KVM, in a `main()` of 40 lines; it counts by
//! single steps, which any host can. The example `fuzz` is a fuzz target. README.md has the shortest program.
//!
//! # What it does not do
//!
//! No I/O, no time, no randomness, no `unsafe`; the same calls give the same answers. `alloc` is used only for
//! words ([`explain`], [`nearest`]) and for what a counter was used for ([`CounterStats`]).
//!
//! Not modelled: skid, by which the interrupt of a counter comes some instructions behind its overflow (an engine
//! may add one). What `PC` makes of the PM pins follows from the statistics ([`Tally::pin_toggles`]).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

/// The program in README.md, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
    Personality, PmiRule, Programming, Tier, UndefinedEvent,
};
pub use pmi::Pmis;
pub use pmu::{Alike, GpFault, MsrAccess, Pmu, RdpmcCaller, Reset, SIBLINGS};
pub use register::{Access, Field, PerfctrWrite, Register, RegisterKind, Registers};
pub use select::Select;
pub use signal::Signal;
pub use state::{PmuStateV1, StateError};
pub use stats::{
    CounterStats, MAX_SELECTIONS, Missing, Selected, Selection, Tally, UncountedSet, Unenabled,
};
pub use subscription::{CounterSet, Demand};
