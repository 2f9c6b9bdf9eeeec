//! The loops that vector units are for, on Knights Corner's: what they compute, and what is counted of them.
//!
//! Its users divide elements by instructions: 16 where all lanes are of four bytes and work, 8 with lanes of eight
//! bytes, 1 where one lane works.

use guest_tests::msr::OS;
use guest_tests::part::event;
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{
    AsmRegister32, CodeAssembler, dword_ptr, eax, ecx, edi, edx, r8d, rdi, rdx, rsi,
};
use iced_x86::{Code, Instruction, MemoryOperand, MvexRegMemConv, Register};

topics!(saxpy, dot_product, one_lane, matrix_multiply, stencil, gather, mandelbrot);

/// Where the tables for 64-bit mode are.
const TABLES: u32 = SCRATCH;
/// Operands, a page each, and the result.
const X: u32 = 0x30_0000;
const Y: u32 = 0x30_1000;
const SCALAR: u32 = 0x30_2000;
const RESULT: u32 = 0x30_3000;
/// Bytes of a line, which is a register.
const LINE: i32 = 64;
const LANES: u64 = 16;

/// What a kernel is to be counted as, by hand.
#[derive(Clone, Copy)]
struct Expected {
    instructions: u64,
    elements: u64,
    reads: u64,
    writes: u64,
}

/// 64-bit code.
fn assemble(build: impl FnOnce(&mut CodeAssembler) -> Result) -> Result<Vec<u8>> {
    let mut code = CodeAssembler::new(64)?;
    build(&mut code)?;
    code.assemble(0)
}

fn zmm(n: u32) -> Register {
    Register::ZMM0 + n
}

/// An instruction with an operand in memory that is not converted; the encoder scales its displacement by that.
fn unconverted(mut instruction: Instruction) -> Instruction {
    instruction.set_mvex_reg_mem_conv(MvexRegMemConv::MemConvNone);
    instruction
}

/// `code zmm, [base + displacement]`.
fn load(a: &mut CodeAssembler, code: Code, n: u32, base: Register, displacement: i32) -> Result {
    let memory = MemoryOperand::with_base_displ(base, displacement.into());
    a.add_instruction(unconverted(Instruction::with2(code, zmm(n), memory)?))
}

/// `code [base], zmm`.
fn store(a: &mut CodeAssembler, code: Code, base: Register, n: u32) -> Result {
    let memory = MemoryOperand::with_base(base);
    a.add_instruction(unconverted(Instruction::with2(code, memory, zmm(n))?))
}

/// `code zmm, zmm, [base + displacement]`.
fn load_op(
    a: &mut CodeAssembler,
    code: Code,
    [to, from]: [u32; 2],
    base: Register,
    displacement: i32,
) -> Result {
    let memory = MemoryOperand::with_base_displ(base, displacement.into());
    a.add_instruction(unconverted(Instruction::with3(code, zmm(to), zmm(from), memory)?))
}

/// The same with `[...]{1to16}`, one word for all lanes.
fn broadcast_op(
    a: &mut CodeAssembler,
    code: Code,
    [to, from]: [u32; 2],
    base: Register,
    displacement: i32,
    mask: Register,
) -> Result {
    let memory = MemoryOperand::with_base_displ(base, displacement.into());
    let mut instruction = Instruction::with3(code, zmm(to), zmm(from), memory)?;
    instruction.set_mvex_reg_mem_conv(MvexRegMemConv::MemConvBroadcast1);
    instruction.set_op_mask(mask);
    a.add_instruction(instruction)
}

/// `code zmm{mask}, zmm, zmm`.
fn op(a: &mut CodeAssembler, code: Code, [to, x, y]: [u32; 3], mask: Register) -> Result {
    let mut instruction = Instruction::with3(code, zmm(to), zmm(x), zmm(y))?;
    instruction.set_op_mask(mask);
    a.add_instruction(instruction)
}

fn clear(a: &mut CodeAssembler, n: u32) -> Result {
    op(a, Code::MVEX_Vpxord_zmm_k1_zmm_zmmmt, [n, n, n], Register::None)
}

/// Runs `code` once for each event, behind `setup`, which is not counted, with `data` in memory; expects those counts,
/// and what `code` leaves at the beginning of each of these words.
fn expect(
    part: &'static Part,
    data: &[(u32, Vec<u32>)],
    [setup, code]: [&[u8]; 2],
    expected: Expected,
    results: &[(u32, u32)],
) -> Result {
    let events = [
        ("data_read", event(0x2000), expected.reads),
        ("data_write", event(0x2001), expected.writes),
        ("instructions", event(0x2016), expected.instructions),
        ("elements", event(0x2018), expected.elements),
    ];
    for (name, event, count) in events {
        let image = Guest::assemble(part, |g| {
            for &(at, ref words) in data {
                for (at, &word) in (at..).step_by(4).zip(words) {
                    g.mov(dword_ptr(at), word)?;
                }
            }
            g.in_64_bit_mode(TABLES, setup)?;
            g.count(name, event, OS, |g| g.in_64_bit_mode(TABLES, code))?;
            results.iter().try_for_each(|&(at, _)| g.report_word(&format!("{at:x}"), at))
        })?;
        let outcome = run(part, &image);
        outcome.expect(&[(name, count)]);
        for &(at, word) in results {
            outcome.expect(&[(&format!("{at:x}"), word.into())]);
        }
    }
    Ok(())
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u32> {
    values.map(f32::to_bits).collect()
}

/// So many turns of `body`, counted in `counter`.
fn turns(
    a: &mut CodeAssembler,
    counter: AsmRegister32,
    times: u32,
    body: impl FnOnce(&mut CodeAssembler) -> Result,
) -> Result {
    a.mov(counter, times)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    body(a)?;
    a.dec(counter)?;
    a.jnz(again)
}

/// y = 3 x + y for 16 lines of x = 0, 1, ... and y = 1000. A line is a load, a fused multiply and add with an operand
/// in memory, and a store; before them the factor is broadcast.
fn saxpy(part: &'static Part) -> Result {
    let code = assemble(|a| {
        a.mov(rsi, u64::from(X))?;
        a.mov(rdi, u64::from(Y))?;
        a.mov(rdx, u64::from(SCALAR))?;
        load(a, Code::MVEX_Vbroadcastss_zmm_k1_mt, 0, Register::RDX, 0)?;
        turns(a, ecx, 16, |a| {
            load(a, Code::MVEX_Vmovaps_zmm_k1_zmmmt, 1, Register::RDI, 0)?;
            load_op(a, Code::MVEX_Vfmadd231ps_zmm_k1_zmm_zmmmt, [1, 0], Register::RSI, 0)?;
            store(a, Code::MVEX_Vmovaps_mt_k1_zmm, Register::RDI, 1)?;
            a.add(rsi, LINE)?;
            a.add(rdi, LINE)
        })
    })?;
    let data = [
        (X, floats((0..256).map(|n| n as f32))),
        (Y, floats((0..256).map(|_| 1000.0))),
        (SCALAR, floats([3.0].into_iter())),
    ];
    let expected = Expected {
        instructions: 1 + 3 * 16,
        elements: LANES * (1 + 3 * 16),
        reads: 1 + 2 * 16,
        writes: 16,
    };
    let results = [0, 1, 17, 255].map(|n| (Y + 4 * n, (1000.0 + 3.0 * n as f32).to_bits()));
    expect(part, &data, [&[], &code], expected, &results)
}

/// The sum of x y over 128 numbers of eight bytes, 16 lines, lane by lane: every instruction has eight elements.
fn dot_product(part: &'static Part) -> Result {
    let code = assemble(|a| {
        a.mov(rsi, u64::from(X))?;
        a.mov(rdi, u64::from(Y))?;
        a.mov(rdx, u64::from(RESULT))?;
        op(a, Code::MVEX_Vpxorq_zmm_k1_zmm_zmmmt, [2, 2, 2], Register::None)?;
        turns(a, ecx, 16, |a| {
            load(a, Code::MVEX_Vmovapd_zmm_k1_zmmmt, 1, Register::RSI, 0)?;
            load_op(a, Code::MVEX_Vfmadd231pd_zmm_k1_zmm_zmmmt, [2, 1], Register::RDI, 0)?;
            a.add(rsi, LINE)?;
            a.add(rdi, LINE)
        })?;
        store(a, Code::MVEX_Vmovapd_mt_k1_zmm, Register::RDX, 2)
    })?;
    let doubles = |values: &mut dyn Iterator<Item = f64>| -> Vec<u32> {
        values.map(f64::to_bits).flat_map(|bits| [bits as u32, (bits >> 32) as u32]).collect()
    };
    let data = [
        (X, doubles(&mut (0..128).map(f64::from))),
        (Y, doubles(&mut (0..128).map(|_| 2.0))),
    ];
    let expected =
        Expected { instructions: 34, elements: 8 * 34, reads: 2 * 16, writes: 1 };
    // Lane n has 2 (n + (n + 8) + ... + (n + 120)): 16 numbers.
    let results: Vec<_> = (0..8u32)
        .map(|n| (RESULT + 8 * n + 4, (f64::from(2 * (16 * n + 8 * 120)).to_bits() >> 32) as u32))
        .collect();
    expect(part, &data, [&[], &code], expected, &results)
}

/// A sum of 32 words, one at a time: one lane works.
fn one_lane(part: &'static Part) -> Result {
    let setup = assemble(|a| {
        a.mov(eax, 1)?;
        a.add_instruction(Instruction::with2(
            Code::VEX_KNC_Kmov_kr_r32,
            Register::K1,
            Register::EAX,
        )?)?;
        clear(a, 2)
    })?;
    let code = assemble(|a| {
        a.mov(rsi, u64::from(X))?;
        turns(a, ecx, 32, |a| {
            let code = Code::MVEX_Vaddps_zmm_k1_zmm_zmmmt;
            broadcast_op(a, code, [2, 2], Register::RSI, 0, Register::K1)?;
            a.add(rsi, 4)
        })?;
        a.mov(rdi, u64::from(RESULT))?;
        let to = MemoryOperand::with_base(Register::RDI);
        let mut last =
            unconverted(Instruction::with2(Code::MVEX_Vmovaps_mt_k1_zmm, to, zmm(2))?);
        last.set_op_mask(Register::K1);
        a.add_instruction(last)
    })?;
    let data = [(X, floats((0..32).map(|n| n as f32)))];
    let expected = Expected { instructions: 33, elements: 33, reads: 32, writes: 1 };
    let results = [(RESULT, 496.0_f32.to_bits()), (RESULT + 4, 0)];
    expect(part, &data, [&setup, &code], expected, &results)
}

/// C = A B of 16 rows of 16: a row of C is the sum of B's rows, each times a word of A's row.
fn matrix_multiply(part: &'static Part) -> Result {
    let code = assemble(|a| {
        a.mov(rsi, u64::from(X))?;
        a.mov(rdx, u64::from(RESULT))?;
        turns(a, r8d, 16, |a| {
            clear(a, 0)?;
            a.mov(rdi, u64::from(Y))?;
            turns(a, ecx, 16, |a| {
                load(a, Code::MVEX_Vmovaps_zmm_k1_zmmmt, 1, Register::RDI, 0)?;
                let code = Code::MVEX_Vfmadd231ps_zmm_k1_zmm_zmmmt;
                broadcast_op(a, code, [0, 1], Register::RSI, 0, Register::None)?;
                a.add(rdi, LINE)?;
                a.add(rsi, 4)
            })?;
            store(a, Code::MVEX_Vmovaps_mt_k1_zmm, Register::RDX, 0)?;
            a.add(rdx, LINE)
        })
    })?;
    // A has n + m in row n and column m, B has n - m.
    let matrix = |of: fn(i32, i32) -> i32| {
        floats((0..16).flat_map(move |n| (0..16).map(move |m| of(n, m) as f32)))
    };
    let data = [(X, matrix(|n, m| n + m)), (Y, matrix(|n, m| n - m))];
    let instructions = 16 * (1 + 2 * 16 + 1);
    let expected = Expected {
        instructions,
        elements: LANES * instructions,
        reads: 16 * 2 * 16,
        writes: 16,
    };
    let product = |n: i32, m: i32| (0..16).map(|k| (n + k) * (k - m)).sum::<i32>() as f32;
    let at = |n: i32, m: i32| RESULT + (64 * n + 4 * m) as u32;
    let results =
        [(0, 0), (3, 9), (15, 0), (15, 15)].map(|(n, m)| (at(n, m), product(n, m).to_bits()));
    expect(part, &data, [&[], &code], expected, &results)
}

/// Each word of 16 lines becomes the sum of itself and its neighbours. A register that begins a word before or behind a
/// line takes two instructions and two lines: one word of one, 15 of the other.
fn stencil(part: &'static Part) -> Result {
    let code = assemble(|a| {
        a.mov(rsi, u64::from(X) + 64)?;
        a.mov(rdi, u64::from(RESULT))?;
        turns(a, ecx, 16, |a| {
            load(a, Code::MVEX_Vloadunpacklps_zmm_k1_mt, 1, Register::RSI, -4)?;
            load(a, Code::MVEX_Vloadunpackhps_zmm_k1_mt, 1, Register::RSI, -4 + LINE)?;
            load(a, Code::MVEX_Vloadunpacklps_zmm_k1_mt, 3, Register::RSI, 4)?;
            load(a, Code::MVEX_Vloadunpackhps_zmm_k1_mt, 3, Register::RSI, 4 + LINE)?;
            load_op(a, Code::MVEX_Vaddps_zmm_k1_zmm_zmmmt, [1, 1], Register::RSI, 0)?;
            op(a, Code::MVEX_Vaddps_zmm_k1_zmm_zmmmt, [1, 1, 3], Register::None)?;
            store(a, Code::MVEX_Vmovaps_mt_k1_zmm, Register::RDI, 1)?;
            a.add(rsi, LINE)?;
            a.add(rdi, LINE)
        })
    })?;
    let data = [(X, floats((0..288).map(|n| (n * n) as f32)))];
    let expected = Expected {
        instructions: 16 * 7,
        elements: 16 * ((1 + 15) + (15 + 1) + 3 * LANES),
        reads: 16 * 5,
        writes: 16,
    };
    // (n - 1)^2 + n^2 + (n + 1)^2 with the words counted from those of the line before.
    let results = [0, 1, 15, 16, 255].map(|n| {
        let m = n as i32 + 16;
        (RESULT + 4 * n, ((3 * m * m + 2) as f32).to_bits())
    });
    expect(part, &data, [&[], &code], expected, &results)
}

/// Lane n gets word n of line n mod 4, so that four executions of the gather empty the mask. JKNZD is none of the vector
/// unit's instructions.
fn gather(part: &'static Part) -> Result {
    let code = assemble(|a| {
        a.mov(rsi, u64::from(X))?;
        a.mov(rdi, u64::from(Y))?;
        a.mov(rdx, u64::from(RESULT))?;
        load(a, Code::MVEX_Vmovdqa32_zmm_k1_zmmmt, 2, Register::RDI, 0)?;
        a.mov(eax, 0xFFFF)?;
        let kmov = Instruction::with2(Code::VEX_KNC_Kmov_kr_r32, Register::K1, Register::EAX)?;
        a.add_instruction(kmov)?;
        let words = MemoryOperand::with_base_index_scale(Register::RSI, zmm(2), 4);
        let gather = Instruction::with2(Code::MVEX_Vgatherdps_zmm_k1_mvt, zmm(1), words)?;
        let mut gather = unconverted(gather);
        gather.set_op_mask(Register::K1);
        a.add_instruction(gather)?;
        // JKNZD K1: VEX.128.W0 75 of the map of single bytes, with the mask in vvvv. Back over itself, five
        // bytes, and the gather, seven.
        a.db(&[0xC4, 0xE0, 0x70, 0x75, 12_u8.wrapping_neg()])?;
        store(a, Code::MVEX_Vmovaps_mt_k1_zmm, Register::RDX, 1)
    })?;
    let data = [
        (X, floats((0..64).map(|n| 100.0 + n as f32))),
        (Y, (0..16).map(|n| n % 4 * 16 + n).collect()),
    ];
    let expected = Expected {
        instructions: 1 + 1 + 4 + 1,
        elements: LANES + LANES + LANES,
        reads: 1 + 4,
        writes: 1,
    };
    let results: Vec<_> = (0..16)
        .map(|n| (RESULT + 4 * n, (100.0 + (n % 4 * 16 + n) as f32).to_bits()))
        .collect();
    expect(part, &data, [&[], &code], expected, &results)
}

/// How often 16 points stay within a circle of radius 2 under z = z^2 + c, 32 times at most. Lanes that have left are
/// masked; the loop ends when all have.
fn mandelbrot(part: &'static Part) -> Result {
    const MOST: u32 = 32;
    const LE: u32 = 2;
    let (real, imaginary) = (|n: u32| -2.0 + n as f32 / 8.0, |n: u32| (n % 5) as f32 / 8.0);
    let mut expected = Expected { instructions: 0, elements: 0, reads: 4, writes: 1 };
    // Four loads, three registers cleared, the mask, the store.
    expected.instructions += 4 + 3 + 1 + 1;
    expected.elements += (4 + 3 + 1) * LANES;
    let mut points = [(0.0_f32, 0.0_f32, 0_u32, true); 16];
    for _ in 0..MOST {
        let inside = |points: &[(f32, f32, u32, bool)]| {
            points.iter().filter(|&&(.., inside)| inside).count() as u64
        };
        // Two squares and their sum, the comparison under the mask, and KORTEST, which has no elements.
        expected.instructions += 5;
        expected.elements += 3 * LANES + inside(&points);
        for point in &mut points {
            point.3 &= point.0 * point.0 + point.1 * point.1 <= 4.0;
        }
        if inside(&points) == 0 {
            break;
        }
        expected.instructions += 6;
        expected.elements += 6 * inside(&points);
        for (n, (x, y, steps, inside)) in (0..).zip(&mut points) {
            if *inside {
                let product = *x * *y;
                (*x, *y) = (*x * *x - *y * *y + real(n), product + product + imaginary(n));
                *steps += 1;
            }
        }
    }
    let code = assemble(|a| {
        a.mov(rsi, u64::from(X))?;
        a.mov(rdi, u64::from(Y))?;
        a.mov(rdx, u64::from(SCALAR))?;
        load(a, Code::MVEX_Vmovaps_zmm_k1_zmmmt, 9, Register::RSI, 0)?;
        load(a, Code::MVEX_Vmovaps_zmm_k1_zmmmt, 10, Register::RDI, 0)?;
        load(a, Code::MVEX_Vbroadcastss_zmm_k1_mt, 7, Register::RDX, 0)?;
        load(a, Code::MVEX_Vbroadcastss_zmm_k1_mt, 11, Register::RDX, 4)?;
        [1, 2, 5].into_iter().try_for_each(|n| clear(a, n))?;
        a.mov(edx, 0xFFFF)?;
        let kmov = Instruction::with2(Code::VEX_KNC_Kmov_kr_r32, Register::K1, Register::EDX)?;
        a.add_instruction(kmov)?;
        a.mov(edi, RESULT)?;
        let mut out = a.create_label();
        let (mul, add) = (Code::MVEX_Vmulps_zmm_k1_zmm_zmmmt, Code::MVEX_Vaddps_zmm_k1_zmm_zmmmt);
        let (all, inside) = (Register::None, Register::K1);
        turns(a, ecx, MOST, |a| {
            op(a, mul, [3, 1, 1], all)?;
            op(a, mul, [4, 2, 2], all)?;
            op(a, add, [6, 3, 4], all)?;
            let mut compare = Instruction::with4(
                Code::MVEX_Vcmpps_kr_k1_zmm_zmmmt_imm8,
                Register::K1,
                zmm(6),
                zmm(7),
                LE,
            )?;
            compare.set_op_mask(inside);
            a.add_instruction(compare)?;
            let any = Instruction::with2(Code::VEX_KNC_Kortest_kr_kr, Register::K1, Register::K1)?;
            a.add_instruction(any)?;
            a.jz(out)?;
            op(a, mul, [8, 1, 2], inside)?;
            op(a, Code::MVEX_Vsubps_zmm_k1_zmm_zmmmt, [1, 3, 4], inside)?;
            op(a, add, [1, 1, 9], inside)?;
            op(a, add, [2, 8, 8], inside)?;
            op(a, add, [2, 2, 10], inside)?;
            op(a, Code::MVEX_Vpaddd_zmm_k1_zmm_zmmmt, [5, 5, 11], inside)
        })?;
        a.set_label(&mut out)?;
        store(a, Code::MVEX_Vmovaps_mt_k1_zmm, Register::RDI, 5)
    })?;
    let data = [
        (X, floats((0..16).map(real))),
        (Y, floats((0..16).map(imaginary))),
        (SCALAR, vec![4.0_f32.to_bits(), 1]),
    ];
    let results: Vec<_> =
        (0..16).map(|n| (RESULT + 4 * n, points[n as usize].2)).collect();
    expect(part, &data, [&[], &code], expected, &results)
}
