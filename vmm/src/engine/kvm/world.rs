//! What the threads of a run share: the machine, behind one lock, and who does what in it.
//!
//! A processor's thread holds the lock at all times but while it is in the guest or has to wait.

use std::mem;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use vmm_sys_util::eventfd::EventFd;

use super::clock::Clock;
use super::dirty_log::DirtyLog;
use super::host_counter::Told;
use super::irqchip::Irqchip;
use super::kick::Kicker;
use crate::error::{Error, Result};
use crate::irq::{Pending, Wire};
use crate::machine::{End, Machine};

/// How long output may wait for the main thread, in fractions of a second: 5 ms.
const OUTPUT_PATIENCE: u64 = 200;

/// How often to ask all processors at once whether they sleep for good.
const ROLL_CALL: Duration = Duration::from_millis(500);

/// The lock and what wakes those who wait for something behind it.
///
/// The lock is one that goes to those who have waited for long: a processor that leaves the guest all
/// the time would keep the main thread out of it otherwise.
pub(super) struct Shared<'m> {
    world: Mutex<World<'m>>,
    /// For each processor: something has changed for it while it waits.
    changed: Vec<Condvar>,
}

/// The machine and who does what in it.
pub(super) struct World<'m> {
    pub(super) machine: &'m mut Machine,
    pub(super) clock: Clock,
    pub(super) seats: Vec<Seat>,
    /// The processor whose thread has stopped all others.
    pub(super) conductor: Option<Conductor>,
    /// The interrupt controllers, if the kernel has them while it runs processors.
    pub(super) irqchip: Option<Irqchip<'m>>,
    /// Which translations the guest makes stale.
    pub(super) dirty_log: DirtyLog<'m>,
    /// When all processors were found dozing.
    roll_call: Option<Instant>,
    /// How the run has ended.
    pub(super) end: Option<Result<End>>,
    /// Wakes the main thread.
    pub(super) main: EventFd,
    /// The virtual time until which it sleeps.
    pub(super) main_until: u64,
    /// Somebody may still type.
    pub(super) has_input: bool,
    /// Processors, a bit each, whose threads wait and are to be woken as soon as the lock is free.
    wake: u32,
    /// What has been said about `--count host`.
    pub(super) told: Told,
}

/// A thread that has stopped all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conductor {
    /// Its processor.
    pub(super) id: usize,
    /// What the others do before they stop.
    pub(super) task: Task,
}

/// What all threads do when one of them wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Nothing but to leave the guest.
    Stop,
    /// Give the processor's state to the software CPU.
    Save,
    /// The same, and its local APIC, which the kernel has.
    Take,
    /// What is left to do on the software CPU.
    Act,
    /// Give state and local APIC back to the kernel.
    Give,
}

impl Conductor {
    /// Whether the software engine has the machine.
    pub(super) fn takes_all(self) -> bool {
        self.task != Task::Stop
    }
}

/// One processor's thread.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// There while the thread is.
    pub(super) kicker: Option<Kicker>,
    /// It is in the guest, and entered it knowing of these interrupts.
    pub(super) inside: Option<Pending>,
    /// It has been in there since the main thread looked last.
    seen_inside: bool,
    /// It has been kicked and is on its way out.
    pub(super) kicked: bool,
    /// It waits for a change.
    pub(super) waiting: bool,
    /// It has stopped for the conductor.
    pub(super) parked: bool,
    /// HLT has been executed; whether maskable interrupts end it.
    pub(super) halted: Option<bool>,
    /// INIT: the state that KVM has of it is void.
    pub(super) initialised: bool,
    /// The kernel, which has the local APIC, has found it halted or waiting for a start-up IPI.
    pub(super) dozing: bool,
    /// A PMI is to be raised in the kernel's local APIC.
    pub(super) pmi: bool,
    /// The time-stamp counter has been elsewhere.
    pub(super) retimed: bool,
}

pub(super) type Guard<'g, 'm> = MutexGuard<'g, World<'m>>;

impl<'m> Shared<'m> {
    pub(super) fn new(world: World<'m>) -> Self {
        let changed = world.seats.iter().map(|_| Condvar::new()).collect();
        Self { world: Mutex::new(world), changed }
    }

    /// Takes the lock. After a panic of another thread the world is only looked at to end it.
    pub(super) fn lock(&self) -> Guard<'_, 'm> {
        self.world.lock()
    }

    /// Gives the lock back and wakes those who have something to do now.
    pub(super) fn unlock(&self, mut world: Guard<'_, 'm>) {
        let wake = mem::take(&mut world.wake);
        drop(world);
        self.wake(wake);
    }

    /// Lets others have the lock for a moment if they want it.
    pub(super) fn give_way(&self, world: &mut Guard<'_, 'm>) {
        self.wake(mem::take(&mut world.wake));
        MutexGuard::bump(world);
    }

    /// Waits as processor `id` until something has changed.
    pub(super) fn wait<'g>(&'g self, mut world: Guard<'g, 'm>, id: usize) -> Guard<'g, 'm> {
        world.seats[id].waiting = true;
        self.wake(mem::take(&mut world.wake));
        self.changed[id].wait(&mut world);
        world.seats[id].waiting = false;
        world
    }

    fn wake(&self, processors: u32) {
        for (_, changed) in
            self.changed.iter().enumerate().filter(|(id, _)| processors >> id & 1 != 0)
        {
            changed.notify_one();
        }
    }
}

impl Seat {
    /// The thread enters the guest, knowing of these interrupts.
    pub(super) fn enter(&mut self, pending: Pending) {
        self.inside = Some(pending);
        self.seen_inside = false;
        self.kicked = false;
    }

    /// Nobody is in it yet, and its processor's time-stamp counter is to be set.
    pub(super) fn new() -> Self {
        Self { retimed: true, ..Self::default() }
    }

    /// Takes the thread out of the guest.
    fn kick(&mut self) {
        if self.inside.is_some()
            && !self.kicked
            && let Some(kicker) = &self.kicker
        {
            self.kicked = true;
            kicker.kick();
        }
    }
}

impl<'m> World<'m> {
    /// The world before any thread is there. `main` wakes the main thread.
    pub(super) fn new(
        machine: &'m mut Machine,
        main: EventFd,
        irqchip: Option<Irqchip<'m>>,
        dirty_log: DirtyLog<'m>,
    ) -> Self {
        Self {
            clock: Clock::new(machine.clock_hz(), machine.now),
            seats: machine.vcpus.iter().map(|_| Seat::new()).collect(),
            machine,
            conductor: None,
            irqchip,
            dirty_log,
            roll_call: None,
            end: None,
            main,
            main_until: 0,
            has_input: false,
            wake: 0,
            told: Told::default(),
        }
    }

    /// Tells all others that the roles have changed: takes them out of the guest, wakes them up.
    pub(super) fn announce(&mut self) {
        self.seats.iter_mut().for_each(Seat::kick);
        self.wake_all();
    }

    /// Wakes those who wait: they are to look again.
    pub(super) fn wake_all(&mut self) {
        for (id, _) in self.seats.iter().enumerate().filter(|(_, seat)| seat.waiting) {
            self.wake |= 1 << id;
        }
    }

    /// Nobody is the conductor any more.
    pub(super) fn release(&mut self) {
        self.conductor = None;
        self.seats.iter_mut().for_each(|seat| seat.parked = false);
        self.announce();
    }

    /// Ends the run, if it has not ended yet.
    pub(super) fn finish(&mut self, end: Result<End>) {
        if self.end.is_none() {
            self.end = Some(end);
        }
        self.wake_main();
        self.announce();
    }

    /// Brings the devices up to now, and to the processors what concerns them. Called after anything
    /// that may have changed what they see.
    pub(super) fn settle(&mut self) {
        let now = self.clock.now();
        self.machine.now = now;
        let next = self.machine.board.catch_up(now);
        if self.machine.board.chipset.irq.has_signals() {
            for id in self.machine.distribute_signals() {
                if let Some(seat) = self.seats.get_mut(id) {
                    seat.initialised = true;
                    seat.halted = None;
                }
            }
            self.announce();
        }
        if self.machine.board.chipset.has_events()
            && let Some(end) = self.machine.take_event()
        {
            self.finish(Ok(end));
        }
        self.forward();
        self.hurry_main(now, next);
        for (id, seat) in self.seats.iter_mut().enumerate() {
            let pending = self.machine.board.chipset.irq.pending(id);
            if let Some(known) = seat.inside
                && (pending.nmi && !known.nmi || pending.interrupt && !known.interrupt)
            {
                seat.kick();
            }
            if seat.waiting
                && seat.halted.is_some_and(|enabled| pending.nmi || pending.interrupt && enabled)
            {
                self.wake |= 1 << id;
            }
        }
    }

    /// Tells the controllers in the kernel what has happened on their wires.
    pub(super) fn forward(&mut self) {
        let Some(irqchip) = &mut self.irqchip else { return };
        for wire in self.machine.board.chipset.irq.take_wires() {
            match wire {
                Wire::Line { gsi, asserted } => {
                    if let Err(error) = irqchip.set_line(gsi, asserted) {
                        return self.finish(Err(error));
                    }
                }
                Wire::Pmi(id) => {
                    if let Some(seat) = self.seats.get_mut(id) {
                        seat.pmi = true;
                        seat.kick();
                    }
                }
            }
        }
    }

    /// Whether all processors have been found dozing in the kernel, so that it is time to see whether
    /// anything could wake one.
    pub(super) fn is_roll_call_due(&mut self) -> bool {
        let due = self.seats.iter().all(|seat| seat.dozing)
            && self.roll_call.is_none_or(|last| last.elapsed() >= ROLL_CALL);
        if due {
            self.roll_call = Some(Instant::now());
        }
        due
    }

    /// Whether a thread other than that of processor `id` has stopped all others.
    pub(super) fn is_stopped_for(&self, id: usize) -> bool {
        self.conductor.is_some_and(|conductor| conductor.id != id)
    }

    /// Whether no processor executes anything until something comes from outside; whether, beyond
    /// that, no maskable interrupt can change it.
    pub(super) fn asleep(&self) -> (bool, bool) {
        if self.irqchip.is_some() {
            // Only a roll call can tell.
            return (false, false);
        }
        let irq = &self.machine.board.chipset.irq;
        let (mut asleep, mut masked) = (true, true);
        for (id, (seat, vcpu)) in self.seats.iter().zip(&self.machine.vcpus).enumerate() {
            if vcpu.waits_for_startup {
                continue;
            }
            let pending = irq.pending(id);
            match seat.halted {
                Some(enabled) if !(pending.nmi || pending.interrupt && enabled) => {
                    masked &= !enabled;
                }
                _ => asleep = false,
            }
        }
        (asleep, asleep && masked)
    }

    /// Gets those out of the guest that have been in there since the last call: they are to look
    /// where the guest's exception handlers are now.
    pub(super) fn visit(&mut self) {
        for seat in self.seats.iter_mut().filter(|seat| seat.inside.is_some()) {
            if seat.seen_inside {
                seat.kick();
            }
            seat.seen_inside = true;
        }
    }

    /// Makes the main thread look at the world.
    pub(super) fn wake_main(&mut self) {
        self.main_until = 0;
        // It cannot fail but for a full counter, which wakes as well.
        let _ = self.main.write(1);
    }

    /// Wakes the main thread if it would sleep past `next` or past what is to be printed.
    fn hurry_main(&mut self, now: u64, next: u64) {
        let mut until = next;
        if self.machine.board.chipset.serial.has_output() {
            until = until.min(now.saturating_add(self.machine.clock_hz() / OUTPUT_PATIENCE));
        }
        if until < self.main_until {
            self.wake_main();
        }
    }

    /// An error of a processor's thread for which the machine is not to blame.
    pub(super) fn broken(id: usize) -> Error {
        Error::Host(format!("the thread of processor {id} has failed"))
    }
}
