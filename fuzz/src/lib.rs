//! Fuzz targets, and the second models that say what is right.
//!
//! A target takes bytes, and panics when the product does something wrong. Every byte string is a valid
//! input. The targets are here; `fuzz_targets/` has them in the form of cargo-fuzz, and the program `fuzz`
//! replays files and generates inputs on a stable compiler. See `README.md`.

pub mod cli;
mod door;
pub mod driver;
mod fact;
mod find;
pub mod instructions;
pub mod linux;
pub mod loaders;
pub mod machine;
pub mod pmu;
pub mod random;
pub mod reference;
pub mod script;

pub use fact::Fact;
