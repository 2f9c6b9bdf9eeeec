//! The boot ROM against direct boot: what the payload finds is the same; and the self-test against
//! registers that do not hold what it expects.

use super::*;
use crate::boot::elf::{Class, sample};
use crate::boot::memory::RamLayout;
use crate::boot::{Image, Kernel, LinuxEntry, Payload};
use crate::console::Captured;

use crate::platform::{Isa, Platform};

const HLT: u8 = 0xF4;
/// The handover block, as the README of the ROM has it.
const HANDOVER: u64 = 0xF_2000;
/// What is the ROM's own: its copy, the handover block, variables and stacks.
const OWN: std::ops::Range<usize> = 0xF_1000..0xF_4000;
const MEMORY: usize = 8 << 20;

fn machine(cpu: &str, isa: Isa, cpus: u8, boot: Boot, payload: &Payload) -> Machine {
    let ram = RamLayout::new(MEMORY as u64, None).unwrap();
    let config = Config::new(cpu, ram, payload.clone()).unwrap();
    Machine::new(&Config { isa, cpus, boot, ..config }).unwrap()
}

/// Runs until all processors are halted; what was on the console.
fn run(machine: &mut Machine) -> String {
    let captured = Captured::default();
    let limits = Limits { instructions: Some(50_000_000), timeout: None };
    assert_eq!(machine.run(limits, &mut captured.console()).unwrap(), End::Halted);
    captured.text()
}

fn flat(address: u64, code: &[u8]) -> Payload {
    Payload::Flat { image: Image { name: "flat".into(), bytes: code.to_vec() }, address }
}

fn kernel(bytes: Vec<u8>) -> Payload {
    Payload::Kernel(Kernel {
        image: Image { name: "kernel".into(), bytes },
        modules: Vec::new(),
        command_line: "word".into(),
        entry: LinuxEntry::Auto,
    })
}

/// A payload of each kind that halts at once. A bzImage starts as one of the ELF files does.
fn payloads() -> Vec<(&'static str, Payload)> {
    let at = 0x20_0000;
    // Xen's note XEN_ELFNOTE_PHYS32_ENTRY, 12h.
    let pvh = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\x00\x00\x20\x00";
    // Multiboot 0.6.96, section 3.1: magic, flags with bit 16, checksum; then header_addr,
    // load_addr, load_end_addr, bss_end_addr and entry_addr.
    let multiboot: Vec<u8> = [0x1BAD_B002, 1 << 16, 0xE451_4FFE, at, at, 0, 0, at + 32]
        .into_iter()
        .flat_map(|word| (word as u32).to_le_bytes())
        .chain([HLT])
        .collect();
    vec![
        ("real mode", flat(0x7C05, &[HLT])),
        ("protected mode", flat(0x10_0001, &[HLT])),
        ("multiboot", kernel(multiboot)),
        ("PVH", kernel(sample::elf(Class::Elf64, at, at, &[HLT], pvh))),
        ("64 bits", kernel(sample::elf(Class::Elf64, at, at, &[HLT], b""))),
    ]
}

/// All that the payload can see of a processor but the time, the interrupt command register, and the
/// type of CS in real mode, where it is a data segment after the first far jump (SDM volume 3,
/// "Switching Back to Real-Address Mode").
fn state(machine: &mut Machine, id: usize) -> Vec<(String, String)> {
    const LAPIC: [u32; 17] = [
        0x20, 0x30, 0x80, 0xA0, 0xD0, 0xE0, 0xF0, 0x100, 0x200, 0x310, 0x320, 0x350, 0x360, 0x370,
        0x380, 0x390, 0x3E0,
    ];
    let now = machine.now;
    let mut lapic = machine.board.chipset.irq.lapic_mut(id);
    let mut all: Vec<(String, String)> = LAPIC
        .map(|offset| (format!("lapic {offset:x}"), format!("{:x}", lapic.read(offset, now))))
        .into();
    let mut put = |name: &str, value: String| all.push((name.into(), value));
    let vcpu = &machine.vcpus[id];
    let cpu = &vcpu.cpu;
    for n in 0..16 {
        put(&format!("gpr {n}"), format!("{:x}", cpu.gpr(n)));
    }
    for n in 0..6 {
        let mut segment = *cpu.segment(n);
        if n == seg::CS && cpu.cr0() & 1 == 0 {
            segment.attributes &= !8;
        }
        put(&format!("segment {n}"), format!("{segment:x?}"));
    }
    put("rip, rflags", format!("{:x} {:x}", cpu.rip, cpu.rflags()));
    put("ldtr, tr", format!("{:x?} {:x?}", cpu.ldtr, cpu.tr));
    put("gdtr, idtr", format!("{:x?} {:x?}", cpu.gdtr, cpu.idtr));
    put("cr0, cr2", format!("{:x} {:x}", cpu.cr0(), cpu.cr2));
    put("cr3, cr4, efer", format!("{:x} {:x} {:x}", cpu.cr3(), cpu.cr4(), cpu.efer()));
    put("msrs", format!("{:x?}", cpu.msrs));
    put("bank", format!("{:x?}", vcpu.bank.changed().collect::<Vec<_>>()));
    put("fpu, simd", format!("{:?} {:?}", cpu.fpu, cpu.simd));
    put("halted, waits", format!("{} {}", cpu.halted, vcpu.waits_for_startup));
    all
}

/// All memory but the ROM's own; page tables without their accessed bits, which the ROM's last
/// instruction sets in one entry of each level.
fn memory(machine: &Machine) -> Vec<u8> {
    let mut bytes = vec![0; MEMORY];
    assert!(machine.memory.ram().read_bytes(0, &mut bytes));
    bytes[OWN].fill(0);
    for entry in bytes[0x9000..0xF000].chunks_exact_mut(8) {
        entry[0] &= !0x20;
    }
    bytes
}

#[test]
fn the_payload_finds_what_it_finds_after_direct_boot() {
    for platform in Platform::ALL {
        for (name, payload) in payloads() {
            let long = name == "64 bits" && !platform.features.long_mode;
            let isa = if long { Isa::Distro } else { Isa::Strict };
            let [mut direct, mut rom] = [Boot::Direct, Boot::Firmware]
                .map(|boot| machine(platform.name, isa, 2, boot, &payload));
            assert_eq!(run(&mut direct), "");
            let console = run(&mut rom);
            assert!(console.ends_with("POST: PASS\n"), "{} {name}: {console}", platform.name);
            for id in 0..2 {
                let (expected, found) = (state(&mut direct, id), state(&mut rom, id));
                for (expected, found) in expected.iter().zip(&found) {
                    assert_eq!(expected, found, "{} {name} processor {id}", platform.name);
                }
            }
            let (expected, found) = (memory(&direct), memory(&rom));
            let wrong = (0..MEMORY).find(|&at| expected[at] != found[at]);
            assert_eq!(wrong, None, "{} {name}: memory", platform.name);
        }
    }
}

/// Rows of the self-test are at the address in the third word of the handover block, 48 bytes each:
/// number, whether RDMSR raises #GP, value after power-up.
fn row(machine: &Machine, n: u64) -> u64 {
    u64::from(machine.memory.ram().read_u32(HANDOVER + 8).unwrap()) + 48 * n
}

/// The third row wants a bit that is not there, the fourth a #GP that does not come, the fifth is of a
/// register that is not there.
#[test]
fn the_self_test_fails_where_a_register_is_not_as_expected() {
    let payload = flat(0x7C00, &[0xB0, b'!', 0xBA, 0xF8, 0x03, 0xEE, HLT]); // OUT 3F8h, '!'
    let mut rom = machine("k8", Isa::Strict, 1, Boot::Firmware, &payload);
    let ram = rom.memory.ram();
    ram.write_u64(row(&rom, 2) + 8, 0x8000_0001_0000_0000);
    ram.write_u32(row(&rom, 3) + 4, 1);
    ram.write_u32(row(&rom, 4), 0xC001_00FF);
    let console = run(&mut rom);
    let expected = "\
vpmu firmware: k8, AMD Opteron 846 (revision E4), 2.0 GHz
PASS cpu 0 C0010000 PerfEvtSel0 0000000000000000
PASS cpu 0 C0010001 PerfEvtSel1 0000000000000000
FAIL cpu 0 C0010002 PerfEvtSel2 0000000000000000, expected 8000000100000000
FAIL cpu 0 C0010003 PerfEvtSel3 0000000000000000, expected #GP
FAIL cpu 0 C00100FF PerfCtr0 #GP, expected 0000000000000000
PASS cpu 0 C0010005 PerfCtr1 0000000000000000
PASS cpu 0 C0010006 PerfCtr2 0000000000000000
PASS cpu 0 C0010007 PerfCtr3 0000000000000000
POST: FAIL
!";
    assert_eq!(console, expected);
}

/// The second word of the handover block is the number of processors.
#[test]
fn a_processor_that_does_not_start_is_reported() {
    let mut rom = machine("p55c", Isa::Strict, 2, Boot::Firmware, &flat(0x7C00, &[HLT]));
    rom.memory.ram().write_u32(HANDOVER + 4, 3);
    let console = run(&mut rom);
    assert!(console.contains("PASS cpu 1 00000013 CTR1"), "{console}");
    assert!(console.ends_with("FAIL cpu 2 does not start\nPOST: FAIL\n"), "{console}");
}

/// Writes of every way to memory, then the first word of the ROM to EAX: CLI and LGDT CS:[...].
#[test]
fn the_rom_cannot_be_written() {
    let code = [
        &[0xC7, 0x05, 0x00, 0xF0, 0xFF, 0xFF, 1, 2, 3, 4][..], // mov dword [FFFFF000h],4030201h
        &[0xF0, 0xFF, 0x05, 0x00, 0xF0, 0xFF, 0xFF],           // lock inc dword [FFFFF000h]
        &[0xBF, 0x00, 0xF0, 0xFF, 0xFF],                       // mov edi,FFFFF000h
        &[0xB9, 0x10, 0x00, 0x00, 0x00, 0xF3, 0xAB],           // mov ecx,16; rep stosd
        &[0xA1, 0x00, 0xF0, 0xFF, 0xFF],                       // mov eax,[FFFFF000h]
        &[0xC7, 0x05, 0x00, 0xF0, 0xFF, 0xFF, 1, 2, 3, 4],     // again, now in the TLB
        &[0x8B, 0x1D, 0x00, 0xF0, 0xFF, 0xFF, HLT],            // mov ebx,[FFFFF000h]; hlt
    ]
    .concat();
    let mut rom = machine("k8", Isa::Strict, 1, Boot::Firmware, &flat(0x10_0000, &code));
    run(&mut rom);
    let cpu = &rom.vcpus[0].cpu;
    assert_eq!((cpu.gpr(0), cpu.gpr(3)), (0x010F_2EFA, 0x010F_2EFA));
}
