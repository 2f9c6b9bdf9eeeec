//! Size and shape of guest memory.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::error::{BootError, Result};
use super::layout::{self, Taken};

/// Guest memory as the boot code writes it.
pub type GuestRam = GuestMemoryMmap<()>;

/// The smallest machine: a Linux zero page, a page table and a payload at 1 MiB.
pub const MINIMUM: u64 = 2 << 20;

/// Usable RAM, type 1 of the e820, multiboot and PVH memory maps.
pub const USABLE: u32 = 1;
/// Reserved, type 2 of the same maps.
pub const RESERVED: u32 = 2;

/// One range of a memory map, as INT 15h function E820h reports it (ACPI specification 15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
    /// [`USABLE`] or [`RESERVED`].
    pub kind: u32,
}

impl MapEntry {
    /// The 20 bytes of an E820h descriptor: base, length, type. Every boot protocol uses them.
    pub fn e820(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.start.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..].copy_from_slice(&self.kind.to_le_bytes());
        bytes
    }
}

/// How much RAM the machine has, and where it lies around the hole below 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RamLayout {
    low: u64,
    high: u64,
}

impl RamLayout {
    /// A machine with `size` bytes of RAM, rounded down to whole pages.
    ///
    /// # Errors
    /// If `size` is zero, below [`MINIMUM`], or more than the `host_memory` bytes given.
    pub fn new(size: u64, host_memory: Option<u64>) -> Result<Self> {
        let refuse = |problem: String| BootError::MemorySize { given: show_size(size), problem };
        if size == 0 {
            return Err(refuse("the guest needs memory".into()));
        }
        if size < MINIMUM {
            return Err(refuse(format!("at least {} is needed", show_size(MINIMUM))));
        }
        if let Some(host) = host_memory
            && size > host
        {
            return Err(refuse(format!("this host has {}", show_size(host))));
        }
        let size = size & !0xFFF;
        let low = size.min(layout::HOLE);
        Ok(Self { low, high: size - low })
    }

    /// Bytes of RAM in all.
    pub fn size(&self) -> u64 {
        self.low + self.high
    }

    /// End of RAM below the hole.
    pub fn low_end(&self) -> u64 {
        self.low
    }

    /// End of RAM above 4 GiB; 4 GiB if there is none.
    pub fn high_end(&self) -> u64 {
        layout::HOLE_END + self.high
    }

    /// Start and length of each contiguous range of RAM.
    pub fn regions(&self) -> Vec<(GuestAddress, usize)> {
        let mut regions = vec![(GuestAddress(0), self.low as usize)];
        if self.high > 0 {
            regions.push((GuestAddress(layout::HOLE_END), self.high as usize));
        }
        regions
    }

    /// The range of `size` bytes at `start`, in which `what` goes.
    ///
    /// # Errors
    /// If it is not all RAM below the hole, or something is there already.
    pub fn free(&self, what: &str, start: u64, size: u64, taken: &[Taken]) -> Result<Range<u64>> {
        let refuse = |place| Err(BootError::DoesNotFit { what: what.into(), size, place });
        let range = start..start.saturating_add(size);
        let ram = [0..layout::LOW_RAM_END, layout::HIGH_RAM..self.low];
        if !ram.iter().any(|ram| ram.start <= range.start && range.end <= ram.end) {
            let [low, high] = ram.map(|ram| format!("{:#x}-{:#x}", ram.start, ram.end - 1));
            return refuse(format!("the RAM, which is at {low} and {high}"));
        }
        if let Some(clash) = taken.iter().find(|taken| taken.overlaps(&range)) {
            let (start, last) = (clash.start, clash.start + clash.size - 1);
            return refuse(format!("memory: the {} is at {start:#x}-{last:#x}", clash.what));
        }
        Ok(range)
    }

    /// Where it is.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let regions = self.regions();
        let range = |(start, size): &(GuestAddress, usize)| start.0..start.0 + *size as u64;
        regions.iter().map(range).collect()
    }

    /// Reserves the host memory. The host gives a page when the guest first writes to it; that it
    /// may not have them all is said in the log.
    ///
    /// # Errors
    /// If the host refuses the mapping.
    pub fn allocate(&self) -> Result<GuestRam> {
        if let Some(free) = meminfo("MemAvailable:")
            && self.size() > free
        {
            log::warn!(
                "memory size {}: this host has {} to spare now; it ends vpmu if the guest uses more",
                show_size(self.size()),
                show_size(free)
            );
        }
        GuestRam::from_ranges(&self.regions())
            .map_err(|e| BootError::HostMemory { size: show_size(self.size()), why: e.to_string() })
    }

    /// The memory map for the guest: RAM, EBDA, firmware tables.
    pub fn map(&self) -> Vec<MapEntry> {
        let range = |start: u64, end: u64, kind| MapEntry { start, size: end - start, kind };
        let mut map = vec![
            range(0, layout::LOW_RAM_END, USABLE),
            range(layout::EBDA, 0xA_0000, RESERVED),
            range(layout::FIRMWARE, layout::HIGH_RAM, RESERVED),
            range(layout::HIGH_RAM, self.low, USABLE),
        ];
        if self.high > 0 {
            map.push(range(layout::HOLE_END, self.high_end(), USABLE));
        }
        map
    }
}

/// Reads a memory size: bytes, or a number with the suffix `K`, `M`, `G` or `T` (powers of 1024,
/// either case).
///
/// # Errors
/// If the text is not such a number or exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64> {
    let refuse = |problem: &str| BootError::MemorySize {
        given: format!("`{text}`"),
        problem: problem.into(),
    };
    let shift = match text.bytes().last().map(|b| b.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refuse("expected a number of bytes, or one with K, M, G or T (as in 512M)"));
    }
    let number: u64 = digits.parse().map_err(|_| refuse("too large"))?;
    number.checked_mul(1 << shift).ok_or_else(|| refuse("too large"))
}

/// Bytes of physical memory of the host, or `None` where `/proc/meminfo` does not say.
pub fn host_memory() -> Option<u64> {
    meminfo("MemTotal:")
}

/// A field of the host's `/proc/meminfo`, in bytes.
fn meminfo(field: &str) -> Option<u64> {
    meminfo_field(&std::fs::read_to_string("/proc/meminfo").ok()?, field)
}

fn meminfo_field(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn show_size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 && b % (1 << 30) == 0 => format!("{}G", b >> 30),
        b if b >= 1 << 20 => format!("{}M", b >> 20),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("512M").unwrap(), 536_870_912);
        assert_eq!(parse_size("2g").unwrap(), 2_147_483_648);
        assert_eq!(parse_size("4194304").unwrap(), 4_194_304);
        assert_eq!(parse_size("0").unwrap(), 0);
        for bad in ["", "M", "-1", "1.5G", "512MB", "0x100", "+1", "é", "1é"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        // 2^24 T = 2^64 bytes, one more than fits.
        assert!(parse_size("16777216T").is_err());
        assert!(parse_size("16777215T").is_ok());
    }

    #[test]
    fn impossible_sizes_are_refused_in_one_line() {
        for (size, host) in [(0, None), (MINIMUM - 1, None), (8 * GIB, Some(4 * GIB))] {
            let text = RamLayout::new(size, host).unwrap_err().to_string();
            assert!(!text.contains('\n') && text.starts_with("memory size "), "{text}");
        }
        assert!(RamLayout::new(4 * GIB, Some(4 * GIB)).is_ok());
    }

    /// RAM below 3 GiB stays below, the rest starts at 4 GiB.
    #[test]
    fn memory_goes_around_the_hole() {
        for (size, low_end, high_end) in [
            (512 << 20, 0x2000_0000, 0x1_0000_0000),
            (3 * GIB, 0xC000_0000, 0x1_0000_0000),
            (3 * GIB + 0x1000, 0xC000_0000, 0x1_0000_1000),
            (8 * GIB, 0xC000_0000, 0x2_4000_0000),
        ] {
            let ram = RamLayout::new(size, None).unwrap();
            assert_eq!((ram.low_end(), ram.high_end(), ram.size()), (low_end, high_end, size));
            let usable: u64 = ram.map().iter().filter(|e| e.kind == USABLE).map(|e| e.size).sum();
            // Everything but 9FC00h-FFFFFh: 60400h bytes.
            assert_eq!(usable, size - 0x6_0400);
            assert!(ram.map().windows(2).all(|w| w[0].start + w[0].size <= w[1].start));
        }
    }

    #[test]
    fn the_map_of_512_mib() {
        let map = RamLayout::new(512 << 20, None).unwrap().map();
        let expected = [
            (0, 0x9_FC00, 1),
            (0x9_FC00, 0x400, 2),
            (0xE_0000, 0x2_0000, 2),
            (0x10_0000, 0x1FF0_0000, 1),
        ];
        let got: Vec<_> = map.iter().map(|e| (e.start, e.size, e.kind)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn meminfo_is_in_kib() {
        let text = "MemTotal:       2048 kB\nMemFree: 1 kB\n";
        assert_eq!(meminfo_field(text, "MemTotal:"), Some(2 << 20));
        assert_eq!(meminfo_field(text, "MemFree:"), Some(1 << 10));
        assert_eq!(meminfo_field(text, "MemAvailable:"), None);
    }
}
