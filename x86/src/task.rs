//! The hardware task switch (AMD64 APM volume 2, "Hardware Task-Management in Legacy Mode").

use crate::{
    control_registers::{cr0, cr4},
    cpu::Cpu,
    descriptor::Segment,
    far::Frame,
    flags,
    insn::{Size, seg},
    observe::{Cx, Observer},
    segment::{Descriptor, is_null, rpl, selector_fault, system_type},
    stop::{Exec, Stop, vector},
};

/// DR6.BT: the new task asked for a debug trap.
const TASK_SWITCH_TRAP: u64 = 1 << 15;
/// DR7.L0-L3 and LE.
const LOCAL_ENABLES: u64 = 0x155;
const TI: u16 = 4;

/// What switches tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// JMP: the old task is left.
    Jump,
    /// CALL: the new task is nested in the old one.
    Call,
    /// An interrupt, trap or abort through a task gate: nested too.
    Interrupt,
    /// A fault through a task gate: as an interrupt, and the old task's RFLAGS is saved with RF
    /// set, so that the instruction that it restarts does not run into its own breakpoint again.
    Fault,
    /// IRET with NT set: back to the task at the back link.
    Return,
}

impl Switch {
    fn nests(self) -> bool {
        matches!(self, Self::Call | Self::Interrupt | Self::Fault)
    }
}

/// Where a task-state segment holds what (APM volume 2, "Legacy Task-State Segment"; Intel SDM
/// volume 3, "16-Bit Task-State Segment").
#[derive(Clone, Copy)]
struct Layout {
    /// Last byte of the part that the processor reads.
    limit: u32,
    ip: u64,
    flags: u64,
    registers: u64,
    segments: u64,
    segment_count: u64,
    ldt: u64,
    size: Size,
}

const LAYOUT32: Layout = Layout {
    limit: 103,
    ip: 32,
    flags: 36,
    registers: 40,
    segments: 72,
    segment_count: 6,
    ldt: 96,
    size: Size::B4,
};
const LAYOUT16: Layout = Layout {
    limit: 43,
    ip: 14,
    flags: 16,
    registers: 18,
    segments: 34,
    segment_count: 4,
    ldt: 42,
    size: Size::B2,
};
const CR3_AT: u64 = 28;
const TRAP_AT: u64 = 100;

impl Layout {
    fn of(kind: u8) -> Self {
        if kind & 8 != 0 { LAYOUT32 } else { LAYOUT16 }
    }

    fn is_wide(&self) -> bool {
        self.size == Size::B4
    }
}

/// A task's registers as its task-state segment has them.
struct State {
    cr3: Option<u32>,
    ip: u64,
    flags: u64,
    registers: [u64; 8],
    selectors: [u16; 6],
    ldt: u16,
    trap: bool,
}

impl Cpu {
    /// IRET in a nested task. `next` is the address of the next instruction.
    pub(crate) fn return_to_task<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        next: u64,
    ) -> Exec<()> {
        let address = self.wrap_linear(self.tr.base);
        let back_link = self.load_system(cx, address)?;
        self.switch_task(cx, back_link, Switch::Return, next, None)
    }

    /// Switches to the task of `selector`; the old one goes on at `next` when it runs again. An
    /// error code is pushed on the new task's stack.
    ///
    /// Until the new task's registers are loaded an exception is the old task's and comes back as
    /// an error; later ones are the new task's and are delivered here.
    pub(crate) fn switch_task<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
        how: Switch,
        next: u64,
        code: Option<u16>,
    ) -> Exec<()> {
        let descriptor = self.check_task(cx, selector, how)?;
        let new = Layout::of(descriptor.kind());
        let tss = descriptor.segment(selector);
        let state = self.read_task(cx, &new, tss.base)?;
        self.save_task(cx, how, next)?;
        if !how.nests() {
            self.clear_busy(cx)?;
        }
        if how != Switch::Return {
            self.write_type(cx, &descriptor, descriptor.kind() | 2)?;
        }
        if how.nests() {
            let back_link = self.tr.selector;
            self.store_system(cx, self.wrap_linear(tss.base), back_link)?;
        }
        self.tr = Segment { attributes: tss.attributes | 2, ..tss };
        self.cr0 |= cr0::TS;
        // Local breakpoints are the old task's.
        self.dr[7] &= !LOCAL_ENABLES;
        self.refresh_watch();
        let entered = self
            .enter_task(cx, &new, &state, how)
            .and_then(|()| self.push_task_error(cx, &new, code))
            .and_then(|()| {
                if state.trap {
                    self.set_debug_status(TASK_SWITCH_TRAP);
                    Err(Stop::fault(vector::DB))
                } else {
                    Ok(())
                }
            });
        self.leave.ask();
        match entered {
            Ok(()) => Ok(()),
            Err(stop) => self.raise(cx, stop),
        }
    }

    fn check_task<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
        how: Switch,
    ) -> Exec<Descriptor> {
        use system_type::{TSS16, TSS16_BUSY, TSS32, TSS32_BUSY};
        let bad = if how == Switch::Return { vector::TS } else { vector::GP };
        if is_null(selector) || selector & TI != 0 {
            return Err(selector_fault(bad, selector));
        }
        let descriptor = self.descriptor(cx, selector, bad)?;
        let wanted = if how == Switch::Return { [TSS16_BUSY, TSS32_BUSY] } else { [TSS16, TSS32] };
        if !descriptor.is_system() || !wanted.contains(&descriptor.kind()) {
            return Err(selector_fault(bad, selector));
        }
        if !descriptor.present() {
            return Err(selector_fault(vector::NP, selector));
        }
        if descriptor.segment(selector).limit < Layout::of(descriptor.kind()).limit {
            return Err(selector_fault(vector::TS, selector));
        }
        Ok(descriptor)
    }

    fn read_word<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        size: Size,
        address: u64,
    ) -> Exec<u64> {
        let address = self.wrap_linear(address);
        Ok(if size == Size::B2 {
            u64::from(self.load_system::<O, u16>(cx, address)?)
        } else {
            u64::from(self.load_system::<O, u32>(cx, address)?)
        })
    }

    fn write_word<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        size: Size,
        address: u64,
        value: u64,
    ) -> Exec<()> {
        let address = self.wrap_linear(address);
        if size == Size::B2 {
            self.store_system(cx, address, value as u16)
        } else {
            self.store_system(cx, address, value as u32)
        }
    }

    fn read_task<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        layout: &Layout,
        base: u64,
    ) -> Exec<State> {
        let step = layout.size.bytes() as u64;
        let mut registers = [0; 8];
        for (register, n) in registers.iter_mut().zip(0..) {
            *register =
                self.read_word(cx, layout.size, base.wrapping_add(layout.registers + n * step))?;
        }
        let mut selectors = [0; 6];
        for n in 0..layout.segment_count {
            let at = base.wrapping_add(layout.segments + n * step);
            selectors[n as usize] = self.read_word(cx, Size::B2, at)? as u16;
        }
        let wide = layout.is_wide();
        let cr3 = if wide {
            Some(self.read_word(cx, Size::B4, base.wrapping_add(CR3_AT))? as u32)
        } else {
            None
        };
        Ok(State {
            cr3,
            ip: self.read_word(cx, layout.size, base.wrapping_add(layout.ip))?,
            flags: self.read_word(cx, layout.size, base.wrapping_add(layout.flags))?,
            registers,
            selectors,
            ldt: self.read_word(cx, Size::B2, base.wrapping_add(layout.ldt))? as u16,
            trap: wide && self.read_word(cx, Size::B2, base.wrapping_add(TRAP_AT))? & 1 != 0,
        })
    }

    /// Writes the running task's registers to its task-state segment.
    fn save_task<O: Observer>(&mut self, cx: &mut Cx<'_, O>, how: Switch, next: u64) -> Exec<()> {
        let layout = Layout::of(self.tr.kind());
        let base = self.tr.base;
        let step = layout.size.bytes() as u64;
        let image = match how {
            Switch::Jump | Switch::Call => self.rflags() & !flags::RF,
            Switch::Return => self.rflags() & !(flags::RF | flags::NT),
            Switch::Fault => self.rflags() | flags::RF,
            Switch::Interrupt => self.rflags(),
        };
        self.write_word(cx, layout.size, base.wrapping_add(layout.ip), next)?;
        self.write_word(cx, layout.size, base.wrapping_add(layout.flags), image)?;
        for n in 0..8 {
            let at = base.wrapping_add(layout.registers + u64::from(n) * step);
            self.write_word(cx, layout.size, at, self.gpr(n))?;
        }
        for n in 0..layout.segment_count {
            let selector = self.segment(n as u8).selector;
            let at = base.wrapping_add(layout.segments + n * step);
            self.write_word(cx, Size::B2, at, u64::from(selector))?;
        }
        Ok(())
    }

    fn clear_busy<O: Observer>(&mut self, cx: &mut Cx<'_, O>) -> Exec<()> {
        let old = self.descriptor(cx, self.tr.selector, vector::TS)?;
        self.write_type(cx, &old, old.kind() & !2)
    }

    /// Loads the new task's registers. From here on exceptions are the new task's.
    fn enter_task<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        layout: &Layout,
        state: &State,
        how: Switch,
    ) -> Exec<()> {
        let mut image = state.flags;
        if how.nests() {
            image |= flags::NT;
        }
        if !layout.is_wide() {
            image &= 0xffff;
        }
        for (n, &value) in (0..).zip(&state.registers) {
            // A 16-bit task has no upper halves: they are cleared.
            self.set_gpr(n, value);
        }
        self.rip = state.ip;
        self.set_rflags(image);
        for (n, &selector) in (0..).zip(&state.selectors) {
            self.set_segment(n, self.null_segment(n, selector));
        }
        self.set_cpl(rpl(state.selectors[usize::from(seg::CS)]));
        self.ldtr = Segment { selector: state.ldt, ..Segment::default() };
        if let Some(cr3) = state.cr3
            && self.cr0 & cr0::PG != 0
        {
            if self.cr4 & cr4::PAE != 0 {
                self.load_pdptes(cx.ram, u64::from(cr3))?;
            }
            self.cr3 = u64::from(cr3);
            self.tlb.flush_local();
        }
        self.ldtr = self.load_ldtr(cx, state.ldt, vector::TS, vector::TS)?;
        for n in 0..6 {
            cx.observer.seg_load(n);
        }
        if image & flags::VM != 0 {
            self.enter_v8086(state.selectors);
            return Ok(());
        }
        let cs = self.task_code(cx, state.selectors[usize::from(seg::CS)])?;
        self.set_segment(seg::CS, cs);
        let ss = self.stack_segment(
            cx,
            state.selectors[usize::from(seg::SS)],
            self.cpl,
            false,
            vector::TS,
        )?;
        self.set_segment(seg::SS, ss);
        for n in [seg::ES, seg::DS, seg::FS, seg::GS] {
            let segment = self.data_segment(cx, n, state.selectors[usize::from(n)], vector::TS)?;
            self.set_segment(n, segment);
        }
        self.check_target(&cs, state.ip)
    }

    fn task_code<O: Observer>(&mut self, cx: &mut Cx<'_, O>, selector: u16) -> Exec<Segment> {
        if is_null(selector) {
            return Err(selector_fault(vector::TS, selector));
        }
        let descriptor = self.descriptor(cx, selector, vector::TS)?;
        let level = rpl(selector);
        let allowed = if descriptor.is_conforming() {
            descriptor.dpl() <= level
        } else {
            descriptor.dpl() == level
        };
        if !descriptor.is_code() || !allowed {
            return Err(selector_fault(vector::TS, selector));
        }
        let cs = self.code_segment(&descriptor, selector, level)?;
        self.mark_accessed(cx, &descriptor)?;
        Ok(cs)
    }

    fn push_task_error<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        layout: &Layout,
        code: Option<u16>,
    ) -> Exec<()> {
        let Some(code) = code else { return Ok(()) };
        let mut frame = Frame::current(self);
        self.frame_push(cx, &mut frame, layout.size, u64::from(code))?;
        self.take_stack_pointer(&frame);
        Ok(())
    }
}
