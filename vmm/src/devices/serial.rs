//! The first serial port: a 16550A UART (National Semiconductor PC16550D datasheet) at 3F8h, IRQ4.
//!
//! A transmitted byte leaves at once and a received one arrives at once; neither takes virtual time.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Bytes in the receive FIFO.
const FIFO_SIZE: usize = 16;
/// Receive FIFO trigger levels, FCR bits 7:6.
const TRIGGER: [usize; 4] = [1, 4, 8, 14];

const IER_RECEIVED: u8 = 1 << 0;
const IER_TRANSMITTER_EMPTY: u8 = 1 << 1;
const IER_LINE_STATUS: u8 = 1 << 2;
const IER_MODEM_STATUS: u8 = 1 << 3;

const IIR_NONE: u8 = 0x01;
const IIR_MODEM_STATUS: u8 = 0x00;
const IIR_TRANSMITTER_EMPTY: u8 = 0x02;
const IIR_RECEIVED: u8 = 0x04;
const IIR_LINE_STATUS: u8 = 0x06;
const IIR_TIMEOUT: u8 = 0x0C;
const IIR_FIFO_ENABLED: u8 = 0xC0;

const LCR_DIVISOR_LATCH: u8 = 1 << 7;

const MCR_OUT2: u8 = 1 << 3;
const MCR_LOOPBACK: u8 = 1 << 4;

const LSR_DATA_READY: u8 = 1 << 0;
const LSR_OVERRUN: u8 = 1 << 1;
/// Transmitter holding register empty, and transmitter empty: always.
const LSR_TRANSMITTER_EMPTY: u8 = 0x60;

/// CTS, DSR and DCD: a terminal that is always there.
const MSR_CONNECTED: u8 = 0xB0;

/// The UART.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serial {
    ier: u8,
    /// FCR bits 7:6 and 0.
    fcr: u8,
    lcr: u8,
    mcr: u8,
    /// MSR bits 3:0, the changes since it was read.
    msr_delta: u8,
    scratch: u8,
    divisor: u16,
    overrun: bool,
    /// The transmitter-empty interrupt is waiting.
    transmitter_empty: bool,
    received: VecDeque<u8>,
    output: Vec<u8>,
}

impl Default for Serial {
    fn default() -> Self {
        Self::new()
    }
}

impl Serial {
    /// As master reset leaves it, with the divisor of 9600 baud.
    pub fn new() -> Self {
        Self {
            ier: 0,
            fcr: 0,
            lcr: 0,
            mcr: 0,
            msr_delta: 0,
            scratch: 0,
            divisor: 12,
            overrun: false,
            transmitter_empty: false,
            received: VecDeque::new(),
            output: Vec::new(),
        }
    }

    /// Master reset. What has been transmitted stays with the owner's [`Self::take_output`].
    pub fn reset(&mut self) {
        let output = std::mem::take(&mut self.output);
        *self = Self { output, ..Self::new() };
    }

    /// Whether there is anything to take.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// The bytes transmitted since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// How many bytes the receiver takes before it would overrun. None in loopback.
    pub fn input_room(&self) -> usize {
        if self.mcr & MCR_LOOPBACK != 0 {
            return 0;
        }
        self.capacity().saturating_sub(self.received.len())
    }

    /// Receives as much of `bytes` as there is room for; how many.
    pub fn push_input(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.input_room());
        self.received.extend(&bytes[..count]);
        count
    }

    fn fifo_enabled(&self) -> bool {
        self.fcr & 1 != 0
    }

    fn capacity(&self) -> usize {
        if self.fifo_enabled() { FIFO_SIZE } else { 1 }
    }

    fn divisor_latch(&self) -> bool {
        self.lcr & LCR_DIVISOR_LATCH != 0
    }

    /// Reads register `index`, 0 to 7.
    pub fn read(&mut self, index: u16) -> u8 {
        match index {
            0 if self.divisor_latch() => self.divisor as u8,
            0 => self.received.pop_front().unwrap_or(0),
            1 if self.divisor_latch() => (self.divisor >> 8) as u8,
            1 => self.ier,
            2 => self.read_iir(),
            3 => self.lcr,
            4 => self.mcr,
            5 => self.read_lsr(),
            6 => self.read_msr(),
            7 => self.scratch,
            _ => 0xFF,
        }
    }

    /// Writes register `index`. LSR and MSR are read-only.
    pub fn write(&mut self, index: u16, value: u8) {
        match index {
            0 if self.divisor_latch() => self.divisor = self.divisor & 0xFF00 | u16::from(value),
            0 => self.transmit(value),
            1 if self.divisor_latch() => {
                self.divisor = self.divisor & 0x00FF | u16::from(value) << 8;
            }
            1 => self.write_ier(value & 0xF),
            2 => self.write_fcr(value),
            3 => self.lcr = value,
            4 => self.write_mcr(value & 0x1F),
            7 => self.scratch = value,
            _ => {}
        }
    }

    /// The holding register is empty again as soon as it is written.
    fn transmit(&mut self, value: u8) {
        if self.mcr & MCR_LOOPBACK == 0 {
            self.output.push(value);
        } else if self.received.len() < self.capacity() {
            self.received.push_back(value);
        } else {
            self.overrun = true;
            // Without the FIFO the new byte takes the place of the old one; with it, it is lost.
            if !self.fifo_enabled() {
                self.received.clear();
                self.received.push_back(value);
            }
        }
        self.transmitter_empty = true;
    }

    /// Enabling the transmitter-empty interrupt while the transmitter is empty raises it.
    fn write_ier(&mut self, value: u8) {
        if value & !self.ier & IER_TRANSMITTER_EMPTY != 0 {
            self.transmitter_empty = true;
        }
        self.ier = value;
    }

    /// FCR bit 1 empties the receive FIFO, and so does switching the FIFOs on or off.
    fn write_fcr(&mut self, value: u8) {
        if value & 1 << 1 != 0 || (value ^ self.fcr) & 1 != 0 {
            self.received.clear();
        }
        self.fcr = if value & 1 != 0 { value & 0xC1 } else { 0 };
    }

    fn write_mcr(&mut self, value: u8) {
        let before = self.modem_lines();
        self.mcr = value;
        let after = self.modem_lines();
        let changed = before ^ after;
        // Delta CTS, delta DSR and delta DCD on any change; RI (bit 6) on its trailing edge only.
        self.msr_delta |= changed >> 4 & 0b1011 | (before & !after) >> 4 & 0b0100;
    }

    /// MSR bits 7:4. In loopback they are MCR's OUT2, OUT1, DTR and RTS, as DCD, RI, DSR and CTS.
    fn modem_lines(&self) -> u8 {
        if self.mcr & MCR_LOOPBACK == 0 {
            return MSR_CONNECTED;
        }
        (self.mcr & 0b1100) << 4 | (self.mcr & 1) << 5 | (self.mcr & 2) << 3
    }

    fn read_msr(&mut self) -> u8 {
        self.modem_lines() | std::mem::take(&mut self.msr_delta)
    }

    fn read_lsr(&mut self) -> u8 {
        let overrun = if std::mem::take(&mut self.overrun) { LSR_OVERRUN } else { 0 };
        let ready = if self.received.is_empty() { 0 } else { LSR_DATA_READY };
        LSR_TRANSMITTER_EMPTY | overrun | ready
    }

    /// The interrupt of the highest priority that is enabled and waiting. Bytes below the trigger
    /// level time out at once, since no virtual time passes while more could come.
    fn interrupt(&self) -> u8 {
        let trigger =
            if self.fifo_enabled() { TRIGGER[usize::from(self.fcr >> 6)] } else { TRIGGER[0] };
        if self.ier & IER_LINE_STATUS != 0 && self.overrun {
            IIR_LINE_STATUS
        } else if self.ier & IER_RECEIVED != 0 && self.received.len() >= trigger {
            IIR_RECEIVED
        } else if self.ier & IER_RECEIVED != 0 && !self.received.is_empty() {
            IIR_TIMEOUT
        } else if self.ier & IER_TRANSMITTER_EMPTY != 0 && self.transmitter_empty {
            IIR_TRANSMITTER_EMPTY
        } else if self.ier & IER_MODEM_STATUS != 0 && self.msr_delta != 0 {
            IIR_MODEM_STATUS
        } else {
            IIR_NONE
        }
    }

    /// Reading IIR ends a transmitter-empty interrupt, if that is what it shows.
    fn read_iir(&mut self) -> u8 {
        let interrupt = self.interrupt();
        if interrupt == IIR_TRANSMITTER_EMPTY {
            self.transmitter_empty = false;
        }
        interrupt | if self.fifo_enabled() { IIR_FIFO_ENABLED } else { 0 }
    }

    /// The interrupt line of the ISA bus. OUT2 gates it on a PC; loopback turns OUT2 off.
    pub fn irq(&self) -> bool {
        self.mcr & (MCR_OUT2 | MCR_LOOPBACK) == MCR_OUT2 && self.interrupt() != IIR_NONE
    }
}
