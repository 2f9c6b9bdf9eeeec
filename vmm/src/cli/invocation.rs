//! What a run was asked for, for its statistics: with it, they say how to repeat the run.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::summary::Summary;

/// The version of the form of the statistics (`docs/stats.schema.json`). It is another one when a program
/// that reads the statistics could misread them, and not when something is added.
const SCHEMA_VERSION: u32 = 1;

/// A command with the options of a run.
#[derive(Serialize)]
pub(super) struct Invocation {
    /// `run`, `stat` or `exec`.
    command: String,
    /// The value of each option by its long name, or that of each argument without one by its own, as it was
    /// given or is by default: true or false of a switch, none of what has no value, a list of what may be
    /// given several times.
    options: BTreeMap<String, Value>,
}

/// What is printed of a run.
#[derive(Serialize)]
struct Statistics<'a> {
    schema_version: u32,
    vpmu_version: &'static str,
    #[serde(flatten)]
    invocation: &'a Invocation,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl Invocation {
    /// What `matches` has for the arguments of a command.
    pub(super) fn new(command: &clap::Command, matches: &ArgMatches) -> Self {
        let arguments = command.get_arguments().filter(|arg| !is_help(arg));
        let named = |arg: &Arg| arg.get_long().unwrap_or(arg.get_id().as_str()).to_owned();
        Self {
            command: command.get_name().to_owned(),
            options: arguments.map(|arg| (named(arg), value(arg, matches))).collect(),
        }
    }

    /// The statistics of the run that was asked for, as JSON.
    ///
    /// # Errors
    /// Never in practice: all keys are strings.
    pub(super) fn statistics(&self, summary: &Summary) -> Result<String> {
        let statistics = Statistics {
            schema_version: SCHEMA_VERSION,
            vpmu_version: env!("CARGO_PKG_VERSION"),
            invocation: self,
            summary,
        };
        let text = serde_json::to_string_pretty(&statistics);
        text.map(|text| text + "\n").map_err(|e| Error::Host(e.to_string()).because(e))
    }
}

fn is_help(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong)
}

fn value(arg: &Arg, matches: &ArgMatches) -> Value {
    let id = arg.get_id().as_str();
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Value::Bool(matches.get_flag(id));
    }
    let raw = matches.get_raw(id).into_iter().flatten();
    let mut texts = raw.map(|text| Value::String(text.to_string_lossy().into_owned()));
    match arg.get_action() {
        ArgAction::Append => Value::Array(texts.collect()),
        _ => texts.next().unwrap_or(Value::Null),
    }
}
