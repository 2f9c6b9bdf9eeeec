//! Segment registers, far transfers, software interrupts and system calls.

use iced_x86::{Code, Instruction, OpKind};

use crate::{
    class::Class,
    cpu::Cpu,
    far::Frame,
    flags::{self, Word},
    gate::Event,
    insn::{Form, Handler, Insn, Size, seg},
    lower::{End, Lowered, Lowering, segment_number},
    mode::CodeSize,
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, vector},
};

use super::{by_size, size_of_bytes, sizes};

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    let end = match insn.op {
        Operation::MovToSegment => {
            insn.dst = segment_number(i.op0_register());
            insn.size = Size::B2;
            insn.form = Form::RegMem;
            if i.op1_kind() == OpKind::Register {
                insn.form = Form::RegReg;
                insn.src = l.reg(i.op1_register());
            }
            end_of_load(l, insn.dst)?
        }
        Operation::MovFromSegment => {
            insn.src = segment_number(i.op1_register());
            if i.op0_kind() == OpKind::Register {
                insn.form = Form::RegReg;
                insn.dst = l.reg(i.op0_register());
                insn.size = size_of_bytes(i.op0_register().size());
            } else {
                insn.form = Form::MemReg;
                insn.size = Size::B2;
            }
            End::Next
        }
        Operation::PushSegment => {
            insn.src = segment_number(i.op0_register());
            insn.size = slot_size(i);
            End::Next
        }
        Operation::PopSegment => {
            insn.dst = segment_number(i.op0_register());
            insn.size = slot_size(i);
            end_of_load(l, insn.dst)?
        }
        Operation::Les | Operation::Lds | Operation::Lss | Operation::Lfs | Operation::Lgs => {
            insn.aux = match insn.op {
                Operation::Les => seg::ES,
                Operation::Lds => seg::DS,
                Operation::Lss => seg::SS,
                Operation::Lfs => seg::FS,
                _ => seg::GS,
            };
            insn.form = Form::RegMem;
            insn.dst = l.reg(i.op0_register());
            insn.size = size_of_bytes(i.op0_register().size());
            end_of_load(l, insn.aux)?
        }
        _ => {
            transfer_operands(i, &mut insn)?;
            End::Far
        }
    };
    Some(Lowered { insn, class: Class::NONE, end })
}

/// Enters what a far transfer has as operands; `None` if it is none. Of a direct one `imm` is the
/// offset, and the selector in its upper half.
fn transfer_operands(i: &Instruction, insn: &mut Insn) -> Option<()> {
    let mut sized = |size| insn.size = size;
    match i.code() {
        Code::Jmp_ptr1616 | Code::Call_ptr1616 => {
            sized(Size::B2);
            insn.imm = u64::from(i.far_branch_selector()) << 32 | u64::from(i.far_branch16());
        }
        Code::Jmp_ptr1632 | Code::Call_ptr1632 => {
            sized(Size::B4);
            insn.imm = u64::from(i.far_branch_selector()) << 32 | u64::from(i.far_branch32());
        }
        Code::Jmp_m1616 | Code::Call_m1616 => {
            sized(Size::B2);
            insn.form = Form::Mem;
        }
        Code::Jmp_m1632 | Code::Call_m1632 => {
            sized(Size::B4);
            insn.form = Form::Mem;
        }
        Code::Jmp_m1664 | Code::Call_m1664 => {
            sized(Size::B8);
            insn.form = Form::Mem;
        }
        Code::Retfw | Code::Iretw => sized(Size::B2),
        Code::Retfd | Code::Iretd | Code::Sysretd | Code::Sysexitd => sized(Size::B4),
        Code::Retfq | Code::Iretq | Code::Sysretq | Code::Sysexitq => sized(Size::B8),
        Code::Retfw_imm16 => {
            sized(Size::B2);
            insn.imm = i.immediate(0);
        }
        Code::Retfd_imm16 => {
            sized(Size::B4);
            insn.imm = i.immediate(0);
        }
        Code::Retfq_imm16 => {
            sized(Size::B8);
            insn.imm = i.immediate(0);
        }
        Code::Int_imm8 => insn.imm = u64::from(i.immediate8()),
        Code::Int3 | Code::Into | Code::Int1 | Code::Syscall | Code::Sysenter => {}
        _ => return None,
    }
    Some(())
}

/// How a load of segment register `n` ends: what follows is lowered for DS, ES and SS outside
/// 64-bit mode, and SS holds back interrupts. `None`: CS cannot be loaded so.
fn end_of_load(l: &Lowering, n: u8) -> Option<End> {
    match n {
        seg::CS => None,
        _ if n == seg::SS || l.code != CodeSize::Bits64 => Some(End::Fall),
        _ => Some(End::Next),
    }
}

/// The size of a slot of the stack that PUSH or POP of a segment register moves by.
fn slot_size(i: &Instruction) -> Size {
    size_of_bytes(i.stack_pointer_increment().unsigned_abs() as usize)
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match (insn.op, insn.form) {
        (Operation::MovToSegment, Form::RegReg) => load_from_register,
        (Operation::MovToSegment, _) => load_from_memory,
        (Operation::MovFromSegment, Form::RegReg) => {
            by_size(insn.size, sizes!(store_to_register, O))
        }
        (Operation::MovFromSegment, _) => store_to_memory,
        (Operation::PushSegment, _) => push,
        (Operation::PopSegment, _) => pop,
        (Operation::Les | Operation::Lds | Operation::Lss | Operation::Lfs | Operation::Lgs, _) => {
            by_size(insn.size, sizes!(pointer, O))
        }
        (Operation::JmpFar, Form::Mem) => jump_indirect,
        (Operation::JmpFar, _) => jump,
        (Operation::CallFar, Form::Mem) => call_indirect,
        (Operation::CallFar, _) => call,
        (Operation::RetFar, _) => return_far,
        (Operation::Iret, _) => interrupt_return,
        (Operation::Int, _) => interrupt,
        (Operation::Int3, _) => breakpoint,
        (Operation::Into, _) => overflow,
        (Operation::Int1, _) => icebp,
        (Operation::Syscall, _) => syscall,
        (Operation::Sysret, _) => sysret,
        (Operation::Sysenter, _) => sysenter,
        (Operation::Sysexit, _) => sysexit,
        _ => return None,
    })
}

fn load_from_register<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let selector = cpu.reg::<u16>(insn.src);
    cpu.load_segment(cx, insn.dst, selector)?;
    cpu.shadow_after_ss(insn.dst);
    Ok(())
}

fn load_from_memory<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let selector = cpu.load_mem::<O, u16>(cx, &insn.mem)?;
    cpu.load_segment(cx, insn.dst, selector)?;
    cpu.shadow_after_ss(insn.dst);
    Ok(())
}

fn store_to_register<O: Observer, T: Word>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let selector = u64::from(cpu.segment(insn.src).selector);
    cpu.set_reg(insn.dst, T::from_u64(selector));
    Ok(())
}

fn store_to_memory<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let selector = cpu.segment(insn.src).selector;
    cpu.store_mem(cx, &insn.mem, selector)
}

/// What PUSH and POP of a segment register access of a stack slot, and how many bytes above it they
/// leave alone.
fn selector_slot(cpu: &Cpu, slot: Size) -> (Size, u64) {
    if slot == Size::B4 && cpu.features.selector_words { (Size::B2, 2) } else { (slot, 0) }
}

fn push<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let selector = u64::from(cpu.segment(insn.src).selector);
    let (size, rest) = selector_slot(cpu, insn.size);
    let mut frame = Frame::current(cpu);
    frame.skip(rest.wrapping_neg());
    cpu.frame_push(cx, &mut frame, size, selector)?;
    cpu.take_stack_pointer(&frame);
    Ok(())
}

fn pop<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (size, rest) = selector_slot(cpu, insn.size);
    let mut frame = Frame::current(cpu);
    let selector = cpu.frame_pop(cx, &mut frame, size)? as u16;
    frame.skip(rest);
    cpu.load_segment(cx, insn.dst, selector)?;
    cpu.take_stack_pointer(&frame);
    cpu.shadow_after_ss(insn.dst);
    Ok(())
}

/// Reads `offset` and selector of a far pointer in memory.
fn far_pointer<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<(u64, u16)> {
    let bytes = insn.size.bytes() as u64;
    // Each part is aligned on its own.
    let linear = cpu.linear_in_pieces(&insn.mem, bytes + 2, 1, false)?;
    let offset = match insn.size {
        Size::B2 => u64::from(cpu.load::<O, u16>(cx, linear)?),
        Size::B8 => cpu.load::<O, u64>(cx, linear)?,
        _ => u64::from(cpu.load::<O, u32>(cx, linear)?),
    };
    let selector = cpu.load::<O, u16>(cx, cpu.wrap_linear(linear.wrapping_add(bytes)))?;
    Ok((offset, selector))
}

fn pointer<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (offset, selector) = far_pointer(cpu, cx, insn)?;
    cpu.load_segment(cx, insn.aux, selector)?;
    cpu.set_reg(insn.dst, T::from_u64(offset));
    Ok(())
}

/// Selector and offset of a direct far transfer.
fn immediate_pointer(insn: &Insn) -> (u16, u64) {
    ((insn.imm >> 32) as u16, insn.imm & 0xffff_ffff)
}

fn jump<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (selector, offset) = immediate_pointer(insn);
    cpu.far_jump(cx, selector, offset, cpu.rip_at(insn.end))
}

fn call<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (selector, offset) = immediate_pointer(insn);
    cpu.far_call(cx, selector, offset, insn.size, cpu.rip_at(insn.end))
}

fn jump_indirect<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (offset, selector) = far_pointer(cpu, cx, insn)?;
    cpu.far_jump(cx, selector, offset, cpu.rip_at(insn.end))
}

fn call_indirect<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (offset, selector) = far_pointer(cpu, cx, insn)?;
    cpu.far_call(cx, selector, offset, insn.size, cpu.rip_at(insn.end))
}

fn return_far<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.far_return(cx, insn.size, insn.imm as u16)
}

fn interrupt_return<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.interrupt_return(cx, insn.size, cpu.rip_at(insn.end))
}

/// Delivers an event that the instruction asks for, with the next one as return address. RF was for
/// this instruction and is not for the next.
fn software<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn, event: Event) -> Exec<()> {
    cpu.rip = cpu.rip_at(insn.end);
    cpu.system_flags &= !flags::RF;
    cpu.deliver(cx, event)
}

fn interrupt<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    software(cpu, cx, insn, Event::Software(insn.imm as u8))
}

fn breakpoint<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    software(cpu, cx, insn, Event::SoftwareException(vector::BP))
}

fn overflow<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    if cpu.flags.of() {
        return software(cpu, cx, insn, Event::SoftwareException(vector::OF));
    }
    cpu.rip = cpu.rip_at(insn.end);
    cpu.slot = 0;
    Ok(())
}

fn icebp<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    software(cpu, cx, insn, Event::Icebp)
}

fn syscall<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.system_call(cx, cpu.rip_at(insn.end))
}

fn sysret<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.system_return(cx, insn.size == Size::B8)
}

fn sysenter<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.fast_enter(cx)
}

fn sysexit<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.fast_exit(cx, insn.size == Size::B8)
}
