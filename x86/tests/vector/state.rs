//! The registers that instructions of the vector unit reach, the memory that they are given, and how one
//! can end.

/// Where the memory begins that operands are in, linear and physical.
pub(crate) const ARENA: u64 = 0x4_0000;
/// Its pages.
pub(crate) const PAGES: u64 = 8;
pub(crate) const PAGE: u64 = 0x1000;

/// What may be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Writable,
    ReadOnly,
    Absent,
}

/// What may be done with the page of the arena that holds a linear address.
pub(crate) fn access(address: u64) -> Access {
    match address.wrapping_sub(ARENA) / PAGE {
        3 => Access::ReadOnly,
        5 => Access::Absent,
        _ => Access::Writable,
    }
}

/// Why an instruction did not retire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) vector: u8,
    pub(crate) code: Option<u16>,
    /// The page of the address in CR2.
    pub(crate) page: Option<u64>,
}

pub(crate) const UD: Fault = Fault { vector: 6, code: None, page: None };
pub(crate) const NM: Fault = Fault { vector: 7, code: None, page: None };
pub(crate) const SS0: Fault = Fault { vector: 12, code: Some(0), page: None };
pub(crate) const GP0: Fault = Fault { vector: 13, code: Some(0), page: None };

/// The registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) zmm: [[u8; 64]; 32],
    pub(crate) k: [u16; 8],
    pub(crate) vxcsr: u32,
    pub(crate) gpr: [u64; 16],
    /// Bases of FS and GS.
    pub(crate) bases: [u64; 2],
    pub(crate) rflags: u64,
    pub(crate) rip: u64,
    /// CR0.TS
    pub(crate) task_switched: bool,
}

impl Registers {
    /// Lane `n` of a vector whose lanes have `size` bytes.
    pub(crate) fn lane(&self, register: u8, size: usize, n: usize) -> u64 {
        load(&self.zmm[usize::from(register)], size, n * size)
    }

    pub(crate) fn set_lane(&mut self, register: u8, size: usize, n: usize, value: u64) {
        let bytes = &mut self.zmm[usize::from(register)][n * size..(n + 1) * size];
        bytes.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// `size` bytes at a place, the lowest first.
pub(crate) fn load(bytes: &[u8], size: usize, at: usize) -> u64 {
    let mut value = [0; 8];
    value[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(value)
}

/// The memory that operands are in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Arena {
    pub(crate) bytes: Vec<u8>,
    /// Addresses that were written since this was last cleared, and sizes.
    pub(crate) written: Vec<(u64, usize)>,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; (PAGES * PAGE) as usize], written: Vec::new() }
    }

    fn page_fault(address: u64, code: u16) -> Fault {
        Fault { vector: 14, code: Some(code), page: Some(address & !(PAGE - 1)) }
    }

    /// Faults as an access to the byte does.
    pub(crate) fn probe(address: u64, write: bool) -> Result<(), Fault> {
        match (access(address), write) {
            (Access::Absent, _) => Err(Self::page_fault(address, if write { 2 } else { 0 })),
            (Access::ReadOnly, true) => Err(Self::page_fault(address, 3)),
            _ => Ok(()),
        }
    }

    /// Reads without a look at the pages' rights.
    pub(crate) fn read(&self, address: u64, size: usize) -> u64 {
        load(&self.bytes, size, (address - ARENA) as usize)
    }

    /// Writes without a look at the pages' rights.
    pub(crate) fn write(&mut self, address: u64, size: usize, value: u64) {
        let at = (address - ARENA) as usize;
        self.bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        self.written.push((address, size));
    }
}
