//! `vpmu exec`: a command of the host in a Linux guest.

use std::path::{Path, PathBuf};

use crate::boot::memory::RamLayout;
use crate::boot::pack::pack_command;
use crate::boot::{Image, Kernel, LinuxEntry, Payload};
use crate::error::{Error, Result};
use crate::machine::End;

/// Kernel command line: the console, and nothing of the kernel's own on it.
const COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=1 panic=-1";
/// Where `guest-tests/linux/fetch` unpacks packages, from the project's folder.
const FETCHED: &str = "target/guests";

/// The payload that runs `command`: the kernel given, or the best one that can be found.
///
/// # Errors
/// No kernel, no such command, or a library of it is missing.
pub fn payload(
    kernel: Option<&Path>,
    append: &str,
    command: &[String],
    ram: &RamLayout,
) -> Result<Payload> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::Usage("no command to run".into()));
    };
    let kernel = match kernel {
        Some(kernel) => kernel.to_path_buf(),
        None => find_kernel()?,
    };
    let image = Image::read_kernel(&kernel, ram)?;
    let busybox = Path::new(FETCHED).join("root/bin/busybox");
    let busybox = Some(busybox.as_path()).filter(|path| path.is_file());
    let initrd = pack_command(program, arguments, busybox, ram.size())?;
    Ok(Payload::Kernel(Kernel {
        image,
        modules: vec![Image { name: format!("initramfs of {program}"), bytes: initrd }.into()],
        command_line: format!("{COMMAND_LINE} {append}").trim_end().into(),
        entry: LinuxEntry::Auto,
    }))
}

/// The status of the command: the guest's init sends it through the debug-exit port, which makes
/// `value * 2 + 1` of it.
#[must_use]
pub fn status(end: End) -> u8 {
    match end {
        End::Exit(value) => (value >> 1) as u8,
        other => other.status(),
    }
}

/// The host's own kernel, or a fetched one.
fn find_kernel() -> Result<PathBuf> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let own = PathBuf::from(format!("/boot/vmlinuz-{}", release.trim()));
    let fetched = newest_kernel(&Path::new(FETCHED).join("root/boot"));
    [Some(own), fetched]
        .into_iter()
        .flatten()
        .find(|path| std::fs::File::open(path).is_ok())
        .ok_or_else(|| {
            Error::Input(
                "no kernel found: name one with --kernel, or run guest-tests/linux/fetch".into(),
            )
        })
}

/// The last `vmlinuz-*` of a folder by name.
fn newest_kernel(folder: &Path) -> Option<PathBuf> {
    let mut kernels: Vec<_> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        })
        .collect();
    kernels.sort();
    kernels.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit status 3 of the command arrives as 3 * 2 + 1.
    #[test]
    fn the_commands_status_is_unwrapped() {
        assert_eq!(status(End::Exit(7)), 3);
        assert_eq!(status(End::Exit(255 * 2 + 1)), 255);
        assert_eq!(status(End::TripleFault(0)), 126);
    }

    #[test]
    fn a_missing_command_is_refused() {
        let ram = RamLayout::new(2 << 20, None).unwrap();
        assert_eq!(payload(None, "", &[], &ram).unwrap_err().status(), 2);
    }
}
