//! Files of the host that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Whether `path` is a file or nothing. Renaming over a device or a pipe would replace it.
#[must_use]
pub fn is_replaceable(path: &Path) -> bool {
    path.is_file() || !path.exists()
}

/// Writes `bytes` to `path`, which is a file or nothing: either all of it is there afterwards, or the
/// file is as before.
///
/// # Errors
/// If the host refuses.
pub fn replace(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    replace_with(path, |out| out.write_all(bytes.as_ref()))
}

/// The same with what `write` writes.
///
/// # Errors
/// If the host refuses.
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let mut replacement = Replacement::new(path)?;
    write(&mut replacement.out).map_err(|e| Error::cannot_write(path.display(), e))?;
    replacement.finish()
}

/// What is to be the content of a file, as it comes. Until it is finished the file is as before, and if it is
/// dropped the file stays so.
pub struct Replacement {
    path: PathBuf,
    temporary: Temporary,
    out: BufWriter<File>,
}

/// A file that is removed when this is dropped, unless it has got another name.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Whatever there is of it; what failed before is what to report.
        let _ = fs::remove_file(&self.0);
    }
}

impl Replacement {
    /// Nothing yet of what `path`, which is a file or nothing, is to have.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn new(path: &Path) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = Temporary(path.with_file_name(name));
        let file =
            File::create(&temporary.0).map_err(|e| Error::cannot_write(path.display(), e))?;
        Ok(Self { path: path.into(), temporary, out: BufWriter::new(file) })
    }

    /// More of it.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::cannot_write(self.path.display(), e))
    }

    /// That was all: it takes the place of what the file had.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn finish(self) -> Result<()> {
        let Self { path, temporary, out } = self;
        let synced = out.into_inner().map_err(io::Error::from).and_then(|file| file.sync_all());
        synced
            .and_then(|()| fs::rename(&temporary.0, &path))
            .map_err(|e| Error::cannot_write(path.display(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritable_file_is_one_line_and_leaves_nothing() {
        let error = replace(Path::new("/nonexistent/stats.json"), "x").unwrap_err();
        assert_eq!(error.status(), 6);
        assert!(error.to_string().starts_with("cannot write /nonexistent/stats.json: "));
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let path = std::env::temp_dir().join(format!("vpmu-file-{}", std::process::id()));
        replace(&path, "first, and longer").unwrap();
        replace(&path, "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        let half = |out: &mut dyn Write| {
            out.write_all(b"half of the third")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert_eq!(replace_with(&path, half).unwrap_err().status(), 6);
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        let mut given_up = Replacement::new(&path).unwrap();
        given_up.write(b"half of the fourth").unwrap();
        let temporary = given_up.temporary.0.clone();
        assert!(temporary.exists());
        drop(given_up);
        assert!(!temporary.exists());
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        fs::remove_file(&path).unwrap();
    }
}
