//! Counting what a stretch of code does.

use crate::msr::{
    CESR, CLOCKS, EN, GLOBAL_CTRL, GLOBAL_OVF_CTRL, OS, P6_EVT_SEL0, P6_EVT_SEL1, PC, USR,
};
use crate::part::{Event, Registers};
use crate::{Guest, Result};

/// Instructions of [`Guest::stop`] up to the WRMSR that disables the counter: MOV, MOV, MOV, WRMSR.
/// Each counts, since the counter is enabled when it begins.
pub const DISABLING: u64 = 4;

/// A counter's half of CESR (SDM Vol. 3, "Control and Event Select Register"): ES 5:0, CC 8:6 with
/// CPL 0-2 in bit 6, CPL 3 in bit 7 and clocks in bit 8, PC 9.
///
/// # Panics
/// If `select` has a field that CESR has not.
#[must_use]
pub fn cesr_half(select: u64) -> u64 {
    const ES: u64 = 0x3F;
    assert_eq!(select & !(ES | USR | OS | PC | CLOCKS), 0, "CESR has no such field");
    let bit = |flag: u64, position: u32| u64::from(select & flag != 0) << position;
    select & ES | bit(OS, 6) | bit(USR, 7) | bit(CLOCKS, 8) | bit(PC, 9)
}

impl Guest {
    /// What a part needs once before its counters can be used as the methods here do.
    pub(crate) fn set_up_pmu(&mut self) -> Result {
        match self.part.registers {
            Registers::Knc => self.write_msr(GLOBAL_CTRL, 3),
            Registers::Amd | Registers::P6 | Registers::P55c => Ok(()),
        }
    }

    /// Sets counter `n` to `preset` and enables it, with the last instruction. Changes EAX, ECX and
    /// EDX.
    ///
    /// The registers that counters share keep the other counter's part as of the last `start` or
    /// [`Self::stop`] assembled before.
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn start(&mut self, n: u32, event: Event, flags: u64, preset: u64) -> Result {
        let part = self.part;
        let others = self.running.iter().enumerate().any(|(m, on)| on.is_some() && m != n as usize);
        let preset = preset & part.width_mask();
        let select = event.code | flags;
        self.running[n as usize] = Some(select);
        match part.registers {
            Registers::Amd => {
                self.write_msr(part.perfctr(n), preset)?;
                self.write_msr(part.evtsel(n), select | EN)?;
            }
            Registers::P6 => {
                self.write_msr(part.perfctr(n), preset)?;
                match (n, others) {
                    (0, _) => self.write_msr(P6_EVT_SEL0, select | EN)?,
                    (_, true) => self.write_msr(P6_EVT_SEL1, select)?,
                    (_, false) => {
                        self.write_msr(P6_EVT_SEL1, select)?;
                        self.write_msr(P6_EVT_SEL0, EN)?;
                    }
                }
            }
            Registers::Knc => {
                self.write_msr(GLOBAL_OVF_CTRL, 1 << n)?;
                self.write_msr(part.perfctr(n), preset)?;
                self.write_msr(part.evtsel(n), select | EN)?;
            }
            Registers::P55c => {
                self.write_msr(part.perfctr(n), preset)?;
                let both = self.cesr();
                self.write_msr(CESR, both)?;
            }
        }
        Ok(())
    }

    /// Disables counter `n`, with the fourth instruction. Changes EAX, ECX and EDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn stop(&mut self, n: u32) -> Result {
        let part = self.part;
        self.running[n as usize] = None;
        match (part.registers, n) {
            (Registers::Amd | Registers::Knc, _) => self.write_msr(part.evtsel(n), 0),
            (Registers::P6, 0) => {
                let enable = if self.running[1].is_some() { EN } else { 0 };
                self.write_msr(P6_EVT_SEL0, enable)
            }
            (Registers::P6, _) => {
                self.write_msr(P6_EVT_SEL1, 0)?;
                match self.running[0] {
                    Some(_) => Ok(()),
                    None => self.write_msr(P6_EVT_SEL0, 0),
                }
            }
            (Registers::P55c, _) => {
                let both = self.cesr();
                self.write_msr(CESR, both)
            }
        }
    }

    /// CESR with the counters that are running.
    fn cesr(&self) -> u64 {
        let half = |n: usize| self.running[n].map_or(0, cesr_half);
        half(0) | half(1) << 16
    }

    /// Reports as `name` what a counter counts of `event` while `body` runs, [`Self::stop`]
    /// included.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn count(
        &mut self,
        name: &str,
        event: Event,
        flags: u64,
        body: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        let n = event.counter;
        self.start(n, event, flags, 0)?;
        body(self)?;
        self.stop(n)?;
        self.read_msr(self.part.perfctr(n))?;
        self.report(name)
    }

    /// [`Self::count`] of the same `body` for each of `selects`.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn count_each(
        &mut self,
        selects: &[(&str, Event, u64)],
        body: impl Fn(&mut Self) -> Result,
    ) -> Result {
        selects.iter().try_for_each(|&(name, event, flags)| self.count(name, event, flags, &body))
    }

    /// [`Self::count`] of the same `body` for each of [`crate::Part::events`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn count_events(&mut self, flags: u64, body: impl Fn(&mut Self) -> Result) -> Result {
        let events = self.part.events();
        events.into_iter().try_for_each(|(name, event)| self.count(name, event, flags, &body))
    }
}
