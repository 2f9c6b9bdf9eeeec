//! Descriptors and the loading of segment registers (AMD64 APM volume 2, chapter 4).

use crate::{
    access::is_canonical,
    cpu::{Cpu, Shadow},
    descriptor::Segment,
    insn::seg,
    observe::{Cx, Observer},
    stop::{Exec, Stop, vector},
};

/// Types of system descriptors (AMD64 APM volume 2, tables 4-5 and 4-6).
pub(crate) mod system_type {
    pub(crate) const TSS16: u8 = 1;
    pub(crate) const LDT: u8 = 2;
    pub(crate) const TSS16_BUSY: u8 = 3;
    pub(crate) const CALL_GATE16: u8 = 4;
    pub(crate) const TASK_GATE: u8 = 5;
    pub(crate) const INTERRUPT_GATE16: u8 = 6;
    pub(crate) const TRAP_GATE16: u8 = 7;
    pub(crate) const TSS32: u8 = 9;
    pub(crate) const TSS32_BUSY: u8 = 11;
    pub(crate) const CALL_GATE32: u8 = 12;
    pub(crate) const INTERRUPT_GATE32: u8 = 14;
    pub(crate) const TRAP_GATE32: u8 = 15;
}

/// Selector bits that name a descriptor: all but the RPL.
const INDEX: u16 = 0xfffc;
const TI: u16 = 4;
/// Type bits of code and data descriptors.
const ACCESSED: u8 = 1;
const CONFORMING: u8 = 4;

/// The null selector, whatever its RPL.
pub(crate) fn is_null(selector: u16) -> bool {
    selector & INDEX == 0
}

/// Requested privilege level of a selector.
pub(crate) fn rpl(selector: u16) -> u8 {
    (selector & 3) as u8
}

/// An exception that names a descriptor by its selector.
pub(crate) fn selector_fault(vector: u8, selector: u16) -> Stop {
    Stop::fault_code(vector, selector & INDEX)
}

/// A descriptor as it is in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    /// First eight bytes.
    pub(crate) low: u64,
    /// Second eight bytes of a long-mode system descriptor, else zero.
    pub(crate) high: u64,
    /// Linear address.
    pub(crate) address: u64,
}

impl Descriptor {
    /// Attributes in the form of [`Segment::attributes`].
    pub(crate) fn attributes(&self) -> u16 {
        (self.low >> 40) as u16 & 0xf0ff
    }

    /// As a segment register's hidden part.
    pub(crate) fn segment(&self, selector: u16) -> Segment {
        let attributes = self.attributes();
        let limit = (self.low & 0xffff | self.low >> 32 & 0xf_0000) as u32;
        Segment {
            selector,
            base: self.low >> 16 & 0xff_ffff | (self.low >> 56) << 24 | self.high << 32,
            limit: if attributes & Segment::GRANULARITY != 0 { limit << 12 | 0xfff } else { limit },
            attributes,
        }
    }

    /// Type field.
    pub(crate) fn kind(&self) -> u8 {
        (self.attributes() & 15) as u8
    }

    /// A system descriptor or a gate, not a code or data segment.
    pub(crate) fn is_system(&self) -> bool {
        self.attributes() & Segment::S == 0
    }

    /// A code segment.
    pub(crate) fn is_code(&self) -> bool {
        self.segment(0).is_code()
    }

    /// A conforming code segment.
    pub(crate) fn is_conforming(&self) -> bool {
        self.is_code() && self.kind() & CONFORMING != 0
    }

    /// Descriptor privilege level.
    pub(crate) fn dpl(&self) -> u8 {
        (self.attributes() >> 5 & 3) as u8
    }

    /// Present.
    pub(crate) fn present(&self) -> bool {
        self.attributes() & Segment::PRESENT != 0
    }

    /// Code selector of a gate.
    pub(crate) fn gate_selector(&self) -> u16 {
        (self.low >> 16) as u16
    }

    /// Offset in a gate: 16 bits of the 16-bit types, else 32, and 32 more in long mode.
    pub(crate) fn gate_offset(&self) -> u64 {
        let low = self.low & 0xffff;
        if self.kind() & 8 == 0 {
            low
        } else {
            low | self.low >> 32 & 0xffff_0000 | self.high << 32
        }
    }

    /// Parameter count of a call gate (bits 4:0), IST index of a long-mode gate (bits 2:0).
    pub(crate) fn gate_count(&self) -> u8 {
        (self.low >> 32 & 31) as u8
    }
}

/// Whether privilege `level` may not have the segment in DS, ES, FS or GS.
fn is_unreachable(segment: &Segment, level: u8) -> bool {
    let conforming = segment.is_code() && segment.kind() & CONFORMING != 0;
    !conforming && segment.dpl() < level
}

impl Cpu {
    /// A linear address as the mode has it: 64 bits in long mode, else 32.
    pub(crate) fn wrap_linear(&self, linear: u64) -> u64 {
        if self.long_mode() { linear } else { linear & 0xffff_ffff }
    }

    /// Reads the descriptor that a selector names; beyond its table's limit raises `vector` with
    /// the selector.
    pub(crate) fn descriptor<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
        vector: u8,
    ) -> Exec<Descriptor> {
        let address = self.descriptor_address(selector, 8, vector)?;
        let low = self.load_system(cx, address)?;
        Ok(Descriptor { low, high: 0, address })
    }

    /// Reads the descriptor that a selector names, if there is one (LAR and the like).
    pub(crate) fn find_descriptor<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
    ) -> Exec<Option<Descriptor>> {
        match self.descriptor_address(selector, 8, vector::GP) {
            Ok(address) if !is_null(selector) => {
                let low = self.load_system(cx, address)?;
                Ok(Some(Descriptor { low, high: 0, address }))
            }
            _ => Ok(None),
        }
    }

    /// Reads the second half of a system descriptor, which has 16 bytes in long mode.
    pub(crate) fn complete_system_descriptor<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        descriptor: &mut Descriptor,
        selector: u16,
        vector: u8,
    ) -> Exec<()> {
        if self.long_mode() {
            let address = self.descriptor_address(selector, 16, vector)?;
            descriptor.high = self.load_system::<O, u64>(cx, address.wrapping_add(8))?;
            // The type field of the upper half has to be zero (APM volume 2, section 4.8.3).
            if descriptor.high >> 40 & 0x1f != 0 {
                return Err(selector_fault(vector, selector));
            }
        }
        Ok(())
    }

    fn descriptor_address(&self, selector: u16, bytes: u32, vector: u8) -> Exec<u64> {
        let (base, limit) = if selector & TI == 0 {
            (self.gdtr.base, u32::from(self.gdtr.limit))
        } else if self.ldtr.present() {
            (self.ldtr.base, self.ldtr.limit)
        } else {
            return Err(selector_fault(vector, selector));
        };
        let offset = u32::from(selector & !7);
        if offset + (bytes - 1) > limit {
            return Err(selector_fault(vector, selector));
        }
        Ok(self.wrap_linear(base.wrapping_add(u64::from(offset))))
    }

    /// Sets the accessed bit of a code or data descriptor.
    pub(crate) fn mark_accessed<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        descriptor: &Descriptor,
    ) -> Exec<()> {
        if descriptor.is_system() || descriptor.kind() & ACCESSED != 0 {
            return Ok(());
        }
        self.write_type(cx, descriptor, descriptor.kind() | ACCESSED)
    }

    /// Writes the type field of a descriptor back to memory.
    pub(crate) fn write_type<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        descriptor: &Descriptor,
        kind: u8,
    ) -> Exec<()> {
        let byte = descriptor.attributes() as u8 & 0xf0 | kind;
        let address = self.wrap_linear(descriptor.address.wrapping_add(5));
        self.store_system::<O, u8>(cx, address, byte)
    }

    /// What a load of `selector` makes of segment register `n` in real and virtual-8086 mode. Real
    /// mode leaves limit and size as protected mode set them.
    pub(crate) fn real_segment(&self, n: u8, selector: u16) -> Segment {
        const DATA: u16 = Segment::PRESENT | Segment::S | 3;
        let before = self.segment(n);
        let base = u64::from(selector) << 4;
        if self.v8086() {
            Segment { selector, base, limit: 0xffff, attributes: DATA | 3 << 5 }
        } else {
            let size = before.attributes & (Segment::BIG | Segment::GRANULARITY);
            Segment { selector, base, limit: before.limit, attributes: DATA | size }
        }
    }

    /// A null selector in a segment register: nothing can be accessed, base and limit stay as they
    /// were.
    pub(crate) fn null_segment(&self, n: u8, selector: u16) -> Segment {
        Segment { selector, attributes: 0, ..*self.segment(n) }
    }

    /// Checks a selector for DS, ES, FS or GS in protected mode and gives the segment it loads.
    pub(crate) fn data_segment<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        n: u8,
        selector: u16,
        vector: u8,
    ) -> Exec<Segment> {
        if is_null(selector) {
            return Ok(self.null_segment(n, selector));
        }
        let descriptor = self.descriptor(cx, selector, vector)?;
        let segment = descriptor.segment(selector);
        let readable = !descriptor.is_system() && segment.attributes & 10 != 8;
        if !readable || is_unreachable(&segment, self.cpl.max(rpl(selector))) {
            return Err(selector_fault(vector, selector));
        }
        if !segment.present() {
            return Err(selector_fault(vector::NP, selector));
        }
        self.mark_accessed(cx, &descriptor)?;
        Ok(Segment { attributes: segment.attributes | u16::from(ACCESSED), ..segment })
    }

    /// Checks a selector for SS at privilege `cpl` and gives the segment it loads. `vector` is
    /// #GP, or #TS when the selector comes from a task-state segment. A null selector is allowed
    /// when 64-bit code will run on it below privilege 3 (`long`).
    pub(crate) fn stack_segment<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
        cpl: u8,
        long: bool,
        vector: u8,
    ) -> Exec<Segment> {
        if is_null(selector) {
            return if long && cpl != 3 && rpl(selector) == cpl {
                Ok(self.null_segment(seg::SS, selector))
            } else {
                Err(selector_fault(vector, selector))
            };
        }
        let descriptor = self.descriptor(cx, selector, vector)?;
        let segment = descriptor.segment(selector);
        let writable_data = segment.attributes & (Segment::S | 10) == Segment::S | 2;
        if !writable_data || rpl(selector) != cpl || segment.dpl() != cpl {
            return Err(selector_fault(vector, selector));
        }
        if !segment.present() {
            return Err(selector_fault(vector::SS, selector));
        }
        self.mark_accessed(cx, &descriptor)?;
        Ok(Segment { attributes: segment.attributes | u16::from(ACCESSED), ..segment })
    }

    /// What loading `selector` into segment register `n` (any but CS) gives in the current mode.
    pub(crate) fn selected<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        n: u8,
        selector: u16,
    ) -> Exec<Segment> {
        if !self.selectors_are_protected() {
            Ok(self.real_segment(n, selector))
        } else if n == seg::SS {
            self.stack_segment(cx, selector, self.cpl, self.in_64bit(), vector::GP)
        } else {
            self.data_segment(cx, n, selector, vector::GP)
        }
    }

    /// Loads a segment register other than CS; SS without the interrupt shadow.
    pub(crate) fn load_segment<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        n: u8,
        selector: u16,
    ) -> Exec<()> {
        let segment = self.selected(cx, n, selector)?;
        self.set_segment(n, segment);
        cx.observer.seg_load(n);
        Ok(())
    }

    /// Holds back interrupts and debug traps until the next instruction has executed, so that
    /// SS and the stack pointer can be loaded as a pair.
    pub(crate) fn shadow_after_ss(&mut self, n: u8) {
        if n == seg::SS {
            self.shadow = Shadow::MovSs;
        }
    }

    /// On the way to an outer privilege level, drops DS, ES, FS and GS that it may not have.
    pub(crate) fn drop_inner_segments(&mut self, cpl: u8) {
        for n in [seg::ES, seg::DS, seg::FS, seg::GS] {
            let segment = *self.segment(n);
            if segment.attributes != 0 && is_unreachable(&segment, cpl) {
                self.set_segment(n, self.null_segment(n, 0));
            }
        }
    }

    /// Checks that code at `rip` can be fetched from `cs`: #GP(0).
    pub(crate) fn check_target(&self, cs: &Segment, rip: u64) -> Exec<()> {
        let inside = if self.long_mode() && cs.attributes & Segment::LONG != 0 {
            is_canonical(rip)
        } else {
            rip <= u64::from(cs.limit)
        };
        if inside { Ok(()) } else { Err(Stop::GP0) }
    }

    /// The LDT or task-state segment of a descriptor that has passed all other checks, with its upper
    /// half in long mode. There its base has to be canonical (APM volume 2, section 4.8.3).
    fn system_segment<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        mut descriptor: Descriptor,
        selector: u16,
        vector: u8,
    ) -> Exec<Segment> {
        self.complete_system_descriptor(cx, &mut descriptor, selector, vector)?;
        let segment = descriptor.segment(selector);
        if is_canonical(segment.base) { Ok(segment) } else { Err(selector_fault(vector, selector)) }
    }

    /// Loads LDTR (LLDT, task switch): `vector` for a bad selector, `absent` for one that is not
    /// present.
    pub(crate) fn load_ldtr<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
        vector: u8,
        absent: u8,
    ) -> Exec<Segment> {
        if is_null(selector) {
            return Ok(Segment { selector, ..Segment::default() });
        }
        if selector & TI != 0 {
            return Err(selector_fault(vector, selector));
        }
        let descriptor = self.descriptor(cx, selector, vector)?;
        if !descriptor.is_system() || descriptor.kind() != system_type::LDT {
            return Err(selector_fault(vector, selector));
        }
        if !descriptor.present() {
            return Err(selector_fault(absent, selector));
        }
        self.system_segment(cx, descriptor, selector, vector)
    }

    /// Loads TR and marks the task busy (LTR).
    pub(crate) fn load_tr<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        selector: u16,
    ) -> Exec<Segment> {
        if is_null(selector) || selector & TI != 0 {
            return Err(Stop::gp(selector));
        }
        let descriptor = self.descriptor(cx, selector, vector::GP)?;
        let available = match descriptor.kind() {
            system_type::TSS32 => true,
            system_type::TSS16 => !self.long_mode(),
            _ => false,
        };
        if !descriptor.is_system() || !available {
            return Err(Stop::gp(selector));
        }
        if !descriptor.present() {
            return Err(selector_fault(vector::NP, selector));
        }
        let segment = self.system_segment(cx, descriptor, selector, vector::GP)?;
        let busy = descriptor.kind() | 2;
        self.write_type(cx, &descriptor, busy)?;
        Ok(Segment { attributes: segment.attributes | 2, ..segment })
    }
}
