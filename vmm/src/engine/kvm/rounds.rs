//! All processors change hands: in rounds, when the kernel has the interrupt controllers.
//!
//! While one processor runs it may send interrupts to the others, so no local APIC can be moved before
//! all have stopped, and none can run before all have their local APICs back.

use super::{Next, Thread};
use crate::engine::kvm::irqchip::{self, Activity};
use crate::engine::kvm::world::{Conductor, Guard, Task, World};
use crate::error::Result;

impl<'s, 'm> Thread<'s, 'm> {
    /// Whether the interrupt controllers, which the kernel has or is to have, are wanted here.
    pub(super) fn needs_irqchip(&self, world: &mut World<'_>) -> bool {
        if world.irqchip.is_none() {
            return false;
        }
        let lapic = world.machine.board.chipset.irq.lapic(self.id);
        // Others may send it interrupts: nothing can be changed in it while they run.
        let masks = world.seats[self.id].pmi && lapic.masks_lvtpc();
        let here = !world.machine.board.chipset.irq.is_away();
        here || masks || self.owed.is_some() || world.is_roll_call_due()
    }

    /// Raises in the kernel's local APIC the PMI that waits.
    pub(super) fn raise_pmi(&mut self, world: &mut World<'_>) -> Result<()> {
        match &world.irqchip {
            Some(irqchip) if std::mem::take(&mut world.seats[self.id].pmi) => irqchip.pmi(self.fd),
            _ => Ok(()),
        }
    }

    /// Does what all threads do.
    pub(super) fn perform(&mut self, task: Task, world: &mut Guard<'_, 'm>) -> Result<()> {
        match task {
            Task::Stop => Ok(()),
            Task::Save => self.save(world),
            Task::Take => self.take(world),
            Task::Act => {
                self.settle_debts(world);
                Ok(())
            }
            Task::Give => self.give(world),
        }
    }

    /// Has all threads do `task`, this one first.
    fn round<'g>(&mut self, mut world: Guard<'g, 'm>, task: Task) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        let id = self.id;
        world.conductor = Some(Conductor { id, task });
        world.seats.iter_mut().for_each(|seat| seat.parked = false);
        world.announce();
        self.perform(task, &mut world)?;
        let parked = |world: &World<'_>| {
            world.seats.iter().enumerate().all(|(other, seat)| other == id || seat.parked)
        };
        while !parked(&world) && world.end.is_none() {
            world = self.shared.wait(world, id);
        }
        Ok(world)
    }

    /// Has the software engine get all processors, and the interrupt controllers.
    pub(super) fn gather<'g>(&mut self, mut world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        if world.irqchip.is_none() {
            return self.round(world, Task::Save);
        }
        // While one processor runs it can send interrupts to the others.
        for task in [Task::Stop, Task::Take] {
            world = self.round(world, task)?;
            if world.end.is_some() {
                return Ok(world);
            }
        }
        world.forward();
        let World { irqchip: Some(irqchip), machine, seats, .. } = &mut *world else {
            return Ok(world);
        };
        let irq = &mut machine.board.chipset.irq;
        if irq.is_away() {
            irqchip.take(irq)?;
        }
        for (id, seat) in seats.iter_mut().enumerate() {
            if std::mem::take(&mut seat.pmi) {
                irq.pmi(id);
            }
        }
        self.round(world, Task::Act)
    }

    /// Has the kernel get all processors and the interrupt controllers back.
    pub(super) fn hand_back<'g>(&mut self, mut world: Guard<'g, 'm>) -> Result<Guard<'g, 'm>>
    where
        's: 'g,
    {
        if world.irqchip.is_none() || world.end.is_some() {
            return Ok(world);
        }
        let now = world.machine.now;
        let irq = &mut world.machine.board.chipset.irq;
        irq.advance(now);
        // What is typed meanwhile is kept.
        let (shared, lines) = (irq.leave(), irq.lines());
        world = self.round(world, Task::Give)?;
        if world.end.is_none()
            && let Some(irqchip) = &mut world.irqchip
        {
            irqchip.give(&shared, lines)?;
            world.forward();
        }
        Ok(world)
    }

    /// Moves the processor's state and its local APIC from the kernel.
    fn take(&mut self, world: &mut Guard<'_, 'm>) -> Result<()> {
        self.finish(world)?;
        if !self.loaded {
            return Ok(());
        }
        let (activity, page) = irqchip::settled(self.fd)?;
        let base = self.fd.sync_regs().sregs.apic_base;
        let (id, now) = (self.id, world.clock.now());
        world.seats[id].halted = (activity == Activity::Halted).then_some(true);
        let machine = &mut *world.machine;
        machine.board.chipset.irq.lapic_mut(id).set_page_registers(&page, base, now);
        let waits = activity == Activity::WaitsForStartup;
        machine.vcpus[id].waits_for_startup = waits;
        if waits {
            self.owed = None;
        }
        let failure = self.owed.is_some_and(Next::is_failure);
        self.move_out(world, failure)
    }

    /// Does on the software CPU what is owed to it: an instruction that KVM cannot execute, or else
    /// what KVM was about to deliver.
    fn settle_debts(&mut self, world: &mut World<'_>) {
        match self.owed.take() {
            Some(next) => self.act(world, |trap, state, cpu, cx, translations| {
                next.execute(trap, state, cpu, cx, translations)
            }),
            None => self.deliver(world),
        }
    }

    /// Moves the processor's state and its local APIC to the kernel.
    fn give(&mut self, world: &mut Guard<'_, 'm>) -> Result<()> {
        if self.state.is_none() {
            // KVM takes no state of a processor that has never run.
            irqchip::set_activity(self.fd, Activity::Runs)?;
        }
        self.load(world)?;
        // The registers first: they have the task priority and the APIC base among them.
        irqchip::settle_registers(self.fd)?;
        let (id, machine) = (self.id, &*world.machine);
        irqchip::set_lapic(self.fd, machine.board.chipset.irq.lapic(id), machine.now)?;
        let vcpu = &machine.vcpus[id];
        let activity = if vcpu.waits_for_startup {
            Activity::WaitsForStartup
        } else if vcpu.cpu.halted {
            Activity::Halted
        } else {
            Activity::Runs
        };
        world.seats[id].dozing = false;
        irqchip::set_activity(self.fd, activity)
    }
}
