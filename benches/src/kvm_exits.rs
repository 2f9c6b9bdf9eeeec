//! What it costs to leave the guest: each kind of exit of the KVM engine beside a bare KVM_RUN loop,
//! in turns.
//!
//! All but those with HLT are loops with the instruction in question [`UNROLLED`] times in the body.
//! Times are processor time of all threads, for HLT real time. What an exit takes is the difference of
//! a longer run and a shorter one, the best of [`TURNS`] each.

use std::time::{Duration, Instant};

use iced_x86::code_asm::{CodeAssembler, CodeLabel, dword_ptr, eax, ecx, edi, edx, esi, esp, rsi};
use vpmu::config::{self, Limits};
use vpmu::engine::EngineKind;
use vpmu::machine::End;
use vpmu::program::Image;
use vpmu::program::{DATA, LAPIC, Program, TRAMPOLINE, TRAMPOLINE_BYTES};

use crate::kvm_raw::{self, Burden};
use crate::machine::{self, Setup};
use crate::{Result, clock, long_mode};

/// A write here ends a guest: the debug-exit port of vpmu.
pub(crate) const END_PORT: u16 = 0xF4;
/// A port of no device.
const UNUSED_PORT: i32 = 0xED;
/// Exits in one measured run.
const EXITS: u32 = 20_000;
/// Exits in one measured run of those that take many system calls each.
const LONG_EXITS: u32 = 2_000;
/// The best of so many runs is taken.
const TURNS: usize = 5;
/// Instructions in a loop's body.
const UNROLLED: u32 = 16;
/// A guest that runs for so long does not do what it should: ends the run.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// PerfEvtSel0 and PerfCtr0 of K8 (BKDG 26094, section 10.2).
const PERF_EVT_SEL: u32 = 0xC001_0000;
const PERF_CTR: u32 = 0xC001_0004;
/// RETIRED_INSTRUCTIONS, USR, OS; EN.
const SELECT: u32 = 0xC0 | 1 << 16 | 1 << 17;
const ENABLE: u32 = 1 << 22;
/// SPFLT EDX (Knights Corner instruction set reference).
const SPFLT: [u8; 4] = [0xC5, 0xFB, 0xAE, 0xF2];

// Exceptions that are not to reach a handler: one that does ends the guest with its vector.
const UD: u8 = 6;
const GP: u8 = 13;

// Registers of the local APIC, and what is written there (SDM Vol. 3A, "Local APIC").
const EOI: u32 = 0xB0;
const ICR: u32 = 0x300;
const ICR_HIGH: u32 = 0x310;
const LVT_TIMER: u32 = 0x320;
const INITIAL_COUNT: u32 = 0x380;
const DIVIDE: u32 = 0x3E0;
const DIVIDE_BY_1: u32 = 0b1011;
const WAKE: u8 = 0x50;
const ASSERT: u32 = 1 << 14;
const ALL_BUT_SELF: u32 = 3 << 18;
const INIT: u32 = 5 << 8;
const START_UP: u32 = 6 << 8;
/// Where a started processor begins: the number of a page below 1 MiB.
const START_UP_PAGE: u32 = 8;
/// The second processor is there.
const READY: u32 = DATA;
/// The timer runs for so long.
const NAP: Duration = Duration::from_micros(300);
/// Bit 1 is always one.
const USER_RFLAGS: i32 = 2;

/// What takes the guest out, on vpmu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Rdmsr,
    Out,
    RdpmcKernel,
    RdpmcUser,
    SpfltUser,
    Emulated,
    /// The following and the way there and back.
    Transfer,
    /// Two writes that enable nothing.
    TwoWrites,
    /// Two writes to the local APIC.
    TwoLapicWrites,
    /// An interrupt from another processor ends HLT.
    Ipi,
    /// The timer's interrupt ends HLT.
    Timer,
}

/// A row of the table.
struct Row {
    name: &'static str,
    load: Load,
    /// What takes part in it and does not belong to it.
    without: Option<Load>,
    /// Which bare exit it is beside.
    raw: Raw,
}

/// An exit of the bare loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Raw {
    Rdmsr,
    Out,
}

const ROWS: [Row; 9] = [
    Row { name: "RDMSR of a counter", load: Load::Rdmsr, without: None, raw: Raw::Rdmsr },
    Row { name: "OUT to an unused port", load: Load::Out, without: None, raw: Raw::Out },
    Row {
        name: "HLT ended by an IPI",
        load: Load::Ipi,
        without: Some(Load::TwoLapicWrites),
        raw: Raw::Rdmsr,
    },
    Row {
        name: "HLT ended by the APIC timer",
        load: Load::Timer,
        without: Some(Load::TwoLapicWrites),
        raw: Raw::Rdmsr,
    },
    Row { name: "RDPMC, CPL 0", load: Load::RdpmcKernel, without: None, raw: Raw::Rdmsr },
    Row { name: "RDPMC, CPL 3", load: Load::RdpmcUser, without: None, raw: Raw::Rdmsr },
    Row { name: "SPFLT, CPL 3 (knc)", load: Load::SpfltUser, without: None, raw: Raw::Rdmsr },
    Row { name: "x87 at CPL 0", load: Load::Emulated, without: None, raw: Raw::Rdmsr },
    Row {
        name: "transfer there and back",
        load: Load::Transfer,
        without: Some(Load::TwoWrites),
        raw: Raw::Rdmsr,
    },
];

/// What a bare loop may be burdened with.
const BURDENS: [(&str, Burden); 6] = [
    ("nothing else", Burden { breakpoints: None, sync: false }),
    ("system registers in the run page", Burden { breakpoints: None, sync: true }),
    ("breakpoints asked for, none enabled", Burden { breakpoints: Some(0), sync: false }),
    ("one breakpoint", Burden { breakpoints: Some(1), sync: false }),
    ("two breakpoints", Burden { breakpoints: Some(2), sync: false }),
    ("both, as vpmu has it", Burden { breakpoints: Some(2), sync: true }),
];
const BARE: Burden = BURDENS[0].1;
const TWO_BREAKPOINTS: Burden = BURDENS[4].1;

/// Prints both tables.
pub(crate) fn exits() -> Result<()> {
    bare()?;
    println!();
    beside()
}

/// The bare loop under each burden.
fn bare() -> Result<()> {
    println!("| bare KVM_RUN | RDMSR, us | ratio | OUT, us | ratio |");
    println!("|---|---|---|---|---|");
    let mut rows = BURDENS.map(|(name, burden)| (name, burden, [Best::new(EXITS); 2]));
    for _ in 0..TURNS {
        for (_, burden, best) in &mut rows {
            for (best, raw) in best.iter_mut().zip([Raw::Rdmsr, Raw::Out]) {
                best.turn(|exits| raw.run(*burden, exits))?;
            }
        }
    }
    let alone = rows[0].2.map(Best::microseconds);
    for (name, _, best) in rows {
        let [rdmsr, out] = best.map(Best::microseconds);
        let (rdmsr_ratio, out_ratio) = (rdmsr / alone[0], out / alone[1]);
        println!("| {name} | {rdmsr:.2} | {rdmsr_ratio:.2} | {out:.2} | {out_ratio:.2} |");
    }
    Ok(())
}

/// The engine's exits beside the bare loop's.
fn beside() -> Result<()> {
    println!("| exit | us | bare, us | ratio | bare with two breakpoints, us | ratio |");
    println!("|---|---|---|---|---|---|");
    for row in ROWS {
        let [mut bare, mut burdened] = [Best::new(EXITS); 2];
        let mut with = Best::new(row.load.exits());
        let mut without = row.without.map(|load| (load, Best::new(load.exits())));
        for _ in 0..TURNS {
            bare.turn(|exits| row.raw.run(BARE, exits))?;
            with.turn(|exits| row.load.run(exits))?;
            burdened.turn(|exits| row.raw.run(TWO_BREAKPOINTS, exits))?;
            if let Some((load, best)) = &mut without {
                best.turn(|exits| load.run(exits))?;
            }
        }
        let mut time = with.microseconds() - without.map_or(0.0, |(_, best)| best.microseconds());
        if row.load == Load::Timer {
            time -= NAP.as_secs_f64() * 1e6;
        }
        let (bare, burdened) = (bare.microseconds(), burdened.microseconds());
        println!(
            "| {} | {time:.1} | {bare:.2} | {:.2} | {burdened:.2} | {:.2} |",
            row.name,
            time / bare,
            time / burdened
        );
    }
    Ok(())
}

/// The shortest of the runs so far, with few exits and with `exits` more.
#[derive(Clone, Copy, Debug)]
struct Best {
    exits: u32,
    shorter: Duration,
    longer: Duration,
}

impl Best {
    fn new(exits: u32) -> Self {
        Self { exits, shorter: Duration::MAX, longer: Duration::MAX }
    }

    /// One more turn of `run`, which takes a number of exits.
    fn turn(&mut self, run: impl Fn(u32) -> Result<Duration>) -> Result<()> {
        let few = self.exits / 10;
        self.shorter = self.shorter.min(run(few)?);
        self.longer = self.longer.min(run(self.exits + few)?);
        Ok(())
    }

    /// What one exit takes.
    fn microseconds(self) -> f64 {
        let time = self.longer.saturating_sub(self.shorter);
        time.as_secs_f64() * 1e6 / f64::from(self.exits)
    }
}

impl Raw {
    /// How long the bare loop takes for so many exits.
    fn run(self, burden: Burden, exits: u32) -> Result<Duration> {
        let mut a = CodeAssembler::new(32)?;
        let load = match self {
            Self::Rdmsr => Load::Rdmsr,
            Self::Out => Load::Out,
        };
        repeat(&mut a, load, exits)?;
        end(&mut a, 0)?;
        kvm_raw::run(&mut a, burden)
    }
}

impl Load {
    /// How many there are in a turn.
    fn exits(self) -> u32 {
        match self {
            Self::Rdmsr | Self::Out | Self::TwoWrites | Self::TwoLapicWrites => EXITS,
            _ => LONG_EXITS,
        }
    }

    /// How long it takes vpmu to run a guest with so many of it.
    fn run(self, times: u32) -> Result<Duration> {
        let image = match self {
            Self::RdpmcUser | Self::SpfltUser => user(self, times)?,
            // A round ends a HLT on both processors.
            Self::Ipi => ping_pong(times / 2)?,
            Self::Timer => naps(times)?,
            _ => kernel(self, times)?,
        };
        let cpu = if self == Self::SpfltUser { "knc" } else { "k8" };
        let cpus = if self == Self::Ipi { 2 } else { 1 };
        let setup = Setup { cpus, engine: EngineKind::Kvm, ..Setup::soft(cpu, 16 << 20) };
        let mut machine = setup.machine(machine::flat(image))?;
        let (started, real) = (clock::process()?, Instant::now());
        let limits = Limits { timeout: Some(TIME_LIMIT), instructions: None };
        let end = machine::run(&mut machine, limits)?;
        let (busy, real) = (clock::process()?.saturating_sub(started), real.elapsed());
        // Code 0 at the port is status 1.
        if end != End::Exit(1) {
            return Err(format!("the guest with {self:?} ended with {end:?}").into());
        }
        let sleeps = matches!(self, Self::Ipi | Self::Timer);
        Ok(if sleeps { real } else { busy })
    }
}

/// Writes `code` to [`END_PORT`].
fn end(a: &mut CodeAssembler, code: u32) -> Result<()> {
    a.mov(eax, code)?;
    Ok(a.out(i32::from(END_PORT), eax)?)
}

/// `times` of a load in a loop, the last round a whole one. Changes EAX, ECX, EDX, ESI, EDI.
fn repeat(a: &mut CodeAssembler, load: Load, times: u32) -> Result<()> {
    a.mov(esi, times.div_ceil(UNROLLED))?;
    a.mov(edi, LAPIC)?;
    a.mov(
        ecx,
        match load {
            Load::Rdmsr => PERF_CTR,
            Load::Transfer | Load::TwoWrites => PERF_EVT_SEL,
            _ => 0,
        },
    )?;
    a.xor(edx, edx)?;
    let mut top = a.create_label();
    a.set_label(&mut top)?;
    for _ in 0..UNROLLED {
        match load {
            Load::Rdmsr => a.rdmsr()?,
            Load::Out => a.out(UNUSED_PORT, eax)?,
            Load::RdpmcKernel | Load::RdpmcUser => a.rdpmc()?,
            Load::SpfltUser => a.db(&SPFLT)?,
            // Any that an interpreter without x87 does not know.
            Load::Emulated => a.fincstp()?,
            Load::Transfer => two_writes(a, ENABLE)?,
            Load::TwoWrites => two_writes(a, 0)?,
            Load::TwoLapicWrites => {
                a.mov(dword_ptr(edi + EOI), 0)?;
                a.mov(dword_ptr(edi + EOI), 0)?;
            }
            Load::Ipi | Load::Timer => {}
        }
    }
    if a.bitness() == 64 {
        a.dec(rsi)?;
    } else {
        a.dec(esi)?;
    }
    Ok(a.jnz(top)?)
}

/// A select with `enable`, and one without.
fn two_writes(a: &mut CodeAssembler, enable: u32) -> Result<()> {
    a.mov(eax, SELECT | enable)?;
    a.wrmsr()?;
    a.mov(eax, SELECT)?;
    Ok(a.wrmsr()?)
}

/// A guest with a load at CPL 0, in protected mode.
fn kernel(load: Load, times: u32) -> Result<Image> {
    let mut p = program()?;
    repeat(&mut p, load, times)?;
    end(&mut p, 0)?;
    Ok(p.finish()?)
}

/// A guest with a load at CPL 3, in long mode.
fn user(load: Load, times: u32) -> Result<Image> {
    let mut p = long_mode::Program::new()?;
    let (mut over, mut there) = (p.create_label(), p.create_label());
    p.jmp(over)?;
    for vector in [UD, GP] {
        let unexpected = p.here()?;
        end(&mut p, vector.into())?;
        p.gate(vector, unexpected);
    }
    let done = p.here()?;
    end(&mut p, 0)?;
    p.gate(WAKE, done);
    p.place(&mut over)?;
    // The engine looks where the handlers are when the processor leaves the guest.
    p.out(UNUSED_PORT, eax)?;
    p.enter_user(there, USER_RFLAGS)?;
    p.place(&mut there)?;
    repeat(&mut p, load, times)?;
    // Not every KVM preserves the IOPL with which CPL 3 could write to the port.
    p.int(i32::from(WAKE))?;
    Ok(p.finish()?)
}

/// A program whose exceptions end it.
fn program() -> Result<Program> {
    let mut p = Program::new()?;
    let mut over = p.create_label();
    p.jmp(over)?;
    for vector in [UD, GP] {
        let unexpected = p.here()?;
        end(&mut p, vector.into())?;
        p.gate(vector, unexpected, 0);
    }
    p.place(&mut over)?;
    Ok(p)
}

/// A subroutine that halts until the interrupt [`WAKE`] comes. The handler acknowledges it and
/// returns to the caller, without IRETD, which is an exit of its own on some hosts.
fn nap(p: &mut Program) -> Result<CodeLabel> {
    let mut over = p.create_label();
    p.jmp(over)?;
    let handler = p.here()?;
    p.mov(dword_ptr(LAPIC + EOI), 0)?;
    // EIP, CS, EFLAGS.
    p.add(esp, 3 * 4)?;
    p.ret()?;
    p.gate(WAKE, handler, 0);
    let nap = p.here()?;
    p.sti()?;
    p.hlt()?;
    p.place(&mut over)?;
    Ok(nap)
}

/// A guest that sets the timer and halts, `times`.
fn naps(times: u32) -> Result<Image> {
    let (_, platform) = config::personality("k8")?;
    let count = u128::from(platform.apic_timer_hz) * NAP.as_nanos() / 1_000_000_000;
    let count = u32::try_from(count)?;
    let mut p = program()?;
    let nap = nap(&mut p)?;
    p.mov(dword_ptr(LAPIC + DIVIDE), DIVIDE_BY_1)?;
    p.mov(dword_ptr(LAPIC + LVT_TIMER), u32::from(WAKE))?;
    p.mov(esi, times)?;
    let top = p.here()?;
    p.mov(dword_ptr(LAPIC + INITIAL_COUNT), count)?;
    p.call(nap)?;
    p.dec(esi)?;
    p.jnz(top)?;
    end(&mut p, 0)?;
    Ok(p.finish()?)
}

/// A guest whose two processors wake each other, `times` each.
fn ping_pong(times: u32) -> Result<Image> {
    let mut p = program()?;
    let nap = nap(&mut p)?;
    let mut over = p.create_label();
    p.jmp(over)?;
    let entry = p.here()?;
    p.set_start_up(entry);
    p.set_up_processor()?;
    p.mov(dword_ptr(LAPIC + ICR_HIGH), 0)?;
    p.mov(dword_ptr(READY), 1)?;
    let answer = p.here()?;
    p.call(nap)?;
    p.mov(dword_ptr(LAPIC + ICR), ASSERT | u32::from(WAKE))?;
    p.jmp(answer)?;

    p.place(&mut over)?;
    p.mov(esi, TRAMPOLINE)?;
    p.mov(edi, START_UP_PAGE << 12)?;
    p.mov(ecx, TRAMPOLINE_BYTES)?;
    p.rep().movsb()?;
    p.mov(dword_ptr(LAPIC + ICR), ALL_BUT_SELF | ASSERT | INIT)?;
    p.mov(dword_ptr(LAPIC + ICR), ALL_BUT_SELF | ASSERT | START_UP | START_UP_PAGE)?;
    let wait = p.here()?;
    p.cmp(dword_ptr(READY), 1)?;
    p.jne(wait)?;
    p.mov(dword_ptr(LAPIC + ICR_HIGH), 1 << 24)?;
    p.mov(esi, times)?;
    let top = p.here()?;
    p.mov(dword_ptr(LAPIC + ICR), ASSERT | u32::from(WAKE))?;
    p.call(nap)?;
    p.dec(esi)?;
    p.jnz(top)?;
    end(&mut p, 0)?;
    Ok(p.finish()?)
}
