//! All opcodes with operands of all kinds, as far as a part executes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use uarch::pipeline::out_of_order::table::{Row, behaviour};
use x86_cpu::class::Class;
use x86_cpu::effects::Mode;
use x86_cpu::insn::{Form, Insn};
use x86_cpu::mode::CodeSize;
use x86_cpu::operation::Operation as O;

use super::super::shape;
use super::{PARTS, Preparation};
use crate::platform::Platform;

/// An instruction that a part executes.
struct Case {
    bytes: Vec<u8>,
    insn: Insn,
    class: Class,
    mode: Mode,
}

/// One instruction of each operation and shape, by part.
static CASES: LazyLock<Vec<Vec<Case>>> =
    LazyLock::new(|| PARTS.iter().map(|(platform, _)| cases(platform)).collect());

fn cases(platform: &Platform) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let mut cases = Vec::new();
    for code in [CodeSize::Bits16, CodeSize::Bits32, CodeSize::Bits64] {
        if code == CodeSize::Bits64 && !platform.features.long_mode {
            continue;
        }
        let mode = Mode::new(code);
        encodings(|bytes| {
            let decoded = Insn::decode(platform.features, mode, bytes);
            let Some((insn, class)) = decoded else { return };
            let shape = shape(&insn);
            let key = [
                insn.op as usize,
                insn.form as usize,
                insn.size as usize,
                shape.width as usize,
                shape.variant as usize,
                class.0 as usize,
            ];
            if !matches!(insn.op, O::Invalid | O::Ud) && seen.insert(key) {
                cases.push(Case { bytes: bytes[..insn.len.into()].into(), insn, class, mode });
            }
        });
    }
    cases
}

/// Calls `visit` with bytes that begin with each opcode, behind the prefixes that make another
/// instruction of it.
fn encodings(mut visit: impl FnMut(&[u8])) {
    const PREFIXES: [&[u8]; 5] = [&[], &[0x66], &[0xf3], &[0xf2], &[0x48]];
    let one_byte = (0..=0xff).filter(|&byte| byte != 0x0f).map(|byte| vec![byte]);
    let two_bytes = (0..=0xff).map(|byte| vec![0x0f, byte]);
    for opcode in one_byte.chain(two_bytes) {
        for prefixes in PREFIXES {
            for modrm in 0..=0xff {
                // In memory a base, or a base with a scaled index. Opcodes may go on in ModRM.
                let extended = modrm >= 0xc0 && matches!(opcode[0], 0x0f | 0xd8..=0xdf);
                if extended || matches!(modrm >> 6, 1 | 3) && matches!(modrm & 7, 1 | 4) {
                    let behind = [modrm, 0x51, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11];
                    visit(&[prefixes, &opcode, &behind].concat());
                }
            }
        }
    }
    // 3DNow! has its opcode behind the operands.
    for suffix in 0..=0xff {
        visit(&[0x0f, 0x0f, 0xc1, suffix]);
        visit(&[0x0f, 0x0f, 0x07, suffix]);
    }
}

#[test]
fn every_instruction_of_a_part_has_a_row() {
    for ((platform, core), cases) in PARTS.iter().zip(CASES.iter()) {
        let preparation = Preparation::new(core);
        for Case { bytes, insn, class, mode } in cases {
            let row = preparation.row(insn);
            assert!(!row.names.is_empty(), "{}: {bytes:02x?} {insn:?}", platform.name);
            preparation.prepare(insn, *class, *mode);
        }
        // Pentium Pro has the fewest: 117 and 83 of x87.
        let operations: BTreeSet<_> = cases.iter().map(|case| case.insn.op).collect();
        assert!(operations.len() >= 200, "{}: {}", platform.name, operations.len());
    }
}

/// Loads and stores of a row, of one iteration if it has iterations.
fn accesses(row: &Row) -> (bool, bool) {
    let all = || row.operations.iter().chain(row.each);
    (all().any(|operation| operation.loads > 0), all().any(|operation| operation.stores > 0))
}

/// Instructions whose rows access memory in another way than they do, and why.
fn differs(insn: &Insn) -> Option<&'static str> {
    Some(match insn.op {
        O::CallFar | O::RetFar => "descriptors are loaded",
        O::JmpFar if insn.form == Form::None => "a descriptor is loaded",
        O::Int | O::Int1 | O::Int3 | O::Into => "there is a frame, which depends on the gate",
        O::Rsm => "the state is loaded",
        O::Fldenv | O::Frstor | O::Fnstenv | O::Fnsave => "microcode moves an image",
        O::Enter => "microcode; a display of some levels is copied",
        O::Ins | O::Outs => "the port is the other side of the copy",
        O::Prefetchnta | O::Prefetcht0 | O::Prefetcht1 | O::Prefetcht2 => "Fog 29.1: a load",
        O::Sfence | O::Clflush => "goes the way of a store, and writes nothing",
        _ => return None,
    })
}

#[test]
fn rows_access_memory_as_the_instructions_do() {
    let (mut found, mut known) = (BTreeMap::new(), BTreeSet::new());
    for ((platform, core), cases) in PARTS.iter().zip(CASES.iter()) {
        let preparation = Preparation::new(core);
        for Case { bytes, insn, mode, .. } in cases {
            let effects = insn.effects(*mode);
            let reads = effects.memory.iter().any(|operand| operand.access.reads());
            let writes = effects.memory.iter().any(|operand| operand.access.writes());
            if accesses(preparation.row(insn)) == (reads, writes) {
                continue;
            }
            match differs(insn) {
                Some(reason) => _ = known.insert(reason),
                None => _ = found.insert(insn.op, format!("{}: {bytes:02x?}", platform.name)),
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(known.len(), 9, "{known:?}");
}

/// What the P6 family counts as computational floating-point operations is what the CPU's class has: "FADD,
/// FSUB, FCOM, FMULs, .. FDIVs, FPREMs, FSQRTS" and the steps of transcendental ones, so neither FABS and
/// FCHS nor FXAM; and also "integer MULs and IMULs .. integer DIVs, and IDIVs", which are in no class (Intel
/// SDM volume 3B, events of the P6 family, 10h).
#[test]
fn rows_are_computational_as_the_classes_are() {
    let mut found = BTreeSet::new();
    for ((platform, core), cases) in PARTS.iter().zip(CASES.iter()) {
        let preparation = Preparation::new(core);
        let is_p6 = !["k7", "k8"].contains(&platform.name);
        for Case { insn, class, .. } in cases {
            let row = preparation.row(insn).behaviour & behaviour::FLOP != 0;
            let integer = is_p6 && matches!(insn.op, O::Mul | O::Imul | O::Div | O::Idiv);
            if row != (integer || class.0 & Class::X87_FLOP.0 != 0) {
                found.insert((insn.op, row));
            }
        }
    }
    assert!(found.is_empty(), "{found:?}");
}
