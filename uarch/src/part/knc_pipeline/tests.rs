//! The tables: complete, and what they say of single instructions.

use std::{collections::BTreeSet, path::Path};

use super::{super::in_order_table::*, *};
use crate::pipeline::in_order::{Pairing, Timing, Unit, Vector};

const PLACES: [Place; 3] = [Place::Register, Place::Load, Place::Store];

/// General-purpose operations that the processor does not have: Intel 327364, appendix B, as restated, and
/// what came with later processors. Those that raise an exception before they execute are here as well.
const WITHOUT: &[&str] = &[
    "Invalid",
    "TooLong",
    "Clflush",
    "Cmovcc",
    "Cmpxchg16b",
    "HintNop",
    "Lfence",
    "Mfence",
    "Pause",
    "Prefetch",
    "Prefetchnta",
    "Prefetcht0",
    "Prefetcht1",
    "Prefetcht2",
    "Prefetchw",
    "Prefetchwt1",
    "Sfence",
    "Sysenter",
    "Sysexit",
    "Fcmovcc",
    "Fcomi",
    "Fcomip",
    "Fisttp",
    "Fucomi",
    "Fucomip",
];

/// What it has of SSE: its control register, and the images of FXSAVE.
const SSE: &[&str] = &["Fxrstor", "Fxsave", "Ldmxcsr", "Stmxcsr"];

/// The names of the software CPU's operations of one family, from its source.
fn operations(family: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../x86/src/operation.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let start = source.find(&format!("\n    {family} {{\n")).unwrap();
    let end = source[start..].find("\n    }\n").unwrap() + start;
    let lines = source[start..end].lines().skip(2).filter(|line| !line.contains("//"));
    // Lists in braces; before a colon is a name, behind it the mnemonics that share it.
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let lists = text.split(['{', '}']).filter(|part| part.contains(','));
    let names = lists.flat_map(|list| list.split(',')).filter_map(|entry| entry.split(':').next());
    names.map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect()
}

fn timing(name: &str, place: Place, bits: u8) -> Option<Timing> {
    let form = Form { place, source: Source::Plain, bits };
    rows_of(name).into_iter().find_map(|row| row.timing(form))
}

#[test]
fn every_operation_of_the_processor_has_a_timing() {
    let families = ["General", "X87", "Simd", "Vector"].map(operations);
    assert!(
        families.iter().map(BTreeSet::len).zip([150, 80, 200, 180]).all(|(n, least)| n > least)
    );
    let [general, x87, simd, vector] = &families;
    for name in general.iter().chain(x87) {
        assert_eq!(!rows_of(name).is_empty(), !WITHOUT.contains(&name.as_str()), "{name}");
    }
    for name in simd {
        assert_eq!(!rows_of(name).is_empty(), SSE.contains(&name.as_str()), "{name}");
    }
    // Of these, forms that do not exist may have no timing.
    for name in vector {
        let stores = name.starts_with("Vpack") || name.starts_with("Vmovnr");
        let place = if stores { Place::Store } else { Place::Load };
        assert!(timing(name, place, 64).is_some(), "{name}");
    }
    let known: BTreeSet<&str> = families.iter().flatten().map(String::as_str).collect();
    assert!(WITHOUT.iter().chain(SSE).all(|name| known.contains(name)));
}

/// No own row names an operation that is not there, none is hidden behind those before it, and what pairs
/// is simple.
#[test]
fn every_own_row_is_used() {
    let rows: Vec<&Row> = general::ROWS.iter().chain(vector::ROWS).collect();
    for (n, row) in rows.iter().enumerate() {
        let (names, timing) = row.says();
        assert!(timing.clocks >= 1);
        assert!(timing.pairing == Pairing::Never || timing.clocks <= 3 && !timing.microcode);
        for name in names {
            let found = PLACES.iter().any(|&place| {
                let form = Form { place, source: Source::Plain, bits: 64 };
                let has = |row: &&Row| row.names(name) && row.timing(form).is_some();
                rows.iter().position(has) == Some(n)
            });
            assert!(found, "row {n}: {name} is never found");
        }
    }
}

#[track_caller]
fn vector(name: &str, place: Place, expected: (u16, u16, bool), pairing: Pairing) {
    let timing = timing(name, place, 64).unwrap();
    let Unit::Vector(Vector { result, busy, gathers }) = timing.unit else { panic!("{name}") };
    assert_eq!((timing.clocks, timing.pairing), (1, pairing), "{name}");
    assert_eq!((result, busy, gathers), expected, "{name}");
}

#[test]
fn some_rows() {
    use Pairing::{Never, U, UV, V};
    use Place::{Load, Register, Store};
    vector("Vaddps", Register, (4, 1, false), U);
    vector("Vfmadd231pd", Load, (4, 1, false), U);
    vector("Vmovaps", Register, (4, 1, false), U);
    vector("Vmovaps", Load, (3, 1, false), U);
    vector("Vmovdqa64", Store, (1, 1, false), UV);
    vector("Vmovnrngoaps", Store, (1, 1, false), UV);
    vector("Vbroadcastss", Load, (3, 1, false), U);
    vector("Vloadunpackhpd", Load, (3, 1, false), U);
    vector("Vpackstorelps", Store, (1, 1, false), U);
    vector("Vgatherdps", Load, (4, 1, true), U);
    vector("Vscatterdpd", Store, (4, 1, true), U);
    vector("Vexp223ps", Register, (8, 2, false), U);
    vector("Vlog2ps", Register, (4, 1, false), U);
    vector("Kmov", Register, (4, 1, false), UV);
    vector("Kortest", Register, (4, 1, false), U);
    let scalar = |name, place, bits| {
        let timing = timing(name, place, bits).unwrap();
        assert_eq!(timing.unit == Unit::Integer, !name.starts_with('F'), "{name}");
        (timing.clocks, timing.pairing, timing.microcode)
    };
    assert_eq!(scalar("Vprefetch0", Register, 64), (1, V, false));
    assert_eq!(scalar("Clevict1", Register, 64), (1, V, false));
    assert_eq!(scalar("Jknzd", Register, 64), (1, V, false));
    assert_eq!(scalar("Popcnt", Register, 64), (1, U, false));
    assert_eq!(scalar("Delay", Register, 32), (1, Never, false));
    // Intel 327357-001, section 1.4.2.
    assert_eq!(scalar("Rdtsc", Register, 32), (5, Never, true));
    // A. Fog, chapter 10.2, and Intel's manual of the Pentium on what is simple.
    assert_eq!(scalar("Mov", Load, 64), (1, UV, false));
    assert_eq!(scalar("Add", Load, 64), (2, UV, false));
    assert_eq!(scalar("Add", Store, 64), (3, UV, false));
    assert_eq!(scalar("Neg", Store, 64), (3, Never, false));
    assert_eq!(scalar("Jmp", Register, 64), (2, Never, false));
    assert_eq!(scalar("Div", Register, 64), (41, Never, true));
    assert_eq!(scalar("Movzx", Register, 64), (3, Never, true));
    assert_eq!(scalar("Movs", Register, 64), (4, Never, true));
    assert_eq!(scalar("Cpuid", Register, 32), (14, Never, true));
    assert_eq!(scalar("Fadd", Register, 80), (1, Pairing::WithExchange, false));
}
