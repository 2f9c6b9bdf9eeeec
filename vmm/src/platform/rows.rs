//! Rows of a register table: the kinds that most registers are of.

use super::msr::{Check, MsrRow};

/// All 64 bits.
pub(super) const ALL: u64 = u64::MAX;

/// A register whose bits outside `writable` must be written as zeros.
pub(super) const fn strict(
    index: u32,
    name: &'static str,
    reset: u64,
    writable: u64,
    check: Check,
) -> MsrRow {
    MsrRow {
        index,
        name,
        reset,
        writable,
        faults: !writable,
        readable: true,
        check,
        passcode: None,
    }
}

/// A register whose bits outside `writable` keep their reset value whatever is written.
pub(super) const fn lenient(index: u32, name: &'static str, reset: u64, writable: u64) -> MsrRow {
    MsrRow {
        index,
        name,
        reset,
        writable,
        faults: 0,
        readable: true,
        check: Check::None,
        passcode: None,
    }
}

/// A register that cannot be written.
pub(super) const fn read_only(index: u32, name: &'static str, value: u64) -> MsrRow {
    MsrRow {
        index,
        name,
        reset: value,
        writable: 0,
        faults: 0,
        readable: true,
        check: Check::ReadOnly,
        passcode: None,
    }
}

/// A register that cannot be read, and whose writes do nothing.
pub(super) const fn write_only(index: u32, name: &'static str) -> MsrRow {
    MsrRow {
        index,
        name,
        reset: 0,
        writable: 0,
        faults: 0,
        readable: false,
        check: Check::None,
        passcode: None,
    }
}

/// A register of 64 bits that starts as zero.
pub(super) const fn plain(index: u32, name: &'static str) -> MsrRow {
    strict(index, name, 0, ALL, Check::None)
}

/// A machine-check status register.
pub(super) const fn bank_status(index: u32, name: &'static str) -> MsrRow {
    strict(index, name, 0, ALL, Check::MachineCheckStatus)
}

/// PAT (AMD64 volume 2, section 7.8.1): WB WT UC- UC, twice, after reset.
pub(super) const fn pat() -> MsrRow {
    strict(0x277, "PAT", 0x0007_0406_0007_0406, ALL, Check::Pat)
}

/// A register that answers for ECX (bits 63:32) and EDX (31:0) of a CPUID function. It begins with
/// what the function returns.
pub(super) const fn cpuid_features(index: u32, name: &'static str, passcode: u32) -> MsrRow {
    MsrRow { passcode: Some(passcode), ..plain(index, name) }
}
