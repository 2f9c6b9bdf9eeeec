//! What a counter can be programmed to count: each event, and each unit mask of an event by itself.

use guest_tests::msr::{CLOCKS, OS, USR};
use guest_tests::part::{Part, Registers};
use pmu_model::{Availability, EventDef, Fidelity, Personality, Tier, UmaskRule, Unit};

/// An event with one of its unit masks.
pub(crate) struct Select {
    /// The event.
    pub event: &'static EventDef,
    /// The unit mask; zero if the event has none.
    pub umask: u8,
    /// The event's name, and behind a point that of the unit mask, several of them joined by `+`.
    pub name: String,
    /// How well it can be counted.
    pub fidelity: Fidelity,
    /// Whether it counts in the tier with models.
    pub availability: Availability,
}

impl Select {
    /// All of a processor.
    pub(crate) fn all(personality: &'static Personality) -> Vec<Self> {
        personality.events.iter().flat_map(|event| Self::of(personality, event)).collect()
    }

    /// Those of an event.
    fn of(personality: &'static Personality, event: &'static EventDef) -> Vec<Self> {
        let live = personality.live.of(Tier::Microarchitecture);
        let select = |umask: u8, names: &[&str], fidelity: Fidelity| {
            let mask = names.join("+");
            let name = match mask.as_str() {
                "" => event.name.into(),
                _ => format!("{}.{mask}", event.name),
            };
            let availability = event.availability_of(umask, live);
            Self { event, umask, name, fidelity, availability }
        };
        let bits = |umask: u8| -> Vec<_> {
            let of = event.umasks.iter().filter(|bit| match bit.mask {
                0 => false,
                mask => umask & mask == mask,
            });
            of.map(|bit| bit.name).collect()
        };
        match event.umask_rule {
            UmaskRule::Ignored => vec![select(0, &[], event.fidelity)],
            UmaskRule::Routes(routes) => routes
                .iter()
                .map(|route| select(route.mask, &bits(route.mask), event.fidelity))
                .collect(),
            UmaskRule::Bits | UmaskRule::Required | UmaskRule::Values { .. } => {
                event.umasks.iter().map(|bit| select(bit.mask, &[bit.name], bit.fidelity)).collect()
            }
        }
    }

    /// The first counter that can count it.
    pub(crate) fn counter(&self) -> u32 {
        self.event.counters.trailing_zeros()
    }

    /// The select without its enable bit, at every privilege level; as [`guest_tests::msr`] has the
    /// fields.
    pub(crate) fn word(&self, part: &Part) -> u64 {
        let code = u64::from(self.event.code);
        match part.registers {
            // What lasts is counted in clocks (CC bit 2), not in beginnings.
            Registers::P55c if self.event.unit == Unit::Cycles => code | OS | USR | CLOCKS,
            Registers::P55c => code | OS | USR,
            _ => code | u64::from(self.umask) << 8 | OS | USR,
        }
    }
}
