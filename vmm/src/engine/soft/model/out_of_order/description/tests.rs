//! What the pipelines are told of instructions: of all encodings that their part executes, that there is a
//! row, and that it accesses memory as the instruction does; of typical ones everything, by hand.

mod by_hand;
mod encodings;

use uarch::part::pipelines;
use uarch::pipeline::out_of_order::Core;

use super::Preparation;
use crate::platform::{self, Platform};

/// The parts with such a pipeline.
static PARTS: [(&Platform, &Core); 6] = [
    (&platform::PPRO, &pipelines::P6),
    (&platform::PII, &pipelines::P6),
    (&platform::P6, &pipelines::P6),
    (&platform::PM, &pipelines::PM),
    (&platform::K7, &pipelines::K7),
    (&platform::K8, &pipelines::K8),
];
