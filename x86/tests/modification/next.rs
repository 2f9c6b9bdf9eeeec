//! What a cache says of the next instruction, when another than the processor has overwritten that.

use x86_cpu::block::Translations;
use x86_cpu::cpu::Cpu;
use x86_cpu::descriptor::Segment;
use x86_cpu::features::Features;
use x86_cpu::observe::{Cx, Plain};
use x86_cpu::operation::Operation;
use x86_cpu::timing::Budget;

use crate::lockstep::Device;
use crate::memory::Memory;

/// NOP and JMP to it, in real mode.
const CODE: u64 = 0x100;
const AGAIN: [u8; 3] = [0x90, 0xEB, 0xFD];
const RDPMC: [u8; 2] = [0x0F, 0x33];

#[test]
fn the_next_instruction_is_none_that_was_overwritten() {
    let memory = Memory::new(0x1_0000);
    assert!(memory.ram.write_bytes(CODE, &AGAIN));
    let mut cpu = Cpu::new(Features::K8);
    cpu.set_segment(1, Segment::real(0, true));
    cpu.rip = CODE;
    let (mut device, mut translations) = (Device::default(), Translations::<Plain>::new());
    let mut run = |cpu: &mut Cpu, translations: &mut Translations<Plain>, instructions| {
        let mut cx = Cx { bus: &mut device, ram: &memory.ram, observer: Plain };
        cpu.run(&mut cx, translations, Budget { instructions, ..Budget::until(u64::MAX) });
    };
    run(&mut cpu, &mut translations, 20);
    assert_eq!(cpu.rip, CODE);
    let next = translations.next_instruction(&cpu, &memory.ram);
    assert_eq!(next.map(|insn| insn.op), Some(Operation::Nop));
    // As DMA does, of which no run of the processor takes notice before.
    assert!(memory.ram.write_bytes(CODE, &RDPMC));
    let next = translations.next_instruction(&cpu, &memory.ram);
    assert_ne!(next.map(|insn| insn.op), Some(Operation::Nop));
}
