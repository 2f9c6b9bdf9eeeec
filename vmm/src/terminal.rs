//! The host's terminal in raw mode, and the signals that would leave it there.

use std::ffi::c_void;
use std::io::{IsTerminal, stdin};
use std::sync::atomic::{AtomicI32, Ordering};

use vmm_sys_util::signal::register_signal_handler;
use vmm_sys_util::terminal::Terminal;

use crate::error::{Error, Result};

/// The number of the last signal that asked the process to end; zero if none came.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
/// The signals that ask the process to end.
pub(crate) const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Notes the signal; the machine looks between two slices. Generic so that the C type of the second
/// argument is inferred and need not be named.
extern "C" fn note_signal<T>(number: i32, _: *mut T, _: *mut c_void) {
    SIGNAL.store(number, Ordering::Relaxed);
}

/// Makes SIGHUP, SIGINT and SIGTERM end the run in an orderly way instead of the process at once.
///
/// # Errors
/// If the host refuses.
pub fn catch_signals() -> Result<()> {
    for number in SIGNALS {
        register_signal_handler(number, note_signal)
            .map_err(|e| Error::Host(format!("cannot catch signal {number}: {e}")))?;
    }
    Ok(())
}

/// The signal that asked the process to end, if one came.
#[must_use]
pub fn caught_signal() -> Option<i32> {
    Some(SIGNAL.load(Ordering::Relaxed)).filter(|&number| number != 0)
}

/// Standard input in raw mode for as long as this lives: characters arrive one by one, without echo,
/// and Ctrl-C is a character. Dropping it restores the terminal, also while a panic unwinds.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Switches to raw mode; `None` if standard input is no terminal.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn enter() -> Result<Option<Self>> {
        if !stdin().is_terminal() {
            return Ok(None);
        }
        let refused = |e| Error::Host(format!("cannot switch the terminal to raw mode: {e}"));
        stdin().lock().set_raw_mode().map_err(refused)?;
        Ok(Some(Self(())))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nothing can be done if the terminal has gone.
        let _ = stdin().lock().set_canon_mode();
    }
}
