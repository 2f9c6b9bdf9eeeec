//! The device by which kernel test suites test a PC's interrupt controllers and port and memory
//! accesses: what QEMU calls `pc-testdev` (hw/misc/pc-testdev.c), as kvm-unit-tests use it.
//!
//! | where | what |
//! |---|---|
//! | ports 2000h to 2017h | a byte sets the line of interrupt 0 to 23: to zero, or to anything else |
//! | ports E0h to E3h | keep what is written, in any width |
//! | ports E4h to E7h | a page of memory is to be flushed; nothing here keeps one |
//! | ports E8h to EBh | the same 32 bits as at E0h |
//! | FF00_0000h to FF00_FFFFh | memory of a device |

use serde::{Deserialize, Serialize};

/// Port of line 0.
pub(super) const LINES: u16 = 0x2000;
/// Port of the last line.
pub(super) const LAST_LINE: u16 = 0x2017;
/// Ports that keep what is written to them.
pub(super) const ECHO: u16 = 0xE0;
/// The same again.
pub(super) const ECHO_BYTES: u16 = 0xE8;
/// Where its memory is.
pub(super) const MEMORY: u64 = 0xFF00_0000;
/// Bytes of its memory.
pub(super) const MEMORY_SIZE: u64 = 0x1_0000;

/// What the device keeps; all zero at power-up, and untouched by a reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TestDevice {
    echo: [u8; 4],
    memory: Vec<u8>,
}

impl TestDevice {
    pub(super) fn new() -> Self {
        Self { echo: [0; 4], memory: vec![0; MEMORY_SIZE as usize] }
    }

    /// Whether `port` keeps what is written to it.
    pub(super) fn echoes(port: u16) -> bool {
        matches!(port & !3, ECHO | ECHO_BYTES)
    }

    /// The byte at a port that [`Self::echoes`].
    pub(super) fn echo(&mut self, port: u16) -> &mut u8 {
        &mut self.echo[usize::from(port & 3)]
    }

    /// Whether `other` has as much memory.
    pub(super) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        self.memory.len() == other.memory.len()
    }

    /// Where in its memory `gpa` is.
    pub(super) fn offset(gpa: u64) -> Option<usize> {
        gpa.checked_sub(MEMORY).filter(|&offset| offset < MEMORY_SIZE).map(|offset| offset as usize)
    }

    /// Reads `size` bytes of its memory; zeros behind the end.
    pub(super) fn load(&self, offset: usize, size: u8) -> u64 {
        let bytes = self.memory.iter().skip(offset).take(size.into());
        bytes.rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// Writes `size` bytes of its memory; what is behind the end is lost.
    pub(super) fn store(&mut self, offset: usize, size: u8, value: u64) {
        let bytes = self.memory.iter_mut().skip(offset).take(size.into());
        for (byte, new) in bytes.zip(value.to_le_bytes()) {
            *byte = new;
        }
    }
}
