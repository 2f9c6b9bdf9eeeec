//! How long the host takes for an access to the modelled caches: nanoseconds of processor time, by part and
//! by where the access ends. On Linux. `cargo run --release -p uarch --example cache_speed`.

use std::hint::black_box;
use uarch::bus::Bus;
use uarch::cache::{Access, CacheGeometry, Caches, Context, Fetch, Kind, MemoryType};
use uarch::part::caches;
use uarch::processors::PerProcessor;
use uarch::system::Processor;

const ACCESSES: u64 = 5_000_000;
const REPETITIONS: usize = 5;

/// Nanoseconds that this process has been executed.
fn processor_time() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has it");
    statistics.split(' ').next().and_then(|time| time.parse().ok()).expect("a number comes first")
}

/// Nanoseconds of an access: the least of several times many.
fn time(
    geometry: &'static CacheGeometry,
    mut access: impl FnMut(&mut Caches, &mut Context<'_>, u64),
) -> f64 {
    let mut caches = Caches::new(geometry, 1, 1);
    let mut processors = PerProcessor::new(1, |_| Processor::default());
    let mut bus = Bus::default();
    let mut context = Context { processors: &mut processors, bus: &mut bus, time: 0 };
    let mut run = || {
        let begin = processor_time();
        for number in 0..ACCESSES {
            access(&mut caches, &mut context, number);
        }
        (processor_time() - begin) / ACCESSES as f64
    };
    // The best, as other processes slow the rest down.
    (0..REPETITIONS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn at(physical: u64) -> Access {
    Access { physical, bytes: 4, kind: Kind::Plain, memory: MemoryType::WriteBack }
}

fn main() {
    println!("part  same-line  L1-hit  store-hit  fetch-hit  L2-hit  L2-miss   (ns)");
    let parts = [
        ("p55c", &caches::P55C),
        ("ppro", &caches::PPRO),
        ("pii", &caches::PII),
        ("p6", &caches::P6),
        ("pm", &caches::PM),
        ("k7", &caches::K7),
        ("k8", &caches::K8),
    ];
    for (name, geometry) in parts {
        let line = u64::from(geometry.line);
        let l1 = u64::from(geometry.data.sets * geometry.data.ways);
        let same = time(geometry, |caches, context, number| {
            black_box(caches.load(context, 0, &at(number % 8 * 4)));
        });
        // Another line each time, all of which fit.
        let load = |number: u64| at(number * 7 % 64 * line);
        let hit = time(geometry, |caches, context, number| {
            black_box(caches.load(context, 0, &load(number)));
        });
        let store = time(geometry, |caches, context, number| {
            black_box(caches.store(context, 0, &load(number)));
        });
        let fetch = time(geometry, |caches, context, number| {
            let fetch = Fetch {
                physical: number * 16 % 2048,
                bytes: 16,
                sequential: true,
                memory: MemoryType::WriteBack,
            };
            black_box(caches.fetch(context, 0, &fetch));
        });
        // Twice what the L1 holds, and not line by line.
        let beyond = time(geometry, |caches, context, number| {
            black_box(caches.load(context, 0, &at(number * 5 % (2 * l1) * line)));
        });
        let miss = time(geometry, |caches, context, number| {
            black_box(caches.load(context, 0, &at(number * 5 % (1 << 20) * line)));
        });
        println!("{name:5} {same:9.2} {hit:7.2} {store:10.2} {fetch:10.2} {beyond:7.1} {miss:8.1}");
    }
}
