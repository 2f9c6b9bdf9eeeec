//! Instructions in words.

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Formatter as _, Instruction as Decoded,
    IntelFormatter,
};

use super::Instruction;
use super::functions::Functions;

/// An instruction in Intel's syntax; behind the target of a direct branch the function there.
pub(super) fn text(instruction: &Instruction, functions: &Functions) -> String {
    if instruction.bytes.is_empty() {
        return "(not executed)".into();
    }
    let Instruction { space, address, bits, bytes } = instruction;
    let mut decoder = Decoder::with_ip(u32::from(*bits), bytes, *address, DecoderOptions::NONE);
    let decoded = decoder.decode();
    let mut text = String::new();
    formatter().format(&decoded, &mut text);
    if let Some((name, offset)) = target(&decoded).and_then(|to| functions.symbol(*space, to)) {
        text += &match offset {
            0 => format!(" <{name}>"),
            _ => format!(" <{name}+{offset:#x}>"),
        };
    }
    text
}

/// One instruction in Intel's syntax, and what in CPUID says that a processor has it, in the decoder's
/// words.
pub(crate) struct Words {
    /// How many of the bytes it has.
    pub(crate) len: usize,
    /// The instruction; `(bad)` if there is none.
    pub(crate) text: String,
    /// Its features, none for what every processor has.
    pub(crate) features: Vec<String>,
}

/// The instruction that `bytes` begin with, at `address`, in code of so many bits. With `knc`, those of
/// Knights Corner's vector unit are known.
pub(crate) fn words(bits: u8, bytes: &[u8], address: u64, knc: bool) -> Words {
    let options = if knc { DecoderOptions::KNC } else { DecoderOptions::NONE };
    let decoded = Decoder::with_ip(u32::from(bits), bytes, address, options).decode();
    let mut text = String::new();
    formatter().format(&decoded, &mut text);
    let of_all = |feature: &CpuidFeature| {
        use CpuidFeature::{INTEL186, INTEL286, INTEL386, INTEL486, INTEL8086};
        matches!(*feature, INTEL8086 | INTEL186 | INTEL286 | INTEL386 | INTEL486)
    };
    let features = decoded.cpuid_features().iter().filter(|feature| !of_all(feature));
    Words {
        len: decoded.len(),
        text,
        features: features.map(|feature| format!("{feature:?}")).collect(),
    }
}

/// Where a direct branch leads.
fn target(decoded: &Decoded) -> Option<u64> {
    let direct = matches!(
        decoded.flow_control(),
        FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
    );
    (direct && decoded.near_branch_target() != 0).then(|| decoded.near_branch_target())
}

/// The bytes of an instruction, as disassemblers print them.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

fn formatter() -> IntelFormatter {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    formatter
}
