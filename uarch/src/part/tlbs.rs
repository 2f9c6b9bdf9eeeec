//! The TLBs of the parts.
//!
//! Sources: for AMD, CPUID functions 8000_0005h and 8000_0006h as real parts return them, decoded with
//! AMD 25481; for Intel from the Pentium Pro on, the descriptors of CPUID function 2 as real parts return
//! them, decoded with Intel 243191, table 3-9.

use crate::tlb::Associativity::{Full, Ways};
use crate::tlb::PageSize::{Kib4, Kib64, Mib2, Mib4};
use crate::tlb::{
    ArrayGeometry, Associativity, FlushFilterGeometry, Held, Replacement, SecondLevel,
    SharedSecondLevel, SideGeometry, TlbGeometry,
};

/// Not sourced for the Pentium and the P6 family. The TLB of the 486 replaces in a pseudo-LRU way (Intel
/// 273025, embedded Intel486 hardware reference, section on paging).
const INTEL_REPLACEMENT: Replacement = Replacement::PseudoLru;

/// Not sourced. The caches of the K7 and K8 replace the least recently used line (AMD 22007 and 25112,
/// appendix A).
const AMD_REPLACEMENT: Replacement = Replacement::Lru;

/// Cycles that a hit in the second level adds: not sourced.
const SECOND_LEVEL_LATENCY: u64 = 5;

/// Entries of the K8's cache of page-directory entries: not sourced, nor that the cache has no entries of
/// higher levels.
const K8_DIRECTORY_ENTRIES: u16 = 24;

/// Cycles of a walk for each entry that it reads. A hit in the data cache takes one (Agner Fog, chapter
/// 10.2); what a walk takes beside is not sourced.
const P55C_WALK_READ: u64 = 1;
/// The same: three from the address to the data, as a load takes (AMD 22007, appendix A; gcc, `ppro.md`).
/// That a walk takes no longer is not sourced.
const WALK_READ: u64 = 3;

/// Entries of Knights Corner's TLBs, all of 4 ways: data in pages of 4 KiB, 64 KiB and 2 MiB, code in pages
/// of 4 KiB, and the second level. Not sourced: no document at hand.
const KNC_ENTRIES: [u16; 5] = [64, 32, 8, 32, 64];
/// Cycles of looking into Knights Corner's second level: not sourced.
const KNC_SHARED_LATENCY: u64 = 8;
/// Pages of 64 KiB, which no paging mode of the processor here has yet.
const MEDIUM: &[Held] = &[Held { page: Kib64, entry: Kib64 }];
/// Code in large pages, of which each entry translates 4 KiB: not sourced.
const CODE_BY_4_KIB: &[Held] = &[
    Held { page: Kib4, entry: Kib4 },
    Held { page: Kib64, entry: Kib4 },
    Held { page: Mib2, entry: Kib4 },
    Held { page: Mib4, entry: Kib4 },
];
/// Large pages, and page-directory entries for the others. That one which spans 4 MiB takes two is not
/// sourced.
const BY_2_MIB: &[Held] = &[
    Held { page: Kib4, entry: Mib2 },
    Held { page: Kib64, entry: Mib2 },
    Held { page: Mib2, entry: Mib2 },
    Held { page: Mib4, entry: Mib2 },
];

/// The K8's flush filter (US patent 6510508): what it has room for is not sourced.
const K8_FLUSH_FILTER: FlushFilterGeometry = FlushFilterGeometry { blocks: 32, address_spaces: 8 };

/// The Pentium MMX's TLBs have no CPUID function to describe them: entries and associativity are not
/// sourced, nor that small and large pages share them.
const P55C_DATA_ENTRIES: u16 = 64;
/// Not sourced, as [`P55C_DATA_ENTRIES`].
const P55C_CODE_ENTRIES: u16 = 32;

/// Small pages.
const SMALL: &[Held] = &[Held { page: Kib4, entry: Kib4 }];
/// Large pages, an entry each.
const LARGE: &[Held] = &[Held { page: Mib2, entry: Mib2 }, Held { page: Mib4, entry: Mib4 }];
/// Large pages, of which those of 4 MiB require two entries each (AMD 25481, function 8000_0005h EAX). Each
/// half is entered when it is accessed.
const LARGE_BY_2_MIB: &[Held] =
    &[Held { page: Mib2, entry: Mib2 }, Held { page: Mib4, entry: Mib2 }];
/// Small and large pages in one array. The Pentium has none of 2 MiB: where a kernel is given the paging that makes
/// them, each takes an entry as well.
const SMALL_AND_LARGE: &[Held] = &[
    Held { page: Kib4, entry: Kib4 },
    Held { page: Mib2, entry: Mib2 },
    Held { page: Mib4, entry: Mib4 },
];

const fn intel(
    entries: u16,
    associativity: Associativity,
    holds: &'static [Held],
) -> ArrayGeometry {
    ArrayGeometry { entries, associativity, replacement: INTEL_REPLACEMENT, holds }
}

const fn amd(entries: u16, associativity: Associativity, holds: &'static [Held]) -> ArrayGeometry {
    ArrayGeometry { entries, associativity, replacement: AMD_REPLACEMENT, holds }
}

/// Pentium MMX.
pub static P55C: TlbGeometry = TlbGeometry {
    data: SideGeometry { first: &[intel(P55C_DATA_ENTRIES, Full, SMALL_AND_LARGE)], second: None },
    code: SideGeometry { first: &[intel(P55C_CODE_ENTRIES, Full, SMALL_AND_LARGE)], second: None },
    shared_second: None,
    directory_entries: 0,
    walk_read: P55C_WALK_READ,
    flush_filter: None,
};

/// Descriptors 01h to 04h.
const P6_FAMILY: TlbGeometry = TlbGeometry {
    data: SideGeometry {
        first: &[intel(64, Ways(4), SMALL), intel(8, Ways(4), LARGE)],
        second: None,
    },
    code: SideGeometry { first: &[intel(32, Ways(4), SMALL), intel(2, Full, LARGE)], second: None },
    shared_second: None,
    directory_entries: 0,
    walk_read: WALK_READ,
    flush_filter: None,
};

/// Pentium Pro.
pub static PPRO: TlbGeometry = P6_FAMILY;
/// Pentium II.
pub static PII: TlbGeometry = P6_FAMILY;
/// Pentium III.
pub static P6: TlbGeometry = P6_FAMILY;

/// Pentium M: descriptors B0h, 02h, B3h and 04h (of a Yonah, whose TLBs are taken for the Dothan's).
pub static PM: TlbGeometry = TlbGeometry {
    data: SideGeometry {
        first: &[intel(128, Ways(4), SMALL), intel(8, Ways(4), LARGE)],
        second: None,
    },
    code: SideGeometry {
        first: &[intel(128, Ways(4), SMALL), intel(2, Full, LARGE)],
        second: None,
    },
    shared_second: None,
    directory_entries: 0,
    walk_read: WALK_READ,
    flush_filter: None,
};

/// Second level of the Athlon. It is exclusive from model 6 on, the Athlon XP (AMD, "The Mobile AMD Athlon
/// XP-M processor", 2003: QuantiSpeed architecture, exclusive TLBs); that it is not in earlier models is
/// not sourced.
const K7_SECOND: SecondLevel = SecondLevel {
    arrays: &[amd(256, Ways(4), SMALL)],
    exclusive: false,
    latency: SECOND_LEVEL_LATENCY,
};

/// Athlon, model 4: 24 small pages of data, where those from model 6 on have 32.
pub static K7: TlbGeometry = TlbGeometry {
    data: SideGeometry {
        first: &[amd(24, Full, SMALL), amd(8, Ways(4), LARGE_BY_2_MIB)],
        second: Some(K7_SECOND),
    },
    code: SideGeometry {
        first: &[amd(16, Full, SMALL), amd(8, Full, LARGE_BY_2_MIB)],
        second: Some(K7_SECOND),
    },
    shared_second: None,
    directory_entries: 0,
    walk_read: WALK_READ,
    flush_filter: None,
};

/// Second level of the K8. Whether it is exclusive is not sourced: taken as the Athlon XP's, from which
/// the K8 comes.
const K8_SECOND: SecondLevel = SecondLevel {
    arrays: &[amd(512, Ways(4), SMALL)],
    exclusive: true,
    latency: SECOND_LEVEL_LATENCY,
};

/// Opteron, revision E.
pub static K8: TlbGeometry = TlbGeometry {
    data: SideGeometry {
        first: &[amd(32, Full, SMALL), amd(8, Full, LARGE_BY_2_MIB)],
        second: Some(K8_SECOND),
    },
    code: SideGeometry {
        first: &[amd(32, Full, SMALL), amd(8, Full, LARGE_BY_2_MIB)],
        second: Some(K8_SECOND),
    },
    shared_second: None,
    directory_entries: K8_DIRECTORY_ENTRIES,
    walk_read: WALK_READ,
    flush_filter: Some(K8_FLUSH_FILTER),
};

/// Knights Corner, a core, whose threads share them.
pub static KNC: TlbGeometry = TlbGeometry {
    data: SideGeometry {
        first: &[
            intel(KNC_ENTRIES[0], Ways(4), SMALL),
            intel(KNC_ENTRIES[1], Ways(4), MEDIUM),
            intel(KNC_ENTRIES[2], Ways(4), LARGE_BY_2_MIB),
        ],
        second: None,
    },
    code: SideGeometry { first: &[intel(KNC_ENTRIES[3], Ways(4), CODE_BY_4_KIB)], second: None },
    shared_second: Some(SharedSecondLevel {
        array: intel(KNC_ENTRIES[4], Ways(4), BY_2_MIB),
        latency: KNC_SHARED_LATENCY,
    }),
    directory_entries: 0,
    walk_read: P55C_WALK_READ,
    flush_filter: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that no array holds would be walked for at each access: `--isa distro` gives every part the paging
    /// that makes pages of 2 MiB.
    #[test]
    fn every_part_holds_the_pages_that_kernels_make() {
        for (part, tlbs) in [
            ("p55c", &P55C),
            ("ppro", &PPRO),
            ("pii", &PII),
            ("p6", &P6),
            ("pm", &PM),
            ("k7", &K7),
            ("k8", &K8),
            ("knc", &KNC),
        ] {
            for (side, level) in [("data", tlbs.data.first), ("code", tlbs.code.first)] {
                for page in [Kib4, Mib2, Mib4] {
                    let holds = level.iter().any(|array| array.holds(page));
                    assert!(holds, "{part}: no {side} TLB for {page:?}");
                }
            }
        }
    }
}
