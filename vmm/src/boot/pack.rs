//! A host command as a Linux root file system: the command, the libraries it needs, busybox, and
//! an init that runs it and hands its exit status to the machine.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::elf::Elf;
use super::error::{BootError, Result};
use super::exit_port;
use super::file::Room;
use super::initramfs::Archive;
use super::relay;

/// Where the dynamic loader looks without a cache, in its order, on the layouts of the common
/// distributions.
const LIBRARY_DIRECTORIES: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Directories that there always are.
const DIRECTORIES: &[&str] =
    &["/bin", "/dev", "/etc", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/usr/bin"];
const BUSYBOX: &str = "/bin/busybox";
const EXIT_PORT: &str = "/sbin/vpmu-exit";
/// The programs that carry standard input, output and error between the command and the machine.
const RELAYS: [&str; 3] = ["/sbin/vpmu-stdin", "/sbin/vpmu-stdout", "/sbin/vpmu-stderr"];
/// The FIFOs between them and the command.
const FIFOS: [&str; 3] = ["/run/vpmu-0", "/run/vpmu-1", "/run/vpmu-2"];
/// An interpreter of an interpreter of a script, and so on: where it ends.
const MAX_INTERPRETERS: usize = 8;

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

/// A command and what it finds in the guest.
#[derive(Clone, Copy, Debug)]
pub struct Packing<'a> {
    /// The command, in the words in which a shell is told.
    pub command: &'a str,
    /// Its arguments.
    pub arguments: &'a [String],
    /// A static busybox; the one in `PATH` if none is given.
    pub busybox: Option<&'a Path>,
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
    /// Bytes of the largest file that there is room for.
    pub most: u64,
}

/// Packs a command, the libraries that it needs, busybox and the files that come along into an archive whose
/// `/init` runs it, on the console but for what is piped.
///
/// # Errors
/// If the command, one of its libraries, a static busybox or a file cannot be found or read.
pub fn pack_command(packing: &Packing<'_>) -> Result<Vec<u8>> {
    let Packing { command, busybox, most, .. } = *packing;
    let path = find_command(command)
        .ok_or_else(|| BootError::Unsupported(format!("command {command}: not found")))?;
    let mut archive = Archive::new();
    for directory in DIRECTORIES {
        archive.directory(directory);
    }
    archive.directory(packing.folder);
    archive.character_device("/dev/console", 0o600, 5, 1);
    archive.character_device("/dev/null", 0o666, 1, 3);
    for (host, guest) in packing.added {
        add(&mut archive, "--add", host, guest, most)?;
    }
    add_busybox(&mut archive, busybox, most)?;
    let guest_path = add_program(&mut archive, &path, most)?;
    archive.file(EXIT_PORT, 0o755, exit_port::executable());
    let relays = [relay::input, relay::output, relay::error];
    for ((path, program), piped) in RELAYS.iter().zip(relays).zip(packing.piped.by_number()) {
        if piped {
            archive.file(path, 0o755, program()?);
        }
    }
    for (host, guest) in packing.named {
        if !archive.contains(guest) {
            add(&mut archive, "exec", host, guest, most)?;
        }
    }
    archive.file("/init", 0o755, init_script(&guest_path, packing).into_bytes());
    archive.bytes()
}

/// Adds a file with its permissions, or a folder with what is in it. `option` asked for it.
fn add(
    archive: &mut Archive,
    option: &'static str,
    host: &Path,
    guest: &str,
    most: u64,
) -> Result<()> {
    let failed = |source| BootError::Read { path: host.to_path_buf(), source };
    let metadata = fs::metadata(host).map_err(failed)?;
    if metadata.is_dir() {
        return archive.tree(guest, host);
    }
    let bytes = Room { option, most, place: "the guest's memory; see --mem" }.read(host)?;
    archive.file(guest, metadata.permissions().mode(), bytes);
    Ok(())
}

/// The file that a shell would run for `command`, absolute.
fn find_command(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return std::path::absolute(command).ok().filter(|p| p.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|d| d.join(command)).find(|p| p.is_file())
}

fn add_busybox(archive: &mut Archive, given: Option<&Path>, most: u64) -> Result<()> {
    let missing = || {
        BootError::Unsupported(
            "no static busybox found: install the package busybox-static or name one".into(),
        )
    };
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => find_command("busybox").ok_or_else(missing)?,
    };
    let bytes = read(&path, most)?;
    let name = path.display().to_string();
    if Elf::parse(&name, &bytes)?.interpreter().is_some() {
        return Err(missing());
    }
    archive.file(BUSYBOX, 0o755, bytes);
    Ok(())
}

/// Adds a program and all it needs; returns its path in the guest.
fn add_program(archive: &mut Archive, program: &Path, most: u64) -> Result<String> {
    let guest = guest_path(program);
    let mut program = program.to_path_buf();
    for _ in 0..MAX_INTERPRETERS {
        let bytes = read(&program, most)?;
        let next = script_interpreter(&bytes);
        if next.is_none() {
            add_libraries(archive, &program, &bytes, most)?;
        }
        archive.file(&guest_path(&program), 0o755, bytes);
        match next {
            None => return Ok(guest),
            Some((interpreter, argument)) => {
                let mut wanted = interpreter.clone();
                // `#!/usr/bin/env NAME`: both are needed.
                if interpreter.ends_with("/env") {
                    let env = read(Path::new(&interpreter), most)?;
                    add_libraries(archive, Path::new(&interpreter), &env, most)?;
                    archive.file(&interpreter, 0o755, env);
                    wanted = argument;
                }
                let missing = || {
                    BootError::Unsupported(format!(
                        "{}: its interpreter {wanted} is not found",
                        program.display()
                    ))
                };
                program = find_command(&wanted).ok_or_else(missing)?;
            }
        }
    }
    Err(BootError::Unsupported(format!("{guest}: too many interpreters")))
}

/// Interpreter and first argument of a `#!` line.
fn script_interpreter(bytes: &[u8]) -> Option<(String, String)> {
    let line = bytes.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next().unwrap_or_default()))
}

/// Adds the program interpreter and the libraries that an ELF needs, and what those need.
fn add_libraries(archive: &mut Archive, program: &Path, bytes: &[u8], most: u64) -> Result<()> {
    let name = program.display().to_string();
    let elf = Elf::parse(&name, bytes)?;
    let Some(interpreter) = elf.interpreter() else {
        return Ok(());
    };
    archive.file(&interpreter, 0o755, read(Path::new(&interpreter), most)?);
    let own = directories(program, &elf.dynamic().search);
    let mut wanted: VecDeque<(String, Vec<PathBuf>)> =
        elf.dynamic().needed.into_iter().map(|n| (n, own.clone())).collect();
    while let Some((library, search)) = wanted.pop_front() {
        let path = find_library(&library, &search).ok_or_else(|| {
            BootError::Unsupported(format!("{name}: library {library} not found"))
        })?;
        let guest = guest_path(&path);
        if archive.contains(&guest) {
            continue;
        }
        let bytes = read(&path, most)?;
        let dynamic = Elf::parse(&guest, &bytes)?.dynamic();
        // DT_RPATH of the program serves its libraries too; their own comes first.
        let mut search = directories(&path, &dynamic.search);
        search.extend(own.iter().cloned());
        wanted.extend(dynamic.needed.into_iter().map(|n| (n, search.clone())));
        archive.file(&guest, 0o755, bytes);
    }
    Ok(())
}

/// Search directories with `$ORIGIN` replaced by the directory of the file that names them.
fn directories(of: &Path, search: &[String]) -> Vec<PathBuf> {
    let origin = fs::canonicalize(of).ok().and_then(|p| p.parent().map(Path::to_path_buf));
    let origin = origin.unwrap_or_default().display().to_string();
    search
        .iter()
        .map(|d| PathBuf::from(d.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin)))
        .collect()
}

fn find_library(name: &str, search: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|p| p.is_file());
    }
    let standard = LIBRARY_DIRECTORIES.iter().map(PathBuf::from);
    search.iter().cloned().chain(standard).map(|d| d.join(name)).find(|p| p.is_file())
}

fn guest_path(path: &Path) -> String {
    path.display().to_string()
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    Room { option: "exec", most, place: "the guest's memory; see --mem" }.read(path)
}

/// The guest's first process. The status goes to the machine's exit port; should that fail, a line
/// on the console says it, and the machine powers off.
///
/// A stream that is piped is a FIFO, whose other end a relay has. What the command has written is out before
/// its status is: the relays of its output end when nobody can write to them any more, as the reader of a
/// pipe does.
fn init_script(command: &str, packing: &Packing<'_>) -> String {
    let Packing { arguments, piped, .. } = *packing;
    let words = std::iter::once(command).chain(arguments.iter().map(String::as_str));
    let line = words.map(quote).collect::<Vec<_>>().join(" ");
    let variables = packing.environment.iter();
    let variables: String =
        variables.map(|(name, value)| format!("export {name}={}\n", quote(value))).collect();
    let folder = quote(packing.folder);
    let (mut relays, mut redirections, mut waits) = (String::new(), String::new(), String::new());
    for (number, piped) in piped.by_number().into_iter().enumerate() {
        if !piped {
            continue;
        }
        let (fifo, relay) = (FIFOS[number], RELAYS[number]);
        relays += &format!("{BUSYBOX} mkfifo {fifo}\n");
        if number == 0 {
            relays += &format!("{relay} >{fifo} &\n");
            redirections += &format!(" <{fifo}");
        } else {
            relays += &format!("{relay} <{fifo} &\nrelay{number}=$!\n");
            redirections += &format!(" {number}>{fifo}");
            waits += &format!("wait $relay{number}\n");
        }
    }
    // cttyhack opens the console as all three streams: what takes its place is opened after that.
    let command = if redirections.is_empty() {
        line
    } else {
        format!("{BUSYBOX} sh -c 'exec \"$0\" \"$@\"{redirections}' {line}")
    };
    format!(
        "#!{BUSYBOX} sh\n\
         export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
         export HOME=/root TERM=vt100\n\
         {BUSYBOX} mount -t devtmpfs dev /dev\n\
         {BUSYBOX} mount -t proc proc /proc\n\
         {BUSYBOX} mount -t sysfs sys /sys\n\
         {BUSYBOX} --install -s /bin\n\
         {relays}\
         {variables}\
         cd {folder}\n\
         {BUSYBOX} setsid {BUSYBOX} cttyhack {command}\n\
         status=$?\n\
         {waits}\
         {EXIT_PORT} $status\n\
         echo \"vpmu: exit status $status\"\n\
         {BUSYBOX} poweroff -f\n"
    )
}

/// One word of a shell command.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::initramfs::reader;

    fn packing<'a>(command: &'a str, arguments: &'a [String]) -> Packing<'a> {
        let (busybox, piped, environment) = (None, Piped::default(), &[][..]);
        let (folder, added, named, most) = ("/root", &[][..], &[][..], u64::MAX);
        Packing { command, arguments, busybox, piped, environment, folder, added, named, most }
    }

    /// Names and values as the host has them, whatever a shell would make of them, and the folder.
    #[test]
    fn environment_and_folder_are_set() {
        let environment = [("A".into(), "it's $x".into()), ("B".into(), String::new())];
        let given = Packing { environment: &environment, folder: "/a b", ..packing("true", &[]) };
        let script = init_script("/bin/true", &given);
        let lines = "\nexport A='it'\\''s $x'\nexport B=''\ncd '/a b'\n";
        assert!(script.contains(lines), "{script}");
    }

    /// A file with its permissions, and a folder with what is in it; what an argument names does not take
    /// the place of what is there.
    #[test]
    fn files_come_along() {
        let folder = std::env::temp_dir().join(format!("vpmu-added-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), "content").unwrap();
        fs::write(folder.join("other"), "other").unwrap();
        fs::set_permissions(folder.join("other"), fs::Permissions::from_mode(0o640)).unwrap();
        let mut archive = Archive::new();
        let all = add(&mut archive, "--add", &folder, "/tree", u64::MAX);
        let other = add(&mut archive, "--add", &folder.join("other"), "/etc/one", u64::MAX);
        fs::remove_dir_all(&folder).unwrap();
        all.and(other).unwrap();
        let rows = reader::rows(&archive.bytes().unwrap());
        let row = |name: &str| rows.iter().find(|row| row.0 == name).unwrap().clone();
        assert_eq!(row("tree/inner/file").2, b"content");
        assert_eq!((row("etc/one").1, row("etc/one").2), (0o100_640, b"other".to_vec()));
        let missing = add(&mut archive, "--add", &folder, "/tree", u64::MAX).unwrap_err();
        assert!(missing.to_string().contains("vpmu-added-"), "{missing}");
    }

    #[test]
    fn arguments_survive_the_shell() {
        let arguments = ["a b".into(), "it's".into(), "$x".into()];
        let script = init_script("/bin/echo", &packing("echo", &arguments));
        assert!(script.contains("cttyhack '/bin/echo' 'a b' 'it'\\''s' '$x'\n"), "{script}");
        assert!(script.starts_with("#!/bin/busybox sh\n"));
    }

    /// Standard input and error through FIFOs, standard output the console's: the redirections are within
    /// what `cttyhack` runs.
    #[test]
    fn piped_streams_are_redirected() {
        let piped = Piped { input: true, output: false, error: true };
        let arguments = ["a".into(), "b c".into()];
        let given = Packing { piped, ..packing("tr", &arguments) };
        let script = init_script("/bin/tr", &given);
        let line = "cttyhack /bin/busybox sh -c 'exec \"$0\" \"$@\" </run/vpmu-0 2>/run/vpmu-2' \
                    '/bin/tr' 'a' 'b c'\nstatus=$?\nwait $relay2\n/sbin/vpmu-exit $status\n";
        assert!(script.contains(line), "{script}");
        assert!(script.contains("\n/sbin/vpmu-stdin >/run/vpmu-0 &\n"), "{script}");
        assert!(!script.contains("vpmu-stdout"), "{script}");
    }

    /// `/bin/sh` of the host: the program, its interpreter and its C library at their own paths.
    #[test]
    fn a_dynamic_command_comes_with_its_libraries() {
        let mut archive = Archive::new();
        let guest = add_program(&mut archive, Path::new("/bin/sh"), u64::MAX).unwrap();
        assert_eq!(guest, "/bin/sh");
        let rows = reader::rows(&archive.bytes().unwrap());
        assert!(rows.iter().any(|r| r.0.ends_with("/libc.so.6") && r.2.starts_with(b"\x7FELF")));
        assert!(rows.iter().any(|r| r.0.contains("ld-linux")));
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        assert_eq!(
            script_interpreter(b"#! /usr/bin/env sh -x\necho"),
            Some(("/usr/bin/env".into(), "sh".into()))
        );
        assert_eq!(script_interpreter(b"\x7FELF"), None);
        let script = std::env::temp_dir().join(format!("vpmu-script-{}", std::process::id()));
        fs::write(&script, "#!/usr/bin/env sh\ntrue\n").unwrap();
        let mut archive = Archive::new();
        let packed = add_program(&mut archive, &script, u64::MAX);
        fs::remove_file(&script).unwrap();
        packed.unwrap();
        assert!(archive.contains("/usr/bin/env"));
        assert!(archive.contains(&guest_path(&find_command("sh").unwrap())));
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
        assert!(text.contains("busybox-static"), "{text}");
    }
}
