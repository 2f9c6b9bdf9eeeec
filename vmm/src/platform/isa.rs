//! The instruction set that a run offers: the part's own, or that of a distribution's kernel.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use x86_cpu::control_registers::cr4;
use x86_cpu::features::Features;

use super::cpuid::{CpuidLeaf, leaf};
use super::{EXTENDED_0, EXTENDED_1, EXTENDED_8, FUNCTION_1, Platform};

/// Which instructions beside the part's own execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isa {
    /// None: what the part lacks raises #UD.
    #[default]
    Strict,
    /// Those that the amd64 kernel of a distribution insists on, with their bits in CPUID and CR4:
    /// the part's PMU and identity on a processor that boots it.
    Distro,
}

/// One thing of the x86-64 baseline.
struct Row {
    name: &'static str,
    /// Its bit in EDX of function 1.
    standard: u32,
    /// Its bit in EDX of function 8000_0001h.
    extended: u32,
    /// Its bit in CR4.
    cr4: u64,
    /// What makes it execute.
    feature: Option<fn(&mut Features) -> &mut bool>,
}

const NONE: Row = Row { name: "", standard: 0, extended: 0, cr4: 0, feature: None };

/// What `verify_cpu` of Linux 6.1 and 6.12 requires of an x86-64 processor, what System V's psABI
/// calls the x86-64 baseline, and the NOPs and PAUSE that compilers emit without asking.
const BASELINE: &[Row] = &[
    Row { name: "PSE", standard: 1 << 3, cr4: cr4::PSE, ..NONE },
    Row { name: "TSC", standard: 1 << 4, feature: Some(|f| &mut f.tsc), ..NONE },
    Row { name: "MSR", standard: 1 << 5, feature: Some(|f| &mut f.msr), ..NONE },
    Row { name: "PAE", standard: 1 << 6, cr4: cr4::PAE, ..NONE },
    Row { name: "CX8", standard: 1 << 8, feature: Some(|f| &mut f.cx8), ..NONE },
    Row { name: "SEP", standard: 1 << 11, feature: Some(|f| &mut f.sep), ..NONE },
    Row { name: "PGE", standard: 1 << 13, cr4: cr4::PGE, ..NONE },
    Row { name: "CMOV", standard: 1 << 15, feature: Some(|f| &mut f.cmov), ..NONE },
    Row { name: "MMX", standard: 1 << 23, feature: Some(|f| &mut f.mmx), ..NONE },
    Row {
        name: "FXSR",
        standard: 1 << 24,
        cr4: cr4::OSFXSR,
        feature: Some(|f| &mut f.fxsr),
        ..NONE
    },
    Row {
        name: "SSE",
        standard: 1 << 25,
        cr4: cr4::OSXMMEXCPT,
        feature: Some(|f| &mut f.sse),
        ..NONE
    },
    Row { name: "SSE2", standard: 1 << 26, feature: Some(|f| &mut f.sse2), ..NONE },
    Row { name: "SYSCALL", extended: 1 << 11, feature: Some(|f| &mut f.syscall), ..NONE },
    Row { name: "NX", extended: 1 << 20, feature: Some(|f| &mut f.nx), ..NONE },
    Row { name: "LM", extended: 1 << 29, feature: Some(|f| &mut f.long_mode), ..NONE },
    Row { name: "PAUSE", feature: Some(|f| &mut f.pause), ..NONE },
    Row { name: "NOPL", feature: Some(|f| &mut f.nopl), ..NONE },
    Row { name: "hint NOPs", feature: Some(|f| &mut f.hint_nop), ..NONE },
];

/// Physical address bits of the first processors with PAE.
const PAE_ADDRESS_BITS: u8 = 36;
/// Linear address bits in long mode, as function 8000_0008h has them.
const LINEAR_BITS: u32 = 48 << 8;

impl Isa {
    /// The processor as the machine has it.
    #[must_use]
    pub fn apply(self, platform: &Platform) -> Platform {
        match self {
            Self::Strict => platform.clone(),
            Self::Distro => with_baseline(platform).0,
        }
    }

    /// What it adds to the processor, in one line; `None` if nothing.
    #[must_use]
    pub fn announcement(self, platform: &Platform) -> Option<String> {
        let added = self.adds(platform);
        (!added.is_empty())
            .then(|| format!("{}: --isa distro adds {}", platform.name, added.join(", ")))
    }

    /// The names of what it adds to the processor.
    #[must_use]
    pub fn adds(self, platform: &Platform) -> Vec<&'static str> {
        match self {
            Self::Strict => vec![],
            Self::Distro => with_baseline(platform).1,
        }
    }
}

/// The processor with the baseline, and the names of what it lacked.
fn with_baseline(platform: &Platform) -> (Platform, Vec<&'static str>) {
    let mut effective = platform.clone();
    let mut leaves = platform.cpuid.to_vec();
    let mut names = Vec::new();
    let mut standard = edx(&leaves, FUNCTION_1);
    let mut extended = edx(&leaves, EXTENDED_1);
    for row in BASELINE {
        let features = &mut effective.features;
        let mut missing = standard & row.standard != row.standard
            || extended & row.extended != row.extended
            || features.cr4 & row.cr4 != row.cr4;
        features.cr4 |= row.cr4;
        if let Some(feature) = row.feature {
            missing |= !std::mem::replace(feature(features), true);
        }
        standard |= row.standard;
        extended |= row.extended;
        if missing {
            names.push(row.name);
        }
    }
    let features = &mut effective.features;
    features.phys_bits = features.phys_bits.max(PAE_ADDRESS_BITS);
    let addresses = LINEAR_BITS | u32::from(features.phys_bits);
    for function in EXTENDED_0..=EXTENDED_8 {
        let eax = if function == EXTENDED_8 { addresses } else { 0 };
        insert(&mut leaves, leaf(function, eax, 0, 0, 0));
    }
    for leaf in &mut leaves {
        match leaf.function {
            FUNCTION_1 => leaf.result.edx = standard,
            EXTENDED_0 => leaf.result.eax = leaf.result.eax.max(EXTENDED_8),
            EXTENDED_1 => leaf.result.edx = extended,
            _ => {}
        }
    }
    effective.cpuid = Cow::Owned(leaves);
    // A 64-bit kernel tells its processors apart by it.
    effective.cpuid_apic_id = true;
    effective.msrs.to_mut().push(platform.distro_msrs);
    // It reads the local APIC's place as well.
    if !std::mem::replace(&mut effective.apic_base_msr, true) {
        names.push("IA32_APIC_BASE");
    }
    names.extend(platform.distro_msrs.iter().map(|row| row.name));
    (effective, names)
}

/// EDX of a function; zero if it is not there.
fn edx(leaves: &[CpuidLeaf], function: u32) -> u32 {
    leaves.iter().find(|leaf| leaf.function == function).map_or(0, |leaf| leaf.result.edx)
}

/// Adds a function unless it is there.
fn insert(leaves: &mut Vec<CpuidLeaf>, new: CpuidLeaf) {
    if let Err(at) = leaves.binary_search_by_key(&new.function, |leaf| leaf.function) {
        leaves.insert(at, new);
    }
}

#[cfg(test)]
#[path = "isa_tests.rs"]
mod tests;
