//! Drivers for the guest's kernel, from the package that it comes from: modules, and those that they need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object as _, ObjectSection as _};

use super::Request;
use super::guests::Guests;
use crate::boot::Image;
use crate::boot::linux;
use crate::boot::pack::Driver;
use crate::error::{Error, Result};

/// Where packages have modules: Debian 13 and later in the second.
const FOLDERS: [&str; 2] = ["lib/modules", "usr/lib/modules"];
/// The driver for MSRs, and the parameter with which it says nothing of who writes to them.
const REGISTERS: (&str, &str) = ("msr", "allow_writes=on");
/// How a compressed file begins, and who decompresses it.
const COMPRESSED: [(&[u8], &str); 3] =
    [(b"\x1F\x8B", "gzip"), (b"\xFD7zXZ\0", "xz"), (b"\x28\xB5\x2F\xFD", "zstd")];

/// The modules of a kernel.
struct Modules {
    /// `lib/modules/RELEASE` on the host.
    folder: PathBuf,
    /// The same in the guest.
    guest: String,
    /// The files by the modules' names, relative to the folder.
    files: BTreeMap<String, PathBuf>,
    /// What is in the kernel itself.
    builtin: Vec<String>,
}

/// The drivers that are asked for, each behind those that it needs.
///
/// # Errors
/// A module is not in the kernel's package, or damaged.
pub fn find(
    image: &Image,
    kernel: &Path,
    guests: &Guests,
    request: &Request<'_>,
) -> Result<Vec<Driver>> {
    let mut wanted: Vec<_> =
        request.drivers.iter().map(|text| text.split_once(' ').unwrap_or((text, ""))).collect();
    if wanted.is_empty() && !request.registers {
        return Ok(Vec::new());
    }
    let modules = Modules::of(image, kernel, guests);
    if request.registers && !wanted.iter().any(|(name, _)| *name == REGISTERS.0) {
        // Whether the kernel has it built in, the guest sees.
        let is_module = |modules: &Modules| modules.files.contains_key(REGISTERS.0);
        wanted.extend(modules.as_ref().filter(|modules| is_module(modules)).map(|_| REGISTERS));
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let modules = modules.ok_or_else(|| {
        let name = kernel.display();
        Error::Input(format!("--module: the modules of {name} are not here; vpmu fetch gets some"))
    })?;
    modules.drivers(&wanted)
}

impl Modules {
    /// Those of the package that `kernel` is in, or of any other package of the same release.
    fn of(image: &Image, kernel: &Path, guests: &Guests) -> Option<Self> {
        let release = linux::release(&image.bytes)?;
        let package = fs::canonicalize(kernel).ok();
        let package = package.as_deref().and_then(Path::parent).and_then(Path::parent);
        let roots = package.into_iter().chain(guests.roots().iter().map(PathBuf::as_path));
        let folders =
            roots.chain([Path::new("/")]).flat_map(|root| FOLDERS.map(|of| root.join(of)));
        let folder = folders.map(|of| of.join(&release)).find(|folder| folder.is_dir())?;
        let mut files = BTreeMap::new();
        collect(&folder, Path::new(""), &mut files);
        let builtin = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let builtin = builtin.lines().filter_map(|line| name_of(Path::new(line))).collect();
        Some(Self { folder, guest: format!("/lib/modules/{release}"), files, builtin })
    }

    /// These modules, named with their parameters, each behind those that it needs.
    fn drivers(&self, wanted: &[(&str, &str)]) -> Result<Vec<Driver>> {
        let named = |(name, parameters): &(&str, &str)| (plain(name), parameters.trim().to_owned());
        let parameters = wanted.iter().map(named).collect();
        let mut loading = Loading { parameters, begun: BTreeSet::new(), drivers: Vec::new() };
        for (name, _) in wanted {
            self.add(&mut loading, &plain(name))?;
        }
        Ok(loading.drivers)
    }

    /// Adds a driver behind those that it needs.
    fn add(&self, loading: &mut Loading, name: &str) -> Result<()> {
        let Some(file) = self.files.get(name) else {
            if self.builtin.iter().any(|own| own == name) {
                return Ok(());
            }
            let folder = self.folder.display();
            return Err(Error::Input(format!("--module {name}: {folder} has no such module")));
        };
        // One that is begun is there, or needs itself, which is for the kernel to refuse.
        if !loading.begun.insert(name.into()) {
            return Ok(());
        }
        let bytes = read(&self.folder.join(file))?;
        for needed in needs(&bytes).ok_or_else(|| damaged(file))? {
            self.add(loading, &plain(&needed))?;
        }
        // Decompressed, it has no suffix for that.
        let within = file.parent().unwrap_or(Path::new(""));
        let path = format!("{}/{}/{name}.ko", self.guest, within.display());
        let parameters = loading.parameters.get(name).cloned().unwrap_or_default();
        loading.drivers.push(Driver { path, bytes, parameters });
        Ok(())
    }
}

/// What is loaded, as far as it is known.
struct Loading {
    parameters: BTreeMap<String, String>,
    begun: BTreeSet<String>,
    drivers: Vec<Driver>,
}

/// The one way to write a module's name.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn damaged(file: &Path) -> Error {
    Error::Input(format!("{}: not a kernel module", file.display()))
}

/// The modules in a folder and those below it.
fn collect(folder: &Path, within: &Path, files: &mut BTreeMap<String, PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder.join(within)).into_iter().flatten().flatten().collect();
    // So that of two of one name the same is taken wherever the package is unpacked.
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = within.join(entry.file_name());
        // A link, such as `build`, leads out of the package.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(folder, &path, files);
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
}

/// The name of the module in a file: the file's up to `.ko`, with underscores.
fn name_of(file: &Path) -> Option<String> {
    let name = plain(&file.file_name()?.to_string_lossy());
    let (name, compression) = name.rsplit_once(".ko")?;
    ["", ".gz", ".xz", ".zst"].contains(&compression).then(|| name.to_owned())
}

/// The names that `depends=` has in the section `.modinfo`, strings behind each other (Linux
/// include/linux/moduleparam.h, scripts/mod/modpost.c).
fn needs(module: &[u8]) -> Option<Vec<String>> {
    let file = object::File::parse(module).ok()?;
    let info = file.section_by_name(".modinfo")?.data().ok()?;
    let mut strings = info.split(|byte| *byte == 0);
    let names = strings.find_map(|string| string.strip_prefix(b"depends=")).unwrap_or_default();
    let names = String::from_utf8_lossy(names).into_owned();
    Some(names.split(',').filter(|name| !name.is_empty()).map(Into::into).collect())
}

/// A module's file, decompressed by the host's programs if it has to be: kernels do that themselves only
/// where they are built to.
fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |e| Error::Input(format!("{}: {e}", path.display())).because(e);
    let bytes = fs::read(path).map_err(failed)?;
    let Some((_, program)) = COMPRESSED.iter().find(|(magic, _)| bytes.starts_with(magic)) else {
        return Ok(bytes);
    };
    let run = Command::new(program).arg("-dc").arg(path).stdin(Stdio::null()).output();
    let run =
        run.map_err(|e| Error::Host(format!("{program}, for {}: {e}", path.display())).because(e))?;
    match run.status.success() {
        true => Ok(run.stdout),
        false => Err(damaged(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A relocatable ELF64 with a section `.modinfo` alone.
    fn module(info: &[u8]) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut file = b"\x7FELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        let table = 64 + info.len() as u64 + names.len() as u64;
        for half in [1_u16, 62] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1_u32.to_le_bytes());
        for quad in [0, 0, table] {
            file.extend(quad.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        for half in [64_u16, 0, 0, 64, 3, 2] {
            file.extend(half.to_le_bytes());
        }
        file.extend(info);
        file.extend(names);
        // Name, type, flags, address, offset, size, link, info, alignment, size of entries.
        for (name, kind, offset, size) in [
            (0_u32, 0_u32, 0, 0),
            (1, 1, 64, info.len() as u64),
            (10, 3, 64 + info.len() as u64, names.len() as u64),
        ] {
            file.extend(name.to_le_bytes());
            file.extend(kind.to_le_bytes());
            for quad in [0, 0, offset, size, 0, 1, 0] {
                file.extend(quad.to_le_bytes());
            }
        }
        file
    }

    #[test]
    fn what_a_module_needs() {
        assert_eq!(needs(&module(b"license=GPL\0depends=a,b_c\0name=d\0")).unwrap(), ["a", "b_c"]);
        assert!(needs(&module(b"depends=\0")).unwrap().is_empty());
        assert!(needs(&module(b"name=d\0")).unwrap().is_empty());
        assert_eq!(needs(b"\x7FELF"), None);
    }

    #[test]
    fn modules_have_the_names_of_their_files() {
        let name = |file: &str| name_of(Path::new(file));
        assert_eq!(name("kernel/drivers/p4-clockmod.ko.xz").as_deref(), Some("p4_clockmod"));
        assert_eq!(name("msr.ko").as_deref(), Some("msr"));
        for other in ["modules.dep", "msr.ko.sig", "msr.o"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    /// Of two that need the same, that comes first and once, with its own parameters; the kernel's own is
    /// not loaded; and one that needs itself is there once.
    #[test]
    fn what_is_needed_comes_first() {
        let folder = std::env::temp_dir().join(format!("vpmu-modules-{}", std::process::id()));
        let kernel = folder.join("kernel/x");
        fs::create_dir_all(&kernel).unwrap();
        for (name, needs) in
            [("a", "depends=common,own\0"), ("b-1", "depends=common\0"), ("common", "depends=\0")]
        {
            fs::write(kernel.join(format!("{name}.ko")), module(needs.as_bytes())).unwrap();
        }
        fs::write(kernel.join("self.ko"), module(b"depends=self\0")).unwrap();
        let mut files = BTreeMap::new();
        collect(&folder, Path::new(""), &mut files);
        let (guest, builtin) = ("/lib/modules/1".into(), vec!["own".into()]);
        let modules = Modules { folder: folder.clone(), guest, files, builtin };
        let wanted = [("a", " x=1"), ("b-1", ""), ("own", ""), ("common", "y=2 z"), ("self", "")];
        let drivers = modules.drivers(&wanted).unwrap();
        let missing = modules.drivers(&[("none", "")]).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        let rows: Vec<_> =
            drivers.iter().map(|d| (d.path.as_str(), d.parameters.as_str())).collect();
        let at = |name: &str| format!("/lib/modules/1/kernel/x/{name}.ko");
        let expected =
            [(at("common"), "y=2 z"), (at("a"), "x=1"), (at("b_1"), ""), (at("self"), "")];
        assert_eq!(rows, expected.each_ref().map(|(path, with)| (path.as_str(), *with)));
        assert!(missing.to_string().ends_with("has no such module"), "{missing}");
    }
}
