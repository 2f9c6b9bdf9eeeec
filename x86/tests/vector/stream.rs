//! VLOADUNPACK and VPACKSTORE: a packed stream of elements that may begin anywhere in a cache line.
//!
//! Each instruction of a pair takes the part of the stream in one line: the low one up to the first line
//! boundary above its address, the high one, whose address is that of the stream plus 64, what is beyond it.

use crate::{
    case::{End, Operand, Vector},
    catalogue::What,
    float::Environment,
    reference::{is_canonical, not_canonical},
    state::{Arena, GP0, Registers},
    transfer::{down, memory_size, up},
};

const LINE: u64 = 64;

/// The lanes that are transferred, with their addresses.
fn elements(c: &Vector, r: &Registers, next: u64) -> Result<Vec<(usize, u64)>, End> {
    let Operand::Memory(address) = &c.operand else { panic!("a register as a stream") };
    let (What::Unpack { high } | What::Pack { high }) = c.row.what else {
        panic!("not a stream");
    };
    let index = address.index.map_or(0, |n| r.gpr[usize::from(n)]);
    let at = address.linear(r, next, index);
    let size = memory_size(c.row.element, c.sss) as u64;
    let begin = if high { at.wrapping_sub(LINE) } else { at };
    let boundary = (begin / LINE + 1).wrapping_mul(LINE);
    let active = c.active(r);
    let mut place = begin;
    let mut elements = Vec::new();
    for n in (0..c.row.lanes()).filter(|n| active >> n & 1 != 0) {
        if (place >= boundary) == high {
            elements.push((n, place));
        }
        place = place.wrapping_add(size);
    }
    if !is_canonical(at) {
        let touched = !elements.is_empty();
        return Err(if touched { End::Faults(not_canonical(address)) } else { End::Open });
    }
    if !at.is_multiple_of(size) {
        return Err(End::Faults(GP0));
    }
    Ok(elements)
}

pub(crate) fn unpack(
    c: &Vector,
    e: &mut Environment,
    r: &mut Registers,
    m: &Arena,
    next: u64,
) -> Result<(), End> {
    for (n, at) in elements(c, r, next)? {
        Arena::probe(at, false).map_err(End::Faults)?;
        let raw = m.read(at, memory_size(c.row.element, c.sss));
        let value = up(e, c.row.element, c.sss, raw);
        r.set_lane(c.reg, c.row.element.size(), n, value);
    }
    Ok(())
}

pub(crate) fn pack(
    c: &Vector,
    e: &mut Environment,
    r: &Registers,
    m: &mut Arena,
    next: u64,
) -> Result<(), End> {
    for (n, at) in elements(c, r, next)? {
        Arena::probe(at, true).map_err(End::Faults)?;
        let value = down(e, c.row.element, c.sss, r.lane(c.reg, c.row.element.size(), n));
        m.write(at, memory_size(c.row.element, c.sss), value);
    }
    Ok(())
}
