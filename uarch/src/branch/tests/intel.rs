//! The Pentium with MMX, the P6 family and Knights Corner. "Fog" is A. Fog, "How to optimize for the
//! Pentium family of microprocessors", edition of 2000.

use pmu_model::Signal;

use super::{Outcome, Resolution, Run, TransferKind, branch, pattern};
use crate::part::predictors::{KNC, P6, P55C};

use Resolution::{Mispredicted, NotPredicted, Predicted, RedirectedAtDecode};

/// Intel SDM volume 3, events 13H to 15H and 35H: a branch that is taken and misses the BTB flushes the
/// pipeline, and is a wrong prediction; from then on it hits.
#[test]
fn p55c_branch_gets_an_entry_when_it_is_first_taken() {
    let signals =
        [Signal::BtbHit, Signal::BtbHitOrTaken, Signal::PipelineFlush, Signal::FlushMispredict];
    let mut run = Run::new(&P55C);
    assert_eq!(run.conditional(0x100, 0x80, false), Predicted);
    assert_eq!(run.conditional(0x100, 0x80, false), Predicted);
    assert_eq!(run.fired(signals), [0, 0, 0, 0]);
    assert_eq!(run.conditional(0x100, 0x80, true), Mispredicted);
    assert_eq!(run.fired(signals), [0, 1, 1, 1]);
    assert_eq!(run.conditional(0x100, 0x80, true), Predicted);
    assert_eq!(run.fired(signals), [1, 1, 0, 0]);
}

/// Fog, section 22.2.1: as soon as it has jumped once, it stays in the BTB, even if it never jumps again.
#[test]
fn p55c_entry_stays_when_its_branch_is_not_taken_any_more() {
    let mut run = Run::new(&P55C);
    run.conditional(0x100, 0x80, true);
    run.fired([Signal::BtbHit]);
    for _ in 0..50 {
        run.conditional(0x100, 0x80, false);
    }
    // The histories 1111, 1110, 1100, 1000 and 0000 are seen for the first time, and their counters are
    // weakly taken.
    assert_eq!(run.fired([Signal::BtbHit, Signal::BranchMispredictedNotTaken]), [50, 5]);
}

/// A history of four outcomes tells any two places of a pattern apart that is no longer than five, and of
/// longer ones those in which all sequences of four are different.
#[test]
fn four_outcomes_of_history_learn_all_patterns_up_to_five() {
    for geometry in [&P55C, &P6] {
        for length in 1..=5 {
            for bits in 0..1_u32 << length {
                let outcomes: Vec<bool> = (0..length).map(|n| bits >> n & 1 != 0).collect();
                let wrong = Run::new(geometry).mispredictions_of(0x100, 0x80, &outcomes);
                assert_eq!(wrong, 0, "{outcomes:?}");
            }
        }
        for learnt in ["000011", "001011", "0000111", "0000100110101111"] {
            let wrong = Run::new(geometry).mispredictions_of(0x100, 0x80, &pattern(learnt));
            assert_eq!(wrong, 0, "{learnt}");
        }
        // The same outcome four times is followed by either, so one of them is wrong each time.
        for not_learnt in ["000001", "0000001", "111110"] {
            let wrong = Run::new(geometry).mispredictions_of(0x100, 0x80, &pattern(not_learnt));
            assert!(wrong >= 10, "{not_learnt}: {wrong}");
        }
    }
}

/// Fog, section 22.2.1: 16 ways; branches 64 bytes apart have the same set on the Pentium with MMX, 512
/// bytes apart on the P6 family.
#[test]
fn sets_have_sixteen_ways() {
    for (geometry, distance, sets) in [(&P55C, 64, 16), (&P6, 512, 32)] {
        assert_eq!(Run::new(geometry).wrong_of_jumps(16, distance), 0);
        assert_eq!(Run::new(geometry).wrong_of_jumps(17, distance), 17);
        // As many as there are entries, and one more.
        assert_eq!(Run::new(geometry).wrong_of_jumps(16 * sets, distance / sets), 0);
        assert_eq!(Run::new(geometry).wrong_of_jumps(16 * sets + 1, distance / sets), 17);
    }
}

/// Fog, section 22.2.1: branches of which the last bytes are in one doubleword have one entry. Told by the short way, one
/// that finds another's there goes astray by it, unless that leads to the right place all the same.
#[test]
fn the_entry_of_another_branch_may_lead_to_the_right_place() {
    let quickly = |run: &mut Run, from, to| {
        let jump = branch(TransferKind::Jump, from, 2, to, true);
        run.predictor.transfer_quickly(&jump, &mut run.occurrences)
    };
    let mut run = Run::new(&P55C);
    run.conditional(0x1000, 0x2000, true);
    assert_eq!(quickly(&mut run, 0x1002, 0x5000), Some(Mispredicted));
    assert_eq!(quickly(&mut run, 0x1002, 0x5000), Some(Predicted));
    // A jump that leads where the other one would have led.
    run.conditional(0x1000, 0x2000, true);
    assert_eq!(quickly(&mut run, 0x1002, 0x2000), Some(Predicted));
    // One to what is behind it, where the other is not expected to be taken.
    run.conditional(0x1000, 0x2000, true);
    for _ in 0..50 {
        run.conditional(0x1000, 0x2000, false);
    }
    assert_eq!(quickly(&mut run, 0x1002, 0x1004), Some(Predicted));
    // One to where a return would go, with the entry of one that went elsewhere.
    run.call(0x3000, 0x4000);
    run.ret(0x4000, 0x3005);
    run.call(0x3100, 0x4000);
    assert_eq!(quickly(&mut run, 0x4001, 0x3105), Some(Predicted));
}

/// Fog, section 22.2.1: bits 31:2 of the last byte's address identify a branch on the Pentium with MMX. So
/// two of them in a doubleword have one entry, and each finds the other's target there. The P6 family
/// tells them apart.
#[test]
fn p55c_branches_in_one_doubleword_share_an_entry() {
    for (geometry, expected) in [(&P55C, Mispredicted), (&P6, Predicted)] {
        let mut run = Run::new(geometry);
        let first = branch(TransferKind::Jump, 0x100, 2, 0x200, true);
        let second = branch(TransferKind::Jump, 0x102, 2, 0x300, true);
        run.transfer(first);
        run.transfer(second);
        for _ in 0..3 {
            assert_eq!(run.transfer(first).resolution, expected);
            assert_eq!(run.transfer(second).resolution, expected);
        }
    }
}

/// Calls, each from the function that the one before called, and the returns from all. The resolutions
/// of the returns.
fn nest(run: &mut Run, depth: u64, base: u64) -> Vec<Resolution> {
    let function = |level: u64| 0x1_0000 + level * 0x100;
    // The first call comes from elsewhere each time.
    let caller = |level: u64| if level == 0 { base } else { function(level - 1) + 0x10 };
    for level in 0..depth {
        run.call(caller(level), function(level));
    }
    (0..depth).rev().map(|level| run.ret(function(level) + 0x20, caller(level) + 5)).collect()
}

/// The fifth of nested calls pushes the first one's return address out. With nothing left on the stack,
/// the last return goes where it went last, which is wrong from another caller, and right from the
/// same. Intel SDM volume 3, event 37H: returns predicted wrongly, and all that were predicted.
#[test]
fn p55c_return_stack_holds_four() {
    let signals = [Signal::RasOverflow, Signal::RasPredicted, Signal::BranchMispredictedRet];
    let mut run = Run::new(&P55C);
    // Returns without an entry are not predicted at all.
    assert_eq!(nest(&mut run, 4, 0x100), [Mispredicted; 4]);
    assert_eq!(run.fired(signals), [0, 0, 4]);
    assert_eq!(nest(&mut run, 4, 0x200), [Predicted; 4]);
    assert_eq!(run.fired(signals), [0, 4, 0]);
    nest(&mut run, 5, 0x300);
    run.fired(signals);
    assert_eq!(nest(&mut run, 5, 0x300), [Predicted; 5]);
    assert_eq!(run.fired(signals), [1, 4, 0]);
    assert_eq!(nest(&mut run, 5, 0x400)[..4], [Predicted; 4]);
    assert_eq!(run.fired(signals), [1, 4, 1]);
}

/// Sixteen on the P6 family: of 17 nested calls, the outermost return is mispredicted. A return without
/// an entry gets its address from the stack when it is decoded.
#[test]
fn p6_return_stack_holds_sixteen() {
    let signals = [Signal::RasOverflow, Signal::FrontendBaclear, Signal::BranchMispredicted];
    let mut run = Run::new(&P6);
    assert_eq!(nest(&mut run, 16, 0x100), [RedirectedAtDecode; 16]);
    // As many again for the calls.
    assert_eq!(run.fired(signals), [0, 32, 0]);
    nest(&mut run, 17, 0x100);
    run.fired(signals);
    let mut expected = [Predicted; 17];
    expected[16] = Mispredicted;
    assert_eq!(nest(&mut run, 17, 0x100), expected);
    assert_eq!(run.fired(signals), [1, 0, 1]);
}

/// Fog, section 22.2.2: 4 clocks on the Pentium with MMX. GCC's description of the Pentium Pro, after Intel
/// 245127: typically 15, and one for a taken branch that is predicted.
#[test]
fn penalties() {
    let jump = branch(TransferKind::IndirectJump, 0x100, 2, 0x200, true);
    let mut run = Run::new(&P55C);
    assert_eq!(run.transfer(jump), Outcome { resolution: Mispredicted, penalty: 4 });
    assert_eq!(run.transfer(jump), Outcome { resolution: Predicted, penalty: 0 });
    let mut run = Run::new(&P6);
    assert_eq!(run.transfer(jump), Outcome { resolution: Mispredicted, penalty: 15 });
    assert_eq!(run.transfer(jump), Outcome { resolution: Predicted, penalty: 1 });
    let not_taken = branch(TransferKind::Conditional, 0x110, 2, 0x200, false);
    assert_eq!(run.transfer(not_taken), Outcome { resolution: Predicted, penalty: 0 });
}

/// What has no entry is predicted when it is decoded: a backward branch taken, a forward one not.
#[test]
fn p6_first_encounters() {
    let signals = [
        Signal::BtbMiss,
        Signal::FrontendBaclear,
        Signal::BranchMispredicted,
        Signal::BranchMispredictedTaken,
    ];
    let conditional = |to, taken| branch(TransferKind::Conditional, 0x1000, 2, to, taken);
    let unconditional = |kind| branch(kind, 0x1000, 5, 0x2000, true);
    for (transfer, resolution, fired) in [
        (conditional(0x800, true), RedirectedAtDecode, [1, 1, 0, 0]),
        (conditional(0x800, false), Mispredicted, [1, 1, 1, 0]),
        (conditional(0x1800, true), Mispredicted, [1, 0, 1, 1]),
        (conditional(0x1800, false), Predicted, [1, 0, 0, 0]),
        (unconditional(TransferKind::Jump), RedirectedAtDecode, [1, 1, 0, 0]),
        (unconditional(TransferKind::Call), RedirectedAtDecode, [1, 1, 0, 0]),
        (unconditional(TransferKind::IndirectJump), Mispredicted, [1, 0, 1, 1]),
        (unconditional(TransferKind::IndirectCall), Mispredicted, [1, 0, 1, 1]),
    ] {
        let mut run = Run::new(&P6);
        assert_eq!(run.transfer(transfer).resolution, resolution, "{transfer:x?}");
        assert_eq!(run.fired(signals), fired, "{transfer:x?}");
        // Fog, section 22.2.1: any of them has an entry when it has been executed once.
        assert_eq!(run.transfer(transfer).resolution, Predicted, "{transfer:x?}");
        assert_eq!(run.fired(signals), [0, 0, 0, 0], "{transfer:x?}");
    }
}

/// The target buffer knows one target, the last.
#[test]
fn alternating_targets_are_mispredicted() {
    for geometry in [&P55C, &P6] {
        let mut run = Run::new(geometry);
        for n in 0..10 {
            let to = 0x1000 + n % 2 * 0x100;
            let jump = branch(TransferKind::IndirectJump, 0x100, 2, to, true);
            assert_eq!(run.transfer(jump).resolution, Mispredicted);
        }
        assert_eq!(run.fired([Signal::BranchMispredictedIndirect]), [10]);
    }
}

/// Far transfers are not predicted, and no near branch that was mispredicted. Intel SDM volume 3, event
/// 15H: exceptions and interrupts flush the pipeline, software interrupts do not.
#[test]
fn far_transfers_and_interrupts() {
    let signals = [Signal::BranchMispredicted, Signal::BtbHitOrTaken, Signal::PipelineFlush];
    let far = branch(TransferKind::Far, 0x100, 2, 0x5000, true);
    let mut run = Run::new(&P55C);
    assert_eq!(run.transfer(far), Outcome { resolution: NotPredicted, penalty: 0 });
    assert_eq!(run.transfer(far), Outcome { resolution: NotPredicted, penalty: 0 });
    assert_eq!(run.fired(signals), [0, 2, 0]);
    run.predictor.interrupted(0x5010, 0x6000, &mut run.occurrences);
    assert_eq!(run.fired(signals), [0, 0, 1]);
}

/// Code that runs in a line where other code had a taken branch: fetch follows the entry, and it is
/// found when there is no branch. Intel SDM volume 3 says of the Atom's event E4H, which has the same
/// name, that this occurs mainly after task switches.
#[test]
fn entries_of_other_code_are_false() {
    for (geometry, taken_costs) in [(&P55C, 4), (&P6, 15)] {
        let signals = [Signal::BtbFalseEntry, Signal::FrontendBogusBranch];
        let mut run = Run::new(geometry);
        let jump = |from, to| branch(TransferKind::Jump, from, 5, to, true);
        run.transfer(jump(0x120, 0x400));
        run.transfer(branch(TransferKind::Conditional, 0x130, 2, 0x400, true));
        run.conditional(0x400, 0x100, true);
        assert_eq!(run.fired(signals), [0, 0]);
        // From 100h on, to a jump at 150h: over two branches of the other code.
        let indirect = branch(TransferKind::IndirectJump, 0x150, 2, 0x100, true);
        let outcome = run.transfer(indirect);
        assert_eq!(outcome.penalty, 2 * geometry.penalties.decode + taken_costs);
        assert_eq!(run.fired(signals), [2, 2]);
        // They are gone.
        run.transfer(indirect);
        assert_eq!(run.fired(signals), [0, 0]);
    }
}

/// Intel 327357-001, table 1-6: a misprediction (2Bh) is one of a branch that hits the target buffer; a
/// taken branch that misses it empties the pipeline (15h) and is none.
#[test]
fn knc_counts_mispredictions_of_branches_with_an_entry() {
    let counted = [Signal::PipelineFlush, Signal::BranchMispredictedBtbHit];
    let mut run = Run::new(&KNC);
    // Not taken, and no entry: nothing is lost.
    assert_eq!(run.conditional(0xffff_ffff_8000_0100, 0xffff_ffff_8000_0200, false), Predicted);
    assert_eq!(run.fired(counted), [0, 0]);
    // Taken for the first time.
    assert_eq!(run.conditional(0xffff_ffff_8000_0100, 0xffff_ffff_8000_0200, true), Mispredicted);
    assert_eq!(run.fired(counted), [1, 0]);
    assert_eq!(run.conditional(0xffff_ffff_8000_0100, 0xffff_ffff_8000_0200, true), Predicted);
    assert_eq!(run.fired(counted), [0, 0]);
    // It has an entry, and goes on in line.
    assert_eq!(run.conditional(0xffff_ffff_8000_0100, 0xffff_ffff_8000_0200, false), Mispredicted);
    assert_eq!(run.fired(counted), [1, 1]);
    // An interrupt empties the pipeline as well.
    run.predictor.interrupted(0xffff_ffff_8000_0102, 0xffff_ffff_8000_1000, &mut run.occurrences);
    assert_eq!(run.fired(counted), [1, 0]);
}
