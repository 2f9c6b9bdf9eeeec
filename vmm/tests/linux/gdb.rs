//! Debian's own gdb on Debian's own kernel.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::gdb_client::{address, assert_in_order, folder, is_there, said, start};
use crate::guest::{Packages, packages};
use crate::harness::{Verdict, tests};

tests!(
    a_driver_from_its_first_wrmsr_to_the_handler,
    backwards_to_who_has_written,
    backwards_to_before_a_command_has_read,
);

/// `vpmu` with these arguments, which waits for gdb at a socket in the folder.
fn vpmu(packages: &Packages, folder: &Path, command: &str, options: &[&str]) -> Child {
    with_streams(packages, folder, command, options, [Stdio::null(), Stdio::null()])
}

/// The same with input and output.
fn with_streams(
    packages: &Packages,
    folder: &Path,
    command: &str,
    options: &[&str],
    [input, output]: [Stdio; 2],
) -> Child {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
    Command::new(env!("CARGO_BIN_EXE_vpmu"))
        .current_dir(project)
        .args([command, "--timeout", "400", "--kernel"])
        .arg(&packages.kernel)
        .arg("--gdb")
        .arg(address(folder))
        .args(options)
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .expect("vpmu")
}

/// What gdb says to commands.
fn gdb(folder: &Path, mut vpmu: Child, commands: &str) -> String {
    let commands = commands.replace("kernel.elf", &folder.join("kernel.elf").display().to_string());
    let text = said(start(folder, &commands));
    let _ = vpmu.kill();
    let _ = vpmu.wait();
    text
}

/// perf samples: from its first write to an event select by way of the driver's function to the handler of
/// the NMI that the counter sends, and back to where that counter was set. WRMSR is 0F 30; the driver's functions
/// are those of Linux 6.1 (`arch/x86/events`).
fn a_driver_from_its_first_wrmsr_to_the_handler() -> Verdict {
    is_there()?;
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
delete
monitor break msr C0010005 write
reverse-continue
info symbol $pc
monitor break
monitor delete
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
            "received signal SIGTRAP",
            "native_write_msr + ",
            // 2^48 - 10007.
            "WRMSR C0010005h = FFFFFFFFD8E9h",
            "Hardware watchpoint 3: *(long*)&jiffies_64",
            "New value = ",
        ],
    );
    Ok(())
}

/// Forward to a breakpoint, from there back to the last write of what it reads, and forward again to the same
/// place.
fn backwards_to_who_has_written() -> Verdict {
    is_there()?;
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

/// A command reads and writes, and is about to be over: back to where the kernel last began a program, which is before
/// that, and forward to the end. It reads the same, and what it writes comes once. Functions are those of Linux:
/// `ksys_ioperm` (`arch/x86/kernel/ioport.c`), by which each program of `exec` asks for its ports, the last one for that
/// of the end, behind those of three streams; `begin_new_exec` (`fs/exec.c`).
fn backwards_to_before_a_command_has_read() -> Verdict {
    is_there()?;
    let packages = packages()?;
    let folder = folder("command");
    let [input, output] = ["input", "output"].map(|name| folder.join(name));
    fs::write(&input, "here and there\n").expect("the input");
    let streams =
        [File::open(&input), File::create(&output)].map(|file| file.expect("a file").into());
    let options = ["--append", "nokaslr", "--", "tr", "a-z", "A-Z"];
    let commands = "\
monitor break msr C0010000
continue
monitor symbols kernel.elf
symbol-file kernel.elf
monitor delete
break ksys_ioperm
continue
continue
continue
continue
shell cat FOLDER/output
delete
break begin_new_exec
reverse-continue
info symbol $pc
delete
continue
";
    let commands = commands.replace("FOLDER", &folder.display().to_string());
    let vpmu = with_streams(packages, &folder, "exec", &options, streams);
    let text = gdb(&folder, vpmu, &commands);
    assert_in_order(
        &text,
        &[
            "Breakpoint 1, ",
            "HERE AND THERE\n",
            "Breakpoint 2, ",
            "begin_new_exec in section .text",
            "exited normally",
        ],
    );
    assert_eq!(fs::read_to_string(output).expect("the output"), "HERE AND THERE\n");
    Ok(())
}
