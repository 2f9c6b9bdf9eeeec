//! A model in which something occurs that nobody can foresee ends the run: on the very instruction or
//! iteration. What says where that is steps through the program one by one.

use iced_x86::code_asm::*;
use x86_cpu::{
    block::{Code, Translations},
    cpu::Cpu,
    insn::Insn,
    observe::{Access, Cx, Direction},
    ram::Ram,
    run::Exit,
    timing::Budget,
    watch::{AccessKind, Fetch, Watch, Watching},
};

use crate::machine::*;

/// What a model of a test does: as [`Watch`], of which it is told less.
pub(crate) trait Model {
    fn entered(&mut self) {}
    fn is_attentive(&self) -> bool {
        true
    }
    fn enters_quietly(&mut self) -> bool {
        false
    }
    fn finds(&mut self) -> bool {
        false
    }
    fn accessed(&mut self, _access: &Access) {}
    fn retired(&mut self) {}
    /// What it counts.
    fn count(&mut self) -> &mut u64;
    fn is_spent(&self) -> bool {
        false
    }
}

/// Any of them. To the interpreter they are one type, for which it is compiled once.
pub(crate) struct AnyModel(Box<dyn Model>);

impl AnyModel {
    pub(crate) fn watching(model: impl Model + 'static) -> Box<Watching<Self>> {
        Watching::new(Self(Box::new(model)))
    }
}

impl Watch for AnyModel {
    const MODELS: bool = true;

    fn entered(&mut self, _: &Cpu, _: &Ram, _: &impl Code, _: &Fetch) {
        self.0.entered();
    }
    fn is_attentive(&self) -> bool {
        self.0.is_attentive()
    }
    fn enters_quietly(&mut self, _: &Cpu, _: &impl Code, _: u64) -> bool {
        self.0.enters_quietly()
    }
    fn finds(&mut self, _: u64, _: u64, _: u32, _: Direction) -> bool {
        self.0.finds()
    }
    fn accessed(&mut self, _: &Cpu, _: &Ram, access: &Access, _: AccessKind) {
        self.0.accessed(access);
    }
    fn retired(&mut self, _: &Cpu, _: &Ram, _: &Insn) {
        self.0.retired();
    }
    fn modelled(&mut self) -> &mut [u64] {
        std::slice::from_mut(self.0.count())
    }
    fn is_spent(&self) -> bool {
        self.0.is_spent()
    }
}

/// A cache of four sets of two lines of 32 bytes, the more recent one first, and how often a line was
/// not there.
#[derive(Default)]
struct Lines {
    sets: [[Option<u64>; 2]; 4],
    misses: u64,
    budget: u64,
}

impl Model for Lines {
    fn accessed(&mut self, access: &Access) {
        let last = access.linear + u64::from(access.bytes * access.elements) - 1;
        for line in access.linear / 32..=last / 32 {
            let set = &mut self.sets[line as usize % 4];
            if set[0] != Some(line) {
                self.misses += u64::from(set[1] != Some(line));
                *set = [Some(line), set[0]];
            }
        }
    }
    fn count(&mut self) -> &mut u64 {
        &mut self.misses
    }
    fn is_spent(&self) -> bool {
        self.misses >= self.budget
    }
}

/// Where a run is: RIP, instructions retired, RCX, RSI, RDI, and misses so far.
type Place = (u64, u64, u64, u64, u64, u64);

/// Runs from the start of the program with a budget of misses, in runs of so many steps, until the
/// budget is spent or the program halts; whether it halted, and where.
fn run(program: &[u8], misses: u64, steps: u64) -> (bool, Place) {
    let mut m = Machine::long();
    m.write(CODE, program);
    m.cpu.rip = CODE;
    m.cpu.set_gpr(RSP, KERNEL_STACK);
    let mut translations = Translations::new();
    let observer = AnyModel::watching(Lines { budget: misses, ..Lines::default() });
    let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer };
    loop {
        let exit =
            m.cpu.run(&mut context, &mut translations, Budget { steps, ..Budget::until(u64::MAX) });
        let halted = exit == Exit::Halt;
        let count = *context.observer.watch.0.count();
        if halted || count >= misses {
            assert!(halted || steps == 1 || exit == Exit::Leave, "{exit:?}");
            let gpr = |r| m.cpu.gpr(r);
            let place = (m.cpu.rip, m.cpu.retired(), gpr(RCX), gpr(RSI), gpr(RDI), count);
            return (halted, place);
        }
    }
}

/// A deterministic source of numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A program that ends with HLT, of loads, stores, calls and repeated string instructions of all kinds,
/// lengths, alignments and directions, some of which overlap.
fn program(random: &mut Random) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut one = |a: &mut CodeAssembler| {
        let at = |random: &mut Random| DATA + random.below(0x100);
        match random.below(12) {
            0 => a.mov(eax, dword_ptr(at(random))),
            1 => a.mov(qword_ptr(at(random)), rbx),
            2 => a.inc(word_ptr(at(random))),
            3 => a.push(qword_ptr(at(random))).and_then(|()| a.pop(rax)),
            4 => a.add(rax, rbx),
            kind => {
                a.mov(rsi, at(random)).unwrap();
                a.mov(rdi, at(random)).unwrap();
                a.mov(rcx, random.below(90)).unwrap();
                if random.below(4) == 0 {
                    a.std().unwrap();
                }
                match kind {
                    5 => a.rep().movsb(),
                    6 => a.rep().movsd(),
                    7 => a.rep().stosb(),
                    8 => a.rep().stosq(),
                    9 => a.rep().lodsb(),
                    10 => a.repe().cmpsb(),
                    _ => a.repne().scasw(),
                }
                .unwrap();
                a.cld()
            }
        }
        .unwrap();
    };
    for _ in 0..12 {
        one(&mut a);
    }
    a.hlt().unwrap();
    a.assemble(CODE).unwrap()
}

#[test]
fn a_run_ends_on_the_step_that_uses_up_the_budget() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut ended = 0;
    for round in 0..400 {
        let program = program(&mut random);
        let all = run(&program, u64::MAX, u64::MAX).1.5;
        for _ in 0..4 {
            let misses = 1 + random.below(all.max(1));
            let stepped = run(&program, misses, 1);
            for steps in [u64::MAX, 1 + random.below(40)] {
                let found = run(&program, misses, steps);
                assert_eq!(found.1, stepped.1, "round {round}, {misses} misses, {steps} steps");
            }
            ended += u32::from(!stepped.0);
        }
    }
    assert!(ended > 1000, "{ended} of 1600 runs ended before the program");
}

/// STOSB from 3 bytes before a line on: 3 elements in the first line, then 32 a line. The third line is
/// missed by element 3 + 32 + 1; so 100 - 36 iterations are left, and RIP is at the instruction.
#[test]
fn a_repeated_instruction_ends_between_iterations() {
    let mut a = CodeAssembler::new(64).unwrap();
    a.mov(rdi, DATA + 32 - 3).unwrap();
    a.mov(ecx, 100).unwrap();
    a.rep().stosb().unwrap();
    a.hlt().unwrap();
    let program = a.assemble(CODE).unwrap();
    let (halted, place) = run(&program, 3, u64::MAX);
    // REP STOSB is two bytes, HLT one.
    let at = CODE + program.len() as u64 - 3;
    assert!(!halted);
    assert_eq!(place, (at, 2, 64, place.3, DATA + 32 + 33, 3));
}

/// Counts the blocks that are entered.
#[derive(Default)]
struct Entries(u64);

impl Model for Entries {
    fn entered(&mut self) {
        self.0 += 1;
    }
    fn count(&mut self) -> &mut u64 {
        &mut self.0
    }
    fn is_spent(&self) -> bool {
        self.0 >= 2
    }
}

/// What the fetch of a block does belongs to its first instruction: of JMP and three NOPs behind it, the
/// run ends behind the first NOP.
#[test]
fn a_fetch_ends_the_run_behind_the_first_instruction() {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut over = a.create_label();
    a.jmp(over).unwrap();
    a.int3().unwrap();
    a.set_label(&mut over).unwrap();
    a.nop().unwrap();
    a.nop().unwrap();
    a.nop().unwrap();
    a.hlt().unwrap();
    let mut m = Machine::long();
    m.write(CODE, &a.assemble(CODE).unwrap());
    m.cpu.rip = CODE;
    let mut translations = Translations::new();
    let observer = AnyModel::watching(Entries::default());
    let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer };
    let exit = m.cpu.run(&mut context, &mut translations, Budget::until(u64::MAX));
    // JMP is two bytes, INT3 and NOP one each.
    assert_eq!((exit, m.cpu.retired(), m.cpu.rip), (Exit::Leave, 2, CODE + 4));
}
