//! Interrupts that one processor has sent to another and that have not arrived yet.
//!
//! Processors of the software engine execute the same interval of virtual time one after the other, so
//! that an interrupt may be sent in the receiver's future. It is posted when a processor sends it,
//! departs when the engine tells the sender's time, and arrives when the receiver's time is the time of
//! departure plus the latency.

use serde::{Deserialize, Serialize};

use super::message::Message;
use super::schedule::Schedule;
use crate::processor_set::ProcessorSet;

/// What a processor has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum InterruptKind {
    /// An interprocessor interrupt.
    Ipi(Message),
    /// Another thread of the core has made a performance counter of this one overflow.
    Pmi,
}

/// An interrupt for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Delivery {
    pub(super) vcpu: usize,
    pub(super) kind: InterruptKind,
}

/// One that has departed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Departed {
    /// When it arrives.
    due: u64,
    /// How many departed before it.
    nth: u64,
    kind: InterruptKind,
}

/// Deliveries, those to each processor in the order in which they were sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InTransit {
    /// Sent at a time that is not known yet.
    posted: Vec<Delivery>,
    /// For each processor.
    departed: Vec<Vec<Departed>>,
    /// When the first of them arrives at each.
    arrivals: Schedule,
    departures: u64,
}

impl InTransit {
    /// Nothing is in transit between so many processors.
    pub(super) fn new(processors: usize) -> Self {
        Self {
            posted: Vec::new(),
            departed: vec![Vec::new(); processors],
            arrivals: Schedule::new(processors),
            departures: 0,
        }
    }

    /// Whether it is between so many processors, and agrees with itself.
    pub(super) fn is_of(&self, processors: usize) -> bool {
        let first = |of: &Vec<Departed>| of.iter().map(|departed| departed.due).min();
        self.departed.len() == processors
            && self.arrivals.is_of(processors)
            && self.posted.iter().all(|delivery| delivery.vcpu < processors)
            && self.departed.iter().zip(0..).all(|(of, vcpu)| self.arrivals.at(vcpu) == first(of))
    }

    /// An interrupt is sent to `vcpu`.
    pub(super) fn post(&mut self, vcpu: usize, kind: InterruptKind) {
        self.posted.push(Delivery { vcpu, kind });
    }

    /// Whether anything was posted that has not departed.
    #[inline]
    pub(super) fn is_any_posted(&self) -> bool {
        !self.posted.is_empty()
    }

    /// All that was posted departs at `time`; an IPI takes `ipi_latency` cycles, a PMI none. Whether
    /// there was anything.
    #[inline]
    pub(super) fn depart(&mut self, time: u64, ipi_latency: u64) -> bool {
        let any = !self.posted.is_empty();
        if any {
            self.send_off(time, ipi_latency);
        }
        any
    }

    fn send_off(&mut self, time: u64, ipi_latency: u64) {
        for Delivery { vcpu, kind } in self.posted.drain(..) {
            let takes = match kind {
                InterruptKind::Ipi(_) => ipi_latency,
                InterruptKind::Pmi => 0,
            };
            let due = time.saturating_add(takes);
            self.departed[vcpu].push(Departed { due, nth: self.departures, kind });
            self.departures += 1;
            let first = self.arrivals.at(vcpu).map_or(due, |first| first.min(due));
            self.arrivals.set(vcpu, Some(first));
        }
    }

    /// Takes out, in order, what has arrived at `vcpu` by `time`.
    pub(super) fn arrived(&mut self, vcpu: usize, time: u64) -> Vec<InterruptKind> {
        if self.arrivals.at(vcpu).is_none_or(|first| first > time) {
            return Vec::new();
        }
        let of = &mut self.departed[vcpu];
        let arrived = of.extract_if(.., |departed| departed.due <= time);
        let arrived = arrived.map(|departed| departed.kind).collect();
        self.arrivals.set(vcpu, of.iter().map(|departed| departed.due).min());
        arrived
    }

    /// Takes out everything, in the order in which it was sent.
    pub(super) fn all(&mut self) -> Vec<Delivery> {
        let mut departed = Vec::new();
        for (vcpu, of) in self.departed.iter_mut().enumerate() {
            departed.extend(of.drain(..).map(|Departed { nth, kind, .. }| (nth, vcpu, kind)));
            self.arrivals.set(vcpu, None);
        }
        departed.sort_unstable_by_key(|&(nth, ..)| nth);
        let departed = departed.into_iter().map(|(_, vcpu, kind)| Delivery { vcpu, kind });
        departed.chain(self.posted.drain(..)).collect()
    }

    /// When the next interrupt arrives at `vcpu`.
    #[inline]
    pub(super) fn next(&self, vcpu: usize) -> Option<u64> {
        self.arrivals.at(vcpu)
    }

    /// When the next interrupt arrives at any processor.
    #[inline]
    pub(super) fn first(&self) -> Option<u64> {
        self.arrivals.first()
    }

    /// The processors at which one arrives by `time`.
    pub(super) fn receivers(&self, time: u64) -> ProcessorSet {
        self.arrivals.due(time)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.departed.len());
    }
}
