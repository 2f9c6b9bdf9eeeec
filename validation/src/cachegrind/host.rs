//! The programs under cachegrind, on the host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs::{IN_LARGE_PAGES, IN_SMALL_PAGES};
use crate::Result;

/// What cachegrind counts of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) instructions: u64,
    pub(super) code_misses: u64,
    pub(super) accesses: u64,
    pub(super) data_misses: u64,
}

/// The caches that cachegrind is told of: bytes, ways, bytes of a line; code, data, last level.
pub(super) type Caches = [(u32, u32, u32); 3];

/// Valgrind of the fetched package, or why it cannot be had.
pub(super) fn valgrind() -> Result<PathBuf> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(crate_folder.join("fetch-valgrind")).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.lines().last().unwrap_or("fetch-valgrind failed").to_owned().into());
    }
    let path = String::from_utf8_lossy(&output.stdout);
    Ok(path.lines().last().ok_or("fetch-valgrind says nothing")?.into())
}

/// Counts a program.
///
/// # Errors
/// If it does not run.
pub(super) fn count(valgrind: &Path, program: &Path, caches: &Caches) -> Result<Counts> {
    let out = program.with_extension("cachegrind");
    let [code, data, last] = caches.map(|(bytes, ways, line)| format!("{bytes},{ways},{line}"));
    let tools =
        valgrind.ancestors().nth(2).ok_or("no folder of valgrind")?.join("libexec/valgrind");
    let output = Command::new(valgrind)
        .env("VALGRIND_LIB", tools)
        .args(["--tool=cachegrind", "--cache-sim=yes", "-q"])
        .args([format!("--I1={code}"), format!("--D1={data}"), format!("--LL={last}")])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program)
        .stdin(Stdio::null())
        .output()?;
    if ![Some(IN_LARGE_PAGES), Some(IN_SMALL_PAGES)].contains(&output.status.code()) {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}: {text}", program.display(), output.status).into());
    }
    let text = fs::read_to_string(&out)?;
    fs::remove_file(&out)?;
    let line = |key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key));
        found.ok_or_else(|| format!("cachegrind wrote no line {key}"))
    };
    let names: Vec<&str> = line("events:")?.split_whitespace().collect();
    let values: Vec<&str> = line("summary:")?.split_whitespace().collect();
    let value = |name: &str| -> Result<u64> {
        let at = names.iter().position(|known| *known == name);
        let text = at.and_then(|at| values.get(at)).ok_or_else(|| format!("no event {name}"))?;
        Ok(text.parse()?)
    };
    Ok(Counts {
        instructions: value("Ir")?,
        code_misses: value("I1mr")?,
        accesses: value("Dr")? + value("Dw")?,
        data_misses: value("D1mr")? + value("D1mw")?,
    })
}
