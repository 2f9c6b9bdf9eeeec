//! One entry into the guest, and the page that KVM shares with us about it.
//!
//! One of the modules with `unsafe`: the shared page is a C structure with a union in it.

#![allow(unsafe_code)]

use std::slice;

use kvm_bindings::{
    KVM_EXIT_IO_IN, KVM_INTERNAL_ERROR_EMULATION, KVM_SYNC_X86_EVENTS, kvm_debug_exit_arch,
    kvm_interrupt, kvm_run, kvm_vcpu_events,
};
use kvm_ioctls::{VcpuExit, VcpuFd};
use vmm_sys_util::errno;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

use crate::error::{Error, Result};

ioctl_iow_nr!(KVM_INTERRUPT, kvm_bindings::KVMIO, 0x86, kvm_interrupt);

/// Why KVM came back. What it waits for is written to the references; it takes it when it runs next.
#[derive(Debug)]
pub(super) enum Exit<'a> {
    /// IN, OUT and their string forms.
    Io {
        /// Port.
        port: u16,
        /// Bytes of one operand: 1, 2 or 4.
        size: u8,
        /// IN.
        input: bool,
        /// As many operands as KVM has put together.
        data: &'a mut [u8],
    },
    /// An access to what is no memory.
    Mmio {
        /// Guest-physical address.
        gpa: u64,
        /// A store.
        write: bool,
        /// Up to 8 bytes.
        data: &'a mut [u8],
    },
    /// RDMSR.
    Rdmsr {
        /// Register.
        index: u32,
        /// Its value.
        value: &'a mut u64,
        /// Set for #GP(0).
        refused: &'a mut u8,
    },
    /// WRMSR.
    Wrmsr {
        /// Register.
        index: u32,
        /// The new value.
        value: u64,
        /// Set for #GP(0).
        refused: &'a mut u8,
    },
    /// HLT.
    Halt,
    /// A breakpoint of ours, or a single step.
    Debug(kvm_debug_exit_arch),
    /// Triple fault.
    Shutdown,
    /// KVM cannot emulate the instruction at RIP.
    EmulationFailure,
    /// Nothing to do: kicked, an interrupt could be taken now, the task priority changed.
    Nothing,
}

/// An exit without references.
enum Reason {
    Io,
    Mmio,
    Msr { read: bool },
    Plain(Exit<'static>),
    InternalError,
}

/// Runs the guest until `KVM_RUN` returns.
///
/// # Errors
/// What the host's KVM cannot do.
pub(super) fn enter(vcpu: &mut VcpuFd) -> Result<Exit<'_>> {
    let reason = match vcpu.run() {
        Ok(VcpuExit::IoIn(..) | VcpuExit::IoOut(..)) => Reason::Io,
        Ok(VcpuExit::MmioRead(..) | VcpuExit::MmioWrite(..)) => Reason::Mmio,
        Ok(VcpuExit::X86Rdmsr(_)) => Reason::Msr { read: true },
        Ok(VcpuExit::X86Wrmsr(_)) => Reason::Msr { read: false },
        Ok(VcpuExit::Hlt) => Reason::Plain(Exit::Halt),
        Ok(VcpuExit::Debug(debug)) => Reason::Plain(Exit::Debug(debug)),
        Ok(VcpuExit::Shutdown) => Reason::Plain(Exit::Shutdown),
        Ok(VcpuExit::Intr | VcpuExit::IrqWindowOpen | VcpuExit::SetTpr) => {
            Reason::Plain(Exit::Nothing)
        }
        Ok(VcpuExit::InternalError) => Reason::InternalError,
        Ok(VcpuExit::FailEntry(reason, _)) => {
            return Err(Error::Host(format!("KVM cannot enter the guest: reason {reason:#x}")));
        }
        Ok(other) => {
            return Err(Error::Host(format!("KVM stopped for an unknown reason: {other:?}")));
        }
        Err(e) if matches!(e.errno(), libc::EINTR | libc::EAGAIN) => Reason::Plain(Exit::Nothing),
        Err(e) => return Err(Error::Host(format!("KVM cannot run the guest: {e}")).because(e)),
    };
    let run = vcpu.get_kvm_run();
    Ok(match reason {
        Reason::Plain(exit) => exit,
        Reason::Io => io(run),
        Reason::Mmio => {
            // SAFETY: KVM_EXIT_MMIO fills this member of the union.
            let mmio = unsafe { &mut run.__bindgen_anon_1.mmio };
            let len = (mmio.len as usize).min(mmio.data.len());
            let write = mmio.is_write != 0;
            Exit::Mmio { gpa: mmio.phys_addr, write, data: &mut mmio.data[..len] }
        }
        Reason::Msr { read } => {
            // SAFETY: KVM_EXIT_X86_RDMSR and KVM_EXIT_X86_WRMSR fill this member of the union.
            let msr = unsafe { &mut run.__bindgen_anon_1.msr };
            let (index, refused) = (msr.index, &mut msr.error);
            *refused = 0;
            if read {
                Exit::Rdmsr { index, value: &mut msr.data, refused }
            } else {
                Exit::Wrmsr { index, value: msr.data, refused }
            }
        }
        Reason::InternalError => {
            // SAFETY: KVM_EXIT_INTERNAL_ERROR fills this member of the union.
            let suberror = unsafe { run.__bindgen_anon_1.internal.suberror };
            if suberror != KVM_INTERNAL_ERROR_EMULATION {
                return Err(Error::Host(format!("KVM failed with internal error {suberror}")));
            }
            Exit::EmulationFailure
        }
    })
}

fn io(run: &mut kvm_run) -> Exit<'_> {
    // SAFETY: KVM_EXIT_IO fills this member of the union.
    let io = unsafe { run.__bindgen_anon_1.io };
    let bytes = usize::from(io.size) * io.count as usize;
    let first = std::ptr::from_mut(run).cast::<u8>();
    // SAFETY: the kernel has placed `count` operands of `size` bytes at `data_offset` within the
    // mapping that `run` is the beginning of; nobody else refers to that part of it, and the slice
    // borrows `run`.
    let data = unsafe { slice::from_raw_parts_mut(first.add(io.data_offset as usize), bytes) };
    let input = u32::from(io.direction) == KVM_EXIT_IO_IN;
    Exit::Io { port: io.port, size: io.size, input, data }
}

/// Gives the processor a maskable interrupt, which it is ready for.
///
/// # Errors
/// If the host refuses.
pub(super) fn interrupt(vcpu: &VcpuFd, vector: u8) -> Result<()> {
    let argument = kvm_interrupt { irq: vector.into() };
    // SAFETY: the file is a vCPU, and the kernel reads a structure of this type.
    if unsafe { ioctl_with_ref(vcpu, KVM_INTERRUPT(), &argument) } < 0 {
        let why = errno::Error::last();
        return Err(Error::Host(format!("KVM refuses interrupt {vector:#x}: {why}")).because(why));
    }
    Ok(())
}

/// The events that KVM takes from the page when it runs next; `None` if it has them already.
pub(super) fn events_to_come(vcpu: &mut VcpuFd) -> Option<&mut kvm_vcpu_events> {
    let dirty = vcpu.get_kvm_run().kvm_dirty_regs & u64::from(KVM_SYNC_X86_EVENTS) != 0;
    dirty.then(|| &mut vcpu.sync_regs_mut().events)
}
