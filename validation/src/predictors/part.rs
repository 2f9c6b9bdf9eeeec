//! What is known of the predictors of the parts, typed in from the documents.
//!
//! "Fog" is A. Fog, "How to optimize for the Pentium family of microprocessors" (edition of 2000), section
//! 22.2; "Uzelac" V. Uzelac and A. Milenkovic, "Experiment Flows and Microbenchmarks for Reverse Engineering of
//! Branch Predictor Structures" (ISPASS 2009).

use guest_tests::part::{Event, event};

/// How the direction of a conditional branch is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// By the branch's own last four outcomes.
    Own,
    /// By the last eight outcomes of all branches, and the branch's address.
    Shared,
    /// By a count of up to 63, a table by path and a bimodal one.
    Counted,
}

/// A part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) direction: Direction,
    /// Sets and ways of the branch target buffer.
    pub(super) sets: u32,
    pub(super) ways: u32,
    /// Bytes between branches that follow each other in its sets.
    pub(super) apart: u32,
    /// Bytes between branches of a set.
    pub(super) span: u32,
    /// Addresses that the return stack holds.
    pub(super) returns: u32,
    /// Whether a return that the stack does not have is expected to go where it went last time.
    pub(super) falls_back_to_last_target: bool,
    /// Whether an indirect jump is found by the path to it.
    pub(super) by_path: bool,
    /// Branches that were not predicted rightly.
    pub(super) wrong: Event,
    /// Branches that the target buffer did not have; where there is no such event, `wrong` of a taken branch.
    pub(super) unknown: Event,
    /// Returns that were not predicted rightly.
    pub(super) wrong_returns: Event,
    /// Where the numbers come from.
    pub(super) source: &'static str,
}

/// Intel MMX Technology manual, table 6-1: 35h and 37h of counter 0.
const P55C: Known = Known {
    name: "p55c",
    direction: Direction::Own,
    sets: 16,
    ways: 16,
    // Sets by bits 5:2 of the last byte's address; a branch has more than four bytes, and 20 are five sets.
    apart: 20,
    span: 64,
    returns: 4,
    falls_back_to_last_target: true,
    by_path: false,
    wrong: event(0x35),
    unknown: event(0x35),
    wrong_returns: event(0x37),
    source: "Fog: 16 sets of 16 ways; four outcomes and a return stack of 4 not sourced",
};

/// Intel SDM volume 3: C5h, E2h. There is no event for returns.
const PPRO: Known = Known {
    name: "ppro",
    direction: Direction::Own,
    sets: 32,
    ways: 16,
    apart: 16,
    span: 512,
    returns: 16,
    falls_back_to_last_target: false,
    by_path: false,
    wrong: event(0xC5),
    unknown: event(0xE2),
    wrong_returns: event(0xC5),
    source: "Fog: 32 sets of 16 ways; four outcomes and a return stack of 16 not sourced",
};

const PII: Known = Known { name: "pii", ..PPRO };
const P6: Known = Known { name: "p6", ..PPRO };

/// Intel SDM volume 3, Pentium M: 90h.
const PM: Known = Known {
    name: "pm",
    direction: Direction::Counted,
    sets: 512,
    ways: 4,
    apart: 16,
    span: 8192,
    by_path: true,
    wrong_returns: event(0x90),
    source: "Uzelac: 512 sets of 4 ways, loops of up to 64, targets by path; return stack not sourced",
    ..PPRO
};

/// AMD 22007E, appendix D: C3h, C9h.
const K7: Known = Known {
    name: "k7",
    direction: Direction::Shared,
    sets: 512,
    ways: 4,
    apart: 16,
    span: 8192,
    returns: 12,
    falls_back_to_last_target: false,
    by_path: false,
    wrong: event(0xC3),
    unknown: event(0xC3),
    wrong_returns: event(0xC9),
    source: "AMD 22007E, p. 132: 2,048 targets, return stack of 12; ways and history not sourced",
};

const K8: Known = Known {
    name: "k8",
    source: "AMD 25112, A.6: 2,048 targets, eight outcomes, return stack of 12; ways not sourced",
    ..K7
};

/// All of them.
pub(super) const ALL: [Known; 7] = [P55C, PPRO, PII, P6, PM, K7, K8];

impl Known {
    /// Branches that the target buffer has room for.
    pub(super) fn targets(&self) -> u32 {
        self.sets * self.ways
    }
}
