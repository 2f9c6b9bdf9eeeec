//! AAA, AAS, AAD, AAM, DAA, DAS. None of them exists in 64-bit mode.

use iced_x86::Instruction;

use super::next;
use crate::{
    cpu::Cpu,
    insn::{HIGH_BYTE, Handler, Insn, Size, gpr},
    lower::Lowered,
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop},
};

const AL: u8 = gpr::RAX;
const AH: u8 = gpr::RAX | HIGH_BYTE;

/// DAA (`SUBTRACT` false) and DAS: AL after a packed addition or subtraction. OF is undefined.
fn adjust_packed<O: Observer, const SUBTRACT: bool>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    _: &Insn,
) -> Exec<()> {
    let al = cpu.reg::<u8>(AL);
    let low = al & 15 > 9 || cpu.flags.af();
    let high = al > 0x99 || cpu.flags.cf();
    let correction = if low { 6 } else { 0 } + if high { 0x60 } else { 0 };
    let result = if SUBTRACT { al.wrapping_sub(correction) } else { al.wrapping_add(correction) };
    // DAS takes a borrow out of the low correction into CF as well.
    let cf = high || SUBTRACT && low && al < 6;
    cpu.set_reg(AL, result);
    cpu.flags.set_result(result, cf, false, low);
    Ok(())
}

/// AAA (`SUBTRACT` false) and AAS: AL and AH after an unpacked addition or subtraction. OF, SF, ZF
/// and PF are undefined.
fn adjust_unpacked<O: Observer, const SUBTRACT: bool>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    _: &Insn,
) -> Exec<()> {
    let ax = cpu.reg::<u16>(gpr::RAX);
    let carry = ax & 15 > 9 || cpu.flags.af();
    let adjusted = match (carry, SUBTRACT) {
        (false, _) => ax,
        (true, false) => ax.wrapping_add(0x106),
        (true, true) => ax.wrapping_sub(0x106),
    };
    let result = adjusted & 0xff0f;
    cpu.set_reg(gpr::RAX, result);
    cpu.flags.set_result(result as u8, carry, false, carry);
    Ok(())
}

fn aam<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let al = cpu.reg::<u8>(AL);
    let base = insn.imm as u8;
    let (Some(high), Some(low)) = (al.checked_div(base), al.checked_rem(base)) else {
        return Err(Stop::DE);
    };
    cpu.set_reg(AH, high);
    cpu.set_reg(AL, low);
    cpu.flags.set_logic(low);
    Ok(())
}

fn aad<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let high = cpu.reg::<u8>(AH).wrapping_mul(insn.imm as u8);
    let result = cpu.reg::<u8>(AL).wrapping_add(high);
    cpu.set_reg(gpr::RAX, u16::from(result));
    cpu.flags.set_logic(result);
    Ok(())
}

/// Lowers the instructions of this file; `imm` is the base of AAM and AAD.
pub(super) fn lower(i: &Instruction, insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Daa | Operation::Das | Operation::Aaa | Operation::Aas => {
            next(Insn { size: Size::B1, ..insn })
        }
        Operation::Aam | Operation::Aad => {
            next(Insn { size: Size::B1, imm: i.immediate(0), ..insn })
        }
        _ => None,
    }
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Daa => adjust_packed::<O, false>,
        Operation::Das => adjust_packed::<O, true>,
        Operation::Aaa => adjust_unpacked::<O, false>,
        Operation::Aas => adjust_unpacked::<O, true>,
        Operation::Aam => aam,
        Operation::Aad => aad,
        _ => return None,
    })
}
