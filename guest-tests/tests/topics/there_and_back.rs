//! Counting on and off, time and again: on an engine that changes hands for it, the processor takes
//! all it has along, and brings it back.

use guest_tests::guest::{EFLAGS_CLEAR, LVT_NMI, LVTPC};
use guest_tests::msr::{EN, INT, OS, USR};
use guest_tests::part::Registers;
use guest_tests::{DISABLING, Guest, Outcome, PMI_VECTOR, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{
    cr0, cr2, cr4, dr0, dr1, dr2, dr3, dr7, dword_ptr, eax, ebp, ebx, ecx, edi, edx, es, esi, esp,
    fs, gs, qword_ptr, tbyte_ptr, word_ptr, xmm0, xmm7, xmmword_ptr,
};
use vpmu::program::Image;

topics!(
    registers_survive,
    at_cpl_3,
    counters_go_on,
    a_pmi_waits_across,
    breakpoints_of_the_guest,
);

const ROUNDS: u32 = 50;
const CR4_OSFXSR: i32 = 1 << 9;
const CR0_WP: i32 = 1 << 16;

const ROUND: u32 = SCRATCH;
const STACK_POINTER: u32 = SCRATCH + 4;
const OPERAND: u32 = SCRATCH + 0x10;
const RESULT: u32 = SCRATCH + 0x40;
/// How often each of the checks has failed.
const WRONG: u32 = SCRATCH + 0x100;

/// CF, PF, AF, ZF, SF, DF, OF, AC, ID and the bit that is always one.
const FLAGS: [i32; 2] = [2, 0x0024_0CD7];

/// x87 control word: all masked, 64 bits of precision, rounding up.
const CONTROL_WORD: u32 = 0x0B7F;
/// MXCSR: all masked, rounding down, invalid and precision in the status.
const MXCSR: u32 = 0x3FA1;
/// DR7 with the types of all four breakpoints and none enabled.
const DR7: u32 = 0x400 | 0xDDF5 << 16;

/// Checks that have been assembled, by name.
struct Checks(Vec<String>);

impl Checks {
    /// Counts as `name` if `compare` does not find the same.
    fn check(
        &mut self,
        g: &mut Guest,
        name: &str,
        compare: impl FnOnce(&mut Guest) -> Result,
    ) -> Result {
        let mut right = g.create_label();
        compare(g)?;
        g.je(right)?;
        g.inc(dword_ptr(WRONG + 4 * self.0.len() as u32))?;
        self.0.push(name.into());
        g.place(&mut right)
    }

    fn report(&self, g: &mut Guest) -> Result {
        g.cld()?;
        (WRONG..)
            .step_by(4)
            .zip(&self.0)
            .try_for_each(|(place, name)| g.report_word(name, place))?;
        g.report_word("rounds", ROUND)
    }

    /// Runs `image`, and compares what it reports with none wrong.
    fn expect(&self, part: &'static Part, image: &Image) -> Outcome {
        let mut expected: Vec<_> = self.0.iter().map(|name| (name.as_str(), 0)).collect();
        expected.push(("rounds", ROUNDS.into()));
        let outcome = run(part, image);
        outcome.expect(&expected);
        outcome
    }
}

/// Does `body` for each round.
fn each_round(g: &mut Guest, body: impl FnOnce(&mut Guest) -> Result) -> Result {
    let next = g.here()?;
    body(g)?;
    g.inc(dword_ptr(ROUND))?;
    g.cmp(dword_ptr(ROUND), ROUNDS as i32)?;
    g.jb(next)
}

/// Sets EFLAGS but IF, to one pattern in even rounds and another in odd ones. Changes EAX.
fn set_flags(g: &mut Guest) -> Result {
    let (mut even, mut set) = (g.create_label(), g.create_label());
    g.test(dword_ptr(ROUND), 1)?;
    g.jz(even)?;
    g.push(FLAGS[1])?;
    g.jmp(set)?;
    g.place(&mut even)?;
    g.push(FLAGS[0])?;
    g.place(&mut set)?;
    g.popfd()
}

/// Leaves in EAX what [`set_flags`] has set. Changes EFLAGS.
fn flags_of_round(g: &mut Guest) -> Result {
    let mut even = g.create_label();
    g.mov(eax, FLAGS[0])?;
    g.test(dword_ptr(ROUND), 1)?;
    g.jz(even)?;
    g.mov(eax, FLAGS[1])?;
    g.place(&mut even)
}

/// Sets whatever the round does not need for itself to values of the round.
fn set_registers(g: &mut Guest, sse: bool) -> Result {
    g.mov(dword_ptr(STACK_POINTER), esp)?;
    g.mov(ebx, dword_ptr(ROUND))?;
    // x87: the round and pi on the stack.
    g.fninit()?;
    g.mov(dword_ptr(OPERAND), CONTROL_WORD)?;
    g.fldcw(word_ptr(OPERAND))?;
    g.fild(dword_ptr(ROUND))?;
    g.fldpi()?;
    if sse {
        g.mov(dword_ptr(OPERAND), MXCSR)?;
        g.ldmxcsr(dword_ptr(OPERAND))?;
        for n in 0..4 {
            g.mov(dword_ptr(OPERAND + 4 * n), ebx)?;
            g.add(dword_ptr(OPERAND + 4 * n), 0x1111 * (n as i32 + 1))?;
        }
        g.movups(xmm0, xmmword_ptr(OPERAND))?;
        g.movups(xmm7, xmmword_ptr(OPERAND))?;
        g.shufps(xmm7, xmm7, 0b0001_1011)?; // the other way round
    }
    // CR0.WP by the last bit.
    g.mov(ecx, ebx)?;
    g.and(ecx, 1)?;
    g.shl(ecx, 16)?;
    g.mov(eax, cr0)?;
    g.and(eax, !CR0_WP)?;
    g.or(eax, ecx)?;
    g.mov(cr0, eax)?;
    g.imul_3(eax, ebx, 0x1001)?;
    g.mov(cr2, eax)?;
    g.mov(dr0, eax)?;
    g.inc(eax)?;
    g.mov(dr1, eax)?;
    g.inc(eax)?;
    g.mov(dr2, eax)?;
    g.inc(eax)?;
    g.mov(dr3, eax)?;
    g.mov(eax, DR7)?;
    g.mov(dr7, eax)?;
    g.mov(eax, 0x10)?;
    g.mov(fs, eax)?;
    g.xor(eax, eax)?;
    g.mov(gs, eax)?;
    for (register, factor) in [(esi, 3), (edi, 5), (ebp, 7)] {
        g.imul_3(register, ebx, factor)?;
        g.inc(register)?;
    }
    set_flags(g)
}

/// Checks all that [`set_registers`] has set.
fn check_registers(g: &mut Guest, checks: &mut Checks, name: &str, sse: bool) -> Result {
    let mut check = |g: &mut Guest, what: &str, compare: &dyn Fn(&mut Guest) -> Result| {
        checks.check(g, &format!("{name}.{what}"), compare)
    };
    g.pushfd()?;
    g.pop(dword_ptr(RESULT))?;
    check(g, "eflags", &|g| {
        flags_of_round(g)?;
        g.cmp(eax, dword_ptr(RESULT))
    })?;
    check(g, "esp", &|g| g.cmp(esp, dword_ptr(STACK_POINTER)))?;
    check(g, "ebx", &|g| g.cmp(ebx, dword_ptr(ROUND)))?;
    for (what, register, factor) in [("esi", esi, 3), ("edi", edi, 5), ("ebp", ebp, 7)] {
        check(g, what, &|g| {
            g.imul_3(eax, ebx, factor)?;
            g.inc(eax)?;
            g.cmp(eax, register)
        })?;
    }
    check(g, "segments", &|g| {
        g.xor(ecx, ecx)?;
        for (register, value) in [(fs, 0x10), (gs, 0), (es, 0x43)] {
            g.mov(eax, register)?;
            g.xor(eax, value)?;
            g.or(ecx, eax)?;
        }
        g.test(ecx, ecx)
    })?;
    check(g, "cr0", &|g| {
        g.mov(eax, cr0)?;
        g.shr(eax, 16)?;
        g.xor(eax, ebx)?;
        g.test(eax, 1)
    })?;
    check(g, "cr2", &|g| {
        g.imul_3(eax, ebx, 0x1001)?;
        g.mov(ecx, cr2)?;
        g.cmp(eax, ecx)
    })?;
    check(g, "cr4", &|g| {
        g.mov(eax, cr4)?;
        g.cmp(eax, 0x100 | if sse { CR4_OSFXSR } else { 0 })
    })?;
    for (n, register) in [dr0, dr1, dr2, dr3].into_iter().enumerate() {
        check(g, &format!("dr{n}"), &|g| {
            g.imul_3(eax, ebx, 0x1001)?;
            g.add(eax, n as i32)?;
            g.mov(ecx, register)?;
            g.cmp(eax, ecx)
        })?;
    }
    check(g, "dr7", &|g| {
        g.mov(eax, dr7)?;
        g.cmp(eax, DR7 as i32)
    })?;
    // The stack is taken down and built up again.
    g.fstp(tbyte_ptr(RESULT))?;
    check(g, "pi", &|g| {
        g.mov(eax, dword_ptr(RESULT))?;
        g.xor(eax, 0x2168_C235)?;
        g.mov(ecx, dword_ptr(RESULT + 4))?;
        g.xor(ecx, 0xC90F_DAA2_u32 as i32)?;
        g.or(eax, ecx)?;
        g.movzx(ecx, word_ptr(RESULT + 8))?;
        g.xor(ecx, 0x4000)?;
        g.or(eax, ecx)
    })?;
    g.fistp(qword_ptr(RESULT))?;
    check(g, "x87", &|g| g.cmp(ebx, dword_ptr(RESULT)))?;
    g.fnstcw(word_ptr(RESULT))?;
    g.fnstsw(word_ptr(RESULT + 2))?;
    // Control word; status word with an empty stack and nothing to report.
    check(g, "x87 control", &|g| {
        g.mov(eax, dword_ptr(RESULT))?;
        g.and(eax, 0x3800_FFFF)?;
        g.cmp(eax, CONTROL_WORD as i32)
    })?;
    g.fild(dword_ptr(ROUND))?;
    g.fldpi()?;
    if sse {
        for (what, register, order) in [("xmm0", xmm0, [0, 1, 2, 3]), ("xmm7", xmm7, [3, 2, 1, 0])]
        {
            g.movups(xmmword_ptr(RESULT), register)?;
            check(g, what, &|g| {
                g.xor(ecx, ecx)?;
                for n in 0..4 {
                    g.lea(eax, dword_ptr(ebx + 0x1111 * (n + 1)))?;
                    g.xor(eax, dword_ptr(RESULT + 4 * order[n as usize]))?;
                    g.or(ecx, eax)?;
                }
                g.test(ecx, ecx)
            })?;
        }
        g.stmxcsr(dword_ptr(RESULT))?;
        check(g, "mxcsr", &|g| g.cmp(dword_ptr(RESULT), MXCSR as i32))?;
    }
    set_flags(g)
}

/// Checks that counter 0 has `expected`. Changes EAX, ECX, EDX and EFLAGS.
fn check_counter(g: &mut Guest, checks: &mut Checks, name: &str, expected: u64) -> Result {
    g.read_pmc(0)?;
    checks.check(g, name, |g| g.cmp(eax, expected as i32))?;
    checks.check(g, &format!("{name}.high"), |g| g.test(edx, edx))
}

/// All registers but those that WRMSR takes, across the way into the counted stretch, out of it, and
/// across an RDPMC outside.
fn registers_survive(part: &'static Part) -> Result {
    let sse = part.sse;
    let mut checks = Checks(Vec::new());
    let image = Guest::assemble(part, |g| {
        if sse {
            g.set_cr4(CR4_OSFXSR)?;
        }
        each_round(g, |g| {
            set_registers(g, sse)?;
            g.start(0, part.instructions, OS, 0)?;
            (0..3).try_for_each(|_| g.nop())?;
            g.stop(0)?;
            check_registers(g, &mut checks, "out", sse)?;
            check_counter(g, &mut checks, "counter", 3 + DISABLING)?;
            set_flags(g)?;
            g.read_pmc(0)?;
            check_registers(g, &mut checks, "rdpmc", sse)?;
            // Counted, the checks themselves.
            g.start(0, part.instructions, OS, 0)?;
            check_registers(g, &mut checks, "in", sse)?;
            g.stop(0)?;
            check_registers(g, &mut checks, "out again", sse)
        })?;
        checks.report(g)
    })?;
    checks.expect(part, &image);
    Ok(())
}

/// What is at CPL 3 beside it: counted at CPL 3, uncounted at CPL 3, and RDPMC there.
fn at_cpl_3(part: &'static Part) -> Result {
    let sse = part.sse;
    let mut checks = Checks(Vec::new());
    let image = Guest::assemble(part, |g| {
        if sse {
            g.set_cr4(CR4_OSFXSR)?;
        }
        each_round(g, |g| {
            g.fninit()?;
            g.start(0, part.instructions, USR, 0)?;
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                g.fldpi()?; // 1
                if sse {
                    g.movups(xmm7, xmmword_ptr(SCRATCH))?; // 2
                } else {
                    g.nop()?; // 2
                }
                g.mov(esi, dword_ptr(ROUND))?; // 3; then INT 80h
                g.not(esi) // 4
            })?;
            g.stop(0)?;
            g.at_cpl3(EFLAGS_CLEAR, |g| {
                g.mov(edi, dword_ptr(ROUND))?;
                check_counter(g, &mut checks, "counter", 4 + 1)?;
                checks.check(g, "esi", |g| {
                    g.not(esi)?;
                    g.cmp(esi, edi)
                })?;
                g.fstp(qword_ptr(RESULT))?;
                // Pi in double precision.
                checks.check(g, "pi.low", |g| g.cmp(dword_ptr(RESULT), 0x5444_2D18))?;
                checks.check(g, "pi.high", |g| g.cmp(dword_ptr(RESULT + 4), 0x4009_21FB))?;
                if sse {
                    g.movups(xmmword_ptr(RESULT), xmm7)?;
                    checks.check(g, "xmm7", |g| g.cmp(dword_ptr(RESULT), edi))?;
                }
                check_counter(g, &mut checks, "counter.later", 4 + 1)
            })
        })?;
        checks.report(g)
    })?;
    checks.expect(part, &image);
    Ok(())
}

/// What a counter holds stands while it is disabled, and goes on from there: nothing of what is
/// executed in between is in it, though it would be counted.
fn counters_go_on(part: &'static Part) -> Result {
    const PRESET: u64 = 1000;
    let last = part.counters - 1;
    let on = match part.registers {
        // CC 1: CPL 0 to 2.
        Registers::P55c => part.instructions.code | 1 << 6,
        _ => part.instructions.code | OS | EN,
    };
    let mut checks = Checks(Vec::new());
    let image = Guest::assemble(part, |g| {
        g.write_msr(part.perfctr(last), part.width_mask())?;
        g.write_msr(part.perfctr(0), PRESET)?;
        g.mov(esi, PRESET as u32)?;
        each_round(g, |g| {
            g.write_msr(part.evtsel(0), on)?;
            g.nop()?; // 1
            g.nop()?; // 2, and what disables
            g.write_msr(part.evtsel(0), 0)?;
            g.add(esi, (2 + DISABLING) as i32)?;
            for name in ["counter", "later"] {
                g.read_pmc(0)?;
                checks.check(g, name, |g| g.cmp(eax, esi))?;
                g.mov(ecx, 10)?;
                let next = g.here()?;
                g.dec(ecx)?;
                g.jnz(next)?;
            }
            g.read_pmc(last)?;
            checks.check(g, "the other", |g| g.cmp(eax, -1))
        })?;
        g.read_msr(part.perfctr(0))?;
        g.report("rdmsr")?;
        checks.report(g)
    })?;
    let outcome = checks.expect(part, &image);
    outcome.expect(&[("rdmsr", PRESET + u64::from(ROUNDS) * (2 + DISABLING))]);
    Ok(())
}

/// A PMI that waits for IF, or for the IRETD of an NMI handler, while counting is off, and a thousand
/// instructions are executed meanwhile.
fn a_pmi_waits_across(part: &'static Part) -> Result {
    /// Counter 0 overflows with the second NOP, counting ends, time passes.
    fn overflow_and_wait(g: &mut Guest) -> Result {
        g.start(0, g.part.instructions, OS | INT, 2_u64.wrapping_neg())?;
        g.nop()?;
        g.nop()?;
        g.stop(0)?;
        g.mov(ecx, 500)?;
        let next = g.here()?;
        g.dec(ecx)?;
        g.jnz(next)
    }
    let image = Guest::assemble(part, |g| {
        g.write_lapic(LVTPC, u32::from(PMI_VECTOR))?;
        overflow_and_wait(g)?;
        g.report_pmis("masked", 0)?;
        g.sti()?;
        g.nop()?;
        g.mark("behind the shadow")?;
        g.nop()?;
        g.cli()?;
        g.report_pmis("pmis", 1)
    })?;
    let behind = image.symbol("behind the shadow").expect("a mark");
    run(part, &image).expect(&[("masked", 0), ("pmis", 1), ("pmis.0", behind)]);

    for lvtpc in [LVT_NMI, u32::from(PMI_VECTOR)] {
        let image = Guest::assemble(part, |g| {
            g.on_pmi(|g| {
                // The first time only.
                let mut again = g.create_label();
                g.cmp(eax, 1)?;
                g.jne(again)?;
                overflow_and_wait(g)?;
                g.place(&mut again)
            })?;
            g.write_lapic(LVTPC, lvtpc)?;
            g.sti()?;
            g.nop()?;
            g.start(0, part.instructions, OS | INT, 2_u64.wrapping_neg())?;
            g.nop()?; // 1
            g.nop()?; // 2: overflow
            g.mark("next")?;
            g.nop()?;
            g.stop(0)?;
            g.cli()?;
            g.report_pmis("pmis", 2)
        })?;
        let next = image.symbol("next").expect("a mark");
        run(part, &image).expect(&[("pmis", 2), ("pmis.0", next), ("pmis.1", next)]);
    }
    Ok(())
}

/// A guest that debugs itself, without a counter: its breakpoint works, and so does what KVM needs help
/// with, INT n at CPL 3 and RDPMC; also when it has disabled the breakpoint.
fn breakpoints_of_the_guest(part: &'static Part) -> Result {
    /// G0: an instruction breakpoint at the address in DR0.
    const ENABLED: u32 = 0x402;
    const DISABLED: u32 = 0x400;
    /// Whoever has the processor may look at the debug registers only now and then.
    const EXITS: u32 = 300;
    /// #DB, without an error code.
    const FAULT_DB: u64 = 0x101;
    fn exits(g: &mut Guest) -> Result {
        g.mov(ecx, EXITS)?;
        let again = g.here()?;
        g.out(0x80, iced_x86::code_asm::al)?;
        g.dec(ecx)?;
        g.jnz(again)
    }
    fn look(g: &mut Guest, name: &str) -> Result {
        g.xor(ecx, ecx)?;
        g.probe(&format!("{name}: rdpmc"), |g| g.rdpmc())?;
        g.at_cpl3(EFLAGS_CLEAR, |g| g.nop())?;
        g.mov(eax, dr0)?;
        g.report_eax(&format!("{name}: dr0"))
    }
    let image = Guest::assemble(part, |g| {
        let mut place = g.create_label();
        g.address(eax, place)?;
        g.mov(dr0, eax)?;
        g.mov(eax, ENABLED)?;
        g.mov(dr7, eax)?;
        exits(g)?;
        look(g, "enabled")?;
        g.probe("breakpoint", |g| {
            g.place(&mut place)?;
            g.mark("place")?;
            g.nop()
        })?;
        g.mov(eax, DISABLED)?;
        g.mov(dr7, eax)?;
        exits(g)?;
        look(g, "disabled")
    })?;
    let place = image.symbol("place").expect("a mark");
    run(part, &image).expect(&[
        ("enabled: rdpmc", 0),
        ("enabled: dr0", place),
        ("breakpoint", FAULT_DB),
        ("disabled: rdpmc", 0),
        ("disabled: dr0", place),
    ]);
    Ok(())
}
