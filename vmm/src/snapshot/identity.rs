//! What kind of machine a state is of.

use serde::{Deserialize, Serialize};

use crate::boot::Payload;
use crate::boot::memory::{RamLayout, host_memory};
use crate::config::{self, Boot, Config, CycleCosts, Limits};
use crate::engine::soft::{Timing, Warm};
use crate::engine::{Count, EngineKind, IrqchipKind};
use crate::error::{Error, Result};
use crate::input::Script;
use crate::platform::Isa;

/// What of a [`Config`] the later course of the guest depends on, but for what it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields of `Config`")]
pub struct Identity {
    pub cpu: String,
    pub isa: Isa,
    pub lvtpc_auto_mask: bool,
    pub cpus: u8,
    /// Bytes of RAM.
    pub memory: u64,
    pub boot: Boot,
    pub clock_hz: u64,
    pub start_time: i64,
    pub skid: u64,
    pub count: Count,
    pub hypervisor_bit: bool,
    pub no_cache: bool,
    pub timing: Timing,
    pub warm: Warm,
    pub test_device: bool,
    pub pipes: bool,
    /// It runs a kernel, and not raw bytes.
    pub runs_a_kernel: bool,
}

impl Identity {
    /// Of a machine with this configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let Config {
            personality,
            platform: _,
            isa,
            lvtpc_auto_mask,
            cpus,
            ram,
            payload,
            boot,
            clock_hz,
            start_time,
            skid,
            count,
            hypervisor_bit,
            no_cache,
            // The same for all machines of the command line.
            cycle_costs: _,
            timing,
            warm,
            test_device,
            pipes,
            // Part of the state.
            script: _,
            // What runs it, and for how long.
            engine: _,
            irqchip: _,
            limits: _,
        } = config;
        Self {
            cpu: personality.name.into(),
            isa: *isa,
            lvtpc_auto_mask: *lvtpc_auto_mask,
            cpus: *cpus,
            memory: ram.size(),
            boot: *boot,
            clock_hz: *clock_hz,
            start_time: *start_time,
            skid: *skid,
            count: *count,
            hypervisor_bit: *hypervisor_bit,
            no_cache: *no_cache,
            timing: *timing,
            warm: *warm,
            test_device: *test_device,
            pipes: *pipes,
            runs_a_kernel: payload.is_kernel(),
        }
    }

    /// The configuration of such a machine, which runs `payload`.
    ///
    /// # Errors
    /// There is no such machine, or not on this host.
    pub fn config(&self, payload: Payload) -> Result<Config> {
        let (personality, platform) = config::personality(&self.cpu)?;
        if !config::CLOCKS.contains(&self.clock_hz) {
            return Err(Error::Input(format!("a snapshot of a clock of {} Hz", self.clock_hz)));
        }
        let ram = RamLayout::new(self.memory, host_memory())?;
        if ram.size() != self.memory {
            let text =
                format!("a snapshot of {} bytes of memory, expected whole pages", self.memory);
            return Err(Error::Input(text));
        }
        Ok(Config {
            personality,
            platform,
            isa: self.isa,
            lvtpc_auto_mask: self.lvtpc_auto_mask,
            cpus: config::processors(self.cpus.into(), platform)?,
            ram,
            payload,
            boot: self.boot,
            clock_hz: self.clock_hz,
            start_time: self.start_time,
            skid: self.skid,
            script: Script::default(),
            engine: EngineKind::default(),
            count: self.count,
            hypervisor_bit: self.hypervisor_bit,
            no_cache: self.no_cache,
            cycle_costs: CycleCosts::FLAT,
            timing: self.timing,
            warm: self.warm,
            test_device: self.test_device,
            pipes: self.pipes,
            irqchip: IrqchipKind::default(),
            limits: Limits::default(),
        })
    }
}
