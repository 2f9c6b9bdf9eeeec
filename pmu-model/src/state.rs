//! Saving and restoring a PMU as a versioned plain structure.

use crate::counts::SignalSet;
use crate::personality::{MAX_COUNTERS, Personality};
use crate::pmu::{Pmu, SIBLINGS};
use crate::register::Registers;
use crate::select::Select;
use crate::stats::{CounterStats, UncountedSet};

/// The version that [`PmuStateV1`] is.
const VERSION: u32 = 1;

/// The state of a PMU, version 1. What can be derived from it is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PmuStateV1 {
    /// 1.
    pub version: u32,
    /// The personality's name in ASCII, filled up with zeroes.
    pub personality: [u8; 8],
    /// What the registers hold.
    pub registers: Registers,
    /// Bit n: the condition of counter n held in the last cycle that it saw, of the processor's own and of
    /// those of each sibling.
    pub edge_levels: [u8; 1 + SIBLINGS],
    /// What each counter was used for.
    pub stats: [CounterStats; MAX_COUNTERS],
    /// What was enabled and does not wholly count.
    pub uncounted: UncountedSet,
}

/// Why a state cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// Not version 1.
    Version(u32),
    /// The state of another personality.
    Personality,
    /// A register has a bit set that it does not have, or one is there that does not exist.
    Registers,
    /// The statistics of this counter contradict themselves.
    Stats(usize),
    /// Edge state of a counter that does not exist.
    EdgeLevel,
}

impl core::fmt::Display for StateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            StateError::Version(version) => write!(f, "PMU state has unknown version {version}"),
            StateError::Personality => f.write_str("PMU state is of another personality"),
            StateError::Registers => f.write_str("PMU state has reserved bits in a register"),
            StateError::Stats(i) => write!(f, "PMU state has impossible statistics, counter {i}"),
            StateError::EdgeLevel => f.write_str("PMU state has edge state without a counter"),
        }
    }
}

impl core::error::Error for StateError {}

/// A personality's name as a state has it.
fn name_bytes(personality: &Personality) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (byte, &letter) in bytes.iter_mut().zip(personality.name.as_bytes()) {
        *byte = letter;
    }
    bytes
}

impl Pmu {
    /// The state.
    pub fn save(&self) -> PmuStateV1 {
        PmuStateV1 {
            version: VERSION,
            personality: name_bytes(self.personality),
            registers: self.registers,
            edge_levels: self.edge_levels,
            stats: self.current_stats(),
            uncounted: self.uncounted,
        }
    }

    /// A PMU in a saved state, of which the engine fires the signals `live`; it asks for what its
    /// counters count ([`Pmu::new`]).
    ///
    /// # Errors
    /// The state is of another version or personality, or no PMU of this personality can be in it.
    pub fn restore(
        personality: &'static Personality,
        live: &SignalSet,
        state: &PmuStateV1,
    ) -> Result<Pmu, StateError> {
        let mut pmu = Pmu::new(personality, live);
        pmu.load(state)?;
        Ok(pmu)
    }

    /// Puts a saved state into this PMU, which goes on asking an engine for what it asked for before: of the same
    /// signals, or for nothing ([`Pmu::without_demand`]).
    ///
    /// # Errors
    /// As [`Pmu::restore`]; the PMU is as before.
    pub fn load(&mut self, state: &PmuStateV1) -> Result<(), StateError> {
        let personality = self.personality;
        if state.version != VERSION {
            return Err(StateError::Version(state.version));
        }
        if state.personality != name_bytes(personality) {
            return Err(StateError::Personality);
        }
        // What is left of the registers when the bits that exist are taken away.
        let mut rest = state.registers;
        for register in personality.registers {
            rest.set(register.kind, rest.get(register.kind) & !register.stored);
        }
        if rest != Registers::default() {
            return Err(StateError::Registers);
        }
        if let Some(counter) = state.stats.iter().position(|stats| !stats.is_valid()) {
            return Err(StateError::Stats(counter));
        }
        if state.edge_levels.iter().any(|levels| levels >> personality.counters != 0) {
            return Err(StateError::EdgeLevel);
        }
        let now = Select::decode_all(personality, &state.registers);
        let Self {
            personality: _,
            live,
            registers,
            selects,
            edge_levels,
            stats,
            uncounted,
            subscriptions,
            asks,
            programmings,
            clocks,
            ran_at,
            increments,
            overflowed,
            begun_anew,
            held_back,
        } = self;
        // They follow from the selects, and are large.
        if *selects != now {
            subscriptions.recompile(personality, live, &now, *asks);
            *selects = now;
        }
        (*registers, *edge_levels) = (state.registers, state.edge_levels);
        stats.clone_from(&state.stats);
        uncounted.clone_from(&state.uncounted);
        *programmings = programmings.wrapping_add(1);
        (*clocks, *ran_at, *increments) = (0, 0, [0; MAX_COUNTERS]);
        (*overflowed, *begun_anew, *held_back) = (0, 0, 0);
        Ok(())
    }
}
