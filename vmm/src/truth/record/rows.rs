//! From records to rows.

use std::collections::BTreeMap;

use pmu_model::Signal;
use x86_cpu::observe::Facts;

use super::columns::Column;
use super::records::{Counted, Where};
use super::{Before, Delivered, Recorder};
use crate::engine::soft::fact;
use crate::error::{Error, Result};
use crate::truth::{Instruction, Row, Space, Truth};

impl Recorder {
    /// The counts of all columns, by instruction and place.
    fn counts(&mut self) -> BTreeMap<(Instruction, Where), Vec<u64>> {
        type Counts = BTreeMap<(Instruction, Where), Vec<u64>>;
        let mut all = Counts::new();
        let add = |all: &mut Counts, at: (Instruction, Where), counts: Vec<u64>| {
            if counts.iter().any(|&count| count != 0) {
                let sums = all.entry(at).or_insert_with(|| vec![0; counts.len()]);
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        };
        for (cell, counted) in self.records.instructions().enumerate() {
            let Counted { place, linear: address, bits, bytes, .. } = counted;
            let instruction =
                Instruction { space: place.space, address, bits, bytes: bytes.to_vec() };
            let mut sums = Sums::of_instruction(&counted);
            let columns = self.columns.iter().zip(&self.before);
            let count = |(column, before): (&Column, &Before)| {
                sums.of(column) - before.cells.get(cell).copied().unwrap_or(0)
            };
            add(&mut all, (instruction, place), columns.map(count).collect());
        }
        for (&key, delivered) in &self.deliveries {
            let (place, address, bits) = key;
            let mut sums = Sums::of_delivery(delivered);
            let columns = self.columns.iter().zip(&self.before);
            let count = |(column, before): (&Column, &Before)| {
                sums.of(column) - before.deliveries.get(&key).copied().unwrap_or(0)
            };
            let space = place.space;
            let counts: Vec<u64> = columns.map(count).collect();
            let bare = Instruction { space, address, bits, bytes: Vec::new() };
            let from = (bare.clone(), Where { vcpu: 0, cpl: 0, space: 0 });
            let next = all.range(from..).next().map(|((instruction, _), _)| instruction);
            let is_there = |known: &&Instruction| {
                (known.space, known.address, known.bits) == (space, address, bits)
            };
            let instruction = next.filter(is_there).cloned().unwrap_or(bare);
            add(&mut all, (instruction, place), counts);
        }
        all
    }

    /// What the run was.
    ///
    /// # Errors
    /// If there was more of it than there is room for.
    pub fn finish(mut self, vcpus: usize) -> Result<Truth> {
        if self.records.full {
            return Err(Error::Host(
                "--truth: the guest executed more than a million different blocks of code, for which \
                 there is no room"
                    .into(),
            ));
        }
        let mut instructions: Vec<Instruction> = Vec::new();
        let mut rows = Vec::new();
        for ((instruction, place), counts) in self.counts() {
            if instructions.last() != Some(&instruction) {
                instructions.push(instruction);
            }
            let instruction = (instructions.len() - 1) as u32;
            rows.push(Row { instruction, vcpu: place.vcpu, cpl: place.cpl, counts });
        }
        let flattened = self.contexts.flattened;
        let mut contexts = self.contexts.finish();
        for (n, context) in contexts.iter_mut().enumerate() {
            let columns = self.columns.iter().zip(&self.before);
            let count = |(column, before): (&Column, &Before)| {
                let before = before.contexts.get(n).copied().unwrap_or(0);
                column.of_signals(&self.signals, &context.own) - before
            };
            context.own = columns.map(count).collect();
        }
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
}

impl Sums {
    pub(super) fn of_instruction(counted: &Counted<'_>) -> Self {
        let Counted { executions, known, cell, other, .. } = *counted;
        let mut facts = other.copied().unwrap_or_default();
        let classes = known.class.0;
        for (n, count) in facts.class.iter_mut().enumerate() {
            *count += if classes >> n & 1 != 0 { executions } else { 0 };
        }
        facts.loads += cell.loads;
        facts.stores += cell.stores;
        facts.misaligned += cell.misaligned;
        facts.branches += cell.branches;
        facts.taken += cell.taken;
        facts.near_returns += if known.is_near_return { cell.branches } else { 0 };
        let cycles = executions * u64::from(known.cycles) + cell.cycles;
        Self { executions, cycles, facts }
    }

    pub(super) fn of_delivery(delivered: &Delivered) -> Self {
        Self { executions: 0, cycles: delivered.cycles, facts: delivered.facts }
    }

    pub(super) fn of(&mut self, column: &Column) -> u64 {
        column.sum(|signal| match signal {
            Signal::InsnRetired => self.executions,
            Signal::CyclesUnhalted => self.cycles,
            _ => fact(&mut self.facts, signal).map_or(0, |fact| *fact),
        })
    }
}
