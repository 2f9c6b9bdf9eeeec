//! What the manuals leave undefined and yet is known of AMD's and of Intel's processors: an answer
//! of each, on every host.

use x86_cpu::features::{DoubleShift, Features};

use crate::{
    Random,
    generate::Generator,
    host::Vendor,
    open::{Open, open},
    soft::Soft,
    state::Case,
};

/// The K8 with the undefined answers of Intel's processors.
const LIKE_INTEL: Features = Features { double_shift: DoubleShift::Destination, ..Features::K8 };

/// A shift of AX by CL, with DX.
struct Answer {
    bytes: &'static [u8],
    ax: u16,
    dx: u16,
    cl: u8,
    amd: u16,
    intel: u16,
}

/// "If a count is greater than the operand size, the result is undefined" (Intel SDM volume 2, "SHLD"
/// and "SHRD"). AMD's answers are of an EPYC 9004. Intel's processors shift DEST:SRC:DEST, which is
/// what QEMU and Bochs do after them (QEMU, `target/i386/tcg`, the shifts of SHLD and SHRD; Bochs,
/// `cpu/shift16.cc`).
const ANSWERS: &[Answer] = &[
    // SHLD AX, DX, CL: the top word of 8123_4567_xxxx, 20 bits to the left.
    Answer { bytes: &SHLD, ax: 0x8123, dx: 0x4567, cl: 20, amd: 0x5674, intel: 0x5678 },
    // SHRD AX, DX, CL: the bottom word of xxxx_4567_8123, 20 bits to the right.
    Answer { bytes: &SHRD, ax: 0x8123, dx: 0x4567, cl: 20, amd: 0x7456, intel: 0x3456 },
    // By 16 it is the source, on processors of either vendor.
    Answer { bytes: &SHLD, ax: 0x8123, dx: 0x4567, cl: 16, amd: 0x4567, intel: 0x4567 },
    Answer { bytes: &SHRD, ax: 0x8123, dx: 0x4567, cl: 16, amd: 0x4567, intel: 0x4567 },
    Answer { bytes: &SHLD, ax: 0x8123, dx: 0x4567, cl: 31, amd: 0xa2b3, intel: 0xc091 },
    Answer { bytes: &SHRD, ax: 0x8123, dx: 0x4567, cl: 31, amd: 0x8ace, intel: 0x0246 },
];

const SHLD: [u8; 4] = [0x66, 0x0f, 0xa5, 0xd0];
const SHRD: [u8; 4] = [0x66, 0x0f, 0xad, 0xd0];

#[test]
fn the_answers_of_both_vendors() {
    for (features, intel) in [(Features::K8, false), (LIKE_INTEL, true)] {
        let mut soft = Soft::new(features);
        for answer in ANSWERS {
            let mut regs = [0; 17];
            (regs[0], regs[1], regs[2]) =
                (u64::from(answer.ax), u64::from(answer.cl), u64::from(answer.dx));
            let outcome = soft.run(&Case::of(answer.bytes, regs));
            let want = if intel { answer.intel } else { answer.amd };
            assert_eq!(
                (outcome.fault, outcome.regs[0]),
                (0, u64::from(want)),
                "{:02x?} by {}, Intel {intel}",
                answer.bytes,
                answer.cl
            );
        }
    }
}

/// With the undefined answers of the other vendor nothing else changes, and what changes is not
/// compared with that vendor's processors: so the comparison holds on a host of either.
#[test]
fn the_vendors_differ_in_what_is_open_alone() {
    let mut random = Random(2);
    let generator = Generator::new();
    let (mut amd, mut intel) = (Soft::new(Features::K8), Soft::new(LIKE_INTEL));
    let mut differences = 0;
    for _ in 0..50_000 {
        let Some(case) = Case::random(&mut random, &generator) else { continue };
        let (a, b) = (amd.run(&case), intel.run(&case));
        assert_eq!(case.compare(&a, &b, open(&case, Vendor::Intel)), None);
        assert_eq!(case.compare(&a, &b, open(&case, Vendor::Other)), None);
        differences += u32::from(case.compare(&a, &b, Open::Flags(0)).is_some());
    }
    // SHLD and SHRD are 8 of some 1,000 encodings, and every second count is above 16.
    assert!(differences > 5, "{differences}");
}
