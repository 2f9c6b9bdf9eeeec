//! The bytes of an MVEX instruction.

use crate::{
    case::{Address, Operand, Vector},
    catalogue::Form,
    transfer::memory_span,
};

/// How the encoding of an instruction departs from the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A prefix that may not be there.
    Prefix(u8),
    /// vvvv or V' is used though it is no operand.
    UnusedV(u8),
    /// Bit 2 of the third byte, which tells MVEX from EVEX.
    Evex,
    /// An opcode map that does not exist.
    Map(u8),
    /// A vector of indices without a SIB byte.
    NoSib,
}

/// The place of the instruction is needed for addresses relative to RIP, which the caller has made with its
/// length in mind.
pub(crate) fn encode(c: &Vector, fault: Fault, short: bool) -> Vec<u8> {
    let row = &c.row;
    let mut bytes = Vec::new();
    if let Operand::Memory(address) = &c.operand {
        if let Some(n) = address.segment {
            bytes.push([0x64, 0x65][n]);
        }
        if address.narrow {
            bytes.push(0x67);
        }
    }
    if let Fault::Prefix(prefix) = fault {
        bytes.push(prefix);
    }
    let reg = row.extension.unwrap_or(c.reg);
    let mut v = if row.uses_v() { c.v } else { 0 };
    if let Fault::UnusedV(bits) = fault {
        v = bits;
    }
    let (x, b) = match &c.operand {
        Operand::Register(n) => (n >> 4, n >> 3),
        Operand::Memory(address) => {
            let index = address.index.unwrap_or(0);
            if is_indexed(row.form) {
                v |= index & 0x10;
            }
            (index >> 3, address.base.unwrap_or(0) >> 3)
        }
    };
    let inverted = |bits: u8, at: u8| (!bits & 1) << at;
    let map = if let Fault::Map(map) = fault { map } else { row.map };
    let w = row.w.unwrap_or(c.v & 1);
    bytes.push(0x62);
    bytes.push(
        inverted(c.reg_bits() >> 3, 7)
            | inverted(x, 6)
            | inverted(b, 5)
            | inverted(c.reg_bits() >> 4, 4)
            | map,
    );
    bytes.push(w << 7 | (!v & 15) << 3 | u8::from(fault == Fault::Evex) << 2 | row.prefix);
    bytes.push(u8::from(c.e) << 7 | c.sss << 4 | inverted(v >> 4, 3) | c.aaa);
    bytes.push(row.opcode);
    match &c.operand {
        Operand::Register(n) => bytes.push(0xc0 | (reg & 7) << 3 | n & 7),
        Operand::Memory(address) => {
            let n = memory_span(row, c.sss) as i32;
            let sib = fault != Fault::NoSib;
            bytes.extend(modrm(address, reg & 7, n, short, sib));
        }
    }
    if row.immediate {
        bytes.push(c.immediate);
    }
    bytes
}

/// Whether the index of the address is a vector.
pub(crate) fn is_indexed(form: Form) -> bool {
    matches!(form, Form::Gather | Form::Scatter | Form::IndexedPrefetch)
}

/// ModRM, SIB and displacement; `n` is what disp8 is a multiple of, where a short one is asked for.
fn modrm(address: &Address, reg: u8, n: i32, short: bool, sib: bool) -> Vec<u8> {
    let disp32 = address.displacement.to_le_bytes();
    if address.relative {
        return [&[reg << 3 | 5][..], &disp32].concat();
    }
    let scale = address.scale.trailing_zeros() as u8;
    let needs_sib = address.index.is_some() || address.base.is_none_or(|n| n & 7 == 4);
    let mut bytes = Vec::new();
    let displacement = address.displacement;
    let disp8 = (displacement % n == 0).then(|| displacement / n);
    let disp8 = disp8.and_then(|d| i8::try_from(d).ok()).filter(|_| short);
    let mode = match (address.base, displacement, disp8) {
        (None, ..) => 0,
        (Some(base), 0, _) if base & 7 != 5 && short => 0,
        (_, _, Some(_)) => 1,
        _ => 2,
    };
    let base = address.base.unwrap_or(5) & 7;
    if needs_sib && sib {
        let index = address.index.unwrap_or(4) & 7;
        bytes.extend([mode << 6 | reg << 3 | 4, scale << 6 | index << 3 | base]);
    } else {
        bytes.push(mode << 6 | reg << 3 | base);
    }
    match (address.base, mode) {
        (None, _) | (_, 2) => bytes.extend(disp32),
        (_, 1) => bytes.extend(disp8.map(i8::to_le_bytes).unwrap_or_default()),
        _ => {}
    }
    bytes
}

impl Vector {
    /// Whether the base is one that a SIB byte alone can name.
    pub(crate) fn base_needs_sib(&self) -> bool {
        matches!(&self.operand, Operand::Memory(a) if a.base.is_none_or(|n| n & 7 == 4))
    }

    /// What R and R' extend: nothing where the register field belongs to the opcode.
    fn reg_bits(&self) -> u8 {
        if self.row.extension.is_some() { 0 } else { self.reg }
    }
}
