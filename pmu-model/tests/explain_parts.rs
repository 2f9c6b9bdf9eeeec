//! Register values in words and back, for the other parts than the K8, by hand.
//!
//! Sources: P55C and P6: Intel, *MMX Technology* manual, chapter 6 (Tables 6-1 and 6-2), and Intel SDM
//! volume 3, "Performance Monitoring (Pentium Processors)" and "(P6 Family Processor)". Knights
//! Corner: Intel 327357, section 1.4.3.

use pmu_model::explain::{EncodeError, Explanation, UnknownRegister, encode};
use pmu_model::{Personality, Programming, Tier};

fn part(name: &str) -> &'static Personality {
    Personality::by_name(name).unwrap_or_else(|| panic!("no {name}"))
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

fn words(explanation: &Explanation) -> Vec<&str> {
    explanation.selections.iter().map(|selection| selection.encoding.as_str()).collect()
}

/// CESR: ES 5:0, CC 8:6 (bit 0 CPL 0-2, bit 1 CPL 3, bit 2 clocks), PC 9; counter 1 from bit 16 up.
#[test]
fn cesr_has_two_halves() {
    // ES0 02h, CC0 101b, PC0 0; ES1 16h, CC1 011b, PC1 1.
    let e = explain(part("p55c"), "11", 0x02D6_0142).unwrap();
    let fields: Vec<_> =
        e.fields.iter().map(|f| (f.bits.as_str(), f.name, f.value, f.meaning.as_str())).collect();
    assert_eq!(
        fields,
        [
            ("63:26", "reserved", 0, "reads as zero"),
            ("25", "PC1", 1, "PM1 toggles: 1 on overflow, 0 on each increment"),
            ("24:22", "CC1", 3, "events at any CPL"),
            ("21:16", "ES1", 0x16, "Instructions Executed"),
            ("15:10", "reserved", 0, "reads as zero"),
            ("9", "PC0", 0, "clear (PM0 toggles: 1 on overflow, 0 on each increment)"),
            ("8:6", "CC0", 5, "clocks at CPL 0-2"),
            ("5:0", "ES0", 2, "Data TLB Miss"),
        ]
    );
    assert_eq!(words(&e), ["DATA_TLB_MISS:k:clk", "INSTRUCTIONS_EXECUTED:pc:ctr=1"]);
    assert_eq!(e.warnings, ["counter 0: pending in this version: counts zero"]);
}

/// Every value of CC, for counter 1 counting 16h.
#[test]
fn cesr_counter_control() {
    for (cc, meaning) in [
        (0, "off"),
        (1, "events at CPL 0-2"),
        (2, "events at CPL 3"),
        (3, "events at any CPL"),
        (4, "off"),
        (5, "clocks at CPL 0-2"),
        (6, "clocks at CPL 3"),
        (7, "clocks at any CPL"),
    ] {
        let e = explain(part("p55c"), "CESR", 0x16_0000 | cc << 22).unwrap();
        assert_eq!(e.fields[2].meaning, meaning);
    }
}

/// Reserved bits, and a code that Table 6-1 does not have; a counter that is off says nothing.
#[test]
fn cesr_warnings() {
    let warn = |value| explain(part("p55c"), "CESR", value).unwrap().warnings;
    assert_eq!(warn(0xFC00_FC00), ["reserved bits 0xfc00fc00 are ignored and read as zero"]);
    assert_eq!(warn(0x00BF_0000), ["counter 1: reserved event 3Fh: counts nothing"]);
    assert_eq!(warn(0x003F_0000), Vec::<String>::new());
}

/// 35h is one event on counter 0 and another on counter 1; the name says which counter is meant.
#[test]
fn twins_of_the_pentium() {
    let e = explain(part("p55c"), "CESR", 0x0075_0075).unwrap();
    let names: Vec<_> = e.selections.iter().map(|s| s.event.unwrap().name).collect();
    let [first, second] = names[..] else { panic!("{names:?}") };
    assert_ne!(first, second);
    assert_eq!(encode(part("p55c"), &format!("{first}:k")), Ok(0x75));
    assert_eq!(encode(part("p55c"), &format!("{second}:k")), Ok(0x75_0000));
}

#[test]
fn words_for_cesr() {
    let p55c = part("p55c");
    for (words, value) in [
        ("DATA_READ", 0xC0),
        ("DATA_READ:u", 0x80),
        ("DATA_READ:os:pc", 0x240),
        ("BRANCHES:k:clk", 0x152),
        ("BRANCHES:ctr=1:k:clk", 0x152_0000),
        ("BRANCHES:none", 0x12),
        ("r12", 0xD2),
        ("r12:ctr=1:u", 0x92_0000),
    ] {
        assert_eq!(encode(p55c, words), Ok(value), "{words}");
    }
    for words in ["BRANCHES:en", "BRANCHES:int", "BRANCHES:e", "BRANCHES:t", "BRANCHES:umask=1"] {
        let error = encode(p55c, words);
        assert!(matches!(error, Err(EncodeError::UnknownModifier { .. })), "{words}: {error:?}");
    }
    for words in ["BRANCHES:ctr=2", "r400"] {
        assert!(matches!(encode(p55c, words), Err(EncodeError::BadNumber { .. })), "{words}");
    }
}

/// EN of PerfEvtSel1 has no function, that of PerfEvtSel0 enables both counters; event 2Eh with mask 0
/// counts nothing; C1h is counter 0's; bit 21 is reserved.
#[test]
fn p6_warnings() {
    const NO_FUNCTION: &str = "EN of this register has no function: that of the first enables";
    const STANDS: &str = "EN is clear: every counter stands still";
    let warn = |register, value| explain(part("p6"), register, value).unwrap().warnings.join("; ");
    assert_eq!(warn("186", 0x53_00C0), "");
    assert_eq!(warn("187", 0x13_00C0), "");
    assert_eq!(warn("187", 0x53_00C0), NO_FUNCTION);
    assert_eq!(warn("186", 0x13_00C0), STANDS);
    assert_eq!(warn("186", 0x43_002E), "UNIT_MASK 00h selects nothing: counts zero");
    // What Linux writes to stop counter 0 stops both.
    assert_eq!(
        warn("PerfEvtSel0", 0x2E),
        format!(
            "neither USR nor OS is set: counts nothing; \
             UNIT_MASK 00h selects nothing: counts zero; {STANDS}"
        )
    );
    assert_eq!(warn("187", 0x03_00C1), "counter 1 cannot count this event: counts zero");
    assert_eq!(warn("186", 0xC3_00C0), "INV is ignored while CMASK is 0");
    assert_eq!(warn("186", 0xFF43_00C0), "");
    assert_eq!(
        warn("186", 0x1_0063_00C0),
        "reserved bits 0x100200000 are ignored and read as zero"
    );
}

/// A write sets 31:0 and extends their sign to 40 bits (SDM, "P6 Family Processor").
#[test]
fn p6_counters_take_32_bits() {
    let e = explain(part("p6"), "C1", 0x8000_0001).unwrap();
    assert_eq!(e.reads_as, 0xFF_8000_0001);
    assert_eq!(
        e.warnings,
        [
            "a write sets bits 31:0; bits 39:32 become copies of bit 31",
            "overflows after 2147483647 more events"
        ]
    );
    assert_eq!(explain(part("p6"), "C2", 0x12_7FFF_FFFF).unwrap().reads_as, 0x7FFF_FFFF);
}

/// Line states are bits and add up; own or any agent are values and exclude each other.
#[test]
fn unit_masks_of_the_p6() {
    let p6 = part("p6");
    for (words, value) in [
        ("L2_RQSTS:M:E:S:I", 0x3_0F2E),
        ("L2_RQSTS:all", 0x3_0F2E),
        ("L2_RQSTS:e", 0x3_042E),
        ("L2_RQSTS:e:e=1", 0x7_042E),
        ("L2_RQSTS:i:inv:c=2", 0x283_012E),
        ("L2_RQSTS:umask=0", 0x3_002E),
        ("BUS_TRAN_MEM", 0x3_006F),
        ("BUS_TRAN_MEM:SELF", 0x3_006F),
        ("BUS_TRAN_MEM:ANY:ANY", 0x3_206F),
        ("r206F", 0x3_206F),
    ] {
        assert_eq!(encode(p6, words), Ok(value), "{words}");
    }
    let error = encode(p6, "BUS_TRAN_MEM:SELF:ANY").unwrap_err();
    assert_eq!(
        error.to_string(),
        "event BUS_TRAN_MEM takes one unit mask, and \"ANY\" is a second"
    );
    let error = encode(p6, "L2_RQSTS:u").unwrap_err();
    assert_eq!(error.to_string(), "event L2_RQSTS needs a unit mask: M, E, S, I");
    let error = encode(p6, "L2_RQST").unwrap_err();
    assert_eq!(error.to_string(), "unknown event \"L2_RQST\"; did you mean L2_RQSTS:M?");
    for words in ["INST_RETIRED:t", "INST_RETIRED:any", "BUS_TRAN_MEM:all"] {
        let error = encode(p6, words);
        assert!(matches!(error, Err(EncodeError::UnknownModifier { .. })), "{words}: {error:?}");
    }
}

/// Bit 21 counts all threads of the core, bit 19 is reserved (section 1.4.3.3).
#[test]
fn thread_mode_of_knights_corner() {
    let knc = part("knc");
    let e = explain(knc, "28", 0x72_10CB).unwrap();
    assert_eq!(words(&e), ["L2_READ_MISS:k:int:t:en"]);
    assert_eq!(e.fields[4].meaning, "thread count mode: 0 own thread, 1 all threads of the core");
    assert_eq!(e.warnings, ["pending in this version: counts zero"]);
    assert_eq!(encode(knc, "L2_READ_MISS:k:any:int:en"), Ok(0x72_10CB));

    let e = explain(knc, "28", 0x5B_0016).unwrap();
    assert_eq!(e.reads_as, 0x53_0016);
    assert_eq!(e.warnings, ["reserved bits 0x80000 are ignored and read as zero"]);
    let error = encode(knc, "INSTRUCTIONS_EXECUTED:pc");
    assert!(matches!(error, Err(EncodeError::UnknownModifier { .. })), "{error:?}");
}

/// The events of the ring interface have no thread.
#[test]
fn events_of_the_core() {
    let e = explain(part("knc"), "IA32_PerfEvtSel0", 0x43_10CB).unwrap();
    assert_eq!(
        e.warnings,
        [
            "the event has no thread context: it counts for the whole core",
            "pending in this version: counts zero"
        ]
    );
}

/// Sections 1.4.3.4 to 1.4.3.7.
#[test]
fn global_registers_of_knights_corner() {
    let set = |register, value| -> (Vec<_>, Vec<_>) {
        let e = explain(part("knc"), register, value).unwrap();
        assert!(e.selections.is_empty());
        let set = e.fields.iter().filter(|field| field.value != 0).map(|field| field.name);
        (set.collect(), e.warnings)
    };
    let none = Vec::<String>::new();
    assert_eq!(set("2C", 1 << 63 | 2), (vec!["USER_PREF", "SPFLT_1"], none.clone()));
    assert_eq!(set("IA32_PERF_GLOBAL_CTRL", 3), (vec!["EN_1", "EN_0"], none));
    let read_only = "WRMSR raises #GP: the register is read-only".to_string();
    assert_eq!(set("2D", 1), (vec!["OVF_0"], vec![read_only]));
    let write_only = "RDMSR raises #GP: the register is write-only".to_string();
    assert_eq!(set("2E", 2), (vec!["CLEAR_OVF_1"], vec![write_only]));
    let ignored = "reserved bits 0x10 are ignored and read as zero".to_string();
    assert_eq!(set("2F", 0x11), (vec!["reserved", "EN_0"], vec![ignored]));
    // The register that Linux writes by mistake for 29h.
    assert!(explain(part("knc"), "2A", 0).is_err());
}

/// Every part, counter and code, with masks and flags walked one against the others: the words of a
/// value encode to the value.
#[test]
fn words_are_as_good_as_the_value() {
    for personality in Personality::ALL {
        for counter in 0..personality.counters {
            let register = personality.programmed_by(counter).unwrap();
            let shift = match personality.programming {
                Programming::PerfEvtSel => 0,
                Programming::Cesr => 16 * counter,
            };
            let word = match personality.programming {
                Programming::PerfEvtSel => register.stored,
                Programming::Cesr => 0x3FF,
            };
            for seed in 0..0x4000_u64 {
                // Low bits walk the codes, a multiplier with many bits scatters the rest.
                let scattered = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
                let value = (seed & 0xFF | scattered & 0xFFFF_FF00) & word;
                let e = explain(personality, register.name, value << shift).unwrap();
                let selection = e.selections.iter().find(|s| s.counter == counter).unwrap();
                let (name, words) = (personality.name, &selection.encoding);
                assert_eq!(encode(personality, words), Ok(value << shift), "{name} {words}");
            }
        }
    }
}
