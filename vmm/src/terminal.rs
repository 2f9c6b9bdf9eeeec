//! The host's terminal in raw mode.

use std::io::{IsTerminal, stdin};
use std::sync::atomic::{AtomicBool, Ordering};

use vmm_sys_util::terminal::Terminal;

use crate::error::{Error, Result};

/// Standard input is a terminal that is to be restored.
static RAW: AtomicBool = AtomicBool::new(false);

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
        let refused =
            |e| Error::Host(format!("cannot switch the terminal to raw mode: {e}")).because(e);
        RAW.store(true, Ordering::SeqCst);
        let raw = Self(());
        stdin().lock().set_raw_mode().map_err(refused)?;
        Ok(Some(raw))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal if it is in raw mode. Any thread may do so.
pub(crate) fn restore() {
    if RAW.swap(false, Ordering::SeqCst) {
        // Nothing can be done if the terminal has gone.
        let _ = stdin().lock().set_canon_mode();
    }
}
