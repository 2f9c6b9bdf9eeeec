//! SYSCALL, SYSRET, SYSENTER and SYSEXIT where AMD's and Intel's processors differ: the AMD64 manual
//! (APM), volume 3, against the operation in Intel's SDM, volume 2, under the same names.

use x86_cpu::{descriptor::Segment, features::Features, run::Exit};

use crate::machine::*;

const UD: u64 = 6;
const GP: u64 = 13;
const HLT: u8 = 0xf4;
const NOT_CANONICAL: u64 = 0x8000_0000_0000;

/// The rules of AMD's processors, and of Intel's.
const AMD: Features = Features {
    syscall_outside_64bit: true,
    sysret_checks: false,
    sysenter_in_long_mode: false,
    ..Features::K8
};
const INTEL: Features = Features {
    syscall_outside_64bit: false,
    sysret_checks: true,
    sysenter_in_long_mode: true,
    ..Features::K8
};

fn flat(selector: u16, attributes: u16) -> Segment {
    Segment { selector, base: 0, limit: u32::MAX, attributes }
}

fn with_calls(mut m: Machine, features: Features) -> Machine {
    m.cpu.features = features;
    m.cpu.msrs.star = 0x0020_0008_0000_0000 | CODE;
    m.cpu.msrs.lstar = CODE;
    m.cpu.msrs.cstar = CODE;
    m.cpu.msrs.sysenter_cs = u64::from(sel::CODE64);
    m.cpu.msrs.sysenter_eip = CODE;
    m.cpu.msrs.sysenter_esp = IST1_STACK;
    m
}

/// Compatibility mode at privilege 3.
fn compatibility() -> Machine {
    let mut m = Machine::long().at_user();
    m.cpu.set_segment(CS, flat(sel::USER_CODE32, 0xc0fb));
    m
}

/// 32-bit protected mode with EFER.SCE.
fn legacy() -> Machine {
    let mut m = Machine::protected();
    m.cpu.set_control(m.cpu.cr0(), 0, 0, 1);
    m
}

/// SYSCALL and SYSRET outside 64-bit mode. SDM: "IF (CS.L != 1) or (IA32_EFER.LMA != 1) or
/// (IA32_EFER.SCE != 1) (* Not in 64-Bit Mode or SYSCALL/SYSRET not enabled in IA32_EFER *) THEN #UD".
#[test]
fn syscall_outside_64_bit_mode() {
    let syscall = [0x0f, 0x05];
    let sysret = [0x0f, 0x07];
    for (features, works) in [(AMD, true), (INTEL, false)] {
        let expected = |m: &mut Machine, mode: &str| {
            assert_eq!(m.run(), Exit::Halt);
            if works {
                assert_eq!((m.cpu.rip, m.cpu.cpl()), (CODE + 1, 0), "{mode}");
            } else {
                assert_eq!((m.handler(), m.stack(0)), (UD, USER_CODE), "{mode}");
            }
        };
        for (mode, m) in [("compatibility", compatibility()), ("legacy", legacy())] {
            let mut m = with_calls(m, features);
            m.write(CODE, &[HLT]);
            m.write(USER_CODE, &syscall);
            m.cpu.rip = USER_CODE;
            expected(&mut m, mode);
        }
        // SYSRET in legacy mode: the user's HLT is #GP.
        let mut m = with_calls(legacy(), features);
        m.write(CODE, &sysret);
        m.write(USER_CODE, &[HLT]);
        m.cpu.rip = CODE;
        m.cpu.set_gpr(RCX, USER_CODE);
        let vector = m.vector();
        assert_eq!(vector, if works { GP } else { UD });
        assert_eq!(m.stack(u64::from(works)), if works { USER_CODE } else { CODE });
        // In 64-bit mode both execute, whoever made the processor.
        let mut m = with_calls(Machine::long().at_user(), features);
        m.write(CODE, &[HLT]);
        m.write(USER_CODE, &syscall);
        m.cpu.rip = USER_CODE;
        assert_eq!((m.run(), m.cpu.rip), (Exit::Halt, CODE + 1));
    }
}

/// SYSRET with a return address that is not canonical. SDM: "IF (operand size is 64-bit) and (RCX is
/// not canonical) THEN #GP(0)", at privilege 0; to AMD's the fetch faults, at privilege 3. SS: all of
/// it, "SS.Base := 0; SS.Limit := FFFFFH [...] SS.B := 1", or the selector only.
#[test]
fn sysret_checks() {
    for (features, rip, selector) in
        [(AMD, NOT_CANONICAL, sel::USER_CODE64), (INTEL, CODE, sel::CODE64)]
    {
        let mut m = with_calls(Machine::long(), features);
        m.write(CODE, &[0x48, 0x0f, 0x07]);
        m.cpu.rip = CODE;
        m.cpu.set_gpr(RCX, NOT_CANONICAL);
        assert_eq!((m.vector(), m.stack(0)), (GP, 0));
        assert_eq!((m.stack(1), m.stack(2)), (rip, u64::from(selector)));
    }
    for wide in [false, true] {
        for (features, ss) in [
            (AMD, Segment { base: 0x1000, limit: 0xffff, ..flat(sel::USER_DATA, 0x93) }),
            (INTEL, flat(sel::USER_DATA, 0xc0f3)),
        ] {
            let mut m = with_calls(Machine::long(), features);
            m.cpu.set_segment(SS, Segment { base: 0x1000, limit: 0xffff, ..flat(0, 0x93) });
            m.write(CODE, if wide { &[0x48, 0x0f, 0x07] } else { &[0x0f, 0x07, 0x90] });
            m.cpu.rip = CODE;
            m.cpu.set_gpr(RCX, USER_CODE);
            m.step(1);
            assert_eq!((m.cpu.rip, m.cpu.cpl()), (USER_CODE, 3));
            assert_eq!(*m.cpu.segment(SS), ss);
        }
    }
}

/// SYSENTER in long mode. SDM: "IF in IA-32e mode THEN RSP := IA32_SYSENTER_ESP; RIP :=
/// IA32_SYSENTER_EIP [...] CS.L := 1; CS.D := 0". APM: "#UD [...] This instruction is not recognized
/// in long mode" (volume 3, "SYSENTER", exceptions).
#[test]
fn sysenter_in_long_mode() {
    for m in [compatibility, || Machine::long().at_user()] {
        for (features, works) in [(AMD, false), (INTEL, true)] {
            let mut m = with_calls(m(), features);
            m.cpu.set_rflags(2 | IF);
            // Beyond 32 bits: not mapped there, so nothing executes behind SYSENTER.
            m.cpu.msrs.sysenter_eip = 0x12_3456_789a;
            m.cpu.msrs.sysenter_esp = 0x98_7654_3210;
            m.write(USER_CODE, &[0x0f, 0x34]);
            m.cpu.rip = USER_CODE;
            if !works {
                assert_eq!((m.vector(), m.stack(0)), (UD, USER_CODE));
                continue;
            }
            m.step(1);
            assert_eq!((m.cpu.rip, m.cpu.gpr(RSP)), (0x12_3456_789a, 0x98_7654_3210));
            assert_eq!((m.cpu.cpl(), m.cpu.interrupts_enabled()), (0, false));
            assert_eq!(*m.cpu.segment(CS), flat(sel::CODE64, 0xa09b));
            assert_eq!(*m.cpu.segment(SS), flat(sel::CODE64 + 8, 0xc093));
            assert_eq!(m.facts.far, 1);
        }
    }
}

/// SYSEXIT in long mode. SDM: "IF operand size is 64-bit THEN (* Return to 64-bit mode *) RSP := RCX;
/// RIP := RDX; ELSE RSP := ECX; RIP := EDX", CS from SYSENTER_CS + 32 or + 16, SS from CS + 8; #GP(0)
/// "if RCX or RDX contains a non-canonical address" and for privilege 3.
#[test]
fn sysexit_in_long_mode() {
    const HIGH: u64 = 0x7654_0000_0000;
    for (features, works) in [(AMD, false), (INTEL, true)] {
        for wide in [false, true] {
            let code: &[u8] = if wide { &[0x48, 0x0f, 0x35] } else { &[0x0f, 0x35] };
            let at_cpl = |m: Machine, rcx, rdx| {
                let mut m = with_calls(m, features);
                m.cpu.set_gpr(RCX, rcx);
                m.cpu.set_gpr(RDX, rdx);
                m.write(CODE, code);
                m.cpu.rip = CODE;
                m
            };
            let mut m = at_cpl(Machine::long(), HIGH | USER_STACK, HIGH | USER_CODE);
            if !works {
                assert_eq!((m.vector(), m.stack(0)), (UD, CODE), "{wide}");
                continue;
            }
            m.step(1);
            let high = if wide { HIGH } else { 0 };
            assert_eq!((m.cpu.rip, m.cpu.gpr(RSP)), (high | USER_CODE, high | USER_STACK));
            assert_eq!(m.cpu.cpl(), 3);
            let (selector, attributes) = if wide { (0x2b, 0xa0fb) } else { (0x1b, 0xc0fb) };
            assert_eq!(*m.cpu.segment(CS), flat(selector, attributes));
            assert_eq!(*m.cpu.segment(SS), flat(selector + 8, 0xc0f3));
            // Not canonical, and from privilege 3.
            let mut m = at_cpl(Machine::long().at_user(), USER_STACK, USER_CODE);
            assert_eq!((m.vector(), m.stack(0)), (GP, 0));
            if wide {
                for (rcx, rdx) in [(NOT_CANONICAL, USER_CODE), (USER_STACK, NOT_CANONICAL)] {
                    let mut m = at_cpl(Machine::long(), rcx, rdx);
                    assert_eq!((m.vector(), m.stack(0), m.stack(1)), (GP, 0, CODE));
                }
            }
        }
    }
}

/// SYSENTER_ESP and SYSENTER_EIP take canonical addresses where long mode uses them (SDM volume 2,
/// "WRMSR").
#[test]
fn addresses_for_sysenter() {
    for (features, faults) in [(AMD, false), (INTEL, true)] {
        for register in [0x175, 0x176] {
            let mut m = with_calls(Machine::long(), features);
            m.cpu.set_gpr(RCX, register);
            m.cpu.set_gpr(RAX, 0);
            m.cpu.set_gpr(RDX, NOT_CANONICAL >> 32);
            m.write(CODE, &[0x0f, 0x30, HLT]);
            m.cpu.rip = CODE;
            assert_eq!(m.run(), Exit::Halt);
            if faults {
                assert_eq!((m.handler(), m.stack(0)), (GP, 0), "{register:x}");
            } else {
                assert_eq!(m.cpu.rip, CODE + 3, "{register:x}");
            }
        }
    }
}
