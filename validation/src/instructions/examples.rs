//! Examples of the documents that are no instruction again and again: mispredicted branches, and an operand that needs
//! help.

use guest_tests::msr::OS;
use guest_tests::part::event;
use guest_tests::{Guest, Part, SCRATCH};
use iced_x86::code_asm::{al, byte_ptr, dword_ptr, eax, ebx, ecx, edx, esi};
use vpmu::engine::soft::Timing;

use super::rows::{Row, Setting};
use super::{TOLERANCE, cycles};
use crate::Result;
use crate::check::Check;
use crate::machine::{Options, run};

/// Bytes that a branch depends on.
const BYTES: u32 = 65_536;
/// Where a program keeps a time.
const TIME: u32 = SCRATCH + BYTES;

/// The examples of a part.
///
/// # Errors
/// If a program does not run.
pub(super) fn of(part: &'static Part) -> Result<Vec<Check>> {
    match part.name {
        "p55c" => [("U", 4.0), ("V", 5.0)]
            .into_iter()
            .map(|(pipe, clocks)| {
                Ok(Check {
                    part: part.name,
                    what: format!("a mispredicted branch in the {pipe} pipe"),
                    at_least: clocks * (1.0 - TOLERANCE),
                    at_most: clocks * (1.0 + TOLERANCE),
                    measured: misprediction(part, pipe == "V")?,
                    why: "on random bytes, beyond sorted ones: Abrash, Graphics Programming Black Book; Fog 22.2.2"
                        .into(),
                    outside: None,
                })
            })
            .collect(),
        "ppro" | "pii" | "p6" => Ok(vec![denormal(part)?]),
        _ => Ok(Vec::new()),
    }
}

/// Cycles that a mispredicted branch takes beyond one that is not.
fn misprediction(part: &'static Part, in_v: bool) -> Result<f64> {
    // Adds up the bytes that are at least 128.
    let add_large_ones = |g: &mut Guest| -> guest_tests::Result {
        let mut small = g.create_label();
        g.mov(esi, SCRATCH)?;
        g.mov(ecx, BYTES)?;
        g.xor(eax, eax)?;
        let next = g.here()?;
        // A pair each; the branch is the second of its own, or alone.
        g.mov(al, byte_ptr(esi))?;
        g.inc(esi)?;
        g.cmp(al, 128)?;
        if !in_v {
            g.inc(edx)?;
        }
        g.jb(small)?;
        g.add(ebx, eax)?;
        g.place(&mut small)?;
        g.dec(ecx)?;
        g.jnz(next)
    };
    let image = Guest::assemble(part, |g| {
        for (name, random) in [("random", true), ("sorted", false)] {
            g.mov(edx, 0x9E37_79B9_u32)?;
            g.mov(ecx, BYTES)?;
            let next = g.here()?;
            if random {
                // Xorshift of 32 bits (Marsaglia, 2003).
                g.mov(eax, edx)?;
                g.shl(eax, 13)?;
                g.xor(edx, eax)?;
                g.mov(eax, edx)?;
                g.shr(eax, 17)?;
                g.xor(edx, eax)?;
                g.mov(eax, edx)?;
                g.shl(eax, 5)?;
                g.xor(edx, eax)?;
                g.mov(eax, edx)?;
            } else {
                g.mov(eax, ecx)?;
                g.dec(eax)?;
                g.shr(eax, 8)?;
            }
            g.mov(byte_ptr(ecx + (SCRATCH as i32 - 1)), al)?;
            g.dec(ecx)?;
            g.jnz(next)?;
            // All bytes are in the second level, wherever they were before.
            g.count(&format!("{name}.again"), event(0x35), OS, add_large_ones)?;
            g.count(&format!("{name}.mispredicted"), event(0x35), OS, |g| {
                g.rdtsc()?;
                g.mov(dword_ptr(TIME), eax)?;
                add_large_ones(g)?;
                g.rdtsc()?;
                g.sub(eax, dword_ptr(TIME))?;
                g.mov(dword_ptr(TIME), eax)
            })?;
            g.report_word(&format!("{name}.cycles"), TIME)?;
        }
        Ok(())
    })?;
    let options = Options { timing: Timing::Model, ..Options::default() };
    let outcome = run(part, image, options)?;
    let difference = |what: &str| -> Result<f64> {
        let of = |name: &str| outcome.value(&format!("{name}.{what}"));
        Ok(of("random")? as f64 - of("sorted")? as f64)
    };
    let clocks = difference("cycles")? / difference("mispredicted")?;
    Ok((clocks * 100.0).round() / 100.0)
}

/// FADD of a denormal number.
fn denormal(part: &'static Part) -> Result<Check> {
    let row = Row {
        name: "FADD of a denormal number, in a chain",
        setting: Setting::Any,
        setup: |g| {
            g.fninit()?;
            g.fld1()?;
            g.mov(esi, SCRATCH)?;
            g.mov(dword_ptr(esi), 1)
        },
        one: |g, _| g.fadd(dword_ptr(esi)),
        figures: &[],
    };
    Ok(Check {
        part: part.name,
        what: row.name.into(),
        at_least: 50.0,
        at_most: 155.0,
        measured: (cycles(part, &row)? * 100.0).round() / 100.0,
        why: "50 to 150 beyond the 3 of FADD: Fog 29".into(),
        outside: None,
    })
}
