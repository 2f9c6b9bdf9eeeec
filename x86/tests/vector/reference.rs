//! The vector instructions by their definition, lane by lane.

use crate::{
    approximation,
    arithmetic::{self, add, fused, multiply},
    case::{Address, End, Expected, Operand, Vector},
    catalogue::{Element, Form, What},
    exact::Mode,
    float::{DE, DUE, Environment, F32, F64, OE, PE, UE},
    indexed,
    state::{Arena, Fault, GP0, NM, Registers, SS0, UD},
    stream,
    transfer::{self, format, memory_count, memory_size, memory_span, swizzled},
};

/// Executes an instruction that ends at `next`.
pub(crate) fn execute(c: &Vector, r: &mut Registers, m: &mut Arena, next: u64) -> Expected {
    if !c.is_valid() {
        return Expected::new(End::Faults(UD));
    }
    if r.task_switched {
        return Expected::new(End::Faults(NM));
    }
    if r.vxcsr & DUE == 0 {
        return Expected::new(End::Faults(GP0));
    }
    let mut expected = Expected::new(End::Retires);
    let mut e = environment(c, r.vxcsr);
    let result = match c.row.form {
        Form::Line => Ok(()),
        Form::IndexedPrefetch => indexed::prefetch(c, r, next),
        Form::Gather => indexed::gather(c, &mut e, r, m, next),
        Form::Scatter => indexed::scatter(c, &mut e, r, m, next),
        Form::Load if matches!(c.row.what, What::Unpack { .. }) => {
            stream::unpack(c, &mut e, r, m, next)
        }
        Form::Store if matches!(c.row.what, What::Pack { .. }) => {
            stream::pack(c, &mut e, r, m, next)
        }
        Form::Store => store(c, &mut e, r, m, next),
        _ => compute(c, &mut e, r, m, next, &mut expected),
    };
    if let Err(end) = result {
        expected.end = end;
    }
    let suppressed = matches!(c.operand, Operand::Register(_)) && c.e && c.sss & 4 != 0;
    if !suppressed {
        r.vxcsr |= e.flags;
        expected.vxcsr = !e.open;
    }
    expected
}

/// The rounding mode is that of the immediate where it has one, of the encoding, or of VXCSR.
fn environment(c: &Vector, vxcsr: u32) -> Environment {
    let mut e = Environment::new(vxcsr);
    let has_code = c.row.rounding && c.row.immediate;
    if has_code && c.immediate & 4 == 0 {
        e.mode = Mode::from_code(u32::from(c.immediate));
    } else if !has_code && matches!(c.operand, Operand::Register(_)) && c.e && c.row.rounding {
        e.mode = Mode::from_code(u32::from(c.sss));
    }
    e
}

/// Whether bits 63:47 are alike.
pub(crate) fn is_canonical(address: u64) -> bool {
    matches!(address >> 47, 0 | 0x1_ffff)
}

/// The fault of an address that is not canonical.
pub(crate) fn not_canonical(address: &Address) -> Fault {
    if address.is_stack() { SS0 } else { GP0 }
}

/// The address of an operand of one piece, aligned to its size. `None` if nothing is accessed there.
fn place(
    c: &Vector,
    r: &Registers,
    next: u64,
    write: bool,
    touched: bool,
) -> Result<Option<u64>, End> {
    let Operand::Memory(address) = &c.operand else { return Ok(None) };
    let index = address.index.map_or(0, |n| r.gpr[usize::from(n)]);
    let linear = address.linear(r, next, index);
    if !is_canonical(linear) {
        return Err(if touched { End::Faults(not_canonical(address)) } else { End::Open });
    }
    if linear % memory_span(&c.row, c.sss) as u64 != 0 {
        return Err(End::Faults(GP0));
    }
    if !touched {
        return Ok(None);
    }
    Arena::probe(linear, write).map_err(End::Faults)?;
    Ok(Some(linear))
}

fn store(
    c: &Vector,
    e: &mut Environment,
    r: &Registers,
    m: &mut Arena,
    next: u64,
) -> Result<(), End> {
    let active = c.active(r);
    let Some(at) = place(c, r, next, true, active != 0)? else { return Ok(()) };
    let size = memory_size(c.row.element, c.sss);
    for n in (0..c.row.lanes()).filter(|n| active >> n & 1 != 0) {
        let lane = r.lane(c.reg, c.row.element.size(), n);
        let value = transfer::down(e, c.row.element, c.sss, lane);
        m.write(at + (n * size) as u64, size, value);
    }
    Ok(())
}

/// The last operand before conversions.
struct Last {
    raw: [u64; 16],
    element: Element,
    /// The conversion.
    sss: u8,
}

impl Last {
    /// Fetches the operand; what is not accessed reads as zero.
    fn fetch(c: &Vector, r: &Registers, m: &Arena, next: u64, touched: bool) -> Result<Self, End> {
        let (element, size) = (c.row.element, c.row.element.size());
        let mut last = Self { raw: [0; 16], element, sss: 0 };
        match &c.operand {
            Operand::Register(n) => {
                let sss = if c.e { 0 } else { c.sss };
                for i in 0..64 / size {
                    last.raw[i] = r.lane(*n, size, swizzled(sss, i));
                }
            }
            Operand::Memory(_) => {
                last.sss = c.sss;
                let size = memory_size(element, c.sss);
                if let Some(at) = place(c, r, next, false, touched)? {
                    for i in 0..16 {
                        let element = i % memory_count(&c.row, c.sss);
                        last.raw[i] = m.read(at + (element * size) as u64, size);
                    }
                }
            }
        }
        Ok(last)
    }

    fn lane(&self, e: &mut Environment, n: usize) -> u64 {
        transfer::up(e, self.element, self.sss, self.raw[n])
    }
}

/// Everything that reads its last operand as a whole and writes a register.
fn compute(
    c: &Vector,
    e: &mut Environment,
    r: &mut Registers,
    m: &Arena,
    next: u64,
    expected: &mut Expected,
) -> Result<(), End> {
    let active = c.active(r);
    let last = Last::fetch(c, r, m, next, active != 0)?;
    let lanes = (0..c.row.lanes()).filter(|n| active >> n & 1 != 0);
    let before = r.clone();
    match c.row.what {
        What::FloatCompare | What::IntegerTest(_) | What::IntegerCompare { .. } => {
            let mut mask = 0;
            for n in lanes {
                let a = before.lane(c.v, c.row.element.size(), n);
                let b = last.lane(e, n);
                mask |= u16::from(test(c, e, a, b)) << n;
            }
            r.k[usize::from(c.reg)] = mask;
        }
        What::Carry(f) => {
            for n in lanes {
                let carry = before.k[usize::from(c.v)] >> n & 1 != 0;
                let b = last.lane(e, n) as u32;
                let (result, carry) = f(before.lane(c.reg, 4, n) as u32, b, carry);
                r.set_lane(c.reg, 4, n, u64::from(result));
                let k = &mut r.k[usize::from(c.v)];
                *k = *k & !(1 << n) | u16::from(carry) << n;
            }
        }
        What::AddSetSign | What::IntegerAddSetSign => {
            let mut signs = 0;
            for n in lanes {
                let (a, b) = (before.lane(c.v, 4, n), last.lane(e, n));
                let sum = match c.row.what {
                    What::AddSetSign => add(e, F32, a, b, false),
                    _ => a.wrapping_add(b) & 0xffff_ffff,
                };
                signs |= u16::from(sum >> 31 != 0) << n;
                r.set_lane(c.reg, 4, n, sum);
            }
            r.k[usize::from(c.aaa)] = signs;
        }
        What::Blend => {
            for n in 0..c.row.lanes() {
                let size = c.row.element.size();
                let second = before.lane(c.v, size, n);
                let value = if active >> n & 1 != 0 { last.lane(e, n) } else { second };
                r.set_lane(c.reg, size, n, value);
            }
        }
        What::Exp2 | What::Log2 | What::Reciprocal | What::ReciprocalRoot => {
            e.open |= DE | OE | UE | PE;
            for n in lanes {
                let b = last.lane(e, n);
                let (value, bound) = approximation::lane(e, c.row.what, b as u32);
                r.set_lane(c.reg, 4, n, u64::from(value));
                expected.bounds[n] = bound;
            }
        }
        What::Narrow | What::DoubleToInteger { .. } => {
            for n in lanes {
                let b = last.lane(e, n);
                let value = convert(c, e, b);
                r.set_lane(c.reg, 4, n, value);
            }
            r.zmm[usize::from(c.reg)][32..].fill(0);
        }
        _ => {
            let destination = if c.row.form == Form::Shift { c.v } else { c.reg };
            let double = matches!(c.row.what, What::Widen | What::IntegerToDouble { .. });
            let size = if double { 8 } else { c.row.element.size() };
            for n in lanes {
                let value = lane(c, e, &before, &last, n);
                r.set_lane(destination, size, n, value);
            }
        }
    }
    Ok(())
}

fn test(c: &Vector, e: &mut Environment, a: u64, b: u64) -> bool {
    let (ia, ib) = match c.row.what {
        What::IntegerCompare { signed: true } => (i64::from(a as i32), i64::from(b as i32)),
        _ => (a as i64, b as i64),
    };
    match c.row.what {
        What::FloatCompare => {
            arithmetic::compare(e, format(c.row.element.size()), a, b, c.immediate & 7)
        }
        What::IntegerTest(f) => f(a as u32, b as u32),
        _ => match c.immediate & 7 {
            0 => ia == ib,
            1 => ia < ib,
            2 => ia <= ib,
            3 => false,
            4 => ia != ib,
            5 => ia >= ib,
            6 => ia > ib,
            _ => true,
        },
    }
}

/// Powers of two of the fixed-point instructions.
const ADJUSTMENTS: [i32; 8] = [0, 4, 5, 8, 16, 24, 31, 32];

/// The range of a 32-bit integer.
fn range(signed: bool) -> [i64; 2] {
    if signed { [i64::from(i32::MIN), i64::from(i32::MAX)] } else { [0, i64::from(u32::MAX)] }
}

/// Conversions, each of one lane.
fn convert(c: &Vector, e: &mut Environment, b: u64) -> u64 {
    let adjust = ADJUSTMENTS[usize::from(c.immediate >> 4 & 7)];
    let integer = |signed: bool| if signed { i64::from(b as i32) } else { i64::from(b as u32) };
    match c.row.what {
        What::Widen => arithmetic::widen(e, b),
        What::Narrow => arithmetic::narrow(e, b),
        What::IntegerToDouble { signed } => arithmetic::integer(e, F64, integer(signed), 0),
        What::IntegerToSingle { signed } => arithmetic::integer(e, F32, integer(signed), adjust),
        What::SingleToInteger { signed } => {
            arithmetic::to_integer(e, F32, b, adjust, range(signed)) as u64 & 0xffff_ffff
        }
        What::DoubleToInteger { signed } => {
            arithmetic::to_integer(e, F64, b, adjust, range(signed)) as u64 & 0xffff_ffff
        }
        _ => arithmetic::to_fixed(e, format(c.row.element.size()), b, adjust),
    }
}

/// One lane of what has no special destination.
fn lane(c: &Vector, e: &mut Environment, r: &Registers, last: &Last, n: usize) -> u64 {
    let size = c.row.element.size();
    let f = format(size);
    let imm = usize::from(c.immediate);
    let d = r.lane(c.reg, size, n);
    let a = r.lane(c.v, size, n);
    match c.row.what {
        What::ShuffleQuads => return last.raw[n / 4 * 4 + (imm >> (2 * (n % 4)) & 3)],
        What::PermuteQuads => return last.raw[(imm >> (2 * (n / 4)) & 3) * 4 + n % 4],
        What::Permute => return last.raw[(a & 15) as usize],
        What::Align => {
            let from = n + (imm & 15);
            return if from < 16 { last.raw[from] } else { r.lane(c.v, 4, from - 16) };
        }
        What::Fused233 => {
            let (factor, addend) = (last.lane(e, n / 4 * 4 + 1), last.lane(e, n / 4 * 4));
            let signs = arithmetic::Signs { product: false, addend: false };
            return fused(e, F32, signs, a, factor, addend);
        }
        What::MultiplyAdd233 => {
            let (factor, addend) = (last.lane(e, n / 4 * 4 + 1), last.lane(e, n / 4 * 4));
            return a.wrapping_mul(factor).wrapping_add(addend) & 0xffff_ffff;
        }
        _ => {}
    }
    let b = last.lane(e, n);
    match c.row.what {
        What::Add => add(e, f, a, b, false),
        What::AddNegated => arithmetic::add_negated(e, f, a, b),
        What::Subtract => add(e, f, a, b, true),
        What::SubtractReversed => arithmetic::subtract_reversed(e, f, a, b),
        What::Multiply => multiply(e, f, a, b),
        What::Fused(order, signs) => {
            let operands = [d, a, b];
            let digit = |n: u32| operands[(order / n % 10 - 1) as usize];
            fused(e, f, signs, digit(100), digit(10), digit(1))
        }
        What::Extreme(which) => arithmetic::extreme(e, f, a, b, which),
        What::Exponent => arithmetic::get_exponent(e, f, b),
        What::Mantissa => arithmetic::get_mantissa(e, f, b, c.immediate),
        What::FixUp => arithmetic::fix_up(e, f, d, a, b),
        What::Scale => arithmetic::scale(e, f, a, b as i32),
        What::Integer(f) => u64::from(f(d as u32, a as u32, b as u32)),
        What::Logic(f) => f(a, b),
        What::ShiftImmediate(f) => u64::from(f(b as u32, u32::from(c.immediate))),
        What::Move => b,
        _ => convert(c, e, b),
    }
}
