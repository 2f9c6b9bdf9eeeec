//! Where a debugger outside of the guest stops a processor.
//!
//! Nothing is written to guest memory or to its debug registers. A run ends before an instruction at an
//! address that the owner has named, and behind one that has accessed memory that it has named; the run after
//! that goes on as if there had been no end. The guest neither sees nor counts any of it. Without stops,
//! nothing asks for them but what leaves the run of blocks anyway.

use crate::{block::Block, cpu::Cpu, insn::seg, ram::PAGE};

/// In [`crate::cpu::Watch::data`], beside the bits of DR0-DR3: pages are watched for the owner.
pub(crate) const OWNER: u8 = 1 << 7;

/// Bytes of linear memory that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Linear address of the first byte.
    pub address: u64,
    /// Number of bytes, 1 or more.
    pub bytes: u64,
    /// Reads are seen.
    pub reads: bool,
    /// Writes are seen.
    pub writes: bool,
}

impl Watched {
    /// Whether an access of so many bytes is seen.
    fn sees(&self, linear: u64, bytes: u64, write: bool) -> bool {
        let wanted = if write { self.writes } else { self.reads };
        let overlaps = linear.wrapping_sub(self.address) < self.bytes
            || self.address.wrapping_sub(linear) < bytes.max(1);
        wanted && overlaps
    }

    /// Whether any of it lies in the page of a linear address.
    fn is_in_page_of(&self, linear: u64) -> bool {
        let page = |linear: u64| linear & !(PAGE - 1);
        let first = page(self.address);
        let last = page(self.address.wrapping_add(self.bytes - 1));
        page(linear).wrapping_sub(first) <= last.wrapping_sub(first)
    }
}

/// An access to watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchHit {
    /// What is watched.
    pub watched: Watched,
    /// It was a write.
    pub write: bool,
}

/// Where a processor stops. By default nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// Linear addresses of instructions, ascending.
    addresses: Vec<u64>,
    watched: Vec<Watched>,
    /// Before each instruction.
    everywhere: bool,
    /// Where there is no stop this once: linear address of the next instruction, and instructions retired
    /// before it.
    passed: Option<(u64, u64)>,
    hit: Option<WatchHit>,
}

impl Stops {
    /// Stops before the instructions at these linear addresses, and behind accesses to memory that is
    /// watched. Of that, entries without a byte are left out.
    #[must_use]
    pub fn new(mut addresses: Vec<u64>, mut watched: Vec<Watched>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        watched.retain(|watched| watched.bytes != 0);
        Self { addresses, watched, ..Self::default() }
    }

    /// The same, and before every instruction.
    #[must_use]
    pub fn everywhere(self) -> Self {
        Self { everywhere: true, ..self }
    }

    /// The linear addresses of the instructions that it stops before, ascending; `None` if those are not all stops.
    fn addresses_alone(&self) -> Option<&[u64]> {
        (!self.everywhere && self.watched.is_empty()).then_some(&self.addresses)
    }

    fn has(&self, linear: u64, retired: u64) -> bool {
        (self.everywhere || self.addresses.binary_search(&linear).is_ok())
            && self.passed != Some((linear, retired))
    }

    /// Whether there may be one in these bytes, of which there is at least one.
    fn may_be_in(&self, linear: u64, bytes: u64) -> bool {
        let next = self.addresses.partition_point(|&address| address < linear);
        // Behind the end of the address space, code may go on at zero.
        let wraps = linear.checked_add(bytes).is_none_or(|end| end >> 32 != linear >> 32);
        self.everywhere
            || wraps
            || self.addresses.get(next).is_some_and(|address| address - linear < bytes)
    }
}

impl Cpu {
    /// Has the processor stop there from now on, and nowhere else; `None` is nowhere.
    pub fn set_stops(&mut self, stops: Option<Stops>) {
        let before = std::mem::replace(&mut self.stops, stops.map(Box::new));
        self.watch.data &= !OWNER;
        let was_watched = before.map_or_else(Vec::new, |stops| stops.watched);
        let watched = self.stops.as_ref().map_or(&[][..], |stops| &stops.watched);
        let data = self.watch.data;
        let is_other = |page: u64| {
            (0..4).all(|n| data & 1 << n == 0 || self.dr[n] & !(PAGE - 1) != page)
                && was_watched.iter().any(|watched| watched.is_in_page_of(page))
        };
        if !was_watched.is_empty() {
            self.tlb.reopen(is_other);
        }
        if !watched.is_empty() {
            self.watch.data |= OWNER;
            // The translations stay: the guest could see that they are gone.
            self.tlb.close(|page| watched.iter().any(|watched| watched.is_in_page_of(page)));
        }
    }

    /// Whether it stops before the next instruction, which may be that of a handler if an interrupt comes
    /// first.
    #[must_use]
    pub fn stops_here(&self) -> bool {
        self.stops.as_ref().is_some_and(|stops| stops.has(self.linear_rip(), self.retired()))
    }

    /// Has the next instruction be executed although there is a stop.
    pub fn pass_stop(&mut self) {
        let here = (self.linear_rip(), self.retired());
        if let Some(stops) = &mut self.stops {
            stops.passed = Some(here);
        }
    }

    /// Whether the next instruction is one that it would stop before, if that were not passed this once.
    #[must_use]
    pub fn passes_stop(&self) -> bool {
        let passed = self.stops.as_ref().and_then(|stops| stops.passed);
        passed == Some((self.linear_rip(), self.retired())) && self.has_stop_at(self.linear_rip())
    }

    /// No stop is passed any more. For an owner that has others execute the processor's instructions, which are
    /// not counted as retired: its place would be taken for the one that was passed.
    pub fn pass_no_stop(&mut self) {
        if let Some(stops) = &mut self.stops {
            stops.passed = None;
        }
    }

    fn has_stop_at(&self, linear: u64) -> bool {
        self.stops
            .as_ref()
            .is_some_and(|stops| stops.everywhere || stops.addresses.binary_search(&linear).is_ok())
    }

    /// The linear addresses of the instructions that it stops before, ascending; `None` if it stops in other places
    /// too, before every instruction or behind accesses.
    #[must_use]
    pub fn breakpoints(&self) -> Option<&[u64]> {
        self.stops.as_ref().map_or(Some(&[]), |stops| stops.addresses_alone())
    }

    /// The access to watched memory behind which it has stopped since this was last called: the first one.
    pub fn take_watch_hit(&mut self) -> Option<WatchHit> {
        self.stops.as_mut()?.hit.take()
    }

    /// Whether there is such an access.
    #[inline]
    #[must_use]
    pub fn has_watch_hit(&self) -> bool {
        self.stops.as_ref().is_some_and(|stops| stops.hit.is_some())
    }

    /// Looks for watched memory in an access. The run ends behind the instruction, which is the only one of
    /// its block; a repeated one is finished first, as far as it would be without that.
    pub(crate) fn note_watched(&mut self, linear: u64, bytes: u64, write: bool) {
        let Some(stops) = &mut self.stops else { return };
        let watched = stops.watched.iter().find(|watched| watched.sees(linear, bytes, write));
        if let Some(&watched) = watched {
            stops.hit.get_or_insert(WatchHit { watched, write });
        }
    }

    /// Whether the page of a linear address is watched for the owner.
    pub(crate) fn owner_watches_page(&self, linear: u64) -> bool {
        let watched = self.stops.as_ref().map_or(&[][..], |stops| &stops.watched);
        watched.iter().any(|watched| watched.is_in_page_of(linear))
    }

    /// Ends the run behind the running instruction, of which the owner has been told by the bus, if it stops
    /// the processor anywhere: it may stop it there.
    pub(crate) fn let_the_owner_stop(&mut self) {
        if self.stops.is_some() {
            self.leave_soon();
        }
    }

    /// How many instructions of the block at RIP come before the first that it stops at.
    #[cold]
    pub(crate) fn before_stop<O>(&self, block: &Block<O>) -> usize {
        let all = block.ops.len();
        let Some(stops) = &self.stops else { return all };
        let first = self.linear_rip();
        if !stops.may_be_in(first, block.bytes.into()) {
            return all;
        }
        let (is_64_bit, base) = (self.in_64bit(), self.segment(seg::CS).base);
        let linear = |start: u16| {
            let offset = self.rip.wrapping_add(start.into());
            match is_64_bit {
                true => offset,
                false => base.wrapping_add(offset & 0xffff_ffff) & 0xffff_ffff,
            }
        };
        let mut retired = self.retired()..;
        let mut is_stop =
            |start: u16| retired.next().is_some_and(|retired| stops.has(linear(start), retired));
        block.ops.iter().position(|op| is_stop(op.insn.start())).unwrap_or(all)
    }
}
