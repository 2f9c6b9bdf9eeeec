//! A debugger on KVM stops the processors where it is to, and nothing else changes.
//!
//! The oracle is the software engine, which stops before every instruction of the same guest: the list of these, with
//! the registers there, is what breakpoints and steps are checked against. None of the guests depends on time.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, al, dword_ptr, dx, eax, ebp, ebx, ecx, edi, edx, esi, esp};
use x86_cpu::stops::Stops;

use super::dirty_log_tests::program;
use super::tests::{PROTECTED, config};
use super::*;
use crate::program::{DATA, LOAD_ADDRESS, Program, TRAMPOLINE, TRAMPOLINE_BYTES};
use crate::stop::Watch;
use crate::turns::tests::{Made, Random, spin};

/// PerfEvtSel0 and PerfCtr0 of the K8, and instructions retired at all levels, enabled, without an interrupt and with
/// one (BKDG 26094, section 10.2).
const SELECT: u32 = 0xC001_0000;
const COUNTER: u32 = 0xC001_0004;
const COUNTS: u64 = 0x0043_00C0;
const INTERRUPTS: u64 = 0x0053_00C0;
/// What may differ in RFLAGS: RF, which the host's processor sets where an instruction is executed again, and OF and AF,
/// which the manuals leave open behind some.
const OPEN: u64 = 1 << 16 | 1 << 11 | 1 << 4;
/// Where the stacks are: RFLAGS stays there behind handlers.
const STACKS: std::ops::Range<usize> = 0x10_7000..0x12_8000;
/// No run takes so long.
const LATEST: Duration = Duration::from_secs(60);

fn silent() -> Console {
    Console::to("nowhere".into(), Box::new(std::io::sink()))
}

pub(super) fn machine(image: &[u8], cpus: u8, engine: EngineKind, irqchip: IrqchipKind) -> Machine {
    let config = Config { engine, irqchip, ..config(image, PROTECTED, cpus, None) };
    Machine::new(&config).unwrap()
}

/// Until it ends or a debugger stops it.
fn run(machine: &mut Machine) -> End {
    let stop = Stop::new().unwrap();
    let _watch = Watch::limit(&stop, LATEST).unwrap();
    machine.run_until(&stop, None, &mut silent()).unwrap()
}

fn set_all(machine: &mut Machine, addresses: &[u64]) {
    for vcpu in &mut machine.vcpus {
        vcpu.cpu.set_stops(Some(Stops::new(addresses.to_vec(), vec![])));
    }
}

/// An instruction that is about to be executed, and what is in the registers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    linear: u64,
    registers: [u64; 16],
    rflags: u64,
    cpl: u8,
}

fn place(machine: &Machine) -> Place {
    let cpu = &machine.vcpus[0].cpu;
    Place {
        linear: cpu.linear_rip(),
        registers: std::array::from_fn(|n| cpu.gpr(n as u8)),
        rflags: cpu.rflags() & !OPEN,
        cpl: cpu.cpl(),
    }
}

/// All of RAM.
pub(super) fn ram(machine: &Machine) -> Vec<u8> {
    let mut ram = vec![0; 4 << 20];
    assert!(machine.read_physical(0, &mut ram));
    ram
}

/// What has to be there at the end, whatever executed the guest: all but the stacks.
pub(super) fn ram_at_end(machine: &Machine) -> Vec<u8> {
    let mut ram = ram(machine);
    ram[STACKS].fill(0);
    ram
}

/// Every instruction of a guest that ends, and its RAM then.
fn truth(image: &[u8]) -> (Vec<Place>, Vec<u8>) {
    let mut machine = machine(image, 1, EngineKind::Soft, IrqchipKind::User);
    machine.vcpus[0].cpu.set_stops(Some(Stops::default().everywhere()));
    let mut places = Vec::new();
    loop {
        match run(&mut machine) {
            End::Debugger(0) => places.push(place(&machine)),
            end => {
                assert!(matches!(end, End::Exit(_)), "{end:?}");
                return (places, ram_at_end(&machine));
            }
        }
        machine.vcpus[0].cpu.pass_stop();
    }
}

/// What the debugger does between two stops.
#[derive(Debug)]
struct Resume {
    addresses: Vec<u64>,
    steps: bool,
}

/// Debugs a guest on KVM at random, and compares. How often it has stopped when KVM had the processor.
fn debug_at_random(name: &str, image: &[u8], irqchip: IrqchipKind, random: &mut Random) -> u32 {
    const STOPS: u32 = 120;
    let (places, ram_behind) = truth(image);
    let mut debugged = machine(image, 1, EngineKind::Kvm, irqchip);
    // The place before the next one.
    let mut at = None;
    let (mut native, mut steps_taken) = (0, 0);
    for stops in 0.. {
        let ahead = at.map_or(0, |at: usize| at + 1);
        let near = (places.len() - ahead).min(60) as u32;
        let goes_on = stops < STOPS && near != 0;
        let steps = goes_on && random.below(4) == 0;
        let count = if goes_on { random.below(4) + u32::from(!steps) } else { 0 };
        let mut any = || places[ahead + random.below(near) as usize].linear;
        let resume = Resume { addresses: (0..count).map(|_| any()).collect(), steps };
        let stops = Stops::new(resume.addresses.clone(), vec![]);
        debugged.vcpus[0].cpu.set_stops(Some(if resume.steps {
            stops.everywhere()
        } else {
            stops
        }));
        if at.is_some() {
            debugged.vcpus[0].cpu.pass_stop();
        }
        let before = debugged.vcpus[0].native_cycles;
        let end = run(&mut debugged);
        let is_stop = |n: &usize| resume.steps || resume.addresses.contains(&places[*n].linear);
        let expected = (ahead..places.len()).find(is_stop);
        let what = format!("{name}: from {at:?}, {resume:x?}");
        match expected {
            Some(n) => {
                assert_eq!(end, End::Debugger(0), "{what}");
                assert_eq!(place(&debugged), places[n], "{what}, instruction {n}");
                at = expected;
            }
            None => {
                assert!(matches!(end, End::Exit(_)), "{what}: {end:?}");
                break;
            }
        }
        native += u32::from(debugged.vcpus[0].native_cycles != before);
        steps_taken += u32::from(resume.steps);
    }
    assert!(ram_at_end(&debugged) == ram_behind, "{name}: other RAM");
    println!("{name}: {native} stops on the host's processor, {steps_taken} steps");
    assert!(steps_taken > 5, "{name}");
    native
}

/// Handlers of #UD, #GP and vector 80h: the first two step over an instruction of two bytes.
fn handlers(p: &mut Program) -> Made {
    for (vector, pops) in [(6, 0), (13, 4), (0x80, 0)] {
        let mut over = p.create_label();
        p.jmp(over)?;
        let entry: CodeLabel = p.here()?;
        p.gate(vector, entry, 3);
        if vector == 0x80 {
            p.rol(ebp, 1)?;
        } else {
            p.add(esp, pops)?;
            p.add(dword_ptr(esp), 2)?;
        }
        p.inc(dword_ptr(DATA + 0x100 + 4 * u32::from(vector)))?;
        p.iretd()?;
        p.place(&mut over)?;
    }
    Ok(())
}

/// One of the things that engines do differently.
fn act(p: &mut Program, random: &mut Random) -> Made {
    match random.below(10) {
        0 => spin(p, 1 + random.below(12))?,
        // #UD and #GP of the guest's own.
        1 => p.ud2()?,
        2 => {
            p.mov(ecx, 0x1234)?;
            p.rdmsr()?;
        }
        // One that KVM raises, and the K8 would not.
        3 => {
            p.mov(ecx, random.below(4))?;
            p.rdpmc()?;
            p.add(ebx, eax)?;
        }
        4 => p.int(0x80)?,
        5 => p.write_msr(SELECT, if random.below(3) == 0 { COUNTS } else { 0 })?,
        6 => {
            p.mov(ecx, 1 + random.below(9))?;
            p.mov(esi, DATA)?;
            p.mov(edi, DATA + 0x400 + random.below(64))?;
            p.rep().movsb()?;
        }
        // Code that changes the number that it moves.
        7 => {
            let mut over = p.create_label();
            p.call(over)?;
            p.mov(edx, random.below(1000))?;
            p.add(ebx, edx)?;
            p.ret()?;
            p.place(&mut over)?;
            p.pop(esi)?;
            p.add(dword_ptr(esi + 1), 3)?;
            p.call(esi)?;
        }
        8 => {
            p.mov(edx, 0x3F8)?;
            p.mov(eax, 0x41 + random.below(26))?;
            p.out(dx, al)?;
        }
        _ => {
            p.push(ebx)?;
            p.add(ebx, random.below(1 << 20) as i32)?;
            p.xor(dword_ptr(DATA + 4 * random.below(64)), ebx)?;
            p.pop(edx)?;
            p.rol(ebx, 7)?;
        }
    }
    Ok(())
}

/// OUT of a byte to the debug-exit port.
pub(super) fn exit(p: &mut Program) -> Made {
    p.mov(edx, 0xF4)?;
    p.xor(eax, eax)?;
    p.out(dx, al)
}

pub(super) fn guest(random: &mut Random) -> std::result::Result<Vec<u8>, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    handlers(p)?;
    p.mov(ebp, 5)?;
    p.mov(dword_ptr(DATA + 0x80), 3)?;
    let mut again = p.create_label();
    let mut over = p.create_label();
    p.place(&mut again)?;
    for _ in 0..40 {
        act(p, random)?;
    }
    p.dec(dword_ptr(DATA + 0x80))?;
    p.jz(over)?;
    p.jmp(again)?;
    p.place(&mut over)?;
    p.write_msr(SELECT, 0)?;
    exit(p)?;
    Ok(program.finish()?.bytes)
}

#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn it_stops_where_it_is_to() {
    assert_eq!(u64::from(LOAD_ADDRESS), PROTECTED);
    for seed in 800..808 {
        let random = &mut Random(seed);
        let image = guest(random).unwrap();
        let irqchip = [IrqchipKind::User, IrqchipKind::Kernel][seed as usize % 2];
        let native = debug_at_random(&format!("seed {seed}, {irqchip:?}"), &image, irqchip, random);
        assert!(native > 5, "seed {seed}: {native}");
    }
}

/// 64-bit code at CPL 3, which every kind of KVM leaves to the host's processor, and which changes itself. Not every kind
/// stops there.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn it_stops_in_programs() {
    for seed in 810..814 {
        let (image, _) = program(seed).unwrap();
        let irqchip = [IrqchipKind::User, IrqchipKind::Kernel][seed as usize % 2];
        debug_at_random(&format!("seed {seed}"), &image, irqchip, &mut Random(seed));
    }
}

/// Two processors add up, each a number of its own, and each comes to its breakpoint.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn each_processor_stops() {
    const ICR: i32 = 0x300;
    const ROUNDS: u32 = 5;
    let mut program = Program::new().unwrap();
    let p = &mut program;
    let two = |p: &mut Program| {
        let mut first = p.create_label();
        p.jmp(first)?;
        let entry = p.here()?;
        p.set_start_up(entry);
        p.set_up_processor()?;
        let other = p.mark("other")?;
        p.inc(dword_ptr(DATA + 4))?;
        p.jmp(other)?;
        p.place(&mut first)?;
        p.mov(esi, TRAMPOLINE)?;
        p.mov(edi, 8 << 12)?;
        p.mov(ecx, TRAMPOLINE_BYTES)?;
        p.rep().movsb()?;
        // INIT and a start-up IPI to all others.
        p.write_lapic(ICR, 3 << 18 | 1 << 14 | 5 << 8)?;
        p.write_lapic(ICR, 3 << 18 | 1 << 14 | 6 << 8 | 8)?;
        let mut again = p.create_label();
        p.place(&mut again)?;
        let waits = p.here()?;
        p.pause()?;
        p.cmp(dword_ptr(DATA + 4), 0)?;
        p.je(waits)?;
        p.mark("one")?;
        p.inc(dword_ptr(DATA))?;
        p.cmp(dword_ptr(DATA), ROUNDS as i32)?;
        p.jb(again)?;
        exit(p)
    };
    two(p).unwrap();
    let image = program.finish().unwrap();
    let [one, other] = ["one", "other"].map(|name| image.symbol(name).unwrap());
    for irqchip in [IrqchipKind::User, IrqchipKind::Kernel] {
        let mut machine = machine(&image.bytes, 2, EngineKind::Kvm, irqchip);
        let word = |machine: &Machine, at: u32| {
            let mut bytes = [0; 4];
            assert!(machine.read_physical(at.into(), &mut bytes));
            u32::from_le_bytes(bytes)
        };
        // By processor: how often it has stopped. It has added as often before.
        let mut stops = [0; 2];
        set_all(&mut machine, &[one, other]);
        while let End::Debugger(id) = run(&mut machine) {
            assert_eq!(machine.vcpus[id].cpu.linear_rip(), [one, other][id], "{irqchip:?}");
            assert_eq!(word(&machine, DATA + 4 * id as u32), stops[id], "{irqchip:?}");
            stops[id] += 1;
            set_all(&mut machine, &[one, other]);
            // Those that stand where they have stopped.
            let words = [0, 4].map(|at| word(&machine, DATA + at));
            for id in (0..2).filter(|&id| stops[id] > words[id]) {
                machine.vcpus[id].cpu.pass_stop();
            }
        }
        println!("{irqchip:?}: {stops:?}");
        assert_eq!((stops[0], word(&machine, DATA)), (ROUNDS, ROUNDS), "{irqchip:?}");
        assert!(stops[1] > 0, "{irqchip:?}");
    }
}

/// A counter overflows while interrupts are disabled. What stops the machine is told in the order in which it happens:
/// the write of the counter and the overflow, which the software engine sees; and the interrupt, which is taken when
/// nothing is counted any more.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn it_stops_at_acts() {
    const LVTPC: i32 = 0x340;
    const VECTOR: u8 = 0x50;
    let mut program = Program::new().unwrap();
    let acts = |p: &mut Program| {
        let mut over = p.create_label();
        p.jmp(over)?;
        let handler = p.mark("handler")?;
        p.gate(VECTOR, handler, 0);
        p.inc(dword_ptr(DATA))?;
        p.iretd()?;
        p.place(&mut over)?;
        p.write_lapic(LVTPC, VECTOR.into())?;
        p.write_msr(COUNTER, 10_u64.wrapping_neg() & 0xFFFF_FFFF_FFFF)?;
        p.mark("written")?;
        p.write_msr(SELECT, INTERRUPTS)?;
        for _ in 0..10 {
            p.nop()?;
        }
        // Nine NOPs later it is at -1: the tenth makes it overflow.
        p.mark("overflowed")?;
        p.write_msr(SELECT, 0)?;
        spin(p, 100)?;
        p.sti()?;
        p.nop()?;
        p.mark("behind")?;
        exit(p)
    };
    acts(&mut program).unwrap();
    let image = program.finish().unwrap();
    for irqchip in [IrqchipKind::User, IrqchipKind::Kernel] {
        let mut machine = machine(&image.bytes, 1, EngineKind::Kvm, irqchip);
        set_all(&mut machine, &[]);
        machine.act_stops().registers.insert(COUNTER, true);
        machine.act_stops().overflows = true;
        machine.act_stops().interrupts = true;
        for (name, words) in [
            ("written", "WRMSR C0010004h"),
            ("overflowed", "overflow of counter 0"),
            ("handler", "0x50"),
        ] {
            assert_eq!(run(&mut machine), End::Debugger(0), "{irqchip:?}: {name}");
            let cpu = &machine.vcpus[0].cpu;
            assert_eq!(cpu.linear_rip(), image.symbol(name).unwrap(), "{irqchip:?}: {name}");
            let hit = machine.board.tracer.as_mut().unwrap().stops.take_hit().unwrap();
            assert!(hit.words.contains(words), "{irqchip:?}: {}", hit.words);
        }
        assert!(machine.vcpus[0].native_cycles != 0, "{irqchip:?}");
        assert_eq!(run(&mut machine), End::Exit(1), "{irqchip:?}");
    }
}
