//! Segment registers, far transfers, software interrupts and system calls.

use iced_x86::{Code, Instruction, Mnemonic, OpKind};

use crate::{
    cpu::Cpu,
    far::Frame,
    flags::{self, Word},
    gate::Event,
    insn::{Form, Handler, Insn, Size, seg},
    lower::{End, Lowered, Lowering, segment_number},
    mode::CodeSize,
    observe::{Cx, Observer},
    stop::{Exec, Stop, vector},
};

use super::{by_size, size_of_bytes, sizes};

/// Lowers the instructions of this file.
pub(crate) fn lower<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let segment = |n| i.op_kind(n) == OpKind::Register && i.op_register(n).is_segment_register();
    match i.mnemonic() {
        Mnemonic::Mov if segment(0) => Some(move_to_segment(l, i)),
        Mnemonic::Mov if segment(1) => Some(move_from_segment(l, i)),
        Mnemonic::Push if segment(0) => {
            let insn = Insn { src: segment_number(i.op0_register()), ..stack_insn(l, i) };
            Some(Lowered { run: push::<O>, insn, end: End::Next })
        }
        Mnemonic::Pop if segment(0) => {
            let dst = segment_number(i.op0_register());
            let insn = Insn { dst, ..stack_insn(l, i) };
            let run = if dst == seg::CS { invalid::<O> } else { pop::<O> };
            Some(Lowered { run, insn, end: end_of_load(l, dst) })
        }
        Mnemonic::Les => Some(load_pointer(l, i, seg::ES)),
        Mnemonic::Lds => Some(load_pointer(l, i, seg::DS)),
        Mnemonic::Lss => Some(load_pointer(l, i, seg::SS)),
        Mnemonic::Lfs => Some(load_pointer(l, i, seg::FS)),
        Mnemonic::Lgs => Some(load_pointer(l, i, seg::GS)),
        _ => transfer(l, i),
    }
}

/// Lowers far transfers.
fn transfer<O: Observer>(l: &Lowering, i: &Instruction) -> Option<Lowered<O>> {
    let direct = |size| Insn {
        imm: u64::from(i.far_branch_selector()) << 32
            | match size {
                Size::B2 => u64::from(i.far_branch16()),
                _ => u64::from(i.far_branch32()),
            },
        size,
        ..l.insn(i)
    };
    let sized = |size| Insn { size, ..l.insn(i) };
    let returning =
        |size| Insn { imm: if i.op_count() > 0 { i.immediate(0) } else { 0 }, size, ..l.insn(i) };
    let (run, insn): (Handler<O>, Insn) = match i.code() {
        Code::Jmp_ptr1616 => (jump::<O>, direct(Size::B2)),
        Code::Jmp_ptr1632 => (jump::<O>, direct(Size::B4)),
        Code::Call_ptr1616 => (call::<O>, direct(Size::B2)),
        Code::Call_ptr1632 => (call::<O>, direct(Size::B4)),
        Code::Jmp_m1616 => (jump_indirect::<O>, sized(Size::B2)),
        Code::Jmp_m1632 => (jump_indirect::<O>, sized(Size::B4)),
        Code::Jmp_m1664 => (jump_indirect::<O>, sized(Size::B8)),
        Code::Call_m1616 => (call_indirect::<O>, sized(Size::B2)),
        Code::Call_m1632 => (call_indirect::<O>, sized(Size::B4)),
        Code::Call_m1664 => (call_indirect::<O>, sized(Size::B8)),
        Code::Retfw | Code::Retfw_imm16 => (return_far::<O>, returning(Size::B2)),
        Code::Retfd | Code::Retfd_imm16 => (return_far::<O>, returning(Size::B4)),
        Code::Retfq | Code::Retfq_imm16 => (return_far::<O>, returning(Size::B8)),
        Code::Iretw => (interrupt_return::<O>, sized(Size::B2)),
        Code::Iretd => (interrupt_return::<O>, sized(Size::B4)),
        Code::Iretq => (interrupt_return::<O>, sized(Size::B8)),
        Code::Int_imm8 => (interrupt::<O>, Insn { imm: u64::from(i.immediate8()), ..l.insn(i) }),
        Code::Int3 => (breakpoint::<O>, l.insn(i)),
        Code::Into => (overflow::<O>, l.insn(i)),
        Code::Int1 => (icebp::<O>, l.insn(i)),
        Code::Syscall => (syscall::<O>, l.insn(i)),
        Code::Sysretd => (sysret::<O>, sized(Size::B4)),
        Code::Sysretq => (sysret::<O>, sized(Size::B8)),
        Code::Sysenter => (sysenter::<O>, l.insn(i)),
        Code::Sysexitd => (sysexit::<O>, sized(Size::B4)),
        Code::Sysexitq => (sysexit::<O>, sized(Size::B8)),
        _ => return None,
    };
    Some(Lowered { run, insn, end: End::Far })
}

/// How a load of segment register `n` ends: what follows is lowered for DS, ES and SS outside
/// 64-bit mode, and SS holds back interrupts.
fn end_of_load(l: &Lowering, n: u8) -> End {
    if n == seg::SS || l.code != CodeSize::Bits64 { End::Fall } else { End::Next }
}

fn stack_insn(l: &Lowering, i: &Instruction) -> Insn {
    let bytes = i.stack_pointer_increment().unsigned_abs() as usize;
    Insn { size: size_of_bytes(bytes), ..l.insn(i) }
}

fn move_to_segment<O: Observer>(l: &Lowering, i: &Instruction) -> Lowered<O> {
    let dst = segment_number(i.op0_register());
    let mut insn = Insn { dst, size: Size::B2, form: Form::RegMem, ..l.insn(i) };
    let mut run: Handler<O> = load_from_memory::<O>;
    if i.op1_kind() == OpKind::Register {
        insn.form = Form::RegReg;
        insn.src = l.reg(i.op1_register());
        run = load_from_register::<O>;
    }
    if dst == seg::CS {
        run = invalid::<O>;
    }
    Lowered { run, insn, end: end_of_load(l, dst) }
}

fn move_from_segment<O: Observer>(l: &Lowering, i: &Instruction) -> Lowered<O> {
    let mut insn = Insn { src: segment_number(i.op1_register()), ..l.insn(i) };
    let run = if i.op0_kind() == OpKind::Register {
        insn.form = Form::RegReg;
        insn.dst = l.reg(i.op0_register());
        insn.size = size_of_bytes(i.op0_register().size());
        by_size(insn.size, sizes!(store_to_register, O))
    } else {
        insn.form = Form::MemReg;
        insn.size = Size::B2;
        store_to_memory::<O>
    };
    Lowered { run, insn, end: End::Next }
}

fn load_pointer<O: Observer>(l: &Lowering, i: &Instruction, n: u8) -> Lowered<O> {
    let size = size_of_bytes(i.op0_register().size());
    let insn = Insn { size, form: Form::RegMem, dst: l.reg(i.op0_register()), aux: n, ..l.insn(i) };
    let run = by_size(size, sizes!(pointer, O));
    Lowered { run, insn, end: end_of_load(l, n) }
}

fn invalid<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Err(Stop::UD)
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
