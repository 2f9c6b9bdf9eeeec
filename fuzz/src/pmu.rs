//! The target `pmu`: plays a script on the product and on the reference, and compares them after each
//! operation.

use std::fmt::{self, Write as _};

use pmu_model::{GpFault, MsrAccess, Personality, Pmis, Pmu, RdpmcCaller, SignalCounts, SignalSet};

use crate::random::Random;
use crate::reference::counting::{Batch, For, Interrupts};
use crate::reference::registers::Part;
use crate::reference::{Outcome, Reader, Reference};
use crate::script::{Operation, Reset, Script};

/// Where product and reference differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Behind how many operations, the differing one included.
    pub operations: usize,
    /// What was compared, and both answers.
    pub check: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "behind operation {}: {}", self.operations, self.check)
    }
}

/// Who reads the counters after each operation: privileged code.
const KERNEL: Reader = Reader { cpl: 0, pce: false, real_mode: false, code_16bit: false };

/// Plays a script; how many operations it has.
///
/// # Errors
/// The first difference.
pub fn play(bytes: &[u8]) -> Result<usize, Difference> {
    let script = Script::new(bytes);
    let mut pair = Pair::new(script.part());
    let mut operations = 0;
    for operation in script {
        operations += 1;
        let outcome = pair.step(&operation).and_then(|()| pair.compare());
        outcome.map_err(|check| Difference { operations, check })?;
    }
    Ok(operations)
}

/// The operations of a script, one a line.
pub fn words(bytes: &[u8]) -> String {
    let script = Script::new(bytes);
    let mut words = format!("{}\n", script.part().name());
    for (number, operation) in (1..).zip(script) {
        writeln!(words, "{number:4}  {operation}").expect("a string takes everything");
    }
    words
}

/// A generated input: 200 bytes, some 50 operations. Little happens while no counter runs, so that every second input
/// begins with two that do, at all privilege levels and with INT.
pub fn input(random: &mut Random) -> Vec<u8> {
    let mut input = [[0; 8]; 25].map(|_| random.bytes()).as_flattened().to_vec();
    if input[1] & 1 == 1 {
        let (first, second) = (input[2], input[3]);
        // Selects, and Knights Corner's global enable bits: see `Script`.
        let begin = [6, 0, first, 0x13, 0, 0, 6, 1, second, 0x13, 0, 0, 3, 7, 0x13];
        input[1..=begin.len()].copy_from_slice(&begin);
    }
    input
}

/// Whose PMU an input is about, by number.
pub(crate) fn group(bytes: &[u8]) -> usize {
    Script::new(&bytes[..bytes.len().min(1)]).part() as usize
}

/// The product and the reference.
struct Pair {
    product: Pmu,
    reference: Reference,
    /// What happened, as the product takes it; empty between two operations.
    counts: SignalCounts,
}

/// Compares two answers.
fn same<T: Copy + PartialEq + fmt::Debug>(
    what: impl FnOnce() -> String,
    product: T,
    reference: T,
) -> Result<(), String> {
    if product == reference {
        return Ok(());
    }
    Err(format!("{}: pmu-model {product:X?}, reference {reference:X?}", what()))
}

impl Pair {
    fn new(part: Part) -> Pair {
        let personality = Personality::by_name(part.name()).expect("a personality of each part");
        let product = Pmu::new(personality, &SignalSet::ALL);
        Pair { product, reference: Reference::new(part), counts: SignalCounts::new() }
    }

    /// One operation on both. What it answers must be the same.
    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        let what = || operation.to_string();
        match *operation {
            Operation::Read { msr } => {
                same(what, read(self.product.read_msr(msr)), self.reference.read(msr))
            }
            Operation::Write { msr, value } => {
                let foreseen = written(self.product.judge_write(msr, value));
                let product = written(self.product.write_msr(msr, value));
                let reference = self.reference.write(msr, value);
                same(what, product, reference)?;
                same(|| format!("foreseen, {operation}"), foreseen, reference)
            }
            Operation::ReadCounter { index, reader } => {
                let product = self.product.rdpmc(index, caller(reader));
                same(what, product, self.reference.read_counter(index, reader).ok_or(GpFault))
            }
            Operation::Fire { fact, n, cpl } => {
                let headroom = self.product.headroom(fact.signal());
                same(
                    || format!("headroom before {operation}"),
                    headroom,
                    self.reference.headroom(fact),
                )?;
                let product = self.product.fire(fact.signal(), n, cpl);
                let reference = self.reference.happen(0, For::Adders, &[(fact, n)], cpl);
                interrupts(operation, product, reference)
            }
            Operation::Happen { thread, what: for_whom, happened, cpl } => {
                let product = self.happen(thread, for_whom, happened.batch(), cpl);
                let reference = self.reference.happen(thread, for_whom, happened.batch(), cpl);
                interrupts(operation, product, reference)
            }
            Operation::Prefer(enabled) => {
                self.product.set_user_preference(enabled);
                self.reference.prefer(enabled);
                Ok(())
            }
            Operation::Reset(reset) => {
                self.product.reset(match reset {
                    Reset::Cold => pmu_model::Reset::Cold,
                    Reset::Warm => pmu_model::Reset::Warm,
                    Reset::Init => pmu_model::Reset::Init,
                });
                if reset != Reset::Init {
                    self.reference.reset();
                }
                Ok(())
            }
            Operation::Migrate => {
                let state = self.product.save();
                let restored = Pmu::restore(self.product.personality(), &SignalSet::ALL, &state);
                self.product = restored.map_err(|error| format!("restore: {error:?}"))?;
                Ok(())
            }
        }
    }

    fn happen(&mut self, thread: usize, what: For, batch: Batch, cpl: u8) -> Pmis {
        let Self { product, counts, .. } = self;
        batch.iter().for_each(|&(fact, n)| counts.add(fact.signal(), n));
        // What occurs is handed over, or asked for signal by signal: half of the batches each.
        let asks = !batch.len().is_multiple_of(2);
        let pmis = match (thread, what) {
            (0, For::All) if asks => product.cycle_by(cpl, |signal| counts.get(signal)),
            (0, For::Adders) if asks => product.advance_by(cpl, |signal| counts.get(signal)),
            (0, For::All) => product.cycle(counts, cpl),
            (0, For::Adders) => product.advance(counts, cpl),
            (0, For::Comparers) => product.compare(counts, cpl),
            (_, For::All) => product.sibling(thread - 1, counts, cpl),
            (_, For::Adders) => product.sibling_advance(counts, cpl),
            (_, For::Comparers) => product.sibling_compare(thread - 1, counts, cpl),
        };
        counts.clear();
        pmis
    }

    /// All that a guest can read, and how far each counter is from its overflow.
    fn compare(&self) -> Result<(), String> {
        let part = self.reference.part();
        for (&(msr, _), reference) in part.registers().iter().zip(self.reference.read_all()) {
            let product = read(self.product.read_msr(msr));
            same(|| format!("then MSR {msr:X}h"), product, reference)?;
        }
        for (counter, index) in (0..part.counters()).zip(0..) {
            let product = self.product.rdpmc(index, caller(KERNEL)).ok();
            let reference = self.reference.read_counter(index, KERNEL);
            same(|| format!("then RDPMC {index}"), product, reference)?;
            let headroom = self.product.headroom_of(counter);
            let expected = self.reference.headroom_of(counter);
            same(|| format!("then headroom of counter {counter}"), headroom, expected)?;
        }
        Ok(())
    }
}

fn read(access: MsrAccess<u64>) -> Outcome {
    match access {
        MsrAccess::NotOurs => Outcome::Stranger,
        MsrAccess::Done(value) => Outcome::Done(value),
        MsrAccess::GpFault => Outcome::Refused,
    }
}

fn written(access: MsrAccess<()>) -> Outcome {
    match access {
        MsrAccess::NotOurs => Outcome::Stranger,
        MsrAccess::Done(()) => Outcome::Done(0),
        MsrAccess::GpFault => Outcome::Refused,
    }
}

fn caller(reader: Reader) -> RdpmcCaller {
    let Reader { cpl, pce, real_mode, code_16bit } = reader;
    RdpmcCaller { cpl, pce, real_mode, code_16bit }
}

/// Compares the interrupts that an operation raised.
fn interrupts(operation: &Operation, product: Pmis, reference: Interrupts) -> Result<(), String> {
    let mut counts = [0; 4];
    for counter in product.iter() {
        counts[counter] += 1;
    }
    if reference.are(counts) {
        return Ok(());
    }
    Err(format!("interrupts of {operation}: pmu-model {counts:?}, reference {reference:?}"))
}
