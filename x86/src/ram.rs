//! Guest memory as the processor sees it, and which of it holds translated code.
//!
//! The only module of this crate with `unsafe`: it turns guest-physical addresses and the host
//! addresses in the software TLB into loads and stores. The argument is the same for every block:
//! [`Ram::new`]'s caller vouches that each region's host memory lives and may be read and written
//! for as long as the `Ram` does; a [`HostPage`] is only ever made from an address inside a region;
//! and all offsets are bounded by the page. Guest memory is plain bytes: any value is valid, and the
//! processors of a machine run on one thread at a time; which one that is may change.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};

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

// SAFETY: a region is the address of memory that belongs to no thread. `Ram::new`'s caller vouches
// that all accesses come from one thread at a time.
unsafe impl Send for Region {}

/// A page of guest memory in host memory: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPage(*mut u8);

// SAFETY: as for `Region`: pages are found in regions only.
unsafe impl Send for HostPage {}

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

/// All of a machine's RAM.
pub struct Ram {
    regions: Vec<Region>,
    /// First addresses of the regions that the guest cannot write.
    roms: Vec<u64>,
    /// For each page, which of its 64-byte lines translated code was read from. Indexed by page
    /// number within all regions laid end to end.
    code: Vec<Cell<u64>>,
    /// Pages whose translated code was overwritten, in order: every cache of blocks drops theirs.
    written: RefCell<Vec<u64>>,
    /// Pages that gained code, in order: every processor drops its write shortcut to them.
    code_pages: RefCell<Vec<u64>>,
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
            code: (0..pages).map(|_| Cell::new(0)).collect(),
            written: RefCell::default(),
            code_pages: RefCell::default(),
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

    /// Writes a naturally aligned 32-bit word: accessed and dirty bits.
    pub fn write_u32(&self, gpa: u64, value: u32) {
        if let Some(page) = self.page(gpa)
            && !self.is_rom(gpa)
        {
            self.note_write(gpa, 4);
            page.write((gpa & 0xffc) as usize, value.to_le_bytes());
        }
    }

    /// Writes a naturally aligned 64-bit word: accessed and dirty bits.
    pub fn write_u64(&self, gpa: u64, value: u64) {
        if let Some(page) = self.page(gpa)
            && !self.is_rom(gpa)
        {
            self.note_write(gpa, 8);
            page.write((gpa & 0xff8) as usize, value.to_le_bytes());
        }
    }

    /// Whether translated code was read from the page of `gpa`.
    #[inline]
    #[must_use]
    pub fn has_code(&self, gpa: u64) -> bool {
        self.find(gpa).is_some_and(|(_, n)| self.code[n].get() != 0)
    }

    /// Notes that `len` bytes at `gpa` (inside one page) have been translated.
    pub(crate) fn note_code(&self, gpa: u64, len: u64) {
        if let Some((_, n)) = self.find(gpa) {
            let before = self.code[n].get();
            if before == 0 {
                self.code_pages.borrow_mut().push(gpa & !(PAGE - 1));
            }
            self.code[n].set(before | lines(gpa, len));
        }
    }

    /// Notes a write of `len` bytes (inside one page); true if it hit translated code, which then
    /// is stale: the page counts as one without code until it is translated again.
    pub(crate) fn note_write(&self, gpa: u64, len: u64) -> bool {
        let Some((_, n)) = self.find(gpa) else { return false };
        if self.code[n].get() & lines(gpa, len) == 0 {
            return false;
        }
        self.code[n].set(0);
        self.written.borrow_mut().push(gpa & !(PAGE - 1));
        true
    }

    /// Number of entries in the list of pages whose code was overwritten.
    #[inline]
    pub(crate) fn written_count(&self) -> usize {
        self.written.borrow().len()
    }

    /// The pages whose code was overwritten since entry `from` of that list.
    pub(crate) fn written_since(&self, from: usize) -> Vec<u64> {
        self.written.borrow().get(from..).unwrap_or(&[]).to_vec()
    }

    /// Number of entries in the list of pages that gained code.
    #[inline]
    pub(crate) fn code_page_count(&self) -> usize {
        self.code_pages.borrow().len()
    }

    /// The pages that gained code since entry `from` of that list.
    pub(crate) fn code_pages_since(&self, from: usize) -> Vec<u64> {
        self.code_pages.borrow().get(from..).unwrap_or(&[]).to_vec()
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
