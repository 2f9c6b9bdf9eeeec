//! From one stop to the next.

use gdbstub::common::Signal;
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::target::ext::breakpoints::WatchKind;
use x86_cpu::stops::{WatchHit, Watched};

use super::breakpoints::Kind;
use super::connection::{Gone, Link};
use super::target::{Session, thread};
use crate::error::{Error, Result};
use crate::machine::End;
use crate::output::say;
use crate::trace::ActHit;

pub(super) type Reason = MultiThreadStopReason<u64>;

impl Session<'_> {
    /// Has the processors stop where gdb wants them to, but for those that gdb knows to be at such a place.
    pub(super) fn set_stops(&mut self) {
        let stepping = !self.stepped.is_empty();
        for (id, vcpu) in self.machine.vcpus.iter_mut().enumerate() {
            let stops = self.breakpoints.stops(stepping);
            let is_stepped = self.stepped.contains(&id);
            vcpu.cpu.set_stops(Some(if is_stepped { stops.everywhere() } else { stops }));
            if is_stepped || id == self.reported {
                vcpu.cpu.pass_stop();
            }
        }
    }

    /// Runs the machine; `None` if it has only paused.
    pub(super) fn go(&mut self) -> Result<Option<Reason>> {
        if let Some(way) = self.backwards.take() {
            let reason = self.go_back(way)?;
            self.breakpoints.settle();
            return Ok(Some(reason));
        }
        if let Some(end) = self.ended {
            return Ok(Some(Reason::Exited((self.status)(end))));
        }
        self.mark();
        let mark = self.can_go_back().then(|| self.history.next());
        let limit = self.instructions.into_iter().chain(mark).min();
        let end = self.machine.run_until(self.stop, limit, self.console)?;
        let reason = match end {
            End::Instructions if limit != self.instructions => return Ok(None),
            End::Paused => return Ok(None),
            End::Debugger(id) => self.reason(id),
            End::TripleFault(id) => {
                self.ended = Some(end);
                self.signal(id, Signal::SIGSEGV)
            }
            // What the processors are in is worth a look.
            End::Halted | End::Instructions | End::EndOfTime => {
                self.ended = Some(end);
                self.signal(self.reported, Signal::SIGSTOP)
            }
            end => {
                self.ended = Some(end);
                Reason::Exited((self.status)(end))
            }
        };
        self.breakpoints.settle();
        Ok(Some(reason))
    }

    /// Why a processor has stopped.
    pub(super) fn reason(&mut self, id: usize) -> Reason {
        self.reported = id;
        if let Some(hit) = self.machine.board.tracer.as_mut().and_then(|t| t.stops.take_hit()) {
            let ActHit { vcpu, words } = &hit;
            say(&format!("stopped behind: processor {vcpu}: {words}"), self.stop);
            let id = *vcpu;
            self.last_act = Some(hit);
            return self.signal(id, Signal::SIGTRAP);
        }
        let tid = thread(id);
        let Some(vcpu) = self.machine.vcpus.get_mut(id) else {
            return self.signal(id, Signal::SIGTRAP);
        };
        if let Some(WatchHit { watched, .. }) = vcpu.cpu.take_watch_hit() {
            let Watched { address: addr, reads, writes, .. } = watched;
            let kind = match (reads, writes) {
                (true, true) => WatchKind::ReadWrite,
                (true, false) => WatchKind::Read,
                _ => WatchKind::Write,
            };
            return Reason::Watch { tid, kind, addr };
        }
        match self.breakpoints.at(vcpu.cpu.linear_rip()) {
            Some(Kind::Software) => Reason::SwBreak(tid),
            Some(Kind::Hardware) => Reason::HwBreak(tid),
            None => self.signal(id, Signal::SIGTRAP),
        }
    }

    pub(super) fn signal(&mut self, id: usize, signal: Signal) -> Reason {
        self.reported = id;
        Reason::SignalWithThread { tid: thread(id), signal }
    }

    /// Stops, since gdb asks for it, at a processor that executes something if one does.
    fn interrupted(&mut self) -> Reason {
        let machine = &*self.machine;
        let awake = |id: &usize| !machine.vcpus[*id].asleep(&machine.board);
        let id = (0..machine.vcpus.len()).find(awake).unwrap_or(0);
        self.breakpoints.settle();
        self.signal(id, Signal::SIGINT)
    }
}

/// What `gdbstub` does while the guest runs.
pub(super) struct EventLoop<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for EventLoop<'a> {
    type Target = Session<'a>;
    type Connection = Link;
    type StopReason = Reason;

    fn wait_for_stop_reason(
        session: &mut Session<'a>,
        link: &mut Link,
    ) -> std::result::Result<Event<Reason>, WaitForStopReasonError<Error, Gone>> {
        loop {
            // What comes from here on asks for another pause.
            session.stop.takes_pause();
            if link.peek().map_err(WaitForStopReasonError::Connection)?.is_some() {
                let byte = link.read().map_err(WaitForStopReasonError::Connection)?;
                return Ok(Event::IncomingData(byte));
            }
            if let Some(reason) = session.go().map_err(WaitForStopReasonError::Target)? {
                return Ok(Event::TargetStopped(reason));
            }
        }
    }

    fn on_interrupt(session: &mut Session<'a>) -> Result<Option<Reason>> {
        Ok(Some(session.interrupted()))
    }
}
