//! The machine: memory, board, processors, and the order in which they run.
//!
//! Virtual time is counted in cycles of the processors' clock. All processors share one time line, on
//! which they take turns (`turns.rs`). When all processors are halted, time skips to the next device
//! event at once. Nothing in this depends on the host.
//!
//! That is the software engine. On KVM the processors run in parallel, on threads of their own, and
//! time is the host's; see [`crate::engine::kvm`].

use std::collections::VecDeque;

use pmu_model::{Personality, Reset};
use x86_cpu::block::Translated;
use x86_cpu::control_registers::efer;
use x86_cpu::cpu::Cpu;
use x86_cpu::descriptor::{DescriptorTable, Segment};
use x86_cpu::insn::seg;
use x86_cpu::ram::Ram;
use x86_cpu::stops::Stops;

use crate::ahead;
use crate::boot::entry::{self, Entry};
use crate::boot::{self, Payload, layout};
use crate::config::{Boot, Config, Limits};
use crate::console::Console;
use crate::devices::acpi_pm::TimerWidth;
use crate::devices::pipes::{self, Pipes};
use crate::devices::{Chipset, ChipsetConfig, ChipsetEvent};
pub use crate::end::End;
use crate::engine::kvm;
use crate::engine::soft::{Slices, Soft, Timing, Vcpu, Warm};
use crate::engine::{self, Board, Choice, Count, Engine, Sees};
use crate::error::{Error, Result};
use crate::input::Script;
use crate::irq::VcpuSignal;
use crate::irq::lapic::{LapicConfig, PmiRecord};
use crate::memory::{Memory, Rom};
use crate::platform::{MsrBank, Platform};
use crate::progress::{Progress, Reached};
use crate::roster::Roster;
use crate::snapshot::{self, Identity};
use crate::stop::{Stop, Watch};
use crate::trace::{Act, ActStops, At, Reason, Subject, Tracer};
use crate::truth::Truth;
use crate::truth::record::Recorder;
use crate::turns::{CutOff, Sharing};

/// Where a machine is to pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Behind the first turn that ends at this virtual time, in cycles, or later: each processor has come so far.
    Time(u64),
    /// When so many instructions have retired, of all processors together.
    Instructions(u64),
    /// Behind the write of [`crate::devices::debug_exit::MARKER`] to port 80h.
    Marker,
    /// Behind RDMSR or WRMSR of this register, which is none of the processor core, such as EFER.
    Msr(u32),
}

/// What differs from one implementation of local APICs to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalApic {
    pub(crate) version: u8,
    pub(crate) max_lvt: u8,
    /// Ticks a second of the bus clock that the timer divides.
    pub(crate) timer_hz: u64,
}

impl LocalApic {
    /// That of a processor.
    pub(crate) fn of(platform: &Platform) -> Self {
        let &Platform { apic_version: version, max_lvt, apic_timer_hz: timer_hz, .. } = platform;
        Self { version, max_lvt, timer_hz }
    }
}

/// A machine with its payload loaded.
pub struct Machine {
    pub(crate) board: Board,
    pub(crate) soft: Soft,
    /// What executes it; `None` while it does. Declared, and so dropped, before the memory that KVM maps.
    pub(crate) engine: Option<Box<dyn Engine>>,
    /// What of the guest passes through this process.
    pub(crate) sees: Sees,
    pub(crate) memory: Memory,
    pub(crate) vcpus: Vec<Vcpu>,
    /// What kind of machine it is.
    pub(crate) identity: Identity,
    pub(crate) choice: Choice,
    pub(crate) count: Count,
    pub(crate) clock_hz: u64,
    /// Whose clock virtual time is, and when the models are told of execution; `None` without models.
    pub(crate) timing: Option<(Timing, Warm)>,
    /// Where virtual time ends, and the run with it.
    pub(crate) end_of_time: u64,
    pub(crate) signature: u32,
    /// Where the next slice begins.
    pub(crate) now: u64,
    pub(crate) script: Script,
    /// Console input for which the serial port has had no room yet.
    pub(crate) typed: VecDeque<u8>,
    /// Since when no processor can be woken by an interrupt.
    pub(crate) dead_since: Option<u64>,
    /// Which processors execute something.
    pub(crate) roster: Roster,
    /// Virtual time up to which turns are short: see `turns.rs`.
    pub(crate) short_turns_until: u64,
    /// What turns have told of what cores do to each other.
    pub(crate) sharing: Sharing,
    /// Where the last run was cut off, if that was in the middle of a turn.
    pub(crate) cut_off: Option<CutOff>,
    /// Where it is to pause next.
    pub(crate) pause: Option<Pause>,
    /// KVM has run the guest since translated code was last compared with what it has written.
    pub(crate) translations_are_stale: bool,
    /// What RAM was when it was last taken notice of what is written there.
    pub(crate) base: snapshot::Base,
    /// The line on the terminal that shows that it runs, if there is to be one.
    pub(crate) progress: Option<Progress>,
}

impl Machine {
    /// Builds a machine, writes the firmware tables and the payload, and sets processor 0 to the
    /// payload's first instruction, or leaves it at the reset vector of the boot ROM.
    ///
    /// # Errors
    /// If the payload cannot be loaded or not be run by this processor, or the host has no memory.
    pub fn new(config: &Config) -> Result<Self> {
        let mut platform = config.isa.apply(config.platform);
        if config.hypervisor_bit {
            platform.show_hypervisor();
        }
        let rom = match config.boot {
            Boot::Direct => None,
            Boot::Firmware => Some(Rom { address: firmware::map::ROM, image: firmware::IMAGE }),
        };
        let mut memory = Memory::new(&config.ram, rom)?;
        let (engine, choice) = engine::choose(config, &platform, &mut memory)?;
        let sees = engine.sees();
        let entry = match &config.payload {
            Payload::Snapshot(_) => None,
            payload => {
                let (ram, cpus) = (&config.ram, config.cpus);
                Some(boot::load(memory.mapping(), ram, &platform, cpus, payload)?)
            }
        };
        let is_64_bit = entry.as_ref().is_some_and(|entry| entry.efer & efer::LME != 0);
        if is_64_bit && !platform.features.long_mode {
            return Err(Error::Usage(format!(
                "the payload is 64-bit code, which {} cannot run; see --isa distro",
                platform.name
            )));
        }
        if platform.models.is_none() && config.warm == Warm::Always {
            return Err(Error::Usage(format!(
                "--warm always: the micro-architecture of {} is not modelled",
                platform.name
            )));
        }
        if platform.models.is_none() && config.timing == Timing::Model {
            return Err(Error::Usage(format!(
                "--timing model: the pipeline of {} is not modelled",
                platform.name
            )));
        }
        let local_apic = engine.local_apic(&platform);
        let lapics = (0..config.cpus).map(|id| LapicConfig {
            id,
            bsp: id == 0,
            version: local_apic.version,
            max_lvt: local_apic.max_lvt,
            base_msr: platform.apic_base_msr,
            physical_bits: platform.features.phys_bits,
            lvtpc_auto_mask: config.lvtpc_auto_mask,
            clock_hz: config.clock_hz,
            timer_hz: local_apic.timer_hz,
        });
        let mut chipset = Chipset::new(ChipsetConfig {
            clock_hz: config.clock_hz,
            lapics: lapics.collect(),
            ram_size: config.ram.size(),
            start_time: config.start_time,
            pm_timer_width: TimerWidth::Bits32,
            test_device: config.test_device,
            pipes: config.pipes,
        });
        let mut bank = MsrBank::new(&platform);
        bank.set_up_by_firmware(config.ram.low_end(), config.ram.high_end(), layout::HOLE);
        match (config.boot, &entry) {
            (Boot::Direct, _) => chipset.irq.set_virtual_wire(),
            (Boot::Firmware, Some(entry)) => {
                let msrs = bank.changed().collect();
                boot::firmware::write(memory.mapping(), config, entry, msrs)?;
                bank = MsrBank::new(&platform);
            }
            (Boot::Firmware, None) => {}
        }
        let (signature, _) = platform.signature();
        let vcpu = |id: usize| {
            let mut cpu = Cpu::new(platform.features);
            cpu.alignment = platform.alignment;
            cpu.uncached = config.no_cache;
            cpu.cycle_costs = config.cycle_costs;
            cpu.reset(signature);
            Vcpu::new(id, cpu, config.count.pmu(config.personality), bank.clone())
        };
        let mut vcpus: Vec<_> = (0..usize::from(config.cpus)).map(vcpu).collect();
        if let (Some(first), Some(entry)) = (vcpus.first_mut(), &entry)
            && config.boot == Boot::Direct
        {
            enter(&mut first.cpu, entry);
        }
        let mut soft = Soft::new(config.ram.size(), config.cycle_costs);
        if let Some(part) = platform.models {
            soft.model(part, &vcpus, &config.ram);
            // On KVM the host's clock keeps the time.
            let timing = if sees.instructions { config.timing } else { Timing::Flat };
            soft.set_timing(timing, config.warm);
        }
        let is_modelled = sees.instructions && platform.models.is_some();
        let timing = is_modelled.then_some((config.timing, config.warm));
        let mut machine = Self {
            board: Board::new(chipset, platform, config.skid),
            soft,
            engine: Some(engine),
            sees,
            memory,
            vcpus,
            identity: Identity::of(config),
            choice,
            count: config.count,
            clock_hz: config.clock_hz,
            timing,
            end_of_time: ahead::end_of_time(config.clock_hz, local_apic.timer_hz),
            signature,
            now: 0,
            script: config.script.clone(),
            typed: VecDeque::new(),
            dead_since: None,
            roster: Roster::default(),
            short_turns_until: 0,
            sharing: Sharing::default(),
            cut_off: None,
            pause: None,
            translations_are_stale: false,
            base: snapshot::Base::default(),
            progress: None,
        };
        if let Payload::Snapshot(snapshot) = &config.payload {
            machine
                .fill(snapshot)
                .and_then(|()| machine.restore(&snapshot.state))
                .and_then(|()| machine.check_form(&snapshot.state))
                .map_err(|what| {
                    Error::Input(format!("the snapshot does not fit its own machine: {what}"))
                })?;
            if !config.script.is_empty() {
                machine.script = config.script.clone();
            }
        }
        Ok(machine)
    }

    /// Shows on the terminal that it runs, from now on.
    pub(crate) fn show_progress(&mut self, progress: Option<Progress>) {
        self.progress = progress;
    }

    /// The processors.
    #[must_use]
    pub fn vcpus(&self) -> &[Vcpu] {
        &self.vcpus
    }

    /// The guest's memory.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        self.memory.ram()
    }

    /// Virtual time in cycles: that of the processor that is furthest.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.vcpus.iter().map(|vcpu| vcpu.cpu.time).max().unwrap_or(0)
    }

    /// Reads RAM at a guest-physical address as it is now; false if any of it is not RAM.
    pub fn read_physical(&self, address: u64, out: &mut [u8]) -> bool {
        self.memory.ram().read_bytes(address, out)
    }

    /// Writes to RAM at a guest-physical address between two runs; false if any of it is not RAM.
    pub fn write_physical(&mut self, address: u64, bytes: &[u8]) -> bool {
        self.memory.ram().write_bytes(address, bytes)
    }

    /// Cycles in a second of virtual time.
    #[must_use]
    pub fn clock_hz(&self) -> u64 {
        self.clock_hz
    }

    /// Whose clock virtual time is, and when the models are told of execution; `None` without models,
    /// and on KVM.
    #[must_use]
    pub fn timing(&self) -> Option<(Timing, Warm)> {
        self.timing
    }

    /// Which engine runs it, and why that one.
    #[must_use]
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// What the counters count by.
    #[must_use]
    pub fn count(&self) -> Count {
        self.count
    }

    /// Records all that its processors execute from now on.
    ///
    /// # Errors
    /// If KVM has them: what the host's processor executes is not seen.
    pub fn record(&mut self, recorder: Recorder) -> Result<()> {
        if !self.sees.instructions {
            return Err(Error::Usage(
                "what is executed is only recorded with --engine soft".into(),
            ));
        }
        self.soft.record(recorder);
        Ok(())
    }

    /// What a trace of it is about.
    #[must_use]
    pub fn subject(&self, personality: &'static Personality) -> Subject {
        Subject { personality, clock_hz: self.clock_hz, vcpus: self.vcpus.len() }
    }

    /// Traces what matters to the PMUs from now on.
    pub fn trace(&mut self, tracer: Tracer) {
        self.board.tracer = Some(Box::new(tracer));
        self.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.tells_place = true);
        let at = At { time: self.now, code: None, retired: None };
        let engine = self.choice.engine;
        self.board.trace(0, at, Act::Engine { engine, reason: Reason::Begins });
    }

    /// At which acts a debugger stops it.
    pub(crate) fn act_stops(&mut self) -> &mut ActStops {
        if self.board.tracer.is_none() {
            // What overflowed before is nobody's concern any more.
            self.vcpus.iter_mut().for_each(|vcpu| _ = vcpu.pmu.take_overflowed());
            self.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.tells_place = true);
        }
        let subject = Subject {
            personality: self.vcpus[0].pmu.personality(),
            clock_hz: self.clock_hz,
            vcpus: self.vcpus.len(),
        };
        let new = || Box::new(Tracer::without_output(subject));
        &mut self.board.tracer.get_or_insert_with(new).stops
    }

    /// It does not pause at a register any more, if it was to.
    fn stop_at_no_register(&mut self) {
        if matches!(self.pause, Some(Pause::Msr(_))) {
            self.stop_at_no_act();
            self.set_stops(None);
        }
    }

    /// Whether a debugger stops a processor before its next instruction, which it is about to execute.
    pub(crate) fn is_at_stop(&self, id: usize) -> bool {
        let Vcpu { cpu, waits_for_startup, .. } = &self.vcpus[id];
        !waits_for_startup && !cpu.halted && cpu.stops_here()
    }

    /// Whether a debugger stops the machine when the interrupt of a counter is taken that has yet to be.
    pub(crate) fn awaits_pmi(&self) -> bool {
        let irq = &self.board.chipset.irq;
        let untaken = || (0..self.vcpus.len()).any(|id| irq.lapic(id).has_untaken_pmi());
        self.board.stops_at_pmis() && untaken()
    }

    /// Whether a debugger stops the processors where only the software engine can: before each instruction of one,
    /// behind accesses, or in more places than there are breakpoints to KVM.
    fn is_stopped_by_soft(&self) -> bool {
        let few = |addresses: &[u64]| addresses.len() <= kvm::BREAKPOINTS;
        self.vcpus.iter().any(|vcpu| !vcpu.cpu.breakpoints().is_some_and(few))
    }

    /// Has all processors stop there. With none at all, acts stop nobody.
    fn set_stops(&mut self, stops: Option<&Stops>) {
        self.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.set_stops(stops.cloned()));
    }

    /// No debugger stops it at an act any more.
    pub(crate) fn stop_at_no_act(&mut self) {
        match &mut self.board.tracer {
            Some(tracer) if tracer.writes() => tracer.stops = ActStops::default(),
            Some(_) => {
                self.board.tracer = None;
                self.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.tells_place = false);
            }
            None => {}
        }
    }

    /// Ends the trace, if there is one: it is whole then.
    ///
    /// # Errors
    /// If the host has refused to write any of it.
    pub fn end_trace(&mut self) -> Result<()> {
        self.vcpus.iter_mut().for_each(|vcpu| vcpu.cpu.tells_place = false);
        self.board.tracer.take().map_or(Ok(()), |tracer| tracer.finish())
    }

    /// How many blocks of code the software engine has translated, and how many of them it dropped
    /// because code was overwritten.
    #[must_use]
    pub fn translated(&self) -> Translated {
        self.soft.translated()
    }

    /// What was recorded, if it was; nothing is from now on.
    ///
    /// # Errors
    /// If it was more than there is room for.
    pub fn recorded(&mut self) -> Result<Option<Truth>> {
        let vcpus = self.vcpus.len();
        self.soft.recorded().map(|recorder| recorder.finish(vcpus)).transpose()
    }

    /// Has the run that comes there end with [`End::Paused`]; one that ends for another reason leaves the pause to the
    /// next, unless that is to pause elsewhere. On the software engine the run after it goes on as if there had been no
    /// pause; KVM does not count instructions.
    pub fn pause_at(&mut self, pause: Pause) {
        self.board.chipset.watch_for_marker(pause == Pause::Marker);
        self.stop_at_no_register();
        if let Pause::Msr(index) = pause {
            self.act_stops().registers.insert(index, false);
            self.set_stops(Some(&Stops::default()));
        }
        self.pause = Some(pause);
    }

    /// The time at which it is to pause, in cycles, if that is what it is to do.
    pub(crate) fn pause_time(&self) -> Option<u64> {
        match self.pause {
            Some(Pause::Time(time)) => Some(time),
            _ => None,
        }
    }

    /// Whether it is to pause at a time that has come.
    pub(crate) fn is_pause_due(&self) -> bool {
        self.pause_time().is_some_and(|time| time <= self.now)
    }

    /// Interrupts from one processor to another arrive at once from now on, those on their way now.
    pub(crate) fn arrive_all(&mut self) {
        for (id, outcome) in self.board.chipset.irq.delay(false) {
            self.board.trace_pmi(id, self.vcpus[id].cpu.place(), outcome);
        }
    }

    /// Runs until the guest ends or is cut off.
    ///
    /// # Errors
    /// If the console's output cannot be written, or KVM cannot go on.
    pub fn run(&mut self, limits: Limits, console: &mut Console) -> Result<End> {
        let stop = Stop::new()?;
        let _watch = limits.timeout.map(|limit| Watch::limit(&stop, limit)).transpose()?;
        self.run_until(&stop, limits.instructions, console)
    }

    /// As [`Self::run`], until `stop` is requested or so many instructions have retired.
    ///
    /// # Errors
    /// As there.
    pub fn run_until(
        &mut self,
        stop: &Stop,
        instructions: Option<u64>,
        console: &mut Console,
    ) -> Result<End> {
        self.soft.set_stop(stop);
        if std::mem::take(&mut self.translations_are_stale) {
            self.soft.forget();
        }
        // All state is here between two runs.
        let engine = if self.is_stopped_by_soft() { None } else { self.engine.take() };
        let end = match engine {
            Some(mut engine) => {
                let end = engine.run(self, stop, instructions, console);
                self.engine = Some(engine);
                end?
            }
            None => Slices.run(self, stop, instructions, console)?,
        };
        let end = match end {
            End::Debugger(_) if matches!(self.pause, Some(Pause::Msr(_))) => End::Paused,
            end => end,
        };
        self.print(console)?;
        match end {
            End::Paused => {
                self.stop_at_no_register();
                self.pause = None;
                self.board.chipset.watch_for_marker(false);
            }
            End::Debugger(_) => {}
            _ => self.progress = None,
        }
        console.flush()?;
        Ok(end)
    }

    /// Whether a counter of any processor is enabled, or a PMI is on its way to a local APIC.
    pub(crate) fn is_counting(&self) -> bool {
        self.vcpus.iter().any(Vcpu::has_counters_enabled)
    }

    /// Whether a processor's local APIC is where there is RAM, which it hides from that processor.
    pub(crate) fn hides_memory(&self) -> bool {
        let (irq, ram) = (&self.board.chipset.irq, self.memory.ram());
        (0..self.vcpus.len())
            .any(|id| irq.lapic(id).page().is_some_and(|gpa| ram.page(gpa).is_some()))
    }

    /// What became of the interrupts of a processor's counters; `None` if KVM has the local APICs, which
    /// does not tell.
    pub(crate) fn pmi_record(&self, id: usize) -> Option<PmiRecord> {
        self.sees.lapics.then(|| self.board.chipset.irq.lapic(id).pmi_record())
    }

    /// Instructions retired by all processors.
    #[must_use]
    pub fn retired(&self) -> u64 {
        self.vcpus.iter().map(|vcpu| vcpu.cpu.retired()).sum()
    }

    /// Console output to the host, input to the guest.
    pub(crate) fn exchange(&mut self, console: &mut Console) -> Result<()> {
        if self.progress.as_ref().is_some_and(Progress::is_due) {
            let reached = self.reached();
            self.progress.iter_mut().for_each(|progress| progress.show(reached));
        }
        if self.board.chipset.has_output() {
            self.print(console)?;
        }
        let chipset = &mut self.board.chipset;
        // Nothing is read from the console before the guest has taken what was read last.
        if self.typed.is_empty() {
            self.typed.extend(console.typed(self.now));
        }
        self.typed.extend(self.script.take_due(self.now));
        let (next, _) = self.typed.as_slices();
        if !next.is_empty() {
            let taken = chipset.push_input(next);
            self.typed.drain(..taken.min(self.typed.len()));
        }
        Ok(())
    }

    /// The text of the script that the guest has to print before anything more is typed.
    pub(crate) fn awaited(&self) -> Option<String> {
        self.script.awaited()
    }

    /// Console output and what a command has written to its pipes and files, to the host.
    fn print(&mut self, console: &mut Console) -> Result<()> {
        let chipset = &mut self.board.chipset;
        let text = chipset.serial.take_output();
        let (output, error) = chipset.pipes.as_mut().map(Pipes::take_output).unwrap_or_default();
        for bytes in [&text, &output, &error].into_iter().filter(|bytes| !bytes.is_empty()) {
            self.progress.iter_mut().for_each(|progress| progress.prints(bytes));
            self.script.printed(bytes);
        }
        let files = chipset.pipes.as_mut().map(Pipes::take_files).unwrap_or_default();
        console.write(&text)?;
        console.write_pipes(&output, &error)?;
        console.write_files(files)
    }

    /// Whether the guest has waited for input from its pipe for long, a second of virtual time. Input comes
    /// when all processors sleep, so that a command that does not read is not held up; but something may be
    /// busy all the while.
    pub(crate) fn is_input_overdue(&self) -> bool {
        let asked = self.board.chipset.asked();
        asked.is_some_and(|since| self.now.saturating_sub(since) >= self.clock_hz)
    }

    /// Gives the guest input from its pipe if it waits for some. With `whole`, which is how nothing that it
    /// gets depends on the host's time, waits until there is as much as an answer holds, or the end; else
    /// gives what is there, if anything is. Whether the guest does not wait any longer.
    pub(crate) fn answer(&mut self, console: &mut Console, whole: bool) -> bool {
        let Some(pipes) = &mut self.board.chipset.pipes else { return true };
        if pipes.asked().is_none() {
            return true;
        }
        let bytes = console.piped(pipes::LONGEST, whole);
        let is_answered = bytes.is_some();
        bytes.into_iter().for_each(|bytes| pipes.answer(bytes));
        is_answered
    }

    /// Where it has come to.
    fn reached(&self) -> Reached {
        let seen = self.sees.instructions && self.vcpus.iter().all(|vcpu| vcpu.native_cycles == 0);
        Reached {
            cycles: self.time(),
            clock_hz: self.clock_hz,
            instructions: seen.then(|| self.retired()),
        }
    }

    /// Whether the guest may still receive console input that it does not have yet. While it does not
    /// take what was read, the host's buffered input does not reach it.
    pub(crate) fn can_be_typed_at(&self, console: &Console) -> bool {
        if self.typed.is_empty() { console.has_input() } else { console.is_open() }
    }

    /// The end that the chipset has asked for.
    pub(crate) fn take_event(&mut self) -> Option<End> {
        self.board.chipset.take_event().map(|event| match event {
            ChipsetEvent::PowerOff => End::PowerOff,
            ChipsetEvent::Reset => End::Reset,
            ChipsetEvent::DebugExit(value) => End::Exit(value),
            ChipsetEvent::Marker => End::Paused,
        })
    }

    /// INIT and start-up IPIs; says which processors were initialised.
    pub(crate) fn distribute_signals(&mut self) -> Vec<usize> {
        let mut initialised = Vec::new();
        for (id, signal) in self.board.chipset.irq.take_signals() {
            let Some(vcpu) = self.vcpus.get_mut(id) else { continue };
            self.roster.stir(id);
            match signal {
                VcpuSignal::Init => {
                    vcpu.cpu.reset(self.signature);
                    vcpu.pmu.reset(Reset::Init);
                    vcpu.waits_for_startup = id != 0;
                    self.soft.look_at(vcpu);
                    initialised.push(id);
                }
                VcpuSignal::Sipi(page) if vcpu.waits_for_startup => {
                    vcpu.waits_for_startup = false;
                    vcpu.cpu.set_segment(seg::CS, Segment::real(u16::from(page) << 8, true));
                    vcpu.cpu.rip = 0;
                }
                VcpuSignal::Sipi(_) => {}
            }
        }
        initialised
    }
}

/// Sets a processor to the state in which a payload begins.
fn enter(cpu: &mut Cpu, entry: &Entry) {
    let segment = |s: entry::Segment| Segment {
        selector: s.selector,
        base: s.base,
        limit: s.limit,
        attributes: s.attributes,
    };
    let table = |t: entry::TableRegister| DescriptorTable { base: t.base, limit: t.limit };
    cpu.set_control(entry.cr0, entry.cr3, entry.cr4, entry.efer);
    for n in [seg::ES, seg::DS, seg::FS, seg::GS] {
        cpu.set_segment(n, segment(entry.data));
    }
    cpu.set_segment(seg::CS, segment(entry.cs));
    cpu.set_segment(seg::SS, segment(entry.ss));
    cpu.ldtr = segment(entry.ldtr);
    cpu.tr = segment(entry.tr);
    cpu.gdtr = table(entry.gdtr);
    cpu.idtr = table(entry.idtr);
    for (n, value) in (0..).zip(entry.gpr) {
        cpu.set_gpr(n, value);
    }
    cpu.set_rflags(entry.rflags);
    cpu.rip = entry.rip;
}

#[cfg(test)]
#[path = "firmware_tests.rs"]
mod firmware_tests;

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
