//! Where the effects and the decoder's tables differ, and why the effects are right.

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::oracle::Aspect::{self, *};
use crate::operation::Operation::{self as O, *};

/// A difference for good.
pub(super) struct Known {
    /// In which operations. Each has it in some encoding.
    pub(super) operations: &'static [O],
    /// In what.
    pub(super) aspect: Aspect,
    /// What only the effects have: names of registers or flags, or what is done with memory.
    pub(super) here: &'static [&'static str],
    /// What only the oracle has.
    pub(super) there: &'static [&'static str],
    /// Why.
    pub(super) why: &'static str,
    /// In which instructions.
    pub(super) when: fn(&Instruction) -> bool,
}

impl Known {
    /// The same, in those instructions only.
    const fn when(self, when: fn(&Instruction) -> bool) -> Self {
        Self { when, ..self }
    }
}

/// Both operands are the same register.
fn of_itself(i: &Instruction) -> bool {
    i.op0_kind() == OpKind::Register
        && i.op1_kind() == OpKind::Register
        && i.op0_register() == i.op1_register()
}

/// The immediate count is at least the width of the operand.
fn beyond(i: &Instruction) -> bool {
    let bytes = match i.op0_kind() {
        OpKind::Register => i.op0_register().size(),
        _ => i.memory_size().size(),
    };
    let last = i.op_count() - 1;
    i.op_kind(last) == OpKind::Immediate8 && (i.immediate8() & 31) as usize >= 8 * bytes
}

const fn known(
    operations: &'static [O],
    aspect: Aspect,
    here: &'static [&'static str],
    there: &'static [&'static str],
    why: &'static str,
) -> Known {
    Known { operations, aspect, here, there, why, when: |_| true }
}

const IDIOM: &str = "The oracle knows idioms that make a register zero. The manuals define no such \
    thing: the register is an operand, and a processor may or may not wait for it.";
const PUSHED: &str = "The oracle does not say where an x87 push goes.";
const TRANSFER: &str = "A far transfer stores and loads CS, and SS if the privilege changes; the \
    oracle lists neither.";
const INTERRUPT: &str = "The oracle knows of an interrupt no more than the flags that are always \
    cleared. It saves CS, RFLAGS and perhaps SS:rSP, and an interrupt gate clears IF (SDM volume 2, \
    \"INT\").";
const SYSTEM_CALL: &str = "SYSCALL and SYSENTER load CS and SS (SDM volume 2). R11 has RFLAGS in \
    compatibility mode, too, where the code size does not tell it from legacy mode (APM volume 3, \
    \"SYSCALL\", \"SYSRET\").";
const BEYOND: &str = "Flags that a count beyond the operand's width leaves undefined (SDM volume 2, \
    \"SAL/SAR/SHL/SHR\": CF is undefined for SHL and SHR where the count is greater than or equal to \
    the size; \"SHLD\": if the count is greater than the operand size, the flags are undefined).";
const MMX: &str =
    "The oracle lists the MMX registers beside the x87 registers that they are part of.";
const IMAGE: &str = "FXSAVE stores the x87 and XMM registers and the status word (SDM volume 2, \
    \"FXSAVE\"); the oracle lists no register.";

const COUNTS: &str =
    "XED says that they are cleared, in its definition of the instructions of Knights Corner.";

const ALL_GENERAL: &[&str] = &[
    "RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", "R8", "R9", "R10", "R11", "R12", "R13",
    "R14", "R15",
];
const ALL_MM: &[&str] = &["MM0", "MM1", "MM2", "MM3", "MM4", "MM5", "MM6", "MM7"];
const ALL_VECTORS: &[&str] = &[
    "MM0", "MM1", "MM2", "MM3", "MM4", "MM5", "MM6", "MM7", "XMM0", "XMM1", "XMM2", "XMM3", "XMM4",
    "XMM5", "XMM6", "XMM7", "XMM8", "XMM9", "XMM10", "XMM11", "XMM12", "XMM13", "XMM14", "XMM15",
];
const STATE: &[&str] = &[
    "ST(0)", "ST(1)", "ST(2)", "ST(3)", "ST(4)", "ST(5)", "ST(6)", "ST(7)", "XMM0", "XMM1", "XMM2",
    "XMM3", "XMM4", "XMM5", "XMM6", "XMM7", "XMM8", "XMM9", "XMM10", "XMM11", "XMM12", "XMM13",
    "XMM14", "XMM15",
];
const SAVED: &[&str] = &["CF", "PF", "AF", "ZF", "SF", "IF", "DF", "OF", "AC"];
const CODES: &[&str] = &["C0", "C1", "C2", "C3"];

/// All differences.
#[rustfmt::skip]
pub(super) const KNOWN: &[Known] = &[
    known(&[Lzcnt, Tzcnt, Tzcnti], FlagsCleared, &["PF", "AF", "SF", "OF"], &[], COUNTS),
    known(&[Lzcnt, Tzcnt, Tzcnti], FlagsUndefined, &[], &["PF", "AF", "SF", "OF"], COUNTS),
    known(&[Xor, Sub], Read, ALL_GENERAL, &[], IDIOM).when(of_itself),
    known(&[Xor, Sub], FlagsWritten, &["CF", "PF", "AF", "ZF", "SF", "OF"], &[], IDIOM).when(of_itself),
    known(&[Xor, Sub], FlagsCleared, &[], &["CF", "AF", "SF", "OF"], IDIOM).when(of_itself),
    known(&[Xor, Sub], FlagsSet, &[], &["PF", "ZF"], IDIOM).when(of_itself),
    known(
        &[Psubb, Psubd, Psubq, Psubsb, Psubsw, Psubusb, Psubusw, Psubw, Pxor, Xorpd, Xorps],
        Read, ALL_VECTORS, &[], IDIOM,
    ).when(of_itself),
    known(&[Shl, Shr], FlagsWritten, &[], &["CF"], BEYOND).when(beyond),
    known(&[Shl, Shr], FlagsUndefined, &["CF"], &[], BEYOND).when(beyond),
    known(&[Shld, Shrd], FlagsWritten, &[], &["CF", "PF", "ZF", "SF", "OF"], BEYOND).when(beyond),
    known(&[Shld, Shrd], FlagsUndefined, &["CF", "PF", "ZF", "SF", "OF"], &[], BEYOND).when(beyond),
    known(
        &[Fbld, Fild, Fld, Fld1, Fldl2e, Fldl2t, Fldlg2, Fldln2, Fldpi, Fldz, Fptan, Fsincos, Fxtract],
        Written, &["ST(7)"], &[], PUSHED,
    ),
    known(&[Fptan, Fsincos], Conditional, &["ST(7)"], &[], PUSHED),
    known(&[Fnsave], Read, &[], ALL_MM, MMX),
    known(&[Frstor], Written, &[], ALL_MM, MMX),
    known(&[Fxsave], Read, STATE, &[], IMAGE),
    known(&[Fxsave], FlagsRead, CODES, &[], IMAGE),
    known(&[Fxrstor], Written, STATE, &[], IMAGE),
    known(&[Fxrstor], Conditional, STATE, &[], IMAGE),
    known(&[Fxrstor], FlagsWritten, CODES, &[], IMAGE),
    known(
        &[Fnop], FlagsUndefined, CODES, &[],
        "\"FPU Flags Affected: C0, C1, C2, C3 undefined\" (SDM volume 2, \"FNOP\").",
    ),
    known(&[CallFar], Read, &["CS"], &[], TRANSFER),
    known(&[CallFar, JmpFar, RetFar, Iret], Written, &["CS", "SS"], &[], TRANSFER),
    known(&[CallFar, RetFar, Iret], Conditional, &["SS"], &[], TRANSFER),
    known(&[Int, Int1, Int3, Into], Read, &["RSP", "CS", "SS"], &[], INTERRUPT),
    known(&[Int, Int1, Int3, Into], Written, &["RSP", "CS", "SS"], &[], INTERRUPT),
    known(&[Int, Int1, Int3, Into], Conditional, &["RSP", "CS", "SS"], &[], INTERRUPT),
    known(&[Int, Int1, Int3, Into], FlagsRead, SAVED, &[], INTERRUPT),
    known(&[Int, Int1, Int3, Into], FlagsCleared, &["IF"], &[], INTERRUPT),
    known(&[Syscall, Sysenter], Written, &["R11", "CS", "SS"], &[], SYSTEM_CALL),
    known(&[Syscall], Conditional, &["R11"], &[], SYSTEM_CALL),
    known(&[Sysret], Read, &["R11"], &[], SYSTEM_CALL),
    known(&[Swapgs], Read, &["GS"], &[], "The base of GS is exchanged (APM volume 3, \"SWAPGS\")."),
    known(
        &[Swapgs], Written, &["GS"], &[],
        "The base of GS is exchanged (APM volume 3, \"SWAPGS\").",
    ),
    known(&[Pushf], FlagsRead, &["AC"], &[], "AC is in the image (SDM volume 2, \"PUSHF\")."),
    known(
        &[Rsm], FlagsWritten, &[], SAVED,
        "There is no system-management mode here, and outside it RSM raises #UD.",
    ),
    known(
        &[HintNop], Written, &[], ALL_GENERAL,
        "RDSSP is a NOP to processors without shadow stacks (SDM volume 2, \"RDSSPD/RDSSPQ\").",
    ).when(|i| matches!(i.mnemonic(), Mnemonic::Rdsspd | Mnemonic::Rdsspq)),
    known(
        &[Bound], Memory, &["read"], &["read"],
        "Two bounds, each of the operand size; to the oracle they are one operand.",
    ),
    known(
        &[Clflush], Memory, &["address"], &["read"],
        "CLFLUSH is checked as a load is, and loads nothing (SDM volume 2, \"CLFLUSH\").",
    ),
    known(
        &[Enter], Memory, &["address"], &[],
        "ENTER looks whether the new top of the stack could be written (SDM volume 2, \"ENTER\").",
    ),
    known(
        &[Maskmovdqu, Maskmovq], Memory, &["may write"], &["write"],
        "The mask may choose no byte (SDM volume 2, \"MASKMOVDQU\", \"MASKMOVQ\").",
    ),
    known(
        &[Xlatb], Memory, &["read"], &["read"],
        "AL is a part of a register and no index that the lowered operand could have.",
    ),
];
