//! The tables: complete, and what they say of single instructions.

use std::{collections::BTreeSet, path::Path};

use super::*;
use crate::part::in_order_table::{Place, Source};
use crate::pipeline::in_order::{Pairing, Unit};

const PLACES: [Place; 3] = [Place::Register, Place::Load, Place::Store];
const SOURCES: [Source; 5] =
    [Source::Plain, Source::Immediate, Source::AccumulatorImmediate, Source::One, Source::Count];

/// Operations that the processor does not have: those of 64-bit mode, of SSE and 3DNow!, and what came
/// with the Pentium Pro and later (Intel SDM volume 2, CPUID feature flags; AMD64 APM volume 3). Those that
/// raise an exception before they execute are here as well.
const LATER: &[&str] = &[
    "Invalid",
    "TooLong",
    "Cdqe",
    "Clevict0",
    "Clevict1",
    "Clflush",
    "Cmpxchg16b",
    "Cqo",
    "Delay",
    "Jknzd",
    "Jkzd",
    "Lfence",
    "Mfence",
    "Movsxd",
    "Prefetch",
    "Prefetchnta",
    "Prefetcht0",
    "Prefetcht1",
    "Prefetcht2",
    "Prefetchw",
    "Prefetchwt1",
    "Sfence",
    "Spflt",
    "Swapgs",
    "Syscall",
    "Sysenter",
    "Cmovcc",
    "HintNop",
    "Sysexit",
    "Sysret",
    "Fcomi",
    "Fcomip",
    "Fisttp",
    "Fucomi",
    "Fucomip",
    "Fcmovcc",
];

/// MMX instructions of the processor: Intel Architecture MMX Technology Programmer's Reference Manual,
/// appendix A; 57 with their operand sizes of MOVD and MOVQ counted apart.
const MMX: &[&str] = &[
    "Emms",
    "Movd",
    "Movq",
    "Packssdw",
    "Packsswb",
    "Packuswb",
    "Paddb",
    "Paddd",
    "Paddsb",
    "Paddsw",
    "Paddusb",
    "Paddusw",
    "Paddw",
    "Pand",
    "Pandn",
    "Pcmpeqb",
    "Pcmpeqd",
    "Pcmpeqw",
    "Pcmpgtb",
    "Pcmpgtd",
    "Pcmpgtw",
    "Pmaddwd",
    "Pmulhw",
    "Pmullw",
    "Por",
    "Pslld",
    "Psllq",
    "Psllw",
    "Psrad",
    "Psraw",
    "Psrld",
    "Psrlq",
    "Psrlw",
    "Psubb",
    "Psubd",
    "Psubsb",
    "Psubsw",
    "Psubusb",
    "Psubusw",
    "Psubw",
    "Punpckhbw",
    "Punpckhdq",
    "Punpckhwd",
    "Punpcklbw",
    "Punpckldq",
    "Punpcklwd",
    "Pxor",
];

/// The names of the software CPU's operations of one family, from its source.
fn operations(family: &str, until: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../x86/src/operation.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let start = source.find(&format!("\n    {family} {{")).unwrap();
    let end = source[start..].find(until).unwrap() + start;
    let text: String = source[start..end]
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let sections = text.split('{').skip(2).map(|section| section.split('}').next().unwrap());
    sections
        .flat_map(|section| section.split(','))
        .filter_map(|entry| entry.split(':').next())
        .map(|name| name.trim().to_string())
        .filter(|name| !name.is_empty())
        .collect()
}

fn all_forms() -> impl Iterator<Item = Form> {
    PLACES.into_iter().flat_map(|place| {
        SOURCES
            .into_iter()
            .flat_map(move |source| [8, 16, 32, 64, 80].map(|bits| Form { place, source, bits }))
    })
}

#[test]
fn every_operation_of_the_processor_has_a_timing() {
    let general = operations("General", "\n    /// The x87 instructions.");
    let x87 = operations("X87", "\n    /// MMX, 3DNow!");
    let simd = operations("Simd", "\n}\n");
    assert_eq!((general.len() > 150, x87.len() > 80, simd.len() > 200), (true, true, true));
    for name in general.iter().chain(&x87) {
        let any = all_forms().any(|form| timing(name, form).is_some());
        assert_eq!(any, !LATER.contains(&name.as_str()), "{name}");
    }
    for name in &simd {
        let any = all_forms().any(|form| timing(name, form).is_some());
        assert_eq!(any, MMX.contains(&name.as_str()), "{name}");
    }
    let known: BTreeSet<&str> =
        general.iter().chain(&x87).chain(&simd).map(String::as_str).collect();
    for name in LATER.iter().chain(MMX) {
        assert!(known.contains(name), "{name} is no operation");
    }
}

/// No row names an operation that is not there, and none is hidden behind those before it.
#[test]
fn every_row_is_used() {
    let rows: Vec<&Row> = general::ROWS.iter().chain(mmx::ROWS).chain(x87::ROWS).collect();
    for (n, row) in rows.iter().enumerate() {
        for name in row.says().0 {
            let has = |row: &&Row, form| row.names(name) && row.timing(form).is_some();
            let first =
                all_forms().any(|form| rows.iter().position(|row| has(row, form)) == Some(n));
            assert!(first, "row {n}: {name} is never found");
        }
    }
}

/// What pairs takes one, two or three clocks, which is what the table of pairs has.
#[test]
fn what_pairs_is_simple() {
    for row in general::ROWS.iter().chain(mmx::ROWS).chain(x87::ROWS) {
        let (names, timing) = row.says();
        assert!(timing.clocks >= 1);
        if timing.pairing != Pairing::Never {
            assert!(timing.clocks <= 3 && !timing.microcode, "{names:?}");
        }
        if let Unit::X87(unit) = timing.unit {
            assert!(unit.shorter.iter().all(|&shorter| shorter < unit.busy));
            assert!(unit.busy <= unit.result);
        }
    }
}

#[track_caller]
fn row(name: &str, place: Place, source: Source, bits: u8, clocks: u16, pairing: Pairing) {
    let timing = timing(name, Form { place, source, bits }).unwrap();
    assert_eq!((timing.clocks, timing.pairing), (clocks, pairing), "{name}");
}

/// Agner Fog, "How to optimize for the Pentium family of microprocessors", chapters 10.1, 10.2 and 28.
#[test]
fn some_rows() {
    use Pairing::{Never, U, UV, V, WithExchange};
    use Place::{Load, Register, Store};
    use Source::{AccumulatorImmediate, Count, Immediate, One, Plain};
    row("Mov", Store, Immediate, 32, 1, UV);
    row("Add", Register, Immediate, 32, 1, UV);
    row("Xor", Load, Plain, 32, 2, UV);
    row("Inc", Store, Plain, 8, 3, UV);
    row("Cmp", Load, Immediate, 8, 2, UV);
    row("Test", Register, Immediate, 32, 1, Never);
    row("Test", Register, AccumulatorImmediate, 32, 1, UV);
    row("Test", Load, Immediate, 32, 2, Never);
    row("Sbb", Store, Plain, 32, 3, U);
    row("Shl", Register, Immediate, 32, 1, U);
    row("Shl", Register, Count, 32, 4, Never);
    row("Rcl", Register, One, 32, 1, U);
    row("Rcl", Register, Immediate, 32, 8, Never);
    row("Rol", Register, Immediate, 32, 1, Never);
    row("Jcc", Register, Immediate, 32, 1, V);
    row("Call", Register, Immediate, 32, 1, V);
    row("Call", Register, Plain, 32, 2, Never);
    row("Jmp", Load, Plain, 32, 2, Never);
    row("Push", Register, Immediate, 32, 1, UV);
    row("Push", Load, Plain, 32, 2, Never);
    row("Ret", Register, Immediate, 16, 3, Never);
    row("Mul", Register, Plain, 16, 11, Never);
    row("Imul", Load, Plain, 32, 10, Never);
    row("Div", Register, Plain, 8, 17, Never);
    row("Idiv", Register, Plain, 32, 46, Never);
    row("Fld", Load, Plain, 64, 1, WithExchange);
    row("Fld", Load, Plain, 80, 3, Never);
    row("Fstp", Store, Plain, 80, 3, Never);
    row("Fstp", Register, Plain, 80, 1, Never);
    row("Fdiv", Load, Plain, 32, 1, WithExchange); // 39, of which 38 overlap
    row("Fidiv", Load, Plain, 32, 4, Never); // 42, of which 38 overlap
    row("Fsqrt", Register, Plain, 80, 1, Never); // 70, of which 69 overlap
    row("Fsin", Register, Plain, 80, 63, Never); // 65, of which 2 overlap
    row("Pmaddwd", Load, Plain, 64, 1, UV);
    row("Emms", Register, Plain, 64, 1, Never);
}
