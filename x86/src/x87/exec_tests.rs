//! What surrounds the operations: availability, pending exceptions, memory faults, images, and
//! that every x87 encoding has a handler. The programs run in real mode, where vector n is made to
//! halt at an address of its own.

#![allow(unsafe_code, reason = "RAM is handed to the processor as a host address")]

use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions};

use super::{Fpu, handler, lower};
use crate::block::Translations;
use crate::bus::unconnected::Unconnected;
use crate::control_registers::cr0;
use crate::cpu::Cpu;
use crate::descriptor::Segment;
use crate::features::Features;
use crate::insn::{gpr, seg};
use crate::lower::Lowering;
use crate::observe::{Cx, Plain};
use crate::ram::{PAGE, Ram, Region};
use crate::run::Exit;

const PROGRAM: u64 = 0x1000;
const HANDLERS: u64 = 0x500;
const DATA: u64 = 0x3000;
const SIZE: usize = 0x20000;
const HLT: u8 = 0xF4;

/// What a program left.
struct Outcome {
    cpu: Cpu,
    memory: Vec<u8>,
    /// The exception that ended it; `None` if it ran to its end.
    vector: Option<u8>,
    ferr: u32,
}

/// Runs `code` in real mode with DS = 0 and `data` at [`DATA`].
fn run(code: &[u8], data: &[u8], prepare: impl FnOnce(&mut Cpu)) -> Outcome {
    let pages = SIZE / PAGE as usize;
    let mut memory = vec![[0u8; PAGE as usize]; pages].concat();
    for n in 0..32u16 {
        let at = usize::from(n);
        memory[4 * at..4 * at + 2].copy_from_slice(&(HANDLERS as u16 + n).to_le_bytes());
        memory[HANDLERS as usize + at] = HLT;
    }
    memory[PROGRAM as usize..PROGRAM as usize + code.len()].copy_from_slice(code);
    memory[PROGRAM as usize + code.len()] = HLT;
    memory[DATA as usize..DATA as usize + data.len()].copy_from_slice(data);
    let region = Region { gpa: 0, host: memory.as_mut_ptr(), len: SIZE as u64 };
    // SAFETY: `memory` outlives `ram`, and is not looked at until the run is over.
    let ram = unsafe { Ram::new(&[region]) };
    let mut cpu = Cpu::new(Features::K8);
    cpu.set_segment(seg::CS, Segment::real(0, true));
    cpu.rip = PROGRAM;
    cpu.set_gpr(gpr::RSP, 0x8000);
    cpu.fpu.init();
    prepare(&mut cpu);
    let mut bus = Unconnected::default();
    let mut cx = Cx { bus: &mut bus, ram: &ram, observer: Plain };
    let mut translations = Translations::new();
    for _ in 0..10 {
        if cpu.run(&mut cx, &mut translations, crate::timing::Budget::until(1000)) == Exit::Halt {
            break;
        }
    }
    assert!(cpu.halted, "the program did not come to its end");
    let after_hlt = cpu.rip - 1;
    let vector =
        (HANDLERS..HANDLERS + 32).contains(&after_hlt).then(|| (after_hlt - HANDLERS) as u8);
    drop(ram);
    Outcome { cpu, memory, vector, ferr: bus.ferr }
}

fn with_cr0(bits: u64) -> impl FnOnce(&mut Cpu) {
    move |cpu| cpu.set_control(bits, 0, 0, 0)
}

const FLD1: [u8; 2] = [0xD9, 0xE8];
const FLDZ: [u8; 2] = [0xD9, 0xEE];
const FWAIT: u8 = 0x9B;
const FNSTSW_AX: [u8; 2] = [0xDF, 0xE0];

/// #NM by EM and TS for all but FWAIT, which looks at MP and TS (AMD64 APM volume 2, table 6-1 of
/// section 6.4).
#[test]
fn device_not_available() {
    for (bits, x87, wait) in [
        (0, None, None),
        (cr0::EM, Some(7), None),
        (cr0::TS, Some(7), None),
        (cr0::MP, None, None),
        (cr0::MP | cr0::TS, Some(7), Some(7)),
        (cr0::MP | cr0::EM, Some(7), None),
    ] {
        assert_eq!(run(&FLD1, &[], with_cr0(bits)).vector, x87, "FLD1, CR0 {bits:x}");
        assert_eq!(run(&FNSTSW_AX, &[], with_cr0(bits)).vector, x87, "FNSTSW, CR0 {bits:x}");
        assert_eq!(run(&[FWAIT], &[], with_cr0(bits)).vector, wait, "FWAIT, CR0 {bits:x}");
    }
}

/// A division by zero, unmasked, is reported by the next waiting instruction: by #MF with CR0.NE,
/// by FERR# without (AMD64 APM volume 2, section 8.2.17).
#[test]
fn pending_exception() {
    // FLDCW [DATA]; FLD1; FLDZ; FDIVP; FNSTSW AX; FWAIT
    let load = [0xD9, 0x2E, 0x00, 0x30];
    let code = [&load[..], &FLD1, &FLDZ, &[0xDE, 0xF9], &FNSTSW_AX, &[FWAIT]].concat();
    let control = 0x037Bu16.to_le_bytes();
    let outcome = run(&code, &control, with_cr0(cr0::NE));
    assert_eq!(outcome.vector, Some(16));
    // ZE, ES and B; TOP 6: the operands are still there.
    assert_eq!(outcome.cpu.gpr(gpr::RAX) & 0xFFFF, 0xB084);
    assert_eq!(outcome.ferr, 0);
    let outcome = run(&code, &control, with_cr0(0));
    assert_eq!((outcome.vector, outcome.ferr), (None, 1));
}

/// An operand beyond the segment's limit: #GP, and neither stack nor status has changed (AMD64 APM
/// volume 2, section 8.1.3: faults are restartable).
#[test]
fn memory_faults_leave_the_unit_alone() {
    // QWORD at FFFCh: FSTP, FLD, FADD, FISTTP; TBYTE: FSTP, FBSTP; FNSAVE.
    let operands: [[u8; 4]; 7] = [
        [0xDD, 0x1E, 0xFC, 0xFF],
        [0xDD, 0x06, 0xFC, 0xFF],
        [0xDC, 0x06, 0xFC, 0xFF],
        [0xDD, 0x0E, 0xFC, 0xFF],
        [0xDB, 0x3E, 0xFC, 0xFF],
        [0xDF, 0x36, 0xFC, 0xFF],
        [0xDD, 0x36, 0xFC, 0xFF],
    ];
    for code in operands {
        let mut before = Fpu::default();
        let outcome = run(&code, &[], |cpu| {
            cpu.fpu.load_constant(super::Constant::Pi);
            before = cpu.fpu;
        });
        assert_eq!(outcome.vector, Some(13), "{code:x?}");
        assert_eq!(outcome.cpu.fpu, before, "{code:x?}");
    }
}

/// FNSTENV in real mode: 14 bytes, linear addresses of instruction and operand, and all exceptions
/// masked afterwards (AMD64 APM volume 2, figure 11-10).
#[test]
fn real_mode_environment() {
    // FLD DWORD [3000h] at 0:1000h; FNSTENV [3010h]
    let code = [0xD9, 0x06, 0x00, 0x30, 0xD9, 0x36, 0x10, 0x30];
    let outcome = run(&code, &1.5f32.to_le_bytes(), |cpu| {
        cpu.fpu.set_control_word(0x0360);
        cpu.set_segment(seg::DS, Segment::real(0x1000, false));
    });
    assert_eq!(outcome.vector, None);
    let image = &outcome.memory[0x1_3010..0x1_301E];
    let words: Vec<u16> = image.chunks(2).map(|w| u16::from_le_bytes([w[0], w[1]])).collect();
    // Control; status with TOP 7; register 7 holds the zero that the segment has; the instruction
    // at 1000h, opcode D9 06; the operand at 1_3000h.
    assert_eq!(words, [0x0360, 0x3800, 0x7FFF, 0x1000, 0x0106, 0x3000, 0x1000]);
    assert_eq!(outcome.cpu.fpu.control_word(), 0x037F);
}

/// The opcode that the environment keeps is that of the last instruction that is no control
/// instruction: the low three bits of its first byte and its second byte, whatever prefixes there
/// are (AMD64 APM volume 1, "x87 Opcode").
#[test]
fn last_opcode() {
    // FNSTENV [3010h] with a 32-bit image, of which the fourth dword has it in bits 10:0.
    const FNSTENV: [u8; 5] = [0x66, 0xD9, 0x36, 0x10, 0x30];
    for (code, opcode) in [
        (&FLD1[..], 0x1E8),
        (&[0xDF, 0xC0], 0x7C0),                         // FFREEP ST(0)
        (&[0x26, 0x67, 0xD8, 0x05, 0, 0x30, 0, 0], 5),  // FADD ES:[00003000h]
        (&[0x36, 0xDB, 0x06, 0x00, 0x30], 0x306),       // FILD SS:[3000h]
        (&[0xD9, 0xE8, 0xDB, 0xE2, 0x9B], 0x1E8),       // FLD1; FNCLEX; FWAIT
        (&[0xD9, 0xE8, 0xDB, 0xE3], 0),                 // FLD1; FNINIT
        (&[0xD9, 0xE8, 0xD9, 0x3E, 0x00, 0x30], 0x1E8), // FLD1; FNSTCW [3000h]
    ] {
        let outcome = run(&[code, &FNSTENV].concat(), &[], |_| {});
        assert_eq!(outcome.vector, None, "{code:x?}");
        let image = &outcome.memory[0x3010..0x302C];
        let dword = u32::from_le_bytes([image[16], image[17], image[18], image[19]]);
        assert_eq!(dword & 0x7FF, opcode, "{code:x?}");
        assert_eq!(dword >> 12, 0, "the instruction is below 64 KiB: {code:x?}");
    }
}

/// AMD's FXSAVE stores the pointers to the last instruction and its data and the last opcode only while
/// the exception-summary bit of the status word is set (AMD64 APM volume 5, "FXSAVE"). The image of Intel
/// SDM volume 2, "FXSAVE", has them without a condition.
#[test]
fn fxsave_pointers() {
    // FLDCW [3000h]; FLD1; FLDZ; FDIVP; FXSAVE [3100h]
    let code = [
        &[0xD9, 0x2E, 0x00, 0x30][..],
        &FLD1,
        &FLDZ,
        &[0xDE, 0xF9],
        &[0x0F, 0xAE, 0x06, 0x00, 0x31],
    ]
    .concat();
    // FDIVP comes behind FLDCW of four bytes, FLD1 and FLDZ.
    let instruction = PROGRAM as u32 + 8;
    for (always, control, opcode, pointer) in [
        (false, 0x037Bu16, 0x6F9, instruction),
        (false, 0x037F, 0, 0),
        (true, 0x037B, 0x6F9, instruction),
        (true, 0x037F, 0x6F9, instruction),
    ] {
        let prepare = |cpu: &mut Cpu| cpu.features.fxsave_pointers = always;
        let outcome = run(&code, &control.to_le_bytes(), prepare);
        assert_eq!(outcome.vector, None);
        let image = &outcome.memory[0x3100..];
        assert_eq!(u16::from_le_bytes([image[6], image[7]]), opcode);
        assert_eq!(u32::from_le_bytes([image[8], image[9], image[10], image[11]]), pointer);
    }
    // FXRSTOR of an image that has pointers and no exception pending.
    let mut image = [0; 512];
    image[..2].copy_from_slice(&0x037Fu16.to_le_bytes());
    image[6..8].copy_from_slice(&0x123u16.to_le_bytes());
    image[8..12].copy_from_slice(&0x4567u32.to_le_bytes());
    image[24..28].copy_from_slice(&0x1F80u32.to_le_bytes());
    for (always, opcode, pointer) in [(false, 0x1E8, PROGRAM), (true, 0x123, 0x4567)] {
        // FLD1; FXRSTOR [3000h]
        let code = [&FLD1[..], &[0x0F, 0xAE, 0x0E, 0x00, 0x30]].concat();
        let outcome = run(&code, &image, |cpu| cpu.features.fxsave_pointers = always);
        let fpu = outcome.cpu.fpu;
        assert_eq!((outcome.vector, fpu.fop, fpu.fip), (None, opcode, pointer));
    }
}

/// FERR# is asserted once for each exception, before the waiting instruction executes; masking or
/// clearing the exception ends it (Intel SDM volume 1, "MS-DOS Compatibility Sub-mode").
#[test]
fn ferr_once_for_each_exception() {
    // FLDCW [3000h], and then FLD1; FLDZ; FDIVP.
    let start = [0xD9, 0x2E, 0x00, 0x30];
    let divide = [FLD1, FLDZ, [0xDE, 0xF9]].concat();
    let fnclex = [0xDB, 0xE2];
    let fninit = [0xDB, 0xE3];
    let fnstenv = [0xD9, 0x36, 0x10, 0x30];
    let fnsave = [0xDD, 0x36, 0x10, 0x30];
    for (code, ferr) in [
        // FWAIT twice, FNOP: one exception.
        ([&divide[..], &[FWAIT, FWAIT, 0xD9, 0xD0]].concat(), 1),
        // Never waited for.
        ([&divide[..], &fnclex, &[FWAIT]].concat(), 0),
        ([&divide[..], &[FWAIT], &fnclex, &divide, &[FWAIT]].concat(), 2),
        ([&divide[..], &[FWAIT], &fninit, &start, &divide, &[FWAIT]].concat(), 2),
        ([&divide[..], &[FWAIT], &fnstenv, &[FWAIT]].concat(), 1),
        ([&divide[..], &[FWAIT], &fnsave, &start, &divide, &[FWAIT]].concat(), 2),
    ] {
        let code = [&start[..], &code].concat();
        let outcome = run(&code, &0x037Bu16.to_le_bytes(), with_cr0(0));
        assert_eq!((outcome.vector, outcome.ferr), (None, ferr), "{code:x?}");
    }
}

/// FXSAVE wants 16-byte alignment; its image has the abridged tag word and ST(0) at 32.
#[test]
fn fxsave_image() {
    // FLD1; FXSAVE [3100h]
    let code = [FLD1[0], FLD1[1], 0x0F, 0xAE, 0x06, 0x00, 0x31];
    let outcome = run(&code, &[], |_| {});
    assert_eq!(outcome.vector, None);
    let image = &outcome.memory[0x3100..0x3100 + 160];
    assert_eq!(image[..6], [0x7F, 0x03, 0x00, 0x38, 0x80, 0x00]);
    assert_eq!(image[24..32], [0x80, 0x1F, 0, 0, 0xFF, 0xFF, 0, 0]);
    assert_eq!(image[32..42], [0, 0, 0, 0, 0, 0, 0, 0x80, 0xFF, 0x3F]);
    let misaligned = [0x0F, 0xAE, 0x06, 0x08, 0x31];
    assert_eq!(run(&misaligned, &[], |_| {}).vector, Some(13));
}

/// FXRSTOR takes back what FXSAVE stored.
#[test]
fn fxrstor_takes_back() {
    // FXSAVE [3100h]; FNINIT; FXRSTOR [3100h]
    let code = [0x0F, 0xAE, 0x06, 0x00, 0x31, 0xDB, 0xE3, 0x0F, 0xAE, 0x0E, 0x00, 0x31];
    let mut before = Fpu::default();
    let outcome = run(&code, &[], |cpu| {
        cpu.fpu.set_control_word(0x0A7F);
        cpu.fpu.load_constant(super::Constant::LnOf2);
        cpu.fpu.load_constant(super::Constant::One);
        cpu.fpu.increment_top();
        before = cpu.fpu;
    });
    assert_eq!(outcome.vector, None);
    assert_eq!(outcome.cpu.fpu, before);
}

/// Every encoding from D8h to DFh that the decoder knows as an instruction has a handler.
#[test]
fn every_encoding_is_lowered() {
    let cpu = Cpu::new(Features::K8);
    let lowering = Lowering::of(&cpu);
    let mut known = 0;
    for opcode in 0xD8..=0xDFu8 {
        for modrm in 0..=255u8 {
            let code = [opcode, modrm, 0, 0, 0, 0];
            let instruction = Decoder::new(16, &code, DecoderOptions::AMD).decode();
            if instruction.code() == Code::INVALID {
                continue;
            }
            assert!(
                instruction.cpuid_features().iter().all(|feature| matches!(
                    feature,
                    CpuidFeature::FPU
                        | CpuidFeature::FPU287
                        | CpuidFeature::FPU387
                        | CpuidFeature::CMOV
                        | CpuidFeature::SSE3
                        | CpuidFeature::INTEL8086
                )),
                "{opcode:x} {modrm:x} is {:?} of {:?}",
                instruction.code(),
                instruction.cpuid_features()
            );
            let insn = lower(&lowering, &instruction, lowering.insn(&instruction)).unwrap().insn;
            assert!(handler::<Plain>(&insn).is_some(), "{opcode:x} {modrm:x} {insn:?}");
            known += 1;
        }
    }
    // Memory forms: 8 x 192, without D9/1, DB/4, DB/6 and DD/5. Register forms of D8 to DF: 64, 52,
    // 33, 53, 64, 48, 57, 49.
    assert_eq!(known, 8 * 192 - 4 * 24 + 64 + 52 + 33 + 53 + 64 + 48 + 57 + 49);
}
