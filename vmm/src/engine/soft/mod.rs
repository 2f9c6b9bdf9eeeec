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
//!   that it interrupted. What a transfer to a more privileged level pushes onto the stack there
//!   belongs to that level, and counts with the first instruction there: the stack is the
//!   supervisor's, and "accesses made while CPL = 3 are user-mode accesses" (Intel SDM volume 3A,
//!   "Determination of Access Rights"), which would fault on it.
//! * Cycles pass with each retired instruction, each further iteration of a REP and each delivered
//!   exception or interrupt, one each by the flat costs; none that count while halted.

mod outside;
mod stretch;
mod vcpu;

use pmu_model::{Demand, Pmis, Tier};
use x86_cpu::block::Translations;
use x86_cpu::bus::Bus;
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::{Counting, Cx, Observer, Plain};
use x86_cpu::ram::Ram;
use x86_cpu::run::Exit;
use x86_cpu::timing::{Budget, CycleCosts};

use self::outside::Outside;
pub(crate) use self::stretch::fact;
pub use self::vcpu::Vcpu;
use self::vcpu::{Siblings, headroom};
use super::{Board, Limit, Outcome};
use crate::irq::Pending;
use crate::stop::Stop;
use crate::truth::record::Recorder;

/// The most cycles without a look whether the run is to end. Instructions that take a microsecond of
/// the host's time, or are translated anew each time, fill a slice with tenths of a second.
const STRIDE: u64 = 16_384;

/// What counted execution can tell of.
pub const TIER: Tier = Tier::InstructionSet;

/// Up to where the processor itself ends.
const UNLIMITED: Budget = Budget::until(u64::MAX);

/// The translated code of a machine.
pub struct Soft {
    plain: Translations<Plain>,
    counting: Translations<Counting>,
    /// Where everything that is executed is recorded, if it is.
    recording: Option<(Box<Recorder>, Translations<Box<Recorder>>)>,
    /// Asks the run to end.
    stop: Option<Stop>,
}

/// A processor with all that its execution touches.
struct Running<'a, 'b> {
    vcpu: &'a mut Vcpu,
    siblings: &'a mut Siblings<'b>,
    board: &'a mut Board,
    ram: &'a Ram,
}

impl Soft {
    /// An engine that has translated nothing yet, for a guest with so many bytes of RAM, and what
    /// execution takes.
    ///
    /// The code translated for plain execution takes an eighth of that in the host at most, but not
    /// less than 16 MiB and not more than 128 MiB, and that for counted execution as much again.
    #[must_use]
    pub fn new(ram: u64, cycle_costs: CycleCosts) -> Self {
        let budget = (ram / 8).clamp(16 << 20, 128 << 20) as usize;
        Self {
            plain: Translations::with_budget(budget).with_cycle_costs(cycle_costs),
            counting: Translations::with_budget(budget).with_cycle_costs(cycle_costs),
            recording: None,
            stop: None,
        }
    }

    /// Records all execution from now on.
    pub fn record(&mut self, recorder: Recorder) {
        self.recording = Some((Box::new(recorder), self.counting.empty()));
    }

    /// What has recorded all execution, which it does no longer.
    pub fn recorded(&mut self) -> Option<Recorder> {
        self.recording.take().map(|(recorder, _)| *recorder)
    }

    /// Ends each run early from now on when `stop` is requested.
    pub fn obey(&mut self, stop: &Stop) {
        self.stop = Some(stop.clone());
    }

    /// Does something with processor `id` that is not to be counted. `None`: there is none such.
    pub(crate) fn act<T>(
        &mut self,
        vcpus: &mut [Vcpu],
        id: usize,
        board: &mut Board,
        ram: &Ram,
        act: impl FnOnce(&mut Cpu, &mut Cx<'_, Plain>, &mut Translations<Plain>) -> T,
    ) -> Option<T> {
        let threads_per_core = usize::from(board.platform.threads_per_core);
        let (vcpu, mut siblings) = Siblings::split(vcpus, id, threads_per_core)?;
        let running = Running { vcpu, siblings: &mut siblings, board, ram };
        let (demand, pending) = (Demand::default(), Pending::default());
        let plain = &mut self.plain;
        let act = |cpu: &mut Cpu, cx: &mut Cx<'_, Plain>| act(cpu, cx, plain);
        Some(observed(running, &demand, UNLIMITED, pending, Plain, act).0)
    }

    /// How many blocks of translated code it keeps.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.plain.len() + self.counting.len()
    }

    /// Forgets all translated code: guest memory was written by somebody else, nobody knows where.
    pub fn forget(&mut self) {
        self.plain.forget();
        self.counting.forget();
        if let Some((_, translations)) = &mut self.recording {
            translations.forget();
        }
    }

    /// Runs processor `id` until the limit, or until the machine has to look at something.
    pub fn run(
        &mut self,
        vcpus: &mut [Vcpu],
        id: usize,
        board: &mut Board,
        ram: &Ram,
        limit: Limit,
    ) -> Outcome {
        let threads_per_core = usize::from(board.platform.threads_per_core);
        let Some((vcpu, mut siblings)) = Siblings::split(vcpus, id, threads_per_core) else {
            return Outcome::Complete;
        };
        let siblings = &mut siblings;
        let stop_at = vcpu.cpu.retired().saturating_add(limit.instructions);
        while vcpu.cpu.time < limit.time {
            if self.stop.as_ref().is_some_and(Stop::is_requested) {
                return Outcome::Stopped;
            }
            let deadline = board.catch_up(vcpu.cpu.time);
            board.chipset.irq.arrive(vcpu.id, vcpu.cpu.time);
            vcpu.deliver_late(board);
            if board.chipset.irq.has_signals() {
                return Outcome::Signals;
            }
            if board.chipset.has_events() {
                return Outcome::Event;
            }
            if limit.counted && !vcpu.is_counted(siblings) {
                return Outcome::Uncounted;
            }
            let arrival = board.chipset.irq.next_arrival(vcpu.id).unwrap_or(u64::MAX);
            let until = limit.time.min(arrival).min(deadline.max(vcpu.cpu.time + 1));
            if vcpu.waits_for_startup {
                vcpu.pass_until(until);
                continue;
            }
            let pending = board.chipset.irq.pending(vcpu.id);
            if pending.any()
                && self.take_interrupt(Running { vcpu, siblings, board, ram }, pending)
                    == Taken::Shutdown
            {
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
            let stride = until.min(vcpu.cpu.time + STRIDE);
            vcpu.cpu.leaves_at_pause = limit.at_pause;
            let exit = self.step(Running { vcpu, siblings, board, ram }, stride, left);
            let sent = board.chipset.irq.depart(vcpu.cpu.time, board.platform.ipi_flight);
            match exit {
                Exit::Shutdown => return Outcome::Shutdown,
                Exit::Pause => return Outcome::Yielded,
                _ if sent && limit.at_send => return Outcome::Yielded,
                _ => {}
            }
        }
        Outcome::Complete
    }

    /// Runs instructions until something has to be looked at; at most `left` of them.
    fn step(&mut self, running: Running<'_, '_>, until: u64, left: u64) -> Exit {
        let vcpu = &mut *running.vcpu;
        let pending = running.board.chipset.irq.pending(vcpu.id);
        let time = vcpu.cpu.time;
        let mut limit = Budget { until, steps: left };
        if let Some(&at) = vcpu.late.front() {
            limit.steps = limit.steps.min(at.saturating_sub(vcpu.cpu.retired()));
        }
        if pending.any() && vcpu.cpu.interrupt_shadow() {
            limit.steps = limit.steps.min(1);
        }
        vcpu.cpu.interrupt_waits = pending.any();
        let demand = running.siblings.demand().with(vcpu.pmu.demand());
        vcpu.observe(&demand);
        let counted = match demand.counting {
            true => limit.min(headroom(&vcpu.pmu, &demand, time)),
            false => limit,
        };
        if let Some((recorder, mut translations)) = self.recording.take() {
            let (exit, recorder) =
                recorded(running, &demand, limit, pending, recorder, |cpu, cx| {
                    cpu.run(cx, &mut translations, counted)
                });
            self.recording = Some((recorder, translations));
            exit
        } else if demand.counting {
            let observer = Counting::default();
            let run =
                |cpu: &mut Cpu, cx: &mut Cx<'_, Counting>| cpu.run(cx, &mut self.counting, counted);
            observed(running, &demand, limit, pending, observer, run).0
        } else {
            let run = |cpu: &mut Cpu, cx: &mut Cx<'_, Plain>| cpu.run(cx, &mut self.plain, limit);
            observed(running, &demand, limit, pending, Plain, run).0
        }
    }

    /// Takes an NMI or an interrupt if the processor is ready for one.
    fn take_interrupt(&mut self, mut running: Running<'_, '_>, pending: Pending) -> Taken {
        let Running { vcpu, board, .. } = &mut running;
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
        let demand = running.siblings.demand().with(running.vcpu.pmu.demand());
        if let Some((recorder, translations)) = self.recording.take() {
            let (taken, recorder) =
                recorded(running, &demand, UNLIMITED, pending, recorder, |cpu, cx| {
                    deliver(cpu, cx, vector)
                });
            self.recording = Some((recorder, translations));
            taken
        } else if demand.counting {
            let observer = Counting::default();
            let act = |cpu: &mut Cpu, cx: &mut Cx<'_, Counting>| deliver(cpu, cx, vector);
            observed(running, &demand, UNLIMITED, pending, observer, act).0
        } else {
            let act = |cpu: &mut Cpu, cx: &mut Cx<'_, Plain>| deliver(cpu, cx, vector);
            observed(running, &demand, UNLIMITED, pending, Plain, act).0
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

/// Does something with a processor as [`observed`] does, and records it.
fn recorded<T>(
    running: Running<'_, '_>,
    demand: &Demand,
    limit: Budget,
    pending: Pending,
    mut recorder: Box<Recorder>,
    act: impl FnOnce(&mut Cpu, &mut Cx<'_, Box<Recorder>>) -> T,
) -> (T, Box<Recorder>) {
    let Running { vcpu, siblings, board, ram } = running;
    recorder.begin(vcpu.id, &vcpu.cpu);
    let before = vcpu.pmu.programmings();
    let running = Running { vcpu: &mut *vcpu, siblings, board, ram };
    let (result, mut recorder) = observed(running, demand, limit, pending, recorder, act);
    recorder.end(&vcpu.cpu, &vcpu.pmu, vcpu.pmu.programmings() != before);
    (result, recorder)
}

/// Does something with a processor, no longer than `limit` if the counters let it, and counts what
/// that was. Gives the observer back.
fn observed<O: Observer, T>(
    running: Running<'_, '_>,
    demand: &Demand,
    limit: Budget,
    pending: Pending,
    observer: O,
    act: impl FnOnce(&mut Cpu, &mut Cx<'_, O>) -> T,
) -> (T, O) {
    let Running { vcpu, siblings, board, ram } = running;
    let at = vcpu.circumstances(pending);
    let shared = siblings.demand().counting;
    let mut outside = Outside {
        id: vcpu.id,
        board,
        pmu: &mut vcpu.pmu,
        bank: &mut vcpu.bank,
        tsc_offset: &mut vcpu.tsc_offset,
        shared,
        siblings,
        demand: *demand,
        limit: limit.until,
        retire_limit: vcpu.cpu.retired().saturating_add(limit.steps),
        counts: &mut vcpu.counts,
        late: &mut vcpu.late,
        at: demand.counting.then_some(at),
        counted_time: vcpu.cpu.time,
        counted_instructions: vcpu.cpu.retired(),
        overflowed: Pmis::NONE,
    };
    let mut cx = Cx { bus: &mut outside, ram, observer };
    let inner = std::mem::take(&mut vcpu.inner);
    if let Some(facts) = cx.observer.facts() {
        facts.stores = inner.stores;
        facts.misaligned = inner.misaligned;
    }
    let result = act(&mut vcpu.cpu, &mut cx);
    let Cx { mut observer, .. } = cx;
    if demand.counting
        && let Some(facts) = observer.facts()
    {
        vcpu.inner = std::mem::take(&mut facts.inner);
        let retired = vcpu.cpu.retired();
        let pmis = std::mem::replace(&mut outside.overflowed, Pmis::NONE);
        outside.raise(pmis, retired);
        outside.settle(facts, vcpu.cpu.time, retired);
    }
    (result, observer)
}

#[cfg(test)]
mod long_mode_tests;
