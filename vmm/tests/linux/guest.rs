//! The guest's files, and one run of it.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use vpmu::boot::elf::Elf;
use vpmu::boot::initramfs::Archive;
use vpmu::boot::{Image, Kernel, LinuxEntry, Payload};

use crate::harness::CannotRun;

/// Where the loader of Debian looks for libraries.
const LIBRARIES: [&str; 2] = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// The fetched packages.
pub(crate) struct Packages {
    root: PathBuf,
    pub(crate) kernel: PathBuf,
}

/// The packages, or why they cannot be had.
pub(crate) fn packages() -> Result<&'static Packages, CannotRun> {
    static PACKAGES: OnceLock<Result<Packages, CannotRun>> = OnceLock::new();
    let fetched =
        PACKAGES.get_or_init(|| fetch(&[], "").map_err(|e| CannotRun::without("linux", &e)));
    fetched.as_ref().map_err(Clone::clone)
}

/// The same for 32-bit processors: kernel and busybox alone.
pub(crate) fn packages_i686() -> Result<&'static Packages, CannotRun> {
    static PACKAGES: OnceLock<Result<Packages, CannotRun>> = OnceLock::new();
    let fetched = PACKAGES.get_or_init(|| {
        fetch(&["--i686"], "i686").map_err(|e| CannotRun::without("linux for i686", &e))
    });
    fetched.as_ref().map_err(Clone::clone)
}

/// Fetches packages; they go to a folder of the guests'.
fn fetch(options: &[&str], folder: &str) -> Result<Packages, String> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no project folder")?;
    let guests = project.join("target/guests");
    let output = Command::new(project.join("guest-tests/linux/fetch"))
        .args(options)
        .env("GUESTS", &guests)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("guest-tests/linux/fetch: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.lines().last().unwrap_or("guest-tests/linux/fetch failed").into());
    }
    let paths = String::from_utf8_lossy(&output.stdout);
    let kernel = paths.lines().find(|line| line.contains("/vmlinuz-")).ok_or("no kernel")?;
    Ok(Packages { root: guests.join(folder).join("root"), kernel: kernel.into() })
}

impl Packages {
    /// A root file system with busybox that runs `init`, a shell script, as its first process.
    pub(crate) fn root(&self, init: &str) -> Archive {
        let mut archive = Archive::new();
        for directory in ["/bin", "/dev", "/proc", "/sys", "/tmp", "/usr/bin"] {
            archive.directory(directory);
        }
        archive.character_device("/dev/console", 0o600, 5, 1);
        archive.file("/bin/busybox", 0o755, self.read("bin/busybox"));
        let init = format!(
            "#!/bin/busybox sh\n\
             /bin/busybox mount -t devtmpfs dev /dev\n\
             /bin/busybox mount -t proc proc /proc\n\
             /bin/busybox mount -t sysfs sys /sys\n\
             /bin/busybox --install -s /bin\n\
             export PATH=/bin:/usr/bin HOME=/tmp\n\
             cd /tmp\n\
             {init}\n"
        );
        archive.file("/init", 0o755, init.into_bytes());
        archive
    }

    /// Adds perf and the libraries that it links to.
    pub(crate) fn add_perf(&self, archive: &mut Archive) {
        self.add_linked(archive, "usr/bin/perf");
    }

    /// Runs perf on the host, with these options and a file.
    pub(crate) fn perf_here(&self, options: &[&str], file: &Path) -> Output {
        let libraries = LIBRARIES.map(|folder| self.path(folder).display().to_string());
        Command::new(self.path(LIBRARIES[0]).join("ld-linux-x86-64.so.2"))
            .args(["--library-path", &libraries.join(":")])
            .arg(self.path("usr/bin/perf"))
            .args(options)
            .arg(file)
            .stdin(Stdio::null())
            .output()
            .expect("perf starts")
    }

    /// Adds a program or a library, and the loader and the libraries that it links to.
    pub(crate) fn add_linked(&self, archive: &mut Archive, path: &str) {
        let loader = "lib64/ld-linux-x86-64.so.2";
        archive.file(loader, 0o755, self.read(loader));
        let mut wanted = VecDeque::from([path.to_owned()]);
        while let Some(path) = wanted.pop_front() {
            if archive.contains(&path) {
                continue;
            }
            let bytes = self.read(&path);
            let needed = Elf::parse(&path, &bytes).expect("an ELF").dynamic().needed;
            wanted.extend(needed.iter().map(|library| self.library(library)));
            archive.file(&path, 0o755, bytes);
        }
    }

    /// Where a library is.
    fn library(&self, name: &str) -> String {
        let mut paths = LIBRARIES.iter().map(|folder| format!("{folder}/{name}"));
        let found = paths.find(|path| self.path(path).exists());
        found.unwrap_or_else(|| panic!("no package has {name}"))
    }

    /// Adds a copy of a file as it is.
    pub(crate) fn add_file(&self, archive: &mut Archive, path: &str) {
        archive.file(path, 0o755, self.read(path));
    }

    /// One of the kernel's modules, by its place below `kernel`.
    pub(crate) fn module(&self, path: &str) -> Vec<u8> {
        let name = self.kernel.file_name().expect("a file").to_string_lossy();
        let release = name.strip_prefix("vmlinuz-").expect("Debian's name");
        self.read(&format!("lib/modules/{release}/kernel/{path}"))
    }

    /// The kernel with this root file system and command line, for a machine of this process.
    pub(crate) fn payload(&self, root: &Archive, command_line: &str) -> Payload {
        let image = |name: &str, bytes| Image { name: name.into(), bytes };
        Payload::Kernel(Kernel {
            image: image("kernel", fs::read(&self.kernel).expect("a kernel")),
            modules: vec![image("initrd", root.bytes().expect("an archive")).into()],
            command_line: command_line.into(),
            entry: LinuxEntry::Auto,
        })
    }

    /// Where a file of the packages is on the host.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        let path = self.path(path);
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

/// What one run of the `vpmu` program gave.
#[derive(PartialEq, Eq)]
pub(crate) struct Run {
    /// The serial console, carriage returns removed.
    pub(crate) log: String,
    /// `--stats json`.
    pub(crate) stats: String,
}

/// Command line of the kernel for tests that are not about its boot: without what would be more than half of that, its
/// tests of its own ciphers, and the verification of certificates.
pub(crate) const BRIEF: &str =
    "console=ttyS0 cryptomgr.notests initcall_blacklist=load_system_certificate_list";

/// Boots a K8 with [`BRIEF`] until it powers off.
pub(crate) fn run(packages: &Packages, name: &str, cpus: u8, root: &Archive) -> Run {
    run_with(packages, name, cpus, root, "", &["--cpu", "k8", "--append", BRIEF])
}

/// Boots a machine with these options until it powers off. `typed` is the text of an input script.
pub(crate) fn run_with(
    packages: &Packages,
    name: &str,
    cpus: u8,
    root: &Archive,
    typed: &str,
    options: &[&str],
) -> Run {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the run");
    let [initrd, input, log, stats] =
        ["initrd", "input", "log", "stats.json"].map(|file| folder.join(file));
    fs::write(&initrd, root.bytes().expect("an archive")).expect("initrd");
    fs::write(&input, typed).expect("input");
    let output = Command::new(env!("CARGO_BIN_EXE_vpmu"))
        .args(["run", "--timeout", "400"])
        .args(["--stats", "json", "--smp", &cpus.to_string()])
        .args(options)
        .arg("--kernel")
        .arg(&packages.kernel)
        .arg("--initrd")
        .arg(&initrd)
        .arg("--input")
        .arg(&input)
        .arg("--serial")
        .arg(&log)
        .arg("--stats-file")
        .arg(&stats)
        .stdin(Stdio::null())
        .output()
        .expect("vpmu starts");
    let text = fs::read(&log).expect("a serial log");
    let log = String::from_utf8_lossy(&text).replace('\r', "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{errors}\n{log}", output.status);
    let stats = fs::read_to_string(&stats).expect("statistics");
    fs::remove_dir_all(&folder).expect("the folder of the run is ours");
    Run { log, stats }
}

/// Runs a kernel that is not Linux, with these options, and gives its exit status and its console.
/// `typed` is the text of an input script.
pub(crate) fn run_other(name: &str, options: &[&str], typed: &str) -> (Option<i32>, Vec<u8>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the run");
    let [input, log] = ["input", "log"].map(|file| folder.join(file));
    fs::write(&input, typed).expect("input");
    let output = Command::new(env!("CARGO_BIN_EXE_vpmu"))
        .args(["run", "--timeout", "1200"])
        .args(options)
        .arg("--input")
        .arg(&input)
        .arg("--serial")
        .arg(&log)
        .stdin(Stdio::null())
        .output()
        .expect("vpmu starts");
    std::io::stderr().write_all(&output.stderr).expect("stderr");
    let log = fs::read(&log).expect("a serial log");
    fs::remove_dir_all(&folder).expect("the folder of the run is ours");
    (output.status.code(), log)
}

/// The first difference of two runs, which there must not be.
pub(crate) fn assert_equal(first: &Run, second: &Run) {
    for (line, other) in first.log.lines().zip(second.log.lines()) {
        assert_eq!(line, other, "serial logs");
    }
    assert_eq!(first.stats, second.stats);
    assert!(first == second, "one serial log is longer");
}
