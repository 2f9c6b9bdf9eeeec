//! The software engine: runs the interpreter of `x86-cpu` and counts what it executes. No other module
//! knows both the CPU and the PMU.
//!
//! # What is counted, and when
//!
//! * An instruction is counted by the configuration in force when it began: the WRMSR that sets
//!   `EN` is not counted, the one that clears it is. What RDMSR and RDPMC read does not yet include
//!   themselves. What a pipeline tells of such an instruction once it has retired is counted by the counters
//!   that go on, and by none that it has begun anew.
//! * What a counter holds does not depend on what the others count, where that does not choose the clock.
//! * The overflowing instruction retires, and the PMI reaches the local APIC before the next
//!   instruction begins; with a skid of n, n instructions later.
//! * A run is at most so long that no counter overflows before its last step: one step, where a counter
//!   compares the occurrences of each cycle. If none has overflowed then, what has happened is counted, and
//!   the run goes on; steps in which nothing has, but what all of them have in common, are counted together.
//! * Facts are counted at the CPL at which the instruction began, and an exception or interrupt at
//!   the CPL that it interrupted. The pushes of a transfer to a more privileged level are counted at
//!   that level, with the first instruction there: the stack is the supervisor's, and "accesses made
//!   while CPL = 3 are user-mode accesses" (Intel SDM volume 3A, "Determination of Access Rights"),
//!   which would fault on it.
//! * Each retired instruction, each further iteration of a REP and each delivered exception or
//!   interrupt takes cycles: one with [`CycleCosts::FLAT`]; where a pipeline keeps the time ([`Timing`]),
//!   those until it has retired. Cycles in which the processor is halted are not counted.

mod asking;
mod cycles;
mod interleaved;
mod model;
mod open;
mod outside;
mod quiet;
mod recorded;
mod slices;
mod state;
mod stretch;
mod threads;
mod timing;
mod traced;
mod vcpu;

use pmu_model::{Demand, Pmis, Pmu, Tier};
use uarch::bus::Traffic;
use uarch::part::Part;
use x86_cpu::block::{Translated, Translations};
use x86_cpu::bus::{Bus, Uncounted};
use x86_cpu::cpu::Cpu;
use x86_cpu::observe::{Counting, Cx, LastStep, Observer, Plain};
use x86_cpu::ram::Ram;
use x86_cpu::run::Exit;
use x86_cpu::timing::{Budget, CycleCosts};

use self::asking::Asking;
use self::model::{Cache, Detail, Modelling};
use self::open::Open;
use self::outside::Outside;
use self::quiet::Quiet;
use self::recorded::Recorded;
pub(crate) use self::slices::Slices;
pub(crate) use self::state::SoftState;
pub use self::state::VcpuState;
pub(crate) use self::stretch::fact;
pub(crate) use self::threads::Next;
pub use self::timing::{Timing, Warm};
pub use self::vcpu::Vcpu;
use self::vcpu::{Siblings, headroom};
use super::{Board, Limit, Outcome};
use crate::boot::memory::RamLayout;
use crate::irq::Pending;
use crate::processor_set::ProcessorSet;
use crate::stop::Stop;
use crate::truth::record::{Blocks, Recorder};

/// The most cycles between two checks whether the run is to end. A whole slice may take tenths of a
/// second where each instruction takes a microsecond of the host's time or is translated anew.
const STRIDE: u64 = 16_384;

/// In how much detail counted execution is observed.
pub const TIER: Tier = Tier::Microarchitecture;

/// For a delivery, which is one step and ends by itself.
const UNLIMITED: Budget = Budget::until(u64::MAX);

/// The translated code of a machine.
pub struct Soft {
    plain: Translations<Plain>,
    counting: Translations<Counting>,
    /// The models of micro-architecture, if the processor has any.
    modelling: Option<Modelling>,
    /// Whose clock virtual time is, and when the models are warm.
    timing: Timing,
    warm: Warm,
    /// What the processors that do not run ask for of the models, and whether one of them counts.
    others: Detail,
    others_count: bool,
    /// What every processor's counters ask for.
    asking: Asking,
    /// Who has executed HLT, which is yet to issue.
    halting: ProcessorSet,
    /// Up to when threads of a core may be apart, as they have not taken turns instruction by instruction for all that
    /// time.
    apart_until: u64,
    /// Where threads take turns, each instruction is looked at, and those that go in step wait a cycle at a time: for
    /// tests, which compare.
    pub(crate) looks_at_each: bool,
    /// The recorder of everything that is executed, and the code translated for it; `None` while
    /// nothing is recorded.
    recording: Option<Recording>,
    /// What was translated for recordings that have ended.
    translated_for_recordings: Translated,
    /// Ends each run early when it is requested.
    stop: Option<Stop>,
}

/// A processor, and what its execution may read or change.
struct Running<'a, 'b> {
    vcpu: &'a mut Vcpu,
    siblings: &'a mut Siblings<'b>,
    board: &'a mut Board,
    ram: &'a Ram,
}

impl Soft {
    /// An engine without translated code, for a guest with `ram` bytes of RAM.
    ///
    /// The code translated for plain execution may take an eighth of `ram` in the host, but no less
    /// than 16 MiB and no more than 128 MiB; the code translated for counted execution as much again.
    #[must_use]
    pub fn new(ram: u64, cycle_costs: CycleCosts) -> Self {
        let budget = (ram / 8).clamp(16 << 20, 128 << 20) as usize;
        Self {
            plain: Translations::with_budget(budget).with_cycle_costs(cycle_costs),
            counting: Translations::with_budget(budget).with_cycle_costs(cycle_costs),
            modelling: None,
            timing: Timing::Auto,
            warm: Warm::Counting,
            others: Detail::default(),
            others_count: false,
            asking: Asking::default(),
            halting: ProcessorSet::default(),
            apart_until: 0,
            looks_at_each: false,
            recording: None,
            translated_for_recordings: Translated::default(),
            stop: None,
        }
    }

    /// Has virtual time follow this clock, and the models be told of execution then.
    pub fn set_timing(&mut self, timing: Timing, warm: Warm) {
        self.timing = timing;
        self.warm = warm;
    }

    /// Has the models of a part see what these processors, with `ram`, do while a counter counts what
    /// the models tell.
    pub(crate) fn model(&mut self, part: &'static Part, vcpus: &[Vcpu], ram: &RamLayout) {
        self.modelling = Some(Modelling::new(part, vcpus, ram, &self.counting));
    }

    /// Records all execution from now on.
    pub fn record(&mut self, recorder: Recorder) {
        self.recording = Some(Recording {
            recorder: Box::new(recorder),
            translations: Box::new(self.counting.empty()),
            modelled: Box::new(self.counting.empty()),
            timed: Box::new(model::timed(&self.counting)),
        });
    }

    /// Whether anything is recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Ends the recording and gives back the recorder; `None` if nothing was recorded.
    pub fn recorded(&mut self) -> Option<Recorder> {
        let recording = self.recording.take()?;
        let translated = recording.translated();
        self.translated_for_recordings = self.translated_for_recordings + translated;
        Some(*recording.recorder)
    }

    /// Has each run from now on end early when `stop` is requested.
    pub fn set_stop(&mut self, stop: &Stop) {
        self.stop = Some(stop.clone());
    }

    /// Does `act` with processor `id`, which is not counted. `None` if there is no such processor.
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

    /// How many blocks of code there are that were translated for plain and counted execution.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.plain.len() + self.counting.len()
    }

    /// How many blocks it has translated so far, for plain, counted and recorded execution, and how many
    /// of them it dropped because code was overwritten.
    #[must_use]
    pub fn translated(&self) -> Translated {
        let recording = self.recording.as_ref().map(Recording::translated);
        let recordings = self.translated_for_recordings + recording.unwrap_or_default();
        let modelled = self
            .modelling
            .as_ref()
            .map(|modelling| modelling.translations.translated() + modelling.timed.translated());
        let modelled = modelled.unwrap_or_default();
        self.plain.translated() + self.counting.translated() + modelled + recordings
    }

    /// Drops all translated code, since guest memory may have been written anywhere without a note to
    /// [`Ram`].
    pub fn forget(&mut self) {
        self.plain.forget();
        self.counting.forget();
        if let Some(modelling) = &mut self.modelling {
            modelling.translations.forget();
            modelling.timed.forget();
        }
        if let Some(recording) = &mut self.recording {
            recording.translations.forget();
            recording.modelled.forget();
            recording.timed.forget();
        }
    }

    /// Takes notice of what the counters of a processor ask for. Of the processors of the core that it
    /// runs, the engine does so by itself; else whoever changes a PMU has it do so.
    pub(crate) fn look_at(&mut self, vcpu: &Vcpu) {
        let asked =
            self.modelling.as_ref().map(|modelling| modelling.asked_by(&vcpu.pmu, self.timing));
        self.asking.note(vcpu, asked.unwrap_or_default());
    }

    /// Whether a counter of any processor is enabled, or a PMI is on its way to a local APIC.
    pub(crate) fn is_counting(&self) -> bool {
        self.asking.is_counting()
    }

    /// For tests that compare machines whose threads have waited in different pieces: whom the models were told of last
    /// follows from that.
    #[cfg(test)]
    pub(crate) fn forget_order(&mut self) {
        let modelling = self.modelling.as_mut();
        if let Some(modelling) = modelling.filter(|modelling| modelling.is_multithreaded()) {
            modelling.forget_order();
        }
    }

    /// The part, while models see what cores do to each other's caches.
    pub(crate) fn sees_sharing(&self) -> Option<&'static Part> {
        let modelling = self.modelling.as_ref()?;
        let (asked, counts) = self.asking.by_all();
        self.detail(modelling, asked, counts).models.then(|| modelling.part())
    }

    /// What the models have seen processors ask for of memory, of devices and of the caches of other cores since the last
    /// call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        self.modelling.as_mut().map_or(Traffic::None, Modelling::take_traffic)
    }

    /// Runs processor `id` until `limit`, or until one of the other reasons in [`Outcome`].
    pub fn run(
        &mut self,
        vcpus: &mut [Vcpu],
        id: usize,
        board: &mut Board,
        ram: &Ram,
        limit: Limit,
    ) -> Outcome {
        let interleaves = self.interleaves();
        let threads_per_core = usize::from(board.platform.threads_per_core);
        // What one processor does moves lines in the caches of all.
        (self.others, self.others_count) = self.asking.by_others(id);
        let Some((vcpu, mut siblings)) = Siblings::split(vcpus, id, threads_per_core) else {
            return Outcome::Complete;
        };
        let outcome = self.run_thread(vcpu, &mut siblings, board, ram, limit, interleaves);
        self.look_at(vcpu);
        siblings.iter().for_each(|sibling| self.look_at(sibling));
        // They take turns, or the last instruction has begun that: the others' next ones are to know of it.
        let goes_on = self.interleaves();
        if goes_on && !interleaves {
            self.notice_apart(vcpus);
        }
        if self.timing != Timing::Flat && (interleaves || goes_on) {
            self.notice_in_step(vcpus, id, board, ram);
        }
        outcome
    }

    /// As [`Self::run`], the processor and its siblings being found.
    fn run_thread(
        &mut self,
        vcpu: &mut Vcpu,
        siblings: &mut Siblings<'_>,
        board: &mut Board,
        ram: &Ram,
        limit: Limit,
        interleaves: bool,
    ) -> Outcome {
        if interleaves {
            self.take_over();
            self.wait_until(Running { vcpu, siblings, board, ram }, 0);
        }
        let stop_at = vcpu.cpu.retired().saturating_add(limit.instructions);
        let began = vcpu.cpu.time;
        while vcpu.cpu.time < limit.time {
            if interleaves && vcpu.cpu.time != began && board.is_due(vcpu.cpu.time + 1) {
                // What a device does may wake another thread.
                return Outcome::HandsOver;
            }
            if self.stop.as_ref().is_some_and(Stop::is_requested) {
                return Outcome::Stopped;
            }
            if vcpu.cpu.has_watch_hit() || board.stops_at_act() {
                return Outcome::Debugger;
            }
            let deadline = board.catch_up(vcpu.cpu.time);
            if interleaves && vcpu.cpu.time != began {
                self.notice_deadline(vcpu.id, deadline.max(vcpu.cpu.time + 1));
            }
            vcpu.receive(board, vcpu.cpu.time);
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
                vcpu.sleep_until(until);
                continue;
            }
            let pending = board.chipset.irq.pending(vcpu.id);
            let taken = match pending.any() {
                true => self.take_interrupt(Running { vcpu, siblings, board, ram }, pending),
                false => Taken::Nothing,
            };
            if taken == Taken::Shutdown {
                return Outcome::Shutdown;
            }
            if interleaves {
                let sent = board.chipset.irq.depart(vcpu.cpu.time, board.platform.ipi_latency);
                if sent || self.hands_over() {
                    return Outcome::HandsOver;
                }
            }
            if vcpu.cpu.halted {
                vcpu.sleep_until(until);
                continue;
            }
            let irq = &board.chipset.irq;
            if taken == Taken::Delivered && (vcpu.takes(irq.pending(vcpu.id)) || irq.has_signals())
            {
                // Its delivery made a counter overflow, for one: between it and the handler is an instruction boundary
                // as any other.
                continue;
            }
            let instructions = stop_at.saturating_sub(vcpu.cpu.retired());
            if instructions == 0 {
                return Outcome::InstructionLimit;
            }
            if vcpu.cpu.stops_here() || board.stops_at_act() {
                return Outcome::Debugger;
            }
            // Not so far from wherever this run began, which may be where another was cut off.
            let stride = until.min((vcpu.cpu.time / STRIDE + 1).saturating_mul(STRIDE));
            let mut budget = Budget { instructions, ..Budget::until(stride) };
            if interleaves && self.goes_in_step(vcpu, siblings) {
                budget.steps = 1;
            }
            vcpu.cpu.leaves_at_pause = limit.at_pause;
            let exit = self.step(Running { vcpu, siblings, board, ram }, budget);
            let sent = board.chipset.irq.depart(vcpu.cpu.time, board.platform.ipi_latency);
            match exit {
                Exit::Shutdown => return Outcome::Shutdown,
                Exit::Pause => return Outcome::Yielded,
                _ if sent && limit.at_send => return Outcome::Yielded,
                _ if interleaves
                    && (sent
                        || self.hands_over()
                        || self.goes_in_step(vcpu, siblings)
                        || !board.chipset.irq.stirred().is_empty()) =>
                {
                    // What a device has done at once wakes another thread as well.
                    return Outcome::HandsOver;
                }
                _ if !interleaves && self.begins_to_interleave(&vcpu.pmu) => {
                    return Outcome::Interleaves;
                }
                _ => {}
            }
        }
        Outcome::Complete
    }

    /// Runs instructions within `limit`, until one of the reasons in [`Exit`], or until a counter may have
    /// overflowed.
    fn step(&mut self, running: Running<'_, '_>, mut limit: Budget) -> Exit {
        let vcpu = &mut *running.vcpu;
        let pending = running.board.chipset.irq.pending(vcpu.id);
        let time = vcpu.cpu.time;
        if let Some(&at) = vcpu.late.front() {
            limit.instructions = limit.instructions.min(at.saturating_sub(vcpu.cpu.retired()));
        }
        if pending.any() && vcpu.cpu.interrupt_shadow() {
            limit.steps = limit.steps.min(1);
        }
        vcpu.cpu.interrupt_waits = pending.any();
        limit.until = limit.until.min(running.siblings.begin_to_count(time));
        let demand = running.siblings.demand(time).with(vcpu.pmu.demand());
        vcpu.observe(&demand);
        let mut counted = limit;
        if demand.counting {
            counted = counted.min(headroom(&vcpu.pmu, &demand, time));
            counted = counted.min(running.siblings.headroom(&demand, time));
        }
        self.observe(running, &demand, limit, pending, Run(counted))
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
        if let Some(tracer) = &mut board.tracer {
            tracer.takes(vcpu.id, vcpu.cpu.place(), vector, &board.chipset.irq);
        }
        vcpu.cpu.halted = false;
        // The interrupt is no longer pending. The delivery is counted as if no other one were either,
        // which matters to the cycles of the delivery alone.
        let pending = Pending::default();
        let demand = running.siblings.demand(running.vcpu.cpu.time);
        let demand = demand.with(running.vcpu.pmu.demand());
        self.observe(running, &demand, UNLIMITED, pending, Deliver(vector))
    }

    /// Does `act` with a processor, in as much detail as counters and recorder ask for.
    fn observe<A: Act>(
        &mut self,
        running: Running<'_, '_>,
        demand: &Demand,
        limit: Budget,
        pending: Pending,
        act: A,
    ) -> A::Outcome {
        let models = self.take_models(&running.vcpu.pmu, demand);
        if let Some(recording) = self.recording.take() {
            let (outcome, recording) = match models {
                Some(models) => {
                    let (outcome, recording, modelling) =
                        recording.modelled(running, demand, limit, pending, models, act);
                    self.modelling = Some(modelling);
                    (outcome, recording)
                }
                None => recording.recorded(running, demand, limit, pending, act),
            };
            self.recording = Some(recording);
            outcome
        } else if let Some((mut modelling, detail)) = models {
            let Running { vcpu, siblings, board, ram } = running;
            let cache = if detail.keeps_time { Cache::Timed } else { Cache::Models };
            modelling.begin(vcpu, siblings, board, detail, cache);
            let running = Running { vcpu: &mut *vcpu, siblings, board, ram };
            let observer = modelling.observer.lend();
            let blocks = match detail.keeps_time {
                true => &mut *modelling.timed,
                false => &mut *modelling.translations,
            };
            let act = |cpu: &mut Cpu, cx: &mut Cx<'_, _>| act.act(cpu, cx, blocks);
            let (outcome, observer) = observed(running, demand, limit, pending, observer, act);
            modelling.observer.take_back(observer);
            modelling.end(vcpu);
            self.modelling = Some(modelling);
            outcome
        } else if demand.counting {
            let act = |cpu: &mut Cpu, cx: &mut Cx<'_, _>| act.act(cpu, cx, &mut self.counting);
            observed(running, demand, limit, pending, Counting::default(), act).0
        } else {
            let act = |cpu: &mut Cpu, cx: &mut Cx<'_, _>| act.act(cpu, cx, &mut self.plain);
            observed(running, demand, limit, pending, Plain, act).0
        }
    }

    /// The models, if what is about to run is told to any, and to which.
    fn take_models(&mut self, pmu: &Pmu, demand: &Demand) -> Option<(Modelling, Detail)> {
        let modelling = self.modelling.as_ref()?;
        let asked = self.others.with(modelling.asked_by(pmu, self.timing));
        let detail = self.detail(modelling, asked, demand.counting || self.others_count);
        let is_told = detail.models;
        Some((self.modelling.take_if(|_| is_told)?, detail))
    }

    /// What is told of execution if counters ask for this, and one of them counts.
    fn detail(&self, modelling: &Modelling, asked: Detail, counts: bool) -> Detail {
        let mut detail = asked;
        if let Some(Recording { recorder, .. }) = &self.recording {
            detail = detail.with(modelling.asked_for(recorder.asked_for()));
        }
        let is_warm = self.warm == Warm::Always;
        detail.models |= is_warm;
        if self.timing == Timing::Model && (counts || is_warm) {
            detail = Detail { models: true, pipelines: true, keeps_time: true };
        }
        // Threads that share caches and TLBs find there what the others have done by then.
        detail.pipelines |=
            detail.models && self.timing != Timing::Flat && modelling.is_multithreaded();
        detail.keeps_time = detail.pipelines && self.timing != Timing::Flat;
        detail
    }
}

/// What a processor is to do, whoever observes it.
trait Act {
    type Outcome;
    fn act<O: Observer>(
        self,
        cpu: &mut Cpu,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Self::Outcome;
}

/// It runs, so far.
struct Run(Budget);

impl Act for Run {
    type Outcome = Exit;

    #[inline(always)]
    fn act<O: Observer>(
        self,
        cpu: &mut Cpu,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Exit {
        cpu.run(cx, translations, self.0)
    }
}

/// It takes an interrupt, or an NMI if there is no vector.
struct Deliver(Option<u8>);

impl Act for Deliver {
    type Outcome = Taken;

    fn act<O: Observer>(
        self,
        cpu: &mut Cpu,
        cx: &mut Cx<'_, O>,
        translations: &mut Translations<O>,
    ) -> Taken {
        // Whatever keeps the time now, another clock may have done so when it ran last.
        cpu.cycle_costs = translations.cycle_costs;
        let result = match self.0 {
            Some(vector) => cpu.interrupt(cx, vector),
            None => cpu.nmi(cx),
        };
        if result.is_ok() { Taken::Delivered } else { Taken::Shutdown }
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

/// A recording, and the code translated for it: where only the recorder sees it, and where the models do as
/// well. It is moved as [`Modelling`] is.
struct Recording {
    recorder: Box<Recorder>,
    translations: Box<Translations<Box<Recorder>>>,
    modelled: Box<Translations<Recorded>>,
    /// The same as the last where pipelines keep the time.
    timed: Box<Translations<Recorded>>,
}

impl Recording {
    fn translated(&self) -> Translated {
        let Self { translations, modelled, timed, .. } = self;
        translations.translated() + modelled.translated() + timed.translated()
    }

    /// Does `act` with a processor as [`observed`] does, and records it.
    fn recorded<A: Act>(
        self,
        running: Running<'_, '_>,
        demand: &Demand,
        limit: Budget,
        pending: Pending,
        act: A,
    ) -> (A::Outcome, Self) {
        let Self { mut recorder, mut translations, modelled, timed } = self;
        let Running { vcpu, siblings, board, ram } = running;
        recorder.begin(vcpu.id, &vcpu.cpu, Blocks::Alone);
        let before = vcpu.pmu.programmings();
        let running = Running { vcpu: &mut *vcpu, siblings, board, ram };
        let act = |cpu: &mut Cpu, cx: &mut Cx<'_, _>| act.act(cpu, cx, &mut translations);
        let (outcome, mut recorder) = observed(running, demand, limit, pending, recorder, act);
        recorder.end(&vcpu.cpu, &vcpu.pmu, vcpu.pmu.programmings() != before);
        (outcome, Self { recorder, translations, modelled, timed })
    }

    /// The same, and has the models see it.
    fn modelled<A: Act>(
        self,
        running: Running<'_, '_>,
        demand: &Demand,
        limit: Budget,
        pending: Pending,
        (mut modelling, detail): (Modelling, Detail),
        act: A,
    ) -> (A::Outcome, Self, Modelling) {
        let Self { mut recorder, translations, mut modelled, mut timed } = self;
        let Running { vcpu, siblings, board, ram } = running;
        let (cache, blocks, of_both) = match detail.keeps_time {
            true => (Cache::RecordedAndTimed, Blocks::Timed, &mut *timed),
            false => (Cache::Recorded, Blocks::Modelled, &mut *modelled),
        };
        modelling.begin(vcpu, siblings, board, detail, cache);
        modelling.log(vcpu.id, recorder.signals());
        recorder.begin(vcpu.id, &vcpu.cpu, blocks);
        let before = vcpu.pmu.programmings();
        let running = Running { vcpu: &mut *vcpu, siblings, board, ram };
        let observer = Recorded { recorder, models: modelling.observer.lend() };
        let act = |cpu: &mut Cpu, cx: &mut Cx<'_, _>| act.act(cpu, cx, of_both);
        let (outcome, observer) = observed(running, demand, limit, pending, observer, act);
        let Recorded { mut recorder, models } = observer;
        recorder.end(&vcpu.cpu, &vcpu.pmu, vcpu.pmu.programmings() != before);
        modelling.observer.take_back(models);
        modelling.end(vcpu);
        (outcome, Self { recorder, translations, modelled, timed }, modelling)
    }
}

/// Does `act` with a processor and counts what the observer saw. `limit` is how far the run may go
/// when an instruction in it disables the counters. Gives the observer back.
fn observed<O: Observer, T>(
    mut running: Running<'_, '_>,
    demand: &Demand,
    limit: Budget,
    pending: Pending,
    mut observer: O,
    act: impl FnOnce(&mut Cpu, &mut Cx<'_, O>) -> T,
) -> (T, O) {
    let Running { vcpu, siblings, .. } = &mut running;
    let (since, steps_are_bounded) = (vcpu.cpu.time, limit.steps != u64::MAX);
    let mut open =
        Open::new(vcpu, siblings, demand, since, pending, steps_are_bounded, &mut observer);
    let (result, observer, ..) =
        observed_from(&mut open, running, limit, observer, act, |_, _, _| false);
    (result, observer)
}

/// The same of what is `open`, unless what came of `act`, whether it did anything that others than the processor may
/// notice, beside what it did to memory, and the processor are such that it stays open. Both of these as well: whether it
/// did, and whether it does.
#[inline(always)]
fn observed_from<O: Observer, T>(
    open: &mut Open,
    running: Running<'_, '_>,
    limit: Budget,
    observer: O,
    act: impl FnOnce(&mut Cpu, &mut Cx<'_, O>) -> T,
    stays_open: impl FnOnce(&T, bool, &Cpu) -> bool,
) -> (T, O, bool, bool) {
    let Running { vcpu, siblings, board, ram } = running;
    let mut outside = Outside {
        id: vcpu.id,
        board,
        pmu: &mut vcpu.pmu,
        bank: &mut vcpu.bank,
        tsc_offset: &mut vcpu.tsc_offset,
        siblings,
        open,
        last_step: LastStep::EndsTheCycles,
        cycles: &mut vcpu.cycles,
        limit: limit.until,
        retire_limit: vcpu.cpu.retired().saturating_add(limit.steps.min(limit.instructions)),
        steps_are_bounded: limit.steps != u64::MAX,
        counts: &mut vcpu.counts,
        late: &mut vcpu.late,
        quiet: Quiet::default(),
        programmed: false,
        programs_still: &mut vcpu.programs_still,
        overflowed: Pmis::NONE,
        overflowed_within: false,
        acted: false,
        place: vcpu.cpu.place(),
    };
    let mut cx = Cx { bus: &mut outside, ram, observer };
    let result = act(&mut vcpu.cpu, &mut cx);
    let Cx { mut observer, .. } = cx;
    if stays_open(&result, outside.acted, &vcpu.cpu) {
        return (result, observer, outside.acted, true);
    }
    let Open { demand, waits, programmings, .. } = *outside.open;
    outside.place = vcpu.cpu.place();
    outside.last_step = observer.last_step();
    if demand.counting
        && let Some(observed) = observer.observed()
    {
        let (time, retired) = (vcpu.cpu.time, vcpu.cpu.retired());
        let alike = vcpu.cpu.take_alike();
        if !waits {
            vcpu.inner = std::mem::take(&mut observed.facts.inner);
            if (time, retired) == outside.open.since {
                // The first instruction is yet to come: there may have been one that did not retire, whose exception
                // has added to what waits.
                let (facts, inner) = (&mut *observed.facts, outside.open.inner);
                let stores = inner.stores.min(facts.stores);
                let misaligned = inner.misaligned.min(facts.misaligned);
                facts.stores -= stores;
                facts.misaligned -= misaligned;
                vcpu.inner.stores += stores;
                vcpu.inner.misaligned += misaligned;
            }
        }
        let pmis = std::mem::replace(&mut outside.overflowed, Pmis::NONE);
        outside.trace_overflows(pmis);
        outside.raise(pmis, retired);
        outside.update_counters(Uncounted { observed, time, retired, alike });
    }
    let acted = outside.acted;
    if !demand.counting {
        let pending = outside.board.chipset.irq.pending(outside.id);
        let is_over = outside.last_step != LastStep::IsNotOver;
        let programs_still = !is_over && vcpu.pmu.programmings() != programmings;
        vcpu.programs_still = programs_still.then(|| vcpu.pmu.begun_anew());
        // The run may have gone through all levels. What its last instruction has yet to wait for is of where that was,
        // if it has programmed a counter.
        vcpu.counted_under = Some(vcpu.counting_context(pending));
    }
    (result, observer, acted, false)
}

#[cfg(test)]
mod long_mode_tests;
#[cfg(test)]
mod skid_tests;
#[cfg(test)]
mod steps_tests;
#[cfg(test)]
mod threads_tests;
