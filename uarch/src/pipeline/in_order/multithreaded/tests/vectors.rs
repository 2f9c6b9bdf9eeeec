//! The vector unit: latencies, its pipes and what it waits for.

use pmu_model::Signal;

use super::{Step, alone, cycles, instructions::*, run};

#[track_caller]
fn stalls(program: &[Step], issued: &[u64], times: u64) {
    let course = alone(program);
    assert_eq!(super::from_first(&course), issued);
    assert_eq!(course.count(Signal::StallVpuRegister), times);
}

/// Intel, "Intel Xeon Phi Coprocessor Vector Microarchitecture": a latency of four clocks, one a clock.
#[test]
fn chains() {
    let chain = || vec![arithmetic(1, 1, 2, None); 8];
    stalls(&chain(), &[0, 4, 8, 12, 16, 20, 24, 28], 7);
    // Without dependences one thread has its every other cycle, and two have one a cycle.
    let free: Vec<Step> = (0..8).map(|n| arithmetic(n, n, 20, None)).collect();
    stalls(&free, &[0, 2, 4, 6, 8, 10, 12, 14], 0);
    // Four threads hide the latency: each gets its turn when its operand is there.
    let courses = run(&[chain(), chain(), chain(), chain()]);
    for (thread, course) in courses.iter().enumerate() {
        let first = 5 + thread as u64;
        assert_eq!(course.issued, (0..8).map(|n| first + 4 * n).collect::<Vec<_>>());
    }
}

#[test]
fn loads_and_stores() {
    stalls(&[vector_load(1, 3), arithmetic(2, 1, 1, None)], &[0, 3], 1);
    stalls(&[arithmetic(1, 2, 2, None), vector_store(3, 1)], &[0, 8], 1);
    stalls(&[arithmetic(1, 2, 2, None), vector_store(3, 4)], &[0, 0], 0);
    // What was missed is there when the thread goes on, and then takes as long as a hit.
    stalls(&[vector_load(1, 3).with(miss(30)), arithmetic(2, 1, 1, None)], &[0, 33], 1);
}

#[test]
fn masks() {
    stalls(&[compare(1, 2, 3), from_mask(0, 1)], &[0, 8], 1);
    stalls(&[compare(1, 2, 3), mask_branch(1)], &[0, 8], 1);
    stalls(&[compare(1, 2, 3), arithmetic(4, 5, 6, Some(1))], &[0, 4], 1);
    stalls(&[to_mask(1, 0), arithmetic(4, 5, 6, Some(1))], &[0, 4], 1);
    stalls(&[to_mask(1, 0), arithmetic(4, 5, 6, None)], &[0, 2], 0);
}

/// A register that is written twice has the newer result at the end.
#[test]
fn writes_come_in_order() {
    stalls(&[exponential(1, 2), arithmetic(1, 3, 4, None)], &[0, 4], 1);
    stalls(&[exponential(1, 2), exponential(1, 4)], &[0, 2], 0);
    stalls(&[exponential(1, 2), arithmetic(5, 3, 4, None)], &[0, 2], 0);
}

/// The unit is one for all threads.
#[test]
fn the_unit_is_shared() {
    let courses = run(&[vec![exponential(1, 2)], vec![arithmetic(1, 2, 3, None)], vec![nop()]]);
    assert_eq!(courses.iter().map(|course| course.issued[0]).collect::<Vec<_>>(), [5, 7, 6]);
}

/// Vector instructions execute in the U pipe. In the V pipe are stores of vectors, KMOV, prefetches and
/// jumps.
#[test]
fn pipes() {
    let pair = |first: Step, second: Step| {
        let course = alone(&[first, second]);
        (course.count(Signal::PairV), course.count(Signal::VpuOpV))
    };
    let free = || arithmetic(1, 2, 3, None);
    assert_eq!(pair(free(), arithmetic(4, 5, 6, None)), (0, 0));
    assert_eq!(pair(free(), vector_load(4, 3)), (0, 0));
    assert_eq!(pair(free(), gather(4, 3, 5, 1)), (0, 0));
    assert_eq!(pair(free(), vector_store(3, 4)), (1, 1));
    assert_eq!(pair(free(), from_mask(0, 1)), (1, 1));
    assert_eq!(pair(from_mask(0, 1), from_mask(1, 2)), (1, 1));
    assert_eq!(pair(free(), prefetch(3)), (1, 0));
    assert_eq!(pair(prefetch(3), prefetch(5)), (0, 0));
    assert_eq!(pair(free(), mask_branch(1)), (1, 0));
    assert_eq!(pair(free(), add(0, 1)), (1, 0));
    // The second needs or writes what the first writes.
    assert_eq!(pair(free(), vector_store(3, 1)), (0, 0));
    assert_eq!(pair(compare(1, 2, 3), mask_branch(1)), (0, 0));
    assert_eq!(pair(compare(1, 2, 3), to_mask(1, 0)), (0, 0));
    // Nor does it wait in the V pipe for what came before.
    assert_eq!(pair(free(), free()), (0, 0));
    let late = [arithmetic(1, 2, 3, None), arithmetic(4, 5, 6, None), vector_store(3, 1)];
    assert_eq!(cycles(&late), [0, 2, 8]);
}

/// A gather takes its addresses from a vector.
#[test]
fn gathers() {
    let course = alone(&[arithmetic(5, 2, 3, None), gather(4, 3, 5, 1)]);
    assert_eq!(super::from_first(&course), [0, 5]);
    assert_eq!(course.count(Signal::StallAgi), 1);
    assert_eq!(course.count(Signal::StallAgiGather), 1);
    assert_eq!(course.count(Signal::StallVpuRegister), 0);
    // What is under its mask is merged, and its mask is written: a loop of gathers waits for both.
    let course = alone(&vec![gather(4, 3, 5, 1); 3]);
    assert_eq!(super::from_first(&course), [0, 4, 8]);
    assert_eq!(course.count(Signal::StallAgiGather), 0);
    assert_eq!(course.count(Signal::StallVpuRegister), 2);
    // The base may be late as well.
    let course = alone(&[add_memory(3, 1), gather(4, 3, 5, 1)]);
    assert_eq!(super::from_first(&course), [0, 3]);
    assert_eq!(course.count(Signal::StallAgiGather), 1);
}
