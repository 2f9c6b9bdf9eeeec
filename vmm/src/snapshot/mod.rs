//! The state of a machine between two instructions, as one tree: to be put aside, put back, written to a file.
//!
//! [`State`] has what later execution depends on, whatever executes it, and [`Identity`] what kind of machine it is of.
//! It is made by taking each structure apart to its last field, so that a field that is forgotten does not compile.
//! Translated code, links between blocks and what else only makes execution faster are not in it. RAM is beside it, in
//! pages (`ram.rs`).

mod difference;
pub mod file;
mod identity;
mod ram;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub use self::identity::Identity;
pub(crate) use self::ram::Base;
use crate::devices::Chipset;
use crate::engine::soft::{SoftState, Vcpu, VcpuState};
use crate::error::{Error, Result};
use crate::input::Script;
use crate::machine::Machine;
use crate::processor_set::ProcessorSet;
use crate::roster::Roster;
use crate::turns::{CutOff, Sharing};

/// The state of a machine beside its RAM, between two instructions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    vcpus: Vec<VcpuState>,
    chipset: Chipset,
    /// The latest time that a device has seen, in cycles.
    device_time: u64,
    soft: SoftState,
    /// Where the running slice began, in cycles.
    now: u64,
    script: Script,
    typed: VecDeque<u8>,
    dead_since: Option<u64>,
    roster: Roster,
    short_turns_until: u64,
    sharing: Sharing,
    cut_off: Option<CutOff>,
}

/// A machine as it was: its kind, its state and its RAM.
#[derive(Clone)]
pub struct Snapshot {
    /// What kind of machine it is of.
    pub identity: Identity,
    pub(crate) state: Box<State>,
    pub(crate) ram: ram::Pages,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;

impl Machine {
    /// The state beside its RAM.
    pub(crate) fn state(&mut self) -> Box<State> {
        let Self {
            board,
            soft,
            memory: _,
            vcpus,
            now,
            script,
            typed,
            dead_since,
            roster,
            short_turns_until,
            sharing,
            cut_off,
            // What it is, and what runs it.
            identity: _,
            engine: _,
            sees: _,
            choice: _,
            count: _,
            clock_hz: _,
            timing: _,
            pause: _,
            // Of RAM.
            base: _,
            translations_are_stale: _,
            end_of_time: _,
            signature: _,
            progress: _,
        } = self;
        Box::new(State {
            vcpus: vcpus.iter().map(Vcpu::state).collect(),
            chipset: board.chipset.clone(),
            device_time: board.latest_device_time(),
            soft: soft.state(vcpus),
            now: *now,
            script: script.clone(),
            typed: typed.clone(),
            dead_since: *dead_since,
            roster: *roster,
            short_turns_until: *short_turns_until,
            sharing: *sharing,
            cut_off: cut_off.clone(),
        })
    }

    /// Puts back the state of a machine of the same identity. RAM is as it was then.
    ///
    /// # Errors
    /// What no such machine can be in; what state it is in then is not said.
    pub(crate) fn restore(&mut self, state: &State) -> std::result::Result<(), String> {
        let State {
            vcpus,
            chipset,
            device_time,
            soft,
            now,
            script,
            typed,
            dead_since,
            roster,
            short_turns_until,
            sharing,
            cut_off,
        } = state;
        if vcpus.len() != self.vcpus.len() || !self.board.chipset.is_of_the_kind_of(chipset) {
            let what = "another number of processors, or other devices or local APICs (--irqchip)";
            return Err(what.into());
        }
        let all = ProcessorSet::first(vcpus.len());
        if !roster.is_of(all)
            || !soft.is_of(all)
            || cut_off.as_ref().is_some_and(|at| !at.is_of(all))
        {
            return Err("processors that it does not have".into());
        }
        // Whoever goes on there would never come to its end.
        if cut_off.as_ref().is_some_and(|at| at.slice <= *now) {
            return Err("a run that was cut off behind its end".into());
        }
        // A processor may be ahead by what it executes at once; who adds to a time does not look.
        let latest = self.end_of_time.saturating_add(1 << 32);
        let times = vcpus.iter().map(VcpuState::time).chain([*device_time, *now]);
        if times.max().is_some_and(|time| time > latest) {
            return Err("a time behind the end of time".into());
        }
        let local_apic = |chipset: &Chipset, id| chipset.irq.lapic(id).page();
        for (id, (vcpu, state)) in self.vcpus.iter_mut().zip(vcpus).enumerate() {
            let moved = local_apic(&self.board.chipset, id) != local_apic(chipset, id);
            vcpu.restore(state, self.memory.ram(), moved)?;
        }
        self.board.restore(chipset.clone(), *device_time);
        self.soft.restore(soft, &self.vcpus)?;
        self.now = *now;
        self.script.clone_from(script);
        self.typed.clone_from(typed);
        self.dead_since = *dead_since;
        self.roster = *roster;
        self.short_turns_until = *short_turns_until;
        self.sharing = *sharing;
        self.cut_off.clone_from(cut_off);
        Ok(())
    }

    /// That what can be written in several ways was so in the one in which the machine saves it: the translations that
    /// its processors hold, of which one is lost where two are in one place, and its models, if it has any. Of what
    /// comes from outside; it takes longer than a reset.
    ///
    /// # Errors
    /// It was not.
    pub(crate) fn check_form(&mut self, state: &State) -> std::result::Result<(), String> {
        let mut vcpus = self.vcpus.iter().zip(&state.vcpus);
        if !vcpus.all(|(vcpu, state)| vcpu.holds_translations_of(state)) {
            return Err("translations that no processor holds".into());
        }
        match self.soft.state(&self.vcpus).is_in_the_form_of(&state.soft) {
            true => Ok(()),
            false => Err("models that are saved in another form".into()),
        }
    }

    /// The machine as it is between two instructions. As long as the last snapshot, or the one that it was reset to
    /// last, is there, this takes memory and time for the pages of RAM that have been written since.
    pub fn snapshot(&mut self) -> Snapshot {
        let ram = ram::Pages::since(&self.base, &self.memory);
        self.base = ram.base();
        Snapshot { identity: self.identity.clone(), state: self.state(), ram }
    }

    /// Makes RAM, which is all zeroes, what it was.
    ///
    /// # Errors
    /// It is not all in RAM.
    pub(crate) fn fill(&mut self, snapshot: &Snapshot) -> std::result::Result<(), String> {
        snapshot.ram.restore(&self.memory)?;
        self.base = snapshot.ram.base();
        Ok(())
    }

    /// Makes it what it was, to go on from there as it did then. What is recorded or traced of it goes on.
    ///
    /// # Errors
    /// The snapshot is of another kind of machine.
    pub fn reset_to(&mut self, snapshot: &Snapshot) -> Result<()> {
        if snapshot.identity != self.identity {
            return Err(Error::Usage("the snapshot is of another kind of machine".into()));
        }
        snapshot.ram.reset(&self.base, &self.memory);
        self.base = snapshot.ram.base();
        let restored = self.restore(&snapshot.state);
        restored.map_err(|what| Error::Input(format!("the snapshot does not fit: {what}")))
    }
}
