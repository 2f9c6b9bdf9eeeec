//! What goes from one processor to another and is not there yet.
//!
//! Processors of the software engine run the same interval one after the other, so that what one
//! sends must not be seen by another one before its own time has come. Whoever runs them has it wait
//! here: it is posted when a processor sends it, departs when the time of the sender is known, and
//! arrives when the receiver's time has come.

use serde::{Deserialize, Serialize};

use super::message::Message;

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Parcel {
    /// An interprocessor interrupt.
    Ipi(Message),
    /// Another thread of the core has made a performance counter of this one overflow.
    Pmi,
}

/// A parcel for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Delivery {
    pub(super) vcpu: usize,
    pub(super) parcel: Parcel,
}

/// Deliveries in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Flight {
    posted: Vec<Delivery>,
    /// With the receiver's time of arrival.
    departed: Vec<(u64, Delivery)>,
}

impl Flight {
    /// Takes what is sent.
    pub(super) fn post(&mut self, vcpu: usize, parcel: Parcel) {
        self.posted.push(Delivery { vcpu, parcel });
    }

    /// What was posted departs at `time`; an IPI takes `flight` cycles. Whether there was any.
    pub(super) fn depart(&mut self, time: u64, flight: u64) -> bool {
        if self.posted.is_empty() {
            return false;
        }
        for delivery in self.posted.drain(..) {
            let takes = match delivery.parcel {
                Parcel::Ipi(_) => flight,
                Parcel::Pmi => 0,
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

    /// When the next of `vcpu`, or, with `None`, of anybody arrives.
    pub(super) fn next(&self, vcpu: Option<usize>) -> Option<u64> {
        let is_meant = |delivery: &Delivery| vcpu.is_none_or(|only| delivery.vcpu == only);
        self.departed.iter().filter(|(_, delivery)| is_meant(delivery)).map(|&(due, _)| due).min()
    }

    /// Whether nothing has departed that is not there.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.departed.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
