//! Debian's own gdb on Debian's own kernel.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::gdb_client::{address, assert_in_order, folder, is_there, said, start};
use crate::guest::{Packages, packages};
use crate::harness::{Verdict, tests};

tests!(a_driver_from_its_first_wrmsr_to_the_handler, backwards_to_who_has_written);

/// `vpmu` with these arguments, which waits for gdb at a socket in the folder.
fn vpmu(packages: &Packages, folder: &Path, command: &str, options: &[&str]) -> Child {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
    Command::new(env!("CARGO_BIN_EXE_vpmu"))
        .current_dir(project)
        .args([command, "--timeout", "400", "--kernel"])
        .arg(&packages.kernel)
        .arg("--gdb")
        .arg(address(folder))
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
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
/// the NMI that the counter sends. WRMSR is 0F 30; the driver's functions are those of Linux 6.1
/// (`arch/x86/events`).
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
