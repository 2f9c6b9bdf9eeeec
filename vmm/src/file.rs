//! Files of the host that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

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
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let fill = |file: File| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.into_inner()?.sync_all()
    };
    let written =
        File::create(&temporary).and_then(fill).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|e| {
        // Whatever there is of it; the first failure is the one to report.
        let _ = fs::remove_file(&temporary);
        Error::Host(format!("cannot write {}: {e}", path.display()))
    })
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
        fs::remove_file(&path).unwrap();
    }
}
