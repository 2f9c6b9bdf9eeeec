//! The modelled processors, as data: geometry, policies and latencies, with their sources.
//!
//! A figure for which no document could be found is a named constant whose comment has the words "not
//! sourced".

pub mod bus;
pub mod caches;
pub mod tlbs;
pub mod predictors;
pub mod p55c_pipeline;
mod amd_operations;
mod intel_operations;
pub mod k7_operations;
mod k8_float_operations;
pub mod k8_operations;
mod p6_float_operations;
pub mod p6_operations;
pub mod pipelines;
pub mod pm_operations;
mod sse2_operations;
