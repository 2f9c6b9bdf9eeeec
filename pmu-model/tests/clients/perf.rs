//! What perf's own names for events select, and whether it counts once there are models: the tables of
//! `docs/linux.md`.
//!
//! Sources: Linux 6.1, `arch/x86/events/amd/core.c` (`amd_hw_cache_event_ids`, `amd_perfmon_event_map`) and
//! `p6.c` (`p6_hw_cache_event_ids`, `p6_perfmon_event_map`), `arch/x86/events/intel/knc.c` (`knc_hw_cache_event_ids`,
//! `knc_perfmon_event_map`).

use pmu_model::Availability::{self, Absent, Live, Pending};
use pmu_model::{Personality, Tier};

/// Name, unit mask and code, and whether it counts on K8; on K7, if that has no such code, `None`.
const AMD: &[(&str, u64, Availability, Option<Availability>)] = &[
    ("cpu-cycles", 0x0076, Live, Some(Live)),
    ("instructions", 0x00C0, Live, Some(Live)),
    ("cache-references", 0x077D, Live, None),
    ("cache-misses", 0x077E, Live, None),
    ("branch-instructions", 0x00C2, Live, Some(Live)),
    ("branch-misses", 0x00C3, Live, Some(Live)),
    ("stalled-cycles-frontend", 0x00D0, Live, Some(Live)),
    ("stalled-cycles-backend", 0x00D1, Live, Some(Live)),
    ("L1-dcache-loads", 0x0040, Live, Some(Live)),
    ("L1-dcache-load-misses", 0x0141, Live, Some(Live)),
    ("L1-dcache-prefetches", 0x0267, Live, None),
    ("L1-dcache-prefetch-misses", 0x0167, Live, None),
    ("L1-icache-loads", 0x0080, Live, Some(Live)),
    ("L1-icache-load-misses", 0x0081, Live, Some(Live)),
    ("L1-icache-prefetches", 0x014B, Live, None),
    ("LLC-loads", 0x037D, Live, None),
    ("LLC-load-misses", 0x037E, Live, None),
    ("LLC-stores", 0x017F, Live, None),
    ("dTLB-loads", 0x0040, Live, Some(Live)),
    ("dTLB-load-misses", 0x0746, Live, Some(Live)),
    ("iTLB-loads", 0x0080, Live, Some(Live)),
    ("iTLB-load-misses", 0x0385, Live, Some(Live)),
    ("branch-loads", 0x00C2, Live, Some(Live)),
    ("branch-load-misses", 0x00C3, Live, Some(Live)),
    // To local memory, and to that of other nodes, of which there are none.
    ("node-loads", 0xB8E9, Live, None),
    ("node-load-misses", 0x98E9, Absent, None),
];

/// Name, unit mask and code, and whether it counts on the P6 family.
const P6: &[(&str, u64, Availability)] = &[
    ("cpu-cycles", 0x0079, Live),
    ("instructions", 0x00C0, Live),
    ("cache-references", 0x0F2E, Live),
    ("cache-misses", 0x012E, Live),
    ("branch-instructions", 0x00C4, Live),
    ("branch-misses", 0x00C5, Live),
    ("bus-cycles", 0x0062, Live),
    ("stalled-cycles-frontend", 0x00A2, Live),
    ("L1-dcache-loads", 0x0043, Live),
    ("L1-dcache-load-misses", 0x0045, Live),
    ("L1-dcache-store-misses", 0x0F29, Live),
    ("L1-icache-loads", 0x0080, Live),
    ("L1-icache-load-misses", 0x0F28, Live),
    ("LLC-store-misses", 0x0025, Live),
    ("dTLB-loads", 0x0043, Live),
    ("iTLB-loads", 0x0080, Live),
    ("iTLB-load-misses", 0x0085, Live),
    ("branch-loads", 0x00C4, Live),
    ("branch-load-misses", 0x00C5, Live),
];

/// The same on Knights Corner.
const KNC: &[(&str, u64, Availability)] = &[
    ("cpu-cycles", 0x002A, Live),
    ("instructions", 0x0016, Live),
    ("cache-references", 0x0028, Live),
    ("cache-misses", 0x0029, Live),
    ("branch-instructions", 0x0012, Live),
    ("branch-misses", 0x002B, Live),
    ("L1-dcache-loads", 0x0000, Live),
    ("L1-dcache-load-misses", 0x0003, Live),
    ("L1-dcache-stores", 0x0001, Live),
    ("L1-dcache-store-misses", 0x0004, Live),
    ("L1-dcache-prefetches", 0x0011, Live),
    ("L1-dcache-prefetch-misses", 0x001C, Live),
    ("L1-icache-loads", 0x000C, Live),
    ("L1-icache-load-misses", 0x000E, Live),
    ("LLC-load-misses", 0x10CB, Live),
    ("LLC-stores", 0x10CC, Live),
    ("LLC-prefetches", 0x10FC, Live),
    ("LLC-prefetch-misses", 0x10FE, Live),
    ("dTLB-loads", 0x0000, Live),
    ("dTLB-load-misses", 0x0002, Live),
    ("dTLB-stores", 0x0001, Live),
    ("dTLB-store-misses", 0x0002, Live),
    ("iTLB-loads", 0x000C, Live),
    ("iTLB-load-misses", 0x000D, Live),
    ("branch-loads", 0x0012, Live),
    ("branch-load-misses", 0x002B, Live),
];

/// Whether an event selected with its unit mask counts; `None` for a code that the processor lacks.
fn availability(name: &str, select: u64) -> Option<Availability> {
    let personality = Personality::by_name(name).unwrap();
    let (code, umask) = ((select & 0xFF) as u8, (select >> 8) as u8);
    let event = personality.event(code, umask, 0)?;
    Some(event.availability_of(umask, personality.live.of(Tier::Microarchitecture)))
}

#[test]
fn amd() {
    for &(name, select, k8, k7) in AMD {
        assert_eq!(availability("k8", select), Some(k8), "k8 {name} {select:04X}h");
        assert_eq!(availability("k7", select), k7, "k7 {name} {select:04X}h");
    }
}

#[test]
fn p6_family() {
    for part in ["ppro", "pii", "p6", "pm"] {
        for &(name, select, expected) in P6 {
            assert_eq!(availability(part, select), Some(expected), "{part} {name} {select:04X}h");
        }
    }
}

#[test]
fn knights_corner() {
    for &(name, select, expected) in KNC {
        assert_eq!(availability("knc", select), Some(expected), "{name} {select:04X}h");
    }
}

/// What a personality has of these names is what the drivers have, in their order.
#[test]
fn personalities_have_the_names() {
    let amd: Vec<_> = AMD.iter().map(|&(name, select, ..)| (name, select)).collect();
    let p6: Vec<_> = P6.iter().map(|&(name, select, _)| (name, select)).collect();
    let knc: Vec<_> = KNC.iter().map(|&(name, select, _)| (name, select)).collect();
    for personality in Personality::ALL {
        let expected = match personality.name {
            "k7" | "k8" => &amd[..],
            "ppro" | "pii" | "p6" | "pm" => &p6,
            "knc" => &knc,
            // Linux has no driver for it.
            _ => &[],
        };
        let names = personality.perf_names.iter();
        let names =
            names.map(|perf| (perf.name, u64::from(perf.umask) << 8 | u64::from(perf.code)));
        assert_eq!(names.collect::<Vec<_>>(), expected, "{}", personality.name);
    }
}

/// By code and mask: perf's branch-misses is event C3h of K8, and node-load-misses E9h with mask 98h.
#[test]
fn names_are_those_of_an_event() {
    let k8 = Personality::by_name("k8").unwrap();
    let names = |code, umask| -> Vec<_> {
        let event = k8.event(code, umask, 0).unwrap();
        k8.perf_names_of(event).map(|perf| perf.name).collect()
    };
    assert_eq!(names(0xC3, 0), ["branch-misses", "branch-load-misses"]);
    assert_eq!(names(0xE9, 0x98), ["node-loads", "node-load-misses"]);
    assert_eq!(names(0x26, 0), <[&str; 0]>::default());
}

/// The page has a row for each of them.
#[test]
fn the_page_has_them() {
    let page = include_str!("../../../docs/linux.md");
    let word = |availability| match availability {
        None => "no such event",
        Some(Live) => "counts",
        Some(Pending) => "pending",
        _ => "absent",
    };
    for &(name, select, k8, k7) in AMD {
        let row = format!("| `{name}` | `{select:04X}h` | {} | {} |", word(Some(k8)), word(k7));
        assert!(page.contains(&row), "{row}");
    }
    for &(name, select, availability) in P6.iter().chain(KNC) {
        let row = format!("| `{name}` | `{select:04X}h` | {} |", word(Some(availability)));
        assert!(page.contains(&row), "{row}");
    }
}
