//! Loads of segment registers and the instructions that look at descriptors (chapter 4).

use iced_x86::code_asm::*;
use x86_cpu::{descriptor::Segment, run::Exit};

use crate::machine::*;

/// MOV `segment`, AX.
fn mov_from_ax(segment: u8) -> [u8; 2] {
    [0x8e, 0xc0 | segment << 3]
}

/// Section 4.10: what each kind of descriptor does in DS and in SS, at privilege 3 and 0.
#[test]
fn loads_that_fault() {
    // (access byte, register, privilege, RPL, vector)
    for (access, register, level, rpl, vector) in [
        // Execute-only code and system segments cannot be data.
        (0xf9, DS, 3, 3, 13),
        (0xe2, DS, 3, 3, 13),
        // Inner data, by CPL or by RPL.
        (0x93, DS, 3, 0, 13),
        (0x93, DS, 0, 3, 13),
        // Inner readable code that does not conform.
        (0x9b, ES, 3, 3, 13),
        // Not present.
        (0x73, FS, 3, 3, 11),
        (0x73, SS, 3, 3, 12),
        // SS: read-only, code, another DPL, another RPL.
        (0xf1, SS, 3, 3, 13),
        (0xfb, SS, 3, 3, 13),
        (0x93, SS, 3, 3, 13),
        (0xf3, SS, 3, 0, 13),
        (0xf3, SS, 0, 0, 13),
    ] {
        let mut m = Machine::protected();
        if level == 3 {
            m = m.at_user();
        }
        m.set_descriptor(sel::FREE, descriptor(0x1000, 0xfff, access, 4));
        m.write(USER_CODE, &mov_from_ax(register));
        m.cpu.rip = USER_CODE;
        m.cpu.set_gpr(RAX, u64::from(sel::FREE | rpl));
        let before = *m.cpu.segment(register);
        assert_eq!(m.vector(), vector, "{access:x} in {register} at {level}");
        assert_eq!((m.stack(0), m.stack(1)), (u64::from(sel::FREE), USER_CODE));
        if register != SS {
            assert_eq!(*m.cpu.segment(register), before);
        }
        assert_eq!(
            m.facts.seg_loads[usize::from(register)],
            u64::from(register == SS && level == 3)
        );
    }
}

/// A good load takes base, limit and attributes, and sets the accessed bit in memory.
#[test]
fn loads_that_succeed() {
    for (access, flags, limit) in
        [(0xf2, 4, 0xf_1234), (0xf2, 12, 0xf123_4fff), (0xfe, 4, 0xf_1234), (0x9e, 4, 0xf_1234)]
    {
        let mut m = Machine::protected().at_user();
        m.set_descriptor(sel::FREE, descriptor(0x89ab_cdef, 0xf_1234, access, flags));
        m.write(USER_CODE, &mov_from_ax(GS));
        m.cpu.rip = USER_CODE;
        m.cpu.set_gpr(RAX, u64::from(sel::FREE | 3));
        m.step(1);
        let segment = *m.cpu.segment(GS);
        assert_eq!(segment.selector, sel::FREE | 3);
        assert_eq!((segment.base, segment.limit), (0x89ab_cdef, limit));
        assert_eq!(segment.attributes, (flags << 12) as u16 | access as u16 | 1);
        assert_eq!(m.descriptor(sel::FREE) >> 40 & 0xff, access | 1);
        assert_eq!(m.facts.seg_loads, [0, 0, 0, 0, 0, 1]);
    }
}

/// A null selector loads into DS and faults on use; into SS it faults, but for 64-bit code below
/// privilege 3.
#[test]
fn null_selectors() {
    let mut m = Machine::protected();
    m.load(CODE, 32, |a| {
        a.xor(eax, eax).unwrap();
        a.mov(ds, ax).unwrap();
        a.mov(eax, dword_ptr(0x1000)).unwrap();
    });
    assert_eq!((m.vector(), m.stack(0)), (13, 0));
    assert_eq!(m.facts.seg_loads[usize::from(DS)], 1);

    for (mut m, vector) in [
        (Machine::protected(), Some(13)),
        (Machine::long(), None),
        (Machine::long().at_user(), Some(13)),
    ] {
        m.write(CODE, &[0x8e, 0xd0, 0xf4]);
        m.cpu.rip = CODE;
        m.cpu.set_gpr(RAX, 0);
        assert_eq!(m.run(), Exit::Halt);
        match vector {
            Some(vector) => assert_eq!((m.handler(), m.stack(0)), (vector, 0)),
            None => assert_eq!((m.cpu.rip, m.cpu.segment(SS).selector), (CODE + 3, 0)),
        }
    }
}

/// LES and POP FS, and the interrupt shadow of POP SS.
#[test]
fn pointers_and_pops() {
    let mut m = Machine::protected();
    m.write_u32(DATA, 0x1234_5678);
    m.write_u16(DATA + 4, sel::USER_DATA);
    m.load(CODE, 32, |a| {
        a.mov(ebx, DATA as i32).unwrap();
        // LES ESI, [EBX]
        a.db(&[0xc4, 0x33]).unwrap();
        a.push(i32::from(sel::DATA)).unwrap();
        a.pop(fs).unwrap();
        a.push(i32::from(sel::DATA)).unwrap();
        a.pop(ss).unwrap();
        a.nop().unwrap();
        a.hlt().unwrap();
    });
    m.step(6);
    assert!(m.cpu.interrupt_shadow());
    m.step(1);
    assert!(!m.cpu.interrupt_shadow());
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.cpu.gpr(RSI), m.cpu.segment(ES).selector), (0x1234_5678, sel::USER_DATA));
    assert_eq!(m.cpu.segment(FS).selector, sel::DATA);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 0x100);
    assert_eq!(m.facts.seg_loads, [1, 0, 1, 0, 1, 0]);
}

/// "When pushing a segment selector onto the stack, the Pentium 4, Intel Xeon, P6 family, and Intel486
/// processors decrement the ESP register by the operand size and then write 2 bytes. If the operand
/// size is 32-bits, the upper two bytes of the write are not modified. The Pentium processor [...]
/// determines the size of the write by the operand size. If the operand size is 32-bits, the upper two
/// bytes are written as 0s." Pops read likewise (Intel SDM volume 3, section 22.31.1).
#[test]
fn selectors_on_the_stack() {
    const TOP: u64 = KERNEL_STACK - 0x100;
    let machine = |words| {
        let mut m = Machine::protected();
        m.cpu.features.selector_words = words;
        m
    };
    for (words, slot) in [(true, 0xffff_0010u32), (false, 0x0000_0010)] {
        let mut m = machine(words);
        m.write_u32(TOP - 4, 0xffff_ffff);
        m.load(CODE, 32, |a| {
            a.push(ds).unwrap();
            a.hlt().unwrap();
        });
        assert_eq!(m.run(), Exit::Halt);
        assert_eq!((m.read_u32(TOP - 4), m.cpu.gpr(RSP)), (slot, TOP - 4), "{words}");
    }
    // An exception on the Pentium alone: "This could occur if the third and/or fourth byte of the
    // operation lies beyond the limit of the segment" (the same section).
    for (words, vector) in [(true, 3), (false, 12)] {
        let mut m = machine(words);
        m.write_u16(TOP, sel::USER_DATA);
        m.cpu.set_segment(SS, Segment { limit: TOP as u32 + 1, ..*m.cpu.segment(SS) });
        m.load(CODE, 32, |a| {
            a.pop(es).unwrap();
            // The stack that takes the breakpoint ends at its limit.
            a.mov(esp, (TOP - 0x100) as i32).unwrap();
            a.int3().unwrap();
        });
        assert_eq!(m.vector(), vector, "{words}");
        let popped = m.cpu.segment(ES).selector;
        assert_eq!(popped, if words { sel::USER_DATA } else { sel::DATA });
    }
    // With 16-bit operands it is the same to all.
    for words in [false, true] {
        let mut m = machine(words);
        m.write_u32(TOP - 4, 0xffff_ffff);
        m.load(CODE, 32, |a| {
            a.db(&[0x66, 0x1e, 0x66, 0x07]).unwrap();
            a.hlt().unwrap();
        });
        m.step(1);
        assert_eq!((m.read_u32(TOP - 4), m.cpu.gpr(RSP)), (0x0010_ffff, TOP - 2));
        assert_eq!(m.run(), Exit::Halt);
        assert_eq!(m.cpu.gpr(RSP), TOP);
    }
}

/// "(* 32-bit pop, high-order 16 bits discarded *)" (Intel SDM volume 2, "RET", of CS): RETF reads the
/// whole slot on all of them.
#[test]
fn far_returns_read_whole_slots() {
    const TOP: u64 = KERNEL_STACK - 0x100;
    for words in [false, true] {
        for (limit, vector) in [(7, 3), (6, 12)] {
            let mut m = Machine::protected();
            m.cpu.features.selector_words = words;
            m.write_u32(TOP, CODE as u32 + 0x100);
            m.write_u32(TOP + 4, 0xabcd_0000 | u32::from(sel::CODE32));
            m.cpu.set_segment(SS, Segment { limit: TOP as u32 + limit, ..*m.cpu.segment(SS) });
            m.load(CODE + 0x100, 32, |a| {
                a.mov(esp, (TOP - 0x100) as i32).unwrap();
                a.int3().unwrap();
            });
            m.load(CODE, 32, |a| a.retf().unwrap());
            assert_eq!(m.vector(), vector, "{words} {limit}");
        }
    }
}

/// MOV CS and POP CS are invalid.
#[test]
fn cs_cannot_be_moved_to() {
    let mut m = Machine::protected();
    m.write(CODE, &mov_from_ax(CS));
    m.cpu.rip = CODE;
    assert_eq!(m.vector(), 6);
}

/// LAR, LSL, VERR and VERW (APM volume 3) at privilege 3: ZF and result by descriptor.
#[test]
fn access_rights() {
    // (access, flags, LAR, LSL, VERR, VERW)
    for (access, flags, lar, lsl, verr, verw) in [
        // Data of privilege 3, read/write and read-only, with 4 KiB granularity.
        (0xf3, 12, true, Some(0x1fff), true, true),
        (0xf1, 4, true, Some(1), true, false),
        // Code: execute/read, execute-only; conforming code of privilege 0.
        (0xfb, 4, true, Some(1), true, false),
        (0xf9, 4, true, Some(1), false, false),
        (0x9f, 4, true, Some(1), true, false),
        // Data of privilege 0.
        (0x93, 4, false, None, false, false),
        // LDT, available 32-bit task, call gate, interrupt gate.
        (0xe2, 0, true, Some(1), false, false),
        (0xe9, 0, true, Some(1), false, false),
        (0xec, 0, true, None, false, false),
        (0xee, 0, false, None, false, false),
    ] {
        let ask = |code: &[u8]| {
            let mut m = Machine::protected().at_user();
            m.set_descriptor(sel::FREE, descriptor(0, 1, access, flags));
            m.write(USER_CODE, code);
            m.cpu.rip = USER_CODE;
            m.cpu.set_gpr(RAX, 0xaaaa_aaaa);
            m.cpu.set_gpr(RCX, u64::from(sel::FREE | 3));
            m.step(1);
            let zf = m.cpu.rflags() & 0x40 != 0;
            assert_eq!(m.cpu.rip, USER_CODE + 3);
            (zf, m.cpu.gpr(RAX))
        };
        // LAR EAX, ECX; LSL EAX, ECX; VERR CX; VERW CX.
        let expected = if lar { access << 8 | flags << 20 } else { 0xaaaa_aaaa };
        assert_eq!(ask(&[0x0f, 0x02, 0xc1]), (lar, expected), "LAR {access:x}");
        assert_eq!(
            ask(&[0x0f, 0x03, 0xc1]),
            (lsl.is_some(), lsl.unwrap_or(0xaaaa_aaaa)),
            "LSL {access:x}"
        );
        assert_eq!(ask(&[0x0f, 0x00, 0xe1]).0, verr, "VERR {access:x}");
        assert_eq!(ask(&[0x0f, 0x00, 0xe9]).0, verw, "VERW {access:x}");
    }
}

/// ARPL raises the RPL and says so in ZF; invalid in real mode.
#[test]
fn arpl() {
    for (destination, source, result, zf) in
        [(0x10, 0x23, 0x13, true), (0x12, 0x21, 0x12, false), (0x13, 3, 0x13, false)]
    {
        let mut m = Machine::protected();
        m.write(CODE, &[0x63, 0xc8]);
        m.cpu.rip = CODE;
        m.cpu.set_gpr(RAX, destination);
        m.cpu.set_gpr(RCX, source);
        m.step(1);
        assert_eq!((m.cpu.gpr(RAX), m.cpu.rflags() & 0x40 != 0), (result, zf));
    }
    let mut m = Machine::real();
    m.write(CODE, &[0x63, 0xc8]);
    m.cpu.rip = CODE;
    assert_eq!(m.vector(), 6);
}

/// "#GP(0) If the destination is located in a non-writable segment" (Intel SDM volume 2, "ARPL"; APM
/// volume 3 likewise): whether the RPL has to be changed or not, and ZF stays.
#[test]
fn arpl_wants_a_writable_segment() {
    for (destination, source) in [(0x10, 0x23), (0x13, 0x21)] {
        for (attributes, vector) in [(0xc091, 13), (0xc093, 3)] {
            let mut m = Machine::protected();
            m.cpu.set_segment(DS, Segment { attributes, ..*m.cpu.segment(DS) });
            m.write_u16(DATA, destination);
            m.cpu.set_gpr(RCX, source);
            m.load(CODE, 32, |a| {
                a.mov(ebx, DATA as i32).unwrap();
                // ARPL [EBX], CX
                a.db(&[0x63, 0x0b]).unwrap();
                a.int3().unwrap();
            });
            assert_eq!(m.vector(), vector, "{destination:x}");
            let changes = vector == 3 && destination == 0x10;
            assert_eq!(m.read_u16(DATA), if changes { 0x13 } else { destination });
            assert_eq!(m.cpu.rflags() & 0x40 != 0, changes);
        }
    }
}

/// LGDT, LIDT, LLDT, LTR and their stores in 64-bit mode.
#[test]
fn system_registers() {
    let mut m = Machine::long();
    m.set_descriptor(sel::FREE, descriptor(0x1000_2000, 0xff, 0x82, 0));
    m.set_descriptor(sel::FREE + 8, 0xffff_ff80);
    m.set_descriptor(sel::TSS, descriptor(TSS, 0x67, 0x89, 0));
    m.write_u16(DATA, 0x1ff);
    m.write_u64(DATA + 2, GDT);
    m.write_u16(DATA + 16, 0xabc);
    m.write_u64(DATA + 18, 0xffff_8000_0000_2000);
    m.load(CODE, 64, |a| {
        a.mov(rbx, DATA).unwrap();
        a.lgdt(ptr(rbx)).unwrap();
        a.lidt(ptr(rbx + 16)).unwrap();
        a.mov(eax, i32::from(sel::FREE)).unwrap();
        a.lldt(ax).unwrap();
        a.mov(eax, i32::from(sel::TSS)).unwrap();
        a.ltr(ax).unwrap();
        a.sgdt(ptr(rbx + 32)).unwrap();
        a.sidt(ptr(rbx + 48)).unwrap();
        a.sldt(ecx).unwrap();
        a.str(edx).unwrap();
        a.smsw(rsi).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.cpu.idtr.base, m.cpu.idtr.limit), (0xffff_8000_0000_2000, 0xabc));
    assert_eq!((m.read_u16(DATA + 32), m.read_u64(DATA + 34)), (0x1ff, GDT));
    assert_eq!((m.read_u16(DATA + 48), m.read_u64(DATA + 50)), (0xabc, 0xffff_8000_0000_2000));
    assert_eq!((m.cpu.gpr(RCX), m.cpu.gpr(RDX)), (u64::from(sel::FREE), u64::from(sel::TSS)));
    assert_eq!(m.cpu.gpr(RSI), m.cpu.cr0());
    assert_eq!((m.cpu.ldtr.base, m.cpu.ldtr.limit), (0xffff_ff80_1000_2000, 0xff));
    assert_eq!(m.descriptor(sel::TSS) >> 40 & 0xff, 0x8b, "busy");
    // LTR of a busy task: #GP(selector).
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.mov(eax, i32::from(sel::TSS)).unwrap();
        a.ltr(ax).unwrap();
    });
    assert_eq!((m.vector(), m.stack(0)), (13, u64::from(sel::TSS)));
}

/// "The 64-bit system-segment base address must be in canonical form. Otherwise, a general-protection
/// exception occurs with a selector error-code, #GP(selector), when the system segment is loaded" (APM
/// volume 2, section 4.8.3). TR and LDTR stay, and so does the type of the descriptor.
#[test]
fn system_segments_have_canonical_bases() {
    for (access, lldt) in [(0x82, true), (0x89, false)] {
        for (upper, loads) in [
            (0xffff_8000, true),
            (0x7fff, true),
            (0x8000, false),
            (0xffff_7fff, false),
            (0x1_0000, false),
        ] {
            let mut m = Machine::long();
            m.set_descriptor(sel::FREE, descriptor(0x1000_2000, 0x67, access, 0));
            m.set_descriptor(sel::FREE + 8, upper);
            let before = (m.cpu.ldtr, m.cpu.tr);
            m.load(CODE, 64, |a| {
                a.mov(eax, i32::from(sel::FREE)).unwrap();
                if lldt {
                    a.lldt(ax).unwrap();
                } else {
                    a.ltr(ax).unwrap();
                }
                a.int3().unwrap();
            });
            let vector = m.vector();
            let kind = m.descriptor(sel::FREE) >> 40 & 0xff;
            if loads {
                let loaded = if lldt { m.cpu.ldtr.base } else { m.cpu.tr.base };
                assert_eq!((vector, loaded), (3, upper << 32 | 0x1000_2000));
                assert_eq!(kind, if lldt { 0x82 } else { 0x8b });
            } else {
                assert_eq!((vector, m.stack(0)), (13, u64::from(sel::FREE)), "{upper:x}");
                assert_eq!((m.cpu.ldtr, m.cpu.tr), before);
                assert_eq!(kind, access);
            }
        }
    }
}

/// CLI, STI and POPF against IOPL; STI's shadow lasts one instruction.
#[test]
fn interrupt_flag() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.sti().unwrap();
        a.nop().unwrap();
        a.sti().unwrap();
        a.nop().unwrap();
        a.cli().unwrap();
        a.nop().unwrap();
    });
    let mut seen = Vec::new();
    for _ in 0..5 {
        m.step(1);
        seen.push((m.cpu.interrupts_enabled(), m.cpu.interrupt_shadow()));
    }
    assert_eq!(seen, [(true, true), (true, false), (true, false), (true, false), (false, false)]);

    for (iopl, vector) in [(0, 13), (3, 3)] {
        let mut m = Machine::long().at_user();
        m.set_gate(3, 0xee, 0);
        m.cpu.set_rflags(2 | IF | iopl << 12);
        m.load(USER_CODE, 64, |a| {
            a.cli().unwrap();
            a.int3().unwrap();
        });
        assert_eq!(m.vector(), vector);
        let still = if iopl == 3 { 0 } else { IF | RF };
        assert_eq!(m.stack(if vector == 13 { 3 } else { 2 }), 2 | still | iopl << 12);
    }

    // POPF at privilege 3 changes neither IF nor IOPL, and does not fault.
    let mut m = Machine::long().at_user();
    m.load(USER_CODE, 64, |a| {
        a.push(0x3247).unwrap();
        a.popfq().unwrap();
    });
    m.step(2);
    assert_eq!(m.cpu.rflags(), 0x47);
}
