//! The named stalls, in programs of two or three instructions whose cycles are worked out by hand.
//!
//! What comes first is fetched in cycle 0, decoded in 1, dispatched in 2 and issued in 3.

use pmu_model::Signal;
use uarch::{
    occurrences::Occurrences,
    part::pipelines::{K8, P6, PM},
    pipeline::out_of_order::{
        Core, Execution, Instruction, Misprediction, Operands, Pipeline,
        table::{Form, Shape, Variant, Width},
    },
};

const ESI: u64 = 1 << 6;
const EAX: u64 = 1;

/// Executes instructions of three bytes, and gives what was fired.
fn run(core: &'static Core, program: &[(&str, Form, Execution)]) -> impl Fn(Signal) -> u64 + use<> {
    let mut pipeline = Pipeline::new(core);
    let mut occurrences = Occurrences::default();
    for (n, &(name, form, execution)) in program.iter().enumerate() {
        let shape = Shape { form, width: Width::Bits32, variant: Variant::Plain };
        let row = core.table.look_up(name, shape).unwrap();
        let operands = match name {
            "Mov" => Operands { address: ESI, destinations: EAX, length: 3, ..Operands::default() },
            _ => Operands { length: 3, ..Operands::default() },
        };
        let instruction = Instruction::new(core, row, &operands);
        let execution = Execution { address: 3 * n as u64, ..execution };
        pipeline.execute(&instruction, &execution, &mut occurrences);
    }
    let fired = *occurrences.fired();
    move |signal| fired[signal.index()]
}

const NORMAL: Execution = Execution {
    address: 0,
    fetch_delay: 0,
    load_address: 0,
    load_delay: 0,
    store_delay: 0,
    forwarding: uarch::pipeline::out_of_order::Forwarding::None,
    taken: false,
    misprediction: Misprediction::None,
    locked: false,
    resync: false,
    float_exception: false,
    iterations: 0,
    continued: false,
    segment: 0,
};

/// A load that misses: probes in 4, has its data in 6 + 100, retires in 107.
const MISS: (&str, Form, Execution) =
    ("Mov", Form::RegMem, Execution { load_delay: 100, ..NORMAL });

/// Intel SDM volume 3, P6 event 10h: "integer MULs and IMULs, FDIVs, ... integer DIVs, and IDIVs" are among
/// the operations; 12h and 13h count multiplications and divisions of both kinds.
#[test]
fn integer_multiplications_and_divisions_are_floating_point_operations() {
    for core in [&P6, &PM] {
        let program = ["Imul", "Mul", "Div", "Idiv", "Add"].map(|name| match name {
            "Imul" | "Add" => (name, Form::RegReg, NORMAL),
            _ => (name, Form::Reg, NORMAL),
        });
        let fired = run(core, &program);
        assert_eq!(fired(Signal::X87FlopExecuted), 4);
        assert_eq!((fired(Signal::ArithMul), fired(Signal::ArithDiv)), (2, 2));
    }
}

#[test]
fn a_slow_fetch_stalls_the_fetcher_and_empties_the_decoder() {
    let slow = run(&K8, &[("Nop", Form::None, Execution { fetch_delay: 50, ..NORMAL })]);
    assert_eq!(slow(Signal::StallIfetch), 50);
    // Dispatch could have begun in cycle 1.
    assert_eq!(slow(Signal::StallDecoderEmpty), 1 + 50);
    assert_eq!(slow(Signal::StallDispatchAny), 0);
}

#[test]
fn a_serialising_instruction_waits_for_all_before_it() {
    let fired = run(&K8, &[MISS, ("Cpuid", Form::None, NORMAL)]);
    // From its turn in cycle 3 to the one behind the load's retirement.
    assert_eq!(fired(Signal::StallSerialize), 108 - 3);
    assert_eq!(fired(Signal::StallDispatchAny), 108 - 3);
}

#[test]
fn the_right_path_waits_until_the_mispredicted_branch_has_retired() {
    let branch = Execution { misprediction: Misprediction::Execution, ..NORMAL };
    let nop = ("Nop", Form::None, NORMAL);
    let fired = run(&K8, &[MISS, ("Jcc", Form::None, branch), nop]);
    // The branch is issued in 3 and complete in 4; the right window is there in 11, and its instruction
    // decoded in 12. The branch retires with the load in 107.
    assert_eq!(fired(Signal::StallBranchAbort), 108 - 13);
    assert_eq!(fired(Signal::StallDecoderEmpty), 1 + (13 - 3));

    let resync = Execution { resync: true, ..NORMAL };
    let fired = run(&K8, &[MISS, ("Cmc", Form::None, resync), nop]);
    assert_eq!((fired(Signal::StallFarOrResync), fired(Signal::StallBranchAbort)), (108 - 13, 0));
}

#[test]
fn a_segment_load_waits_for_another() {
    let load = ("MovToSegment", Form::Reg, NORMAL);
    let fired = run(&K8, &[load, load]);
    // Seven operations in three lines, dispatched in 2 to 4; the first is issued in 3 and takes 8 (AMD
    // 25112 table 13). The second instruction's turn is in 5.
    assert_eq!(fired(Signal::StallSegmentLoad), 11 - 5);

    // Intel's rename each segment register once. DS is 3.
    let ds = ("MovToSegment", Form::Reg, Execution { segment: 3, ..NORMAL });
    let fs = ("MovToSegment", Form::Reg, Execution { segment: 4, ..NORMAL });
    let fired = run(&P6, &[ds, fs, ds]);
    assert_eq!((fired(Signal::StallSegRenameDs), fired(Signal::StallSegRenameFs)), (1, 0));
}

#[test]
fn a_port_access_waits_until_all_is_quiet() {
    let fired = run(&K8, &[MISS, ("In", Form::None, NORMAL)]);
    assert_eq!(fired(Signal::StallAllQuiet), 106 - 3);
}

#[test]
fn a_fence_waits_until_the_stores_have_drained() {
    let store = ("Mov", Form::MemReg, Execution { store_delay: 50, ..NORMAL });
    let fired = run(&P6, &[store, ("Sfence", Form::None, NORMAL)]);
    // Address and data are issued in 3, complete in 4 and retire in 5: the store is written in 56. The
    // fence needs the first decoder, and could be dispatched in 3.
    assert_eq!(fired(Signal::StallStoreBufferDrain), 56 - 3);
    assert_eq!(fired(Signal::StallResource), 56 - 3);
}

/// What the stores of an instruction wait for is waited for once. REP STOSD of 8: address and data of the first
/// are issued in 3 and complete in 4, which retire in 5, and one retires in each cycle at least; each is written
/// a cycle behind the one before it.
#[test]
fn the_stores_of_a_string_wait_together() {
    let shape = Shape { form: Form::Mem, width: Width::Bits32, variant: Variant::Repeated };
    let row = P6.table.look_up("Stos", shape).unwrap();
    let strings = Instruction::new(&P6, row, &Operands { length: 2, ..Operands::default() });
    let waited = |store_delay| {
        let mut pipeline = Pipeline::new(&P6);
        let mut occurrences = Occurrences::default();
        let execution = Execution { store_delay, iterations: 8, ..NORMAL };
        pipeline.execute(&strings, &execution, &mut occurrences);
        let fence = P6.table.look_up("Sfence", shape).unwrap();
        let fence = Instruction::new(&P6, fence, &Operands { length: 3, ..Operands::default() });
        pipeline.execute(&fence, &Execution { address: 2, ..NORMAL }, &mut occurrences);
        pipeline.dispatched()
    };
    let drained = waited(0);
    assert_eq!(waited(500), drained + 500);
}

/// What drains the store buffer beside fences: serialising instructions, synchronising ones such as XCHG, and
/// interrupts (Intel SDM volume 3, P6 family, event 04h SB_DRAINS).
#[test]
fn what_drains_the_store_buffer() {
    let store = ("Mov", Form::MemReg, Execution { store_delay: 50, ..NORMAL });
    let fired = run(&P6, &[store, ("Cpuid", Form::None, NORMAL)]);
    // The store retires in 5 and is written in 56, as above; the serialising instruction has waited for its
    // retirement already.
    assert_eq!(fired(Signal::StallStoreBufferDrain), 56 - 6);
    let fired = run(&P6, &[store, ("Delivery", Form::None, NORMAL)]);
    assert_eq!(fired(Signal::StallStoreBufferDrain), 56 - 3);
    // A locked load waits where it would be issued, when all before it have retired.
    let locked = Execution { locked: true, ..NORMAL };
    let fired = run(&P6, &[store, ("Inc", Form::Mem, locked)]);
    assert_eq!(fired(Signal::StallStoreBufferDrain), 56 - 6);
}

/// A locked instruction synchronises, also if it is not XCHG, and does so once.
#[test]
fn locked_instructions_synchronise() {
    let locked = Execution { locked: true, ..NORMAL };
    let count = |name, form, execution| run(&PM, &[(name, form, execution)])(Signal::UopSync);
    assert_eq!(count("Inc", Form::Mem, NORMAL), 0);
    assert_eq!(count("Inc", Form::Mem, locked), 1);
    assert_eq!(count("Xchg", Form::MemReg, locked), 1);
}

/// MOV AL, 1 and MOV EDX, EAX: the read waits until the write has retired, unless XOR EAX, EAX has zeroed the rest
/// (Fog chapter 19), and nothing was executed in between of which the pipeline was not told.
#[test]
fn what_is_zero_is_known_while_the_pipeline_is_told() {
    let stalled = |told: bool| {
        let mut pipeline = Pipeline::new(&P6);
        let mut occurrences = Occurrences::default();
        let mut execute = |pipeline: &mut Pipeline, name, form, width, operands: Operands| {
            let shape = Shape { form, width, variant: Variant::Plain };
            let row = P6.table.look_up(name, shape).unwrap();
            let instruction = Instruction::new(&P6, row, &Operands { length: 2, ..operands });
            pipeline.execute(&instruction, &NORMAL, &mut occurrences);
        };
        let writes = Operands { destinations: EAX, ..Operands::default() };
        let zero = Operands { zeroes: true, ..writes };
        execute(&mut pipeline, "Xor", Form::RegReg, Width::Bits32, zero);
        if !told {
            pipeline.idle_until(pipeline.now());
        }
        let low = Operands { partial: EAX, ..writes };
        execute(&mut pipeline, "Mov", Form::RegImm, Width::Bits8, low);
        let reads = Operands { sources: EAX, whole: EAX, destinations: 4, ..Operands::default() };
        execute(&mut pipeline, "Mov", Form::RegReg, Width::Bits32, reads);
        occurrences.fired()[Signal::StallPartialRegister.index()]
    };
    // Both are decoded in one cycle. The write is complete two behind its dispatch and retires in the next: the
    // read is dispatched behind that.
    assert_eq!((stalled(true), stalled(false)), (0, 4));
}

/// Where a far transfer goes is known when it is complete, and what is there waits until it has retired.
#[test]
fn nothing_foretells_where_a_far_transfer_goes() {
    let far = Execution { taken: true, ..NORMAL };
    let nop = ("Nop", Form::None, NORMAL);
    let fired = run(&K8, &[MISS, ("JmpFar", Form::None, far), nop]);
    // 17 operations are dispatched in 3 to 8; the first is issued in 4 and complete in 24; the window is there in
    // 31, and its instruction decoded in 32. Two of the 17 retire with the load in 107, the others in 108 to 112.
    assert_eq!(fired(Signal::StallFarOrResync), 113 - 33);
    assert_eq!(fired(Signal::StallDecoderEmpty), 1 + (33 - 9));
}

/// The delivery of an interrupt is none of the instructions that are decoded (Intel SDM volume 3, D0h).
#[test]
fn a_delivery_is_not_decoded() {
    let mut occurrences = Occurrences::default();
    let shape = Shape { form: Form::None, width: Width::Bits32, variant: Variant::Plain };
    let row = P6.table.look_up("Delivery", shape).unwrap();
    let delivery = Instruction::new(&P6, row, &Operands::default());
    Pipeline::new(&P6).execute(&delivery, &NORMAL, &mut occurrences);
    let fired = [Signal::InsnDecoded, Signal::UopRetired].map(|s| occurrences.fired()[s.index()]);
    assert_eq!(fired, [0, 80]);
}

/// While nothing is told of it, a pipeline does not wait for its decoders: behind WRMSR, the next instruction
/// could be dispatched a cycle behind its fetch, and is one later.
#[test]
fn idle_time_is_not_that_of_the_decoders() {
    let mut pipeline = Pipeline::new(&K8);
    let mut occurrences = Occurrences::default();
    let shape = Shape { form: Form::None, width: Width::Bits32, variant: Variant::Plain };
    let instruction = |name| {
        let row = K8.table.look_up(name, shape).unwrap();
        Instruction::new(&K8, row, &Operands { length: 2, ..Operands::default() })
    };
    pipeline.execute(&instruction("Wrmsr"), &NORMAL, &mut occurrences);
    let before = *occurrences.fired();
    pipeline.idle_until(pipeline.now());
    pipeline.execute(&instruction("Nop"), &Execution { address: 2, ..NORMAL }, &mut occurrences);
    let fired = |signal: Signal| occurrences.fired()[signal.index()] - before[signal.index()];
    let fired = [Signal::StallDecoderEmpty, Signal::StallSerialize].map(fired);
    assert_eq!(fired, [1, 0]);
}

/// A load from a store whose data is not there yet is blocked, as Intel SDM volume 3 has it of event 03h
/// LD_BLOCKS; one that comes later is not.
#[test]
fn a_load_of_data_that_is_not_there_yet_is_blocked() {
    let mut pipeline = Pipeline::new(&P6);
    let mut occurrences = Occurrences::default();
    let forwarding = uarch::pipeline::out_of_order::Forwarding::From(0);
    let forwarded = Execution { forwarding, ..NORMAL };
    let mut blocked = |name, form, execution, operands: Operands| {
        let row =
            P6.table.look_up(name, Shape { form, width: Width::Bits32, variant: Variant::Plain });
        let operands = Operands { length: 3, ..operands };
        let instruction = Instruction::new(&P6, row.unwrap(), &operands);
        pipeline.execute(&instruction, &execution, &mut occurrences);
        occurrences.fired()[Signal::StallLoadBlocked.index()]
    };
    let product = Operands { sources: EAX, destinations: EAX, ..Operands::default() };
    let store = Operands { sources: EAX, address: ESI, ..Operands::default() };
    let load = Operands { address: ESI, destinations: 2, ..Operands::default() };
    blocked("Imul", Form::RegReg, NORMAL, product);
    blocked("Mov", Form::MemReg, NORMAL, store);
    // IMUL takes 4 cycles from 3 on, and the data is handed over in 7. NOPs let the address be known before the
    // load is issued.
    for _ in 0..6 {
        blocked("Nop", Form::None, NORMAL, Operands::default());
    }
    assert_eq!(blocked("Mov", Form::RegMem, forwarded, load), 1);
    for _ in 0..30 {
        blocked("Nop", Form::None, NORMAL, Operands::default());
    }
    assert_eq!(blocked("Mov", Form::RegMem, forwarded, load), 1);
}

#[test]
fn a_load_behind_a_store_of_unknown_address_is_blocked() {
    let load = ("Mov", Form::RegMem, NORMAL);
    // The store's address is the result of the load that misses.
    let mut pipeline = Pipeline::new(&P6);
    let mut occurrences = Occurrences::default();
    let mut execute = |(name, form, execution): (&str, Form, Execution), address, destinations| {
        let shape = Shape { form, width: Width::Bits32, variant: Variant::Plain };
        let row = P6.table.look_up(name, shape).unwrap();
        let operands = Operands { address, destinations, length: 3, ..Operands::default() };
        let instruction = Instruction::new(&P6, row, &operands);
        pipeline.execute(&instruction, &execution, &mut occurrences)
    };
    let miss = execute(MISS, ESI, EAX);
    execute(("Mov", Form::MemReg, NORMAL), EAX, 0);
    let blocked = execute(load, ESI, 2);
    assert_eq!(occurrences.fired()[Signal::StallLoadBlocked.index()], 1);
    // The load has its data in 106 and retires in 107; the address of the store is issued in 106 and
    // known in 107, when the load can be issued: it has its data in 110 and retires in 111.
    assert_eq!((miss, blocked), (107, 111));
}

/// A prefix that changes the length of what follows holds up the length decoder.
#[test]
fn length_changing_prefixes_stall_the_length_decoder() {
    let row = P6
        .table
        .look_up("Add", Shape { form: Form::RegImm, width: Width::Bits16, variant: Variant::Plain })
        .unwrap();
    let operands = Operands { length: 5, length_changes: true, ..Operands::default() };
    let instruction = Instruction::new(&P6, row, &operands);
    let mut occurrences = Occurrences::default();
    Pipeline::new(&P6).execute(&instruction, &Execution::default(), &mut occurrences);
    assert_eq!(
        occurrences.fired()[Signal::StallLengthDecode.index()],
        u64::from(P6.fetch.length_change)
    );
}
