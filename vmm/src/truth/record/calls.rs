//! Calls and returns, as instructions and deliveries make them.

use x86_cpu::cpu::Cpu;
use x86_cpu::insn::Insn;
use x86_cpu::operation::Operation;

use super::Recorder;
use super::contexts::{Call, Return};
use super::records::{Callee, Where};
use super::stacks::Slot;
use crate::truth::Entered;

/// What the last instruction of a block does.
///
/// The near transfers change neither the privilege nor the address space, and each is a branch: the number
/// of executions is that of branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// A jump to a place in the same function, or to another function instead of this one.
    Jump,
    /// The same, which may also not be taken.
    Conditional,
    /// A near call, with the offsets of its first byte and of the next instruction in the block.
    Call { start: u16, end: u16 },
    /// A near return, which pops so many bytes.
    Return { popped: u64 },
    /// A far return, which may go to another stack, so that where it begins says where its return address
    /// is.
    FarReturn,
    /// Anything else.
    Other,
}

impl Ending {
    pub(super) fn of(insn: &Insn) -> Self {
        match insn.op {
            Operation::Jmp => Self::Jump,
            Operation::Jcc
            | Operation::Jcxz
            | Operation::Jkzd
            | Operation::Jknzd
            | Operation::Loop
            | Operation::Loope
            | Operation::Loopne => Self::Conditional,
            Operation::Call => Self::Call { start: insn.start(), end: insn.end },
            Operation::Ret => {
                Self::Return { popped: insn.imm.wrapping_add(insn.size.bytes() as u64) }
            }
            Operation::RetFar | Operation::Iret => Self::FarReturn,
            _ => Self::Other,
        }
    }

    /// Whether it is a near transfer.
    pub(super) fn is_near(self) -> bool {
        !matches!(self, Self::FarReturn | Self::Other)
    }
}

impl Recorder {
    /// The slot of a return address on the stack of privilege `cpl`.
    pub(super) fn slot(&self, cpl: u8, address: u64) -> Slot {
        Slot { space: self.here.place.stack(cpl), address }
    }

    /// Follows a transfer that may change the privilege.
    #[cold]
    pub(super) fn follow_far(&mut self, cpu: &Cpu, insn: &Insn) {
        let (from, to) = (self.here.place.cpl, cpu.cpl());
        let inward = from == 3 && to != 3;
        let outward = from != 3 && to == 3;
        let slot = match insn.op {
            Operation::Syscall | Operation::Sysenter | Operation::Sysret | Operation::Sysexit => {
                Slot::REGISTER
            }
            Operation::RetFar | Operation::Iret => self.slot(from, self.running.sp),
            _ => self.slot(to, cpu.stack_linear()),
        };
        self.share_out(cpu.time, cpu.retired());
        self.update_here(cpu);
        let site = self.running.linear.wrapping_add(u64::from(insn.start()));
        match insn.op {
            Operation::CallFar => self.call(cpu, Entered::Call, site, slot, inward),
            Operation::Syscall | Operation::Sysenter => {
                self.call(cpu, Entered::SystemCall, site, slot, from == 3);
            }
            Operation::Int | Operation::Int3 | Operation::Into | Operation::Int1 => {
                self.call(cpu, Entered::SystemCall, site, slot, inward);
            }
            Operation::RetFar | Operation::Iret | Operation::Sysret | Operation::Sysexit => {
                self.ret(cpu.linear_rip(), slot, outward);
            }
            _ => {}
        }
    }

    /// The near call that ends the running block, `start` bytes into it, came to a context or an entry that it did not
    /// come to the last time.
    #[cold]
    #[inline(never)]
    pub(super) fn call_another(&mut self, entry: u64, start: u16, slot: Slot, returns_to: u64) {
        let Where { cpl, space, .. } = self.here.place;
        let site = self.running.linear.wrapping_add(u64::from(start));
        let from = self.contexts.current(site, space, cpl);
        let called = self.contexts.callee(Entered::Call, site, entry, space, cpl);
        // A call that gets no context of its own is noted each time.
        if called != from {
            let callee = &mut self.records.records[self.running.found.record as usize].callee;
            let callee =
                std::mem::replace(callee, Callee { from, entry, context: called, times: 1 });
            if callee.times != 0 {
                self.contexts.note_times(callee.context, callee.times);
            }
        }
        self.contexts.call_near(called, slot, returns_to);
    }

    /// A function was called that is no near one; the return address is at `slot`.
    pub(super) fn call(
        &mut self,
        cpu: &Cpu,
        entered: Entered,
        site: u64,
        slot: Slot,
        from_user: bool,
    ) {
        let Where { cpl, space, .. } = self.here.place;
        let entry = cpu.linear_rip();
        self.contexts.current(site, space, cpl);
        self.contexts.call(&Call { entered, site, entry, space, cpl, slot, from_user });
    }

    /// A function returned by the address at `slot`, to privilege 3 from below or not.
    #[cold]
    #[inline(never)]
    pub(super) fn ret(&mut self, to: u64, slot: Slot, to_user: bool) {
        let Where { cpl, space, .. } = self.here.place;
        self.contexts.ret(&Return { to, slot, to_user, space, cpl });
    }
}
