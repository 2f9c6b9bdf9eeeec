//! `vpmu exec`: a command of the host in a Linux guest.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use crate::boot::memory::RamLayout;
use crate::boot::pack::{Piped, pack_command};
use crate::boot::{Image, Kernel, LinuxEntry, Payload};
use crate::error::{Error, Result};
use crate::machine::End;

/// Kernel command line: the console.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1";
/// More of it: nothing of the kernel's own on the console.
const SILENT: &str = "quiet loglevel=1";
/// Where `guest-tests/linux/fetch` unpacks packages, from the project's folder.
const FETCHED: &str = "target/guests";

/// What runs, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The kernel; the best one that can be found if none is given.
    pub kernel: Option<&'a Path>,
    /// More for its command line.
    pub append: &'a str,
    /// Whether its messages are shown.
    pub verbose: bool,
    /// The command and its arguments.
    pub command: &'a [String],
    /// Which of its standard streams are pipes.
    pub piped: Piped,
}

/// Which standard streams of the command are pipes: those that are no terminals here. The console is for the
/// others. If it is not on standard input and output (`on_stdio`), all are; if it is `scripted`, what is
/// typed there is standard input.
#[must_use]
pub fn piped(on_stdio: bool, scripted: bool) -> Piped {
    let is_piped = |is_terminal: bool| !on_stdio || !is_terminal;
    Piped {
        input: !scripted && is_piped(io::stdin().is_terminal()),
        output: is_piped(io::stdout().is_terminal()),
        error: is_piped(io::stderr().is_terminal()),
    }
}

/// The payload that runs a command.
///
/// # Errors
/// No kernel, no such command, or a library of it is missing.
pub fn payload(request: &Request<'_>, ram: &RamLayout) -> Result<Payload> {
    let Request { kernel, append, verbose, command, piped } = *request;
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
    let initrd = pack_command(program, arguments, busybox, piped, ram.size())?;
    Ok(Payload::Kernel(Kernel {
        image,
        modules: vec![Image { name: format!("initramfs of {program}"), bytes: initrd }.into()],
        command_line: command_line(append, verbose),
        entry: LinuxEntry::Auto,
    }))
}

/// What the kernel is told.
fn command_line(append: &str, verbose: bool) -> String {
    let silent = if verbose { "" } else { SILENT };
    let parts = [COMMAND_LINE, silent, append];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
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
        let piped = Piped::default();
        let request = Request { kernel: None, append: "", verbose: false, command: &[], piped };
        assert_eq!(payload(&request, &ram).unwrap_err().status(), 2);
    }

    #[test]
    fn the_kernel_is_silent_unless_asked_for() {
        assert_eq!(command_line("", false), "console=ttyS0 panic=-1 quiet loglevel=1");
        assert_eq!(command_line("lpj=1", true), "console=ttyS0 panic=-1 lpj=1");
    }
}
