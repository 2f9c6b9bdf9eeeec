//! Machines on KVM that are put aside in memory and put back go on as if they had not been.
//!
//! The oracle is the software engine, which runs the same guest at once; of RAM behind a reset, a copy of all of it.
//! No guest's end depends on time.

use std::io::Write;
use std::sync::Arc;

use iced_x86::IcedError;
use iced_x86::code_asm::{al, dword_ptr, dx, eax, ebx, ecx, edi, edx, esi};
use parking_lot::Mutex;
use x86_cpu::stops::Stops;

use super::debugger_tests::{exit, guest, machine, ram, ram_at_end};
use super::dirty_log_tests::program;
use super::*;
use crate::machine::Pause;
use crate::program::{DATA, Program, TRAMPOLINE, TRAMPOLINE_BYTES};
use crate::snapshot::Snapshot;
use crate::stop::Watch;
use crate::turns::tests::{Made, Random, spin};

/// No run takes so long.
const LATEST: Duration = Duration::from_secs(60);

/// What a guest has printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A machine and what it prints.
struct Run {
    machine: Machine,
    printed: Printed,
    console: Console,
}

/// What is left at a guest's end.
#[derive(PartialEq)]
struct Outcome {
    end: End,
    printed: Vec<u8>,
    ram: Vec<u8>,
    registers: Vec<[u64; 8]>,
}

impl Run {
    fn new(machine: Machine) -> Self {
        let printed = Printed::default();
        let console = Console::to("a test".into(), Box::new(printed.clone()));
        Self { machine, printed, console }
    }

    fn go(&mut self, limit: Duration) -> End {
        let stop = Stop::new().unwrap();
        let _watch = Watch::limit(&stop, limit).unwrap();
        self.machine.run_until(&stop, None, &mut self.console).unwrap()
    }

    fn outcome(&self, end: End) -> Outcome {
        let registers = |vcpu: &crate::engine::soft::Vcpu| {
            // ECX, EBX, ESP, EBP; the others hold what handlers and waits leave.
            std::array::from_fn(|n| if matches!(n, 1 | 3..6) { vcpu.cpu.gpr(n as u8) } else { 0 })
        };
        Outcome {
            end,
            printed: self.printed.0.lock().clone(),
            ram: ram_at_end(&self.machine),
            registers: self.machine.vcpus[..1].iter().map(registers).collect(),
        }
    }
}

/// A machine that was put aside, with all that can be compared.
struct Kept {
    snapshot: Snapshot,
    ram: Vec<u8>,
    printed: Vec<u8>,
}

/// Runs a guest that ends, cuts it at random, puts it aside and back, and compares.
fn reset_at_random(
    name: &str,
    make: impl Fn(EngineKind) -> Machine,
    addresses: &[u64],
    random: &mut Random,
) {
    let mut whole = Run::new(make(EngineKind::Soft));
    let end = whole.go(LATEST);
    assert!(matches!(end, End::Exit(_)), "{name}: {end:?}");
    let expected = whole.outcome(end);
    let mut run = Run::new(make(EngineKind::Kvm));
    let mut kept: Vec<Kept> = Vec::new();
    let (mut resets, mut written) = (0, 0);
    for round in 0.. {
        let set = |machine: &mut Machine, addresses: &[u64]| {
            let stops = Stops::new(addresses.to_vec(), vec![]);
            machine.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.set_stops(Some(stops.clone())));
            machine.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.pass_stop());
        };
        let (mut limit, last) = (LATEST, round == 40);
        set(&mut run.machine, &[]);
        // That of a run before which ended for another reason.
        run.machine.pause = None;
        match random.below(4) {
            _ if last => {}
            // A breakpoint, where there are some.
            0 | 1 if !addresses.is_empty() => {
                let at = addresses[random.below(addresses.len() as u32) as usize];
                set(&mut run.machine, &[at]);
            }
            2 => limit = Duration::from_micros(random.below(3000).into()),
            _ => {
                // At 2 GHz, up to 300 us.
                let cycles = u64::from(random.below(600_000));
                run.machine.pause_at(Pause::Time(run.machine.now + cycles));
            }
        }
        let end = run.go(limit);
        if matches!(end, End::Exit(_)) {
            let outcome = run.outcome(end);
            assert_eq!(outcome.end, expected.end, "{name}");
            assert_eq!(outcome.printed, expected.printed, "{name}");
            assert_eq!(outcome.registers, expected.registers, "{name}");
            assert!(outcome.ram == expected.ram, "{name}: other RAM, {resets} resets");
            if last {
                break;
            }
        } else {
            assert!(
                matches!(end, End::Paused | End::Debugger(_) | End::Timeout),
                "{name}: {end:?}, {resets} resets"
            );
            assert!(!last, "{name}: {end:?}, {resets} resets");
            if random.below(2) == 0 {
                kept.push(Kept {
                    snapshot: run.machine.snapshot(),
                    ram: ram(&run.machine),
                    printed: run.printed.0.lock().clone(),
                });
            }
        }
        while !kept.is_empty() && (matches!(end, End::Exit(_)) || random.below(2) == 0) {
            let n = random.below(kept.len() as u32) as usize;
            let Kept { snapshot, ram: before, printed } = &kept[n];
            let now = ram(&run.machine);
            run.machine.reset_to(snapshot).unwrap();
            run.printed.0.lock().clone_from(printed);
            let found = ram(&run.machine);
            let pages = |a: &[u8], b: &[u8]| {
                let all = a.chunks(4096).zip(b.chunks(4096)).enumerate();
                all.filter(|(_, (a, b))| a != b).map(|(n, _)| n).collect::<Vec<_>>()
            };
            assert_eq!(pages(before, &found), Vec::<usize>::new(), "{name}: reset {resets}");
            assert_eq!(run.machine.state(), snapshot.state, "{name}: reset {resets}");
            written += pages(&now, before).len();
            resets += 1;
            if random.below(5) == 0 {
                // What RAM was when it was last looked at is no longer there to compare with.
                kept.swap_remove(n);
            }
            if random.below(2) == 0 {
                break;
            }
        }
        if matches!(end, End::Exit(_)) && kept.is_empty() {
            run = Run::new(make(EngineKind::Kvm));
        }
    }
    println!("{name}: {resets} resets, {written} pages");
}

fn engines() -> [IrqchipKind; 2] {
    [IrqchipKind::User, IrqchipKind::Kernel]
}

/// A machine for an engine. The software engine has no in-kernel controllers.
fn on(image: &[u8], cpus: u8, irqchip: IrqchipKind) -> impl Fn(EngineKind) -> Machine {
    move |engine| {
        let irqchip = if engine == EngineKind::Soft { IrqchipKind::User } else { irqchip };
        machine(image, cpus, engine, irqchip)
    }
}

/// Guests that count and fault.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn what_faults_and_counts_goes_back() {
    for seed in 900..906 {
        let random = &mut Random(seed);
        let image = guest(random).unwrap();
        let addresses: Vec<_> = (0..40).map(|n| 0x13_0000 + 8 * n).collect();
        for irqchip in engines() {
            let name = format!("seed {seed}, {irqchip:?}");
            reset_at_random(&name, on(&image, 1, irqchip), &addresses, random);
        }
    }
}

/// Programs in 64-bit mode that change themselves natively.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn what_changes_itself_goes_back() {
    for seed in 910..914 {
        let random = &mut Random(seed);
        let (image, _) = program(seed).unwrap();
        // Where functions begin.
        let addresses: Vec<_> = (0..16).map(|page| 0x20_0040 + (page << 12)).collect();
        for irqchip in engines() {
            let name = format!("seed {seed}, {irqchip:?}");
            reset_at_random(&name, on(&image, 1, irqchip), &addresses, random);
        }
    }
}

/// Two processors. One sends the other interrupts and waits until each has come; in between it waits for its timer, and
/// writes to many pages. None of these may be lost, nor come twice.
fn interrupted(random: &mut Random) -> std::result::Result<Vec<u8>, IcedError> {
    const ICR: i32 = 0x300;
    const ICR_HIGH: i32 = 0x310;
    const LVT_TIMER: i32 = 0x320;
    const INITIAL: i32 = 0x380;
    const EOI: i32 = 0xB0;
    const TIMER: u8 = 0x50;
    const SENT: u8 = 0x51;
    let counts = |vector: u8| dword_ptr(DATA + 0x100 + 4 * u32::from(vector));
    let mut program = Program::new()?;
    let p = &mut program;
    let mut first = p.create_label();
    p.jmp(first)?;
    for vector in [TIMER, SENT] {
        let entry = p.here()?;
        p.gate(vector, entry, 0);
        p.push(edi)?;
        p.inc(counts(vector))?;
        p.write_lapic(EOI, 0)?;
        p.pop(edi)?;
        p.iretd()?;
    }
    let entry = p.here()?;
    p.set_start_up(entry);
    p.set_up_processor()?;
    p.sti()?;
    p.mov(dword_ptr(DATA), 1)?;
    let sleeps = p.here()?;
    p.hlt()?;
    p.jmp(sleeps)?;
    p.place(&mut first)?;
    p.mov(esi, TRAMPOLINE)?;
    p.mov(edi, 8 << 12)?;
    p.mov(ecx, TRAMPOLINE_BYTES)?;
    p.rep().movsb()?;
    p.write_lapic(ICR, 3 << 18 | 1 << 14 | 5 << 8)?;
    p.write_lapic(ICR, 3 << 18 | 1 << 14 | 6 << 8 | 8)?;
    let waits = p.here()?;
    p.pause()?;
    p.cmp(dword_ptr(DATA), 0)?;
    p.je(waits)?;
    p.write_lapic(LVT_TIMER, TIMER.into())?;
    p.xor(ebx, ebx)?;
    let rounds = 20 + random.below(20);
    let again = p.here()?;
    p.write_lapic(ICR_HIGH, 1 << 24)?;
    p.write_lapic(ICR, 1 << 14 | u32::from(SENT))?;
    p.inc(ebx)?;
    let waits = p.here()?;
    p.pause()?;
    p.cmp(counts(SENT), ebx)?;
    p.jb(waits)?;
    let work: &mut dyn FnMut(&mut Program) -> Made = &mut |p| {
        match random.below(4) {
            0 => spin(p, 1 + random.below(2000))?,
            1 => {
                p.mov(edx, 0x3F8)?;
                p.mov(eax, 0x41 + random.below(26))?;
                p.out(dx, al)?;
            }
            2 => {
                p.mov(ecx, 1 + random.below(60))?;
                p.mov(esi, 0x20_0000 + 4 * random.below(0x400))?;
                let next = p.here()?;
                p.add(dword_ptr(esi), ebx)?;
                p.add(esi, 0x1000)?;
                p.dec(ecx)?;
                p.jnz(next)?;
            }
            _ => {
                p.write_lapic(INITIAL, 1 + random.below(20_000))?;
                p.sti()?;
                p.hlt()?;
                p.cli()?;
            }
        }
        Ok(())
    };
    for _ in 0..6 {
        work(p)?;
    }
    p.cmp(ebx, rounds as i32)?;
    let mut over = p.create_label();
    p.jae(over)?;
    p.jmp(again)?;
    p.place(&mut over)?;
    exit(p)?;
    Ok(program.finish()?.bytes)
}

#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn processors_that_are_interrupted_go_back() {
    for seed in 920..924 {
        let random = &mut Random(seed);
        let image = interrupted(random).unwrap();
        for irqchip in engines() {
            let name = format!("seed {seed}, {irqchip:?}");
            reset_at_random(&name, on(&image, 2, irqchip), &[], random);
        }
    }
}
