//! The machine's devices as state machines of virtual time: no threads, no host time, no files.

use serde::{Deserialize, Serialize};

use self::acpi_pm::{AcpiPm, PowerRequest, TimerWidth};
use self::debug_exit::PostCode;
use self::ferr::FerrLatch;
use self::fw_cfg::FwCfg;
use self::i8042::I8042;
use self::pci::PciConfig;
use self::pipes::Pipes;
use self::pit::Pit;
use self::rtc::Rtc;
use self::serial::Serial;
use self::test_device::TestDevice;
use crate::irq::lapic::LapicConfig;
use crate::irq::pic::Chip;
use crate::irq::{Interrupts, gsi};

pub mod acpi_pm;
mod calendar;
pub mod debug_exit;
pub mod ferr;
pub mod fw_cfg;
pub mod i8042;
pub mod pci;
pub mod pipes;
pub mod pit;
mod pit_channel;
pub mod rate;
pub mod rtc;
pub mod serial;
mod test_device;

#[cfg(test)]
mod tests;

/// Physical address of the I/O APIC's registers.
pub const IOAPIC_BASE: u64 = 0xFEC0_0000;
/// What each of the APIC register pages covers.
const APIC_PAGE: u64 = 0x1000;

/// System control port A: bit 0 resets the processor, bit 1 opens A20.
const PORT_92: u16 = 0x92;
/// A20 is always open.
const PORT_92_A20: u8 = 1 << 1;
/// First and last port of the first serial port.
const SERIAL_BASE: u16 = 0x3F8;
const SERIAL_END: u16 = 0x3FF;

/// What a machine of this kind is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChipsetConfig {
    /// Cycles a second of virtual time.
    pub clock_hz: u64,
    /// The local APIC of each processor, the bootstrap processor's first.
    pub lapics: Vec<LapicConfig>,
    /// Bytes of memory.
    pub ram_size: u64,
    /// What the real-time clock shows at virtual time zero, in seconds since 1970-01-01 UTC;
    /// [`rtc::DEFAULT_START`] for a fixed day.
    pub start_time: i64,
    /// Width of the power-management timer, as the FADT declares it.
    pub pm_timer_width: TimerWidth,
    /// Whether there is the device that kernel test suites expect.
    pub test_device: bool,
    /// Whether there are the pipes of `vpmu exec`.
    pub pipes: bool,
}

/// Something that the owner of the machine has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChipsetEvent {
    /// Soft off.
    PowerOff,
    /// Reset of the machine, by the keyboard controller, port 92h or CF9h.
    Reset,
    /// The debug exit port was written; this is the exit status.
    DebugExit(u32),
    /// The guest has written the marker that somebody watches for.
    Marker,
}

/// All devices, their interrupt controllers, and the bus that finds them by address.
///
/// Accesses take the virtual time in cycles. It should not run backwards by more than the quantum of
/// a processor; a device that is asked about the past answers as of the latest time it has seen or
/// as of that past, the same way on every run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chipset {
    config: ChipsetConfig,
    /// The interrupt controllers.
    pub irq: Interrupts,
    /// The serial console.
    pub serial: Serial,
    pit: Pit,
    rtc: Rtc,
    i8042: I8042,
    acpi_pm: AcpiPm,
    fw_cfg: FwCfg,
    pci: PciConfig,
    post_code: PostCode,
    ferr: FerrLatch,
    test_device: Option<TestDevice>,
    /// Standard input, output and error of a command in the guest.
    pub pipes: Option<Pipes>,
    events: Vec<ChipsetEvent>,
    /// The host's wish, and nothing that a guest can see.
    #[serde(skip)]
    watches_for_marker: bool,
}

impl Chipset {
    /// The devices after power-up.
    pub fn new(config: ChipsetConfig) -> Self {
        let vcpus = u8::try_from(config.lapics.len()).unwrap_or(u8::MAX);
        Self {
            irq: Interrupts::new(&config.lapics),
            serial: Serial::new(),
            pit: Pit::new(config.clock_hz),
            rtc: Rtc::new(config.clock_hz, config.start_time, config.ram_size, vcpus),
            i8042: I8042::new(),
            acpi_pm: AcpiPm::new(config.clock_hz, config.pm_timer_width),
            fw_cfg: FwCfg::new(config.ram_size, vcpus.into()),
            pci: PciConfig::default(),
            post_code: PostCode::default(),
            ferr: FerrLatch::default(),
            test_device: config.test_device.then(TestDevice::new),
            pipes: config.pipes.then(Pipes::default),
            events: Vec::new(),
            watches_for_marker: false,
            config,
        }
    }

    /// Whether another has the same devices, of as many processors.
    pub(crate) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        self.config == other.config
            && self.irq.is_of_the_kind_of(&other.irq)
            && self.pit.is_of_the_kind_of(&other.pit)
            && self.rtc.is_of_the_kind_of(&other.rtc)
            && self.acpi_pm.is_of_the_kind_of(&other.acpi_pm)
            && match (&self.test_device, &other.test_device) {
                (Some(one), Some(other)) => one.is_of_the_kind_of(other),
                (one, other) => one.is_none() && other.is_none(),
            }
            && self.pipes.is_some() == other.pipes.is_some()
    }

    /// Reset of the machine at virtual time `now`. The real-time clock and its memory live on, and
    /// so does the power-management timer's count.
    pub fn reset(&mut self, now: u64) {
        self.irq.reset();
        self.serial.reset();
        self.pit = Pit::new(self.config.clock_hz);
        self.i8042 = I8042::new();
        self.acpi_pm = AcpiPm::new(self.config.clock_hz, self.config.pm_timer_width);
        self.acpi_pm.advance(now);
        self.fw_cfg.select(0);
        self.pci = PciConfig::default();
        self.post_code = PostCode::default();
        self.ferr = FerrLatch::default();
        self.events.clear();
        self.update_lines(now);
    }

    /// The byte last written to port 80h.
    pub fn post_code(&self) -> u8 {
        self.post_code.last
    }

    /// Whether [`Self::take_events`] has anything to give.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Events since the last call, in order.
    pub fn take_events(&mut self) -> Vec<ChipsetEvent> {
        std::mem::take(&mut self.events)
    }

    /// The first of them.
    pub fn take_event(&mut self) -> Option<ChipsetEvent> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    /// Whether there is an event when the guest writes [`debug_exit::MARKER`].
    pub fn watch_for_marker(&mut self, watch: bool) {
        self.watches_for_marker = watch;
    }

    /// Whether the guest has written anything to the serial port or the pipes that nobody has taken.
    pub fn has_output(&self) -> bool {
        self.serial.has_output() || self.pipes.as_ref().is_some_and(Pipes::has_output)
    }

    /// Since when, in virtual time, the guest waits for input from its pipe, if it does.
    pub fn asked(&self) -> Option<u64> {
        self.pipes.as_ref()?.asked()
    }

    /// Console input; how many bytes were taken.
    pub fn push_input(&mut self, bytes: &[u8]) -> usize {
        let count = self.serial.push_input(bytes);
        self.update_serial_line();
        count
    }

    /// Brings every device and interrupt line up to `now`.
    pub fn advance(&mut self, now: u64) {
        if self.pit.advance(now) {
            self.irq.set_gsi(gsi::PIT, false);
            self.irq.set_gsi(gsi::PIT, true);
        }
        self.rtc.advance(now);
        self.irq.set_gsi(gsi::RTC, self.rtc.irq());
        self.acpi_pm.advance(now);
        self.irq.set_gsi(gsi::SCI, self.acpi_pm.sci());
        self.irq.advance(now);
    }

    /// The next time at which [`Self::advance`] may raise an interrupt.
    pub fn next_deadline(&self) -> Option<u64> {
        let devices =
            [self.pit.next_deadline(), self.rtc.next_deadline(), self.acpi_pm.next_deadline()];
        devices.into_iter().flatten().chain(self.irq.next_deadline()).min()
    }

    fn update_lines(&mut self, now: u64) {
        self.irq.set_gsi(gsi::PIT, self.pit.irq_level(now));
        self.irq.set_gsi(gsi::RTC, self.rtc.irq());
        self.irq.set_gsi(gsi::SCI, self.acpi_pm.sci());
        self.irq.set_gsi(gsi::KEYBOARD, self.i8042.irq());
        self.irq.set_gsi(ferr::GSI, self.ferr.irq());
        self.update_serial_line();
    }

    /// A processor asserts FERR#: IRQ13 until OUT to [`ferr::CLEAR`].
    pub fn assert_ferr(&mut self) {
        self.ferr.assert();
        self.irq.set_gsi(ferr::GSI, self.ferr.irq());
    }

    fn update_serial_line(&mut self) {
        self.irq.set_gsi(gsi::SERIAL, self.serial.irq());
    }

    fn request(&mut self, request: Option<PowerRequest>) {
        match request {
            Some(PowerRequest::Off) => self.events.push(ChipsetEvent::PowerOff),
            Some(PowerRequest::Reset) => self.events.push(ChipsetEvent::Reset),
            None => {}
        }
    }

    /// IN: `size` is 1, 2 or 4 bytes. A port of no device reads as all ones. An access to byte
    /// ports that is wider than a byte becomes as many byte accesses, in ascending order.
    pub fn io_read(&mut self, port: u16, size: u8, now: u64) -> u32 {
        // They have no time and no interrupts, and much goes through them.
        if let Some(pipes) = &mut self.pipes
            && Pipes::claims(port)
        {
            return pipes.read(port, size);
        }
        self.advance(now);
        if port == pci::ADDRESS && size == 4 {
            return self.pci.address();
        }
        if AcpiPm::claims(port) {
            let value = self.acpi_pm.read(port, size, now);
            self.irq.set_gsi(gsi::SCI, self.acpi_pm.sci());
            return value;
        }
        let mut bytes = [0; 4];
        for (at, byte) in (0..size.into()).zip(&mut bytes) {
            *byte = self.read_byte(port.wrapping_add(at), now);
        }
        u32::from_le_bytes(bytes)
    }

    /// OUT: as [`Self::io_read`].
    pub fn io_write(&mut self, port: u16, size: u8, value: u32, now: u64) {
        if let Some(pipes) = &mut self.pipes
            && Pipes::claims(port)
        {
            return pipes.write(port, size, value, now);
        }
        self.advance(now);
        if self.watches_for_marker
            && (port, size, value) == (debug_exit::POST_CODE, 4, debug_exit::MARKER)
        {
            self.events.push(ChipsetEvent::Marker);
        }
        match port {
            pci::ADDRESS if size == 4 => self.pci.set_address(value),
            // Only a whole word selects.
            fw_cfg::SELECTOR if size == 2 => self.fw_cfg.select(value as u16),
            debug_exit::DEBUG_EXIT => {
                let value = value & (u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4))));
                self.events.push(ChipsetEvent::DebugExit(debug_exit::exit_status(value)));
            }
            test_device::LINES..=test_device::LAST_LINE if self.test_device.is_some() => {
                // Nothing wider than a byte is for a line.
                if size == 1 {
                    let line = (port - test_device::LINES) as u8;
                    self.irq.hold_gsi(if line == 0 { gsi::PIT } else { line }, value != 0);
                }
            }
            _ if AcpiPm::claims(port) => {
                let request = self.acpi_pm.write(port, size, value, now);
                self.request(request);
                self.irq.set_gsi(gsi::SCI, self.acpi_pm.sci());
            }
            _ => {
                for (at, byte) in (0..size.into()).zip(value.to_le_bytes()) {
                    self.write_byte(port.wrapping_add(at), byte, now);
                }
            }
        }
    }

    fn read_byte(&mut self, port: u16, now: u64) -> u8 {
        match port {
            0x20 | 0x21 => self.irq.pic_read(Chip::Master, port & 1 != 0),
            0xA0 | 0xA1 => self.irq.pic_read(Chip::Slave, port & 1 != 0),
            0x4D0 => self.irq.elcr(Chip::Master),
            0x4D1 => self.irq.elcr(Chip::Slave),
            0x40..=0x43 => self.pit.read(port & 3, now),
            0x61 => self.pit.read_system_control(now),
            0x60 => {
                let value = self.i8042.read_data();
                self.irq.set_gsi(gsi::KEYBOARD, self.i8042.irq());
                value
            }
            0x64 => self.i8042.read_status(),
            0x71 => {
                let value = self.rtc.read(now);
                self.irq.set_gsi(gsi::RTC, self.rtc.irq());
                value
            }
            debug_exit::POST_CODE => self.post_code.last,
            PORT_92 => PORT_92_A20,
            SERIAL_BASE..=SERIAL_END => {
                let value = self.serial.read(port & 7);
                self.update_serial_line();
                value
            }
            fw_cfg::DATA => self.fw_cfg.read(),
            acpi_pm::RESET_CONTROL => self.acpi_pm.reset_control(),
            _ => match &mut self.test_device {
                Some(device) if TestDevice::echoes(port) => *device.echo(port),
                _ => 0xFF,
            },
        }
    }

    fn write_byte(&mut self, port: u16, value: u8, now: u64) {
        match port {
            0x20 | 0x21 => self.irq.pic_write(Chip::Master, port & 1 != 0, value),
            0xA0 | 0xA1 => self.irq.pic_write(Chip::Slave, port & 1 != 0, value),
            0x4D0 => self.irq.set_elcr(Chip::Master, value),
            0x4D1 => self.irq.set_elcr(Chip::Slave, value),
            0x40..=0x43 => {
                self.pit.write(port & 3, value, now);
                self.irq.set_gsi(gsi::PIT, self.pit.irq_level(now));
            }
            0x61 => self.pit.write_system_control(value, now),
            0x60 | 0x64 => {
                let request = if port == 0x60 {
                    self.i8042.write_data(value)
                } else {
                    self.i8042.write_command(value)
                };
                if request.is_some() {
                    self.events.push(ChipsetEvent::Reset);
                }
                self.irq.set_gsi(gsi::KEYBOARD, self.i8042.irq());
            }
            0x70 => self.rtc.write_index(value),
            0x71 => {
                self.rtc.write(value, now);
                self.irq.set_gsi(gsi::RTC, self.rtc.irq());
            }
            debug_exit::POST_CODE => self.post_code.last = value,
            ferr::CLEAR => {
                self.ferr.clear();
                self.irq.set_gsi(ferr::GSI, self.ferr.irq());
            }
            PORT_92 if value & 1 != 0 => self.events.push(ChipsetEvent::Reset),
            SERIAL_BASE..=SERIAL_END => {
                self.serial.write(port & 7, value);
                self.update_serial_line();
            }
            acpi_pm::SMI_COMMAND => {
                self.acpi_pm.write_smi_command(value);
                self.irq.set_gsi(gsi::SCI, self.acpi_pm.sci());
            }
            acpi_pm::RESET_CONTROL => {
                let request = self.acpi_pm.write_reset_control(value);
                self.request(request);
            }
            _ => {
                if let Some(device) = &mut self.test_device
                    && TestDevice::echoes(port)
                {
                    *device.echo(port) = value;
                }
            }
        }
    }

    /// Whether an access by `vcpu` to guest-physical `gpa` is for a device, even where there is
    /// memory beneath: the local APIC page is wherever its processor has moved it.
    pub fn claims_mmio(&self, vcpu: usize, gpa: u64) -> bool {
        self.irq.lapic(vcpu).page() == Some(gpa & !(APIC_PAGE - 1))
            || gpa & !(APIC_PAGE - 1) == IOAPIC_BASE
    }

    /// A load of `size` bytes (1, 2, 4 or 8) by `vcpu`. Registers are 32 bits wide: a narrower load
    /// gets its part of one, a wider one zeroes above it. An address of no device reads as all ones.
    pub fn mmio_read(&mut self, vcpu: usize, gpa: u64, size: u8, now: u64) -> u64 {
        let mask = u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8)));
        let offset = gpa & (APIC_PAGE - 1);
        let register = if self.irq.lapic(vcpu).page() == Some(gpa - offset) {
            self.irq.lapic_read(vcpu, (offset & !3) as u32, now)
        } else if gpa - offset == IOAPIC_BASE {
            self.irq.ioapic_read(offset & !3)
        } else if let Some(device) = &self.test_device
            && let Some(offset) = TestDevice::offset(gpa)
        {
            return device.load(offset, size);
        } else {
            return mask;
        };
        u64::from(register) >> (8 * (offset & 3)) & mask
    }

    /// A store by `vcpu`. One that is not to an aligned 32-bit register is undefined on hardware and
    /// is taken as a store of the value, zero-extended, to the register that it touches first.
    pub fn mmio_write(&mut self, vcpu: usize, gpa: u64, size: u8, value: u64, now: u64) {
        self.advance(now);
        if let Some(device) = &mut self.test_device
            && let Some(offset) = TestDevice::offset(gpa)
        {
            return device.store(offset, size, value);
        }
        let mask = u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8)));
        let value = (value & mask) as u32;
        let offset = gpa & (APIC_PAGE - 1);
        if self.irq.lapic(vcpu).page() == Some(gpa - offset) {
            self.irq.lapic_write(vcpu, (offset & !3) as u32, value, now);
        } else if gpa - offset == IOAPIC_BASE {
            self.irq.ioapic_write(offset & !3, value);
        }
    }
}
