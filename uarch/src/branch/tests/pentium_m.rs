//! The Pentium M. "Uzelac" is V. Uzelac and A. Milenkovic, "Experiment Flows and Microbenchmarks for Reverse
//! Engineering of Branch Predictor Structures".

use pmu_model::Signal;

use super::{Resolution, Run, TransferKind, branch, program::Random};
use crate::part::predictors::{P6, PM};

use Resolution::{Mispredicted, RedirectedAtDecode};

/// Intel 248966, page 2-19: conditional branches are not predicted by their direction; all are predicted
/// dynamically, even at their first appearance. The bimodal table has 4096 counters (Uzelac): a branch
/// 4096 bytes from another has the same.
#[test]
fn a_first_appearance_is_predicted_dynamically() {
    let mut run = Run::new(&PM);
    // Backward, and taken: not expected.
    assert_eq!(run.conditional(0x1000, 0x800, true), Mispredicted);
    run.conditional(0x1000, 0x800, true);
    run.conditional(0x1000, 0x800, true);
    run.fired([]);
    // Forward, and taken: expected, but only the decoder knows the target.
    assert_eq!(run.conditional(0x2000, 0x2800, true), RedirectedAtDecode);
    let signals = [
        Signal::BtbMiss,
        Signal::BranchExecutedMispredictedDecode,
        Signal::BranchExecutedMispredicted,
    ];
    assert_eq!(run.fired(signals), [1, 1, 0]);
}

/// Uzelac: loops are counted in six bits. One of 63 iterations and its end is learnt, one of 64 is not.
#[test]
fn loops_of_constant_length_are_learnt() {
    for (iterations, learnt) in
        [(2, true), (9, true), (30, true), (63, true), (64, false), (200, false)]
    {
        let mut outcomes = vec![true; iterations];
        outcomes.push(false);
        for outcomes in [outcomes.clone(), outcomes.iter().map(|taken| !taken).collect()] {
            let wrong = Run::new(&PM).mispredictions_of(0x1000, 0x800, &outcomes);
            assert_eq!(wrong == 0, learnt, "{iterations}: {wrong}");
        }
    }
}

/// Uzelac: the global predictor knows a branch by the path to it. A branch that is taken if the one
/// before was is learnt, which no table without the path could.
#[test]
fn a_branch_is_told_by_the_path_to_it() {
    let mut run = Run::new(&PM);
    let mut random = Random::new(3);
    let mut wrong = 0;
    for round in 0..4000 {
        let taken = random.below(2) != 0;
        // So many taken branches that no others are left in the path.
        for n in 0..8 {
            run.conditional(0x2000 + n * 0x10, 0x2010 + n * 0x10, true);
        }
        run.conditional(0x1000, 0x1100, taken);
        let second = run.conditional(0x1150, 0x1200, taken);
        wrong += usize::from(round >= 3000 && second == Mispredicted);
    }
    assert_eq!(wrong, 0);
}

/// An indirect jump whose target goes with the path: learnt by the Pentium M, but not by a Pentium III,
/// which has the last target only.
#[test]
fn indirect_targets_are_learnt_by_the_path() {
    for (geometry, expected) in [(&PM, 0), (&P6, 100)] {
        let mut run = Run::new(geometry);
        for round in 0..200_u64 {
            let way = round % 2;
            for n in 0..8 {
                run.conditional(0x2000 + n * 0x10, 0x2010 + n * 0x10, true);
            }
            run.conditional(0x1000, 0x1100, way == 0);
            run.transfer(branch(TransferKind::IndirectJump, 0x1150, 2, 0x3000 + way * 0x100, true));
            if round == 99 {
                run.fired([]);
            }
        }
        assert_eq!(run.fired([Signal::BranchMispredictedIndirect]), [expected]);
    }
}

/// Uzelac: 512 sets of four ways, so that branches 8 KiB apart have the same; bits above 21 are not
/// compared, so that one 4 MiB away has the same entry, with the wrong target.
#[test]
fn the_target_buffer_has_2048_entries() {
    assert_eq!(Run::new(&PM).wrong_of_jumps(4, 0x2000), 0);
    assert_eq!(Run::new(&PM).wrong_of_jumps(5, 0x2000), 5);
    assert_eq!(Run::new(&PM).wrong_of_jumps(2048, 16), 0);
    let mut run = Run::new(&PM);
    for _ in 0..4 {
        for (from, to) in [(0x1000, 0x5000), (0x40_1000, 0x6000)] {
            let jump = branch(TransferKind::Jump, from, 5, to, true);
            assert_eq!(run.transfer(jump).resolution, RedirectedAtDecode);
        }
    }
    assert_eq!(run.fired([Signal::BtbMiss, Signal::FrontendBaclear]), [1, 8]);
}

/// Intel SDM volume 3, events 88H to 94H: what is executed, by kinds, and what of it is mispredicted, at
/// execution or in the front end.
#[test]
fn executed_branches_by_kind() {
    let mut run = Run::new(&PM);
    run.call(0x1000, 0x2000);
    // The decoder has the address from the return stack.
    assert_eq!(run.ret(0x2010, 0x1005), RedirectedAtDecode);
    assert_eq!(run.ret(0x2020, 0x1005), Mispredicted);
    run.transfer(branch(TransferKind::IndirectCall, 0x1010, 2, 0x3000, true));
    run.transfer(branch(TransferKind::IndirectJump, 0x3000, 2, 0x4000, true));
    run.transfer(branch(TransferKind::Jump, 0x4000, 2, 0x4100, true));
    run.transfer(branch(TransferKind::Far, 0x4100, 2, 0x5000, true));
    assert_eq!(run.conditional(0x5000, 0x5100, true), Mispredicted);
    let fired = run.fired([
        Signal::BranchExecuted,
        Signal::BranchExecutedMispredicted,
        Signal::BranchExecutedMispredictedDecode,
        Signal::BranchExecutedConditional,
        Signal::BranchExecutedConditionalMispredicted,
        Signal::BranchExecutedIndirect,
        Signal::BranchExecutedIndirectMispredicted,
        Signal::BranchExecutedRet,
        Signal::BranchExecutedRetMispredicted,
        Signal::BranchExecutedRetMispredictedDecode,
        Signal::BranchExecutedCall,
        Signal::BranchExecutedCallMispredicted,
        Signal::BranchExecutedIndirectCall,
    ]);
    // Mispredicted: a return, both indirect branches, the conditional one. In the front end: the direct
    // call and jump, and a return.
    assert_eq!(fired, [8, 4, 3, 1, 1, 2, 2, 2, 1, 1, 2, 1, 1]);
}
