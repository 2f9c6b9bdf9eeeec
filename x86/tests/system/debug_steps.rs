//! Where the single-step trap of an instruction comes that changes TF, and what it does to a halt
//! (section 13.1.4).

use x86_cpu::{
    handover::{Attempt, DebugRegisters},
    run::Exit,
};

use crate::machine::*;

const DB: u64 = 1;
const BP: u64 = 3;
const BS: u64 = 1 << 14;
const NONE: u64 = 0xffff_0ff0;
/// Where the instruction of each test goes.
const TARGET: u64 = CODE + 0x800;
const NEW_TSS: u64 = 0x3800;

/// Runs to the handler of #DB or #BP and checks which, what it saved as address and as TF, and DR6.
fn check(m: &mut Machine, name: &str, vector: u64, rip: u64, saved_tf: u64) {
    m.set_gate(3, 0xee, 0);
    assert_eq!((m.vector(), m.stack(0)), (vector, rip), "{name}");
    assert_eq!(m.stack(2) & TF, saved_tf, "{name}");
    let dr6_value = if vector == DB { NONE | BS } else { NONE };
    assert_eq!(m.cpu.debug_registers().status, dr6_value, "{name}");
}

/// "TF may be set by the IRET, POPF or SYSRET instructions [...] When IRET sets TF, it causes a #DB
/// exception to be taken immediately after the target of the IRET is executed [...] Setting TF with a
/// POPF instruction also causes a one-instruction delayed #DB exception. When TF is set by SYSRET
/// however, a #DB exception is taken before the target instruction executes." One that SYSRET clears
/// does not trap.
#[test]
fn sysret() {
    // TF before, TF in R11, 64-bit operand.
    for (before, after) in [(0, 0), (0, TF), (TF, 0), (TF, TF)] {
        for wide in [false, true] {
            let name = format!("{before:x} {after:x} {wide}");
            let mut m = Machine::long();
            m.cpu.msrs.star = 0x0020_0008_0000_0000;
            m.cpu.set_gpr(RCX, USER_CODE);
            m.cpu.set_gpr(R11, 2 | after);
            m.cpu.set_rflags(2 | before);
            m.write(USER_CODE, &[0xcc]);
            m.load(CODE, 64, |a| if wide { a.sysretq() } else { a.sysret() }.unwrap());
            let (vector, rip) = if after == 0 { (BP, USER_CODE + 1) } else { (DB, USER_CODE) };
            check(&mut m, &name, vector, rip, after);
            let selector = if wide { sel::USER_CODE64 } else { sel::USER_CODE32 };
            assert_eq!(m.stack(1), u64::from(selector), "{name}");
            assert_eq!(m.facts.exceptions, u64::from(vector == DB), "{name}");
        }
    }
    // Legacy mode has no R11: TF stays, and traps.
    for before in [0, TF] {
        let mut m = Machine::protected();
        m.cpu.set_control(m.cpu.cr0(), 0, 0, 1);
        m.cpu.msrs.star = 0x0018_0018_0000_0000;
        m.cpu.set_gpr(RCX, USER_CODE);
        m.cpu.set_rflags(2 | before);
        m.write(USER_CODE, &[0xcc]);
        m.load(CODE, 32, |a| a.sysret().unwrap());
        let (vector, rip) = if before == 0 { (BP, USER_CODE + 1) } else { (DB, USER_CODE) };
        check(&mut m, "legacy", vector, rip, before);
    }
}

/// A trap that SYSRET has coming is not lost where the run ends behind it.
#[test]
fn sysret_at_the_end_of_a_run() {
    let mut m = Machine::long();
    m.cpu.msrs.star = 0x0020_0008_0000_0000;
    m.cpu.set_gpr(RCX, USER_CODE);
    m.cpu.set_gpr(R11, 2 | TF);
    m.write(USER_CODE, &[0xcc]);
    m.load(CODE, 64, |a| a.sysretq().unwrap());
    let until = m.cpu.time + 1;
    m.run_until(until);
    check(&mut m, "slices", DB, USER_CODE, TF);
    // One instruction at a time, as where another engine executes the rest.
    let mut m = Machine::long();
    m.cpu.msrs.star = 0x0020_0008_0000_0000;
    m.cpu.set_gpr(RCX, USER_CODE);
    m.cpu.set_gpr(R11, 2 | TF);
    m.write(USER_CODE, &[0xcc]);
    m.load(CODE, 64, |a| a.sysretq().unwrap());
    assert_eq!(m.attempt(), Attempt::Done);
    check(&mut m, "attempt", DB, USER_CODE, TF);
}

/// SYSCALL in long mode: a TF that SFMASK leaves traps at the target, one that it clears does not.
#[test]
fn syscall() {
    for (before, mask, traps) in [(0, 0, false), (0, TF, false), (TF, TF, false), (TF, 0, true)] {
        let mut m = Machine::long().at_user();
        m.cpu.msrs.star = 0x0020_0008_0000_0000;
        m.cpu.msrs.lstar = TARGET;
        m.cpu.msrs.sfmask = mask;
        m.cpu.set_rflags(2 | before);
        m.write(TARGET, &[0xcc]);
        m.load(USER_CODE, 64, |a| a.syscall().unwrap());
        let (vector, rip) = if traps { (DB, TARGET) } else { (BP, TARGET + 1) };
        let saved = if mask == 0 { before } else { 0 };
        check(&mut m, &format!("{before:x} {mask:x}"), vector, rip, saved);
    }
}

/// SYSENTER and SYSEXIT leave TF alone, and trap at their target.
#[test]
fn sysenter_and_sysexit() {
    for before in [0, TF] {
        for enter in [true, false] {
            let mut m = Machine::protected();
            m.cpu.msrs.sysenter_cs = u64::from(sel::CODE32);
            m.cpu.msrs.sysenter_esp = KERNEL_STACK;
            m.cpu.msrs.sysenter_eip = TARGET;
            // CS + 16 and CS + 24 name no user segments here; nothing reads them.
            m.cpu.set_gpr(RDX, TARGET);
            m.cpu.set_gpr(RCX, USER_STACK);
            m.cpu.set_rflags(2 | before);
            m.write(TARGET, &[0xcc]);
            m.load(CODE, 32, |a| if enter { a.sysenter() } else { a.sysexit() }.unwrap());
            let (vector, rip) = if before == 0 { (BP, TARGET + 1) } else { (DB, TARGET) };
            check(&mut m, &format!("{enter} {before:x}"), vector, rip, before);
        }
    }
}

/// IRET and POPF: a TF that they set traps behind the next instruction; one that was set when they
/// began traps behind them, whatever they load (Intel SDM volume 3, "Single-Step Exception
/// Condition": the exception is generated if "while an instruction is being executed" TF "is set",
/// and not "after the instruction that sets the TF flag").
#[test]
fn iret_and_popf() {
    for (before, after) in [(0, 0), (0, TF), (TF, 0), (TF, TF)] {
        for iret in [true, false] {
            let mut m = Machine::long();
            let top = KERNEL_STACK - 0x100;
            let (rip, code) = if iret { (TARGET, [0x48, 0xcf]) } else { (CODE + 1, [0x9d, 0x90]) };
            let frame = [rip, u64::from(sel::CODE64), 2 | after, top, u64::from(sel::DATA)];
            for (at, value) in (0..).zip(if iret { frame } else { [2 | after; 5] }) {
                m.write_u64(top + 8 * at, value);
            }
            m.write(TARGET, &[0x90, 0xcc]);
            m.write(CODE, &code);
            m.write(CODE + 2, &[0xcc]);
            m.cpu.rip = CODE;
            m.cpu.set_rflags(2 | before);
            let (vector, saved) = match (before, after) {
                (0, 0) => (BP, rip + 2),
                (0, _) => (DB, rip + 1),
                _ => (DB, rip),
            };
            check(&mut m, &format!("{iret} {before:x} {after:x}"), vector, saved, after);
        }
    }
}

/// "If the TF flag was set in a TSS at the time of a task switch, the exception occurs after the first
/// instruction is executed in the new task" (Intel SDM volume 3, the same section). JMP and a task
/// gate; INT n clears the old task's TF.
#[test]
fn task_switch() {
    const NEW: u16 = sel::FREE;
    for (before, after) in [(0, 0), (0, TF), (TF, 0)] {
        for gated in [false, true] {
            let mut m = Machine::protected();
            m.set_descriptor(NEW, descriptor(NEW_TSS, 0x67, 0x89, 0));
            m.write_u64(IDT + 8 * 0x40, gate(NEW, 0, 0, 0x85));
            m.write_u32(NEW_TSS + 32, TARGET as u32);
            m.write_u32(NEW_TSS + 36, (2 | after) as u32);
            m.write_u32(NEW_TSS + 56, KERNEL_STACK as u32 - 0x800);
            let selectors = [sel::DATA, sel::CODE32, sel::DATA, sel::DATA, 0, 0];
            for (at, selector) in (0..).zip(selectors) {
                m.write_u32(NEW_TSS + 72 + 4 * at, u32::from(selector));
            }
            m.write(TARGET, &[0x90, 0xcc]);
            let code: &[u8] = if gated { &[0xcd, 0x40] } else { &[0xea, 0, 0, 0, 0, NEW as u8, 0] };
            m.write(CODE, code);
            m.cpu.rip = CODE;
            m.cpu.set_rflags(2 | before);
            let (vector, saved) = match (before, after, gated) {
                (0, 0, _) | (_, 0, true) => (BP, TARGET + 2),
                (0, _, _) => (DB, TARGET + 1),
                _ => (DB, TARGET),
            };
            check(&mut m, &format!("{gated} {before:x} {after:x}"), vector, saved, after);
        }
    }
}

/// INT n and INT3 clear TF for their handler and do not trap; far transfers that do not load RFLAGS
/// trap at their target.
#[test]
fn other_transfers() {
    let stack = KERNEL_STACK - 0x100;
    let far = |m: &Machine| {
        m.write_u64(DATA, TARGET);
        m.write_u16(DATA + 4, sel::CODE64);
        m.write_u64(stack, TARGET);
        m.write_u64(stack + 8, u64::from(sel::CODE64));
        m.write(TARGET, &[0xcc]);
        m.write(HANDLERS + 16 * 0x30, &[0xcc]);
    };
    let data = (DATA as u32).to_le_bytes();
    let indirect = |reg: u8| [&[0xff, 0x04 | reg << 3, 0x25], &data[..]].concat();
    for (name, code, traps) in [
        ("INT n", vec![0xcd, 0x30], false),
        ("JMP far", indirect(5), true),
        ("CALL far", indirect(3), true),
        ("RET far", vec![0x48, 0xcb], true),
    ] {
        let mut m = Machine::long();
        far(&m);
        m.write(CODE, &code);
        m.cpu.rip = CODE;
        m.cpu.set_rflags(2 | TF);
        if traps {
            check(&mut m, name, DB, TARGET, TF);
        } else {
            check(&mut m, name, BP, HANDLERS + 16 * 0x30 + 1, 0);
        }
    }
}

/// The trap of a single-stepped HLT comes behind it and ends the halt: it has a higher priority than
/// the interrupts that HLT waits for (section 8.5), and an exception's handler does not run halted.
#[test]
fn halt() {
    let mut m = Machine::long();
    m.cpu.set_rflags(2 | TF);
    // HLT; INT3. The handler of #DB returns with TF clear.
    m.write(CODE, &[0xf4, 0xcc]);
    m.cpu.rip = CODE;
    check(&mut m, "the trap", DB, CODE + 1, TF);
    // The handler's IRET goes on behind the HLT.
    let mut m = Machine::long();
    m.cpu.set_rflags(2 | TF);
    m.write(CODE, &[0xf4, 0xcc]);
    m.cpu.rip = CODE;
    // AND dword [RSP+16], ~TF; IRETQ
    let handler = [0x81, 0x64, 0x24, 0x10, 0xff, 0xfe, 0xff, 0xff, 0x48, 0xcf];
    m.write(HANDLERS + 16, &handler);
    m.set_gate(3, 0xee, 0);
    assert_eq!((m.vector(), m.stack(0)), (BP, CODE + 2));
    // HLT, AND, IRET, INT3, HLT: each retires once.
    assert_eq!((m.facts.exceptions, m.cpu.retired()), (1, 5));
    // One instruction at a time.
    let mut m = Machine::long();
    m.cpu.set_rflags(2 | TF);
    m.write(CODE, &[0xf4]);
    m.cpu.rip = CODE;
    assert_eq!(m.attempt(), Attempt::Done);
    assert!(!m.cpu.halted);
    check(&mut m, "attempt", DB, CODE + 1, TF);
    // Without TF it halts.
    let mut m = Machine::long();
    m.write(CODE, &[0xf4, 0xcc]);
    m.cpu.rip = CODE;
    assert_eq!((m.run(), m.cpu.rip), (Exit::Halt, CODE + 1));
}

/// Watches [`DATA`], which holds the selector of SS, with DR0: every access of two bytes.
fn watching_selector() -> Machine {
    let mut m = Machine::long();
    m.write_u64(DATA, u64::from(sel::DATA));
    m.cpu.set_debug_registers(&DebugRegisters {
        addresses: [DATA, 0, 0, 0],
        status: 0,
        control: 0x7_0001,
    });
    m
}

/// MOV SS, [DATA]
const MOV_SS: [u8; 7] = [0x8e, 0x14, 0x25, 0x00, 0x40, 0x01, 0x00];

/// What MOV SS holds back comes behind the next instruction, also if that is HLT.
#[test]
fn halt_behind_mov_ss() {
    let mut m = watching_selector();
    m.write(CODE, &[&MOV_SS[..], &[0xf4]].concat());
    m.cpu.rip = CODE;
    assert_eq!((m.vector(), m.stack(0)), (DB, CODE + 8));
    assert_eq!(m.cpu.debug_registers().status, NONE | 1);
}

/// A data breakpoint on the operand of MOV SS, and ICEBP behind it: one #DB, ICEBP's own, which
/// reports the match. No manual has the case; hypervisors' tests on both vendors' processors see one
/// exception here, and two where INT n or INT3 follows: its own and then the breakpoint's, whose
/// saved address is the handler's.
#[test]
fn icebp_behind_mov_ss() {
    let frame = KERNEL_STACK - 0x100 - 40;
    for prefixes in [0, 2] {
        let mut m = watching_selector();
        let code = [&MOV_SS[..], &vec![0x2e; prefixes], &[0xf1]].concat();
        m.write(CODE, &code);
        m.cpu.rip = CODE;
        assert_eq!((m.vector(), m.stack(0)), (DB, CODE + code.len() as u64));
        assert_eq!((m.cpu.gpr(RSP), m.facts.exceptions), (frame, 0));
        assert_eq!(m.cpu.debug_registers().status, NONE | 1);
        // Nothing is left for later.
        m.write(CODE, &[0x90, 0xf4]);
        m.cpu.rip = CODE;
        assert_eq!((m.run(), m.cpu.rip), (Exit::Halt, CODE + 2));
    }
    for (code, vector, length) in
        [(&[0xcd, 1][..], 1, 2), (&[0xcc], 3, 1), (&[0xcd, 0x30], 0x30, 2)]
    {
        let mut m = watching_selector();
        m.write(CODE, &[&MOV_SS[..], code].concat());
        m.cpu.rip = CODE;
        assert_eq!((m.vector(), m.stack(0)), (DB, HANDLERS + 16 * vector), "{code:x?}");
        assert_eq!((m.facts.exceptions, m.cpu.debug_registers().status), (1, NONE | 1));
        assert_eq!(m.read_u64(frame), CODE + 7 + length, "{code:x?}");
    }
}

/// A breakpoint on the instruction behind MOV SS or POP SS. Intel's processors hold it back (SDM
/// volume 3, "Instruction-Breakpoint Exception Condition": "if an instruction breakpoint is placed on
/// an instruction located immediately after a POP SS/MOV SS instruction, the breakpoint will be
/// suppressed as if EFLAGS.RF were 1"). AMD's do not: section 13.1.3.1 has no such exception.
#[test]
fn instruction_breakpoint_behind_ss() {
    for after_ss in [true, false] {
        // MOV SS, EAX and, in 32-bit code, POP SS; each followed by two NOPs and INT3.
        for (mut m, code) in [
            (Machine::long(), &[0x8e, 0xd0, 0x90, 0x90, 0xcc][..]),
            (Machine::protected(), &[0x8e, 0xd0, 0x90, 0x90, 0xcc]),
            (Machine::protected(), &[0x90, 0x17, 0x90, 0x90, 0xcc]),
        ] {
            for offset in [2, 3] {
                m.cpu.features.breakpoint_after_ss = after_ss;
                m.cpu.set_gpr(RAX, u64::from(sel::DATA));
                m.cpu.set_gpr(RSP, KERNEL_STACK - 0x100);
                m.write_u64(KERNEL_STACK - 0x100, u64::from(sel::DATA));
                m.cpu.set_debug_registers(&DebugRegisters {
                    addresses: [CODE + offset, 0, 0, 0],
                    status: 0,
                    control: 1,
                });
                m.write(CODE, code);
                m.cpu.rip = CODE;
                m.cpu.set_rflags(2);
                let (vector, rip) =
                    if after_ss || offset == 3 { (DB, CODE + offset) } else { (BP, CODE + 5) };
                assert_eq!((m.vector(), m.stack(0)), (vector, rip), "{after_ss} {code:x?}");
                assert_eq!(m.cpu.debug_registers().status, NONE | u64::from(vector == DB));
            }
        }
    }
}

/// Where it is not held back, that #DB reports what MOV SS had waiting as well.
#[test]
fn both_breakpoints_behind_ss() {
    let mut m = watching_selector();
    m.cpu.features.breakpoint_after_ss = true;
    m.cpu.set_debug_registers(&DebugRegisters {
        addresses: [DATA, CODE + 7, 0, 0],
        status: 0,
        control: 0x7_0005,
    });
    m.write(CODE, &[&MOV_SS[..], &[0x90, 0xcc]].concat());
    m.cpu.rip = CODE;
    assert_eq!((m.vector(), m.stack(0)), (DB, CODE + 7));
    assert_eq!(m.cpu.debug_registers().status, NONE | 3);
}
