//! `vpmu exec` and `vpmu fetch`.

use std::path::PathBuf;

use clap::Args;

use super::invocation::Invocation;
use super::job::{Job, Report, supervised};
use super::machine::{MachineArgs, Stats};
use super::snapshot::{SavePoint, SnapshotArgs};
use crate::boot::memory::RamLayout;
use crate::boot::pack::Piped;
use crate::error::Result;
use crate::exec::get::Get;
use crate::exec::{self, Request, fetch};
use crate::machine::End;

#[derive(Args)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    snapshot: SnapshotArgs,
    /// Linux kernel; by default that of VPMU_KERNEL, the newest one that `vpmu fetch` or
    /// guest-tests/linux/fetch got, or the host's own.
    #[arg(long, value_name = "FILE", conflicts_with = "load")]
    kernel: Option<PathBuf>,
    /// Static busybox; by default that of VPMU_BUSYBOX, the fetched one, or the one in PATH.
    #[arg(long, value_name = "FILE", conflicts_with = "load")]
    busybox: Option<PathBuf>,
    /// More for the kernel command line.
    #[arg(long, value_name = "STR", default_value = "", conflicts_with = "load")]
    append: String,
    /// Show the kernel's messages, on the console.
    #[arg(long, conflicts_with = "load")]
    verbose: bool,
    /// Set a variable of the command's environment, or take over one of this process.
    #[arg(long = "env", value_name = "NAME[=VALUE]", conflicts_with = "load")]
    environment: Vec<String>,
    /// The guest's folder that the command starts in.
    #[arg(long = "cwd", value_name = "DIR", default_value = "/root", conflicts_with = "load")]
    folder: String,
    /// Take along a file or a folder, to the same path or to another.
    #[arg(long = "add", value_name = "FILE|DIR[:GUESTPATH]", conflicts_with = "load")]
    added: Vec<String>,
    /// Do not take along the files that arguments name.
    #[arg(long, conflicts_with = "load")]
    no_arg_files: bool,
    /// Get a file when the command has ended, to the current folder or to another path.
    #[arg(long = "get", value_name = "GUESTFILE[:HOSTPATH]")]
    gets: Vec<String>,
    /// Load a module of the kernel's package, and those that it needs; its parameters behind a blank.
    #[arg(long = "module", value_name = "NAME[ PARAMETERS]", conflicts_with = "load")]
    drivers: Vec<String>,
    /// Let programs get at the processor's registers: /dev/cpu/0/msr, and RDPMC where the kernel has a driver
    /// for the PMU.
    #[arg(long = "msr", conflicts_with = "load")]
    registers: bool,
    /// The command with its arguments; with --load it is that of the snapshot.
    #[arg(
        last = true,
        required_unless_present = "load",
        conflicts_with = "load",
        value_name = "CMD"
    )]
    command: Vec<String>,
}

impl ExecArgs {
    /// Runs the command; its status.
    ///
    /// # Errors
    /// The command line is wrong.
    pub(super) fn run(&self, invocation: &Invocation) -> Result<u8> {
        let (machine, snapshot) = (&self.machine, &self.snapshot);
        let gets = self.gets.iter().map(|text| Get::parse(text)).collect::<Result<Vec<_>>>()?;
        let request = Request {
            kernel: self.kernel.as_deref(),
            busybox: self.busybox.as_deref(),
            append: &self.append,
            verbose: self.verbose,
            command: &self.command,
            environment: &self.environment,
            folder: &self.folder,
            added: &self.added,
            takes_argument_files: !self.no_arg_files,
            drivers: &self.drivers,
            registers: self.registers,
            gets: &gets,
            piped: if snapshot.is_asked_for() {
                // Who goes on may have other streams.
                Piped { input: machine.input.is_none(), output: true, error: true }
            } else {
                exec::piped(machine.is_console_on_stdio(), machine.input.is_some())
            },
            marked: snapshot.save_at == Some(SavePoint::Marker),
        };
        let payload = |ram: &RamLayout| exec::payload(&request, ram);
        let report = Report::Statistics(Stats::None);
        let (exec, status) = (Some(&request), End::status_as_reported);
        supervised(
            Job { machine, invocation, report, snapshot: Some(snapshot), exec, status },
            payload,
        )
    }
}

#[derive(Args)]
pub(super) struct FetchArgs {
    /// Release of Debian, by its code name; by default the one whose packages this program was tested with.
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Where they go; by default $XDG_CACHE_HOME/vpmu, where `exec` looks.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl FetchArgs {
    /// Gets the packages; prints where kernel, busybox and perf are.
    ///
    /// # Errors
    /// The host lacks a program, or there is no place for the packages.
    pub(super) fn run(&self) -> Result<u8> {
        fetch::fetch(self.suite.as_deref(), self.folder.as_deref())
    }
}
