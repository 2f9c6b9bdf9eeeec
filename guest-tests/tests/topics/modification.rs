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
//! Two processors execute a region of such code each, and change places at a barrier: what one has
//! written the other executes, behind the IRET that leads there, which is the serialising instruction
//! that cross-modified code asks for (Intel SDM volume 3A, "Handling Self- and Cross-Modifying Code").
//!
//! `VPMU_MODIFICATION_ROUNDS` sets the number of entries to programs (two hundred by default),
//! `VPMU_MODIFICATION_SEED` the seed of the first.

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::msr::USR;
use guest_tests::{Engine, Guest, Options, Part, Result, SCRATCH, on_engine, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ebx, ecx, edi, edx, esi, esp};
use vpmu::program::Image;

topics!(as_without_caches, two_processors_as_without_caches);

const PAGES: usize = 4;

/// Where a program is and what it works with.
#[derive(Clone, Copy)]
struct Region {
    /// From a page before on: a page of ways out, the code, a page of ways out, the library, the
    /// stack, addresses to return to.
    code: u32,
    /// A random number, checksum, count; then addresses of 64 slots.
    state: u32,
}

const REGIONS: [Region; 2] = [
    Region { code: SCRATCH + 0x1_0000, state: SCRATCH },
    Region { code: SCRATCH + 0x2_0000, state: SCRATCH + 0x800 },
];
/// Rounds to go, for each processor.
const LEFT: u32 = SCRATCH + 0x1000;
/// Where the processors meet.
const MEETING: u32 = SCRATCH + 0x1010;

impl Region {
    fn library(self) -> u32 {
        self.code + 0x1000 * (PAGES as u32 + 1)
    }

    fn stack(self) -> u32 {
        self.library() + 0x2000
    }

    fn seed(self) -> u32 {
        self.state
    }

    fn sum(self) -> u32 {
        self.state + 4
    }

    fn count(self) -> u32 {
        self.state + 8
    }

    fn entries(self) -> u32 {
        self.state + 0x100
    }
}

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
struct Random {
    state: u64,
    /// Where the slots are.
    region: Region,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let x = (self.state ^ self.state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ x >> 29
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A slot of these pages that does not cross into the next.
    fn slot(&mut self, pages: std::ops::Range<u64>) -> u32 {
        let page = pages.start + self.below(pages.end - pages.start);
        let slot = if self.below(2) == 0 { self.below(SLOTS) } else { self.below(8) * 5 };
        self.region.code + (page * 0x1000) as u32 + PHASE as u32 + (slot * SLOT as u64) as u32
    }

    fn library_slot(&mut self) -> u32 {
        self.region.library() + (self.below(60) * SLOT as u64) as u32
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
        4 => load(ESI, random.library_slot()),
        // The immediate: MOV, ADD, XCHG, LOCK XADD; and that of a slot across pages.
        5 => [&[0xc7, 0x47, 9][..], &next.to_le_bytes()].concat(),
        6 => vec![0x01, 0x5f, 9],
        7 => vec![0x87, 0x47, 9],
        8 => vec![0xf0, 0x0f, 0xc1, 0x5f, 9],
        9 => {
            let page = random.region.code + (random.below(PAGES as u64) * 0x1000) as u32;
            let at = page + PHASE as u32 + (SLOTS * SLOT as u64) as u32 + 9;
            [&[0xc7, 0x05][..], &at.to_le_bytes(), &next.to_le_bytes()].concat()
        }
        // The operation: MOV of a byte; PUSH, LOCK CMPXCHG8B, MOVSD of it with its immediate.
        10 => vec![0xc6, 0x47, 8, OPERATIONS[random.below(6) as usize]],
        11 => {
            let push = [0x8d, 0x67, 16, 0xff, 0x76, 12, 0xff, 0x76, 8];
            [&push[..], &load(ESP, random.region.stack())].concat()
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
    let from = random.library_slot();
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
    let Region { code, .. } = random.region;
    bytes.resize((random.region.stack() - code + 0x1000) as usize, 0);
    for _ in 0..0x400 {
        bytes.extend_from_slice(&random.any_slot().to_le_bytes());
    }
    bytes
}

/// One entry to a region's program; its end goes into the checksum.
fn enter(g: &mut Guest, region: Region) -> Result {
    g.imul_3(ecx, dword_ptr(region.seed()), 1_664_525)?;
    g.add(ecx, 1_013_904_223)?;
    g.mov(dword_ptr(region.seed()), ecx)?;
    for (register, shift) in [(ebx, 10), (edi, 17), (edx, 24)] {
        g.mov(register, ecx)?;
        g.shr(register, shift)?;
        g.and(register, 63)?;
        g.mov(register, dword_ptr(register * 4 + region.entries()))?;
    }
    g.mov(esi, region.library())?;
    g.at_cpl3(EFLAGS_CLEAR, |g| {
        g.mov(esp, region.stack())?;
        g.mov(ebp, FUEL)?;
        g.mov(eax, ecx)?;
        g.jmp(ebx)
    })?;
    g.xor(eax, edi)?;
    g.add(eax, esi)?;
    g.mov(edx, dword_ptr(region.sum()))?;
    g.rol(edx, 5)?;
    g.add(eax, edx)?;
    g.mov(dword_ptr(region.sum()), eax)
}

/// [`enter`] while the instructions of CPL 3 are counted.
fn enter_counted(g: &mut Guest, region: Region) -> Result {
    g.start(0, g.part.instructions, USR, 0)?;
    enter(g, region)?;
    g.stop(0)?;
    g.read_pmc(0)?;
    g.add(dword_ptr(region.count()), eax)
}

/// Puts a program made with `seed` into a region.
fn put(g: &mut Guest, region: Region, seed: u64) -> Result {
    let mut random = Random { state: seed, region };
    let bytes = memory(&mut random);
    let entries: Vec<u8> = (0..64).flat_map(|_| random.any_slot().to_le_bytes()).collect();
    let mut over = g.create_label();
    g.jmp(over)?;
    let data = g.here()?;
    g.db(&bytes)?;
    let slots = g.here()?;
    g.db(&entries)?;
    g.place(&mut over)?;
    let copies =
        [(data, region.code - 0x1000, bytes.len()), (slots, region.entries(), entries.len())];
    for (from, to, len) in copies {
        g.push_address(from)?;
        g.pop(esi)?;
        g.mov(edi, to)?;
        g.mov(ecx, len as u32 / 4)?;
        g.rep().movsd()?;
    }
    g.mov(dword_ptr(region.seed()), seed as u32)
}

/// Reports what came of a region, and its code.
fn report(g: &mut Guest, region: Region, [end, counted, code]: [&str; 3]) -> Result {
    g.report_word(end, region.sum())?;
    g.report_word(counted, region.count())?;
    let mut more = g.create_label();
    g.xor(eax, eax)?;
    g.mov(esi, region.code)?;
    g.place(&mut more)?;
    g.rol(eax, 3)?;
    g.xor(eax, dword_ptr(esi))?;
    g.add(esi, 4)?;
    g.cmp(esi, (region.code + 0x1000 * PAGES as u32) as i32)?;
    g.jb(more)?;
    g.report_eax(code)
}

const VALUES: [[&str; 3]; 2] = [["end", "counted", "code"], ["end1", "counted1", "code1"]];

/// A guest that enters a program [`ROUNDS`] times and reports what came of it.
fn guest(part: &'static Part, seed: u64) -> Result<Image> {
    let [region, _] = REGIONS;
    Guest::assemble(part, |g| {
        put(g, region, seed)?;
        g.mov(dword_ptr(LEFT), (ROUNDS / 4) as u32)?;
        let again = g.here()?;
        for _ in 0..3 {
            enter(g, region)?;
        }
        enter_counted(g, region)?;
        g.dec(dword_ptr(LEFT))?;
        g.jne(again)?;
        report(g, region, VALUES[0])
    })
}

/// A guest with two processors that enter two programs in turns, [`ROUNDS`] times together.
fn guest_with_two(part: &'static Part, seed: u64) -> Result<Image> {
    Guest::assemble(part, |g| {
        for (n, region) in (0..).zip(REGIONS) {
            put(g, region, 2 * seed + n)?;
        }
        g.on_every_processor(2, |g| {
            g.mov(dword_ptr(ebp * 4 + LEFT), (ROUNDS / 8) as u32)?;
            g.xor(edi, edi)?;
            let again = g.here()?;
            for turn in 0..4 {
                // At CPL 3 they become the program's.
                g.push(ebp)?;
                g.push(edi)?;
                for n in 0..2u32 {
                    g.on_processor(n, |g| {
                        let region = REGIONS[(n + turn) as usize % 2];
                        // One of them beside the other's native code.
                        if turn + 2 * n == 3 { enter_counted(g, region) } else { enter(g, region) }?;
                        g.mov(ebp, dword_ptr(esp + 4))
                    })?;
                }
                g.pop(edi)?;
                g.pop(ebp)?;
                g.meet(MEETING)?;
            }
            g.dec(dword_ptr(ebp * 4 + LEFT))?;
            g.jne(again)
        })?;
        REGIONS.into_iter().zip(VALUES).try_for_each(|(region, names)| report(g, region, names))
    })
}

/// The seeds of the guests, each with [`ROUNDS`] entries.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| -> Option<u64> {
        std::env::var(name).ok().and_then(|text| text.replace('_', "").parse().ok())
    };
    let first = number("VPMU_MODIFICATION_SEED").unwrap_or(1);
    first..first + number("VPMU_MODIFICATION_ROUNDS").unwrap_or(ROUNDS).div_ceil(ROUNDS)
}

/// Says on the way out of a failing test which seed it was.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("VPMU_MODIFICATION_SEED={}", self.0);
        }
    }
}

/// Compares the guests of all seeds. Their programs are as long as they are meant to be: each slot is
/// five instructions and more (LOOK's DEC and JNS, the operation, NOPs), one entry in four is counted,
/// and few programs leave their pages early.
fn compare_all(
    part: &'static Part,
    cpus: u8,
    guest: fn(&'static Part, u64) -> Result<Image>,
) -> Result {
    let mut counted = 0;
    for seed in seeds() {
        let _seed = Seed(seed);
        counted += compare(part, &guest(part, seed)?, cpus);
    }
    let entries = (seeds().end - seeds().start) * ROUNDS / 4;
    assert!(counted > entries * u64::from(FUEL) * 3, "{counted}");
    Ok(())
}

/// Runs `image` with `cpus` processors as it is and without caches: both report the same. Returns how
/// many instructions were counted.
fn compare(part: &'static Part, image: &Image, cpus: u8) -> u64 {
    let options = Options { cpus, ..Options::DEFAULT };
    let uncached = Options { no_cache: true, ..options };
    let expected = on_engine(&Engine::SOFT, || run_with(part, image, uncached));
    let actual = run_with(part, image, options);
    for names in &VALUES[..usize::from(cpus)] {
        actual.expect(&names.map(|name| (name, expected.value(name))));
    }
    VALUES[..usize::from(cpus)].iter().map(|names| expected.value(names[1])).sum()
}

fn as_without_caches(part: &'static Part) -> Result {
    compare_all(part, 1, guest)
}

fn two_processors_as_without_caches(part: &'static Part) -> Result {
    compare_all(part, 2, guest_with_two)
}
