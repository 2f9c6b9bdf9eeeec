//! What execution takes in cycles is the clock's affair: cycles, and what is made of them, on the flat
//! clock, where each step is one, and under `Engine::PRICED`'s.

use guest_tests::guest::{LVT_NMI, LVTPC};
use guest_tests::msr::{CMASK_1, INT, INV, OS};
use guest_tests::timing::by_clock;
use guest_tests::{DISABLING, Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, eax, ecx, edi, edx};

topics!(cycles_by_the_clock, cycles_without_an_instruction, a_pmi_within_an_instruction);

/// Instructions of [`body`], and cycles: flat, three more of the string's iterations; priced as said
/// there.
const INSTRUCTIONS: u64 = 13;
const FLAT: u64 = INSTRUCTIONS + 3;
const PRICED: u64 = 1 + 4 + 3 + 3 + 3 + 1 + 1 + 1 + 1 + (3 + 3 * 2) + 3 + 3 + 3;

fn body(g: &mut Guest) -> Result {
    let (mut over, mut not, mut function, mut behind) =
        (g.create_label(), g.create_label(), g.create_label(), g.create_label());
    g.mov(eax, 5)?; // 1
    g.imul_2(eax, eax)?; // 4
    g.mov(ecx, dword_ptr(SCRATCH))?; // 3
    g.add(dword_ptr(SCRATCH), 1)?; // 3
    g.jmp(over)?; // 3: taken
    g.place(&mut over)?;
    g.xor(edx, edx)?; // 1
    g.jne(not)?; // 1: not taken
    g.place(&mut not)?;
    g.mov(edi, SCRATCH + 16)?; // 1
    g.mov(ecx, 4)?; // 1
    g.rep().stosb()?; // 3, and three further elements of 2
    g.jmp(behind)?; // 3
    g.place(&mut function)?;
    g.ret()?; // 3
    g.place(&mut behind)?;
    g.call(function) // 3
}

fn cycles_by_the_clock(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count("cycles", part.cycles, OS, body)?;
        g.count("instructions", part.instructions, OS, body)
    })?;
    run(part, &image).expect(&[
        ("cycles", by_clock(FLAT, PRICED) + DISABLING),
        ("instructions", INSTRUCTIONS + DISABLING),
    ]);
    Ok(())
}

/// With a counter mask of one, instructions count the cycles in which one retires; inverted, those in
/// which none does (BKDG 10.2; SDM Vol. 3, "PerfEvtSel0 and PerfEvtSel1 MSRs"). An instruction of
/// several cycles retires in the last.
fn cycles_without_an_instruction(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        g.count("with", part.instructions, OS | CMASK_1, body)?;
        g.count("without", part.instructions, OS | INV | CMASK_1, body)
    })?;
    run(part, &image).expect(&[
        ("with", INSTRUCTIONS + DISABLING),
        ("without", by_clock(FLAT, PRICED) - INSTRUCTIONS),
    ]);
    Ok(())
}

/// The third cycle is the second of ADD's three, or the NOP behind it: the PMI comes behind the
/// instruction in which the counter overflows.
fn a_pmi_within_an_instruction(part: &'static Part) -> Result {
    let counter = part.cycles.counter;
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, LVT_NMI)?;
        g.start(counter, part.cycles, OS | INT, 3u64.wrapping_neg())?;
        g.nop()?;
        g.add(dword_ptr(SCRATCH), 1)?;
        g.mark("behind ADD")?;
        g.nop()?;
        g.mark("behind NOP")?;
        g.nop()?;
        g.stop(counter)?;
        g.report_pmis("pmis", 1)
    })?;
    let at = image.symbol(by_clock("behind NOP", "behind ADD")).expect("a mark");
    run(part, &image).expect(&[("pmis", 1), ("pmis.0", at)]);
    Ok(())
}
