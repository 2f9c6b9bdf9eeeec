//! The guest program that asks to be put aside right before a command begins: it writes
//! [`MARKER`](crate::devices::debug_exit::MARKER) to port 80h.

use super::static_program::static_program;

/// `ioperm(80h, 4, 1)`, then OUT of four bytes; exit status 0, as there is nothing to do about a kernel that refuses.
#[rustfmt::skip]
const CODE: &[u8] = &[
    0xBF, 0x80, 0x00, 0x00, 0x00, //       mov edi, 80h
    0x6A, 0x04,                   //       push 4
    0x5E,                         //       pop rsi
    0x6A, 0x01,                   //       push 1
    0x5A,                         //       pop rdx
    0xB8, 0xAD, 0x00, 0x00, 0x00, //       mov eax, 173        ; ioperm
    0x0F, 0x05,                   //       syscall
    0x85, 0xC0,                   //       test eax, eax
    0x75, 0x07,                   //       jnz done
    0xB8, b's', b'n', b'a', b'p', //       mov eax, "snap"
    0xE7, 0x80,                   //       out 80h, eax
    0x31, 0xFF,                   // done: xor edi, edi
    0xB8, 0x3C, 0x00, 0x00, 0x00, //       mov eax, 60         ; exit
    0x0F, 0x05,                   //       syscall
];

/// The program as a file.
pub(super) fn executable() -> Vec<u8> {
    static_program(CODE)
}
