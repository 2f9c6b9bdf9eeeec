//! Which signal stands for which state of a line.

use super::state::LineState;
use crate::occurrences::Occurrences;
use pmu_model::Signal::{self, *};

/// One signal a state, by the state's number.
pub(super) struct ByState([Option<Signal>; 5]);

impl ByState {
    /// Invalid, Shared, Exclusive, Owned, Modified.
    const fn new(
        invalid: Signal,
        shared: Signal,
        exclusive: Signal,
        owned: Signal,
        modified: Signal,
    ) -> Self {
        Self([Some(invalid), Some(shared), Some(exclusive), Some(owned), Some(modified)])
    }

    /// Those of the processors whose protocol is MESI, which have no line Owned.
    const fn mesi(invalid: Signal, shared: Signal, exclusive: Signal, modified: Signal) -> Self {
        Self([Some(invalid), Some(shared), Some(exclusive), None, Some(modified)])
    }

    /// The same without one for Invalid.
    const fn valid(shared: Signal, exclusive: Signal, modified: Signal) -> Self {
        Self([None, Some(shared), Some(exclusive), None, Some(modified)])
    }

    /// One occurrence in a state.
    #[inline]
    pub(super) fn fire(&self, occurrences: &mut Occurrences, state: LineState) {
        if let Some(signal) = self.0[state as usize] {
            occurrences.fire(signal, 1);
        }
    }
}

/// A line comes into the data cache from the second level.
pub(super) const L1D_REFILL_L2: ByState = ByState::new(
    L1dRefillL2Invalid,
    L1dRefillL2Shared,
    L1dRefillL2Exclusive,
    L1dRefillL2Owned,
    L1dRefillL2Modified,
);

/// A line comes into the data cache from memory or another cache.
pub(super) const L1D_REFILL_SYSTEM: ByState = ByState::new(
    L1dRefillSystemInvalid,
    L1dRefillSystemShared,
    L1dRefillSystemExclusive,
    L1dRefillSystemOwned,
    L1dRefillSystemModified,
);

/// A line of the data cache is displaced.
pub(super) const L1D_EVICT: ByState = ByState::new(
    L1dEvictInvalid,
    L1dEvictShared,
    L1dEvictExclusive,
    L1dEvictOwned,
    L1dEvictModified,
);

/// Memory or another cache answers a request for a line.
pub(super) const SYSTEM_READ: ByState =
    ByState::valid(SystemReadShared, SystemReadExclusive, SystemReadModified);

/// A request to the second level, of any kind.
pub(super) const L2_REQUEST: ByState =
    ByState::mesi(L2RequestInvalid, L2RequestShared, L2RequestExclusive, L2RequestModified);

/// A request of a load.
pub(super) const L2_REQUEST_LOAD: ByState = ByState::mesi(
    L2RequestLoadInvalid,
    L2RequestLoadShared,
    L2RequestLoadExclusive,
    L2RequestLoadModified,
);

/// A request of a store.
pub(super) const L2_REQUEST_STORE: ByState = ByState::mesi(
    L2RequestStoreInvalid,
    L2RequestStoreShared,
    L2RequestStoreExclusive,
    L2RequestStoreModified,
);

/// A request of an instruction fetch.
pub(super) const L2_REQUEST_IFETCH: ByState = ByState::mesi(
    L2RequestIfetchInvalid,
    L2RequestIfetchShared,
    L2RequestIfetchExclusive,
    L2RequestIfetchModified,
);

/// A read, of code or data, that found its line.
pub(super) const L2_REQUEST_READ: ByState =
    ByState::valid(L2RequestReadShared, L2RequestReadExclusive, L2RequestReadModified);

/// A request of a load whose line no hardware prefetch has brought, or which is not there.
pub(super) const L2_LOAD_DEMAND: ByState = ByState::mesi(
    L2LoadDemandInvalid,
    L2LoadDemandShared,
    L2LoadDemandExclusive,
    L2LoadDemandModified,
);

/// A request of a load whose line a hardware prefetch has brought.
pub(super) const L2_LOAD_PREFETCHED: ByState =
    ByState::valid(L2LoadPrefetchedShared, L2LoadPrefetchedExclusive, L2LoadPrefetchedModified);

/// A line comes into the second level, not by a hardware prefetch.
pub(super) const L2_FILL_DEMAND: ByState =
    ByState::valid(L2FillDemandShared, L2FillDemandExclusive, L2FillDemandModified);

/// A line comes into the second level by a hardware prefetch.
pub(super) const L2_FILL_PREFETCHED: ByState =
    ByState::valid(L2FillPrefetchedShared, L2FillPrefetchedExclusive, L2FillPrefetchedModified);

/// A line leaves the second level that no hardware prefetch had brought.
pub(super) const L2_EVICT_DEMAND: ByState =
    ByState::valid(L2EvictDemandShared, L2EvictDemandExclusive, L2EvictDemandModified);

/// A line leaves the second level that a hardware prefetch had brought.
pub(super) const L2_EVICT_PREFETCHED: ByState =
    ByState::valid(L2EvictPrefetchedShared, L2EvictPrefetchedExclusive, L2EvictPrefetchedModified);
