//! In which order the processors of the software engine run, and for how long.
//!
//! All processors share one time line, which is cut into slices of at most [`QUANTUM`] cycles. A slice
//! also ends where a device has something to do. Within a slice processors take turns, one after the
//! other over the same interval: first those that execute something, then those that sleep, each in
//! the order of their numbers. So a sleeping processor is woken by an interrupt in the cycle in which
//! the interrupt arrives.
//!
//! A processor that runs later in a turn sees in memory what those before it did up to the turn's end,
//! and those before it see what it does one turn late. Interrupts must be neither early nor late. They
//! are not early, since they are in transit until the receiver's time is the time of arrival
//! ([`crate::irq::Interrupts::arrive`]). They are not late, since a turn ends where a processor sends
//! an interrupt to another one, or executes PAUSE while others that are awake have yet to run; those
//! after it run no further. For [`SHORT_TURNS`] cycles turns are then no longer than the latency of an
//! IPI ([`crate::platform::Platform::ipi_latency`]): an interrupt that is sent in such a turn does not
//! arrive before its end.
//!
//! Nothing in this depends on the host.

use crate::engine::{Limit, Outcome};
use crate::machine::{End, Machine};

/// Longest slice, in cycles: 25 microseconds at 2 GHz.
pub(crate) const QUANTUM: u64 = 50_000;
/// Longest turn, in cycles, while more than one processor executes something.
const TURN: u64 = 5_000;
/// How long turns stay short, in cycles.
const SHORT_TURNS: u64 = 20_000;

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// At its time.
    Whole,
    /// Early, since nothing counts any more.
    Uncounted,
    /// Early, since the run is to end.
    Stopped,
    /// With the run.
    Ended(End),
}

impl Machine {
    /// Runs every processor until `until`; at most `left` instructions in all. If it is `counted`, it
    /// ends early when the last counter is disabled.
    pub(crate) fn slice(&mut self, until: u64, mut left: u64, counted: bool) -> Slice {
        while self.now < until {
            match self.turn(until, &mut left, counted) {
                Slice::Whole => {}
                other => return other,
            }
        }
        Slice::Whole
    }

    /// A turn of every processor, until `until` or earlier.
    fn turn(&mut self, until: u64, left: &mut u64, counted: bool) -> Slice {
        let mut until = until;
        let awake = self.set_order();
        let short = self.now < self.short_turns_until;
        if awake > 1 {
            until = until.min(self.now.saturating_add(TURN));
        }
        if short {
            until = until.min(self.now.saturating_add(self.board.platform.ipi_latency));
        }
        for nth in 0..self.order.len() {
            let id = self.order[nth];
            let before = self.vcpus[id].cpu.retired();
            let mut counted = counted;
            loop {
                let used = self.vcpus[id].cpu.retired() - before;
                let instructions = left.saturating_sub(used);
                let at_pause = !short && nth + 1 < awake;
                let limit = Limit { time: until, instructions, counted, at_send: !short, at_pause };
                let (vcpus, board) = (&mut self.vcpus, &mut self.board);
                match self.soft.run(vcpus, id, board, self.memory.ram(), limit) {
                    Outcome::Complete => break,
                    Outcome::Stopped => return Slice::Stopped,
                    Outcome::Yielded => {
                        until = until.min(self.vcpus[id].cpu.time);
                        self.short_turns_until = until.saturating_add(SHORT_TURNS);
                    }
                    Outcome::Signals => _ = self.distribute_signals(),
                    Outcome::Event => {
                        if let Some(end) = self.take_event() {
                            return Slice::Ended(end);
                        }
                    }
                    Outcome::InstructionLimit => return Slice::Ended(End::Instructions),
                    Outcome::Shutdown => return Slice::Ended(End::TripleFault(id)),
                    Outcome::Uncounted if self.is_counting() => counted = false,
                    Outcome::Uncounted => {
                        self.now = self.now.max(self.time().min(until));
                        return Slice::Uncounted;
                    }
                }
            }
            *left = left.saturating_sub(self.vcpus[id].cpu.retired() - before);
        }
        if self.board.chipset.irq.first_arrival().is_some() {
            self.short_turns_until = until.saturating_add(SHORT_TURNS);
            self.receive();
        }
        self.now = until;
        self.board.catch_up(until);
        Slice::Whole
    }

    /// Gives each processor what has arrived by now.
    fn receive(&mut self) {
        for (id, vcpu) in self.vcpus.iter().enumerate() {
            self.board.chipset.irq.arrive(id, vcpu.cpu.time);
        }
        self.distribute_signals();
    }

    /// Sets the order in which processors run: those that execute something, which are so many, and
    /// then the others.
    fn set_order(&mut self) -> usize {
        self.order.clear();
        let mut awake = 0;
        for (id, vcpu) in self.vcpus.iter().enumerate() {
            if vcpu.asleep(&self.board) {
                self.order.push(id);
            } else {
                self.order.insert(awake, id);
                awake += 1;
            }
        }
        awake
    }
}
