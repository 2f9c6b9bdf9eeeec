//! The target `driver`: Linux's driver of the PMU, on a K8 whose hardware lies.
//!
//! The guest is Debian's kernel, and one program that samples and counts itself, round after round (`guest.rs`). Every
//! input begins at the end of its first rounds. It is a list of lies, each behind so many instructions: another answer to
//! the next RDMSR of a register of the PMU, a counter that changes by itself, an interrupt of a counter that has not
//! overflowed, interrupts that come later. Behind that, Linux has to go on: the program comes to the end of a round, and
//! the console has no warning, no oops and nothing else that is not expected (`EXPECTED`).

mod guest;

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use vpmu::boot::memory::RamLayout;
use vpmu::boot::{Image, Kernel, LinuxEntry, Payload};
use vpmu::config::Config;
use vpmu::console::Console;
use vpmu::exec::guests::Guests;
use vpmu::machine::{End, Machine, Pause};
use vpmu::snapshot::Snapshot;
use vpmu::stop::Stop;

use crate::random::Random;

/// Bytes of memory.
const MEMORY: u64 = 128 << 20;
/// Instructions in which the kernel comes to the program.
const BOOT: u64 = 6_000_000_000;
/// Rounds before the door.
const ROUNDS: usize = 3;
/// Most lies of an input.
const LIES: usize = 16;
/// Instructions in which an access to a register is waited for, and in which a round comes to its end: one takes some
/// tens of thousands.
const PATIENCE: u64 = 300_000;
const ROUND: u64 = 20_000_000;

/// Warnings (4) and what is worse are printed, those of `WARN` among them, which `quiet` would hide. The watchdog that
/// finds lockups by NMIs would take one of the counters.
const COMMAND_LINE: &str = "console=ttyS0 loglevel=5 nmi_watchdog=0 panic=-1";

/// What Linux prints by design, each with the reason. Every other line of a warning's level or a higher one is a find.
const EXPECTED: [(&str, &str); 4] = [
    (
        "Uhhuh. NMI received for unknown reason",
        "an NMI that no handler claims is reported so, and all that its driver can know of a PMI is that a counter has \
         overflowed (arch/x86/kernel/nmi.c, unknown_nmi_error; Linux takes one for its own within 100 ms of a sample, \
         amd_pmu_handle_irq)",
    ),
    ("Dazed and confused, but trying to continue", "the next line of the same"),
    (
        "perf: interrupt took too long",
        "the time that an interrupt takes is measured, and sampling slowed down: kernel/events/core.c, \
         perf_duration_warn",
    ),
    (
        "clocksource:",
        "time is measured by several clocks, and virtual time passes in their own ways",
    ),
];

/// The registers of a K8: PerfEvtSel0-3 and PerfCtr0-3 (AMD 26094, "MSRs").
const SELECTS: u32 = 0xC001_0000;
const COUNTERS: u32 = 0xC001_0004;

/// What the hardware does that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// The next RDMSR of a register answers so; or with these bits changed.
    Answer {
        msr: u32,
        value: u64,
    },
    Flip {
        msr: u32,
        bits: u64,
    },
    /// A register of the PMU has another value.
    Change {
        msr: u32,
        value: u64,
    },
    /// An interrupt of no overflow.
    Pmi,
    /// From now on interrupts come so late.
    Late(u64),
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { msr, value } => write!(f, "RDMSR {msr:X}h answers {value:X}h"),
            Self::Flip { msr, bits } => {
                write!(f, "RDMSR {msr:X}h answers with bits {bits:X}h changed")
            }
            Self::Change { msr, value } => write!(f, "MSR {msr:X}h becomes {value:X}h"),
            Self::Pmi => f.write_str("a PMI without an overflow"),
            Self::Late(n) => write!(f, "from now on PMIs come {n} instructions late"),
        }
    }
}

/// The lies of an input, each with how many instructions pass before it.
fn lies(bytes: &[u8]) -> Vec<(u64, Lie)> {
    let mut bytes = bytes.iter().copied();
    let mut lies = Vec::new();
    while lies.len() < LIES {
        let Some(first) = bytes.next() else { break };
        let mut byte = || bytes.next().unwrap_or(0);
        let pause = u64::from(byte()) << (first >> 4 & 7);
        let register = byte();
        let counter = COUNTERS + u32::from(register & 3);
        let msr = if register & 4 == 0 { counter } else { SELECTS + u32::from(register & 3) };
        let mut number = || {
            let [shape, low] = [byte(), byte()];
            let number = u64::from(low) << (shape & 63);
            if shape & 64 == 0 { number } else { number.wrapping_neg() }
        };
        let lie = match first & 15 {
            0..=3 => Lie::Answer { msr, value: number() },
            4..=6 => Lie::Flip { msr, bits: number() },
            7..=10 => {
                Lie::Change { msr: if first & 128 == 0 { counter } else { msr }, value: number() }
            }
            11..=13 => Lie::Pmi,
            _ => Lie::Late(number() & 0xFFFF),
        };
        lies.push((pause, lie));
    }
    lies
}

/// What a guest prints.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn take(&self) -> String {
        let bytes = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A machine at the door.
struct Linux {
    machine: Machine,
    base: Snapshot,
    stop: Stop,
    console: Console,
    printed: Printed,
}

/// The kernel, booted to the door once a process.
fn door() -> Result<&'static Snapshot, String> {
    static DOOR: OnceLock<Result<Snapshot, String>> = OnceLock::new();
    DOOR.get_or_init(boot).as_ref().map_err(Clone::clone)
}

/// The kernel that is there, or what to do about that there is none.
///
/// # Errors
/// There is none.
pub fn kernel() -> Result<std::path::PathBuf, String> {
    let no_kernel = |error: vpmu::error::Error| {
        format!(
            "the target driver needs a kernel, which `vpmu fetch` or guest-tests/linux/fetch gets: {error}"
        )
    };
    Guests::find().kernel(None).map_err(no_kernel)
}

fn boot() -> Result<Snapshot, String> {
    let kernel = kernel()?;
    let ram = RamLayout::new(MEMORY, None).map_err(|e| e.to_string())?;
    let image = Image::read_kernel(&kernel, &ram).map_err(|e| e.to_string())?;
    let archive = Image { name: "the program".into(), bytes: guest::archive()? };
    let payload = Payload::Kernel(Kernel {
        image,
        modules: vec![archive.into()],
        command_line: COMMAND_LINE.into(),
        entry: LinuxEntry::Auto,
    });
    let config = Config::new("k8", ram, payload).map_err(|e| e.to_string())?;
    let mut linux = Linux::new(Machine::new(&config).map_err(|e| e.to_string())?)?;
    for _ in 0..ROUNDS {
        let end = linux.run(Pause::Marker, BOOT)?;
        if end != End::Paused {
            return Err(format!(
                "Linux does not come to the door: {end:?}; {}",
                linux.printed.take()
            ));
        }
    }
    Ok(linux.machine.snapshot())
}

impl Linux {
    fn new(mut machine: Machine) -> Result<Self, String> {
        let printed = Printed::default();
        let console = Console::to("memory".into(), Box::new(printed.clone()));
        let stop = Stop::new().map_err(|e| e.to_string())?;
        let base = machine.snapshot();
        Ok(Self { machine, base, stop, console, printed })
    }

    fn at_door() -> Result<Self, String> {
        let snapshot = door()?.clone();
        let identity = snapshot.identity.clone();
        let config = identity.config(Payload::Snapshot(snapshot)).map_err(|e| e.to_string())?;
        Self::new(Machine::new(&config).map_err(|e| e.to_string())?)
    }

    /// Runs until it pauses, for so many instructions at most.
    fn run(&mut self, pause: Pause, instructions: u64) -> Result<End, String> {
        self.machine.pause_at(pause);
        let limit = Some(self.machine.retired() + instructions);
        self.machine.run_until(&self.stop, limit, &mut self.console).map_err(|e| e.to_string())
    }

    /// Lies, as the input says; and then no more. How many of them it came to: a register may not be read any more, or
    /// not take the value.
    fn play(&mut self, lies: &[(u64, Lie)]) -> Result<usize, String> {
        self.machine.reset_to(&self.base).map_err(|e| e.to_string())?;
        self.machine.set_skid(0);
        self.printed.take();
        let (mut end, mut told) = (End::Paused, 0);
        for &(pause, lie) in lies {
            let at = Pause::Instructions(self.machine.retired() + pause);
            end = self.run(at, pause)?;
            if !matches!(end, End::Paused | End::Instructions) {
                break;
            }
            told += usize::from(self.lie(lie)?);
        }
        // Two, since the first may have had its end before the last of them.
        for _ in 0..2 {
            if matches!(end, End::Paused | End::Instructions) {
                end = self.run(Pause::Marker, ROUND)?;
            }
        }
        let printed = self.printed.take();
        let is_expected = |line: &str| EXPECTED.iter().any(|(text, _)| line.contains(text));
        let mut lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
        if let Some(line) = lines.find(|line| !is_expected(line)) {
            // A WARN or a BUG begins with a line that is always the same; the next says where it is.
            let what = if line.contains("[ cut here ]") { lines.next() } else { None };
            return Err(format!("Linux prints: {}", what.unwrap_or(line)));
        }
        match end {
            End::Paused => Ok(told),
            end => Err(format!("Linux does not come to the end of a round: {end:?}; {printed:?}")),
        }
    }

    /// Whether it came to that.
    fn lie(&mut self, lie: Lie) -> Result<bool, String> {
        match lie {
            Lie::Answer { msr, value } => self.answer(msr, |_| value),
            Lie::Flip { msr, bits } => self.answer(msr, |answer| answer ^ bits),
            Lie::Change { msr, value } => Ok(self.machine.change_register(0, msr, value)),
            Lie::Pmi => {
                self.machine.send_pmi(0);
                Ok(true)
            }
            Lie::Late(instructions) => {
                self.machine.set_skid(instructions);
                Ok(true)
            }
        }
    }

    /// The next RDMSR of a register answers with something else; whether it came.
    fn answer(&mut self, msr: u32, with: impl Fn(u64) -> u64) -> Result<bool, String> {
        const RAX: u8 = 0;
        const RDX: u8 = 2;
        // It also pauses at writes.
        while self.run(Pause::Msr(msr), PATIENCE)? == End::Paused {
            let cpu = &self.machine.vcpus()[0].cpu;
            let answer = cpu.gpr(RAX) & 0xFFFF_FFFF | cpu.gpr(RDX) << 32;
            if self.machine.answer_rdmsr_with(0, with(answer)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

thread_local! {
    /// The machine, once it was needed.
    static LINUX: RefCell<Option<Linux>> = const { RefCell::new(None) };
}

/// Plays an input: how many lies Linux was told.
///
/// # Errors
/// What Linux says to that, or that there is no Linux.
pub fn play(bytes: &[u8]) -> Result<usize, String> {
    let lies = lies(bytes);
    // A machine that panics is not used again.
    let mut linux = match LINUX.take() {
        Some(linux) => linux,
        None => Linux::at_door()?,
    };
    let played = linux.play(&lies);
    LINUX.set(Some(linux));
    played
}

/// An input in words.
pub fn words(bytes: &[u8]) -> String {
    let lies = lies(bytes);
    let line = |(pause, lie): &(u64, Lie)| format!("  behind {pause:5} instructions: {lie}\n");
    let lies: String = lies.iter().map(line).collect();
    format!("Linux on a K8\n{lies}")
}

/// A generated input: up to eight lies.
pub fn input(random: &mut Random) -> Vec<u8> {
    (0..1 + random.below(5)).flat_map(|_| random.bytes()).collect()
}
