//! A long guest with a short stretch counted: billions of instructions at CPL 3, a million of which
//! counters are enabled for, and billions again.

use std::time::{Duration, Instant};

use iced_x86::code_asm::{CodeLabel, eax, ptr, r9, rcx};
use pmu_model::RdpmcCaller;
use vpmu::config::Limits;
use vpmu::engine::EngineKind;
use vpmu::machine::End;
use vpmu::program::Image;

use crate::long_mode::Program;
use crate::machine::{self, Setup};
use crate::{Result, mips};

/// Instructions before and again behind the counted ones, on KVM.
const LONG: u64 = 10_000_000_000;
/// On the software engine.
const SHORTER: u64 = 200_000_000;
/// At CPL 3 between enabling and disabling the counters.
const COUNTED: u64 = 1_000_000;
/// What counter 1 counts at CPL 0: see [`guest`].
const COUNTED_AT_CPL_0: u64 = 17;
/// How long the run on KVM may take.
const BAR: Duration = Duration::from_secs(15);
/// A guest that runs for so long does not do what it should: ends the run.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// PerfEvtSel0 and 1 of K8: RETIRED_INSTRUCTIONS, EN, USR, OS (BKDG 26094, section 10.2).
const PERF_EVT_SEL: [u32; 2] = [0xC001_0000, 0xC001_0001];
const INSTRUCTIONS: u64 = 0xC0 | 1 << 22;
const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
/// The interrupt by which CPL 3 comes to CPL 0.
const VECTOR: u8 = 0x80;
/// RFLAGS: bit 1 is always one.
const RFLAGS: i32 = 2;
const DEBUG_EXIT: i32 = 0xF4;

/// Runs it on both engines and prints a table; an error if a count is wrong.
pub(crate) fn compare() -> Result<()> {
    println!("| engine | million instructions | s | MIPS | counted at CPL 3 | at CPL 0 |");
    println!("|---|---|---|---|---|---|");
    for (name, engine, long) in
        [("kvm", EngineKind::Kvm, LONG), ("soft", EngineKind::Soft, SHORTER)]
    {
        eprintln!("benches: {name}: twice {} million instructions ...", long / 1_000_000);
        let setup = Setup { engine, ..Setup::soft("k8", 16 << 20) };
        let mut machine = setup.machine(machine::flat(guest(long)?))?;
        let started = Instant::now();
        let limits = Limits { timeout: Some(TIME_LIMIT), instructions: None };
        let end = machine::run(&mut machine, limits)?;
        let time = started.elapsed();
        if end != End::Exit(1) {
            return Err(format!("the guest ended with {end:?}").into());
        }
        let counts = [0, 1].map(|n| {
            let vcpu = machine.vcpus().first();
            vcpu.and_then(|vcpu| vcpu.pmu.rdpmc(n, RdpmcCaller::default()).ok())
        });
        let instructions = 2 * long + COUNTED;
        println!(
            "| {name} | {} | {:.2} | {:.0} | {} | {} |",
            instructions / 1_000_000,
            time.as_secs_f64(),
            mips(instructions, time),
            counts[0].unwrap_or_default(),
            counts[1].unwrap_or_default(),
        );
        if counts != [Some(COUNTED), Some(COUNTED_AT_CPL_0)] {
            return Err(format!("counted {counts:?}").into());
        }
        if engine == EngineKind::Kvm && time > BAR {
            return Err(format!("took {time:?}, more than {BAR:?}").into());
        }
    }
    Ok(())
}

/// A guest with `long` instructions in a loop at CPL 3, [`COUNTED`] more that are counted, and `long`
/// again. CPL 3 comes to CPL 0 by INT n, to where R9 says.
fn guest(long: u64) -> Result<Image> {
    let mut p = Program::new()?;
    let [mut before, mut between, mut behind] = [(); 3].map(|()| p.create_label());
    let [mut enable, mut disable, mut done, mut over] = [(); 4].map(|()| p.create_label());
    p.jmp(over)?;
    let handler = p.here()?;
    p.gate(VECTOR, handler);
    p.jmp(r9)?;

    p.place(&mut over)?;
    leave_to(&mut p, before, enable)?;
    p.place(&mut enable)?;
    p.write_msr(PERF_EVT_SEL[1], INSTRUCTIONS | OS)?;
    // Counter 1 counts four here, eight to IRETQ, one of the handler and four at `disable`.
    p.write_msr(PERF_EVT_SEL[0], INSTRUCTIONS | USR)?;
    leave_to(&mut p, between, disable)?;
    p.place(&mut disable)?;
    p.write_msr(PERF_EVT_SEL[1], 0)?;
    p.write_msr(PERF_EVT_SEL[0], 0)?;
    leave_to(&mut p, behind, done)?;
    p.place(&mut done)?;
    p.xor(eax, eax)?;
    p.out(DEBUG_EXIT, eax)?;

    for (label, instructions) in [(&mut before, long), (&mut between, COUNTED), (&mut behind, long)]
    {
        p.place(label)?;
        // MOV and INT n beside the loop.
        p.mov(rcx, (instructions - 2) / 2)?;
        let top = p.here()?;
        p.dec(rcx)?;
        p.jnz(top)?;
        p.int(i32::from(VECTOR))?;
    }
    Ok(p.finish()?)
}

/// To `user` at CPL 3, whose INT n is to come to `next`: LEA, then [`Program::enter_user`]'s.
fn leave_to(p: &mut Program, user: CodeLabel, next: CodeLabel) -> Result<()> {
    p.lea(r9, ptr(next))?;
    Ok(p.enter_user(user, RFLAGS)?)
}
