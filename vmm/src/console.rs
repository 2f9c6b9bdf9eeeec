//! The guest's serial console on the host: where output goes and where input comes from.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

use crate::error::{Error, Result};

/// Ctrl-A: begins an escape.
const ESCAPE: u8 = 0x01;

/// Where the guest's first serial port is connected.
pub struct Console {
    name: String,
    output: Box<dyn Write>,
    input: Option<Receiver<Vec<u8>>>,
    /// Signalled when there is something in `input`.
    arrived: Option<EventFd>,
    /// Bytes that came while [`Console::wait`] waited.
    early: Vec<u8>,
    keys: Keys,
}

/// What has been typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// Bytes for the guest.
    pub bytes: Vec<u8>,
    /// The user typed Ctrl-A x.
    pub quit: bool,
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
        let (sender, input) = channel();
        let failed = |e| Error::Host(format!("no event descriptor: {e}"));
        let arrived = EventFd::new(libc::EFD_NONBLOCK).map_err(failed)?;
        let signal = arrived.try_clone().map_err(failed)?;
        // The thread does not hold the lock of standard input, which restoring the terminal needs.
        thread::spawn(move || {
            let mut file = File::from(file);
            let mut buffer = [0; 256];
            while let Ok(n @ 1..) = file.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
                // Fails for a full counter only, which wakes as well.
                let _ = signal.write(1);
            }
            drop(sender);
            let _ = signal.write(1);
        });
        Ok(Self {
            name: "standard output".into(),
            output: Box::new(io::stdout()),
            input: Some(input),
            arrived: Some(arrived),
            early: Vec::new(),
            keys: Keys { interactive, escaped: false },
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
        Self { name, output, input: None, arrived: None, early: Vec::new(), keys: Keys::default() }
    }

    /// Whether somebody may still type.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.input.is_some()
    }

    /// Signalled when something has been typed, or nothing can be any more.
    #[must_use]
    pub fn input_event(&self) -> Option<&EventFd> {
        self.arrived.as_ref()
    }

    /// Whether a human sits at it: idle time of the guest then passes as real time.
    #[must_use]
    pub fn interactive(&self) -> bool {
        self.keys.interactive
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
        if self.has_input() { self.flush() } else { Ok(()) }
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

    /// What has been typed since the last call.
    pub fn typed(&mut self) -> Typed {
        let mut bytes = std::mem::take(&mut self.early);
        while let Some(input) = &self.input {
            match input.try_recv() {
                Ok(more) => bytes.extend(more),
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => self.input = None,
            }
        }
        self.keys.translate(&bytes)
    }

    /// Waits until something is typed, but not longer than `time`.
    pub fn wait(&mut self, time: Duration) {
        let Some(input) = &self.input else { return };
        match input.recv_timeout(time) {
            Ok(bytes) => self.early.extend(bytes),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.input = None,
        }
    }
}

/// Finds the escape among what is typed.
#[derive(Debug, Default)]
struct Keys {
    interactive: bool,
    escaped: bool,
}

impl Keys {
    fn translate(&mut self, bytes: &[u8]) -> Typed {
        let mut typed = Typed::default();
        for &byte in bytes {
            match (self.interactive, std::mem::take(&mut self.escaped), byte) {
                (true, false, ESCAPE) => self.escaped = true,
                (true, true, b'x' | b'X') => typed.quit = true,
                (true, true, ESCAPE) => typed.bytes.push(ESCAPE),
                (true, true, other) => typed.bytes.extend([ESCAPE, other]),
                (_, _, other) => typed.bytes.push(other),
            }
        }
        typed
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
    fn the_escape_is_found_across_pieces() {
        let mut keys = Keys { interactive: true, escaped: false };
        assert_eq!(keys.translate(b"a\x01"), Typed { bytes: b"a".to_vec(), quit: false });
        assert_eq!(
            keys.translate(b"\x01b\x01c"),
            Typed { bytes: b"\x01b\x01c".to_vec(), quit: false }
        );
        assert_eq!(keys.translate(b"\x01x"), Typed { bytes: vec![], quit: true });
    }

    /// A pipe may carry any bytes.
    #[test]
    fn without_a_terminal_there_is_no_escape() {
        let mut keys = Keys::default();
        assert_eq!(keys.translate(b"\x01x"), Typed { bytes: b"\x01x".to_vec(), quit: false });
    }

    #[test]
    fn a_full_disk_is_an_error() {
        if let Ok(mut console) = Console::file(Path::new("/dev/full")) {
            let result = console.write(b"x").and_then(|()| console.flush());
            assert!(result.unwrap_err().to_string().starts_with("cannot write /dev/full: "));
        }
    }
}
