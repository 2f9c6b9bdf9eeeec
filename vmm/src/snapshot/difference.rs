//! Where two snapshots differ.

use serde_json::Value;

use super::Snapshot;

impl Snapshot {
    /// The first place where the machines differ, with both values; `None` if they go on alike. The translations that
    /// processors hold are not looked at: a machine without the cache of translated code holds none.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let [one, two] = [self, other].map(|snapshot| {
            let mut state = snapshot.state.clone();
            state.vcpus.iter_mut().for_each(super::VcpuState::forget_translations);
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
    differs.then(|| format!("{path}: {one} and {two}"))
}
