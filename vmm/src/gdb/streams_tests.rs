//! A command's streams on the way back: it is given the same input again, and what it writes again comes once.
//!
//! The oracle is a run of the same guest that is not debugged, with all that it has written and its state at the end.
//! The guests ask for input, write what they read of it to one of their streams or files, and sleep, at random.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use iced_x86::code_asm::{al, dx, eax, ecx, edx};

use super::reverse::{Backwards, History, Moment};
use super::tests::assert_same;
use super::*;
use crate::boot::memory::RamLayout;
use crate::boot::{self, Payload};
use crate::config::Config;
use crate::exec::get::Get;
use crate::program::Program;
use crate::stop::Cause;
use crate::turns::tests::{INITIAL, Made, Random, each_by_itself, spin};

// Ports of the pipes (their table is in devices/pipes.rs), and of the first serial port.
const INPUT: u32 = 0x2100;
const CONTROL: u32 = 0x2104;
const WRITTEN: [u32; 4] = [0x3F8, 0x2108, 0x210C, 0x2110];
const FILE_END: u32 = 0x2114;
/// Names of the files that all streams and files come to.
const STREAMS: [&str; 3] = ["console", "output", "error"];
/// More than guests write.
const FILES: u32 = 200;

/// Sleeps until the timer comes.
pub(super) fn sleep(p: &mut Program, ticks: u32) -> Made {
    p.write_lapic(INITIAL, ticks)?;
    p.sti()?;
    p.hlt()?;
    p.cli()
}

/// Asks for input, sleeps until it is there, and writes some bytes of it.
fn ask(p: &mut Program, random: &mut Random) -> Made {
    p.mov(edx, CONTROL)?;
    p.out(dx, eax)?;
    let again = p.here()?;
    sleep(p, 1 + random.below(2000))?;
    p.mov(edx, CONTROL)?;
    p.in_(eax, dx)?;
    p.cmp(eax, -1)?;
    p.je(again)?;
    for _ in 0..1 + random.below(4) {
        p.mov(edx, INPUT)?;
        p.in_(al, dx)?;
        p.mov(edx, WRITTEN[random.below(4) as usize])?;
        p.out(dx, al)?;
    }
    Ok(())
}

fn guest(random: &mut Random) -> Vec<u8> {
    let script = |p: &mut Program| {
        for _ in 0..12 {
            match random.below(8) {
                0 | 1 => spin(p, 1 + random.below(800))?,
                2 => sleep(p, 1 + random.below(2000))?,
                3..6 => ask(p, random)?,
                6 => {
                    p.mov(edx, FILE_END)?;
                    p.mov(eax, u32::from(random.below(4) != 0))?;
                    p.out(dx, eax)?;
                }
                _ => {
                    p.mov(edx, WRITTEN[3 - random.below(8).saturating_sub(4) as usize])?;
                    p.mov(eax, random.below(0x100))?;
                    p.mov(ecx, 1 + random.below(300))?;
                    let again = p.here()?;
                    p.out(dx, al)?;
                    p.inc(eax)?;
                    p.dec(ecx)?;
                    p.jnz(again)?;
                }
            }
        }
        Ok(())
    };
    each_by_itself(1, false, |_| Ok(()), script).unwrap()
}

pub(super) fn machine(bytes: &[u8]) -> Machine {
    let image = boot::Image { name: "generated".into(), bytes: bytes.into() };
    let payload = Payload::Flat { image, address: crate::program::LOAD_ADDRESS.into() };
    let config = Config::new("k8", RamLayout::new(4 << 20, None).unwrap(), payload).unwrap();
    Machine::new(&Config { pipes: true, ..config }).unwrap()
}

/// Input for a few answers of the longest kind.
fn input() -> Cursor<Vec<u8>> {
    Cursor::new((0..200_000_u32).map(|n| (n.wrapping_mul(n) / 7) as u8).collect())
}

/// Where the streams of one run go.
pub(super) struct Streams(PathBuf);

impl Streams {
    pub(super) fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("vpmu-streams-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(super) fn console(&self, stop: &Stop) -> Console {
        self.console_of(input(), stop)
    }

    /// That of a command with this input.
    fn console_of(&self, input: impl Read + Send + 'static, stop: &Stop) -> Console {
        let files = STREAMS.map(|name| File::create(self.0.join(name)).unwrap());
        let gets: Vec<_> = (0..FILES).map(|n| self.file(n)).collect();
        Console::of_streams(input, files, stop).with_files(&gets)
    }

    /// Where a console's output alone goes, and what has come of it.
    pub(super) fn of_console(&self) -> File {
        File::create(self.0.join(STREAMS[0])).unwrap()
    }

    pub(super) fn printed(&self) -> Vec<u8> {
        fs::read(self.0.join(STREAMS[0])).unwrap()
    }

    fn file(&self, n: u32) -> Get {
        Get { guest: format!("/{n}"), host: self.0.join(n.to_string()) }
    }

    /// What has come, which is written out behind each run.
    fn read(&self) -> Vec<Option<Vec<u8>>> {
        let read = |path: PathBuf| fs::read(path).ok();
        let streams = STREAMS.iter().map(|name| self.0.join(name));
        streams.chain((0..FILES).map(|n| self.file(n).host)).map(read).collect()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A guest by its seed, which has run to its `last` instruction undebugged.
struct Undebugged {
    bytes: Vec<u8>,
    last: u64,
    machine: Machine,
    written: Vec<Option<Vec<u8>>>,
}

fn undebugged(seed: u64, random: &mut Random) -> Undebugged {
    let (bytes, last) = (guest(random), 2000 + u64::from(random.below(30_000)));
    let (streams, stop) = (Streams::new(&format!("{seed}")), Stop::new().unwrap());
    let (mut machine, mut console) = (machine(&bytes), streams.console(&stop));
    machine.run_until(&stop, Some(last), &mut console).unwrap();
    Undebugged { bytes, last, machine, written: streams.read() }
}

#[test]
fn what_is_written_again_comes_once() {
    let (mut written, mut back) = (0, 0);
    for seed in 700..730 {
        let random = &mut Random(seed);
        let mut whole = undebugged(seed, random);
        let (streams, stop) = (Streams::new(&format!("{seed}-debugged")), Stop::new().unwrap());
        let (mut machine, mut console) = (machine(&whole.bytes), streams.console(&stop));
        console.remember();
        for _ in 0..3 {
            let mut session = Session::new(&mut machine, &stop, Some(whole.last), &mut console);
            session.set_stops();
            session.mark();
            for _ in 0..random.below(5) {
                let to = u64::from(random.below(whole.last as u32));
                if session.machine.retired() < to {
                    session.machine.run_until(&stop, Some(to), session.console).unwrap();
                    session.mark();
                }
                let way = [Backwards::Step(0), Backwards::Continue][random.below(2) as usize];
                let before = Moment::of(session.machine);
                session.go_back(way).unwrap();
                back += u32::from(Moment::of(session.machine) < before);
            }
            // gdb goes, and comes again.
            assert_eq!(session.leave(), None);
            let to = u64::from(random.below(whole.last as u32));
            if machine.retired() < to {
                machine.run_until(&stop, Some(to), &mut console).unwrap();
            }
        }
        machine.run_until(&stop, Some(whole.last), &mut console).unwrap();
        assert!(streams.read() == whole.written, "seed {seed}");
        assert_same(&mut whole.machine, &mut machine, &format!("seed {seed}"));
        written += whole.written.iter().flatten().map(Vec::len).sum::<usize>();
    }
    assert!(back > 50 && written > 1000, "{back} ways back, {written} bytes");
}

/// A guest whose input does not come yet stops when it is to, and goes back and forward meanwhile; when the input comes, it
/// has lost no time.
#[test]
fn who_waits_for_input_can_be_stopped() {
    let mut waited = 0;
    for seed in 740..752 {
        let random = &mut Random(seed);
        let mut whole = undebugged(seed, random);
        let (streams, stop) = (Streams::new(&format!("{seed}-waiting")), Stop::new().unwrap());
        let (opens, gate) = channel::<()>();
        let mut machine = machine(&whole.bytes);
        let mut console = streams.console_of(Gated { gate, input: input() }, &stop);
        console.remember();
        // If it does not stop, this ends it.
        let (over, is_over) = channel::<()>();
        let asking = stop.clone();
        let asks = thread::spawn(move || {
            for _ in 0..3000 {
                if is_over.recv_timeout(Duration::from_millis(20)) != Err(RecvTimeoutError::Timeout)
                {
                    return;
                }
                asking.ask_for_pause();
            }
            asking.request(Cause::Timeout);
        });
        let mut session = Session::new(&mut machine, &stop, Some(whole.last), &mut console);
        session.set_stops();
        session.mark();
        // The second time, where it has waited before.
        for _ in 0..2 {
            let mut paused = None;
            let end = loop {
                let end = session.machine.run_until(&stop, Some(whole.last), session.console);
                let moment = Moment::of(session.machine);
                match end.unwrap() {
                    // Where it is when it has waited for twice the time, it waits.
                    End::Paused if paused.replace(moment) != Some(moment) => {}
                    end => break end,
                }
            };
            assert!(matches!(end, End::Paused | End::Instructions | End::Halted), "{end:?}");
            waited += u32::from(end == End::Paused);
            let way = [Backwards::Step(0), Backwards::Continue][random.below(2) as usize];
            session.go_back(way).unwrap();
            session.set_stops();
        }
        session.leave();
        over.send(()).unwrap();
        asks.join().unwrap();
        stop.takes_pause();
        drop(opens);
        machine.run_until(&stop, Some(whole.last), &mut console).unwrap();
        assert!(streams.read() == whole.written, "seed {seed}");
        assert_same(&mut whole.machine, &mut machine, &format!("seed {seed}"));
    }
    assert!(waited > 6, "{waited}");
}

/// Input that comes when nobody holds the gate any more.
struct Gated {
    gate: Receiver<()>,
    input: Cursor<Vec<u8>>,
}

impl Read for Gated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let _ = self.gate.recv();
        self.input.read(buffer)
    }
}

/// It goes on from where it is put back to with all of its input, and what it writes there is written, though as much has
/// been before; but its files are those of what it does last.
#[test]
fn a_guest_that_gdb_has_changed_writes_anew() {
    let mut repeated = 0;
    for seed in 800..860 {
        let random = &mut Random(seed);
        let mut whole = undebugged(seed, random);
        let (streams, stop) = (Streams::new(&format!("{seed}-changed")), Stop::new().unwrap());
        let (mut machine, mut console) = (machine(&whole.bytes), streams.console(&stop));
        console.remember();
        let mut session = Session::new(&mut machine, &stop, Some(whole.last), &mut console);
        session.set_stops();
        session.mark();
        let place = u64::from(random.below(whole.last as u32));
        session.machine.run_until(&stop, Some(place), session.console).unwrap();
        session.history = History::default();
        session.mark();
        let there = streams.read();
        // Often in the midst of the same file.
        let most = [(whole.last - place) as u32, 200][random.below(2) as usize];
        let far = (place + u64::from(random.below(most))).min(whole.last);
        session.machine.run_until(&stop, Some(far), session.console).unwrap();
        let furthest = streams.read();
        session.go_back(Backwards::Continue).unwrap();
        assert_eq!(session.machine.retired(), place);
        // A change that changes nothing.
        session.forget().unwrap();
        session.machine.run_until(&stop, Some(whole.last), session.console).unwrap();
        session.leave();
        let written = streams.read();
        for (n, name) in STREAMS.iter().enumerate() {
            let [there, furthest, whole] =
                [&there, &furthest, &whole.written].map(|all| all[n].as_ref().unwrap());
            let expected = [&furthest[..], &whole[there.len()..]].concat();
            assert!(written[n].as_ref() == Some(&expected), "seed {seed}: {name}");
            repeated += furthest.len() - there.len();
        }
        assert!(written[STREAMS.len()..] == whole.written[STREAMS.len()..], "seed {seed}: files");
        assert_same(&mut whole.machine, &mut machine, &format!("seed {seed}"));
    }
    assert!(repeated > 100, "{repeated} bytes");
}
