//! Where threads wait: for the devices' next event, for somebody to type, for a processor.
//!
//! One of the modules with `unsafe`: it calls the host's `ppoll`, the one call that takes nanoseconds,
//! and `prctl`, so that they count.

#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

/// Has the host end this thread's waits when they are due, to the nanosecond, instead of letting them
/// run up to 50 microseconds longer to save wake-ups (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) fn be_punctual() {
    // SAFETY: takes a number, and changes nothing but timers of this thread. It cannot fail.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Waits until one of the descriptors is signalled, a signal comes or the time is up. Takes the
/// signals of the descriptors.
pub(crate) fn wait<const N: usize>(descriptors: [Option<&EventFd>; N], time: Duration) {
    let mut polled = descriptors.map(|descriptor| libc::pollfd {
        // Negative ones are ignored.
        fd: descriptor.map_or(-1, AsRawFd::as_raw_fd),
        events: libc::POLLIN,
        revents: 0,
    });
    let time = libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: `polled` has N elements, and the kernel writes no more than them; no signal mask.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), N as u64, &raw const time, ptr::null()) };
    if ready > 0 {
        for (polled, descriptor) in polled.iter().zip(descriptors) {
            if polled.revents != 0
                && let Some(descriptor) = descriptor
            {
                // It is readable, and nobody else reads it.
                let _ = descriptor.read();
            }
        }
    }
}
