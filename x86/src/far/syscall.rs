//! SYSCALL, SYSRET, SYSENTER and SYSEXIT (AMD64 APM volume 2, "Fast System Call and Return"; volume
//! 3).

use crate::{
    access::is_canonical,
    control_registers::efer,
    cpu::Cpu,
    descriptor::Segment,
    flags,
    insn::{gpr, seg},
    observe::{Cx, Observer},
    segment::is_null,
    stop::{Exec, Stop},
};

/// Attributes that SYSCALL and the like give CS without reading a descriptor: readable code.
const CODE: u16 = Segment::PRESENT | Segment::S | Segment::GRANULARITY | 11;
/// The same for SS: writable data with 32-bit stack.
const STACK: u16 = Segment::PRESENT | Segment::S | Segment::GRANULARITY | Segment::BIG | 3;

fn flat(selector: u16, attributes: u16, dpl: u8) -> Segment {
    Segment {
        selector: selector & !3 | u16::from(dpl),
        base: 0,
        limit: u32::MAX,
        attributes: attributes | u16::from(dpl) << 5,
    }
}

fn code(selector: u16, long: bool, dpl: u8) -> Segment {
    let size = if long { Segment::LONG } else { Segment::BIG };
    flat(selector, CODE | size, dpl)
}

impl Cpu {
    /// SYSCALL; `next` is the return address.
    pub(crate) fn system_call<O: Observer>(&mut self, cx: &mut Cx<'_, O>, next: u64) -> Exec<()> {
        self.require(self.has_system_call() && self.protected())?;
        let selector = (self.msrs.star >> 32) as u16;
        let long = self.long_mode();
        let (rip, clear) = if long {
            let image = self.rflags() & !flags::RF;
            let rip = if self.in_64bit() { self.msrs.lstar } else { self.msrs.cstar };
            self.set_gpr(gpr::RCX, next);
            self.set_gpr(gpr::R11, image);
            (rip, self.msrs.sfmask | flags::RF | flags::VM)
        } else {
            self.set_gpr(gpr::RCX, next & 0xffff_ffff);
            (self.msrs.star & 0xffff_ffff, flags::IF | flags::RF | flags::VM)
        };
        let step_lost = self.system_flags & clear & flags::TF != 0;
        self.load_flags(0, clear);
        self.system_enter(cx, code(selector, long, 0), selector.wrapping_add(8), rip);
        if step_lost {
            self.lose_step();
        }
        Ok(())
    }

    /// SYSRET; `wide` with a 64-bit operand, which returns to 64-bit mode.
    pub(crate) fn system_return<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        wide: bool,
    ) -> Exec<()> {
        self.require(self.has_system_call())?;
        if !self.protected() || self.cpl != 0 {
            return Err(Stop::GP0);
        }
        let checks = self.features.sysret_checks;
        if wide && checks && !is_canonical(self.gpr(gpr::RCX)) {
            return Err(Stop::GP0);
        }
        let stepping = self.system_flags & flags::TF != 0;
        let selector = (self.msrs.star >> 48) as u16;
        let rcx = self.gpr(gpr::RCX);
        let (cs, rip) = if wide {
            (code(selector.wrapping_add(16), true, 3), rcx)
        } else {
            (code(selector, false, 3), rcx & 0xffff_ffff)
        };
        if self.long_mode() {
            self.set_rflags(self.gpr(gpr::R11) & !(flags::VM | flags::RF));
        } else {
            self.load_flags(flags::IF, flags::IF);
        }
        let ss = selector.wrapping_add(8);
        let ss = if checks {
            flat(ss, STACK, 3)
        } else {
            // Only the selector; base, limit and attributes stay.
            Segment { selector: ss | 3, ..*self.segment(seg::SS) }
        };
        self.set_segment(seg::SS, ss);
        cx.observer.seg_load(seg::SS);
        self.set_cpl(3);
        self.enter(cx, cs, rip);
        if self.system_flags & flags::TF != 0 {
            self.step_follows();
        } else if stepping {
            self.lose_step();
        }
        Ok(())
    }

    /// Whether SYSCALL and SYSRET execute in this mode.
    fn has_system_call(&self) -> bool {
        self.efer & efer::SCE != 0 && (self.in_64bit() || self.features.syscall_outside_64bit)
    }

    /// What SYSENTER and SYSEXIT check alike; the selector that theirs are counted from.
    fn fast_selector(&self) -> Exec<u16> {
        self.require(!self.long_mode() || self.features.sysenter_in_long_mode)?;
        let selector = self.msrs.sysenter_cs as u16;
        if !self.protected() || is_null(selector) { Err(Stop::GP0) } else { Ok(selector) }
    }

    /// SYSENTER: to 64-bit mode in long mode, where it executes there.
    pub(crate) fn fast_enter<O: Observer>(&mut self, cx: &mut Cx<'_, O>) -> Exec<()> {
        let selector = self.fast_selector()?;
        const CLEAR: u64 = flags::VM | flags::IF | flags::RF;
        self.load_flags(0, CLEAR);
        let long = self.long_mode();
        let mask = if long { u64::MAX } else { 0xffff_ffff };
        self.set_gpr(gpr::RSP, self.msrs.sysenter_esp & mask);
        let rip = self.msrs.sysenter_eip & mask;
        self.system_enter(cx, code(selector, long, 0), selector.wrapping_add(8), rip);
        Ok(())
    }

    /// SYSEXIT; `wide` with a 64-bit operand, which returns to 64-bit mode.
    pub(crate) fn fast_exit<O: Observer>(&mut self, cx: &mut Cx<'_, O>, wide: bool) -> Exec<()> {
        let selector = self.fast_selector()?;
        if self.cpl != 0 {
            return Err(Stop::GP0);
        }
        let (mut rip, mut rsp) = (self.gpr(gpr::RDX), self.gpr(gpr::RCX));
        let cs = if wide {
            if !is_canonical(rip) || !is_canonical(rsp) {
                return Err(Stop::GP0);
            }
            selector.wrapping_add(32)
        } else {
            (rip, rsp) = (rip & 0xffff_ffff, rsp & 0xffff_ffff);
            selector.wrapping_add(16)
        };
        self.set_gpr(gpr::RSP, rsp);
        self.set_segment(seg::SS, flat(cs.wrapping_add(8), STACK, 3));
        cx.observer.seg_load(seg::SS);
        self.set_cpl(3);
        self.enter(cx, code(cs, wide, 3), rip);
        Ok(())
    }

    /// The common end of SYSCALL and SYSENTER: flat segments at privilege 0.
    fn system_enter<O: Observer>(&mut self, cx: &mut Cx<'_, O>, cs: Segment, ss: u16, rip: u64) {
        self.set_cpl(0);
        self.set_segment(seg::SS, flat(ss, STACK, 0));
        cx.observer.seg_load(seg::SS);
        self.enter(cx, cs, rip);
    }
}
