//! The guest's serial console on the host: where output goes and where input comes from.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

use crate::error::{Error, Result};
use crate::typing::Typing;
use crate::wait;

/// Where the guest's first serial port is connected.
pub struct Console {
    name: String,
    output: Box<dyn Write>,
    input: Option<Typing>,
    interactive: bool,
}

impl Console {
    /// Output to standard output, input from standard input. If that is a terminal, Ctrl-A x leaves
    /// and Ctrl-A Ctrl-A is Ctrl-A.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn stdio() -> Result<Self> {
        let stdin = io::stdin();
        let interactive = stdin.is_terminal();
        let file = stdin
            .as_fd()
            .try_clone_to_owned()
            .map_err(|e| Error::Host(format!("cannot read standard input: {e}")))?;
        // The thread does not hold the lock of standard input, which restoring the terminal needs.
        let input = Typing::read(File::from(file), interactive)
            .map_err(|e| Error::Host(format!("no event descriptor: {e}")))?;
        Ok(Self {
            name: "standard output".into(),
            output: Box::new(io::stdout()),
            input: Some(input),
            interactive,
        })
    }

    /// Output to a file, no input.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn file(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file =
            File::create(path).map_err(|e| Error::Host(format!("cannot write {name}: {e}")))?;
        Ok(Self::to(name, Box::new(io::BufWriter::new(file))))
    }

    /// Output to `output`, called `name` in messages; no input.
    #[must_use]
    pub fn to(name: String, output: Box<dyn Write>) -> Self {
        Self { name, output, input: None, interactive: false }
    }

    /// Whether somebody may still type.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.input.as_ref().is_some_and(Typing::is_open)
    }

    /// Whether somebody may still type, or has and it has not been taken.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.is_open() || input.has_bytes())
    }

    /// Signalled when something has been typed, or nothing can be any more.
    #[must_use]
    pub fn input_event(&self) -> Option<&EventFd> {
        self.input.as_ref().map(Typing::arrived)
    }

    /// Whether a human sits at it: idle time of the guest then passes as real time.
    #[must_use]
    pub fn interactive(&self) -> bool {
        self.interactive
    }

    /// Shows what the guest sent.
    ///
    /// # Errors
    /// If it cannot be written, as on a full disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.output.write_all(bytes).map_err(|e| self.failed(&e))?;
        if self.input.is_some() { self.flush() } else { Ok(()) }
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// If it cannot be written, as on a full disk.
    pub fn flush(&mut self) -> Result<()> {
        self.output.flush().map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::Host(format!("cannot write {}: {error}", self.name))
    }

    /// What has been typed since the last call. Whoever does not call it lets the rest wait: no more
    /// is read than is kept here.
    pub fn typed(&mut self) -> Vec<u8> {
        self.input.as_ref().map_or(Vec::new(), Typing::take)
    }

    /// Whether the user has typed Ctrl-A x, whatever else still waits to be taken.
    #[must_use]
    pub fn quits(&self) -> bool {
        self.input.as_ref().is_some_and(Typing::quits)
    }

    /// Waits until something is typed, but not longer than `time`.
    pub fn wait(&mut self, time: Duration) {
        if let Some(input) = &self.input {
            wait::wait([Some(input.arrived())], time);
        }
    }
}

/// Writes `text` to standard output; a reader that has gone away is no error.
///
/// # Errors
/// If it cannot be written.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Host(format!("cannot write standard output: {e}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error() {
        if let Ok(mut console) = Console::file(Path::new("/dev/full")) {
            let result = console.write(b"x").and_then(|()| console.flush());
            assert!(result.unwrap_err().to_string().starts_with("cannot write /dev/full: "));
        }
    }
}
