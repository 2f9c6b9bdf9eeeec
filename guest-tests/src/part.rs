//! The parts whose PMUs there are, as the tests know them: from the manuals, apart from the model's
//! own tables.
//!
//! P55C and P6: Intel MMX Technology manual, chapter 6, and SDM Vol. 3, chapter "Performance
//! Monitoring". K7: AMD 22007, appendix D. K8: BIOS and Kernel Developer's Guide for AMD Athlon 64
//! and AMD Opteron Processors, chapter 10. Knights Corner: Intel 327357-001.

use crate::msr::CLOCKS;
use crate::timing::{memory, taken};

/// How a part's counters are programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// PerfEvtSel0-3 C001_0000h, PerfCtr0-3 C001_0004h, each with its own EN.
    Amd,
    /// PerfEvtSel0-1 186h, PerfCtr0-1 C1h. EN of PerfEvtSel0 enables both; a write to a counter
    /// takes 32 bits and extends the sign.
    P6,
    /// PerfEvtSel0-1 28h, PerfCnt0-1 20h, SPFLT control 2Ch, global status 2Dh, overflow control
    /// 2Eh, global control 2Fh.
    Knc,
    /// CESR 11h for both counters, CTR0-1 12h.
    P55c,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Event code, the unit mask in bits 15:8, and a flag that it needs: a select without the others.
    pub code: u64,
    /// The first counter that can count it.
    pub counter: u32,
}

/// An event of every counter.
#[must_use]
pub const fn event(code: u64) -> Event {
    Event { code, counter: 0 }
}

/// What one exception or interrupt adds to events that are no events of exceptions or interrupts.
#[derive(Clone, Copy, Debug)]
pub struct Exceptional {
    /// To retired instructions.
    pub instructions: u64,
    /// To branches.
    pub branches: u64,
    /// To taken branches.
    pub taken: u64,
}

/// A part.
#[derive(Debug)]
pub struct Part {
    /// Name on the command line.
    pub name: &'static str,
    /// How its counters are programmed.
    pub registers: Registers,
    /// How many there are.
    pub counters: u32,
    /// Their width in bits.
    pub width: u32,
    /// What one exception or interrupt adds.
    pub exceptional: Exceptional,
    /// Lowest CPL that USR counts; OS counts those below.
    pub user_level: u8,
    /// Whether it has MMX.
    pub mmx: bool,
    /// Whether it has SSE.
    pub sse: bool,
    /// Whether it has SSE2.
    pub sse2: bool,
    /// Whether an overflow can interrupt.
    pub pmi: bool,
    /// Whether the delivery of a PMI masks LVTPC.
    pub masks_lvtpc: bool,
    /// Retired instructions.
    pub instructions: Event,
    /// Retired branches.
    pub branches: Event,
    /// Retired taken branches.
    pub taken: Option<Event>,
    /// Retired far control transfers.
    pub far: Option<Event>,
    /// Retired near returns.
    pub returns: Option<Event>,
    /// Hardware interrupts taken.
    pub interrupts: Option<Event>,
    /// Cycles not halted.
    pub cycles: Event,
    /// Cycles with EFLAGS.IF clear.
    pub masked: Option<Event>,
    /// Those while an interrupt waits.
    pub masked_pending: Option<Event>,
    /// Matches of DR0; those of DR1 to DR3 follow.
    pub breakpoints: Option<Event>,
}

const INTEL: Exceptional = Exceptional { instructions: 0, branches: 0, taken: 0 };
const PENTIUM: Exceptional = Exceptional { instructions: 0, branches: 1, taken: 0 };
const AMD: Exceptional = Exceptional { instructions: 1, branches: 1, taken: 1 };

const fn p6(name: &'static str, masks_lvtpc: bool) -> Part {
    Part {
        name,
        registers: Registers::P6,
        counters: 2,
        width: 40,
        exceptional: INTEL,
        user_level: 1,
        mmx: false,
        sse: false,
        sse2: false,
        pmi: true,
        masks_lvtpc,
        instructions: event(0xC0),
        branches: event(0xC4),
        taken: Some(event(0xC9)),
        far: None,
        returns: None,
        interrupts: Some(event(0xC8)),
        cycles: event(0x79),
        masked: Some(event(0xC6)),
        masked_pending: Some(event(0xC7)),
        breakpoints: None,
    }
}

const fn amd(name: &'static str) -> Part {
    Part {
        name,
        registers: Registers::Amd,
        counters: 4,
        width: 48,
        exceptional: AMD,
        user_level: 1,
        mmx: true,
        sse: false,
        sse2: false,
        pmi: true,
        masks_lvtpc: false,
        instructions: event(0xC0),
        branches: event(0xC2),
        taken: Some(event(0xC4)),
        far: Some(event(0xC6)),
        returns: Some(event(0xC8)),
        interrupts: Some(event(0xCF)),
        cycles: event(0x76),
        masked: Some(event(0xCD)),
        masked_pending: Some(event(0xCE)),
        breakpoints: Some(event(0xDC)),
    }
}

/// Pentium with MMX.
pub const P55C: Part = Part {
    name: "p55c",
    registers: Registers::P55c,
    counters: 2,
    width: 40,
    exceptional: PENTIUM,
    user_level: 3,
    mmx: true,
    sse: false,
    sse2: false,
    pmi: false,
    masks_lvtpc: false,
    instructions: event(0x16),
    branches: event(0x12),
    taken: Some(Event { code: 0x32, counter: 1 }),
    far: None,
    returns: Some(event(0x39)),
    interrupts: Some(event(0x27)),
    cycles: event(0x30 | CLOCKS),
    masked: None,
    masked_pending: None,
    breakpoints: Some(event(0x23)),
};
/// Pentium Pro.
pub const PPRO: Part = p6("ppro", false);
/// Pentium II.
pub const PII: Part = Part { mmx: true, ..p6("pii", false) };
/// Pentium III.
pub const P6: Part = Part { mmx: true, sse: true, ..p6("p6", false) };
/// Pentium M.
pub const PM: Part = Part { mmx: true, sse: true, sse2: true, ..p6("pm", true) };
/// Athlon.
pub const K7: Part = amd("k7");
/// Opteron.
pub const K8: Part = Part { sse: true, sse2: true, ..amd("k8") };
/// Knights Corner.
pub const KNC: Part = Part {
    name: "knc",
    registers: Registers::Knc,
    counters: 2,
    width: 40,
    exceptional: INTEL,
    user_level: 1,
    mmx: false,
    sse: false,
    sse2: false,
    pmi: true,
    masks_lvtpc: false,
    instructions: event(0x16),
    branches: event(0x12),
    taken: None,
    far: None,
    returns: None,
    interrupts: None,
    cycles: event(0x2A),
    masked: None,
    masked_pending: None,
    breakpoints: None,
};

impl Part {
    /// All of them.
    pub const ALL: &[Self] = &[P55C, PPRO, PII, P6, PM, K7, K8, KNC];

    /// The part called `name`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn by_name(name: &str) -> &'static Self {
        Self::ALL
            .iter()
            .find(|part| part.name == name)
            .unwrap_or_else(|| panic!("no part is called {name}"))
    }

    /// Event select register of counter `n`; on P55C the one of both.
    #[must_use]
    pub fn evtsel(&self, n: u32) -> u32 {
        match self.registers {
            Registers::Amd => 0xC001_0000 + n,
            Registers::P6 => 0x186 + n,
            Registers::Knc => 0x28 + n,
            Registers::P55c => 0x11,
        }
    }

    /// Counter `n` as a model-specific register.
    #[must_use]
    pub fn perfctr(&self, n: u32) -> u32 {
        match self.registers {
            Registers::Amd => 0xC001_0004 + n,
            Registers::P6 => 0xC1 + n,
            Registers::Knc => 0x20 + n,
            Registers::P55c => 0x12 + n,
        }
    }

    /// Ones in the width of a counter.
    #[must_use]
    pub fn width_mask(&self) -> u64 {
        (1 << self.width) - 1
    }

    /// What a counter holds after a WRMSR of `value`.
    #[must_use]
    pub fn written(&self, value: u64) -> u64 {
        let value = if self.registers == Registers::P6 { value as i32 as u64 } else { value };
        value & self.width_mask()
    }

    /// The events of retirement and interrupts that it has, by the names that [`Self::known`] takes.
    #[must_use]
    pub fn events(&self) -> Vec<(&'static str, Event)> {
        [
            ("instructions", Some(self.instructions)),
            ("branches", Some(self.branches)),
            ("taken", self.taken),
            ("far", self.far),
            ("returns", self.returns),
            ("interrupts", self.interrupts),
        ]
        .into_iter()
        .filter_map(|(name, event)| Some((name, event?)))
        .collect()
    }

    /// Those of the expected values whose event it has.
    #[must_use]
    pub fn known<'a>(&self, expected: &[(&'a str, u64)]) -> Vec<(&'a str, u64)> {
        let events = self.events();
        let has = |name| events.iter().any(|&(known, _)| known == name);
        let optional = ["taken", "far", "returns", "interrupts"];
        expected
            .iter()
            .copied()
            .filter(|&(name, _)| has(name) || !optional.contains(&name))
            .collect()
    }

    /// Instructions of [`crate::Guest::start`], each of which a counter counts that is enabled
    /// already.
    #[must_use]
    pub fn starting(&self) -> u64 {
        // Two WRMSR with three MOV each; on Knights Corner a third clears the overflow.
        if self.registers == Registers::Knc { 12 } else { 8 }
    }

    /// Instructions of the handler at [`crate::PMI_VECTOR`].
    #[must_use]
    pub fn handling(&self) -> u64 {
        let again = match self.registers {
            Registers::Knc => 4,
            _ if self.masks_lvtpc => 2,
            _ => 0,
        };
        5 + 8 + again + 2 + 5 + 1
    }

    /// Cycles of that handler.
    #[must_use]
    pub fn handling_cycles(&self) -> u64 {
        // MOV of the number of PMIs, of the interrupted EIP to EDX and to the log, of the next number.
        let log = 4 * memory() + 4;
        let again = match self.registers {
            Registers::Knc => 4,
            // MOV, AND of LVTPC.
            _ if self.masks_lvtpc => 1 + memory(),
            _ => 0,
        };
        let end = 1 + memory();
        5 * memory() + log + again + end + 5 * memory() + taken()
    }
}
