//! USR and OS: events at CPL above 0 and at CPL 0 (BKDG 10.2; SDM Vol. 3, "PerfEvtSel0 and
//! PerfEvtSel1 MSRs"); on P55C at CPL 3 and below (SDM Vol. 3, "Control and Event Select Register").

use guest_tests::guest::{
    EFLAGS_CLEAR, ENTERING, FAULT_UD, LEAVING, PROBE_BEFORE, PROBE_BEHIND, RECOVERING,
};
use guest_tests::msr::{OS, USR};
use guest_tests::{DISABLING, Guest, Part, Result, run};
use iced_x86::code_asm::ecx;

topics!(a_loop_at_cpl_3, an_exception_at_cpl_3, levels_between);

fn a_loop_at_cpl_3(part: &'static Part) -> Result {
    let (instructions, branches) = (part.instructions, part.branches);
    let image = Guest::assemble(part, |g| {
        let selects = [
            ("instructions.none", instructions, 0),
            ("instructions.user", instructions, USR),
            ("instructions.system", instructions, OS),
            ("instructions.all", instructions, USR | OS),
            ("branches.user", branches, USR),
            ("branches.system", branches, OS),
        ];
        g.count_each(&selects, |g| {
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                g.mov(ecx, 100)?; // 1
                let next = g.here()?;
                g.dec(ecx)?; // 100
                g.jnz(next) // 100; then INT 80h
            })
        })
    })?;
    let user = 1 + 100 + 100 + 1;
    let system = ENTERING + LEAVING + DISABLING;
    run(part, &image).expect(&[
        ("instructions.none", 0),
        ("instructions.user", user),
        ("instructions.system", system),
        ("instructions.all", user + system),
        ("branches.user", 100 + 1), // JNZ, INT 80h
        ("branches.system", 1 + 1), // IRETD, RET
    ]);
    Ok(())
}

/// An exception belongs to the level that it interrupts, where it counts as the part has it; its
/// handler to CPL 0.
fn an_exception_at_cpl_3(part: &'static Part) -> Result {
    let selects = [
        ("user", part.instructions, USR),
        ("system", part.instructions, OS),
        ("branches.user", part.branches, USR),
        ("branches.system", part.branches, OS),
    ];
    let image = Guest::assemble(part, |g| {
        selects.into_iter().try_for_each(|(name, event, flags)| {
            g.count(name, event, flags, |g| {
                g.at_cpl3(EFLAGS_CLEAR, |g| g.probe(&format!("fault.{name}"), |g| g.ud2()))
            })
        })
    })?;
    let added = part.exceptional;
    run(part, &image).expect(&[
        ("fault.user", FAULT_UD),
        ("user", PROBE_BEFORE + added.instructions + PROBE_BEHIND + 1), // and INT 80h
        ("system", ENTERING + RECOVERING + LEAVING + DISABLING),
        ("branches.user", added.branches + 1), // INT 80h
        ("branches.system", 1 + 3 + 1),        // IRETD; JMP, JZ, IRETD; RET
    ]);
    Ok(())
}

/// CPL 1 and 2 belong to USR, on P55C to OS.
fn levels_between(part: &'static Part) -> Result {
    for cpl in [1, 2, 3] {
        let selects = [("user", part.instructions, USR), ("system", part.instructions, OS)];
        let image = Guest::assemble(part, |g| {
            g.count_each(&selects, |g| {
                g.at_cpl(cpl, EFLAGS_CLEAR, |g| (0..10).try_for_each(|_| g.nop()))
            })
        })?;
        let (there, around) = (10 + 1, ENTERING + LEAVING + DISABLING); // with INT 80h
        let expected = if cpl >= part.user_level {
            [("user", there), ("system", around)]
        } else {
            [("user", 0), ("system", there + around)]
        };
        run(part, &image).expect(&expected);
    }
    Ok(())
}
