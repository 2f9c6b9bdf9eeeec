//! Calls and returns, as instructions and deliveries make them.

use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::operation::Operation;

use super::Recorder;
use super::contexts::{Call, Return, Slot};
use super::records::{Callee, Where};
use crate::truth::Entered;

/// Whether an instruction is a near transfer: it changes neither the privilege nor the address space.
pub(super) fn is_near(op: Operation) -> bool {
    is_jump(op) || matches!(op, Operation::Call | Operation::Ret)
}

/// Whether an instruction goes to a place in the same function, or to another instead of this one.
pub(super) fn is_jump(op: Operation) -> bool {
    matches!(
        op,
        Operation::Jcc
            | Operation::Jmp
            | Operation::Jcxz
            | Operation::Loop
            | Operation::Loope
            | Operation::Loopne
    )
}

/// Whether an instruction may return to another stack, so that where it begins says where its return
/// address is.
pub(super) fn is_far_return(op: Operation) -> bool {
    matches!(op, Operation::RetFar | Operation::Iret)
}

impl Recorder {
    /// The slot of a return address on the stack of privilege `cpl`.
    pub(super) fn slot(&self, cpl: u8, address: u64) -> Slot {
        Slot { space: self.here.place.stack(cpl), address }
    }

    /// Follows a transfer to another function that `insn`, which has retired, made.
    #[inline(always)]
    pub(super) fn follow(&mut self, cpu: &Cpu, insn: &Insn) {
        match insn.op {
            Operation::Call => {
                let slot = Some(Slot { space: self.here.stack, address: cpu.stack_linear() });
                let next = self.running.linear.wrapping_add(u64::from(insn.end));
                self.share_out(cpu.time, 0);
                self.call_near(cpu, self.site(insn), slot, next);
            }
            Operation::Ret => {
                let popped = insn.imm + insn.size.bytes() as u64;
                let address = cpu.stack_linear().wrapping_sub(popped);
                let slot = Some(Slot { space: self.here.stack, address });
                self.share_out(cpu.time, 1);
                self.ret(cpu, slot, false);
            }
            _ => self.follow_far(cpu, insn),
        }
    }

    /// Linear address of an instruction of the running block.
    #[inline(always)]
    fn site(&self, insn: &Insn) -> u64 {
        self.running.linear.wrapping_add(u64::from(insn.start()))
    }

    /// Follows a transfer that may change the privilege.
    #[cold]
    fn follow_far(&mut self, cpu: &Cpu, insn: &Insn) {
        let (from, to) = (self.here.place.cpl, cpu.cpl());
        let inward = from == 3 && to != 3;
        let outward = from != 3 && to == 3;
        let slot = match insn.op {
            Operation::Syscall | Operation::Sysenter | Operation::Sysret | Operation::Sysexit => {
                None
            }
            op if is_far_return(op) => Some(self.slot(from, self.running.sp)),
            _ => Some(self.slot(to, cpu.stack_linear())),
        };
        self.share_out(cpu.time, 0);
        self.update_here(cpu);
        let site = self.site(insn);
        match insn.op {
            Operation::CallFar => self.call(cpu, Entered::Call, site, slot, None, inward),
            Operation::Syscall | Operation::Sysenter => {
                self.call(cpu, Entered::SystemCall, site, slot, None, from == 3);
            }
            Operation::Int | Operation::Int3 | Operation::Into | Operation::Int1 => {
                self.call(cpu, Entered::SystemCall, site, slot, None, inward);
            }
            Operation::RetFar | Operation::Iret | Operation::Sysret | Operation::Sysexit => {
                self.ret(cpu, slot, outward);
            }
            _ => {}
        }
    }

    /// A near call at the end of the running block was executed. The block is always executed at one
    /// place, so that the context and the entry say which context is called.
    #[inline(always)]
    fn call_near(&mut self, cpu: &Cpu, site: u64, slot: Option<Slot>, returns_to: u64) {
        let context = self.context(site);
        let entry = cpu.linear_rip();
        let Where { vcpu, cpl, space } = self.here.place;
        let callee = &mut self.records.records[self.running.record as usize].callee;
        if callee.from != Some(context) || callee.entry != entry {
            let called = self.contexts.callee(context, Entered::Call, site, entry, space, cpl);
            if called == context {
                // A call that gets no context of its own is noted each time.
                self.contexts.enter(vcpu, context, called, slot, Some(returns_to), false);
                return;
            }
            *callee = Callee { from: Some(context), entry, context: called };
        }
        let called = callee.context;
        self.contexts.enter(vcpu, context, called, slot, Some(returns_to), false);
        self.running.context = Some(called);
    }

    /// A function was called; the return address is at `slot`.
    #[inline(always)]
    pub(super) fn call(
        &mut self,
        cpu: &Cpu,
        entered: Entered,
        site: u64,
        slot: Option<Slot>,
        returns_to: Option<u64>,
        from_user: bool,
    ) {
        let context = self.context(site);
        let Where { vcpu, cpl, space } = self.here.place;
        let entry = cpu.linear_rip();
        let call = Call { entered, site, entry, space, cpl, slot, returns_to, from_user };
        self.running.context = Some(self.contexts.call(vcpu, context, &call));
    }

    /// A function returned by the address at `slot`, to privilege 3 from below or not.
    #[inline(always)]
    fn ret(&mut self, cpu: &Cpu, slot: Option<Slot>, to_user: bool) {
        let Where { vcpu, cpl, space } = self.here.place;
        let back = Return { to: cpu.linear_rip(), slot, to_user, space, cpl };
        self.running.context = Some(self.contexts.ret(vcpu, &back));
    }
}
