//! What is counted of data accesses, ports, x87, MMX and SSE. Every expectation is a hand count by
//! the rules of `Facts` and `Class`; the events are those of Intel's SDM, volume 3, and AMD's BKDG.

use iced_x86::{IcedError, code_asm::*};
use x86_cpu::{
    alignment::AlignmentRule,
    block::Translations,
    class::Class,
    observe::{Cx, Facts, Plain},
    run::Exit,
    timing::Budget,
};

use crate::machine::*;

/// The first byte of linear memory that is not mapped.
const UNMAPPED: u64 = 0x20_0000;

type Program<'a> = &'a dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// A 64-bit machine with RSI and RDI at eight-byte boundaries of mapped memory.
fn machine() -> Machine {
    let mut m = Machine::long();
    m.cpu.set_gpr(RSI, DATA);
    m.cpu.set_gpr(RDI, DATA + 0x800);
    m
}

/// Runs a program with an HLT behind it, and gives what was counted.
fn finish(mut m: Machine, program: Program<'_>) -> Facts {
    m.load(CODE, 64, |a| {
        program(a).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip >> 12, CODE >> 12, "the program faulted");
    m.facts
}

fn count(program: Program<'_>) -> Facts {
    finish(machine(), program)
}

/// Runs a program that ends in an exception of `vector`.
fn fault(m: &mut Machine, vector: u64, program: Program<'_>) {
    m.load(CODE, 64, |a| program(a).unwrap());
    assert_eq!(m.vector(), vector);
}

#[track_caller]
fn accesses(expected: [u64; 2], program: Program<'_>) {
    let facts = count(program);
    assert_eq!([facts.loads, facts.stores], expected);
    assert_eq!(facts.misaligned, 0);
}

/// Moves, arithmetic and read-modify-write: a read-modify-write is one load and one store, whether
/// or not the value changes.
#[test]
fn loads_and_stores() {
    accesses([0, 0], &|a| {
        a.nop()?;
        a.lea(rax, ptr(rsi + 8))?;
        a.prefetcht0(byte_ptr(rsi))?;
        a.clflush(byte_ptr(rsi))
    });
    accesses([1, 0], &|a| a.mov(rax, qword_ptr(rsi)));
    accesses([0, 1], &|a| a.mov(byte_ptr(rsi), al));
    accesses([1, 0], &|a| a.cmp(dword_ptr(rsi), eax));
    accesses([1, 1], &|a| a.add(dword_ptr(rsi), eax));
    accesses([1, 1], &|a| a.inc(word_ptr(rsi)));
    accesses([1, 0], &|a| a.xlatb());
    accesses([1, 0], &|a| a.bt(dword_ptr(rsi), 3));
    accesses([1, 1], &|a| a.lock().bts(dword_ptr(rsi), 3));
    accesses([1, 1], &|a| a.xchg(qword_ptr(rsi), rbx));
    accesses([1, 1], &|a| a.lock().xadd(dword_ptr(rsi), ebx));
    // Equal and not equal: the old value is written back.
    accesses([1, 1], &|a| a.cmpxchg(byte_ptr(rsi), bl));
    accesses([1, 1], &|a| {
        a.mov(eax, 1)?;
        a.lock().cmpxchg(dword_ptr(rsi), ebx)
    });
    accesses([1, 1], &|a| a.lock().cmpxchg8b(qword_ptr(rsi)));
}

/// Each slot of the stack is an access.
#[test]
fn stack_accesses() {
    accesses([1, 2], &|a| {
        a.push(rax)?;
        a.push(1)?;
        a.pop(rcx)
    });
    accesses([1, 1], &|a| a.push(qword_ptr(rsi)));
    accesses([1, 1], &|a| a.pop(qword_ptr(rsi)));
    accesses([1, 1], &|a| {
        a.pushfq()?;
        a.popfq()
    });
    // CALL and RET, then a CALL through memory to the same RET.
    accesses([1 + 2, 1 + 2], &|a| {
        let mut over = a.create_label();
        let mut callee = a.create_label();
        a.jmp(over)?;
        a.set_label(&mut callee)?;
        a.ret()?;
        a.set_label(&mut over)?;
        a.call(callee)?;
        a.lea(rax, ptr(callee))?;
        a.mov(qword_ptr(rsi), rax)?;
        a.call(qword_ptr(rsi))
    });
    // RBP, then two frame pointers copied and the new one pushed; LEAVE pops RBP.
    accesses([2, 4], &|a| {
        a.mov(rbp, DATA + 0x400)?;
        a.enter(16, 3)
    });
    accesses([1, 1], &|a| {
        a.enter(16, 0)?;
        a.leave()
    });
    // Five slots are popped by IRETQ, two by RETFQ.
    accesses([7, 7], &|a| {
        a.mov(rax, rsp)?;
        a.push(i32::from(sel::DATA))?;
        a.push(rax)?;
        a.pushfq()?;
        a.push(i32::from(sel::CODE64))?;
        let mut next = a.create_label();
        a.lea(rax, ptr(next))?;
        a.push(rax)?;
        a.iretq()?;
        a.set_label(&mut next)?;
        a.push(i32::from(sel::CODE64))?;
        let mut last = a.create_label();
        a.lea(rax, ptr(last))?;
        a.push(rax)?;
        a.db(&[0x48, 0xcb])?;
        a.set_label(&mut last)?;
        a.nop()
    });
}

/// PUSHA writes eight slots; POPA skips that of ESP and reads seven (SDM volume 2, "POPA"). A far
/// pointer in memory is two reads, CALL FAR pushes two.
#[test]
fn legacy_stack_accesses() {
    let mut m = Machine::protected();
    m.cpu.set_gpr(RSI, DATA);
    m.write_u32(DATA, CODE as u32 + 0x100);
    m.write_u16(DATA + 4, sel::CODE32);
    m.write(CODE + 0x100, &[0xcb]);
    m.load(CODE, 32, |a| {
        a.pushad().unwrap();
        a.popad().unwrap();
        a.call(fword_ptr(esi)).unwrap();
        a.hlt().unwrap();
    });
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip >> 8, CODE >> 8);
    // The return pops two more.
    assert_eq!((m.facts.loads, m.facts.stores), (7 + 2 + 2, 8 + 2));
}

/// The frame of an exception or an interrupt counts slot by slot; its gate and stack pointers do
/// not.
#[test]
fn frames() {
    let mut m = machine();
    fault(&mut m, 6, &|a| a.ud2());
    assert_eq!((m.facts.loads, m.facts.stores), (0, 5));
    let mut m = machine();
    fault(&mut m, 0x80, &|a| a.int(0x80));
    assert_eq!((m.facts.loads, m.facts.stores), (0, 5));
    let mut m = machine();
    m.interrupt(0x40);
    assert_eq!((m.facts.loads, m.facts.stores), (0, 5));
    // Real mode: FLAGS, CS and IP.
    let mut m = Machine::real();
    m.interrupt(0x40);
    assert_eq!((m.facts.loads, m.facts.stores), (0, 3));
}

/// On the stack of a more privileged level it is that level's accesses.
#[test]
fn frames_on_an_inner_stack() {
    let inner = |m: &Machine| (m.facts.stores, m.facts.inner.stores, m.facts.inner.misaligned);
    let mut m = Machine::long().at_user();
    m.cpu.rip = USER_CODE;
    m.interrupt(0x40);
    assert_eq!(inner(&m), (0, 5, 0));
    // A page fault, with its error code; doublewords at the end of the stack that are not aligned.
    let mut m = Machine::protected().at_user();
    m.write_u32(TSS + 4, KERNEL_STACK as u32 - 1);
    m.cpu.rip = USER_CODE;
    m.exception(14, Some(4));
    // At 1FFFBh and then 4 less each: across a multiple of 8 every second time.
    assert_eq!(inner(&m), (0, 6, 3));
    // That stack is not there: #PF becomes #DF, whose stack is.
    let mut m = Machine::long().at_user();
    m.set_gate(8, 0x8e, 1);
    m.write_u64(TSS + 4, (2 << 20) + 16);
    m.cpu.rip = USER_CODE;
    m.interrupt(0x40);
    assert_eq!((m.handler(), inner(&m)), (8, (0, 6, 0)));
}

/// Strings: each element, however they are moved.
#[test]
fn string_accesses() {
    accesses([1, 1], &|a| a.movsd());
    accesses([2, 0], &|a| a.cmpsq());
    accesses([1, 0], &|a| a.scasb());
    accesses([1, 0], &|a| a.lodsw());
    accesses([0, 1], &|a| a.stosd());
    // More than a page, forwards.
    accesses([5000, 5000], &|a| {
        a.mov(edi, 0x4_0000)?;
        a.mov(ecx, 5000)?;
        a.rep().movsb()
    });
    // Backwards, element by element.
    accesses([100, 100], &|a| {
        a.std()?;
        a.mov(ecx, 100)?;
        a.rep().movsw()
    });
    accesses([0, 300], &|a| {
        a.mov(ecx, 300)?;
        a.rep().stosq()
    });
    accesses([70, 0], &|a| {
        a.mov(ecx, 70)?;
        a.rep().lodsb()
    });
    accesses([0, 0], &|a| {
        a.xor(ecx, ecx)?;
        a.rep().stosb()
    });
    // Nothing differs up to the end; SCAS of zeros against one stops at once.
    accesses([2 * 9 + 1, 0], &|a| {
        a.mov(ecx, 9)?;
        a.repe().cmpsd()?;
        a.mov(al, 1)?;
        a.mov(ecx, 9)?;
        a.repe().scasb()
    });
}

/// A 16-byte operand is one access; longer ones move by eight bytes, with rests of four and two.
#[test]
fn wide_accesses() {
    accesses([1, 1], &|a| {
        a.movaps(xmm0, xmmword_ptr(rsi))?;
        a.movdqu(xmmword_ptr(rdi), xmm0)
    });
    accesses([1, 1], &|a| {
        a.addss(xmm0, dword_ptr(rsi))?;
        a.movhps(qword_ptr(rdi), xmm0)
    });
    accesses([1 + 2, 1 + 2], &|a| {
        a.fninit()?;
        a.fld(qword_ptr(rsi))?;
        a.fld(tbyte_ptr(rsi))?;
        a.fstp(tbyte_ptr(rdi))?;
        a.fistp(word_ptr(rdi))
    });
    // 28 bytes: three of eight and one of four.
    accesses([4, 4], &|a| {
        a.fnstenv(ptr(rdi))?;
        a.fldenv(ptr(rdi))
    });
    // 160 bytes and 16 registers written; 512 bytes read.
    accesses([64, 20 + 32], &|a| {
        a.fxsave(ptr(rdi))?;
        a.fxrstor(ptr(rdi))
    });
    // Ten bytes.
    accesses([0, 2], &|a| a.sgdt(ptr(rdi)));
    // Any chosen byte makes one store of MASKMOVQ, none makes none.
    accesses([0, 1], &|a| {
        a.maskmovdqu(xmm0, xmm1)?;
        a.pcmpeqd(xmm1, xmm1)?;
        a.maskmovdqu(xmm0, xmm1)
    });
    // Across pages it is one access as well.
    let facts = count(&|a| {
        a.mov(edi, 0x1_4ff8)?;
        a.movups(xmmword_ptr(rdi), xmm0)
    });
    assert_eq!((facts.loads, facts.stores, facts.misaligned), (0, 1, 0));
}

/// What an instruction that faults had accessed does not count; the frame of the exception does.
#[test]
fn faulting_instructions() {
    // (misaligned) read, then a write to a page that is not there: six slots with the error code.
    let mut m = machine();
    fault(&mut m, 14, &|a| {
        a.mov(edi, UNMAPPED as u32)?;
        a.mov(rax, qword_ptr(rsi + 8))?;
        a.add(rsi, 5)?;
        a.movsq()
    });
    assert_eq!((m.facts.loads, m.facts.stores, m.facts.misaligned), (1, 6, 0));
    // A zero divisor is read, five slots.
    let mut m = machine();
    fault(&mut m, 0, &|a| a.div(qword_ptr(rsi)));
    assert_eq!((m.facts.loads, m.facts.stores), (0, 5));
    // RET to an address that is not canonical.
    let mut m = machine();
    fault(&mut m, 13, &|a| {
        a.mov(rax, 1u64 << 60)?;
        a.push(rax)?;
        a.ret()
    });
    assert_eq!((m.facts.loads, m.facts.stores), (0, 1 + 6));
    // ENTER reads below its old frame until the pages end.
    let mut m = machine();
    fault(&mut m, 14, &|a| {
        a.mov(ebp, UNMAPPED as u32 + 8)?;
        a.enter(0, 3)
    });
    assert_eq!((m.facts.loads, m.facts.stores), (0, 6));
}

/// Finished iterations of a repeated instruction stay, and when it starts again nothing counts
/// twice.
#[test]
fn repeated_instruction_that_faults() {
    let mut m = machine();
    fault(&mut m, 14, &|a| {
        a.mov(edi, (UNMAPPED - 40) as u32)?;
        a.mov(ecx, 8)?;
        a.rep().movsq()?;
        a.hlt()
    });
    assert_eq!((m.facts.loads, m.facts.stores), (5, 5 + 6));
    // The page comes, backed by the first two megabytes, and the instruction goes on from the
    // frame.
    m.write_u64(PML4 + 0x2008, 0x87);
    m.cpu.rip = m.stack(1);
    let stack = m.stack(4);
    m.cpu.set_gpr(RSP, stack);
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip >> 12, CODE >> 12);
    assert_eq!((m.facts.loads, m.facts.stores), (8, 8 + 6));
    // OUTS reads four bytes; the fifth is not there.
    let mut m = machine();
    fault(&mut m, 14, &|a| {
        a.mov(esi, (UNMAPPED - 4) as u32)?;
        a.mov(ecx, 9)?;
        a.rep().outsb()
    });
    assert_eq!((m.facts.loads, m.facts.stores, m.facts.io_accesses), (4, 6, 4));
}

/// Over a million accesses of one instruction: more than a field of the running counts holds.
#[test]
fn long_repetition() {
    const ELEMENTS: u32 = 3_000_000;
    let mut m = machine();
    m.load(CODE, 64, |a| {
        a.mov(ecx, ELEMENTS).unwrap();
        a.mov(edi, 0x4_0000).unwrap();
        a.rep().lodsb().unwrap();
        a.hlt().unwrap();
    });
    // Ten megabytes of the same page table entry.
    for n in 1..8 {
        m.write_u64(PML4 + 0x2000 + 8 * n, 0x87);
    }
    assert_eq!(m.run_until(u64::MAX), Exit::Halt);
    assert_eq!((m.facts.loads, m.facts.stores), (u64::from(ELEMENTS), 0));
}

/// Both rules for accesses of each size at each offset. Expected: the offsets in eight bytes at
/// which an access is misaligned.
#[test]
fn alignment_rules() {
    const PENTIUM: [&[u64]; 4] = [&[], &[3, 7], &[1, 2, 3, 5, 6, 7], &[1, 2, 3, 4, 5, 6, 7]];
    const QUADWORD: [&[u64]; 4] = [&[], &[7], &[5, 6, 7], &[1, 2, 3, 4, 5, 6, 7]];
    for (rule, expected) in [(AlignmentRule::Pentium, PENTIUM), (AlignmentRule::Quadword, QUADWORD)]
    {
        for offset in 0..8 {
            for (size, offsets) in expected.iter().enumerate() {
                let mut m = machine();
                m.cpu.alignment = rule;
                m.cpu.set_gpr(RSI, DATA + offset);
                let facts = finish(m, &|a| match size {
                    0 => a.mov(byte_ptr(rsi), al),
                    1 => a.mov(ax, word_ptr(rsi)),
                    // A read-modify-write is one reference.
                    2 => a.add(dword_ptr(rsi), eax),
                    _ => a.mov(qword_ptr(rsi), rax),
                });
                let misaligned = u64::from(offsets.contains(&offset));
                assert_eq!(facts.misaligned, misaligned, "{rule:?}, {size} at {offset}");
            }
        }
    }
}

/// Operands of no register's size by the pieces they move in; 16 bytes as two of eight.
#[test]
fn alignment_of_wide_operands() {
    let misaligned = |program: Program<'_>| count(program).misaligned;
    // Ten bytes at 4: eight cross, two at 12 do not; at 7: eight cross, two at 15 cross.
    assert_eq!(misaligned(&|a| a.fld(tbyte_ptr(rsi + 4))), 1);
    assert_eq!(misaligned(&|a| a.fld(tbyte_ptr(rsi + 7))), 2);
    assert_eq!(misaligned(&|a| a.movups(xmm0, xmmword_ptr(rsi + 4))), 2);
    assert_eq!(misaligned(&|a| a.movups(xmm0, xmmword_ptr(rsi + 8))), 0);
    assert_eq!(misaligned(&|a| a.movups(xmmword_ptr(rsi + 1), xmm0)), 2);
}

/// Ports: each access and each element; misaligned ones only where the part counts them (Pentium
/// event 0Bh).
#[test]
fn port_accesses() {
    let program: Program<'_> = &|a| {
        a.mov(edx, 0x1233)?;
        a.in_(al, dx)?;
        a.in_(ax, dx)?;
        a.out(dx, eax)?;
        a.out(0x80, al)?;
        a.mov(edx, 0x1234)?;
        a.in_(eax, dx)?;
        a.mov(ecx, 3)?;
        a.rep().outsw()?;
        a.mov(ecx, 2)?;
        a.rep().insd()?;
        a.insb()
    };
    for (rule, misaligned) in [(AlignmentRule::Pentium, 2), (AlignmentRule::Quadword, 0)] {
        let mut m = machine();
        m.cpu.alignment = rule;
        let facts = finish(m, program);
        assert_eq!((facts.io_accesses, facts.loads, facts.stores), (11, 3, 3));
        assert_eq!(facts.misaligned, misaligned, "{rule:?}");
    }
    // A port that may not be accessed is not: IOPL 0, and a bitmap of ones.
    let mut m = Machine::long().at_user();
    m.cpu.tr.limit = 0x67;
    m.load(USER_CODE, 64, |a| a.in_(al, 0x80).unwrap());
    assert_eq!(m.vector(), 13);
    assert_eq!(m.facts.io_accesses, 0);
}

/// Memory operands of MMX instructions, among accesses of others (Pentium events 31h, 34h, 36h).
#[test]
fn mmx_operands() {
    let facts = count(&|a| {
        a.movq(mm0, qword_ptr(rsi))?;
        a.movq(mm1, mm0)?;
        // Crosses, and by the MMX form's four bytes does not.
        a.paddw(mm0, qword_ptr(rsi + 4))?;
        a.punpcklbw(mm0, dword_ptr(rsi + 4))?;
        a.movd(mm2, dword_ptr(rsi))?;
        a.pshufw(mm3, qword_ptr(rsi), 0x1b)?;
        a.pinsrw(mm3, word_ptr(rsi), 1)?;
        a.movq(qword_ptr(rdi + 1), mm0)?;
        a.movd(dword_ptr(rdi), mm0)?;
        a.pcmpeqd(mm1, mm1)?;
        a.maskmovq(mm0, mm1)?;
        // Not MMX.
        a.mov(rax, qword_ptr(rsi + 1))?;
        a.movaps(xmm0, xmmword_ptr(rsi))?;
        a.paddw(xmm0, xmmword_ptr(rsi))?;
        a.movq(qword_ptr(rdi), xmm0)?;
        a.emms()
    });
    assert_eq!((facts.mmx.loads, facts.mmx.stores, facts.mmx.misaligned), (6, 3, 2));
    assert_eq!((facts.loads, facts.stores, facts.misaligned), (9, 4, 3));
    let mut m = machine();
    m.cpu.set_gpr(RSI, UNMAPPED);
    fault(&mut m, 14, &|a| a.movq(mm0, qword_ptr(rsi)));
    assert_eq!((m.facts.mmx.loads, m.facts.loads), (0, 0));
}

/// The first instruction of one kind after the other (Pentium event 2Dh, P6 event CCh).
#[test]
fn fp_and_mmx_transitions() {
    let facts = count(&|a| {
        a.fninit()?;
        a.fld1()?;
        // To MMX.
        a.movq(mm0, mm1)?;
        a.paddb(mm0, mm1)?;
        a.movaps(xmm0, xmm1)?;
        a.fxsave(ptr(rdi))?;
        a.wait()?;
        a.emms()?;
        // To x87 by a control instruction.
        a.fnstcw(word_ptr(rdi))?;
        a.fldz()?;
        // EMMS is an MMX instruction; so is CVTPS2PI with its MMX destination.
        a.emms()?;
        a.cvtps2pi(mm0, xmm0)?;
        a.fninit()?;
        a.cvtps2pi(mm0, xmm0)
    });
    assert_eq!((facts.fp_to_mmx, facts.mmx_to_fp), (3, 2));
    // Made once by an instruction that faults and starts again; not made where #NM comes first.
    let mut m = machine();
    m.cpu.set_gpr(RSI, UNMAPPED);
    fault(&mut m, 14, &|a| {
        a.movq(mm0, qword_ptr(rsi))?;
        a.hlt()
    });
    assert_eq!(m.facts.fp_to_mmx, 1);
    m.write_u64(PML4 + 0x2008, 0x87);
    m.cpu.rip = CODE;
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.facts.fp_to_mmx, m.facts.mmx.loads), (1, 1));
    let mut m = machine();
    m.cpu.set_control(m.cpu.cr0() | 8, PML4, 0x220, 0x501);
    fault(&mut m, 7, &|a| a.movq(mm0, mm1));
    assert_eq!(m.facts.fp_to_mmx, 0);
}

/// What runs while nothing is counted decides whether the next one counts.
#[test]
fn transitions_across_uncounted_execution() {
    let mut m = machine();
    m.load(CODE, 64, |a| {
        a.movq(mm0, mm1).unwrap();
        a.movq(mm0, mm1).unwrap();
        a.fninit().unwrap();
        a.hlt().unwrap();
    });
    let mut plain = Cx { bus: &mut m.ports, ram: &m.memory.ram, observer: Plain };
    let until = m.cpu.time + 1;
    m.cpu.run(&mut plain, &mut Translations::new(), Budget::until(until));
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!((m.facts.fp_to_mmx, m.facts.mmx_to_fp), (0, 1));
}

/// Instructions of one class.
fn of_class(mut facts: Facts, class: Class) -> u64 {
    *facts.of_class(class).expect("a class")
}

/// Whether a saturating instruction on `a` and `b` had to saturate (Pentium event 2Fh): the bounds
/// of each element and one beyond.
#[test]
fn saturations() {
    type Mm = AsmRegisterMm;
    type Emit = fn(&mut CodeAssembler, Mm, Mm) -> Result<(), IcedError>;
    let cases: [(Emit, u64, u64, bool); 24] = [
        (CodeAssembler::paddsb, 0x0000_0000_0000_7e00, 0x0000_0000_0000_0100, false),
        (CodeAssembler::paddsb, 0x0000_0000_0000_7f00, 0x0000_0000_0000_0100, true),
        (CodeAssembler::paddsb, 0x8000_0000_0000_0000, 0xff00_0000_0000_0000, true),
        (CodeAssembler::paddsw, 0x0000_0000_00ff_00ff, 0x0000_0000_0001_0001, false),
        (CodeAssembler::paddsw, 0x8000_0000_0000_0000, 0x8000_0000_0000_0000, true),
        (CodeAssembler::paddusb, 0x0000_0000_0000_00fe, 0x0000_0000_0000_0001, false),
        (CodeAssembler::paddusb, 0x0000_0000_0000_00ff, 0x0000_0000_0000_0001, true),
        (CodeAssembler::paddusw, 0x00ff_0000_0000_0000, 0x0001_0000_0000_0000, false),
        (CodeAssembler::paddusw, 0xffff_0000_0000_0000, 0x0001_0000_0000_0000, true),
        (CodeAssembler::psubsb, 0x0000_0000_0000_0081, 0x0000_0000_0000_0001, false),
        (CodeAssembler::psubsb, 0x0000_0000_0000_0080, 0x0000_0000_0000_0001, true),
        (CodeAssembler::psubsw, 0x0000_0000_0000_7fff, 0x0000_0000_0000_ffff, true),
        (CodeAssembler::psubusb, 0x0000_0000_0000_0001, 0x0000_0000_0000_0001, false),
        (CodeAssembler::psubusb, 0x0000_0000_0000_0001, 0x0000_0000_0000_0002, true),
        (CodeAssembler::psubusw, 0x0001_0000_0000_0000, 0x0002_0000_0000_0000, true),
        (CodeAssembler::packsswb, 0x007f_ff80_0000_0001, 0x0000_0000_0000_0000, false),
        // The low byte of the word is the saturated result all the same.
        (CodeAssembler::packsswb, 0x0000_0000_0000_017f, 0x0000_0000_0000_0000, true),
        (CodeAssembler::packsswb, 0x0000_0000_0000_0000, 0xff7f_0000_0000_0000, true),
        (CodeAssembler::packssdw, 0x0000_7fff_ffff_8000, 0x0000_0000_0000_0000, false),
        (CodeAssembler::packssdw, 0x0000_8000_0000_0000, 0x0000_0000_0000_0000, true),
        (CodeAssembler::packuswb, 0x00ff_0000_0000_0000, 0x0000_0000_0000_00ff, false),
        (CodeAssembler::packuswb, 0x0000_0000_0000_0000, 0x0000_0000_0000_0100, true),
        (CodeAssembler::packuswb, 0x0000_ffff_0000_0000, 0x0000_0000_0000_0000, true),
        // Two elements saturate: one instruction.
        (CodeAssembler::paddusb, 0xffff_0000_0000_0000, 0xffff_0000_0000_0000, true),
    ];
    for (n, (emit, a, b, saturates)) in cases.into_iter().enumerate() {
        let m = machine();
        m.write_u64(DATA, a);
        m.write_u64(DATA + 8, b);
        let facts = finish(m, &|asm| {
            asm.movq(mm0, qword_ptr(rsi))?;
            asm.movq(mm1, qword_ptr(rsi + 8))?;
            emit(asm, mm0, mm1)
        });
        assert_eq!(of_class(facts, Class::MMX_SATURATING), 1, "case {n}");
        assert_eq!(facts.mmx_saturated, u64::from(saturates), "case {n}");
    }
    // The forms on XMM registers are not MMX instructions.
    let facts = count(&|a| {
        a.pcmpeqd(xmm0, xmm0)?;
        a.paddusb(xmm0, xmm0)?;
        a.packuswb(xmm0, xmm0)
    });
    assert_eq!((of_class(facts, Class::MMX_SATURATING), facts.mmx_saturated), (0, 0));
}

/// What numbers an instruction is about: all instructions with any case, x87 and SSE instructions with a
/// denormal operand, tiny results.
#[track_caller]
fn cases(expected: [u64; 4], data: &[u64], program: Program<'_>) {
    let m = machine();
    for (n, &data) in (0..).zip(data) {
        m.write_u64(DATA + 8 * n, data);
    }
    let facts = finish(m, program);
    let Facts { float_cases, x87_denormal_operands, sse_denormal_operands, tiny_results, .. } =
        facts;
    assert_eq!([float_cases, x87_denormal_operands, sse_denormal_operands, tiny_results], expected);
}

/// Of x87: P6 event 11h, K8 event DBh.
#[test]
fn numbers_of_x87() {
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    const TWO_POWER_MINUS_1000: u64 = 0x0170_0000_0000_0000;
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    const LARGEST: u64 = 0x7fef_ffff_ffff_ffff;
    // Normal numbers, zeros, an inexact quotient.
    cases([0; 4], &[ONE, 0], &|a| {
        a.fninit()?;
        a.fld(qword_ptr(rsi))?;
        a.fadd(qword_ptr(rsi))?;
        a.fmul(qword_ptr(rsi + 8))?;
        a.fldpi()?;
        a.fdivp(st1, st0)?;
        a.fstp(qword_ptr(rdi))
    });
    // The load of a denormal makes it normal; what is loaded is no operand of FADD any more. FADD with a
    // denormal in memory, FCOM with one.
    cases([3, 3, 0, 0], &[1, ONE], &|a| {
        a.fninit()?;
        a.fld(qword_ptr(rsi))?;
        a.fadd(qword_ptr(rsi + 8))?;
        a.fadd(qword_ptr(rsi))?;
        a.fcomp(qword_ptr(rsi))
    });
    // 2^-1000 squared is normal in the register, too small for a double, and is stored as zero; half of the
    // smallest normal double is exactly a denormal one. 2^1024 is too large.
    cases([3, 0, 0, 2], &[TWO_POWER_MINUS_1000, 0x0010_0000_0000_0000, LARGEST], &|a| {
        a.fninit()?;
        a.fld(qword_ptr(rsi))?;
        a.fmul(qword_ptr(rsi))?;
        a.fstp(qword_ptr(rdi))?;
        a.fld1()?;
        a.fchs()?;
        a.fld(qword_ptr(rsi + 8))?;
        a.fscale()?;
        a.fst(qword_ptr(rdi))?;
        a.fstp(st0)?;
        a.fld(qword_ptr(rsi + 16))?;
        a.fadd_2(st0, st0)?;
        a.fstp(qword_ptr(rdi))
    });
    // Infinity as an operand of FADD, FSQRT and FCOM; to move it and its sign is nothing.
    cases([3, 0, 0, 0], &[INFINITY], &|a| {
        a.fninit()?;
        a.fld(qword_ptr(rsi))?;
        a.fadd_2(st0, st0)?;
        a.fabs()?;
        a.fsqrt()?;
        a.fld(st0)?;
        a.fxch(st0, st1)?;
        a.fcompp()
    });
    // The smallest normal number of a register, halved: denormal, and then an operand; FILD of the same bits
    // is an integer.
    cases([2, 1, 0, 2], &[1 << 63, 1, 0x3fe0_0000_0000_0000], &|a| {
        a.fninit()?;
        a.fld(tword_ptr(rsi))?;
        a.fmul(qword_ptr(rsi + 16))?;
        a.fmul(qword_ptr(rsi + 16))?;
        a.fild(qword_ptr(rsi))
    });
}

/// Of SSE: P6 event 11h, K8 event DBh.
#[test]
fn numbers_of_sse() {
    const ONE: u64 = 0x3f80_0000;
    const SMALLEST: u64 = 0x0080_0000;
    let denormal_in_lane_1 = [ONE | 1 << 32, ONE | ONE << 32];
    // Added, compared, converted; MOVAPS, ANDPS and SHUFPS only move it, and ADDSS is about lane 0.
    cases([3, 0, 3, 1], &denormal_in_lane_1, &|a| {
        a.movaps(xmm0, xmmword_ptr(rsi))?;
        a.movaps(xmm1, xmm0)?;
        a.andps(xmm1, xmm0)?;
        a.shufps(xmm1, xmm0, 0)?;
        a.addss(xmm1, xmm0)?;
        a.xorps(xmm1, xmm1)?;
        // 1 + 0, and the denormal + 0, which is denormal again.
        a.addps(xmm1, xmm0)?;
        a.cmpps(xmm1, xmm0, 0)?;
        a.cvtps2pd(xmm1, xmm0)
    });
    // DAZ: a denormal is zero, and so is the sum.
    cases([0; 4], &[1 | 1 << 32, ONE, 0x1fc0], &|a| {
        a.ldmxcsr(dword_ptr(rsi + 16))?;
        a.movss(xmm0, dword_ptr(rsi))?;
        a.addss(xmm0, dword_ptr(rsi + 4))
    });
    // The smallest normal number halved, exactly; squared, which underflows; FTZ makes zero of it.
    let half = 0x3f00_0000;
    cases([2, 0, 0, 2], &[SMALLEST | half << 32, 0x9f80], &|a| {
        a.movss(xmm0, dword_ptr(rsi))?;
        a.mulss(xmm0, dword_ptr(rsi + 4))?;
        a.movss(xmm0, dword_ptr(rsi))?;
        a.mulss(xmm0, dword_ptr(rsi))?;
        a.ldmxcsr(dword_ptr(rsi + 8))?;
        a.movss(xmm0, dword_ptr(rsi))?;
        a.mulss(xmm0, dword_ptr(rsi + 4))
    });
    // MINSS gives an operand, and computes nothing. Doubles that are exactly a denormal single, and too large
    // for one.
    cases([3, 0, 1, 1], &[1, 0x3800_0000_0000_0000, 0x7fe0_0000_0000_0000], &|a| {
        a.xorps(xmm0, xmm0)?;
        a.minss(xmm0, dword_ptr(rsi))?;
        a.cvtsd2ss(xmm0, qword_ptr(rsi + 8))?;
        a.cvtsd2ss(xmm0, qword_ptr(rsi + 16))
    });
    // Infinity, as an operand of SQRTSS and COMISS; SQRTSS does not compute with its destination.
    cases([2, 0, 0, 0], &[0x7f80_0000 | ONE << 32], &|a| {
        a.sqrtss(xmm0, dword_ptr(rsi))?;
        a.comiss(xmm0, dword_ptr(rsi + 4))?;
        a.sqrtss(xmm0, dword_ptr(rsi + 4))
    });
    // An instruction that faults does not retire: #UD, without CR4.OSXMMEXCPT.
    let mut m = machine();
    m.write_u64(DATA, 1 << 32 | 0x1e80);
    fault(&mut m, 6, &|a| {
        a.ldmxcsr(dword_ptr(rsi))?;
        a.addss(xmm0, dword_ptr(rsi + 4))
    });
    assert_eq!(m.facts.float_cases, 0);
}

/// P6 event B3h: the six types; the other MMX instructions are of none.
#[test]
fn mmx_types() {
    let facts = count(&|a| {
        a.pmullw(mm0, mm1)?;
        a.pmulhw(mm0, mm1)?;
        a.pmaddwd(mm0, mm1)?;
        a.psllw(mm0, 3)?;
        a.psrad(mm0, mm1)?;
        a.packsswb(mm0, mm1)?;
        a.punpckhwd(mm0, mm1)?;
        a.punpckldq(mm0, mm1)?;
        a.punpcklbw(mm0, mm1)?;
        a.pxor(mm0, mm1)?;
        a.pandn(mm0, mm1)?;
        a.pand(mm0, mm1)?;
        a.por(mm0, mm1)?;
        a.paddd(mm0, mm1)?;
        a.psubsw(mm0, mm1)?;
        a.psubb(mm0, mm1)?;
        a.pavgb(mm0, mm1)?;
        a.psadbw(mm0, mm1)?;
        // Of no type.
        a.pcmpgtb(mm0, mm1)?;
        a.pmaxub(mm0, mm1)?;
        a.movq(mm0, mm1)?;
        a.movd(mm0, eax)?;
        a.pfadd(mm0, mm1)?;
        // Not MMX.
        a.pxor(xmm0, xmm1)?;
        a.paddd(xmm0, xmm1)?;
        a.emms()?;
        a.femms()
    });
    let class = |class| of_class(facts, class);
    assert_eq!(
        (class(Class::MMX_MULTIPLY), class(Class::MMX_SHIFT), class(Class::MMX_PACK)),
        (3, 2, 1)
    );
    assert_eq!(
        (class(Class::MMX_UNPACK), class(Class::MMX_LOGICAL), class(Class::MMX_ARITHMETIC)),
        (3, 4, 5)
    );
    assert_eq!((class(Class::MMX), class(Class::EMMS), class(Class::MMX_SATURATING)), (25, 1, 2));
}

/// Pentium event 22h and P6 event C1h: computation, however often its operand is popped or loaded;
/// no loads, stores, sign changes, exchanges, control.
#[test]
fn x87_operations() {
    let facts = count(&|a| {
        a.fninit()?;
        a.fld1()?;
        a.fldpi()?;
        a.fadd_2(st0, st1)?;
        a.fsub(dword_ptr(rsi))?;
        a.fimul(word_ptr(rsi))?;
        a.fsubrp(st1, st0)?;
        a.fld1()?;
        a.fdiv_2(st0, st1)?;
        a.fsqrt()?;
        a.fprem()?;
        a.fprem1()?;
        a.frndint()?;
        a.fscale()?;
        a.fcom_2(st0, st1)?;
        a.fucomi(st0, st1)?;
        a.ficom(dword_ptr(rsi))?;
        a.ftst()?;
        a.fsin()?;
        a.f2xm1()?;
        // Four on registers and memory up to FSUBRP, and twelve from FDIV on. What follows is ten,
        // beside FNINIT and three loads above.
        a.fabs()?;
        a.fchs()?;
        a.fxam()?;
        a.fxch(st0, st1)?;
        a.fild(dword_ptr(rsi))?;
        a.fstp(dword_ptr(rdi))?;
        a.fist(dword_ptr(rdi))?;
        a.fcmovb(st0, st1)?;
        a.fnop()?;
        a.fnstsw(ax)?;
        a.wait()
    });
    assert_eq!(
        (of_class(facts, Class::X87_FLOP), of_class(facts, Class::X87)),
        (4 + 12, 4 + 12 + 10 + 4)
    );
}

/// Pentium III event D9h: arithmetic on packed and on scalar operands.
#[test]
fn sse_arithmetic() {
    let facts = count(&|a| {
        a.addps(xmm0, xmm1)?;
        a.mulpd(xmm0, xmm1)?;
        a.rcpps(xmm0, xmm1)?;
        a.maxps(xmm0, xmmword_ptr(rsi))?;
        a.haddps(xmm0, xmm1)?;
        a.subss(xmm0, xmm1)?;
        a.sqrtsd(xmm0, xmm1)?;
        a.rsqrtss(xmm0, dword_ptr(rsi))?;
        // No arithmetic.
        a.movaps(xmm0, xmm1)?;
        a.movss(xmm0, xmm1)?;
        a.cmpps(xmm0, xmm1, 1)?;
        a.ucomiss(xmm0, xmm1)?;
        a.xorps(xmm0, xmm1)?;
        a.shufps(xmm0, xmm1, 0)?;
        a.cvtsi2ss(xmm0, eax)?;
        a.cvtdq2ps(xmm0, xmm1)?;
        a.paddd(xmm0, xmm1)
    });
    let class = |class| of_class(facts, class);
    assert_eq!((class(Class::SSE_PACKED_ARITHMETIC), class(Class::SSE_SCALAR_ARITHMETIC)), (5, 3));
    assert_eq!((class(Class::SSE_PACKED), class(Class::SSE_SCALAR)), (5 + 6, 3 + 3));
}
