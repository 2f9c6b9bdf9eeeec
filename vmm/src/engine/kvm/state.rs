//! The state of a processor in KVM's terms, and what the software CPU makes of it.
//!
//! A processor changes engine in these steps:
//!
//! ```text
//! let mut state = State::from_kvm(&mut vcpu)?;     // the exit that led here is completed
//! state.to_cpu(&mut cpu);                          // translations are to be forgotten
//! state.deliver(&mut cpu, &mut cx)?;               // what KVM was about to deliver
//! ... the software CPU runs ...
//! state.set_from_cpu(&cpu);
//! if support.holds(&cpu) {                           // else the software CPU goes on
//!     state.to_kvm(&mut vcpu)?;                    // takes effect with the next KVM_RUN
//! }
//! ```
//!
//! What KVM has and the software CPU does not (AVX registers, XCR0, other MSRs, CR8, the APIC base)
//! stays as it was in KVM. What the software CPU has and KVM does not (virtual time, the selectors
//! of the x87 pointers, FERR#, a halt) stays as it was in the [`Cpu`], so each processor keeps its
//! own. A null selector's hidden attributes are none of the state.

use kvm_bindings::{
    KVM_VCPUEVENT_VALID_NMI_PENDING, KVM_VCPUEVENT_VALID_PAYLOAD, KVM_VCPUEVENT_VALID_SHADOW,
    KVM_X86_SHADOW_INT_MOV_SS, KVM_X86_SHADOW_INT_STI, kvm_debugregs, kvm_dtable, kvm_regs,
    kvm_segment, kvm_sregs, kvm_vcpu_events,
};
use x86_cpu::control_registers::{cr0, cr4, efer};
use x86_cpu::cpu::{Cpu, Shadow};
use x86_cpu::descriptor::{DescriptorTable, Segment};
use x86_cpu::handover::DebugRegisters;
use x86_cpu::insn::seg;
use x86_cpu::msr::CoreMsrs;
use x86_cpu::observe::{Cx, Observer};
use x86_cpu::stop::{Exception, Exec, vector};
use x86_cpu::x87::FXSAVE_SIZE;

/// RFLAGS.VM.
const VM: u64 = 1 << 17;
/// The privilege level in a segment's attributes.
const DPL: u16 = 3 << 5;
/// Length of the area that KVM transfers, in words.
pub(super) const XSAVE_WORDS: usize = 1024;
/// MXCSR in an XSAVE area, in words (AMD64 APM volume 2, figure 11-9).
const MXCSR_WORD: usize = 6;
/// The bits of MXCSR that every host has. What else a part has there stays with the software CPU.
const MXCSR_BITS: u32 = 0xffff;
/// XMM0 in an XSAVE area, in words.
const XMM_WORD: usize = 40;
/// XSTATE_BV in an XSAVE area, in words.
const XSTATE_BV_WORD: usize = 128;
/// The bits of XSTATE_BV for x87 and SSE.
const X87_AND_SSE: u32 = 3;

/// Which parts of a processor's state this host's KVM can hold, and whether it reports the interrupt
/// window. A KVM that uses VMX or SVM has all of it; one without them lacks some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Support {
    /// CR0.PG outside long mode.
    pub legacy_paging: bool,
    /// RFLAGS.VM.
    pub virtual_8086: bool,
    /// A value written to the time-stamp counter.
    pub time_stamp_counter: bool,
    /// `KVM_RUN` exits as soon as an interrupt can be taken, if `request_interrupt_window` is set.
    pub interrupt_window: bool,
    /// It stops at breakpoints in 64-bit code at CPL 3.
    pub breakpoints: bool,
}

impl Support {
    /// Whether such a KVM can hold the processor's state. One that it cannot hold has to stay on the
    /// software CPU.
    pub(super) fn holds(self, cpu: &Cpu) -> bool {
        let legacy = cpu.efer() & efer::LMA == 0;
        let (paging, v8086) = (cpu.cr0() & cr0::PG != 0, cpu.rflags() & VM != 0);
        (self.legacy_paging || !(legacy && paging)) && (self.virtual_8086 || !v8086)
    }

    /// Whether such a KVM sees all of a debugger's breakpoints in a processor with this EFER. Nobody is told when
    /// the guest goes to CPL 3.
    pub(super) fn sees(self, breakpoints: Option<&[u64]>, efer: u64) -> bool {
        self.breakpoints || efer & efer::LMA == 0 || breakpoints.is_some_and(<[u64]>::is_empty)
    }
}

/// All of a processor's state that both engines have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// General registers, RIP, RFLAGS.
    pub regs: kvm_regs,
    /// Segment and control registers, EFER; CR8 and the APIC base, which pass through.
    pub sregs: kvm_sregs,
    /// Exceptions and interrupts that KVM was about to deliver, interrupt shadow, NMI mask.
    pub events: kvm_vcpu_events,
    /// The time-stamp counter when the state was taken.
    pub tsc: u64,
    /// What the time-stamp counter is set to with the state; `None` leaves it alone.
    pub set_tsc: Option<u64>,
    /// The page-directory-pointer entries of legacy PAE paging; `None` where there are none.
    pub(super) pdptes: Option<[u64; 4]>,
    pub(super) debug: kvm_debugregs,
    pub(super) msrs: CoreMsrs,
    /// The XSAVE area (AMD64 APM volume 2, section 11.5), in 32-bit words.
    pub(super) xsave: [u32; XSAVE_WORDS],
}

impl Default for State {
    /// All zero, but for RFLAGS bit 1: to be filled by [`State::set_from_cpu`].
    fn default() -> Self {
        Self {
            regs: kvm_regs { rflags: 2, ..kvm_regs::default() },
            sregs: kvm_sregs::default(),
            events: kvm_vcpu_events::default(),
            tsc: 0,
            set_tsc: None,
            pdptes: None,
            debug: kvm_debugregs::default(),
            msrs: CoreMsrs::default(),
            xsave: [0; XSAVE_WORDS],
        }
    }
}

impl State {
    /// Gives the state to the software CPU.
    pub(super) fn to_cpu(&self, cpu: &mut Cpu) {
        let s = &self.sregs;
        cpu.set_pdptes(self.pdptes.unwrap_or_default());
        cpu.set_control(s.cr0, s.cr3, s.cr4, s.efer);
        cpu.cr2 = s.cr2;
        for (n, &value) in (0..).zip(&self.gprs()) {
            cpu.set_gpr(n, value);
        }
        cpu.rip = self.regs.rip;
        for (n, segment) in (0..).zip([&s.es, &s.cs, &s.ss, &s.ds, &s.fs, &s.gs]) {
            let ignored = if n == seg::SS { DPL } else { 0 };
            if let Some(segment) = taken(segment, cpu.segment(n), ignored) {
                cpu.set_segment(n, segment);
            }
        }
        if let Some(segment) = taken(&s.ldt, &cpu.ldtr, 0) {
            cpu.ldtr = segment;
        }
        if let Some(segment) = taken(&s.tr, &cpu.tr, 0) {
            cpu.tr = segment;
        }
        cpu.gdtr = DescriptorTable { base: s.gdt.base, limit: s.gdt.limit };
        cpu.idtr = DescriptorTable { base: s.idt.base, limit: s.idt.limit };
        cpu.set_rflags(self.regs.rflags);
        cpu.set_cpl(self.cpl());
        cpu.set_debug_registers(&DebugRegisters {
            addresses: self.debug.db,
            status: self.debug.dr6,
            control: self.debug.dr7,
        });
        cpu.msrs = self.msrs;
        self.floating_point_to(cpu);
        cpu.set_shadow(match u32::from(self.events.interrupt.shadow) {
            0 => Shadow::None,
            KVM_X86_SHADOW_INT_STI => Shadow::Sti,
            // SVM knows one shadow and reports it as both. That of MOV SS protects a stack switch.
            _ => Shadow::MovSs,
        });
        cpu.set_nmi_blocked(self.events.nmi.masked != 0);
    }

    /// Takes the state of the software CPU; what KVM was about to deliver stays pending.
    pub(super) fn set_from_cpu(&mut self, cpu: &Cpu) {
        self.set_gprs(std::array::from_fn(|n| cpu.gpr(n as u8)));
        self.regs.rip = cpu.rip;
        self.regs.rflags = cpu.rflags();
        let segment = |n| given(cpu.segment(n));
        let s = &mut self.sregs;
        (s.es, s.cs, s.ds) = (segment(seg::ES), segment(seg::CS), segment(seg::DS));
        (s.fs, s.gs) = (segment(seg::FS), segment(seg::GS));
        // KVM has no other place for the privilege level.
        s.ss = kvm_segment { dpl: cpu.cpl(), ..segment(seg::SS) };
        (s.ldt, s.tr) = (given(&cpu.ldtr), given(&cpu.tr));
        let table =
            |t: DescriptorTable| kvm_dtable { base: t.base, limit: t.limit, padding: [0; 3] };
        (s.gdt, s.idt) = (table(cpu.gdtr), table(cpu.idtr));
        (s.cr0, s.cr2, s.cr3, s.cr4, s.efer) =
            (cpu.cr0(), cpu.cr2, cpu.cr3(), cpu.cr4(), cpu.efer());
        // An interrupt under way is in the events.
        s.interrupt_bitmap = [0; 4];
        self.pdptes = self.has_pdptes().then(|| cpu.pdptes());
        let debug = cpu.debug_registers();
        self.debug.db = debug.addresses;
        (self.debug.dr6, self.debug.dr7) = (debug.status, debug.control);
        self.msrs = cpu.msrs;
        self.set_floating_point_from(cpu);
        self.events.interrupt.shadow = match cpu.shadow() {
            Shadow::None => 0,
            Shadow::Sti => KVM_X86_SHADOW_INT_STI as u8,
            Shadow::MovSs => KVM_X86_SHADOW_INT_MOV_SS as u8,
        };
        self.events.nmi.masked = u8::from(cpu.nmi_blocked());
        self.events.flags &= KVM_VCPUEVENT_VALID_PAYLOAD;
        self.events.flags |= KVM_VCPUEVENT_VALID_NMI_PENDING | KVM_VCPUEVENT_VALID_SHADOW;
    }

    /// Delivers in the software CPU what KVM was in the middle of delivering, if anything: after
    /// that it is no longer pending. An exception that may be spurious, raised by KVM and not by the
    /// guest's processor, is dropped: the instruction is executed again, on the software CPU, which raises
    /// it if the guest's processor does.
    ///
    /// # Errors
    /// A triple fault.
    pub(super) fn deliver<O: Observer>(&mut self, cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
        let events = &mut self.events;
        let exception = std::mem::take(&mut events.exception);
        let interrupt = events.interrupt;
        events.interrupt.injected = 0;
        let nmi = std::mem::take(&mut events.nmi.injected);
        events.flags &= !KVM_VCPUEVENT_VALID_PAYLOAD;
        if exception.injected | exception.pending != 0 {
            // RIP is still on INT3 and INTO: they are executed again.
            if matches!(exception.nr, vector::BP | vector::OF) {
                return Ok(());
            }
            let code = (exception.has_error_code != 0).then_some(exception.error_code as u16);
            // RDPMC, or what only the guest's processor has. An exception in the delivery of another
            // event has the EXT bit or a selector in its code.
            if matches!((exception.nr, code), (vector::UD, _) | (vector::GP, None | Some(0))) {
                return Ok(());
            }
            return cpu.exception(cx, Exception { vector: exception.nr, code });
        }
        if nmi != 0 {
            return cpu.nmi(cx);
        }
        // RIP is still on INT n as well.
        if interrupt.injected != 0 && interrupt.soft == 0 {
            return cpu.interrupt(cx, interrupt.nr);
        }
        Ok(())
    }

    /// Takes the NMI that waits in KVM, if one does: for the local APIC to hold from now on.
    pub(super) fn take_nmi(&mut self) -> bool {
        std::mem::take(&mut self.events.nmi.pending) != 0
    }

    /// Drops an exception that KVM was about to deliver.
    pub(super) fn drop_exception(&mut self) {
        self.events.exception = Default::default();
        self.events.exception_has_payload = 0;
        self.events.flags &= !KVM_VCPUEVENT_VALID_PAYLOAD;
    }

    /// Drops all that KVM was about to deliver.
    pub(super) fn drop_events(&mut self) {
        self.drop_exception();
        self.events.interrupt.injected = 0;
        self.events.nmi.injected = 0;
        self.events.nmi.pending = 0;
    }

    /// Whether a breakpoint of the guest's own is enabled in DR7.
    #[must_use]
    pub(super) fn guest_uses_breakpoints(&self) -> bool {
        self.debug.dr7 & 0xff != 0
    }

    /// The current privilege level.
    #[must_use]
    pub(super) fn cpl(&self) -> u8 {
        cpl(&self.regs, &self.sregs)
    }

    /// Whether page-directory-pointer entries are in use: PAE paging outside long mode.
    pub(super) fn has_pdptes(&self) -> bool {
        self.sregs.cr0 & cr0::PG != 0
            && self.sregs.cr4 & cr4::PAE != 0
            && self.sregs.efer & efer::LMA == 0
    }

    /// The general registers in the order of their encodings.
    fn gprs(&self) -> [u64; 16] {
        let r = &self.regs;
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ]
    }

    fn set_gprs(&mut self, gprs: [u64; 16]) {
        let r = &mut self.regs;
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ] = gprs;
    }

    fn floating_point_to(&self, cpu: &mut Cpu) {
        let words = &self.xsave;
        let mut image = [0; FXSAVE_SIZE];
        for (bytes, word) in image.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let own = cpu.fpu.to_image();
        if is_without_pointers(&image, &own) {
            image = own;
        }
        cpu.fpu.set_image(&image);
        cpu.simd.mxcsr = cpu.simd.mxcsr & !MXCSR_BITS | words[MXCSR_WORD] & MXCSR_BITS;
        for (xmm, words) in cpu.simd.xmm.iter_mut().zip(words[XMM_WORD..].chunks_exact(4)) {
            *xmm = words.iter().rev().fold(0, |value, &word| value << 32 | u128::from(word));
        }
    }

    fn set_floating_point_from(&mut self, cpu: &Cpu) {
        let words = &mut self.xsave;
        let image = cpu.fpu.to_image();
        for (n, (word, bytes)) in words.iter_mut().zip(image.chunks_exact(4)).enumerate() {
            // MXCSR and its mask are not part of the x87 image.
            if !(MXCSR_WORD..MXCSR_WORD + 2).contains(&n) {
                *word = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            }
        }
        words[MXCSR_WORD] = cpu.simd.mxcsr & MXCSR_BITS;
        for (words, xmm) in words[XMM_WORD..].chunks_exact_mut(4).zip(cpu.simd.xmm) {
            for (n, word) in words.iter_mut().enumerate() {
                *word = (xmm >> (32 * n)) as u32;
            }
        }
        words[XSTATE_BV_WORD] |= X87_AND_SSE;
    }
}

/// Whether an x87 `image` is the processor's `own`, but for the last instruction's opcode and
/// addresses, which are zero. AMD's processors save these only while an exception is pending (AMD64 APM
/// volume 2, section 11.4.4): such a host drops them when it goes over to another thread.
fn is_without_pointers(image: &[u8; FXSAVE_SIZE], own: &[u8; FXSAVE_SIZE]) -> bool {
    let (pointers, mxcsr) = (6..24, 24..32);
    let differs = |n: &usize| image[*n] != own[*n] && !mxcsr.contains(n);
    image[pointers.clone()].iter().all(|&byte| byte == 0)
        && !(0..pointers.start).chain(pointers.end..FXSAVE_SIZE).any(|n| differs(&n))
}

/// A segment register as KVM has it. One that cannot be used is so by a null selector.
fn given(segment: &Segment) -> kvm_segment {
    let bit = |n: u16| (segment.attributes >> n & 1) as u8;
    kvm_segment {
        base: segment.base,
        limit: segment.limit,
        selector: segment.selector,
        type_: segment.kind(),
        present: bit(7),
        dpl: segment.dpl(),
        db: bit(14),
        s: bit(4),
        l: bit(13),
        g: bit(15),
        avl: bit(12),
        unusable: u8::from(!segment.present()),
        padding: 0,
    }
}

/// A segment register of KVM's; `None` if `current` is the same but for what KVM does not keep: SVM
/// makes up the granularity, SS has the privilege level for its own (SYSRET may leave another DPL
/// there), and the attributes of a register that cannot be used mean nothing.
fn taken(segment: &kvm_segment, current: &Segment, ignored: u16) -> Option<Segment> {
    let usable = segment.unusable == 0 && segment.present != 0;
    let bit = |value: u8, n: u32| u16::from(value & 1) << n;
    let attributes = u16::from(segment.type_ & 15)
        | bit(segment.s, 4)
        | u16::from(segment.dpl & 3) << 5
        | bit(segment.present, 7)
        | bit(segment.avl, 12)
        | bit(segment.l, 13)
        | bit(segment.db, 14)
        | bit(segment.g, 15);
    let new = Segment {
        selector: segment.selector,
        base: segment.base,
        limit: segment.limit,
        attributes: if usable { attributes } else { 0 },
    };
    let kept = if usable { !(Segment::GRANULARITY | ignored) } else { Segment::PRESENT };
    let same = (new.attributes ^ current.attributes) & kept == 0
        && (new.selector, new.base, new.limit) == (current.selector, current.base, current.limit);
    (!same).then_some(new)
}

/// The privilege level that these registers say.
pub(super) fn cpl(regs: &kvm_regs, sregs: &kvm_sregs) -> u8 {
    if sregs.cr0 & cr0::PE == 0 {
        0
    } else if regs.rflags & VM != 0 {
        3
    } else {
        sregs.ss.dpl & 3
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
pub(in crate::engine::kvm) mod tests;
