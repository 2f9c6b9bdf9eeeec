//! Control and debug registers and what goes with them (AMD64 APM volume 2, section 3.1).

use iced_x86::{Instruction, OpKind};

use crate::{
    class::Class,
    control_registers::{cr0, cr4, efer},
    cpu::Cpu,
    debug::DEBUG_ACCESS,
    descriptor::Segment,
    flags::Word,
    insn::{Form, Handler, Insn, Size, seg},
    lower::{End, Lowered, Lowering},
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop, vector},
};

use super::{by_size, size_of_bytes, sizes};

/// DR7.GD.
const GENERAL_DETECT: u64 = 1 << 13;

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, mut insn: Insn) -> Option<Lowered> {
    let mut end = End::Fall;
    match insn.op {
        Operation::MovToControl
        | Operation::MovFromControl
        | Operation::MovToDebug
        | Operation::MovFromDebug => {
            insn.form = Form::RegReg;
            insn.size = size_of_bytes(i.op0_register().size());
            insn.dst = l.reg(i.op0_register());
            insn.src = l.reg(i.op1_register());
            if matches!(insn.op, Operation::MovFromControl | Operation::MovFromDebug) {
                end = End::Next;
            }
        }
        Operation::Lmsw if i.op0_kind() == OpKind::Register => {
            insn.form = Form::Reg;
            insn.src = l.reg(i.op0_register());
        }
        Operation::Lmsw => insn.form = Form::Mem,
        Operation::Smsw => {
            if i.op0_kind() == OpKind::Register {
                insn.form = Form::Reg;
                insn.size = size_of_bytes(i.op0_register().size());
                insn.dst = l.reg(i.op0_register());
            } else {
                insn.form = Form::Mem;
                insn.size = Size::B2;
            }
            end = End::Next;
        }
        Operation::Clts | Operation::Invlpg => {}
        _ => return None,
    }
    Some(Lowered { insn, class: Class::NONE, end })
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::MovToControl => write_control,
        Operation::MovFromControl => read_control,
        Operation::MovToDebug => write_debug,
        Operation::MovFromDebug => read_debug,
        Operation::Clts => clts,
        Operation::Lmsw => lmsw,
        Operation::Smsw if insn.form == Form::Reg => by_size(insn.size, sizes!(smsw, O)),
        Operation::Smsw => smsw_memory,
        Operation::Invlpg => invlpg,
        _ => return None,
    })
}

fn read_control<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = match insn.src {
        0 => cpu.cr0,
        2 => cpu.cr2,
        3 => cpu.cr3,
        4 => cpu.cr4,
        8 => u64::from(cx.bus.cr8()),
        _ => return Err(Stop::UD),
    };
    cpu.require_cpl0()?;
    write_operand(cpu, insn, value);
    Ok(())
}

/// Writes a general register whole: 64 bits in 64-bit mode, else 32.
fn write_operand(cpu: &mut Cpu, insn: &Insn, value: u64) {
    let value = if cpu.in_64bit() { value } else { value & 0xffff_ffff };
    cpu.set_reg::<u64>(insn.dst, value);
}

fn read_operand(cpu: &Cpu, insn: &Insn) -> u64 {
    let value = cpu.reg::<u64>(insn.src);
    if cpu.in_64bit() { value } else { value & 0xffff_ffff }
}

fn write_control<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = read_operand(cpu, insn);
    if !matches!(insn.dst, 0 | 2 | 3 | 4 | 8) {
        return Err(Stop::UD);
    }
    cpu.require_cpl0()?;
    match insn.dst {
        0 => cpu.write_cr0(cx, value),
        2 => {
            cpu.cr2 = value;
            Ok(())
        }
        3 => cpu.write_cr3(cx, value),
        4 => cpu.write_cr4(cx, value),
        _ => {
            if value > 15 {
                return Err(Stop::GP0);
            }
            cx.bus.set_cr8(cpu.now(insn), value as u8);
            cpu.leave.ask();
            Ok(())
        }
    }
}

impl Cpu {
    fn write_cr0<O: Observer>(&mut self, cx: &mut Cx<'_, O>, value: u64) -> Exec<()> {
        let before = self.cr0;
        let no_paging_unprotected = value & cr0::PG != 0 && value & cr0::PE == 0;
        let not_written_back = value & cr0::NW != 0 && value & cr0::CD == 0;
        if value >> 32 != 0 || no_paging_unprotected || not_written_back {
            return Err(Stop::GP0);
        }
        let value = value & cr0::ALL | cr0::ET;
        let mut efer = self.efer;
        if value & !before & cr0::PG != 0 {
            let long_code = self.segment(seg::CS).attributes & Segment::LONG != 0;
            let wide_tss = self.tr.kind() & 8 != 0;
            if efer & efer::LME != 0 {
                if self.cr4 & cr4::PAE == 0 || long_code || !wide_tss {
                    return Err(Stop::GP0);
                }
                efer |= efer::LMA;
            } else if self.cr4 & cr4::PAE != 0 {
                self.load_pdptes(cx.ram, self.cr3)?;
            }
        }
        if before & !value & cr0::PG != 0 {
            if self.in_64bit() {
                return Err(Stop::GP0);
            }
            efer &= !efer::LMA;
        }
        self.cr0 = value;
        self.efer = efer;
        let changed = before ^ value;
        if changed & (cr0::PE | cr0::PG | cr0::WP) != 0 {
            self.tlb.flush_all();
        }
        if changed & (cr0::PE | cr0::PG) != 0 {
            self.leave.ask();
        }
        Ok(())
    }

    fn write_cr3<O: Observer>(&mut self, cx: &mut Cx<'_, O>, value: u64) -> Exec<()> {
        if value >> self.features.phys_bits != 0 {
            return Err(Stop::GP0);
        }
        if self.cr0 & cr0::PG != 0 && self.cr4 & cr4::PAE != 0 && !self.long_mode() {
            self.load_pdptes(cx.ram, value)?;
        }
        self.cr3 = value;
        self.tlb.flush_local();
        Ok(())
    }

    fn write_cr4<O: Observer>(&mut self, cx: &mut Cx<'_, O>, value: u64) -> Exec<()> {
        let changed = self.cr4 ^ value;
        if value & !self.features.cr4 != 0 || self.long_mode() && value & cr4::PAE == 0 {
            return Err(Stop::GP0);
        }
        let paged = self.cr0 & cr0::PG != 0;
        if paged && changed & value & cr4::PAE != 0 {
            self.load_pdptes(cx.ram, self.cr3)?;
        }
        self.cr4 = value;
        if changed & (cr4::PSE | cr4::PAE | cr4::PGE) != 0 {
            self.tlb.flush_all();
        }
        if changed & cr4::DE != 0 {
            self.refresh_watch();
        }
        Ok(())
    }

    /// Checks an access to debug register `n` and gives the register meant: DR4 and DR5 stand for
    /// DR6 and DR7 unless CR4.DE makes them invalid.
    fn debug_register(&mut self, n: u8) -> Exec<usize> {
        let n = match n {
            0..=3 | 6 | 7 => n,
            4 | 5 if self.cr4 & cr4::DE == 0 => n + 2,
            _ => return Err(Stop::UD),
        };
        self.require_cpl0()?;
        if self.dr[7] & GENERAL_DETECT != 0 {
            self.set_debug_status(DEBUG_ACCESS);
            return Err(Stop::fault(vector::DB));
        }
        Ok(usize::from(n))
    }
}

fn read_debug<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let n = cpu.debug_register(insn.src)?;
    write_operand(cpu, insn, cpu.dr[n]);
    Ok(())
}

fn write_debug<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let n = cpu.debug_register(insn.dst)?;
    let value = read_operand(cpu, insn);
    if n >= 6 && value >> 32 != 0 {
        return Err(Stop::GP0);
    }
    cpu.set_debug_register(n, value);
    cpu.leave.ask();
    Ok(())
}

fn clts<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.require_cpl0()?;
    cpu.cr0 &= !cr0::TS;
    Ok(())
}

fn lmsw<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    const WORD: u64 = cr0::PE | cr0::MP | cr0::EM | cr0::TS;
    cpu.require_cpl0()?;
    let word = if insn.form == Form::Mem {
        cpu.load_mem::<O, u16>(cx, &insn.mem)?
    } else {
        cpu.reg::<u16>(insn.src)
    };
    // PE can be set, not cleared.
    let kept = cpu.cr0 & !(WORD & !cr0::PE);
    cpu.write_cr0(cx, kept | u64::from(word) & WORD)
}

fn smsw<O: Observer, T: Word>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.set_reg(insn.dst, T::from_u64(cpu.cr0));
    Ok(())
}

fn smsw_memory<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.store_mem(cx, &insn.mem, cpu.cr0 as u16)
}

fn invlpg<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require_cpl0()?;
    // Segment limits are not checked, and a non-canonical address does nothing.
    let base = cpu.seg_base[usize::from(insn.mem.seg & 15)];
    let linear = cpu.wrap_linear(cpu.effective(&insn.mem).wrapping_add(base));
    cpu.tlb.flush_page(linear);
    Ok(())
}
