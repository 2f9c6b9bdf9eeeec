//! Where everything is in a guest that modifies itself.

use crate::random::Random;

/// How a guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Real mode: segment bases alias the same bytes, and IP wraps.
    Real,
    /// 32-bit protected mode at privilege 0 without paging; code segments of several bases and sizes.
    Flat,
    /// Privilege 3 over 32-bit page tables.
    Paged,
    /// Privilege 3 over PAE page tables.
    Pae,
    /// 64-bit mode at privilege 3.
    Long,
}

impl Mode {
    pub(crate) const ALL: [Self; 5] = [Self::Real, Self::Flat, Self::Paged, Self::Pae, Self::Long];

    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Real => 16,
            Self::Flat | Self::Paged | Self::Pae => 32,
            Self::Long => 64,
        }
    }

    pub(crate) fn paged(self) -> bool {
        matches!(self, Self::Paged | Self::Pae | Self::Long)
    }

    /// Bytes of a page-table entry.
    pub(crate) fn entry(self) -> u64 {
        if self == Self::Paged { 4 } else { 8 }
    }
}

/// Guest-physical memory, beyond which is [`DEVICE`].
pub(crate) const RAM: usize = 0x7_0000;
/// A page of memory that is a device's: what runs there is fetched from the device.
pub(crate) const DEVICE: u64 = 0x7_0000;
/// Pieces of code to copy from.
pub(crate) const LIBRARY: u64 = 0x1_2000;
/// A page of user stack for each processor.
const STACKS: u64 = 0x1_3000;
/// The frames that hold the programs: eight pages, shared by all processors.
pub(crate) const FRAMES: u64 = 0x1_8000;
pub(crate) const FRAMES_LEN: u64 = 0x8000;
/// What each processor has of its own: tables, kernel, kernel stack.
const PRIVATE: u64 = 0x2_0000;
const PRIVATE_LEN: u64 = 0x1_0000;

/// Linear pages that the frames are mapped to, in a random order, twice: within the reach of a
/// 16-bit instruction pointer and beyond it.
pub(crate) const LOW: u64 = 0x8000;
pub(crate) const HIGH: u64 = 0x4_8000;
/// Where the processor's page table is seen by its user: code whose accessed and dirty bits change.
pub(crate) const TABLE_ALIAS: u64 = 0x6_0000;
/// Offset in the page table of the entries for [`Place::marked`].
pub(crate) const MARKED: u64 = 0x800;
/// Bytes from the start of one piece of code to that of the next.
pub(crate) const SLOT: u64 = 16;

/// Offsets in a processor's private memory.
pub(crate) mod private {
    pub(crate) const GDT: u64 = 0x1000;
    pub(crate) const IDT: u64 = 0x2000;
    pub(crate) const TSS: u64 = 0x3000;
    pub(crate) const KERNEL: u64 = 0x4000;
    /// A random number, then three tables of sixteen entries of eight bytes: where to go on after
    /// a fault (instruction pointer, selector), and values for eDI and eSI.
    pub(crate) const DATA: u64 = 0x5000;
    pub(crate) const RESTARTS: u64 = DATA + 0x100;
    pub(crate) const TARGETS: u64 = DATA + 0x200;
    pub(crate) const SOURCES: u64 = DATA + 0x300;
    pub(crate) const KERNEL_STACK: u64 = DATA + 0xff0;
    pub(crate) const ROOT: u64 = 0x6000;
    pub(crate) const TABLE: u64 = 0x7000;
    pub(crate) const POINTERS: u64 = 0x8000;
    pub(crate) const DIRECTORY: u64 = 0x9000;
    /// A page for all, full of NOPs, and behind it a page for privilege 0 that begins with RET.
    pub(crate) const SLIDE: u64 = 0xa000;
    pub(crate) const SUPERVISOR: u64 = 0xb000;
}

/// Selectors. Real mode has paragraphs instead.
pub(crate) mod sel {
    pub(crate) const KERNEL_CODE: u16 = 0x08;
    pub(crate) const KERNEL_DATA: u16 = 0x10;
    pub(crate) const TSS: u16 = 0x18;
    /// Data and code of the programs, at privilege 3 or, without paging, 0.
    pub(crate) const DATA: u16 = 0x28;
    /// Flat; base 1_0000h; base 1_7800h, 16 bits; base 800h.
    pub(crate) const CODE: [u16; 4] = [0x30, 0x38, 0x40, 0x48];
}

/// Bases of [`sel::CODE`].
pub(crate) const BASES: [u64; 4] = [0, 0x1_0000, 0x1_7800, 0x800];
/// Bases of code segments in real mode.
const REAL_BASES: [u64; 6] = [0x1_0000, 0x1_8000, 0x1_4000, 0x1_7ff0, 0xfff0, 0x1_c000];
/// Base of the data and stack segments in real mode.
pub(crate) const REAL_DATA: u64 = 0x1_0000;

/// One processor's view of a guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) mode: Mode,
    pub(crate) cpu: usize,
    /// Offset of the first piece of code in the frames: pieces cross pages at any of their bytes.
    pub(crate) phase: u64,
}

impl Place {
    pub(crate) fn private(&self, offset: u64) -> u64 {
        PRIVATE + self.cpu as u64 * PRIVATE_LEN + offset
    }

    /// What the programs load into their stack pointer.
    pub(crate) fn stack(&self) -> u64 {
        let top = STACKS + self.cpu as u64 * 0x1000 + 0xf00;
        if self.mode == Mode::Real { top - REAL_DATA } else { top }
    }

    /// Linear addresses whose entries in the page table are code: eight pages.
    pub(crate) fn marked(&self) -> u64 {
        MARKED / self.mode.entry() * 4096
    }

    /// A data address for a byte of the frames.
    pub(crate) fn data_address(&self, random: &mut Random, offset: u64) -> u64 {
        match self.mode {
            Mode::Real => FRAMES - REAL_DATA + offset,
            Mode::Flat => FRAMES + offset,
            _ => random.one(&[LOW, HIGH]) + offset,
        }
    }

    /// A random piece of code, as an offset in the frames; now and then beside its beginning, and
    /// often at the edge of a page.
    pub(crate) fn piece(&self, random: &mut Random) -> u64 {
        let slots = (FRAMES_LEN - self.phase) / SLOT - 1;
        let slot = match random.below(4) {
            0 => (random.below(7) + 1) * 0x1000 / SLOT - random.below(3),
            // Few of them, so that the same are met again.
            1 | 2 => random.below(24) * 11,
            _ => random.below(slots),
        };
        let beside = if random.below(8) == 0 { random.below(SLOT) } else { 0 };
        (self.phase + slot.min(slots) * SLOT + beside).min(FRAMES_LEN - 1)
    }

    /// A data address of a piece.
    pub(crate) fn target(&self, random: &mut Random) -> u64 {
        let offset = self.piece(random);
        self.data_address(random, offset)
    }

    /// A source of bytes: the library, or the programs themselves.
    pub(crate) fn source(&self, random: &mut Random) -> u64 {
        if random.below(4) == 0 {
            return self.target(random);
        }
        let base = if self.mode == Mode::Real { LIBRARY - REAL_DATA } else { LIBRARY };
        base + random.below(200) * SLOT
    }

    /// An instruction pointer and a code selector for a piece.
    pub(crate) fn entry_point(&self, random: &mut Random) -> (u64, u16) {
        let offset = self.piece(random);
        match self.mode {
            Mode::Real => loop {
                let base = random.one(&REAL_BASES);
                let ip = (FRAMES + offset).wrapping_sub(base);
                if ip < 0x1_0000 {
                    return (ip, (base >> 4) as u16);
                }
            },
            Mode::Long => (self.data_address(random, offset), sel::CODE[0] | 3),
            mode => {
                let linear = self.data_address(random, offset);
                let n = random.below(4) as usize;
                let n = if linear < BASES[n] { 0 } else { n };
                let rpl = if mode == Mode::Flat { 0 } else { 3 };
                (linear - BASES[n], sel::CODE[n] | rpl)
            }
        }
    }
}
