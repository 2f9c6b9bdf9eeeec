//! The run loop: executes block after block until the budget is used up or the owner has to act.

use crate::{
    block::{
        Block, BlockId, Code, Ending, Jump, Link, MAX_INSNS, Mapping, Mode, TRANSIENT, Translations,
    },
    bus::{After, Now, Uncounted},
    cpu::{Cpu, Shadow},
    flags,
    insn::{BLOCK_BASE, Insn, seg},
    lower::Lowering,
    observe::{Cx, Observer},
    ram::PAGE,
    stop::{Exec, Leave, Stop},
    timing::Budget,
    watch::TransferKind,
};

mod execute;
mod lookup;
mod turn;

pub use self::turn::{Bookmark, Midway, Step};

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

impl Cpu {
    /// Runs until the budget is used up or another reason in [`Exit`].
    ///
    /// The run ends between two instructions, or between two iterations of a repeated one. An
    /// instruction that takes several cycles is finished when it has begun, also if its last cycle is
    /// beyond the budget.
    #[inline]
    pub fn run<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        budget: Budget,
    ) -> Exit {
        O::run(self, cx, translations, budget)
    }

    /// [`Self::run`], compiled for an observer.
    #[inline(always)]
    pub(crate) fn run_under<O: Observer>(
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
            if result == Err(Stop::ALONE) {
                // What the instruction has asked for until then, it asks for again when it is executed.
                // If the run ended here, the next would begin with it in the middle of a block again.
                self.leave = Leave::default();
                self.overwrote = false;
                alone = true;
                continue;
            }
            if let Some(exit) = self.settle(cx, result) {
                return exit;
            }
        }
    }

    /// Something has been executed, with this result: why the run ends, if it does.
    #[inline(always)]
    fn settle<O: Observer>(&mut self, cx: &mut Cx<'_, O>, result: Exec<()>) -> Option<Exit> {
        let result = match result {
            Err(stop) if stop.exception().is_some() => {
                self.debug_hits = 0;
                self.raise(cx, stop)
            }
            other => other,
        };
        match result {
            Ok(()) | Err(Stop::RESTART | Stop::LEAVE) => {}
            Err(Stop::HALT) => {
                self.halted = true;
                return Some(Exit::Halt);
            }
            Err(_) => return Some(Exit::Shutdown),
        }
        // Data breakpoints that the finished instruction met.
        if self.debug_hits != 0
            && let Some(stop) = self.debug_trap(false)
            && self.raise(cx, stop).is_err()
        {
            return Some(Exit::Shutdown);
        }
        let is_asked = self.leave.is_asked() || O::MODELS && cx.observer.is_spent();
        if is_asked && (O::FOLLOWS || !self.leave.is_a_look() || !self.goes_on(cx)) {
            return Some(if self.paused { Exit::Pause } else { Exit::Leave });
        }
        None
    }

    /// The run ends here if the owner has anything to do, and nothing else ends it: whether it goes on.
    #[inline(never)]
    fn goes_on<O: Observer>(&mut self, cx: &mut Cx<'_, O>) -> bool {
        self.tell_place(cx);
        let (time, retired, alike) = (self.time, self.retired, self.take_alike());
        let now = Now { time, cpl: self.cpl, interrupts_enabled: self.interrupts_enabled() };
        let observed = cx.observer.observed();
        let uncounted = observed.map(|observed| Uncounted { observed, time, retired, alike });
        match cx.bus.look(now, uncounted) {
            After::GoOn => {}
            After::Within(budget) => self.bound(budget, retired),
            After::Leave | After::DevicesMoved => return false,
        }
        (self.leave, self.overwrote) = (Leave::default(), false);
        true
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
        self.set_link(translations, from, slot, translations.block(next));
        Ok(next)
    }

    /// The block `from`, if it is still there, gets a link to `block`, which is the one at RIP, at `slot` if it has that
    /// many.
    #[inline]
    fn set_link<O>(
        &self,
        translations: &Translations<O>,
        from: BlockId,
        slot: usize,
        block: &Block<O>,
    ) {
        if slot < 2
            && block.place != TRANSIENT
            && let Some(from) = translations.get(from).filter(|from| from.place != TRANSIENT)
            && block.mode == from.mode
        {
            let mapping = (!self.stays_in_page(from, slot, block)).then(|| self.mapping());
            from.links[slot].set(Link { target: block.id(), mapping });
        }
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

    /// Linear address of the next instruction.
    #[must_use]
    pub fn linear_rip(&self) -> u64 {
        self.linear_rip_in(self.in_64bit())
    }

    /// The same where it is known whether the code is of 64 bits.
    #[inline(always)]
    pub(crate) fn linear_rip_in(&self, is_64_bit: bool) -> u64 {
        self.linear_in_code(self.rip, is_64_bit)
    }

    /// Linear address of the first byte of the running block, of which that is known.
    #[inline(always)]
    pub(crate) fn linear_of_block(&self, is_64_bit: bool) -> u64 {
        self.linear_in_code(self.regs[usize::from(BLOCK_BASE)], is_64_bit)
    }

    #[inline(always)]
    fn linear_in_code(&self, ip: u64, is_64_bit: bool) -> u64 {
        if is_64_bit { ip } else { self.segment(seg::CS).base.wrapping_add(ip) & 0xffff_ffff }
    }
}

/// In [`Cpu::slot`] after an IRET that loaded RF: the flag survives its own instruction.
pub(crate) const RF_LOADED: u32 = 3;
