//! Matches of DR0-DR3 by the type that DR7 sets, whether or not the breakpoint is enabled: DCh-DFh
//! on K7 and K8 (BKDG 10.2.1.6), 23h-26h on P55C (Intel MMX Technology manual, table 6-1).

use guest_tests::msr::OS;
use guest_tests::part::event;
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{byte_ptr, dr0, dr1, dr2, dr3, dr7, dword_ptr, eax, ebx, ecx};

topics!(matches_without_enabling);

/// DR7 with nothing enabled: R/W0 write, LEN0 4; R/W1 read or write, LEN1 4; R/W2 (0) execution;
/// R/W3 read or write, LEN3 1. Bit 10 is always one.
const DR7: u32 = 1 << 10 | 0b1101 << 16 | 0b1111 << 20 | 0b0011 << 28;

fn matches_without_enabling(part: &'static Part) -> Result {
    let Some(first) = part.breakpoints else { unreachable!() };
    let image = Guest::assemble(part, |g| {
        g.mov(eax, SCRATCH)?;
        g.mov(dr0, eax)?;
        g.mov(dr1, eax)?;
        g.add(eax, 3)?;
        g.mov(dr3, eax)?;
        g.mov(eax, DR7)?;
        g.mov(dr7, eax)?;
        g.mov(ebx, SCRATCH)?;
        for (code, name) in (first.code..).zip(["dr0", "dr1", "dr2", "dr3"]) {
            g.count(name, event(code), OS, |g| {
                let mut watched = g.create_label();
                g.address(eax, watched)?;
                g.mov(dr2, eax)?;
                g.mov(ecx, 4)?;
                g.place(&mut watched)?;
                g.mov(dword_ptr(ebx), ecx)?; // 4 writes to all four bytes; DR2: 4 executions
                g.dec(ecx)?;
                g.jnz(watched)?;
                g.mov(ecx, dword_ptr(ebx))?; // 1 read of all four
                g.mov(byte_ptr(ebx + 2), 0)?; // 1 write to byte 2
                g.mov(byte_ptr(ebx + 3), 0)?; // 1 write to byte 3
                g.mov(eax, dword_ptr(ebx + 4))?; // a read behind
                g.mov(dword_ptr(ebx + 4), eax) // a write behind
            })?;
        }
        Ok(())
    })?;
    run(part, &image).expect(&[
        ("dr0", 4 + 2),     // writes
        ("dr1", 4 + 1 + 2), // reads and writes
        ("dr2", 4),
        ("dr3", 4 + 1 + 1), // those that touch byte 3
    ]);
    Ok(())
}
