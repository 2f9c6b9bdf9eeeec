//! Backwards: to a snapshot in memory from before, and forwards from there to the last place to stop at
//! before this one.
//!
//! The software engine does the same again, so that the place is found again, and the machine is as it was
//! there. A command is given the same input again, what was typed comes again at its time, and what is printed again is
//! not shown twice ([`crate::console::Console::go_back`]).

use gdbstub::common::Signal;
use gdbstub::target::ext::base::reverse_exec::ReplayLogPosition;

use super::running::Reason;
use super::target::Session;
use crate::console::Place;
use crate::error::Result;
use crate::machine::{End, Machine};
use crate::snapshot::Snapshot;

/// Instructions from one snapshot to the next, at first.
const INTERVAL: u64 = 4_000_000;
/// The most snapshots. Then every second is dropped, and the interval doubles.
const MOST: usize = 32;
/// How many instructions before this one the one before it is looked for, at first.
const NEAR: u64 = 256;

/// How far a machine has come. No two places at which one stops are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// Instructions that all processors have retired.
    pub(super) retired: u64,
    /// The sum of the processors' times, for what takes time and retires nothing.
    time: u128,
}

impl Moment {
    pub(super) fn of(machine: &Machine) -> Self {
        let time = machine.vcpus.iter().map(|vcpu| u128::from(vcpu.cpu.time)).sum();
        Self { retired: machine.retired(), time }
    }
}

/// A place to go back to.
struct Mark {
    at: Moment,
    snapshot: Snapshot,
    /// How far the guest has come with its console.
    console: Place,
}

/// Where to go back to.
#[derive(Default)]
pub(super) struct History {
    /// In order.
    marks: Vec<Mark>,
    /// How often the interval has doubled.
    doubled: u32,
}

impl History {
    /// How many instructions there will be at the next mark.
    pub(super) fn next(&self) -> u64 {
        let interval = INTERVAL << self.doubled.min(32);
        self.marks.last().map_or(0, |mark| mark.at.retired.saturating_add(interval))
    }

    fn push(&mut self, mark: Mark) {
        self.marks.push(mark);
        if self.marks.len() > MOST {
            let mut n = 0;
            self.marks.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.doubled += 1;
        }
    }
}

/// Which way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backwards {
    /// To where a processor was about to execute the instruction before.
    Step(usize),
    /// To the last breakpoint, watchpoint or act.
    Continue,
}

impl Session<'_> {
    /// Whether gdb can go backwards: what is recorded and traced would be so twice, and on KVM time is the host's.
    pub(super) fn can_go_back(&self) -> bool {
        let tracer = self.machine.board.tracer.as_ref();
        let is_traced = tracer.is_some_and(|tracer| tracer.writes());
        let is_on_kvm = !self.machine.sees.instructions;
        !self.machine.soft.is_recording() && !is_traced && !is_on_kvm
    }

    /// gdb changes the machine: what led here does not lead here any more, nor does what came behind come again.
    pub(super) fn forget(&mut self) -> Result<()> {
        self.history = History::default();
        self.console.go_on_otherwise()
    }

    /// Remembers this place if it is time to. Nothing behind it is remembered any more.
    pub(super) fn mark(&mut self) {
        if !self.can_go_back() {
            return;
        }
        let at = Moment::of(self.machine);
        let is_ahead = self.history.marks.last().is_some_and(|mark| mark.at > at);
        if is_ahead {
            self.history.marks.retain(|mark| mark.at <= at);
        }
        if self.history.marks.is_empty() || at.retired >= self.history.next() {
            let (snapshot, console) = (self.machine.snapshot(), self.console.place());
            self.history.push(Mark { at, snapshot, console });
        }
    }

    /// Goes back; why it stops there.
    pub(super) fn go_back(&mut self, way: Backwards) -> Result<Reason> {
        self.console.search(true);
        let found = self.find_back(way);
        self.console.search(false);
        found
    }

    fn find_back(&mut self, way: Backwards) -> Result<Reason> {
        let now = Moment::of(self.machine);
        // What a processor that has ended the run did last can be undone.
        self.ended = None;
        let mut end = now;
        let before = self.history.marks.iter().rposition(|mark| mark.at < now);
        for n in (0..=before.unwrap_or(0)).rev() {
            let Some(mark) = self.history.marks.get(n) else { break };
            let from = mark.at.retired;
            let mut near = match way {
                Backwards::Step(_) => NEAR,
                Backwards::Continue => u64::MAX,
            };
            loop {
                let start = end.retired.saturating_sub(near).max(from);
                let (stops, _) = self.replay(n, start, way, end, u64::MAX)?;
                if stops != 0 {
                    let (_, reason) = self.replay(n, start, way, end, stops)?;
                    return Ok(reason.unwrap_or(self.signal(self.reported, Signal::SIGTRAP)));
                }
                if start == from {
                    break;
                }
                near = near.saturating_mul(64);
            }
            end = self.history.marks[n].at;
        }
        if !self.history.marks.is_empty() {
            self.reset(0)?;
        }
        Ok(Reason::ReplayLog { tid: None, pos: ReplayLogPosition::Begin })
    }

    /// Makes the machine what it was at a mark.
    fn reset(&mut self, n: usize) -> Result<()> {
        let (mark, reached) = (&self.history.marks[n], self.machine.time());
        self.machine.reset_to(&mark.snapshot)?;
        self.console.go_back(mark.console, reached);
        if let Some(tracer) = &mut self.machine.board.tracer {
            tracer.stops.take_hit();
        }
        Ok(())
    }

    /// Runs from a mark to `start`, without a stop; from there until it stops for the `most`th time, but not
    /// to `end` or beyond. How often it has stopped, and why the last time if that was the `most`th.
    fn replay(
        &mut self,
        mark: usize,
        start: u64,
        way: Backwards,
        end: Moment,
        most: u64,
    ) -> Result<(u64, Option<Reason>)> {
        self.machine.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.set_stops(None));
        self.reset(mark)?;
        while self.machine.retired() < start {
            match self.machine.run_until(self.stop, Some(start), self.console)? {
                // Bytes of gdb's ask for a pause whenever they come; an act stops it, of whatever processor.
                End::Paused | End::Debugger(_) if !self.stop.is_requested() => {}
                _ => break,
            }
            if let Some(tracer) = &mut self.machine.board.tracer {
                tracer.stops.take_hit();
            }
        }
        if let Some(tracer) = &mut self.machine.board.tracer {
            tracer.stops.take_hit();
        }
        for (id, vcpu) in self.machine.vcpus.iter_mut().enumerate() {
            let stops = self.breakpoints.stops(false);
            vcpu.cpu.set_stops(match way {
                Backwards::Step(stepped) => (id == stepped).then(|| stops.everywhere()),
                Backwards::Continue => Some(stops),
            });
        }
        let mut count = 0;
        while !self.stop.is_requested() {
            // Behind the end nothing is of interest, but there it may stop, with nothing retired in between.
            let limit = Some(end.retired.saturating_add(1));
            match self.machine.run_until(self.stop, limit, self.console)? {
                End::Debugger(_) if Moment::of(self.machine) >= end => break,
                End::Debugger(id) => {
                    count += 1;
                    if count == most {
                        return Ok((count, Some(self.reason(id))));
                    }
                    self.pass(id);
                }
                End::Paused => {}
                _ => break,
            }
        }
        Ok((count, None))
    }

    /// Goes on from a stop that gdb is not told of.
    fn pass(&mut self, id: usize) {
        if let Some(tracer) = &mut self.machine.board.tracer {
            tracer.stops.take_hit();
        }
        if let Some(vcpu) = self.machine.vcpus.get_mut(id) {
            vcpu.cpu.take_watch_hit();
            vcpu.cpu.pass_stop();
        }
    }
}
