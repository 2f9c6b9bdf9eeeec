//! Bare-metal guests whose counts and ends are known by hand.

use super::*;
use crate::boot::memory::RamLayout;
use crate::boot::{Image, Payload};

use pmu_model::RdpmcCaller;

// Real-mode code. 66h makes the operand 32 bits wide.
const HLT: &[u8] = &[0xFA, 0xF4]; // cli; hlt
const WRMSR: &[u8] = &[0x0F, 0x30];
const NOP: &[u8] = &[0x90];
const XOR_EDX: &[u8] = &[0x66, 0x31, 0xD2];

fn mov_eax(value: u32) -> Vec<u8> {
    [&[0x66, 0xB8][..], &value.to_le_bytes()].concat()
}

fn mov_ecx(value: u32) -> Vec<u8> {
    [&[0x66, 0xB9][..], &value.to_le_bytes()].concat()
}

fn run(code: &[&[u8]], limits: Limits) -> (Machine, End) {
    let image = Image { name: "test".into(), bytes: code.concat() };
    let ram = RamLayout::new(2 << 20, None).unwrap();
    let config = Config::new("k8", ram, Payload::Flat { image, address: 0x7C00 }).unwrap();
    let mut machine = Machine::new(&config).unwrap();
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    let end = machine.run(limits, &mut console).unwrap();
    (machine, end)
}

fn counter(machine: &Machine, index: u32) -> u64 {
    machine.vcpus()[0].pmu.rdpmc(index, RdpmcCaller::default()).unwrap()
}

// PerfEvtSel (BKDG 26094, section 10.2): EN bit 22, OS bit 17, USR bit 16, event C0h.
const SELECT_0: u32 = 0xC001_0000;
const SELECT_1: u32 = 0xC001_0001;
const RETIRED: u32 = 0x0043_00C0;

/// The WRMSR that sets EN is not counted, the one that clears it is: five NOP, MOV, WRMSR.
#[test]
fn an_instruction_is_counted_by_the_configuration_it_began_under() {
    let (on, off, select) = (mov_eax(RETIRED), mov_eax(0), mov_ecx(SELECT_0));
    let code = [&select, XOR_EDX, &on, WRMSR, NOP, NOP, NOP, NOP, NOP, &off, WRMSR, NOP, HLT];
    let (machine, end) = run(&code, Limits::default());
    assert_eq!((end, counter(&machine, 0)), (End::Halted, 7));
    // MOV, XOR, MOV, WRMSR, five NOP, MOV, WRMSR, NOP, CLI, HLT.
    assert_eq!(machine.retired(), 14);
}

/// Also between counters: enabling one while another counts.
#[test]
fn a_second_counter_follows_the_same_rule_while_the_first_counts() {
    let (on, off) = (mov_eax(RETIRED), mov_eax(0));
    let (first, second) = (mov_ecx(SELECT_0), mov_ecx(SELECT_1));
    let code = [
        &first[..],
        XOR_EDX,
        &on,
        WRMSR,
        &second,
        WRMSR,
        NOP,
        &off,
        &first,
        WRMSR,
        &second,
        WRMSR,
        HLT,
    ];
    let (machine, _) = run(&code, Limits::default());
    // Between the two of counter 0: MOV, WRMSR, NOP, MOV, MOV, WRMSR; of counter 1: NOP, MOV,
    // MOV, WRMSR, MOV, WRMSR.
    assert_eq!((counter(&machine, 0), counter(&machine, 1)), (6, 6));
}

/// C2h counts branches: none of those before it was enabled, though another counter had what was executed watched
/// meanwhile, and nothing ended that. EB 00: JMP to the next instruction.
#[test]
fn what_happened_before_a_counter_was_enabled_is_not_counted() {
    const JMP: &[u8] = &[0xEB, 0x00];
    let (first, second) = (mov_ecx(SELECT_0), mov_ecx(SELECT_1));
    let (retired, branches) = (mov_eax(RETIRED), mov_eax(0x0043_00C2));
    let code =
        [&first[..], XOR_EDX, &retired, WRMSR, JMP, JMP, &branches, &second, WRMSR, JMP, HLT];
    let (machine, _) = run(&code, Limits::default());
    assert_eq!(counter(&machine, 1), 1);
}

/// 76h counts cycles not halted: none of the time after HLT, and each instruction is one.
#[test]
fn the_clock_of_the_counters_stops_in_halt() {
    let code = [&mov_ecx(SELECT_0)[..], XOR_EDX, &mov_eax(0x0043_0076), WRMSR, NOP, NOP, HLT];
    let (machine, end) = run(&code, Limits::default());
    // NOP, NOP, CLI, HLT.
    assert_eq!((end, counter(&machine, 0)), (End::Halted, 4));
    assert!(machine.vcpus()[0].halted_cycles > 0);
}

#[test]
fn the_limit_of_instructions_is_exact() {
    let limits = Limits { instructions: Some(123_457), timeout: None };
    // JMP to itself.
    let (machine, end) = run(&[&[0xEB, 0xFE]], limits);
    assert_eq!((end, machine.retired()), (End::Instructions, 123_457));
}

/// OUT F4h, AL with AL = 21: status 2 * 21 + 1.
#[test]
fn the_debug_exit_port_gives_the_status() {
    let (_, end) = run(&[&[0xB0, 21, 0xE6, 0xF4]], Limits::default());
    assert_eq!((end, end.status()), (End::Exit(43), 43));
}

/// A local APIC timer with a period of 2^39 ticks of the bus clock, which is 200 MHz, and an
/// interrupt that the task priority masks: the processor stays halted and virtual time passes. The
/// run ends after 2^63 cycles, and at the lowest clock, which is slower than the bus, after 2^63
/// ticks.
#[test]
fn virtual_time_has_an_end() {
    const APIC: u32 = 0xFEE0_0000;
    let registers = [
        (0x0F0, 0x1FF),       // spurious-interrupt vector: enabled
        (0x080, 0xF0),        // task priority
        (0x320, 0x2_0030),    // LVT timer: periodic, vector 30h
        (0x3E0, 0b1010),      // divide by 128
        (0x380, 0xFFFF_FFFF), // initial count
    ];
    let mut code: Vec<u8> = registers
        .iter()
        .flat_map(|(register, value): &(u32, u32)| {
            let operands = [(APIC + register).to_le_bytes(), value.to_le_bytes()];
            [&[0xC7, 0x05][..], &operands.concat()].concat()
        })
        .collect();
    // STI; HLT; JMP to HLT.
    code.extend([0xFB, 0xF4, 0xEB, 0xFD]);
    const HALF: u64 = 1 << 63;
    for (clock_hz, start, last) in [
        (1_000_000_000_000, 0, HALF),
        (2_000_000_000, HALF - (1 << 50), HALF),
        (1_000_000, HALF / 200 - (1 << 40), HALF.div_ceil(200)),
    ] {
        let image = Image { name: "test".into(), bytes: code.clone() };
        let ram = RamLayout::new(2 << 20, None).unwrap();
        let payload = Payload::Flat { image, address: 0x10_0000 };
        let config = Config { clock_hz, ..Config::new("k8", ram, payload).unwrap() };
        assert_eq!(config.platform.apic_timer_hz, 200_000_000);
        let mut machine = Machine::new(&config).unwrap();
        let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
        machine.now = start;
        machine.vcpus[0].cpu.pass(start);
        let end = machine.run(Limits::default(), &mut console).unwrap();
        assert_eq!((end, end.status()), (End::EndOfTime, 116), "{clock_hz}");
        assert_eq!(machine.time(), last, "{clock_hz}");
    }
}

/// LIDT with a limit of zero from an all-zero operand, then INT3.
#[test]
fn a_triple_fault_is_reported() {
    let (_, end) = run(&[&[0x0F, 0x01, 0x1E, 0x00, 0x7D, 0xCC]], Limits::default());
    assert_eq!((end, end.status()), (End::TripleFault(0), 126));
}
