//! What the pipelines are told of loads and stores, and of iterations.

use uarch::cache::Kind;
use uarch::occurrences::Occurrences;
use uarch::part::pipelines::K8;
use uarch::pipeline::out_of_order::Forwarding::{self, Blocked, From};
use uarch::system::{DataAccess, Operation};
use x86_cpu::effects::Mode;
use x86_cpu::features::Features;
use x86_cpu::insn::Insn;
use x86_cpu::mode::CodeSize;

use super::OutOfOrder;
use super::description::{Preparation, Prepared};

fn prepare(bytes: &[u8]) -> Prepared {
    let mode = Mode::new(CodeSize::Bits32);
    let (insn, class) = Insn::decode(Features::K8, mode, bytes).expect("whole");
    Preparation::new(&K8).prepare(&insn, class, mode)
}

fn access(linear: u64, bytes: u32, elements: u32, operation: Operation) -> DataAccess {
    let kind = Kind::Plain;
    DataAccess { linear, physical: linear, second_page: None, bytes, elements, operation, kind }
}

/// MOV [1000h], AH; MOV [1008h], ECX; MOV EAX, [1008h]; MOV AL, [1000h]; ADD [1008h], EAX, which loads before
/// it stores; MOV EAX, [1008h]: AMD 25112 section 5.5.
#[test]
fn loads_behind_stores() {
    const NONE: Forwarding = Forwarding::None;
    let mut pipeline = OutOfOrder::new(&K8);
    for (bytes, access, expected) in [
        (&[0x88, 0x25, 0, 0x10, 0, 0][..], access(0x1000, 1, 1, Operation::Store), NONE),
        (&[0x89, 0x0d, 8, 0x10, 0, 0], access(0x1008, 4, 1, Operation::Store), NONE),
        (&[0x8b, 0x05, 8, 0x10, 0, 0], access(0x1008, 4, 1, Operation::Load), From(0)),
        (&[0x8a, 0x05, 0, 0x10, 0, 0], access(0x1000, 1, 1, Operation::Load), Blocked(1)),
        (&[0x01, 0x05, 8, 0x10, 0, 0], access(0x1008, 4, 1, Operation::Modify), From(0)),
        (&[0x8b, 0x05, 8, 0x10, 0, 0], access(0x1008, 4, 1, Operation::Load), From(0)),
        (&[0x8a, 0x05, 0, 0x10, 0, 0], access(0x1000, 1, 1, Operation::Load), Blocked(2)),
    ] {
        let loads = access.operation != Operation::Store;
        let stores = access.operation != Operation::Load;
        pipeline.begins(&prepare(bytes), 0);
        pipeline.compare(&access, loads, stores);
        assert_eq!(pipeline.running.execution.forwarding, expected, "{bytes:02x?}");
        let address = if loads { access.linear } else { 0 };
        assert_eq!(pipeline.running.execution.load_address, address);
        pipeline.stores.executed();
    }
}

/// REP MOVSD of 200 doublewords takes as long told at once as told in parts of which the pipeline takes
/// 64 or more, and is decoded once.
#[test]
fn iterations_are_taken_in_parts() {
    use pmu_model::Signal;
    let prepared = prepare(&[0xf3, 0xa5]);
    let copied = |parts: &[u32]| {
        let (mut pipeline, mut occurrences) = (OutOfOrder::new(&K8), Occurrences::default());
        pipeline.begins(&prepared, 0);
        let mut done = 0;
        for &n in parts {
            for (linear, operation) in [(0x1000, Operation::Load), (0x2800, Operation::Store)] {
                pipeline.running.elements += u64::from(n);
                pipeline.waiting.push(access(linear + 4 * done, 4, n, operation));
            }
            done += u64::from(n);
            pipeline.iterated(&prepared, &mut occurrences);
        }
        pipeline.retired(&prepared, false, &mut occurrences);
        let fired = occurrences.fired();
        let of = |signal: Signal| fired[signal.index()];
        (of(Signal::UopRetired), of(Signal::InsnDecoded), pipeline.pipeline.now())
    };
    let (operations, decoded, cycles) = copied(&[200]);
    assert_eq!(decoded, 1);
    for parts in [&[1; 200][..], &[100, 100], &[63, 1, 136], &[10, 190]] {
        let (in_parts, once, time) = copied(parts);
        assert_eq!((in_parts, once), (operations, 1));
        assert!(time.abs_diff(cycles) <= 8, "{time} {cycles}");
    }
}

/// REP MOVSD of 100 doublewords: a run that ends between two iterations changes nothing; an interrupt there
/// loses none of those before it, and has the instruction begin again behind it. Of K8, 7 operations once and 2
/// an iteration; 80 of a delivery, which is no instruction.
#[test]
fn a_string_that_stops_goes_on() {
    use pmu_model::Signal;
    let prepared = prepare(&[0xf3, 0xa5]);
    let copied = |stops: &[u32], interrupted: bool| {
        let (mut pipeline, mut occurrences) = (OutOfOrder::new(&K8), Occurrences::default());
        let mut done = 0;
        for &n in stops {
            pipeline.begins(&prepared, 0x40);
            for (linear, operation) in [(0x1000, Operation::Load), (0x2800, Operation::Store)] {
                pipeline.running.elements += u64::from(n);
                pipeline.waiting.push(access(linear + 4 * done, 4, n, operation));
            }
            done += u64::from(n);
            pipeline.iterated(&prepared, &mut occurrences);
            if interrupted && done < 100 {
                pipeline.delivering(&mut occurrences);
                pipeline.delivered(&mut occurrences);
            }
        }
        pipeline.retired(&prepared, false, &mut occurrences);
        let fired = occurrences.fired();
        [Signal::UopRetired, Signal::InsnDecoded].map(|signal| fired[signal.index()])
    };
    for stops in [&[100][..], &[64, 36], &[10, 90], &[70, 5, 25], &[1; 100]] {
        assert_eq!(copied(stops, false), [7 + 200, 1], "{stops:?}");
        let again = stops.len() as u64 - 1;
        assert_eq!(copied(stops, true), [7 + 200 + again * (7 + 80), 1 + again], "{stops:?}");
    }
}

/// What fetching an instruction took is not of the delivery behind it.
#[test]
fn a_delivery_has_nothing_of_the_instruction_before_it() {
    use pmu_model::Signal;
    let (mut pipeline, mut occurrences) = (OutOfOrder::new(&K8), Occurrences::default());
    let nop = prepare(&[0x90]);
    pipeline.begins(&nop, 0);
    pipeline.fetched(50);
    pipeline.retired(&nop, false, &mut occurrences);
    pipeline.delivering(&mut occurrences);
    pipeline.delivered(&mut occurrences);
    assert_eq!(occurrences.fired()[Signal::StallIfetch.index()], 50);
}

/// An instruction that comes to a device in the middle of a block stops there and begins again: its fetch, which is not
/// repeated, took what it took. That of the next one at the same address is its own.
#[test]
fn an_instruction_that_begins_again_was_fetched() {
    use pmu_model::Signal;
    let nop = prepare(&[0x90]);
    let stalls = |begins: u64, times: u64| {
        let (mut pipeline, mut occurrences) = (OutOfOrder::new(&K8), Occurrences::default());
        for _ in 0..times {
            for n in 0..begins {
                pipeline.begins(&nop, 0x40);
                pipeline.fetched(if n == 0 { 50 } else { 0 });
            }
            pipeline.retired(&nop, false, &mut occurrences);
        }
        (occurrences.fired()[Signal::StallIfetch.index()], pipeline.clock())
    };
    assert_eq!(stalls(1, 1).0, 50);
    assert_eq!(stalls(2, 1), stalls(1, 1));
    assert_eq!(stalls(3, 4), stalls(1, 4));
    assert_eq!(stalls(1, 4).0, 200);
}
