//! The software engine as an [`Engine`]: slice after slice of virtual time, and what comes between two.

use std::time::Duration;

use crate::ahead::Ahead;
use crate::console::Console;
use crate::engine::{Engine, Sees};
use crate::error::Result;
use crate::machine::{End, LocalApic, Machine, Pause};
use crate::platform::Platform;
use crate::stop::Stop;
use crate::turns::Slice;

/// How long one wait for console input takes at most, before everything else is looked at again.
const INPUT_WAIT: Duration = Duration::from_millis(50);

/// The engine. All that it keeps from one run to the next, such as translated code, is the machine's
/// ([`super::Soft`]), since a run on KVM needs it as well.
pub(crate) struct Slices;

impl Engine for Slices {
    fn run(
        &mut self,
        machine: &mut Machine,
        stop: &Stop,
        instructions: Option<u64>,
        console: &mut Console,
    ) -> Result<End> {
        let pause = match machine.pause {
            Some(Pause::Instructions(count)) => Some(count),
            _ => None,
        };
        let nearest = instructions.into_iter().chain(pause).min();
        let left = nearest.map(|limit| limit.saturating_sub(machine.retired()));
        if machine.cut_off.is_none() {
            machine.look_at_all();
        }
        let end = run(machine, stop, left.unwrap_or(u64::MAX), console);
        machine.settle();
        match end? {
            // Where it is to end as well, it pauses first.
            End::Instructions if pause.is_some() && pause == nearest => Ok(End::Paused),
            end => Ok(end),
        }
    }

    fn local_apic(&self, platform: &Platform) -> LocalApic {
        LocalApic::of(platform)
    }

    fn sees(&self) -> Sees {
        Sees { instructions: true, lapics: true }
    }
}

/// Runs until `left` instructions have retired, or something else ends it.
fn run(machine: &mut Machine, stop: &Stop, mut left: u64, console: &mut Console) -> Result<End> {
    machine.board.chipset.irq.delay(true);
    loop {
        let until = match &machine.cut_off {
            Some(cut_off) => cut_off.slice,
            None => match next(machine, stop, console)? {
                Ahead::Slice(until) => until,
                Ahead::Input => continue,
                Ahead::End(end) => return Ok(end),
            },
        };
        match machine.slice(until, &mut left, false) {
            Slice::Ended(end) => return Ok(end),
            Slice::Stopped => {
                if let Some(cause) = stop.cause() {
                    return Ok(cause.into());
                }
            }
            Slice::Whole | Slice::Uncounted => {}
        }
    }
}

/// What comes between two slices, and when the next one ends.
fn next(machine: &mut Machine, stop: &Stop, console: &mut Console) -> Result<Ahead> {
    machine.exchange(console)?;
    if let Some(cause) = stop.cause() {
        return Ok(Ahead::End(cause.into()));
    }
    if stop.takes_pause() || machine.is_pause_due() {
        return Ok(Ahead::End(End::Paused));
    }
    let activity = machine.activity();
    if (activity.asleep || machine.is_input_overdue()) && !machine.answer(console, true) {
        // Time stands still until the input is there: when that is, the host says.
        if console.is_searched() {
            return Ok(Ahead::End(End::Halted));
        }
        if stop.takes_pause() {
            return Ok(Ahead::End(End::Paused));
        }
    }
    let again = console.next_time(machine.now, activity.asleep);
    let typed_at = again.is_some() || machine.can_be_typed_at(console);
    Ok(match (machine.ahead(machine.now, activity, typed_at), again) {
        // What the guest has been through takes no real time.
        (Ahead::Slice(until), Some(time)) => Ahead::Slice(until.min(time)),
        (Ahead::Input, Some(time)) => Ahead::Slice(time),
        (Ahead::Slice(until), None) if activity.asleep && console.interactive() => {
            Ahead::Slice(pace(machine, console, until))
        }
        (Ahead::Input, None) if console.interactive() => {
            Ahead::Slice(pace(machine, console, u64::MAX))
        }
        (Ahead::Input, None) => {
            console.wait(INPUT_WAIT);
            Ahead::Input
        }
        (ahead, _) => ahead,
    })
}

/// Idle time at an interactive console passes as real time. The guest is idle until `until`: waits
/// so long, but for no more than [`INPUT_WAIT`], and returns how far virtual time may go.
fn pace(machine: &Machine, console: &mut Console, until: u64) -> u64 {
    let hz = u128::from(machine.clock_hz.max(1));
    let longest = INPUT_WAIT.as_nanos() * hz / 1_000_000_000;
    let cycles = u128::from(until - machine.now).min(longest);
    // Both products fit: `cycles` is what passes in a fraction of a second.
    console.wait(Duration::from_nanos((cycles * 1_000_000_000 / hz) as u64));
    machine.now + cycles as u64
}
