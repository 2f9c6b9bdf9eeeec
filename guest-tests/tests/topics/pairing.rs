//! The two pipes of the P55C, by the rules of Agner Fog, "How to optimize for the Pentium family of
//! microprocessors", chapters 9 and 10: events 17h instructions executed in the V pipe, 1Fh address generation
//! interlocks, 09h and 0Ah memory accesses in both pipes and bank conflicts (Intel SDM volume 3, "Pentium
//! Processor Performance-Monitoring Events").

use guest_tests::msr::{CLOCKS, OS};
use guest_tests::part::{Event, event};
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, ebp, ebx, edi, esi, esp};

topics!(
    instructions_in_the_v_pipe,
    address_generation_interlocks,
    accesses_in_both_pipes,
);

const V_PIPE: Event = event(0x17);
const INTERLOCKS: Event = event(0x1F);
const BOTH_ACCESS: Event = event(0x09);
const BANK_CONFLICTS: Event = event(0x0A);

/// How often the body is still to be counted.
const PASSES: u32 = SCRATCH + 0x100;

/// Behind the body: MOV ECX and MOV EAX of the instructions that disable the counter are a pair. MOV EDX
/// and WRMSR are none.
const DISABLING_PAIRS: u64 = 1;

/// Reports what is counted of `body` the second time, when it is in the instruction cache. EBX and ESI are
/// equal before it, and lead to memory that is in the data cache. CPUID behind it pairs with nothing.
fn count_again(
    g: &mut Guest,
    name: &str,
    event: Event,
    flags: u64,
    body: impl FnOnce(&mut Guest) -> Result,
) -> Result {
    g.mov(dword_ptr(PASSES), 2)?;
    let pass = g.here()?;
    g.mov(ebx, SCRATCH)?;
    g.mov(esi, SCRATCH)?;
    g.mov(edi, dword_ptr(esi))?;
    g.count(name, event, flags, |g| {
        body(g)?;
        g.cpuid()
    })?;
    g.dec(dword_ptr(PASSES))?;
    g.jnz(pass)
}

fn instructions_in_the_v_pipe(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        count_again(g, "nothing", V_PIPE, OS, |_| Ok(()))?;
        count_again(g, "compared", V_PIPE, OS, |g| {
            let mut elsewhere = g.create_label();
            for _ in 0..4 {
                g.cmp(ebx, esi)?;
                g.jne(elsewhere)?;
            }
            g.set_label(&mut elsewhere)?;
            Ok(())
        })?;
        count_again(g, "independent", V_PIPE, OS, |g| {
            g.inc(ebx)?;
            g.inc(esi)?;
            g.inc(edi)?;
            g.inc(ebp)
        })?;
        count_again(g, "dependent", V_PIPE, OS, |g| {
            for _ in 0..4 {
                g.inc(ebx)?;
            }
            Ok(())
        })?;
        // SHL is for the U pipe: it pairs with what follows, not with what precedes.
        count_again(g, "shift first", V_PIPE, OS, |g| {
            g.shl(ebx, 1)?;
            g.inc(esi)
        })?;
        count_again(g, "shift second", V_PIPE, OS, |g| {
            g.inc(esi)?;
            g.shl(ebx, 1)
        })?;
        // By CL, it pairs with nothing.
        count_again(g, "shift by CL", V_PIPE, OS, |g| {
            g.shl(ebx, iced_x86::code_asm::cl)?;
            g.inc(esi)
        })?;
        count_again(g, "displacement and immediate", V_PIPE, OS, |g| {
            g.inc(ebx)?;
            g.mov(dword_ptr(esi + 4), 1)
        })?;
        count_again(g, "immediate", V_PIPE, OS, |g| {
            g.inc(ebx)?;
            g.mov(dword_ptr(esi), 1)
        })?;
        count_again(g, "stack", V_PIPE, OS, |g| {
            g.push(ebx)?;
            g.push(esi)?;
            g.pop(esi)?;
            g.pop(ebx)
        })
    })?;
    let expected = [
        ("nothing", 0),
        ("compared", 4),
        ("independent", 2),
        ("dependent", 0),
        ("shift first", 1),
        ("shift second", 0),
        ("shift by CL", 0),
        ("displacement and immediate", 0),
        ("immediate", 1),
        ("stack", 2),
    ];
    run(part, &image).expect(&expected.map(|(name, pairs)| (name, pairs + DISABLING_PAIRS)));
    Ok(())
}

fn address_generation_interlocks(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        // Each load needs what was written in the clock before.
        count_again(g, "at once", INTERLOCKS, OS | CLOCKS, |g| {
            for _ in 0..4 {
                g.mov(ebx, esi)?;
                g.mov(edi, dword_ptr(ebx))?;
            }
            Ok(())
        })?;
        // MOV and INC are a pair, so are INC and NOP, and the load is in the clock after the next.
        count_again(g, "later", INTERLOCKS, OS | CLOCKS, |g| {
            g.mov(ebx, esi)?;
            g.inc(ebp)?;
            g.inc(ebp)?;
            g.nop()?;
            g.mov(edi, dword_ptr(ebx))
        })?;
        // LEA computes its address where loads do.
        count_again(g, "lea", INTERLOCKS, OS | CLOCKS, |g| {
            g.mov(ebx, esi)?;
            g.lea(edi, dword_ptr(ebx + 4))
        })?;
        // PUSH and POP have the stack pointer in time for each other. SUB has not.
        count_again(g, "stack", INTERLOCKS, OS | CLOCKS, |g| {
            g.push(ebx)?;
            g.push(esi)?;
            g.pop(esi)?;
            g.pop(ebx)
        })?;
        count_again(g, "sub", INTERLOCKS, OS | CLOCKS, |g| {
            g.sub(esp, 4)?;
            g.push(ebx)?;
            g.add(esp, 8)
        })?;
        // A return has it in time for POP, one that drops operands has not.
        for (name, operands) in [("return", 0), ("return and drop", 4)] {
            count_again(g, name, INTERLOCKS, OS | CLOCKS, |g| {
                let (mut function, mut behind) = (g.create_label(), g.create_label());
                g.push(esi)?;
                if operands != 0 {
                    g.push(ebx)?;
                }
                g.call(function)?;
                g.pop(esi)?;
                g.jmp(behind)?;
                g.place(&mut function)?;
                if operands == 0 { g.ret()? } else { g.ret_1(operands)? }
                g.place(&mut behind)
            })?;
        }
        Ok(())
    })?;
    run(part, &image).expect(&[
        ("at once", 4),
        ("later", 0),
        ("lea", 1),
        ("stack", 0),
        ("sub", 1),
        ("return", 0),
        ("return and drop", 1),
    ]);
    Ok(())
}

/// The data cache has eight banks of four bytes: two loads of one doubleword are in the same bank, and so
/// are two that are 32 bytes apart.
fn accesses_in_both_pipes(part: &'static Part) -> Result {
    let image = Guest::assemble(part, |g| {
        for (event, of) in [(BOTH_ACCESS, "pairs"), (BANK_CONFLICTS, "conflicts")] {
            for distance in [0, 4, 28, 32] {
                count_again(g, &format!("{of} {distance}"), event, OS, |g| {
                    g.mov(ebp, dword_ptr(esi + distance))?;
                    g.mov(ebp, dword_ptr(esi + distance))?;
                    g.mov(ebp, dword_ptr(ebx))?;
                    g.mov(edi, dword_ptr(esi + distance))
                })?;
            }
        }
        Ok(())
    })?;
    // The first two write the same register. The second and the third do as well; the third and the fourth
    // are a pair.
    run(part, &image).expect(&[
        ("pairs 0", 1),
        ("conflicts 0", 1),
        ("pairs 4", 1),
        ("conflicts 4", 0),
        ("pairs 28", 1),
        ("conflicts 28", 0),
        ("pairs 32", 1),
        ("conflicts 32", 1),
    ]);
    Ok(())
}
