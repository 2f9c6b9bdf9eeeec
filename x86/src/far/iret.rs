//! IRET (AMD64 APM volume 2, "Returning From Interrupt Procedures"; volume 3, "IRET").

use super::Frame;
use crate::{
    cpu::Cpu,
    descriptor::Segment,
    flags,
    insn::{Size, gpr, seg},
    observe::{Cx, Observer},
    run::RF_LOADED,
    segment::rpl,
    stop::{Exec, Stop},
};

/// Flags that IRET and POPF load at any privilege.
const ALWAYS: u64 = flags::ARITHMETIC | flags::TF | flags::DF | flags::NT;
/// Those that a 32-bit or wider image has in addition.
const UPPER: u64 = flags::RF | flags::AC | flags::ID;

impl Cpu {
    /// IRET; `size` is the operand size, `next` the address of the next instruction.
    pub(crate) fn interrupt_return<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        size: Size,
        next: u64,
    ) -> Exec<()> {
        let returned = self.return_from_interrupt(cx, size, next);
        if returned.is_ok() || self.features.faulting_iret_unblocks_nmi {
            self.unblock_nmi();
        }
        returned
    }

    fn return_from_interrupt<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        size: Size,
        next: u64,
    ) -> Exec<()> {
        if !self.protected() {
            self.iret_real(cx, size, flags::IF | flags::IOPL)?;
        } else if self.v8086() {
            // IOPL stays; IF is the task's only at IOPL 3.
            let virtualised = self.virtual_flags(size)?;
            self.iret_real(cx, size, if virtualised { flags::VIF } else { flags::IF })?;
        } else if self.system_flags & flags::NT != 0 {
            if self.long_mode() {
                return Err(Stop::GP0);
            }
            self.return_to_task(cx, next)?;
            self.far_branch(cx);
        } else {
            self.iret_protected(cx, size)?;
        }
        self.keep_loaded_rf();
        Ok(())
    }

    /// RF that the running instruction loaded is for the next one.
    pub(crate) fn keep_loaded_rf(&mut self) {
        if self.system_flags & flags::RF != 0 {
            self.slot = RF_LOADED;
        }
    }

    /// I/O privilege level.
    pub(crate) fn iopl(&self) -> u8 {
        (self.system_flags >> 12 & 3) as u8
    }

    /// Loads the bits `mask` of RFLAGS.
    pub(crate) fn load_flags(&mut self, image: u64, mask: u64) {
        self.set_rflags(self.rflags() & !mask | image & mask);
    }

    /// Bits of RFLAGS that an IRET at the current privilege loads.
    fn iret_mask(&self, size: Size) -> u64 {
        let mut mask = ALWAYS;
        if size != Size::B2 {
            mask |= UPPER;
        }
        if self.cpl <= self.iopl() {
            mask |= flags::IF;
        }
        if self.cpl == 0 {
            mask |= flags::IOPL;
            if size != Size::B2 {
                mask |= flags::VIF | flags::VIP;
            }
        }
        mask
    }

    fn iret_real<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        size: Size,
        privileged: u64,
    ) -> Exec<()> {
        let mut frame = Frame::current(self);
        let rip = self.frame_pop(cx, &mut frame, size)?;
        let selector = self.frame_pop(cx, &mut frame, size)? as u16;
        let mut image = self.frame_pop(cx, &mut frame, size)?;
        if privileged & flags::VIF != 0 {
            image = self.virtual_image(image)?;
        }
        let cs = self.real_segment(seg::CS, selector);
        self.check_target(&cs, rip)?;
        let upper = if size == Size::B2 { 0 } else { UPPER };
        self.take_stack_pointer(&frame);
        self.load_flags(image, ALWAYS | privileged | upper);
        self.enter(cx, cs, rip);
        Ok(())
    }

    fn iret_protected<O: Observer>(&mut self, cx: &mut Cx<'_, O>, size: Size) -> Exec<()> {
        let mut frame = Frame::current(self);
        let rip = self.frame_pop(cx, &mut frame, size)?;
        let selector = self.frame_pop(cx, &mut frame, size)? as u16;
        let image = self.frame_pop(cx, &mut frame, size)?;
        if size == Size::B4 && image & flags::VM != 0 && self.cpl == 0 && !self.long_mode() {
            return self.iret_to_v8086(cx, &mut frame, rip, selector, image);
        }
        let (cs, descriptor) = self.return_code(cx, selector)?;
        self.check_target(&cs, rip)?;
        let level = rpl(selector);
        let mask = self.iret_mask(size);
        // 64-bit mode has SS:RSP in every frame.
        if level == self.cpl && !self.in_64bit() {
            self.mark_accessed(cx, &descriptor)?;
            self.take_stack_pointer(&frame);
            self.load_flags(image, mask);
            self.enter(cx, cs, rip);
            return Ok(());
        }
        let outer = self.pop_outer_stack(cx, &mut frame, &cs, size)?;
        self.mark_accessed(cx, &descriptor)?;
        self.load_flags(image, mask);
        self.enter_outer(cx, cs, rip, &outer);
        Ok(())
    }

    /// From privilege 0 to virtual-8086 mode: the frame holds all segment registers.
    fn iret_to_v8086<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        frame: &mut Frame,
        rip: u64,
        cs: u16,
        image: u64,
    ) -> Exec<()> {
        let sp = self.frame_pop(cx, frame, Size::B4)?;
        let mut selectors = [0, cs, 0, 0, 0, 0];
        for n in [seg::SS, seg::ES, seg::DS, seg::FS, seg::GS] {
            selectors[usize::from(n)] = self.frame_pop(cx, frame, Size::B4)? as u16;
        }
        if rip > 0xffff {
            return Err(Stop::GP0);
        }
        const IN_FRAME: u64 =
            ALWAYS | UPPER | flags::IF | flags::IOPL | flags::VM | flags::VIF | flags::VIP;
        self.load_flags(image, IN_FRAME);
        self.enter_v8086(selectors);
        self.set_gpr(gpr::RSP, sp);
        self.rip = rip;
        for n in 0..6 {
            cx.observer.seg_load(n);
        }
        self.far_branch(cx);
        Ok(())
    }

    /// Loads all segment registers as virtual-8086 mode has them, after RFLAGS.VM was set.
    pub(crate) fn enter_v8086(&mut self, selectors: [u16; 6]) {
        for (n, selector) in (0..).zip(selectors) {
            let segment: Segment = self.real_segment(n, selector);
            self.set_segment(n, segment);
        }
        self.set_cpl(3);
    }
}
