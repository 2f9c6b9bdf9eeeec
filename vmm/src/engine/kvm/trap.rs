//! Spurious exceptions: those that KVM raises and the guest's processor would not.
//!
//! KVM raises #GP for RDPMC where it has no PMU of its own to offer, #UD for what only Knights Corner has
//! (SPFLT, DELAY, the vector unit) and for whatever else its host does not do. None of these comes out of
//! `KVM_RUN`. So a breakpoint of ours is on the first instruction of the guest's own #GP and #UD
//! handlers, found through its interrupt table. When a vCPU stops there, the frame on its stack leads
//! back to the instruction that faulted. If the software CPU does not fault on it in the same state,
//! the exception was spurious: the instruction has been executed, the frame is gone, and the guest
//! goes on behind it. Else the exception is the guest's, and the first instruction of the handler is
//! executed in KVM's stead, which would stop at it again.
//!
//! # Use
//!
//! ```text
//! let mut trap = Trap::new(&mut vcpu);
//! loop {
//!     trap.arm(&mut vcpu, ram, &[])?;                   // before every KVM_RUN
//!     match exit {
//!         Debug(arch) => {
//!             let state = State::from_kvm(&mut vcpu)?;
//!             state.to_cpu(&mut cpu);                   // whatever is translated
//!             trap.stopped(arch.dr6, &state, &mut cpu, &mut cx, &mut translations);
//!             state.set_from_cpu(&cpu);
//!             // A KVM that does not keep a state, such as paging outside long mode, raises #GP for
//!             // the instruction that leads to it: !support.holds(&cpu) says that the guest is to stay
//!             // on the software CPU from here on, until a state fits again.
//!             state.to_kvm(&mut vcpu)?;
//!         }
//!         InternalError(emulation) => {                 // KVM_INTERNAL_ERROR_EMULATION
//!             let mut state = State::from_kvm(&mut vcpu)?;
//!             state.drop_exception();                   // KVM has queued #UD on top of it
//!             state.to_cpu(&mut cpu);
//!             trap::execute(&mut cpu, &mut cx, &mut translations);
//!             ...
//!         Shutdown => ...                               // the same with trap::shut_down
//! ```
//!
//! # A debugger's breakpoints
//!
//! [`FREE`] of KVM's four breakpoints are left to a debugger of this process's ([`crate::gdb`]). Nothing of the
//! guest's is touched by these, neither memory nor its debug registers. One may be at a handler of ours: the
//! processor stops there for the debugger if the exception is the guest's own.
//!
//! # Limits
//!
//! The interrupt table is looked at whenever `KVM_RUN` comes back. A guest that moves a handler and
//! faults before its next exit sees the exception. KVM has four breakpoints, and takes them all from
//! the guest: when the guest enables one of its own, ours go, and the processor belongs on the software
//! CPU ([`Trap::has_yielded`]) until it has disabled it; in KVM it would see RDPMC, SPFLT and, at CPL 3
//! of some hosts, INT n raise exceptions. Its debug registers are looked at every [`LOOK_EVERY`] entries
//! and at every stop; until then its own breakpoints do not work.
//! Handlers behind task gates are not found.

use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions};
use kvm_bindings::{
    KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_USE_HW_BP, kvm_dtable, kvm_guest_debug, kvm_guest_debug_arch,
    kvm_segment, kvm_sregs,
};
use kvm_ioctls::{SyncReg, VcpuFd};
use x86_cpu::block::Translations;
use x86_cpu::control_registers::{cr0, efer};
use x86_cpu::cpu::Cpu;
use x86_cpu::handover::Attempt;
use x86_cpu::insn::seg;
use x86_cpu::mode::CodeSize;
use x86_cpu::observe::{Cx, Plain};
use x86_cpu::ram::Ram;
use x86_cpu::stop::{Exception, vector};

use super::linear::Linear;
use super::state::State;
use crate::error::{Error, Result};

/// Entries into the guest between two looks at its debug registers.
pub(super) const LOOK_EVERY: u32 = 128;
/// Breakpoints that KVM has.
const ALL: usize = 4;
/// Whose handlers have breakpoints, by number of the breakpoint.
const VECTORS: [u8; 2] = [vector::GP, vector::UD];
/// Breakpoints that are left to a debugger, those behind the handlers'.
pub(super) const FREE: usize = ALL - VECTORS.len();
/// DR7: bit 10 reads as one; GEn.
const DR7_ONE: u64 = 1 << 10;
/// The bits of DR7 that enable breakpoints.
const DR7_ENABLES: u64 = 0xff;
/// DR6: BD, BS and BT, which say of a debug exception that it is no breakpoint's.
const DR6_OTHERS: u64 = 0xe000;

/// Where a processor begins after reset (APM volume 2, table 14-1).
const RESET_RIP: u64 = 0xfff0;
const RESET_CS_BASE: u64 = 0xffff_0000;

/// Linear addresses of the handlers of [`VECTORS`], those that there are, and of a debugger's breakpoints.
type Addresses = [Option<u64>; ALL];

/// The breakpoints of one vCPU.
#[derive(Debug)]
pub(super) struct Trap {
    /// `None` if KVM may have those of an earlier run.
    armed: Option<Addresses>,
    /// The guest uses breakpoints of its own.
    yielded: bool,
    entries: u32,
}

impl Trap {
    /// None so far. From now on each `KVM_RUN` leaves the system registers in the run page.
    #[must_use]
    pub(super) fn new(vcpu: &mut VcpuFd) -> Self {
        vcpu.set_sync_valid_reg(SyncReg::SystemRegister);
        Self { armed: None, yielded: false, entries: 0 }
    }

    /// Has the breakpoints where the guest's handlers are now, and at those of a debugger, of which there are
    /// [`FREE`] at most. To be called before every `KVM_RUN`; takes a system call only if one has moved.
    ///
    /// # Errors
    /// If KVM refuses.
    pub(super) fn arm(&mut self, vcpu: &mut VcpuFd, ram: &Ram, debugger: &[u64]) -> Result<()> {
        self.entries = self.entries.wrapping_add(1);
        if self.entries.is_multiple_of(LOOK_EVERY) {
            let registers = vcpu.get_debug_regs().map_err(|e| {
                Error::Host(format!("KVM does not give debug registers: {e}")).because(e)
            })?;
            self.note_guest_breakpoints(registers.dr7 & DR7_ENABLES != 0);
        }
        let mut wanted = Addresses::default();
        if !self.yielded {
            let registers = &vcpu.sync_regs_mut().sregs;
            let handlers = VECTORS.map(|vector| handler(ram, registers, vector));
            let all = handlers.into_iter().chain(debugger.iter().map(|&address| Some(address)));
            wanted.iter_mut().zip(all).for_each(|(wanted, address)| *wanted = address);
        }
        if self.armed != Some(wanted) {
            vcpu.set_guest_debug(&breakpoints(&wanted))
                .map_err(|e| Error::Host(format!("KVM refuses breakpoints: {e}")).because(e))?;
            self.armed = Some(wanted);
        }
        Ok(())
    }

    /// Goes on from a debug exit with `dr6`. The processor has the `state`. Afterwards it is where
    /// the guest goes on, or at a breakpoint of a debugger's.
    pub(super) fn stopped(
        &mut self,
        dr6: u64,
        state: &State,
        cpu: &mut Cpu,
        cx: &mut Cx<'_, Plain>,
        translations: &mut Translations<Plain>,
    ) -> Attempt {
        self.note_guest_breakpoints(state.guest_uses_breakpoints());
        let armed = self.armed.unwrap_or_default();
        let hits: Vec<_> = (0..ALL).filter(|n| dr6 >> n & 1 != 0 && armed[*n].is_some()).collect();
        if hits.is_empty() {
            // While we have breakpoints, KVM hands us all debug exceptions of the guest.
            let mut registers = cpu.debug_registers();
            registers.status |= dr6 & DR6_OTHERS;
            cpu.set_debug_registers(&registers);
            return deliver(cpu, cx, Exception { vector: vector::DB, code: None });
        }
        let memory = Linear::new(cx.ram, &state.sregs);
        for vector in hits.iter().filter_map(|&n| VECTORS.get(n)) {
            let spurious = cpu
                .unwind(cx, *vector)
                .is_some_and(|fault| fault.proven || is_unknown_to_kvm(cpu, &memory));
            if spurious {
                let attempt = cpu.attempt(cx, translations);
                if !matches!(attempt, Attempt::Faulted(_)) {
                    return attempt;
                }
            }
            state.to_cpu(cpu);
        }
        if cpu.stops_here() {
            return Attempt::Done;
        }
        execute(cpu, cx, translations)
    }

    /// Removes our breakpoints while the guest has enabled some of its own: KVM has four for both.
    pub(super) fn note_guest_breakpoints(&mut self, used: bool) {
        if used && !self.yielded {
            log::warn!(
                "the guest uses its debug registers: the software engine has all processors until it \
                 has disabled its breakpoints"
            );
        } else if !used && self.yielded {
            log::warn!("the guest has disabled its breakpoints: KVM has the processors again");
        }
        self.yielded = used;
    }

    /// Whether the guest uses breakpoints of its own: in KVM it would see spurious exceptions.
    pub(super) fn has_yielded(&self) -> bool {
        self.yielded
    }
}

/// Whether the guest has enabled breakpoints.
pub(super) fn has_breakpoints(cpu: &Cpu) -> bool {
    cpu.debug_registers().control & DR7_ENABLES != 0
}

/// Executes the instruction at RIP on the software CPU; its fault is the guest's.
pub(super) fn execute(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, Plain>,
    translations: &mut Translations<Plain>,
) -> Attempt {
    match cpu.attempt(cx, translations) {
        Attempt::Faulted(exception) => deliver(cpu, cx, exception),
        other => other,
    }
}

/// Goes on from a triple fault: a guest without handlers comes to that by the same spurious exceptions.
/// One of the guest's own ends on the software CPU as well. Not all KVMs leave the processor
/// where it was: with SVM beneath they reset it.
pub(super) fn shut_down(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, Plain>,
    translations: &mut Translations<Plain>,
) -> Attempt {
    if cpu.rip == RESET_RIP && cpu.segment(seg::CS).base == RESET_CS_BASE {
        return Attempt::Shutdown;
    }
    execute(cpu, cx, translations)
}

fn deliver(cpu: &mut Cpu, cx: &mut Cx<'_, Plain>, exception: Exception) -> Attempt {
    match cpu.exception(cx, exception) {
        Ok(()) => Attempt::Done,
        Err(_) => Attempt::Shutdown,
    }
}

/// Whether the instruction at RIP is one that no KVM executes. A 16-bit frame does not tell a fault
/// from INT n or an interrupt with the same vector, which come back to an instruction that nothing is
/// wrong with; only one of these is then taken for the cause.
fn is_unknown_to_kvm(cpu: &Cpu, memory: &Linear<'_>) -> bool {
    let start = cpu.segment(seg::CS).base.wrapping_add(cpu.rip);
    let mut code = [0; 15];
    let mut len = 0;
    for byte in &mut code {
        let Some([value]) = memory.read(start.wrapping_add(len as u64)) else { break };
        *byte = value;
        len += 1;
    }
    let bits = match cpu.code_size() {
        CodeSize::Bits16 => 16,
        CodeSize::Bits32 => 32,
        CodeSize::Bits64 => 64,
    };
    let instruction = Decoder::new(bits, &code[..len], DecoderOptions::KNC).decode();
    instruction.code() == Code::Rdpmc || instruction.cpuid_features().contains(&CpuidFeature::KNC)
}

/// What KVM is to be told for breakpoints on these addresses.
fn breakpoints(addresses: &Addresses) -> kvm_guest_debug {
    let mut debugreg = [0; 8];
    for (n, address) in addresses.iter().enumerate() {
        if let Some(address) = address {
            debugreg[n] = *address;
            // Ln and Gn; R/Wn and LENn zero: instruction fetch.
            debugreg[7] |= DR7_ONE | 3 << (2 * n);
        }
    }
    let control = if debugreg[7] == 0 { 0 } else { KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_USE_HW_BP };
    kvm_guest_debug { control, pad: 0, arch: kvm_guest_debug_arch { debugreg } }
}

/// The linear address of a vector's handler (AMD64 APM volume 2, sections 8.6 to 8.9); `None` if no
/// interrupt or trap gate leads to one.
fn handler(ram: &Ram, registers: &kvm_sregs, vector: u8) -> Option<u64> {
    let memory = Linear::new(ram, registers);
    let r = registers;
    let number = u64::from(vector);
    if r.cr0 & cr0::PE == 0 {
        let pointer = u64::from(u32::from_le_bytes(memory.read(entry(&r.idt, number, 4)?)?));
        return Some((pointer >> 16) * 16 + (pointer & 0xffff));
    }
    let long = r.efer & efer::LMA != 0;
    let at = entry(&r.idt, number, if long { 16 } else { 8 })?;
    let gate = u64::from_le_bytes(memory.read(at)?);
    // Present; 16-bit, then 32-bit interrupt and trap gates. The latter are 64-bit in long mode.
    let offset = match gate >> 40 & 0x9f {
        0x86 | 0x87 if !long => gate & 0xffff,
        0x8e | 0x8f => gate & 0xffff | gate >> 48 << 16,
        _ => return None,
    };
    if long {
        let upper = u32::from_le_bytes(memory.read(at.wrapping_add(8))?);
        return Some(offset | u64::from(upper) << 32);
    }
    let base = segment_base(&memory, r, (gate >> 16) as u16)?;
    Some(base.wrapping_add(offset) & 0xffff_ffff)
}

/// The base of a segment, from its descriptor (APM volume 2, figure 4-14).
fn segment_base(memory: &Linear<'_>, registers: &kvm_sregs, selector: u16) -> Option<u64> {
    const TABLE: u16 = 4;
    let table = if selector & TABLE == 0 { registers.gdt } else { as_table(&registers.ldt)? };
    let at = entry(&table, u64::from(selector >> 3), 8)?;
    let descriptor = u64::from_le_bytes(memory.read(at)?);
    Some(descriptor >> 16 & 0xff_ffff | descriptor >> 56 << 24)
}

fn as_table(ldt: &kvm_segment) -> Option<kvm_dtable> {
    let limit = ldt.limit.min(0xffff) as u16;
    (ldt.unusable == 0).then_some(kvm_dtable { base: ldt.base, limit, padding: [0; 3] })
}

/// The address of an entry of a descriptor table, if the table reaches so far.
fn entry(table: &kvm_dtable, number: u64, bytes: u64) -> Option<u64> {
    let offset = number * bytes;
    (offset + (bytes - 1) <= u64::from(table.limit)).then(|| table.base.wrapping_add(offset))
}

#[cfg(test)]
mod tests;
