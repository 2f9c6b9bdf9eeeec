//! Memory of a test machine. The one place with `unsafe`: the allocation is owned beside the `Ram`
//! that points into it and never touched through a reference while the `Ram` lives.

#![allow(unsafe_code)]

use x86_cpu::ram::{Ram, Region};

/// RAM from guest-physical address zero.
pub(crate) struct Memory {
    /// As the processor sees it.
    pub(crate) ram: Ram,
    host: *mut [u8],
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        let host = Box::into_raw(vec![0u8; bytes].into_boxed_slice());
        let region = Region { gpa: 0, len: bytes as u64, host: host.cast::<u8>() };
        // SAFETY: `host` lives until `Memory` is dropped, and only `ram` uses it.
        Self { ram: unsafe { Ram::new(&[region]) }, host }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`, given back once.
        drop(unsafe { Box::from_raw(self.host) });
    }
}
