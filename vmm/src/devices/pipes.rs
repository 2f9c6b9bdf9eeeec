//! Standard input, output and error of a command in the guest, and the files that it leaves, as pipes of
//! bytes behind ports: `vpmu exec` has them, no other machine. Programs of the guest (`boot/relay.rs`) carry
//! the bytes from and to the command.
//!
//! | port | IN | OUT |
//! |---|---|---|
//! | 2100h | the next bytes of the answer, 1, 2 or 4 | |
//! | 2104h | bytes that the answer still has; FFFF_FFFFh: none has come | asks for input |
//! | 2108h | | bytes of standard output, 1, 2 or 4 |
//! | 210Ch | | bytes of standard error, 1, 2 or 4 |
//! | 2110h | | bytes of a file, 1, 2 or 4 |
//! | 2114h | | the end of that file; 0: it could not be read |
//!
//! Input comes when it is asked for, as an answer of up to 64 KiB; an answer without bytes is the end.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// First port.
pub const FIRST: u16 = 0x2100;
/// Ports of all registers.
pub const PORTS: u16 = 0x18;
/// Where the bytes of an answer are read.
pub const INPUT: u16 = FIRST;
/// Where input is asked for, and the size of the answer is read.
pub const CONTROL: u16 = FIRST + 4;
/// Where standard output is written.
pub const OUTPUT: u16 = FIRST + 8;
/// Where standard error is written.
pub const ERROR: u16 = FIRST + 12;
/// Where a file is written.
pub const FILE: u16 = FIRST + 0x10;
/// Where the end of a file is written: whether it is whole.
pub const FILE_END: u16 = FIRST + 0x14;
/// What [`CONTROL`] reads as before the answer is there.
pub const UNANSWERED: u32 = u32::MAX;
/// Bytes of the longest answer.
pub const LONGEST: usize = 64 << 10;

/// The pipes; empty at power-up, and untouched by a reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipes {
    /// Since when input is asked for.
    asked: Option<u64>,
    /// What has not been read of the last answer.
    answer: VecDeque<u8>,
    output: Vec<u8>,
    error: Vec<u8>,
    files: Vec<Part>,
}

/// A piece of what the guest writes of its files, one file behind the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// More of the file.
    Bytes(Vec<u8>),
    /// There is no more of it.
    End {
        /// All of it was read.
        whole: bool,
    },
}

impl Pipes {
    /// Whether `port` is one of its registers.
    pub(super) fn claims(port: u16) -> bool {
        (FIRST..FIRST + PORTS).contains(&port)
    }

    /// IN of `size` bytes. What there is nothing for reads as zero.
    pub(super) fn read(&mut self, port: u16, size: u8) -> u32 {
        match port {
            INPUT => {
                let size = self.answer.len().min(size.into());
                let bytes = self.answer.drain(..size);
                bytes.rev().fold(0, |value, byte| value << 8 | u32::from(byte))
            }
            CONTROL if self.asked.is_some() => UNANSWERED,
            CONTROL => self.answer.len() as u32,
            _ => 0,
        }
    }

    /// OUT of `size` bytes at virtual time `now`. Who asks gives up what is left of the last answer.
    pub(super) fn write(&mut self, port: u16, size: u8, value: u32, now: u64) {
        let bytes = value.to_le_bytes();
        let bytes = &bytes[..bytes.len().min(size.into())];
        match port {
            CONTROL if self.asked.is_none() => {
                self.asked = Some(now);
                self.answer.clear();
            }
            OUTPUT => self.output.extend(bytes),
            ERROR => self.error.extend(bytes),
            FILE => match self.files.last_mut() {
                Some(Part::Bytes(file)) => file.extend(bytes),
                _ => self.files.push(Part::Bytes(bytes.to_vec())),
            },
            FILE_END => self.files.push(Part::End { whole: value != 0 }),
            _ => {}
        }
    }

    /// Since when, in virtual time, the guest waits for input, if it does.
    #[must_use]
    pub fn asked(&self) -> Option<u64> {
        self.asked
    }

    /// Answers: up to [`LONGEST`] bytes, none at the end of the input.
    pub fn answer(&mut self, bytes: Vec<u8>) {
        self.asked = None;
        self.answer = bytes.into();
    }

    /// Whether the guest has written anything that has not been taken.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty() || !self.error.is_empty() || !self.files.is_empty()
    }

    /// What the guest has written since the last call: standard output and standard error.
    pub fn take_output(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.output), std::mem::take(&mut self.error))
    }

    /// What the guest has written of its files since the last call.
    pub fn take_files(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.files)
    }
}
