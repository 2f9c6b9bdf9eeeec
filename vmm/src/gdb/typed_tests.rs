//! What was typed on the way back: it comes again at its time, and what is typed meanwhile comes behind it.
//!
//! The oracle is a run of the same guest that is not debugged, with an input script that types the same at the same
//! virtual times: all that it has printed, and its state. The guests print what they read, compute, and sleep, at random.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use iced_x86::code_asm::{al, dword_ptr, dx, eax, ebx, edx};

use super::reverse::{Backwards, Moment};
use super::streams_tests::{Streams, machine, sleep};
use super::tests::assert_same;
use super::*;
use crate::input::Script;
use crate::program::Program;
use crate::turns::tests::{IPI_VECTOR, Made, Random, each_by_itself, seeds, spin};

/// The first serial port: its data, which interrupts it raises, OUT2, which lets them out; line status, and that there is
/// data.
const DATA: u32 = 0x3F8;
const INTERRUPT_ENABLE: u32 = 0x3F9;
const MODEM_CONTROL: u32 = 0x3FC;
const LINE_STATUS: u32 = 0x3FD;
const DATA_READY: i32 = 1;

/// Of the I/O APIC; its entry for the port.
const IOAPIC_SELECT: u64 = 0xFEC0_0000;
const IOAPIC_WINDOW: u64 = 0xFEC0_0010;
const REDIRECTION: u32 = 0x10 + 2 * 4;
/// 60 ms of the timer: its clock is 200 MHz, divided by 2.
const LONG: u32 = 6_000_000;

/// Prints a byte, if one has been typed.
fn echo(p: &mut Program) -> Made {
    let mut nothing = p.create_label();
    p.mov(edx, LINE_STATUS)?;
    p.in_(al, dx)?;
    p.test(al, DATA_READY)?;
    p.jz(nothing)?;
    p.mov(edx, DATA)?;
    p.in_(al, dx)?;
    p.out(dx, al)?;
    p.place(&mut nothing)
}

/// Prints how often it has been here.
fn count(p: &mut Program) -> Made {
    p.inc(ebx)?;
    p.mov(eax, ebx)?;
    p.mov(edx, DATA)?;
    p.out(dx, al)
}

/// Does some of it round and round, and may sleep so long in each that who waits for keys looks for them meanwhile.
fn guest(random: &mut Random, sleeps_long: bool) -> Vec<u8> {
    // What is typed interrupts.
    let prepare = |p: &mut Program| {
        for (register, value) in [(REDIRECTION, u32::from(IPI_VECTOR)), (REDIRECTION + 1, 0)] {
            p.mov(dword_ptr(IOAPIC_SELECT), register)?;
            p.mov(eax, value)?;
            p.mov(dword_ptr(IOAPIC_WINDOW), eax)?;
        }
        for (port, value) in [(INTERRUPT_ENABLE, 1), (MODEM_CONTROL, 8)] {
            p.mov(edx, port)?;
            p.mov(eax, value)?;
            p.out(dx, al)?;
        }
        Ok(())
    };
    let script = |p: &mut Program| {
        if sleeps_long {
            sleep(p, LONG)?;
        }
        for _ in 0..8 {
            match random.below(8) {
                0 | 1 => spin(p, 1 + random.below(800))?,
                2 | 3 => sleep(p, 1 + random.below(2000))?,
                4 => count(p)?,
                _ => echo(p)?,
            }
        }
        Ok(())
    };
    each_by_itself(1, false, prepare, script).unwrap()
}

/// What the other end sends, as it comes.
struct Keys(Receiver<Vec<u8>>);

impl Read for Keys {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Ok(typed) = self.0.recv() else { return Ok(0) };
        buffer[..typed.len()].copy_from_slice(&typed);
        Ok(typed.len())
    }
}

/// Some letters.
fn letters(random: &mut Random) -> Vec<u8> {
    (0..1 + random.below(3)).map(|_| b'a' + random.below(26) as u8).collect()
}

/// Types some, and waits until they can be taken, on however slow a host.
fn type_some(keys: &Sender<Vec<u8>>, console: &Console, random: &mut Random) {
    keys.send(letters(random)).unwrap();
    let started = Instant::now();
    while !console.has_bytes() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A guest that is not debugged, at which so much was typed at these times; and what it has printed.
fn undebugged(name: &str, bytes: &[u8], typed: &[(u64, Vec<u8>)], last: u64) -> (Machine, Vec<u8>) {
    let (streams, stop) = (Streams::new(name), Stop::new().unwrap());
    let (mut machine, mut console) = (machine(bytes), streams.console(&stop));
    let line = |(time, text): &(u64, Vec<u8>)| {
        format!("{time} \"{}\"\n", String::from_utf8(text.clone()).unwrap())
    };
    let script: String = typed.iter().map(line).collect();
    // A clock of a cycle a microsecond: the times are cycles.
    machine.script = Script::parse(&script, 1_000_000).unwrap();
    machine.run_until(&stop, Some(last), &mut console).unwrap();
    machine.script = Script::default();
    (machine, streams.printed())
}

#[test]
fn what_was_typed_comes_again_at_its_time() {
    let (mut back, mut taken, mut printed) = (0, 0, 0);
    for seed in seeds(900, 30) {
        let random = &mut Random(seed);
        let sleeps_long = random.below(5) == 0;
        let bytes = guest(random, sleeps_long);
        let last = match sleeps_long {
            true => 2_000 + random.below(4_000),
            false => 10_000 + random.below(60_000),
        };
        let last = u64::from(last);
        let name = format!("{seed}-typed");
        let (streams, stop) = (Streams::new(&name), Stop::new().unwrap());
        let (keys, typed) = channel();
        let is_changed = random.below(4) == 0;
        let interactive = sleeps_long || random.below(2) == 0;
        let mut machine = machine(&bytes);
        let mut console =
            Console::of_keyboard(Keys(typed), interactive, streams.of_console(), &stop);
        console.remember();
        let mut session = Session::new(&mut machine, &stop, Some(last), &mut console);
        session.set_stops();
        session.mark();
        for _ in 0..10 {
            if random.below(3) != 0 {
                type_some(&keys, session.console, random);
            }
            if sleeps_long {
                // In the midst of its sleep, most likely; what is expected does not depend on when.
                let (keys, letters) = (keys.clone(), letters(random));
                let time = Duration::from_millis(random.below(60).into());
                std::thread::spawn(move || {
                    std::thread::sleep(time);
                    // Too late, the test is over.
                    let _ = keys.send(letters);
                });
            }
            let to = u64::from(random.below(last as u32));
            if session.machine.retired() < to {
                session.machine.run_until(&stop, Some(to), session.console).unwrap();
                session.mark();
            }
            if random.below(2) == 0 {
                let way = [Backwards::Step(0), Backwards::Continue][random.below(2) as usize];
                let before = Moment::of(session.machine);
                session.go_back(way).unwrap();
                if is_changed {
                    // A change that changes nothing: what was typed still comes, and new keys come behind that at once.
                    session.forget().unwrap();
                    session.mark();
                }
                session.set_stops();
                back += u32::from(Moment::of(session.machine) < before);
            }
        }
        session.leave();
        machine.run_until(&stop, Some(last), &mut console).unwrap();
        let typed = console.all_typed();
        let (mut whole, expected) = undebugged(&format!("{name}-whole"), &bytes, typed, last);
        // What one prints anew that was changed is printed twice.
        assert!(is_changed || streams.printed() == expected, "seed {seed}");
        assert_same(&mut whole, &mut machine, &format!("seed {seed}"));
        (taken, printed) = (taken + typed.len(), printed + expected.len());
    }
    assert!(back > 50 && taken > 50 && printed > 100, "{back}, {taken}, {printed}");
}
