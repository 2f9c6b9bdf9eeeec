//! Which handler executes a lowered instruction: by its operation, form and size, for each observer.

use crate::{
    exec,
    insn::{Handler, Insn},
    observe::Observer,
    operation::Family,
    simd, vector, x87,
};

/// The handler of a lowered instruction under observer `O`.
pub(crate) fn handler<O: Observer>(insn: &Insn) -> Handler<O> {
    find(insn).unwrap_or(exec::undefined)
}

/// As [`handler`]; `None` if the operation's family has no handler for it, which does not happen for
/// lowered instructions.
fn find<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    match insn.op.family() {
        Family::General => exec::handler(insn),
        Family::X87 => x87::handler(insn),
        Family::Simd => simd::handler(insn),
        Family::Vector => vector::handler(insn),
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;
    use crate::{
        cpu::Cpu,
        descriptor::Segment,
        features::Features,
        insn::seg,
        lower::{Lowering, lower_one},
        mode::CodeSize,
        observe::Plain,
    };

    /// Every opcode of one and two bytes and of 3DNow!, with every prefix that changes its meaning, every
    /// ModRM.reg, in register and memory form, and those of Knights Corner.
    fn for_all(mut f: impl FnMut(&[u8])) {
        let prefixes: [&[u8]; 8] =
            [&[], &[0x66], &[0xf2], &[0xf3], &[0x67], &[0xf0], &[0x48], &[0xf3, 0x48]];
        for prefix in prefixes {
            for escape in [&[][..], &[0x0f], &[0x0f, 0x0f], &[0xc5, 0xfa], &[0xc5, 0xfb]] {
                for opcode in 0..=255u8 {
                    for modrm in (0..=255u8).filter(|m| matches!(m & 0xc7, 0xc1 | 0x06)) {
                        let code = match escape {
                            [0x0f, 0x0f] => [prefix, escape, &[modrm, opcode], &[opcode; 9]],
                            _ => [prefix, escape, &[opcode, modrm], &[0; 9]],
                        };
                        f(&code.concat());
                    }
                }
            }
        }
    }

    #[test]
    fn every_lowered_instruction_has_a_handler() {
        for (bits, code) in [(16, CodeSize::Bits16), (32, CodeSize::Bits32), (64, CodeSize::Bits64)]
        {
            let mut cpu = Cpu::new(Features { knc: true, ..Features::K8 });
            let attributes = match code {
                CodeSize::Bits16 => 0,
                CodeSize::Bits32 => Segment::BIG,
                CodeSize::Bits64 => Segment::LONG,
            };
            cpu.set_segment(seg::CS, Segment { attributes, ..*cpu.segment(seg::CS) });
            cpu.set_control(1, 0, 0, if code == CodeSize::Bits64 { 0x500 } else { 0 });
            let l = Lowering::of(&cpu);
            assert_eq!(l.code, code);
            let options = DecoderOptions::AMD | DecoderOptions::KNC;
            for_all(|bytes| {
                let i = Decoder::with_ip(bits, bytes, 0, options).decode();
                let insn = lower_one(&l, &i).insn;
                assert!(find::<Plain>(&insn).is_some(), "{bytes:x?} {insn:?}");
            });
        }
    }
}
