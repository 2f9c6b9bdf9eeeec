//! The target `machine`: what guests do to the PMU, its local APIC and the devices, by an agent in the guest that
//! executes scripts of such operations. The same script does the same in translated blocks, in pieces with a snapshot
//! between them, and one instruction at a time: the whole machine is the same behind it. Where it is stepped, the second
//! model of the PMU goes along, which says what each register holds that counts instructions.

mod agent;
pub mod kvm;
mod operations;
mod witness;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use vpmu::config::Config;
use vpmu::machine::End;
use vpmu::snapshot::Snapshot;

use self::agent::{AREA, AREA_SIZE, Agent, RECORD};
use self::operations::{Input, Operation, Way};
use self::witness::Witness;
use crate::door::Door;
use crate::random::Random;

/// Longest run in cycles.
const LONGEST: u64 = 40_000;
/// Instructions that a script may execute.
const INSTRUCTIONS: u64 = 20_000;

/// What machines there are: processor, how many of it, and whose clock the time is on.
type Key = (&'static str, u8, &'static str);

thread_local! {
    /// The machines that have been needed.
    static DOORS: RefCell<BTreeMap<Key, (Door, Agent)>> = RefCell::default();
}

/// Plays an input: how many operations it has.
///
/// # Errors
/// What differs.
pub fn play(bytes: &[u8]) -> Result<usize, String> {
    let input = Input::new(bytes);
    // A machine that panics is not used again: they are put back behind that.
    let mut doors = DOORS.take();
    let played = play_both_ways(&mut doors, &input);
    DOORS.set(doors);
    played.map(|()| input.operations.len())
}

/// Plays an input in blocks alone: what `benches -- scripts` measures.
///
/// # Errors
/// The machine cannot be had.
pub fn play_once(bytes: &[u8]) -> Result<usize, String> {
    let input = Input::new(bytes);
    DOORS.with_borrow_mut(|doors| {
        let (door, agent) = at_door(doors, &input)?;
        begin(door, agent, &input)?;
        door.run(INSTRUCTIONS)?;
        Ok(input.operations.len())
    })
}

fn play_both_ways(doors: &mut BTreeMap<Key, (Door, Agent)>, input: &Input) -> Result<(), String> {
    let (door, agent) = at_door(doors, input)?;
    let Some(difference) = difference(door, agent, input, INSTRUCTIONS)? else { return Ok(()) };
    let (mut same, mut differs) = (0, INSTRUCTIONS);
    while differs - same > 1 {
        let middle = same.midpoint(differs);
        match difference_at(door, agent, input, middle) {
            true => differs = middle,
            false => same = middle,
        }
    }
    begin(door, agent, input)?;
    door.run(differs - 1)?;
    let place = door.machine().vcpus()[0].cpu.place().rip;
    let way = input.way;
    Err(format!(
        "in blocks and {way:?}: {difference}; from the instruction at {place:X}h on, number {differs}"
    ))
}

/// Whether the ways differ behind so many instructions, however.
fn difference_at(door: &mut Door, agent: &Agent, input: &Input, last: u64) -> bool {
    !matches!(difference(door, agent, input, last), Ok(None))
}

/// Where the ways of execution differ behind so many instructions, if they do.
fn difference(
    door: &mut Door,
    agent: &Agent,
    input: &Input,
    last: u64,
) -> Result<Option<String>, String> {
    begin(door, agent, input)?;
    let end = door.run(last)?;
    let first = Outcome::of(door, end);

    begin(door, agent, input)?;
    let end = match input.way {
        Way::Stepped => step(door, agent, input, last)?,
        Way::Pieces(length) => in_pieces(door, length, last)?,
    };
    let other = Outcome::of(door, end);
    // What the machine is compared with, before either is dropped.
    door.back()?;
    Ok(first.difference(&other))
}

/// How a script ended.
struct Outcome {
    end: End,
    retired: u64,
    machine: Snapshot,
}

impl Outcome {
    fn of(door: &mut Door, end: End) -> Self {
        Self { end, retired: door.retired(), machine: door.machine().snapshot() }
    }

    fn difference(&self, other: &Self) -> Option<String> {
        let [one, two] = [self, other].map(|outcome| (outcome.end, outcome.retired));
        // What a core of several threads remembers of one that it is no longer told of is dropped when it is told
        // of it again, or takes part in its turns, which a slice that begins has it do.
        let difference = match self.machine.identity.cpu.as_str() {
            "knc" => self.machine.difference_beside_models(&other.machine),
            _ => self.machine.difference(&other.machine),
        };
        match (one == two, difference) {
            (true, None) => None,
            (true, Some(difference)) => Some(difference),
            (false, difference) => {
                Some(format!("{one:?} and {two:?}; {}", difference.unwrap_or_default()))
            }
        }
    }
}

/// One instruction at a time, while the witness looks.
fn step(door: &mut Door, agent: &Agent, input: &Input, last: u64) -> Result<End, String> {
    let witness = (input.cpus == 1).then(|| Witness::new(input.part, agent));
    let mut witness = witness.transpose()?;
    loop {
        let before = door.retired();
        if let Some(witness) = &mut witness {
            witness.before(door.machine());
        }
        let end = door.run(before + 1)?;
        if let Some(witness) = &mut witness {
            witness.after(door.machine())?;
        }
        if end != End::Instructions || door.retired() >= last {
            return Ok(end);
        }
    }
}

/// In pieces: behind each, a snapshot is taken, the machine runs ahead by another piece, and is reset.
fn in_pieces(door: &mut Door, length: u64, last: u64) -> Result<End, String> {
    // As long as there is the one before, the next takes only the pages that were written since.
    let mut kept = None;
    loop {
        let next = (door.retired() + length).min(last);
        let end = door.run(next)?;
        if end != End::Instructions || next == last {
            return Ok(end);
        }
        let snapshot = door.machine().snapshot();
        door.run(next + length)?;
        let kept = kept.insert(snapshot);
        door.machine().reset_to(kept).map_err(|error| error.to_string())?;
    }
}

/// Back at the door, with the scripts in memory.
fn begin(door: &mut Door, agent: &Agent, input: &Input) -> Result<(), String> {
    let script = |cpu: u8| {
        let operations =
            input.operations.iter().filter(|operation| operation.cpu == usize::from(cpu));
        records(agent, operations)
    };
    door.begin(AREA.into(), &script(0))?;
    (1..input.cpus)
        .try_for_each(|cpu| door.write((AREA + AREA_SIZE * u32::from(cpu)).into(), &script(cpu)))
}

/// The records of a script: where to, ECX, EAX and EDX, and what at CPL 3.
fn records<'a>(agent: &Agent, operations: impl Iterator<Item = &'a Operation>) -> Vec<u8> {
    let most = operations.size_hint().1.unwrap_or(0) + 1;
    let mut records = Vec::with_capacity(most * RECORD as usize);
    let mut record = |[to, ecx, eax, edx, at_user]: [u32; 5]| {
        // The rest is room for the result.
        let words: [u32; RECORD as usize / 4] = [to, ecx, eax, edx, at_user, 0, 0, 0];
        records.extend_from_slice(words.map(u32::to_le_bytes).as_flattened());
    };
    for operation in operations {
        let [first, at_user] = agent.places(operation.routine());
        let first = if operation.user { agent.to_user } else { first };
        let value = operation.value;
        record([first, operation.ecx, value as u32, (value >> 32) as u32, at_user]);
    }
    record([agent.end, 0, 0, 0, 0]);
    records
}

/// The machine that an input needs.
fn at_door<'a>(
    doors: &'a mut BTreeMap<Key, (Door, Agent)>,
    input: &Input,
) -> Result<&'a mut (Door, Agent), String> {
    let (name, timing) = (input.part.name(), input.timing);
    match doors.entry((name, input.cpus, timing.name())) {
        Entry::Occupied(there) => Ok(there.into_mut()),
        Entry::Vacant(place) => {
            let agent = Agent::new(input.cpus)?;
            let adapt = |config: Config| Config { cpus: input.cpus, timing, ..config };
            let door = Door::new(name, &agent.image, adapt, &agent::ends(), LONGEST)?;
            Ok(place.insert((door, agent)))
        }
    }
}

/// An input in words.
pub fn words(bytes: &[u8]) -> String {
    let input = Input::new(bytes);
    let how = match input.way {
        Way::Stepped => "one instruction at a time".into(),
        Way::Pieces(length) => format!("in pieces of {length} instructions"),
    };
    in_words(&input, &format!("{how}, timing {}", input.timing.name()))
}

fn in_words(input: &Input, how: &str) -> String {
    let processors = if input.cpus == 1 { "1 processor" } else { "2 processors" };
    let mut words = format!("{}, {processors}, {how}\n", input.part.name());
    for (number, operation) in (1..).zip(&input.operations) {
        // A string takes everything.
        let _ = writeln!(words, "{number:4}  {operation}");
    }
    words
}

/// A generated input: some 50 operations, of which the first have counters count at all levels with INT, and
/// interrupts enabled and answered, in every second input.
pub fn input(random: &mut Random) -> Vec<u8> {
    let mut input = [[0; 8]; 20].map(|_| random.bytes()).as_flattened().to_vec();
    if input[2] & 1 == 1 {
        let (first, second, answer) = (input[3], input[4], input[5]);
        // Selects, Knights Corner's global enable bits, LVTPC, the answer, STI: see `operations`.
        let begin = [
            0, 0, first, 0x13, 0, 0, 0, 1, second, 0x13, 0, 0, 15, 7, 0x13, 35, 0x11, 49, answer,
            44,
        ];
        input[2..2 + begin.len()].copy_from_slice(&begin);
    }
    input
}

/// Which machine an input is for, by number: those of which there is one each ([`at_door`]).
pub(crate) fn group(bytes: &[u8]) -> usize {
    let Input { part, cpus, timing, .. } = Input::new(&bytes[..bytes.len().min(2)]);
    (part as usize * 2 + usize::from(cpus > 1)) * 3 + timing as usize
}
