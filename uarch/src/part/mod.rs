//! The modelled processors, as data: geometry, policies and latencies, with their sources.
//!
//! A figure for which no document could be found is a named constant whose comment has the words "not
//! sourced".

mod amd_operations;
pub mod bus;
pub mod caches;
pub mod in_order_table;
mod intel_operations;
pub mod k7_operations;
mod k8_float_operations;
pub mod k8_operations;
pub mod knc_pipeline;
pub mod p55c_pipeline;
mod p6_float_operations;
pub mod p6_operations;
pub mod pipelines;
pub mod pm_operations;
pub mod predictors;
mod sse2_operations;
pub mod tlbs;

use crate::branch::PredictorGeometry;
use crate::bus::BusGeometry;
use crate::cache::CacheGeometry;
use crate::pipeline::{in_order, out_of_order};
use crate::tlb::TlbGeometry;

/// A modelled processor.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its caches.
    pub caches: &'static CacheGeometry,
    /// Its TLBs.
    pub tlbs: &'static TlbGeometry,
    /// Its branch predictor.
    pub predictor: &'static PredictorGeometry,
    /// Its bus and memory.
    pub bus: &'static BusGeometry,
    /// Its pipeline.
    pub pipeline: Pipeline,
    /// Hardware threads of a core, which share its caches and TLBs: a power of two.
    pub threads: usize,
    /// What a line takes from one core's cache to another's, in cycles, by its order of magnitude. None keeps a line much
    /// longer than that while others ask for it.
    pub line_transfer: u64,
    /// For how many cycles a core may be ahead of another while each asks for what no other one has. `None`: as long as
    /// [`Self::line_transfer`], as on parts with events that tell in which order the memory was asked, and on those where
    /// more was not tried.
    pub memory_turn: Option<u64>,
}

/// Of parts with a bus or links between processors. Not sourced: they differ.
const LINE_TRANSFER: u64 = 100;
/// A line out of another core's L2 on Knights Corner, as its ring has it ([`bus::KNC`]). Not sourced.
const KNC_LINE_TRANSFER: u64 = 250;
/// Not sourced: a choice of this program. What is taken of the memory is known for 4,096 clocks back, of which 300 are the
/// way of a line, and as many are left for those that queue up.
const KNC_MEMORY_TURN: u64 = 3_500;

/// The pipeline of a part.
#[derive(Clone, Copy, Debug)]
pub enum Pipeline {
    /// One that executes instructions in order.
    InOrder {
        /// Its figures.
        parameters: &'static in_order::Parameters,
        /// The timings of an operation, by its mnemonic: [`p55c_pipeline::rows_of`].
        rows_of: fn(&str) -> Vec<&'static in_order_table::Row>,
    },
    /// One that executes instructions of several threads in order.
    Multithreaded {
        /// Its figures.
        parameters: &'static in_order::multithreaded::Parameters,
        /// The timings of an operation, by its mnemonic: [`knc_pipeline::rows_of`].
        rows_of: fn(&str) -> Vec<&'static in_order_table::Row>,
    },
    /// One that executes them as their operands are there.
    OutOfOrder(&'static out_of_order::Core),
}

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident: $pipeline:expr;)*) => {
        $(
            $(#[$doc])*
            pub static $name: Part = Part {
                caches: &caches::$name,
                tlbs: &tlbs::$name,
                predictor: &predictors::$name,
                bus: &bus::$name,
                pipeline: $pipeline,
                threads: 1,
                line_transfer: LINE_TRANSFER,
                memory_turn: None,
            };
        )*
    };
}

/// Knights Corner.
pub static KNC: Part = Part {
    caches: &caches::KNC,
    tlbs: &tlbs::KNC,
    predictor: &predictors::KNC,
    bus: &bus::KNC,
    pipeline: Pipeline::Multithreaded {
        parameters: &knc_pipeline::KNC,
        rows_of: knc_pipeline::rows_of,
    },
    threads: 4,
    line_transfer: KNC_LINE_TRANSFER,
    memory_turn: Some(KNC_MEMORY_TURN),
};

parts! {
    /// Pentium processor with MMX technology.
    P55C: Pipeline::InOrder {
        parameters: &p55c_pipeline::P55C,
        rows_of: p55c_pipeline::rows_of,
    };
    /// Pentium Pro.
    PPRO: Pipeline::OutOfOrder(&pipelines::P6);
    /// Pentium II.
    PII: Pipeline::OutOfOrder(&pipelines::P6);
    /// Pentium III.
    P6: Pipeline::OutOfOrder(&pipelines::P6);
    /// Pentium M.
    PM: Pipeline::OutOfOrder(&pipelines::PM);
    /// Athlon, model 4.
    K7: Pipeline::OutOfOrder(&pipelines::K7);
    /// Athlon 64 and Opteron.
    K8: Pipeline::OutOfOrder(&pipelines::K8);
}
