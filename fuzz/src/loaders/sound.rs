//! What holds of every reader: it refuses in one line, and takes no more memory than its input is worth.

use std::fmt::Display;
use std::fs;

/// Bytes of the longest line that says what is wrong.
const LONGEST_LINE: usize = 600;
/// Bytes by which an input may raise the most memory that this process has had: machines have a few MiB, and inputs less
/// than one.
const MEMORY: u64 = 768 << 20;

/// That a text is a line for a person: not empty, not long, without anything that moves a terminal's cursor.
pub(super) fn one_line(text: &str) -> Result<(), String> {
    let shown: String = text.chars().take(200).collect();
    if text.is_empty() || text.len() > LONGEST_LINE {
        return Err(format!("a message of {} bytes: {shown:?}", text.len()));
    }
    match text.chars().find(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        Some(c) => Err(format!("a message with {c:?}: {shown:?}")),
        None => Ok(()),
    }
}

/// That what a reader says of an input that it does not accept is such a line.
pub(super) fn refused(error: &impl Display) -> Result<bool, String> {
    one_line(&error.to_string()).map(|()| false)
}

/// The most memory that this process has had.
pub(super) struct Peak(u64);

impl Peak {
    pub(super) fn now() -> Self {
        Self(most().unwrap_or(0))
    }

    /// That it has not been raised by much since.
    pub(super) fn is_kept(&self) -> Result<(), String> {
        let more = most().unwrap_or(0).saturating_sub(self.0);
        if more <= MEMORY {
            return Ok(());
        }
        Err(format!("{} MiB of memory", more >> 20))
    }
}

/// Where the host says it.
fn most() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
