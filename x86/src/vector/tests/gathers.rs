//! Gathers, scatters and their prefetches.

use super::*;
use crate::stop::Stop;

const GATHER_D: (u8, u8) = (0, 0x90);
const GATHER_Q: (u8, u8) = (1, 0x90);
const SCATTER_D: (u8, u8) = (0, 0xa0);

/// `op zmm1{k1}, [rsi + zmm5 * 4]`, or the same of a scatter.
fn code((w, opcode): (u8, u8)) -> Mvex {
    Mvex::new(2, 1, w, opcode, 1, 0, Rm::Vsib(5, 2)).masked(1)
}

/// Elements 0, 3 and 15 are in one line, 1 and 2 in others. Each execution takes a line, the lowest lane's.
#[test]
fn an_execution_is_a_line() {
    let mut m = Machine::new();
    for n in 0..256 {
        m.write_words(DATA + 4 * n, &[1000 + n as u32]);
    }
    let mut indices = [0; 16];
    (indices[0], indices[1], indices[2], indices[3], indices[15]) = (2, 40, 100, 15, 0);
    m.set(5, indices);
    m.set(1, [7; 16]);
    m.cpu.set_mask(1, 0x800f);
    m.mvex(code(GATHER_D));
    let mut want = [7; 16];
    (want[0], want[3], want[15]) = (1002, 1015, 1000);
    assert_eq!((m.get(1), m.cpu.mask(1), m.counted), (want, 0x0006, (1, 0, 3)));
    m.mvex(code(GATHER_D));
    want[1] = 1040;
    assert_eq!((m.get(1), m.cpu.mask(1), m.counted), (want, 0x0004, (1, 0, 1)));
    m.mvex(code(GATHER_D));
    want[2] = 1100;
    assert_eq!((m.get(1), m.cpu.mask(1), m.counted), (want, 0, (1, 0, 1)));
    // Nothing is left to do.
    m.mvex(code(GATHER_D));
    assert_eq!((m.get(1), m.cpu.mask(1), m.counted), (want, 0, (0, 0, 0)));
}

/// Indices are signed. Quadwords look at eight bits of the mask, and clear the others.
#[test]
fn quadwords_and_negative_indices() {
    let mut m = Machine::new();
    m.write_words(DATA - 64, &counted());
    // -16 * 4 and -14 * 4 bytes.
    let mut indices = [99; 16];
    (indices[0], indices[7]) = (-16i32 as u32, -14i32 as u32);
    m.set(5, indices);
    m.cpu.set_mask(1, 0xff81);
    m.mvex(code(GATHER_Q));
    let mut want = [0; 16];
    (want[0], want[1], want[14], want[15]) = (0, 1, 2, 3);
    assert_eq!((m.get(1), m.cpu.mask(1), m.counted), (want, 0, (1, 0, 2)));
}

/// Signed bytes widen, and signed words are saturated on their way out.
#[test]
fn conversions() {
    let mut m = Machine::new();
    m.write(DATA, &[0xff, 0x80, 0x7f, 0x01]);
    m.set(5, counted());
    m.cpu.set_mask(1, 0x000f);
    let bytes = Mvex::new(2, 1, 0, 0x90, 1, 0, Rm::Vsib(5, 0)).masked(1);
    m.mvex(bytes.with(5));
    assert_eq!(m.get(1)[..4], [u32::MAX, -128i32 as u32, 127, 1]);
    m.set(1, [100_000; 16]);
    m.cpu.set_mask(1, 0x0002);
    m.mvex(Mvex::new(2, 1, 0, 0xa0, 1, 0, Rm::Vsib(5, 1)).masked(1).with(7));
    assert_eq!(m.read::<4>(DATA), [0xff, 0x80, 0xff, 0x7f]);
}

/// The highest of several lanes with one address is in memory in the end.
#[test]
fn the_last_lane_of_a_scatter_wins() {
    let mut m = Machine::new();
    m.set(1, counted());
    let mut indices = [0; 16];
    indices[4] = 1;
    m.set(5, indices);
    m.cpu.set_mask(1, 0xffff);
    m.mvex(code(SCATTER_D));
    assert_eq!((m.words::<3>(DATA), m.cpu.mask(1), m.counted), ([15, 4, 0], 0, (0, 1, 16)));
}

/// What is done before a fault stays done: its bit is clear, and the instruction goes on behind it.
#[test]
fn a_fault_leaves_what_is_done() {
    let mut m = Machine::new();
    m.write_words(DATA, &[11, 22, 33]);
    // Bytes 0, 4, and 6, which is off a multiple of four.
    let mut indices = [0; 16];
    (indices[1], indices[2]) = (4, 6);
    m.set(5, indices);
    m.cpu.set_mask(1, 0x0007);
    let bytes = Mvex::new(2, 1, 0, 0x90, 1, 0, Rm::Vsib(5, 0)).masked(1);
    assert_eq!(m.run(&bytes.bytes()), Err(Stop::GP0));
    assert_eq!((m.get(1)[..3].to_vec(), m.cpu.mask(1)), (vec![11, 22, 0], 0x0004));
    assert_eq!(m.counted, (0, 0, 0));
}

/// Prefetches clear bits as the access would, but not the hints; they never fault. Group C6h: /0 and /4 the
/// hints, /1 and /5 those for the first level, /2 and /6 for the second.
#[test]
fn prefetches() {
    let mut m = Machine::new();
    let mut indices = [0; 16];
    indices[1] = 0x7fff_ffff;
    m.set(5, indices);
    for (reg, clears) in [(0, false), (1, true), (2, true), (4, false), (5, true), (6, true)] {
        m.cpu.set_mask(1, 0x0005);
        m.mvex(Mvex::new(2, 1, 0, 0xc6, reg, 0, Rm::Vsib(5, 0)).masked(1));
        let left = if clears { 0 } else { 0x0005 };
        assert_eq!((m.cpu.mask(1), m.counted), (left, (0, 0, 2)), "{reg}");
        m.cpu.set_mask(1, 0x0002);
        m.mvex(Mvex::new(2, 1, 0, 0xc6, reg, 0, Rm::Vsib(5, 3)).masked(1));
    }
}
