//! Getting a thread out of the guest.
//!
//! One of the modules with `unsafe`: it reaches into another thread.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering};

use kvm_bindings::kvm_signal_mask;
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;
use vmm_sys_util::signal::{self, SIGRTMIN, block_signal, register_signal_handler, unblock_signal};

use crate::error::{Error, Result};
use crate::stop;

ioctl_iow_nr!(KVM_SET_SIGNAL_MASK, kvm_bindings::KVMIO, 0x8b, kvm_signal_mask);

/// `kvm_signal_mask` with the one length that there is (KVM API documentation, section 4.16).
#[repr(C)]
struct SignalMask {
    len: u32,
    signals: [u8; 8],
}

/// Does nothing: that it comes is enough to end `KVM_RUN`.
extern "C" fn ignore<T>(_: i32, _: *mut T, _: *mut c_void) {}

/// Makes the signal that kicks harmless elsewhere.
///
/// # Errors
/// If the host refuses.
pub(super) fn prepare() -> Result<()> {
    register_signal_handler(SIGRTMIN(), ignore)
        .map_err(|e| Error::Host(format!("cannot catch signal {}: {e}", SIGRTMIN())).because(e))
}

/// A thread that runs a processor, as others see it.
#[derive(Debug)]
pub(super) struct Kicker {
    process: libc::pid_t,
    thread: libc::pid_t,
    immediate_exit: *const AtomicU8,
}

// SAFETY: the byte is only accessed atomically by all but the thread whose it is.
unsafe impl Send for Kicker {}

impl Kicker {
    /// The running thread, which runs `vcpu`. It must drop this before it ends or gives up `vcpu`.
    ///
    /// Signals that ask the process to end go to other threads from here on.
    pub(super) fn here(vcpu: &mut VcpuFd) -> Self {
        for signal in stop::SIGNALS {
            // If it cannot be blocked, it is seen a little later.
            let _ = block_signal(signal);
        }
        // Whoever started this process may have blocked it. For a signal that exists this cannot fail.
        let _ = unblock_signal(SIGRTMIN());
        let immediate_exit = std::ptr::from_mut(&mut vcpu.get_kvm_run().immediate_exit);
        // SAFETY: these have no preconditions.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        Self { process, thread, immediate_exit: immediate_exit.cast::<AtomicU8>() }
    }

    /// Ends the thread's `KVM_RUN`, or the next one at once.
    pub(super) fn kick(&self) {
        // SAFETY: the owner keeps the mapping and the thread alive as long as this. The kernel reads
        // the byte at any time; a byte has the layout of its atomic. The signal is handled, and goes
        // to a thread of this process or nowhere. `pthread_kill` would take four system calls.
        unsafe {
            (*self.immediate_exit).store(1, Ordering::Relaxed);
            libc::syscall(libc::SYS_tgkill, self.process, self.thread, SIGRTMIN());
        }
    }

    /// Sets or clears `immediate_exit` as the thread itself: clears it when a kick has been noticed.
    pub(super) fn set_immediate_exit(&self, value: bool) {
        // SAFETY: as above.
        unsafe { (*self.immediate_exit).store(value.into(), Ordering::Relaxed) }
    }
}

/// Has `vcpu` take all signals while it is in `KVM_RUN`, for [`run_until_entry`].
///
/// # Errors
/// If the host refuses.
pub(super) fn take_signals_in_guest(vcpu: &VcpuFd) -> Result<()> {
    // Those that ask the process to end are the main thread's as before.
    let ignored = stop::SIGNALS.iter().fold(0_u64, |mask, signal| mask | 1 << (signal - 1));
    let mask = SignalMask { len: 8, signals: ignored.to_le_bytes() };
    // SAFETY: `vcpu` is a vCPU, and KVM reads a length and as many bytes behind it.
    if unsafe { ioctl_with_ref(vcpu, KVM_SET_SIGNAL_MASK(), &mask) } < 0 {
        let why = std::io::Error::last_os_error();
        return Err(Error::Host(format!("KVM refuses a signal mask: {why}")).because(why));
    }
    Ok(())
}

/// `KVM_RUN` with a signal pending: it completes the last exit, moves pending interrupts of the in-kernel
/// local APIC's timer into its registers, and exits without executing an instruction of the guest.
///
/// With `immediate_exit` it would exit before it looks at the timer.
///
/// # Errors
/// If the host refuses, or KVM wants something else.
pub(super) fn run_until_entry(vcpu: &mut VcpuFd) -> Result<()> {
    let failed = |e: signal::Error| Error::Host(format!("cannot hold signal {}: {e}", SIGRTMIN()));
    block_signal(SIGRTMIN()).map_err(failed)?;
    // SAFETY: the thread is this one.
    unsafe { libc::pthread_kill(libc::pthread_self(), SIGRTMIN()) };
    let ran = match vcpu.run() {
        Err(e) if e.errno() == libc::EINTR => Ok(()),
        Err(e) => Err(Error::Host(format!("KVM cannot complete an exit: {e}")).because(e)),
        Ok(exit) => Err(Error::Host(format!("KVM needs more to complete an exit: {exit:?}"))),
    };
    unblock_signal(SIGRTMIN()).map_err(failed)?;
    ran
}
