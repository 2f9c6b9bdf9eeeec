//! Athlon and Athlon 64. "AMD 25112" is the Software Optimization Guide for AMD64 Processors, "AMD 22007" the
//! AMD Athlon Processor x86 Code Optimization Guide.

use pmu_model::Signal;

use super::{Outcome, Resolution, Run, TransferKind, branch, pattern};
use crate::part::predictors::{K7, K8};

use Resolution::{Mispredicted, NotPredicted, Predicted, RedirectedAtDecode};

/// AMD 25112, section A.6: a branch is assumed to be not taken until it is taken once; then to be taken,
/// until it is not taken. Thereafter the table is used, whose counters are weakly not taken.
#[test]
fn first_encounters() {
    let mut run = Run::new(&K8);
    let signals = [Signal::BranchMispredicted, Signal::BranchMispredictedTaken];
    for (taken, resolution, fired) in [
        (false, Predicted, [0, 0]),
        (false, Predicted, [0, 0]),
        (true, Mispredicted, [1, 1]),
        (true, Predicted, [0, 0]),
        (true, Predicted, [0, 0]),
        (false, Mispredicted, [1, 0]),
        // The history is of its own for the first time.
        (true, Mispredicted, [1, 1]),
        (false, Predicted, [0, 0]),
    ] {
        assert_eq!(run.conditional(0x1000, 0x800, taken), resolution);
        assert_eq!(run.fired(signals), fired);
    }
}

/// AMD 25112, section A.6: the table allows the processors to predict branch patterns of up to eight
/// branches. What comes after eight equal outcomes is told from what comes after seven, but not from
/// what comes after nine.
#[test]
fn patterns_of_eight_branches_are_learnt() {
    for geometry in [&K7, &K8] {
        for length in 1..=8 {
            for bits in 0..1_u32 << length {
                let outcomes: Vec<bool> = (0..length).map(|n| bits >> n & 1 != 0).collect();
                let wrong = Run::new(geometry).mispredictions_of(0x100, 0x80, &outcomes);
                assert_eq!(wrong, 0, "{outcomes:?}");
            }
        }
        assert_eq!(Run::new(geometry).mispredictions_of(0x100, 0x80, &pattern("111111110")), 0);
        let wrong = Run::new(geometry).mispredictions_of(0x100, 0x80, &pattern("1111111110"));
        assert!(wrong >= 10, "{wrong}");
    }
}

/// The history is of all conditional branches: one that goes as the branch before went is learnt.
#[test]
fn a_branch_is_told_by_the_one_before() {
    let mut run = Run::new(&K8);
    let mut random = super::program::Random::new(7);
    let mut wrong = 0;
    for round in 0..4000 {
        let taken = random.below(2) != 0;
        run.conditional(0x1000, 0x1100, taken);
        let second = run.conditional(0x1050, 0x1100, taken);
        wrong += usize::from(round >= 3000 && second == Mispredicted);
    }
    assert_eq!(wrong, 0);
}

/// AMD 25112, section A.6: 2048 targets; AMD 22007, page 132: the same. In four ways, branches 8 KiB apart
/// have the same set. The decoder puts right what misses there if it names its target; a conditional one
/// without an entry is as if it had never been taken.
#[test]
fn the_target_buffer_has_2048_entries() {
    for geometry in [&K7, &K8] {
        assert_eq!(Run::new(geometry).wrong_of_jumps(4, 0x2000), 0);
        assert_eq!(Run::new(geometry).wrong_of_jumps(5, 0x2000), 5);
        assert_eq!(Run::new(geometry).wrong_of_jumps(2048, 16), 0);
        assert_eq!(Run::new(geometry).wrong_of_jumps(2049, 16), 5);
        let mut run = Run::new(geometry);
        for n in 0..50 {
            let from = 0x1_0000 + n % 5 * 0x2000;
            let jump = branch(TransferKind::Jump, from, 2, 0x400, true);
            assert_eq!(run.transfer(jump).resolution, RedirectedAtDecode);
            assert_eq!(run.conditional(from + 16, 0x800, true), Mispredicted);
        }
        assert_eq!(run.fired([Signal::BranchMispredicted]), [50]);
    }
}

/// AMD 25112, sections 6.4 and A.6, and AMD 22007, page 132: 12 entries. The BIOS and Kernel Developer's
/// Guide, events 88H and 89H: when the stack overflows, the oldest entry is discarded; hits are those
/// returns for which it has not gone empty, also if they are mispredicted.
#[test]
fn the_return_stack_holds_twelve() {
    let signals = [Signal::RasOverflow, Signal::RasPredicted, Signal::BranchMispredictedRet];
    for geometry in [&K7, &K8] {
        let mut run = Run::new(geometry);
        for depth in [12, 13] {
            for level in 0..depth {
                run.call(0x1000 + level * 0x100, 0x1100 + level * 0x100);
            }
            for level in (0..depth).rev() {
                let expected = if depth == 13 && level == 0 { Mispredicted } else { Predicted };
                assert_eq!(run.ret(0x1180 + level * 0x100, 0x1005 + level * 0x100), expected);
            }
            assert_eq!(run.fired(signals), if depth == 12 { [0, 12, 0] } else { [1, 12, 1] });
        }
        // A call whose return address is popped by other means.
        run.call(0x1000, 0x1100);
        assert_eq!(run.ret(0x1180, 0x5000), Mispredicted);
        assert_eq!(run.fired(signals), [0, 1, 1]);
    }
}

/// AMD 22007, page 132: the return stack predicts return addresses from a near or far call. AMD 25112,
/// section 6.9: the K8 does not predict far branches.
#[test]
fn far_calls_are_on_the_athlons_return_stack() {
    for (geometry, overflows) in [(&K7, 1), (&K8, 0)] {
        let mut run = Run::new(geometry);
        for n in 0..13 {
            let call = branch(TransferKind::FarCall, n * 0x100, 7, 0x5000, true);
            assert_eq!(run.transfer(call), Outcome { resolution: NotPredicted, penalty: 0 });
        }
        assert_eq!(run.fired([Signal::RasOverflow]), [overflows]);
        for n in 0..13 {
            run.transfer(branch(TransferKind::FarReturn, 0x5000, 1, n * 0x100 + 7, true));
        }
        // The stack is empty again, so nothing is predicted.
        run.ret(0x6000, 7);
        assert_eq!(run.fired([Signal::RasPredicted]), [0]);
    }
}

/// The BIOS and Kernel Developer's Guide, event CAH: indirect branches whose target was mispredicted. There
/// is one target for each, the last. Returns have an event of their own.
#[test]
fn alternating_targets_are_mispredicted() {
    let signals = [Signal::BranchMispredictedIndirect, Signal::BranchMispredicted];
    for kind in [TransferKind::IndirectJump, TransferKind::IndirectCall] {
        let mut run = Run::new(&K8);
        for n in 0..10 {
            run.transfer(branch(kind, 0x100, 2, 0x1000 + n % 2 * 0x100, true));
        }
        assert_eq!(run.fired(signals), [10, 10]);
        for _ in 0..10 {
            run.transfer(branch(kind, 0x100, 2, 0x1000, true));
        }
        assert_eq!(run.fired(signals), [1, 1]);
        Run::new(&K8).ret(0x200, 0x3000);
        assert_eq!(run.fired(signals), [0, 0]);
    }
}

/// AMD 25112, section A.6: one cycle for a taken branch that is predicted, at least ten for one that is
/// mispredicted. AMD 22007, page 132: the same.
#[test]
fn penalties() {
    for geometry in [&K7, &K8] {
        let mut run = Run::new(geometry);
        let jump = branch(TransferKind::IndirectJump, 0x100, 2, 0x200, true);
        let outcome = run.transfer(jump);
        assert_eq!(outcome.resolution, Mispredicted);
        assert!(outcome.penalty >= 10);
        assert_eq!(run.transfer(jump), Outcome { resolution: Predicted, penalty: 1 });
    }
}
