//! NMIs: blocked until IRET.

use iced_x86::code_asm::{dword_ptr};
use vpmu::program::KERNEL_CS;

use super::*;

/// "While an NMI interrupt handler is executing, the processor disables additional calls to the NMI
/// handler until the next IRET instruction is executed" (SDM Vol. 3A, "Handling Multiple NMIs").
pub(super) const NMI: &[Row] = {
    /// From the first NMI to behind its IRETD, with another one sent in between.
    const HANDLING: u64 = PROLOGUE + ONCE + 2 + EPILOGUE;
    let send_another: Build = |g| once(g, nmi);
    &[
            Row {
                name: "a store to ICR",
                counted: |g| {
                    nmi(g)?; // 2
                    mark(g, "nmi")
                },
                expected: |_| vec![("nmi", 2)],
                ..ROW
            },
            Row {
                name: "IRETD with IF clear",
                counted: |g| {
                    nmi(g)?; // 2
                    mark(g, "nmi, nmi")
                },
                body: send_another,
                expected: |_| vec![("nmi, nmi", 2), ("nmi, nmi", 2 + HANDLING)],
                ..ROW
            },
            Row {
                name: "IRETD with IF set",
                prepare: enabled,
                counted: |g| {
                    nmi(g)?; // 2
                    mark(g, "nmi, nmi, if")
                },
                body: send_another,
                expected: |_| vec![("nmi, nmi, if", 2), ("nmi, nmi, if", 2 + HANDLING)],
            },
            Row {
                name: "IRETD, time and again",
                counted: |g| {
                    nmi(g)?; // 2
                    mark(g, "four")
                },
                body: |g| {
                    let mut over = g.create_label();
                    g.cmp(dword_ptr(ENTRIES), 4)?;
                    g.je(over)?;
                    nmi(g)?;
                    g.place(&mut over)
                },
                expected: |_| vec![
                    ("four", 2),
                    ("four", 2 + HANDLING),
                    ("four", 2 + 2 * HANDLING),
                    ("four", 2 + 3 * HANDLING),
                ],
                ..ROW
            },
            Row {
                name: "IRETD of an INT n in the handler",
                counted: |g| {
                    nmi(g)?; // 2
                    mark(g, "nested")
                },
                body: |g| {
                    once(g, |g| {
                        nmi(g)?;
                        g.int(i32::from(EMPTY))?;
                        mark(g, "behind int n")
                    })
                },
                // INT n and its IRETD.
                expected: |_| vec![("nested", 2), ("behind int n", 2 + PROLOGUE + ONCE + 2 + 2)],
                ..ROW
            },
            Row {
                name: "IRETD from nowhere",
                counted: |g| {
                    nmi(g)?; // 2
                    mark(g, "from nowhere")
                },
                body: |g| {
                    once(g, |g| {
                        nmi(g)?;
                        let mut target = g.create_label();
                        g.pushfd()?;
                        g.push(i32::from(KERNEL_CS))?;
                        g.push_address(target)?;
                        g.iretd()?;
                        g.place(&mut target)?;
                        mark(g, "target")
                    })
                },
                expected: |_| vec![("from nowhere", 2), ("target", 2 + PROLOGUE + ONCE + 2 + 4)],
                ..ROW
            },
        ]
};

