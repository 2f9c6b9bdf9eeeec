//! The command line of `vpmu-fuzz`, which is that of `vpmu fuzz` and `vpmu replay`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Command, FromArgMatches};

use crate::driver::{Campaign, Played, TARGETS, Target, files_of};
use crate::find;

/// Inputs that are generated where nothing says how many.
const RUNS: u64 = 10_000;

/// Plays the inputs of files, or generates inputs until one fails.
#[derive(Args)]
struct TargetArgs {
    /// Play these inputs, and those of these directories, and generate none.
    #[arg(value_name = "FILE", conflicts_with_all = ["runs", "seconds"])]
    paths: Vec<PathBuf>,
    /// Generate so many inputs [default: 10000, or as many as --seconds allows].
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Generate inputs for so long.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// The seed of the first job; the same seed gives the same inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads, each with the seed behind that of the one before.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u64,
    /// Where the input that fails is written.
    #[arg(long, value_name = "DIRECTORY", default_value = "finds")]
    finds: PathBuf,
}

/// Plays a find again, and says in words what it does and what does not hold.
#[derive(Args)]
struct ReplayArgs {
    /// Finds, inputs of a corpus, or directories of these.
    #[arg(value_name = "FILE", required = true)]
    paths: Vec<PathBuf>,
}

/// Makes a find as short as it can be with something still not holding.
#[derive(Args)]
struct MinimiseArgs {
    /// The find.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Where the shorter one goes [default: FILE.min].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn command() -> Command {
    let targets = TARGETS
        .map(|target| TargetArgs::augment_args(Command::new(target.name)).about(target.about));
    Command::new("vpmu-fuzz")
        .about("Fuzzes vpmu: see fuzz/README.md")
        .subcommand_required(true)
        .subcommand_value_name("TARGET|replay|minimise")
        .subcommands(targets)
        .subcommand(ReplayArgs::augment_args(Command::new("replay")))
        .subcommand(MinimiseArgs::augment_args(Command::new("minimise")))
}

/// Why nothing is done, or what came of it.
#[derive(Debug)]
pub enum Error {
    /// The arguments are wrong, in one line.
    Usage(String),
    /// A file that cannot be read or written, or what does not hold, in words.
    Failed(String),
}

impl From<String> for Error {
    fn from(words: String) -> Self {
        Self::Failed(words)
    }
}

/// Does what the arguments say; what is to be printed.
///
/// # Errors
/// The arguments are wrong, a file cannot be read or written, or something does not hold.
pub fn run(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<String, Error> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        // What is asked for, or what there is where nothing is.
        Err(error) if !error.use_stderr() || error.kind() == ErrorKind::MissingSubcommand => {
            error.exit()
        }
        Err(error) => return Err(Error::Usage(one_line(&error))),
    };
    // It is told as a failure, with the input.
    std::panic::set_hook(Box::new(|_| {}));
    let parsed = |error: clap::Error| Error::Usage(one_line(&error));
    let words = match matches.subcommand() {
        Some(("replay", matches)) => {
            replay(&ReplayArgs::from_arg_matches(matches).map_err(parsed)?)
        }
        Some(("minimise", matches)) => {
            minimise(&MinimiseArgs::from_arg_matches(matches).map_err(parsed)?)
        }
        Some((name, matches)) => {
            fuzz(name, &TargetArgs::from_arg_matches(matches).map_err(parsed)?)
        }
        None => Err("no target".into()),
    };
    Ok(words?)
}

/// What is wrong with the arguments: clap's first paragraph, or which targets there are.
fn one_line(error: &clap::Error) -> String {
    let what = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(name)) => {
            let targets = TARGETS.map(|target| target.name).join(", ");
            format!("no target {name}; there are {targets}, and replay and minimise")
        }
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let what = text.split("\n\n").next().unwrap_or_default();
            what.split_whitespace().collect::<Vec<_>>().join(" ")
        }
    };
    what + "; see vpmu-fuzz --help"
}

fn fuzz(name: &str, args: &TargetArgs) -> Result<String, String> {
    let target = Target::named(name).ok_or_else(|| format!("no target {name}"))?;
    (target.needs)()?;
    if !args.paths.is_empty() {
        let (files, operations) = target.replay(&args.paths)?;
        return Ok(format!("{files} inputs, {operations} operations"));
    }
    let runs = args.runs.unwrap_or(if args.seconds.is_some() { u64::MAX } else { RUNS });
    let time = args.seconds.map(Duration::from_secs);
    let campaign = Campaign { runs, time, seed: args.seed, jobs: args.jobs };
    let shows = io::stderr().is_terminal();
    let outcome = target.campaign(campaign, |played, elapsed| {
        if shows {
            let rate = played.inputs as f64 / elapsed.as_secs_f64();
            eprint!("\r{}: {} inputs, {rate:.0} a second ", target.name, played.inputs);
            // A terminal that is gone sees nothing.
            let _ = io::stderr().flush();
        }
    });
    if shows {
        eprint!("\r\x1b[K");
    }
    match outcome {
        Ok(Played { inputs, operations }) => {
            Ok(format!("{inputs} inputs, {operations} operations"))
        }
        Err(find) => {
            let path = find::write(&args.finds, &target, &find)?;
            let (seed, run) = find.origin;
            let report = target.report(&find.bytes, &find.failure);
            Err(format!("{report}\ninput {run} of seed {seed}, written to {}", path.display()))
        }
    }
}

fn replay(args: &ReplayArgs) -> Result<String, String> {
    let mut files = Vec::new();
    for path in &args.paths {
        files_of(path, &mut files).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let alone = files.len() == 1;
    let mut failures = 0;
    let mut words = String::new();
    for file in &files {
        let (target, input) = find::read(file)?;
        (target.needs)()?;
        let played = target.play(&input);
        failures += u64::from(played.is_err());
        match played {
            Err(failure) => {
                words += &format!("{}:\n{}\n", file.display(), target.report(&input, &failure));
            }
            Ok(operations) if alone => {
                let input = (target.words)(&input);
                words += &format!("{}\n{operations} operations, all holds\n", input.trim_end());
            }
            Ok(_) => {}
        }
    }
    match failures {
        0 if alone => Ok(words.trim_end().into()),
        0 => Ok(format!("{} inputs, all hold", files.len())),
        _ => Err(format!("{words}{failures} of {} inputs fail", files.len())),
    }
}

fn minimise(args: &MinimiseArgs) -> Result<String, String> {
    let (target, input) = find::read(&args.path)?;
    (target.needs)()?;
    if target.play(&input).is_ok() {
        return Err(format!("{}: nothing fails", args.path.display()));
    }
    let least = target.minimised(&input);
    let output = args.output.clone().unwrap_or_else(|| with_min(&args.path));
    find::write_to(&output, &target, &least)?;
    let failure = target.play(&least).err().unwrap_or_default();
    Ok(format!(
        "{}\n{} bytes of {}, written to {}",
        target.report(&least, &failure),
        least.len(),
        input.len(),
        output.display()
    ))
}

fn with_min(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".min");
    name.into()
}
