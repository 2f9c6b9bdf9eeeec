//! Why a payload could not be put into guest memory.

use std::fmt;
use std::path::PathBuf;

/// A reason not to start the guest; its text is one line.
#[derive(Debug)]
pub enum BootError {
    /// A host file could not be read.
    Read {
        /// The file asked for.
        path: PathBuf,
        /// What the host said.
        source: std::io::Error,
    },
    /// A file that an option names cannot be used.
    Argument {
        /// The option.
        option: &'static str,
        /// The file, as the user named it.
        name: String,
        /// Why not.
        problem: String,
    },
    /// A file is not in a format that can be started.
    Format {
        /// The file, as the user named it.
        name: String,
        /// What its content looks like.
        found: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// A file has the right format but ends too early, or contradicts itself.
    Damaged {
        /// The file, as the user named it.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something does not fit into guest memory.
    DoesNotFit {
        /// What should be placed, for example `initrd big.cpio`.
        what: String,
        /// Its size in bytes.
        size: u64,
        /// Where it may go, in words.
        place: String,
    },
    /// A memory size that cannot be used.
    MemorySize {
        /// The size as the user wrote it, or in bytes.
        given: String,
        /// Why not.
        problem: String,
    },
    /// The host does not give guest memory.
    HostMemory {
        /// How much was asked for.
        size: String,
        /// What the host said.
        why: String,
    },
    /// A combination of options or a property of the input that is not supported.
    Unsupported(String),
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Argument { option, name, problem } => write!(f, "{option} {name}: {problem}"),
            Self::Format { name, found, expected } => {
                write!(f, "{name}: found {found}, expected {expected}")
            }
            Self::Damaged { name, problem } => write!(f, "{name}: {problem}"),
            Self::DoesNotFit { what, size, place } => {
                write!(f, "{what} ({size} bytes) does not fit into {place}")
            }
            Self::MemorySize { given, problem } => write!(f, "memory size {given}: {problem}"),
            Self::HostMemory { size, why } => {
                write!(f, "memory size {size}: the host refuses it: {why}")
            }
            Self::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for BootError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The free memory from `from` up to `to` in the words of [`BootError::DoesNotFit`], which may be
/// none: then it says where free memory ends.
pub(super) fn between(from: u64, to: u64) -> String {
    if from < to {
        format!("the memory between {from:#x} and {to:#x}")
    } else {
        format!("memory at {from:#x}: what is free there ends at {to:#x}")
    }
}

/// What the functions of this module return.
pub type Result<T> = std::result::Result<T, BootError>;
