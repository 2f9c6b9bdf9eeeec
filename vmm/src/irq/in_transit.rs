//! Interrupts that one processor has sent to another and that have not arrived yet.
//!
//! Processors of the software engine execute the same interval of virtual time one after the other, so
//! that an interrupt may be sent in the receiver's future. It is posted when a processor sends it,
//! departs when the engine tells the sender's time, and arrives when the receiver's time is the time of
//! departure plus the latency.

use serde::{Deserialize, Serialize};

use super::message::Message;

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

/// Deliveries in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InTransit {
    /// Sent at a time that is not known yet.
    posted: Vec<Delivery>,
    /// With their times of arrival.
    departed: Vec<(u64, Delivery)>,
}

impl InTransit {
    /// An interrupt is sent to `vcpu`.
    pub(super) fn post(&mut self, vcpu: usize, kind: InterruptKind) {
        self.posted.push(Delivery { vcpu, kind });
    }

    /// All that was posted departs at `time`; an IPI takes `ipi_latency` cycles, a PMI none. Whether
    /// there was anything.
    pub(super) fn depart(&mut self, time: u64, ipi_latency: u64) -> bool {
        if self.posted.is_empty() {
            return false;
        }
        for delivery in self.posted.drain(..) {
            let takes = match delivery.kind {
                InterruptKind::Ipi(_) => ipi_latency,
                InterruptKind::Pmi => 0,
            };
            self.departed.push((time.saturating_add(takes), delivery));
        }
        true
    }

    /// Takes out, in order, what has arrived at `vcpu` by `time`.
    pub(super) fn arrived(&mut self, vcpu: usize, time: u64) -> Vec<Delivery> {
        let is_there =
            |&mut (due, delivery): &mut (u64, Delivery)| delivery.vcpu == vcpu && due <= time;
        self.departed.extract_if(.., is_there).map(|(_, delivery)| delivery).collect()
    }

    /// Takes out everything.
    pub(super) fn all(&mut self) -> Vec<Delivery> {
        let departed = self.departed.drain(..).map(|(_, delivery)| delivery);
        departed.chain(self.posted.drain(..)).collect()
    }

    /// When the next interrupt arrives at `vcpu` or, with `None`, at any processor.
    pub(super) fn next(&self, vcpu: Option<usize>) -> Option<u64> {
        let is_meant = |delivery: &Delivery| vcpu.is_none_or(|only| delivery.vcpu == only);
        self.departed.iter().filter(|(_, delivery)| is_meant(delivery)).map(|&(due, _)| due).min()
    }

    /// Whether all that has departed has arrived.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.departed.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
