//! Model-specific registers, CPUID, the time-stamp counter and the performance counters.

use super::next;
use crate::{
    access::is_canonical,
    bus::{After, RdpmcRequest, Unsettled},
    control_registers::{cr0, cr4, efer},
    cpu::Cpu,
    insn::{Handler, Insn, gpr, seg},
    lower::Lowered,
    mode::CodeSize,
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop},
};

/// Addresses of the registers that belong to the processor core (AMD64 APM volume 2, appendix A).
mod index {
    pub(super) const SYSENTER_CS: u32 = 0x174;
    pub(super) const SYSENTER_ESP: u32 = 0x175;
    pub(super) const SYSENTER_EIP: u32 = 0x176;
    pub(super) const EFER: u32 = 0xc000_0080;
    pub(super) const STAR: u32 = 0xc000_0081;
    pub(super) const LSTAR: u32 = 0xc000_0082;
    pub(super) const CSTAR: u32 = 0xc000_0083;
    pub(super) const SFMASK: u32 = 0xc000_0084;
    pub(super) const FS_BASE: u32 = 0xc000_0100;
    pub(super) const GS_BASE: u32 = 0xc000_0101;
    pub(super) const KERNEL_GS_BASE: u32 = 0xc000_0102;
}

/// Lowers the instructions of this file.
pub(super) fn lower(insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Rdmsr
        | Operation::Wrmsr
        | Operation::Rdtsc
        | Operation::Rdpmc
        | Operation::Cpuid
        | Operation::Swapgs => next(insn),
        _ => None,
    }
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Rdmsr => rdmsr,
        Operation::Wrmsr => wrmsr,
        Operation::Rdtsc => rdtsc,
        Operation::Rdpmc => rdpmc,
        Operation::Cpuid => cpuid,
        Operation::Swapgs => swapgs,
        _ => return None,
    })
}

/// EDX:EAX, each zero-extended.
fn set_edx_eax(cpu: &mut Cpu, value: u64) {
    cpu.set_gpr(gpr::RAX, value & 0xffff_ffff);
    cpu.set_gpr(gpr::RDX, value >> 32);
}

impl Cpu {
    /// Reads a register of the core; `None` if it is not one.
    pub(crate) fn read_core_msr(&self, number: u32) -> Option<u64> {
        if !self.has_core_msr(number) {
            return None;
        }
        Some(match number {
            index::SYSENTER_CS => self.msrs.sysenter_cs,
            index::SYSENTER_ESP => self.msrs.sysenter_esp,
            index::SYSENTER_EIP => self.msrs.sysenter_eip,
            index::EFER => self.efer,
            index::STAR => self.msrs.star,
            index::LSTAR => self.msrs.lstar,
            index::CSTAR => self.msrs.cstar,
            index::SFMASK => self.msrs.sfmask,
            index::FS_BASE => self.segment(seg::FS).base,
            index::GS_BASE => self.segment(seg::GS).base,
            index::KERNEL_GS_BASE => self.msrs.kernel_gs_base,
            _ => return None,
        })
    }

    fn has_core_msr(&self, number: u32) -> bool {
        match number {
            index::SYSENTER_CS..=index::SYSENTER_EIP => self.features.sep,
            index::EFER | index::STAR => self.features.syscall,
            index::LSTAR..=index::SFMASK | index::FS_BASE..=index::KERNEL_GS_BASE => {
                self.features.long_mode
            }
            _ => false,
        }
    }

    /// Writes a register of the core; `Ok(false)` if it is not one, #GP(0) for a value that it
    /// cannot take.
    pub(crate) fn write_core_msr(&mut self, number: u32, value: u64) -> Exec<bool> {
        if !self.has_core_msr(number) {
            return Ok(false);
        }
        let is_address = match number {
            index::LSTAR | index::CSTAR | index::FS_BASE..=index::KERNEL_GS_BASE => true,
            // Where long mode uses all of them (SDM volume 2, "WRMSR").
            index::SYSENTER_ESP | index::SYSENTER_EIP => {
                self.features.long_mode && self.features.sysenter_in_long_mode
            }
            _ => false,
        };
        if is_address && !is_canonical(value) {
            return Err(Stop::GP0);
        }
        match number {
            index::SYSENTER_CS => self.msrs.sysenter_cs = value,
            index::SYSENTER_ESP => self.msrs.sysenter_esp = value,
            index::SYSENTER_EIP => self.msrs.sysenter_eip = value,
            index::EFER => self.write_efer(value)?,
            index::STAR => self.msrs.star = value,
            index::LSTAR => self.msrs.lstar = value,
            index::CSTAR => self.msrs.cstar = value,
            index::SFMASK => self.msrs.sfmask = value & 0xffff_ffff,
            index::FS_BASE => self.set_segment_base(seg::FS, value),
            index::GS_BASE => self.set_segment_base(seg::GS, value),
            index::KERNEL_GS_BASE => self.msrs.kernel_gs_base = value,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// EFER: LMA cannot be written, LME not while paging is on; bits that the processor lacks must
    /// be zero.
    fn write_efer(&mut self, value: u64) -> Exec<()> {
        let mut writable = efer::SCE;
        if self.features.long_mode {
            writable |= efer::LME;
        }
        if self.features.nx {
            writable |= efer::NXE;
        }
        if self.features.ffxsr {
            writable |= efer::FFXSR;
        }
        if value & !(writable | efer::LMA) != 0 {
            return Err(Stop::GP0);
        }
        let changed = (self.efer ^ value) & writable;
        if changed & efer::LME != 0 && self.cr0 & cr0::PG != 0 {
            return Err(Stop::GP0);
        }
        self.efer = self.efer & efer::LMA | value & writable;
        if changed & efer::NXE != 0 {
            self.tlb.flush_all();
        }
        Ok(())
    }

    /// Does what a write means for the run.
    pub(super) fn obey(&mut self, after: After) {
        match after {
            After::GoOn => {}
            After::Within(budget) => {
                self.deadline = budget.until;
                // It is a block of its own, and retires.
                self.retire_until = (self.retired + 1).saturating_add(budget.steps);
            }
            After::Leave => self.leave = true,
            After::DevicesMoved => {
                self.tlb.flush_all();
                self.leave = true;
            }
        }
    }

    fn set_segment_base(&mut self, n: u8, base: u64) {
        let mut segment = *self.segment(n);
        segment.base = base;
        self.set_segment(n, segment);
    }
}

/// What has been counted has to be with the owner before an instruction that looks at counters or
/// programs them. Such an instruction is a block of its own, so the time and all counts are right.
#[inline(always)]
pub(super) fn settle<O: Observer>(cpu: &Cpu, cx: &mut Cx<'_, O>) {
    if let Some(facts) = cx.observer.facts() {
        cx.bus.settle(facts, cpu.time, cpu.retired());
    }
}

fn rdmsr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require_cpl0()?;
    let number = cpu.reg::<u32>(gpr::RCX);
    let value = match cpu.read_core_msr(number) {
        Some(value) => value,
        None => {
            settle(cpu, cx);
            cx.bus.rdmsr(cpu.now(insn), number, cpu.reg(gpr::RDI)).map_err(|_| Stop::GP0)?
        }
    };
    set_edx_eax(cpu, value);
    Ok(())
}

fn wrmsr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    cpu.require_cpl0()?;
    let number = cpu.reg::<u32>(gpr::RCX);
    let value = u64::from(cpu.reg::<u32>(gpr::RDX)) << 32 | u64::from(cpu.reg::<u32>(gpr::RAX));
    if cpu.write_core_msr(number, value)? {
        return Ok(());
    }
    settle(cpu, cx);
    let edi = cpu.reg(gpr::RDI);
    let after =
        cx.bus.wrmsr(cpu.now(insn), cpu.ends(insn), number, value, edi).map_err(|_| Stop::GP0)?;
    cpu.obey(after);
    Ok(())
}

fn rdtsc<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    if cpu.cr4 & cr4::TSD != 0 {
        cpu.require_cpl0()?;
    }
    let tsc = cx.bus.tsc(cpu.now(insn));
    set_edx_eax(cpu, tsc);
    Ok(())
}

fn rdpmc<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let request = RdpmcRequest {
        index: cpu.reg::<u32>(gpr::RCX),
        cpl: cpu.cpl,
        pce: cpu.cr4 & cr4::PCE != 0,
        real_mode: !cpu.protected(),
        code_16bit: cpu.code_size() == CodeSize::Bits16,
    };
    let (time, retired) = (cpu.time, cpu.retired());
    let unsettled = cx.observer.facts().map(|facts| Unsettled { facts, time, retired });
    let value = cx.bus.rdpmc(request, unsettled).map_err(|_| Stop::GP0)?;
    set_edx_eax(cpu, value);
    Ok(())
}

fn cpuid<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    let leaf = cx.bus.cpuid(cpu.reg::<u32>(gpr::RAX), cpu.reg::<u32>(gpr::RCX));
    cpu.set_reg(gpr::RAX, leaf.eax);
    cpu.set_reg(gpr::RBX, leaf.ebx);
    cpu.set_reg(gpr::RCX, leaf.ecx);
    cpu.set_reg(gpr::RDX, leaf.edx);
    Ok(())
}

fn swapgs<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    cpu.require(cpu.in_64bit())?;
    cpu.require_cpl0()?;
    let base = cpu.segment(seg::GS).base;
    let kernel = std::mem::replace(&mut cpu.msrs.kernel_gs_base, base);
    cpu.set_segment_base(seg::GS, kernel);
    Ok(())
}
