//! The mode of operation, and what follows from it for instruction and stack pointer.

use crate::{
    control_registers::{cr0, efer},
    cpu::Cpu,
    descriptor::Segment,
    flags,
    insn::{gpr, seg},
};

/// Code size of the running segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum CodeSize {
    /// Real, virtual-8086 or 16-bit protected mode.
    Bits16,
    /// 32-bit protected or compatibility mode.
    Bits32,
    /// 64-bit mode.
    Bits64,
}

impl CodeSize {
    /// The same as a number: 16, 32 or 64.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::Bits16 => 16,
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }
}

impl Cpu {
    /// CR0.PE is set.
    #[inline]
    pub(crate) fn protected(&self) -> bool {
        self.cr0 & cr0::PE != 0
    }

    /// Virtual-8086 mode.
    #[inline]
    pub(crate) fn v8086(&self) -> bool {
        self.system_flags & flags::VM != 0
    }

    /// Protected mode and not virtual-8086: selectors index descriptor tables.
    #[inline]
    pub(crate) fn selectors_are_protected(&self) -> bool {
        self.protected() && !self.v8086()
    }

    /// Long mode is active (64-bit or compatibility).
    #[inline]
    pub(crate) fn long_mode(&self) -> bool {
        self.efer & efer::LMA != 0
    }

    /// 64-bit mode.
    #[inline]
    pub(crate) fn in_64bit(&self) -> bool {
        self.long_mode() && self.segments[usize::from(seg::CS)].attributes & Segment::LONG != 0
    }

    /// Code size of CS.
    #[inline]
    #[must_use]
    pub fn code_size(&self) -> CodeSize {
        if self.in_64bit() {
            CodeSize::Bits64
        } else if self.segments[usize::from(seg::CS)].attributes & Segment::BIG != 0 {
            CodeSize::Bits32
        } else {
            CodeSize::Bits16
        }
    }

    /// The operating mode in the manual's words (AMD64 APM volume 1, "Modes of Operation"), with the
    /// code size where a mode has several.
    #[must_use]
    pub fn mode_name(&self) -> &'static str {
        match (self.protected(), self.code_size()) {
            (false, _) => "real mode",
            (true, _) if self.v8086() => "virtual-8086 mode",
            (true, CodeSize::Bits64) => "64-bit mode",
            (true, CodeSize::Bits32) if self.long_mode() => "32-bit compatibility mode",
            (true, CodeSize::Bits16) if self.long_mode() => "16-bit compatibility mode",
            (true, CodeSize::Bits32) => "32-bit protected mode",
            (true, CodeSize::Bits16) => "16-bit protected mode",
        }
    }

    /// Linear address that a push of `bytes` bytes would write.
    #[must_use]
    pub fn push_linear(&self, bytes: u64) -> u64 {
        let offset = self.gpr(gpr::RSP).wrapping_sub(bytes) & self.stack_mask();
        if self.in_64bit() {
            return offset;
        }
        self.segment(seg::SS).base.wrapping_add(offset) & 0xffff_ffff
    }

    /// Bits of the stack pointer that count: by SS.B outside 64-bit mode.
    #[inline]
    pub(crate) fn stack_mask(&self) -> u64 {
        if self.in_64bit() {
            u64::MAX
        } else if self.segments[usize::from(seg::SS)].attributes & Segment::BIG != 0 {
            0xffff_ffff
        } else {
            0xffff
        }
    }
}
