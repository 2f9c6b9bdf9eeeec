//! An in-order pipeline with two pipes, U and V: that of the Pentium, and of what descends from it.

mod parameters;
mod timing;

pub use self::{
    parameters::Parameters,
    timing::{Mmx, Pairing, Timing, Unit, X87},
};
