//! Bytes on their way to a file of the host.
//!
//! A thread of its own writes them. [`Output::write`] waits while its buffer is full. Once the run is
//! to end, nothing waits for a reader that does not read.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::stop::Stop;
use crate::wait;

/// Bytes that may be buffered before [`Output::write`] waits.
const CAPACITY: usize = 64 << 10;
/// Bytes that are written at once.
const PIECE: usize = 4 << 10;
/// So many bytes are written even if none of them is wanted at once.
const WORTHWHILE: usize = 8 << 10;
/// The interval at which a waiting thread checks whether the run is to end.
const TICK: Duration = Duration::from_millis(5);
/// Once the run is to end: a file that takes nothing for so long is blocked.
const BLOCKED: Duration = Duration::from_millis(40);
/// Once the run is to end: nothing takes longer.
const LATEST: Duration = Duration::from_millis(800);

/// A file that a thread of its own writes.
pub(crate) struct Output {
    shared: Arc<Shared>,
    stop: Stop,
    /// Writes at once, for a reader that follows the output, instead of in larger pieces.
    eager: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    file: Option<Arc<File>>,
    /// To be written.
    bytes: Vec<u8>,
    /// How many bytes the thread is writing now, which come before `bytes`.
    in_hand: usize,
    /// [`Output::flush`] waits until all is written.
    flushes: bool,
    /// When the file last took something, or was last asked to.
    moved: Instant,
    failure: Option<Failure>,
    closed: bool,
}

/// An error of the host, to be had more than once.
#[derive(Clone, Copy)]
enum Failure {
    Os(i32),
    Kind(ErrorKind),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or(Self::Kind(error.kind()), Self::Os)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Os(code) => Self::from_raw_os_error(code),
            Failure::Kind(kind) => kind.into(),
        }
    }
}

impl Output {
    /// Opens a file on a thread of its own, since that may block, and writes to it.
    ///
    /// # Errors
    /// If the host has no thread.
    pub(crate) fn new(
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
        eager: bool,
        stop: &Stop,
    ) -> io::Result<Self> {
        Self::start(None, || open().map(Arc::new), eager, stop)
    }

    /// The same with a file that may be open already: it is known before the thread has begun whether it
    /// takes something.
    fn start(
        file: Option<Arc<File>>,
        open: impl FnOnce() -> io::Result<Arc<File>> + Send + 'static,
        eager: bool,
        stop: &Stop,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                file,
                bytes: Vec::new(),
                in_hand: 0,
                flushes: false,
                moved: Instant::now(),
                failure: None,
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let output = Self { shared: Arc::clone(&shared), stop: stop.clone(), eager };
        thread::Builder::new().name("output".into()).spawn(move || shared.drain(open, eager))?;
        Ok(output)
    }

    /// What is written to `stream`, which stays open.
    ///
    /// # Errors
    /// If the host has no thread or no descriptor.
    pub(crate) fn stream(stream: &impl AsFd, stop: &Stop) -> io::Result<Self> {
        let file = Arc::new(File::from(stream.as_fd().try_clone_to_owned()?));
        Self::start(Some(Arc::clone(&file)), move || Ok(file), true, stop)
    }

    /// Hands bytes to the thread that writes them; waits while its buffer is full, unless the run is to
    /// end.
    ///
    /// # Errors
    /// If bytes before these could not be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.shared.lock();
        while state.failure.is_none() && state.left() >= CAPACITY && !self.stop.is_requested() {
            state = self.shared.wait(state);
        }
        if let Some(failure) = state.failure {
            return Err(failure.into());
        }
        state.bytes.extend_from_slice(bytes);
        if state.is_due(self.eager) {
            self.shared.changed.notify_all();
        }
        Ok(())
    }

    /// Waits until all is written; once the run is to end, not for a file that is blocked.
    ///
    /// # Errors
    /// If something could not be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.flushes = true;
        self.shared.changed.notify_all();
        while state.failure.is_none() && state.left() > 0 && !state.is_given_up(&self.stop) {
            state = self.shared.wait(state);
        }
        state.flushes = false;
        state.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Bytes that have not been written.
    pub(crate) fn left(&self) -> usize {
        self.shared.lock().left()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl State {
    fn left(&self) -> usize {
        self.bytes.len() + self.in_hand
    }

    /// Whether it is time to write.
    fn is_due(&self, eager: bool) -> bool {
        let worthwhile = self.bytes.len() >= WORTHWHILE;
        !self.bytes.is_empty() && (eager || self.flushes || self.closed || worthwhile)
    }

    /// Whether the run is to end and the file takes no more.
    fn is_given_up(&self, stop: &Stop) -> bool {
        let Some(age) = stop.age() else { return false };
        let writable = || self.file.as_ref().is_some_and(|file| wait::is_writable(&**file));
        age >= LATEST || age >= BLOCKED && self.moved.elapsed() >= BLOCKED && !writable()
    }
}

impl Shared {
    /// A panic of another thread leaves the state as it is.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, but not for long.
    fn wait<'g>(&self, state: MutexGuard<'g, State>) -> MutexGuard<'g, State> {
        self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0
    }

    fn drain(&self, open: impl FnOnce() -> io::Result<Arc<File>>, eager: bool) {
        let result = open().and_then(|file| {
            self.lock().file = Some(Arc::clone(&file));
            self.write_to(&file, eager)
        });
        if let Err(error) = result {
            let mut state = self.lock();
            state.failure = Some(error.into());
            state.bytes = Vec::new();
            state.in_hand = 0;
            self.changed.notify_all();
        }
    }

    fn write_to(&self, mut file: &File, eager: bool) -> io::Result<()> {
        loop {
            let mut state = self.lock();
            while !state.is_due(eager) {
                if state.closed {
                    return Ok(());
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let bytes = mem::take(&mut state.bytes);
            state.in_hand = bytes.len();
            state.moved = Instant::now();
            drop(state);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                match file.write(&rest[..rest.len().min(PIECE)]) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(n) => {
                        rest = &rest[n..];
                        let mut state = self.lock();
                        state.in_hand = rest.len();
                        state.moved = Instant::now();
                        self.changed.notify_all();
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    // Another process has made the file non-blocking, which it shares with this one.
                    Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(TICK),
                    Err(e) => return Err(e),
                }
            }
        }
    }
}

/// Writes a line to standard error, which may be gone: there is nowhere else to say so.
pub(crate) fn say(text: &str, stop: &Stop) {
    say_all([text], stop);
}

/// The same with several lines.
pub(crate) fn say_all(lines: impl IntoIterator<Item = impl AsRef<str>>, stop: &Stop) {
    let line = |line: &str| format!("vpmu: {line}\n");
    let text: String = lines.into_iter().map(|text| line(text.as_ref())).collect();
    if text.is_empty() {
        return;
    }
    let _ = match Output::stream(&io::stderr(), stop) {
        Ok(mut output) => output.write(text.as_bytes()).and_then(|()| output.flush()),
        // The host has no more descriptors or threads, which may be what there is to say.
        Err(_) => io::stderr().write_all(text.as_bytes()),
    };
}

/// The same; does not wait for standard error if it is blocked.
pub(crate) fn say_at_most_briefly(text: &str) {
    let text = format!("vpmu: {text}\n");
    let thread = thread::Builder::new().spawn(move || {
        let _ = io::stderr().write_all(text.as_bytes());
    });
    let started = Instant::now();
    while thread.as_ref().is_ok_and(|thread| !thread.is_finished())
        && (started.elapsed() < BLOCKED || wait::is_writable(&io::stderr()))
        && started.elapsed() < LATEST
    {
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;
    use crate::stop::Cause;

    fn to_pipe(stop: &Stop) -> (Output, io::PipeReader) {
        let (reader, writer) = pipe().unwrap();
        (Output::stream(&writer, stop).unwrap(), reader)
    }

    #[test]
    fn what_is_written_arrives_in_order() {
        let (mut output, mut reader) = to_pipe(&Stop::new().unwrap());
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let sent: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
        for piece in sent.chunks(777) {
            output.write(piece).unwrap();
        }
        output.flush().unwrap();
        assert_eq!(output.left(), 0);
        drop(output);
        assert_eq!(reading.join().unwrap().unwrap(), sent);
    }

    /// A pipe takes 64 KiB (pipe(7)), so that of a megabyte most is left.
    #[test]
    fn a_reader_that_does_not_read_is_not_waited_for_once_the_run_is_to_end() {
        let stop = Stop::new().unwrap();
        let (mut output, reader) = to_pipe(&stop);
        output.write(&vec![b'x'; 1 << 20]).unwrap();
        let requests = stop.clone();
        let request = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            requests.request(Cause::Timeout)
        });
        // The buffer is full, so this one waits for the request.
        output.write(b"y").unwrap();
        assert_eq!(stop.cause(), Some(Cause::Timeout));
        output.flush().unwrap();
        assert!(output.left() > 1 << 19, "{}", output.left());
        assert!(request.join().unwrap());
        drop(reader);
    }

    /// A reader that reads gets all, also once the run is to end.
    #[test]
    fn a_reader_that_reads_is_waited_for() {
        let stop = Stop::new().unwrap();
        let (mut output, mut reader) = to_pipe(&stop);
        stop.request(Cause::Timeout);
        output.write(&vec![b'x'; 200_000]).unwrap();
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all.len())
        });
        output.flush().unwrap();
        assert_eq!(output.left(), 0);
        drop(output);
        assert_eq!(reading.join().unwrap().unwrap(), 200_000);
    }

    #[test]
    fn a_reader_that_has_gone_is_an_error() {
        let (mut output, reader) = to_pipe(&Stop::new().unwrap());
        drop(reader);
        output.write(b"x").unwrap();
        assert_eq!(output.flush().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(output.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
