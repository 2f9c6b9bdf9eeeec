//! Where the block at RIP is: found, or lowered from its bytes.

use crate::{
    access::OF_DEVICE,
    block::{Block, Code, Jump, MAX_INSNS, Translations},
    cpu::Cpu,
    insn::seg,
    lower::{Lowering, lower_block},
    observe::{Cx, Observer},
    ram::PAGE,
    stop::{Exec, Stop},
};

/// Most bytes of an instruction.
const LONGEST: usize = 15;

impl Cpu {
    /// The block at RIP, translated if need be; or the fault of its fetch.
    #[inline(always)]
    pub(super) fn lookup<O: Observer>(
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
    pub(super) fn lookup_slow<O: Observer>(
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
    pub(crate) fn jump(&self) -> Jump {
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
