//! Register values of the K8 in words and back, by hand.
//!
//! Source: AMD BKDG 26094, section 10.2.

use pmu_model::explain::{EncodeError, Explanation, UnknownRegister, encode, modifiers};
use pmu_model::{Personality, Tier};

fn k8() -> &'static Personality {
    Personality::by_name("k8").unwrap()
}

/// What the instruction set's signals make of a register value.
fn explain(
    personality: &'static Personality,
    register: &str,
    value: u64,
) -> Result<Explanation, UnknownRegister> {
    let live = personality.live.of(Tier::InstructionSet);
    pmu_model::explain::explain(personality, live, register, value)
}

/// Samples of libpfm4 with its modifiers (u, k, e, i, c) and of plain arithmetic.
#[test]
fn words_are_the_bits_of_the_manual() {
    for (words, value) in [
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:u:int:en", 0x51_0500),
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:k:int:en", 0x52_0500),
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:u:k:e=1:int:en", 0x57_0500),
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:u:k:i=1:int:en", 0xD3_0500),
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:u:k:c=1:int:en", 0x153_0500),
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:u:k:c=2:i=1:int:en", 0x2D3_0500),
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:u:k:c=255:int:en", 0xFF53_0500),
        ("DISPATCHED_FPU:OPS_ADD:OPS_STORE:u:e=1:c=1:int:en", 0x155_0500),
        ("RETIRED_BRANCH_INSTRUCTIONS:u:int", 0x11_00C2),
        ("retired_branch_instructions:OS:Inv:c=0x3", 0x382_00C2),
        ("RETIRED_INSTRUCTIONS", 0x3_00C0),
        ("RETIRED_INSTRUCTIONS:pc", 0xB_00C0),
        ("RETIRED_INSTRUCTIONS:none:en", 0x40_00C0),
        ("RETIRED_INSTRUCTIONS:umask=0x5a:e=0", 0x3_5AC0),
        ("r01C0:u", 0x1_01C0),
        ("r1c0", 0x3_01C0),
        ("r5300c0", 0x53_00C0),
        ("SEGMENT_REGISTER_LOADS:ES:CS:umask=64", 0x3_4320),
    ] {
        assert_eq!(encode(k8(), words), Ok(value), "{words}");
    }
}

#[test]
fn unknown_words_name_the_nearest() {
    let error = encode(k8(), "RETIRED_BRANCH_INSTRUCTION:u").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown event \"RETIRED_BRANCH_INSTRUCTION\"; did you mean RETIRED_BRANCH_INSTRUCTIONS?"
    );
    let error = encode(k8(), "SEGMENT_REGISTER_LOADS:ESS").unwrap_err();
    assert_eq!(
        error.to_string(),
        "event SEGMENT_REGISTER_LOADS has no unit mask or modifier \"ESS\"; did you mean ES?"
    );
    for words in ["RETIRED_INSTRUCTIONS:c=256", "RETIRED_INSTRUCTIONS:c=", "RETIRED_UOPS:u=2"] {
        assert!(matches!(encode(k8(), words), Err(EncodeError::BadNumber { .. })), "{words}");
    }
    for words in ["", ":", "r", "rXYZ", "r123456789", "RETIRED_INSTRUCTIONS::u"] {
        assert!(encode(k8(), words).is_err(), "{words:?}");
    }
    assert!(matches!(encode(k8(), "r2000c0"), Err(EncodeError::BadNumber { .. })), "bit 21");
}

/// Every writable value goes through words and comes back. Codes, masks, thresholds and flags are
/// walked one against the others.
#[test]
fn words_are_as_good_as_the_value() {
    for code in 0..=0xFF_u64 {
        for (i, umask) in [0x00, 0x01, 0x07, 0x80, 0xFF].into_iter().enumerate() {
            let flags = (code * 5 + i as u64) & 0x7F;
            // Seven flags: USR, OS, E, PC, INT at 16 to 20, EN and INV at 22 and 23.
            let flags = (flags & 0x1F) << 16 | (flags >> 5) << 22;
            let value = code | umask << 8 | flags | (code ^ umask) << 24;
            let explanation = explain(k8(), "C0010000", value).unwrap();
            let words = &explanation.selections[0].encoding;
            assert_eq!(encode(k8(), words), Ok(value), "{value:#x} {words}");
        }
    }
}

/// The value that Linux writes for `cycles`, field by field.
#[test]
fn explanation_of_linux_cycles() {
    let e = explain(k8(), "0xC0010001", 0x0053_0076).unwrap();
    assert_eq!((e.register.name, e.register.msr), ("PerfEvtSel1", 0xC001_0001));
    let fields: Vec<_> = e.fields.iter().map(|f| (f.bits.as_str(), f.name, f.value)).collect();
    assert_eq!(
        fields,
        [
            ("63:32", "reserved", 0),
            ("31:24", "CNT_MASK", 0),
            ("23", "INV", 0),
            ("22", "EN", 1),
            ("21", "reserved", 0),
            ("20", "INT", 1),
            ("19", "PC", 0),
            ("18", "E", 0),
            ("17", "OS", 1),
            ("16", "USR", 1),
            ("15:8", "UNIT_MASK", 0),
            ("7:0", "EVENT_SELECT", 0x76),
        ]
    );
    assert_eq!(e.fields[11].meaning, "CPU Clocks not Halted");
    assert_eq!(e.selections[0].encoding, "CPU_CLOCKS_NOT_HALTED:int:en");
    assert_eq!(e.warnings, Vec::<String>::new());
}

/// Every warning, by a value that deserves it, and not by the plain one.
#[test]
fn warnings() {
    let warn = |value| explain(k8(), "PerfEvtSel0", value).unwrap().warnings.join("; ");
    assert_eq!(warn(0x43_00C0), "");
    for (value, expected) in [
        (0x43_0099, "reserved event 99h: counts nothing"),
        (0x443_00C0, "CNT_MASK 4-255 is reserved: never true"),
        (0x4C3_00C0, "CNT_MASK 4-255 is reserved: always true with INV"),
        (0xC3_00C0, "INV is ignored while CNT_MASK is 0"),
        (0x40_00C0, "neither USR nor OS is set: counts nothing"),
        (0x63_00C0, "reserved bits 0x200000 are ignored and read as zero"),
        (0x100_0043_00C0, "reserved bits 0x10000000000 are ignored and read as zero"),
        (0x43_0141, "UNIT_MASK 01h is ignored by this event; pending in this version: counts zero"),
        (0x43_007D, "UNIT_MASK 00h selects nothing: counts zero"),
        (0x43_01E9, "UNIT_MASK 01h selects nothing: counts zero"),
        (0x43_81CB, "UNIT_MASK bits 80h are not documented"),
        (0x43_0724, "some of the unit masks are pending in this version: they count zero"),
        (0x43_01F6, "absent in this machine: counts zero"),
        (0x13_00C0, "INT is set, but EN is clear: the counter stands still"),
        (0x03_00C0, "EN is clear: the counter stands still"),
    ] {
        assert_eq!(warn(value), expected, "{value:#x}");
    }
}

#[test]
fn explanation_of_a_counter() {
    let e = explain(k8(), "perfctr3", (-100_i64).cast_unsigned()).unwrap();
    assert_eq!(e.register.msr, 0xC001_0007);
    assert_eq!(e.reads_as, 0xFFFF_FFFF_FF9C);
    assert_eq!(
        e.warnings,
        ["bits 63:48 are ignored and read as zero", "overflows after 100 more events"]
    );
    assert!(e.selections.is_empty());
    assert_eq!(e.fields[1].value, 0xFFFF_FFFF_FF9C);
}

/// Each word that is listed is taken, with its highest number if it takes one, and sets the bit of its field;
/// all words of a modifier set the same. Bits: section 10.2 of the K8 document.
#[test]
fn modifiers_are_those_that_are_taken() {
    let base = encode(k8(), "RETIRED_INSTRUCTIONS:none").unwrap();
    let mut set = Vec::new();
    for modifier in modifiers(k8()) {
        let values: Vec<_> = modifier
            .words
            .iter()
            .map(|word| {
                let number = modifier.max.map_or(String::new(), |max| max.to_string());
                encode(k8(), &format!("RETIRED_INSTRUCTIONS:none:{word}{number}")).unwrap() ^ base
            })
            .collect();
        assert!(values.iter().all(|value| *value == values[0]), "{modifier:?}");
        assert_eq!(modifier.words.iter().all(|word| word.ends_with('=')), modifier.max.is_some());
        set.push(values[0]);
    }
    let bits = [16, 17].map(|bit| 1 << bit);
    let flags = [18, 23, 20, 19, 22].map(|bit| 1 << bit);
    let expected = [&bits[..], &[0], &flags, &[0xFF << 24, 0xFF << 8]].concat();
    assert_eq!(set, expected);
    // Bit 21 is Knights Corner's, which lacks bit 19.
    let knc = Personality::by_name("knc").unwrap();
    let words: Vec<_> = modifiers(knc).into_iter().flat_map(|modifier| modifier.words).collect();
    assert!(words.contains(&"t") && !words.contains(&"pc"), "{words:?}");
}

#[test]
fn unknown_registers_name_the_nearest() {
    let error = explain(k8(), "PerfEvtSel", 0).unwrap_err();
    assert_eq!(error.to_string(), "no PMU register PerfEvtSel; did you mean PerfEvtSel0?");
    // Nothing that a terminal obeys is repeated.
    let error = explain(k8(), "\u{1b}[2J", 0).unwrap_err();
    assert!(error.to_string().starts_with("no PMU register \\u{1b}[2J"), "{error}");
    for name in ["186", "0xC0010008", "", "h"] {
        assert!(explain(k8(), name, 0).is_err(), "{name:?}");
    }
}
