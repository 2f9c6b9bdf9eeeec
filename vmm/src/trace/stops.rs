//! At which acts a debugger stops the machine.

use std::collections::BTreeMap;

use super::{Act, MsrAccess, Record, words};

/// The acts at which it stops, and the first at which it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActStops {
    /// A counter overflows.
    pub(crate) overflows: bool,
    /// A processor takes the interrupt of a counter.
    pub(crate) interrupts: bool,
    /// WRMSR of these registers, by ECX; and RDMSR, unless it is writes alone.
    pub(crate) registers: BTreeMap<u32, OnlyWrites>,
    hit: Option<ActHit>,
}

/// Whether RDMSR is none of the acts.
pub(crate) type OnlyWrites = bool;

/// An act at which the machine is to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActHit {
    /// The processor that acts.
    pub(crate) vcpu: usize,
    /// What it does, in words.
    pub(crate) words: String,
}

impl ActStops {
    /// Whether there is anything to stop at.
    pub(crate) fn is_empty(&self) -> bool {
        !self.overflows && !self.interrupts && self.registers.is_empty()
    }

    /// Whether the machine is to stop.
    pub(crate) fn is_hit(&self) -> bool {
        self.hit.is_some()
    }

    /// Why the machine is to stop; it is to go on then.
    pub(crate) fn take_hit(&mut self) -> Option<ActHit> {
        self.hit.take()
    }

    /// Looks at an act.
    pub(super) fn notice(&mut self, record: &Record<'_>) {
        let wanted = match record.act {
            Act::Overflow { .. } => self.overflows,
            Act::Delivered(_) => self.interrupts,
            _ => false,
        };
        if wanted {
            let hit = || ActHit { vcpu: record.vcpu, words: words::of(record) };
            self.hit.get_or_insert_with(hit);
        }
    }

    /// Looks at RDMSR or WRMSR, of whatever register.
    pub(super) fn notice_msr(&mut self, vcpu: usize, access: &MsrAccess) {
        let only_writes = self.registers.get(&access.index);
        if only_writes.is_none_or(|&only_writes| only_writes && access.written.is_none()) {
            return;
        }
        let index = access.index;
        let words = match (access.written, access.outcome) {
            (Some(value), Ok(_)) => format!("WRMSR {index:X}h = {value:X}h"),
            (Some(value), Err(_)) => format!("WRMSR {index:X}h = {value:X}h: #GP"),
            (None, Ok(value)) => format!("RDMSR {index:X}h: {value:X}h"),
            (None, Err(_)) => format!("RDMSR {index:X}h: #GP"),
        };
        self.hit.get_or_insert(ActHit { vcpu, words });
    }
}
