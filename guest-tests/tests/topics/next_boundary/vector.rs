//! Maskable interrupts of the local APIC.

use guest_tests::guest::EFLAGS_IF;
use guest_tests::{Guest, Result, SCRATCH};
use iced_x86::code_asm::{ax, dword_ptr, eax, ebx, ecx, edi, esi, ss};
use vpmu::program::KERNEL_CS;

use super::*;

/// IF, its shadow, and the priorities of the local APIC (SDM Vol. 3A, "Masking Maskable Hardware
/// Interrupts", "Task and Processor Priorities").
pub(super) const VECTORS: &[Row] = {
    /// The class of [`VECTOR`] is held.
    const HELD: u32 = 0x60;
    /// It is not.
    const OPEN: u32 = 0x5F;
    fn hold(g: &mut Guest) -> Result {
        g.write_lapic(TPR, HELD)?;
        enabled(g)
    }
    &[
            Row {
                name: "a store to ICR",
                prepare: enabled,
                counted: |g| {
                    vector(g)?; // 2
                    mark(g, "icr")
                },
                body: end,
                expected: |_| vec![("icr", 2)],
            },
            Row {
                name: "STI",
                counted: |g| {
                    vector(g)?; // 2
                    g.sti()?; // 3
                    g.nop()?; // 4: its shadow
                    mark(g, "sti")
                },
                body: end,
                expected: |_| vec![("sti", 4)],
                ..ROW
            },
            Row {
                // IF is set already: the second has no shadow.
                name: "STI, STI",
                counted: |g| {
                    vector(g)?; // 2
                    g.sti()?; // 3
                    g.sti()?; // 4
                    mark(g, "sti, sti")
                },
                body: end,
                expected: |_| vec![("sti, sti", 4)],
                ..ROW
            },
            Row {
                // Before a CLI, "the effect of the STI instruction is negated" (SDM Vol. 2, STI).
                name: "STI, CLI",
                counted: |g| {
                    vector(g)?; // 2
                    for _ in 0..3 {
                        g.sti()?; // 3, 6, 9
                        g.cli()?; // 4, 7, 10
                        g.nop()?; // 5, 8, 11
                    }
                    g.sti()?; // 12
                    g.nop()?; // 13
                    mark(g, "sti, cli")
                },
                body: end,
                expected: |_| vec![("sti, cli", 13)],
                ..ROW
            },
            Row {
                // The shadow of MOV SS takes over from that of STI.
                name: "STI, MOV SS",
                prepare: |g| g.mov(ebx, ss),
                counted: |g| {
                    vector(g)?; // 2
                    g.sti()?; // 3
                    g.mov(ss, ebx)?; // 4
                    g.nop()?; // 5
                    mark(g, "sti, mov ss")
                },
                body: end,
                expected: |_| vec![("sti, mov ss", 5)],
            },
            Row {
                name: "STI, HLT",
                counted: |g| {
                    vector(g)?; // 2
                    g.sti()?; // 3
                    g.hlt()?; // 4
                    mark(g, "sti, hlt")
                },
                body: end,
                expected: |_| vec![("sti, hlt", 4)],
                ..ROW
            },
            Row {
                name: "POPFD",
                prepare: |g| g.push(EFLAGS_IF),
                counted: |g| {
                    vector(g)?; // 2
                    g.popfd()?; // 3
                    mark(g, "popfd")
                },
                body: end,
                expected: |_| vec![("popfd", 3)],
            },
            Row {
                name: "POPF",
                prepare: |g| {
 g.mov(eax, EFLAGS_IF)?;
 g.push(ax)
},
                counted: |g| {
                    vector(g)?; // 2
                    g.popf()?; // 3
                    mark(g, "popf")
                },
                body: end,
                expected: |_| vec![("popf", 3)],
            },
            Row {
                name: "IRETD",
                counted: |g| {
                    vector(g)?; // 2
                    g.push(EFLAGS_IF)?; // 3
                    g.push(i32::from(KERNEL_CS))?; // 4
                    let mut target = g.create_label();
                    g.push_address(target)?; // 5
                    g.iretd()?; // 6
                    g.ud2()?;
                    g.place(&mut target)?;
                    mark(g, "iretd")
                },
                body: end,
                expected: |_| vec![("iretd", 6)],
                ..ROW
            },
            Row {
                name: "IRETD to CPL 3",
                counted: |g| {
                    vector(g)?; // 2
                    // 13 instructions on the way.
                    g.at_cpl3(EFLAGS_IF, |g| {
                        mark(g, "cpl 3")?;
                        g.nop()
                    })
                },
                body: end,
                expected: |_| vec![("cpl 3", 2 + 13)],
                ..ROW
            },
            Row {
                name: "STI at CPL 3",
                counted: |g| {
                    vector(g)?; // 2
                    const IOPL_3: i32 = 3 << 12;
                    g.at_cpl3(IOPL_3, |g| {
                        g.sti()?; // 16
                        g.nop()?; // 17
                        mark(g, "sti at cpl 3")?;
                        g.nop()
                    })
                },
                body: end,
                expected: |_| vec![("sti at cpl 3", 2 + 13 + 2)],
                ..ROW
            },
            Row {
                // In service, with IF clear; then that of the higher class, which has come meanwhile.
                name: "IRETD of a handler",
                prepare: enabled,
                counted: |g| {
                    vector(g)?; // 2
                    mark(g, "of a handler")
                },
                body: |g| {
                    once(g, higher)?;
                    end(g)
                },
                expected: |_| vec![
                    ("of a handler", 2),
                    ("of a handler", 2 + PROLOGUE + ONCE + 2 + 2 + EPILOGUE),
                ],
            },
            Row {
                name: "MOV to TPR",
                prepare: hold,
                counted: |g| {
                    vector(g)?; // 2
                    g.nop()?; // 3
                    g.write_lapic(TPR, OPEN)?; // 5
                    mark(g, "mov to tpr")
                },
                body: end,
                expected: |_| vec![("mov to tpr", 5)],
            },
            Row {
                name: "AND of TPR",
                prepare: hold,
                counted: |g| {
                    vector(g)?; // 2
                    g.and(dword_ptr(edi + TPR), !0x20)?; // 3
                    mark(g, "and of tpr")
                },
                body: end,
                expected: |_| vec![("and of tpr", 3)],
            },
            Row {
                name: "XCHG with TPR",
                prepare: |g| {
                    g.xor(ebx, ebx)?;
                    hold(g)
                },
                counted: |g| {
                    vector(g)?; // 2
                    g.xchg(dword_ptr(edi + TPR), ebx)?; // 3
                    mark(g, "xchg with tpr")
                },
                body: end,
                expected: |_| vec![("xchg with tpr", 3)],
            },
            Row {
                name: "LOCK CMPXCHG of TPR",
                prepare: |g| {
                    g.xor(ebx, ebx)?;
                    hold(g)
                },
                counted: |g| {
                    vector(g)?; // 2
                    g.mov(eax, HELD)?; // 3
                    g.lock().cmpxchg(dword_ptr(edi + TPR), ebx)?; // 4
                    mark(g, "cmpxchg of tpr")
                },
                body: end,
                expected: |_| vec![("cmpxchg of tpr", 4)],
            },
            Row {
                name: "REP STOSD to TPR",
                prepare: hold,
                counted: |g| {
                    vector(g)?; // 2
                    g.add(edi, TPR)?; // 3
                    g.mov(ecx, 1)?; // 4
                    g.xor(eax, eax)?; // 5
                    g.rep().stosd()?; // 6
                    mark(g, "rep stosd to tpr")
                },
                body: end,
                expected: |_| vec![("rep stosd to tpr", 6)],
            },
            Row {
                name: "MOVSD to TPR",
                prepare: |g| {
                    g.mov(esi, SCRATCH + 0x80)?;
                    g.mov(dword_ptr(esi), 0)?;
                    hold(g)
                },
                counted: |g| {
                    vector(g)?; // 2
                    g.add(edi, TPR)?; // 3
                    g.movsd()?; // 4
                    mark(g, "movsd to tpr")
                },
                body: end,
                expected: |_| vec![("movsd to tpr", 4)],
            },
            Row {
                name: "POP to TPR",
                prepare: |g| {
                    hold(g)?;
                    g.push(0)
                },
                counted: |g| {
                    vector(g)?; // 2
                    g.pop(dword_ptr(edi + TPR))?; // 3
                    mark(g, "pop to tpr")
                },
                body: end,
                expected: |_| vec![("pop to tpr", 3)],
            },
            Row {
                // That of a higher class is in service; the other comes in its handler, behind EOI.
                name: "EOI",
                prepare: enabled,
                counted: |g| {
                    higher(g)?; // 2
                    mark(g, "eoi")
                },
                body: |g| {
                    once(g, |g| {
                        g.sti()?; // 1
                        vector(g)?; // 3
                        g.nop()?; // 4
                        end(g)?; // 6
                        mark(g, "behind eoi")?;
                        g.nop()
                    })?;
                    // Behind the other's: of nothing.
                    end(g)
                },
                expected: |_| vec![("eoi", 2), ("behind eoi", 2 + PROLOGUE + ONCE + 6)],
            },
            Row {
                // The same class: it waits for EOI, and then for IRETD.
                name: "IRETD behind EOI",
                prepare: enabled,
                counted: |g| {
                    higher(g)?; // 2
                    mark(g, "iretd behind eoi")
                },
                body: |g| {
                    once(g, vector)?;
                    end(g)
                },
                expected: |_| vec![
                    ("iretd behind eoi", 2),
                    ("iretd behind eoi", 2 + PROLOGUE + ONCE + 2 + 2 + EPILOGUE),
                ],
            },
        ]
};

