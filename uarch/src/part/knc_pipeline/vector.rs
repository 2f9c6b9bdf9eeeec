//! Timings of the vector unit's instructions, and of those on mask registers.
//!
//! The latency is four clocks and the repeat rate one, for most: Intel, "Intel Xeon Phi Coprocessor Vector
//! Microarchitecture", which also has the load and the operation of one instruction in the same clock, and
//! vector instructions in the U pipe. That stores of vectors and moves of masks go to the V pipe as well is
//! what Intel's compiler for the part schedules; not sourced from a document, nor is what is marked.

use super::super::in_order_table::{
    Place::{Load, Register, Store},
    Row,
};
use crate::pipeline::in_order::{
    Pairing::{U, UV, V},
    Timing,
};

/// Clocks until most results can be used.
const RESULT: u16 = 4;
/// Clocks until what was loaded can be used: not sourced.
const LOADED: u16 = 3;

const COMPUTED: Timing = Timing::vector(RESULT, U);

pub(super) static ROWS: &[Row] = &[
    Row::at(Register, MOVES, COMPUTED),
    Row::at(Load, MOVES, Timing::vector(LOADED, U)),
    Row::at(Store, MOVES, Timing::vector(1, UV)),
    // Not sourced: as other stores.
    Row::all(&["Vmovnraps", "Vmovnrapd", "Vmovnrngoaps", "Vmovnrngoapd"], Timing::vector(1, UV)),
    Row::all(LOADS, Timing::vector(LOADED, U)),
    Row::all(PACKED_STORES, Timing::vector(1, U)),
    // An execution is of one line. Not sourced: it takes a turn and an access to the cache.
    Row::all(GATHERS, COMPUTED.gathering()),
    Row::all(ARITHMETIC, COMPUTED),
    // Not sourced.
    Row::all(&["Vexp223ps"], Timing::vector(8, U).occupying(2)),
    Row::all(&["Kmov"], Timing::vector(RESULT, UV)),
    // Not sourced: as a move of a mask.
    Row::all(MASKS, COMPUTED),
    // Not sourced: the integer side counts bits in a clock.
    Row::all(&["Popcnt", "Tzcnt", "Tzcnti", "Lzcnt"], Timing::integer(1, U)),
    // Jumps by a mask are as other jumps.
    Row::all(&["Jkzd", "Jknzd"], Timing::integer(1, V)),
    // Two prefetches never pair; one pairs as the second.
    Row::all(PREFETCHES, Timing::integer(1, V)),
];

/// Moves of whole registers, from, to and without memory.
const MOVES: &[&str] = &["Vmovaps", "Vmovapd", "Vmovdqa32", "Vmovdqa64"];

/// Loads of a few elements, or of a stream.
const LOADS: &[&str] = &[
    "Vbroadcastss",
    "Vbroadcastsd",
    "Vbroadcastf32x4",
    "Vbroadcastf64x4",
    "Vbroadcasti32x4",
    "Vbroadcasti64x4",
    "Vpbroadcastd",
    "Vpbroadcastq",
    "Vloadunpackld",
    "Vloadunpacklq",
    "Vloadunpacklps",
    "Vloadunpacklpd",
    "Vloadunpackhd",
    "Vloadunpackhq",
    "Vloadunpackhps",
    "Vloadunpackhpd",
];

/// Stores of a stream.
const PACKED_STORES: &[&str] = &[
    "Vpackstoreld",
    "Vpackstorelq",
    "Vpackstorelps",
    "Vpackstorelpd",
    "Vpackstorehd",
    "Vpackstorehq",
    "Vpackstorehps",
    "Vpackstorehpd",
];

/// Gathers, scatters, and prefetches of what they would access.
const GATHERS: &[&str] = &[
    "Vpgatherdd",
    "Vpgatherdq",
    "Vgatherdps",
    "Vgatherdpd",
    "Vpscatterdd",
    "Vpscatterdq",
    "Vscatterdps",
    "Vscatterdpd",
    "Vgatherpf0dps",
    "Vgatherpf1dps",
    "Vgatherpf0hintdps",
    "Vgatherpf0hintdpd",
    "Vscatterpf0dps",
    "Vscatterpf1dps",
    "Vscatterpf0hintdps",
    "Vscatterpf0hintdpd",
];

/// Prefetches and evictions of a line.
const PREFETCHES: &[&str] = &[
    "Vprefetch0",
    "Vprefetch1",
    "Vprefetch2",
    "Vprefetchnta",
    "Vprefetche0",
    "Vprefetche1",
    "Vprefetche2",
    "Vprefetchenta",
    "Clevict0",
    "Clevict1",
];

/// What computes with mask registers.
const MASKS: &[&str] = &[
    "Kand",
    "Kandn",
    "Kandnr",
    "Kconcath",
    "Kconcatl",
    "Kextract",
    "Kmerge2l1h",
    "Kmerge2l1l",
    "Knot",
    "Kor",
    "Kortest",
    "Kxnor",
    "Kxor",
];

/// What computes with vectors.
const ARITHMETIC: &[&str] = &[
    "Vaddnpd",
    "Vaddnps",
    "Vaddpd",
    "Vaddps",
    "Vaddsetsps",
    "Valignd",
    "Vblendmpd",
    "Vblendmps",
    "Vcmppd",
    "Vcmpps",
    "Vcvtdq2pd",
    "Vcvtfxpntdq2ps",
    "Vcvtfxpntpd2dq",
    "Vcvtfxpntpd2udq",
    "Vcvtfxpntps2dq",
    "Vcvtfxpntps2udq",
    "Vcvtfxpntudq2ps",
    "Vcvtpd2ps",
    "Vcvtps2pd",
    "Vcvtudq2pd",
    "Vfixupnanpd",
    "Vfixupnanps",
    "Vfmadd132pd",
    "Vfmadd132ps",
    "Vfmadd213pd",
    "Vfmadd213ps",
    "Vfmadd231pd",
    "Vfmadd231ps",
    "Vfmadd233ps",
    "Vfmsub132pd",
    "Vfmsub132ps",
    "Vfmsub213pd",
    "Vfmsub213ps",
    "Vfmsub231pd",
    "Vfmsub231ps",
    "Vfnmadd132pd",
    "Vfnmadd132ps",
    "Vfnmadd213pd",
    "Vfnmadd213ps",
    "Vfnmadd231pd",
    "Vfnmadd231ps",
    "Vfnmsub132pd",
    "Vfnmsub132ps",
    "Vfnmsub213pd",
    "Vfnmsub213ps",
    "Vfnmsub231pd",
    "Vfnmsub231ps",
    "Vgetexppd",
    "Vgetexpps",
    "Vgetmantpd",
    "Vgetmantps",
    "Vgmaxabsps",
    "Vgmaxpd",
    "Vgmaxps",
    "Vgminpd",
    "Vgminps",
    "Vlog2ps",
    "Vmulpd",
    "Vmulps",
    "Vpadcd",
    "Vpaddd",
    "Vpaddsetcd",
    "Vpaddsetsd",
    "Vpandd",
    "Vpandnd",
    "Vpandnq",
    "Vpandq",
    "Vpblendmd",
    "Vpblendmq",
    "Vpcmpd",
    "Vpcmpeqd",
    "Vpcmpgtd",
    "Vpcmpltd",
    "Vpcmpud",
    "Vpermd",
    "Vpermf32x4",
    "Vpmadd231d",
    "Vpmadd233d",
    "Vpmaxsd",
    "Vpmaxud",
    "Vpminsd",
    "Vpminud",
    "Vpmulhd",
    "Vpmulhud",
    "Vpmulld",
    "Vpord",
    "Vporq",
    "Vpsbbd",
    "Vpsbbrd",
    "Vpshufd",
    "Vpslld",
    "Vpsllvd",
    "Vpsrad",
    "Vpsravd",
    "Vpsrld",
    "Vpsrlvd",
    "Vpsubd",
    "Vpsubrd",
    "Vpsubrsetbd",
    "Vpsubsetbd",
    "Vptestmd",
    "Vpxord",
    "Vpxorq",
    "Vrcp23ps",
    "Vrndfxpntpd",
    "Vrndfxpntps",
    "Vrsqrt23ps",
    "Vscaleps",
    "Vsubpd",
    "Vsubps",
    "Vsubrpd",
    "Vsubrps",
];
