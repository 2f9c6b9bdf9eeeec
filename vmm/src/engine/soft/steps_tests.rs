//! Instructions that are counted without the run that they are in being left, against the same where the run ends behind
//! each of them: all of the state of both machines, in generated guests whose counters compare the occurrences of each
//! cycle, or are near an overflow, and that access devices and go through privilege levels.

use iced_x86::code_asm::{
    al, byte_ptr, cl, dr0, dr7, dword_ptr, dx, eax, ecx, edi, edx, esi, esp, mm0, mm1, st0,
};

use super::{Timing, Warm};
use crate::machine::{End, Machine};
use crate::program::{DATA, LAPIC, LAPIC_ID, Program};
use crate::snapshot::tests::{difference, run};
use crate::turns::tests::{IPI_VECTOR, Made, Random, each_by_itself, machine, seeds, spin};

/// That of PMIs, of which the handler counts how many came.
const PMI_VECTOR: u64 = 0x43;

/// The time-stamp counter, a register of no PMU.
const TSC: u32 = 0x10;

/// Registers of the local APIC (Intel SDM volume 3, table 10-1): task priority, interrupt command, the entry of
/// counters' interrupts, the timer's initial count.
const TPR: i32 = 0x80;
const ICR: i32 = 0x300;
const LVTPC: i32 = 0x340;
const INITIAL: i32 = 0x380;
/// To the sender itself, asserted.
const TO_SELF: u32 = 1 << 18 | 1 << 14;

/// The Pentium's control and event select register, of both counters: ES0 in bits 5:0, CC0 in bits 8:6, the same of
/// counter 1 from bit 16 on (Intel SDM volume 3B).
const CESR: u32 = 0x11;

/// The vector by which code at CPL 3 goes back; and where to, with which stack pointer.
const RETURN_VECTOR: u8 = 0x80;
const RETURN: u32 = DATA + 0x390;
const RETURN_STACK: u32 = DATA + 0x394;

/// A processor, and what its counters are programmed with.
struct Part {
    cpu: &'static str,
    /// The first two event selects, or one of both; and counters.
    selects: [u32; 2],
    counters: [u32; 2],
    /// Bits of a counter.
    width: u32,
    /// Code of the event that every instruction is one of.
    retired: u32,
    /// Codes of events: what the instruction set alone tells, and what models do.
    events: &'static [u32],
}

const PARTS: [Part; 5] = [
    // AMD 26094: x87 and MMX operations, segment loads, locks, accesses, misses, fetches, instructions, branches, far
    // transfers, cycles with interrupts masked, stalls.
    Part {
        cpu: "k8",
        selects: [0xC001_0000, 0xC001_0001],
        counters: [0xC001_0004, 0xC001_0005],
        width: 48,
        retired: 0xC0,
        events: &[
            0x00, 0x20, 0x24, 0x40, 0x41, 0x43, 0x45, 0x47, 0x76, 0x80, 0x81, 0x84, 0xC0, 0xC1,
            0xC2, 0xC3, 0xC4, 0xC6, 0xC8, 0xCB, 0xCD, 0xCE, 0xCF, 0xD1, 0xD7,
        ],
    },
    // AMD 22007, table 11: accesses, misses, refills, TLB misses, fetches, instructions, operations, branches.
    Part {
        cpu: "k7",
        selects: [0xC001_0000, 0xC001_0001],
        counters: [0xC001_0004, 0xC001_0005],
        width: 48,
        retired: 0xC0,
        events: &[0x40, 0x41, 0x42, 0x45, 0x80, 0x81, 0x84, 0xC0, 0xC1, 0xC2, 0xC3, 0xC6, 0xCD],
    },
    // Intel 243192, appendix A: references, lines, fetches, cycles, instructions, branches, interrupts masked, MMX, segments.
    Part {
        cpu: "pii",
        selects: [0x186, 0x187],
        counters: [0xC1, 0xC2],
        width: 40,
        retired: 0xC0,
        events: &[
            0x03, 0x05, 0x06, 0x43, 0x45, 0x62, 0x79, 0x80, 0x81, 0x85, 0x86, 0xA2, 0xB0, 0xC0,
            0xC2, 0xC4, 0xC5, 0xC6, 0xC7, 0xC9, 0xCC, 0xD0, 0xE0, 0xF2,
        ],
    },
    // Intel MMX Technology manual, chapter 6: accesses, misses, misaligned ones, branches, instructions, the V pipe, interrupts,
    // stalls. Here alone, and on knc, stores are counted without a model, and so what a transfer pushes at an inner level.
    Part {
        cpu: "p55c",
        selects: [CESR; 2],
        counters: [0x12, 0x13],
        width: 40,
        retired: 0x16,
        events: &[
            0x00, 0x01, 0x00, 0x01, 0x03, 0x0B, 0x0D, 0x12, 0x14, 0x16, 0x17, 0x19, 0x1D, 0x27,
            0x28,
        ],
    },
    // Intel 327357-001: accesses, misses, branches, the V pipe, address interlocks, instructions, the E stage.
    Part {
        cpu: "knc",
        selects: [0x28, 0x29],
        counters: [0x20, 0x21],
        width: 40,
        retired: 0x16,
        events: &[0x00, 0x01, 0x03, 0x0C, 0x0E, 0x12, 0x16, 0x17, 0x1F, 0x28, 0x29, 0x2A, 0x2E],
    },
];

/// A handler that goes on so many bytes behind where the exception was, and begins with another one if that is #OF.
fn skips(p: &mut Program, vector: u8, bytes: i32) -> Made {
    let mut over = p.create_label();
    p.jmp(over)?;
    let entry = p.here()?;
    p.gate(vector, entry, 0);
    if vector == 4 {
        p.ud2()?;
    }
    // Steps behind one that has retired nothing, in one block.
    p.nop()?;
    p.nop()?;
    p.add(dword_ptr(esp), bytes)?;
    p.iretd()?;
    p.place(&mut over)
}

/// The handler of what code at CPL 3 calls to go back.
fn returns(p: &mut Program) -> Made {
    let mut over = p.create_label();
    p.jmp(over)?;
    let entry = p.here()?;
    p.gate(RETURN_VECTOR, entry, 3);
    p.mov(esp, dword_ptr(RETURN_STACK))?;
    p.jmp(dword_ptr(RETURN))?;
    p.place(&mut over)
}

/// A few instructions at CPL 3, with interrupts or without.
fn at_cpl3(p: &mut Program, random: &mut Random, part: &Part) -> Made {
    let (mut user, mut back) = (p.create_label(), p.create_label());
    p.mov(dword_ptr(RETURN_STACK), esp)?;
    p.address(eax, back)?;
    p.mov(dword_ptr(RETURN), eax)?;
    p.enter(3, user, 2 | (random.below(2) as i32) << 9)?;
    p.place(&mut user)?;
    for _ in 0..random.below(6) {
        // Nothing that is refused there.
        let choice = random.below(18);
        instruction(p, random, part, choice)?;
    }
    p.int(i32::from(RETURN_VECTOR))?;
    p.place(&mut back)
}

/// A handler of #DB that goes on without TF.
fn ends_single_steps(p: &mut Program) -> Made {
    let mut over = p.create_label();
    p.jmp(over)?;
    let entry = p.here()?;
    p.gate(1, entry, 0);
    p.and(dword_ptr(esp + 8), !0x100)?;
    p.iretd()?;
    p.place(&mut over)
}

/// Programs a counter: mostly to compare the occurrences of each cycle, and at times to overflow soon.
fn program(p: &mut Program, random: &mut Random, part: &Part) -> Made {
    let left = match random.below(3) {
        0 => 1 + random.below(20),
        1 => 1 + random.below(500),
        _ => 1 << 30,
    };
    program_with(p, random, part, left)
}

/// The same with so many left until it overflows.
fn program_with(p: &mut Program, random: &mut Random, part: &Part, left: u32) -> Made {
    let n = random.below(2) as usize;
    let event = match random.below(4) {
        0 => part.retired,
        _ => part.events[random.below(part.events.len() as u32) as usize],
    };
    let compared = random.below(3) << 24 | random.below(2) << 23 | random.below(2) << 18;
    let compared = if random.below(5) == 0 { 0 } else { compared };
    let umask = if random.below(2) == 0 { 0xFF } else { 1 << random.below(5) } << 8;
    let interrupts = random.below(2) << 20;
    let select = match part.selects[n] {
        // Both count what they count at these levels.
        CESR => {
            let other = part.events[random.below(part.events.len() as u32) as usize];
            (event | (1 + random.below(3)) << 6) << (16 * n)
                | (other | (1 + random.below(3)) << 6) << (16 * (1 - n))
        }
        _ => event | umask | (1 + random.below(3)) << 16 | interrupts | 1 << 22 | compared,
    };
    p.write_msr(part.selects[n], 0)?;
    p.write_msr(part.counters[n], u64::from(left).wrapping_neg() & ((1 << part.width) - 1))?;
    p.write_msr(part.selects[n], select.into())
}

/// An instruction or a few, of those that a block is left for, stopped in or goes on behind.
fn instruction(p: &mut Program, random: &mut Random, part: &Part, choice: u32) -> Made {
    let own = DATA + 0x400 + random.below(64) * 4;
    let far = 0x30_0000 + random.below(4096);
    match choice {
        0..=2 => p.add(eax, edx),
        3 => p.mov(eax, dword_ptr(own)),
        4 => p.mov(dword_ptr(far), eax),
        5 => p.add(dword_ptr(far), edx),
        6 => p.mov(eax, dword_ptr(far + 0x1_0000 * random.below(8))),
        7 => p.lock().inc(dword_ptr(own)),
        8 => {
            p.push(eax)?;
            p.pop(edx)
        }
        9 if part.cpu != "knc" => {
            p.movd(mm0, eax)?;
            p.paddd(mm1, mm0)?;
            p.emms()
        }
        10 => {
            p.fld1()?;
            p.fadd_2(st0, st0)?;
            p.fldz()
        }
        11 => p.fninit(),
        12 => spin(p, 1 + random.below(6)),
        13 => {
            p.mov(edi, 0x30_2000 + random.below(64))?;
            p.mov(ecx, random.below(20))?;
            p.rep().stosb()
        }
        14 => {
            p.mov(esi, 0x30_2000)?;
            p.mov(edi, 0x30_3000 + random.below(8))?;
            p.mov(ecx, random.below(12))?;
            p.rep().movsd()
        }
        // INTO, with or without an overflow before it.
        15 => {
            p.mov(eax, 0x7FFF_FFFF)?;
            p.add(eax, random.below(2) as i32)?;
            p.db(&[0xCE])
        }
        16 => p.ud2(),
        17 => {
            p.xor(ecx, ecx)?;
            p.db(&[0xF7, 0xF1])
        }
        // A device, in the middle of a block.
        18 => p.mov(eax, dword_ptr(LAPIC + LAPIC_ID as u32)),
        // CALL, POP EDI, MOV [EDI+5], CL, and MOV AL with that number.
        19 => {
            p.inc(cl)?;
            p.db(&[0xE8, 0, 0, 0, 0, 0x5F, 0x88, 0x4F, 5, 0xB0, 0])
        }
        20 => p.int(i32::from(IPI_VECTOR)),
        21 => {
            p.mov(ecx, random.below(2))?;
            p.rdpmc()?;
            p.add(dword_ptr(DATA + 0x300), eax)
        }
        // A counter that is about to overflow, and one is read by an instruction in a line that is fetched for it.
        22 | 23 => {
            let left = 1 + random.below(4);
            program_with(p, random, part, left)?;
            let mut over = p.create_label();
            p.xor(ecx, ecx)?;
            p.jmp(over)?;
            p.db(&[0xCC; 64])?;
            p.place(&mut over)?;
            if random.below(2) == 0 {
                return p.rdpmc();
            }
            p.nop()?;
            p.mov(ecx, part.counters[random.below(2) as usize])?;
            p.rdmsr()
        }
        24 => p.sti(),
        25 => p.cli(),
        26 => {
            let mut over = p.create_label();
            p.test(al, 1 << random.below(3))?;
            p.jz(over)?;
            p.inc(byte_ptr(own))?;
            p.place(&mut over)
        }
        // TF: a trap comes behind the instruction after POPFD, or behind an iteration of it.
        28 => {
            p.mov(esi, own)?;
            p.mov(ecx, 1 + random.below(3))?;
            p.pushfd()?;
            p.or(dword_ptr(esp), 0x100)?;
            p.popfd()?;
            if random.below(2) == 0 { p.inc(edx) } else { p.rep().lodsd() }
        }
        // A breakpoint on writes, or on reads and writes, of four bytes.
        29 => {
            p.mov(ecx, DATA + 0x400 + random.below(4) * 64)?;
            p.mov(dr0, ecx)?;
            p.mov(ecx, if random.below(2) == 0 { 0xD_0001 } else { 0xF_0001 })?;
            p.mov(dr7, ecx)?;
            p.inc(dword_ptr(DATA + 0x400 + random.below(4) * 64))
        }
        // DELAY EAX; string instructions across those.
        30 if part.cpu == "knc" => {
            p.mov(eax, random.below(30))?;
            p.db(&[0xC5, 0xFA, 0xAE, 0xF0])
        }
        30 | 31 => {
            p.mov(esi, DATA + 0x400 + random.below(64))?;
            p.mov(edi, DATA + 0x400 + random.below(64))?;
            let most = if random.below(2) == 0 { 3 } else { 48 };
            p.mov(ecx, random.below(most))?;
            match random.below(3) {
                0 => p.rep().movsb(),
                1 => p.repe().cmpsb(),
                _ => p.rep().lodsd(),
            }
        }
        // What is no counter, and a counter that may not count.
        32 => {
            p.mov(eax, random.below(1000))?;
            p.mov(edx, 0)?;
            p.mov(ecx, if random.below(2) == 0 { TSC } else { part.counters[1] })?;
            p.wrmsr()
        }
        33 => p.rdtsc(),
        34 | 35 => at_cpl3(p, random, part),
        // A device that does nothing, does something later, or interrupts at once, if interrupts are enabled.
        36 => match random.below(6) {
            0 => p.write_lapic(TPR, random.below(2) << 5),
            1 => p.write_lapic(LVTPC, random.below(2) << 16 | PMI_VECTOR as u32),
            2 => p.write_lapic(INITIAL, 1 + random.below(300)),
            3 => p.write_lapic(ICR, TO_SELF | u32::from(IPI_VECTOR)),
            4 => {
                p.mov(edx, 0x3FB)?;
                p.in_(al, dx)
            }
            _ => {
                p.mov(esi, LAPIC + LAPIC_ID as u32)?;
                p.mov(ecx, 1 + random.below(3))?;
                p.rep().lodsd()
            }
        },
        _ => p.fldz(),
    }
}

fn guest(random: &mut Random, part: &Part) -> Vec<u8> {
    let knc = part.cpu == "knc";
    let prepare = |p: &mut Program| {
        // #DE, #OF, #UD.
        for (vector, bytes) in [(0, 2), (4, 0), (6, 2)] {
            skips(p, vector, bytes)?;
        }
        ends_single_steps(p)?;
        returns(p)?;
        if knc { p.write_msr(0x2F, 3) } else { Ok(()) }
    };
    each_by_itself(1, knc, prepare, |p| {
        for _ in 0..8 {
            program(p, random, part)?;
            for _ in 0..12 {
                let choice = random.below(37);
                instruction(p, random, part, choice)?;
            }
        }
        Ok(())
    })
    .unwrap()
}

/// Runs a guest on two machines, on one of them instruction by instruction, and compares them now and then: how many
/// PMIs came.
fn compare(cpu: &str, timing: Timing, bytes: &[u8], random: &mut Random, what: &str) -> u32 {
    let make = |_| {
        let mut machine = machine(cpu, 1, bytes);
        machine.soft.set_timing(timing, Warm::Counting);
        machine
    };
    let [mut one, mut other]: [Machine; 2] = [0; 2].map(make);
    let (mut interrupts, mut at) = (0, 0);
    for _ in 0..6 {
        let from = at;
        at += u64::from(1 + random.below(400));
        let end = run(&mut one, at);
        let mut by_steps = End::Instructions;
        for next in from + 1..=at {
            by_steps = run(&mut other, next);
            if by_steps != End::Instructions {
                break;
            }
        }
        assert_eq!(end, by_steps, "{cpu} {timing:?} {what} at {at}");
        if let Some(difference) = difference(&mut one, &mut other) {
            panic!("{cpu} {timing:?} {what} between {from} and {at}: {difference}");
        }
        let mut pmis = [0; 4];
        assert!(one.read_physical(u64::from(DATA) + 0x100 + 4 * PMI_VECTOR, &mut pmis));
        interrupts = u32::from_le_bytes(pmis);
        if end != End::Instructions {
            break;
        }
    }
    interrupts
}

#[test]
fn steps_in_a_block_are_counted_as_runs_of_one_instruction() {
    let mut interrupts = 0;
    for part in &PARTS {
        for timing in [Timing::Flat, Timing::Auto, Timing::Model] {
            for seed in seeds(0, 48) {
                let random = &mut Random(seed);
                let bytes = guest(random, part);
                interrupts += compare(part.cpu, timing, &bytes, random, &format!("seed {seed}"));
            }
        }
    }
    assert!(interrupts > 50, "{interrupts}");
}

/// K8's retired instructions include exceptions (AMD 26094, event C0h): one that comes right behind a write to the counter
/// is among those that it counts, as are the four of the handler and the one before RDPMC. It is counted apart from what
/// follows, since interrupts are masked from there on, or since each cycle is compared.
#[test]
fn an_exception_right_behind_a_write_to_a_running_counter_is_counted() {
    const FOUND: u32 = DATA + 0x380;
    for threshold in [0, 1] {
        let guest = each_by_itself(
            1,
            false,
            |p| skips(p, 6, 2),
            |p| {
                p.write_msr(0xC001_0000, threshold << 24 | 0x43_00C0)?;
                p.sti()?;
                p.write_msr(0xC001_0004, 0)?;
                p.ud2()?;
                p.xor(ecx, ecx)?;
                p.rdpmc()?;
                p.mov(dword_ptr(FOUND), eax)?;
                p.cli()?;
                p.hlt()
            },
        );
        let mut machine = machine("k8", 1, &guest.unwrap());
        machine.soft.set_timing(Timing::Flat, Warm::Counting);
        run(&mut machine, 1000);
        let mut found = [0; 4];
        assert!(machine.read_physical(FOUND.into(), &mut found));
        assert_eq!(u32::from_le_bytes(found), 1 + 4 + 1, "threshold {threshold}");
    }
}

/// While each step is asked for, and the next iteration of a string without leaving it: with TF, a trap comes behind each
/// (AMD64 APM volume 2, section 13.1.4), and behind the three instructions that end that.
#[test]
fn iterations_trap_while_each_step_is_asked_for() {
    const TRAPS: u32 = DATA + 0x380;
    const ITERATIONS: u32 = 5;
    let prepare = |p: &mut Program| {
        let mut over = p.create_label();
        p.jmp(over)?;
        let entry = p.here()?;
        p.gate(1, entry, 0);
        p.inc(dword_ptr(TRAPS))?;
        p.iretd()?;
        p.place(&mut over)
    };
    let guest = each_by_itself(1, false, prepare, |p| {
        // Cycles in which an instruction retires, at all levels: event C0h, threshold 1.
        p.write_msr(0xC001_0000, 0x0143_00C0)?;
        p.mov(edi, 0x30_0000)?;
        p.mov(ecx, ITERATIONS)?;
        p.pushfd()?;
        p.or(dword_ptr(esp), 0x100)?;
        p.popfd()?;
        p.rep().stosb()?;
        p.pushfd()?;
        p.and(dword_ptr(esp), !0x100)?;
        p.popfd()?;
        p.cli()?;
        p.hlt()
    });
    let mut machine = machine("k8", 1, &guest.unwrap());
    machine.soft.set_timing(Timing::Flat, Warm::Counting);
    run(&mut machine, 1000);
    let mut traps = [0; 4];
    assert!(machine.read_physical(TRAPS.into(), &mut traps));
    assert_eq!(u32::from_le_bytes(traps), ITERATIONS + 3);
}
