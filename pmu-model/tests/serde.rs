//! The state and the tables as serde sees them.

use pmu_model::{MsrAccess, Personality, Pmu, PmuStateV1, Signal, SignalSet, StateError};
use serde_json::{Value, json};

fn k8() -> &'static Personality {
    Personality::by_name("k8").unwrap()
}

fn busy() -> Pmu {
    let mut pmu = Pmu::new(k8(), &SignalSet::ALL);
    assert_eq!(pmu.write_msr(0xC001_0000, 0x0053_00C0), MsrAccess::Done(()));
    assert!(pmu.fire(Signal::InsnRetired, 12, 3).is_empty());
    pmu
}

#[test]
fn the_state_survives_json() {
    let text = serde_json::to_string(&busy().save()).unwrap();
    let state: PmuStateV1 = serde_json::from_str(&text).unwrap();
    assert_eq!(Pmu::restore(k8(), &SignalSet::ALL, &state), Ok(busy()));
}

/// Statistics from elsewhere that point past their end are refused and never indexed with.
#[test]
fn statistics_out_of_range_are_refused() {
    let with = |field: &str, value: Value| {
        let mut state = serde_json::to_value(busy().save()).unwrap();
        state["stats"][1][field] = value;
        let state: PmuStateV1 = serde_json::from_value(state).unwrap();
        Pmu::restore(k8(), &SignalSet::ALL, &state).map(drop)
    };
    let used = serde_json::to_value(busy().save()).unwrap()["stats"][0]["selections"][0].clone();
    let selections = |n: usize| json!(vec![used.clone(); n]);
    // A counter has its own record of 31 selections, and a sum of the others.
    assert_eq!(with("selections", selections(31)), Ok(()));
    for n in [32, 33, 1000] {
        assert_eq!(with("selections", selections(n)), Err(StateError::Stats(1)), "{n}");
    }
    for current in [1, 9, 255] {
        assert_eq!(with("current", json!(current)), Err(StateError::Stats(1)), "{current}");
    }
}

/// The names in JSON are the names in the text output.
#[test]
fn names_agree() {
    for signal in Signal::ALL {
        assert_eq!(serde_json::to_value(signal).unwrap(), json!(signal.name()));
    }
    let live: Vec<_> = k8().live.instruction_set.iter().map(Signal::name).collect();
    assert_eq!(serde_json::to_value(k8()).unwrap()["live"]["instruction_set"], json!(live));
    for event in k8().events {
        let row = serde_json::to_value(event).unwrap();
        assert_eq!(row["name"], json!(event.name));
        assert_eq!(row["fidelity"], json!(event.fidelity.name()));
        assert_eq!(row["code"], json!(event.code));
        assert_eq!(row["umasks"].as_array().map(Vec::len), Some(event.umasks.len()));
        assert_ne!(row["unit"], Value::Null);
    }
}
