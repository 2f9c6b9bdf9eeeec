//! What instructions do to the flags, as the manuals tabulate it: Intel SDM volume 1, appendix A
//! ("EFLAGS Cross-Reference") and the instruction pages; AMD64 APM volume 3, appendix F ("Instruction
//! Effects on RFLAGS"); for the condition codes SDM volume 1, section 8.1.3.3 and the instruction pages.

use super::{FlagSet, Flags};
use crate::{
    insn::{Form, Insn, Size},
    operation::Operation as O,
};

const NONE: FlagSet = FlagSet::EMPTY;
const CF: FlagSet = FlagSet::CF;
const PF: FlagSet = FlagSet::PF;
const AF: FlagSet = FlagSet::AF;
const ZF: FlagSet = FlagSet::ZF;
const SF: FlagSet = FlagSet::SF;
const OF: FlagSet = FlagSet::OF;
const DF: FlagSet = FlagSet::DF;
const ALL: FlagSet = FlagSet::ALL;
const ARITHMETIC: FlagSet = FlagSet::ARITHMETIC;
const C1: FlagSet = FlagSet::C1;
const CODES: FlagSet = FlagSet::CONDITION_CODES;

/// `a | b | ..` of flags.
macro_rules! flags {
    ($first:ident $(| $more:ident)*) => { $first$(.union($more))* };
}

/// SF, ZF and PF: those of a result.
const RESULT: FlagSet = flags!(SF | ZF | PF);

const fn reads(read: FlagSet) -> Flags {
    Flags { read, written: NONE, cleared: NONE, set: NONE, undefined: NONE, conditional: NONE }
}

/// Written are `written`, undefined afterwards `undefined`.
const fn writes(written: FlagSet, undefined: FlagSet) -> Flags {
    Flags { written, undefined, ..reads(NONE) }
}

const fn clears(cleared: FlagSet) -> Flags {
    Flags { cleared, ..writes(cleared, NONE) }
}

const fn sets(set: FlagSet) -> Flags {
    Flags { set, ..writes(set, NONE) }
}

impl Flags {
    /// The same, which reads flags too.
    const fn reading(self, read: FlagSet) -> Self {
        Self { read: self.read.union(read), ..self }
    }

    /// The same, which clears flags too.
    const fn clearing(self, cleared: FlagSet) -> Self {
        Self { written: self.written.union(cleared), cleared: self.cleared.union(cleared), ..self }
    }

    /// The same, if it takes place.
    const fn perhaps(self) -> Self {
        Self { conditional: self.changed(), ..self }
    }

    /// The same, where `flags` may stay as they were.
    const fn perhaps_not(self, flags: FlagSet) -> Self {
        Self { conditional: self.conditional.union(flags), ..self }
    }
}

/// What an instruction does to the flags.
pub(super) fn of(insn: &Insn) -> Flags {
    match insn.op {
        O::Add | O::Sub | O::Cmp | O::Neg | O::Xadd | O::Cmpxchg => writes(ARITHMETIC, NONE),
        O::Adc | O::Sbb => writes(ARITHMETIC, NONE).reading(CF),
        O::And | O::Or | O::Xor | O::Test => writes(RESULT, AF).clearing(flags!(CF | OF)),
        O::Inc | O::Dec => writes(flags!(OF | SF | ZF | AF | PF), NONE),
        O::Mul | O::Imul => writes(flags!(CF | OF), flags!(SF | ZF | AF | PF)),
        O::Div | O::Idiv => writes(NONE, ARITHMETIC),
        O::Aaa | O::Aas => writes(flags!(CF | AF), flags!(OF | SF | ZF | PF)).reading(AF),
        O::Aad | O::Aam => writes(RESULT, flags!(OF | AF | CF)),
        O::Daa | O::Das => writes(flags!(CF | AF | SF | ZF | PF), OF).reading(flags!(CF | AF)),
        O::Bt | O::Bts | O::Btr | O::Btc => writes(CF, flags!(OF | SF | AF | PF)),
        O::Bsf | O::Bsr => writes(ZF, flags!(CF | OF | SF | AF | PF)),
        O::Rol | O::Ror | O::Rcl | O::Rcr | O::Shl | O::Shr | O::Sar | O::Shld | O::Shrd => {
            shift(insn)
        }
        O::Cmpxchg8b | O::Cmpxchg16b | O::Arpl | O::Lar | O::Lsl | O::Verr | O::Verw => {
            writes(ZF, NONE)
        }
        O::Popcnt => writes(ZF, NONE).clearing(flags!(CF | OF | SF | AF | PF)),
        O::Kortest | O::Tzcnt | O::Tzcnti | O::Lzcnt => {
            writes(flags!(CF | ZF), NONE).clearing(flags!(OF | SF | AF | PF))
        }
        O::Cmovcc | O::Setcc | O::Jcc => reads(FlagSet::of_condition(insn.aux)),
        O::Loope | O::Loopne => reads(ZF),
        O::Lahf => reads(flags!(SF | ZF | AF | PF | CF)),
        O::Sahf => writes(flags!(SF | ZF | AF | PF | CF), NONE),
        O::Salc => reads(CF),
        O::Clc => clears(CF),
        O::Stc => sets(CF),
        O::Cmc => writes(CF, NONE).reading(CF),
        O::Cld => clears(DF),
        O::Std => sets(DF),
        O::Movs | O::Lods | O::Stos | O::Ins | O::Outs => reads(DF),
        O::Cmps | O::Scas => {
            let flags = writes(ARITHMETIC, NONE).reading(DF);
            if insn.aux != 0 { flags.perhaps() } else { flags }
        }
        O::Comisd | O::Comiss | O::Ucomisd | O::Ucomiss => {
            writes(flags!(ZF | PF | CF), NONE).clearing(flags!(OF | SF | AF))
        }
        O::MovToControl | O::MovFromControl | O::MovToDebug | O::MovFromDebug => {
            writes(NONE, ARITHMETIC)
        }
        _ => of_system(insn),
    }
}

/// Of instructions on the flags of the system, and transfers of control.
fn of_system(insn: &Insn) -> Flags {
    use FlagSet as F;
    let privilege = F::IOPL.union(F::VM);
    let mode = F::TF.union(F::NT).union(F::RF).union(F::VM);
    match insn.op {
        // VIF stands in for IF where the virtual-mode extensions are on (SDM volume 2, "CLI").
        O::Cli => clears(F::IF.union(F::VIF)).reading(privilege).perhaps(),
        O::Sti => sets(F::IF.union(F::VIF)).reading(privilege).perhaps(),
        // RF and VM are stored as zero.
        O::Pushf => reads(ALL.without(F::RF.union(F::VM))).reading(privilege),
        O::Popf => {
            // A 16-bit image has no upper half.
            let upper = F::AC.union(F::ID);
            let mut written = ARITHMETIC.union(F::TF).union(DF).union(F::NT).union(F::RF);
            if insn.size != Size::B2 {
                written = written.union(upper);
            }
            let guarded = F::IF.union(F::IOPL).union(F::VIF);
            Flags { written: written.union(guarded), cleared: F::RF, ..reads(privilege) }
                .perhaps_not(guarded)
        }
        O::Iret => {
            let guarded = F::IF.union(F::IOPL).union(F::VIF).union(F::VIP).union(F::VM);
            let upper = F::RF.union(F::AC).union(F::ID);
            let mut written = ARITHMETIC.union(F::TF).union(DF).union(F::NT).union(guarded);
            if insn.size != Size::B2 {
                written = written.union(upper);
            }
            writes(written, NONE).reading(privilege.union(F::NT)).perhaps_not(guarded)
        }
        // All flags are saved. An interrupt gate clears IF, a trap gate does not (SDM volume 3, "Flag
        // Usage By Exception- or Interrupt-Handler Procedure").
        O::Int | O::Int1 | O::Int3 => clears(mode.union(F::IF)).reading(ALL).perhaps_not(F::IF),
        O::Into => clears(mode.union(F::IF)).reading(ALL).perhaps(),
        O::Syscall => writes(ALL, NONE).reading(ALL).clearing(F::RF),
        O::Sysret => writes(ALL, NONE).clearing(F::RF.union(F::VM)),
        O::Sysenter => clears(F::VM.union(F::IF).union(F::RF)),
        _ => of_x87(insn),
    }
}

/// Shifts and rotates: nothing happens if the count is zero, OF is defined if it is one, and CF is
/// defined if a bit of the operand got there.
fn shift(insn: &Insn) -> Flags {
    let bits = 8 * insn.size.bytes() as u64;
    let known = match insn.form {
        Form::RegImm | Form::MemImm => Some(insn.imm & if bits == 64 { 63 } else { 31 }),
        _ => None,
    };
    let once = known == Some(1);
    let overflow = |flags: Flags| match once {
        true => Flags { written: flags.written.union(OF), ..flags },
        false => Flags { undefined: flags.undefined.union(OF), ..flags },
    };
    let flags = match insn.op {
        O::Rol | O::Ror => overflow(writes(CF, NONE)),
        O::Rcl | O::Rcr => {
            // Nine or 17 bits go round, CF being one of them.
            let round = known.map(|count| if bits <= 16 { count % (bits + 1) } else { count });
            match round {
                Some(0) => return Flags::default(),
                Some(1) => writes(flags!(CF | OF), NONE).reading(CF),
                _ => writes(CF, OF).reading(CF),
            }
        }
        O::Shld | O::Shrd if known.is_some_and(|count| count > bits) => writes(NONE, ARITHMETIC),
        O::Shl | O::Shr if known.is_some_and(|count| count >= bits) => {
            overflow(writes(RESULT, flags!(CF | AF)))
        }
        _ => overflow(writes(flags!(CF | SF | ZF | PF), AF)),
    };
    match known {
        Some(0) => Flags::default(),
        Some(_) => flags,
        None => flags.perhaps(),
    }
}

/// Of x87 instructions: the condition codes.
fn of_x87(insn: &Insn) -> Flags {
    let others = CODES.without(C1);
    match insn.op {
        O::Fadd
        | O::Faddp
        | O::Fiadd
        | O::Fsub
        | O::Fsubp
        | O::Fisub
        | O::Fsubr
        | O::Fsubrp
        | O::Fisubr
        | O::Fmul
        | O::Fmulp
        | O::Fimul
        | O::Fdiv
        | O::Fdivp
        | O::Fidiv
        | O::Fdivr
        | O::Fdivrp
        | O::Fidivr
        | O::Fsqrt
        | O::Frndint
        | O::Fscale
        | O::F2xm1
        | O::Fyl2x
        | O::Fyl2xp1
        | O::Fpatan
        | O::Fxtract
        | O::Fld
        | O::Fild
        | O::Fbld
        | O::Fld1
        | O::Fldl2t
        | O::Fldl2e
        | O::Fldpi
        | O::Fldlg2
        | O::Fldln2
        | O::Fldz
        | O::Fst
        | O::Fstp
        | O::Fstpnce
        | O::Fist
        | O::Fistp
        | O::Fbstp => writes(C1, others),
        O::Fabs | O::Fchs | O::Fxch | O::Fincstp | O::Fdecstp | O::Fisttp => {
            writes(NONE, others).clearing(C1)
        }
        // Without a stack fault C1 may stay ("C1: Set to 0 if stack underflow occurred", SDM volume 2,
        // "FCMOVcc").
        O::Fcmovcc => writes(NONE, others)
            .clearing(C1)
            .perhaps_not(C1)
            .reading(FlagSet::of_condition(insn.aux)),
        // C1 is 0, C0, C2 and C3 are the relation.
        O::Fcom
        | O::Fcomp
        | O::Fcompp
        | O::Ficom
        | O::Ficomp
        | O::Fucom
        | O::Fucomp
        | O::Fucompp
        | O::Ftst => writes(others, NONE).clearing(C1),
        O::Fcomi | O::Fcomip | O::Fucomi | O::Fucomip => {
            writes(flags!(ZF | PF | CF), NONE).clearing(flags!(OF | SF | AF | C1)).perhaps_not(C1)
        }
        O::Fxam | O::Fprem | O::Fprem1 => writes(CODES, NONE),
        O::Fsin | O::Fcos | O::Fsincos | O::Fptan => {
            writes(C1.union(FlagSet::C2), FlagSet::C0.union(FlagSet::C3))
        }
        O::Ffree | O::Ffreep | O::Fnop | O::Fldcw | O::Fnstcw | O::Fnclex => writes(NONE, CODES),
        // "The C0, C1, C2, and C3 are undefined" (SDM volume 2, "FSTSW", "FSTENV").
        O::Fnstsw | O::Fnstenv => writes(NONE, CODES).reading(CODES),
        O::Fxsave => reads(CODES),
        O::Fnsave => clears(CODES).reading(CODES),
        O::Fninit => clears(CODES),
        O::Fldenv | O::Frstor | O::Fxrstor => writes(CODES, NONE),
        _ => Flags::default(),
    }
}
