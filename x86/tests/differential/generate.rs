//! Random instructions of the set that the K8 and the host have in common.

use std::arch::x86_64::__cpuid;

use iced_x86::{
    Code, CpuidFeature, Encoder, Instruction, MemoryOperand, Mnemonic, OpCodeOperandKind, OpKind,
    Register,
};

use crate::{Random, host};

/// The encodings that can be tested.
pub(crate) struct Generator {
    codes: Vec<Code>,
}

/// Registers that hold pointers into the data page in every case.
const POINTERS: [Register; 4] = [Register::RBX, Register::RBP, Register::RSI, Register::RDI];
/// The register that holds a small index.
const INDEX: Register = Register::R9;

fn common(feature: CpuidFeature) -> bool {
    use CpuidFeature::{
        CLFSH, CMOV, CX8, FPU, FPU287, FPU387, INTEL186, INTEL286, INTEL386, INTEL486, INTEL8086,
        MMX, MULTIBYTENOP, PAUSE, SSE, SSE2, SSE3, X64,
    };
    [
        INTEL8086,
        INTEL186,
        INTEL286,
        INTEL386,
        INTEL486,
        CMOV,
        CX8,
        FPU,
        FPU287,
        FPU387,
        MMX,
        SSE,
        SSE2,
        SSE3,
        X64,
        CLFSH,
        MULTIBYTENOP,
        PAUSE,
    ]
    .contains(&feature)
}

/// Instructions that cannot be compared: privileged, control transfers, images with the host's
/// pointers in them, those whose result the architecture leaves to the part, and those that this
/// host lacks.
fn excluded(code: Code) -> bool {
    use Mnemonic as M;
    let mnemonic = code.mnemonic();
    let approximated = matches!(
        mnemonic,
        M::Fsin
            | M::Fcos
            | M::Fsincos
            | M::Fptan
            | M::Fpatan
            | M::F2xm1
            | M::Fyl2x
            | M::Fyl2xp1
            | M::Rcpps
            | M::Rcpss
            | M::Rsqrtps
            | M::Rsqrtss
    );
    let image = matches!(
        mnemonic,
        M::Fnstenv
            | M::Fstenv
            | M::Fnsave
            | M::Fsave
            | M::Fxsave
            | M::Fxsave64
            | M::Fxrstor
            | M::Fxrstor64
            | M::Fldenv
            | M::Frstor
            | M::Fldcw
            | M::Ldmxcsr
            | M::Fstdw
            | M::Fstsg
            | M::Frstpm
            | M::Fsetpm
            | M::Fnsetpm
    );
    let system = matches!(
        mnemonic,
        M::Pushf
            | M::Pushfq
            | M::Pushfd
            | M::Popf
            | M::Popfq
            | M::Popfd
            | M::Cli
            | M::Sti
            | M::Lar
            | M::Lsl
            | M::Verr
            | M::Verw
            | M::Sldt
            | M::Str
            | M::Sgdt
            | M::Sidt
            | M::Smsw
            | M::Lmsw
            | M::Lldt
            | M::Ltr
            | M::Lgdt
            | M::Lidt
            | M::Lss
            | M::Lfs
            | M::Lgs
            | M::Hlt
            | M::Ud0
            | M::Ud1
            | M::Ud2
            | M::Invd
            | M::Wbinvd
            | M::Clts
            | M::Swapgs
            | M::Invlpg
            | M::Monitor
            | M::Mwait
            | M::Insb
            | M::Insw
            | M::Insd
            | M::Outsb
            | M::Outsw
            | M::Outsd
            | M::In
            | M::Out
            | M::Enter
            | M::Wait
            | M::Fnop
            | M::Loadall
            | M::Bndmov
    );
    let op_code = code.op_code();
    let segment = (0..op_code.op_count()).any(|n| {
        matches!(
            op_code.op_kind(n),
            OpCodeOperandKind::seg_reg
                | OpCodeOperandKind::es
                | OpCodeOperandKind::cs
                | OpCodeOperandKind::ss
                | OpCodeOperandKind::ds
                | OpCodeOperandKind::fs
                | OpCodeOperandKind::gs
                | OpCodeOperandKind::cr_reg
                | OpCodeOperandKind::dr_reg
                | OpCodeOperandKind::tr_reg
        )
    });
    // D9 D8+i, which no manual lists: processors differ in what they report of an empty register.
    let undocumented = mnemonic == M::Fstpnce;
    let lacking = matches!(mnemonic, M::Lahf | M::Sahf) && !has_lahf_in_64_bit_mode()
        || code.cpuid_features().contains(&CpuidFeature::SSE3) && !host::has_sse3();
    lacking || undocumented || approximated || image || system || segment
}

/// LAHF and SAHF in 64-bit mode, which the first Intel processors with it lack: CPUID function
/// 8000_0001h, ECX bit 0.
fn has_lahf_in_64_bit_mode() -> bool {
    __cpuid(0x8000_0000).eax > 0x8000_0000 && __cpuid(0x8000_0001).ecx & 1 != 0
}

fn branches(code: Code) -> bool {
    let mut i = Instruction::new();
    i.set_code(code);
    i.flow_control() != iced_x86::FlowControl::Next
}

impl Generator {
    pub(crate) fn new() -> Self {
        let codes = Code::values()
            .filter(|&code| {
                let op_code = code.op_code();
                op_code.is_instruction()
                    && op_code.mode64()
                    && op_code.cpl3()
                    && op_code.amd_decoder64()
                    && code.cpuid_features().iter().all(|&f| common(f))
                    && !op_code.is_privileged()
                    && !branches(code)
                    && !excluded(code)
            })
            .collect();
        Self { codes }
    }

    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    /// A random instruction and its bytes.
    pub(crate) fn instruction(&self, random: &mut Random) -> Option<(Instruction, Vec<u8>)> {
        let code = self.codes[random.below(self.codes.len() as u64) as usize];
        let mut i = Instruction::new();
        i.set_code(code);
        let op_code = code.op_code();
        for n in 0..op_code.op_count() {
            operand(&mut i, n, op_code.op_kind(n), random)?;
        }
        if op_code.can_use_lock_prefix() && i.op0_kind() == OpKind::Memory && random.below(4) == 0 {
            i.set_has_lock_prefix(true);
        }
        if op_code.can_use_rep_prefix() && random.below(2) == 0 && is_string(code.mnemonic()) {
            i.set_has_rep_prefix(true);
        } else if op_code.can_use_repne_prefix()
            && random.below(3) == 0
            && is_string(code.mnemonic())
        {
            i.set_has_repne_prefix(true);
        }
        let mut encoder = Encoder::new(64);
        encoder.encode(&i, 0x1000_0000).ok()?;
        let bytes = encoder.take_buffer();
        Some((i, bytes))
    }
}

pub(crate) fn is_string(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Movsb
            | M::Movsw
            | M::Movsd
            | M::Movsq
            | M::Cmpsb
            | M::Cmpsw
            | M::Cmpsd
            | M::Cmpsq
            | M::Stosb
            | M::Stosw
            | M::Stosd
            | M::Stosq
            | M::Lodsb
            | M::Lodsw
            | M::Lodsd
            | M::Lodsq
            | M::Scasb
            | M::Scasw
            | M::Scasd
            | M::Scasq
    )
}

/// A general register that is neither RSP nor (as a 64-bit destination) harmful: any but RSP.
fn gpr(random: &mut Random, size: usize) -> Register {
    loop {
        let n = random.below(16) as u32;
        if n == 4 {
            continue;
        }
        return match size {
            1 => [
                Register::AL,
                Register::CL,
                Register::DL,
                Register::BL,
                Register::AH,
                Register::CH,
                Register::DH,
                Register::BH,
                Register::BPL,
                Register::SIL,
                Register::DIL,
                Register::R8L,
                Register::R10L,
                Register::R11L,
                Register::R14L,
                Register::R15L,
            ][n as usize],
            2 => Register::AX + n,
            4 => Register::EAX + n,
            _ => Register::RAX + n,
        };
    }
}

fn memory(i: &mut Instruction, n: u32, random: &mut Random) {
    let base = POINTERS[random.below(4) as usize];
    let displacement = match random.below(4) {
        0 => 0,
        1 => random.below(256) as i64 - 128,
        _ => (random.below(32) as i64 - 16) * 16,
    };
    let index = random.below(4) == 0;
    let operand = MemoryOperand::with_base_index_scale_displ_size(
        base,
        if index { INDEX } else { Register::None },
        if index { 1 << random.below(4) } else { 1 },
        displacement,
        if displacement == 0 { 0 } else { 1 },
    );
    i.set_op_kind(n, OpKind::Memory);
    i.set_memory_base(operand.base);
    i.set_memory_index(operand.index);
    i.set_memory_index_scale(operand.scale);
    i.set_memory_displacement64(displacement as u64);
    i.set_memory_displ_size(operand.displ_size);
}

fn register(i: &mut Instruction, n: u32, register: Register) {
    i.set_op_kind(n, OpKind::Register);
    i.set_op_register(n, register);
}

fn operand(
    i: &mut Instruction,
    n: u32,
    kind: OpCodeOperandKind,
    random: &mut Random,
) -> Option<()> {
    use OpCodeOperandKind as K;
    let or_memory = random.below(2) == 0;
    match kind {
        K::mem | K::mem_mpx | K::mem_mib => memory(i, n, random),
        K::r8_or_mem
        | K::r16_or_mem
        | K::r32_or_mem
        | K::r64_or_mem
        | K::mm_or_mem
        | K::xmm_or_mem
            if or_memory =>
        {
            memory(i, n, random);
        }
        K::r8_or_mem | K::r8_reg | K::r8_opcode => {
            let r = gpr(random, 1);
            register(i, n, r);
        }
        K::r16_or_mem | K::r16_reg | K::r16_rm | K::r16_opcode => {
            let r = gpr(random, 2);
            register(i, n, r);
        }
        K::r32_or_mem | K::r32_reg | K::r32_rm | K::r32_opcode => {
            let r = gpr(random, 4);
            register(i, n, r);
        }
        K::r64_or_mem | K::r64_reg | K::r64_rm | K::r64_opcode => {
            let r = gpr(random, 8);
            register(i, n, r);
        }
        K::mm_or_mem | K::mm_reg | K::mm_rm => {
            register(i, n, Register::MM0 + random.below(8) as u32);
        }
        K::xmm_or_mem | K::xmm_reg | K::xmm_rm => {
            register(i, n, Register::XMM0 + random.below(16) as u32);
        }
        K::sti_opcode => register(i, n, Register::ST0 + random.below(8) as u32),
        K::st0 => register(i, n, Register::ST0),
        K::al => register(i, n, Register::AL),
        K::cl => register(i, n, Register::CL),
        K::ax => register(i, n, Register::AX),
        K::eax => register(i, n, Register::EAX),
        K::rax => register(i, n, Register::RAX),
        K::dx => register(i, n, Register::DX),
        K::imm4_m2z => return None,
        K::imm8 => {
            i.set_op_kind(n, OpKind::Immediate8);
            i.set_immediate8(random.next() as u8);
        }
        K::imm8_const_1 => {
            i.set_op_kind(n, OpKind::Immediate8);
            i.set_immediate8(1);
        }
        K::imm8sex16 => {
            i.set_op_kind(n, OpKind::Immediate8to16);
            i.set_immediate8to16(i16::from(random.next() as i8));
        }
        K::imm8sex32 => {
            i.set_op_kind(n, OpKind::Immediate8to32);
            i.set_immediate8to32(i32::from(random.next() as i8));
        }
        K::imm8sex64 => {
            i.set_op_kind(n, OpKind::Immediate8to64);
            i.set_immediate8to64(i64::from(random.next() as i8));
        }
        K::imm16 => {
            i.set_op_kind(n, OpKind::Immediate16);
            i.set_immediate16(random.next() as u16);
        }
        K::imm32 => {
            i.set_op_kind(n, OpKind::Immediate32);
            i.set_immediate32(random.next() as u32);
        }
        K::imm32sex64 => {
            i.set_op_kind(n, OpKind::Immediate32to64);
            i.set_immediate32to64(i64::from(random.next() as i32));
        }
        K::imm64 => {
            i.set_op_kind(n, OpKind::Immediate64);
            i.set_immediate64(random.next());
        }
        K::seg_rSI => i.set_op_kind(n, OpKind::MemorySegRSI),
        K::es_rDI => i.set_op_kind(n, OpKind::MemoryESRDI),
        K::seg_rDI => i.set_op_kind(n, OpKind::MemorySegRDI),
        K::seg_rBX_al => {
            i.set_op_kind(n, OpKind::Memory);
            i.set_memory_base(Register::RBX);
            i.set_memory_index(Register::AL);
        }
        _ => return None,
    }
    Some(())
}
