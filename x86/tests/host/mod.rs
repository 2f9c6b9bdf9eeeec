//! The processor that the tests of this crate compare with: who made it, and what it lacks.
//!
//! It is an oracle for what the architecture defines. Where the manuals leave something open, and
//! processors of the two vendors answer differently, a test asks [`Vendor::of_host`].

use std::arch::x86_64::__cpuid;

/// Who made a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    Amd,
    Intel,
    /// Another vendor, for which only the manuals say what its processors do.
    Other,
}

impl Vendor {
    /// By the vendor string of CPUID function 0, in EBX, EDX, ECX (AMD64 APM volume 3, appendix E;
    /// Intel SDM volume 2, "CPUID").
    pub(crate) fn of_host() -> Self {
        let leaf = __cpuid(0);
        let string = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat();
        match &string[..] {
            b"AuthenticAMD" | b"HygonGenuine" => Self::Amd,
            b"GenuineIntel" => Self::Intel,
            _ => Self::Other,
        }
    }
}

/// SSE3, which the first processors with AMD64 lack: CPUID function 1, ECX bit 0.
pub(crate) fn has_sse3() -> bool {
    __cpuid(1).ecx & 1 != 0
}
