//! Programs at CPL 3 that modify themselves, executed by either engine and, while a counter is
//! enabled, by the software engine in between: what the host's processor has written must run there,
//! and what ran there must be seen by the host's.
//!
//! The oracle is the software engine without caches, which fetches and decodes each instruction anew.
//!
//! The programs are made of slots that stay valid whatever is copied over them: a look at the fuel, an
//! operation on EAX with an immediate at [`OPERATION`], and an action that ends with the slot. EDI
//! holds the address of a slot, ESI one of the library. Nothing that copies an action is in the code
//! that is copied over: an interrupt of the host might come in the middle.
//!
//! `VPMU_MODIFICATION_ROUNDS` sets the number of entries to a program (two hundred by default).

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::msr::USR;
use guest_tests::{Engine, Guest, Options, Part, Result, SCRATCH, on_engine, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ebx, ecx, edi, edx, esi, esp};
use vpmu::demo::Image;

topics!(as_without_caches);

/// From here on: a page of ways out, the code, a page of ways out, the library, the stack.
const CODE: u32 = SCRATCH + 0x1_0000;
const PAGES: usize = 4;
const LIBRARY: u32 = CODE + 0x1000 * (PAGES as u32 + 1);
/// Above it are addresses to return to.
const STACK: u32 = LIBRARY + 0x2000;
/// The state of the round: a random number, checksum, count, rounds to go.
const SEED: u32 = SCRATCH;
const SUM: u32 = SCRATCH + 4;
const COUNT: u32 = SCRATCH + 8;
const LEFT: u32 = SCRATCH + 12;
/// Addresses of 64 slots.
const ENTRIES: u32 = SCRATCH + 0x100;

const SLOT: usize = 64;
/// Offset of the first slot in a page: of the slot that crosses into the next page, the boundary is in
/// the middle of the immediate.
const PHASE: usize = 54;
const SLOTS: u64 = 63;
const OPERATION: usize = 8;
/// Slots that a program executes.
const FUEL: u32 = 200;
/// Entries to one guest's programs, each fourth of them counted.
const ROUNDS: u64 = 200;

/// DEC EBP; JNS over; INT 80h, which goes back to CPL 0.
const LOOK: [u8; 5] = [0x4d, 0x79, 2, 0xcd, 0x80];
/// ADD, SUB, XOR, OR, AND, TEST of EAX with an immediate.
const OPERATIONS: [u8; 6] = [0x05, 0x2d, 0x35, 0x0d, 0x25, 0xa9];

/// LEA ESI, [ESI + 0]: a long way to do nothing.
const FILLER: [u8; 6] = [0x8d, 0xb6, 0, 0, 0, 0];

/// A linear congruential step and an output permutation.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ x >> 29
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A slot of these pages that does not cross into the next.
    fn slot(&mut self, pages: std::ops::Range<u64>) -> u32 {
        let page = pages.start + self.below(pages.end - pages.start);
        let slot = if self.below(2) == 0 { self.below(SLOTS) } else { self.below(8) * 5 };
        CODE + (page * 0x1000) as u32 + PHASE as u32 + (slot * SLOT as u64) as u32
    }

    fn any_slot(&mut self) -> u32 {
        self.slot(0..PAGES as u64)
    }
}

fn load(register: u8, value: u32) -> Vec<u8> {
    [&[0xb8 | register][..], &value.to_le_bytes()].concat()
}

const ECX: u8 = 1;
const ESP: u8 = 4;
const ESI: u8 = 6;
const EDI: u8 = 7;

/// What a slot does besides its operation.
fn action(random: &mut Random) -> Vec<u8> {
    // From the end of this slot to the beginning of another.
    let short = |slots: i32| ((slots - 1) * SLOT as i32) as u8;
    let next = random.next() as u32;
    match random.below(18) {
        0..=3 => load(EDI, random.any_slot()),
        4 => load(ESI, LIBRARY + (random.below(60) * SLOT as u64) as u32),
        // The immediate: MOV, ADD, XCHG, LOCK XADD; and that of a slot across pages.
        5 => [&[0xc7, 0x47, 9][..], &next.to_le_bytes()].concat(),
        6 => vec![0x01, 0x5f, 9],
        7 => vec![0x87, 0x47, 9],
        8 => vec![0xf0, 0x0f, 0xc1, 0x5f, 9],
        9 => {
            let page = CODE + (random.below(PAGES as u64) * 0x1000) as u32;
            let at = page + PHASE as u32 + (SLOTS * SLOT as u64) as u32 + 9;
            [&[0xc7, 0x05][..], &at.to_le_bytes(), &next.to_le_bytes()].concat()
        }
        // The operation: MOV of a byte; PUSH, LOCK CMPXCHG8B, MOVSD of it with its immediate.
        10 => vec![0xc6, 0x47, 8, OPERATIONS[random.below(6) as usize]],
        11 => {
            let push = [0x8d, 0x67, 16, 0xff, 0x76, 12, 0xff, 0x76, 8];
            [&push[..], &load(ESP, STACK)].concat()
        }
        12 => vec![
            0x8b, 0x47, 8, 0x8b, 0x57, 12, 0x8b, 0x5e, 8, 0x8b, 0x4e, 12, // both, in registers
            0xf0, 0x0f, 0xc7, 0x4f, 8,
        ],
        13 => {
            // ADD EDI, 8; ADD ESI, 8; MOVSD; MOVSD; SUB EDI, 16; SUB ESI, 16
            vec![0x83, 0xc7, 8, 0x83, 0xc6, 8, 0xa5, 0xa5, 0x83, 0xef, 16, 0x83, 0xee, 16]
        }
        // To another slot: conditional, near, indirect, call, return.
        14 => vec![0x70 | random.below(16) as u8, short(random.below(2) as i32 + 1)],
        15 => vec![0xeb, short(random.below(3) as i32)],
        16 => {
            let jump = [0xe1, 0xd1][random.below(2) as usize];
            [&load(ECX, random.any_slot())[..], &[0xff, jump]].concat()
        }
        _ => vec![0xc3],
    }
}

/// REP MOVSD of a whole slot from the library over one of the last two pages, where no slot does this.
fn copy(random: &mut Random) -> Vec<u8> {
    let to = random.slot(2..PAGES as u64);
    let from = LIBRARY + (random.below(60) * SLOT as u64) as u32;
    let registers = [load(ESI, from), load(EDI, to), load(ECX, SLOT as u32 / 4)].concat();
    [&registers[..], &[0xf3, 0xa5], &load(EDI, to), &load(ESI, from)].concat()
}

fn slot_of(random: &mut Random, action: &[u8]) -> [u8; SLOT] {
    let mut bytes = [0x90; SLOT];
    bytes[..LOOK.len()].copy_from_slice(&LOOK);
    bytes[OPERATION] = OPERATIONS[random.below(6) as usize];
    bytes[OPERATION + 1..][..4].copy_from_slice(&(random.next() as u32).to_le_bytes());
    let begins = SLOT - action.len();
    bytes[begins..].copy_from_slice(action);
    for filler in bytes[16..begins].chunks_exact_mut(FILLER.len()) {
        filler.copy_from_slice(&FILLER);
    }
    bytes
}

/// All pages from the ways out before the code to the top of the stack.
fn memory(random: &mut Random) -> Vec<u8> {
    let mut way_out = vec![0x90; 0x1000];
    for at in (PHASE..0x1000 - 2).step_by(SLOT) {
        way_out[at..at + 2].copy_from_slice(&LOOK[3..]);
    }
    let mut bytes = way_out.clone();
    let crossing = |random: &mut Random| slot_of(random, &[]);
    let mut tail = crossing(random);
    for page in 0..PAGES {
        bytes.extend_from_slice(&tail[10..]);
        for _ in 0..SLOTS {
            let does = if page < 2 && random.below(6) == 0 { copy(random) } else { action(random) };
            bytes.extend_from_slice(&slot_of(random, &does));
        }
        tail = crossing(random);
        bytes.extend_from_slice(&tail[..10]);
    }
    bytes.extend_from_slice(&way_out);
    for _ in 0..0x1000 / SLOT {
        let does = action(random);
        bytes.extend_from_slice(&slot_of(random, &does));
    }
    bytes.resize((STACK - CODE + 0x1000) as usize, 0);
    for _ in 0..0x400 {
        bytes.extend_from_slice(&random.any_slot().to_le_bytes());
    }
    bytes
}

/// One entry to a program; its end goes into the checksum.
fn enter(g: &mut Guest) -> Result {
    g.imul_3(ecx, dword_ptr(SEED), 1_664_525)?;
    g.add(ecx, 1_013_904_223)?;
    g.mov(dword_ptr(SEED), ecx)?;
    for (register, shift) in [(ebx, 10), (edi, 17), (edx, 24)] {
        g.mov(register, ecx)?;
        g.shr(register, shift)?;
        g.and(register, 63)?;
        g.mov(register, dword_ptr(register * 4 + ENTRIES))?;
    }
    g.mov(esi, LIBRARY)?;
    g.at_cpl3(EFLAGS_CLEAR, |g| {
        g.mov(esp, STACK)?;
        g.mov(ebp, FUEL)?;
        g.mov(eax, ecx)?;
        g.jmp(ebx)
    })?;
    g.xor(eax, edi)?;
    g.add(eax, esi)?;
    g.mov(edx, dword_ptr(SUM))?;
    g.rol(edx, 5)?;
    g.add(eax, edx)?;
    g.mov(dword_ptr(SUM), eax)
}

/// A guest that enters its programs [`ROUNDS`] times and reports what came of it.
fn guest(part: &'static Part, seed: u64) -> Result<Image> {
    let mut random = Random(seed);
    let bytes = memory(&mut random);
    let entries: Vec<u8> = (0..64).flat_map(|_| random.any_slot().to_le_bytes()).collect();
    Guest::assemble(part, |g| {
        let (mut over, mut again) = (g.create_label(), g.create_label());
        g.jmp(over)?;
        let data = g.here()?;
        g.db(&bytes)?;
        let slots = g.here()?;
        g.db(&entries)?;
        g.place(&mut over)?;
        for (from, to, len) in [(data, CODE - 0x1000, bytes.len()), (slots, ENTRIES, entries.len())] {
            g.push_address(from)?;
            g.pop(esi)?;
            g.mov(edi, to)?;
            g.mov(ecx, len as u32 / 4)?;
            g.rep().movsd()?;
        }
        g.mov(dword_ptr(SEED), seed as u32)?;
        g.mov(dword_ptr(LEFT), (ROUNDS / 4) as u32)?;
        g.place(&mut again)?;
        for _ in 0..3 {
            enter(g)?;
        }
        g.start(0, part.instructions, USR, 0)?;
        enter(g)?;
        g.stop(0)?;
        g.read_pmc(0)?;
        g.add(dword_ptr(COUNT), eax)?;
        g.dec(dword_ptr(LEFT))?;
        g.jne(again)?;
        g.report_word("end", SUM)?;
        g.report_word("counted", COUNT)?;
        // The code itself.
        let mut more = g.create_label();
        g.xor(eax, eax)?;
        g.mov(esi, CODE)?;
        g.place(&mut more)?;
        g.rol(eax, 3)?;
        g.xor(eax, dword_ptr(esi))?;
        g.add(esi, 4)?;
        g.cmp(esi, (CODE + 0x1000 * PAGES as u32) as i32)?;
        g.jb(more)?;
        g.report_eax("code")
    })
}

fn as_without_caches(part: &'static Part) -> Result {
    let rounds = std::env::var("VPMU_MODIFICATION_ROUNDS").ok();
    let rounds = rounds.and_then(|text| text.replace('_', "").parse().ok()).unwrap_or(ROUNDS);
    for seed in 1..=rounds.div_ceil(ROUNDS) {
        let image = guest(part, seed)?;
        let uncached = Options { no_cache: true, ..Options::DEFAULT };
        let expected = on_engine(&Engine::SOFT, || run_with(part, &image, uncached));
        let actual = run_with(part, &image, Options::DEFAULT);
        let values = ["end", "counted", "code"].map(|name| (name, expected.value(name)));
        actual.expect(&values);
        // Each slot is five instructions and more: LOOK's DEC and JNS, the operation, NOPs.
        assert!(expected.value("counted") > ROUNDS / 4 * u64::from(FUEL) * 3, "{seed}");
    }
    Ok(())
}
