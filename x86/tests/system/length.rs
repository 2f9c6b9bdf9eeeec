//! The length of an instruction: more than 15 bytes are #GP(0) in every mode (section 8.2.14, "#GP";
//! Intel SDM volume 3, "Interrupt 13": "Exceeding the instruction length limit of 15 bytes (this only
//! can occur when redundant prefixes are placed before an instruction)").

use x86_cpu::run::Exit;

use crate::machine::*;

const UD: u64 = 6;
const GP: u64 = 13;
const PF: u64 = 14;
const HLT: u8 = 0xf4;
const NOP: u8 = 0x90;

/// Two pages that follow each other; the tests that take the second one away give it small pages.
const FIRST_PAGE: u64 = 0x5000;
const SECOND_PAGE: u64 = 0x6000;

fn machines() -> [(&'static str, Machine); 3] {
    [("real", Machine::real()), ("protected", Machine::protected()), ("64-bit", Machine::long())]
}

/// `count` times `prefix`, then `rest`.
fn prefixed(count: usize, prefix: u8, rest: &[u8]) -> Vec<u8> {
    let mut code = vec![prefix; count];
    code.extend(rest);
    code
}

/// Runs `code` at `address` with a HLT behind; the vector of its exception, or `None` if that HLT
/// is reached.
fn run_at(m: &mut Machine, address: u64, code: &[u8]) -> Option<u64> {
    m.write(address, code);
    m.write(address + code.len() as u64, &[HLT]);
    m.cpu.rip = address;
    assert_eq!(m.run(), Exit::Halt);
    if m.cpu.rip == address + code.len() as u64 + 1 { None } else { Some(m.handler()) }
}

/// RIP and error code that the handler of #GP finds.
fn saved(m: &Machine) -> (u64, Option<u64>) {
    // Real mode pushes words, and no error code.
    if m.cpu.cr0() & 1 == 0 {
        (u64::from(m.read_u16(m.cpu.gpr(RSP))), None)
    } else {
        (m.stack(1), Some(m.stack(0)))
    }
}

/// 15 bytes execute; 16 are #GP(0) with RIP at the first, whatever the redundant prefixes are and
/// whether it is the first instruction of its block or not.
#[test]
fn sixteen_bytes_are_too_many() {
    // 66h, 67h, segment overrides, REP: none means anything to NOP, and F3h makes it PAUSE. 66h
    // before MOV r, imm changes its length by two bytes, whatever their number.
    for prefix in [0x66, 0x67, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0xf2, 0xf3] {
        for before in [0, 1, 5] {
            for (count, fault) in [(1, false), (14, false), (15, true), (16, true), (30, true)] {
                for (mode, mut m) in machines() {
                    let code = [vec![NOP; before], prefixed(count, prefix, &[NOP])].concat();
                    let what = format!("{mode}: {before} NOPs, {count} times {prefix:x}");
                    let retired = m.cpu.retired();
                    let got = run_at(&mut m, CODE, &code);
                    assert_eq!(got, fault.then_some(GP), "{what}");
                    if fault {
                        let at = CODE + before as u64;
                        let error = (mode != "real").then_some(0);
                        assert_eq!(saved(&m), (at, error), "{what}");
                        // The NOPs and the handler's HLT.
                        assert_eq!(m.cpu.retired() - retired, before as u64 + 1, "{what}");
                    }
                }
            }
        }
    }
}

/// All bytes count: opcode, ModRM, SIB, displacement and immediate.
#[test]
fn operands_count() {
    // Mode, prefix, instruction without prefixes, its length with that prefix.
    let cases: [(&str, u8, &[u8], usize); 8] = [
        ("64-bit", 0x3e, &[0xc3], 1),
        ("64-bit", 0x3e, &[0x89, 0xc0], 2),
        // MOV ECX, imm32; with 66h MOV CX, imm16.
        ("64-bit", 0x3e, &[0xb9, 1, 2, 3, 4], 5),
        ("64-bit", 0x66, &[0xb9, 1, 2], 3),
        // ADD dword [RSP*2+disp32], imm32 has no such form: [RAX*2+disp32].
        ("64-bit", 0x3e, &[0x81, 0x04, 0x45, 0, 0, 0, 0, 1, 0, 0, 0], 11),
        ("64-bit", 0x48, &[0xb9, 1, 2, 3, 4, 5, 6, 7, 8], 9),
        ("protected", 0x3e, &[0x81, 0x05, 0, 0x40, 1, 0, 1, 0, 0, 0], 10),
        ("real", 0x66, &[0x81, 0x06, 0, 0x60, 1, 0, 0, 0], 8),
    ];
    for (mode, prefix, rest, length) in cases {
        assert_eq!(rest.len(), length);
        for total in [14, 15, 16, 17] {
            let (_, mut m) = machines().into_iter().find(|(name, _)| *name == mode).unwrap();
            m.cpu.set_gpr(RAX, DATA / 2);
            let sp = m.cpu.gpr(RSP);
            // RET returns to the HLT that `run_at` puts behind.
            m.write_u64(sp, CODE + total as u64);
            let code = prefixed(total - length, prefix, rest);
            let got = run_at(&mut m, CODE, &code);
            assert_eq!(got, (total > 15).then_some(GP), "{mode}: {prefix:x} {rest:x?} {total}");
        }
    }
}

/// An invalid instruction of 15 bytes is #UD; one that is too long as well is #GP(0), which both
/// vendors list beside #UD (APM volume 2, "Simultaneous Interrupt Priorities", priority 7; Intel SDM
/// volume 3, "Priority Among Simultaneous Exceptions and Interrupts": "Instruction length > 15
/// bytes, Invalid Opcode").
#[test]
fn invalid_and_too_long() {
    const LOCK: u8 = 0xf0;
    for (mode, mut m) in machines() {
        // LOCK with an instruction that does not take it.
        assert_eq!(run_at(&mut m, CODE, &prefixed(14, LOCK, &[NOP])), Some(UD), "{mode}");
        assert_eq!(run_at(&mut m, CODE, &prefixed(15, LOCK, &[NOP])), Some(GP), "{mode}");
        // 0F 0B, which has two bytes.
        assert_eq!(run_at(&mut m, CODE, &prefixed(13, 0x66, &[0x0f, 0x0b])), Some(UD), "{mode}");
        assert_eq!(run_at(&mut m, CODE, &prefixed(14, 0x66, &[0x0f, 0x0b])), Some(GP), "{mode}");
        // CMPXCHG8B of a register: the ModRM byte is needed to see it.
        let bytes = [0x0f, 0xc7, 0xc8];
        assert_eq!(run_at(&mut m, CODE, &prefixed(12, 0x3e, &bytes)), Some(UD), "{mode}");
        assert_eq!(run_at(&mut m, CODE, &prefixed(13, 0x3e, &bytes)), Some(GP), "{mode}");
    }
    // PUSH ES, which 64-bit mode has not.
    let mut m = Machine::long();
    assert_eq!(run_at(&mut m, CODE, &prefixed(14, 0x66, &[0x06])), Some(UD));
    assert_eq!(run_at(&mut m, CODE, &prefixed(15, 0x66, &[0x06])), Some(GP));
}

/// 64-bit mode with 4 KiB pages for the first two megabytes.
fn small_pages() -> Machine {
    const TABLE: u64 = 0x13000;
    let m = Machine::long();
    for page in 0..512 {
        m.write_u64(TABLE + 8 * page, page << 12 | 7);
    }
    m.write_u64(PML4 + 0x2000, TABLE | 7);
    m
}

/// Takes a page of [`small_pages`] away.
fn remove(m: &Machine, page: u64) {
    m.write_u64(0x13000 + 8 * (page >> 12), 0);
}

/// Across a page: the instruction begins `first` bytes before its end.
#[test]
fn across_a_page() {
    for first in 1..=16 {
        for total in [15, 16] {
            let code = prefixed(total - 1, 0x66, &[NOP]);
            for mut m in [Machine::long(), small_pages(), Machine::protected(), Machine::real()] {
                let got = run_at(&mut m, SECOND_PAGE - first, &code);
                assert_eq!(got, (total > 15).then_some(GP), "{first} of {total}");
            }
        }
    }
}

/// A next page that is not present matters only if one of the first 15 bytes lies there: the
/// processor needs no sixteenth to see that the instruction is too long. (Both vendors list the page
/// fault of a fetch before the length; the APM's note on the bytes behind the first leaves to the
/// model what can be told without them.)
#[test]
fn the_sixteenth_byte_is_not_fetched() {
    for first in 1..=16 {
        let mut m = small_pages();
        remove(&m, SECOND_PAGE);
        m.write(FIRST_PAGE, &[NOP; 0x1000]);
        let at = SECOND_PAGE - first;
        m.write(at, &vec![0x66; first as usize]);
        m.cpu.rip = at;
        let vector = m.vector();
        if first < 15 {
            assert_eq!((vector, m.cpu.cr2, m.stack(1)), (PF, SECOND_PAGE, at), "{first}");
        } else {
            assert_eq!((vector, m.stack(0), m.stack(1)), (GP, 0, at), "{first}");
        }
    }
}

/// What lies behind an opcode that is invalid whatever follows is no part of it, and need not be there:
/// neither the page nor the room in the code segment. PUSH ES has one byte, and 64-bit mode has #UD "If
/// the PUSH is of CS, SS, DS, or ES" (Intel SDM volume 2, "PUSH"; APM volume 3, "PUSH", likewise). Where
/// it is for the ModRM byte to say whether there is such an instruction, that byte is fetched.
#[test]
fn what_lies_behind_an_invalid_opcode() {
    let cases: [(&[u8], u64); 14] = [
        (&[0x06], UD),             // PUSH ES
        (&[0x66, 0x1f], UD),       // POP DS
        (&[0x60], UD),             // PUSHA
        (&[0x27], UD),             // DAA
        (&[0x0f, 0x04], UD),       // nothing on any processor
        (&[0x66, 0x0f, 0x0a], UD), // nor this
        (&[0x0f, 0x38, 0xff], UD), // nor this
        (&[0x0f, 0x0b], UD),       // UD2
        (&[0x0f, 0xc7], PF),       // /1 is CMPXCHG8B
        (&[0x0f, 0xb9], PF),       // UD1 has a ModRM byte
        (&[0x8d], PF),             // LEA
        (&[0x0f, 0x1f], PF),       // NOP
        (&[0xf0], PF),             // a prefix
        (&[0x48], PF),
    ];
    for (code, vector) in cases {
        for before in [0, 3] {
            let mut m = small_pages();
            remove(&m, SECOND_PAGE);
            let at = SECOND_PAGE - code.len() as u64;
            m.write(at - before, &[NOP; 3]);
            m.write(at, code);
            m.cpu.rip = at - before;
            // The page fault has an error code below RIP.
            let got = (m.vector(), m.stack(u64::from(vector == PF)));
            assert_eq!(got, (vector, at), "{code:x?} {before}");
        }
    }
    for (code, vector) in [([0x0f, 0x04], UD), ([0x0f, 0x0a], UD), ([0x0f, 0xc7], GP)] {
        let mut m = Machine::protected();
        let cs = x86_cpu::descriptor::Segment { limit: CODE as u32 + 1, ..*m.cpu.segment(CS) };
        m.cpu.set_segment(CS, cs);
        m.write(CODE, &code);
        m.cpu.rip = CODE;
        assert_eq!(m.vector(), vector, "{code:x?}");
    }
}
