//! Knights Corner's vector unit: what its instructions are counted as. They execute in 64-bit mode alone, into
//! which and out of which each guest goes while it counts.

use guest_tests::msr::OS;
use guest_tests::part::event;
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{cr0, cr3, cr4, dword_ptr, eax, ecx, fword_ptr};

topics!(instructions_elements_and_lines);

// A page each: the tables of 2 MiB pages, a descriptor table with its pseudo descriptors, and data.
const PML4: u32 = SCRATCH + 0x1000;
const PDPT: u32 = SCRATCH + 0x2000;
const DIRECTORY: u32 = SCRATCH + 0x3000;
const GDT: u32 = SCRATCH + 0x4000;
const OWN_GDTR: u32 = SCRATCH + 0x4100;
const SAVED_GDTR: u32 = SCRATCH + 0x4200;
const OPERANDS: u32 = SCRATCH + 0x5000;
/// In that table: 32-bit code and data as the guest's own, 64-bit code.
const DESCRIPTORS: [u64; 4] = [0, 0x00CF_9A00_0000_FFFF, 0x00CF_9200_0000_FFFF, 0x00AF_9A00_0000_FFFF];
const CODE32: u8 = 0x08;
const CODE64: u8 = 0x18;
/// CR0.PG, CR4.PAE, EFER and its LME.
const PG: u32 = 1 << 31;
const PAE: i32 = 1 << 5;
const EFER: u32 = 0xC000_0080;
const LME: i32 = 1 << 8;

/// Executes `code` in 64-bit mode, with all of memory below 4 MiB where it is.
fn in_64_bit_mode(g: &mut Guest, code: &[u8]) -> Result {
    let entries = [(PML4, PDPT | 3), (PDPT, DIRECTORY | 3), (DIRECTORY, 0x83), (DIRECTORY + 8, 0x20_0083)];
    for (at, entry) in entries {
        g.mov(dword_ptr(at), entry)?;
    }
    for (n, descriptor) in (0..).zip(DESCRIPTORS) {
        g.mov(dword_ptr(GDT + 8 * n), descriptor as u32)?;
        g.mov(dword_ptr(GDT + 8 * n + 4), (descriptor >> 32) as u32)?;
    }
    // Limit 1Fh, then the base.
    g.mov(dword_ptr(OWN_GDTR), GDT << 16 | 0x1F)?;
    g.mov(dword_ptr(OWN_GDTR + 4), GDT >> 16)?;
    g.sgdt(fword_ptr(SAVED_GDTR))?;
    g.lgdt(fword_ptr(OWN_GDTR))?;
    g.mov(eax, cr4)?;
    g.or(eax, PAE)?;
    g.mov(cr4, eax)?;
    g.mov(eax, PML4)?;
    g.mov(cr3, eax)?;
    g.mov(ecx, EFER)?;
    g.rdmsr()?;
    g.or(eax, LME)?;
    g.wrmsr()?;
    g.mov(eax, cr0)?;
    g.or(eax, PG as i32)?;
    g.mov(cr0, eax)?;
    // push CODE64; call $+5; add dword [esp], 5; retf: to what follows, in the other mode.
    g.db(&[0x6A, CODE64, 0xE8, 0, 0, 0, 0, 0x83, 0x04, 0x24, 5, 0xCB])?;
    // mov esp, esp: its upper half is anybody's.
    g.db(&[0x89, 0xE4])?;
    for bytes in code.chunks(16) {
        g.db(bytes)?;
    }
    // push CODE32; call $+5; add qword [rsp], 7; retfq
    g.db(&[0x6A, CODE32, 0xE8, 0, 0, 0, 0])?;
    g.db(&[0x48, 0x83, 0x04, 0x24, 7, 0x48, 0xCB])?;
    g.mov(eax, cr0)?;
    g.and(eax, !PG as i32)?;
    g.mov(cr0, eax)?;
    g.mov(ecx, EFER)?;
    g.rdmsr()?;
    g.and(eax, !LME)?;
    g.wrmsr()?;
    g.mov(eax, cr4)?;
    g.and(eax, !PAE)?;
    g.mov(cr4, eax)?;
    g.lgdt(fword_ptr(SAVED_GDTR))
}

/// By hand: four instructions with an operand in memory and KMOV; 16, 16, 3 and 3 elements; three lines read and
/// one written. JKZD is none of the unit's.
fn instructions_elements_and_lines(part: &'static Part) -> Result {
    let mut code = Vec::new();
    code.push(0xBE); // mov esi, OPERANDS
    code.extend(OPERANDS.to_le_bytes());
    code.extend([0xB8, 0x11, 0x01, 0, 0]); // mov eax, 111h
    code.extend([0xC5, 0xF8, 0x92, 0xC8]); // kmov k1, eax
    code.extend([0x62, 0xF1, 0x78, 0x08, 0x28, 0x0E]); // vmovaps zmm1, [rsi]
    code.extend([0x62, 0xF1, 0x70, 0x08, 0x58, 0x0E]); // vaddps zmm1, zmm1, [rsi]
    code.extend([0x62, 0xF1, 0x78, 0x09, 0x29, 0x4E, 0x01]); // vmovaps [rsi+64]{k1}, zmm1
    code.extend([0x62, 0xF2, 0x79, 0x09, 0x90, 0x14, 0xAE]); // vpgatherdd zmm2{k1}, [rsi+zmm5*4]
    code.extend([0xC4, 0xE0, 0x70, 0x74, 0x00]); // jkzd k1, $+5
    let events = [
        ("data_read", event(0x2000), 3),
        ("data_write", event(0x2001), 1),
        ("instructions", event(0x2016), 5),
        ("elements", event(0x2018), 38),
        ("stalls", event(0x2005), 0),
    ];
    let image = Guest::assemble(part, |g| {
        events
            .iter()
            .try_for_each(|&(name, event, _)| g.count(name, event, OS, |g| in_64_bit_mode(g, &code)))
    })?;
    let outcome = run(part, &image);
    for (name, _, expected) in events {
        outcome.expect(&[(name, expected)]);
    }
    Ok(())
}
