//! Tables of the timings of instructions, for in-order pipelines: by operation and form.

use crate::pipeline::in_order::Timing;

/// Where an instruction's operands are, as far as timings tell forms apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In registers, or implied.
    Register,
    /// One is read from memory, and memory is not written.
    Load,
    /// Memory is written, and may have been read.
    Store,
}

/// What the last operand is, as far as timings tell forms apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// None, a register or memory.
    Plain,
    /// An immediate.
    Immediate,
    /// An immediate, of the encoding of its own that an operation has for the accumulator.
    AccumulatorImmediate,
    /// One, of the encoding of its own that shifts and rotations have for it.
    One,
    /// CL.
    Count,
}

/// A form of an instruction, as far as timings tell forms apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Where its operands are.
    pub place: Place,
    /// What the last of them is.
    pub source: Source,
    /// Width of the operand; of that in memory, if an x87 instruction has one.
    pub bits: u8,
}

/// A row of the tables: operations by their mnemonics, and which of their forms.
#[derive(Debug)]
pub struct Row {
    names: &'static [&'static str],
    place: Option<Place>,
    source: Option<Source>,
    bits: u8,
    timing: Timing,
}

impl Row {
    /// All forms.
    pub(super) const fn all(names: &'static [&'static str], timing: Timing) -> Self {
        Self { names, place: None, source: None, bits: 0, timing }
    }

    /// The forms with operands in a place.
    pub(super) const fn at(place: Place, names: &'static [&'static str], timing: Timing) -> Self {
        Self { place: Some(place), ..Self::all(names, timing) }
    }

    /// Those of them with a last operand.
    pub(super) const fn with(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Those of them with operands of a width.
    pub(super) const fn of(self, bits: u8) -> Self {
        Self { bits, ..self }
    }

    /// The timing of a form, if the row has it.
    #[must_use]
    pub fn timing(&self, form: Form) -> Option<Timing> {
        let has = self.place.is_none_or(|place| place == form.place)
            && self.source.is_none_or(|source| source == form.source)
            && (self.bits == 0 || self.bits == form.bits);
        has.then_some(self.timing)
    }

    /// Whether it is of an operation, by its mnemonic.
    pub(super) fn names(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// The operations that it is of, and the timing of all their forms that it has.
    #[cfg(test)]
    pub(super) fn says(&self) -> (&'static [&'static str], Timing) {
        (self.names, self.timing)
    }
}
