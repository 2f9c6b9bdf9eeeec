//! `PerfEvtSel`: the event-select register, its fields and what they ask for.

/// One field of a register: where it is, what it is called, what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Field {
    /// Name in the manual.
    pub name: &'static str,
    /// Highest bit.
    pub high: u8,
    /// Lowest bit.
    pub low: u8,
    /// What it does, in a few words.
    pub meaning: &'static str,
}

impl Field {
    /// The field's bits in place.
    pub const fn mask(&self) -> u64 {
        (u64::MAX >> (63 - (self.high - self.low))) << self.low
    }

    /// The field's value in `register`.
    pub const fn extract(&self, register: u64) -> u64 {
        (register & self.mask()) >> self.low
    }
}

/// `EVENT_SELECT`, bits 7:0.
pub const EVENT_SELECT: u64 = 0xFF;
/// `UNIT_MASK`, bits 15:8.
pub const UNIT_MASK: u64 = 0xFF << 8;
/// `USR`, bit 16: count in user mode.
pub const USR: u64 = 1 << 16;
/// `OS`, bit 17: count in operating-system mode.
pub const OS: u64 = 1 << 17;
/// `E`, bit 18: edge detect.
pub const EDGE: u64 = 1 << 18;
/// `PC`, bit 19: pin control.
pub const PIN_CONTROL: u64 = 1 << 19;
/// `INT`, bit 20: APIC interrupt on overflow.
pub const INT: u64 = 1 << 20;
/// `EN`, bit 22: enable counter.
pub const EN: u64 = 1 << 22;
/// `INV`, bit 23: invert counter mask.
pub const INV: u64 = 1 << 23;
/// `CNT_MASK`, bits 31:24.
pub const CNT_MASK: u64 = 0xFF << 24;

/// The value of a `PerfEvtSel` register (AMD BKDG 26094, section 10.2; the P6 family has the same
/// layout).
///
/// Layout: 7:0 `EVENT_SELECT`, 15:8 `UNIT_MASK`, 16 `USR`, 17 `OS`, 18 `E`, 19 `PC`, 20 `INT`,
/// 22 `EN`, 23 `INV`, 31:24 `CNT_MASK`. Reset: 0. What the other bits do is the personality's
/// affair ([`EvtselLayout`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evtsel(pub u64);

impl Evtsel {
    /// `EVENT_SELECT`: the event's code.
    pub const fn event(self) -> u8 {
        self.0 as u8
    }

    /// `UNIT_MASK`: qualifies the event.
    pub const fn umask(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// `USR`: count in user mode.
    pub const fn usr(self) -> bool {
        self.0 & USR != 0
    }

    /// `OS`: count in operating-system mode.
    pub const fn os(self) -> bool {
        self.0 & OS != 0
    }

    /// `E`: count changes of the condition from 0 to 1 and not its level.
    pub const fn edge(self) -> bool {
        self.0 & EDGE != 0
    }

    /// `INT`: assert the local APIC's LVTPC on overflow.
    pub const fn int(self) -> bool {
        self.0 & INT != 0
    }

    /// `EN`: the counter counts.
    pub const fn en(self) -> bool {
        self.0 & EN != 0
    }

    /// `INV`: turn the counter-mask comparison round.
    pub const fn inv(self) -> bool {
        self.0 & INV != 0
    }

    /// `CNT_MASK`: threshold of events in a cycle.
    pub const fn cmask(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Whether counting needs to know how many events happened in each clock cycle.
    pub const fn per_cycle(self) -> bool {
        self.edge() || self.cmask() != 0
    }

    /// Whether the condition holds in a cycle with `n` events (section 10.2, `CNT_MASK` a to c):
    /// `n >= CNT_MASK`, or `n < CNT_MASK` with `INV`.
    ///
    /// With `CNT_MASK` 0 the condition is "any event", and `INV` is ignored: rule a) does not name
    /// it. `n` cannot pass `max_per_cycle` on the hardware, so the reserved values above that are
    /// never true, and always true with `INV`.
    pub fn condition(self, n: u64, max_per_cycle: u8) -> bool {
        match self.cmask() {
            0 => n > 0,
            cmask => (n.min(u64::from(max_per_cycle)) >= u64::from(cmask)) != self.inv(),
        }
    }
}

/// A personality's rules for the bits of its event-select registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EvtselLayout {
    /// Every field, from bit 0 up, without gaps.
    pub fields: &'static [Field],
    /// Bits that keep what is written; the others read as zero.
    pub stored: u64,
    /// Bits that raise #GP when written with 1.
    pub faulting: u64,
    /// Largest `CNT_MASK` that the manual defines.
    pub cmask_max: u8,
    /// Most events that one cycle can add.
    pub max_events_per_cycle: u8,
}
