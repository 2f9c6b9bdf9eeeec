//! The stack of a far transfer, before it becomes the processor's own.

use crate::{
    access::is_canonical,
    cpu::Cpu,
    descriptor::Segment,
    flags::Word,
    insn::{Size, gpr, seg},
    observe::{Cx, Direction, Observer},
    segment::selector_fault,
    stop::{Exec, Stop, vector},
};

/// A stack pointer that values are pushed on or popped off while the transfer can still fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Stack segment.
    pub(crate) ss: Segment,
    /// Stack pointer; the bits of `mask` count.
    pub(crate) sp: u64,
    mask: u64,
    /// 64-bit addresses: no base, no limit.
    long: bool,
    /// Privilege level of the accesses.
    level: u8,
    /// Selector in the error code of #SS: that of a stack which is being switched to, else zero.
    code: u16,
    /// Pushes with another privilege than the processor's.
    stores: u64,
    /// The misaligned ones of these.
    misaligned: u64,
}

impl Frame {
    /// The stack in use.
    pub(crate) fn current(cpu: &Cpu) -> Self {
        Self {
            ss: *cpu.segment(seg::SS),
            sp: cpu.gpr(gpr::RSP) & cpu.stack_mask(),
            mask: cpu.stack_mask(),
            long: cpu.in_64bit(),
            level: cpu.cpl,
            code: 0,
            stores: 0,
            misaligned: 0,
        }
    }

    /// The stack of another privilege level or task outside 64-bit mode.
    pub(crate) fn legacy(ss: Segment, sp: u64, level: u8) -> Self {
        let mask = if ss.attributes & Segment::BIG != 0 { 0xffff_ffff } else { 0xffff };
        let code = ss.selector;
        Self { ss, sp: sp & mask, mask, long: false, level, code, stores: 0, misaligned: 0 }
    }

    /// A stack for 64-bit code at privilege `level`.
    pub(crate) fn long(ss: Segment, sp: u64, level: u8) -> Self {
        Self { ss, sp, mask: u64::MAX, long: true, level, code: 0, stores: 0, misaligned: 0 }
    }

    /// Moves the stack pointer over `bytes`.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.sp = self.sp.wrapping_add(bytes) & self.mask;
    }

    /// Linear address of `bytes` at `offset`: #SS where the segment ends.
    fn linear(&self, offset: u64, bytes: u64) -> Exec<u64> {
        let last = offset.wrapping_add(bytes - 1);
        if self.long {
            let inside = is_canonical(offset) && is_canonical(last);
            return if inside { Ok(offset) } else { Err(self.fault()) };
        }
        let limit = u64::from(self.ss.limit);
        let inside = if self.ss.expands_down() {
            offset > limit && last <= self.mask
        } else {
            last <= limit
        };
        if inside && self.ss.attributes != 0 {
            Ok(self.ss.base.wrapping_add(offset) & 0xffff_ffff)
        } else {
            Err(self.fault())
        }
    }

    fn fault(&self) -> Stop {
        selector_fault(vector::SS, self.code)
    }
}

impl Cpu {
    /// Pushes `value` on a frame, `size` wide.
    pub(crate) fn frame_push<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        frame: &mut Frame,
        size: Size,
        value: u64,
    ) -> Exec<()> {
        match size {
            Size::B2 => self.frame_push_as(cx, frame, value as u16),
            Size::B8 => self.frame_push_as(cx, frame, value),
            _ => self.frame_push_as(cx, frame, value as u32),
        }
    }

    fn frame_push_as<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        frame: &mut Frame,
        value: T,
    ) -> Exec<()> {
        let sp = frame.sp.wrapping_sub(T::BYTES as u64) & frame.mask;
        let linear = frame.linear(sp, T::BYTES as u64)?;
        if frame.level == self.cpl {
            self.store(cx, linear, value)?;
        } else {
            self.store_system(cx, linear, value)?;
            self.tell(cx, linear, T::BYTES as u64, 1, Direction::Store);
            let misaligned = self.alignment.is_misaligned(linear, T::BYTES as u64);
            frame.misaligned += u64::from(misaligned);
            frame.stores += 1 + u64::from(misaligned && self.alignment.splits());
        }
        frame.sp = sp;
        Ok(())
    }

    /// Pops a value off a frame.
    pub(crate) fn frame_pop<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        frame: &mut Frame,
        size: Size,
    ) -> Exec<u64> {
        let bytes = size.bytes() as u64;
        let linear = frame.linear(frame.sp, bytes)?;
        let value = match size {
            Size::B2 => self.load::<O, u16>(cx, linear)?.to_u64(),
            Size::B8 => self.load::<O, u64>(cx, linear)?,
            _ => self.load::<O, u32>(cx, linear)?.to_u64(),
        };
        frame.skip(bytes);
        Ok(value)
    }

    /// Makes the frame's stack pointer the processor's: 16 bits merge, 32 bits zero-extend.
    pub(crate) fn take_stack_pointer(&mut self, frame: &Frame) {
        let rsp = self.gpr(gpr::RSP);
        self.set_gpr(
            gpr::RSP,
            if frame.mask == 0xffff { rsp & !0xffff | frame.sp } else { frame.sp },
        );
    }

    /// Counts what was pushed for the level that is entered. Nothing can fault any more.
    pub(crate) fn count_frame<O: Observer>(&self, cx: &mut Cx<'_, O>, frame: &Frame) {
        cx.observer.inner_stores(frame.stores, frame.misaligned);
    }

    /// Makes the frame's stack the processor's.
    pub(crate) fn take_frame(&mut self, frame: &Frame) {
        self.set_segment(seg::SS, frame.ss);
        self.take_stack_pointer(frame);
    }
}
