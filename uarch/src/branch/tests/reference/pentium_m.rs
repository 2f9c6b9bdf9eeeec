//! The Pentium M: V. Uzelac and A. Milenkovic, "Experiment Flows and Microbenchmarks for Reverse
//! Engineering of Branch Predictor Structures"; Intel 248966, page 2-19; Intel SDM volume 3, the table of
//! the Pentium M's events.

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
}

/// A loop: the outcomes since the last end of it are all alike.
struct Loop {
    body: bool,
    iterations: u64,
    length: Option<u64>,
}

#[derive(Default)]
pub(in super::super) struct PentiumM {
    /// By bits 12:4. Keys are bits 21:13 and 3:0.
    targets: HashMap<u64, Set<(u64, u64), Entry>>,
    bimodal: HashMap<u64, i32>,
    global: HashMap<u64, Set<u64, i32>>,
    loops: HashMap<u64, Set<u64, Loop>>,
    indirect: HashMap<u64, (u64, u64)>,
    /// 15 bits.
    path: u64,
    stack: Vec<u64>,
    run: Option<u64>,
}

/// Bits `high` to `low` of a number.
fn bits(number: u64, high: u32, low: u32) -> u64 {
    (number >> low) % (1 << (high - low + 1))
}

fn key(at: u64) -> (u64, (u64, u64)) {
    (bits(at, 12, 4), (bits(at, 21, 13), bits(at, 3, 0)))
}

/// What each table says.
struct Opinion {
    global: Option<bool>,
    by_loop: Option<bool>,
    bimodal: bool,
}

impl Opinion {
    fn without_global(&self) -> bool {
        self.by_loop.unwrap_or(self.bimodal)
    }

    fn taken(&self) -> bool {
        self.global.unwrap_or(self.without_global())
    }
}

impl PentiumM {
    fn global_place(&self, at: u64) -> (u64, u64) {
        (bits(at, 12, 4) ^ bits(self.path, 14, 6), bits(at, 18, 13) ^ bits(self.path, 5, 0))
    }

    fn opinion(&mut self, at: u64, has_target: bool) -> Opinion {
        let (set, tag) = self.global_place(at);
        let global = self.global.entry(set).or_default().iter().find(|(held, _)| *held == tag);
        let loops = self.loops.entry(bits(at, 9, 4)).or_default();
        let by_loop =
            loops.iter().find(|(tag, _)| *tag == bits(at, 15, 10)).and_then(|(_, entry)| {
                entry.length.map(|length| entry.body == (entry.iterations != length))
            });
        Opinion {
            global: global.map(|(_, counter)| *counter >= 2),
            by_loop: by_loop.filter(|_| has_target),
            bimodal: *self.bimodal.get(&bits(at, 11, 0)).unwrap_or(&0) >= 2,
        }
    }

    fn learn(&mut self, at: u64, opinion: &Opinion, taken: bool) {
        let step = if taken { 1 } else { -1 };
        let wrong = opinion.taken() != taken;
        if opinion.global.is_none() && opinion.by_loop.is_none() {
            let counter = self.bimodal.entry(bits(at, 11, 0)).or_insert(0);
            *counter = (*counter + step).clamp(0, 3);
        }
        let (set, tag) = self.global_place(at);
        let set = self.global.entry(set).or_default();
        if touch(set, &tag) {
            if wrong && opinion.without_global() == taken {
                set.pop();
            } else {
                let counter = &mut set.last_mut().unwrap().1;
                *counter = (*counter + step).clamp(0, 3);
            }
        } else if wrong {
            add(set, 4, tag, if taken { 3 } else { 0 });
        }

        let set = self.loops.entry(bits(at, 9, 4)).or_default();
        let tag = bits(at, 15, 10);
        if touch(set, &tag) {
            let entry = &mut set.last_mut().unwrap().1;
            if taken == entry.body {
                entry.iterations += 1;
                if entry.length.is_some_and(|length| entry.iterations > length) {
                    entry.length = None;
                }
                if entry.iterations == 64 {
                    set.pop();
                }
            } else if entry.iterations == 0 {
                *entry = Loop { body: taken, iterations: 1, length: None };
            } else {
                entry.length = Some(entry.iterations);
                entry.iterations = 0;
            }
        } else if wrong {
            add(set, 2, tag, Loop { body: !taken, iterations: 0, length: None });
        }
    }

    fn bogus(&mut self, end: u64) -> Vec<Signal> {
        let mut signals = vec![];
        for at in self.run.unwrap_or(end)..end {
            let (set, tag) = key(at);
            let held = self.targets.entry(set).or_default();
            let Some(place) = held.iter().position(|(held, _)| *held == tag) else { continue };
            if held[place].1.kind != 'c' || self.opinion(at, true).taken() {
                self.targets.get_mut(&set).unwrap().remove(place);
                signals.extend([Signal::FrontendBogusBranch, Signal::FrontendBaclear]);
            }
        }
        signals
    }
}

impl Reference for PentiumM {
    const SIGNALS: &'static [Signal] = &[
        Signal::BranchMispredicted,
        Signal::BranchMispredictedTaken,
        Signal::FrontendBogusBranch,
        Signal::FrontendBaclear,
        Signal::BtbMiss,
        Signal::BranchExecuted,
        Signal::BranchExecutedMispredicted,
        Signal::BranchExecutedMispredictedDecode,
        Signal::BranchExecutedConditional,
        Signal::BranchExecutedConditionalMispredicted,
        Signal::BranchExecutedIndirect,
        Signal::BranchExecutedIndirectMispredicted,
        Signal::BranchExecutedRet,
        Signal::BranchExecutedRetMispredicted,
        Signal::BranchExecutedRetMispredictedDecode,
        Signal::BranchExecutedCall,
        Signal::BranchExecutedCallMispredicted,
        Signal::BranchExecutedIndirectCall,
    ];

    fn transfer(&mut self, t: &Transfer) -> Expected {
        let mut signals = self.bogus(t.from);
        self.run = Some(t.destination());
        signals.push(Signal::BranchExecuted);
        let kind = letter(t.kind);
        if kind == 'f' {
            signals.push(Signal::BtbMiss);
            return Expected { resolution: Resolution::NotPredicted, signals };
        }
        let at = t.from;
        let (set, tag) = key(at);
        let hit = touch(self.targets.entry(set).or_default(), &tag);
        let opinion = self.opinion(at, hit);
        let hash = bits(at, 18, 4) ^ self.path;
        let (index, rest) = (bits(hash, 13, 6), bits(hash, 14, 14) << 6 | bits(hash, 5, 0));
        let top = self.stack.last().copied();
        let seen = hit.then(|| &self.targets[&set].last().unwrap().1);
        let fetched = match seen {
            None => t.next,
            Some(Entry { kind: 'c', .. }) if !opinion.taken() => t.next,
            Some(Entry { kind: 'r', .. }) => top.unwrap_or(t.next),
            Some(Entry { kind: 'i', target }) => match self.indirect.get(&index) {
                Some((held, by_path)) if *held == rest => *by_path,
                _ => *target,
            },
            Some(Entry { target, .. }) => *target,
        };
        let decoded = match kind {
            'd' => t.to,
            'c' => {
                if opinion.taken() {
                    t.to
                } else {
                    t.next
                }
            }
            'r' => top.unwrap_or(fetched),
            _ => fetched,
        };
        let last_target = seen.map(|entry| entry.target);

        if !hit {
            signals.push(Signal::BtbMiss);
        }
        signals.extend(match t.kind {
            TransferKind::Conditional => vec![Signal::BranchExecutedConditional],
            TransferKind::IndirectJump => vec![Signal::BranchExecutedIndirect],
            TransferKind::Return => vec![Signal::BranchExecutedRet],
            TransferKind::Call => vec![Signal::BranchExecutedCall],
            TransferKind::IndirectCall => vec![
                Signal::BranchExecutedCall,
                Signal::BranchExecutedIndirect,
                Signal::BranchExecutedIndirectCall,
            ],
            _ => vec![],
        });
        if decoded != fetched {
            signals.extend([Signal::FrontendBaclear, Signal::BranchExecutedMispredictedDecode]);
            if kind == 'r' {
                signals.push(Signal::BranchExecutedRetMispredictedDecode);
            }
        }
        let wrong = decoded != t.destination();
        if wrong {
            signals.extend([Signal::BranchMispredicted, Signal::BranchExecutedMispredicted]);
            if t.taken {
                signals.push(Signal::BranchMispredictedTaken);
            }
            match kind {
                'c' => signals.push(Signal::BranchExecutedConditionalMispredicted),
                'i' => signals.push(Signal::BranchExecutedIndirectMispredicted),
                'r' => signals.push(Signal::BranchExecutedRetMispredicted),
                _ => {}
            }
            if is_call(t) {
                signals.push(Signal::BranchExecutedCallMispredicted);
            }
        }

        if kind == 'c' {
            self.learn(at, &opinion, t.taken);
            if t.taken {
                self.path = bits(self.path << 2 ^ at >> 4, 14, 0);
            }
        }
        if kind == 'i' {
            let known = self.indirect.get(&index).is_some_and(|(held, _)| *held == rest);
            if known || last_target != Some(t.to) {
                self.indirect.insert(index, (rest, t.to));
            }
            let appended = bits(at, 18, 10) << 6 | bits(t.to, 5, 0);
            self.path = bits(self.path << 2 ^ appended, 14, 0);
        }
        let set = self.targets.get_mut(&set).unwrap();
        if hit && set.last().unwrap().1.kind == kind {
            if t.taken {
                set.last_mut().unwrap().1.target = t.to;
            }
        } else {
            if hit {
                set.pop();
            }
            add(set, 4, tag, Entry { kind, target: t.to });
        }
        if kind == 'r' {
            self.stack.pop();
        }
        if is_call(t) {
            push(&mut self.stack, 16, t.next);
        }
        let resolution = match () {
            () if wrong => Resolution::Mispredicted,
            () if decoded != fetched => Resolution::RedirectedAtDecode,
            () => Resolution::Predicted,
        };
        Expected { resolution, signals }
    }

    fn interrupted(&mut self, from: u64, to: u64) -> Vec<Signal> {
        let signals = self.bogus(from);
        self.run = Some(to);
        signals
    }
}
