//! The thread of one processor: into the guest, out of it, and what has to be done in between.

use kvm_ioctls::VcpuFd;
use pmu_model::Pmis;
use x86_cpu::block::Translations;
use x86_cpu::bus::Place;
use x86_cpu::cpu::Cpu;
use x86_cpu::handover::Attempt;
use x86_cpu::observe::{Cx, Plain};

use super::exits::{self, Next, Performed};
use super::host_counter::HostCounters;
use super::host_events::Row;
use super::irqchip::{self, Activity};
use super::kick::{self, Kicker};
use super::run_page::{self, Exit};
use super::state::{State, Support};
use super::traced::{self, Noted};
use super::trap::{self, Trap};
use super::world::{Coordinator, Guard, Phase, Shared, World};
use crate::ahead::Ahead;
use crate::error::{Error, Result};
use crate::machine::{End, Machine};
use crate::trace::{Act, At, Reason};
use crate::turns::Slice;

#[path = "stop_the_world.rs"]
mod stop_the_world;

pub(super) use self::stop_the_world::take_over;

/// One processor, on its thread.
pub(super) struct Thread<'s, 'm> {
    id: usize,
    fd: &'s mut VcpuFd,
    shared: &'s Shared<'m>,
    /// KVM has the processor's state; else the software CPU has it.
    loaded: bool,
    /// KVM waits for what the last exit asked for, and may go on asking.
    unfinished: bool,
    /// The state as it was when it left KVM, with the parts that the software CPU does not have, while
    /// KVM has not got it back. `None` before the first move.
    state: Option<Box<State>>,
    /// Catches spurious exceptions, which KVM raises and the guest's processor would not.
    trap: Trap,
    /// Which parts of a processor's state this KVM supports.
    support: Support,
    /// What the last exit left to be executed on the software CPU. With in-kernel interrupt controllers it
    /// waits until these have been moved to this process.
    deferred: Option<Next>,
    /// The host's counters that count for it.
    counters: HostCounters,
}

/// Ends the run if the thread panics: the other threads would wait for it for ever.
struct Watch<'s, 'm>(&'s Shared<'m>, usize);

impl Drop for Watch<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut world = self.0.lock();
            if let Some(slot) = world.vcpu_slots.get_mut(self.1) {
                slot.kicker = None;
                slot.in_guest = None;
                slot.parked = true;
            }
            world.finish(Err(World::broken(self.1)));
            self.0.unlock(world);
        }
    }
}

impl<'s, 'm> Thread<'s, 'm> {
    /// The thread of processor `id`, whose state is with the software CPU.
    pub(super) fn new(
        id: usize,
        fd: &'s mut VcpuFd,
        shared: &'s Shared<'m>,
        support: Support,
        host_events: Option<&'static [Row]>,
    ) -> Self {
        let trap = Trap::new(fd);
        let counters = HostCounters::new(host_events);
        Self {
            id,
            fd,
            shared,
            loaded: false,
            unfinished: false,
            state: None,
            trap,
            support,
            deferred: None,
            counters,
        }
    }

    /// Runs until the run ends. Then the state is where it is: see [`take_over`].
    pub(super) fn run(mut self) -> Self {
        let shared = self.shared;
        let kicker = Kicker::here(self.fd);
        let _watch = Watch(shared, self.id);
        let mut world = shared.lock();
        world.vcpu_slots[self.id].kicker = Some(kicker);
        if world.irqchip.is_some()
            && let Err(error) = kick::take_signals_in_guest(self.fd)
        {
            world.finish(Err(error));
        }
        loop {
            if world.end.is_some() {
                break;
            }
            world = match self.turn(world) {
                Ok(world) => world,
                Err(error) => {
                    let mut world = shared.lock();
                    world.finish(Err(error));
                    world
                }
            };
        }
        world.vcpu_slots[self.id].kicker = None;
        world.vcpu_slots[self.id].parked = true;
        world.announce();
        shared.unlock(world);
        self
    }

    /// One way into the guest and out of it, or one wait.
    fn turn<'g>(&mut self, mut world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        let (id, shared) = (self.id, self.shared);
        // Before anything else moves the state, which is void.
        if std::mem::take(&mut world.vcpu_slots[id].initialised) {
            self.finish(&mut world)?;
            self.loaded = false;
        }
        if world.is_stopped_for(id) {
            return self.park(world);
        }
        if world.is_to_pause() || !self.loaded && world.machine.is_at_stop(id) {
            return self.pause(world);
        }
        let cpu = &world.machine.vcpus[id].cpu;
        let held = match self.loaded {
            true => self.support.sees(cpu.breakpoints(), self.fd.sync_regs().sregs.efer),
            false => self.fits(cpu),
        };
        let held = held && !world.machine.hides_memory();
        if world.machine.is_counting() {
            return self.count(world, Reason::Counting);
        }
        let held = held && !world.machine.awaits_pmi();
        if !held || self.needs_irqchip(&mut world) {
            return self.count(world, Reason::NotHeld);
        }
        let in_kernel = world.irqchip.is_some();
        if !in_kernel && world.machine.vcpus[id].waits_for_startup {
            return Ok(shared.wait(world, id));
        }
        world.update_devices();
        if world.end.is_some() || world.is_to_pause() || world.vcpu_slots[id].initialised {
            return Ok(world);
        }
        if in_kernel {
            self.raise_pmi(&mut world)?;
        } else {
            if self.would_miss_interrupt(&world) {
                return self.count(world, Reason::NotHeld);
            }
            self.load(&mut world)?;
            if !self.offer_interrupts(&mut world)? {
                return Ok(shared.wait(world, id));
            }
        }
        let machine = &*world.machine;
        let breakpoints = machine.vcpus[id].cpu.breakpoints().unwrap_or_default();
        self.trap.arm(self.fd, machine.memory.ram(), breakpoints)?;
        if self.trap.has_yielded() {
            return self.count(world, Reason::NotHeld);
        }
        if self.fd.get_kvm_run().request_interrupt_window != 0 && !self.support.interrupt_window {
            // There are two: this one is taken along to where the other is not missed.
            self.fd.set_kvm_immediate_exit(1);
        }
        let World { machine, told, .. } = &mut *world;
        self.counters.follow(&machine.vcpus[id].pmu, told)?;
        let pending = world.machine.board.chipset.irq.pending(id);
        world.vcpu_slots[id].enter(pending);
        shared.unlock(world);
        let task_priority = self.fd.get_kvm_run().cr8;
        // Whatever comes of it, the lock is needed before anything else is done.
        let entered = run_page::enter(self.fd);
        let mut world = shared.lock();
        let slot = &mut world.vcpu_slots[id];
        slot.in_guest = None;
        if let Some(kicker) = &slot.kicker {
            kicker.set_immediate_exit(false);
        }
        let World { machine, told, .. } = &mut *world;
        let (vcpu, irq) = (&mut machine.vcpus[id], &mut machine.board.chipset.irq);
        let mut noted = Noted::default();
        let mut asserted = Pmis::NONE;
        self.counters.collect(&mut vcpu.pmu, told, |pmis| asserted = asserted.with(pmis))?;
        // Those behind the first the software engine sends, which takes over for so long.
        noted.pmis.extend(vcpu.send_apart(asserted.count(), irq));
        noted.overflows.extend(Act::overflows(&mut vcpu.pmu, asserted));
        let entered = entered?;
        let nothing = matches!(entered, Exit::Nothing);
        let now = world.clock.now();
        let Performed { next, unfinished } =
            exits::perform(entered, world.machine, id, now, &mut noted);
        self.unfinished = unfinished;
        self.trace(&mut world, noted);
        if in_kernel {
            let idle_in_kernel = nothing && irqchip::activity(self.fd)? != Activity::Runs;
            world.vcpu_slots[id].idle_in_kernel = idle_in_kernel;
        } else {
            self.note_task_priority(&mut world, task_priority);
        }
        self.follow(world, next)
    }

    /// Traces what an exit has come to.
    fn trace(&mut self, world: &mut World<'_>, noted: Noted) {
        let now = world.clock.now();
        let Machine { board, vcpus, .. } = &mut *world.machine;
        let cpu = &vcpus[self.id].cpu;
        noted.trace(board, self.id, || traced::at(self.fd, cpu, now));
    }

    /// Traces that the processor takes an interrupt, or the NMI, if that is a counter's.
    fn trace_taken(&mut self, world: &mut World<'_>, vector: Option<u8>) {
        let now = world.clock.now();
        let Machine { board, vcpus, .. } = &mut *world.machine;
        let Some(tracer) = &mut board.tracer else { return };
        // KVM completes an instruction before that.
        let at = match self.unfinished {
            true => At { time: now, code: None, retired: None },
            false => traced::at(self.fd, &vcpus[self.id].cpu, now),
        };
        tracer.takes(self.id, at, vector, &board.chipset.irq);
    }

    /// Does what an exit means beyond an access to the machine.
    fn follow<'g>(&mut self, mut world: Guard<'g, 'm>, next: Next) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        if world.vcpu_slots[self.id].initialised {
            // The processor that it was about is no more.
            return Ok(world);
        }
        match next {
            Next::GoOn => {}
            Next::Halted => {
                let enabled = self.fd.get_kvm_run().if_flag != 0;
                world.vcpu_slots[self.id].halted = Some(enabled);
                // There may be nothing left that could happen.
                let activity = world.activity();
                if activity.masked || activity.asleep && world.machine.next_event().is_none() {
                    world.wake_main();
                }
            }
            Next::Shutdown | Next::Emulate | Next::Stopped(_) if world.irqchip.is_some() => {
                self.deferred = Some(next);
            }
            Next::Shutdown | Next::Emulate | Next::Stopped(_) => return self.on_soft(world, next),
        }
        Ok(world)
    }

    /// The task priority may have changed in the guest, by MOV to CR8; the local APIC knows of a
    /// change by a store to TPR.
    fn note_task_priority(&mut self, world: &mut World<'_>, before: u64) {
        let cr8 = self.fd.get_kvm_run().cr8;
        if cr8 != before {
            let now = world.clock.now();
            world.machine.board.set_cr8(self.id, now, cr8 as u8);
        }
    }

    /// Gives the processor the NMI or the interrupt that it can take; whether it has anything to do
    /// then.
    fn offer_interrupts(&mut self, world: &mut World<'_>) -> Result<bool> {
        let id = self.id;
        let refused = |e| Error::Host(format!("KVM refuses an NMI: {e}")).because(e);
        let nmi_blocked = |fd: &VcpuFd| match fd.get_vcpu_events() {
            Ok(events) => events.nmi.masked != 0,
            Err(_) => false,
        };
        let is_halted = world.vcpu_slots[id].halted.is_some();
        if world.machine.board.chipset.irq.pending(id).nmi && !(is_halted && nmi_blocked(self.fd)) {
            world.machine.board.chipset.irq.take_nmi(id);
            self.trace_taken(world, None);
            match run_page::events_to_come(self.fd) {
                Some(events) => events.nmi.pending = 1,
                None => self.fd.nmi().map_err(refused)?,
            }
            world.vcpu_slots[id].halted = None;
        }
        let run = self.fd.get_kvm_run();
        run.request_interrupt_window = 0;
        if world.machine.board.chipset.irq.pending(id).interrupt {
            if run.ready_for_interrupt_injection != 0 && run.if_flag != 0 {
                run.ready_for_interrupt_injection = 0;
                let vector = world.machine.board.chipset.irq.acknowledge(id);
                self.trace_taken(world, Some(vector));
                world.vcpu_slots[id].halted = None;
                match run_page::events_to_come(self.fd) {
                    Some(events) => (events.interrupt.injected, events.interrupt.nr) = (1, vector),
                    None => run_page::interrupt(self.fd, vector)?,
                }
            }
            let more = world.machine.board.chipset.irq.pending(id).interrupt;
            self.fd.get_kvm_run().request_interrupt_window = more.into();
        }
        self.fd.get_kvm_run().cr8 = world.machine.board.chipset.irq.lapic(id).cr8().into();
        Ok(world.vcpu_slots[id].halted.is_none())
    }

    /// Whether an interrupt waits for IF on a KVM that would not say when it is set.
    fn would_miss_interrupt(&mut self, world: &World<'_>) -> bool {
        if self.support.interrupt_window || world.vcpu_slots[self.id].halted.is_some() {
            return false;
        }
        let run = self.fd.get_kvm_run();
        let ready = match self.loaded {
            true => run.if_flag != 0 && run.ready_for_interrupt_injection != 0,
            false => takes_interrupts(&world.machine.vcpus[self.id].cpu),
        };
        !ready && world.machine.board.chipset.irq.pending(self.id).interrupt
    }

    /// Lets KVM finish what the last exit began: until then RIP and the registers are not what they
    /// will be.
    fn finish(&mut self, world: &mut Guard<'_, 'm>) -> Result<()> {
        while self.loaded && std::mem::take(&mut self.unfinished) {
            self.fd.set_kvm_immediate_exit(1);
            let entered = run_page::enter(self.fd);
            // It may go on where it stopped: the second half of an access, a further iteration.
            let mut noted = Noted::default();
            let now = world.clock.now();
            let performed =
                entered.map(|exit| exits::perform(exit, world.machine, self.id, now, &mut noted));
            self.fd.set_kvm_immediate_exit(0);
            self.trace(world, noted);
            let Performed { next, unfinished } = performed?;
            self.unfinished = unfinished;
            if next == Next::Shutdown {
                let end = End::TripleFault(self.id);
                world.finish(Ok(end));
            }
        }
        Ok(())
    }

    /// Moves the processor's state to the software CPU.
    fn save(&mut self, world: &mut Guard<'_, 'm>) -> Result<()> {
        if self.loaded {
            self.move_out(world, false)?;
            self.deliver(world);
        }
        Ok(())
    }

    /// Delivers on the software CPU what KVM was about to.
    fn deliver(&mut self, world: &mut World<'_>) {
        self.act(world, |_, state, cpu, cx, _| match state.deliver(cpu, cx) {
            Ok(()) => Attempt::Done,
            Err(_) => Attempt::Shutdown,
        });
    }

    /// Moves the processor's state to the software CPU, as it is: what KVM was about to deliver is
    /// still in the state. An exception is not if the exit was one of `failure`, which raises its own.
    fn move_out(&mut self, world: &mut Guard<'_, 'm>, failure: bool) -> Result<()> {
        self.finish(world)?;
        let mut state = Box::new(State::from_kvm(self.fd)?);
        if failure {
            state.drop_exception();
        }
        let now = world.clock.now();
        let id = self.id;
        let halted = world.vcpu_slots[id].halted.is_some();
        let machine = &mut *world.machine;
        let vcpu = &mut machine.vcpus[id];
        state.to_cpu(&mut vcpu.cpu);
        vcpu.cpu.halted = halted;
        vcpu.was_native_until(now);
        vcpu.tsc_offset = state.tsc.wrapping_sub(vcpu.cpu.time);
        if state.take_nmi() {
            machine.board.chipset.irq.lapic_mut(id).accept_nmi();
        }
        self.state = Some(state);
        self.loaded = false;
        Ok(())
    }

    /// Does something on the software CPU that is not counted.
    fn act(
        &mut self,
        world: &mut World<'_>,
        act: impl FnOnce(
            &mut Trap,
            &mut State,
            &mut Cpu,
            &mut Cx<'_, Plain>,
            &mut Translations<Plain>,
        ) -> Attempt,
    ) {
        let Self { id, trap, state: Some(state), .. } = self else { return };
        let machine = &mut *world.machine;
        let (vcpus, board) = (&mut machine.vcpus, &mut machine.board);
        let what =
            machine.soft.act(vcpus, *id, board, machine.memory.ram(), |cpu, cx, translations| {
                act(trap, state, cpu, cx, translations)
            });
        if what == Some(Attempt::Shutdown) {
            world.finish(Ok(End::TripleFault(*id)));
        } else if machine.is_at_end_of_time(machine.time()) {
            // DELAY takes as many cycles as it is told to.
            world.finish(Ok(End::EndOfTime));
        }
    }

    /// Moves the processor's state to KVM.
    fn load(&mut self, world: &mut World<'_>) -> Result<()> {
        if self.loaded {
            return Ok(());
        }
        let mut state = match self.state.take() {
            Some(state) => state,
            None => {
                // What it was to deliver in the run before has been delivered, or is here.
                let mut state = Box::new(State::from_kvm(self.fd)?);
                state.drop_events();
                state
            }
        };
        let vcpu = &mut world.machine.vcpus[self.id];
        // What KVM executes is not counted as retired.
        vcpu.cpu.pass_no_stop();
        let cpu = &vcpu.cpu;
        let tsc_is_stale = std::mem::take(&mut world.vcpu_slots[self.id].tsc_is_stale);
        state.set_tsc = tsc_is_stale.then(|| cpu.time.wrapping_add(vcpu.tsc_offset));
        state.set_from_cpu(cpu);
        if world.irqchip.is_some() {
            let mut lapic = world.machine.board.chipset.irq.lapic_mut(self.id);
            (state.sregs.cr8, state.sregs.apic_base) = (lapic.cr8().into(), lapic.base());
            state.events.nmi.pending = lapic.take_nmi().into();
            // What KVM's delivers, nobody sees.
            lapic.forget_pmis();
        }
        state.to_kvm(self.fd)?;
        self.trap.note_guest_breakpoints(trap::has_breakpoints(cpu));
        world.vcpu_slots[self.id].halted = cpu.halted.then_some(cpu.interrupts_enabled());
        // KVM says so at each exit only.
        let run = self.fd.get_kvm_run();
        run.if_flag = cpu.interrupts_enabled().into();
        run.ready_for_interrupt_injection = takes_interrupts(cpu).into();
        self.loaded = true;
        Ok(())
    }

    /// Does this thread's part of the coordinator's phase, and stays out of the guest until the
    /// coordinator lets all threads go on.
    fn park<'g>(&mut self, mut world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        let id = self.id;
        if let Some(Coordinator { phase, .. }) = world.coordinator {
            self.perform(phase, &mut world)?;
        }
        world.vcpu_slots[id].parked = true;
        world.announce();
        // `run_phase` unparks it for the next phase.
        while world.vcpu_slots[id].parked && world.end.is_none() {
            world = self.shared.wait(world, id);
        }
        Ok(world)
    }

    /// Whether KVM can have the processor: it holds the state, the breakpoints are ours, it stops at a debugger's, and
    /// not at one that is to be passed.
    fn fits(&self, cpu: &Cpu) -> bool {
        let passes = cpu.passes_stop() && !cpu.halted;
        let stops = self.support.sees(cpu.breakpoints(), cpu.efer()) && !passes;
        self.support.holds(cpu) && !trap::has_breakpoints(cpu) && stops
    }

    /// Stops all processors and has the software engine take over their state, that of interrupt
    /// controllers, and the time.
    fn take_all<'g>(&mut self, world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        let mut world = self.stop_the_world(world)?;
        let World { machine, dirty_log, clock, .. } = &mut *world;
        dirty_log.drop_stale(machine.memory.ram(), &mut machine.soft);
        machine.now = clock.now();
        machine.vcpus.iter_mut().for_each(|vcpu| vcpu.was_native_until(machine.now));
        Ok(world)
    }

    /// Ends the run for a pause or a debugger: all state is where a snapshot takes it from, and where the next run
    /// takes it from.
    fn pause<'g>(&mut self, world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        let mut world = self.take_all(world)?;
        let end = self.stop_of_debugger(&world).unwrap_or(End::Paused);
        world.finish(Ok(end));
        Ok(world)
    }

    /// The end of the run if a debugger stops a processor where it is, or the machine at an act. The software CPU
    /// has the processors.
    fn stop_of_debugger(&self, world: &World<'_>) -> Option<End> {
        let machine = &*world.machine;
        let all = std::iter::once(self.id).chain(0..machine.vcpus.len());
        let stopped = all.into_iter().find(|&id| machine.is_at_stop(id));
        let stopped = stopped.or_else(|| machine.board.stops_at_act().then_some(self.id));
        stopped.map(End::Debugger)
    }

    /// A counter is enabled, or KVM cannot have what a processor has come to, or a local APIC hides
    /// memory: the software engine has all processors until that is over.
    fn count<'g>(&mut self, mut world: Guard<'g, 'm>, reason: Reason) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        world = self.take_all(world)?;
        if let Some(end) = self.stop_of_debugger(&world) {
            world.finish(Ok(end));
            return Ok(world);
        }
        self.trace_engine(&mut world, "soft", reason);
        world.machine.board.chipset.irq.delay(true);
        world.machine.look_at_all();
        let mut unlimited = u64::MAX;
        while world.end.is_none() {
            if world.is_to_pause() || world.machine.is_pause_due() {
                let end = self.stop_of_debugger(&world).unwrap_or(End::Paused);
                world.finish(Ok(end));
                continue;
            }
            let has_input = world.has_input;
            let machine = &mut *world.machine;
            let activity = machine.activity();
            let until = match machine.ahead(machine.now, activity, has_input) {
                Ahead::Slice(until) => until,
                Ahead::Input => {
                    world = self.shared.wait(world, self.id);
                    continue;
                }
                Ahead::End(end) => {
                    world.finish(Ok(end));
                    continue;
                }
            };
            // What this KVM cannot hold, or would not say, goes on here, counted or not. So does what
            // only an NMI could end: nobody sees how long it takes.
            let irq = &machine.board.chipset.irq;
            let held = machine.vcpus.iter().enumerate().all(|(id, vcpu)| {
                let waits = || irq.pending(id).interrupt && !takes_interrupts(&vcpu.cpu);
                self.fits(&vcpu.cpu)
                    && (self.support.interrupt_window || vcpu.cpu.halted || !waits())
            });
            // KVM gives all processors the same memory, and takes interrupts where nobody sees it.
            let held = held && !machine.hides_memory() && !machine.awaits_pmi();
            match machine.slice(until, &mut unlimited, held && !activity.masked) {
                // Of the stop, the main thread makes the end.
                Slice::Whole | Slice::Stopped => {}
                Slice::Uncounted => break,
                Slice::Ended(end) => world.finish(Ok(end)),
            }
            self.shared.give_way(&mut world);
        }
        world.machine.settle();
        world.machine.arrive_all();
        world.machine.distribute_signals();
        let now = world.machine.now;
        world.machine.vcpus.iter_mut().for_each(|vcpu| vcpu.was_native_until(now));
        let World { machine, dirty_log, .. } = &mut *world;
        dirty_log.begin(machine.memory.ram());
        world = self.restore_irqchip(world)?;
        world.clock.set(now);
        let World { vcpu_slots, machine, .. } = &mut *world;
        for (slot, vcpu) in vcpu_slots.iter_mut().zip(&machine.vcpus) {
            // The state that counts is with the software CPU already.
            slot.initialised = false;
            slot.tsc_is_stale = true;
            slot.halted = vcpu.cpu.halted.then_some(vcpu.cpu.interrupts_enabled());
        }
        if world.end.is_none() {
            self.trace_engine(&mut world, "kvm", Reason::NothingCounted);
        }
        world.release();
        Ok(world)
    }

    /// Traces that another engine has all processors from now on.
    fn trace_engine(&self, world: &mut World<'_>, engine: &'static str, reason: Reason) {
        let now = world.clock.now();
        let Machine { board, vcpus, .. } = &mut *world.machine;
        let place = vcpus[self.id].cpu.place();
        board.trace(self.id, Place { time: now, ..place }, Act::Engine { engine, reason });
    }

    /// Does on the software CPU, while no other processor runs, what KVM cannot.
    fn on_soft<'g>(&mut self, mut world: Guard<'g, 'm>, next: Next) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        // The state first: an INIT that comes while others are waited for finds it.
        self.move_out(&mut world, next.is_failure())?;
        // No thread enters the guest while there is a coordinator, whichever thread that is, and the
        // lock protects the machine. Another coordinator may have finished while this thread waited.
        let mine = Coordinator { id: self.id, phase: Phase::Stop };
        while world.end.is_none() {
            if world.coordinator.is_none() {
                world.coordinator = Some(mine);
                world.announce();
            }
            if world.vcpu_slots.iter().all(|slot| slot.in_guest.is_none()) {
                break;
            }
            world = self.shared.wait(world, self.id);
        }
        if world.end.is_some() {
            // It is a part of the state that is taken over.
            self.deferred = Some(next);
        } else if !world.vcpu_slots[self.id].initialised {
            self.act(&mut world, |trap, state, cpu, cx, translations| {
                next.execute(trap, state, cpu, cx, translations)
            });
        }
        if world.coordinator == Some(mine) {
            world.release();
        }
        Ok(world)
    }
}

/// Whether a processor takes a maskable interrupt before its next instruction.
fn takes_interrupts(cpu: &Cpu) -> bool {
    cpu.interrupts_enabled() && !cpu.interrupt_shadow()
}

impl Next {
    /// Does what KVM cannot.
    fn execute(
        self,
        trap: &mut Trap,
        state: &State,
        cpu: &mut Cpu,
        cx: &mut Cx<'_, Plain>,
        translations: &mut Translations<Plain>,
    ) -> Attempt {
        match self {
            Self::GoOn | Self::Halted => Attempt::Done,
            Self::Shutdown => trap::shut_down(cpu, cx, translations),
            Self::Emulate => trap::execute(cpu, cx, translations),
            Self::Stopped(dr6) => trap.stopped(dr6, state, cpu, cx, translations),
        }
    }
}
