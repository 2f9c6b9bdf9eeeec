//! Programs and what they need to run: interpreters and shared libraries.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::boot::elf::Elf;
use crate::boot::error::{BootError, Result};
use crate::boot::file::Room;
use crate::boot::initramfs::Archive;

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
/// Where packages have programs.
const PROGRAM_DIRECTORIES: &[&str] = &["usr/sbin", "usr/bin", "sbin", "bin"];
/// An interpreter of an interpreter of a script, and so on: where it ends.
const MAX_INTERPRETERS: usize = 8;

/// Where programs and their libraries come from: the host, and what it lacks from unpacked packages.
#[derive(Clone, Copy)]
pub(super) struct Programs<'a> {
    /// The root of the packages.
    pub(super) packages: Option<&'a Path>,
    /// Bytes of the largest file that there is room for.
    pub(super) most: u64,
}

impl Programs<'_> {
    /// The file that a shell would run for `command`, absolute; or that of the packages.
    pub(super) fn find(&self, command: &str) -> Option<PathBuf> {
        let packages = self.packages;
        if command.contains('/') {
            let here = std::path::absolute(command).ok();
            let there = packages.map(|root| root.join(command.trim_start_matches('/')));
            let there = there.filter(|_| command.starts_with('/'));
            return here.into_iter().chain(there).find(|path| path.is_file());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let there = packages.into_iter().flat_map(|root| {
            PROGRAM_DIRECTORIES.iter().map(move |directory| root.join(directory).join(command))
        });
        let here = std::env::split_paths(&path).map(|directory| directory.join(command));
        here.chain(there).find(|path| path.is_file())
    }

    /// Adds a program and all it needs; returns its path in the guest.
    pub(super) fn add(&self, archive: &mut Archive, program: &Path) -> Result<String> {
        let guest = self.guest_path(program);
        archive.file(&guest, 0o755, self.read(program)?);
        self.add_needs(archive, program)?;
        Ok(guest)
    }

    /// Adds what a program needs to run.
    pub(super) fn add_needs(&self, archive: &mut Archive, program: &Path) -> Result<()> {
        let mut program = program.to_path_buf();
        for _ in 0..MAX_INTERPRETERS {
            let bytes = self.read(&program)?;
            let Some((interpreter, argument)) = script_interpreter(&bytes) else {
                return self.add_libraries(archive, &program, &bytes);
            };
            let missing = |wanted: &str| {
                let program = program.display();
                BootError::Unsupported(format!("{program}: its interpreter {wanted} is not found"))
            };
            let mut next = self.find(&interpreter).ok_or_else(|| missing(&interpreter))?;
            // `#!/usr/bin/env NAME`: both are needed.
            if interpreter.ends_with("/env") {
                let env = self.read(&next)?;
                self.add_libraries(archive, &next, &env)?;
                archive.file(&interpreter, 0o755, env);
                next = self.find(&argument).ok_or_else(|| missing(&argument))?;
            }
            archive.file(&self.guest_path(&next), 0o755, self.read(&next)?);
            program = next;
        }
        Err(BootError::Unsupported(format!("{}: too many interpreters", program.display())))
    }

    /// Adds the program interpreter and the libraries that an ELF needs, and what those need.
    fn add_libraries(&self, archive: &mut Archive, program: &Path, bytes: &[u8]) -> Result<()> {
        let name = program.display().to_string();
        let elf = Elf::parse(&name, bytes)?;
        let Some(interpreter) = elf.interpreter() else {
            return Ok(());
        };
        let missing = |what: String| BootError::Unsupported(format!("{name}: {what} is not found"));
        let loader = self.find_loader(&interpreter);
        let loader = loader.ok_or_else(|| missing(format!("interpreter {interpreter}")))?;
        archive.file(&interpreter, 0o755, self.read(&loader)?);
        let own = directories(program, &elf.dynamic().search);
        let mut wanted: VecDeque<(String, Vec<PathBuf>)> =
            elf.dynamic().needed.into_iter().map(|n| (n, own.clone())).collect();
        while let Some((library, search)) = wanted.pop_front() {
            let path = self.find_library(&library, &search);
            let path = path.ok_or_else(|| missing(format!("library {library}")))?;
            let guest = self.guest_path(&path);
            if archive.contains(&guest) {
                continue;
            }
            let bytes = self.read(&path)?;
            let dynamic = Elf::parse(&guest, &bytes)?.dynamic();
            // DT_RPATH of the program serves its libraries too; their own comes first.
            let mut search = directories(&path, &dynamic.search);
            search.extend(own.iter().cloned());
            wanted.extend(dynamic.needed.into_iter().map(|n| (n, search.clone())));
            archive.file(&guest, 0o755, bytes);
        }
        Ok(())
    }

    /// The dynamic loader, which packages may have in `/usr` for hosts where `/lib64` is a link to there.
    fn find_loader(&self, interpreter: &str) -> Option<PathBuf> {
        self.find(interpreter).or_else(|| self.find(&format!("/usr{interpreter}")))
    }

    fn find_library(&self, name: &str, search: &[PathBuf]) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        let here = LIBRARY_DIRECTORIES.iter().map(PathBuf::from);
        let there = self.packages.into_iter().flat_map(|root| {
            let of_root = |directory: &&str| root.join(directory.trim_start_matches('/'));
            LIBRARY_DIRECTORIES.iter().map(of_root)
        });
        let all = search.iter().cloned().chain(here).chain(there);
        all.map(|directory| directory.join(name)).find(|path| path.is_file())
    }

    /// Where a file goes: to the same path, or to that within its package.
    fn guest_path(&self, path: &Path) -> String {
        let within = self.packages.and_then(|root| path.strip_prefix(root).ok());
        match within {
            Some(within) => format!("/{}", within.display()),
            None => path.display().to_string(),
        }
    }

    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let place = "the guest's memory; see --mem";
        Room { option: "exec", most: self.most, place }.read(path)
    }
}

/// Whether a file of the host can be executed and looks like a program.
pub(super) fn is_program(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    let executable = metadata.is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
    let mut beginning = [0; 4];
    let read = executable
        .then(|| File::open(path).and_then(|mut file| file.read(&mut beginning)))
        .is_some_and(|read| read.is_ok());
    read && (&beginning == b"\x7FELF" || beginning.starts_with(b"#!"))
}

/// Interpreter and first argument of a `#!` line.
fn script_interpreter(bytes: &[u8]) -> Option<(String, String)> {
    let line = bytes.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next().unwrap_or_default()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::initramfs::reader;

    const HOST: Programs<'static> = Programs { packages: None, most: u64::MAX };

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("vpmu-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// `/bin/sh` of the host: the program, its interpreter and its C library at their own paths.
    #[test]
    fn a_dynamic_command_comes_with_its_libraries() {
        let mut archive = Archive::new();
        assert_eq!(HOST.add(&mut archive, Path::new("/bin/sh")).unwrap(), "/bin/sh");
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
        let folder = folder("script");
        let script = folder.join("script");
        fs::write(&script, "#!/usr/bin/env sh\ntrue\n").unwrap();
        assert!(!is_program(&script));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_program(&script));
        let mut archive = Archive::new();
        let packed = HOST.add(&mut archive, &script);
        fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let refused = HOST.add(&mut archive, &script).unwrap_err().to_string();
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        let endless = HOST.add(&mut archive, &script).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        packed.unwrap();
        assert!(archive.contains("/usr/bin/env"));
        assert!(archive.contains(HOST.find("sh").unwrap().to_str().unwrap()));
        assert!(
            refused.ends_with("its interpreter /no/such/interpreter is not found"),
            "{refused}"
        );
        assert!(endless.ends_with("too many interpreters"), "{endless}");
    }

    /// What the host has not is taken from the packages, to where they have it; what both have is the host's.
    #[test]
    fn packages_have_what_the_host_lacks() {
        let root = folder("packages");
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        for name in ["no-such-command-here", "sh"] {
            fs::write(root.join("usr/bin").join(name), "#!/bin/sh\n").unwrap();
        }
        let programs = Programs { packages: Some(&root), most: u64::MAX };
        let mut archive = Archive::new();
        let found = programs.find("no-such-command-here").unwrap();
        let added = programs.add(&mut archive, &found);
        let absolute = programs.find("/usr/bin/no-such-command-here");
        let (shell, missing) = (programs.find("sh"), programs.find("usr/bin/sh"));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(added.unwrap(), "/usr/bin/no-such-command-here");
        assert_eq!(absolute, Some(found));
        assert!(!shell.unwrap().starts_with(&root));
        assert_eq!(missing, None);
        let rows = reader::rows(&archive.bytes().unwrap());
        let row = rows.iter().find(|row| row.0 == "usr/bin/no-such-command-here").unwrap();
        assert_eq!(row.2, b"#!/bin/sh\n");
        assert!(archive.contains("/bin/sh"));
    }
}
