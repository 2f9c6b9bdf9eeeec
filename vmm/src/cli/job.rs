//! A run, from the machine that the command line asks for to the reports behind its end.

use std::path::Path;
use std::time::Duration;

use super::invocation::Invocation;
use super::machine::{MachineArgs, Stats, machine_config};
use super::snapshot::{SnapshotArgs, machine_of_snapshot};
use crate::boot::Payload;
use crate::boot::memory::RamLayout;
use crate::config::Config;
use crate::console::{Console, print_last};
use crate::debug_dump::DebugDump;
use crate::error::{Error, Result, status};
use crate::exec::Request;
use crate::gdb::Debugger;
use crate::machine::{End, Machine};
use crate::output::{say, say_all};
use crate::progress::Progress;
use crate::stop::{Stop, Watch};
use crate::summary::Summary;
use crate::symbols::{self, GuestMemory, Sources, SymbolFile};
use crate::terminal::RawMode;
use crate::trace::Tracer;
use crate::truth::Truth;
use crate::truth::record::Recorder;
use crate::{file, stat};

/// What is reported at the end.
#[derive(Clone, Copy)]
pub(super) enum Report<'a> {
    /// The counters that the guest programmed, in this form unless the command line says otherwise.
    Statistics(Stats),
    /// What was counted from outside.
    Counted(stat::Asked<'a>),
}

/// A run that the command line asks for, without what runs.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) machine: &'a MachineArgs,
    pub(super) invocation: &'a Invocation,
    pub(super) report: Report<'a>,
    /// What is read and written of snapshots, if that can be.
    pub(super) snapshot: Option<&'a SnapshotArgs>,
    /// If it runs a command: what is asked for.
    pub(super) exec: Option<&'a Request<'a>>,
    /// The exit status for an end.
    pub(super) status: fn(End) -> u8,
}

/// Runs a machine, reports, and gives the status for the end. The time limit holds for all of it,
/// from the reading of files to the last line.
pub(super) fn supervised(
    job: Job<'_>,
    payload: impl FnOnce(&RamLayout) -> Result<Payload>,
) -> Result<u8> {
    let stop = Stop::new()?;
    let watch = Watch::process(&stop, job.machine.timeout.map(Duration::from_secs))?;
    Ok(match run(job, payload, &stop, &watch) {
        Ok(status) => status,
        Err(error) => {
            say(&error.to_string(), &stop);
            error.status()
        }
    })
}

/// The same, but for what a failure means.
fn run(
    job: Job<'_>,
    payload: impl FnOnce(&RamLayout) -> Result<Payload>,
    stop: &Stop,
    watch: &Watch,
) -> Result<u8> {
    let Job { machine: args, exec, .. } = job;
    let snapshot = job.snapshot;
    snapshot.map_or(Ok(()), |snapshot| snapshot.check(args.engine.into()))?;
    let config = match snapshot.and_then(|snapshot| snapshot.load.as_deref()) {
        Some(path) => machine_of_snapshot(args, path, exec.is_some())?,
        None => Config { pipes: exec.is_some(), ..machine_config(args, payload)? },
    };
    // A file that cannot be written is better known before a long run than after it.
    let gets = exec.map_or(&[][..], |exec| exec.gets);
    let files = args.stats_file.iter().chain(&args.truth).chain(&args.debug_dump);
    let files = files.chain(snapshot.and_then(|snapshot| snapshot.save.as_ref()));
    let files = files.chain(args.trace.file());
    let traced = args.trace.asked(args, job.reports(), exec.is_some())?;
    for path in files.chain(gets.iter().map(|get| &get.host)) {
        check_writable(path)?;
    }
    let listen = |address| Debugger::listen(address, job.status, stop);
    let debugger = args.gdb.as_ref().map(listen).transpose()?;
    let symbols = symbols::read_all(&args.symbols)?;
    let mut machine = Machine::new(&config)?;
    job.record(&mut machine, &config)?;
    if let Some(asked) = traced {
        machine.trace(Tracer::new(&asked, machine.subject(config.personality), stop)?);
    }
    let announcements = [config.isa.announcement(config.platform), config.payload.announcement()];
    for text in announcements.iter().flatten().chain(&machine.choice().warning) {
        say(text, stop);
    }
    let mut console = job.console(stop)?;
    let raw = if args.is_console_on_stdio() { RawMode::enter()? } else { None };
    let progress = if args.quiet { None } else { Progress::on_terminal(console.is_on_terminal()) };
    machine.show_progress(progress);
    watch.begins();
    let end = match &debugger {
        Some(debugger) => {
            debugger.run(&mut machine, stop, config.limits.instructions, &mut console)
        }
        None => job.run_and_save(&mut machine, &config, stop, &mut console),
    };
    drop(raw);
    let traced = machine.end_trace();
    let status = Ended { job, config, symbols, machine, console, end: end?, stop }.report()?;
    traced.map(|()| status)
}

impl Job<'_> {
    /// Whether it writes something behind the end.
    fn reports(&self) -> bool {
        matches!(self.report, Report::Counted(_)) || self.statistics() != Stats::None
    }

    /// In which form statistics are written.
    fn statistics(&self) -> Stats {
        match (self.machine.stats, self.report) {
            (Some(chosen), _) | (None, Report::Statistics(chosen)) => chosen,
            (None, Report::Counted(_)) => Stats::None,
        }
    }

    /// Runs the machine to its end, and writes the snapshots that are asked for on the way.
    fn run_and_save(
        &self,
        machine: &mut Machine,
        config: &Config,
        stop: &Stop,
        console: &mut Console,
    ) -> Result<End> {
        let Some(SnapshotArgs { save: Some(path), save_at, .. }) = self.snapshot else {
            return machine.run_until(stop, config.limits.instructions, console);
        };
        if let Some(point) = save_at {
            machine.pause_at(point.pause(config.clock_hz));
        }
        stop.pause_on_signal();
        let mut saved = false;
        loop {
            match machine.run_until(stop, config.limits.instructions, console)? {
                End::Paused => machine.snapshot().write(path)?,
                end => {
                    if save_at.is_some() && !saved {
                        say("the run did not come to --save-at: no snapshot was written", stop);
                    }
                    return Ok(end);
                }
            }
            saved = true;
        }
    }

    /// Has recorded what is reported of the run beside the counters of the guest.
    fn record(&self, machine: &mut Machine, config: &Config) -> Result<()> {
        let counted = match self.report {
            Report::Counted(asked) => Some(asked.recorded(config.personality)),
            Report::Statistics(_) => None,
        };
        let truth = self.machine.truth.is_some().then(|| self.machine.truth_events.clone());
        let events: Vec<_> = counted.into_iter().chain(truth).collect();
        if events.is_empty() {
            return Ok(());
        }
        machine.record(Recorder::new(config.personality, &events.join(","))?)
    }

    /// What the guest writes to and reads from.
    fn console(&self, stop: &Stop) -> Result<Console> {
        let (args, stdio) = (self.machine, self.machine.is_console_on_stdio());
        let console = match self.exec.map(|exec| exec.piped) {
            Some(piped) if stdio => Console::of_command(piped, stop)?,
            Some(piped) => Console::file(&args.serial, stop)?.with_pipes(piped, stop)?,
            None if stdio => Console::stdio(stop)?,
            None => Console::file(&args.serial, stop)?,
        };
        Ok(console.with_files(self.exec.map_or(&[][..], |exec| exec.gets)))
    }
}

/// A run that has ended.
struct Ended<'a> {
    job: Job<'a>,
    config: Config,
    symbols: Vec<SymbolFile>,
    machine: Machine,
    console: Console,
    end: End,
    stop: &'a Stop,
}

impl Ended<'_> {
    /// Says how it ended, writes the reports that are asked for, and gives the exit status.
    fn report(&mut self) -> Result<u8> {
        let summary = Summary::new(self.config.personality, &self.machine, self.end);
        self.tell(&summary)?;
        let counted = self.recorded()?;
        let lost = self.console.lost();
        let lost = self.print(counted, &summary, lost)?;
        let (end, stop) = (self.end, self.stop);
        let Some(lost) = lost else { return Ok(self.status()) };
        // Nothing is lost but by a stop.
        let cut_off = stop.cause().map_or(end, End::from);
        if let Some(text) = cut_off.message().filter(|_| cut_off != end) {
            say(&text, stop);
        }
        say(&lost, stop);
        Ok(if cut_off == end { self.status() } else { cut_off.status() })
    }

    /// A file that did not come is an error where there is no other.
    fn status(&self) -> u8 {
        match (self.job.status)(self.end) {
            status::POWER_OFF if self.console.missing_files().next().is_some() => status::INPUT,
            status => status,
        }
    }

    /// Says how the run ended and what is worth knowing of it, and writes the debug dump.
    fn tell(&self, summary: &Summary) -> Result<()> {
        let (end, notes) = (self.end, &summary.notes);
        let file = self.job.machine.debug_dump.as_deref();
        let dumped = file.is_some() || !end.is_the_guests_wish();
        let (dump, mut lines) = self.stop.computing(|| {
            let dump = || DebugDump::new(&self.machine, &self.config, end, &self.symbols, notes);
            let dump = dumped.then(dump);
            let lines = dump.as_ref().filter(|_| !end.is_the_guests_wish()).map(DebugDump::text);
            (dump, lines.unwrap_or_default())
        });
        lines.splice(0..0, end.message());
        if let Some(text) = self.machine.awaited() {
            lines.push(format!(
                "the guest never printed {text:?}, for which the console input waits"
            ));
        }
        let missing =
            |file: &str| format!("--get {file}: the guest has no such file, or did not give it");
        lines.extend(self.console.missing_files().map(missing));
        lines.extend(notes.iter().map(|note| format!("note: {note}")));
        say_all(lines, self.stop);
        if let (Some(path), Some(dump)) = (file, dump) {
            write_text(path, &dump.json()?, self.stop)?;
        }
        Ok(())
    }

    /// Writes the truth file; what was counted from outside, if that is the report.
    fn recorded(&mut self) -> Result<Option<String>> {
        let truth = self.machine.recorded()?;
        let counted = match (self.job.report, &truth) {
            (Report::Counted(asked), Some(truth)) => {
                let threads = self.config.platform.threads_per_core.min(self.config.cpus);
                Some(asked.report(self.config.personality, threads.into(), truth))
            }
            _ => None,
        };
        if let (Some(path), Some(truth)) = (&self.job.machine.truth, truth) {
            write_truth(path, truth, &self.symbols, &self.machine, &self.config)?;
        }
        Ok(counted)
    }

    /// Writes what was counted from outside and the statistics; what of the output nobody took, which may
    /// have been `lost` before.
    fn print(
        &self,
        counted: Option<String>,
        summary: &Summary,
        mut lost: Option<String>,
    ) -> Result<Option<String>> {
        let args = self.job.machine;
        let statistics = match self.job.statistics() {
            Stats::Table => Some(summary.table()),
            Stats::Json => Some(self.job.invocation.statistics(summary)?),
            Stats::None => None,
        };
        let file = args.stats_file.as_deref();
        let reports = match (counted, statistics) {
            // A file of statistics has nothing else in it.
            (Some(counted), Some(text)) if file.is_some() => vec![(None, counted), (file, text)],
            (counted, text) => {
                let all = counted.into_iter().chain(text).reduce(|all, more| all + "\n" + &more);
                all.map(|all| (file, all)).into_iter().collect()
            }
        };
        for (file, text) in reports {
            let lost_last = match file {
                Some(path) => write_text(path, &text, self.stop)?,
                // What a blocked reader does not get begins with the first byte.
                None if args.is_console_on_stdio() && lost.is_some() => None,
                None => print_last(&text, None, self.stop)?,
            };
            lost = lost.or(lost_last);
        }
        Ok(lost)
    }
}

/// Writes a report to a file, a pipe or a device; what of it nobody took, if anything.
fn write_text(path: &Path, text: &str, stop: &Stop) -> Result<Option<String>> {
    if file::is_replaceable(path) {
        return file::replace(path, text).map(|()| None);
    }
    print_last(text, Some(path), stop)
}

/// Writes what was recorded, with the names of what was executed.
fn write_truth(
    path: &Path,
    mut truth: Truth,
    files: &[SymbolFile],
    machine: &Machine,
    config: &Config,
) -> Result<()> {
    let ranges = config.ram.ranges();
    let read = |address: u64, bytes: &mut [u8]| machine.read_physical(address, bytes);
    let memory = GuestMemory { ranges: &ranges, read: &read };
    let payload = Some(&config.payload);
    symbols::attach(&mut truth, &Sources { memory: Some(memory), payload, files })?;
    truth.write(path)
}

/// The folder must be there and the file, if there, writable and no folder. A pipe or a device is not
/// opened: its other end would see it.
pub(super) fn check_writable(path: &std::path::Path) -> Result<()> {
    if !file::is_replaceable(path) && !path.is_dir() {
        return Ok(());
    }
    let failed = |e| Error::cannot_write(path.display(), e);
    let existed = path.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    if !existed {
        std::fs::remove_file(path).map_err(failed)?;
    }
    Ok(())
}
