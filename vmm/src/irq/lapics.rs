//! The local APICs of all processors, and the bus over which messages reach them.
//!
//! Whatever changes one of them passes by [`Change`], which notes what the machine asks of all together:
//! when the next timer expires, who has an interrupt pending that did not before, and who goes by another
//! identifier. So nobody has to look at all of them at every step.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use super::VcpuSignal;
use super::lapic::{Lapic, LapicConfig};
use super::message::{DeliveryMode, Destination, Message};
use super::schedule::Schedule;
use crate::processor_set::ProcessorSet;

/// Addresses every local APIC, in either destination mode.
const BROADCAST: u8 = 0xFF;

/// The local APICs, by the numbers of their processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lapics {
    each: Vec<Lapic>,
    /// When their timers expire.
    timers: Schedule,
    /// Those with an identifier that is not the number of the processor: the guest has written it.
    renumbered: ProcessorSet,
    /// Those that have changed and have something pending now, since they were last taken.
    stirred: ProcessorSet,
    /// INIT and start-up signals that nobody has taken yet, in order.
    pub(super) signals: Vec<(usize, VcpuSignal)>,
}

/// A local APIC that is being changed.
pub struct Change<'a> {
    all: &'a mut Lapics,
    number: usize,
}

impl Deref for Change<'_> {
    type Target = Lapic;

    fn deref(&self) -> &Lapic {
        &self.all.each[self.number]
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut Lapic {
        &mut self.all.each[self.number]
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.all.note(self.number);
    }
}

impl Lapics {
    /// One for each of `configs`.
    pub(super) fn new(configs: &[LapicConfig]) -> Self {
        let mut all = Self {
            each: configs.iter().copied().map(Lapic::new).collect(),
            timers: Schedule::new(configs.len()),
            renumbered: ProcessorSet::default(),
            stirred: ProcessorSet::default(),
            signals: Vec::new(),
        };
        (0..configs.len()).for_each(|number| all.note(number));
        all
    }

    /// Whether `other` has as many, of the same processors, and what it notes of them is so.
    pub(super) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        let all = ProcessorSet::first(self.count());
        self.count() == other.count()
            && self.each.iter().zip(&other.each).all(|(one, other)| one.is_of_the_kind_of(other))
            && other.timers.is_of(self.count())
            && other.renumbered.union(other.stirred).is_within(all)
            && other.signals.iter().all(|&(number, _)| number < self.count())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    /// That of a processor.
    #[inline]
    pub(super) fn get(&self, number: usize) -> &Lapic {
        &self.each[number]
    }

    /// The same, to change it.
    #[inline]
    pub(super) fn change(&mut self, number: usize) -> Change<'_> {
        // A number that there is not shows here, and not when the change ends.
        assert!(number < self.each.len(), "no processor {number}");
        Change { all: self, number }
    }

    /// Changes each.
    pub(super) fn change_all(&mut self, change: impl Fn(&mut Lapic)) {
        (0..self.count()).for_each(|number| change(&mut self.change(number)));
    }

    #[inline]
    fn note(&mut self, number: usize) {
        let lapic = &self.each[number];
        let stirred = lapic.has_pending();
        let renumbered = usize::from(lapic.id()) != number;
        self.timers.set(number, lapic.next_deadline());
        self.renumbered.assign(number, renumbered);
        if stirred {
            self.stirred.insert(number);
        }
    }

    /// Those that have changed since the last call and have something pending now.
    pub(super) fn take_stirred(&mut self) -> ProcessorSet {
        std::mem::take(&mut self.stirred)
    }

    /// As [`Self::take_stirred`], which will give them still.
    pub(super) fn stirred(&self) -> ProcessorSet {
        self.stirred
    }

    /// The next time at which a timer expires.
    #[inline]
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.timers.first()
    }

    /// Brings the timers up to `now`. One that is masked stays behind until its local APIC is accessed.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        if self.timers.first().is_some_and(|first| first <= now) {
            self.timers.due(now).iter().for_each(|number| self.change(number).advance(now));
        }
    }

    /// Delivers `message`, sent by the local APIC of `source` or, if `None`, by the I/O APIC; whether
    /// any local APIC accepted it.
    pub(super) fn deliver(&mut self, message: Message, source: Option<usize>) -> bool {
        let mut accepted = false;
        for number in self.receivers(message, source).iter() {
            accepted |= self.deliver_to(number, message);
        }
        accepted
    }

    /// The processors that receive `message`. In the lowest-priority mode it is one; of several with
    /// the same priority the lowest-numbered, so that every run is the same.
    pub(super) fn receivers(&self, message: Message, source: Option<usize>) -> ProcessorSet {
        let addressed = self.addressed(message.destination, source);
        if message.mode != DeliveryMode::LowestPriority {
            return addressed;
        }
        let willing = addressed.iter().filter(|&number| self.each[number].accepts_vectors());
        let winner = willing.min_by_key(|&number| self.each[number].arbitration_priority());
        winner.into_iter().collect()
    }

    pub(super) fn addressed(
        &self,
        destination: Destination,
        source: Option<usize>,
    ) -> ProcessorSet {
        match destination {
            Destination::Itself => source.into_iter().collect(),
            // Whoever goes by its number is found by it.
            Destination::Physical(id) if id != BROADCAST && self.renumbered.is_empty() => {
                let known = self.each.get(usize::from(id));
                let reached = known.is_some_and(|lapic| lapic.matches(destination));
                reached.then_some(usize::from(id)).into_iter().collect()
            }
            Destination::AllButSender => {
                let reached = |&(number, lapic): &(usize, &Lapic)| {
                    source != Some(number) && lapic.hardware_enabled()
                };
                self.each.iter().enumerate().filter(reached).map(|(number, _)| number).collect()
            }
            _ => {
                let reached = |&(_, lapic): &(usize, &Lapic)| lapic.matches(destination);
                self.each.iter().enumerate().filter(reached).map(|(number, _)| number).collect()
            }
        }
    }

    /// Delivers `message` to one processor; whether its local APIC accepted it.
    pub(super) fn deliver_to(&mut self, number: usize, message: Message) -> bool {
        let mut lapic = self.change(number);
        match message.mode {
            DeliveryMode::Fixed | DeliveryMode::LowestPriority => {
                return lapic.accept(message.vector, message.trigger);
            }
            DeliveryMode::Nmi => lapic.accept_nmi(),
            DeliveryMode::ExtInt => lapic.accept_extint(),
            DeliveryMode::Init => {
                drop(lapic);
                self.init(number);
            }
            DeliveryMode::StartUp => {
                drop(lapic);
                self.signals.push((number, VcpuSignal::Sipi(message.vector)));
            }
            DeliveryMode::Smi | DeliveryMode::Reserved => return false,
        }
        true
    }

    /// Initialises a local APIC, and has the owner initialise the processor.
    pub(super) fn init(&mut self, number: usize) {
        self.change(number).init();
        self.signals.push((number, VcpuSignal::Init));
    }
}
