//! The programs in a Linux guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vpmu::boot::initramfs::Archive;
use vpmu::boot::memory::RamLayout;
use vpmu::boot::{self, Kernel, LinuxEntry, Payload};
use vpmu::config::{Config, Limits};
use vpmu::console::Captured;
use vpmu::machine::{End, Machine};
use vpmu::platform::Isa;
use vpmu::truth::record::Recorder;

use super::programs::{IN_LARGE_PAGES, PROGRAMS, program_at};
use crate::Result;

/// Bytes of memory of the guest.
const MEMORY: u64 = 512 << 20;
/// Pages of 2 MiB for the programs, and an end if something goes wrong.
const COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=1 panic=-1 hugepages=16";

/// The kernel and busybox, where `guest-tests/linux/fetch` leaves them.
///
/// # Errors
/// If they cannot be had.
pub(super) fn files() -> Result<(PathBuf, PathBuf)> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(project.join("guest-tests/linux/fetch"))
        .env("GUESTS", project.join("target/guests"))
        .stdin(Stdio::null())
        .output()?;
    let paths = String::from_utf8_lossy(&output.stdout);
    let path = |part: &str| {
        let found = paths.lines().find(|line| line.contains(part));
        let said = String::from_utf8_lossy(&output.stderr);
        found.map(PathBuf::from).ok_or_else(|| format!("guest-tests/linux/fetch: {said}"))
    };
    Ok((path("/vmlinuz-")?, path("/bin/busybox")?))
}

/// What each program did at CPL 3 on the part, by event, in the order of `events`.
///
/// # Errors
/// If the guest does not run, or a program fails in it.
pub(super) fn count(part: &str, elves: &[Vec<u8>], events: &[&str]) -> Result<Vec<Vec<u64>>> {
    let (kernel, busybox) = files()?;
    let mut archive = Archive::new();
    for folder in ["/bin", "/dev"] {
        archive.directory(folder);
    }
    archive.character_device("/dev/console", 0o600, 5, 1);
    archive.file("/bin/busybox", 0o755, fs::read(busybox)?);
    let mut init = String::from("#!/bin/busybox sh\n");
    for (program, elf) in PROGRAMS.iter().zip(elves) {
        archive.file(&format!("/bin/{}", program.name), 0o755, elf.clone());
        init += &format!("/bin/{0}\necho {0} ends with $?\n", program.name);
    }
    init += "/bin/busybox poweroff -f\n";
    archive.file("/init", 0o755, init.into_bytes());
    let ram = RamLayout::new(MEMORY, None)?;
    let payload = Payload::Kernel(Kernel {
        image: boot::Image { name: "kernel".into(), bytes: fs::read(kernel)? },
        modules: vec![boot::Image { name: "initramfs".into(), bytes: archive.bytes()? }.into()],
        command_line: COMMAND_LINE.into(),
        entry: LinuxEntry::Auto,
    });
    let config = Config { isa: Isa::Distro, ..Config::new(part, ram, payload)? };
    let mut machine = Machine::new(&config)?;
    machine.record(Recorder::new(config.personality, &events.join(","))?)?;
    let captured = Captured::default();
    let mut console = captured.console();
    let end = machine.run(Limits { timeout: None, instructions: None }, &mut console)?;
    let text = captured.text();
    if !matches!(end, End::PowerOff) {
        return Err(format!("the guest ended with {end:?}: {text}").into());
    }
    for program in PROGRAMS {
        let expected = format!("{} ends with {IN_LARGE_PAGES}", program.name);
        if !text.contains(&expected) {
            return Err(format!("expected \"{expected}\" in the guest: {text}").into());
        }
    }
    let truth = machine.recorded()?.ok_or("nothing was recorded")?;
    let mut counts = vec![vec![0; events.len()]; PROGRAMS.len()];
    for row in truth.rows.iter().filter(|row| row.cpl == 3) {
        let instruction = &truth.instructions[row.instruction as usize];
        let Some(n) = program_at(instruction.address) else {
            continue;
        };
        counts[n].iter_mut().zip(&row.counts).for_each(|(sum, count)| *sum += count);
    }
    Ok(counts)
}
