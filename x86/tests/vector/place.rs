//! Addresses for the operands of random instructions, and what is in memory there.

use crate::{
    case::{Address, Operand, Vector},
    catalogue::{Form, What},
    encode::{Fault, encode, is_indexed},
    random::Random,
    state::{ARENA, Arena, PAGE, PAGES, Registers},
    transfer::{memory_size, memory_span},
};

/// Makes up an address in the arena and sets the registers that it needs.
pub(crate) fn address(c: &mut Vector, r: &mut Registers, m: &mut Arena, random: &mut Random) {
    let mut target = target(c, random);
    let around = (target - ARENA) as usize;
    random.fill_for(&mut m.bytes[around - 128..around + 192], c.row.element, c.sss);
    m.written.push((target - 128, 320));
    let mut a = shape(c, random);
    if random.once_in(40) && c.row.form != Form::Line && !a.narrow {
        // Not canonical. Only a base reaches so far.
        target = target & 0xffff_ffff | 0x8000_1000_0000_0000;
        target -= target % 64;
        a.base = a.base.or(Some(a.index.unwrap_or(0) ^ 1));
        a.relative = false;
    }
    if a.relative {
        (a.base, a.index, a.segment, a.narrow) = (None, None, None, false);
    }
    if a.narrow || a.base.is_none() {
        // What is left of the address beside the segment's base is positive and has 32 bits.
        r.bases = r.bases.map(|base| base % ARENA);
    }
    if is_indexed(c.row.form) {
        indices(c, &mut a, target, r, random);
    } else {
        settle(&mut a, target, r, random);
    }
    c.operand = Operand::Memory(a);
}

/// Where the operand is: aligned, mostly.
fn target(c: &Vector, random: &mut Random) -> u64 {
    let stream = matches!(c.row.what, What::Unpack { .. } | What::Pack { .. });
    let span = memory_span(&c.row, c.sss) as u64;
    let page = random.pick(&[0, 1, 2, 2, 3, 4, 5, 6, 6]);
    let offset = if random.once_in(4) { random.pick(&[0, PAGE - 64]) } else { random.below(PAGE) };
    // Away from the arena's ends, so that whatever is near the operand is in it too.
    let target = ARENA + page * PAGE + offset;
    let target = target.clamp(ARENA + 0x100, ARENA + PAGES * PAGE - 0x100);
    match (stream, random.below(8)) {
        (true, 0 | 1) => target - target % 64,
        (true, 2) | (false, 0) => target,
        _ => target - target % span,
    }
}

/// The parts of an address, but for what depends on where it is to be.
fn shape(c: &Vector, random: &mut Random) -> Address {
    let indexed = is_indexed(c.row.form);
    let span = memory_span(&c.row, c.sss) as i32;
    let base = (!random.once_in(16)).then(|| random.below(16) as u8);
    // RSP is no index.
    let index = (!indexed && random.once_in(2)).then(|| random.below(16) as u8);
    let index = index.filter(|&n| n != 4 && Some(n) != base);
    Address {
        base,
        index,
        scale: if indexed || index.is_some() { 1 << random.below(4) } else { 1 },
        displacement: match random.below(4) {
            0 => 0,
            1 => (random.below(256) as i32 - 128) * span,
            2 => random.below(256) as i32 - 128,
            _ => random.next() as i32 >> random.below(16),
        },
        segment: random.once_in(12).then(|| random.below(2) as usize),
        narrow: random.once_in(16),
        relative: !indexed && random.once_in(24),
    }
}

/// Sets the registers of an address, or its displacement, so that it is `target`.
fn settle(a: &mut Address, target: u64, r: &mut Registers, random: &mut Random) {
    let any = random.below(1 << 40);
    // Without a base the displacement has to make up for it, which has 32 bits.
    let choices = if a.base.is_some() { &[0, 1, 0xffff_ffff_ffff_fff0, any][..] } else { &[16] };
    let index = random.pick(choices);
    if let Some(n) = a.index {
        r.gpr[usize::from(n)] = index;
    }
    let index = a.index.map_or(0, |_| index.wrapping_mul(a.scale));
    let segment = a.segment.map_or(0, |n| r.bases[n]);
    let rest = target.wrapping_sub(segment).wrapping_sub(index);
    if let Some(n) = a.base {
        let junk = if a.narrow { random.next() << 32 } else { 0 };
        let value = rest.wrapping_sub(i64::from(a.displacement) as u64);
        r.gpr[usize::from(n)] = value.wrapping_add(junk);
    } else {
        a.displacement = rest as i32;
    }
}

/// A vector of indices, most of which lead to one or two cache lines near `target`.
fn indices(c: &mut Vector, a: &mut Address, target: u64, r: &mut Registers, random: &mut Random) {
    let base = *a.base.get_or_insert(3);
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
    r.gpr[usize::from(base)] = origin.wrapping_add(junk);
    let mut values: Vec<i64> = Vec::new();
    for n in 0..16 {
        let mut distance = random.below(2 * spread) as i64 - spread as i64;
        // An address that is neither canonical nor aligned may raise the one fault or the other.
        if !random.once_in(64) || target >= 1 << 47 {
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
pub(crate) fn settle_relative(c: &mut Vector, r: &Registers, fault: Fault, short: bool) {
    let next = r.rip + c.bytes.len() as u64;
    let Operand::Memory(a) = &mut c.operand else { return };
    if a.relative {
        a.displacement = a.displacement.wrapping_sub(next as i32);
        c.bytes = encode(c, fault, short);
    }
}
