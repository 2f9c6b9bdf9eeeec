//! Misaligned accesses: which a part counts, and when they raise #AC.

use crate::{control_registers::cr0, cpu::Cpu, flags};

/// Which accesses a part counts as misaligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlignmentRule {
    /// Data accesses that cross an eight-byte boundary: K7 and K8 event 47h, P6 event 05h. A
    /// 16-byte access is two of eight bytes to this rule.
    #[default]
    Quadword,
    /// Accesses of two or four bytes that cross a four-byte boundary and of eight that cross an
    /// eight-byte boundary, to ports as well as to data: Pentium event 0Bh (Intel SDM volume 3,
    /// Pentium processor performance-monitoring events).
    Pentium,
}

impl AlignmentRule {
    /// Whether an access of `bytes` (1, 2, 4 or 8) at `address` is misaligned.
    #[inline(always)]
    #[must_use]
    pub fn is_misaligned(self, address: u64, bytes: u64) -> bool {
        let boundary = if self == Self::Pentium && bytes < 8 { 4 } else { 8 };
        bytes > 1 && (address & (boundary - 1)) + bytes > boundary
    }

    /// Whether a misaligned read or write counts as two: "split cycle reads are counted individually"
    /// (Intel SDM volume 3, Pentium events 00h and 01h).
    #[inline(always)]
    pub(crate) fn splits(self) -> bool {
        self == Self::Pentium
    }

    /// Whether port accesses can be misaligned.
    pub(crate) fn covers_ports(self) -> bool {
        self == Self::Pentium
    }
}

impl Cpu {
    /// Whether a misaligned data access raises #AC: CR0.AM, RFLAGS.AC and privilege 3.
    pub(crate) fn checks_alignment(&self) -> bool {
        self.cpl == 3 && self.cr0 & cr0::AM != 0 && self.system_flags & flags::AC != 0
    }

    /// Closes or opens the fast path of user accesses, which does not check alignment. At privilege
    /// levels 0 to 2 nothing changes: they use the supervisor's TLB.
    pub(crate) fn refresh_alignment(&mut self) {
        if self.cpl == 3 {
            self.tlb.close_user(self.checks_alignment());
        }
    }
}
