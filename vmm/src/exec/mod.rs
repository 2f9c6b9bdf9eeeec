//! `vpmu exec`: a command of the host in a Linux guest.

pub mod drivers;
pub mod fetch;
pub mod get;
pub mod guests;
mod travel;

use std::io::{self, IsTerminal};
use std::path::Path;

use self::get::Get;
use self::guests::Guests;
use crate::boot::memory::RamLayout;
use crate::boot::pack::{Packing, Piped, pack_command};
use crate::boot::{Image, Kernel, LinuxEntry, Payload};
use crate::error::{Error, Result};

/// Kernel command line: the console; and without the kernel's tests of its own ciphers, which take two fifths of the
/// time up to the command (`cryptomgr.notests=0` behind it has them back).
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 cryptomgr.notests";
/// More of it: nothing of the kernel's own on the console.
const SILENT: &str = "quiet loglevel=1";
/// More of it if programs get at registers: the driver for MSRs, if it is in the kernel, says nothing of who
/// writes to them.
const WRITES_ALLOWED: &str = "msr.allow_writes=on";

/// What runs, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The kernel; the best one that can be found if none is given.
    pub kernel: Option<&'a Path>,
    /// A static busybox; the best one that can be found if none is given.
    pub busybox: Option<&'a Path>,
    /// More for the kernel's command line.
    pub append: &'a str,
    /// Whether the kernel's messages are shown.
    pub verbose: bool,
    /// The command and its arguments.
    pub command: &'a [String],
    /// Variables for it: `NAME=VALUE`, or `NAME` for one of this process.
    pub environment: &'a [String],
    /// The guest's folder that it starts in.
    pub folder: &'a str,
    /// What is taken along: `FILE`, or `FILE:GUESTPATH`.
    pub added: &'a [String],
    /// Whether files that its arguments name are taken along.
    pub takes_argument_files: bool,
    /// Drivers that are loaded: a name and, behind a blank, parameters.
    pub drivers: &'a [String],
    /// Whether programs get at MSRs and RDPMC.
    pub registers: bool,
    /// What comes back.
    pub gets: &'a [Get],
    /// Which of its standard streams are pipes.
    pub piped: Piped,
    /// Whether the marker of a snapshot comes right before it.
    pub marked: bool,
}

/// Which standard streams of the command are pipes: those that are no terminals here. The console is for the
/// others. If it is not on standard input and output (`on_stdio`), all are; if it is `scripted`, what is
/// typed there is standard input.
#[must_use]
pub fn piped(on_stdio: bool, scripted: bool) -> Piped {
    let is_piped = |is_terminal: bool| !on_stdio || !is_terminal;
    Piped {
        input: !scripted && is_piped(io::stdin().is_terminal()),
        output: is_piped(io::stdout().is_terminal()),
        error: is_piped(io::stderr().is_terminal()),
    }
}

/// The payload that runs a command.
///
/// # Errors
/// No kernel, no such command, or a library of it or a driver is missing.
pub fn payload(request: &Request<'_>, ram: &RamLayout) -> Result<Payload> {
    let Request { command, folder, .. } = *request;
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::Usage("no command to run".into()));
    };
    let environment = travel::environment(request.environment)?;
    if !folder.starts_with('/') {
        return Err(Error::Usage(format!("--cwd {folder}: not an absolute path")));
    }
    let added = request.added.iter().map(|text| travel::added(text, folder));
    let added = added.collect::<Result<Vec<_>>>()?;
    let named: Vec<_> = if request.takes_argument_files {
        arguments.iter().filter_map(|argument| travel::named(argument, folder)).collect()
    } else {
        Vec::new()
    };
    let guests = Guests::find();
    let kernel = guests.kernel(request.kernel)?;
    let image = Image::read_kernel(&kernel, ram)?;
    let drivers = drivers::find(&image, &kernel, &guests, request)?;
    let busybox = guests.busybox(request.busybox);
    let got: Vec<_> =
        request.gets.iter().map(|get| travel::in_folder(folder, &get.guest)).collect();
    let initrd = pack_command(&Packing {
        command: program,
        arguments,
        busybox: busybox.as_deref(),
        packages: guests.packages(),
        piped: request.piped,
        environment: &environment,
        folder,
        added: &added,
        named: &named,
        drivers: &drivers,
        registers: request.registers,
        got: &got,
        marked: request.marked,
        most: ram.size(),
    })?;
    Ok(Payload::Kernel(Kernel {
        image,
        modules: vec![Image { name: format!("initramfs of {program}"), bytes: initrd }.into()],
        command_line: command_line(request),
        entry: LinuxEntry::Auto,
    }))
}

/// What the kernel is told.
fn command_line(request: &Request<'_>) -> String {
    let silent = if request.verbose { "" } else { SILENT };
    let writes = if request.registers { WRITES_ALLOWED } else { "" };
    let parts = [COMMAND_LINE, silent, writes, request.append];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing asked for.
    pub(super) fn request<'a>() -> Request<'a> {
        Request {
            kernel: None,
            busybox: None,
            append: "",
            verbose: false,
            command: &[],
            environment: &[],
            folder: "/root",
            added: &[],
            takes_argument_files: true,
            drivers: &[],
            registers: false,
            gets: &[],
            piped: Piped::default(),
            marked: false,
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let ram = RamLayout::new(2 << 20, None).unwrap();
        assert_eq!(payload(&request(), &ram).unwrap_err().status(), 2);
        let command = ["true".to_owned()];
        let relative = Request { command: &command, folder: "here", ..request() };
        assert_eq!(payload(&relative, &ram).unwrap_err().status(), 2);
    }

    #[test]
    fn the_kernel_is_silent_unless_asked_for() {
        assert_eq!(
            command_line(&request()),
            "console=ttyS0 panic=-1 cryptomgr.notests quiet loglevel=1"
        );
        let loud = Request { append: "lpj=1", verbose: true, registers: true, ..request() };
        let expected = "console=ttyS0 panic=-1 cryptomgr.notests msr.allow_writes=on lpj=1";
        assert_eq!(command_line(&loud), expected);
    }
}
