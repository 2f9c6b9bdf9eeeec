//! The KVM engine: the same machine on the host's processors.
//!
//! Each processor has a thread of its own. All but the execution of instructions is behind one lock:
//! the devices, the local APICs, the PMUs and the model-specific registers are the ones that the
//! software engine has, asked in the same way.
//!
//! # Counting
//!
//! KVM cannot count what a processor of another make would. When a guest enables a counter, all
//! processors' state moves to the software engine, which runs them, counted, until no counter is
//! enabled. Then it moves back. Guest memory stays where it is. With `--count host` the host's own
//! counters do what they can instead, and with `--count off` nobody counts: nothing moves then.
//!
//! # Time
//!
//! Devices go by the host's monotonic clock, in cycles of the personality's clock; while the
//! software engine has the guest, by its virtual time. Neither change of engine makes device time
//! jump. The time-stamp counter is the host's, at the host's rate.

mod clock;
mod dirty_log;
mod exits;
pub mod host;
mod host_counter;
pub mod host_events;
mod identity;
mod irqchip;
mod kick;
mod linear;
pub mod probe;
mod run_page;
mod slots;
mod state;
mod traced;
mod transfer;
mod trap;
mod vcpu;
mod world;

use std::thread;
use std::time::{Duration, Instant};

use kvm_bindings::{
    KVM_CAP_X86_USER_SPACE_MSR, KVM_MSR_EXIT_REASON_FILTER, KVM_MSR_EXIT_REASON_INVAL,
    KVM_MSR_EXIT_REASON_UNKNOWN, kvm_enable_cap,
};
use kvm_ioctls::{VcpuFd, VmFd};
use vmm_sys_util::errno;
use vmm_sys_util::eventfd::EventFd;

use self::dirty_log::DirtyLog;
use self::host::{Capability, Host};
use self::irqchip::Irqchip;
use self::slots::Slot;
use self::state::Support;
use self::vcpu::Thread;
use self::world::{Shared, World};
use super::soft::{Timing, Warm};
use super::{ASKED_FOR, Choice, Count, Engine, EngineKind, IrqchipKind, Sees};
use crate::ahead::{Activity, Ahead};
use crate::boot::Payload;
use crate::config::Config;
use crate::console::Console;
use crate::error::{Error, Result};
use crate::machine::{End, LocalApic, Machine};
use crate::memory::Memory;
use crate::platform::Platform;
use crate::stop::Stop;
use crate::wait;

/// Where KVM may keep the three pages of its own that some hosts need for real mode: in the hole
/// below 4 GiB, where nothing of the machine is.
const TSS_ADDRESS: usize = 0xFFFB_D000;
/// How many instructions a debugger can stop the processors before while KVM has them.
pub(crate) const BREAKPOINTS: usize = trap::FREE;
/// The main thread looks around at least so often.
const PATIENCE: Duration = Duration::from_millis(500);
/// No processor is in the guest for longer than twice this without a look where its exception handlers
/// are.
const HANDLER_CHECK_PERIOD: Duration = Duration::from_millis(20);
/// How often it looks at the console while there is something to print: 200 times a second.
const PRINTING: Duration = Duration::from_millis(5);

/// The processors of a machine, in the host's KVM.
pub struct Kvm {
    vcpus: Vec<VcpuFd>,
    support: Support,
    /// The host's events that count, if any do.
    host_events: Option<&'static [host_events::Row]>,
    irqchip: IrqchipKind,
    /// The guest's RAM.
    slots: Vec<Slot>,
    /// KVM can log which pages of it the guest writes.
    has_dirty_log: bool,
    vm: VmFd,
}

impl Kvm {
    /// What `config` asks for: KVM, with the processors and the memory of the machine, or `None` for
    /// the software engine; and why.
    ///
    /// # Errors
    /// If KVM is asked for and cannot be had.
    pub fn choose(
        config: &Config,
        platform: &Platform,
        memory: &mut Memory,
    ) -> Result<(Option<Self>, Choice)> {
        let choice = |engine, reason| Choice { engine, reason, warning: None };
        if config.count == Count::Host {
            if config.engine == EngineKind::Soft {
                let text = "--count host needs --engine kvm: the software engine counts by itself";
                return Err(Error::Usage(text.into()));
            }
            host_counter::check()?;
        }
        match config.engine {
            EngineKind::Soft if config.irqchip == IrqchipKind::Kernel => {
                Err(Error::Usage("--irqchip kernel needs --engine kvm".into()))
            }
            EngineKind::Soft => Ok((None, choice("soft", ASKED_FOR.into()))),
            EngineKind::Kvm => {
                let host = Host::open()?;
                let leaks = probe::leaks(&host, platform)?;
                let warning = leaks.first().map(|leak| format!("{leak}; see --engine soft"));
                let kvm = Self::new(&host, config, platform, memory)?;
                Ok((Some(kvm), Choice { warning, ..choice("kvm", ASKED_FOR.into()) }))
            }
            EngineKind::Auto => Ok(match Self::if_useful(config, platform, memory) {
                Ok(kvm) => (Some(kvm), choice("kvm", format!("{} can be used", host::DEVICE))),
                Err(error) if config.count == Count::Host => return Err(error),
                Err(error) => (None, choice("soft", error.to_string())),
            }),
        }
    }

    /// KVM, if this guest can use this host's.
    fn if_useful(config: &Config, platform: &Platform, memory: &mut Memory) -> Result<Self> {
        let host = Host::open()?;
        // Other payloads know what they run on.
        if matches!(config.payload, Payload::Kernel(_))
            && let Some(leak) = probe::leaks(&host, platform)?.first()
        {
            return Err(Error::Host(format!("a kernel needs the CPUID it is promised: {leak}")));
        }
        Self::new(&host, config, platform, memory)
    }

    /// The processors and the memory of a machine on `host`.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn new(
        host: &Host,
        config: &Config,
        platform: &Platform,
        memory: &mut Memory,
    ) -> Result<Self> {
        if config.limits.instructions.is_some() {
            let text = "KVM cannot count all instructions: --max-instructions needs --engine soft";
            return Err(Error::Usage(text.into()));
        }
        if config.timing == Timing::Model || config.warm == Warm::Always {
            let text = "on KVM the host's clock keeps the time, and models see what is counted: \
                        --timing model and --warm always need --engine soft";
            return Err(Error::Usage(text.into()));
        }
        probe::has_no_counters(host, platform)?;
        let vm = host.create_vm()?;
        vm.set_tss_address(TSS_ADDRESS).map_err(|e| refused("the address of its TSS", e))?;
        let reasons =
            KVM_MSR_EXIT_REASON_FILTER | KVM_MSR_EXIT_REASON_UNKNOWN | KVM_MSR_EXIT_REASON_INVAL;
        let user_space_msr = kvm_enable_cap {
            cap: KVM_CAP_X86_USER_SPACE_MSR,
            args: [reasons.into(), 0, 0, 0],
            ..Default::default()
        };
        vm.enable_cap(&user_space_msr).map_err(|e| refused("exits for MSRs", e))?;
        let in_kernel = config.irqchip == IrqchipKind::Kernel;
        if in_kernel {
            host.check_irqchip()?;
            irqchip::create(&vm)?;
        }
        let apic_base = in_kernel && platform.apic_base_msr;
        identity::with_msr_filter(&platform.features, apic_base, |default, ranges| {
            vm.set_msr_filter(default, ranges)
        })
        .map_err(|e| refused("the MSR filter", e))?;
        let (ram, rom) = memory.mappings();
        let slots = slots::register(&vm, ram, rom)?;
        let create = |id| {
            let vcpu = host.create_vcpu(&vm, id)?;
            let cpuid = identity::cpuid(platform, id)
                .ok_or_else(|| Error::Host("CPUID of this processor is too long".into()))?;
            vcpu.set_cpuid2(&cpuid).map_err(|e| refused("the processor's CPUID", e))?;
            Ok(vcpu)
        };
        let vcpus = (0..usize::from(config.cpus)).map(create).collect::<Result<_>>()?;
        let support = probe::support(host, platform)?;
        let host_events = (config.count == Count::Host).then_some(host_events::TABLE);
        let has_dirty_log = host.has(Capability::ManualDirtyLogProtect);
        let irqchip = config.irqchip;
        Ok(Self { vcpus, support, host_events, irqchip, slots, has_dirty_log, vm })
    }

    /// Runs the machine until the guest ends or is cut off. No thread is left behind, and all of the machine's state
    /// is where the software engine has it.
    fn run_all(
        &mut self,
        machine: &mut Machine,
        stop: &Stop,
        console: &mut Console,
    ) -> Result<End> {
        kick::prepare()?;
        // What a snapshot of the software engine has in transit has arrived.
        machine.arrive_all();
        let main = EventFd::new(libc::EFD_NONBLOCK)
            .map_err(|e| Error::Host(format!("no event descriptor: {e}")).because(e))?;
        let to_main = main
            .try_clone()
            .map_err(|e| Error::Host(format!("no event descriptor: {e}")).because(e))?;
        let irqchip = (self.irqchip == IrqchipKind::Kernel).then(|| Irqchip::new(&self.vm));
        let (slots, ram) = (&self.slots, machine.memory.ram());
        let of_all = machine.base.is_there();
        let dirty_log = DirtyLog::new(&self.vm, slots, self.has_dirty_log, of_all, ram);
        let shared = Shared::new(World::new(machine, to_main, irqchip, dirty_log));
        let threads = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (id, vcpu) in self.vcpus.iter_mut().enumerate() {
                let thread = Thread::new(id, vcpu, &shared, self.support, self.host_events);
                let spawned = thread::Builder::new()
                    .name(format!("vcpu {id}"))
                    .spawn_scoped(scope, || thread.run());
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(e) => {
                        let text = format!("no thread for processor {id}: {e}");
                        let error = Error::Host(text).because(e);
                        let mut world = shared.lock();
                        world.finish(Err(error));
                        shared.unlock(world);
                        break;
                    }
                }
            }
            let end = attend(&shared, stop, console, &main);
            let mut world = shared.lock();
            world.finish(end);
            shared.unlock(world);
            // One that has panicked has ended the run with an error.
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        vcpu::take_over(threads, &shared);
        let end = shared.lock().end.take();
        end.unwrap_or_else(|| Err(Error::Host("the run has no end".into())))
    }
}

impl Engine for Kvm {
    /// KVM does not count instructions: who limits them is refused when the machine is made.
    fn run(
        &mut self,
        machine: &mut Machine,
        stop: &Stop,
        _instructions: Option<u64>,
        console: &mut Console,
    ) -> Result<End> {
        // Where the software engine was in a turn matters to nobody who goes on here, and the other way round.
        machine.cut_off = None;
        let end = self.run_all(machine, stop, console);
        machine.cut_off = None;
        end
    }

    fn local_apic(&self, platform: &Platform) -> LocalApic {
        match self.irqchip {
            IrqchipKind::User => LocalApic::of(platform),
            IrqchipKind::Kernel => irqchip::LOCAL_APIC,
        }
    }

    fn sees(&self) -> Sees {
        Sees { instructions: false, lapics: self.irqchip == IrqchipKind::User }
    }
}

fn refused(what: &str, cause: errno::Error) -> Error {
    Error::Host(format!("KVM refuses {what}: {cause}; use --engine soft")).because(cause)
}

/// The main thread: the console, the stop, and the devices while all processors are busy or asleep.
fn attend(shared: &Shared<'_>, stop: &Stop, console: &mut Console, main: &EventFd) -> Result<End> {
    wait::be_punctual();
    let mut last_handler_check = Instant::now();
    loop {
        let mut world = shared.lock();
        // While the software engine has the machine, the devices are its own business.
        let native = world.coordinator.is_none_or(|coordinator| !coordinator.takes_all());
        if native {
            world.update_devices();
        }
        let printing = world.machine.board.chipset.has_output();
        world.machine.exchange(console)?;
        world.machine.answer(console, false);
        if let Some(cause) = stop.cause() {
            return Ok(cause.into());
        }
        world.has_input = world.machine.can_be_typed_at(console);
        // What was typed may have raised an interrupt.
        if native {
            world.update_devices();
        } else {
            world.wake_all();
        }
        if stop.takes_pause() || world.machine.is_pause_due() {
            world.ask_for_pause();
        }
        if world.end.is_some() {
            // It has been said already; this is not looked at.
            return Ok(End::Halted);
        }
        let now = world.clock.now();
        let activity = if native { world.activity() } else { Activity::AWAKE };
        let has_input = world.has_input;
        if native && let Ahead::End(end) = world.machine.ahead(now, activity, has_input) {
            return Ok(end);
        }
        let next = world.machine.next_event();
        if activity.masked
            && let Some(next) = next
            && next > now
        {
            // Nothing but an NMI could end this, and nobody sees how long it takes.
            let end = world.machine.end_of_time;
            world.clock.set(next.min(end));
            continue;
        }
        let mut until = now.saturating_add(world.clock.cycles(PATIENCE));
        if native {
            let next =
                next.into_iter().chain(world.machine.pause_time().filter(|&time| time > now));
            until = next.fold(until, u64::min);
        }
        if printing {
            until = until.min(now.saturating_add(world.clock.cycles(PRINTING)));
        }
        if last_handler_check.elapsed() >= HANDLER_CHECK_PERIOD {
            last_handler_check = Instant::now();
            world.kick_long_runs();
        }
        if !activity.asleep {
            let left = HANDLER_CHECK_PERIOD.saturating_sub(last_handler_check.elapsed());
            until = until.min(now.saturating_add(world.clock.cycles(left)));
        }
        world.main_until = until;
        let time = world.clock.until(now, until);
        shared.unlock(world);
        wait::wait([Some(main), console.input_event()], Some(stop.event()), time);
    }
}

#[cfg(test)]
mod debugger_tests;
#[cfg(test)]
mod dirty_log_tests;
#[cfg(test)]
mod reset_tests;
#[cfg(test)]
mod tests;
