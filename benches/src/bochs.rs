//! The same on Bochs, which boots from disks only: a boot sector loads the image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::clock;
use crate::disk::{Disk, Part};
use crate::guest::{self, Workload};
use crate::linux;
use crate::qemu::program;

/// Where Debian's packages `bochsbios` and `vgabios` put the firmware.
const BIOS: &str = "/usr/share/bochs/BIOS-bochs-latest";
const VGA_BIOS: &str = "/usr/share/bochs/VGABIOS-lgpl-latest";
/// Bochs requires a display library: this one is a VNC server, to which no client connects.
const DISPLAY: &str = "rfb, options=\"timeout=0\"";

/// An installed Bochs.
pub(crate) struct Bochs(PathBuf);

pub(crate) fn find() -> Option<Bochs> {
    let bochs = program("bochs-bin").or_else(|| program("bochs")).map(Bochs)?;
    if Path::new(BIOS).is_file() && Path::new(VGA_BIOS).is_file() {
        return Some(bochs);
    }
    eprintln!("benches: no {BIOS} or {VGA_BIOS}: Bochs is left out; see benches/README.md");
    None
}

impl Bochs {
    /// Runs a workload; the time includes Bochs' start and its BIOS.
    pub(crate) fn run(&self, workload: Workload, iterations: u64) -> Result<Duration> {
        let image = guest::assemble(workload, iterations)?;
        let address = u32::try_from(image.load_address)?;
        let disk =
            Disk { parts: vec![Part { address, bytes: image.bytes }], entry: address, argument: 0 };
        self.boot_disk(&disk, 64)
    }

    /// Boots Linux to power-off.
    pub(crate) fn boot(&self, kernel: &Path, initrd: &Path, append: &str) -> Result<Duration> {
        self.boot_disk(
            &linux::disk(&fs::read(kernel)?, &fs::read(initrd)?, append, 0x10_0000)?,
            512,
        )
    }

    fn boot_disk(&self, disk: &Disk, megabytes: u32) -> Result<Duration> {
        let folder = std::env::temp_dir().join(format!("vpmu-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let (bytes, cylinders) = disk.image()?;
        fs::write(folder.join("disk"), bytes)?;
        fs::write(
            folder.join("rc"),
            format!(
                "megs: {megabytes}\n\
                 romimage: file={BIOS}\n\
                 vgaromimage: file={VGA_BIOS}\n\
                 cpu: model=athlon64_clawhammer, count=1, ips=100000000\n\
                 ata0-master: type=disk, path=disk, mode=flat, cylinders={cylinders}, heads=16, spt=63\n\
                 boot: disk\n\
                 display_library: {DISPLAY}\n\
                 com1: enabled=1, mode=file, dev=serial\n\
                 sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy\n\
                 speaker: enabled=0\n\
                 clock: sync=none\n\
                 log: log\n\
                 panic: action=fatal\n"
            ),
        )?;
        // Debian's build stops in its debugger first.
        fs::write(folder.join("debugger"), "continue\nquit\n")?;
        let started = clock::children()?;
        Command::new("timeout")
            .arg("300")
            .arg(&self.0)
            .args(["-q", "-f", "rc", "-rc", "debugger"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        let time = clock::children()?.saturating_sub(started);
        let log = fs::read_to_string(folder.join("log"))?;
        let ended = ["Shutdown port: shutdown requested", "ACPI control: soft power off"]
            .iter()
            .any(|end| log.contains(end));
        if !ended {
            return Err(format!("Bochs failed: see {}", folder.display()).into());
        }
        fs::remove_dir_all(&folder)?;
        Ok(time)
    }
}
