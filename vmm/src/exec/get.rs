//! Files that a command leaves in the guest, on their way to the host.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::devices::pipes::Part;
use crate::error::{Error, Result};
use crate::file::{self, Replacement};

/// A file that comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// Its path in the guest, as it was asked for.
    pub guest: String,
    /// Where it goes.
    pub host: PathBuf,
}

impl Get {
    /// `GUESTFILE`, which goes to the current folder, or `GUESTFILE:HOSTPATH`; if that is a folder, to there.
    ///
    /// # Errors
    /// The guest's file has no name.
    pub fn parse(text: &str) -> Result<Self> {
        let (guest, host) = text.rsplit_once(':').unwrap_or((text, ""));
        let name = Path::new(guest).file_name().filter(|_| !guest.ends_with('/'));
        let name = name.ok_or_else(|| Error::Usage(format!("--get {text}: not a file's path")))?;
        let host = match host {
            "" => PathBuf::from(name),
            folder if Path::new(folder).is_dir() => Path::new(folder).join(name),
            host => PathBuf::from(host),
        };
        // A device would be replaced by the file.
        if !file::is_replaceable(&host) {
            let name = host.display();
            return Err(Error::Usage(format!("--get {text}: {name} is there and not a file")));
        }
        Ok(Self { guest: guest.into(), host })
    }
}

/// Writes the files as they come, one behind the other. Each is there whole or not at all.
#[derive(Default)]
pub struct Gets {
    /// Those that have not come.
    left: VecDeque<Get>,
    /// What there is of the first of them.
    begun: Option<Replacement>,
    missing: Vec<String>,
}

impl Gets {
    /// These, in this order.
    #[must_use]
    pub fn new(gets: &[Get]) -> Self {
        Self { left: gets.iter().cloned().collect(), ..Self::default() }
    }

    /// Those that have not come whole.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Get> {
        self.left.iter()
    }

    /// More from the guest. What nobody asked for is dropped.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn take(&mut self, parts: Vec<Part>) -> Result<()> {
        for part in parts {
            let Some(get) = self.left.front() else { return Ok(()) };
            match part {
                Part::Bytes(bytes) => {
                    let file = match &mut self.begun {
                        Some(file) => file,
                        none => none.insert(Replacement::new(&get.host)?),
                    };
                    file.write(&bytes)?;
                }
                Part::End { whole: true } => {
                    let file = match self.begun.take() {
                        Some(file) => file,
                        None => Replacement::new(&get.host)?,
                    };
                    file.finish()?;
                    self.left.pop_front();
                }
                Part::End { whole: false } => {
                    self.begun = None;
                    self.missing.extend(self.left.pop_front().map(|get| get.guest));
                }
            }
        }
        Ok(())
    }

    /// The guest's paths of those that have not come: that it could not read, or did not come to.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().chain(self.left.iter().map(|get| &get.guest)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn where_a_file_goes() {
        let parsed = |text: &str| Get::parse(text).map(|get| (get.guest, get.host));
        for (text, guest, host) in [
            ("perf.data", "perf.data", "perf.data"),
            ("/tmp/a", "/tmp/a", "a"),
            ("/tmp/a:b/c", "/tmp/a", "b/c"),
            ("x/no-such-name:/", "x/no-such-name", "/no-such-name"),
        ] {
            assert_eq!(parsed(text).unwrap(), (guest.into(), host.into()), "{text}");
        }
        for text in ["", "/", "/tmp/", "..", ":x", "/tmp/a:/dev/null"] {
            assert_eq!(parsed(text).unwrap_err().status(), 2, "{text:?}");
        }
    }

    /// The first comes in two pieces, the second cannot be read, the third is empty, the fourth breaks off;
    /// then there are two more than were asked for.
    #[test]
    fn files_come_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("vpmu-gets-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let gets = ["a", "b", "c", "d", "e"];
        let gets = gets.map(|name| Get { guest: format!("/{name}"), host: folder.join(name) });
        fs::write(folder.join("d"), "before").unwrap();
        let mut taken = Gets::new(&gets);
        let (bytes, end) = (|text: &str| Part::Bytes(text.into()), |whole| Part::End { whole });
        taken.take(vec![bytes("one ")]).unwrap();
        let parts = vec![bytes("two"), end(true), end(false), end(true), bytes("half"), end(false)];
        taken.take(parts).unwrap();
        let missing: Vec<_> = taken.missing().map(String::from).collect();
        taken.take(vec![end(true), bytes("more"), end(true)]).unwrap();
        let left: Vec<_> = taken.missing().map(String::from).collect();
        let content = |name| fs::read_to_string(folder.join(name)).ok();
        let contents = ["a", "b", "c", "d", "e"].map(content);
        let count = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        let expected = [Some("one two"), None, Some(""), Some("before"), Some("")];
        assert_eq!(contents, expected.map(|text| text.map(String::from)));
        assert_eq!(
            (missing, left),
            (vec!["/b".into(), "/d".into(), "/e".into()], vec!["/b".into(), "/d".into()])
        );
        assert_eq!(count, 4);
    }
}
