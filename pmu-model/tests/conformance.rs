//! The registers of every processor, bit by bit, against tables typed in from the manuals.
//!
//! Sources: P55C: Intel MMX Technology manual, section 6.3, Intel SDM volume 3 "Performance
//! Monitoring (Pentium Processors)". P6: Intel SDM volume 3 "Performance Monitoring (P6 Family
//! Processor)". K7: AMD 22007 "Performance Counter Usage". K8: AMD BKDG 26094, sections 10.1 and
//! 10.2. Knights Corner: Intel 327357-001, section 1.4.3. What they leave open about reserved bits is
//! decided by clients that write them and must not fault: OProfile, perfctr and kvm-unit-tests write
//! -1 to counters, Linux writes event-select bit 40, libpfm4 sets bit 22 of the P6's second event
//! select.

mod guest;

use guest::Guest;
use pmu_model::{GpFault, MsrAccess, Pmu, PmuStateV1, RdpmcCaller, Reset, Signal, SignalSet};

/// What a WRMSR does to a register.
#[derive(Clone, Copy, PartialEq)]
enum Write {
    /// These bits are kept, the others ignored.
    Keeps(u64),
    /// 31:0 are kept, 39:32 become copies of bit 31, the others are ignored.
    SignExtends,
    /// #GP(0).
    Faults,
    /// It does something else than to keep the value, which cannot be read.
    Acts,
}

/// One register: MSR number, value after power-up, what a write does. It can be read unless a
/// write acts.
type Row = (u32, u64, Write);

use Write::{Acts, Faults, Keeps, SignExtends};

/// One processor.
struct Part {
    name: &'static str,
    rows: &'static [Row],
    /// Counter MSRs in the order of RDPMC.
    counters: &'static [u32],
    /// RDPMC in 16-bit code gives 32 bits.
    rdpmc_32bit_in_16bit_code: bool,
}

/// Pentium MMX: CESR has ES, CC and PC in 9:0 and 25:16; two counters of 40 bits.
const P55C: Part = Part {
    name: "p55c",
    rows: &[
        (0x11, 0, Keeps(0x03FF_03FF)),
        (0x12, 0, Keeps(0xFF_FFFF_FFFF)),
        (0x13, 0, Keeps(0xFF_FFFF_FFFF)),
    ],
    counters: &[0x12, 0x13],
    rdpmc_32bit_in_16bit_code: true,
};

/// The P6 family: event selects without bit 21; EN is there in both.
const P6_ROWS: &[Row] = &[
    (0x186, 0, Keeps(0xFFDF_FFFF)),
    (0x187, 0, Keeps(0xFFDF_FFFF)),
    (0xC1, 0, SignExtends),
    (0xC2, 0, SignExtends),
];

const fn p6_family(name: &'static str) -> Part {
    Part { name, rows: P6_ROWS, counters: &[0xC1, 0xC2], rdpmc_32bit_in_16bit_code: false }
}

/// K7 and K8: event selects without bit 21 and 63:32; four counters of 48 bits.
const AMD_ROWS: &[Row] = &[
    (0xC001_0000, 0, Keeps(0xFFDF_FFFF)),
    (0xC001_0001, 0, Keeps(0xFFDF_FFFF)),
    (0xC001_0002, 0, Keeps(0xFFDF_FFFF)),
    (0xC001_0003, 0, Keeps(0xFFDF_FFFF)),
    (0xC001_0004, 0, Keeps(0xFFFF_FFFF_FFFF)),
    (0xC001_0005, 0, Keeps(0xFFFF_FFFF_FFFF)),
    (0xC001_0006, 0, Keeps(0xFFFF_FFFF_FFFF)),
    (0xC001_0007, 0, Keeps(0xFFFF_FFFF_FFFF)),
];

const fn amd(name: &'static str) -> Part {
    Part {
        name,
        rows: AMD_ROWS,
        counters: &[0xC001_0004, 0xC001_0005, 0xC001_0006, 0xC001_0007],
        rdpmc_32bit_in_16bit_code: false,
    }
}

/// Knights Corner, tables 1-2 to 1-10: event selects without bit 19 but with bit 21; the status is
/// read-only, its clear register write-only.
const KNC: Part = Part {
    name: "knc",
    rows: &[
        (0x20, 0, Keeps(0xFF_FFFF_FFFF)),
        (0x21, 0, Keeps(0xFF_FFFF_FFFF)),
        (0x28, 0, Keeps(0xFFF7_FFFF)),
        (0x29, 0, Keeps(0xFFF7_FFFF)),
        (0x2C, 0, Keeps(0x8000_0000_0000_0003)),
        (0x2D, 0, Faults),
        (0x2E, 0, Acts),
        (0x2F, 0, Keeps(0x3)),
    ],
    counters: &[0x20, 0x21],
    rdpmc_32bit_in_16bit_code: false,
};

const PARTS: [Part; 8] = [
    P55C,
    p6_family("ppro"),
    p6_family("pii"),
    p6_family("p6"),
    p6_family("pm"),
    amd("k7"),
    amd("k8"),
    KNC,
];

/// What a register without other history reads after a write of `value`, which is `Done`.
fn kept(write: Write, value: u64) -> u64 {
    match write {
        Keeps(bits) => value & bits,
        SignExtends if value & 0x8000_0000 != 0 => 0xFF_0000_0000 | value & 0xFFFF_FFFF,
        SignExtends => value & 0xFFFF_FFFF,
        Faults | Acts => unreachable!("not written with success, or not read"),
    }
}

impl Part {
    /// Registers that hold what is written.
    fn writable(&self) -> impl Iterator<Item = (u32, Write)> {
        self.rows
            .iter()
            .filter(|(.., write)| matches!(write, Keeps(_) | SignExtends))
            .map(|&(msr, _, write)| (msr, write))
    }

    /// Every register that can be read except `written` has its reset value.
    fn others_are_untouched(&self, guest: &Guest, written: u32) {
        for &(msr, reset, write) in self.rows {
            if msr != written && write != Acts {
                assert_eq!(guest.rdmsr(msr), reset, "{} {written:#x} -> {msr:#x}", self.name);
            }
        }
    }
}

/// Without the statistics of the run, which no guest sees and no reset but power-up clears.
fn guest_state(pmu: &Pmu, fresh: &Pmu) -> PmuStateV1 {
    let fresh = fresh.save();
    PmuStateV1 { stats: fresh.stats, uncounted: fresh.uncounted, ..pmu.save() }
}

#[test]
fn reset_values() {
    for part in PARTS {
        let guest = Guest::on(part.name);
        part.others_are_untouched(&guest, 0);
        assert!(!guest.pmu.demand().counting, "{}", part.name);
    }
}

/// Each bit alone, over zeros and over ones.
#[test]
fn every_bit_written_and_read_back() {
    for part in PARTS {
        for (msr, write) in part.writable() {
            for bit in 0..64 {
                let (one, hole) = (1_u64 << bit, !(1_u64 << bit));
                let mut guest = Guest::on(part.name);
                guest.wrmsr(msr, one);
                assert_eq!(guest.rdmsr(msr), kept(write, one), "{} {msr:#x} {bit}", part.name);
                part.others_are_untouched(&guest, msr);
                guest.wrmsr(msr, u64::MAX);
                guest.wrmsr(msr, hole);
                assert_eq!(guest.rdmsr(msr), kept(write, hole), "{} {msr:#x} {bit}", part.name);
                part.others_are_untouched(&guest, msr);
            }
        }
    }
}

#[test]
fn all_ones_and_all_zeros() {
    for part in PARTS {
        let mut guest = Guest::on(part.name);
        for (msr, _) in part.writable() {
            guest.wrmsr(msr, u64::MAX);
        }
        for (msr, write) in part.writable() {
            assert_eq!(guest.rdmsr(msr), kept(write, u64::MAX), "{} {msr:#x}", part.name);
        }
        for (msr, _) in part.writable() {
            guest.wrmsr(msr, 0);
            assert_eq!(guest.rdmsr(msr), 0, "{} {msr:#x}", part.name);
        }
    }
}

/// Every register holds its own last value, in any order of writes: 4000 writes of a fixed
/// sequence of odd-looking values.
#[test]
fn the_last_write_to_each_register_stands() {
    for part in PARTS {
        let mut guest = Guest::on(part.name);
        let registers: Vec<(u32, Write)> = part.writable().collect();
        let mut values = vec![0; registers.len()];
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..4000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let which = (seed >> 33) as usize % registers.len();
            let (msr, write) = registers[which];
            guest.wrmsr(msr, seed);
            values[which] = kept(write, seed);
            for (&(msr, _), value) in registers.iter().zip(&values) {
                assert_eq!(guest.rdmsr(msr), *value, "{} {msr:#x}", part.name);
            }
        }
    }
}

/// Knights Corner, tables 1-8 and 1-9: `IA32_PERF_GLOBAL_STATUS` RO, `..._OVF_CONTROL` WO; any
/// value, zero included.
#[test]
fn read_only_and_write_only_registers_fault() {
    let mut guest = Guest::on("knc");
    let before = guest.pmu.clone();
    let values = (0..64).map(|bit| 1 << bit).chain([0, u64::MAX]);
    for value in values {
        assert_eq!(guest.pmu.judge_write(0x2D, value), MsrAccess::GpFault);
        assert_eq!(guest.pmu.write_msr(0x2D, value), MsrAccess::GpFault, "{value:#x}");
        assert_eq!(guest.pmu.write_msr(0x2E, value), MsrAccess::Done(()), "{value:#x}");
        assert_eq!(guest.pmu.read_msr(0x2E), MsrAccess::GpFault);
    }
    assert_eq!(guest.pmu, before, "a fault changes nothing, and there was no status to clear");
}

/// Numbers that are no register of the part: the whole neighbourhood of every register of every
/// part, so that 2Ah and 2Bh are not 29h, 188h is not an event select, K8's are not P6's.
#[test]
fn neighbours_are_not_ours() {
    for part in PARTS {
        let mut guest = Guest::on(part.name);
        let before = guest.pmu.clone();
        let ranges = [0..0x1000, 0xC000_0000..0xC000_0200, 0xC000_FF00..0xC001_0400];
        let mut strangers: Vec<u32> = ranges.into_iter().flatten().collect();
        strangers.extend([0x4000_0000, 0x7FFF_FFFF, 0x8000_0000, 0x8001_0000, u32::MAX]);
        strangers.retain(|&msr| part.rows.iter().all(|row| row.0 != msr));
        assert_eq!(strangers.len(), 0x1000 + 0x200 + 0x500 + 5 - part.rows.len());
        for msr in strangers {
            assert_eq!(guest.pmu.read_msr(msr), MsrAccess::NotOurs, "{} {msr:#x}", part.name);
            for value in [0, u64::MAX] {
                assert_eq!(guest.pmu.judge_write(msr, value), MsrAccess::NotOurs);
                assert_eq!(guest.pmu.write_msr(msr, value), MsrAccess::NotOurs);
            }
        }
        assert_eq!(guest.pmu, before, "{}", part.name);
    }
}

/// P6 (Intel SDM volume 3, "PerfCtr0 and PerfCtr1 MSRs"): a write takes 31:0 and extends bit 31 to
/// 39:32. The others take what is written, cut to their width.
#[test]
fn counters_take_values_of_any_width() {
    let values: [u64; 6] = [
        0x0000_0000_7FFF_FFFF,
        0x0000_0000_8000_0001,
        0x0000_00AB_8765_4321,
        0x0000_FFFE_1234_5678,
        0xFFFF_FFFF_FFFF_FFFF,
        0xFFFF_FFFF_0000_0000,
    ];
    let signed_32 = [0x7FFF_FFFF, 0xFF_8000_0001, 0xFF_8765_4321, 0x1234_5678, 0xFF_FFFF_FFFF, 0];
    let whole_40 =
        [0x7FFF_FFFF, 0x8000_0001, 0xAB_8765_4321, 0xFE_1234_5678, 0xFF_FFFF_FFFF, 0xFF_0000_0000];
    let whole_48 = [
        0x7FFF_FFFF,
        0x8000_0001,
        0xAB_8765_4321,
        0xFFFE_1234_5678,
        0xFFFF_FFFF_FFFF,
        0xFFFF_0000_0000,
    ];
    for (name, counters, expected) in [
        ("p55c", &[0x12, 0x13][..], whole_40),
        ("ppro", &[0xC1, 0xC2], signed_32),
        ("pii", &[0xC1, 0xC2], signed_32),
        ("p6", &[0xC1, 0xC2], signed_32),
        ("pm", &[0xC1, 0xC2], signed_32),
        ("k7", &[0xC001_0004, 0xC001_0005, 0xC001_0006, 0xC001_0007], whole_48),
        ("k8", &[0xC001_0004, 0xC001_0005, 0xC001_0006, 0xC001_0007], whole_48),
        ("knc", &[0x20, 0x21], whole_40),
    ] {
        let mut guest = Guest::on(name);
        for (index, &msr) in (0..).zip(counters) {
            for (value, expected) in values.into_iter().zip(expected) {
                guest.wrmsr(msr, value);
                assert_eq!(guest.rdmsr(msr), expected, "{name} {msr:#x} := {value:#x}");
                assert_eq!(guest.rdpmc(index), expected, "{name} RDPMC {index}");
            }
        }
    }
}

/// RDPMC (Intel MMX manual 6.3, Intel SDM, AMD64 volume 3, Knights Corner table 1-1): #GP beyond the
/// last counter, whatever else is in ECX (bit 31 means fast reads on other processors only, an MSR
/// number is no index), and above CPL 0 unless CR4.PCE is set. Real mode has no privilege to check.
/// In virtual-8086 mode CPL is 3. Values are zero-extended; on P55C alone 16-bit code gets 32 bits.
#[test]
fn rdpmc_indices_and_privilege() {
    for part in PARTS {
        let mut guest = Guest::on(part.name);
        for (i, &msr) in (0..).zip(part.counters) {
            guest.wrmsr(msr, 0xFFAB_8765_4320 + i);
        }
        let high = match part.name {
            "p55c" | "knc" => 0xAB_0000_0000,
            "k7" | "k8" => 0xFFAB_0000_0000,
            _ => 0xFF_0000_0000,
        };
        let last = part.counters.len() as u32 - 1;
        for index in 0..=last {
            for bits in 0..32_u8 {
                let caller = RdpmcCaller {
                    cpl: bits & 3,
                    pce: bits & 4 != 0,
                    real_mode: bits & 8 != 0,
                    code_16bit: bits & 16 != 0,
                };
                let allowed = caller.cpl == 0 || caller.pce || caller.real_mode;
                let short = caller.code_16bit && part.rdpmc_32bit_in_16bit_code;
                let upper = if short { 0 } else { high };
                let value = upper + 0x8765_4320 + u64::from(index);
                let expected = if allowed { Ok(value) } else { Err(GpFault) };
                assert_eq!(guest.pmu.rdpmc(index, caller), expected, "{} {caller:?}", part.name);
            }
        }
        let beyond = [last + 1, last + 2, 4, 64, 0x100, 0x1_0000, 0x4000_0000, u32::MAX];
        let fast = [0x8000_0000, 0x8000_0000 | last];
        for index in beyond.into_iter().chain(fast).chain(part.counters.iter().copied()) {
            for real_mode in [false, true] {
                let caller = RdpmcCaller { cpl: 0, pce: true, real_mode, code_16bit: real_mode };
                let outcome = guest.pmu.rdpmc(index, caller);
                assert_eq!(outcome, Err(GpFault), "{} {index:#x}", part.name);
            }
        }
    }
}

/// A program that counts retired instructions on counter 0 from 1000, and what is enabled where.
/// Each with values in registers that the program does not use.
fn program(guest: &mut Guest) -> &'static [(u32, u64)] {
    let values: &[(u32, u64)] = match guest.pmu.personality().name {
        "p55c" => &[(0x12, 1000), (0x13, 0xAB_0000_0001), (0x11, 0x0216_00D6)],
        "ppro" | "pii" | "p6" | "pm" => {
            &[(0xC1, 1000), (0xC2, 0xFF_8000_0001), (0x187, 0x0052_0079), (0x186, 0x0053_00C0)]
        }
        "k7" | "k8" => &[
            (0xC001_0004, 1000),
            (0xC001_0007, 0xFFFF_FFFF_0000),
            (0xC001_0003, 0x0113_0076),
            (0xC001_0000, 0x0053_00C0),
        ],
        "knc" => &[
            (0x20, 1000),
            (0x21, 0xFF_FFFF_FFFF),
            (0x28, 0x0053_0016),
            (0x29, 0x0041_0016),
            (0x2C, 0x8000_0000_0000_0001),
            (0x2F, 3),
        ],
        other => panic!("{other} has no program"),
    };
    for &(msr, value) in values {
        guest.wrmsr(msr, value);
    }
    values
}

/// Power-up and RESET give the reset values; INIT leaves registers and counting alone (Intel SDM
/// volume 3, table "IA-32 Processor States Following Power-up, Reset, or INIT"; Knights Corner
/// section 1.4.4, where a warm reset is said to equal a cold one).
#[test]
fn cold_reset_warm_reset_and_init() {
    for part in PARTS {
        let fresh = Guest::on(part.name);
        let mut guest = Guest::on(part.name);
        let values = program(&mut guest);
        let counter = values[0].0;

        let before = guest.pmu.clone();
        guest.pmu.reset(Reset::Init);
        assert_eq!(guest.pmu, before, "{}", part.name);
        for &(msr, value) in values {
            assert_eq!(guest.rdmsr(msr), value, "{} {msr:#x} after INIT", part.name);
        }
        // Knights Corner's second counter overflows at CPL 3, without INT.
        assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), [], "{}", part.name);
        assert_eq!(guest.rdmsr(counter), 1005, "{} counts on after INIT", part.name);
        if part.name == "knc" {
            assert_eq!((guest.rdmsr(0x2D), guest.rdmsr(0x21)), (2, 4));
            guest.pmu.reset(Reset::Init);
            assert_eq!(guest.rdmsr(0x2D), 2, "INIT keeps the overflow status");
        }

        guest.pmu.reset(Reset::Warm);
        part.others_are_untouched(&guest, 0);
        assert_eq!(guest_state(&guest.pmu, &fresh.pmu), fresh.pmu.save(), "{}", part.name);
        assert_eq!(guest.fire(Signal::InsnRetired, 5, 3), []);
        assert_eq!(guest.rdmsr(counter), 0, "{} stands still after RESET", part.name);
        assert!(!guest.pmu.demand().counting && !guest.pmu.sibling_demand().counting);
        let total = guest.pmu.counter_stats(0).unwrap().total().count;
        assert_eq!(total, 5, "{}: the run's statistics outlive a warm reset", part.name);

        program(&mut guest);
        guest.pmu.reset(Reset::Cold);
        assert_eq!(guest.pmu, fresh.pmu, "{}", part.name);
    }
}

/// A PMU restored in the middle of a program is the PMU that was saved, and counts on as it does.
#[test]
fn save_and_restore_in_the_middle() {
    for part in PARTS {
        let mut guest = Guest::on(part.name);
        let values = program(&mut guest);
        assert_eq!(guest.fire(Signal::InsnRetired, 234, 3), []);
        let state = guest.pmu.save();
        let restored = Pmu::restore(guest.pmu.personality(), &SignalSet::ALL, &state).unwrap();
        assert_eq!(restored, guest.pmu, "{}", part.name);
        let mut restored = Guest { pmu: restored };
        for &(msr, value) in &values[2..] {
            assert_eq!(restored.rdmsr(msr), value, "{} {msr:#x}", part.name);
        }
        for guest in [&mut guest, &mut restored] {
            assert_eq!(guest.fire(Signal::InsnRetired, 6, 3), []);
            assert_eq!(guest.rdmsr(values[0].0), 1240, "{}", part.name);
        }
        assert_eq!(restored.pmu, guest.pmu, "{}", part.name);
        for other in PARTS.iter().filter(|other| other.name != part.name) {
            let stranger = Guest::on(other.name).pmu.personality();
            assert!(
                Pmu::restore(stranger, &SignalSet::ALL, &state).is_err(),
                "{} as {}",
                part.name,
                other.name
            );
        }
    }
}

/// What no register shows is in the state too: that a condition held in the last clock (P55C: a bus
/// cycle that goes on is not a second one), and with the status the level of the interrupt line
/// (Knights Corner: no second edge before the status was cleared).
#[test]
fn save_and_restore_in_the_middle_of_a_condition() {
    let restored = |guest: &Guest| {
        Pmu::restore(guest.pmu.personality(), &SignalSet::ALL, &guest.pmu.save()).unwrap()
    };

    let mut guest = Guest::on("p55c");
    let busy = [(Signal::BusBusy, 1)].into_iter().collect();
    guest.wrmsr(0x11, 0x00D8);
    assert!(guest.pmu.cycle(&busy, 0).is_empty());
    let mut guest = Guest { pmu: restored(&guest) };
    assert!(guest.pmu.cycle(&busy, 0).is_empty());
    assert_eq!(guest.rdmsr(0x12), 1);

    let mut guest = Guest::on("knc");
    for (msr, value) in [(0x20, 0xFF_FFFF_FFFF), (0x28, 0x0053_0016), (0x2F, 1)] {
        guest.wrmsr(msr, value);
    }
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), [0]);
    let mut guest = Guest { pmu: restored(&guest) };
    assert_eq!(guest.rdmsr(0x2D), 1);
    guest.wrmsr(0x20, 0xFF_FFFF_FFFF);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), []);
    guest.wrmsr(0x2E, 1);
    guest.wrmsr(0x20, 0xFF_FFFF_FFFF);
    assert_eq!(guest.fire(Signal::InsnRetired, 1, 0), [0]);
}

/// A state with a bit that the register cannot hold is no state of this processor.
#[test]
fn a_state_with_reserved_bits_is_refused() {
    for part in PARTS {
        let guest = Guest::on(part.name);
        let personality = guest.pmu.personality();
        for (what, spoil) in [
            ("counter", (|s| s.registers.perfctr[0] = 1 << 48) as fn(&mut PmuStateV1)),
            ("counter 4", |s| s.registers.perfctr[3] = 1 << 50),
            ("event select", |s| s.registers.evtsel[0] = 1 << 32),
            ("CESR", |s| s.registers.cesr = 1 << 10),
            ("SPFLT control", |s| s.registers.spflt_control = 1 << 2),
            ("status", |s| s.registers.global_status = 1 << 2),
            ("global control", |s| s.registers.global_ctrl = 1 << 2),
        ] {
            let mut state = guest.pmu.save();
            spoil(&mut state);
            assert!(
                Pmu::restore(personality, &SignalSet::ALL, &state).is_err(),
                "{} {what}",
                part.name
            );
        }
    }
}
