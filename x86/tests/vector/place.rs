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
