//! What execution takes with costs that are not flat, and the budgets that end a run.

use iced_x86::code_asm::*;
use x86_cpu::block::Translations;
use x86_cpu::insn::{Insn, Mem};
use x86_cpu::observe::{Counting, Cx, Observer, Plain};
use x86_cpu::operation::Operation;
use x86_cpu::run::Exit;
use x86_cpu::timing::{Budget, CycleCosts};

use crate::machine::{CODE, DATA, Machine, RCX};

/// A memory operand takes 3, a multiplication 4, all else 1; a taken branch 2 more, an iteration 5, a
/// delivery 7.
fn price(insn: &Insn) -> u8 {
    match insn.op {
        Operation::Imul => 4,
        _ if insn.mem != Mem::NONE => 3,
        _ => 1,
    }
}

const PRICED: CycleCosts = CycleCosts { instruction: price, taken: 2, iteration: 5, delivery: 7 };

/// Each instruction that [`program`] executes, in turn: the cycles it takes.
fn takes() -> Vec<u64> {
    let turn = |last: u64| [1, 3, 4, 3, 1, last];
    // Three turns of the loop; JNZ is taken twice.
    let turns = [turn(3), turn(3), turn(1)].concat();
    // MOV three times before; CALL, NOP, RET, NOP, JMP, HLT behind.
    [&[1, 1, 1][..], &turns, &[3, 1, 3, 1, 3, 1]].concat()
}

fn program(m: &mut Machine) {
    m.load(CODE, 64, |a| {
        let (mut top, mut function, mut over) =
            (a.create_label(), a.create_label(), a.create_label());
        a.mov(rbx, DATA).unwrap();
        a.mov(ecx, 3).unwrap();
        a.mov(eax, 5).unwrap();
        a.set_label(&mut top).unwrap();
        a.nop().unwrap();
        a.mov(edx, dword_ptr(rbx)).unwrap();
        a.imul_2(eax, edx).unwrap();
        a.add(dword_ptr(rbx), 1).unwrap();
        a.dec(ecx).unwrap();
        a.jnz(top).unwrap();
        a.call(function).unwrap();
        a.nop().unwrap();
        a.jmp(over).unwrap();
        a.set_label(&mut function).unwrap();
        a.nop().unwrap();
        a.ret().unwrap();
        a.set_label(&mut over).unwrap();
        a.hlt().unwrap();
    });
}

/// Runs with these costs until the budget is used up or the guest halts. Its steps are here the number
/// of instructions retired since power-on, for it may take several runs.
fn run<O: Observer + Default>(m: &mut Machine, budget: Budget) -> Exit {
    let mut translations = Translations::<O>::new().with_cycle_costs(PRICED);
    loop {
        let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer: O::default() };
        let left = budget.steps.saturating_sub(m.cpu.retired());
        let exit = m.cpu.run(&mut context, &mut translations, Budget { steps: left, ..budget });
        if exit != Exit::Leave {
            return exit;
        }
    }
}

/// Instructions and cycles of the whole program, by hand: 3 MOV; NOP, load, IMUL, read-modify-write,
/// DEC and JNZ, 13 + 2 for a taken branch; CALL 3, NOP 1, RET 3, NOP 1, JMP 3, HLT 1.
#[test]
fn instructions_take_what_the_costs_say() {
    for counted in [false, true] {
        let mut m = Machine::long();
        program(&mut m);
        let start = (m.cpu.retired(), m.cpu.time);
        let run = if counted { run::<Counting> } else { run::<Plain> };
        assert_eq!(run(&mut m, Budget::until(u64::MAX)), Exit::Halt);
        let turns = (13 + 2) + (13 + 2) + 13;
        assert_eq!(m.cpu.retired() - start.0, 3 + 3 * 6 + 6);
        assert_eq!(m.cpu.time - start.1, 3 + turns + 3 + 1 + 3 + 1 + 3 + 1);
    }
}

/// For each time: the run ends behind the instruction that begins before it. For each number of steps:
/// behind so many instructions.
#[test]
fn a_budget_ends_a_run_on_its_instruction() {
    let takes = takes();
    let ends: Vec<u64> = takes
        .iter()
        .scan(0, |time, cycles| {
            *time += cycles;
            Some(*time)
        })
        .collect();
    for counted in [false, true] {
        let run = if counted { run::<Counting> } else { run::<Plain> };
        for until in 1..*ends.last().unwrap() {
            let mut m = Machine::long();
            program(&mut m);
            let start = (m.cpu.retired(), m.cpu.time);
            assert_eq!(run(&mut m, Budget::until(start.1 + until)), Exit::Deadline);
            let at = ends.iter().position(|&end| end >= until).unwrap();
            let reached = (m.cpu.retired() - start.0, m.cpu.time - start.1);
            assert_eq!(reached, (at as u64 + 1, ends[at]), "{until}");
        }
        for steps in 1..takes.len() as u64 {
            let mut m = Machine::long();
            program(&mut m);
            let start = (m.cpu.retired(), m.cpu.time);
            let budget = Budget { steps: start.0 + steps, ..Budget::until(u64::MAX) };
            assert_eq!(run(&mut m, budget), Exit::Deadline);
            let reached = (m.cpu.retired() - start.0, m.cpu.time - start.1);
            assert_eq!(reached, (steps, ends[steps as usize - 1]), "{steps}");
        }
    }
}

/// A repeated instruction takes its own cycle and five for each further element; it stops between two
/// elements at a time, and after a number of steps.
#[test]
fn a_repeated_instruction_is_paid_by_the_element() {
    let machine = || {
        let mut m = Machine::long();
        m.load(CODE, 64, |a| {
            a.mov(rdi, DATA).unwrap();
            a.mov(ecx, 10).unwrap();
            a.rep().stosb().unwrap();
            a.hlt().unwrap();
        });
        m
    };
    // STOSB begins at 2; price() sees its memory operand: 3, and 9 times 5.
    let mut m = machine();
    let start = m.cpu.time;
    assert_eq!(run::<Plain>(&mut m, Budget::until(u64::MAX)), Exit::Halt);
    assert_eq!(m.cpu.time - start, 2 + 3 + 9 * 5 + 1);
    // Elements begin at 2, 7, 12, ...: three before 17, four before 18.
    for (until, left) in [(16, 7), (17, 7), (18, 6)] {
        let mut m = machine();
        let until = m.cpu.time + until;
        assert_eq!(run::<Plain>(&mut m, Budget::until(until)), Exit::Deadline);
        assert_eq!(m.cpu.gpr(RCX), left);
    }
    // Two MOVs, and four elements that are not the last.
    let mut m = machine();
    let start = m.cpu.time;
    let mut translations = Translations::<Plain>::new().with_cycle_costs(PRICED);
    let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer: Plain };
    let budget = Budget { steps: 6, ..Budget::until(u64::MAX) };
    assert_eq!(m.cpu.run(&mut context, &mut translations, budget), Exit::Deadline);
    assert_eq!((m.cpu.gpr(RCX), m.cpu.time - start), (6, 2 + 4 * 5));
}

/// An exception takes seven cycles to be delivered and is a step; INT n is an instruction and a taken
/// branch.
#[test]
fn a_delivery_takes_what_the_costs_say() {
    // UD2; INT 30h.
    for (code, retired, cycles) in [([0x0f, 0x0b], 0, 7), ([0xcd, 0x30], 1, 1 + 2)] {
        let mut m = Machine::long();
        m.write(CODE, &code);
        m.cpu.rip = CODE;
        let start = (m.cpu.retired(), m.cpu.time);
        let mut translations = Translations::<Plain>::new().with_cycle_costs(PRICED);
        let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer: Plain };
        let budget = Budget { steps: 1, ..Budget::until(u64::MAX) };
        assert_eq!(m.cpu.run(&mut context, &mut translations, budget), Exit::Deadline);
        assert_eq!((m.cpu.retired() - start.0, m.cpu.time - start.1), (retired, cycles));
    }
}
