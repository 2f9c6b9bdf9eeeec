//! `vpmu exec` as a filter: what goes in and comes out of a command is what would without a guest.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::guest::packages;
use crate::harness::{CannotRun, Verdict, tests};

tests!(
    input_reaches_the_command_and_ends,
    no_input_is_an_end,
    bytes_of_any_kind_go_through_unharmed,
    streams_and_status_are_the_commands,
    the_kernel_speaks_when_asked_to,
    what_the_guest_does_depends_on_the_input_alone,
    who_does_not_read_is_not_held_up,
    input_comes_to_a_busy_guest,
    files_and_environment_come_along,
    what_is_fetched_is_found,
    several_fetch_at_once,
    what_has_left_the_mirror_is_replaced,
    a_fetch_says_what_it_needs,
    files_come_back,
    a_script_finds_its_interpreter,
    modules_come_with_what_they_need,
    a_c_program_reads_registers,
    recorded_with_perf,
    a_command_begins_from_a_snapshot,
);

/// Reads what Linux programs: IA32_APIC_BASE, whose bit 11 enables the local APIC (SDM volume 3, 11.4.4), by
/// the driver for MSRs; then writes 0 to PerfCtr0 and 430076h to PerfEvtSel0 of the K8, which is to count
/// cycles at all privilege levels (BKDG 26094, 10.2.2), and compares what RDPMC and RDMSR say.
const REGISTERS: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static uint32_t rdpmc(uint32_t counter) {
    uint32_t low, high;
    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
    return low;
}

int main(void) {
    uint64_t value = 0, event = 0x430076;
    int msr = open("/dev/cpu/0/msr", O_RDWR);
    if (msr < 0) return 1;
    if (pread(msr, &value, 8, 0x1B) != 8) return 2;
    printf("%d\n", (int)(value >> 11 & 1));
    value = 0;
    if (pwrite(msr, &value, 8, 0xC0010004) != 8) return 3;
    if (pwrite(msr, &event, 8, 0xC0010000) != 8) return 4;
    uint32_t first = rdpmc(0), second = rdpmc(0);
    if (pread(msr, &value, 8, 0xC0010004) != 8) return 5;
    printf("%d %d\n", first > 0 && second > first, (uint32_t)value > second);
    return 0;
}
"#;

/// Spends its time in one function.
const SPINS: &str = r"
static volatile int sum;
__attribute__((noinline)) void spin_here(int rounds) {
    for (int round = 0; round < rounds; round++) sum += round;
}
int main(void) { spin_here(30000000); return 0; }
";

/// More than two answers of 64 KiB, and no multiple of four bytes.
const LENGTH: usize = 150_001;

/// `vpmu exec OPTIONS -- COMMAND`, started where it finds the project's busybox.
fn start(options: &[&str], command: &[&str], input: Stdio) -> Result<Child, CannotRun> {
    let packages = packages()?;
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
    Ok(Command::new(env!("CARGO_BIN_EXE_vpmu"))
        .current_dir(project)
        .args(["exec", "--timeout", "400", "--kernel"])
        .arg(&packages.kernel)
        .args(options)
        .arg("--")
        .args(command)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vpmu starts"))
}

/// The same to its end, with this as its input, in `pieces` with pauses between them.
fn run(
    options: &[&str],
    command: &[&str],
    input: &[u8],
    pieces: usize,
) -> Result<Output, CannotRun> {
    let mut child = start(options, command, Stdio::piped())?;
    let mut stdin = child.stdin.take().expect("its input");
    let input = input.to_vec();
    let writer = thread::spawn(move || {
        for piece in input.chunks(input.len().div_ceil(pieces).max(1)) {
            stdin.write_all(piece).expect("input");
            if pieces > 1 {
                thread::sleep(Duration::from_millis(300));
            }
        }
    });
    let output = child.wait_with_output().expect("an end");
    writer.join().expect("a writer");
    Ok(output)
}

/// Status, standard output and standard error as they are expected.
fn assert_is(output: &Output, status: i32, out: &str, err: &str) {
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!((output.status.code(), &*stdout, &*stderr), (Some(status), out, err));
}

/// Every byte value, in no order: the high bytes of a linear congruential sequence.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn input_reaches_the_command_and_ends() -> Verdict {
    assert_is(&run(&[], &["cat"], b"hello\n", 1)?, 0, "hello\n", "");
    Ok(())
}

fn no_input_is_an_end() -> Verdict {
    let child = start(&[], &["cat"], Stdio::null())?;
    assert_is(&child.wait_with_output().expect("an end"), 0, "", "");
    Ok(())
}

/// There and back.
fn bytes_of_any_kind_go_through_unharmed() -> Verdict {
    let bytes = noise(LENGTH);
    assert!((0..=255).all(|value| bytes.contains(&value)));
    let output = run(&[], &["cat"], &bytes, 1)?;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout.len(), LENGTH);
    assert!(output.stdout == bytes);
    Ok(())
}

fn streams_and_status_are_the_commands() -> Verdict {
    let script = "echo out; echo err >&2; echo more; exit 3";
    assert_is(&run(&[], &["sh", "-c", script], b"", 1)?, 3, "out\nmore\n", "err\n");
    Ok(())
}

fn the_kernel_speaks_when_asked_to() -> Verdict {
    let output = run(&["--verbose"], &["echo", "out"], b"", 1)?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("Linux version "), "{messages}");
    Ok(())
}

/// The same bytes in one piece and in five with pauses: equal statistics, which tell of each instruction and
/// of virtual time.
fn what_the_guest_does_depends_on_the_input_alone() -> Verdict {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let bytes = noise(LENGTH);
    let mut statistics = Vec::new();
    for pieces in [1, 5] {
        // The name is in the statistics.
        let path = folder.join("exec-stats.json");
        let file = path.to_string_lossy();
        let output = run(&["--stats", "json", "--stats-file", &file], &["cat"], &bytes, pieces)?;
        assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
        statistics.push(fs::read_to_string(&path).expect("statistics"));
        fs::remove_file(&path).expect("the file is ours");
    }
    assert_eq!(statistics[0], statistics[1]);
    Ok(())
}

/// An input that neither comes nor ends.
fn who_does_not_read_is_not_held_up() -> Verdict {
    let mut child = start(&[], &["echo", "done"], Stdio::piped())?;
    let input = child.stdin.take();
    let mut out = String::new();
    child.stdout.take().expect("its output").read_to_string(&mut out).expect("text");
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    drop(input);
    assert_eq!(out, "done\n");
    Ok(())
}

/// One that never sleeps.
fn input_comes_to_a_busy_guest() -> Verdict {
    let script = "while :; do :; done & read -r line; echo \"got $line\"; kill $!";
    assert_is(&run(&[], &["sh", "-c", script], b"this\n", 1)?, 0, "got this\n", "");
    Ok(())
}

/// A file that an argument names by a path relative to where `vpmu` runs, one that is added, a variable and
/// the folder; and without the option, no file.
fn files_and_environment_come_along() -> Verdict {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
    let license = fs::read_to_string(project.join("LICENSE-MIT")).expect("a license");
    let command = ["sh", "-c", "pwd; echo \"$A\"; cat \"$0\" there", "LICENSE-MIT"];
    let options =
        ["--env", "A=it's $x", "--cwd", "/srv/work", "--add", "rust-toolchain.toml:there"];
    let toolchain = fs::read_to_string(project.join("rust-toolchain.toml")).expect("a file");
    let expected = format!("/srv/work\nit's $x\n{license}{toolchain}");
    assert_is(&run(&options, &command, b"", 1)?, 0, &expected, "");
    let command = ["sh", "-c", "test -e \"$0\"", "LICENSE-MIT"];
    assert_is(&run(&["--no-arg-files"], &command, b"", 1)?, 1, "", "");
    Ok(())
}

/// A folder of this test's own, without what a run before may have left.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("exec-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Has packages in this folder that have been downloaded already, so that nothing depends on a mirror.
fn link_packages(debs: &Path) -> Result<(), CannotRun> {
    fs::create_dir_all(debs).expect("a folder");
    for deb in fs::read_dir(packages()?.path("../debs")).expect("packages") {
        let deb = deb.expect("a package");
        let link = std::os::unix::fs::symlink(
            fs::canonicalize(deb.path()).expect("a package"),
            debs.join(deb.file_name()),
        );
        link.expect("a link");
    }
    Ok(())
}

/// What `vpmu fetch` names is there, and a command runs with nothing else said, from any folder.
fn what_is_fetched_is_found() -> Verdict {
    let folder = folder("fetch");
    link_packages(&folder.join("vpmu/debs"))?;
    let vpmu = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vpmu"));
        command.args(words).current_dir(&folder).env("XDG_CACHE_HOME", &folder);
        command.env_remove("VPMU_KERNEL").env_remove("VPMU_BUSYBOX").stdin(Stdio::null());
        command.output().expect("vpmu starts")
    };
    let fetched = vpmu(&["fetch"]);
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    let text = String::from_utf8_lossy(&fetched.stdout);
    let root = folder.join("vpmu/root");
    for (path, begins) in text.lines().zip(["boot/vmlinuz-", "bin/busybox", "usr/bin/perf"]) {
        let within = Path::new(path).strip_prefix(&root).expect("in the cache");
        assert!(within.to_string_lossy().starts_with(begins) && Path::new(path).is_file());
    }
    let ran = vpmu(&["exec", "--timeout", "400", "--module", "xt_limit", "--", "uname", "-r"]);
    fs::remove_dir_all(&folder).expect("the folder is ours");
    let release = text.lines().next().and_then(|kernel| kernel.rsplit_once("/vmlinuz-"));
    assert_is(&ran, 0, &format!("{}\n", release.expect("a kernel").1), "");
    Ok(())
}

/// As tests do that all need the packages, in a folder that has none unpacked: one unpacks them, and all find
/// them whole.
fn several_fetch_at_once() -> Verdict {
    let folder = folder("fetch-at-once");
    link_packages(&folder.join("debs"))?;
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a project folder");
    let start = |_| {
        let mut command = Command::new(project.join("guest-tests/linux/fetch"));
        command.env("GUESTS", &folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fetch starts")
    };
    let started: Vec<_> = (0..4).map(start).collect();
    let ended = started.into_iter().map(|child| child.wait_with_output().expect("an end"));
    let ended: Vec<_> = ended.collect();
    for output in &ended {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, ended[0].stdout);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.lines().count() == 3 && text.lines().all(|path| Path::new(path).is_file()));
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
    Ok(())
}

/// A list of versions that no mirror ever had, of a package of each kind: Linux, of which each version is a
/// package, and one with an epoch.
fn what_has_left_the_mirror_is_replaced() -> Verdict {
    // A host without package lists has them from here on.
    packages()?;
    let known = Command::new("apt-cache").args(["madison", "busybox-static"]).output();
    if !known.is_ok_and(|output| !output.stdout.is_empty()) {
        return Err(CannotRun::without(
            "a mirror of Debian's",
            "apt-cache knows no busybox-static",
        ));
    }
    let folder = folder("left-the-mirror");
    link_packages(&folder.join("debs"))?;
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a project folder");
    let fetch = folder.join("fetch");
    fs::copy(project.join("guest-tests/linux/fetch"), &fetch).expect("a copy");
    let gone = [
        ("linux-image-6.1.0-1-cloud-amd64", "6.1.1-0"),
        ("busybox-static", "1:0-0"),
        ("linux-perf", "0-0"),
    ];
    let list: String =
        gone.iter().map(|(package, version)| format!("{package} {version}\n")).collect();
    fs::write(folder.join("versions"), &list).expect("a list");
    let run = || {
        Command::new(&fetch)
            .env("GUESTS", &folder)
            .stdin(Stdio::null())
            .output()
            .expect("fetch starts")
    };
    let (first, again) = (run(), run());
    let unchanged = fs::read_to_string(folder.join("versions")).expect("a list");
    fs::remove_dir_all(&folder).expect("the folder is ours");
    let said = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{said}");
    let told: Vec<_> = said.lines().filter(|line| line.starts_with("fetch: ")).collect();
    assert_eq!(told.len(), gone.len(), "{said}");
    for ((package, version), line) in gone.iter().zip(told) {
        let begins = format!("fetch: {package} {version} is no longer on the mirror: taking ");
        let taken = line.strip_prefix(&begins).unwrap_or_else(|| panic!("{line}"));
        let same = taken.split(' ').next() == Some(package);
        assert!(same != package.starts_with("linux-image-"), "{line}");
    }
    let paths = String::from_utf8_lossy(&first.stdout);
    let ends = ["-cloud-amd64", "/bin/busybox", "/usr/bin/perf"];
    assert!(
        paths.lines().count() == 3
            && paths.lines().zip(ends).all(|(path, end)| path.ends_with(end)),
        "{paths}"
    );
    assert_eq!((again.stdout, again.stderr), (first.stdout, Vec::new()));
    assert_eq!(unchanged, list);
    Ok(())
}

/// A host without apt, and a release whose name is a path.
fn a_fetch_says_what_it_needs() -> Verdict {
    let folder = folder("no-apt");
    for tool in ["cmp", "dirname", "mkdir", "sh"] {
        let path = ["/usr/bin", "/bin"].map(|bin| Path::new(bin).join(tool));
        let path = path.iter().find(|path| path.exists()).expect("a tool");
        std::os::unix::fs::symlink(path, folder.join(tool)).expect("a link");
    }
    let fetch = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vpmu"));
        command.arg("fetch").args(words).env("XDG_CACHE_HOME", &folder).env("PATH", &folder);
        command.output().expect("vpmu starts")
    };
    let (without, path) = (fetch(&[]), fetch(&["--suite", "../x"]));
    fs::remove_dir_all(&folder).expect("the folder is ours");
    let needs = "fetch: apt-get not found: needs a Debian-like host with apt-get, apt-cache, dpkg-deb and flock\n";
    assert_is(&without, 6, "", needs);
    assert_is(&path, 2, "", "fetch: --suite needs the name of a release of Debian\n");
    Ok(())
}

/// A program in C, built by the host's compiler.
fn built(folder: &Path, source: &str) -> Result<PathBuf, CannotRun> {
    let (code, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&code, source).expect("a file");
    let made = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&code).status();
    let made = made.map_err(|e| CannotRun::without("a C compiler", &e.to_string()))?;
    assert!(made.success());
    Ok(program)
}

/// Bytes of any kind, an empty file, and one that is not there, which is an error if the command's status is
/// none; and the files are there whatever that status is.
fn files_come_back() -> Verdict {
    let folder = folder("get");
    let to = |name: &str| folder.join(name).display().to_string();
    let (all, empty, none) =
        (format!("all:{}", to("")), format!("/tmp/empty:{}", to("e")), format!("x:{}", to("x")));
    let bytes = noise(LENGTH);
    let options = ["--get", &all, "--get", &none, "--get", &empty];
    let missing = "vpmu: --get x: the guest has no such file, or did not give it\n";
    for (status, expected) in [("0", 4), ("3", 3)] {
        let script = format!("cat >all; : >/tmp/empty; exit {status}");
        assert_is(&run(&options, &["sh", "-c", &script], &bytes, 1)?, expected, "", missing);
        assert!(fs::read(to("all")).expect("a file") == bytes);
        assert_eq!(fs::read(to("e")).expect("a file"), b"");
        assert!(!Path::new(&to("x")).exists());
        fs::remove_file(to("all")).expect("the file is ours");
        fs::remove_file(to("e")).expect("the file is ours");
    }
    Ok(())
}

/// As the command, and as an argument of one that runs it: with `env`, the interpreter has to be found. It is one that
/// the guest's busybox lacks, and small: a guest boots in a third of the time that it takes with perl in it.
fn a_script_finds_its_interpreter() -> Verdict {
    let script = folder("script").join("script");
    fs::write(&script, "#!/usr/bin/env dash\necho \"$1 $((6 * 7))\"\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let script = script.display().to_string();
    assert_is(&run(&[], &[&script, "first"], b"", 1)?, 0, "first 42\n", "");
    assert_is(&run(&[], &["nice", &script, "second"], b"", 1)?, 0, "second 42\n", "");
    Ok(())
}

/// Linux's own list, which has the latest first.
fn modules_come_with_what_they_need() -> Verdict {
    let output = run(&["--module", "xt-limit"], &["cat", "/proc/modules"], b"", 1)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["xt_limit", "x_tables"], "{}", String::from_utf8_lossy(&output.stderr));
    let output = run(&["--module", "no-such"], &["true"], b"", 1)?;
    assert_eq!(output.status.code(), Some(4));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("vpmu: --module no_such: ") && text.lines().count() == 1, "{text}");
    Ok(())
}

/// The driver is loaded and RDPMC allowed by one option.
fn a_c_program_reads_registers() -> Verdict {
    let program = built(&folder("msr"), REGISTERS)?.display().to_string();
    assert_is(&run(&["--cpu", "k8", "--msr"], &[&program], b"", 1)?, 0, "1\n1 1\n", "");
    assert_is(&run(&["--cpu", "k8"], &[&program], b"", 1)?, 1, "", "");
    Ok(())
}

/// perf records a program of the host in the guest, and perf reads on the host what it wrote.
fn recorded_with_perf() -> Verdict {
    let folder = folder("perf");
    let program = built(&folder, SPINS)?.display().to_string();
    let data = folder.join("p.data");
    let get = format!("p.data:{}", data.display());
    let command = ["perf", "record", "-e", "cycles:u", "-o", "p.data", &program];
    let output = run(&["--get", &get], &command, b"", 1)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let report = packages()?.perf_here(&["report", "--stdio", "--sort", "symbol", "-i"], &data);
    let text = String::from_utf8_lossy(&report.stdout);
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with('#'));
    let first =
        first.unwrap_or_else(|| panic!("no line: {}", String::from_utf8_lossy(&report.stderr)));
    assert!(first.contains("] spin_here "), "{text}");
    Ok(())
}

/// Saved right before the command, which then reads another input and gives another file back. With the same input
/// the statistics are those of the run that was not cut.
fn a_command_begins_from_a_snapshot() -> Verdict {
    let folder = folder("snapshot");
    let path = |name: &str| folder.join(name).display().to_string();
    let (snapshot, whole, rest) = (path("door"), path("whole.json"), path("rest.json"));
    let get = format!("got:{}", path(""));
    let options = ["--save", &snapshot, "--save-at", "marker", "--get", &get];
    let options = [&options[..], &["--stats", "json", "--stats-file", &whole]].concat();
    let script = "cat >got; echo out; echo err >&2; exit 3";
    assert_is(&run(&options, &["sh", "-c", script], b"first", 1)?, 3, "out\n", "err\n");
    assert_eq!(fs::read(path("got")).expect("a file"), b"first");
    let load = |input: &[u8], options: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vpmu"))
            .args(["exec", "--timeout", "100", "--load", &snapshot, "--get", &get])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("vpmu starts");
        child.stdin.take().expect("its input").write_all(input).expect("input");
        let output = child.wait_with_output().expect("an end");
        assert_is(&output, 3, "out\n", "err\n");
        assert_eq!(fs::read(path("got")).expect("a file"), input);
    };
    load(b"another, and a longer one", &[]);
    load(b"first", &["--stats", "json", "--stats-file", &rest]);
    let counts = |path: &str| {
        let text = fs::read_to_string(path).expect("statistics");
        let mut all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let members = all.as_object_mut().expect("an object");
        // What was asked for, and what no guest sees.
        members.retain(|name, _| name != "options" && name != "translated");
        all
    };
    assert_eq!(counts(&whole), counts(&rest));
    fs::remove_file(&snapshot).expect("the snapshot");
    Ok(())
}
