//! The command line.

mod exec;
mod help;
mod invocation;
mod pages;
mod test;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use pmu_model::Personality;

use self::exec::{ExecArgs, FetchArgs};
use self::help::{answer, examples, examples_and_statuses};
use self::invocation::Invocation;
use self::pages::{ManArgs, Shell, completions};
use self::test::TestArgs;
use crate::boot::memory::RamLayout;
use crate::boot::{Image, Kernel, LinuxEntry, Module, Payload, Room};
use crate::config::{Boot, Config, CycleCosts, Limits};
use crate::console::{Console, print, print_last};
use crate::debug_dump::DebugDump;
use crate::devices::rtc;
use crate::engine::soft::{Timing, Warm};
use crate::engine::{Count, EngineKind, IrqchipKind};
use crate::error::{Error, Result, status};
use crate::exec::Request;
use crate::file;
use crate::machine::{End, Machine};
use crate::output::{say, say_all};
use crate::platform::Isa;
use crate::progress::Progress;
use crate::reference::Page;
use crate::stop::{Stop, Watch};
use crate::summary::Summary;
use crate::symbols::{self, GuestMemory, Sources, SymbolFile};
use crate::terminal::RawMode;
use crate::truth::Truth;
use crate::truth::command::TruthArgs;
use crate::truth::record::{DEFAULT_EVENTS, Recorder};
use crate::{config, demo, events, explain, list, stat};

/// A full-system x86 PMU emulator: guests see, and program, the performance counters of another processor.
#[derive(Parser)]
#[command(name = "vpmu", version, after_help = examples_and_statuses("vpmu"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a guest.
    #[command(after_help = examples_and_statuses("run"))]
    Run(RunArgs),
    /// Run a guest and count from outside what it does, whatever it programs itself.
    #[command(after_help = examples_and_statuses("stat"))]
    Stat(StatArgs),
    /// List the processors, a line each.
    #[command(after_help = examples("list"))]
    List {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// List the events of a processor.
    #[command(after_help = examples("events"))]
    Events(EventsArgs),
    /// Put a PMU register value into words, or words into an event-select value.
    #[command(after_help = examples("explain"))]
    Explain(ExplainArgs),
    /// Print a page of the documentation that is made from the data, in Markdown.
    #[command(after_help = examples("reference"))]
    Reference {
        /// The page.
        page: Page,
    },
    /// Report what a truth file tells: which code was executed how often, and who called it.
    #[command(after_help = examples("truth"))]
    Truth(TruthArgs),
    /// Run guest images that test something, on processors of choice, and report in TAP.
    #[command(after_help = examples("test"))]
    Test(TestArgs),
    /// Print the script by which a shell completes the words of a command line.
    #[command(after_help = examples("completions"))]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a page of the manual, for man(1).
    #[command(after_help = examples("man"))]
    Man(ManArgs),
    /// Run a command of the host in a Linux guest.
    #[command(after_help = examples_and_statuses("exec"))]
    Exec(ExecArgs),
    /// Get a kernel, busybox, perf and LIKWID of Debian for `exec`.
    #[command(after_help = examples("fetch"))]
    Fetch(FetchArgs),
}

#[derive(Args)]
#[command(group(ArgGroup::new("payload").required(true).args(["kernel", "flat", "demo"])))]
struct RunArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Kernel: a bzImage, an ELF, or a multiboot image.
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Initial RAM disk of the kernel, or a multiboot module.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["flat", "demo"])]
    initrd: Vec<PathBuf>,
    /// Multiboot module: a file and, behind a blank, its command line.
    #[arg(long, value_name = "FILE[ ARGUMENTS]", conflicts_with_all = ["initrd", "flat", "demo"])]
    module: Vec<String>,
    /// Kernel command line.
    #[arg(long, value_name = "STR", default_value = "", conflicts_with_all = ["flat", "demo"])]
    append: String,
    /// Entry point of a bzImage.
    #[arg(long, value_enum, default_value = "auto", conflicts_with_all = ["flat", "demo"])]
    entry: EntryPoint,
    /// Raw bytes at a physical address; below 1 MiB they start in real mode, else in 32-bit
    /// protected mode.
    #[arg(long, value_name = "FILE@ADDR")]
    flat: Option<String>,
    /// A guest that is built in; `list` lists them.
    #[arg(long, value_name = "NAME")]
    demo: Option<String>,
    /// Exit with the value that the guest writes to the debug-exit port itself, and not value * 2 + 1.
    #[arg(long)]
    exit_raw: bool,
}

impl RunArgs {
    /// The exit status for an end.
    fn status(&self) -> fn(End) -> u8 {
        if self.exit_raw { End::status_as_reported } else { End::status }
    }
}

#[derive(Args)]
struct StatArgs {
    #[command(flatten)]
    run: RunArgs,
    /// What is counted, as `--truth-events` takes it.
    #[arg(short, long, value_name = "LIST")]
    events: Option<String>,
    /// Compute what users of the processor compute from its events, and count these.
    #[arg(long)]
    metrics: bool,
    /// Show each processor besides all of them.
    #[arg(long)]
    per_cpu: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum EntryPoint {
    /// The 64-bit one if there is one.
    Auto,
    /// 32-bit protected mode.
    #[value(name = "32")]
    Bits32,
    /// Long mode.
    #[value(name = "64")]
    Bits64,
}

/// What the machine is, for every payload.
#[derive(Args)]
struct MachineArgs {
    /// Processor; `help` lists them.
    #[arg(long, default_value = "k8", value_parser = CpuName)]
    cpu: String,
    /// Instruction set.
    #[arg(long, value_enum, default_value = "strict")]
    isa: InstructionSet,
    /// Whether a PMI sets the mask bit of LVTPC; as the processor does by default.
    #[arg(long, value_enum, value_name = "on|off")]
    lvtpc_automask: Option<Switch>,
    /// Who starts the payload.
    #[arg(long, value_enum, default_value = "direct")]
    boot: Start,
    /// What executes the guest.
    #[arg(long, value_enum, default_value = "soft")]
    engine: Engine,
    /// Who counts for the performance counters.
    #[arg(long, value_enum, default_value = "exact")]
    count: Counting,
    /// Set CPUID's hypervisor bit, function 1 ECX bit 31.
    #[arg(long)]
    hypervisor_bit: bool,
    /// Fetch, decode and walk the page tables anew for each instruction of the software engine: slow,
    /// and nothing can be stale.
    #[arg(long)]
    no_cache: bool,
    /// Whose clock virtual time is on the software engine: of the modelled pipeline, or flat, one cycle an
    /// instruction; by default the pipeline's while a counter counts what depends on it.
    #[arg(long, value_enum, default_value = "auto", value_name = "auto|model|flat")]
    timing: Clocks,
    /// Whether the modelled caches, TLBs and predictors also see what runs while nothing is counted.
    #[arg(long, value_enum, default_value = "counting", value_name = "counting|always")]
    warm: Warmth,
    /// Add the device that kernel test suites expect of a PC: interrupt lines at ports 2000h to 2017h,
    /// echo and flush ports at E0h and E4h, memory at FF000000h.
    #[arg(long)]
    test_device: bool,
    /// Where the interrupt controllers are on KVM.
    #[arg(long, value_enum, default_value = "user")]
    irqchip: Irqchip,
    /// Number of processors: 244 of knc at most, 254 of the others.
    #[arg(long, value_name = "N", default_value_t = 1)]
    smp: u64,
    /// Memory, in bytes or with K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    mem: String,
    /// Console: `stdio`, or a file for its output.
    #[arg(long, value_name = "stdio|FILE", default_value = "stdio")]
    serial: PathBuf,
    /// Console input by virtual time and by what the guest prints: lines of microseconds and a quoted text,
    /// +microseconds behind the line before and a text, or the word wait and a text; 16 MiB at most.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Type SEND once the guest has printed TEXT; once more for what it prints and is sent then.
    #[arg(long, value_name = "TEXT=SEND", conflicts_with = "input")]
    expect: Vec<String>,
    /// Statistics after the run.
    #[arg(long, value_enum, value_name = "table|json|none")]
    stats: Option<Stats>,
    /// Write the statistics there and not to standard output.
    #[arg(long, value_name = "FILE")]
    stats_file: Option<PathBuf>,
    /// Write there what the guest really executed: exact counts for each instruction address, and who
    /// called whom; see `vpmu truth`. The software engine only.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// What --truth counts, beside what the guest programs its counters to: instructions, cycles,
    /// branches, taken-branches, loads, stores, signals and events, separated by commas.
    #[arg(long, value_name = "LIST", default_value = DEFAULT_EVENTS, hide_default_value = true,
          requires = "truth")]
    truth_events: String,
    /// Names for the addresses in the truth and of where the run stopped: an ELF file, loaded at ADDRESS
    /// or, in the truth, found by its code, or a System.map, moved by ADDRESS. Kernels bring their own, and
    /// so do the files packed by `exec`.
    #[arg(long, value_name = "FILE[@ADDRESS]")]
    symbols: Vec<String>,
    /// Write there, as JSON, the state of each processor at the end and the last exceptions that it raised:
    /// what is printed if the run ends against the guest's wish.
    #[arg(long, value_name = "FILE")]
    debug_dump: Option<PathBuf>,
    /// Stop after this many seconds of real time, from the start of the command.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Stop after this many instructions of all processors together.
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// Do not show on the terminal, while the console is idle, that the guest runs.
    #[arg(long, short)]
    quiet: bool,
    /// Instructions between a counter's overflow and its interrupt.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skid: u64,
    /// Processor clock in Hz; the processor's own by default.
    #[arg(long, value_name = "HZ",
          value_parser = clap::value_parser!(u64).range(1_000_000..=1_000_000_000_000))]
    clock: Option<u64>,
    /// Seconds since 1970 that the real-time clock shows at power-on.
    #[arg(long, value_name = "UNIXSECONDS", default_value_t = rtc::DEFAULT_START,
          value_parser = clap::value_parser!(i64).range(0..=253_402_300_799))]
    rtc: i64,
}

impl MachineArgs {
    /// Whether the console is on standard input and output, and not a file.
    fn is_console_on_stdio(&self) -> bool {
        self.serial.as_os_str() == "stdio"
    }
}

/// The value of `--cpu`: any name, or `help`, which ends the command line with the list.
#[derive(Clone)]
struct CpuName;

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
enum InstructionSet {
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
enum Clocks {
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
enum Warmth {
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
enum Start {
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
enum Engine {
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
enum Counting {
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
enum Irqchip {
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
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stats {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// Nothing.
    None,
}

#[derive(Args)]
struct EventsArgs {
    /// Processor, or `all`; `help` lists them.
    #[arg(long, default_value = "k8", value_parser = CpuName)]
    cpu: String,
    /// Part of a name, by the manual, perf, libpfm4, OProfile, perfctr or LIKWID; or a code in hexadecimal.
    pattern: Option<String>,
    /// As a JSON array.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ExplainArgs {
    /// Processor; `help` lists them.
    #[arg(long, default_value = "k8", value_parser = CpuName)]
    cpu: String,
    /// Register: its name, or its number in hexadecimal.
    #[arg(required_unless_present = "encode", requires = "value")]
    msr: Option<String>,
    /// Value in hexadecimal.
    value: Option<String>,
    /// Event and modifiers, as in RETIRED_BRANCH_INSTRUCTIONS:u:int; `help` lists the modifiers.
    #[arg(long, value_name = "WORDS", conflicts_with = "msr")]
    encode: Option<String>,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let result = match parsed(std::env::args_os()) {
        Ok((cli, invocation)) => {
            env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"))
                .format_timestamp(None)
                .init();
            dispatch(cli.command, &invocation)
        }
        Err(error) => answer(&error),
    };
    ExitCode::from(result.unwrap_or_else(|error| {
        // Standard error may be gone; there is nowhere else to say so.
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("vpmu: {error}\n"));
        error.status()
    }))
}

/// The command line, and the same as it goes into the statistics of a run.
fn parsed(
    words: impl IntoIterator<Item = OsString>,
) -> std::result::Result<(Cli, Invocation), clap::Error> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let chosen = matches.subcommand();
    let chosen = chosen.and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)));
    let (command, matches) = chosen.unwrap_or((&command, &matches));
    Ok((cli, Invocation::new(command, matches)))
}

fn dispatch(command: Command, invocation: &Invocation) -> Result<u8> {
    match command {
        Command::Run(args) if args.demo.as_deref() == Some("list") => {
            let lines: Vec<_> =
                demo::ALL.iter().map(|demo| format!("{}: {}\n", demo.name, demo.about)).collect();
            print(&lines.concat())?;
            Ok(status::POWER_OFF)
        }
        Command::Run(args) => {
            let payload = |ram: &RamLayout| payload(&args, ram);
            let report = Report::Statistics(Stats::Table);
            let (machine, status) = (&args.machine, args.status());
            supervised(Job { machine, invocation, report, exec: None, status }, payload)
        }
        Command::Stat(args) => {
            let StatArgs { run, events, metrics, per_cpu, json } = &args;
            let (events, (metrics, per_cpu, json)) =
                (events.as_deref(), (*metrics, *per_cpu, *json));
            let asked = stat::Asked { events, metrics, per_cpu, json };
            let payload = |ram: &RamLayout| payload(run, ram);
            let report = Report::Counted(asked);
            let (machine, status) = (&run.machine, run.status());
            supervised(Job { machine, invocation, report, exec: None, status }, payload)
        }
        Command::List { json } => {
            print(&list::list(json)?)?;
            Ok(status::POWER_OFF)
        }
        Command::Events(args) => {
            let personalities = events::personalities(&args.cpu)?;
            print(&events::list(&personalities, args.pattern.as_deref(), args.json)?)?;
            Ok(status::POWER_OFF)
        }
        Command::Explain(args) => {
            let (personality, _) = config::personality(&args.cpu)?;
            let text = match (&args.encode, &args.msr, &args.value) {
                (Some(words), _, _) if words == "help" => explain::modifiers(personality),
                (Some(words), _, _) => explain::encode(personality, words)?,
                (None, Some(msr), Some(value)) => explain::decode(personality, msr, value)?,
                _ => return Err(Error::Usage("explain needs a register and a value".into())),
            };
            print(&text)?;
            Ok(status::POWER_OFF)
        }
        Command::Reference { page } => {
            print(&page.text())?;
            Ok(status::POWER_OFF)
        }
        Command::Test(args) => args.run(),
        Command::Completions { shell } => {
            print(&completions(shell, Cli::command()))?;
            Ok(status::POWER_OFF)
        }
        Command::Man(args) => {
            args.run(Cli::command())?;
            Ok(status::POWER_OFF)
        }
        Command::Truth(args) => {
            args.run()?;
            Ok(status::POWER_OFF)
        }
        Command::Exec(args) => args.run(invocation),
        Command::Fetch(args) => args.run(),
    }
}

fn payload(args: &RunArgs, ram: &RamLayout) -> Result<Payload> {
    if let Some(flat) = &args.flat {
        return config::flat(flat, ram);
    }
    if let Some(name) = &args.demo {
        return demo_payload(name, &args.machine.cpu);
    }
    let kernel = args.kernel.as_ref().ok_or_else(|| Error::Usage("nothing to run".into()))?;
    Ok(Payload::Kernel(Kernel {
        image: Image::read_kernel(kernel, ram)?,
        modules: modules(args, ram)?,
        command_line: args.append.clone(),
        entry: match args.entry {
            EntryPoint::Auto => LinuxEntry::Auto,
            EntryPoint::Bits32 => LinuxEntry::Bits32,
            EntryPoint::Bits64 => LinuxEntry::Bits64,
        },
    }))
}

/// What the kernel is handed.
fn modules(args: &RunArgs, ram: &RamLayout) -> Result<Vec<Module>> {
    let [initrd, module] = ["--initrd", "--module"].map(|option| Room::memory(option, ram));
    let whole = args.initrd.iter().map(|path| Ok(Image::read(path, &initrd)?.into()));
    let with_command_lines = args.module.iter().map(|text| {
        let (path, command_line) = text.split_once(' ').unwrap_or((text, ""));
        let image = Image::read(Path::new(path), &module)?;
        Ok(Module { image, command_line: command_line.into() })
    });
    whole.chain(with_command_lines).collect()
}

/// A guest that is built in.
fn demo_payload(name: &str, cpu: &str) -> Result<Payload> {
    let demo = demo::find(name).ok_or_else(|| {
        let known: Vec<_> = demo::ALL.iter().map(|demo| demo.name).collect();
        Error::Usage(format!("unknown demo {name:?}; known: {}", known.join(", ")))
    })?;
    let part = demo::Part::by_name(cpu)
        .ok_or_else(|| Error::Usage(format!("demo {name} does not know CPU {cpu:?}")))?;
    let image = (demo.build)(part).map_err(|e| Error::Host(format!("demo {name}: {e}")))?;
    Ok(Payload::Flat {
        image: Image { name: format!("demo {name}"), bytes: image.bytes },
        address: image.load_address,
    })
}

/// What is reported at the end.
#[derive(Clone, Copy)]
enum Report<'a> {
    /// The counters that the guest programmed, in this form unless the command line says otherwise.
    Statistics(Stats),
    /// What was counted from outside.
    Counted(stat::Asked<'a>),
}

/// A run that the command line asks for, without what runs.
#[derive(Clone, Copy)]
struct Job<'a> {
    machine: &'a MachineArgs,
    invocation: &'a Invocation,
    report: Report<'a>,
    /// If it runs a command: what is asked for.
    exec: Option<&'a Request<'a>>,
    /// The exit status for an end.
    status: fn(End) -> u8,
}

/// Runs a machine, reports, and gives the status for the end. The time limit holds for all of it,
/// from the reading of files to the last line.
fn supervised(job: Job<'_>, payload: impl FnOnce(&RamLayout) -> Result<Payload>) -> Result<u8> {
    let stop = Stop::new()?;
    let watch = Watch::process(&stop, job.machine.timeout.map(Duration::from_secs))?;
    Ok(match run(job, payload, &stop, &watch) {
        Ok(status) => status,
        Err(error) => {
            say(&error.to_string(), &stop);
            error.status()
        }
    })
}

/// The machine that the command line asks for.
fn machine_config(
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
        limits: Limits {
            timeout: args.timeout.map(Duration::from_secs),
            instructions: args.max_instructions,
        },
    })
}

/// The same, but for what a failure means.
fn run(
    job: Job<'_>,
    payload: impl FnOnce(&RamLayout) -> Result<Payload>,
    stop: &Stop,
    watch: &Watch,
) -> Result<u8> {
    let Job { machine: args, invocation, report, exec, status } = job;
    let config = Config { pipes: exec.is_some(), ..machine_config(args, payload)? };
    let personality = config.personality;
    // A file that cannot be written is better known before a long run than after it.
    let gets = exec.map_or(&[][..], |exec| exec.gets);
    let files = args.stats_file.iter().chain(&args.truth).chain(&args.debug_dump);
    for path in files.chain(gets.iter().map(|get| &get.host)) {
        check_writable(path)?;
    }
    let symbols = symbols::read_all(&args.symbols)?;
    let mut machine = Machine::new(&config)?;
    let recorded = match report {
        Report::Counted(asked) => Some(asked.recorded(personality)),
        Report::Statistics(_) => None,
    };
    let truth_events = args.truth.is_some().then(|| args.truth_events.clone());
    let events: Vec<_> = recorded.into_iter().chain(truth_events).collect();
    if !events.is_empty() {
        machine.record(Recorder::new(personality, &events.join(","))?)?;
    }
    let announcements = [config.isa.announcement(config.platform), config.payload.announcement()];
    for text in announcements.iter().flatten() {
        say(text, stop);
    }
    if let Some(text) = &machine.choice().warning {
        say(text, stop);
    }
    let stdio = args.is_console_on_stdio();
    let console = match exec.map(|exec| exec.piped) {
        Some(piped) if stdio => Console::of_command(piped, stop)?,
        Some(piped) => Console::file(&args.serial, stop)?.with_pipes(piped, stop)?,
        None if stdio => Console::stdio(stop)?,
        None => Console::file(&args.serial, stop)?,
    };
    let mut console = console.with_files(gets);
    let raw = if stdio { RawMode::enter()? } else { None };
    let progress = if args.quiet { None } else { Progress::on_terminal(console.is_on_terminal()) };
    machine.show_progress(progress);
    watch.begins();
    let end = machine.run_until(stop, config.limits.instructions, &mut console);
    drop(raw);
    let end = end?;
    let summary = Summary::new(personality, &machine, end);
    let dumped = args.debug_dump.is_some() || !end.is_the_guests_wish();
    let (dump, mut lines) = stop.computing(|| {
        let dump = || DebugDump::new(&machine, &config, end, &symbols, &summary.notes);
        let dump = dumped.then(dump);
        let lines = dump.as_ref().filter(|_| !end.is_the_guests_wish()).map(DebugDump::text);
        (dump, lines.unwrap_or_default())
    });
    lines.splice(0..0, end.message());
    if let Some(text) = machine.awaited() {
        lines.push(format!("the guest never printed {text:?}, for which the console input waits"));
    }
    let missing =
        |file: &str| format!("--get {file}: the guest has no such file, or did not give it");
    lines.extend(console.missing_files().map(missing));
    let mut status = status(end);
    if status == status::POWER_OFF && console.missing_files().next().is_some() {
        status = status::INPUT;
    }
    lines.extend(summary.notes.iter().map(|note| format!("note: {note}")));
    say_all(lines, stop);
    if let (Some(path), Some(dump)) = (&args.debug_dump, dump) {
        write_text(path, &dump.json()?, stop)?;
    }
    let truth = machine.recorded()?;
    let counted = match (report, &truth) {
        (Report::Counted(asked), Some(truth)) => {
            let threads = config.platform.threads_per_core.min(config.cpus);
            Some(asked.report(personality, threads.into(), truth))
        }
        _ => None,
    };
    if let (Some(path), Some(truth)) = (&args.truth, truth) {
        write_truth(path, truth, &symbols, &machine, &config)?;
    }
    let mut lost = console.lost();
    let statistics = match (args.stats, report) {
        (Some(chosen), _) | (None, Report::Statistics(chosen)) => chosen,
        (None, Report::Counted(_)) => Stats::None,
    };
    let text = match statistics {
        Stats::Table => Some(summary.table()),
        Stats::Json => Some(invocation.statistics(&summary)?),
        Stats::None => None,
    };
    let file = args.stats_file.as_deref();
    let reports = match (counted, text) {
        // A file of statistics has nothing else in it.
        (Some(counted), Some(text)) if file.is_some() => vec![(None, counted), (file, text)],
        (counted, text) => {
            let all = counted.into_iter().chain(text).reduce(|all, more| all + "\n" + &more);
            all.map(|all| (file, all)).into_iter().collect()
        }
    };
    for (file, text) in reports {
        let lost_last = match file {
            Some(path) => write_text(path, &text, stop)?,
            // What a blocked reader does not get begins with the first byte.
            None if stdio && lost.is_some() => None,
            None => print_last(&text, None, stop)?,
        };
        lost = lost.or(lost_last);
    }
    let Some(lost) = lost else { return Ok(status) };
    // Nothing is lost but by a stop.
    let cut_off = stop.cause().map_or(end, End::from);
    if let Some(text) = cut_off.message().filter(|_| cut_off != end) {
        say(&text, stop);
    }
    say(&lost, stop);
    Ok(if cut_off == end { status } else { cut_off.status() })
}

/// Writes a report to a file, a pipe or a device; what of it nobody took, if anything.
fn write_text(path: &Path, text: &str, stop: &Stop) -> Result<Option<String>> {
    if file::is_replaceable(path) {
        return file::replace(path, text).map(|()| None);
    }
    print_last(text, Some(path), stop)
}

/// Writes what was recorded, with the names of what was executed.
fn write_truth(
    path: &Path,
    mut truth: Truth,
    files: &[SymbolFile],
    machine: &Machine,
    config: &Config,
) -> Result<()> {
    let ranges = config.ram.ranges();
    let read = |address: u64, bytes: &mut [u8]| machine.read_physical(address, bytes);
    let memory = GuestMemory { ranges: &ranges, read: &read };
    let payload = Some(&config.payload);
    symbols::attach(&mut truth, &Sources { memory: Some(memory), payload, files })?;
    truth.write(path)
}

/// The folder must be there and the file, if there, writable and no folder. A pipe or a device is not
/// opened: its other end would see it.
fn check_writable(path: &std::path::Path) -> Result<()> {
    if !file::is_replaceable(path) && !path.is_dir() {
        return Ok(());
    }
    let failed = |e| Error::Host(format!("cannot write {}: {e}", path.display()));
    let existed = path.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    if !existed {
        std::fs::remove_file(path).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::help::one_line;
    use super::*;

    fn line(arguments: &[&str]) -> String {
        let arguments = ["vpmu"].iter().chain(arguments);
        match Cli::try_parse_from(arguments) {
            Ok(_) => "accepted".into(),
            Err(error) => one_line(&error.render().to_string()),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        for arguments in [
            &["run"][..],
            &["run", "--kernel", "k", "--flat", "f@0"],
            &["run", "--kernel", "k", "--smp", "-1"],
            &["run", "--kernel", "k", "--smp", "many"],
            &["run", "--kernel", "k", "--frobnicate"],
            &["run", "--kernel", "k", "--isa", "avx"],
            &["run", "--kernel", "k", "--engine", "xen"],
            &["run", "--kernel", "k", "--count", "some"],
            &["run", "--kernel", "k", "--hypervisor-bit=on"],
            &["run", "--kernel", "k", "--lvtpc-automask", "maybe"],
            &["run", "--flat", "f@0", "--initrd", "i"],
            &["run", "--flat", "f@0", "--input", "i", "--expect", "a=b"],
            &["explain", "C0010000"],
            &["truth"],
            &["truth", "t", "--by", "colour"],
            &["truth", "t", "--cpl", "4"],
            &["truth", "t", "--callgrind", "c", "--cpl", "3"],
            &["truth", "t", "--folded", "f", "--by", "cpl"],
            &["truth", "t", "--function", "f", "--by", "cpl"],
            &["exec"],
            &["stat", "--metrics"],
            &["dance"],
        ] {
            let text = line(arguments);
            assert!(!text.contains('\n') && text.ends_with("; see vpmu --help"), "{text}");
        }
    }

    /// Each command has examples in its help, and they are command lines that it takes.
    #[test]
    fn examples_are_accepted() {
        let command = Cli::command();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name}"));
            let examples: Vec<_> = examples.lines().take_while(|line| !line.is_empty()).collect();
            assert!(!examples.is_empty(), "{name}");
            for example in examples {
                let words: Vec<_> = example.split_whitespace().collect();
                assert_eq!(words[0], "vpmu", "{example}");
                assert!(name == "vpmu" || words[1] == name, "{example}");
                assert_eq!(line(&words[1..]), "accepted", "{example}");
            }
        }
    }

    #[test]
    fn what_is_mistyped_is_answered_with_the_nearest() {
        for (arguments, meant) in [
            (&["explian"][..], "'explain'"),
            (&["run", "--kernle", "k"], "'--kernel'"),
            (&["run", "--isa", "strickt", "--kernel", "k"], "'strict'"),
        ] {
            let text = line(arguments);
            let (_, tip) = text.split_once("; tip: ").unwrap_or_else(|| panic!("{text}"));
            assert!(tip.contains(meant), "{text}");
        }
    }

    #[test]
    fn a_wrong_way_to_count_is_answered_with_the_right_ones() {
        let text = line(&["run", "--kernel", "k", "--count", "some"]);
        assert!(text.contains("'some' for '--count"), "{text}");
        assert!(text.contains("exact, host, off"), "{text}");
        let text = line(&["run", "--kernel", "k", "--hypervisor-bit=on"]);
        assert!(text.contains("--hypervisor-bit"), "{text}");
    }

    #[test]
    fn help_for_cpu_needs_nothing_else() {
        for text in ["run --cpu help", "events --cpu help", "explain --cpu help", "exec --cpu help"]
        {
            let arguments = ["vpmu"].into_iter().chain(text.split(' '));
            let Err(error) = Cli::try_parse_from(arguments) else { panic!("{text}: accepted") };
            assert!(!error.use_stderr());
            assert_eq!(error.render().to_string(), format!("error: {}", config::known_cpus()));
        }
    }

    #[test]
    fn the_documented_forms_are_accepted() {
        for text in [
            "run --cpu k8 --kernel k --initrd i --append console=ttyS0 --smp 4 --mem 1G",
            "run --flat f@0x7c00 --serial log --input in --stats json --stats-file s",
            "run --demo sampling --timeout 5 --max-instructions 100 --skid 3 --clock 1000000000",
            "run --cpu knc --isa distro --lvtpc-automask on --smp 244 --kernel k",
            "run --engine kvm --smp 2 --flat f@0x100000",
            "run --engine auto --kernel k",
            "run --count off --hypervisor-bit --flat f@0",
            "run --engine kvm --count host --kernel k",
            "run --no-cache --kernel k",
            "exec --count exact -- ls",
            "run --engine kvm --irqchip kernel --smp 2 --flat f@0x100000",
            "run --cpu p6 --isa strict --lvtpc-automask off --flat f@0",
            "run --cpu p55c --boot firmware --smp 2 --demo sampling",
            "run --boot direct --kernel k",
            "run --kernel k --expect login:=root --expect #=poweroff",
            "run --flat f@1M --exit-raw",
            "stat --cpu knc --smp 4 --metrics --per-cpu --json --kernel k",
            "stat -e RETIRED_INSTRUCTIONS,cycles --demo sampling",
            "events --cpu k8 BRANCH --json",
            "events --cpu all BRANCH --json",
            "reference events",
            "reference msrs",
            "truth t --by instruction --event loads --limit 5 --cpl 3 --vcpu 0 --space sh --json",
            "truth t --function memcpy",
            "truth t --callgrind -",
            "truth t --folded stacks --event loads",
            "explain --cpu k8 C0010000 1100C2",
            "explain --encode RETIRED_BRANCH_INSTRUCTIONS:u:int",
            "exec --cpu k8 --kernel k -- ls -l",
            "exec --verbose -- cat",
            "exec --module e1000 --msr --busybox b --get p.data -- perf record",
            "fetch --suite trixie",
            "exec --env A=b --env C --cwd /tmp --add f:/tmp/g --add d --no-arg-files -- cat f",
        ] {
            let arguments: Vec<_> = text.split(' ').collect();
            assert_eq!(line(&arguments), "accepted", "{text}");
        }
    }
}
