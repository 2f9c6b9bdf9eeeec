//! Interrupts in transit from one processor to another. Times of arrival are the receivers'.

use super::*;
use crate::irq::VcpuSignal;
use crate::irq::lapic::PmiOutcome;

const LVTPC: u32 = 0x340;
const ASSERT: u32 = 1 << 14;
const ALL: u32 = 2 << 18;

/// Three processors with a latency of the messages between them.
fn delayed() -> Interrupts {
    let mut irq = enabled(3);
    irq.delay(true);
    irq
}

fn send(irq: &mut Interrupts, from: usize, to: u32, low: u32) {
    irq.lapic_write(from, ICR_HIGH, to << 24, 0);
    irq.lapic_write(from, ICR_LOW, ASSERT | low, 0);
}

#[test]
fn a_message_departs_and_arrives() {
    let mut irq = delayed();
    send(&mut irq, 0, 1, 0x60);
    assert_eq!(irq.first_arrival(), None, "it has not departed");
    assert!(irq.depart(1000, 300));
    assert!(!irq.depart(1000, 300), "there is no other");
    assert_eq!((irq.next_arrival(0), irq.next_arrival(1)), (None, Some(1300)));
    irq.arrive(1, 1299);
    irq.arrive(0, 5000);
    assert!(!irq.pending(1).any() && !irq.pending(0).any());
    irq.arrive(1, 1300);
    assert!(irq.pending(1).interrupt);
    assert_eq!((irq.acknowledge(1), irq.first_arrival()), (0x60, None));
}

/// The sender itself receives the message at once.
#[test]
fn a_message_to_all() {
    let mut irq = delayed();
    irq.lapic_write(1, ICR_LOW, ALL | ASSERT | 0x60, 0);
    assert!(irq.pending(1).interrupt);
    irq.depart(10, 5);
    assert_eq!((irq.next_arrival(0), irq.next_arrival(2)), (Some(15), Some(15)));
}

/// Who gets a lowest-priority message is decided when it is sent.
#[test]
fn the_lowest_priority_is_that_of_the_time_of_sending() {
    const LOWEST: u32 = 1 << 8;
    let mut irq = delayed();
    for (vcpu, priority) in [(0, 0x30), (1, 0x20), (2, 0x10)] {
        irq.lapic_write(vcpu, TPR, priority, 0);
    }
    send(&mut irq, 0, 0xFF, LOWEST | 0x60);
    irq.depart(0, 100);
    irq.lapic_write(2, TPR, 0x40, 0);
    assert_eq!([0, 1, 2].map(|vcpu| irq.next_arrival(vcpu)), [None, None, Some(100)]);
}

/// INIT, then a start-up IPI, each in its time; NMI; and a PMI, which another thread of the core has
/// caused and which takes no time.
#[test]
fn whatever_is_sent() {
    const NMI: u32 = 4 << 8;
    const INIT: u32 = 5 << 8;
    const START_UP: u32 = 6 << 8;
    let mut irq = delayed();
    send(&mut irq, 0, 1, INIT);
    irq.depart(0, 100);
    send(&mut irq, 0, 1, START_UP | 8);
    irq.depart(50, 100);
    irq.arrive(1, 100);
    assert_eq!(irq.take_signals(), [(1, VcpuSignal::Init)]);
    irq.arrive(1, 150);
    assert_eq!(irq.take_signals(), [(1, VcpuSignal::Sipi(8))]);

    irq.lapic_write(2, LVTPC, 0x50, 0);
    assert_eq!(irq.pmi_from_sibling(2), None);
    send(&mut irq, 0, 2, NMI);
    irq.depart(200, 100);
    assert_eq!(irq.arrive(2, 200), [PmiOutcome::Fixed(0x50)]);
    assert!(irq.pending(2).interrupt && !irq.pending(2).nmi);
    irq.arrive(2, 300);
    assert!(irq.pending(2).nmi);
}

/// Without delay, as on KVM, messages arrive at once, also those that were in transit.
#[test]
fn without_delay() {
    let mut irq = delayed();
    send(&mut irq, 0, 1, 0x60);
    irq.depart(1000, 300);
    send(&mut irq, 0, 1, 0x61);
    irq.delay(false);
    assert_eq!((irq.acknowledge(1), irq.first_arrival()), (0x61, None));
    send(&mut irq, 1, 2, 0x60);
    assert!(irq.pending(2).interrupt);
}
