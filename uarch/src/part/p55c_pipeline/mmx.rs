//! Timings of MMX instructions: Intel MMX Technology Developer's Guide, chapter 3.
//!
//! All take a clock. Those that access memory or a general register may only be in the U pipe, which is a
//! rule of pairing.

use super::super::in_order_table::Row;
use crate::pipeline::in_order::{Mmx, Pairing, Timing};

pub(super) static ROWS: &[Row] = &[
    Row::all(
        &[
            "Movd", "Movq", "Paddb", "Paddw", "Paddd", "Paddsb", "Paddsw", "Paddusb", "Paddusw",
            "Psubb", "Psubw", "Psubd", "Psubsb", "Psubsw", "Psubusb", "Psubusw", "Pand", "Pandn",
            "Por", "Pxor", "Pcmpeqb", "Pcmpeqw", "Pcmpeqd", "Pcmpgtb", "Pcmpgtw", "Pcmpgtd",
        ],
        Timing::mmx(Mmx::Alu, Pairing::UV),
    ),
    Row::all(
        &[
            "Psllw",
            "Pslld",
            "Psllq",
            "Psrlw",
            "Psrld",
            "Psrlq",
            "Psraw",
            "Psrad",
            "Packssdw",
            "Packsswb",
            "Packuswb",
            "Punpckhbw",
            "Punpckhwd",
            "Punpckhdq",
            "Punpcklbw",
            "Punpcklwd",
            "Punpckldq",
        ],
        Timing::mmx(Mmx::Shifter, Pairing::UV),
    ),
    Row::all(&["Pmaddwd", "Pmulhw", "Pmullw"], Timing::mmx(Mmx::Multiplier, Pairing::UV)),
    Row::all(&["Emms"], Timing::mmx(Mmx::Empty, Pairing::Never)),
];
