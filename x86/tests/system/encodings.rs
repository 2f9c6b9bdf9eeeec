//! Encodings that AMD64 and Intel 64 define differently.

use x86_cpu::{
    features::{EncodingRules, Features},
    run::Exit,
};

use crate::machine::*;

const UD: u64 = 6;
const GP: u64 = 13;
const PF: u64 = 14;
const HLT: u8 = 0xf4;
const RULES: [EncodingRules; 2] = [EncodingRules::Amd64, EncodingRules::Intel64];

/// 64-bit mode with the encodings of `rules`.
fn machine(rules: EncodingRules) -> Machine {
    let mut m = Machine::long();
    m.cpu.features = Features { encodings: rules, ..Features::K8 };
    m
}

/// Near branches with 66h. AMD64: the operand has 16 bits, and with it the new RIP, the return address
/// on the stack and an operand in memory (APM volume 1, section 3.7.9: "The following aspects of near
/// branches are controlled by the effective operand size: Truncation of the instruction pointer. Size
/// of a stack pop or push, resulting from a CALL or RET. Size of a stack-pointer increment or
/// decrement, resulting from a CALL or RET. Indirect-branch operand size"; table 3-9, possible
/// override 16). Intel 64: forced to 64 bits (SDM volume 1, section 6.3.7).
#[test]
fn near_branches_with_an_operand_size_prefix() {
    const HERE: u64 = 0x1_8000;
    const FAR: u64 = 0x1_8100;
    // Code, RIP and what RSP moves by to AMD64, and to Intel 64. RAX is FAR, RCX 2; [RDI] and the
    // stack hold FAR. A 16-bit displacement makes the instruction two bytes shorter.
    type Outcome = (u64, i64);
    let cases: [(&[u8], Outcome, Outcome); 13] = [
        (&[0x66, 0xeb, 0x10], (0x8013, 0), (0x1_8013, 0)),
        (&[0x66, 0xe9, 0x10, 0, 0, 0], (0x8014, 0), (0x1_8016, 0)),
        (&[0x66, 0x75, 0x10], (0x8013, 0), (0x1_8013, 0)),
        (&[0x66, 0x0f, 0x85, 0x10, 0, 0, 0], (0x8015, 0), (0x1_8017, 0)),
        (&[0x66, 0xe2, 0x10], (0x8013, 0), (0x1_8013, 0)),
        (&[0x66, 0x67, 0xe2, 0x10], (0x8014, 0), (0x1_8014, 0)),
        (&[0x66, 0xe8, 0x10, 0, 0, 0], (0x8014, -2), (0x1_8016, -8)),
        (&[0x66, 0xff, 0xe0], (0x8100, 0), (FAR, 0)),
        (&[0x66, 0xff, 0x27], (0x8100, 0), (FAR, 0)),
        (&[0x66, 0xff, 0xd0], (0x8100, -2), (FAR, -8)),
        (&[0x66, 0xff, 0x17], (0x8100, -2), (FAR, -8)),
        (&[0x66, 0xc3], (0x8100, 2), (FAR, 8)),
        (&[0x66, 0xc2, 0x20, 0], (0x8100, 0x22), (FAR, 0x28)),
    ];
    for (code, amd, intel) in cases {
        for (rules, (rip, by)) in RULES.into_iter().zip([amd, intel]) {
            let mut m = machine(rules);
            m.write(HERE, &[HLT; 0x200]);
            m.write(HERE & 0xffff, &[HLT; 0x200]);
            m.write(HERE, code);
            let sp = m.cpu.gpr(RSP);
            m.write_u64(sp, FAR);
            m.write_u64(DATA, FAR);
            m.cpu.set_gpr(RAX, FAR);
            m.cpu.set_gpr(RCX, 2);
            m.cpu.set_gpr(RDI, DATA);
            m.cpu.rip = HERE;
            assert_eq!(m.run(), Exit::Halt);
            assert_eq!(m.cpu.rip, rip + 1, "{rules:?} {code:x?}");
            assert_eq!(m.cpu.gpr(RSP), sp.wrapping_add_signed(by), "{rules:?} {code:x?}");
            if by < 0 {
                // The return address: behind the instruction, which is shorter with 16 bits.
                let length = if code[1] == 0xe8 && by == -2 { 4 } else { code.len() as u64 };
                let mask = if by == -2 { 0xffff } else { u64::MAX };
                let pushed = m.read_u64(m.cpu.gpr(RSP)) & mask;
                assert_eq!(pushed, (HERE + length) & mask, "{rules:?} {code:x?}");
            }
        }
    }
}

/// REX.W takes precedence over 66h, so both have 64-bit operands.
#[test]
fn near_branches_with_both_prefixes() {
    const HERE: u64 = 0x1_8000;
    for rules in RULES {
        let mut m = machine(rules);
        m.write(HERE, &[0x66, 0x48, 0xe9, 0x10, 0, 0, 0]);
        m.write(HERE + 0x17, &[HLT]);
        m.cpu.rip = HERE;
        assert_eq!((m.run(), m.cpu.rip), (Exit::Halt, HERE + 0x18));
    }
}

/// Far pointers in memory with REX.W: Intel 64 has m16:64 (SDM volume 2, "LDS/LES/LFS/LGS/LSS", "CALL"
/// and "JMP": REX.W with 0F B4 /r, LFS r64, m16:64, and so on). AMD64 has m16:32 at most (APM volume 3,
/// the same instructions).
#[test]
fn far_pointers_of_80_bits() {
    const SHORT: u16 = sel::DATA;
    const LONG: u16 = sel::FREE;
    for (opcode, register) in [(0xb2, SS), (0xb4, FS), (0xb5, GS)] {
        for (rules, value, selector) in [
            (EncodingRules::Amd64, 0x1111_2222, SHORT),
            (EncodingRules::Intel64, 0x3333_0010_1111_2222, LONG),
        ] {
            let mut m = machine(rules);
            m.set_descriptor(LONG, descriptor(0, 0xf_ffff, 0x93, 0xc));
            m.write_u64(DATA, 0x3333_0010_1111_2222);
            m.write_u16(DATA + 8, LONG);
            m.cpu.set_gpr(RDI, DATA);
            m.write(CODE, &[0x48, 0x0f, opcode, 0x07, HLT]);
            m.cpu.rip = CODE;
            assert_eq!((m.run(), m.cpu.rip), (Exit::Halt, CODE + 5));
            assert_eq!(m.cpu.gpr(RAX), value, "{rules:?} {opcode:x}");
            assert_eq!(m.cpu.segment(register).selector, selector, "{rules:?} {opcode:x}");
        }
    }
    // JMP and CALL: the 64-bit offset is not mapped, so that its fetch faults there.
    const OFFSET: u64 = 0x9000;
    for (modrm, moved) in [(0x2f, [0, 0]), (0x1f, [8, 16])] {
        for (rules, moved) in RULES.into_iter().zip(moved) {
            let mut m = machine(rules);
            m.write_u64(DATA, u64::from(sel::CODE64) << 32 | OFFSET);
            m.write_u16(DATA + 8, sel::CODE64);
            m.cpu.set_gpr(RDI, DATA);
            m.write(OFFSET, &[HLT]);
            m.write(CODE, &[0x48, 0xff, modrm]);
            m.cpu.rip = CODE;
            let top = m.cpu.gpr(RSP);
            assert_eq!(m.run(), Exit::Halt);
            let sp = if rules == EncodingRules::Amd64 {
                assert_eq!(m.cpu.rip, OFFSET + 1, "{modrm:x}");
                m.cpu.gpr(RSP)
            } else {
                assert_eq!((m.handler(), m.stack(1)), (PF, 8 << 32 | OFFSET), "{modrm:x}");
                m.stack(4)
            };
            assert_eq!(top - sp, moved, "{rules:?} {modrm:x}");
            if moved == 16 {
                assert_eq!(m.read_u64(sp), CODE + 3);
                assert_eq!(m.read_u64(sp + 8), u64::from(sel::CODE64));
            }
        }
    }
}

/// UD0: two bytes to AMD64; with a ModRM byte that is fetched to Intel 64 (SDM volume 2, "UD": without
/// it a processor would "deliver an invalid-opcode exception instead of a fault on instruction fetch
/// when the instruction with a ModR/M byte (and any implied bytes) would cross a page or segment
/// boundary").
#[test]
fn undefined_0() {
    for (rules, beyond, too_long) in
        [(EncodingRules::Amd64, UD, UD), (EncodingRules::Intel64, GP, GP)]
    {
        // At the end of a 32-bit code segment.
        let mut m = Machine::protected();
        m.cpu.features.encodings = rules;
        let cs = x86_cpu::descriptor::Segment { limit: CODE as u32 + 1, ..*m.cpu.segment(CS) };
        m.cpu.set_segment(CS, cs);
        m.write(CODE, &[0x0f, 0xff]);
        m.cpu.rip = CODE;
        assert_eq!(m.vector(), beyond, "{rules:?}");
        // With 13 prefixes the ModRM byte is the sixteenth.
        for (prefixes, vector) in [(12, UD), (13, too_long)] {
            let mut m = machine(rules);
            m.write(CODE, &[0x66; 13]);
            m.write(CODE + prefixes, &[0x0f, 0xff, 0xc0]);
            m.cpu.rip = CODE;
            assert_eq!(m.vector(), vector, "{rules:?} {prefixes}");
        }
    }
}

/// LOCK MOV CR0 is MOV CR8 where CPUID says AltMovCr8, in 32-bit code too (APM volume 3, "MOV CRn";
/// volume 2, section 3.1.5). Elsewhere LOCK makes it #UD, as it does with the other registers.
#[test]
fn move_with_lock() {
    for (rules, alt_mov_cr8) in [
        (EncodingRules::Amd64, true),
        (EncodingRules::Amd64, false),
        (EncodingRules::Intel64, false),
    ] {
        for mut m in [Machine::long(), Machine::protected()] {
            m.cpu.features = Features { encodings: rules, alt_mov_cr8, ..Features::K8 };
            m.ports.cr8 = 5;
            // MOV EAX, CR0 and MOV CR0, ECX, each with LOCK.
            m.write(CODE, &[0xf0, 0x0f, 0x20, 0xc0, 0xf0, 0x0f, 0x22, 0xc1, HLT]);
            m.cpu.rip = CODE;
            m.cpu.set_gpr(RCX, 7);
            assert_eq!(m.run(), Exit::Halt);
            if alt_mov_cr8 {
                assert_eq!((m.cpu.rip, m.cpu.gpr(RAX), m.ports.cr8), (CODE + 9, 5, 7));
            } else {
                assert_eq!((m.handler(), m.stack(0), m.ports.cr8), (UD, CODE, 5));
            }
            // MOV EAX, CR2.
            m.write(CODE, &[0xf0, 0x0f, 0x20, 0xd0]);
            m.cpu.rip = CODE;
            assert_eq!(m.vector(), UD);
        }
    }
}
