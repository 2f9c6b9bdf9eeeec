//! What packages install beside the program: completions for shells, and manual pages.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::aot;
use clap_mangen::Man;

use crate::console::print;
use crate::error::{Error, Result};
use crate::file;

/// A shell that completes the words of a command line.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Shell {
    /// For /usr/share/bash-completion/completions/vpmu, or to be sourced.
    Bash,
    /// For a file `_vpmu` in a folder of `fpath`.
    Zsh,
    /// For /usr/share/fish/vendor_completions.d/vpmu.fish.
    Fish,
}

#[derive(Args)]
pub(super) struct ManArgs {
    /// The command whose page is printed; by default that of vpmu itself.
    command: Option<String>,
    /// Write all pages there, as vpmu.1, vpmu-run.1 and so on, and print none.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    folder: Option<PathBuf>,
}

/// The script by which a shell completes `command`.
pub(super) fn completions(shell: Shell, mut command: clap::Command) -> String {
    let mut script = Vec::new();
    let (command, out) = (&mut command, &mut script);
    match shell {
        Shell::Bash => aot::generate(aot::Bash, command, "vpmu", out),
        Shell::Zsh => aot::generate(aot::Zsh, command, "vpmu", out),
        Shell::Fish => aot::generate(aot::Fish, command, "vpmu", out),
    }
    String::from_utf8_lossy(&script).into_owned()
}

impl ManArgs {
    /// Prints a page of the manual of `command`, or writes all of them.
    ///
    /// # Errors
    /// No such command, or a folder that cannot be written.
    pub(super) fn run(&self, command: clap::Command) -> Result<()> {
        let mut command = command.disable_help_subcommand(true);
        // Names of pages and their synopses are made from those of the commands above them.
        command.build();
        if let Some(folder) = &self.folder {
            return write_all(&command, folder);
        }
        let page = match &self.command {
            None => &command,
            Some(name) => command.find_subcommand(name).ok_or_else(|| {
                let known: Vec<_> =
                    command.get_subcommands().map(clap::Command::get_name).collect();
                Error::Usage(format!("no command {name:?}; known: {}", known.join(", ")))
            })?,
        };
        print(&self::page(page)?)
    }
}

fn write_all(command: &clap::Command, folder: &Path) -> Result<()> {
    for page in std::iter::once(command).chain(command.get_subcommands()) {
        let name = page.get_display_name().unwrap_or_else(|| page.get_name());
        file::replace(&folder.join(format!("{name}.1")), &self::page(page)?)?;
    }
    Ok(())
}

/// A manual page, for man(1).
fn page(command: &clap::Command) -> Result<String> {
    let mut text = Vec::new();
    let page = Man::new(command.clone()).manual("vpmu");
    page.render(&mut text)
        .map_err(|e| Error::Host(format!("cannot render a page: {e}")).because(e))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
