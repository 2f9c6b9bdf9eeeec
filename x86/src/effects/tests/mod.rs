//! The effects against those that the decoder's tables have, for all encodings, and against values from
//! the manuals where it has none.

mod differences;
mod encodings;
mod execution;
mod manual;
mod oracle;

use crate::{
    cpu::Cpu,
    features::{EncodingRules, Features},
    lower::Lowering,
    mode::CodeSize,
};

const CODES: [CodeSize; 3] = [CodeSize::Bits16, CodeSize::Bits32, CodeSize::Bits64];

/// Instruction sets that together execute whatever a personality executes: everything by the rules of
/// either vendor, Knights Corner, and the least.
fn instruction_sets() -> [Features; 4] {
    let everything = Features { cx16: true, alt_mov_cr8: true, ..Features::K8 };
    let knc = Features {
        now3d: false,
        now3d_ext: false,
        mmx: false,
        mmx_ext: false,
        sse: false,
        sse2: false,
        sse3: false,
        cmov: false,
        pause: false,
        knc: true,
        vpu: true,
        encodings: EncodingRules::Intel64,
        ..Features::K8
    };
    [
        everything,
        Features { encodings: EncodingRules::Intel64, alt_mov_cr8: false, ..everything },
        knc,
        Features::I486,
    ]
}

/// Lowering for code of a size, with a stack of the same and segments that are checked.
fn lowering(features: Features, code: CodeSize) -> Lowering {
    let mut l = Lowering::of(&Cpu::new(features));
    l.code = code;
    l.stack_big = code == CodeSize::Bits32;
    l.flat = [false; 4];
    l
}
