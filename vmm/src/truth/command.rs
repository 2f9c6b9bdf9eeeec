//! `vpmu truth`: what a truth file tells.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::functions::Functions;
use super::report::{By, Filter, Report, unknown};
use super::{Truth, callgrind, folded, listing};
use crate::console::print;
use crate::error::{Error, Result};
use crate::file;
use crate::output::say_at_most_briefly;
use crate::symbols::{self, Sources};

/// Lines of a table, unless the command line says how many.
const LINES: usize = 20;

/// The options of `vpmu truth`.
#[derive(Args)]
pub struct TruthArgs {
    /// The truth file, written by a run with `--truth`.
    file: PathBuf,
    /// What the counts are summed up by.
    #[arg(long, value_enum, default_value = "function", conflicts_with = "function")]
    by: By,
    /// The instructions of a function, by its name or an address in hexadecimal with 0x.
    #[arg(long, value_name = "NAME|ADDRESS", conflicts_with = "limit")]
    function: Option<String>,
    /// The event to sort by; the first by default.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Lines of the table, 0 for all; 20 by default, and all as JSON.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only what was executed at this privilege level.
    #[arg(long, value_name = "0-3", value_parser = clap::value_parser!(u8).range(0..=3))]
    cpl: Option<u8>,
    /// Only what was executed by this processor.
    #[arg(long, value_name = "N")]
    vcpu: Option<u32>,
    /// Only what was executed in the address space of this program, or with this CR3 in hexadecimal
    /// with 0x.
    #[arg(long, value_name = "NAME|CR3")]
    space: Option<String>,
    /// Further names: an ELF file, found by its code or loaded at ADDRESS, or a System.map, moved by
    /// ADDRESS.
    #[arg(long, value_name = "FILE[@ADDRESS]")]
    symbols: Vec<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Write a profile for callgrind_annotate and KCachegrind; `-` is standard output.
    #[arg(long, value_name = "OUT",
          conflicts_with_all = ["folded", "by", "event", "json", "function", "limit", "cpl", "vcpu",
                                "space"])]
    callgrind: Option<PathBuf>,
    /// Write stacks for flame graphs, by the event; `-` is standard output.
    #[arg(long, value_name = "OUT",
          conflicts_with_all = ["by", "json", "function", "limit", "cpl", "vcpu", "space"])]
    folded: Option<PathBuf>,
}

impl TruthArgs {
    /// Reads the file and prints or writes what is asked for.
    ///
    /// # Errors
    /// The file cannot be read or has nothing of that name, or the host refuses to write.
    pub fn run(&self) -> Result<()> {
        let files = symbols::read_all(&self.symbols)?;
        let mut truth = Truth::read(&self.file)?;
        if !files.is_empty() {
            symbols::attach(&mut truth, &Sources { files: &files, ..Sources::default() })?;
        }
        let event = self.event(&truth)?;
        let mut functions = Functions::new(&truth);
        if truth.flattened > 0 && (self.callgrind.is_some() || self.folded.is_some()) {
            say_at_most_briefly(&format!(
                "{} calls were too deep or too many, and are counted in their callers",
                truth.flattened
            ));
        }
        if let Some(path) = &self.callgrind {
            return write(path, |out| callgrind::write(&truth, &mut functions, out));
        }
        if let Some(path) = &self.folded {
            return write(path, |out| folded::write(&truth, &mut functions, event, out));
        }
        let filter = Filter {
            cpl: self.cpl,
            vcpu: self.vcpu,
            space: self.space.clone(),
            function: self.function.clone(),
        };
        let report = match &filter.function {
            Some(_) => listing::report(&truth, &mut functions, &filter, event)?,
            None => Report::new(&truth, &mut functions, self.by, &filter, event, self.limit())?,
        };
        print(&match (self.json, &filter.function) {
            (true, _) => report.json()?,
            (false, Some(_)) => listing::text(&report),
            (false, None) => report.table(),
        })
    }

    fn limit(&self) -> usize {
        match self.limit {
            None if self.json => usize::MAX,
            None => LINES,
            Some(0) => usize::MAX,
            Some(limit) => limit,
        }
    }

    /// The index of the event that is asked for.
    fn event(&self, truth: &Truth) -> Result<usize> {
        let Some(name) = &self.event else {
            let nothing = || Error::Input(format!("{} counts no event", self.file.display()));
            return if truth.events.is_empty() { Err(nothing()) } else { Ok(0) };
        };
        let names = || truth.events.iter().map(|event| event.name.as_str());
        let position = names().position(|event| event.eq_ignore_ascii_case(name));
        position.ok_or_else(|| unknown("event", name, names()))
    }
}

/// Writes to a file, a device or, as `-`, to standard output, whose reader may go away.
fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let standard_output = path.as_os_str() == "-";
    if !standard_output && file::is_replaceable(path) {
        return file::replace_with(path, content);
    }
    let buffered = |file: &mut dyn Write| {
        let mut out = BufWriter::new(file);
        content(&mut out).and_then(|()| out.flush())
    };
    let (name, written) = if standard_output {
        ("standard output".into(), buffered(&mut io::stdout().lock()))
    } else {
        let device = File::options().write(true).open(path);
        (path.display().to_string(), device.and_then(|mut device| buffered(&mut device)))
    };
    match written {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|e| Error::cannot_write(name, e)),
    }
}
