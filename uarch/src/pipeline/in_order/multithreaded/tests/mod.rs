//! Tests of the multithreaded core with the figures of Knights Corner.

mod figures;
mod generated;
mod instructions;
mod oracle;
mod threads;
mod vectors;

use std::collections::BTreeMap;

use pmu_model::Signal;

use super::{Core, Execution, Instruction, THREADS, Turn};
use crate::{occurrences::Occurrences, part::knc_pipeline::KNC};

/// What a thread does next.
#[derive(Clone, Debug)]
struct Step {
    what: What,
    execution: Execution,
    /// If it halts: clocks from its issue until the thread executes again.
    out: Option<Out>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Executes(Instruction),
    /// An exception or an interrupt is delivered.
    Delivery,
}

/// The thread halts.
#[derive(Clone, Copy, Debug)]
struct Out {
    clocks: u64,
    /// Its pipeline is empty behind that.
    empties: bool,
}

/// What became of a thread's program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Course {
    /// The cycle that each step issued in.
    issued: Vec<u64>,
    fired: BTreeMap<Signal, u64>,
}

impl Step {
    fn new(instruction: Instruction) -> Self {
        Self { what: What::Executes(instruction), execution: Execution::default(), out: None }
    }

    /// The same with what happened.
    fn with(self, execution: Execution) -> Self {
        Self { execution, ..self }
    }
}

/// Executes a program on each thread, all from cycle 0 on. Whenever the core asks for something,
/// instructions of these threads are brought ahead, if they have any that can be. Ahead of any instruction, its
/// thread may leave and come back.
fn run_ahead(
    programs: &[Vec<Step>],
    mut ahead: impl FnMut() -> Vec<usize>,
    mut leaves: impl FnMut() -> bool,
) -> Vec<Course> {
    let mut core = Core::new(&KNC);
    let mut occurrences = vec![Occurrences::default(); THREADS];
    let mut courses = vec![Course::default(); programs.len()];
    // Instructions that were brought, by thread, and whether the last is held.
    let mut brought = vec![0; programs.len()];
    (0..programs.len()).for_each(|thread| core.start(thread, 0));
    while let Some(turn) = core.next() {
        let mut early = ahead().into_iter().filter(|&thread| {
            thread < programs.len()
                && core.runs(thread)
                && courses[thread].issued.len() == brought[thread]
                && brought[thread] < programs[thread].len()
        });
        let thread = match turn {
            Turn::Bring(thread) => early.next_back().unwrap_or(thread),
            Turn::Issue(thread) => match early.next_back() {
                Some(early) => early,
                None => {
                    let at = core.issue(thread, &mut occurrences[thread], &mut [0; 3]);
                    courses[thread].issued.push(at);
                    let step = &programs[thread][brought[thread] - 1];
                    if let Some(Out { clocks, empties }) = step.out {
                        if empties {
                            core.start(thread, at + clocks);
                        } else {
                            core.resume(thread, at + clocks);
                        }
                    }
                    continue;
                }
            },
        };
        let Some(step) = programs[thread].get(brought[thread]) else {
            core.stop(thread);
            continue;
        };
        brought[thread] += 1;
        if leaves() {
            core.leave(thread);
            core.come_back(thread, 0);
        }
        match &step.what {
            What::Delivery => core.deliver(thread, &mut occurrences[thread]),
            What::Executes(instruction) => {
                let occurrences = &mut occurrences[thread];
                let joined = core.bring(thread, occurrences, instruction, &step.execution);
                courses[thread].issued.extend(joined);
            }
        }
    }
    for (course, occurrences) in courses.iter_mut().zip(&mut occurrences) {
        for &signal in Signal::ALL {
            let fired = occurrences.fired()[signal.index()];
            if fired != 0 {
                course.fired.insert(signal, fired);
            }
        }
    }
    courses
}

/// The same with nothing ahead.
fn run(programs: &[Vec<Step>]) -> Vec<Course> {
    run_ahead(programs, Vec::new, || false)
}

/// One program alone.
fn alone(program: &[Step]) -> Course {
    run(&[program.to_vec()]).remove(0)
}

/// In which cycles the steps of a program alone issue, from that of the first.
fn cycles(program: &[Step]) -> Vec<u64> {
    from_first(&alone(program))
}

/// In which cycles the steps of a program issued, from that of the first.
fn from_first(course: &Course) -> Vec<u64> {
    course.issued.iter().map(|at| at - course.issued[0]).collect()
}

impl Course {
    fn count(&self, signal: Signal) -> u64 {
        self.fired.get(&signal).copied().unwrap_or(0)
    }
}
