//! The functions of CPUID that describe TLBs and caches, from the geometry that these are modelled with.

use uarch::cache::{ArrayGeometry as CacheArray, CacheGeometry};
use uarch::tlb::{ArrayGeometry, Associativity, PageSize, SideGeometry, TlbGeometry, array_for};

use super::cpuid::{CpuidLeaf, leaf, subleaf};

/// The page size that the entries for large pages are counted in: one of 4 MiB takes two (AMD 25481).
const AMD_LARGE: PageSize = PageSize::Mib2;

/// Function 8000_0005h of an AMD processor: TLBs and caches of the first level (AMD 25481).
pub(super) const fn first_level(tlbs: &TlbGeometry, caches: &CacheGeometry) -> CpuidLeaf {
    const fn tlb(side: &SideGeometry, page: PageSize) -> u32 {
        match array_for(side.first, page) {
            Some(array) => {
                let ways = match array.associativity {
                    Associativity::Ways(ways) => ways as u32,
                    Associativity::Full => 0xFF,
                };
                ways << 8 | array.entries as u32
            }
            None => 0,
        }
    }
    const fn tlbs_for(tlbs: &TlbGeometry, page: PageSize) -> u32 {
        tlb(&tlbs.data, page) << 16 | tlb(&tlbs.code, page)
    }
    const fn cache(array: &CacheArray, line: u32) -> u32 {
        kib(array, line) << 24 | array.ways << 16 | LINES_PER_TAG << 8 | line
    }
    leaf(
        0x8000_0005,
        tlbs_for(tlbs, AMD_LARGE),
        tlbs_for(tlbs, PageSize::Kib4),
        cache(&caches.data, caches.line),
        cache(&caches.code, caches.line),
    )
}

/// Function 8000_0006h of an AMD processor: TLBs and cache of the second level (AMD 25481).
pub(super) const fn second_level(tlbs: &TlbGeometry, caches: &CacheGeometry) -> CpuidLeaf {
    const fn tlb(side: &SideGeometry, page: PageSize) -> u32 {
        let array = match &side.second {
            Some(second) => array_for(second.arrays, page),
            None => None,
        };
        match array {
            Some(array) => {
                let associativity = match array.associativity {
                    Associativity::Ways(ways) => associativity_code(ways as u32),
                    Associativity::Full => 0xF,
                };
                associativity << 12 | array.entries as u32
            }
            None => 0,
        }
    }
    const fn tlbs_for(tlbs: &TlbGeometry, page: PageSize) -> u32 {
        tlb(&tlbs.data, page) << 16 | tlb(&tlbs.code, page)
    }
    let array = second_cache(caches);
    let (size, ways) = (kib(array, caches.line), associativity_code(array.ways));
    let cache = size << 16 | ways << 12 | LINES_PER_TAG << 8 | caches.line;
    leaf(0x8000_0006, tlbs_for(tlbs, AMD_LARGE), tlbs_for(tlbs, PageSize::Kib4), cache, 0)
}

const LINES_PER_TAG: u32 = 1;

/// A subleaf of function 4 of an Intel processor (Intel SDM volume 2, CPUID, "deterministic cache
/// parameters"): what a cache is and who shares it, in EAX, and the size of the array behind it.
pub(super) const fn cache(number: u32, eax: u32, array: &CacheArray, line: u32) -> CpuidLeaf {
    subleaf(4, number, eax, (array.ways - 1) << 22 | (line - 1), array.sets - 1, 0)
}

/// The second-level cache.
pub(super) const fn second_cache(caches: &CacheGeometry) -> &CacheArray {
    match &caches.second_level {
        Some(second) => &second.array,
        None => panic!("a cache that is not there"),
    }
}

/// The size of a cache in KiB.
const fn kib(array: &CacheArray, line: u32) -> u32 {
    array.sets * array.ways * line / 1024
}

/// How function 8000_0006h writes a number of ways.
const fn associativity_code(ways: u32) -> u32 {
    match ways {
        1 | 2 | 4 => ways,
        8 => 6,
        16 => 8,
        _ => panic!("a number of ways without a code"),
    }
}

/// What a byte of function 2 of an Intel processor says.
#[derive(Clone, Copy)]
pub(super) enum Byte {
    /// Nothing.
    Null,
    /// How often function 2 has to be executed: once. The lowest byte of EAX.
    Once,
    /// The code TLB for small pages.
    SmallCodeTlb,
    /// The code TLB for large pages.
    LargeCodeTlb,
    /// The data TLB for small pages.
    SmallDataTlb,
    /// The data TLB for large pages.
    LargeDataTlb,
    /// The first-level cache for code.
    CodeCache,
    /// The first-level cache for data.
    DataCache,
    /// The second-level cache.
    SecondCache,
    /// Prefetches bring 64 bytes.
    Prefetch64,
}

/// Function 2 of an Intel processor, whose EAX, EBX, ECX and EDX have these bytes, the lowest first.
///
/// # Panics
///
/// When it is compiled, if no descriptor says what the geometry is.
pub(super) const fn descriptors(
    tlbs: &TlbGeometry,
    caches: &CacheGeometry,
    bytes: [[Byte; 4]; 4],
) -> CpuidLeaf {
    let mut registers = [0; 4];
    let mut at = 0;
    while at < 16 {
        let byte = descriptor(tlbs, caches, bytes[at / 4][at % 4]);
        registers[at / 4] |= (byte as u32) << (at % 4 * 8);
        at += 1;
    }
    leaf(2, registers[0], registers[1], registers[2], registers[3])
}

const fn descriptor(tlbs: &TlbGeometry, caches: &CacheGeometry, byte: Byte) -> u8 {
    const LARGE: PageSize = PageSize::Mib4;
    match byte {
        Byte::Null => 0x00,
        Byte::Once => 0x01,
        Byte::SmallCodeTlb => tlb_descriptor(SMALL_CODE_TLBS, &tlbs.code, PageSize::Kib4),
        Byte::LargeCodeTlb => tlb_descriptor(LARGE_CODE_TLBS, &tlbs.code, LARGE),
        Byte::SmallDataTlb => tlb_descriptor(SMALL_DATA_TLBS, &tlbs.data, PageSize::Kib4),
        Byte::LargeDataTlb => tlb_descriptor(LARGE_DATA_TLBS, &tlbs.data, LARGE),
        Byte::CodeCache => cache_descriptor(CODE_CACHES, &caches.code, caches.line),
        Byte::DataCache => cache_descriptor(DATA_CACHES, &caches.data, caches.line),
        Byte::SecondCache => cache_descriptor(SECOND_CACHES, second_cache(caches), caches.line),
        Byte::Prefetch64 => 0xF0,
    }
}

/// A descriptor, the entries of the TLB that it means, and the ways: as many if it is fully associative.
type TlbDescriptor = (u8, u16, u16);
/// A descriptor, and the size in KiB, the ways and the bytes of a line of the cache that it means.
type CacheDescriptor = (u8, u32, u32, u32);

// Intel 243191, table 3-9, and later editions; those that a part here needs.
const SMALL_CODE_TLBS: &[TlbDescriptor] = &[(0x01, 32, 4), (0xB0, 128, 4)];
const LARGE_CODE_TLBS: &[TlbDescriptor] = &[(0x02, 2, 2)];
const SMALL_DATA_TLBS: &[TlbDescriptor] = &[(0x03, 64, 4), (0xB3, 128, 4)];
const LARGE_DATA_TLBS: &[TlbDescriptor] = &[(0x04, 8, 4)];
const CODE_CACHES: &[CacheDescriptor] = &[(0x06, 8, 4, 32), (0x08, 16, 4, 32), (0x30, 32, 8, 64)];
const DATA_CACHES: &[CacheDescriptor] = &[(0x0A, 8, 2, 32), (0x0C, 16, 4, 32), (0x2C, 32, 8, 64)];
const SECOND_CACHES: &[CacheDescriptor] =
    &[(0x42, 256, 4, 32), (0x43, 512, 4, 32), (0x7D, 2048, 8, 64), (0x82, 256, 8, 32)];

const fn tlb_descriptor(table: &[TlbDescriptor], side: &SideGeometry, page: PageSize) -> u8 {
    let Some(array) = array_for(side.first, page) else {
        panic!("a TLB that is not there");
    };
    let ArrayGeometry { entries, .. } = *array;
    let mut row = 0;
    while row < table.len() {
        let (byte, of, ways) = table[row];
        if of == entries && ways == array.ways() {
            return byte;
        }
        row += 1;
    }
    panic!("a TLB without a descriptor")
}

const fn cache_descriptor(table: &[CacheDescriptor], array: &CacheArray, line: u32) -> u8 {
    let mut row = 0;
    while row < table.len() {
        let (byte, size, ways, bytes) = table[row];
        if size == kib(array, line) && ways == array.ways && bytes == line {
            return byte;
        }
        row += 1;
    }
    panic!("a cache without a descriptor")
}

#[cfg(test)]
mod tests {
    use super::*;
    use uarch::part::caches::K8;
    use uarch::tlb::SecondLevel;

    /// AMD 25481, function 8000_0006h: a fully associative TLB has F, 8 ways have 6; a level that is not
    /// there is zero.
    #[test]
    fn codes_that_no_part_has() {
        let caches = CacheGeometry {
            second_level: Some(uarch::cache::SecondLevel {
                array: CacheArray { sets: 1024, ways: 8, ..K8.code },
                ..K8.second_level.expect("it is there")
            }),
            ..K8
        };
        let second =
            SecondLevel { arrays: uarch::part::tlbs::K8.code.first, exclusive: false, latency: 0 };
        let code = SideGeometry { second: Some(second), ..uarch::part::tlbs::K8.code };
        let data = SideGeometry { second: None, ..code };
        let result = second_level(
            &TlbGeometry {
                data,
                code,
                shared_second: None,
                directory_entries: 0,
                walk_read: 1,
                flush_filter: None,
            },
            &caches,
        )
        .result;
        assert_eq!((result.eax, result.ebx), (0xF008, 0xF020));
        assert_eq!((result.ecx, result.edx), (0x0200_6140, 0));
    }
}
