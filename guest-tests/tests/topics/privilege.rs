//! USR and OS: events at CPL above 0 and at CPL 0 (BKDG 10.2).

use guest_tests::guest::{ENTERING, LEAVING, PROBE_BEFORE, PROBE_BEHIND, RECOVERING, RFLAGS_CLEAR};
use guest_tests::msr::{OS, USR};
use guest_tests::{DISABLING, Guest, Result, run};
use iced_x86::code_asm::ecx;

const INSTRUCTIONS: u64 = 0xC0;
const BRANCHES: u64 = 0xC2;

#[test]
fn a_loop_at_cpl_3() -> Result {
    let image = Guest::assemble(|g| {
        let selects = [
            ("instructions.none", INSTRUCTIONS),
            ("instructions.user", INSTRUCTIONS | USR),
            ("instructions.system", INSTRUCTIONS | OS),
            ("instructions.all", INSTRUCTIONS | USR | OS),
            ("branches.user", BRANCHES | USR),
            ("branches.system", BRANCHES | OS),
        ];
        g.count_each(&selects, |g| {
            g.at_cpl3(RFLAGS_CLEAR, |g| {
                g.mov(ecx, 100)?; // 1
                let next = g.here()?;
                g.dec(ecx)?; // 100
                g.jnz(next) // 100; then INT 80h
            })
        })
    })?;
    let user = 1 + 100 + 100 + 1;
    let system = ENTERING + LEAVING + DISABLING;
    run(&image).expect(&[
        ("instructions.none", 0),
        ("instructions.user", user),
        ("instructions.system", system),
        ("instructions.all", user + system),
        ("branches.user", 100 + 1), // JNZ, INT 80h
        ("branches.system", 1 + 1), // IRETQ, JMP
    ]);
    Ok(())
}

/// An exception belongs to the level that it interrupts, its handler to CPL 0.
#[test]
fn an_exception_at_cpl_3() -> Result {
    let image = Guest::assemble(|g| {
        g.count("user", INSTRUCTIONS | USR, |g| {
            g.at_cpl3(RFLAGS_CLEAR, |g| g.probe("fault.user", |g| g.ud2()))
        })?;
        g.count("system", INSTRUCTIONS | OS, |g| {
            g.at_cpl3(RFLAGS_CLEAR, |g| g.probe("fault.system", |g| g.ud2()))
        })
    })?;
    run(&image).expect(&[
        ("fault.user", 0x100 | 6),
        ("user", PROBE_BEFORE + 1 + PROBE_BEHIND + 1), // the exception, INT 80h
        ("system", ENTERING + RECOVERING + LEAVING + DISABLING),
    ]);
    Ok(())
}
