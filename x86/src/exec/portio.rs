//! Port input and output (AMD64 APM volume 2, section 12.2.5; volume 3).

use iced_x86::{Instruction, OpKind, Register};

use crate::{
    class::Class,
    cpu::Cpu,
    flags::{self, Word},
    insn::{AddrMask, Form, Handler, Insn, Mem, ZERO, gpr},
    lower::{End, Lowered, Lowering},
    observe::{Access, Cx, Direction, Observer, Target},
    operation::Operation,
    segment::system_type::{TSS32, TSS32_BUSY},
    stop::{Exec, Stop},
};

use super::{by_size, size_of_bytes, sizes};

/// Where a task-state segment has the offset of its I/O-permission bitmap.
const BITMAP_AT: u64 = 102;
/// Smallest limit of a task-state segment that has one.
const BITMAP_LIMIT: u32 = 103;

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    let end = match insn.op {
        Operation::In => {
            port_operands(i, 0, &mut insn);
            End::Next
        }
        Operation::Out => {
            port_operands(i, 1, &mut insn);
            End::Fall
        }
        Operation::Ins => {
            string_operand(l, i, 0, &mut insn);
            End::Fall
        }
        Operation::Outs => {
            string_operand(l, i, 1, &mut insn);
            End::Fall
        }
        _ => return None,
    };
    Some(Lowered { insn, class: Class::NONE, end })
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match insn.op {
        Operation::In => sizes!(input, O),
        Operation::Out => sizes!(output, O),
        Operation::Ins => sizes!(ins, O),
        Operation::Outs => sizes!(outs, O),
        _ => return None,
    };
    Some(by_size(insn.size, handlers))
}

/// Enters the operands of IN and OUT, with the data in operand `data` and the port in the other one.
fn port_operands(i: &Instruction, data: u32, insn: &mut Insn) {
    insn.size = size_of_bytes(i.op_register(data).size());
    insn.form = Form::RegReg;
    insn.src = gpr::RDX;
    if i.op_kind(1 - data) != OpKind::Register {
        insn.form = Form::RegImm;
        insn.imm = u64::from(i.immediate8());
    }
}

/// Enters the operand of INS and OUTS, with the memory in operand `data`; `aux` is 1 with a repeat
/// prefix.
fn string_operand(l: &Lowering, i: &Instruction, data: u32, insn: &mut Insn) {
    let mask = match i.op_kind(data) {
        OpKind::MemoryESDI | OpKind::MemorySegSI => AddrMask::Bits16,
        OpKind::MemoryESEDI | OpKind::MemorySegESI => AddrMask::Bits32,
        _ => AddrMask::Bits64,
    };
    let (base, segment) =
        if data == 0 { (gpr::RDI, Register::ES) } else { (gpr::RSI, l.memory_segment(i)) };
    insn.mem = Mem { disp: 0, base, index: ZERO, scale: 0, seg: l.segment(segment), mask };
    insn.size = size_of_bytes(i.memory_size().size());
    insn.form = Form::Mem;
    insn.aux = u8::from(i.has_rep_prefix() || i.has_repne_prefix());
}

impl Cpu {
    /// Offset of the I/O-permission bitmap in the task-state segment; #GP(0) if that has none.
    pub(crate) fn io_bitmap<O: Observer>(&mut self, cx: &mut Cx<'_, O>) -> Exec<u32> {
        let wide = matches!(self.tr.kind(), TSS32 | TSS32_BUSY);
        if !self.tr.present() || !wide || self.tr.limit < BITMAP_LIMIT {
            return Err(Stop::GP0);
        }
        let address = self.wrap_linear(self.tr.base.wrapping_add(BITMAP_AT));
        Ok(u32::from(self.load_system::<O, u16>(cx, address)?))
    }

    /// Whether the running program may access `bytes` ports from `port`: by IOPL, or by the
    /// bitmap in the task-state segment; else #GP(0).
    fn check_port<O: Observer>(&mut self, cx: &mut Cx<'_, O>, port: u16, bytes: usize) -> Exec<()> {
        if !self.protected() || !self.v8086() && self.cpl <= self.iopl() {
            return Ok(());
        }
        let at = self.io_bitmap(cx)? + u32::from(port >> 3);
        if at + 1 > self.tr.limit {
            return Err(Stop::GP0);
        }
        let address = self.wrap_linear(self.tr.base.wrapping_add(u64::from(at)));
        let bits: u16 = self.load_system(cx, address)?;
        if bits >> (port & 7) & ((1 << bytes) - 1) == 0 { Ok(()) } else { Err(Stop::GP0) }
    }

    /// Counts an access to `bytes` ports from `port`.
    fn count_port<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        port: u16,
        bytes: usize,
        direction: Direction,
    ) {
        cx.observer.io_access();
        let (port, bytes) = (u64::from(port), bytes as u64);
        if O::SEES_ADDRESSES {
            cx.observer.accessed(Access {
                linear: port,
                physical: port,
                second_page: None,
                bytes: bytes as u32,
                elements: 1,
                direction,
                target: Target::Port,
            });
        }
        if self.alignment.covers_ports() && self.alignment.is_misaligned(port, bytes) {
            cx.observer.misaligned();
        }
    }

    /// Moves a string instruction's pointer or counter on by `step`, in its address size.
    fn advance(&mut self, register: u8, mask: AddrMask, step: u64) {
        let before = self.gpr(register);
        let value = before.wrapping_add(step) & mask.value();
        let kept = if mask == AddrMask::Bits16 { before & !0xffff } else { 0 };
        self.set_gpr(register, kept | value);
    }

    /// After an iteration of INS or OUTS on the pointer in `register`: whether another one
    /// follows. An error if the instruction stops here, to be executed again.
    fn another_iteration<T: Word>(&mut self, insn: &Insn, register: u8) -> Exec<bool> {
        let backwards = self.system_flags & flags::DF != 0;
        let step = T::BYTES as u64;
        let mask = insn.mem.mask;
        self.advance(register, mask, if backwards { step.wrapping_neg() } else { step });
        if insn.aux == 0 {
            return Ok(false);
        }
        self.advance(gpr::RCX, mask, u64::MAX);
        if self.gpr(gpr::RCX) & mask.value() == 0 {
            return Ok(false);
        }
        self.iterated(1);
        if self.stops_between_iterations(insn) {
            Err(self.stop_between_iterations())
        } else {
            Ok(true)
        }
    }

    /// A repeated instruction with a count of zero does nothing.
    fn has_iterations(&self, insn: &Insn) -> bool {
        insn.aux == 0 || self.gpr(gpr::RCX) & insn.mem.mask.value() != 0
    }
}

fn number(cpu: &Cpu, insn: &Insn) -> u16 {
    if insn.form == Form::RegImm { insn.imm as u16 } else { cpu.reg(gpr::RDX) }
}

fn input<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let port = number(cpu, insn);
    cpu.check_port(cx, port, T::BYTES)?;
    cpu.port_match(cx, port, T::BYTES as u64);
    cpu.count_port(cx, port, T::BYTES, Direction::Load);
    let value = cx.bus.io_read(cpu.now(insn), port, T::BYTES);
    // A read of a device may change its interrupts as a write does.
    cpu.accessed_device();
    cpu.set_reg(gpr::RAX, T::from_u64(u64::from(value)));
    Ok(())
}

fn output<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let port = number(cpu, insn);
    cpu.check_port(cx, port, T::BYTES)?;
    cpu.port_match(cx, port, T::BYTES as u64);
    cpu.count_port(cx, port, T::BYTES, Direction::Store);
    let value = cpu.reg::<T>(gpr::RAX).to_u64() as u32;
    cx.bus.io_write(cpu.now(insn), port, T::BYTES, value);
    cpu.accessed_device();
    Ok(())
}

fn ins<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    if !cpu.has_iterations(insn) {
        return Ok(());
    }
    let port = cpu.reg::<u16>(gpr::RDX);
    cpu.check_port(cx, port, T::BYTES)?;
    loop {
        // The port is read only when its value has a place to go.
        let linear = cpu.linear_in_pieces(&insn.mem, T::BYTES as u64, T::BYTES as u64, true)?;
        cpu.probe_write(cx, linear, T::BYTES as u64)?;
        cpu.port_match(cx, port, T::BYTES as u64);
        cpu.count_port(cx, port, T::BYTES, Direction::Load);
        let value = cx.bus.io_read(cpu.now(insn), port, T::BYTES);
        cpu.accessed_device();
        cpu.store(cx, linear, T::from_u64(u64::from(value)))?;
        if !cpu.another_iteration::<T>(insn, gpr::RDI)? {
            return Ok(());
        }
        cx.observer.commit(cpu, cx.ram, insn);
        cpu.pass_modelled(cx);
    }
}

fn outs<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    if !cpu.has_iterations(insn) {
        return Ok(());
    }
    let port = cpu.reg::<u16>(gpr::RDX);
    cpu.check_port(cx, port, T::BYTES)?;
    loop {
        let value = cpu.load_mem::<O, T>(cx, &insn.mem)?;
        cpu.port_match(cx, port, T::BYTES as u64);
        cpu.count_port(cx, port, T::BYTES, Direction::Store);
        cx.bus.io_write(cpu.now(insn), port, T::BYTES, value.to_u64() as u32);
        cpu.accessed_device();
        if !cpu.another_iteration::<T>(insn, gpr::RSI)? {
            return Ok(());
        }
        cx.observer.commit(cpu, cx.ram, insn);
        cpu.pass_modelled(cx);
    }
}
