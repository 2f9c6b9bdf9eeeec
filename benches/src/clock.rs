//! Processor time: on a busy host the wall clock measures the others.
//!
//! One of the modules with `unsafe`: it calls the host's `clock_gettime`, since /proc has what threads
//! that have ended took in units of 10 ms only.

#![allow(unsafe_code)]

use std::fs;
use std::time::Duration;

use crate::Result;

/// USER_HZ, the unit of the times in /proc/PID/stat (proc(5)).
const TICKS_PER_SECOND: u64 = 100;

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
    let text = fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may hold spaces, comes field 3; cutime and cstime are 16 and 17.
    let (_, fields) = text.rsplit_once(')').ok_or("stat has no name")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(16 - 3)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<std::result::Result<_, _>>()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}
