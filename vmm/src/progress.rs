//! A line on the terminal that shows that a guest lives which prints nothing.
//!
//! It is written to standard error once a second, over the one before, and is gone before anything else is
//! printed. It is the host's time that it goes by: nothing of the guest depends on it.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use crate::wait;

/// How long the console has been idle before the line is shown, and how often it is renewed.
const INTERVAL: Duration = Duration::from_secs(1);
/// Back to the beginning of the line, and clear it (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

/// Where a run has come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// Virtual time in cycles.
    pub(crate) cycles: u64,
    /// Cycles in a second of it.
    pub(crate) clock_hz: u64,
    /// Instructions; `None` if KVM executes them, which does not count them.
    pub(crate) instructions: Option<u64>,
}

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The guest's console is on a terminal too, of which no unfinished line is to be overwritten.
    shares_terminal: bool,
    /// The last line that the guest has printed is finished.
    at_line_start: bool,
    /// It is there now.
    is_shown: bool,
    /// When the guest last printed something, or the run began.
    printed: Instant,
    /// When the line was last renewed, and at how many instructions.
    last: (Instant, u64),
}

impl Progress {
    /// The line, if standard error is a terminal; whether the guest's output may be on that too.
    pub(crate) fn on_terminal(shares_terminal: bool) -> Option<Self> {
        stderr().is_terminal().then(|| Self {
            shares_terminal,
            at_line_start: true,
            is_shown: false,
            printed: Instant::now(),
            last: (Instant::now(), 0),
        })
    }

    /// The guest prints this next.
    pub(crate) fn prints(&mut self, bytes: &[u8]) {
        self.clear();
        self.printed = Instant::now();
        self.at_line_start = bytes.last() == Some(&b'\n');
    }

    /// Whether it is time to renew the line.
    pub(crate) fn is_due(&self) -> bool {
        let visible = self.at_line_start || !self.shares_terminal;
        visible && self.printed.elapsed() >= INTERVAL && self.last.0.elapsed() >= INTERVAL
    }

    /// Renews the line.
    pub(crate) fn show(&mut self, reached: Reached) {
        let now = Instant::now();
        let (before, instructions_before) = self.last;
        let passed = now.duration_since(before);
        let idle = now.duration_since(self.printed);
        let instructions = reached.instructions.unwrap_or(0);
        self.last = (now, instructions);
        let line = line(reached, instructions.saturating_sub(instructions_before), passed, idle);
        self.is_shown = true;
        write(&format!("{CLEAR}{line}"));
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            write(CLEAR);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A terminal that takes nothing is not waited for.
fn write(text: &str) {
    let mut stderr = stderr();
    if wait::is_writable(&stderr) {
        // There is nowhere to say that it failed.
        let _ = stderr.write_all(text.as_bytes());
    }
}

/// What the line says, `executed` instructions being those of the time that has `passed`.
fn line(reached: Reached, executed: u64, passed: Duration, idle: Duration) -> String {
    let Reached { cycles, clock_hz, instructions } = reached;
    let milliseconds = u128::from(cycles) * 1000 / u128::from(clock_hz.max(1));
    let instructions = match instructions {
        Some(instructions) => {
            let mips = u128::from(executed) / passed.as_micros().max(1);
            format!("{} million instructions, {mips} MIPS", instructions / 1_000_000)
        }
        None => "instructions not counted on KVM".into(),
    };
    format!(
        "vpmu: {}.{:03} s of virtual time, {instructions}, console idle for {} s",
        milliseconds / 1000,
        milliseconds % 1000,
        idle.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3,500,000,000 cycles at 2 GHz are 1.75 s; 40 million instructions in 500 ms are 80 MIPS.
    #[test]
    fn what_the_line_says() {
        let reached = Reached {
            cycles: 3_500_000_000,
            clock_hz: 2_000_000_000,
            instructions: Some(123_456_789),
        };
        let (passed, idle) = (Duration::from_millis(500), Duration::from_millis(4900));
        assert_eq!(
            line(reached, 40_000_000, passed, idle),
            "vpmu: 1.750 s of virtual time, 123 million instructions, 80 MIPS, console idle for 4 s"
        );
        let on_kvm = Reached { instructions: None, ..reached };
        assert_eq!(
            line(on_kvm, 0, passed, idle),
            "vpmu: 1.750 s of virtual time, instructions not counted on KVM, console idle for 4 s"
        );
    }
}
