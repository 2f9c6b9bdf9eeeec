//! What models are told, which who tells them may have to keep: each field and each case comes back.

use std::fmt::Debug;

use uarch::branch::{Outcome as Prediction, Resolution};
use uarch::cache::{Hint, Kind};
use uarch::pipeline::in_order::multithreaded::{self, VectorRegisters};
use uarch::pipeline::in_order::{Access, Mmx, Outcome, Pairing, Precision, Timing};
use uarch::pipeline::out_of_order::{Execution, Forwarding, Misprediction};
use uarch::pipeline::{Branch, Instruction, MemoryUse, Prefixes, Registers};
use uarch::state::{State, load};
use uarch::system::{AccessCycles, DataAccess, Operation};

use super::save;

/// What is loaded into another one is the same.
fn comes_back<T: State + Debug + PartialEq>(mut from: T, mut to: T) {
    assert_ne!(from, to);
    load(&mut to, &save(&mut from)).unwrap();
    assert_eq!(from, to);
}

#[test]
fn accesses() {
    let blank = DataAccess {
        linear: 0,
        physical: 0,
        second_page: None,
        bytes: 0,
        elements: 0,
        operation: Operation::Modify,
        kind: Kind::Locked,
    };
    let all = DataAccess {
        linear: 1,
        physical: 2,
        second_page: Some(3),
        bytes: 4,
        elements: 5,
        operation: Operation::Load,
        kind: Kind::Plain,
    };
    comes_back(all, blank);
    comes_back(blank, all);
    for operation in [
        Operation::Store,
        Operation::Modify,
        Operation::Flush,
        Operation::Evict { second_level: false },
        Operation::Evict { second_level: true },
    ] {
        comes_back(operation, Operation::Load);
    }
    for hint in [
        Hint::T0,
        Hint::T1,
        Hint::T2,
        Hint::NonTemporal,
        Hint::Write,
        Hint::WriteT1,
        Hint::WriteT2,
        Hint::WriteNonTemporal,
    ] {
        comes_back(Operation::Prefetch(hint), Operation::Store);
    }
    for kind in [
        Kind::Mmx,
        Kind::Vector,
        Kind::Locked,
        Kind::NonTemporal,
        Kind::NoRead { ordered: false },
        Kind::NoRead { ordered: true },
    ] {
        comes_back(kind, Kind::Plain);
    }
    comes_back(AccessCycles { walk: 1, read: 2, write: 3 }, AccessCycles::default());
    let prediction = |resolution, penalty| Prediction { resolution, penalty };
    for resolution in
        [Resolution::Predicted, Resolution::RedirectedAtDecode, Resolution::Mispredicted]
    {
        comes_back(prediction(resolution, 7), prediction(Resolution::NotPredicted, 0));
    }
}

#[test]
fn executions_in_order() {
    let blank = Access::blank();
    for outcome in
        [Outcome::Hit, Outcome::Miss { clocks: 7 }, Outcome::Owned, Outcome::Buffered { clocks: 8 }]
    {
        comes_back(Access { address: 1, bytes: 2, misaligned: true, walk: 3, outcome }, blank);
    }
    let all = multithreaded::Execution {
        taken: true,
        mispredicted: true,
        fetch: 1,
        access: Some(multithreaded::Access { address: 2, bytes: 3, writes: true }),
        misaligned: 4,
        waits: 5,
        iterations: 6,
        precision: Precision::Double,
        more: 7,
        halts: true,
    };
    comes_back(all, multithreaded::Execution::default());
    comes_back(multithreaded::Execution::default(), all);
    comes_back(Precision::Single, Precision::Extended);
}

#[test]
fn executions_out_of_order() {
    let all = Execution {
        address: 1,
        fetch_delay: 2,
        load_address: 3,
        load_delay: 4,
        store_delay: 5,
        forwarding: Forwarding::From(6),
        taken: true,
        misprediction: Misprediction::Decoder,
        locked: true,
        resync: true,
        float_exception: true,
        iterations: 7,
        continued: true,
        segment: 8,
    };
    comes_back(all, Execution::default());
    comes_back(Execution::default(), all);
    comes_back(Forwarding::Blocked(9), Forwarding::None);
    comes_back(Misprediction::Execution, Misprediction::None);
}

#[test]
fn instructions_in_order() {
    let timing = Timing::integer(1, Pairing::Never);
    let x87 = Timing::x87(9, 3, 2, Pairing::WithExchange);
    for timing in [
        Timing::microcode(5),
        Timing::repeated(6, 7),
        x87,
        x87.multiplying(),
        x87.operand_early(),
        x87.shorter(4, 3),
        Timing::mmx(Mmx::Shifter, Pairing::U),
        Timing::mmx(Mmx::Multiplier, Pairing::V),
        Timing::mmx(Mmx::Empty, Pairing::UV),
        Timing::mmx(Mmx::Alu, Pairing::Exchange),
        Timing::vector(4, Pairing::U).occupying(3).gathering(),
    ] {
        comes_back(timing, Timing::integer(2, Pairing::Never));
    }
    let all = Instruction {
        timing: x87,
        reads: Registers::general(1),
        writes: Registers::mmx(2),
        address: Registers::x87(3),
        memory: MemoryUse::Load,
        predicts_stack_pointer: true,
        branch: Branch::Conditional,
        exchanges: Some(4),
        x87_pops: -1,
        length: 5,
        prefixes: Prefixes { size: 6, other: 7, lock: true },
        displacement_and_immediate: true,
        serialises: true,
    };
    comes_back(all, Instruction::new(timing));
    let rest = Instruction { memory: MemoryUse::Modify, branch: Branch::Unconditional, ..all };
    comes_back(rest, all);
    comes_back(Instruction { memory: MemoryUse::Store, ..all }, all);
    let of_vectors = multithreaded::Instruction {
        scalar: all,
        reads: VectorRegisters::zmm(1),
        outgoing: VectorRegisters::zmm(2),
        writes: VectorRegisters::mask(3),
        index: VectorRegisters::zmm(4),
    };
    comes_back(of_vectors, multithreaded::Instruction::scalar(Instruction::new(timing)));
}
