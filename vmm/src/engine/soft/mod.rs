//! The software engine: the interpreter, and the only place that knows CPU and PMU together.
//!
//! # What is counted, and when
//!
//! * An instruction is counted by the configuration in force when it began: the WRMSR that sets
//!   `EN` is not counted, the one that clears it is. What RDMSR and RDPMC read does not yet include
//!   themselves.
//! * The overflowing instruction retires, then the PMI is at the local APIC before the next one
//!   begins; with a skid, that many instructions later.
//! * Facts belong to the CPL at which the instruction began; an exception or interrupt to the CPL
//!   that it interrupted.
//! * A cycle passes with each retired instruction, each further iteration of a REP and each
//!   delivered exception or interrupt; none while halted.

use std::collections::VecDeque;

use pmu_model::{MsrWrite, Pmis, Pmu, RdpmcCaller, Signal, SignalCounts, SignalSet};
use x86_cpu::block::Translations;
use x86_cpu::bus::{Bus, CpuidResult, Refused};
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::{Counting, Cx, Facts, Observer, Plain};
use x86_cpu::ram::Ram;
use x86_cpu::run::Exit;

use super::{Board, Limit, Outcome};
use crate::irq::Pending;
use crate::msr::MsrSpace;
use crate::platform::{CpuidContext, MsrBank};

/// The translated code of a machine.
#[derive(Default)]
pub struct Soft {
    plain: Translations<Plain>,
    counting: Translations<Counting>,
}

/// One processor with what belongs to it alone.
pub struct Vcpu {
    /// Number of the processor, and of its local APIC.
    id: usize,
    /// Architectural state.
    pub cpu: Cpu,
    /// Performance counters.
    pub pmu: Pmu,
    bank: MsrBank,
    tsc_offset: u64,
    /// Waits for a start-up IPI.
    pub waits_for_startup: bool,
    /// Cycles spent halted or waiting for a start-up IPI.
    pub halted_cycles: u64,
    /// PMIs under way: the counts of retired instructions at which they reach the local APIC.
    late: VecDeque<u64>,
    /// Scratch; empty between uses.
    counts: SignalCounts,
}

/// How a processor was when the counted instructions began.
#[derive(Clone, Copy)]
struct Circumstances {
    cpl: u8,
    /// EFLAGS.IF clear.
    masked: bool,
    /// A maskable interrupt waits.
    pending: bool,
}

impl Vcpu {
    /// Processor `id`, which waits for a start-up IPI unless it is the bootstrap processor 0.
    #[must_use]
    pub fn new(id: usize, cpu: Cpu, pmu: Pmu, bank: MsrBank) -> Self {
        Self {
            id,
            cpu,
            pmu,
            bank,
            tsc_offset: 0,
            waits_for_startup: id != 0,
            halted_cycles: 0,
            late: VecDeque::new(),
            counts: SignalCounts::new(),
        }
    }

    /// Whether it executes nothing until something comes from outside.
    #[must_use]
    pub fn asleep(&self, board: &Board) -> bool {
        if self.waits_for_startup {
            return true;
        }
        let pending = board.chipset.irq.pending(self.id);
        self.cpu.halted
            && self.late.is_empty()
            && !self.takes_nmi(pending)
            && !(pending.interrupt && self.cpu.interrupts_enabled())
    }

    fn takes_nmi(&self, pending: Pending) -> bool {
        pending.nmi && !self.cpu.nmi_blocked()
    }

    /// Lets time pass until `time` without an instruction.
    fn pass_until(&mut self, time: u64) {
        let cycles = time.saturating_sub(self.cpu.time);
        self.cpu.pass(cycles);
        self.halted_cycles += cycles;
    }

    fn circumstances(&self, pending: Pending) -> Circumstances {
        Circumstances {
            cpl: self.cpu.cpl(),
            masked: !self.cpu.interrupts_enabled(),
            pending: pending.interrupt,
        }
    }

    /// Tells the CPU what it has to look for.
    fn observe(&mut self, counting: bool) {
        self.cpu.observe_privilege = counting;
        let demand = self.pmu.demand();
        let matches = MATCH.iter().any(|&signal| demand.signals.contains(signal));
        self.cpu.watch_disabled_breakpoints(matches);
    }

    /// Delivers the late PMIs that are due: a halted processor has nothing left to wait for.
    fn deliver_late(&mut self, board: &mut Board) {
        while let Some(&at) = self.late.front() {
            let pending = board.chipset.irq.pending(self.id);
            let woken =
                self.takes_nmi(pending) || pending.interrupt && self.cpu.interrupts_enabled();
            if at > self.cpu.retired() && (woken || !self.cpu.halted) {
                break;
            }
            self.late.pop_front();
            board.chipset.irq.pmi(self.id);
        }
    }

    /// The time up to which no counter can overflow before the last cycle, no late PMI falls due,
    /// and, if somebody judges every cycle, only one cycle passes.
    fn count_until(&self) -> u64 {
        let demand = self.pmu.demand();
        let mut cycles = if demand.per_cycle { 1 } else { u64::MAX };
        for signal in &demand.signals {
            if let Some(headroom) = self.pmu.headroom(signal) {
                cycles = cycles.min((headroom / most_per_cycle(signal)).max(1));
            }
        }
        self.cpu.time.saturating_add(cycles)
    }
}

/// An upper bound of what any one counter that takes `signal` can gain in one cycle, all the signals
/// that an event sums taken together.
fn most_per_cycle(signal: Signal) -> u64 {
    match signal {
        // A hardware task switch loads all six, a far return through it SS twice.
        Signal::SegLoadEs
        | Signal::SegLoadCs
        | Signal::SegLoadSs
        | Signal::SegLoadDs
        | Signal::SegLoadFs
        | Signal::SegLoadGs => 16,
        // FXSAVE moves 512 bytes, ENTER up to 32 stack slots twice; page walks do not count.
        Signal::Misaligned
        | Signal::DebugMatch0
        | Signal::DebugMatch1
        | Signal::DebugMatch2
        | Signal::DebugMatch3 => 256,
        // An instruction retires, an exception or an interrupt is delivered: one in a cycle.
        _ => 1,
    }
}

/// By debug register.
const MATCH: [Signal; 4] =
    [Signal::DebugMatch0, Signal::DebugMatch1, Signal::DebugMatch2, Signal::DebugMatch3];

/// What the CPU did for a while, in one and the same circumstances.
struct Stretch<'a> {
    facts: &'a Facts,
    instructions: u64,
    cycles: u64,
    at: Circumstances,
}

impl Stretch<'_> {
    /// Adds what the demanded signals occurred, and the cycles.
    fn fill(&self, counts: &mut SignalCounts, demanded: &SignalSet) {
        counts.add(Signal::CyclesUnhalted, self.cycles);
        for signal in demanded {
            if signal != Signal::CyclesUnhalted {
                counts.add(signal, self.occurrences(signal));
            }
        }
    }

    /// How often `signal` occurred.
    fn occurrences(&self, signal: Signal) -> u64 {
        let facts = self.facts;
        let masked = if self.at.masked { self.cycles } else { 0 };
        match signal {
            Signal::InsnRetired => self.instructions,
            Signal::CyclesUnhalted => self.cycles,
            Signal::CyclesIntMasked => masked,
            Signal::CyclesIntMaskedPending if self.at.pending => masked,
            Signal::BranchRetired => facts.branches,
            Signal::BranchTaken => facts.taken,
            Signal::BranchRetiredRet => facts.near_returns,
            Signal::BranchRetiredFar => facts.far,
            Signal::Misaligned => facts.misaligned,
            Signal::ExceptionTaken => facts.exceptions,
            Signal::InterruptTaken => facts.interrupts,
            // In the order of the CPU's classes.
            Signal::InsnRetiredClflush => facts.class[0],
            Signal::InsnRetiredCpuid => facts.class[1],
            Signal::InsnRetiredX87 => facts.class[2],
            Signal::InsnRetiredMmx => facts.class[3],
            Signal::InsnRetiredSsePacked => facts.class[4],
            Signal::InsnRetiredSseScalar => facts.class[5],
            Signal::LockedOp => facts.class[6],
            Signal::FpuOpFastFlag => facts.class[7],
            Signal::SoftPrefetchLoad => facts.class[8],
            Signal::SoftPrefetchStore => facts.class[9],
            Signal::SoftPrefetchNta => facts.class[10],
            // By encoding number.
            Signal::SegLoadEs => facts.seg_loads[0],
            Signal::SegLoadCs => facts.seg_loads[1],
            Signal::SegLoadSs => facts.seg_loads[2],
            Signal::SegLoadDs => facts.seg_loads[3],
            Signal::SegLoadFs => facts.seg_loads[4],
            Signal::SegLoadGs => facts.seg_loads[5],
            // By debug register.
            Signal::DebugMatch0 => facts.debug_matches[0],
            Signal::DebugMatch1 => facts.debug_matches[1],
            Signal::DebugMatch2 => facts.debug_matches[2],
            Signal::DebugMatch3 => facts.debug_matches[3],
            _ => 0,
        }
    }
}

impl Soft {
    /// An engine that has translated nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a processor until the limit, or until the machine has to look at something.
    pub fn run(&mut self, vcpu: &mut Vcpu, board: &mut Board, ram: &Ram, limit: Limit) -> Outcome {
        let stop_at = vcpu.cpu.retired().saturating_add(limit.instructions);
        while vcpu.cpu.time < limit.time {
            let deadline = board.catch_up(vcpu.cpu.time);
            vcpu.deliver_late(board);
            if board.chipset.irq.has_signals() {
                return Outcome::Signals;
            }
            if board.chipset.has_events() {
                return Outcome::Event;
            }
            let until = limit.time.min(deadline.max(vcpu.cpu.time + 1));
            if vcpu.waits_for_startup {
                vcpu.pass_until(until);
                continue;
            }
            let pending = board.chipset.irq.pending(vcpu.id);
            if pending.any() && self.take_interrupt(vcpu, board, ram, pending) == Taken::Shutdown {
                return Outcome::Shutdown;
            }
            if vcpu.cpu.halted {
                vcpu.pass_until(until);
                continue;
            }
            let left = stop_at.saturating_sub(vcpu.cpu.retired());
            if left == 0 {
                return Outcome::InstructionLimit;
            }
            if self.step(vcpu, board, ram, until, left) == Exit::Shutdown {
                return Outcome::Shutdown;
            }
        }
        Outcome::Complete
    }

    /// Runs instructions until something has to be looked at; at most `left` of them.
    fn step(
        &mut self,
        vcpu: &mut Vcpu,
        board: &mut Board,
        ram: &Ram,
        until: u64,
        left: u64,
    ) -> Exit {
        let pending = board.chipset.irq.pending(vcpu.id);
        let time = vcpu.cpu.time;
        let mut until = until.min(time.saturating_add(left));
        if let Some(&at) = vcpu.late.front() {
            until = until.min(time.saturating_add(at.saturating_sub(vcpu.cpu.retired())));
        }
        if pending.any() && vcpu.cpu.interrupt_shadow() {
            until = until.min(time + 1);
        }
        vcpu.cpu.interrupt_waits = pending.any();
        let counting = vcpu.pmu.demand().counting;
        vcpu.observe(counting);
        if counting {
            let until = until.min(vcpu.count_until());
            observed(vcpu, board, ram, pending, Counting::default(), |cpu, cx| {
                cpu.run(cx, &mut self.counting, until)
            })
        } else {
            observed(vcpu, board, ram, pending, Plain, |cpu, cx| {
                cpu.run(cx, &mut self.plain, until)
            })
        }
    }

    /// Takes an NMI or an interrupt if the processor is ready for one.
    fn take_interrupt(
        &mut self,
        vcpu: &mut Vcpu,
        board: &mut Board,
        ram: &Ram,
        pending: Pending,
    ) -> Taken {
        if vcpu.cpu.interrupt_shadow() {
            return Taken::Nothing;
        }
        let vector = if vcpu.takes_nmi(pending) {
            board.chipset.irq.take_nmi(vcpu.id);
            None
        } else if pending.interrupt && vcpu.cpu.interrupts_enabled() {
            Some(board.chipset.irq.acknowledge(vcpu.id))
        } else {
            return Taken::Nothing;
        };
        vcpu.cpu.halted = false;
        // The interrupt itself no longer waits; another one behind it does not matter for the one
        // cycle of the delivery.
        let pending = Pending::default();
        if vcpu.pmu.demand().counting {
            observed(vcpu, board, ram, pending, Counting::default(), |cpu, cx| {
                deliver(cpu, cx, vector)
            })
        } else {
            observed(vcpu, board, ram, pending, Plain, |cpu, cx| deliver(cpu, cx, vector))
        }
    }
}

/// What became of a pending interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// The processor is not ready for it.
    Nothing,
    /// Its handler is next.
    Delivered,
    /// The processor shut down while delivering it.
    Shutdown,
}

fn deliver<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, vector: Option<u8>) -> Taken {
    let result = match vector {
        Some(vector) => cpu.interrupt(cx, vector),
        None => cpu.nmi(cx),
    };
    if result.is_ok() { Taken::Delivered } else { Taken::Shutdown }
}

/// Does something with a processor and counts what that was.
fn observed<O: Observer, T>(
    vcpu: &mut Vcpu,
    board: &mut Board,
    ram: &Ram,
    pending: Pending,
    observer: O,
    act: impl FnOnce(&mut Cpu, &mut Cx<'_, O>) -> T,
) -> T {
    let at = vcpu.circumstances(pending);
    let mut outside = Outside {
        id: vcpu.id,
        board,
        pmu: &mut vcpu.pmu,
        bank: &mut vcpu.bank,
        tsc_offset: &mut vcpu.tsc_offset,
        counts: &mut vcpu.counts,
        late: &mut vcpu.late,
        at: O::COUNTS.then_some(at),
        counted_time: vcpu.cpu.time,
        counted_instructions: vcpu.cpu.retired(),
        overflowed: Pmis::NONE,
    };
    let mut cx = Cx { bus: &mut outside, ram, observer };
    let result = act(&mut vcpu.cpu, &mut cx);
    let facts = cx.observer.take();
    if O::COUNTS {
        let retired = vcpu.cpu.retired();
        let pmis = std::mem::replace(&mut outside.overflowed, Pmis::NONE);
        outside.raise(pmis, retired);
        outside.settle(&facts, vcpu.cpu.time, retired);
    }
    result
}

/// All that one processor sees beyond its registers and RAM.
struct Outside<'a> {
    id: usize,
    board: &'a mut Board,
    pmu: &'a mut Pmu,
    bank: &'a mut MsrBank,
    tsc_offset: &'a mut u64,
    /// Scratch; empty between uses.
    counts: &'a mut SignalCounts,
    /// PMIs under way.
    late: &'a mut VecDeque<u64>,
    /// How the counted instructions began; `None` if nothing is counted.
    at: Option<Circumstances>,
    /// The time up to which everything has been counted.
    counted_time: u64,
    /// The instructions that have been counted, of all since power-on.
    counted_instructions: u64,
    /// Overflows that a WRMSR caused by its own retirement.
    overflowed: Pmis,
}

impl Outside<'_> {
    fn msrs(&mut self) -> MsrSpace<'_> {
        MsrSpace {
            lapic: self.board.chipset.irq.lapic_mut(self.id),
            pmu: self.pmu,
            bank: self.bank,
            tsc_offset: self.tsc_offset,
        }
    }

    /// Counts the running WRMSR before its effect on the PMU: all before it has been counted.
    fn settle_write(&mut self, index: u32, value: u64) {
        let Some(at) = self.at else { return };
        if self.pmu.judge_write(index, value) == MsrWrite::Done {
            let facts = Facts::default();
            self.overflowed =
                self.count(&Stretch { facts: &facts, instructions: 1, cycles: 1, at });
            self.counted_time += 1;
            self.counted_instructions += 1;
        }
    }

    /// Adds a stretch of execution to the PMU.
    fn count(&mut self, stretch: &Stretch<'_>) -> Pmis {
        let demand = *self.pmu.demand();
        stretch.fill(self.counts, &demand.signals);
        if self.counts.is_empty() {
            return Pmis::NONE;
        }
        let pmis = if demand.per_cycle {
            self.pmu.cycle(self.counts, stretch.at.cpl)
        } else {
            self.pmu.advance(self.counts, stretch.at.cpl)
        };
        self.counts.clear();
        pmis
    }

    /// Takes overflows on their way to the local APIC.
    fn raise(&mut self, pmis: Pmis, retired: u64) {
        // The local APIC latches one: each further assertion comes an instruction later, when the
        // one before it is in service.
        for (nth, _) in (0..).zip(pmis.iter()) {
            match self.board.skid.saturating_add(nth) {
                0 => _ = self.board.chipset.irq.pmi(self.id),
                later => self.late.push_back(retired.saturating_add(later)),
            }
        }
    }
}

/// An operand size in bytes as the devices take it.
fn bytes(size: usize) -> u8 {
    u8::try_from(size).unwrap_or(8)
}

impl Bus for Outside<'_> {
    fn mmio_read(&mut self, time: u64, gpa: u64, size: usize) -> u64 {
        let now = self.board.device_time(time);
        self.board.chipset.mmio_read(self.id, gpa, bytes(size), now)
    }

    fn mmio_write(&mut self, time: u64, gpa: u64, size: usize, value: u64) {
        let now = self.board.device_time(time);
        self.board.chipset.mmio_write(self.id, gpa, bytes(size), value, now);
    }

    fn io_read(&mut self, time: u64, port: u16, size: usize) -> u32 {
        let now = self.board.device_time(time);
        self.board.chipset.io_read(port, bytes(size), now)
    }

    fn io_write(&mut self, time: u64, port: u16, size: usize, value: u32) {
        let now = self.board.device_time(time);
        self.board.chipset.io_write(port, bytes(size), value, now);
    }

    fn rdmsr(&mut self, time: u64, index: u32) -> Result<u64, Refused> {
        self.msrs().read(time, index)
    }

    fn wrmsr(&mut self, time: u64, index: u32, value: u64) -> Result<(), Refused> {
        self.settle_write(index, value);
        self.msrs().write(time, index, value)
    }

    fn rdpmc(&mut self, index: u32, cpl: u8, pce: bool, real: bool) -> Result<u64, Refused> {
        let caller = RdpmcCaller { cpl, pce, real_mode: real, code_16bit: false };
        self.pmu.rdpmc(index, caller).map_err(|_| Refused)
    }

    fn settle(&mut self, facts: &Facts, time: u64, retired: u64) {
        let Some(at) = self.at else { return };
        let instructions = retired.saturating_sub(self.counted_instructions);
        let cycles = time.saturating_sub(self.counted_time);
        self.counted_instructions = retired;
        self.counted_time = time;
        let pmis = self.count(&Stretch { facts, instructions, cycles, at });
        self.raise(pmis, retired);
    }

    fn cpuid(&mut self, leaf: u32, _: u32) -> CpuidResult {
        let lapic = self.board.chipset.irq.lapic(self.id);
        let context = CpuidContext {
            apic_id: initial_apic_id(self.id),
            apic_enabled: lapic.hardware_enabled(),
            hypervisor: false,
        };
        let result = self.board.platform.cpuid(leaf, context);
        CpuidResult { eax: result.eax, ebx: result.ebx, ecx: result.ecx, edx: result.edx }
    }

    fn tsc(&mut self, time: u64) -> u64 {
        time.wrapping_add(*self.tsc_offset)
    }

    fn cr8(&mut self) -> u8 {
        self.board.chipset.irq.lapic(self.id).cr8()
    }

    fn set_cr8(&mut self, time: u64, value: u8) {
        let now = self.board.device_time(time);
        self.board.chipset.advance(now);
        self.board.chipset.irq.lapic_mut(self.id).set_cr8(value);
    }

    fn ferr(&mut self) {
        // FERR# reaches IRQ13 through a latch that only the handler's OUT to F0h clears; an edge is
        // all that the 8259 needs to see.
        self.board.chipset.irq.set_gsi(FERR_IRQ, true);
        self.board.chipset.irq.set_gsi(FERR_IRQ, false);
    }
}

/// The initial APIC ID of processor `id`: its number.
fn initial_apic_id(id: usize) -> u8 {
    u8::try_from(id).unwrap_or(u8::MAX)
}

/// ISA interrupt of the x87.
const FERR_IRQ: u8 = 13;
