//! The terminal after the end is as it was before, however a run ends.

use super::*;

tests!(
    the_terminal_is_as_before,
    no_signal_leaves_the_terminal_raw,
    a_guest_that_prints_nothing_shows_life
);

/// Runs `script` in a shell on a terminal of its own; what it printed, or why that cannot be had.
fn on_terminal(script: &str) -> Result<String, CannotRun> {
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", script, "/dev/null"]);
    // An input that stays open: the end of it would be typed into the terminal.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.map_err(|e| CannotRun::without("script", &e.to_string()))?;
    let input = child.stdin.take();
    let run = wait_for(child);
    drop(input);
    // Without a pseudo-terminal it says so, and runs nothing.
    let complaint = String::from_utf8_lossy(&run.stderr);
    if complaint.starts_with("script: ") {
        return Err(CannotRun::without("a terminal", &complaint));
    }
    Ok(String::from_utf8_lossy(&run.stdout).replace('\r', ""))
}

/// `stty -g` prints all settings of a terminal.
fn assert_restored(name: &str, run: &str, status: i32, says: &str) -> Verdict {
    let script = format!("stty -g; {run}; echo \"status $?\"; stty -g");
    let text = on_terminal(&script)?;
    let lines: Vec<_> = text.lines().collect();
    let [before, said @ .., code, after] = &lines[..] else { panic!("{name}: {text}") };
    assert!(before.matches(':').count() > 4, "{name}: {text}");
    assert_eq!(before, after, "{name}: {text}");
    assert_eq!(*code, format!("status {status}"), "{name}: {text}");
    assert!(said.join("\n").contains(says), "{name}: {text}");
    Ok(())
}

fn the_terminal_is_as_before() -> Verdict {
    kvm()?;
    let spin: &[u8] = &[0xEB, 0xFE];
    let tick = ticking(11932, &[0xFB, 0xF4, 0xEB, 0xFD]);
    let run = |name: &str, code: &[u8], address: u64, options: &[&str]| {
        let words = arguments(name, code, address, options);
        let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        quoted.join(" ")
    };
    // MOV AL, 21; OUT F4h, AL: status 2 * 21 + 1.
    let exit = run("tty-exit", &[0xB0, 21, 0xE6, 0xF4], 0x7C00, &[]);
    assert_restored("exit", &exit, 43, "")?;
    let triple = run("tty-triple", &[0x0F, 0x0B], 0x10_0000, &[]);
    assert_restored("triple fault", &triple, 126, "triple fault")?;
    let limit = run("tty-limit", spin, 0x7C00, &["--timeout", "1", "--smp", "2"]);
    assert_restored("time limit", &limit, 124, "time limit")?;
    // SIGTERM is 15: status 128 + 15.
    for (name, code) in [("tty-term-spin", spin), ("tty-term-tick", &tick)] {
        let run = run(name, code, 0x7C00, &[]);
        assert_restored(
            name,
            &format!("timeout --foreground --preserve-status 1 {run}"),
            143,
            "signal 15",
        )?;
    }
    let few = run("tty-few", HALT, 0x7C00, &["--smp", "8"]);
    let few = format!("sh -c \"ulimit -n 14; {few}\"");
    assert_restored("few files", &few, 6, "Too many open files")
}

/// Each signal that ends a process by default and that the process can catch, on the software engine.
/// Names and numbers: signal(7); status 128 and the number.
fn no_signal_leaves_the_terminal_raw() -> Verdict {
    for (name, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("USR1", 10), ("ALRM", 14)] {
        let words = arguments(&format!("tty-{name}"), IDLE, 0x7C00, &["--engine", "soft"]);
        let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        let run = quoted.join(" ");
        let run = format!("timeout --foreground --preserve-status -s {name} 1 {run}");
        assert_restored(name, &run, 128 + number, &format!("signal {number}"))?;
    }
    Ok(())
}

/// JMP to itself for three seconds: the line is there, and gone before the end is told. It is not there with
/// --quiet, or where standard error is no terminal, or where the guest has begun a line (MOV AL, 'x'; MOV DX,
/// 3F8h; OUT DX, AL; JMP to itself), which it would overwrite.
fn a_guest_that_prints_nothing_shows_life() -> Verdict {
    let spin: &[u8] = &[0xEB, 0xFE];
    let begins: &[u8] = &[0xB0, b'x', 0xBA, 0xF8, 0x03, 0xEE, 0xEB, 0xFE];
    let show = |name: &str, code: &[u8], more: &str, redirected: &str| {
        let options = ["--engine", "soft", "--timeout", "3"];
        let words = arguments(name, code, 0x7C00, &options);
        let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        on_terminal(&format!("{} {more} {redirected}", quoted.join(" ")))
    };
    let text = show("tty-life", spin, "", "")?;
    assert!(text.contains("\x1b[Kvpmu: ") && text.contains(" MIPS, console idle for "), "{text:?}");
    let (_, end) = text.rsplit_once("\x1b[K").unwrap_or_default();
    assert!(end.starts_with("vpmu: the time limit is reached\n"), "{text:?}");
    for (name, code, more, redirected) in [
        ("tty-quiet", spin, "--quiet", ""),
        ("tty-redirected", spin, "", "2>&1 | cat"),
        ("tty-begins", begins, "", ""),
    ] {
        let text = show(name, code, more, redirected)?;
        assert!(text.contains("the time limit is reached"), "{name}: {text:?}");
        assert!(!text.contains("console idle"), "{name}: {text:?}");
    }
    Ok(())
}
