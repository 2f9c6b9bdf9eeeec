//! The same on QEMU with TCG, one thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::clock;
use crate::guest::{self, Workload};
use vpmu::program::Image;

/// Where in an image the multiboot header goes: between the entry stub and the page tables.
const HEADER: usize = 0x800;
const MAGIC: u32 = 0x1BAD_B002;
/// The header holds the addresses to load to.
const ADDRESSES: u32 = 1 << 16;

/// An installed QEMU.
pub(crate) struct Qemu {
    program: PathBuf,
    /// Its cache plugin, and the caches that it models.
    plugin: Option<(String, FirstLevel)>,
}

/// One first-level cache of the plugin's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cache {
    pub(crate) bytes: u32,
    pub(crate) ways: u32,
    pub(crate) line: u32,
}

/// The two caches that the plugin models.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstLevel {
    pub(crate) code: Cache,
    pub(crate) data: Cache,
}

/// The program `name` in the search path.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("benches: {name} is not installed and left out; see benches/README.md");
    }
    found
}

pub(crate) fn find() -> Option<Qemu> {
    program("qemu-system-x86_64").map(|program| Qemu { program, plugin: None })
}

/// QEMU with its own cache plugin: these two caches, and nothing else. `benches/qemu-cache-plugin` gets and
/// builds the plugin.
pub(crate) fn with_cache_plugin(caches: FirstLevel) -> Option<Qemu> {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/qemu-cache-plugin");
    let qemu = find()?;
    let built = Command::new(SCRIPT).stderr(Stdio::inherit()).output().ok();
    let path = built
        .filter(|built| built.status.success())
        .and_then(|built| String::from_utf8(built.stdout).ok()?.lines().last().map(str::to_owned));
    let Some(path) = path else {
        eprintln!("benches: QEMU's cache plugin is not there: THE PEER IS LEFT OUT of every row");
        return None;
    };
    Some(Qemu { plugin: Some((path, caches)), ..qemu })
}

impl Qemu {
    /// The same with other caches in its plugin.
    pub(crate) fn with_caches(&self, caches: FirstLevel) -> Qemu {
        let plugin = self.plugin.as_ref().map(|(path, _)| (path.clone(), caches));
        Qemu { program: self.program.clone(), plugin }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some((path, FirstLevel { code, data })) = &self.plugin {
            command.arg("-plugin").arg(format!(
                "{path},icachesize={},iassoc={},iblksize={},dcachesize={},dassoc={},dblksize={}",
                code.bytes, code.ways, code.line, data.bytes, data.ways, data.line
            ));
        }
        command.args(["-accel", "tcg,thread=single", "-nographic", "-no-reboot", "-nic", "none"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a workload; the time includes QEMU's start.
    pub(crate) fn run(&self, workload: Workload, iterations: u64) -> Result<Duration> {
        self.run_image(guest::assemble(workload, iterations)?)
    }

    /// Runs an image to where it ends the machine; the time includes QEMU's start.
    pub(crate) fn run_image(&self, image: Image) -> Result<Duration> {
        let mut bytes = image.bytes;
        let load = u32::try_from(image.load_address)?;
        let header = [
            MAGIC,
            ADDRESSES,
            MAGIC.wrapping_add(ADDRESSES).wrapping_neg(),
            load + HEADER as u32,
            load,
            0, // all of the file
            0, // no BSS
            load,
        ];
        let header: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes
            .get_mut(HEADER..HEADER + header.len())
            .filter(|room| room.iter().all(|&byte| byte == 0))
            .ok_or("no room for a multiboot header")?
            .copy_from_slice(&header);
        let path = std::env::temp_dir().join(format!("vpmu-bench-{}.bin", std::process::id()));
        fs::write(&path, bytes)?;
        let mut command = self.command();
        command.args(["-m", "64", "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-kernel"]);
        let started = clock::children()?;
        let status = command.arg(&path).status();
        let time = clock::children()?.saturating_sub(started);
        fs::remove_file(&path)?;
        // Code 0 at the port is status 1.
        if status?.code() == Some(1) { Ok(time) } else { Err("QEMU failed".into()) }
    }

    /// Boots Linux to power-off, on a processor of this name or on the one that it has by default.
    pub(crate) fn boot(
        &self,
        cpu: Option<&str>,
        kernel: &Path,
        initrd: &Path,
        append: &str,
    ) -> Result<Duration> {
        let mut command = self.command();
        if let Some(cpu) = cpu {
            command.args(["-cpu", cpu]);
        }
        command.args(["-m", "512", "-kernel"]).arg(kernel).arg("-initrd").arg(initrd);
        command.args(["-append", append]);
        let started = clock::children()?;
        let status = command.status()?;
        if status.success() {
            Ok(clock::children()?.saturating_sub(started))
        } else {
            Err("QEMU failed".into())
        }
    }
}
