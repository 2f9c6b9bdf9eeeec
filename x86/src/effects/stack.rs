//! The stack, and what goes elsewhere: branches, calls, returns, interrupts, system calls.

use super::{Access, Register, RegisterSet, describe::Description};
use crate::{
    insn::{Form, Mem, Size, gpr, seg},
    operation::Operation as O,
};

/// Describes an instruction of this file; false if it is none.
pub(super) fn describe(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    let size = insn.size;
    match insn.op {
        O::Push => {
            target_or_value(d);
            d.push(1, size);
        }
        O::Pop => {
            d.pop(1, size);
            match insn.form {
                Form::Mem => d.one(Access::Write, behind_pop(d), insn.mem_bytes),
                // POP rSP leaves the value that was read.
                _ => d.write_general(insn.dst, size),
            }
        }
        O::PushSegment => {
            d.read(Register::Segment(insn.src));
            d.push(1, size);
        }
        O::PopSegment => {
            d.pop(1, size);
            d.write(Register::Segment(insn.dst));
        }
        O::Pusha => {
            d.read_all(RegisterSet::range(Register::General(gpr::RAX), 8));
            d.push(8, size);
        }
        O::Popa => {
            // The slot of rSP is skipped (SDM volume 2, "POPA").
            d.pop(3, size);
            d.stack_access(Access::Read, gpr::RSP, 4 * size.bytes() as i64, 4, size);
            for register in (gpr::RAX..=gpr::RDI).filter(|&n| n != gpr::RSP) {
                d.write_general(register, size);
            }
        }
        O::Pushf => d.push(1, size),
        O::Popf => d.pop(1, size),
        O::Enter => enter(d),
        O::Leave => {
            d.stack_access(Access::Read, gpr::RBP, 0, 1, size);
            d.read_general(gpr::RBP);
            d.move_stack();
            d.write_general(gpr::RBP, size);
        }
        _ => return transfer(d),
    }
    true
}

/// Describes transfers of control.
fn transfer(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    let size = insn.size;
    match insn.op {
        O::Jmp => {
            near_target(d);
            d.jump();
        }
        O::Jcc => {
            near_target(d);
            d.may_write(Register::InstructionPointer);
        }
        O::Jkzd | O::Jknzd => {
            near_target(d);
            d.read(Register::Mask(insn.src));
            d.may_write(Register::InstructionPointer);
        }
        O::Loop | O::Loope | O::Loopne | O::Jcxz => {
            near_target(d);
            d.may_write(Register::InstructionPointer);
            d.read_general(gpr::RCX);
            if insn.op != O::Jcxz {
                d.write_general(gpr::RCX, count_size(insn.aux));
            }
        }
        O::Call => {
            near_target(d);
            d.read(Register::InstructionPointer);
            d.push(1, size);
            d.jump();
        }
        O::Ret => {
            d.pop(1, size);
            d.jump();
        }
        O::JmpFar => {
            far_pointer(d);
            enter_code(d);
        }
        O::CallFar => {
            far_pointer(d);
            d.read(Register::InstructionPointer);
            d.read(Register::Segment(seg::CS));
            d.push(2, size);
            enter_code(d);
            d.may_write(Register::Segment(seg::SS));
        }
        O::RetFar => {
            d.pop(2, size);
            enter_code(d);
            d.may_write(Register::Segment(seg::SS));
        }
        O::Iret => {
            // 64-bit mode has SS:RSP in every frame; elsewhere only a return to another privilege has.
            if d.mode.is_64bit() {
                d.pop(5, size);
                d.write(Register::Segment(seg::SS));
            } else {
                d.pop(3, size);
                d.may_write(Register::Segment(seg::SS));
            }
            enter_code(d);
        }
        O::Int | O::Int1 | O::Int3 | O::Into => interrupt(d),
        O::Syscall => {
            d.read(Register::InstructionPointer);
            d.read(Register::ModelSpecific);
            d.write_general(gpr::RCX, Size::B8);
            d.write_general(gpr::R11, Size::B8);
            // Legacy mode does not save RFLAGS.
            if !d.mode.is_64bit() {
                d.may_write(Register::General(gpr::R11));
            }
            enter_flat(d);
        }
        O::Sysret => {
            d.read(Register::ModelSpecific);
            d.read_general(gpr::RCX);
            d.read_general(gpr::R11);
            enter_flat(d);
        }
        O::Sysenter => {
            d.read(Register::ModelSpecific);
            d.write_general(gpr::RSP, Size::B8);
            enter_flat(d);
        }
        O::Sysexit => {
            d.read(Register::ModelSpecific);
            d.read_general(gpr::RCX);
            d.read_general(gpr::RDX);
            d.write_general(gpr::RSP, Size::B8);
            enter_flat(d);
        }
        _ => return false,
    }
    true
}

/// The operand of PUSH, JMP and CALL that is a register or memory.
fn target_or_value(d: &mut Description<'_>) {
    match d.insn.form {
        Form::Reg => d.read_general(d.insn.src),
        Form::Mem => d.operand(Access::Read),
        _ => {}
    }
}

/// The target of a near branch: relative, in a register or in memory.
fn near_target(d: &mut Description<'_>) {
    if d.insn.form == Form::None {
        d.read(Register::InstructionPointer);
    }
    target_or_value(d);
}

/// The width of LOOP's count, from `aux`.
fn count_size(aux: u8) -> Size {
    if aux == Size::B2 as u8 { Size::B2 } else { Size::B8 }
}

/// The memory operand of POP in terms of the registers before it: its address is computed with rSP as
/// it is afterwards (SDM volume 2, "POP").
fn behind_pop(d: &Description<'_>) -> Mem {
    let mem = d.insn.mem;
    let moved = if mem.base == gpr::RSP { d.insn.size.bytes() as i64 } else { 0 };
    Mem { disp: mem.disp.wrapping_add(moved), ..mem }
}

/// ENTER: the display is read below rBP, the frame written below rSP, and the new top of the stack is
/// looked at whether it could be written.
fn enter(d: &mut Description<'_>) {
    let (size, level) = (d.insn.size, d.insn.dst);
    let bytes = size.bytes() as i64;
    d.read_general(gpr::RBP);
    if level > 1 {
        let display = i64::from(level) - 1;
        d.stack_access(Access::Read, gpr::RBP, -display * bytes, level - 1, size);
    }
    let pushed = if level == 0 { 1 } else { level + 1 };
    d.push(pushed, size);
    let top = -i64::from(pushed) * bytes - (d.insn.imm as u16 as i64);
    d.stack_access(Access::Address, gpr::RSP, top, 1, size);
    d.write_general(gpr::RBP, size);
}

/// A far pointer in memory.
fn far_pointer(d: &mut Description<'_>) {
    if d.insn.mem_bytes > 0 {
        d.operand(Access::Read);
    }
}

/// CS:rIP are loaded, directly or through whatever a selector leads to.
fn enter_code(d: &mut Description<'_>) {
    d.write(Register::Segment(seg::CS));
    d.jump();
    d.open_ended();
}

/// CS, SS and rIP are loaded, without descriptors.
fn enter_flat(d: &mut Description<'_>) {
    d.write(Register::Segment(seg::CS));
    d.write(Register::Segment(seg::SS));
    d.jump();
}

/// INT and its like. The frame depends on the gate.
fn interrupt(d: &mut Description<'_>) {
    d.read(Register::InstructionPointer);
    d.read(Register::Segment(seg::CS));
    d.read(Register::Segment(seg::SS));
    d.read_general(gpr::RSP);
    d.move_stack();
    enter_code(d);
    d.may_write(Register::Segment(seg::SS));
    if d.insn.op == O::Into {
        d.written_conditionally();
    }
}
