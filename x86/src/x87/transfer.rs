//! Loads, stores, constants and moves within the stack.

use super::Fpu;
use super::arith::Source;
use super::status::C1;
use crate::softfloat::{Context, F80, IE, OE, Rounding, UE};

/// The formats of memory operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemoryFormat {
    /// Single precision, 4 bytes.
    Single,
    /// Double precision, 8 bytes.
    Double,
    /// Double extended precision, 10 bytes.
    Extended,
    /// 16-bit integer.
    Int16,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Packed decimal, 10 bytes.
    Decimal,
}

impl MemoryFormat {
    /// Size in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Int16 => 2,
            Self::Single | Self::Int32 => 4,
            Self::Double | Self::Int64 => 8,
            Self::Extended | Self::Decimal => 10,
        }
    }
}

/// The constants that FLD1 to FLDZ push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Constant {
    /// FLD1: one.
    One,
    /// FLDL2T: log2(10).
    Log2Of10,
    /// FLDL2E: log2(e).
    Log2OfE,
    /// FLDPI: pi.
    Pi,
    /// FLDLG2: log10(2).
    Log10Of2,
    /// FLDLN2: ln(2).
    LnOf2,
    /// FLDZ: positive zero.
    Zero,
}

impl Constant {
    /// The value in a rounding mode; the true one lies between two encodings.
    const fn value(self, rounding: Rounding) -> F80 {
        let (sign_exp, truncated, nearest_is_up) = match self {
            Self::One => return F80::ONE,
            Self::Zero => return F80::ZERO,
            Self::Log2Of10 => (0x4000, 0xD49A_784B_CD1B_8AFE, false),
            Self::Log2OfE => (0x3FFF, 0xB8AA_3B29_5C17_F0BB, true),
            Self::Pi => (0x4000, 0xC90F_DAA2_2168_C234, true),
            Self::Log10Of2 => (0x3FFD, 0x9A20_9A84_FBCF_F798, true),
            Self::LnOf2 => (0x3FFE, 0xB172_17F7_D1CF_79AB, true),
        };
        let up = match rounding {
            Rounding::Nearest => nearest_is_up,
            Rounding::Up => true,
            Rounding::Down | Rounding::Zero => false,
        };
        F80::new(sign_exp, truncated + up as u64)
    }
}

fn take<const N: usize>(bytes: [u8; 10]) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = from;
    }
    out
}

fn give<const N: usize>(bytes: [u8; N]) -> [u8; 10] {
    let mut out = [0; 10];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = from;
    }
    out
}

impl Source {
    /// The memory operand of an arithmetic instruction, which is a single, a double, or an
    /// integer of 16 or 32 bits; of the formats that are none of these the low 32 bits.
    #[must_use]
    pub fn from_memory(format: MemoryFormat, bytes: [u8; 10]) -> Self {
        match format {
            MemoryFormat::Single => Self::Single(u32::from_le_bytes(take(bytes))),
            MemoryFormat::Double => Self::Double(u64::from_le_bytes(take(bytes))),
            MemoryFormat::Int16 => Self::Integer(i16::from_le_bytes(take(bytes)).into()),
            _ => Self::Integer(i32::from_le_bytes(take(bytes))),
        }
    }
}

impl Fpu {
    fn load_with(&mut self, value: impl FnOnce(&mut Context) -> F80) {
        let mut cx = self.begin();
        if self.is_full() {
            if self.stack_fault(true) {
                self.push(F80::INDEFINITE);
            }
            return;
        }
        let value = value(&mut cx);
        self.finish(&cx);
        // A denormal is loaded even if that is an unmasked exception.
        if cx.unmasked() & IE == 0 {
            self.push(value);
        }
    }

    /// FLD, FILD and FBLD from memory; bytes beyond the format's size do not matter.
    pub fn load(&mut self, format: MemoryFormat, bytes: [u8; 10]) {
        self.load_with(|cx| match format {
            MemoryFormat::Single => F80::from_f32(u32::from_le_bytes(take(bytes)), cx),
            MemoryFormat::Double => F80::from_f64(u64::from_le_bytes(take(bytes)), cx),
            MemoryFormat::Extended => F80::from_bytes(bytes),
            MemoryFormat::Int16 => F80::from_i64(i16::from_le_bytes(take(bytes)).into()),
            MemoryFormat::Int32 => F80::from_i64(i32::from_le_bytes(take(bytes)).into()),
            MemoryFormat::Int64 => F80::from_i64(i64::from_le_bytes(take(bytes))),
            MemoryFormat::Decimal => F80::from_bcd(bytes),
        });
    }

    /// FLD1 to FLDZ.
    pub fn load_constant(&mut self, constant: Constant) {
        self.load_with(|cx| constant.value(cx.rounding));
    }

    /// FLD ST(i).
    pub fn load_register(&mut self, i: u8) {
        let Some(value) = self.get(i) else {
            self.status &= !C1;
            if self.stack_fault(false) {
                self.push(F80::INDEFINITE);
            }
            return;
        };
        self.load_with(|_| value);
    }

    /// FST, FSTP, FIST, FISTP, FISTTP (`truncate`) and FBSTP to memory. `None`: an unmasked
    /// exception forbids the store; then nothing is popped either. The caller must store before it
    /// keeps the new state, because a fault in the store leaves the state as it was.
    #[must_use]
    pub fn store(&mut self, format: MemoryFormat, truncate: bool, pop: bool) -> Option<[u8; 10]> {
        let mut cx = self.begin();
        let value = match self.get(0) {
            Some(value) => value,
            None if self.stack_fault(false) => F80::INDEFINITE,
            None => return None,
        };
        let rounding = if truncate { Rounding::Zero } else { cx.rounding };
        let empty = self.get(0).is_none();
        let bytes = match format {
            MemoryFormat::Single => give(value.to_f32(&mut cx).to_le_bytes()),
            MemoryFormat::Double => give(value.to_f64(&mut cx).to_le_bytes()),
            MemoryFormat::Extended => value.to_bytes(),
            MemoryFormat::Int16 => give(value.to_i16(rounding, &mut cx).to_le_bytes()),
            MemoryFormat::Int32 => give(value.to_i32(rounding, &mut cx).to_le_bytes()),
            MemoryFormat::Int64 => give(value.to_i64(rounding, &mut cx).to_le_bytes()),
            MemoryFormat::Decimal => value.to_bcd(&mut cx),
        };
        if !empty {
            let deliver = self.finish(&cx);
            if !deliver || cx.unmasked() & (OE | UE) != 0 {
                return None;
            }
        }
        if pop {
            self.pop();
        }
        Some(bytes)
    }

    /// FST and FSTP to ST(i).
    pub fn store_register(&mut self, i: u8, pop: bool) {
        self.status &= !C1;
        let value = match self.get(0) {
            Some(value) => value,
            None if self.stack_fault(false) => F80::INDEFINITE,
            None => return,
        };
        self.set(i, value);
        if pop {
            self.pop();
        }
    }

    /// FXCH ST(i).
    pub fn exchange(&mut self, i: u8) {
        self.status &= !C1;
        let (a, b) = (self.get(0), self.get(i));
        if (a.is_none() || b.is_none()) && !self.stack_fault(false) {
            return;
        }
        self.set(0, b.unwrap_or(F80::INDEFINITE));
        self.set(i, a.unwrap_or(F80::INDEFINITE));
    }

    /// FCMOVcc ST(0), ST(i) with its condition decided. Empty registers fault either way.
    pub fn move_if(&mut self, i: u8, condition: bool) {
        let (Some(_), Some(value)) = (self.get(0), self.get(i)) else {
            if self.stack_fault(false) {
                self.set(0, F80::INDEFINITE);
            }
            return;
        };
        if condition {
            self.set(0, value);
        }
    }
}
