//! The Pentium with MMX: A. Fog, "How to optimize for the Pentium family of microprocessors", section
//! 22.2; Intel SDM volume 3, the table of the Pentium's events.

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
pub(in super::super) struct PentiumMmx {
    /// 16 sets, by bits 5:2 of the last byte's address. Keys are the address without bits 1:0.
    sets: [Set<u64, Entry>; 16],
    stack: Vec<u64>,
    run: Option<u64>,
}

impl PentiumMmx {
    /// Entries in doublewords that lie wholly in code without a branch.
    fn false_entries(&mut self, end: u64) -> Vec<Signal> {
        let mut signals = vec![];
        let Some(start) = self.run else { return signals };
        for key in start / 4..=end / 4 {
            if key * 4 < start || key * 4 + 4 > end {
                continue;
            }
            let set = &mut self.sets[key as usize % 16];
            let before = set.len();
            set.retain(|(held, entry)| {
                *held != key || entry.kind == 'c' && !entry.local.says_taken()
            });
            if set.len() < before {
                signals.extend([
                    Signal::BtbFalseEntry,
                    Signal::PipelineFlush,
                    Signal::FlushMispredict,
                ]);
            }
        }
        signals
    }
}

impl Reference for PentiumMmx {
    const SIGNALS: &'static [Signal] = &[
        Signal::BtbHit,
        Signal::BtbHitOrTaken,
        Signal::PipelineFlush,
        Signal::FlushMispredict,
        Signal::BranchMispredictedRet,
        Signal::RasPredicted,
        Signal::RasOverflow,
        Signal::BtbFalseEntry,
        Signal::BranchMispredictedNotTaken,
    ];

    fn transfer(&mut self, t: &Transfer) -> Expected {
        let mut signals = self.false_entries(t.from);
        self.run = Some(t.destination());
        let kind = letter(t.kind);
        if kind == 'f' {
            signals.push(Signal::BtbHitOrTaken);
            return Expected { resolution: Resolution::NotPredicted, signals };
        }
        let key = t.last / 4;
        let set = &mut self.sets[key as usize % 16];
        let mut predicted = t.next;
        let hit = touch(set, &key);
        if hit {
            signals.push(Signal::BtbHit);
            let (_, entry) = set.last().unwrap();
            match entry.kind {
                'c' if !entry.local.says_taken() => {}
                'r' if !self.stack.is_empty() => {
                    predicted = *self.stack.last().unwrap();
                    if kind == 'r' {
                        signals.push(Signal::RasPredicted);
                    }
                }
                _ => predicted = entry.target,
            }
        }
        if hit || t.taken {
            signals.push(Signal::BtbHitOrTaken);
        }
        let resolution = if predicted == t.destination() {
            Resolution::Predicted
        } else {
            signals.extend([Signal::PipelineFlush, Signal::FlushMispredict]);
            if hit {
                signals.push(Signal::BranchMispredictedBtbHit);
            }
            if kind == 'r' {
                signals.push(Signal::BranchMispredictedRet);
            }
            if !t.taken {
                signals.push(Signal::BranchMispredictedNotTaken);
            }
            Resolution::Mispredicted
        };

        if hit && set.last().unwrap().1.kind == kind {
            let entry = &mut set.last_mut().unwrap().1;
            if t.taken {
                entry.target = t.to;
            }
            if kind == 'c' {
                entry.local.learn(t.taken);
            }
        } else if t.taken {
            if hit {
                set.pop();
            }
            add(set, 16, key, Entry { kind, target: t.to, local: Local::new(true) });
        }
        if kind == 'r' {
            self.stack.pop();
        }
        if is_call(t) && push(&mut self.stack, 4, t.next) {
            signals.push(Signal::RasOverflow);
        }
        Expected { resolution, signals }
    }

    fn interrupted(&mut self, from: u64, to: u64) -> Vec<Signal> {
        let mut signals = self.false_entries(from);
        signals.push(Signal::PipelineFlush);
        self.run = Some(to);
        signals
    }
}
