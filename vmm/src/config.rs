//! What a run is: the command line, checked.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use pmu_model::{Personality, nearest};
pub use x86_cpu::timing::CycleCosts;

use crate::boot::memory::{RamLayout, host_memory, parse_size};
use crate::boot::{Image, Payload, Room};
use crate::devices::rtc;
use crate::engine::soft::{Timing, Warm};
use crate::engine::{Count, EngineKind, IrqchipKind};
use crate::error::{Error, Result};
use crate::input::Script;
use crate::platform::{Isa, Platform};
use crate::wording::quoted;

/// Bytes of the longest script of `--input`: 16 MiB.
pub const MAX_SCRIPT: u64 = 16 << 20;

/// The clocks that a machine can have, in Hz.
pub const CLOCKS: RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;

/// How the first processor comes to the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boot {
    /// The VMM: the payload's first instruction is the machine's first.
    #[default]
    Direct,
    /// The boot ROM, from the reset vector.
    Firmware,
}

/// Everything that decides what a machine does. On the software engine, two runs with equal
/// configurations and without console input are equal.
#[derive(Clone, Debug)]
pub struct Config {
    /// The processor whose PMU the guest sees.
    pub personality: &'static Personality,
    /// CPUID, instruction set and the rest of that processor.
    pub platform: &'static Platform,
    /// Which instructions beside its own execute.
    pub isa: Isa,
    /// Whether delivering a PMI sets the mask bit of LVTPC; the personality says what its processor
    /// does.
    pub lvtpc_auto_mask: bool,
    /// Processors, 1 to [`Platform::max_processors`].
    pub cpus: u8,
    /// Memory.
    pub ram: RamLayout,
    /// What runs.
    pub payload: Payload,
    /// How it is started.
    pub boot: Boot,
    /// Processor clock in Hz.
    pub clock_hz: u64,
    /// Seconds since 1970 that the real-time clock shows at power-on.
    pub start_time: i64,
    /// Instructions between an overflow and its PMI.
    pub skid: u64,
    /// What is typed.
    pub script: Script,
    /// What executes the guest.
    pub engine: EngineKind,
    /// What the counters count by.
    pub count: Count,
    /// Whether CPUID shows the hypervisor bit.
    pub hypervisor_bit: bool,
    /// Whether the software engine does without the cache of translated code and the software TLB.
    pub no_cache: bool,
    /// What execution on the software engine takes in cycles.
    pub cycle_costs: CycleCosts,
    /// Whose clock virtual time is, on the software engine.
    pub timing: Timing,
    /// When the models of the micro-architecture are told of execution.
    pub warm: Warm,
    /// Whether there is the device that kernel test suites expect.
    pub test_device: bool,
    /// Whether there are the pipes of `vpmu exec`, for a command's standard streams.
    pub pipes: bool,
    /// Where the interrupt controllers are, if KVM executes it.
    pub irqchip: IrqchipKind,
    /// When the run is cut off.
    pub limits: Limits,
}

impl Config {
    /// What the command line makes of nothing but a processor, memory and a payload.
    ///
    /// # Errors
    /// No such processor.
    pub fn new(cpu: &str, ram: RamLayout, payload: Payload) -> Result<Self> {
        let (personality, platform) = personality(cpu)?;
        Ok(Self {
            personality,
            platform,
            isa: Isa::Strict,
            lvtpc_auto_mask: personality.lvtpc_auto_mask,
            cpus: 1,
            ram,
            payload,
            boot: Boot::Direct,
            clock_hz: platform.clock_hz,
            start_time: rtc::DEFAULT_START,
            skid: 0,
            script: Script::default(),
            engine: EngineKind::Soft,
            count: Count::Exact,
            hypervisor_bit: false,
            no_cache: false,
            cycle_costs: CycleCosts::FLAT,
            timing: Timing::Auto,
            warm: Warm::Counting,
            test_device: false,
            pipes: false,
            irqchip: IrqchipKind::User,
            limits: Limits::default(),
        })
    }
}

/// When a run is cut off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Host time.
    pub timeout: Option<Duration>,
    /// Instructions retired by all processors together.
    pub instructions: Option<u64>,
}

/// The personality and its platform.
///
/// # Errors
/// No such personality; the message lists the known ones.
pub fn personality(name: &str) -> Result<(&'static Personality, &'static Platform)> {
    let found = Personality::by_name(name).and_then(|p| Some((p, Platform::by_name(p.name)?)));
    found.ok_or_else(|| {
        let known: Vec<_> = Personality::ALL.iter().map(|p| p.name).collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(hint) if known.len() > 1 => format!("; did you mean {hint}?"),
            _ => String::new(),
        };
        Error::Usage(format!(
            "unknown CPU {}; known: {}{hint} (--cpu help describes them)",
            quoted(name),
            known.join(", ")
        ))
    })
}

/// The number of processors that `--smp` asks for.
///
/// # Errors
/// None, or more than there can be of this part.
pub fn processors(count: u64, platform: &Platform) -> Result<u8> {
    let most = platform.max_processors;
    u8::try_from(count).ok().filter(|count| (1..=most).contains(count)).ok_or_else(|| {
        let name = platform.name;
        Error::Usage(format!("--smp {count}: a machine has 1 to {most} processors of {name}"))
    })
}

/// The known processors, a line each.
#[must_use]
pub fn known_cpus() -> String {
    let known = Personality::ALL.iter().filter_map(|p| Platform::by_name(p.name));
    known.map(|p| format!("{:<8}{}\n", p.name, p.description)).collect()
}

/// The memory that `--mem` asks for.
///
/// # Errors
/// No size, or one that the guest or the host cannot do with.
pub fn memory(size: &str) -> Result<RamLayout> {
    Ok(RamLayout::new(parse_size(size)?, host_memory())?)
}

/// The payload of `--flat FILE@ADDR`.
///
/// # Errors
/// No address, or no file.
pub fn flat(text: &str, ram: &RamLayout) -> Result<Payload> {
    let wrong = || {
        Error::Usage(format!(
            "--flat {text}: expected FILE@ADDR, as in boot.bin@0x7c00 or boot.bin@1M"
        ))
    };
    let (file, address) = text.rsplit_once('@').ok_or_else(wrong)?;
    let address = parse_address(address).ok_or_else(wrong)?;
    let image = Image::read(Path::new(file), &Room::memory("--flat", ram))?;
    Ok(Payload::Flat { image, address })
}

/// An address: hexadecimal with 0x, or decimal as [`parse_size`] takes it.
pub(crate) fn parse_address(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => parse_size(text).ok(),
    }
}

/// The script of `--input` or of each `--expect`, for a machine with this clock.
///
/// # Errors
/// No such file, one of more than [`MAX_SCRIPT`] bytes, or a line that is no input.
pub fn script(path: Option<&PathBuf>, expected: &[String], clock_hz: u64) -> Result<Script> {
    let Some(path) = path else {
        let mut script = Script::default();
        for exchange in expected {
            let wrong = |problem| Error::Usage(format!("--expect {exchange:?}: {problem}"));
            script.expect(exchange).map_err(wrong)?;
        }
        return Ok(script);
    };
    let wrong = |problem| Error::Input(format!("--input {}: {problem}", path.display()));
    let room = Room { option: "--input", most: MAX_SCRIPT, place: "the longest script" };
    let text = String::from_utf8(room.read(path)?)
        .map_err(|_| wrong("is no text in UTF-8".to_string()))?;
    Script::parse(&text, clock_hz).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cpu_lists_the_known_ones() {
        let error = personality("k9").unwrap_err();
        assert_eq!(error.status(), 2);
        assert!(
            error
                .to_string()
                .contains("known: p55c, ppro, pii, p6, pm, k7, k8, knc; did you mean k7?"),
            "{error}"
        );
        assert!(personality("k8").is_ok());
    }

    #[test]
    fn each_known_cpu_has_a_line() {
        let text = known_cpus();
        assert_eq!(text.lines().count(), Personality::ALL.len());
        assert!(text.lines().any(|line| line == "k8      AMD Opteron 846 (revision E4), 2.0 GHz"));
    }

    /// An SE10P has 61 cores of four threads; elsewhere there are the identifiers of local APICs, without
    /// FFh and one for the I/O APIC.
    #[test]
    fn each_part_has_its_most_processors() {
        for platform in Platform::ALL {
            let most = if platform.name == "knc" { 244 } else { 254 };
            for count in [1, 2, 8, 9, most] {
                assert_eq!(processors(count, platform).unwrap(), count as u8);
            }
            for count in [0, most + 1, 255, 256, 257, u64::MAX] {
                let error = processors(count, platform).unwrap_err();
                let name = platform.name;
                let text = format!("--smp {count}: a machine has 1 to {most} processors of {name}");
                assert_eq!((error.status(), error.to_string()), (2, text));
            }
        }
    }

    #[test]
    fn flat_needs_an_address() {
        let ram = RamLayout::new(2 << 20, None).unwrap();
        for text in ["boot.bin", "boot.bin@", "boot.bin@top", "boot.bin@0xg", "boot.bin@1X"] {
            assert_eq!(flat(text, &ram).unwrap_err().status(), 2, "{text}");
        }
        // The file itself is missing.
        assert_eq!(flat("/nonexistent/boot.bin@0x7c00", &ram).unwrap_err().status(), 4);
    }

    #[test]
    fn an_address_may_have_a_suffix() {
        for (text, address) in
            [("0x7C00", 0x7C00), ("4096", 0x1000), ("64k", 0x1_0000), ("1M", 0x10_0000)]
        {
            assert_eq!(parse_address(text), Some(address), "{text}");
        }
        for text in ["", "-1", "+1", "0x", "1MB", "16777216T", "0x10000000000000000"] {
            assert_eq!(parse_address(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let ram = RamLayout::new(2 << 20, None).unwrap();
        let error = flat("/dev/zero@0x7c00", &ram).unwrap_err();
        let text =
            "--flat /dev/zero: has more than the 2097152 bytes of the guest's memory; see --mem";
        assert_eq!((error.status(), error.to_string().as_str()), (4, text));
        let error = script(Some(&"/dev/zero".into()), &[], 1).unwrap_err();
        let text = "--input /dev/zero: has more than the 16777216 bytes of the longest script";
        assert_eq!((error.status(), error.to_string().as_str()), (4, text));
    }

    #[test]
    fn memory_that_is_no_memory_is_refused() {
        for text in ["0", "1", "x", "999999T"] {
            assert_eq!(memory(text).unwrap_err().status(), 2, "{text}");
        }
    }
}
