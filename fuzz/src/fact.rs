//! What happens to a processor in a script: a few facts of each kind, named as the signals of `pmu-model`
//! are.

use pmu_model::Signal;

/// One row a fact: variant.
macro_rules! facts {
    ($($variant:ident,)*) => {
        /// A fact that some event of some processor counts. One occurrence is what the signal of that name
        /// is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are those of the signals, which are documented")]
        pub enum Fact {
            $($variant,)*
        }

        impl Fact {
            /// Every fact, in the order in which scripts number them.
            pub const ALL: &[Fact] = &[$(Fact::$variant),*];

            /// What the product calls it.
            pub fn signal(self) -> Signal {
                match self {
                    $(Fact::$variant => Signal::$variant,)*
                }
            }
        }
    };
}

facts! {
    InsnRetired,
    CyclesUnhalted,
    InterruptTaken,
    ExceptionTaken,
    BranchRetired,
    BranchTaken,
    BranchRetiredFar,
    CyclesIntMasked,
    InsnRetiredX87,
    InsnRetiredMmx,
    InsnRetiredSsePacked,
    InsnRetiredSseScalar,
    SegLoadEs,
    SegLoadCs,
    Load,
    Store,
    X87Flop,
    ArithMul,
    L2RequestModified,
    L2RequestExclusive,
    L2RequestShared,
    L2RequestInvalid,
    BusMemory,
    BusMemoryAny,
    MmxPipeU,
    MmxPipeV,
    BusBusy,
    StallFpu,
    LoadVpu,
    VpuOp,
    L2MissRead,
}

impl Fact {
    /// Whether it is a state that holds in a clock or does not: at most one a clock.
    pub fn is_level(self) -> bool {
        matches!(
            self,
            Fact::CyclesUnhalted | Fact::CyclesIntMasked | Fact::BusBusy | Fact::StallFpu
        )
    }
}
