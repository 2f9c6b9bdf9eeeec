//! Far jumps, calls and returns (AMD64 APM volume 2, "Control-Transfer Privilege Checks" and
//! "Hardware Task-Management in Legacy Mode").

mod frame;
mod iret;
mod syscall;

pub(crate) use frame::Frame;

use crate::{
    access::is_canonical,
    cpu::Cpu,
    descriptor::Segment,
    insn::{Size, gpr, seg},
    observe::{Branch, Cx, Observer},
    segment::{Descriptor, is_null, rpl, selector_fault, system_type},
    stop::{Exec, Stop, vector},
    task::Switch,
};

/// Code that a gate leads to.
pub(crate) struct Entry {
    /// Code segment, with the new privilege level as RPL.
    pub(crate) cs: Segment,
    /// Instruction pointer.
    pub(crate) rip: u64,
    /// Privilege level.
    pub(crate) cpl: u8,
}

impl Cpu {
    /// JMP to `selector:offset`; `next` is the address of the next instruction.
    pub(crate) fn far_jump<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
        offset: u64,
        next: u64,
    ) -> Exec<()> {
        if !self.selectors_are_protected() {
            let cs = self.real_segment(seg::CS, selector);
            self.check_target(&cs, offset)?;
            self.enter(cx, cs, offset);
            return Ok(());
        }
        if is_null(selector) {
            return Err(Stop::GP0);
        }
        let descriptor = self.descriptor(cx, selector, vector::GP)?;
        if !descriptor.is_system() {
            let cs = self.reachable_code(cx, &descriptor, selector, offset)?;
            self.enter(cx, cs, offset);
            return Ok(());
        }
        match self.far_gate(cx, descriptor, selector)? {
            Gate::Call(gate) => {
                let entry = self.gate_entry(cx, &gate)?;
                if entry.cpl != self.cpl {
                    return Err(Stop::gp(gate.gate_selector()));
                }
                self.enter(cx, entry.cs, entry.rip);
                Ok(())
            }
            Gate::Task(tss) => {
                self.switch_task(cx, tss, Switch::Jump, next, None)?;
                self.far_branch(cx);
                self.keep_loaded_rf();
                Ok(())
            }
        }
    }

    /// CALL to `selector:offset`; `next` is the return address, `size` the operand size.
    pub(crate) fn far_call<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
        offset: u64,
        size: Size,
        next: u64,
    ) -> Exec<()> {
        let old_cs = u64::from(self.segment(seg::CS).selector);
        let mut frame = Frame::current(self);
        if !self.selectors_are_protected() {
            let cs = self.real_segment(seg::CS, selector);
            self.check_target(&cs, offset)?;
            self.frame_push(cx, &mut frame, size, old_cs)?;
            self.frame_push(cx, &mut frame, size, next)?;
            self.take_stack_pointer(&frame);
            self.enter(cx, cs, offset);
            return Ok(());
        }
        if is_null(selector) {
            return Err(Stop::GP0);
        }
        let descriptor = self.descriptor(cx, selector, vector::GP)?;
        if !descriptor.is_system() {
            let cs = self.reachable_code(cx, &descriptor, selector, offset)?;
            self.frame_push(cx, &mut frame, size, old_cs)?;
            self.frame_push(cx, &mut frame, size, next)?;
            self.take_stack_pointer(&frame);
            self.enter(cx, cs, offset);
            return Ok(());
        }
        match self.far_gate(cx, descriptor, selector)? {
            Gate::Call(gate) => self.call_gate(cx, &gate, next),
            Gate::Task(tss) => {
                self.switch_task(cx, tss, Switch::Call, next, None)?;
                self.far_branch(cx);
                self.keep_loaded_rf();
                Ok(())
            }
        }
    }

    /// RET far; `release` bytes of parameters are dropped behind the return address.
    pub(crate) fn far_return<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        size: Size,
        release: u16,
    ) -> Exec<()> {
        let mut frame = Frame::current(self);
        let rip = self.frame_pop(cx, &mut frame, size)?;
        let selector = self.frame_pop(cx, &mut frame, size)? as u16;
        frame.skip(u64::from(release));
        if !self.selectors_are_protected() {
            let cs = self.real_segment(seg::CS, selector);
            self.check_target(&cs, rip)?;
            self.take_stack_pointer(&frame);
            self.enter(cx, cs, rip);
            return Ok(());
        }
        let (cs, descriptor) = self.return_code(cx, selector)?;
        self.check_target(&cs, rip)?;
        if rpl(selector) == self.cpl {
            self.mark_accessed(cx, &descriptor)?;
            self.take_stack_pointer(&frame);
            self.enter(cx, cs, rip);
            return Ok(());
        }
        let mut outer = self.pop_outer_stack(cx, &mut frame, &cs, size)?;
        outer.skip(u64::from(release));
        self.mark_accessed(cx, &descriptor)?;
        self.enter_outer(cx, cs, rip, &outer);
        Ok(())
    }

    /// Checks the code segment of a direct far JMP or CALL, which keeps the privilege level.
    fn reachable_code<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        descriptor: &Descriptor,
        selector: u16,
        offset: u64,
    ) -> Exec<Segment> {
        let dpl = descriptor.dpl();
        let allowed = if descriptor.is_conforming() {
            dpl <= self.cpl
        } else {
            rpl(selector) <= self.cpl && dpl == self.cpl
        };
        if !descriptor.is_code() || !allowed {
            return Err(Stop::gp(selector));
        }
        let cs = self.code_segment(descriptor, selector, self.cpl)?;
        self.check_target(&cs, offset)?;
        self.mark_accessed(cx, descriptor)?;
        Ok(cs)
    }

    /// The segment that a code descriptor gives at `cpl`: #NP if it is not there, #GP if it is
    /// 64-bit and 32-bit code at once.
    pub(crate) fn code_segment(
        &self,
        descriptor: &Descriptor,
        selector: u16,
        cpl: u8,
    ) -> Exec<Segment> {
        const BOTH: u16 = Segment::LONG | Segment::BIG;
        let mut cs = descriptor.segment(selector & !3 | u16::from(cpl));
        if self.long_mode() && cs.attributes & BOTH == BOTH {
            return Err(Stop::gp(selector));
        }
        if !cs.present() {
            return Err(selector_fault(vector::NP, selector));
        }
        cs.attributes |= 1;
        Ok(cs)
    }

    /// Checks a gate or task-state segment that a far JMP or CALL names.
    fn far_gate<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        mut descriptor: Descriptor,
        selector: u16,
    ) -> Exec<Gate> {
        use system_type::{CALL_GATE16, CALL_GATE32, TASK_GATE, TSS16, TSS32};
        let known = match descriptor.kind() {
            CALL_GATE32 => true,
            CALL_GATE16 | TASK_GATE | TSS16 | TSS32 => !self.long_mode(),
            _ => false,
        };
        if !known || descriptor.dpl() < self.cpl.max(rpl(selector)) {
            return Err(Stop::gp(selector));
        }
        if !descriptor.present() {
            return Err(selector_fault(vector::NP, selector));
        }
        Ok(match descriptor.kind() {
            TASK_GATE => Gate::Task(descriptor.gate_selector()),
            TSS16 | TSS32 => Gate::Task(selector),
            _ => {
                self.complete_system_descriptor(cx, &mut descriptor, selector, vector::GP)?;
                Gate::Call(descriptor)
            }
        })
    }

    /// The code behind a call, interrupt or trap gate.
    pub(crate) fn gate_entry<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        gate: &Descriptor,
    ) -> Exec<Entry> {
        let selector = gate.gate_selector();
        if is_null(selector) {
            return Err(Stop::GP0);
        }
        let descriptor = self.descriptor(cx, selector, vector::GP)?;
        let code64 = descriptor.attributes() & Segment::LONG != 0;
        if !descriptor.is_code() || descriptor.dpl() > self.cpl || self.long_mode() && !code64 {
            return Err(Stop::gp(selector));
        }
        let cpl = if descriptor.is_conforming() { self.cpl } else { descriptor.dpl() };
        let cs = self.code_segment(&descriptor, selector, cpl)?;
        let rip = gate.gate_offset();
        self.check_target(&cs, rip)?;
        self.mark_accessed(cx, &descriptor)?;
        Ok(Entry { cs, rip, cpl })
    }

    fn call_gate<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        gate: &Descriptor,
        next: u64,
    ) -> Exec<()> {
        let entry = self.gate_entry(cx, gate)?;
        let size = if self.long_mode() {
            Size::B8
        } else if gate.kind() == system_type::CALL_GATE16 {
            Size::B2
        } else {
            Size::B4
        };
        let old_cs = u64::from(self.segment(seg::CS).selector);
        let old_ss = u64::from(self.segment(seg::SS).selector);
        let top = Frame::current(self);
        if entry.cpl == self.cpl {
            let mut frame = if self.long_mode() {
                Frame::long(top.ss, self.gpr(gpr::RSP), self.cpl)
            } else {
                top
            };
            self.frame_push(cx, &mut frame, size, old_cs)?;
            self.frame_push(cx, &mut frame, size, next)?;
            self.take_stack_pointer(&frame);
            self.enter(cx, entry.cs, entry.rip);
            return Ok(());
        }
        let mut frame = self.inner_stack(cx, entry.cpl)?;
        self.frame_push(cx, &mut frame, size, old_ss)?;
        self.frame_push(cx, &mut frame, size, self.gpr(gpr::RSP))?;
        if !self.long_mode() {
            // Parameters are copied from the last to the first.
            for n in (0..u64::from(gate.gate_count())).rev() {
                let mut parameter = top;
                parameter.skip(n * size.bytes() as u64);
                let value = self.frame_pop(cx, &mut parameter, size)?;
                self.frame_push(cx, &mut frame, size, value)?;
            }
        }
        self.frame_push(cx, &mut frame, size, old_cs)?;
        self.frame_push(cx, &mut frame, size, next)?;
        self.count_frame(cx, &frame);
        self.set_cpl(entry.cpl);
        self.take_frame(&frame);
        cx.observer.seg_load(seg::SS);
        self.enter(cx, entry.cs, entry.rip);
        Ok(())
    }

    /// The stack that the task-state segment has for an inner privilege level.
    pub(crate) fn inner_stack<O: Observer>(&mut self, cx: &mut Cx<'_, O>, cpl: u8) -> Exec<Frame> {
        if self.long_mode() {
            let rsp = self.tss_stack(cx, 4 + 8 * u32::from(cpl))?;
            let ss = self.null_segment(seg::SS, u16::from(cpl));
            return Ok(Frame::long(ss, rsp, cpl));
        }
        let wide = self.tr.kind() & 8 != 0;
        let (at, bytes) =
            if wide { (4 + 8 * u32::from(cpl), 6) } else { (2 + 4 * u32::from(cpl), 4) };
        if at + (bytes - 1) > self.tr.limit {
            return Err(selector_fault(vector::TS, self.tr.selector));
        }
        let address = self.wrap_linear(self.tr.base.wrapping_add(u64::from(at)));
        let pointer = u64::from(bytes - 2);
        let sp = if wide {
            u64::from(self.load_system::<O, u32>(cx, address)?)
        } else {
            u64::from(self.load_system::<O, u16>(cx, address)?)
        };
        let selector = self.load_system::<O, u16>(cx, self.wrap_linear(address + pointer))?;
        let ss = self.stack_segment(cx, selector, cpl, false, vector::TS)?;
        Ok(Frame::legacy(ss, sp, cpl))
    }

    /// A stack pointer of a long-mode task-state segment: RSPn or ISTn at offset `at`.
    pub(crate) fn tss_stack<O: Observer>(&mut self, cx: &mut Cx<'_, O>, at: u32) -> Exec<u64> {
        if at + 7 > self.tr.limit {
            return Err(selector_fault(vector::TS, self.tr.selector));
        }
        let rsp = self.load_system(cx, self.tr.base.wrapping_add(u64::from(at)))?;
        if is_canonical(rsp) { Ok(rsp) } else { Err(Stop::SS0) }
    }

    /// Checks the code segment that a far return or IRET goes back to.
    fn return_code<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
    ) -> Exec<(Segment, Descriptor)> {
        if is_null(selector) {
            return Err(Stop::GP0);
        }
        let descriptor = self.descriptor(cx, selector, vector::GP)?;
        let level = rpl(selector);
        let allowed = if descriptor.is_conforming() {
            descriptor.dpl() <= level
        } else {
            descriptor.dpl() == level
        };
        if !descriptor.is_code() || level < self.cpl || !allowed {
            return Err(Stop::gp(selector));
        }
        let cs = self.code_segment(&descriptor, selector, level)?;
        Ok((cs, descriptor))
    }

    /// Pops SP and SS of an outer privilege level off the current stack.
    fn pop_outer_stack<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        frame: &mut Frame,
        cs: &Segment,
        size: Size,
    ) -> Exec<Frame> {
        let sp = self.frame_pop(cx, frame, size)?;
        let selector = self.frame_pop(cx, frame, size)? as u16;
        let level = rpl(cs.selector);
        let code64 = self.long_mode() && cs.attributes & Segment::LONG != 0;
        let ss = self.stack_segment(cx, selector, level, code64, vector::GP)?;
        Ok(if code64 { Frame::long(ss, sp, level) } else { Frame::legacy(ss, sp, level) })
    }

    /// Goes to an outer privilege level.
    fn enter_outer<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        cs: Segment,
        rip: u64,
        outer: &Frame,
    ) {
        let level = rpl(cs.selector);
        self.set_cpl(level);
        self.take_frame(outer);
        cx.observer.seg_load(seg::SS);
        self.enter(cx, cs, rip);
        self.drop_inner_segments(level);
    }

    /// The end of every far transfer: CS and RIP are loaded.
    fn enter<O: Observer>(&mut self, cx: &mut Cx<'_, O>, cs: Segment, rip: u64) {
        self.set_segment(seg::CS, cs);
        self.rip = rip;
        cx.observer.seg_load(seg::CS);
        self.far_branch(cx);
    }

    /// Counts a far transfer that has been made; the run loop has to find its target.
    pub(crate) fn far_branch<O: Observer>(&mut self, cx: &mut Cx<'_, O>) {
        self.slot = 2;
        self.spend_taken();
        cx.observer.branch(Branch::Far, true);
    }
}

/// What a system descriptor stands for as the target of a far transfer.
enum Gate {
    Call(Descriptor),
    Task(u16),
}
