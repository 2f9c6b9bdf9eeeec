//! 3DNow! by hand: no current processor has it (AMD 21928 and 22466, APM volume 5).

use super::{Machine, Random};

const ONE: u32 = 0x3f80_0000;
const TWO: u32 = 0x4000_0000;
const THREE: u32 = 0x4040_0000;
const LARGEST: u32 = 0x7f7f_ffff;
const SMALLEST: u32 = 0x0080_0000;
const MINUS: u32 = 1 << 31;
const ONES: u32 = u32::MAX;

/// `op MM0, MM1` with [low, high] operands.
fn run(opcode: u8, a: [u32; 2], b: [u32; 2]) -> [u32; 2] {
    let mut machine = Machine::new();
    let pair = |[low, high]: [u32; 2]| u64::from(low) | u64::from(high) << 32;
    machine.cpu.fpu.set_mmx(0, pair(a));
    machine.cpu.fpu.set_mmx(1, pair(b));
    machine.run(&[0x0f, 0x0f, 0xc1, opcode]).expect("no exception");
    assert_eq!(machine.cpu.fpu.mmx(1), pair(b));
    let result = machine.cpu.fpu.mmx(0);
    [result as u32, (result >> 32) as u32]
}

#[test]
fn rows() {
    let rows = [
        // PFADD: 1 + 2; overflow saturates. A denormal operand is zero.
        (0x9e, [ONE, LARGEST], [TWO, LARGEST], [THREE, LARGEST]),
        (0x9e, [1, MINUS | LARGEST], [ONE, MINUS | LARGEST], [ONE, MINUS | LARGEST]),
        // PFSUB, PFSUBR: 1 - 3, 3 - 1.
        (0x9a, [ONE, THREE], [THREE, ONE], [MINUS | TWO, TWO]),
        (0xaa, [ONE, THREE], [THREE, ONE], [TWO, MINUS | TWO]),
        // PFMUL: tiny results are zero.
        (0xb4, [TWO, SMALLEST], [ONE, 0x3f00_0000], [TWO, 0]),
        // PFACC, PFNACC, PFPNACC.
        (0xae, [ONE, TWO], [TWO, TWO], [THREE, 0x4080_0000]),
        (0x8a, [ONE, THREE], [THREE, ONE], [MINUS | TWO, TWO]),
        (0x8e, [ONE, THREE], [ONE, TWO], [MINUS | TWO, THREE]),
        // PFCMPEQ, PFCMPGT, PFCMPGE; zeros are equal whatever their signs.
        (0xb0, [0, ONE], [MINUS, TWO], [ONES, 0]),
        (0xa0, [TWO, ONE], [ONE, ONE], [ONES, 0]),
        (0x90, [ONE, MINUS | ONE], [ONE, ONE], [ONES, 0]),
        // PFMAX, PFMIN: a zero comes out positive.
        (0xa4, [ONE, MINUS | ONE], [TWO, MINUS], [TWO, 0]),
        (0x94, [ONE, MINUS | ONE], [TWO, MINUS], [ONE, MINUS | ONE]),
        (0x94, [ONE, TWO], [MINUS, MINUS | 1], [0, 0]),
        // PI2FD truncates: 2^24 + 1, and -(2^31 - 1).
        (0x0d, [0, 0], [0x0100_0001, 0x8000_0001], [0x4b80_0000, 0xceff_ffff]),
        // PI2FW: the low words.
        (0x0c, [0, 0], [0x7fff_ffff, 0xffff_0003], [MINUS | ONE, THREE]),
        // PF2ID truncates and saturates: -1.5, 2^31; -2^31, -2^40; 2^70.
        (0x1d, [0, 0], [0xbfc0_0000, 0x4f00_0000], [ONES, 0x7fff_ffff]),
        (0x1d, [0, 0], [0xcf00_0000, 0xd380_0000], [0x8000_0000, 0x8000_0000]),
        (0x1d, [0, 0], [0x6280_0000, 0xe280_0000], [0x7fff_ffff, 0x8000_0000]),
        // PF2IW: 32768.0, -32769.0; 2.0, -1.0.
        (0x1c, [0, 0], [0x4700_0000, 0xc700_0100], [0x7fff, 0xffff_8000]),
        (0x1c, [0, 0], [TWO, MINUS | ONE], [2, ONES]),
        // PFRCP, PFRSQRT: powers of two are exact; both halves come from the low single.
        (0x96, [0, 0], [0xc080_0000, 7], [0xbe80_0000, 0xbe80_0000]),
        (0x97, [0, 0], [0x4080_0000, 7], [0x3f00_0000, 0x3f00_0000]),
        (0x97, [0, 0], [0xc080_0000, 7], [0xbf00_0000, 0xbf00_0000]),
        (0x96, [0, 0], [MINUS, 0], [MINUS | LARGEST, MINUS | LARGEST]),
        (0x97, [0, 0], [0, ONE], [LARGEST, LARGEST]),
        // PAVGUSB, PMULHRW, PSWAPD.
        (0xbf, [0x00ff_01fe, 0], [0x01ff_02ff, 0xff], [0x01ff_02ff, 0x80]),
        (0xb7, [0x7fff_8000, 0x0001_0100], [0x7fff_8000, 0x7fff_0080], [0x3fff_4000, 0x0000_0001]),
        (0xbb, [0, 0], [1, 2], [2, 1]),
    ];
    for (opcode, a, b, want) in rows {
        assert_eq!(run(opcode, a, b), want, "{opcode:x} {a:x?} {b:x?}");
    }
}

/// The estimates have 14 and 15 bits; AMD's sequences make a single of them, off by
/// at most one unit in the last place, two for the root.
#[test]
fn reciprocal_sequences() {
    let mut random = Random(5);
    for _ in 0..20_000 {
        let b = random.next() as u32 & 0x007f_ffff | (64 + random.below(128) as u32) << 23;
        let value = f64::from(f32::from_bits(b));
        let relative = |got: u32, want: f64| (f64::from(f32::from_bits(got)) / want - 1.0).abs();

        let units = |got: u32, want: f64| got.abs_diff((want as f32).to_bits());

        let [x0, _] = run(0x96, [0; 2], [b; 2]);
        assert!(relative(x0, 1.0 / value) <= 2f64.powi(-14), "pfrcp {b:x}: {x0:x}");
        let x1 = run(0xa6, [b; 2], [x0; 2]);
        let [x2, high] = run(0xb6, x1, [x0; 2]);
        assert_eq!(x2, high);
        assert!(units(x2, 1.0 / value) <= 1, "1/{b:x}: {x2:x}");

        let want = 1.0 / value.sqrt();
        let [x0, _] = run(0x97, [0; 2], [b; 2]);
        assert!(relative(x0, want) <= 2f64.powi(-15), "pfrsqrt {b:x}: {x0:x}");
        let square = run(0xb4, [x0; 2], [x0; 2]);
        let x1 = run(0xa7, square, [b; 2]);
        let [x2, _] = run(0xb6, x1, [x0; 2]);
        assert!(units(x2, want) <= 2, "1/sqrt({b:x}): {x2:x}");
    }
}
