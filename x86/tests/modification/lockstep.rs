//! The processor with its caches beside one without, stretch by stretch.

use x86_cpu::{
    block::Translations,
    bus::{After, Bus, CpuidResult, RdpmcRequest, Refused, Uncounted},
    cpu::Cpu,
    descriptor::{DescriptorTable, Segment},
    features::Features,
    observe::{Counting, Cx, Facts, Observer, Plain},
    run::Exit,
    timing::Budget,
};

use crate::gadget::{Gadget, SERVICE_COUNT, SERVICES};
use crate::guest::*;
use crate::kernel::{ENTRY, Kernels};
use crate::memory::Memory;
use crate::random::Random;

/// A page of device memory, and when and how often the device was written to. (How often an
/// instruction is fetched there makes no difference.)
#[derive(Default)]
pub(crate) struct Device {
    page: Vec<u8>,
    writes: u64,
    /// The times of all writes, rolled into one.
    times: u64,
}

impl Bus for Device {
    fn mmio_read(&mut self, _: u64, gpa: u64, size: usize) -> u64 {
        let byte = |n: u64| {
            let at = (gpa + n).checked_sub(DEVICE).map_or(usize::MAX, |at| at as usize);
            u64::from(self.page.get(at).copied().unwrap_or(0xff))
        };
        (0..size as u64).map(|n| byte(n) << (8 * n)).sum()
    }
    fn mmio_write(&mut self, time: u64, gpa: u64, size: usize, value: u64) {
        self.writes += 1;
        self.times = self.times.rotate_left(7) ^ time;
        for n in 0..size as u64 {
            let at = (gpa + n).checked_sub(DEVICE).map_or(usize::MAX, |at| at as usize);
            if let Some(byte) = self.page.get_mut(at) {
                *byte = (value >> (8 * n)) as u8;
            }
        }
    }
    fn io_read(&mut self, _: u64, _: u16, _: usize) -> u32 {
        u32::MAX
    }
    fn io_write(&mut self, _: u64, _: u16, _: usize, _: u32) {}
    fn rdmsr(&mut self, _: u64, _: u32, _: u32, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        Err(Refused)
    }
    fn wrmsr(
        &mut self,
        _: u64,
        _: u64,
        _: u32,
        _: u64,
        _: u32,
        _: Option<Uncounted<'_>>,
    ) -> Result<After, Refused> {
        Err(Refused)
    }
    fn rdpmc(&mut self, _: RdpmcRequest, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        Err(Refused)
    }
    fn cpuid(&mut self, leaf: u32, _: u32) -> CpuidResult {
        CpuidResult { eax: leaf + 1, ebx: 2, ecx: 3, edx: 4 }
    }
    fn tsc(&mut self, time: u64) -> u64 {
        time
    }
    fn cr8(&mut self) -> u8 {
        0
    }
    fn set_cr8(&mut self, _: u64, _: u8) {}
    fn ferr(&mut self) {}
}

/// A machine whose processors share memory and translated code.
struct Machine {
    cpus: Vec<Cpu>,
    memory: Memory,
    device: Device,
    plain: Translations<Plain>,
    counting: Translations<Counting>,
    uncached: bool,
}

/// What can be seen of a processor after a stretch.
#[derive(Debug, PartialEq)]
struct Seen {
    gpr: [u64; 16],
    rip: u64,
    rflags: u64,
    segments: [Segment; 6],
    cr: [u64; 4],
    time: u64,
    retired: u64,
    cpl: u8,
    ended: bool,
    device_writes: (u64, u64),
    facts: Option<Facts>,
}

impl Machine {
    fn new(uncached: bool, budget: usize) -> Self {
        Self {
            cpus: Vec::new(),
            memory: Memory::new(RAM),
            device: Device { page: vec![0x90; 4096], writes: 0, times: 0 },
            plain: Translations::with_budget(budget),
            counting: Translations::with_budget(budget),
            uncached,
        }
    }

    fn write(&self, gpa: u64, bytes: &[u8]) {
        assert!(self.memory.ram.write_bytes(gpa, bytes));
    }

    fn word(&self, gpa: u64, value: u64) {
        self.write(gpa, &value.to_le_bytes());
    }

    /// Lays a guest out.
    fn load(&mut self, guest: &Guest, kernels: &Kernels) {
        self.write(FRAMES, &guest.frames);
        self.write(LIBRARY, &guest.library);
        self.device.page.copy_from_slice(&guest.frames[..4096]);
        self.device.writes = 0;
        self.device.times = 0;
        let each = guest.places.iter().zip(&guest.starts);
        self.cpus = each.map(|(p, start)| self.processor(p, start, kernels.of(p))).collect();
    }

    /// Writes what a processor has of its own, and sets it before the first instruction.
    fn processor(&self, place: &Place, start: &Start, kernel: &[u8]) -> Cpu {
        let at = |offset| place.private(offset);
        self.write(at(0), &vec![0; 0xc000]);
        self.write(at(private::KERNEL), kernel);
        self.write(at(private::DATA), &start.data);
        self.write(at(private::SLIDE), &[0x90; 4096]);
        self.write(at(private::SUPERVISOR), &[0xc3]);
        let mut cpu = Cpu::new(Features::K8);
        cpu.uncached = self.uncached;
        let (ip, selector) = start.entry_point;
        cpu.rip = ip;
        cpu.set_gpr(4, place.stack());
        cpu.set_gpr(6, place.source(&mut Random::new(1)));
        cpu.set_gpr(7, place.target(&mut Random::new(1)));
        let entry = |n: u64| at(private::KERNEL) + n * ENTRY;
        let service = |vector: u64| {
            let n = vector.wrapping_sub(u64::from(SERVICES));
            entry(if n < u64::from(SERVICE_COUNT) { n + 1 } else { 0 })
        };
        if place.mode == Mode::Real {
            cpu.idtr = DescriptorTable { base: at(private::IDT), limit: 0x3ff };
            for vector in 0..256 {
                let target = (at(0) >> 4) << 16 | (service(vector) - at(0));
                self.write(at(private::IDT) + 4 * vector, &(target as u32).to_le_bytes());
            }
            let real = |selector: u16, code| Segment::real(selector, code);
            for n in [0, 2, 3] {
                cpu.set_segment(n, real((REAL_DATA >> 4) as u16, false));
            }
            cpu.set_segment(1, real(selector, true));
            return cpu;
        }
        let dpl = if place.mode == Mode::Flat { 0 } else { 3 };
        self.descriptors(place, dpl);
        let long = place.mode == Mode::Long;
        for vector in 0..256 {
            let dpl = if vector >= 0x20 { 3 } else { 0 };
            let target = service(vector);
            let gate = target & 0xffff
                | u64::from(sel::KERNEL_CODE) << 16
                | (0x8e | dpl << 5) << 40
                | (target >> 16 & 0xffff) << 48;
            let size = if long { 16 } else { 8 };
            self.word(at(private::IDT) + size * vector, gate);
        }
        self.tables(place);
        let pg = 1 << 31;
        // PE, NE, WP; OSFXSR, PGE, PAE, PSE as the mode has them; NXE, LMA, LME.
        match place.mode {
            Mode::Real | Mode::Flat => cpu.set_control(0x1_0021, 0, 0x200, 0),
            Mode::Paged => cpu.set_control(pg | 0x1_0021, at(private::ROOT), 0x290, 0),
            Mode::Pae => {
                cpu.set_pdptes([at(private::DIRECTORY) | 1, 0, 0, 0]);
                cpu.set_control(pg | 0x1_0021, at(private::POINTERS), 0x2a0, 0x800);
            }
            Mode::Long => cpu.set_control(pg | 0x1_0021, at(private::ROOT), 0x2a0, 0xd00),
        }
        cpu.gdtr = DescriptorTable { base: at(private::GDT), limit: 0xff };
        cpu.idtr = DescriptorTable { base: at(private::IDT), limit: 0xfff };
        cpu.tr =
            Segment { selector: sel::TSS, base: at(private::TSS), limit: 0x67, attributes: 0x8b };
        let rpl = dpl as u16;
        let flat = |selector: u16, attributes: u16| Segment {
            selector: selector | rpl,
            base: 0,
            limit: u32::MAX,
            attributes: attributes | rpl << 5,
        };
        for n in [0, 2, 3] {
            cpu.set_segment(n, flat(sel::DATA, 0xc093));
        }
        let base = BASES[sel::CODE.iter().position(|&s| s == selector & !3).unwrap()];
        let size = if long {
            0x2000
        } else if base == BASES[2] {
            0
        } else {
            0x4000
        };
        cpu.set_segment(1, Segment { base, ..flat(selector, 0x809b | size) });
        cpu.set_cpl(dpl as u8);
        cpu
    }

    fn descriptors(&self, place: &Place, dpl: u64) {
        let long = place.mode == Mode::Long;
        let gdt = |selector: u16, base: u64, access: u64, flags: u64| {
            let raw = 0xffff | (base & 0xff_ffff) << 16 | access << 40 | 0xf << 48 | flags << 52;
            self.word(place.private(private::GDT) + u64::from(selector), raw);
        };
        let code = if long { 0xa } else { 0xc };
        gdt(sel::KERNEL_CODE, 0, 0x9b, code);
        gdt(sel::KERNEL_DATA, 0, 0x93, 0xc);
        gdt(sel::DATA, 0, 0x93 | dpl << 5, 0xc);
        for (n, selector) in sel::CODE.into_iter().enumerate() {
            let flags = if n == 2 { 8 } else { 0xc };
            gdt(selector, BASES[n], 0x9b | dpl << 5, if long { code } else { flags });
        }
        let tss = place.private(private::TSS);
        let stack = place.private(private::KERNEL_STACK);
        self.word(tss + 4, stack);
        if !long {
            self.write(tss + 8, &sel::KERNEL_DATA.to_le_bytes());
        }
    }

    fn tables(&self, place: &Place) {
        let at = |offset| place.private(offset);
        let table = at(private::TABLE);
        match place.mode {
            Mode::Real | Mode::Flat => return,
            Mode::Paged => self.word(at(private::ROOT), table | 7),
            Mode::Pae => {
                self.word(at(private::POINTERS), at(private::DIRECTORY) | 1);
                self.word(at(private::DIRECTORY), table | 7);
            }
            Mode::Long => {
                self.word(at(private::ROOT), at(private::POINTERS) | 7);
                self.word(at(private::POINTERS), at(private::DIRECTORY) | 7);
                self.word(at(private::DIRECTORY), table | 7);
            }
        }
        let size = place.mode.entry();
        let set = |page: u64, entry: u64| {
            self.write(table + page * size, &entry.to_le_bytes()[..size as usize]);
        };
        // All of RAM for the kernel, what the programs need for them.
        (0x10..RAM as u64 >> 12).for_each(|page| set(page, page << 12 | 3));
        for n in 0..16 {
            let page = if n < 8 { LOW >> 12 } else { HIGH >> 12 } + n % 8;
            // Now and then some code is in the device from the start.
            if place.phase.is_multiple_of(4) && n % 6 == 3 {
                set(page, DEVICE | 7);
                continue;
            }
            set(page, (FRAMES + (n * 5 + n / 8) % 8 * 4096) | 7);
        }
        set(LIBRARY >> 12, LIBRARY | 5);
        set(place.stack() >> 12, place.stack() & !0xfff | 7);
        set(at(private::SLIDE) >> 12, at(private::SLIDE) | 5);
        set(TABLE_ALIAS >> 12, table | 5);
        for n in 0..7 {
            // Low byte: present, writable, user. Then NOPs and RET, and MOV AL, imm8, whose operand
            // is the low byte of the next entry. Nothing uses the address.
            let entry = match place.mode {
                Mode::Paged if n % 2 == 0 => 0xb090_9007,
                Mode::Paged => 0xb0c3_9007,
                Mode::Long => 0xb090_0000_90c3_9007,
                _ => 0x0000_0003_90c3_9007,
            };
            set(MARKED / size + n, entry);
        }
        // The last of them is the table's own: the walk for this code sets a bit in it.
        set(MARKED / size + 7, table | 5);
    }

    /// Runs processor `n` until `time`, under one observer or the other.
    fn advance(&mut self, n: usize, time: u64, counted: bool) -> (bool, Option<Facts>) {
        let cpu = &mut self.cpus[n];
        let bus = &mut self.device;
        let ram = &self.memory.ram;
        if counted {
            let mut cx = Cx { bus, ram, observer: Counting::default() };
            let ended = run(cpu, time, &mut cx, &mut self.counting);
            (ended, cx.observer.facts().map(|facts| *facts))
        } else {
            let mut cx = Cx { bus, ram, observer: Plain };
            (run(cpu, time, &mut cx, &mut self.plain), None)
        }
    }

    fn seen(&self, n: usize, (ended, facts): (bool, Option<Facts>)) -> Seen {
        let cpu = &self.cpus[n];
        Seen {
            gpr: std::array::from_fn(|r| cpu.gpr(r as u8)),
            rip: cpu.rip,
            rflags: cpu.rflags(),
            segments: std::array::from_fn(|s| *cpu.segment(s as u8)),
            cr: [cpu.cr0(), cpu.cr2, cpu.cr3(), cpu.cr4()],
            time: cpu.time,
            retired: cpu.retired(),
            cpl: cpu.cpl(),
            ended,
            device_writes: (self.device.writes, self.device.times),
            facts,
        }
    }

    /// A page of memory, or that of the device.
    fn page(&self, gpa: u64) -> [u8; 4096] {
        let mut bytes = [0; 4096];
        if gpa == DEVICE {
            bytes.copy_from_slice(&self.device.page);
        } else {
            assert!(self.memory.ram.read_bytes(gpa, &mut bytes));
        }
        bytes
    }
}

/// Whether the processor has halted or shut down before `time`.
fn run<O: Observer>(
    cpu: &mut Cpu,
    time: u64,
    cx: &mut Cx<'_, O>,
    translations: &mut Translations<O>,
) -> bool {
    while cpu.time < time {
        if matches!(cpu.run(cx, translations, Budget::until(time)), Exit::Halt | Exit::Shutdown) {
            return true;
        }
    }
    false
}

/// Where a processor begins, and its kernel's data.
struct Start {
    data: Vec<u8>,
    entry_point: (u64, u16),
}

/// All that a round begins with.
struct Guest {
    places: Vec<Place>,
    starts: Vec<Start>,
    frames: Vec<u8>,
    library: Vec<u8>,
}

impl Guest {
    fn random(random: &mut Random, cpus: usize) -> Self {
        let mode = random.one(&Mode::ALL);
        let phase = random.below(SLOT);
        let places: Vec<_> = (0..cpus).map(|cpu| Place { mode, cpu, phase }).collect();
        // Many of the slots hold the same, so that a copy often changes little.
        let pool: Vec<_> = (0..160).map(|_| Gadget::random(&places[0], random)).collect();
        let mut slots = |bytes: u64| {
            let mut code = vec![0x90; phase as usize];
            while (code.len() as u64) < bytes + SLOT {
                let slot = random.below(pool.len() as u64) as usize;
                code.extend_from_slice(&pool[slot]);
            }
            code
        };
        let mut frames = slots(FRAMES_LEN);
        frames.truncate(FRAMES_LEN as usize);
        let library = slots(0x1000)[phase as usize..][..0x1000].to_vec();
        let starts = places.iter().map(|place| Start::random(place, random)).collect();
        Self { places, starts, frames, library }
    }
}

impl Start {
    fn random(place: &Place, random: &mut Random) -> Self {
        let mut data = vec![0; 0x400];
        let mut word = |offset: u64, value: u64| {
            let at = (offset - private::DATA) as usize;
            data[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        word(private::DATA, random.next() & 0xffff_ffff);
        for n in 0..16 {
            let (ip, selector) = place.entry_point(random);
            word(private::RESTARTS + 16 * n, ip);
            word(private::RESTARTS + 16 * n + 8, u64::from(selector));
            word(private::TARGETS + 8 * n, place.target(random));
            word(private::SOURCES + 8 * n, place.source(random));
        }
        Self { data, entry_point: place.entry_point(random) }
    }
}

/// Instructions of a round, on each processor.
const ROUND: u64 = 500;

/// One round on both machines.
fn round(
    seed: u64,
    kernels: &Kernels,
    cached: &mut Machine,
    plain: &mut Machine,
    cpus: usize,
) -> u64 {
    let mut random = Random::new(seed);
    let guest = Guest::random(&mut random, cpus);
    cached.load(&guest, kernels);
    plain.load(&guest, kernels);
    let mut ended = vec![false; cpus];
    let mut time = 0;
    let mut before = None;
    while time < ROUND && ended.contains(&false) {
        time += random.below(60) + 1;
        for (n, ended) in ended.iter_mut().enumerate().filter(|(_, ended)| !**ended) {
            let counted = random.below(2) == 0;
            let expected = plain.advance(n, time, counted);
            let actual = cached.advance(n, time, counted);
            *ended = expected.0;
            let (expected, actual) = (plain.seen(n, expected), cached.seen(n, actual));
            assert!(
                expected == actual,
                "seed {seed}, {:?}, processor {n}: from\n{before:x?}\nwithout caches\n{expected:x?}\nwith \
                 them\n{actual:x?}",
                guest.places[0]
            );
            before = Some(actual);
        }
    }
    for gpa in (0..=DEVICE).step_by(4096) {
        let same = plain.page(gpa) == cached.page(gpa);
        assert!(same, "seed {seed}, {:?}: the page at {gpa:#x} differs", guest.places[0]);
    }
    cached.cpus.iter().map(Cpu::retired).sum()
}

fn rounds(cpus: usize) {
    let kernels = Kernels::new();
    let first = crate::first_seed();
    let last = first + crate::rounds();
    let mut retired = 0;
    let mut seed = first;
    while seed < last {
        // What was translated outlives a few rounds; now and then there is room for little.
        let budget = if seed.is_multiple_of(3) { 60_000 } else { 64 << 20 };
        let (mut cached, mut plain) = (Machine::new(false, budget), Machine::new(true, 0));
        for _ in 0..32.min(last - seed) {
            retired += round(seed, &kernels, &mut cached, &mut plain, cpus);
            seed += 1;
        }
    }
    println!("{} rounds from seed {first}: {retired} instructions", last - first);
}

#[test]
fn one_processor() {
    rounds(1);
}

/// A round that has differed: a REP MOVSD overwrites itself, goes on, and comes to a device, which was not to
/// be accessed in the middle of a block; what was executed again for it was another instruction.
#[test]
fn a_string_overwrites_itself_and_comes_to_a_device() {
    const SEED: u64 = 30_997;
    let (mut cached, mut plain) = (Machine::new(false, 64 << 20), Machine::new(true, 0));
    round(SEED, &Kernels::new(), &mut cached, &mut plain, 1);
}

/// Rounds that have differed, or did not end. Before an instruction came to a device, and was to be executed by itself
/// for that, it had overwritten code: the run ended first, and the next one began with the same; or the code was its
/// own, and what was executed again was another instruction. Of the second an ENTER did so with its frame.
#[test]
fn an_instruction_overwrites_code_before_it_comes_to_a_device() {
    for (first, rounds, cpus) in
        [(138_238, 1, 1), (138_238, 1, 2), (240_387, 1, 2), (406_401, 32, 1)]
    {
        let (mut cached, mut plain) = (Machine::new(false, 64 << 20), Machine::new(true, 0));
        for seed in first..first + rounds {
            round(seed, &Kernels::new(), &mut cached, &mut plain, cpus);
        }
    }
}

#[test]
fn two_processors() {
    rounds(2);
}
