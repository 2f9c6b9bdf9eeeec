//! Sequences of one thread of which the cycles can be counted by hand.

use pmu_model::Signal;

use super::{Execution, Step, alone, cycles, instructions::*};

#[track_caller]
fn fires(program: &[Step], issued: &[u64], signal: Signal, times: u64) {
    let course = alone(program);
    assert_eq!(super::from_first(&course), issued);
    assert_eq!(course.count(signal), times, "{signal:?}");
}

/// An address is computed in the clock before. What takes one clock is there by the thread's next turn;
/// what takes two is not.
#[test]
fn address_generation_interlocks() {
    fires(&[add(3, 1), load(0, 3)], &[0, 2], Signal::StallAgi, 0);
    fires(&[add_memory(3, 1), load(0, 3)], &[0, 3], Signal::StallAgi, 1);
    fires(&[add_memory(3, 1), load(0, 2)], &[0, 0], Signal::StallAgi, 0);
    fires(&[add_memory(3, 1), long(1), load(0, 3)], &[0, 2, 4], Signal::StallAgi, 0);
    // A missed address comes late, and then it is computed with.
    fires(&[load(3, 1).with(miss(20)), load(0, 3)], &[0, 22], Signal::StallAgi, 1);
    fires(&[load(3, 1).with(miss(20)), add(0, 3)], &[0, 21], Signal::StallAgi, 0);
}

/// Each pipe that waits is counted; a second instruction that alone would wait does not pair.
#[test]
fn interlocks_of_pairs() {
    let before = [add_memory(3, 1), add_memory(5, 1)];
    let both = [load(0, 3), load(2, 5)];
    fires(&[&before[..], &both].concat(), &[0, 0, 3, 3], Signal::StallAgi, 2);
    fires(&[&before[..], &[load(0, 3), nop()]].concat(), &[0, 0, 3, 3], Signal::StallAgi, 1);
    fires(&[&before[..], &[nop(), load(0, 3)]].concat(), &[0, 0, 2, 4], Signal::StallAgi, 0);
}

/// A. Fog, chapter 10.2, rule 4, of the Pentium: register, read/modify and read/modify/write.
#[test]
fn pairs_with_memory_operands() {
    let clocks = |first: &Step, second: &Step| {
        let course = alone(&[first.clone(), second.clone()]);
        assert_eq!(course.count(Signal::PairV), 1);
        course.count(Signal::EStageBusy)
    };
    let kinds = |n: u8| [add(n, n), add_memory(n, 6), modify(7, n)];
    let table: Vec<Vec<u64>> = kinds(0)
        .iter()
        .map(|first| kinds(1).iter().map(|second| clocks(first, second)).collect())
        .collect();
    // Flags that both write are in no way.
    assert_eq!(table, [[1, 2, 3], [2, 2, 3], [3, 4, 5]]);
}

/// Cycles beyond the two of decoding in which the front end does not go on.
#[test]
fn front_end_stalls() {
    // Five of the empty pipeline are in each. Two clocks of execution are hidden behind decoding, three are
    // not.
    fires(&[long(1), long(1)], &[0, 2], Signal::StallFrontend, 5);
    fires(&[long(2), long(1)], &[0, 2], Signal::StallFrontend, 5);
    fires(&[modify(3, 1), long(1)], &[0, 3], Signal::StallFrontend, 5 + 1);
    fires(&[long(40), long(1)], &[0, 40], Signal::StallFrontend, 5 + 38);
    // Nothing is there to be issued.
    let fetched = |fetch| Execution { fetch, ..Execution::default() };
    fires(&[long(1), long(1).with(fetched(9))], &[0, 9], Signal::StallFrontend, 5 + 7);
}

/// What fetch does ahead is hidden, four instructions deep.
#[test]
fn fetch_runs_ahead() {
    let fetched = Execution { fetch: 20, ..Execution::default() };
    let program = |between: usize| {
        let mut program = vec![long(40)];
        program.extend(vec![long(1); between]);
        program.push(long(1).with(fetched));
        *cycles(&program).last().unwrap() - 40
    };
    assert_eq!(program(2), 4);
    // The fourth behind the long one is in the FIFO soon after that issues, and the fifth is fetched. The
    // sixth is fetched when the fifth is in, as the first leaves in cycle 40.
    assert_eq!((program(3), program(4)), (6, 8));
    assert_eq!(program(5), 20);
}

#[test]
fn prefixes_take_time() {
    let prefixed = |size, other| {
        let mut step = long(1);
        if let super::What::Executes(instruction) = &mut step.what {
            instruction.scalar.prefixes.size = size;
            instruction.scalar.prefixes.other = other;
        }
        step
    };
    assert_eq!(cycles(&[long(1), prefixed(0, 1)]), [0, 2]);
    assert_eq!(cycles(&[long(1), prefixed(1, 2)]), [0, 4]);
    assert_eq!(cycles(&[long(40), prefixed(1, 2)]), [0, 40]);
}

/// Two pushes do not pair: a thread's stack pointer is not known before they execute.
#[test]
fn pushes_do_not_pair() {
    fires(&[push(0), push(1)], &[0, 2], Signal::PairV, 0);
}

/// Reads of one bank, which is that of every other line; reads and writes are in each other's way nowhere.
#[test]
fn banks() {
    let pair = |first: Execution, second: Execution| {
        let steps = |writes, base, register| match writes {
            true => store(base, register),
            false => load(register, base),
        };
        let is_write = |of: &Execution| of.access.is_some_and(|access| access.writes);
        let program = [
            steps(is_write(&first), 3, 0).with(first),
            steps(is_write(&second), 5, 1).with(second),
        ];
        let course = alone(&program);
        assert_eq!(course.count(Signal::PairVMem), 1);
        let conflicts = course.count(Signal::L1dBankConflict);
        assert_eq!(course.count(Signal::EStageBusy), 1 + conflicts);
        conflicts
    };
    assert_eq!(pair(read(0x1000, 4), read(0x1040, 4)), 0);
    assert_eq!(pair(read(0x1000, 4), read(0x1080, 4)), 1);
    assert_eq!(pair(read(0x1000, 4), read(0x1004, 4)), 1);
    // The second lies across both lines.
    assert_eq!(pair(read(0x1000, 4), read(0x107e, 4)), 1);
    assert_eq!(pair(read(0x1000, 4), write(0x1000, 4)), 0);
    assert_eq!(pair(write(0x1000, 4), read(0x1000, 4)), 0);
    assert_eq!(pair(write(0x1000, 4), write(0x1080, 4)), 1);
}

/// A. Fog, chapter 28.2, of the Pentium.
#[test]
fn x87() {
    fires(&[fadd(1), fadd(1)], &[0, 3], Signal::StallAgi, 0);
    assert_eq!(cycles(&[fadd(1), fxch(2), fadd(3)]), [0, 0, 2]);
    assert_eq!(cycles(&[fadd(1), fxch(2), fadd(2)]), [0, 0, 3]);
    // A store needs its operand a clock before.
    assert_eq!(cycles(&[fadd(1), fstp(3)]), [0, 4]);
    assert_eq!(cycles(&[fdiv(1), nop(), fadd(2)]), [0, 2, 39]);
    assert_eq!(cycles(&[fdiv(1), fld(3)]), [0, 37]);
    // What waits for the unit does not advance: 37 clocks, of which two are of decoding.
    fires(&[fdiv(1), fld(3)], &[0, 37], Signal::StallFrontend, 5 + 35);
}
