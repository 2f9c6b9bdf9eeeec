//! What the machine is: the options of every command that runs a guest.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use pmu_model::Personality;

use super::trace::TraceArgs;
use crate::boot::Payload;
use crate::boot::memory::RamLayout;
use crate::config::{self, Boot, Config, CycleCosts, Limits};
use crate::devices::rtc;
use crate::engine::soft::{Timing, Warm};
use crate::engine::{Count, EngineKind, IrqchipKind};
use crate::error::Result;
use crate::gdb::Address;
use crate::platform::Isa;
use crate::truth::record::DEFAULT_EVENTS;

/// What the machine is, for every payload.
#[derive(Args)]
pub(super) struct MachineArgs {
    /// Processor; `help` lists them.
    #[arg(long, default_value = "k8", value_parser = CpuName)]
    pub(super) cpu: String,
    /// Instruction set.
    #[arg(long, value_enum, default_value = "strict")]
    pub(super) isa: InstructionSet,
    /// Whether a PMI sets the mask bit of LVTPC; as the processor does by default.
    #[arg(long, value_enum, value_name = "on|off")]
    pub(super) lvtpc_automask: Option<Switch>,
    /// Who starts the payload.
    #[arg(long, value_enum, default_value = "direct")]
    pub(super) boot: Start,
    /// What executes the guest.
    #[arg(long, value_enum, default_value = "soft")]
    pub(super) engine: Engine,
    /// Who counts for the performance counters.
    #[arg(long, value_enum, default_value = "exact")]
    pub(super) count: Counting,
    /// Set CPUID's hypervisor bit, function 1 ECX bit 31.
    #[arg(long)]
    pub(super) hypervisor_bit: bool,
    /// Fetch, decode and walk the page tables anew for each instruction of the software engine: slow,
    /// and nothing can be stale.
    #[arg(long)]
    pub(super) no_cache: bool,
    /// Whose clock virtual time is on the software engine: of the modelled pipeline, or flat, one cycle an
    /// instruction; by default the pipeline's while a counter counts what depends on it.
    #[arg(long, value_enum, default_value = "auto", value_name = "auto|model|flat")]
    pub(super) timing: Clocks,
    /// Whether the modelled caches, TLBs and predictors also see what runs while nothing is counted.
    #[arg(long, value_enum, default_value = "counting", value_name = "counting|always")]
    pub(super) warm: Warmth,
    /// Add the device that kernel test suites expect of a PC: interrupt lines at ports 2000h to 2017h,
    /// echo and flush ports at E0h and E4h, memory at FF000000h.
    #[arg(long)]
    pub(super) test_device: bool,
    /// Where the interrupt controllers are on KVM.
    #[arg(long, value_enum, default_value = "user")]
    pub(super) irqchip: Irqchip,
    /// Number of processors: 244 of knc at most, 254 of the others.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) smp: u64,
    /// Memory, in bytes or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub(super) mem: String,
    /// Console: `stdio`, or a file for its output.
    #[arg(long, value_name = "stdio|FILE", default_value = "stdio")]
    pub(super) serial: PathBuf,
    /// Console input by virtual time and by what the guest prints: lines of microseconds and a quoted text,
    /// +microseconds behind the line before and a text, or the word wait and a text; 16 MiB at most.
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// Type SEND once the guest has printed TEXT; once more for what it prints and is sent then.
    #[arg(long, value_name = "TEXT=SEND", conflicts_with = "input")]
    pub(super) expect: Vec<String>,
    /// Statistics after the run.
    #[arg(long, value_enum, value_name = "table|json|none")]
    pub(super) stats: Option<Stats>,
    /// Write the statistics there and not to standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) stats_file: Option<PathBuf>,
    /// Write there what the guest really executed: exact counts for each instruction address, and who
    /// called whom; see `vpmu truth`. The software engine only.
    #[arg(long, value_name = "FILE")]
    pub(super) truth: Option<PathBuf>,
    /// What --truth counts, beside what the guest programs its counters to: instructions, cycles,
    /// branches, taken-branches, loads, stores, signals and events, separated by commas.
    #[arg(long, value_name = "LIST", default_value = DEFAULT_EVENTS, hide_default_value = true,
          requires = "truth")]
    pub(super) truth_events: String,
    #[command(flatten)]
    pub(super) trace: TraceArgs,
    /// Wait there for gdb before the first instruction, and let it have the machine: HOST:PORT, PORT or unix:PATH;
    /// 127.0.0.1:1234 by default.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = Address::DEFAULT)]
    pub(super) gdb: Option<Address>,
    /// Names for the addresses in the truth and of where the run stopped: an ELF file, loaded at ADDRESS
    /// or, in the truth, found by its code, or a System.map, moved by ADDRESS. Kernels bring their own, and
    /// so do the files packed by `exec`.
    #[arg(long, value_name = "FILE[@ADDRESS]")]
    pub(super) symbols: Vec<String>,
    /// Write there, as JSON, the state of each processor at the end and the last exceptions that it raised:
    /// what is printed if the run ends against the guest's wish.
    #[arg(long, value_name = "FILE")]
    pub(super) debug_dump: Option<PathBuf>,
    /// Stop after this many seconds of real time, from the start of the command.
    #[arg(long, value_name = "SECONDS")]
    pub(super) timeout: Option<u64>,
    /// Stop after this many instructions of all processors together.
    #[arg(long, value_name = "N")]
    pub(super) max_instructions: Option<u64>,
    /// Do not show on the terminal, while the console is idle, that the guest runs.
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Instructions between a counter's overflow and its interrupt.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) skid: u64,
    /// Processor clock in Hz; the processor's own by default.
    #[arg(long, value_name = "HZ",
          value_parser = clap::value_parser!(u64).range(config::CLOCKS))]
    pub(super) clock: Option<u64>,
    /// Seconds since 1970 that the real-time clock shows at power-on.
    #[arg(long, value_name = "UNIXSECONDS", default_value_t = rtc::DEFAULT_START,
          value_parser = clap::value_parser!(i64).range(0..=253_402_300_799))]
    pub(super) rtc: i64,
}

impl MachineArgs {
    /// Whether the console is on standard input and output, and not a file.
    pub(super) fn is_console_on_stdio(&self) -> bool {
        self.serial.as_os_str() == "stdio"
    }
}

/// The value of `--cpu`: any name, or `help`, which ends the command line with the list.
#[derive(Clone)]
pub(super) struct CpuName;

impl TypedValueParser for CpuName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> std::result::Result<String, clap::Error> {
        if value == "help" {
            return Err(clap::Error::raw(ErrorKind::DisplayHelp, config::known_cpus()));
        }
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let known = Personality::ALL.iter().map(|personality| PossibleValue::new(personality.name));
        Some(Box::new(known))
    }
}

/// As [`Isa`].
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum InstructionSet {
    /// The processor's own; what it lacks raises #UD.
    Strict,
    /// With what the amd64 kernel of a distribution insists on.
    Distro,
}

impl From<InstructionSet> for Isa {
    fn from(set: InstructionSet) -> Self {
        match set {
            InstructionSet::Strict => Self::Strict,
            InstructionSet::Distro => Self::Distro,
        }
    }
}

/// As [`Timing`].
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Clocks {
    /// The pipeline's while a counter, or --truth, counts what depends on it, else flat.
    Auto,
    /// The pipeline's while anything is counted.
    Model,
    /// One cycle for each instruction.
    Flat,
}

impl From<Clocks> for Timing {
    fn from(clocks: Clocks) -> Self {
        match clocks {
            Clocks::Auto => Self::Auto,
            Clocks::Model => Self::Model,
            Clocks::Flat => Self::Flat,
        }
    }
}

/// As [`Warm`].
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Warmth {
    /// While a counter, or --truth, counts what they tell.
    Counting,
    /// Always.
    Always,
}

impl From<Warmth> for Warm {
    fn from(warmth: Warmth) -> Self {
        match warmth {
            Warmth::Counting => Self::Counting,
            Warmth::Always => Self::Always,
        }
    }
}

/// As [`Boot`].
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Start {
    /// The machine begins with the payload's first instruction.
    Direct,
    /// The boot ROM, after a self-test of the PMU registers that it prints on the console.
    Firmware,
}

impl From<Start> for Boot {
    fn from(start: Start) -> Self {
        match start {
            Start::Direct => Self::Direct,
            Start::Firmware => Self::Firmware,
        }
    }
}

/// As [`EngineKind`].
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Engine {
    /// The software engine: deterministic, needs nothing of the host.
    Soft,
    /// The host's KVM; counted exactly by the software engine while a counter is enabled.
    Kvm,
    /// KVM if it is there and the guest can use it, else the software engine.
    Auto,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Soft => Self::Soft,
            Engine::Kvm => Self::Kvm,
            Engine::Auto => Self::Auto,
        }
    }
}

/// As [`Count`].
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Counting {
    /// The software engine, exactly.
    Exact,
    /// The host's performance counters, what they can; needs --engine kvm and a host with a PMU.
    Host,
    /// Nobody: registers are live, counters stand still and never interrupt.
    Off,
}

impl From<Counting> for Count {
    fn from(counting: Counting) -> Self {
        match counting {
            Counting::Exact => Self::Exact,
            Counting::Host => Self::Host,
            Counting::Off => Self::Off,
        }
    }
}

/// As [`IrqchipKind`].
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Irqchip {
    /// In this process: local APICs are the processor's own.
    User,
    /// In the host's kernel: faster, and its local APICs.
    Kernel,
}

impl From<Irqchip> for IrqchipKind {
    fn from(irqchip: Irqchip) -> Self {
        match irqchip {
            Irqchip::User => Self::User,
            Irqchip::Kernel => Self::Kernel,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Stats {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// Nothing.
    None,
}

/// When a run is cut off.
pub(super) fn limits(args: &MachineArgs) -> Limits {
    Limits { timeout: args.timeout.map(Duration::from_secs), instructions: args.max_instructions }
}

/// The machine that the command line asks for.
pub(super) fn machine_config(
    args: &MachineArgs,
    payload: impl FnOnce(&RamLayout) -> Result<Payload>,
) -> Result<Config> {
    let (personality, platform) = config::personality(&args.cpu)?;
    let cpus = config::processors(args.smp, platform)?;
    let clock_hz = args.clock.unwrap_or(platform.clock_hz);
    let ram = config::memory(&args.mem)?;
    Ok(Config {
        personality,
        platform,
        isa: args.isa.into(),
        lvtpc_auto_mask: args
            .lvtpc_automask
            .map_or(personality.lvtpc_auto_mask, |switch| switch == Switch::On),
        cpus,
        payload: payload(&ram)?,
        ram,
        boot: args.boot.into(),
        clock_hz,
        start_time: args.rtc,
        skid: args.skid,
        script: config::script(args.input.as_ref(), &args.expect, clock_hz)?,
        engine: args.engine.into(),
        count: args.count.into(),
        hypervisor_bit: args.hypervisor_bit,
        no_cache: args.no_cache,
        cycle_costs: CycleCosts::FLAT,
        timing: args.timing.into(),
        warm: args.warm.into(),
        test_device: args.test_device,
        pipes: false,
        irqchip: args.irqchip.into(),
        limits: limits(args),
    })
}
