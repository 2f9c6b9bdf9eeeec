//! A script on KVM and on the software engine: results, registers, memory and exact counts are the same.
//!
//! On KVM the guest goes by the host's time, so that what depends on time is left out of the script: HLT, which waits for
//! something; the time-stamp counter; timers, in the local APIC and at ports; the I/O APIC and the interrupt command
//! register, whose interrupts are on their way for a while; and events that are not exact ([`Fidelity::Exact`]) or count
//! cycles, in whose place instructions are counted. Nor does it go on two processors, whose instructions have no order
//! there. What is compared is the processor with its PMU, and all of memory but stacks.

use std::collections::BTreeMap;
use std::time::Duration;

use pmu_model::{EventDef, Fidelity, MsrAccess, Personality, Unit};
use vpmu::boot::Payload;
use vpmu::config::Limits;
use vpmu::console::Console;
use vpmu::engine::EngineKind;
use vpmu::engine::kvm::host::Host;
use vpmu::engine::soft::Timing;
use vpmu::machine::{End, Machine};
use vpmu::program::{LAPIC, PROCESSORS, STACKS, STACKS_SIZE};

use super::agent::{AREA, AREA_SIZE, Agent, Routine};
use super::operations::{Input, Kind, Operation};
use super::{DOORS, Door, INSTRUCTIONS, Key, at_door, begin};
use crate::reference::registers::{self, Part};

/// How long a script may take on KVM. Those that end take a few milliseconds.
const LONGEST: Duration = Duration::from_secs(20);
/// Registers of the local APIC that have to do with time: ICR, the timer's vector, counts and divider.
const TIMED: [u32; 6] = [0x300, 0x310, 0x320, 0x380, 0x390, 0x3E0];
/// Bytes of memory.
const MEMORY: u64 = crate::door::MEMORY;
/// IA32_TIME_STAMP_COUNTER.
const TSC: u32 = 0x10;

/// That there is a KVM.
///
/// # Errors
/// Why there is none.
pub fn needs() -> Result<(), String> {
    Host::open().map(drop).map_err(|error| format!("the target kvm: {error}"))
}

/// Plays an input, but for what depends on time: how many operations it has; none if the script does not end, so that
/// there is nothing to compare.
///
/// # Errors
/// What differs, or that there is no KVM.
pub fn play(bytes: &[u8]) -> Result<usize, String> {
    let input = input(bytes);
    let mut doors = DOORS.take();
    let played = on_both(&mut doors, &input);
    DOORS.set(doors);
    played.map(|compared| if compared { input.operations.len() } else { 0 })
}

/// An input in words, as it is executed.
pub fn words(bytes: &[u8]) -> String {
    let input = input(bytes);
    super::in_words(&input, "on KVM and on the software engine")
}

/// The input without what depends on time.
fn input(bytes: &[u8]) -> Input {
    let mut input = Input::new(bytes);
    (input.cpus, input.timing) = (1, Timing::Flat);
    input.operations.retain(|operation| !depends_on_time(operation));
    for operation in &mut input.operations {
        operation.cpu = 0;
        let registers = input.part.registers();
        let kind = registers
            .iter()
            .find(|register| register.0 == operation.ecx)
            .map(|register| register.1);
        if operation.kind == Kind::Write {
            operation.value = match kind {
                Some(registers::Kind::Select(_)) => exactly(input.part, operation.value, 0, 0xFF),
                Some(registers::Kind::Cesr) => {
                    let first = exactly(input.part, operation.value, 0, 0x3F);
                    exactly(input.part, first, 16, 0x3F)
                }
                _ => operation.value,
            };
        }
    }
    input
}

fn depends_on_time(operation: &Operation) -> bool {
    let register = operation.ecx.wrapping_sub(LAPIC);
    match operation.kind {
        Kind::Plain(Routine::Hlt) | Kind::In(_) | Kind::Out(_) => true,
        Kind::Read | Kind::Write => operation.ecx == TSC,
        Kind::Load | Kind::Store => register >= 0x1000 || TIMED.contains(&register),
        _ => false,
    }
}

/// What selects instructions in place of an event that is not exact: its code is in `value` at this bit.
fn exactly(part: Part, value: u64, bit: u32, codes: u64) -> u64 {
    let instructions = match part {
        Part::P55c | Part::Knc => 0x16,
        _ => 0xC0,
    };
    let code = value >> bit & codes;
    let exact = |event: &&EventDef| event.fidelity == Fidelity::Exact && event.unit != Unit::Cycles;
    let events =
        Personality::by_name(part.name()).map_or(&[][..], |personality| personality.events);
    match events.iter().filter(exact).any(|event| u64::from(event.code) == code) {
        true => value,
        false => value & !(codes << bit) | instructions << bit,
    }
}

fn on_both(doors: &mut BTreeMap<Key, (Door, Agent)>, input: &Input) -> Result<bool, String> {
    let (door, agent) = at_door(doors, input)?;
    begin(door, agent, input)?;
    let snapshot = door.machine().snapshot();
    let end = door.run(INSTRUCTIONS)?;
    if !matches!(end, End::Exit(_)) {
        // It goes on for ever, or in real mode.
        door.back()?;
        return Ok(false);
    }
    let text = |error: vpmu::error::Error| error.to_string();
    let identity = snapshot.identity.clone();
    let config = identity.config(Payload::Snapshot(snapshot)).map_err(text)?;
    let config = vpmu::config::Config { engine: EngineKind::Kvm, ..config };
    let mut machine = Machine::new(&config).map_err(text)?;
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    let limits = Limits { timeout: Some(LONGEST), instructions: None };
    let ended = machine.run(limits, &mut console).map_err(text)?;
    if ended != end {
        return Err(format!("on the software engine {end:?}, on KVM {ended:?}"));
    }
    match difference(door, &mut machine, input.part) {
        Some(difference) => Err(format!("on the software engine and on KVM: {difference}")),
        None => door.back().map(|()| true),
    }
}

/// Where the machines differ that have executed a script.
fn difference(door: &mut Door, other: &mut Machine, part: Part) -> Option<String> {
    for &(msr, _) in part.registers() {
        let [one, two] =
            [&*door.machine(), other].map(|machine| machine.vcpus()[0].pmu.read_msr(msr));
        let value = |access| match access {
            MsrAccess::Done(value) => format!("{value:X}h"),
            _ => "refused".into(),
        };
        if one != two {
            return Some(format!("register {msr:X}h is {} and {}", value(one), value(two)));
        }
    }
    // Results and interrupts come first, which tell more. What is left below the top of a stack is nobody's: the host's
    // KVM writes there where it emulates what delivers.
    let (results, stacks) = (u64::from(AREA), u64::from(STACKS));
    let behind = stacks + u64::from(PROCESSORS * STACKS_SIZE);
    for area in [results..results + u64::from(AREA_SIZE), 0..stacks, behind..MEMORY] {
        let [one, two] = [&*door.machine(), other].map(|machine| {
            let mut bytes = vec![0; (area.end - area.start) as usize];
            machine.read_physical(area.start, &mut bytes);
            bytes
        });
        let differs = one.chunks(4).zip(two.chunks(4)).position(|(one, two)| one != two);
        if let Some(n) = differs {
            let at = area.start + 4 * n as u64;
            let [one, two] = [one, two].map(|bytes| {
                bytes[4 * n..][..4].iter().rev().map(|b| format!("{b:02X}")).collect::<String>()
            });
            return Some(format!("memory at {at:X}h is {one}h and {two}h"));
        }
    }
    for number in 0..8 {
        let [one, two] =
            [&*door.machine(), other].map(|machine| machine.vcpus()[0].cpu.gpr(number));
        if one != two {
            return Some(format!("general register {number} is {one:X}h and {two:X}h"));
        }
    }
    None
}
