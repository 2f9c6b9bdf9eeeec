//! Whose turn it is, and what the others have of it.

use pmu_model::Signal;

use super::{
    Core, Execution, KNC, Out, Step, What, alone, cycles, from_first, instructions::*, run,
};
use crate::occurrences::Occurrences;
use crate::state;

fn repeat(step: &Step, times: usize) -> Vec<Step> {
    vec![step.clone(); times]
}

/// Cycles from the first issue of any thread to the last.
fn span(programs: &[Vec<Step>]) -> u64 {
    let courses = run(programs);
    let all = || courses.iter().flat_map(|course| &course.issued);
    all().max().unwrap() - all().min().unwrap()
}

/// Intel 328207, section 2.1.2, as restated: no thread issues in two successive cycles. So one has half the
/// cycles, two have all, and more share them.
#[test]
fn one_thread_has_every_other_cycle() {
    let program = || repeat(&super::instructions::alone(), 100);
    assert_eq!(span(&[program()]), 198);
    assert_eq!(span(&[program(), program()]), 199);
    assert_eq!(span(&[program(), program(), program()]), 299);
    assert_eq!(span(&[program(), program(), program(), program()]), 399);
}

#[test]
fn pairs_issue_together() {
    assert_eq!(cycles(&repeat(&nop(), 6)), [0, 0, 2, 2, 4, 4]);
    assert_eq!(alone(&repeat(&nop(), 6)).count(Signal::PairV), 3);
    // Two threads that pair all they have: four instructions in two cycles.
    assert_eq!(span(&[repeat(&nop(), 100), repeat(&nop(), 100)]), 99);
}

#[test]
fn four_threads_take_turns() {
    let programs = vec![repeat(&super::instructions::alone(), 3); 4];
    for (thread, course) in run(&programs).iter().enumerate() {
        assert_eq!(from_first(course), [0, 4, 8]);
        // The first behind an empty pipeline issues five cycles from the start on.
        assert_eq!(course.issued[0], 5 + thread as u64);
    }
}

/// A thread that is not ready loses its turn, and no cycle is lost with it.
#[test]
fn a_turn_that_is_not_taken_passes_on() {
    let waits = vec![super::instructions::alone().with(miss(6)), super::instructions::alone()];
    let courses = run(&[waits, repeat(&super::instructions::alone(), 8)]);
    // The second would issue in cycle 5 + 1 + 6, which is the other's turn no more than its own: it issued in
    // cycle 10 last.
    assert_eq!(courses[0].issued, [5, 12]);
    assert_eq!(courses[1].issued, [6, 8, 10, 13, 15, 17, 19, 21]);
}

/// A miss holds up its own thread alone.
#[test]
fn misses_are_a_threads_own() {
    let missing = vec![load(0, 3).with(miss(200)), add(0, 1)];
    let courses = run(&[missing, repeat(&super::instructions::alone(), 20)]);
    assert_eq!(from_first(&courses[0]), [0, 201]);
    assert_eq!(from_first(&courses[1]).last(), Some(&38));
}

/// All wait for microcode, and for whatever is in the execution stage for more than a clock.
#[test]
fn microcode_holds_up_all() {
    let other = vec![super::instructions::alone(), super::instructions::alone()];
    let courses = run(&[vec![microcode(20)], other.clone()]);
    assert_eq!((courses[0].issued[0], &courses[1].issued[..]), (5, &[25, 27][..]));
    assert_eq!(courses[0].count(Signal::MicrocodeBusy), 20);
    assert_eq!(courses[0].count(Signal::EStageBusy), 20);
    assert_eq!(courses[1].count(Signal::MicrocodeBusy), 0);
    let courses = run(&[vec![long(10)], other]);
    assert_eq!(courses[1].issued, [15, 17]);
    assert_eq!(courses[0].count(Signal::MicrocodeBusy), 0);
    assert_eq!(courses[0].count(Signal::EStageBusy), 10);
}

/// Exceptions and interrupts are delivered by microcode, which empties the thread's pipeline.
#[test]
fn deliveries_are_microcode() {
    let delivery = Step { what: What::Delivery, execution: Execution::default(), out: None };
    let program = vec![nop(), delivery, nop()];
    let courses = run(&[program, vec![super::instructions::alone(); 2]]);
    // The other thread has cycle 6; then 30 clocks, and another 5 of refilling.
    assert_eq!(courses[0].issued, [5, 7, 7 + 30 + 5]);
    assert_eq!(courses[1].issued, [6, 37]);
    assert_eq!(courses[0].count(Signal::MicrocodeBusy), 30);
    assert_eq!(courses[0].count(Signal::PairV), 0);
}

/// A thread that is halted takes no time, and none is waited for.
#[test]
fn halted_threads_are_out() {
    let out = |clocks, empties| {
        let halts = Execution { halts: true, ..Execution::default() };
        Step { out: Some(Out { clocks, empties }), ..long(1).with(halts) }
    };
    let other = || repeat(&super::instructions::alone(), 20);
    // HLT: 50 cycles until it goes on, and five more until it executes.
    let courses = run(&[vec![out(50, true), nop()], other()]);
    assert_eq!(from_first(&courses[0]), [0, 55]);
    assert_eq!(from_first(&courses[1]).last(), Some(&38));
    // DELAY: what was fetched is there.
    let courses = run(&[vec![out(50, false), nop()], other()]);
    assert_eq!(from_first(&courses[0]), [0, 50]);
    assert_eq!(courses[0].count(Signal::StallFrontend), 5);
}

/// An instruction that empties its pipeline empties no other.
#[test]
fn restarts_are_a_threads_own() {
    let mut wrong = branch();
    wrong.execution.mispredicted = true;
    let courses = run(&[vec![wrong, nop()], repeat(&super::instructions::alone(), 8)]);
    // The branch is found out a clock later, and five are lost.
    assert_eq!(from_first(&courses[0]), [0, 6]);
    assert_eq!(from_first(&courses[1]), [0, 2, 4, 6, 8, 10, 12, 14]);
    assert_eq!(cycles(&[serialising(), nop()]), [0, 14 + 5]);
}

/// A thread leaves behind an instruction that pairs, and another occupies the execution stage for long. Nothing joins the
/// former any more, and what the core is saved as can be loaded.
#[test]
fn nothing_joins_behind_another_thread() {
    let instruction = |step: Step| match step.what {
        What::Executes(instruction) => instruction,
        What::Delivery => unreachable!("a step of an instruction"),
    };
    let mut occurrences = Occurrences::default();
    let mut core = Core::new(&KNC);
    let mut issue = |core: &mut Core, thread: usize, step: Step| {
        core.bring(thread, &mut occurrences, &instruction(step), &Execution::default())
            .unwrap_or_else(|| core.issue(thread, &mut occurrences, &mut [0; 3]))
    };
    core.start(0, 0);
    assert_eq!(issue(&mut core, 0, nop()), 5);
    core.leave(0);
    core.start(1, 0);
    assert_eq!(issue(&mut core, 1, long(10)), 10);
    core.leave(1);
    let mut bytes = Vec::new();
    state::save(&mut core, &mut bytes);
    assert_eq!(state::load(&mut Core::new(&KNC), &bytes), Ok(()));
    core.come_back(0, 0);
    assert_eq!(issue(&mut core, 0, nop()), 20);
}

/// The x87 unit is one for all threads, their stacks are not.
#[test]
fn the_x87_unit_is_shared() {
    // FDIV lets no other begin for 37 clocks. Whoever has nothing to do with it goes on.
    let courses = run(&[vec![fdiv(1)], vec![fadd(1)], vec![nop()]]);
    assert_eq!(courses[0].issued, [5]);
    assert_eq!(courses[1].issued, [5 + 37]);
    assert_eq!(courses[2].issued, [6]);
    // FADD begins another in the next clock; its result is that of its thread.
    let courses = run(&[vec![fadd(1), fadd(1)], vec![fadd(1)]]);
    assert_eq!(courses[0].issued, [5, 8]);
    assert_eq!(courses[1].issued, [6]);
    // So does FMUL, but for another FMUL.
    let courses = run(&[vec![fmul(1)], vec![fmul(1)], vec![fadd(1)]]);
    assert_eq!(courses.iter().map(|course| course.issued[0]).collect::<Vec<_>>(), [5, 7, 6]);
}
