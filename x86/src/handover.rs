//! The state that the owner takes out of a processor and puts back when something else, such as the
//! host's processor, has executed its instructions meanwhile; and single instructions on behalf of
//! that other.

use crate::{
    block::Translations,
    cpu::{Cpu, Shadow},
    observe::{Cx, Observer},
    stop::{Exception, Exec, Leave, Stop},
    timing::Budget,
};

/// The debug registers (AMD64 APM volume 2, section 13.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DebugRegisters {
    /// DR0-DR3: linear addresses of the breakpoints.
    pub addresses: [u64; 4],
    /// DR6, the status; FFFF_0FF0h after reset.
    pub status: u64,
    /// DR7, the control; 400h after reset.
    pub control: u64,
}

/// What became of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It retired, or a REP string instruction made a part of its way. A trap that follows it has
    /// been delivered.
    Done,
    /// It retired and was HLT: [`Cpu::halted`] is set.
    Halted,
    /// It would raise this exception. Nothing was delivered; the processor is as before, but for CR2
    /// after a page fault.
    Faulted(Exception),
    /// The delivery of a trap that follows it ended in a shutdown.
    Shutdown,
}

impl Cpu {
    /// The debug registers.
    #[must_use]
    pub fn debug_registers(&self) -> DebugRegisters {
        let [a0, a1, a2, a3, _, _, status, control] = self.dr;
        DebugRegisters { addresses: [a0, a1, a2, a3], status, control }
    }

    /// Sets the debug registers; fixed bits of DR6 and DR7 read as the manual has them.
    pub fn set_debug_registers(&mut self, registers: &DebugRegisters) {
        for (n, address) in registers.addresses.into_iter().enumerate() {
            self.dr[n & 3] = address;
        }
        self.set_debug_register(6, registers.status);
        self.set_debug_register(7, registers.control);
    }

    /// The four page-directory-pointer entries that legacy PAE paging caches in the processor
    /// (AMD64 APM volume 2, section 5.2.3). Zero after reset.
    #[must_use]
    pub fn pdptes(&self) -> [u64; 4] {
        self.pdptes
    }

    /// Sets the page-directory-pointer entries without looking at memory, before
    /// [`Cpu::set_control`] drops the translations made with the old ones.
    pub fn set_pdptes(&mut self, pdptes: [u64; 4]) {
        self.pdptes = pdptes;
    }

    /// What holds back interrupts for one instruction.
    #[must_use]
    pub fn shadow(&self) -> Shadow {
        self.shadow
    }

    /// Sets what holds back interrupts for one instruction.
    pub fn set_shadow(&mut self, shadow: Shadow) {
        self.shadow = shadow;
    }

    /// Sets whether an NMI is in service, so that further ones wait for IRET.
    pub fn set_nmi_blocked(&mut self, blocked: bool) {
        self.nmi_blocked = blocked;
    }

    /// Delivers an exception that was raised elsewhere. RIP is that of the faulting instruction, or
    /// of the next one after a trap.
    ///
    /// # Errors
    /// [`Stop::SHUTDOWN`] after a triple fault.
    pub fn exception<O: Observer>(&mut self, cx: &mut Cx<'_, O>, exception: Exception) -> Exec<()> {
        let stop = match exception.code {
            Some(code) => Stop::fault_code(exception.vector, code),
            None => Stop::fault(exception.vector),
        };
        self.tlb.notice_code(cx.ram);
        self.raise(cx, stop)
    }

    /// Executes the instruction at RIP unless it faults. The time that DELAY takes passes at once.
    ///
    /// It is decoded anew and not kept: `translations` only give the clock, and may be out of date.
    pub fn attempt<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Attempt {
        let before = self.retired();
        self.bound(Budget { steps: 1, ..Budget::until(u64::MAX) }, before);
        self.cycle_costs = translations.cycle_costs;
        self.leave = Leave::default();
        self.overwrote = false;
        self.notice_code(cx, translations);
        let uncached = std::mem::replace(&mut self.uncached, true);
        let mut result = self.step(cx, translations);
        self.uncached = uncached;
        if let Err(stop) = result
            && let Some(exception) = stop.exception()
        {
            self.debug_hits = 0;
            if self.retired() == before {
                return Attempt::Faulted(exception);
            }
            result = self.raise(cx, stop);
        }
        if self.debug_hits != 0
            && matches!(result, Ok(()) | Err(Stop::HALT))
            && let Some(stop) = self.debug_trap(false)
        {
            result = self.raise(cx, stop);
        }
        self.pass(self.delayed_until.saturating_sub(self.time));
        match result {
            Ok(()) | Err(Stop::RESTART) => Attempt::Done,
            Err(Stop::HALT) => {
                self.halted = true;
                Attempt::Halted
            }
            Err(_) => Attempt::Shutdown,
        }
    }
}
