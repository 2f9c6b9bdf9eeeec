//! What is told of the fetch of instructions.

use pmu_model::Signal;

use super::pages::{KnownPage, PAGE};
use super::processor::{Locality, Processor};
use super::translation::{PageTables, Side};
use super::{System, pieces};
use crate::cache;
use crate::tlb::Tlbs;

/// Bytes of code that are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Linear address.
    pub linear: u64,
    /// Guest-physical address of the first byte.
    pub physical: u64,
    /// Guest-physical address of the next page, if they reach into that.
    pub second_page: Option<u64>,
    /// How many.
    pub bytes: u32,
}

impl System {
    /// The running processor fetches the instructions of a straight line, from `time` on
    /// ([`System::set_time`]), if all of them are in the instruction cache and their page in the TLB: whether
    /// they are. Else each is to be fetched on its own ([`System::fetch`]), which is the same, as what is counted must
    /// not depend on where a straight line is cut. For that it has to be told where the line is left
    /// ([`System::unfetch`]), and asked whether one of its lines has left the cache ([`System::takes_code_dropped`]).
    #[inline(always)]
    pub fn fetch_at_once(&mut self, time: u64, fetch: &Fetch) -> bool {
        let Fetch { linear, physical, second_page, bytes } = *fetch;
        let Processor { locality: of, occurrences, .. } = self.processors.running_mut();
        of.time = time;
        let end = linear.wrapping_add(u64::from(bytes));
        let resumes = of.resumes(linear);
        // What begins again is fetched already, in parts.
        if second_page.is_some() || resumes && linear != of.next {
            return false;
        }
        let tlbs = self.tlbs.running_mut();
        if !of.code_page.is_cacheable_page_of(linear) && !of.finds_cacheable_code(tlbs, linear) {
            return false;
        }
        if !self.caches.fetch_hits(occurrences, physical, bytes.into(), resumes) {
            return false;
        }
        of.has_fetched(linear, end, resumes, true);
        true
    }

    /// Of what the running processor has last fetched at once, what is behind a linear address was not fetched; some of
    /// it was.
    #[inline(never)]
    pub fn unfetch(&mut self, end: u64) {
        let Processor { locality: of, occurrences, .. } = self.processors.running_mut();
        let shift = self.caches.fetch_window().trailing_zeros();
        // It is all in one page.
        let window = |end: u64| (end.wrapping_sub(1) & (PAGE - 1)) >> shift;
        let windows = window(of.next) - window(end);
        of.next = end;
        if windows != 0 {
            self.caches.unfetch(occurrences, windows);
        }
    }

    /// Whether since the last call a line has left the running processor's instruction cache, other than for another
    /// line of code.
    #[inline(always)]
    pub fn takes_code_dropped(&mut self) -> bool {
        self.caches.take_code_dropped()
    }

    /// Whether a log is kept of fetches: then each instruction is to be fetched on its own.
    #[inline]
    #[must_use]
    pub fn logs_fetches(&self) -> bool {
        self.processors.running().occurrences.logs(Signal::L1iFetch)
    }

    /// An instruction is fetched. Cycles beyond hits in the instruction cache and the TLB.
    pub fn fetch(&mut self, processor: usize, tables: &impl PageTables, fetch: &Fetch) -> u64 {
        let Fetch { linear, physical, second_page, bytes } = *fetch;
        let window = u64::from(self.caches.fetch_window());
        let of = &mut self.processors[processor].locality;
        if of.fetches_on(linear, bytes, window) {
            return 0;
        }
        let mut resumes = of.resumes(linear);
        let begin = if resumes { of.next } else { linear };
        let mut cycles = 0;
        for (linear, physical, bytes) in pieces(linear, physical, second_page, bytes) {
            let end = linear.wrapping_add(u64::from(bytes));
            // What was fetched with the instruction before, or in the piece before this one.
            let skipped = begin.saturating_sub(linear).min(u64::from(bytes));
            if skipped == u64::from(bytes) {
                continue;
            }
            let (memory, walk) = self.translate(processor, tables, linear, Side::Code);
            let physical = physical + skipped;
            let bytes = bytes - skipped as u32;
            let fetch = cache::Fetch { physical, bytes, sequential: resumes, memory };
            cycles += walk;
            cycles += self
                .with_caches(processor, |caches, context| caches.fetch(context, processor, &fetch));
            self.processors[processor].locality.has_fetched(
                begin,
                end,
                resumes,
                memory.is_cacheable(),
            );
            resumes = true;
        }
        cycles
    }
}

impl Locality {
    /// Whether the page of code at a linear address may be cached, where that is known and the TLB has the page where
    /// it need not be searched for.
    #[inline(never)]
    fn finds_cacheable_code(&mut self, tlbs: &mut Tlbs, linear: u64) -> bool {
        if self.code_page.get(linear).is_some() {
            return false;
        }
        let Some(memory) = self.code_types.get(linear) else { return false };
        if self.paging && !tlbs.has_recent_code(linear) {
            return false;
        }
        self.code_page = KnownPage::new(linear, memory);
        memory.is_cacheable()
    }

    /// Whether an instruction at a linear address goes on where fetch has been since the last taken
    /// transfer: it follows, or was fetched already and begins again.
    #[inline(always)]
    fn resumes(&self, linear: u64) -> bool {
        !self.redirected && linear.wrapping_sub(self.start) <= self.next.wrapping_sub(self.start)
    }

    /// See [`System::fetches_on`].
    #[inline(always)]
    pub(super) fn fetches_on(&mut self, linear: u64, bytes: u32, window: u64) -> bool {
        let end = linear.wrapping_add(u64::from(bytes));
        let goes_on = self.resumes(linear) && end <= self.window_end(window);
        if goes_on {
            self.next = self.next.max(end);
        }
        goes_on
    }

    /// Code was fetched.
    #[inline(always)]
    fn has_fetched(&mut self, begin: u64, end: u64, resumes: bool, in_windows: bool) {
        if !resumes {
            self.start = begin;
        }
        self.next = end;
        self.in_windows = in_windows;
        self.redirected = false;
    }

    /// Up to where code was read with what has been fetched last, in windows of so many bytes.
    fn window_end(&self, window: u64) -> u64 {
        if self.in_windows {
            (self.next.wrapping_sub(1) | (window - 1)).wrapping_add(1)
        } else {
            self.next
        }
    }
}
