//! Where two snapshots differ.

use serde_json::Value;

use super::{Snapshot, State};
use crate::engine::soft::VcpuState;

impl State {
    /// Forgets what only says into which runs the execution so far was cut: what the last one began under, and who is
    /// to be looked at by whoever looks next, as every run does when it begins. No run goes on otherwise for it.
    pub(crate) fn forget_cuts(&mut self) {
        self.vcpus.iter_mut().for_each(VcpuState::forget_cuts);
        self.chipset.irq.take_stirred();
        self.roster.forget_stirred();
    }
}

impl Snapshot {
    /// The first place where the machines differ, with both values; `None` if they go on alike. What is not looked at:
    /// into which runs the execution so far was cut, and the translations that processors hold, of which a machine
    /// without the cache of translated code holds none.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let [one, two] = [self, other].map(|snapshot| {
            let mut state = snapshot.state.clone();
            state.forget_cuts();
            state.vcpus.iter_mut().for_each(VcpuState::forget_translations);
            state
        });
        match one == two {
            true => self.ram_difference(other).map(|at| format!("RAM at {at:#x}")),
            false => {
                let [one, two] = [one, two].map(serde_json::to_value);
                between(&one.unwrap_or_default(), &two.unwrap_or_default())
            }
        }
    }

    /// As [`Self::difference`], but that the models of micro-architecture are not looked at.
    #[must_use]
    pub fn difference_beside_models(&self, other: &Self) -> Option<String> {
        let [one, two] = [self, other].map(|snapshot| {
            let mut snapshot = snapshot.clone();
            snapshot.state.soft.forget_models();
            snapshot
        });
        one.difference(&two)
    }

    /// The guest-physical address of the first byte of RAM that differs.
    #[must_use]
    pub fn ram_difference(&self, other: &Self) -> Option<u64> {
        self.ram.first_difference(&other.ram)
    }
}

/// The path to the first field that differs, and what is there.
pub(super) fn between(mut one: &Value, mut two: &Value) -> Option<String> {
    let mut path = String::new();
    let mut differs = one != two;
    while differs {
        let deeper = match (one, two) {
            (Value::Object(a), Value::Object(b)) => a
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), value, b.get(key)?)))
                .find(|(_, a, b)| a != b),
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => (0..)
                .zip(a.iter().zip(b))
                .find(|(_, (a, b))| a != b)
                .map(|(n, (a, b)): (usize, _)| (n.to_string(), a, b)),
            _ => None,
        };
        let Some((key, a, b)) = deeper else { break };
        let point = if path.is_empty() { "" } else { "." };
        path = format!("{path}{point}{key}");
        (one, two, differs) = (a, b, a != b);
    }
    differs.then(|| format!("{path}: {} and {}", shortened(one), shortened(two)))
}

/// A value, or how it begins.
fn shortened(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
