//! A reader who does what a document says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::blocks::{Block, Exchange, blocks};
use crate::compare::{compare, without_numbers};

/// The program under test.
const VPMU: &str = env!("CARGO_BIN_EXE_vpmu");
/// How documents call it where it is not installed.
const BY_CARGO: &str = "cargo run --release --";
/// What builds, installs or tests the project is not run by one of its tests, but by its gate.
const OF_THE_GATE: [&str; 5] =
    ["cargo bench ", "cargo build ", "cargo install ", "cargo publish ", "cargo test "];
/// What needs /dev/kvm.
const ON_KVM: &str = "--example embed";
/// No command of a document takes longer, on however slow a host.
const SECONDS: &str = "900";
/// A shell's status if there is no such program.
const NOT_FOUND: i32 = 127;
/// Folders of the project that documents write to.
const COPIED: [&str; 2] = ["docs", "examples"];
/// Statuses of a guest that reports 0, and of one that switches the machine off.
const SUCCEEDED: [i32; 2] = [0, 1];

/// Reads a document and does what it says. `Some` reason if this host cannot.
///
/// # Errors
/// A command that fails, or prints something else.
pub(crate) fn read(project: &Path, name: &str) -> Result<Option<String>, String> {
    let text = fs::read_to_string(project.join(name)).map_err(|e| format!("{name}: {e}"))?;
    let blocks = blocks(&text)?;
    let boots_linux =
        |command: &str| command.contains("target/guests") || command.contains(" exec ");
    let linux = exchanges(&blocks).any(|exchange| boots_linux(&exchange.command));
    if linux && let Some(why) = fetch(project)? {
        return Ok(Some(why));
    }
    let folder = folder(project, name).map_err(|e| format!("the folder for {name}: {e}"))?;
    for block in &blocks {
        match block {
            Block::File { name, content } => match fs::read_to_string(folder.join(name)) {
                Ok(file) => {
                    is_excerpt(content, &file).map_err(|line| format!("{name}: no {line:?}"))?;
                }
                Err(_) => fs::write(folder.join(name), content)
                    .map_err(|e| format!("the block {name:?} cannot be written: {e}"))?,
            },
            Block::Console { compiler, exchanges } => {
                let numbers = compiler.as_ref().is_none_or(|version| *version == gcc());
                for exchange in exchanges {
                    if let Some(why) = run(project, &folder, exchange, numbers)? {
                        return Ok(Some(why));
                    }
                }
            }
        }
    }
    fs::remove_dir_all(folder).map_err(|e| format!("the folder for {name}: {e}"))?;
    Ok(None)
}

fn exchanges(blocks: &[Block]) -> impl Iterator<Item = &Exchange> {
    blocks.iter().flat_map(|block| match block {
        Block::Console { exchanges, .. } => &exchanges[..],
        Block::File { .. } => &[],
    })
}

/// Whether the lines of `excerpt` are in the file, in their order, but for blanks around them.
///
/// # Errors
/// The first that is not.
fn is_excerpt(excerpt: &str, file: &str) -> Result<(), String> {
    let mut lines = file.lines().map(str::trim);
    let excerpt = excerpt.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in excerpt {
        lines.find(|found| *found == line).ok_or_else(|| line.to_owned())?;
    }
    Ok(())
}

/// The major version of the host's compiler; empty without one.
fn gcc() -> String {
    let output = Command::new("gcc").arg("-dumpversion").output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

/// Has the guests' files there; `Some` reason if this host cannot get them.
fn fetch(project: &Path) -> Result<Option<String>, String> {
    let output = Command::new(project.join("guest-tests/linux/fetch")).output();
    let output = output.map_err(|e| format!("guest-tests/linux/fetch: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(None),
        Some(_) => Ok(Some(errors.trim().lines().last().unwrap_or_default().into())),
        None => Err(errors),
    }
}

/// A new folder with the project's files in it, and with what `cargo build` makes.
fn folder(project: &Path, name: &str) -> std::io::Result<PathBuf> {
    let folder = format!("documents.{}.{}", name.replace('/', "-"), std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(folder.join("target/release"))?;
    symlink(VPMU, folder.join("target/release/vpmu"))?;
    symlink(project.join("target/guests"), folder.join("target/guests"))?;
    for entry in fs::read_dir(project)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != "target" && !name.to_string_lossy().starts_with('.') {
            let to = folder.join(&name);
            if COPIED.iter().any(|copied| name == *copied) {
                copy(&entry.path(), &to)?;
            } else {
                symlink(entry.path(), to)?;
            }
        }
    }
    Ok(folder)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
            // make goes by it.
            fs::File::options()
                .append(true)
                .open(to)?
                .set_modified(entry.metadata()?.modified()?)?;
        }
    }
    Ok(())
}

/// `Some` reason if the host lacks a program. `numbers`: they are compared.
fn run(
    project: &Path,
    folder: &Path,
    exchange: &Exchange,
    numbers: bool,
) -> Result<Option<String>, String> {
    let Exchange { command, output: shown } = exchange;
    if OF_THE_GATE.iter().any(|beginning| command.starts_with(beginning)) {
        return Ok(None);
    }
    if command.contains(ON_KVM)
        && let Err(error) = fs::File::options().read(true).write(true).open("/dev/kvm")
    {
        return Ok(Some(format!("/dev/kvm: {error}")));
    }
    // Other packages' programs are run from where they are built.
    let manifest = project.join("Cargo.toml");
    let cargo = format!("cargo run --manifest-path {} ", manifest.display());
    let command_here = command.replace(BY_CARGO, "vpmu").replace("cargo run ", &cargo);
    let script = format!("exec 2>&1\n{command_here}");
    let path = std::env::var("PATH").unwrap_or_default();
    let built = Path::new(VPMU).parent().expect("a folder").display();
    let output = Command::new("timeout")
        .args(["--kill-after=10", SECONDS, "bash", "-c", &script])
        .current_dir(folder)
        .env("PATH", format!("{built}:{path}"))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("timeout: {e}"))?;
    // A serial console ends its lines with both.
    let printed = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let code = output.status.code();
    if code == Some(NOT_FOUND) {
        return Ok(Some(printed.trim().lines().last().unwrap_or_default().into()));
    }
    match shown {
        Some(shown) if numbers => compare(shown, &printed),
        Some(shown) => compare(&without_numbers(shown), &without_numbers(&printed)),
        None if code.is_some_and(|code| SUCCEEDED.contains(&code)) => Ok(()),
        None => Err(format!("status {code:?}:\n{printed}")),
    }
    .map(|()| None)
    .map_err(|why| format!("$ {command}\n{why}"))
}
