//! Code that changes where a random program rarely gets to (`tests/modification` has those).

use iced_x86::code_asm::{dword_ptr, eax, ebx, ecx, edx, esi};
use x86_cpu::block::Translated;
use x86_cpu::run::Exit;

use crate::machine::*;

/// A page that no other test code is in.
const PAGE: u64 = 0x4_0000;
/// Guest-physical addresses from here on are a device's: its bytes are those of [`Ports::code`].
const DEVICE: u64 = 0x20_0000;

/// JMP rel32, the displacement of which is in the second page: `jmp +n`, from the last byte of
/// [`PAGE`].
fn jump_across(machine: &Machine, displacement: u32) {
    machine.write(PAGE + 0xfff, &[0xe9]);
    machine.write_u32(PAGE + 0x1000, displacement);
}

/// A block whose instruction crosses into a page without code of its own is dropped when its bytes
/// there are overwritten.
#[test]
fn a_crossing_instruction_sees_its_second_half_change() {
    let mut machine = Machine::protected();
    let to = |at: u64| (at - (PAGE + 0x1004)) as u32;
    jump_across(&machine, to(PAGE + 0x3000));
    // MOV EAX, n; HLT
    machine.write(PAGE + 0x3000, &[0xb8, 1, 0, 0, 0, 0xf4]);
    machine.write(PAGE + 0x4000, &[0xb8, 2, 0, 0, 0, 0xf4]);
    machine.cpu.rip = PAGE + 0xfff;
    assert_eq!((machine.run(), machine.cpu.gpr(RAX)), (Exit::Halt, 1));
    machine.load(CODE, 32, |a| {
        a.mov(dword_ptr(PAGE + 0x1000), to(PAGE + 0x4000)).unwrap();
        a.jmp(PAGE + 0xfff).unwrap();
    });
    assert_eq!((machine.run(), machine.cpu.gpr(RAX)), (Exit::Halt, 2));
}

/// What is fetched from a device is fetched each time, be it a whole instruction or the half of one
/// that begins in RAM: there is no notice when a device's bytes change.
#[test]
fn code_in_a_device_is_fetched_each_time() {
    let mut machine = Machine::protected();
    // The RAM of this machine ends where the device begins.
    for at in [DEVICE, DEVICE - 1] {
        machine.write(DEVICE - 1, &[0xb8]);
        for value in [3, 4] {
            // MOV EAX, value; HLT, beginning at `at`.
            let whole = [0xb8, value, 0, 0, 0, 0xf4];
            machine.ports.code = whole[(DEVICE - at) as usize..].to_vec();
            machine.cpu.rip = at;
            let left = (machine.run(), machine.cpu.gpr(RAX));
            assert_eq!(left, (Exit::Halt, u64::from(value)), "{at:x}");
        }
    }
}

/// The frame of an interrupt or an exception is a write like any other, though the stack was written before and nothing
/// has been executed since somebody asked who had written what.
#[test]
fn a_frame_that_comes_first_is_noticed() {
    type Deliver = fn(&mut Machine);
    let ways: [Deliver; 3] = [|m| m.interrupt(0x40), Machine::nmi, |m| m.exception(6, None)];
    for deliver in ways {
        let mut machine = Machine::protected();
        machine.load(CODE, 32, |a| {
            for _ in 0..2 {
                a.push(eax).unwrap();
                a.pop(eax).unwrap();
            }
            a.hlt().unwrap();
        });
        assert_eq!(machine.run(), Exit::Halt);
        let stack = (machine.cpu.gpr(RSP) - 1) & !0xfff;
        assert!(machine.memory.ram.take_written().contains(&stack));
        assert!(!machine.memory.ram.is_written(stack));
        deliver(&mut machine);
        assert!(machine.memory.ram.is_written(stack));
    }
}

/// A program that leaves no page alone costs no more than its budget: here each byte of a sled of
/// NOPs is jumped to.
#[test]
fn translated_code_stays_within_its_budget() {
    const BUDGET: usize = 1 << 20;
    let mut machine = Machine::protected().with_budget(BUDGET);
    machine.write(PAGE, &[0x90; 0x1000]);
    machine.write(PAGE + 0x1000, &[0xc3]);
    machine.load(CODE, 32, |a| {
        let mut again = a.create_label();
        a.mov(ebx, PAGE as u32).unwrap();
        a.set_label(&mut again).unwrap();
        a.call(ebx).unwrap();
        a.inc(ebx).unwrap();
        a.cmp(ebx, (PAGE + 0x1000) as i32).unwrap();
        a.jb(again).unwrap();
        a.hlt().unwrap();
    });
    let mut most = 0;
    loop {
        let until = machine.cpu.time + 10_000;
        let exit = machine.run_until(until);
        most = most.max(machine.translated());
        if exit == Exit::Halt {
            break;
        }
    }
    // 4,096 blocks of up to 48 instructions would be 10 MiB and more.
    assert!(most <= BUDGET, "{most}");
    assert!(most > BUDGET / 2, "{most}");
    // CALL, INC, CMP, JB and RET for each of 1000h entries; n NOPs of each; MOV and HLT.
    let nops: u64 = (1..=0x1000).sum();
    assert_eq!(machine.cpu.retired(), 2 + 5 * 0x1000 + nops);
}

/// A reader of the record of overwritten pages that is too far behind drops everything: a block
/// survives nothing that happened meanwhile. More than 64 pages are overwritten under another
/// observer.
///
/// The blocks: XOR with the first CALL, 99 CALL, HLT and a function in each page.
#[test]
fn the_other_tier_catches_up_with_many_overwritten_pages() {
    let mut machine = Machine::protected();
    const PAGES: u64 = 100;
    let place = |n: u64| PAGE + n * 0x1000;
    // CALL of each page in turn, each with MOV AL, n; RET.
    let calls = |machine: &mut Machine, value: u8| {
        for n in 0..PAGES {
            machine.write(place(n), &[0x80, 0xc0, value, 0xc3]);
        }
        machine.load(CODE, 32, |a| {
            a.xor(eax, eax).unwrap();
            for n in 0..PAGES {
                a.call(place(n)).unwrap();
            }
            a.hlt().unwrap();
        });
    };
    calls(&mut machine, 1);
    assert_eq!((machine.run(), machine.cpu.gpr(RAX)), (Exit::Halt, 100));
    calls(&mut machine, 2);
    assert_eq!((machine.run_plain(), machine.cpu.gpr(RAX)), (Exit::Halt, 200));
    let blocks = 1 + 99 + 1 + PAGES;
    assert_eq!(machine.translations(), [Translated { blocks, overwritten: 0 }; 2]);
    calls(&mut machine, 3);
    let expected = 3 * PAGES % 256;
    assert_eq!((machine.run(), machine.cpu.gpr(RAX)), (Exit::Halt, expected));
    let again = Translated { blocks: 2 * blocks, overwritten: blocks };
    assert_eq!(machine.translations()[0], again);
    calls(&mut machine, 1);
    assert_eq!((machine.run_plain(), machine.cpu.gpr(RAX)), (Exit::Halt, 100));
}

/// A load of CR3 drops the translations of pages that are not global: an instruction that begins in
/// a global page and ends in one that is not is another one after it.
#[test]
fn a_crossing_instruction_is_as_global_as_the_less_global_page() {
    const DIRECTORY: u64 = 0x6_0000;
    const TABLE: u64 = 0x6_1000;
    const PG: u64 = 1 << 31;
    const PGE: u64 = 1 << 7;
    const GLOBAL: u32 = 1 << 8;
    let mut machine = Machine::protected();
    machine.write_u32(DIRECTORY, TABLE as u32 | 3);
    for page in 0..0x200 {
        machine.write_u32(TABLE + 4 * u64::from(page), page << 12 | 3);
    }
    let entry = |at: u64| TABLE + 4 * (at >> 12);
    machine.write_u32(entry(PAGE), PAGE as u32 | GLOBAL | 3);
    // MOV EAX, n; RET: two bytes of it in the first page.
    machine.write(PAGE + 0xffe, &[0xb8, 0]);
    machine.write(PAGE + 0x1000, &[1, 0, 0, 0xc3]);
    machine.write(PAGE + 0x2000, &[2, 0, 0, 0xc3]);
    machine.cpu.set_control(0x21 | PG, DIRECTORY, PGE, 0);
    machine.load(CODE, 32, |a| {
        use iced_x86::code_asm::cr3;
        a.call(PAGE + 0xffe).unwrap();
        a.mov(ebx, eax).unwrap();
        a.mov(dword_ptr(entry(PAGE + 0x1000)), (PAGE + 0x2003) as u32).unwrap();
        a.mov(ecx, cr3).unwrap();
        a.mov(cr3, ecx).unwrap();
        a.call(PAGE + 0xffe).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(machine.run(), Exit::Halt);
    assert_eq!((machine.cpu.gpr(RBX), machine.cpu.gpr(RAX)), (0x100, 0x200));
}

/// A loop that writes the immediate of a function at `patched`, calls it and leaves the sum of all
/// immediates in EAX. In between, the function calls one in a page that nobody writes.
fn patching(machine: &mut Machine, patched: u64, patches: u32) {
    const UNTOUCHED: u64 = PAGE + 0x2000;
    machine.load(UNTOUCHED, 32, |a| {
        a.inc(esi).unwrap();
        a.ret().unwrap();
    });
    machine.load(patched, 32, |a| {
        a.mov(edx, 0).unwrap();
        a.call(UNTOUCHED).unwrap();
        a.add(eax, edx).unwrap();
        a.ret().unwrap();
    });
    machine.load(PAGE, 32, |a| {
        let mut next = a.create_label();
        a.xor(eax, eax).unwrap();
        a.xor(esi, esi).unwrap();
        a.mov(ecx, patches).unwrap();
        a.set_label(&mut next).unwrap();
        a.mov(dword_ptr(patched + 1), ecx).unwrap();
        a.call(patched).unwrap();
        a.dec(ecx).unwrap();
        a.jnz(next).unwrap();
        a.hlt().unwrap();
    });
}

/// Code that is patched and called again and again costs as much each time, so that a million patches
/// take a hundred times as long as ten thousand; and blocks of other pages stay, with the links between
/// them.
///
/// The blocks, by their instructions: E is XOR, XOR, MOV, MOV, CALL; F is MOV, CALL; U, in the untouched
/// page, is INC, RET; G is ADD, RET; R is DEC, JNZ; then T is the MOV of the patch with CALL, and, since
/// a write to code ends the run behind it, C is that CALL alone; H is HLT. The first turn is E F U G R.
/// Its patch comes before there is code to overwrite.
#[test]
fn a_patch_costs_the_blocks_of_its_page() {
    // The patched function in a page of its own: a patch drops F and G. Translated are E U R T C H once
    // and F G in each turn.
    const MOST: u32 = if cfg!(debug_assertions) { 40_000 } else { 1_000_000 };
    const APART: (u64, u32, u64, u64) = (PAGE + 0x1000, MOST, 2, 8);
    // In the page of the loop: the first patch that hits drops E F G R T, a later one C F G R T. They
    // are translated again in each turn. Left in the end are U, C F G R and H.
    const TOGETHER: (u64, u32, u64, u64) = (PAGE + 0x800, 40_000, 5, 6);
    for (patched, most, a_patch, left) in [APART, TOGETHER] {
        let mut costs = Vec::new();
        for patches in [10_000, 20_000, most] {
            let mut machine = Machine::protected();
            patching(&mut machine, patched, patches);
            while machine.run_until(u64::MAX) != Exit::Halt {}
            costs.push(machine.translated());
            patching(&mut machine, patched, patches);
            assert_eq!(machine.run_plain(), Exit::Halt);

            let n = u64::from(patches);
            let overwritten = a_patch * (n - 1);
            let expected = Translated { blocks: overwritten + left, overwritten };
            let [counting, plain] = machine.translations();
            assert_eq!(counting, expected, "{patched:x}, {patches} patches");
            assert_eq!(plain, expected, "{patched:x}, {patches} patches, plain");
            assert_eq!(machine.blocks(), [left as usize; 2], "no other block is kept");
            let sum = (n * (n + 1) / 2) & 0xffff_ffff;
            assert_eq!((machine.cpu.gpr(RAX), machine.cpu.gpr(RSI)), (sum, n));
        }
        assert!(costs.iter().all(|&cost| cost == costs[0]), "bytes of blocks: {costs:?}");
    }
}
