//! How long the host takes for a look-up in the modelled TLBs: nanoseconds of processor time, by part and
//! by what is found. On Linux. `cargo run --release -p uarch --example tlb_speed`.

use std::hint::black_box;
use uarch::occurrences::Occurrences;
use uarch::part::tlbs;
use uarch::tlb::{Lookup, Page, PageSize, TlbGeometry, Tlbs};

const ACCESSES: u64 = 5_000_000;
const REPETITIONS: usize = 5;

/// Nanoseconds that this process has been executed.
fn processor_time() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has it");
    statistics.split(' ').next().and_then(|time| time.parse().ok()).expect("a number comes first")
}

/// Nanoseconds of an access to the next of so many pages: the least of several times many.
fn time(geometry: &TlbGeometry, pages: u64, size: PageSize) -> f64 {
    let mut tlbs = Tlbs::new(geometry, 1);
    let mut occurrences = Occurrences::default();
    let mut run = || {
        let begin = processor_time();
        let mut page = 0;
        for number in 0..ACCESSES {
            let linear = black_box(page * size.bytes() + number % 512 * 8);
            if tlbs.data(linear, &mut occurrences) == Lookup::Miss {
                tlbs.fill_data(linear, Page { size, global: false }, &mut occurrences);
            }
            page = if page + 1 == pages { 0 } else { page + 1 };
        }
        (processor_time() - begin) / ACCESSES as f64
    };
    // The best, as other processes slow the rest down.
    (0..REPETITIONS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("part  same-page  2-pages  16-pages  2-large  100-pages  1000-pages   (ns)");
    let parts = [
        ("p55c", &tlbs::P55C),
        ("ppro", &tlbs::PPRO),
        ("pii", &tlbs::PII),
        ("p6", &tlbs::P6),
        ("pm", &tlbs::PM),
        ("k7", &tlbs::K7),
        ("k8", &tlbs::K8),
    ];
    for (name, geometry) in parts {
        let [same, two, many, beyond, missed] =
            [1, 2, 16, 100, 1000].map(|pages| time(geometry, pages, PageSize::Kib4));
        let large = time(geometry, 2, PageSize::Mib4);
        println!(
            "{name:5} {same:9.2} {two:8.2} {many:9.2} {large:8.2} {beyond:10.1} {missed:11.1}"
        );
    }
}
