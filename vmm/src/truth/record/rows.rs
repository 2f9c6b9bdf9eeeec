//! From records to rows.

use pmu_model::Signal;
use x86_cpu::observe::Facts;

use super::columns::Column;
use super::modelled::Modelled;
use super::records::{Counted, Records, Where};
use super::{Before, Delivered, Recorder};
use crate::engine::soft::fact;
use crate::error::{Error, Result};
use crate::truth::{Instruction, Row, Space, Truth, add};

/// What was counted of an instruction at a place. There are millions, so that they borrow what they can.
#[derive(Clone, Copy)]
struct Entry<'a> {
    space: u32,
    address: u64,
    bits: u8,
    bytes: &'a [u8],
    place: Where,
    /// Index of its counts, by column, among those of all.
    counts: usize,
}

impl Entry<'_> {
    fn instruction(&self) -> (u32, u64, u8, &[u8]) {
        (self.space, self.address, self.bits, self.bytes)
    }
}

/// What was counted, with several entries for an instruction and place if it was in several blocks.
#[derive(Default)]
struct Entries<'a> {
    entries: Vec<Entry<'a>>,
    counts: Vec<u64>,
}

impl<'a> Entries<'a> {
    fn sort(&mut self) {
        self.entries.sort_by(|a, b| (a.instruction(), a.place).cmp(&(b.instruction(), b.place)));
    }

    /// Adds an entry, unless nothing was counted.
    fn add(&mut self, entry: Entry<'a>, counts: impl Iterator<Item = u64>) {
        let at = self.counts.len();
        self.counts.extend(counts);
        if self.counts[at..].iter().any(|&count| count != 0) {
            self.entries.push(Entry { counts: at, ..entry });
        } else {
            self.counts.truncate(at);
        }
    }
}

impl Recorder {
    /// What was counted, by instruction and place.
    fn entries(&self) -> Entries<'_> {
        let mut all = Entries::default();
        for (cell, counted) in self.records.instructions().enumerate() {
            let Counted { place, linear: address, bits, bytes, .. } = counted;
            let mut sums = Sums::of_instruction(&counted);
            let columns = self.columns.iter().zip(&self.before);
            let count =
                |(column, before): (&Column, &Before)| sums.of(column) - before.of_cell(cell);
            let entry = Entry { space: place.space, address, bits, bytes, place, counts: 0 };
            all.add(entry, columns.map(count));
        }
        let key = |entry: &Entry<'_>| (entry.space, entry.address, entry.bits);
        all.sort();
        let instructions = all.entries.len();
        for (&at, delivered) in &self.deliveries {
            let (place, address, bits) = at;
            let mut sums = Sums::of_delivery(delivered);
            let columns = self.columns.iter().zip(&self.before);
            let count = |(column, before): (&Column, &Before)| {
                sums.of(column) - before.deliveries.get(&at).copied().unwrap_or(0)
            };
            let here = (place.space, address, bits);
            let known = &all.entries[..instructions];
            let next = known.get(known.partition_point(|entry| key(entry) < here));
            let bytes =
                next.filter(|entry| key(entry) == here).map_or(&[][..], |entry| entry.bytes);
            let entry = Entry { space: place.space, address, bits, bytes, place, counts: 0 };
            all.add(entry, columns.map(count));
        }
        all.sort();
        all
    }

    /// The instructions and their rows.
    fn rows(&self) -> (Vec<Instruction>, Vec<Row>) {
        let (mut instructions, mut rows) = (Vec::new(), Vec::<Row>::new());
        let Entries { entries, counts } = self.entries();
        let mut last: Option<&Entry<'_>> = None;
        for entry in &entries {
            let counts = &counts[entry.counts..entry.counts + self.columns.len()];
            let known = last.filter(|last| last.instruction() == entry.instruction());
            if known.is_none() {
                let Entry { space, address, bits, bytes, .. } = *entry;
                instructions.push(Instruction { space, address, bits, bytes: bytes.to_vec() });
            }
            match (known.filter(|last| last.place == entry.place), rows.last_mut()) {
                (Some(_), Some(row)) => add(&mut row.counts, counts),
                _ => {
                    let instruction = (instructions.len() - 1) as u32;
                    let Where { vcpu, cpl, .. } = entry.place;
                    rows.push(Row { instruction, vcpu, cpl, counts: counts.to_vec() });
                }
            }
            last = Some(entry);
        }
        (instructions, rows)
    }

    /// What the run was.
    ///
    /// # Errors
    /// If there was more of it than there is room for.
    pub fn finish(mut self, vcpus: usize) -> Result<Truth> {
        if self.records.overflow.is_some() {
            return Err(Error::Host(
                "--truth: the guest executed more than a million different blocks of code, for which \
                 there is no room"
                    .into(),
            ));
        }
        let (instructions, rows) = self.rows();
        self.records
            .callees()
            .for_each(|callee| self.contexts.note_times(callee.context, callee.times));
        self.records = Records::default();
        let flattened = self.contexts.flattened;
        let contexts = self.contexts.finish().enumerate().map(|(n, (mut context, share))| {
            let columns = self.columns.iter().zip(&self.before);
            let count = |(column, before): (&Column, &Before)| {
                self.totals.shares.of(column, &share) - before.contexts.get(n).copied().unwrap_or(0)
            };
            context.own = columns.map(count).collect();
            context
        });
        let contexts = contexts.collect();
        let spaces = self.spaces.all.iter().map(|&cr3| Space { cr3, name: None });
        Ok(Truth {
            personality: self.personality.name.to_owned(),
            vcpus: vcpus as u32,
            events: self.columns.iter().map(Column::event).collect(),
            spaces: spaces.collect(),
            instructions,
            rows,
            flattened,
            contexts,
            modules: Vec::new(),
        })
    }
}

/// What was counted of an instruction at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) executions: u64,
    pub(super) cycles: u64,
    pub(super) facts: Facts,
    pub(super) modelled: Modelled,
}

impl Sums {
    pub(super) fn of_instruction(counted: &Counted<'_>) -> Self {
        let Counted { executions, branches, taken, is_near_return, .. } = *counted;
        let Counted { known, rest, other, modelled, .. } = *counted;
        let mut facts = other.copied().unwrap_or_default();
        let classes = known.class.0;
        for (n, count) in facts.class.iter_mut().enumerate() {
            *count += if classes >> n & 1 != 0 { executions } else { 0 };
        }
        facts.loads += rest.loads;
        facts.stores += rest.stores;
        facts.misaligned += rest.misaligned;
        // A far transfer is a branch that is taken.
        facts.branches += branches + facts.far;
        facts.taken += taken + facts.far;
        facts.near_returns += if is_near_return { branches } else { 0 };
        let cycles = executions * u64::from(known.cycles) + rest.cycles;
        Self { executions, cycles, facts, modelled: modelled.cloned().unwrap_or_default() }
    }

    pub(super) fn of_delivery(delivered: &Delivered) -> Self {
        let Delivered { facts, cycles, ref modelled } = *delivered;
        Self { executions: 0, cycles, facts, modelled: modelled.clone() }
    }

    pub(super) fn of(&mut self, column: &Column) -> u64 {
        column.sum(|signal| match signal {
            Signal::InsnRetired => self.executions,
            Signal::CyclesUnhalted => self.cycles,
            _ => match fact(&mut self.facts, signal) {
                Some(fact) => *fact,
                None => self.modelled.of(signal),
            },
        })
    }
}
