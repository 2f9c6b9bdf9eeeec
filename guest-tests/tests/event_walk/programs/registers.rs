//! Programs that access no memory.

use guest_tests::{Guest, Result};
use iced_x86::code_asm::{eax, ebx, ecx, edx};

use super::Program;

pub(super) const PROGRAMS: &[Program] =
    &[Program::new("control", "32 additions of registers", additions)];

fn additions(g: &mut Guest) -> Result {
    for _ in 0..8 {
        g.add(eax, ebx)?;
        g.add(ecx, edx)?;
        g.add(ebx, ecx)?;
        g.add(edx, eax)?;
    }
    Ok(())
}
