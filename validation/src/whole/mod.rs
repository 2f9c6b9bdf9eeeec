//! Cycles an instruction of whole programs, beside what real processors were measured to take.

mod programs;

use guest_tests::msr::{OS, USR};
use guest_tests::{Guest, Part};
use iced_x86::code_asm::{dword_ptr, eax, ebp, edi, esi};
use vpmu::engine::soft::Timing;

use self::programs::{PROGRAMS, Program};
use crate::check::{Check, figure, table};
use crate::machine::{Options, run};
use crate::{Extent, Report, Result, each};

const ABOUT: &str = "\
Programs of our own with the clock of the pipeline (`--timing model`), counted from behind one run that makes the
caches warm: cycles by RDTSC over retired instructions. Their data is in the caches. No processor takes less
than its width allows: half a cycle on `p55c`, a third on the others. From above there are the figures of real
machines for programs of this kind (SPEC CPU2000 in user mode, of deater's `deterministic` collection,
`spec/iiswc2008`): gzip 1.03 cycles an instruction on a Pentium Pro, 1.28 on a Pentium II, 1.19 on a Pentium III,
1.12 on an Athlon; bzip2 1.26, 1.28, 1.32, 2.75; crafty 1.25, 1.25, 1.14, 0.96. What computes with numbers that
wait for each other, or divides, takes more; twice the median of all programs (1.46, 1.44, 1.59, 2.25) is what
nothing that stays in the caches should come to. Of `p55c`, `pm` and `k8` there are no such figures: they
have the bounds of `ppro`, `p6` and `k7`.

";

/// The parts, the least cycles an instruction, and twice the median of the published ones.
const PARTS: [(&str, f64, f64); 7] = [
    ("p55c", 0.5, 2.92),
    ("ppro", 0.333, 2.92),
    ("pii", 0.333, 2.88),
    ("p6", 0.333, 3.18),
    ("pm", 0.333, 3.18),
    ("k7", 0.333, 4.5),
    ("k8", 0.333, 4.5),
];

/// Where a program has its data: the image is below it.
const DATA: u32 = 0x40_0000;

/// Runs the section, all of it: that takes a few seconds.
///
/// # Errors
/// If a program does not run.
pub fn run_programs(_: Extent) -> Result<Report> {
    let checks = each(&PARTS, |&(name, least, most)| {
        let part = Part::ALL.iter().find(|part| part.name == name).ok_or("no such part")?;
        let of = |program: &Program| {
            let measured = cycles_an_instruction(part, program)?;
            Ok(Check {
                part: part.name,
                what: program.name.into(),
                at_least: least,
                at_most: most,
                measured: (measured * 100.0).round() / 100.0,
                why: "as above".into(),
                outside: None,
            })
        };
        PROGRAMS.iter().map(of).collect::<Result<Vec<_>>>()
    })?;
    let mut text = format!("{ABOUT}| |");
    PARTS.iter().for_each(|(name, _, _)| text += &format!(" `{name}` |"));
    text += &format!("\n|---|{}\n", "--:|".repeat(PARTS.len()));
    for (n, program) in PROGRAMS.iter().enumerate() {
        text += &format!("| {} |", program.about);
        checks.iter().for_each(|column| text += &format!(" {} |", figure(column[n].measured)));
        text.push('\n');
    }
    let checks = checks.concat();
    text += &format!("\n{}", table(&checks));
    Ok(Report { text, plots: Vec::new(), checks })
}

fn cycles_an_instruction(part: &'static Part, program: &Program) -> Result<f64> {
    let image = Guest::assemble(part, |g| {
        let (mut routine, mut behind) = (g.create_label(), g.create_label());
        // With this clock pipelines run while anything is counted.
        g.start(0, part.cycles, OS | USR, 0)?;
        g.mov(eax, DATA)?;
        g.call(routine)?;
        g.stop(0)?;
        g.start(1, part.instructions, OS | USR, 0)?;
        g.rdtsc()?;
        g.mov(dword_ptr(DATA - 8), eax)?;
        g.mov(eax, DATA)?;
        g.call(routine)?;
        g.rdtsc()?;
        g.sub(eax, dword_ptr(DATA - 8))?;
        g.mov(ebp, eax)?;
        g.stop(1)?;
        g.mov(eax, ebp)?;
        g.report_eax("cycles")?;
        g.read_msr(part.perfctr(1))?;
        g.report("instructions")?;
        g.jmp(behind)?;
        g.place(&mut routine)?;
        g.push(ebp)?;
        g.mov(esi, eax)?;
        g.mov(edi, eax)?;
        (program.body)(g)?;
        g.pop(ebp)?;
        g.ret()?;
        g.place(&mut behind)
    })?;
    let options = Options { timing: Timing::Model, ..Options::default() };
    let outcome = run(part, image, options)?;
    Ok(outcome.value("cycles")? as f64 / outcome.value("instructions")? as f64)
}
