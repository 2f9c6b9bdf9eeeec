//! Where gdb connects, and the bytes that go back and forth.
//!
//! Threads listen and read, so that bytes that come while the guest runs end the run
//! ([`Stop::ask_for_pause`]), and the thread that waits for bytes sees that the run is to end. They last as
//! long as the process or the connection.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use gdbstub::conn::{Connection, ConnectionExt};

use crate::error::{Error, Result};
use crate::stop::Stop;

/// How long a wait for gdb takes before it is looked at whether the run is to end.
const WAIT: Duration = Duration::from_millis(20);

/// Where gdb connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Host and port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// Where gdb expects a target on the same host, by custom.
    pub const DEFAULT: &str = "127.0.0.1:1234";
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("expected a path behind unix:".into()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        if port.parse::<u16>().is_err() {
            return Err("expected HOST:PORT, :PORT or unix:PATH".into());
        }
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        Ok(Self::Tcp(format!("{host}:{port}")))
    }
}

/// As gdb's `target remote` takes it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Both directions of a connection.
trait Stream: Read + Write + Send + Sized + 'static {
    fn second(&self) -> io::Result<Self>;
    fn prepare(&self) -> io::Result<()>;
    fn shut(&self);
}

impl Stream for TcpStream {
    fn second(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn prepare(&self) -> io::Result<()> {
        self.set_nodelay(true)?;
        self.set_write_timeout(Some(LONGEST_WRITE))
    }

    fn shut(&self) {
        // It may be closed already.
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl Stream for UnixStream {
    fn second(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn prepare(&self) -> io::Result<()> {
        self.set_write_timeout(Some(LONGEST_WRITE))
    }

    fn shut(&self) {
        // As above.
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

/// How long gdb may not read what it is sent.
const LONGEST_WRITE: Duration = Duration::from_secs(10);

/// Waits for gdb.
pub(crate) struct Listener {
    accepted: Receiver<Link>,
    /// Where it really listens: port 0 is a free one.
    address: Address,
    stop: Stop,
}

impl Listener {
    /// Listens from now on. A connection that comes while the guest runs asks for a pause.
    ///
    /// # Errors
    /// If the host refuses.
    pub(crate) fn new(address: &Address, stop: &Stop) -> Result<Self> {
        let failed = |e: io::Error| Error::Host(format!("--gdb {address}: {e}")).because(e);
        let (send, accepted) = mpsc::channel();
        let asking = stop.clone();
        let address = match address {
            Address::Tcp(text) => {
                let listener = TcpListener::bind(text).map_err(failed)?;
                let local = listener.local_addr().map_err(failed)?;
                let accept = move || listener.accept().map(|(stream, _)| stream);
                listen(accept, send, asking).map_err(failed)?;
                Address::Tcp(local.to_string())
            }
            Address::Unix(path) => {
                remove_socket(path);
                let listener = UnixListener::bind(path).map_err(failed)?;
                let accept = move || listener.accept().map(|(stream, _)| stream);
                listen(accept, send, asking).map_err(failed)?;
                address.clone()
            }
        };
        Ok(Self { accepted, address, stop: stop.clone() })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection; `None` if the run is to end before there is one.
    pub(crate) fn accept(&self) -> Option<Link> {
        loop {
            match self.accepted.recv_timeout(WAIT) {
                Ok(link) => return Some(link),
                Err(RecvTimeoutError::Timeout) if !self.stop.is_requested() => {}
                Err(_) => return None,
            }
        }
    }

    /// The connection that has come, if one has.
    pub(crate) fn accepted(&self) -> Option<Link> {
        self.accepted.try_recv().ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            remove_socket(path);
        }
    }
}

/// Removes a socket that a run has left. Anything else there stays, and whoever binds says so.
fn remove_socket(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    if path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
        // If it cannot be removed, it cannot be bound, which says why.
        let _ = std::fs::remove_file(path);
    }
}

fn listen<S: Stream>(
    accept: impl Fn() -> io::Result<S> + Send + 'static,
    send: mpsc::Sender<Link>,
    stop: Stop,
) -> io::Result<()> {
    let accept_all = move || {
        while let Ok(stream) = accept() {
            // A connection that is broken at once was none.
            let Ok(link) = Link::new(stream, &stop) else { continue };
            if send.send(link).is_err() {
                return;
            }
            stop.ask_for_pause();
        }
    };
    thread::Builder::new().name("gdb".into()).spawn(accept_all).map(drop)
}

/// A connection to gdb.
pub(crate) struct Link {
    read: Receiver<Vec<u8>>,
    /// What has been read and not been taken, from `at` on.
    chunk: Vec<u8>,
    at: usize,
    write: Box<dyn Write + Send>,
    /// What is to be written.
    buffer: Vec<u8>,
    shut: Box<dyn Fn() + Send>,
    stop: Stop,
}

/// There is nothing more to read: gdb is gone, or the run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gdb is gone")
    }
}

impl Link {
    fn new<S: Stream>(stream: S, stop: &Stop) -> io::Result<Self> {
        stream.prepare()?;
        let (mut reader, ended) = (stream.second()?, stream.second()?);
        let (send, read) = mpsc::sync_channel(16);
        let asking = stop.clone();
        let read_all = move || {
            let mut buffer = [0; 4096];
            loop {
                let count = match reader.read(&mut buffer) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(count) => count,
                    Err(_) => 0,
                };
                // The end of the channel says that it has ended.
                if count == 0 || send.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
                asking.ask_for_pause();
            }
            drop(send);
            asking.ask_for_pause();
        };
        thread::Builder::new().name("gdb reader".into()).spawn(read_all)?;
        Ok(Self {
            read,
            chunk: Vec::new(),
            at: 0,
            write: Box::new(stream),
            buffer: Vec::new(),
            shut: Box::new(move || ended.shut()),
            stop: stop.clone(),
        })
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.chunk.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn put(&mut self, chunk: Vec<u8>) {
        (self.chunk, self.at) = (chunk, 0);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        (self.shut)();
    }
}

impl Connection for Link {
    type Error = Gone;

    fn write(&mut self, byte: u8) -> std::result::Result<(), Gone> {
        self.buffer.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::result::Result<(), Gone> {
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> std::result::Result<(), Gone> {
        let written = self.write.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|_| Gone)
    }
}

impl ConnectionExt for Link {
    fn read(&mut self) -> std::result::Result<u8, Gone> {
        loop {
            if let Some(byte) = self.take() {
                return Ok(byte);
            }
            match self.read.recv_timeout(WAIT) {
                Ok(chunk) => self.put(chunk),
                Err(RecvTimeoutError::Timeout) if !self.stop.is_requested() => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    fn peek(&mut self) -> std::result::Result<Option<u8>, Gone> {
        if self.at == self.chunk.len() {
            match self.read.try_recv() {
                Ok(chunk) => self.put(chunk),
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(Gone),
            }
        }
        Ok(self.chunk.get(self.at).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_gdb() {
        let tcp = |text: &str| Ok(Address::Tcp(text.into()));
        assert_eq!("1234".parse(), tcp("127.0.0.1:1234"));
        assert_eq!(":2345".parse(), tcp("127.0.0.1:2345"));
        assert_eq!("[::1]:2345".parse(), tcp("[::1]:2345"));
        assert_eq!("unix:/tmp/x:1".parse(), Ok(Address::Unix("/tmp/x:1".into())));
        for wrong in ["", "host", "host:", "host:65536", "unix:"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
