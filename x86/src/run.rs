//! The run loop: executes block after block until the budget is used up or the owner has to act.

use crate::{
    access::OF_DEVICE,
    block::{
        Block, BlockId, Code, Ending, Jump, Link, MAX_INSNS, Mapping, Mode, TRANSIENT, Translations,
    },
    bus::Uncounted,
    cpu::{Cpu, Shadow},
    flags,
    insn::{BLOCK_BASE, Insn, Op, seg},
    lower::{Lowering, lower_block},
    observe::{Cx, Observer},
    ram::PAGE,
    stop::{Exec, Leave, Stop},
    timing::Budget,
    watch::TransferKind,
};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The budget is used up.
    Deadline,
    /// Something may have changed that the owner has to act on: pending interrupts, devices, counters,
    /// or the privilege by which it counts.
    Leave,
    /// PAUSE or DELAY, with [`Cpu::leaves_at_pause`].
    Pause,
    /// The processor is halted.
    Halt,
    /// The processor has shut down: a triple fault.
    Shutdown,
}

/// What follows a block that has been executed.
enum Next<'a, O> {
    /// This block.
    Block(&'a Block<O>),
    /// One that is to be looked up, and linked at this slot if there is such.
    Unknown(usize),
    /// What the run loop finds once it has looked at what may have changed.
    Look,
}

/// Most bytes of an instruction.
const LONGEST: usize = 15;

impl Cpu {
    /// Runs until the budget is used up or another reason in [`Exit`].
    ///
    /// The run ends between two instructions, or between two iterations of a repeated one. An
    /// instruction that takes several cycles is finished when it has begun, also if its last cycle is
    /// beyond the budget.
    pub fn run<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        budget: Budget,
    ) -> Exit {
        if self.halted {
            return Exit::Halt;
        }
        self.bound(budget, self.retired);
        self.cycle_costs = translations.cycle_costs;
        self.leave = Leave::default();
        self.overwrote = false;
        self.paused = false;
        let mut alone = false;
        let mut first = true;
        loop {
            if self.is_spent() && !self.renews_budget(cx) {
                return Exit::Deadline;
            }
            // Whether the first instruction is to be executed, the owner has asked before.
            if !std::mem::take(&mut first) && (self.stops_here() || self.has_watch_hit()) {
                return Exit::Leave;
            }
            if self.time < self.delayed_until {
                self.pass(self.delayed_until.min(self.deadline) - self.time);
                continue;
            }
            self.notice_code(cx, translations);
            let stepping = std::mem::take(&mut alone)
                || self.uncached
                || self.watch.code != 0
                || self.system_flags & (flags::TF | flags::RF) != 0
                || self.shadow != Shadow::None;
            let result = if stepping {
                self.step(cx, translations)
            } else if self.stops.is_none() {
                if O::MODELS {
                    self.chain_modelled(cx, translations)
                } else if O::HEEDS && self.alike_left != 0 && !self.alike.iterations {
                    self.chain_alike(cx, translations)
                } else {
                    self.chain::<O, false>(cx, translations)
                }
            } else {
                self.chain::<O, true>(cx, translations)
            };
            self.alone = true;
            let result = match result {
                Err(stop) if stop.exception().is_some() => {
                    self.debug_hits = 0;
                    self.raise(cx, stop)
                }
                other => other,
            };
            match result {
                Ok(()) | Err(Stop::RESTART | Stop::LEAVE) => {}
                Err(Stop::ALONE) => {
                    // What the instruction has asked for until then, it asks for again when it is executed.
                    // If the run ended here, the next would begin with it in the middle of a block again.
                    self.leave = Leave::default();
                    self.overwrote = false;
                    alone = true;
                    continue;
                }
                Err(Stop::HALT) => {
                    self.halted = true;
                    return Exit::Halt;
                }
                Err(_) => return Exit::Shutdown,
            }
            // Data breakpoints that the finished instruction met.
            if self.debug_hits != 0
                && let Some(stop) = self.debug_trap(false)
                && self.raise(cx, stop).is_err()
            {
                return Exit::Shutdown;
            }
            if self.leave.is_asked() || O::MODELS && cx.observer.is_spent() {
                return if self.paused { Exit::Pause } else { Exit::Leave };
            }
        }
    }

    /// The budget is used up: whether the owner gives another one, with which the run goes on.
    #[inline(never)]
    fn renews_budget<O: Observer>(&mut self, cx: &mut Cx<'_, O>) -> bool {
        self.tell_place(cx);
        self.renews_budget_at(cx, self.time, self.retired)
    }

    /// The same at this time, when so many instructions have retired.
    #[inline(always)]
    fn renews_budget_at<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        time: u64,
        retired: u64,
    ) -> bool {
        let last_step = cx.observer.last_step();
        let Some(observed) = cx.observer.observed() else { return false };
        let alike = self.take_alike();
        let uncounted = Uncounted { observed, time, retired, alike };
        let Some(budget) = cx.bus.renew_budget(uncounted, last_step) else { return false };
        self.bound(budget, retired);
        if self.alike_left != 0 {
            cx.observer.heed();
        }
        time < self.deadline && retired < self.retire_until
    }

    /// Whether the step that ends at `time`, when so many instructions have retired, was the whole budget, and is one of
    /// those that pass alike: there is the same budget again.
    #[inline(always)]
    fn passes_alike<O: Observer>(&mut self, cx: &Cx<'_, O>, time: u64, retired: u64) -> bool {
        let passes = O::HEEDS
            && self.alike_left != 0
            && !self.alike.iterations
            && time == self.deadline
            && retired == self.retire_until
            && !cx.observer.has_occurred(self.alike.heeded);
        if passes {
            self.go_on_alike(1);
        }
        passes
    }

    /// Drops blocks whose code was overwritten, and closes the fast path of writes to pages that hold
    /// code now.
    #[inline]
    pub(crate) fn notice_code<O: Observer>(
        &mut self,
        cx: &Cx<'_, O>,
        translations: &mut Translations<O>,
    ) {
        translations.notice_writes(cx.ram);
        self.tlb.notice_code(cx.ram);
    }

    /// Runs one instruction with everything that can come between two: breakpoints, the trap flag,
    /// the resume flag, the interrupt shadow.
    pub(crate) fn step<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Exec<()> {
        let before = self.system_flags;
        let shadow = self.shadow;
        let held_back = shadow == Shadow::MovSs && !self.features.breakpoint_after_ss;
        if self.watch.code != 0 && before & flags::RF == 0 && !held_back {
            let linear = self.linear_rip();
            if let Some(stop) = self.code_match(cx, linear) {
                return Err(stop);
            }
        }
        let id = if self.uncached {
            self.lookup_slow(cx, translations, self.linear_rip())?
        } else {
            self.lookup(cx, translations)?
        };
        let block = translations.block(id);
        if self.code_is_limited(block) {
            self.within_limit(block)?;
        }
        let retired = self.retired;
        self.shadow = Shadow::None;
        // An IRET before this one may have left RF_LOADED here.
        self.slot = 2;
        let result = match self.execute_first(cx, block, 1) {
            Err(Stop::LEAVE) => Ok(()),
            other => other,
        };
        let done = self.retired > retired || result == Err(Stop::HALT);
        if !done {
            if result.is_err() {
                self.shadow = shadow;
            }
            return result;
        }
        if before & flags::RF != 0 && self.slot != RF_LOADED {
            self.system_flags &= !flags::RF;
        }
        if self.slot == RF_LOADED {
            self.slot = 2;
        }
        if shadow != Shadow::None && self.interrupt_waits {
            self.leave.ask();
        }
        match result {
            // A trap ends the halt before it begins.
            Ok(()) | Err(Stop::HALT) => {
                self.debug_trap(before & flags::TF != 0).map_or(result, Err)
            }
            other => other,
        }
    }

    /// Runs block after block. `STOPS`: there are [`Cpu::stops`], and the first instruction is to be executed.
    fn chain<O: Observer, const STOPS: bool>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Exec<()> {
        let first = self.lookup(cx, translations)?;
        let mut block = translations.block(first);
        if self.leave.is_asked() {
            return self.execute_allowed(cx, block);
        }
        loop {
            if !self.can_afford(block)
                || self.code_is_limited(block)
                || STOPS && self.before_stop(block) < block.ops.len()
            {
                return self.execute_allowed(cx, block);
            }
            self.execute(cx, block)?;
            if STOPS && self.has_watch_hit() {
                return Ok(());
            }
            block = match self.next_block(translations, block) {
                Next::Block(next) => next,
                Next::Unknown(slot) => {
                    // Looking up the next block may fault, which must not happen beyond the budget or a stop.
                    if self.is_spent() || STOPS && self.stops_here() {
                        return Ok(());
                    }
                    let from = block.id();
                    let next = self.link(cx, translations, from, slot)?;
                    if self.leave.is_asked() {
                        return self.execute_allowed(cx, translations.block(next));
                    }
                    translations.block(next)
                }
                Next::Look => return Ok(()),
            };
        }
    }

    /// As [`Self::chain`] without stops, as long as each step passes alike.
    #[inline(never)]
    fn chain_alike<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Exec<()> {
        let first = self.lookup(cx, translations)?;
        let mut block = translations.block(first);
        loop {
            if self.leave.is_asked() || !self.may_step_through(block) || self.code_is_limited(block)
            {
                return self.execute_allowed(cx, block);
            }
            self.execute_in_steps(cx, block, block.ops.len())?;
            if !self.passes_alike(cx, self.time, self.retired) {
                return Ok(());
            }
            block = match self.next_block(translations, block) {
                Next::Block(next) => next,
                Next::Unknown(slot) => {
                    let from = block.id();
                    let next = self.link(cx, translations, from, slot)?;
                    translations.block(next)
                }
                Next::Look => return Ok(()),
            };
        }
    }

    /// As [`Self::chain`] without stops, under an observer with a model. How many blocks are within the budget for
    /// certain is worked out for some at a time, as long as they are entered quietly: such a block takes a bounded time,
    /// and does not change the budget if a branch ends it.
    // Apart from the run loop, the compiler keeps more of it in registers.
    #[inline(never)]
    fn chain_modelled<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Exec<()> {
        let first = self.lookup(cx, translations)?;
        let mut block = translations.block(first);
        if self.leave.is_asked() {
            return self.execute_allowed(cx, block);
        }
        let mut within = 0;
        loop {
            if within == 0 {
                cx.observer.block_finished();
                within = self.blocks_within(translations.log2_of_cycles());
            }
            if within != 0
                && !self.code_is_limited(block)
                && cx.observer.enters_quietly(self, block)
            {
                self.execute_quietly(cx, block)?;
                within = if block.ending == Ending::Branch { within - 1 } else { 0 };
            } else if !self.can_afford(block) || self.code_is_limited(block) {
                return self.execute_allowed(cx, block);
            } else {
                // Near the end of the budget, it may enter this one quietly all the same.
                self.execute_modelled(cx, block, within == 0)?;
                within = 0;
            }
            block = match self.next_block(translations, block) {
                Next::Block(next) => next,
                Next::Unknown(slot) => {
                    if self.is_spent() {
                        return Ok(());
                    }
                    let from = block.id();
                    let next = self.link(cx, translations, from, slot)?;
                    if self.leave.is_asked() {
                        return self.execute_allowed(cx, translations.block(next));
                    }
                    // It may be a new one, which takes longer than any before.
                    within = 0;
                    translations.block(next)
                }
                Next::Look => return Ok(()),
            };
        }
    }

    /// The block that follows one which has been executed.
    #[inline(always)]
    fn next_block<'a, O: Observer>(
        &self,
        translations: &'a Translations<O>,
        block: &Block<O>,
    ) -> Next<'a, O> {
        let slot = match block.ending {
            Ending::Branch => self.slot as usize,
            Ending::Through => 0,
            Ending::Fall => return Next::Look,
        };
        if slot < 2 {
            let link = block.links[slot].get();
            if let Some(next) = translations.get(link.target)
                && link.mapping.is_none_or(|mapping| mapping == self.mapping())
            {
                return Next::Block(next);
            }
        } else if self.system_flags & (flags::TF | flags::RF) != 0 {
            return Next::Look;
        } else {
            // What a near transfer leads to is lowered as what it comes from.
            let mode = match block.transfer() {
                Some(
                    TransferKind::Return | TransferKind::IndirectJump | TransferKind::IndirectCall,
                ) => block.mode,
                _ => Lowering::mode_of(self),
            };
            debug_assert!(mode == Lowering::mode_of(self));
            let linear = self.linear_rip_in(mode == Mode::BITS_64);
            let jump = Jump { linear, mode, mmu: self.mmu as u8 };
            if let Some(next) = translations.find_jump(&jump, &self.tlb.epochs) {
                return Next::Block(next);
            }
        }
        Next::Unknown(slot)
    }

    /// How many blocks that are entered quietly are within the budget whatever they are, but no more than a few:
    /// fewer than fill a half of what [`Observer::block_finished`] looks after, if each of their instructions makes as
    /// many accesses as FXSAVE.
    #[inline(always)]
    fn blocks_within(&self, log2_of_cycles: u32) -> u64 {
        const MOST: u64 = 128;
        const _: () = assert!(MOST * MAX_INSNS as u64 * 2 * 64 < 1 << 20 && MAX_INSNS < 64);
        let by_time = self.deadline.saturating_sub(self.time) >> log2_of_cycles;
        let by_steps = self.retire_until.saturating_sub(self.retired) >> 6;
        by_time.min(by_steps).min(MOST)
    }

    /// The block at RIP, to which the block `from` gets a link at `slot` if it has that many.
    #[inline(never)]
    fn link<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        from: BlockId,
        slot: usize,
    ) -> Exec<u32> {
        let next = self.lookup(cx, translations)?;
        let block = translations.block(next);
        if slot < 2
            && block.place != TRANSIENT
            && let Some(from) = translations.get(from).filter(|from| from.place != TRANSIENT)
            && block.mode == from.mode
        {
            let mapping = (!self.stays_in_page(from, slot, block)).then(|| self.mapping());
            from.links[slot].set(Link { target: block.id(), mapping });
        }
        Ok(next)
    }

    /// Whether the budget allows all instructions of the block.
    #[inline(always)]
    fn can_afford<O>(&self, block: &Block<O>) -> bool {
        self.time + u64::from(block.last_begins) < self.deadline
            && self.retired + block.ops.len() as u64 <= self.retire_until
    }

    /// Executes as much of a block as the budget, the limit of CS and the stops allow, if anything.
    #[cold]
    fn execute_allowed<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>) -> Exec<()> {
        if self.is_spent() {
            return Ok(());
        }
        let within =
            if self.code_is_limited(block) { self.within_limit(block)? } else { block.ops.len() };
        // The walk to the code has overwritten translated code: its accessed bits are where that was.
        let within = if self.leave.is_asked() { 1 } else { within };
        let most = within.min(self.before_stop(block));
        match most.min(self.affordable(block)) {
            0 => Ok(()),
            1 if most > 1 && self.may_step_through::<O>(block) => {
                self.execute_in_steps(cx, block, most)
            }
            count => self.execute_first(cx, block, count),
        }
    }

    /// Whether what was observed may be taken in the middle of the block. Classes are told where it ends; and who is told
    /// where the processor is looks between two blocks.
    fn may_step_through<O: Observer>(&self, block: &Block<O>) -> bool {
        O::STEPS_THROUGH && block.classes.is_none() && !self.tells_place
    }

    /// Executes the first `most` instructions of a block, as far as the owner gives another budget wherever one is used
    /// up: the same as if the block ended there, without looking up the next.
    #[inline(never)]
    fn execute_in_steps<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        most: usize,
    ) -> Exec<()> {
        self.execute_ops::<O, false, true>(cx, block, &block.ops[..most])
    }

    /// Whether the budget, or another one that the owner gives, allows an instruction in the middle of a block, before
    /// which all others have retired.
    #[inline(always)]
    fn goes_on_before<O: Observer>(&mut self, cx: &mut Cx<'_, O>, next: &Insn) -> bool {
        let (time, retired) = (self.now(next), self.retired + u64::from(next.index));
        time < self.deadline && retired < self.retire_until
            || self.passes_alike(cx, time, retired)
            || self.renews_budget_at(cx, time, retired)
    }

    /// The same between two iterations of an instruction, of which one or the budget says that it stops: whether only the
    /// budget does, and there is another. Nothing before it in its block is yet to be told.
    #[inline(never)]
    pub(crate) fn goes_on_between_iterations<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        insn: &Insn,
    ) -> bool {
        O::STEPS_THROUGH
            && insn.index == 0
            && !self.tells_place
            && self.stops.is_none()
            && !self.leave.is_asked()
            && self.system_flags & flags::TF == 0
            && self.renews_budget_at(cx, self.now(insn), self.retired_before(insn))
    }

    /// The further cycles of a branch that is taken. Most clocks have none: that is asked for, so that
    /// not every such branch has to wait for the time.
    #[inline(always)]
    pub(crate) fn spend_taken(&mut self) {
        if self.cycle_costs.taken != 0 {
            self.time += u64::from(self.cycle_costs.taken);
        }
    }

    /// Whether the budget is used up.
    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.time >= self.deadline || self.retired >= self.retire_until
    }

    /// How many instructions of the block the budget, which is not used up, allows.
    #[cold]
    fn affordable<O>(&self, block: &Block<O>) -> usize {
        let (cycles, steps) = (self.deadline - self.time, self.retire_until - self.retired);
        if steps == 1 {
            return 1;
        }
        let begin = block.ops.partition_point(|op| u64::from(op.insn.before) < cycles);
        begin.min(usize::try_from(steps).unwrap_or(usize::MAX))
    }

    /// The mapping by which RIP leads to its block.
    #[inline]
    fn mapping(&self) -> Mapping {
        Mapping { linear: self.linear_rip(), space: self.tlb.space(self.mmu) }
    }

    /// Whether a link from `from` to `to` is valid wherever the page is mapped: both are in one page,
    /// and the distance of the branch is the same in linear as in physical memory, at any address.
    fn stays_in_page<O>(&self, from: &Block<O>, slot: usize, to: &Block<O>) -> bool {
        let page = |gpa| gpa & !(PAGE - 1);
        let distance = self.rip.wrapping_sub(self.regs[usize::from(BLOCK_BASE)]);
        page(from.gpa) == page(to.gpa)
            && to.second_page().is_none()
            && !(from.wraps() && slot == 1)
            && distance == to.gpa.wrapping_sub(from.gpa)
    }

    /// How many of the block's instructions are inside the limit of CS; #GP(0) if not one is (AMD64
    /// APM volume 2, section 4.12.1).
    #[cold]
    fn within_limit<O>(&self, block: &Block<O>) -> Exec<usize> {
        let limit = u64::from(self.segment(seg::CS).limit);
        let room = (limit + 1).saturating_sub(self.rip);
        let inside = block.ops.iter().take_while(|op| u64::from(op.insn.end) <= room).count();
        if inside == 0 { Err(Stop::GP0) } else { Ok(inside) }
    }

    /// Whether the block reaches beyond the limit of CS.
    #[inline(always)]
    fn code_is_limited<O>(&self, block: &Block<O>) -> bool {
        self.segments[usize::from(seg::CS)].limit != u32::MAX && self.reaches_limit(block)
    }

    /// The same where CS has a limit, which 64-bit mode ignores.
    #[cold]
    #[inline(never)]
    fn reaches_limit<O>(&self, block: &Block<O>) -> bool {
        let limit = self.segments[usize::from(seg::CS)].limit;
        !self.in_64bit() && self.rip + u64::from(block.bytes) > u64::from(limit) + 1
    }

    /// Executes a block, unless an instruction of it ends the run. RIP and time are right afterwards,
    /// whatever happened.
    #[inline(always)]
    fn execute<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>) -> Exec<()> {
        if O::MODELS {
            return self.execute_modelled(cx, block, true);
        }
        if O::COUNTS && (block.marks || O::SEES_ADDRESSES) {
            return self.execute_first(cx, block, block.ops.len());
        }
        self.execute_ops::<O, true, false>(cx, block, &block.ops)
    }

    /// Executes the first `count` instructions of a block; RIP and time as with [`Cpu::execute`]. The
    /// accesses of an instruction that faults are taken back.
    #[inline(never)]
    fn execute_first<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        count: usize,
    ) -> Exec<()> {
        self.execute_ops::<O, false, false>(cx, block, &block.ops[..count])
    }

    /// Executes the instructions that the block begins with. `SIMPLE`: they are all of them, and there
    /// is nothing to take back from one that faults. `STEPS`: the budget is looked at before each but the first.
    #[inline(always)]
    fn execute_ops<O: Observer, const SIMPLE: bool, const STEPS: bool>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        ops: &[Op<O>],
    ) -> Exec<()> {
        self.regs[usize::from(BLOCK_BASE)] = self.rip;
        self.alone = ops.len() == 1;
        if O::FOLLOWS {
            cx.observer.entered(self, cx.ram, block);
            if SIMPLE && !O::MODELS && cx.observer.is_quiet() {
                return self.execute_untold(cx, block, ops);
            }
        }
        self.execute_told::<O, SIMPLE, STEPS>(cx, block, ops)
    }

    /// Executes all instructions of a block that has been entered, of which the observer need not be told one by
    /// one. None has an access to take back.
    #[inline(always)]
    fn execute_untold<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        ops: &[Op<O>],
    ) -> Exec<()> {
        for op in ops {
            let done = (op.run)(self, cx, &op.insn);
            if !self.leave.goes_on_after(done) {
                return Err(self.end_early(cx, block, &op.insn, done));
            }
        }
        self.finish(cx, block);
        Ok(())
    }

    /// Executes instructions of a block that has been entered, behind those that have retired, and tells the
    /// observer of each that wants to know. `STEPS`: the budget is looked at before each but the first.
    #[inline(always)]
    fn execute_told<O: Observer, const SIMPLE: bool, const STEPS: bool>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        ops: &[Op<O>],
    ) -> Exec<()> {
        // The run may end before the block does.
        let exactly = O::MODELS || STEPS || !SIMPLE && ops.len() != block.ops.len();
        let mut rest = ops.iter();
        let Some(mut op) = rest.next() else { return Ok(()) };
        loop {
            if O::FOLLOWS {
                cx.observer.begins(self, cx.ram, &op.insn);
            }
            let mark = cx.observer.mark();
            let run = if exactly { op.run_exactly() } else { op.run };
            let done = run(self, cx, &op.insn);
            if !self.leave.goes_on_after(done) {
                if !SIMPLE
                    && let Err(stop) = done
                    && (stop.exception().is_some() || stop == Stop::ALONE)
                {
                    cx.observer.roll_back(mark);
                }
                return Err(self.tell_and_end(cx, block, &op.insn, done));
            }
            if O::FOLLOWS {
                cx.observer.retired(self, cx.ram, block, &op.insn);
                if STEPS && op.insn.index == 0 {
                    cx.observer.steps_through(&op.insn);
                }
            }
            if O::MODELS {
                self.pass_modelled(cx);
                if cx.observer.is_spent() || !STEPS && self.time >= self.deadline {
                    self.leave.ask();
                    return Err(self.end_early(cx, block, &op.insn, Ok(())));
                }
            }
            match rest.next() {
                Some(next) if !STEPS || self.goes_on_before(cx, &next.insn) => op = next,
                _ => break,
            }
        }
        if SIMPLE {
            self.finish(cx, block);
        } else {
            self.finish_first(cx, block, usize::from(op.insn.index) + 1);
        }
        Ok(())
    }

    /// Tells the observer that an instruction retired, if it did; then as [`Self::end_early`].
    #[cold]
    #[inline(never)]
    fn tell_and_end<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        insn: &Insn,
        done: Exec<()>,
    ) -> Stop {
        if O::FOLLOWS && done.is_ok() {
            cx.observer.retired(self, cx.ram, block, insn);
            self.pass_modelled(cx);
        }
        self.end_early(cx, block, insn, done)
    }

    /// An instruction of the block is the last that is executed: it ended with an error, or the run is to
    /// end behind it. Why the block does not go on.
    #[cold]
    #[inline(never)]
    fn end_early<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        insn: &Insn,
        done: Exec<()>,
    ) -> Stop {
        let at = usize::from(insn.index);
        match done {
            Ok(()) => {
                self.finish_first(cx, block, at + 1);
                Stop::LEAVE
            }
            Err(stop) => {
                self.stopped(cx, block, at, stop);
                stop
            }
        }
    }

    /// Executes a block under an observer with a model. `asks`: it has yet to say whether it enters the block
    /// quietly; else it does not.
    #[inline(never)]
    fn execute_modelled<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        asks: bool,
    ) -> Exec<()> {
        if asks && cx.observer.enters_quietly(self, block) {
            let done = self.execute_quietly(cx, block);
            cx.observer.block_finished();
            return done;
        }
        self.execute_first(cx, block, block.ops.len())
    }

    /// Executes a block that has been entered quietly: the observer need not be told of each instruction. What
    /// [`Observer::block_finished`] looks after is the caller's concern.
    #[inline(always)]
    fn execute_quietly<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>) -> Exec<()> {
        self.regs[usize::from(BLOCK_BASE)] = self.rip;
        self.alone = block.ops.len() == 1;
        let mut rest = block.ops.iter();
        let Some(mut op) = rest.next() else { return Ok(()) };
        let done = loop {
            let done = (op.run)(self, cx, &op.insn);
            let Some(next) = rest.next() else { break done };
            if cx.observer.has_pending() || !self.leave.goes_on_after(done) {
                self.notice_quiet(cx, block, &op.insn, done)?;
                if !cx.observer.is_quiet() {
                    return self.execute_rest(cx, block, usize::from(next.insn.index));
                }
            }
            op = next;
        };
        if done.is_ok() {
            cx.observer.last_retired(self, cx.ram, block, &op.insn);
            if cx.observer.is_spent() {
                self.leave.ask();
            }
        }
        if !self.leave.goes_on_after(done) {
            return Err(self.end_quiet(cx, block, &op.insn, done));
        }
        self.finish_but_for_counts(cx, block);
        Ok(())
    }

    /// An instruction of such a block, which is not its last, did something that the observer has to be told,
    /// or the block does not go on behind it.
    // Cold: the loop that calls it keeps its registers.
    #[cold]
    #[inline(never)]
    fn notice_quiet<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        insn: &Insn,
        done: Exec<()>,
    ) -> Exec<()> {
        if done.is_ok() && cx.observer.has_pending() {
            cx.observer.retired(self, cx.ram, block, insn);
            if cx.observer.is_spent() {
                self.leave.ask();
            }
        }
        if self.leave.goes_on_after(done) {
            Ok(())
        } else {
            Err(self.end_quiet(cx, block, insn, done))
        }
    }

    /// As [`Self::end_early`]. An instruction of such a block has accessed nothing when it faults, but may
    /// have walked page tables.
    #[cold]
    #[inline(never)]
    fn end_quiet<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        insn: &Insn,
        done: Exec<()>,
    ) -> Stop {
        if let Err(stop) = done
            && (stop.exception().is_some() || stop == Stop::ALONE)
        {
            let mark = cx.observer.mark();
            cx.observer.roll_back(mark);
        }
        self.end_early(cx, block, insn, done)
    }

    /// Executes the instructions of a block from number `first` on, of which the observer wants to be told.
    #[inline(never)]
    fn execute_rest<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        first: usize,
    ) -> Exec<()> {
        self.execute_told::<O, false, false>(cx, block, &block.ops[first..])
    }

    /// Lets the cycles pass that a model tells.
    #[inline(always)]
    pub(crate) fn pass_modelled<O: Observer>(&mut self, cx: &mut Cx<'_, O>) {
        if O::MODELS {
            self.time += cx.observer.take_cycles();
        }
    }

    /// The block retired.
    #[inline(always)]
    fn finish<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>) {
        cx.observer.block_finished();
        self.finish_but_for_counts(cx, block);
    }

    /// The same but for [`Observer::block_finished`].
    #[inline(always)]
    fn finish_but_for_counts<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>) {
        self.time += u64::from(block.cycles);
        self.retired += block.ops.len() as u64;
        if O::COUNTS
            && let Some(classes) = &block.classes
        {
            cx.observer.retired_classes(classes.sums());
        }
        if block.ending != Ending::Branch {
            self.rip = self.rip_at(block.bytes);
        }
        if O::FOLLOWS {
            cx.observer.finished(self, block, block.ops.len());
        }
    }

    /// The first `count` instructions of the block retired.
    #[inline(always)]
    fn finish_first<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>, count: usize) {
        if count == block.ops.len() {
            self.finish(cx, block);
        } else {
            self.finish_part(cx, block, count);
        }
    }

    /// The same, of some but not all of them.
    #[inline(never)]
    fn finish_part<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>, count: usize) {
        self.time += u64::from(block.ops[count].insn.before);
        self.retired += count as u64;
        cx.observer.block_finished();
        if O::COUNTS
            && let Some(classes) = &block.classes
        {
            cx.observer.retired_classes(&classes.sums_of_first(count));
        }
        self.rip = self.rip_at(block.ops[count - 1].insn.end);
        if O::FOLLOWS {
            cx.observer.finished(self, block, count);
        }
    }

    /// Instruction `at` of the block ended with `stop`: the instructions before it retire, and so does
    /// HLT; any other leaves RIP at itself.
    #[cold]
    #[inline(never)]
    fn stopped<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        at: usize,
        stop: Stop,
    ) {
        let insn = &block.ops[at].insn;
        if stop == Stop::HALT {
            if O::FOLLOWS {
                cx.observer.retired(self, cx.ram, block, insn);
            }
            self.pass_modelled(cx);
            self.finish_first(cx, block, at + 1);
        } else {
            if O::FOLLOWS {
                cx.observer.interrupted(self, insn);
            }
            if at > 0 {
                self.finish_first(cx, block, at);
            }
            self.rip = self.rip_at(insn.start());
        }
    }

    /// Linear address of the next instruction.
    #[must_use]
    pub fn linear_rip(&self) -> u64 {
        self.linear_rip_in(self.in_64bit())
    }

    /// The same where it is known whether the code is of 64 bits.
    #[inline(always)]
    pub(crate) fn linear_rip_in(&self, is_64_bit: bool) -> u64 {
        if is_64_bit {
            self.rip
        } else {
            self.segment(seg::CS).base.wrapping_add(self.rip) & 0xffff_ffff
        }
    }

    /// The block at RIP, translated if need be; or the fault of its fetch.
    #[inline(always)]
    fn lookup<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Exec<u32> {
        match translations.find_jump(&self.jump(), &self.tlb.epochs) {
            Some(block) => Ok(block.place),
            None => self.lookup_slow(cx, translations, self.linear_rip()),
        }
    }

    /// As [`Self::lookup`], on a miss of the jump cache.
    #[inline(never)]
    fn lookup_slow<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        linear: u64,
    ) -> Exec<u32> {
        let lowering = Lowering::of(self);
        let mode = lowering.mode();
        if !self.in_64bit() && self.rip > u64::from(self.segment(seg::CS).limit) {
            return Err(Stop::GP0);
        }
        let (gpa, mut global) = self.translate_code(cx, linear)?;
        // The walk may have set an accessed bit in a page that also holds translated code.
        self.notice_code(cx, translations);
        if self.uncached || cx.ram.page(gpa).is_none() {
            let block = self.lower_at(cx, lowering, linear, gpa, 1)?;
            return Ok(translations.put_transient(block));
        }
        let mut found = translations.find(gpa, mode);
        if let Some(id) = found
            && translations.block(id).second_page().is_some()
        {
            let next = self.translate_second(cx, linear)?;
            self.notice_code(cx, translations);
            global &= next.1;
            let is_same = |&id: &u32| translations.block(id).second_page() == Some(next.0);
            found = translations.find(gpa, mode).filter(is_same);
        }
        let id = match found {
            Some(id) => id,
            None => {
                let block = self.lower_at(cx, lowering, linear, gpa, MAX_INSNS)?;
                if let Some(second) = block.second_page() {
                    if cx.ram.page(second).is_none() {
                        return Ok(translations.put_transient(block));
                    }
                    global &= self.translate_second(cx, linear)?.1;
                }
                self.note_code(cx, &block);
                translations.insert(block)
            }
        };
        translations.insert_jump(self.jump(), global, &self.tlb.epochs, id);
        Ok(id)
    }

    /// The jump cache's key for the block at RIP.
    #[inline(always)]
    fn jump(&self) -> Jump {
        Jump { linear: self.linear_rip(), mode: Lowering::mode_of(self), mmu: self.mmu as u8 }
    }

    /// The page behind that of `linear`, where the instruction there goes on.
    fn translate_second<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
    ) -> Exec<(u64, bool)> {
        let here = PAGE - (linear & (PAGE - 1));
        let limit = self.segment(seg::CS).limit;
        if !self.in_64bit() && limit != u32::MAX && self.rip + here > u64::from(limit) {
            return Err(Stop::GP0);
        }
        self.translate_code(cx, linear.wrapping_add(here))
    }

    /// Lowers up to `most` instructions at `linear`, which is at `gpa`.
    fn lower_at<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        lowering: Lowering,
        linear: u64,
        gpa: u64,
        most: usize,
    ) -> Exec<Block<O>> {
        let in_page = (PAGE - (gpa & (PAGE - 1))) as usize;
        let mut code = vec![0; in_page.min(most * LONGEST)];
        self.fetch(cx, gpa, &mut code);
        let in_page = code.len();
        if let Some(block) =
            lower_block(lowering, &self.cycle_costs, gpa, &code, in_page, None, most)
        {
            return Ok(Block::new(block));
        }
        let (second, _) = self.translate_second(cx, linear)?;
        // This walk, too, may have set a bit in the code.
        self.fetch(cx, gpa, &mut code);
        let mut rest = [0; LONGEST];
        self.fetch(cx, second, &mut rest);
        code.extend_from_slice(&rest);
        let block = lower_block(lowering, &self.cycle_costs, gpa, &code, in_page, Some(second), 1);
        block.map(Block::new).ok_or(Stop::GP0)
    }

    /// Notes which bytes of RAM a block was lowered from.
    fn note_code<O: Observer>(&mut self, cx: &Cx<'_, O>, block: &Block<O>) {
        let bytes = u64::from(block.bytes);
        let in_page = PAGE - (block.gpa & (PAGE - 1));
        cx.ram.note_code(block.gpa, bytes.min(in_page));
        if let Some(second) = block.second_page() {
            cx.ram.note_code(second, bytes.saturating_sub(in_page));
        }
        // The block itself may write to its page.
        self.tlb.notice_code(cx.ram);
    }

    /// Reads code bytes, from RAM or (a boot ROM) from a device.
    fn fetch<O: Observer>(&self, cx: &mut Cx<'_, O>, gpa: u64, code: &mut [u8]) {
        match cx.ram.page(gpa) {
            Some(page) => page.read_slice((gpa & (PAGE - 1)) as usize, code),
            None => {
                for (n, byte) in code.iter_mut().enumerate() {
                    let gpa = (gpa & !OF_DEVICE) + n as u64;
                    *byte = cx.bus.mmio_read(self.time, gpa, 1) as u8;
                }
            }
        }
    }
}

/// In [`Cpu::slot`] after an IRET that loaded RF: the flag survives its own instruction.
pub(crate) const RF_LOADED: u32 = 3;
