//! Descriptor tables, access rights, the interrupt flag, RFLAGS on the stack, HLT.

use iced_x86::{Code, Instruction, OpKind};

use crate::{
    access::is_canonical,
    class::Class,
    control_registers::cr4,
    cpu::{Cpu, Shadow},
    descriptor::{DescriptorTable, Segment},
    far::Frame,
    flags::{self, Word},
    insn::{Form, Handler, Insn, Size},
    lower::{End, Lowered, Lowering},
    mode::CodeSize,
    observe::{Cx, Observer},
    operation::Operation,
    segment::{Descriptor, rpl, system_type},
    stop::{Exec, Stop},
};

use super::{by_size, operand_size, sizes};

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    let mut end = End::Next;
    match insn.op {
        Operation::Cli
        | Operation::Invd
        | Operation::Wbinvd
        | Operation::Sgdt
        | Operation::Sidt => {}
        Operation::Sti | Operation::Hlt | Operation::Rsm => end = End::Fall,
        // Where IF or TF matter to the run loop, the change of the flags by POPF says so.
        Operation::Pushf | Operation::Popf => insn.size = flags_size(i.code()),
        Operation::Lgdt | Operation::Lidt => {
            insn.size = table_size(l, i.code());
            end = End::Fall;
        }
        Operation::Lldt | Operation::Ltr => {
            source(l, i, 0, &mut insn);
            end = End::Fall;
        }
        Operation::Verr | Operation::Verw => source(l, i, 0, &mut insn),
        Operation::Lar | Operation::Lsl => {
            source(l, i, 1, &mut insn);
            insn.dst = l.reg(i.op0_register());
            insn.size = operand_size(i, 0);
        }
        Operation::Sldt | Operation::Str => store_selector(l, i, &mut insn),
        Operation::Arpl => {
            let in_register = i.op0_kind() == OpKind::Register;
            insn.form = if in_register { Form::RegReg } else { Form::MemReg };
            insn.dst = l.reg(i.op0_register());
            insn.src = l.reg(i.op1_register());
        }
        _ => return None,
    }
    Some(Lowered { insn, class: Class::NONE, end })
}

/// Enters the operand of an instruction whose operand `n` is a selector in a register or in memory.
fn source(l: &Lowering, i: &Instruction, n: u32, insn: &mut Insn) {
    insn.size = Size::B2;
    insn.form = Form::RegMem;
    if i.op_kind(n) == OpKind::Register {
        insn.form = Form::RegReg;
        insn.src = l.reg(i.op_register(n));
    }
}

/// Operand size of PUSHF and POPF.
fn flags_size(code: Code) -> Size {
    match code {
        Code::Pushfw | Code::Popfw => Size::B2,
        Code::Pushfq | Code::Popfq => Size::B8,
        _ => Size::B4,
    }
}

/// LGDT, LIDT: 16-bit operands have 24 bits of base.
fn table_size(l: &Lowering, code: Code) -> Size {
    match l.code {
        CodeSize::Bits64 => Size::B8,
        _ if matches!(code, Code::Lgdt_m1632_16 | Code::Lidt_m1632_16) => Size::B2,
        _ => Size::B4,
    }
}

/// Enters the operand of SLDT and STR; `aux` is 1 for STR.
fn store_selector(l: &Lowering, i: &Instruction, insn: &mut Insn) {
    insn.aux = u8::from(insn.op == Operation::Str);
    if i.op0_kind() == OpKind::Register {
        insn.dst = l.reg(i.op0_register());
        insn.size = operand_size(i, 0);
        insn.form = Form::Reg;
    } else {
        insn.size = Size::B2;
        insn.form = Form::Mem;
    }
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match (insn.op, insn.form) {
        (Operation::Cli, _) => cli,
        (Operation::Sti, _) => sti,
        (Operation::Pushf, _) => pushf,
        (Operation::Popf, _) => popf,
        (Operation::Hlt, _) => hlt,
        (Operation::Invd | Operation::Wbinvd, _) => flush_caches,
        (Operation::Rsm, _) => rsm,
        (Operation::Lgdt, _) => lgdt,
        (Operation::Lidt, _) => lidt,
        (Operation::Sgdt, _) => sgdt,
        (Operation::Sidt, _) => sidt,
        (Operation::Lldt, _) => lldt,
        (Operation::Ltr, _) => ltr,
        (Operation::Verr, _) => verr,
        (Operation::Verw, _) => verw,
        (Operation::Lar, _) => by_size(insn.size, sizes!(lar, O)),
        (Operation::Lsl, _) => by_size(insn.size, sizes!(lsl, O)),
        (Operation::Sldt | Operation::Str, Form::Reg) => {
            by_size(insn.size, sizes!(system_selector, O))
        }
        (Operation::Sldt | Operation::Str, _) => system_selector_memory,
        (Operation::Arpl, Form::RegReg) => arpl_register,
        (Operation::Arpl, _) => arpl_memory,
        _ => return None,
    })
}

impl Cpu {
    /// #UD where selectors name no descriptors: real and virtual-8086 mode.
    fn require_protected(&self) -> Exec<()> {
        self.require(self.selectors_are_protected())
    }

    /// Sets or clears a bit of RFLAGS outside the arithmetic flags.
    fn change_flag(&mut self, flag: u64, on: bool) {
        let before = self.system_flags;
        self.system_flags = before & !flag | if on { flag } else { 0 };
        self.flags_changed(before);
    }

    /// What CLI and STI change: IF, or VIF where the virtual-mode extensions stand in for it.
    fn interrupt_flag(&self) -> Exec<u64> {
        if self.cpl <= self.iopl() || !self.protected() {
            return Ok(flags::IF);
        }
        let virtualised = if self.v8086() {
            self.cr4 & cr4::VME != 0
        } else {
            self.cr4 & cr4::PVI != 0 && self.cpl == 3
        };
        if virtualised { Ok(flags::VIF) } else { Err(Stop::GP0) }
    }

    /// PUSHF, POPF and IRET in virtual-8086 mode below IOPL 3: allowed with 16-bit operands where
    /// the virtual-mode extensions stand in for IF.
    pub(crate) fn virtual_flags(&self, size: Size) -> Exec<bool> {
        if !self.v8086() || self.iopl() == 3 {
            Ok(false)
        } else if self.cr4 & cr4::VME != 0 && size == Size::B2 {
            Ok(true)
        } else {
            Err(Stop::GP0)
        }
    }

    /// A flags image as the virtual-mode extensions show it to a program below IOPL 3: VIF as IF,
    /// and an IOPL of 3.
    pub(crate) fn virtual_interrupt_image(image: u64) -> u64 {
        let enabled = if image & flags::VIF != 0 { flags::IF } else { 0 };
        image & !flags::IF | flags::IOPL | enabled
    }

    /// A flags image with its IF as VIF, as POPF and IRET load it where [`Self::virtual_flags`].
    /// #GP(0) if that enables an interrupt that waits (VIP), or sets TF.
    pub(crate) fn virtual_image(&self, image: u64) -> Exec<u64> {
        let enables = image & flags::IF != 0;
        if image & flags::TF != 0 || enables && self.system_flags & flags::VIP != 0 {
            return Err(Stop::GP0);
        }
        Ok(image & !flags::VIF | if enables { flags::VIF } else { 0 })
    }
}

fn cli<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let flag = cpu.interrupt_flag()?;
    cpu.change_flag(flag, false);
    Ok(())
}

fn sti<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let flag = cpu.interrupt_flag()?;
    if flag == flags::VIF && cpu.system_flags & flags::VIP != 0 {
        return Err(Stop::GP0);
    }
    if flag == flags::IF && !cpu.interrupts_enabled() {
        cpu.shadow = Shadow::Sti;
    }
    cpu.change_flag(flag, true);
    Ok(())
}

fn pushf<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let mut image = cpu.rflags() & !(flags::RF | flags::VM);
    if cpu.virtual_flags(insn.size)? {
        image = Cpu::virtual_interrupt_image(image);
    }
    let mut frame = Frame::current(cpu);
    cpu.frame_push(cx, &mut frame, insn.size, image)?;
    cpu.take_stack_pointer(&frame);
    Ok(())
}

fn popf<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let virtual_interrupts = cpu.virtual_flags(insn.size)?;
    let mut frame = Frame::current(cpu);
    let mut image = cpu.frame_pop(cx, &mut frame, insn.size)?;
    let mut mask = flags::ARITHMETIC | flags::TF | flags::DF | flags::NT;
    if virtual_interrupts {
        image = cpu.virtual_image(image)?;
        mask |= flags::VIF;
    } else {
        if insn.size != Size::B2 {
            mask |= flags::AC | flags::ID;
        }
        if cpu.cpl <= cpu.iopl() || !cpu.protected() {
            mask |= flags::IF;
        }
        if cpu.cpl == 0 {
            mask |= flags::IOPL;
        }
    }
    cpu.take_stack_pointer(&frame);
    cpu.load_flags(image, mask);
    Ok(())
}

fn hlt<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.require_cpl0()?;
    Err(Stop::HALT)
}

/// INVD and WBINVD: memory is always coherent here.
fn flush_caches<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.require_cpl0()
}

/// RSM outside system-management mode.
fn rsm<O: Observer>(_: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    Err(Stop::UD)
}

fn load_table<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<DescriptorTable> {
    cpu.require_cpl0()?;
    let mut bytes = [0; 10];
    let image = if insn.size == Size::B8 { &mut bytes[..] } else { &mut bytes[..6] };
    let linear = cpu.linear_in_pieces(&insn.mem, image.len() as u64, 1, false)?;
    cpu.load_bytes(cx, linear, image)?;
    let [l0, l1, b0, b1, b2, b3, b4, b5, b6, b7] = bytes;
    let base = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    let base = if insn.size == Size::B2 { base & 0xff_ffff } else { base };
    if !is_canonical(base) {
        return Err(Stop::GP0);
    }
    Ok(DescriptorTable { base, limit: u16::from_le_bytes([l0, l1]) })
}

fn lgdt<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.gdtr = load_table(cpu, cx, insn)?;
    Ok(())
}

fn lidt<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.idtr = load_table(cpu, cx, insn)?;
    Ok(())
}

fn store_table<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    table: DescriptorTable,
) -> Exec<()> {
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&table.limit.to_le_bytes());
    bytes[2..].copy_from_slice(&table.base.to_le_bytes());
    let image = if cpu.in_64bit() { &bytes[..] } else { &bytes[..6] };
    let linear = cpu.linear_in_pieces(&insn.mem, image.len() as u64, 1, true)?;
    // An aligned word for the limit, then an aligned doubleword for the base.
    cpu.check_alignment(linear, 2)?;
    cpu.check_alignment(linear.wrapping_add(2), 4)?;
    cpu.store_bytes(cx, linear, image)
}

fn sgdt<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    store_table(cpu, cx, insn, cpu.gdtr)
}

fn sidt<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    store_table(cpu, cx, insn, cpu.idtr)
}

fn selector_operand<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<u16> {
    if insn.form == Form::RegMem { cpu.load_mem(cx, &insn.mem) } else { Ok(cpu.reg(insn.src)) }
}

fn lldt<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    use crate::stop::vector::{GP, NP};
    cpu.require_protected()?;
    cpu.require_cpl0()?;
    let selector = selector_operand(cpu, cx, insn)?;
    cpu.ldtr = cpu.load_ldtr(cx, selector, GP, NP)?;
    Ok(())
}

fn ltr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require_protected()?;
    cpu.require_cpl0()?;
    let selector = selector_operand(cpu, cx, insn)?;
    cpu.tr = cpu.load_tr(cx, selector)?;
    Ok(())
}

/// SLDT and STR: `aux` is 1 for the task register.
fn stored_selector(cpu: &Cpu, insn: &Insn) -> Exec<u16> {
    cpu.require_protected()?;
    Ok(if insn.aux == 1 { cpu.tr.selector } else { cpu.ldtr.selector })
}

fn system_selector<O: Observer, T: Word>(
    cpu: &mut Cpu,
    _: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let selector = stored_selector(cpu, insn)?;
    cpu.set_reg(insn.dst, T::from_u64(u64::from(selector)));
    Ok(())
}

fn system_selector_memory<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let selector = stored_selector(cpu, insn)?;
    cpu.store_mem(cx, &insn.mem, selector)
}

/// The descriptor of a selector operand, if the running program may see it.
fn visible<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<Option<(Descriptor, u16)>> {
    cpu.require_protected()?;
    let selector = selector_operand(cpu, cx, insn)?;
    let level = cpu.cpl.max(rpl(selector));
    let found = cpu.find_descriptor(cx, selector)?;
    Ok(found
        .filter(|descriptor| descriptor.is_conforming() || descriptor.dpl() >= level)
        .map(|descriptor| (descriptor, selector)))
}

/// Whether a system descriptor has a limit: LDT and task-state segments.
fn has_limit(cpu: &Cpu, kind: u8) -> bool {
    use system_type::{LDT, TSS16, TSS16_BUSY, TSS32, TSS32_BUSY};
    match kind {
        LDT | TSS32 | TSS32_BUSY => true,
        TSS16 | TSS16_BUSY => !cpu.long_mode(),
        _ => false,
    }
}

fn lar<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    use system_type::{CALL_GATE16, CALL_GATE32, TASK_GATE};
    let found = visible(cpu, cx, insn)?.filter(|(descriptor, _)| {
        !descriptor.is_system()
            || has_limit(cpu, descriptor.kind())
            || match descriptor.kind() {
                CALL_GATE32 => true,
                CALL_GATE16 | TASK_GATE => !cpu.long_mode(),
                _ => false,
            }
    });
    if let Some((descriptor, _)) = found {
        cpu.set_reg(insn.dst, T::from_u64(descriptor.low >> 32 & 0x00ff_ff00));
    }
    cpu.flags.set_zf(found.is_some());
    Ok(())
}

fn lsl<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let found = visible(cpu, cx, insn)?
        .filter(|(descriptor, _)| !descriptor.is_system() || has_limit(cpu, descriptor.kind()));
    if let Some((descriptor, selector)) = found {
        let limit = descriptor.segment(selector).limit;
        cpu.set_reg(insn.dst, T::from_u64(u64::from(limit)));
    }
    cpu.flags.set_zf(found.is_some());
    Ok(())
}

/// VERR and VERW: ZF says whether the segment could be accessed.
fn verify<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    allowed: impl Fn(u16) -> bool,
) -> Exec<()> {
    let found = visible(cpu, cx, insn)?
        .is_some_and(|(descriptor, _)| !descriptor.is_system() && allowed(descriptor.attributes()));
    cpu.flags.set_zf(found);
    Ok(())
}

fn verr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    verify(cpu, cx, insn, |attributes| attributes & 10 != 8)
}

fn verw<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    verify(cpu, cx, insn, |attributes| attributes & (Segment::S | 10) == Segment::S | 2)
}

/// ARPL: the destination's RPL is raised to the source's.
fn adjusted(destination: u16, source: u16) -> Option<u16> {
    (rpl(destination) < rpl(source)).then_some(destination & !3 | source & 3)
}

fn arpl_register<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require_protected()?;
    let raised = adjusted(cpu.reg(insn.dst), cpu.reg(insn.src));
    if let Some(selector) = raised {
        cpu.set_reg(insn.dst, selector);
    }
    cpu.flags.set_zf(raised.is_some());
    Ok(())
}

fn arpl_memory<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require_protected()?;
    let source = cpu.reg(insn.src);
    cpu.modify_mem(cx, &insn.mem, |cpu, selector| {
        let raised = adjusted(selector, source);
        cpu.flags.set_zf(raised.is_some());
        raised.unwrap_or(selector)
    })
}
