//! A host command as a Linux root file system: the command, the libraries it needs, busybox, and
//! an init that runs it and hands its exit status to the machine.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use super::elf::Elf;
use super::error::{BootError, Result};
use super::exit_port;
use super::file::Room;
use super::initramfs::Archive;

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
const BUSYBOX: &str = "/bin/busybox";
const EXIT_PORT: &str = "/sbin/vpmu-exit";
/// An interpreter of an interpreter of a script, and so on: where it ends.
const MAX_INTERPRETERS: usize = 8;

/// Packs `command` with its libraries and busybox (`busybox`, or the one in `PATH`) into an
/// archive whose `/init` runs it with `arguments` on the console. No file of it has more than `most`
/// bytes.
///
/// # Errors
/// If the command, one of its libraries or a static busybox cannot be found or read.
pub fn pack_command(
    command: &str,
    arguments: &[String],
    busybox: Option<&Path>,
    most: u64,
) -> Result<Vec<u8>> {
    let path = find_command(command)
        .ok_or_else(|| BootError::Unsupported(format!("command {command}: not found")))?;
    let mut archive = Archive::new();
    for directory in ["/bin", "/dev", "/etc", "/proc", "/root", "/sbin", "/sys", "/tmp", "/usr/bin"]
    {
        archive.directory(directory);
    }
    archive.character_device("/dev/console", 0o600, 5, 1);
    archive.character_device("/dev/null", 0o666, 1, 3);
    add_busybox(&mut archive, busybox, most)?;
    let guest_path = add_program(&mut archive, &path, most)?;
    archive.file(EXIT_PORT, 0o755, exit_port::executable());
    archive.file("/init", 0o755, init_script(&guest_path, arguments).into_bytes());
    archive.bytes()
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
fn init_script(command: &str, arguments: &[String]) -> String {
    let mut line = quote(command);
    for argument in arguments {
        line.push(' ');
        line.push_str(&quote(argument));
    }
    format!(
        "#!{BUSYBOX} sh\n\
         export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
         export HOME=/root TERM=vt100\n\
         {BUSYBOX} mount -t devtmpfs dev /dev\n\
         {BUSYBOX} mount -t proc proc /proc\n\
         {BUSYBOX} mount -t sysfs sys /sys\n\
         {BUSYBOX} --install -s /bin\n\
         cd /root\n\
         {BUSYBOX} setsid {BUSYBOX} cttyhack {line}\n\
         status=$?\n\
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

    #[test]
    fn arguments_survive_the_shell() {
        let script = init_script("/bin/echo", &["a b".into(), "it's".into(), "$x".into()]);
        assert!(script.contains("cttyhack '/bin/echo' 'a b' 'it'\\''s' '$x'\n"), "{script}");
        assert!(script.starts_with("#!/bin/busybox sh\n"));
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
        let text = pack_command("no-such-command", &[], None, u64::MAX).unwrap_err().to_string();
        assert_eq!(text, "command no-such-command: not found");
        // A dynamic program is no busybox for a system without libraries.
        let text = pack_command("/bin/sh", &[], Some(Path::new("/bin/sh")), u64::MAX)
            .unwrap_err()
            .to_string();
        assert!(text.contains("busybox-static"), "{text}");
    }
}
