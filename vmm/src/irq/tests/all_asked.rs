//! What is kept of all local APICs together, against asking each of them, as long as generated accesses
//! change them.

use super::*;
use crate::irq::ioapic::PINS;
use crate::irq::message::Destination;
use crate::irq::{Pending, gsi};

const ID: u32 = 0x20;
const TIMER: u32 = 0x320;
const LINT0: u32 = 0x350;
const DIVIDE: u32 = 0x3E0;
const INITIAL: u32 = 0x380;
const CURRENT: u32 = 0x390;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// An access to the controllers by any processor, or an event of any device.
fn act(irq: &mut Interrupts, random: &mut Random, renumbers: bool, now: u64) {
    let count = irq.vcpus();
    let vcpu = random.below(count as u64) as usize;
    let vector = 0x20 + random.below(0xC0) as u32;
    match random.below(16) {
        0 => irq.lapic_write(vcpu, TIMER, random.pick(&[0, 1 << 17, 1 << 16]) | vector, now),
        1 | 2 => irq.lapic_write(vcpu, INITIAL, random.below(300) as u32, now),
        3 => irq.lapic_write(vcpu, DIVIDE, random.pick(&[0, 3, 8, 0xB]), now),
        4 => irq.lapic_write(vcpu, SVR, random.pick(&[0x1FF, 0x1FF, 0x1FF, 0xFF]), now),
        5 if renumbers => {
            let id = random.below(count as u64 + 2) as u32;
            irq.lapic_write(vcpu, ID, id << 24, now);
        }
        6 => irq.lapic_write(vcpu, TPR, random.pick(&[0, 0, 0x50, 0xF0]), now),
        7 => {
            let base = 0xFEE0_0000 | random.pick(&[0, 0x800, 0x800, 0x800]);
            irq.lapic_mut(vcpu).set_base(base).unwrap();
        }
        8 => irq.set_gsi(random.pick(&[gsi::PIT, gsi::SERIAL, gsi::SCI]), random.below(2) == 0),
        9 => {
            let pin = random.below(PINS as u64) as u32;
            for (register, value) in [
                (0x11 + 2 * pin, (random.below(count as u64 + 2) as u32) << 24),
                (0x10 + 2 * pin, random.pick(&[0, 1 << 15, 1 << 11]) | vector),
            ] {
                irq.ioapic_write(0, register);
                irq.ioapic_write(0x10, value);
            }
        }
        10 => irq.lapic_write(vcpu, LINT0, random.pick(&[0x700, 0x1_0700, vector]), now),
        11 => irq.lapic_write(vcpu, LDR, (random.below(256) as u32) << 24, now),
        12 => {
            if irq.pending(vcpu).interrupt {
                irq.acknowledge(vcpu);
            } else {
                irq.lapic_write(vcpu, EOI, 0, now);
            }
            irq.take_nmi(vcpu);
        }
        13 => _ = irq.arrive(vcpu, now),
        _ => {
            let to = random.pick(&[random_id(count, vcpu), 0xFF, 3, 0xF1]);
            // Fixed, lowest priority, NMI, INIT; logical; shorthands.
            let mode = random.pick(&[0, 0, 0, 1, 4, 5]) << 8 | random.pick(&[0, 0, 1 << 11]);
            let shorthand = random.pick(&[0, 0, 0, 1, 2, 3]) << 18;
            irq.lapic_write(vcpu, ICR_HIGH, to << 24, now);
            irq.lapic_write(vcpu, ICR_LOW, 1 << 14 | shorthand | mode | vector, now);
            irq.depart(now, 50);
        }
    }
}

fn random_id(count: usize, vcpu: usize) -> u32 {
    ((vcpu * 7 + 3) % count) as u32
}

/// Twenty thousand accesses by so many processors.
fn generated(count: u8, seed: u64) {
    let mut random = Random(seed);
    let mut irq = enabled(count);
    irq.delay(true);
    let all = || 0..usize::from(count);
    let mut known: Vec<_> = all().map(|vcpu| irq.pending(vcpu)).collect();
    let mut taken = vec![false; known.len()];
    let (mut now, mut expiries, mut wakes, mut renumbered) = (0, 0, 0, 0);
    for step in 0..20_000 {
        now += random.below(40) * 10;
        // By asking: each local APIC is brought up to now.
        let mut asked = irq.clone();
        all().for_each(|vcpu| asked.lapic_mut(vcpu).advance(now));
        let next = asked_for_deadline(&irq);
        assert_eq!(irq.next_deadline(), next);
        expiries += u32::from(next.is_some_and(|next| next <= now));
        irq.advance(now);
        for vcpu in all() {
            assert_eq!(irq.pending(vcpu), asked.pending(vcpu), "processor {vcpu} at {now}");
        }
        // A timer that is masked shows itself when it is read.
        let vcpu = random.below(count.into()) as usize;
        assert_eq!(irq.lapic_read(vcpu, CURRENT, now), asked.lapic_read(vcpu, CURRENT, now));

        // For a while each goes by its own number again.
        let renumbers = step / 500 % 2 == 0;
        if step % 1000 == 500 {
            all().for_each(|vcpu| irq.lapic_write(vcpu, ID, (vcpu as u32) << 24, now));
        }
        act(&mut irq, &mut random, renumbers, now);
        irq.take_signals();
        assert_eq!(irq.next_deadline(), asked_for_deadline(&irq));
        let arrivals = |vcpu| irq.next_arrival(vcpu);
        assert_eq!(irq.first_arrival(), all().filter_map(arrivals).min());
        let due = |&vcpu: &usize| irq.next_arrival(vcpu).is_some_and(|time| time <= now + 20);
        assert!(irq.receivers(now + 20).iter().eq(all().filter(due)));
        for id in 0..=0xFF {
            let destination = Destination::Physical(id);
            let addressed = irq.lapics.addressed(destination, None);
            let matches = |&vcpu: &usize| irq.lapic(vcpu).matches(destination);
            assert!(addressed.iter().eq(all().filter(matches)), "identifier {id}");
        }
        renumbered += u32::from(all().any(|vcpu| usize::from(irq.lapic(vcpu).id()) != vcpu));

        // Whoever has something pending that he did not have is among the stirred.
        let stirred = irq.stirred();
        for vcpu in all() {
            let pending = irq.pending(vcpu);
            let more = |had: bool, has: bool| has && !had;
            let Pending { nmi, interrupt } = known[vcpu];
            if more(nmi, pending.nmi) || more(interrupt, pending.interrupt) {
                taken[vcpu] = true;
                wakes += 1;
            }
            assert!(!taken[vcpu] || stirred.contains(vcpu), "processor {vcpu}");
            known[vcpu] = pending;
        }
        if random.below(4) == 0 {
            assert_eq!(irq.take_stirred(), stirred);
            taken.fill(false);
        }
    }
    assert!(expiries > 200 && wakes > 500 && renumbered > 500, "{expiries} {wakes} {renumbered}");
    assert!(renumbered < 15_000, "{renumbered}");
}

fn asked_for_deadline(irq: &Interrupts) -> Option<u64> {
    (0..irq.vcpus()).filter_map(|vcpu| irq.lapic(vcpu).next_deadline()).min()
}

#[test]
fn of_two() {
    generated(2, 1);
}

#[test]
fn of_eight() {
    generated(8, 2);
}

#[test]
fn of_many() {
    generated(100, 3);
}
