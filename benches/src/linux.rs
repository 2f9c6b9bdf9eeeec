//! Boot of Debian's cloud kernel with a busybox initramfs, to power-off.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iced_x86::code_asm::{CodeAssembler, eax, ecx, edx, esi};
use vpmu::boot::{Image, Kernel, LinuxEntry, Payload};
use vpmu::machine::End;
use vpmu::program;

use crate::disk::{Disk, Part};
use crate::guest::{COUNT, MODELLED_EVENT};
use crate::qemu::{self, Qemu};
use crate::{Result, bochs, machine, soft};

/// The kernel's command line.
pub(crate) const APPEND: &str = "console=ttyS0 panic=-1";
/// What `guest-tests/linux/fetch` caches its files in.
const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/guests");
/// Init of the initramfs.
const INIT: &str = "#!/bin/busybox sh\n/bin/busybox poweroff -f\n";

/// What Linux is booted from.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
}

impl Files {
    /// The kernel where `fetch` left it, and an initramfs written into `folder`.
    pub(crate) fn find(folder: &Path) -> Result<Self> {
        let root = Path::new(GUESTS).join("root");
        let kernel = first_in(&root.join("boot"), "vmlinuz-")
            .ok_or("no kernel: run guest-tests/linux/fetch first")?;
        let busybox = ["bin/busybox", "usr/bin/busybox"]
            .map(|path| root.join(path))
            .into_iter()
            .find(|path| path.is_file())
            .ok_or("no busybox: run guest-tests/linux/fetch first")?;
        let initrd = folder.join(format!("vpmu-bench-{}.cpio", std::process::id()));
        fs::write(&initrd, initramfs(&fs::read(busybox)?))?;
        Ok(Self { kernel, initrd })
    }
}

pub(crate) fn boot() -> Result<()> {
    let Files { kernel, initrd } = Files::find(&std::env::temp_dir())?;
    println!("| boot to power-off | s | million instructions | MIPS |");
    println!("|---|---|---|---|");
    let payload = Payload::Kernel(Kernel {
        image: Image { name: "kernel".into(), bytes: fs::read(&kernel)? },
        modules: vec![Image { name: "initrd".into(), bytes: fs::read(&initrd)? }.into()],
        command_line: APPEND.into(),
        entry: LinuxEntry::default(),
    });
    let (run, end) = soft::time(payload, 512 << 20)?;
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
        let time = qemu.boot(&kernel, &initrd, APPEND)?;
        println!("| QEMU TCG | {:.1} | | |", time.as_secs_f64());
    }
    if let Some(bochs) = bochs::find() {
        let time = bochs.boot(&kernel, &initrd, APPEND)?;
        println!("| Bochs | {:.1} | | |", time.as_secs_f64());
    }
    fs::remove_file(initrd)?;
    Ok(())
}

/// The same with a counter of a modelled event enabled before the kernel begins, on a K8, and on QEMU with
/// its cache plugin.
pub(crate) fn boot_modelled(qemu: Option<&Qemu>) -> Result<()> {
    let Files { kernel, initrd } = Files::find(&std::env::temp_dir())?;
    println!("| boot to power-off | s | million instructions | MIPS |");
    println!("|---|---|---|---|");
    let image = counted_image(&fs::read(&kernel)?, &fs::read(&initrd)?)?;
    let (run, end) = soft::time(machine::flat(image), 512 << 20)?;
    if end != End::PowerOff {
        return Err(format!("Linux ended with {end:?}").into());
    }
    let row = |name: &str, time: Duration| {
        let speed = crate::mips(run.instructions, time);
        let millions = run.instructions / 1_000_000;
        println!("| {name} | {:.1} | {millions} | {speed:.0} |", time.as_secs_f64());
    };
    row("vpmu, k8", run.time);
    if let Some(qemu) = qemu {
        // It executes about as many instructions.
        row("QEMU and cache plugin", qemu.boot(&kernel, &initrd, APPEND)?);
    }
    fs::remove_file(initrd)?;
    Ok(())
}

/// Writes what [`boot_modelled`] boots to a file, and with which arguments `vpmu run` boots it.
pub(crate) fn write_image(folder: &Path) -> Result<()> {
    let Files { kernel, initrd } = Files::find(&std::env::temp_dir())?;
    let image = counted_image(&fs::read(&kernel)?, &fs::read(&initrd)?)?;
    fs::remove_file(initrd)?;
    let file = folder.join("k8-boot");
    fs::write(&file, &image.bytes)?;
    println!("--cpu=k8 --mem=512M --flat={}@{:#x}", file.display(), image.load_address);
    Ok(())
}

/// What the disk of [`disk`] has, as one image, behind a stub that has PerfCtr3 count misses of the data
/// cache.
fn counted_image(kernel: &[u8], initrd: &[u8]) -> Result<program::Image> {
    const STUB: u32 = 0x10_0000;
    const KERNEL: u32 = 0x20_0000;
    const PERF_EVT_SEL_3: u32 = 0xC001_0003;
    let Disk { parts, entry, argument } = disk(kernel, initrd, APPEND, KERNEL)?;
    let mut a = CodeAssembler::new(32)?;
    a.mov(ecx, PERF_EVT_SEL_3)?;
    a.mov(eax, (MODELLED_EVENT | COUNT) as u32)?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
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
    const RAM: [(u64, u64); 2] = [(0, 0x9_F000), (0x10_0000, 0x1FE0_0000)];
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
    put(0x1E8, &[RAM.len() as u8]);
    for (n, (start, length)) in RAM.into_iter().enumerate() {
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
