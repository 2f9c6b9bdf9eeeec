//! Interrupts while counters are switched on and off all the time. On KVM each of these windows moves
//! the processors to the software engine and back, and wherever the interrupt controllers are, nothing
//! may be lost or doubled on the way.

use guest_tests::guest::EOI;
use guest_tests::msr::OS;
use guest_tests::{Guest, Options, Part, Result, SCRATCH, run, run_with};
use iced_x86::code_asm::{al, dword_ptr, dx, eax, ebp, edi};
use vpmu::program::LAPIC;

topics!(
    a_one_shot_timer_expires_once,
    ticks_of_the_pit_are_acknowledged,
    interprocessor_interrupts_arrive,
    the_local_apic_keeps_its_registers,
);

const VECTOR: u8 = 0x51;
/// Local APIC registers (SDM Vol. 3A, "Local APIC Register Address Map").
const TPR: i32 = 0x80;
const LDR: i32 = 0xD0;
const ICR_LOW: i32 = 0x300;
const ICR_HIGH: i32 = 0x310;
const LVT_TIMER: i32 = 0x320;
const LVT_ERROR: i32 = 0x370;
const INITIAL_COUNT: i32 = 0x380;
const CURRENT_COUNT: i32 = 0x390;
const DIVIDE_CONFIGURATION: i32 = 0x3E0;
const DIVIDE_BY_1: u32 = 0xB;

/// Interrupts so far.
const TAKEN: u32 = SCRATCH;
const SENT: u32 = SCRATCH + 4;
const OVER: u32 = SCRATCH + 8;

/// A counter is enabled, and no longer.
fn window(g: &mut Guest) -> Result {
    g.start(0, g.part.instructions, OS, 0)?;
    g.nop()?;
    g.stop(0)
}

/// A handler of [`VECTOR`] that counts; `body` may change EAX and EDI.
fn handler(g: &mut Guest, vector: u8, body: impl FnOnce(&mut Guest) -> Result) -> Result {
    let mut over = g.create_label();
    g.jmp(over)?;
    let entry = g.here()?;
    g.gate(vector, entry, 0);
    g.push(eax)?;
    g.push(edi)?;
    g.inc(dword_ptr(TAKEN))?;
    body(g)?;
    g.pop(edi)?;
    g.pop(eax)?;
    g.iretd()?;
    g.place(&mut over)
}

/// One-shot mode (SDM Vol. 3A, "APIC Timer"): an interrupt for each write of the initial count. The
/// handler starts it again, each time for a little longer, until there have been 25. Behind the last
/// the timer stands still, whatever is moved.
fn a_one_shot_timer_expires_once(part: &'static Part) -> Result {
    const TICKS: u32 = 25;
    const COUNT: u32 = 20_000;
    let image = Guest::assemble(part, |g| {
        handler(g, VECTOR, |g| {
            let mut last = g.create_label();
            g.write_lapic(EOI, 0)?;
            g.mov(eax, dword_ptr(TAKEN))?;
            g.cmp(eax, TICKS as i32)?;
            g.jae(last)?;
            g.shl(eax, 6)?;
            g.add(eax, COUNT as i32)?;
            g.mov(edi, LAPIC)?;
            g.mov(dword_ptr(edi + INITIAL_COUNT), eax)?;
            g.place(&mut last)
        })?;
        g.write_lapic(DIVIDE_CONFIGURATION, DIVIDE_BY_1)?;
        g.write_lapic(LVT_TIMER, VECTOR.into())?;
        g.write_lapic(INITIAL_COUNT, COUNT)?;
        g.sti()?;
        let again = g.here()?;
        window(g)?;
        g.cmp(dword_ptr(TAKEN), TICKS as i32)?;
        g.jb(again)?;
        for _ in 0..5 {
            window(g)?;
        }
        g.mov(eax, dword_ptr(LAPIC + CURRENT_COUNT as u32))?;
        g.report_eax("current count")?;
        g.cli()?;
        g.report_word("ticks", TAKEN)
    })?;
    run(part, &image).expect(&[("ticks", TICKS.into()), ("current count", 0)]);
    Ok(())
}

/// 8254 channel 0 in mode 2, about 5 kHz, through the 8259A pair: each tick needs its EOI.
fn ticks_of_the_pit_are_acknowledged(part: &'static Part) -> Result {
    const TICKS: i32 = 12;
    const PIC_VECTOR: u8 = 0x60;
    let image = Guest::assemble(part, |g| {
        handler(g, PIC_VECTOR, |g| {
            g.mov(eax, 0x20)?;
            g.out(0x20, al)
        })?;
        // ICW1 to ICW4, IRQ0 alone; mode 2, 239 counts of 1.193182 MHz.
        for (port, value) in [
            (0x20, 0x11),
            (0x21, PIC_VECTOR.into()),
            (0x21, 4),
            (0x21, 1),
            (0x21, 0xFE),
            (0x43, 0x34),
            (0x40, 239),
            (0x40, 0),
        ] {
            g.mov(eax, value)?;
            g.out(port, al)?;
        }
        g.sti()?;
        let again = g.here()?;
        window(g)?;
        g.cmp(dword_ptr(TAKEN), TICKS)?;
        g.jb(again)?;
        g.cli()?;
        // IMR, and with OCW3 the ISR.
        g.in_(al, 0x21)?;
        g.movzx(eax, al)?;
        g.report_eax("imr")?;
        g.mov(eax, 0x0B)?;
        g.out(0x20, al)?;
        window(g)?;
        g.mov(dx, 0x20)?;
        g.in_(al, dx)?;
        g.movzx(eax, al)?;
        g.report_eax("isr")
    })?;
    run(part, &image).expect(&[("imr", 0xFE), ("isr", 0)]);
    Ok(())
}

/// Processor 0 sends 60 fixed interrupts, each when the one before has been taken by processor 1,
/// which counts all the time.
fn interprocessor_interrupts_arrive(part: &'static Part) -> Result {
    const MESSAGES: i32 = 60;
    const ASSERT: u32 = 1 << 14;
    let image = Guest::assemble(part, |g| {
        handler(g, VECTOR, |g| g.write_lapic(EOI, 0))?;
        g.on_every_processor(2, |g| {
            let (mut receiver, mut out) = (g.create_label(), g.create_label());
            // A local APIC that is not enabled yet accepts nothing.
            g.barrier()?;
            g.test(ebp, ebp)?;
            g.jnz(receiver)?;
            let next = g.here()?;
            g.inc(dword_ptr(SENT))?;
            g.write_lapic(ICR_HIGH, 1 << 24)?;
            g.write_lapic(ICR_LOW, ASSERT | u32::from(VECTOR))?;
            g.mov(eax, dword_ptr(SENT))?;
            let wait = g.here()?;
            g.cmp(dword_ptr(TAKEN), eax)?;
            g.jb(wait)?;
            g.cmp(eax, MESSAGES)?;
            g.jb(next)?;
            g.inc(dword_ptr(OVER))?;
            g.jmp(out)?;
            g.place(&mut receiver)?;
            g.sti()?;
            let again = g.here()?;
            window(g)?;
            g.cmp(dword_ptr(OVER), 0)?;
            g.je(again)?;
            g.cli()?;
            g.place(&mut out)?;
            g.nop()
        })?;
        g.report_word("sent", SENT)?;
        g.report_word("taken", TAKEN)
    })?;
    let outcome = run_with(part, &image, Options { cpus: 2, ..Options::default() });
    outcome.expect(&[("sent", MESSAGES as u64), ("taken", MESSAGES as u64)]);
    Ok(())
}

/// Registers written outside of a window are read in it, and the other way round.
fn the_local_apic_keeps_its_registers(part: &'static Part) -> Result {
    let registers = [(TPR, 0x35_u32), (LDR, 0x5A00_0000), (LVT_ERROR, 0x1_0044)];
    let image = Guest::assemble(part, |g| {
        let report = |g: &mut Guest, when: &str| {
            registers.iter().try_for_each(|(offset, _)| {
                g.mov(edi, LAPIC)?;
                g.mov(eax, dword_ptr(edi + *offset))?;
                g.report_eax(&format!("{when} {offset:x}"))
            })
        };
        registers.iter().try_for_each(|&(offset, value)| g.write_lapic(offset, value))?;
        g.start(0, part.instructions, OS, 0)?;
        report(g, "inside")?;
        for (offset, value) in registers {
            g.write_lapic(offset, value ^ 0x2000_0012)?;
        }
        g.stop(0)?;
        report(g, "outside")
    })?;
    let outcome = run(part, &image);
    // LDR has the high byte only; TPR the low one; an entry of the error interrupt neither.
    for ((offset, value), mask) in registers.into_iter().zip([0xFF_u32, 0xFF00_0000, 0x1_00FF]) {
        outcome.expect(&[
            (&format!("inside {offset:x}"), value.into()),
            (&format!("outside {offset:x}"), ((value ^ 0x2000_0012) & mask).into()),
        ]);
    }
    Ok(())
}
