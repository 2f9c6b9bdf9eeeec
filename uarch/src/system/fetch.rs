//! What is told of the fetch of instructions.

use super::pages::KnownPage;
use super::translation::{PageTables, Side};
use super::{Processor, System, pieces};
use crate::cache::{self, MemoryType};
use crate::occurrences::Occurrences;
use crate::tlb::{Lookup, Tlbs};

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
    /// they are. Else each is to be fetched on its own ([`System::fetch`]).
    #[inline(always)]
    pub fn fetch_at_once(&mut self, time: u64, fetch: &Fetch) -> bool {
        let Fetch { linear, physical, second_page, bytes } = *fetch;
        let of = self.processors.running_mut();
        of.time = time;
        let end = linear.wrapping_add(u64::from(bytes));
        let resumes = of.resumes(linear);
        if resumes && end <= of.next {
            return true;
        }
        if second_page.is_some() {
            return false;
        }
        let (occurrences, tlbs) = (self.occurrences.running_mut(), self.tlbs.running_mut());
        let Some(memory) =
            of.code_page.get(linear).or_else(|| of.find_code(tlbs, linear, occurrences))
        else {
            return false;
        };
        if !memory.is_cacheable() {
            return false;
        }
        let begin = if resumes { of.next } else { linear };
        let physical = physical + (begin - linear);
        let bytes = (end - begin) as u32;
        let fetch = cache::Fetch { physical, bytes, sequential: resumes, memory };
        if !self.caches.fetch_hits(occurrences, &fetch) {
            return false;
        }
        of.has_fetched(begin, end, resumes, true);
        true
    }

    /// An instruction is fetched. Cycles beyond hits in the instruction cache and the TLB.
    pub fn fetch(&mut self, processor: usize, tables: &impl PageTables, fetch: &Fetch) -> u64 {
        let Fetch { linear, physical, second_page, bytes } = *fetch;
        let window = u64::from(self.caches.fetch_window());
        let of = &mut self.processors[processor];
        let end = linear.wrapping_add(u64::from(bytes));
        let mut resumes = of.resumes(linear);
        if resumes && end <= of.window_end(window) {
            of.next = of.next.max(end);
            return 0;
        }
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
            self.processors[processor].has_fetched(begin, end, resumes, memory.is_cacheable());
            resumes = true;
        }
        cycles
    }
}

impl Processor {
    /// How the page of code at a linear address is cached, if that is known and the TLB has the page.
    #[inline(never)]
    fn find_code(
        &mut self,
        tlbs: &mut Tlbs,
        linear: u64,
        occurrences: &mut Occurrences,
    ) -> Option<MemoryType> {
        // Another page may be the one used last now.
        self.code_page = KnownPage::NONE;
        if self.paging && tlbs.code(linear, occurrences) != Lookup::Hit {
            return None;
        }
        let memory = self.memory_types.get(linear)?;
        self.code_page = KnownPage::new(linear, memory);
        Some(memory)
    }

    /// Whether an instruction at a linear address goes on where fetch has been since the last taken
    /// transfer: it follows, or was fetched already and begins again.
    #[inline(always)]
    fn resumes(&self, linear: u64) -> bool {
        !self.redirected && linear.wrapping_sub(self.start) <= self.next.wrapping_sub(self.start)
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
