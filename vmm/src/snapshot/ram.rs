//! The pages of RAM of a snapshot.
//!
//! Snapshots of the same machine share the pages that were not written between them, so that one more, or going back
//! to one, costs what has been written.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};

use x86_cpu::ram::PAGE;

use crate::memory::Memory;

const BYTES: usize = PAGE as usize;

type Page = [u8; BYTES];

/// Pages in a chunk, which snapshots share as a whole where nothing in it was written.
const IN_CHUNK: usize = 512;

/// All zeroes where there is none.
type Chunk = [Option<Arc<Page>>; IN_CHUNK];

/// By the number of the chunk; there are only zeroes where there is none.
type Chunks = BTreeMap<u64, Arc<Chunk>>;

/// All pages of RAM.
#[derive(Clone)]
pub(crate) struct Pages(Arc<Chunks>);

impl PartialEq for Pages {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Pages {}

/// The pages that RAM was the same as when [`x86_cpu::ram::Ram::take_written`] was last called, as long as somebody has
/// them.
#[derive(Clone, Default)]
pub(crate) struct Base(Weak<Chunks>);

/// The longest run of pages in a file, in bytes: what a reader takes memory for at once.
const LONGEST: usize = 1 << 20;

impl Base {
    /// Whether somebody still has them, so that it matters which pages are written from now on.
    pub(crate) fn is_there(&self) -> bool {
        self.0.strong_count() != 0
    }
}

impl Pages {
    const ZEROES: &Page = &[0; BYTES];

    /// Those of a machine's RAM.
    pub(crate) fn of(memory: &Memory) -> Self {
        let mut pages = Self(Arc::default());
        memory.ram_pages().for_each(|address| pages.copy(memory, address));
        pages
    }

    /// Those of a machine's RAM, if `base` is what RAM was when it was last taken notice of what was written.
    pub(super) fn since(base: &Base, memory: &Memory) -> Self {
        let Some(base) = base.0.upgrade() else {
            memory.ram().take_written();
            return Self::of(memory);
        };
        let mut pages = Self(base);
        memory.ram().take_written().into_iter().for_each(|address| pages.copy(memory, address));
        pages
    }

    /// Has a page as it is now.
    fn copy(&mut self, memory: &Memory, address: u64) {
        let Some(host) = memory.ram().page(address).filter(|_| !memory.ram().is_rom(address))
        else {
            return;
        };
        let mut page = [0; BYTES];
        host.read_slice(0, &mut page);
        if self.get(address) != &page {
            self.set(address, page);
        }
    }

    fn get(&self, address: u64) -> &Page {
        let (chunk, n) = place(address);
        self.0.get(&chunk).and_then(|chunk| chunk[n].as_deref()).unwrap_or(Self::ZEROES)
    }

    fn set(&mut self, address: u64, page: Page) {
        let (chunk, n) = place(address);
        let none = || Arc::new([const { None }; IN_CHUNK]);
        let chunk = Arc::make_mut(&mut self.0).entry(chunk).or_insert_with(none);
        Arc::make_mut(chunk)[n] = (&page != Self::ZEROES).then(|| Arc::new(page));
    }

    /// As what RAM is.
    pub(super) fn base(&self) -> Base {
        Base(Arc::downgrade(&self.0))
    }

    /// Makes RAM, which is all zeroes, what it was.
    ///
    /// # Errors
    /// If it is not all in RAM.
    pub(crate) fn restore(&self, memory: &Memory) -> Result<(), String> {
        for (address, page) in self.iter() {
            let host = memory.ram().page(address).filter(|_| !memory.ram().is_rom(address));
            let host =
                host.ok_or_else(|| format!("a page at {address:#x}, where there is no RAM"))?;
            host.write_slice(0, page);
        }
        memory.ram().take_written();
        Ok(())
    }

    /// Makes RAM what it was, with `base` as above.
    pub(super) fn reset(&self, base: &Base, memory: &Memory) {
        let ram = memory.ram();
        match base.0.upgrade() {
            Some(base) => {
                ram.take_written().into_iter().for_each(|address| self.put(memory, address));
                self.differences(&Self(base)).for_each(|address| self.put(memory, address));
            }
            None => memory.ram_pages().for_each(|address| self.put(memory, address)),
        }
        ram.take_written();
    }

    /// Makes a page of RAM what it was.
    fn put(&self, memory: &Memory, address: u64) {
        memory.ram().write_page(address, self.get(address));
    }

    /// The addresses of the pages that are not one with those of another snapshot.
    fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u64> + 'a {
        let numbers = (!Arc::ptr_eq(&self.0, &other.0)).then(|| {
            self.0.keys().chain(other.0.keys().filter(|&number| !self.0.contains_key(number)))
        });
        numbers.into_iter().flatten().flat_map(move |&number| {
            let (one, two) = (self.0.get(&number), other.0.get(&number));
            let count = if is_one(one, two) { 0 } else { IN_CHUNK };
            let page = |chunk: Option<&'a Arc<Chunk>>, n: usize| chunk.and_then(|c| c[n].as_ref());
            (0..count)
                .filter(move |&n| !is_one(page(one, n), page(two, n)))
                .map(move |n| address(number, n))
        })
    }

    /// The address of the first byte that differs.
    pub(super) fn first_difference(&self, other: &Self) -> Option<u64> {
        let pages = self.differences(other).filter(|&at| self.get(at) != other.get(at));
        let first = pages.min()?;
        let offset = (0..).zip(self.get(first).iter().zip(other.get(first)));
        offset.into_iter().find(|(_, (a, b))| a != b).map(|(n, _)| first + n)
    }

    /// Those that are not all zeroes, with their guest-physical addresses, ascending.
    fn iter(&self) -> impl Iterator<Item = (u64, &Page)> {
        self.0.iter().flat_map(|(&number, chunk)| {
            let pages = chunk.iter().enumerate();
            pages.filter_map(move |(n, page)| Some((address(number, n), &**page.as_ref()?)))
        })
    }

    /// Writes them: runs of them, each with the guest-physical address of its first page and the number of pages, in 64
    /// bits each, and the pages; then a run of no pages.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut pages = self.iter().peekable();
        let mut run: Vec<&Page> = Vec::new();
        while let Some((address, page)) = pages.next() {
            run.push(page);
            let next = pages.peek().map(|&(next, _)| next);
            if next == Some(address + PAGE) && run.len() < LONGEST / BYTES {
                continue;
            }
            let first = address - (run.len() as u64 - 1) * PAGE;
            out.write_all(&first.to_le_bytes())?;
            out.write_all(&(run.len() as u64).to_le_bytes())?;
            run.drain(..).try_for_each(|page| out.write_all(page))?;
        }
        out.write_all(&[0; 16])
    }

    /// Reads what [`Self::write`] has written of a machine with `memory` bytes.
    pub(super) fn read(input: &mut impl Read, memory: u64) -> io::Result<Self> {
        let mut all = Self(Arc::default());
        // Where the last run ends, and how many pages there may be from there on.
        let (mut end, mut left) = (0, memory / PAGE);
        loop {
            let [mut address, mut pages] = [[0; 8]; 2];
            input.read_exact(&mut address)?;
            input.read_exact(&mut pages)?;
            let (address, pages) = (u64::from_le_bytes(address), u64::from_le_bytes(pages));
            if pages == 0 {
                return Ok(all);
            }
            if address % PAGE != 0 || pages > (LONGEST / BYTES) as u64 {
                return Err(io::Error::other("a run of pages that is too long or not at a page"));
            }
            if address < end {
                return Err(io::Error::other("a run of pages before the end of another"));
            }
            let Some(next) = address.checked_add(pages * PAGE) else {
                return Err(io::Error::other("a run of pages beyond all addresses"));
            };
            let more = || io::Error::other("more pages than its machine has");
            (end, left) = (next, left.checked_sub(pages).ok_or_else(more)?);
            for address in (address..).step_by(BYTES).take(pages as usize) {
                let mut page = [0; BYTES];
                input.read_exact(&mut page)?;
                all.set(address, page);
            }
        }
    }
}

/// Where the page at an address is: its chunk, and which it is there.
fn place(address: u64) -> (u64, usize) {
    let number = address / PAGE;
    (number / IN_CHUNK as u64, (number % IN_CHUNK as u64) as usize)
}

/// The reverse.
fn address(chunk: u64, n: usize) -> u64 {
    (chunk * IN_CHUNK as u64 + n as u64) * PAGE
}

/// Whether two snapshots share something.
fn is_one<T>(one: Option<&Arc<T>>, two: Option<&Arc<T>>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => Arc::ptr_eq(one, two),
        (None, None) => true,
        _ => false,
    }
}
