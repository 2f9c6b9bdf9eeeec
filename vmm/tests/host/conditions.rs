//! Bad conditions: one line, a status, an end.

use super::*;

tests!(
    no_device,
    another_device,
    no_permission,
    without_a_device_the_software_engine_runs,
    a_processor_that_cannot_be_created,
    a_triple_fault,
    the_time_limit,
    too_much_memory,
    counters_that_the_host_does_not_have,
    the_hypervisor_bit_on_soft,
    the_hypervisor_bit_on_kvm
);

/// Other statuses (`vpmu --help`).
const USAGE: i32 = 2;
const TIMEOUT: i32 = 124;
const TRIPLE_FAULT: i32 = 126;

/// A run that fails before the guest begins.
fn assert_refused(run: &Output, status: i32, text: &str) {
    let (line, code) = said(run);
    assert_eq!(code, Some(status), "{line}");
    assert!(line.starts_with("vpmu: ") && line.contains(text), "{line}");
    assert_eq!(line.find('\n'), Some(line.len() - 1), "not one line: {line}");
    assert!(run.stdout.is_empty(), "{}", String::from_utf8_lossy(&run.stdout));
}

/// Runs `vpmu` where /dev holds nothing but what `make` puts there, or says why that cannot be done.
/// `make` may end in the beginning of a command.
fn with_dev(name: &str, make: &str, options: &[&str]) -> Result<Output, CannotRun> {
    let script = format!("mount -t tmpfs none /dev || exit 99; cd /dev; {make} \"$@\"");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", &script, "sh"]);
    unshare.args(arguments(name, HALT, 0x7C00, options));
    unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = unshare.spawn().map_err(|e| CannotRun::without("unshare", &e.to_string()))?;
    let run = wait_for(child);
    let text = String::from_utf8_lossy(&run.stderr);
    if run.status.code() == Some(99) || ["unshare: ", "mknod: "].iter().any(|s| text.contains(s)) {
        return Err(CannotRun::without("a /dev of its own", &text));
    }
    Ok(run)
}

fn no_device() -> Verdict {
    let run = with_dev("no-device", "", &[])?;
    assert_refused(&run, HOST, "cannot open /dev/kvm: No such file or directory");
    assert_refused(&run, HOST, "kvm_intel or kvm_amd");
    Ok(())
}

/// Character device 1, 3 is /dev/null (Linux, `Documentation/admin-guide/devices.txt`).
fn another_device() -> Verdict {
    let run = with_dev("another-device", "mknod kvm c 1 3;", &[])?;
    assert_refused(&run, HOST, "/dev/kvm is no KVM device");
    Ok(())
}

/// Character device 10, 232 is KVM. Root does without the capabilities that let it open everything.
fn no_permission() -> Verdict {
    let make = "mknod -m 000 kvm c 10 232 && \
                exec setpriv --bounding-set=-dac_override,-dac_read_search";
    let run = with_dev("no-permission", make, &[])?;
    let (text, _) = said(&run);
    if text.contains("setpriv: ") {
        return Err(CannotRun::without("setpriv", &text));
    }
    assert_refused(&run, HOST, "cannot open /dev/kvm: Permission denied");
    assert_refused(&run, HOST, "group");
    Ok(())
}

/// Left the choice, `vpmu` takes the software engine, and the statistics say why.
fn without_a_device_the_software_engine_runs() -> Verdict {
    let options = ["--engine", "auto", "--stats", "table"];
    let run = with_dev("auto", "", &options)?;
    assert_eq!(said(&run), (HALTED.0.into(), Some(HALTED.1)));
    let statistics = String::from_utf8_lossy(&run.stdout);
    let engine = statistics.lines().find(|line| line.starts_with("engine: "));
    let why = "engine: soft (cannot open /dev/kvm: No such file or directory";
    assert!(engine.is_some_and(|line| line.starts_with(why)), "{statistics}");
    Ok(())
}

/// A process that may have few files open fails at one step or another; that of the processors is
/// among them. `prlimit` is part of util-linux, as `unshare` is.
fn a_processor_that_cannot_be_created() -> Verdict {
    kvm()?;
    let mut processors = 0;
    for limit in 6..24 {
        let script = format!("ulimit -n {limit} && exec \"$@\"");
        let words = arguments("few-files", HALT, 0x7C00, &["--smp", "8"]);
        let run = finish(&mut shell(&script, words));
        let (text, code) = said(&run);
        if code == Some(HALTED.1) {
            break;
        }
        if code == Some(127) {
            // The program's own libraries could not be opened.
            continue;
        }
        assert!(matches!(code, Some(4 | HOST)), "{limit} files: {code:?}, {text}");
        assert_refused(&run, code.unwrap_or_default(), "Too many open files");
        processors += i32::from(text.contains("KVM refuses to create processor"));
    }
    assert!(processors > 0);
    Ok(())
}

/// UD2 in protected mode without an interrupt table: #UD, double fault, triple fault.
fn a_triple_fault() -> Verdict {
    kvm()?;
    let run = finish(&mut vpmu("triple-fault", &[0x0F, 0x0B], 0x10_0000, &[]));
    let (text, code) = said(&run);
    assert_eq!(code, Some(TRIPLE_FAULT), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("triple fault"), "{text}");
    Ok(())
}

/// JMP to itself never leaves the guest; OUT 80h, AL and JMP back leave it all the time; both on one
/// processor and with others that wait.
fn the_time_limit() -> Verdict {
    kvm()?;
    for (name, code) in [("spin", &[0xEB, 0xFE][..]), ("exits", &[0xE6, 0x80, 0xEB, 0xFC])] {
        for processors in ["1", "4"] {
            let options = ["--timeout", "1", "--smp", processors];
            let run = finish(&mut vpmu(&format!("{name}-{processors}"), code, 0x7C00, &options));
            assert_eq!(said(&run), ("vpmu: the time limit is reached\n".into(), Some(TIMEOUT)));
        }
    }
    Ok(())
}

/// More than this host has is a wrong command line; more than the process may have, or than there are
/// addresses for, is refused by the host.
fn too_much_memory() -> Verdict {
    kvm()?;
    let run = finish(&mut vpmu("mem-8192T", HALT, 0x7C00, &["--mem", "8192T"]));
    assert_refused(&run, USAGE, "memory size ");
    assert_refused(&run, USAGE, ": this host has ");
    let words = arguments("mem-1G", HALT, 0x7C00, &["--mem", "1G"]);
    let run = finish(&mut shell("ulimit -v 786432 && exec \"$@\"", words));
    assert_refused(&run, HOST, "memory size 1G: the host refuses it: ");
    assert_refused(&run, HOST, "Cannot allocate memory");
    Ok(())
}

/// `--count host` on a host without a PMU is refused at once, with /dev/kvm or without. The kernel
/// shows each PMU that it drives as a folder; that of the processors is `cpu`, or one a kind of core
/// (Linux, `Documentation/ABI/testing/sysfs-bus-event_source-devices`).
fn counters_that_the_host_does_not_have() -> Verdict {
    let devices = std::fs::read_dir("/sys/bus/event_source/devices");
    let devices = devices.map_err(|e| CannotRun::without("the host's PMUs", &e.to_string()))?;
    let names: Vec<_> =
        devices.map(|device| device.expect("a folder").file_name().into_string()).collect();
    let is_cpu = |name: &&str| matches!(*name, "cpu" | "cpu_core" | "cpu_atom");
    if let Some(cpu) = names.iter().flatten().map(String::as_str).find(is_cpu) {
        return Err(CannotRun::because(&format!("this host has a PMU, {cpu}")));
    }
    for engine in ["kvm", "auto"] {
        let options = ["--count", "host", "--engine", engine];
        let run = finish(&mut vpmu(&format!("count-host-{engine}"), HALT, 0x7C00, &options));
        assert_refused(&run, HOST, "vpmu: --count host: this host");
        assert_refused(&run, HOST, "or use --count exact");
    }
    Ok(())
}

/// CPUID function 1, ECX bit 31: zero on processors, one under hypervisors that show themselves.
fn the_hypervisor_bit(engine: &str) -> Verdict {
    // MOV EAX, 1; CPUID; SHR ECX, 31; MOV EAX, ECX; OUT F4h, AL: status 1 or 3.
    let code = [
        &[0x66, 0xB8, 0x01, 0x00, 0x00, 0x00, 0x0F, 0xA2][..],
        &[0x66, 0xC1, 0xE9, 0x1F, 0x66, 0x89, 0xC8, 0xE6, 0xF4],
    ]
    .concat();
    for (shown, status) in [(&[][..], 1), (&["--hypervisor-bit"], 3)] {
        let options = [&["--engine", engine], shown].concat();
        let run = finish(&mut vpmu(&format!("hypervisor-{engine}"), &code, 0x7C00, &options));
        let warnings = String::from_utf8_lossy(&run.stderr);
        let shows_through = |line: &&str| line.contains("CPUID function 1h at CPL 0");
        if let Some(why) = warnings.lines().find(shows_through) {
            return Err(CannotRun::because(why));
        }
        assert_eq!(said(&run), (String::new(), Some(status)));
    }
    Ok(())
}

fn the_hypervisor_bit_on_soft() -> Verdict {
    the_hypervisor_bit("soft")
}

/// Unless this KVM shows the guest another CPUID than it was given.
fn the_hypervisor_bit_on_kvm() -> Verdict {
    kvm()?;
    the_hypervisor_bit("kvm")
}
