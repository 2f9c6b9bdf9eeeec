//! Processor time: on a busy host the wall clock measures the others.
//!
//! One of the modules with `unsafe`: it calls the host's `clock_gettime` and `getrusage`, since /proc
//! has what threads and children that have ended took in units of 10 ms only.

#![allow(unsafe_code)]

use std::fs;
use std::time::Duration;

use crate::Result;

/// Time that this thread has run on a processor.
pub(crate) fn own() -> Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let running = text.split_whitespace().next().ok_or("schedstat is empty")?;
    Ok(Duration::from_nanos(running.parse()?))
}

/// Time that all threads of this process have run on a processor, ended ones too.
pub(crate) fn process() -> Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one structure of this type.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}

/// Time that the children that have ended ran on a processor, user and system.
pub(crate) fn children() -> Result<Duration> {
    // SAFETY: all zeroes is a value of this structure of integers, which the kernel writes over.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure of this type.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let time = |t: libc::timeval| -> Result<Duration> {
        Ok(Duration::new(t.tv_sec.try_into()?, u32::try_from(t.tv_usec)? * 1000))
    };
    Ok(time(usage.ru_utime)? + time(usage.ru_stime)?)
}
