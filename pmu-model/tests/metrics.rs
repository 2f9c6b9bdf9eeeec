//! The metrics of each personality.

use std::collections::BTreeSet;

use pmu_model::{Fidelity, Per, Personality};

/// Each is computed from events that its part has and that are more than absent, and no two have one name.
#[test]
fn metrics_are_computed_from_events_of_the_part() {
    for personality in Personality::ALL {
        let mut names = BTreeSet::new();
        for metric in personality.metrics {
            assert!(names.insert(metric.name), "{}: {} twice", personality.name, metric.name);
            assert!(!metric.numerator.is_empty() && !metric.denominator.is_empty());
            for name in metric.events() {
                let event = personality.event_by_name(name);
                let event = event.unwrap_or_else(|| panic!("{}: {name}", personality.name));
                assert_eq!(event.name, name, "{}", personality.name);
                assert_ne!(event.fidelity, Fidelity::Absent, "{}: {name}", personality.name);
            }
        }
        assert!(names.iter().any(|name| name.starts_with("CPI")), "{}", personality.name);
    }
}

/// "CPI per thread", "CPI per core" and "vectorization intensity" as its programmers compute them, with
/// two threads on a core: 3000 / 1000, half of that, 4096 / 256.
#[test]
fn knights_corner_by_hand() {
    let knc = Personality::by_name("knc").unwrap();
    let count = |event: &str| match event {
        "CPU_CLK_UNHALTED" => 3000,
        "INSTRUCTIONS_EXECUTED" => 1000,
        "VPU_ELEMENTS_ACTIVE" => 4096,
        "VPU_INSTRUCTIONS_EXECUTED" => 256,
        "DATA_READ_OR_WRITE" => 512,
        "EXEC_STAGE_CYCLES" => 1488,
        "DATA_READ_MISS_OR_WRITE_MISS" => 10,
        _ => 0,
    };
    let value = |name: &str| {
        let metric = knc.metrics.iter().find(|metric| metric.name == name).unwrap();
        metric.value(count, 2).unwrap()
    };
    assert_eq!(value("CPI per thread"), 3.0);
    assert_eq!(value("CPI per core"), 1.5);
    assert_eq!(value("vectorization intensity"), 16.0);
    assert_eq!(value("L1 compute to data access ratio"), 8.0);
    assert_eq!(value("estimated latency impact"), 100.0);
    let per_core = knc.metrics.iter().filter(|metric| metric.per == Per::Core).count();
    assert_eq!(per_core, 1);
}
