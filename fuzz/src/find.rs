//! A find: an input that failed, in a file that says which target it is of.
//!
//! A line `vpmu-find TARGET`, and the bytes of the input. The inputs of a corpus have no such line: they are of the
//! target that their directory is named after.

use std::fs;
use std::path::{Path, PathBuf};

use crate::driver::{Find, Target};

const WORD: &[u8] = b"vpmu-find ";

/// The target and the input of a file.
///
/// # Errors
/// It cannot be read, or nothing says which target it is of.
pub(crate) fn read(path: &Path) -> Result<(Target, Vec<u8>), String> {
    let name = path.display();
    let bytes = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    if let Some((target, input)) = parse(&bytes) {
        let found = Target::named(&target);
        return found
            .map(|target| (target, input.to_vec()))
            .ok_or_else(|| format!("{name}: a find of {target}, which is no target here"));
    }
    let directory = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let target = directory.and_then(Target::named);
    target.map(|target| (target, bytes)).ok_or_else(|| {
        format!("{name}: neither a find nor in a directory with the name of a target")
    })
}

/// The name of the target and the input, if these are the bytes of a find.
pub(crate) fn parse(bytes: &[u8]) -> Option<(String, &[u8])> {
    let rest = bytes.strip_prefix(WORD)?;
    let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    let target = String::from_utf8_lossy(&rest[..end]).into_owned();
    Some((target, rest.get(end + 1..).unwrap_or_default()))
}

/// Writes a find into a directory, under a name that its bytes give: where it is.
///
/// # Errors
/// The host refuses.
pub(crate) fn write(directory: &Path, target: &Target, find: &Find) -> Result<PathBuf, String> {
    let path = directory.join(format!("{}-{:016x}", target.name, hash(&find.bytes)));
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    write_to(&path, target, &find.bytes)?;
    Ok(path)
}

/// Writes an input as a find: all of it, or nothing.
///
/// # Errors
/// The host refuses.
pub(crate) fn write_to(path: &Path, target: &Target, input: &[u8]) -> Result<(), String> {
    let bytes = [WORD, target.name.as_bytes(), b"\n", input].concat();
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        // It may not be there.
        let _ = fs::remove_file(&partial);
        format!("{}: {error}", path.display())
    })
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
