//! The `vpmu` program on the host's KVM, as a user starts it: what it says when something is wrong,
//! what it leaves behind, what it costs while the guest has nothing to do, and that it ends when it is
//! told to. What does not need a KVM is tried on the software engine as well.
//!
//! A test that needs what the host does not have or allow (a KVM, a mount namespace, strace) is
//! ignored, and its line says why.

mod command_line;
mod conditions;
mod conversation;
mod examples;
mod gdb;
#[path = "../harness/gdb.rs"]
mod gdb_client;
#[path = "../harness/mod.rs"]
mod harness;
mod idle;
mod limits;
mod pages;
mod snapshot;
mod statistics;
mod stopped;
mod suite;
mod terminal;
mod trace;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use harness::{CannotRun, Verdict, tests};

/// The program under test.
const VPMU: &str = env!("CARGO_BIN_EXE_vpmu");
/// No run of these tests takes so long, on however slow a host.
const LATEST: Duration = Duration::from_secs(60);

/// CLI; HLT.
const HALT: &[u8] = &[0xFA, 0xF4];
/// What `vpmu` says of [`HALT`], and its status then.
const HALTED: (&str, i32) = ("vpmu: every processor is halted for good\n", 120);
/// STI; HLT; JMP to HLT.
const IDLE: &[u8] = &[0xFB, 0xF4, 0xEB, 0xFD];
/// The status if the host refuses something.
const HOST: i32 = 6;

fn main() -> ExitCode {
    harness::run(&[
        ("command_line", command_line::TESTS),
        ("conditions", conditions::TESTS),
        ("conversation", conversation::TESTS),
        ("examples", examples::TESTS),
        ("gdb", gdb::TESTS),
        ("idle", idle::TESTS),
        ("limits", limits::TESTS),
        ("pages", pages::TESTS),
        ("snapshot", snapshot::TESTS),
        ("statistics", statistics::TESTS),
        ("stopped", stopped::TESTS),
        ("suite", suite::TESTS),
        ("terminal", terminal::TESTS),
        ("trace", trace::TESTS),
    ])
}

/// Whether guests run on this host's KVM, or why not.
fn kvm() -> Verdict {
    static KVM: OnceLock<Verdict> = OnceLock::new();
    let kvm = KVM.get_or_init(|| {
        let run = finish(&mut vpmu("kvm-is-there", HALT, 0x7C00, &[]));
        let (text, code) = said(&run);
        if code == Some(HOST) { Err(CannotRun::without("kvm", &text)) } else { Ok(()) }
    });
    kvm.clone()
}

/// Writes a flat payload. Other processes may be running tests that read it.
fn payload(name: &str, code: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}.bin"));
    let new = folder.join(format!("{name}.{}", std::process::id()));
    std::fs::write(&new, code).expect("a payload");
    std::fs::rename(new, &path).expect("a payload");
    path
}

/// The program and the arguments that run `code` at `address`, which starts in real mode below 1 MiB;
/// with KVM, 4 MiB and no statistics, unless the options say otherwise.
fn arguments(name: &str, code: &[u8], address: u64, options: &[&str]) -> Vec<String> {
    let flat = format!("{}@{address:#x}", payload(name, code).display());
    let mut words = vec![VPMU, "run", "--flat", &flat];
    for default in [["--engine", "kvm"], ["--mem", "4M"], ["--stats", "none"]] {
        if !options.contains(&default[0]) {
            words.extend(default);
        }
    }
    words.iter().chain(options).map(|&word| word.to_owned()).collect()
}

/// The command for that.
fn vpmu(name: &str, code: &[u8], address: u64, options: &[&str]) -> Command {
    let words = arguments(name, code, address, options);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// A shell script that gets its arguments as `"$@"`.
fn shell(script: &str, arguments: Vec<String>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(arguments);
    command
}

/// Runs a command without input to its end, which is to come by itself: no thread holds it up.
fn finish(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait_for(command.spawn().expect("the command starts"))
}

/// Waits for the end of a command that prints little.
fn wait_for(mut child: Child) -> Output {
    let started = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if started.elapsed() > LATEST {
            child.kill().expect("a child");
            panic!("process {} does not end", child.id());
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("its output")
}

/// What a run said and its status, without where its processors were at the end. On a host whose CPUID
/// shows through, the line that warns of it is not of interest here.
fn said(run: &Output) -> (String, Option<i32>) {
    const OTHER: [&str; 5] = [
        "vpmu: CPUID function",
        "vpmu: vcpu ",
        "vpmu: vcpus ",
        "vpmu:   ",
        "vpmu: exceptions that KVM delivers",
    ];
    let text = String::from_utf8_lossy(&run.stderr);
    let lines = text.split_inclusive('\n');
    let lines = lines.filter(|line| !OTHER.iter().any(|other| line.starts_with(other)));
    (lines.collect(), run.status.code())
}

/// A real-mode guest that gets an interrupt every `divisor` cycles of the PIT's 1.193182 MHz, and
/// goes on to `rest` with interrupts disabled and BX zero; the handler increments BX.
fn ticking(divisor: u16, rest: &[u8]) -> Vec<u8> {
    let out = |port: u8, value: u8| [0xB0, value, 0xE6, port];
    let [low, high] = divisor.to_le_bytes();
    let mut code = [
        &[0xFA, 0x31, 0xC0, 0x8E, 0xD8, 0x8E, 0xD0, 0xBC, 0x00, 0x70][..], // CLI; DS, SS 0; SP 7000h
        &[0xC7, 0x06, 0x20, 0x00, 0x00, 0x7D, 0xC7, 0x06, 0x22, 0x00, 0x00, 0x00], // vector 8: 0:7D00h
        // 8259A: ICW1 to ICW4, vectors from 8, IRQ0 only. 8254: counter 0, mode 2.
        &[out(0x20, 0x11), out(0x21, 8), out(0x21, 4), out(0x21, 1), out(0x21, 0xFE)].concat(),
        &[out(0x43, 0x34), out(0x40, low), out(0x40, high)].concat(),
        &[0x31, 0xDB], // XOR BX, BX
        rest,
    ]
    .concat();
    assert!(code.len() <= 0x100);
    code.resize(0x100, 0x90);
    // 7D00h: INC BX; PUSH AX; MOV AL, 20h; OUT 20h, AL; POP AX; IRET.
    code.extend([0x43, 0x50, 0xB0, 0x20, 0xE6, 0x20, 0x58, 0xCF]);
    code
}
