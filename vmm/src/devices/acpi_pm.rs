//! ACPI fixed hardware (ACPI specification, "ACPI Hardware Specification"): PM1a event and control
//! blocks, the power-management timer, the SMI command port and the reset register.

use serde::{Deserialize, Serialize};

use super::rate::Rate;

/// PM1a event block: status at +0, enable at +2.
pub const PM1A_EVENT: u16 = 0x600;
/// PM1a control block.
pub const PM1A_CONTROL: u16 = 0x604;
/// Power-management timer.
pub const PM_TIMER: u16 = 0x608;
/// SMI command port.
pub const SMI_COMMAND: u16 = 0xB2;
/// Written to the SMI command port: the operating system takes over, SCI_EN is set.
pub const ACPI_ENABLE: u8 = 0xF1;
/// Written to the SMI command port: SCI_EN is cleared.
pub const ACPI_DISABLE: u8 = 0xF0;
/// The sleep type that `\_S5` gives for soft off.
pub const SLEEP_TYPE_S5: u16 = 5;
/// The reset control register of PC chipsets.
pub const RESET_CONTROL: u16 = 0xCF9;

/// 3.579545 MHz, the NTSC colour subcarrier.
pub(crate) const PM_TIMER_HZ: u64 = 3_579_545;

const TMR_STS: u16 = 1 << 0;
/// TMR, BM, GBL, PWRBTN, SLPBTN, RTC and WAK status: cleared by writing a one.
const STATUS: u16 = 0x8731;
/// TMR, GBL, PWRBTN, SLPBTN and RTC enable.
const ENABLE: u16 = 0x0721;
const SCI_EN: u16 = 1 << 0;
const SLP_EN: u16 = 1 << 13;
/// SCI_EN, BM_RLD and SLP_TYP read as written; GBL_RLS and SLP_EN read as zero.
const CONTROL: u16 = 0x1C03;

/// What a write asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerRequest {
    /// Soft off.
    Off,
    /// Reset.
    Reset,
}

/// Width of the power-management timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimerWidth {
    /// 24 bits, TMR_VAL_EXT clear in the FADT.
    Bits24,
    /// 32 bits, TMR_VAL_EXT set.
    Bits32,
}

/// The fixed hardware registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcpiPm {
    rate: Rate,
    /// Bits of the timer.
    bits: u32,
    status: u16,
    enable: u16,
    control: u16,
    reset_control: u8,
    /// How often the timer's top bit had changed when the status was last brought up to date.
    toggles: u64,
}

impl AcpiPm {
    /// Whether `other` has the same clock, and as many bits.
    pub(super) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        (self.rate, self.bits) == (other.rate, other.bits)
    }

    /// Legacy mode (SCI_EN clear) on a machine of `clock_hz` cycles a second.
    pub fn new(clock_hz: u64, width: TimerWidth) -> Self {
        let bits = match width {
            TimerWidth::Bits24 => 24,
            TimerWidth::Bits32 => 32,
        };
        Self {
            rate: Rate::new(clock_hz, PM_TIMER_HZ),
            bits,
            status: 0,
            enable: 0,
            control: 0,
            reset_control: 0,
            toggles: 0,
        }
    }

    /// Whether `port` is one of the PM1a and timer blocks.
    pub fn claims(port: u16) -> bool {
        (PM1A_EVENT..PM1A_CONTROL + 2).contains(&port) || (PM_TIMER..PM_TIMER + 4).contains(&port)
    }

    /// The timer's count.
    pub fn timer(&self, now: u64) -> u32 {
        (self.rate.ticks(now) & ((1 << self.bits) - 1)) as u32
    }

    /// Reads `size` bytes at `port`, one of those that it claims.
    pub fn read(&mut self, port: u16, size: u8, now: u64) -> u32 {
        self.advance(now);
        let (block, base) = if port >= PM_TIMER {
            (u64::from(self.timer(now)), PM_TIMER)
        } else {
            let block = [self.status, self.enable, self.control];
            (block.iter().rev().fold(0, |sum, &word| sum << 16 | u64::from(word)), PM1A_EVENT)
        };
        let value = block >> (8 * u32::from(port - base));
        (value & ((1 << (u32::from(size.min(4)) * 8)) - 1)) as u32
    }

    /// Writes `size` bytes at `port`. The timer is read-only.
    pub fn write(&mut self, port: u16, size: u8, value: u32, now: u64) -> Option<PowerRequest> {
        self.advance(now);
        let mut request = None;
        for (at, byte) in (port..port.saturating_add(size.into())).zip(value.to_le_bytes()) {
            request = request.or(self.write_byte(at, byte));
        }
        request
    }

    fn write_byte(&mut self, port: u16, value: u8) -> Option<PowerRequest> {
        let shift = u32::from(port & 1) * 8;
        let bits = u16::from(value) << shift;
        let kept = !(0xFF << shift);
        match port & !1 {
            PM1A_EVENT => self.status &= !(bits & STATUS),
            port if port == PM1A_EVENT + 2 => {
                self.enable = (self.enable & kept | bits) & ENABLE;
            }
            PM1A_CONTROL => {
                self.control = (self.control & kept | bits) & CONTROL;
                let off = self.control >> 10 & 7 == SLEEP_TYPE_S5;
                return (bits & SLP_EN != 0 && off).then_some(PowerRequest::Off);
            }
            _ => {}
        }
        None
    }

    /// Writes the SMI command port. The firmware behind it does only the change of mode.
    pub fn write_smi_command(&mut self, value: u8) {
        match value {
            ACPI_ENABLE => self.control |= SCI_EN,
            ACPI_DISABLE => self.control &= !SCI_EN,
            _ => {}
        }
    }

    /// Reads the reset control register.
    pub fn reset_control(&self) -> u8 {
        self.reset_control
    }

    /// Writes the reset control register: bit 2 going from 0 to 1 resets the machine.
    pub fn write_reset_control(&mut self, value: u8) -> Option<PowerRequest> {
        let rising = value & !self.reset_control & 1 << 2 != 0;
        self.reset_control = value & 0b1110;
        rising.then_some(PowerRequest::Reset)
    }

    /// Brings the timer status up to `now`: it is set whenever the timer's top bit changes.
    pub fn advance(&mut self, now: u64) {
        let toggles = self.rate.ticks(now) >> (self.bits - 1);
        if toggles > self.toggles {
            self.toggles = toggles;
            self.status |= TMR_STS;
        }
    }

    /// The system control interrupt: in ACPI mode, an enabled status bit is set.
    pub fn sci(&self) -> bool {
        self.control & SCI_EN != 0 && self.status & self.enable != 0
    }

    /// The next time at which the interrupt may rise.
    pub fn next_deadline(&self) -> Option<u64> {
        let waits = self.enable & TMR_STS != 0 && self.status & TMR_STS == 0;
        waits.then(|| self.rate.cycles((self.toggles + 1) << (self.bits - 1)))
    }
}
