//! The command line.

mod exec;
mod fuzz;
mod help;
mod invocation;
mod job;
mod machine;
mod pages;
mod payload;
mod snapshot;
mod test;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::exec::{ExecArgs, FetchArgs};
use self::fuzz::{FuzzArgs, ReplayArgs};
use self::help::{answer, examples, examples_and_statuses};
use self::invocation::Invocation;
use self::job::{Job, Report, supervised};
use self::machine::{CpuName, Stats};
use self::pages::{ManArgs, Shell, completions};
use self::payload::{RunArgs, StatArgs, payload};
use self::test::TestArgs;
use crate::boot::memory::RamLayout;
use crate::console::print;
use crate::error::{Error, Result, status};
use crate::reference::Page;
use crate::truth::command::TruthArgs;
use crate::{config, demo, events, explain, list, stat};

/// A full-system x86 PMU emulator: guests see, and program, the performance counters of another processor.
#[derive(Parser)]
#[command(name = "vpmu", version, after_help = examples_and_statuses("vpmu"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a guest.
    #[command(after_help = examples_and_statuses("run"))]
    Run(RunArgs),
    /// Run a guest and count from outside what it does, whatever it programs itself.
    #[command(after_help = examples_and_statuses("stat"))]
    Stat(StatArgs),
    /// List the processors, a line each.
    #[command(after_help = examples("list"))]
    List {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// List the events of a processor.
    #[command(after_help = examples("events"))]
    Events(EventsArgs),
    /// Put a PMU register value into words, or words into an event-select value.
    #[command(after_help = examples("explain"))]
    Explain(ExplainArgs),
    /// Print a page of the documentation that is made from the data, in Markdown.
    #[command(after_help = examples("reference"))]
    Reference {
        /// The page.
        page: Page,
    },
    /// Report what a truth file tells: which code was executed how often, and who called it.
    #[command(after_help = examples("truth"))]
    Truth(TruthArgs),
    /// Run guest images that test something, on processors of choice, and report in TAP.
    #[command(after_help = examples("test"))]
    Test(TestArgs),
    /// Print the script by which a shell completes the words of a command line.
    #[command(after_help = examples("completions"))]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a page of the manual, for man(1).
    #[command(after_help = examples("man"))]
    Man(ManArgs),
    /// Run a command of the host in a Linux guest.
    #[command(after_help = examples_and_statuses("exec"))]
    Exec(ExecArgs),
    /// Get a kernel, busybox, perf and LIKWID of Debian for `exec`.
    #[command(after_help = examples("fetch"))]
    Fetch(FetchArgs),
    /// Fuzz vpmu with generated inputs, or make a find shorter.
    #[command(after_help = examples("fuzz"))]
    Fuzz(FuzzArgs),
    /// Play the finds of `fuzz` again, and say in words what they do and what does not hold.
    #[command(after_help = examples("replay"))]
    Replay(ReplayArgs),
}

#[derive(Args)]
struct EventsArgs {
    /// Processor, or `all`; `help` lists them.
    #[arg(long, default_value = "k8", value_parser = CpuName)]
    cpu: String,
    /// Part of a name, by the manual, perf, libpfm4, OProfile, perfctr or LIKWID; or a code in hexadecimal.
    pattern: Option<String>,
    /// As a JSON array.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ExplainArgs {
    /// Processor; `help` lists them.
    #[arg(long, default_value = "k8", value_parser = CpuName)]
    cpu: String,
    /// Register: its name, or its number in hexadecimal.
    #[arg(required_unless_present = "encode", requires = "value")]
    msr: Option<String>,
    /// Value in hexadecimal.
    value: Option<String>,
    /// Event and modifiers, as in RETIRED_BRANCH_INSTRUCTIONS:u:int; `help` lists the modifiers.
    #[arg(long, value_name = "WORDS", conflicts_with = "msr")]
    encode: Option<String>,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let result = match parsed(std::env::args_os()) {
        Ok((cli, invocation)) => {
            env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"))
                .format_timestamp(None)
                .init();
            dispatch(cli.command, &invocation)
        }
        Err(error) => answer(&error),
    };
    ExitCode::from(result.unwrap_or_else(|error| {
        // Standard error may be gone; there is nowhere else to say so.
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("vpmu: {error}\n"));
        error.status()
    }))
}

/// The command line, and the same as it goes into the statistics of a run.
fn parsed(
    words: impl IntoIterator<Item = OsString>,
) -> std::result::Result<(Cli, Invocation), clap::Error> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let chosen = matches.subcommand();
    let chosen = chosen.and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)));
    let (command, matches) = chosen.unwrap_or((&command, &matches));
    Ok((cli, Invocation::new(command, matches)))
}

fn dispatch(command: Command, invocation: &Invocation) -> Result<u8> {
    match command {
        Command::Run(args) if args.demo.as_deref() == Some("list") => {
            let lines: Vec<_> =
                demo::ALL.iter().map(|demo| format!("{}: {}\n", demo.name, demo.about)).collect();
            print(&lines.concat())?;
            Ok(status::POWER_OFF)
        }
        Command::Run(args) => {
            let payload = |ram: &RamLayout| payload(&args, ram);
            let report = Report::Statistics(Stats::Table);
            let (machine, status, snapshot) = (&args.machine, args.status(), Some(&args.snapshot));
            supervised(Job { machine, invocation, report, snapshot, exec: None, status }, payload)
        }
        Command::Stat(args) => {
            let StatArgs { run, events, metrics, per_cpu, json } = &args;
            let (events, (metrics, per_cpu, json)) =
                (events.as_deref(), (*metrics, *per_cpu, *json));
            let asked = stat::Asked { events, metrics, per_cpu, json };
            let payload = |ram: &RamLayout| payload(run, ram);
            let report = Report::Counted(asked);
            let (machine, status, snapshot) = (&run.machine, run.status(), Some(&run.snapshot));
            supervised(Job { machine, invocation, report, snapshot, exec: None, status }, payload)
        }
        Command::List { json } => {
            print(&list::list(json)?)?;
            Ok(status::POWER_OFF)
        }
        Command::Events(args) => {
            let personalities = events::personalities(&args.cpu)?;
            print(&events::list(&personalities, args.pattern.as_deref(), args.json)?)?;
            Ok(status::POWER_OFF)
        }
        Command::Explain(args) => {
            let (personality, _) = config::personality(&args.cpu)?;
            let text = match (&args.encode, &args.msr, &args.value) {
                (Some(words), _, _) if words == "help" => explain::modifiers(personality),
                (Some(words), _, _) => explain::encode(personality, words)?,
                (None, Some(msr), Some(value)) => explain::decode(personality, msr, value)?,
                _ => return Err(Error::Usage("explain needs a register and a value".into())),
            };
            print(&text)?;
            Ok(status::POWER_OFF)
        }
        Command::Reference { page } => {
            print(&page.text())?;
            Ok(status::POWER_OFF)
        }
        Command::Test(args) => args.run(),
        Command::Completions { shell } => {
            print(&completions(shell, Cli::command()))?;
            Ok(status::POWER_OFF)
        }
        Command::Man(args) => {
            args.run(Cli::command())?;
            Ok(status::POWER_OFF)
        }
        Command::Truth(args) => {
            args.run()?;
            Ok(status::POWER_OFF)
        }
        Command::Exec(args) => args.run(invocation),
        Command::Fetch(args) => args.run(),
        Command::Fuzz(args) => args.run(),
        Command::Replay(args) => args.run(),
    }
}

#[cfg(test)]
mod tests;
