//! A guest of a few instructions, and what a VMM on KVM has anyway: memory, a processor, a way to stop.

#![allow(unsafe_code, reason = "KVM is told where the guest's memory is")]

use kvm_bindings::{
    KVM_CAP_X86_USER_SPACE_MSR, KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_SINGLESTEP,
    KVM_MSR_EXIT_REASON_FILTER, kvm_enable_cap, kvm_guest_debug, kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VcpuFd, VmFd};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Has counter 0 overflow after 100 instructions, and loops. In real mode, at 0:800h.
const LOOP: &[u8] = &[
    0x66, 0xB9, 0xC1, 0x00, 0x00, 0x00, // MOV ECX, C1h: PerfCtr0
    0x66, 0xB8, 0x9C, 0xFF, 0xFF, 0xFF, // MOV EAX, -100
    0x0F, 0x30, // WRMSR
    0x66, 0xB9, 0x86, 0x01, 0x00, 0x00, // MOV ECX, 186h: PerfEvtSel0
    0x66, 0xB8, 0xC0, 0x00, 0x52,
    0x00, // MOV EAX, 5200C0h: EN, INT, OS, event C0h INST_RETIRED
    0x66, 0x31, 0xD2, // XOR EDX, EDX
    0x0F, 0x30, // WRMSR
    0xEB, 0xFE, // JMP to itself
];
/// The handler of the NMI, at 0:900h: tells what the counter has.
const HANDLER: &[u8] = &[
    0x66, 0xB9, 0xC1, 0x00, 0x00, 0x00, // MOV ECX, C1h
    0x0F, 0x32, // RDMSR
    0xE6, 0xE9, // OUT E9h, AL
];

/// A page of the guest's memory, which KVM wants aligned.
#[repr(align(4096))]
struct Page([u8; 4096]);

/// A machine with one processor, which is about to execute [`LOOP`].
pub(crate) struct Machine {
    pub(crate) vm: VmFd,
    pub(crate) vcpu: VcpuFd,
    /// Declared, and so dropped, behind what runs in it.
    _memory: Box<Page>,
}

impl Machine {
    pub(crate) fn new(kvm: &Kvm) -> Result<Self> {
        let mut memory = Box::new(Page([0; 4096]));
        // Vector 2 of the interrupt table, offset and segment.
        memory.0[8..12].copy_from_slice(&[0x00, 0x09, 0x00, 0x00]);
        memory.0[0x800..][..LOOP.len()].copy_from_slice(LOOP);
        memory.0[0x900..][..HANDLER.len()].copy_from_slice(HANDLER);
        let vm = kvm.create_vm()?;
        // Out of the way of the guest's memory; KVM on Intel wants the pages for itself.
        vm.set_tss_address(0xFFFB_D000)?;
        let region = kvm_userspace_memory_region {
            memory_size: 4096,
            userspace_addr: &raw mut memory.0 as u64,
            ..Default::default()
        };
        // SAFETY: the page is dropped behind the machine that uses it, and nobody refers to it until then.
        unsafe { vm.set_user_memory_region(region) }?;
        let vcpu = vm.create_vcpu(0)?;
        let (mut sregs, mut regs) = (vcpu.get_sregs()?, vcpu.get_regs()?);
        (sregs.cs.base, sregs.cs.selector) = (0, 0);
        (regs.rip, regs.rsp) = (0x800, 0x800);
        vcpu.set_sregs(&sregs)?;
        vcpu.set_regs(&regs)?;
        Ok(Self { vm, vcpu, _memory: memory })
    }
}

/// Has accesses to these registers end [`VcpuFd::run`].
pub(crate) fn refuse_msrs(vm: &VmFd, msrs: impl Iterator<Item = u32>) -> Result<()> {
    vm.enable_cap(&kvm_enable_cap {
        cap: KVM_CAP_X86_USER_SPACE_MSR,
        args: [KVM_MSR_EXIT_REASON_FILTER.into(), 0, 0, 0],
        ..Default::default()
    })?;
    let flags = MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE;
    let refused = |base| MsrFilterRange { flags, base, msr_count: 1, bitmap: &[0] };
    let ranges: Vec<_> = msrs.map(refused).collect();
    Ok(vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &ranges)?)
}

/// Whether each instruction ends [`VcpuFd::run`].
pub(crate) fn single_step(vcpu: &VcpuFd, on: bool) -> Result<()> {
    let control = if on { KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP } else { 0 };
    Ok(vcpu.set_guest_debug(&kvm_guest_debug { control, ..Default::default() })?)
}
