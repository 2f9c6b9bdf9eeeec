//! Offsets and bits of the local APIC's registers (SDM Vol. 3A, "Local APIC Register Address Map").

/// Register offsets within the 4 KiB page.
pub(crate) mod offset {
    pub(crate) const ID: u32 = 0x020;
    pub(crate) const VERSION: u32 = 0x030;
    pub(crate) const TPR: u32 = 0x080;
    pub(crate) const APR: u32 = 0x090;
    pub(crate) const PPR: u32 = 0x0A0;
    pub(crate) const EOI: u32 = 0x0B0;
    pub(crate) const REMOTE_READ: u32 = 0x0C0;
    pub(crate) const LDR: u32 = 0x0D0;
    pub(crate) const DFR: u32 = 0x0E0;
    pub(crate) const SVR: u32 = 0x0F0;
    pub(crate) const ISR: u32 = 0x100;
    pub(crate) const TMR: u32 = 0x180;
    pub(crate) const IRR: u32 = 0x200;
    pub(crate) const ESR: u32 = 0x280;
    pub(crate) const ICR_LOW: u32 = 0x300;
    pub(crate) const ICR_HIGH: u32 = 0x310;
    pub(crate) const LVT_TIMER: u32 = 0x320;
    pub(crate) const LVT_THERMAL: u32 = 0x330;
    pub(crate) const LVTPC: u32 = 0x340;
    pub(crate) const LVT_LINT0: u32 = 0x350;
    pub(crate) const LVT_LINT1: u32 = 0x360;
    pub(crate) const LVT_ERROR: u32 = 0x370;
    pub(crate) const INITIAL_COUNT: u32 = 0x380;
    pub(crate) const CURRENT_COUNT: u32 = 0x390;
    pub(crate) const DIVIDE_CONFIGURATION: u32 = 0x3E0;
}

/// Indices into the array of LVT entries, in the order of their registers.
pub(crate) const TIMER: usize = 0;
pub(crate) const THERMAL: usize = 1;
pub(crate) const PERFORMANCE: usize = 2;
pub(crate) const LINT0: usize = 3;
pub(crate) const LINT1: usize = 4;
pub(crate) const ERROR: usize = 5;

pub(crate) const LVT_MASKED: u32 = 1 << 16;
pub(crate) const LVT_PERIODIC: u32 = 1 << 17;
pub(crate) const LVT_ACTIVE_LOW: u32 = 1 << 13;
pub(crate) const LVT_REMOTE_IRR: u32 = 1 << 14;
/// Writable bits of each LVT entry. Delivery status (bit 12) and remote IRR (bit 14) are read-only.
pub(crate) const LVT_WRITABLE: [u32; 6] =
    [0x3_00FF, 0x1_07FF, 0x1_07FF, 0x1_A7FF, 0x1_A7FF, 0x1_00FF];

pub(crate) const SVR_ENABLE: u32 = 1 << 8;
/// Vector, software enable, focus processor checking.
pub(crate) const SVR_WRITABLE: u32 = 0x3FF;
/// Vector, delivery mode, destination mode, level, trigger mode, shorthand. The delivery status
/// (bit 12) always reads idle: a message is delivered at once.
pub(crate) const ICR_WRITABLE: u32 = 0x000C_CFFF;

/// ESR bit 5: a vector of 0 to 15 was sent.
pub(crate) const ESR_SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
/// ESR bit 6: a vector of 0 to 15 was received, from the bus or from an LVT entry.
pub(crate) const ESR_RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;
/// ESR bit 7: a reserved register was accessed.
pub(crate) const ESR_ILLEGAL_REGISTER: u32 = 1 << 7;
