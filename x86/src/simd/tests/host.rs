//! Every instruction the host has too, against the host: the very bytes that the host executes are
//! decoded, lowered and executed here, on the same random state.

use super::{DATA, Machine, Random, host_rows::ROWS};
use crate::{host::has_sse3, insn::gpr};

/// What an instruction of the rows may read and write: XMM0, XMM1, 64 bytes of memory at RSI and
/// RDI, MM0, MM1, RAX, RDX, MXCSR; and the arithmetic flags as an output.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) xmm: [u128; 2],
    pub(super) memory: [u128; 4],
    pub(super) mm: [u64; 2],
    pub(super) rax: u64,
    pub(super) rdx: u64,
    pub(super) mxcsr: u64,
    pub(super) flags: u64,
    /// First byte of the instruction and the one behind it, in the host's memory.
    pub(super) code: [u64; 2],
}

/// An instruction as text, and the host function that executes it.
pub(super) type Row = (&'static str, fn(&mut State));

/// What the first processors with AMD64 lack.
const SSE3: [&str; 7] = ["addsub", "hadd", "hsub", "lddqu", "movddup", "movshdup", "movsldup"];

/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u64 = 0x8d5;

fn random_state(random: &mut Random) -> State {
    let mut wide = || u128::from(random.operand()) | u128::from(random.operand()) << 64;
    let mut state = State {
        xmm: [wide(), wide()],
        memory: [wide(), wide(), wide(), wide()],
        ..State::default()
    };
    if random.below(4) == 0 {
        // Equal and nearly equal operands, and shift counts.
        state.xmm[1] = state.xmm[0] ^ u128::from(random.below(2));
        state.memory[0] = state.xmm[0];
    }
    state.mm = [random.operand(), random.operand()];
    state.rax = random.next();
    state.rdx = random.operand();
    // All masked; every rounding, DAZ and FTZ; flags at random, most often as after real work.
    state.mxcsr = match random.below(3) {
        0 => 0x1fa0,
        1 => 0x1f80,
        _ => 0x1f80 | random.next() & 0xe07f,
    };
    state
}

#[allow(unsafe_code, reason = "the bytes of the instruction are read from the test's own code")]
fn bytes_between([start, end]: [u64; 2]) -> Vec<u8> {
    // SAFETY: the labels before and behind one instruction of a function that has just run.
    unsafe { std::slice::from_raw_parts(start as *const u8, (end - start) as usize) }.to_vec()
}

fn execute(machine: &mut Machine, code: &[u8], before: &State) -> State {
    let cpu = &mut machine.cpu;
    cpu.simd.xmm[..2].copy_from_slice(&before.xmm);
    cpu.fpu.set_mmx(0, before.mm[0]);
    cpu.fpu.set_mmx(1, before.mm[1]);
    cpu.set_gpr(gpr::RAX, before.rax);
    cpu.set_gpr(gpr::RDX, before.rdx);
    cpu.simd.mxcsr = before.mxcsr as u32;
    for (n, word) in before.memory.iter().enumerate() {
        machine.write(DATA + 16 * n as u64, &word.to_le_bytes());
    }
    machine.run(code).expect("no exception");
    let cpu = &machine.cpu;
    State {
        xmm: [cpu.simd.xmm[0], cpu.simd.xmm[1]],
        memory: std::array::from_fn(|n| u128::from_le_bytes(machine.read(DATA + 16 * n as u64))),
        mm: [cpu.fpu.mmx(0), cpu.fpu.mmx(1)],
        rax: cpu.gpr(gpr::RAX),
        rdx: cpu.gpr(gpr::RDX),
        mxcsr: u64::from(cpu.simd.mxcsr),
        flags: cpu.rflags() & ARITHMETIC,
        code: [0; 2],
    }
}

fn check(rows: &[Row], rounds: u32) {
    let mut machine = Machine::new();
    for (name, host) in rows {
        if !has_sse3() && SSE3.iter().any(|mnemonic| name.starts_with(mnemonic)) {
            continue;
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..rounds {
            let before = random_state(&mut random);
            let mut want = before;
            host(&mut want);
            let code = bytes_between(want.code);
            let mut got = execute(&mut machine, &code, &before);
            want.code = [0; 2];
            want.flags &= ARITHMETIC;
            if !name.contains("comis") {
                // The others leave the flags alone; the host had others before.
                want.flags = 0;
                got.flags = 0;
            }
            assert_eq!(got, want, "{name} {code:02x?} from {before:x?}");
        }
    }
}

/// AMD64 APM volumes 4 and 5, by way of a processor that implements them.
#[test]
fn every_row_equals_the_host() {
    check(ROWS, 3000);
}

/// The estimates differ between processors; the bound is 1.5 * 2^-12 (APM volume 4, RCPPS and
/// RSQRTPS). Special values are exact.
#[test]
fn estimates_are_within_the_bound() {
    let mut machine = Machine::new();
    let mut random = Random(77);
    let mut one = |code: &[u8], a: u32| {
        machine.cpu.simd.xmm[1] = u128::from(a);
        machine.run(code).expect("no exception");
        machine.cpu.simd.xmm[0] as u32
    };
    let rcpss = [0xf3, 0x0f, 0x53, 0xc1];
    let rsqrtss = [0xf3, 0x0f, 0x52, 0xc1];
    for _ in 0..100_000 {
        let a = random.single();
        let value = f64::from(f32::from_bits(a));
        if !f32::from_bits(a).is_normal() {
            continue;
        }
        let got = f64::from(f32::from_bits(one(&rcpss, a)));
        if value.abs() < 2f64.powi(126) {
            assert!((got * value - 1.0).abs() <= 1.5 / 4096.0, "rcpss {a:x}: {got}");
        }
        let got = f64::from(f32::from_bits(one(&rsqrtss, a)));
        if value > 0.0 {
            assert!((got * value.sqrt() - 1.0).abs() <= 1.5 / 4096.0, "rsqrtss {a:x}: {got}");
        } else {
            assert!(got.is_nan());
        }
    }
    let rows = [
        (0x0000_0000, 0x7f80_0000, 0x7f80_0000),
        (0x8000_0000, 0xff80_0000, 0xff80_0000),
        // Denormals are zeros.
        (0x8000_0001, 0xff80_0000, 0xff80_0000),
        (0x7f80_0000, 0, 0),
        (0xff80_0000, 0x8000_0000, 0xffc0_0000),
        (0x7f80_0001, 0x7fc0_0001, 0x7fc0_0001),
        // 1/2^127 would be denormal.
        (0x7f00_0000, 0, 0x1fb5_0000),
        (0x4080_0000, 0x3e80_0000, 0x3f00_0000),
    ];
    for (a, reciprocal, root) in rows {
        assert_eq!(one(&rcpss, a), reciprocal, "rcpss {a:x}");
        if a != 0x7f00_0000 {
            assert_eq!(one(&rsqrtss, a), root, "rsqrtss {a:x}");
        }
    }
    assert_eq!(machine.cpu.simd.mxcsr, 0x1f80);
}
