//! How a run ends.

use crate::error::status;
use crate::stop::Cause;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest switched the machine off.
    PowerOff,
    /// The guest asked for a reset.
    Reset,
    /// The guest wrote the debug-exit port: its exit status.
    Exit(u32),
    /// Every processor is halted, and nothing will wake one.
    Halted,
    /// This processor shut down.
    TripleFault(usize),
    /// The limit of instructions was reached.
    Instructions,
    /// The time limit was reached.
    Timeout,
    /// The user typed the escape.
    Quit,
    /// A signal asked the process to end.
    Signal(i32),
    /// Virtual time has come to its end.
    EndOfTime,
    /// Where it was to pause ([`Machine::pause_at`](crate::machine::Machine::pause_at)): it can go on.
    Paused,
    /// Where a debugger stops this processor ([`crate::gdb`]): it can go on.
    Debugger(usize),
}

impl End {
    /// The exit status that stands for it.
    #[must_use]
    pub fn status(self) -> u8 {
        match self {
            Self::PowerOff => status::POWER_OFF,
            Self::Reset => status::RESET,
            // Only eight bits of an exit status reach the parent.
            Self::Exit(value) => value as u8,
            Self::Halted => status::HALTED,
            Self::TripleFault(_) => status::TRIPLE_FAULT,
            Self::Instructions => status::INSTRUCTIONS,
            Self::Timeout => status::TIMEOUT,
            Self::Quit => status::QUIT,
            Self::Signal(number) => status::QUIT.wrapping_add(number as u8),
            Self::EndOfTime => status::END_OF_TIME,
            Self::Paused | Self::Debugger(_) => status::POWER_OFF,
        }
    }

    /// The same, with the value at the debug-exit port itself; 255 for what no status holds.
    #[must_use]
    pub fn status_as_reported(self) -> u8 {
        match self {
            // The port's status is value * 2 + 1.
            Self::Exit(value) => u8::try_from(value >> 1).unwrap_or(u8::MAX),
            other => other.status(),
        }
    }

    /// Whether the guest has asked for it.
    #[must_use]
    pub fn is_the_guests_wish(self) -> bool {
        matches!(self, Self::PowerOff | Self::Exit(_) | Self::Reset)
    }

    /// What there is to say of it, unless the guest did what a guest should.
    #[must_use]
    pub fn message(self) -> Option<String> {
        Some(match self {
            Self::PowerOff | Self::Exit(_) | Self::Quit | Self::Paused | Self::Debugger(_) => {
                return None;
            }
            Self::Reset => "the guest asked for a reset".into(),
            Self::Halted => "every processor is halted for good".into(),
            Self::TripleFault(id) => format!("triple fault on processor {id}"),
            Self::Instructions => "the limit of instructions is reached".into(),
            Self::Timeout => "the time limit is reached".into(),
            Self::Signal(number) => format!("ended by signal {number}"),
            Self::EndOfTime => "virtual time is at its end".into(),
        })
    }

    /// One word for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerOff => "power-off",
            Self::Reset => "reset",
            Self::Exit(_) => "exit",
            Self::Halted => "halted",
            Self::TripleFault(_) => "triple-fault",
            Self::Instructions => "instruction-limit",
            Self::Timeout => "timeout",
            Self::Quit => "quit",
            Self::Signal(_) => "signal",
            Self::EndOfTime => "end-of-time",
            Self::Paused => "paused",
            Self::Debugger(_) => "debugger",
        }
    }
}

impl From<Cause> for End {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Timeout => Self::Timeout,
            Cause::Quit => Self::Quit,
            Cause::Signal(number) => Self::Signal(number),
        }
    }
}
