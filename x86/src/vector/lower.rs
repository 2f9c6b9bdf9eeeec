//! What instructions of the vector unit are lowered to: where the operands are, and what MVEX says.

use iced_x86::{EncodingKind, Instruction, OpKind, RoundingControl};

use super::{element::Lanes, mvex::Mvex};
use crate::{
    class::Class,
    insn::{Form, Insn, Size},
    lower::{End, Lowered, Lowering},
    mode::CodeSize,
    operation::Operation,
};

/// Lowers an instruction of this folder; `insn` is what all have in common of it.
///
/// `dst` is the first operand and `src` the last, where they are registers; what is between them, and
/// what MVEX says, is in `imm` ([`Mvex`]). `size` is 8 bytes if masks have a bit for each quadword, or if
/// the operands of an instruction on general registers are as wide. `aux` is 1 with MVEX, for there are
/// prefetches with VEX as well.
pub(crate) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    if l.code != CodeSize::Bits64 || has_reserved_rounding(i, &l.bytes) {
        return None;
    }
    let mut mvex = Mvex::default();
    let mut count = i.op_count();
    if count > 0 && i.op_kind(count - 1) == OpKind::Immediate8 {
        mvex = mvex.with_immediate(i.immediate8());
        count -= 1;
    }
    let is_memory = |n| i.op_kind(n) == OpKind::Memory;
    if count == 0 {
        return None;
    }
    let last = count - 1;
    insn.form = match (is_memory(0), is_memory(last)) {
        (true, _) if last == 0 => Form::Mem,
        (true, _) => Form::MemReg,
        (_, true) => Form::RegMem,
        _ => Form::RegReg,
    };
    if !is_memory(0) {
        insn.dst = l.reg(i.op0_register());
    }
    if !is_memory(last) {
        insn.src = l.reg(i.op_register(last));
    }
    if count == 3 {
        mvex = mvex.with_vvvv(l.reg(i.op1_register()));
    }
    if i.encoding() == EncodingKind::MVEX {
        insn.aux = 1;
        mvex = mvex.with_mask(l.reg(i.op_mask()) & 7);
        // The decoder numbers swizzles, then conversions, from 1.
        mvex = mvex.with_code((i.mvex_reg_mem_conv() as u8).saturating_sub(1) & 7);
        if i.suppress_all_exceptions() {
            mvex = mvex.with_suppression();
        }
        if i.rounding_control() != RoundingControl::None {
            mvex = mvex.with_rounding(i.rounding_control() as u8 - 1);
        }
        if i.is_mvex_eviction_hint() {
            mvex = mvex.with_eviction();
        }
        if i.is_vsib() {
            mvex = mvex.with_index(l.reg(i.memory_index()));
        }
    }
    insn.imm = mvex.packed();
    let wide = match i.op0_register() {
        r if r.is_gpr() => r.size() == 8,
        _ => insn.op.lanes() == Lanes::Eight,
    };
    insn.size = if wide { Size::B8 } else { Size::B4 };
    Some(Lowered { insn, class: class_of(insn.op), end: End::Next })
}

/// Whether an instruction on registers asks for a rounding mode that it does not take, or for exceptions to
/// be suppressed that it does not have. The decoder does not look at all of that.
fn has_reserved_rounding(i: &Instruction, bytes: &[u8]) -> bool {
    if i.encoding() != EncodingKind::MVEX {
        return false;
    }
    let at = bytes.iter().position(|&byte| byte == 0x62);
    let Some(&[_, _, _, last, _, modrm]) =
        at.and_then(|at| bytes.get(at..)).and_then(|bytes| bytes.first_chunk::<6>())
    else {
        return false;
    };
    let taken = match static_modes(Operation::of_mnemonic(i.mnemonic())) {
        StaticModes::None => 0,
        StaticModes::Suppression => 0x40,
        StaticModes::Rounding => 0x70,
    };
    // E is set, and a bit of SSS that means nothing.
    modrm >> 6 == 3 && last & 0x80 != 0 && last & 0x70 & !taken != 0
}

/// What SSS says of an instruction on registers if E is set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StaticModes {
    /// Nothing.
    None,
    /// In its highest bit, whether exceptions are suppressed.
    Suppression,
    /// That, and in the others the rounding mode, for which conversions with one in the immediate have no
    /// use.
    Rounding,
}

fn static_modes(op: Operation) -> StaticModes {
    use Operation as O;
    match op {
        O::Vaddps
        | O::Vaddpd
        | O::Vsubps
        | O::Vsubpd
        | O::Vsubrps
        | O::Vsubrpd
        | O::Vaddnps
        | O::Vaddnpd
        | O::Vmulps
        | O::Vmulpd
        | O::Vaddsetsps
        | O::Vscaleps
        | O::Vcvtpd2ps
        | O::Vrndfxpntps
        | O::Vrndfxpntpd
        | O::Vcvtfxpntps2dq
        | O::Vcvtfxpntps2udq
        | O::Vcvtfxpntdq2ps
        | O::Vcvtfxpntudq2ps
        | O::Vcvtfxpntpd2dq
        | O::Vcvtfxpntpd2udq => StaticModes::Rounding,
        op if op.is_fused() => StaticModes::Rounding,
        O::Vcmpps
        | O::Vcmppd
        | O::Vgetexpps
        | O::Vgetexppd
        | O::Vgetmantps
        | O::Vgetmantpd
        | O::Vgminps
        | O::Vgminpd
        | O::Vgmaxps
        | O::Vgmaxpd
        | O::Vgmaxabsps
        | O::Vfixupnanps
        | O::Vfixupnanpd
        | O::Vcvtps2pd
        | O::Vrcp23ps
        | O::Vrsqrt23ps
        | O::Vexp223ps
        | O::Vlog2ps => StaticModes::Suppression,
        _ => StaticModes::None,
    }
}

/// What an instruction is counted as: all of the unit's own, but not the prefetches of a line and the counts
/// of bits.
fn class_of(op: Operation) -> Class {
    use Operation as O;
    match op {
        O::Popcnt | O::Tzcnt | O::Tzcnti | O::Lzcnt => Class::NONE,
        op if op.is_vector_prefetch() => Class::NONE,
        _ => Class::VPU,
    }
}
