//! Overflows of counters.

use guest_tests::guest::{LVT_NMI, LVTPC};
use guest_tests::msr::{INT, OS};
use guest_tests::part::Registers;
use guest_tests::{Guest, Part, Result};
use iced_x86::code_asm::{dword_ptr, ebx, ecx, ss};
use vpmu::program::KERNEL_SS;

use super::*;

fn minus(n: u64) -> u64 {
    n.wrapping_neg()
}

/// Counter 0 overflows with the `n`-th instruction from here: [`Part::starting`] come first.
fn overflow(g: &mut Guest, n: u64) -> Result {
    g.start(0, g.part.instructions, OS | INT, minus(n))
}

/// Instructions of [`Guest::allow_another`].
fn allowing(part: &Part) -> u64 {
    match part.registers {
        Registers::Knc => 4,
        _ if part.masks_lvtpc => 2,
        _ => 0,
    }
}

/// Overflows of a counter: the overflowing instruction retires, the interrupt comes before the next.
pub(super) const PMI: &[Row] = {
    fn by_nmi(g: &mut Guest) -> Result {
        g.mov(ebx, ss)?;
        g.write_lapic(LVTPC, LVT_NMI)
    }
    fn by_vector(g: &mut Guest) -> Result {
        g.mov(ebx, ss)?;
        g.write_lapic(LVTPC, u32::from(VECTOR))?;
        enabled(g)
    }
    /// Counter 0 overflows with the `n`-th instruction behind this in the first handler.
    fn once_more(g: &mut Guest, n: u64) -> Result {
        let (mut over, part) = (g.create_label(), g.part);
        g.cmp(dword_ptr(ENTRIES), 1)?;
        g.jne(over)?;
        g.allow_another()?;
        g.write_msr(part.perfctr(0), part.written(minus(n)))?; // 4
        g.place(&mut over)
    }
    /// From the first NMI to behind its IRETD.
    fn handling(part: &Part) -> u64 {
        PROLOGUE + ONCE + allowing(part) + 4 + EPILOGUE
    }
    &[
            Row {
                name: "in its own NMI handler",
                prepare: by_nmi,
                counted: |g| {
                    overflow(g, 2)?;
                    g.nop()?; // 1
                    g.nop()?; // 2
                    mark(g, "own")?;
                    g.stop(0)
                },
                body: |g| once_more(g, 1),
                expected: |part| {
                    let first = part.starting() + 2;
                    vec![("own", first), ("own", first + handling(part))]
                },
            },
            Row {
                name: "in its own NMI handler with IF set",
                prepare: |g| {
                    by_nmi(g)?;
                    enabled(g)
                },
                counted: |g| {
                    overflow(g, 2)?;
                    g.nop()?; // 1
                    g.nop()?; // 2
                    mark(g, "own, if")?;
                    g.stop(0)
                },
                body: |g| once_more(g, 1),
                expected: |part| {
                    let first = part.starting() + 2;
                    vec![("own, if", first), ("own, if", first + handling(part))]
                },
            },
            Row {
                name: "IRETD of the NMI handler overflows",
                prepare: by_nmi,
                counted: |g| {
                    overflow(g, 2)?;
                    g.nop()?; // 1
                    g.nop()?; // 2
                    mark(g, "iretd overflows")?;
                    g.stop(0)
                },
                body: |g| once_more(g, EPILOGUE),
                expected: |part| {
                    let first = part.starting() + 2;
                    vec![
                        ("iretd overflows", first),
                        ("iretd overflows", first + handling(part)),
                    ]
                },
            },
            Row {
                // What the WRMSR writes to counter 1 is what it has then.
                name: "WRMSR overflows",
                prepare: by_nmi,
                counted: |g| {
                    overflow(g, 4)?;
                    let counter = g.part.perfctr(1);
                    g.write_msr(counter, 0)?; // 4
                    mark(g, "wrmsr")?;
                    g.stop(0)
                },
                expected: |_| vec![("wrmsr", 0)],
                ..ROW
            },
            Row {
                name: "RDPMC overflows",
                prepare: by_nmi,
                counted: |g| {
                    overflow(g, 2)?;
                    g.mov(ecx, 1)?; // 1
                    g.rdpmc()?; // 2
                    mark(g, "rdpmc")?;
                    g.stop(0)
                },
                expected: |part| vec![("rdpmc", part.starting() + 2)],
                ..ROW
            },
            Row {
                // "loading the SS register with a MOV instruction inhibits all interrupts until after
                // the execution of the next instruction" (SDM Vol. 2, MOV).
                name: "MOV SS overflows, NMI",
                prepare: by_nmi,
                counted: |g| {
                    overflow(g, 1)?;
                    g.mov(ss, ebx)?; // 1
                    g.nop()?; // 2
                    mark(g, "mov ss, nmi")?;
                    g.stop(0)
                },
                expected: |part| vec![("mov ss, nmi", part.starting() + 2)],
                ..ROW
            },
            Row {
                name: "MOV SS overflows, vector",
                prepare: by_vector,
                counted: |g| {
                    overflow(g, 1)?;
                    g.mov(ss, ebx)?; // 1
                    g.nop()?; // 2
                    mark(g, "mov ss, vector")?;
                    g.stop(0)
                },
                body: end,
                expected: |part| vec![("mov ss, vector", part.starting() + 2)],
            },
            Row {
                name: "POP SS overflows, vector",
                prepare: |g| {
                    by_vector(g)?;
                    g.push(i32::from(KERNEL_SS))
                },
                counted: |g| {
                    overflow(g, 1)?;
                    g.pop(ss)?; // 1
                    g.nop()?; // 2
                    mark(g, "pop ss")?;
                    g.stop(0)
                },
                body: end,
                expected: |part| vec![("pop ss", part.starting() + 2)],
            },
            Row {
                name: "STI overflows",
                prepare: |g| {
                    by_vector(g)?;
                    g.cli()
                },
                counted: |g| {
                    overflow(g, 1)?;
                    g.sti()?; // 1
                    g.nop()?; // 2
                    mark(g, "sti overflows")?;
                    g.stop(0)
                },
                body: end,
                expected: |part| vec![("sti overflows", part.starting() + 2)],
            },
        ]
};

