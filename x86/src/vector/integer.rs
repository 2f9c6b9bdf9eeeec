//! 32-bit integer arithmetic, logic and shifts.

use super::{
    float::set_signs,
    mvex::Mvex,
    operand::Compute,
    state::{Zmm, write},
};
use crate::{cpu::Cpu, insn::Insn, operation::Operation as O};

/// Arithmetic, logic and shifts by element. Logic on quadwords differs in what a mask bit stands for.
pub(super) struct Integer;

impl Compute for Integer {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let mvex = Mvex::of(insn);
        let a = cpu.vector.zmm[usize::from(mvex.vvvv())];
        let operation: fn(u32, u32) -> u32 = match insn.op {
            O::Vpaddd | O::Vpaddsetsd => u32::wrapping_add,
            O::Vpsubd => u32::wrapping_sub,
            O::Vpsubrd => |a, b| b.wrapping_sub(a),
            O::Vpmulld => u32::wrapping_mul,
            O::Vpmulhd => |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
            O::Vpmulhud => |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32,
            O::Vpminsd => |a, b| (a as i32).min(b as i32) as u32,
            O::Vpminud => u32::min,
            O::Vpmaxsd => |a, b| (a as i32).max(b as i32) as u32,
            O::Vpmaxud => u32::max,
            O::Vpandd | O::Vpandq => |a, b| a & b,
            O::Vpandnd | O::Vpandnq => |a, b| !a & b,
            O::Vpord | O::Vporq => |a, b| a | b,
            O::Vpxord | O::Vpxorq => |a, b| a ^ b,
            O::Vpsllvd => left,
            O::Vpsrlvd => right,
            _ => right_signed,
        };
        let result = std::array::from_fn(|n| operation(a[n], b[n]));
        write(cpu, insn.dst, insn.op.lanes(), active, &result);
        if insn.op == O::Vpaddsetsd {
            set_signs(cpu, mvex.mask(), active, &result);
        }
    }
}

/// VPSLLD, VPSRLD and VPSRAD by an immediate.
pub(super) struct ShiftImmediate;

impl Compute for ShiftImmediate {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let count = u32::from(Mvex::of(insn).immediate());
        let shift: fn(u32, u32) -> u32 = match insn.op {
            O::Vpslld => left,
            O::Vpsrld => right,
            _ => right_signed,
        };
        let result = b.map(|element| shift(element, count));
        write(cpu, insn.dst, insn.op.lanes(), active, &result);
    }
}

fn left(value: u32, count: u32) -> u32 {
    value.checked_shl(count).unwrap_or(0)
}

fn right(value: u32, count: u32) -> u32 {
    value.checked_shr(count).unwrap_or(0)
}

fn right_signed(value: u32, count: u32) -> u32 {
    (value as i32 >> count.min(31)) as u32
}

/// VPMADD231D, and VPMADD233D, which multiplies by the second element of each group of four and adds the
/// first: the low 32 bits.
pub(super) struct MultiplyAdd;

impl Compute for MultiplyAdd {
    fn compute(cpu: &mut Cpu, insn: &Insn, active: u16, b: &Zmm) {
        let a = cpu.vector.zmm[usize::from(Mvex::of(insn).vvvv())];
        let d = cpu.vector.zmm[usize::from(insn.dst)];
        let result = std::array::from_fn(|n| match insn.op {
            O::Vpmadd231d => a[n].wrapping_mul(b[n]).wrapping_add(d[n]),
            _ => a[n].wrapping_mul(b[n & !3 | 1]).wrapping_add(b[n & !3]),
        });
        write(cpu, insn.dst, insn.op.lanes(), active, &result);
    }
}
