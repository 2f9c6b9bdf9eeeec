//! The catalogues and the encoder against the decoder's tables, and what is in neither.

use std::collections::BTreeSet;

use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions, Instruction, OpKind};
use x86_cpu::features::Features;

use crate::{
    case::{Operand, Vector},
    catalogue::{Form, Row},
    encode::{Fault, encode, is_indexed},
    generate,
    machine::Machine,
    masks,
    random::Random,
    rows,
    state::{Arena, UD},
};

/// Instructions of the decoder's that no document describes.
fn is_undocumented(code: Code) -> bool {
    format!("{code:?}").contains("Undoc")
}

fn is_knc(code: Code) -> bool {
    code.cpuid_features().contains(&CpuidFeature::KNC)
}

fn decode(bytes: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, bytes, ip, DecoderOptions::KNC).decode()
}

/// The instruction with the plainest operands that it takes.
fn plainest(row: &Row) -> Vector {
    let mut random = Random::new(1);
    let mut r = generate::registers(&mut random);
    let mut m = Arena::new();
    loop {
        let c = generate::vector(row, &mut r, &mut m, &mut random);
        if c.is_valid() {
            return c;
        }
    }
}

/// What an instruction is, which conversions and roundings it takes and by what its displacement is scaled
/// was typed in from the facts; the decoder has the same.
#[test]
fn the_catalogues_are_the_decoders() {
    let mut seen = BTreeSet::new();
    for row in rows::rows() {
        let c = plainest(&row);
        let instruction = decode(&c.bytes, 0x1000);
        let code = instruction.code();
        assert!(is_knc(code), "{}: {:02x?} is {code:?}", row.name, c.bytes);
        assert!(seen.insert(code as u32), "{} is there already", row.name);
        let mnemonic = format!("{:?}", code.mnemonic()).to_lowercase();
        assert_eq!(mnemonic, row.name, "{code:?}");
        let info = code.op_code();
        assert_eq!(info.mvex_valid_conversion_funcs_mask(), row.memory, "{code:?}");
        let swizzles = if row.takes_register() { row.swizzles } else { 0 };
        assert_eq!(info.mvex_valid_swizzle_funcs_mask(), swizzles, "{code:?}");
        assert_eq!(info.can_suppress_all_exceptions(), row.sae, "{code:?}");
        assert_eq!(info.can_use_rounding_control(), row.rounding, "{code:?}");
        assert_eq!(info.require_op_mask_register(), row.needs_mask(), "{code:?}");
        let ignored = row.form == Form::Line;
        assert_eq!(info.mvex_ignores_op_mask_register(), ignored, "{code:?}");
    }
    for row in masks::rows() {
        let mut random = Random::new(1);
        let c = std::iter::repeat_with(|| masks::Case::random(&row, &mut random))
            .find(masks::Case::is_valid)
            .expect("a valid one");
        let code = decode(&c.bytes, 0x1000).code();
        assert!(is_knc(code), "{}: {:02x?} is {code:?}", row.name, c.bytes);
        assert!(seen.insert(code as u32), "{} is there already", row.name);
        let mnemonic = format!("{:?}", code.mnemonic()).to_lowercase();
        assert!(mnemonic.starts_with(row.name.split(' ').next().unwrap()), "{code:?}");
    }
    let documented = Code::values().filter(|&code| is_knc(code) && !is_undocumented(code));
    let documented: BTreeSet<_> = documented.map(|code| code as u32).collect();
    assert_eq!(seen, documented);
    assert_eq!(seen.len(), 42 + 175);
}

/// The bytes of the generator's instructions are read as it means them.
#[test]
fn the_encoder_says_what_it_means() {
    let rows = rows::rows();
    let mut m = Arena::new();
    for seed in 0..200_000 {
        let mut random = Random::new(seed);
        let mut r = generate::registers(&mut random);
        let c = generate::vector(random.pick_of(&rows), &mut r, &mut m, &mut random);
        let i = decode(&c.bytes, r.rip);
        // The decoder does not look at what rounding and suppression instructions have, if they have any.
        if !c.is_valid() {
            continue;
        }
        let told = format!("seed {seed}: {:02x?} {c:x?}", c.bytes);
        assert!(!i.is_invalid(), "{told}");
        assert_eq!(i.len(), c.bytes.len(), "{told}");
        assert_eq!(i.is_mvex_eviction_hint() && c.row.e.is_none(), c.memory_hint(), "{told}");
        match &c.operand {
            Operand::Register(n) => {
                let last = (0..i.op_count()).rev().find(|&n| i.op_kind(n) == OpKind::Register);
                let register = i.op_register(last.expect("a register"));
                assert_eq!(register.number(), usize::from(*n), "{told}");
            }
            Operand::Memory(a) => {
                let origin = if a.relative { r.rip + c.bytes.len() as u64 } else { 0 };
                let expected = origin.wrapping_add(i64::from(a.displacement) as u64);
                let displacement = i.memory_displacement64();
                let bits = if a.narrow { 0xffff_ffff } else { u64::MAX };
                assert_eq!(displacement & bits, expected & bits, "{told}");
                if !a.relative {
                    let base = a.base.map(usize::from);
                    assert_eq!(
                        i.memory_base().is_gpr().then(|| i.memory_base().number()),
                        base,
                        "{told}"
                    );
                }
                let index = i.memory_index();
                let is_register = index.is_gpr() || index.is_zmm();
                let number = is_register.then(|| index.number());
                assert_eq!(number, a.index.map(usize::from), "{told}");
                assert_eq!(index.is_zmm(), is_indexed(c.row.form), "{told}");
                if a.index.is_some() {
                    assert_eq!(u64::from(i.memory_index_scale()), a.scale, "{told}");
                }
            }
        }
    }
}

/// What is in no table is undefined, and what no document describes.
#[test]
fn everything_else_is_undefined() {
    let rows = rows::rows();
    let mut machine = Machine::new();
    let mut random = Random::new(7);
    let mut m = Arena::new();
    let mut tried = 0;
    while tried < 50_000 {
        let mut r = generate::registers(&mut random);
        r.task_switched = false;
        let mut row = random.pick_of(&rows).clone();
        row.opcode = if random.once_in(2) { random.next() as u8 } else { row.opcode };
        row.map = 1 + random.below(3) as u8;
        row.prefix = random.below(4) as u8;
        row.w = Some(random.below(2) as u8);
        row.extension = Some(random.below(8) as u8);
        row.e = None;
        let known = |other: &Row| {
            (other.map, other.prefix, other.opcode) == (row.map, row.prefix, row.opcode)
                && (other.w.is_none() || other.w == row.w)
                && (other.extension.is_none() || other.extension == row.extension)
        };
        if rows.iter().any(known) {
            continue;
        }
        let mut c = generate::vector(&row, &mut r, &mut m, &mut random);
        c.bytes = encode(&c, Fault::None, true);
        machine.load(&r);
        machine.write(r.rip, &c.bytes);
        let (_, fault) = machine.execute(false);
        assert_eq!(fault, Some(UD), "{:02x?}", c.bytes);
        tried += 1;
    }
}

/// Other processors know none of it.
#[test]
fn other_parts_have_no_vector_unit() {
    let mut machine = Machine::with(Features { vpu: false, ..Machine::FEATURES });
    let mut random = Random::new(3);
    let mut m = Arena::new();
    for row in rows::rows() {
        if row.form == Form::Line {
            continue;
        }
        let mut r = generate::registers(&mut random);
        let c = generate::vector(&row, &mut r, &mut m, &mut random);
        machine.load(&r);
        machine.write(r.rip, &c.bytes);
        let (_, fault) = machine.execute(false);
        assert_eq!(fault, Some(UD), "{} {:02x?}", row.name, c.bytes);
    }
}
