//! Where threads wait: for the devices' next event, for console input, for a processor.
//!
//! One of the modules with `unsafe`: it calls the host's `ppoll`, the one call that takes nanoseconds,
//! and `prctl`, so that they count.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

/// Has the host end this thread's waits when they are due, to the nanosecond, instead of letting them
/// run up to 50 microseconds longer to save wake-ups (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) fn be_punctual() {
    // SAFETY: takes a number, and changes nothing but timers of this thread. It cannot fail.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Waits until one of the descriptors is signalled, a signal comes or the time is up. Takes what has
/// signalled the descriptors, but for `kept`.
pub(crate) fn wait(taken: [Option<&EventFd>; 2], kept: Option<&EventFd>, time: Duration) {
    let [first, second] = taken;
    let mut polled = [first, second, kept].map(|descriptor| libc::pollfd {
        // Negative ones are ignored.
        fd: descriptor.map_or(-1, AsRawFd::as_raw_fd),
        events: libc::POLLIN,
        revents: 0,
    });
    let time = libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: `polled` has three elements, and the kernel writes no more than them; no signal mask.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), 3, &raw const time, ptr::null()) };
    if ready > 0 {
        for (polled, descriptor) in polled.iter().zip(taken) {
            if polled.revents != 0
                && let Some(descriptor) = descriptor
            {
                // It is readable and has one reader, so that the read does not block.
                let _ = descriptor.read();
            }
        }
    }
}

/// Whether a write to `file` would take something, or fail, at once.
pub(crate) fn is_writable(file: &impl AsFd) -> bool {
    let fd = file.as_fd().as_raw_fd();
    let mut polled = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one element, and the kernel writes no more; no signal mask.
    let ready = unsafe { libc::ppoll(&raw mut polled, 1, &raw const time, ptr::null()) };
    ready > 0
}
