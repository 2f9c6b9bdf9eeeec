//! The kernel boots to a shell, without a complaint, and powers off.

use crate::guest::{BRIEF, assert_equal, packages, packages_i686, run_with};
use crate::harness::{Verdict, tests};

tests!(
    one_processor_boots_to_a_shell_and_powers_off_twice_the_same,
    two_processors_boot_to_a_shell_and_power_off,
    four_processors_boot_to_a_shell_and_power_off_twice_the_same,
    the_boot_rom_makes_no_difference_to_two_processors,
    the_kernel_for_32_bits_boots_on_a_pentium_pro,
    the_kernel_for_32_bits_boots_on_a_pentium_ii,
    the_kernel_for_32_bits_boots_on_a_pentium_iii,
    the_kernel_for_32_bits_boots_on_a_pentium_m,
    the_kernel_for_32_bits_boots_on_an_athlon,
    complaints_are_told_from_other_lines
);

/// Typed three virtual seconds after power-on, when the shell waits for a command.
const TYPED: &str = r#"3000000 "echo shell-$((6*7)) cpus-$(nproc) watchdog-$(cat /proc/sys/kernel/nmi_watchdog)\n"
4000000 "poweroff -f\n"
"#;

/// Words of a kernel that found something wrong.
pub(crate) fn complaint(line: &str) -> bool {
    let word = |wanted| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == wanted);
    word("BUG")
        || ["WARNING", "Oops", "unchecked MSR", "Uhhuh", "dazed"].iter().any(|w| line.contains(w))
}

fn boots_to_a_shell_and_powers_off(cpus: u8, twice: bool) -> Verdict {
    let packages = packages()?;
    let root = packages.root("exec setsid cttyhack sh");
    let boot = || {
        let options = ["--cpu", "k8", "--append", "console=ttyS0"];
        run_with(packages, &format!("boot-{cpus}"), cpus, &root, TYPED, &options)
    };
    let first = boot();
    for wanted in ["Performance Events: AMD PMU driver.", "reboot: Power down"] {
        assert!(first.log.lines().any(|line| line.ends_with(wanted)), "{wanted}\n{}", first.log);
    }
    // The NMI watchdog, which is on by default, counts cycles and takes NMIs.
    let shell = format!("shell-42 cpus-{cpus} watchdog-1");
    assert!(first.log.lines().any(|line| line == shell), "{shell}\n{}", first.log);
    let complaints: Vec<_> = first.log.lines().filter(|line| complaint(line)).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    if twice {
        // By the same name: the statistics have the options.
        assert_equal(&first, &boot());
    }
    Ok(())
}

fn one_processor_boots_to_a_shell_and_powers_off_twice_the_same() -> Verdict {
    boots_to_a_shell_and_powers_off(1, true)
}

fn two_processors_boot_to_a_shell_and_power_off() -> Verdict {
    boots_to_a_shell_and_powers_off(2, false)
}

fn four_processors_boot_to_a_shell_and_power_off_twice_the_same() -> Verdict {
    boots_to_a_shell_and_powers_off(4, true)
}

/// Behind the boot ROM the kernel says what it says without. Its address, which it would choose by
/// the time, is the same.
fn the_boot_rom_makes_no_difference_to_two_processors() -> Verdict {
    let packages = packages()?;
    let root = packages.root("poweroff -f");
    let [direct, rom] = ["direct", "firmware"].map(|boot| {
        let options = ["--cpu", "k8", "--append", "console=ttyS0 nokaslr", "--boot", boot];
        let log = run_with(packages, &format!("boot-by-{boot}"), 2, &root, "", &options).log;
        let from = log.find("[    0.000000] Linux version").expect("the kernel's first line");
        (log[..from].to_owned(), said(&log[from..]))
    });
    assert_eq!(direct.0, "");
    assert!(rom.0.ends_with("POST: PASS\n"), "{}", rom.0);
    assert_eq!(direct.1, rom.1);
    Ok(())
}

/// What does not depend on the time: the lines of the first 0.15 seconds, without their times, and
/// without what the kernel measures by the PIT, whose next tick may be nearer or farther.
fn said(log: &str) -> Vec<String> {
    let measured = |text: &str| text.contains(" MHz processor") || text.contains("BogoMIPS");
    let lines = log.lines().filter_map(|line| line.split_once("] "));
    let early = lines.take_while(|(time, _)| *time < "[    0.150000");
    early.filter(|(_, text)| !measured(text)).map(|(_, text)| text.into()).collect()
}

/// Debian's kernel for 32-bit processors on what the processor itself has. Left out is what would take most of
/// the boot: that of [`BRIEF`], and the search for ISA cards.
fn boots_32_bits(cpu: &str, processor: &str, driver: &str) -> Verdict {
    let packages = packages_i686()?;
    let shell = "echo shell-$((6*7)) $(uname -m) watchdog-$(cat /proc/sys/kernel/nmi_watchdog)";
    let root = packages.root(&format!("{shell}\npoweroff -f"));
    let append = format!("{BRIEF} noisapnp");
    let options = ["--cpu", cpu, "--append", &append];
    let log = run_with(packages, &format!("boot-i686-{cpu}"), 1, &root, "", &options).log;
    assert!(log.contains(&format!("smpboot: CPU0: {processor} (family: 0x6")), "{log}");
    for wanted in [
        &format!("Performance Events: {driver} PMU driver."),
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "shell-42 i686 watchdog-1",
        "reboot: Power down",
    ] {
        assert!(log.lines().any(|line| line.ends_with(wanted)), "{cpu}: {wanted}\n{log}");
    }
    let complaints: Vec<_> = log.lines().filter(|line| complaint(line)).collect();
    assert!(complaints.is_empty(), "{cpu}: {complaints:#?}");
    Ok(())
}

fn the_kernel_for_32_bits_boots_on_a_pentium_pro() -> Verdict {
    boots_32_bits("ppro", "Intel Pentium Pro", "p6")
}

fn the_kernel_for_32_bits_boots_on_a_pentium_ii() -> Verdict {
    boots_32_bits("pii", "Intel Pentium II (Deschutes)", "p6")
}

fn the_kernel_for_32_bits_boots_on_a_pentium_iii() -> Verdict {
    boots_32_bits("p6", "Intel Pentium III (Coppermine)", "p6")
}

fn the_kernel_for_32_bits_boots_on_a_pentium_m() -> Verdict {
    boots_32_bits("pm", "Intel(R) Pentium(R) M processor 1.60GHz", "p6")
}

fn the_kernel_for_32_bits_boots_on_an_athlon() -> Verdict {
    boots_32_bits("k7", "AMD Athlon(tm) Processor", "AMD")
}

fn complaints_are_told_from_other_lines() -> Verdict {
    assert!(complaint("[    0.1] BUG: unable to handle page fault"));
    assert!(complaint("[    0.1] WARNING: CPU: 0 PID: 1 at arch/x86"));
    assert!(complaint("unchecked MSR access error: RDMSR from 0x1"));
    assert!(!complaint("if necessary, use \"pci=nocrs\" and report a bug, DEBUG"));
    Ok(())
}
