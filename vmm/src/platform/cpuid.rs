//! CPUID as a table.

/// The four registers that CPUID returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidResult {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// One CPUID function of a personality.
#[derive(Clone, Copy, Debug)]
pub struct CpuidLeaf {
    /// Function number, the input in EAX.
    pub function: u32,
    /// The input in ECX that the row is for; `None` if the function does not look at it.
    pub subleaf: Option<u32>,
    /// What it returns on the boot processor with its local APIC enabled.
    pub result: CpuidResult,
}

/// What CPUID returns for a function that the processor does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfRange {
    /// Zeros (AMD 25481).
    Zeros,
    /// The same as for the highest basic function (Intel SDM volume 2, CPUID).
    HighestBasic,
}

/// What makes CPUID differ between two logical processors, or two moments, of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidContext {
    /// Initial local APIC identifier.
    pub apic_id: u8,
    /// `APIC_BASE` bit 11: while clear, CPUID hides the APIC.
    pub apic_enabled: bool,
    /// ECX (bits 63:32) and EDX (31:0), where a register of the processor answers for them.
    pub features: Option<u64>,
}

impl CpuidContext {
    /// That of processor `id`, whose initial local APIC identifier is its number, as after RESET.
    #[must_use]
    pub fn at_reset(id: usize) -> Self {
        let apic_id = u8::try_from(id).unwrap_or(u8::MAX);
        Self { apic_id, apic_enabled: true, features: None }
    }
}

/// A model-specific register that answers for ECX and EDX of a CPUID function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuidOverride {
    /// The register.
    pub index: u32,
    /// The function.
    pub function: u32,
}

/// A function that does not look at ECX.
pub(super) const fn leaf(function: u32, eax: u32, ebx: u32, ecx: u32, edx: u32) -> CpuidLeaf {
    CpuidLeaf { function, subleaf: None, result: CpuidResult { eax, ebx, ecx, edx } }
}

/// A function with that input in ECX.
pub(super) const fn subleaf(
    function: u32,
    subleaf: u32,
    eax: u32,
    ebx: u32,
    ecx: u32,
    edx: u32,
) -> CpuidLeaf {
    CpuidLeaf { subleaf: Some(subleaf), ..leaf(function, eax, ebx, ecx, edx) }
}

/// A function that returns 16 characters, in the order EAX, EBX, ECX, EDX.
pub(super) const fn text(function: u32, t: &[u8; 16]) -> CpuidLeaf {
    leaf(
        function,
        u32::from_le_bytes([t[0], t[1], t[2], t[3]]),
        u32::from_le_bytes([t[4], t[5], t[6], t[7]]),
        u32::from_le_bytes([t[8], t[9], t[10], t[11]]),
        u32::from_le_bytes([t[12], t[13], t[14], t[15]]),
    )
}

/// A function that returns the largest one of its range and the vendor "GenuineIntel", in the
/// order EBX, EDX, ECX.
pub(super) const fn genuine_intel(function: u32, largest: u32) -> CpuidLeaf {
    let (ebx, edx, ecx) = (*b"Genu", *b"ineI", *b"ntel");
    leaf(
        function,
        largest,
        u32::from_le_bytes(ebx),
        u32::from_le_bytes(ecx),
        u32::from_le_bytes(edx),
    )
}

/// A function that returns the largest one of its range and the vendor "AuthenticAMD", in the
/// order EBX, EDX, ECX.
pub(super) const fn authentic_amd(function: u32, largest: u32) -> CpuidLeaf {
    let (ebx, edx, ecx) = (*b"Auth", *b"enti", *b"cAMD");
    leaf(
        function,
        largest,
        u32::from_le_bytes(ebx),
        u32::from_le_bytes(ecx),
        u32::from_le_bytes(edx),
    )
}
