//! Moves, exchanges, bits and flags.

use iced_x86::{Code, code_asm::*};

use super::{AF, CF, CODE, DF, Machine, OF, PF, SF, Unconnected, ZF};
use crate::{
    class::{Class, ClassCount},
    handler::handler,
    insn::{Size, gpr},
    lower::{Lowering, lower_block},
    mode::CodeSize,
    observe::{Cx, Plain},
    operation::Operation,
    stop::Stop,
    timing::CycleCosts,
};

const LONG: CodeSize = CodeSize::Bits64;
const OLD: u64 = 0x1111_2222_3333_4444;

fn long(registers: &[(u8, u64)]) -> Machine {
    let mut m = Machine::new(LONG);
    for &(r, value) in registers {
        m.set(r, value);
    }
    m
}

/// APM 1, section 3.1.2: 8- and 16-bit results leave the rest of the register, 32-bit results clear
/// its upper half.
#[test]
fn widths_of_moves() {
    let mut m = long(&[(gpr::RAX, OLD), (gpr::RBX, 0xaaaa_bbbb_cccc_dddd)]);
    m.exec(|a| a.mov(ah, bl)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x1111_2222_3333_dd44);
    m.exec(|a| a.mov(ax, bx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x1111_2222_3333_dddd);
    m.exec(|a| a.mov(eax, ebx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xcccc_dddd);
}

/// APM 3, MOV: immediates are sign-extended from 32 bits except in B8+r; moffs is an address.
#[test]
fn immediates_and_offsets() {
    let mut m = long(&[]);
    m.exec_bytes(&[0x48, 0xc7, 0xc0, 0x00, 0x00, 0x00, 0x80]).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xffff_ffff_8000_0000);
    m.exec_bytes(&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x0807_0605_0403_0201);
    // MOV [moffs64], EAX; MOV AL, [moffs64].
    m.exec_bytes(&[0xa3, 0x00, 0x30, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(m.read_u64(0x3000), 0x0403_0201);
    m.exec_bytes(&[0xa0, 0x03, 0x30, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x0807_0605_0403_0204);
    // MOV word [RIP+100h], 8001h: RIP is that of the next instruction, nine bytes on.
    let rip = m.cpu.rip;
    m.exec_bytes(&[0x66, 0xc7, 0x05, 0x00, 0x01, 0, 0, 0x01, 0x80]).unwrap();
    assert_eq!(m.read_u16(rip + 9 + 0x100), 0x8001);
}

/// APM 3, MOVZX, MOVSX, MOVSXD.
#[test]
fn extensions() {
    let mut m = long(&[(gpr::RBX, 0x8899_aabb_ccdd_84f0)]);
    m.set(gpr::RAX, OLD);
    m.exec(|a| a.movsx(ax, bl)).unwrap();
    assert_eq!(m.get(gpr::RAX), OLD & !0xffff | 0xfff0);
    m.exec(|a| a.movzx(eax, bh)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x84);
    m.exec(|a| a.movsx(eax, bx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xffff_84f0);
    m.exec(|a| a.movzx(rax, bx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x84f0);
    m.exec(|a| a.movsxd(rax, ebx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xffff_ffff_ccdd_84f0);
    m.write_u64(0x3000, 0x80);
    m.exec(|a| a.movsx(rax, byte_ptr(0x3000))).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xffff_ffff_ffff_ff80);
}

/// APM 3, LEA: the address size cuts the sum, the operand size the result.
#[test]
fn addresses() {
    let mut m = long(&[(gpr::RBX, 0xffff_fff0), (gpr::RCX, 0x10), (gpr::RAX, OLD)]);
    m.exec(|a| a.lea(rax, ptr(rbx + rcx * 4 + 8))).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x1_0000_0038);
    m.exec(|a| a.lea(rax, ptr(ebx + ecx * 4 + 8))).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x38);
    m.set(gpr::RAX, OLD);
    m.exec(|a| a.lea(ax, ptr(rbx - 1))).unwrap();
    assert_eq!(m.get(gpr::RAX), OLD & !0xffff | 0xffef);
}

/// Every condition under every combination of flags, by the table of APM 3, Jcc; SETcc and CMOVcc.
#[test]
fn conditions() {
    for bits in 0..32u64 {
        let on = |n: u64| bits >> n & 1 != 0;
        let (cf, pf, zf, sf, of) = (on(0), on(1), on(2), on(3), on(4));
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(cf, CF) | flag(pf, PF) | flag(zf, ZF) | flag(sf, SF) | flag(of, OF);
        let table = [
            of,
            !of,
            cf,
            !cf,
            zf,
            !zf,
            cf || zf,
            !cf && !zf,
            sf,
            !sf,
            pf,
            !pf,
            sf != of,
            sf == of,
            zf || sf != of,
            !zf && sf == of,
        ];
        for (code, holds) in (0u8..).zip(table) {
            let mut m = long(&[(gpr::RAX, OLD), (gpr::RBX, 0xaaaa_bbbb_cccc_dddd)]);
            m.set_flags(flags);
            m.exec_bytes(&[0x0f, 0x90 + code, 0xc1]).unwrap(); // SETcc CL
            assert_eq!(m.get(gpr::RCX), u64::from(holds), "{code} {flags:x}");
            m.exec_bytes(&[0x0f, 0x40 + code, 0xc3]).unwrap(); // CMOVcc EAX, EBX
            let moved = if holds { 0xcccc_dddd } else { OLD & 0xffff_ffff };
            assert_eq!(m.get(gpr::RAX), moved, "{code} {flags:x}");
            let rip = m.cpu.rip;
            m.exec_bytes(&[0x70 + code, 0x10]).unwrap(); // Jcc +10h
            assert_eq!(m.cpu.rip, rip + 2 + if holds { 0x10 } else { 0 });
            assert_eq!(m.flags(), flags);
        }
    }
}

/// APM 3, CMOVcc: memory is read, and may fault, whatever the condition.
#[test]
fn conditional_move_reads_always() {
    let mut m = Machine::new(CodeSize::Bits16);
    m.set(gpr::RBX, 0xffff);
    m.set_flags(ZF);
    assert_eq!(m.exec(|a| a.cmovne(ax, word_ptr(bx))), Err(Stop::GP0));
    let m = Machine::new(LONG);
    let lowered = m.lower(&m.decode(|a| a.cmovg(rax, qword_ptr(rbx)))).insn;
    assert_eq!((lowered.op, lowered.aux, lowered.size), (Operation::Cmovcc, 15, Size::B8));
}

/// APM 3, BSWAP; with 16 bits undefined, and zero as measured on an AMD EPYC processor. XLAT.
#[test]
fn byte_orders_and_tables() {
    let mut m = long(&[(gpr::RAX, OLD)]);
    m.exec(|a| a.bswap(rax)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x4444_3333_2222_1111);
    m.exec(|a| a.bswap(eax)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x1111_2222);
    m.exec_bytes(&[0x66, 0x0f, 0xc8]).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x1111_0000);
    m.set(gpr::RAX, 0xffff_ff80);
    m.set(gpr::RBX, 0x3000);
    m.write(0x3080, &[0x5a]);
    m.exec(CodeAssembler::xlatb).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xffff_ff5a);
}

/// APM 3, XCHG: locked with memory, prefix or not. XADD.
#[test]
fn exchanges() {
    let mut m = long(&[(gpr::RAX, 0x1122), (gpr::RBX, 0x3000)]);
    m.exec(|a| a.xchg(al, ah)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x2211);
    m.write_u64(0x3000, u64::MAX);
    m.exec(|a| a.xchg(dword_ptr(rbx), eax)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.read_u64(0x3000)), (0xffff_ffff, 0xffff_ffff_0000_2211));
    let class = |m: &Machine, i| m.lower(&i).class;
    assert_eq!(class(&m, m.decode(|a| a.xchg(dword_ptr(rbx), eax))), Class::LOCKED);
    assert_eq!(class(&m, m.decode(|a| a.xchg(ecx, edx))), Class::NONE);
    m.set(gpr::RAX, 0xff);
    m.set(gpr::RCX, 1);
    m.exec(|a| a.xadd(cl, al)).unwrap();
    assert_eq!((m.get(gpr::RCX), m.get(gpr::RAX)), (0, 1));
    assert_eq!(m.flags(), CF | ZF | AF | PF);
    // Both operands the same register: the sum stays.
    m.set(gpr::RAX, 3);
    m.exec(|a| a.xadd(eax, eax)).unwrap();
    assert_eq!(m.get(gpr::RAX), 6);
    m.set(gpr::RAX, 5);
    m.exec(|a| a.lock().xadd(dword_ptr(rbx), eax)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.read_u32(0x3000)), (0x2211, 0x2216));
}

/// APM 3, CMPXCHG. That a 32-bit register operand keeps its upper half when it differs, and RAX its
/// when it is equal, was measured on an AMD EPYC processor.
#[test]
fn compare_and_exchange() {
    const A: u64 = 0xaaaa_0000_0000_0001;
    const B: u64 = 0xbbbb_0000_0000_0002;
    let mut m = long(&[(gpr::RAX, A), (gpr::RBX, B), (gpr::RCX, 3)]);
    m.exec(|a| a.cmpxchg(ebx, ecx)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.get(gpr::RBX)), (2, B));
    assert_eq!(m.flags(), CF | AF | SF | PF);
    m.set(gpr::RAX, A + 1);
    m.exec(|a| a.cmpxchg(ebx, ecx)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.get(gpr::RBX)), (A + 1, 3));
    assert_eq!(m.flags(), ZF | PF);
    m.write_u64(0x3000, A + 1);
    m.exec(|a| a.lock().cmpxchg(qword_ptr(0x3000), rcx)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.read_u64(0x3000)), (A + 1, 3));
    m.exec(|a| a.cmpxchg(byte_ptr(0x3000), dl)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.read_u64(0x3000)), (A + 2, 3));
}

/// APM 3, CMPXCHG8B: only ZF changes.
#[test]
fn compare_and_exchange_8_bytes() {
    let mut m = long(&[
        (gpr::RAX, 0xffff_ffff_3333_4444),
        (gpr::RDX, 0x1111_2222),
        (gpr::RBX, 0xaaaa_bbbb),
        (gpr::RCX, 0xcccc_dddd),
    ]);
    m.write_u64(0x3000, OLD);
    m.write_u64(0x3008, 0x7777_7777_8888_8888);
    m.set_flags(CF | SF | OF | PF);
    m.exec(|a| a.cmpxchg8b(qword_ptr(0x3000))).unwrap();
    assert_eq!((m.read_u64(0x3000), m.flags()), (0xcccc_dddd_aaaa_bbbb, CF | SF | OF | PF | ZF));
    assert_eq!(m.get(gpr::RAX), 0xffff_ffff_3333_4444);
    m.exec(|a| a.cmpxchg8b(qword_ptr(0x3008))).unwrap();
    assert_eq!((m.get(gpr::RDX), m.get(gpr::RAX)), (0x7777_7777, 0x8888_8888));
    assert_eq!((m.read_u64(0x3008), m.flags()), (0x7777_7777_8888_8888, CF | SF | OF | PF));
}

/// APM 3, CMPXCHG16B: #GP(0) unless aligned to 16 bytes.
#[test]
fn compare_and_exchange_16_bytes() {
    let mut m = long(&[(gpr::RAX, 1), (gpr::RDX, 2), (gpr::RBX, 3), (gpr::RCX, 4)]);
    m.cpu.features.cx16 = true;
    m.write_u64(0x3000, 1);
    m.write_u64(0x3008, 2);
    assert_eq!(m.exec(|a| a.cmpxchg16b(xmmword_ptr(0x3008))), Err(Stop::GP0));
    m.exec(|a| a.cmpxchg16b(xmmword_ptr(0x3000))).unwrap();
    assert_eq!((m.read_u64(0x3000), m.read_u64(0x3008), m.flags()), (3, 4, ZF));
    m.exec(|a| a.cmpxchg16b(xmmword_ptr(0x3000))).unwrap();
    assert_eq!((m.get(gpr::RAX), m.get(gpr::RDX), m.flags()), (3, 4, 0));
}

/// APM 3, BT, BTS, BTR, BTC: an index in a register reaches beyond the operand in memory, to both
/// sides; an immediate and a register destination do not. ZF stays.
#[test]
fn bit_strings() {
    let mut m = long(&[(gpr::RBX, 0x3000), (gpr::RCX, 0xffff_ffff), (gpr::RAX, 0xffef)]);
    m.set_flags(ZF);
    // Bit -1 is bit 31 of the doubleword before.
    m.exec(|a| a.bts(dword_ptr(rbx), ecx)).unwrap();
    assert_eq!((m.read_u32(0x2ffc), m.flags()), (0x8000_0000, ZF));
    m.exec(|a| a.btr(dword_ptr(rbx), ecx)).unwrap();
    assert_eq!((m.read_u32(0x2ffc), m.flags()), (0, ZF | CF));
    // Bit -17 with 16 bits: bit 15 of the second word before.
    m.exec(|a| a.btc(word_ptr(rbx), ax)).unwrap();
    assert_eq!((m.read_u16(0x2ffc), m.flags()), (0x8000, ZF));
    m.exec(|a| a.bt(word_ptr(rbx), ax)).unwrap();
    assert_eq!(m.flags(), ZF | CF);
    // Bit 2^15 + 3, that is 4 KiB on.
    m.set(gpr::RDX, 0x8003);
    m.exec(|a| a.bts(qword_ptr(rbx), rdx)).unwrap();
    assert_eq!(m.read_u64(0x4000), 8);
    m.exec(|a| a.bts(qword_ptr(rbx), 65)).unwrap();
    assert_eq!(m.read_u64(0x3000), 2);
    m.set(gpr::RAX, OLD);
    m.exec(|a| a.btc(eax, edx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 0x3333_444c);
}

/// APM 3, BSF, BSR: a source of zero sets ZF and leaves the destination (all of it, as measured on
/// an AMD EPYC processor).
#[test]
fn bit_scans() {
    let mut m = long(&[(gpr::RAX, OLD), (gpr::RBX, 0)]);
    m.exec(|a| a.bsf(eax, ebx)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.flags() & ZF), (OLD, ZF));
    m.set(gpr::RBX, 0x0000_8000_0010_0000);
    m.exec(|a| a.bsf(rax, rbx)).unwrap();
    assert_eq!((m.get(gpr::RAX), m.flags() & ZF), (20, 0));
    m.exec(|a| a.bsr(rax, rbx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 47);
    m.exec(|a| a.bsr(eax, ebx)).unwrap();
    assert_eq!(m.get(gpr::RAX), 20);
}

/// APM 3, LAHF, SAHF, CLC, STC, CMC, CLD, STD, SALC (undocumented: AL is all CF).
#[test]
fn single_flags() {
    let mut m = long(&[(gpr::RAX, 0xff00)]);
    m.set_flags(OF);
    m.exec(CodeAssembler::sahf).unwrap();
    assert_eq!(m.flags(), CF | PF | AF | ZF | SF | OF);
    m.set(gpr::RAX, 0);
    m.exec(CodeAssembler::lahf).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xd700);
    m.exec(CodeAssembler::cmc).unwrap();
    assert_eq!(m.flags(), PF | AF | ZF | SF | OF);
    m.exec(CodeAssembler::stc).unwrap();
    assert_eq!(m.flags() & (CF | OF), CF | OF);
    m.exec(CodeAssembler::clc).unwrap();
    assert_eq!(m.flags() & (CF | OF), OF);
    m.exec(CodeAssembler::std).unwrap();
    assert_eq!(m.cpu.rflags() & DF, DF);
    m.exec(CodeAssembler::cld).unwrap();
    assert_eq!(m.cpu.rflags() & DF, 0);
    let mut m = Machine::new(CodeSize::Bits32);
    m.set_flags(CF);
    m.exec_bytes(&[0xd6]).unwrap();
    assert_eq!(m.get(gpr::RAX), 0xff);
}

/// APM 3, LAHF: CPUID 8000_0001 ECX bit 0 says whether it exists in 64-bit mode.
#[test]
fn lahf_is_a_feature_of_64_bit_mode() {
    let mut m = Machine::new(LONG);
    m.cpu.features.lahf_lm = false;
    assert_eq!(m.exec(CodeAssembler::lahf), Err(Stop::UD));
    let mut m = Machine::new(CodeSize::Bits32);
    m.cpu.features.lahf_lm = false;
    assert_eq!(m.exec(CodeAssembler::lahf), Ok(()));
}

/// APM 3, section 1.2.5: LOCK on an instruction, or a destination, that cannot take it is #UD. The
/// decoder sees to that; this holds it to it.
#[test]
fn lock_where_it_cannot_be() {
    let m = Machine::new(LONG);
    let bad: [&[u8]; 5] = [
        &[0xf0, 0x01, 0xc8],       // LOCK ADD EAX, ECX
        &[0xf0, 0x03, 0x03],       // LOCK ADD EAX, [RBX]
        &[0xf0, 0x39, 0x03],       // LOCK CMP [RBX], EAX
        &[0xf0, 0x0f, 0xa3, 0x03], // LOCK BT [RBX], EAX
        &[0xf0, 0x90],             // LOCK NOP
    ];
    for bytes in bad {
        assert_eq!(m.decode_bytes(bytes).code(), Code::INVALID, "{bytes:x?}");
    }
    assert_eq!(m.decode_bytes(&[0xf0, 0x01, 0x0b]).code(), Code::Add_rm32_r32);
}

/// NOPs touch nothing, prefetches count by kind, CLFLUSH faults like a read, UD2 is #UD.
#[test]
fn hints() {
    let mut m = Machine::new(CodeSize::Bits16);
    m.set(gpr::RBX, 0xffff);
    m.exec_bytes(&[0x0f, 0x1f, 0x07]).unwrap(); // NOP word [BX], beyond the limit
    m.exec(|a| a.prefetcht0(byte_ptr(bx))).unwrap();
    m.exec(|a| a.clflush(byte_ptr(bx))).unwrap();
    assert_eq!(m.exec(CodeAssembler::ud2), Err(Stop::UD));
    let class = |bytes: &[u8]| m.lower(&m.decode_bytes(bytes)).class;
    assert_eq!(class(&[0x0f, 0x18, 0x07]), Class::PREFETCH_NTA);
    assert_eq!(class(&[0x0f, 0x18, 0x0f]), Class::PREFETCH_LOAD);
    assert_eq!(class(&[0x0f, 0x0d, 0x07]), Class::PREFETCH_LOAD);
    assert_eq!(class(&[0x0f, 0x0d, 0x0f]), Class::PREFETCH_STORE);
    assert_eq!(class(&[0x0f, 0xae, 0x3f]), Class::CLFLUSH);
    let mut m = Machine::new(LONG);
    m.set(gpr::RBX, 1 << 63);
    assert_eq!(m.exec(|a| a.clflush(byte_ptr(rbx))), Err(Stop::GP0));
    m.exec(|a| a.prefetchw(byte_ptr(rbx))).unwrap();
}

/// APM 3, PREFETCH: the reserved members of group 0F 0D are prefetches, /3 for writing as /1 in the
/// opcode map; a register operand is #UD.
#[test]
fn prefetch_group() {
    let kinds = [
        Class::PREFETCH_LOAD,
        Class::PREFETCH_STORE,
        Class::PREFETCH_LOAD,
        Class::PREFETCH_STORE,
        Class::PREFETCH_LOAD,
        Class::PREFETCH_LOAD,
        Class::PREFETCH_LOAD,
        Class::PREFETCH_LOAD,
    ];
    for size in [CodeSize::Bits16, CodeSize::Bits32, LONG] {
        let mut m = Machine::new(size);
        let l = Lowering::of(&m.cpu);
        let mut run = |modrm: u8| {
            let code = [0x0f, 0x0d, modrm];
            let block =
                lower_block(l, &CycleCosts::FLAT, CODE, &code, code.len(), None, 1).unwrap();
            let mut context = Cx { bus: &mut Unconnected::default(), ram: &m.ram, observer: Plain };
            let insn = block.insns[0];
            let class = block.classes.map(|classes| classes.sums().to_vec());
            (class, handler(&insn)(&mut m.cpu, &mut context, &insn))
        };
        for (reg, want) in (0..).zip(kinds) {
            let want = ClassCount { class: want.0.trailing_zeros() as u16, count: 1 };
            assert_eq!(run(0x07 | reg << 3), (Some(vec![want]), Ok(())), "/{reg}");
            assert_eq!(run(0xc7 | reg << 3).1, Err(Stop::UD), "/{reg}");
        }
    }
}
