//! Tables of instructions: into which operations a part's decoders crack each.

use super::operation::MacroOp;

/// Where the operands of an instruction are, as a bit of [`Forms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// None, or implied by the instruction.
    None,
    /// A register.
    Reg,
    /// Memory.
    Mem,
    /// Destination register, source register.
    RegReg,
    /// Destination register, source memory.
    RegMem,
    /// Destination memory, source register.
    MemReg,
    /// Destination register, immediate.
    RegImm,
    /// Destination memory, immediate.
    MemImm,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Reg,
        Self::Mem,
        Self::RegReg,
        Self::RegMem,
        Self::MemReg,
        Self::RegImm,
        Self::MemImm,
    ];
}

/// A set of [`Form`]s.
pub type Forms = u8;

/// Forms without memory.
pub const REGISTER: Forms = 1 << Form::None as u8
    | 1 << Form::Reg as u8
    | 1 << Form::RegReg as u8
    | 1 << Form::RegImm as u8;
/// Forms with a source in memory, apart from those with one operand.
pub const SOURCE: Forms = 1 << Form::RegMem as u8;
/// Forms with a destination in memory, apart from those with one operand.
pub const DESTINATION: Forms = 1 << Form::MemReg as u8 | 1 << Form::MemImm as u8;
/// The form with one operand, in memory.
pub const ONE: Forms = 1 << Form::Mem as u8;
/// All forms with memory.
pub const MEMORY: Forms = SOURCE | DESTINATION | ONE;
/// All forms.
pub const ANY: Forms = REGISTER | MEMORY;

/// Width of an operand, as a bit of [`Widths`]: of the operand in memory if there is one, else of the
/// first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 8 bits.
    Bits8,
    /// 16 bits.
    Bits16,
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
    /// 80 bits, extended or decimal.
    Bits80,
    /// 128 bits.
    Bits128,
}

impl Width {
    /// Every width.
    pub const ALL: [Self; 6] =
        [Self::Bits8, Self::Bits16, Self::Bits32, Self::Bits64, Self::Bits80, Self::Bits128];
}

/// A set of [`Width`]s.
pub type Widths = u8;

/// 8 bits.
pub const W8: Widths = 1 << Width::Bits8 as u8;
/// 16 bits.
pub const W16: Widths = 1 << Width::Bits16 as u8;
/// 32 bits.
pub const W32: Widths = 1 << Width::Bits32 as u8;
/// 64 bits.
pub const W64: Widths = 1 << Width::Bits64 as u8;
/// 80 bits.
pub const W80: Widths = 1 << Width::Bits80 as u8;
/// 128 bits.
pub const W128: Widths = 1 << Width::Bits128 as u8;
/// All widths.
pub const WIDTHS: Widths = W8 | W16 | W32 | W64 | W80 | W128;

/// What else tells rows of an instruction apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// Nothing.
    #[default]
    Plain,
    /// An address of more than two parts or with a scaled index (LEA); a count in CL (shifts); one
    /// explicit operand and twice the width of it as the result (IMUL).
    Long,
    /// With a REP prefix.
    Repeated,
}

/// What a row is looked up by, beside the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Where its operands are.
    pub form: Form,
    /// How wide they are.
    pub width: Width,
    /// What else there is to it.
    pub variant: Variant,
}

/// How an instruction is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decode {
    /// By any decoder. On Intel's processors by the first one only, if there is more than one
    /// micro-operation or the instruction is long.
    Direct,
    /// By the first decoder only, because its unit is in the first lane.
    First,
    /// AMD's DirectPath Double: two neighbouring decoders, or the last one and the first of the next
    /// cycle.
    Double,
    /// From microcode: AMD's VectorPath, Intel's sequencer. Nothing else is decoded meanwhile.
    Microcode,
}

/// What a row's instruction is or does besides; a set of the constants of [`behaviour`].
pub type Behaviour = u16;

/// What an instruction is or does besides its operations.
pub mod behaviour {
    use super::Behaviour;

    /// Nothing behind it is dispatched before it has retired, and it is not before all older ones have.
    pub const SERIALISES: Behaviour = 1 << 0;
    /// A far transfer: nothing behind it is dispatched before it has retired.
    pub const FAR: Behaviour = 1 << 1;
    /// Loads a segment register.
    pub const SEGMENT_LOAD: Behaviour = 1 << 2;
    /// Waits until the system has answered all outstanding requests.
    pub const ALL_QUIET: Behaviour = 1 << 3;
    /// Waits until the store buffer has drained.
    pub const DRAINS_STORES: Behaviour = 1 << 4;
    /// A multiplication, of integers or floating-point numbers.
    pub const MULTIPLY: Behaviour = 1 << 5;
    /// A division, of integers or floating-point numbers.
    pub const DIVIDE: Behaviour = 1 << 6;
    /// A computational x87 operation, and what else P6 event 10h counts: integer multiplications and
    /// divisions.
    pub const FLOP: Behaviour = 1 << 7;
    /// An MMX instruction.
    pub const MMX: Behaviour = 1 << 8;
    /// A branch, of any kind.
    pub const BRANCH: Behaviour = 1 << 9;
    /// It synchronises: a locked or serialising instruction or a fence.
    pub const SYNCHRONISES: Behaviour = 1 << 10;
    /// It changes the stack pointer by a constant, which the decoder does for it where it can.
    pub const STACK: Behaviour = 1 << 11;
}

/// What a part's decoders make of some instructions.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The operations, by the names that the CPU has for them: mnemonics, most of them.
    pub names: &'static [&'static str],
    /// The forms that the row is for.
    pub forms: Forms,
    /// The widths that it is for.
    pub widths: Widths,
    /// The variant that it is for; any if there is none.
    pub variant: Option<Variant>,
    /// How it is decoded.
    pub decode: Decode,
    /// Its operations, in the order in which they are dispatched.
    pub operations: &'static [MacroOp],
    /// Steps of microcode behind them ([`Table::step`]).
    pub steps: u8,
    /// Operations of each iteration of a REP, dispatched in front of the steps.
    pub each: &'static [MacroOp],
    /// What it is or does besides.
    pub behaviour: Behaviour,
    /// Where the figures are from.
    pub source: &'static str,
}

impl Row {
    /// A row of no instruction, which makes no operations.
    pub const NOTHING: Self = Self::new(&[], ANY, &[], "");

    /// A row for all widths and variants. What makes one macro-operation is decoded directly; what
    /// makes two, as `two` says; and what makes more, from microcode.
    #[must_use]
    pub const fn new(
        names: &'static [&'static str],
        forms: Forms,
        operations: &'static [MacroOp],
        source: &'static str,
    ) -> Self {
        let decode = match operations.len() {
            0 | 1 => Decode::Direct,
            2 => Decode::Double,
            _ => Decode::Microcode,
        };
        Self {
            names,
            forms,
            widths: WIDTHS,
            variant: None,
            decode,
            operations,
            steps: 0,
            each: &[],
            behaviour: 0,
            source,
        }
    }

    /// The same, for some widths only.
    #[must_use]
    pub const fn of_width(self, widths: Widths) -> Self {
        Self { widths, ..self }
    }

    /// The same, for one variant only.
    #[must_use]
    pub const fn when(self, variant: Variant) -> Self {
        Self { variant: Some(variant), ..self }
    }

    /// The same, decoded in another way.
    #[must_use]
    pub const fn decoded(self, decode: Decode) -> Self {
        Self { decode, ..self }
    }

    /// The same with steps of microcode, so that it makes `total` macro-operations in all.
    #[must_use]
    pub const fn in_all(self, total: u8) -> Self {
        let steps = total - self.operations.len() as u8;
        Self { steps, decode: Decode::Microcode, ..self }
    }

    /// The same with operations for each iteration.
    #[must_use]
    pub const fn each(self, each: &'static [MacroOp]) -> Self {
        Self { each, decode: Decode::Microcode, ..self }
    }

    /// The same, with more behaviour.
    #[must_use]
    pub const fn and(self, behaviour: Behaviour) -> Self {
        Self { behaviour: self.behaviour | behaviour, ..self }
    }

    /// Whether the row is for this shape of its instructions.
    #[must_use]
    pub fn is_for(&self, shape: Shape) -> bool {
        self.forms & 1 << shape.form as u8 != 0
            && self.widths & 1 << shape.width as u8 != 0
            && self.variant.is_none_or(|variant| variant == shape.variant)
    }

    /// How many macro-operations it makes without those of iterations.
    #[must_use]
    pub const fn macro_ops(&self) -> usize {
        self.operations.len() + self.steps as usize
    }
}

/// The table of a part.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its rows. The first that fits is the one.
    pub rows: &'static [&'static [Row]],
    /// A step of microcode.
    pub step: MacroOp,
}

impl Table {
    /// The rows that name an operation. The first that is for its shape is the one.
    pub fn rows_of<'a>(&self, name: &'a str) -> impl Iterator<Item = &'static Row> + use<'a> {
        self.rows.iter().flat_map(|rows| rows.iter()).filter(move |row| row.names.contains(&name))
    }

    /// The row of an operation.
    #[must_use]
    pub fn look_up(&self, name: &str, shape: Shape) -> Option<&'static Row> {
        self.rows_of(name).find(|row| row.is_for(shape))
    }
}
