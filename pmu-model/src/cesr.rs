//! `CESR`: control and event select of both counters of a Pentium (Intel SDM volume 3, section
//! "Performance Monitoring (Pentium Processors)").
//!
//! One half a counter, counter 1's in the upper 16 bits: 5:0 `ES` event select, 8:6 `CC` counter
//! control (bit 6 counts at CPL 0 to 2, bit 7 at CPL 3, bit 8 clocks and not occurrences), 9 `PC`
//! pin control.

use crate::event::Unit;
use crate::personality::Personality;
use crate::select::Select;

/// Distance from counter 0's half to counter 1's.
pub const HALF: u32 = 16;
/// `ES`: the event's code.
pub const ES: u64 = 0x3F;
/// `CC` bit 0: count at CPL 0, 1 and 2.
pub const CC_SUPERVISOR: u64 = 1 << 6;
/// `CC` bit 1: count at CPL 3.
pub const CC_USER: u64 = 1 << 7;
/// `CC` bit 2: count the clocks in which the event is there, and not how often it occurs.
pub const CC_CLOCKS: u64 = 1 << 8;
/// `PC`: the pin toggles on overflow, and not on each increment.
pub const PC: u64 = 1 << 9;
/// All fields of a half.
pub const HALF_MASK: u64 = ES | CC_SUPERVISOR | CC_USER | CC_CLOCKS | PC;

/// What `cesr` asks of a counter.
pub(crate) fn select(personality: &'static Personality, cesr: u64, counter: usize) -> Select {
    let half = cesr >> (HALF * counter as u32) & HALF_MASK;
    select_half(personality, half, counter)
}

/// What a half of the register asks of a counter.
pub(crate) fn select_half(personality: &'static Personality, half: u64, counter: usize) -> Select {
    let code = (half & ES) as u8;
    let clocks = half & CC_CLOCKS != 0;
    let duration =
        personality.event(code, 0, counter).is_some_and(|event| event.unit == Unit::Cycles);
    let cpls = if half & CC_SUPERVISOR != 0 { 0b0111 } else { 0 }
        | if half & CC_USER != 0 { 0b1000 } else { 0 };
    Select {
        word: half,
        event: code,
        umask: 0,
        cpls,
        // An event that lasts occurs when it begins; one that occurs is there in the clocks in
        // which it occurs at all.
        edge: duration && !clocks,
        inv: false,
        cmask: u8::from(!duration && clocks),
        int: false,
        pin_on_overflow: half & PC != 0,
        all_threads: false,
        enabled: cpls != 0,
    }
}
