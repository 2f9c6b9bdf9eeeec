//! The truth file and `vpmu truth`, as a user sees them, on a truth that was made by hand
//! (`sample.rs`), and on that of a short run.
//!
//! A test that needs a program of another package (`callgrind_annotate` of Debian's `valgrind`, Python's
//! `cbor2`) is ignored without it, and its line says so.

mod file;
#[path = "../harness/mod.rs"]
mod harness;
mod others;
mod recorded;
mod reports;
mod sample;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    harness::run(&[
        ("file", file::TESTS),
        ("reports", reports::TESTS),
        ("recorded", recorded::TESTS),
        ("others", others::TESTS),
    ])
}

/// A path for a file of the test of this name.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("truth-{name}"))
}

/// A file with the sample, for the test of this name.
fn sample_file(name: &str) -> PathBuf {
    let path = path(name);
    sample::truth().write(&path).expect("a truth file");
    path
}

/// What `vpmu truth` prints on standard output and standard error, and its status.
fn vpmu_truth(file: &Path, options: &str) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vpmu"));
    command.arg("truth").arg(file).args(options.split_whitespace());
    let run = command.output().expect("vpmu runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&run.stdout), text(&run.stderr), run.status.code())
}

/// The same of a command that goes well: standard output.
fn printed(file: &Path, options: &str) -> String {
    let (text, error, status) = vpmu_truth(file, options);
    assert_eq!((&*error, status), ("", Some(0)), "{options}");
    text
}
