//! What an observer of everything is told. Expectations are worked out by hand from the machine's page
//! tables (identity, 4 KiB pages, entries of 8 bytes) and the encodings of the instructions.

use iced_x86::{IcedError, code_asm::*};
use x86_cpu::{
    block::{Code, Translations},
    cpu::Cpu,
    features::Features,
    insn::Insn,
    observe::{Access, Cx, Delivery, Direction, FloatCases, FloatUnit, Observer, Target, Walk},
    operation::Operation,
    ram::Ram,
    run::Exit,
    timing::Budget,
    watch::{
        AccessKind, Aside, ExecutionContext, Fetch, Hint, Transfer, TransferKind, Watch, Watching,
    },
};

use crate::machine::*;

/// The first byte of linear memory that is not mapped.
const UNMAPPED: u64 = 0x20_0000;

/// Remembers all that it is told.
#[derive(Default)]
struct Log {
    fetches: Vec<Fetch>,
    entries: Vec<Fetch>,
    accesses: Vec<(Access, AccessKind)>,
    walks: Vec<Walk>,
    transfers: Vec<Transfer>,
    retired: Vec<Operation>,
    /// With how many had retired before.
    float_cases: Vec<(usize, FloatUnit, FloatCases)>,
    serialised: u32,
    fenced: u32,
    deliveries: Vec<(Delivery, u64, u64)>,
    /// The time that was told last, and that of each delivery.
    time: u64,
    times: Vec<u64>,
    changes: Vec<ExecutionContext>,
    /// What was observed of a processor that does not run.
    aside: Aside,
}

impl Watch for Log {
    fn entered(&mut self, _: &Cpu, _: &Ram, _: &impl Code, fetch: &Fetch) {
        self.entries.push(*fetch);
    }
    fn fetched(&mut self, fetch: &Fetch) {
        self.fetches.push(*fetch);
    }
    fn accessed(&mut self, _: &Cpu, _: &Ram, access: &Access, kind: AccessKind) {
        self.accesses.push((*access, kind));
    }
    fn walked(&mut self, walk: &Walk) {
        self.walks.push(*walk);
    }
    fn branched(&mut self, transfer: &Transfer) {
        self.transfers.push(*transfer);
    }
    fn float_cases(&mut self, unit: FloatUnit, cases: FloatCases) {
        self.float_cases.push((self.retired.len(), unit, cases));
    }
    fn retired(&mut self, _: &Cpu, _: &Ram, insn: &Insn) {
        self.retired.push(insn.op);
    }
    fn serialised(&mut self, _: &Cpu, _: &Insn) {
        self.serialised += 1;
    }
    fn fenced(&mut self) {
        self.fenced += 1;
    }
    fn at(&mut self, time: u64) {
        self.time = time;
    }
    fn delivering(&mut self) {
        self.times.push(self.time);
    }
    fn delivered(&mut self, delivery: Delivery, from: u64, to: u64) {
        self.deliveries.push((delivery, from, to));
    }
    fn changed(&mut self, now: &ExecutionContext) {
        self.changes.push(*now);
    }
}

/// Runs a program with an HLT behind it to the HLT, or to that of a handler.
fn watch(
    m: &mut Machine,
    program: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>,
) -> Log {
    m.load(CODE, 64, |a| {
        program(a).unwrap();
        a.hlt().unwrap();
    });
    let mut translations = Translations::new();
    let observer = Watching::new(Log::default());
    let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer };
    loop {
        let until = m.cpu.time + 1000;
        let exit = m.cpu.run(&mut context, &mut translations, Budget::until(until));
        if matches!(exit, Exit::Halt | Exit::Shutdown) {
            return context.observer.watch;
        }
    }
}

fn machine() -> Machine {
    let mut m = Machine::long();
    m.cpu.set_gpr(RSI, DATA);
    m.cpu.set_gpr(RDI, DATA + 0x800);
    m.cpu.set_gpr(RSP, KERNEL_STACK);
    m
}

/// Linear address, bytes, elements, direction and kind of each access.
fn accesses(log: &Log) -> Vec<(u64, u32, u32, Direction, AccessKind)> {
    let of = |(a, kind): &(Access, AccessKind)| (a.linear, a.bytes, a.elements, a.direction, *kind);
    log.accesses.iter().map(of).collect()
}

#[test]
fn accesses_have_their_kind() {
    use AccessKind::{Flush, Locked, Mmx, NonTemporal, Plain, Prefetch, Stack, String};
    use Direction::{Load, Modify, Store, Touch};
    let log = watch(&mut machine(), |a| {
        a.mov(eax, dword_ptr(rsi + 4))?;
        a.push(qword_ptr(rsi))?;
        a.pop(rbx)?;
        a.lock().add(word_ptr(rdi), 1)?;
        a.inc(byte_ptr(rdi + 2))?;
        a.movnti(dword_ptr(rdi + 8), eax)?;
        a.movq(mm0, qword_ptr(rsi + 8))?;
        a.movd(dword_ptr(rdi + 16), mm0)?;
        a.prefetchnta(byte_ptr(rsi + 64))?;
        a.prefetchw(byte_ptr(rsi + 128))?;
        a.clflush(byte_ptr(rsi))?;
        a.movsb()
    });
    let (source, target, stack) = (DATA, DATA + 0x800, KERNEL_STACK - 8);
    assert_eq!(
        accesses(&log),
        [
            (source + 4, 4, 1, Load, Plain),
            (source, 8, 1, Load, Plain),
            (stack, 8, 1, Store, Stack),
            (stack, 8, 1, Load, Stack),
            (target, 2, 1, Modify, Locked),
            (target + 2, 1, 1, Modify, Plain),
            (target + 8, 4, 1, Store, NonTemporal),
            (source + 8, 8, 1, Load, Mmx),
            (target + 16, 4, 1, Store, Mmx),
            (source + 64, 1, 1, Touch, Prefetch(Hint::Nta)),
            (source + 128, 1, 1, Touch, Prefetch(Hint::Write)),
            (source, 1, 1, Touch, Flush),
            (source, 1, 1, Load, String),
            (target, 1, 1, Store, String),
        ]
    );
    assert!(log.accesses.iter().all(|(a, _)| a.physical == a.linear));
    assert!(
        log.accesses.iter().all(|(a, _)| a.target == Target::Memory && a.second_page.is_none())
    );
}

/// Bytes by XED's definition of the instructions. `F` is 62h F2h 79h 09h C6h, the prefetches of
/// `[rsi+zmm5*4]{k1}`, by the reg field of what follows.
#[test]
fn vector_instructions_name_lines_and_write_them_whole() {
    use Direction::{Store, Touch};
    let vpu =
        Features { vpu: true, sse: false, sse2: false, sse3: false, mmx: false, ..Features::K8 };
    let mut m = machine();
    m.cpu.features = vpu;
    m.cpu.set_vxcsr(1 << 21);
    m.cpu.set_gpr(RAX, 0xffff);
    // Lanes 0 to 7 in one line, 8 to 14 in the next but one, 15 where no page is.
    let mut indices = [0; 64];
    for n in 8..15 {
        indices[4 * n] = 32;
    }
    indices[60..].copy_from_slice(&((UNMAPPED / 4) as u32).to_le_bytes());
    m.cpu.set_zmm(5, indices);
    let prefetch = |reg: u8| [0x62, 0xf2, 0x79, 0x09, 0xc6, 0x04 | reg << 3, 0xae];
    // kmov k1, eax
    let all: &[u8] = &[0xc5, 0xf8, 0x92, 0xc8];
    // vmovnraps [rdi], zmm1; vmovnrngoapd [rdi+64], zmm1; the first with {k1}, which is empty then, and
    // again, which is not.
    let stores: [&[u8]; 2] =
        [&[0x62, 0xf1, 0x7b, 0x08, 0x29, 0x0f], &[0x62, 0xf1, 0xfa, 0x88, 0x29, 0x4f, 0x01]];
    let masked: &[u8] = &[0x62, 0xf1, 0x7b, 0x09, 0x29, 0x0f];
    let log = watch(&mut m, |a| {
        for reg in [0, 4] {
            a.db(all)?;
            a.db(&prefetch(reg))?;
        }
        for reg in [1, 2, 5, 6] {
            a.db(all)?;
            for _ in 0..4 {
                a.db(&prefetch(reg))?;
            }
        }
        stores.iter().try_for_each(|store| a.db(store))?;
        a.db(masked)?;
        a.db(all)?;
        a.db(masked)
    });
    let hints = [Hint::T0, Hint::T1, Hint::Write, Hint::WriteT1];
    let named = hints.iter().flat_map(|&hint| {
        let kind = AccessKind::Prefetch(hint);
        [(DATA, 1, 1, Touch, kind), (DATA + 128, 1, 1, Touch, kind)]
    });
    let target = DATA + 0x800;
    let written = [
        (target, 64, 1, Store, AccessKind::NoRead { ordered: true }),
        (target + 64, 64, 1, Store, AccessKind::NoRead { ordered: false }),
        (target, 64, 1, Store, AccessKind::Vector),
    ];
    assert_eq!(accesses(&log), named.chain(written).collect::<Vec<_>>());
}

/// The page directory of [`Machine::long`], whose first entry is a large page.
const PAGE_DIRECTORY: u64 = PML4 + 0x2000;
/// Free memory for a page table, which maps from [`MAPPED`] on.
const PAGE_TABLE: u64 = 0x4_0000;
const MAPPED: u64 = 0x40_0000;

/// Maps the pages from [`MAPPED`] on to these.
fn map(m: &mut Machine, pages: &[u64]) {
    m.write_u64(PAGE_DIRECTORY + (MAPPED >> 21) * 8, PAGE_TABLE | 3);
    for (n, page) in (0..).zip(pages) {
        m.write_u64(PAGE_TABLE + n * 8, page | 3);
    }
}

/// An operand that crosses into another page has a physical address in each.
#[test]
fn an_access_may_reach_into_another_page() {
    let mut m = machine();
    map(&mut m, &[0x5_0000, 0x1_9000]);
    m.cpu.set_gpr(RSI, MAPPED + 0xffc);
    let log = watch(&mut m, |a| a.mov(rax, qword_ptr(rsi)));
    let (access, _) = log.accesses[0];
    assert_eq!((access.physical, access.second_page), (0x5_0ffc, Some(0x1_9000)));
}

/// 256 bytes from 14F80h to 14800h: a run up to the end of the first page, then the rest. Elements come
/// one by one where runs cannot be, and add up to the same.
#[test]
fn strings_come_in_runs() {
    let mut m = machine();
    m.cpu.set_gpr(RSI, DATA + 0xf80);
    m.cpu.set_gpr(RCX, 256);
    let log = watch(&mut m, |a| a.rep().movsb());
    let bytes = |direction| {
        let of = |(a, _): &&(Access, AccessKind)| a.direction == direction;
        let elements = log.accesses.iter().filter(of);
        elements.flat_map(|(a, _)| (0..u64::from(a.elements)).map(|n| a.linear + n)).collect()
    };
    let (loads, stores): (Vec<u64>, Vec<u64>) = (bytes(Direction::Load), bytes(Direction::Store));
    assert_eq!(loads, (DATA + 0xf80..DATA + 0x1080).collect::<Vec<_>>());
    assert_eq!(stores, (DATA + 0x800..DATA + 0x900).collect::<Vec<_>>());
    assert!(log.accesses.len() < 100, "{}", log.accesses.len());
    // The bytes are those of their page: no run crosses.
    for (access, kind) in &log.accesses {
        let last = access.linear + u64::from(access.elements) - 1;
        assert_eq!((access.linear >> 12, *kind), (last >> 12, AccessKind::String));
    }
}

/// PUSH reads its operand and faults on the stack: nothing is reported. REP MOVSB faults on its
/// 17th element: 16 are, and no fetch of an instruction that retired.
#[test]
fn what_faults_is_not_reported() {
    let mut m = machine();
    m.cpu.set_gpr(RSP, UNMAPPED + 8);
    let log = watch(&mut m, |a| a.push(qword_ptr(rsi)));
    // What is pushed is the frame of the page fault, six words below the next multiple of 16.
    assert_eq!(log.accesses.len(), 6, "{:?}", log.accesses);
    let pushed = log.accesses.iter().map(|(a, _)| a.linear).collect::<Vec<_>>();
    assert_eq!(pushed, [8, 16, 24, 32, 40, 48].map(|n| UNMAPPED - n));
    assert_eq!(log.retired, [Operation::Hlt]);

    let mut m = machine();
    m.cpu.set_gpr(RSI, UNMAPPED - 16);
    m.cpu.set_gpr(RCX, 20);
    let log = watch(&mut m, |a| a.rep().movsb());
    let loads = log.accesses.iter().filter(|(a, _)| a.direction == Direction::Load);
    assert_eq!(loads.map(|(a, _)| a.elements).sum::<u32>(), 16);
    assert_eq!(log.deliveries.len(), 1);
    let (delivery, from, to) = log.deliveries[0];
    assert_eq!((delivery.vector, delivery.interrupt, delivery.code_bytes), (14, false, 8));
    assert_eq!((from, to), (CODE, HANDLERS + 14 * 16));
    assert_eq!(log.retired, [Operation::Hlt]);
}

/// The four entries of a walk in long mode.
#[test]
fn walks_say_what_they_read_and_set() {
    let mut m = machine();
    map(&mut m, &[0x5_0000]);
    m.cpu.set_gpr(RSI, MAPPED);
    let log = watch(&mut m, |a| {
        a.mov(eax, dword_ptr(rsi))?;
        a.mov(dword_ptr(rsi), eax)?;
        a.mov(dword_ptr(rsi + 8), eax)
    });
    let walks: Vec<&Walk> = log.walks.iter().filter(|walk| walk.linear >= MAPPED).collect();
    // The read sets the accessed bit, the write the dirty bit; the second write needs no walk.
    assert_eq!(walks.len(), 2, "{walks:?}");
    for walk in &walks {
        assert_eq!((walk.levels, walk.page_bytes, walk.physical), (4, 4096, 0x5_0000));
        assert_eq!(walk.entries[3].physical, PAGE_TABLE);
        assert_eq!(walk.entries.map(|entry| entry.level), [4, 3, 2, 1]);
    }
    let set = |walk: &Walk| (walk.entries[3].set_accessed, walk.entries[3].set_dirty);
    assert_eq!((set(walks[0]), set(walks[1])), ((true, false), (false, true)));
}

/// Three NOPs of a cycle each, and UD2: its delivery happens behind them, wherever the block began.
#[test]
fn deliveries_are_told_when_they_happen() {
    let mut m = machine();
    let began = m.cpu.time;
    let log = watch(&mut m, |a| {
        a.nop()?;
        a.nop()?;
        a.nop()?;
        a.ud2()
    });
    assert_eq!(log.deliveries.len(), 1);
    assert_eq!(log.times, [began + 3]);
}

#[test]
fn transfers_and_fetches() {
    let mut m = machine();
    let log = watch(&mut m, |a| {
        let (mut function, mut end) = (a.create_label(), a.create_label());
        a.xor(eax, eax)?; // 2 bytes, at +0
        a.jne(end)?; // 2, at +2: not taken
        a.call(function)?; // 5, at +4
        a.cpuid()?; // 2, at +9
        a.jmp(end)?; // 2, at +11
        a.set_label(&mut function)?;
        a.ret()?; // 1, at +13
        a.set_label(&mut end)?;
        a.nop()
    });
    let at = |n| CODE + n;
    let expected = [
        (at(2), at(14), TransferKind::Conditional, false),
        (at(4), at(13), TransferKind::Call, true),
        (at(13), at(9), TransferKind::Return, true),
        (at(11), at(14), TransferKind::Jump, true),
    ];
    let transfers = log.transfers.iter().map(|t| (t.from, t.to, t.kind, t.taken));
    assert_eq!(transfers.collect::<Vec<_>>(), expected);
    assert_eq!(log.transfers[1].next, at(9));
    let fetches: Vec<(u64, u16)> = log.fetches.iter().map(|f| (f.physical, f.len)).collect();
    let expected = [(0, 2), (2, 2), (4, 5), (13, 1), (9, 2), (11, 2), (14, 1), (15, 1)];
    assert_eq!(fetches, expected.map(|(n, len)| (at(n), len)));
    assert_eq!(log.serialised, 1);
    // One straight line after each branch, and after CPUID or not.
    assert_eq!(log.entries[0], Fetch { linear: CODE, physical: CODE, second_page: None, len: 4 });
}

#[test]
fn ports_and_devices_are_told_apart() {
    let mut m = machine();
    m.ports.claimed = Some(0x6_0000);
    m.ports.device = vec![1, 2, 3, 4];
    let log = watch(&mut m, |a| {
        a.mov(rbx, 0x6_0000u64)?;
        a.mov(eax, dword_ptr(rbx))?;
        a.in_(al, 0x60)?;
        a.out(0x61, eax)
    });
    let of = |(a, _): &(Access, AccessKind)| (a.physical, a.bytes, a.direction, a.target);
    let expected = [
        (0x6_0000, 4, Direction::Load, Target::Mmio),
        (0x60, 1, Direction::Load, Target::Port),
        (0x61, 4, Direction::Store, Target::Port),
    ];
    assert_eq!(log.accesses.iter().map(of).collect::<Vec<_>>(), expected);
}

/// CR3 and the privilege are reported where they change, before the code that they hold for.
#[test]
fn changes_are_reported() {
    let mut m = machine();
    let log = watch(&mut m, |a| {
        a.mov(rax, cr3)?;
        a.or(rax, 8)?;
        a.mov(cr3, rax)?;
        a.nop()
    });
    let seen = log.changes.iter().map(|now| now.cr3).collect::<Vec<_>>();
    assert_eq!(seen, [Some(PML4), Some(PML4 | 8)]);
}

/// Two processors take turns under one observer: each has its own facts, and is told to be in another context where it
/// changes its own, though the other had come to the same one before.
#[test]
fn what_is_observed_of_two_processors_is_exchanged() {
    let mut both = [machine(), machine()];
    for (m, cr3_flag) in both.iter_mut().zip([0, 8]) {
        m.cpu.set_gpr(RAX, PML4 | 8);
        m.cpu.set_gpr(RBX, PML4 | cr3_flag);
        m.load(CODE, 64, |a| {
            a.mov(cr3, rbx).unwrap();
            a.mov(ecx, dword_ptr(rsi)).unwrap();
            a.mov(cr3, rax).unwrap();
            a.mov(ecx, dword_ptr(rsi + 4)).unwrap();
        });
    }
    let mut translations = [Translations::new(), Translations::new()];
    let mut observer = Watching::new(Log::default());
    observer.restart();
    let mut loads = Vec::new();
    // The first processor, the second, and the first again: CR3 is written by one of two instructions.
    for n in [0, 1, 0] {
        let m = &mut both[n];
        let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer };
        let end = m.cpu.retired() + 2;
        while m.cpu.retired() < end {
            let budget = Budget { instructions: end - m.cpu.retired(), ..Budget::until(u64::MAX) };
            m.cpu.run(&mut context, &mut translations[n], budget);
        }
        observer = context.observer;
        loads.push(observer.observed().map(|observed| observed.facts.loads));
        observer.exchange(|log| (&mut log.aside, None));
    }
    assert_eq!(loads, [Some(1), Some(1), Some(2)]);
    let seen: Vec<_> = observer.watch.changes.iter().filter_map(|now| now.cr3).collect();
    // Behind the first of each, and what the first has come to behind its second.
    assert_eq!(seen[seen.len() - 2..], [PML4 | 8, PML4 | 8], "{seen:x?}");
}

/// A run ends between two iterations of INSB: the finished ones are reported, all 20 in the end.
#[test]
fn iterations_before_an_interruption_are_reported() {
    let mut m = machine();
    m.cpu.set_gpr(RCX, 20);
    m.cpu.set_gpr(RDX, 0x60);
    m.load(CODE, 64, |a| {
        a.rep().insb().unwrap();
        a.hlt().unwrap();
    });
    let mut translations = Translations::new();
    let observer = Watching::new(Log::default());
    let mut context = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer };
    loop {
        let until = m.cpu.time + 3;
        if m.cpu.run(&mut context, &mut translations, Budget::until(until)) == Exit::Halt {
            break;
        }
    }
    let log = context.observer.watch;
    let of = |target| log.accesses.iter().filter(|(a, _)| a.target == target).count();
    assert_eq!((of(Target::Port), of(Target::Memory)), (20, 20));
    assert_eq!(log.retired, [Operation::Ins, Operation::Hlt]);
}

/// Under the observer of everything the facts are those of the one that only counts.
#[test]
fn it_counts_what_counting_counts() {
    let program = |a: &mut CodeAssembler| {
        let mut top = a.create_label();
        a.mov(ecx, 100)?;
        a.set_label(&mut top)?;
        a.push(rcx)?;
        a.movsb()?;
        a.pop(rcx)?;
        a.loop_(top)
    };
    let mut m = machine();
    m.load(CODE, 64, |a| {
        program(a).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    let log = watch(&mut machine(), program);
    let stores = log.accesses.iter().filter(|(a, _)| a.direction == Direction::Store).count();
    assert_eq!((stores as u64, log.transfers.len() as u64), (m.facts.stores, m.facts.branches));
}

/// LFENCE orders loads alone.
#[test]
fn fences_of_stores_are_told() {
    let log = watch(&mut machine(), |a| {
        a.sfence()?;
        a.lfence()?;
        a.mfence()
    });
    assert_eq!((log.fenced, log.serialised), (2, 0));
}

/// A denormal and an infinity are added (DE is flagged all the same), a single is squared that then is too
/// small: each is told before the instruction retires.
#[test]
fn numbers_out_of_the_ordinary_are_told() {
    let mut m = machine();
    m.write_u64(DATA, 1 | 0x7f80_0000 << 32);
    m.write_u64(DATA + 8, 0x0080_0000);
    let log = watch(&mut m, |a| {
        a.fninit()?;
        a.fld(dword_ptr(rsi + 4))?;
        a.fadd(dword_ptr(rsi))?;
        a.movss(xmm0, dword_ptr(rsi + 8))?;
        a.mulss(xmm0, xmm0)
    });
    let added = FloatCases::SPECIAL_OPERAND | FloatCases::DENORMAL_OPERAND;
    assert_eq!(
        log.float_cases,
        [(2, FloatUnit::X87, added), (4, FloatUnit::Sse, FloatCases::TINY_RESULT)]
    );
}
