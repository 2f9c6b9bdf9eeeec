//! Random vector instructions and what they find in registers.

use crate::{
    case::{Operand, Vector},
    catalogue::{Element, Form, Row, What},
    encode::{Fault, encode, is_indexed},
    float::{DAZ, DUE, F32, F64, FZ, RC_SHIFT},
    machine::{CODE, CODE_PAGES},
    place::{address, settle_relative},
    random::Random,
    state::{Arena, PAGE, Registers},
};

/// Registers with random values.
pub(crate) fn registers(random: &mut Random) -> Registers {
    let mut vxcsr = DUE | (random.below(4) as u32) << RC_SHIFT;
    for bit in [DAZ, FZ] {
        if random.once_in(3) {
            vxcsr |= bit;
        }
    }
    // Sticky flags, and masks, which mean nothing as long as DUE is set.
    if random.once_in(4) {
        vxcsr |= random.next() as u32 & 0x1fbf;
    }
    if random.once_in(200) {
        vxcsr &= !DUE;
    }
    let mut r = Registers {
        zmm: std::array::from_fn(|_| [0; 64]),
        k: std::array::from_fn(|_| random.mask()),
        vxcsr,
        gpr: std::array::from_fn(|_| random.next()),
        bases: [0; 2],
        rflags: 2 | random.next() & 0x8d5,
        rip: CODE + random.below(CODE_PAGES * PAGE - 32),
        task_switched: random.once_in(100),
    };
    for base in &mut r.bases {
        *base = random.below(1 << 32);
    }
    r
}

/// A random use of an instruction. Changes `r` so that its operands are worth something and its address is
/// in the arena, and fills the memory there.
pub(crate) fn vector(row: &Row, r: &mut Registers, m: &mut Arena, random: &mut Random) -> Vector {
    let memory = !row.takes_register() || random.once_in(2);
    let mut c = fields(row, memory, random);
    fill_operands(&c, r, random);
    let mut fault = fault(&mut c, random);
    let short = !random.once_in(4);
    if memory {
        address(&mut c, r, m, random);
    }
    if fault == Fault::NoSib && c.base_needs_sib() {
        (fault, c.reserved) = (Fault::None, false);
    }
    c.bytes = encode(&c, fault, short);
    if memory && !is_indexed(row.form) {
        settle_relative(&mut c, r, fault, short);
    }
    c
}

/// The same with registers alone, as they are. Not all of these are valid.
pub(crate) fn of_registers(row: &Row, random: &mut Random) -> Vector {
    let mut c = fields(row, false, random);
    c.bytes = encode(&c, Fault::None, true);
    c
}

/// Random fields of an instruction, which has a register operand until it gets an address.
fn fields(row: &Row, memory: bool, random: &mut Random) -> Vector {
    let code = random.below(8) as u8;
    let mut sss = code;
    if memory && !random.once_in(16) {
        while row.memory >> sss & 1 == 0 {
            sss = random.below(8) as u8;
        }
    }
    let mut e = row.e.unwrap_or(random.once_in(3));
    if !memory && !random.once_in(16) {
        // Valid, mostly.
        e &= row.sae || random.once_in(4);
        sss = match (e, row.rounding, row.sae) {
            (false, ..) if row.swizzles == 1 => 0,
            (false, ..) | (true, true, _) => code,
            (true, _, true) => code & 4,
            (true, ..) => 0,
        };
        if random.once_in(4) {
            (e, sss) = (false, 0);
        }
    }
    let mut aaa = if random.once_in(3) { 0 } else { random.below(8) as u8 };
    if row.needs_mask() && !random.once_in(32) {
        aaa = 1 + random.below(7) as u8;
    }
    if row.form == Form::Line {
        aaa = random.below(8) as u8;
    }
    let small = random.once_in(2);
    let vector = |random: &mut Random| random.below(if small { 4 } else { 32 }) as u8;
    Vector {
        reg: if row.form == Form::ToMask { random.below(8) as u8 } else { vector(random) },
        v: if row.form == Form::Carry { random.below(8) as u8 } else { vector(random) },
        operand: Operand::Register(vector(random)),
        aaa,
        e,
        sss,
        immediate: immediate(row, random),
        bytes: Vec::new(),
        reserved: false,
        row: row.clone(),
    }
}

/// Fixed-point instructions use two fields and a bit, and leave the rest zero.
fn immediate(row: &Row, random: &mut Random) -> u8 {
    let any = random.next() as u8;
    match row.what {
        What::RoundFixed
        | What::SingleToInteger { .. }
        | What::DoubleToInteger { .. }
        | What::IntegerToSingle { .. } => any & if random.once_in(4) { 0x77 } else { 0x73 },
        What::ShiftImmediate(_) if random.once_in(2) => any & 31,
        What::Mantissa => any & 15,
        _ => any,
    }
}

/// Puts numbers of the right kind into the vectors that are operands.
fn fill_operands(c: &Vector, r: &mut Registers, random: &mut Random) {
    // What the masked lanes keep.
    r.zmm[usize::from(c.reg & 31)] = random.vector();
    let Operand::Register(last) = c.operand else { return };
    let first = if c.row.form == Form::Carry { c.reg } else { c.v };
    let integer = matches!(c.row.what, What::FixUp | What::Scale);
    let f = if c.row.element.size() == 4 { F32 } else { F64 };
    for (n, is_last) in [(c.reg, false), (first, false), (last, true)] {
        let element = match (c.row.element, integer && !is_last) {
            (Element::I32, true) => Element::F32,
            (Element::I64, true) => Element::F64,
            (element, _) => element,
        };
        r.zmm[usize::from(n)] = lanes(c, element, random);
    }
    // Related operands: sums that cancel, comparisons of equal numbers.
    if random.once_in(6) {
        let size = f.bits as usize / 8;
        for n in 0..64 / size {
            let value = r.lane(last, size, n);
            let value = match random.below(4) {
                0 => value ^ f.sign(),
                1 => value.wrapping_add(1),
                2 => value,
                _ => continue,
            };
            r.set_lane(first, size, n, value);
        }
    }
}

/// A vector of numbers.
fn lanes(c: &Vector, element: Element, random: &mut Random) -> [u8; 64] {
    let mut bytes = [0; 64];
    let size = element.size();
    for chunk in bytes.chunks_exact_mut(size) {
        let value = match element {
            Element::F32 => random.float(F32),
            Element::F64 => random.float(F64),
            Element::I64 => random.next(),
            Element::I32 if matches!(c.row.what, What::Exp2) => {
                random.integer() & random.next() << 8
            }
            Element::I32 => random.integer(),
        };
        chunk.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    bytes
}

/// Sometimes the encoding is a wrong one.
fn fault(c: &mut Vector, random: &mut Random) -> Fault {
    if !random.once_in(48) {
        return Fault::None;
    }
    let fault = match random.below(5) {
        0 => Fault::Prefix(random.pick(&[0x66, 0xf2, 0xf3, 0xf0, 0x40, 0x48])),
        1 if !c.row.uses_v() => {
            let bits = 1 + random.below(if is_indexed(c.row.form) { 15 } else { 31 }) as u8;
            Fault::UnusedV(bits)
        }
        2 => Fault::Evex,
        3 => Fault::Map(random.pick(&[0, 4, 5, 6, 7, 8, 15])),
        4 if is_indexed(c.row.form) => Fault::NoSib,
        // A register that does not exist.
        _ if c.row.form == Form::ToMask => {
            c.reg |= 8 << random.below(2);
            c.reserved = true;
            return Fault::None;
        }
        _ if c.row.form == Form::Carry => {
            c.v |= 8 << random.below(2);
            c.reserved = true;
            return Fault::None;
        }
        _ => return Fault::None,
    };
    c.reserved = true;
    fault
}
