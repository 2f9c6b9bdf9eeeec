//! Stopping all vCPU threads, so that the software engine can run the processors, and letting them go on.
//!
//! With interrupt controllers in this process one phase is enough: each thread saves its processor's
//! state. With in-kernel controllers there are several, and each begins when all threads have parked
//! after the one before: a processor that runs may send interrupts to the others, so no local APIC can
//! be saved before all processors have stopped, and none can run before all local APICs are restored.

use super::{Next, Thread};
use crate::engine::kvm::irqchip::{self, Activity};
use crate::engine::kvm::world::{Coordinator, Guard, Phase, Shared, World};
use crate::error::Result;
use crate::snapshot;

/// Moves what KVM still has of the machine to the software engine. The run has ended, of these threads as of all, and
/// no processor executes anything. Where a pause or a debugger ended it, that is nothing.
pub(in crate::engine::kvm) fn take_over<'m>(threads: Vec<Thread<'_, 'm>>, shared: &Shared<'m>) {
    let mut world = shared.lock();
    let was_native = threads.iter().any(|thread| thread.loaded);
    let is_whole = take_rest(threads, &mut world);
    let World { dirty_log, machine, .. } = &mut *world;
    if dirty_log.is_of_all() {
        dirty_log.drop_stale(machine.memory.ram(), &mut machine.soft);
    } else if was_native {
        machine.translations_are_stale = true;
    }
    if !dirty_log.is_of_all() || !is_whole {
        // Nobody has seen all that was written.
        machine.base = snapshot::Base::default();
    }
}

/// The same but for RAM; whether the host has given all.
fn take_rest<'m>(mut threads: Vec<Thread<'_, 'm>>, world: &mut Guard<'_, 'm>) -> bool {
    let mut is_whole = true;
    let mut note = |id: usize, moved: Result<()>| {
        // The run has ended whether or not it can be had.
        if let Err(error) = moved {
            log::debug!("processor {id}: {error}");
            is_whole = false;
        }
    };
    for thread in &mut threads {
        if std::mem::take(&mut world.vcpu_slots[thread.id].initialised) {
            note(thread.id, thread.finish(world));
            thread.loaded = false;
        }
    }
    let loaded = threads.iter().any(|thread| thread.loaded);
    let in_kernel = world.irqchip.is_some() && world.machine.board.chipset.irq.is_in_kernel();
    for thread in &mut threads {
        if in_kernel {
            note(thread.id, thread.save_with_lapic(world));
        }
        // Of one that has shut down, KVM may not give the local APIC.
        note(thread.id, thread.save(world));
    }
    if in_kernel {
        note(0, take_shared(world));
    }
    for thread in threads.iter_mut().filter(|thread| in_kernel || thread.deferred.is_some()) {
        thread.execute_deferred(world);
    }
    if loaded {
        // Else virtual time is where the software engine has left it.
        let World { machine, clock, .. } = &mut **world;
        machine.now = machine.now.max(clock.now());
        machine.vcpus.iter_mut().for_each(|vcpu| vcpu.was_native_until(machine.now));
    }
    is_whole
}

/// Moves what the processors share of in-kernel interrupt controllers, their local APICs having been moved.
fn take_shared(world: &mut World<'_>) -> Result<()> {
    world.forward();
    let World { irqchip: Some(irqchip), machine, vcpu_slots, .. } = &mut *world else {
        return Ok(());
    };
    let irq = &mut machine.board.chipset.irq;
    if irq.is_in_kernel() {
        irqchip.take(irq)?;
    }
    for (id, slot) in vcpu_slots.iter_mut().enumerate() {
        if std::mem::take(&mut slot.pmi) {
            machine.board.assert_pmi(id, machine.vcpus[id].cpu.place());
        }
    }
    Ok(())
}

impl<'s, 'm> Thread<'s, 'm> {
    /// Whether this thread needs the in-kernel interrupt controllers to be moved to this process.
    pub(super) fn needs_irqchip(&self, world: &mut World<'_>) -> bool {
        if world.irqchip.is_none() {
            return false;
        }
        let lapic = world.machine.board.chipset.irq.lapic(self.id);
        // Others may send it interrupts: nothing can be changed in it while they run. And nobody would see the
        // processor take it.
        let stops = world.machine.board.stops_at_pmis();
        let masks = world.vcpu_slots[self.id].pmi && (lapic.masks_lvtpc() || stops);
        let here = !world.machine.board.chipset.irq.is_in_kernel();
        here || masks || self.deferred.is_some() || world.is_idle_check_due()
    }

    /// Raises the pending PMI in the in-kernel local APIC.
    pub(super) fn raise_pmi(&mut self, world: &mut World<'_>) -> Result<()> {
        match &world.irqchip {
            Some(irqchip) if std::mem::take(&mut world.vcpu_slots[self.id].pmi) => {
                irqchip.pmi(self.fd)
            }
            _ => Ok(()),
        }
    }

    /// Does this thread's part of a phase.
    pub(super) fn perform(&mut self, phase: Phase, world: &mut Guard<'_, 'm>) -> Result<()> {
        match phase {
            Phase::Stop => Ok(()),
            Phase::Save => self.save(world),
            Phase::SaveWithLapic => self.save_with_lapic(world),
            Phase::Execute => {
                self.execute_deferred(world);
                Ok(())
            }
            Phase::Restore => self.restore_with_lapic(world),
        }
    }

    /// Becomes the coordinator of a phase: has all threads do their parts, this one first, and waits until
    /// they have parked.
    fn run_phase<'g>(&mut self, mut world: Guard<'g, 'm>, phase: Phase) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        let id = self.id;
        world.coordinator = Some(Coordinator { id, phase });
        world.vcpu_slots.iter_mut().for_each(|slot| slot.parked = false);
        world.announce();
        self.perform(phase, &mut world)?;
        let parked = |world: &World<'_>| {
            world.vcpu_slots.iter().enumerate().all(|(other, slot)| other == id || slot.parked)
        };
        while !parked(&world) && world.end.is_none() {
            world = self.shared.wait(world, id);
        }
        Ok(world)
    }

    /// Stops all threads and moves the state of all processors, and that of in-kernel interrupt
    /// controllers, to the software engine.
    pub(super) fn stop_the_world<'g>(&mut self, mut world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        if world.irqchip.is_none() {
            return self.run_phase(world, Phase::Save);
        }
        // While one processor runs it can send interrupts to the others.
        for phase in [Phase::Stop, Phase::SaveWithLapic] {
            world = self.run_phase(world, phase)?;
            if world.end.is_some() {
                return Ok(world);
            }
        }
        take_shared(&mut world)?;
        self.run_phase(world, Phase::Execute)
    }

    /// Moves the state of in-kernel interrupt controllers back to the kernel, and with it that of the
    /// processors. Without such controllers each thread does the latter when it goes on.
    pub(super) fn restore_irqchip<'g>(&mut self, mut world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        if world.irqchip.is_none() || world.end.is_some() {
            return Ok(world);
        }
        let now = world.machine.now;
        let irq = &mut world.machine.board.chipset.irq;
        irq.advance(now);
        // Changes of lines from here on are kept for `forward`.
        let (shared, lines) = (irq.move_to_kernel(), irq.lines());
        world = self.run_phase(world, Phase::Restore)?;
        if world.end.is_none()
            && let Some(irqchip) = &mut world.irqchip
        {
            irqchip.give(&shared, lines)?;
            world.forward();
        }
        Ok(world)
    }

    /// Moves the processor's state and its local APIC from the kernel.
    fn save_with_lapic(&mut self, world: &mut Guard<'_, 'm>) -> Result<()> {
        self.finish(world)?;
        if !self.loaded {
            return Ok(());
        }
        let (activity, page) = irqchip::save_lapic(self.fd)?;
        let base = self.fd.sync_regs().sregs.apic_base;
        let (id, now) = (self.id, world.clock.now());
        world.vcpu_slots[id].halted = (activity == Activity::Halted).then_some(true);
        let machine = &mut *world.machine;
        machine.board.chipset.irq.lapic_mut(id).set_page_registers(&page, base, now);
        let waits = activity == Activity::WaitsForStartup;
        machine.vcpus[id].waits_for_startup = waits;
        if waits {
            self.deferred = None;
        }
        let failure = self.deferred.is_some_and(Next::is_failure);
        self.move_out(world, failure)
    }

    /// Executes on the software CPU what was deferred: an instruction that KVM cannot execute, or else
    /// what KVM was about to deliver.
    fn execute_deferred(&mut self, world: &mut World<'_>) {
        match self.deferred.take() {
            Some(next) => self.act(world, |trap, state, cpu, cx, translations| {
                next.execute(trap, state, cpu, cx, translations)
            }),
            None => self.deliver(world),
        }
    }

    /// Moves the processor's state and its local APIC to the kernel.
    fn restore_with_lapic(&mut self, world: &mut Guard<'_, 'm>) -> Result<()> {
        if self.state.is_none() {
            // KVM takes no state of a processor that has never run.
            irqchip::set_activity(self.fd, Activity::Runs)?;
        }
        self.load(world)?;
        // The registers first: they have the task priority and the APIC base among them.
        irqchip::complete_exit(self.fd)?;
        let (id, machine) = (self.id, &mut *world.machine);
        let mut lapic = machine.board.chipset.irq.lapic_mut(id);
        lapic.advance(machine.now);
        irqchip::set_lapic(self.fd, &lapic, machine.now)?;
        drop(lapic);
        let vcpu = &machine.vcpus[id];
        let activity = if vcpu.waits_for_startup {
            Activity::WaitsForStartup
        } else if vcpu.cpu.halted {
            Activity::Halted
        } else {
            Activity::Runs
        };
        world.vcpu_slots[id].idle_in_kernel = false;
        irqchip::set_activity(self.fd, activity)
    }
}
