//! Console input, read ahead of the guest: a thread reads, and waits while its buffer is full. So the
//! process at the other end of a pipe is blocked while the guest does not read, as on a serial line
//! with flow control.

use std::io::{ErrorKind, Read};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use vmm_sys_util::eventfd::EventFd;

/// Bytes that are read ahead of the guest.
const CAPACITY: usize = 64 << 10;
/// Bytes that are read at once.
const PIECE: usize = 4 << 10;

/// How long to wait before reading again from a non-blocking file that had nothing to read.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Ctrl-A: begins an escape.
const ESCAPE: u8 = 0x01;

/// Input that a thread of its own reads.
pub(crate) struct Typing(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// Notified when there is room in the queue again, or it is closed.
    room: Condvar,
    /// Signalled when something has arrived, or nothing can any more.
    arrived: EventFd,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// The end of the input is reached.
    ended: bool,
    /// The reader of the queue is gone.
    closed: bool,
}

impl Typing {
    /// Reads `file` from now on. If it is `interactive`, Ctrl-A x calls `quit` and Ctrl-A Ctrl-A is
    /// Ctrl-A.
    ///
    /// # Errors
    /// If the host has no event descriptor.
    pub(crate) fn read(
        file: impl Read + Send + 'static,
        interactive: bool,
        quit: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let arrived = EventFd::new(libc::EFD_NONBLOCK)?;
        let shared = Arc::new(Shared { queue: Mutex::default(), room: Condvar::new(), arrived });
        let typing = Self(Arc::clone(&shared));
        thread::Builder::new().name("input".into()).spawn(move || {
            shared.fill(file, Keys { interactive, escaped: false }, quit);
        })?;
        Ok(typing)
    }

    /// Signalled when something has arrived, or nothing can any more.
    pub(crate) fn arrived(&self) -> &EventFd {
        &self.0.arrived
    }

    /// Whether the end has not been reached.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.lock().ended
    }

    /// Whether there is something to take.
    pub(crate) fn has_bytes(&self) -> bool {
        !self.0.lock().bytes.is_empty()
    }

    /// All that has arrived.
    pub(crate) fn take(&self) -> Vec<u8> {
        let bytes = mem::take(&mut self.0.lock().bytes);
        if bytes.len() >= CAPACITY {
            self.0.room.notify_one();
        }
        bytes
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.room.notify_one();
    }
}

impl Shared {
    /// A panic of another thread leaves the queue as it is.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, mut file: impl Read, mut keys: Keys, quit: impl Fn()) {
        let mut piece = [0; PIECE];
        loop {
            let mut queue = self.lock();
            while queue.bytes.len() >= CAPACITY && !queue.closed {
                queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.closed {
                return;
            }
            drop(queue);
            let read = file.read(&mut piece);
            let mut queue = self.lock();
            match read {
                Ok(n @ 1..) => {
                    if keys.translate(&piece[..n], &mut queue.bytes) {
                        quit();
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // Another process has made the file non-blocking, which it shares with this one.
                    drop(queue);
                    thread::sleep(RETRY_INTERVAL);
                    continue;
                }
                Ok(0) | Err(_) => queue.ended = true,
            }
            let ended = queue.ended;
            drop(queue);
            // Fails for a full counter only, which wakes as well.
            let _ = self.arrived.write(1);
            if ended {
                return;
            }
        }
    }
}

/// Finds the escape among what is typed.
#[derive(Debug)]
struct Keys {
    interactive: bool,
    escaped: bool,
}

impl Keys {
    /// Adds what is typed to `typed`; whether the user wants to leave.
    fn translate(&mut self, bytes: &[u8], typed: &mut Vec<u8>) -> bool {
        let mut quits = false;
        for &byte in bytes {
            match (self.interactive, std::mem::take(&mut self.escaped), byte) {
                (true, false, ESCAPE) => self.escaped = true,
                (true, true, b'x' | b'X') => quits = true,
                (true, true, ESCAPE) => typed.push(ESCAPE),
                (true, true, other) => typed.extend([ESCAPE, other]),
                (_, _, other) => typed.push(other),
            }
        }
        quits
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    /// Counts up for ever, or for as many bytes; says how many have been read.
    struct Source {
        left: usize,
        next: u8,
        read: Arc<AtomicUsize>,
    }

    impl Read for Source {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let n = buffer.len().min(self.left);
            for byte in &mut buffer[..n] {
                *byte = self.next;
                self.next = self.next.wrapping_add(1);
            }
            self.left -= n;
            self.read.fetch_add(n, Ordering::SeqCst);
            Ok(n)
        }
    }

    fn source(left: usize) -> (Typing, Arc<AtomicUsize>) {
        let read = Arc::new(AtomicUsize::new(0));
        let source = Source { left, next: 0, read: Arc::clone(&read) };
        (Typing::read(source, false, || ()).unwrap(), read)
    }

    /// Waits for something that a thread does, on however slow a host.
    fn eventually(mut what: impl FnMut() -> bool) {
        let started = Instant::now();
        while !what() {
            assert!(started.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// 64 KiB, as the module says, of an input that has no end.
    #[test]
    fn an_endless_input_is_read_as_far_as_there_is_room() {
        let (typing, read) = source(usize::MAX);
        for taken in [0, 0x1_0000, 0x2_0000] {
            eventually(|| read.load(Ordering::SeqCst) == taken + 0x1_0000);
            // It does not go on by itself.
            thread::sleep(Duration::from_millis(20));
            assert_eq!(read.load(Ordering::SeqCst), taken + 0x1_0000);
            let bytes = typing.take();
            assert_eq!((bytes.len(), bytes[0], typing.is_open()), (0x1_0000, 0, true));
        }
    }

    /// 200,000 bytes are three times what is kept and a part.
    #[test]
    fn nothing_is_lost_and_the_end_is_seen() {
        let (typing, _) = source(200_000);
        let mut all = Vec::new();
        eventually(|| {
            let open = typing.is_open();
            all.extend(typing.take());
            !open
        });
        assert_eq!(all.len(), 200_000);
        assert!(all.iter().enumerate().all(|(n, &byte)| byte == n as u8));
    }

    fn typed(keys: &mut Keys, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut typed = Vec::new();
        let quits = keys.translate(bytes, &mut typed);
        (typed, quits)
    }

    #[test]
    fn the_escape_is_found_across_pieces() {
        let mut keys = Keys { interactive: true, escaped: false };
        assert_eq!(typed(&mut keys, b"a\x01"), (b"a".to_vec(), false));
        assert_eq!(typed(&mut keys, b"\x01b\x01c"), (b"\x01b\x01c".to_vec(), false));
        assert_eq!(typed(&mut keys, b"\x01x"), (vec![], true));
    }

    /// A pipe may carry any bytes.
    #[test]
    fn without_a_terminal_there_is_no_escape() {
        let mut keys = Keys { interactive: false, escaped: false };
        assert_eq!(typed(&mut keys, b"\x01x"), (b"\x01x".to_vec(), false));
    }
}
