//! Saving a processor's state from KVM, and restoring it.
//!
//! One of the modules with `unsafe`: `kvm-ioctls` has no safe way to set the XSAVE area, and none at
//! all to the page-directory-pointer entries.
//!
//! Registers, segments and events travel in the page that a vCPU shares with the process
//! (`KVM_CAP_SYNC_REGS`), so a transfer takes four system calls out and three in, two more under
//! legacy PAE paging (`KVM_CAP_SREGS2`).

#![allow(unsafe_code)]

use kvm_bindings::{
    KVM_SREGS2_FLAGS_PDPTRS_VALID, Msrs, kvm_msr_entry, kvm_regs, kvm_sregs, kvm_sregs2, kvm_xsave,
};
use kvm_ioctls::{SyncReg, VcpuFd};
use vmm_sys_util::ioctl::{ioctl_with_mut_ref, ioctl_with_ref};
use vmm_sys_util::{ioctl_ior_nr, ioctl_iow_nr};
use x86_cpu::msr::CoreMsrs;

use super::state::{State, Support};
use crate::error::{Error, Result};
use crate::msr::TSC;

ioctl_ior_nr!(KVM_GET_SREGS2, kvm_bindings::KVMIO, 0xcc, kvm_sregs2);
ioctl_iow_nr!(KVM_SET_SREGS2, kvm_bindings::KVMIO, 0xcd, kvm_sregs2);

/// What the run page carries.
const SYNCED: [SyncReg; 3] = [SyncReg::Register, SyncReg::SystemRegister, SyncReg::VcpuEvents];

fn refused<E: std::error::Error + Send + Sync + 'static>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::Host(format!("KVM does not give or take {what}: {error}")).because(error)
}

impl State {
    /// Takes the state of a vCPU after an exit, which is completed first: the values that RDMSR or
    /// IN read are in their registers, RIP is behind the instruction. The vCPU keeps its state.
    ///
    /// `kvm_run.immediate_exit` is set meanwhile and then as before; one that a signal handler sets
    /// in between may be lost, so the kicking thread has to remember it as well.
    ///
    /// # Errors
    /// If KVM refuses, or the exit needs more than to be completed (a string of I/O or MMIO does).
    pub(super) fn from_kvm(vcpu: &mut VcpuFd) -> Result<Self> {
        let valid = vcpu.get_kvm_run().kvm_valid_regs;
        for register in SYNCED {
            vcpu.set_sync_valid_reg(register);
        }
        let immediate = vcpu.get_kvm_run().immediate_exit;
        vcpu.set_kvm_immediate_exit(1);
        let completed = match vcpu.run() {
            Err(error) if error.errno() == libc::EINTR => Ok(()),
            Err(error) => Err(refused("the end of an exit")(error)),
            Ok(exit) => Err(Error::Host(format!("KVM wants more before it hands over: {exit:?}"))),
        };
        vcpu.set_kvm_immediate_exit(immediate);
        vcpu.get_kvm_run().kvm_valid_regs = valid;
        completed?;
        let synced = vcpu.sync_regs();
        let mut state = Self {
            regs: synced.regs,
            sregs: synced.sregs,
            events: synced.events,
            debug: vcpu.get_debug_regs().map_err(refused("debug registers"))?,
            xsave: vcpu.get_xsave().map_err(refused("x87 and SSE registers"))?.region,
            ..Self::default()
        };
        let mut msrs = msrs(&CoreMsrs::default(), Some(0))?;
        let got = vcpu.get_msrs(&mut msrs).map_err(refused("MSRs"))?;
        if got < msrs.as_slice().len() {
            return Err(Error::Host(format!("KVM gives {got} of the MSRs only")));
        }
        for entry in msrs.as_slice() {
            match entry.index {
                TSC => state.tsc = entry.data,
                index => state.msrs.set(index, entry.data),
            }
        }
        if state.has_pdptes() {
            state.pdptes = Some(sregs2(vcpu)?.pdptrs);
        }
        Ok(state)
    }

    /// Gives the state to a vCPU which is outside `KVM_RUN` and has no exit to complete. General and
    /// segment registers and events wait in the run page for the next `KVM_RUN`, which fails with
    /// `EINVAL` if KVM finds them impossible. What `KVM_NMI` and `KVM_INTERRUPT` say before that is
    /// lost: until then events are to be changed in the run page.
    ///
    /// # Errors
    /// If KVM refuses.
    pub(super) fn to_kvm(&self, vcpu: &mut VcpuFd) -> Result<()> {
        vcpu.set_debug_regs(&self.debug).map_err(refused("debug registers"))?;
        let xsave = kvm_xsave { region: self.xsave, ..kvm_xsave::default() };
        // SAFETY: KVM reads as many bytes as the XSAVE features need that this process has asked the
        // host for. It has asked for none of those that take more than the 4096 bytes of `kvm_xsave`.
        unsafe { vcpu.set_xsave(&xsave) }.map_err(refused("x87 and SSE registers"))?;
        let msrs = msrs(&self.msrs, self.set_tsc)?;
        let set = vcpu.set_msrs(&msrs).map_err(refused("MSRs"))?;
        if let Some(entry) = msrs.as_slice().get(set) {
            let (index, value) = (entry.index, entry.data);
            return Err(Error::Host(format!("KVM does not take {value:#x} in MSR {index:#x}")));
        }
        let synced = vcpu.sync_regs_mut();
        synced.regs = self.regs;
        synced.sregs = self.sregs;
        synced.events = self.events;
        vcpu.set_sync_dirty_reg(SyncReg::Register);
        vcpu.set_sync_dirty_reg(SyncReg::VcpuEvents);
        match self.pdptes {
            // The entries would be read from memory with the other way.
            Some(pdptes) => set_sregs2(vcpu, self, pdptes),
            None => {
                vcpu.set_sync_dirty_reg(SyncReg::SystemRegister);
                Ok(())
            }
        }
    }
}

impl Support {
    /// Tries out what KVM supports on a vCPU that is there for nothing else: the pagetable kind of KVM
    /// cannot run it after that. Whether there is an `interrupt_window`, and whether it stops at `breakpoints`, is
    /// known already.
    ///
    /// # Errors
    /// If KVM refuses to be asked.
    pub(super) fn of(vcpu: &VcpuFd, interrupt_window: bool, breakpoints: bool) -> Result<Self> {
        const PAGED: u64 = 0x8001_0011;
        const PROTECTED: u64 = 0x11;
        const VM: u64 = 1 << 17;
        const AHEAD: u64 = 1 << 60;
        let no = refused;
        let sregs = vcpu.get_sregs().map_err(no("segment registers"))?;
        let regs = vcpu.get_regs().map_err(no("general registers"))?;
        let held = |cr0| -> Result<bool> {
            vcpu.set_sregs(&kvm_sregs { cr0, ..sregs }).map_err(no("CR0"))?;
            Ok(vcpu.get_sregs().map_err(no("CR0"))?.cr0 == cr0)
        };
        held(PROTECTED)?;
        let rflags = regs.rflags | VM;
        vcpu.set_regs(&kvm_regs { rflags, ..regs }).map_err(no("RFLAGS"))?;
        let virtual_8086 = vcpu.get_regs().map_err(no("RFLAGS"))?.rflags & VM != 0;
        vcpu.set_regs(&regs).map_err(no("general registers"))?;
        let legacy_paging = held(PAGED)?;
        let mut tsc = list(&[(TSC, AHEAD)])?;
        vcpu.set_msrs(&tsc).map_err(no("MSRs"))?;
        vcpu.get_msrs(&mut tsc).map_err(no("MSRs"))?;
        let time_stamp_counter = tsc.as_slice().first().is_some_and(|entry| entry.data >= AHEAD);
        Ok(Self { legacy_paging, virtual_8086, time_stamp_counter, interrupt_window, breakpoints })
    }
}

/// The core's MSRs and the time-stamp counter, if that is to be among them.
fn msrs(core: &CoreMsrs, tsc: Option<u64>) -> Result<Msrs> {
    list(&core.entries().chain(tsc.map(|value| (TSC, value))).collect::<Vec<_>>())
}

/// MSRs and their values as KVM takes them.
fn list(entries: &[(u32, u64)]) -> Result<Msrs> {
    let entry = |&(index, data): &(u32, u64)| kvm_msr_entry { index, data, ..Default::default() };
    let entries: Vec<_> = entries.iter().map(entry).collect();
    Msrs::from_entries(&entries).map_err(|e| Error::Host(format!("no room for MSRs: {e:?}")))
}

fn sregs2(vcpu: &VcpuFd) -> Result<kvm_sregs2> {
    let mut registers = kvm_sregs2::default();
    // SAFETY: `vcpu` is a vCPU, and KVM writes a `kvm_sregs2` where a whole one is.
    if unsafe { ioctl_with_mut_ref(vcpu, KVM_GET_SREGS2(), &mut registers) } != 0 {
        return Err(refused("page-directory pointers")(std::io::Error::last_os_error()));
    }
    Ok(registers)
}

fn set_sregs2(vcpu: &VcpuFd, state: &State, pdptes: [u64; 4]) -> Result<()> {
    let s = &state.sregs;
    let registers = kvm_sregs2 {
        cs: s.cs,
        ds: s.ds,
        es: s.es,
        fs: s.fs,
        gs: s.gs,
        ss: s.ss,
        tr: s.tr,
        ldt: s.ldt,
        gdt: s.gdt,
        idt: s.idt,
        cr0: s.cr0,
        cr2: s.cr2,
        cr3: s.cr3,
        cr4: s.cr4,
        cr8: s.cr8,
        efer: s.efer,
        apic_base: s.apic_base,
        flags: u64::from(KVM_SREGS2_FLAGS_PDPTRS_VALID),
        pdptrs: pdptes,
    };
    // SAFETY: `vcpu` is a vCPU, and KVM reads a `kvm_sregs2` where a whole one is.
    if unsafe { ioctl_with_ref(vcpu, KVM_SET_SREGS2(), &registers) } != 0 {
        return Err(refused("page-directory pointers")(std::io::Error::last_os_error()));
    }
    Ok(())
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
pub(in crate::engine::kvm) mod tests;
