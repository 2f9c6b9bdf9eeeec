//! What a processor did last that tells why a guest came to where it is: the exceptions that it raised,
//! and CPUID. Nothing in here changes what is executed.

use crate::{
    cpu::Cpu,
    insn::seg,
    mode::CodeSize,
    ram::{PAGE, Ram},
    stop::{Exception, vector},
};

/// How many exceptions are kept.
pub const EXCEPTIONS: usize = 16;
/// Most bytes of an instruction.
const LONGEST: usize = 15;

/// RDMSR or WRMSR that raised #GP for the register or its value, and not for the privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RefusedMsr {
    /// ECX.
    pub index: u32,
    /// What WRMSR was to write, EDX:EAX; `None` of RDMSR.
    pub written: Option<u64>,
}

/// What became of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Delivery {
    /// Its handler was entered.
    Delivered,
    /// On the way there this one was raised, and CR2 then was.
    Raised(Exception, u64),
    /// Nobody saw it: another engine delivers it, if it does.
    Unseen,
}

/// An exception, when it was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Raised {
    /// Vector and error code.
    pub exception: Exception,
    /// CR2, of #PF.
    pub cr2: Option<u64>,
    /// Selector in CS and RIP, as a handler's frame has them: those of the instruction that faulted, or
    /// of the next one behind a trap. `None` if it is not known.
    pub at: Option<(u16, u64)>,
    /// Privilege level.
    pub cpl: u8,
    /// Code size.
    pub code: CodeSize,
    /// The register whose access raised it, of #GP.
    pub msr: Option<RefusedMsr>,
    /// What was at CS:RIP, of #UD; as many bytes as lie in the page.
    pub bytes: [u8; LONGEST],
    /// How many these are.
    pub bytes_len: u8,
    /// What became of it.
    pub delivery: Delivery,
}

/// The last CPUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cpuid {
    /// EAX.
    pub function: u32,
    /// Instructions that had retired before it, since power-on.
    pub retired: u64,
}

/// What a processor did last. Survives reset and INIT, since it is the run's and not the processor's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct History {
    /// A ring, the oldest at `next` once it is full.
    raised: Vec<Raised>,
    next: usize,
    /// RDMSR or WRMSR that is about to raise #GP.
    refused: Option<RefusedMsr>,
    /// The last CPUID.
    pub cpuid: Option<Cpuid>,
}

impl History {
    /// The last exceptions, the oldest first; at most [`EXCEPTIONS`].
    pub fn exceptions(&self) -> impl Iterator<Item = &Raised> {
        let (newer, older) = self.raised.split_at(self.next.min(self.raised.len()));
        older.iter().chain(newer)
    }

    /// Adds an exception.
    pub(crate) fn push(&mut self, raised: Raised) {
        match self.raised.get_mut(self.next) {
            Some(oldest) => *oldest = raised,
            None => self.raised.push(raised),
        }
        self.next = (self.next + 1) % EXCEPTIONS;
    }

    /// RDMSR or WRMSR raises #GP next.
    pub(crate) fn refuse(&mut self, index: u32, written: Option<u64>) {
        self.refused = Some(RefusedMsr { index, written });
    }

    /// Another engine raises #GP for RDMSR or WRMSR, which are executed at CPL 0 alone; where, it does not
    /// say.
    pub fn refused_elsewhere(&mut self, index: u32, written: Option<u64>) {
        self.push(Raised {
            exception: Exception { vector: vector::GP, code: Some(0) },
            cr2: None,
            at: None,
            cpl: 0,
            code: CodeSize::Bits32,
            msr: Some(RefusedMsr { index, written }),
            bytes: [0; LONGEST],
            bytes_len: 0,
            delivery: Delivery::Unseen,
        });
    }
}

impl Cpu {
    /// An exception that is raised now.
    pub(crate) fn raised(&mut self, ram: &Ram, exception: Exception) -> Raised {
        let refused = self.history.refused.take();
        let (bytes, bytes_len) = match exception.vector {
            vector::UD => self.code_bytes(ram),
            _ => ([0; LONGEST], 0),
        };
        Raised {
            exception,
            cr2: (exception.vector == vector::PF).then_some(self.cr2),
            at: Some((self.segment(seg::CS).selector, self.rip)),
            cpl: self.cpl(),
            code: self.code_size(),
            msr: refused.filter(|_| exception.vector == vector::GP),
            bytes,
            bytes_len,
            delivery: Delivery::Delivered,
        }
    }

    /// The bytes at CS:RIP that an instruction may have, and how many they are: those in RAM, up to the
    /// end of the page or beyond it if the next page is there too. RIP must be right, so not while a
    /// block runs.
    #[must_use]
    pub fn code_bytes(&self, ram: &Ram) -> ([u8; LONGEST], u8) {
        let mut bytes = [0; LONGEST];
        let linear = self.linear_rip();
        let first = (PAGE - linear % PAGE).min(LONGEST as u64) as usize;
        let read = |linear: u64, out: &mut [u8]| {
            self.look_up(ram, linear).is_some_and(|walk| ram.read_bytes(walk.physical, out))
        };
        let (here, beyond) = bytes.split_at_mut(first);
        let mut len = 0;
        if read(linear, here) {
            len = first;
            if read(linear.wrapping_add(first as u64), beyond) {
                len = LONGEST;
            }
        }
        (bytes, len as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty exceptions with their number as vector: those from 4 on are left.
    #[test]
    fn the_last_sixteen_are_kept_in_order() {
        let mut history = History::default();
        let vectors = |history: &History| {
            history.exceptions().map(|raised| raised.exception.vector).collect::<Vec<_>>()
        };
        let mut expected = Vec::new();
        for vector in 0..20 {
            assert_eq!(vectors(&history), expected);
            history.refused_elsewhere(0, None);
            let last = (history.next + EXCEPTIONS - 1) % EXCEPTIONS;
            history.raised[last].exception.vector = vector;
            expected.push(vector);
            if expected.len() > 16 {
                expected.remove(0);
            }
        }
        assert_eq!(vectors(&history), (4..20).collect::<Vec<_>>());
    }
}
