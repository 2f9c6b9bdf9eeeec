//! Guest memory as the processor sees it, and which of it holds translated code.
//!
//! The only module of this crate with `unsafe`: it turns guest-physical addresses and the host
//! addresses in the software TLB into loads and stores. The argument is the same for every block:
//! [`Ram::new`]'s caller guarantees that each region's host memory lives and may be read and written
//! for as long as the `Ram` does; a [`HostPage`] is only ever made from an address inside a region;
//! and all offsets are bounded by the page. Guest memory is plain bytes: any value is valid, and the
//! processors of a machine run on one thread at a time; which one that is may change.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};

use crate::code_log::PageLog;

/// Bytes in a page of the smallest size.
pub const PAGE: u64 = 4096;
const LINE_SHIFT: u32 = 6;

/// A run of guest-physical memory behind contiguous host memory.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// First guest-physical address, a multiple of 4096.
    pub gpa: u64,
    /// Bytes, a multiple of 4096.
    pub len: u64,
    /// Host address of the first byte.
    pub host: *mut u8,
}

// SAFETY: a region is the address of memory that belongs to no thread. `Ram::new`'s caller guarantees
// that all accesses come from one thread at a time.
unsafe impl Send for Region {}

/// A page of guest memory in host memory: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPage(*mut u8);

// SAFETY: as for `Region`: pages are found in regions only.
unsafe impl Send for HostPage {}
// SAFETY: it is an address, which many may know; who follows it is `Region`'s matter.
unsafe impl Sync for HostPage {}

impl HostPage {
    /// No page; must not be accessed.
    pub const NONE: Self = Self(std::ptr::null_mut());

    /// Reads `N` bytes at `offset`.
    ///
    /// The caller keeps `offset + N <= 4096`; a debug build checks.
    #[inline(always)]
    #[must_use]
    pub fn read<const N: usize>(self, offset: usize) -> [u8; N] {
        debug_assert!(offset + N <= PAGE as usize && !self.0.is_null());
        // SAFETY: module argument; the offset stays inside the page.
        unsafe { self.0.add(offset & 0xfff).cast::<[u8; N]>().read_unaligned() }
    }

    /// Writes `N` bytes at `offset`, with `offset + N <= 4096`.
    #[inline(always)]
    pub fn write<const N: usize>(self, offset: usize, bytes: [u8; N]) {
        debug_assert!(offset + N <= PAGE as usize && !self.0.is_null());
        // SAFETY: module argument; the offset stays inside the page.
        unsafe { self.0.add(offset & 0xfff).cast::<[u8; N]>().write_unaligned(bytes) }
    }

    /// Reads as many bytes at `offset` as `out` holds.
    pub fn read_slice(self, offset: usize, out: &mut [u8]) {
        assert!(offset + out.len() <= PAGE as usize);
        // SAFETY: module argument; the range stays inside the page, and `out` is not guest memory.
        unsafe { std::ptr::copy_nonoverlapping(self.0.add(offset), out.as_mut_ptr(), out.len()) }
    }

    /// Writes `bytes` at `offset`.
    pub fn write_slice(self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= PAGE as usize);
        // SAFETY: module argument; the range stays inside the page, and `bytes` is not guest memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.add(offset), bytes.len()) }
    }

    /// Copies `len` bytes from `source` at `from` to here at `to`; as if through a buffer.
    pub fn copy_from(self, to: usize, source: Self, from: usize, len: usize) {
        assert!(to + len <= PAGE as usize && from + len <= PAGE as usize);
        // SAFETY: module argument; both ranges stay inside their pages.
        unsafe { std::ptr::copy(source.0.add(from), self.0.add(to), len) }
    }

    /// Sets `len` bytes at `offset` to `value`.
    pub fn fill(self, offset: usize, len: usize, value: u8) {
        assert!(offset + len <= PAGE as usize);
        // SAFETY: module argument; the range stays inside the page.
        unsafe { std::ptr::write_bytes(self.0.add(offset), value, len) }
    }
}

/// What is known of a page beside its contents.
#[derive(Default)]
struct Page {
    /// Which of its 64-byte lines translated code was read from.
    code: Cell<u64>,
    /// The software TLB of some processor may have the fast path for writes to it. None has while the
    /// page holds translated code and every processor has looked at [`Ram::closed`].
    open: Cell<bool>,
    /// It is in [`Ram::with_code`].
    listed: Cell<bool>,
    /// It is in [`Ram::written`].
    written: Cell<bool>,
}

/// All of a machine's RAM.
pub struct Ram {
    regions: Vec<Region>,
    /// First addresses of the regions that the guest cannot write.
    roms: Vec<u64>,
    /// By page number within all regions laid end to end.
    pages: Vec<Page>,
    /// Pages whose translated code was overwritten: every cache of blocks drops theirs.
    pub(crate) overwritten: PageLog,
    /// Open pages that gained translated code, or whose next write is to be seen: every processor closes
    /// its fast path for writes to them.
    pub(crate) closed: PageLog,
    /// Numbers of all pages that hold translated code, and of some that did.
    with_code: RefCell<Vec<usize>>,
    /// Numbers of the pages that have been written, or could have been on the fast path, since
    /// [`Ram::take_written`] was last called.
    written: RefCell<Vec<usize>>,
}

impl Ram {
    /// RAM of the given regions.
    ///
    /// # Safety
    /// Each region's `host .. host + len` is valid for reads and writes while the `Ram` lives, and
    /// no Rust reference to that memory is used while a processor runs. The processors that run in
    /// it, and the pages that it gives out, are on one thread at a time; they may move together.
    #[must_use]
    pub unsafe fn new(regions: &[Region]) -> Self {
        let mut regions = regions.to_vec();
        regions.sort_by_key(|r| r.gpa);
        let pages = regions.iter().map(|r| r.len / PAGE).sum::<u64>();
        Self {
            regions,
            roms: Vec::new(),
            pages: (0..pages).map(|_| Page::default()).collect(),
            overwritten: PageLog::default(),
            closed: PageLog::default(),
            with_code: RefCell::default(),
            written: RefCell::default(),
        }
    }

    /// Makes the region that begins at `gpa` a ROM: the guest's writes go where those to no memory
    /// go, those of the owner still arrive.
    pub fn protect(&mut self, gpa: u64) {
        self.roms.push(gpa);
    }

    /// Whether `gpa` is in a ROM.
    #[must_use]
    pub fn is_rom(&self, gpa: u64) -> bool {
        // Nearly every machine answers here.
        if self.roms.is_empty() {
            return false;
        }
        let inside = |region: &Region| gpa.wrapping_sub(region.gpa) < region.len;
        self.regions.iter().any(|region| inside(region) && self.roms.contains(&region.gpa))
    }

    #[inline]
    fn find(&self, gpa: u64) -> Option<(HostPage, usize)> {
        let mut first = 0;
        for region in &self.regions {
            let offset = gpa.wrapping_sub(region.gpa);
            if offset < region.len {
                let page = offset & !(PAGE - 1);
                // SAFETY: module argument; `page` is less than the region's length.
                let host = unsafe { region.host.add(page as usize) };
                return Some((HostPage(host), (first + offset / PAGE) as usize));
            }
            first += region.len / PAGE;
        }
        None
    }

    /// The page that holds `gpa`, if that is RAM.
    #[inline]
    #[must_use]
    pub fn page(&self, gpa: u64) -> Option<HostPage> {
        self.find(gpa).map(|(page, _)| page)
    }

    /// Makes a page of RAM these bytes, for the owner. Only the lines that differ are written: code in the others stays
    /// translated. False if it is a ROM, or no RAM.
    pub fn write_page(&self, gpa: u64, bytes: &[u8; PAGE as usize]) -> bool {
        const LINE: usize = 64;
        const GROUP: usize = 4 * LINE;
        let Some(page) = self.page(gpa).filter(|_| !self.is_rom(gpa)) else { return false };
        // Compared in whole: where they differ first is of no matter, and most do not.
        fn differ<const N: usize>(now: [u8; N], then: &[u8; N]) -> bool {
            now.iter().zip(then).fold(0, |differ, (now, then)| differ | now ^ then) != 0
        }
        for (at, group) in (0..).step_by(GROUP).zip(bytes.as_chunks::<GROUP>().0) {
            if !differ(page.read(at), group) {
                continue;
            }
            for (at, line) in (at..).step_by(LINE).zip(group.as_chunks::<LINE>().0) {
                if differ(page.read(at), line) {
                    self.note_write((gpa & !(PAGE - 1)) + at as u64, LINE as u64);
                    page.write(at, *line);
                }
            }
        }
        true
    }

    /// Reads a naturally aligned 32-bit word; `None` outside RAM.
    #[inline]
    #[must_use]
    pub fn read_u32(&self, gpa: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.page(gpa)?.read((gpa & 0xffc) as usize)))
    }

    /// Reads a naturally aligned 64-bit word; `None` outside RAM.
    #[inline]
    #[must_use]
    pub fn read_u64(&self, gpa: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.page(gpa)?.read((gpa & 0xff8) as usize)))
    }

    /// Writes a naturally aligned 32-bit word: accessed and dirty bits. True if that hit translated
    /// code; a processor that runs has to leave its block then.
    pub fn write_u32(&self, gpa: u64, value: u32) -> bool {
        self.write_word(gpa & !3, value.to_le_bytes())
    }

    /// The same for a 64-bit word.
    pub fn write_u64(&self, gpa: u64, value: u64) -> bool {
        self.write_word(gpa & !7, value.to_le_bytes())
    }

    fn write_word<const N: usize>(&self, gpa: u64, bytes: [u8; N]) -> bool {
        match self.page(gpa) {
            Some(page) if !self.is_rom(gpa) => {
                page.write((gpa & (PAGE - 1)) as usize, bytes);
                self.note_write(gpa, N as u64)
            }
            _ => false,
        }
    }

    /// Whether a processor may write to the page of `gpa` on the fast path from now on: the page
    /// holds no translated code.
    pub(crate) fn open(&self, gpa: u64) -> bool {
        let Some((_, n)) = self.find(gpa) else { return false };
        let page = &self.pages[n];
        let open = page.code.get() == 0;
        if open {
            page.open.set(true);
            self.note_written(n);
        }
        open
    }

    /// Notes that `len` bytes at `gpa` (inside one page) have been translated. Every processor has
    /// to look at [`Self::closed`] before it writes again.
    pub(crate) fn note_code(&self, gpa: u64, len: u64) {
        if let Some((_, n)) = self.find(gpa) {
            let page = &self.pages[n];
            page.code.set(page.code.get() | lines(gpa, len));
            if page.open.replace(false) {
                self.closed.push(gpa & !(PAGE - 1));
            }
            if !page.listed.replace(true) {
                self.with_code.borrow_mut().push(n);
            }
        }
    }

    /// Guest-physical addresses of the pages that translated code was read from, in no order.
    ///
    /// Writers other than the processors and the owner, such as the host's processor under KVM, may
    /// only write to RAM if the owner then calls [`Self::note_page_written`] for those of these pages
    /// that were written.
    #[must_use]
    pub fn code_pages(&self) -> Vec<u64> {
        let mut numbers = self.with_code.borrow_mut();
        numbers.retain(|&n| {
            let page = &self.pages[n];
            let kept = page.code.get() != 0;
            page.listed.set(kept);
            kept
        });
        numbers.iter().filter_map(|&n| self.address(n)).collect()
    }

    /// The guest-physical address of a page by its number.
    fn address(&self, n: usize) -> Option<u64> {
        let mut offset = n as u64 * PAGE;
        for region in &self.regions {
            if offset < region.len {
                return Some(region.gpa + offset);
            }
            offset -= region.len;
        }
        None
    }

    /// Notes that a writer other than these processors, such as the host's processor under KVM, has
    /// written to the page of `gpa`: blocks translated from it are stale. True if there are any.
    pub fn note_page_written(&self, gpa: u64) -> bool {
        self.note_write(gpa & !(PAGE - 1), PAGE)
    }

    /// Whether a write of `len` bytes (inside one page) would hit translated code.
    pub(crate) fn has_code(&self, gpa: u64, len: u64) -> bool {
        self.find(gpa).is_some_and(|(_, n)| self.pages[n].code.get() & lines(gpa, len) != 0)
    }

    /// Notes a write of `len` bytes (inside one page); true if it hit translated code, which then
    /// is stale: the page counts as one without code until it is translated again, and every cache
    /// of blocks has to look at [`Self::overwritten`] before another block runs.
    pub(crate) fn note_write(&self, gpa: u64, len: u64) -> bool {
        let Some((_, n)) = self.find(gpa) else { return false };
        self.note_written(n);
        let code = &self.pages[n].code;
        if code.get() & lines(gpa, len) == 0 {
            return false;
        }
        code.set(0);
        self.overwritten.push(gpa & !(PAGE - 1));
        true
    }

    fn note_written(&self, n: usize) {
        if !self.pages[n].written.replace(true) {
            self.written.borrow_mut().push(n);
        }
    }

    /// Whether the page of `gpa` is one that [`Self::take_written`] would name.
    #[must_use]
    pub fn is_written(&self, gpa: u64) -> bool {
        self.find(gpa).is_some_and(|(_, n)| self.pages[n].written.get())
    }

    /// Guest-physical addresses of the pages that the processors, or the owner by [`Self::write_bytes`], have written
    /// since this was last called, and of some that they could have written; in no order.
    pub fn take_written(&self) -> Vec<u64> {
        // Whoever has the fast path to a page asks again before it writes there.
        self.closed.push_all();
        let numbers = self.written.take();
        for &n in &numbers {
            self.pages[n].written.set(false);
            self.pages[n].open.set(false);
        }
        numbers.into_iter().filter_map(|n| self.address(n)).collect()
    }

    /// Copies bytes out, for the owner (loading, tests); false if any are not RAM.
    pub fn read_bytes(&self, gpa: u64, out: &mut [u8]) -> bool {
        let mut done = 0;
        while done < out.len() {
            let at = gpa + done as u64;
            let Some(page) = self.page(at) else { return false };
            let offset = (at & (PAGE - 1)) as usize;
            let len = (PAGE as usize - offset).min(out.len() - done);
            page.read_slice(offset, &mut out[done..done + len]);
            done += len;
        }
        true
    }

    /// Copies bytes in, for the owner (loading, tests); false if any are not RAM.
    pub fn write_bytes(&self, gpa: u64, bytes: &[u8]) -> bool {
        let mut done = 0;
        while done < bytes.len() {
            let at = gpa + done as u64;
            let Some(page) = self.page(at) else { return false };
            let offset = (at & (PAGE - 1)) as usize;
            let len = (PAGE as usize - offset).min(bytes.len() - done);
            self.note_write(at, len as u64);
            page.write_slice(offset, &bytes[done..done + len]);
            done += len;
        }
        true
    }
}

/// Which 64-byte lines of its page a range touches.
fn lines(gpa: u64, len: u64) -> u64 {
    let first = (gpa & 0xfff) >> LINE_SHIFT;
    let last = ((gpa & 0xfff) + len.max(1) - 1).min(0xfff) >> LINE_SHIFT;
    (u64::MAX >> (63 - (last - first))) << first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code of two lines is noted in the last page of one region and the first of the next. The pages
    /// are listed once each, until what was translated from them is stale.
    #[test]
    fn pages_with_code_are_listed_until_they_are_written() {
        let mut memory = vec![[0_u8; PAGE as usize]; 4];
        let mut region =
            |n: usize, gpa| Region { gpa, len: 2 * PAGE, host: memory[n].as_mut_ptr() };
        let regions = [region(0, 0x1000), region(2, 0x8000)];
        // SAFETY: each region is two of the four pages, which live longer and are not used otherwise.
        let ram = unsafe { Ram::new(&regions) };
        let listed = || {
            let mut pages = ram.code_pages();
            pages.sort_unstable();
            pages
        };
        assert_eq!(listed(), []);
        ram.note_code(0x2FC0, 64);
        ram.note_code(0x2000, 1);
        ram.note_code(0x8000, 1);
        assert_eq!(listed(), [0x2000, 0x8000]);
        assert!(!ram.note_page_written(0x1FFF));
        assert!(!ram.note_page_written(0x4000), "no memory");
        assert_eq!(ram.overwritten.count(), 0);
        assert!(ram.note_page_written(0x2123));
        assert_eq!(ram.overwritten.since(0).map(Iterator::collect), Some(vec![0x2000]));
        assert!(!ram.note_page_written(0x2123), "it is stale already");
        assert_eq!(listed(), [0x8000]);
        ram.note_code(0x2040, 1);
        assert!(ram.write_bytes(0x8000, &[1]));
        assert_eq!(listed(), [0x2000]);
    }
}
