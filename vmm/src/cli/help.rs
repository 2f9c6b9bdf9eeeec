//! What the command line says of itself: examples of the commands, help in colour, and one line for what
//! is wrong with an invocation.

use clap::error::ErrorKind;

use crate::console::print;
use crate::error::{Error, Result, status};

/// Exit statuses, for `--help`.
pub(super) const STATUSES: &str = "\
Exit status:
  odd  the guest's own: value * 2 + 1 for a value written to the debug-exit port F4h
       (`--exit-raw` exits with the value, `exec` with the command's status)
  0    the guest switched the machine off
  2    the command line is wrong
  4    an input file is missing, damaged or in no known format
  6    the host refused something
  116  virtual time is at its end: 2^63 cycles, or ticks of the bus clock if that is faster
  118  the guest asked for a reset
  120  every processor is halted for good
  122  --max-instructions was reached
  124  --timeout ran out; output that nobody reads is not waited for then
  126  triple fault
  128  left by the console escape; 128 plus its number for a signal

On a terminal, Ctrl-A x leaves and Ctrl-A Ctrl-A is Ctrl-A.";

/// The examples of each command, a command line in each line.
const EXAMPLES: &[(&str, &str)] = &[
    ("vpmu", "vpmu run --cpu k8 --demo sampling\nvpmu exec --cpu k8 -- ls -l /"),
    (
        "run",
        "vpmu run --cpu p6 --demo sampling\nvpmu run --cpu k8 --kernel vmlinuz --initrd initrd.img\n\
         vpmu run --flat boot.bin@0x7c00 --exit-raw\nvpmu run --kernel vmlinuz --trace trace.json",
    ),
    ("stat", "vpmu stat --cpu k8 --metrics --demo sampling"),
    ("list", "vpmu list"),
    ("events", "vpmu events --cpu all MASKED\nvpmu events --cpu p55c 16"),
    (
        "explain",
        "vpmu explain --cpu p55c CESR 02D60081\n\
         vpmu explain --cpu k8 --encode RETIRED_BRANCH_INSTRUCTIONS:u:int",
    ),
    ("reference", "vpmu reference events"),
    ("truth", "vpmu truth ls.truth --by process"),
    (
        "test",
        "vpmu test tests/*.elf --cpu all --junit results.xml\nvpmu test boot.bin@0x7c00 -- --smp 2",
    ),
    ("completions", "vpmu completions bash"),
    ("man", "vpmu man run\nvpmu man --folder pages"),
    (
        "exec",
        "vpmu exec --cpu p6 --isa distro -- dmesg\n\
         vpmu exec -- sha256sum <disk.img\n\
         vpmu exec --get perf.data -- perf record ./prog\n\
         vpmu exec --msr -- ./reads-msrs\n\
         vpmu exec --save door --save-at marker -- ./prog\n\
         vpmu exec --load door",
    ),
    ("fetch", "vpmu fetch\nvpmu fetch --suite trixie"),
    (
        "fuzz",
        "vpmu fuzz pmu --runs 100000\nvpmu fuzz instructions --seconds 60 --jobs 2\n\
         vpmu fuzz minimise finds/pmu-0123456789abcdef",
    ),
    ("replay", "vpmu replay finds/pmu-0123456789abcdef"),
];

/// The examples of a command, for its help.
pub(super) fn examples(command: &str) -> String {
    let lines = EXAMPLES.iter().filter(|(name, _)| *name == command);
    let lines = lines.flat_map(|(_, lines)| lines.lines());
    lines.fold(String::from("Examples:"), |all, line| all + "\n  " + line)
}

/// The same with the exit statuses.
pub(super) fn examples_and_statuses(command: &str) -> String {
    examples(command) + "\n\n" + STATUSES
}

/// Prints help or the version, in colour on a terminal that wants it (`NO_COLOR`, `CLICOLOR_FORCE` and
/// `TERM` decide, as everywhere); or turns what is wrong into one line. Without a command the help goes to
/// standard error, with the status of a wrong command line.
///
/// # Errors
/// What is wrong with the command line.
pub(super) fn answer(error: &clap::Error) -> Result<u8> {
    let text = error.render().to_string();
    if !error.use_stderr() {
        // A list that a value asks for is an error to clap, and has its prefix.
        match text.strip_prefix("error: ") {
            Some(list) => print(list)?,
            None => show(error)?,
        }
        return Ok(0);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        show(error)?;
        return Ok(status::USAGE);
    }
    Err(Error::Usage(one_line(&text)))
}

/// Prints what clap has rendered to where it belongs; a reader that has gone is no error.
fn show(error: &clap::Error) -> Result<()> {
    match error.print() {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Host(format!("cannot write the help: {e}")).because(e))
        }
        _ => Ok(()),
    }
}

/// What is wrong, and what is likely to have been meant: clap's first paragraph and its tips.
pub(super) fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let what = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = what.split_whitespace().collect();
    let tips = text.lines().map(str::trim).filter(|line| line.starts_with("tip: "));
    let line = tips.fold(words.join(" "), |all, tip| all + "; " + tip);
    line + "; see vpmu --help"
}
