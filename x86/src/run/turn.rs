//! What a processor executes when its turn comes, where others of its core take turns with it: one instruction, mostly.

use crate::{
    block::{Block, BlockId, Ending, Jump, Translations},
    cpu::{Cpu, Shadow},
    facts::Mark,
    flags,
    insn::BLOCK_BASE,
    observe::{Cx, Observer},
    run::{Exit, Next},
    stop::{Leave, Stop},
    timing::Budget,
};

/// In which block a processor is, and at which instruction of it, so that it goes on there without looking the block
/// up: nowhere at first.
#[derive(Clone, Copy, Default)]
pub struct Midway {
    block: BlockId,
    /// Number of the next instruction. If it is the first, the block is yet to be entered.
    next: usize,
    /// Where that is not known, the block that has just ended, and which of its links leads on.
    from: BlockId,
    slot: usize,
}

/// Where a processor was when it was last left in a block, so that it goes on there if nothing has been done with it
/// since: nowhere at first.
#[derive(Clone, Copy, Default)]
pub struct Bookmark {
    midway: Midway,
    /// RIP of the block's first byte.
    base: u64,
    /// Where that was.
    left: Option<Left>,
}

/// What is not the same if anything has been done with a processor, or if another block would be found where it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Left {
    retired: u64,
    rip: u64,
    jump: Jump,
    epoch: u64,
}

impl Left {
    fn of(cpu: &Cpu) -> Self {
        Self { retired: cpu.retired, rip: cpu.rip, jump: cpu.jump(), epoch: cpu.tlb.epochs[0] }
    }
}

impl Bookmark {
    /// Of a processor that is there.
    #[must_use]
    pub fn new(cpu: &Cpu, midway: Midway) -> Self {
        let base = cpu.regs[usize::from(BLOCK_BASE)];
        Self { midway, base, left: Some(Left::of(cpu)) }
    }

    /// Where the processor goes on. `translations` are those in which it was left.
    pub fn find<O: Observer>(&self, cpu: &mut Cpu, translations: &Translations<O>) -> Midway {
        let is_there = translations.get(self.midway.block).is_some()
            && self.left == Some(Left::of(cpu))
            && cpu.is_plain();
        if !is_there {
            return Midway::default();
        }
        cpu.regs[usize::from(BLOCK_BASE)] = self.base;
        cpu.cycle_costs = translations.cycle_costs;
        cpu.leave = Leave::default();
        cpu.overwrote = false;
        self.midway
    }
}

/// What became of a turn of one instruction ([`Cpu::take_step`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has retired.
    Retired,
    /// The same, and the run is to end behind it, as with [`Exit::Leave`].
    Left,
    /// The run is to end before it, as with [`Exit::Leave`].
    Stopped,
    /// Nothing is done: it takes more than that to execute it.
    NotTaken,
}

impl Cpu {
    /// Runs the next block, as far as the observer lets it, if nothing can come between its instructions and the one
    /// before, and it is at hand. As [`Self::run`] then, with [`Exit::Deadline`] if nothing but its end ended it; else
    /// nothing is done.
    #[inline(never)]
    pub fn run_block<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        budget: Budget,
    ) -> Option<Exit> {
        self.notice_code(cx, translations);
        let block = self.block_at_hand(translations)?;
        self.bound(budget, self.retired);
        if !self.can_afford(block) || self.code_is_limited(block) {
            return None;
        }
        self.leave = Leave::default();
        self.overwrote = false;
        self.paused = false;
        let mut result = self.execute_first(cx, block, block.ops.len());
        self.alone = true;
        if result == Err(Stop::ALONE) {
            // As in `run`.
            self.leave = Leave::default();
            self.overwrote = false;
            self.notice_code(cx, translations);
            result = self.step(cx, translations);
        }
        Some(self.settle(cx, result).unwrap_or(Exit::Deadline))
    }

    /// Whether nothing can come between the next instruction and the one before.
    fn is_plain(&self) -> bool {
        !self.halted
            && self.stops.is_none()
            && !self.uncached
            && self.watch.code == 0
            && self.system_flags & (flags::TF | flags::RF) == 0
            && self.shadow == Shadow::None
            && self.time >= self.delayed_until
    }

    /// The block that comes next, if nothing can come between its instructions and the one before. It takes no walk to find
    /// it.
    fn block_at_hand<'a, O: Observer>(
        &mut self,
        translations: &'a Translations<O>,
    ) -> Option<&'a Block<O>> {
        if !self.is_plain() {
            return None;
        }
        let block = translations.find_jump(&self.jump(), &self.tlb.epochs)?;
        self.cycle_costs = translations.cycle_costs;
        Some(block)
    }

    /// Executes one instruction, if it is at hand and reaches nothing but registers and memory: the same as a run of one that
    /// nothing else ends, but that no time passes. An instruction that cannot retire so is not taken.
    ///
    /// `midway` is what the last step has left there, if nothing else has been done with the processor since; or
    /// nowhere.
    #[inline]
    pub fn take_step<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        midway: &mut Midway,
    ) -> Step {
        self.notice_code(cx, translations);
        let Midway { block, next: at, from, slot } = *midway;
        let found = match translations.get(block) {
            None => self.block_at_hand(translations).inspect(|block| {
                self.set_link(translations, from, slot, block);
            }),
            found => found,
        };
        let Some(block) = found.filter(|block| block.goes_in_steps(at)) else {
            return Step::NotTaken;
        };
        if at == 0 {
            if self.code_is_limited(block) {
                return Step::NotTaken;
            }
            self.regs[usize::from(BLOCK_BASE)] = self.rip;
            self.leave = Leave::default();
            self.overwrote = false;
            cx.observer.enters_in_steps(self, cx.ram, block);
        }
        let Some(op) = block.ops.get(at) else { return Step::NotTaken };
        self.alone = false;
        cx.observer.begins_apart(self, cx.ram, block, &op.insn);
        let mark = cx.observer.mark();
        let done = op.run_exactly()(self, cx, &op.insn);
        self.alone = true;
        if let Err(stop) = done {
            *midway = Midway::default();
            return self.stopped_step(cx, stop, mark);
        }
        if at + 1 == block.ops.len() {
            if block.ending != Ending::Branch {
                self.rip = self.rip_at(block.bytes);
            }
            *midway = match self.next_block(translations, block) {
                Next::Block(next) => Midway { block: next.id(), ..Midway::default() },
                Next::Unknown(slot) => Midway { from: block.id(), slot, ..Midway::default() },
                Next::Look => Midway::default(),
            };
            cx.observer.block_finished();
        } else {
            self.rip = self.rip_at(op.insn.end);
            *midway = Midway { block: block.id(), next: at + 1, ..Midway::default() };
        }
        self.retired += 1;
        if let Some(classes) = &block.classes {
            classes.each(at, |class| cx.observer.retired_classes(&[class]));
        }
        cx.observer.retired_apart(self, cx.ram, block, &op.insn);
        if self.leave.is_asked() {
            *midway = Midway::default();
            cx.observer.block_finished();
            return Step::Left;
        }
        Step::Retired
    }

    /// The instruction has not retired: it faults, or is to be executed alone, which is found again when it is executed
    /// otherwise; or it has asked for something before it executes.
    #[cold]
    #[inline(never)]
    fn stopped_step<O: Observer>(&mut self, cx: &mut Cx<'_, O>, stop: Stop, mark: Mark) -> Step {
        if stop.exception().is_some() || stop == Stop::ALONE {
            cx.observer.roll_back(mark);
            return Step::NotTaken;
        }
        Step::Stopped
    }
}
