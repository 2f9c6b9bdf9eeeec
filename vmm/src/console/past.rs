//! What a guest was given and has written, for who puts its machine back to a moment before: it is given the same
//! again, and what it writes again is not written twice.

use crate::devices::pipes::Part;
use crate::error::Result;
use crate::exec::get::{Get, Gets};

/// How far a guest has come with what goes through its console, since that remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes that a command was given as its input.
    given: usize,
    /// How often something was typed.
    typed: usize,
    /// Bytes written, by [`Stream`].
    written: [u64; 3],
    /// The same of files; the end of one counts as a byte.
    files: u64,
}

/// Where a guest writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Its first serial port.
    Console,
    /// A command's standard output.
    Output,
    /// A command's standard error.
    Error,
}

/// What is remembered.
pub(super) struct Past {
    /// Where the guest is.
    now: Place,
    /// How far it has come at most; behind that, all is new.
    furthest: Place,
    /// All the input that a command was given.
    given: Vec<u8>,
    /// All that was typed, with the virtual time at which the machine took it, in cycles.
    typed: Vec<(u64, Vec<u8>)>,
    /// The virtual time up to which the guest has been, in cycles: what is typed comes behind that.
    reached: u64,
    /// All that has come of files, and which are to come.
    files: Vec<Part>,
    gets: Vec<Get>,
    /// What the guest has done is looked for: nobody types, and nothing is new, though it may go an instruction further.
    pub(super) is_searched: bool,
}

impl Past {
    /// Nothing has been given or written; these files are to come.
    pub(super) fn new(gets: Vec<Get>) -> Self {
        let (now, given, typed, files) = (Place::default(), Vec::new(), Vec::new(), Vec::new());
        Self { now, furthest: now, given, typed, reached: 0, files, gets, is_searched: false }
    }

    /// Where the guest is.
    pub(super) fn place(&self) -> Place {
        self.now
    }

    /// A command was given these bytes.
    pub(super) fn give(&mut self, bytes: &[u8]) {
        self.given.extend_from_slice(bytes);
        self.now.given = self.given.len();
    }

    /// The machine takes these bytes at a virtual time, which were typed.
    pub(super) fn note_typed(&mut self, time: u64, bytes: &[u8]) {
        self.typed.push((time, bytes.to_vec()));
        self.now.typed = self.typed.len();
    }

    /// What the machine has taken by this virtual time before it was put back; `None` if what is typed now comes next, which
    /// is behind all that was typed, and where the guest has not been yet.
    pub(super) fn type_again(&mut self, time: u64) -> Option<Vec<u8>> {
        let again = &self.typed[self.now.typed..];
        if again.is_empty() && time >= self.reached {
            return None;
        }
        let due: Vec<_> = again.iter().take_while(|&&(at, _)| at <= time).collect();
        let bytes = due.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        self.now.typed += due.len();
        Some(bytes)
    }

    /// The next virtual time behind this one at which something is typed again; or, of a guest that sleeps, up to which it
    /// has been.
    pub(super) fn next_time(&self, time: u64, sleeps: bool) -> Option<u64> {
        let again = self.typed.get(self.now.typed).map(|&(at, _)| at);
        let times = again.into_iter().chain(sleeps.then_some(self.reached));
        times.filter(|&at| at > time).min()
    }

    /// What of these bytes has not been written before.
    pub(super) fn new_of<'a>(&mut self, stream: Stream, bytes: &'a [u8]) -> &'a [u8] {
        let stream = stream as usize;
        let (now, furthest) = (&mut self.now.written[stream], &mut self.furthest.written[stream]);
        &bytes[pass(now, furthest, bytes.len(), self.is_searched)..]
    }

    /// What has not come before of these pieces of files.
    pub(super) fn new_parts(&mut self, parts: Vec<Part>) -> Vec<Part> {
        let length = parts.iter().map(length).sum();
        let (now, furthest) = (&mut self.now.files, &mut self.furthest.files);
        let again = pass(now, furthest, length, self.is_searched);
        let (_, new) = split(parts, again);
        self.files.extend_from_slice(&new);
        new
    }

    /// The guest, which has come to this virtual time, is where it has been before: the input that a command is given from
    /// there on.
    pub(super) fn go_back(&mut self, place: Place, reached: u64) -> Vec<u8> {
        (self.now, self.reached) = (place, self.reached.max(reached));
        self.given.split_off(place.given)
    }

    /// The guest was changed, and goes on otherwise than before: all that it writes from here on is new. Its files become
    /// what had come of them by here.
    ///
    /// # Errors
    /// If the host refuses to take files anew.
    pub(super) fn go_on_otherwise(&mut self, files: &mut Gets) -> Result<()> {
        let is_behind = self.now.files < self.furthest.files;
        (self.furthest, self.reached) = (self.now, 0);
        if !is_behind {
            return Ok(());
        }
        (self.files, _) = split(std::mem::take(&mut self.files), self.now.files as usize);
        // One that has begun to come is given up before it begins anew.
        *files = Gets::new(&self.gets);
        files.take(self.files.clone())
    }
}

/// So many bytes more are written: how many of them are not new.
fn pass(now: &mut u64, furthest: &mut u64, bytes: usize, is_searched: bool) -> usize {
    let before = furthest.saturating_sub(*now).min(bytes as u64);
    *now += bytes as u64;
    if is_searched {
        return bytes;
    }
    *furthest = (*furthest).max(*now);
    before as usize
}

/// Bytes of a piece; one for an end.
fn length(part: &Part) -> usize {
    match part {
        Part::Bytes(bytes) => bytes.len(),
        Part::End { .. } => 1,
    }
}

/// The pieces up to so many bytes, and the rest.
fn split(parts: Vec<Part>, mut at: usize) -> (Vec<Part>, Vec<Part>) {
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for part in parts {
        let length = length(&part);
        match part {
            Part::Bytes(mut bytes) if at < length => {
                let rest = bytes.split_off(at);
                before.extend((at > 0).then_some(Part::Bytes(bytes)));
                behind.push(Part::Bytes(rest));
            }
            part if at < length => behind.push(part),
            part => before.push(part),
        }
        at = at.saturating_sub(length);
    }
    (before, behind)
}

#[cfg(test)]
impl Past {
    /// All that was typed, and when.
    pub(super) fn typed(&self) -> &[(u64, Vec<u8>)] {
        &self.typed
    }
}
