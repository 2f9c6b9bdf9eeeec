//! `--save` and `--load`: a run that goes on from a file ends as the one that was not cut, and what cannot be is one
//! line.

use super::*;

tests!(
    a_run_goes_on_from_a_file,
    a_marker_is_found,
    a_marker_is_found_on_kvm,
    an_access_to_a_register_is_found,
    an_access_to_a_register_is_found_on_kvm,
    a_signal_saves_and_the_run_goes_on,
    a_signal_saves_on_kvm,
    a_run_on_kvm_goes_on_from_any_time,
    interrupt_controllers_stay_where_they_are,
    what_is_no_snapshot_is_one_line,
);

/// Prints A to Z on the serial port (3F8h), and for each counts CX down from 1000h: 26 times 1000h rounds. "snap" to
/// port 80h, four bytes at once, behind A. Then 5 to the debug-exit port: status 2 * 5 + 1.
const ALPHABET: &[u8] = &[
    0xB3,
    b'A', // mov bl, 'A'
    0xBA,
    0xF8,
    0x03, // again: mov dx, 3F8h
    0x88,
    0xD8, // mov al, bl
    0xEE, // out dx, al
    0xB9,
    0x00,
    0x10, // mov cx, 1000h
    0xE2,
    0xFE, // loop $
    0x66,
    0xB8,
    b's',
    b'n',
    b'a',
    b'p', // mov eax, "snap"
    0x66,
    0xE7,
    0x80, // out 80h, eax
    0xFE,
    0xC3, // inc bl
    0x80,
    0xFB,
    b'Z' + 1, // cmp bl, 'Z' + 1
    0x75,
    0xE4, // jne again
    0xB0,
    0x05, // mov al, 5
    0xE6,
    0xF4, // out F4h, al
];
const WHOLE: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const SOFT: [&str; 2] = ["--engine", "soft"];
const KVM: [&str; 2] = ["--engine", "kvm"];
const KVM_IN_KERNEL: [&str; 4] = ["--engine", "kvm", "--irqchip", "kernel"];

/// A file for this process alone.
fn file(name: &str) -> String {
    let name = format!("snapshot-{}-{name}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).to_string_lossy().into_owned()
}

/// A name for what is done with these options: tests run at the same time.
fn name(what: &str, options: &[&str]) -> String {
    let values: Vec<_> =
        options.iter().filter(|option| !option.starts_with('-')).copied().collect();
    format!("{what}-{}", values.join("-"))
}

/// What goes on from a snapshot prints.
fn load(path: &str) -> Output {
    load_on(path, &[])
}

/// The same with more options.
fn load_on(path: &str, options: &[&str]) -> Output {
    finish(Command::new(VPMU).args(["run", "--stats", "none", "--load", path]).args(options))
}

fn printed(run: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&run.stdout).into_owned(), run.status.code())
}

fn a_run_goes_on_from_a_file() -> Verdict {
    for (name, at) in [("first", "insn:0"), ("middle", "insn:50000"), ("time", "30us")] {
        let path = file(name);
        let options = [&SOFT[..], &["--save", &path, "--save-at", at]].concat();
        let run = finish(&mut vpmu(&format!("snapshot-{name}"), ALPHABET, 0x7C00, &options));
        assert_eq!(printed(&run), (WHOLE.into(), Some(11)), "{at}");
        let (rest, status) = printed(&load(&path));
        assert_eq!(status, Some(11), "{at}");
        assert!(WHOLE.ends_with(&rest), "{at}: {rest}");
        // Behind 50,000 instructions twelve rounds of 4,105 are over, each of which prints a letter. A turn of one
        // processor alone takes 25 us, which at 2 GHz are 50,000 cycles, an instruction each: two of them.
        let letters = match at {
            "insn:0" => 26,
            "insn:50000" => 26 - 13,
            _ => 26 - 25,
        };
        assert_eq!(rest.len(), letters, "{at}: {rest}");
        std::fs::remove_file(path).expect("the snapshot");
    }
    Ok(())
}

fn a_marker_is_found() -> Verdict {
    find_marker(&SOFT, &[&SOFT])
}

fn a_marker_is_found_on_kvm() -> Verdict {
    kvm()?;
    find_marker(&SOFT, &[&KVM])?;
    find_marker(&KVM, &[&SOFT, &KVM])?;
    find_marker(&KVM_IN_KERNEL, &[&KVM_IN_KERNEL])
}

/// Saves with these options, behind the first marker, and goes on with each of those.
fn find_marker(saving: &[&str], loading: &[&[&str]]) -> Verdict {
    // Of one test there may be several, one after the other.
    let name = name(&format!("snapshot-marker-{}", loading.len()), saving);
    let path = file(&name);
    let options = [saving, &["--save", &path, "--save-at", "marker"]].concat();
    let run = finish(&mut vpmu(&name, ALPHABET, 0x7C00, &options));
    assert_eq!(printed(&run), (WHOLE.into(), Some(11)), "{saving:?}");
    for options in loading {
        let loaded = printed(&load_on(&path, options));
        assert_eq!(loaded, (WHOLE[1..].into(), Some(11)), "{saving:?} {options:?}");
    }
    std::fs::remove_file(path).expect("the snapshot");
    Ok(())
}

/// At whatever time it is cut, the rest is what has not been printed. The host decides how far it comes in that time,
/// so that both ends may be hit.
fn a_run_on_kvm_goes_on_from_any_time() -> Verdict {
    kvm()?;
    let path = file("any-time");
    for at in ["1us", "20us", "50us", "100us", "200us", "400us"] {
        let options = [&KVM[..], &["--save", &path, "--save-at", at]].concat();
        let run = finish(&mut vpmu("snapshot-any-time", ALPHABET, 0x7C00, &options));
        assert_eq!(printed(&run), (WHOLE.into(), Some(11)), "{at}");
        if !Path::new(&path).exists() {
            // The guest was faster.
            continue;
        }
        let (on_kvm, on_soft) = (printed(&load_on(&path, &KVM)), printed(&load(&path)));
        assert_eq!(on_kvm, on_soft, "{at}");
        assert!(WHOLE.ends_with(&on_soft.0) && on_soft.1 == Some(11), "{at}: {on_soft:?}");
        std::fs::remove_file(&path).expect("the snapshot");
    }
    Ok(())
}

/// Those of the host's kernel are others than a processor's: one line says so.
fn interrupt_controllers_stay_where_they_are() -> Verdict {
    kvm()?;
    let path = file("irqchip");
    let options = [&KVM_IN_KERNEL[..], &["--save", &path, "--save-at", "marker"]].concat();
    finish(&mut vpmu("snapshot-irqchip", ALPHABET, 0x7C00, &options));
    let run = load(&path);
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!((text.lines().count(), run.status.code()), (1, Some(4)), "{text}");
    assert!(text.contains("local APICs (--irqchip)"), "{text}");
    let counted = [&KVM[..], &["--save", &path, "--save-at", "insn:1"]].concat();
    let run = finish(&mut vpmu("snapshot-irqchip", ALPHABET, 0x7C00, &counted));
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!((text.lines().count(), run.status.code()), (1, Some(2)), "{text}");
    assert!(text.contains("--save-at insn:N needs --engine soft"), "{text}");
    std::fs::remove_file(path).expect("the snapshot");
    Ok(())
}

fn an_access_to_a_register_is_found() -> Verdict {
    find_access(&SOFT)
}

fn an_access_to_a_register_is_found_on_kvm() -> Verdict {
    kvm()?;
    find_access(&KVM)
}

/// RDMSR of PerfCtr0 behind 'A': what is printed later is 'B'.
fn find_access(saving: &[&str]) -> Verdict {
    let name = name("snapshot-msr", saving);
    let path = file(&name);
    let options = [saving, &["--cpu", "k8", "--save", &path, "--save-at", "msr:C0010004"]].concat();
    // In real mode: OUT of 'A' to 3F8h; MOV ECX, C0010004h; RDMSR; OUT of 'B'; OUT of 5 to F4h.
    let code = &[
        0xBA, 0xF8, 0x03, 0xB0, b'A', 0xEE, 0x66, 0xB9, 0x04, 0x00, 0x01, 0xC0, 0x0F, 0x32, 0xBA,
        0xF8, 0x03, 0xB0, b'B', 0xEE, 0xB0, 5, 0xE6, 0xF4,
    ];
    let run = finish(&mut vpmu(&name, code, 0x7C00, &options));
    assert_eq!(printed(&run), ("AB".into(), Some(11)));
    assert_eq!(printed(&load(&path)), ("B".into(), Some(11)));
    std::fs::remove_file(path).expect("the snapshot");
    Ok(())
}

fn a_signal_saves_and_the_run_goes_on() -> Verdict {
    save_by_signal(&SOFT)
}

fn a_signal_saves_on_kvm() -> Verdict {
    kvm()?;
    save_by_signal(&KVM)
}

/// SIGUSR1 to a guest that idles; it is there in the file then, and idles on.
fn save_by_signal(saving: &[&str]) -> Verdict {
    let name = name("snapshot-signal", saving);
    let path = file(&name);
    let options = [saving, &["--save", &path]].concat();
    // OUT of 'A' to 3F8h, then a loop without end.
    let spin = &[0xBA, 0xF8, 0x03, 0xB0, b'A', 0xEE, 0xEB, 0xFE];
    let mut command = vpmu(&name, spin, 0x7C00, &options);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("vpmu");
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut first).expect("A");
    let id = child.id().to_string();
    let kill = |signal: &str| {
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill").success());
    };
    kill("-USR1");
    let started = Instant::now();
    while !Path::new(&path).exists() {
        assert!(started.elapsed() < LATEST, "no snapshot");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(child.try_wait().expect("a child").is_none(), "it goes on");
    kill("-TERM");
    assert_eq!(wait_for(child).status.code(), Some(128 + 15));
    let run = finish(Command::new(VPMU).args([
        "run",
        "--stats",
        "none",
        "--max-instructions",
        "2000000000",
        "--timeout",
        "1",
        "--load",
        &path,
    ]));
    assert!(run.stdout.is_empty(), "A was printed before");
    std::fs::remove_file(path).expect("the snapshot");
    Ok(())
}

fn what_is_no_snapshot_is_one_line() -> Verdict {
    let path = file("damaged");
    let options = [&SOFT[..], &["--save", &path, "--save-at", "insn:1"]].concat();
    finish(&mut vpmu("snapshot-damaged", ALPHABET, 0x7C00, &options));
    let whole = std::fs::read(&path).expect("a snapshot");
    let mut other = whole.clone();
    other["vpmu-snapshot ".len()] = b'9';
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("bytes") ^= 1;
    for (bytes, says) in [
        (&whole[..whole.len() - 1], "is a truncated snapshot: "),
        (&other, "is a snapshot of version 96; expected version 16"),
        (&flipped, "is a corrupt snapshot: its CRC is another"),
        (b"", "is no snapshot"),
    ] {
        std::fs::write(&path, bytes).expect("a file");
        let run = load(&path);
        let text = String::from_utf8_lossy(&run.stderr);
        assert_eq!((text.lines().count(), run.status.code()), (1, Some(4)), "{text}");
        assert!(text.contains(says), "{text}");
    }
    let never = [&SOFT[..], &["--save", &path, "--save-at", "1s"]].concat();
    let run = finish(&mut vpmu("snapshot-never", ALPHABET, 0x7C00, &never));
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(text, "vpmu: the run did not come to --save-at: no snapshot was written\n");
    std::fs::remove_file(path).expect("the snapshot");
    Ok(())
}
