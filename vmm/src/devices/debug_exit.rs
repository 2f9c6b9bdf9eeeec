//! Ports by which a guest tells its owner something: the exit port F4h and the POST code port 80h.

use serde::{Deserialize, Serialize};

/// The debug exit port, four bytes wide.
pub const DEBUG_EXIT: u16 = 0xF4;
/// The power-on self test code, which operating systems write for a short delay.
pub const POST_CODE: u16 = 0x80;

/// What a guest writes to [`POST_CODE`], four bytes at once, where it wants to be put aside: "snap" in ASCII. Delays
/// are a byte wide.
pub const MARKER: u32 = u32::from_le_bytes(*b"snap");

/// The exit status for `value` written to the debug exit port: `value * 2 + 1`, so that it is never
/// that of success. 32 bits; the top bit of the value is lost.
pub fn exit_status(value: u32) -> u32 {
    value << 1 | 1
}

/// Remembers the last POST code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostCode {
    /// The byte last written to port 80h; zero after reset.
    pub last: u8,
}
