//! The architectural state of one logical processor.

use crate::{
    alignment::AlignmentRule,
    block::Mode,
    bus::Place,
    control_registers::cr0,
    descriptor::{DescriptorTable, Segment},
    exec::branch::NOT_TAKEN,
    features::Features,
    flags::{self, Flags, Word},
    history::History,
    insn::{BLOCK_BASE, GPRS, HIGH_BYTE, gpr, seg},
    lower::Lowering,
    msr::CoreMsrs,
    observe::{Cx, FpKind, Observer},
    simd::Simd,
    stop::{Exec, Leave, Stop},
    stops::Stops,
    timing::{AlikeSteps, Budget, CycleCosts},
    tlb::Tlb,
    vector::{self, Vector},
    x87::Fpu,
};

/// One logical processor.
pub struct Cpu {
    /// General registers, then pseudo registers (see [`crate::insn::ZERO`]).
    pub(crate) regs: [u64; 32],
    /// Arithmetic flags.
    pub flags: Flags,
    /// RFLAGS without the arithmetic flags.
    pub(crate) system_flags: u64,
    /// RIP; while a block runs, that of the block's first byte.
    pub rip: u64,
    /// ES, CS, SS, DS, FS, GS.
    pub(crate) segments: [Segment; 6],
    /// Bases for lowered operands, by [`crate::insn::seg`]; kept beside `segments`.
    pub(crate) seg_base: [u64; 16],
    /// Current privilege level.
    pub(crate) cpl: u8,
    /// LDTR.
    pub ldtr: Segment,
    /// TR.
    pub tr: Segment,
    /// GDTR.
    pub gdtr: DescriptorTable,
    /// IDTR.
    pub idtr: DescriptorTable,
    /// CR0.
    pub(crate) cr0: u64,
    /// CR2, the page-fault address.
    pub cr2: u64,
    /// CR3.
    pub(crate) cr3: u64,
    /// CR4.
    pub(crate) cr4: u64,
    /// EFER.
    pub(crate) efer: u64,
    /// DR0-DR3, and DR6 and DR7 at their numbers.
    pub(crate) dr: [u64; 8],
    /// The page-directory-pointer entries that PAE paging loaded with CR3.
    pub(crate) pdptes: [u64; 4],
    /// SYSCALL, SYSENTER and the like.
    pub msrs: CoreMsrs,
    /// x87 and MMX.
    pub fpu: Fpu,
    /// XMM registers and MXCSR.
    pub simd: Simd,
    /// ZMM and mask registers; apart, since few processors have them and they are large.
    pub vector: Box<Vector>,
    /// What the instruction set has.
    pub features: Features,
    /// Which accesses count as misaligned: a property of the part, untouched by reset.
    pub alignment: AlignmentRule,
    /// Which kind of instruction used the x87 and MMX registers last.
    pub(crate) fp_kind: FpKind,
    /// Each instruction is fetched and decoded anew, and each access walks the page tables: there are
    /// no caches that could be stale. Slow; set before the first instruction, untouched by reset.
    ///
    /// A guest that changes a mapping and does not flush it sees the change at once.
    pub uncached: bool,
    /// The bus is told where the instructions are that reach counters, model-specific registers and devices:
    /// [`crate::bus::Bus::at`]. Untouched by reset.
    pub tells_place: bool,

    /// Virtual time in cycles at the start of the running block.
    pub time: u64,
    /// Instructions retired since power-on, at the start of the running block.
    pub(crate) retired: u64,
    /// DELAY holds the thread back until this time; an exception or interrupt ends that.
    pub(crate) delayed_until: u64,
    /// The run ends no later than at this time.
    pub(crate) deadline: u64,
    /// The bounds on steps and instructions ([`crate::timing::Budget`]) as a number of retired instructions:
    /// the run ends when [`Cpu::retired`] reaches it.
    pub(crate) retire_until: u64,
    /// Steps beyond that. A step that retires no instruction is one of these, or lowers `retire_until` by one.
    pub(crate) spare_steps: u64,
    /// Steps that may pass beyond the budget if they are alike.
    pub(crate) alike: AlikeSteps,
    /// Those of them that are left.
    pub(crate) alike_left: u64,
    /// What execution takes in cycles. A run sets it to the costs of its translations; an owner with
    /// caches of different costs sets it before it delivers an interrupt.
    pub cycle_costs: CycleCosts,
    /// What blocks are lowered for where code is not of 64 bits: it follows from the segment registers.
    pub(crate) mode_outside_64_bit: Mode,
    /// Software TLBs for supervisor and user accesses.
    pub(crate) tlb: Tlb,
    /// Which of them explicit accesses use: 0 supervisor, 1 user.
    pub(crate) mmu: usize,
    /// Whether the run is to end at the next instruction boundary.
    pub(crate) leave: Leave,
    /// `leave` is set for no other reason than that translated code has been overwritten.
    pub(crate) overwrote: bool,
    /// The running instruction is executed as the first and only one of its block, so that
    /// [`Cpu::time`] and the observer's facts are those at its beginning.
    pub(crate) alone: bool,
    /// Every change of CPL and of IF ends the run, since the owner counts by them.
    pub observe_privilege: bool,
    /// An interrupt or NMI is pending that IF, the interrupt shadow or the blocking of NMIs holds back:
    /// the run ends when that ends.
    pub interrupt_waits: bool,
    /// PAUSE and DELAY end the run: the processor is likely to spin, and the owner runs the others.
    pub leaves_at_pause: bool,
    /// PAUSE or DELAY has ended the run.
    pub(crate) paused: bool,
    /// Interrupts, and debug traps if it was MOV SS, are held back until one more instruction.
    pub(crate) shadow: Shadow,
    /// An NMI is in service: further ones wait for IRET.
    pub(crate) nmi_blocked: bool,
    /// Halted by HLT.
    pub halted: bool,
    /// Which breakpoints are watched for. While one is on instruction fetches, the run loop executes
    /// instruction by instruction; accesses to pages with one on data take the slow path.
    pub(crate) watch: Watch,
    /// Where the owner has it stop, if anywhere.
    pub(crate) stops: Option<Box<Stops>>,
    /// Debug conditions met by the running instruction, at their places in DR6.
    pub(crate) debug_hits: u64,
    /// Where the last branch went: 0 fell through, 1 to its static target (both index the links of its
    /// block), 2 anywhere else. Above that, a mark that the running instruction leaves for
    /// [`Cpu::step`]: `RF_LOADED`, `STEP_LOST`.
    ///
    /// Of 32 bits to avoid store-forwarding stalls: the compiler may write a `u8` field as a byte and
    /// read it together with its neighbours, and a load wider than the store before it has to wait
    /// until the store is in the cache.
    pub(crate) slot: u32,
    /// What it did last, for whoever asks why the guest came to where it is; apart, since it is seldom
    /// looked at.
    pub history: Box<History>,
}

/// What holds back interrupts for one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Shadow {
    /// Nothing.
    None,
    /// STI set IF.
    Sti,
    /// MOV SS or POP SS.
    MovSs,
}

/// Which debug registers are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Bit n: DRn watches instruction fetches.
    pub code: u8,
    /// Bit n: DRn watches data. Bit 7: the owner does ([`crate::stops`]).
    pub data: u8,
    /// Count matches even of breakpoints that are not enabled.
    pub count_all: bool,
}

impl Cpu {
    /// Whether any debug register is looked at: accesses and fetches may match one.
    #[inline(always)]
    #[must_use]
    pub fn watches_addresses(&self) -> bool {
        self.watch.code | self.watch.data != 0
    }

    /// A processor of the given instruction set, as after power-on.
    #[must_use]
    pub fn new(features: Features) -> Self {
        let mut cpu = Self {
            regs: [0; 32],
            flags: Flags::default(),
            system_flags: 2,
            rip: 0,
            segments: [Segment::default(); 6],
            seg_base: [0; 16],
            cpl: 0,
            ldtr: Segment::default(),
            tr: Segment::default(),
            gdtr: DescriptorTable::default(),
            idtr: DescriptorTable::default(),
            cr0: 0,
            cr2: 0,
            cr3: 0,
            cr4: 0,
            efer: 0,
            dr: [0; 8],
            pdptes: [0; 4],
            msrs: CoreMsrs::default(),
            fpu: Fpu::default(),
            simd: Simd::default(),
            vector: Box::default(),
            features,
            alignment: AlignmentRule::default(),
            fp_kind: FpKind::default(),
            uncached: false,
            tells_place: false,
            time: 0,
            retired: 0,
            delayed_until: 0,
            deadline: 0,
            retire_until: 0,
            spare_steps: 0,
            alike: AlikeSteps::default(),
            alike_left: 0,
            cycle_costs: CycleCosts::FLAT,
            mode_outside_64_bit: Mode::BITS_64,
            tlb: Tlb::new(),
            mmu: 0,
            leave: Leave::default(),
            overwrote: false,
            alone: true,
            observe_privilege: false,
            interrupt_waits: false,
            leaves_at_pause: false,
            paused: false,
            shadow: Shadow::None,
            nmi_blocked: false,
            halted: false,
            watch: Watch::default(),
            stops: None,
            debug_hits: 0,
            slot: 2,
            history: Box::default(),
        };
        cpu.reset(0x0002_0f51);
        cpu
    }

    /// Reset or INIT (AMD64 APM volume 2, table 14-1): real mode at FFFF_FFF0h, `signature` in EDX.
    /// Time goes on; x87 and SSE state is set as by reset.
    pub fn reset(&mut self, signature: u32) {
        self.regs = [0; 32];
        self.regs[usize::from(gpr::RDX)] = u64::from(signature);
        self.flags = Flags::default();
        self.system_flags = 2;
        self.rip = 0xfff0;
        for n in 0..6 {
            self.segments[n] = Segment::real(0, n == usize::from(seg::CS));
        }
        self.segments[usize::from(seg::CS)].selector = 0xf000;
        self.segments[usize::from(seg::CS)].base = 0xffff_0000;
        let system = |kind| Segment {
            selector: 0,
            base: 0,
            limit: 0xffff,
            attributes: Segment::PRESENT | kind,
        };
        self.ldtr = system(2);
        self.tr = system(11);
        self.gdtr = DescriptorTable { base: 0, limit: 0xffff };
        self.idtr = DescriptorTable { base: 0, limit: 0xffff };
        self.cr0 = cr0::ET | cr0::NW | cr0::CD;
        self.cr2 = 0;
        self.cr3 = 0;
        self.cr4 = 0;
        self.efer = 0;
        self.dr = [0, 0, 0, 0, 0, 0, 0xffff_0ff0, 0x400];
        self.pdptes = [0; 4];
        self.msrs = CoreMsrs::default();
        self.fpu = Fpu::default();
        self.simd = Simd::default();
        if self.features.vpu && !self.features.sse {
            self.simd.mxcsr = vector::VXCSR_RESET;
        }
        *self.vector = Vector::default();
        self.fp_kind = FpKind::default();
        self.shadow = Shadow::None;
        self.nmi_blocked = false;
        self.halted = false;
        self.delayed_until = 0;
        self.cpl = 0;
        self.debug_hits = 0;
        self.refresh_segments();
        self.refresh_mmu();
        self.refresh_watch();
        self.tlb.flush_all();
    }

    /// Where it is, between two instructions or in one that is a block of its own.
    #[must_use]
    pub fn place(&self) -> Place {
        let cs = self.segment(seg::CS).selector;
        Place { time: self.time, retired: self.retired, cs, rip: self.rip, cpl: self.cpl }
    }

    /// Tells the bus where the running instruction is, if it wants to know. It is executed alone.
    #[inline(always)]
    pub(crate) fn tell_place<O>(&self, cx: &mut Cx<'_, O>) {
        if self.tells_place {
            cx.bus.at(self.place());
        }
    }

    /// Instructions retired since power-on.
    #[must_use]
    pub fn retired(&self) -> u64 {
        self.retired
    }

    /// Whether a branch that is taken costs cycles beyond those of its instruction.
    #[must_use]
    pub fn charges_taken_branches(&self) -> bool {
        self.cycle_costs.taken != 0
    }

    /// Whether the conditional transfer at the end of the block that retired last was taken.
    #[inline(always)]
    #[must_use]
    pub fn has_branched(&self) -> bool {
        self.slot != NOT_TAKEN
    }

    /// Counts `n` steps that retired no instruction and took `cycles` together.
    pub(crate) fn step_without_retiring(&mut self, n: u64, cycles: u64) {
        self.time += cycles;
        let spare = n.min(self.spare_steps);
        self.spare_steps -= spare;
        self.retire_until = self.retire_until.saturating_sub(n - spare);
    }

    /// Bounds the run, in which so many instructions have retired by then.
    pub(crate) fn bound(&mut self, budget: Budget, retired: u64) {
        let most = budget.steps.min(budget.instructions);
        self.deadline = budget.until;
        self.retire_until = retired.saturating_add(most);
        self.spare_steps = budget.steps - most;
        self.alike = budget.alike;
        self.alike_left = budget.alike.most;
    }

    /// So many of the steps that have passed, or are about to be told, were alike: the budget is that behind them.
    #[inline(always)]
    pub(crate) fn go_on_alike(&mut self, steps: u64) {
        self.alike_left -= steps;
        self.deadline += steps;
        self.retire_until += steps;
    }

    /// How many steps have passed alike beyond the budget. No more do: what they did is counted now.
    pub fn take_alike(&mut self) -> u64 {
        let passed = self.alike.most - self.alike_left;
        (self.alike.most, self.alike_left) = (0, 0);
        passed
    }

    /// `n` iterations of a repeated instruction are finished, and there is another.
    pub(crate) fn iterated(&mut self, n: u64) {
        self.step_without_retiring(n, n.saturating_mul(u64::from(self.cycle_costs.iteration)));
    }

    /// Lets `cycles` pass without an instruction: a halt.
    pub fn pass(&mut self, cycles: u64) {
        self.time += cycles;
    }

    /// Until when DELAY holds the thread back, if that is to come: an exception or interrupt ends it.
    #[must_use]
    pub fn delayed_until(&self) -> u64 {
        self.delayed_until
    }

    /// The current privilege level.
    #[must_use]
    pub fn cpl(&self) -> u8 {
        self.cpl
    }

    /// A general register, all 64 bits.
    #[must_use]
    pub fn gpr(&self, n: u8) -> u64 {
        self.regs[usize::from(n) % GPRS]
    }

    /// Sets a general register, all 64 bits.
    pub fn set_gpr(&mut self, n: u8, value: u64) {
        self.regs[usize::from(n) % GPRS] = value;
    }

    /// An instruction of `kind` uses the registers that x87 and MMX share.
    #[inline(always)]
    pub(crate) fn note_fp<O: Observer>(&mut self, cx: &mut Cx<'_, O>, kind: FpKind) {
        if O::COUNTS && self.fp_kind != kind {
            cx.observer.fp_transition(kind);
        }
        self.fp_kind = kind;
    }

    /// Reads register operand `r` (with [`HIGH_BYTE`] in 8-bit operands).
    #[inline(always)]
    pub(crate) fn reg<T: Word>(&self, r: u8) -> T {
        let value = self.regs[usize::from(r & 31)];
        if T::BITS == 8 { T::from_u64(value >> ((r & HIGH_BYTE) >> 2)) } else { T::from_u64(value) }
    }

    /// Writes register operand `r`: 32-bit operands clear the upper half, smaller ones merge.
    #[inline(always)]
    pub(crate) fn set_reg<T: Word>(&mut self, r: u8, value: T) {
        let slot = &mut self.regs[usize::from(r & 31)];
        match T::BITS {
            8 => {
                let shift = (r & HIGH_BYTE) >> 2;
                *slot = *slot & !(0xff << shift) | value.to_u64() << shift;
            }
            16 => *slot = *slot & !0xffff | value.to_u64(),
            _ => *slot = value.to_u64(),
        }
    }

    /// RIP of an instruction's offset in the running block, wrapped to the code size.
    #[inline(always)]
    pub(crate) fn rip_at(&self, offset: u16) -> u64 {
        self.wrap_ip(self.regs[usize::from(BLOCK_BASE)].wrapping_add(u64::from(offset)))
    }

    /// Wraps an instruction pointer: 64 bits in 64-bit mode, else 32.
    #[inline(always)]
    pub(crate) fn wrap_ip(&self, ip: u64) -> u64 {
        if self.in_64bit() { ip } else { ip & 0xffff_ffff }
    }

    /// RFLAGS.
    #[must_use]
    pub fn rflags(&self) -> u64 {
        self.system_flags | self.flags.to_rflags() | 2
    }

    /// Sets all of RFLAGS; bits 1, 3, 5, 15 and 63:22 read as the manual has them.
    pub fn set_rflags(&mut self, rflags: u64) {
        self.flags.set_rflags(rflags);
        let before = self.system_flags;
        self.system_flags = rflags & 0x003f_7700 | 2;
        self.flags_changed(before);
    }

    /// After IF, TF, VM or AC may have changed from their values in `before`: ends the run where the
    /// owner or the run loop has to act on the change.
    pub(crate) fn flags_changed(&mut self, before: u64) {
        let changed = before ^ self.system_flags;
        if changed & flags::IF != 0 {
            if self.interrupt_waits && self.system_flags & flags::IF != 0 {
                self.leave.ask();
            } else if self.observe_privilege {
                self.leave.ask_for_a_look();
            }
        }
        if self.system_flags & flags::TF != 0 {
            // The run loop goes instruction by instruction from here.
            self.leave.ask();
        }
        if changed & flags::AC != 0 {
            self.refresh_alignment();
        }
    }

    /// Ends the run at the next instruction boundary, or between two iterations.
    pub(crate) fn leave_soon(&mut self) {
        self.leave.ask();
        self.overwrote = false;
    }

    /// A device was accessed: the owner looks at the next instruction boundary, or between two iterations, whether it has
    /// interrupts to deliver, or devices to run.
    pub(crate) fn accessed_device(&mut self) {
        self.leave.ask_for_a_look();
        self.overwrote = false;
    }

    /// After a write: if it `hit` translated code, the run ends before that code can be executed.
    pub(crate) fn note_overwritten(&mut self, hit: bool) {
        if hit {
            self.overwrote |= !self.leave.is_asked();
            self.leave.ask();
        }
    }

    /// Whether IF is set.
    #[must_use]
    pub fn interrupts_enabled(&self) -> bool {
        self.system_flags & flags::IF != 0
    }

    /// Whether an instruction holds back interrupts until the next one has executed.
    #[must_use]
    pub fn interrupt_shadow(&self) -> bool {
        self.shadow != Shadow::None
    }

    /// Whether an NMI is in service.
    #[must_use]
    pub fn nmi_blocked(&self) -> bool {
        self.nmi_blocked
    }

    /// PAUSE or DELAY has executed.
    pub(crate) fn note_pause(&mut self) {
        if self.leaves_at_pause {
            self.paused = true;
            self.leave.ask();
        }
    }

    /// IRET ends the blocking of NMIs: a pending one is delivered next.
    pub(crate) fn unblock_nmi(&mut self) {
        if self.nmi_blocked && self.interrupt_waits {
            self.leave.ask();
        }
        self.nmi_blocked = false;
    }

    /// A segment register.
    #[must_use]
    pub fn segment(&self, n: u8) -> &Segment {
        &self.segments[usize::from(n) % 6]
    }

    /// Sets a segment register with its hidden part: for the owner and for far transfers.
    pub fn set_segment(&mut self, n: u8, segment: Segment) {
        self.segments[usize::from(n) % 6] = segment;
        self.refresh_segments();
    }

    /// Sets the privilege level.
    pub fn set_cpl(&mut self, cpl: u8) {
        if cpl != self.cpl && self.observe_privilege {
            self.leave.ask_for_a_look();
        }
        self.cpl = cpl;
        self.refresh_mmu();
    }

    /// Brings the operand bases and the mode up to date with the segment registers.
    pub(crate) fn refresh_segments(&mut self) {
        self.mode_outside_64_bit = Lowering::mode_outside_64_bit(&self.segments);
        for n in 0..6 {
            self.seg_base[n] = self.segments[n].base;
        }
        self.seg_base[usize::from(seg::FLAT)] = 0;
        self.seg_base[usize::from(seg::FLAT_STACK)] = 0;
        self.seg_base[usize::from(seg::FS_BASE)] = self.segments[usize::from(seg::FS)].base;
        self.seg_base[usize::from(seg::GS_BASE)] = self.segments[usize::from(seg::GS)].base;
    }

    /// Brings the choice of TLB up to date with the privilege level.
    pub(crate) fn refresh_mmu(&mut self) {
        self.mmu = usize::from(self.cpl == 3);
        self.refresh_alignment();
    }

    /// #UD unless a feature is there.
    #[inline]
    pub(crate) fn require(&self, has: bool) -> Exec<()> {
        if has { Ok(()) } else { Err(Stop::UD) }
    }

    /// #GP(0) unless at privilege level 0.
    #[inline]
    pub(crate) fn require_cpl0(&self) -> Exec<()> {
        if self.cpl == 0 { Ok(()) } else { Err(Stop::GP0) }
    }
}
