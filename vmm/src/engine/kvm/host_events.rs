//! Which of the host's events mean what an event of the personality means, for `--count host`.
//!
//! Not here: caches and TLBs. The host's are not the guest's processor's, and what a host calls a
//! miss differs from host to host (with stores or without, the first level or the last).

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CPU_CYCLES,
    PERF_COUNT_HW_INSTRUCTIONS, PERF_TYPE_HARDWARE,
};
use pmu_model::{Fidelity, Personality, Scope, Select, Signal};

/// One meaning that hosts have an event for.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What the personality's event adds up.
    pub signals: &'static [Signal],
    /// `perf_event_attr::type`.
    pub perf_type: u32,
    /// `perf_event_attr::config`.
    pub config: u64,
    /// How well the host's count can match.
    pub fidelity: Fidelity,
    /// Why no better.
    pub note: &'static str,
}

/// The meanings that hosts have events for.
pub const TABLE: &[Row] = {
    use Signal::*;
    const HARDWARE: u32 = PERF_TYPE_HARDWARE;
    const INSTRUCTIONS: u64 = PERF_COUNT_HW_INSTRUCTIONS as u64;
    const BRANCHES: u64 = PERF_COUNT_HW_BRANCH_INSTRUCTIONS as u64;
    const MISPREDICTED: u64 = PERF_COUNT_HW_BRANCH_MISSES as u64;
    const CYCLES: u64 = PERF_COUNT_HW_CPU_CYCLES as u64;
    &[
        Row {
            signals: &[InsnRetired],
            perf_type: HARDWARE,
            config: INSTRUCTIONS,
            fidelity: Fidelity::Estimated,
            note: "some hosts count interrupts and exceptions too",
        },
        Row {
            signals: &[InsnRetired, InterruptTaken, ExceptionTaken],
            perf_type: HARDWARE,
            config: INSTRUCTIONS,
            fidelity: Fidelity::Estimated,
            note: "not every host counts interrupts and exceptions",
        },
        Row {
            signals: &[BranchRetired],
            perf_type: HARDWARE,
            config: BRANCHES,
            fidelity: Fidelity::Estimated,
            note: "some hosts count interrupts and exceptions too",
        },
        Row {
            signals: &[BranchRetired, InterruptTaken, ExceptionTaken],
            perf_type: HARDWARE,
            config: BRANCHES,
            fidelity: Fidelity::Estimated,
            note: "not every host counts interrupts and exceptions",
        },
        Row {
            signals: &[BranchMispredicted],
            perf_type: HARDWARE,
            config: MISPREDICTED,
            fidelity: Fidelity::Modelled,
            note: "the host's predictor",
        },
        Row {
            signals: &[BranchMispredicted, BranchRetiredFar, InterruptTaken, ExceptionTaken],
            perf_type: HARDWARE,
            config: MISPREDICTED,
            fidelity: Fidelity::Estimated,
            note: "the host's predictor; not every host counts far branches, interrupts and \
                   exceptions",
        },
        Row {
            signals: &[CyclesUnhalted],
            perf_type: HARDWARE,
            config: CYCLES,
            fidelity: Fidelity::Modelled,
            note: "the host's cycles",
        },
    ]
};

/// The row of `table` for what `counter` is programmed to, by `select`; `None` if no event of the
/// host means the same.
///
/// Hosts do not compare the events of a cycle as the personality's processor would, and see the other
/// threads of a core only if they run.
#[must_use]
pub fn find(
    table: &'static [Row],
    personality: &'static Personality,
    counter: usize,
    select: &Select,
) -> Option<&'static Row> {
    let event = personality.event(select.event, select.umask, counter)?;
    if select.per_cycle()
        || select.all_threads
        || event.scope == Scope::Core
        || event.counters >> counter & 1 == 0
    {
        return None;
    }
    let mut sums = event.selected(select.umask);
    let (Some(sum), None) = (sums.next(), sums.next()) else { return None };
    table.iter().find(|row| row.signals == sum)
}

/// What a counter of the host has to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostSelect {
    /// `perf_event_attr::type`.
    pub(super) perf_type: u32,
    /// `perf_event_attr::config`.
    pub(super) config: u64,
    /// Not at CPL 3.
    pub(super) exclude_user: bool,
    /// Not at CPL 0.
    pub(super) exclude_kernel: bool,
}

impl HostSelect {
    /// The event of `row` at the privilege levels of `cpls`, bit n for CPL n. Hosts split at CPL 0
    /// against 1 to 3, whatever the personality does with CPL 1 and 2.
    pub(super) fn new(row: &Row, cpls: u8) -> Self {
        Self {
            perf_type: row.perf_type,
            config: row.config,
            exclude_user: cpls & 1 << 3 == 0,
            exclude_kernel: cpls & 1 == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // perf_event_open(2), PERF_TYPE_HARDWARE.
    const CYCLES: u64 = 0;
    const INSTRUCTIONS: u64 = 1;
    const BRANCHES: u64 = 4;
    const MISPREDICTED: u64 = 5;

    fn translate(cpu: &str, word: u64) -> Option<HostSelect> {
        let personality = Personality::by_name(cpu).unwrap();
        let select = Select::from_word(personality, word, 0);
        let row = find(TABLE, personality, 0, &select)?;
        Some(HostSelect::new(row, select.cpls))
    }

    fn hardware(config: u64, exclude_user: bool, exclude_kernel: bool) -> Option<HostSelect> {
        Some(HostSelect { perf_type: 0, config, exclude_user, exclude_kernel })
    }

    /// Some event of some personality is each row's, and no two rows are for the same.
    #[test]
    fn every_row_is_for_some_event() {
        for (n, row) in TABLE.iter().enumerate() {
            let is_meant = |personality: &&&Personality| {
                personality.events.iter().any(|event| {
                    (0..=u8::MAX).any(|umask| event.selected(umask).any(|sum| sum == row.signals))
                })
            };
            assert!(Personality::ALL.iter().any(|p| is_meant(&p)), "{:?}", row.signals);
            assert!(TABLE[..n].iter().all(|other| other.signals != row.signals));
            assert_eq!(row.fidelity == Fidelity::Exact, row.note.is_empty(), "{:?}", row.signals);
        }
    }

    /// PerfEvtSel (BKDG 26094, section 10.2): USR bit 16, OS bit 17, E bit 18, EN bit 22, INV bit 23,
    /// CNT_MASK bits 31:24. INV without CNT_MASK means nothing.
    #[test]
    fn an_event_select_of_amd() {
        assert_eq!(translate("k8", 0x0043_00C0), hardware(INSTRUCTIONS, false, false));
        assert_eq!(translate("k8", 0x0041_00C2), hardware(BRANCHES, false, true));
        assert_eq!(translate("k7", 0x0042_00C3), hardware(MISPREDICTED, true, false));
        assert_eq!(translate("k8", 0x00C3_0076), hardware(CYCLES, false, false));
        // Edge; a mask of 1; Data Cache Accesses; a reserved code; Retired Taken Branches.
        for word in [0x0047_0076, 0x0143_00C0, 0x0043_0040, 0x0043_001F, 0x0043_00C4] {
            assert_eq!(translate("k8", word), None, "{word:#x}");
        }
    }

    /// P6 (Intel SDM volume 3, events of the P6 family): INST_RETIRED C0h, BR_INST_RETIRED C4h,
    /// BR_MISS_PRED_RETIRED C5h, CPU_CLK_UNHALTED 79h; DCU_LINES_IN 45h.
    #[test]
    fn an_event_select_of_the_p6_family() {
        for cpu in ["ppro", "pii", "p6"] {
            assert_eq!(translate(cpu, 0x0041_00C0), hardware(INSTRUCTIONS, false, true));
            assert_eq!(translate(cpu, 0x0043_00C4), hardware(BRANCHES, false, false));
            assert_eq!(translate(cpu, 0x0043_00C5), hardware(MISPREDICTED, false, false));
            assert_eq!(translate(cpu, 0x0042_0079), hardware(CYCLES, true, false));
            assert_eq!(translate(cpu, 0x0043_0045), None);
        }
    }

    /// CESR (Intel SDM volume 3, section "Performance Monitoring (Pentium Processors)"): ES in bits 5:0, CC in bits 8:6: 001 for CPL 0
    /// to 2, 010 for CPL 3, 1xx for clocks. INSTRUCTIONS_EXECUTED is 16h.
    #[test]
    fn half_of_cesr() {
        assert_eq!(translate("p55c", 0x0096), hardware(INSTRUCTIONS, false, true));
        assert_eq!(translate("p55c", 0x0056), hardware(INSTRUCTIONS, true, false));
        assert_eq!(translate("p55c", 0x0080), None);
    }

    /// Knights Corner (Performance Monitoring Units, 328209): INSTRUCTIONS_EXECUTED 16h; ANY is bit 21 and asks for all
    /// threads of the core.
    #[test]
    fn threads_of_a_core_are_not_the_hosts() {
        assert_eq!(translate("knc", 0x0043_0016), hardware(INSTRUCTIONS, false, false));
        assert_eq!(translate("knc", 0x0063_0016), None);
    }
}
