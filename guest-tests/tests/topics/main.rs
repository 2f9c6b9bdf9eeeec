//! Bare-metal guests, one topic a file. Each programs the PMU of a K8 as a driver would, and each
//! expectation is counted by hand beside the guest it belongs to.

mod branches;
mod breakpoints;
mod classes;
mod cycles;
mod demo;
mod lvtpc;
mod overflow;
mod pmi;
mod privilege;
mod rdpmc;
mod registers;
mod silent;
mod skid;
