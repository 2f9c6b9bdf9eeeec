//! A model that need not be told of each instruction is told the same as one that is: the same accesses,
//! walks, branches and deliveries, in the same order, and a run ends at the same place.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use iced_x86::code_asm::*;
use x86_cpu::{
    block::{Code, MAX_INSNS, Translations},
    cpu::Cpu,
    descriptor::Segment,
    insn::{Insn, Mem},
    mode::CodeSize,
    observe::{Access, Cx, Delivery, Direction, Facts, Observer, Target, Walk},
    operation::Operation,
    ram::Ram,
    run::Exit,
    timing::{Budget, CycleCosts},
    watch::{AccessKind, ExecutionContext, Fetch, Transfer, Watch, Watching},
};

use crate::machine::*;
use crate::models::Random;

/// The first byte of linear memory that is not mapped.
const UNMAPPED: u64 = 0x20_0000;
/// Where a counter of the program is.
const COUNTER: u64 = DATA + 0xf00;

/// What a model is told, but for what only an attentive one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Entered(Fetch),
    Accessed(u64, u64, u32, Direction),
    /// An access that only the whole of it describes.
    AccessedWhole(Access, AccessKind),
    Walked(u64),
    Branched(Transfer),
    Serialised(Operation),
    Fenced,
    Delivered(Delivery, u64, u64),
    Changed(ExecutionContext),
}

/// Whether a model wants to be told of each instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    Always,
    /// Only where its budget is nearly used up.
    Near,
    /// There and in some blocks.
    AtTimes,
    /// Never, and it logs nothing of what it finds and expects.
    Never,
}

/// Logs what it is told, and ends the run at so many accesses.
struct Model {
    log: Vec<Told>,
    attention: Attention,
    accesses: u64,
    budget: u64,
    /// Accesses that were told at once.
    found: u64,
    /// Transfers that it expected.
    expected: u64,
    /// Linear addresses of the instructions that have begun, but for what begins again at once; and whether those of the
    /// running block are there from its beginning.
    begun: Vec<u64>,
    at_once: bool,
}

impl Model {
    /// A block is entered at a linear address, whose instructions begin, unless it is told otherwise.
    fn begin_all(&mut self, block: &impl Code, linear: u64) {
        self.at_once = !self.is_attentive();
        if self.at_once {
            let addresses = block.instructions().map(|insn| linear + u64::from(insn.start()));
            addresses.for_each(|address| self.begin(address));
        }
    }

    fn begin(&mut self, address: u64) {
        if self.begun.last() != Some(&address) {
            self.begun.push(address);
        }
    }

    /// Of the running block, nothing behind this address has begun.
    fn unbegin(&mut self, next: u64) {
        if std::mem::take(&mut self.at_once) {
            while self.begun.last().is_some_and(|&begun| begun >= next) {
                self.begun.pop();
            }
        }
    }
}

/// Nobody can foresee it, and it is the same for every model that was told the same.
fn toss(log: &[Told], of: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    (log.len(), of).hash(&mut hasher);
    hasher.finish() & 3 != 0
}

impl Watch for Model {
    const MODELS: bool = true;

    fn entered(&mut self, _: &Cpu, _: &Ram, block: &impl Code, fetch: &Fetch) {
        self.log.push(Told::Entered(*fetch));
        self.begin_all(block, fetch.linear);
    }
    fn enters_quietly(&mut self, cpu: &Cpu, block: &impl Code, linear: u64) -> bool {
        assert_eq!(block.is_64_bit(), cpu.code_size() == CodeSize::Bits64);
        assert_eq!(linear, cpu.linear_rip());
        if self.attention == Attention::Never {
            return true;
        }
        let fetch = Fetch {
            linear,
            physical: block.address_in_ram(),
            second_page: None,
            len: block.bytes() as u16,
        };
        self.log.push(Told::Entered(fetch));
        let enters = !self.is_attentive();
        if enters {
            self.begin_all(block, linear);
        } else {
            self.log.pop();
        }
        enters
    }
    fn begins(&mut self, _: &Cpu, _: &Ram, _: &Insn, fetch: impl FnOnce() -> Fetch) -> bool {
        if !self.at_once {
            self.begin(fetch().linear);
        }
        false
    }
    fn attends_from(&mut self, next: u64) {
        if toss(&self.log, next) {
            self.unbegin(next);
        }
    }
    fn left(&mut self, next: u64) {
        self.unbegin(next);
    }
    fn is_attentive(&self) -> bool {
        let near = self.budget.saturating_sub(self.accesses) <= 4 * MAX_INSNS as u64;
        match self.attention {
            Attention::Always => true,
            Attention::Near => near,
            Attention::AtTimes => near || !toss(&self.log, 0),
            Attention::Never => false,
        }
    }
    fn finds_again(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
        direction: Direction,
    ) -> bool {
        (self.attention == Attention::Never || toss(&self.log, !linear))
            && self.finds(linear, physical, bytes, direction)
    }
    fn finds(&mut self, linear: u64, physical: u64, bytes: u32, direction: Direction) -> bool {
        if self.attention == Attention::Never {
            return true;
        }
        let finds = toss(&self.log, linear);
        if finds {
            self.found += 1;
            self.accesses += 1;
            self.log.push(Told::Accessed(linear, physical, bytes, direction));
        }
        finds
    }
    fn accessed(&mut self, _: &Cpu, _: &Ram, access: &Access, kind: AccessKind) {
        let Access { linear, physical, bytes, elements, direction, second_page, target } = *access;
        self.accesses += 1;
        let is_plain = matches!(
            kind,
            AccessKind::Plain | AccessKind::Stack | AccessKind::String | AccessKind::Mmx
        );
        let is_one = elements == 1 && second_page.is_none() && target == Target::Memory;
        self.log.push(match is_plain && is_one && direction != Direction::Touch {
            true => Told::Accessed(linear, physical, bytes, direction),
            false => Told::AccessedWhole(*access, kind),
        });
    }
    fn walked(&mut self, walk: &Walk) {
        self.log.push(Told::Walked(walk.linear));
    }
    fn branched_quickly(&mut self, transfer: &Transfer) -> bool {
        if self.attention == Attention::Never {
            return true;
        }
        let expects = toss(&self.log, transfer.from);
        if expects {
            self.expected += 1;
            self.log.push(Told::Branched(*transfer));
        }
        expects
    }
    fn branched(&mut self, transfer: &Transfer) {
        self.log.push(Told::Branched(*transfer));
    }
    fn serialised(&mut self, _: &Cpu, insn: &Insn) {
        self.log.push(Told::Serialised(insn.op));
    }
    fn fenced(&mut self) {
        self.log.push(Told::Fenced);
    }
    fn delivered(&mut self, delivery: Delivery, from: u64, to: u64) {
        self.log.push(Told::Delivered(delivery, from, to));
    }
    fn changed(&mut self, now: &ExecutionContext) {
        self.log.push(Told::Changed(*now));
    }
    fn modelled(&mut self) -> &mut [u64] {
        std::slice::from_mut(&mut self.accesses)
    }
    fn is_spent(&self) -> bool {
        self.accesses >= self.budget
    }
}

/// A program that ends with HLT: a loop of blocks with accesses of all kinds, some of which fault, calls,
/// branches that go either way, and a store to its own code.
fn program(random: &mut Random) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut patched = a.create_label();
    let mut routine = a.create_label();
    let mut top = a.create_label();
    let mut after = a.create_label();
    a.mov(dword_ptr(COUNTER), 6 + random.below(4) as i32).unwrap();
    a.set_label(&mut top).unwrap();
    for _ in 0..random.below(30) + 10 {
        one(&mut a, random, routine, patched).unwrap();
    }
    a.dec(dword_ptr(COUNTER)).unwrap();
    a.jnz(top).unwrap();
    a.jmp(after).unwrap();
    a.set_label(&mut routine).unwrap();
    a.add(qword_ptr(DATA + 0x80), rbx).unwrap();
    a.set_label(&mut patched).unwrap();
    a.mov(ecx, 1_u32).unwrap();
    match random.below(3) {
        0 => a.ret().unwrap(),
        1 => a.ret_1(0).unwrap(),
        _ => {
            a.push(qword_ptr(rsp)).unwrap();
            a.ret_1(8).unwrap();
        }
    }
    a.set_label(&mut after).unwrap();
    a.hlt().unwrap();
    a.assemble(CODE).unwrap()
}

/// An instruction or a few of them.
fn one(
    a: &mut CodeAssembler,
    random: &mut Random,
    routine: CodeLabel,
    patched: CodeLabel,
) -> Result<(), iced_x86::IcedError> {
    // Some of them reach into the next page.
    let at = |random: &mut Random| match random.below(6) {
        0 => DATA + 0xff0 + random.below(20),
        _ => DATA + random.below(0x200),
    };
    match random.below(26) {
        0 => a.mov(eax, dword_ptr(at(random))),
        1 => a.mov(qword_ptr(at(random)), rbx),
        2 => a.inc(word_ptr(at(random))),
        3 => a.push(rbx).and_then(|()| a.pop(rax)),
        4 => a.push(qword_ptr(at(random))).and_then(|()| a.pop(qword_ptr(at(random)))),
        5 => a.call(routine),
        6 => a.lock().add(dword_ptr(at(random)), 3),
        7 => a.movnti(dword_ptr(at(random)), eax),
        8 => a.prefetchnta(byte_ptr(at(random))),
        9 => a.sfence(),
        10 => a.cpuid(),
        11 => {
            a.mov(rsi, at(random))?;
            a.mov(rdi, at(random))?;
            a.movsw()
        }
        12 => {
            a.mov(rdi, at(random))?;
            a.mov(ecx, random.below(40) as u32)?;
            a.rep().stosb()
        }
        13 | 14 => {
            let mut over = a.create_label();
            a.add(ebx, at(random) as u32)?;
            a.test(ebx, 1 << random.below(5))?;
            a.jz(over)?;
            a.mov(dword_ptr(at(random)), ebx)?;
            a.set_label(&mut over)
        }
        15 | 16 => {
            // Its handler goes on at R15.
            let mut over = a.create_label();
            a.lea(r15, ptr(over))?;
            a.mov(eax, dword_ptr(at(random)))?;
            match random.below(4) {
                0 => a.mov(eax, dword_ptr(UNMAPPED + 8))?,
                1 => a.add(dword_ptr(UNMAPPED - 2), eax)?,
                2 => a.push(qword_ptr(UNMAPPED))?,
                _ => a.movq(mm0, qword_ptr(UNMAPPED - 4))?,
            }
            a.mov(edx, dword_ptr(at(random)))?;
            a.set_label(&mut over)
        }
        17 => {
            // #DE, behind its access.
            let mut over = a.create_label();
            a.lea(r15, ptr(over))?;
            a.mov(dword_ptr(DATA + 0x300), 0)?;
            a.xor(edx, edx)?;
            a.div(dword_ptr(DATA + 0x300))?;
            a.set_label(&mut over)
        }
        18 => {
            a.lea(r14, ptr(patched))?;
            a.inc(byte_ptr(r14 + 1))?;
            a.mov(eax, dword_ptr(at(random)))
        }
        19 => a.int(0x40),
        20 => {
            a.movq(mm1, qword_ptr(at(random)))?;
            a.movd(dword_ptr(at(random)), mm1)
        }
        21 => a.fld(qword_ptr(at(random))).and_then(|()| a.fstp(dword_ptr(at(random)))),
        22 => a.mov(rax, cr3).and_then(|()| a.mov(cr3, rax)),
        23 => a.rol(dword_ptr(at(random)), 3).and_then(|()| a.bt(dword_ptr(at(random)), 5)),
        24 => {
            // A return to no canonical address: #GP, and the stack is as before.
            let mut over = a.create_label();
            a.lea(r15, ptr(over))?;
            a.mov(rax, 1_u64 << 63)?;
            a.push(rax)?;
            a.ret()?;
            a.set_label(&mut over)?;
            a.pop(rax)
        }
        _ => a.add(rbx, rax),
    }
}

/// Where a run has ended: RIP, instructions retired, time and general registers.
type Place = (u64, u64, u64, [u64; 16]);

/// How a program is run.
#[derive(Clone, Copy, Debug)]
struct How {
    attention: Attention,
    /// Accesses.
    budget: u64,
    /// Of each run.
    steps: u64,
    cycles: u64,
    costs: CycleCosts,
}

/// All of it at once.
fn whole(attention: Attention) -> How {
    let (budget, steps, cycles) = (u64::MAX, u64::MAX, u64::MAX);
    How { attention, budget, steps, cycles, costs: CycleCosts::FLAT }
}

/// What became of a program.
struct Run {
    told: Vec<Told>,
    halted: bool,
    /// Where each run ended.
    ends: Vec<Place>,
    facts: Facts,
    /// Addresses of the instructions that had begun, as a model knows them that is told of blocks.
    begun: Vec<u64>,
    /// How many accesses were told at once, and transfers expected.
    short_ways: [u64; 2],
}

/// A memory operand takes 9 cycles, a string instruction 200, all else 2; a taken branch 3 more.
fn price(insn: &Insn) -> u8 {
    match insn.op {
        Operation::Movs => 200,
        _ if insn.mem != Mem::NONE => 9,
        _ => 2,
    }
}

const PRICED: CycleCosts = CycleCosts { instruction: price, taken: 3, iteration: 5, delivery: 7 };

/// Runs a program until a budget of accesses is spent or the program halts.
fn run(program: &[u8], how: How) -> Run {
    let mut m = Machine::long();
    m.write(CODE, program);
    let with_code = |a: &mut CodeAssembler| {
        a.mov(qword_ptr(rsp + 8), r15).unwrap();
        a.add(rsp, 8).unwrap();
        a.iretq().unwrap();
    };
    m.load(HANDLERS + 13 * 16, 64, with_code);
    m.load(HANDLERS + 14 * 16, 64, with_code);
    m.load(HANDLERS, 64, |a| {
        a.mov(qword_ptr(rsp), r15).unwrap();
        a.iretq().unwrap();
    });
    m.load(HANDLERS + 0x40 * 16, 64, |a| a.iretq().unwrap());
    m.cpu.rip = CODE;
    m.cpu.set_gpr(RSP, KERNEL_STACK);
    run_machine(m, how)
}

/// The same of a machine that has its program.
fn run_machine(mut m: Machine, how: How) -> Run {
    let How { attention, budget, steps, cycles, costs } = how;
    let mut translations = Translations::new().with_cycle_costs(costs);
    let model = Model {
        log: Vec::new(),
        attention,
        accesses: 0,
        budget,
        found: 0,
        expected: 0,
        begun: Vec::new(),
        at_once: false,
    };
    let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer: Watching::new(model) };
    let mut ends = Vec::new();
    loop {
        let until = m.cpu.time.saturating_add(cycles);
        let exit =
            m.cpu.run(&mut context, &mut translations, Budget { steps, ..Budget::until(until) });
        assert_ne!(exit, Exit::Shutdown);
        let registers = std::array::from_fn(|n| m.cpu.gpr(n as u8));
        ends.push((m.cpu.rip, m.cpu.retired(), m.cpu.time, registers));
        let model = &mut context.observer.watch;
        let halted = exit == Exit::Halt;
        if halted || model.is_spent() {
            let short_ways = [model.found, model.expected];
            let (told, begun) = (std::mem::take(&mut model.log), std::mem::take(&mut model.begun));
            let facts = context.observer.facts().map(|facts| *facts).unwrap_or_default();
            return Run { told, halted, ends, facts, begun, short_ways };
        }
    }
}

/// Compares a model that need not be told of each instruction with one that is, run in the same pieces: the former.
fn compare(attentive: impl Fn(How) -> Run, how: How, what: &str) -> Run {
    let want = attentive(How { attention: Attention::Always, ..how });
    let run = attentive(how);
    assert!(run.told == want.told, "{what}, {how:?}: {}", difference(&run.told, &want.told));
    assert_eq!(run.halted, want.halted, "{what}, {how:?}");
    assert!(run.ends == want.ends, "{what}, {how:?}: {}", difference(&run.ends, &want.ends));
    assert_eq!(run.facts, want.facts, "{what}, {how:?}");
    assert!(run.begun == want.begun, "{what}, {how:?}: {}", difference(&run.begun, &want.begun));
    assert_eq!(want.short_ways, [0, 0]);
    run
}

#[test]
fn a_quiet_model_is_told_the_same() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut found, mut expected, mut faults) = (0, 0, 0);
    for round in 0..1000 {
        let program = program(&mut random);
        let what = format!("round {round}");
        let of_program = |how| run(&program, how);
        let all = of_program(whole(Attention::Always));
        assert!(all.halted);
        let accesses = all
            .told
            .iter()
            .filter(|told| matches!(told, Told::Accessed(..) | Told::AccessedWhole(..)))
            .count() as u64;
        faults += all.told.iter().filter(|told| matches!(told, Told::Delivered(..))).count();
        for attention in [Attention::Near, Attention::AtTimes] {
            let whole = whole(attention);
            let [at_once, known] = compare(of_program, whole, &what).short_ways;
            found += at_once;
            expected += known;
            // Cut into pieces of less than a block, and of many.
            let steps = 1 + random.below([40, 700][round % 2]);
            let by_steps = compare(of_program, How { steps, ..whole }, &what);
            let cycles = 1 + random.below([700, 40][round % 2]);
            let by_time = compare(of_program, How { cycles, ..whole }, &what);
            // Where a run ends is nothing that begins.
            assert!(by_steps.begun == all.begun && by_time.begun == all.begun, "{what}");
            assert!([&by_steps, &by_time].iter().all(|run| run.ends.last() == all.ends.last()));
            let cycles = 1 + random.below(5000);
            compare(of_program, How { cycles, costs: PRICED, ..whole }, &what);
            let budget = 1 + random.below(accesses);
            let want = of_program(How { budget, ..self::whole(Attention::Always) });
            let run = of_program(How { budget, ..whole });
            assert!(run.begun == want.begun, "{what}, {budget} accesses");
            let ends = [run.ends.last(), want.ends.last()];
            assert_eq!((run.halted, ends[0]), (want.halted, ends[1]), "{what}, {budget} accesses");
        }
    }
    assert!(found > 25_000, "{found} accesses were told at once");
    assert!(expected > 1000, "{expected} transfers were expected");
    assert!(faults > 10_000, "{faults} deliveries");
}

/// Code of 32 bits, in a segment that begins elsewhere than linear memory: transfers of all kinds.
#[test]
fn a_quiet_model_is_told_the_same_in_32_bits() {
    const BASE: u64 = 0x3000;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut expected = 0;
    for round in 0..300 {
        let mut a = CodeAssembler::new(32).unwrap();
        let [mut top, mut routine, mut over] = [(); 3].map(|()| a.create_label());
        a.mov(ecx, 20 + random.below(20) as u32).unwrap();
        a.set_label(&mut top).unwrap();
        for _ in 0..random.below(12) + 2 {
            let mut skip = a.create_label();
            match random.below(5) {
                0 => a.call(routine).unwrap(),
                1 => a.add(dword_ptr(DATA + random.below(64)), ebx).unwrap(),
                2 => a.jmp(skip).unwrap(),
                3 => {
                    a.test(ecx, 1 << random.below(4)).unwrap();
                    a.jz(skip).unwrap();
                }
                _ => a.push(eax).and_then(|()| a.pop(ebx)).unwrap(),
            }
            a.inc(ebx).unwrap();
            a.set_label(&mut skip).unwrap();
            a.inc(eax).unwrap();
        }
        a.dec(ecx).unwrap();
        a.jnz(top).unwrap();
        a.jmp(over).unwrap();
        a.set_label(&mut routine).unwrap();
        a.xor(ebx, eax).unwrap();
        a.ret().unwrap();
        a.set_label(&mut over).unwrap();
        a.hlt().unwrap();
        let code = a.assemble(CODE).unwrap();
        let of_program = |how| {
            let mut m = Machine::protected();
            let flat = *m.cpu.segment(CS);
            m.cpu.set_segment(CS, Segment { base: BASE, ..flat });
            m.write(CODE + BASE, &code);
            m.cpu.rip = CODE;
            m.cpu.set_gpr(RSP, KERNEL_STACK);
            run_machine(m, how)
        };
        for attention in [Attention::Near, Attention::AtTimes] {
            expected +=
                compare(of_program, whole(attention), &format!("round {round}")).short_ways[1];
            let steps = 1 + random.below(300);
            compare(of_program, How { steps, ..whole(attention) }, &format!("round {round}"));
        }
    }
    assert!(expected > 10_000, "{expected} transfers were expected");
}

/// More loads than the counts of recent ones hold, 2^21, in one run of blocks that are all entered quietly: 46 in
/// each of 60,000 turns, worked out by hand.
#[test]
fn counts_of_a_long_run_are_whole() {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut top = a.create_label();
    a.mov(ecx, 60_000).unwrap();
    a.set_label(&mut top).unwrap();
    for _ in 0..46 {
        a.mov(eax, dword_ptr(DATA)).unwrap();
    }
    a.dec(ecx).unwrap();
    a.jnz(top).unwrap();
    a.hlt().unwrap();
    let code = a.assemble(CODE).unwrap();
    let run = run(&code, whole(Attention::Never));
    assert_eq!((run.facts.loads, run.facts.branches), (46 * 60_000, 60_000));
    assert_eq!((run.facts.stores, run.facts.misaligned, run.facts.taken), (0, 0, 59_999));
    assert_eq!(run.ends.len(), 1);
}

/// The first place at which two lists differ.
fn difference<T: PartialEq + Debug>(one: &[T], other: &[T]) -> String {
    let n = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    format!("at {n}: {:?} and {:?}", one.get(n), other.get(n))
}
