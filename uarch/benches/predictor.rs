//! How long a predictor takes for a transfer, in nanoseconds: `cargo bench -p uarch --bench predictor`.

use std::{fs, hint::black_box};

use uarch::{
    branch::{Predictor, PredictorGeometry, Transfer, TransferKind},
    occurrences::Occurrences,
    part::predictors,
};

const PARTS: [(&str, &PredictorGeometry); 5] = [
    ("p55c", &predictors::P55C),
    ("p6", &predictors::P6),
    ("pm", &predictors::PM),
    ("k7", &predictors::K7),
    ("k8", &predictors::K8),
];
const TRANSFERS: usize = 20_000_000;

fn main() {
    println!(
        "{:<28} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "ns a transfer", "p55c", "p6", "pm", "k7", "k8"
    );
    for (name, transfers) in [
        ("one loop", one_loop()),
        ("20 conditionals", conditionals(20)),
        ("200 conditionals", conditionals(200)),
        ("4000 conditionals", conditionals(4000)),
        ("random conditionals", random()),
        ("calls and returns", calls()),
    ] {
        print!("{name:<28}");
        for (_, geometry) in PARTS {
            print!(" {:>7.2}", measure(geometry, &transfers));
        }
        println!();
    }
}

fn measure(geometry: &'static PredictorGeometry, transfers: &[Transfer]) -> f64 {
    let mut predictor = Predictor::new(geometry);
    let mut occurrences = Occurrences::default();
    let rounds = TRANSFERS / transfers.len();
    let start = executed();
    for _ in 0..rounds {
        for transfer in black_box(transfers) {
            black_box(predictor.transfer(transfer, &mut occurrences));
        }
    }
    (executed() - start) as f64 / (rounds * transfers.len()) as f64
}

/// Nanoseconds that this thread has executed: what others do on the host is not in it.
fn executed() -> u64 {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let executed = statistics.split(' ').next().expect("a first field");
    executed.parse().expect("a number")
}

fn conditional(from: u64, to: u64, taken: bool) -> Transfer {
    Transfer { from, last: from + 1, next: from + 2, to, kind: TransferKind::Conditional, taken }
}

fn one_loop() -> Vec<Transfer> {
    vec![conditional(0x8048_010e, 0x8048_0100, true); 1000]
}

/// A long loop over branches that are never taken.
fn conditionals(count: u64) -> Vec<Transfer> {
    let from = |n| 0x8048_0000 + n * 22;
    let mut all: Vec<_> =
        (0..count - 1).map(|n| conditional(from(n), from(n) + 40, false)).collect();
    all.push(conditional(from(count - 1), from(0) - 9, true));
    all
}

fn random() -> Vec<Transfer> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut transfers: Vec<Transfer> = Vec::new();
    let mut at = 0x8048_0000;
    for _ in 0..100_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let from = at + 12;
        let transfer = conditional(from, 0x8048_0000 + from * 7 % 0x4000, state & 1 != 0);
        at = transfer.destination();
        transfers.push(transfer);
        if at > 0x8048_8000 {
            let to = 0x8048_0000;
            transfers.push(Transfer { kind: TransferKind::Jump, ..conditional(at + 9, to, true) });
            at = to;
        }
    }
    transfers
}

fn calls() -> Vec<Transfer> {
    let mut transfers = Vec::new();
    for n in 0..50 {
        let from = 0x8048_0000 + n * 32;
        let (function, next) = (0x8049_0000 + n % 7 * 64, from + 5);
        let call = Transfer {
            from,
            last: from + 4,
            next,
            to: function,
            kind: TransferKind::Call,
            taken: true,
        };
        let back = function + 20;
        transfers.push(call);
        let kind = TransferKind::Return;
        transfers.push(Transfer {
            from: back,
            last: back,
            next: back + 1,
            to: next,
            kind,
            taken: true,
        });
    }
    transfers
}
