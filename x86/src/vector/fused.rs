//! Multiplication and addition with one rounding.
//!
//! The three digits of a mnemonic say which operands are multiplied and which is added, counted from the
//! destination: 132 is d * b + a, 213 a * d + b, 231 a * b + d. Of several NaNs the first in this order is
//! the result. A negated product is -(x * y), whose NaN has the sign that it had.

use super::{
    element::Lanes,
    float::{Double, Format, Single, flag, modes, nan_of},
    mvex::Mvex,
    operand::Compute,
    state::{Zmm, write},
};
use crate::{
    cpu::Cpu,
    insn::Insn,
    operation::Operation as O,
    softfloat::{Context, f32_mul_add, f64_mul_add},
};

impl O {
    /// Whether it multiplies and adds with one rounding.
    pub(crate) const fn is_fused(self) -> bool {
        order_and_signs(self).is_some()
    }
}

/// Which operands are x, y and z of `x * y + z`.
#[derive(Clone, Copy)]
enum Order {
    /// The destination, the last operand; the second is added.
    O132,
    /// The second, the destination; the last is added.
    O213,
    /// The second, the last; the destination is added.
    O231,
    /// The second, and of each group of four of the last operand the second element; the first is added.
    O233,
}

/// The order of operands, whether the product is negated, and whether the addend is.
const fn order_and_signs(op: O) -> Option<(Order, bool, bool)> {
    use Order::{O132, O213, O231, O233};
    Some(match op {
        O::Vfmadd132ps | O::Vfmadd132pd => (O132, false, false),
        O::Vfmadd213ps | O::Vfmadd213pd => (O213, false, false),
        O::Vfmadd231ps | O::Vfmadd231pd => (O231, false, false),
        O::Vfmadd233ps => (O233, false, false),
        O::Vfmsub132ps | O::Vfmsub132pd => (O132, false, true),
        O::Vfmsub213ps | O::Vfmsub213pd => (O213, false, true),
        O::Vfmsub231ps | O::Vfmsub231pd => (O231, false, true),
        O::Vfnmadd132ps | O::Vfnmadd132pd => (O132, true, false),
        O::Vfnmadd213ps | O::Vfnmadd213pd => (O213, true, false),
        O::Vfnmadd231ps | O::Vfnmadd231pd => (O231, true, false),
        O::Vfnmsub132ps | O::Vfnmsub132pd => (O132, true, true),
        O::Vfnmsub213ps | O::Vfnmsub213pd => (O213, true, true),
        O::Vfnmsub231ps | O::Vfnmsub231pd => (O231, true, true),
        _ => return None,
    })
}

/// VFMADD, VFMSUB, VFNMADD and VFNMSUB.
pub(super) struct Fused;

impl Compute for Fused {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        match insn.op.lanes() {
            Lanes::Sixteen => {
                let fused = |[x, y, z]: [u64; 3], cx: &mut Context| {
                    u64::from(f32_mul_add(x as u32, y as u32, z as u32, cx))
                };
                compute::<Single>(cpu, insn, active, b, fused);
            }
            Lanes::Eight => {
                let fused = |[x, y, z]: [u64; 3], cx: &mut Context| f64_mul_add(x, y, z, cx);
                compute::<Double>(cpu, insn, active, b, fused);
            }
        }
    }
}

fn compute<F: Format>(
    cpu: &mut Cpu,
    insn: &Insn,
    active: u16,
    b: &Zmm,
    fused: impl Fn([u64; 3], &mut Context) -> u64,
) {
    let mvex = Mvex::of(insn);
    let Some((order, negates_product, negates_addend)) = order_and_signs(insn.op) else { return };
    let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
    let d = cpu.vector.zmm[usize::from(insn.dst)];
    let mut cx = modes(cpu, mvex);
    let result = F::map(active, |n| {
        let [a, d] = [&a, &d].map(|value| F::get(value, n));
        let of_group = |at| F::get(b, n & !3 | at);
        let [x, y, z] = match order {
            Order::O132 => [d, F::get(b, n), a],
            Order::O213 => [a, d, F::get(b, n)],
            Order::O231 => [a, F::get(b, n), d],
            Order::O233 => [a, of_group(1), of_group(0)],
        };
        if let Some(nan) = nan_of::<F, 3>([x, y, z], &mut cx) {
            return nan;
        }
        let sign = |negates| if negates { F::SIGN } else { 0 };
        fused([x ^ sign(negates_product), y, z ^ sign(negates_addend)], &mut cx)
    });
    flag(cpu, mvex, &cx);
    write(cpu, insn.dst, F::LANES, active, &result);
}
