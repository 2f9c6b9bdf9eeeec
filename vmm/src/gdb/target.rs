//! What gdb may ask of a machine that stands still, by the traits of `gdbstub`.

use std::num::NonZeroUsize;

use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints as BreakpointSupport, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint,
    HwWatchpointOps, SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use x86_cpu::control_registers::efer;
use x86_cpu::cpu::Cpu;
use x86_cpu::ram::PAGE;
use x86_cpu::stops::Watched;

use super::breakpoints::{Breakpoints, Kind};
use super::description;
use super::registers::{Feature, Number, Register, Registers, Width, X86, features};
use super::reverse::{Backwards, History};
use crate::console::Console;
use crate::engine::soft::Vcpu;
use crate::error::Error;
use crate::machine::{End, Machine};
use crate::stop::Stop;
use crate::trace::ActHit;

/// EFAULT, by which gdb is told that there is no memory.
const NO_MEMORY: u8 = 14;

/// A machine while gdb has it.
pub(super) struct Session<'a> {
    pub(super) machine: &'a mut Machine,
    pub(super) stop: &'a Stop,
    /// How many instructions may retire in all.
    pub(super) instructions: Option<u64>,
    pub(super) console: &'a mut Console,
    features: Vec<Feature>,
    description: String,
    pub(super) breakpoints: Breakpoints,
    /// The processors that are to execute one instruction.
    pub(super) stepped: Vec<usize>,
    /// Which processor gdb was told of last.
    pub(super) reported: usize,
    /// The act at which the machine stopped last (`monitor break`).
    pub(super) last_act: Option<ActHit>,
    /// Where to go back to.
    pub(super) history: History,
    /// It is to go back, and which way.
    pub(super) backwards: Option<Backwards>,
    /// How the run ended, if it has.
    pub(super) ended: Option<End>,
    /// The exit status that stands for that.
    pub(super) status: fn(End) -> u8,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        machine: &'a mut Machine,
        stop: &'a Stop,
        instructions: Option<u64>,
        console: &'a mut Console,
    ) -> Self {
        let width = Width::of(machine.vcpus.iter().map(|vcpu| &vcpu.cpu));
        let features =
            machine.vcpus.first().map_or_else(Vec::new, |vcpu| features(width, &vcpu.cpu));
        Self {
            machine,
            stop,
            instructions,
            console,
            description: description::target(width, &features),
            features,
            breakpoints: Breakpoints::default(),
            stepped: Vec::new(),
            reported: 0,
            last_act: None,
            history: History::default(),
            backwards: None,
            ended: None,
            status: End::status,
        }
    }

    /// gdb is gone: nothing stops the processors any more. How the run ended, if it has.
    pub(super) fn leave(self) -> Option<End> {
        self.machine.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.set_stops(None));
        self.machine.stop_at_no_act();
        self.ended
    }

    /// The processor of a thread; an error if there is none.
    fn vcpu(&mut self, tid: Tid) -> TargetResult<&mut Vcpu, Self> {
        self.machine.vcpus.get_mut(tid.get() - 1).ok_or(TargetError::NonFatal)
    }

    fn registers(&self) -> impl Iterator<Item = &Register> {
        self.features.iter().flat_map(|feature| &feature.registers)
    }

    /// Where in RAM a processor finds bytes at a linear address: guest-physical address, and how many lie in
    /// that page. `None` where no page is mapped or a device answers, which a read could change.
    fn find(&self, id: usize, linear: u64) -> Option<(u64, usize)> {
        let machine = &*self.machine;
        let cpu = &machine.vcpus.get(id)?.cpu;
        let linear = masked(cpu, linear)?;
        let physical = cpu.look_up(machine.memory.ram(), linear)?.physical;
        let is_device = machine.board.chipset.claims_mmio(id, physical);
        (!is_device).then_some((physical, (PAGE - linear % PAGE) as usize))
    }
}

/// A linear address as the processor's mode has it; `None` if it is not canonical.
fn masked(cpu: &Cpu, linear: u64) -> Option<u64> {
    if cpu.efer() & efer::LMA == 0 {
        return Some(linear & 0xffff_ffff);
    }
    ((linear as i64) << 16 >> 16 == linear as i64).then_some(linear)
}

/// A processor's thread.
pub(super) fn thread(id: usize) -> Tid {
    NonZeroUsize::MIN.saturating_add(id)
}

impl Target for Session<'_> {
    type Arch = X86;
    type Error = Error;

    fn base_ops(&mut self) -> BaseOps<'_, X86, Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Session<'_> {
    fn read_registers(&mut self, registers: &mut Registers, tid: Tid) -> TargetResult<(), Self> {
        let id = tid.get() - 1;
        let cpu = &self.machine.vcpus.get(id).ok_or(TargetError::NonFatal)?.cpu;
        registers.0 = self.registers().flat_map(|register| register.read(cpu)).collect();
        Ok(())
    }

    fn write_registers(&mut self, registers: &Registers, tid: Tid) -> TargetResult<(), Self> {
        let all: Vec<_> = self.registers().cloned().collect();
        self.forget().map_err(TargetError::Fatal)?;
        let cpu = &mut self.vcpu(tid)?.cpu;
        let mut rest = &registers.0[..];
        for register in all {
            let Some((bytes, behind)) = rest.split_at_checked(register.bits / 8) else { break };
            rest = behind;
            if !register.write(cpu, bytes) {
                return Err(TargetError::NonFatal);
            }
        }
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let mut done = 0;
        while done < data.len() {
            let Some(linear) = start.checked_add(done as u64) else { break };
            let Some((physical, room)) = self.find(tid.get() - 1, linear) else { break };
            let len = room.min(data.len() - done);
            if !self.machine.read_physical(physical, &mut data[done..done + len]) {
                break;
            }
            done += len;
        }
        if done == 0 && !data.is_empty() { Err(TargetError::Errno(NO_MEMORY)) } else { Ok(done) }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        let mut places = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let linear = start.checked_add(done as u64);
            let found = linear.and_then(|linear| self.find(tid.get() - 1, linear));
            let ram = self.machine.memory.ram();
            let found = found.filter(|&(at, _)| ram.page(at).is_some() && !ram.is_rom(at));
            let (physical, room) = found.ok_or(TargetError::Errno(NO_MEMORY))?;
            let len = room.min(data.len() - done);
            places.push((physical, done..done + len));
            done += len;
        }
        if !places.is_empty() {
            self.forget().map_err(TargetError::Fatal)?;
        }
        for (physical, range) in places {
            self.machine.memory.ram().write_bytes(physical, &data[range]);
        }
        Ok(())
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), Error> {
        (0..self.machine.vcpus.len()).for_each(|id| is_active(thread(id)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Session<'_> {
    fn read_register(&mut self, tid: Tid, n: Number, out: &mut [u8]) -> TargetResult<usize, Self> {
        let register = self.registers().nth(n.0).cloned().ok_or(TargetError::NonFatal)?;
        let bytes = register.read(&self.vcpu(tid)?.cpu);
        out.get_mut(..bytes.len()).ok_or(TargetError::NonFatal)?.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_register(&mut self, tid: Tid, n: Number, bytes: &[u8]) -> TargetResult<(), Self> {
        let register = self.registers().nth(n.0).cloned().ok_or(TargetError::NonFatal)?;
        self.forget().map_err(TargetError::Fatal)?;
        let written = register.write(&mut self.vcpu(tid)?.cpu, bytes);
        if written { Ok(()) } else { Err(TargetError::NonFatal) }
    }
}

impl ThreadExtraInfo for Session<'_> {
    fn thread_extra_info(&self, tid: Tid, out: &mut [u8]) -> Result<usize, Error> {
        let Some(vcpu) = self.machine.vcpus.get(tid.get() - 1) else { return Ok(0) };
        let activity = if vcpu.waits_for_startup {
            "waits for start-up"
        } else if vcpu.cpu.halted {
            "halted"
        } else {
            vcpu.cpu.mode_name()
        };
        let text = format!("processor {}, CPL {}, {activity}", tid.get() - 1, vcpu.cpu.cpl());
        let len = text.len().min(out.len());
        out[..len].copy_from_slice(&text.as_bytes()[..len]);
        Ok(len)
    }
}

impl MultiThreadResume for Session<'_> {
    fn resume(&mut self) -> Result<(), Error> {
        self.set_stops();
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Error> {
        self.stepped.clear();
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Error> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        self.machine.sees.instructions.then_some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        self.machine.sees.instructions.then_some(self)
    }
}

impl MultiThreadSchedulerLocking for Session<'_> {
    // gdb steps a thread off a breakpoint so. The others go on all the same: see `crate::gdb`.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl ReverseStep<Tid> for Session<'_> {
    // gdb does not say which thread it means: any.
    fn reverse_step(&mut self, _: Tid) -> Result<(), Error> {
        self.backwards = Some(Backwards::Step(self.reported));
        Ok(())
    }
}

impl ReverseCont<Tid> for Session<'_> {
    fn reverse_cont(&mut self) -> Result<(), Error> {
        self.backwards = Some(Backwards::Continue);
        Ok(())
    }
}

impl MultiThreadSingleStep for Session<'_> {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Error> {
        self.stepped.push(tid.get() - 1);
        Ok(())
    }
}

impl BreakpointSupport for Session<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Session<'_> {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoints.set(Kind::Software, address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(Kind::Software, address))
    }
}

impl HwBreakpoint for Session<'_> {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.breakpoints.set(Kind::Hardware, address);
        Ok(true)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(Kind::Hardware, address))
    }
}

/// What a watchpoint of gdb's watches.
fn watched(address: u64, bytes: u64, kind: WatchKind) -> Watched {
    let reads = matches!(kind, WatchKind::Read | WatchKind::ReadWrite);
    let writes = matches!(kind, WatchKind::Write | WatchKind::ReadWrite);
    Watched { address, bytes, reads, writes }
}

impl HwWatchpoint for Session<'_> {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        if bytes == 0 {
            return Ok(false);
        }
        self.breakpoints.watch(watched(address, bytes, kind));
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.unwatch(watched(address, bytes, kind)))
    }
}

impl MonitorCmd for Session<'_> {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Error> {
        let text = self.monitor(&String::from_utf8_lossy(command));
        out.write_raw(text.as_bytes());
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for Session<'_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        out: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        let text = self.description.as_bytes();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let len = length.min(text.len() - from).min(out.len());
        out[..len].copy_from_slice(&text[from..from + len]);
        Ok(len)
    }
}
