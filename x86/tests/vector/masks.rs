//! The instructions with a VEX prefix: mask registers, branches on them, bit counts, and what is told to the
//! thread or the caches. Each with its encoding, its operands at random, and its definition.

use crate::{random::Random, state::Registers};

const CF: u64 = 1;
const ZF: u64 = 0x40;
/// OF, SF, ZF, AF, PF, CF.
const ARITHMETIC: u64 = 0x8d5;

const NONE: u8 = 0;
const P66: u8 = 1;
const F3: u8 = 2;
const F2: u8 = 3;

/// Of destination and source.
type OfMasks = fn(d: u16, s: u16) -> u16;

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// k, k
    Mask(OfMasks),
    Test,
    /// k, r32
    FromRegister,
    /// r32, k
    ToRegister,
    /// r64, k (vvvv), k: the place of the pair.
    Concatenate(u32),
    Extract,
    /// Taken if the mask is zero, or if it is not; bytes of the displacement.
    Branch {
        zero: bool,
        size: usize,
    },
    Count(Count),
    /// Register operand.
    Delay,
    Preference,
    /// Memory operand that nothing happens to.
    Line,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Ones,
    Trailing,
    /// From an index on.
    TrailingAbove,
    Leading,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    map: u8,
    prefix: u8,
    /// W; `None` if it is ignored.
    w: Option<u8>,
    opcode: u8,
    extension: Option<u8>,
    pub(crate) what: What,
}

/// All documented VEX instructions.
pub(crate) fn rows() -> Vec<Row> {
    let row = |name: &str, map, prefix, w, opcode, what| Row {
        name: name.into(),
        map,
        prefix,
        w,
        opcode,
        extension: None,
        what,
    };
    let mut rows = Vec::new();
    let masks: [(&str, u8, OfMasks); 10] = [
        ("kand", 0x41, |d, s| d & s),
        ("kandn", 0x42, |d, s| !d & s),
        ("kandnr", 0x43, |d, s| d & !s),
        ("knot", 0x44, |_, s| !s),
        ("kor", 0x45, |d, s| d | s),
        ("kxnor", 0x46, |d, s| !(d ^ s)),
        ("kxor", 0x47, |d, s| d ^ s),
        ("kmerge2l1h", 0x48, |d, s| d >> 8 | s << 8),
        ("kmerge2l1l", 0x49, |d, s| d & 0xff | s << 8),
        ("kmov", 0x90, |_, s| s),
    ];
    for (name, opcode, f) in masks {
        rows.push(row(name, 1, NONE, Some(0), opcode, What::Mask(f)));
    }
    rows.push(row("kortest", 1, NONE, Some(0), 0x98, What::Test));
    rows.push(row("kmov k,r", 1, NONE, Some(0), 0x92, What::FromRegister));
    rows.push(row("kmov r,k", 1, NONE, Some(0), 0x93, What::ToRegister));
    rows.push(row("kconcath", 1, NONE, Some(0), 0x95, What::Concatenate(32)));
    rows.push(row("kconcatl", 1, NONE, Some(0), 0x97, What::Concatenate(0)));
    rows.push(row("kextract", 3, P66, Some(0), 0x3e, What::Extract));
    for (name, zero, near) in [("jkzd", true, 0x74), ("jknzd", false, 0x75)] {
        let (short, long) = (What::Branch { zero, size: 1 }, What::Branch { zero, size: 4 });
        rows.push(row(name, 0, NONE, Some(0), near, short));
        rows.push(row(name, 1, NONE, Some(0), near + 0x10, long));
    }
    for w in [0, 1] {
        for (name, prefix, opcode, count) in [
            ("popcnt", F3, 0xb8, Count::Ones),
            ("tzcnt", F3, 0xbc, Count::Trailing),
            ("tzcnti", F2, 0xbc, Count::TrailingAbove),
            ("lzcnt", F3, 0xbd, Count::Leading),
        ] {
            rows.push(row(name, 1, prefix, Some(w), opcode, What::Count(count)));
        }
        let delay = row("delay", 1, F3, Some(w), 0xae, What::Delay);
        rows.push(Row { extension: Some(6), ..delay });
        let spflt = row("spflt", 1, F2, Some(w), 0xae, What::Preference);
        rows.push(Row { extension: Some(6), ..spflt });
    }
    for n in 0..8 {
        let prefetch = row("vprefetch", 1, NONE, None, 0x18, What::Line);
        rows.push(Row { extension: Some(n), ..prefetch });
    }
    for prefix in [F3, F2] {
        let evict = row("clevict", 1, prefix, None, 0xae, What::Line);
        rows.push(Row { extension: Some(7), ..evict });
    }
    rows
}

/// What is wrong with an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// vvvv is used though it is no operand.
    UnusedV,
    /// A prefix that may not be there.
    Prefix(u8),
    /// L is set.
    Long,
    /// A memory operand.
    Memory,
}

/// An instruction with its operands.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) row: Row,
    reg: u8,
    v: u8,
    rm: u8,
    immediate: u32,
    fault: Fault,
    pub(crate) bytes: Vec<u8>,
}

impl Case {
    /// The instruction with random operands.
    pub(crate) fn random(row: &Row, random: &mut Random) -> Self {
        let mask = |random: &mut Random| random.below(8) as u8;
        let register = |random: &mut Random| random.below(16) as u8;
        let (reg, v, rm) = match row.what {
            What::Mask(_) | What::Test => (mask(random), 0, mask(random)),
            What::FromRegister | What::Extract => (mask(random), 0, register(random)),
            What::ToRegister => (register(random), 0, mask(random)),
            What::Concatenate(_) => (register(random), mask(random), mask(random)),
            What::Branch { .. } => (0, mask(random), 0),
            _ => (register(random), 0, register(random)),
        };
        let uses_v = matches!(row.what, What::Concatenate(_) | What::Branch { .. });
        let fault = random.once_in(32).then(|| random.below(4));
        let fault = match fault {
            Some(0) if !uses_v => Fault::UnusedV,
            Some(1) => Fault::Prefix(random.pick(&[0x66, 0xf2, 0xf3, 0xf0, 0x40, 0x4f])),
            Some(2) => Fault::Long,
            // Memory where only a register may be.
            Some(3) if !matches!(row.what, What::Branch { .. } | What::Line) => Fault::Memory,
            _ => Fault::None,
        };
        let v = if fault == Fault::UnusedV { 1 + random.below(15) as u8 } else { v };
        let mut c = Self {
            row: row.clone(),
            reg: row.extension.unwrap_or(reg),
            v,
            rm,
            immediate: random.next() as u32,
            fault,
            bytes: Vec::new(),
        };
        let w = row.w.unwrap_or(random.below(2) as u8);
        c.encode(w, random.once_in(2));
        c
    }

    fn encode(&mut self, w: u8, short: bool) {
        let row = &self.row;
        let r = if row.extension.is_some() { 0 } else { self.reg >> 3 };
        let long = u8::from(self.fault == Fault::Long) << 2;
        let last = (!self.v & 15) << 3 | long | row.prefix;
        if let Fault::Prefix(prefix) = self.fault {
            self.bytes.push(prefix);
        }
        let b = self.rm >> 3;
        if short && b == 0 && w == 0 && row.map == 1 {
            self.bytes.extend([0xc5, (!r & 1) << 7 | last]);
        } else {
            let extensions = (!r & 1) << 7 | 0x40 | (!b & 1) << 5;
            self.bytes.extend([0xc4, extensions | row.map, w << 7 | last]);
        }
        self.bytes.push(row.opcode);
        let immediate = self.immediate.to_le_bytes();
        match row.what {
            What::Branch { size, .. } => self.bytes.extend(&immediate[..size]),
            What::Line => {
                // Base and a displacement of 32 bits, or of 8.
                let (mode, size) = if immediate[0] & 1 != 0 { (1, 1) } else { (2, 4) };
                self.bytes.push(mode << 6 | (self.reg & 7) << 3 | self.rm & 7);
                if self.rm & 7 == 4 {
                    self.bytes.push(0x24);
                }
                self.bytes.extend(&immediate[..size]);
            }
            _ => {
                let mode = if self.fault == Fault::Memory { 0 } else { 0xc0 };
                self.bytes.push(mode | (self.reg & 7) << 3 | self.rm & 7);
            }
        }
        if matches!(row.what, What::Extract) {
            self.bytes.push(immediate[0]);
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.fault == Fault::None
    }

    /// Changes registers so that the operands are in the range that is specified, and a delay is short.
    pub(crate) fn prepare(&self, r: &mut Registers, random: &mut Random) {
        let bits = if self.row.w == Some(1) { 64 } else { 32 };
        match self.row.what {
            What::Count(Count::TrailingAbove) => {
                let index = random.below(bits + 1).wrapping_sub(1);
                let index = if bits == 64 { index } else { index & 0xffff_ffff };
                r.gpr[usize::from(self.reg)] =
                    index | if bits == 64 { 0 } else { random.next() << 32 };
            }
            What::Delay => {
                let clocks = random.below(1000);
                let junk = if bits == 64 { 0 } else { random.next() << 32 };
                r.gpr[usize::from(self.rm)] = clocks | junk;
            }
            _ => {}
        }
        if random.once_in(4) {
            let n = random.below(16) as usize;
            if !matches!(self.row.what, What::Delay | What::Count(Count::TrailingAbove)) {
                r.gpr[n] = random.pick(&[0, 1, 1 << 31, 1 << 63, u64::MAX, 0xffff_ffff]);
            }
        }
    }

    /// Executes the instruction, which ends at `next`. What SPFLT asks for.
    pub(crate) fn execute(&self, r: &mut Registers, next: u64) -> Option<bool> {
        let (reg, rm) = (usize::from(self.reg), usize::from(self.rm));
        match self.row.what {
            What::Mask(f) => r.k[reg] = f(r.k[reg], r.k[rm]),
            What::Test => {
                let either = r.k[reg] | r.k[rm];
                let zf = if either == 0 { ZF } else { 0 };
                let cf = if either == 0xffff { CF } else { 0 };
                r.rflags = r.rflags & !ARITHMETIC | zf | cf;
            }
            What::FromRegister => r.k[reg] = r.gpr[rm] as u16,
            What::ToRegister => r.gpr[reg] = u64::from(r.k[rm]),
            What::Concatenate(place) => {
                let pair = u64::from(r.k[usize::from(self.v)]) << 16 | u64::from(r.k[rm]);
                r.gpr[reg] = pair << place;
            }
            What::Extract => r.k[reg] = (r.gpr[rm] >> (16 * (self.immediate & 3))) as u16,
            What::Branch { zero, size } => {
                let displacement = match size {
                    1 => i64::from(self.immediate as i8),
                    _ => i64::from(self.immediate as i32),
                };
                if (r.k[usize::from(self.v)] == 0) == zero {
                    r.rip = next.wrapping_add(displacement as u64);
                }
            }
            What::Count(count) => self.count(count, r),
            What::Preference => return Some(r.gpr[rm] & 1 != 0),
            What::Delay | What::Line => {}
        }
        None
    }

    fn count(&self, count: Count, r: &mut Registers) {
        let bits: u64 = if self.row.w == Some(1) { 64 } else { 32 };
        let (d, s) = (r.gpr[usize::from(self.reg)], r.gpr[usize::from(self.rm)]);
        let s = if bits == 64 { s } else { s & 0xffff_ffff };
        let is_set = |n: &u64| s >> n & 1 != 0;
        let result = match count {
            Count::Ones => (0..bits).filter(is_set).count() as u64,
            Count::Trailing => (0..bits).find(is_set).unwrap_or(bits),
            Count::TrailingAbove => {
                let above = if bits == 64 { d as i64 } else { i64::from(d as i32) };
                (0..bits).find(|n| *n as i64 > above && is_set(n)).unwrap_or(bits)
            }
            Count::Leading => (0..bits).rev().position(|n| is_set(&n)).map_or(bits, |n| n as u64),
        };
        r.gpr[usize::from(self.reg)] = result;
        let zf = if result == 0 { ZF } else { 0 };
        let cf = if s == 0 && !matches!(count, Count::Ones) { CF } else { 0 };
        r.rflags = r.rflags & !ARITHMETIC | zf | cf;
    }
}
