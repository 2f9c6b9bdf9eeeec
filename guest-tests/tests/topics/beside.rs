//! What a counter holds does not depend on what others count meanwhile: of random events, with random fields, over
//! random code at two privilege levels.
//!
//! A program is run twice. One counter is the same both times; the others count no level the second time. The manuals
//! have each counter count by its own select alone (BKDG 10.2; SDM Vol. 3, "Performance Monitoring"; Intel 327357-001,
//! table 1-5).

use guest_tests::guest::EFLAGS_CLEAR;
use guest_tests::measure::cesr_half;
use guest_tests::msr::{
    CESR, CLOCKS, CMASK_1, CMASK_2, CMASK_3, EDGE, EN, INV, OS, P6_EVT_SEL0, P6_EVT_SEL1, USR,
};
use guest_tests::part::Registers;
use guest_tests::random::Random;
use guest_tests::{Guest, Options, Part, Result, run_with};
use iced_x86::code_asm::{dword_ptr, eax, ebx, ecx, edi, edx, esi};
use pmu_model::{EventDef, Personality};
use vpmu::engine::soft::{Timing, Warm};
use vpmu::program::Image;

topics!(by_the_flat_clock, by_the_pipelines);

/// Programs of each kind.
const PROGRAMS: u64 = 20;
/// Random pieces of code in each.
const PIECES: usize = 40;
/// Memory that no guest uses before, a power of two.
const FRESH: u32 = 4 << 20;
const FRESH_SIZE: u64 = 1 << 16;

fn by_the_flat_clock(part: &'static Part) -> Result {
    check(part, Timing::Flat)
}

fn by_the_pipelines(part: &'static Part) -> Result {
    check(part, Timing::Model)
}

fn check(part: &'static Part, timing: Timing) -> Result {
    // Else caches would be warm of what is executed between the WRMSR of one counter and that of another.
    let options = Options { timing: Some(timing), warm: Warm::Always, ..Options::DEFAULT };
    let mut counted = 0;
    for seed in 0..PROGRAMS {
        let plan = Plan::random(part, timing, &mut Random(seed));
        let beside = run_with(part, &plan.assemble(part, true)?, options).value("counter");
        let alone = run_with(part, &plan.assemble(part, false)?, options).value("counter");
        assert_eq!(
            beside, alone,
            "program {seed}: counter {} of {:X?}",
            plan.checked, plan.selects
        );
        counted += u32::from(beside != 0);
    }
    // Not all events are of something that happens.
    assert!(counted >= 4, "only {counted} programs counted anything");
    Ok(())
}

/// A piece of code.
#[derive(Clone, Copy)]
enum Piece {
    Nops(u64),
    /// Of a doubleword, that far into [`FRESH`].
    Load(u32),
    Store(u32),
    /// Each waits for the one before.
    Multiplications(u64),
    Division,
    /// Of so many doublewords.
    String(u32),
    /// A loop of so many turns, whose branch goes by what random bits say.
    Branches(u32),
    /// Nothing issues until all before has retired; not above CPL 0.
    Cpuid,
    /// A few cycles with interrupts enabled; not above CPL 0.
    Open,
}

/// A program: counters and code.
struct Plan {
    selects: Vec<u64>,
    /// The counter that is the same in both runs.
    checked: usize,
    /// The order in which counters are programmed, and in which they are stopped.
    starts: Vec<u32>,
    stops: Vec<u32>,
    /// Code at CPL 0, or at CPL 3.
    code: Vec<(u8, Vec<Piece>)>,
}

impl Plan {
    fn random(part: &Part, timing: Timing, random: &mut Random) -> Self {
        let Some(personality) = Personality::by_name(part.name) else { unreachable!() };
        let selects = (0..part.counters).map(|n| select(personality, part, n, random)).collect();
        let checked = random.below(part.counters.into()) as usize;
        let code = (0..PIECES / 5).map(|_| {
            let cpl = if random.below(2) == 0 { 0 } else { 3 };
            (cpl, (0..5).map(|_| piece(cpl, random)).collect())
        });
        let code = code.collect();
        let mut starts: Vec<_> = (0..part.counters).collect();
        let mut stops = starts.clone();
        stops.rotate_left(random.below(part.counters.into()) as usize);
        starts.rotate_left(match timing {
            // Pipelines see nothing before a counter asks for it.
            Timing::Flat => checked,
            _ => random.below(part.counters.into()) as usize,
        });
        Self { selects, checked, starts, stops, code }
    }

    /// The program; the other counters count, or else no level.
    fn assemble(&self, part: &'static Part, others_count: bool) -> Result<Image> {
        let select = |n: u32| match n as usize == self.checked || others_count {
            true => self.selects[n as usize],
            false => self.selects[n as usize] & !(OS | USR),
        };
        Guest::assemble(part, |g| {
            program(g, part, &self.starts, select)?;
            for (cpl, pieces) in &self.code {
                let emit = |g: &mut Guest| pieces.iter().try_for_each(|&piece| emit(g, piece));
                match cpl {
                    0 => emit(g)?,
                    _ => g.at_cpl3(EFLAGS_CLEAR, emit)?,
                }
            }
            program(g, part, &self.stops, |_| 0)?;
            g.read_msr(part.perfctr(self.checked as u32))?;
            g.report("counter")
        })
    }
}

/// An event that counter `n` can count, at one or two levels, with random fields.
fn select(personality: &'static Personality, part: &Part, n: u32, random: &mut Random) -> u64 {
    let counts = |event: &&EventDef| u32::from(event.counters) >> n & 1 != 0;
    let events: Vec<_> = personality.events.iter().filter(counts).collect();
    let event = random.one_of(&events);
    let umask = match event.umasks {
        [] => 0,
        umasks => u64::from(random.one_of(umasks).mask),
    };
    let levels = *random.one_of(&[OS, USR, OS | USR]);
    if part.registers == Registers::P55c {
        return u64::from(event.code) | levels | random.one_of(&[0, CLOCKS]);
    }
    // Half of them compare the occurrences of each cycle.
    let compared = [0, 0, CMASK_1, CMASK_1 | EDGE, CMASK_1 | INV, CMASK_2, CMASK_3 | INV, EDGE];
    u64::from(event.code) | umask << 8 | levels | random.one_of(&compared)
}

/// Writes all selects, whichever counters they enable; where each has a register of its own, in this order.
fn program(g: &mut Guest, part: &Part, order: &[u32], select: impl Fn(u32) -> u64) -> Result {
    match part.registers {
        Registers::P55c => g.write_msr(CESR, cesr_half(select(0)) | cesr_half(select(1)) << 16),
        Registers::P6 => {
            g.write_msr(P6_EVT_SEL1, select(1))?;
            g.write_msr(P6_EVT_SEL0, select(0) | EN)
        }
        Registers::Amd | Registers::Knc => {
            order.iter().try_for_each(|&n| g.write_msr(part.evtsel(n), select(n) | EN))
        }
    }
}

fn piece(cpl: u8, random: &mut Random) -> Piece {
    let place = random.below(FRESH_SIZE) as u32 & !3;
    match random.below(if cpl == 0 { 11 } else { 9 }) {
        0 | 1 => Piece::Nops(1 + random.below(8)),
        2 | 3 => Piece::Load(place),
        4 => Piece::Store(place),
        5 => Piece::Multiplications(1 + random.below(4)),
        6 => Piece::Division,
        7 => Piece::String(random.below(40) as u32),
        8 => Piece::Branches(1 + random.below(20) as u32),
        9 => Piece::Cpuid,
        _ => Piece::Open,
    }
}

fn emit(g: &mut Guest, piece: Piece) -> Result {
    match piece {
        Piece::Nops(n) => (0..n).try_for_each(|_| g.nop()),
        Piece::Load(place) => g.mov(edx, dword_ptr(FRESH + place)),
        Piece::Store(place) => g.mov(dword_ptr(FRESH + place), edx),
        Piece::Multiplications(n) => (0..n).try_for_each(|_| g.imul_2(ebx, esi)),
        Piece::Division => {
            g.xor(edx, edx)?;
            g.mov(ecx, 3)?;
            g.div(ecx)
        }
        Piece::String(doublewords) => {
            g.mov(edi, FRESH)?;
            g.mov(ecx, doublewords)?;
            g.rep().stosd()
        }
        Piece::Branches(turns) => {
            g.mov(ecx, turns)?;
            let turn = g.here()?;
            let mut over = g.create_label();
            g.imul_3(esi, esi, 0x0019_660D)?;
            g.add(esi, 0x3C6E_F35F)?;
            g.js(over)?;
            g.inc(eax)?;
            g.place(&mut over)?;
            g.dec(ecx)?;
            g.jnz(turn)
        }
        Piece::Cpuid => g.cpuid(),
        Piece::Open => {
            g.sti()?;
            g.nop()?;
            g.cli()
        }
    }
}
