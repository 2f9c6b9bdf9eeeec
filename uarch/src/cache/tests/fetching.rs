//! Code that is fetched at once, over and over.

use super::{Fetch, Machine, MemoryType, PARTS};
use crate::state::{Loader, Saver, State};

/// Lines next to each other in few more places than their sets have ways, fetched at once where that can be, again and
/// again, in part, and one by one; dropped, saved and loaded. Another machine fetches each by itself. All that is
/// saved of the caches of both is the same, with the orders of replacement.
#[test]
fn what_is_fetched_at_once_is_fetched_one_by_one() {
    for (name, geometry) in PARTS {
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let mut fast = Machine::new(geometry, 1);
        let mut slow = Machine::new(geometry, 1);
        let line = u64::from(geometry.line);
        let (sets, ways) = (u64::from(geometry.code.sets), u64::from(geometry.code.ways));
        let (mut at_once, mut in_part) = (0, 0);
        let mut place = 0;
        let mut earlier = Vec::new();
        for step in 0..6_000 {
            if below(3) == 0 {
                place = below(ways + 1) * sets * line;
            }
            // The last bytes of a line, and the first of the next, or of that behind it.
            let (physical, bytes) = match below(8) {
                0..3 => (place + line * below(3), 8),
                3 => (place + line - 8, 16 + line as u32),
                _ => (place + line - 8, 16),
            };
            let fetch = |bytes: u32| Fetch {
                physical,
                bytes,
                sequential: false,
                memory: MemoryType::WriteBack,
            };
            let occurrences = &mut fast.processors.running_mut().occurrences;
            let hits =
                below(3) != 0 && fast.caches.fetch_hits(occurrences, physical, bytes.into(), false);
            let mut fetched = bytes;
            if !hits {
                fast.run(|caches, context| caches.fetch(context, 0, &fetch(bytes)));
            } else if bytes > 8 && below(4) == 0 {
                // It is left behind the first line.
                let windows = (u64::from(bytes) - 8).div_ceil(geometry.fetch_window.into());
                fast.caches.unfetch(&mut fast.processors.running_mut().occurrences, windows);
                fetched = 8;
                in_part += 1;
            }
            at_once += u32::from(hits);
            slow.run(|caches, context| caches.fetch(context, 0, &fetch(fetched)));
            let dropped = match below(40) {
                0 => Some(place + line * below(3)),
                _ => None,
            };
            let mut saved = [Vec::new(), Vec::new()];
            for (machine, saved) in [&mut fast, &mut slow].into_iter().zip(&mut saved) {
                if let Some(physical) = dropped {
                    machine.run(|caches, context| caches.flush(context, 0, physical));
                }
                machine.caches.processors[0].visit(&mut Saver::new(saved));
            }
            assert!(saved[0] == saved[1], "{name}: step {step}");
            let fired =
                [&mut fast, &mut slow].map(|machine| *machine.processors[0].occurrences.fired());
            assert!(fired[0] == fired[1], "{name}: step {step}");
            // Both go back to what was.
            match below(40) {
                0 => [earlier, _] = saved,
                1 if !earlier.is_empty() => {
                    for machine in [&mut fast, &mut slow] {
                        let mut loader = Loader::new(&earlier);
                        machine.caches.processors[0].visit(&mut loader);
                        loader.finish().unwrap();
                    }
                }
                _ => {}
            }
        }
        assert!(at_once > 2_000 && in_part > 200, "{name}: {at_once}, {in_part}");
    }
}
