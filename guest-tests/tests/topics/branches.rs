//! Retired instructions and control transfers: on P55C 16h, 12h, 32h, 39h, 27h, on P6 C0h, C4h, C9h,
//! C8h (Intel MMX Technology manual, tables 6-1 and 6-2), on K7 and K8 C0h, C2h, C4h, C6h, C8h, CFh
//! (AMD 22007; BKDG 10.2.1.6), on Knights Corner 16h, 12h (Intel 327357-001, table 1-6).

use guest_tests::guest::{EFLAGS_CLEAR, FAULT_UD, PROBE_BEFORE, PROBE_BEHIND, RECOVERING};
use guest_tests::msr::{OS, USR};
use guest_tests::{DISABLING, Guest, PMI_VECTOR, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, eax, ecx, edi, edx, esi, fword_ptr, word_ptr};

const KERNEL_CS: i32 = 0x08;

topics!(
    nothing,
    a_loop,
    calls_and_returns,
    other_near_transfers,
    far_transfers,
    system_calls,
    system_calls_between_levels,
    an_exception,
    an_interrupt,
);

/// Nothing between the enabling and the disabling WRMSR but what the latter needs.
fn nothing(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| g.count_events(OS, |_| Ok(())))?;
    run(part, &image).expect(&part.known(&[
        ("instructions", DISABLING),
        ("branches", 0),
        ("taken", 0),
        ("far", 0),
        ("returns", 0),
        ("interrupts", 0),
    ]));
    Ok(())
}

fn a_loop(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count_events(OS, |g| {
            g.mov(ecx, 1000)?; // 1
            let next = g.here()?;
            g.dec(ecx)?; // 1000
            g.jnz(next) // 1000, taken 999 times
        })
    })?;
    run(part, &image).expect(&part.known(&[
        ("instructions", 1 + 1000 + 1000 + DISABLING),
        ("branches", 1000),
        ("taken", 999),
        ("far", 0),
        ("returns", 0),
    ]));
    Ok(())
}

/// A function that returns by RET for odd and by RET Iw for even arguments.
fn calls_and_returns(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count_events(OS, |g| {
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
    run(part, &image).expect(&part.known(&[
        ("instructions", 1 + 5 + 5 + 5 + 1 + 5 + 5 + 3 + 2 + DISABLING),
        ("branches", 5 + 5 + 1 + 5 + 3 + 2),
        ("taken", 5 + 4 + 1 + 2 + 3 + 2),
        ("far", 0),
        ("returns", 3 + 2),
    ]));
    Ok(())
}

/// LOOP and JECXZ are branches, and so is an indirect jump; a REP string instruction is one
/// instruction and no branch, however often it repeats.
fn other_near_transfers(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count_events(OS, |g| {
            let mut there = g.create_label();
            g.address(eax, there)?; // 1
            g.jmp(eax)?; // 1, taken
            g.ud2()?;
            g.place(&mut there)?;
            g.mov(ecx, 4)?; // 1
            let next = g.here()?;
            g.loop_(next)?; // 4, taken 3
            let (mut zero, mut over) = (g.create_label(), g.create_label());
            g.jecxz(zero)?; // 1, taken
            g.ud2()?;
            g.place(&mut zero)?;
            g.mov(ecx, 64)?; // 1
            g.jecxz(over)?; // 1, not taken
            g.mov(esi, SCRATCH)?; // 1
            g.mov(edi, SCRATCH + 64)?; // 1
            g.rep().movsb()?; // 1
            g.place(&mut over)
        })
    })?;
    run(part, &image).expect(&part.known(&[
        ("instructions", 2 + 1 + 4 + 1 + 2 + 3 + DISABLING),
        ("branches", 1 + 4 + 1 + 1),
        ("taken", 1 + 3 + 1),
        ("far", 0),
        ("returns", 0),
    ]));
    Ok(())
}

/// Far transfers at CPL 0: far return, IRETD, far jump. All count as taken branches.
fn far_transfers(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count_events(OS, |g| {
            let mut returned = g.create_label();
            g.push(KERNEL_CS)?; // 1
            g.push_address(returned)?; // 1
            g.retf()?; // 1, far
            g.place(&mut returned)?;
            let mut resumed = g.create_label();
            g.pushfd()?; // 1
            g.push(KERNEL_CS)?; // 1
            g.push_address(resumed)?; // 1
            g.iretd()?; // 1, far
            g.place(&mut resumed)?;
            let mut landed = g.create_label();
            g.store_address(dword_ptr(SCRATCH), landed)?; // 1
            g.mov(word_ptr(SCRATCH + 4), KERNEL_CS)?; // 1
            g.jmp(fword_ptr(SCRATCH))?; // 1, far
            g.place(&mut landed)
        })
    })?;
    run(part, &image).expect(&part.known(&[
        ("instructions", 3 + 4 + 3 + DISABLING),
        ("branches", 3),
        ("taken", 3),
        ("far", 3),
        ("returns", 0),
        ("interrupts", 0),
    ]));
    Ok(())
}

const EFER: u32 = 0xC000_0080;
const EFER_SCE: u64 = 1;
const STAR: u32 = 0xC000_0081;
/// SYSRET takes CS from STAR 63:48, SS from 8 above; SYSCALL from 47:32 likewise, EIP from 31:0.
const STAR_SEGMENTS: u32 = 0x3B << 16 | 0x08;

/// Enables SYSCALL, to `system`.
fn enable_system_calls(g: &mut Guest, system: iced_x86::code_asm::CodeLabel) -> Result {
    g.write_msr(EFER, EFER_SCE)?;
    g.mov(ecx, STAR)?;
    g.address(eax, system)?;
    g.mov(edx, STAR_SEGMENTS)?;
    g.wrmsr()
}

/// SYSCALL, here from CPL 0 to CPL 0, is a far transfer.
fn system_calls(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        let (mut over, mut system) = (g.create_label(), g.create_label());
        g.jmp(over)?;
        g.place(&mut system)?;
        g.jmp(ecx)?; // 1: ECX is the return address
        g.place(&mut over)?;
        enable_system_calls(g, system)?;
        g.count_events(OS, |g| g.syscall()) // 1, far
    })?;
    run(part, &image).expect(&[
        ("instructions", 1 + 1 + DISABLING),
        ("branches", 1 + 1),
        ("taken", 1 + 1),
        ("far", 1),
        ("returns", 0),
        ("interrupts", 0),
    ]);
    Ok(())
}

/// To CPL 3 by IRETD, to CPL 0 and back by SYSCALL and SYSRET, to CPL 0 by INT n: each belongs to
/// the level at which it began. INT n is a far transfer and no interrupt (CFh).
fn system_calls_between_levels(part: &'static Part) -> Result {
    let (Some(far), Some(interrupts)) = (part.far, part.interrupts) else { unreachable!() };
    let image = Guest::assemble(part, |g| {
        let (mut over, mut system) = (g.create_label(), g.create_label());
        g.jmp(over)?;
        g.place(&mut system)?;
        g.sysret()?;
        g.place(&mut over)?;
        enable_system_calls(g, system)?;
        g.count_each(
            &[
                ("far.all", far, USR | OS),
                ("far.user", far, USR),
                ("far.system", far, OS),
                ("interrupts", interrupts, USR | OS),
            ],
            |g| g.at_cpl3(EFLAGS_CLEAR, |g| g.syscall()),
        )
    })?;
    run(part, &image).expect(&[
        ("far.all", 4),
        ("far.user", 2),   // SYSCALL, INT n
        ("far.system", 2), // IRETD, SYSRET
        ("interrupts", 0),
    ]);
    Ok(())
}

/// An exception: on K7 and K8 it counts once as instruction, branch, taken branch and far transfer,
/// on P55C as branch; the instruction that raises it does not retire.
fn an_exception(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        for (n, (name, event)) in part.events().into_iter().enumerate() {
            g.count(name, event, OS, |g| g.probe(&format!("fault{n}"), |g| g.ud2()))?;
        }
        Ok(())
    })?;
    let added = part.exceptional;
    run(part, &image).expect(&part.known(&[
        ("fault0", FAULT_UD),
        ("instructions", PROBE_BEFORE + added.instructions + RECOVERING + PROBE_BEHIND + DISABLING),
        ("branches", added.branches + 3), // and JMP, JZ, IRETD of the handler
        ("taken", added.taken + 2),       // JZ is not taken
        ("far", 1 + 1),                   // and IRETD
        ("returns", 0),
        ("interrupts", 0),
    ]));
    Ok(())
}

/// A hardware interrupt, here an IPI to itself, counts as an exception does, and as interrupt.
fn an_interrupt(part: &'static Part) -> Result {
    const ICR: i32 = 0x300;
    const TO_ITSELF: u32 = 1 << 18;
    let image = Guest::assemble(part, |g| {
        g.count_events(OS, |g| {
            g.write_lapic(ICR, TO_ITSELF | u32::from(PMI_VECTOR))?; // 2
            g.sti()?; // 1
            g.nop()?; // 1, in the shadow of STI; then the interrupt
            g.cli() // 1
        })
    })?;
    let added = part.exceptional;
    run(part, &image).expect(&part.known(&[
        ("instructions", 2 + 2 + added.instructions + part.handling() + 1 + DISABLING),
        ("branches", added.branches + 1), // and IRETD
        ("taken", added.taken + 1),
        ("far", 1 + 1),
        ("returns", 0),
        ("interrupts", 1),
    ]));
    Ok(())
}
