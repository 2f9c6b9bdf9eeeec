//! Swizzles: what a register operand may be shuffled by on its way, within each group of four elements.

use super::{
    element::Element,
    state::{Zmm, of_quadwords, quadword},
};

/// Which element of its group each element comes from, by SSS, the lowest first. Named as the manual does,
/// from the highest down: DCBA (as it is), CDAB, BADC, DACB, AAAA, BBBB, CCCC, DDDD.
const SOURCES: [[usize; 4]; 8] = [
    [0, 1, 2, 3],
    [1, 0, 3, 2],
    [2, 3, 0, 1],
    [1, 2, 0, 3],
    [0, 0, 0, 0],
    [1, 1, 1, 1],
    [2, 2, 2, 2],
    [3, 3, 3, 3],
];

/// `value` swizzled by an SSS code. A group is four elements, of 128 or of 256 bits.
pub(super) fn swizzled(value: &Zmm, element: Element, code: u8) -> Zmm {
    let from = |n: usize| n & !3 | SOURCES[usize::from(code & 7)][n & 3];
    match element {
        _ if code == 0 => *value,
        Element::Quadword => of_quadwords(std::array::from_fn(|n| quadword(value, from(n)))),
        _ => std::array::from_fn(|n| value[from(n)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, spelled from the highest element down, against the codes.
    #[test]
    fn codes_are_their_names() {
        let names = ["dcba", "cdab", "badc", "dacb", "aaaa", "bbbb", "cccc", "dddd"];
        let value: Zmm = std::array::from_fn(|n| n as u32);
        for (code, name) in names.iter().enumerate() {
            let places: Vec<u32> =
                name.bytes().rev().map(|letter| u32::from(letter - b'a')).collect();
            let result = swizzled(&value, Element::Float, code as u8);
            for (n, &element) in result.iter().enumerate() {
                assert_eq!(element, (n as u32 & !3) + places[n & 3], "{name} {n}");
            }
            let wide = swizzled(&value, Element::Quadword, code as u8);
            for n in 0..8 {
                let from = (n as u32 & 4) + places[n & 3];
                assert_eq!(wide[2 * n..2 * n + 2], [2 * from, 2 * from + 1], "{name} {n}");
            }
        }
    }
}
