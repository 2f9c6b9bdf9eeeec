//! What the manuals and measurements say of chains and loops, worked out by hand.

use pmu_model::Signal;
use uarch::{
    occurrences::Occurrences,
    part::pipelines::{K7, K8, P6, PM},
    pipeline::out_of_order::{
        Core, Execution, Forwarding, Instruction, Misprediction, Operands, Pipeline, registers,
        table::{Form, Shape, Variant, Width},
    },
};

const EAX: u64 = 1 << 0;
const ECX: u64 = 1 << 1;
const EDX: u64 = 1 << 2;
const ESI: u64 = 1 << 6;
const EDI: u64 = 1 << 7;
const FLAGS: u64 = 1 << registers::CARRY | 1 << registers::STATUS;
const CARRY: u64 = 1 << registers::CARRY;
const ST0: u64 = 1 << registers::X87;
const ST1: u64 = 1 << (registers::X87 + 1);

/// Instructions of a part.
struct Machine {
    core: &'static Core,
    pipeline: Pipeline,
    occurrences: Occurrences,
    address: u64,
}

impl Machine {
    fn new(core: &'static Core) -> Self {
        Self {
            core,
            pipeline: Pipeline::new(core),
            occurrences: Occurrences::default(),
            address: 0,
        }
    }

    fn instruction(&self, name: &str, shape: (Form, Width), operands: Operands) -> Instruction {
        let shape = Shape { form: shape.0, width: shape.1, variant: Variant::Plain };
        let row = self.core.table.look_up(name, shape).expect("the table has the instruction");
        let length = if operands.length == 0 { 3 } else { operands.length };
        Instruction::new(self.core, row, &Operands { length, ..operands })
    }

    /// Executes an instruction behind the last one.
    fn execute(&mut self, instruction: &Instruction, length: u8, execution: Execution) -> u64 {
        let execution = Execution { address: self.address, ..execution };
        self.address += u64::from(length);
        self.pipeline.execute(instruction, &execution, &mut self.occurrences)
    }

    /// Cycles of one round of a loop without its branch, in the long run.
    fn rounds(&mut self, body: &[Instruction], rounds: u64) -> u64 {
        for _ in 0..100 {
            for instruction in body {
                self.execute(instruction, 3, Execution::default());
            }
        }
        let start = self.pipeline.now();
        for _ in 0..rounds {
            for instruction in body {
                self.execute(instruction, 3, Execution::default());
            }
        }
        self.pipeline.now() - start
    }

    fn fired(&mut self, signal: Signal) -> u64 {
        self.occurrences.fired()[signal.index()]
    }
}

fn operands(sources: u64, address: u64, destinations: u64) -> Operands {
    Operands { sources, address, destinations, ..Operands::default() }
}

const REGISTERS: (Form, Width) = (Form::RegReg, Width::Bits32);
const SOURCE: (Form, Width) = (Form::RegMem, Width::Bits32);

/// AMD 25112 table 13: ADD reg, reg takes 1, ADD reg, mem 4 cycles, BSR 11; table 15: FADD ST, ST(i) 4.
#[test]
fn k8_chains_take_the_latency_of_the_manual() {
    for (name, shape, chain, cycles) in [
        ("Add", REGISTERS, operands(EAX | ECX, 0, EAX | FLAGS), 1),
        // The next address is the sum.
        ("Add", SOURCE, operands(EAX, EAX, EAX | FLAGS), 4),
        ("Mov", SOURCE, operands(0, EAX, EAX), 3),
        ("Mov", (Form::RegMem, Width::Bits8), operands(0, EAX, EAX), 4),
        ("Bsr", REGISTERS, operands(EAX, 0, EAX | FLAGS), 11),
        ("Bsf", REGISTERS, operands(EAX, 0, EAX | FLAGS), 8),
        ("Imul", REGISTERS, operands(EAX, 0, EAX | FLAGS), 3),
        ("Lea", SOURCE, operands(0, EAX, EAX), 1),
        ("Idiv", (Form::Reg, Width::Bits32), operands(EAX | EDX, 0, EAX | EDX | FLAGS), 42),
        ("Fadd", (Form::RegReg, Width::Bits80), operands(ST0 | ST1, 0, ST0), 4),
        ("Fmul", (Form::RegReg, Width::Bits80), operands(ST0 | ST1, 0, ST0), 4),
        // The loads are independent of the chain.
        ("Fadd", (Form::Mem, Width::Bits64), operands(ST0, ESI, ST0), 4),
        ("Fsin", (Form::None, Width::Bits80), operands(ST0, 0, ST0), 100),
    ] {
        let mut machine = Machine::new(&K8);
        let instruction = machine.instruction(name, shape, chain);
        assert_eq!(machine.rounds(&[instruction], 100), 100 * cycles, "{name} {shape:?}");
    }
}

/// AMD 25112 table 15: FADD [mem] takes 6 cycles from the stage in which FADD ST, ST(i) takes 4. A load
/// begins one stage earlier, in the integer pipeline (stages 11 and 12 in gcc's athlon.md).
#[test]
fn k8_load_lengthens_a_floating_point_addition_by_two_cycles() {
    let retired = |name, shape, chain| {
        let mut machine = Machine::new(&K8);
        let instruction = machine.instruction(name, shape, chain);
        machine.execute(&instruction, 3, Execution::default())
    };
    let register = retired("Fadd", (Form::RegReg, Width::Bits80), operands(ST0 | ST1, 0, ST0));
    let memory = retired("Fadd", (Form::Mem, Width::Bits64), operands(ST0, ESI, ST0));
    assert_eq!(memory - register, 2);
}

/// Independent instructions: three ALUs, one multiplier, one add pipe, two probes of the data cache (AMD
/// 25112 A.12, A.15).
#[test]
fn k8_throughput_is_that_of_the_units() {
    for (name, shape, chain, instructions, cycles) in [
        // Three a cycle; instructions of 3 bytes arrive 16 bytes a cycle.
        ("Mov", REGISTERS, operands(ECX, 0, EAX), 300, 100),
        ("Imul", REGISTERS, operands(ECX, 0, EAX | FLAGS), 300, 300),
        ("Mov", SOURCE, operands(0, ESI, EAX), 300, 150),
        ("Mov", (Form::MemReg, Width::Bits32), operands(EAX, ESI, 0), 300, 150),
        ("Fadd", (Form::RegReg, Width::Bits80), operands(ST1, 0, ST0), 300, 300),
        // Halves of 64 bits in one pipe.
        ("Addps", (Form::RegReg, Width::Bits128), operands(1 << 33, 0, 1 << 32), 300, 600),
    ] {
        let mut machine = Machine::new(&K8);
        let instruction = machine.instruction(name, shape, chain);
        let taken = machine.rounds(&[instruction; 3], instructions / 3);
        assert_eq!(taken, cycles, "{name} {shape:?}");
    }
}

/// Two loads that differ in the index and not in the bank take two cycles (AMD 25112 5.9, page 114).
#[test]
fn k8_loads_of_one_bank_take_turns() {
    let mut machine = Machine::new(&K8);
    let load = machine.instruction("Mov", SOURCE, operands(0, ESI, EAX));
    let at = |load_address| Execution { load_address, ..Execution::default() };
    let mut run = |first, second| {
        let start = machine.pipeline.now();
        for _ in 0..300 {
            machine.execute(&load, 3, at(first));
            machine.execute(&load, 3, at(second));
        }
        machine.pipeline.now() - start
    };
    run(0x1000, 0x1000);
    let (same, conflict) = (run(0x1000, 0x1008), run(0x1000, 0x2000));
    assert!(same.abs_diff(300) < 5, "{same}");
    assert!(conflict.abs_diff(600) < 5, "{conflict}");
    // Every second load finds the other's bank taken, and the next one its own.
    assert!(machine.fired(Signal::StallEarlyCancel) >= 299);
}

/// A multi-precision addition of 64-bit limbs with memory operands: two loads and a store a limb, at two
/// accesses a cycle 1.5 cycles.
#[test]
fn k8_adds_a_limb_in_one_and_a_half_cycles() {
    let mut machine = Machine::new(&K8);
    const WIDE: Width = Width::Bits64;
    let load = machine.instruction("Mov", (Form::RegMem, WIDE), operands(0, ESI, EAX));
    let add =
        machine.instruction("Adc", (Form::RegMem, WIDE), operands(EAX | CARRY, EDI, EAX | FLAGS));
    let store = machine.instruction("Mov", (Form::MemReg, WIDE), operands(EAX, EDX, 0));
    let limb = [load, add, store];
    let four: Vec<_> = limb.iter().cycle().take(12).copied().collect();
    assert_eq!(machine.rounds(&four, 100), 600);
}

/// A branch that is mispredicted costs 10 cycles at least (AMD 25112 A.6, page 253).
#[test]
fn k8_misprediction_costs_ten_cycles() {
    let run = |misprediction| {
        let mut machine = Machine::new(&K8);
        let nothing = machine.instruction("Mov", REGISTERS, operands(ECX, 0, EAX));
        let jump = machine.instruction("Jcc", (Form::None, Width::Bits32), Operands::default());
        for _ in 0..30 {
            machine.execute(&nothing, 1, Execution::default());
        }
        machine.execute(&jump, 2, Execution { misprediction, ..Execution::default() });
        for _ in 0..30 {
            machine.execute(&nothing, 1, Execution::default());
        }
        machine.pipeline.now()
    };
    assert_eq!(run(Misprediction::Execution) - run(Misprediction::None), 10);
}

/// A load that cannot be forwarded to waits until the store has retired and is in the cache (AMD 25112
/// 5.5, page 100).
#[test]
fn k8_load_waits_for_a_store_that_is_not_forwarded() {
    let run = |forwarding| {
        let mut machine = Machine::new(&K8);
        let divide = machine.instruction(
            "Idiv",
            (Form::Reg, Width::Bits32),
            operands(EAX | EDX, 0, EAX | EDX | FLAGS),
        );
        let store =
            machine.instruction("Mov", (Form::MemReg, Width::Bits32), operands(ECX, ESI, 0));
        let load = machine.instruction("Mov", SOURCE, operands(0, ESI, EDI));
        machine.execute(&divide, 3, Execution::default());
        machine.execute(&store, 3, Execution::default());
        let blocked = machine.execute(&load, 3, Execution { forwarding, ..Execution::default() });
        (blocked, machine.fired(Signal::StallLateCancel))
    };
    let (forwarded, none) = run(Forwarding::From(0));
    let (blocked, one) = run(Forwarding::Blocked(0));
    // The division retires; the store the cycle after it is the same, the next it is written, and the
    // load takes three more and retires behind that.
    assert_eq!((blocked - forwarded, none, one), (1 + 3 + 1, 0, 1));
}

/// Three a cycle retire, and the cycles in which they do are told one by one.
#[test]
fn retirement_is_told_by_the_cycle() {
    let mut machine = Machine::new(&K8);
    let add = machine.instruction("Mov", REGISTERS, operands(ECX, 0, EAX));
    let mut seen = 0;
    let mut cycles = Vec::new();
    for _ in 0..12 {
        machine.execute(&add, 3, Execution::default());
        let (recent, count) = machine.pipeline.retirement(seen);
        cycles.extend(recent);
        seen = count;
    }
    let first = cycles[0].0;
    assert_eq!(cycles, [(first, 3), (first + 1, 3), (first + 2, 3)]);
    assert_eq!(machine.fired(Signal::UopRetired), 12);
}

/// gcc's athlon.md: a load adds nothing to FADD, since the floating-point pipeline begins later; IMUL takes
/// 5 cycles, LEA 2.
#[test]
fn k7_takes_the_times_of_its_description() {
    for (name, shape, chain, cycles) in [
        ("Add", SOURCE, operands(EAX, EAX, EAX | FLAGS), 4),
        ("Imul", REGISTERS, operands(EAX, 0, EAX | FLAGS), 5),
        ("Lea", SOURCE, operands(0, EAX, EAX), 2),
        ("Fadd", (Form::Mem, Width::Bits64), operands(ST0, ESI, ST0), 4),
        ("Fdiv", (Form::RegReg, Width::Bits80), operands(ST0 | ST1, 0, ST0), 24),
    ] {
        let mut machine = Machine::new(&K7);
        let instruction = machine.instruction(name, shape, chain);
        assert_eq!(machine.rounds(&[instruction], 100), 100 * cycles, "{name} {shape:?}");
    }
    let retired = |shape, chain| {
        let mut machine = Machine::new(&K7);
        let instruction = machine.instruction("Fadd", shape, chain);
        machine.execute(&instruction, 3, Execution::default())
    };
    let register = retired((Form::RegReg, Width::Bits80), operands(ST0 | ST1, 0, ST0));
    assert_eq!(register, retired((Form::Mem, Width::Bits64), operands(ST0, ESI, ST0)));
}

/// A. Fog, section 29: delays, and how many cycles apart independent ones begin.
#[test]
fn p6_delays_and_throughputs_are_those_measured() {
    const DIVIDE: (Form, Width) = (Form::Reg, Width::Bits32);
    const X87: (Form, Width) = (Form::RegReg, Width::Bits80);
    for (name, shape, chain, delay, apart) in [
        ("Add", REGISTERS, operands(EAX, 0, EAX), 1, None),
        ("Imul", REGISTERS, operands(EAX, 0, EAX), 4, Some(1)),
        ("Div", DIVIDE, operands(EAX, 0, EAX), 39, Some(37)),
        ("Fdiv", X87, operands(ST0, 0, ST0), 38, Some(37)),
        ("Fadd", X87, operands(ST0, 0, ST0), 3, Some(1)),
        ("Fmul", X87, operands(ST0, 0, ST0), 5, Some(2)),
        ("Mov", SOURCE, operands(0, EAX, EAX), 3, None),
    ] {
        for core in [&P6, &PM] {
            let mut machine = Machine::new(core);
            let instruction = machine.instruction(name, shape, chain);
            assert_eq!(machine.rounds(&[instruction], 100), 100 * delay, "{name}");
            let Some(apart) = apart else { continue };
            let mut machine = Machine::new(core);
            let instruction = machine.instruction(name, shape, Operands { sources: 0, ..chain });
            let taken = machine.rounds(&[instruction], 100);
            assert!(taken.abs_diff(100 * apart) <= 1, "{name} {taken}");
        }
    }
}

/// A. Fog, section 29.1: a loop of a jump to itself takes two cycles.
#[test]
fn p6_jumps_every_second_cycle() {
    let mut machine = Machine::new(&P6);
    let jump = machine.instruction("Jmp", (Form::None, Width::Bits32), Operands::default());
    let mut round = || {
        machine.address = 0x100;
        machine.execute(&jump, 2, Execution { taken: true, ..Execution::default() })
    };
    let start = (0..100).map(|_| round()).last().unwrap();
    let end = (0..100).map(|_| round()).last().unwrap();
    assert_eq!(end - start, 200);
}

/// A. Fog, chapter 14: instructions of 1, 1, 2 and 4 micro-operations are decoded in three cycles, since only
/// the first decoder takes the last two; in the order 2, 1, 1, 4 in two.
#[test]
fn p6_decodes_in_fewer_cycles_if_the_first_decoder_is_used() {
    let run = |order: [usize; 4]| {
        let mut machine = Machine::new(&P6);
        let one = machine.instruction("Mov", REGISTERS, operands(0, 0, ECX));
        let two = machine.instruction("Add", SOURCE, operands(0, 0, EDX));
        let four = machine.instruction("Add", (Form::MemReg, Width::Bits32), operands(0, 0, 0));
        let all = [one, one, two, four];
        order.map(|n| machine.execute(&all[n], 2, Execution::default()))[3]
    };
    assert_eq!(run([0, 1, 2, 3]) - run([2, 0, 1, 3]), 1);
}

/// A read of EAX behind a write of AL waits until that has retired; not if EAX was zeroed before (the
/// rule of Intel's optimisation manuals for the P6 family).
#[test]
fn p6_waits_for_the_retirement_of_a_partial_write() {
    let run = |zeroed: bool| {
        let mut machine = Machine::new(&P6);
        let zero = machine.instruction(
            "Xor",
            REGISTERS,
            Operands { zeroes: zeroed, ..operands(EAX, 0, EAX | FLAGS) },
        );
        let low = machine.instruction(
            "Mov",
            (Form::RegImm, Width::Bits8),
            Operands { partial: EAX, ..operands(0, 0, EAX) },
        );
        let read =
            machine.instruction("Mov", REGISTERS, Operands { whole: EAX, ..operands(EAX, 0, ECX) });
        for instruction in [zero, low, read] {
            machine.execute(&instruction, 2, Execution::default());
        }
        machine.fired(Signal::StallPartialRegister)
    };
    // The write is dispatched in the cycle of the read's turn, issued in the next, complete in the one
    // behind and retires in the one behind that: the read can go in the fourth.
    assert_eq!((run(false), run(true)), (4, 0));
}

/// Intel 248966 pages 1-28, 1-29: a push is one fused micro-operation and needs none for ESP, until an
/// instruction reads ESP itself.
#[test]
fn pm_fuses_stores_and_folds_the_stack_pointer() {
    const ESP: u64 = 1 << registers::STACK_POINTER;
    for (core, pushes, brought_up) in [(&P6, 3, 0), (&PM, 1, 1)] {
        let mut machine = Machine::new(core);
        let push =
            machine.instruction("Push", (Form::Reg, Width::Bits32), operands(EAX | ESP, ESP, ESP));
        let read = machine.instruction("Mov", SOURCE, operands(0, ESP, ECX));
        for instruction in [push, push, read, read] {
            machine.execute(&instruction, 2, Execution::default());
        }
        let fused = if brought_up == 1 { 2 } else { 0 };
        assert_eq!(machine.fired(Signal::UopRetired), 2 * pushes + 2 + brought_up);
        assert_eq!(machine.fired(Signal::UopEsp), brought_up);
        assert_eq!(machine.fired(Signal::UopFusedStore), fused);
        assert_eq!(machine.fired(Signal::UopFusedLoadOp), 0);
    }
}

/// DirectPath Doubles by the position of their first half (BKDG 26094, event CCh): they straddle two
/// lines where only one decoder is left.
#[test]
fn k8_doubles_are_counted_by_their_position() {
    let mut machine = Machine::new(&K8);
    let pop = machine.instruction("Leave", (Form::None, Width::Bits32), operands(0, 0, 0));
    for _ in 0..6 {
        machine.execute(&pop, 1, Execution::default());
    }
    // 0+1, 2 and 0, 1+2; and again.
    for signal in
        [Signal::UopFastpathDouble0, Signal::UopFastpathDouble1, Signal::UopFastpathDouble2]
    {
        assert_eq!(machine.fired(signal), 2);
    }
}
