//! From decoded instructions to blocks of lowered ones.
//!
//! The decoder is given the offset from the block's first byte as instruction pointer. So
//! RIP-relative operands and near branch targets come out relative to the block, and a block holds
//! whatever the linear address of its page.

mod decode;
pub(crate) mod unread;

use iced_x86::{
    Code, CpuidFeature, EncodingKind, Instruction, MemorySize, Mnemonic, OpKind, Register,
};

use self::decode::{Decoded, MAX_LENGTH, decode};

use crate::{
    access::OF_DEVICE,
    block::{Ending, Mode, Quiet},
    class::{BlockClasses, Class},
    cpu::Cpu,
    descriptor::Segment,
    effects,
    exec::{self, string::is_repeated},
    features::Features,
    insn::{AddrMask, BLOCK_BASE, File, Files, Form, HIGH_BYTE, Insn, Mem, Size, ZERO, seg},
    mode::CodeSize,
    operation::{Family, Operation},
    simd,
    timing::CycleCosts,
    vector,
    watch::{self, TransferKind},
    x87,
};

/// How a lowered instruction leaves its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The next instruction of the block follows.
    Next,
    /// Last of its block; its handler has set RIP.
    Branch,
    /// The same, and the only one of its block: a far transfer goes past the point where it could be
    /// executed again, and still accesses memory.
    Far,
    /// Last of its block; RIP falls through to the next instruction, before which the run loop
    /// looks at what may have changed.
    Fall,
}

/// A lowered instruction.
pub(crate) struct Lowered {
    pub(crate) insn: Insn,
    /// What it is counted as when it retires.
    pub(crate) class: Class,
    pub(crate) end: End,
}

/// What the meaning of an instruction depends on beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lowering {
    /// Code size.
    pub(crate) code: CodeSize,
    /// SS.B: the stack pointer has 32 bits outside 64-bit mode.
    pub(crate) stack_big: bool,
    /// ES, CS, SS, DS are flat: nothing to check.
    pub(crate) flat: [bool; 4],
    /// What the instruction set has.
    pub(crate) features: Features,
    /// Number of instructions before this one in its block.
    index: u8,
    /// How many cycles they take.
    before: u16,
    /// The bytes of this instruction, and zeros behind.
    pub(crate) bytes: [u8; MAX_LENGTH],
}

impl Lowering {
    /// The mode that `cpu` is in.
    pub(crate) fn of(cpu: &Cpu) -> Self {
        Self {
            code: cpu.code_size(),
            stack_big: cpu.stack_mask() == 0xffff_ffff,
            flat: Self::flat(&cpu.segments),
            features: cpu.features,
            index: 0,
            before: 0,
            bytes: [0; MAX_LENGTH],
        }
    }

    /// Which of ES, CS, SS and DS have nothing to check.
    #[inline(always)]
    fn flat(segments: &[Segment; 6]) -> [bool; 4] {
        let mut flat = [false; 4];
        for n in [seg::ES, seg::SS, seg::DS] {
            flat[usize::from(n)] = segments[usize::from(n)].is_flat_data();
        }
        flat
    }

    /// The mode that `cpu` is in, as a key.
    #[inline(always)]
    pub(crate) fn mode_of(cpu: &Cpu) -> Mode {
        if cpu.in_64bit() { Mode::BITS_64 } else { Self::known_outside_64_bit(cpu) }
    }

    // Not in the loop over blocks, of which the compiler then keeps less in registers.
    #[inline(never)]
    fn known_outside_64_bit(cpu: &Cpu) -> Mode {
        cpu.mode_outside_64_bit
    }

    /// The mode outside 64-bit mode with these segments.
    pub(crate) fn mode_outside_64_bit(segments: &[Segment; 6]) -> Mode {
        let is_big = |n: u8| segments[usize::from(n)].attributes & Segment::BIG != 0;
        let code = if is_big(seg::CS) { CodeSize::Bits32 } else { CodeSize::Bits16 };
        Self::key(code, is_big(seg::SS), Self::flat(segments))
    }

    /// The same as a key.
    pub(crate) fn mode(&self) -> Mode {
        match self.code {
            CodeSize::Bits64 => Mode::BITS_64,
            code => Self::key(code, self.stack_big, self.flat),
        }
    }

    #[inline(always)]
    fn key(code: CodeSize, stack_big: bool, flat: [bool; 4]) -> Mode {
        let flat = (0..4).map(|n| u16::from(flat[n]) << n).sum::<u16>();
        Mode(code as u16 | u16::from(stack_big) << 2 | flat << 3)
    }

    /// The parts of a lowered instruction that all have in common.
    pub(crate) fn insn(&self, i: &Instruction) -> Insn {
        let has_memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        Insn {
            mem: if has_memory { self.mem(i) } else { Mem::NONE },
            imm: 0,
            op: operation_of(i),
            files: Files::new(self.file(i, 0), self.file(i, 1)),
            mem_bytes: if has_memory { i.memory_size().size() as u16 } else { 0 },
            form: Form::None,
            size: Size::B4,
            dst: 0,
            src: 0,
            aux: 0,
            len: i.len() as u8,
            index: self.index,
            before: self.before,
            end: i.next_ip() as u16,
        }
    }

    /// The register file of operand `n`.
    fn file(&self, i: &Instruction, n: u32) -> File {
        if n >= i.op_count() || i.op_kind(n) != OpKind::Register {
            return File::None;
        }
        match i.op_register(n) {
            r if r.is_gpr() => File::General,
            r if r.is_mm() => File::Mmx,
            r if r.is_xmm() => File::Xmm,
            r if r.is_st() => File::X87,
            r if r.is_segment_register() => File::Segment,
            r if r.is_cr() => File::Control,
            r if r.is_dr() => File::Debug,
            r if r.is_zmm() => File::Zmm,
            r if r.is_k() => File::Mask,
            _ => File::None,
        }
    }

    /// The memory operand.
    pub(crate) fn mem(&self, i: &Instruction) -> Mem {
        let (base, index) = (i.memory_base(), i.memory_index());
        let widest = if base != Register::None { base } else { index };
        let mask = match widest.size() {
            2 => AddrMask::Bits16,
            4 => AddrMask::Bits32,
            8 => AddrMask::Bits64,
            _ => match i.memory_displ_size() {
                2 => AddrMask::Bits16,
                4 => AddrMask::Bits32,
                8 => AddrMask::Bits64,
                _ if self.code == CodeSize::Bits16 => AddrMask::Bits16,
                _ => AddrMask::Bits32,
            },
        };
        Mem {
            disp: i.memory_displacement64() as i64,
            base: match base {
                Register::None => ZERO,
                Register::RIP | Register::EIP => BLOCK_BASE,
                other => self.reg(other),
            },
            // A vector of indices is not part of the address that all elements have in common.
            index: if index.is_gpr() { self.reg(index) } else { ZERO },
            scale: i.memory_index_scale().trailing_zeros() as u8,
            seg: self.segment(self.memory_segment(i)),
            mask,
        }
    }

    /// The segment register of the memory operand. In 64-bit mode no override but FS and GS takes
    /// the place of the one that goes with the base register (APM volume 3, section 1.2.4).
    pub(crate) fn memory_segment(&self, i: &Instruction) -> Register {
        use Register::{DS, EBP, ESP, FS, GS, RBP, RSP, SS};
        match i.memory_segment() {
            named if self.code != CodeSize::Bits64 || matches!(named, FS | GS) => named,
            _ if matches!(i.memory_base(), RSP | RBP | ESP | EBP) => SS,
            _ => DS,
        }
    }

    /// How a segment register is addressed: with its checks, or as flat.
    pub(crate) fn segment(&self, register: Register) -> u8 {
        let n = segment_number(register);
        if self.code == CodeSize::Bits64 {
            return match n {
                seg::FS => seg::FS_BASE,
                seg::GS => seg::GS_BASE,
                seg::SS => seg::FLAT_STACK,
                _ => seg::FLAT,
            };
        }
        match self.flat.get(usize::from(n)) {
            Some(true) if n == seg::SS => seg::FLAT_STACK,
            Some(true) => seg::FLAT,
            _ => n,
        }
    }

    /// Number of a register of any file; AH, CH, DH and BH with [`HIGH_BYTE`].
    pub(crate) fn reg(&self, r: Register) -> u8 {
        match r {
            Register::AH => HIGH_BYTE,
            Register::CH => 1 | HIGH_BYTE,
            Register::DH => 2 | HIGH_BYTE,
            Register::BH => 3 | HIGH_BYTE,
            _ if r.is_gpr() => r.full_register().number() as u8,
            _ => r.number() as u8,
        }
    }

    /// Operand size of the first operand.
    pub(crate) fn size_of(&self, i: &Instruction) -> Size {
        let bytes = match i.op0_kind() {
            OpKind::Register => i.op0_register().size(),
            OpKind::Memory => i.memory_size().size(),
            _ => 4,
        };
        match bytes {
            1 => Size::B1,
            2 => Size::B2,
            8 => Size::B8,
            _ => Size::B4,
        }
    }
}

/// What a decoded instruction does.
fn operation_of(i: &Instruction) -> Operation {
    let (first, second) = (i.op0_register(), i.op1_register());
    let far = i.op_count() > 0
        && (matches!(i.op0_kind(), OpKind::FarBranch16 | OpKind::FarBranch32)
            || matches!(
                i.memory_size(),
                MemorySize::SegPtr16 | MemorySize::SegPtr32 | MemorySize::SegPtr64
            ));
    match i.mnemonic() {
        Mnemonic::Mov if first.is_segment_register() => Operation::MovToSegment,
        Mnemonic::Mov if second.is_segment_register() => Operation::MovFromSegment,
        Mnemonic::Mov if first.is_cr() => Operation::MovToControl,
        Mnemonic::Mov if second.is_cr() => Operation::MovFromControl,
        Mnemonic::Mov if first.is_dr() => Operation::MovToDebug,
        Mnemonic::Mov if second.is_dr() => Operation::MovFromDebug,
        Mnemonic::Push if first.is_segment_register() => Operation::PushSegment,
        Mnemonic::Pop if first.is_segment_register() => Operation::PopSegment,
        Mnemonic::Jmp if far => Operation::JmpFar,
        Mnemonic::Call if far => Operation::CallFar,
        Mnemonic::Retf => Operation::RetFar,
        Mnemonic::Movsd if i.is_string_instruction() => Operation::Movs,
        Mnemonic::Movsd => Operation::Movsd,
        Mnemonic::Cmpsd if i.is_string_instruction() => Operation::Cmps,
        Mnemonic::Cmpsd => Operation::Cmpsd,
        other => Operation::of_mnemonic(other),
    }
}

/// What the decoder calls a code size.
pub(crate) fn bitness(code: CodeSize) -> u32 {
    match code {
        CodeSize::Bits16 => 16,
        CodeSize::Bits32 => 32,
        CodeSize::Bits64 => 64,
    }
}

/// Encoding number of a segment register.
pub(crate) fn segment_number(register: Register) -> u8 {
    match register {
        Register::ES => seg::ES,
        Register::CS => seg::CS,
        Register::SS => seg::SS,
        Register::FS => seg::FS,
        Register::GS => seg::GS,
        _ => seg::DS,
    }
}

/// Whether the processor has what the decoder says an instruction needs.
fn supported(features: &Features, i: &Instruction) -> bool {
    match i.mnemonic() {
        // What these came to mean later, older processors take for NOPs.
        Mnemonic::Endbr32 | Mnemonic::Endbr64 | Mnemonic::Rdsspd | Mnemonic::Rdsspq => {
            return features.hint_nop;
        }
        // What is SSE's register elsewhere is the vector unit's here.
        Mnemonic::Ldmxcsr | Mnemonic::Stmxcsr if features.vpu => return true,
        // 0F 0D is the 3DNow! prefetch group: memory operands only.
        Mnemonic::Reservednop => {
            let prefetch = matches!(
                i.code(),
                Code::Reservednop_rm16_r16_0F0D
                    | Code::Reservednop_rm32_r32_0F0D
                    | Code::Reservednop_rm64_r64_0F0D
            );
            let memory = i.op0_kind() == OpKind::Memory;
            return if prefetch { features.now3d && memory } else { features.hint_nop };
        }
        _ => {}
    }
    i.cpuid_features().iter().all(|&feature| match feature {
        CpuidFeature::INTEL8086
        | CpuidFeature::INTEL186
        | CpuidFeature::INTEL286
        | CpuidFeature::INTEL386
        | CpuidFeature::INTEL486
        | CpuidFeature::FPU
        | CpuidFeature::FPU287
        | CpuidFeature::FPU387
        | CpuidFeature::CPUID
        | CpuidFeature::SMM => true,
        CpuidFeature::PAUSE => features.pause,
        CpuidFeature::MULTIBYTENOP => features.nopl,
        CpuidFeature::CMOV => features.cmov,
        CpuidFeature::KNC => match i.mnemonic() {
            Mnemonic::Spflt | Mnemonic::Delay => features.knc,
            Mnemonic::Clevict0 | Mnemonic::Clevict1 => {
                features.knc && (features.vpu || !is_mvex(i))
            }
            _ => features.vpu,
        },
        CpuidFeature::TSC => features.tsc,
        CpuidFeature::MSR => features.msr,
        CpuidFeature::RDPMC => features.rdpmc,
        CpuidFeature::CX8 => features.cx8,
        CpuidFeature::CMPXCHG16B => features.cx16,
        CpuidFeature::SEP => features.sep,
        CpuidFeature::SYSCALL => features.syscall,
        CpuidFeature::X64 => features.long_mode,
        CpuidFeature::MMX => features.mmx,
        CpuidFeature::D3NOW => features.now3d,
        CpuidFeature::PREFETCHW | CpuidFeature::PREFETCHWT1 => features.now3d,
        CpuidFeature::D3NOWEXT => features.now3d_ext,
        CpuidFeature::FXSR => features.fxsr,
        CpuidFeature::CLFSH => features.clflush,
        CpuidFeature::SSE => features.sse || features.mmx_ext && uses_mmx(i),
        CpuidFeature::SSE2 => features.sse2,
        CpuidFeature::SSE3 => features.sse3,
        _ => false,
    })
}

/// Whether an instruction has the prefix of the vector unit's instructions.
fn is_mvex(i: &Instruction) -> bool {
    i.encoding() == EncodingKind::MVEX
}

fn uses_mmx(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Register && i.op_register(n).is_mm())
        || matches!(
            i.mnemonic(),
            Mnemonic::Prefetchnta
                | Mnemonic::Prefetcht0
                | Mnemonic::Prefetcht1
                | Mnemonic::Prefetcht2
                | Mnemonic::Sfence
        )
}

/// Lowers an instruction; what the processor does not have becomes [`Operation::Invalid`].
pub(crate) fn lower_one(l: &Lowering, i: &Instruction) -> Lowered {
    let insn = l.insn(i);
    if i.code() != Code::INVALID && supported(&l.features, i) {
        let lowered = match insn.op.family() {
            Family::General => exec::lower(l, i, insn),
            Family::X87 => x87::lower(l, i, insn),
            Family::Simd => simd::lower(l, i, insn),
            Family::Vector => vector::lower(l, i, insn),
        };
        if let Some(lowered) = lowered {
            return lowered;
        }
    }
    faulting(Operation::Invalid, insn)
}

/// An instruction that does nothing but raise the exception of `op`.
fn faulting(op: Operation, insn: Insn) -> Lowered {
    Lowered { insn: Insn { op, ..insn }, class: Class::NONE, end: End::Fall }
}

/// The instruction that `bytes` begin with, as the decoder has it and lowered; `None` if there is none.
fn lower_first(mut l: Lowering, bytes: &[u8]) -> Option<(Instruction, Lowered)> {
    let Decoded::Whole(i) = decode(&l.features, l.code, bytes, 0) else { return None };
    l.bytes[..i.len()].copy_from_slice(&bytes[..i.len()]);
    let lowered = lower_one(&l, &i);
    Some((i, lowered))
}

/// The same for tests, without classes.
#[cfg(test)]
pub(crate) fn lower_bytes(l: &Lowering, bytes: &[u8]) -> Option<(Instruction, Insn)> {
    lower_first(*l, bytes).map(|(i, lowered)| (i, lowered.insn))
}

impl Insn {
    /// What a processor with `features` executes if it comes to `bytes` in `mode`, with the classes that it
    /// is counted as; `None` if they are no whole instruction. Data segments are taken for not flat.
    ///
    /// For readers of lowered code that have no processor to translate it for.
    #[must_use]
    pub fn decode(features: Features, mode: effects::Mode, bytes: &[u8]) -> Option<(Self, Class)> {
        let mut l = Lowering {
            code: mode.code,
            stack_big: mode.stack == AddrMask::Bits32,
            flat: [false; 4],
            features,
            index: 0,
            before: 0,
            bytes: [0; MAX_LENGTH],
        };
        l.flat[usize::from(seg::SS)] = mode.stack_segment == seg::FLAT_STACK;
        let (_, Lowered { insn, class, .. }) = lower_first(l, bytes)?;
        Some((insn, class))
    }
}

/// Whether an instruction is the only one of its block: it looks at counters or programs them; or it
/// accesses a port and memory, of which a port cannot be accessed again; or it writes more than once, so that
/// it may overwrite itself and then come to a device, and could not be executed again for that.
fn is_alone(insn: &Insn) -> bool {
    use Operation as O;
    match insn.op {
        O::Rdmsr | O::Wrmsr | O::Rdpmc | O::Spflt | O::Ins | O::Outs => true,
        O::Movs | O::Stos => is_repeated(insn),
        O::Enter | O::Pusha => true,
        // Frames, accessed bits of descriptors, task-state segments.
        O::CallFar | O::JmpFar | O::RetFar | O::Iret | O::Int | O::Int1 | O::Int3 | O::Into => true,
        _ => false,
    }
}

/// Whether all that an instruction does is registers, one ordinary access to memory as its last act, and a near transfer.
fn goes_in_steps(insn: &Insn, class: Class) -> bool {
    insn.accesses_last()
        && watch::accesses_plainly(insn, class)
        && (!watch::reports_more(insn.op) || watch::transfer(insn).is_some())
        // They reach what surrounds the processor.
        && !is_alone(insn)
        && insn.op != Operation::Rdtsc
}

/// A block of lowered instructions, without handlers: those depend on the observer.
pub(crate) struct LoweredBlock {
    pub(crate) insns: Vec<Insn>,
    /// Guest-physical address of its first byte.
    pub(crate) gpa: u64,
    pub(crate) mode: Mode,
    /// Bytes of code.
    pub(crate) bytes: u16,
    /// Cycles that all its instructions take, and those before the last one begins.
    pub(crate) cycles: u16,
    pub(crate) last_begins: u16,
    pub(crate) ending: Ending,
    /// Has an instruction whose accesses may have to be taken back when it faults.
    pub(crate) marks: bool,
    /// See [`crate::block::Code::is_quiet`].
    pub(crate) quiet: Quiet,
    /// What its instructions are counted as; `None` if none belongs to a class.
    pub(crate) classes: Option<Box<BlockClasses>>,
    /// Guest-physical address of the second page, if the one instruction crosses into it.
    pub(crate) second_page: Option<u64>,
    /// See [`crate::block::Code::transfer`].
    pub(crate) transfer: Option<TransferKind>,
}

/// Lowers the block that starts at `gpa`.
///
/// `code` holds the bytes from there; the first `in_page` of them are in the block's page, those
/// behind (if any) in `second_page`, and only a first instruction may reach into them. It has `most`
/// instructions or fewer. `None`: the first instruction needs bytes that are not there.
pub(crate) fn lower_block(
    mut l: Lowering,
    cycle_costs: &CycleCosts,
    gpa: u64,
    code: &[u8],
    in_page: usize,
    second_page: Option<u64>,
    most: usize,
) -> Option<LoweredBlock> {
    let mut insns: Vec<Insn> = Vec::new();
    let mut at = 0;
    let mut cycles: u16 = 0;
    let mut classes: Vec<Class> = Vec::new();
    let mut marks = false;
    let mut quiet = true;
    let mut last_reports = false;
    let mut ending = Ending::Through;
    while insns.len() < most && at < in_page {
        let (i, too_long) = match decode(&l.features, l.code, &code[at..], at as u64) {
            Decoded::Whole(i) => (i, false),
            Decoded::TooLong(i) => (i, true),
            Decoded::Short if insns.is_empty() => return None,
            Decoded::Short => break,
        };
        if at + i.len() > in_page && !insns.is_empty() {
            // It goes on in the next page: a block of its own.
            break;
        }
        l.index = insns.len() as u8;
        l.before = cycles;
        l.bytes = [0; MAX_LENGTH];
        l.bytes[..i.len()].copy_from_slice(&code[at..at + i.len()]);
        let Lowered { insn, class, end } =
            if too_long { faulting(Operation::TooLong, l.insn(&i)) } else { lower_one(&l, &i) };
        let alone = end == End::Far || is_alone(&insn);
        if alone && !insns.is_empty() {
            break;
        }
        at = usize::from(insn.end).max(at + 1);
        cycles += u16::from((cycle_costs.instruction)(&insn));
        classes.push(class);
        marks |= !insn.accesses_last();
        quiet &= !last_reports && insn.accesses_last() && watch::accesses_plainly(&insn, class);
        last_reports = watch::reports_more(insn.op);
        insns.push(insn);
        match end {
            End::Next => {}
            End::Branch | End::Far => ending = Ending::Branch,
            End::Fall => ending = Ending::Fall,
        }
        if end != End::Next || alone {
            break;
        }
    }
    unread::mark(&mut insns);
    let transfer = insns.last().and_then(watch::transfer);
    let in_one_page_of_ram = second_page.is_none() && gpa & OF_DEVICE == 0;
    let steps = insns.iter().zip(&classes).take_while(|&(insn, &class)| goes_in_steps(insn, class));
    let quiet =
        Quiet::new(quiet && in_one_page_of_ram, if in_one_page_of_ram { steps.count() } else { 0 });
    Some(LoweredBlock {
        insns,
        gpa,
        mode: l.mode(),
        bytes: at as u16,
        cycles,
        last_begins: l.before,
        ending,
        marks,
        quiet,
        classes: BlockClasses::new(classes),
        second_page: if at > in_page { second_page } else { None },
        transfer,
    })
}
