//! From files to the first instruction: firmware tables and a payload in guest memory, and the
//! register state in which the boot processor begins.

pub mod acpi;
pub mod elf;
pub mod entry;
mod error;
mod exit_port;
mod file;
pub mod firmware;
mod flat;
mod image;
pub mod initramfs;
pub mod layout;
pub mod linux;
mod marker;
pub mod memory;
pub mod mptable;
mod multiboot;
pub mod pack;
mod relay;
mod static_program;
mod vmlinux;

use crate::platform::Platform;

use entry::Entry;
pub use error::{BootError, Result};
pub use file::Room;
pub use image::Image;
pub use linux::LinuxEntry;
use memory::{GuestRam, RamLayout};

use crate::snapshot::Snapshot;

/// What the guest runs.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A kernel in a format that its content tells: bzImage, ELF or multiboot.
    Kernel(Kernel),
    /// Raw bytes at a physical address.
    Flat {
        /// The bytes.
        image: Image,
        /// Where the first byte goes, and runs.
        address: u64,
    },
    /// Whatever ran when the snapshot was taken.
    Snapshot(Snapshot),
}

impl Payload {
    /// What a user should know of the way in which it starts, in one line.
    #[must_use]
    pub fn announcement(&self) -> Option<String> {
        match self {
            Self::Kernel(kernel) => flat::announcement(kernel),
            Self::Flat { .. } | Self::Snapshot(_) => None,
        }
    }

    /// Whether it is a kernel, or a snapshot of a machine that runs one.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        match self {
            Self::Kernel(_) => true,
            Self::Flat { .. } => false,
            Self::Snapshot(snapshot) => snapshot.identity.runs_a_kernel,
        }
    }
}

/// A kernel and what is handed to it.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The kernel's file.
    pub image: Image,
    /// The initrd, or the multiboot modules.
    pub modules: Vec<Module>,
    /// Command line.
    pub command_line: String,
    /// Which entry point of a bzImage to use.
    pub entry: LinuxEntry,
}

/// A file that a kernel is handed.
#[derive(Clone, Debug)]
pub struct Module {
    /// The file.
    pub image: Image,
    /// Its command line, which only multiboot knows of; else empty.
    pub command_line: String,
}

impl From<Image> for Module {
    fn from(image: Image) -> Self {
        Self { image, command_line: String::new() }
    }
}

/// Writes the firmware tables for `cpus` processors and the payload, and returns the state in
/// which processor 0 starts.
///
/// # Errors
/// If the payload is in no known format, damaged, or does not fit into memory.
pub fn load(
    memory: &GuestRam,
    ram: &RamLayout,
    platform: &Platform,
    cpus: u8,
    payload: &Payload,
) -> Result<Entry> {
    let has_long_mode = platform.features.long_mode;
    write_bios_data(memory)?;
    acpi::write(memory, cpus)?;
    mptable::write(memory, platform, cpus)?;
    match payload {
        Payload::Flat { image, address } => flat::load(memory, ram, image, *address),
        Payload::Kernel(kernel) => match kernel.image.format()? {
            image::Format::BzImage if linux::is_64bit(&kernel.image.bytes) && !has_long_mode => {
                Err(BootError::Unsupported(format!(
                    "{}: a 64-bit kernel, which {} cannot run, by either entry; see --isa distro",
                    kernel.image.name, platform.name
                )))
            }
            image::Format::BzImage => linux::load(memory, ram, kernel),
            image::Format::Elf32 => flat::load_elf(memory, ram, kernel),
            image::Format::Elf64 => vmlinux::load(memory, ram, kernel),
            image::Format::Multiboot => multiboot::load(memory, ram, kernel),
        },
        Payload::Snapshot(_) => {
            Err(BootError::Unsupported("a snapshot is put back, and not booted".into()))
        }
    }
}

/// The three words of the BIOS data area that kernels read without asking a BIOS, and the size
/// byte of the EBDA.
fn write_bios_data(memory: &GuestRam) -> Result<()> {
    let word =
        |address, value: u16| entry::write(memory, address, &value.to_le_bytes(), "BIOS data");
    word(layout::BDA_COM1, layout::COM1_PORT)?;
    word(layout::BDA_EBDA_SEGMENT, (layout::EBDA >> 4) as u16)?;
    word(layout::BDA_MEMORY_KIB, (layout::LOW_RAM_END >> 10) as u16)?;
    entry::write(memory, layout::EBDA, &[1], "EBDA")
}

/// Writes the command line with its NUL to [`layout::COMMAND_LINE`].
fn write_command_line(memory: &GuestRam, text: &str, limit: u64) -> Result<()> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    let limit = limit.min(layout::COMMAND_LINE_SIZE - 1);
    if text.len() as u64 > limit {
        return Err(BootError::DoesNotFit {
            what: "command line".into(),
            size: text.len() as u64,
            place: format!("the {limit} bytes that this kernel takes"),
        });
    }
    if text.contains('\0') {
        return Err(BootError::Unsupported("command line: contains a NUL byte".into()));
    }
    entry::write(memory, layout::COMMAND_LINE, &bytes, "command line")
}

/// Places an initrd on a page boundary as high as possible below `top` and above `bottom`.
fn place_initrd(memory: &GuestRam, initrd: &Module, bottom: u64, top: u64) -> Result<u64> {
    let image = &initrd.image;
    if !initrd.command_line.is_empty() {
        return Err(BootError::Unsupported(format!(
            "{}: only a multiboot kernel takes a module with a command line",
            image.name
        )));
    }
    let size = image.bytes.len() as u64;
    match top.checked_sub(size).map(|start| start & !0xFFF) {
        Some(start) if start >= bottom => {
            entry::write(memory, start, &image.bytes, &format!("initrd {}", image.name))?;
            Ok(start)
        }
        _ => Err(BootError::DoesNotFit {
            what: format!("initrd {}", image.name),
            size,
            place: format!("{}; see --mem", error::between(bottom, top)),
        }),
    }
}
