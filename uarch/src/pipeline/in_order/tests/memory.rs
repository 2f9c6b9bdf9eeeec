//! Accesses that need the same bank, that miss, that are misaligned, and writes that go out.

use pmu_model::Signal::{
    L1dBankConflict, PairVMem, StallDtlbMiss, StallLoadMiss, StallLoadMissMmx,
    StallStoreBufferFull, StallStoreBufferFullMmx, StallStoreEmLine, StallStoreEmLineMmx,
};

use super::{Assembled, assemble, count, execute, run};
use crate::pipeline::in_order::Outcome;

/// Agner Fog, chapter 10.2, rules 2 and 3.
#[test]
fn banks() {
    for (program, clocks, conflicts) in [
        // In one doubleword; on either side of a boundary.
        ("MOV EAX, [ESI]; MOV EBX, [ESI]", 2, 1),
        ("MOV EAX, [ESI]; MOV EBX, [ESI+4]", 1, 0),
        // The same address bits 2 to 4.
        ("MOV [ESI], EAX; MOV [ESI+32000], EBX", 2, 1),
        ("MOV [ESI], EAX; MOV [ESI+32004], EBX", 1, 0),
        // A pair whose instructions read as well.
        ("ADD EAX, [ESI]; ADD EBX, [ESI+64]", 3, 1),
    ] {
        let (took, mut occurrences) = run(program);
        assert_eq!(took, clocks, "{program}");
        assert_eq!(count(&mut occurrences, L1dBankConflict), conflicts, "{program}");
        assert_eq!(count(&mut occurrences, PairVMem), 1, "{program}");
    }
    // Not in a pair: the second has the cache for itself.
    let (took, mut occurrences) = run("MOV EAX, [ESI]; MOV EAX, [ESI]");
    assert_eq!((took, count(&mut occurrences, L1dBankConflict)), (2, 0));
    let (_, mut occurrences) = run("MOV EAX, [ESI]; NOP");
    assert_eq!(count(&mut occurrences, PairVMem), 0);
}

/// Bytes of the same doubleword, and of two.
#[test]
fn banks_of_bytes() {
    for (first, second, clocks) in [(0, 1, 2), (3, 4, 1)] {
        let mut program = assemble("MOV AL, [ESI]; MOV BL, [ESI]");
        for (step, address) in program.iter_mut().zip([first, second]) {
            step.accesses[0].address = address;
            step.accesses[0].bytes = 1;
        }
        assert_eq!(execute(&program).0, clocks);
    }
}

/// Sets what became of the first access of an instruction.
fn outcome(program: &mut [Assembled], n: usize, outcome: Outcome) {
    program[n].accesses[0].outcome = outcome;
}

#[test]
fn misses() {
    let mut program = assemble("MOV EAX, [ESI]; MOVQ MM0, [ESI]");
    outcome(&mut program, 0, Outcome::Miss { clocks: 20 });
    outcome(&mut program, 1, Outcome::Miss { clocks: 7 });
    let (clocks, mut occurrences) = execute(&program);
    assert_eq!(clocks, 21 + 8);
    assert_eq!(count(&mut occurrences, StallLoadMiss), 27);
    assert_eq!(count(&mut occurrences, StallLoadMissMmx), 7);
}

/// Agner Fog, chapter 10.2, rule 5: a pair in which both miss takes longer than each and less than both.
#[test]
fn both_of_a_pair_miss() {
    let mut program = assemble("MOV EAX, [ESI]; MOV EBX, [ESI+4]");
    outcome(&mut program, 0, Outcome::Miss { clocks: 10 });
    outcome(&mut program, 1, Outcome::Miss { clocks: 5 });
    assert_eq!(execute(&program).0, 1 + 10 + 5); // 11 and 6 are 17
}

/// Abrash, chapter 19: three clocks.
#[test]
fn misaligned() {
    let mut program = assemble("MOV EAX, [ESI+2]");
    program[0].accesses[0].misaligned = true;
    assert_eq!(execute(&program).0, 4);
}

/// Intel SDM volume 3, event 1Ah: refills of the data TLB are included.
#[test]
fn page_walks() {
    let mut program = assemble("MOV EAX, [ESI]; MOV [ESI], EBX");
    program[0].accesses[0].walk = 12;
    program[1].accesses[0].walk = 8;
    let (clocks, mut occurrences) = execute(&program);
    // They pair; both need the same bank.
    assert_eq!(clocks, 1 + 1 + 12 + 8);
    assert_eq!(count(&mut occurrences, StallDtlbMiss), 20);
    assert_eq!(count(&mut occurrences, StallLoadMiss), 20);
}

/// A store each clock that takes ten to leave: four wait in the buffers, so the fifth has to wait until
/// the first has left.
#[test]
fn write_buffers() {
    let mut program = assemble(&["MOVQ [ESI], MM0"; 6].join("; "));
    for n in 0..6 {
        outcome(&mut program, n, Outcome::Buffered { clocks: 10 });
    }
    let (clocks, mut occurrences) = execute(&program[..4]);
    assert_eq!((clocks, count(&mut occurrences, StallStoreBufferFull)), (4, 0));
    // The first left at 10; the fifth would have begun at 4, and the sixth begins at 20, not at 11.
    let (clocks, mut occurrences) = execute(&program);
    assert_eq!(clocks, 21);
    assert_eq!(count(&mut occurrences, StallStoreBufferFull), 6 + 9);
    assert_eq!(count(&mut occurrences, StallStoreBufferFullMmx), 6 + 9);
}

/// Event 1Bh: a write that hits an owned line waits until those before it have left.
#[test]
fn owned_lines() {
    for (text, mmx) in
        [("MOV [ESI], EAX; MOV [ESI], EAX", 0), ("MOV [ESI], EAX; MOVQ [ESI], MM0", 9)]
    {
        let mut program = assemble(text);
        program[0].accesses[0].outcome = Outcome::Buffered { clocks: 10 };
        // In a pair it would begin at 0.
        program[1].instruction.displacement_and_immediate = true;
        let (clocks, mut occurrences) = execute(&program);
        assert_eq!(clocks, 11, "{text}");
        assert_eq!(count(&mut occurrences, StallStoreEmLine), 9);
        assert_eq!(count(&mut occurrences, StallStoreEmLineMmx), mmx);
    }
}

/// Reads that hit pass the buffered writes, others do not.
#[test]
fn reads_behind_writes() {
    let mut program = assemble("MOV [ESI], EAX; BSWAP EAX; MOV EBX, [ESI]");
    program[0].accesses[0].outcome = Outcome::Buffered { clocks: 10 };
    assert_eq!(execute(&program).0, 3);
    program[2].accesses[0].outcome = Outcome::Miss { clocks: 5 };
    let (clocks, mut occurrences) = execute(&program);
    assert_eq!(clocks, 10 + 5 + 1);
    assert_eq!(count(&mut occurrences, StallLoadMiss), 8 + 5);
}
