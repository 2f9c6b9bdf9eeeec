//! Fetch and decode: when the operations of an instruction can be dispatched, at the earliest.

use super::{
    core::{Core, Decoders},
    table::Decode,
};
use crate::state::{LATEST, Visitor};

/// Windows of code and queued micro-operations that are remembered.
const REMEMBERED: usize = 8;

/// Where the decoders are.
#[derive(Clone, Debug)]
pub(super) struct FrontEnd {
    shift: u8,
    windows: usize,
    /// The window that was fetched last, when, and how many there have been.
    window: u64,
    fetched: u64,
    count: usize,
    /// The next instruction begins a window, which is there at this cycle or later.
    redirected: bool,
    next: u64,
    /// When each of the last windows was decoded to its end.
    used_up: [u64; REMEMBERED],
    /// The cycle of the line or group that is being decoded, and how many positions are taken in it.
    pub(super) decoded: u64,
    pub(super) position: u8,
    /// Nothing more goes into it.
    closed: bool,
    /// When each of the last micro-operations left the queue behind the decoders.
    left: [u64; REMEMBERED],
    queued: usize,
}

/// Where an instruction is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// It begins a line or group.
    pub(super) fresh: bool,
    /// Its first operation can be dispatched in this cycle, at the earliest.
    pub(super) dispatch: u64,
}

impl FrontEnd {
    pub(super) fn new(core: &Core) -> Self {
        Self {
            shift: core.fetch.window_shift,
            windows: usize::from(core.fetch.windows),
            window: 0,
            fetched: 0,
            count: REMEMBERED,
            redirected: true,
            next: 0,
            used_up: [0; REMEMBERED],
            decoded: 0,
            position: 0,
            closed: true,
            left: [0; REMEMBERED],
            queued: REMEMBERED,
        }
    }

    /// Fetches an instruction: the cycle in which its last window arrives.
    #[inline(always)]
    pub(super) fn fetch(&mut self, address: u64, length: u8, delay: u32) -> u64 {
        let last = (address + u64::from(length.max(1)) - 1) >> self.shift;
        if !self.redirected && last == self.window {
            self.fetched += u64::from(delay);
            return self.fetched;
        }
        let first = address >> self.shift;
        if self.redirected || first != self.window {
            self.fetch_window(first, delay);
            if last != first {
                self.fetch_window(last, 0);
            }
        } else {
            self.fetch_window(last, delay);
        }
        self.fetched
    }

    fn fetch_window(&mut self, window: u64, delay: u32) {
        let space = self.used_up[(self.count - self.windows) % REMEMBERED];
        let soonest = if self.redirected { self.next } else { self.fetched + 1 };
        self.fetched = soonest.max(space) + u64::from(delay);
        self.redirected = false;
        self.window = window;
        self.count += 1;
    }

    /// Notes when the instruction that was fetched last has been decoded.
    #[inline(always)]
    pub(super) fn finish(&mut self, address: u64, decoded: u64) {
        self.used_up[(self.count - 1) % REMEMBERED] = decoded;
        if address >> self.shift != self.window {
            self.used_up[(self.count - 2) % REMEMBERED] = decoded;
        }
    }

    /// What follows comes from elsewhere. Its window is there at this cycle or later.
    #[inline(always)]
    pub(super) fn redirect(&mut self, next: u64) {
        self.redirected = true;
        self.next = next;
    }

    /// When the window that was fetched last came.
    #[inline(always)]
    pub(super) fn fetched(&self) -> u64 {
        self.fetched
    }

    /// Decodes into a line of lanes, before `dispatched`, the cycle of the last dispatch, has a
    /// successor: the line before must have left the decoders.
    #[inline(always)]
    pub(super) fn decode_to_line(
        &mut self,
        fetched: u64,
        decode: Decode,
        dispatched: u64,
        lanes: u8,
    ) -> Decoded {
        let fits = match decode {
            Decode::Direct | Decode::Double => self.position < lanes,
            Decode::First => self.position == 0,
            Decode::Microcode => false,
        };
        let fresh = self.closed || !fits || fetched + 1 > self.decoded;
        if fresh {
            self.decoded = (fetched + 1).max(self.decoded + 1).max(dispatched);
            self.position = 0;
        }
        self.closed = decode == Decode::Microcode;
        Decoded { fresh, dispatch: self.decoded + 1 }
    }

    /// Goes on to the next line, in the middle of an instruction.
    #[inline(always)]
    pub(super) fn next_line(&mut self, dispatched: u64) {
        self.decoded = (self.decoded + 1).max(dispatched);
        self.position = 0;
    }

    /// Decodes into a group of decoders of which the first can do more than the others.
    #[inline(always)]
    pub(super) fn decode_to_group(
        &mut self,
        decoders: Decoders,
        fetched: u64,
        operations: usize,
        length: u8,
    ) -> Decoded {
        let Decoders::Template { count, first, bytes, queue, microcode } = decoders else {
            return Decoded { fresh: true, dispatch: fetched + 2 };
        };
        let simple = operations <= 1 && length <= bytes;
        let group = operations.min(usize::from(first));
        // The queue has room for all that the decoder makes of it when the one that is so many before
        // the last has left. None of its own has left yet.
        let before = self.queued + group - 1 - usize::from(queue).max(group);
        let room = self.left[before % REMEMBERED];
        let fits = !self.closed && self.position > 0 && self.position < count && simple;
        let fresh = !fits || fetched + 1 > self.decoded || room > self.decoded;
        if fresh {
            self.decoded = (fetched + 1).max(self.decoded + 1).max(room);
            self.position = 0;
        }
        self.position += 1;
        let dispatch = self.decoded + 1;
        self.closed = operations > usize::from(first);
        if self.closed {
            // The sequencer has the decoders until it is done.
            self.decoded += (operations as u64 - 1) / u64::from(microcode);
        }
        Decoded { fresh, dispatch }
    }

    /// A micro-operation leaves the queue behind the decoders.
    #[inline(always)]
    pub(super) fn leave_queue(&mut self, cycle: u64) {
        self.left[self.queued % REMEMBERED] = cycle;
        self.queued += 1;
    }
}

crate::state! {
    FrontEnd {
        saved: window, count, redirected, position, closed, queued;
        cycles: fetched, next, used_up, decoded, left;
        derived: shift, windows;
        then: check;
    }
}

impl FrontEnd {
    fn check<V: Visitor>(&mut self, visitor: &mut V) {
        let counts = [self.count, self.queued];
        visitor.check(counts.iter().all(|&n| n >= REMEMBERED && n as u64 <= LATEST));
    }
}
