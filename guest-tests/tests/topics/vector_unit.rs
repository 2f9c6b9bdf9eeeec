//! Knights Corner's vector unit: what its instructions are counted as. They execute in 64-bit mode alone, into
//! which and out of which each guest goes while it counts.

use guest_tests::msr::OS;
use guest_tests::part::event;
use guest_tests::{Guest, Part, Result, SCRATCH, run};

topics!(instructions_elements_and_lines);

/// Where the tables for 64-bit mode are, and data.
const TABLES: u32 = SCRATCH + 0x1000;
const OPERANDS: u32 = SCRATCH + 0x5000;

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
        // VADDPS and the store wait for ZMM1, JKZD for k1.
        ("stalls", event(0x2005), 3),
    ];
    let image = Guest::assemble(part, |g| {
        events
            .iter()
            .try_for_each(|&(name, event, _)| g.count(name, event, OS, |g| g.in_64_bit_mode(TABLES, &code)))
    })?;
    let outcome = run(part, &image);
    for (name, _, expected) in events {
        outcome.expect(&[(name, expected)]);
    }
    Ok(())
}
