//! `vpmu fetch`: packages for `vpmu exec`, by the recipe that the tests' guests are made by.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::guests;
use crate::error::{Error, Result, status};

/// The recipe, and the versions of the packages.
const RECIPE: [(&str, &str); 2] = [
    ("fetch", include_str!("../../../guest-tests/linux/fetch")),
    ("versions", include_str!("../../../guest-tests/linux/versions")),
];

/// Gets packages to `folder`, or to the cache; those of the tests, or what `suite`, a release of Debian, has
/// now. The status is the recipe's, which says itself what it lacks.
///
/// # Errors
/// There is no cache, or the host refuses.
pub fn fetch(suite: Option<&str>, folder: Option<&Path>) -> Result<u8> {
    let cache = guests::cache();
    let nowhere = || Error::Usage("neither XDG_CACHE_HOME nor HOME is set; see --folder".into());
    let folder = folder.or(cache.as_deref()).ok_or_else(nowhere)?;
    let recipe = folder.join("recipe");
    let failed = |e| Error::cannot_write(recipe.display(), e);
    fs::create_dir_all(&recipe).map_err(failed)?;
    for (name, text) in RECIPE {
        fs::write(recipe.join(name), text).map_err(failed)?;
    }
    let mut command = Command::new("sh");
    command.arg(recipe.join("fetch")).env("GUESTS", folder);
    if let Some(suite) = suite {
        command.args(["--suite", suite]);
    }
    let end = command.status().map_err(|e| Error::Host(format!("sh: {e}")).because(e))?;
    Ok(match end.code() {
        Some(0) => status::POWER_OFF,
        Some(2) => status::USAGE,
        _ => status::HOST,
    })
}
