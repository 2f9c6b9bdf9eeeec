//! Debian's own gdb on Debian's own kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::guest::{Packages, packages};
use crate::harness::{CannotRun, Verdict, tests};

tests!(a_driver_from_its_first_wrmsr_to_the_handler, backwards_to_who_has_written);

/// That gdb is there: of Debian's package `gdb`.
fn gdb_is_there() -> Verdict {
    let version = Command::new("gdb").arg("--version").stdin(Stdio::null()).output();
    match version {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(CannotRun::without("gdb", &String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(CannotRun::without("gdb", &error.to_string())),
    }
}

/// A folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gdb-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// `vpmu` with these arguments, which waits for gdb at a socket in the folder.
fn vpmu(packages: &Packages, folder: &Path, command: &str, options: &[&str]) -> Child {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
    Command::new(env!("CARGO_BIN_EXE_vpmu"))
        .current_dir(project)
        .args([command, "--timeout", "400", "--kernel"])
        .arg(&packages.kernel)
        .arg("--gdb")
        .arg(format!("unix:{}", folder.join("socket").display()))
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("vpmu")
}

/// What gdb says to commands, and the guest's exit status behind them.
fn gdb(folder: &Path, mut vpmu: Child, commands: &str) -> String {
    let (socket, script) = (folder.join("socket"), folder.join("commands"));
    for _ in 0..500 {
        if socket.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let commands = commands.replace("kernel.elf", &folder.join("kernel.elf").display().to_string());
    fs::write(&script, commands).expect("the commands");
    // What `monitor` prints goes to standard error, and is to stay in its place.
    let output = Command::new("sh")
        .args(["-c", "exec gdb \"$@\" 2>&1", "gdb"])
        .args(["-nx", "-batch", "-ex", "set pagination off", "-ex"])
        .arg(format!("target remote {}", socket.display()))
        .arg("-x")
        .arg(&script)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let output = output.expect("gdb");
    let _ = vpmu.kill();
    let _ = vpmu.wait();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn assert_in_order(text: &str, lines: &[&str]) {
    let mut rest = text;
    for line in lines {
        let at = rest
            .find(line)
            .unwrap_or_else(|| panic!("no {line:?} where it is expected in:\n{text}"));
        rest = &rest[at + line.len()..];
    }
}

/// perf samples: from its first write to an event select by way of the driver's function to the handler of
/// the NMI that the counter sends. WRMSR is 0F 30; the driver's functions are those of Linux 6.1
/// (`arch/x86/events`).
fn a_driver_from_its_first_wrmsr_to_the_handler() -> Verdict {
    gdb_is_there()?;
    let packages = packages()?;
    let folder = folder("driver");
    let options =
        ["--isa", "distro", "--", "perf", "record", "-e", "instructions:u", "-c", "10007", "true"];
    let options = [&options[..2], &["--append", "nokaslr"], &options[2..]].concat();
    let commands = "\
monitor break msr C0010004 write
continue
x/2xb $pc-2
monitor break
monitor symbols kernel.elf
symbol-file kernel.elf
monitor delete
break x86_perf_event_set_period
continue
info symbol $pc
delete
monitor break pmi
continue
info symbol $pc
p $cpl
monitor break
monitor delete
hbreak amd_pmu_handle_irq
continue
info symbol $pc
monitor pmu
watch *(long*)&jiffies_64
continue
kill
";
    let text = gdb(&folder, vpmu(packages, &folder, "exec", &options), commands);
    assert_in_order(
        &text,
        &[
            "received signal SIGTRAP",
            "0x0f\t0x30",
            "WRMSR C0010004h = ",
            " symbols\n",
            "Breakpoint 1, ",
            "x86_perf_event_set_period in section .text",
            "received signal SIGTRAP",
            "asm_exc_nmi in section .text",
            "= 0",
            "NMI",
            "Breakpoint 2, ",
            "amd_pmu_handle_irq in section .text",
            "RETIRED_INSTRUCTIONS:u:int",
            "Hardware watchpoint 3: *(long*)&jiffies_64",
            "New value = ",
        ],
    );
    Ok(())
}

/// Forward to a breakpoint, from there back to the last write of what it reads, and forward again to the same
/// place.
fn backwards_to_who_has_written() -> Verdict {
    gdb_is_there()?;
    let packages = packages()?;
    let folder = folder("backwards");
    let serial = folder.join("serial.out");
    let serial = serial.to_str().expect("a path in UTF-8");
    let options = ["--isa", "distro", "--mem", "256M", "--append", "nokaslr", "--serial", serial];
    let commands = "\
monitor break msr C0010000
continue
monitor symbols kernel.elf
symbol-file kernel.elf
monitor delete
break wake_up_new_task
continue
continue
delete
p/x $rsp
p/x *(long*)$rsp
reverse-stepi
x/i $pc
stepi
info symbol $pc
p/x $rsp
watch *(long*)&jiffies_64
reverse-continue
info symbol $pc
delete
break wake_up_new_task
continue
p/x $rsp
kill
";
    let text = gdb(&folder, vpmu(packages, &folder, "run", &options), commands);
    let value = |line: &str| {
        let found = text.lines().find_map(|text| text.strip_prefix(line));
        found.unwrap_or_else(|| panic!("no {line} in:\n{text}")).to_owned()
    };
    assert_in_order(
        &text,
        &["call ", "wake_up_new_task in section .text", "Hardware watchpoint 2", "Breakpoint 3, "],
    );
    assert_eq!(value("$1 = "), value("$3 = "), "{text}");
    assert_eq!(value("$1 = "), value("$4 = "), "{text}");
    Ok(())
}
