//! Streams of packed elements.

use super::*;
use crate::stop::Stop;

const LOAD_LOW: (u8, u8) = (0, 0xd0);
const LOAD_HIGH: (u8, u8) = (0, 0xd4);
const STORE_LOW: (u8, u8) = (1, 0xd0);
const STORE_HIGH: (u8, u8) = (1, 0xd4);

/// An instruction on doublewords at RSI and a displacement.
fn code((pp, opcode): (u8, u8), disp: i32) -> Mvex {
    Mvex::new(2, pp, 0, opcode, 1, 0, Rm::At(disp))
}

/// Every place in a line that a stream of doublewords may begin at, with each of many masks: the pair loads
/// what a loop over the lanes does, and stores it. What each half transfers is before or behind the boundary.
#[test]
fn pairs_transfer_a_stream() {
    let mut m = Machine::new();
    m.write_words(DATA, &std::array::from_fn::<u32, 48, _>(|n| 500 + n as u32));
    for start in 0..16 {
        for mask in [0xffffu16, 0x0001, 0x8000, 0x5a5a, 0xfffe, 0] {
            let disp = 4 * start;
            m.cpu.set_mask(1, mask);
            m.set(1, [7; 16]);
            m.mvex(code(LOAD_LOW, disp).masked(1));
            let low = m.counted.2;
            let loads = m.counted.0;
            m.mvex(code(LOAD_HIGH, disp + 64).masked(1));
            let total = u64::from(mask.count_ones());
            let before = total.min(16 - start as u64);
            assert_eq!((low, m.counted.2), (before, total - before), "{start} {mask:x}");
            assert_eq!((loads, m.counted.0), (before.min(1), (total - before).min(1)));
            let mut next = 500 + start as u32;
            let want = std::array::from_fn(|n| {
                if mask >> n & 1 == 0 {
                    return 7;
                }
                next += 1;
                next - 1
            });
            assert_eq!(m.get(1), want, "{start} {mask:x}");
            // And back, to another place, between zeros.
            m.write_words(DATA + 0x400, &[0; 48]);
            m.mvex(code(STORE_LOW, 0x400 + disp).masked(1));
            assert_eq!(m.counted, (0, before.min(1), before));
            m.mvex(code(STORE_HIGH, 0x400 + disp + 64).masked(1));
            let first = start as usize;
            let end = first + total as usize;
            let stored: [u32; 48] = m.words(DATA + 0x400);
            for (n, value) in stored.into_iter().enumerate() {
                let want = if (first..end).contains(&n) { 500 + n as u32 } else { 0 };
                assert_eq!(value, want, "{start} {mask:x} {n}");
            }
        }
    }
}

/// Quadwords, of which a line has eight; unsigned words, which the boundary counts as two bytes each.
#[test]
fn other_elements() {
    let mut m = Machine::new();
    m.write_words(DATA, &std::array::from_fn::<u32, 32, _>(|n| n as u32));
    // vloadunpacklq zmm1, [rsi + 48]: two elements before the boundary.
    m.mvex(Mvex::new(2, 0, 1, 0xd0, 1, 0, Rm::At(48)));
    assert_eq!((m.get(1)[..5].to_vec(), m.counted), (vec![12, 13, 14, 15, 0], (1, 0, 2)));
    m.mvex(Mvex::new(2, 0, 1, 0xd4, 1, 0, Rm::At(48 + 64)));
    assert_eq!(m.get(1), std::array::from_fn(|n| 12 + n as u32));
    // vloadunpackld zmm2, [rsi + 60]{uint16}: two elements of two bytes.
    m.mvex(Mvex::new(2, 0, 0, 0xd0, 2, 0, Rm::At(60)).with(6));
    assert_eq!((m.get(2)[..3].to_vec(), m.counted.2), (vec![15, 0, 0], 2));
    m.mvex(Mvex::new(2, 0, 0, 0xd4, 2, 0, Rm::At(60 + 64)).with(6));
    assert_eq!((m.get(2)[2..5].to_vec(), m.counted.2), (vec![16, 0, 17], 14));
}

/// Elements have to be aligned, not more; nothing is accessed that is not transferred.
#[test]
fn alignment_and_absent_lines() {
    let mut m = Machine::new();
    assert_eq!(m.run(&code(LOAD_LOW, 2).bytes()), Err(Stop::GP0));
    assert_eq!(m.run(&code(STORE_HIGH, 66).bytes()), Err(Stop::GP0));
    assert_eq!(m.run(&Mvex::new(2, 0, 1, 0xd0, 1, 0, Rm::At(4)).bytes()), Err(Stop::GP0));
    // Bytes may be anywhere.
    m.mvex(code(LOAD_LOW, 3).with(4));
    // The high form of an aligned address, and of what the low form has transferred: not canonical, and not
    // accessed.
    m.cpu.set_gpr(gpr::RSI, 1 << 62);
    m.mvex(code(LOAD_HIGH, 64));
    m.cpu.set_mask(1, 1);
    m.mvex(code(STORE_HIGH, 64 + 60).masked(1));
    assert_eq!(m.counted, (0, 0, 0));
    assert_eq!(m.run(&code(LOAD_LOW, 0).bytes()), Err(Stop::GP0));
}
