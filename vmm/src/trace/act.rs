//! What is traced: acts that matter to the PMU, as plain data.

use clap::ValueEnum;
use pmu_model::{Personality, PmiRule, Pmis, Pmu, Register};
use serde::Serialize;
use x86_cpu::bus::Place;

use crate::irq::lapic::PmiOutcome;

/// What acts are traced by: `--trace-only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// RDMSR and WRMSR of registers of the PMU, and a WRMSR that switches the local APIC on or off.
    Msr,
    /// RDPMC.
    Rdpmc,
    /// SPFLT.
    Spflt,
    /// A counter overflows.
    Overflow,
    /// The interrupt of a counter is sent, merged, lost or delivered.
    Pmi,
    /// LVTPC is written, or changes otherwise.
    Lvtpc,
    /// The end of a counter's interrupt.
    Eoi,
    /// Another engine has the processors.
    Engine,
}

impl Kind {
    /// Its name on the command line and in traces.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Msr => "msr",
            Self::Rdpmc => "rdpmc",
            Self::Spflt => "spflt",
            Self::Overflow => "overflow",
            Self::Pmi => "pmi",
            Self::Lvtpc => "lvtpc",
            Self::Eoi => "eoi",
            Self::Engine => "engine",
        }
    }
}

/// When an act was, and where its processor was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Virtual time in cycles.
    pub time: u64,
    /// The instruction that acts or, where none does, the next one. `None` if nobody knows: while KVM has
    /// yet to complete an instruction.
    pub code: Option<Code>,
    /// Instructions that the processor had retired before it; `None` while KVM executes it, which does not count
    /// them.
    pub retired: Option<u64>,
}

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Selector in CS.
    pub cs: u16,
    /// RIP.
    pub rip: u64,
    /// Current privilege level.
    pub cpl: u8,
}

impl From<Place> for At {
    fn from(place: Place) -> Self {
        let Place { time, retired, cs, rip, cpl } = place;
        Self { time, code: Some(Code { cs, rip, cpl }), retired: Some(retired) }
    }
}

/// What becomes of an access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is done.
    Done,
    /// #GP: the register cannot be read or written, or not with this value.
    Refused,
    /// #GP: the privilege level is not 0.
    RefusedAboveCpl0,
}

/// Why LVTPC is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LvtpcChange {
    /// The guest has written it.
    Written,
    /// The delivery of a counter's interrupt has masked it.
    Delivery,
    /// The guest has disabled the local APIC, by SVR or by IA32_APIC_BASE.
    Disabled,
}

/// What an overflow asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asserts {
    /// An interrupt by LVTPC.
    Interrupt,
    /// Nothing: INT is clear.
    IntClear,
    /// Nothing: a bit of IA32_PERF_GLOBAL_STATUS was set already, and only the first asserts the interrupt.
    StatusSet,
    /// Nothing but what its pin shows: this processor's counters do not interrupt.
    PinOnly,
}

/// An act. Formats put it into words; it has only what happened.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// RDMSR of a register of the PMU.
    Rdmsr {
        /// Which.
        register: &'static Register,
        /// What was read; zero if it was refused.
        value: u64,
        /// What became of it.
        access: Access,
    },
    /// WRMSR of a register of the PMU.
    Wrmsr {
        /// Which.
        register: &'static Register,
        /// EDX:EAX.
        value: u64,
        /// What became of it.
        access: Access,
    },
    /// WRMSR of IA32_APIC_BASE that has switched the local APIC on or off.
    ApicBase {
        /// EDX:EAX.
        value: u64,
        /// Whether it is on now.
        enabled: bool,
    },
    /// RDPMC.
    Rdpmc {
        /// ECX.
        counter: u32,
        /// What was read; `None` if it was refused.
        value: Option<u64>,
        /// What the counter is programmed to, as [`pmu_model::Select::word`]; zero for nothing.
        word: u64,
    },
    /// SPFLT.
    Spflt {
        /// The user preference that it sets.
        preference: bool,
    },
    /// A counter overflowed.
    Overflow {
        /// Which.
        counter: usize,
        /// What it is programmed to, as [`pmu_model::Select::word`].
        word: u64,
        /// What it holds now.
        value: u64,
        /// What that asks for.
        asserts: Asserts,
    },
    /// The interrupt of a counter has reached the local APIC.
    Pmi(PmiOutcome),
    /// The processor takes the interrupt of a counter: this vector, or the NMI.
    Delivered(Option<u8>),
    /// LVTPC has changed, or was written.
    Lvtpc {
        /// As it reads.
        entry: u32,
        /// By what.
        by: LvtpcChange,
    },
    /// The guest ends the interrupt of a counter.
    Eoi {
        /// Its vector.
        vector: u8,
    },
    /// An engine begins to execute the processors.
    Engine {
        /// Its name.
        engine: &'static str,
        /// Why.
        reason: Reason,
    },
}

/// Why an engine executes the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The run begins with it.
    Begins,
    /// A counter is enabled, or the interrupt of one is on its way.
    Counting,
    /// Nothing is counted any more, nor anything else for the software engine to do.
    NothingCounted,
    /// KVM cannot hold the processor's state, or not say when it takes an interrupt; or interrupt controllers in
    /// the kernel have to be at hand.
    NotHeld,
}

impl Act {
    /// What it is traced by.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Rdmsr { .. } | Self::Wrmsr { .. } | Self::ApicBase { .. } => Kind::Msr,
            Self::Rdpmc { .. } => Kind::Rdpmc,
            Self::Spflt { .. } => Kind::Spflt,
            Self::Overflow { .. } => Kind::Overflow,
            Self::Pmi(_) | Self::Delivered(_) => Kind::Pmi,
            Self::Lvtpc { .. } => Kind::Lvtpc,
            Self::Eoi { .. } => Kind::Eoi,
            Self::Engine { .. } => Kind::Engine,
        }
    }

    /// RDMSR, or WRMSR of a value, that gave or wrote that or was refused; `None` unless the register is one
    /// of the PMU.
    pub(crate) fn msr(
        personality: &'static Personality,
        index: u32,
        written: Option<u64>,
        outcome: Result<u64, Access>,
    ) -> Option<Self> {
        let register = personality.register(index)?;
        let access = outcome.err().unwrap_or(Access::Done);
        Some(match written {
            Some(value) => Self::Wrmsr { register, value, access },
            None => Self::Rdmsr { register, value: outcome.unwrap_or(0), access },
        })
    }

    /// The overflows of a PMU since this was last asked for, of which `pmis` assert interrupts.
    pub(crate) fn overflows(pmu: &mut Pmu, pmis: Pmis) -> impl Iterator<Item = Self> {
        pmu.take_overflowed().map(move |counter| {
            let select = pmu.select(counter).copied().unwrap_or_default();
            let asserts = match pmu.personality() {
                _ if pmis.iter().any(|of| of == counter) => Asserts::Interrupt,
                Personality { pmi: PmiRule::PinsOnly, .. } => Asserts::PinOnly,
                _ if select.int => Asserts::StatusSet,
                _ => Asserts::IntClear,
            };
            let value = pmu.registers().perfctr[counter];
            Self::Overflow { counter, word: select.word, value, asserts }
        })
    }
}
