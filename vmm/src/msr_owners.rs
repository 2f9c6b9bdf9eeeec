//! Which processors have a model-specific register, and what their manuals call it.

use pmu_model::Personality;
use serde::Serialize;
use x86_cpu::msr::CoreMsr;

use crate::msr::{APIC_BASE, TSC};
use crate::platform::Platform;
use crate::wording::listed;

/// A name of a register, and the processors that have it by that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MsrOwner {
    /// The manual's name.
    pub name: &'static str,
    /// The processors, by their names on the command line.
    pub cpus: Vec<&'static str>,
}

/// Who has the register `index`, of all processors as they are with `--isa strict`.
#[must_use]
pub fn owners(index: u32) -> Vec<MsrOwner> {
    let mut owners: Vec<MsrOwner> = Vec::new();
    for platform in Platform::ALL {
        let Some(name) = name(platform, index) else { continue };
        match owners.iter_mut().find(|owner| owner.name == name) {
            Some(owner) => owner.cpus.push(platform.name),
            None => owners.push(MsrOwner { name, cpus: vec![platform.name] }),
        }
    }
    owners
}

/// The owners in words.
#[must_use]
pub fn named(owners: &[MsrOwner]) -> String {
    let owner = |owner: &MsrOwner| format!("{} of {}", owner.name, listed(&owner.cpus));
    owners.iter().map(owner).collect::<Vec<_>>().join(", ")
}

/// What a processor calls the register; `None` if it has none of this number.
fn name(platform: &Platform, index: u32) -> Option<&'static str> {
    let of_core = CoreMsr::of(&platform.features).find(|register| register.index == index);
    let of_pmu = || Personality::by_name(platform.name)?.register(index).map(|r| r.name);
    let of_bank = || platform.msrs.iter().copied().flatten().find(|row| row.index == index);
    match index {
        TSC if platform.features.tsc => Some("TSC"),
        APIC_BASE if platform.apic_base_msr => Some("APIC_BASE"),
        _ => of_core
            .map(|register| register.name)
            .or_else(of_pmu)
            .or_else(|| of_bank().map(|row| row.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AMD 26094 and 22007: PerfEvtSel0 of K7 and K8 is C001_0000h. Intel: 186h is PerfEvtSel0 of the P6
    /// family, 11h CESR of the Pentium, 28h IA32_PerfEvtSel0 of Knights Corner, C000_0080h EFER of those
    /// with SYSCALL; C001_1023h is none's of these.
    #[test]
    fn registers_are_found_by_number() {
        let named = |index| {
            let owners = owners(index);
            owners.into_iter().map(|owner| (owner.name, owner.cpus)).collect::<Vec<_>>()
        };
        assert_eq!(named(0xC001_0000), [("PerfEvtSel0", vec!["k7", "k8"])]);
        assert_eq!(named(0x186), [("PerfEvtSel0", vec!["ppro", "pii", "p6", "pm"])]);
        assert_eq!(named(0x11), [("CESR", vec!["p55c"])]);
        assert_eq!(named(0x28), [("IA32_PerfEvtSel0", vec!["knc"])]);
        let efer = named(0xC000_0080);
        assert!(
            efer.iter().any(|(name, cpus)| *name == "EFER" && cpus.contains(&"k8")),
            "{efer:?}"
        );
        assert_eq!(named(0xC001_1023), []);
    }
}
