//! Processor time, as /proc tells it: on a busy host the wall clock measures the others.

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
