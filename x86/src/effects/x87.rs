//! The x87 unit.
//!
//! Entries of the stack are counted from the top before the instruction. An instruction that pops
//! empties ST(0): that is in the tags; one that pushes writes ST(7).

use super::{Access, Register, RegisterSet, describe::Description};
use crate::{
    insn::{Form, Size, gpr},
    operation::Operation as O,
};

/// The entries of the stack.
const ENTRIES: RegisterSet = RegisterSet::range(Register::X87(0), 8);

/// All but the entries: what FSTENV stores.
const ENVIRONMENT: RegisterSet = RegisterSet::one(Register::X87Control)
    .union(RegisterSet::one(Register::X87Status))
    .union(RegisterSet::one(Register::X87Top))
    .union(RegisterSet::one(Register::X87Tags))
    .union(RegisterSet::one(Register::X87Pointers));

/// All of the unit: what FSAVE and FXSAVE store.
pub(super) const STATE: RegisterSet = ENTRIES.union(ENVIRONMENT);

/// Where a push goes.
const PUSHED: Register = Register::X87(7);

/// Describes an instruction of this file; false if it is none.
pub(super) fn describe(d: &mut Description<'_>) -> bool {
    if !describe_control(d) {
        if !describe_data(d) {
            return false;
        }
        // The instruction and its operand are noted for an exception handler (SDM volume 1, "x87 FPU
        // Instruction and Data (Operand) Pointers").
        d.write(Register::X87Pointers);
    }
    true
}

/// Control instructions.
fn describe_control(d: &mut Description<'_>) -> bool {
    match d.insn.op {
        // Without effect since the 387.
        O::Fneni | O::Fndisi | O::Fnsetpm | O::Frstpm => {}
        O::Wait => {
            d.read(Register::X87Status);
            d.read(Register::X87Control);
        }
        O::Fldcw => {
            d.operand(Access::Read);
            d.write(Register::X87Control);
        }
        O::Fnstcw => {
            d.read(Register::X87Control);
            d.operand(Access::Write);
        }
        O::Fnstsw => {
            d.read(Register::X87Status);
            d.read(Register::X87Top);
            match d.insn.form {
                Form::Mem => d.operand(Access::Write),
                _ => d.write_general(gpr::RAX, Size::B2),
            }
        }
        O::Fnclex => d.write(Register::X87Status),
        O::Fninit => d.write_all(ENVIRONMENT),
        O::Fnstenv => {
            d.read_all(ENVIRONMENT);
            d.operand(Access::Write);
            // All exceptions are masked afterwards.
            d.write_part(Register::X87Control);
        }
        O::Fldenv => {
            d.operand(Access::Read);
            d.write_all(ENVIRONMENT);
        }
        O::Fnsave => {
            d.read_all(STATE);
            d.operand(Access::Write);
            d.write_all(ENVIRONMENT);
        }
        O::Frstor => {
            d.operand(Access::Read);
            d.write_all(STATE);
        }
        _ => return false,
    }
    true
}

/// Instructions on the stack and its entries.
fn describe_data(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    match insn.op {
        O::Fnop => return true,
        O::Fincstp | O::Fdecstp => {
            move_top(d, if insn.op == O::Fincstp { 1 } else { -1 });
            return true;
        }
        O::Ffree | O::Ffreep => {
            d.write(Register::X87Tags);
            if insn.op == O::Ffreep {
                pop(d, 1);
            }
            return true;
        }
        _ => {}
    }
    if !(describe_moves(d) || describe_arithmetic(d)) {
        return false;
    }
    // Masks decide what an exception leaves as a result, and its flag stays set.
    d.read(Register::X87Control);
    d.may_write(Register::X87Status);
    true
}

fn describe_moves(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    let top = Register::X87(0);
    let in_memory = insn.form == Form::Mem;
    match insn.op {
        O::Fld | O::Fild | O::Fbld => {
            source(d);
            push(d);
        }
        O::Fld1 | O::Fldl2e | O::Fldl2t | O::Fldlg2 | O::Fldln2 | O::Fldpi | O::Fldz => push(d),
        O::Fst | O::Fist | O::Fstp | O::Fistp | O::Fisttp | O::Fbstp | O::Fstpnce => {
            d.read(top);
            if in_memory {
                d.operand(Access::Write);
            } else {
                d.write(Register::X87(insn.dst));
            }
            if !matches!(insn.op, O::Fst | O::Fist) {
                pop(d, 1);
            }
        }
        O::Fxch => {
            d.read_write(top);
            d.read_write(Register::X87(insn.src));
        }
        O::Fcmovcc => {
            d.read(Register::X87(insn.src));
            d.may_write(top);
        }
        _ => return false,
    }
    true
}

fn describe_arithmetic(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    let (top, second) = (Register::X87(0), Register::X87(1));
    match insn.op {
        O::Fadd
        | O::Fsub
        | O::Fsubr
        | O::Fmul
        | O::Fdiv
        | O::Fdivr
        | O::Fiadd
        | O::Fisub
        | O::Fisubr
        | O::Fimul
        | O::Fidiv
        | O::Fidivr
        | O::Faddp
        | O::Fsubp
        | O::Fsubrp
        | O::Fmulp
        | O::Fdivp
        | O::Fdivrp => {
            source(d);
            d.read_write(Register::X87(insn.dst));
            if matches!(insn.op, O::Faddp | O::Fsubp | O::Fsubrp | O::Fmulp | O::Fdivp | O::Fdivrp)
            {
                pop(d, 1);
            }
        }
        O::Fcom | O::Ficom | O::Fucom | O::Fcomi | O::Fucomi => compare(d, 0),
        O::Fcomp | O::Ficomp | O::Fucomp | O::Fcomip | O::Fucomip => compare(d, 1),
        O::Fcompp | O::Fucompp => compare(d, 2),
        O::Ftst | O::Fxam => d.read(top),
        O::Fabs | O::Fchs | O::Fsqrt | O::Frndint | O::F2xm1 => d.read_write(top),
        // An operand out of range stays as it is (C2).
        O::Fsin | O::Fcos => {
            d.read(top);
            d.may_write(top);
        }
        O::Fsincos | O::Fptan => {
            d.read(top);
            d.may_write(top);
            d.may_write(PUSHED);
            d.may_write(Register::X87Tags);
            d.read(Register::X87Top);
            d.may_write(Register::X87Top);
            d.x87_pops(-1);
        }
        O::Fprem | O::Fprem1 | O::Fscale => {
            d.read_write(top);
            d.read(second);
        }
        O::Fpatan | O::Fyl2x | O::Fyl2xp1 => {
            d.read(top);
            d.read_write(second);
            pop(d, 1);
        }
        O::Fxtract => {
            d.read_write(top);
            push(d);
        }
        _ => return false,
    }
    true
}

/// The source: memory or an entry.
fn source(d: &mut Description<'_>) {
    if d.insn.form == Form::Mem {
        d.operand(Access::Read);
    } else {
        d.read(Register::X87(d.insn.src));
    }
}

fn compare(d: &mut Description<'_>, pops: i8) {
    d.read(Register::X87(0));
    source(d);
    if pops > 0 {
        pop(d, pops);
    }
}

fn move_top(d: &mut Description<'_>, pops: i8) {
    d.read_write(Register::X87Top);
    d.x87_pops(pops);
}

fn pop(d: &mut Description<'_>, pops: i8) {
    d.write(Register::X87Tags);
    move_top(d, pops);
}

fn push(d: &mut Description<'_>) {
    d.write(PUSHED);
    d.write(Register::X87Tags);
    move_top(d, -1);
}
