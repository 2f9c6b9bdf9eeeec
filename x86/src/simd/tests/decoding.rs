//! Completeness: whatever the decoder knows of MMX, 3DNow! and SSE to SSE3 has a handler.

use std::collections::BTreeSet;

use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions, EncodingKind, Instruction, Mnemonic};

use crate::{
    class::Class,
    cpu::Cpu,
    features::Features,
    lower::{Lowering, lower_one},
    observe::Plain,
    operation::{Family, Operation},
};

fn decode(code: &[u8]) -> Instruction {
    Decoder::with_ip(64, code, 0, DecoderOptions::AMD).decode()
}

/// Integer-side instructions that came with these extensions, and x87's own.
fn belongs_elsewhere(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Lfence
            | Mnemonic::Mfence
            | Mnemonic::Sfence
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Fisttp
    )
}

fn is_ours(features: &[CpuidFeature], mnemonic: Mnemonic) -> bool {
    features.iter().any(|feature| {
        matches!(
            feature,
            CpuidFeature::MMX
                | CpuidFeature::D3NOW
                | CpuidFeature::D3NOWEXT
                | CpuidFeature::SSE
                | CpuidFeature::SSE2
                | CpuidFeature::SSE3
                | CpuidFeature::FXSR
        )
    }) && !belongs_elsewhere(mnemonic)
}

/// Every two-byte opcode with every prefix, ModRM.reg and REX.W, in register and memory form.
fn for_all(mut f: impl FnMut(&Instruction)) {
    for prefix in [None, Some(0x66), Some(0xf2), Some(0xf3)] {
        for rex in [None, Some(0x48)] {
            for opcode in 0..=255u8 {
                for modrm in (0..=255u8).filter(|m| m & 0xc7 == 0xc1 || m & 0xc7 == 0x06) {
                    for suffix in 0..if opcode == 0x0f { 256 } else { 1u16 } {
                        let code = prefix.into_iter().chain(rex);
                        let mut code: Vec<u8> = code.chain([0x0f, opcode, modrm]).collect();
                        code.extend([suffix as u8; 8]);
                        f(&decode(&code));
                    }
                }
            }
        }
    }
}

#[test]
fn every_decoded_instruction_has_a_handler() {
    let cpu = Cpu::new(Features::K8);
    let l = Lowering::of(&cpu);
    let mut seen = BTreeSet::new();
    for_all(|i| {
        if is_ours(i.cpuid_features(), i.mnemonic()) {
            let lowered = crate::simd::lower(&l, i, l.insn(i)).expect("lowered");
            assert_eq!(lowered.insn.op.family(), Family::Simd, "{:?}", i.code());
            assert!(crate::simd::handler::<Plain>(&lowered.insn).is_some(), "{:?}", i.code());
            seen.insert(format!("{:?}", i.code()));
        }
    });
    // The walk has met all that the decoder's table lists.
    let listed = Code::values()
        .filter(|code| matches!(code.encoding(), EncodingKind::Legacy | EncodingKind::D3NOW))
        .filter(|code| is_ours(code.cpuid_features(), code.mnemonic()))
        .map(|code| format!("{code:?}"))
        .collect::<BTreeSet<_>>();
    assert_eq!(seen, listed);
}

/// String instructions share mnemonics with SSE2, fences and x87 have owners: none of ours.
#[test]
fn other_instructions_are_left_alone() {
    let cpu = Cpu::new(Features::K8);
    let l = Lowering::of(&cpu);
    // MOVSD and CMPSD, ADD, FLD1, SFENCE, PREFETCHNTA, MONITOR.
    let others: [&[u8]; 7] = [
        &[0xa5],
        &[0xa7],
        &[0x01, 0xc8],
        &[0xd9, 0xe8],
        &[0x0f, 0xae, 0xf8],
        &[0x0f, 0x18, 0x00],
        &[0x0f, 0x01, 0xc8],
    ];
    for code in others {
        assert_ne!(l.insn(&decode(code)).op.family(), Family::Simd, "{code:x?}");
    }
}

/// PADDQ on MMX registers is an SSE2 instruction (APM volume 5).
#[test]
fn paddq_on_mmx_registers_needs_sse2() {
    let mut cpu = Cpu::new(Features { sse2: false, sse3: false, ..Features::K8 });
    let paddq = decode(&[0x0f, 0xd4, 0xc1]);
    assert_eq!(lower_one(&Lowering::of(&cpu), &paddq).insn.op, Operation::Invalid);
    cpu.features.sse2 = true;
    assert_eq!(lower_one(&Lowering::of(&cpu), &paddq).insn.op, Operation::Paddq);
}

/// K8 event CBh tells packed, scalar and MMX instructions apart, Pentium M event D8h the precisions;
/// COMISS and the like are fast flag instructions too.
#[test]
fn classes() {
    let cpu = Cpu::new(Features::K8);
    let l = Lowering::of(&cpu);
    let all = |classes: &[Class]| classes.iter().fold(Class::NONE, |all, &one| all.with(one));
    let packed_single = all(&[Class::SSE_PACKED, Class::SSE_PACKED_SINGLE]);
    let packed_double = all(&[Class::SSE_PACKED, Class::SSE_PACKED_DOUBLE]);
    let scalar_single = all(&[Class::SSE_SCALAR, Class::SSE_SCALAR_SINGLE]);
    let scalar_double = all(&[Class::SSE_SCALAR, Class::SSE_SCALAR_DOUBLE]);
    let packed = Class::SSE_PACKED_ARITHMETIC;
    let scalar = Class::SSE_SCALAR_ARITHMETIC;
    let rows: [(&[u8], Class); 20] = [
        // ADDPS, ADDPD, ADDSS, ADDSD.
        (&[0x0f, 0x58, 0xc1], all(&[packed_single, packed, Class::SSE_PACKED_SINGLE_ARITHMETIC])),
        (
            &[0x66, 0x0f, 0x58, 0xc1],
            all(&[packed_double, packed, Class::SSE_PACKED_DOUBLE_ARITHMETIC]),
        ),
        (
            &[0xf3, 0x0f, 0x58, 0xc1],
            all(&[scalar_single, scalar, Class::SSE_SCALAR_SINGLE_ARITHMETIC]),
        ),
        (
            &[0xf2, 0x0f, 0x58, 0xc1],
            all(&[scalar_double, scalar, Class::SSE_SCALAR_DOUBLE_ARITHMETIC]),
        ),
        // MOVAPS, MOVAPD, XORPD, CVTDQ2PS, CVTPS2PD, CVTPI2PS, CVTTSD2SI.
        (&[0x0f, 0x28, 0xc1], packed_single),
        (&[0x66, 0x0f, 0x28, 0xc1], packed_double),
        (&[0x66, 0x0f, 0x57, 0xc1], packed_double),
        (&[0x0f, 0x5b, 0xc1], packed_single),
        (&[0x0f, 0x5a, 0xc1], packed_double),
        (&[0x0f, 0x2a, 0xc1], packed_single),
        (&[0xf2, 0x0f, 0x2c, 0xc1], scalar_double),
        // PADDB and MOVDQA on XMM registers, LDMXCSR: of no precision.
        (&[0x66, 0x0f, 0xfc, 0xc1], Class::SSE_PACKED),
        (&[0x66, 0x0f, 0x6f, 0xc1], Class::SSE_PACKED),
        (&[0x0f, 0xae, 0x16], Class::SSE_SCALAR),
        (&[0x0f, 0xfc, 0xc1], Class::MMX.with(Class::MMX_ARITHMETIC)),
        (&[0x0f, 0x0f, 0xc1, 0x9e], Class::MMX),
        (&[0x0f, 0x77], Class::MMX.with(Class::EMMS)),
        (&[0x0f, 0x2f, 0xc1], scalar_single.with(Class::FAST_FLAG)),
        (&[0x66, 0x0f, 0x2e, 0xc1], scalar_double.with(Class::FAST_FLAG)),
        (&[0x0f, 0xae, 0x06], Class::NONE),
    ];
    for (code, class) in rows {
        let lowered = lower_one(&l, &decode(code));
        assert_eq!(lowered.class, class, "{code:x?}");
    }
}
