//! Random vector instructions and what they find: registers, memory, and an address for their operand.

use crate::{
    case::{Address, Operand, Vector},
    catalogue::{Element, Form, Row, What},
    encode::{Fault, encode, is_indexed},
    float::{DAZ, DUE, F32, F64, FZ, RC_SHIFT},
    machine::{CODE, CODE_PAGES},
    random::Random,
    state::{ARENA, Arena, PAGE, PAGES, Registers},
    transfer::{memory_size, memory_span},
};

/// Registers with random values.
pub(crate) fn registers(random: &mut Random) -> Registers {
    let mut vxcsr = DUE | (random.below(4) as u32) << RC_SHIFT;
    for bit in [DAZ, FZ] {
        if random.once_in(3) {
            vxcsr |= bit;
        }
    }
    // Sticky flags, and masks, which mean nothing as long as DUE is set.
    if random.once_in(4) {
        vxcsr |= random.next() as u32 & 0x1fbf;
    }
    let mut r = Registers {
        zmm: std::array::from_fn(|_| [0; 64]),
        k: std::array::from_fn(|_| random.mask()),
        vxcsr,
        gpr: std::array::from_fn(|_| random.next()),
        bases: [0; 2],
        rflags: 2 | random.next() & 0x8d5,
        rip: CODE + random.below(CODE_PAGES * PAGE - 32),
        task_switched: random.once_in(100),
    };
    for base in &mut r.bases {
        *base = random.below(1 << 32);
    }
    r
}

/// A random use of an instruction. Changes `r` so that its operands are worth something and its address is
/// in the arena, and fills the memory there.
pub(crate) fn vector(row: &Row, r: &mut Registers, m: &mut Arena, random: &mut Random) -> Vector {
    let memory = !row.takes_register() || random.once_in(2);
    let code = random.below(8) as u8;
    let mut sss = code;
    if memory && !random.once_in(16) {
        while row.memory >> sss & 1 == 0 {
            sss = random.below(8) as u8;
        }
    }
    let mut e = row.e.unwrap_or(random.once_in(3));
    if !memory && !random.once_in(16) {
        // Valid, mostly.
        e &= row.sae || random.once_in(4);
        sss = match (e, row.rounding, row.sae) {
            (false, ..) if row.swizzles == 1 => 0,
            (false, ..) | (true, true, _) => code,
            (true, _, true) => code & 4,
            (true, ..) => 0,
        };
        if random.once_in(4) {
            (e, sss) = (false, 0);
        }
    }
    let mut aaa = if random.once_in(3) { 0 } else { random.below(8) as u8 };
    if row.needs_mask() && !random.once_in(32) {
        aaa = 1 + random.below(7) as u8;
    }
    if row.form == Form::Line {
        aaa = random.below(8) as u8;
    }
    let small = random.once_in(2);
    let vector = |random: &mut Random| random.below(if small { 4 } else { 32 }) as u8;
    let mut c = Vector {
        reg: if row.form == Form::ToMask { random.below(8) as u8 } else { vector(random) },
        v: if row.form == Form::Carry { random.below(8) as u8 } else { vector(random) },
        operand: Operand::Register(vector(random)),
        aaa,
        e,
        sss,
        immediate: immediate(row, random),
        bytes: Vec::new(),
        reserved: false,
        row: row.clone(),
    };
    fill_operands(&c, r, random);
    let mut fault = fault(&mut c, random);
    let short = !random.once_in(4);
    if memory {
        address(&mut c, r, m, random);
    }
    if fault == Fault::NoSib && c.base_needs_sib() {
        (fault, c.reserved) = (Fault::None, false);
    }
    c.bytes = encode(&c, fault, short);
    if memory && !is_indexed(row.form) {
        settle_relative(&mut c, r, fault, short);
    }
    c
}

/// Fixed-point instructions use three fields and leave the rest zero.
fn immediate(row: &Row, random: &mut Random) -> u8 {
    let any = random.next() as u8;
    match row.what {
        What::RoundFixed
        | What::SingleToInteger { .. }
        | What::DoubleToInteger { .. }
        | What::IntegerToSingle { .. } => any & 0x73,
        What::ShiftImmediate(_) if random.once_in(2) => any & 31,
        What::Mantissa => any & 15,
        _ => any,
    }
}

/// Puts numbers of the right kind into the vectors that are operands.
fn fill_operands(c: &Vector, r: &mut Registers, random: &mut Random) {
    // What the masked lanes keep.
    r.zmm[usize::from(c.reg & 31)] = random.vector();
    let Operand::Register(last) = c.operand else { return };
    let first = if c.row.form == Form::Carry { c.reg } else { c.v };
    let integer = matches!(c.row.what, What::FixUp | What::Scale);
    let float = match c.row.what {
        What::FixUp | What::Scale => c.row.element.size() == 4,
        _ => true,
    };
    let f = if c.row.element.size() == 4 || !float { F32 } else { F64 };
    for (n, is_last) in [(c.reg, false), (first, false), (last, true)] {
        let element = match (c.row.element, integer && !is_last) {
            (Element::I32, true) => Element::F32,
            (Element::I64, true) => Element::F64,
            (element, _) => element,
        };
        r.zmm[usize::from(n)] = lanes(c, element, random);
    }
    // Related operands: sums that cancel, comparisons of equal numbers.
    if random.once_in(6) {
        let size = f.bits as usize / 8;
        for n in 0..64 / size {
            let value = r.lane(last, size, n);
            let value = match random.below(4) {
                0 => value ^ f.sign(),
                1 => value.wrapping_add(1),
                2 => value,
                _ => continue,
            };
            r.set_lane(first, size, n, value);
        }
    }
}

/// A vector of numbers.
fn lanes(c: &Vector, element: Element, random: &mut Random) -> [u8; 64] {
    let mut bytes = [0; 64];
    let size = element.size();
    for chunk in bytes.chunks_exact_mut(size) {
        let value = match element {
            Element::F32 => random.float(F32),
            Element::F64 => random.float(F64),
            Element::I64 => random.next(),
            Element::I32 if matches!(c.row.what, What::Exp2) => {
                random.integer() & random.next() << 8
            }
            Element::I32 => random.integer(),
        };
        chunk.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    bytes
}

/// Sometimes the encoding is a wrong one.
fn fault(c: &mut Vector, random: &mut Random) -> Fault {
    if !random.once_in(48) {
        return Fault::None;
    }
    let fault = match random.below(5) {
        0 => Fault::Prefix(random.pick(&[0x66, 0xf2, 0xf3, 0xf0, 0x40, 0x48])),
        1 if !c.row.uses_v() => {
            let bits = 1 + random.below(if is_indexed(c.row.form) { 15 } else { 31 }) as u8;
            Fault::UnusedV(bits)
        }
        2 => Fault::Evex,
        3 => Fault::Map(random.pick(&[0, 4, 5, 6, 7, 8, 15])),
        4 if is_indexed(c.row.form) => Fault::NoSib,
        // A register that does not exist.
        _ if c.row.form == Form::ToMask => {
            c.reg |= 8 << random.below(2);
            c.reserved = true;
            return Fault::None;
        }
        _ if c.row.form == Form::Carry => {
            c.v |= 8 << random.below(2);
            c.reserved = true;
            return Fault::None;
        }
        _ => return Fault::None,
    };
    c.reserved = true;
    fault
}

/// Makes up an address in the arena and sets the registers that it needs.
fn address(c: &mut Vector, r: &mut Registers, m: &mut Arena, random: &mut Random) {
    let indexed = is_indexed(c.row.form);
    let stream = matches!(c.row.what, What::Unpack { .. } | What::Pack { .. });
    let span = memory_span(&c.row, c.sss) as u64;
    // Away from the arena's ends, so that whatever is near the operand is in it too.
    let page = random.pick(&[0, 1, 2, 2, 3, 4, 5, 6, 6]);
    let offset = if random.once_in(4) { random.pick(&[0, PAGE - 64]) } else { random.below(PAGE) };
    let mut target = ARENA + page * PAGE + offset;
    target = target.clamp(ARENA + 0x100, ARENA + PAGES * PAGE - 0x100);
    if !random.once_in(8) || stream && !random.once_in(4) {
        target -= target % span;
    }
    if stream && random.once_in(4) {
        target -= target % 64;
    }
    let around = (target - ARENA) as usize;
    random.fill_for(&mut m.bytes[around - 128..around + 192], c.row.element, c.sss);
    m.written.push((target - 128, 320));
    let distinct = |random: &mut Random, not: Option<u8>| loop {
        let n = random.below(16) as u8;
        if Some(n) != not {
            return n;
        }
    };
    let mut a = Address {
        base: (!random.once_in(16)).then(|| random.below(16) as u8),
        index: None,
        scale: 1 << random.below(4),
        displacement: match random.below(4) {
            0 => 0,
            1 => (random.below(256) as i32 - 128) * span as i32,
            2 => random.below(256) as i32 - 128,
            _ => random.next() as i32 >> random.below(16),
        },
        segment: random.once_in(12).then(|| random.below(2) as usize),
        narrow: random.once_in(16),
        relative: !indexed && random.once_in(24),
    };
    if !indexed && random.once_in(2) {
        a.index = Some(distinct(random, Some(4))).filter(|&n| Some(n) != a.base);
    }
    if a.narrow {
        // The segment's base is added to what is left of the address.
        r.bases = r.bases.map(|base| base % ARENA);
    }
    if random.once_in(40) && c.row.form != Form::Line && !a.narrow {
        target = target & 0xffff_ffff | 0x8000_1000_0000_0000;
        target -= target % 64;
        a.base = a.base.or(Some(a.index.unwrap_or(0) ^ 1));
        a.relative = false;
    }
    if a.relative {
        (a.base, a.index, a.segment, a.narrow) = (None, None, None, false);
    }
    if a.index.is_none() && !indexed {
        a.scale = 1;
    }
    if indexed {
        indices(c, &mut a, target, r, random);
        c.operand = Operand::Memory(a);
        return;
    }
    let index = a.index.map_or(0, |n| {
        let any = random.below(1 << 40);
        r.gpr[usize::from(n)] = random.pick(&[0, 1, 0xffff_ffff_ffff_fff0, any]);
        r.gpr[usize::from(n)]
    });
    let segment = a.segment.map_or(0, |n| r.bases[n]);
    let rest = target.wrapping_sub(segment);
    match a.base {
        Some(n) => {
            let value = rest
                .wrapping_sub(index.wrapping_mul(a.scale))
                .wrapping_sub(i64::from(a.displacement) as u64);
            let junk = if a.narrow { random.next() << 32 } else { 0 };
            r.gpr[usize::from(n)] = value.wrapping_add(junk);
        }
        // The displacement has to do it alone.
        None if a.relative => a.displacement = rest as i32,
        None => {
            if let Some(n) = a.index {
                r.gpr[usize::from(n)] = 16;
            }
            let index = a.index.map_or(0, |_| 16 * a.scale);
            if a.segment.is_some() {
                r.bases = r.bases.map(|base| base % ARENA);
            }
            let segment = a.segment.map_or(0, |n| r.bases[n]);
            a.displacement = target.wrapping_sub(segment).wrapping_sub(index) as i32;
        }
    }
    c.operand = Operand::Memory(a);
}

/// A vector of indices, most of which lead to one or two cache lines near `target`.
fn indices(c: &mut Vector, a: &mut Address, target: u64, r: &mut Registers, random: &mut Random) {
    let base = a.base.get_or_insert(3);
    let size = memory_size(c.row.element, c.sss) as u64;
    let index = loop {
        let n = random.below(32) as u8;
        if n != c.reg || c.row.form != Form::Gather || random.once_in(64) {
            break n;
        }
    };
    a.index = Some(index);
    let spread = random.pick(&[1, 16, 64, 256, 4096]);
    // Below the arena's end, and above its beginning.
    let target = if target < 1 << 47 {
        target.clamp(ARENA + 0x1800, ARENA + PAGES * PAGE - 0x1800)
    } else {
        target
    };
    let target = target - target % 64;
    let middle = random.pick(&[0i64, 5, -100, 1 << 20]);
    let displacement = i64::from(a.displacement) as u64;
    let segment = a.segment.map_or(0, |n| r.bases[n]);
    let origin = target
        .wrapping_sub(segment)
        .wrapping_sub(displacement)
        .wrapping_sub((middle as u64).wrapping_mul(a.scale));
    let junk = if a.narrow { random.next() << 32 } else { 0 };
    r.gpr[usize::from(*base)] = origin.wrapping_add(junk);
    let mut values: Vec<i64> = Vec::new();
    for n in 0..16 {
        let mut distance = random.below(2 * spread) as i64 - spread as i64;
        if !random.once_in(64) {
            distance -= distance.rem_euclid(size as i64);
        }
        let exact = distance.div_euclid(a.scale as i64);
        let mut value = middle + exact;
        if n > 0 && random.once_in(4) {
            value = values[random.below(n) as usize];
        }
        values.push(value);
        r.set_lane(index, 4, n as usize, value as u64);
    }
}

/// An address relative to RIP depends on where the instruction ends, and so on its own length.
fn settle_relative(c: &mut Vector, r: &Registers, fault: Fault, short: bool) {
    let next = r.rip + c.bytes.len() as u64;
    let Operand::Memory(a) = &mut c.operand else { return };
    if a.relative {
        a.displacement = a.displacement.wrapping_sub(next as i32);
        c.bytes = encode(c, fault, short);
    }
}
