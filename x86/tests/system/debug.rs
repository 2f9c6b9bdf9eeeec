//! Single-stepping and breakpoints (section 13.1).

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::*;

/// Address that #DB saved and what DR6 says.
fn trap(m: &mut Machine) -> (u64, u64) {
    assert_eq!(m.vector(), 1);
    let saved = m.stack(0);
    (saved, m.ask(|a| a.mov(rax, dr6).unwrap()))
}

/// Sets DR0 and DR7 by instructions.
fn set_breakpoint(m: &mut Machine, address: u64, dr7_value: u64) {
    m.ask(|a| {
        a.mov(rax, address).unwrap();
        a.mov(dr0, rax).unwrap();
        a.mov(rax, dr7_value).unwrap();
        a.mov(dr7, rax).unwrap();
    });
}

const BS: u64 = 1 << 14;
const NONE: u64 = 0xffff_0ff0;

/// TF: the trap comes after the instruction, saves TF and clears it for the handler.
#[test]
fn single_step() {
    let mut m = Machine::long();
    m.cpu.set_rflags(2 | TF);
    m.load(CODE, 64, |a| {
        a.nop().unwrap();
        a.nop().unwrap();
    });
    assert_eq!(m.vector(), 1);
    assert_eq!((m.stack(0), m.stack(2)), (CODE + 1, 2 | TF));
    assert_eq!(m.cpu.rflags() & TF, 0);
    assert_eq!(m.ask(|a| a.mov(rax, dr6).unwrap()), NONE | BS);
    assert_eq!(m.facts.exceptions, 1);
}

/// POPF that sets TF: the instruction behind it is the first to trap. MOV SS puts the trap off.
#[test]
fn where_the_trap_comes() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.push(0x102).unwrap();
        a.popfq().unwrap();
        a.nop().unwrap();
        a.nop().unwrap();
    });
    // PUSH has five bytes, POPF and NOP one each.
    assert_eq!(trap(&mut m), (CODE + 7, NONE | BS));

    let mut m = Machine::long();
    m.cpu.set_rflags(2 | TF);
    m.cpu.set_gpr(RAX, u64::from(sel::DATA));
    m.write(CODE, &[0x8e, 0xd0, 0x90, 0x90]);
    m.cpu.rip = CODE;
    assert_eq!(trap(&mut m), (CODE + 3, NONE | BS));
}

/// INT n with TF set does not trap in its handler; the instruction behind IRET does.
#[test]
fn software_interrupt_hides_the_trap() {
    let mut m = Machine::long();
    m.cpu.set_rflags(2 | TF);
    m.load(HANDLERS + 0x300, 64, |a| {
        a.nop().unwrap();
        a.iretq().unwrap();
    });
    m.load(CODE, 64, |a| {
        a.int(0x30).unwrap();
        a.nop().unwrap();
        a.nop().unwrap();
    });
    assert_eq!(trap(&mut m), (CODE + 3, NONE | BS));
}

/// SYSCALL with TF masked by SFMASK does not trap either.
#[test]
fn syscall_hides_the_trap() {
    let mut m = Machine::long();
    m.cpu.msrs.star = 0x0023_0008_0000_0000;
    m.cpu.msrs.lstar = CODE + 0x100;
    m.cpu.msrs.sfmask = TF;
    m.cpu.set_rflags(2 | TF);
    m.write(CODE + 0x100, &[0xf4]);
    m.load(CODE, 64, |a| a.syscall().unwrap());
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 0x101);
}

/// An instruction breakpoint is a fault; RF lets the instruction through once.
#[test]
fn instruction_breakpoint() {
    let mut m = Machine::long();
    set_breakpoint(&mut m, CODE + 1, 1);
    m.load(CODE, 64, |a| {
        a.nop().unwrap();
        a.inc(ecx).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.vector(), 1);
    assert_eq!((m.stack(0), m.cpu.gpr(RCX)), (CODE + 1, 0));
    assert_eq!(m.stack(2) & RF, 0);
    assert_eq!(m.facts.debug_matches, [1, 0, 0, 0]);
    // Resume with RF, once: it is gone behind the instruction.
    m.cpu.rip = CODE + 1;
    m.cpu.set_rflags(2 | RF);
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.cpu.rip, m.cpu.gpr(RCX)), (CODE + 4, 1));
    assert_eq!(m.cpu.rflags() & RF, 0);
    assert_eq!(m.facts.debug_matches, [1, 0, 0, 0]);
    assert_eq!(m.ask(|a| a.mov(rax, dr6).unwrap()), NONE | 1);
}

/// Data breakpoints: a trap behind the instruction, by kind and range of the access.
#[test]
fn data_breakpoints() {
    // DR7 fields of DR0: L0, R/W at 17:16, LEN at 19:18.
    const WRITE: u64 = 1 << 16;
    const ACCESS: u64 = 3 << 16;
    const BYTE: u64 = 0;
    const DWORD: u64 = 3 << 18;
    for (kind, address, is_write, hits) in [
        (WRITE | DWORD, DATA, true, true),
        (WRITE | DWORD, DATA, false, false),
        (ACCESS | DWORD, DATA, false, true),
        // Four bytes from DATA + 2: touches the watched byte, and the one before does not.
        (WRITE | BYTE, DATA + 5, true, true),
        (WRITE | BYTE, DATA + 6, true, false),
        (WRITE | DWORD, DATA + 7, true, true),
    ] {
        let mut m = Machine::long();
        set_breakpoint(&mut m, address, 1 | kind);
        let before = m.facts.debug_matches[0];
        m.load(CODE, 64, |a| {
            a.mov(rbx, DATA + 2).unwrap();
            if is_write {
                a.mov(dword_ptr(rbx), ecx).unwrap();
            } else {
                a.mov(ecx, dword_ptr(rbx)).unwrap();
            }
            a.hlt().unwrap();
        });
        assert_eq!(m.run(), Exit::Halt);
        let trapped = m.cpu.rip < CODE;
        assert_eq!(trapped, hits, "{kind:x} {address:x}");
        assert_eq!(m.facts.debug_matches[0] - before, u64::from(hits));
        if hits {
            assert_eq!((m.handler(), m.stack(0)), (1, CODE + 12));
            assert_eq!(m.ask(|a| a.mov(rax, dr6).unwrap()), NONE | 1);
        }
    }
}

/// Matches of breakpoints that DR7 does not enable can be counted (K8 events DCh to DFh) and do not
/// trap.
#[test]
fn disabled_breakpoints_are_counted() {
    let mut m = Machine::long();
    set_breakpoint(&mut m, DATA, 0xd << 16);
    m.cpu.watch_disabled_breakpoints(true);
    m.load(CODE, 64, |a| {
        a.mov(rbx, DATA).unwrap();
        a.mov(dword_ptr(rbx), ecx).unwrap();
        a.mov(dword_ptr(rbx + 4), ecx).unwrap();
        a.hlt().unwrap();
    });
    let before = m.facts.debug_matches[0];
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + 16);
    assert_eq!(m.facts.debug_matches[0] - before, 1);
}

/// DR7.GD makes the next access to a debug register #DB with DR6.BD, and is cleared by it. DR4 and
/// DR5 are DR6 and DR7 until CR4.DE makes them invalid.
#[test]
fn debug_registers_themselves() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        a.mov(eax, 0x2000).unwrap();
        a.mov(dr7, rax).unwrap();
        a.mov(rcx, dr0).unwrap();
    });
    assert_eq!(trap(&mut m), (CODE + 8, NONE | 1 << 13));
    assert_eq!(m.ask(|a| a.mov(rax, dr7).unwrap()), 0x400);
    assert_eq!(m.ask(|a| a.mov(rax, dr5).unwrap()), 0x400);
    m.load(CODE, 64, |a| {
        a.mov(rax, cr4).unwrap();
        a.or(eax, 8).unwrap();
        a.mov(cr4, rax).unwrap();
        a.mov(rax, dr5).unwrap();
    });
    assert_eq!(m.vector(), 6);
}

/// B0 to B3 say which breakpoints matched at the last #DB of one; BD, BS and BT stay until software
/// clears them (section 13.1.1.3: "The processor updates these four bits on every debug breakpoint or
/// general-detect condition. A bit is set to 1 if the corresponding address-breakpoint register
/// detects an enabled breakpoint condition [...] and is cleared to 0 otherwise"; "Bits 15:13 of the
/// DR6 register are not cleared by the processor"). Intel's SDM, volume 3, "Debug Status Register
/// (DR6)", allows it: DR6 "reports debug conditions that were sampled at the time the last debug
/// exception was generated", and "certain debug exceptions may clear bits 0-3".
#[test]
fn matches_of_before_are_cleared() {
    const BD: u64 = 1 << 13;
    const BT: u64 = 1 << 15;
    // DR7: L0, R/W0 and LEN0 of a write of four bytes.
    const WRITE: u64 = 0xd_0001;
    const FETCH: u64 = 1;
    // RFLAGS, DR7, address in DR0, instruction at CODE, address that #DB saves, and what DR6 holds
    // beside its fixed ones.
    let mov = [0x89, 0x0c, 0x25, 0x00, 0x40, 0x01, 0x00];
    assert_eq!(DATA, 0x1_4000);
    type Case<'a> = (&'a str, u64, u64, u64, &'a [u8], u64, u64);
    let cases: [Case<'_>; 6] = [
        ("instruction", 0, FETCH, CODE, &[0x90], CODE, 1 | BS | BD | BT),
        ("data", 0, WRITE, DATA, &mov, CODE + 7, 1 | BS | BD | BT),
        ("port", 0, 0x2_0001, 0x80, &[0xe6, 0x80], CODE + 2, 1 | BS | BD | BT),
        // MOV RAX, DR7 with DR7.GD set.
        ("general detect", 0, 1 << 13, 0, &[0x0f, 0x21, 0xf8], CODE, BS | BD | BT),
        // A single step alone is no breakpoint; together with one, the bits are.
        ("step", TF, 0, 0, &[0x90], CODE + 1, 0xf | BS | BD | BT),
        ("step and data", TF, WRITE, DATA, &mov, CODE + 7, 1 | BS | BD | BT),
    ];
    for (name, flags, dr7_value, address, code, saved, status) in cases {
        let mut m = Machine::long();
        // CR4.DE, for the port.
        m.cpu.set_control(m.cpu.cr0(), m.cpu.cr3(), m.cpu.cr4() | 8, m.cpu.efer());
        m.ask(|a| {
            a.mov(eax, 0xe00f).unwrap();
            a.mov(dr6, rax).unwrap();
            a.mov(rax, address).unwrap();
            a.mov(dr0, rax).unwrap();
            a.mov(rax, dr7_value).unwrap();
            a.mov(dr7, rax).unwrap();
        });
        m.write(CODE, code);
        m.cpu.rip = CODE;
        m.cpu.set_rflags(2 | flags);
        assert_eq!(trap(&mut m), (saved, NONE | status), "{name}");
    }
}

/// ICEBP goes to vector 1 whatever the gate's DPL, and counts as a far transfer.
#[test]
fn icebp() {
    let mut m = Machine::long().at_user();
    m.load(USER_CODE, 64, |a| a.int1().unwrap());
    assert_eq!((m.vector(), m.stack(0)), (1, USER_CODE + 1));
    assert_eq!((m.facts.far, m.facts.exceptions), (1, 0));
}

/// An IRET that loads RF protects one instruction, not two.
#[test]
fn resume_flag_from_iret_lasts_one_instruction() {
    let mut m = Machine::long();
    set_breakpoint(&mut m, CODE + 0x101, 1);
    m.write(CODE + 0x100, &[0x90, 0x90, 0xf4]);
    m.load(CODE, 64, |a| {
        a.push(i32::from(sel::DATA)).unwrap();
        a.push(KERNEL_STACK as i32 - 0x100).unwrap();
        a.push((2 | RF) as i32).unwrap();
        a.push(i32::from(sel::CODE64)).unwrap();
        a.push(CODE as i32 + 0x100).unwrap();
        a.iretq().unwrap();
    });
    assert_eq!(trap(&mut m), (CODE + 0x101, NONE | 1));
}

/// The trap behind that instruction saves RF clear, be there breakpoints or not (Intel SDM volume 3,
/// "Instruction-Breakpoint Exception Condition": RF is cleared after the successful execution).
#[test]
fn the_trap_behind_the_protected_instruction_saves_rf_clear() {
    let mut m = Machine::long();
    m.load(CODE, 64, |a| {
        let mut after = a.create_label();
        a.push(i32::from(sel::DATA)).unwrap();
        a.push(0x2_0000).unwrap();
        a.push((2 | RF | TF) as i32).unwrap();
        a.push(i32::from(sel::CODE64)).unwrap();
        a.lea(rax, ptr(after)).unwrap();
        a.push(rax).unwrap();
        a.iretq().unwrap();
        a.set_label(&mut after).unwrap();
        a.nop().unwrap();
        a.nop().unwrap();
    });
    assert_eq!(m.vector(), 1);
    assert_eq!(m.stack(2) & (RF | TF), TF);
}

/// An interrupt between two iterations of a REP string instruction saves RF set and the address of
/// the instruction; one behind the last iteration saves it clear (Intel SDM volume 3,
/// "Instruction-Breakpoint Exception Condition").
#[test]
fn resume_flag_of_an_interrupted_repeat() {
    for (cycles, rip, rf, left) in [(3, CODE, RF, 5), (8, CODE + 2, 0, 0)] {
        let mut m = Machine::long();
        m.cpu.set_rflags(2 | IF);
        m.cpu.set_gpr(RDI, DATA);
        m.cpu.set_gpr(RCX, 8);
        // REP STOSB; NOP
        m.write(CODE, &[0xf3, 0xaa, 0x90, 0xf4]);
        m.cpu.rip = CODE;
        let until = m.cpu.time + cycles;
        m.run_until(until);
        m.interrupt(0x40);
        assert_eq!((m.stack(0), m.stack(2)), (rip, 2 | IF | rf), "{cycles}");
        assert_eq!(m.cpu.rflags() & RF, 0, "the handler has its own breakpoints");
        assert_eq!(m.cpu.gpr(RCX), left);
    }
    // OUTS stops after every iteration.
    let mut m = Machine::long();
    m.cpu.set_gpr(RSI, DATA);
    m.cpu.set_gpr(RCX, 4);
    m.write(CODE, &[0xf3, 0x6e, 0xf4]);
    m.cpu.rip = CODE;
    let until = m.cpu.time + 100;
    m.run_until(until);
    m.interrupt(0x40);
    assert_eq!((m.stack(0), m.stack(2), m.cpu.gpr(RCX)), (CODE, 2 | RF, 3));
}

/// RF is for one instruction: the image that INT n saves has it clear.
#[test]
fn resume_flag_and_software_interrupts() {
    let mut m = Machine::long();
    m.cpu.set_rflags(2 | RF);
    m.load(CODE, 64, |a| a.int(0x30).unwrap());
    assert_eq!((m.vector(), m.stack(0), m.stack(2)), (0x30, CODE + 2, 2));
}

/// A repeated instruction that stops between iterations meets its own breakpoint once, and leaves RF
/// clear.
#[test]
fn breakpoint_on_a_repeat() {
    let mut m = Machine::long();
    set_breakpoint(&mut m, CODE, 1);
    m.cpu.set_gpr(RDI, DATA);
    m.cpu.set_gpr(RCX, 8);
    m.write(CODE, &[0xf3, 0xaa, 0xf4]);
    m.cpu.rip = CODE;
    assert_eq!(m.vector(), 1);
    m.cpu.halted = false;
    m.cpu.rip = CODE;
    m.cpu.set_rflags(2 | RF);
    for _ in 0..8 {
        let until = m.cpu.time + 1;
        m.run_until(until);
    }
    assert_eq!((m.cpu.rip, m.cpu.gpr(RCX)), (CODE + 2, 0));
    assert_eq!(m.cpu.rflags() & RF, 0);
    assert_eq!(m.facts.debug_matches, [1, 0, 0, 0]);
}

/// TF traps behind every iteration of a repeat; RF is set in the image but behind the last.
#[test]
fn single_step_of_a_repeat() {
    let mut m = Machine::long();
    m.cpu.set_gpr(RDI, DATA);
    m.cpu.set_gpr(RCX, 3);
    m.write(CODE, &[0xf3, 0xaa, 0xf4]);
    for (left, rip, rf) in [(2, CODE, RF), (1, CODE, RF), (0, CODE + 2, 0)] {
        m.cpu.set_gpr(RSP, KERNEL_STACK - 0x100);
        m.cpu.rip = CODE;
        m.cpu.set_rflags(2 | TF | if left < 2 { RF } else { 0 });
        assert_eq!(m.vector(), 1);
        assert_eq!((m.cpu.gpr(RCX), m.stack(0), m.stack(2)), (left, rip, 2 | TF | rf));
    }
    assert_eq!(m.ask(|a| a.mov(rax, dr6).unwrap()), NONE | BS);
    assert_eq!(m.facts.exceptions, 3);
}
