//! What runs on the machine: the options of `vpmu run` and `vpmu stat`.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};

use super::machine::MachineArgs;
use super::snapshot::SnapshotArgs;
use crate::boot::memory::RamLayout;
use crate::boot::{Image, Kernel, LinuxEntry, Module, Payload, Room};
use crate::error::{Error, Result};
use crate::machine::End;
use crate::{config, demo};

#[derive(Args)]
#[command(group(ArgGroup::new("payload").required(true).args(["kernel", "flat", "demo", "load"])))]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// Kernel: a bzImage, an ELF, or a multiboot image.
    #[arg(long, value_name = "FILE")]
    pub(super) kernel: Option<PathBuf>,
    /// Initial RAM disk of the kernel, or a multiboot module.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["flat", "demo"])]
    pub(super) initrd: Vec<PathBuf>,
    /// Multiboot module: a file and, behind a blank, its command line.
    #[arg(long, value_name = "FILE[ ARGUMENTS]", conflicts_with_all = ["initrd", "flat", "demo"])]
    pub(super) module: Vec<String>,
    /// Kernel command line.
    #[arg(long, value_name = "STR", default_value = "", conflicts_with_all = ["flat", "demo"])]
    pub(super) append: String,
    /// Entry point of a bzImage.
    #[arg(long, value_enum, default_value = "auto", conflicts_with_all = ["flat", "demo"])]
    pub(super) entry: EntryPoint,
    /// Raw bytes at a physical address; below 1 MiB they start in real mode, else in 32-bit
    /// protected mode.
    #[arg(long, value_name = "FILE@ADDR")]
    pub(super) flat: Option<String>,
    /// A guest that is built in; `list` lists them.
    #[arg(long, value_name = "NAME")]
    pub(super) demo: Option<String>,
    #[command(flatten)]
    pub(super) snapshot: SnapshotArgs,
    /// Exit with the value that the guest writes to the debug-exit port itself, and not value * 2 + 1.
    #[arg(long)]
    pub(super) exit_raw: bool,
}

impl RunArgs {
    /// The exit status for an end.
    pub(super) fn status(&self) -> fn(End) -> u8 {
        if self.exit_raw { End::status_as_reported } else { End::status }
    }
}

#[derive(Args)]
pub(super) struct StatArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// What is counted, as `--truth-events` takes it.
    #[arg(short, long, value_name = "LIST")]
    pub(super) events: Option<String>,
    /// Compute what users of the processor compute from its events, and count these.
    #[arg(long)]
    pub(super) metrics: bool,
    /// Show each processor besides all of them.
    #[arg(long)]
    pub(super) per_cpu: bool,
    /// As JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum EntryPoint {
    /// The 64-bit one if there is one.
    Auto,
    /// 32-bit protected mode.
    #[value(name = "32")]
    Bits32,
    /// Long mode.
    #[value(name = "64")]
    Bits64,
}

pub(super) fn payload(args: &RunArgs, ram: &RamLayout) -> Result<Payload> {
    if let Some(flat) = &args.flat {
        return config::flat(flat, ram);
    }
    if let Some(name) = &args.demo {
        return demo_payload(name, &args.machine.cpu);
    }
    let kernel = args.kernel.as_ref().ok_or_else(|| Error::Usage("nothing to run".into()))?;
    Ok(Payload::Kernel(Kernel {
        image: Image::read_kernel(kernel, ram)?,
        modules: modules(args, ram)?,
        command_line: args.append.clone(),
        entry: match args.entry {
            EntryPoint::Auto => LinuxEntry::Auto,
            EntryPoint::Bits32 => LinuxEntry::Bits32,
            EntryPoint::Bits64 => LinuxEntry::Bits64,
        },
    }))
}

/// What the kernel is handed.
fn modules(args: &RunArgs, ram: &RamLayout) -> Result<Vec<Module>> {
    let [initrd, module] = ["--initrd", "--module"].map(|option| Room::memory(option, ram));
    let whole = args.initrd.iter().map(|path| Ok(Image::read(path, &initrd)?.into()));
    let with_command_lines = args.module.iter().map(|text| {
        let (path, command_line) = text.split_once(' ').unwrap_or((text, ""));
        let image = Image::read(Path::new(path), &module)?;
        Ok(Module { image, command_line: command_line.into() })
    });
    whole.chain(with_command_lines).collect()
}

/// A guest that is built in.
fn demo_payload(name: &str, cpu: &str) -> Result<Payload> {
    let demo = demo::find(name).ok_or_else(|| {
        let known: Vec<_> = demo::ALL.iter().map(|demo| demo.name).collect();
        Error::Usage(format!("unknown demo {name:?}; known: {}", known.join(", ")))
    })?;
    let part = demo::Part::by_name(cpu)
        .ok_or_else(|| Error::Usage(format!("demo {name} does not know CPU {cpu:?}")))?;
    let image =
        (demo.build)(part).map_err(|e| Error::Host(format!("demo {name}: {e}")).because(e))?;
    Ok(Payload::Flat {
        image: Image { name: format!("demo {name}"), bytes: image.bytes },
        address: image.load_address,
    })
}
