//! What a processor in KVM has traced ([`crate::trace`]): what ends in this process. While KVM executes a
//! processor nobody counts its instructions, and RDMSR and WRMSR above CPL 0 do not leave the kernel.

use kvm_ioctls::VcpuFd;
use x86_cpu::cpu::Cpu;

use super::state;
use crate::engine::Board;
use crate::irq::lapic::PmiOutcome;
use crate::trace::{Act, At, Code, LapicAccess, MsrAccess};

/// What an exit has come to.
#[derive(Default)]
pub(super) struct Noted {
    /// Overflows of counters for which the host's count.
    pub(super) overflows: Vec<Act>,
    /// What became of their interrupts.
    pub(super) pmis: Vec<PmiOutcome>,
    /// A store to the local APIC.
    pub(super) lapic: Option<LapicAccess>,
    /// An access to a model-specific register.
    pub(super) msr: Option<MsrAccess>,
}

impl Noted {
    /// Traces it. `at` is asked for if something is traced.
    pub(super) fn trace(self, board: &mut Board, id: usize, at: impl FnOnce() -> At) {
        let Self { overflows, pmis, lapic, msr } = self;
        if board.tracer.is_none()
            || overflows.is_empty() && pmis.is_empty() && lapic.is_none() && msr.is_none()
        {
            return;
        }
        let at = at();
        overflows.into_iter().for_each(|act| board.trace(id, at, act));
        pmis.into_iter().for_each(|outcome| board.trace_pmi(id, at, outcome));
        if let Some(access) = lapic {
            access.trace(board, id, at);
        }
        if let Some(access) = msr {
            access.trace(board, id, at);
        }
    }
}

/// Where a processor in KVM is, at time `now`.
pub(super) fn at(fd: &mut VcpuFd, cpu: &Cpu, now: u64) -> At {
    let is_to_come = fd.get_kvm_run().kvm_dirty_regs != 0;
    let code = if is_to_come {
        // KVM takes the registers when it runs next.
        At::from(cpu.place()).code
    } else {
        let registers = fd.get_regs().ok().zip(fd.get_sregs().ok());
        registers.map(|(regs, sregs)| {
            let cpl = state::cpl(&regs, &sregs);
            Code { cs: sregs.cs.selector, rip: regs.rip, cpl }
        })
    };
    At { time: now, code, retired: None }
}
