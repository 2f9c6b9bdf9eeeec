//! The run loop: from block to block until something has to be looked at.

use crate::{
    block::{Block, Ending, Link, MAX_INSNS, Translations},
    cpu::{Cpu, Shadow},
    flags,
    insn::{BLOCK_BASE, seg},
    lower::{Lowering, lower_block},
    observe::{Cx, Observer},
    ram::PAGE,
    stop::{Exec, Stop},
};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The time given is up.
    Deadline,
    /// Something may have changed that the owner has to look at: interrupts, devices, counters,
    /// the privilege that is being observed.
    Leave,
    /// The processor is halted.
    Halt,
    /// The processor has shut down: a triple fault.
    Shutdown,
}

/// Longest stretch of code bytes that one block is lowered from.
const WINDOW: usize = MAX_INSNS * 15;

impl Cpu {
    /// Runs until `until` (in cycles of [`Cpu::time`]) or until something has to be looked at.
    ///
    /// The run ends exactly at `until`, between two instructions; a REP string instruction may be
    /// interrupted between two iterations.
    pub fn run<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        until: u64,
    ) -> Exit {
        if self.halted {
            return Exit::Halt;
        }
        self.deadline = until;
        self.leave = false;
        loop {
            if self.time >= self.deadline {
                return Exit::Deadline;
            }
            if self.time < self.delayed_until {
                self.pass(self.delayed_until.min(self.deadline) - self.time);
                continue;
            }
            self.notice_code(cx, translations);
            let stepping = self.watch.code != 0
                || self.system_flags & (flags::TF | flags::RF) != 0
                || self.shadow != Shadow::None;
            let result =
                if stepping { self.step(cx, translations) } else { self.chain(cx, translations) };
            let result = match result {
                Err(stop) if stop.exception().is_some() => {
                    self.debug_hits = 0;
                    self.raise(cx, stop)
                }
                other => other,
            };
            match result {
                Ok(()) | Err(Stop::RESTART) => {}
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
            if self.leave {
                return Exit::Leave;
            }
        }
    }

    /// Takes notice of code that was overwritten and of pages that now hold code.
    #[inline]
    pub(crate) fn notice_code<O: Observer>(
        &mut self,
        cx: &Cx<'_, O>,
        translations: &mut Translations<O>,
    ) {
        translations.catch_up(cx.ram);
        if self.tlb.code_pages_seen != cx.ram.code_page_count() {
            let pages = cx.ram.code_pages_since(self.tlb.code_pages_seen);
            self.tlb.close_writes(&pages);
            self.tlb.code_pages_seen = cx.ram.code_page_count();
        }
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
        if self.watch.code != 0 && before & flags::RF == 0 && shadow != Shadow::MovSs {
            let linear = self.linear_rip();
            if let Some(stop) = self.code_match(cx, linear) {
                return Err(stop);
            }
        }
        let id = self.lookup(cx, translations)?;
        let block = translations.block(id);
        let retired = self.time - self.idle;
        self.shadow = Shadow::None;
        let result = self.execute(cx, block, 1);
        let done = self.time - self.idle > retired || result == Err(Stop::HALT);
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
            self.leave = true;
        }
        match result {
            Ok(()) => self.debug_trap(before & flags::TF != 0).map_or(Ok(()), Err),
            other => other,
        }
    }

    /// Runs block after block.
    fn chain<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Exec<()> {
        let mut id = self.lookup(cx, translations)?;
        loop {
            let block = translations.block(id);
            let left = self.deadline - self.time;
            let count = block.ops.len();
            if left < count as u64 || self.code_is_limited(block) {
                let fits = if self.code_is_limited(block) { 1 } else { left as usize };
                return self.execute(cx, block, fits.min(count));
            }
            self.execute(cx, block, count)?;
            if self.leave || block.ending == Ending::Fall || self.time >= self.deadline {
                return Ok(());
            }
            let slot = if block.ending == Ending::Through { 0 } else { self.slot as usize };
            if slot < 2 {
                let link = block.links[slot].get();
                if link.generation == translations.generation
                    && (link.epoch == 0 || link.epoch == self.tlb.epochs[0])
                {
                    id = link.target;
                    continue;
                }
            } else if self.system_flags & (flags::TF | flags::RF) != 0 {
                return Ok(());
            }
            let (from, from_mode, from_page) = (id, block.mode, block.gpa & !(PAGE - 1));
            let generation = translations.generation;
            id = self.lookup(cx, translations)?;
            if slot < 2 && translations.generation == generation {
                let target = translations.block(id);
                if target.mode == from_mode {
                    // Within a page the target is the same whatever maps the page.
                    let same_page = target.gpa & !(PAGE - 1) == from_page
                        && target.second_page.is_none()
                        && self.stays_in_page(translations.block(from), target);
                    let epoch = if same_page { 0 } else { self.tlb.epochs[0] };
                    translations.block(from).links[slot].set(Link {
                        epoch,
                        generation,
                        target: id,
                    });
                }
            }
        }
    }

    /// Whether the linear distance of a branch is its physical distance, so that it stays within
    /// one linear page as well.
    fn stays_in_page<O>(&self, from: &Block<O>, to: &Block<O>) -> bool {
        let base = self.regs[usize::from(BLOCK_BASE)];
        self.rip.wrapping_sub(base) == to.gpa.wrapping_sub(from.gpa)
    }

    /// Whether the block reaches beyond the limit of CS.
    #[inline(always)]
    fn code_is_limited<O>(&self, block: &Block<O>) -> bool {
        let cs = &self.segments[usize::from(seg::CS)];
        cs.limit != u32::MAX
            && !self.in_64bit()
            && self.rip + u64::from(block.bytes) > u64::from(cs.limit) + 1
    }

    /// Executes the first `count` instructions of a block. RIP and time are right afterwards,
    /// whatever happened.
    #[inline(always)]
    fn execute<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        count: usize,
    ) -> Exec<()> {
        if O::COUNTS && block.marks {
            return self.execute_marked(cx, block, count);
        }
        self.execute_ops::<O, false>(cx, block, count)
    }

    /// The same where the accesses of an instruction that faults may have to be taken back.
    #[inline(never)]
    fn execute_marked<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        count: usize,
    ) -> Exec<()> {
        self.execute_ops::<O, true>(cx, block, count)
    }

    #[inline(always)]
    fn execute_ops<O: Observer, const MARKS: bool>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        count: usize,
    ) -> Exec<()> {
        self.regs[usize::from(BLOCK_BASE)] = self.rip;
        let ops = &block.ops[..count];
        for op in ops {
            let mark = cx.observer.mark();
            if let Err(stop) = (op.run)(self, cx, &op.insn) {
                if MARKS && stop.exception().is_some() {
                    cx.observer.roll_back(mark);
                }
                return self.stopped(cx, block, usize::from(op.insn.index), stop);
            }
            if self.leave {
                self.finish(cx, block, usize::from(op.insn.index) + 1);
                return Ok(());
            }
        }
        self.finish(cx, block, count);
        Ok(())
    }

    /// `count` instructions of the block retired.
    #[inline(always)]
    fn finish<O: Observer>(&mut self, cx: &mut Cx<'_, O>, block: &Block<O>, count: usize) {
        self.time += count as u64;
        cx.observer.block_finished();
        if O::COUNTS && block.has_class {
            for op in &block.ops[..count] {
                cx.observer.retired_class(op.insn.class);
            }
        }
        if count < block.ops.len() || block.ending != Ending::Branch {
            self.rip = self.rip_at(block.ops[count - 1].insn.end);
        }
    }

    /// Instruction `at` of the block did not simply retire.
    #[cold]
    #[inline(never)]
    fn stopped<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        block: &Block<O>,
        at: usize,
        stop: Stop,
    ) -> Exec<()> {
        if stop == Stop::HALT {
            self.finish(cx, block, at + 1);
        } else {
            if at > 0 {
                self.finish(cx, block, at);
            }
            self.rip = self.rip_at(block.ops[at].insn.start());
        }
        Err(stop)
    }

    /// Linear address of the next instruction.
    fn linear_rip(&self) -> u64 {
        if self.in_64bit() {
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
        let mode = Lowering::mode_of(self);
        let linear = self.linear_rip();
        let known = self.tlb.jumps[usize::from(O::COUNTS)].find(
            linear,
            mode,
            self.mmu,
            self.tlb.epochs,
            translations.generation,
        );
        match known {
            Some(id) => Ok(id),
            None => self.lookup_slow(cx, translations, linear),
        }
    }

    /// The same where the jump cache does not know it.
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
        let mut found = translations.find(gpa, mode);
        if let Some(id) = found
            && let Some(second) = translations.block(id).second_page
        {
            let next = self.translate_code(cx, (linear | (PAGE - 1)).wrapping_add(1))?;
            global &= next.1;
            if next.0 != second {
                found = None;
            }
        }
        let id = match found {
            Some(id) => id,
            None => self.translate_block(cx, translations, lowering, linear, gpa)?,
        };
        let generation = translations.generation;
        let epochs = self.tlb.epochs;
        let tier = usize::from(O::COUNTS);
        self.tlb.jumps[tier].insert(linear, mode, self.mmu, global, epochs, generation, id);
        Ok(id)
    }

    fn translate_block<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
        lowering: Lowering,
        linear: u64,
        gpa: u64,
    ) -> Exec<u32> {
        let in_page = (PAGE - (gpa & (PAGE - 1))) as usize;
        let mut code = vec![0; in_page.min(WINDOW)];
        self.fetch(cx, gpa, &mut code);
        let in_page = code.len().min(in_page);
        let whole = |code: &[u8], second| lower_block::<O>(lowering, gpa, code, in_page, second);
        let block = match whole(&code, None) {
            Some(block) => block,
            None => {
                let next = (linear | (PAGE - 1)).wrapping_add(1);
                let (second, _) = self.translate_code(cx, next)?;
                let mut rest = [0; 15];
                self.fetch(cx, second, &mut rest);
                code.extend_from_slice(&rest);
                let Some(block) = whole(&code, Some(second)) else { return Err(Stop::GP0) };
                cx.ram.note_code(second, u64::from(block.bytes).saturating_sub(in_page as u64));
                block
            }
        };
        cx.ram.note_code(gpa, u64::from(block.bytes).min(in_page as u64));
        Ok(translations.insert(block))
    }

    /// Reads code bytes, from RAM or (a boot ROM) from a device.
    fn fetch<O: Observer>(&self, cx: &mut Cx<'_, O>, gpa: u64, code: &mut [u8]) {
        match cx.ram.page(gpa) {
            Some(page) => page.read_slice((gpa & (PAGE - 1)) as usize, code),
            None => {
                for (n, byte) in code.iter_mut().enumerate() {
                    *byte = cx.bus.mmio_read(self.time, gpa + n as u64, 1) as u8;
                }
            }
        }
    }
}

/// In [`Cpu::slot`] after an IRET that loaded RF: the flag survives its own instruction.
pub(crate) const RF_LOADED: u32 = 3;
