//! The functions of CPUID that describe TLBs and caches, from the geometry that these are modelled with.

use uarch::tlb::{ArrayGeometry, Associativity, PageSize, SideGeometry, TlbGeometry, array_for};

use super::cpuid::{CpuidLeaf, leaf};

/// A cache, as CPUID describes it.
#[derive(Clone, Copy)]
pub(super) struct Cache {
    /// Its size.
    pub(super) kib: u32,
    /// Its ways.
    pub(super) ways: u32,
    /// Bytes of a line.
    pub(super) line: u32,
}

/// The caches of a processor.
pub(super) struct Caches {
    /// The first level for code.
    pub(super) code: Cache,
    /// The first level for data.
    pub(super) data: Cache,
    /// The second level.
    pub(super) second: Cache,
}

/// The page size that the entries for large pages are counted in: one of 4 MiB takes two (AMD 25481).
const AMD_LARGE: PageSize = PageSize::Mib2;

/// Function 8000_0005h of an AMD processor: TLBs and caches of the first level (AMD 25481).
pub(super) const fn first_level(tlbs: &TlbGeometry, caches: &Caches) -> CpuidLeaf {
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
    const fn cache(cache: Cache) -> u32 {
        cache.kib << 24 | cache.ways << 16 | LINES_PER_TAG << 8 | cache.line
    }
    leaf(
        0x8000_0005,
        tlbs_for(tlbs, AMD_LARGE),
        tlbs_for(tlbs, PageSize::Kib4),
        cache(caches.data),
        cache(caches.code),
    )
}

/// Function 8000_0006h of an AMD processor: TLBs and cache of the second level (AMD 25481).
pub(super) const fn second_level(tlbs: &TlbGeometry, caches: &Caches) -> CpuidLeaf {
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
    let Cache { kib, ways, line } = caches.second;
    let cache = kib << 16 | associativity_code(ways) << 12 | LINES_PER_TAG << 8 | line;
    leaf(0x8000_0006, tlbs_for(tlbs, AMD_LARGE), tlbs_for(tlbs, PageSize::Kib4), cache, 0)
}

const LINES_PER_TAG: u32 = 1;

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
    caches: &Caches,
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

const fn descriptor(tlbs: &TlbGeometry, caches: &Caches, byte: Byte) -> u8 {
    const LARGE: PageSize = PageSize::Mib4;
    match byte {
        Byte::Null => 0x00,
        Byte::Once => 0x01,
        Byte::SmallCodeTlb => tlb_descriptor(SMALL_CODE_TLBS, &tlbs.code, PageSize::Kib4),
        Byte::LargeCodeTlb => tlb_descriptor(LARGE_CODE_TLBS, &tlbs.code, LARGE),
        Byte::SmallDataTlb => tlb_descriptor(SMALL_DATA_TLBS, &tlbs.data, PageSize::Kib4),
        Byte::LargeDataTlb => tlb_descriptor(LARGE_DATA_TLBS, &tlbs.data, LARGE),
        Byte::CodeCache => cache_descriptor(CODE_CACHES, caches.code),
        Byte::DataCache => cache_descriptor(DATA_CACHES, caches.data),
        Byte::SecondCache => cache_descriptor(SECOND_CACHES, caches.second),
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

const fn cache_descriptor(table: &[CacheDescriptor], cache: Cache) -> u8 {
    let mut row = 0;
    while row < table.len() {
        let (byte, kib, ways, line) = table[row];
        if kib == cache.kib && ways == cache.ways && line == cache.line {
            return byte;
        }
        row += 1;
    }
    panic!("a cache without a descriptor")
}

#[cfg(test)]
mod tests {
    use super::*;
    use uarch::tlb::SecondLevel;

    /// AMD 25481, function 8000_0006h: a fully associative TLB has F, 8 ways have 6; a level that is not
    /// there is zero.
    #[test]
    fn codes_that_no_part_has() {
        let one = Cache { kib: 512, ways: 8, line: 64 };
        let caches = Caches { code: one, data: one, second: one };
        let second =
            SecondLevel { arrays: uarch::part::tlbs::K8.code.first, exclusive: false, latency: 0 };
        let code = SideGeometry { second: Some(second), ..uarch::part::tlbs::K8.code };
        let data = SideGeometry { second: None, ..code };
        let result =
            second_level(&TlbGeometry { data, code, directory_entries: 0 }, &caches).result;
        assert_eq!((result.eax, result.ebx), (0xF008, 0xF020));
        assert_eq!((result.ecx, result.edx), (0x0200_6140, 0));
    }
}
