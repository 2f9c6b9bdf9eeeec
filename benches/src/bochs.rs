//! The same on Bochs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::guest::Workload;
use crate::qemu::program;

/// An installed Bochs.
pub(crate) struct Bochs(PathBuf);

pub(crate) fn find() -> Option<Bochs> {
    program("bochs-not").map(Bochs)
}

impl Bochs {
    pub(crate) fn run(&self, _: Workload, _: u64) -> Result<Duration> {
        Err(format!("{}: not yet", self.0.display()).into())
    }

    pub(crate) fn boot(&self, _: &Path, _: &Path, _: &str) -> Result<Duration> {
        Err("not yet".into())
    }
}
