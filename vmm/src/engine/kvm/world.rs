//! What the threads of a run share, behind one lock: the machine, and the state of each vCPU thread.
//!
//! Each processor has a thread. It holds the lock at all times but while it is in the guest (`KVM_RUN`)
//! or waits on its condition variable. A thread that needs the machine for itself stops the others:
//! it becomes the coordinator, kicks them out of the guest, and has each of them do a [`Phase`] of the
//! work before it parks (`stop_the_world.rs`).

use std::mem;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use vmm_sys_util::eventfd::EventFd;

use super::clock::Clock;
use super::dirty_log::DirtyLog;
use super::host_counter::Told;
use super::irqchip::Irqchip;
use super::kick::Kicker;
use crate::ahead::Activity;
use crate::error::{Error, Result};
use crate::irq::{Pending, Wire};
use crate::machine::{End, Machine};
use crate::processor_set::ProcessorSet;

/// The longest delay until the main thread prints what the guest has written, as the part of a second
/// that it is: 5 ms.
const OUTPUT_DELAY: u64 = 200;

/// How often all processors, halted in the kernel, are stopped to see whether anything can wake them.
const IDLE_CHECK_PERIOD: Duration = Duration::from_millis(500);

/// The lock and what wakes those who wait for something behind it.
///
/// The lock is one that goes to those who have waited for long: a processor that leaves the guest all
/// the time would keep the main thread out of it otherwise.
pub(super) struct Shared<'m> {
    world: Mutex<World<'m>>,
    /// For each processor: something has changed for it while it waits.
    changed: Vec<Condvar>,
}

/// All that the lock protects: the machine, and what its vCPU threads are doing.
pub(super) struct World<'m> {
    pub(super) machine: &'m mut Machine,
    pub(super) clock: Clock,
    pub(super) vcpu_slots: Vec<VcpuSlot>,
    /// The thread that has stopped all others, if one has.
    pub(super) coordinator: Option<Coordinator>,
    /// The in-kernel interrupt controllers, with `--irqchip kernel`.
    pub(super) irqchip: Option<Irqchip<'m>>,
    /// Which translations the guest makes stale.
    pub(super) dirty_log: DirtyLog<'m>,
    /// When all processors were last stopped because they were idle in the kernel.
    last_idle_check: Option<Instant>,
    /// The run is to pause: the first thread that sees it has all state moved to the software engine.
    pauses: bool,
    /// How the run has ended.
    pub(super) end: Option<Result<End>>,
    /// Wakes the main thread.
    pub(super) main: EventFd,
    /// The virtual time until which it sleeps.
    pub(super) main_until: u64,
    /// Somebody may still type.
    pub(super) has_input: bool,
    /// Processors whose threads wait and are to be woken as soon as the lock is free.
    wake: ProcessorSet,
    /// What has been said about `--count host`.
    pub(super) told: Told,
}

/// The thread that has stopped all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coordinator {
    /// Its processor.
    pub(super) id: usize,
    /// What the others do before they park.
    pub(super) phase: Phase,
}

/// A phase of stopping the world: what each thread does, the coordinator first, before it parks. The next
/// phase begins when all have parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing but to leave the guest.
    Stop,
    /// Give the processor's state to the software CPU.
    Save,
    /// The same, and its in-kernel local APIC's.
    SaveWithLapic,
    /// Execute what was deferred until the software engine has all interrupt controllers.
    Execute,
    /// Give the processor's and its local APIC's state back to the kernel.
    Restore,
}

impl Coordinator {
    /// Whether the software engine is to run all processors, not just single instructions.
    pub(super) fn takes_all(self) -> bool {
        self.phase != Phase::Stop
    }
}

/// The state of one vCPU's thread.
#[derive(Debug, Default)]
pub(super) struct VcpuSlot {
    /// Kicks the thread out of the guest; there while the thread runs.
    pub(super) kicker: Option<Kicker>,
    /// It is in the guest; these interrupts were pending when it entered.
    pub(super) in_guest: Option<Pending>,
    /// It was in the guest at the last call of [`World::kick_long_runs`], and has been since.
    seen_in_guest: bool,
    /// It has been kicked since it entered the guest.
    pub(super) kicked: bool,
    /// It waits on its condition variable.
    pub(super) waiting: bool,
    /// It has done the coordinator's phase and stays out of the guest.
    pub(super) parked: bool,
    /// HLT has been executed; whether maskable interrupts end it.
    pub(super) halted: Option<bool>,
    /// INIT has reset the processor: the state that KVM has of it is out of date.
    pub(super) initialised: bool,
    /// With an in-kernel local APIC: `KVM_RUN` found it halted or waiting for a start-up IPI.
    pub(super) idle_in_kernel: bool,
    /// A PMI is to be raised in the kernel's local APIC.
    pub(super) pmi: bool,
    /// The time-stamp counter that KVM has is out of date: the software engine ran the processor.
    pub(super) tsc_is_stale: bool,
}

pub(super) type Guard<'g, 'm> = MutexGuard<'g, World<'m>>;

impl<'m> Shared<'m> {
    pub(super) fn new(world: World<'m>) -> Self {
        let changed = world.vcpu_slots.iter().map(|_| Condvar::new()).collect();
        Self { world: Mutex::new(world), changed }
    }

    /// Takes the lock. After a panic of another thread it is taken only to end the run.
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
        world.vcpu_slots[id].waiting = true;
        self.wake(mem::take(&mut world.wake));
        self.changed[id].wait(&mut world);
        world.vcpu_slots[id].waiting = false;
        world
    }

    fn wake(&self, processors: ProcessorSet) {
        processors.iter().for_each(|id| _ = self.changed[id].notify_one());
    }
}

impl VcpuSlot {
    /// The thread enters the guest with these interrupts pending.
    pub(super) fn enter(&mut self, pending: Pending) {
        self.in_guest = Some(pending);
        self.seen_in_guest = false;
        self.kicked = false;
    }

    /// The slot of a vCPU whose thread has not started, and whose time-stamp counter KVM has not.
    pub(super) fn new() -> Self {
        Self { tsc_is_stale: true, ..Self::default() }
    }

    /// Takes the thread out of the guest.
    fn kick(&mut self) {
        if self.in_guest.is_some()
            && !self.kicked
            && let Some(kicker) = &self.kicker
        {
            self.kicked = true;
            kicker.kick();
        }
    }
}

impl<'m> World<'m> {
    /// The state before any vCPU thread has started. `main` wakes the main thread.
    pub(super) fn new(
        machine: &'m mut Machine,
        main: EventFd,
        irqchip: Option<Irqchip<'m>>,
        dirty_log: DirtyLog<'m>,
    ) -> Self {
        Self {
            clock: Clock::new(machine.clock_hz(), machine.now),
            vcpu_slots: machine.vcpus.iter().map(|_| VcpuSlot::new()).collect(),
            machine,
            coordinator: None,
            irqchip,
            dirty_log,
            last_idle_check: None,
            pauses: false,
            end: None,
            main,
            main_until: 0,
            has_input: false,
            wake: ProcessorSet::default(),
            told: Told::default(),
        }
    }

    /// Has all threads look at what has changed: kicks those in the guest, wakes those that wait.
    pub(super) fn announce(&mut self) {
        self.vcpu_slots.iter_mut().for_each(VcpuSlot::kick);
        self.wake_all();
    }

    /// Wakes those who wait: they are to look again.
    pub(super) fn wake_all(&mut self) {
        for (id, _) in self.vcpu_slots.iter().enumerate().filter(|(_, slot)| slot.waiting) {
            self.wake.insert(id);
        }
    }

    /// Lets all threads go on: there is no coordinator any more.
    pub(super) fn release(&mut self) {
        self.coordinator = None;
        self.vcpu_slots.iter_mut().for_each(|slot| slot.parked = false);
        self.announce();
    }

    /// Has the run pause, behind what the processors are doing.
    pub(super) fn ask_for_pause(&mut self) {
        self.pauses = true;
        self.announce();
    }

    /// Whether the run is to pause, which may be for an access to a register.
    pub(super) fn is_to_pause(&self) -> bool {
        self.pauses || self.machine.board.stops_at_act()
    }

    /// Ends the run, if it has not ended yet.
    pub(super) fn finish(&mut self, end: Result<End>) {
        if self.end.is_none() {
            self.end = Some(end);
        }
        self.wake_main();
        self.announce();
    }

    /// Brings the devices up to the present and makes the processors take the interrupts, INITs and
    /// end of the run that result. Called after anything that may have changed a device.
    pub(super) fn update_devices(&mut self) {
        let now = self.clock.now();
        self.machine.now = now;
        let next = self.machine.board.catch_up(now);
        if self.machine.board.chipset.irq.has_signals() {
            for id in self.machine.distribute_signals() {
                if let Some(slot) = self.vcpu_slots.get_mut(id) {
                    slot.initialised = true;
                    slot.halted = None;
                }
            }
            self.announce();
        }
        if self.machine.board.chipset.has_events()
            && let Some(end) = self.machine.take_event()
        {
            match end {
                // Behind the instruction that asked for it, which KVM has not completed yet.
                End::Paused => self.ask_for_pause(),
                end => self.finish(Ok(end)),
            }
        }
        self.forward();
        self.wake_main_before(now, next);
        for (id, slot) in self.vcpu_slots.iter_mut().enumerate() {
            let pending = self.machine.board.chipset.irq.pending(id);
            if let Some(known) = slot.in_guest
                && (pending.nmi && !known.nmi || pending.interrupt && !known.interrupt)
            {
                slot.kick();
            }
            if slot.waiting
                && slot.halted.is_some_and(|enabled| pending.nmi || pending.interrupt && enabled)
            {
                self.wake.insert(id);
            }
        }
    }

    /// Passes changes of interrupt lines and PMIs on to the in-kernel interrupt controllers.
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
                    if let Some(slot) = self.vcpu_slots.get_mut(id) {
                        slot.pmi = true;
                        slot.kick();
                    }
                }
            }
        }
    }

    /// Whether all processors are idle in the kernel and it is time to see whether anything can wake one.
    pub(super) fn is_idle_check_due(&mut self) -> bool {
        let due = self.vcpu_slots.iter().all(|slot| slot.idle_in_kernel)
            && self.last_idle_check.is_none_or(|last| last.elapsed() >= IDLE_CHECK_PERIOD);
        if due {
            self.last_idle_check = Some(Instant::now());
        }
        due
    }

    /// Whether a thread other than that of processor `id` has stopped all others.
    pub(super) fn is_stopped_for(&self, id: usize) -> bool {
        self.coordinator.is_some_and(|coordinator| coordinator.id != id)
    }

    /// What the processors are about, while KVM has them.
    pub(super) fn activity(&self) -> Activity {
        if self.irqchip.is_some() {
            // The kernel knows; see `is_idle_check_due`.
            return Activity::AWAKE;
        }
        let irq = &self.machine.board.chipset.irq;
        let (mut asleep, mut masked) = (true, true);
        for (id, (slot, vcpu)) in self.vcpu_slots.iter().zip(&self.machine.vcpus).enumerate() {
            if vcpu.waits_for_startup {
                continue;
            }
            let pending = irq.pending(id);
            match slot.halted {
                Some(enabled) if !(pending.nmi || pending.interrupt && enabled) => {
                    masked &= !enabled;
                }
                _ => asleep = false,
            }
        }
        Activity { asleep, masked: asleep && masked }
    }

    /// Kicks the threads that have been in the guest since the last call: each looks on its way out
    /// where the guest's exception handlers are now (`trap.rs`).
    pub(super) fn kick_long_runs(&mut self) {
        for slot in self.vcpu_slots.iter_mut().filter(|slot| slot.in_guest.is_some()) {
            if slot.seen_in_guest {
                slot.kick();
            }
            slot.seen_in_guest = true;
        }
    }

    /// Makes the main thread look at the machine.
    pub(super) fn wake_main(&mut self) {
        self.main_until = 0;
        // It cannot fail but for a full counter, which wakes as well.
        let _ = self.main.write(1);
    }

    /// Wakes the main thread if it would sleep past `next` or past what is to be printed.
    fn wake_main_before(&mut self, now: u64, next: u64) {
        let mut until = next;
        let chipset = &self.machine.board.chipset;
        if chipset.asked().is_some() {
            until = 0;
        } else if chipset.has_output() {
            until = until.min(now.saturating_add(self.machine.clock_hz() / OUTPUT_DELAY));
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
