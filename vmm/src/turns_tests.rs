//! The order in which processors run, against the same by asking every one of them at every turn, in
//! generated guests whose processors wait for, send and take interrupts of all kinds.

use std::collections::BTreeMap;
use std::ops::Range;

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, al, dword_ptr, dx, eax, ebp, ecx, edi, edx, esi, esp};

use super::*;
use crate::boot::memory::RamLayout;
use crate::boot::{self, Payload};
use crate::config::Config;
use crate::engine::soft::{Timing, Warm};
use crate::program::{DATA, Image, LAPIC, LAPIC_ID, Program, TRAMPOLINE, TRAMPOLINE_BYTES};

pub(crate) type Made = Result<(), IcedError>;

// Offsets in the local APIC's page; fields of its interrupt command register.
pub(crate) const ICR: i32 = 0x300;
pub(crate) const ICR_HIGH: i32 = 0x310;
const LVT_TIMER: i32 = 0x320;
const LVTPC: i32 = 0x340;
pub(crate) const INITIAL: i32 = 0x380;
pub(crate) const EOI: i32 = 0xB0;
pub(crate) const ASSERT: u32 = 1 << 14;
const ALL_BUT_SELF: u32 = 3 << 18;
const INIT: u32 = 5 << 8;
const START_UP: u32 = 6 << 8 | 8;
pub(crate) const NMI: u32 = 4 << 8;

const TIMER_VECTOR: u8 = 0x40;
const PIT_VECTOR: u8 = 0x41;
pub(crate) const IPI_VECTOR: u8 = 0x42;
const PMI_VECTOR: u8 = 0x43;
/// That of NMI, and these.
const VECTORS: [u8; 5] = [2, TIMER_VECTOR, PIT_VECTOR, IPI_VECTOR, PMI_VECTOR];
const IO_APIC: u32 = 0xFEC0_0000;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }
}

/// Rounds of DEC and JNZ.
pub(crate) fn spin(p: &mut Program, rounds: u32) -> Made {
    p.mov(ecx, rounds)?;
    let next = p.here()?;
    p.dec(ecx)?;
    p.jnz(next)
}

/// OUT of a byte.
fn out(p: &mut Program, port: u32, value: u32) -> Made {
    p.mov(edx, port)?;
    p.mov(eax, value)?;
    p.out(dx, al)
}

/// The PIT interrupts once, by way of the I/O APIC, one of them.
pub(crate) fn start_pit(p: &mut Program, random: &mut Random, cpus: u32) -> Made {
    for (register, value) in [(0x15, random.below(cpus) << 24), (0x14, u32::from(PIT_VECTOR))] {
        p.mov(dword_ptr(IO_APIC), register)?;
        p.mov(dword_ptr(IO_APIC + 0x10), value)?;
    }
    out(p, 0x43, 0x30)?;
    // Few of its clocks: it is not to be set again before.
    out(p, 0x40, 1 + random.below(6))?;
    out(p, 0x40, 0)
}

/// What one of the others is sent, or all of them.
fn send(p: &mut Program, random: &mut Random, cpus: u32) -> Made {
    let to = random.below(cpus) << 24;
    p.write_lapic(ICR_HIGH, to)?;
    match random.below(12) {
        0 => p.write_lapic(ICR, ASSERT | NMI),
        1 => p.write_lapic(ICR, ALL_BUT_SELF | ASSERT | u32::from(IPI_VECTOR)),
        2 => p.write_lapic(ICR, 1 << 18 | ASSERT | u32::from(IPI_VECTOR)),
        3 if to != 0 => {
            // Whoever it is begins anew.
            p.write_lapic(ICR, ASSERT | INIT)?;
            spin(p, 1 + random.below(600))?;
            p.write_lapic(ICR, ASSERT | START_UP)
        }
        _ => p.write_lapic(ICR, ASSERT | u32::from(IPI_VECTOR)),
    }
}

/// A few things of many that a processor may do.
fn script(p: &mut Program, random: &mut Random, cpus: u32, knc: bool) -> Made {
    for _ in 0..6 + random.below(10) {
        match random.below(13) {
            0..=2 => spin(p, 1 + random.below(3000))?,
            3 => send(p, random, cpus)?,
            // Halted until the timer comes, or anything else.
            4 | 5 => {
                p.write_lapic(INITIAL, 1 + random.below(4000))?;
                p.sti()?;
                p.hlt()?;
                p.cli()?;
            }
            // Halted until another one does something about it.
            6 if random.below(3) == 0 => {
                p.sti()?;
                p.hlt()?;
                p.cli()?;
            }
            // A timer expires while it runs, and while others do.
            7 => {
                p.write_lapic(INITIAL, 1 + random.below(3000))?;
                p.sti()?;
                spin(p, 1 + random.below(2000))?;
                p.cli()?;
            }
            8 => p.pause()?,
            9 => start_pit(p, random, cpus)?,
            10 => out(p, 0x3F8, 0x41 + random.below(26))?,
            // A counter that overflows; on Knights Corner by what the others of the core do, too.
            11 if knc => {
                p.write_msr(0x2E, 3)?;
                p.write_msr(
                    0x20,
                    u64::from(1 + random.below(3000)).wrapping_neg() & 0xFF_FFFF_FFFF,
                )?;
                let any = random.below(2) << 21;
                p.write_msr(0x28, u64::from(0x16 | 3 << 16 | 1 << 20 | 1 << 22 | any))?;
            }
            12 if knc => p.write_msr(0x28, 0)?,
            _ => p.mov(eax, dword_ptr(DATA))?,
        }
    }
    Ok(())
}

/// A handler that counts and, but for an NMI, ends.
fn handler(p: &mut Program, vector: u8, knc: bool) -> Made {
    let mut over = p.create_label();
    p.jmp(over)?;
    let entry: CodeLabel = p.here()?;
    p.gate(vector, entry, 0);
    p.pushad()?;
    p.lock().inc(dword_ptr(DATA + 0x100 + 4 * u32::from(vector)))?;
    if vector == PMI_VECTOR && knc {
        p.write_msr(0x2E, 3)?;
    }
    if vector != 2 {
        p.write_lapic(EOI, 0)?;
    }
    p.popad()?;
    p.iretd()?;
    p.place(&mut over)
}

/// Each processor does a script of its own, again and again.
pub(crate) fn guest(random: &mut Random, cpus: u32, knc: bool) -> Result<Vec<u8>, IcedError> {
    let prepare = |p: &mut Program| if knc { p.write_msr(0x2F, 3) } else { Ok(()) };
    each_by_itself(cpus, knc, prepare, |p| script(p, random, cpus, knc))
}

/// Each thread of a core does a script of its own, again and again, and counts what depends on the others; what it
/// reads of the counters and of the time it adds up.
pub(crate) fn core_guest(random: &mut Random, cpus: u32) -> Result<Vec<u8>, IcedError> {
    // Of 327357-001: reads that miss, flushes, the V pipe, address interlocks, front end, E stage, cycles.
    const EVENTS: [u32; 8] = [0x03, 0x15, 0x17, 0x1F, 0x2D, 0x2E, 0x2A, 0x16];
    let prepare = |p: &mut Program| {
        p.write_msr(0x2F, 3)?;
        // Something of the core is always counted.
        p.write_msr(0x29, 0x2E | 3 << 16 | 1 << 22)
    };
    each_by_itself(cpus, true, prepare, |p| {
        (0..8).try_for_each(|_| {
            let event = EVENTS[random.below(8) as usize];
            core_script(p, random, cpus, event, Counted { all_threads: true, compared: true })
        })
    })
}

/// Each thread of several cores reads lines of its own that its core does not keep, for a while each time; some write what
/// the others have too. Misses are counted all the time, and something else at times.
pub(crate) fn cores_guest(random: &mut Random, cpus: u32) -> Result<Vec<u8>, IcedError> {
    // Of 327357-001: reads that miss, lines that are written back, the V pipe, misses of the L2.
    const EVENTS: [u32; 4] = [0x03, 0x06, 0x17, 0x10CB];
    let prepare = |p: &mut Program| {
        p.write_msr(0x2F, 3)?;
        p.write_msr(0x29, 0x03 | 3 << 16 | 1 << 22)
    };
    each_by_itself(cpus, true, prepare, |p| {
        (0..4).try_for_each(|_| match random.below(8) {
            0..6 => {
                p.mov(edi, 1 + random.below(40))?;
                let again = p.here()?;
                read_own_lines(p, 12 + random.below(12))?;
                p.dec(edi)?;
                p.jnz(again)
            }
            6 => p.lock().inc(dword_ptr(DATA + 0x200)),
            _ => {
                let event = EVENTS[random.below(4) as usize];
                core_script(p, random, cpus, event, Counted { all_threads: false, compared: true })
            }
        })
    })
}

/// Reads so many lines of one set of a second level of 1,024, each in a page of the processor's own: Knights Corner's
/// prefetcher brings what is near. Its number is in EBP.
fn read_own_lines(p: &mut Program, lines: u32) -> Made {
    p.mov(esi, ebp)?;
    p.shl(esi, 12)?;
    p.mov(ecx, lines)?;
    let next = p.here()?;
    p.mov(eax, dword_ptr(esi + 0x20_0000))?;
    p.add(esi, 1024 * 64)?;
    p.dec(ecx)?;
    p.jnz(next)
}

/// A guest whose processors all prepare themselves, and then do each a script of its own for ever.
pub(crate) fn each_by_itself(
    cpus: u32,
    knc: bool,
    prepare: impl FnOnce(&mut Program) -> Made,
    script: impl FnMut(&mut Program) -> Made,
) -> Result<Vec<u8>, IcedError> {
    Ok(image_of_each(cpus, knc, prepare, script)?.bytes)
}

/// The same, with its symbols.
pub(crate) fn image_of_each(
    cpus: u32,
    knc: bool,
    prepare: impl FnOnce(&mut Program) -> Made,
    mut script: impl FnMut(&mut Program) -> Made,
) -> Result<Image, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    for vector in VECTORS {
        handler(p, vector, knc)?;
    }
    let mut first = p.create_label();
    p.jmp(first)?;
    let entry = p.here()?;
    p.set_start_up(entry);
    if cpus > 8 {
        // More than have a task and stacks of their own: 4 KiB each behind all that scripts access.
        p.set_up_segments()?;
        p.mov(esp, dword_ptr(LAPIC + LAPIC_ID as u32))?;
        p.shr(esp, 12)?;
        p.add(esp, 0x3A_1000)?;
        p.set_up_interrupts()?;
    } else {
        p.set_up_processor()?;
    }
    let work = p.here()?;
    p.write_lapic(LVT_TIMER, u32::from(TIMER_VECTOR))?;
    p.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
    prepare(p)?;
    p.mov(ebp, dword_ptr(LAPIC + LAPIC_ID as u32))?;
    p.shr(ebp, 24)?;
    for n in 0..cpus {
        let mut over = p.create_label();
        p.cmp(ebp, n as i32)?;
        p.jne(over)?;
        let again = p.here()?;
        script(p)?;
        p.jmp(again)?;
        p.place(&mut over)?;
    }
    p.hlt()?;
    p.place(&mut first)?;
    // The PIT comes by the I/O APIC alone: the 8259 has no vectors.
    out(p, 0x21, 0xFF)?;
    p.mov(esi, TRAMPOLINE)?;
    p.mov(edi, 8 << 12)?;
    p.mov(ecx, TRAMPOLINE_BYTES)?;
    p.rep().movsb()?;
    p.write_lapic(ICR, ALL_BUT_SELF | ASSERT | INIT)?;
    p.write_lapic(ICR, ALL_BUT_SELF | ASSERT | START_UP)?;
    p.jmp(work)?;
    program.finish()
}

/// What a counter may be programmed to beside the plain way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// At times it counts what all threads of the core do.
    pub(crate) all_threads: bool,
    /// At times it compares the occurrences of each cycle.
    pub(crate) compared: bool,
}

/// One of the things that a thread of a core may do.
pub(crate) fn core_script(
    p: &mut Program,
    random: &mut Random,
    cpus: u32,
    event: u32,
    counted: Counted,
) -> Made {
    let sum = DATA + 0x200;
    match random.below(12) {
        0 => spin(p, 1 + random.below(500))?,
        1 => {
            p.mov(ecx, 1 + random.below(40))?;
            let again = p.here()?;
            // Lines that the others have too, and pairs.
            p.mov(eax, dword_ptr(ecx * 8 + 0x30_0000))?;
            p.mov(esi, ecx)?;
            p.add(dword_ptr(esi * 8 + 0x30_1000), eax)?;
            p.inc(edx)?;
            p.dec(ecx)?;
            p.jnz(again)?;
        }
        2 => {
            p.rdtsc()?;
            p.add(dword_ptr(sum), eax)?;
        }
        3 | 4 => {
            p.mov(ecx, random.below(2))?;
            p.rdpmc()?;
            p.lock().add(dword_ptr(sum + 8), eax)?;
        }
        5 => {
            let to = random.below(cpus) << 24;
            p.write_lapic(ICR_HIGH, to)?;
            let nmi = random.below(4) == 0;
            p.write_lapic(ICR, ASSERT | if nmi { NMI } else { u32::from(IPI_VECTOR) })?;
        }
        6 => {
            p.write_lapic(INITIAL, 1 + random.below(4000))?;
            p.sti()?;
            p.hlt()?;
            p.cli()?;
        }
        7 => {
            p.mov(eax, random.below(300))?;
            p.sti()?;
            // DELAY EAX.
            p.db(&[0xC5, 0xFA, 0xAE, 0xF0])?;
            p.cli()?;
        }
        8 | 9 => {
            // At times it compares the occurrences of each cycle: threshold, inversion, edge.
            let compared = random.below(3) << 24 | random.below(2) << 23 | random.below(2) << 18;
            let compared = if random.below(2) == 0 && counted.compared { compared } else { 0 };
            let any = random.below(2) << 21;
            let any = if counted.all_threads { any } else { 0 };
            let select = event | 3 << 16 | 1 << 20 | 1 << 22 | any | compared;
            let overflow = u64::from(1 + random.below(3000)).wrapping_neg() & 0xFF_FFFF_FFFF;
            p.write_msr(0x2E, 3)?;
            p.write_msr(0x20, overflow)?;
            p.write_msr(0x28, u64::from(select))?;
        }
        10 => p.write_msr(0x28, 0)?,
        _ => {
            p.sti()?;
            spin(p, 1 + random.below(100))?;
            p.cli()?;
        }
    }
    Ok(())
}

/// The seeds of generated guests from `first` on: so many, or as many as VPMU_GUESTS says.
pub(crate) fn seeds(first: u64, usual: u64) -> Range<u64> {
    let asked =
        std::env::var("VPMU_GUESTS").ok().map(|n| n.parse().expect("VPMU_GUESTS: a number"));
    first..first + asked.unwrap_or(usual)
}

pub(crate) fn machine(cpu: &str, cpus: u32, bytes: &[u8]) -> Machine {
    let image = boot::Image { name: "generated".into(), bytes: bytes.into() };
    let payload = Payload::Flat { image, address: crate::program::LOAD_ADDRESS.into() };
    let ram = RamLayout::new(4 << 20, None).unwrap();
    let config = Config { cpus: cpus as u8, ..Config::new(cpu, ram, payload).unwrap() };
    let mut machine = Machine::new(&config).unwrap();
    machine.board.chipset.irq.delay(true);
    machine.look_at_all();
    machine
}

/// The same by asking: who sleeps is found at every turn, and takes its part of each.
impl Machine {
    fn all_asleep(&self) -> bool {
        self.vcpus.iter().all(|vcpu| vcpu.asleep(&self.board))
    }

    fn slice_of_all(&mut self, until: u64) -> Option<End> {
        while self.now < until {
            if let Some(end) = self.turn_of_all(until) {
                return Some(end);
            }
        }
        None
    }

    fn turn_of_all(&mut self, until: u64) -> Option<End> {
        let device = self.next_event().unwrap_or(u64::MAX).max(self.now + 1);
        let mut until = until.min(device);
        let (sleeping, executing): (Vec<_>, Vec<_>) =
            (0..self.vcpus.len()).partition(|&id| self.vcpus[id].asleep(&self.board));
        let awake = executing.len();
        let short = self.now < self.short_turns_until;
        if awake > 1 {
            let mut of = ProcessorSet::default();
            executing.iter().for_each(|&id| of.insert(id));
            until = until.min(self.now + self.longest_turn(of));
        }
        if short {
            until = until.min(self.now + self.board.platform.ipi_latency);
        }
        for (nth, id) in executing.into_iter().chain(sleeping).enumerate() {
            loop {
                self.vcpus.iter().for_each(|vcpu| self.soft.look_at(vcpu));
                let at_pause = !short && nth + 1 < awake;
                let limit = Limit {
                    time: until,
                    instructions: u64::MAX,
                    counted: false,
                    at_send: !short,
                    at_pause,
                };
                let (vcpus, board) = (&mut self.vcpus, &mut self.board);
                match self.soft.run(vcpus, id, board, self.memory.ram(), limit) {
                    Outcome::Complete => break,
                    Outcome::Yielded => {
                        until = until.min(self.vcpus[id].cpu.time);
                        self.short_turns_until = until + SHORT_TURNS;
                    }
                    Outcome::Signals => _ = self.distribute_signals(),
                    Outcome::Shutdown => return Some(End::TripleFault(id)),
                    other => panic!("{other:?}"),
                }
            }
        }
        if self.board.chipset.irq.first_arrival().is_some() {
            self.short_turns_until = until + SHORT_TURNS;
            for id in 0..self.vcpus.len() {
                self.board.chipset.irq.arrive(id, self.vcpus[id].cpu.time);
            }
            self.distribute_signals();
        }
        self.now = until;
        self.board.catch_up(until);
        None
    }
}

/// Where each processor is, and what the guest has done.
fn state(machine: &Machine) -> (u64, Vec<String>, Vec<(usize, u32)>) {
    let of = |vcpu: &crate::engine::soft::Vcpu| {
        let cpu = &vcpu.cpu;
        let registers: Vec<_> = (0..8).map(|n| cpu.gpr(n)).collect();
        // How far beyond the end the time of its last instruction has passed already is nobody's concern.
        let (retired, time, slept) = (cpu.retired(), cpu.time.min(machine.now), vcpu.halted_cycles);
        format!("{retired} retired, {time} time, {slept} slept, rip {:x}, {registers:x?}", cpu.rip)
    };
    let mut data = vec![0; 0x400];
    assert!(machine.read_physical(DATA.into(), &mut data));
    let words = data.chunks_exact(4).enumerate().filter(|(_, word)| word != &[0; 4]);
    let data =
        words.map(|(n, word)| (4 * n, u32::from_le_bytes(word.try_into().unwrap()))).collect();
    (machine.now, machine.vcpus.iter().map(of).collect(), data)
}

/// What has happened in runs of generated guests.
#[derive(Debug, Default)]
struct Seen {
    slices: u32,
    asleep: u32,
    interrupts: BTreeMap<u8, u32>,
}

/// Runs generated guests on both machines, slice by slice.
fn compare(cpu: &str, cpus: u32, seeds: Range<u64>, seen: &mut Seen) {
    for seed in seeds {
        let random = &mut Random(seed);
        let bytes = guest(random, cpus, cpu == "knc").unwrap();
        let [mut one, mut other] = [0; 2].map(|_| {
            let mut machine = machine(cpu, cpus, &bytes);
            // The threads of a core do not take turns, whatever is counted.
            machine.soft.set_timing(Timing::Flat, Warm::Counting);
            machine
        });
        let mut left = u64::MAX;
        for slice in 0..150 {
            let asleep = one.is_asleep();
            assert_eq!(asleep, other.all_asleep(), "{cpu} {cpus} seed {seed} slice {slice}");
            let (until, expected) =
                (one.horizon(one.now, asleep), other.horizon(other.now, asleep));
            assert_eq!(until, expected, "{cpu} {cpus} seed {seed} slice {slice}");
            let Some(until) = until else { break };
            let ended = match one.slice(until, &mut left, false) {
                Slice::Whole => None,
                Slice::Ended(end) => Some(end),
                slice => panic!("{slice:?}"),
            };
            assert_eq!(ended, other.slice_of_all(until), "{cpu} {cpus} seed {seed}");
            seen.slices += 1;
            seen.asleep += u32::from(asleep);
            // Most of the time those that sleep stay behind.
            if slice % 5 == 4 || ended.is_some() {
                one.settle();
                let (found, expected) = (state(&one), state(&other));
                assert_eq!(found, expected, "{cpu} {cpus} seed {seed} slice {slice}");
            }
            if ended.is_some() {
                break;
            }
        }
        for vector in VECTORS {
            let address = u64::from(DATA) + 0x100 + 4 * u64::from(vector);
            *seen.interrupts.entry(vector).or_default() +=
                other.memory.ram().read_u32(address).unwrap();
        }
    }
}

/// What is counted of the threads of a core, what they read of the time and when they take interrupts does not depend
/// on where the run is cut into slices.
fn runs_as_one_however_it_is_cut(cpus: u32) {
    let mut interleaved = 0;
    for seed in seeds(200, 10) {
        let random = &mut Random(seed);
        let bytes = core_guest(random, cpus).unwrap();
        let [mut whole, mut cut] = [0; 2].map(|_| machine("knc", cpus, &bytes));
        let mut left = u64::MAX;
        for slice in 0..30 {
            let asleep = whole.is_asleep();
            let Some(until) = whole.horizon(whole.now, asleep) else { break };
            let ended = whole.slice(until, &mut left, false);
            interleaved += u32::from(whole.soft.interleaves());
            // Before all of them count something of the core, what they do to each other depends on turns.
            let longest = if slice < 3 { u64::MAX } else { 1 + u64::from(random.below(3000)) };
            let mut cut_ended = Slice::Whole;
            while cut.now < until && cut_ended == Slice::Whole {
                cut.is_asleep();
                let to = until.min(cut.now.saturating_add(longest));
                cut_ended = cut.slice(to, &mut left, false);
            }
            assert_eq!(cut_ended, ended, "{cpus} seed {seed} slice {slice}");
            if ended != Slice::Whole {
                break;
            }
            whole.settle();
            cut.settle();
            assert_eq!(state(&cut), state(&whole), "{cpus} seed {seed} slice {slice}");
        }
    }
    assert!(interleaved > 200, "{interleaved} slices");
}

#[test]
fn a_core_of_one_thread_runs_as_one_however_it_is_cut() {
    runs_as_one_however_it_is_cut(1);
}

#[test]
fn a_core_of_two_threads_runs_as_one_however_it_is_cut() {
    runs_as_one_however_it_is_cut(2);
}

#[test]
fn a_core_of_three_threads_runs_as_one_however_it_is_cut() {
    runs_as_one_however_it_is_cut(3);
}

#[test]
fn a_core_of_four_threads_runs_as_one_however_it_is_cut() {
    runs_as_one_however_it_is_cut(4);
}

#[test]
fn generated_guests_run_as_if_all_were_asked() {
    let mut seen = Seen::default();
    for cpus in [1, 2, 3, 5, 8] {
        compare("p6", cpus, seeds(0, 12), &mut seen);
        compare("knc", cpus, seeds(100, 12), &mut seen);
    }
    assert!(seen.slices > 8000 && seen.asleep > 800, "{} {}", seen.slices, seen.asleep);
    assert!(VECTORS.iter().all(|vector| seen.interrupts[vector] > 500), "{seen:?}");
}

/// Two K8s increment each a word of its own, in one line, 1,000 times, at one cycle an instruction (no event that
/// is counted asks for the pipeline): 3,000 cycles. A line that the other has written since comes from its cache:
/// DATA_CACHE_REFILLS_FROM_SYSTEM, 43h (AMD BKDG 26094, section 10.2), counts that. It is there once a turn of 100
/// cycles, so about 30 times, and not once in 5,000.
#[test]
fn a_line_that_two_write_goes_to_and_fro() {
    const LINE: u32 = 0x30_0000;
    const EVENT: u64 = 0x43 | 0x1F << 8 | 3 << 16 | 1 << 22;
    let bytes = each_by_itself(
        2,
        false,
        |_| Ok(()),
        |p| {
            p.lock().inc(dword_ptr(DATA))?;
            let both = p.here()?;
            p.cmp(dword_ptr(DATA), 2)?;
            p.jb(both)?;
            p.write_msr(0xC001_0000, EVENT)?;
            p.mov(ecx, 1000)?;
            let next = p.here()?;
            p.inc(dword_ptr(ebp * 4 + LINE))?;
            p.dec(ecx)?;
            p.jnz(next)?;
            p.mov(ecx, 0)?;
            p.rdpmc()?;
            p.mov(dword_ptr(ebp * 4 + (DATA + 0x100)), eax)?;
            p.hlt()
        },
    )
    .unwrap();
    let mut machine = machine("k8", 2, &bytes);
    let mut left = u64::MAX;
    assert_eq!(machine.slice(100_000, &mut left, false), Slice::Whole);
    let mut refills = [0; 8];
    assert!(machine.read_physical(u64::from(DATA) + 0x100, &mut refills));
    let refills = [0, 4].map(|at| u32::from_le_bytes(refills[at..at + 4].try_into().unwrap()));
    assert!(refills.iter().all(|refills| (25..=36).contains(refills)), "{refills:?}");
}

/// The lengths of the turns of a machine that counts cache misses, from the first to the last of so many cycles. All of its
/// processors do the same, again and again: a loop that accesses nothing, of 60,000 instructions, and so many increments
/// of one word.
fn lengths_of_turns(
    (cpu, cpus): (&str, u32),
    evtsel: (u32, u64),
    increments: u32,
    cycles: u64,
) -> Vec<u64> {
    let prepare = |p: &mut Program| {
        if cpu == "knc" {
            p.write_msr(0x2F, 3)?;
        }
        p.write_msr(evtsel.0, evtsel.1 | 3 << 16 | 1 << 22)
    };
    let bytes = each_by_itself(cpus, cpu == "knc", prepare, |p| {
        spin(p, 30_000)?;
        p.mov(ecx, increments)?;
        let next = p.here()?;
        p.inc(dword_ptr(DATA + 0x400))?;
        p.dec(ecx)?;
        p.jnz(next)
    })
    .unwrap();
    let mut machine = machine(cpu, cpus, &bytes);
    let mut left = u64::MAX;
    let mut lengths = vec![];
    while machine.now < cycles {
        let begun = machine.now;
        assert_eq!(machine.turn(u64::MAX, &mut left, false), Slice::Whole);
        lengths.push(machine.now - begun);
    }
    lengths
}

/// While processors write one line, a turn is as long as that takes from one to another. When each is by itself again, the
/// next is as long as it has been so: twice as long as the one before from the third on, up to 5,000 cycles. A core of
/// Knights Corner has four threads.
#[test]
fn turns_are_short_where_lines_go_from_one_to_another() {
    // DATA_CACHE_MISSES (AMD BKDG 26094, section 10.2); DATA_READ_MISS (Intel 327357-001, 03h).
    for (cpu, cpus, evtsel, increments, shortest) in
        [("k8", 2, (0xC001_0000, 0x41), 5000, 100), ("knc", 8, (0x28, 0x03), 500, 250)]
    {
        let lengths = lengths_of_turns((cpu, cpus), evtsel, increments, 1_000_000);
        let mut growing = vec![shortest, shortest];
        while let Some(sum) = Some(growing.iter().sum::<u64>()).filter(|&sum| sum < 5_000) {
            growing.push(sum);
        }
        growing.push(5_000);
        let grow = lengths.windows(growing.len()).filter(|lengths| **lengths == *growing).count();
        assert!(grow >= 3, "{cpu}: {lengths:?}");
        let longest = lengths.iter().max();
        assert_eq!(longest, Some(&5_000), "{cpu}");
        let shared = lengths
            .chunk_by(|one, other| one == other)
            .filter(|lengths| lengths[0] == shortest && lengths.len() as u64 * shortest > 10_000);
        assert!(shared.count() >= 3, "{cpu}: {lengths:?}");
    }
}

/// The turns of a machine of which each processor reads lines of its own that no cache keeps, and counts its misses: their
/// lengths, and the first processor of each part.
fn turns_beside_memory((cpu, cpus): (&str, u32), evtsel: (u32, u64)) -> Vec<(u64, Vec<usize>)> {
    let prepare = |p: &mut Program| {
        if cpu == "knc" {
            p.write_msr(0x2F, 3)?;
        }
        p.write_msr(evtsel.0, evtsel.1 | 3 << 16 | 1 << 22)
    };
    // K8's second level has 16 ways, and the first another two.
    let bytes = each_by_itself(cpus, cpu == "knc", prepare, |p| read_own_lines(p, 24)).unwrap();
    let mut machine = machine(cpu, cpus, &bytes);
    let mut left = u64::MAX;
    let mut turns = vec![];
    while machine.now < 400_000 {
        let begun = machine.now;
        let turn = machine.begin_turn(u64::MAX, false);
        let mut ahead = turn.clone();
        let mut order = vec![];
        while !ahead.rest.is_empty() {
            order.extend(match machine.next_part(&mut ahead).unwrap() {
                Part::One { id, .. } => Some(id),
                Part::Core { threads, .. } => threads.next(0),
                Part::Stirred { .. } => None,
            });
        }
        machine.cut_off = Some(CutOff { turn: Some(turn), slice: u64::MAX });
        assert_eq!(machine.turn(u64::MAX, &mut left, false), Slice::Whole);
        turns.push((machine.now - begun, order));
    }
    turns
}

/// While each core of Knights Corner asks for memory that no other has, turns are of 3,500 cycles, and the first core and
/// the last come first by turns. Events of K8 tell in which order its memory was asked (DRAM page hits, E0h, AMD BKDG
/// 26094, section 10.2): its turns are as short as for lines that go to and fro, and always in the same order.
#[test]
fn turns_are_longer_where_each_has_memory_of_its_own() {
    let in_order = |first: usize, length: u64| {
        move |turn: &(u64, Vec<usize>)| *turn == (length, vec![0, first])
    };
    let k8 = turns_beside_memory(("k8", 2), (0xC001_0000, 0x41));
    let (short, others): (Vec<_>, Vec<_>) = k8.iter().partition(|turn| in_order(1, 100)(turn));
    assert!(short.len() > 3_500 && others.len() < 100, "{others:?}");

    let knc = turns_beside_memory(("knc", 8), (0x28, 0x03));
    let steady = &knc[knc.len() - 100..];
    for (nth, turn) in steady.iter().enumerate() {
        let order = if (nth % 2 == 0) == (steady[0].1 == [0, 4]) { [0, 4] } else { [4, 0] };
        assert_eq!(*turn, (3_500, order.to_vec()), "{nth} of {steady:?}");
    }
    let descending = knc.iter().filter(|(_, order)| *order == [4, 0]);
    assert!(descending.clone().count() > 50 && descending.clone().all(|&(length, _)| length > 250));
}
