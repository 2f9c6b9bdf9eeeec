//! `vpmu fuzz` and `vpmu replay`: the program `vpmu-fuzz` does both. It is not part of this one, since it holds this one
//! against second models of its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::error::{Error, Result};

/// Its name, beside this program or in PATH.
const PROGRAM: &str = "vpmu-fuzz";

#[derive(Args)]
pub(super) struct FuzzArgs {
    /// What `vpmu-fuzz` takes: TARGET and its options, or `minimise FILE`; see `vpmu-fuzz --help`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

#[derive(Args)]
pub(super) struct ReplayArgs {
    /// Finds, inputs of a corpus, or directories of these.
    #[arg(required = true)]
    files: Vec<OsString>,
}

impl FuzzArgs {
    /// Becomes that program.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn run(&self) -> Result<u8> {
        Err(become_it("fuzz", &[], &self.arguments))
    }
}

impl ReplayArgs {
    /// Becomes that program.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn run(&self) -> Result<u8> {
        Err(become_it("replay", &["replay"], &self.files))
    }
}

fn become_it(command: &str, first: &[&str], arguments: &[OsString]) -> Error {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let program = beside.filter(|path| path.exists());
    let program = program.as_deref().unwrap_or(Path::new(PROGRAM));
    let failed = Command::new(program).args(first).args(arguments).exec();
    Error::Usage(format!(
        "{command}: {PROGRAM}, which does that, is neither beside vpmu nor in PATH ({failed}); \
         `cargo build --release -p fuzz` builds it"
    ))
}
