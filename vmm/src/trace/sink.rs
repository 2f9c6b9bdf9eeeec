//! Where a trace goes.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::{self, Replacement};
use crate::output::Output;
use crate::stop::Stop;

/// A file that is replaced when the trace is whole, or what takes bytes as they come: a pipe, a device or, as
/// `-`, standard output. Bytes go out in pieces; what has gone is not kept.
pub(super) struct Sink {
    to: To,
    /// What went wrong first; nothing is written from then on.
    failure: Option<Error>,
}

enum To {
    File(Replacement),
    Stream {
        name: String,
        output: Output,
    },
    /// Whoever read it has seen enough.
    Nowhere,
}

impl Sink {
    /// Nothing has been written yet.
    pub(super) fn new(path: &Path, stop: &Stop) -> Result<Self> {
        let is_standard_output = path.as_os_str() == "-";
        let name =
            if is_standard_output { "standard output".into() } else { path.display().to_string() };
        let to = if is_standard_output {
            let output = Output::stream(&io::stdout(), stop);
            To::Stream { output: output.map_err(|e| Error::cannot_write(&name, e))?, name }
        } else if file::is_replaceable(path) {
            To::File(Replacement::new(path)?)
        } else {
            let path = path.to_owned();
            let output = Output::new(move || File::options().write(true).open(path), false, stop);
            To::Stream { output: output.map_err(|e| Error::cannot_write(&name, e))?, name }
        };
        Ok(Self { to, failure: None })
    }

    /// More of the trace. What goes wrong is told at the end: the guest cannot help it.
    pub(super) fn write(&mut self, text: &str) {
        if self.failure.is_some() || text.is_empty() {
            return;
        }
        let written = match &mut self.to {
            To::File(file) => file.write(text.as_bytes()),
            To::Stream { name, output } => match output.write(text.as_bytes()) {
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                    self.to = To::Nowhere;
                    return;
                }
                written => written.map_err(|e| Error::cannot_write(name, e)),
            },
            To::Nowhere => return,
        };
        self.failure = written.err();
    }

    /// That was all.
    pub(super) fn finish(self) -> Result<()> {
        match (self.failure, self.to) {
            (Some(failure), _) => Err(failure),
            (None, To::File(file)) => file.finish(),
            (None, To::Stream { name, mut output }) => match output.flush() {
                Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
                flushed => flushed.map_err(|e| Error::cannot_write(&name, e)),
            },
            (None, To::Nowhere) => Ok(()),
        }
    }
}
