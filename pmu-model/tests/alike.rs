//! Cycles that are alike, counted together: as many single ones, whatever the counters compare, and wherever they
//! overflow. And single ones, whichever way their occurrences come.

use pmu_model::{MsrAccess, Personality, Pmis, Pmu, Signal, SignalCounts, Tier};

/// Marsaglia's xorshift of 64 bits.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// A personality and its registers, by number.
struct Part {
    name: &'static str,
    selects: &'static [u32],
    counters: &'static [u32],
    /// What else has to be set.
    others: &'static [(u32, u64)],
    /// Bits of a control register that only it has.
    bits: &'static [u64],
}

/// K7 and K8: 26094, chapter 10; P6: SDM volume 3, "P6 Family Processors"; Knights Corner: its manual, section 2.1.
const PARTS: [Part; 4] = [
    Part {
        name: "k8",
        selects: &[0xC001_0000, 0xC001_0001, 0xC001_0002],
        counters: &[0xC001_0004, 0xC001_0005, 0xC001_0006],
        others: &[],
        bits: &[],
    },
    Part {
        name: "k7",
        selects: &[0xC001_0000, 0xC001_0001],
        counters: &[0xC001_0004, 0xC001_0005],
        others: &[],
        bits: &[],
    },
    Part { name: "p6", selects: &[0x186, 0x187], counters: &[0xC1, 0xC2], others: &[], bits: &[] },
    // Bit 21: what all threads of the core do (its table 1-5).
    Part {
        name: "knc",
        selects: &[0x28, 0x29],
        counters: &[0x20, 0x21],
        others: &[(0x2F, 3)],
        bits: &[21],
    },
];
/// USR, OS, EDGE, INT, EN and INV of a control register; the mask of a counter is from bit 24 on.
const BITS: [u64; 6] = [16, 17, 18, 20, 22, 23];

fn write(pmu: &mut Pmu, msr: u32, value: u64) {
    assert_eq!(pmu.write_msr(msr, value), MsrAccess::Done(()), "{msr:X}h := {value:X}h");
}

#[test]
fn cycles_that_are_alike_count_as_single_ones_do() {
    let mut random = Xorshift(0x2545_F491_4F6C_DD1D);
    let (mut overflowed, mut together, mut siblings) = (0, 0, 0);
    for round in 0..6_000 {
        let Part { name, selects, counters, others, bits } = &PARTS[round % PARTS.len()];
        let personality = Personality::by_name(name).unwrap();
        let live = personality.live.of(Tier::Microarchitecture);
        let mut pmu = Pmu::new(personality, live);
        others.iter().for_each(|&(msr, value)| write(&mut pmu, msr, value));
        for (&select, &counter) in selects.iter().zip(*counters) {
            let event = &personality.events[random.below(personality.events.len() as u64) as usize];
            let flags = BITS.iter().chain(*bits).filter(|_| random.below(4) != 0);
            let flags = flags.fold(0, |flags, bit| flags | 1 << bit);
            let mask = random.below(4) << 24;
            // Knights Corner has no event but with one unit mask.
            let umask =
                [event.default_umask.into(), random.below(256)][random.below(2) as usize] << 8;
            write(&mut pmu, select, u64::from(event.code) | umask | flags | mask);
            write(&mut pmu, counter, 0_u64.wrapping_sub(random.below(60)) & 0xFF_FFFF_FFFF);
        }
        let asked = pmu.demand().signals.union(&pmu.sibling_demand().signals);
        let asked: Vec<Signal> = asked.iter().collect();
        for _ in 0..4 {
            let mut counts = SignalCounts::new();
            for &signal in &asked {
                counts.add(signal, random.below(3));
            }
            let (cpl, cycles) = (random.below(4) as u8, random.below(150));
            let [mut single, mut alike] = [pmu.clone(), pmu.clone()];
            let (way, sibling) = (random.below(4), random.below(3) as usize);
            let mut sum = Pmis::NONE;
            for _ in 0..cycles {
                sum = sum.with(match way {
                    0 => single.compare(&counts, cpl),
                    1 => single.cycle(&counts, cpl),
                    2 => single.sibling_compare(sibling, &counts, cpl),
                    _ => single.advance(&counts, cpl).with(single.compare_beyond(&counts, cpl)),
                });
            }
            let pmis = match way {
                0 => alike.compare_cycles(&counts, cpl, cycles),
                1 => alike.cycles(&counts, cpl, cycles),
                2 => alike.sibling_compare_cycles(sibling, &counts, cpl, cycles),
                _ => alike.cycles_beyond(&counts, cpl, cycles),
            };
            assert_eq!(pmis, sum, "{name}, round {round}: {cycles} cycles with {counts:?}");
            assert!(alike == single, "{name}, round {round}: {cycles} cycles with {counts:?}");
            asked_by_signal(&pmu, &counts, cpl);
            worked_out_once(&pmu, &counts, cpl, cycles);
            overflowed += u32::from(!sum.is_empty());
            together += u32::from(single != pmu && sum.is_empty());
            siblings += u32::from(single != pmu && way == 2);
            pmu = single;
        }
    }
    let counted = [overflowed, together, siblings];
    assert!(overflowed > 200 && together > 1_000 && siblings > 100, "{counted:?}");
}

/// What was worked out of a cycle counts as many of them as pass before one that may overflow a counter.
fn worked_out_once(pmu: &Pmu, counts: &SignalCounts, cpl: u8, cycles: u64) {
    let mut pmu = pmu.clone();
    pmu.take_overflowed().for_each(drop);
    let cycle = pmu.alike(cpl, |signal| counts.get(signal));
    let before = pmu.alike_before_overflow(&cycle);
    let passed = before.min(cycles);
    let [mut single, mut alike] = [pmu.clone(), pmu.clone()];
    for _ in 0..passed {
        assert!(single.cycle(counts, cpl).is_empty(), "{before}: {counts:?}");
    }
    if passed != 0 {
        alike.pass_alike(&cycle, passed);
    }
    assert!(alike == single, "{passed} cycles with {counts:?}");
    assert_eq!(alike.take_overflowed().count(), 0, "{before}: {counts:?}");
    // Behind so many, what is left is not more than what the next may add.
    if before <= cycles {
        let overflows =
            !alike.cycle(counts, cpl).is_empty() || alike.take_overflowed().count() != 0;
        assert!(overflows, "not behind {before}: {counts:?}");
    }
}

/// One cycle is the same cycle, whether its occurrences are handed over or asked for; and whether the counters that
/// compare it are told of it with the others or apart.
fn asked_by_signal(pmu: &Pmu, counts: &SignalCounts, cpl: u8) {
    let [mut single, mut asked, mut apart] = [pmu.clone(), pmu.clone(), pmu.clone()];
    let pmis = single.cycle(counts, cpl);
    assert_eq!(asked.cycle_by(cpl, |signal| counts.get(signal)), pmis, "{counts:?}");
    assert!(asked == single, "{counts:?}");

    let mut compared = SignalCounts::new();
    let added = apart.advance_beside(cpl, |signal| counts.get(signal), &mut compared);
    assert!(compared.iter().all(|(signal, n)| n == counts.get(signal)), "{counts:?}");
    let [mut all, mut advanced] = [apart.clone(), pmu.clone()];
    assert_eq!(advanced.advance(counts, cpl), added, "{counts:?}");
    assert!(advanced == apart, "what is compared is not added: {counts:?}");
    assert_eq!(apart.compare(&compared, cpl), all.compare(counts, cpl), "{counts:?}");
    assert!(all == apart, "nothing else is compared: {counts:?}");
}
