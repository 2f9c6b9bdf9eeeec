//! Retired instructions and control transfers: C0h, C2h, C4h, C6h, C8h, CFh (BKDG 10.2.1.6).

use guest_tests::guest::{HANDLING, PROBE_BEFORE, PROBE_BEHIND, RECOVERING, RFLAGS_CLEAR};
use guest_tests::msr::{OS, USR};
use guest_tests::{DISABLING, Guest, PMI_VECTOR, Result, SCRATCH, run};
use iced_x86::code_asm::{
    byte_ptr, dword_ptr, eax, ecx, fword_ptr, rax, rcx, rdi, rsi, rsp, word_ptr,
};

const EVENTS: &[(&str, u64)] = &[
    ("instructions", 0xC0 | OS),
    ("branches", 0xC2 | OS),
    ("taken", 0xC4 | OS),
    ("far", 0xC6 | OS),
    ("returns", 0xC8 | OS),
    ("interrupts", 0xCF | OS),
];

const KERNEL_CS: i32 = 0x08;
const KERNEL_SS: i32 = 0x10;

/// Nothing between the enabling and the disabling WRMSR but what the latter needs.
#[test]
fn nothing() -> Result {
    let image = Guest::assemble(|g| g.count_each(EVENTS, |_| Ok(())))?;
    run(&image).expect(&[
        ("instructions", DISABLING),
        ("branches", 0),
        ("taken", 0),
        ("far", 0),
        ("returns", 0),
        ("interrupts", 0),
    ]);
    Ok(())
}

#[test]
fn a_loop() -> Result {
    let image = Guest::assemble(|g| {
        g.count_each(EVENTS, |g| {
            g.mov(ecx, 1000)?; // 1
            let next = g.here()?;
            g.dec(ecx)?; // 1000
            g.jnz(next) // 1000, taken 999 times
        })
    })?;
    run(&image).expect(&[
        ("instructions", 1 + 1000 + 1000 + DISABLING),
        ("branches", 1000),
        ("taken", 999),
        ("far", 0),
        ("returns", 0),
    ]);
    Ok(())
}

/// A function that returns by RET for odd and by RET Iw for even arguments.
#[test]
fn calls_and_returns() -> Result {
    let image = Guest::assemble(|g| {
        g.count_each(EVENTS, |g| {
            let (mut over, mut f) = (g.create_label(), g.create_label());
            g.mov(ecx, 5)?; // 1
            let next = g.here()?;
            g.call(f)?; // 5, taken 5
            g.dec(ecx)?; // 5
            g.jnz(next)?; // 5, taken 4
            g.jmp(over)?; // 1, taken 1
            g.place(&mut f)?;
            let mut even = g.create_label();
            g.test(ecx, 1)?; // 5, with ECX = 5, 4, 3, 2, 1
            g.jz(even)?; // 5, taken 2
            g.ret()?; // 3, taken 3
            g.place(&mut even)?;
            g.ret_1(0)?; // 2, taken 2
            g.place(&mut over)
        })
    })?;
    run(&image).expect(&[
        ("instructions", 1 + 5 + 5 + 5 + 1 + 5 + 5 + 3 + 2 + DISABLING),
        ("branches", 5 + 5 + 1 + 5 + 3 + 2),
        ("taken", 5 + 4 + 1 + 2 + 3 + 2),
        ("far", 0),
        ("returns", 3 + 2),
    ]);
    Ok(())
}

/// LOOP and JRCXZ are branches, and so is an indirect jump; a REP string instruction is one
/// instruction and no branch, however often it repeats.
#[test]
fn other_near_transfers() -> Result {
    let image = Guest::assemble(|g| {
        g.count_each(EVENTS, |g| {
            let mut there = g.create_label();
            g.lea(rax, byte_ptr(there))?; // 1
            g.jmp(rax)?; // 1, taken
            g.ud2()?;
            g.place(&mut there)?;
            g.mov(ecx, 4)?; // 1
            let next = g.here()?;
            g.loop_(next)?; // 4, taken 3
            let (mut zero, mut over) = (g.create_label(), g.create_label());
            g.jrcxz(zero)?; // 1, taken
            g.ud2()?;
            g.place(&mut zero)?;
            g.mov(ecx, 64)?; // 1
            g.jrcxz(over)?; // 1, not taken
            g.mov(rsi, SCRATCH)?; // 1
            g.mov(rdi, SCRATCH + 64)?; // 1
            g.rep().movsb()?; // 1
            g.place(&mut over)
        })
    })?;
    run(&image).expect(&[
        ("instructions", 2 + 1 + 4 + 1 + 2 + 3 + DISABLING),
        ("branches", 1 + 4 + 1 + 1),
        ("taken", 1 + 3 + 1),
        ("far", 0),
        ("returns", 0),
    ]);
    Ok(())
}

/// Far transfers at CPL 0: far return, IRETQ, far jump, SYSCALL. All count as taken branches.
#[test]
fn far_transfers() -> Result {
    const STAR: u32 = 0xC000_0081;
    const LSTAR: u32 = 0xC000_0082;
    const SFMASK: u32 = 0xC000_0084;
    let image = Guest::assemble(|g| {
        let (mut over, mut system) = (g.create_label(), g.create_label());
        g.jmp(over)?;
        g.place(&mut system)?;
        g.jmp(rcx)?; // 1: RCX is the return address
        g.place(&mut over)?;
        g.write_msr(STAR, 0x08 << 32)?;
        g.write_msr(SFMASK, 0)?;
        g.write_msr(LSTAR, 0)?;
        g.lea(rax, byte_ptr(system))?;
        g.mov(ecx, LSTAR)?;
        g.wrmsr()?; // EDX is 0
        g.count_each(EVENTS, |g| {
            let mut returned = g.create_label();
            g.push(KERNEL_CS)?; // 1
            g.lea(rax, byte_ptr(returned))?; // 1
            g.push(rax)?; // 1
            g.retf()?; // 1, far
            g.place(&mut returned)?;
            let mut resumed = g.create_label();
            g.mov(rax, rsp)?; // 1
            g.push(KERNEL_SS)?; // 1
            g.push(rax)?; // 1
            g.pushfq()?; // 1
            g.push(KERNEL_CS)?; // 1
            g.lea(rax, byte_ptr(resumed))?; // 1
            g.push(rax)?; // 1
            g.iretq()?; // 1, far
            g.place(&mut resumed)?;
            let mut landed = g.create_label();
            g.lea(rax, byte_ptr(landed))?; // 1
            g.mov(dword_ptr(SCRATCH), eax)?; // 1
            g.mov(word_ptr(SCRATCH + 4), KERNEL_CS)?; // 1
            g.jmp(fword_ptr(SCRATCH))?; // 1, far
            g.place(&mut landed)?;
            g.syscall() // 1, far; and 1 near jump back
        })
    })?;
    run(&image).expect(&[
        ("instructions", 4 + 8 + 4 + 2 + DISABLING),
        ("branches", 4 + 1),
        ("taken", 4 + 1),
        ("far", 4),
        ("returns", 0),
        ("interrupts", 0),
    ]);
    Ok(())
}

/// To CPL 3 by IRETQ, to CPL 0 and back by SYSCALL and SYSRET, to CPL 0 by INT n: each belongs to
/// the level at which it began. INT n is a far transfer and no interrupt (CFh).
#[test]
fn far_transfers_between_levels() -> Result {
    const STAR: u32 = 0xC000_0081;
    const LSTAR: u32 = 0xC000_0082;
    const SFMASK: u32 = 0xC000_0084;
    // SYSRET takes CS from STAR 63:48 plus 16, SS from it plus 8.
    const STAR_VALUE: u64 = 0x1B << 48 | 0x08 << 32;
    let image = Guest::assemble(|g| {
        let (mut over, mut system) = (g.create_label(), g.create_label());
        g.jmp(over)?;
        g.place(&mut system)?;
        g.sysretq()?;
        g.place(&mut over)?;
        g.write_msr(STAR, STAR_VALUE)?;
        g.write_msr(SFMASK, 0)?;
        g.lea(rax, byte_ptr(system))?;
        g.mov(ecx, LSTAR)?;
        g.wrmsr()?; // EDX is 0
        g.count_each(
            &[
                ("far.all", 0xC6 | USR | OS),
                ("far.user", 0xC6 | USR),
                ("far.system", 0xC6 | OS),
                ("interrupts", 0xCF | USR | OS),
            ],
            |g| g.at_cpl3(RFLAGS_CLEAR, |g| g.syscall()),
        )
    })?;
    run(&image).expect(&[
        ("far.all", 4),
        ("far.user", 2),   // SYSCALL, INT n
        ("far.system", 2), // IRETQ, SYSRET
        ("interrupts", 0),
    ]);
    Ok(())
}

/// An exception counts once as instruction, branch, taken branch and far transfer; the instruction
/// that raises it does not retire.
#[test]
fn an_exception() -> Result {
    let image = Guest::assemble(|g| {
        for (n, &(name, select)) in EVENTS.iter().enumerate() {
            g.count(name, select, |g| g.probe(&format!("fault{n}"), |g| g.ud2()))?;
        }
        Ok(())
    })?;
    run(&image).expect(&[
        ("fault0", 0x100 | 6),
        ("instructions", PROBE_BEFORE + 1 + RECOVERING + PROBE_BEHIND + DISABLING),
        ("branches", 1 + 3), // and JMP, JZ, IRETQ of the handler
        ("taken", 1 + 2),    // JZ is not taken
        ("far", 1 + 1),      // and IRETQ
        ("returns", 0),
        ("interrupts", 0),
    ]);
    Ok(())
}

/// A hardware interrupt, here an IPI to itself, counts as an exception does, and in CFh.
#[test]
fn an_interrupt() -> Result {
    const ICR: i32 = 0x300;
    const TO_ITSELF: u32 = 1 << 18;
    let image = Guest::assemble(|g| {
        g.count_each(EVENTS, |g| {
            g.write_lapic(ICR, TO_ITSELF | u32::from(PMI_VECTOR))?; // 2
            g.sti()?; // 1
            g.nop()?; // 1, in the shadow of STI; then the interrupt
            g.cli() // 1
        })
    })?;
    run(&image).expect(&[
        ("instructions", 2 + 2 + 1 + HANDLING + 1 + DISABLING),
        ("branches", 1 + 1), // and IRETQ
        ("taken", 1 + 1),
        ("far", 1 + 1),
        ("returns", 0),
        ("interrupts", 1),
    ]);
    Ok(())
}
