//! Which handler executes which x87 instruction.

use super::exec;
use crate::{
    insn::{Form, Handler, Insn},
    observe::Observer,
    operation::Operation,
};

/// The handler of a lowered x87 instruction or FWAIT.
pub(crate) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    arithmetic(insn).or_else(|| transfer(insn)).or_else(|| control(insn))
}

/// Arithmetic, comparisons and the operations without operands.
fn arithmetic<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let in_memory = insn.form == Form::Mem;
    Some(match insn.op {
        Operation::Fadd
        | Operation::Fmul
        | Operation::Fsub
        | Operation::Fsubr
        | Operation::Fdiv
        | Operation::Fdivr
            if !in_memory =>
        {
            exec::arith
        }
        Operation::Fadd
        | Operation::Fiadd
        | Operation::Fmul
        | Operation::Fimul
        | Operation::Fsub
        | Operation::Fisub
        | Operation::Fsubr
        | Operation::Fisubr
        | Operation::Fdiv
        | Operation::Fidiv
        | Operation::Fdivr
        | Operation::Fidivr => exec::arith_memory,
        Operation::Faddp
        | Operation::Fmulp
        | Operation::Fsubp
        | Operation::Fsubrp
        | Operation::Fdivp
        | Operation::Fdivrp => exec::arith,
        Operation::Fcom | Operation::Fcomp if in_memory => exec::compare_memory,
        Operation::Ficom | Operation::Ficomp => exec::compare_memory,
        Operation::Fcom
        | Operation::Fcomp
        | Operation::Fcompp
        | Operation::Fucom
        | Operation::Fucomp
        | Operation::Fucompp => exec::compare,
        Operation::Fcomi | Operation::Fcomip | Operation::Fucomi | Operation::Fucomip => {
            exec::compare_flags
        }
        Operation::Ftst => exec::ftst,
        Operation::Fxam => exec::fxam,
        Operation::Fxtract => exec::fxtract,
        Operation::Fscale => exec::fscale,
        Operation::Fprem => exec::fprem,
        Operation::Fprem1 => exec::fprem1,
        Operation::Fincstp => exec::fincstp,
        Operation::Fdecstp => exec::fdecstp,
        Operation::Fnop => exec::fnop,
        Operation::Fsqrt | Operation::Frndint | Operation::Fabs | Operation::Fchs => exec::unary,
        Operation::F2xm1
        | Operation::Fyl2x
        | Operation::Fyl2xp1
        | Operation::Fptan
        | Operation::Fpatan
        | Operation::Fsin
        | Operation::Fcos
        | Operation::Fsincos => exec::transcendental,
        _ => return None,
    })
}

/// Loads, stores, constants and moves.
fn transfer<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let in_memory = insn.form == Form::Mem;
    Some(match insn.op {
        Operation::Fld if in_memory => exec::load_memory,
        Operation::Fld => exec::load,
        Operation::Fild | Operation::Fbld => exec::load_memory,
        Operation::Fst | Operation::Fstp if in_memory => exec::store_memory,
        Operation::Fst | Operation::Fstp | Operation::Fstpnce => exec::store,
        Operation::Fist | Operation::Fistp | Operation::Fisttp | Operation::Fbstp => {
            exec::store_memory
        }
        Operation::Fxch => exec::fxch,
        Operation::Ffree => exec::ffree,
        Operation::Ffreep => exec::ffreep,
        Operation::Fld1
        | Operation::Fldl2t
        | Operation::Fldl2e
        | Operation::Fldpi
        | Operation::Fldlg2
        | Operation::Fldln2
        | Operation::Fldz => exec::constant,
        Operation::Fcmovcc => exec::fcmov,
        _ => return None,
    })
}

/// The control instructions.
fn control<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Fldcw => exec::fldcw,
        Operation::Fnstcw => exec::fnstcw,
        Operation::Fnstsw if insn.form == Form::Mem => exec::fnstsw,
        Operation::Fnstsw => exec::fnstsw_ax,
        Operation::Fnclex => exec::fnclex,
        Operation::Fninit => exec::fninit,
        Operation::Fnstenv => exec::fnstenv,
        Operation::Fldenv => exec::fldenv,
        Operation::Fnsave => exec::fnsave,
        Operation::Frstor => exec::frstor,
        // FENI, FDISI, FSETPM, FRSTPM: what they did is gone since the 387.
        Operation::Fneni | Operation::Fndisi | Operation::Fnsetpm | Operation::Frstpm => {
            exec::ignored
        }
        Operation::Wait => exec::fwait,
        _ => return None,
    })
}
