//! Loads and stores: when a load has its data, and when a store is in the cache.

use pmu_model::Signal;

use super::{core::Memory, instruction::Forwarding, room::Room};
use crate::occurrences::Occurrences;
use crate::state::{LATEST, State, Visitor};

/// Stores that are remembered to forward from.
const STORES: usize = 64;

/// A store, for loads of the same bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Store {
    /// Its data is there.
    data: u64,
    /// It is in the cache.
    written: u64,
}

/// The memory side of a pipeline.
#[derive(Clone, Debug)]
pub(super) struct MemoryUnit {
    policy: Memory,
    forward_delay: u64,
    stores: [Store; STORES],
    count: usize,
    /// When the last store is in the cache.
    pub(super) written: u64,
    /// When the addresses of all stores so far are known.
    addresses: u64,
    /// When every access so far that missed has its data.
    pub(super) quiet: u64,
    /// The cycle of the last probe, how many there were in it, and the address if it was one load.
    probed: u64,
    probes: u8,
    probed_load: Option<u64>,
    /// Room in LS2, and cycles in which there was none that are not yet reported.
    second: Room,
}

/// Cycles from the probe of the data cache until a load has its data, on AMD's processors: the load
/// takes three from the issue of its address (AMD 22007 page 151, table 6).
const PROBE_TO_DATA: u64 = 2;

impl MemoryUnit {
    pub(super) fn new(policy: Memory, forward_delay: u8) -> Self {
        let second = match policy {
            Memory::InOrder { second, .. } => second,
            Memory::Buffers { .. } => 0,
        };
        Self {
            policy,
            forward_delay: u64::from(forward_delay),
            stores: [Store::default(); STORES],
            count: 0,
            written: 0,
            addresses: 0,
            quiet: 0,
            probed: 0,
            probes: 0,
            probed_load: None,
            second: Room::new(u64::from(second)),
        }
    }

    /// The cycle from which a load can be issued, as far as older stores decide that.
    #[inline(always)]
    pub(super) fn load_ready(&self) -> u64 {
        match self.policy {
            Memory::InOrder { .. } => 0,
            Memory::Buffers { .. } => self.addresses,
        }
    }

    /// The address of a store is known.
    #[inline(always)]
    pub(super) fn address_known(&mut self, cycle: u64) {
        self.addresses = self.addresses.max(cycle);
    }

    /// The data cache is probed, at a cycle at the earliest, in program order: the cycle.
    #[inline(always)]
    pub(super) fn probe(
        &mut self,
        ready: u64,
        load: Option<u64>,
        occurrences: &mut Occurrences,
    ) -> u64 {
        let Memory::InOrder { ports, bank, index, .. } = self.policy else { return ready };
        let mut cycle = ready.max(self.probed);
        if cycle == self.probed {
            if self.probes == ports {
                cycle += 1;
            } else if let (Some(a), Some(b)) = (self.probed_load, load)
                && (a ^ b) & bank == 0
                && (a ^ b) & index != 0
            {
                occurrences.fire(Signal::StallEarlyCancel, 1);
                cycle += 1;
            }
        }
        let mut full = 0;
        while self.second.lacks(1) != 0 {
            full += 1;
            self.second.step();
        }
        self.second.advance(cycle);
        cycle = self.second.now();
        if full > 0 {
            occurrences.fire(Signal::StallLs2Full, full);
        }
        if cycle == self.probed {
            self.probes += 1;
        } else {
            self.probed = cycle;
            self.probes = 1;
        }
        self.probed_load = load;
        cycle
    }

    /// When a load has its data, of which the cache gives it at a cycle if it hits.
    #[inline(always)]
    pub(super) fn data(&mut self, hit: u64, delay: u64, forwarding: Forwarding) -> u64 {
        let mut data = hit + delay;
        match forwarding {
            Forwarding::None => {}
            Forwarding::From(back) => {
                data = data.max(self.store(back).data + self.forward_delay);
            }
            Forwarding::Blocked(back) => {
                data = data.max(self.store(back).written + self.forward_delay);
            }
        }
        if delay > 0 {
            self.quiet = self.quiet.max(data);
        }
        data
    }

    /// Whether a load at a cycle waits until a store is in the cache.
    #[inline(always)]
    pub(super) fn is_blocked(&self, cycle: u64, forwarding: Forwarding) -> bool {
        match forwarding {
            Forwarding::Blocked(back) => self.store(back).written > cycle,
            _ => false,
        }
    }

    /// Whether the store that a load at a cycle has its data from does not have it yet.
    #[inline(always)]
    pub(super) fn lacks_data(&self, cycle: u64, forwarding: Forwarding) -> bool {
        match forwarding {
            Forwarding::From(back) => self.store(back).data > cycle,
            _ => false,
        }
    }

    /// When a load that probed the cache at a cycle has its data, if it hits.
    pub(super) fn hit(probed: u64) -> u64 {
        probed + PROBE_TO_DATA
    }

    /// A place of LS2 is held from the probe until a cycle.
    #[inline(always)]
    pub(super) fn hold_second(&mut self, until: u64) {
        self.second.take(1);
        self.second.release(until + 1, 1);
    }

    /// A place of LS2 is held from the probe on, until [`Self::release_second`].
    #[inline(always)]
    pub(super) fn take_second(&mut self) {
        self.second.take(1);
    }

    /// A place of LS2 that was taken is held until a cycle.
    #[inline(always)]
    pub(super) fn release_second(&mut self, until: u64) {
        self.second.release(until + 1, 1);
    }

    /// A store has its data, and retires at a cycle: when it is in the cache.
    #[inline(always)]
    pub(super) fn write(&mut self, data: u64, retired: u64, delay: u64) -> u64 {
        let after = match self.policy {
            Memory::InOrder { .. } => self.written,
            Memory::Buffers { .. } => self.written + 1,
        };
        self.written = after.max(retired + 1) + delay;
        if delay > 0 {
            self.quiet = self.quiet.max(self.written);
        }
        self.stores[self.count % STORES] = Store { data, written: self.written };
        self.count += 1;
        self.written
    }

    fn store(&self, back: u8) -> Store {
        let back = usize::from(back);
        if back < self.count.min(STORES) {
            self.stores[(self.count - 1 - back) % STORES]
        } else {
            Store::default()
        }
    }
}

crate::state! { Store { cycles: data, written; } }

impl State for MemoryUnit {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self {
            policy,
            forward_delay: _,
            stores,
            count,
            written,
            addresses,
            quiet,
            probed,
            probes,
            probed_load,
            second,
        } = self;
        stores.visit(visitor);
        visitor.name("MemoryUnit");
        for cycle in [written, addresses, quiet, probed] {
            visitor.cycles(std::slice::from_mut(cycle));
        }
        count.visit(visitor);
        visitor.check(*count as u64 <= LATEST);
        probes.visit(visitor);
        let (ports, places) = match *policy {
            Memory::InOrder { ports, second, .. } => (ports, second),
            Memory::Buffers { .. } => (0, 0),
        };
        visitor.check(*probes <= ports);
        probed_load.visit(visitor);
        second.visit(visitor, places.into());
    }
}
