//! One JSON document in the Trace Event Format ("JSON Object Format": an object with `traceEvents`), which
//! ui.perfetto.dev and chrome://tracing open.
//!
//! The machine is a process, a processor a thread of it. An act is an instant (`ph` i); the interrupt of a
//! counter that has a vector is a slice from its delivery (B) to EOI (E). The values of counters are counter
//! tracks (C), of what is known when a counter is read, written or overflows; one that is to overflow soon
//! is below zero by as much, so that a sampled counter is a saw. Each event has the fields of the JSON lines as
//! its arguments.

use pmu_model::{Personality, Register, RegisterKind};
use serde::Serialize;
use serde_json::json;

use super::act::{Access, Act};
use super::json::{Line, append};
use super::words;
use super::{Format, Record, Subject};

/// The process that the machine is.
const PID: u32 = 1;

pub(super) struct Perfetto {
    /// Ends are traced as well as deliveries.
    has_slices: bool,
    /// For each processor: the vectors of the slices that have begun, and when its last act was.
    open: Vec<(Vec<u8>, f64)>,
    /// Something precedes the next event.
    has_events: bool,
}

/// An event with its arguments.
#[derive(Serialize)]
struct Event<'a, A> {
    name: &'a str,
    cat: &'a str,
    ph: &'a str,
    /// Microseconds.
    ts: f64,
    pid: u32,
    tid: usize,
    /// The scope of an instant: its thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a str>,
    args: A,
}

impl Perfetto {
    pub(super) fn new(has_slices: bool, vcpus: usize) -> Self {
        Self { has_slices, open: vec![(Vec::new(), 0.0); vcpus], has_events: false }
    }

    fn event(&mut self, out: &mut String, event: &impl Serialize) {
        out.push_str(if self.has_events { ",\n" } else { "\n" });
        self.has_events = true;
        append(out, event);
    }

    /// Ends the slices of a processor down to that of `vector`, or all.
    fn close(&mut self, out: &mut String, tid: usize, vector: Option<u8>) {
        let Some((open, ts)) = self.open.get_mut(tid) else { return };
        let from = match vector {
            Some(vector) => open.iter().rposition(|&of| of == vector).unwrap_or(open.len()),
            None => 0,
        };
        let (closed, ts) = (open.split_off(from), *ts);
        for vector in closed.into_iter().rev() {
            let (name, args) = (slice(vector), json!({}));
            self.event(
                out,
                &Event { name: &name, cat: "pmi", ph: "E", ts, pid: PID, tid, s: None, args },
            );
        }
    }
}

fn slice(vector: u8) -> String {
    format!("PMI {vector:#04x}")
}

impl Format for Perfetto {
    fn begin(&mut self, out: &mut String, subject: &Subject) {
        out.push_str("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        let name = format!("vpmu {}", subject.personality.name);
        let args = json!({ "name": name });
        self.event(
            out,
            &json!({ "name": "process_name", "ph": "M", "pid": PID, "tid": 0, "args": args }),
        );
        for vcpu in 0..subject.vcpus {
            let args = json!({ "name": format!("vcpu {vcpu}") });
            self.event(
                out,
                &json!({ "name": "thread_name", "ph": "M", "pid": PID, "tid": vcpu, "args": args }),
            );
        }
    }

    fn act(&mut self, out: &mut String, record: &Record<'_>) {
        let Record { subject, vcpu: tid, at, ref act } = *record;
        let ts = subject.nanoseconds(at.time) as f64 / 1000.0;
        if let Some((_, last)) = self.open.get_mut(tid) {
            *last = ts;
        }
        let kind = act.kind().name();
        let text = words::of(record);
        let args = Line::new(record);
        let instant =
            |name| Event { name, cat: kind, ph: "i", ts, pid: PID, tid, s: Some("t"), args };
        match *act {
            Act::Delivered(Some(vector)) if self.has_slices => {
                let name = slice(vector);
                let event = Event { ph: "B", s: None, ..instant(&name) };
                self.event(out, &event);
                if let Some((open, _)) = self.open.get_mut(tid) {
                    open.push(vector);
                }
            }
            Act::Eoi { vector } if self.has_slices => self.close(out, tid, Some(vector)),
            // The name groups events; the words, with their values, are among the arguments.
            _ => {
                let end = text.find([':', '=', ',']).unwrap_or(text.len());
                let name = match act {
                    Act::Pmi(_) | Act::Delivered(_) | Act::Spflt { .. } => &text[..],
                    _ => text[..end].trim_end(),
                };
                let event = instant(name);
                self.event(out, &event);
            }
        }
        if let Some((counter, value)) = counted(subject.personality, act) {
            let sign = 64_u32.saturating_sub(subject.personality.width);
            let value = (value << sign) as i64 >> sign;
            let name = format!("vcpu {tid} counter {counter}");
            let args = json!({ "value": value });
            self.event(
                out,
                &Event { name: &name, cat: kind, ph: "C", ts, pid: PID, tid, s: None, args },
            );
        }
    }

    fn end(&mut self, out: &mut String, subject: &Subject) {
        (0..subject.vcpus).for_each(|vcpu| self.close(out, vcpu, None));
        out.push_str("\n]}\n");
    }
}

/// The counter that an act tells the value of, and its value.
fn counted(personality: &Personality, act: &Act) -> Option<(usize, u64)> {
    match *act {
        Act::Rdmsr { register, value, access: Access::Done } => {
            Some((counter_of(register)?, value))
        }
        Act::Wrmsr { register, value, access: Access::Done } => {
            Some((counter_of(register)?, words::held(personality, value)))
        }
        Act::Rdpmc { counter, value: Some(value), .. } => Some((counter as usize, value)),
        Act::Overflow { counter, value, .. } => Some((counter, value)),
        _ => None,
    }
}

/// The counter that a register is.
fn counter_of(register: &Register) -> Option<usize> {
    match register.kind {
        RegisterKind::Perfctr(counter) => Some(counter),
        _ => None,
    }
}
