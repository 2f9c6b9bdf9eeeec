//! Observers of an instruction stream.
//!
//! Execution is generic over an [`Observer`]. Each has blocks of its own, translated for it, with their
//! links and jump cache ([`crate::block::Translations`]), and handlers compiled for it: what an
//! observer does not ask for costs nothing. [`Plain`] sees nothing; [`Counting`] adds up the
//! architectural facts.

use crate::{
    block::{Code, Translations},
    bus::Bus,
    class::ClassCount,
    cpu::Cpu,
    insn::Insn,
    ram::Ram,
    run::Exit,
    timing::Budget,
};

pub use crate::facts::{
    Accesses, Branch, Counting, DR0, DR1, DR2, DR3, Facts, FpKind, Heeded, Mark, Transfers,
    are_half_full,
};
pub use crate::float_cases::{FloatCases, FloatUnit};

/// What is told of execution, and counts or models it.
///
/// A block's static facts (instructions and their classes) are added once a block; what depends on the
/// run is counted where it happens. What an instruction did that faults is taken back, but for the
/// finished iterations of a repeated one.
pub trait Observer: Sized {
    /// Whether [`Observer::counting`] is there. A constant, so that code behind it vanishes where
    /// nothing is counted.
    const COUNTS: bool = false;
    /// Whether it is told of each block that is entered and each instruction that retires.
    const FOLLOWS: bool = false;
    /// Whether it is told the address of each access and of each page walk.
    const SEES_ADDRESSES: bool = false;
    /// Whether it may end the run, by [`Observer::is_spent`], as a model does in which something occurs
    /// that nobody can foresee. String elements are then accessed at once only where it allows that:
    /// [`Observer::elements_at_once`].
    const MODELS: bool = false;
    /// Whether what was observed may be taken in the middle of a block.
    const STEPS_THROUGH: bool = false;

    /// Whether it tells, behind a step, whether anything heeded has occurred in it: [`Observer::has_occurred`].
    const HEEDS: bool = false;

    /// [`Cpu::run`] under this observer: all of execution, compiled for it. The observers of this crate have it
    /// compiled here, once for all who use them.
    fn run(
        cpu: &mut Cpu,
        cx: &mut Cx<'_, Self>,
        translations: &mut Translations<Self>,
        budget: Budget,
    ) -> Exit {
        cpu.run_under(cx, translations, budget)
    }

    /// Where the facts are counted; `None` if they are not.
    #[inline(always)]
    fn counting(&mut self) -> Option<&mut Counting> {
        None
    }

    /// The facts so far, `None` if none are counted. The owner takes those that it counts out of them.
    #[inline(always)]
    fn facts(&mut self) -> Option<&mut Facts> {
        self.counting().map(Counting::complete)
    }

    /// What has been observed and not yet counted, `None` if nothing is counted.
    #[inline(always)]
    fn observed(&mut self) -> Option<Observed<'_>> {
        self.facts().map(|facts| Observed { facts, modelled: &mut [] })
    }

    /// Whether something has occurred so often that the owner has to act before the next step.
    #[inline(always)]
    fn is_spent(&self) -> bool {
        false
    }

    /// Begins to heed what occurs: all that has occurred was counted.
    #[inline(always)]
    fn heed(&mut self) {}

    /// Whether anything of this may have occurred since [`Observer::heed`], or anything rare.
    #[inline(always)]
    fn has_occurred(&self, _heeded: Heeded) -> bool {
        true
    }

    /// The first instruction of a block is about to begin; RIP is its address. Told if
    /// [`Observer::enters_quietly`] did not say so.
    fn entered(&mut self, _cpu: &Cpu, _ram: &Ram, _block: &impl Code) {}
    /// The first instruction of a block is about to begin, all of which will be executed unless one does not
    /// go on to the next. Whether it need not be told that they begin and retire, all but the last, unless
    /// [`Observer::has_pending`] says so behind one; if not, nothing was told.
    #[inline(always)]
    fn enters_quietly(&mut self, _cpu: &Cpu, _block: &impl Code) -> bool {
        false
    }
    /// Whether what [`Observer::enters_quietly`] said of the running block still holds.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        false
    }
    /// Whether the instruction that was executed last has done something that waits for its retirement.
    #[inline(always)]
    fn has_pending(&self) -> bool {
        false
    }
    /// Instructions of a block are about to begin that are executed in steps, each fetched by itself
    /// ([`Cpu::take_step`]): the first of them. Other processors may be told of in between.
    fn enters_in_steps(&mut self, _cpu: &Cpu, _ram: &Ram, _block: &impl Code) {}
    /// One of them begins, as [`Observer::begins`].
    #[inline(always)]
    fn begins_apart(&mut self, _cpu: &Cpu, _ram: &Ram, _block: &impl Code, _insn: &Insn) {}
    /// It has retired, as [`Observer::retired`].
    #[inline(always)]
    fn retired_apart(&mut self, _cpu: &Cpu, _ram: &Ram, _block: &impl Code, _insn: &Insn) {}
    /// What was observed is taken behind each instruction of the block that was entered last, from this one on, which has
    /// retired.
    fn steps_through(&mut self, _insn: &Insn) {}
    /// An instruction of the block that was entered last begins: its bytes have been fetched, whatever
    /// becomes of it. One that stops before it has done anything begins again.
    #[inline(always)]
    fn begins(&mut self, _cpu: &Cpu, _ram: &Ram, _insn: &Insn) {}
    /// An instruction of the block that was entered last retired. If it is a branch, RIP is where it
    /// went.
    fn retired(&mut self, _cpu: &Cpu, _ram: &Ram, _block: &impl Code, _insn: &Insn) {}
    /// The same of the last instruction of a block that was entered quietly and still is quiet.
    #[inline(always)]
    fn last_retired(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        self.retired(cpu, ram, block, insn);
    }
    /// An instruction did not retire. What its finished iterations did stays.
    fn interrupted(&mut self, _cpu: &Cpu, _insn: &Insn) {}
    /// The first `count` instructions of the block have retired, and RIP is that of the next.
    fn finished(&mut self, _cpu: &Cpu, _block: &impl Code, _count: usize) {}
    /// An exception or interrupt is about to be delivered. RIP is the address that its handler finds
    /// on the stack.
    fn delivering(&mut self, _cpu: &Cpu) {}
    /// It has been delivered: RIP is that of its handler.
    fn delivered(&mut self, _cpu: &Cpu, _ram: &Ram, _delivery: Delivery) {}
    /// An instruction or a delivery accessed memory or a port.
    fn accessed(&mut self, _access: Access) {}
    /// The same of an access to memory that is all in one page, and of one element.
    #[inline(always)]
    fn accessed_page(&mut self, linear: u64, physical: u64, bytes: u32, direction: Direction) {
        self.accessed(Access {
            linear,
            physical,
            second_page: None,
            bytes,
            elements: 1,
            direction,
            target: Target::Memory,
        });
    }
    /// The same, of an access that is the only one of its instruction, and to an ordinary operand: nothing can become of
    /// the instruction any more but that it retires.
    #[inline(always)]
    fn accessed_last(
        &mut self,
        _cpu: &Cpu,
        _insn: &Insn,
        linear: u64,
        physical: u64,
        bytes: u32,
        direction: Direction,
    ) {
        self.accessed_page(linear, physical, bytes, direction);
    }
    /// How many of the next elements of a string may be accessed and told at once, because the same comes of it as
    /// if one after the other were. They are in the same [`LINE`]s as those just accessed; the first of them is
    /// read, or written, at these linear and guest-physical addresses. Asked where it models; none is always right.
    #[inline(always)]
    fn elements_at_once(&self, _read: Option<(u64, u64)>, _written: Option<(u64, u64)>) -> u64 {
        0
    }
    /// The processor walked the page tables, because its software TLB had no entry.
    fn walked(&mut self, _walk: &Walk) {}

    /// A control transfer retired.
    #[inline(always)]
    fn branch(&mut self, kind: Branch, taken: bool) {
        if let Some(counting) = self.counting() {
            counting.branch(kind, taken);
        }
    }

    /// An instruction, or the delivery of an exception or interrupt, read data memory `loads` times
    /// and wrote it `stores` times, each less than 2^16.
    #[inline(always)]
    fn access(&mut self, loads: u64, stores: u64) {
        if let Some(counting) = self.counting() {
            counting.access(loads, stores);
        }
    }

    /// A transfer to a more privileged level has pushed `stores` words onto that level's stack, so many
    /// of them `misaligned`: accesses of the level that begins.
    #[inline(always)]
    fn inner_stores(&mut self, stores: u64, misaligned: u64) {
        if let Some(counting) = self.counting() {
            counting.inner_stores(stores, misaligned);
        }
    }

    /// An access was misaligned by the part's [`crate::alignment::AlignmentRule`].
    #[inline(always)]
    fn misaligned(&mut self) {
        if let Some(counting) = self.counting() {
            counting.misaligned();
        }
    }

    /// An instruction accessed a port.
    #[inline(always)]
    fn io_access(&mut self) {
        if let Some(counting) = self.counting() {
            counting.io_access();
        }
    }

    /// All accesses since `mark` were made by an MMX instruction.
    #[inline(always)]
    fn mmx_operand(&mut self, mark: Mark) {
        if let Some(counting) = self.counting() {
            counting.mmx_operand(mark);
        }
    }

    /// The vector unit read `loads` lines of memory and wrote `stores`, which [`Observer::access`] is told as
    /// well.
    #[inline(always)]
    fn vector_access(&mut self, loads: u64, stores: u64) {
        if let Some(counting) = self.counting() {
            counting.vector_access(loads, stores);
        }
    }

    /// An instruction of the vector unit, which is going to retire, has worked on so many elements.
    #[inline(always)]
    fn vector_elements(&mut self, elements: u32) {
        if let Some(counting) = self.counting() {
            counting.vector_elements(elements);
        }
    }

    /// A saturating MMX instruction had an element that did not fit.
    #[inline(always)]
    fn saturated(&mut self) {
        if let Some(counting) = self.counting() {
            counting.saturated();
        }
    }

    /// An instruction computed with numbers that were out of the ordinary, or gave one, and is going to
    /// retire.
    #[inline(always)]
    fn float_cases(&mut self, unit: FloatUnit, cases: FloatCases) {
        if let Some(counting) = self.counting() {
            counting.float_cases(unit, cases);
        }
    }

    /// The first instruction of the `to` kind after one of the other kind.
    #[inline(always)]
    fn fp_transition(&mut self, to: FpKind) {
        if let Some(counting) = self.counting() {
            counting.fp_transition(to);
        }
    }

    /// The running instruction faulted: its accesses since `mark` are taken back, for it did not retire
    /// and may start again. Those before a later [`Observer::commit`] stay.
    #[inline(always)]
    fn roll_back(&mut self, mark: Mark) {
        if let Some(counting) = self.counting() {
            counting.roll_back(mark);
        }
    }

    /// An iteration of a repeated instruction is finished: its accesses stay, whatever becomes of the
    /// next.
    #[inline(always)]
    fn commit(&mut self, _cpu: &Cpu, _ram: &Ram, _insn: &Insn) {
        if let Some(counting) = self.counting() {
            counting.commit();
        }
    }

    /// When the last step of the run was over, of the cycles that it told of: where it tells how much time passes.
    fn last_step(&self) -> LastStep {
        LastStep::EndsTheCycles
    }
    /// Whether it tells how much time passes ([`Observer::take_cycles`]).
    #[inline(always)]
    fn keeps_time(&self) -> bool {
        false
    }

    /// Cycles that have passed since this was last asked for, beyond those of [`crate::timing::CycleCosts`]:
    /// of the instruction that retired last, of an iteration of a repeated one, or of a delivery.
    #[inline(always)]
    fn take_cycles(&mut self) -> u64 {
        0
    }

    /// A block is finished.
    #[inline(always)]
    fn block_finished(&mut self) {
        if let Some(counting) = self.counting() {
            counting.block_finished();
        }
    }

    /// Segment register `seg` (numbers of [`crate::insn::seg`]) was loaded.
    #[inline(always)]
    fn seg_load(&mut self, seg: u8) {
        if let Some(counting) = self.counting() {
            counting.seg_load(seg);
        }
    }

    /// An access or a fetch matched the address and type of debug register `n`, enabled or not.
    #[inline(always)]
    fn debug_match(&mut self, n: usize) {
        if let Some(counting) = self.counting() {
            counting.debug_match(n);
        }
    }

    /// An exception was delivered.
    #[inline(always)]
    fn exception(&mut self) {
        if let Some(counting) = self.counting() {
            counting.exception();
        }
    }

    /// A hardware interrupt was taken, an NMI included.
    #[inline(always)]
    fn interrupt(&mut self) {
        if let Some(counting) = self.counting() {
            counting.interrupt();
        }
    }

    /// So many instructions of each of these classes retired.
    #[inline(always)]
    fn retired_classes(&mut self, sums: &[ClassCount]) {
        if let Some(counting) = self.counting() {
            counting.retired_classes(sums);
        }
    }

    /// What [`Observer::roll_back`] goes back to.
    #[inline(always)]
    fn mark(&mut self) -> Mark {
        self.counting().map_or(Mark::default(), |counting| counting.recent())
    }
}

/// Bytes of a line of the caches with the shortest lines.
pub const LINE: u64 = 32;

/// What was observed since the owner last added it to its counters.
pub struct Observed<'a> {
    /// The facts.
    pub facts: &'a mut Facts,
    /// Occurrences of what a model tells of, by numbers that are its own; none without a model.
    pub modelled: &'a mut [u64],
}

/// When a step was over, of the cycles that were told in a run of this one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStep {
    /// In the last of them.
    EndsTheCycles,
    /// When so many had passed.
    EndsAfter(u64),
    /// Later: what is waited for is not known yet.
    IsNotOver,
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// Has [`Observer::run`] compiled in this crate: where its own is generic, everybody who calls it compiles it anew.
macro_rules! compiled_here {
    () => {
        fn run(
            cpu: &mut Cpu,
            cx: &mut Cx<'_, Self>,
            translations: &mut Translations<Self>,
            budget: Budget,
        ) -> Exit {
            cpu.run_under(cx, translations, budget)
        }
    };
}

impl Observer for Plain {
    compiled_here!();
}

impl Observer for Counting {
    const COUNTS: bool = true;
    const STEPS_THROUGH: bool = true;
    const HEEDS: bool = true;

    compiled_here!();

    #[inline(always)]
    fn counting(&mut self) -> Option<&mut Counting> {
        Some(self)
    }

    #[inline(always)]
    fn heed(&mut self) {
        self.heed();
    }

    #[inline(always)]
    fn has_occurred(&self, heeded: Heeded) -> bool {
        self.has_occurred(heeded)
    }
}

/// An exception or interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its vector.
    pub vector: u8,
    /// A hardware interrupt, an NMI included; else an exception.
    pub interrupt: bool,
    /// Bytes on the handler's stack below the return address: those of an error code, or none.
    pub code_bytes: u8,
}

/// An access to memory or to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Linear address; the port.
    pub linear: u64,
    /// Guest-physical address of the first byte; the port.
    pub physical: u64,
    /// Guest-physical address of the next page, if it reaches into that.
    pub second_page: Option<u64>,
    /// Bytes; of each element.
    pub bytes: u32,
    /// How many elements of a string, one behind the other, upwards; else 1.
    pub elements: u32,
    /// How.
    pub direction: Direction,
    /// What answered.
    pub target: Target,
}

/// Which way an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads and writes back: one access to one place.
    Modify,
    /// It does neither: a prefetch, or CLFLUSH.
    Touch,
}

impl Direction {
    /// That of an access that reads, or writes, or does both or neither.
    #[inline(always)]
    pub(crate) const fn of(reads: bool, writes: bool) -> Self {
        match (reads, writes) {
            (true, true) => Self::Modify,
            (true, false) => Self::Load,
            (false, true) => Self::Store,
            (false, false) => Self::Touch,
        }
    }
}

/// What an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// RAM or ROM.
    Memory,
    /// A device's registers in memory.
    Mmio,
    /// A port.
    Port,
}

/// A walk of the page tables that found a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The linear address that was looked for.
    pub linear: u64,
    /// The guest-physical address that it is at.
    pub physical: u64,
    /// The entries that were read, from the root on; the first `levels` are valid. Legacy PAE paging has
    /// read its page-directory pointers with CR3: they are not among them.
    pub entries: [WalkedEntry; 4],
    /// Number of entries that were read: up to 4, and none while paging is off.
    pub levels: u8,
    /// Size of the page in bytes.
    pub page_bytes: u64,
    /// Its mapping is global.
    pub global: bool,
}

/// A page-table entry that a walk read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkedEntry {
    /// Its guest-physical address.
    pub physical: u64,
    /// What it holds.
    pub value: u64,
    /// 1 for a page table, 2 for a page directory, up to 4.
    pub level: u8,
    /// The walk set its accessed bit.
    pub set_accessed: bool,
    /// The walk set its dirty bit.
    pub set_dirty: bool,
}

/// What execution needs from outside the processor, lent for the length of a run.
pub struct Cx<'a, O> {
    /// Devices, model-specific registers, CPUID.
    pub bus: &'a mut dyn Bus,
    /// Guest memory.
    pub ram: &'a Ram,
    /// What is told of execution.
    pub observer: O,
}
