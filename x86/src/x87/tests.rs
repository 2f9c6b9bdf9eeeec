//! Every operation of the unit against the host's: the same random state goes in by FRSTOR, one
//! instruction runs, and all that FNSAVE shows must be equal: control, status and tag words, the
//! registers, the memory operand and the flags of FCOMI (AMD64 APM volume 1, chapter 6).

#![allow(unsafe_code, reason = "the oracle is the host's own instructions, reached by assembly")]

use std::arch::asm;

use super::{Arith, Constant, EnvFormat, Fpu, MemoryFormat, Source, Transcendental, Unary, status};
use crate::host::{Vendor, has_sse3};
use crate::softfloat::{F80, Relation, oracle::Random, x87_tests::denormal_is_open};

const ROUNDS: u64 = 30_000;
const IMAGE: usize = 108;
/// What an underflow or an overflow sets in the status word: OE, UE, and ES and B where it is unmasked.
const OF_LIMITS: u16 = 1 << 3 | 1 << 4 | 1 << 7 | 1 << 15;

/// An instruction on the host: state image, memory operand and flags, in LAHF's order, in and out.
type Host = fn(&mut [u8; IMAGE], &mut [u8; 16], u8) -> u8;
/// The same here: the unit, the memory operand, the flags in LAHF's order.
type Ours = fn(&mut Fpu, &mut [u8; 16], u8) -> u8;

macro_rules! host {
    ($text:literal) => {
        |image, memory, flags| {
            // IF and bit 1, as they are.
            let mut rflags = 0x202 | u64::from(flags);
            // SAFETY: reads and writes the two buffers, the stack and the flags, and leaves the x87
            // unit as FNSAVE does, which is the state that the ABI asks for.
            unsafe {
                asm!(
                    "frstor [{image}]",
                    "push {flags}",
                    "popfq",
                    concat!($text, " # {m}"),
                    "pushfq",
                    "pop {flags}",
                    "fnsave [{image}]",
                    image = in(reg) &raw mut *image,
                    m = in(reg) &raw mut *memory,
                    flags = inout(reg) rflags,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                );
            }
            rflags as u8
        }
    };
}

fn image(fpu: &Fpu) -> [u8; IMAGE] {
    let mut image = [0; IMAGE];
    image[..28].copy_from_slice(&fpu.environment(EnvFormat::Protected32));
    image[28..].copy_from_slice(&fpu.save_registers());
    image
}

fn value(random: &mut Random) -> F80 {
    let bits = random.operand(15, 40);
    let sign_exp = (bits >> 40) as u16;
    let normal = u64::from(sign_exp & 0x7FFF != 0);
    let integer = if random.below(24) == 0 { random.below(2) } else { normal };
    let frac = if random.below(4) == 0 { 0 } else { random.fraction(63) };
    F80::new(sign_exp, integer << 63 | frac)
}

/// A state without a pending exception: that would end the test in a signal.
fn state(random: &mut Random) -> Fpu {
    let mut fpu = Fpu::default();
    fpu.init();
    for register in &mut fpu.st {
        *register = value(random);
    }
    let masks = if random.below(2) == 0 { 0x3F } else { random.next() as u16 & 0x3F };
    let precision = [0, 2, 3][random.below(3) as usize] << 8;
    fpu.set_control_word(masks | precision | (random.below(4) as u16) << 10);
    let flags = random.next() as u16 & (masks | status::SF | status::CONDITIONS);
    fpu.set_status_word(flags | (random.below(8) as u16) << 11);
    fpu.valid = match random.below(4) {
        0 => random.next() as u8,
        1 => 0xFF,
        _ => {
            let count = random.below(7) as u32 + 2;
            ((0xFFu16 >> (8 - count)) as u8).rotate_left(u32::from(fpu.top))
        }
    };
    fpu
}

fn memory(random: &mut Random) -> [u8; 16] {
    let mut memory = [0xAA; 16];
    match random.below(4) {
        0 => memory[..4].copy_from_slice(&(random.operand(8, 23) as u32).to_le_bytes()),
        1 => memory[..8].copy_from_slice(&random.operand(11, 52).to_le_bytes()),
        2 => memory[..10].copy_from_slice(&value(random).to_bytes()),
        _ => {
            for byte in &mut memory[..9] {
                *byte = (random.below(10) << 4 | random.below(10)) as u8;
            }
            memory[9] = random.next() as u8 & 0x80;
        }
    }
    memory
}

/// Compares everything but the pointers and the reserved halves of the words.
fn check(name: &str, ours: Ours, host: Host) {
    check_states(name, 0, ours, host, |_| true);
}

/// Whether one is the smallest normal number, in either of its encodings, or the largest, and the other is one unit
/// beyond that: denormal or infinite, or with its exponent adjusted by 24576 where that exception is unmasked
/// (Intel SDM volume 1, sections 8.5.4 and 8.5.5).
fn is_across_limit(a: F80, b: F80) -> bool {
    const INTEGER: u64 = 1 << 63;
    let pair = |limit: F80, other: F80| {
        let [limit, other] = [limit, other].map(|value| (value.sign_exp & 0x7FFF, value.frac));
        match limit {
            (0 | 1, INTEGER) => [(0, INTEGER - 1), (24576, u64::MAX)].contains(&other),
            (0x7FFE, u64::MAX) => [(0x7FFF, INTEGER), (0x7FFF - 24576, INTEGER)].contains(&other),
            _ => false,
        }
    };
    a.is_negative() == b.is_negative() && (pair(a, b) || pair(b, a))
}

fn words(image: &[u8; IMAGE]) -> [u16; 3] {
    [0, 4, 8].map(|at| u16::from_le_bytes([image[at], image[at + 1]]))
}

/// As [`check`], of the states that are `defined` to have the same outcome on all processors.
fn check_where(name: &str, ours: Ours, host: Host, defined: impl Fn(&Fpu) -> bool) {
    check_states(name, 0, ours, host, defined);
}

/// As [`check_where`]; the registers may be `ulps` units in the last place apart, and C1 and the class in
/// the tag may then differ as well. Across the smallest and the largest number, one unit is also an underflow or
/// an overflow.
fn check_states(name: &str, ulps: u64, ours: Ours, host: Host, defined: impl Fn(&Fpu) -> bool) {
    let mut random = Random::new(name.bytes().fold(7, |sum, b| sum << 3 ^ u64::from(b)));
    for _ in 0..ROUNDS {
        let before = state(&mut random);
        let operand = memory(&mut random);
        let flags = random.next() as u8 & 0xD5 | 2;
        if !defined(&before) {
            continue;
        }
        let (mut fpu, mut got_memory) = (before, operand);
        let got_flags = ours(&mut fpu, &mut got_memory, flags);
        let got = image(&fpu);
        let (mut want, mut want_memory) = (image(&before), operand);
        let want_flags = host(&mut want, &mut want_memory, flags);
        let (mut got_words, mut want_words) = (words(&got), words(&want));
        let (mut near, mut exceptions) = (true, false);
        for i in 0..8 {
            let at = 28 + 10 * i;
            let register = |image: &[u8; IMAGE]| {
                F80::from_bytes(image[at..at + 10].try_into().expect("ten bytes"))
            };
            let (a, b) = (register(&got), register(&want));
            let apart = a.frac.abs_diff(b.frac);
            let carried = ulps != 0 && a.sign_exp.abs_diff(b.sign_exp) == 1;
            let across = ulps != 0 && is_across_limit(a, b);
            exceptions |= across;
            near &= a == b || a.sign_exp == b.sign_exp && apart <= ulps || carried || across;
        }
        if ulps != 0 {
            // At the edge of the normal numbers one unit makes another tag; empty stays empty.
            for words in [&mut got_words, &mut want_words] {
                words[1] &= !status::C1;
                words[1] &= if exceptions { !OF_LIMITS } else { !0 };
                words[2] &= words[2] >> 1 & 0x5555;
            }
        }
        assert!(
            near && got_words == want_words && got_memory == want_memory && got_flags == want_flags,
            "{name} from {before:x?} memory {operand:x?} flags {flags:x}\n\
             got  {got_words:x?} {:x?} {got_memory:x?} {got_flags:x}\n\
             host {want_words:x?} {:x?} {want_memory:x?} {want_flags:x}",
            &got[28..],
            &want[28..],
        );
    }
}

fn ten(memory: &[u8; 16]) -> [u8; 10] {
    std::array::from_fn(|i| memory[i])
}

fn arith(fpu: &mut Fpu, op: Arith, format: MemoryFormat, memory: &[u8; 16]) {
    fpu.arith(op, 0, Source::from_memory(format, ten(memory)), false);
}

fn store(fpu: &mut Fpu, format: MemoryFormat, truncate: bool, pop: bool, memory: &mut [u8; 16]) {
    if let Some(bytes) = fpu.store(format, truncate, pop) {
        memory[..format.size()].copy_from_slice(&bytes[..format.size()]);
    }
}

/// One row of a table: the text for the host, and the operation on `$fpu` and `$memory`.
macro_rules! rows {
    ($($text:literal => |$fpu:ident, $memory:ident| $body:expr;)*) => {
        $(check(
            $text,
            |$fpu, $memory, flags| {
                let _ = &$memory;
                $body;
                flags
            },
            host!($text),
        );)*
    };
}

#[test]
fn arithmetic_equals_the_host() {
    rows! {
        "fadd st(0), st(3)" => |fpu, memory| fpu.arith(Arith::Add, 0, Source::St(3), false);
        "fmul st(2), st(0)" => |fpu, memory| fpu.arith(Arith::Mul, 2, Source::St(0), false);
        "fsub st(0), st(1)" => |fpu, memory| fpu.arith(Arith::Sub, 0, Source::St(1), false);
        "fsubr st(0), st(1)" => |fpu, memory| fpu.arith(Arith::SubReverse, 0, Source::St(1), false);
        "fdiv st(0), st(1)" => |fpu, memory| fpu.arith(Arith::Div, 0, Source::St(1), false);
        "fdivr st(0), st(1)" => |fpu, memory| fpu.arith(Arith::DivReverse, 0, Source::St(1), false);
        "faddp st(1), st(0)" => |fpu, memory| fpu.arith(Arith::Add, 1, Source::St(0), true);
        "fmulp st(4), st(0)" => |fpu, memory| fpu.arith(Arith::Mul, 4, Source::St(0), true);
        ".byte 0xde, 0xe9" => |fpu, memory| fpu.arith(Arith::Sub, 1, Source::St(0), true);
        ".byte 0xde, 0xe1" => |fpu, memory| fpu.arith(Arith::SubReverse, 1, Source::St(0), true);
        ".byte 0xde, 0xf9" => |fpu, memory| fpu.arith(Arith::Div, 1, Source::St(0), true);
        ".byte 0xde, 0xf1" => |fpu, memory| fpu.arith(Arith::DivReverse, 1, Source::St(0), true);
    }
}

#[test]
fn arithmetic_with_memory_equals_the_host() {
    use MemoryFormat::{Double, Int16, Int32, Single};
    rows! {
        "fadd dword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::Add, Single, memory);
        "fmul dword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::Mul, Single, memory);
        "fdiv dword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::Div, Single, memory);
        "fdivr dword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::DivReverse, Single, memory);
        "fsub qword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::Sub, Double, memory);
        "fsubr qword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::SubReverse, Double, memory);
        "fdivr qword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::DivReverse, Double, memory);
        "fiadd word ptr [{m}]" => |fpu, memory| arith(fpu, Arith::Add, Int16, memory);
        "fidivr dword ptr [{m}]" => |fpu, memory| arith(fpu, Arith::DivReverse, Int32, memory);
        "fcom dword ptr [{m}]" => |fpu, memory|
            fpu.compare(Source::from_memory(Single, ten(memory)), false, 0);
        "fcomp qword ptr [{m}]" => |fpu, memory|
            fpu.compare(Source::from_memory(Double, ten(memory)), false, 1);
        "ficom word ptr [{m}]" => |fpu, memory|
            fpu.compare(Source::from_memory(Int16, ten(memory)), false, 0);
        "ficomp dword ptr [{m}]" => |fpu, memory|
            fpu.compare(Source::from_memory(Int32, ten(memory)), false, 1);
    }
}

#[test]
fn comparisons_equal_the_host() {
    rows! {
        "fcom st(2)" => |fpu, memory| fpu.compare(Source::St(2), false, 0);
        "fcomp st(1)" => |fpu, memory| fpu.compare(Source::St(1), false, 1);
        "fcompp" => |fpu, memory| fpu.compare(Source::St(1), false, 2);
        "fucom st(2)" => |fpu, memory| fpu.compare(Source::St(2), true, 0);
        "fucompp" => |fpu, memory| fpu.compare(Source::St(1), true, 2);
        "ftst" => |fpu, memory| fpu.compare(Source::Integer(0), false, 0);
        "fxam" => |fpu, memory| fpu.examine();
    }
    fn lahf(relation: Relation) -> u8 {
        match relation {
            Relation::Greater => 0x02,
            Relation::Less => 0x03,
            Relation::Equal => 0x42,
            Relation::Unordered => 0x47,
        }
    }
    check("fcomi", |fpu, _, _| lahf(fpu.compare_flags(2, false, false)), host!("fcomi st(2)"));
    check("fcomip", |fpu, _, _| lahf(fpu.compare_flags(1, false, true)), host!("fcomip st(1)"));
    check("fucomi", |fpu, _, _| lahf(fpu.compare_flags(2, true, false)), host!("fucomi st(2)"));
    check("fucomip", |fpu, _, _| lahf(fpu.compare_flags(1, true, true)), host!("fucomip st(1)"));
}

#[test]
fn operations_on_the_top_equal_the_host() {
    rows! {
        "fsqrt" => |fpu, memory| fpu.unary(Unary::Sqrt);
        "frndint" => |fpu, memory| fpu.unary(Unary::RoundToInteger);
        "fabs" => |fpu, memory| fpu.unary(Unary::Abs);
        "fchs" => |fpu, memory| fpu.unary(Unary::ChangeSign);
        "fxtract" => |fpu, memory| fpu.extract();
        "fincstp" => |fpu, memory| fpu.increment_top();
        "fdecstp" => |fpu, memory| fpu.decrement_top();
        "ffree st(3)" => |fpu, memory| fpu.free(3);
        ".byte 0xdf, 0xc3" => |fpu, memory| fpu.free_and_pop(3);
        "fnclex" => |fpu, memory| fpu.clear_exceptions();
        "fninit" => |fpu, memory| fpu.init();
        "emms" => |fpu, memory| fpu.emms();
    }
}

#[test]
fn scaling_and_remainders_equal_the_host() {
    let vendor = Vendor::of_host();
    let defined = |fpu: &Fpu, scales| match (fpu.get(0), fpu.get(1)) {
        (Some(a), Some(b)) => !denormal_is_open(vendor, a, b, fpu.control_word(), scales),
        _ => true,
    };
    let remainder = |fpu: &Fpu| defined(fpu, false);
    check_where("fscale", |f, _, c| (f.scale(), c).1, host!("fscale"), |f| defined(f, true));
    check_where("fprem", |f, _, c| (f.remainder(false), c).1, host!("fprem"), remainder);
    check_where("fprem1", |f, _, c| (f.remainder(true), c).1, host!("fprem1"), remainder);
}

#[test]
fn loads_and_moves_equal_the_host() {
    use MemoryFormat::{Decimal, Double, Extended, Int16, Int32, Int64, Single};
    rows! {
        "fld dword ptr [{m}]" => |fpu, memory| fpu.load(Single, ten(memory));
        "fld qword ptr [{m}]" => |fpu, memory| fpu.load(Double, ten(memory));
        "fld tbyte ptr [{m}]" => |fpu, memory| fpu.load(Extended, ten(memory));
        "fild word ptr [{m}]" => |fpu, memory| fpu.load(Int16, ten(memory));
        "fild dword ptr [{m}]" => |fpu, memory| fpu.load(Int32, ten(memory));
        "fild qword ptr [{m}]" => |fpu, memory| fpu.load(Int64, ten(memory));
        "fld st(2)" => |fpu, memory| fpu.load_register(2);
        "fld1" => |fpu, memory| fpu.load_constant(Constant::One);
        "fldl2t" => |fpu, memory| fpu.load_constant(Constant::Log2Of10);
        "fldl2e" => |fpu, memory| fpu.load_constant(Constant::Log2OfE);
        "fldpi" => |fpu, memory| fpu.load_constant(Constant::Pi);
        "fldlg2" => |fpu, memory| fpu.load_constant(Constant::Log10Of2);
        "fldln2" => |fpu, memory| fpu.load_constant(Constant::LnOf2);
        "fldz" => |fpu, memory| fpu.load_constant(Constant::Zero);
        "fst st(3)" => |fpu, memory| fpu.store_register(3, false);
        "fstp st(3)" => |fpu, memory| fpu.store_register(3, true);
        "fstp st(0)" => |fpu, memory| fpu.store_register(0, true);
        "fxch st(3)" => |fpu, memory| fpu.exchange(3);
        "fldcw word ptr [{m}]\nfnclex" => |fpu, memory| {
            fpu.set_control_word(u16::from_le_bytes([memory[0], memory[1]]));
            fpu.clear_exceptions();
        };
    }
    // Digits above 9 are undefined: these memory operands have none.
    check(
        "fbld",
        |fpu, memory, flags| {
            for byte in &mut memory[..9] {
                *byte = (*byte % 10) | (((*byte >> 4) % 10) << 4);
            }
            memory[9] &= 0x80;
            fpu.load(Decimal, ten(memory));
            flags
        },
        |image, memory, flags| {
            for byte in &mut memory[..9] {
                *byte = (*byte % 10) | (((*byte >> 4) % 10) << 4);
            }
            memory[9] &= 0x80;
            let fbld: Host = host!("fbld tbyte ptr [{m}]");
            fbld(image, memory, flags)
        },
    );
    check(
        "fcmovb",
        |f, _, c| {
            f.move_if(2, c & 1 != 0);
            c
        },
        host!("fcmovb st(0), st(2)"),
    );
    check(
        "fcmovnu",
        |f, _, c| {
            f.move_if(1, c & 4 == 0);
            c
        },
        host!("fcmovnu st(0), st(1)"),
    );
}

#[test]
fn stores_equal_the_host() {
    use MemoryFormat::{Decimal, Double, Extended, Int16, Int32, Int64, Single};
    rows! {
        "fst dword ptr [{m}]" => |fpu, memory| store(fpu, Single, false, false, memory);
        "fstp dword ptr [{m}]" => |fpu, memory| store(fpu, Single, false, true, memory);
        "fst qword ptr [{m}]" => |fpu, memory| store(fpu, Double, false, false, memory);
        "fstp qword ptr [{m}]" => |fpu, memory| store(fpu, Double, false, true, memory);
        "fstp tbyte ptr [{m}]" => |fpu, memory| store(fpu, Extended, false, true, memory);
        "fist word ptr [{m}]" => |fpu, memory| store(fpu, Int16, false, false, memory);
        "fistp word ptr [{m}]" => |fpu, memory| store(fpu, Int16, false, true, memory);
        "fist dword ptr [{m}]" => |fpu, memory| store(fpu, Int32, false, false, memory);
        "fistp qword ptr [{m}]" => |fpu, memory| store(fpu, Int64, false, true, memory);
        "fbstp tbyte ptr [{m}]" => |fpu, memory| store(fpu, Decimal, false, true, memory);
        "fnstcw word ptr [{m}]" => |fpu, memory|
            memory[..2].copy_from_slice(&fpu.control_word().to_le_bytes());
        "fnstsw word ptr [{m}]" => |fpu, memory|
            memory[..2].copy_from_slice(&fpu.status_word().to_le_bytes());
    }
    if has_sse3() {
        rows! {
            "fisttp word ptr [{m}]" => |fpu, memory| store(fpu, Int16, true, true, memory);
            "fisttp dword ptr [{m}]" => |fpu, memory| store(fpu, Int32, true, true, memory);
            "fisttp qword ptr [{m}]" => |fpu, memory| store(fpu, Int64, true, true, memory);
        }
    }
}

/// Operands in the architectural domain mostly; C1 is undefined here.
#[test]
fn transcendental_instructions_equal_the_host() {
    macro_rules! near {
        ($($text:literal $op:ident;)*) => {
            $(check_states(
                $text,
                1,
                |fpu, _, flags| {
                    fpu.transcendental(Transcendental::$op);
                    flags
                },
                host!($text),
                |_| true,
            );)*
        };
    }
    near! {
        "fsin" Sine;
        "fcos" Cosine;
        "fsincos" SineAndCosine;
        "fptan" Tangent;
        "fpatan" Arctangent;
        "fyl2x" YLog2X;
        "f2xm1" Exp2Minus1;
    }
}

/// The x87 part of FXSAVE, but for the pointers and MXCSR, which the host has of its own.
#[test]
fn fxsave_equals_the_host() {
    #[repr(align(16))]
    struct Area([u8; 512]);
    let mut random = Random::new(31);
    for _ in 0..ROUNDS {
        let fpu = state(&mut random);
        let before = image(&fpu);
        let mut area = Area([0; 512]);
        // SAFETY: reads one buffer, writes the other, and leaves the x87 unit as FNINIT does,
        // which is the state that the ABI asks for.
        unsafe {
            asm!(
                "frstor [{image}]",
                "fxsave [{area}]",
                "fninit",
                image = in(reg) &raw const before,
                area = in(reg) &raw mut area,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        let ours = fpu.fxsave(true, false);
        assert_eq!(ours[..6], area.0[..6], "{fpu:x?}");
        assert_eq!(ours[32..160], area.0[32..160], "{fpu:x?}");
        let mut back = Fpu::default();
        back.fxrstor(&ours, true, false);
        assert_eq!(back, fpu);
    }
}
