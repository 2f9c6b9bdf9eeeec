//! The trace of a run: every act that matters to the PMU, in order (`--trace`; `docs/trace.md`).
//!
//! Engines report each [`Act`] where it happens, with the processor and where that is ([`At`]). The
//! [`Tracer`] leaves out what is not asked for, and has a format put the rest into words. What it writes goes to the file as it comes,
//! so that a long trace takes no memory. Nothing in it depends on the host where the software engine runs.
//!
//! Acts of one processor are in order. Processors take turns on one time line (`turns.rs`), so that those
//! of one may come before earlier ones of another.

mod act;
mod json;
mod perfetto;
mod registers;
mod sink;
mod stops;
mod text;
mod words;

use std::path::Path;

use clap::ValueEnum;
use pmu_model::Personality;

pub use self::act::{Access, Act, Asserts, At, Code, Kind, LvtpcChange, Reason};
pub(crate) use self::registers::{LapicAccess, MsrAccess};
use self::sink::Sink;
pub(crate) use self::stops::{ActHit, ActStops};
use crate::error::Result;
use crate::irq::Interrupts;
use crate::irq::lapic::PmiOutcome;
use crate::stop::Stop;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A line an act, for people.
    Text,
    /// A JSON object a line.
    Json,
    /// One JSON document in the Trace Event Format, for ui.perfetto.dev and chrome://tracing.
    Perfetto,
}

impl Form {
    /// That of a file without a word about it, by the ending of its name.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("jsonl") => Self::Json,
            Some("json") => Self::Perfetto,
            _ => Self::Text,
        }
    }
}

/// What a trace is asked for.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Where it goes; `-` is standard output.
    pub path: &'a Path,
    /// How it is written.
    pub form: Form,
    /// What is left in; everything if this is empty.
    pub kinds: &'a [Kind],
}

/// The machine that is traced.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its processors' PMU.
    pub personality: &'static Personality,
    /// Cycles in a second of virtual time.
    pub clock_hz: u64,
    /// How many processors it has.
    pub vcpus: usize,
}

/// An act with all that is told of it.
struct Record<'a> {
    subject: &'a Subject,
    vcpu: usize,
    at: At,
    act: Act,
}

impl Subject {
    /// A time in nanoseconds, rounded down.
    fn nanoseconds(&self, cycles: u64) -> u128 {
        u128::from(cycles) * 1_000_000_000 / u128::from(self.clock_hz.max(1))
    }
}

/// Writes acts in one way.
trait Format: Send {
    /// What comes before the first.
    fn begin(&mut self, _out: &mut String, _subject: &Subject) {}
    /// An act.
    fn act(&mut self, out: &mut String, record: &Record<'_>);
    /// What comes behind the last.
    fn end(&mut self, _out: &mut String, _subject: &Subject) {}
}

/// Is told of the acts of a run: writes its trace, and says where a debugger is to stop it.
pub struct Tracer {
    subject: Subject,
    /// `None` without a trace.
    output: Option<Output>,
    /// At which acts to stop.
    pub(crate) stops: ActStops,
}

/// Where the trace goes.
struct Output {
    kinds: Vec<Kind>,
    format: Box<dyn Format>,
    sink: Sink,
    /// A buffer that is reused.
    line: String,
}

impl Tracer {
    /// A trace of which nothing has happened yet. A file is as it was until [`Tracer::finish`].
    ///
    /// # Errors
    /// If the host refuses.
    pub fn new(asked: &Asked<'_>, subject: Subject, stop: &Stop) -> Result<Self> {
        let has = |kind| asked.kinds.is_empty() || asked.kinds.contains(&kind);
        let mut format: Box<dyn Format> = match asked.form {
            Form::Text => Box::new(text::Text),
            Form::Json => Box::new(json::Lines),
            Form::Perfetto => {
                let has_slices = has(Kind::Pmi) && has(Kind::Eoi);
                Box::new(perfetto::Perfetto::new(has_slices, subject.vcpus))
            }
        };
        let mut sink = Sink::new(asked.path, stop)?;
        let mut line = String::new();
        format.begin(&mut line, &subject);
        sink.write(&line);
        let output = Output { kinds: asked.kinds.to_vec(), format, sink, line };
        Ok(Self { output: Some(output), ..Self::without_output(subject) })
    }

    /// One that writes nothing.
    pub(crate) fn without_output(subject: Subject) -> Self {
        Self { subject, output: None, stops: ActStops::default() }
    }

    /// Whether it writes a trace.
    pub(crate) fn writes(&self) -> bool {
        self.output.is_some()
    }

    /// An act of a processor.
    pub fn report(&mut self, vcpu: usize, at: impl Into<At>, act: Act) {
        let record = Record { subject: &self.subject, vcpu, at: at.into(), act };
        self.stops.notice(&record);
        if let Some(Output { kinds, format, sink, line }) = &mut self.output
            && (kinds.is_empty() || kinds.contains(&act.kind()))
        {
            line.clear();
            format.act(line, &record);
            sink.write(line);
        }
    }

    /// What came of the interrupt of a counter at the local APIC of a processor.
    pub(crate) fn pmi(
        &mut self,
        vcpu: usize,
        at: impl Into<At>,
        outcome: PmiOutcome,
        irq: &Interrupts,
    ) {
        let at = at.into();
        self.report(vcpu, at, Act::Pmi(outcome));
        let lapic = irq.lapic(vcpu);
        if !matches!(outcome, PmiOutcome::Lost(_) | PmiOutcome::InKernel) && lapic.masks_lvtpc() {
            let act = Act::Lvtpc { entry: lapic.lvtpc(), by: LvtpcChange::Delivery };
            self.report(vcpu, at, act);
        }
    }

    /// A processor has taken an interrupt, or the NMI if there is no vector, which may be that of a counter.
    pub(crate) fn takes(
        &mut self,
        vcpu: usize,
        at: impl Into<At>,
        vector: Option<u8>,
        irq: &Interrupts,
    ) {
        if irq.lapic(vcpu).took_pmi() {
            self.report(vcpu, at, Act::Delivered(vector));
        }
    }

    /// The run has ended: what was traced takes the place of what the file had.
    ///
    /// # Errors
    /// If the host has refused to write any of it.
    pub fn finish(self) -> Result<()> {
        let Some(Output { mut format, mut sink, mut line, .. }) = self.output else {
            return Ok(());
        };
        line.clear();
        format.end(&mut line, &self.subject);
        sink.write(&line);
        sink.finish()
    }
}

#[cfg(test)]
mod tests;
