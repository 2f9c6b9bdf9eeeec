//! What saves and what loads.

use super::{LATEST, LoadError, Problem, Visitor};

/// The place of some bytes of a state.
#[derive(Debug)]
pub enum Area<'a> {
    /// To be written.
    Save(&'a mut [u8]),
    /// To be read.
    Load(&'a [u8]),
    /// Nowhere: what is visited stays as it is.
    Refused,
}

/// Appends what it visits to bytes, in little-endian order.
#[derive(Debug)]
pub struct Saver<'a> {
    bytes: &'a mut Vec<u8>,
    latest: u64,
    name: &'static str,
}

impl<'a> Saver<'a> {
    /// One that appends to these.
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes, latest: LATEST, name: "the beginning" }
    }
}

impl Visitor for Saver<'_> {
    const LOADS: bool = false;

    #[inline]
    fn area(&mut self, bytes: usize) -> Area<'_> {
        let begin = self.bytes.len();
        self.bytes.resize(begin + bytes, 0);
        Area::Save(&mut self.bytes[begin..])
    }

    fn left(&self) -> usize {
        usize::MAX
    }

    #[inline]
    fn name(&mut self, name: &'static str) {
        self.name = name;
    }

    /// Models come into no state that would be refused; where that is tested, they are not trusted.
    #[inline]
    fn is_known(&self) -> bool {
        !cfg!(debug_assertions)
    }

    fn latest(&mut self) -> &mut u64 {
        &mut self.latest
    }

    /// A model has come into a state that would be refused.
    #[cold]
    fn refuse(&mut self) {
        debug_assert!(false, "what is saved of {} could not be loaded", self.name);
    }
}

/// Overwrites what it visits with what a [`Saver`] has written. From the first thing on that is wrong,
/// everything stays as it is.
#[derive(Debug)]
pub struct Loader<'a> {
    bytes: &'a [u8],
    latest: u64,
    name: &'static str,
    error: Option<LoadError>,
    is_known: bool,
}

impl<'a> Loader<'a> {
    /// One that reads these.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, latest: LATEST, name: "the beginning", error: None, is_known: false }
    }

    /// The same of bytes that the same models have saved or loaded before.
    #[must_use]
    pub fn of_known(bytes: &'a [u8]) -> Self {
        Self { is_known: true, ..Self::new(bytes) }
    }

    /// Everything has been visited.
    ///
    /// # Errors
    ///
    /// The first thing that was wrong; bytes that are left over are, too.
    pub fn finish(self) -> Result<(), LoadError> {
        let too_long = LoadError { at: self.name, problem: Problem::TooLong(self.bytes.len()) };
        match self.error {
            Some(error) => Err(error),
            None if !self.bytes.is_empty() => Err(too_long),
            None => Ok(()),
        }
    }

    #[cold]
    fn fail(&mut self, problem: Problem) {
        let error = LoadError { at: self.name, problem };
        self.error.get_or_insert(error);
    }
}

impl Visitor for Loader<'_> {
    const LOADS: bool = true;

    #[inline]
    fn area(&mut self, bytes: usize) -> Area<'_> {
        if self.error.is_some() {
            return Area::Refused;
        }
        let Some((area, rest)) = self.bytes.split_at_checked(bytes) else {
            self.fail(Problem::Truncated);
            return Area::Refused;
        };
        self.bytes = rest;
        Area::Load(area)
    }

    fn left(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn is_known(&self) -> bool {
        self.is_known
    }

    #[inline]
    fn name(&mut self, name: &'static str) {
        self.name = name;
    }

    fn latest(&mut self) -> &mut u64 {
        &mut self.latest
    }

    fn refuse(&mut self) {
        self.fail(Problem::OutOfRange);
    }
}
