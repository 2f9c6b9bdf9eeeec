//! The programs: loads, each of which finds the address of the next, and jumps, each to the next.

use guest_tests::msr::{OS, USR};
use guest_tests::part::Event;
use guest_tests::{Guest, Part};
use iced_x86::code_asm::{cr0, cr3, cr4, dword_ptr, eax, ebp, ebx, edi, esi};
use vpmu::engine::soft::Timing;
use vpmu::program::Image;

use crate::Result;
use crate::machine::{Options, run};
use crate::routine::put;

/// Where chains begin: a multiple of the bytes of a way of every cache.
pub(super) const BASE: u32 = 0x100_0000;
/// Linear addresses from here on are pages of 4 MiB, each of which is the memory at [`BASE`].
pub(super) const LARGE: u32 = 0x4000_0000;
/// Bytes of a page of 4 MiB.
pub(super) const LARGE_PAGE: u32 = 0x40_0000;

/// Bytes of a page.
pub(super) const PAGE: u32 = 4096;

const LARGE_PAGES: u32 = 128;
const DIRECTORY: u32 = 0x80_0000;
const TABLES: u32 = 0x80_1000;
const PRESENT_WRITABLE: u32 = 3;
const CACHE_DISABLE: u32 = 1 << 4;
const LARGE_ENTRY: u32 = 1 << 7;
const CR4_PSE: i32 = 1 << 4;
const CR0_PG: u32 = 1 << 31;

/// Loads that the loop is unrolled by.
const UNROLLED: u32 = 16;

/// What a part's chain is.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// Linear addresses in the order in which they are accessed, round and round.
    pub(super) places: Vec<u32>,
    /// Whether there are page tables.
    pub(super) paging: bool,
}

impl Chain {
    /// So many places, `stride` bytes apart, one after the other.
    pub(super) fn strided(places: u32, stride: u32) -> Self {
        Self { places: (0..places).map(|n| BASE + n * stride).collect(), paging: false }
    }

    /// A place in each of so many pages of 4 KiB, `stride` pages apart, one after the other. They are at
    /// different places in their pages, so that caches have room for them.
    pub(super) fn pages(places: u32, stride: u32) -> Self {
        let place = |n: u32| BASE + n * stride * PAGE + n % 64 * 64;
        Self { places: (0..places).map(place).collect(), paging: true }
    }

    /// The same places in an order in which no two follow each other by a rule: a cyclic permutation
    /// (S. Sattolo, 1986) by a generator of random numbers (G. Marsaglia, xorshift).
    pub(super) fn shuffled(mut self) -> Self {
        let mut random = 0x1234_5678_u32;
        for n in (1..self.places.len()).rev() {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let other = (u64::from(random) * n as u64) >> 32;
            self.places.swap(n, other as usize);
        }
        self
    }

    /// So many pages of 4 MiB.
    pub(super) fn large(places: u32) -> Self {
        // Each in another line of the memory that they all are.
        let places = (0..places).map(|n| LARGE + n * LARGE_PAGE + n * 64).collect();
        Self { places, paging: true }
    }

    /// A place and what comes behind it.
    fn links(&self) -> impl Iterator<Item = (u32, u32)> {
        let next = self.places.iter().cycle().skip(1);
        self.places.iter().zip(next).map(|(&place, &next)| (place, next))
    }

    /// Bytes of memory that the machine needs.
    fn memory(&self) -> u64 {
        let last = self.places.iter().map(|&place| physical(place)).max().unwrap_or(BASE);
        (u64::from(last) + 0x1000).next_multiple_of(1 << 20)
    }
}

/// The physical address of a linear one.
fn physical(linear: u32) -> u32 {
    if linear < LARGE { linear } else { BASE + linear % LARGE_PAGE }
}

/// What is done before the counters are read for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Whole rounds.
    Rounds(u32),
    /// WBINVD.
    EmptyCaches,
}

/// A chain as it is accessed and counted.
pub(super) struct Chase<'a> {
    pub(super) part: &'static Part,
    pub(super) chain: &'a Chain,
    pub(super) before: Before,
    /// So many loads, rounded up to whole turns of the loop, or rounds of jumps, are counted.
    pub(super) counted: u32,
}

impl Chase<'_> {
    /// How often each of `events` occurs in a load.
    ///
    /// # Errors
    /// If the program does not run.
    pub(super) fn loads(&self, events: &[Event]) -> Result<Vec<f64>> {
        let image = self.load_program(events)?;
        let outcome = run(self.part, image, self.options())?;
        let loads = f64::from(self.counted.next_multiple_of(UNROLLED));
        let count = |n: usize| Ok(outcome.value(&format!("event {n}"))? as f64 / loads);
        (0..events.len()).map(count).collect()
    }

    /// Cycles of a load, by the pipeline's clock, which is that of time while a counter counts `event`; and the
    /// frequency that they have.
    ///
    /// # Errors
    /// If the program does not run.
    pub(super) fn cycles(&self, event: Event) -> Result<(f64, u64)> {
        let image = self.load_program(&[event])?;
        let options = Options { timing: Timing::Model, ..self.options() };
        let outcome = run(self.part, image, options)?;
        let loads = f64::from(self.counted.next_multiple_of(UNROLLED));
        Ok((outcome.value("cycles 0")? as f64 / loads, outcome.clock_hz))
    }

    /// How often each of `events` occurs in a round of jumps.
    ///
    /// # Errors
    /// If the program does not run.
    pub(super) fn jumps(&self, events: &[Event]) -> Result<Vec<f64>> {
        let first = self.chain.places[0];
        let rounds = |g: &mut Guest, rounds: u32| -> guest_tests::Result {
            g.mov(edi, first)?;
            g.mov(esi, rounds)?;
            g.call(edi)
        };
        let mut image = Guest::assemble(self.part, |g| {
            self.turn_paging_on(g)?;
            for (n, &event) in events.iter().enumerate() {
                g.start(event.counter, event, OS | USR, 0)?;
                rounds(g, 4)?;
                g.stop(event.counter)?;
                g.start(event.counter, event, OS | USR, 0)?;
                rounds(g, self.counted)?;
                g.stop(event.counter)?;
                g.read_msr(g.part.perfctr(event.counter))?;
                g.report(&format!("event {n}"))?;
            }
            Ok(())
        })?;
        for (place, next) in self.chain.links() {
            let displacement = |behind: u32| next.wrapping_sub(place + behind).to_le_bytes();
            let code = if next == first {
                // DEC ESI; JNZ; RET: the loop has no page of its own.
                [&[0x4E, 0x0F, 0x85][..], &displacement(7), &[0xC3]].concat()
            } else {
                [&[0xE9][..], &displacement(5)].concat()
            };
            put(&mut image, place, &code);
        }
        self.put_page_tables(&mut image);
        let outcome = run(self.part, image, self.options())?;
        let rounds = f64::from(self.counted);
        let count = |n: usize| Ok(outcome.value(&format!("event {n}"))? as f64 / rounds);
        (0..events.len()).map(count).collect()
    }

    fn options(&self) -> Options {
        Options { memory: self.chain.memory(), ..Options::default() }
    }

    /// The program of loads, which counts `events`, two at a time.
    fn load_program(&self, events: &[Event]) -> Result<Image> {
        let rounded = |loads: u32| loads.div_ceil(UNROLLED);
        let mut image = Guest::assemble(self.part, |g| {
            self.turn_paging_on(g)?;
            g.mov(ebx, self.chain.places[0])?;
            let start = |g: &mut Guest, events: &[Event]| {
                (0..).zip(events).try_for_each(|(n, &event)| g.start(n, event, OS | USR, 0))
            };
            let stop = |g: &mut Guest, events: &[Event]| {
                (0..events.len() as u32).rev().try_for_each(|n| g.stop(n))
            };
            for (batch, events) in events.chunks(2).enumerate() {
                // The models see only what is executed while a counter counts what they tell.
                start(g, events)?;
                match self.before {
                    Before::EmptyCaches => g.wbinvd()?,
                    Before::Rounds(rounds) => {
                        loads(g, rounded(rounds * self.chain.places.len() as u32))?;
                    }
                }
                stop(g, events)?;
                start(g, events)?;
                // What was the time is in EBP, so that no access to memory is counted.
                g.rdtsc()?;
                g.mov(ebp, eax)?;
                loads(g, rounded(self.counted))?;
                g.rdtsc()?;
                g.sub(eax, ebp)?;
                g.mov(ebp, eax)?;
                stop(g, events)?;
                g.mov(eax, ebp)?;
                g.report_eax(&format!("cycles {batch}"))?;
                for n in 0..events.len() {
                    g.read_msr(g.part.perfctr(n as u32))?;
                    g.report(&format!("event {}", 2 * batch + n))?;
                }
            }
            Ok(())
        })?;
        let end = self.chain.memory() as usize - vpmu::program::LOAD_ADDRESS as usize;
        image.bytes.resize(end, 0);
        for (place, next) in self.chain.links() {
            put(&mut image, physical(place), &next.to_le_bytes());
        }
        self.put_page_tables(&mut image);
        Ok(image)
    }

    fn turn_paging_on(&self, g: &mut Guest) -> guest_tests::Result {
        if !self.chain.paging {
            return Ok(());
        }
        g.mov(eax, DIRECTORY)?;
        g.mov(cr3, eax)?;
        g.mov(eax, cr4)?;
        g.or(eax, CR4_PSE)?;
        g.mov(cr4, eax)?;
        g.mov(eax, cr0)?;
        g.or(eax, CR0_PG)?;
        g.mov(cr0, eax)
    }

    /// The memory in pages of 4 KiB where it is, the local APIC, and the pages of 4 MiB.
    fn put_page_tables(&self, image: &mut Image) {
        let tables = (self.chain.memory() as u32).div_ceil(LARGE_PAGE);
        for page in 0..tables * 1024 {
            put(image, TABLES + page * 4, &(page << 12 | PRESENT_WRITABLE).to_le_bytes());
        }
        let mut entry = |linear: u32, value: u32| {
            put(image, DIRECTORY + (linear >> 22) * 4, &value.to_le_bytes());
        };
        for table in 0..tables {
            entry(table << 22, (TABLES + table * 0x1000) | PRESENT_WRITABLE);
        }
        for page in 0..LARGE_PAGES {
            entry(LARGE + page * LARGE_PAGE, BASE | LARGE_ENTRY | PRESENT_WRITABLE);
        }
        entry(0xFEE0_0000, 0xFEC0_0000 | LARGE_ENTRY | CACHE_DISABLE | PRESENT_WRITABLE);
    }
}

/// So many times [`UNROLLED`] loads. Changes ESI.
fn loads(g: &mut Guest, times: u32) -> guest_tests::Result {
    g.mov(esi, times)?;
    let next = g.here()?;
    for _ in 0..UNROLLED {
        g.mov(ebx, dword_ptr(ebx))?;
    }
    g.dec(esi)?;
    g.jnz(next)
}
