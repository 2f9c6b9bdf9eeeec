//! Running a guest on a machine in this process.

use std::cell::Cell;
use std::time::Duration;

use vpmu::boot::memory::RamLayout;
use vpmu::boot::{self, Payload};
use vpmu::config::{Boot, Config, CycleCosts, Limits};
use vpmu::console::{Captured, Console};
use vpmu::engine::soft::{Timing, Vcpu, Warm};
use vpmu::engine::{EngineKind, IrqchipKind};
use vpmu::machine::{End, Machine, Pause};
use vpmu::program::Image;
use vpmu::snapshot::Snapshot;
use vpmu::truth::Truth;
use vpmu::truth::record::{DEFAULT_EVENTS, Recorder};
use x86_cpu::insn::Mem;
use x86_cpu::operation::Operation;

use crate::Part;

/// Limit of retired instructions, beyond which a guest is taken to be in an endless loop.
const MAX_INSTRUCTIONS: u64 = 50_000_000;
/// Time limit on KVM, beyond which a guest is taken to be in an endless loop.
const MAX_TIME: Duration = Duration::from_secs(20);

/// What executes the guests of a test.
#[derive(Debug)]
pub struct Engine {
    /// The name that tests have for it.
    pub name: &'static str,
    /// The engine.
    pub kind: EngineKind,
    /// Where the interrupt controllers are.
    pub irqchip: IrqchipKind,
    /// What execution takes in cycles.
    pub cycle_costs: CycleCosts,
    /// Whose clock virtual time is, where the part's pipeline is modelled.
    pub timing: Timing,
    /// Whether all that is executed is recorded, and the record checked.
    pub records: bool,
    /// Who goes on with the guest each time that it is put aside, in turn; nobody if it never is.
    pub goes_on: &'static [EngineKind],
    /// The parts that it executes; all if there are none.
    pub parts: &'static [&'static str],
}

/// [`Engine::PRICED`]'s: a multiplication takes 4 cycles, another instruction with a memory operand
/// (that of PUSH and POP is on the stack) 3, all else 1; a branch that is taken 2 more, a further
/// iteration 2, a delivery 6.
const PRICED: CycleCosts = CycleCosts {
    instruction: |insn| match insn.op {
        Operation::Imul => 4,
        _ if insn.mem != Mem::NONE => 3,
        _ => 1,
    },
    taken: 2,
    iteration: 2,
    delivery: 6,
};

impl Engine {
    /// The software engine.
    pub const SOFT: Self = Self {
        name: "soft",
        kind: EngineKind::Soft,
        irqchip: IrqchipKind::User,
        cycle_costs: CycleCosts::FLAT,
        timing: Timing::Auto,
        records: false,
        goes_on: &[],
        parts: &[],
    };
    /// The software engine with other cycle costs: what is not counted in cycles is the same.
    pub const PRICED: Self = Self { name: "priced", cycle_costs: PRICED, ..Self::SOFT };
    /// The software engine with the pipelines' clock while anything is counted: what is not counted in
    /// cycles is the same.
    pub const TIMED: Self = Self { name: "timed", timing: Timing::Model, ..Self::SOFT };
    /// The software engine with the truth recorder: the guest sees no
    /// difference, and what was recorded is what was counted.
    pub const RECORDED: Self = Self { name: "recorded", records: true, ..Self::SOFT };
    /// KVM.
    pub const KVM: Self = Self { name: "kvm", kind: EngineKind::Kvm, ..Self::SOFT };
    /// KVM with the interrupt controllers in the host's kernel.
    pub const KVM_IRQCHIP: Self =
        Self { name: "kvm_irqchip", irqchip: IrqchipKind::Kernel, ..Self::KVM };
    /// The software engine, with the guest put aside and taken up by another machine time and again.
    pub const SAVED: Self = Self {
        name: "saved",
        goes_on: &[EngineKind::Soft],
        parts: &["p55c", "p6", "k8", "knc"],
        ..Self::SOFT
    };
    /// KVM and the software engine in turn.
    pub const HOPPING: Self = Self {
        name: "hopping",
        goes_on: &[EngineKind::Soft, EngineKind::Kvm, EngineKind::Kvm],
        parts: &["p6", "k8"],
        ..Self::KVM
    };
    /// All of them.
    pub const ALL: [&'static Self; 8] = [
        &Self::SOFT,
        &Self::PRICED,
        &Self::TIMED,
        &Self::RECORDED,
        &Self::SAVED,
        &Self::KVM,
        &Self::KVM_IRQCHIP,
        &Self::HOPPING,
    ];

    /// Whether it executes guests of this part.
    #[must_use]
    pub fn executes(&self, part: &Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part.name)
    }
}

impl PartialEq for Engine {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

thread_local! {
    static ENGINE: Cell<&'static Engine> = const { Cell::new(&Engine::SOFT) };
}

/// What executes the guests of this thread.
#[must_use]
pub fn engine() -> &'static Engine {
    ENGINE.get()
}

/// Does `test` with `engine` executing all guests of this thread.
pub fn on_engine<T>(engine: &'static Engine, test: impl FnOnce() -> T) -> T {
    let before = ENGINE.replace(engine);
    let result = test();
    ENGINE.set(before);
    result
}

/// What can be chosen about a machine.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Processors.
    pub cpus: u8,
    /// Bytes of memory.
    pub memory: u64,
    /// Instructions between an overflow and its PMI.
    pub skid: u64,
    /// Who starts the guest.
    pub boot: Boot,
    /// Whether there is the device that kernel test suites expect.
    pub test_device: bool,
    /// Whether the software engine does without caches.
    pub no_cache: bool,
    /// Whether the software engine records what was executed.
    pub recorded: bool,
    /// Whose clock virtual time is; that of the thread's engine if nothing is said.
    pub timing: Option<Timing>,
    /// When the models are told of execution.
    pub warm: Warm,
    /// Whether a PMI sets the mask bit of LVTPC; as the processor does if nothing is said.
    pub lvtpc_auto_mask: Option<bool>,
}

impl Options {
    /// One processor, 16 MiB, no skid, no boot ROM, no record.
    pub const DEFAULT: Self = Self {
        cpus: 1,
        memory: 16 << 20,
        skid: 0,
        boot: Boot::Direct,
        test_device: false,
        no_cache: false,
        recorded: false,
        timing: None,
        warm: Warm::Counting,
        lvtpc_auto_mask: None,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What came of a run.
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// What the guest wrote to the serial port.
    pub serial: String,
    /// The machine afterwards, for its statistics.
    pub machine: Machine,
    /// What was executed, if that was recorded.
    pub truth: Option<Truth>,
}

impl Outcome {
    /// The value that the guest reported as `name`.
    ///
    /// # Panics
    /// If it did not.
    #[must_use]
    pub fn value(&self, name: &str) -> u64 {
        self.serial
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(known, _)| *known == name)
            .and_then(|(_, digits)| u64::from_str_radix(digits, 16).ok())
            .unwrap_or_else(|| panic!("the guest did not report {name}:\n{}", self.serial))
    }

    /// Compares reported values with expected ones, all of them at once.
    ///
    /// # Panics
    /// If any differs.
    pub fn expect(&self, expected: &[(&str, u64)]) {
        let wrong: Vec<_> = expected
            .iter()
            .filter(|(name, value)| self.value(name) != *value)
            .map(|(name, value)| format!("{name}: {:#x}, expected {value:#x}", self.value(name)))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Runs `image` on a machine with one processor.
///
/// # Panics
/// If it does not end by exiting with code 0 or by switching off.
#[must_use]
pub fn run(part: &Part, image: &Image) -> Outcome {
    run_with(part, image, Options::default())
}

/// Runs `image` on a machine of choice.
///
/// # Panics
/// If it does not end by exiting with code 0 or by switching off.
#[must_use]
pub fn run_with(part: &Part, image: &Image, options: Options) -> Outcome {
    let &Engine { kind: engine, irqchip, cycle_costs, timing, records, goes_on, .. } = ENGINE.get();
    let payload = Payload::Flat {
        image: boot::Image { name: "guest".into(), bytes: image.bytes.clone() },
        address: image.load_address,
    };
    let ram = RamLayout::new(options.memory, None).expect("memory");
    let known = Config::new(part.name, ram, payload).expect("a known processor");
    let config = Config {
        timing: options.timing.unwrap_or(timing),
        warm: options.warm,
        lvtpc_auto_mask: options.lvtpc_auto_mask.unwrap_or(known.lvtpc_auto_mask),
        cpus: options.cpus,
        boot: options.boot,
        skid: options.skid,
        test_device: options.test_device,
        no_cache: options.no_cache,
        cycle_costs,
        engine,
        irqchip,
        limits: limits(engine),
        ..known
    };
    let mut machine = Machine::new(&config).expect("a machine");
    let is_recorded = records || options.recorded;
    if is_recorded {
        let recorder = Recorder::new(config.personality, DEFAULT_EVENTS).expect("known events");
        machine.record(recorder).expect("the software engine");
    }
    let captured = Captured::default();
    let mut console = captured.console();
    let cuts = if is_recorded { &[] } else { goes_on };
    let end = run_in_pieces(&mut machine, &config, cuts, &mut console);
    let serial = captured.text();
    // Code 0 at the debug-exit port is status 1.
    let good = matches!(end, End::Exit(1) | End::PowerOff);
    assert!(good, "the guest ended with {end:?} and wrote:\n{serial}");
    let truth = machine.recorded().expect("room for the record");
    if let Some(truth) = &truth {
        check_sums(truth, &machine);
    }
    Outcome { end, serial, machine, truth }
}

/// How often a guest is put aside, at most.
const PIECES: u32 = 12;

/// Runs a machine to its end. It pauses, and another one goes on from a snapshot of it, on the engines that
/// `goes_on` names in turn. The pieces become longer, so that short and long guests are cut alike.
fn run_in_pieces(
    machine: &mut Machine,
    config: &Config,
    goes_on: &[EngineKind],
    console: &mut Console,
) -> End {
    let mut engine = config.engine;
    for (n, &next) in (0..PIECES).zip(goes_on.iter().cycle()) {
        machine.pause_at(match engine {
            // 11, 44, 176 ... 46 million instructions, and a few more that differ each time.
            EngineKind::Soft => {
                Pause::Instructions(machine.retired() + (11 << (2 * n)) + u64::from(n))
            }
            // 10 us, 20 us ... 20 ms at 2 GHz.
            _ => Pause::Time(machine.time() + (20_000 << n)),
        });
        match machine.run(limits(engine), console).expect("a run") {
            End::Paused => {}
            end => return end,
        }
        engine = next;
        let snapshot = Snapshot::from_bytes(&machine.snapshot().to_bytes());
        let payload = Payload::Snapshot(snapshot.expect("a snapshot"));
        let config = Config { payload, engine, limits: limits(engine), ..config.clone() };
        *machine = Machine::new(&config).expect("a machine from a snapshot");
    }
    machine.run(limits(engine), console).expect("a run")
}

/// Where a guest is taken to be in an endless loop.
fn limits(engine: EngineKind) -> Limits {
    match engine {
        EngineKind::Soft => Limits { timeout: None, instructions: Some(MAX_INSTRUCTIONS) },
        _ => Limits { timeout: Some(MAX_TIME), instructions: None },
    }
}

/// What was recorded is what was executed: by instruction as well as by context.
fn check_sums(truth: &Truth, machine: &Machine) {
    truth.check().expect("a truth in order");
    let retired: u64 = machine.vcpus().iter().map(|vcpu| vcpu.cpu.retired()).sum();
    let running = |vcpu: &Vcpu| vcpu.cpu.time - vcpu.halted_cycles;
    let cycles: u64 = machine.vcpus().iter().map(running).sum();
    for (n, event) in truth.events.iter().enumerate() {
        let rows: u64 = truth.rows.iter().map(|row| row.counts[n]).sum();
        let contexts: u64 = truth.contexts.iter().map(|context| context.own[n]).sum();
        assert_eq!(rows, contexts, "{}: by instruction and by context", event.name);
        let all = match event.name.as_str() {
            "instructions" => retired,
            "cycles" => cycles,
            _ => continue,
        };
        assert_eq!(rows, all, "{}: recorded and executed", event.name);
    }
}
