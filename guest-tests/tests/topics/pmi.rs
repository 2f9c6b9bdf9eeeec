//! Performance-monitoring interrupts, by NMI and by vector: the overflowing instruction retires, and
//! the interrupt comes before the next one. The address that the handler finds is therefore that of
//! the instruction behind the overflowing one.

use guest_tests::guest::{EFLAGS_IF, LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS, USR};
use guest_tests::{Guest, PMI_VECTOR, Part, Result, run};
use iced_x86::code_asm::{eax, ecx};

topics!(
    the_next_instruction_is_interrupted,
    behind_a_taken_branch_is_its_target,
    at_cpl_3,
    a_vector_waits_for_if,
    an_nmi_ignores_if,
    hlt_is_woken,
    inside_the_handler,
    two_overflows_are_two_interrupts,
    two_overflows_of_hlt_are_two_interrupts,
    no_int_no_interrupt,
);

/// Both ways of delivery.
const DELIVERIES: [u32; 2] = [LVT_NMI, PMI_VECTOR as u32];

fn minus(n: u64) -> u64 {
    n.wrapping_neg()
}

fn the_next_instruction_is_interrupted(part: &'static Part) -> Result {
    for lvtpc in DELIVERIES {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, lvtpc)?;
            g.sti()?;
            g.nop()?;
            g.start(0, part.instructions, OS | INT, minus(3))?;
            g.nop()?; // 1
            g.nop()?; // 2
            g.nop()?; // 3: overflow
            g.mark("next")?;
            g.nop()?;
            g.stop(0)?;
            g.cli()?;
            g.report_pmis("pmis", 1)
        })?;
        let next = image.symbol("next").expect("a mark");
        run(part, &image).expect(&[("pmis", 1), ("pmis.0", next)]);
    }
    Ok(())
}

/// In a loop the next instruction is the target of the jump.
fn behind_a_taken_branch_is_its_target(part: &'static Part) -> Result {
    for lvtpc in DELIVERIES {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, lvtpc)?;
            g.sti()?;
            g.nop()?;
            g.start(0, part.instructions, OS | INT, minus(7))?;
            g.mov(ecx, 10)?; // 1
            let next = g.mark("loop")?;
            g.dec(ecx)?; // 2, 4, 6
            g.jnz(next)?; // 3, 5, 7: overflow
            g.stop(0)?;
            g.forget_and_count_branches(lvtpc)
        })?;
        let target = image.symbol("loop").expect("a mark");
        run(part, &image).expect(&[
            ("instructions", 1),
            ("instructions.0", target),
            ("branches", 1),
            ("branches.0", image.symbol("behind").expect("a mark")),
        ]);
    }
    Ok(())
}

/// The tail of the test above.
trait BranchOverflow {
    fn forget_and_count_branches(&mut self, lvtpc: u32) -> Result;
}

impl BranchOverflow for Guest {
    /// The third branch, the JNZ that falls through, overflows.
    fn forget_and_count_branches(&mut self, lvtpc: u32) -> Result {
        self.report_pmis("instructions", 1)?;
        self.forget_pmis()?;
        self.write_lapic(LVTPC, lvtpc)?;
        self.start(0, self.part.branches, OS | INT, minus(3))?;
        self.mov(ecx, 3)?;
        let next = self.here()?;
        self.dec(ecx)?;
        self.jnz(next)?; // branches 1, 2, 3
        self.mark("behind")?;
        self.nop()?;
        self.stop(0)?;
        self.report_pmis("branches", 1)
    }
}

/// At CPL 3, with only CPL 3 counted: what the handler does is not.
fn at_cpl_3(part: &'static Part) -> Result {
    for lvtpc in DELIVERIES {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, lvtpc)?;
            g.start(0, part.instructions, USR | INT, minus(4))?;
            g.at_cpl3(EFLAGS_IF, |g| {
                g.mov(ecx, 9)?; // 1
                let next = g.here()?;
                g.dec(ecx)?; // 2, 4: overflow
                g.mark("jump")?;
                g.jnz(next) // 3
            })?;
            g.stop(0)?;
            g.report_pmis("pmis", 1)
        })?;
        let jump = image.symbol("jump").expect("a mark");
        run(part, &image).expect(&[("pmis", 1), ("pmis.0", jump)]);
    }
    Ok(())
}

/// The vector waits while IF is 0, and for the instruction behind STI.
fn a_vector_waits_for_if(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        g.start(0, part.instructions, OS | INT, minus(2))?;
        g.nop()?; // 1
        g.nop()?; // 2: overflow
        g.nop()?;
        g.report_pmis("masked", 0)?;
        g.sti()?;
        g.nop()?;
        g.mark("behind the shadow")?;
        g.nop()?;
        g.cli()?;
        g.stop(0)?;
        g.report_pmis("pmis", 1)
    })?;
    let behind = image.symbol("behind the shadow").expect("a mark");
    run(part, &image).expect(&[("masked", 0), ("pmis", 1), ("pmis.0", behind)]);
    Ok(())
}

/// An NMI does not wait for IF.
fn an_nmi_ignores_if(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.start(0, part.instructions, OS | INT, minus(2))?;
        g.nop()?; // 1
        g.nop()?; // 2: overflow
        g.mark("next")?;
        g.nop()?;
        g.stop(0)?;
        g.report_pmis("pmis", 1)
    })?;
    run(part, &image).expect(&[("pmis", 1), ("pmis.0", image.symbol("next").expect("a mark"))]);
    Ok(())
}

/// HLT that overflows is woken at once; so is HLT in the shadow of an STI that overflows.
fn hlt_is_woken(part: &'static Part) -> Result {
    for lvtpc in DELIVERIES {
        for (preset, shadow) in [(2, false), (1, true)] {
            let image = Guest::assemble(part, |g| {
                g.write_lapic(LVTPC, lvtpc)?;
                g.start(0, part.instructions, OS | INT, minus(preset))?;
                g.sti()?; // 1
                g.hlt()?; // 2
                g.mark("behind")?;
                g.nop()?;
                g.cli()?;
                g.stop(0)?;
                g.report_pmis("pmis", 1)
            })?;
            let behind = image.symbol("behind").expect("a mark");
            let outcome = run(part, &image);
            assert_eq!(outcome.value("pmis"), 1, "LVTPC {lvtpc:#x}, shadow {shadow}");
            // K8 holds back NMI in the shadow of STI as well.
            assert_eq!(outcome.value("pmis.0"), behind, "LVTPC {lvtpc:#x}, shadow {shadow}");
        }
    }
    Ok(())
}

/// An overflow inside the handler interrupts right behind its IRETD: NMI is blocked until then, IF
/// is 0 until then. Nothing of the interrupted program runs in between.
fn inside_the_handler(part: &'static Part) -> Result {
    for lvtpc in DELIVERIES {
        let image = Guest::assemble(part, |g| {
            g.on_pmi(|g| {
                // The first time only: the next instruction overflows.
                let mut again = g.create_label();
                g.cmp(eax, 1)?;
                g.jne(again)?;
                g.write_msr(part.perfctr(0), part.written(minus(1)))?;
                g.place(&mut again)
            })?;
            g.write_lapic(LVTPC, lvtpc)?;
            g.sti()?;
            g.nop()?;
            g.start(0, part.instructions, OS | INT, minus(2))?;
            g.nop()?; // 1
            g.nop()?; // 2: overflow
            g.mark("next")?;
            g.nop()?;
            g.stop(0)?;
            g.cli()?;
            g.report_pmis("pmis", 2)
        })?;
        let next = image.symbol("next").expect("a mark");
        run(part, &image).expect(&[("pmis", 2), ("pmis.0", next), ("pmis.1", next)]);
    }
    Ok(())
}

/// Two counters that overflow with the same instruction assert LVTPC twice: the second PMI comes
/// behind the handler of the first. FreeBSD serves one counter an interrupt and relies on it.
fn two_overflows_are_two_interrupts(part: &'static Part) -> Result {
    for lvtpc in DELIVERIES {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, lvtpc)?;
            g.sti()?;
            g.nop()?;
            g.start(0, part.instructions, OS | INT, minus(part.starting() + 3))?;
            g.start(1, part.instructions, OS | INT, minus(3))?;
            g.nop()?; // 1
            g.nop()?; // 2
            g.nop()?; // 3: both overflow
            g.mark("next")?;
            g.nop()?;
            g.stop(0)?;
            g.stop(1)?;
            g.cli()?;
            g.report_pmis("pmis", 2)
        })?;
        let next = image.symbol("next").expect("a mark");
        run(part, &image).expect(&[("pmis", 2), ("pmis.0", next), ("pmis.1", next)]);
    }
    Ok(())
}

/// So they are if the instruction is HLT.
fn two_overflows_of_hlt_are_two_interrupts(part: &'static Part) -> Result {
    for lvtpc in DELIVERIES {
        let image = Guest::assemble(part, |g| {
            g.write_lapic(LVTPC, lvtpc)?;
            g.start(0, part.instructions, OS | INT, minus(part.starting() + 2))?;
            g.start(1, part.instructions, OS | INT, minus(2))?;
            g.sti()?; // 1
            g.hlt()?; // 2: both overflow
            g.mark("next")?;
            g.nop()?;
            g.stop(0)?;
            g.stop(1)?;
            g.cli()?;
            g.report_pmis("pmis", 2)
        })?;
        let next = image.symbol("next").expect("a mark");
        run(part, &image).expect(&[("pmis", 2), ("pmis.0", next), ("pmis.1", next)]);
    }
    Ok(())
}

/// Without INT an overflow interrupts nobody.
fn no_int_no_interrupt(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.start(0, part.instructions, OS, minus(2))?;
        g.nop()?;
        g.nop()?;
        g.nop()?;
        g.stop(0)?;
        g.report_pmis("pmis", 0)
    })?;
    run(part, &image).expect(&[("pmis", 0)]);
    Ok(())
}
