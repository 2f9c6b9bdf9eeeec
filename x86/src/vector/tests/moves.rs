//! Loads, stores, broadcasts and blends; conversions and masks on the way.

use super::*;

/// Sixteen singles from each form that they may have in memory.
#[test]
fn loads_convert() {
    let mut m = Machine::new();
    let (load_ps, load_d) = ((1, 0, 0x28), (1, 1, 0x6f));
    let bytes: Vec<u8> = (0..64_u8).map(|n| n.wrapping_mul(5).wrapping_add(0x70)).collect();
    m.write(DATA, &bytes);
    let half = |n: usize| u16::from_le_bytes([bytes[2 * n], bytes[2 * n + 1]]);
    let integer = |code, n: usize| match code {
        4 => i32::from(bytes[n]),
        5 => i32::from(bytes[n] as i8),
        6 => i32::from(half(n)),
        _ => i32::from(half(n) as i16),
    };
    for code in 4..8 {
        let (map, pp, opcode) = load_d;
        m.mvex(Mvex::new(map, pp, 0, opcode, 1, 0, Rm::At(0)).with(code));
        assert_eq!(m.get(1), std::array::from_fn(|n| integer(code, n) as u32), "{code}");
        assert_eq!(m.counted, (1, 0, 16));
        let (map, pp, opcode) = load_ps;
        m.mvex(Mvex::new(map, pp, 0, opcode, 1, 0, Rm::At(0)).with(code));
        assert_eq!(m.singles(1), std::array::from_fn(|n| integer(code, n) as f32), "{code}");
    }
    // binary16: 1, -2, the smallest denormal, infinity.
    m.write(DATA, &[0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0x00, 0x7c]);
    m.mvex(Mvex::new(1, 0, 0, 0x28, 1, 0, Rm::At(0)).with(3));
    assert_eq!(m.singles(1)[..4], [1.0, -2.0, 2f32.powi(-24), f32::INFINITY]);
}

/// An operand of arithmetic may be broadcast from one element or four.
#[test]
fn operands_are_broadcast() {
    let mut m = Machine::new();
    m.write_words(DATA, &counted());
    let add = Mvex::new(1, 1, 0, 0xfe, 1, 2, Rm::At(4));
    m.mvex(add.with(1));
    assert_eq!((m.get(1), m.counted), ([1; 16], (1, 0, 16)));
    let add = Mvex::new(1, 1, 0, 0xfe, 1, 2, Rm::At(16));
    m.mvex(add.with(2));
    assert_eq!(m.get(1), std::array::from_fn(|n| 4 + n as u32 % 4));
    // {4to8} of quadwords.
    m.mvex(Mvex::new(1, 1, 1, 0xeb, 1, 2, Rm::At(32)).with(2));
    assert_eq!(m.get(1), std::array::from_fn(|n| 8 + n as u32 % 8));
}

/// VBROADCASTSS, SD, F32X4, F64X4 and the integer ones, with a conversion.
#[test]
fn broadcasts() {
    let mut m = Machine::new();
    m.write_words(DATA, &counted());
    let rows: [(u8, u8, usize); 8] = [
        (0, 0x18, 1),
        (1, 0x19, 2),
        (0, 0x1a, 4),
        (1, 0x1b, 8),
        (0, 0x58, 1),
        (1, 0x59, 2),
        (0, 0x5a, 4),
        (1, 0x5b, 8),
    ];
    for (w, opcode, period) in rows {
        m.mvex(Mvex::new(2, 1, w, opcode, 1, 0, Rm::At(32)));
        assert_eq!(m.get(1), std::array::from_fn(|n| 8 + (n % period) as u32), "{opcode:x}");
    }
    // vbroadcasti32x4 of four unsigned bytes.
    m.write(DATA + 4, &[0xfc, 0xfd, 0xfe, 0xff]);
    m.mvex(Mvex::new(2, 1, 0, 0x5a, 1, 0, Rm::At(4)).with(4));
    assert_eq!(m.get(1), std::array::from_fn(|n| 0xfc + n as u32 % 4));
}

/// Bytes of lanes that are not active stay; and a line is written once.
#[test]
fn stores_are_masked_and_convert() {
    let mut m = Machine::new();
    m.write(DATA, &[0xee; 64]);
    m.set(3, counted());
    m.cpu.set_mask(1, 0x8002);
    m.mvex(Mvex::new(1, 1, 0, 0x7f, 3, 0, Rm::At(0)).masked(1));
    let mut want = [0xeeee_eeee; 16];
    (want[1], want[15]) = (1, 15);
    assert_eq!((m.words::<16>(DATA), m.counted), (want, (0, 1, 2)));
    // Singles to signed words, rounded to nearest; to unsigned bytes, saturated.
    m.set_singles(3, std::array::from_fn(|n| n as f32 * 100.0 - 400.5));
    m.mvex(Mvex::new(1, 0, 0, 0x29, 3, 0, Rm::At(0)).with(7));
    let words: [u8; 32] = m.read(DATA);
    let at = |n: usize| i16::from_le_bytes([words[2 * n], words[2 * n + 1]]);
    // Ties go to the even one.
    assert_eq!([at(0), at(1), at(15)], [-400, -300, 1100]);
    m.mvex(Mvex::new(1, 0, 0, 0x29, 3, 0, Rm::At(0)).with(4));
    assert_eq!(m.read::<7>(DATA), [0, 0, 0, 0, 0, 100, 200]);
    // VMOVNRAPS and VMOVNRNGOAPD.
    m.mvex(Mvex::new(1, 3, 0, 0x29, 3, 0, Rm::At(64)));
    assert_eq!(m.words::<16>(DATA + 64), m.get(3));
    m.mvex(Mvex { e: true, ..Mvex::new(1, 2, 1, 0x29, 3, 0, Rm::At(128)) });
    assert_eq!(m.words::<16>(DATA + 128), m.get(3));
}

/// A mask chooses the last operand, its absence too.
#[test]
fn blends() {
    let mut m = Machine::new();
    m.set(2, [2; 16]);
    m.set(3, [3; 16]);
    m.cpu.set_mask(1, 0x00f1);
    m.mvex(Mvex::new(2, 1, 0, 0x64, 1, 2, Rm::Zmm(3)).masked(1));
    let chosen = |n: usize| if 0x00f1 >> n & 1 != 0 { 3 } else { 2 };
    assert_eq!((m.get(1), m.counted), (std::array::from_fn(chosen), (0, 0, 5)));
    m.mvex(Mvex::new(2, 1, 1, 0x65, 1, 2, Rm::Zmm(3)).masked(1));
    assert_eq!(m.get(1), std::array::from_fn(|n| chosen(n / 2)));
    m.mvex(Mvex::new(2, 1, 0, 0x65, 1, 2, Rm::Zmm(3)));
    assert_eq!(m.get(1), [3; 16]);
}

/// Registers 16 to 31, and a swizzle.
#[test]
fn high_registers_and_swizzles() {
    let mut m = Machine::new();
    m.set(30, counted());
    m.mvex(Mvex::new(1, 1, 0, 0x6f, 25, 0, Rm::Zmm(30)).with(1));
    assert_eq!(m.get(25), std::array::from_fn(|n| n as u32 ^ 1));
}
