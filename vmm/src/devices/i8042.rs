//! The keyboard controller (Intel 8042 with the IBM PS/2 program) at ports 60h and 64h, with nothing
//! plugged in.
//!
//! The controller itself answers in full: self test, command byte, output port, reset pulse. The
//! keyboard port reports a time-out for whatever is sent to it, and the auxiliary port fails its
//! tests, so that a driver's probe ends at once instead of waiting.

use serde::{Deserialize, Serialize};

/// Status register: output buffer full, system flag (self test passed), last write was a command,
/// not inhibited, time-out.
const OUTPUT_FULL: u8 = 1 << 0;
const SYSTEM_FLAG: u8 = 1 << 2;
const COMMAND_WRITTEN: u8 = 1 << 3;
const NOT_INHIBITED: u8 = 1 << 4;
const TIME_OUT: u8 = 1 << 6;

/// Command byte: keyboard interrupt enable, keyboard disabled.
const KEYBOARD_INTERRUPT: u8 = 1 << 0;
const KEYBOARD_DISABLED: u8 = 1 << 4;

/// Output port: bit 0 is the processor's reset line (active low), bit 1 gates A20, bits 7:6 are the
/// idle keyboard lines.
const OUTPUT_PORT: u8 = 0xC3;

/// What the controller puts in the buffer when a keyboard does not answer.
const RESEND: u8 = 0xFE;

/// What a write asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyboardRequest {
    /// The reset line was pulsed.
    Reset,
}

/// The controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct I8042 {
    /// 20h bytes of controller memory, the first of which is the command byte.
    ram: [u8; 32],
    status: u8,
    output: u8,
    /// The command whose data byte is the next write to port 60h.
    awaiting: Option<u8>,
}

impl Default for I8042 {
    fn default() -> Self {
        Self::new()
    }
}

impl I8042 {
    /// As the BIOS leaves it: tested, keyboard disabled, no interrupts.
    pub fn new() -> Self {
        let mut ram = [0; 32];
        ram[0] = KEYBOARD_DISABLED | SYSTEM_FLAG;
        Self { ram, status: SYSTEM_FLAG | NOT_INHIBITED, output: 0, awaiting: None }
    }

    /// Port 64h: the status register.
    pub fn read_status(&self) -> u8 {
        self.status
    }

    /// Port 60h: takes the byte out of the output buffer.
    pub fn read_data(&mut self) -> u8 {
        self.status &= !(OUTPUT_FULL | TIME_OUT);
        self.output
    }

    /// IRQ1: a byte of the keyboard waits and the command byte enables its interrupt.
    pub fn irq(&self) -> bool {
        self.status & OUTPUT_FULL != 0 && self.ram[0] & KEYBOARD_INTERRUPT != 0
    }

    /// Port 64h: a controller command. Commands that only touch what is not plugged in do nothing.
    pub fn write_command(&mut self, command: u8) -> Option<KeyboardRequest> {
        self.status |= COMMAND_WRITTEN;
        self.awaiting = None;
        match command {
            0x20..=0x3F => self.answer(self.ram[usize::from(command & 0x1F)]),
            0x60..=0x7F | 0xD1..=0xD4 => self.awaiting = Some(command),
            // Auxiliary port test: its clock line is stuck low.
            0xA9 => self.answer(0x01),
            // Self test: passed.
            0xAA => self.answer(0x55),
            // Keyboard port test: no error.
            0xAB => self.answer(0x00),
            0xAD => self.ram[0] |= KEYBOARD_DISABLED,
            0xAE => self.ram[0] &= !KEYBOARD_DISABLED,
            // Input port: not locked.
            0xC0 => self.answer(0x80),
            0xD0 => self.answer(OUTPUT_PORT),
            // Pulses the output port lines whose bits are clear; bit 0 is the reset line.
            0xF0..=0xFF if command & 1 == 0 => return Some(KeyboardRequest::Reset),
            _ => {}
        }
        None
    }

    /// Port 60h: data for a command, or for the keyboard.
    pub fn write_data(&mut self, value: u8) -> Option<KeyboardRequest> {
        self.status &= !COMMAND_WRITTEN;
        match self.awaiting.take() {
            Some(command @ 0x60..=0x7F) => {
                self.ram[usize::from(command & 0x1F)] = value;
                if command == 0x60 {
                    self.status = self.status & !SYSTEM_FLAG | value & SYSTEM_FLAG;
                }
            }
            // Output port: bit 0 clear holds the processor in reset. A20 is always open.
            Some(0xD1) if value & 1 == 0 => return Some(KeyboardRequest::Reset),
            Some(0xD1) => {}
            // The byte comes back, from the keyboard (D2h). The auxiliary loop (D3h) echoes without
            // the auxiliary flag, by which a driver sees that there is no such port.
            Some(0xD2 | 0xD3) => self.answer(value),
            // Data for the auxiliary device or the keyboard, neither of which is there.
            _ => {
                self.answer(RESEND);
                self.status |= TIME_OUT;
            }
        }
        None
    }

    fn answer(&mut self, value: u8) {
        self.output = value;
        self.status |= OUTPUT_FULL;
    }
}
