//! The software TLB: from the number of a linear page to host memory in one compare.
//!
//! It caches page walks, and whether accesses to the page may take the fast path: not for devices,
//! not for writes to pages with translated code, not for pages with breakpoints. It does not model the
//! TLBs of a real processor, whose misses are events.

mod slots;

use std::{
    num::NonZeroU64,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use self::slots::{Slot, Slots};
use crate::access::OF_DEVICE;
use crate::ram::{HostPage, PAGE, Ram};
use crate::state::HeldTranslation;

/// The bits of an epoch below the number of its processor.
const EPOCH_BITS: u32 = 40;

/// The number of the processor that an epoch belongs to.
#[inline(always)]
pub(crate) fn processor_of(epoch: u64) -> u64 {
    epoch >> EPOCH_BITS
}

/// The side of the TLB that serves accesses at privilege 3.
const USER: usize = 1;
const ENTRIES: usize = 1024;
/// No linear page has this address: it is not a multiple of 4096.
const NO_PAGE: u64 = 1;
/// In [`Entry::read`]: reads take the slow path.
const SLOW: u64 = 1 << 1;
/// In [`Entry::target`]: the translation survives a load of CR3.
const GLOBAL: u64 = 1 << 0;
/// In [`Entry::target`]: writes are allowed and the dirty bit is set.
const WRITABLE: u64 = 1 << 1;
/// In [`Entry::target`]: the next write asks whether those after it may take the fast path.
const ASKS: u64 = 1 << 2;
/// In [`Entry::target`]: it is a piece of a page of 2 or 4 MiB.
const LARGE: u64 = 1 << 3;

/// A translation for one privilege, in half a cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Entry {
    /// The linear page, with [`SLOW`] if reads do not reach it on the fast path; or [`NO_PAGE`].
    pub(crate) read: u64,
    /// Linear page that writes reach on the fast path, or [`NO_PAGE`]: the page is writable, dirty,
    /// holds no translated code, is not watched.
    pub(crate) write: u64,
    /// Its host memory.
    pub(crate) host: HostPage,
    /// Its guest-physical address, with [`GLOBAL`], [`WRITABLE`], [`ASKS`] and [`LARGE`].
    target: u64,
}

impl Entry {
    /// Its guest-physical address.
    #[inline(always)]
    pub(crate) fn gpa(&self) -> u64 {
        self.target & !(PAGE - 1)
    }

    /// Writes are allowed and the dirty bit is set.
    #[inline(always)]
    pub(crate) fn writable(&self) -> bool {
        self.target & WRITABLE != 0
    }

    /// The next write is to ask whether those after it may take the fast path: [`Tlb::answer`].
    #[inline(always)]
    pub(crate) fn asks(&self) -> bool {
        self.target & ASKS != 0
    }

    /// Whether it is the translation of this linear page, be it for the slow path alone.
    #[inline(always)]
    pub(crate) fn is_of(&self, page: u64) -> bool {
        self.read & !SLOW == page
    }
}

impl Slot for Entry {
    const EMPTY: Self = Self { read: NO_PAGE, write: NO_PAGE, host: HostPage::NONE, target: 0 };
}

/// A translation of a code page.
#[derive(Clone, Copy)]
struct CodeEntry {
    page: u64,
    gpa: u64,
    global: bool,
    large: bool,
}

impl Slot for CodeEntry {
    const EMPTY: Self = Self { page: NO_PAGE, gpa: 0, global: false, large: false };
}

const CODE_ENTRIES: usize = 256;

/// The translations for one privilege, data and code. Those of a processor that has had none yet are
/// everybody's: most of many processors have little to do, and none in user mode.
type DataSide = Arc<Slots<Entry, ENTRIES>>;
type CodeSide = Arc<Slots<CodeEntry, CODE_ENTRIES>>;

static NO_DATA: LazyLock<DataSide> = LazyLock::new(|| Arc::new(Slots::EMPTY));
static NO_CODE: LazyLock<CodeSide> = LazyLock::new(|| Arc::new(Slots::EMPTY));

/// The entries of those sides that are the processor's own. The others are the empty ones: nothing else is
/// shared, for a [`Tlb`] cannot be cloned. If it could, a shared side that is not empty would be missed here.
fn own<T>(sides: &mut [Arc<T>; 2]) -> impl Iterator<Item = &mut T> {
    sides.iter_mut().filter_map(Arc::get_mut)
}

/// The TLBs of one processor: data and code, each for supervisor and user accesses.
pub(crate) struct Tlb {
    data: [DataSide; 2],
    code: [CodeSide; 2],
    /// Changes whenever a translation may have gone. The first counts all such events, the second
    /// only those that reach global pages as well.
    pub(crate) epochs: [u64; 2],
    /// User accesses take the slow path, which checks their alignment.
    user_closed: bool,
    /// How much of [`Ram::closed`] has been taken notice of.
    closed_seen: u64,
    /// Where there may be pieces of large pages.
    large: Regions,
}

/// Regions of 4 MiB, as far as they can be told apart in 256 bits: most pages that are dropped one by one are small, and
/// no large one is near.
#[derive(Default)]
struct Regions([u64; 4]);

impl Regions {
    const SHIFT: u32 = 22;

    fn add(&mut self, linear: u64) {
        let (word, bit) = Self::place(linear);
        self.0[word] |= bit;
    }

    fn may_have(&self, linear: u64) -> bool {
        let (word, bit) = Self::place(linear);
        self.0[word] & bit != 0
    }

    fn place(linear: u64) -> (usize, u64) {
        let region = linear >> Self::SHIFT;
        let number = region ^ region >> 8 ^ region >> 17;
        (number as usize / 64 % 4, 1 << (number % 64))
    }
}

#[inline(always)]
fn slot(linear: u64) -> usize {
    (linear >> 12) as usize & (ENTRIES - 1)
}

#[inline(always)]
fn code_slot(linear: u64) -> usize {
    (linear >> 12) as usize & (CODE_ENTRIES - 1)
}

impl Tlb {
    pub(crate) fn new() -> Self {
        // Epochs of different processors never collide: links between blocks are shared.
        static PROCESSORS: AtomicU64 = AtomicU64::new(1);
        let first = PROCESSORS.fetch_add(1, Ordering::Relaxed) << EPOCH_BITS;
        Self {
            data: [0; 2].map(|_| NO_DATA.clone()),
            code: [0; 2].map(|_| NO_CODE.clone()),
            epochs: [first; 2],
            user_closed: false,
            closed_seen: 0,
            large: Regions::default(),
        }
    }

    /// The mappings that an access of `mmu` sees, as a number that changes whenever one may have
    /// gone, and that no other processor has.
    #[inline]
    pub(crate) fn space(&self, mmu: usize) -> NonZeroU64 {
        NonZeroU64::MIN | (self.epochs[0] << 2 | (mmu as u64 & 1) << 1)
    }

    /// The entry that linear address `linear` would be in.
    #[inline(always)]
    pub(crate) fn entry(&self, mmu: usize, linear: u64) -> &Entry {
        self.data[mmu & 1].get(slot(linear))
    }

    /// The translation of `linear`, if it is here.
    pub(crate) fn find(&self, mmu: usize, linear: u64) -> Option<&Entry> {
        let entry = self.entry(mmu, linear);
        entry.is_of(linear & !(PAGE - 1)).then_some(entry)
    }

    /// Enters a translation, with the fast path for the accesses that `access` allows it for.
    pub(crate) fn insert(
        &mut self,
        mmu: usize,
        linear: u64,
        gpa: u64,
        host: Option<HostPage>,
        access: Access,
    ) {
        let page = linear & !(PAGE - 1);
        let closed = mmu == USER && self.user_closed;
        let fast = host.is_some() && !closed;
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let entry = Entry {
            read: page | flag(!(fast && access.fast_read), SLOW),
            write: if fast && access.writes == Writes::Fast { page } else { NO_PAGE },
            host: host.unwrap_or(HostPage::NONE),
            target: gpa & !(PAGE - 1)
                | flag(access.global, GLOBAL)
                | flag(access.writable, WRITABLE)
                | flag(fast && access.writes == Writes::Ask, ASKS)
                | flag(access.large, LARGE),
        };
        if access.large {
            self.large.add(linear);
        }
        Arc::make_mut(&mut self.data[mmu & 1]).put(slot(linear), entry);
    }

    /// Answers an entry that asks: from now on writes take the fast path or do not.
    pub(crate) fn answer(&mut self, mmu: usize, linear: u64, fast: bool) {
        let side = Arc::get_mut(&mut self.data[mmu & 1]);
        let Some(entry) = side.and_then(|side| side.get_mut(slot(linear))) else { return };
        entry.target &= !ASKS;
        if fast {
            entry.write = linear & !(PAGE - 1);
        }
    }

    /// The guest-physical page of code at `linear` and whether its mapping is global.
    #[inline]
    pub(crate) fn find_code(&self, mmu: usize, linear: u64) -> Option<(u64, bool)> {
        let entry = self.code[mmu & 1].get(code_slot(linear));
        (entry.page == linear & !(PAGE - 1)).then_some((entry.gpa, entry.global))
    }

    /// Enters a translation for instruction fetch.
    pub(crate) fn insert_code(
        &mut self,
        mmu: usize,
        linear: u64,
        gpa: u64,
        global: bool,
        large: bool,
    ) {
        let entry = CodeEntry { page: linear & !(PAGE - 1), gpa: gpa & !(PAGE - 1), global, large };
        if large {
            self.large.add(linear);
        }
        Arc::make_mut(&mut self.code[mmu & 1]).put(code_slot(linear), entry);
    }

    /// All that it holds, data and then code, supervisor and then user.
    pub(crate) fn held(&self) -> impl Iterator<Item = HeldTranslation> {
        let data = self.data.iter().enumerate().flat_map(|(mmu, side)| {
            side.iter().map(move |entry| HeldTranslation {
                linear: entry.read & !SLOW,
                physical: entry.gpa(),
                global: entry.target & GLOBAL != 0,
                writable: entry.writable(),
                user: mmu == USER,
                code: false,
                device: entry.host == HostPage::NONE,
                large: entry.target & LARGE != 0,
            })
        });
        let code = self.code.iter().enumerate().flat_map(|(mmu, side)| {
            side.iter().map(move |entry| HeldTranslation {
                linear: entry.page,
                physical: entry.gpa & !OF_DEVICE,
                global: entry.global,
                writable: false,
                user: mmu == USER,
                code: true,
                device: entry.gpa & OF_DEVICE != 0,
                large: entry.large,
            })
        });
        data.chain(code)
    }

    /// Drops everything.
    pub(crate) fn flush_all(&mut self) {
        own(&mut self.data).for_each(|side| side.retain(|_| false));
        own(&mut self.code).for_each(|side| side.retain(|_| false));
        self.large = Regions::default();
        self.epochs[0] += 1;
        self.epochs[1] += 1;
    }

    /// Drops what a load of CR3 drops: all but the global pages.
    pub(crate) fn flush_local(&mut self) {
        own(&mut self.data).for_each(|side| side.retain(|entry| entry.target & GLOBAL != 0));
        own(&mut self.code).for_each(|side| side.retain(|entry| entry.global));
        self.epochs[0] += 1;
    }

    /// INVLPG: drops one page, global or not; of a large one all pieces (Intel SDM volume 3, "Operations
    /// that Invalidate TLBs and Paging-Structure Caches"), and with one of 2 MiB its neighbour's.
    pub(crate) fn flush_page(&mut self, linear: u64) {
        let page = linear & !(PAGE - 1);
        for side in own(&mut self.data) {
            side.empty(slot(linear), |entry| entry.is_of(page));
        }
        for side in own(&mut self.code) {
            side.empty(code_slot(linear), |entry| entry.page == page);
        }
        if self.large.may_have(linear) {
            self.flush_large(linear);
        }
        self.epochs[0] += 1;
        self.epochs[1] += 1;
    }

    /// Drops the pieces of large pages in the region of an address.
    #[inline(never)]
    fn flush_large(&mut self, linear: u64) {
        let is_elsewhere = |page: u64| (page ^ linear) >> Regions::SHIFT != 0;
        for side in own(&mut self.data) {
            side.retain(|entry| entry.target & LARGE == 0 || is_elsewhere(entry.read));
        }
        for side in own(&mut self.code) {
            side.retain(|entry| !entry.large || is_elsewhere(entry.page));
        }
    }

    /// Makes all accesses to some pages take the slow path, which are told by their linear addresses.
    pub(crate) fn close(&mut self, is_closed: impl Fn(u64) -> bool) {
        for side in own(&mut self.data) {
            side.for_each(|entry| {
                if is_closed(entry.read & !SLOW) {
                    entry.read |= SLOW;
                    entry.write = NO_PAGE;
                }
            });
        }
    }

    /// Makes accesses to some pages take the slow path no longer, as far as it was [`Self::close`] that had them take it.
    pub(crate) fn reopen(&mut self, is_open: impl Fn(u64) -> bool) {
        let user_closed = self.user_closed;
        for (mmu, side) in self.data.iter_mut().enumerate() {
            let Some(side) = Arc::get_mut(side) else { continue };
            side.for_each(|entry| {
                let is_fast = entry.host != HostPage::NONE && !(mmu == USER && user_closed);
                if is_fast && is_open(entry.read & !SLOW) {
                    entry.read &= !SLOW;
                    entry.target |= if entry.writable() { ASKS } else { 0 };
                }
            });
        }
    }

    /// Makes all user accesses take the slow path, or no longer.
    pub(crate) fn close_user(&mut self, close: bool) {
        if self.user_closed != close {
            self.user_closed = close;
            if let Some(side) = Arc::get_mut(&mut self.data[USER]) {
                side.retain(|_| false);
            }
        }
    }

    /// Closes the fast path of writes to the pages that [`Ram::closed`] names.
    #[inline]
    pub(crate) fn notice_code(&mut self, ram: &Ram) {
        if ram.closed.count() != self.closed_seen {
            self.close_writes(ram);
        }
    }

    #[cold]
    fn close_writes(&mut self, ram: &Ram) {
        let pages = ram.closed.since(self.closed_seen);
        let close = |entry: &mut Entry| match pages.clone() {
            _ if entry.write == NO_PAGE => {}
            Some(mut pages) => {
                if pages.any(|page| page == entry.gpa()) {
                    entry.write = NO_PAGE;
                }
            }
            // The translations stay: a guest that has changed an entry since may not see it yet.
            None => {
                entry.write = NO_PAGE;
                entry.target |= ASKS;
            }
        };
        own(&mut self.data).for_each(|side| side.for_each(close));
        self.closed_seen = ram.closed.count();
    }
}

/// What a translation allows.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    /// Reads may take the fast path.
    pub(crate) fast_read: bool,
    /// Which path writes take, as far as that is up to the page.
    pub(crate) writes: Writes,
    /// Survives a load of CR3.
    pub(crate) global: bool,
    /// Writes are allowed.
    pub(crate) writable: bool,
    /// The page is one of 2 or 4 MiB.
    pub(crate) large: bool,
}

/// Which path writes to a page take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// The fast one.
    Fast,
    /// The slow one.
    Slow,
    /// The slow one at first, which asks for the fast one for those that follow.
    Ask,
}
