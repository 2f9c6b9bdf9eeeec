//! Why a command failed, and the exit statuses of `vpmu`.

use std::{fmt, io};

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
    /// One of the others, whose text says all, and the error that led to it.
    Caused(Box<Self>, Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The exit status that stands for it.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => status::USAGE,
            Self::Input(_) => status::INPUT,
            Self::Host(_) => status::HOST,
            Self::Caused(error, _) => error.status(),
        }
    }

    /// A file or a stream of this name cannot be written.
    #[must_use]
    pub fn cannot_write(name: impl fmt::Display, cause: io::Error) -> Self {
        Self::Host(format!("cannot write {name}: {cause}")).because(cause)
    }

    /// An error with what led to it, for who wants to know more than a line ([`std::error::Error::source`]).
    #[must_use]
    pub fn because(self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Caused(Box::new(self), Box::new(cause))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Input(text) | Self::Host(text) => f.write_str(text),
            Self::Caused(error, _) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Caused(_, cause) => Some(&**cause),
            Self::Usage(_) | Self::Input(_) | Self::Host(_) => None,
        }
    }
}

impl From<BootError> for Error {
    fn from(error: BootError) -> Self {
        let text = error.to_string();
        let failure = match error {
            BootError::MemorySize { .. } | BootError::Unsupported(_) => Self::Usage(text),
            BootError::HostMemory { .. } => Self::Host(text),
            BootError::Read { .. }
            | BootError::Argument { .. }
            | BootError::Format { .. }
            | BootError::Damaged { .. }
            | BootError::DoesNotFit { .. } => Self::Input(text),
        };
        failure.because(error)
    }
}

/// What the functions of the command line return.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    /// The line and the status are those of the error, the cause is behind them and what it is.
    #[test]
    fn an_error_keeps_its_cause() {
        let cause = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = Error::cannot_write("a.bin", cause);
        assert_eq!(error.to_string(), "cannot write a.bin: No space left on device (os error 28)");
        assert_eq!(error.status(), status::HOST);
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.and_then(io::Error::raw_os_error), Some(libc::ENOSPC));
    }

    /// A file that is not there: the host's error is the second behind the line.
    #[test]
    fn a_payload_that_cannot_be_read_keeps_what_the_host_said() {
        let source = io::Error::from_raw_os_error(libc::ENOENT);
        let error = Error::from(BootError::Read { path: "bzImage".into(), source });
        assert_eq!(error.status(), status::INPUT);
        let host = error.source().and_then(|boot| boot.source());
        let host = host.and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(host.map(io::Error::kind), Some(io::ErrorKind::NotFound));
    }
}
