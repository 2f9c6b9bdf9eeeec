//! Which instructions of a block work out flags in vain: another one behind them replaces all six before anything
//! can read them, and nothing in between can end the block. They get handlers that leave the flags alone.
//!
//! Only arithmetic on registers is looked at, which neither faults nor ends a run. What accesses memory may do both,
//! behind which everybody can read the flags, and so may whatever is not listed here; and what follows the block is
//! not known. What replaces flags is told by the handlers, and not by [`crate::effects`]: flags that the manuals leave
//! undefined may stay as they were. A block of which only a part is executed is executed with flags
//! ([`crate::insn::Op::run_exactly`]).

use crate::{
    insn::{File, Form, Insn},
    operation::Operation,
};

/// In [`Insn::aux`] of an instruction of [`may_be`]: its flags are not read.
pub(crate) const UNREAD: u8 = 1;

/// What an instruction means to the flags before it.
enum Effect {
    /// It replaces all of them.
    Replaces,
    /// It replaces some of them, whatever the others are.
    Changes,
    /// Neither that nor more.
    None,
    /// It may read them, or others may behind it.
    Shows,
}

/// Marks those of a block.
pub(super) fn mark(insns: &mut [Insn]) {
    let mut replaced = false;
    for insn in insns.iter_mut().rev() {
        let effect = effect(insn);
        if replaced && may_be(insn) {
            insn.aux = UNREAD;
        }
        replaced = match effect {
            Effect::Replaces => true,
            // The rest of the flags goes through it.
            Effect::Changes | Effect::None => replaced,
            Effect::Shows => false,
        };
    }
}

/// Whether it is an instruction that is marked where it works out flags in vain.
#[inline(always)]
pub(crate) fn may_be(insn: &Insn) -> bool {
    use Operation as O;
    match insn.op {
        O::Add | O::Or | O::And | O::Sub | O::Xor | O::Cmp | O::Test => {
            matches!(insn.form, Form::RegReg | Form::RegImm)
        }
        O::Inc | O::Dec | O::Neg => insn.form == Form::Reg,
        O::Shl | O::Shr | O::Sar => insn.form == Form::RegImm,
        _ => false,
    }
}

fn effect(insn: &Insn) -> Effect {
    use Operation as O;
    if insn.form.has_memory() && insn.op != O::Lea {
        return Effect::Shows;
    }
    match insn.op {
        // CF stays.
        O::Inc | O::Dec => Effect::Changes,
        // A count of zero leaves all flags as they are.
        O::Shl | O::Shr | O::Sar if may_be(insn) && insn.imm == 0 => Effect::None,
        _ if may_be(insn) => Effect::Replaces,
        O::Mul | O::Imul => Effect::Replaces,
        O::Mov if is_general(insn) => Effect::None,
        O::Movzx | O::Movsx | O::Movsxd | O::Lea | O::Not | O::Bswap => Effect::None,
        O::Cbw | O::Cwde | O::Cdqe | O::Cwd | O::Cdq | O::Cqo => Effect::None,
        _ => Effect::Shows,
    }
}

/// Whether it goes from nothing but a general register or an immediate to a general register.
fn is_general(insn: &Insn) -> bool {
    insn.files.first() == File::General && matches!(insn.files.second(), File::General | File::None)
}
