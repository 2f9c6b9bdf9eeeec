//! What happens to elements between memory and a register: conversions up and down, and swizzles.

use crate::{
    arithmetic::to_integer,
    catalogue::{Element, Row, Span},
    exact::Sum,
    float::{Environment, F16, F32, Format},
};

/// Bytes of an element in memory.
pub(crate) fn memory_size(element: Element, sss: u8) -> usize {
    match sss {
        0..=2 => element.size(),
        3 | 6 | 7 => 2,
        _ => 1,
    }
}

/// How many elements are in memory.
pub(crate) fn memory_count(row: &Row, sss: u8) -> usize {
    let lanes = 64 / row.element.size();
    match (row.span, sss) {
        (Span::One, _) | (_, 1) => 1,
        (Span::Quad, _) | (_, 2) => 4,
        (Span::Half, _) => lanes / 2,
        (Span::Full, _) => lanes,
        (Span::Line, _) => 64 / memory_size(row.element, sss),
    }
}

/// Bytes that the operand spans in memory, of which disp8 is a multiple.
pub(crate) fn memory_span(row: &Row, sss: u8) -> usize {
    memory_count(row, sss) * memory_size(row.element, sss)
}

/// An element of memory as a lane. Integers fit a binary32 number.
pub(crate) fn up(e: &mut Environment, element: Element, sss: u8, raw: u64) -> u64 {
    let signed = match sss {
        5 => i64::from(raw as i8),
        7 => i64::from(raw as i16),
        _ => raw as i64,
    };
    match (element, sss) {
        (_, 0..=2) => raw,
        (Element::F32, 3) => from_half(e, raw),
        (Element::F32, _) => crate::arithmetic::integer(&mut e.clone(), F32, signed, 0),
        _ => signed as u64 & 0xffff_ffff,
    }
}

/// binary16 to binary32: exact, denormals too.
fn from_half(e: &mut Environment, raw: u64) -> u64 {
    let sign = F32.zero(F16.negative(raw));
    if F16.is_nan(raw) {
        let quiet = e.quieted(F16, raw);
        return (quiet & (F16.hidden() - 1)) << 13 | F32.infinity() | sign;
    }
    if F16.is_infinite(raw) {
        return F32.infinity() | sign;
    }
    e.clone().rounded(F32, &Sum::of(&[F16.value(raw)]), sign)
}

/// A lane as an element of memory.
pub(crate) fn down(e: &mut Environment, element: Element, sss: u8, lane: u64) -> u64 {
    let range = match sss {
        4 => [0, 0xff],
        5 => [-0x80, 0x7f],
        6 => [0, 0xffff],
        _ => [-0x8000, 0x7fff],
    };
    match (element, sss) {
        (_, 0) => lane,
        (Element::F32, 3) => to_half(e, lane),
        (Element::F32, _) => to_integer(e, F32, lane, 0, range) as u64,
        // Unsigned elements are the low bits.
        (_, 4 | 6) => lane,
        _ => i64::from(lane as i32).clamp(range[0], range[1]) as u64,
    }
}

/// binary32 to binary16. Denormal results are kept.
fn to_half(e: &mut Environment, x: u64) -> u64 {
    let sign = F16.zero(F32.negative(x));
    if F32.is_nan(x) {
        let quiet = e.quieted(F32, x);
        return quiet >> 13 & (F16.hidden() - 1) | F16.infinity() | sign;
    }
    let x = e.operand(F32, x);
    e.note_denormals(F32, &[x]);
    if F32.is_infinite(x) {
        return F16.infinity() | sign;
    }
    let mut keeping = Environment { fz: false, ..*e };
    let result = keeping.rounded(F16, &Sum::of(&[F32.value(x)]), sign);
    e.flags |= keeping.flags;
    result
}

/// Which lane of a group of four the swizzle takes for each, from the lowest lane up.
const SWIZZLES: [[usize; 4]; 8] = [
    [0, 1, 2, 3], // dcba
    [1, 0, 3, 2], // cdab
    [2, 3, 0, 1], // badc
    [1, 2, 0, 3], // dacb
    [0, 0, 0, 0], // aaaa
    [1, 1, 1, 1], // bbbb
    [2, 2, 2, 2], // cccc
    [3, 3, 3, 3], // dddd
];

/// The lane that comes to place `n`.
pub(crate) fn swizzled(sss: u8, n: usize) -> usize {
    n / 4 * 4 + SWIZZLES[usize::from(sss)][n % 4]
}

/// The format of lanes of so many bytes.
pub(crate) fn format(size: usize) -> Format {
    if size == 4 { F32 } else { crate::float::F64 }
}
