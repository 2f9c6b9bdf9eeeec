//! Debian's own gdb, with a script of commands, on a `vpmu` that waits for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::harness::{CannotRun, Verdict};

/// That gdb is there: of Debian's package `gdb`.
pub(crate) fn is_there() -> Verdict {
    let version = Command::new("gdb").arg("--version").stdin(Stdio::null()).output();
    match version {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(CannotRun::without("gdb", &String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(CannotRun::without("gdb", &error.to_string())),
    }
}

/// A folder for the files of a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gdb-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Where gdb connects: the value of `--gdb` for a test in this folder.
pub(crate) fn address(folder: &Path) -> String {
    format!("unix:{}", folder.join("socket").display())
}

/// A gdb that connects to the `vpmu` which waits at the socket of the folder, and does what the script says.
pub(crate) fn start(folder: &Path, commands: &str) -> Child {
    let (socket, script) = (folder.join("socket"), folder.join("commands"));
    for _ in 0..500 {
        if socket.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    fs::write(&script, commands).expect("the commands");
    // What `monitor` prints goes to standard error, and is to stay in its place.
    Command::new("sh")
        .args(["-c", "exec gdb \"$@\" 2>&1", "gdb"])
        .args(["-nx", "-batch", "-ex", "set pagination off", "-ex"])
        .arg(format!("target remote {}", socket.display()))
        .arg("-x")
        .arg(&script)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gdb")
}

/// What gdb says, to its end.
pub(crate) fn said(gdb: Child) -> String {
    let output = gdb.wait_with_output().expect("gdb");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// These are in the text, one behind the other.
pub(crate) fn assert_in_order(text: &str, lines: &[&str]) {
    let mut rest = text;
    for line in lines {
        let at = rest
            .find(line)
            .unwrap_or_else(|| panic!("no {line:?} where it is expected in:\n{text}"));
        rest = &rest[at + line.len()..];
    }
}
