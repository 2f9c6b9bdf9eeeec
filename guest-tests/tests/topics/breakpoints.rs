//! DCh-DFh: matches of DR0-DR3 by the type that DR7 sets, whether or not the breakpoint is enabled
//! (BKDG 10.2.1.6; APM volume 2, section 13.1.1).

use guest_tests::msr::OS;
use guest_tests::{Guest, Result, SCRATCH, run};
use iced_x86::code_asm::{byte_ptr, dr0, dr1, dr2, dr3, dr7, dword_ptr, ecx, qword_ptr, rax, rbx};

/// DR7 with nothing enabled: R/W0 write, LEN0 4; R/W1 read or write, LEN1 4; R/W2 (0) execution;
/// R/W3 read or write, LEN3 1. Bit 10 is always one.
const DR7: u64 = 1 << 10 | 0b1101 << 16 | 0b1111 << 20 | 0b0011 << 28;

#[test]
fn matches_without_enabling() -> Result {
    let image = Guest::assemble(|g| {
        let selects =
            [("dr0", 0xDC | OS), ("dr1", 0xDD | OS), ("dr2", 0xDE | OS), ("dr3", 0xDF | OS)];
        g.mov(rax, SCRATCH)?;
        g.mov(dr0, rax)?;
        g.mov(dr1, rax)?;
        g.add(rax, 3)?;
        g.mov(dr3, rax)?;
        g.mov(rax, DR7)?;
        g.mov(dr7, rax)?;
        g.mov(rbx, SCRATCH)?;
        g.count_each(&selects, |g| {
            let mut watched = g.create_label();
            g.lea(rax, byte_ptr(watched))?;
            g.mov(dr2, rax)?;
            g.mov(ecx, 4)?;
            g.place(&mut watched)?;
            g.mov(dword_ptr(rbx), ecx)?; // 4 writes to all four bytes; DR2: 4 executions
            g.dec(ecx)?;
            g.jnz(watched)?;
            g.mov(ecx, dword_ptr(rbx))?; // 1 read of all four
            g.mov(byte_ptr(rbx + 2), 0)?; // 1 write to byte 2
            g.mov(byte_ptr(rbx + 3), 0)?; // 1 write to byte 3
            g.mov(rax, qword_ptr(rbx + 4))?; // a read behind
            g.mov(qword_ptr(rbx + 8), rax) // a write behind
        })
    })?;
    run(&image).expect(&[
        ("dr0", 4 + 2),     // writes
        ("dr1", 4 + 1 + 2), // reads and writes
        ("dr2", 4),
        ("dr3", 4 + 1 + 1), // those that touch byte 3
    ]);
    Ok(())
}
