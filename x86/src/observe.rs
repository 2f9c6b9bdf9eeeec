//! What can be seen of an instruction stream, and the observers that see it.
//!
//! Execution is generic over an [`Observer`]. [`Plain`] sees nothing and costs nothing; [`Counting`]
//! adds up the architectural facts. A block's static facts (instructions and their classes) are
//! added once per block; the rest is reported where it happens.

use crate::{bus::Bus, insn::Class, ram::Ram};

/// What execution reports while it runs.
pub trait Observer {
    /// Whether anything is observed. A constant, so that code behind it vanishes when nothing is.
    const COUNTS: bool;
    /// A control transfer retired.
    fn branch(&mut self, kind: Branch, taken: bool);
    /// A data access crossed an eight-byte boundary.
    fn misaligned(&mut self);
    /// Segment register `seg` (numbers of [`crate::insn::seg`]) was loaded.
    fn seg_load(&mut self, seg: u8);
    /// An access or a fetch matched the address and type of debug register `n`, enabled or not.
    fn debug_match(&mut self, n: usize);
    /// An exception was delivered.
    fn exception(&mut self);
    /// A hardware interrupt was taken, an NMI included.
    fn interrupt(&mut self);
    /// `n` instructions of one class retired.
    fn retired_class(&mut self, class: Class);
    /// The facts so far, for whoever counts them to take out what was counted; `None` if nothing is
    /// observed.
    fn facts(&mut self) -> Option<&mut Facts>;
}

/// Kinds of control transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Near jump, conditional jump, near call, LOOP, JCXZ.
    Near,
    /// Near return.
    Ret,
    /// Far call, jump, return, IRET, SYSCALL, SYSRET, SYSENTER, SYSEXIT, INT n, INT3, INTO.
    Far,
}

/// Counts of architectural facts. Units: occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Retired instructions by class, in the order of the bits of [`Class`].
    pub class: [u64; Class::COUNT],
    /// Branches retired, taken or not.
    pub branches: u64,
    /// Branches taken.
    pub taken: u64,
    /// Near returns.
    pub near_returns: u64,
    /// Far transfers, without exceptions and interrupts.
    pub far: u64,
    /// Data accesses across an eight-byte boundary.
    pub misaligned: u64,
    /// Segment-register loads, in the order ES, CS, SS, DS, FS, GS.
    pub seg_loads: [u64; 6],
    /// Matches of DR0-DR3.
    pub debug_matches: [u64; 4],
    /// Exceptions delivered.
    pub exceptions: u64,
    /// Hardware interrupts taken.
    pub interrupts: u64,
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Observer for Plain {
    const COUNTS: bool = false;
    #[inline(always)]
    fn branch(&mut self, _: Branch, _: bool) {}
    #[inline(always)]
    fn misaligned(&mut self) {}
    #[inline(always)]
    fn seg_load(&mut self, _: u8) {}
    #[inline(always)]
    fn debug_match(&mut self, _: usize) {}
    #[inline(always)]
    fn exception(&mut self) {}
    #[inline(always)]
    fn interrupt(&mut self) {}
    #[inline(always)]
    fn retired_class(&mut self, _: Class) {}
    #[inline(always)]
    fn facts(&mut self) -> Option<&mut Facts> {
        None
    }
}

/// Counts the architectural facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting {
    facts: Facts,
}

impl Observer for Counting {
    const COUNTS: bool = true;
    #[inline(always)]
    fn branch(&mut self, kind: Branch, taken: bool) {
        self.facts.branches += 1;
        self.facts.taken += u64::from(taken);
        match kind {
            Branch::Near => {}
            Branch::Ret => self.facts.near_returns += 1,
            Branch::Far => self.facts.far += 1,
        }
    }
    #[inline(always)]
    fn misaligned(&mut self) {
        self.facts.misaligned += 1;
    }
    fn seg_load(&mut self, seg: u8) {
        if let Some(count) = self.facts.seg_loads.get_mut(usize::from(seg)) {
            *count += 1;
        }
    }
    fn debug_match(&mut self, n: usize) {
        self.facts.debug_matches[n & 3] += 1;
    }
    fn exception(&mut self) {
        self.facts.exceptions += 1;
    }
    fn interrupt(&mut self) {
        self.facts.interrupts += 1;
    }
    #[inline]
    fn retired_class(&mut self, class: Class) {
        let mut bits = class.0;
        while bits != 0 {
            self.facts.class[bits.trailing_zeros() as usize % Class::COUNT] += 1;
            bits &= bits - 1;
        }
    }
    fn facts(&mut self) -> Option<&mut Facts> {
        Some(&mut self.facts)
    }
}

/// What execution needs from outside the processor, lent for the length of a run.
pub struct Cx<'a, O> {
    /// Devices, model-specific registers, CPUID.
    pub bus: &'a mut dyn Bus,
    /// Guest memory.
    pub ram: &'a Ram,
    /// Who watches.
    pub observer: O,
}
