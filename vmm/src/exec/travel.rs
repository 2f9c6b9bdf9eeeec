//! What a command takes along into the guest, as the command line names it.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// Names and values of `--env`. A variable that this process does not have, the command does not have.
pub(super) fn environment(given: &[String]) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for text in given {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.as_str(), std::env::var(text).ok()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins_well = name.starts_with(|c: char| !c.is_ascii_digit());
        if !begins_well || !name.chars().all(is_name) {
            return Err(Error::Usage(format!("--env {text}: {name:?} is no name of a variable")));
        }
        variables.extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(variables)
}

/// A file or folder of `--add`, and where it goes: to the same absolute path if nothing else is said.
pub(super) fn added(text: &str, folder: &str) -> Result<(PathBuf, String)> {
    let (host, guest) = match text.rsplit_once(':') {
        Some((host, guest)) if !guest.is_empty() => (Path::new(host), in_folder(folder, guest)),
        _ => (Path::new(text), String::new()),
    };
    let failed = |e| Error::Input(format!("--add {text}: {e}")).because(e);
    host.metadata().map_err(failed)?;
    if !guest.is_empty() {
        return Ok((host.into(), guest));
    }
    let absolute = std::path::absolute(host).map_err(failed)?;
    Ok((host.into(), in_folder("/", &absolute.to_string_lossy())))
}

/// The regular file that an argument names, and where the command, which has the same argument, looks for it.
/// What the guest has of its own is not taken.
pub(super) fn named(argument: &str, folder: &str) -> Option<(PathBuf, String)> {
    let path = Path::new(argument);
    let guest = in_folder(folder, argument);
    let own = ["/dev/", "/proc/", "/sys/"].iter().any(|own| guest.starts_with(own));
    (!own && path.is_file()).then(|| (path.into(), guest))
}

/// The absolute path of `path`, which begins in `folder`, without `.` and `..`.
pub(super) fn in_folder(folder: &str, path: &str) -> String {
    let mut absolute = PathBuf::from("/");
    for component in Path::new(folder).join(path).components() {
        match component {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir => _ = absolute.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    absolute.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_as_a_shell_names_them() {
        let given = ["A=b=c", "_1=", "NO_SUCH_VARIABLE_HERE"].map(String::from);
        let expected = [("A", "b=c"), ("_1", "")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(environment(&given).unwrap(), expected);
        for text in ["=a", "1A=b", "A B=c", "", "A;reboot=1"] {
            assert_eq!(environment(&[text.to_owned()]).unwrap_err().status(), 2, "{text:?}");
        }
    }

    #[test]
    fn where_a_path_is_in_the_guest() {
        for (path, absolute) in [
            ("/etc/x", "/etc/x"),
            ("a/b", "/root/a/b"),
            ("./a/../b", "/root/b"),
            ("../../../c", "/c"),
        ] {
            assert_eq!(in_folder("/root", path), absolute);
        }
    }

    /// A file of the host, and none: an option, a folder, what the guest has itself.
    #[test]
    fn an_argument_may_name_a_file() {
        let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        assert_eq!(named(&own, "/root"), Some((own.clone().into(), own.clone())));
        for argument in ["-l", "/etc", "/proc/self/status", "/no/such/file"] {
            assert_eq!(named(argument, "/root"), None, "{argument}");
        }
        let (_, guest) = added(&format!("{own}:there"), "/tmp").unwrap();
        assert_eq!(guest, "/tmp/there");
        assert_eq!(added(&own, "/tmp").unwrap().1, own);
        assert_eq!(added("/no/such/file", "/tmp").unwrap_err().status(), 4);
    }
}
