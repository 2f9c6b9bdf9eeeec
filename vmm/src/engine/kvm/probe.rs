//! Whether the host's processor says it is what it was told to be, and has no counters of its own.
//!
//! A KVM without hardware virtualisation beneath it may run user code as it is, so that CPUID answers
//! for the host's own processor: kernels that look for features then find the wrong ones. Two
//! instructions, run at CPL 0 and at CPL 3 on a machine of their own, show it. So do two for RDPMC,
//! which a KVM with a PMU for its guests executes. The former kind falls short in other respects as
//! well, which `Support` lists.

use std::fmt;

use kvm_bindings::{
    KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_USE_HW_BP, kvm_dtable, kvm_guest_debug, kvm_segment,
};
use kvm_ioctls::{VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress};
use x86_cpu::control_registers::{cr0, cr4, efer};

use super::host::Host;
use super::identity;
use super::run_page::{self, Exit};
use super::slots;
use super::state::{State, Support};
use crate::boot::memory::{GuestRam, MINIMUM, RamLayout};
use crate::error::{Error, Result};
use crate::platform::{CpuidContext, CpuidResult, Platform};

/// CPUID; OUT 80h, AL.
const CODE: [u8; 4] = [0x0F, 0xA2, 0xE6, 0x80];
/// STI; NOP; NOP; OUT 80h, AL.
const OPEN_WINDOW: [u8; 5] = [0xFB, 0x90, 0x90, 0xE6, 0x80];
/// How often KVM must exit in [`OPEN_WINDOW`] to be taken to do so always.
const WINDOW_TRIES: u32 = 5;
/// RDPMC; OUT 80h, AL.
const RDPMC: [u8; 4] = [0x0F, 0x33, 0xE6, 0x80];
/// NOP; NOP; UD2, which has no handler.
const NOPS: [u8; 4] = [0x90, 0x90, 0x0F, 0x0B];
const CODE_ADDRESS: u64 = 0x1000;
/// Page tables, one a level; present, writable, open to CPL 3; and large.
const PML4: u64 = 0x2000;
const PDPT: u64 = 0x3000;
const DIRECTORY: u64 = 0x4000;
const OPEN: u64 = 7;
const LARGE: u64 = 1 << 7;
/// Vendor, signature and features, and the same of the extended functions.
const FUNCTIONS: [u32; 4] = [0, 1, 0x8000_0000, 0x8000_0001];
/// RFLAGS: bit 1, and IOPL 3 for the OUT at CPL 3.
const RFLAGS: u64 = 2 | 3 << 12;
/// CR0: PE, ET.
const CR0: u64 = 1 | 1 << 4;

/// A CPUID function that does not answer as the personality does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The function.
    pub function: u32,
    /// Where it was executed.
    pub cpl: u8,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, cpl } = self;
        write!(f, "CPUID function {function:X}h at CPL {cpl} is not the personality's on this KVM")
    }
}

/// A machine that begins with `code`.
fn machine(host: &Host, platform: &Platform, code: &[u8]) -> Result<(VcpuFd, VmFd, GuestRam)> {
    let memory = RamLayout::new(MINIMUM, None)?.allocate()?;
    memory.write_slice(code, GuestAddress(CODE_ADDRESS)).map_err(|e| failed(&e))?;
    let vm = host.create_vm()?;
    vm.set_tss_address(super::TSS_ADDRESS).map_err(|e| failed(&e))?;
    slots::register(&vm, &memory, None)?;
    let vcpu = host.create_vcpu(&vm, 0)?;
    let cpuid = identity::cpuid(platform, 0).ok_or_else(|| failed(&"CPUID is too long"))?;
    vcpu.set_cpuid2(&cpuid).map_err(|e| failed(&e))?;
    Ok((vcpu, vm, memory))
}

fn failed(why: &dyn fmt::Display) -> Error {
    Error::Host(format!("cannot try out KVM: {why}"))
}

/// Makes sure that RDPMC does not read counters of KVM's own: the engine would never hear of it.
///
/// # Errors
/// If it does, if the host refuses, or cannot even run this.
pub(super) fn has_no_counters(host: &Host, platform: &Platform) -> Result<()> {
    if is_executed(host, platform, RDPMC)? {
        return Err(Error::Host(
            "this KVM has a PMU of its own, which Linux 5.18 can switch off; boot a newer kernel, \
             load the kvm module with enable_pmu=0, or use --engine soft"
                .into(),
        ));
    }
    Ok(())
}

/// Whether KVM executes an instruction at CPL 0 and comes to the OUT behind it. There is no handler for
/// an exception.
fn is_executed(host: &Host, platform: &Platform, code: [u8; 4]) -> Result<bool> {
    let (mut vcpu, _vm, _memory) = machine(host, platform, &code)?;
    let mut state = State::from_kvm(&mut vcpu)?;
    enter_at(&mut state, 0, 0);
    state.sregs.idt = kvm_dtable::default();
    state.to_kvm(&mut vcpu)?;
    comes_to_the_out(&mut vcpu)
}

/// Whether the guest comes to the OUT; else it shuts down.
fn comes_to_the_out(vcpu: &mut VcpuFd) -> Result<bool> {
    loop {
        match run_page::enter(vcpu)? {
            Exit::Io { port: 0x80, .. } => return Ok(true),
            Exit::Shutdown | Exit::EmulationFailure => return Ok(false),
            // A signal.
            Exit::Nothing => {}
            other => return Err(failed(&format_args!("a trial ends in {other:?}"))),
        }
    }
}

/// Runs CPUID on `host` and compares.
///
/// # Errors
/// If the host refuses, or cannot even run this.
pub(super) fn leaks(host: &Host, platform: &Platform) -> Result<Vec<Leak>> {
    let (mut vcpu, _vm, _memory) = machine(host, platform, &CODE)?;
    let mut leaks = Vec::new();
    let known = |function: &u32| platform.cpuid.iter().any(|leaf| leaf.function == *function);
    for function in FUNCTIONS.into_iter().filter(known) {
        let expected = platform.cpuid(
            function,
            0,
            CpuidContext { apic_enabled: true, ..CpuidContext::default() },
        );
        for cpl in [0, 3] {
            let mut state = State::from_kvm(&mut vcpu)?;
            enter_at(&mut state, function, cpl);
            state.to_kvm(&mut vcpu)?;
            if !comes_to_the_out(&mut vcpu)? {
                return Err(failed(&"CPUID is not executed"));
            }
            let regs = State::from_kvm(&mut vcpu)?.regs;
            // The registers of a CPUID are 32 bits wide.
            let [eax, ebx, ecx, edx] = [regs.rax, regs.rbx, regs.rcx, regs.rdx].map(|r| r as u32);
            if (CpuidResult { eax, ebx, ecx, edx }) != expected {
                leaks.push(Leak { function, cpl });
            }
        }
    }
    Ok(leaks)
}

/// Which parts of a processor's state `host` supports, found by trying.
///
/// # Errors
/// If the host refuses, or cannot even run this.
pub(super) fn support(host: &Host, platform: &Platform) -> Result<Support> {
    let (mut vcpu, vm, _memory) = machine(host, platform, &OPEN_WINDOW)?;
    let interrupt_window = has_interrupt_window(&mut vcpu)?;
    // One that refuses to run this does not stop there either. Other parts do not come there.
    let breakpoints =
        !platform.features.long_mode || stops_at_breakpoints(host, platform).unwrap_or(false);
    Support::of(&host.create_vcpu(&vm, 1)?, interrupt_window, breakpoints)
}

/// Whether KVM stops at a breakpoint in 64-bit code at CPL 3. One that leaves such code to the host's processor as it
/// is may not.
fn stops_at_breakpoints(host: &Host, platform: &Platform) -> Result<bool> {
    let (mut vcpu, _vm, memory) = machine(host, platform, &NOPS)?;
    for (at, entry) in [(PML4, PDPT | OPEN), (PDPT, DIRECTORY | OPEN), (DIRECTORY, OPEN | LARGE)] {
        memory.write_obj(entry, GuestAddress(at)).map_err(|e| failed(&e))?;
    }
    let mut state = State::from_kvm(&mut vcpu)?;
    enter_at(&mut state, 0, 3);
    let s = &mut state.sregs;
    (s.cs.l, s.cs.db) = (1, 0);
    s.idt = kvm_dtable::default();
    (s.cr0, s.cr3, s.cr4) = (CR0 | cr0::PG, PML4, cr4::PAE);
    s.efer = efer::LME | efer::LMA;
    state.to_kvm(&mut vcpu)?;
    let mut debug = kvm_guest_debug {
        control: KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_USE_HW_BP,
        ..kvm_guest_debug::default()
    };
    // The second NOP. DR7: L0 and G0, and bit 10, which reads as one.
    debug.arch.debugreg[0] = CODE_ADDRESS + 1;
    debug.arch.debugreg[7] = 0x403;
    vcpu.set_guest_debug(&debug).map_err(|e| failed(&e))?;
    loop {
        match run_page::enter(&mut vcpu)? {
            Exit::Debug(_) => return Ok(true),
            // A signal.
            Exit::Nothing => {}
            _ => return Ok(false),
        }
    }
}

/// Whether KVM, if it is asked for the interrupt window, exits at CPL 0 when STI has opened it.
/// The processor is of a machine with [`OPEN_WINDOW`].
///
/// A KVM that ignores the request looks at it all the same when the host's scheduler happens to
/// interrupt the guest in the window (once in 5000 tries on a busy host), so one try says nothing.
fn has_interrupt_window(vcpu: &mut VcpuFd) -> Result<bool> {
    for _ in 0..WINDOW_TRIES {
        if !exits_at_window(vcpu)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same of one try.
fn exits_at_window(vcpu: &mut VcpuFd) -> Result<bool> {
    let mut state = State::from_kvm(vcpu)?;
    enter_at(&mut state, 0, 0);
    state.to_kvm(vcpu)?;
    vcpu.get_kvm_run().request_interrupt_window = 1;
    loop {
        match run_page::enter(vcpu)? {
            Exit::Io { port: 0x80, .. } => return Ok(false),
            // That, or a signal.
            Exit::Nothing => {}
            other => return Err(failed(&format_args!("STI ends in {other:?}"))),
        }
        if vcpu.get_kvm_run().ready_for_interrupt_injection != 0 {
            return Ok(true);
        }
    }
}

/// 32-bit protected mode with flat segments at `cpl`, before CPUID of `function`.
fn enter_at(state: &mut State, function: u32, cpl: u8) {
    let segment = |selector: u16, type_| kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector: selector | u16::from(cpl),
        type_,
        present: 1,
        dpl: cpl,
        db: 1,
        s: 1,
        l: 0,
        g: 1,
        avl: 0,
        unusable: 0,
        padding: 0,
    };
    // Code, execute and read, accessed; data, read and write, accessed; busy 32-bit TSS.
    let (code, data) = (segment(8, 11), segment(16, 3));
    let s = &mut state.sregs;
    (s.cs, s.ss, s.ds, s.es, s.fs, s.gs) = (code, data, data, data, data, data);
    s.tr = kvm_segment { selector: 24, limit: 0x67, s: 0, dpl: 0, db: 0, g: 0, ..segment(0, 11) };
    (s.cr0, s.cr3, s.cr4, s.efer) = (CR0, 0, 0, 0);
    state.regs.rip = CODE_ADDRESS;
    state.regs.rflags = RFLAGS;
    state.regs.rax = function.into();
    state.regs.rcx = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However busy the host is: every part's run asks again.
    #[test]
    #[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
    fn the_window_is_found_or_not_but_always_the_same() {
        let host = Host::open().expect("this test needs /dev/kvm");
        let platform = Platform::by_name("k8").unwrap();
        let (mut vcpu, _vm, _memory) = machine(&host, platform, &OPEN_WINDOW).unwrap();
        let first = has_interrupt_window(&mut vcpu).unwrap();
        for round in 0..20_000 {
            assert_eq!(has_interrupt_window(&mut vcpu).unwrap(), first, "round {round}");
        }
    }

    /// Two NOPs are executed, RDPMC and UD2 are not: there is neither a counter nor a handler.
    #[test]
    #[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
    fn what_is_executed_is_told_from_what_faults() {
        let host = Host::open().expect("this test needs /dev/kvm");
        let platform = Platform::by_name("k8").unwrap();
        let executed = |a, b| is_executed(&host, platform, [a, b, 0xE6, 0x80]).unwrap();
        assert!(executed(0x90, 0x90));
        assert!(!executed(0x0F, 0x0B));
        assert!(!executed(0x0F, 0x33), "RDPMC");
        assert!(has_no_counters(&host, platform).is_ok());
    }
}
