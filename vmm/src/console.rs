//! The guest's serial console on the host: where output goes and where input comes from.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

use crate::error::{Error, Result};
use crate::output::Output;
use crate::stop::{Cause, Stop};
use crate::typing::Typing;
use crate::wait;

/// Where the guest's first serial port is connected.
pub struct Console {
    name: String,
    output: Sink,
    input: Option<Typing>,
    interactive: bool,
    stop: Option<Stop>,
}

/// Where output goes.
enum Sink {
    /// To this process.
    Direct(Box<dyn Write>),
    /// To a file of the host, written by a thread since it may block.
    Queued(Output),
}

impl Console {
    /// Output to standard output, input from standard input. If that is a terminal, Ctrl-A x requests
    /// the `stop` and Ctrl-A Ctrl-A is Ctrl-A.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn stdio(stop: &Stop) -> Result<Self> {
        let stdin = io::stdin();
        let interactive = stdin.is_terminal();
        let failed = |e| Error::Host(format!("cannot read standard input: {e}"));
        let file = stdin.as_fd().try_clone_to_owned().map_err(failed)?;
        let quit = stop.clone();
        // The thread does not hold the lock of standard input, which restoring the terminal needs.
        let input =
            Typing::read(File::from(file), interactive, move || _ = quit.request(Cause::Quit))
                .map_err(failed)?;
        let output = Output::stream(&io::stdout(), stop)
            .map_err(|e| Error::Host(format!("cannot write standard output: {e}")))?;
        Ok(Self {
            name: "standard output".into(),
            output: Sink::Queued(output),
            input: Some(input),
            interactive,
            stop: Some(stop.clone()),
        })
    }

    /// Output to a file, no input.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn file(path: &Path, stop: &Stop) -> Result<Self> {
        let name = path.display().to_string();
        let output = File::create(path)
            .and_then(|file| Output::new(move || Ok(file), false, stop))
            .map_err(|e| Error::Host(format!("cannot write {name}: {e}")))?;
        let (output, stop) = (Sink::Queued(output), Some(stop.clone()));
        Ok(Self { name, output, input: None, interactive: false, stop })
    }

    /// Output to `output`, called `name` in messages; no input.
    #[must_use]
    pub fn to(name: String, output: Box<dyn Write>) -> Self {
        Self { name, output: Sink::Direct(output), input: None, interactive: false, stop: None }
    }

    /// Whether more input may come: its end has not been read.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.input.as_ref().is_some_and(Typing::is_open)
    }

    /// Whether more input may come, or some has come that [`Console::typed`] has not taken.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.is_open() || input.has_bytes())
    }

    /// Signalled when something has been typed, or nothing can be any more.
    #[must_use]
    pub fn input_event(&self) -> Option<&EventFd> {
        self.input.as_ref().map(Typing::arrived)
    }

    /// Whether input is a terminal's: idle time of the guest then passes as real time.
    #[must_use]
    pub fn interactive(&self) -> bool {
        self.interactive
    }

    /// Writes what the guest sent. Waits while the reader is behind, unless the run is to end.
    ///
    /// # Errors
    /// If it, or something before it, cannot be written, as on a full disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.output {
            Sink::Direct(output) => output.write_all(bytes),
            Sink::Queued(output) => output.write(bytes),
        }
        .map_err(|e| self.failed(&e))
    }

    /// Writes out all that is buffered. Once the run is to end, it does not wait for a reader that does
    /// not read: see [`Console::lost`].
    ///
    /// # Errors
    /// If it cannot be written, as on a full disk.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.output {
            Sink::Direct(output) => output.flush(),
            Sink::Queued(output) => output.flush(),
        }
        .map_err(|e| self.failed(&e))
    }

    /// A message about output that [`Console::flush`] could not write, if there is any.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        match &self.output {
            Sink::Direct(_) => None,
            Sink::Queued(output) => lost(&self.name, output),
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::Host(format!("cannot write {}: {error}", self.name))
    }

    /// The input since the last call. While it is not called, reading ahead stops at a full buffer.
    pub fn typed(&mut self) -> Vec<u8> {
        self.input.as_ref().map_or(Vec::new(), Typing::take)
    }

    /// Waits until something is typed or the run is to end, but not longer than `time`.
    pub fn wait(&mut self, time: Duration) {
        if let Some(input) = &self.input {
            wait::wait([Some(input.arrived()), None], self.stop.as_ref().map(Stop::event), time);
        }
    }
}

/// A message about bytes that have not been written to the file called `name`, if there are any.
fn lost(name: &str, output: &Output) -> Option<String> {
    let left = output.left();
    (left > 0).then(|| format!("{name} is blocked: {left} bytes are lost"))
}

/// Writes `text` to a file, or to standard output, after all else. Once the run is to end, it does not
/// wait for a reader that does not read; returns a message about what is lost then.
///
/// # Errors
/// If it cannot be written; but a reader of standard output that has gone away is no error.
pub(crate) fn print_last(text: &str, path: Option<&Path>, stop: &Stop) -> Result<Option<String>> {
    let name = path.map_or("standard output".into(), |path| path.display().to_string());
    let output = match path.map(Path::to_path_buf) {
        Some(path) => Output::new(move || File::create(path), true, stop),
        None => Output::stream(&io::stdout(), stop),
    };
    let written = output.and_then(|mut output| {
        output.write(text.as_bytes())?;
        output.flush()?;
        Ok(lost(&name, &output))
    });
    match written {
        Err(e) if path.is_none() && e.kind() == ErrorKind::BrokenPipe => Ok(None),
        written => written.map_err(|e| Error::Host(format!("cannot write {name}: {e}"))),
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
        if let Ok(mut console) = Console::file(Path::new("/dev/full"), &Stop::new().unwrap()) {
            let result = console.write(b"x").and_then(|()| console.flush());
            assert!(result.unwrap_err().to_string().starts_with("cannot write /dev/full: "));
        }
    }
}
