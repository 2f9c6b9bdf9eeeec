//! The state of the software CPU through a vCPU of this host's KVM, bit for bit.

use kvm_ioctls::VmFd;
use x86_cpu::cpu::Cpu;

use super::*;
use crate::engine::kvm::host::Host;
use crate::engine::kvm::probe;
use crate::engine::kvm::state::tests::{Random, random_cpu, snapshot};

/// A vCPU without memory.
pub(in crate::engine::kvm) fn vcpu() -> (VmFd, VcpuFd) {
    let host = Host::open().expect("this test needs /dev/kvm");
    let vm = host.create_vm().unwrap();
    vm.set_tss_address(0xfffb_d000).unwrap();
    let vcpu = host.create_vcpu(&vm, 0).unwrap();
    // All that the host has: KVM judges CR4 and EFER by it.
    let all = host.kvm().get_supported_cpuid(kvm_bindings::KVM_MAX_CPUID_ENTRIES).unwrap();
    vcpu.set_cpuid2(&all).unwrap();
    (vm, vcpu)
}

/// What this KVM supports, tried out on vCPUs made for that.
pub(in crate::engine::kvm) fn support() -> Support {
    probe::support(&Host::open().unwrap(), &crate::platform::K8).unwrap()
}

/// What each KVM supports: what runs in real mode and in long mode.
const LEAST: Support = Support {
    legacy_paging: false,
    virtual_8086: false,
    time_stamp_counter: false,
    interrupt_window: false,
    breakpoints: false,
};

/// Puts states of which this holds through a vCPU; how many there were. About half of all are in
/// real mode or long mode.
fn assert_every_bit_is_kept(holds: impl Fn(&Cpu) -> bool) -> u32 {
    let (_vm, mut vcpu) = vcpu();
    let mut kept = 0;
    let mut random = Random(0x2718_2818_2845_9045);
    for n in 0..400 {
        let mut cpu = random_cpu(&mut random);
        if !holds(&cpu) {
            continue;
        }
        let before = snapshot(&cpu);
        let mut state = State::from_kvm(&mut vcpu).unwrap();
        state.set_from_cpu(&cpu);
        state.to_kvm(&mut vcpu).unwrap_or_else(|e| panic!("{n}: {e}: {before:x?}"));
        let back = State::from_kvm(&mut vcpu).unwrap_or_else(|e| panic!("{n}: {e}: {before:x?}"));
        // Onto a processor that is in another state.
        let (fip, fdp, fop) = (cpu.fpu.fip, cpu.fpu.fdp, cpu.fpu.fop);
        cpu = random_cpu(&mut random);
        back.to_cpu(&mut cpu);
        if (cpu.fpu.fip, cpu.fpu.fdp, cpu.fpu.fop) == (0, 0, 0) {
            // Dropped by an AMD host that had another thread to run in between.
            (cpu.fpu.fip, cpu.fpu.fdp, cpu.fpu.fop) = (fip, fdp, fop);
        }
        assert_eq!(snapshot(&cpu), before, "state {n}");
        kept += 1;
    }
    kept
}

#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_vcpu_keeps_every_bit() {
    assert!(assert_every_bit_is_kept(|cpu| LEAST.holds(cpu)) >= 100);
}

/// What a KVM without VMX and SVM does not run.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
#[cfg_attr(
    all(host_kvm, not(host_vmx), not(host_svm)),
    ignore = "KVM had neither VMX nor SVM when this was built"
)]
fn a_vcpu_keeps_legacy_paging_and_virtual_8086_mode() {
    assert!(support().legacy_paging && support().virtual_8086);
    assert!(assert_every_bit_is_kept(|cpu| !LEAST.holds(cpu)) >= 100);
}

/// The time-stamp counter is left alone unless asked for.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn the_time_stamp_counter_goes_on() {
    const AHEAD: u64 = 1 << 61;
    let (_vm, mut vcpu) = vcpu();
    let support = support();
    let mut state = State::from_kvm(&mut vcpu).unwrap();
    let first = state.tsc;
    state.set_tsc = Some(AHEAD);
    state.to_kvm(&mut vcpu).unwrap();
    let mut state = State::from_kvm(&mut vcpu).unwrap();
    assert_eq!(state.tsc >= AHEAD, support.time_stamp_counter, "{first:#x}, {:#x}", state.tsc);
    let second = state.tsc;
    state.set_tsc = None;
    state.to_kvm(&mut vcpu).unwrap();
    assert!(second > first && State::from_kvm(&mut vcpu).unwrap().tsc > second);
}
