//! The interrupt controllers, driven through their registers.

mod all_asked;
mod in_kernel;
mod in_transit;
mod ioapic;
mod lapic;
mod many;
mod pic;

use super::Interrupts;
use super::lapic::LapicConfig;

/// Offsets of the local APIC page, from the SDM's "Local APIC Register Address Map".
pub(super) const TPR: u32 = 0x80;
pub(super) const PPR: u32 = 0xA0;
pub(super) const EOI: u32 = 0xB0;
pub(super) const LDR: u32 = 0xD0;
pub(super) const DFR: u32 = 0xE0;
pub(super) const SVR: u32 = 0xF0;
pub(super) const ESR: u32 = 0x280;
pub(super) const ICR_LOW: u32 = 0x300;
pub(super) const ICR_HIGH: u32 = 0x310;

/// `count` processors at 2 GHz with a 200 MHz bus: one bus tick is ten cycles.
pub(super) fn machine(count: u8) -> Interrupts {
    machine_with(count, 5, false)
}

pub(super) fn machine_with(count: u8, max_lvt: u8, lvtpc_auto_mask: bool) -> Interrupts {
    let configs: Vec<_> = (0..count)
        .map(|id| LapicConfig {
            id,
            bsp: id == 0,
            version: 0x10,
            max_lvt,
            base_msr: true,
            physical_bits: 40,
            lvtpc_auto_mask,
            clock_hz: 2_000_000_000,
            timer_hz: 200_000_000,
        })
        .collect();
    Interrupts::new(&configs)
}

/// As [`machine`], with every local APIC software-enabled, spurious vector FFh.
pub(super) fn enabled(count: u8) -> Interrupts {
    let mut irq = machine(count);
    for vcpu in 0..count.into() {
        irq.lapic_write(vcpu, SVR, 0x1FF, 0);
    }
    irq
}

/// The processors that have a maskable interrupt pending, as a bit mask.
pub(super) fn interrupted(irq: &Interrupts) -> u32 {
    (0..irq.vcpus()).filter(|&vcpu| irq.pending(vcpu).interrupt).map(|vcpu| 1 << vcpu).sum()
}

pub(super) fn nmis(irq: &Interrupts) -> u32 {
    (0..irq.vcpus()).filter(|&vcpu| irq.pending(vcpu).nmi).map(|vcpu| 1 << vcpu).sum()
}
