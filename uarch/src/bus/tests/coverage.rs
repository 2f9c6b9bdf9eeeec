//! Each part fires what its events select of the bus, and nothing else.

use std::collections::BTreeSet;

use pmu_model::{Personality, Signal};

use super::{Board, DEVICE, REQUESTS, Random, is_whole};
use crate::bus::{BusGeometry, Request, Snoop, Transaction};
use crate::part::bus::{K7, K8, P6, P55C, PII, PM, PPRO};

static PARTS: [(&str, &BusGeometry); 7] = [
    ("p55c", &P55C),
    ("ppro", &PPRO),
    ("pii", &PII),
    ("p6", &P6),
    ("pm", &PM),
    ("k7", &K7),
    ("k8", &K8),
];

/// Selected, and never fired: there is no display that is refreshed from memory, and no processor asks
/// for an atomic read-modify-write at the northbridge.
const NEVER: [Signal; 2] = [Signal::IoDmaDisplayRead, Signal::SizedReadModifyWrite];

/// Whether the bus fires it, by the first word of its name; what begins with them and belongs to others is
/// left out.
fn is_of_the_bus(signal: Signal) -> bool {
    let name = signal.name();
    let prefixes = ["bus_", "dram_", "nb_", "cache_block_", "sized_", "probe_", "io_dma_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || signal == Signal::MissOutstandingBus
}

/// What the masks of event E9h select by several bits at once (AMD BKDG 26094, its table of routes).
const ROUTES: [Signal; 4] = [
    Signal::NbRequestCpuToMem,
    Signal::NbRequestCpuToIo,
    Signal::NbRequestIoToMem,
    Signal::NbRequestIoToIo,
];

/// All signals that the events of a personality select.
fn selected(personality: &Personality) -> BTreeSet<Signal> {
    let mut signals = BTreeSet::new();
    for event in personality.events {
        signals.extend(event.signals);
        for umask in event.umasks {
            signals.extend(umask.signals);
        }
    }
    signals
}

/// Transactions of all kinds by processors and devices on random addresses.
fn random_transaction(random: &mut Random, line: u64, time: u64) -> Transaction {
    let request = REQUESTS[random.below(10) as usize];
    let processor = Some(random.below(3) as usize).filter(|&processor| processor < 2);
    let whole = is_whole(request);
    let snoop = [Snoop::Miss, Snoop::HitClean, Snoop::HitDirty][random.below(3) as usize];
    let others = 3 & !processor.map_or(0, |processor| 1_u64 << processor);
    let size = [1, 4, 32, line][random.below(4) as usize];
    let place = random.below(96) * 0x200_0000 + random.below(16) * 0x1000;
    Transaction {
        processor,
        time,
        request,
        physical: if random.below(8) == 0 { DEVICE } else { place },
        bytes: if whole { line } else { size } as u32,
        locked: request == Request::ReadPartial && random.below(2) == 0,
        snoop,
        holders: if snoop == Snoop::Miss { 0 } else { others & others.wrapping_neg() },
        on_board: false,
    }
}

#[test]
fn a_part_fires_what_its_events_select() {
    for (name, geometry) in PARTS {
        let personality = Personality::by_name(name).unwrap();
        let mut selected: BTreeSet<Signal> =
            selected(personality).into_iter().filter(|&signal| is_of_the_bus(signal)).collect();
        if name == "k8" {
            selected.extend(ROUTES);
        }
        for signal in NEVER {
            selected.remove(&signal);
        }
        let mut board = Board::new(geometry, 2);
        let mut random = Random::new(1);
        let mut fired = BTreeSet::new();
        for n in 0..20_000 {
            board.transact(random_transaction(&mut random, geometry.line_bytes, n * 10));
            if n % 100 == 0 {
                fired.extend(board.take(0).into_iter().map(|(signal, _)| signal));
            }
        }
        fired.extend(board.take(0).into_iter().map(|(signal, _)| signal));
        assert_eq!(fired, selected, "{name}");
    }
}

/// Twice the same, and what the counts have to add up to.
#[test]
fn runs_are_equal_and_counts_add_up() {
    for (name, geometry) in PARTS {
        let run = || {
            let mut board = Board::new(geometry, 2);
            let mut random = Random::new(7);
            let mut latencies = Vec::new();
            for n in 0..20_000 {
                let wanted = random_transaction(&mut random, geometry.line_bytes, n * 50);
                let latency = board.transact(wanted);
                assert!(latency > 0 || wanted.processor.is_none(), "{name} {wanted:?}");
                latencies.push(latency);
            }
            let processors: Vec<_> =
                board.processors.iter_mut().map(|own| *own.occurrences.fired()).collect();
            (latencies, processors)
        };
        let (latencies, processors) = run();
        assert_eq!((&latencies, &processors), (&run().0, &run().1), "{name}");
        let sum = |processor: usize, signals: &[Signal]| -> u64 {
            signals.iter().map(|signal| processors[processor][signal.index()]).sum()
        };
        use Signal::*;
        for processor in 0..2 {
            // Memory and I/O are all; bursts, parts and invalidations are all of memory.
            assert_eq!(
                sum(processor, &[BusTransactionAny]),
                sum(processor, &[BusMemoryAny, BusIoAny])
            );
            let (all, kinds) = ([BusMemory], [BusBurst, BusPartial, BusInvalidate]);
            assert_eq!(sum(processor, &all), sum(processor, &kinds), "{name}");
            let (all, kinds) = ([BusMemoryAny], [BusBurstAny, BusPartialAny, BusInvalidateAny]);
            assert_eq!(sum(processor, &all), sum(processor, &kinds), "{name}");
        }
        // Any agent's are the same for all.
        assert_eq!(sum(0, &[BusTransactionAny]), sum(1, &[BusTransactionAny]));
        assert!(
            sum(0, &[BusTransaction]) + sum(1, &[BusTransaction]) <= sum(0, &[BusTransactionAny])
        );
    }
}
