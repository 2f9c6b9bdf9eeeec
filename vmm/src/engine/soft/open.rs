//! What has been executed of a processor and is not counted yet.

use pmu_model::Demand;
use x86_cpu::observe::{Accesses, Heeded, Observer};

use super::quiet;
use super::stretch::CountingContext;
use super::vcpu::{Siblings, Vcpu};
use crate::irq::Pending;

/// A run whose end has yet to be counted; or several, if nobody has looked at the processor between them.
#[derive(Clone, Copy)]
pub(super) struct Open {
    /// The signals that counters take from this processor, its own and its siblings'.
    pub(super) demand: Demand,
    /// What execution is counted under.
    pub(super) context: CountingContext,
    /// It only waits: nothing is executed.
    pub(super) waits: bool,
    /// When it began, by which counters of siblings take what it does, or do not yet; and whether they take some of it.
    pub(super) begun: u64,
    pub(super) shared: bool,
    /// [`pmu_model::Pmu::programmings`] then.
    pub(super) programmings: u64,
    /// A pipeline keeps the time, so that several instructions may retire in one cycle.
    pub(super) keeps_time: bool,
    /// Whether steps may pass that are counted with others: each is asked for, no pipeline tells of it, and no sibling
    /// counts it.
    pub(super) steps_may_be_quiet: bool,
    /// What a step is not to do that passes without being asked for.
    pub(super) heeded: Heeded,
    /// Where `context` began: virtual time, and retired instructions; and what a transfer before it did at the inner
    /// level, which counts with the first instruction behind.
    pub(super) since: (u64, u64),
    pub(super) inner: Accesses,
    /// The time up to which everything has been counted.
    pub(super) counted_time: u64,
    /// The instructions that have been counted, of all since power-on.
    pub(super) counted_instructions: u64,
}

impl Open {
    /// Nothing but the time `since` then. The observer is told what a transfer did at the inner level. Each step is asked
    /// for unless `steps_are_bounded`.
    #[inline(always)]
    pub(super) fn new<O: Observer>(
        vcpu: &mut Vcpu,
        siblings: &Siblings<'_>,
        demand: &Demand,
        since: u64,
        pending: Pending,
        steps_are_bounded: bool,
        observer: &mut O,
    ) -> Self {
        let waits_under = vcpu.waits_under.take();
        let waits = waits_under.is_some();
        let context = waits_under.unwrap_or_else(|| vcpu.counting_context(pending));
        vcpu.counted_under = Some(context);
        let inner = if waits { Accesses::default() } else { std::mem::take(&mut vcpu.inner) };
        if let Some(facts) = observer.facts() {
            facts.stores = inner.stores;
            facts.misaligned = inner.misaligned;
        }
        let (begun, retired) = (vcpu.cpu.time, vcpu.cpu.retired());
        let shared = siblings.count_the_core(begun);
        let keeps_time = observer.keeps_time();
        let steps_may_be_quiet = demand.per_cycle && !keeps_time && !shared && !steps_are_bounded;
        let heeded =
            if steps_may_be_quiet { quiet::heeded(&demand.signals) } else { Heeded::NOTHING };
        Self {
            demand: *demand,
            context,
            waits,
            begun,
            shared,
            programmings: vcpu.pmu.programmings(),
            keeps_time,
            steps_may_be_quiet,
            heeded,
            since: (begun, retired),
            inner,
            counted_time: since,
            counted_instructions: retired,
        }
    }

    /// What execution is counted under; `None` if nothing is counted.
    #[inline(always)]
    pub(super) fn counted_under(&self) -> Option<CountingContext> {
        self.demand.counting.then_some(self.context)
    }
}
