//! The options of the trace.

use std::path::PathBuf;

use clap::Args;

use super::machine::MachineArgs;
use crate::error::{Error, Result};
use crate::trace::{Asked, Form, Kind};

#[derive(Args)]
pub(super) struct TraceArgs {
    /// Write there every act that matters to the PMU, in order, with virtual time and the place in the code:
    /// accesses to its registers, RDPMC, overflows, what becomes of their interrupts, LVTPC. `-` is standard
    /// output, unless console or statistics go there.
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// How the trace is written; by default as FILE ends: JSON lines for .jsonl, for Perfetto for .json, text
    /// for all others.
    #[arg(long, value_enum, value_name = "text|json|perfetto", requires = "trace")]
    pub(super) trace_format: Option<Form>,
    /// Trace only acts of these kinds, separated by commas.
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', requires = "trace")]
    pub(super) trace_only: Vec<Kind>,
}

impl TraceArgs {
    /// The file that is written, if one is.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.trace.as_ref().filter(|path| path.as_os_str() != "-")
    }

    /// What is asked for, of a run that writes reports at its end if it `reports`, and whose guest's command
    /// writes to standard output if there is a `command`.
    ///
    /// # Errors
    /// Something else goes to standard output, where the trace is to go.
    pub(super) fn asked(
        &self,
        machine: &MachineArgs,
        reports: bool,
        command: bool,
    ) -> Result<Option<Asked<'_>>> {
        let Some(path) = &self.trace else { return Ok(None) };
        if self.file().is_none() {
            let clash = if command {
                Some("the command writes there")
            } else if machine.is_console_on_stdio() {
                Some("the console is there; see --serial")
            } else if reports && machine.stats_file.is_none() {
                Some("the statistics go there; see --stats-file and --stats none")
            } else {
                None
            };
            if let Some(clash) = clash {
                return Err(Error::Usage(format!("--trace to standard output: {clash}")));
            }
        }
        let form = self.trace_format.unwrap_or_else(|| Form::of(path));
        Ok(Some(Asked { path, form, kinds: &self.trace_only }))
    }
}
