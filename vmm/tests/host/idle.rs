//! What a guest that has nothing to do costs the host.

use super::*;

tests!(a_guest_that_waits_takes_no_processor_time, a_tick_takes_no_system_call_too_many);

/// A guest that runs with its input open, so that vpmu has to wait for it.
struct Running(Child);

impl Running {
    fn start(name: &str, code: &[u8], options: &[&str]) -> Self {
        let mut command = vpmu(name, code, 0x7C00, options);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("vpmu starts"))
    }

    /// Processor time that it has taken, all threads: `utime` and `stime`, fields 14 and 15 of
    /// `/proc/PID/stat`, in units of 10 ms (proc(5)).
    fn cpu_time(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.0.id());
        let text = std::fs::read_to_string(path).expect("the process is there");
        let (_, fields) = text.rsplit_once(") ").expect("its name in parentheses");
        let ticks = fields.split(' ').skip(11).take(2).map(|n| n.parse::<u64>().expect("ticks"));
        Duration::from_millis(10 * ticks.sum::<u64>())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A halted guest with a periodic interrupt, 100 times a second, and one that waits for a key, with one
/// processor and with four. What nothing wakes takes less than 2 % of a processor. What a wake-up takes
/// is the host's (docs/kvm.md has figures), so a guest with a tick has twenty times as much: less than a
/// thread takes that looks again and again whether it is time.
fn a_guest_that_waits_takes_no_processor_time() -> Verdict {
    const WITHOUT_TICK: f64 = 2.0;
    const WITH_TICK: f64 = 40.0;
    kvm()?;
    let tick = ticking(11932, IDLE);
    let guests = [("a tick of 100 Hz", &tick[..], WITH_TICK), ("no tick", IDLE, WITHOUT_TICK)];
    let runs: Vec<_> = guests
        .iter()
        .flat_map(|guest| ["1", "4"].map(|processors| (guest, processors)))
        .map(|(&(what, code, most), processors)| {
            let name = format!("idle-{}-{processors}", code.len());
            let run = Running::start(&name, code, &["--smp", processors]);
            (format!("{what}, {processors} processors"), run, most)
        })
        .collect();
    // The start is not of interest.
    thread::sleep(Duration::from_millis(700));
    // A host that is busy with other things may charge the process for some of them; what does not
    // wait at all takes its share each time.
    let mut lines = Vec::new();
    for _ in 0..3 {
        let before: Vec<_> = runs.iter().map(|(_, run, _)| run.cpu_time()).collect();
        let started = Instant::now();
        thread::sleep(Duration::from_secs(5));
        let percents: Vec<_> = runs
            .iter()
            .zip(before)
            .map(|((_, run, _), before)| {
                let taken = run.cpu_time() - before;
                100.0 * taken.as_secs_f64() / started.elapsed().as_secs_f64()
            })
            .collect();
        lines = runs
            .iter()
            .zip(&percents)
            .map(|((what, _, most), percent)| {
                format!("idle on KVM, {what}: {percent:.1} % (less than {most})\n")
            })
            .collect();
        std::io::stderr().write_all(lines.concat().as_bytes()).expect("stderr");
        if runs.iter().zip(&percents).all(|((_, _, most), percent)| percent < most) {
            return Ok(());
        }
    }
    panic!("too much of a processor:\n{}", lines.concat());
}

/// strace from the packages that `guest-tests/linux/fetch` gets, with its own libraries; why not, if the
/// host cannot get them.
fn strace() -> Result<Command, String> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no project folder")?;
    let guests = project.join("target/guests");
    let mut fetch = Command::new(project.join("guest-tests/linux/fetch"));
    let fetched = fetch.env("GUESTS", &guests).stdin(Stdio::null()).output();
    let fetched = fetched.map_err(|e| format!("guest-tests/linux/fetch: {e}"))?;
    if !fetched.status.success() {
        return Err(String::from_utf8_lossy(&fetched.stderr).into_owned());
    }
    let lib = guests.join("root/lib/x86_64-linux-gnu");
    let usr_lib = guests.join("root/usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(lib.join("ld-linux-x86-64.so.2"));
    let path = format!("{}:{}", lib.display(), usr_lib.display());
    command.args(["--library-path", &path]).arg(guests.join("root/usr/bin/strace"));
    Ok(command)
}

/// How often each system call was made, from the table that `strace -c` prints.
fn calls(table: &str, name: &str) -> u64 {
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    row.filter(|row| row.last() == Some(&name))
        .filter_map(|row| row.get(3)?.parse::<u64>().ok())
        .sum()
}

/// The system calls of a guest that waits for so many ticks of 1 kHz, as `strace -c` prints them.
fn calls_of_ticks(ticks: u16) -> Result<String, String> {
    let [low, high] = ticks.to_le_bytes();
    // STI; HLT; CMP BX, ticks; JB to STI; MOV AL, 0; OUT F4h, AL: status 1. Two ticks may come at once.
    let rest = [0xFB, 0xF4, 0x81, 0xFB, low, high, 0x72, 0xF8, 0xB0, 0x00, 0xE6, 0xF4];
    let code = ticking(1193, &rest);
    let name = format!("strace-{ticks}");
    let table = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-table"));
    let _ = std::fs::remove_file(&table);
    let mut command = strace()?;
    command.args(["-f", "-c", "-o"]).arg(&table);
    command.args(arguments(&name, &code, 0x7C00, &["--timeout", "30"]));
    let run = finish(&mut command);
    let table = std::fs::read_to_string(&table).unwrap_or_default();
    if !table.contains("ioctl") {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    assert_eq!(said(&run), (String::new(), Some(1)), "{table}");
    Ok(table)
}

/// A tick of the PIT that ends HLT and is acknowledged to the 8259A takes: `ppoll` until it is due,
/// a `futex` that wakes the processor's thread and one in which it waits, and three `ioctl`:
/// `KVM_INTERRUPT`, `KVM_RUN` up to the OUT to the 8259A, `KVM_RUN` up to HLT. No descriptor is read
/// or written.
fn a_tick_takes_no_system_call_too_many() -> Verdict {
    const CALLS: [(&str, f64); 5] =
        [("ppoll", 1.0), ("futex", 2.0), ("ioctl", 3.0), ("read", 0.0), ("write", 0.0)];
    const ROOM: f64 = 0.7;
    const FEW: u16 = 100;
    const MANY: u16 = 600;
    kvm()?;
    // On a host that is busy with other things ticks come late, and threads meet at the lock; a call
    // too many would be one for each tick, each time.
    let mut tables = String::new();
    for _ in 0..8 {
        let calls_of = |n| calls_of_ticks(n).map_err(|why| CannotRun::without("strace", &why));
        let (few, many) = (calls_of(FEW)?, calls_of(MANY)?);
        // What start and end take is in both.
        let ticks = f64::from(MANY - FEW);
        let per_tick = |name| (calls(&many, name) as f64 - calls(&few, name) as f64) / ticks;
        let line =
            format!("idle on KVM: {:.2} system calls for a tick of 1 kHz\n", per_tick("total"));
        std::io::stderr().write_all(line.as_bytes()).expect("stderr");
        let others = per_tick("total") - CALLS.map(|(name, _)| per_tick(name)).iter().sum::<f64>();
        if others < ROOM && CALLS.iter().all(|(name, calls)| per_tick(name) < calls + ROOM) {
            return Ok(());
        }
        tables = format!("{few}\n{many}");
    }
    panic!("more than {CALLS:?} a tick:\n{tables}");
}
