//! Calls and returns, as instructions and deliveries make them.

use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::operation::Operation;

use super::Recorder;
use super::contexts::{Call, Return, Slot};
use super::records::Where;
use crate::truth::Entered;

impl Recorder {
    /// The slot of a return address on the stack of privilege `cpl`.
    pub(super) fn slot(&self, cpl: u8, address: u64) -> Slot {
        Slot { space: if cpl == 3 { self.here.place.space + 1 } else { 0 }, address }
    }

    /// Follows a transfer to another function that `insn`, which has retired, made.
    pub(super) fn follow(&mut self, cpu: &Cpu, insn: &Insn) {
        let from_user = self.running.cpl == 3;
        let cpl = cpu.cpl();
        let sp = cpu.stack_linear();
        let site = self.running.linear.wrapping_add(u64::from(insn.start()));
        let next = self.running.linear.wrapping_add(u64::from(insn.end));
        let crosses = self.running.cpl != cpl;
        match insn.op {
            Operation::Call => {
                let slot = Some(self.slot(cpl, sp));
                self.call(cpu, Entered::Call, site, slot, Some(next), false);
            }
            Operation::CallFar => {
                let slot = Some(self.slot(cpl, sp));
                self.call(cpu, Entered::Call, site, slot, None, from_user && crosses);
            }
            Operation::Syscall | Operation::Sysenter => {
                self.call(cpu, Entered::SystemCall, site, None, None, from_user);
            }
            Operation::Int | Operation::Int3 | Operation::Into | Operation::Int1 => {
                let slot = Some(self.slot(cpl, sp));
                self.call(cpu, Entered::SystemCall, site, slot, None, from_user && crosses);
            }
            Operation::Ret => {
                let popped = insn.imm + insn.size.bytes() as u64;
                self.ret(cpu, Some(sp.wrapping_sub(popped)));
            }
            Operation::RetFar | Operation::Iret => self.ret(cpu, Some(self.running.sp)),
            Operation::Sysret | Operation::Sysexit => self.ret(cpu, None),
            _ => {}
        }
    }

    pub(super) fn call(
        &mut self,
        cpu: &Cpu,
        entered: Entered,
        site: u64,
        slot: Option<Slot>,
        returns_to: Option<u64>,
        from_user: bool,
    ) {
        self.share_out(cpu.time);
        let context = self.context(site);
        self.update_here(cpu);
        let Where { vcpu, cpl, space } = self.here.place;
        let entry = cpu.linear_rip();
        let call = Call { entered, site, entry, space, cpl, slot, returns_to, from_user };
        self.contexts.call(vcpu, context, &call);
        self.running.context = None;
    }

    pub(super) fn ret(&mut self, cpu: &Cpu, at: Option<u64>) {
        self.share_out(cpu.time);
        let slot = at.map(|at| self.slot(self.running.cpl, at));
        let to_user = self.running.cpl != 3 && cpu.cpl() == 3;
        self.update_here(cpu);
        let Where { vcpu, cpl, space } = self.here.place;
        let back = Return { to: cpu.linear_rip(), slot, to_user, space, cpl };
        self.contexts.ret(vcpu, &back);
        self.running.context = None;
    }
}
