//! Model-specific registers, CPUID, the time-stamp counter and the performance counters.

use super::next;
use crate::{
    bus::{After, RdpmcRequest, Uncounted},
    control_registers::cr4,
    cpu::Cpu,
    history::Cpuid,
    insn::{Handler, Insn, gpr, seg},
    lower::Lowered,
    mode::CodeSize,
    msr::CoreMsr,
    observe::{Cx, Observer},
    operation::Operation,
    stop::{Exec, Stop},
};

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
    /// Goes on with the run, or ends it, as a write to a register says.
    #[inline(always)]
    pub(super) fn continue_after(&mut self, after: After) {
        match after {
            After::GoOn => {}
            After::Within(budget) => {
                // The instruction is a block of its own, and retires.
                self.bound(budget, self.retired + 1);
            }
            After::Leave => self.leave.ask(),
            After::DevicesMoved => {
                self.tlb.flush_all();
                self.leave.ask();
            }
        }
    }
}

/// What was observed before an instruction that reads or programs a counter. Such an instruction is a
/// block of its own, so that instructions and facts are those at its beginning.
#[inline(always)]
pub(super) fn uncounted<'a>(
    cpu: &mut Cpu,
    insn: &Insn,
    observer: &'a mut impl Observer,
) -> Option<Uncounted<'a>> {
    let (time, retired, alike) = (cpu.now(insn), cpu.retired(), cpu.take_alike());
    observer.observed().map(|observed| Uncounted { observed, time, retired, alike })
}

/// #GP(0) above CPL 0, of which the bus is told if it wants to know.
fn require_cpl0<O>(cpu: &Cpu, cx: &mut Cx<'_, O>, written: Option<u64>) -> Exec<()> {
    cpu.tell_place(cx);
    let refused = cpu.require_cpl0();
    if refused.is_err() && cpu.tells_place {
        cx.bus.refused_above_cpl0(cpu.reg(gpr::RCX), written);
    }
    refused
}

fn rdmsr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    require_cpl0(cpu, cx, None)?;
    let number = cpu.reg::<u32>(gpr::RCX);
    let value = match CoreMsr::find(number, &cpu.features) {
        Some(register) => Ok(register.read(cpu)),
        None => {
            let (now, edi) = (cpu.now(insn), cpu.reg(gpr::RDI));
            let uncounted = uncounted(cpu, insn, &mut cx.observer);
            cx.bus.rdmsr(now, number, edi, uncounted).map_err(|_| Stop::GP0)
        }
    };
    let value = value.inspect_err(|_| cpu.history.refuse(number, None))?;
    set_edx_eax(cpu, value);
    cpu.let_the_owner_stop();
    Ok(())
}

fn wrmsr<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let number = cpu.reg::<u32>(gpr::RCX);
    let value = u64::from(cpu.reg::<u32>(gpr::RDX)) << 32 | u64::from(cpu.reg::<u32>(gpr::RAX));
    require_cpl0(cpu, cx, Some(value))?;
    cpu.let_the_owner_stop();
    if let Some(register) = CoreMsr::find(number, &cpu.features) {
        let written = register.write(cpu, value);
        return written.inspect_err(|_| cpu.history.refuse(number, Some(value)));
    }
    let (now, ends, edi) = (cpu.now(insn), cpu.ends(insn), cpu.reg(gpr::RDI));
    let uncounted = uncounted(cpu, insn, &mut cx.observer);
    let after = cx.bus.wrmsr(now, ends, number, value, edi, uncounted).map_err(|_| Stop::GP0);
    let after = after.inspect_err(|_| cpu.history.refuse(number, Some(value)))?;
    cpu.continue_after(after);
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

fn rdpmc<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let request = RdpmcRequest {
        index: cpu.reg::<u32>(gpr::RCX),
        cpl: cpu.cpl,
        pce: cpu.cr4 & cr4::PCE != 0,
        real_mode: !cpu.protected(),
        code_16bit: cpu.code_size() == CodeSize::Bits16,
    };
    cpu.tell_place(cx);
    let uncounted = uncounted(cpu, insn, &mut cx.observer);
    let value = cx.bus.rdpmc(request, uncounted).map_err(|_| Stop::GP0)?;
    set_edx_eax(cpu, value);
    Ok(())
}

fn cpuid<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let function = cpu.reg::<u32>(gpr::RAX);
    let retired = cpu.retired_before(insn);
    cpu.history.cpuid = Some(Cpuid { function, retired });
    let leaf = cx.bus.cpuid(function, cpu.reg::<u32>(gpr::RCX));
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
