//! Turns of one instruction each that does nothing beyond registers and memory: most of them, so that no more is done
//! for each than has to be.

use std::cell::Cell;

use uarch::pipeline::in_order::multithreaded::THREADS;
use x86_cpu::bus::{After, Bus, CpuidResult, RdpmcRequest, Refused, Uncounted};
use x86_cpu::observe::Cx;
use x86_cpu::ram::Ram;
use x86_cpu::run::{Bookmark, Midway, Step};
use x86_cpu::watch::Watch;

use super::Turns;
use crate::engine::Board;
use crate::engine::soft::model::Modelling;
use crate::engine::soft::model::interleaved::go_on_with;
use crate::engine::soft::vcpu::Vcpu;

/// Threads of a core that take such turns, of which what was executed before is open.
pub(super) struct Steps<'a> {
    pub(super) of_core: &'a mut [Vcpu],
    pub(super) turns: &'a [Turns; THREADS],
    pub(super) board: &'a mut Board,
    pub(super) ram: &'a Ram,
    /// Nothing begins at this time or later.
    pub(super) until: u64,
    /// The most instructions that retire.
    pub(super) most: u64,
}

/// A thread that takes steps.
struct Lane {
    midway: Midway,
    /// It takes none at this time or later.
    until: u64,
    has_begun: bool,
}

impl Lane {
    fn new(turns: &Turns, until: u64) -> Self {
        let until = match turns {
            Turns::Counted => 0,
            Turns::Open { until: stride, .. } => until.min(*stride),
        };
        Self { midway: Midway::default(), until, has_begun: false }
    }
}

/// What has become of such turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The processor whose was the last; `None` if there was none.
    pub(super) last: Option<usize>,
    /// How many instructions have retired.
    pub(super) retired: u64,
    /// Why there are no more.
    pub(super) end: StepsEnd,
}

/// Why there are no more such turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepsEnd {
    /// The next one takes more than a step, or comes too late.
    TakesMore,
    /// Whose turn comes next is not known.
    NobodyIsNext,
    /// The last thread's run is to end, and its turn has not; or it has stopped before an instruction that has done
    /// something beyond registers and memory.
    Leaves,
}

impl Steps<'_> {
    /// Has processor `next` take its turn, once its time has passed up to `due`, and others as theirs come: up to a turn
    /// that takes more than a step.
    pub(super) fn take(self, modelling: &mut Modelling, mut next: usize, mut due: u64) -> Taken {
        let Self { of_core, turns, board, ram, until, most } = self;
        let running = Cell::new(next);
        let mut beyond = Beyond { board, running: &running };
        let mut cx = Cx { bus: &mut beyond, ram, observer: modelling.observer.lend() };
        let Modelling { timed, bookmarks, .. } = &mut *modelling;
        let mut lanes: [Lane; THREADS] = std::array::from_fn(|n| Lane::new(&turns[n], until));
        let first = of_core.first().map_or(0, |vcpu| vcpu.id);
        let mut taken = Taken { last: None, retired: 0, end: StepsEnd::TakesMore };
        while taken.retired < most {
            let thread = next - first;
            let (Some(vcpu), Some(lane)) = (of_core.get_mut(thread), lanes.get_mut(thread)) else {
                break;
            };
            if vcpu.cpu.time.max(due) >= lane.until {
                break;
            }
            // A step leaves a thread where its time is, so that this holds until it does something else.
            if !lane.has_begun {
                if cx.observer.watch.is_ahead(vcpu) {
                    break;
                }
                lane.has_begun = true;
                lane.midway = bookmarks[next].find(&mut vcpu.cpu, timed);
            }
            running.set(next);
            go_on_with(&mut cx.observer, next);
            cx.observer.watch.go_on(vcpu, due);
            let step = vcpu.cpu.take_step(&mut cx, timed, &mut lane.midway);
            #[cfg(test)]
            super::tests::note(|ends| {
                ends.not_steps += u32::from(step == Step::NotTaken);
                ends.stopped += u32::from(step == Step::Stopped);
                ends.left += u32::from(step == Step::Left);
            });
            if step == Step::NotTaken {
                break;
            }
            let model = &mut cx.observer.watch;
            if !model.hands_over {
                vcpu.cpu.pass(model.take_cycles());
            }
            taken.last = Some(next);
            taken.retired += u64::from(step != Step::Stopped);
            let (turn, hands_over) = (model.hand_over(), model.hands_over);
            if step == Step::Stopped || step == Step::Left && !hands_over {
                taken.end = StepsEnd::Leaves;
                break;
            }
            let Some(turn) = turn else {
                taken.end = StepsEnd::NobodyIsNext;
                break;
            };
            if step != Step::Retired {
                break;
            }
            (next, due) = turn;
        }
        for ((vcpu, lane), bookmark) in of_core.iter().zip(&lanes).zip(&mut bookmarks[first..]) {
            if lane.has_begun {
                *bookmark = Bookmark::new(&vcpu.cpu, lane.midway);
            }
        }
        modelling.observer.take_back(cx.observer);
        taken
    }
}

/// What is beyond registers and memory, for instructions that do not get there: only whether a device is in the place of
/// memory is asked for, and x87 exceptions that are reported by FERR#.
struct Beyond<'a> {
    board: &'a mut Board,
    running: &'a Cell<usize>,
}

/// Such an instruction is not executed in a step.
fn unreached<T>(answer: T) -> T {
    debug_assert!(false, "a step reached beyond memory");
    answer
}

impl Bus for Beyond<'_> {
    fn claims(&self, gpa: u64) -> bool {
        self.board.chipset.claims_mmio(self.running.get(), gpa)
    }

    fn mmio_read(&mut self, _: u64, _: u64, _: usize) -> u64 {
        unreached(u64::MAX)
    }

    fn mmio_write(&mut self, _: u64, _: u64, _: usize, _: u64) {
        unreached(());
    }

    fn io_read(&mut self, _: u64, _: u16, _: usize) -> u32 {
        unreached(u32::MAX)
    }

    fn io_write(&mut self, _: u64, _: u16, _: usize, _: u32) {
        unreached(());
    }

    fn rdmsr(&mut self, _: u64, _: u32, _: u32, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        unreached(Err(Refused))
    }

    fn wrmsr(
        &mut self,
        _: u64,
        _: u64,
        _: u32,
        _: u64,
        _: u32,
        _: Option<Uncounted<'_>>,
    ) -> Result<After, Refused> {
        unreached(Err(Refused))
    }

    fn rdpmc(&mut self, _: RdpmcRequest, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        unreached(Err(Refused))
    }

    fn cpuid(&mut self, _: u32, _: u32) -> CpuidResult {
        unreached(CpuidResult::default())
    }

    fn tsc(&mut self, time: u64) -> u64 {
        unreached(time)
    }

    fn cr8(&mut self) -> u8 {
        unreached(0)
    }

    fn set_cr8(&mut self, _: u64, _: u8) {
        unreached(());
    }

    /// The instruction stops before it executes.
    fn ferr(&mut self) {
        self.board.chipset.assert_ferr();
    }
}
