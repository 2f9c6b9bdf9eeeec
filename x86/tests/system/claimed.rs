//! A device that is moved over RAM: a local APIC, by IA32_APIC_BASE (APM volume 2, section 16.3.1;
//! Intel SDM volume 3, "Relocating the Local APIC Registers").

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::{CODE, Machine, RCX, RSI};

/// Where the device is moved to, and back from.
const PAGE: u64 = 0x5_0000;
/// IA32_APIC_BASE.
const BASE: u32 = 0x1b;
/// Its enable bit.
const ENABLE: u32 = 0x800;

/// Moves the device to `page`, or away.
fn move_to(a: &mut CodeAssembler, page: Option<u64>) {
    a.mov(ecx, BASE).unwrap();
    a.mov(eax, page.map_or(0, |page| page as u32 | ENABLE)).unwrap();
    a.xor(edx, edx).unwrap();
    a.wrmsr().unwrap();
}

/// A machine whose RAM holds 11h in that page, and whose device reads as 22h there.
fn machine() -> Machine {
    let mut machine = Machine::long();
    machine.write(PAGE, &[0x11; 0x1000]);
    machine.ports.device = vec![0x22; 0x1000];
    machine
}

/// A load and a store each by what has a way of its own to memory, before the move, after it, and
/// after the way back: the translations of the page are known each time.
#[test]
fn loads_and_stores_go_to_the_device_and_not_to_ram() {
    let mut machine = machine();
    machine.load(CODE, 64, |a| {
        let (mut access, mut over) = (a.create_label(), a.create_label());
        a.mov(rbx, PAGE).unwrap();
        a.mov(r15, PAGE + 0x2000).unwrap();
        a.jmp(over).unwrap();
        a.set_label(&mut access).unwrap();
        // A plain load, a plain store, one that is both, a string instruction each way, a push.
        a.mov(eax, dword_ptr(rbx)).unwrap();
        a.mov(dword_ptr(r15), eax).unwrap();
        a.mov(word_ptr(rbx + 0x10), 0x3333).unwrap();
        a.add(byte_ptr(rbx + 0x20), 1).unwrap();
        a.lea(rsi, ptr(rbx + 0x30)).unwrap();
        a.lea(rdi, ptr(r15 + 8)).unwrap();
        a.mov(ecx, 3).unwrap();
        a.rep().movsb().unwrap();
        a.lea(rdi, ptr(rbx + 0x40)).unwrap();
        a.mov(ecx, 2).unwrap();
        a.rep().stosd().unwrap();
        a.mov(r14, rsp).unwrap();
        a.lea(rsp, ptr(rbx + 0x58)).unwrap();
        a.push(5).unwrap();
        a.mov(rsp, r14).unwrap();
        // Across the end of the page: RAM is behind it.
        a.mov(eax, dword_ptr(rbx + 0xffe)).unwrap();
        a.mov(dword_ptr(r15 + 16), eax).unwrap();
        a.mov(dword_ptr(rbx + 0xffe), 0x4444_4444).unwrap();
        a.add(r15, 0x20).unwrap();
        a.ret().unwrap();
        a.set_label(&mut over).unwrap();
        a.call(access).unwrap();
        move_to(a, Some(PAGE));
        a.call(access).unwrap();
        move_to(a, None);
        a.call(access).unwrap();
        a.hlt().unwrap();
    });
    machine.run();
    let seen: Vec<_> = (0..3)
        .map(|turn| PAGE + 0x2000 + 0x20 * turn)
        .map(|at| [machine.read_u32(at), machine.read_u32(at + 8), machine.read_u32(at + 16)])
        .collect();
    let ram_again = [0x1111_1111, 0x11_1111, 0x4444_4444];
    let device = [0x2222_2222, 0x22_2222, 0x4444_2222];
    assert_eq!(seen, [[0x1111_1111, 0x11_1111, 0x1111], device, ram_again]);
    let stored_word = 0x2222_2222;
    let stored = [
        (0x10, 2, 0x3333),
        (0x20, 1, 0x23),
        (0x40, 4, stored_word),
        (0x44, 4, stored_word),
        (0x50, 8, 5),
        (0xffe, 1, 0x44),
        (0xfff, 1, 0x44),
    ];
    assert_eq!(machine.ports.stored, stored);
    // ADD went to RAM before and after, not while the device was there.
    assert_eq!(machine.read_u32(PAGE + 0x20), 0x1111_1113);
}

/// Code in the page: the device's bytes are executed while it is there, whether or not the processor
/// knows the RAM's, and the RAM's again when it has gone.
#[test]
fn instructions_are_fetched_from_the_device() {
    let mut machine = machine();
    // MOV AL, 1; RET and MOV AL, 2; RET.
    machine.write(PAGE + 0x80, &[0xb0, 1, 0xc3]);
    machine.ports.device[0x80..0x83].copy_from_slice(&[0xb0, 2, 0xc3]);
    machine.load(CODE, 64, |a| {
        let mut called = 0;
        let mut call = |a: &mut CodeAssembler| {
            a.mov(rbx, PAGE + 0x80).unwrap();
            a.call(rbx).unwrap();
            a.mov(byte_ptr(PAGE + 0x2000 + called), al).unwrap();
            called += 1;
        };
        call(a);
        move_to(a, Some(PAGE));
        call(a);
        call(a);
        move_to(a, None);
        call(a);
        move_to(a, Some(PAGE));
        call(a);
        a.hlt().unwrap();
    });
    machine.run();
    assert_eq!(machine.read_u64(PAGE + 0x2000), 0x02_01_02_02_01);
}

/// The page that the WRMSR itself is in: what comes next is the device's.
#[test]
fn the_running_code_may_be_hidden() {
    let mut machine = machine();
    machine.ports.device = vec![0xf4; 0x1000];
    machine.load(PAGE, 64, |a| {
        a.mov(esi, 1).unwrap();
        move_to(a, Some(PAGE));
        a.mov(esi, 2).unwrap();
        a.hlt().unwrap();
    });
    machine.run();
    assert_eq!((machine.cpu.gpr(RCX), machine.cpu.gpr(RSI)), (u64::from(BASE), 1));
}

/// The device is told the time at which the instruction that reaches it begins, wherever in a row of
/// instructions that is; each access is made once and counted once.
#[test]
fn the_device_is_told_the_time_of_the_instruction() {
    let mut machine = machine();
    machine.load(CODE, 64, |a| {
        move_to(a, Some(PAGE));
        a.mov(rbx, PAGE).unwrap(); // 0
        a.mov(eax, dword_ptr(rbx)).unwrap(); // 1
        a.nop().unwrap(); // 2
        a.mov(dword_ptr(rbx + 8), eax).unwrap(); // 3
        a.mov(r15, PAGE + 0x2000).unwrap(); // 4
        a.add(dword_ptr(rbx + 16), 1).unwrap(); // 5: a read and a write
        a.mov(eax, dword_ptr(r15)).unwrap(); // 6: RAM
        a.lea(rsi, ptr(rbx + 32)).unwrap(); // 7
        a.lea(rdi, ptr(rbx + 64)).unwrap(); // 8
        a.movsd().unwrap(); // 9: a read and a write
        a.push(qword_ptr(rbx + 48)).unwrap(); // 10: a read, the stack is RAM
        a.mov(ecx, 2).unwrap(); // 11
        a.rep().stosd().unwrap(); // 12 and, the second element, 13
        a.mov(dword_ptr(rbx), eax).unwrap(); // 14
        a.hlt().unwrap();
    });
    // WRMSR is the fourth.
    let start = machine.cpu.time + 4;
    let before = machine.facts;
    assert_eq!(machine.run(), Exit::Halt);
    let seen: Vec<u64> = machine.ports.accessed_at.iter().map(|at| at - start).collect();
    assert_eq!(seen, [1, 3, 5, 5, 9, 9, 10, 12, 13, 14]);
    // Loads: 1, 5, 6, 9, 10. Stores: 3, 5, 9, 10, two of 12, 14.
    let (loads, stores) =
        (machine.facts.loads - before.loads, machine.facts.stores - before.stores);
    assert_eq!((loads, stores), (5, 7));
}

/// A watched address is read and the device written by one instruction: one match, one access each.
#[test]
fn a_watched_address_on_the_way_to_the_device_matches_once() {
    let mut machine = machine();
    machine.load(CODE, 64, |a| {
        move_to(a, Some(PAGE));
        a.mov(rsi, PAGE + 0x2000).unwrap(); // 0
        a.mov(dr0, rsi).unwrap(); // 1
        // L0 is clear. R/W0: data reads and writes; LEN0: four bytes.
        a.mov(eax, 0xf << 16).unwrap(); // 2
        a.mov(dr7, rax).unwrap(); // 3
        a.mov(rdi, PAGE).unwrap(); // 4
        a.nop().unwrap(); // 5
        a.movsd().unwrap(); // 6
        a.hlt().unwrap();
    });
    machine.cpu.watch_disabled_breakpoints(true);
    let start = machine.cpu.time + 4;
    assert_eq!(machine.run(), Exit::Halt);
    assert_eq!(machine.ports.accessed_at, [start + 6]);
    assert_eq!(machine.facts.debug_matches, [1, 0, 0, 0]);
    assert_eq!((machine.facts.loads, machine.facts.stores), (1, 1));
}
