//! As many local APICs as there are identifiers.

use super::*;
use crate::irq::VcpuSignal;

/// Of the 255 identifiers that are not FFh, the I/O APIC has one.
const MOST: u8 = 254;

const ASSERT: u32 = 1 << 14;
const LOGICAL: u32 = 1 << 11;
const ALL_BUT_SELF: u32 = 3 << 18;

fn send(irq: &mut Interrupts, from: usize, to: u32, low: u32) {
    irq.lapic_write(from, ICR_HIGH, to << 24, 0);
    irq.lapic_write(from, ICR_LOW, ASSERT | low, 0);
}

/// The processors that have a vector in service after this; ends it.
fn takers(irq: &mut Interrupts) -> Vec<usize> {
    let mut all = Vec::new();
    for vcpu in 0..irq.vcpus() {
        if irq.pending(vcpu).interrupt {
            assert_eq!(irq.acknowledge(vcpu), 0x60);
            irq.lapic_write(vcpu, EOI, 0, 0);
            assert!(!irq.pending(vcpu).any());
            all.push(vcpu);
        }
    }
    all
}

#[test]
fn each_has_an_identifier_of_its_own() {
    let mut irq = enabled(MOST);
    for vcpu in 0..MOST {
        assert_eq!(irq.lapic_read(vcpu.into(), 0x20, 0), u32::from(vcpu) << 24);
        send(&mut irq, 7, vcpu.into(), 0x60);
        assert_eq!(takers(&mut irq), [usize::from(vcpu)]);
    }
    send(&mut irq, 7, 254, 0x60);
    assert!(takers(&mut irq).is_empty(), "the I/O APIC's, which takes no messages");
    send(&mut irq, 7, 0xFF, 0x60);
    assert!(takers(&mut irq).into_iter().eq(0..usize::from(MOST)));
}

/// A guest may write its identifier (SDM volume 3, "Local APIC ID"), to that of another as well.
#[test]
fn an_identifier_that_was_written_counts() {
    let mut irq = enabled(MOST);
    irq.lapic_write(200, 0x20, 3 << 24, 0);
    send(&mut irq, 0, 3, 0x60);
    assert_eq!(takers(&mut irq), [3, 200]);
    send(&mut irq, 0, 200, 0x60);
    assert!(takers(&mut irq).is_empty());
    irq.lapic_write(200, 0x20, 200 << 24, 0);
    send(&mut irq, 0, 200, 0x60);
    assert_eq!(takers(&mut irq), [200]);
    irq.lapic_mut(200).set_base(0xFEE0_0000).unwrap();
    send(&mut irq, 0, 200, 0x60);
    assert!(takers(&mut irq).is_empty(), "it is disabled");
}

#[test]
fn init_and_start_up_to_all_others() {
    let mut irq = enabled(MOST);
    for low in [5 << 8, 6 << 8 | 0x12] {
        irq.lapic_write(0, ICR_LOW, ALL_BUT_SELF | ASSERT | low, 0);
    }
    let others = || 1..usize::from(MOST);
    let expected = others()
        .map(|vcpu| (vcpu, VcpuSignal::Init))
        .chain(others().map(|vcpu| (vcpu, VcpuSignal::Sipi(0x12))));
    assert!(irq.take_signals().into_iter().eq(expected));
}

/// Flat: a bit of eight each, so that the ninth has that of the first. Clusters: four bits in fifteen of
/// them, so that 60 are addressed one by one (SDM volume 3, "Logical Destination Mode").
#[test]
fn logical_destinations_reach_as_many_as_they_can() {
    let mut irq = enabled(MOST);
    for vcpu in 0..usize::from(MOST) {
        irq.lapic_write(vcpu, LDR, 1 << (24 + vcpu % 8), 0);
    }
    send(&mut irq, 1, 1 << 5, LOGICAL | 0x60);
    assert!(takers(&mut irq).into_iter().eq((5..usize::from(MOST)).step_by(8)));

    let mut irq = enabled(MOST);
    let address = |vcpu: usize| (vcpu as u32 / 4) << 4 | 1 << (vcpu % 4);
    for vcpu in 0..60 {
        irq.lapic_write(vcpu, DFR, 0, 0);
        irq.lapic_write(vcpu, LDR, address(vcpu) << 24, 0);
    }
    for vcpu in 0..60 {
        send(&mut irq, 100, address(vcpu), LOGICAL | 0x60);
        assert_eq!(takers(&mut irq), [vcpu]);
    }
    send(&mut irq, 100, 0xF2, LOGICAL | 0x60);
    assert!(takers(&mut irq).into_iter().eq((1..60).step_by(4)), "of every cluster");
}

/// Bits 27:24 are the ID of the 82093AA. Behind more processors than that reaches, it has 31:24.
#[test]
fn the_io_apic_follows_the_processors() {
    for (count, id, after_all_ones) in [
        (1, 1, 0x0F),
        (8, 8, 0x0F),
        (15, 15, 0x0F),
        (16, 16, 0xFF),
        (244, 244, 0xFF),
        (MOST, 254, 0xFF),
    ] {
        let mut irq = machine(count);
        irq.ioapic_write(0, 0);
        assert_eq!(irq.ioapic_read(0x10), id << 24, "{count}");
        irq.ioapic_write(0x10, u32::MAX);
        assert_eq!(irq.ioapic_read(0x10), after_all_ones << 24, "{count}");
    }
}
