//! What a counter is programmed to do, whichever registers say so.

use crate::cesr;
use crate::evtsel::{EVENT_SELECT, Evtsel, OS, UNIT_MASK, USR};
use crate::personality::{EnableRule, MAX_COUNTERS, Personality, Programming};
use crate::register::Registers;
use crate::stats::Missing;

/// What one counter is programmed to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Select {
    /// The value that says so: an event select without `EN`, or a counter's half of CESR.
    pub word: u64,
    /// Event code.
    pub event: u8,
    /// Unit mask.
    pub umask: u8,
    /// Bit n: it counts at CPL n.
    pub cpls: u8,
    /// It counts changes of the condition from 0 to 1.
    pub edge: bool,
    /// The comparison with `cmask` is turned round.
    pub inv: bool,
    /// Threshold of events in a clock; 0 to add them all.
    pub cmask: u8,
    /// An overflow asks for an interrupt.
    pub int: bool,
    /// Its pin toggles on overflow, and not on each increment.
    pub pin_on_overflow: bool,
    /// It counts what all threads of the core do.
    pub all_threads: bool,
    /// It counts, at some CPL.
    pub enabled: bool,
}

impl Select {
    /// What every counter is programmed to do.
    pub(crate) fn decode_all(
        personality: &'static Personality,
        registers: &Registers,
    ) -> [Select; MAX_COUNTERS] {
        let mut selects = [Select::default(); MAX_COUNTERS];
        for (counter, select) in selects.iter_mut().enumerate().take(personality.counters) {
            *select = match personality.programming {
                Programming::PerfEvtSel => {
                    let evtsel = Evtsel(registers.evtsel[counter]);
                    let select = Select::from_evtsel(personality, evtsel);
                    let runs = enabled(personality.enable, registers, counter);
                    Select { enabled: runs && select.cpls != 0, ..select }
                }
                Programming::Cesr => cesr::select(personality, registers.cesr, counter),
            };
        }
        selects
    }

    /// What `word` asks of a counter, enabled or not.
    pub fn from_word(personality: &'static Personality, word: u64, counter: usize) -> Select {
        match personality.programming {
            Programming::PerfEvtSel => Select::from_evtsel(personality, Evtsel(word)),
            Programming::Cesr => cesr::select_half(personality, word, counter),
        }
    }

    /// What an event select asks for; `EN` decides whether it is enabled.
    fn from_evtsel(personality: &Personality, evtsel: Evtsel) -> Select {
        let user = 0b1111 << personality.usr_min_cpl & 0b1111;
        let cpls =
            if evtsel.usr() { user } else { 0 } | if evtsel.os() { !user & 0b1111 } else { 0 };
        Select {
            word: evtsel.0 & !crate::evtsel::EN,
            event: evtsel.event(),
            umask: evtsel.umask(),
            cpls,
            edge: evtsel.edge(),
            inv: evtsel.inv(),
            cmask: evtsel.cmask(),
            int: evtsel.int(),
            pin_on_overflow: evtsel.pin_control(),
            all_threads: evtsel.all_threads(),
            enabled: evtsel.en(),
        }
    }

    /// What keeps a counter from counting that is programmed to this: an event, a unit mask or a privilege
    /// level, and not nothing at all.
    pub(crate) fn missing(
        &self,
        personality: &Personality,
        registers: &Registers,
        counter: usize,
    ) -> Option<Missing> {
        const SELECTS: u64 = EVENT_SELECT | UNIT_MASK | USR | OS;
        let selects = match personality.programming {
            Programming::PerfEvtSel => self.word & SELECTS != 0,
            Programming::Cesr => self.word != 0,
        };
        if !selects || self.enabled {
            return None;
        }
        let en = |counter: usize| Evtsel(registers.evtsel[counter]).en();
        Some(match personality.enable {
            _ if self.cpls == 0 => Missing::PrivilegeLevel,
            EnableRule::First => Missing::Enable(0),
            EnableRule::Own => Missing::Enable(counter),
            EnableRule::Global if !en(counter) => Missing::Enable(counter),
            EnableRule::Global if registers.global_ctrl & 1 << counter == 0 => {
                Missing::GlobalEnable
            }
            EnableRule::Global => Missing::UserPreference,
        })
    }

    /// Whether counting needs to know how many events happened in each clock cycle.
    pub const fn per_cycle(&self) -> bool {
        self.edge || self.cmask != 0
    }

    /// Whether the condition holds in a cycle with `n` events: `n >= CNT_MASK`, or `n < CNT_MASK`
    /// with `INV` (AMD 26094, section 10.2, `CNT_MASK` a to c; the P6 family alike).
    ///
    /// With `CNT_MASK` 0 the condition is "any event", and `INV` is ignored: rule a) does not name
    /// it. `n` cannot pass `max_per_cycle` on the hardware, so greater values are never true, and
    /// always true with `INV`.
    pub fn condition(&self, n: u64, max_per_cycle: u8) -> bool {
        match self.cmask {
            0 => n > 0,
            cmask => (n.min(u64::from(max_per_cycle)) >= u64::from(cmask)) != self.inv,
        }
    }
}

/// Whether the enable bits let a counter run.
fn enabled(rule: EnableRule, registers: &Registers, counter: usize) -> bool {
    let en = |counter: usize| Evtsel(registers.evtsel[counter]).en();
    match rule {
        EnableRule::Own => en(counter),
        EnableRule::First => en(0),
        EnableRule::Global => {
            let bit = 1 << counter;
            let filtered = registers.spflt_control & bit != 0;
            let preferred = registers.spflt_control & USER_PREFERENCE != 0;
            en(counter) && registers.global_ctrl & bit != 0 && (!filtered || preferred)
        }
    }
}

/// `PERF_SPFLT_CONTROL` bit 63: the user preference.
pub(crate) const USER_PREFERENCE: u64 = 1 << 63;
