//! Single instructions on behalf of another engine.

use x86_cpu::handover::Attempt;
use x86_cpu::stop::Exception;

use crate::machine::*;

const CR4_PCE: u64 = 1 << 8;

/// RDPMC at privilege 3 with CR4.PCE executes (APM volume 3, "RDPMC"); without, #GP(0) is reported
/// and nothing has changed.
#[test]
fn an_instruction_executes_or_reports_its_fault() {
    let mut m = Machine::long().at_user();
    m.write(USER_CODE, &[0x0f, 0x33]);
    m.cpu.rip = USER_CODE;
    m.cpu.set_gpr(RAX, 7);
    m.cpu.set_gpr(RCX, 1);
    let refused = Attempt::Faulted(Exception { vector: 13, code: Some(0) });
    assert_eq!(m.attempt(), refused);
    assert_eq!((m.cpu.rip, m.cpu.gpr(RAX), m.cpu.cpl()), (USER_CODE, 7, 3));
    m.cpu.set_control(m.cpu.cr0(), m.cpu.cr3(), m.cpu.cr4() | CR4_PCE, m.cpu.efer());
    let retired = m.cpu.retired();
    assert_eq!(m.attempt(), Attempt::Done);
    // The counter of the test's bus is AB_1234_5678h.
    assert_eq!((m.cpu.rip, m.cpu.gpr(RAX), m.cpu.gpr(RDX)), (USER_CODE + 2, 0x1234_5678, 0xab));
    assert_eq!(m.cpu.retired(), retired + 1);
}

/// The trap of TF follows the instruction (APM volume 2, section 13.1.4): its handler is next.
#[test]
fn a_trap_behind_the_instruction_is_delivered() {
    let mut m = Machine::long();
    m.write(CODE, &[0x90, 0x90]);
    m.cpu.rip = CODE;
    m.cpu.set_rflags(2 | TF | RF);
    assert_eq!(m.attempt(), Attempt::Done);
    assert_eq!(m.handler(), 1);
    // RIP of the second NOP; RF is spent.
    assert_eq!((m.stack(0), m.stack(2)), (CODE + 1, 2 | TF));
}

#[test]
fn hlt_halts() {
    let mut m = Machine::long();
    m.write(CODE, &[0xf4]);
    m.cpu.rip = CODE;
    assert_eq!(m.attempt(), Attempt::Halted);
    assert!(m.cpu.halted);
    assert_eq!(m.cpu.rip, CODE + 1);
}

/// A REP string instruction makes its way in parts, each with RIP on it until the last.
#[test]
fn rep_goes_on_where_it_was() {
    let mut m = Machine::long();
    m.write(CODE, &[0xf3, 0xaa]);
    m.cpu.rip = CODE;
    m.cpu.set_gpr(RAX, 0x5a);
    m.cpu.set_gpr(RCX, 3);
    m.cpu.set_gpr(RDI, DATA);
    for _ in 0..10 {
        if m.cpu.rip == CODE {
            assert_eq!(m.attempt(), Attempt::Done);
        }
    }
    assert_eq!((m.cpu.rip, m.cpu.gpr(RCX), m.cpu.gpr(RDI)), (CODE + 2, 0, DATA + 3));
    assert_eq!(m.read_u64(DATA), 0x5a_5a5a);
}
