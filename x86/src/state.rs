//! What there is of a processor between two instructions, to be put aside and put back.
//!
//! [`CpuState`] has what later execution depends on and nothing that can be derived. The translations that the
//! processor holds while paging is on are among it, though page tables could be walked again: a guest that changes an
//! entry and does not flush it sees the old translation as long as it is held, and the accessed bit that it has cleared
//! stays clear (AMD64 APM volume 2, section 5.5.2, "TLB Management").

use crate::control_registers::cr0;
use crate::debug::{control_as_held, status_as_held};
use crate::{
    access::OF_DEVICE,
    cpu::{Cpu, Shadow},
    descriptor::{DescriptorTable, Segment},
    flags,
    handover::DebugRegisters,
    history::History,
    msr::CoreMsrs,
    observe::FpKind,
    ram::Ram,
    simd::Simd,
    stop::Leave,
    tlb::{Access, Writes},
    vector::Vector,
    x87::Fpu,
};

/// The state of one logical processor between two instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuState {
    /// RAX to R15, by their numbers.
    pub general: [u64; 16],
    /// RFLAGS.
    pub rflags: u64,
    /// RIP.
    pub rip: u64,
    /// ES, CS, SS, DS, FS, GS.
    pub segments: [Segment; 6],
    /// Current privilege level.
    pub cpl: u8,
    /// LDTR.
    pub ldtr: Segment,
    /// TR.
    pub tr: Segment,
    /// GDTR.
    pub gdtr: DescriptorTable,
    /// IDTR.
    pub idtr: DescriptorTable,
    /// CR0.
    pub cr0: u64,
    /// CR2.
    pub cr2: u64,
    /// CR3.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// EFER.
    pub efer: u64,
    /// DR0-DR3, DR6 and DR7.
    pub debug: DebugRegisters,
    /// The page-directory-pointer entries that PAE paging loaded with CR3.
    pub pdptes: [u64; 4],
    /// SYSCALL, SYSENTER and the like.
    pub msrs: CoreMsrs,
    /// x87 and MMX.
    pub fpu: Fpu,
    /// XMM registers and MXCSR.
    pub simd: Simd,
    /// ZMM and mask registers.
    pub vector: Vector,
    /// Which kind of instruction used the x87 and MMX registers last.
    pub fp_kind: FpKind,
    /// Virtual time in cycles.
    pub time: u64,
    /// Instructions retired since power-on.
    pub retired: u64,
    /// DELAY holds the thread back until this time.
    pub delayed_until: u64,
    /// What holds back interrupts for one instruction.
    pub shadow: Shadow,
    /// An NMI is in service.
    pub nmi_blocked: bool,
    /// Halted by HLT.
    pub halted: bool,
    /// Debug conditions that have been met and not reported, at their places in DR6.
    pub debug_hits: u64,
    /// The translations that it holds, data and then code, supervisor and then user, each by ascending place; none while
    /// paging is off.
    pub translations: Vec<HeldTranslation>,
    /// What it did last.
    pub history: History,
}

/// A translation that a processor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HeldTranslation {
    /// Linear address of the page.
    pub linear: u64,
    /// Its guest-physical address.
    pub physical: u64,
    /// It survives a load of CR3.
    pub global: bool,
    /// Writes are allowed, and the dirty bit is set. Not of code.
    pub writable: bool,
    /// It is for accesses at CPL 3.
    pub user: bool,
    /// It is for instruction fetch.
    pub code: bool,
    /// A device answers there, or nobody.
    pub device: bool,
    /// It is part of a page of 2 or 4 MiB.
    pub large: bool,
}

impl CpuState {
    /// Whether what is a number of something is one of those, the privilege level and the top of the x87 registers, and
    /// the bits of the flags and of DR6 and DR7 that are always set or clear are so.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let Self { cpl, rflags, debug, fpu, .. } = self;
        *cpl <= 3
            && *rflags == flags::as_held(*rflags)
            && debug.status == status_as_held(debug.status)
            && debug.control == control_as_held(debug.control)
            && fpu.is_sound()
    }
}

impl Cpu {
    /// The state, between two runs.
    #[must_use]
    pub fn state(&self) -> CpuState {
        let Self {
            regs,
            flags: _,
            system_flags: _,
            rip,
            segments,
            seg_base: _,
            cpl,
            ldtr,
            tr,
            gdtr,
            idtr,
            cr0,
            cr2,
            cr3,
            cr4,
            efer,
            dr: _,
            pdptes,
            msrs,
            fpu,
            simd,
            vector,
            fp_kind,
            time,
            retired,
            delayed_until,
            shadow,
            nmi_blocked,
            halted,
            debug_hits,
            tlb,
            history,
            // What the processor is, and how it is to be executed.
            features: _,
            alignment: _,
            uncached: _,
            cycle_costs: _,
            observe_privilege: _,
            interrupt_waits: _,
            leaves_at_pause: _,
            tells_place: _,
            stops: _,
            // Of the running block, the running instruction or the run.
            deadline: _,
            retire_until: _,
            spare_steps: _,
            alike: _,
            alike_left: _,
            leave: _,
            overwrote: _,
            alone: _,
            paused: _,
            slot: _,
            // Derived.
            mode_outside_64_bit: _,
            mmu: _,
            watch: _,
        } = self;
        CpuState {
            general: std::array::from_fn(|n| regs[n]),
            rflags: self.rflags(),
            rip: *rip,
            segments: *segments,
            cpl: *cpl,
            ldtr: *ldtr,
            tr: *tr,
            gdtr: *gdtr,
            idtr: *idtr,
            cr0: *cr0,
            cr2: *cr2,
            cr3: *cr3,
            cr4: *cr4,
            efer: *efer,
            debug: self.debug_registers(),
            pdptes: *pdptes,
            msrs: *msrs,
            fpu: *fpu,
            simd: *simd,
            vector: (**vector).clone(),
            fp_kind: *fp_kind,
            time: *time,
            retired: *retired,
            delayed_until: *delayed_until,
            shadow: *shadow,
            nmi_blocked: *nmi_blocked,
            halted: *halted,
            debug_hits: *debug_hits,
            // Without paging an address is its own translation, and nothing has to be remembered.
            translations: if *cr0 & cr0::PG != 0 { tlb.held().collect() } else { Vec::new() },
            history: (**history).clone(),
        }
    }

    /// Puts the state back of a processor with the same features and the same RAM, where devices are where they are now
    /// unless they have `moved`.
    pub fn restore(&mut self, state: &CpuState, ram: &Ram, moved: bool) {
        let CpuState {
            general,
            rflags,
            rip,
            segments,
            cpl,
            ldtr,
            tr,
            gdtr,
            idtr,
            cr0,
            cr2,
            cr3,
            cr4,
            efer,
            debug,
            pdptes,
            msrs,
            fpu,
            simd,
            vector,
            fp_kind,
            time,
            retired,
            delayed_until,
            shadow,
            nmi_blocked,
            halted,
            debug_hits,
            translations,
            history,
        } = state;
        // What is its own translation stays that, and so does what has been found by it.
        let still_hold = (self.cr0 | *cr0) & cr0::PG == 0 && translations.is_empty() && !moved;
        for (register, value) in self.regs.iter_mut().zip(general) {
            *register = *value;
        }
        self.rip = *rip;
        self.segments = *segments;
        self.cpl = *cpl;
        (self.ldtr, self.tr, self.gdtr, self.idtr) = (*ldtr, *tr, *gdtr, *idtr);
        (self.cr0, self.cr2, self.cr3, self.cr4, self.efer) = (*cr0, *cr2, *cr3, *cr4, *efer);
        self.pdptes = *pdptes;
        self.msrs = *msrs;
        self.fpu = *fpu;
        self.simd = *simd;
        (*self.vector).clone_from(vector);
        self.fp_kind = *fp_kind;
        (self.time, self.retired, self.delayed_until) = (*time, *retired, *delayed_until);
        (self.shadow, self.nmi_blocked, self.halted) = (*shadow, *nmi_blocked, *halted);
        self.set_rflags(*rflags);
        self.refresh_segments();
        self.set_debug_registers(debug);
        self.refresh_mmu();
        (*self.history).clone_from(history);
        self.leave = Leave::default();
        (self.overwrote, self.paused, self.debug_hits) = (false, false, *debug_hits);
        if !still_hold {
            self.tlb.flush_all();
            translations.iter().for_each(|held| self.hold(held, ram));
        }
    }

    /// Enters a translation as it was entered when it was first used.
    fn hold(&mut self, held: &HeldTranslation, ram: &Ram) {
        let HeldTranslation { linear, physical, global, writable, user, code, device, large } =
            *held;
        let mmu = usize::from(user);
        if code {
            let physical = if device { physical | OF_DEVICE } else { physical };
            return self.tlb.insert_code(mmu, linear, physical, global, large);
        }
        let host = if device { None } else { ram.page(physical) };
        let watched = self.watch.data != 0 && self.watches_page(linear);
        // Only the first write opens the page, so that a page is not taken for written before.
        let writes = if writable && !watched { Writes::Ask } else { Writes::Slow };
        let access = Access { fast_read: !watched, writes, global, writable, large };
        self.tlb.insert(mmu, linear, physical, host, access);
    }
}
