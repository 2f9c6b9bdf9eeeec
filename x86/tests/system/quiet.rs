//! A model that need not be told of each instruction is told the same as one that is: the same accesses,
//! walks, branches and deliveries, in the same order, and a run ends at the same place.

use std::hash::{DefaultHasher, Hash, Hasher};

use iced_x86::code_asm::*;
use x86_cpu::{
    block::{Code, MAX_INSNS, Translations},
    cpu::Cpu,
    insn::Insn,
    observe::{Access, Cx, Delivery, Direction, Target, Walk},
    operation::Operation,
    ram::Ram,
    run::Exit,
    timing::Budget,
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

    fn entered(&mut self, _: &Cpu, block: &impl Code, fetch: &Fetch) {
        self.log.push(Told::Entered(*fetch));
        self.begin_all(block, fetch.linear);
    }
    fn enters_quietly(&mut self, _: &Cpu, block: &impl Code, linear: u64) -> bool {
        let fetch = Fetch {
            linear,
            physical: block.physical(0),
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
        let near = self.budget - self.accesses <= 4 * MAX_INSNS as u64;
        match self.attention {
            Attention::Always => true,
            Attention::Near => near,
            Attention::AtTimes => near || !toss(&self.log, 0),
        }
    }
    fn finds_again(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
        direction: Direction,
    ) -> bool {
        toss(&self.log, !linear) && self.finds(linear, physical, bytes, direction)
    }
    fn finds(&mut self, linear: u64, physical: u64, bytes: u32, direction: Direction) -> bool {
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
    fn expects(&mut self, transfer: &Transfer) -> bool {
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

/// What became of a run: what the model was told, whether the program halted, and where: RIP, instructions retired and
/// general registers.
struct Ran {
    told: Vec<Told>,
    halted: bool,
    place: (u64, u64, [u64; 16]),
    /// Addresses of the instructions that had begun, as a model knows them that is told of blocks.
    begun: Vec<u64>,
    /// How many accesses were told at once, and transfers expected.
    short_ways: [u64; 2],
}

/// Runs a program until a budget of accesses is spent or the program halts.
fn run(program: &[u8], attention: Attention, budget: u64, steps: u64) -> Ran {
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
    let mut translations = Translations::new();
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
    loop {
        let exit =
            m.cpu.run(&mut context, &mut translations, Budget { steps, ..Budget::until(u64::MAX) });
        assert_ne!(exit, Exit::Shutdown);
        let model = &mut context.observer.watch;
        let halted = exit == Exit::Halt;
        if halted || model.is_spent() {
            let registers = std::array::from_fn(|n| m.cpu.gpr(n as u8));
            let place = (m.cpu.rip, m.cpu.retired(), registers);
            let short_ways = [model.found, model.expected];
            let (told, begun) = (std::mem::take(&mut model.log), std::mem::take(&mut model.begun));
            return Ran { told, halted, place, begun, short_ways };
        }
    }
}

#[test]
fn a_quiet_model_is_told_the_same() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut found, mut expected, mut faults) = (0, 0, 0);
    for round in 0..1000 {
        let program = program(&mut random);
        let all = run(&program, Attention::Always, u64::MAX, u64::MAX);
        assert!(all.halted && all.short_ways == [0, 0]);
        let accesses = all
            .told
            .iter()
            .filter(|told| matches!(told, Told::Accessed(..) | Told::AccessedWhole(..)))
            .count() as u64;
        faults += all.told.iter().filter(|told| matches!(told, Told::Delivered(..))).count();
        let compare = |ran: &Ran, want: &Ran, what: &str| {
            let (told, expected) = (&ran.told, &want.told);
            assert!(told == expected, "round {round}, {what}: {}", difference(told, expected));
            let (begun, expected) = (&ran.begun, &want.begun);
            assert!(begun == expected, "round {round}, {what}: {}", difference(begun, expected));
            assert_eq!((ran.halted, ran.place), (want.halted, want.place), "round {round}, {what}");
        };
        for attention in [Attention::Near, Attention::AtTimes] {
            let ran = run(&program, attention, u64::MAX, u64::MAX);
            compare(&ran, &all, &format!("{attention:?}"));
            found += ran.short_ways[0];
            expected += ran.short_ways[1];
            let steps = 1 + random.below(40);
            let want = run(&program, Attention::Always, u64::MAX, steps);
            let ran = run(&program, attention, u64::MAX, steps);
            compare(&ran, &want, &format!("{attention:?}, {steps} steps"));
            // Where a run ends is nothing that begins.
            assert_eq!(ran.begun, all.begun, "round {round}, {steps} steps");
            assert_eq!(ran.place, all.place, "round {round}, {steps} steps");
            let budget = 1 + random.below(accesses);
            let want = run(&program, Attention::Always, budget, u64::MAX);
            let ran = run(&program, attention, budget, u64::MAX);
            assert_eq!(ran.begun, want.begun, "round {round}, {budget} accesses");
            assert_eq!(
                (ran.halted, ran.place),
                (want.halted, want.place),
                "round {round}, {budget} accesses"
            );
        }
    }
    assert!(found > 25_000, "{found} accesses were told at once");
    assert!(expected > 1000, "{expected} transfers were expected");
    assert!(faults > 10_000, "{faults} deliveries");
}

/// The first place at which two lists differ.
fn difference<T: std::fmt::Debug + PartialEq>(one: &[T], other: &[T]) -> String {
    let n = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    format!("at {n}: {:?} and {:?}", one.get(n), other.get(n))
}
