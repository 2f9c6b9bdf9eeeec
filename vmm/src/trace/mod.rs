//! The trace of a run: every act that matters to the PMU, in order (`--trace`; `docs/trace.md`).
//!
//! Engines report each [`Act`] where it happens, with the processor and where that is ([`At`]). The
//! [`Tracer`] knows which interrupts that a processor takes and ends are those of counters, leaves out what
//! is not asked for, and has a format put the rest into words. What it writes goes to the file as it comes,
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
use crate::irq::vectors::Vectors;
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
    underway: Vec<Underway>,
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

/// Which interrupts of a local APIC are those of counters.
#[derive(Clone, Default)]
pub(crate) struct Underway {
    /// The NMI that is latched.
    nmi: bool,
    /// In IRR.
    requested: Vectors,
    /// In ISR.
    in_service: Vectors,
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
        let underway = vec![Underway::default(); subject.vcpus];
        Self { subject, output: None, underway, stops: ActStops::default() }
    }

    /// Which interrupts are those of counters, by processor.
    pub(crate) fn underway(&self) -> Vec<Underway> {
        self.underway.clone()
    }

    /// None of them.
    pub(crate) fn no_underway(&self) -> Vec<Underway> {
        vec![Underway::default(); self.subject.vcpus]
    }

    /// Goes back to where these were.
    pub(crate) fn set_underway(&mut self, underway: Vec<Underway>) {
        self.underway = underway;
    }

    /// Whether it writes a trace.
    pub(crate) fn writes(&self) -> bool {
        self.output.is_some()
    }

    /// An act of a processor.
    pub fn report(&mut self, vcpu: usize, at: impl Into<At>, act: Act) {
        let Some(underway) = self.underway.get_mut(vcpu) else { return };
        match act {
            Act::Pmi(PmiOutcome::Nmi | PmiOutcome::NmiMerged) => underway.nmi = true,
            Act::Pmi(PmiOutcome::Fixed(vector) | PmiOutcome::FixedMerged(vector)) => {
                underway.requested.set(vector);
            }
            _ => {}
        }
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

    /// Whether a processor has yet to take the interrupt of a counter.
    pub(crate) fn has_untaken(&self) -> bool {
        self.underway.iter().any(|underway| underway.nmi || underway.requested.highest().is_some())
    }

    /// A processor takes an interrupt, or the NMI if there is no vector, which may be that of a counter.
    pub(crate) fn takes(&mut self, vcpu: usize, at: impl Into<At>, vector: Option<u8>) {
        let Some(underway) = self.underway.get_mut(vcpu) else { return };
        let is_pmi = match vector {
            None => std::mem::take(&mut underway.nmi),
            Some(vector) if underway.requested.contains(vector) => {
                underway.requested.clear(vector);
                underway.in_service.set(vector);
                true
            }
            Some(_) => false,
        };
        if is_pmi {
            self.report(vcpu, at, Act::Delivered(vector));
        }
    }

    /// A processor ends the interrupt with this vector, which may be that of a counter.
    pub(crate) fn ends(&mut self, vcpu: usize, at: impl Into<At>, vector: u8) {
        let Some(underway) = self.underway.get_mut(vcpu) else { return };
        if underway.in_service.contains(vector) {
            underway.in_service.clear(vector);
            self.report(vcpu, at, Act::Eoi { vector });
        }
    }

    /// The local APIC of a processor has lost what it had: INIT, or it was disabled, or KVM has it.
    pub(crate) fn forget(&mut self, vcpu: usize) {
        if let Some(underway) = self.underway.get_mut(vcpu) {
            *underway = Underway::default();
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
