//! Encodings: all opcodes with all ModRM bytes behind the prefixes that matter, and random ones.

/// A xorshift generator: the same bytes in each run.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() >> 20) as usize % of.len()]
    }
}

/// Prefixes, REX last.
const PREFIXES: [&[u8]; 16] = [
    &[],
    &[0x66],
    &[0xf3],
    &[0xf2],
    &[0x67],
    &[0x66, 0x67],
    &[0xf3, 0x67],
    &[0xf2, 0x66],
    &[0xf0],
    &[0x64],
    &[0x48],
    &[0x66, 0x48],
    &[0xf3, 0x48],
    &[0xf2, 0x48],
    &[0x45],
    &[0xf3, 0x66, 0x67, 0x4f],
];

/// Opcode bytes that ModRM follows, if the instruction has one.
fn opcodes() -> impl Iterator<Item = Vec<u8>> {
    let one_byte = (0..=0xff).filter(|byte| *byte != 0x0f).map(|byte| vec![byte]);
    let two_bytes = (0..=0xff).map(|byte| vec![0x0f, byte]);
    // The VEX encodings of Knights Corner.
    let vex = [0xf2, 0xf3, 0xfa, 0xfb].map(|byte| vec![0xc5, byte, 0xae]);
    let wide = [0x7a, 0x7b, 0xfa, 0xfb].map(|byte| vec![0xc4, 0xe1, byte, 0xae]);
    one_byte.chain(two_bytes).chain(vex).chain(wide)
}

/// Immediates and displacements behind ModRM: small ones, for counts, and others.
const TAILS: [[u8; 8]; 4] = [
    [0x01, 0x01, 0, 0, 0, 0, 0, 0],
    [0x00, 0x00, 0x00, 0x02, 0, 0, 0, 0],
    [0x85, 0x84, 0x83, 0x82, 0x81, 0x80, 0x8f, 0x8e],
    [0x13, 0x09, 0x20, 0x11, 0x0c, 0x16, 0x24, 0x2c],
];

/// Calls `visit` with every combination; if `thinned`, with one in 32 of the operands.
pub(super) fn all(thinned: bool, mut visit: impl FnMut(&[u8])) {
    let mut random = Random::new(0x1234_5678_9abc_def1);
    let mut bytes = Vec::new();
    for opcode in opcodes() {
        for (n, prefixes) in PREFIXES.iter().enumerate() {
            for modrm in 0..=0xff {
                // Behind the rarer prefixes a part of the operands is enough.
                // VEX has few encodings, of which all count.
                let one_in = match n {
                    _ if thinned && opcode.len() < 3 => 32,
                    4.. => 8,
                    _ => 1,
                };
                if !(random.next() >> 20).is_multiple_of(one_in) {
                    continue;
                }
                bytes.clear();
                bytes.extend_from_slice(prefixes);
                bytes.extend_from_slice(&opcode);
                bytes.push(modrm);
                bytes.extend_from_slice(&random.pick(&TAILS));
                visit(&bytes);
            }
        }
    }
    // 3DNow! has its opcode behind the operands.
    for suffix in 0..=0xff {
        for modrm in [0x00, 0x11, 0xca, 0xff] {
            visit(&[0x0f, 0x0f, modrm, suffix, suffix, suffix, suffix, suffix]);
        }
    }
}

/// Calls `visit` with encodings of the vector unit: every opcode of every map, with each prefix and W that it
/// may have, with some operands and all that MVEX says beside them at random.
pub(super) fn of_vector_unit(mut visit: impl FnMut(&[u8])) {
    let mut random = Random::new(0x0bad_cafe_5eed_1234);
    for opcode in 0..=0xff {
        for map in 1..=3u8 {
            for pp in 0..4u8 {
                for wide in [0, 0x80] {
                    for n in 0..64 {
                        let [r, vvvv, last, modrm, sib, ..] = random.next().to_le_bytes();
                        // Many operands in registers, and many with an index, without which there is no
                        // gather; a mask, swizzle or conversion for most; the unused vvvv is all ones.
                        let (modrm, unused) = match n {
                            48.. => (modrm & 0x80 | (n & 7) << 3 | 4, true),
                            _ if n & 1 == 0 => (modrm | 0xc0, n & 2 == 0),
                            _ => (modrm, n & 2 == 0),
                        };
                        let vvvv = if unused { 0x78 } else { vvvv & 0x78 };
                        let last = match n >> 2 & 3 {
                            0 => last & 0x80 | 8,
                            1 => last | 8,
                            2 => last & 7 | 8,
                            _ => last & 0xf7 | if unused { 8 } else { 0 },
                        };
                        let last = if n >= 48 { last & 0x87 | 9 } else { last };
                        let mut bytes = vec![0x62, r & 0xf0 | map, wide | vvvv | pp, last];
                        bytes.extend([opcode, modrm, sib]);
                        bytes.extend(random.pick(&TAILS));
                        visit(&bytes);
                    }
                    for n in 0..32 {
                        let [r, vvvv, modrm, sib, ..] = random.next().to_le_bytes();
                        let vvvv = if n < 16 { 0x78 } else { vvvv & 0x38 | 0x40 };
                        let modrm = if n & 8 == 0 { modrm | 0xc0 } else { modrm & 0xc7 };
                        let modrm = modrm & 0xc7 | (n & 7) << 3;
                        // Map 0 is that of the short jumps by mask; there is no mask register above k7.
                        let map = if opcode & 0xfe == 0x74 { map - 1 } else { map };
                        let high = if n & 3 == 0 { r & 0xe0 } else { 0xe0 };
                        let mut bytes = vec![0xc4, high | map, wide | vvvv | pp];
                        bytes.extend([opcode, modrm, sib]);
                        bytes.extend(random.pick(&TAILS));
                        visit(&bytes);
                    }
                }
            }
        }
    }
}

/// An encoding of random prefixes, opcode, operands and immediate.
pub(super) fn any(random: &mut Random) -> [u8; 15] {
    const LEGACY: [u8; 11] = [0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65];
    let mut bytes = [0; 15];
    for eight in bytes.chunks_mut(8) {
        eight.copy_from_slice(&random.next().to_le_bytes()[..eight.len()]);
    }
    let mut at = 0;
    while random.next() & 0x300 == 0x300 && at < 3 {
        bytes[at] = random.pick(&LEGACY);
        at += 1;
    }
    if random.next() & 0x100 != 0 {
        bytes[at] = 0x40 | bytes[at] & 15;
        at += 1;
    }
    if random.next() & 0x100 != 0 {
        bytes[at] = 0x0f;
    }
    bytes
}
