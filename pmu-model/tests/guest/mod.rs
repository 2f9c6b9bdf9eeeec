//! A guest at CPL 0, for tests: instructions that must not fault.

use pmu_model::{MsrAccess, Personality, Pmu, RdpmcCaller, Signal, SignalSet};

/// The PMU under a guest.
pub(crate) struct Guest {
    pub(crate) pmu: Pmu,
}

impl Guest {
    /// A guest after power-up on the processor with this name, where every signal fires.
    pub(crate) fn on(name: &str) -> Guest {
        Guest { pmu: Pmu::new(Personality::by_name(name).unwrap(), &SignalSet::ALL) }
    }

    /// RDMSR.
    #[track_caller]
    pub(crate) fn rdmsr(&self, msr: u32) -> u64 {
        match self.pmu.read_msr(msr) {
            MsrAccess::Done(value) => value,
            other => panic!("RDMSR {msr:#x}: {other:?}"),
        }
    }

    /// WRMSR.
    #[track_caller]
    pub(crate) fn wrmsr(&mut self, msr: u32, value: u64) {
        assert_eq!(
            self.pmu.write_msr(msr, value),
            MsrAccess::Done(()),
            "WRMSR {msr:#x} {value:#x}"
        );
    }

    /// RDPMC.
    #[track_caller]
    pub(crate) fn rdpmc(&self, index: u32) -> u64 {
        self.pmu.rdpmc(index, RdpmcCaller::default()).unwrap()
    }

    /// `n` occurrences at a CPL; the counter of each PMI that they cause.
    pub(crate) fn fire(&mut self, signal: Signal, n: u64, cpl: u8) -> Vec<usize> {
        self.pmu.fire(signal, n, cpl).iter().collect()
    }
}
