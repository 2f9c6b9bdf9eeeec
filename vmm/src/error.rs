//! Why a command failed, and the exit statuses of `vpmu`.

use std::fmt;

use crate::boot::BootError;

/// Exit statuses that are not the guest's own.
///
/// All are even: the status that a guest leaves by the debug-exit port is `value * 2 + 1`, so the
/// two are never confused.
pub mod status {
    /// The guest switched itself off.
    pub const POWER_OFF: u8 = 0;
    /// The command line is wrong.
    pub const USAGE: u8 = 2;
    /// An input file is missing, damaged or in no known format.
    pub const INPUT: u8 = 4;
    /// The host refused something.
    pub const HOST: u8 = 6;
    /// Virtual time has come to its end.
    pub const END_OF_TIME: u8 = 116;
    /// The guest asked for a reset.
    pub const RESET: u8 = 118;
    /// Every processor is halted for good.
    pub const HALTED: u8 = 120;
    /// `--max-instructions` was reached.
    pub const INSTRUCTIONS: u8 = 122;
    /// `--timeout` ran out.
    pub const TIMEOUT: u8 = 124;
    /// A processor shut down: an exception while delivering a double fault.
    pub const TRIPLE_FAULT: u8 = 126;
    /// The user left by the console escape, or a signal (this plus its number) came.
    pub const QUIT: u8 = 128;
}

/// A failure of the command itself; its text is one line.
#[derive(Debug)]
pub enum Error {
    /// The command line asks for something impossible.
    Usage(String),
    /// An input file cannot be used.
    Input(String),
    /// The host refused something.
    Host(String),
}

impl Error {
    /// The exit status that stands for it.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => status::USAGE,
            Self::Input(_) => status::INPUT,
            Self::Host(_) => status::HOST,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Input(text) | Self::Host(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<BootError> for Error {
    fn from(error: BootError) -> Self {
        let text = error.to_string();
        match error {
            BootError::MemorySize { .. } | BootError::Unsupported(_) => Self::Usage(text),
            BootError::HostMemory { .. } => Self::Host(text),
            BootError::Read { .. }
            | BootError::Argument { .. }
            | BootError::Format { .. }
            | BootError::Damaged { .. }
            | BootError::DoesNotFit { .. } => Self::Input(text),
        }
    }
}

/// What the functions of the command line return.
pub type Result<T> = std::result::Result<T, Error>;
