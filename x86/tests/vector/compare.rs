//! What the processor did beside what the reference expects, and how a difference is told.

use std::fmt::Write;

use crate::{
    Instruction,
    case::{End, Expected},
    machine::Machine,
    state::{ARENA, Arena, Fault, Registers, load},
};

/// RF, which a fault sets in the image of the flags.
const RF: u64 = 1 << 16;

/// One case before and after.
pub(crate) struct Compared<'a> {
    pub(crate) instruction: &'a Instruction,
    pub(crate) before: &'a Registers,
    pub(crate) expected: &'a Expected,
    pub(crate) reference: &'a Registers,
    pub(crate) actual: &'a Registers,
    pub(crate) fault: Option<Fault>,
    /// What SPFLT asked for, expected and done.
    pub(crate) preferences: [Option<bool>; 2],
}

/// Tells all differences, or none. Afterwards both memories are the same.
pub(crate) fn difference(
    c: &Compared<'_>,
    arena: &mut Arena,
    machine: &Machine,
    seed: u64,
) -> Option<String> {
    let mut text = String::new();
    let fault = match c.expected.end {
        End::Retires => None,
        End::Faults(fault) => Some(fault),
        End::Open => c.fault,
    };
    if fault != c.fault {
        let _ = writeln!(text, "  expected {fault:x?}, not {:x?}", c.fault);
    }
    if c.expected.end != End::Open {
        registers(c, &mut text);
    }
    memory(arena, machine, seed, c.expected.end == End::Open, &mut text);
    if text.is_empty() {
        return None;
    }
    let mut told = format!("  case {seed}: {:02x?}\n", c.instruction.bytes());
    inputs(c, &mut told);
    Some(told + &text)
}

fn registers(c: &Compared<'_>, text: &mut String) {
    let (reference, actual) = (c.reference, c.actual);
    for n in 0..32 {
        if reference.zmm[n] != actual.zmm[n] {
            vector(c, n, text);
        }
    }
    for n in 0..8 {
        if reference.k[n] != actual.k[n] {
            let _ =
                writeln!(text, "  k{n}: expected {:04x}, not {:04x}", reference.k[n], actual.k[n]);
        }
    }
    for n in 0..16 {
        if reference.gpr[n] != actual.gpr[n] {
            let (expected, actual) = (reference.gpr[n], actual.gpr[n]);
            let _ = writeln!(text, "  register {n}: expected {expected:x}, not {actual:x}");
        }
    }
    let known = c.expected.vxcsr;
    let (expected, vxcsr) = (reference.vxcsr & known, actual.vxcsr & known);
    if expected != vxcsr {
        let _ = writeln!(text, "  VXCSR: expected {expected:06x}, not {vxcsr:06x}");
    }
    if reference.rip != actual.rip {
        let _ = writeln!(text, "  RIP: expected {:x}, not {:x}", reference.rip, actual.rip);
    }
    let (expected, rflags) = (reference.rflags, actual.rflags & !RF);
    if expected != rflags {
        let _ = writeln!(text, "  RFLAGS: expected {expected:x}, not {rflags:x}");
    }
    let [expected, done] = c.preferences;
    if expected != done {
        let _ = writeln!(text, "  SPFLT: expected {expected:?}, not {done:?}");
    }
}

/// Compares a vector register lane by lane: those that are only known to within an error may differ.
fn vector(c: &Compared<'_>, n: usize, text: &mut String) {
    for lane in 0..16 {
        let expected = load(&c.reference.zmm[n], 4, 4 * lane) as u32;
        let actual = load(&c.actual.zmm[n], 4, 4 * lane) as u32;
        let is_close = c.expected.bounds[lane].is_some_and(|bound| {
            (f64::from(f32::from_bits(actual)) - bound.exact).abs() <= bound.error
        });
        if expected != actual && !is_close {
            let _ = writeln!(text, "  zmm{n}[{lane}]: expected {expected:08x}, not {actual:08x}");
        }
    }
}

/// Compares the memory around the operand, and all of it now and then.
fn memory(arena: &mut Arena, machine: &Machine, seed: u64, open: bool, text: &mut String) {
    let everything = [(ARENA, arena.bytes.len())];
    let places = if seed.is_multiple_of(256) { &everything[..] } else { &arena.written };
    let mut bytes = Vec::new();
    for &(at, size) in places {
        let from = (at - ARENA) as usize;
        bytes.resize(size, 0);
        machine.read(at, &mut bytes);
        let expected = &mut arena.bytes[from..from + size];
        if expected == bytes {
            continue;
        }
        for (n, (expected, actual)) in expected.iter().zip(&bytes).enumerate() {
            if expected != actual && !open {
                let at = at + n as u64;
                let _ = writeln!(text, "  byte {at:x}: expected {expected:02x}, not {actual:02x}");
            }
        }
        expected.copy_from_slice(&bytes);
    }
}

/// What the instruction was given.
fn inputs(c: &Compared<'_>, text: &mut String) {
    let name = c.instruction.name();
    let _ = writeln!(text, "  {name}, VXCSR {:06x}, masks {:04x?}", c.before.vxcsr, c.before.k);
    match c.instruction {
        Instruction::Vector(v) => {
            let _ = writeln!(
                text,
                "  register {}, vvvv {}, aaa {}, E {}, SSS {}, immediate {:02x}, {:x?}",
                v.reg, v.v, v.aaa, v.e, v.sss, v.immediate, v.operand
            );
            let mut shown = vec![v.reg & 31, v.v & 31];
            if let crate::case::Operand::Register(n) = v.operand {
                shown.push(n);
            }
            for n in shown {
                let lanes: Vec<_> =
                    (0..16).map(|lane| format!("{:08x}", c.before.lane(n, 4, lane))).collect();
                let _ = writeln!(text, "  zmm{n}: {}", lanes.join(" "));
            }
        }
        Instruction::Mask(m) => {
            let _ = writeln!(text, "  {:x?}, registers {:x?}", m.row.what, c.before.gpr);
        }
    }
}
