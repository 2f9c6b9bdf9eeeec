//! Models of the processors' micro-architecture: caches and their coherence, TLBs, branch predictors,
//! bus and memory, pipelines.
//!
//! Pure state machines: they are told what a processor did, and fire the signals of
//! [`pmu_model::Signal`] that follow. They know nothing of how instructions are executed or counted, keep
//! no host time and allocate only when they are built. Geometry and latencies are data of a part
//! ([`part`]); no model asks for a name.
//!
//! ```text
//!   System: fetch, load, store, prefetch, flush ──> caches ──(miss)──> caches of the others ──> bus
//!           linear address ──> TLBs ──(miss)──> page walk, through the caches
//!           control transfer ──> predictor
//!   pipelines: instructions, and what became of their accesses and branches ──> cycles, stalls
//!                                 each ──> Occurrences (signals fired, and when to stop)
//! ```

pub mod branch;
pub mod bus;
pub mod cache;
pub mod occurrences;
pub mod part;
pub mod pipeline;
pub mod processors;
pub mod state;
pub mod system;
pub mod tlb;
