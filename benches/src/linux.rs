//! Boot of Debian's cloud kernel with a busybox initramfs, to power-off.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iced_x86::code_asm::{CodeAssembler, eax, ecx, edx, esi};
use vpmu::boot::{Image, Kernel, LinuxEntry, Payload};
use vpmu::machine::End;
use vpmu::platform::Isa;
use vpmu::program;

use crate::disk::{Disk, Part};
use crate::machine::{self, Setup};
use crate::qemu::{self, Qemu};
use crate::{Result, bochs, soft};

/// The kernel's command line.
pub(crate) const APPEND: &str = "console=ttyS0 panic=-1";
/// What `guest-tests/linux/fetch` caches its files in.
const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/guests");
/// That of a boot of which a counter counts: the kernel's own watchdog would take the counter.
const APPEND_COUNTED: &str = "console=ttyS0 panic=-1 nmi_watchdog=0";
/// Bytes of memory.
const RAM: u64 = 512 << 20;
/// Init of the initramfs.
const INIT: &str = "#!/bin/busybox sh\n/bin/busybox poweroff -f\n";

/// A kernel of Debian's with its busybox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// For 64-bit processors.
    Cloud,
    /// For 32-bit processors that have CMOV.
    I686,
}

impl Flavour {
    /// Where `fetch` unpacks it.
    fn root(self) -> PathBuf {
        Path::new(GUESTS).join(match self {
            Self::Cloud => "root",
            Self::I686 => "i686/root",
        })
    }

    /// What gets it.
    fn command(self) -> &'static str {
        match self {
            Self::Cloud => "guest-tests/linux/fetch",
            Self::I686 => "guest-tests/linux/fetch --i686",
        }
    }
}

/// What Linux is booted from.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
}

impl Files {
    /// The kernel where `fetch` left it, and an initramfs written into `folder`.
    pub(crate) fn find(flavour: Flavour, folder: &Path) -> Result<Self> {
        let root = flavour.root();
        let missing = |what| format!("no {what}: run {} first", flavour.command());
        let kernel = first_in(&root.join("boot"), "vmlinuz-").ok_or_else(|| missing("kernel"))?;
        let busybox = ["bin/busybox", "usr/bin/busybox"]
            .map(|path| root.join(path))
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| missing("busybox"))?;
        let initrd = folder.join(format!("vpmu-bench-{}.cpio", std::process::id()));
        fs::write(&initrd, initramfs(&fs::read(busybox)?))?;
        Ok(Self { kernel, initrd })
    }
}

pub(crate) fn boot() -> Result<()> {
    let Files { kernel, initrd } = Files::find(Flavour::Cloud, &std::env::temp_dir())?;
    println!("| boot to power-off | s | million instructions | MIPS |");
    println!("|---|---|---|---|");
    let payload = Payload::Kernel(Kernel {
        image: Image { name: "kernel".into(), bytes: fs::read(&kernel)? },
        modules: vec![Image { name: "initrd".into(), bytes: fs::read(&initrd)? }.into()],
        command_line: APPEND.into(),
        entry: LinuxEntry::default(),
    });
    let (run, end) = soft::time_of(Setup::soft("k8", RAM), payload, false)?;
    if end != End::PowerOff {
        return Err(format!("Linux ended with {end:?}").into());
    }
    println!(
        "| vpmu | {:.1} | {} | {:.0} |",
        run.time.as_secs_f64(),
        run.instructions / 1_000_000,
        crate::mips(run.instructions, run.time)
    );
    if let Some(qemu) = qemu::find() {
        let time = qemu.boot(None, &kernel, &initrd, APPEND)?;
        println!("| QEMU TCG | {:.1} | | |", time.as_secs_f64());
    }
    if let Some(bochs) = bochs::find() {
        let time = bochs.boot(&kernel, &initrd, APPEND)?;
        println!("| Bochs | {:.1} | | |", time.as_secs_f64());
    }
    fs::remove_file(initrd)?;
    Ok(())
}

/// A boot of which the models see every instruction.
pub(crate) struct Modelled {
    pub(crate) cpu: &'static str,
    /// What the kernel wants beside the processor's own instructions.
    pub(crate) isa: Isa,
    pub(crate) flavour: Flavour,
    /// Registers, and what is written to them before the kernel begins, so that a modelled event is counted.
    pub(crate) registers: &'static [(u32, u64)],
    /// QEMU's name of a processor like this one.
    pub(crate) peer: &'static str,
}

impl Modelled {
    /// Boots it: what it took.
    pub(crate) fn boot(&self) -> Result<soft::Run> {
        let setup = Setup { isa: self.isa, ..Setup::soft(self.cpu, RAM) };
        let (run, end) = soft::time_of(setup, machine::flat(self.image()?), false)?;
        match end {
            End::PowerOff => Ok(run),
            end => Err(format!("Linux on {} ended with {end:?}", self.cpu).into()),
        }
    }

    /// The same on QEMU.
    pub(crate) fn boot_peer(&self, qemu: &Qemu) -> Result<Duration> {
        let Files { kernel, initrd } = Files::find(self.flavour, &std::env::temp_dir())?;
        let time = qemu.boot(Some(self.peer), &kernel, &initrd, APPEND_COUNTED)?;
        fs::remove_file(initrd)?;
        Ok(time)
    }

    /// Writes what it boots to a file, and with which arguments `vpmu run` boots it.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let image = self.image()?;
        let file = folder.join(format!("{}-boot", self.cpu));
        fs::write(&file, &image.bytes)?;
        let (cpu, address) = (self.cpu, image.load_address);
        let isa = match self.isa {
            Isa::Strict => "strict",
            Isa::Distro => "distro",
        };
        println!("--cpu={cpu} --isa={isa} --mem=512M --flat={}@{address:#x}", file.display());
        Ok(())
    }

    /// What the disk of [`disk`] has, as one image, behind a stub that writes the registers.
    fn image(&self) -> Result<program::Image> {
        const STUB: u32 = 0x10_0000;
        const KERNEL: u32 = 0x20_0000;
        let Files { kernel, initrd } = Files::find(self.flavour, &std::env::temp_dir())?;
        let Disk { parts, entry, argument } =
            disk(&fs::read(kernel)?, &fs::read(&initrd)?, APPEND_COUNTED, KERNEL)?;
        fs::remove_file(initrd)?;
        let mut a = CodeAssembler::new(32)?;
        for &(register, value) in self.registers {
            a.mov(ecx, register)?;
            a.mov(eax, value as u32)?;
            a.mov(edx, (value >> 32) as u32)?;
            a.wrmsr()?;
        }
        a.mov(esi, argument)?;
        a.mov(eax, entry)?;
        a.jmp(eax)?;
        let mut bytes = a.assemble(STUB.into())?;
        for part in parts {
            let start = (part.address - STUB) as usize;
            let end = start + part.bytes.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(&part.bytes);
        }
        Ok(program::Image { bytes, load_address: STUB.into(), symbols: Vec::new() })
    }
}

fn first_in(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).collect();
    names.sort();
    names.into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    })
}

/// A disk that boots a bzImage by its 32-bit entry (Linux x86 boot protocol), with 512 MiB of RAM. Its
/// 32-bit code goes to `address`.
pub(crate) fn disk(kernel: &[u8], initrd: &[u8], append: &str, address: u32) -> Result<Disk> {
    const INITRD: u32 = 0x0700_0000;
    /// boot_params, the command line 4 KiB behind.
    const PARAMETERS: u32 = 0x0600_0000;
    /// Offset of the set-up header in both the file and boot_params.
    const HEADER: usize = 0x1F1;
    /// (start, length) of RAM, as Bochs' BIOS leaves it.
    const RANGES: [(u64, u64); 2] = [(0, 0x9_F000), (0x10_0000, 0x1FE0_0000)];
    let header_end = 0x202 + usize::from(*kernel.get(0x201).ok_or("the kernel is truncated")?);
    let header = kernel.get(HEADER..header_end).ok_or("the kernel is truncated")?;
    let set_up_sectors = usize::from(header[0]).max(1);
    let code = kernel.get((set_up_sectors + 1) * 512..).ok_or("the kernel is truncated")?;
    let mut parameters = vec![0; 0x1000];
    parameters[HEADER..header_end].copy_from_slice(header);
    let mut put = |offset: usize, bytes: &[u8]| {
        parameters[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    put(0x210, &[0xFF]); // type_of_loader: undefined
    put(0x218, &INITRD.to_le_bytes());
    put(0x21C, &u32::try_from(initrd.len())?.to_le_bytes());
    put(0x228, &(PARAMETERS + 0x1000).to_le_bytes());
    put(0x1E8, &[RANGES.len() as u8]);
    for (n, (start, length)) in RANGES.into_iter().enumerate() {
        put(0x2D0 + 20 * n, &start.to_le_bytes());
        put(0x2D0 + 20 * n + 8, &length.to_le_bytes());
        put(0x2D0 + 20 * n + 16, &1u32.to_le_bytes());
    }
    parameters.extend(append.bytes());
    parameters.push(0);
    Ok(Disk {
        parts: vec![
            Part { address, bytes: code.to_vec() },
            Part { address: PARAMETERS, bytes: parameters },
            Part { address: INITRD, bytes: initrd.to_vec() },
        ],
        entry: address,
        argument: PARAMETERS,
    })
}

/// A "newc" archive with busybox, its init and the console's device node.
fn initramfs(busybox: &[u8]) -> Vec<u8> {
    const DIRECTORY: u32 = 0o040_755;
    const FILE: u32 = 0o100_755;
    const CHARACTER: u32 = 0o020_600;
    let mut archive = Vec::new();
    let entries = [
        ("bin", DIRECTORY, (0, 0), &[][..]),
        ("dev", DIRECTORY, (0, 0), &[]),
        ("dev/console", CHARACTER, (5, 1), &[]),
        ("bin/busybox", FILE, (0, 0), busybox),
        ("init", FILE, (0, 0), INIT.as_bytes()),
        ("TRAILER!!!", 0, (0, 0), &[]),
    ];
    for (inode, (name, mode, (major, minor), content)) in (1u32..).zip(entries) {
        let fields = [
            inode,
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            content.len() as u32,
            0, // device of the file
            0,
            major,
            minor,
            name.len() as u32 + 1,
            0, // no checksum
        ];
        archive.extend(b"070701");
        for field in fields {
            archive.extend(format!("{field:08X}").bytes());
        }
        archive.extend(name.bytes());
        archive.push(0);
        pad(&mut archive);
        archive.extend(content);
        pad(&mut archive);
    }
    archive
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}
