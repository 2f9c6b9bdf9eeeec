//! The file of a run that was recorded, where something is wrong with it.

use std::path::Path;
use std::process::Command;

use crate::harness::{Verdict, tests};
use crate::{path, printed, vpmu_truth};

tests![
    what_is_wrong_with_a_recorded_file_is_one_line,
    what_cannot_be_written_is_known_before_the_run
];

/// Runs the demo with the truth in that file: what it says on standard error and standard output, and its
/// status.
fn record(file: &Path) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vpmu"));
    command.args(["run", "--demo", "sampling", "--stats", "none", "--truth"]).arg(file);
    let run = command.output().expect("vpmu runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&run.stderr), text(&run.stdout), run.status.code())
}

fn what_is_wrong_with_a_recorded_file_is_one_line() -> Verdict {
    let whole = path("recorded");
    let (error, _, status) = record(&whole);
    assert_eq!((&*error, status), ("", Some(0)));
    assert!(printed(&whole, "").ends_with("(total)\n"));
    let bytes = std::fs::read(&whole).expect("a truth file");
    let mut other = bytes.clone();
    assert_eq!(&other[..13], b"vpmu-truth 2 ");
    other[11] = b'9';
    let damaged = path("recorded-damaged");
    for (bytes, expected) in [
        (&bytes[..bytes.len() / 2], "is a truncated truth file: "),
        (&other, "is a truth file of version 9; expected version 2\n"),
    ] {
        std::fs::write(&damaged, bytes).expect("a file");
        let (text, error, status) = vpmu_truth(&damaged, "--json");
        assert_eq!((&*text, status), ("", Some(4)));
        assert!(error.starts_with(&format!("vpmu: {} {expected}", damaged.display())), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    Ok(())
}

/// The guest prints nothing.
fn what_cannot_be_written_is_known_before_the_run() -> Verdict {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for file in [Path::new("/nonexistent/truth"), folder] {
        let (error, output, status) = record(file);
        assert!(error.starts_with(&format!("vpmu: cannot write {}", file.display())), "{error}");
        assert_eq!((error.lines().count(), &*output, status), (1, "", Some(6)));
    }
    Ok(())
}
