//! The processor with its caches beside the host's: programs in 64-bit mode that never fault.
//!
//! They are made of slots that are valid whatever has been copied over them, as long as it was copied
//! in units of a slot's parts: a look at the fuel, an operation on EAX with an immediate, an action.
//! All writes go to the linear addresses that are executed; so nothing has to be serialised (AMD64
//! APM volume 1, "Self-Modifying Code").

#![allow(unsafe_code, reason = "runs generated code; each block says why it may")]

use iced_x86::code_asm::{AsmRegister64, CodeAssembler, gpr64::*, qword_ptr};
use x86_cpu::{
    block::Translations,
    cpu::Cpu,
    descriptor::Segment,
    features::Features,
    observe::{Cx, Plain},
    run::Exit,
    timing::Budget,
};

use crate::host::Vendor;
use crate::lockstep::Device;
use crate::memory::Memory;
use crate::random::Random;

/// Linear addresses, the same on the host and in the guest. Before and behind the code is a page of
/// ways out.
const CODE: u64 = 0x2000_1000;
const CODE_PAGES: u64 = 4;
const LIBRARY: u64 = 0x2001_0000;
/// Registers before and after, and the host's stack pointer. Of the two pages of stack, the lower
/// is for calls, and the upper full of addresses to return to: enough for all fuel.
const FRAME: u64 = 0x2002_0000;
const STACK: u64 = 0x2003_1000;
/// The code that enters and leaves a program.
const STUB: u64 = 0x2004_0000;
/// The pages of all that, with those before and behind the code.
const PAGES: [(u64, u64); 5] =
    [(CODE - 0x1000, CODE_PAGES + 2), (LIBRARY, 1), (FRAME, 1), (STACK - 0x1000, 2), (STUB, 1)];

const SLOT: usize = 32;
/// Offset of the first slot in a page: of the slot that crosses into the next page, the boundary is
/// in the middle of the immediate.
const PHASE: usize = 22;
const SLOTS: u64 = 127;
/// Slots that a program executes.
const FUEL: u64 = 400;

/// DEC R15; JNS over; JMP R14.
const LOOK: [u8; 8] = [0x49, 0xff, 0xcf, 0x79, 0x03, 0x41, 0xff, 0xe6];
/// ADD, SUB, XOR, OR, AND, TEST of EAX with an immediate.
const OPERATIONS: [u8; 6] = [0x05, 0x2d, 0x35, 0x0d, 0x25, 0xa9];

/// A slot that does not cross a page, nor does the one before it.
fn slot_address(random: &mut Random) -> u64 {
    let slot = if random.below(2) == 0 { random.below(SLOTS - 1) } else { random.below(12) * 7 };
    CODE + random.below(CODE_PAGES) * 4096 + PHASE as u64 + (slot + 1) * SLOT as u64
}

/// A slot that does.
fn crossing_slot_address(random: &mut Random) -> u64 {
    CODE + random.below(CODE_PAGES) * 4096 + PHASE as u64 + SLOTS * SLOT as u64
}

fn slot(random: &mut Random) -> [u8; SLOT] {
    let mut bytes = [0x90; SLOT];
    bytes[..8].copy_from_slice(&LOOK);
    bytes[8] = random.one(&OPERATIONS);
    bytes[9..13].copy_from_slice(&(random.next() as u32).to_le_bytes());
    let action = action(random);
    bytes[SLOT - action.len()..].copy_from_slice(&action);
    bytes
}

fn load(register: u8, value: u64) -> Vec<u8> {
    [&[0xb8 | register][..], &(value as u32).to_le_bytes()].concat()
}

/// At most 16 bytes for the end of a slot. RDI holds the address of a slot, RSI one of the library;
/// neither is the first of its page.
///
/// An action that may overwrite itself does so with its last instruction: what follows is the next
/// slot.
fn action(random: &mut Random) -> Vec<u8> {
    const RDI: u8 = 7;
    const RSI: u8 = 6;
    const ECX: u8 = 1;
    // From the end of this slot to the beginning of another.
    let short = |slots: i64| ((slots - 1) * 32) as u8;
    let next = random.next() as u32;
    match random.below(22) {
        0..=3 => load(RDI, slot_address(random)),
        4 | 5 => load(RSI, LIBRARY + (random.below(126) + 1) * SLOT as u64),
        // The immediate: MOV, ADD, XCHG, LOCK XADD; and that of a slot across pages.
        6 => [&[0xc7, 0x47, 9][..], &next.to_le_bytes()].concat(),
        7 => vec![0x01, 0x5f, 9],
        8 => vec![0x87, 0x47, 9],
        9 => vec![0xf0, 0x0f, 0xc1, 0x5f, 9],
        10 => {
            let at = crossing_slot_address(random) + 9;
            [&[0xc7, 0x04, 0x25][..], &(at as u32).to_le_bytes(), &next.to_le_bytes()].concat()
        }
        // The operation: MOV of a byte.
        11 => vec![0xc6, 0x47, 8, random.one(&OPERATIONS)],
        // A whole slot: REP MOVSB of the slots before. Where it overwrites itself, AMD's processors go on, as
        // here, and an Intel one fetched it anew behind that iteration (docs/cpu.md).
        13 if Vendor::of_host() == Vendor::Amd => vec![
            0x83, 0xef, 32, 0x83, 0xee, 32, // SUB EDI, 32; SUB ESI, 32
            0xb9, 32, 0, 0, 0, 0xf3, 0xa4, // MOV ECX, 32; REP MOVSB
        ],
        // A whole slot: two MOVUPS.
        12 | 13 => {
            vec![0x0f, 0x10, 0x06, 0x0f, 0x10, 0x4e, 16, 0x0f, 0x11, 0x07, 0x0f, 0x11, 0x4f, 16]
        }
        // The operation with its immediate: PUSH, LOCK CMPXCHG, FISTP, MOVNTQ, XCHG.
        14 => vec![0x48, 0x8d, 0x67, 16, 0xff, 0x76, 8, 0x4c, 0x89, 0xec],
        15 => vec![0x48, 0x8b, 0x47, 8, 0x48, 0x8b, 0x4e, 8, 0xf0, 0x48, 0x0f, 0xb1, 0x4f, 8],
        16 if random.below(2) == 0 => vec![0xdf, 0x6e, 8, 0xdf, 0x7f, 8],
        16 => vec![0x0f, 0x6f, 0x46, 8, 0x0f, 0xe7, 0x47, 8, 0x0f, 0x77],
        17 => vec![0x48, 0x8b, 0x46, 8, 0x48, 0x87, 0x47, 8],
        // To another slot: near, conditional, indirect, call, return.
        18 => {
            let condition = random.below(16) as u8;
            vec![0x70 | condition, short(random.below(3) as i64 + 1)]
        }
        19 => vec![0xeb, short(random.below(6) as i64 - 3)],
        20 => {
            let jump = random.one(&[0xe1, 0xd1]);
            [&load(ECX, slot_address(random))[..], &[0xff, jump]].concat()
        }
        _ => vec![0xc3],
    }
}

/// One program with what it starts from.
struct Program {
    code: Vec<u8>,
    library: Vec<u8>,
    stack: Vec<u64>,
    start: u64,
    rdi: u64,
    rsi: u64,
}

impl Program {
    fn random(random: &mut Random) -> Self {
        let pool: Vec<_> = (0..128).map(|_| slot(random)).collect();
        let mut code = Vec::new();
        let mut tail = crossing(0);
        for _ in 0..CODE_PAGES {
            code.extend_from_slice(&tail[10..]);
            for _ in 0..SLOTS {
                code.extend_from_slice(&random.one(&pool));
            }
            tail = crossing(random.next() as u32);
            code.extend_from_slice(&tail[..10]);
        }
        Self {
            code,
            library: (0..128).flat_map(|_| random.one(&pool)).collect(),
            stack: (0..512).map(|_| slot_address(random)).collect(),
            start: slot_address(random),
            rdi: slot_address(random),
            rsi: LIBRARY + SLOT as u64,
        }
    }

    /// The general registers, with the number of the encoding.
    fn registers(&self) -> [u64; 16] {
        let mut registers = [0; 16];
        registers[4] = STACK;
        registers[6] = self.rsi;
        registers[7] = self.rdi;
        registers[13] = STACK;
        registers[15] = FUEL;
        registers
    }

    fn stack(&self) -> Vec<u8> {
        [vec![0; 4096], self.stack.iter().flat_map(|word| word.to_le_bytes()).collect()].concat()
    }
}

/// A slot for the end of a page: the operation alone.
fn crossing(immediate: u32) -> [u8; SLOT] {
    let mut bytes = [0x90; SLOT];
    bytes[..8].copy_from_slice(&LOOK);
    bytes[8] = OPERATIONS[0];
    bytes[9..13].copy_from_slice(&immediate.to_le_bytes());
    bytes
}

/// A page of ways out: JMP R14 wherever a slot begins, and at its first byte.
fn way_out() -> Vec<u8> {
    let mut page = vec![0x90; 4096];
    // Behind the last page of code, the end of the slot that crosses into this one comes first.
    for at in (PHASE..4096 - 3).step_by(SLOT) {
        page[at..at + 3].copy_from_slice(&LOOK[5..]);
    }
    page
}

/// What a program leaves: registers (but those of the harness), code, library, stack.
#[derive(PartialEq)]
struct Outcome {
    registers: [u64; 16],
    code: Vec<u8>,
}

/// The host's processor.
struct Host {
    enter: extern "C" fn(),
    /// Where the stub wants a program to come back to.
    back: u64,
}

const ORDER: [AsmRegister64; 16] =
    [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
/// Offsets in the frame.
const BEFORE: u64 = 0;
const AFTER: u64 = 0x100;
const START: u64 = 0x200;
const HOST_STACK: u64 = 0x208;

/// The code that loads all registers and goes to a program, and where that comes back to.
fn stub() -> (Vec<u8>, u64) {
    let assemble = || -> Result<_, iced_x86::IcedError> {
        let saved = [rbx, rbp, r12, r13, r14, r15];
        let mut a = CodeAssembler::new(64)?;
        for r in saved {
            a.push(r)?;
        }
        a.mov(qword_ptr(FRAME + HOST_STACK), rsp)?;
        for (n, r) in ORDER.into_iter().enumerate() {
            a.mov(r, qword_ptr(FRAME + BEFORE + 8 * n as u64))?;
        }
        a.jmp(qword_ptr(FRAME + START))?;
        let enter = a.assemble(STUB)?;
        let back = STUB + enter.len() as u64;
        let mut a = CodeAssembler::new(64)?;
        for (n, r) in ORDER.into_iter().enumerate() {
            a.mov(qword_ptr(FRAME + AFTER + 8 * n as u64), r)?;
        }
        a.mov(rsp, qword_ptr(FRAME + HOST_STACK))?;
        a.emms()?;
        for r in saved.into_iter().rev() {
            a.pop(r)?;
        }
        a.ret()?;
        Ok(([enter, a.assemble(back)?].concat(), back))
    };
    assemble().expect("the stub assembles")
}

impl Host {
    fn new() -> Self {
        for (address, pages) in PAGES {
            // SAFETY: fixed ranges below 2 GiB that nothing else uses in a position-independent
            // test binary; MAP_FIXED_NOREPLACE fails if that is ever wrong.
            let mapped = unsafe {
                libc::mmap(
                    address as *mut libc::c_void,
                    pages as usize * 4096,
                    libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                )
            };
            assert_eq!(mapped as u64, address, "this test needs address {address:#x}");
        }
        let (stub, back) = stub();
        put(STUB, &stub);
        put(CODE - 0x1000, &way_out());
        put(CODE + CODE_PAGES * 4096, &way_out());
        // SAFETY: the stub is there and keeps the calling convention.
        let enter = unsafe { std::mem::transmute::<*const (), extern "C" fn()>(STUB as *const ()) };
        Self { enter, back }
    }

    fn run(&self, program: &Program) -> Outcome {
        put(CODE, &program.code);
        put(LIBRARY, &program.library);
        put(STACK - 0x1000, &program.stack());
        let mut registers = program.registers();
        registers[0] = program.start;
        registers[14] = self.back;
        for (n, value) in (0..).zip(registers) {
            put(FRAME + BEFORE + 8 * n, &value.to_le_bytes());
        }
        put(FRAME + START, &program.start.to_le_bytes());
        (self.enter)();
        let register = |n| get(FRAME + AFTER + 8 * n as u64, 8).try_into().unwrap();
        Outcome {
            registers: std::array::from_fn(|n| u64::from_le_bytes(register(n))),
            code: get(CODE, CODE_PAGES as usize * 4096),
        }
    }
}

/// Writes to one of [`PAGES`].
fn put(address: u64, bytes: &[u8]) {
    // SAFETY: the pages are mapped before the first call, and this thread alone uses them.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len());
    }
}

fn get(address: u64, len: usize) -> Vec<u8> {
    // SAFETY: as for `put`.
    unsafe { std::slice::from_raw_parts(address as *const u8, len).to_vec() }
}

/// The software CPU, with the same pages at the same linear addresses, in another order in memory.
struct Guest {
    memory: Memory,
    translations: Translations<Plain>,
}

/// Page tables of the guest, one of each level.
const TABLES: u64 = 0x1000;
const GUEST_RAM: u64 = 0x2_0000;

/// Where a linear page is in the guest's memory.
fn gpa(address: u64) -> u64 {
    let before = PAGES.iter().take_while(|(at, pages)| address >= at + pages * 4096);
    let first: u64 = before.map(|(_, pages)| pages).sum();
    let (at, _) = PAGES.into_iter().find(|&(at, pages)| address < at + pages * 4096).unwrap();
    let page = first + (address - at) / 4096;
    // Five is prime to the number of frames.
    0x8000 + page * 5 % 16 * 4096 + address % 4096
}

impl Guest {
    fn new() -> Self {
        let memory = Memory::new(GUEST_RAM as usize);
        let guest = Self { memory, translations: Translations::new() };
        guest.put_word(TABLES, TABLES + 0x1003);
        guest.put_word(TABLES + 0x1000, TABLES + 0x2003);
        // 2000_0000h is 256 times 2 MiB.
        guest.put_word(TABLES + 0x2000 + 256 * 8, TABLES + 0x3003);
        for (address, pages) in PAGES {
            for page in (0..pages).map(|n| address + n * 4096) {
                guest.put_word(TABLES + 0x3000 + (page >> 12 & 511) * 8, gpa(page) | 3);
            }
        }
        guest.put(CODE - 0x1000, &way_out());
        guest.put(CODE + CODE_PAGES * 4096, &way_out());
        // HLT, to come back to; FNINIT and JMP RAX, to begin with: the host's x87 exceptions are
        // masked.
        guest.put(STUB, &[0xf4, 0xdb, 0xe3, 0xff, 0xe0]);
        guest
    }

    fn put_word(&self, gpa: u64, value: u64) {
        assert!(self.memory.ram.write_bytes(gpa, &value.to_le_bytes()));
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        for (n, page) in bytes.chunks(4096).enumerate() {
            assert!(self.memory.ram.write_bytes(gpa(address + n as u64 * 4096), page));
        }
    }

    fn run(&mut self, program: &Program) -> Outcome {
        self.put(CODE, &program.code);
        self.put(LIBRARY, &program.library);
        self.put(STACK - 0x1000, &program.stack());
        let mut cpu = Cpu::new(Features::K8);
        cpu.set_control(0x8005_0033, TABLES, 0x620, 0xd00);
        for n in 0..6 {
            let attributes = if n == 1 { 0xa09b } else { 0xc093 };
            cpu.set_segment(n, Segment { selector: 8, base: 0, limit: u32::MAX, attributes });
        }
        let mut registers = program.registers();
        registers[0] = program.start;
        registers[14] = STUB;
        for (n, value) in (0..).zip(registers) {
            cpu.set_gpr(n, value);
        }
        cpu.rip = STUB + 1;
        let mut context =
            Cx { bus: &mut Device::default(), ram: &self.memory.ram, observer: Plain };
        loop {
            match cpu.run(&mut context, &mut self.translations, Budget::until(1 << 20)) {
                Exit::Halt => break,
                Exit::Leave => {}
                other => panic!("{other:?} at {:x}", cpu.rip),
            }
        }
        let mut code = vec![0; CODE_PAGES as usize * 4096];
        for (n, page) in code.chunks_mut(4096).enumerate() {
            assert!(self.memory.ram.read_bytes(gpa(CODE + n as u64 * 4096), page));
        }
        Outcome { registers: std::array::from_fn(|n| cpu.gpr(n as u8)), code }
    }
}

/// The host's processor has the last word on what a program that modifies itself does.
#[test]
fn as_the_host_does() {
    let (host, mut guest) = (Host::new(), Guest::new());
    let first = crate::first_seed();
    for seed in first..first + crate::rounds() {
        let program = Program::random(&mut Random::new(seed));
        let (mut expected, mut actual) = (host.run(&program), guest.run(&program));
        // R14 is the way out.
        expected.registers[14] = 0;
        actual.registers[14] = 0;
        assert_eq!(expected.registers, actual.registers, "seed {seed}");
        assert!(expected == actual, "seed {seed}: the code differs");
    }
}
