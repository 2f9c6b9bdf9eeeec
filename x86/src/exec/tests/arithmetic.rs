//! ALU, shifts, multiplication and division, BCD.

use iced_x86::code_asm::*;

use super::{AF, Assemble, CF, Machine, OF, PF, SF, ZF};
use crate::{
    class::Class,
    insn::{Form, gpr},
    lower::Lowered,
    mode::CodeSize,
    operation::Operation,
    stop::{Exec, Stop},
};

/// Runs one instruction on RAX and returns RAX and the arithmetic flags.
fn on_rax(code: CodeSize, value: u64, flags: u64, assemble: Assemble) -> (u64, u64) {
    let mut m = Machine::new(code);
    m.set(gpr::RAX, value);
    m.set_flags(flags);
    m.exec(assemble).expect("no exception");
    (m.get(gpr::RAX), m.flags())
}

const LONG: CodeSize = CodeSize::Bits64;
const LEGACY: CodeSize = CodeSize::Bits32;

/// APM 3, ADD, ADC, SUB, SBB, CMP: results and all six flags.
#[test]
fn sums_and_differences() {
    // 7fffffff + 1: signed overflow, carry out of bit 3; the upper half of RAX is cleared.
    assert_eq!(
        on_rax(LONG, 0xffff_ffff_7fff_ffff, 0, |a| a.add(eax, 1)),
        (0x8000_0000, SF | OF | AF | PF)
    );
    // ff + 0 + carry: wraps to zero; the rest of RAX stays.
    assert_eq!(on_rax(LONG, 0x1_00ff, CF, |a| a.adc(al, 0)), (0x1_0000, CF | AF | ZF | PF));
    // AH is bits 15:8. 01 - 02 = ff: a borrow, eight ones in the low byte.
    assert_eq!(on_rax(LONG, 0x0133, 0, |a| a.sub(ah, 2)), (0xff33, CF | AF | SF | PF));
    // 0 - 8000_0000_0000_0000 - 1 = 7fff..: borrow, and positive from "minus a negative".
    assert_eq!(
        on_rax(LONG, 0, CF, |a| {
            a.db(&[0x48, 0x1d, 0x00, 0x00, 0x00, 0x80]) // SBB RAX, imm32 sign-extended
        }),
        (0x7fff_ffff, CF | PF | AF)
    );
    // 8000 compared with 1: signed overflow; the operand stays.
    assert_eq!(on_rax(LONG, 0x8000, 0, |a| a.cmp(ax, 1)), (0x8000, OF | AF | PF));
}

/// APM 3, AND, OR, XOR, TEST: CF and OF are cleared.
#[test]
fn logic_clears_carry_and_overflow() {
    assert_eq!(on_rax(LONG, 0xf0f0, CF | OF, |a| a.and(ax, 0x8f0)), (0x00f0, PF));
    assert_eq!(on_rax(LONG, 0xf0, CF | OF, |a| a.or(al, 0x0e)), (0xfe, SF));
    assert_eq!(on_rax(LONG, u64::MAX, CF | OF, |a| a.xor(eax, eax)), (0, ZF | PF));
    assert_eq!(on_rax(LONG, 0x80, CF | OF, |a| a.test(al, al)), (0x80, SF));
}

/// APM 3, INC, DEC: CF stays; NEG: CF is set unless the operand was zero; NOT: no flags.
#[test]
fn one_operand() {
    assert_eq!(on_rax(LONG, 0xff, CF, |a| a.inc(al)), (0, CF | ZF | AF | PF));
    assert_eq!(on_rax(LONG, 0x7f, 0, |a| a.inc(al)), (0x80, OF | SF | AF));
    assert_eq!(on_rax(LONG, 0x8000, CF, |a| a.dec(ax)), (0x7fff, CF | OF | AF | PF));
    assert_eq!(on_rax(LONG, 0, CF, |a| a.neg(eax)), (0, ZF | PF));
    assert_eq!(on_rax(LONG, 0x80, 0, |a| a.neg(al)), (0x80, CF | OF | SF));
    assert_eq!(on_rax(LONG, 0, CF | ZF, |a| a.not(eax)), (0xffff_ffff, CF | ZF));
}

/// An operand in memory: read, changed, written; with the classes that LOCK makes.
#[test]
fn memory_operands() {
    let mut m = Machine::new(LONG);
    m.write_u64(0x5000, 0x1122_3344_5566_7788);
    m.set(gpr::RBX, 0x4ff0);
    m.set(gpr::RCX, 2);
    m.set(gpr::RAX, 0x11);
    m.exec(|a| a.add(byte_ptr(rbx + rcx * 8), al)).unwrap();
    assert_eq!(m.read_u64(0x5000), 0x1122_3344_5566_7799);
    m.exec(|a| a.sub(rax, qword_ptr(0x5000))).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x11u64.wrapping_sub(0x1122_3344_5566_7799));
    let locked = m.decode(|a| a.lock().add(dword_ptr(rbx), eax));
    let Lowered { insn, class, .. } = m.lower(&locked);
    assert_eq!((class, insn.op, insn.form), (Class::LOCKED, Operation::Add, Form::MemReg));
    let unlocked = m.decode(|a| a.add(dword_ptr(rbx), eax));
    assert_eq!(m.lower(&unlocked).class, Class::NONE);
}

/// A fault leaves registers and flags as they were: here the word at FFFFh of a 64 KiB segment.
#[test]
fn fault_changes_nothing() {
    let mut m = Machine::new(CodeSize::Bits16);
    m.set(gpr::RAX, 0x1234);
    m.set(gpr::RBX, 0xffff);
    m.set_flags(OF | ZF);
    assert_eq!(m.exec(|a| a.xor(ax, word_ptr(bx))), Err(Stop::GP0));
    assert_eq!(m.exec(|a| a.inc(word_ptr(bx))), Err(Stop::GP0));
    assert_eq!(m.exec(|a| a.xadd(word_ptr(bx), ax)), Err(Stop::GP0));
    assert_eq!((m.get(gpr::RAX), m.flags(), m.cpu.rip), (0x1234, OF | ZF, 0x1000));
}

/// APM 3, RCL, RCR: the ring has one bit more than the operand; a count of 9 or 17 is a full turn.
#[test]
fn rotates_through_carry() {
    assert_eq!(on_rax(LONG, 0x80, CF, |a| a.rcl(al, 1)), (0x01, CF | OF));
    assert_eq!(on_rax(LONG, 0x5a, CF, |a| a.rcl(al, 9)), (0x5a, CF));
    assert_eq!(on_rax(LONG, 0x1234, CF, |a| a.rcr(ax, 17)), (0x1234, CF));
    // 17-bit ring 0_8421h turned left by 5 is 0_8428h.
    let (value, flags) = on_rax(LONG, 0x8421, 0, |a| a.rcl(ax, 5));
    assert_eq!((value, flags & CF), (0x8428, 0));
    // Carry in at the top, bit 0 out: 1 -> 8000_0000h; OF is the exclusive or of the top two bits.
    assert_eq!(on_rax(LONG, 1, CF, |a| a.rcr(eax, 1)), (0x8000_0000, CF | OF));
    // The count is masked to five bits: 33 is 1. Six with 64 bits.
    assert_eq!(on_rax(LONG, 0x8000_0000, 0, |a| a.rcl(eax, 33)), (0, CF | OF));
    let (value, flags) = on_rax(LONG, 1, 0, |a| a.rcl(rax, 33));
    assert_eq!((value, flags & CF), (1 << 33, 0));
    // 63 to the left is two to the right in a ring of 65: bit 1 goes to CF, bit 0 to bit 63.
    let (value, flags) = on_rax(LONG, 0b110, 0, |a| a.rcl(rax, 63));
    assert_eq!((value, flags & CF), (1, CF));
}

/// APM 3, ROL, ROR: only CF and OF change; CF is set even by a count that is a full turn.
#[test]
fn rotates() {
    assert_eq!(on_rax(LONG, 0x81, ZF | SF, |a| a.rol(al, 1)), (0x03, ZF | SF | CF | OF));
    assert_eq!(on_rax(LONG, 0x81, ZF, |a| a.ror(al, 1)), (0xc0, ZF | CF));
    let (value, flags) = on_rax(LONG, 0x81, ZF, |a| a.rol(al, 8));
    assert_eq!((value, flags & (CF | ZF)), (0x81, CF | ZF));
    let (value, flags) = on_rax(LONG, 0x7fff, CF, |a| a.ror(ax, 16));
    assert_eq!((value, flags & CF), (0x7fff, 0));
    assert_eq!(on_rax(LONG, 0x1234, CF | OF, |a| a.rol(eax, 32)), (0x1234, CF | OF));
}

/// APM 3, SHL, SHR, SAR.
#[test]
fn shifts() {
    assert_eq!(on_rax(LONG, 0xc0, 0, |a| a.shl(al, 1)), (0x80, CF | SF));
    assert_eq!(on_rax(LONG, 0x80, 0, |a| a.shl(al, 1)), (0, CF | OF | ZF | PF));
    assert_eq!(on_rax(LONG, 0x8001, 0, |a| a.shr(ax, 1)), (0x4000, CF | OF | PF));
    assert_eq!(on_rax(LONG, 0x8001, 0, |a| a.sar(ax, 1)), (0xc000, CF | SF | PF));
    // A count beyond an 8-bit operand: all sign.
    assert_eq!(on_rax(LONG, 0x80, 0, |a| a.sar(al, 31)), (0xff, CF | SF | PF));
    assert_eq!(on_rax(LONG, 0xff, CF, |a| a.shr(al, 20)).0, 0);
    assert_eq!(on_rax(LONG, 1, 0, |a| a.shl(rax, 63)).0, 1 << 63);
    // A masked count of zero leaves the flags, and clears the upper half all the same.
    assert_eq!(
        on_rax(LONG, 0xffff_0000_0000_0001, CF | OF | ZF, |a| a.shl(eax, 32)),
        (1, CF | OF | ZF)
    );
}

/// APM 3, SHLD, SHRD, by CL and by an immediate.
#[test]
fn double_shifts() {
    let run = |value: u64, fill: u64, count: u64, assemble: Assemble| {
        let mut m = Machine::new(LONG);
        m.set(gpr::RAX, value);
        m.set(gpr::RDX, fill);
        m.set(gpr::RCX, count);
        m.exec(assemble).expect("no exception");
        (m.get(gpr::RAX), m.flags() & CF)
    };
    assert_eq!(run(0x1234, 0xabcd, 0, |a| a.shld(ax, dx, 4)), (0x234a, CF));
    assert_eq!(run(0x1234_5678, 0x9abc_def0, 0, |a| a.shrd(eax, edx, 8)), (0xf012_3456, 0));
    // 36 is 4 with 32 bits, and 36 with 64.
    assert_eq!(run(0x1234_5678, 0x9abc_def0, 36, |a| a.shld(eax, edx, cl)), (0x2345_6789, CF));
    assert_eq!(
        run(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 36, |a| a.shld(rax, rdx, cl)),
        (0x9abc_deff_edcb_a987, 0)
    );
    assert_eq!(
        run(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 60, |a| a.shrd(rax, rdx, cl)),
        (0xedcb_a987_6543_2100, 0)
    );
    // 16 bits by 16: all of the source; the last bit out is bit 0 of the destination.
    assert_eq!(run(0x8123, 0x4567, 16, |a| a.shld(ax, dx, cl)), (0x4567, CF));
    // Beyond 16 (undefined; measured on an AMD EPYC processor) the source comes around again.
    assert_eq!(run(0x8123, 0x4567, 20, |a| a.shld(ax, dx, cl)), (0x5674, 0));
    assert_eq!(run(0x8123, 0x4567, 20, |a| a.shrd(ax, dx, cl)), (0x7456, 0));
    // OF with a count of one: the sign changed.
    let mut m = Machine::new(LONG);
    m.set(gpr::RAX, 0x4000_0000);
    m.exec(|a| a.shld(eax, edx, 1)).unwrap();
    assert_eq!(m.flags(), OF | SF | PF);
}

/// APM 3, MUL, IMUL: CF and OF say whether the high half holds anything.
#[test]
fn products() {
    let overflow = |(value, flags): (u64, u64)| (value, flags & (CF | OF));
    let by = |a: u64, b: u64, assemble: Assemble| {
        let mut m = Machine::new(LONG);
        m.set(gpr::RAX, a);
        m.set(gpr::RBX, b);
        m.set(gpr::RDX, 0x5555_5555_5555_5555);
        m.exec(assemble).expect("no exception");
        (m.get(gpr::RAX), m.get(gpr::RDX), m.flags() & (CF | OF))
    };
    const OLD: u64 = 0x5555_5555_5555_5555;
    assert_eq!(by(0xff10, 0x10, |a| a.mul(bl)), (0x0100, OLD, CF | OF));
    assert_eq!(by(0xff0f, 0x10, |a| a.mul(bl)), (0x00f0, OLD, 0));
    // -128 * -1 = 128, which does not fit into AL.
    assert_eq!(by(0x80, 0xff, |a| a.imul(bl)), (0x0080, OLD, CF | OF));
    assert_eq!(by(0xff, 0xff, |a| a.imul(bl)), (0x0001, OLD, 0));
    assert_eq!(by(0x8000, 2, |a| a.mul(bx)), (0, OLD & !0xffff | 1, CF | OF));
    assert_eq!(by(u64::MAX, u64::MAX, |a| a.mul(ebx)), (1, 0xffff_fffe, CF | OF));
    assert_eq!(by(u64::MAX, u64::MAX, |a| a.mul(rbx)), (1, u64::MAX - 1, CF | OF));
    assert_eq!(by(u64::MAX, u64::MAX, |a| a.imul(rbx)), (1, 0, 0));
    assert_eq!(by(1 << 63, 2, |a| a.imul(rbx)), (0, u64::MAX, CF | OF));
    assert_eq!(by(0x4000, 2, |a| a.imul_2(ax, bx)), (0x8000, OLD, CF | OF));
    assert_eq!(by(0x1_0000, 0x1_0000, |a| a.imul_2(eax, ebx)), (0, OLD, CF | OF));
    assert_eq!(by(7, u64::MAX, |a| a.imul_2(rax, rbx)), (7u64.wrapping_neg(), OLD, 0));
    assert_eq!(by(0, 5, |a| a.imul_3(eax, ebx, -3)), (0xffff_fff1, OLD, 0));
    assert_eq!(overflow(on_rax(LONG, 0x100, 0, |a| a.imul_3(ax, ax, 0x80))), (0x8000, CF | OF));
}

/// RAX and RDX after a division by RBX.
fn divide(low: u64, high: u64, divisor: u64, assemble: Assemble) -> Exec<(u64, u64)> {
    let mut m = Machine::new(LONG);
    m.set(gpr::RAX, low);
    m.set(gpr::RDX, high);
    m.set(gpr::RBX, divisor);
    let result = m.exec(assemble);
    if result.is_err() {
        assert_eq!((m.get(gpr::RAX), m.get(gpr::RDX)), (low, high));
    }
    result.map(|()| (m.get(gpr::RAX), m.get(gpr::RDX)))
}

/// APM 3, DIV: #DE for zero and for a quotient that does not fit.
#[test]
fn unsigned_quotients() {
    assert_eq!(divide(0x00ff, 0, 1, |a| a.div(bl)), Ok((0x00ff, 0)));
    assert_eq!(divide(0x0100, 0, 1, |a| a.div(bl)), Err(Stop::DE));
    assert_eq!(divide(0x0107, 0, 0x10, |a| a.div(bl)), Ok((0x0710, 0)));
    assert_eq!(divide(5, 0, 0, |a| a.div(ebx)), Err(Stop::DE));
    assert_eq!(divide(0, 1, 2, |a| a.div(ebx)), Ok((0x8000_0000, 0)));
    assert_eq!(divide(0, 2, 2, |a| a.div(ebx)), Err(Stop::DE));
    assert_eq!(divide(7, 1, 2, |a| a.div(rbx)), Ok(((1 << 63) + 3, 1)));
    assert_eq!(divide(0, 1, 1, |a| a.div(rbx)), Err(Stop::DE));
}

/// APM 3, IDIV: truncates towards zero, the remainder has the dividend's sign.
#[test]
fn signed_quotients() {
    const MINUS: fn(u64) -> u64 = u64::wrapping_neg;
    assert_eq!(divide(0xff80, 0, 1, |a| a.idiv(bl)), Ok((0x0080, 0)));
    assert_eq!(divide(0x0080, 0, 1, |a| a.idiv(bl)), Err(Stop::DE));
    assert_eq!(divide(0xff80, 0, 0xff, |a| a.idiv(bl)), Err(Stop::DE));
    assert_eq!(divide(MINUS(7), u64::MAX, 2, |a| a.idiv(ebx)), Ok((0xffff_fffd, 0xffff_ffff)));
    assert_eq!(divide(MINUS(7), u64::MAX, MINUS(2), |a| a.idiv(rbx)), Ok((3, u64::MAX)));
    assert_eq!(divide(1 << 63, u64::MAX, 1, |a| a.idiv(rbx)), Ok((1 << 63, 0)));
    assert_eq!(divide(1 << 63, u64::MAX, u64::MAX, |a| a.idiv(rbx)), Err(Stop::DE));
    // The most negative 128-bit dividend.
    assert_eq!(divide(0, 1 << 63, u64::MAX, |a| a.idiv(rbx)), Err(Stop::DE));
    assert_eq!(divide(0, 0, 0, |a| a.idiv(rbx)), Err(Stop::DE));
}

/// APM 3, CBW, CWDE, CDQE, CWD, CDQ, CQO.
#[test]
fn sign_extensions() {
    const VALUE: u64 = 0x1111_2222_8333_44f0;
    assert_eq!(on_rax(LONG, VALUE, 0, CodeAssembler::cbw).0, 0x1111_2222_8333_fff0);
    assert_eq!(on_rax(LONG, VALUE, 0, CodeAssembler::cwde).0, 0x44f0);
    assert_eq!(on_rax(LONG, VALUE, 0, CodeAssembler::cdqe).0, 0xffff_ffff_8333_44f0);
    let high = |assemble: Assemble| {
        let mut m = Machine::new(LONG);
        m.set(gpr::RAX, VALUE);
        m.set(gpr::RDX, 0x7777_7777_7777_7777);
        m.exec(assemble).unwrap();
        m.get(gpr::RDX)
    };
    assert_eq!(high(CodeAssembler::cwd), 0x7777_7777_7777_0000);
    assert_eq!(high(CodeAssembler::cdq), 0xffff_ffff);
    assert_eq!(high(CodeAssembler::cqo), 0);
}

/// Intel SDM volume 2, DAA and DAS, their examples; OF is undefined.
#[test]
fn packed_decimal() {
    const DEFINED: u64 = CF | PF | AF | ZF | SF;
    let defined = |(value, flags): (u64, u64)| (value, flags & DEFINED);
    assert_eq!(defined(on_rax(LEGACY, 0xae, OF | SF, CodeAssembler::daa)), (0x14, AF | PF | CF));
    assert_eq!(
        defined(on_rax(LEGACY, 0xee, SF | AF | PF | CF, CodeAssembler::das)),
        (0x88, SF | AF | PF | CF)
    );
    // 9ah: both digits overflow, to zero.
    assert_eq!(defined(on_rax(LEGACY, 0x9a, 0, CodeAssembler::daa)), (0, ZF | PF | AF | CF));
    assert_eq!(defined(on_rax(LEGACY, 0x42, 0, CodeAssembler::daa)), (0x42, PF));
    // AF alone borrows six from 03h: CF.
    assert_eq!(defined(on_rax(LEGACY, 0x03, AF, CodeAssembler::das)), (0xfd, SF | AF | CF));
}

/// APM 3, AAA, AAS, AAM, AAD.
#[test]
fn unpacked_decimal() {
    let carries = |(value, flags): (u64, u64)| (value, flags & (AF | CF));
    assert_eq!(carries(on_rax(LEGACY, 0x000f, 0, CodeAssembler::aaa)), (0x0105, AF | CF));
    assert_eq!(carries(on_rax(LEGACY, 0x0309, CF, CodeAssembler::aaa)), (0x0309, 0));
    assert_eq!(carries(on_rax(LEGACY, 0x0239, AF, CodeAssembler::aaa)), (0x030f, AF | CF));
    assert_eq!(carries(on_rax(LEGACY, 0x020f, 0, CodeAssembler::aas)), (0x0109, AF | CF));
    assert_eq!(on_rax(LEGACY, 63, 0, |a| a.aam(10)), (0x0603, PF));
    assert_eq!(on_rax(LEGACY, 0x0603, 0, |a| a.aad(10)), (63, PF));
    assert_eq!(on_rax(LEGACY, 0x0100, 0, |a| a.aad(0x80)), (0x80, SF));
    let mut m = Machine::new(LEGACY);
    assert_eq!(m.exec(|a| a.aam(0)), Err(Stop::DE));
}
