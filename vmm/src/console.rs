//! The guest's serial console on the host: where output goes and where input comes from.

mod captured;
mod past;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

pub use self::captured::Captured;
pub(crate) use self::past::Place;
use self::past::{Past, Stream};
use crate::boot::pack::Piped;
use crate::devices::pipes::Part;
use crate::error::{Error, Result};
use crate::exec::get::{Get, Gets};
use crate::output::Output;
use crate::stop::{Cause, Stop};
use crate::typing::Typing;
use crate::wait;

/// The streams that are written, in messages.
const STREAMS: [&str; 2] = ["standard output", "standard error"];
/// How long one wait for a command's input takes at most, before it is looked at whether the run is to pause.
const PATIENCE: Duration = Duration::from_millis(100);

/// Where the guest's first serial port is connected, and the pipes of a command in the guest.
pub struct Console {
    name: String,
    output: Sink,
    input: Option<Typing>,
    interactive: bool,
    on_terminal: bool,
    stop: Option<Stop>,
    pipes: Pipes,
    past: Option<Past>,
}

/// The standard streams that a command in the guest has as pipes.
#[derive(Default)]
struct Pipes {
    /// The input is the command's, and nothing is typed.
    has_input: bool,
    /// What has been read of it and not been given.
    input: VecDeque<u8>,
    output: Option<Output>,
    error: Option<Output>,
    files: Gets,
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
        Ok(Self {
            name: STREAMS[0].into(),
            output: Sink::Queued(stream(&io::stdout(), STREAMS[0], stop)?),
            input: Some(read_stdin(stop)?),
            interactive: io::stdin().is_terminal(),
            on_terminal: io::stdout().is_terminal(),
            stop: Some(stop.clone()),
            pipes: Pipes::default(),
            past: None,
        })
    }

    /// The console of a guest that runs a command, and the command's pipes. The console is on standard
    /// output if that is no pipe, else on standard error.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn of_command(piped: Piped, stop: &Stop) -> Result<Self> {
        let (name, output) = if piped.output {
            (STREAMS[1], stream(&io::stderr(), STREAMS[1], stop)?)
        } else {
            (STREAMS[0], stream(&io::stdout(), STREAMS[0], stop)?)
        };
        let console = Self {
            name: name.into(),
            output: Sink::Queued(output),
            input: if piped.input { None } else { Some(read_stdin(stop)?) },
            interactive: !piped.input && io::stdin().is_terminal(),
            on_terminal: true,
            stop: Some(stop.clone()),
            pipes: Pipes::default(),
            past: None,
        };
        console.with_pipes(piped, stop)
    }

    /// With the pipes of a command: standard input, output and error.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn with_pipes(mut self, piped: Piped, stop: &Stop) -> Result<Self> {
        if piped.input {
            self.input = Some(read_stdin(stop)?);
            self.pipes.has_input = true;
        }
        if piped.output {
            self.pipes.output = Some(stream(&io::stdout(), STREAMS[0], stop)?);
        }
        if piped.error {
            self.pipes.error = Some(stream(&io::stderr(), STREAMS[1], stop)?);
        }
        self.on_terminal = true;
        Ok(self)
    }

    /// With these files of the guest coming as well.
    #[must_use]
    pub fn with_files(mut self, gets: &[Get]) -> Self {
        self.pipes.files = Gets::new(gets);
        self
    }

    /// Output to a file, no input.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn file(path: &Path, stop: &Stop) -> Result<Self> {
        let name = path.display().to_string();
        let output = File::create(path)
            .and_then(|file| Output::new(move || Ok(file), false, stop))
            .map_err(|e| Error::cannot_write(&name, e))?;
        let (output, stop) = (Sink::Queued(output), Some(stop.clone()));
        let (input, pipes) = (None, Pipes::default());
        let (interactive, on_terminal, past) = (false, false, None);
        Ok(Self { name, output, input, interactive, on_terminal, stop, pipes, past })
    }

    /// Output to `output`, called `name` in messages; no input.
    #[must_use]
    pub fn to(name: String, output: Box<dyn Write>) -> Self {
        let (output, input, pipes) = (Sink::Direct(output), None, Pipes::default());
        let (interactive, on_terminal, stop, past) = (false, false, None, None);
        Self { name, output, input, interactive, on_terminal, stop, pipes, past }
    }

    /// From now on remembers what the guest is given and has written, for [`Console::go_back`]: all that is typed, and all
    /// of a command's input and of its files, in memory.
    pub(crate) fn remember(&mut self) {
        self.past.get_or_insert_with(|| Past::new(self.pipes.files.left().cloned().collect()));
    }

    /// How far the guest has come with that.
    pub(crate) fn place(&self) -> Place {
        self.past.as_ref().map(Past::place).unwrap_or_default()
    }

    /// The guest, which has come to this virtual time, in cycles, is where it was then. A command is given the same input
    /// from there on as it was before, what was typed is typed again at the same times, and what is written again is not
    /// written twice.
    pub(crate) fn go_back(&mut self, place: Place, reached: u64) {
        let given = self.past.as_mut().map(|past| past.go_back(place, reached)).unwrap_or_default();
        given.into_iter().rev().for_each(|byte| self.pipes.input.push_front(byte));
    }

    /// The guest was changed, and goes on otherwise than before: whatever it writes is written.
    ///
    /// # Errors
    /// If a file that has come is to come anew from its middle, and cannot be written.
    pub(crate) fn go_on_otherwise(&mut self) -> Result<()> {
        let files = &mut self.pipes.files;
        self.past.as_mut().map_or(Ok(()), |past| past.go_on_otherwise(files))
    }

    /// Nobody types anything new while something is looked for that the guest has done, nor does time pass for who might.
    pub(crate) fn search(&mut self, is_searched: bool) {
        self.past.iter_mut().for_each(|past| past.is_searched = is_searched);
    }

    /// Whether something is.
    pub(crate) fn is_searched(&self) -> bool {
        self.past.as_ref().is_some_and(|past| past.is_searched)
    }

    /// Whether more input may come: its end has not been read.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.keyboard().is_some_and(Typing::is_open)
    }

    /// Whether more input may come, or some has come that [`Console::typed`] has not taken.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.keyboard().is_some_and(|input| input.is_open() || input.has_bytes())
    }

    /// Where the guest was put back: the next virtual time behind this one, in cycles, at which something is typed again
    /// or, of one that sleeps, behind which it has not been.
    pub(crate) fn next_time(&self, time: u64, sleeps: bool) -> Option<u64> {
        self.past.as_ref().and_then(|past| past.next_time(time, sleeps))
    }

    /// Signalled when something has been typed, or nothing can be any more.
    #[must_use]
    pub fn input_event(&self) -> Option<&EventFd> {
        self.input.as_ref().map(Typing::arrived)
    }

    /// Whether input is a terminal's: idle time of the guest then passes as real time.
    #[must_use]
    pub fn interactive(&self) -> bool {
        self.interactive && !self.is_searched()
    }

    /// Writes what the guest sent. Waits while the reader is behind, unless the run is to end.
    ///
    /// # Errors
    /// If it, or something before it, cannot be written, as on a full disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let bytes = new_of(&mut self.past, Stream::Console, bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.output {
            Sink::Direct(output) => output.write_all(bytes),
            Sink::Queued(output) => output.write(bytes),
        }
        .map_err(|e| self.failed(e))
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
        .map_err(|e| self.failed(e))?;
        for (pipe, _, name) in self.pipes.with([&[], &[]]) {
            pipe.flush().map_err(|e| Error::cannot_write(name, e))?;
        }
        Ok(())
    }

    /// A message about output that [`Console::flush`] could not write, if there is any.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        let of_console = match &self.output {
            Sink::Direct(_) => None,
            Sink::Queued(output) => lost(&self.name, output),
        };
        let pipes = [&self.pipes.output, &self.pipes.error].into_iter().zip(STREAMS);
        let mut of_pipes = pipes.filter_map(|(pipe, name)| lost(name, pipe.as_ref()?));
        of_console.or_else(|| of_pipes.next())
    }

    /// Whether something that the guest writes may be on a terminal.
    #[must_use]
    pub fn is_on_terminal(&self) -> bool {
        self.on_terminal
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::cannot_write(&self.name, error)
    }

    /// The input since the last call, which the machine takes at this virtual time, in cycles; where the guest was put
    /// back, what it has taken by then before. While it is not called, reading ahead stops at a full buffer.
    pub fn typed(&mut self, time: u64) -> Vec<u8> {
        if let Some(again) = self.past.as_mut().and_then(|past| past.type_again(time)) {
            return again;
        }
        let bytes = self.keyboard().map_or(Vec::new(), Typing::take);
        if let Some(past) = self.past.as_mut().filter(|_| !bytes.is_empty()) {
            past.note_typed(time, &bytes);
        }
        bytes
    }

    /// The input, if it is typed.
    fn keyboard(&self) -> Option<&Typing> {
        self.input.as_ref().filter(|_| !self.pipes.has_input && !self.is_searched())
    }

    /// Up to `most` bytes for a command, none at the end of its input. With `whole` waits until there are as
    /// many, or the end is there; nobody waits for what is looked for in the past. `None` if there is nothing yet, or the
    /// run is to end or to pause.
    pub fn piped(&mut self, most: usize, whole: bool) -> Option<Vec<u8>> {
        let Some(typing) = self.input.as_ref().filter(|_| self.pipes.has_input) else {
            return Some(Vec::new());
        };
        loop {
            // In this order: what comes between the two would be lost otherwise.
            let ended = !typing.is_open();
            let ready = &mut self.pipes.input;
            ready.extend(typing.take());
            if ended || ready.len() >= most || !whole && !ready.is_empty() {
                let count = ready.len().min(most);
                let bytes: Vec<u8> = ready.drain(..count).collect();
                self.past.iter_mut().for_each(|past| past.give(&bytes));
                return Some(bytes);
            }
            let is_over = |stop: &Stop| stop.is_requested() || stop.asks_for_pause();
            if !whole || self.is_searched() || self.stop.as_ref().is_some_and(is_over) {
                return None;
            }
            let stop = self.stop.as_ref().map(Stop::event);
            wait::wait([Some(typing.arrived()), None], stop, PATIENCE);
        }
    }

    /// Writes what a command has written to its standard output and standard error, as [`Console::write`]
    /// does.
    ///
    /// # Errors
    /// As there.
    pub fn write_pipes(&mut self, output: &[u8], error: &[u8]) -> Result<()> {
        let output = new_of(&mut self.past, Stream::Output, output);
        let error = new_of(&mut self.past, Stream::Error, error);
        for (pipe, bytes, name) in self.pipes.with([output, error]) {
            if !bytes.is_empty() {
                pipe.write(bytes).map_err(|e| Error::cannot_write(name, e))?;
            }
        }
        Ok(())
    }

    /// Writes what a command has left in its files.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn write_files(&mut self, parts: Vec<Part>) -> Result<()> {
        self.pipes.files.take(match &mut self.past {
            Some(past) => past.new_parts(parts),
            None => parts,
        })
    }

    /// The files that were to come and have not.
    pub fn missing_files(&self) -> impl Iterator<Item = &str> {
        self.pipes.files.missing()
    }

    /// Waits until something is typed or the run is to end, but not longer than `time`.
    pub fn wait(&mut self, time: Duration) {
        if let Some(input) = &self.input {
            wait::wait([Some(input.arrived()), None], self.stop.as_ref().map(Stop::event), time);
        }
    }
}

impl Pipes {
    /// The pipes for output that there are, with what is for them, and their names.
    fn with<'a>(
        &'a mut self,
        bytes: [&'a [u8]; 2],
    ) -> impl Iterator<Item = (&'a mut Output, &'a [u8], &'static str)> {
        let pipes = [&mut self.output, &mut self.error].into_iter().zip(bytes).zip(STREAMS);
        pipes.filter_map(|((pipe, bytes), name)| Some((pipe.as_mut()?, bytes, name)))
    }
}

/// What of these bytes has not been written before, as far as that is remembered.
fn new_of<'a>(past: &mut Option<Past>, stream: Stream, bytes: &'a [u8]) -> &'a [u8] {
    past.as_mut().map_or(bytes, |past| past.new_of(stream, bytes))
}

/// Reads standard input. If that is a terminal, Ctrl-A x requests the `stop`.
fn read_stdin(stop: &Stop) -> Result<Typing> {
    let stdin = io::stdin();
    let failed = |e| Error::Host(format!("cannot read standard input: {e}")).because(e);
    let file = stdin.as_fd().try_clone_to_owned().map_err(failed)?;
    let quit = stop.clone();
    // The thread does not hold the lock of standard input, which restoring the terminal needs.
    Typing::read(File::from(file), stdin.is_terminal(), move || _ = quit.request(Cause::Quit))
        .map_err(failed)
}

/// What is written to a standard stream.
fn stream(stream: &impl AsFd, name: &str, stop: &Stop) -> Result<Output> {
    Output::stream(stream, stop).map_err(|e| Error::cannot_write(name, e))
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
        written => written.map_err(|e| Error::cannot_write(name, e)),
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
            Err(Error::cannot_write("standard output", e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
impl Console {
    /// That of a command whose input this is; output goes to these files: of console, command and its errors.
    pub(crate) fn of_streams(
        input: impl io::Read + Send + 'static,
        to: [File; 3],
        stop: &Stop,
    ) -> Self {
        let [console, output, error] =
            to.map(|file| Output::new(move || Ok(file), false, stop).unwrap());
        let mut of_command = Self::to("memory".into(), Box::new(io::sink()));
        of_command.output = Sink::Queued(console);
        of_command.input = Some(Typing::read(input, false, || ()).unwrap());
        (of_command.pipes.has_input, of_command.stop) = (true, Some(stop.clone()));
        (of_command.pipes.output, of_command.pipes.error) = (Some(output), Some(error));
        of_command
    }

    /// One at which this is typed; output goes to a file.
    pub(crate) fn of_keyboard(
        input: impl io::Read + Send + 'static,
        interactive: bool,
        to: File,
        stop: &Stop,
    ) -> Self {
        let mut console = Self::to("memory".into(), Box::new(io::sink()));
        console.output = Sink::Queued(Output::new(move || Ok(to), false, stop).unwrap());
        console.input = Some(Typing::read(input, false, || ()).unwrap());
        Self { interactive, ..console }
    }

    /// Whether anything has been typed that the machine has not taken.
    pub(crate) fn has_bytes(&self) -> bool {
        self.keyboard().is_some_and(Typing::has_bytes)
    }

    /// All that was typed, with the virtual times at which the machine took it, since it remembers.
    pub(crate) fn all_typed(&self) -> &[(u64, Vec<u8>)] {
        self.past.as_ref().map_or(&[], Past::typed)
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
