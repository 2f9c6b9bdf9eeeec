//! `vpmu exec`: a command of the host in a Linux guest.

use std::io::{self, IsTerminal};
use std::path::{Component, Path, PathBuf};

use crate::boot::memory::RamLayout;
use crate::boot::pack::{Packing, Piped, pack_command};
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
    /// Variables for it: `NAME=VALUE`, or `NAME` for one of this process.
    pub environment: &'a [String],
    /// The guest's folder that it starts in.
    pub folder: &'a str,
    /// What is taken along: `FILE`, or `FILE:GUESTPATH`.
    pub added: &'a [String],
    /// Whether files that its arguments name are taken along.
    pub takes_argument_files: bool,
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
    let Request { kernel, append, verbose, command, piped, folder, .. } = *request;
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::Usage("no command to run".into()));
    };
    let environment = environment(request.environment)?;
    if !folder.starts_with('/') {
        return Err(Error::Usage(format!("--cwd {folder}: not an absolute path")));
    }
    let added = request.added.iter().map(|text| added(text, folder)).collect::<Result<Vec<_>>>()?;
    let named: Vec<_> = if request.takes_argument_files {
        arguments.iter().filter_map(|argument| named(argument, folder)).collect()
    } else {
        Vec::new()
    };
    let kernel = match kernel {
        Some(kernel) => kernel.to_path_buf(),
        None => find_kernel()?,
    };
    let image = Image::read_kernel(&kernel, ram)?;
    let busybox = Path::new(FETCHED).join("root/bin/busybox");
    let busybox = Some(busybox.as_path()).filter(|path| path.is_file());
    let initrd = pack_command(&Packing {
        command: program,
        arguments,
        busybox,
        piped,
        environment: &environment,
        folder,
        added: &added,
        named: &named,
        most: ram.size(),
    })?;
    Ok(Payload::Kernel(Kernel {
        image,
        modules: vec![Image { name: format!("initramfs of {program}"), bytes: initrd }.into()],
        command_line: command_line(append, verbose),
        entry: LinuxEntry::Auto,
    }))
}

/// Names and values of `--env`. A variable that this process does not have, the command does not have.
fn environment(given: &[String]) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for text in given {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.as_str(), std::env::var(text).ok()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins_well = name.starts_with(|c: char| !c.is_ascii_digit());
        if !begins_well || !name.chars().all(is_name) {
            return Err(Error::Usage(format!("--env {text}: {name:?} is no name of a variable")));
        }
        variables.extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(variables)
}

/// A file or folder of `--add`, and where it goes: to the same absolute path if nothing else is said.
fn added(text: &str, folder: &str) -> Result<(PathBuf, String)> {
    let (host, guest) = match text.rsplit_once(':') {
        Some((host, guest)) if !guest.is_empty() => (Path::new(host), in_folder(folder, guest)),
        _ => (Path::new(text), String::new()),
    };
    let failed = |e| Error::Input(format!("--add {text}: {e}"));
    host.metadata().map_err(failed)?;
    if !guest.is_empty() {
        return Ok((host.into(), guest));
    }
    let absolute = std::path::absolute(host).map_err(failed)?;
    Ok((host.into(), in_folder("/", &absolute.to_string_lossy())))
}

/// The regular file that an argument names, and where the command, which has the same argument, looks for it.
/// What the guest has of its own is not taken.
fn named(argument: &str, folder: &str) -> Option<(PathBuf, String)> {
    let path = Path::new(argument);
    let guest = in_folder(folder, argument);
    let own = ["/dev/", "/proc/", "/sys/"].iter().any(|own| guest.starts_with(own));
    (!own && path.is_file()).then(|| (path.into(), guest))
}

/// The absolute path of `path`, which begins in `folder`, without `.` and `..`.
fn in_folder(folder: &str, path: &str) -> String {
    let mut absolute = PathBuf::from("/");
    for component in Path::new(folder).join(path).components() {
        match component {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir => _ = absolute.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    absolute.to_string_lossy().into_owned()
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
        let request = Request {
            kernel: None,
            append: "",
            verbose: false,
            command: &[],
            environment: &[],
            folder: "/root",
            added: &[],
            takes_argument_files: true,
            piped: Piped::default(),
        };
        assert_eq!(payload(&request, &ram).unwrap_err().status(), 2);
    }

    #[test]
    fn variables_are_named_as_a_shell_names_them() {
        let given = ["A=b=c", "_1=", "NO_SUCH_VARIABLE_HERE"].map(String::from);
        let expected = [("A", "b=c"), ("_1", "")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(environment(&given).unwrap(), expected);
        for text in ["=a", "1A=b", "A B=c", "", "A;reboot=1"] {
            assert_eq!(environment(&[text.to_owned()]).unwrap_err().status(), 2, "{text:?}");
        }
    }

    #[test]
    fn where_a_path_is_in_the_guest() {
        for (path, absolute) in [
            ("/etc/x", "/etc/x"),
            ("a/b", "/root/a/b"),
            ("./a/../b", "/root/b"),
            ("../../../c", "/c"),
        ] {
            assert_eq!(in_folder("/root", path), absolute);
        }
    }

    /// A file of the host, and none: an option, a folder, what the guest has itself.
    #[test]
    fn an_argument_may_name_a_file() {
        let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        assert_eq!(named(&own, "/root"), Some((own.clone().into(), own.clone())));
        for argument in ["-l", "/etc", "/proc/self/status", "/no/such/file"] {
            assert_eq!(named(argument, "/root"), None, "{argument}");
        }
        let (_, guest) = added(&format!("{own}:there"), "/tmp").unwrap();
        assert_eq!(guest, "/tmp/there");
        assert_eq!(added(&own, "/tmp").unwrap().1, own);
        assert_eq!(added("/no/such/file", "/tmp").unwrap_err().status(), 4);
    }

    #[test]
    fn the_kernel_is_silent_unless_asked_for() {
        assert_eq!(command_line("", false), "console=ttyS0 panic=-1 quiet loglevel=1");
        assert_eq!(command_line("lpj=1", true), "console=ttyS0 panic=-1 lpj=1");
    }
}
