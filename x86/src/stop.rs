//! Why execution does not go on with the next instruction of the block: exceptions, HLT, and the need
//! to execute an instruction again.

use std::num::NonZeroU64;

/// Result of a step of execution. `Exec<()>` is one machine word: zero is `Ok`.
pub type Exec<T> = Result<T, Stop>;

/// Exception vectors (AMD64 Architecture Programmer's Manual, volume 2, table 8-1).
pub mod vector {
    #![allow(missing_docs, reason = "the mnemonics of the manual")]
    pub const DE: u8 = 0;
    pub const DB: u8 = 1;
    pub const NMI: u8 = 2;
    pub const BP: u8 = 3;
    pub const OF: u8 = 4;
    pub const BR: u8 = 5;
    pub const UD: u8 = 6;
    pub const NM: u8 = 7;
    pub const DF: u8 = 8;
    pub const TS: u8 = 10;
    pub const NP: u8 = 11;
    pub const SS: u8 = 12;
    pub const GP: u8 = 13;
    pub const PF: u8 = 14;
    pub const MF: u8 = 16;
    pub const AC: u8 = 17;
    pub const MC: u8 = 18;
    pub const XF: u8 = 19;
}

/// An instruction stopped: with an exception, or because the block cannot go on.
///
/// Packed into one non-zero word so that `Exec<u64>` travels in two registers:
/// bits 7:0 vector, bit 8 has an error code, bits 31:16 the code, bit 32 an exception.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stop(NonZeroU64);

const HAS_ERROR: u64 = 1 << 8;
const ERROR_SHIFT: u32 = 16;
const EXCEPTION: u64 = 1 << 32;
const RESTART: u64 = 1 << 33;
const HALT: u64 = 1 << 34;
const SHUTDOWN: u64 = 1 << 35;
const ALONE: u64 = 1 << 36;
const LEAVE: u64 = 1 << 37;

impl Stop {
    /// The instruction has more to do and will be executed again: a REP string instruction that
    /// stopped between two iterations, or an x87 instruction that waits for an interrupt. It has not
    /// retired.
    pub const RESTART: Self = Self(NonZeroU64::new(RESTART).unwrap());
    /// The instruction is to be executed again as the only one of its block: it accesses a device, which
    /// has to be told the exact time, or a watched page, where all instructions before it must have
    /// retired. It is raised before the access, as a fault would be, and leaves the state unchanged.
    pub(crate) const ALONE: Self = Self(NonZeroU64::new(ALONE).unwrap());
    /// HLT retired: nothing to execute until an interrupt.
    pub const HALT: Self = Self(NonZeroU64::new(HALT).unwrap());
    /// The instruction retired, and the run is to end behind it.
    pub(crate) const LEAVE: Self = Self(NonZeroU64::new(LEAVE).unwrap());
    /// The processor has shut down (triple fault).
    pub const SHUTDOWN: Self = Self(NonZeroU64::new(SHUTDOWN).unwrap());

    const fn new(word: u64) -> Self {
        match NonZeroU64::new(word) {
            Some(word) => Self(word),
            None => Self::RESTART,
        }
    }

    /// An exception without an error code.
    #[must_use]
    pub const fn fault(vector: u8) -> Self {
        Self::new(EXCEPTION | vector as u64)
    }

    /// An exception with an error code.
    #[must_use]
    pub const fn fault_code(vector: u8, code: u16) -> Self {
        Self::new(EXCEPTION | HAS_ERROR | vector as u64 | (code as u64) << ERROR_SHIFT)
    }

    /// #UD, invalid opcode.
    pub const UD: Self = Self::fault(vector::UD);
    /// #NM, device not available.
    pub const NM: Self = Self::fault(vector::NM);
    /// #DE, divide error.
    pub const DE: Self = Self::fault(vector::DE);
    /// #GP(0).
    pub const GP0: Self = Self::fault_code(vector::GP, 0);
    /// #SS(0).
    pub const SS0: Self = Self::fault_code(vector::SS, 0);

    /// #GP with a selector (its RPL bits are dropped) as error code.
    #[must_use]
    pub const fn gp(selector: u16) -> Self {
        Self::fault_code(vector::GP, selector & 0xfffc)
    }

    /// Vector and error code, if this is an exception.
    #[must_use]
    pub fn exception(self) -> Option<Exception> {
        let word = self.0.get();
        (word & EXCEPTION != 0).then(|| Exception {
            vector: word as u8,
            code: (word & HAS_ERROR != 0).then_some((word >> ERROR_SHIFT) as u16),
        })
    }
}

/// Whether the run is to end at the next instruction boundary. It is of the shape of a handler's answer,
/// so that the run loop looks at both at once.
#[derive(Clone, Copy, Default)]
pub(crate) struct Leave(u64);

impl Leave {
    const END: u64 = 1;
    const LOOK: u64 = 2;

    /// Ends the run at the next instruction boundary.
    #[inline(always)]
    pub(crate) fn ask(&mut self) {
        self.0 |= Self::END;
    }

    /// Has the owner look there ([`crate::bus::Bus::look`]), for whom the run need not end.
    #[inline(always)]
    pub(crate) fn ask_for_a_look(&mut self) {
        self.0 |= Self::LOOK;
    }

    /// Whether nothing but a look is asked for.
    pub(crate) fn is_a_look(self) -> bool {
        self.0 == Self::LOOK
    }

    #[inline(always)]
    pub(crate) fn is_asked(self) -> bool {
        self.0 != 0
    }

    /// Whether the next instruction of the block follows one with the result `done`.
    #[inline(always)]
    pub(crate) fn goes_on_after(self, done: Exec<()>) -> bool {
        let stop = match done {
            Ok(()) => 0,
            Err(stop) => stop.0.get(),
        };
        stop | self.0 == 0
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.exception(), *self) {
            (Some(e), _) => write!(f, "{e:?}"),
            (None, Self::HALT) => write!(f, "Halt"),
            (None, Self::SHUTDOWN) => write!(f, "Shutdown"),
            (None, Self::ALONE) => write!(f, "Alone"),
            (None, Self::LEAVE) => write!(f, "Leave"),
            _ => write!(f, "Restart"),
        }
    }
}

/// An exception: vector and, for those that push one, the error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Exception {
    /// 0-31.
    pub vector: u8,
    /// Error code to push.
    pub code: Option<u16>,
}
