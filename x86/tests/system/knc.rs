//! SPFLT, DELAY and CLEVICT of Knights Corner. Encodings: VEX.L0.F2.0F AE /6 (SPFLT),
//! VEX.L0.F3.0F AE /6 (DELAY), VEX.L0.F2/F3.0F AE /7 with a memory operand (CLEVICT0, CLEVICT1), as
//! the binutils and XED tests have them.

use x86_cpu::{descriptor::Segment, features::Features, handover::Attempt, run::Exit};

use crate::machine::*;

const KNC: Features = Features { knc: true, ..Features::K8 };
const HLT: u8 = 0xf4;
/// Prefix bits in the last VEX byte: F2 for SPFLT, F3 for DELAY.
const F2: u8 = 3;
const F3: u8 = 2;
const UD: u64 = 6;

fn on_knc(mut m: Machine) -> Machine {
    m.cpu.features = KNC;
    m
}

/// 16-bit protected mode.
fn protected16() -> Machine {
    let mut m = on_knc(Machine::protected());
    let cs = *m.cpu.segment(CS);
    m.cpu.set_segment(CS, Segment { attributes: cs.attributes & !Segment::BIG, ..cs });
    m
}

/// The three-byte form: inverted RXB and the opcode map; W, inverted vvvv, L and the prefix.
fn three_byte(register: u8, w: u8, prefix: u8) -> [u8; 5] {
    let b = if register < 8 { 0x20 } else { 0 };
    [0xc4, 0xc1 | b, w << 7 | 0x78 | prefix, 0xae, 0xf0 | register & 7]
}

/// The two-byte form, which reaches registers 0-7.
fn two_byte(register: u8, prefix: u8) -> [u8; 4] {
    [0xc5, 0xf8 | prefix, 0xae, 0xf0 | register]
}

/// Runs `bytes` and a HLT; the exit.
fn run(m: &mut Machine, at: u64, bytes: &[u8]) -> Exit {
    m.write(at, bytes);
    m.write(at + bytes.len() as u64, &[HLT]);
    m.cpu.rip = at;
    m.run()
}

/// Executes SPFLT in `bytes` of register `n`: bit 0 of just that register decides.
fn check_spflt(mut m: Machine, n: u8, bytes: &[u8]) {
    for r in 0..16 {
        m.cpu.set_gpr(r, 0xffff_fffe);
    }
    m.cpu.set_gpr(n, 1);
    assert_eq!(run(&mut m, CODE, bytes), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + bytes.len() as u64 + 1, "{bytes:02x?}");
    for r in 0..16 {
        m.cpu.set_gpr(r, u64::MAX);
    }
    m.cpu.set_gpr(n, 0xffff_fffe);
    assert_eq!(run(&mut m, CODE, bytes), Exit::Halt);
    assert_eq!(m.ports.preferences, [true, false], "{bytes:02x?}");
}

#[test]
fn the_helpers_make_the_published_encodings() {
    assert_eq!(two_byte(1, F2), [0xc5, 0xfb, 0xae, 0xf1]); // spflt ecx
    assert_eq!(three_byte(8, 1, F2), [0xc4, 0xc1, 0xfb, 0xae, 0xf0]); // spflt r8
    assert_eq!(three_byte(8, 0, F3), [0xc4, 0xc1, 0x7a, 0xae, 0xf0]); // delay r8d
    assert_eq!(three_byte(1, 1, F3), [0xc4, 0xe1, 0xfa, 0xae, 0xf1]); // delay rcx
}

#[test]
fn spflt_takes_every_register_in_64_bit_code() {
    for n in 0..16 {
        for w in 0..2 {
            check_spflt(on_knc(Machine::long()), n, &three_byte(n, w, F2));
        }
    }
    for n in 0..8 {
        check_spflt(on_knc(Machine::long()), n, &two_byte(n, F2));
    }
    // VEX.R and VEX.X extend nothing here; a segment or address-size prefix changes nothing.
    check_spflt(on_knc(Machine::long()), 5, &[0xc5, 0x7b, 0xae, 0xf5]);
    check_spflt(on_knc(Machine::long()), 0, &[0xc4, 0x21, 0x7b, 0xae, 0xf0]);
    check_spflt(on_knc(Machine::long()), 2, &[0x64, 0xc5, 0xfb, 0xae, 0xf2]);
    check_spflt(on_knc(Machine::long()), 2, &[0x67, 0xc5, 0xfb, 0xae, 0xf2]);
}

#[test]
fn spflt_takes_every_register_in_16_and_32_bit_code() {
    for n in 0..8 {
        for w in 0..2 {
            check_spflt(on_knc(Machine::protected()), n, &three_byte(n, w, F2));
            check_spflt(protected16(), n, &three_byte(n, w, F2));
        }
        check_spflt(on_knc(Machine::protected()), n, &two_byte(n, F2));
        check_spflt(protected16(), n, &two_byte(n, F2));
        // VEX.B is ignored: there are eight registers.
        check_spflt(on_knc(Machine::protected()), n, &three_byte(n | 8, 0, F2));
    }
    check_spflt(on_knc(Machine::protected()), 2, &[0x2e, 0xc5, 0xfb, 0xae, 0xf2]);
}

/// Any privilege level; and the instruction may cross a page.
#[test]
fn spflt_runs_at_privilege_3_and_across_pages() {
    for machine in [Machine::long, Machine::protected] {
        for before_the_end in 0..5 {
            let mut m = on_knc(machine()).at_user();
            m.set_gate(3, 0xee, 0);
            m.cpu.set_gpr(RCX, 1);
            let at = USER_CODE + 0x1000 - before_the_end;
            m.write(at, &[0xc5, 0xfb, 0xae, 0xf1, 0xcc]);
            m.cpu.rip = at;
            assert_eq!(m.vector(), 3);
            assert_eq!(m.ports.preferences, [true]);
        }
    }
}

/// SPFLT is executed like WRMSR: the counters are updated before it, and the run ends after it.
#[test]
fn spflt_stands_alone() {
    let mut m = on_knc(Machine::long());
    m.write(CODE, &[0x90, 0xc5, 0xfb, 0xae, 0xf1, 0x90, HLT]);
    m.cpu.rip = CODE;
    assert_eq!(m.run_until(1000), Exit::Leave);
    assert_eq!((m.cpu.rip, m.cpu.retired()), (CODE + 5, 2));
    assert_eq!(m.ports.counted_at, [1]);
    assert_eq!(m.ports.preferences, [false]);
}

#[test]
fn what_is_no_encoding_is_undefined() {
    let rows: &[&[u8]] = &[
        &[0xf0, 0xc5, 0xfb, 0xae, 0xf1], // LOCK
        &[0x66, 0xc5, 0xfb, 0xae, 0xf1], // 66
        &[0xf2, 0xc5, 0xfb, 0xae, 0xf1], // F2
        &[0xf3, 0xc5, 0xfa, 0xae, 0xf1], // F3
        &[0xc5, 0xff, 0xae, 0xf1],       // L=1
        &[0xc5, 0xfe, 0xae, 0xf1],       // L=1, DELAY
        &[0xc5, 0xf3, 0xae, 0xf1],       // vvvv
        &[0xc5, 0xeb, 0xae, 0xf1],       // vvvv
        &[0xc5, 0xf8, 0xae, 0xf1],       // no prefix
        &[0xc5, 0xf9, 0xae, 0xf1],       // 66
        &[0xc5, 0xfb, 0xae, 0xf9],       // /7, register
        &[0xc5, 0xfb, 0xae, 0x31],       // /6, memory
        &[0xc4, 0xe2, 0x7b, 0xae, 0xf1], // map 0F38
    ];
    for machine in [Machine::long, Machine::protected] {
        for bytes in rows {
            let mut m = on_knc(machine());
            m.write(CODE, bytes);
            m.cpu.rip = CODE;
            assert_eq!(m.vector(), UD, "{bytes:02x?}");
            assert!(m.ports.preferences.is_empty());
        }
    }
    // REX before VEX.
    let mut m = on_knc(Machine::long());
    m.write(CODE, &[0x48, 0xc5, 0xfb, 0xae, 0xf1]);
    m.cpu.rip = CODE;
    assert_eq!(m.vector(), UD);
}

#[test]
fn other_processors_do_not_know_them() {
    for machine in [Machine::long, Machine::protected] {
        let rows: &[&[u8]] = &[
            &two_byte(1, F2),
            &two_byte(1, F3),
            &three_byte(1, 1, F2),
            &[0xc5, 0xfb, 0xae, 0x78, 0x40],
        ];
        for bytes in rows {
            let mut m = machine();
            m.write(CODE, bytes);
            m.cpu.rip = CODE;
            assert_eq!(m.vector(), UD, "{bytes:02x?}");
        }
    }
}

/// VEX needs protected mode, as with AVX.
#[test]
fn real_mode_has_no_vex() {
    let mut m = on_knc(Machine::real());
    m.write(CODE, &two_byte(1, F2));
    m.cpu.rip = CODE;
    assert_eq!(m.vector(), UD);
}

/// Outside 64-bit mode C4 and C5 with a memory operand stay LES and LDS.
#[test]
fn les_and_lds_are_there() {
    let mut m = on_knc(Machine::protected());
    m.write_u32(DATA, 0x1234_5678);
    m.write_u16(DATA + 4, sel::DATA);
    m.cpu.set_gpr(3, DATA);
    assert_eq!(run(&mut m, CODE, &[0xc5, 0x03, 0xc4, 0x0b]), Exit::Halt);
    assert_eq!((m.cpu.gpr(RAX), m.cpu.gpr(RCX)), (0x1234_5678, 0x1234_5678));
}

/// (bytes, value of RCX, clocks): r32 zero-extended, r64 whole.
#[test]
fn delay_lets_so_many_clocks_pass() {
    let long: &[(&[u8], u64, u64)] = &[
        (&[0xc5, 0xfa, 0xae, 0xf1], 100, 100),
        (&[0xc5, 0xfa, 0xae, 0xf1], 0xffff_ffff_0000_0064, 100),
        (&[0xc4, 0xe1, 0xfa, 0xae, 0xf1], 5000, 5000),
        (&[0xc4, 0xe1, 0xfa, 0xae, 0xf1], 0, 0),
        (&[0xc5, 0xfa, 0xae, 0xf1], 1, 1),
    ];
    let narrow: &[(&[u8], u64, u64)] = &[
        (&[0xc5, 0xfa, 0xae, 0xf1], 100, 100),
        // W means nothing here.
        (&[0xc4, 0xe1, 0xfa, 0xae, 0xf1], 0xffff_ffff_0000_0064, 100),
    ];
    for (machine, rows) in [(Machine::long as fn() -> Machine, long), (Machine::protected, narrow)]
    {
        for &(bytes, rcx, clocks) in rows {
            let mut m = on_knc(machine());
            m.cpu.set_gpr(RCX, rcx);
            m.cpu.set_rflags(0x8d7);
            m.write(CODE, &[0x90]);
            assert_eq!(run(&mut m, CODE + 1, bytes), Exit::Halt);
            // DELAY and HLT take a clock each.
            assert_eq!(m.cpu.time, clocks + 2, "{bytes:02x?} {rcx:x}");
            assert_eq!(m.cpu.retired(), 2);
            assert_eq!((m.cpu.gpr(RCX), m.cpu.rflags()), (rcx, 0x8d7));
        }
    }
}

/// A run that ends in the middle of a delay goes on there.
#[test]
fn delay_is_the_same_in_pieces() {
    let mut m = on_knc(Machine::long());
    m.cpu.set_gpr(RCX, 100);
    m.write(CODE, &[0xc5, 0xfa, 0xae, 0xf1, 0x90, HLT]);
    m.cpu.rip = CODE;
    for until in [1, 40, 70, 100, 101] {
        assert_eq!(m.run_until(until), Exit::Deadline);
        assert_eq!((m.cpu.time, m.cpu.rip, m.cpu.retired()), (until, CODE + 4, 1));
    }
    assert_eq!(m.run_until(1000), Exit::Halt);
    assert_eq!(m.cpu.time, 103);
}

/// An interrupt ends it, and returns to the instruction behind it.
#[test]
fn an_interrupt_ends_a_delay() {
    for rcx in [1000, u64::MAX] {
        let mut m = on_knc(Machine::long());
        m.cpu.set_gpr(RCX, rcx);
        m.write(CODE, &[0xc4, 0xe1, 0xfa, 0xae, 0xf1, HLT]);
        m.cpu.rip = CODE;
        assert_eq!(m.run_until(50), Exit::Deadline);
        m.interrupt(0x40);
        // The return address.
        assert_eq!(m.stack(0), CODE + 5);
        assert_eq!(m.run_until(1000), Exit::Halt);
        // 50, the delivery, the handler's HLT.
        assert_eq!((m.cpu.time, m.handler()), (52, 0x40));
    }
}

/// Evictions look at no memory: the operand here is not canonical.
#[test]
fn clevict_does_nothing() {
    for bytes in [[0xc5, 0xfb, 0xae, 0x78, 0x40], [0xc5, 0xfa, 0xae, 0x78, 0x40]] {
        let mut m = on_knc(Machine::long());
        m.cpu.set_gpr(RAX, 1 << 63);
        assert_eq!(run(&mut m, CODE, &bytes), Exit::Halt);
        assert_eq!(m.cpu.rip, CODE + 6);
    }
}

/// SPFLT is found wherever the end of a page lies in it.
#[test]
fn across_a_page() {
    const END: u64 = 0x7000;
    let code = [&two_byte(2, F2)[..], &three_byte(2, 0, F2)];
    for machine in [Machine::long, Machine::protected, protected16] {
        for bytes in code {
            for first in 1..bytes.len() {
                let mut m = on_knc(machine());
                m.cpu.set_gpr(2, 1);
                let at = END - first as u64;
                assert_eq!(run(&mut m, at, bytes), Exit::Halt);
                assert_eq!(m.cpu.rip, at + bytes.len() as u64 + 1, "{bytes:02x?} {first}");
                assert_eq!(m.ports.preferences, [true]);
            }
        }
    }
}

/// A delay of 2^64 - 1 clocks, which an owner lets pass at once: time goes on behind it, and does not begin
/// anew.
#[test]
fn the_longest_delay_leaves_time() {
    let mut m = on_knc(Machine::long());
    m.cpu.set_gpr(RCX, u64::MAX);
    m.write(CODE, &[0xc4, 0xe1, 0xfa, 0xae, 0xf1, 0x90]); // delay rcx; nop
    m.cpu.rip = CODE;
    assert_eq!(m.attempt(), Attempt::Done);
    let after = m.cpu.time;
    assert_eq!(m.attempt(), Attempt::Done);
    assert_eq!((m.cpu.rip, m.cpu.time), (CODE + 6, after + 1));
}
