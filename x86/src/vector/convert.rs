//! Up-conversion: elements in memory to elements in a register; and down-conversion, the other way.
//!
//! Codes 3 to 7 of SSS stand for binary16, unsigned and signed bytes, unsigned and signed words; the others
//! for elements as they are. Integers widen exactly, to single precision as well, and so does binary16, with
//! its denormals whatever VXCSR.DAZ says. The other way a single becomes an integer by VXCSR's rounding,
//! saturated, NaNs as zero; or binary16, infinity where that overflows, with denormal results whatever
//! VXCSR.FZ says. A 32-bit integer is cut to an unsigned one and saturated to a signed one (the compiler's
//! intrinsics guide, "_mm512_extstore_epi32"; its header words it differently).

use super::element::Element;
use crate::softfloat::{Context, f16_to_f32, f32_to_f16, f32_to_fixed};

/// Bytes of an element in memory.
pub(super) const fn stored_bytes(element: Element, code: u8) -> usize {
    match code {
        3 | 6 | 7 => 2,
        4 | 5 => 1,
        _ => element.bytes(),
    }
}

/// The element that stands in memory as `stored`.
pub(super) fn up(element: Element, code: u8, stored: u64, cx: &mut Context) -> u64 {
    let integer = match code {
        3 => return u64::from(f16_to_f32(stored as u16, cx)),
        4 => i32::from(stored as u8),
        5 => i32::from(stored as i8),
        6 => i32::from(stored as u16),
        7 => i32::from(stored as i16),
        _ => return stored,
    };
    match element {
        // Exact: 16 bits at most.
        Element::Float => u64::from((integer as f32).to_bits()),
        _ => u64::from(integer as u32),
    }
}

/// What goes to memory for an element: its low bytes.
pub(super) fn down(element: Element, code: u8, value: u64, cx: &mut Context) -> u64 {
    let saturated = |value: i32, min: i32, max: i32| value.clamp(min, max) as u64;
    match (element, code) {
        (Element::Float, 3) => u64::from(f32_to_f16(value as u32, cx)),
        (Element::Float, 4..) => {
            let range = match code {
                4 => 0..=i64::from(u8::MAX),
                5 => i64::from(i8::MIN)..=i64::from(i8::MAX),
                6 => 0..=i64::from(u16::MAX),
                _ => i64::from(i16::MIN)..=i64::from(i16::MAX),
            };
            f32_to_fixed(value as u32, 0, cx.rounding, range, cx) as u64
        }
        (Element::Integer, 5) => saturated(value as i32, i8::MIN.into(), i8::MAX.into()),
        (Element::Integer, 7) => saturated(value as i32, i16::MIN.into(), i16::MAX.into()),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_of(element: Element, code: u8, stored: u64) -> u32 {
        up(element, code, stored, &mut Context::default()) as u32
    }

    fn down_of(code: u8, value: f32) -> u64 {
        let bits = u64::from(value.to_bits());
        down(Element::Float, code, bits, &mut Context::default()) & 0xffff
    }

    #[test]
    fn up_conversion_by_hand() {
        assert_eq!(up_of(Element::Float, 0, 0x1234_5678), 0x1234_5678);
        assert_eq!(up_of(Element::Float, 3, 0xc000), (-2f32).to_bits());
        assert_eq!(up_of(Element::Float, 4, 0xff), 255f32.to_bits());
        assert_eq!(up_of(Element::Float, 5, 0xff), (-1f32).to_bits());
        assert_eq!(up_of(Element::Float, 6, 0x8000), 32768f32.to_bits());
        assert_eq!(up_of(Element::Float, 7, 0x8000), (-32768f32).to_bits());
        assert_eq!(up_of(Element::Integer, 4, 0x80), 0x80);
        assert_eq!(up_of(Element::Integer, 5, 0x80), 0xffff_ff80);
        assert_eq!(up_of(Element::Integer, 6, 0xfffe), 0xfffe);
        assert_eq!(up_of(Element::Integer, 7, 0xfffe), 0xffff_fffe);
        let wide = 0x1234_5678_9abc_def0;
        assert_eq!(up(Element::Quadword, 0, wide, &mut Context::default()), wide);
    }

    #[test]
    fn down_conversion_by_hand() {
        assert_eq!(down_of(3, -2.0), 0xc000);
        assert_eq!(down_of(4, 2.5), 2);
        assert_eq!(down_of(4, -3.0), 0);
        assert_eq!(down_of(4, 300.0), 255);
        assert_eq!(down_of(5, 300.0), 127);
        assert_eq!(down_of(5, -300.0) & 0xff, 0x80);
        assert_eq!(down_of(6, 70000.0), 65535);
        assert_eq!(down_of(7, -70000.0), 0x8000);
        assert_eq!(down_of(7, f32::NAN), 0);
        let integer = |code, value: i32| {
            down(Element::Integer, code, value as u32 as u64, &mut Context::default())
        };
        // Unsigned ones are cut, signed ones saturated.
        assert_eq!(integer(4, 0x1ff) & 0xff, 0xff);
        assert_eq!(integer(4, -2) & 0xff, 0xfe);
        assert_eq!(integer(5, 0x1ff) & 0xff, 0x7f);
        assert_eq!(integer(6, 0x1_2345) & 0xffff, 0x2345);
        assert_eq!(integer(7, -40000) & 0xffff, 0x8000);
    }
}
