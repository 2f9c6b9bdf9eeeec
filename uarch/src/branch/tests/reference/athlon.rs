//! Athlon and Athlon 64: AMD 22007, page 132; AMD 25112, section A.6.

use std::collections::HashMap;

use pmu_model::Signal;

use super::{
    super::comparison::{Expected, Reference},
    Set, add, is_call, letter, push, touch,
};
use crate::branch::{Resolution, Transfer, TransferKind};

struct Entry {
    kind: char,
    target: u64,
    was_not_taken: bool,
}

pub(in super::super) struct Athlon {
    /// 2048 entries in 4 ways: 512 sets, by the number of the 16 bytes.
    sets: HashMap<u64, Set<u64, Entry>>,
    /// By the last eight outcomes, as text, and the bits of the address.
    counters: HashMap<(String, u64), i32>,
    outcomes: String,
    address_bits: fn(u64) -> u64,
    far_calls: bool,
    stack: Vec<u64>,
}

impl Athlon {
    fn new(address_bits: fn(u64) -> u64, far_calls: bool) -> Self {
        Self {
            sets: HashMap::new(),
            counters: HashMap::new(),
            outcomes: "00000000".to_owned(),
            address_bits,
            far_calls,
            stack: vec![],
        }
    }

    /// 4096 counters: eight outcomes, bits 7:4 of the address.
    pub(in super::super) fn k7() -> Self {
        Self::new(|at| at / 16 % 16, true)
    }

    /// 16384 counters: eight outcomes, bits 7:4, and 3:2 for the place in the 16 bytes.
    pub(in super::super) fn k8() -> Self {
        Self::new(|at| at / 4 % 64, false)
    }
}

impl Reference for Athlon {
    const SIGNALS: &'static [Signal] = &[
        Signal::BranchMispredicted,
        Signal::BranchMispredictedTaken,
        Signal::BranchMispredictedRet,
        Signal::BranchMispredictedIndirect,
        Signal::RasPredicted,
        Signal::RasOverflow,
    ];

    fn transfer(&mut self, t: &Transfer) -> Expected {
        let mut signals = vec![];
        let kind = letter(t.kind);
        if is_call(t) || t.kind == TransferKind::FarCall && self.far_calls {
            // Pushed only now: no transfer is a call and a return.
            if push(&mut self.stack, 12, t.next) {
                signals.push(Signal::RasOverflow);
            }
        }
        if kind == 'f' {
            if t.kind == TransferKind::FarReturn && self.far_calls {
                self.stack.pop();
            }
            return Expected { resolution: Resolution::NotPredicted, signals };
        }
        let (fetched, decoded) = if kind == 'r' {
            let top = self.stack.pop();
            if top.is_some() {
                signals.push(Signal::RasPredicted);
            }
            (top.unwrap_or(t.next), top.unwrap_or(t.next))
        } else {
            let counter = (self.outcomes.clone(), (self.address_bits)(t.from));
            let set = self.sets.entry(t.from / 16 % 512).or_default();
            let hit = touch(set, &t.from);
            let table_says_taken = *self.counters.get(&counter).unwrap_or(&1) >= 2;
            let (mut known, mut taken, mut target) = (false, false, t.next);
            if hit {
                let (_, entry) = set.last().unwrap();
                // Not taken until it is taken once, which made the entry; then taken until it is
                // not taken; thereafter the table.
                taken = entry.kind != 'c' || !entry.was_not_taken || table_says_taken;
                known = entry.kind == kind;
                target = entry.target;
            }
            let fetched = if taken { target } else { t.next };
            let decoded = match kind {
                'd' => t.to,
                'c' if known && taken => t.to,
                'c' => t.next,
                _ => fetched,
            };

            if hit && known {
                let entry = &mut set.last_mut().unwrap().1;
                if t.taken {
                    entry.target = t.to;
                }
                entry.was_not_taken |= !t.taken;
                if kind == 'c' && entry.was_not_taken {
                    let counter = self.counters.entry(counter).or_insert(1);
                    *counter = (*counter + if t.taken { 1 } else { -1 }).clamp(0, 3);
                }
            } else if t.taken {
                if hit {
                    set.pop();
                }
                add(set, 4, t.from, Entry { kind, target: t.to, was_not_taken: false });
            }
            if kind == 'c' {
                self.outcomes.remove(0);
                self.outcomes.push(if t.taken { '1' } else { '0' });
            }
            (fetched, decoded)
        };
        let resolution = if decoded != t.destination() {
            signals.push(Signal::BranchMispredicted);
            if t.taken {
                signals.push(Signal::BranchMispredictedTaken);
            }
            match kind {
                'r' => signals.push(Signal::BranchMispredictedRet),
                'i' => signals.push(Signal::BranchMispredictedIndirect),
                _ => {}
            }
            Resolution::Mispredicted
        } else if decoded != fetched {
            Resolution::RedirectedAtDecode
        } else {
            Resolution::Predicted
        };
        Expected { resolution, signals }
    }

    fn interrupted(&mut self, _: u64, _: u64) -> Vec<Signal> {
        vec![]
    }
}
