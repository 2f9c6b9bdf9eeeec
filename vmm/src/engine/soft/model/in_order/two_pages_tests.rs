//! An instruction that begins in one page and goes on in another is what its bytes say, wherever the second page is.

use x86_cpu::descriptor::Segment;
use x86_cpu::insn::seg;

use crate::boot::memory::RamLayout;
use crate::boot::{Image, Payload};
use crate::config::Config;
use crate::engine::soft::{Timing, Warm};
use crate::machine::Machine;
use crate::snapshot::tests::run;

const DIRECTORY: u64 = 0x1_0000;
const TABLE: u64 = 0x1_1000;
/// The second of the linear pages of the code.
const SECOND: u64 = 0x9000;
/// The linear address of the first instruction.
const BEGIN: u64 = SECOND - 16;
/// Fifteen NOP, and the first of four DS prefixes of ADD EAX, EBX, each of which takes a cycle to decode.
const BEFORE: [u8; 16] = [
    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x3E,
];
/// What is left of that; MOV EAX, 1; MOV EBX, 2; JMP to the first NOP.
const BEHIND: [u8; 20] = [
    0x3E, 0x3E, 0x3E, 0x01, 0xD8, 0xB8, 1, 0, 0, 0, 0xBB, 2, 0, 0, 0, 0xE9, 0xDC, 0xFF, 0xFF, 0xFF,
];
/// Instructions of a round.
const ROUND: u64 = 15 + 1 + 3;

/// Cycles of a round, the caches being warm, with the second page at a physical address.
fn cycles(cpu: &str, second: u64) -> u64 {
    let image = Image { name: "test".into(), bytes: vec![0xF4] };
    let payload = Payload::Flat { image, address: 0x1000 };
    let config = Config::new(cpu, RamLayout::new(4 << 20, None).unwrap(), payload).unwrap();
    let config = Config { timing: Timing::Model, warm: Warm::Always, ..config };
    let mut machine = Machine::new(&config).unwrap();
    let put = |address: u64, bytes: &[u8]| {
        assert!(machine.memory.ram().write_bytes(address, bytes));
    };
    let entry = |address: u64, value: u64| put(address, &(value as u32 | 3).to_le_bytes());
    entry(DIRECTORY, TABLE);
    for page in 0..1024 {
        entry(TABLE + 4 * page, page << 12);
    }
    entry(TABLE + 4 * (SECOND >> 12), second);
    // NOP, if it is taken to go on in the page that is behind.
    put(SECOND, &[0x90; 64]);
    put(BEGIN, &BEFORE);
    put(second, &BEHIND);

    let cpu = &mut machine.vcpus[0].cpu;
    // PE, NE, PG.
    cpu.set_control(0x8000_0021, DIRECTORY, 0, 0);
    let flat = |selector, attributes| Segment { selector, base: 0, limit: u32::MAX, attributes };
    cpu.set_segment(seg::CS, flat(8, 0xC09B));
    for n in [seg::SS, seg::DS, seg::ES] {
        cpu.set_segment(n, flat(16, 0xC093));
    }
    cpu.rip = BEGIN;
    let times = [8, 9].map(|rounds| {
        run(&mut machine, rounds * ROUND);
        machine.vcpus()[0].cpu.time
    });
    assert_eq!(machine.vcpus()[0].cpu.rip, BEGIN);
    times[1] - times[0]
}

#[test]
fn the_second_page_may_be_anywhere() {
    for cpu in ["p55c", "knc"] {
        let behind = cycles(cpu, SECOND);
        assert!(behind > ROUND / 2, "{cpu}: {behind}");
        assert_eq!(cycles(cpu, 0x2_0000), behind, "{cpu}");
    }
}
