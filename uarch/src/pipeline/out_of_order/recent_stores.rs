//! Which recent store a load's data comes from, and whether it can be forwarded.
//!
//! A load is compared with the stores that may not be in the cache yet by the low bits of the address.
//! The most recent one that matches decides: it forwards its data, or the load waits until it is in the
//! cache, whether the match was a true one or not.

use super::instruction::Forwarding;
use crate::state::{LATEST, State, Visitor};

/// Stores among which one is looked for: as many as the pipeline remembers.
const STORES: u64 = 64;

/// Quadwords stored last among which one is looked for.
const PIECES: usize = 256;

/// log2 of the bytes that addresses are compared within: by bits 11 and below.
const PAGE_SHIFT: u32 = 12;

/// Quadwords of a page.
const QUADWORDS: usize = 1 << (PAGE_SHIFT - 3);

/// When a store forwards its data to a load. It always has to have the load's address, and to be no
/// narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreForwarding {
    /// log2 of the bytes that a load and a store have to have in common to match: of a byte, or of a
    /// doubleword.
    pub granule_shift: u8,
    /// Both have to be aligned to their size.
    pub aligned: bool,
    /// Not AH, BH, CH or DH.
    pub low_byte: bool,
}

/// Bytes of the widest access: wider ones are several.
const WIDEST: u32 = 8;

/// The part of a store that is in one quadword.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// The store.
    number: u64,
    address: u64,
    bytes: u32,
    high_byte: bool,
    /// Which bytes of the quadword match, a bit each.
    matching: u8,
    /// The number of the piece that was stored to a quadword with the same low bits before, plus one.
    previous: u64,
}

/// The stores of a pipeline, for loads that follow them.
#[derive(Clone, Debug)]
pub struct RecentStores {
    rule: StoreForwarding,
    pieces: Box<[Piece; PIECES]>,
    /// How many pieces there have been.
    count: u64,
    /// By quadword of a page: the number of the last piece in it, plus one.
    last: Box<[u64; QUADWORDS]>,
    /// Stores of instructions that were executed: the number of the running one's first.
    executed: u64,
    /// The number of the running instruction's next store, and that of the next instruction's first.
    next: u64,
    end: u64,
}

impl RecentStores {
    /// Without stores.
    #[must_use]
    pub fn new(rule: StoreForwarding) -> Self {
        Self {
            rule,
            pieces: Box::new([Piece::default(); PIECES]),
            count: 0,
            last: Box::new([0; QUADWORDS]),
            executed: 0,
            next: 0,
            end: 0,
        }
    }

    /// An instruction begins, which executes so many stores ([`super::Instruction::stores`]). One that has begun
    /// and was not executed is none: an exception came instead, or it begins again.
    #[inline(always)]
    pub fn begin(&mut self, stores: u64) {
        self.next = self.executed;
        self.end = self.executed + stores;
    }

    /// It was executed, and its stores are among those that are remembered.
    #[inline(always)]
    pub fn executed(&mut self) {
        self.executed = self.end;
    }

    /// It stores to a linear address, from one of AH to DH or not. If it executes fewer stores than it
    /// stores to addresses, the last one has them all.
    #[inline(always)]
    pub fn store(&mut self, address: u64, bytes: u32, high_byte: bool) {
        if bytes <= WIDEST {
            self.put(address, bytes, high_byte);
        } else {
            for (address, bytes) in parts(address, bytes) {
                self.put(address, bytes, high_byte);
            }
        }
    }

    /// It loads from a linear address: what that has to do with stores before.
    #[inline(always)]
    #[must_use]
    pub fn load(&self, address: u64, bytes: u32) -> Forwarding {
        if bytes <= WIDEST {
            return self.find(address, bytes);
        }
        parts(address, bytes)
            .map(|(address, bytes)| self.find(address, bytes))
            .fold(Forwarding::None, Forwarding::later)
    }

    #[inline(always)]
    fn put(&mut self, address: u64, bytes: u32, high_byte: bool) {
        let number = self.next.min(self.end.saturating_sub(1));
        self.next = (self.next + 1).min(self.end);
        for (quadword, matching) in quadwords(address, bytes, self.rule.granule_shift) {
            let last = &mut self.last[quadword];
            let previous = *last;
            self.pieces[self.count as usize % PIECES] =
                Piece { number, address, bytes, high_byte, matching, previous };
            self.count += 1;
            *last = self.count;
        }
    }

    #[inline(always)]
    fn find(&self, address: u64, bytes: u32) -> Forwarding {
        let mut recent: Option<&Piece> = None;
        for (quadword, matching) in quadwords(address, bytes, self.rule.granule_shift) {
            let mut at = self.last[quadword];
            while at != 0 && self.count - at < PIECES as u64 {
                let piece = &self.pieces[(at - 1) as usize % PIECES];
                if piece.matching & matching != 0 {
                    if recent.is_none_or(|recent| piece.number > recent.number) {
                        recent = Some(piece);
                    }
                    break;
                }
                at = piece.previous;
            }
        }
        let Some(store) = recent else { return Forwarding::None };
        let back = self.next.wrapping_sub(store.number + 1);
        if back >= STORES {
            return Forwarding::None;
        }
        match self.forwards(store, address, bytes) {
            true => Forwarding::From(back as u8),
            false => Forwarding::Blocked(back as u8),
        }
    }

    fn forwards(&self, store: &Piece, address: u64, bytes: u32) -> bool {
        let aligned = |bytes: u32| address & (u64::from(bytes.next_power_of_two()) - 1) == 0;
        store.address == address
            && bytes <= store.bytes
            && (!self.rule.aligned || aligned(bytes) && aligned(store.bytes))
            && !(self.rule.low_byte && store.high_byte)
    }
}

/// The accesses that a wide one is made of.
fn parts(address: u64, bytes: u32) -> impl Iterator<Item = (u64, u32)> {
    let offsets = (0..bytes).step_by(WIDEST as usize);
    offsets.map(move |offset| (address.wrapping_add(offset.into()), (bytes - offset).min(WIDEST)))
}

/// The quadwords of a page that an access of at most eight bytes is in, and which bytes of each match.
#[inline(always)]
fn quadwords(address: u64, bytes: u32, granule_shift: u8) -> impl Iterator<Item = (usize, u8)> {
    let granule = (1 << granule_shift) - 1;
    let offset = address & 7;
    let first = offset & !granule;
    let end = (offset + u64::from(bytes.max(1)) + granule) & !granule;
    let mask = ((1_u32 << end) - 1) & !((1 << first) - 1);
    let quadword = address >> 3;
    let at = |quadword: u64| quadword as usize % QUADWORDS;
    let second = (mask >> 8) as u8;
    let rest = (second != 0).then(|| (at(quadword.wrapping_add(1)), second));
    std::iter::once((at(quadword), mask as u8)).chain(rest)
}

crate::state! { Piece { saved: number, address, bytes, high_byte, matching, previous; } }

impl State for RecentStores {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("RecentStores.pieces");
        let Self { rule: _, pieces, count, last, executed, next, end } = self;
        pieces.visit(visitor);
        visitor.name("RecentStores");
        for number in [&mut *count, &mut *executed, &mut *next, &mut *end] {
            number.visit(visitor);
        }
        last.visit(visitor);
        visitor.check(*count <= LATEST && *end <= LATEST && next <= end && executed <= end);
        visitor.check(last.iter().all(|last| last <= count));
        // Each leads to one before it.
        visitor.check((0..PIECES as u64).all(|place| {
            let piece = &pieces[place as usize];
            let of = (*count).checked_sub(place + 1).map(|after| after / PIECES as u64);
            let number = of.map_or(0, |turn| turn * PIECES as u64 + place);
            piece.previous <= number && piece.number <= LATEST && piece.bytes <= WIDEST
        }));
    }
}
