//! `vpmu test`: runs guest images that say by the debug-exit port whether they have passed.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clap::{Args, Parser};
use pmu_model::Personality;

use super::help::one_line;
use super::job::check_writable;
use super::machine::{CpuName, machine_config};
use super::payload::{RunArgs, payload};
use super::{Cli, Command};
use crate::console::{Console, print};
use crate::debug_dump::DebugDump;
use crate::error::{Error, Result};
use crate::machine::{End, Machine};
use crate::suite::{self, Case, Outcome};
use crate::summary::Summary;
use crate::{config, file, symbols};

/// So many bytes of a guest's output are kept: 1 MiB.
const KEPT: usize = 1 << 20;
/// What a guest's value 0 at the debug-exit port makes the exit status of a run.
const PASSED: u32 = 1;

#[derive(Args)]
pub(super) struct TestArgs {
    /// Images, as `run --kernel` takes them, or raw bytes with @ and their address, as `run --flat` does. One
    /// has passed that writes 0 to the debug-exit port F4h.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    /// Processors, separated by commas, or `all`; `help` lists them.
    #[arg(long, value_name = "LIST", default_value = "k8", value_delimiter = ',', value_parser = CpuName)]
    cpu: Vec<String>,
    /// How many run at once; by default as many as the host has processors.
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// One has failed that takes more than so many seconds of real time.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Write the results there as JUnit's XML too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Options of `run` for each of them.
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

impl TestArgs {
    /// Runs each image on each processor; the status is 1 if any has failed.
    ///
    /// # Errors
    /// The command line is wrong, or the results cannot be written.
    pub(super) fn run(&self) -> Result<u8> {
        let mut cases = Vec::new();
        let mut runs = Vec::new();
        for image in &self.images {
            for cpu in self.processors()? {
                cases.push(Case { cpu, image: image.clone() });
                runs.push(self.arguments(cpu, image)?);
            }
        }
        if let Some(path) = &self.junit {
            check_writable(path)?;
        }
        let host = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let jobs = self.jobs.map_or_else(host, NonZeroUsize::get);
        print(&suite::tap_head(cases.len()))?;
        let report =
            |case: usize, outcome: &Outcome| print(&suite::tap_line(case, &cases[case], outcome));
        let outcomes = suite::run(&cases, jobs, |case| execute(&runs[case]), report)?;
        if let Some(path) = &self.junit {
            file::replace(path, suite::junit(&cases, &outcomes))?;
        }
        Ok(suite::status(&outcomes))
    }

    fn processors(&self) -> Result<Vec<&'static str>> {
        let mut names = Vec::new();
        for cpu in &self.cpu {
            match cpu.eq_ignore_ascii_case("all") {
                true => names.extend(Personality::ALL.iter().map(|personality| personality.name)),
                false => names.push(config::personality(cpu)?.0.name),
            }
        }
        Ok(names)
    }

    /// What `vpmu run` would be told to run an image.
    fn arguments(&self, cpu: &str, image: &str) -> Result<RunArgs> {
        let address = image.rsplit_once('@').and_then(|(_, text)| config::parse_address(text));
        let kind = if address.is_some() { "--flat" } else { "--kernel" };
        let timeout = self.timeout.to_string();
        let words = ["vpmu", "run", "--cpu", cpu, "--timeout", &timeout, kind, image];
        let words = words.into_iter().chain(self.options.iter().map(String::as_str));
        let wrong = |error: clap::Error| Error::Usage(one_line(&error.render().to_string()));
        let Command::Run(run) = Cli::try_parse_from(words).map_err(wrong)?.command else {
            return Err(Error::Usage("only options of `run` can follow --".into()));
        };
        let machine = &run.machine;
        let files = [&machine.stats_file, &machine.truth, &machine.debug_dump];
        if machine.serial.as_os_str() != "stdio"
            || machine.stats.is_some()
            || files.iter().any(|file| file.is_some())
            || machine.trace.trace.is_some()
            || run.snapshot.is_asked_for()
        {
            let text = "--serial, --stats, --stats-file, --truth, --trace, --debug-dump, --save and --load \
                        are for one run";
            return Err(Error::Usage(text.into()));
        }
        Ok(run)
    }
}

/// Runs a guest and judges it.
fn execute(args: &RunArgs) -> Outcome {
    let kept = Kept::default();
    let (failure, diagnosis) = match end_of(args, &kept) {
        Ok((End::Exit(PASSED), _)) => (None, Vec::new()),
        Ok((end, diagnosis)) => (Some(why(end)), diagnosis),
        Err(error) => (Some(error.to_string()), Vec::new()),
    };
    Outcome { failure, diagnosis, console: kept.text() }
}

/// Why an end is no pass.
fn why(end: End) -> String {
    match end {
        End::Exit(status) => format!("the guest reports {}", status >> 1),
        end => end
            .message()
            .unwrap_or_else(|| "the guest switched the machine off without a report".into()),
    }
}

/// How a run ended, and what `run` would say of that.
fn end_of(args: &RunArgs, kept: &Kept) -> Result<(End, Vec<String>)> {
    let config = machine_config(&args.machine, |ram| payload(args, ram))?;
    let symbols = symbols::read_all(&args.machine.symbols)?;
    let mut console = Console::to("the console".into(), Box::new(kept.clone()));
    let mut machine = Machine::new(&config)?;
    let end = machine.run(config.limits, &mut console)?;
    let notes = Summary::new(config.personality, &machine, end).notes;
    let mut lines = match end.is_the_guests_wish() {
        true => Vec::new(),
        false => DebugDump::new(&machine, &config, end, &symbols, &notes).text(),
    };
    lines.extend(notes.iter().map(|note| format!("note: {note}")));
    Ok((end, lines))
}

/// The first [`KEPT`] bytes of what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT - kept.len();
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
