//! A run ends when its time is up or a signal comes, whatever the guest and the reader of its output
//! do. How soon (within 0.1 s) depends on what else the host does, and is measured by hand; these tests
//! check only that it ends.

use std::io::{PipeReader, Read as _, pipe};

use super::*;

tests!(
    the_time_limit_ends_a_run_whose_output_nobody_reads_on_soft,
    the_time_limit_ends_a_run_whose_output_nobody_reads_on_kvm,
    signals_end_a_run_whose_output_nobody_reads_on_soft,
    signals_end_a_run_whose_output_nobody_reads_on_kvm,
    what_is_lost_is_told,
    statistics_that_nobody_reads_do_not_hold_up_the_end,
    a_pipe_with_nobody_at_its_other_end_does_not_hold_up_the_end,
    input_that_the_guest_does_not_take_is_not_read_on_soft,
    input_that_the_guest_does_not_take_is_not_read_on_kvm,
    all_input_arrives_in_order
);

/// Linux signal numbers on x86 (signal(7)).
const SIGNALS: [i32; 5] = [1, 2, 3, 14, 15];
const SIGTERM: i32 = 15;
/// Status for `--timeout`, and what the number of a signal is added to (`vpmu --help`).
const TIMEOUT: i32 = 124;
const SIGNALLED: i32 = 128;

/// JMP to itself.
const SPIN: &[u8] = &[0xEB, 0xFE];

/// Where the code of [`on_all`] runs.
const COMMON: u32 = 0x20_0000;

/// A 32-bit guest for 1 MiB whose processors, all of them, run `code` at [`COMMON`].
fn on_all(code: &[u8]) -> Vec<u8> {
    const TRAMPOLINE: u32 = 0x8000;
    // CLI; LDTR-less start in real mode: LGDT CS:[30h]; CR0.PE; JMP 08:COMMON.
    let mut start = vec![
        0xFA, 0x2E, 0x66, 0x0F, 0x01, 0x16, 0x30, 0x00, 0x0F, 0x20, 0xC0, 0x0C, 0x01, 0x0F, 0x22,
        0xC0, 0x66, 0xEA, 0x00, 0x00, 0x20, 0x00, 0x08, 0x00,
    ];
    start.resize(0x30, 0);
    // GDTR: limit 17h, at 8040h; the descriptors: null, flat code, flat data.
    start.extend([0x17, 0x00, 0x40, 0x80, 0x00, 0x00]);
    start.resize(0x48, 0);
    start.extend([0xFF, 0xFF, 0, 0, 0, 0x9B, 0xCF, 0, 0xFF, 0xFF, 0, 0, 0, 0x93, 0xCF, 0]);
    // MOV EAX, 10h; MOV DS, ES and SS from AX; MOV ESP, 400000h.
    let mut common = vec![0xB8, 0x10, 0, 0, 0, 0x8E, 0xD8, 0x8E, 0xC0, 0x8E, 0xD0];
    common.extend([0xBC, 0, 0, 0x40, 0]);
    common.extend(code);
    let word = |value: u32| value.to_le_bytes();
    let guest = |start_at: u32, common_at: u32| {
        // MOV ESI, from; MOV EDI, to; MOV ECX, bytes; REP MOVSB.
        let copy = |from: u32, to: u32, bytes: usize| {
            let head = [&[0xBE][..], &word(from), &[0xBF], &word(to), &[0xB9]].concat();
            [&head[..], &word(bytes as u32), &[0xF3, 0xA4]].concat()
        };
        // MOV dword [FEE00000h + register], value: the local APIC.
        let apic = |register: u32, value: u32| {
            [&[0xC7, 0x05][..], &word(0xFEE0_0000 + register), &word(value)].concat()
        };
        let mut guest = [
            copy(start_at, TRAMPOLINE, start.len()),
            copy(common_at, COMMON, common.len()),
            // Enabled; INIT and a start-up IPI for page 8 to all others.
            apic(0xF0, 0x1FF),
            apic(0x300, 0xC_4500),
            apic(0x300, 0xC_4608),
            // LGDT [8030h].
            [&[0x0F, 0x01, 0x15][..], &word(TRAMPOLINE + 0x30)].concat(),
        ]
        .concat();
        let behind = 0x10_0000 + guest.len() as u32 + 5;
        guest.push(0xE9);
        guest.extend(word(COMMON - behind));
        guest
    };
    let size = guest(0, 0).len() as u32;
    let at = 0x10_0000 + size;
    [guest(at, at + start.len() as u32), start, common].concat()
}

/// MOV DX, 3F8h; MOV AL, 'x'; OUT DX, AL; JMP to OUT.
const PRINT: &[u8] = &[0x66, 0xBA, 0xF8, 0x03, 0xB0, b'x', 0xEE, 0xEB, 0xFD];
/// INC byte [200017h]; MOV AL, imm8, which is at 200017h; JMP to INC.
const PATCH: &[u8] = &[0xFE, 0x05, 0x17, 0x00, 0x20, 0x00, 0xB0, 0x00, 0xEB, 0xF6];
/// FXSAVE [D0000000h], where nothing is; JMP to it: a few microseconds of the host's time each.
const SLOW: &[u8] = &[0x0F, 0xAE, 0x05, 0x00, 0x00, 0x00, 0xD0, 0xEB, 0xF7];
/// STI; HLT; JMP to HLT, for processors that sleep while processor 0 patches code.
const ONE_PATCHES: &[u8] = &[
    0xA1, 0x20, 0x00, 0xE0, 0xFE, // MOV EAX, [FEE00020h]: the APIC's identifier
    0x85, 0xC0, 0x74, 0x04, // TEST EAX, EAX; JZ
    0xFB, 0xF4, 0xEB, 0xFD, // STI; HLT; JMP to HLT
    0xFE, 0x05, 0x24, 0x00, 0x20, 0x00, // INC byte [200024h]
    0xB0, 0x00, 0xEB, 0xF6, // MOV AL, imm8, which is at 200024h; JMP to INC
];

/// A run with its output to a pipe that is not read.
struct Unread {
    child: Child,
    name: String,
    /// The other end of its output.
    _reader: PipeReader,
}

impl Unread {
    fn start(name: &str, code: &[u8], address: u64, options: &[&str]) -> Self {
        let name = format!("unread-{name}-{}", options.join("").replace("--", "-"));
        let mut command = vpmu(&name, code, address, options);
        let (reader, writer) = pipe().expect("a pipe");
        // Input that stays open and has nothing to read.
        command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::piped());
        Self { child: command.spawn().expect("vpmu starts"), name, _reader: reader }
    }

    fn send(&self, signal: i32) {
        let number = format!("-{signal}");
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&number, &id]).status().expect("kill");
        assert!(sent.success(), "{}", self.name);
    }

    /// Waits for its end, which is to come by itself.
    fn ends(self, status: i32, says: &str) {
        let run = wait_for(self.child);
        let (text, code) = said(&run);
        assert_eq!(code, Some(status), "{}: {text}", self.name);
        assert!(text.starts_with(&format!("vpmu: {says}\n")), "{}: {text}", self.name);
    }
}

/// A guest that does nothing, one that computes, one that prints without end, one whose processors
/// patch the code that all of them run, one whose instructions are slow, and one of whose processors
/// sleep while another patches; with one, two and four processors. Their output is not read.
fn the_time_limit_ends_a_run_whose_output_nobody_reads(engine: &str) {
    let guests = [
        ("idle", IDLE),
        ("spin", SPIN),
        ("print", PRINT),
        ("patch", PATCH),
        ("slow", SLOW),
        ("one-patches", ONE_PATCHES),
    ];
    let runs: Vec<_> = guests
        .iter()
        .flat_map(|&(name, code)| ["1", "2", "4"].map(|processors| (name, code, processors)))
        .map(|(name, code, processors)| {
            let options = ["--engine", engine, "--smp", processors, "--timeout", "1"];
            Unread::start(name, &on_all(code), 0x10_0000, &options)
        })
        .collect();
    runs.into_iter().for_each(|run| run.ends(TIMEOUT, "the time limit is reached"));
}

fn the_time_limit_ends_a_run_whose_output_nobody_reads_on_soft() -> Verdict {
    the_time_limit_ends_a_run_whose_output_nobody_reads("soft");
    Ok(())
}

fn the_time_limit_ends_a_run_whose_output_nobody_reads_on_kvm() -> Verdict {
    kvm()?;
    the_time_limit_ends_a_run_whose_output_nobody_reads("kvm");
    Ok(())
}

/// Each of the signals that end a process by default and that people and programs send.
fn signals_end_a_run_whose_output_nobody_reads(engine: &str) {
    for (name, code) in [("idle", IDLE), ("spin", SPIN), ("print", PRINT)] {
        let runs: Vec<_> = SIGNALS
            .iter()
            .map(|signal| {
                let number = signal.to_string();
                let options = ["--engine", engine, "--smp", "2", "--skid", &number];
                (signal, Unread::start(name, &on_all(code), 0x10_0000, &options))
            })
            .collect();
        // Until they are under way, and the pipe is full.
        thread::sleep(Duration::from_millis(700));
        for (signal, run) in &runs {
            run.send(**signal);
        }
        for (signal, run) in runs {
            run.ends(SIGNALLED + signal, &format!("ended by signal {signal}"));
        }
    }
}

fn signals_end_a_run_whose_output_nobody_reads_on_soft() -> Verdict {
    signals_end_a_run_whose_output_nobody_reads("soft");
    Ok(())
}

fn signals_end_a_run_whose_output_nobody_reads_on_kvm() -> Verdict {
    kvm()?;
    signals_end_a_run_whose_output_nobody_reads("kvm");
    Ok(())
}

/// Of what a guest has printed, what could not be written is told; a reader that reads gets all.
fn what_is_lost_is_told() -> Verdict {
    let options = ["--engine", "soft", "--timeout", "1"];
    let unread = Unread::start("told", &on_all(PRINT), 0x10_0000, &options);
    let (text, _) = said(&wait_for(unread.child));
    assert!(text.contains("\nvpmu: standard output is blocked: "), "{text}");
    assert!(text.ends_with(" bytes are lost\n"), "{text}");
    let mut read = vpmu("read", &on_all(PRINT), 0x10_0000, &options);
    let mut child =
        read.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("vpmu starts");
    let mut all = Vec::new();
    child.stdout.take().expect("its output").read_to_end(&mut all).expect("its output");
    let (text, code) = said(&wait_for(child));
    assert_eq!((text.as_str(), code), ("vpmu: the time limit is reached\n", Some(TIMEOUT)));
    assert!(all.len() > 100_000 && all.iter().all(|&byte| byte == b'x'), "{} bytes", all.len());
    Ok(())
}

/// The same for statistics that do not fit into the pipe, in a run that has ended by itself: `knc`
/// with eight processors has some kilobytes of them, and the pipe is full.
fn statistics_that_nobody_reads_do_not_hold_up_the_end() -> Verdict {
    for (options, status, says) in [
        (["--timeout", "2"], TIMEOUT, "every processor is halted for good"),
        (["--skid", "1"], SIGNALLED + SIGTERM, "every processor is halted for good"),
    ] {
        let (reader, mut writer) = pipe().expect("a pipe");
        // A pipe takes 64 KiB (pipe(7)).
        writer.write_all(&[b'-'; 0x1_0000]).expect("a pipe");
        let name = format!("statistics{}", options[0]);
        let all = [&["--engine", "soft", "--stats", "json"][..], &options].concat();
        let mut command = vpmu(&name, HALT, 0x7C00, &all);
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let run = Unread { child: command.spawn().expect("vpmu starts"), name, _reader: reader };
        if status != TIMEOUT {
            thread::sleep(Duration::from_millis(700));
            run.send(SIGTERM);
        }
        run.ends(status, says);
    }
    Ok(())
}

/// Nothing is read from a pipe without a writer, nor written into one without a reader; and
/// neither holds up the end.
fn a_pipe_with_nobody_at_its_other_end_does_not_hold_up_the_end() -> Verdict {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let fifo = folder.join(format!("fifo-{}", std::process::id()));
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    let fifo = fifo.display().to_string();
    let flat = format!("{fifo}@0x7c00");
    let kernel = ["run", "--kernel", &fifo, "--timeout", "1"];
    let raw = ["run", "--flat", &flat, "--timeout", "1"];
    for words in [&kernel, &raw] {
        let run = finish(Command::new(VPMU).args(words));
        assert_eq!(said(&run), ("vpmu: the time limit is reached\n".into(), Some(TIMEOUT)));
    }
    for option in ["--serial", "--input"] {
        let options = ["--engine", "soft", "--timeout", "1", option, &fifo];
        let run = finish(&mut vpmu(&format!("fifo{option}"), IDLE, 0x7C00, &options));
        assert_eq!(said(&run), ("vpmu: the time limit is reached\n".into(), Some(TIMEOUT)));
    }
    let options = ["--engine", "soft", "--timeout", "1", "--stats", "table", "--stats-file", &fifo];
    let run = finish(&mut vpmu("fifo-statistics", SPIN, 0x7C00, &options));
    let (text, code) = said(&run);
    let lost = format!("vpmu: {fifo} is blocked: ");
    assert!(
        text.starts_with("vpmu: the time limit is reached\n") && text.contains(&lost),
        "{text}"
    );
    assert_eq!(code, Some(TIMEOUT));
    std::fs::remove_file(&fifo).expect("the pipe");
    Ok(())
}

/// A guest that spins takes no input. /dev/zero gives gigabytes in two seconds; memory for the
/// program, the guest and what is read ahead is a few megabytes, of which `VmHWM` in
/// `/proc/PID/status` is the most that there has been (proc(5)).
fn input_that_the_guest_does_not_take_is_not_read(engine: &str) {
    let options = ["--engine", engine, "--timeout", "3"];
    let mut command = vpmu(&format!("zeros-{engine}"), SPIN, 0x7C00, &options);
    let zeros = std::fs::File::open("/dev/zero").expect("/dev/zero");
    command.stdin(zeros).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("vpmu starts");
    thread::sleep(Duration::from_secs(2));
    let path = format!("/proc/{}/status", child.id());
    let status = std::fs::read_to_string(path).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words: Vec<_> = line.expect("VmHWM").split_whitespace().collect();
    let kib: u64 = words[0].parse().expect("a number of KiB");
    assert_eq!(wait_for(child).status.code(), Some(TIMEOUT));
    assert!(kib < 64 << 10, "{engine}: {kib} KiB");
}

fn input_that_the_guest_does_not_take_is_not_read_on_soft() -> Verdict {
    input_that_the_guest_does_not_take_is_not_read("soft");
    Ok(())
}

fn input_that_the_guest_does_not_take_is_not_read_on_kvm() -> Verdict {
    kvm()?;
    input_that_the_guest_does_not_take_is_not_read("kvm");
    Ok(())
}

/// The guest says when it is ready and sends back what it receives, until it is an EOT (04h). 150,000 bytes are more than twice
/// what is read ahead.
fn all_input_arrives_in_order() -> Verdict {
    let code = [
        &[0xBA, 0xFA, 0x03, 0xB0, 0x01, 0xEE][..], // MOV DX, 3FAh; MOV AL, 1; OUT: the FIFOs on
        &[0xBA, 0xF8, 0x03, 0xB0, b'>', 0xEE],     // MOV DX, 3F8h; MOV AL, '>'; OUT
        &[0xBA, 0xFD, 0x03, 0xEC, 0xA8, 0x01, 0x74, 0xF8], // MOV DX, 3FDh; IN; TEST AL, 1; JZ
        &[0xBA, 0xF8, 0x03, 0xEC, 0x3C, 0x04, 0x74, 0x03], // MOV DX, 3F8h; IN; CMP AL, 4; JE
        &[0xEE, 0xEB, 0xED],                       // OUT; JMP to MOV DX, 3FDh
        &[0xB0, 0x00, 0xE6, 0xF4],                 // MOV AL, 0; OUT F4h, AL: status 1
    ]
    .concat();
    let sent: Vec<u8> = (0..150_000_u32).map(|n| b'!' + (n / 7 % 90) as u8).collect();
    let mut command = vpmu("echo", &code, 0x7C00, &["--engine", "soft", "--timeout", "50"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("vpmu starts");
    let mut input = child.stdin.take().expect("its input");
    let mut output = child.stdout.take().expect("its output");
    let mut ready = [0];
    output.read_exact(&mut ready).expect("its output");
    let all = [&sent[..], &[4]].concat();
    let writing = thread::spawn(move || input.write_all(&all));
    let mut received = Vec::new();
    output.read_to_end(&mut received).expect("its output");
    let run = wait_for(child);
    assert_eq!(said(&run), (String::new(), Some(1)));
    writing.join().expect("a thread").expect("its input");
    assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
    Ok(())
}
