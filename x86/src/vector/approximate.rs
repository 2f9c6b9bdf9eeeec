//! Reciprocal, reciprocal square root, power of two and binary logarithm: VRCP23PS, VRSQRT23PS, VEXP223PS,
//! VLOG2PS.
//!
//! What the hardware's tables give is not published beyond the bounds of the error: 0.912, 0.775 and 0.99
//! units in the last place, and 2^-23. Here each is computed in more than single precision and rounded to
//! nearest, which is inside all of these bounds, and exact where the result is; the last bit may differ from
//! a card's.
//!
//! Denormal operands are taken for zero and tiny results are made zero, whatever VXCSR says, and only invalid
//! operation and division by zero are flagged.

use super::{
    element::Lanes,
    float::{Format, Single, flag, modes},
    mvex::Mvex,
    operand::Compute,
    state::{Zmm, write},
};
use crate::{
    cpu::Cpu,
    insn::Insn,
    operation::Operation as O,
    softfloat::{
        Context, F80, IE, ZE, f32_div, f32_to_f64, f64_div, f64_sqrt, f64_to_f32, i64_to_f64,
    },
};

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 0x7f80_0000;
const QUIET: u32 = 1 << 22;
const INDEFINITE: u32 = 0xffc0_0000;
const ONE: u32 = 0x3f80_0000;
const DOUBLE_ONE: u64 = 0x3ff0_0000_0000_0000;

/// The four approximations.
pub(super) struct Approximate;

impl Compute for Approximate {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let mut cx = modes(cpu, mvex);
        let operation: fn(u32, &mut Context) -> u32 = match insn.op {
            O::Vrcp23ps => reciprocal,
            O::Vrsqrt23ps => reciprocal_root,
            O::Vexp223ps => |a, _| power_of_two(a as i32),
            _ => logarithm,
        };
        let result = Single::map(active, |n| operation(b[n], &mut cx).into());
        flag(cpu, mvex, &cx);
        write(cpu, insn.dst, Lanes::Sixteen, active, &result);
    }
}

/// The modes that these compute in.
fn exact() -> Context {
    Context { ftz: true, ..Context::default() }
}

/// The operand with zero in place of a denormal number; or the result of a NaN.
fn admitted(a: u32, cx: &mut Context) -> Result<u32, u32> {
    let magnitude = a & !SIGN;
    if magnitude > INFINITY {
        cx.flags |= if a & QUIET == 0 { IE } else { 0 };
        return Err(a | QUIET);
    }
    Ok(if magnitude < 1 << 23 { a & SIGN } else { a })
}

/// Flags division by zero: of zero, and not of a denormal number that is taken for it.
fn flag_zero(a: u32, cx: &mut Context) {
    cx.flags |= if a & !SIGN == 0 { ZE } else { 0 };
}

fn reciprocal(a: u32, cx: &mut Context) -> u32 {
    let b = match admitted(a, cx) {
        Ok(b) => b,
        Err(nan) => return nan,
    };
    match b & !SIGN {
        0 => {
            flag_zero(a, cx);
            b | INFINITY
        }
        INFINITY => b & SIGN,
        _ => f32_div(ONE, b, &mut exact()),
    }
}

fn reciprocal_root(a: u32, cx: &mut Context) -> u32 {
    let b = match admitted(a, cx) {
        Ok(b) => b,
        Err(nan) => return nan,
    };
    if b & !SIGN == 0 {
        flag_zero(a, cx);
        return b | INFINITY;
    }
    if b & SIGN != 0 {
        cx.flags |= IE;
        return INDEFINITE;
    }
    if b == INFINITY {
        return 0;
    }
    let exact = &mut exact();
    let root = f64_sqrt(f32_to_f64(b, exact), exact);
    f64_to_f32(f64_div(DOUBLE_ONE, root, exact), exact)
}

/// 2 to the power of a fixed-point number with 24 fraction bits. The ends of its range stand for infinities.
fn power_of_two(a: i32) -> u32 {
    match a {
        i32::MAX => return INFINITY,
        i32::MIN => return 0,
        _ => {}
    }
    let exact = &mut exact();
    // In the range of F2XM1, exact as a double.
    let fraction = i64_to_f64(i64::from(a & 0x00ff_ffff), exact);
    let scaled = if fraction == 0 { 0 } else { fraction - (24 << 52) };
    let power = F80::from_f64(scaled, exact).exp2_minus_1(exact);
    let power = power.add(F80::ONE, exact).to_f64(exact);
    // From 1 to 2, and the exponent of a double holds all that comes of it.
    let exponent = i64::from(a >> 24);
    f64_to_f32(power.wrapping_add_signed(exponent << 52), exact)
}

fn logarithm(a: u32, cx: &mut Context) -> u32 {
    let b = match admitted(a, cx) {
        Ok(b) => b,
        Err(nan) => return nan,
    };
    if b & !SIGN == 0 {
        flag_zero(a, cx);
        return SIGN | INFINITY;
    }
    if b & SIGN != 0 {
        cx.flags |= IE;
        return INDEFINITE;
    }
    match b {
        INFINITY | ONE => return if b == ONE { 0 } else { INFINITY },
        _ => {}
    }
    let exact = &mut exact();
    F80::from_f32(b, exact).y_log2_x(F80::ONE, exact).to_f32(exact)
}
