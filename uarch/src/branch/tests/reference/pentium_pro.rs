//! Pentium Pro, II and III: A. Fog, "How to optimize for the Pentium family of microprocessors", section
//! 22.2; Intel SDM volume 3, the table of the P6 family's events.

use pmu_model::Signal;

use super::{
    super::comparison::{Expected, Reference},
    Local, Set, add, is_call, letter, push, touch,
};
use crate::branch::{Resolution, Transfer};

struct Entry {
    kind: char,
    target: u64,
    local: Local,
}

#[derive(Default)]
pub(in super::super) struct PentiumPro {
    /// 32 sets, by bits 8:4 of the last byte's address.
    sets: [Set<u64, Entry>; 32],
    stack: Vec<u64>,
    run: Option<u64>,
}

impl PentiumPro {
    fn bogus(&mut self, end: u64) -> Vec<Signal> {
        let mut signals = vec![];
        for at in self.run.unwrap_or(end)..end {
            let set = &mut self.sets[(at / 16) as usize % 32];
            let misleads = |(held, entry): &(u64, Entry)| {
                *held == at && (entry.kind != 'c' || entry.local.says_taken())
            };
            if let Some(place) = set.iter().position(misleads) {
                set.remove(place);
                signals.extend([Signal::FrontendBogusBranch, Signal::FrontendBaclear]);
            }
        }
        signals
    }
}

impl Reference for PentiumPro {
    const SIGNALS: &'static [Signal] = &[
        Signal::BranchMispredicted,
        Signal::BranchMispredictedTaken,
        Signal::FrontendBogusBranch,
        Signal::FrontendBaclear,
        Signal::BtbMiss,
    ];

    fn transfer(&mut self, t: &Transfer) -> Expected {
        let mut signals = self.bogus(t.from);
        self.run = Some(t.destination());
        let kind = letter(t.kind);
        if kind == 'f' {
            signals.push(Signal::BtbMiss);
            return Expected { resolution: Resolution::NotPredicted, signals };
        }
        let set = &mut self.sets[(t.last / 16) as usize % 32];
        let hit = touch(set, &t.last);
        let seen = hit.then(|| &set.last().unwrap().1);
        let top = self.stack.last().copied();
        let fetched = match seen {
            None => t.next,
            Some(entry) if entry.kind == 'c' && !entry.local.says_taken() => t.next,
            Some(entry) if entry.kind == 'r' => top.unwrap_or(t.next),
            Some(entry) => entry.target,
        };
        // The branch address calculator knows the instruction.
        let calculated = match kind {
            'd' => t.to,
            'i' => fetched,
            'r' => top.unwrap_or(fetched),
            _ => {
                let backward = t.to < t.next;
                let taken = match seen {
                    Some(entry) if entry.kind == 'c' => entry.local.says_taken(),
                    _ => backward,
                };
                if taken { t.to } else { t.next }
            }
        };
        if !hit {
            signals.push(Signal::BtbMiss);
        }
        if calculated != fetched {
            signals.push(Signal::FrontendBaclear);
        }
        let resolution = if calculated != t.destination() {
            signals.push(Signal::BranchMispredicted);
            if t.taken {
                signals.push(Signal::BranchMispredictedTaken);
            }
            Resolution::Mispredicted
        } else if calculated != fetched {
            Resolution::RedirectedAtDecode
        } else {
            Resolution::Predicted
        };

        if hit && set.last().unwrap().1.kind == kind {
            let entry = &mut set.last_mut().unwrap().1;
            if t.taken {
                entry.target = t.to;
            }
            if kind == 'c' {
                entry.local.learn(t.taken);
            }
        } else {
            if hit {
                set.pop();
            }
            add(set, 16, t.last, Entry { kind, target: t.to, local: Local::new(t.taken) });
        }
        if kind == 'r' {
            self.stack.pop();
        }
        if is_call(t) {
            push(&mut self.stack, 16, t.next);
        }
        Expected { resolution, signals }
    }

    fn interrupted(&mut self, from: u64, to: u64) -> Vec<Signal> {
        let signals = self.bogus(from);
        self.run = Some(to);
        signals
    }
}
