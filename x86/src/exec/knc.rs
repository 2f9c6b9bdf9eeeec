//! The thread and cache-control instructions of Knights Corner: SPFLT, DELAY, CLEVICT0, CLEVICT1.
//!
//! Sources: the coprocessor's performance-monitoring document (327357-001) for SPFLT; the binutils
//! and XED tests of its assembler for the encodings, VEX.L0.F2.0F AE /6 and VEX.L0.F3.0F AE /6 in
//! the register form. Both run at any privilege level and change no flag. As every instruction with
//! a VEX prefix they need protected mode.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};

use super::{msr::uncounted, next, size_of_bytes};
use crate::{
    class::Class,
    cpu::Cpu,
    insn::{Form, Handler, Insn, Size},
    lower::{End, Lowered, Lowering},
    mode::CodeSize,
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
    vector,
};

/// In [`Insn::aux`] of CLEVICT: it has an MVEX prefix, and with that the exceptions of the vector unit.
const MVEX: u8 = 1;

/// The latest time that a delay ends at: time that goes on behind it does not overflow.
const LATEST: u64 = u64::MAX >> 1;

/// Decodes SPFLT and DELAY in 16- and 32-bit code, for which the decoder has no row. `bytes` begin
/// with the instruction, at `ip`.
///
/// In such code C4 and C5 are LES and LDS unless the next byte's upper two bits are ones. VEX.B,
/// and with it registers 8-15, is ignored there.
pub(crate) fn decode(code: CodeSize, bytes: &[u8], ip: u64) -> Option<Instruction> {
    if code == CodeSize::Bits64 {
        return None;
    }
    let mut bytes = bytes.to_vec();
    let at = prefixes(&bytes);
    match bytes.get_mut(at..)? {
        [0xc5, second, ..] if *second >> 6 == 3 => {}
        [0xc4, second, ..] if *second >> 6 == 3 => *second |= 1 << 5,
        _ => return None,
    }
    // 64-bit code has the same bytes for the register forms.
    let instruction = Decoder::with_ip(64, &bytes, ip, DecoderOptions::KNC).decode();
    let is_ours = matches!(instruction.mnemonic(), Mnemonic::Spflt | Mnemonic::Delay);
    is_ours.then_some(instruction)
}

/// Whether `bytes`, of which more may follow, begin as an instruction that [`decode`] knows.
pub(crate) fn may_begin(code: CodeSize, bytes: &[u8]) -> bool {
    code != CodeSize::Bits64 && matches!(bytes.get(prefixes(bytes)), Some(0xc4 | 0xc5))
}

/// How many prefixes `bytes` begin with.
fn prefixes(bytes: &[u8]) -> usize {
    let is_prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67);
    bytes.iter().take_while(|byte| is_prefix(byte)).count()
}

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, insn: Insn) -> Option<Lowered> {
    match i.code() {
        Code::VEX_KNC_Spflt_r32
        | Code::VEX_KNC_Spflt_r64
        | Code::VEX_KNC_Delay_r32
        | Code::VEX_KNC_Delay_r64 => {}
        // An eviction changes nothing that a program sees, and never faults: only an observer looks at the
        // operand, as at that of a prefetch.
        Code::VEX_KNC_Clevict0_m8 | Code::VEX_KNC_Clevict1_m8 => return next(insn),
        Code::MVEX_Clevict0_m | Code::MVEX_Clevict1_m => return next(Insn { aux: MVEX, ..insn }),
        // The decoder knows the same mnemonics with other prefixes.
        _ => return None,
    }
    // VEX.W means nothing outside 64-bit mode.
    let size = match l.code {
        CodeSize::Bits64 => size_of_bytes(i.op0_register().size()),
        _ => Size::B4,
    };
    let insn = Insn { form: Form::Reg, src: l.reg(i.op0_register()), size, ..insn };
    Some(Lowered { insn, class: Class::NONE, end: End::Fall })
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Spflt => spflt,
        Operation::Delay => delay,
        Operation::Clevict0 | Operation::Clevict1 => evict,
        _ => return None,
    })
}

/// SPFLT: bit 0 of the operand becomes the user preference of the hardware thread.
fn spflt<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require(cpu.selectors_are_protected())?;
    cpu.tell_place(cx);
    if let Some(uncounted) = uncounted(cpu, insn, &mut cx.observer) {
        cx.bus.update_counters(uncounted);
    }
    let after = cx.bus.spflt(cpu.ends(insn), cpu.reg::<u64>(insn.src) & 1 != 0);
    cpu.continue_after(after);
    Ok(())
}

/// DELAY: no instruction of the thread begins for as many clocks as the operand says, beside the
/// one that DELAY takes itself. It retires first, so that an interrupt, which ends the delay,
/// returns to the instruction behind it.
fn delay<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require(cpu.selectors_are_protected())?;
    let clocks = match insn.size {
        Size::B8 => cpu.reg::<u64>(insn.src),
        _ => u64::from(cpu.reg::<u32>(insn.src)),
    };
    cpu.delayed_until = cpu.ends(insn).saturating_add(clocks).min(LATEST);
    cpu.note_pause();
    Ok(())
}

fn evict<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require(cpu.selectors_are_protected())?;
    if insn.aux == MVEX { vector::ready(cpu) } else { Ok(()) }
}
