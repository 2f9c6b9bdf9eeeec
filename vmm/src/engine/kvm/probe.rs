//! Whether the host's processor says it is what it was told to be.
//!
//! A KVM without hardware virtualisation beneath it may run user code as it is, so that CPUID answers
//! for the host's own processor: kernels that look for features then find the wrong ones. Two
//! instructions, run at CPL 0 and at CPL 3 on a machine of their own, show it. Such a KVM falls short
//! in other respects as well, which `Keeps` lists.

use std::fmt;

use kvm_bindings::kvm_segment;
use kvm_ioctls::{VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress};

use super::host::Host;
use super::identity;
use super::run_page::{self, Exit};
use super::slots;
use super::state::{Keeps, State};
use crate::boot::memory::{GuestRam, MINIMUM, RamLayout};
use crate::error::{Error, Result};
use crate::platform::{CpuidContext, CpuidResult, Platform};

/// CPUID; OUT 80h, AL.
const CODE: [u8; 4] = [0x0F, 0xA2, 0xE6, 0x80];
/// STI; NOP; NOP; OUT 80h, AL.
const OPEN_WINDOW: [u8; 5] = [0xFB, 0x90, 0x90, 0xE6, 0x80];
const CODE_ADDRESS: u64 = 0x1000;
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

/// Runs CPUID on `host` and compares.
///
/// # Errors
/// If the host refuses, or cannot even run this.
pub(super) fn leaks(host: &Host, platform: &Platform) -> Result<Vec<Leak>> {
    let (_memory, vm) = machine(host, &CODE)?;
    let mut vcpu = host.create_vcpu(&vm, 0)?;
    let cpuid = identity::cpuid(platform, 0).ok_or_else(|| failed(&"CPUID is too long"))?;
    vcpu.set_cpuid2(&cpuid).map_err(|e| failed(&e))?;

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
            match run_page::enter(&mut vcpu)? {
                Exit::Io { port: 0x80, .. } => {}
                other => return Err(failed(&format_args!("CPUID ends in {other:?}"))),
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

/// What `host` keeps of a state and of its promises.
///
/// # Errors
/// If the host refuses, or cannot even run this.
pub(super) fn keeps(host: &Host) -> Result<Keeps> {
    let (_memory, vm) = machine(host, &OPEN_WINDOW)?;
    let interrupt_window = has_interrupt_window(&mut host.create_vcpu(&vm, 0)?)?;
    Keeps::of(&host.create_vcpu(&vm, 1)?, interrupt_window)
}

/// Whether KVM, if it is asked for the interrupt window, comes back at CPL 0 when STI has opened it.
/// The processor is of a machine with [`OPEN_WINDOW`].
fn has_interrupt_window(vcpu: &mut VcpuFd) -> Result<bool> {
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

fn failed(why: &dyn fmt::Display) -> Error {
    Error::Host(format!("cannot try out KVM: {why}"))
}

/// Memory with `code` at [`CODE_ADDRESS`], and a machine that has it.
fn machine(host: &Host, code: &[u8]) -> Result<(GuestRam, VmFd)> {
    let memory = RamLayout::new(MINIMUM, None)?.allocate()?;
    memory.write_slice(code, GuestAddress(CODE_ADDRESS)).map_err(|e| failed(&e))?;
    let vm = host.create_vm()?;
    vm.set_tss_address(super::TSS_ADDRESS).map_err(|e| failed(&e))?;
    slots::register(&vm, &memory, None)?;
    Ok((memory, vm))
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
