//! Long mode: interrupt delivery, IRET, SYSCALL, faults within faults.

use iced_x86::code_asm::*;
use x86_cpu::{descriptor::Segment, run::Exit};

use crate::machine::*;

/// Section 8.9.3: INT from privilege 3 to a trap gate takes RSP0, loads SS with null and pushes
/// SS, RSP, RFLAGS, CS, RIP; the trap gate leaves IF.
#[test]
fn int_from_user_mode() {
    let mut m = Machine::long().at_user();
    m.set_gate(0x80, 0xef, 0);
    m.cpu.set_rflags(2 | IF | 1);
    m.load(USER_CODE, 64, |a| a.int(0x80).unwrap());
    assert_eq!(m.vector(), 0x80);
    let frame: Vec<u64> = (0..5).map(|n| m.stack(n)).collect();
    assert_eq!(frame, [USER_CODE + 2, 0x33, 2 | IF | 1, USER_STACK, 0x2b]);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 40);
    assert_eq!(m.cpu.cpl(), 0);
    assert_eq!((m.cpu.segment(CS).selector, m.cpu.segment(SS).selector), (8, 0));
    assert_eq!(m.cpu.segment(SS).attributes, 0);
    assert_eq!(m.cpu.rflags(), 2 | IF | 1);
    // INT n is a far transfer and a retired instruction, not an exception (K8 events C6h, CFh).
    assert_eq!((m.facts.far, m.facts.exceptions, m.facts.interrupts), (1, 0, 0));
    assert_eq!(m.facts.seg_loads, [0, 1, 1, 0, 0, 0]);
    // INT and HLT.
    assert_eq!(m.cpu.retired(), 2);
}

/// The way back: IRETQ restores all five words, and the program goes on.
#[test]
fn iretq_to_user_mode() {
    let mut m = Machine::long().at_user();
    m.set_gate(0x80, 0xee, 0);
    m.load(HANDLERS + 0x800, 64, |a| a.iretq().unwrap());
    m.load(USER_CODE, 64, |a| {
        a.int(0x80).unwrap();
        a.mov(rax, 7u64).unwrap();
        a.hlt().unwrap();
    });
    m.cpu.set_rflags(2 | IF);
    // HLT at privilege 3 is #GP(0).
    assert_eq!(m.vector(), 13);
    assert_eq!(m.cpu.gpr(RAX), 7);
    assert_eq!(m.stack(0), 0);
    assert_eq!(m.stack(2), 0x33);
    assert_eq!(m.stack(3), 2 | IF | RF);
    assert_eq!((m.stack(4), m.stack(5)), (USER_STACK, 0x2b));
    assert_eq!((m.facts.far, m.facts.exceptions), (2, 1));
    // INT, IRETQ, MOV, the handler's HLT; the fault took a cycle of its own.
    assert_eq!(m.cpu.retired(), 4);
    assert_eq!(m.cpu.time, 5);
}

/// Section 8.9.4: an IST stack is taken whatever the privilege, RSP is aligned to 16 bytes, SS
/// stays if the privilege does.
#[test]
fn ist_stack_without_privilege_change() {
    let mut m = Machine::long();
    m.set_gate(6, 0x8e, 1);
    m.write_u64(TSS + 36, IST1_STACK + 8);
    m.load(CODE, 64, |a| a.ud2().unwrap());
    assert_eq!(m.vector(), 6);
    assert_eq!(m.cpu.gpr(RSP), IST1_STACK - 40);
    let frame: Vec<u64> = (0..5).map(|n| m.stack(n)).collect();
    assert_eq!(frame, [CODE, 8, 2 | RF, KERNEL_STACK - 0x100, 0x10]);
    assert_eq!(m.cpu.segment(SS).selector, 0x10);
    assert_eq!(m.facts.exceptions, 1);
}

/// Section 8.9.3: the stack pointer is aligned also when the stack is not switched.
#[test]
fn same_stack_is_aligned() {
    let mut m = Machine::long();
    m.cpu.set_gpr(RSP, KERNEL_STACK - 0x13);
    m.load(CODE, 64, |a| a.int3().unwrap());
    assert_eq!(m.vector(), 3);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 0x20 - 40);
    assert_eq!(m.stack(3), KERNEL_STACK - 0x13);
    assert_eq!(m.stack(0), CODE + 1);
}

/// Section 8.4.1: error codes that name the interrupt table. An instruction's has EXT clear, an
/// interrupt's set.
#[test]
fn error_codes_of_bad_gates() {
    // INT 0x40 through a gate of DPL 0.
    let mut m = Machine::long().at_user();
    m.load(USER_CODE, 64, |a| a.int(0x40).unwrap());
    assert_eq!(m.vector(), 13);
    assert_eq!(m.stack(0), 0x40 * 8 + 2);
    assert_eq!(m.stack(1), USER_CODE);

    // INT 0x41 through a gate that is not present.
    let mut m = Machine::long();
    m.set_gate(0x41, 0x0e, 0);
    m.load(CODE, 64, |a| a.int(0x41).unwrap());
    assert_eq!(m.vector(), 11);
    assert_eq!(m.stack(0), 0x41 * 8 + 2);

    // The same by hardware.
    let mut m = Machine::long();
    m.set_gate(0x41, 0x0e, 0);
    m.cpu.rip = CODE;
    m.interrupt(0x41);
    assert_eq!(m.handler(), 11);
    assert_eq!(m.stack(0), 0x41 * 8 + 3);
    assert_eq!((m.facts.interrupts, m.facts.exceptions), (0, 1));

    // A 32-bit code segment behind a long-mode gate: #GP with that selector.
    let mut m = Machine::long();
    m.write_u64(IDT + 16 * 0x42, gate(sel::CODE32, HANDLERS, 0, 0x8e));
    m.load(CODE, 64, |a| a.int(0x42).unwrap());
    assert_eq!(m.vector(), 13);
    assert_eq!(m.stack(0), u64::from(sel::CODE32));
}

/// Hardware interrupts: an interrupt gate clears IF; the event ends a halt and takes a cycle in
/// which nothing retires.
#[test]
fn hardware_interrupt() {
    let mut m = Machine::long().at_user();
    m.cpu.set_rflags(2 | IF);
    m.cpu.rip = USER_CODE;
    m.cpu.halted = true;
    m.interrupt(0x55);
    assert!(!m.cpu.halted);
    assert_eq!(m.handler(), 0x55);
    assert_eq!(m.stack(2), 2 | IF);
    assert!(!m.cpu.interrupts_enabled());
    assert_eq!((m.facts.interrupts, m.facts.far, m.cpu.time, m.cpu.retired()), (1, 0, 1, 0));
}

/// Section 8.5: an NMI holds back further ones until IRET.
#[test]
fn nmi_is_blocked_until_iret() {
    let mut m = Machine::long();
    m.load(HANDLERS + 0x20, 64, |a| a.iretq().unwrap());
    m.load(CODE, 64, |a| a.hlt().unwrap());
    m.nmi();
    assert!(m.cpu.nmi_blocked());
    assert_eq!(m.run(), Exit::Halt);
    assert!(!m.cpu.nmi_blocked());
    assert_eq!(m.cpu.rip, CODE + 1);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 0x100);
}

/// With an NMI pending, a run ends right behind the IRET that unblocks NMIs, and not behind one that
/// unblocks nothing.
#[test]
fn the_run_ends_at_the_iret_that_unblocks_nmi() {
    for (waits, blocked, exit, retired) in [
        (true, true, Exit::Leave, 1),
        (true, false, Exit::Deadline, 3),
        (false, true, Exit::Deadline, 3),
    ] {
        let mut m = Machine::long();
        m.load(HANDLERS + 0x20, 64, |a| a.iretq().unwrap());
        m.load(CODE, 64, |a| (0..9).for_each(|_| a.nop().unwrap()));
        m.nmi();
        m.cpu.set_nmi_blocked(blocked);
        m.cpu.interrupt_waits = waits;
        let until = m.cpu.time + 3;
        assert_eq!(m.run_until(until), exit, "{waits} {blocked}");
        assert!(!m.cpu.nmi_blocked());
        assert_eq!((m.cpu.retired(), m.cpu.rip), (retired, CODE + retired - 1));
    }
}

/// An IRET of the NMI handler that raises #GP: "This unblocking occurs even if the instruction causes a
/// fault. In such a case, NMIs are unmasked before the exception handler is invoked" (Intel SDM volume
/// 2, "IRET"; volume 3A, "Handling Multiple NMIs", likewise). On processors of which no manual says so,
/// NMIs stay blocked.
#[test]
fn a_faulting_iret_and_nmi() {
    for unblocks in [true, false] {
        let mut m = Machine::long();
        m.cpu.features.faulting_iret_unblocks_nmi = unblocks;
        m.load(HANDLERS + 0x20, 64, |a| {
            // CS of the frame: beyond the GDT.
            a.mov(qword_ptr(rsp + 8), 0x7f8).unwrap();
            a.iretq().unwrap();
        });
        m.load(CODE, 64, |a| a.nop().unwrap());
        m.nmi();
        m.cpu.interrupt_waits = true;
        let until = m.cpu.time + 3;
        let exit = m.run_until(until);
        assert_eq!(exit, if unblocks { Exit::Leave } else { Exit::Halt });
        assert_eq!((m.cpu.nmi_blocked(), m.handler()), (!unblocks, 13));
    }
}

/// Section 8.2.15 and table 8-3: page faults have CR2 and a code; #NP on the way to the #PF handler
/// makes a double fault with code zero, another one a shutdown.
#[test]
fn page_double_and_triple_fault() {
    let load = |m: &mut Machine| {
        m.load(CODE, 64, |a| {
            a.mov(rbx, 0x40_0123u64).unwrap();
            a.mov(qword_ptr(rbx), rax).unwrap();
        });
    };
    let mut m = Machine::long();
    load(&mut m);
    assert_eq!(m.vector(), 14);
    // Not present, write, supervisor.
    assert_eq!((m.stack(0), m.cpu.cr2), (2, 0x40_0123));
    // Behind the ten bytes of MOV.
    assert_eq!(m.stack(1), CODE + 10);

    let mut m = Machine::long();
    m.set_gate(14, 0x0e, 0);
    load(&mut m);
    assert_eq!(m.vector(), 8);
    assert_eq!((m.stack(0), m.stack(1)), (0, CODE + 10));
    assert_eq!(m.stack(3) & RF, 0);
    assert_eq!(m.facts.exceptions, 1);

    let mut m = Machine::long();
    m.set_gate(14, 0x0e, 0);
    m.set_gate(8, 0x0e, 0);
    load(&mut m);
    assert_eq!(m.run(), Exit::Shutdown);
}

/// Table 8-3: a benign exception first: the second is handled on its own.
#[test]
fn fault_on_the_way_to_a_benign_exception() {
    let mut m = Machine::long();
    m.set_gate(6, 0x0e, 0);
    m.load(CODE, 64, |a| a.ud2().unwrap());
    assert_eq!(m.vector(), 11);
    assert_eq!(m.stack(0), 6 * 8 + 3);
}

const STAR: u64 = 0x0023_0008_0000_0000;

fn with_syscall(mut m: Machine) -> Machine {
    m.cpu.msrs.star = STAR;
    m.cpu.msrs.lstar = CODE;
    m.cpu.msrs.cstar = CODE + 0x100;
    m.cpu.msrs.sfmask = IF | TF;
    m
}

/// APM volume 3, SYSCALL: RCX and R11 take RIP and RFLAGS, SFMASK clears flags, CS and SS are flat.
#[test]
fn syscall_from_64_bit_code() {
    let mut m = with_syscall(Machine::long().at_user());
    m.load(CODE, 64, |a| a.hlt().unwrap());
    m.load(USER_CODE, 64, |a| a.syscall().unwrap());
    m.cpu.set_rflags(2 | IF | 0x40);
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 1);
    assert_eq!(m.cpu.gpr(RCX), USER_CODE + 2);
    assert_eq!(m.cpu.gpr(R11), 2 | IF | 0x40);
    assert_eq!(m.cpu.rflags(), 2 | 0x40);
    assert_eq!(m.cpu.cpl(), 0);
    let flat = |selector, attributes| Segment { selector, base: 0, limit: u32::MAX, attributes };
    assert_eq!(*m.cpu.segment(CS), flat(8, 0xa09b));
    assert_eq!(*m.cpu.segment(SS), flat(0x10, 0xc093));
    assert_eq!((m.facts.far, m.facts.exceptions), (1, 0));
}

/// The return: to 64-bit code at STAR[63:48]+16, to 32-bit code at STAR[63:48]; SS gets a selector
/// and keeps its hidden part.
#[test]
fn sysret_to_both_code_sizes() {
    for (wide, selector, attributes) in [(true, 0x33, 0xa0fb), (false, 0x23, 0xc0fb)] {
        let mut m = with_syscall(Machine::long());
        m.write(USER_CODE, &[0xf4]);
        m.load(CODE, 64, |a| if wide { a.sysretq() } else { a.sysret() }.unwrap());
        m.cpu.set_gpr(RCX, USER_CODE);
        m.cpu.set_gpr(R11, 2 | IF | VM | RF | 1);
        // The user's HLT is #GP(0).
        assert_eq!(m.vector(), 13);
        assert_eq!(m.stack(2), selector);
        assert_eq!(m.stack(5), 0x2b);
        assert_eq!(m.stack(3), 2 | IF | RF | 1, "RF by the fault, VM dropped");
        assert_eq!(m.stack(1), USER_CODE);

        let mut m = with_syscall(Machine::long());
        m.load(CODE, 64, |a| if wide { a.sysretq() } else { a.sysret() }.unwrap());
        m.cpu.set_gpr(RCX, USER_CODE);
        m.step(1);
        assert_eq!(m.cpu.segment(CS).attributes, attributes);
        assert_eq!(m.cpu.segment(SS).attributes, 0xc093, "hidden part kept");
        assert_eq!((m.cpu.cpl(), m.cpu.rip), (3, USER_CODE));
    }
}

/// SYSCALL from compatibility mode enters at CSTAR.
#[test]
fn syscall_from_compatibility_mode() {
    let mut m = with_syscall(Machine::long().at_user());
    m.cpu.set_segment(
        CS,
        Segment { selector: sel::USER_CODE32, base: 0, limit: u32::MAX, attributes: 0xc0fb },
    );
    m.load(CODE + 0x100, 64, |a| a.hlt().unwrap());
    m.write(USER_CODE, &[0x0f, 0x05]);
    m.cpu.rip = USER_CODE;
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 0x101);
    assert_eq!(m.cpu.gpr(RCX), USER_CODE + 2);
}

/// SYSCALL without EFER.SCE, SYSENTER and SYSEXIT in long mode: #UD. SYSRET at privilege 3: #GP(0).
#[test]
fn system_calls_that_fault() {
    let mut m = with_syscall(Machine::long());
    m.cpu.set_control(m.cpu.cr0(), m.cpu.cr3(), m.cpu.cr4(), 0x500);
    m.load(CODE, 64, |a| a.syscall().unwrap());
    assert_eq!(m.vector(), 6);
    for code in [[0x0f, 0x34], [0x0f, 0x35]] {
        let mut m = Machine::long();
        m.cpu.msrs.sysenter_cs = 8;
        m.write(CODE, &code);
        m.cpu.rip = CODE;
        assert_eq!(m.vector(), 6);
    }
    let mut m = with_syscall(Machine::long().at_user());
    m.load(USER_CODE, 64, |a| a.sysretq().unwrap());
    assert_eq!((m.vector(), m.stack(0)), (13, 0));
}

/// A far return through memory selectors: RETFQ to privilege 3 pops RSP and SS, drops DS of an
/// inner level, and IRETQ to a null SS is allowed at privilege 0 only.
#[test]
fn far_returns() {
    let mut m = Machine::long();
    m.write(USER_CODE, &[0xf4]);
    m.load(CODE, 64, |a| {
        a.push(0x2bi32).unwrap();
        a.push(USER_STACK as i32).unwrap();
        a.push(0x33i32).unwrap();
        a.push(USER_CODE as i32).unwrap();
        a.db(&[0x48, 0xcb]).unwrap();
    });
    assert_eq!(m.vector(), 13);
    assert_eq!((m.stack(1), m.stack(2)), (USER_CODE, 0x33));
    assert_eq!((m.stack(4), m.stack(5)), (USER_STACK, 0x2b));
    assert_eq!((m.cpu.segment(DS).selector, m.cpu.segment(DS).attributes), (0, 0));

    for (stack, code, vector) in [(0, 8, None), (3, 0x33, Some(13)), (1, 8, Some(13))] {
        let mut m = Machine::long();
        m.write(USER_CODE, &[0xf4]);
        m.load(CODE, 64, |a| {
            a.push(stack).unwrap();
            a.push(USER_STACK as i32).unwrap();
            a.push(2i32).unwrap();
            a.push(code).unwrap();
            a.push(USER_CODE as i32).unwrap();
            a.iretq().unwrap();
        });
        assert_eq!(m.run(), Exit::Halt);
        match vector {
            None => assert_eq!((m.cpu.rip, m.cpu.gpr(RSP)), (USER_CODE + 1, USER_STACK)),
            Some(vector) => assert_eq!((m.handler(), m.stack(0)), (vector, 0)),
        }
    }
}

/// A jump to compatibility mode and back through a 64-bit call gate (section 4.8.4).
#[test]
fn compatibility_mode_and_call_gate() {
    const GATE: u16 = sel::FREE;
    let mut m = Machine::long();
    m.set_descriptor(GATE, gate(sel::CODE64, CODE + 0x400, 0, 0x8c));
    m.set_descriptor(GATE + 8, 0);
    m.load(CODE + 0x400, 64, |a| {
        a.mov(rbx, rsp).unwrap();
        a.hlt().unwrap();
    });
    // INC EAX in compatibility mode, a REX prefix in 64-bit mode; CALL GATE:0.
    m.write(CODE + 0x200, &[0x40, 0x9a, 0, 0, 0, 0, GATE as u8, 0]);
    m.write_u32(DATA, (CODE + 0x200) as u32);
    m.write_u16(DATA + 4, sel::CODE32);
    m.cpu.set_gpr(RAX, 0xffff_ffff);
    m.load(CODE, 64, |a| {
        a.mov(rbx, DATA).unwrap();
        a.db(&[0xff, 0x2b]).unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 0x404);
    // INC has wrapped EAX.
    assert_eq!(m.cpu.gpr(RAX), 0);
    assert_eq!(m.cpu.gpr(3), KERNEL_STACK - 0x100 - 16);
    assert_eq!((m.stack(0), m.stack(1)), (CODE + 0x200 + 8, 0x18));
}

/// Non-canonical targets and stacks: #GP(0) at IRETQ, #SS(0) on a push for a handler.
#[test]
fn non_canonical_addresses() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.push(0x10i32).unwrap();
        a.push(0x2_0000i32).unwrap();
        a.push(2i32).unwrap();
        a.push(8i32).unwrap();
        a.mov(rax, 0x8000_0000_0000u64).unwrap();
        a.push(rax).unwrap();
        a.iretq().unwrap();
    });
    assert_eq!((m.vector(), m.stack(0)), (13, 0));

    let mut m = Machine::long();
    m.set_gate(12, 0x8e, 1);
    m.cpu.set_gpr(RSP, 0x8000_0000_0100);
    m.load(CODE, 64, |a| a.int3().unwrap());
    assert_eq!((m.vector(), m.stack(0)), (12, 0));
}

/// SWAPGS exchanges GS.base with KernelGSbase at privilege 0 only.
#[test]
fn swapgs() {
    let mut m = Machine::long();
    m.cpu.msrs.kernel_gs_base = 0x1234;
    m.load(CODE, 64, |a| {
        a.swapgs().unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.cpu.segment(GS).base, m.cpu.msrs.kernel_gs_base), (0x1234, 0));
    let mut m = Machine::long().at_user();
    m.load(USER_CODE, 64, |a| a.swapgs().unwrap());
    assert_eq!((m.vector(), m.stack(0)), (13, 0));
}

/// Which of #SS and #GP an address that is not canonical raises depends on the base register alone:
/// RSP and RBP are the stack's, and of the segment overrides only FS and GS count in 64-bit mode (Intel
/// SDM volume 1, "Canonical Addressing": "If an instruction uses base registers RSP/RBP and uses a
/// segment override prefix to specify a non-SS segment, a canonical fault generates a #GP (instead of
/// an #SS). In 64-bit mode, only FS and GS segment-overrides are applicable in this situation. Other
/// segment override prefixes (CS, DS, ES and SS) are ignored. Note that this also means that an SS
/// segment-override applied to a \"non-stack\" register reference is ignored." APM volume 3, section
/// 1.2.4: the same four overrides are ignored in 64-bit mode.)
#[test]
fn ignored_overrides_do_not_choose_the_fault() {
    const FAR: u64 = 0x8000_0000_0000_0000;
    const RBX: u8 = 3;
    const RBP: u8 = 5;
    // Instruction, and the fault without an override.
    let cases: [(&[u8], u64); 16] = [
        (&[0x8b, 0x03], 13),          // MOV EAX, [RBX]
        (&[0x8b, 0x45, 0], 12),       // MOV EAX, [RBP]
        (&[0x89, 0x45, 0], 12),       // MOV [RBP], EAX
        (&[0x01, 0x45, 0], 12),       // ADD [RBP], EAX
        (&[0x89, 0x03], 13),          // MOV [RBX], EAX
        (&[0x8b, 0x04, 0x2b], 13),    // [RBX+RBP]
        (&[0x8b, 0x44, 0x1d, 0], 12), // [RBP+RBX]
        (&[0x41, 0x8b, 0x45, 0], 13), // [R13]
        (&[0x0f, 0x10, 0x45, 0], 12), // MOVUPS XMM0, [RBP]
        (&[0xdd, 0x45, 0], 12),       // FLD qword [RBP]
        (&[0x0f, 0x6f, 0x45, 0], 12), // MOVQ MM0, [RBP]
        (&[0x0f, 0xf7, 0xc1], 13),    // MASKMOVQ MM0, MM1
        (&[0xac], 13),                // LODSB
        (&[0xa4], 13),                // MOVSB
        (&[0xd7], 13),                // XLAT
        (&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0x80], 13),
    ];
    for (code, fault) in cases {
        // None, ES, CS, SS, DS; then FS and GS, alone and with one that is ignored before or behind.
        for (prefixes, counts) in [
            (&[][..], false),
            (&[0x26], false),
            (&[0x2e], false),
            (&[0x36], false),
            (&[0x3e], false),
            (&[0x64], true),
            (&[0x65], true),
            (&[0x64, 0x3e], true),
            (&[0x36, 0x65], true),
        ] {
            let mut m = Machine::long();
            for r in [RAX, RBX, RBP, RSI, RDI] {
                m.cpu.set_gpr(r, FAR);
            }
            if code.len() > 2 && (code[1] == 0x04 || code[1] == 0x44) {
                // One of the two registers of [base+index] makes the address.
                m.cpu.set_gpr(RBX, 0);
            }
            m.cpu.set_gpr(13, FAR);
            let bytes = [prefixes, code].concat();
            m.write(CODE, &bytes);
            m.cpu.rip = CODE;
            let expected = if counts { 13 } else { fault };
            assert_eq!((m.vector(), m.stack(0)), (expected, 0), "{bytes:x?}");
        }
    }
}
