//! The inverse of the delivery of an exception: from a handler of which nothing has executed yet back
//! to the instruction that faulted (AMD64 APM volume 2, chapter 8, "Interrupt Control Transfers").

use crate::{
    cpu::Cpu,
    descriptor::Segment,
    far::Frame,
    flags,
    insn::{Size, gpr, seg},
    observe::{Cx, Observer},
    segment::{Descriptor, system_type},
    stop::{Exception, Exec, vector},
};

/// An exception whose delivery was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwound {
    /// What had been delivered.
    pub exception: Exception,
    /// The frame says that it was a fault: its RFLAGS image has RF set. A 16-bit frame has no room
    /// for that, and may as well be that of an interrupt or of INT n with the same vector.
    pub proven: bool,
}

/// What an interrupt table says about a vector.
struct Handler {
    /// Width of the words in the frame.
    size: Size,
    /// RFLAGS bits that are clear in the handler.
    cleared: u64,
    /// IST index; zero if the gate has none.
    ist: u8,
}

impl Cpu {
    /// Undoes the delivery of a fault with `vector` to the handler whose first instruction is next.
    /// `None`, and nothing has changed, if the handler is not there or the stack does not hold the
    /// frame that a fault leaves, because a jump, INT n or an interrupt with this vector led there.
    /// Handlers behind task gates are not recognised.
    ///
    /// RF is set afterwards, as in the frame: that of the faulting instruction itself is lost.
    pub fn unwind<O: Observer>(&mut self, cx: &mut Cx<'_, O>, vector: u8) -> Option<Unwound> {
        let before = Before::of(self);
        let unwound = self.try_unwind(cx, vector);
        if unwound.is_none() {
            before.restore(self);
        }
        unwound
    }

    fn try_unwind<O: Observer>(&mut self, cx: &mut Cx<'_, O>, vector: u8) -> Option<Unwound> {
        let handler = self.handler_here(cx, vector).ok()??;
        let before = Before::of(self);
        // RF may be that of a breakpoint which stopped the handler.
        if before.rflags & handler.cleared & !flags::RF != 0 {
            return None;
        }
        let mut frame = Frame::current(self);
        let code = if self.protected() && pushes_code(vector) {
            Some(self.frame_pop(cx, &mut frame, handler.size).ok()? as u16)
        } else {
            None
        };
        self.take_stack_pointer(&frame);
        let mut words = [0; 5];
        for word in &mut words {
            // Not all are in every frame; what lies behind the stack's end is none.
            *word = self.frame_pop(cx, &mut frame, handler.size).unwrap_or(0);
        }
        let [_, _, image, sp, _] = words;
        let proven = handler.size != Size::B2;
        if proven && image & flags::RF == 0 {
            return None;
        }
        self.interrupt_return(cx, handler.size, 0).ok()?;
        self.slot = 2;
        self.nmi_blocked = before.nmi_blocked;
        self.cr2 = before.cr2;
        self.debug_hits = 0;
        // IRET leaves alone what its own privilege may not change; the frame has it all.
        let kept = if proven { 0 } else { before.rflags & !0xffff };
        self.set_rflags(image | kept);
        if handler.size == Size::B4 && self.cpl != before.cpl {
            self.set_gpr(gpr::RSP, sp);
        }
        if self.cpl == before.cpl && !self.v8086() {
            // No segment register but CS was loaded, and CS only if the selector changed.
            for n in [seg::CS, seg::SS] {
                let was = before.segments[usize::from(n)];
                if self.segment(n).selector == was.selector {
                    self.set_segment(n, was);
                }
            }
        }
        // Not every host's delivery leaves AC alone.
        let changed = handler.cleared | flags::AC;
        let same_flags = (self.rflags() ^ before.rflags) & !changed == 0;
        let words = if self.v8086() { 9 } else { 5 };
        (same_flags && self.frame_began_there(cx, &handler, &before, code.is_some(), words))
            .then_some(Unwound { exception: Exception { vector, code }, proven })
    }

    /// The handler of `vector`, if its first instruction is next.
    fn handler_here<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        vector: u8,
    ) -> Exec<Option<Handler>> {
        let number = u64::from(vector);
        let cs = self.segment(seg::CS).selector;
        if !self.protected() {
            let address = self.wrap_linear(self.idtr.base.wrapping_add(4 * number));
            let entry: u32 = self.load_system(cx, address)?;
            let cleared = flags::IF | flags::TF | flags::RF | flags::AC;
            let here = (entry >> 16) as u16 == cs && u64::from(entry & 0xffff) == self.rip;
            return Ok(here.then_some(Handler { size: Size::B2, cleared, ist: 0 }));
        }
        let bytes = if self.long_mode() { 16 } else { 8 };
        if number * bytes + (bytes - 1) > u64::from(self.idtr.limit) || self.v8086() {
            return Ok(None);
        }
        let address = self.wrap_linear(self.idtr.base.wrapping_add(bytes * number));
        let low = self.load_system(cx, address)?;
        let high = if self.long_mode() {
            self.load_system::<O, u64>(cx, address.wrapping_add(8))? & 0xffff_ffff
        } else {
            0
        };
        let gate = Descriptor { low, high, address };
        let size = match gate.kind() {
            _ if self.long_mode() => Size::B8,
            system_type::INTERRUPT_GATE16 | system_type::TRAP_GATE16 => Size::B2,
            system_type::INTERRUPT_GATE32 | system_type::TRAP_GATE32 => Size::B4,
            _ => return Ok(None),
        };
        let is_interrupt_gate = gate.kind() & 1 == 0;
        let enable = if is_interrupt_gate { flags::IF } else { 0 };
        let here = gate.is_system()
            && gate.present()
            && (gate.gate_selector() ^ cs) & !3 == 0
            && gate.gate_offset() == self.rip;
        Ok(here.then_some(Handler {
            size,
            cleared: flags::TF | flags::NT | flags::RF | flags::VM | enable,
            ist: if self.long_mode() { gate.gate_count() & 7 } else { 0 },
        }))
    }

    /// After the unwinding: whether a frame of `words` words (and the error code) that ends where
    /// this delivery's would begin is the one that was there `before`.
    fn frame_began_there<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        handler: &Handler,
        before: &Before,
        code: bool,
        words: u64,
    ) -> bool {
        let inner = self.cpl != before.cpl;
        let start = match (handler.ist, inner) {
            (0, false) if handler.size != Size::B8 => return true,
            (0, false) => Ok(self.gpr(gpr::RSP)),
            (0, true) => self.inner_stack(cx, before.cpl).map(|frame| frame.sp),
            (ist, _) => self.tss_stack(cx, 28 + 8 * u32::from(ist)),
        };
        let Ok(mut start) = start else { return false };
        if handler.size == Size::B8 {
            start &= !15;
        }
        let bytes = (words + u64::from(code)) * handler.size.bytes() as u64;
        start.wrapping_sub(bytes) & before.stack_mask == before.rsp & before.stack_mask
    }
}

/// Whether an exception has an error code in protected mode (AMD64 APM volume 2, table 8-1).
fn pushes_code(vector: u8) -> bool {
    matches!(vector, vector::DF | vector::TS..=vector::PF | vector::AC)
}

/// All that an unwinding changes.
struct Before {
    rip: u64,
    rsp: u64,
    stack_mask: u64,
    rflags: u64,
    segments: [Segment; 6],
    cpl: u8,
    cr2: u64,
    nmi_blocked: bool,
    slot: u32,
}

impl Before {
    fn of(cpu: &Cpu) -> Self {
        Self {
            rip: cpu.rip,
            rsp: cpu.gpr(gpr::RSP),
            stack_mask: cpu.stack_mask(),
            rflags: cpu.rflags(),
            segments: cpu.segments,
            cpl: cpu.cpl,
            cr2: cpu.cr2,
            nmi_blocked: cpu.nmi_blocked,
            slot: cpu.slot,
        }
    }

    fn restore(&self, cpu: &mut Cpu) {
        cpu.rip = self.rip;
        cpu.set_gpr(gpr::RSP, self.rsp);
        cpu.set_rflags(self.rflags);
        for (n, segment) in (0..).zip(self.segments) {
            cpu.set_segment(n, segment);
        }
        cpu.set_cpl(self.cpl);
        cpu.cr2 = self.cr2;
        cpu.nmi_blocked = self.nmi_blocked;
        cpu.slot = self.slot;
    }
}
