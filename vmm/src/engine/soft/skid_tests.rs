//! The skid of interrupts that the other threads of a core cause.

use iced_x86::IcedError;
use iced_x86::code_asm::{dword_ptr, eax, ecx, edi, esi, esp};

use crate::console::Console;
use crate::machine::Machine;
use crate::program::{DATA, Image, Program, TRAMPOLINE, TRAMPOLINE_BYTES};
use crate::stop::Stop;
use crate::turns::tests::machine;

/// Knights Corner's global enable, counter 0 and its select (327357-001): instructions of all threads of the core, at
/// all levels, with an interrupt.
const GLOBAL: u32 = 0x2F;
const COUNTER: u32 = 0x20;
const SELECT: u32 = 0x28;
const COUNTS: u64 = 0x16 | 3 << 16 | 1 << 20 | 1 << 21 | 1 << 22;
/// Local APIC: interrupt command and LVTPC, which sends an NMI.
const ICR: i32 = 0x300;
const LVTPC: i32 = 0x340;
const NMI: u32 = 4 << 8;

/// NOPs of thread 1: more than are executed in two turns (`turns.rs`), of 5,000 cycles each.
const SLED: u32 = 14_000;

/// Thread 1 has its counter overflow when the core has executed so many instructions, and executes NOPs, the first of
/// which is "sled"; the NMI leaves in DATA + 4 where it came. Thread 0 is in a loop.
fn guest(instructions: u64) -> Result<Image, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    let mut first = p.create_label();
    p.jmp(first)?;
    let nmi = p.here()?;
    p.gate(2, nmi, 0);
    p.mov(eax, dword_ptr(esp))?;
    p.mov(dword_ptr(DATA + 4), eax)?;
    let over = p.here()?;
    p.jmp(over)?;
    let entry = p.here()?;
    p.set_start_up(entry);
    p.set_up_processor()?;
    p.write_lapic(LVTPC, NMI)?;
    p.mov(dword_ptr(DATA), 1)?;
    // Until turns are long again behind the start-up IPI.
    p.mov(ecx, 20_000)?;
    let waits = p.here()?;
    p.dec(ecx)?;
    p.jnz(waits)?;
    p.write_msr(GLOBAL, 3)?;
    p.write_msr(SELECT, COUNTS)?;
    p.write_msr(COUNTER, instructions.wrapping_neg() & 0xFF_FFFF_FFFF)?;
    p.mark("sled")?;
    for _ in 0..SLED {
        p.nop()?;
    }
    let end = p.here()?;
    p.jmp(end)?;
    p.place(&mut first)?;
    p.mov(esi, TRAMPOLINE)?;
    p.mov(edi, 8 << 12)?;
    p.mov(ecx, TRAMPOLINE_BYTES)?;
    p.rep().movsb()?;
    p.write_lapic(ICR, 3 << 18 | 1 << 14 | 5 << 8)?;
    p.write_lapic(ICR, 3 << 18 | 1 << 14 | 6 << 8 | 8)?;
    let spins = p.here()?;
    p.inc(eax)?;
    p.jmp(spins)?;
    program.finish()
}

/// Behind how many NOPs the interrupt comes.
fn place(image: &Image, skid: u64) -> u32 {
    let mut machine: Machine = machine("knc", 2, &image.bytes);
    machine.board.skid = skid;
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    machine.run_until(&Stop::new().unwrap(), Some(200_000), &mut console).unwrap();
    let mut bytes = [0; 4];
    assert!(machine.read_physical((DATA + 4).into(), &mut bytes));
    u32::from_le_bytes(bytes) - image.symbol("sled").unwrap() as u32
}

/// A skid of n is n instructions of the thread that takes the interrupt, whoever's instruction was the last that was
/// counted.
#[test]
fn a_siblings_interrupt_is_as_late() {
    let mut by_sibling = false;
    // Turns go by time: some of these overflows are in the turn of the one thread, and some in that of the other.
    for instructions in (500..=10_000).step_by(500) {
        let image = guest(instructions).unwrap();
        let at_once = u64::from(place(&image, 0));
        for skid in [1, 5] {
            let late = u64::from(place(&image, skid));
            assert_eq!(late, at_once + skid, "{instructions} instructions, skid {skid}");
        }
        by_sibling |= at_once < instructions;
    }
    assert!(by_sibling, "the other thread's instructions are counted");
}
