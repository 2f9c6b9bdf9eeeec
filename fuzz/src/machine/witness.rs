//! The second model of the PMU beside a machine that executes one instruction at a time: it is told what retires and
//! which registers are accessed, and says what they hold.

use pmu_model::MsrAccess;
use vpmu::machine::Machine;

use super::agent::{
    Agent, BEHIND_GATE, BEHIND_REFUSAL, GATE, HANDLER_READS, HANDLER_WRITES, Routine,
};
use crate::fact::Fact;
use crate::reference::counting::For;
use crate::reference::registers::{Kind, Part};
use crate::reference::{Outcome, Reader, Reference};

/// Knights Corner's `IA32_PERF_GLOBAL_STATUS`.
const STATUS: u32 = 0x2D;
/// What the witness tells the model of, but for exceptions and interrupts that did not happen.
const FACTS: [Fact; 3] = [Fact::InsnRetired, Fact::InterruptTaken, Fact::ExceptionTaken];

/// What an instruction is about to do.
#[derive(Clone, Copy, Debug)]
enum Access {
    Read { msr: u32 },
    Write { msr: u32, value: u64 },
    ReadCounter { index: u32, reader: Reader },
    Prefer(bool),
}

/// The model, and what is known of the machine before an instruction.
pub(super) struct Witness {
    part: Part,
    reference: Reference,
    /// Of each counter, whether the model knows what it holds.
    known: [bool; 4],
    /// Whether it knows which counters have overflowed.
    status_known: bool,
    /// Where the agent accesses registers, and how.
    places: Vec<(u64, Routine)>,
    /// Where exceptions and interrupts arrive, and the instruction behind that.
    gates: Vec<u64>,
    behind_gates: Vec<u64>,
    /// Of the latter, those of #UD and #GP.
    behind_refusals: Vec<u64>,
    access: Option<Access>,
    cpl: u8,
    retired: u64,
    /// INIT has ended the script: the processor is in real mode.
    is_over: bool,
}

impl Witness {
    /// At the door, where nothing is programmed yet.
    ///
    /// # Errors
    /// The agent has no such place.
    pub(super) fn new(part: Part, agent: &Agent) -> Result<Self, String> {
        let image = &agent.image;
        let mut places = Vec::new();
        for routine in [Routine::Rdmsr, Routine::Wrmsr, Routine::Rdpmc, Routine::Spflt] {
            places.extend(agent.places(routine).map(|at| (at.into(), routine)));
        }
        for (name, as_by) in [(HANDLER_WRITES, Routine::Wrmsr), (HANDLER_READS, Routine::Rdpmc)] {
            let at = image.symbol(name).ok_or_else(|| format!("the agent has no {name}"))?;
            places.push((at, as_by));
        }
        let of = |wanted: &str| {
            let named = image.symbols.iter().filter(|(name, _)| name == wanted);
            named.map(|&(_, at)| at).collect()
        };
        Ok(Self {
            part,
            reference: Reference::new(part),
            known: [true; 4],
            status_known: true,
            places,
            gates: of(GATE),
            behind_gates: of(BEHIND_GATE),
            behind_refusals: of(BEHIND_REFUSAL),
            access: None,
            cpl: 0,
            retired: 0,
            is_over: false,
        })
    }

    /// Looks at the instruction that comes.
    pub(super) fn before(&mut self, machine: &Machine) {
        let cpu = &machine.vcpus()[0].cpu;
        let rip = cpu.place().rip;
        let [eax, ecx, edx] = [0, 1, 2].map(|n| cpu.gpr(n) as u32);
        (self.cpl, self.retired) = (cpu.cpl(), machine.retired());
        let place = self.places.iter().find(|place| place.0 == rip);
        self.access = place.map(|&(_, routine)| match routine {
            Routine::Rdmsr => Access::Read { msr: ecx },
            Routine::Wrmsr => {
                Access::Write { msr: ecx, value: u64::from(edx) << 32 | u64::from(eax) }
            }
            Routine::Spflt => Access::Prefer(eax & 1 == 1),
            _ => {
                let pce = cpu.cr4() >> 8 & 1 == 1;
                let reader = Reader { cpl: self.cpl, pce, real_mode: false, code_16bit: false };
                Access::ReadCounter { index: ecx, reader }
            }
        });
    }

    /// Looks at what it did.
    ///
    /// # Errors
    /// What is not as the model has it.
    pub(super) fn after(&mut self, machine: &Machine) -> Result<(), String> {
        let cpu = &machine.vcpus()[0].cpu;
        self.is_over |= cpu.cr0() & 1 == 0;
        if self.is_over {
            return Ok(());
        }
        let rip = cpu.place().rip;
        let has_retired = machine.retired() > self.retired;
        let access = self.access.take();
        let answer = u64::from(cpu.gpr(2) as u32) << 32 | u64::from(cpu.gpr(0) as u32);
        // Where an interrupt came behind what retired, where that has led is on the stack.
        let is_interrupted = self.gates.contains(&rip);
        let behind = if is_interrupted { returns_to(machine)? } else { rip };
        if has_retired && self.behind_gates.contains(&behind) {
            // An exception or an interrupt came, and what retired was its handler's first instruction.
            if let Some(access) = access.filter(|_| self.behind_refusals.contains(&behind)) {
                self.access(access, None)?;
            }
            self.deliver();
            self.cpl = 0;
            self.retire();
            if is_interrupted {
                self.deliver();
            }
            return self.compare(machine);
        }
        let access = access.filter(|_| has_retired);
        let writes = matches!(access, Some(Access::Write { .. } | Access::Prefer(_)));
        // It is counted as it began, and reads what was counted before it.
        if has_retired && writes {
            self.retire();
        }
        if let Some(access) = access {
            self.access(access, Some(answer))?;
        }
        if has_retired && !writes {
            self.retire();
        }
        // Last: an access that makes a counter known comes before what it counts of the interrupt.
        if is_interrupted {
            self.deliver();
        }
        self.compare(machine)
    }

    /// One instruction, at the level at which it began.
    fn retire(&mut self) {
        self.reference.happen(0, For::Adders, &[(Fact::InsnRetired, 1)], self.cpl);
    }

    /// An exception or interrupt: at which level it counts is not asked here.
    fn deliver(&mut self) {
        let taken = [Fact::InterruptTaken, Fact::ExceptionTaken];
        for counter in 0..self.part.counters() {
            if taken.into_iter().any(|fact| self.reference.adds(counter, fact)) {
                (self.known[counter], self.status_known) = (false, false);
            }
        }
    }

    /// An access, with what the guest got; `None` is an exception.
    fn access(&mut self, access: Access, answer: Option<u64>) -> Result<(), String> {
        let (outcome, counter) = match access {
            // "If the current privilege level is not 0": #GP(0) (Intel SDM volume 2, RDMSR and WRMSR).
            Access::Read { .. } | Access::Write { .. } if self.cpl != 0 => (Outcome::Refused, None),
            Access::Read { msr } => (self.reference.read(msr), self.counter_of(msr)),
            Access::Write { msr, value } => {
                let outcome = self.reference.write(msr, value);
                if let Some(counter) = self.counter_of(msr) {
                    self.known[counter] = true;
                }
                // What is written is in EAX and EDX still.
                (if outcome == Outcome::Done(0) { Outcome::Done(value) } else { outcome }, None)
            }
            Access::ReadCounter { index, reader } => {
                let value = self.reference.read_counter(index, reader);
                (value.map_or(Outcome::Refused, Outcome::Done), Some(index as usize))
            }
            // Elsewhere there is no such instruction.
            Access::Prefer(_) if self.part != Part::Knc => (Outcome::Refused, None),
            Access::Prefer(preferred) => {
                self.reference.prefer(preferred);
                (answer.map_or(Outcome::Done(0), Outcome::Done), None)
            }
        };
        let is_known = counter.is_none_or(|n| self.known.get(n).is_none_or(|&known| known));
        let is_status = matches!(access, Access::Read { msr: STATUS }) && self.part == Part::Knc;
        match (outcome, answer) {
            (Outcome::Stranger, _) => {}
            (Outcome::Refused, None) => {}
            (Outcome::Done(_), Some(_)) if !is_known || is_status && !self.status_known => {}
            (Outcome::Done(expected), Some(got)) if expected == got => {}
            (expected, got) => {
                return Err(format!("{access:X?}: {expected:X?} by the model, {got:X?} here"));
            }
        }
        Ok(())
    }

    fn counter_of(&self, msr: u32) -> Option<usize> {
        self.part.registers().iter().find_map(|&register| match register {
            (number, Kind::Counter(counter)) if number == msr => Some(counter),
            _ => None,
        })
    }

    /// All counters that the model knows; those that count something else than instructions it does not.
    fn compare(&mut self, machine: &Machine) -> Result<(), String> {
        let pmu = &machine.vcpus()[0].pmu;
        for &(msr, kind) in self.part.registers() {
            let Kind::Counter(counter) = kind else { continue };
            if !self.reference.is_known_from(counter, &FACTS) {
                (self.known[counter], self.status_known) = (false, false);
            }
            let (product, model) = (pmu.read_msr(msr), self.reference.read(msr));
            match (product, model) {
                (MsrAccess::Done(product), Outcome::Done(model)) if product == model => {}
                _ if !self.known[counter] => {}
                _ => {
                    return Err(format!(
                        "counter {counter}: {model:X?} by the model, {product:X?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Where the handler of an interrupt returns to that is about to begin: the top of the stack, without an error code.
fn returns_to(machine: &Machine) -> Result<u64, String> {
    let mut eip = [0; 4];
    let esp = machine.vcpus()[0].cpu.gpr(4);
    match machine.read_physical(esp & 0xFFFF_FFFF, &mut eip) {
        true => Ok(u32::from_le_bytes(eip).into()),
        false => Err(format!("a stack at {esp:X}h, where there is no RAM")),
    }
}
