//! Intel Pentium M, family 6 models 9 and 13: the P6 family's PMU, but that a PMI masks LVTPC.
//!
//! Sources: Intel SDM volume 3, section "Performance Monitoring (P6 Family Processor)" and its tables of
//! the Pentium M's events. That delivery sets the mask bit of LVTPC, and on no part of the family before
//! it, is what OProfile and perfctr know.

use super::live::{MODELS, OUT_OF_ORDER_PIPELINE};
use super::p6::PPRO;
use super::pm_events::PM as EVENTS;
use super::{CodeIndex, LiveSignals, Personality, index_by_code};

/// The Pentium M's PMU.
pub(super) static PM: Personality = Personality {
    name: "pm",
    part: "Intel Pentium M (family 6 models 9 and 13)",
    lvtpc_auto_mask: true,
    mask_must_be_named: &[
        0x07, 0x24, 0x26, 0x27, 0x28, 0x29, 0x2A, 0x2E, 0x4B, 0x58, 0xB3, 0xCC, 0xD4, 0xD5, 0xD8,
        0xD9, 0xDA,
    ],
    live: LiveSignals::with_models(MODELS).and(OUT_OF_ORDER_PIPELINE).selected_by(&EVENTS),
    events: &EVENTS,
    by_code: &BY_CODE,
    ..PPRO
};

/// Codes to rows.
static BY_CODE: CodeIndex = index_by_code(&EVENTS);
