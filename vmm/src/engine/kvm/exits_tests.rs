//! Exits made by hand, on a machine without a host's KVM: what the guest is answered, and what is left to do.

use kvm_bindings::kvm_debug_exit_arch;

use super::*;
use crate::boot::memory::RamLayout;
use crate::boot::{Image, Payload};
use crate::config::Config;
use crate::machine::End;

/// Two processors of a K8 that have executed nothing.
fn machine() -> Machine {
    let image = Image { name: "test".into(), bytes: vec![0xF4] };
    let ram = RamLayout::new(2 << 20, None).unwrap();
    let config = Config::new("k8", ram, Payload::Flat { image, address: 0x7C00 }).unwrap();
    Machine::new(&Config { cpus: 2, ..config }).unwrap()
}

/// What comes of an exit of a processor, with what is to be traced.
fn exit(machine: &mut Machine, id: usize, now: u64, exit: Exit<'_>) -> (Performed, Noted) {
    let mut noted = Noted::default();
    let performed = perform(exit, machine, id, now, &mut noted);
    (performed, noted)
}

const GO_ON: Performed = Performed { next: Next::GoOn, unfinished: false };
/// KVM completes accesses to ports and devices when it runs next.
const UNFINISHED: Performed = Performed { next: Next::GoOn, unfinished: true };

fn input(machine: &mut Machine, port: u16, size: u8, data: &mut [u8]) {
    let (performed, _) = exit(machine, 0, 0, Exit::Io { port, size, input: true, data });
    assert_eq!(performed, UNFINISHED);
}

fn output(machine: &mut Machine, port: u16, size: u8, data: &mut [u8]) {
    let (performed, _) = exit(machine, 0, 0, Exit::Io { port, size, input: false, data });
    assert_eq!(performed, UNFINISHED);
}

fn load(machine: &mut Machine, id: usize, gpa: u64) -> u32 {
    let mut data = [0; 4];
    let (performed, _) = exit(machine, id, 0, Exit::Mmio { gpa, write: false, data: &mut data });
    assert_eq!(performed, UNFINISHED);
    u32::from_le_bytes(data)
}

fn store(machine: &mut Machine, id: usize, gpa: u64, value: u32) {
    let mut data = value.to_le_bytes();
    let (performed, _) = exit(machine, id, 0, Exit::Mmio { gpa, write: true, data: &mut data });
    assert_eq!(performed, UNFINISHED);
}

/// What RDMSR reads; `None` for #GP(0).
fn rdmsr(machine: &mut Machine, id: usize, now: u64, index: u32) -> Option<u64> {
    let (mut value, mut refused) = (0, 0);
    let asked = Exit::Rdmsr { index, value: &mut value, refused: &mut refused };
    assert_eq!(exit(machine, id, now, asked).0, GO_ON);
    (refused == 0).then_some(value)
}

/// Whether WRMSR is executed.
fn wrmsr(machine: &mut Machine, id: usize, now: u64, index: u32, value: u64) -> bool {
    let mut refused = 0;
    let asked = Exit::Wrmsr { index, value, refused: &mut refused };
    assert_eq!(exit(machine, id, now, asked).0, GO_ON);
    refused == 0
}

/// REP OUTSB of two operands to the transmitter of COM1, then its line status register: holding register and
/// transmitter are empty, bits 5 and 6 (PC16550D, "Line Status Register").
#[test]
fn each_operand_of_a_string_reaches_the_port() {
    let mut machine = machine();
    output(&mut machine, 0x3F8, 1, &mut b"hi".to_owned());
    assert_eq!(machine.board.chipset.serial.take_output(), b"hi");
    let mut status = [0; 3];
    input(&mut machine, 0x3FD, 1, &mut status);
    assert_eq!(status, [0x60; 3]);
}

/// A bus that nobody drives reads as ones.
#[test]
fn what_nobody_has_reads_as_ones() {
    let mut machine = machine();
    for size in [1, 2, 4] {
        let mut data = [0; 4];
        input(&mut machine, 0x1234, size, &mut data[..usize::from(size)]);
        assert_eq!(data[..usize::from(size)], [0xFF; 4][..usize::from(size)]);
        assert_eq!(data[usize::from(size)..], [0; 4][usize::from(size)..]);
    }
    assert_eq!(load(&mut machine, 0, 0xD000_0000), !0);
    store(&mut machine, 0, 0xD000_0000, 0);
}

/// Port F4h: status 2 * 21 + 1.
#[test]
fn a_port_that_ends_the_run_has_the_machine_say_so() {
    let mut machine = machine();
    output(&mut machine, 0xF4, 1, &mut [21]);
    assert_eq!(machine.take_event(), Some(End::Exit(43)));
    assert_eq!(machine.take_event(), None);
}

/// Each processor finds its own local APIC at FEE0_0000h: the identifier at 20h, bits 31:24, the task priority at
/// 80h, LVTPC at 340h, which is masked at reset (AMD 24593, 16.3.3 and 16.4).
#[test]
fn a_processor_reaches_its_own_local_apic() {
    const BASE: u64 = 0xFEE0_0000;
    let mut machine = machine();
    assert_eq!(load(&mut machine, 0, BASE + 0x20), 0);
    assert_eq!(load(&mut machine, 1, BASE + 0x20), 1 << 24);
    store(&mut machine, 1, BASE + 0x80, 0x50);
    assert_eq!((load(&mut machine, 0, BASE + 0x80), load(&mut machine, 1, BASE + 0x80)), (0, 0x50));
    assert_eq!(load(&mut machine, 1, BASE + 0x340), 0x1_0000);
    // The entry stays masked until SVR, at F0h, enables the local APIC by bit 8. Delivery mode 100b is NMI.
    store(&mut machine, 1, BASE + 0xF0, 0x1FF);
    store(&mut machine, 1, BASE + 0x340, 0x400);
    assert_eq!(load(&mut machine, 1, BASE + 0x340), 0x400);
}

/// PerfEvtSel0 with EN (bit 22) of retired instructions (AMD 26094, section 10.2): the guest has to be counted.
#[test]
fn a_counter_that_is_enabled_is_to_be_counted() {
    let mut machine = machine();
    assert!(!machine.is_counting());
    assert!(wrmsr(&mut machine, 1, 0, 0xC001_0000, 0x43_00C0));
    assert!(machine.is_counting());
    assert_eq!(rdmsr(&mut machine, 1, 0, 0xC001_0000), Some(0x43_00C0));
    assert_eq!(rdmsr(&mut machine, 0, 0, 0xC001_0000), Some(0), "each has its own");
    assert_eq!(rdmsr(&mut machine, 1, 0, 0xC001_0004), Some(0));
}

/// The time-stamp counter is as far ahead of time as it was written; IA32_APIC_BASE has the enable bit, 11, and on the
/// bootstrap processor bit 8.
#[test]
fn registers_beside_the_pmu_are_the_machines() {
    let mut machine = machine();
    assert_eq!(rdmsr(&mut machine, 0, 12_345, 0x10), Some(12_345));
    assert!(wrmsr(&mut machine, 0, 20_000, 0x10, 100));
    assert_eq!(rdmsr(&mut machine, 0, 20_500, 0x10), Some(600));
    assert_eq!(rdmsr(&mut machine, 0, 0, 0x1B), Some(0xFEE0_0900));
    assert_eq!(rdmsr(&mut machine, 1, 0, 0x1B), Some(0xFEE0_0800));
}

#[test]
fn a_register_that_nobody_has_is_refused_and_remembered() {
    let mut machine = machine();
    let (mut value, mut refused) = (7, 0);
    let asked = Exit::Rdmsr { index: 0xDEAD, value: &mut value, refused: &mut refused };
    let (performed, noted) = exit(&mut machine, 0, 0, asked);
    assert_eq!((performed, value, refused), (GO_ON, 7, 1));
    let msr = noted.msr.unwrap();
    assert_eq!((msr.index, msr.written), (0xDEAD, None));
    assert!(matches!(msr.outcome, Err(Access::Refused)));
    assert!(!wrmsr(&mut machine, 1, 0, 0xDEAD, 1));
}

/// What needs a passcode in EDI, which KVM does not tell, is raised as #GP, to be executed in software behind it.
#[test]
fn a_register_with_a_passcode_is_left_to_the_software_cpu() {
    let mut machine = machine();
    let index = (0xC001_1000..0xC001_1100)
        .find(|&index| machine.vcpus[0].bank.passcode(index).is_some())
        .expect("K8 has one");
    let mut refused = 0;
    let asked = Exit::Wrmsr { index, value: 0, refused: &mut refused };
    let (performed, _) = exit(&mut machine, 0, 0, asked);
    assert_eq!((performed, refused), (Performed { next: Next::Emulate, unfinished: true }, 1));
}

#[test]
fn what_is_no_access_is_left_to_the_thread() {
    let mut machine = machine();
    let stopped = kvm_debug_exit_arch { dr6: 0xFFFF_0FF1, ..Default::default() };
    for (asked, next) in [
        (Exit::Halt, Next::Halted),
        (Exit::Shutdown, Next::Shutdown),
        (Exit::EmulationFailure, Next::Emulate),
        (Exit::Debug(stopped), Next::Stopped(0xFFFF_0FF1)),
        (Exit::Nothing, Next::GoOn),
    ] {
        let (performed, noted) = exit(&mut machine, 0, 0, asked);
        assert_eq!(performed, Performed { next, unfinished: false });
        assert!(noted.msr.is_none() && noted.lapic.is_none());
    }
    assert!(Next::Shutdown.is_failure() && Next::Emulate.is_failure());
    assert!(!Next::Halted.is_failure() && !Next::Stopped(0).is_failure());
}
