//! `PerfEvtSel`: the event-select register, its fields and what they ask for.

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
/// Thread count mode, bit 21 of Knights Corner: count all threads of the core.
pub const ALL_THREADS: u64 = 1 << 21;
/// `EN`, bit 22: enable counter.
pub const EN: u64 = 1 << 22;
/// `INV`, bit 23: invert counter mask.
pub const INV: u64 = 1 << 23;
/// `CNT_MASK`, bits 31:24.
pub const CNT_MASK: u64 = 0xFF << 24;

/// The value of a `PerfEvtSel` register (AMD BKDG 26094, section 10.2; the P6 family and Knights
/// Corner have the same layout).
///
/// Layout: 7:0 `EVENT_SELECT`, 15:8 `UNIT_MASK`, 16 `USR`, 17 `OS`, 18 `E`, 19 `PC`, 20 `INT`,
/// 21 thread count mode, 22 `EN`, 23 `INV`, 31:24 `CNT_MASK`. Reset: 0. Which of the bits a
/// processor has is said by the personality ([`crate::Register::stored`]).
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

    /// `PC`: the pin toggles on overflow, and not on each increment.
    pub const fn pin_control(self) -> bool {
        self.0 & PIN_CONTROL != 0
    }

    /// Thread count mode: count all threads of the core.
    pub const fn all_threads(self) -> bool {
        self.0 & ALL_THREADS != 0
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
}
