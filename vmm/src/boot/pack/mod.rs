//! A host command as a Linux root file system: the command, the libraries it needs, busybox, and
//! an init that runs it and hands its exit status to the machine.

mod init;
mod program;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use self::init::init_script;
use self::program::{Programs, is_program};
use super::elf::Elf;
use super::error::{BootError, Result};
use super::exit_port;
use super::file::Room;
use super::initramfs::Archive;
use super::marker;
use super::relay;

/// Directories that there always are.
const DIRECTORIES: &[&str] =
    &["/bin", "/dev", "/etc", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/usr/bin"];
const BUSYBOX: &str = "/bin/busybox";
const EXIT_PORT: &str = "/sbin/vpmu-exit";
/// The programs that carry standard input, output and error between the command and the machine.
const RELAYS: [&str; 3] = ["/sbin/vpmu-stdin", "/sbin/vpmu-stdout", "/sbin/vpmu-stderr"];
/// The program that gives its standard input to the machine as a file.
const FILE_RELAY: &str = "/sbin/vpmu-file";
/// The program that asks to be put aside.
const MARKER: &str = "/sbin/vpmu-marker";

/// Which of a command's standard streams are pipes to the machine; the others are the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piped {
    /// Standard input.
    pub input: bool,
    /// Standard output.
    pub output: bool,
    /// Standard error.
    pub error: bool,
}

impl Piped {
    /// The streams by their number.
    fn by_number(self) -> [bool; 3] {
        [self.input, self.output, self.error]
    }
}

/// A driver for the guest's kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Where it goes in the guest.
    pub path: String,
    /// The module's file, not compressed.
    pub bytes: Vec<u8>,
    /// Its parameters, as `insmod` takes them.
    pub parameters: String,
}

/// A command and what it finds in the guest.
#[derive(Clone, Copy, Debug)]
pub struct Packing<'a> {
    /// The command, in the words in which a shell is told.
    pub command: &'a str,
    /// Its arguments.
    pub arguments: &'a [String],
    /// A static busybox; the one in `PATH` if none is given.
    pub busybox: Option<&'a Path>,
    /// The root of unpacked packages, which have the programs and libraries that the host lacks.
    pub packages: Option<&'a Path>,
    /// Which of its standard streams are pipes.
    pub piped: Piped,
    /// Variables of its environment, names and values, beside those that there always are.
    pub environment: &'a [(String, String)],
    /// The guest's folder that it starts in; made if it is not there.
    pub folder: &'a str,
    /// Files and folders of the host that are taken along, and where they go.
    pub added: &'a [(PathBuf, String)],
    /// Files of the host that its arguments name, and where they go unless something is there.
    pub named: &'a [(PathBuf, String)],
    /// Drivers, in the order in which they are loaded.
    pub drivers: &'a [Driver],
    /// Whether programs get at registers: that there is a driver for MSRs is made sure of, and RDPMC is
    /// allowed at CPL 3 if the kernel has a driver for the PMU.
    pub registers: bool,
    /// Absolute paths of the files that the machine is given when the command has ended.
    pub got: &'a [String],
    /// Whether the marker of a snapshot comes right before the command.
    pub marked: bool,
    /// Bytes of the largest file that there is room for.
    pub most: u64,
}

/// Packs a command, the libraries that it needs, busybox and the files that come along into an archive whose
/// `/init` runs it, on the console but for what is piped.
///
/// # Errors
/// If the command, one of its libraries, a static busybox or a file cannot be found or read.
pub fn pack_command(packing: &Packing<'_>) -> Result<Vec<u8>> {
    let Packing { command, busybox, packages, most, .. } = *packing;
    let programs = Programs { packages, most };
    let command_path = programs
        .find(command)
        .ok_or_else(|| BootError::Unsupported(format!("command {command}: not found")))?;
    let mut archive = Archive::new();
    for directory in DIRECTORIES {
        archive.directory(directory);
    }
    archive.directory(packing.folder);
    archive.character_device("/dev/console", 0o600, 5, 1);
    archive.character_device("/dev/null", 0o666, 1, 3);
    let room = Room { option: "--add", most, place: "the guest's memory; see --mem" };
    for (host, guest) in packing.added {
        add(&mut archive, &room, host, guest)?;
        add_needs(&mut archive, &programs, host);
    }
    add_busybox(&mut archive, &programs, busybox)?;
    let guest_path = programs.add(&mut archive, &command_path)?;
    archive.file(EXIT_PORT, 0o755, exit_port::executable());
    let relays = [relay::input, relay::output, relay::error];
    for ((path, program), piped) in RELAYS.iter().zip(relays).zip(packing.piped.by_number()) {
        if piped {
            archive.file(path, 0o755, program()?);
        }
    }
    if !packing.got.is_empty() {
        archive.file(FILE_RELAY, 0o755, relay::file()?);
    }
    if packing.marked {
        archive.file(MARKER, 0o755, marker::executable());
    }
    let place = "the guest's memory; see --mem and --no-arg-files";
    let room = Room { option: "exec", most, place };
    for (host, guest) in packing.named {
        if !archive.contains(guest) {
            add(&mut archive, &room, host, guest)?;
            add_needs(&mut archive, &programs, host);
        }
    }
    for driver in packing.drivers {
        archive.file(&driver.path, 0o644, driver.bytes.clone());
    }
    archive.file("/init", 0o755, init_script(&guest_path, packing).into_bytes());
    archive.bytes()
}

/// Adds a file with its permissions, or a folder with what is in it.
fn add(archive: &mut Archive, room: &Room, host: &Path, guest: &str) -> Result<()> {
    let failed = |source| BootError::Read { path: host.to_path_buf(), source };
    let metadata = fs::metadata(host).map_err(failed)?;
    if metadata.is_dir() {
        return archive.tree(guest, host);
    }
    archive.file(guest, metadata.permissions().mode(), room.read(host)?);
    Ok(())
}

/// Adds the libraries and interpreters of a file that may be a program, so that the command can run it. It
/// may also be one of another system, or only be looked at: what cannot be found is left out.
fn add_needs(archive: &mut Archive, programs: &Programs<'_>, host: &Path) {
    if is_program(host) {
        let mut needs = archive.clone();
        if programs.add_needs(&mut needs, host).is_ok() {
            *archive = needs;
        }
    }
}

fn add_busybox(archive: &mut Archive, programs: &Programs<'_>, given: Option<&Path>) -> Result<()> {
    let missing = || {
        BootError::Unsupported(
            "no static busybox found: name one with --busybox, or run vpmu fetch".into(),
        )
    };
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => programs.find("busybox").ok_or_else(missing)?,
    };
    let bytes = programs.read(&path)?;
    let name = path.display().to_string();
    if Elf::parse(&name, &bytes)?.interpreter().is_some() {
        return Err(missing());
    }
    archive.file(BUSYBOX, 0o755, bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::initramfs::reader;

    /// Nothing but the command.
    pub(super) fn packing<'a>(command: &'a str, arguments: &'a [String]) -> Packing<'a> {
        Packing {
            command,
            arguments,
            busybox: None,
            packages: None,
            piped: Piped::default(),
            environment: &[],
            folder: "/root",
            added: &[],
            named: &[],
            drivers: &[],
            registers: false,
            got: &[],
            marked: false,
            most: u64::MAX,
        }
    }

    /// A file with its permissions, and a folder with what is in it.
    #[test]
    fn files_come_along() {
        let folder = std::env::temp_dir().join(format!("vpmu-added-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), "content").unwrap();
        fs::write(folder.join("other"), "other").unwrap();
        fs::set_permissions(folder.join("other"), fs::Permissions::from_mode(0o640)).unwrap();
        let mut archive = Archive::new();
        let room = Room { option: "--add", most: u64::MAX, place: "here" };
        let all = add(&mut archive, &room, &folder, "/tree");
        let other = add(&mut archive, &room, &folder.join("other"), "/etc/one");
        fs::remove_dir_all(&folder).unwrap();
        all.and(other).unwrap();
        let rows = reader::rows(&archive.bytes().unwrap());
        let row = |name: &str| rows.iter().find(|row| row.0 == name).unwrap().clone();
        assert_eq!(row("tree/inner/file").2, b"content");
        assert_eq!((row("etc/one").1, row("etc/one").2), (0o100_640, b"other".to_vec()));
        let missing = add(&mut archive, &room, &folder, "/tree").unwrap_err();
        assert!(missing.to_string().contains("vpmu-added-"), "{missing}");
    }

    /// `/bin/sh` of the host as an argument: its libraries come along, and it stays where it was put. A
    /// damaged program is a file like any other.
    #[test]
    fn a_program_that_is_an_argument_finds_its_libraries() {
        let programs = Programs { packages: None, most: u64::MAX };
        let mut archive = Archive::new();
        add_needs(&mut archive, &programs, Path::new("/bin/sh"));
        let rows = reader::rows(&archive.bytes().unwrap());
        assert!(rows.iter().any(|r| r.0.ends_with("/libc.so.6") && r.2.starts_with(b"\x7FELF")));
        assert!(!archive.contains("/bin/sh"));
        let damaged = std::env::temp_dir().join(format!("vpmu-damaged-{}", std::process::id()));
        fs::write(&damaged, b"\x7FELF").unwrap();
        fs::set_permissions(&damaged, fs::Permissions::from_mode(0o755)).unwrap();
        let mut archive = Archive::new();
        add_needs(&mut archive, &programs, &damaged);
        fs::remove_file(&damaged).unwrap();
        assert!(reader::rows(&archive.bytes().unwrap()).is_empty());
    }

    #[test]
    fn what_is_missing_is_named() {
        let refusal = |command, busybox| {
            pack_command(&Packing { busybox, ..packing(command, &[]) }).unwrap_err().to_string()
        };
        let text = refusal("no-such-command", None);
        assert_eq!(text, "command no-such-command: not found");
        // A dynamic program is no busybox for a system without libraries.
        let text = refusal("/bin/sh", Some(Path::new("/bin/sh")));
        assert!(text.contains("--busybox"), "{text}");
    }
}
