//! Gathers, scatters and their prefetches: memory at a vector of addresses.
//!
//! One execution takes the elements that share a cache line with the lowest active one, from the lowest
//! lane up, and clears their bits in the mask.

use crate::{
    case::{Address, End, Operand, Vector},
    catalogue::What,
    float::Environment,
    reference::{is_canonical, not_canonical},
    state::{Arena, GP0, Registers},
    transfer::{down, memory_size, up},
};

const LINE: u64 = 64;

fn address(c: &Vector) -> (&Address, u8) {
    let Operand::Memory(address) = &c.operand else {
        panic!("a register as a vector of addresses")
    };
    (address, address.index.expect("a vector of indices"))
}

/// The lanes of one execution, with their addresses.
fn elements(c: &Vector, r: &Registers, next: u64) -> Vec<(usize, u64)> {
    let (address, index) = address(c);
    let active = c.active(r);
    let place = |n: usize| {
        let index = i64::from(r.lane(index, 4, n) as i32) as u64;
        (n, address.linear(r, next, index))
    };
    let all: Vec<_> = (0..c.row.lanes()).filter(|n| active >> n & 1 != 0).map(place).collect();
    let first = all.first().map(|&(_, at)| at / LINE);
    all.into_iter().filter(|&(_, at)| Some(at / LINE) == first).collect()
}

/// Checks an element's address.
fn check(c: &Vector, at: u64, write: bool) -> Result<(), End> {
    if !is_canonical(at) {
        return Err(End::Faults(not_canonical(address(c).0)));
    }
    if !at.is_multiple_of(memory_size(c.row.element, c.sss) as u64) {
        return Err(End::Faults(GP0));
    }
    Arena::probe(at, write).map_err(End::Faults)
}

/// An element is finished.
fn finish(c: &Vector, r: &mut Registers, n: usize) {
    r.k[usize::from(c.aaa)] &= !(1 << n);
}

/// The instruction has ended without a fault: bits without a lane are clear.
fn end(c: &Vector, r: &mut Registers) {
    if c.row.lanes() == 8 {
        r.k[usize::from(c.aaa)] &= 0xff;
    }
}

pub(crate) fn gather(
    c: &Vector,
    e: &mut Environment,
    r: &mut Registers,
    m: &Arena,
    next: u64,
) -> Result<(), End> {
    for (n, at) in elements(c, r, next) {
        check(c, at, false)?;
        let raw = m.read(at, memory_size(c.row.element, c.sss));
        let value = up(e, c.row.element, c.sss, raw);
        r.set_lane(c.reg, c.row.element.size(), n, value);
        finish(c, r, n);
    }
    end(c, r);
    Ok(())
}

pub(crate) fn scatter(
    c: &Vector,
    e: &mut Environment,
    r: &mut Registers,
    m: &mut Arena,
    next: u64,
) -> Result<(), End> {
    for (n, at) in elements(c, r, next) {
        check(c, at, true)?;
        let value = down(e, c.row.element, c.sss, r.lane(c.reg, c.row.element.size(), n));
        m.write(at, memory_size(c.row.element, c.sss), value);
        finish(c, r, n);
    }
    end(c, r);
    Ok(())
}

/// Changes nothing but the mask, and never faults.
pub(crate) fn prefetch(c: &Vector, r: &mut Registers, next: u64) -> Result<(), End> {
    if matches!(c.row.what, What::IndexedPrefetch { clears: true }) {
        for (n, _) in elements(c, r, next) {
            finish(c, r, n);
        }
        end(c, r);
    }
    Ok(())
}
