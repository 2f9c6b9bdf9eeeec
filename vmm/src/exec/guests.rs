//! Where kernels, busybox and the programs of packages are on this host.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Names a kernel.
const KERNEL_VARIABLE: &str = "VPMU_KERNEL";
/// Names a static busybox.
const BUSYBOX_VARIABLE: &str = "VPMU_BUSYBOX";
/// Where `guest-tests/linux/fetch` unpacks packages, from the project's folder.
const FETCHED: &str = "target/guests";
/// Where packages have busybox: Debian 13 and later in the second.
const BUSYBOXES: [&str; 2] = ["bin/busybox", "usr/bin/busybox"];

/// The folders with unpacked packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guests {
    roots: Vec<PathBuf>,
}

/// The folder that `vpmu fetch` fills, `$XDG_CACHE_HOME/vpmu`; there is no such folder without a home.
#[must_use]
pub fn cache() -> Option<PathBuf> {
    cache_of(env::var_os("XDG_CACHE_HOME").as_deref(), env::var_os("HOME").as_deref())
}

/// XDG Base Directory Specification: a relative path is to be ignored, and without the variable it is
/// `.cache` in the home.
fn cache_of(cache: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let given = cache.map(PathBuf::from).filter(|path| path.is_absolute());
    let default = || home.map(|home| Path::new(home).join(".cache"));
    given.or_else(default).map(|path| path.join("vpmu"))
}

impl Guests {
    /// What there is: the cache, the folder of the project that this program was built in, and that of the
    /// project in the current folder.
    #[must_use]
    pub fn find() -> Self {
        // The program is target/PROFILE/vpmu.
        let built = env::current_exe().ok();
        let built = built.as_deref().and_then(Path::parent).and_then(Path::parent);
        let folders = [cache(), built.map(|target| target.join("guests")), Some(FETCHED.into())];
        Self::of(folders.into_iter().flatten())
    }

    fn of(folders: impl Iterator<Item = PathBuf>) -> Self {
        let roots = folders.map(|folder| folder.join("root")).filter(|root| root.is_dir());
        Self { roots: roots.collect() }
    }

    /// The kernel: the given one, that of the environment, the newest of the packages, or the host's own.
    ///
    /// # Errors
    /// There is none.
    pub fn kernel(&self, given: Option<&Path>) -> Result<PathBuf> {
        let named = variable(KERNEL_VARIABLE);
        if let Some(named) = given.map(Path::to_path_buf).or(named) {
            return Ok(named);
        }
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let own = PathBuf::from(format!("/boot/vmlinuz-{}", release.trim()));
        let of_packages = self.roots.iter().filter_map(|root| newest_kernel(&root.join("boot")));
        of_packages.chain([own]).find(|path| File::open(path).is_ok()).ok_or_else(|| {
            let text = "no kernel found: name one with --kernel, or run vpmu fetch";
            Error::Input(text.into())
        })
    }

    /// The busybox: the given one, that of the environment, or that of the packages.
    #[must_use]
    pub fn busybox(&self, given: Option<&Path>) -> Option<PathBuf> {
        let named = || variable(BUSYBOX_VARIABLE);
        let of_packages = || {
            let all = self.roots.iter().flat_map(|root| BUSYBOXES.map(|path| root.join(path)));
            all.into_iter().find(|path| path.is_file())
        };
        given.map(Path::to_path_buf).or_else(named).or_else(of_packages)
    }

    /// The root of the packages that programs come from.
    #[must_use]
    pub fn packages(&self) -> Option<&Path> {
        self.roots.first().map(PathBuf::as_path)
    }

    /// The roots of all packages.
    pub(super) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }
}

/// The path that a variable of the environment has, unless it is empty.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The last `vmlinuz-*` of a folder by name.
fn newest_kernel(folder: &Path) -> Option<PathBuf> {
    let mut kernels: Vec<_> = fs::read_dir(folder)
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

    #[test]
    fn where_the_cache_is() {
        let cache = |cache: Option<&str>, home: Option<&str>| {
            let path = cache_of(cache.map(OsStr::new), home.map(OsStr::new))?;
            Some(path.display().to_string())
        };
        assert_eq!(cache(Some("/c"), Some("/h")).as_deref(), Some("/c/vpmu"));
        assert_eq!(cache(Some("c"), Some("/h")).as_deref(), Some("/h/.cache/vpmu"));
        assert_eq!(cache(Some(""), Some("/h")).as_deref(), Some("/h/.cache/vpmu"));
        assert_eq!(cache(None, None), None);
    }

    /// Of two folders the first that has it, and of two kernels the one with the later name; what is given
    /// comes before all.
    #[test]
    fn the_first_folder_that_has_it() {
        let folder = env::temp_dir().join(format!("vpmu-guests-{}", std::process::id()));
        let [first, second] = ["first", "second"].map(|name| folder.join(name));
        for path in ["first/root/usr/bin", "second/root/boot", "second/root/bin"] {
            fs::create_dir_all(folder.join(path)).unwrap();
        }
        for path in ["boot/vmlinuz-1", "boot/vmlinuz-2", "boot/x", "bin/busybox"] {
            fs::write(second.join("root").join(path), "").unwrap();
        }
        let guests = Guests::of([folder.join("none"), first.clone(), second.clone()].into_iter());
        let kernel = guests.kernel(None).unwrap();
        let busybox = guests.busybox(None);
        fs::write(first.join("root/usr/bin/busybox"), "").unwrap();
        let other = guests.busybox(None);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(guests.packages(), Some(first.join("root").as_path()));
        assert_eq!(kernel, second.join("root/boot/vmlinuz-2"));
        assert_eq!(busybox, Some(second.join("root/bin/busybox")));
        assert_eq!(other, Some(first.join("root/usr/bin/busybox")));
        assert_eq!(guests.kernel(Some(Path::new("/k"))).unwrap(), Path::new("/k"));
        assert_eq!(guests.busybox(Some(Path::new("/b"))).as_deref(), Some(Path::new("/b")));
    }
}
