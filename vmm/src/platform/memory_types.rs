//! How memory is cached: what the memory-type range registers (MTRRs), the page-attribute table (PAT) and
//! the bits PCD and PWT of page tables say together.
//!
//! Sources: Intel SDM volume 3, "Memory Type Range Registers (MTRRs)" and "Selecting a Memory Type";
//! AMD64 volume 2, sections 7.4, 7.7 and 7.8.

use uarch::cache::MemoryType;

use super::msr::MsrBank;

const CAPABILITIES: u32 = 0xFE;
const VARIABLE_BASE_0: u32 = 0x200;
const DEFAULT_TYPE: u32 = 0x2FF;
const PAT: u32 = 0x277;
/// Registers of the fixed ranges below 1 MiB: number, first address, bytes of each of its eight ranges.
const FIXED: [(u32, u64, u64); 11] = [
    (0x250, 0x0_0000, 0x1_0000),
    (0x258, 0x8_0000, 0x4000),
    (0x259, 0xA_0000, 0x4000),
    (0x268, 0xC_0000, 0x1000),
    (0x269, 0xC_8000, 0x1000),
    (0x26A, 0xD_0000, 0x1000),
    (0x26B, 0xD_8000, 0x1000),
    (0x26C, 0xE_0000, 0x1000),
    (0x26D, 0xE_8000, 0x1000),
    (0x26E, 0xF_0000, 0x1000),
    (0x26F, 0xF_8000, 0x1000),
];
/// In the default-type register: the MTRRs are enabled, the fixed ones as well.
const ENABLED: u64 = 1 << 11;
const FIXED_ENABLED: u64 = 1 << 10;
/// In a mask: the range is valid.
const VALID: u64 = 1 << 11;

/// What a page-table entry says of caching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageAttributes {
    /// PCD.
    pub cache_disable: bool,
    /// PWT.
    pub write_through: bool,
    /// The PAT bit: bit 7 of an entry of a page table, bit 12 of one that maps a large page.
    pub pat: bool,
}

/// What the registers of a processor say of memory.
#[derive(Clone, Debug)]
pub struct MemoryTypes {
    /// One of each 4-KiB page below 1 MiB, if the fixed ranges are enabled.
    fixed: Option<Box<[u8; 256]>>,
    /// Base, mask and type of the valid variable ranges.
    variable: Vec<(u64, u64, u8)>,
    /// Of everything else.
    default: u8,
    /// The types that the three bits of a page-table entry choose from; `None` on a processor that has
    /// no PAT.
    pat: Option<[u8; 8]>,
}

impl MemoryTypes {
    /// What the registers of `bank` say. A processor without MTRRs leaves it to the chip set, which has
    /// RAM cached: all of memory is write-back there, unless page tables say otherwise.
    #[must_use]
    pub fn new(bank: &MsrBank) -> Self {
        let has = |index| bank.name(index).is_some();
        let pat = has(PAT).then(|| bank.value(PAT).to_le_bytes());
        if !has(DEFAULT_TYPE) {
            return Self { fixed: None, variable: Vec::new(), default: WB, pat };
        }
        let control = bank.value(DEFAULT_TYPE);
        if control & ENABLED == 0 {
            return Self { fixed: None, variable: Vec::new(), default: UC, pat };
        }
        let fixed = (control & FIXED_ENABLED != 0).then(|| {
            let mut pages = Box::new([UC; 256]);
            for (index, first, bytes) in FIXED {
                for (n, of) in (0..).zip(bank.value(index).to_le_bytes()) {
                    let start = ((first + n * bytes) >> 12) as usize;
                    // RdMem and WrMem stand beside the type on AMD processors.
                    pages[start..start + (bytes >> 12) as usize].fill(of & 7);
                }
            }
            pages
        });
        let ranges =
            (0..bank.value(CAPABILITIES) as u8).map(|n| VARIABLE_BASE_0 + 2 * u32::from(n));
        let variable = ranges
            .map(|index| (bank.value(index), bank.value(index + 1)))
            .filter(|(_, mask)| mask & VALID != 0)
            .map(|(base, mask)| (base & !0xfff, mask & !0xfff, base as u8))
            .collect();
        Self { fixed, variable, default: control as u8, pat }
    }

    /// The type of a page at a guest-physical address whose page-table entry has these attributes.
    #[must_use]
    pub fn of(&self, physical: u64, attributes: PageAttributes) -> MemoryType {
        named(self.combined(self.of_range(physical), self.of_page(attributes)))
    }

    /// What the MTRRs say.
    fn of_range(&self, physical: u64) -> u8 {
        if let Some(fixed) = &self.fixed
            && physical < 1 << 20
        {
            return fixed[(physical >> 12) as usize];
        }
        let hits = self.variable.iter().filter(|(base, mask, _)| physical & mask == base & mask);
        // Where ranges overlap, uncacheable wins, then write-through over write-back.
        hits.map(|&(_, _, of)| of).reduce(u8::min).unwrap_or(self.default)
    }

    /// What the page tables say.
    fn of_page(&self, attributes: PageAttributes) -> u8 {
        let PageAttributes { cache_disable, write_through, pat } = attributes;
        let index =
            usize::from(pat) << 2 | usize::from(cache_disable) << 1 | usize::from(write_through);
        // Without a PAT, PCD and PWT choose from the types that a PAT has after reset.
        self.pat.map_or([WB, WT, UC_MINUS, UC][index & 3], |types| types[index])
    }

    /// Both together (Intel SDM volume 3, "Effective Page-Level Memory Type for Pentium III and Later").
    fn combined(&self, range: u8, page: u8) -> u8 {
        match (range, page) {
            (_, WC) => WC,
            (WC, UC_MINUS) => WC,
            (_, UC | UC_MINUS) | (UC, _) => UC,
            (_, WB) => range,
            (WC, _) => UC,
            (WB | WT, WT) => WT,
            (WP, WT) => UC,
            (WB | WP, WP) => WP,
            _ => UC,
        }
    }
}

/// The numbers of the types in the registers.
const UC: u8 = 0;
const WC: u8 = 1;
const WT: u8 = 4;
const WP: u8 = 5;
const WB: u8 = 6;
const UC_MINUS: u8 = 7;

fn named(of: u8) -> MemoryType {
    match of {
        WC => MemoryType::WriteCombining,
        WT => MemoryType::WriteThrough,
        WP => MemoryType::WriteProtected,
        WB => MemoryType::WriteBack,
        _ => MemoryType::Uncacheable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{K8, P55C, PPRO};

    const NONE: PageAttributes =
        PageAttributes { cache_disable: false, write_through: false, pat: false };
    const PCD: PageAttributes = PageAttributes { cache_disable: true, ..NONE };
    const PWT: PageAttributes = PageAttributes { write_through: true, ..NONE };

    /// 512 MiB of RAM and the hole from 3 GiB on, as firmware leaves it.
    fn k8() -> MsrBank {
        let mut bank = MsrBank::new(&K8);
        bank.set_up_by_firmware(0x2000_0000, 0, 0xC000_0000);
        bank
    }

    #[test]
    fn firmware_leaves_ram_cached_and_devices_not() {
        let types = MemoryTypes::new(&k8());
        for (physical, of) in [
            (0, MemoryType::WriteBack),
            (0x9_F000, MemoryType::WriteBack),
            (0xA_0000, MemoryType::Uncacheable),
            (0xB_FFFF, MemoryType::Uncacheable),
            (0xC_0000, MemoryType::WriteBack),
            (0x10_0000, MemoryType::WriteBack),
            (0xBFFF_FFFF, MemoryType::WriteBack),
            (0xC000_0000, MemoryType::Uncacheable),
            (0xFEE0_0000, MemoryType::Uncacheable),
            (0x1_0000_0000, MemoryType::WriteBack),
        ] {
            assert_eq!(types.of(physical, NONE), of, "{physical:#x}");
        }
    }

    /// The PAT after reset: WB, WT, UC-, UC, twice. Entry 5 is programmed to be write-combining.
    #[test]
    fn page_tables_choose_by_the_pat() {
        let mut bank = k8();
        bank.put(PAT, 0x0007_0106_0007_0406);
        let types = MemoryTypes::new(&bank);
        let of = |attributes| types.of(0x10_0000, attributes);
        assert_eq!(of(PWT), MemoryType::WriteThrough);
        assert_eq!(of(PCD), MemoryType::Uncacheable);
        assert_eq!(of(PageAttributes { pat: true, ..PWT }), MemoryType::WriteCombining);
        // UC of the MTRRs and WC of the PAT is WC, with WB it is UC.
        assert_eq!(
            types.of(0xFEE0_0000, PageAttributes { pat: true, ..PWT }),
            MemoryType::WriteCombining
        );
    }

    /// UC wins over WB where ranges overlap; without the enable bit everything is uncacheable.
    #[test]
    fn ranges_overlap() {
        let mut bank = k8();
        bank.put(0x202, 0xD000_0001);
        bank.put(0x203, 0xFF_F800_0000 | 1 << 11);
        bank.put(0x204, 0x1000_0004);
        bank.put(0x205, 0xFF_F000_0000 | 1 << 11);
        let types = MemoryTypes::new(&bank);
        assert_eq!(types.of(0xD000_0000, NONE), MemoryType::Uncacheable);
        assert_eq!(types.of(0x1FFF_FFFF, NONE), MemoryType::WriteThrough);
        assert_eq!(types.of(0x2000_0000, NONE), MemoryType::WriteBack);
        bank.put(DEFAULT_TYPE, 6);
        assert_eq!(MemoryTypes::new(&bank).of(0, NONE), MemoryType::Uncacheable);
    }

    /// The Pentium has neither MTRRs nor a PAT, the Pentium Pro no PAT.
    #[test]
    fn older_processors_have_pcd_and_pwt() {
        for platform in [&P55C, &PPRO] {
            let mut bank = MsrBank::new(platform);
            bank.set_up_by_firmware(0x2000_0000, 0, 0xC000_0000);
            let types = MemoryTypes::new(&bank);
            assert_eq!(types.of(0x10_0000, NONE), MemoryType::WriteBack, "{}", platform.name);
            assert_eq!(types.of(0x10_0000, PWT), MemoryType::WriteThrough);
            assert_eq!(types.of(0x10_0000, PCD), MemoryType::Uncacheable);
            assert_eq!(
                types.of(0x10_0000, PageAttributes { pat: true, ..NONE }),
                MemoryType::WriteBack
            );
        }
    }
}
