//! cpio archives in the `newc` format, as Linux unpacks them into its first root file system.
//!
//! Source: Linux Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::{BootError, Result};

/// Size of an entry's header.
const HEADER: usize = 110;
/// The bits of a mode that say what kind of file it is.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

#[derive(Clone, Debug)]
struct Node {
    mode: u32,
    content: Vec<u8>,
    device: (u32, u32),
}

/// A file tree that becomes an archive. The same tree gives the same bytes: entries are sorted,
/// times are zero, owners are root, inode numbers count from one.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    nodes: BTreeMap<String, Node>,
}

impl Archive {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether something is at `path`.
    pub fn contains(&self, path: &str) -> bool {
        self.nodes.contains_key(relative(path))
    }

    /// Adds a directory, and its parents, where they are missing.
    pub fn directory(&mut self, path: &str) {
        let path = relative(path);
        if path.is_empty() {
            return;
        }
        self.parents(path);
        let node = Node { mode: DIRECTORY | 0o755, content: vec![], device: (0, 0) };
        self.nodes.entry(path.into()).or_insert(node);
    }

    /// Adds a regular file with the given permission bits; replaces what was there.
    pub fn file(&mut self, path: &str, permissions: u32, content: Vec<u8>) {
        self.put(path, REGULAR | permissions & 0o7777, content, (0, 0));
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &str, target: &str) {
        self.put(path, SYMLINK | 0o777, target.as_bytes().to_vec(), (0, 0));
    }

    /// Adds a character device.
    pub fn character_device(&mut self, path: &str, permissions: u32, major: u32, minor: u32) {
        self.put(path, CHARACTER | permissions & 0o7777, vec![], (major, minor));
    }

    /// Adds a copy of the host's directory `from` below `path`: directories, regular files and
    /// symbolic links; what else is there is left out.
    ///
    /// # Errors
    /// If the host cannot read a part of it.
    pub fn tree(&mut self, path: &str, from: &Path) -> Result<()> {
        let failed = |at: &Path, source| BootError::Read { path: at.to_path_buf(), source };
        self.directory(path);
        for entry in fs::read_dir(from).map_err(|e| failed(from, e))? {
            let entry = entry.map_err(|e| failed(from, e))?;
            let host = entry.path();
            let name = format!("{}/{}", relative(path), entry.file_name().to_string_lossy());
            let kind = entry.file_type().map_err(|e| failed(&host, e))?;
            if kind.is_dir() {
                self.tree(&name, &host)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&host).map_err(|e| failed(&host, e))?;
                self.symlink(&name, &target.to_string_lossy());
            } else if kind.is_file() {
                let mode = entry.metadata().map_err(|e| failed(&host, e))?.permissions().mode();
                let content = fs::read(&host).map_err(|e| failed(&host, e))?;
                self.file(&name, mode, content);
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &str, mode: u32, content: Vec<u8>, device: (u32, u32)) {
        let path = relative(path);
        self.parents(path);
        self.nodes.insert(path.into(), Node { mode, content, device });
    }

    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent);
        }
    }

    /// The archive's bytes.
    ///
    /// # Errors
    /// If a file is larger than the format's 32-bit sizes allow.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        // A directory sorts before what is in it, so the kernel can create entries in order.
        for (inode, (path, node)) in (1u32..).zip(&self.nodes) {
            let size = u32::try_from(node.content.len()).map_err(|_| BootError::DoesNotFit {
                what: path.clone(),
                size: node.content.len() as u64,
                place: "a cpio archive (4 GiB a file)".into(),
            })?;
            header(&mut out, inode, node.mode, size, node.device, path);
            out.extend(&node.content);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        header(&mut out, 0, 0, 0, (0, 0), "TRAILER!!!");
        out.resize(out.len().next_multiple_of(512), 0);
        Ok(out)
    }
}

fn relative(path: &str) -> &str {
    path.trim_matches('/')
}

/// The 110-byte header: magic and 13 numbers in hexadecimal, then the name, padded to 4 bytes.
fn header(out: &mut Vec<u8>, inode: u32, mode: u32, size: u32, device: (u32, u32), name: &str) {
    let links = if mode & TYPE == DIRECTORY { 2 } else { 1 };
    let name_size = name.len() as u32 + 1;
    let (major, minor) = device;
    out.extend(b"070701");
    // inode, mode, uid, gid, nlink, mtime, filesize, dev major/minor, rdev major/minor, namesize,
    // check
    for field in [inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_size, 0] {
        out.extend(format!("{field:08X}").as_bytes());
    }
    out.extend(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The regular files of an archive, or of several behind each other, in order: path without leading
/// slash, and content. Reading ends with the archives, or at what is none, such as compressed data.
#[must_use]
pub fn files(mut archive: &[u8]) -> Vec<(String, &[u8])> {
    let mut files = Vec::new();
    while let Some((name, mode, content, rest)) = entry(archive) {
        archive = rest;
        if name == "TRAILER!!!" {
            // Up to the next archive there are zeros.
            let zeros = archive.iter().position(|byte| *byte != 0).unwrap_or(archive.len());
            archive = &archive[zeros..];
        } else if mode & TYPE == REGULAR {
            files.push((name.trim_start_matches('/').into(), content));
        }
    }
    files
}

/// Name, mode and content of the first entry, and what follows it.
fn entry(archive: &[u8]) -> Option<(String, u32, &[u8], &[u8])> {
    let header = archive.get(..HEADER)?;
    // The second magic is that of entries with a checksum.
    if ![b"070701", b"070702"].iter().any(|magic| header.starts_with(*magic)) {
        return None;
    }
    let field = |index: usize| {
        let digits = std::str::from_utf8(&header[6 + 8 * index..14 + 8 * index]).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let (mode, size, name_size) = (field(1)?, field(6)? as usize, field(11)? as usize);
    let name = archive.get(HEADER..HEADER.checked_add(name_size)?)?.split(|byte| *byte == 0);
    let name = String::from_utf8_lossy(name.into_iter().next()?).into_owned();
    let content = (HEADER + name_size).next_multiple_of(4);
    let end = content.checked_add(size)?;
    let rest = archive.get(end.next_multiple_of(4)..).unwrap_or_default();
    Some((name, mode, archive.get(content..end)?, rest))
}

/// A reader written from the format's description, for the tests of what this package writes.
#[cfg(test)]
pub(super) mod reader {
    /// Name, mode, content, device number.
    pub(crate) type Row = (String, u32, Vec<u8>, (u32, u32));

    pub(crate) fn rows(mut archive: &[u8]) -> Vec<Row> {
        let mut rows = Vec::new();
        loop {
            assert_eq!(&archive[..6], b"070701");
            let field = |i: usize| {
                let text = std::str::from_utf8(&archive[6 + 8 * i..14 + 8 * i]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, device, name_size) =
                (field(1), field(6), (field(9), field(10)), field(11));
            assert_eq!(field(5), 0, "mtime");
            let name = &archive[110..110 + name_size as usize];
            let name = std::str::from_utf8(name.strip_suffix(b"\0").unwrap()).unwrap();
            let data = (110 + name_size as usize).next_multiple_of(4);
            let end = data + size as usize;
            if name == "TRAILER!!!" {
                return rows;
            }
            rows.push((name.into(), mode, archive[data..end].to_vec(), device));
            archive = &archive[end.next_multiple_of(4)..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out_in_order() {
        let mut archive = Archive::new();
        archive.file("/usr/bin/x", 0o755, b"12345".to_vec());
        archive.symlink("/bin", "usr/bin");
        archive.character_device("/dev/console", 0o600, 5, 1);
        let bytes = archive.bytes().unwrap();
        let rows = reader::rows(&bytes);
        let expected = [
            ("bin", 0o120_777, &b"usr/bin"[..], (0, 0)),
            ("dev", 0o040_755, b"", (0, 0)),
            ("dev/console", 0o020_600, b"", (5, 1)),
            ("usr", 0o040_755, b"", (0, 0)),
            ("usr/bin", 0o040_755, b"", (0, 0)),
            ("usr/bin/x", 0o100_755, b"12345", (0, 0)),
        ];
        assert_eq!(rows.len(), expected.len());
        for (row, want) in rows.iter().zip(expected) {
            assert_eq!((row.0.as_str(), row.1, row.2.as_slice(), row.3), want);
        }
        assert_eq!(bytes, archive.clone().bytes().unwrap());
    }

    /// Two archives, with zeros between them and other data behind them, as distributions have them.
    #[test]
    fn the_files_of_all_archives_are_listed() {
        let mut first = Archive::new();
        first.file("/usr/bin/x", 0o755, b"12345".to_vec());
        first.symlink("/bin", "usr/bin");
        let mut second = Archive::new();
        second.file("/init", 0o755, vec![]);
        let mut bytes = first.bytes().unwrap();
        bytes.extend([0; 512]);
        bytes.extend(second.bytes().unwrap());
        bytes.extend(b"\x28\xB5\x2F\xFD");
        let expected = [("usr/bin/x".to_owned(), &b"12345"[..]), ("init".to_owned(), b"")];
        assert_eq!(files(&bytes), expected);
        for damaged in [&b"07070"[..], b"070701zz", &bytes[..600], &bytes[..111]] {
            assert!(files(damaged).len() <= 1);
        }
    }

    #[test]
    fn a_host_tree_is_copied() {
        let from = std::env::temp_dir().join(format!("vpmu-tree-{}", std::process::id()));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/file"), b"hello").unwrap();
        std::os::unix::fs::symlink("file", from.join("sub/link")).unwrap();
        let mut archive = Archive::new();
        archive.tree("/opt", &from).unwrap();
        fs::remove_dir_all(&from).unwrap();
        let rows = reader::rows(&archive.bytes().unwrap());
        let names: Vec<_> = rows.iter().map(|r| r.0.as_str()).collect();
        assert_eq!(names, ["opt", "opt/sub", "opt/sub/file", "opt/sub/link"]);
        assert_eq!(rows[2].2, b"hello");
        assert_eq!(rows[3].2, b"file");
    }
}
