//! Alignment checking: #AC (section 8.2.18; boundaries by the table "Alignment Requirements by Data
//! Type" of the Intel SDM, volume 3).

use iced_x86::code_asm::*;
use x86_cpu::run::Exit;

use crate::machine::*;

const AC: u64 = 1 << 18;
const AM: u64 = 1 << 18;
const INT3: u64 = 3;
const GP: u64 = 13;
const ALIGNMENT: u64 = 17;

/// Privilege 3 with alignment checking on, RDI at [`DATA`], RSP aligned.
fn checking(machine: Machine) -> Machine {
    let mut m = machine.at_user();
    m.cpu.set_control(m.cpu.cr0() | AM, m.cpu.cr3(), m.cpu.cr4(), m.cpu.efer());
    m.cpu.set_rflags(2 | AC);
    m.set_gate(3, 0xee, 0);
    m.cpu.set_gpr(RDI, DATA);
    m
}

/// The exception that `program` (64-bit code) ends with; [`INT3`] if it has none before.
fn outcome(mut m: Machine, program: impl FnOnce(&mut CodeAssembler)) -> (Machine, u64) {
    m.load(USER_CODE, 64, |a| {
        program(a);
        a.int3().unwrap();
    });
    let vector = m.vector();
    (m, vector)
}

/// Each operand faults off its boundary and passes on it. The error code is zero, and RIP that of
/// the instruction.
#[test]
fn boundaries() {
    // Instructions with a memory operand at [RDI], and their boundaries. 66h, REX.W and F3h
    // prefixes choose the size.
    let cases: [(&[u8], u64); 30] = [
        (&[0x8a, 0x07], 1),       // MOV AL
        (&[0x66, 0x8b, 0x07], 2), // MOV AX
        (&[0x8b, 0x07], 4),       // MOV EAX
        (&[0x48, 0x8b, 0x07], 8), // MOV RAX
        (&[0x66, 0x89, 0x07], 2), // MOV to memory
        (&[0x89, 0x07], 4),
        (&[0x48, 0x89, 0x07], 8),
        (&[0x01, 0x07], 4), // ADD to memory
        (&[0x48, 0x01, 0x07], 8),
        (&[0x66, 0x0f, 0xa3, 0x07], 2), // BT: the bit string by operand size
        (&[0x0f, 0xa3, 0x07], 4),
        (&[0x0f, 0xc7, 0x0f], 8), // CMPXCHG8B
        (&[0x0f, 0xb7, 0x07], 2), // MOVZX from a word
        (&[0xd9, 0x07], 4),       // FLD single
        (&[0xdd, 0x07], 8),       // FLD double
        (&[0xdb, 0x2f], 8),       // FLD extended
        (&[0xdb, 0x3f], 8),       // FSTP extended
        (&[0xdf, 0x07], 2),       // FILD word
        (&[0xd9, 0x37], 4),       // FNSTENV
        (&[0x66, 0xd9, 0x37], 2),
        (&[0xdd, 0x37], 4),             // FNSAVE
        (&[0xdd, 0x27], 4),             // FRSTOR
        (&[0x0f, 0x6f, 0x07], 8),       // MOVQ to MMX
        (&[0xf3, 0x0f, 0x10, 0x07], 4), // MOVSS
        (&[0xf2, 0x0f, 0x10, 0x07], 8), // MOVSD
        (&[0x0f, 0x10, 0x07], 16),      // MOVUPS
        (&[0x0f, 0x11, 0x07], 16),
        (&[0xf3, 0x0f, 0x6f, 0x07], 16), // MOVDQU
        (&[0x0f, 0xae, 0x1f], 4),        // STMXCSR
        (&[0x0f, 0xb4, 0x07], 4),        // LFS: a doubleword and a selector
    ];
    for (code, boundary) in cases {
        for offset in 0..16 {
            let mut m = checking(Machine::long());
            // A null selector behind the offset of the far pointer, and a control word.
            m.write(DATA, &[0; 64]);
            m.cpu.set_gpr(RDI, DATA + offset);
            m.cpu.set_gpr(RCX, 0);
            m.cpu.fpu.init();
            m.cpu.fpu.load_constant(x86_cpu::x87::Constant::One);
            m.write(USER_CODE, code);
            m.write(USER_CODE + code.len() as u64, &[0xcc]);
            m.cpu.rip = USER_CODE;
            let vector = m.vector();
            if offset % boundary == 0 {
                assert_eq!(vector, INT3, "{code:x?} at {offset}");
            } else {
                assert_eq!(vector, ALIGNMENT, "{code:x?} at {offset}");
                assert_eq!((m.stack(0), m.stack(1)), (0, USER_CODE), "{code:x?}");
            }
        }
    }
}

/// It takes CR0.AM, RFLAGS.AC and privilege 3 together.
#[test]
fn three_conditions() {
    for (cr0_bits, flags, vector) in
        [(AM, AC, ALIGNMENT), (0, AC, INT3), (AM, 0, INT3), (0, 0, INT3)]
    {
        let mut m = checking(Machine::long());
        m.cpu.set_control(m.cpu.cr0() & !AM | cr0_bits, PML4, m.cpu.cr4(), m.cpu.efer());
        m.cpu.set_rflags(2 | flags);
        let (_, got) = outcome(m, |a| a.mov(eax, dword_ptr(rdi + 1)).unwrap());
        assert_eq!(got, vector, "{cr0_bits:x} {flags:x}");
    }
    let mut m = Machine::long();
    m.cpu.set_control(m.cpu.cr0() | AM, PML4, m.cpu.cr4(), m.cpu.efer());
    m.cpu.set_rflags(2 | AC);
    m.load(CODE, 64, |a| {
        a.mov(eax, dword_ptr(DATA + 1)).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip & !0xff, CODE);
}

/// POPF turns checking on and off for the very next access, whatever was accessed before.
#[test]
fn popf_switches() {
    let (m, vector) = outcome(checking(Machine::long()), |a| {
        a.push(2).unwrap();
        a.popfq().unwrap();
        a.mov(eax, dword_ptr(rdi + 1)).unwrap();
        a.mov(dword_ptr(rdi + 5), eax).unwrap();
        a.push(2 | AC as i32).unwrap();
        a.popfq().unwrap();
        a.mov(eax, dword_ptr(rdi + 4)).unwrap();
        a.mov(dword_ptr(rdi + 5), eax).unwrap();
    });
    assert_eq!(vector, ALIGNMENT);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 48);
    // PUSH imm8 2, POPF 1, MOV 3, MOV 3; PUSH imm32 5, POPF 1; MOV 3.
    assert_eq!(m.stack(1), USER_CODE + 3 + 6 + 6 + 3);
}

/// A kernel that runs in between, and its own misaligned accesses, change nothing.
#[test]
fn survives_a_visit_to_the_kernel() {
    let mut m = checking(Machine::long());
    m.set_gate(0x80, 0xee, 0);
    m.load(HANDLERS + 0x800, 64, |a| {
        a.mov(eax, dword_ptr(rdi + 1)).unwrap();
        a.iretq().unwrap();
    });
    let (m, vector) = outcome(m, |a| {
        a.int(0x80).unwrap();
        a.mov(eax, dword_ptr(rdi + 1)).unwrap();
    });
    assert_eq!((vector, m.stack(1)), (ALIGNMENT, USER_CODE + 2));
}

/// Operands that must be aligned in any case raise #GP.
#[test]
fn aligned_operands_raise_gp() {
    // MOVAPS, FXSAVE.
    for code in [&[0x0f, 0x28, 0x07][..], &[0x0f, 0xae, 0x07]] {
        let mut m = checking(Machine::long());
        m.cpu.set_gpr(RDI, DATA + 8);
        m.write(USER_CODE, code);
        m.cpu.rip = USER_CODE;
        assert_eq!(m.vector(), GP, "{code:x?}");
    }
}

/// Descriptor loads are the processor's own and not checked.
#[test]
fn system_accesses_are_not_checked() {
    let mut m = checking(Machine::long());
    // The table one byte further on.
    for at in (0..0x48).rev() {
        let byte = m.read_u64(GDT + at) as u8;
        m.write(GDT + at + 1, &[byte]);
    }
    m.cpu.gdtr.base += 1;
    let (_, vector) = outcome(m, |a| {
        a.mov(eax, i32::from(sel::USER_DATA)).unwrap();
        a.mov(es, eax).unwrap();
    });
    assert_eq!(vector, INT3);
}

/// SGDT stores a word and a doubleword, each of which has to be aligned: an address that is 2 modulo
/// 4 satisfies both (Intel SDM volume 3, "Pseudo-Descriptor Formats").
#[test]
fn sgdt() {
    for offset in 0..8 {
        let mut m = checking(Machine::long());
        m.cpu.set_gpr(RDI, DATA + offset);
        let (_, vector) = outcome(m, |a| a.sgdt(ptr(rdi)).unwrap());
        assert_eq!(vector, if offset % 4 == 2 { INT3 } else { ALIGNMENT }, "{offset}");
    }
}

/// Stack accesses are checked, and a fault leaves RSP alone; a frame on an inner stack is not.
#[test]
fn stacks() {
    for (code, misaligned) in [
        (&[0x50][..], 4),         // PUSH RAX
        (&[0x58], 4),             // POP RAX
        (&[0xe8, 0, 0, 0, 0], 4), // CALL
        (&[0xc3], 4),             // RET
        (&[0xc8, 8, 0, 0], 4),    // ENTER 8, 0
        (&[0x66, 0x50], 1),       // PUSH AX
    ] {
        let mut m = checking(Machine::long());
        m.cpu.set_gpr(RSP, USER_STACK - 64 + misaligned);
        m.write(USER_CODE, code);
        m.cpu.rip = USER_CODE;
        assert_eq!(m.vector(), ALIGNMENT, "{code:x?}");
        assert_eq!((m.stack(0), m.stack(1)), (0, USER_CODE), "{code:x?}");
        assert_eq!(m.stack(4), USER_STACK - 64 + misaligned, "{code:x?}");
    }
    let mut m = checking(Machine::protected());
    m.write_u32(TSS + 4, KERNEL_STACK as u32 - 1);
    m.load(USER_CODE, 32, |a| a.int3().unwrap());
    assert_eq!(m.vector(), INT3);
    assert_eq!(m.cpu.gpr(RSP), KERNEL_STACK - 1 - 20);
}

/// REP MOVS stops at the first misaligned element with what came before done; INS reads no port.
#[test]
fn strings() {
    let mut m = checking(Machine::long());
    m.cpu.set_gpr(RSI, DATA + 0x100);
    m.cpu.set_gpr(RDI, DATA + 2);
    m.cpu.set_gpr(RCX, 4);
    m.write(USER_CODE, &[0xf3, 0xa5]);
    m.cpu.rip = USER_CODE;
    assert_eq!(m.vector(), ALIGNMENT);
    assert_eq!((m.cpu.gpr(RSI), m.cpu.gpr(RDI), m.cpu.gpr(RCX)), (DATA + 0x100, DATA + 2, 4));

    let mut m = checking(Machine::long());
    m.cpu.set_rflags(2 | AC | 3 << 12);
    m.cpu.set_gpr(RDI, DATA + 2);
    m.write(USER_CODE, &[0x6d]);
    m.cpu.rip = USER_CODE;
    assert_eq!((m.vector(), m.ports.reads), (ALIGNMENT, 0));
}

/// Aligned programs run as ever: REP STOS fills its range, and a page crossing is found by the
/// alignment check before either page is looked at.
#[test]
fn aligned_strings_and_page_crossings() {
    let mut m = checking(Machine::long());
    m.cpu.set_gpr(RAX, 0x1122_3344_5566_7788);
    m.cpu.set_gpr(RCX, 8);
    let (m, vector) = outcome(m, |a| a.rep().stosq().unwrap());
    assert_eq!((vector, m.cpu.gpr(RDI)), (INT3, DATA + 64));
    assert_eq!(m.read_u64(DATA + 56), 0x1122_3344_5566_7788);
    // Behind the two megabytes that are mapped.
    let mut m = checking(Machine::long());
    m.cpu.set_gpr(RDI, (2 << 20) - 2);
    let (m, vector) = outcome(m, |a| a.mov(eax, dword_ptr(rdi)).unwrap());
    assert_eq!((vector, m.cpu.cr2), (ALIGNMENT, 0));
}

/// A handler at privilege 3 whose stack is misaligned can never be entered: the processor would
/// raise #AC for ever, and counts as shut down here.
#[test]
fn no_way_into_the_handler() {
    let mut m = checking(Machine::protected());
    // Handlers in a conforming segment keep the privilege.
    m.set_descriptor(sel::FREE, descriptor(0, 0xf_ffff, 0x9f, 12));
    m.write_u64(IDT + 8 * 17, gate(sel::FREE, USER_CODE + 0x100, 0, 0x8e));
    m.cpu.set_gpr(RSP, USER_STACK - 6);
    m.load(USER_CODE, 32, |a| a.push(eax).unwrap());
    assert_eq!(m.run(), Exit::Shutdown);
}

/// Virtual-8086 mode is at privilege 3, too.
#[test]
fn virtual_8086_mode() {
    for (flags, vector) in [(AC, ALIGNMENT), (0, INT3)] {
        let mut m = Machine::protected();
        m.cpu.set_control(m.cpu.cr0() | AM, 0, 0, 0);
        m.set_gate(3, 0xee, 0);
        // MOV AX, [1]; INT3 at 0A00:0010.
        m.write(0xa010, &[0xa1, 1, 0, 0xcc]);
        m.load(CODE, 32, |a| {
            for word in [0, 0, 0, 0, 0, 0xf00, (VM | flags | 2) as i32, 0xa00, 0x10] {
                a.push(word).unwrap();
            }
            a.iretd().unwrap();
        });
        assert_eq!(m.vector(), vector);
    }
}

/// An address that is neither canonical nor aligned: #GP(0), or #SS(0) with RSP or RBP as base, and
/// not #AC. Both vendors' tables of priorities have the stack and general-protection exceptions before
/// the alignment check (section 8.5, "Simultaneous Interrupt Priorities", priority 8; Intel SDM volume
/// 3, "Priority Among Simultaneous Exceptions and Interrupts", faults on executing an instruction).
/// The last byte counts as the first does.
#[test]
fn canonical_form_comes_before_alignment() {
    const SS_FAULT: u64 = 12;
    // Across the end of the lower half, whose last page is not mapped either.
    const ACROSS: u64 = 0x7fff_ffff_ffff;
    // Instructions with [RDI]; with 45h 00h for 07h and the like they have [RBP].
    let codes: [(&[u8], u8); 15] = [
        (&[0x8b], 0x07),       // MOV EAX
        (&[0x48, 0x89], 0x07), // MOV to memory
        (&[0x48, 0x01], 0x07), // ADD to memory
        (&[0x0f, 0xc7], 0x0f), // CMPXCHG8B
        (&[0xdd], 0x07),       // FLD double
        (&[0xdb], 0x2f),       // FLD extended
        (&[0xdb], 0x3f),       // FSTP extended
        (&[0xd9], 0x37),       // FNSTENV
        (&[0xd9], 0x27),       // FLDENV
        (&[0xdd], 0x37),       // FNSAVE
        (&[0xdd], 0x27),       // FRSTOR
        (&[0x0f, 0x6f], 0x07), // MOVQ to MMX
        (&[0x0f, 0x10], 0x07), // MOVUPS
        (&[0x0f, 0x11], 0x07),
        (&[0x0f, 0xb4], 0x07), // LFS
    ];
    for (opcode, modrm) in codes {
        for (on, address) in
            [(true, 1 << 63 | 1), (true, ACROSS), (false, 1 << 63 | 1), (false, ACROSS)]
        {
            for stack in [false, true] {
                let mut m = checking(Machine::long());
                m.cpu.set_rflags(2 | if on { AC } else { 0 });
                m.cpu.fpu.init();
                m.cpu.fpu.load_constant(x86_cpu::x87::Constant::One);
                m.cpu.set_gpr(RDI, address);
                m.cpu.set_gpr(5, address);
                let mut code = opcode.to_vec();
                if stack {
                    // mod 01, [RBP+disp8]
                    code.extend([modrm & 0x38 | 0x45, 0]);
                } else {
                    code.push(modrm);
                }
                m.write(USER_CODE, &code);
                m.cpu.rip = USER_CODE;
                let vector = if stack { SS_FAULT } else { GP };
                let got = m.vector();
                assert_eq!((got, m.stack(0)), (vector, 0), "{code:x?} {on} {address:x}");
            }
        }
    }
    // The stack itself.
    for address in [1 << 63 | 1, ACROSS + 8] {
        let mut m = checking(Machine::long());
        m.write(USER_CODE, &[0x50]);
        m.cpu.rip = USER_CODE;
        m.cpu.set_gpr(RSP, address);
        assert_eq!((m.vector(), m.stack(0)), (SS_FAULT, 0), "{address:x}");
    }
}

/// CMPXCHG16B, FXSAVE and FXRSTOR with RBP as base: aligned, so that #GP is not for that.
#[test]
fn operands_of_the_stack_that_are_not_canonical() {
    for code in [
        &[0x48, 0x0f, 0xc7, 0x4d, 0][..],
        &[0x0f, 0xae, 0x45, 0],
        &[0x0f, 0xae, 0x4d, 0],
        &[0x0f, 0xae, 0x7d, 0], // CLFLUSH
        &[0x0f, 0x28, 0x45, 0], // MOVAPS
    ] {
        let mut m = Machine::long();
        m.cpu.features.cx16 = true;
        m.cpu.set_gpr(5, 1 << 63);
        m.write(CODE, code);
        m.cpu.rip = CODE;
        assert_eq!((m.vector(), m.stack(0)), (12, 0), "{code:x?}");
    }
}

/// SGDT, SIDT, LGDT and LIDT: #SS(0) "If a memory address referencing the SS segment is in a non-canonical
/// form", else #GP(0) (Intel SDM volume 2, "SGDT", "SIDT", "LGDT/LIDT", 64-bit mode exceptions; APM
/// volume 3 likewise, #SS and #GP). It comes before the alignment check.
#[test]
fn pseudo_descriptors_that_are_not_canonical() {
    const RBP: u8 = 5;
    // The last address has all but one byte in the lower half.
    for address in [1 << 63, 1 << 63 | 1, 0x7fff_ffff_fff7] {
        for operation in 0..4 {
            for (base, code, vector) in
                [(RBP, &[0x45, 0][..], 12), (RSP, &[0x04, 0x24], 12), (RDI, &[0x07], GP)]
            {
                for user in [false, true] {
                    if user && operation >= 2 {
                        continue;
                    }
                    let mut m = if user { checking(Machine::long()) } else { Machine::long() };
                    let at = if user { USER_CODE } else { CODE };
                    // Not on the stack that the operand is on.
                    m.set_gate(12, 0x8e, 1);
                    m.set_gate(GP as u8, 0x8e, 1);
                    m.cpu.set_gpr(base, address);
                    let code = [&[0x0f, 0x01, operation << 3 | code[0]], &code[1..]].concat();
                    m.write(at, &code);
                    m.cpu.rip = at;
                    let got = (m.vector(), m.stack(0), m.stack(1));
                    assert_eq!(got, (vector, 0, at), "{code:x?} {address:x} {user}");
                }
            }
        }
    }
}
