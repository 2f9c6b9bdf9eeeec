//! An observer that is told what execution does once it is certain: the base for models of caches,
//! branch predictors and pipelines.
//!
//! [`Watching`] is the observer, [`Watch`] what a model implements. What an instruction did is
//! reported when it retires, what it did in finished iterations also when it stops between two, and
//! what it did before it faulted never; so a model never has to undo anything. The order is that of
//! execution: the fetch, page walks and accesses, the branch, the retirement, and what has changed
//! for what follows.

use crate::{
    block::Code,
    class::Class,
    cpu::Cpu,
    exec::branch::NOT_TAKEN,
    facts::{Counting, Mark},
    float_cases::{FloatCases, FloatUnit},
    insn::Insn,
    observe::{Access, Delivery, Direction, LastStep, Observed, Observer, Target, Walk},
    ram::Ram,
};

mod reports;
mod told;

pub use self::told::{AccessKind, ExecutionContext, Fetch, Hint, Transfer, TransferKind};

use self::reports::{CHANGES_CONTEXT, FENCES, SERIALISES, TOUCHES, TRAITS, TRANSFERS, kind};
pub(crate) use self::reports::{accesses_plainly, reports_more, transfer};

/// A model of microarchitecture: what it is told, instruction by instruction.
pub trait Watch {
    /// Whether it is told of accesses and page walks. A model without need for them says `false`, and
    /// execution then spends no time on reporting them.
    const SEES_ADDRESSES: bool = true;
    /// Whether it may end a run, by [`Watch::is_spent`].
    const MODELS: bool = false;

    /// A block is entered: straight-line code, of which every instruction is fetched unless an earlier
    /// one does not go on to it.
    fn entered(&mut self, _cpu: &Cpu, _ram: &Ram, _block: &impl Code, _fetch: &Fetch) {}
    /// As [`Observer::enters_in_steps`].
    fn enters_in_steps(&mut self, _cpu: &Cpu, _ram: &Ram, _block: &impl Code) {}
    /// As [`Observer::begins_apart`], at this linear address.
    #[inline(always)]
    fn begins_apart(
        &mut self,
        _cpu: &Cpu,
        _ram: &Ram,
        _block: &impl Code,
        _insn: &Insn,
        _linear: u64,
    ) {
    }
    /// Whether it is to be told when the instructions of the block that was entered begin and retire. If not,
    /// [`Watch::begins`], [`Watch::fetched`] and [`Watch::retired`] are not called; it may then not be spent by
    /// what [`Watch::finds`] notes in a block. Asked again behind an instruction of which it was told.
    #[inline(always)]
    fn is_attentive(&self) -> bool {
        true
    }
    /// A block is entered at a linear address. Whether the model is not attentive, and need not even be told
    /// that what it fetches was fetched; if not, nothing has happened, and [`Watch::entered`] follows.
    #[inline(always)]
    fn enters_quietly(&mut self, _cpu: &Cpu, _block: &impl Code, _linear: u64) -> bool {
        false
    }
    /// Whether an access is one that [`Watch::finds`] would say `true` to without much ado. If so, it has been
    /// told; if not, nothing has happened.
    #[inline(always)]
    fn finds_again(
        &mut self,
        _linear: u64,
        _physical: u64,
        _bytes: u32,
        _direction: Direction,
    ) -> bool {
        false
    }
    /// An access of the running instruction, to memory in one page and by an ordinary operand, that is certain:
    /// told at once instead of by [`Watch::accessed`], if the model has nothing to do for it but to note that
    /// it finds what it expects. Whether it does. Only asked in blocks that it enters quietly.
    #[inline(always)]
    fn finds(&mut self, _linear: u64, _physical: u64, _bytes: u32, _direction: Direction) -> bool {
        false
    }
    /// As [`Observer::elements_at_once`].
    #[inline(always)]
    fn elements_at_once(&self, _read: Option<(u64, u64)>, _written: Option<(u64, u64)>) -> u64 {
        0
    }
    /// It is told of each instruction of the block from this linear address on, because of what it was told of the
    /// one before.
    #[inline(always)]
    fn attends_from(&mut self, _next: u64) {}
    /// Execution has left the block in the middle: what is behind this linear address did not begin.
    fn left(&mut self, _next: u64) {}
    /// An instruction begins, of which nothing more may come: it may fault, or stop and begin again.
    /// Whether it did anything of which [`Watch::is_spent`] may tell. What is fetched is computed where it
    /// is asked for.
    #[inline(always)]
    fn begins(
        &mut self,
        _cpu: &Cpu,
        _ram: &Ram,
        _insn: &Insn,
        _fetch: impl FnOnce() -> Fetch,
    ) -> bool {
        false
    }
    /// An instruction was fetched, which retires or stops after finished iterations.
    fn fetched(&mut self, _fetch: &Fetch) {}
    /// In a block that was entered quietly, what is told next happened with the instruction that begins at this time.
    #[inline(always)]
    fn at(&mut self, _time: u64) {}
    /// The only access of an instruction, to memory in one page and by an ordinary operand, of which [`Watch::finds`]
    /// has said that the model does not find it: told at once instead of by [`Watch::missed`], if it has a short way
    /// for it. Whether it has; if not, nothing has happened. [`Watch::is_attentive`] is asked behind it.
    #[inline(always)]
    fn brings_in(
        &mut self,
        _linear: u64,
        _physical: u64,
        _bytes: u32,
        _direction: Direction,
    ) -> bool {
        false
    }
    /// One page of memory was accessed, once, of which [`Watch::finds`] has said that the model does not find it, and
    /// nothing has been told since.
    #[inline(always)]
    fn missed(&mut self, cpu: &Cpu, ram: &Ram, access: &Access, kind: AccessKind) {
        self.accessed(cpu, ram, access, kind);
    }
    /// Memory, a device or a port was accessed.
    fn accessed(&mut self, _cpu: &Cpu, _ram: &Ram, _access: &Access, _kind: AccessKind) {}
    /// The processor walked the page tables, because its software TLB had no entry. The TLB of a
    /// modelled processor has other misses: its model asks [`Cpu::look_up`] what a walk would read.
    fn walked(&mut self, _walk: &Walk) {}
    /// Iterations of a repeated instruction are finished, and their accesses have been told.
    fn iterated(&mut self, _insn: &Insn) {}
    /// Whether a control transfer, which retired, is one that the model has a short way for. If so, it has been
    /// told; if not, nothing has happened, and [`Watch::branched`] follows. Only asked in blocks that it enters
    /// quietly.
    #[inline(always)]
    fn branched_quickly(&mut self, _transfer: &Transfer) -> bool {
        false
    }
    /// A control transfer retired.
    fn branched(&mut self, _transfer: &Transfer) {}
    /// The instruction that is about to retire computed with numbers that were out of the ordinary, or gave
    /// one.
    fn float_cases(&mut self, _unit: FloatUnit, _cases: FloatCases) {}
    /// An instruction retired.
    fn retired(&mut self, _cpu: &Cpu, _ram: &Ram, _insn: &Insn) {}
    /// This instruction, the one that retired last, serialises: nothing behind it begins before all before it is
    /// finished.
    fn serialised(&mut self, _cpu: &Cpu, _insn: &Insn) {}
    /// SFENCE or MFENCE retired: the stores before it are finished before one behind it.
    fn fenced(&mut self) {}
    /// An exception or interrupt is about to be delivered: what is accessed next, it accesses.
    fn delivering(&mut self) {}
    /// An exception or interrupt was delivered, from the linear address of the interrupted program to
    /// that of the handler.
    fn delivered(&mut self, _delivery: Delivery, _from: u64, _to: u64) {}
    /// What follows runs in another context than what went before.
    fn changed(&mut self, _now: &ExecutionContext) {}

    /// See [`Observer::last_step`].
    fn last_step(&self) -> LastStep {
        LastStep::EndsTheCycles
    }
    /// See [`Observer::keeps_time`].
    fn keeps_time(&self) -> bool {
        false
    }
    /// See [`Observer::take_cycles`].
    #[inline(always)]
    fn take_cycles(&mut self) -> u64 {
        0
    }
    /// Occurrences that it has counted, by numbers of its own.
    fn modelled(&mut self) -> &mut [u64] {
        &mut []
    }
    /// Whether something has occurred so often that the owner has to act before the next step.
    fn is_spent(&self) -> bool {
        false
    }
}

/// The observer that runs a model: counts the facts, and tells the model what is certain.
pub struct Watching<W> {
    /// The model.
    pub watch: W,
    /// Apart, so that those of another processor may take its place ([`Watching::exchange`]).
    counting: Box<Counting>,
    /// The only access that is not yet certain, with [`SINGLE`].
    single: Access,
    /// Accesses that are not, without it.
    accesses: Vec<Access>,
    /// Walks that are not, each with the number of accesses before it.
    walks: Vec<(usize, Walk)>,
    /// What is to be looked at for each instruction: [`PENDING`] and the like.
    state: u8,
    /// The block that is executed; while it is quiet, only its linear address.
    entered: Fetch,
    /// What the model said when it was last asked: it is asked where it was told anything.
    spent: bool,
    context: Option<ExecutionContext>,
    /// Where the program was interrupted.
    interrupted_at: u64,
    /// Far transfers when a block was entered that may end with one.
    far: u64,
    /// Where in its block the instruction ends that has begun and did not retire; 0 if there is none.
    begun: u16,
}

/// What has been observed of a processor whose run goes on later ([`Watching::exchange`]): nothing at first.
#[derive(Default)]
pub struct Aside {
    counting: Box<Counting>,
    /// [`IN_CONTEXT`], or 0.
    in_context: u8,
}

impl<W: Watch> Watching<W> {
    /// An observer that reports to `watch`. It is large, and its owner may hand it over for an instruction at a time.
    pub fn new(watch: W) -> Box<Self> {
        Box::new(Self {
            watch,
            counting: Box::default(),
            single: NO_ACCESS,
            accesses: Vec::new(),
            walks: Vec::new(),
            state: ATTENTIVE,
            entered: Fetch::default(),
            spent: false,
            context: None,
            interrupted_at: 0,
            far: 0,
            begun: 0,
        })
    }

    /// Counts facts anew, from zero, and forgets in which context they were.
    pub fn restart(&mut self) {
        *self.counting = Counting::default();
        self.spent = false;
        self.state &= !IN_CONTEXT;
        self.context = None;
    }

    /// Goes on with what was observed of another processor, in the middle of its run, and puts aside what has been
    /// observed until now: the model keeps it. Between two instructions, with nothing left to be told of the last.
    ///
    /// If the model says so, the same with another one behind that: what was observed until now goes back to where it
    /// came from.
    #[inline]
    pub fn exchange(&mut self, asides: impl FnOnce(&mut W) -> (&mut Aside, Option<&mut Aside>)) {
        let mut in_context = self.state & IN_CONTEXT;
        let (aside, other) = asides(&mut self.watch);
        std::mem::swap(&mut self.counting, &mut aside.counting);
        std::mem::swap(&mut in_context, &mut aside.in_context);
        if let Some(other) = other {
            std::mem::swap(&mut self.counting, &mut other.counting);
            std::mem::swap(&mut in_context, &mut other.in_context);
        }
        self.state = self.state & !IN_CONTEXT | in_context;
        self.spent = false;
        // It was told of the other's: what is told when that changes is told whatever it is.
        self.context = None;
    }

    /// Reports the accesses and walks that have become certain. `kind` says of which kind an access is.
    #[inline(never)]
    fn report(&mut self, cpu: &Cpu, ram: &Ram, kind: impl Fn(&Access) -> AccessKind) {
        self.spread();
        if !self.walks.is_empty() {
            return self.report_with_walks(cpu, ram, kind);
        }
        for access in &self.accesses {
            self.watch.accessed(cpu, ram, access, kind(access));
        }
        self.accesses.clear();
        self.state &= !PENDING;
        self.spent = self.watch.is_spent();
    }

    /// Reports the accesses and walks of an instruction: mostly one, without a walk.
    #[inline(always)]
    fn report_of(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        let class = block.class(usize::from(insn.index));
        self.watch.at(cpu.now(insn));
        if self.state & SINGLE != 0 {
            let Self { watch, single, state, .. } = self;
            let kind = kind(insn, single.direction, class);
            if *state & MISSED != 0 {
                watch.missed(cpu, ram, single, kind);
            } else {
                watch.accessed(cpu, ram, single, kind);
            }
            *state &= !(PENDING | SINGLE | MISSED);
        } else {
            self.report_many(cpu, ram, insn, class);
        }
    }

    /// The only access of an instruction that has done all else. Compiled for each direction.
    #[inline(never)]
    fn note_last<const READS: bool, const WRITES: bool>(
        &mut self,
        cpu: &Cpu,
        insn: &Insn,
        linear: u64,
        physical: u64,
        bytes: u32,
    ) {
        let direction = Direction::of(READS, WRITES);
        if self.state & (QUIET | PENDING) != QUIET {
            return self.note_access::<READS, WRITES>(linear, physical, bytes);
        }
        if self.watch.finds(linear, physical, bytes, direction) {
            return;
        }
        self.watch.at(cpu.now(insn));
        if !self.watch.brings_in(linear, physical, bytes, direction) {
            return self.note_missed(linear, physical, bytes, direction);
        }
        if self.watch.is_attentive() {
            // That is noticed where it retires, though nothing of it is left to be told.
            self.state |= PENDING;
        }
    }

    /// An access waits for the retirement of its instruction, which the model does not find.
    #[inline(always)]
    fn note_missed(&mut self, linear: u64, physical: u64, bytes: u32, direction: Direction) {
        let (second_page, elements, target) = (None, 1, Target::Memory);
        self.single = Access { linear, physical, second_page, bytes, elements, direction, target };
        self.state |= PENDING | SINGLE | MISSED;
    }

    /// An access to memory in one page, which mostly waits for the retirement of its instruction. Compiled
    /// for each direction.
    #[inline(never)]
    fn note_access<const READS: bool, const WRITES: bool>(
        &mut self,
        linear: u64,
        physical: u64,
        bytes: u32,
    ) {
        let direction = Direction::of(READS, WRITES);
        let at_once = self.state & (QUIET | PENDING) == QUIET;
        if at_once && self.watch.finds(linear, physical, bytes, direction) {
            return;
        }
        let access = || Access {
            linear,
            physical,
            second_page: None,
            bytes,
            elements: 1,
            direction,
            target: Target::Memory,
        };
        // Made where it is put: it is large.
        if self.state & PENDING == 0 {
            self.single = access();
            let missed = if at_once && (READS || WRITES) { MISSED } else { 0 };
            self.state |= PENDING | SINGLE | missed;
        } else {
            self.add_access(access());
        }
    }

    /// An access waits for the retirement of its instruction.
    #[inline(always)]
    fn note(&mut self, access: Access) {
        if self.state & PENDING == 0 {
            self.single = access;
            self.state |= PENDING | SINGLE;
        } else {
            self.add_access(access);
        }
    }

    /// Whether there are accesses or walks that are not yet certain.
    #[inline(always)]
    fn is_pending(&self) -> bool {
        W::SEES_ADDRESSES && self.state & PENDING != 0
    }

    /// There is more than one access, or a walk.
    #[cold]
    fn spread(&mut self) {
        if self.state & SINGLE != 0 {
            self.accesses.push(self.single);
            self.state &= !(SINGLE | MISSED);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_access(&mut self, access: Access) {
        self.spread();
        self.accesses.push(access);
    }

    #[inline(never)]
    fn report_many(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn, class: Class) {
        self.report(cpu, ram, |access| kind(insn, access.direction, class));
    }

    #[inline(never)]
    fn report_with_walks(&mut self, cpu: &Cpu, ram: &Ram, kind: impl Fn(&Access) -> AccessKind) {
        let mut walks = self.walks.drain(..).peekable();
        for (n, access) in self.accesses.drain(..).enumerate() {
            while let Some((_, walk)) = walks.next_if(|(before, _)| *before <= n) {
                self.watch.walked(&walk);
            }
            self.watch.accessed(cpu, ram, &access, kind(&access));
        }
        walks.for_each(|(_, walk)| self.watch.walked(&walk));
        self.state &= !PENDING;
        self.spent = self.watch.is_spent();
    }

    /// Not all instructions of the block have retired, but so many, and the next may have begun.
    #[cold]
    #[inline(never)]
    fn finished_part(&mut self, block: &impl Code, count: usize) {
        let retired = block.instruction(count.wrapping_sub(1)).map_or(0, |last| last.end);
        let begun = std::mem::take(&mut self.begun);
        self.report_leaving(retired.max(begun));
    }

    /// Reports that execution has left the block, of which so many bytes are of instructions that have begun.
    fn report_leaving(&mut self, begun: u16) {
        self.watch.left(self.entered.linear.wrapping_add(u64::from(begun)));
    }

    /// Forgets what did not become certain.
    fn forget(&mut self) {
        self.accesses.clear();
        self.walks.clear();
        self.state &= !(PENDING | SINGLE | MISSED);
    }

    /// Reports the fetch of the running instruction, once.
    #[inline(always)]
    fn report_fetch(&mut self, insn: &Insn) {
        if self.state & (FETCHED | QUIET) == 0 {
            self.watch.fetched(&self.entered.instruction(insn));
        }
    }

    /// Something has been executed that may have changed the context, or nothing was reported yet.
    #[cold]
    #[inline(never)]
    fn report_changes(&mut self, cpu: &Cpu) {
        self.state |= IN_CONTEXT;
        let now = ExecutionContext::of(cpu);
        if self.context != Some(now) {
            self.context = Some(now);
            self.watch.changed(&now);
        }
    }

    /// An instruction begins, and the model is told of each.
    #[inline(never)]
    fn report_beginning(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn) {
        self.state &= !FETCHED;
        let Self { watch, entered, .. } = self;
        if self.state & ATTENTIVE != 0 && watch.begins(cpu, ram, insn, || entered.instruction(insn))
        {
            self.spent = self.watch.is_spent();
        }
    }

    /// Reports the accesses that are all an instruction did beside being fetched, and that could not be told at once.
    #[inline(never)]
    fn report_single(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        self.report_of(cpu, ram, block, insn);
        self.notice_attention(block, insn);
        if self.state & ATTENTIVE != 0 {
            self.watch.retired(cpu, ram, insn);
            self.spent = self.watch.is_spent();
        }
    }

    /// From the next instruction on, the model may want to be told of each.
    #[inline(always)]
    fn notice_attention(&mut self, block: &impl Code, insn: &Insn) {
        if self.watch.is_attentive() {
            self.entered = Fetch::of_block(self.entered.linear, block);
            self.state = self.state & !QUIET | ATTENTIVE;
            self.watch.attends_from(self.entered.linear.wrapping_add(u64::from(insn.end)));
        }
    }

    /// Reports what an instruction did beside being fetched: accesses, a control transfer, its retirement.
    #[inline(never)]
    fn report_effects(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn, traits: u8) {
        if W::SEES_ADDRESSES && traits & TOUCHES != 0 {
            self.touch(cpu, ram, insn);
        }
        if self.is_pending() {
            self.report_of(cpu, ram, block, insn);
            self.notice_attention(block, insn);
        }
        if traits & TRANSFERS != 0 {
            self.report_transfer(cpu, insn);
        }
        if self.state & ATTENTIVE != 0 {
            self.watch.retired(cpu, ram, insn);
        }
        if traits & CHANGES_CONTEXT != 0 {
            self.state &= !IN_CONTEXT;
        }
        if traits & SERIALISES != 0 {
            self.watch.serialised(cpu, insn);
        } else if traits & FENCES != 0 {
            self.watch.fenced();
        }
        if self.state & ATTENTIVE != 0 || traits & SERIALISES != 0 {
            self.spent = self.watch.is_spent();
        }
    }

    /// Reports the control transfer that an instruction is.
    #[inline(never)]
    fn report_transfer(&mut self, cpu: &Cpu, insn: &Insn) {
        if self.state & QUIET != 0
            && let Some(transfer) = self.transfer(cpu, insn)
            && self.watch.branched_quickly(&transfer)
        {
            return;
        }
        self.report_unexpected(cpu, insn);
    }

    /// The same of one that the model has to be told of.
    #[inline(never)]
    fn report_unexpected(&mut self, cpu: &Cpu, insn: &Insn) {
        if let Some(transfer) = self.transfer(cpu, insn) {
            self.watch.branched(&transfer);
        }
    }

    /// Reports the control transfer of a kind that the last instruction of a quiet block is, which has done
    /// nothing else that is to be told. Compiled for each kind that there is a short way for.
    #[inline(always)]
    fn report_last(&mut self, cpu: &Cpu, is_64_bit: bool, insn: &Insn, kind: TransferKind) {
        if !self.watch.branched_quickly(&self.transfer_of(cpu, is_64_bit, insn, kind)) {
            self.report_unexpected(cpu, insn);
        }
    }

    /// The control transfer that an instruction of the running block is.
    #[inline(always)]
    fn transfer(&self, cpu: &Cpu, insn: &Insn) -> Option<Transfer> {
        Some(self.transfer_of(cpu, cpu.in_64bit(), insn, transfer(insn)?))
    }

    /// The same of one of which it is known of what kind it is, and whether it has led to 64-bit code.
    #[inline(always)]
    fn transfer_of(&self, cpu: &Cpu, is_64_bit: bool, insn: &Insn, kind: TransferKind) -> Transfer {
        let from = self.entered.linear.wrapping_add(u64::from(insn.start()));
        let next = self.entered.linear.wrapping_add(u64::from(insn.end));
        let taken = match kind {
            TransferKind::Conditional => cpu.slot != NOT_TAKEN,
            // INTO may do nothing.
            TransferKind::Far => self.counting.committed().far != self.far,
            _ => true,
        };
        let to = if taken {
            cpu.linear_rip_in(is_64_bit)
        } else {
            let named = self.entered.linear.wrapping_add(insn.imm);
            if is_64_bit { named } else { named & 0xffff_ffff }
        };
        Transfer { from, next, to, kind, taken }
    }

    /// A prefetch and CLFLUSH access nothing; what they name is asked for here.
    fn touch(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn) {
        let Ok(linear) = cpu.linear(&insn.mem, 1, false) else { return };
        if let Some(walk) = cpu.look_up(ram, linear) {
            self.note(Access {
                linear,
                physical: walk.physical,
                second_page: None,
                bytes: 1,
                elements: 1,
                direction: Direction::Touch,
                target: Target::Memory,
            });
        }
    }
}

impl<W: Watch> Observer for Box<Watching<W>> {
    const COUNTS: bool = true;
    const FOLLOWS: bool = true;
    const SEES_ADDRESSES: bool = W::SEES_ADDRESSES;
    const MODELS: bool = W::MODELS;
    const STEPS_THROUGH: bool = true;

    #[inline(always)]
    fn counting(&mut self) -> Option<&mut Counting> {
        Some(&mut self.counting)
    }

    fn float_cases(&mut self, unit: FloatUnit, cases: FloatCases) {
        self.counting.float_cases(unit, cases);
        self.watch.float_cases(unit, cases);
    }

    fn observed(&mut self) -> Option<Observed<'_>> {
        let modelled = self.watch.modelled();
        Some(Observed { facts: self.counting.complete(), modelled })
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.spent
    }

    #[inline(always)]
    fn elements_at_once(&self, read: Option<(u64, u64)>, written: Option<(u64, u64)>) -> u64 {
        self.watch.elements_at_once(read, written)
    }

    fn last_step(&self) -> LastStep {
        self.watch.last_step()
    }

    fn keeps_time(&self) -> bool {
        self.watch.keeps_time()
    }

    #[inline(always)]
    fn take_cycles(&mut self) -> u64 {
        self.watch.take_cycles()
    }

    #[inline]
    fn entered(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        if self.state & IN_CONTEXT == 0 {
            self.report_changes(cpu);
        }
        // What is pending are walks for the fetch, which belong to no instruction's accesses. The
        // fetch has succeeded, so they are certain.
        if self.has_pending() {
            self.report(cpu, ram, |_| AccessKind::Stack);
        }
        self.entered = Fetch::of_block(cpu.linear_rip(), block);
        self.watch.entered(cpu, ram, block, &self.entered);
        self.far = self.counting.committed().far;
        self.state &= !(ATTENTIVE | QUIET);
        if !self.watch.is_attentive() {
            self.spent = false;
            return;
        }
        self.state |= ATTENTIVE;
        if W::MODELS {
            // What the fetch of the block did ends the run behind its first instruction.
            self.spent = self.watch.is_spent();
        }
    }

    #[inline]
    fn enters_in_steps(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code) {
        debug_assert!(!self.has_pending(), "no page tables were walked for the fetch");
        if self.state & IN_CONTEXT == 0 {
            self.report_changes(cpu);
        }
        self.watch.enters_in_steps(cpu, ram, block);
    }

    #[inline(always)]
    fn begins_apart(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        self.state = self.state & IN_CONTEXT | ATTENTIVE;
        self.entered.linear = cpu.linear_of_block(block.is_64_bit());
        let linear = self.entered.linear.wrapping_add(u64::from(insn.start()));
        self.watch.begins_apart(cpu, ram, block, insn, linear);
    }

    #[inline(always)]
    fn retired_apart(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        if self.is_pending() {
            self.report_of(cpu, ram, block, insn);
        }
        if usize::from(insn.index) + 1 == block.len()
            && let Some(kind) = block.transfer()
        {
            self.watch.branched(&self.transfer_of(cpu, block.is_64_bit(), insn, kind));
        }
        self.watch.retired(cpu, ram, insn);
    }

    #[inline(always)]
    fn enters_quietly(&mut self, cpu: &Cpu, block: &impl Code) -> bool {
        if !block.is_quiet() || self.state & (IN_CONTEXT | PENDING | FETCHED) != IN_CONTEXT {
            return false;
        }
        let linear = cpu.linear_rip_in(block.is_64_bit());
        if !self.watch.enters_quietly(cpu, block, linear) {
            return false;
        }
        self.entered.linear = linear;
        self.state = IN_CONTEXT | QUIET;
        self.spent = false;
        true
    }

    fn steps_through(&mut self, insn: &Insn) {
        // What is behind it was not fetched yet.
        self.report_leaving(insn.end);
        self.state |= ATTENTIVE;
    }

    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.state & QUIET != 0
    }

    #[inline(always)]
    fn has_pending(&self) -> bool {
        self.is_pending()
    }

    #[inline(always)]
    fn begins(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn) {
        if self.state & (ATTENTIVE | FETCHED) != 0 {
            self.report_beginning(cpu, ram, insn);
        }
    }

    #[inline(always)]
    fn retired(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        self.report_fetch(insn);
        let traits = TRAITS[insn.op as usize];
        match traits | self.state & (PENDING | ATTENTIVE) {
            0 => {}
            TRANSFERS => self.report_transfer(cpu, insn),
            PENDING => self.report_single(cpu, ram, block, insn),
            _ => self.report_effects(cpu, ram, block, insn, traits),
        }
    }

    fn interrupted(&mut self, _: &Cpu, insn: &Insn) {
        if insn.index == 0 {
            self.report_leaving(insn.end);
        } else {
            // Those before it are finished next.
            self.begun = insn.end;
        }
    }

    #[inline(always)]
    fn finished(&mut self, _: &Cpu, block: &impl Code, count: usize) {
        if count < block.len() {
            self.finished_part(block, count);
        }
    }

    #[inline(always)]
    fn last_retired(&mut self, cpu: &Cpu, ram: &Ram, block: &impl Code, insn: &Insn) {
        use TransferKind as Kind;
        if self.has_pending() {
            return self.retired(cpu, ram, block, insn);
        }
        // Where a near transfer leads, code is of the same size.
        let is_64_bit = block.is_64_bit();
        match block.transfer() {
            Some(Kind::Conditional) => {
                self.report_last(cpu, is_64_bit, insn, Kind::Conditional);
            }
            Some(Kind::Jump) => self.report_last(cpu, is_64_bit, insn, Kind::Jump),
            Some(Kind::Call) => self.report_last(cpu, is_64_bit, insn, Kind::Call),
            Some(Kind::Return) => self.report_last(cpu, is_64_bit, insn, Kind::Return),
            _ => self.retired(cpu, ram, block, insn),
        }
    }

    fn delivering(&mut self, cpu: &Cpu) {
        self.forget();
        self.state &= !(QUIET | IN_CONTEXT);
        self.interrupted_at = cpu.linear_rip();
        self.watch.at(cpu.time);
        self.watch.delivering();
    }

    fn delivered(&mut self, cpu: &Cpu, ram: &Ram, delivery: Delivery) {
        self.report(cpu, ram, |_| AccessKind::Stack);
        self.watch.delivered(delivery, self.interrupted_at, cpu.linear_rip());
        self.report_changes(cpu);
        self.spent = self.watch.is_spent();
    }

    #[inline(always)]
    fn accessed_page(&mut self, linear: u64, physical: u64, bytes: u32, direction: Direction) {
        let at_once = self.state & (QUIET | PENDING) == QUIET;
        if !(at_once && self.watch.finds_again(linear, physical, bytes, direction)) {
            match direction {
                Direction::Load => self.note_access::<true, false>(linear, physical, bytes),
                Direction::Store => self.note_access::<false, true>(linear, physical, bytes),
                Direction::Modify => self.note_access::<true, true>(linear, physical, bytes),
                Direction::Touch => self.note_access::<false, false>(linear, physical, bytes),
            }
        }
    }

    #[inline(always)]
    fn accessed_last(
        &mut self,
        cpu: &Cpu,
        insn: &Insn,
        linear: u64,
        physical: u64,
        bytes: u32,
        direction: Direction,
    ) {
        let at_once = self.state & (QUIET | PENDING) == QUIET;
        if !(at_once && self.watch.finds_again(linear, physical, bytes, direction)) {
            match direction {
                Direction::Load => {
                    self.note_last::<true, false>(cpu, insn, linear, physical, bytes);
                }
                Direction::Store => {
                    self.note_last::<false, true>(cpu, insn, linear, physical, bytes);
                }
                _ => self.accessed_page(linear, physical, bytes, direction),
            }
        }
    }

    #[inline(always)]
    fn accessed(&mut self, access: Access) {
        self.note(access);
    }

    fn walked(&mut self, walk: &Walk) {
        self.spread();
        self.walks.push((self.accesses.len(), *walk));
        self.state |= PENDING;
    }

    fn commit(&mut self, cpu: &Cpu, ram: &Ram, insn: &Insn) {
        self.counting.commit();
        self.report_fetch(insn);
        self.state |= FETCHED;
        self.watch.at(cpu.now(insn));
        self.report(cpu, ram, |access| kind(insn, access.direction, Class::NONE));
        self.watch.iterated(insn);
        self.spent = self.watch.is_spent();
    }

    fn roll_back(&mut self, mark: Mark) {
        self.counting.roll_back(mark);
        self.forget();
    }
}

/// Stands where there is none.
const NO_ACCESS: Access = Access {
    linear: 0,
    physical: 0,
    second_page: None,
    bytes: 0,
    elements: 0,
    direction: Direction::Load,
    target: Target::Memory,
};

// In [`Watching::state`], in bits that nothing in [`reports::TRAITS`] has where both are looked at.
/// There are accesses or walks that are not yet certain.
const PENDING: u8 = 1 << 6;
/// There is one access and nothing else.
const SINGLE: u8 = 1 << 3;
/// It is one that the model did not find, and of which nothing has been told since.
const MISSED: u8 = 1 << 0;
/// The model is told of each instruction of the block.
const ATTENTIVE: u8 = 1 << 7;
/// The fetch of the running instruction was reported, with finished iterations.
const FETCHED: u8 = 1 << 2;
/// The context is the one that was last reported: nothing has been executed since that may change it.
const IN_CONTEXT: u8 = 1 << 5;
/// The model is not told of each instruction of the block, and accesses are certain at once.
const QUIET: u8 = 1 << 4;
