//! The execution of a block, or of a part of it.

use crate::{
    block::{Block, Ending},
    cpu::Cpu,
    insn::{BLOCK_BASE, Insn, Op},
    observe::{Cx, Observer},
    stop::{Exec, Stop},
};

impl Cpu {
    /// Executes a block, unless an instruction of it ends the run. RIP and time are right afterwards,
    /// whatever happened.
    #[inline(always)]
    pub(super) fn execute<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
    ) -> Exec<()> {
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
    pub(super) fn execute_first<O: Observer>(
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
    pub(super) fn execute_ops<O: Observer, const SIMPLE: bool, const STEPS: bool>(
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
    pub(super) fn execute_told<O: Observer, const SIMPLE: bool, const STEPS: bool>(
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
    pub(super) fn execute_modelled<O: Observer>(
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
    pub(super) fn execute_quietly<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
    ) -> Exec<()> {
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
    pub(super) fn finish_part<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        count: usize,
    ) {
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
}
