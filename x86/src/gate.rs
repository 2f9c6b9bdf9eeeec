//! Exceptions and interrupts on their way to a handler (AMD64 APM volume 2, chapter 8).

use crate::{
    control_registers::cr4,
    cpu::{Cpu, Shadow},
    descriptor::Segment,
    far::{Entry, Frame},
    flags, history,
    insn::{Size, gpr, seg},
    observe::{Cx, Delivery, Observer},
    segment::{Descriptor, system_type},
    stop::{Exception, Exec, Stop, vector},
    task::Switch,
};

/// Error-code bits of #GP and #NP that concern the interrupt table (APM volume 2, "Error Codes").
const EXT: u16 = 1;
const IDT: u16 = 2;
/// Bytes of the software-interrupt redirection bitmap, which ends where the I/O-permission bitmap
/// begins (APM volume 2, "Software Interrupt-Redirection Bitmap").
const REDIRECTION_BYTES: u32 = 32;
/// DR7.GD.
const GENERAL_DETECT: u64 = 1 << 13;

/// What interrupts the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A fault, trap or abort of the processor.
    Exception(Exception),
    /// A maskable interrupt.
    Interrupt(u8),
    /// The non-maskable interrupt.
    Nmi,
    /// INT n.
    Software(u8),
    /// INT3 or INTO: as INT n, but not held back by IOPL in virtual-8086 mode.
    SoftwareException(u8),
    /// INT1: the gate's privilege is not checked.
    Icebp,
}

impl Event {
    fn vector(self) -> u8 {
        match self {
            Self::Exception(exception) => exception.vector,
            Self::Interrupt(vector) | Self::Software(vector) | Self::SoftwareException(vector) => {
                vector
            }
            Self::Nmi => vector::NMI,
            Self::Icebp => vector::DB,
        }
    }

    fn code(self) -> Option<u16> {
        match self {
            Self::Exception(exception) => exception.code,
            _ => None,
        }
    }

    /// The exception that it is, if it is one and no interrupt.
    fn exception(self) -> Option<Exception> {
        match self {
            Self::Exception(exception) => Some(exception),
            Self::SoftwareException(vector) => Some(Exception { vector, code: None }),
            Self::Icebp => Some(Exception { vector: vector::DB, code: None }),
            Self::Interrupt(_) | Self::Nmi | Self::Software(_) => None,
        }
    }

    /// An instruction asked for it.
    fn is_instruction(self) -> bool {
        matches!(self, Self::Software(_) | Self::SoftwareException(_) | Self::Icebp)
    }

    /// The gate's DPL has to admit the running program.
    fn checks_gate(self) -> bool {
        matches!(self, Self::Software(_) | Self::SoftwareException(_))
    }

    /// A fault: the saved RFLAGS has RF set, so that the restarted instruction does not run into
    /// its own breakpoint again (APM volume 2, "RFLAGS Register").
    fn is_fault(self) -> bool {
        use vector::{BP, DB, DF, MC, NMI, OF};
        match self {
            Self::Exception(e) => !matches!(e.vector, DB | NMI | BP | OF | DF | MC),
            _ => false,
        }
    }
}

impl Cpu {
    /// Takes a maskable interrupt. RIP is that of the next instruction.
    ///
    /// # Errors
    /// [`Stop::SHUTDOWN`] after a triple fault.
    pub fn interrupt<O: Observer>(&mut self, cx: &mut Cx<'_, O>, vector: u8) -> Exec<()> {
        // As a run does when it begins: what is pushed may be what comes first behind a look at who has written what.
        self.tlb.notice_code(cx.ram);
        self.deliver(cx, Event::Interrupt(vector)).or_else(|stop| self.raise(cx, stop))
    }

    /// Takes a non-maskable interrupt. RIP is that of the next instruction.
    ///
    /// # Errors
    /// [`Stop::SHUTDOWN`] after a triple fault.
    pub fn nmi<O: Observer>(&mut self, cx: &mut Cx<'_, O>) -> Exec<()> {
        self.tlb.notice_code(cx.ram);
        self.deliver(cx, Event::Nmi).or_else(|stop| self.raise(cx, stop))
    }

    /// Delivers the exception in `stop`, and those that the delivery itself raises. RIP is that of
    /// the faulting instruction, or of the next one after a trap.
    ///
    /// [`Stop::SHUTDOWN`] after a triple fault; a `stop` that is no exception comes back.
    pub(crate) fn raise<O: Observer>(&mut self, cx: &mut Cx<'_, O>, stop: Stop) -> Exec<()> {
        let mut pending = stop;
        let mut misaligned = false;
        loop {
            let Some(first) = pending.exception() else { return Err(pending) };
            // A handler at privilege 3 with a misaligned stack: the processor would try for ever.
            if first.vector == vector::AC && std::mem::replace(&mut misaligned, true) {
                return Err(Stop::SHUTDOWN);
            }
            let Err(stop) = self.deliver(cx, Event::Exception(first)) else { return Ok(()) };
            let Some(second) = stop.exception() else { return Err(stop) };
            pending = combine(first.vector, second.vector).unwrap_or(stop);
        }
    }

    /// Delivers one event; on an error nothing has changed but memory below the stack pointer.
    pub(crate) fn deliver<O: Observer>(&mut self, cx: &mut Cx<'_, O>, event: Event) -> Exec<()> {
        let stepping = self.system_flags & flags::TF != 0;
        // ICEBP is a #DB already: what MOV SS has held back comes with it and not behind it.
        let matches = if event == Event::Icebp { std::mem::take(&mut self.debug_hits) } else { 0 };
        let mark = cx.observer.mark();
        let raised = event.exception().map(|exception| self.raised(cx.ram, exception));
        if O::FOLLOWS && !event.is_instruction() {
            cx.observer.delivering(self);
        }
        let delivered = if !self.protected() {
            self.deliver_real(cx, event)
        } else if self.long_mode() {
            self.deliver_long(cx, event)
        } else {
            self.deliver_protected(cx, event)
        };
        if delivered.is_err() {
            cx.observer.roll_back(mark);
        }
        let delivered =
            delivered.map_err(|stop| if event.is_instruction() { stop } else { external(stop) });
        if let Some(raised) = raised {
            self.note_raised(raised, event, delivered);
        }
        delivered?;
        self.halted = false;
        self.delayed_until = 0;
        self.shadow = Shadow::None;
        self.set_debug_status(matches);
        if event.vector() == vector::DB && !matches!(event, Event::Software(_)) {
            self.dr[7] &= !GENERAL_DETECT;
        }
        if event.is_instruction() {
            self.far_branch(cx);
            if stepping {
                self.lose_step();
            }
            return Ok(());
        }
        self.slot = 2;
        self.step_without_retiring(1, u64::from(self.cycle_costs.delivery));
        match event {
            Event::Exception(_) => cx.observer.exception(),
            _ => cx.observer.interrupt(),
        }
        if O::FOLLOWS {
            let interrupt = !matches!(event, Event::Exception(_));
            // Real mode has no error codes. Handlers behind 16-bit gates are taken for 32-bit ones.
            let code_bytes = match event.code() {
                Some(_) if self.long_mode() => 8,
                Some(_) if self.protected() => 4,
                _ => 0,
            };
            let vector = event.vector();
            cx.observer.delivered(self, cx.ram, Delivery { vector, interrupt, code_bytes });
            self.pass_modelled(cx);
        }
        if event == Event::Nmi {
            self.nmi_blocked = true;
        }
        Ok(())
    }

    /// Notes an exception and what became of it. An instruction that asked for it and faults instead has
    /// not raised it, and what is to be executed again has not yet.
    fn note_raised(&mut self, mut raised: history::Raised, event: Event, delivered: Exec<()>) {
        if let Err(stop) = delivered {
            let Some(exception) = stop.exception().filter(|_| !event.is_instruction()) else {
                return;
            };
            raised.delivery = history::Delivery::Raised(exception, self.cr2);
        }
        self.history.push(raised);
    }

    /// RFLAGS as a handler's frame has it.
    fn flags_image(&self, event: Event) -> u64 {
        self.rflags() | if event.is_fault() { flags::RF } else { 0 }
    }

    fn deliver_real<O: Observer>(&mut self, cx: &mut Cx<'_, O>, event: Event) -> Exec<()> {
        let at = u16::from(event.vector()) * 4;
        if at + 3 > self.idtr.limit {
            return Err(Stop::GP0);
        }
        let address = self.wrap_linear(self.idtr.base.wrapping_add(u64::from(at)));
        let image = self.flags_image(event);
        let cleared = flags::IF | flags::TF | flags::RF | flags::AC;
        self.enter_real_handler(cx, address, image, cleared)
    }

    /// INT n in virtual-8086 mode whose handler is the program's own: as in real mode, with the
    /// interrupt table at address zero. Below IOPL 3 the program has VIF for IF, and sees itself at
    /// IOPL 3.
    fn deliver_v8086<O: Observer>(&mut self, cx: &mut Cx<'_, O>, vector: u8) -> Exec<()> {
        let mut image = self.rflags();
        let mut enable = flags::IF;
        if self.iopl() != 3 {
            image = Self::virtual_interrupt_image(image);
            enable = flags::VIF;
        }
        let address = u64::from(vector) * 4;
        self.enter_real_handler(cx, address, image, enable | flags::TF | flags::RF)
    }

    /// Whether the redirection bitmap leaves INT n in virtual-8086 mode to the program: its bit is
    /// clear. #GP(0) if the task-state segment has no such bit.
    fn is_redirected<O: Observer>(&mut self, cx: &mut Cx<'_, O>, n: u8) -> Exec<bool> {
        let bitmap = self.io_bitmap(cx)?.checked_sub(REDIRECTION_BYTES).ok_or(Stop::GP0)?;
        let at = bitmap + u32::from(n / 8);
        if at > self.tr.limit {
            return Err(Stop::GP0);
        }
        let address = self.wrap_linear(self.tr.base.wrapping_add(u64::from(at)));
        let bits: u8 = self.load_system(cx, address)?;
        Ok(bits >> (n % 8) & 1 == 0)
    }

    /// Goes to the handler whose far pointer is at `address`, and clears the flags `cleared`.
    fn enter_real_handler<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        address: u64,
        image: u64,
        cleared: u64,
    ) -> Exec<()> {
        let entry: u32 = self.load_system(cx, address)?;
        let cs = self.real_segment(seg::CS, (entry >> 16) as u16);
        let rip = u64::from(entry & 0xffff);
        self.check_target(&cs, rip)?;
        let mut frame = Frame::current(self);
        let old_cs = u64::from(self.segment(seg::CS).selector);
        for value in [image, old_cs, self.rip] {
            self.frame_push(cx, &mut frame, Size::B2, value)?;
        }
        self.take_stack_pointer(&frame);
        self.load_flags(0, cleared);
        self.set_segment(seg::CS, cs);
        self.rip = rip;
        cx.observer.seg_load(seg::CS);
        Ok(())
    }

    /// Reads the gate of an event and makes the checks that all modes have in common.
    fn gate<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        event: Event,
        types: &[u8],
    ) -> Exec<Descriptor> {
        let number = u16::from(event.vector());
        let code = (number * 8) | IDT;
        let bytes = if self.long_mode() { 16 } else { 8 };
        let at = number * bytes;
        if at + (bytes - 1) > self.idtr.limit {
            return Err(Stop::fault_code(vector::GP, code));
        }
        let address = self.wrap_linear(self.idtr.base.wrapping_add(u64::from(at)));
        let low = self.load_system(cx, address)?;
        let high = if self.long_mode() {
            self.load_system::<O, u64>(cx, address.wrapping_add(8))? & 0xffff_ffff
        } else {
            0
        };
        let gate = Descriptor { low, high, address };
        let admitted = !event.checks_gate() || gate.dpl() >= self.cpl;
        if !gate.is_system() || !types.contains(&gate.kind()) || !admitted {
            return Err(Stop::fault_code(vector::GP, code));
        }
        if !gate.present() {
            return Err(Stop::fault_code(vector::NP, code));
        }
        Ok(gate)
    }

    fn deliver_long<O: Observer>(&mut self, cx: &mut Cx<'_, O>, event: Event) -> Exec<()> {
        use system_type::{INTERRUPT_GATE32, TRAP_GATE32};
        let gate = self.gate(cx, event, &[INTERRUPT_GATE32, TRAP_GATE32])?;
        let entry = self.gate_entry(cx, &gate)?;
        let inner = entry.cpl != self.cpl;
        let ist = gate.gate_count() & 7;
        let mut frame = if ist != 0 {
            // IST1 is at offset 36 of the task-state segment (APM volume 2, "64-Bit Task State
            // Segment").
            let rsp = self.tss_stack(cx, 28 + 8 * u32::from(ist))?;
            let ss = if inner {
                self.null_segment(seg::SS, u16::from(entry.cpl))
            } else {
                *self.segment(seg::SS)
            };
            Frame::long(ss, rsp, entry.cpl)
        } else if inner {
            self.inner_stack(cx, entry.cpl)?
        } else {
            Frame::long(*self.segment(seg::SS), self.gpr(gpr::RSP), entry.cpl)
        };
        frame.sp &= !15;
        let old_ss = u64::from(self.segment(seg::SS).selector);
        let old_cs = u64::from(self.segment(seg::CS).selector);
        let image = self.flags_image(event);
        for value in [old_ss, self.gpr(gpr::RSP), image, old_cs, self.rip] {
            self.frame_push(cx, &mut frame, Size::B8, value)?;
        }
        if let Some(code) = event.code() {
            self.frame_push(cx, &mut frame, Size::B8, u64::from(code))?;
        }
        self.enter_handler(cx, &gate, &entry, &frame, inner);
        Ok(())
    }

    fn deliver_protected<O: Observer>(&mut self, cx: &mut Cx<'_, O>, event: Event) -> Exec<()> {
        use system_type::{
            INTERRUPT_GATE16, INTERRUPT_GATE32, TASK_GATE, TRAP_GATE16, TRAP_GATE32,
        };
        const TYPES: [u8; 5] =
            [TASK_GATE, INTERRUPT_GATE16, TRAP_GATE16, INTERRUPT_GATE32, TRAP_GATE32];
        let from_v8086 = self.v8086();
        if from_v8086 && let Event::Software(n) = event {
            if self.cr4 & cr4::VME != 0 && self.is_redirected(cx, n)? {
                return self.deliver_v8086(cx, n);
            }
            if self.iopl() != 3 {
                return Err(Stop::GP0);
            }
        }
        let gate = self.gate(cx, event, &TYPES)?;
        if gate.kind() == TASK_GATE {
            let tss = gate.gate_selector();
            let how = if event.is_fault() { Switch::Fault } else { Switch::Interrupt };
            return self.switch_task(cx, tss, how, self.rip, event.code());
        }
        let entry = self.gate_entry(cx, &gate)?;
        if from_v8086 && entry.cpl != 0 {
            return Err(Stop::gp(gate.gate_selector()));
        }
        let size = if gate.kind() & 8 != 0 { Size::B4 } else { Size::B2 };
        let inner = entry.cpl != self.cpl;
        let mut frame = if inner { self.inner_stack(cx, entry.cpl)? } else { Frame::current(self) };
        if from_v8086 {
            for n in [seg::GS, seg::FS, seg::DS, seg::ES] {
                let selector = u64::from(self.segment(n).selector);
                self.frame_push(cx, &mut frame, size, selector)?;
            }
        }
        if inner {
            let old_ss = u64::from(self.segment(seg::SS).selector);
            self.frame_push(cx, &mut frame, size, old_ss)?;
            self.frame_push(cx, &mut frame, size, self.gpr(gpr::RSP))?;
        }
        let old_cs = u64::from(self.segment(seg::CS).selector);
        for value in [self.flags_image(event), old_cs, self.rip] {
            self.frame_push(cx, &mut frame, size, value)?;
        }
        if let Some(code) = event.code() {
            self.frame_push(cx, &mut frame, size, u64::from(code))?;
        }
        self.enter_handler(cx, &gate, &entry, &frame, inner);
        if from_v8086 {
            for n in [seg::GS, seg::FS, seg::DS, seg::ES] {
                self.set_segment(n, self.null_segment(n, 0));
            }
        }
        Ok(())
    }

    /// The frame is written: changes stack, flags, privilege and instruction pointer.
    fn enter_handler<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        gate: &Descriptor,
        entry: &Entry,
        frame: &Frame,
        inner: bool,
    ) {
        const CLEARED: u64 = flags::TF | flags::NT | flags::RF | flags::VM;
        let is_interrupt_gate = gate.kind() & 1 == 0;
        self.count_frame(cx, frame);
        self.load_flags(0, CLEARED | if is_interrupt_gate { flags::IF } else { 0 });
        self.set_cpl(entry.cpl);
        if inner {
            self.set_segment(seg::SS, frame.ss);
            cx.observer.seg_load(seg::SS);
        }
        self.take_stack_pointer(frame);
        let cs: Segment = entry.cs;
        self.set_segment(seg::CS, cs);
        self.rip = entry.rip;
        cx.observer.seg_load(seg::CS);
    }
}

/// The error code of an exception during the delivery of an event that no instruction asked for.
fn external(stop: Stop) -> Stop {
    use vector::{GP, NP, SS, TS};
    match stop.exception() {
        Some(Exception { vector, code: Some(code) }) if matches!(vector, TS | NP | SS | GP) => {
            Stop::fault_code(vector, code | EXT)
        }
        _ => stop,
    }
}

/// What becomes of an exception during the delivery of another (APM volume 2, "#DF--Double-Fault
/// Exception"): #DF, shutdown, or, with `None`, the second on its own.
fn combine(first: u8, second: u8) -> Option<Stop> {
    use vector::{DE, DF, GP, NP, PF, SS, TS};
    let contributory = |vector| matches!(vector, DE | TS | NP | SS | GP);
    if first == DF {
        Some(Stop::SHUTDOWN)
    } else if contributory(first) && contributory(second)
        || first == PF && (second == PF || contributory(second))
    {
        Some(Stop::fault_code(DF, 0))
    } else {
        None
    }
}
