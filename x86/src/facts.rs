//! The architectural facts of an instruction stream, counted.

use crate::class::{Class, ClassCount};
use crate::float_cases::{FloatCases, FloatUnit};

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

/// Which instructions used the registers that x87 and MMX share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FpKind {
    /// An x87 instruction other than FWAIT, a control instruction as well; also the state after
    /// reset.
    #[default]
    X87,
    /// An instruction on MMX registers, EMMS as well.
    Mmx,
}

/// Counts of data accesses. Units: occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Accesses {
    /// Reads.
    pub loads: u64,
    /// Writes.
    pub stores: u64,
    /// Reads and writes that were misaligned.
    pub misaligned: u64,
}

/// Three counts of accesses packed into one word, so that saving them before each instruction is one
/// load. A block adds less to each than half of what its field holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// Three counts of near transfers packed in the same way, so that counting one is one addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers(u64);

/// Place of the loads in a [`Mark`], and of the branches in [`Transfers`]; each field has 21 bits.
const LOADS: u32 = 0;
const BRANCHES: u32 = 0;
const STORES: u32 = 21;
const TAKEN: u32 = 21;
const MISALIGNED: u32 = 42;
const NEAR_RETURNS: u32 = 42;
const FIELD: u64 = (1 << 21) - 1;
/// The top bits of the fields.
const HALF_FULL: u64 = 1 << 20 | 1 << 41 | 1 << 62;
/// In [`Counting::recent`], beside the fields of a [`Mark`]: see [`Counting::take_rare`].
const RARE: u64 = 1 << 63;
/// In what [`Counting::transfers`] is made of: accesses or transfers have been committed to the facts.
const COMMITTED: u64 = 1 << 63;

/// What a step is not to do that is one of many alike ([`crate::timing::Budget::alike`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heeded {
    /// Fields of a [`Mark`].
    accesses: u64,
    /// Fields of [`Transfers`].
    transfers: u64,
}

impl Heeded {
    /// Nothing.
    pub const NOTHING: Self = Self { accesses: 0, transfers: 0 };
    /// Data reads.
    pub const LOADS: Self = Self { accesses: FIELD << LOADS, transfers: 0 };
    /// Data writes.
    pub const STORES: Self = Self { accesses: FIELD << STORES, transfers: 0 };
    /// Misaligned accesses.
    pub const MISALIGNED: Self = Self { accesses: FIELD << MISALIGNED, transfers: 0 };
    /// Near branches, taken or not.
    pub const BRANCHES: Self = Self { accesses: 0, transfers: FIELD << BRANCHES };
    /// Those taken.
    pub const TAKEN: Self = Self { accesses: 0, transfers: FIELD << TAKEN };
    /// Near returns.
    pub const NEAR_RETURNS: Self = Self { accesses: 0, transfers: FIELD << NEAR_RETURNS };

    /// Whether it has nothing in common with another.
    #[must_use]
    pub const fn is_disjoint(self, other: Self) -> bool {
        self.accesses & other.accesses | self.transfers & other.transfers == 0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            accesses: self.accesses | other.accesses,
            transfers: self.transfers | other.transfers,
        }
    }
}

impl Mark {
    fn of(accesses: Accesses) -> Self {
        let Accesses { loads, stores, misaligned } = accesses;
        Self(loads << LOADS | stores << STORES | misaligned << MISALIGNED)
    }

    /// Loads in bits 20:0, stores in bits 41:21, misaligned accesses in bits 62:42; in bit 63, of
    /// [`Counting::recent`], whether [`Counting::take_rare`] would say so.
    #[inline(always)]
    #[must_use]
    pub fn packed(self) -> u64 {
        self.0
    }

    /// The same without bit 63.
    #[must_use]
    pub fn without_rare(self) -> u64 {
        self.0 & !RARE
    }

    /// The mark with this packed value, of which bit 63 counts nothing.
    #[inline(always)]
    #[must_use]
    pub fn of_packed(packed: u64) -> Self {
        Self(packed)
    }

    /// Whether one of the counts is 2^20 or more. [`Counting`] keeps fewer at the end of a block.
    #[inline(always)]
    #[must_use]
    pub fn is_half_full(self) -> bool {
        self.0 & HALF_FULL != 0
    }

    /// What was added since a mark with the packed value `earlier`.
    #[inline]
    #[must_use]
    pub fn since(self, earlier: u64) -> Accesses {
        Self(self.0.wrapping_sub(earlier)).accesses()
    }

    /// The counts one by one.
    #[inline]
    #[must_use]
    pub fn accesses(self) -> Accesses {
        let field = |place: u32| self.0 >> place & FIELD;
        Accesses { loads: field(LOADS), stores: field(STORES), misaligned: field(MISALIGNED) }
    }
}

impl Transfers {
    #[inline(always)]
    const fn one(taken: bool, near_return: bool) -> Self {
        Self(1 << BRANCHES | (taken as u64) << TAKEN | (near_return as u64) << NEAR_RETURNS)
    }

    /// Branches in bits 20:0, taken ones in bits 41:21, near returns in bits 62:42.
    #[inline(always)]
    #[must_use]
    pub fn packed(self) -> u64 {
        self.0
    }

    /// Those with this packed value.
    #[inline(always)]
    #[must_use]
    pub fn of_packed(packed: u64) -> Self {
        Self(packed)
    }

    /// Branches, taken or not.
    #[inline]
    #[must_use]
    pub fn branches(self) -> u64 {
        self.0 >> BRANCHES & FIELD
    }

    /// Branches taken.
    #[inline]
    #[must_use]
    pub fn taken(self) -> u64 {
        self.0 >> TAKEN & FIELD
    }

    /// Near returns.
    #[inline]
    #[must_use]
    pub fn near_returns(self) -> u64 {
        self.0 >> NEAR_RETURNS & FIELD
    }
}

/// Whether a count of either is 2^20 or more. [`Counting`] keeps fewer at the end of a block.
#[inline(always)]
#[must_use]
pub fn are_half_full(accesses: Mark, transfers: Transfers) -> bool {
    (accesses.0 | transfers.0) & HALF_FULL != 0
}

/// Counts of architectural facts. Units: occurrences.
///
/// A data access is one read or one write by an instruction, or by the delivery of an exception or
/// interrupt to its stack frame: an operand of up to 16 bytes, whether or not it crosses a
/// boundary, but for a part that splits what is misaligned into two
/// ([`crate::alignment::AlignmentRule`]); each element of a string, each slot of the stack. A
/// read-modify-write is one load and
/// one store, but one misaligned reference. Operands that are no register's size (x87 extended and
/// decimal numbers, environments, FSAVE and FXSAVE images, pseudo descriptors) move in accesses of
/// eight bytes, the rest in one of four and one of two. Page walks and accesses to descriptor
/// tables, interrupt tables and task-state segments are none.
///
/// The accesses of an instruction that faults do not count, but for the finished iterations of a
/// repeated one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Retired instructions by class, in the order of the bits of [`Class`]; see [`Facts::of_class`].
    pub class: [u64; Class::COUNT],
    /// Branches retired, taken or not.
    pub branches: u64,
    /// Branches taken.
    pub taken: u64,
    /// Near returns.
    pub near_returns: u64,
    /// Far transfers, without exceptions and interrupts.
    pub far: u64,
    /// Data reads.
    pub loads: u64,
    /// Data writes.
    pub stores: u64,
    /// Data accesses that were misaligned by the part's [`crate::alignment::AlignmentRule`].
    pub misaligned: u64,
    /// What a transfer to a more privileged level pushed onto that level's stack. None of it is in the
    /// sums above: it belongs to the level that begins.
    pub inner: Accesses,
    /// Accesses to ports: IN and OUT, each element of INS and OUTS.
    pub io_accesses: u64,
    /// Those of `loads`, `stores` and `misaligned` that were operands of MMX instructions.
    pub mmx: Accesses,
    /// Lines that the vector unit read.
    pub vector_loads: u64,
    /// Lines that the vector unit wrote.
    pub vector_stores: u64,
    /// Elements that instructions of the vector unit worked on, whatever their type: those that their masks
    /// left active; of a gather, a scatter or a stream, those that were transferred.
    pub vector_elements: u64,
    /// Saturating MMX instructions that saturated at least one element of their result.
    pub mmx_saturated: u64,
    /// x87 and SSE instructions with any of [`FloatCases`].
    pub float_cases: u64,
    /// x87 instructions with a denormal operand.
    pub x87_denormal_operands: u64,
    /// SSE instructions with a denormal operand.
    pub sse_denormal_operands: u64,
    /// x87 and SSE instructions with a result that is denormal or too small for its format
    /// ([`FloatCases::TINY_RESULT`]).
    pub tiny_results: u64,
    /// x87 instructions that came first after an MMX instruction: the one executed last of either
    /// kind (see [`FpKind`]) was of the other kind. An instruction that then faults on its operand
    /// has made the transition all the same, and does not make it again (Intel SDM volume 3,
    /// Pentium event 2Dh and P6 event CCh).
    pub mmx_to_fp: u64,
    /// MMX instructions that came first after an x87 instruction.
    pub fp_to_mmx: u64,
    /// Segment-register loads, by the numbers of [`crate::insn::seg`].
    pub seg_loads: [u64; 6],
    /// Matches of [`DR0`] to [`DR3`].
    pub debug_matches: [u64; 4],
    /// Exceptions delivered.
    pub exceptions: u64,
    /// Hardware interrupts taken.
    pub interrupts: u64,
}

impl Facts {
    /// All counts.
    fn counts(&mut self) -> impl Iterator<Item = &mut u64> {
        let Self {
            class,
            branches,
            taken,
            near_returns,
            far,
            loads,
            stores,
            misaligned,
            inner,
            io_accesses,
            mmx,
            vector_loads,
            vector_stores,
            vector_elements,
            mmx_saturated,
            float_cases,
            x87_denormal_operands,
            sse_denormal_operands,
            tiny_results,
            mmx_to_fp,
            fp_to_mmx,
            seg_loads,
            debug_matches,
            exceptions,
            interrupts,
        } = self;
        let single = [
            branches,
            taken,
            near_returns,
            far,
            loads,
            stores,
            misaligned,
            io_accesses,
            vector_loads,
            vector_stores,
            vector_elements,
            mmx_saturated,
            float_cases,
            x87_denormal_operands,
            sse_denormal_operands,
            tiny_results,
            mmx_to_fp,
            fp_to_mmx,
            exceptions,
            interrupts,
        ];
        let [inner, mmx] =
            [inner, mmx].map(|Accesses { loads, stores, misaligned }| [loads, stores, misaligned]);
        let many = class.iter_mut().chain(seg_loads).chain(debug_matches);
        many.chain(single).chain(inner).chain(mmx)
    }

    /// Adds all counts of `other`.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (count, more) in self.counts().zip(other.counts()) {
            *count += *more;
        }
    }

    /// What came to these counts since they were `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (mut difference, mut earlier) = (*self, *earlier);
        for (count, less) in difference.counts().zip(earlier.counts()) {
            *count -= *less;
        }
        difference
    }

    /// Retired instructions of one class. `None` for [`Class::NONE`].
    #[inline]
    pub fn of_class(&mut self, class: Class) -> Option<&mut u64> {
        self.class.get_mut(class.0.trailing_zeros() as usize)
    }
}

/// Number of a breakpoint register.
pub const DR0: usize = 0;
/// Number of a breakpoint register.
pub const DR1: usize = 1;
/// Number of a breakpoint register.
pub const DR2: usize = 2;
/// Number of a breakpoint register.
pub const DR3: usize = 3;

/// Counts the architectural facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting {
    facts: Facts,
    /// Accesses that are not yet in `facts`, and [`RARE`].
    recent: Mark,
    /// Near transfers that are not yet there either, and [`COMMITTED`].
    transfers: Transfers,
}

impl Counting {
    #[inline(always)]
    pub(crate) fn branch(&mut self, kind: Branch, taken: bool) {
        match kind {
            Branch::Near => self.transfers.0 += Transfers::one(taken, false).0,
            Branch::Ret => self.transfers.0 += Transfers::one(taken, true).0,
            Branch::Far => {
                self.facts.branches += 1;
                self.facts.taken += u64::from(taken);
                self.facts.far += 1;
                self.note_rare();
            }
        }
    }
    /// See [`Counting::take_rare`].
    #[inline(always)]
    pub fn note_rare(&mut self) {
        self.recent.0 |= RARE;
    }
    #[inline(always)]
    pub(crate) fn access(&mut self, loads: u64, stores: u64) {
        self.recent.0 += loads << LOADS | stores << STORES;
    }
    pub(crate) fn inner_stores(&mut self, stores: u64, misaligned: u64) {
        self.facts.inner.stores += stores;
        self.facts.inner.misaligned += misaligned;
    }
    #[inline(always)]
    pub(crate) fn misaligned(&mut self) {
        self.recent.0 += 1 << MISALIGNED;
    }
    pub(crate) fn io_access(&mut self) {
        self.note_rare();
        self.facts.io_accesses += 1;
    }
    pub(crate) fn mmx_operand(&mut self, mark: Mark) {
        self.note_rare();
        let (before, after) = (mark.accesses(), self.recent.accesses());
        let mmx = &mut self.facts.mmx;
        mmx.loads += after.loads - before.loads;
        mmx.stores += after.stores - before.stores;
        mmx.misaligned += after.misaligned - before.misaligned;
    }
    pub(crate) fn vector_access(&mut self, loads: u64, stores: u64) {
        self.note_rare();
        self.facts.vector_loads += loads;
        self.facts.vector_stores += stores;
    }
    pub(crate) fn vector_elements(&mut self, elements: u32) {
        self.note_rare();
        self.facts.vector_elements += u64::from(elements);
    }
    #[inline(always)]
    pub(crate) fn saturated(&mut self) {
        self.note_rare();
        self.facts.mmx_saturated += 1;
    }
    #[cold]
    pub(crate) fn float_cases(&mut self, unit: FloatUnit, cases: FloatCases) {
        self.note_rare();
        self.facts.float_cases += 1;
        if cases.has(FloatCases::DENORMAL_OPERAND) {
            match unit {
                FloatUnit::X87 => self.facts.x87_denormal_operands += 1,
                FloatUnit::Sse => self.facts.sse_denormal_operands += 1,
            }
        }
        if cases.has(FloatCases::TINY_RESULT) {
            self.facts.tiny_results += 1;
        }
    }
    pub(crate) fn fp_transition(&mut self, to: FpKind) {
        self.note_rare();
        match to {
            FpKind::X87 => self.facts.mmx_to_fp += 1,
            FpKind::Mmx => self.facts.fp_to_mmx += 1,
        }
    }
    #[cold]
    pub(crate) fn roll_back(&mut self, mark: Mark) {
        let (before, after) = (mark.accesses(), self.recent.accesses());
        // Less than at the mark: what there was has been committed since.
        let kept = Mark::of(Accesses {
            loads: after.loads.min(before.loads),
            stores: after.stores.min(before.stores),
            misaligned: after.misaligned.min(before.misaligned),
        });
        self.recent = Mark(kept.0 | self.recent.0 & RARE);
    }
    pub(crate) fn commit(&mut self) {
        let recent = self.recent.accesses();
        self.recent.0 &= RARE;
        self.facts.loads += recent.loads;
        self.facts.stores += recent.stores;
        self.facts.misaligned += recent.misaligned;
        let transfers = std::mem::replace(&mut self.transfers, Transfers(COMMITTED));
        self.facts.branches += transfers.branches();
        self.facts.taken += transfers.taken();
        self.facts.near_returns += transfers.near_returns();
    }
    #[inline(always)]
    pub(crate) fn block_finished(&mut self) {
        if are_half_full(self.recent, self.transfers) {
            self.commit();
        }
    }
    pub(crate) fn seg_load(&mut self, seg: u8) {
        self.note_rare();
        if let Some(count) = self.facts.seg_loads.get_mut(usize::from(seg)) {
            *count += 1;
        }
    }
    pub(crate) fn debug_match(&mut self, n: usize) {
        self.note_rare();
        self.facts.debug_matches[n & 3] += 1;
    }
    pub(crate) fn exception(&mut self) {
        self.note_rare();
        self.facts.exceptions += 1;
    }
    pub(crate) fn interrupt(&mut self) {
        self.note_rare();
        self.facts.interrupts += 1;
    }
    /// So many instructions of each of these classes retired.
    #[inline]
    pub fn retired_classes(&mut self, sums: &[ClassCount]) {
        for sum in sums {
            if let Some(count) = self.facts.class.get_mut(usize::from(sum.class)) {
                *count += u64::from(sum.count);
            }
        }
    }
    /// All facts so far, those of recent accesses as well.
    #[inline]
    pub fn complete(&mut self) -> &mut Facts {
        self.commit();
        &mut self.facts
    }

    /// Whether anything was counted, since this was last called, but near transfers, classes and accesses
    /// that are in [`Facts::loads`], [`Facts::stores`] or [`Facts::misaligned`].
    #[inline(always)]
    pub fn take_rare(&mut self) -> bool {
        let rare = self.recent.0 & RARE != 0;
        self.recent.0 &= !RARE;
        rare
    }

    /// Begins to heed what occurs, when all that has occurred was taken out of the facts.
    #[inline(always)]
    pub(crate) fn heed(&mut self) {
        self.recent.0 &= !RARE;
        self.transfers.0 &= !COMMITTED;
    }

    /// Whether anything that is heeded may have occurred since [`Counting::heed`], or anything but classes that has no
    /// field of its own.
    #[inline(always)]
    pub(crate) fn has_occurred(&self, heeded: Heeded) -> bool {
        self.recent.0 & (heeded.accesses | RARE) | self.transfers.0 & (heeded.transfers | COMMITTED)
            != 0
    }

    /// The accesses that are not yet in the facts, for which looking costs next to nothing.
    #[inline(always)]
    #[must_use]
    pub fn recent(&self) -> Mark {
        self.recent
    }

    /// The near transfers that are not yet in the facts.
    #[inline(always)]
    #[must_use]
    pub fn transfers(&self) -> Transfers {
        Transfers(self.transfers.0 & !COMMITTED)
    }

    /// The facts so far, but for [`Counting::recent`] and [`Counting::transfers`].
    #[inline(always)]
    #[must_use]
    pub fn committed(&self) -> &Facts {
        &self.facts
    }
}
