//! The in-kernel irqchip: KVM's interrupt controllers.
//!
//! With `--irqchip kernel` the local APICs, the I/O APIC and the 8259A pair are KVM's while KVM runs
//! the guest: HLT, INIT and start-up IPIs and the ends of interrupts do not leave the kernel. Devices
//! stay in this process and drive the pins. When the software engine takes the processors, it takes
//! the controllers too, register by register, and gives them back the same way.
//!
//! A local APIC can be moved while no processor executes anything that could send it an interrupt;
//! so it is done in phases (see `stop_the_world.rs`): all processors stop, each thread saves its
//! local APIC, and later each restores it.
//!
//! One of the modules with `unsafe`: KVM's structure for the controllers is a union.

#![allow(unsafe_code)]

use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE,
    KVM_MP_STATE_HALTED, KVM_MP_STATE_INIT_RECEIVED, KVM_MP_STATE_RUNNABLE,
    KVM_MP_STATE_UNINITIALIZED, KvmIrqRouting, kvm_ioapic_state,
    kvm_ioapic_state__bindgen_ty_1 as Entry, kvm_irq_routing_entry,
    kvm_irq_routing_entry__bindgen_ty_1 as Route, kvm_irq_routing_irqchip, kvm_irqchip,
    kvm_irqchip__bindgen_ty_1 as Chip, kvm_lapic_state, kvm_mp_state, kvm_msi, kvm_pic_state,
};
use kvm_ioctls::{VcpuFd, VmFd};

use super::{kick, run_page};
use crate::devices::IOAPIC_BASE;
use crate::error::{Error, Result};
use crate::irq::ioapic::{IoApicRegisters, PINS};
use crate::irq::lapic::Lapic;
use crate::irq::lapic::page::{self, LapicPage};
use crate::irq::message::DeliveryMode;
use crate::irq::pic::PicRegisters;
use crate::irq::{Interrupts, SharedRegisters, gsi};
use crate::machine::LocalApic;

/// KVM's local APICs (Linux, arch/x86/kvm/lapic.c): version 14h, six LVT entries, and a timer that
/// counts nanoseconds.
pub(super) const LOCAL_APIC: LocalApic =
    LocalApic { version: 0x14, max_lvt: 5, timer_hz: 1_000_000_000 };
/// LVT mask bit.
const LVT_MASKED: u32 = 1 << 16;
/// Where messages to local APICs are written (SDM Vol. 3A, "Message Address Register Format").
const MSI_ADDRESS: u32 = 0xFEE0_0000;
/// The bits that ELCR1 and ELCR2 have: KVM takes them with the rest.
const ELCR: [u8; 2] = [0xF8, 0xDE];
/// The chips in the order of [`Irqchip::read`].
const CHIPS: [u32; 3] = [KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE, KVM_IRQCHIP_IOAPIC];

fn refused<E: std::error::Error + Send + Sync + 'static>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| {
        Error::Host(format!("KVM refuses {what}: {error}; see --irqchip user")).because(error)
    }
}

/// Creates the controllers of a machine that has no processors yet, and the wires of its board.
///
/// # Errors
/// If the host refuses.
pub(super) fn create(vm: &VmFd) -> Result<()> {
    vm.create_irq_chip().map_err(refused("interrupt controllers"))?;
    let entries: Vec<_> = (0..PINS as u32).flat_map(routes).collect();
    let routing = KvmIrqRouting::from_entries(&entries)
        .map_err(|e| Error::Host(format!("no room for interrupt routes: {e:?}")))?;
    vm.set_gsi_routing(&routing).map_err(refused("interrupt routes"))
}

/// Where the line of a device leads: a pin of the I/O APIC and, for those of the ISA bus, an input of
/// the 8259A pair, as in [`Interrupts::set_gsi`].
fn routes(line: u32) -> impl Iterator<Item = kvm_irq_routing_entry> {
    let pic = match line {
        0 => None,
        _ if line == u32::from(gsi::PIT) => Some((KVM_IRQCHIP_PIC_MASTER, 0)),
        1..8 => Some((KVM_IRQCHIP_PIC_MASTER, line)),
        8..16 => Some((KVM_IRQCHIP_PIC_SLAVE, line - 8)),
        _ => None,
    };
    let ioapic = (line != 0).then_some((KVM_IRQCHIP_IOAPIC, line));
    pic.into_iter().chain(ioapic).map(move |(irqchip, pin)| kvm_irq_routing_entry {
        gsi: line,
        type_: KVM_IRQ_ROUTING_IRQCHIP,
        u: Route { irqchip: kvm_irq_routing_irqchip { irqchip, pin } },
        ..Default::default()
    })
}

/// The controllers that the processors share.
#[derive(Debug)]
pub(super) struct Irqchip<'m> {
    vm: &'m VmFd,
    /// The levels of the lines that KVM has been told.
    lines: u32,
}

impl<'m> Irqchip<'m> {
    /// Those of `vm`, no line of which is asserted.
    pub(super) fn new(vm: &'m VmFd) -> Self {
        Self { vm, lines: 0 }
    }

    /// Sets the line of a device.
    ///
    /// # Errors
    /// If the host refuses; so for all methods here.
    pub(super) fn set_line(&mut self, gsi: u8, asserted: bool) -> Result<()> {
        self.vm.set_irq_line(gsi.into(), asserted).map_err(refused("an interrupt line"))?;
        let bit = 1_u32.checked_shl(gsi.into()).unwrap_or(0);
        self.lines = if asserted { self.lines | bit } else { self.lines & !bit };
        Ok(())
    }

    /// Moves the controllers to this process. The local APICs have been moved, all lines have been set.
    pub(super) fn take(&self, irq: &mut Interrupts) -> Result<()> {
        irq.move_from_kernel(&self.read()?);
        Ok(())
    }

    /// Moves the controllers to the kernel, where the local APICs are already: what they were, and
    /// the levels of the lines, when they left this process.
    pub(super) fn give(&mut self, shared: &SharedRegisters, lines: u32) -> Result<()> {
        self.assume_lines(lines)?;
        self.write(shared)
    }

    /// Tells KVM the levels of lines that changed while this process had the controllers. All interrupts
    /// are masked meanwhile, so that none is delivered twice.
    fn assume_lines(&mut self, lines: u32) -> Result<()> {
        if lines == self.lines {
            return Ok(());
        }
        self.write(&MASKED)?;
        let changed = lines ^ self.lines;
        for gsi in (0..PINS as u8).filter(|gsi| changed >> gsi & 1 != 0) {
            self.set_line(gsi, lines >> gsi & 1 != 0)?;
        }
        Ok(())
    }

    fn read(&self) -> Result<SharedRegisters> {
        let chip = |chip_id| -> Result<Chip> {
            let mut chip = kvm_irqchip { chip_id, ..Default::default() };
            self.vm.get_irqchip(&mut chip).map_err(refused("an interrupt controller"))?;
            Ok(chip.chip)
        };
        let [master, slave, ioapic] = CHIPS.map(chip);
        // SAFETY: KVM has filled these members of the unions; any bits are valid integers.
        let (pic, ioapic) = unsafe { ([master?.pic, slave?.pic], ioapic?.ioapic) };
        Ok(SharedRegisters { ioapic: from_ioapic(&ioapic), pic: pic.map(from_pic) })
    }

    fn write(&self, shared: &SharedRegisters) -> Result<()> {
        let [master, slave] = shared.pic;
        let [master, slave] =
            [to_pic(master, ELCR[0]), to_pic(slave, ELCR[1])].map(|pic| Chip { pic });
        let ioapic = Chip { ioapic: to_ioapic(&shared.ioapic) };
        for (chip_id, chip) in CHIPS.into_iter().zip([master, slave, ioapic]) {
            let chip = kvm_irqchip { chip_id, pad: 0, chip };
            self.vm.set_irqchip(&chip).map_err(refused("an interrupt controller"))?;
        }
        Ok(())
    }

    /// Raises in the kernel what the LVT entry of the performance counters of `vcpu` describes.
    pub(super) fn pmi(&self, vcpu: &VcpuFd) -> Result<()> {
        let page = lapic_page(vcpu)?;
        match route(page::lvtpc(&page)) {
            Pmi::Nmi => vcpu.nmi().map_err(refused("an NMI")),
            Pmi::Fixed(vector) => {
                // Bits 31:24 of the APIC ID register are bits 19:12 of the address.
                let id = page[2] >> 24;
                let msi = kvm_msi {
                    address_lo: MSI_ADDRESS | id << 12,
                    data: vector.into(),
                    ..Default::default()
                };
                self.vm.signal_msi(msi).map_err(refused("a message"))?;
                Ok(())
            }
            Pmi::Lost => Ok(()),
        }
    }
}

/// What comes of a PMI in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pmi {
    /// LVTPC is masked, or describes what KVM cannot be told.
    Lost,
    Nmi,
    Fixed(u8),
}

/// What LVTPC describes (SDM Vol. 3A, "Local Vector Table"). Vectors below 16 are illegal.
fn route(lvtpc: u32) -> Pmi {
    let vector = lvtpc as u8;
    match DeliveryMode::from_register(lvtpc) {
        _ if lvtpc & LVT_MASKED != 0 => Pmi::Lost,
        DeliveryMode::Nmi => Pmi::Nmi,
        DeliveryMode::Fixed if vector >= 16 => Pmi::Fixed(vector),
        _ => Pmi::Lost,
    }
}

/// Everything masked.
const MASKED: SharedRegisters = SharedRegisters {
    ioapic: IoApicRegisters { select: 0, id: 0, entries: [1 << 16; PINS], levels: 0 },
    pic: [MASKED_PIC; 2],
};
const MASKED_PIC: PicRegisters = PicRegisters {
    irr: 0,
    isr: 0,
    imr: 0xFF,
    lines: 0,
    elcr: 0,
    highest: 0,
    vector_base: 0,
    step: 0,
    icw4_follows: false,
    auto_eoi: false,
    special_fully_nested: false,
    rotate_on_auto_eoi: false,
    special_mask: false,
    poll: false,
    read_isr: false,
};

/// What a processor does as far as interrupt controllers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Runs,
    Halted,
    WaitsForStartup,
}

/// What the processor does; INIT and start-up IPIs that wait for it change its state now.
///
/// # Errors
/// If the host refuses; so for all functions here.
pub(super) fn activity(vcpu: &VcpuFd) -> Result<Activity> {
    let state = vcpu.get_mp_state().map_err(refused("a processor's activity"))?;
    Ok(match state.mp_state {
        KVM_MP_STATE_HALTED => Activity::Halted,
        KVM_MP_STATE_UNINITIALIZED | KVM_MP_STATE_INIT_RECEIVED => Activity::WaitsForStartup,
        _ => Activity::Runs,
    })
}

/// Has the processor do that.
pub(super) fn set_activity(vcpu: &VcpuFd, activity: Activity) -> Result<()> {
    let mp_state = match activity {
        Activity::Runs => KVM_MP_STATE_RUNNABLE,
        Activity::Halted => KVM_MP_STATE_HALTED,
        Activity::WaitsForStartup => KVM_MP_STATE_INIT_RECEIVED,
    };
    vcpu.set_mp_state(kvm_mp_state { mp_state }).map_err(refused("a processor's activity"))
}

/// What the processor does, and the registers of its local APIC, with an interrupt of its timer that is
/// due. The last exit is completed first. No processor may send it interrupts meanwhile.
pub(super) fn save_lapic(vcpu: &mut VcpuFd) -> Result<(Activity, LapicPage)> {
    // An INIT that waits takes effect now, and must not be overtaken by the end of an exit.
    complete_exit(vcpu)?;
    let activity = activity(vcpu)?;
    let before = lapic_page(vcpu)?;
    if !page::timer_runs(&before) {
        return Ok((activity, before));
    }
    // An interrupt of the timer comes to IRR when the processor is about to enter the guest, or, with
    // VMX beneath, when it is about to wait.
    if activity == Activity::Runs {
        set_activity(vcpu, Activity::Halted)?;
    }
    kick::run_until_entry(vcpu)?;
    set_activity(vcpu, activity)?;
    let mut page = lapic_page(vcpu)?;
    page::complete_timer(&before, &mut page);
    Ok((activity, page))
}

/// Has KVM complete the last exit and take the registers that wait in the run page, without entering
/// the guest.
pub(super) fn complete_exit(vcpu: &mut VcpuFd) -> Result<()> {
    vcpu.set_kvm_immediate_exit(1);
    let entered = run_page::enter(vcpu).map(drop);
    vcpu.set_kvm_immediate_exit(0);
    entered
}

fn lapic_page(vcpu: &VcpuFd) -> Result<LapicPage> {
    let state = vcpu.get_lapic().map_err(refused("a local APIC"))?;
    Ok(to_page(&state))
}

/// Gives the processor the registers of `lapic` at `now`.
pub(super) fn set_lapic(vcpu: &VcpuFd, lapic: &Lapic, now: u64) -> Result<()> {
    let state = from_page(&lapic.page_registers(now));
    vcpu.set_lapic(&state).map_err(refused("a local APIC"))
}

fn to_page(state: &kvm_lapic_state) -> LapicPage {
    let byte = |n: usize| state.regs[n] as u8;
    std::array::from_fn(|n| {
        u32::from_le_bytes([byte(16 * n), byte(16 * n + 1), byte(16 * n + 2), byte(16 * n + 3)])
    })
}

fn from_page(page: &LapicPage) -> kvm_lapic_state {
    let mut state = kvm_lapic_state::default();
    for (bytes, register) in state.regs.chunks_exact_mut(16).zip(page) {
        for (byte, value) in bytes.iter_mut().zip(register.to_le_bytes()) {
            *byte = value as _;
        }
    }
    state
}

fn from_pic(pic: kvm_pic_state) -> PicRegisters {
    PicRegisters {
        irr: pic.irr,
        isr: pic.isr,
        imr: pic.imr,
        lines: pic.last_irr,
        elcr: pic.elcr,
        highest: pic.priority_add,
        vector_base: pic.irq_base,
        step: pic.init_state,
        icw4_follows: pic.init4 != 0,
        auto_eoi: pic.auto_eoi != 0,
        special_fully_nested: pic.special_fully_nested_mode != 0,
        rotate_on_auto_eoi: pic.rotate_on_auto_eoi != 0,
        special_mask: pic.special_mask != 0,
        poll: pic.poll != 0,
        read_isr: pic.read_reg_select != 0,
    }
}

fn to_pic(pic: PicRegisters, elcr_mask: u8) -> kvm_pic_state {
    kvm_pic_state {
        last_irr: pic.lines,
        irr: pic.irr,
        imr: pic.imr,
        isr: pic.isr,
        priority_add: pic.highest,
        irq_base: pic.vector_base,
        read_reg_select: pic.read_isr.into(),
        poll: pic.poll.into(),
        special_mask: pic.special_mask.into(),
        init_state: pic.step,
        auto_eoi: pic.auto_eoi.into(),
        rotate_on_auto_eoi: pic.rotate_on_auto_eoi.into(),
        special_fully_nested_mode: pic.special_fully_nested.into(),
        init4: pic.icw4_follows.into(),
        elcr: pic.elcr,
        elcr_mask,
    }
}

fn from_ioapic(ioapic: &kvm_ioapic_state) -> IoApicRegisters {
    // SAFETY: both members of the union are 64 bits wide, and any bits are a valid integer.
    let entries = ioapic.redirtbl.map(|entry| unsafe { entry.bits });
    IoApicRegisters {
        select: ioapic.ioregsel as u8,
        id: ioapic.id as u8,
        entries,
        levels: ioapic.irr,
    }
}

fn to_ioapic(ioapic: &IoApicRegisters) -> kvm_ioapic_state {
    kvm_ioapic_state {
        base_address: IOAPIC_BASE,
        ioregsel: ioapic.select.into(),
        id: ioapic.id.into(),
        // What KVM finds here it delivers, if it has not been delivered.
        irr: ioapic.levels,
        pad: 0,
        redirtbl: ioapic.entries.map(|bits| Entry { bits }),
    }
}

#[cfg(test)]
#[path = "irqchip_tests.rs"]
mod tests;
