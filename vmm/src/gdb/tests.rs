//! A machine that is debugged does what it does without a debugger, stops where it is to, and finds the way
//! back.
//!
//! The oracle is two runs of the same guest. One is not debugged: all of its state, to the last field, and
//! its RAM. The other stops before every instruction: the list of these is what breakpoints, steps and ways
//! back are checked against.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use x86_cpu::stops::{Stops, Watched};

use super::reverse::{Backwards, Moment};
use super::running::Reason;
use super::*;
use crate::turns::tests::{Random, core_guest, guest, machine};

fn silent() -> Console {
    Console::to("nowhere".into(), Box::new(std::io::sink()))
}

/// Until it stops, or so many instructions have retired.
fn run(machine: &mut Machine, instructions: u64) -> End {
    machine.run_until(&Stop::new().unwrap(), Some(instructions), &mut silent()).unwrap()
}

/// All that a machine is, but for what only says how it was cut into pieces.
fn state(machine: &mut Machine) -> (serde_json::Value, Vec<u8>) {
    let mut state = machine.state();
    state.forget_cuts();
    let state = serde_json::to_value(state).unwrap();
    let mut ram = vec![0; 4 << 20];
    for (page, bytes) in machine.memory.ram_pages().zip(ram.chunks_exact_mut(4096)) {
        assert!(machine.read_physical(page, bytes));
    }
    (state, ram)
}

pub(super) fn assert_same(one: &mut Machine, other: &mut Machine, name: &str) {
    let ((a, ram_a), (b, ram_b)) = (state(one), state(other));
    if a != b {
        for key in a.as_object().unwrap().keys().filter(|&key| a[key] != b[key]) {
            println!("{key}: {}\n{key}: {}", a[key], b[key]);
        }
        panic!("{name}: another state");
    }
    assert!(ram_a == ram_b, "{name}: other RAM");
}

/// An instruction that is about to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    moment: Moment,
    id: usize,
    linear: u64,
}

fn place(machine: &Machine, id: usize) -> Place {
    Place { moment: Moment::of(machine), id, linear: machine.vcpus[id].cpu.linear_rip() }
}

fn set_all(machine: &mut Machine, stops: impl Fn(usize) -> Option<Stops>) {
    for (id, vcpu) in machine.vcpus.iter_mut().enumerate() {
        vcpu.cpu.set_stops(stops(id));
    }
}

/// Every instruction up to the `last`; the machine is behind it then.
fn places(machine: &mut Machine, last: u64) -> Vec<Place> {
    set_all(machine, |_| Some(Stops::default().everywhere()));
    let mut places = Vec::new();
    while let End::Debugger(id) = run(machine, last) {
        places.push(place(machine, id));
        machine.vcpus[id].cpu.pass_stop();
    }
    set_all(machine, |_| None);
    places
}

/// A machine made twice: one that is not debugged, behind instruction `last`, and every instruction of it.
struct Truth {
    name: String,
    last: u64,
    /// How it ended, which may be before that.
    end: End,
    whole: Machine,
    places: Vec<Place>,
}

fn truth(name: String, make: &impl Fn() -> Machine, last: u64) -> Truth {
    let (mut whole, mut stepped) = (make(), make());
    let end = run(&mut whole, last);
    let places = places(&mut stepped, last);
    assert_same(&mut whole, &mut stepped, &format!("{name}, stepped"));
    assert!(places.windows(2).all(|pair| pair[0].moment < pair[1].moment), "{name}");
    Truth { name, last, end, whole, places }
}

/// Some of the addresses that are executed.
fn some_addresses(truth: &Truth, random: &mut Random) -> Vec<u64> {
    let count = random.below(4);
    let mut any = || truth.places[random.below(truth.places.len() as u32) as usize].linear;
    (0..count).map(|_| any()).collect()
}

/// Debugs a machine at random, and compares.
fn debug_at_random(mut truth: Truth, mut debugged: Machine, random: &mut Random) {
    let name = truth.name.clone();
    let (mut stops, mut hits) = (0, 0);
    // The last place at which it has stopped.
    let mut stood: Option<Place> = None;
    while debugged.retired() < truth.last {
        let now = Moment::of(&debugged);
        let addresses = some_addresses(&truth, random);
        let stepped =
            (random.below(3) == 0).then(|| random.below(debugged.vcpus.len() as u32) as usize);
        let watches = random.below(4) == 0;
        let watched = Watched {
            address: u64::from(0x10_0000 + 8 * random.below(0x4000)),
            bytes: u64::from(1 + random.below(0x3000)),
            reads: random.below(2) == 0,
            writes: true,
        };
        set_all(&mut debugged, |id| {
            let watched = if watches { vec![watched] } else { vec![] };
            let stops = Stops::new(addresses.clone(), watched);
            Some(if stepped == Some(id) { stops.everywhere() } else { stops })
        });
        if let Some(place) = stood {
            debugged.vcpus[place.id].cpu.pass_stop();
        }
        let limit = (now.retired + 1 + u64::from(random.below(3000))).min(truth.last);
        let end = run(&mut debugged, limit);
        let is_hit = debugged.vcpus.iter().any(|vcpu| vcpu.cpu.has_watch_hit());
        let stopped = match end {
            End::Debugger(id) if debugged.vcpus[id].cpu.take_watch_hit().is_none() => {
                Some(place(&debugged, id))
            }
            _ => None,
        };
        let is_ahead = |place: &&Place| match stood {
            Some(stood) => place.moment > stood.moment,
            None => place.moment >= now,
        };
        let is_stop =
            |place: &&Place| stepped == Some(place.id) || addresses.contains(&place.linear);
        let expected = truth.places.iter().filter(is_ahead).find(is_stop);
        let expected = expected.copied().filter(|place| place.moment.retired < limit);
        // Where memory is watched, that may stop it before.
        if !is_hit || stopped.is_some() {
            assert_eq!(stopped, expected, "{name}: from {now:?}, {stepped:?}, {addresses:x?}");
        }
        stops += u32::from(stopped.is_some());
        hits += u32::from(stopped.is_none() && matches!(end, End::Debugger(_)));
        stood = stopped;
        if !matches!(end, End::Debugger(_) | End::Instructions) {
            assert_eq!(end, truth.end, "{name}");
            break;
        }
    }
    set_all(&mut debugged, |_| None);
    assert_same(&mut truth.whole, &mut debugged, &name);
    println!("{name}: {stops} stops, {hits} accesses");
}

/// Goes back from places at random, and forward to the end.
fn reverse_at_random(mut truth: Truth, mut debugged: Machine, random: &mut Random) {
    let (stop, name) = (Stop::new().unwrap(), truth.name.clone());
    let mut console = silent();
    let mut session = Session::new(&mut debugged, &stop, Some(truth.last), &mut console);
    session.set_stops();
    session.mark();
    for _ in 0..6 {
        let to = random.below(truth.last as u32).into();
        if session.machine.retired() < to {
            session.machine.run_until(&stop, Some(to), session.console).unwrap();
            session.mark();
        }
        let now = Moment::of(session.machine);
        let before = |place: &&Place| place.moment < now;
        let addresses = some_addresses(&truth, random);
        addresses.iter().for_each(|&at| session.breakpoints.set(breakpoints::Kind::Software, at));
        let id = random.below(session.machine.vcpus.len() as u32) as usize;
        let (way, wanted) = match random.below(2) {
            0 => {
                let is_its = |place: &&Place| place.id == id;
                (Backwards::Step(id), truth.places.iter().filter(before).rfind(is_its))
            }
            _ => {
                let is_one = |place: &&Place| addresses.contains(&place.linear);
                (Backwards::Continue, truth.places.iter().filter(before).rfind(is_one))
            }
        };
        let reason = session.go_back(way).unwrap();
        match wanted {
            Some(wanted) => {
                let found = place(session.machine, wanted.id);
                assert_eq!(found, *wanted, "{name}: {way:?} from {now:?}: {reason:?}");
            }
            None => {
                assert!(matches!(reason, Reason::ReplayLog { .. }), "{name}: {way:?}: {reason:?}");
                assert_eq!(session.machine.retired(), 0, "{name}");
            }
        }
        addresses
            .iter()
            .for_each(|&at| _ = session.breakpoints.remove(breakpoints::Kind::Software, at));
    }
    assert_eq!(session.leave(), None);
    run(&mut debugged, truth.last);
    assert_same(&mut truth.whole, &mut debugged, &name);
}

fn of_all_guests(seeds: std::ops::Range<u64>, check: impl Fn(Truth, Machine, &mut Random)) {
    for seed in seeds {
        for (cpu, cpus) in [("p6", 1), ("k8", 1), ("k8", 3), ("knc", 2), ("knc", 4)] {
            let random = &mut Random(seed);
            let bytes = match cpu {
                "knc" => core_guest(random, cpus),
                _ => guest(random, cpus, false),
            };
            let bytes = bytes.unwrap();
            let make = || machine(cpu, cpus, &bytes);
            let last = 1000 + u64::from(random.below(9000));
            let name = format!("{cpu}, {cpus} processors, seed {seed}");
            check(truth(name, &make, last), make(), random);
        }
    }
}

#[test]
fn a_debugger_changes_nothing() {
    of_all_guests(500..508, debug_at_random);
}

#[test]
fn the_way_back_is_found() {
    of_all_guests(600..606, reverse_at_random);
}

/// A packet of the remote protocol: its text between `$` and the sum of its bytes.
fn packet(text: &[u8]) -> Vec<u8> {
    let sum = text.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    [b"$", text, format!("#{sum:02x}").as_bytes()].concat()
}

/// Whatever a client sends, the machine is there afterwards.
#[test]
fn a_client_cannot_end_the_process() {
    const WORDS: [&str; 24] = [
        "?",
        "g",
        "G",
        "p",
        "P",
        "m",
        "M",
        "X",
        "Z0,",
        "z0,",
        "Z1,",
        "Z2,",
        "z2,",
        "Z4,",
        "vCont;s:",
        "vCont;c",
        "vCont?",
        "Hg",
        "qXfer:features:read:target.xml:",
        "qThreadExtraInfo,",
        "qRcmd,",
        "bs",
        "bc",
        "T",
    ];
    for seed in 700..706 {
        let random = &mut Random(seed);
        let bytes = guest(random, 2, false).unwrap();
        let mut machine = machine("k8", 2, &bytes);
        let stop = Stop::new().unwrap();
        let debugger = Debugger::listen(&"0".parse().unwrap(), End::status, &stop).unwrap();
        let address = debugger.listener.address().to_string();
        let mut client_random = Random(seed + 1000);
        let client = thread::spawn(move || {
            let random = &mut client_random;
            for _ in 0..4 {
                let mut stream = TcpStream::connect(&address).unwrap();
                let mut answers = stream.try_clone().unwrap();
                let reader = thread::spawn(move || _ = answers.read_to_end(&mut Vec::new()));
                for _ in 0..60 {
                    let mut text = WORDS[random.below(24) as usize].as_bytes().to_vec();
                    for _ in 0..random.below(5) {
                        let number = match random.below(4) {
                            0 => u64::MAX >> random.below(64),
                            1 => random.below(8).into(),
                            2 => 0x10_0000 + u64::from(random.below(0x1000)),
                            _ => 1 << random.below(64),
                        };
                        text.extend(format!("{number:x}").bytes());
                        text.push(b",:=;.-"[random.below(6) as usize]);
                    }
                    if random.below(5) == 0 {
                        text.push(random.below(256) as u8);
                    }
                    let mut sent = packet(&text);
                    if random.below(20) == 0 {
                        sent = vec![3, b'+', b'-', b'$', b'#', 0xff];
                    }
                    if stream.write_all(&sent).is_err() {
                        break;
                    }
                }
                _ = stream.shutdown(std::net::Shutdown::Both);
                reader.join().unwrap();
            }
        });
        let end = debugger.run(&mut machine, &stop, Some(20_000), &mut silent()).unwrap();
        assert!(!matches!(end, End::Debugger(_) | End::Paused), "{end:?}");
        client.join().unwrap();
    }
}
