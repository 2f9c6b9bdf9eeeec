//! What the tests of this package know of the project: the tables of `ARCHITECTURE.md`, the
//! dependencies that the manifests name, and which source files are part of what is built for users
//! rather than for tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the project.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project")
}

/// The text of a file of the project.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What stands between backticks.
#[must_use]
pub fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(Into::into).collect()
}

/// The rows of the first table of `ARCHITECTURE.md` whose header begins with `first_column`, cell by
/// cell.
///
/// # Panics
/// If there is no such table.
#[must_use]
pub fn table(first_column: &str) -> Vec<Vec<String>> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let header = format!("| {first_column} |");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&header));
    assert!(lines.next().is_some(), "ARCHITECTURE.md has no table that begins with {header}");
    let cells = |line: &str| {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// What a manifest names.
#[derive(Debug, Default)]
pub struct Manifest {
    /// The package.
    pub package: String,
    /// Dependencies of the package and of its build script.
    pub dependencies: BTreeSet<String>,
    /// Dependencies of its tests.
    pub dev_dependencies: BTreeSet<String>,
}

impl Manifest {
    /// Reads the `Cargo.toml` of a folder.
    ///
    /// # Panics
    /// If dependencies are written in another way than a line each in one of the three tables, or in that
    /// of what cargo-fuzz alone builds: such as would be overlooked here.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let path = folder.join("Cargo.toml");
        let mut manifest = Self::default();
        let mut section = String::new();
        let fuzzing = "target.'cfg(fuzzing)'.dependencies";
        for line in read(&path).lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let known = ["dependencies", "build-dependencies", "dev-dependencies", fuzzing];
                assert!(
                    known.contains(&header) || !header.contains("dependencies"),
                    "{}: write [{header}] as a line in {known:?}",
                    path.display()
                );
                section = header.into();
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let name = key.trim().trim_end_matches(".workspace").to_owned();
            match section.as_str() {
                "package" if name == "name" => manifest.package = value.trim().replace('"', ""),
                "dev-dependencies" => {
                    manifest.dev_dependencies.insert(name);
                }
                header if header.ends_with("dependencies") => {
                    manifest.dependencies.insert(name);
                }
                _ => {}
            }
        }
        manifest
    }
}

/// The members of the workspace, as folders below the project's.
///
/// # Panics
/// If the manifest has no list of them in one line.
#[must_use]
pub fn members() -> BTreeSet<String> {
    let text = read(&root().join("Cargo.toml"));
    let line = text.lines().find(|line| line.starts_with("members = [") && line.ends_with(']'));
    let line = line.expect("the members of the workspace in one line");
    line.split('"').skip(1).step_by(2).map(Into::into).collect()
}

/// A source file.
#[derive(Debug)]
pub struct Source {
    /// Its path below the project's folder.
    pub path: String,
    /// Its text without comments and without modules that only tests have.
    pub code: String,
}

/// The source files of a package that are built for others than tests, its build script among them:
/// those that the `mod` lines of its roots lead to. A module behind `#[cfg(test)]` is none.
///
/// # Panics
/// If a module has no file.
#[must_use]
pub fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for name in ["build.rs", "src/lib.rs", "src/main.rs"] {
        let path = root().join(folder).join(name);
        if path.exists() {
            collect(&path, path.parent().expect("a folder"), &mut found);
        }
    }
    found
}

/// The file `path` and its modules, whose files are in `folder`.
fn collect(path: &Path, folder: &Path, found: &mut Vec<Source>) {
    let (code, modules) = without_tests(&read(path));
    let below = path.strip_prefix(root()).expect("below the project's folder");
    found.push(Source { path: below.display().to_string(), code });
    for Module { name, path: named } in modules {
        let nested = folder.join(&name);
        let candidates = match named {
            Some(named) => vec![path.with_file_name(named)],
            None => vec![folder.join(format!("{name}.rs")), nested.join("mod.rs")],
        };
        let file = candidates.iter().find(|file| file.exists());
        let file = file.unwrap_or_else(|| panic!("{}: mod {name}: no file", path.display()));
        collect(file, &nested, found);
    }
}

/// A module of a file of its own.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: String,
    /// `#[path]`.
    path: Option<String>,
}

/// The code of a file, and the modules that it names. What follows an attribute `#[cfg(test)]`, also
/// within `all(...)`, is left out, be it one line or a block up to the brace at the same indentation.
/// Comments are left out, too.
fn without_tests(text: &str) -> (String, Vec<Module>) {
    let (mut code, mut modules) = (String::new(), Vec::new());
    let (mut for_tests, mut path) = (false, None);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") {
            continue;
        }
        if trimmed.starts_with("#[cfg(test)]") || trimmed.starts_with("#[cfg(all(test,") {
            for_tests = true;
            continue;
        }
        if for_tests {
            // Other attributes of the same item.
            if trimmed.starts_with("#[") {
                continue;
            }
            for_tests = false;
            path = None;
            if trimmed.ends_with('{') {
                let end = format!("{}}}", &line[..line.len() - trimmed.len()]);
                lines.find(|line| *line == end);
            }
            continue;
        }
        if let Some(rest) = trimmed.strip_prefix("#[path = \"") {
            path = rest.strip_suffix("\"]").map(Into::into);
        }
        let words = trimmed.strip_suffix(';').map(|item| item.split(' ').collect::<Vec<_>>());
        if let Some([.., "mod", name]) = words.as_deref() {
            modules.push(Module { name: (*name).to_owned(), path: path.take() });
        }
        code.push_str(line.split(" // ").next().unwrap_or(line));
        code.push('\n');
    }
    (code, modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_have_is_left_out() {
        let text = "//! unsafe\nmod a;\n#[cfg(test)]\nmod b;\npub(crate) mod c;\n\
                    #[cfg(all(test, unix))]\n#[path = \"d.rs\"]\nmod d;\nfn e() {} // unsafe\n\
                    #[path = \"j.rs\"]\nmod i;\n\
                    #[cfg(test)]\nmod f {\n    fn g() {\n    }\n}\nfn h() {}\n";
        let (code, modules) = without_tests(text);
        let module = |name: &str, path: Option<&str>| Module {
            name: name.into(),
            path: path.map(Into::into),
        };
        assert_eq!(modules, [module("a", None), module("c", None), module("i", Some("j.rs"))]);
        let rest = "mod a;\npub(crate) mod c;\nfn e() {}\n#[path = \"j.rs\"]\nmod i;\nfn h() {}\n";
        assert_eq!(code, rest);
    }

    #[test]
    fn modules_lead_to_their_files() {
        let files: Vec<_> = sources("x86").into_iter().map(|source| source.path).collect();
        for file in ["x86/src/ram.rs", "x86/src/exec/mod.rs", "x86/src/far/frame.rs"] {
            assert!(files.iter().any(|path| path == file), "{file}");
        }
        for file in ["x86/src/softfloat/oracle.rs", "x86/src/exec/tests/mod.rs"] {
            assert!(!files.iter().any(|path| path == file), "{file}");
        }
    }
}
