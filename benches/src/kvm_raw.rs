//! KVM without vpmu: the smallest loop around KVM_RUN, to measure against.
//!
//! One of the modules with `unsafe`: it hands guest memory to the host's kernel.

#![allow(unsafe_code)]

use std::time::Duration;

use iced_x86::code_asm::CodeAssembler;
use kvm_bindings::{
    KVM_CAP_X86_USER_SPACE_MSR, KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_USE_HW_BP,
    KVM_MSR_EXIT_REASON_FILTER, kvm_enable_cap, kvm_guest_debug, kvm_guest_debug_arch, kvm_segment,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{
    Kvm, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, SyncReg, VcpuExit, VcpuFd,
    VmFd,
};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use crate::kvm_exits::END_PORT;
use crate::{Result, clock};

const MEMORY: usize = 2 << 20;
const CODE: u64 = 0x10_0000;
/// Where KVM may keep pages of its own, outside of the guest's memory.
const TSS_ADDRESS: usize = 0xFFFB_D000;
/// Registers whose accesses come out of KVM_RUN: the counters of K8.
const FILTERED: u32 = 0xC001_0000;
/// Where breakpoints are that nothing comes to.
const NOWHERE: u64 = 0x1_0000;
/// PE, ET.
const CR0: u64 = 1 | 1 << 4;
/// DR7: bit 10 reads as one.
const DR7_ONE: u64 = 1 << 10;

/// What KVM is asked for besides to run the guest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burden {
    /// KVM_SET_GUEST_DEBUG, and how many breakpoints it enables.
    pub(crate) breakpoints: Option<u32>,
    /// The system registers are in the run page after each exit.
    pub(crate) sync: bool,
}

/// Runs 32-bit code at CPL 0 with flat segments until it writes to [`END_PORT`], and does nothing at
/// the exits on the way. The processor time that it takes.
pub(crate) fn run(code: &mut CodeAssembler, burden: Burden) -> Result<Duration> {
    let memory: GuestMemoryMmap<()> = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)])?;
    memory.write_slice(&code.assemble(CODE)?, GuestAddress(CODE))?;
    let vm = machine(&memory)?;
    let mut vcpu = vm.create_vcpu(0)?;
    enter_at(&vcpu, CODE)?;
    if let Some(number) = burden.breakpoints {
        vcpu.set_guest_debug(&breakpoints(number))?;
    }
    if burden.sync {
        vcpu.set_sync_valid_reg(SyncReg::SystemRegister);
    }
    let started = clock::process()?;
    loop {
        match vcpu.run()? {
            VcpuExit::IoOut(END_PORT, _) => return Ok(clock::process()?.saturating_sub(started)),
            VcpuExit::IoOut(..) => {}
            VcpuExit::X86Rdmsr(exit) => *exit.data = 0,
            other => return Err(format!("the bare guest stopped for {other:?}").into()),
        }
    }
}

/// A machine with this memory that lets its user answer for the counters.
fn machine(memory: &GuestMemoryMmap<()>) -> Result<VmFd> {
    let kvm = Kvm::new().map_err(|e| format!("cannot open /dev/kvm: {e}"))?;
    let vm = kvm.create_vm()?;
    vm.set_tss_address(TSS_ADDRESS)?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY as u64,
        userspace_addr: memory.get_host_address(GuestAddress(0))? as u64,
    };
    // SAFETY: the region is a readable and writable mapping of this size. The caller keeps it until
    // the processor has run for the last time, and holds no reference into it.
    unsafe { vm.set_user_memory_region(region) }?;
    vm.enable_cap(&kvm_enable_cap {
        cap: KVM_CAP_X86_USER_SPACE_MSR,
        args: [KVM_MSR_EXIT_REASON_FILTER.into(), 0, 0, 0],
        ..Default::default()
    })?;
    let refused = MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base: FILTERED,
        msr_count: 8,
        bitmap: &[0],
    };
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &[refused])?;
    Ok(vm)
}

/// 32-bit protected mode at CPL 0 with flat segments, at `rip`.
fn enter_at(vcpu: &VcpuFd, rip: u64) -> Result<()> {
    let mut sregs = vcpu.get_sregs()?;
    // Code, execute and read, accessed; data, read and write, accessed; busy 32-bit TSS.
    let code = kvm_segment {
        limit: u32::MAX,
        selector: 8,
        type_: 11,
        present: 1,
        db: 1,
        s: 1,
        g: 1,
        ..Default::default()
    };
    let data = kvm_segment { selector: 16, type_: 3, ..code };
    let task = kvm_segment { selector: 24, limit: 0x67, s: 0, db: 0, g: 0, ..code };
    (sregs.cs, sregs.tr) = (code, task);
    (sregs.ss, sregs.ds, sregs.es, sregs.fs, sregs.gs) = (data, data, data, data, data);
    sregs.cr0 = CR0;
    vcpu.set_sregs(&sregs)?;
    let mut regs = vcpu.get_regs()?;
    regs.rip = rip;
    // Bit 1 is always one.
    regs.rflags = 2;
    vcpu.set_regs(&regs)?;
    Ok(())
}

/// `number` breakpoints that are never reached; with none, DR7 that enables none.
fn breakpoints(number: u32) -> kvm_guest_debug {
    let mut debugreg = [0; 8];
    debugreg[7] = DR7_ONE;
    for n in 0..number.min(4) as usize {
        debugreg[n] = NOWHERE + 16 * n as u64;
        // Ln and Gn; R/Wn and LENn zero: instruction fetch.
        debugreg[7] |= 3 << (2 * n);
    }
    kvm_guest_debug {
        control: KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_USE_HW_BP,
        pad: 0,
        arch: kvm_guest_debug_arch { debugreg },
    }
}
