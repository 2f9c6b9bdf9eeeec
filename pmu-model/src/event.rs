//! Events: what a personality lets a guest select, and the signals that feed each.

use crate::counts::SignalSet;
use crate::personality::NEVER;
use crate::signal::Signal;

/// How well a count can match the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Fidelity {
    /// Defined by the architecture: equal to a hand count.
    Exact,
    /// Right if the cache, TLB, predictor or device model is right.
    Modelled,
    /// Depends on pipeline or bus detail that a model only approximates.
    Estimated,
    /// What a PC with one socket, or the model of the part, does not have: counts zero.
    Absent,
}

impl Fidelity {
    /// The fidelity in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Fidelity::Exact => "exact",
            Fidelity::Modelled => "modelled",
            Fidelity::Estimated => "estimated",
            Fidelity::Absent => "absent",
        }
    }
}

/// Whether a selection counts. Derived from the signals that fire
/// ([`LiveSignals`](crate::LiveSignals)), never typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Availability {
    /// Every signal of it is fired.
    Live,
    /// Some unit masks are live, others pending.
    Partial,
    /// Its signals need a model that the tier does not have: reads zero until it does.
    Pending,
    /// It counts what is not there, in this PC or in the models: reads zero.
    Absent,
}

impl Availability {
    /// The availability in one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Availability::Live => "live",
            Availability::Partial => "partial",
            Availability::Pending => "pending",
            Availability::Absent => "absent",
        }
    }

    /// Of one sum of signals, where `live` are those that fire: pending as soon as one term is
    /// missing, because the rest of the sum would be a wrong number and not a smaller truth. A term that
    /// never occurs is not missing.
    pub fn of_sum(signals: &[Signal], live: &SignalSet) -> Availability {
        let fires = |signal: &Signal| live.contains(*signal);
        let never_occurs = |signal: &Signal| NEVER.contains(*signal);
        if !signals.iter().any(fires) && signals.iter().all(never_occurs) {
            Availability::Absent
        } else if signals.iter().all(|signal| fires(signal) || never_occurs(signal)) {
            Availability::Live
        } else {
            Availability::Pending
        }
    }

    /// Of several sums selected together; what is absent does not weigh.
    fn of_sums(sums: impl Iterator<Item = &'static [Signal]>, live: &SignalSet) -> Availability {
        let (mut counts, mut waits) = (false, false);
        for sum in sums {
            match Availability::of_sum(sum, live) {
                Availability::Live => counts = true,
                Availability::Pending => waits = true,
                Availability::Partial | Availability::Absent => {}
            }
        }
        match (counts, waits) {
            (true, false) => Availability::Live,
            (true, true) => Availability::Partial,
            (false, true) => Availability::Pending,
            (false, false) => Availability::Absent,
        }
    }
}

/// What one increment stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Unit {
    /// One occurrence of the event.
    Occurrences,
    /// One processor clock during which the condition held.
    Cycles,
}

/// Whether wrong-path work is included on the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Speculation {
    /// Only what retired.
    Retired,
    /// Includes work on mispredicted paths.
    Speculative,
    /// The document does not say.
    Unspecified,
}

/// How the unit mask of a select picks what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum UmaskRule {
    /// No mask table: the mask is ignored, whatever it is.
    Ignored,
    /// Each bit selects a sub-event; no bit selects nothing.
    Bits,
    /// One documented bit, which must be set.
    Required,
    /// The masks are values of the bits in `field`: the one that equals them is selected.
    Values {
        /// The bits that are compared; the others are ignored.
        field: u8,
    },
    /// The mask is several fields; a combination counts when all of its bits are set.
    Routes(&'static [Route]),
}

impl UmaskRule {
    /// Whether `umask` is one that the manual gives for an event with this rule and these masks.
    pub(crate) fn documents(self, umasks: &[UnitMask], umask: u8) -> bool {
        match self {
            UmaskRule::Ignored | UmaskRule::Bits | UmaskRule::Routes(_) => true,
            UmaskRule::Required => umasks.iter().any(|bit| umask & bit.mask != 0),
            UmaskRule::Values { field } => umasks.iter().any(|value| umask & field == value.mask),
        }
    }
}

/// Whose occurrences a counter sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Scope {
    /// Those of its own hardware thread.
    Thread,
    /// Those of the core: the event has no thread context.
    Core,
}

/// One request type over one route, of an event with [`UmaskRule::Routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Route {
    /// The bits that together select it.
    pub mask: u8,
    /// The bits that must not be set.
    pub clear: u8,
    /// What it counts; empty where a one-socket guest has no such route.
    pub signals: &'static [Signal],
}

/// One bit of an event's unit mask, or one value under [`UmaskRule::Values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UnitMask {
    /// The bit as a mask, or the value.
    pub mask: u8,
    /// Name in capitals, unique within the event; empty for the only value of an event.
    pub name: &'static str,
    /// The name that libpfm4 has for it; empty where it has none.
    pub libpfm4: &'static str,
    /// The manual's wording.
    pub title: &'static str,
    /// How well it can be counted.
    pub fidelity: Fidelity,
    /// The signals it sums; empty if absent, or if the event's routes hold them.
    pub signals: &'static [Signal],
}

/// An event's names in the tables of public clients; empty where a client has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Aliases {
    /// libpfm4 (the tables of revision E for K8).
    pub libpfm4: &'static str,
    /// OProfile.
    pub oprofile: &'static str,
    /// LIKWID.
    pub likwid: &'static str,
    /// perfctr.
    pub perfctr: &'static str,
}

impl Aliases {
    /// The names, in the order in which a name is looked up. Empty where there is none.
    pub const fn all(&self) -> [&'static str; 4] {
        [self.libpfm4, self.oprofile, self.perfctr, self.likwid]
    }
}

/// One row of a personality's event table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EventDef {
    /// `EVENT_SELECT` value.
    pub code: u8,
    /// Name in capitals: the manual's title, words joined by underscores.
    pub name: &'static str,
    /// The manual's title.
    pub title: &'static str,
    /// What is counted, in a sentence.
    pub description: &'static str,
    /// What one increment stands for.
    pub unit: Unit,
    /// Whether wrong-path work is included on the hardware.
    pub speculation: Speculation,
    /// How well the event as a whole can be counted.
    pub fidelity: Fidelity,
    /// Bit n: counter n can count it.
    pub counters: u8,
    /// Whose occurrences a counter sees.
    pub scope: Scope,
    /// How the unit mask picks what is counted.
    pub umask_rule: UmaskRule,
    /// The mask meant when none is named: every bit that the manual's table documents.
    pub default_umask: u8,
    /// The signals summed by an event whose mask is ignored; empty for the other rules.
    pub signals: &'static [Signal],
    /// The bits of the unit mask.
    pub umasks: &'static [UnitMask],
    /// Processor revisions that have it; empty if all.
    pub revision: &'static str,
    /// What a user should know; empty if nothing.
    pub note: &'static str,
    /// Section of the source.
    pub section: &'static str,
    /// Document.
    pub source: &'static str,
    /// Names that public clients have for it.
    pub aliases: Aliases,
}

impl EventDef {
    /// The sums of signals that `umask` selects, one for each sub-event. A signal that several of
    /// them name still counts once: sub-events are monitored together, not added up.
    pub fn selected(&'static self, umask: u8) -> impl Iterator<Item = &'static [Signal]> {
        let (sums, bits, routes): (&[&[Signal]], &[UnitMask], &[Route]) = match self.umask_rule {
            UmaskRule::Ignored => (core::slice::from_ref(&self.signals), &[], &[]),
            UmaskRule::Bits | UmaskRule::Required | UmaskRule::Values { .. } => {
                (&[], self.umasks, &[])
            }
            UmaskRule::Routes(routes) => (&[], &[], routes),
        };
        let bits = bits.iter().filter(move |bit| match self.umask_rule {
            UmaskRule::Values { field } => umask & field == bit.mask,
            _ => umask & bit.mask != 0,
        });
        let routes =
            routes.iter().filter(move |route| umask & (route.mask | route.clear) == route.mask);
        sums.iter().copied().chain(bits.map(|b| b.signals)).chain(routes.map(|r| r.signals))
    }

    /// The signals that a select with `umask` counts where the signals `live` fire: those of the sums that
    /// count, without what never occurs. One that several of them name comes several times.
    pub fn counted(&'static self, umask: u8, live: &SignalSet) -> impl Iterator<Item = Signal> {
        let counts = |sum: &&[Signal]| Availability::of_sum(sum, live) == Availability::Live;
        let sums = self.selected(umask).filter(counts);
        sums.flatten().copied().filter(|&signal| live.contains(signal))
    }

    /// Whether the event counts where the signals `live` fire, with all of its unit masks.
    pub fn availability(&'static self, live: &SignalSet) -> Availability {
        if self.umask_rule == UmaskRule::Ignored {
            return Availability::of_sum(self.signals, live);
        }
        let routes: &[Route] = match self.umask_rule {
            UmaskRule::Routes(routes) => routes,
            _ => &[],
        };
        let sums = self.umasks.iter().map(|bit| bit.signals);
        Availability::of_sums(sums.chain(routes.iter().map(|route| route.signals)), live)
    }

    /// Whether a select of the event with `umask` counts where the signals `live` fire. A mask that
    /// selects nothing is live: its zero is the true count.
    pub fn availability_of(&'static self, umask: u8, live: &SignalSet) -> Availability {
        if self.selected(umask).next().is_none() {
            return if self.fidelity == Fidelity::Absent {
                Availability::Absent
            } else {
                Availability::Live
            };
        }
        Availability::of_sums(self.selected(umask), live)
    }

    /// The bit of the unit mask that is named `name`, by the manual or by libpfm4; capitals and
    /// small letters alike.
    pub fn unit_mask(&self, name: &str) -> Option<&'static UnitMask> {
        if name.is_empty() {
            return None;
        }
        self.umasks
            .iter()
            .find(|bit| bit.name.eq_ignore_ascii_case(name))
            .or_else(|| self.umasks.iter().find(|bit| bit.libpfm4.eq_ignore_ascii_case(name)))
    }
}
