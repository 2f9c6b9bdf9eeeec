//! What an exit asks of the machine, done to it: accesses to ports, to the memory of devices and to model-specific
//! registers. The rest, which needs the processor itself, is said to the thread.
//!
//! Nothing here needs a host's KVM: an [`Exit`] is plain references, which the tests make by hand.

use super::run_page::Exit;
use super::traced::Noted;
use crate::machine::Machine;
use crate::trace::{Access, MsrAccess};

/// What is left to do after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Halted,
    Shutdown,
    Emulate,
    /// A breakpoint, with this in DR6.
    Stopped(u64),
}

impl Next {
    /// Whether KVM has raised an exception of its own for what it cannot do.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Shutdown | Self::Emulate)
    }
}

/// What has come of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Performed {
    /// What is left to do.
    pub(super) next: Next,
    /// KVM may go on asking when it runs next, by the second half of an access or a further iteration, and has not
    /// completed the instruction.
    pub(super) unfinished: bool,
}

impl Performed {
    fn only(next: Next) -> Self {
        Self { next, unfinished: false }
    }
}

/// Does to the machine what an exit of processor `id` asks for, at virtual time `now`. What is to be traced of it is
/// `noted`.
pub(super) fn perform(
    exit: Exit<'_>,
    machine: &mut Machine,
    id: usize,
    now: u64,
    noted: &mut Noted,
) -> Performed {
    let board = &mut machine.board;
    match exit {
        Exit::Io { port, size, input, data } => {
            for operand in data.chunks_exact_mut(usize::from(size.max(1))) {
                if input {
                    let value = board.read_port(now, port, size).to_le_bytes();
                    operand.copy_from_slice(&value[..operand.len()]);
                } else {
                    let mut value = [0; 4];
                    value[..operand.len()].copy_from_slice(operand);
                    board.write_port(now, port, size, u32::from_le_bytes(value));
                }
            }
            Performed { next: Next::GoOn, unfinished: true }
        }
        Exit::Mmio { gpa, write, data } => {
            let size = data.len() as u8;
            if write {
                let mut value = [0; 8];
                value[..data.len()].copy_from_slice(data);
                noted.lapic = board.write_mmio(id, now, gpa, size, u64::from_le_bytes(value));
            } else {
                let value = board.read_mmio(id, now, gpa, size).to_le_bytes();
                data.copy_from_slice(&value[..data.len()]);
            }
            Performed { next: Next::GoOn, unfinished: true }
        }
        // KVM does not say what is in EDI. It raises #GP, which the software CPU takes back.
        Exit::Rdmsr { index, refused, .. } | Exit::Wrmsr { index, refused, .. }
            if machine.vcpus[id].bank.passcode(index).is_some() =>
        {
            *refused = 1;
            Performed { next: Next::Emulate, unfinished: true }
        }
        Exit::Rdmsr { index, value, refused } => {
            match access_msr(machine, id, now, index, None, noted) {
                Some(read) => *value = read,
                None => *refused = 1,
            }
            Performed::only(Next::GoOn)
        }
        Exit::Wrmsr { index, value, refused } => {
            let written = access_msr(machine, id, now, index, Some(value), noted);
            *refused = written.is_none().into();
            Performed::only(Next::GoOn)
        }
        Exit::Halt => Performed::only(Next::Halted),
        Exit::Shutdown => Performed::only(Next::Shutdown),
        Exit::EmulationFailure => Performed::only(Next::Emulate),
        Exit::Debug(debug) => Performed::only(Next::Stopped(debug.dr6)),
        Exit::Nothing => Performed::only(Next::GoOn),
    }
}

/// RDMSR, or WRMSR of a value: what was read or written; `None` for #GP.
fn access_msr(
    machine: &mut Machine,
    id: usize,
    now: u64,
    index: u32,
    written: Option<u64>,
    noted: &mut Noted,
) -> Option<u64> {
    let lapic_enabled = machine.board.chipset.irq.lapic(id).hardware_enabled();
    let vcpu = &mut machine.vcpus[id];
    let mut msrs = vcpu.msrs(&mut machine.board);
    let outcome = match written {
        None => msrs.read(now, index, 0),
        Some(value) => msrs.write(now, index, value, 0).map(|()| value),
    };
    drop(msrs);
    if outcome.is_err() {
        vcpu.cpu.history.refused_elsewhere(index, written);
    }
    let outcome = outcome.map_err(|_| Access::Refused);
    noted.msr = Some(MsrAccess { index, written, outcome, lapic_enabled });
    outcome.ok()
}

#[cfg(test)]
#[path = "exits_tests.rs"]
mod tests;
