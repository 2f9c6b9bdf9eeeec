//! The predictors against the slow ones, on random programs.

use std::collections::BTreeMap;

use pmu_model::Signal;

use super::{
    PredictorGeometry, Resolution, Run, Transfer,
    program::{Execution, Step},
    reference::{Athlon, KnightsCorner, PentiumM, PentiumMmx, PentiumPro},
};
use crate::part::predictors;

/// What a slow predictor says of a transfer.
pub(super) struct Expected {
    pub(super) resolution: Resolution,
    pub(super) signals: Vec<Signal>,
}

/// A slow predictor.
pub(super) trait Reference {
    /// The signals that the part's events select, of those that it fires.
    const SIGNALS: &'static [Signal];
    fn transfer(&mut self, transfer: &Transfer) -> Expected;
    fn interrupted(&mut self, from: u64, to: u64) -> Vec<Signal>;
}

/// Compares for some programs: few branches, that are learnt, and more than tables hold. Two of three transfers
/// are told as quickly as they can be; in the third program, somebody looks at once at what is fired.
fn compare<R: Reference>(geometry: &'static PredictorGeometry, new: impl Fn() -> R) {
    let mut outcomes = BTreeMap::new();
    let mut short_ways: BTreeMap<String, u64> = BTreeMap::new();
    for (seed, branches, distance) in
        [(1, 40, 0x1000), (2, 300, 0x40_0000), (3, 1500, 0x2_0000), (4, 9000, 0x40_0000)]
    {
        let mut execution = Execution::new(seed, branches, 0x0804_8000, distance);
        let mut run = Run::new(geometry);
        if seed == 3 {
            R::SIGNALS.iter().for_each(|&signal| run.occurrences.log(signal));
        }
        let mut reference = new();
        for number in 0..60_000 {
            let step = execution.step();
            let signals = match &step {
                Step::Transfer(transfer) => {
                    let expected = reference.transfer(transfer);
                    let quickly = (number % 3 != 0)
                        .then(|| run.predictor.transfer_quickly(transfer, &mut run.occurrences))
                        .flatten();
                    if quickly.is_some() {
                        let way = format!("{:?} {quickly:?}", transfer.kind);
                        *short_ways.entry(way).or_insert(0) += 1;
                    }
                    let resolution = quickly.unwrap_or_else(|| run.transfer(*transfer).resolution);
                    assert_eq!(resolution, expected.resolution, "{seed}, {number}: {step:x?}");
                    *outcomes.entry(format!("{resolution:?}")).or_insert(0) += 1;
                    expected.signals
                }
                Step::Interrupted { from, to } => {
                    run.predictor.interrupted(*from, *to, &mut run.occurrences);
                    reference.interrupted(*from, *to)
                }
            };
            let mut log: BTreeMap<_, _> =
                run.occurrences.take_log().map(|(signal, n)| (signal.index(), n)).collect();
            for &signal in R::SIGNALS {
                let expected = signals.iter().filter(|&&s| s == signal).count() as u64;
                let fired = run.occurrences.fired()[signal.index()];
                assert_eq!(fired, expected, "{seed}, {number}: {signal:?} at {step:x?}");
                run.occurrences.fired()[signal.index()] = 0;
                let logged = log.remove(&signal.index()).unwrap_or(0);
                let of_log = if seed == 3 { expected } else { 0 };
                assert_eq!(logged, of_log, "{seed}, {number}: {signal:?} at {step:x?}");
                *outcomes.entry(format!("{signal:?}")).or_insert(0) += expected;
            }
        }
    }
    // What goes as predicted, and where fetch is led astray by another branch's entry, or by none.
    let astray = if geometry.corrects_at_decode { "RedirectedAtDecode" } else { "Mispredicted" };
    let ways = [
        ("Call", "Predicted"),
        ("Call", astray),
        ("Conditional", "Mispredicted"),
        ("Conditional", "Predicted"),
        ("Jump", "Predicted"),
        ("Jump", astray),
        ("Return", "Predicted"),
    ];
    for (kind, resolution) in ways {
        let times = short_ways.get(&format!("{kind} Some({resolution})"));
        assert!(times.is_some_and(|&times| times > 500), "{kind} {resolution}: {short_ways:?}");
    }
    // A comparison of what does not happen compares nothing.
    for &signal in R::SIGNALS {
        assert!(outcomes[&format!("{signal:?}")] > 100, "{signal:?} of {outcomes:?}");
    }
}

#[test]
fn pentium_with_mmx() {
    compare(&predictors::P55C, PentiumMmx::default);
}

#[test]
fn knights_corner() {
    compare(&predictors::KNC, KnightsCorner::default);
}

#[test]
fn pentium_pro() {
    compare(&predictors::PPRO, PentiumPro::default);
}

#[test]
fn pentium_ii() {
    compare(&predictors::PII, PentiumPro::default);
}

#[test]
fn pentium_iii() {
    compare(&predictors::P6, PentiumPro::default);
}

#[test]
fn pentium_m() {
    compare(&predictors::PM, PentiumM::default);
}

#[test]
fn k7() {
    compare(&predictors::K7, Athlon::k7);
}

#[test]
fn k8() {
    compare(&predictors::K8, Athlon::k8);
}
